/* Opening and sweeping a namespace: what this Redis is, whether it really works, and what is left behind. */
#include "cache/cell.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/metrics.h"
#include "base/text.h"
#include "lib/redis_server.h"

#define FAR deadline_in_ms(30000)

static struct redis_server server;
static struct arena arena;

static struct redis *client(const char *url)
{
	struct redis_address address;
	const char *why = NULL;
	if (!redis_address_parse(url, &address, &why))
		fail_msg("%s: %s", url, why);
	return redis_new(&address);
}

static int group_setup(void **state)
{
	redis_server_start_tcp(&server, "user limited on >pw ~* +@all\n");
	return 0;
}

static int group_teardown(void **state)
{
	redis_server_stop(&server);
	return 0;
}

static int setup(void **state)
{
	arena_init(&arena, 4096);
	*state = client(server.url);
	return 0;
}

static int teardown(void **state)
{
	arena_done(&arena);
	redis_free(*state);
	return 0;
}

static enum lu_error sweep(struct redis *redis, struct text namespace, int64_t deadline_ns)
{
	char cursor[CELL_CURSOR_BYTES] = "";
	return cell_namespace_unlink(redis, namespace, cursor, deadline_ns);
}

static void order(const char *line)
{
	char *answer = redis_server_command(&server, line);
	if (answer[0] == '-')
		fail_msg("%s: %s", line, answer);
	free(answer);
}

static void assert_answer(const char *line, const char *expected)
{
	char *answer = redis_server_command(&server, line);
	if (strcmp(answer, expected) != 0)
		fail_msg("%s: \"%s\", not \"%s\"", line, answer, expected);
	free(answer);
}

static struct text namespace_open(struct redis *redis)
{
	char token[TOKEN_BYTES + 1], identity[160];
	token_new(token);
	struct text ns = arena_printf(&arena, "lu:%s", token);
	assert_int_equal(cell_redis_identity(redis, FAR, identity), LU_OK);
	assert_int_equal(cell_guard_set(redis, ns, identity, FAR), LU_OK);
	return ns;
}

/* --- identity and probe ----------------------------------------------------------------------------------------- */

static void the_identity_is_run_id_role_and_replication_id(void **state)
{
	struct redis *redis = *state;
	char identity[160], again[160];
	assert_int_equal(cell_redis_identity(redis, FAR, identity), LU_OK);
	assert_int_equal(strspn(identity, "0123456789abcdef"), 40);
	assert_memory_equal(identity + 40, " master ", 8);
	assert_int_equal(strlen(identity), 88);
	assert_int_equal(cell_redis_identity(redis, FAR, again), LU_OK);
	assert_string_equal(again, identity);
	redis_server_restart(&server);
	assert_int_equal(cell_redis_identity(redis, FAR, again), LU_OK);
	assert_string_not_equal(again, identity);
}

static void the_probe_runs_all_five_scripts_and_leaves_nothing(void **state)
{
	struct redis *redis = *state;
	static const enum metric scripts[] = {METRIC_CELL_READ, METRIC_CELL_CAS, METRIC_CELL_INTEND, METRIC_CELL_PUBLISH,
	                                      METRIC_CELL_INVALIDATE};
	order("FLUSHALL");
	struct text ns = namespace_open(redis);
	int64_t before[5];
	for (size_t i = 0; i < 5; i++)
		before[i] = metric_get(scripts[i]);
	assert_int_equal(cell_probe(redis, ns, FAR), LU_OK);
	for (size_t i = 0; i < 5; i++)
		assert_true(metric_get(scripts[i]) > before[i]);
	assert_answer("DBSIZE", "1");                        /* the guard */
	assert_int_equal(cell_probe(redis, ns, FAR), LU_OK); /* and again */
}

static void the_probe_fails_behind_the_fence(void **state)
{
	struct redis *redis = *state;
	struct text ns = namespace_open(redis);
	int64_t fenced = metric_get(METRIC_CELL_FENCED);
	order(arena_printf(&arena, "DEL %s!open", ns.data).data);
	assert_int_equal(cell_probe(redis, ns, FAR), LU_CACHE_UNAVAILABLE);
	assert_true(metric_get(METRIC_CELL_FENCED) > fenced);
}

static void the_probe_fails_while_redis_is_out_of_memory_though_ping_is_well(void **state)
{
	struct redis *redis = *state;
	struct text ns = namespace_open(redis);
	order("CONFIG SET maxmemory 1");
	int64_t errors = metric_get(METRIC_CELL_ERRORS);
	assert_answer("PING", "PONG");
	assert_int_equal(cell_probe(redis, ns, FAR), LU_CACHE_UNAVAILABLE);
	assert_non_null(strstr(redis_error(redis), "OOM"));
	assert_true(metric_get(METRIC_CELL_ERRORS) > errors);
	char identity[160];
	assert_int_equal(cell_redis_identity(redis, FAR, identity), LU_OK);
	assert_int_equal(cell_guard_set(redis, TEXT("lu:full"), identity, FAR), LU_CACHE_UNAVAILABLE);
	order("CONFIG SET maxmemory 0");
	assert_int_equal(cell_probe(redis, ns, FAR), LU_OK);
}

static void the_probe_fails_for_each_right_that_is_missing(void **state)
{
	struct redis *redis = *state;
	struct text ns = namespace_open(redis);
	struct redis *limited = client(arena_printf(&arena, "unix://limited:pw@%s", server.socket).data);
	assert_int_equal(cell_probe(limited, ns, FAR), LU_OK);
	/* DEL stands last: only invalidate, of what the probe does, needs it. */
	static const char *const rights[] = {"evalsha", "multi", "exec", "get", "mget", "set", "mset", "info", "del"};
	for (size_t i = 0; i < sizeof rights / sizeof *rights; i++) {
		order(arena_printf(&arena, "ACL SETUSER limited -%s", rights[i]).data);
		if (cell_probe(limited, ns, FAR) != LU_CACHE_UNAVAILABLE)
			fail_msg("the probe passes without %s", rights[i]);
		order(arena_printf(&arena, "ACL SETUSER limited +%s", rights[i]).data);
		if (cell_probe(limited, ns, FAR) != LU_OK)
			fail_msg("the probe fails with %s again: %s", rights[i], redis_error(limited));
	}
	order("ACL SETUSER limited resetkeys ~other:*");
	assert_int_equal(cell_probe(limited, ns, FAR), LU_CACHE_UNAVAILABLE);
	order("ACL SETUSER limited allkeys");
	redis_free(limited);
}

static void a_replica_can_be_opened_by_nobody(void **state)
{
	struct redis *redis = *state;
	order("REPLICAOF 127.0.0.1 1");
	char identity[160];
	assert_int_equal(cell_redis_identity(redis, FAR, identity), LU_OK);
	assert_non_null(strstr(identity, " slave "));
	assert_int_equal(cell_guard_set(redis, TEXT("lu:replica"), identity, FAR), LU_CACHE_UNAVAILABLE);
	/* Nor where one may write: started again from an old dump, its history is still its primary's. */
	order("CONFIG SET replica-read-only no");
	assert_int_equal(cell_guard_set(redis, TEXT("lu:replica"), identity, FAR), LU_OK);
	assert_int_equal(cell_probe(redis, TEXT("lu:replica"), FAR), LU_CACHE_UNAVAILABLE);
	order("CONFIG SET replica-read-only yes");
	order("REPLICAOF NO ONE");
}

static void a_paused_redis_fails_the_probe_in_time(void **state)
{
	struct redis *redis = *state;
	struct text ns = namespace_open(redis);
	redis_server_pause(&server);
	assert_int_equal(cell_probe(redis, ns, deadline_in_ms(20)), LU_CACHE_UNAVAILABLE);
	redis_server_resume(&server);
}

/* --- sweeping --------------------------------------------------------------------------------------------------- */

static void a_namespace_goes_with_all_its_cells_and_nothing_else(void **state)
{
	struct redis *redis = *state;
	order("FLUSHALL");
	struct text ns = namespace_open(redis), other = namespace_open(redis);
	struct figures row = {.version = 1, .tracked = true};
	for (int i = 0; i < 5000; i++) {
		struct text sku = arena_printf(&arena, "sku %d", i), absent = TEXT(""), value = cell_value(&arena, &row, sku);
		const int64_t px_ms = 600000;
		for (int n = 0; n < (i < 10 ? 2 : 1); n++) {
			redisReply *reply = NULL;
			assert_int_equal(cell_run(redis, cell_cas(&arena, n ? other : ns, &sku, &absent, &value, &px_ms, 1), 1, FAR,
			                          &reply),
			                 CELL_OK);
			redis_reply_done(&reply);
		}
	}
	order(arena_printf(&arena, "SET %s.not-ours 1", ns.data).data);
	assert_answer("DBSIZE", "5013");
	assert_int_equal(sweep(redis, ns, FAR), LU_OK);
	assert_answer("DBSIZE", "12"); /* the other's guard and 10 cells, and the stranger */
	assert_answer(arena_printf(&arena, "EXISTS %s!open", ns.data).data, "0");
	assert_answer(arena_printf(&arena, "EXISTS %s!open", other.data).data, "1");
	assert_int_equal(cell_probe(redis, other, FAR), LU_OK);
	assert_int_equal(sweep(redis, ns, FAR), LU_OK); /* nothing left: fine too */
}

static void a_namespace_is_no_pattern(void **state)
{
	struct redis *redis = *state;
	order("FLUSHALL");
	order("MSET a*[b]\\?^:x 1 a*[b]\\?^!open 1 axb:x 1 aZb?^:x 1 a*b\\?^:x 1");
	assert_int_equal(sweep(redis, TEXT("a*[b]\\?^"), FAR), LU_OK);
	assert_answer("DBSIZE", "3");
	assert_answer("EXISTS axb:x aZb?^:x a*b\\?^:x", "3"); /* as patterns these would have gone */
}

static void the_guard_goes_first(void **state)
{
	struct redis *redis = *state;
	order("FLUSHALL");
	struct text ns = namespace_open(redis);
	order(arena_printf(&arena, "SET %s:A 1", ns.data).data);
	/* SCAN is refused: whatever the sweep could not do, the fence is up. */
	struct redis *limited = client(arena_printf(&arena, "unix://limited:pw@%s", server.socket).data);
	order("ACL SETUSER limited -scan");
	assert_int_equal(sweep(limited, ns, FAR), LU_CACHE_UNAVAILABLE);
	order("ACL SETUSER limited +scan");
	assert_answer("DBSIZE", "1");
	assert_answer(arena_printf(&arena, "EXISTS %s!open", ns.data).data, "0");
	redis_free(limited);
}

static void a_sweep_that_runs_out_of_time_keeps_the_connection(void **state)
{
	struct redis *redis = *state;
	struct text ns = namespace_open(redis);
	assert_int_equal(redis_connect(redis, FAR), LU_OK);
	/* The guard's step may find its reply in time or not; the scan may not even begin. */
	enum lu_error error = sweep(redis, ns, clock_boottime_ns());
	assert_true(error == LU_DEADLINE_EXCEEDED || error == LU_CACHE_UNAVAILABLE);
	assert_true(error != LU_DEADLINE_EXCEEDED || redis_connected(redis));
	assert_int_equal(sweep(redis, ns, FAR), LU_OK);
}

/* Beside so many keys of others that one call does not come to their end: begun anew each time, it never would. */
static void a_sweep_that_is_cut_off_goes_on_where_it_was(void **state)
{
	struct redis *redis = *state;
	char cursor[CELL_CURSOR_BYTES] = "";
	order("FLUSHALL");
	order("EVAL for\ti=1,500000\tdo\tredis.call('SET',i,1)\tend 0");
	struct text ns = namespace_open(redis);
	order(arena_printf(&arena, "SET %s:A 1", ns.data).data);
	int calls = 1;
	int64_t patience_ns = deadline_in_ms(20000);
	while (cell_namespace_unlink(redis, ns, cursor, deadline_in_ms(20))) {
		calls++;
		assert_true(clock_boottime_ns() < patience_ns);
	}
	assert_true(calls > 1);
	assert_answer("DBSIZE", "500000");
	assert_string_equal(cursor, ""); /* for the next one */
	order("FLUSHALL");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(the_identity_is_run_id_role_and_replication_id),
		TEST(the_probe_runs_all_five_scripts_and_leaves_nothing),
		TEST(the_probe_fails_behind_the_fence),
		TEST(the_probe_fails_while_redis_is_out_of_memory_though_ping_is_well),
		TEST(the_probe_fails_for_each_right_that_is_missing),
		TEST(a_replica_can_be_opened_by_nobody),
		TEST(a_paused_redis_fails_the_probe_in_time),
		TEST(a_namespace_goes_with_all_its_cells_and_nothing_else),
		TEST(a_namespace_is_no_pattern),
		TEST(the_guard_goes_first),
		TEST(a_sweep_that_runs_out_of_time_keeps_the_connection),
		TEST(a_sweep_that_is_cut_off_goes_on_where_it_was),
	};
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
