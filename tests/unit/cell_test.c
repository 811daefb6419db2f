/* Cells as bytes: what is written is read back, to the last byte, and nothing else is taken for a cell. */
#include "cache/cell.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "cache/script.h"
#include "cache/wire.h"

static struct arena arena;

static int setup(void **state)
{
	arena_init(&arena, 4096);
	return 0;
}

static int teardown(void **state)
{
	arena_done(&arena);
	return 0;
}

#define assert_text(actual, expected)                                      \
	do {                                                                   \
		struct text actual_ = (actual), expected_ = (expected);            \
		assert_int_equal(actual_.size, expected_.size);                    \
		assert_memory_equal(actual_.data, expected_.data, expected_.size); \
	} while (0)

static struct cell decoded(const char *raw, const char *sku)
{
	return cell_decode(text_of(raw), true, text_of(sku));
}

static void a_value_is_written_field_by_field(void **state)
{
	struct figures f = {.version = 7, .on_hand = 100, .reserved = 3, .safety_stock = 2, .tracked = true};
	assert_text(cell_value(&arena, &f, TEXT("ABC")), TEXT("V|7|100|3|2|1|ABC"));
	f.tracked = false;
	assert_text(cell_value(&arena, &f, TEXT("a|b")), TEXT("V|7|100|3|2|0|a|b"));
}

static void every_count_round_trips_exactly(void **state)
{
	const int64_t counts[] = {0, 1, 9, 10, 4294967296, 999999999999999, LU_COUNT_MAX};
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		struct figures f = {counts[i], counts[i], counts[i], counts[i], true};
		struct text raw = cell_value(&arena, &f, TEXT("X"));
		struct cell cell = cell_decode(raw, true, TEXT("X"));
		assert_int_equal(cell.state, CELL_VALUE);
		assert_int_equal(cell.figures.version, counts[i]);
		assert_int_equal(cell.figures.on_hand, counts[i]);
		assert_int_equal(cell.figures.reserved, counts[i]);
		assert_int_equal(cell.figures.safety_stock, counts[i]);
		assert_true(cell.figures.tracked);
		assert_text(cell.raw, raw);
	}
	struct figures f = {.version = LU_COUNT_MAX, .on_hand = LU_COUNT_MAX};
	assert_text(cell_value(&arena, &f, TEXT("X")), TEXT("V|1000000000000000|1000000000000000|0|0|0|X"));
}

/* A record of an invalidation may be anybody's: a version that no row has must not end whoever passes it on. */
static void a_version_that_cannot_be_is_sent_as_the_nearest_that_can(void **state)
{
	struct text sku = TEXT("A");
	const int64_t versions[] = {-1, INT64_MIN, INT64_MAX};
	for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
		struct cell_call call = cell_invalidate(&arena, TEXT("lu:1"), &sku, &versions[i], 1);
		assert_text(call.argv[call.argc - 1], versions[i] < 0 ? TEXT("0") : TEXT("1000000000000000"));
	}
}

static void a_sku_of_any_bytes_round_trips(void **state)
{
	char bytes[256];
	for (int i = 0; i < 256; i++)
		bytes[i] = (char)i;
	struct text sku = {bytes, sizeof bytes};
	struct figures f = {.version = 1, .on_hand = 5, .tracked = true};
	struct cell cell = cell_decode(cell_value(&arena, &f, sku), true, sku);
	assert_int_equal(cell.state, CELL_VALUE);
	sku.size--;
	assert_int_equal(cell_decode(cell_value(&arena, &f, sku), true, (struct text){bytes, 256}).state, CELL_FOREIGN);
}

static void no_cell_is_absent_and_an_empty_one_is_foreign(void **state)
{
	assert_int_equal(cell_decode((struct text){0}, false, TEXT("X")).state, CELL_ABSENT);
	assert_int_equal(cell_decode(TEXT(""), true, TEXT("X")).state, CELL_FOREIGN);
}

static void tickets_and_intents_give_their_tokens(void **state)
{
	assert_text(cell_ticket(&arena, "t-_9"), TEXT("F|t-_9"));
	struct cell fill = decoded("F|t-_9", "X"), intent = decoded("I|abc|12", "X");
	assert_int_equal(fill.state, CELL_FILL);
	assert_text(fill.token, TEXT("t-_9"));
	assert_int_equal(intent.state, CELL_INTENT);
	assert_text(intent.token, TEXT("abc"));
	assert_int_equal(intent.figures.version, 12);
}

static void a_value_of_another_sku_is_foreign(void **state)
{
	assert_int_equal(decoded("V|1|1|0|0|1|ABC", "ABC").state, CELL_VALUE);
	assert_int_equal(decoded("V|1|1|0|0|1|ABC", "abc").state, CELL_FOREIGN);
	assert_int_equal(decoded("V|1|1|0|0|1|ABC", "AB").state, CELL_FOREIGN);
	assert_int_equal(decoded("V|1|1|0|0|1|ABC", "ABCD").state, CELL_FOREIGN);
}

static void whatever_is_not_exactly_ours_is_foreign(void **state)
{
	static const char *const foreign[] = {
		"V",
		"V|",
		"V|1",
		"V|1|1|0|0|1",
		"V|1|1|0|0|2|X",
		"V|1|1|0|0||X",
		"V|1|1|0|0|1|",
		"V|1|1|0|0|1|X ",
		"V||1|0|0|1|X",
		"V|-1|1|0|0|1|X",
		"V|+1|1|0|0|1|X",
		"V|01|1|0|0|1|X",
		"V|00|1|0|0|1|X",
		"V|1 |1|0|0|1|X",
		"V|1.0|1|0|0|1|X",
		"V|1e15|1|0|0|1|X",
		"V|1|1e+15|0|0|1|X",
		"V|1000000000000001|1|0|0|1|X",
		"V|1|9223372036854775808|0|0|1|X",
		"V|1|99999999999999999999999|0|0|1|X",
		"v|1|1|0|0|1|X",
		"V|1|1|0|0|01|X",
		"F",
		"F|",
		"F|a b",
		"F|a|",
		"F|a\n",
		"I",
		"I|",
		"I|a",
		"I|a|",
		"I||1",
		"I|a|x",
		"I|a|1|",
		"I|a|1 ",
		"I|a|01",
		"I|a|1000000000000001",
		"I|a|-1",
		" V|1|1|0|0|1|X",
		"X|1",
		"12",
		"null",
		"{}",
	};
	for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
		struct cell cell = decoded(foreign[i], "X");
		if (cell.state != CELL_FOREIGN)
			fail_msg("\"%s\" was taken for a cell", foreign[i]);
		assert_text(cell.raw, text_of(foreign[i]));
	}
}

static void no_prefix_of_a_cell_is_a_cell(void **state)
{
	static const char *const cells[] = {"V|12|100|3|2|1|ABC", "I|token|12"};
	for (size_t i = 0; i < 2; i++)
		for (size_t size = 0; size < strlen(cells[i]); size++) {
			/* Copied to its size, so that a sanitizer sees a read behind it. */
			char *copy = malloc(size + 1);
			memcpy(copy, cells[i], size);
			struct cell cell = cell_decode((struct text){copy, size}, true, TEXT("ABC"));
			if (cell.state != CELL_FOREIGN)
				assert_true(i == 1 && size == strlen("I|token|1")); /* a shorter version */
			free(copy);
		}
}

static void a_call_declares_the_guard_and_every_key(void **state)
{
	const struct text skus[] = {TEXT("A"), TEXT("B")};
	const int64_t versions[] = {1, 2};
	struct cell_call call = cell_invalidate(&arena, TEXT("lu:n"), skus, versions, 2);
	assert_int_equal(call.argc, 8);
	assert_text(call.argv[0], TEXT("EVALSHA"));
	assert_text(call.argv[1], text_of(script_get(SCRIPT_INVALIDATE)->sha));
	assert_text(call.argv[2], TEXT("3"));
	assert_text(call.argv[3], TEXT("lu:n!open"));
	assert_text(call.argv[4], TEXT("lu:n:A"));
	assert_text(call.argv[5], TEXT("lu:n:B"));
}

static void a_read_asks_who_it_is_and_for_guard_and_cells(void **state)
{
	const struct text skus[] = {TEXT("A"), TEXT("B")};
	struct redis_command read[2];
	cell_read(&arena, TEXT("lu:n"), skus, 2, read);
	assert_int_equal(read[0].argc, 2);
	assert_text(read[0].argv[0], TEXT("INFO"));
	assert_text(read[0].argv[1], TEXT("replication"));
	assert_int_equal(read[1].argc, 4);
	assert_text(read[1].argv[0], TEXT("MGET"));
	assert_text(read[1].argv[1], TEXT("lu:n!open"));
	assert_text(read[1].argv[2], TEXT("lu:n:A"));
	assert_text(read[1].argv[3], TEXT("lu:n:B"));
}

static void the_arguments_of_each_script_are_in_its_order(void **state)
{
	const struct text sku = TEXT("A"), old = TEXT(""), new = TEXT("F|t");
	const int64_t px_ms = 2000, version = LU_COUNT_MAX;
	const struct figures row = {.version = 3, .on_hand = 4, .tracked = true};
	struct text ns = TEXT("n"), token = TEXT("tok");

	struct cell_call call = cell_cas(&arena, ns, &sku, &old, &new, &px_ms, 1);
	assert_int_equal(call.argc, 8);
	assert_text(call.argv[5], old);
	assert_text(call.argv[6], new);
	assert_text(call.argv[7], TEXT("2000"));

	call = cell_intend(&arena, ns, token, &sku, &version, 1);
	assert_int_equal(call.argc, 7);
	assert_text(call.argv[5], token);
	assert_text(call.argv[6], TEXT("1000000000000000"));

	call = cell_publish(&arena, ns, token, &sku, &row, 1000, 1);
	assert_int_equal(call.argc, 9);
	assert_text(call.argv[5], token);
	assert_text(call.argv[6], TEXT("3"));
	assert_text(call.argv[8], TEXT("V|3|4|0|0|1|A"));

	call = cell_invalidate(&arena, ns, &sku, &version, 1);
	assert_int_equal(call.argc, 6);
	assert_text(call.argv[5], TEXT("1000000000000000"));
}

static void the_life_of_a_published_cell_is_spread_over_a_tenth(void **state)
{
	const struct text sku = TEXT("A");
	const struct figures row = {.version = 3};
	bool differ = false;
	for (int i = 0; i < 1000; i++) {
		struct cell_call call = cell_publish(&arena, TEXT("n"), TEXT("t"), &sku, &row, 60000, 1);
		int64_t px_ms;
		assert_true(text_to_int64(call.argv[7], &px_ms));
		assert_true(px_ms >= 60000 && px_ms <= 66000);
		differ = differ || px_ms != 60000;
	}
	assert_true(differ);
}

static redisReply *parsed(const char *resp)
{
	redisReader *reader = redisReaderCreate();
	void *reply = NULL;
	redisReaderFeed(reader, resp, strlen(resp));
	assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
	assert_non_null(reply);
	redisReaderFree(reader);
	return reply;
}

static void a_reply_is_an_answer_only_if_it_fits_the_call(void **state)
{
	static const struct {
		const char *resp;
		size_t count;
		enum cell_reply kind;
	} rows[] = {
		{"+FENCED\r\n", 1, CELL_FENCED},
		{"+OK\r\n", 1, CELL_FAILED},
		{"$6\r\nFENCED\r\n", 1, CELL_FAILED},
		{"-FENCED\r\n", 1, CELL_FAILED},
		{"-OOM command\r\n", 1, CELL_FAILED},
		{"$-1\r\n", 1, CELL_FAILED},
		{"*0\r\n", 1, CELL_FAILED},
		{"*1\r\n$-1\r\n", 1, CELL_OK},
		{"*1\r\n$1\r\nx\r\n", 1, CELL_OK},
		{"*1\r\n:1\r\n", 1, CELL_OK},
		{"*1\r\n:1\r\n", 2, CELL_FAILED},
		{"*2\r\n:1\r\n:0\r\n", 1, CELL_FAILED},
		{"*1\r\n-ERR x\r\n", 1, CELL_FAILED},
		{"*1\r\n*0\r\n", 1, CELL_FAILED},
		{":0\r\n", 1, CELL_OK},
		{":2\r\n", 2, CELL_OK},
		{":3\r\n", 2, CELL_FAILED},
		{":-1\r\n", 2, CELL_FAILED},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		redisReply *reply = parsed(rows[i].resp);
		if (cell_reply_kind(reply, rows[i].count) != rows[i].kind)
			fail_msg("row %zu: %s", i, rows[i].resp);
		redis_reply_done(&reply);
	}
	assert_int_equal(cell_reply_kind(NULL, 1), CELL_FAILED);
}

#define RUN_ID "rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr"
#define HISTORY "hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh"
#define OTHER "oooooooooooooooooooooooooooooooooooooooo"
#define INFO(role, history) \
	"# Replication\r\nrole:" role "\r\nslaves:0\r\nmaster_replid:" history "\r\nmaster_replid2:" HISTORY "\r\n"
#define GUARD(role, history) RUN_ID " " role " " history

static void cells_count_only_behind_the_fence(void **state)
{
	static const struct {
		const char *info, *guard; /* NULL: nil */
		const char *cell;         /* as it comes */
		enum cell_reply kind;
	} rows[] = {
		{INFO("master", HISTORY), GUARD("master", HISTORY), "$1\r\nx\r\n", CELL_OK},
		{INFO("master", HISTORY), GUARD("master", HISTORY), "$-1\r\n", CELL_OK},
		{INFO("master", HISTORY), NULL, "$1\r\nx\r\n", CELL_FENCED},
		{INFO("master", HISTORY), "", "$1\r\nx\r\n", CELL_FENCED},
		{INFO("master", HISTORY), RUN_ID " " HISTORY, "$1\r\nx\r\n", CELL_FENCED},
		{INFO("master", HISTORY), GUARD("master", OTHER), "$1\r\nx\r\n", CELL_FENCED},
		{INFO("master", OTHER), GUARD("master", HISTORY), "$1\r\nx\r\n", CELL_FENCED},
		{INFO("slave", HISTORY), GUARD("master", HISTORY), "$1\r\nx\r\n", CELL_FENCED},
		{INFO("slave", HISTORY), GUARD("slave", HISTORY), "$1\r\nx\r\n", CELL_FENCED},
		{INFO("masters", HISTORY), GUARD("master", HISTORY), "$1\r\nx\r\n", CELL_FENCED},
		{INFO("mast", HISTORY), GUARD("master", HISTORY), "$1\r\nx\r\n", CELL_FENCED},
		{INFO("", HISTORY), GUARD("", HISTORY), "$1\r\nx\r\n", CELL_FENCED},
		{"", GUARD("master", HISTORY), "$1\r\nx\r\n", CELL_FENCED},
		{INFO("master", HISTORY), GUARD("master", HISTORY), ":1\r\n", CELL_FAILED},
		{INFO("master", HISTORY), GUARD("master", HISTORY), "-ERR no\r\n", CELL_FAILED},
	};
	redisReply *const *cells = NULL;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char guard[200] = "$-1\r\n", resp[1000];
		if (rows[i].guard)
			snprintf(guard, sizeof guard, "$%zu\r\n%s\r\n", strlen(rows[i].guard), rows[i].guard);
		snprintf(resp, sizeof resp, "*2\r\n$%zu\r\n%s\r\n*2\r\n%s%s", strlen(rows[i].info), rows[i].info, guard,
		         rows[i].cell);
		redisReply *reply = parsed(resp);
		if (cell_read_kind(reply, 1, &cells) != rows[i].kind)
			fail_msg("row %zu: %s", i, resp);
		if (rows[i].kind == CELL_OK)
			assert_ptr_equal(cells, reply->element[1]->element + 1);
		redis_reply_done(&reply);
	}
}

static void what_is_no_answer_to_a_read_is_a_failure(void **state)
{
	static const char *const rows[] = {
		"*2\r\n-NOPERM no\r\n*2\r\n$1\r\nx\r\n$1\r\nx\r\n",
		"*2\r\n:1\r\n*2\r\n$1\r\nx\r\n$1\r\nx\r\n",
		"*2\r\n$1\r\nx\r\n*1\r\n$1\r\nx\r\n",
		"*2\r\n$1\r\nx\r\n*3\r\n$1\r\nx\r\n$1\r\nx\r\n$1\r\nx\r\n",
		"*2\r\n$1\r\nx\r\n*2\r\n:1\r\n$1\r\nx\r\n",
		"*2\r\n$1\r\nx\r\n$1\r\nx\r\n",
		"*2\r\n$1\r\nx\r\n-WRONGTYPE x\r\n",
		"*1\r\n$1\r\nx\r\n",
		"*-1\r\n",
		"+QUEUED\r\n",
		"-EXECABORT x\r\n",
	};
	redisReply *const *cells = NULL;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		redisReply *reply = parsed(rows[i]);
		if (cell_read_kind(reply, 1, &cells) != CELL_FAILED)
			fail_msg("row %zu: %s", i, rows[i]);
		redis_reply_done(&reply);
	}
	assert_int_equal(cell_read_kind(NULL, 1, &cells), CELL_FAILED);
}

static void a_forgotten_script_is_sent_with_its_source(void **state)
{
	const struct text sku = TEXT("A\r\n$7\r\nEVALSHA\r\n");
	const int64_t version = 1;
	struct cell_call call = cell_invalidate(&arena, TEXT("n"), &sku, &version, 1);
	struct buffer request = {0}, again = {0}, expected = {0};
	wire_request(&request, call.argc, call.argv);
	redisReply *noscript = parsed("-NOSCRIPT No matching script.\r\n"), *other = parsed("-ERR no\r\n");

	assert_false(wire_again(other, buffer_text(&request), &again));
	assert_true(wire_again(noscript, buffer_text(&request), &again));
	call.argv[0] = TEXT("EVAL");
	call.argv[1] = script_get(SCRIPT_INVALIDATE)->source;
	wire_request(&expected, call.argc, call.argv);
	assert_text(buffer_text(&again), buffer_text(&expected));

	buffer_clear(&request);
	wire_request(&request, 3,
	             (struct text[]){TEXT("EVALSHA"), TEXT("0123456789012345678901234567890123456789"), TEXT("0")});
	assert_false(wire_again(noscript, buffer_text(&request), &again)); /* not one of ours */
	buffer_clear(&request);
	wire_request(&request, 1, (struct text[]){TEXT("PING")});
	assert_false(wire_again(noscript, buffer_text(&request), &again));
	redis_reply_done(&noscript);
	redis_reply_done(&other);
	buffer_done(&request);
	buffer_done(&again);
	buffer_done(&expected);
}

static void a_field_of_info_is_found_by_its_whole_name(void **state)
{
	struct text info = TEXT("# Replication\r\nrole:master\r\nmaster_replid2:bb\r\nmaster_replid:aa\r\nlast:");
	assert_text(redis_info_value(info, "role"), TEXT("master"));
	assert_text(redis_info_value(info, "master_replid"), TEXT("aa"));
	assert_text(redis_info_value(info, "ole"), TEXT(""));
	assert_text(redis_info_value(info, "last"), TEXT(""));
	assert_text(redis_info_value((struct text){0}, "role"), TEXT(""));
}

static void urls_say_where_redis_is(void **state)
{
	struct redis_address a;
	const char *why = NULL;
	assert_true(redis_address_parse("unix:///run/redis.sock?db=3", &a, &why));
	assert_true(a.unix_socket);
	assert_string_equal(a.host, "/run/redis.sock");
	assert_int_equal(a.db, 3);
	assert_true(redis_address_parse("unix://app:s%40c%2Fret@/run/r", &a, &why));
	assert_string_equal(a.user, "app");
	assert_string_equal(a.password, "s@c/ret");
	assert_string_equal(a.host, "/run/r");
	assert_true(redis_address_parse("redis://cache.example", &a, &why));
	assert_false(a.unix_socket);
	assert_string_equal(a.host, "cache.example");
	assert_int_equal(a.port, 6379);
	assert_int_equal(a.db, 0);
	assert_true(redis_address_parse("redis://:pw@[::1]:7000/2", &a, &why));
	assert_string_equal(a.host, "::1");
	assert_string_equal(a.user, "");
	assert_string_equal(a.password, "pw");
	assert_int_equal(a.port, 7000);
	assert_int_equal(a.db, 2);
	assert_true(redis_address_parse("redis://h:1/", &a, &why));
	assert_true(redis_address_parse("redis://u:p%25q@h", &a, &why));
	assert_string_equal(a.password, "p%q");
}

static void other_urls_are_refused_with_a_sentence(void **state)
{
	static const char *const urls[] = {
		"",
		"redis",
		"redis:",
		"redis:/h",
		"rediss://h",
		"http://h",
		"REDIS://h",
		"redis://",
		"redis:///0",
		"redis://:6379",
		"redis://h:",
		"redis://h:0",
		"redis://h:65536",
		"redis://h:-1",
		"redis://h:+1",
		"redis://h:6379x",
		"redis://h/x",
		"redis://h/-1",
		"redis://h/0/1",
		"redis://h/0?db=1",
		"redis://h?db=1",
		"redis://h /0",
		"redis://user@h",
		"redis://user:@h",
		"redis://u:p%@h",
		"redis://u:p%2@h",
		"redis://u:p%zz@h",
		"redis://u:p%00q@h",
		"redis://[::1",
		"redis://[]",
		"redis://[::1]x",
		"redis://a:b:c",
		"redis://h\nx",
		"unix://",
		"unix:///",
		"unix://run/redis",
		"unix:/run/r",
		"unix:///run/r?db=",
		"unix:///run/r?db=x",
		"unix:///run/r?db=99999999999",
		"unix:///run/r?d=1",
		"unix:///run/r?",
		"unix:///run/r?db=1&x=2",
		"unix:///0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678",
	};
	for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
		struct redis_address address = {.port = 1};
		const char *why = NULL;
		if (redis_address_parse(urls[i], &address, &why))
			fail_msg("\"%s\" was accepted", urls[i]);
		assert_non_null(why);
		assert_int_equal(address.port, 1); /* untouched */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_value_is_written_field_by_field),
		cmocka_unit_test(every_count_round_trips_exactly),
		cmocka_unit_test(a_version_that_cannot_be_is_sent_as_the_nearest_that_can),
		cmocka_unit_test(a_sku_of_any_bytes_round_trips),
		cmocka_unit_test(no_cell_is_absent_and_an_empty_one_is_foreign),
		cmocka_unit_test(tickets_and_intents_give_their_tokens),
		cmocka_unit_test(a_value_of_another_sku_is_foreign),
		cmocka_unit_test(whatever_is_not_exactly_ours_is_foreign),
		cmocka_unit_test(no_prefix_of_a_cell_is_a_cell),
		cmocka_unit_test(a_call_declares_the_guard_and_every_key),
		cmocka_unit_test(a_read_asks_who_it_is_and_for_guard_and_cells),
		cmocka_unit_test(the_arguments_of_each_script_are_in_its_order),
		cmocka_unit_test(the_life_of_a_published_cell_is_spread_over_a_tenth),
		cmocka_unit_test(a_reply_is_an_answer_only_if_it_fits_the_call),
		cmocka_unit_test(cells_count_only_behind_the_fence),
		cmocka_unit_test(what_is_no_answer_to_a_read_is_a_failure),
		cmocka_unit_test(a_forgotten_script_is_sent_with_its_source),
		cmocka_unit_test(a_field_of_info_is_found_by_its_whole_name),
		cmocka_unit_test(urls_say_where_redis_is),
		cmocka_unit_test(other_urls_are_refused_with_a_sentence),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
