/* The wire: what it promises the scenarios, on a real Redis. A scenario that is green because its message
 * was never held proves nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "base/clock.h"
#include "lib/redis_server.h"
#include "spec/wire.h"

#define WAIT_MS 10000

static struct redis_server redis;
static struct wire *wire;
static size_t link_number;
static char path[120];

static int open_wire(void **state)
{
	redis_server_start(&redis, NULL);
	wire = wire_new();
	snprintf(path, sizeof path, "%s/wire", redis.directory);
	link_number = wire_link(wire, WIRE_REDIS, path, redis.socket);
	return 0;
}

static int close_wire(void **state)
{
	wire_free(wire);
	redis_server_stop(&redis);
	return 0;
}

static redisContext *client(void)
{
	redisContext *context = redisConnectUnix(path);
	assert_true(context && !context->err);
	return context;
}

static void send_command(redisContext *context, const char *command)
{
	int done = 0;
	assert_int_equal(redisAppendCommand(context, command), REDIS_OK);
	while (!done)
		assert_int_equal(redisBufferWrite(context, &done), REDIS_OK);
}

static void expect_redis(const char *command, const char *answer)
{
	char *seen = redis_server_command(&redis, command);
	assert_string_equal(seen, answer);
	free(seen);
}

static void wait_for_redis(const char *command, const char *answer)
{
	for (int64_t until_ns = deadline_in_ms(WAIT_MS);;) {
		char *seen = redis_server_command(&redis, command);
		bool same = strcmp(seen, answer) == 0;
		free(seen);
		if (same)
			return;
		assert_true(clock_boottime_ns() < until_ns);
		usleep(1000);
	}
}

static void wait_until_met(const char *name, bool answer)
{
	for (int64_t until_ns = deadline_in_ms(WAIT_MS); !wire_met(wire, link_number, name, answer); usleep(1000))
		assert_true(clock_boottime_ns() < until_ns);
}

static void a_message_without_a_rule_passes(void **state)
{
	redisContext *c = client();
	redisReply *reply = redisCommand(c, "SET a 1");
	assert_string_equal(reply->str, "OK");
	freeReplyObject(reply);
	redisFree(c);
	expect_redis("GET a", "1");
}

static void a_held_message_and_what_follows_it_wait_and_keep_their_order(void **state)
{
	redisContext *c = client();
	wire_rule(wire, link_number, "set", false, WIRE_HOLD, NULL, 0);
	send_command(c, "SET a 1");
	send_command(c, "APPEND a 2");
	wait_until_met("set", false);
	expect_redis("EXISTS a", "0");
	assert_true(wire_deliver(wire, link_number, "set", false));
	wait_for_redis("GET a", "12");
	redisFree(c);
}

static void a_held_message_arrives_after_its_sender_has_gone(void **state)
{
	redisContext *c = client();
	wire_rule(wire, link_number, "set", false, WIRE_HOLD, NULL, 0);
	send_command(c, "SET a 1");
	wait_until_met("set", false);
	redisFree(c);
	expect_redis("EXISTS a", "0");
	assert_true(wire_deliver(wire, link_number, "set", false));
	wait_for_redis("GET a", "1");
}

static void a_rule_is_for_one_message(void **state)
{
	redisContext *c = client();
	wire_rule(wire, link_number, "set", false, WIRE_LOSE, NULL, 0);
	send_command(c, "SET a 1");
	wait_until_met("set", false);
	redisReply *reply = redisCommand(c, "SET b 1"); /* the answer is that to the second */
	(void)reply;
	redisFree(c);
	expect_redis("EXISTS a", "0");
	wait_for_redis("GET b", "1");
}

static void a_cut_message_does_not_arrive_and_ends_the_connection(void **state)
{
	redisContext *c = client();
	wire_rule(wire, link_number, "set", false, WIRE_CUT, NULL, 0);
	assert_null(redisCommand(c, "SET a 1"));
	redisFree(c);
	expect_redis("EXISTS a", "0");
}

static void a_cut_answer_ends_the_connection_after_the_effect(void **state)
{
	redisContext *c = client();
	redisReply *reply = redisCommand(c, "PING");
	freeReplyObject(reply);
	wire_rule(wire, link_number, "set", true, WIRE_CUT, NULL, 0);
	assert_null(redisCommand(c, "SET a 1"));
	redisFree(c);
	expect_redis("GET a", "1");
}

static void only_the_answer_to_that_message_is_held(void **state)
{
	redisContext *c = client();
	redisReply *reply;
	wire_rule(wire, link_number, "incr", true, WIRE_HOLD, NULL, 0);
	send_command(c, "SET a 5");
	send_command(c, "INCR a");
	assert_int_equal(redisGetReply(c, (void **)&reply), REDIS_OK); /* of the SET */
	assert_string_equal(reply->str, "OK");
	freeReplyObject(reply);
	wait_until_met("incr", true);
	expect_redis("GET a", "6");
	assert_true(wire_deliver(wire, link_number, "incr", true));
	assert_int_equal(redisGetReply(c, (void **)&reply), REDIS_OK);
	assert_int_equal(reply->integer, 6);
	freeReplyObject(reply);
	redisFree(c);
}

static void a_copied_message_passes_and_comes_again(void **state)
{
	redisContext *c = client();
	wire_rule(wire, link_number, "incr", false, WIRE_COPY, NULL, 0);
	redisReply *reply = redisCommand(c, "INCR a");
	assert_int_equal(reply->integer, 1);
	freeReplyObject(reply);
	assert_true(wire_deliver(wire, link_number, "incr", false));
	expect_redis("GET a", "2");
	reply = redisCommand(c, "INCR a"); /* the connection has got no answer but its own */
	assert_int_equal(reply->integer, 3);
	freeReplyObject(reply);
	redisFree(c);
}

static void a_mute_wire_keeps_everything_and_loses_nothing(void **state)
{
	redisContext *c = client();
	wire_mute(wire, link_number, true);
	send_command(c, "SET a 1");
	expect_redis("EXISTS a", "0");
	wire_mute(wire, link_number, false);
	wait_for_redis("GET a", "1");
	redisFree(c);
}

static void an_unplugged_wire_refuses(void **state)
{
	redisContext *c = client();
	wire_plug(wire, link_number, false);
	assert_null(redisCommand(c, "SET a 1"));
	redisFree(c);
	c = client();
	assert_null(redisCommand(c, "SET a 1"));
	redisFree(c);
	wire_plug(wire, link_number, true);
	c = client();
	redisReply *reply = redisCommand(c, "SET a 1");
	assert_non_null(reply);
	freeReplyObject(reply);
	redisFree(c);
}

static int empty_redis(void **state)
{
	wire_reset(wire);
	free(redis_server_command(&redis, "FLUSHALL"));
	return 0;
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN); /* hiredis writes into connections that are gone */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_message_without_a_rule_passes, empty_redis),
		cmocka_unit_test_setup(a_held_message_and_what_follows_it_wait_and_keep_their_order, empty_redis),
		cmocka_unit_test_setup(a_held_message_arrives_after_its_sender_has_gone, empty_redis),
		cmocka_unit_test_setup(a_rule_is_for_one_message, empty_redis),
		cmocka_unit_test_setup(a_cut_message_does_not_arrive_and_ends_the_connection, empty_redis),
		cmocka_unit_test_setup(a_cut_answer_ends_the_connection_after_the_effect, empty_redis),
		cmocka_unit_test_setup(only_the_answer_to_that_message_is_held, empty_redis),
		cmocka_unit_test_setup(a_copied_message_passes_and_comes_again, empty_redis),
		cmocka_unit_test_setup(a_mute_wire_keeps_everything_and_loses_nothing, empty_redis),
		cmocka_unit_test_setup(an_unplugged_wire_refuses, empty_redis),
	};
	return cmocka_run_group_tests(tests, open_wire, close_wire);
}
