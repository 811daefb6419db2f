/* How the backends are, at /readyz and in the log of an instance that nobody asks anything of.
 *
 * Bugs it guards against: a dead Redis that an idle instance goes on calling reachable, since no call of its own
 * has failed; warnings that are those of the start for ever; an outage that leaves no line in the log, or
 * thousands; a reason (WRONGPASS) that nobody is told; a role that has lost a right, while all is called well
 * and each write is a 500; holds that do not end, and sales that are refused, for want of a session that nobody speaks of.
 */
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

#include "lib/quiet.h"
#include "lib/service.h"

static struct quiet shop;
static struct command serve;
static struct service instance; /* its address, for calls */

static int servers_start(void **state)
{
	quiet_start(NULL, NULL);
	quiet_open(&shop);
	return 0;
}

static int servers_end(void **state)
{
	quiet_end();
	return 0;
}

static void key_create(const char *principal, char ret_key[80])
{
	const char *const arguments[] = {"key", "create", "--principal", principal, "--channel", "pos", NULL};
	struct command command = command_run(arguments, shop.variables);
	assert_int_equal(sscanf(command.out, "%79s", ret_key), 1);
	command_done(&command);
}

static void serve_start_with(const char *const *variables)
{
	char line[200] = "";
	serve = command_start((const char *[]){"serve", "--listen", "127.0.0.1:0", NULL}, variables);
	for (int i = 0; i < 20000 && !strchr(line, '\n'); i++) {
		ssize_t size = pread(serve.out_fd, line, sizeof line - 1, 0);
		line[size > 0 ? size : 0] = 0;
		usleep(1000);
	}
	assert_int_equal(sscanf(line, "ready %63s", instance.url), 1);
	assert_int_equal(sscanf(instance.url, "http://127.0.0.1:%d", &instance.port), 1);
}

static void serve_start(void)
{
	serve_start_with(shop.variables);
}

/* Until this member is so and a warning with this word is there, or is not. */
static void wait_ready(const char *member, bool value, const char *warning, bool there)
{
	bool done = false;
	for (int i = 0; i < 6000 && !done; i++) {
		struct answer ready = service_try(&instance, NULL, "GET", "/readyz", NULL, NULL);
		assert_int_equal(ready.status, 200);
		done = json_is_true(answer_at(&ready, member)) == value && !strstr(ready.body, warning) == !there;
		if (i == 5999)
			print_error("%s\n", ready.body);
		answer_done(&ready);
		usleep(done ? 0 : 10000);
	}
	assert_true(done);
}

static void wait_line(const char *text)
{
	for (int i = 0; i < 6000; i++) {
		char log[20000];
		ssize_t size = pread(serve.err_fd, log, sizeof log - 1, 0);
		log[size > 0 ? size : 0] = 0;
		if (strstr(log, text))
			return;
		usleep(10000);
	}
	fail_msg("no line with %s", text);
}

/* A lease, renewed meanwhile, says nothing about Redis. */
static void redis_stays_away(void)
{
	for (int i = 0; i < 100; i++) {
		struct answer ready = service_try(&instance, NULL, "GET", "/readyz", NULL, NULL);
		assert_true(json_is_false(answer_at(&ready, "redis_reachable")));
		assert_string_equal(answer_string(&ready, "status"), "degraded");
		answer_done(&ready);
		usleep(10000);
	}
}

static int lines_with(const char *text)
{
	int count = 0;
	for (const char *at = serve.err; (at = strstr(at, text)); at++)
		count++;
	return count;
}

static void what_goes_and_comes_back_is_told_once_though_nobody_asks(void **state)
{
	serve_start();
	wait_ready("redis_reachable", true, "has lost", false);
	quiet_sql(&shop, "ALTER TABLE lastunit.ledger DISABLE TRIGGER ledger_is_append_only");
	redis_server_kill(&quiet_redis);
	wait_ready("redis_reachable", false, "Redis cannot be reached", true);
	redis_stays_away();
	wait_ready("redis_reachable", false, "lastunit.ledger has lost ledger_is_append_only", true);
	quiet_sql(&shop, "ALTER TABLE lastunit.ledger ENABLE ALWAYS TRIGGER ledger_is_append_only");
	redis_server_restart(&quiet_redis);
	wait_ready("redis_reachable", true, "Redis cannot be reached", false);
	wait_ready("redis_reachable", true, "has lost", false);
	pg_server_stop(&quiet_pg, PG_SERVER_FAST);
	wait_ready("database_reachable", false, "has lost", false);
	wait_line("warn database_unreachable error=");
	pg_server_restart(&quiet_pg, PG_SERVER_FAST);
	wait_ready("database_reachable", true, "has lost", false);
	wait_ready("lease", true, "has lost", false);
	kill(serve.pid, SIGTERM);
	command_wait(&serve);
	assert_int_equal(serve.exit_code, 0);
	if (lines_with("warn redis_unreachable error=\"cannot connect to Redis at ") != 1 ||
	    lines_with("info redis_back redis=") != 1 || lines_with("warn database_unreachable error=") != 1 ||
	    lines_with("info database_back") != 1 ||
	    lines_with("epoch_closing namespace=") !=
	        lines_with("reason=\"PostgreSQL was restarted, or is another one\"") + lines_with("reason=reported"))
		fail_msg("%s", serve.err);
	command_done(&serve);
}

/* A sale, again and again under the key that it shall have once it may be made. */
static int sell(const char *key, const char *sku, char ret_code[40])
{
	char body[100];
	snprintf(body, sizeof body, "{\"lines\":[{\"sku\":\"%s\",\"quantity\":1}]}", sku);
	struct answer answer = service_try(&instance, key, "POST", "/v1/checkouts", "Idempotency-Key: rights\r\n", body);
	int status = answer.status;
	snprintf(ret_code, 40, "%s", answer_string(&answer, "code"));
	answer_done(&answer);
	return status;
}

static void expect_status(const char *status)
{
	struct answer ready = service_try(&instance, NULL, "GET", "/readyz", NULL, NULL);
	assert_string_equal(answer_string(&ready, "status"), status);
	answer_done(&ready);
}

static void a_right_that_is_lost_is_named_and_what_needs_it_is_503(void **state)
{
	static const char lost[] = "lastunit_service has lost 1 right: INSERT ON lastunit.ledger.";
	char key[80], code[40];
	quiet_sku(&shop, "R", 3);
	key_create("till", key);
	serve_start();
	wait_ready("lease", true, "has lost", false);
	quiet_sql(&shop, "REVOKE INSERT ON lastunit.ledger FROM lastunit_service");
	for (int i = 0; i < 20; i++) {
		assert_int_equal(sell(key, "R", code), 503);
		assert_string_equal(code, "database_unavailable");
	}
	wait_ready("database_reachable", true, lost, true);
	expect_status("degraded");
	quiet_sql(&shop, "GRANT INSERT ON lastunit.ledger TO lastunit_service");
	assert_int_equal(sell(key, "R", code), 201);
	wait_ready("database_reachable", true, "has lost", false);
	expect_status("ok");
	/* Of the schema: its tables are not forbidden then, there are none. */
	quiet_sql(&shop, "REVOKE USAGE ON SCHEMA lastunit FROM lastunit_service");
	assert_int_equal(sell(key, "R", code), 503);
	assert_string_equal(code, "database_unavailable");
	quiet_sql(&shop, "GRANT USAGE ON SCHEMA lastunit TO lastunit_service");
	assert_int_equal(sell(key, "R", code), 201);
	kill(serve.pid, SIGTERM);
	command_wait(&serve);
	assert_int_equal(serve.exit_code, 0);
	if (lines_with("error write_forbidden sqlstate=42501 message=\"permission denied for table ledger\"") != 1 ||
	    lines_with(lost) != 1 || lines_with("warn rights_missing why=") != 1 || lines_with("info rights_back") != 1 ||
	    lines_with("operation_failed"))
		fail_msg("%s", serve.err);
	command_done(&serve);
}

/* A disk that is full stops all sales, while who looks at PostgreSQL finds it well. */
static void a_server_without_room_is_named_and_writes_are_503(void **state)
{
	static const char full[] = "could not extend file \\\"base/1\\\": No space left on device (SQLSTATE 53100)";
	char key[80], code[40];
	quiet_sku(&shop, "FULL", 3);
	key_create("desk", key);
	serve_start();
	wait_ready("lease", true, "No space left", false);
	quiet_sql(
		&shop,
		"CREATE FUNCTION public.full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'could not "
		"extend file \"base/1\": No space left on device' USING ERRCODE = '53100'; END $$");
	quiet_sql(&shop, "CREATE TRIGGER full_disk BEFORE INSERT ON lastunit.checkout EXECUTE FUNCTION public.full_disk()");
	for (int i = 0; i < 20; i++) {
		assert_int_equal(sell(key, "FULL", code), 503);
		assert_string_equal(code, "database_unavailable");
	}
	wait_ready("database_reachable", true, full, true);
	expect_status("degraded");
	quiet_sql(&shop, "DROP FUNCTION public.full_disk() CASCADE");
	assert_int_equal(sell(key, "FULL", code), 201);
	wait_ready("database_reachable", true, "No space left", false);
	expect_status("ok");
	kill(serve.pid, SIGTERM);
	command_wait(&serve);
	assert_int_equal(serve.exit_code, 0);
	if (lines_with("error write_refused sqlstate=53100 message=\"could not extend file") != 1)
		fail_msg("%s", serve.err);
	command_done(&serve);
}

/* Who has a session keeps it and finds all well; who comes to need one has none. */
static void a_part_that_gets_no_session_is_named(void **state)
{
	static const char none[] = "PostgreSQL gives no session to ", reason[] = "too many connections for role ";
	char key[80], code[40], url[200];
	const char *variables[] = {url, shop.variables[1], NULL};
	quiet_sku(&shop, "NARROW", 3);
	key_create("stall", key);
	quiet_sql(&shop, "CREATE ROLE narrow LOGIN; GRANT lastunit_service TO narrow");
	snprintf(url, sizeof url, "LASTUNIT_DATABASE_URL=host=%s port=5432 user=narrow dbname=%s", quiet_pg.directory,
	         strstr(shop.url, "dbname=") + strlen("dbname="));
	serve_start_with(variables);
	wait_ready("lease", true, none, false);
	quiet_sql(&shop, "ALTER ROLE narrow CONNECTION LIMIT 1");
	assert_int_equal(sell(key, "NARROW", code), 503);
	assert_string_equal(code, "database_unavailable");
	wait_ready("database_reachable", true, "writer", true);
	wait_ready("lease", true, reason, true);
	expect_status("degraded");
	/* Of its own accord, too. */
	quiet_sql(
		&shop,
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'narrow' AND application_name LIKE '% reaper'");
	wait_ready("database_reachable", true, "reaper", true);
	quiet_sql(&shop, "ALTER ROLE narrow CONNECTION LIMIT -1");
	assert_int_equal(sell(key, "NARROW", code), 201);
	wait_ready("database_reachable", true, none, false);
	expect_status("ok");
	wait_line("info sessions_back");
	kill(serve.pid, SIGTERM);
	command_wait(&serve);
	assert_int_equal(serve.exit_code, 0);
	if (lines_with("warn sessions_refused parts=") != 1 || lines_with(reason) != 1 ||
	    lines_with("info sessions_back") != 1 || lines_with("database_unreachable"))
		fail_msg("%s", serve.err);
	command_done(&serve);
}

/* It answers, so it is not away; and who looks for the cause of slow reads finds it. */
static void what_redis_refuses_is_told_in_its_words(void **state)
{
	char key[80], code[40];
	quiet_sku(&shop, "NOPERM", 3);
	key_create("booth", key);
	serve_start();
	wait_ready("lease", true, "Redis refuses", false);
	free(redis_server_command(&quiet_redis, "ACL SETUSER default -set"));
	assert_int_equal(sell(key, "NOPERM", code), 201);
	wait_ready("lease", false, "Redis refuses what the cache needs: NOPERM", true);
	free(redis_server_command(&quiet_redis, "ACL SETUSER default +@all"));
	wait_ready("lease", true, "Redis refuses", false);
	wait_line("info redis_refuses_no_more");
	kill(serve.pid, SIGTERM);
	command_wait(&serve);
	assert_int_equal(serve.exit_code, 0);
	if (lines_with("warn redis_refuses error=\"") != 1 || !strstr(serve.err, "NOPERM") ||
	    lines_with("redis_unreachable"))
		fail_msg("%s", serve.err);
	command_done(&serve);
}

/* As to an instance of an older release, once the schema is that of a newer one. */
static void webhooks_whose_statements_are_refused_are_in_the_log(void **state)
{
	serve_start();
	wait_ready("lease", true, "has lost", false);
	quiet_sql(&shop, "ALTER TABLE lastunit.webhook RENAME COLUMN url TO address");
	wait_line("error webhooks_failed sqlstate=42703 message=\"column w.url does not exist\"");
	quiet_sql(&shop, "ALTER TABLE lastunit.webhook RENAME COLUMN address TO url");
	kill(serve.pid, SIGTERM);
	command_wait(&serve);
	assert_int_equal(serve.exit_code, 0);
	command_done(&serve);
}

/* It ends by itself, as its address is looked at last. */
static void why_redis_refuses_is_in_the_log(void **state)
{
	char url[300];
	snprintf(url, sizeof url, "unix://nobody:wrong@%s", quiet_redis.socket);
	struct command refused = command_run((const char *[]){"serve", "--listen", "nowhere", "--redis-url", url, NULL},
	                                     shop.variables);
	assert_int_equal(refused.exit_code, 2);
	if (!strstr(refused.err, "warn redis_unreachable error=\"") || !strstr(refused.err, "WRONGPASS"))
		fail_msg("%s", refused.err);
	assert_null(strstr(refused.err, "wrong@"));
	command_done(&refused);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_goes_and_comes_back_is_told_once_though_nobody_asks),
		cmocka_unit_test(a_right_that_is_lost_is_named_and_what_needs_it_is_503),
		cmocka_unit_test(a_server_without_room_is_named_and_writes_are_503),
		cmocka_unit_test(a_part_that_gets_no_session_is_named),
		cmocka_unit_test(what_redis_refuses_is_told_in_its_words),
		cmocka_unit_test(webhooks_whose_statements_are_refused_are_in_the_log),
		cmocka_unit_test(why_redis_refuses_is_in_the_log),
	};
	return cmocka_run_group_tests(tests, servers_start, servers_end);
}
