/* The four scripts, and `read`, on a real Redis: each in every state of a cell, and behind every kind of fence. */
#include "cache/cell.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/embed.h"
#include "base/id.h"
#include "base/text.h"
#include "cache/script.h"
#include "lib/redis_server.h"

#define FAR deadline_in_ms(30000)

static struct redis_server server;
static struct redis *redis;
static struct arena arena;
static char namespace_bytes[CELL_NAMESPACE_BYTES + 1];
static struct text ns;
static char identity[160];

/* --- arranging and looking: plain commands, past the scripts ---------------------------------------------------- */

static redisReply *command(int argc, const struct text *argv)
{
	redisReply *reply = NULL;
	if (redis_call(redis, argc, argv, FAR, &reply) != LU_OK)
		fail_msg("%s", redis_error(redis));
	return reply;
}

#define COMMAND(...) \
	command((int)(sizeof((struct text[]){__VA_ARGS__}) / sizeof(struct text)), (struct text[]){__VA_ARGS__})

static struct text key_of(struct text sku)
{
	return arena_printf(&arena, "%.*s:%.*s", (int)ns.size, ns.data, (int)sku.size, sku.data);
}

static void put(struct text sku, struct text raw)
{
	redisReply *reply = COMMAND(TEXT("SET"), key_of(sku), raw);
	redis_reply_done(&reply);
}

static long long integer(redisReply *reply)
{
	assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
	long long value = reply->integer;
	redis_reply_done(&reply);
	return value;
}

static long long ttl_ms(struct text sku)
{
	return integer(COMMAND(TEXT("PTTL"), key_of(sku)));
}

#define ABSENT "(absent)"
#define WRONG_TYPE "(a list)"

static void arrange(struct text sku, const char *state)
{
	redisReply *reply = COMMAND(TEXT("DEL"), key_of(sku));
	redis_reply_done(&reply);
	if (strcmp(state, WRONG_TYPE) == 0)
		integer(COMMAND(TEXT("RPUSH"), key_of(sku), TEXT("x")));
	else if (strcmp(state, ABSENT) != 0)
		put(sku, text_of(state));
}

/* The cell as a C string in the arena, or one of the two words above. */
static const char *look(struct text sku)
{
	redisReply *type = COMMAND(TEXT("TYPE"), key_of(sku));
	bool list = strcmp(type->str, "list") == 0;
	redis_reply_done(&type);
	if (list)
		return WRONG_TYPE;
	redisReply *reply = COMMAND(TEXT("GET"), key_of(sku));
	const char *seen = ABSENT;
	if (reply->type == REDIS_REPLY_STRING)
		seen = arena_text(&arena, (struct text){reply->str, (size_t)reply->len}).data;
	redis_reply_done(&reply);
	return seen;
}

static void guard_put(struct text value)
{
	redisReply *reply = COMMAND(TEXT("SET"), arena_printf(&arena, "%s!open", namespace_bytes), value);
	redis_reply_done(&reply);
}

static int setup(void **state)
{
	arena_init(&arena, 65536);
	memcpy(namespace_bytes, "lu:", 3);
	token_new(namespace_bytes + 3);
	ns = text_of(namespace_bytes);
	return cell_redis_identity(redis, FAR, identity) || cell_guard_set(redis, ns, identity, FAR) ? -1 : 0;
}

static int teardown(void **state)
{
	arena_done(&arena);
	return 0;
}

static int group_setup(void **state)
{
	struct redis_address address;
	const char *why;
	redis_server_start(&server, NULL);
	if (!redis_address_parse(server.url, &address, &why))
		return -1;
	redis = redis_new(&address);
	return 0;
}

static int group_teardown(void **state)
{
	redis_free(redis);
	redis_server_stop(&server);
	return 0;
}

static enum cell_reply run(struct cell_call call, size_t count, redisReply **ret_reply)
{
	return cell_run(redis, call, count, FAR, ret_reply);
}

/* Runs a call on one key and gives its only number. */
static long long number(struct cell_call call)
{
	redisReply *reply = NULL;
	assert_int_equal(run(call, 1, &reply), CELL_OK);
	const redisReply *only = reply->type == REDIS_REPLY_ARRAY ? reply->element[0] : reply;
	assert_int_equal(only->type, REDIS_REPLY_INTEGER);
	long long value = only->integer;
	redis_reply_done(&reply);
	return value;
}

/* --- every script in every state -------------------------------------------------------------------------------- */

static const struct text sku = {"SKU-1", 5};
static const struct figures row = {.version = 5, .on_hand = 10, .reserved = 2, .safety_stock = 1, .tracked = true};
#define V5 "V|5|10|2|1|1|SKU-1"

/* What each script leaves of a cell, called for version 5, the writer's own token being "mine"; NULL: as it was. */
static const struct {
	const char *before;
	const char *cas_absent; /* cas('' -> "F|new") */
	const char *cas_fill;   /* cas("F|t" -> V5) */
	const char *publish;
	const char *invalidate;
} states[] = {
	{ABSENT, "F|new", NULL, NULL, NULL},
	{"F|t", NULL, V5, ABSENT, ABSENT},
	{"F|other", NULL, NULL, ABSENT, ABSENT},
	{"I|mine|5", NULL, NULL, V5, "I|-|5"},
	{"I|other|4", NULL, NULL, NULL, "I|-|4"},
	{"I|other|5", NULL, NULL, NULL, "I|-|5"},
	{"I|other|6", NULL, NULL, NULL, NULL},
	{"I|mine2|6", NULL, NULL, NULL, NULL},
	{"I|-_aZ09|6", NULL, NULL, NULL, NULL},
	{"V|4|11|2|1|1|SKU-1", NULL, NULL, ABSENT, ABSENT},
	{"V|5|10|2|1|1|SKU-1", NULL, NULL, NULL, NULL},
	{"V|6|9|2|1|0|SKU-1", NULL, NULL, NULL, NULL},
	{"V|10|9|2|1|1|SKU-1", NULL, NULL, NULL, NULL}, /* newer as a number, older as a string */
	{"V|9|9|2|1|1|SKU-2", NULL, NULL, ABSENT, ABSENT},
	{"V|9|9|2|1|1|SKU-12", NULL, NULL, ABSENT, ABSENT},
	{"V|9|9|2|1|1|U-1", NULL, NULL, ABSENT, ABSENT},
	{"V|9|9|2|1|1|", NULL, NULL, ABSENT, ABSENT},
	{"V|9|9|2|1|SKU-1", NULL, NULL, ABSENT, ABSENT},
	{"V|9e9|9|2|1|1|SKU-1", NULL, NULL, ABSENT, ABSENT},
	{"V|99999999999999999999|9|2|1|1|SKU-1", NULL, NULL, ABSENT, ABSENT},
	{"I|other|99999999999999999999", NULL, NULL, ABSENT, ABSENT},
	{"I|other|", NULL, NULL, ABSENT, ABSENT},
	{"I||6", NULL, NULL, ABSENT, ABSENT},
	{"I|ot|her|6", NULL, NULL, ABSENT, ABSENT},
	{"", NULL, NULL, ABSENT, ABSENT},
	{"9", NULL, NULL, ABSENT, ABSENT},
	{"junk", NULL, NULL, ABSENT, ABSENT},
	{WRONG_TYPE, NULL, NULL, ABSENT, ABSENT},
};
#define STATES (sizeof states / sizeof *states)

static void assert_state(const char *script, const char *before, const char *expected, long long answered,
                         long long expected_answer)
{
	const char *seen = look(sku), *wanted = expected ? expected : before;
	if (strcmp(seen, wanted) != 0 || answered != expected_answer)
		fail_msg("%s of \"%s\": \"%s\" and %lld, not \"%s\" and %lld", script, before, seen, answered, wanted,
		         expected_answer);
}

static void read_shows_a_cell_as_it_stands(void **state)
{
	for (size_t i = 0; i < STATES; i++) {
		arrange(sku, states[i].before);
		struct cell *cell;
		assert_int_equal(cell_look(redis, &arena, ns, &sku, 1, FAR, &cell), CELL_OK);
		bool nil = strcmp(states[i].before, ABSENT) == 0 || strcmp(states[i].before, WRONG_TYPE) == 0;
		assert_int_equal(cell->state == CELL_ABSENT, nil);
		if (!nil)
			assert_true(text_equal(cell->raw, text_of(states[i].before)));
		assert_string_equal(look(sku), states[i].before);
	}
}

static void C4_a_ticket_is_taken_only_where_nothing_stands(void **state)
{
	const struct text old = TEXT(""), new = TEXT("F|new");
	const int64_t px_ms = 2000;
	for (size_t i = 0; i < STATES; i++) {
		arrange(sku, states[i].before);
		long long done = number(cell_cas(&arena, ns, &sku, &old, &new, &px_ms, 1));
		assert_state("cas from absent", states[i].before, states[i].cas_absent, done, states[i].cas_absent ? 1 : 0);
		if (done)
			assert_in_range(ttl_ms(sku), 1, 2000);
	}
}

static void C4_a_fill_replaces_its_own_ticket_and_nothing_else(void **state)
{
	const struct text old = TEXT("F|t"), new = TEXT(V5);
	const int64_t px_ms = 100000;
	for (size_t i = 0; i < STATES; i++) {
		arrange(sku, states[i].before);
		long long done = number(cell_cas(&arena, ns, &sku, &old, &new, &px_ms, 1));
		assert_state("cas from F|t", states[i].before, states[i].cas_fill, done, states[i].cas_fill ? 1 : 0);
		if (done)
			assert_in_range(ttl_ms(sku), 50000, 100000);
	}
}

static void C3_a_marker_covers_whatever_stands_and_has_no_end(void **state)
{
	const int64_t version = 5;
	for (size_t i = 0; i < STATES; i++) {
		arrange(sku, states[i].before);
		if (strcmp(states[i].before, ABSENT) != 0)
			integer(COMMAND(TEXT("PEXPIRE"), key_of(sku), TEXT("100000")));
		long long count = number(cell_intend(&arena, ns, TEXT("tok"), &sku, &version, 1));
		assert_state("intend", states[i].before, "I|tok|5", count, 1);
		assert_int_equal(ttl_ms(sku), -1);
	}
}

static void C5_publish_sets_only_over_its_own_marker(void **state)
{
	for (size_t i = 0; i < STATES; i++) {
		arrange(sku, states[i].before);
		long long set = number(cell_publish(&arena, ns, TEXT("mine"), &sku, &row, 100000, 1));
		bool own = strcmp(states[i].before, "I|mine|5") == 0;
		assert_state("publish", states[i].before, states[i].publish, set, own);
		if (own)
			assert_in_range(ttl_ms(sku), 50000, 110000);
	}
}

static void C6_invalidate_removes_what_is_or_could_become_older(void **state)
{
	const int64_t version = 5;
	for (size_t i = 0; i < STATES; i++) {
		arrange(sku, states[i].before);
		long long deleted = number(cell_invalidate(&arena, ns, &sku, &version, 1));
		assert_state("invalidate", states[i].before, states[i].invalidate, deleted, states[i].invalidate != NULL);
	}
}

static void C6_a_marker_is_taken_from_its_writer_and_stays(void **state)
{
	/* The marker of a writer who has gone, come late over that of a writer at work on version 6: deleted, it would let a
	 * reader fill version 5 before his COMMIT. */
	const int64_t late = 5, committed = 5, next = 6;
	arrange(sku, "I|work|6");
	number(cell_intend(&arena, ns, TEXT("late"), &sku, &late, 1));
	assert_int_equal(number(cell_invalidate(&arena, ns, &sku, &committed, 1)), 1);
	assert_string_equal(look(sku), "I|-|5");
	assert_int_equal(ttl_ms(sku), -1);
	const struct text absent = TEXT(""), ticket = TEXT("F|t");
	const int64_t px_ms = 2000;
	assert_int_equal(number(cell_cas(&arena, ns, &sku, &absent, &ticket, &px_ms, 1)), 0);
	/* Whose marker it was may not publish what is older by now. */
	assert_int_equal(number(cell_publish(&arena, ns, TEXT("late"), &sku, &row, 1000, 1)), 0);
	assert_string_equal(look(sku), "I|-|5");
	number(cell_intend(&arena, ns, TEXT("mine"), &sku, &next, 1));
	assert_int_equal(number(cell_publish(&arena, ns, TEXT("mine"), &sku, &row, 1000, 1)), 1);
}

/* --- the fence -------------------------------------------------------------------------------------------------- */

/* Each of the four must answer FENCED and leave the cell as it is. */
static void assert_scripts_fenced(const char *why)
{
	const struct text absent = TEXT(""), ticket = TEXT("F|t"), value = TEXT(V5);
	const int64_t px_ms = 2000, version = 5;
	const char *before = look(sku);
	const struct cell_call calls[] = {
		cell_cas(&arena, ns, &sku, &absent, &ticket, &px_ms, 1),
		cell_cas(&arena, ns, &sku, &ticket, &value, &px_ms, 1),
		cell_intend(&arena, ns, TEXT("tok"), &sku, &version, 1),
		cell_publish(&arena, ns, TEXT("mine"), &sku, &row, 1000, 1),
		cell_invalidate(&arena, ns, &sku, &version, 1),
	};
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		redisReply *reply = NULL;
		if (run(calls[i], 1, &reply) != CELL_FENCED)
			fail_msg("%s: call %zu on \"%s\" was not FENCED", why, i, before);
		assert_null(reply);
		if (strcmp(look(sku), before) != 0)
			fail_msg("%s: call %zu changed \"%s\"", why, i, before);
	}
}

/* And `read`, too. */
static void assert_fenced(const char *why)
{
	struct cell *cell;
	if (cell_look(redis, &arena, ns, &sku, 1, FAR, &cell) != CELL_FENCED)
		fail_msg("%s: read on \"%s\" was not FENCED", why, look(sku));
	assert_scripts_fenced(why);
}

static void assert_open(void)
{
	struct cell *cell;
	assert_int_equal(cell_look(redis, &arena, ns, &sku, 1, FAR, &cell), CELL_OK);
}

static void C1_without_its_guard_every_script_is_fenced(void **state)
{
	assert_open();
	redisReply *reply = COMMAND(TEXT("DEL"), arena_printf(&arena, "%s!open", namespace_bytes));
	redis_reply_done(&reply);
	for (size_t i = 0; i < STATES; i++) {
		arrange(sku, states[i].before);
		assert_fenced("no guard");
	}
}

static void C1_another_guard_fences_every_script(void **state)
{
	char changed[160];
	static const struct {
		size_t at;
		const char *why;
		void (*assert)(const char *why);
	} parts[] = {{0, "another run_id", assert_scripts_fenced}, /* of a primary, the replication id says as much */
	             {39, "another run_id, at its end", assert_scripts_fenced},
	             {41, "another role", assert_fenced},
	             {46, "another role, at its end", assert_fenced},
	             {48, "another replication id", assert_fenced},
	             {87, "another replication id, at its end", assert_fenced}};
	assert_int_equal(strlen(identity), 88); /* 40 + " master " + 40 */
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		strcpy(changed, identity);
		changed[parts[i].at] = changed[parts[i].at] == '0' ? '1' : '0';
		guard_put(text_of(changed));
		parts[i].assert(parts[i].why);
	}
	static const char *const short_ones[] = {"", " ", "  ", "a", "master"};
	for (size_t i = 0; i < sizeof short_ones / sizeof *short_ones; i++) {
		guard_put(text_of(short_ones[i]));
		assert_fenced("a guard that is none");
	}
	guard_put((struct text){identity, strlen(identity) - 1});
	assert_fenced("a guard cut by a byte");
	guard_put((struct text){identity + 1, strlen(identity) - 1});
	assert_fenced("a guard without its first byte");
	guard_put(text_of(identity));
	assert_open();
}

static void C1_after_a_restart_from_its_dump_every_script_is_fenced(void **state)
{
	arrange(sku, "V|4|11|2|1|1|SKU-1");
	redisReply *reply = COMMAND(TEXT("SAVE"));
	redis_reply_done(&reply);
	redis_server_restart(&server);
	/* The old value is back, and so is the guard: only the identity tells. */
	assert_string_equal(look(sku), "V|4|11|2|1|1|SKU-1");
	assert_fenced("restarted");
	char after[160];
	assert_int_equal(cell_redis_identity(redis, FAR, after), LU_OK);
	assert_string_not_equal(after, identity);
	assert_int_equal(cell_guard_set(redis, ns, after, FAR), LU_OK);
	assert_open();
}

static void C1_a_replica_is_fenced_and_so_is_one_that_was_promoted(void **state)
{
	arrange(sku, "I|mine|5");
	free(redis_server_command(&server, "REPLICAOF 127.0.0.1 1"));
	assert_fenced("a replica");
	free(redis_server_command(&server, "REPLICAOF NO ONE"));
	assert_fenced("promoted"); /* role and run_id are the old ones: the replication id is not */
	assert_int_equal(cell_redis_identity(redis, FAR, identity), LU_OK);
	assert_int_equal(cell_guard_set(redis, ns, identity, FAR), LU_OK);
	assert_open();
}

static void C1_flushall_takes_the_guard_along(void **state)
{
	free(redis_server_command(&server, "FLUSHALL"));
	assert_fenced("flushed");
}

static void the_guard_is_judged_alike_on_a_redis_before_7(void **state)
{
	/* There INFO with two sections is an error. Any error does: GET without a key. */
	static const char call[] = "redis.pcall('INFO', 'server', 'replication')";
	struct text guard = embed_find("lua/guard.lua");
	const char *at = memmem(guard.data, guard.size, call, sizeof call - 1);
	assert_non_null(at);
	struct text source = arena_printf(&arena, "%.*sredis.pcall('GET')%s return 1", (int)(at - guard.data), guard.data,
	                                  at + sizeof call - 1);
	struct text key = arena_printf(&arena, "%s!open", namespace_bytes);
	assert_int_equal(integer(COMMAND(TEXT("EVAL"), source, TEXT("1"), key)), 1);
	identity[0] = identity[0] == '0' ? '1' : '0';
	guard_put(text_of(identity));
	redisReply *reply = COMMAND(TEXT("EVAL"), source, TEXT("1"), key);
	assert_int_equal(cell_reply_kind(reply, 1), CELL_FENCED);
	redis_reply_done(&reply);
}

/* --- many keys, large numbers, all bytes ------------------------------------------------------------------------ */

static void two_thousand_keys_are_one_call_of_each_script(void **state)
{
	enum { N = LU_CELLS_MAX };
	static struct text skus[N], old[N], new[N];
	static int64_t px_ms[N], versions[N];
	static struct figures rows[N];
	for (size_t i = 0; i < N; i++) {
		skus[i] = arena_printf(&arena, "sku %zu of many", i);
		old[i] = TEXT("");
		new[i] = cell_ticket(&arena, "t");
		px_ms[i] = 100000;
		versions[i] = (int64_t)i + 1;
		rows[i] = (struct figures){.version = versions[i], .on_hand = (int64_t)i, .tracked = true};
	}
	redisReply *reply = NULL;
	assert_int_equal(run(cell_cas(&arena, ns, skus, old, new, px_ms, N), N, &reply), CELL_OK);
	for (size_t i = 0; i < N; i++)
		assert_int_equal(reply->element[i]->integer, 1);
	redis_reply_done(&reply);

	assert_int_equal(run(cell_intend(&arena, ns, TEXT("m"), skus, versions, N), N, &reply), CELL_OK);
	assert_int_equal(reply->integer, N);
	redis_reply_done(&reply);
	assert_int_equal(run(cell_publish(&arena, ns, TEXT("m"), skus, rows, 100000, N), N, &reply), CELL_OK);
	assert_int_equal(reply->integer, N);
	redis_reply_done(&reply);

	struct cell *cells;
	assert_int_equal(cell_look(redis, &arena, ns, skus, N, FAR, &cells), CELL_OK);
	for (size_t i = 0; i < N; i++) {
		assert_int_equal(cells[i].state, CELL_VALUE);
		assert_int_equal(cells[i].figures.version, versions[i]);
		assert_int_equal(cells[i].figures.on_hand, i);
		versions[i] += i % 2; /* every other one is newer than its cell */
	}
	assert_int_equal(run(cell_invalidate(&arena, ns, skus, versions, N), N, &reply), CELL_OK);
	assert_int_equal(reply->integer, N / 2);
	redis_reply_done(&reply);
	/* And publish over nothing but doubtful cells, its longest DEL. */
	assert_int_equal(run(cell_publish(&arena, ns, TEXT("other"), skus, rows, 100000, N), N, &reply), CELL_OK);
	assert_int_equal(reply->integer, 0);
	redis_reply_done(&reply);
}

static void C8_the_largest_numbers_are_compared_and_never_formatted(void **state)
{
	const int64_t max = LU_COUNT_MAX, below = LU_COUNT_MAX - 1;
	const struct figures big = {max, max, max, max, true};
	assert_int_equal(number(cell_intend(&arena, ns, TEXT("m"), &sku, &max, 1)), 1);
	assert_string_equal(look(sku), "I|m|1000000000000000");
	assert_int_equal(number(cell_invalidate(&arena, ns, &sku, &below, 1)), 0);
	assert_int_equal(number(cell_publish(&arena, ns, TEXT("m"), &sku, &big, 100000, 1)), 1);
	assert_string_equal(look(sku), "V|1000000000000000|1000000000000000|1000000000000000|1000000000000000|1|SKU-1");
	assert_int_equal(number(cell_invalidate(&arena, ns, &sku, &max, 1)), 0);

	const struct figures less = {below, max, 0, 0, false};
	put(sku, cell_value(&arena, &less, sku));
	assert_int_equal(number(cell_publish(&arena, ns, TEXT("m"), &sku, &less, 1000, 1)), 0);
	assert_string_equal(look(sku), "V|999999999999999|1000000000000000|0|0|0|SKU-1");
	assert_int_equal(number(cell_invalidate(&arena, ns, &sku, &max, 1)), 1); /* one less is older */
	assert_string_equal(look(sku), ABSENT);

	number(cell_intend(&arena, ns, TEXT("m"), &sku, &max, 1));
	assert_int_equal(number(cell_invalidate(&arena, ns, &sku, &max, 1)), 1);
	assert_string_equal(look(sku), "I|-|1000000000000000");
}

static void every_byte_survives_in_keys_and_cells(void **state)
{
	char bytes[256];
	for (int i = 0; i < 256; i++)
		bytes[i] = (char)(255 - i);
	const struct text all = {bytes, sizeof bytes}, absent = TEXT("");
	const struct figures one = {.version = 1, .on_hand = 1, .tracked = true};
	const struct text ticket = TEXT("F|t"), value = cell_value(&arena, &one, all);
	const int64_t px_ms = 100000, version = 2;
	assert_int_equal(number(cell_cas(&arena, ns, &all, &absent, &ticket, &px_ms, 1)), 1);
	assert_int_equal(number(cell_cas(&arena, ns, &all, &ticket, &value, &px_ms, 1)), 1);
	struct cell *cell;
	assert_int_equal(cell_look(redis, &arena, ns, &all, 1, FAR, &cell), CELL_OK);
	assert_int_equal(cell->state, CELL_VALUE);
	/* The scripts recognise it as a V of its key, too: same version stays, older goes. */
	assert_int_equal(number(cell_invalidate(&arena, ns, &all, &one.version, 1)), 0);
	assert_int_equal(number(cell_invalidate(&arena, ns, &all, &version, 1)), 1);

	/* A foreign cell comes back byte by byte as well. */
	put(sku, all);
	assert_int_equal(cell_look(redis, &arena, ns, &sku, 1, FAR, &cell), CELL_OK);
	assert_true(text_equal(cell->raw, all));
}

static void keys_of_one_call_do_not_touch_each_other(void **state)
{
	const struct text skus[] = {TEXT("A"), TEXT("B"), TEXT("C"), TEXT("D")};
	put(skus[0], TEXT("I|m|2"));
	put(skus[1], TEXT("I|x|9"));
	put(skus[2], TEXT("V|1|1|0|0|1|C"));
	const struct figures rows[] = {{.version = 2}, {.version = 2}, {.version = 2}, {.version = 2}};
	redisReply *reply = NULL;
	assert_int_equal(run(cell_publish(&arena, ns, TEXT("m"), skus, rows, 100000, 4), 4, &reply), CELL_OK);
	assert_int_equal(reply->integer, 1);
	redis_reply_done(&reply);
	assert_string_equal(look(skus[0]), "V|2|0|0|0|0|A");
	assert_string_equal(look(skus[1]), "I|x|9");
	assert_string_equal(look(skus[2]), ABSENT);
	assert_string_equal(look(skus[3]), ABSENT);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(read_shows_a_cell_as_it_stands),
		TEST(C4_a_ticket_is_taken_only_where_nothing_stands),
		TEST(C4_a_fill_replaces_its_own_ticket_and_nothing_else),
		TEST(C3_a_marker_covers_whatever_stands_and_has_no_end),
		TEST(C5_publish_sets_only_over_its_own_marker),
		TEST(C6_invalidate_removes_what_is_or_could_become_older),
		TEST(C6_a_marker_is_taken_from_its_writer_and_stays),
		TEST(C1_without_its_guard_every_script_is_fenced),
		TEST(C1_another_guard_fences_every_script),
		TEST(C1_after_a_restart_from_its_dump_every_script_is_fenced),
		TEST(C1_a_replica_is_fenced_and_so_is_one_that_was_promoted),
		TEST(C1_flushall_takes_the_guard_along),
		TEST(the_guard_is_judged_alike_on_a_redis_before_7),
		TEST(two_thousand_keys_are_one_call_of_each_script),
		TEST(C8_the_largest_numbers_are_compared_and_never_formatted),
		TEST(every_byte_survives_in_keys_and_cells),
		TEST(keys_of_one_call_do_not_touch_each_other),
	};
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
