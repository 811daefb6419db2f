/* How many calls of `read` one Redis answers, with 1, 10 and 100 keys, and what each costs inside Redis.
 *
 * Starts a private Redis. "one by one": the blocking client, a round trip per call. "64 at once": the event-loop client
 * with 64 calls under way, which keeps Redis busy. "in Redis": usec_per_call of EXEC in INFO commandstats.
 *
 *	make && cc -O2 -D_GNU_SOURCE -Iinclude -Isrc -Itests tests/bench/cell_bench.c tests/lib/redis_server.c \
 *	    build/release/liblastunit.a -o /tmp/cell_bench -lhiredis -levent -lcrypto -lutf8proc -pthread && /tmp/cell_bench
 */
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"
#include "cache/cell.h"
#include "lib/redis_server.h"

#define ROUND_MS 200
#define ROUNDS 20
#define AT_ONCE 64
#define KEYS_MAX 100

static struct redis_server server;
static struct redis *redis;
static struct event_base *base;
static struct redis_async *async;
static struct arena arena;
static struct text ns = TEXT("lu:AAAAAAAAAAAAAAAAAAAAAA"), skus[KEYS_MAX];
static struct redis_command read_two[2];
static size_t keys;
static long answered, asked;
static int64_t until_ns;

static double one_by_one(void)
{
	long calls = 0;
	int64_t from_ns = clock_boottime_ns();
	while (clock_boottime_ns() < from_ns + ROUND_MS * NS_PER_MS) {
		struct cell *cells;
		arena_reset(&arena);
		CHECK(cell_look(redis, &arena, ns, skus, keys, deadline_in_ms(10000), &cells) == CELL_OK);
		calls++;
	}
	return (double)calls * 1e9 / (double)(clock_boottime_ns() - from_ns);
}

static void on_cells(enum lu_error error, const redisReply *reply, void *context);

static void ask(void)
{
	asked++;
	redis_async_call_two(async, read_two, on_cells, NULL);
}

static void on_cells(enum lu_error error, const redisReply *reply, void *context)
{
	redisReply *const *cells;
	CHECK(error == LU_OK && cell_read_kind(reply, keys, &cells) == CELL_OK);
	answered++;
	if (clock_boottime_ns() < until_ns)
		ask();
}

static double at_once(void)
{
	int64_t from_ns = clock_boottime_ns();
	answered = asked = 0;
	until_ns = from_ns + ROUND_MS * NS_PER_MS;
	for (int i = 0; i < AT_ONCE; i++)
		ask();
	while (answered < asked)
		event_base_loop(base, EVLOOP_ONCE);
	return (double)answered * 1e9 / (double)(clock_boottime_ns() - from_ns);
}

static double us_in_redis(void)
{
	char *stats = redis_server_command(&server, "INFO commandstats");
	char *line = strstr(stats, "cmdstat_exec:");
	CHECK(line);
	double us = atof(strstr(line, "usec_per_call=") + 14);
	free(stats);
	return us;
}

int main(void)
{
	struct redis_address address;
	const char *why;
	char identity[160];
	struct arena lasting;
	redis_server_start(&server, NULL);
	CHECK(redis_address_parse(server.url, &address, &why));
	redis = redis_new(&address);
	base = event_base_new();
	async = redis_async_new(base, &address, 10000);
	arena_init(&arena, 65536);
	arena_init(&lasting, 65536);
	CHECK(cell_redis_identity(redis, deadline_in_ms(1000), identity) == LU_OK);
	CHECK(cell_guard_set(redis, ns, identity, deadline_in_ms(1000)) == LU_OK);
	for (size_t i = 0; i < KEYS_MAX; i++) {
		struct figures row = {.version = 12, .on_hand = 1000, .reserved = 10, .tracked = true};
		skus[i] = arena_printf(&lasting, "SKU-%zu", i);
		struct text absent = TEXT(""), value = cell_value(&arena, &row, skus[i]);
		const int64_t px_ms = 3600000;
		redisReply *reply = NULL;
		CHECK(cell_run(redis, cell_cas(&arena, ns, &skus[i], &absent, &value, &px_ms, 1), 1, deadline_in_ms(1000),
		               &reply) == CELL_OK);
		redis_reply_done(&reply);
	}
	while (!redis_async_connected(async))
		event_base_loop(base, EVLOOP_ONCE);

	printf("%6s %12s %12s %10s   best of %d rounds\n", "keys", "one by one/s", "64 at once/s", "us inside", ROUNDS);
	for (keys = 1; keys <= KEYS_MAX; keys *= 10) {
		double blocking = 0, busy = 0, us = 1e9;
		cell_read(&lasting, ns, skus, keys, read_two);
		for (int i = 0; i < ROUNDS; i++) {
			free(redis_server_command(&server, "CONFIG RESETSTAT"));
			double b = one_by_one(), a = at_once(), u = us_in_redis();
			blocking = b > blocking ? b : blocking;
			busy = a > busy ? a : busy;
			us = u < us ? u : us;
		}
		printf("%6zu %12.0f %12.0f %10.1f\n", keys, blocking, busy, us);
	}
	redis_async_free(async);
	event_base_free(base);
	redis_free(redis);
	arena_done(&arena);
	arena_done(&lasting);
	redis_server_stop(&server);
	return 0;
}
