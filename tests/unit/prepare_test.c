/* Preparing an operation: lines merged and sorted, the fingerprint tells operations apart and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/id.h"
#include "base/text.h"
#include "inventory/prepare.h"

static struct arena arena;

static int make_arena(void **state)
{
	(void)state;
	arena_init(&arena, 4096);
	return 0;
}

static int free_arena(void **state)
{
	(void)state;
	arena_done(&arena);
	return 0;
}

static struct operation *make(enum operation_kind kind, size_t line_count, const struct line *lines)
{
	struct operation *op = ARENA_NEW(&arena, struct operation);
	op->kind = kind;
	op->arena = &arena;
	op->principal = (struct principal){.id = 1, .channel = CHANNEL_WEB, .scopes = SCOPE_SELL};
	op->lines = ARENA_ARRAY(&arena, line_count, struct line);
	if (line_count)
		memcpy(op->lines, lines, line_count * sizeof *lines);
	op->line_count = line_count;
	return op;
}

#define LINE(code, n)                                    \
	{                                                    \
		.sku = {code, sizeof(code) - 1}, .quantity = (n) \
	}
#define SET(code, n)                                                  \
	{                                                                 \
		.sku = {code, sizeof(code) - 1}, .quantity = (n), .set = true \
	}
#define MAKE(kind, ...) \
	make(OPERATION_##kind, sizeof((struct line[]){__VA_ARGS__}) / sizeof(struct line), (struct line[]){__VA_ARGS__})

static bool same_fingerprint(struct operation *a, struct operation *b)
{
	assert_int_equal(operation_prepare(a), LU_OK);
	assert_int_equal(operation_prepare(b), LU_OK);
	return memcmp(a->fingerprint, b->fingerprint, sizeof a->fingerprint) == 0;
}

/* --- lines -------------------------------------------------------------------------------------------------------- */

static void b06_twins_are_added_and_lines_sorted_by_their_bytes(void **state)
{
	(void)state;
	struct operation *op = MAKE(CHECKOUT, LINE("b", 1), LINE("\xc3\xa9", 4), LINE("B", 2), LINE("b", 3), LINE("bb", 1));
	struct line *given = op->lines;
	assert_int_equal(operation_prepare(op), LU_OK);
	assert_int_equal(op->line_count, 4);
	static const char *const order[] = {"B", "b", "bb", "\xc3\xa9"};
	for (size_t i = 0; i < 4; i++) {
		assert_true(text_equal(op->lines[i].sku, text_of(order[i])));
		assert_true(text_equal(op->skus[i], text_of(order[i])));
	}
	assert_int_equal(op->sku_count, 4);
	assert_int_equal(op->lines[1].quantity, 4);
	assert_int_equal(given[0].quantity, 1); /* the caller's own are left alone */
}

static void b58_sums_of_twins_cannot_overflow(void **state)
{
	(void)state;
	assert_int_equal(operation_prepare(MAKE(CHECKOUT, LINE("A", LU_QUANTITY_MAX), LINE("A", 1))), LU_INVALID_QUANTITY);
	assert_int_equal(operation_prepare(MAKE(RESERVE, LINE("A", INT64_C(1) << 62), LINE("A", INT64_C(1) << 62))),
	                 LU_INVALID_QUANTITY);
	assert_int_equal(operation_prepare(MAKE(CHECKOUT, LINE("A", LU_QUANTITY_MAX - 1), LINE("A", 1))), LU_OK);
	struct line *lines = ARENA_ARRAY(&arena, 1000, struct line);
	for (size_t i = 0; i < 1000; i++)
		lines[i] = (struct line)LINE("A", INT64_C(1) << 60);
	assert_int_equal(operation_prepare(make(OPERATION_CHECKOUT, 1000, lines)), LU_INVALID_QUANTITY);
	assert_int_equal(operation_prepare(MAKE(ADJUST, LINE("A", LU_COUNT_MAX), LINE("A", 1))), LU_INVALID_QUANTITY);
	assert_int_equal(operation_prepare(MAKE(ADJUST, LINE("A", INT64_MAX))), LU_INVALID_QUANTITY);
	assert_int_equal(operation_prepare(MAKE(ADJUST, LINE("A", INT64_MIN), LINE("A", INT64_MIN))), LU_INVALID_QUANTITY);
}

static void the_order_of_twins_decides_nothing(void **state)
{
	(void)state;
	struct operation *there = MAKE(ADJUST, LINE("A", LU_COUNT_MAX), LINE("A", 1), LINE("A", -1));
	struct operation *back = MAKE(ADJUST, LINE("A", -1), LINE("A", 1), LINE("A", LU_COUNT_MAX));
	assert_int_equal(operation_prepare(there), LU_OK);
	assert_int_equal(operation_prepare(back), LU_OK);
	assert_memory_equal(there->fingerprint, back->fingerprint, sizeof there->fingerprint);
}

static void b57_a_negative_line_offsets_nothing(void **state)
{
	(void)state;
	assert_int_equal(operation_prepare(MAKE(CHECKOUT, LINE("A", -5))), LU_INVALID_QUANTITY);
	assert_int_equal(operation_prepare(MAKE(RESERVE, LINE("A", 3), LINE("A", -2))), LU_INVALID_QUANTITY);
	assert_int_equal(operation_prepare(MAKE(CANCEL, LINE("A", 0))), LU_INVALID_QUANTITY);
	struct operation *op = MAKE(ADJUST, LINE("A", 3), LINE("A", -3)); /* only a correction takes signed values */
	assert_int_equal(operation_prepare(op), LU_OK);
	assert_int_equal(op->line_count, 1);
	assert_int_equal(op->lines[0].quantity, 0);
}

static void a_counted_value_has_no_twin_and_no_sign(void **state)
{
	(void)state;
	assert_int_equal(operation_prepare(MAKE(ADJUST, SET("A", 3), LINE("A", 1))), LU_INVALID_LINES);
	assert_int_equal(operation_prepare(MAKE(ADJUST, LINE("A", 1), SET("A", 3))), LU_INVALID_LINES);
	assert_int_equal(operation_prepare(MAKE(ADJUST, SET("A", 3), SET("A", 3))), LU_INVALID_LINES);
	assert_int_equal(operation_prepare(MAKE(ADJUST, SET("A", -1))), LU_INVALID_QUANTITY);
	assert_int_equal(operation_prepare(MAKE(ADJUST, SET("A", LU_COUNT_MAX + 1))), LU_INVALID_QUANTITY);
	assert_int_equal(operation_prepare(MAKE(ADJUST, SET("A", LU_COUNT_MAX), LINE("B", -LU_COUNT_MAX))), LU_OK);
}

static void b60_the_number_of_lines_is_bounded(void **state)
{
	(void)state;
	struct line *lines = ARENA_ARRAY(&arena, LU_LINES_MAX + 1, struct line);
	for (size_t i = 0; i <= LU_LINES_MAX; i++)
		lines[i] = (struct line){.sku = arena_printf(&arena, "%04zu", i), .quantity = 1};
	assert_int_equal(operation_prepare(make(OPERATION_CHECKOUT, 0, NULL)), LU_INVALID_LINES);
	assert_int_equal(operation_prepare(make(OPERATION_ADJUST, 0, NULL)), LU_INVALID_LINES);
	assert_int_equal(operation_prepare(make(OPERATION_CANCEL, 0, NULL)), LU_OK);
	assert_int_equal(operation_prepare(make(OPERATION_CHECKOUT, LU_LINES_MAX + 1, lines)), LU_INVALID_LINES);
	assert_int_equal(operation_prepare(make(OPERATION_CANCEL, LU_LINES_MAX + 1, lines)), LU_INVALID_LINES);
	assert_int_equal(operation_prepare(make(OPERATION_CHECKOUT, LU_LINES_MAX, lines)), LU_OK);
	assert_int_equal(operation_prepare(MAKE(COMMIT, LINE("A", 1))), LU_INVALID_LINES);
	assert_int_equal(operation_prepare(MAKE(REFRESH, LINE("A", 0), LINE("B", 0))), LU_INVALID_LINES);
}

/* --- fingerprint -------------------------------------------------------------------------------------------------- */

static void the_same_operation_has_the_same_fingerprint(void **state)
{
	(void)state;
	struct operation *a = MAKE(CHECKOUT, LINE("A", 1), LINE("B", 2)), *b = MAKE(CHECKOUT, LINE("B", 2), LINE("A", 1));
	b->principal.channel = CHANNEL_POS; /* the key belongs to the principal; nothing else of it matters */
	b->key = TEXT("k");
	assert_true(same_fingerprint(a, b));
	assert_true(same_fingerprint(MAKE(CHECKOUT, LINE("A", 3)), MAKE(CHECKOUT, LINE("A", 1), LINE("A", 2))));
	a = MAKE(ADJUST, LINE("A", 1));
	b = MAKE(ADJUST, LINE("A", 1));
	b->lines[0].change_from = 7; /* not given: not read */
	assert_true(same_fingerprint(a, b));
}

static void every_field_changes_the_fingerprint(void **state)
{
	(void)state;
	enum { VARIANTS = 30 };
	struct operation *ops[VARIANTS];
	static struct text names[] = {TEXT("x"), TEXT("yz")}, split[] = {TEXT("xy"), TEXT("z")};
	for (size_t i = 0; i < VARIANTS; i++)
		ops[i] = MAKE(CHECKOUT, LINE("A", 1));
	size_t n = 1;
	ops[n++]->kind = OPERATION_RESERVE;
	ops[n++]->lines[0].quantity = 2;
	ops[n++]->lines[0].sku = TEXT("B");
	ops[n++] = MAKE(CHECKOUT, LINE("A", 1), LINE("B", 1));
	ops[n++]->target.bytes[15] = 1;
	ops[n++]->other.bytes[15] = 1;
	ops[n++]->ttl_s = 60;
	ops[n++]->reference = TEXT(""); /* empty is not none */
	ops[n++]->reference = TEXT("r");
	ops[n++]->reason = TEXT("r");
	ops[n] = MAKE(CHECKOUT, LINE("A", 1));
	ops[n]->reference = TEXT("ab");
	ops[n++]->reason = TEXT("c");
	ops[n]->reference = TEXT("a");
	ops[n++]->reason = TEXT("bc");
	ops[n++] = MAKE(ADJUST, LINE("A", 1));
	ops[n++] = MAKE(ADJUST, SET("A", 1));
	ops[n] = MAKE(ADJUST, SET("A", 1));
	ops[n++]->lines[0].change_from_given = true;
	ops[n] = MAKE(ADJUST, SET("A", 1));
	ops[n]->lines[0].change_from_given = true;
	ops[n++]->lines[0].change_from = 1;
	const struct sku_change changes[] = {
		{0},
		{.on_hand_given = true},
		{.on_hand_given = true, .on_hand = 1},
		{.safety_stock_given = true},
		{.safety_stock_given = true, .safety_stock = 1},
		{.tracked_given = true},
		{.tracked_given = true, .tracked = true},
		{.titles_given = true, .titles_json = TEXT("{}")},
		{.titles_given = true, .titles_json = TEXT("{\"en\":\"x\"}")},
		{.names_given = true},
		{.names_given = true, .names = names, .name_count = 1},
		{.names_given = true, .names = names, .name_count = 2},
		{.names_given = true, .names = split, .name_count = 2},
	};
	for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
		ops[n] = MAKE(SKU_PUT, LINE("A", 0));
		ops[n]->sku_change = ARENA_NEW(&arena, struct sku_change);
		*ops[n++]->sku_change = changes[i];
	}
	assert_int_equal(n, VARIANTS);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(operation_prepare(ops[i]), LU_OK);
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < i; j++)
			if (memcmp(ops[i]->fingerprint, ops[j]->fingerprint, sizeof ops[i]->fingerprint) == 0)
				fail_msg("variants %zu and %zu read alike", j, i);
}

/* Known answer, so that rows written by one release are understood by the next. */
static void the_fingerprint_stays_what_it_is(void **state)
{
	(void)state;
	struct operation *op = MAKE(CHECKOUT, LINE("A", 1));
	op->reference = TEXT("order 1");
	assert_int_equal(operation_prepare(op), LU_OK);
	char hex[65];
	for (size_t i = 0; i < 32; i++)
		snprintf(hex + 2 * i, 3, "%02x", op->fingerprint[i]);
	assert_string_equal(hex, "da477ae0c51dd7c7061ea9328ef59a3dc4093e6cb3def4122a8218d3c7f1d017");
}

/* --- keys, SKUs, claims ------------------------------------------------------------------------------------------- */

static struct operation *order_put(const char *number, int64_t version)
{
	struct operation *op = MAKE(ORDER_PUT, LINE("A", 1));
	op->number = text_of(number);
	op->order_version = version;
	return op;
}

static void an_order_is_its_number_and_its_version(void **state)
{
	assert_true(same_fingerprint(order_put("N", 1), order_put("N", 1)));
	assert_false(same_fingerprint(order_put("N", 1), order_put("N", 2)));
	assert_false(same_fingerprint(order_put("N", 1), order_put("M", 1)));
	/* Versions of one order keep their order in the queue, though they may share no SKU; a batch may take several. */
	struct operation *op = make(OPERATION_ORDER_PUT, 0, NULL), *other = make(OPERATION_ORDER_PUT, 0, NULL);
	op->number = other->number = TEXT("N");
	other->principal.id = 2;
	assert_int_equal(operation_prepare(op), LU_OK);
	assert_int_equal(operation_prepare(other), LU_OK);
	operation_claim(op);
	operation_claim(other);
	assert_int_equal(op->claim_count, 1);
	assert_int_equal(op->claims[0] & 1, 1);
	assert_true(op->claims[0] != other->claims[0]);
}

static void for_whom_it_is_asked_is_not_what_is_asked(void **state)
{
	struct operation *op = MAKE(RESERVE, LINE("A", 1));
	op->caller = TEXT("chat 7");
	assert_true(same_fingerprint(op, MAKE(RESERVE, LINE("A", 1))));
}

static void a_put_without_a_key_gets_one_of_ours(void **state)
{
	(void)state;
	struct operation *a = MAKE(SKU_PUT, LINE("A", 0)), *b = MAKE(SKU_PUT, LINE("A", 0)),
					 *given = MAKE(SKU_PUT, LINE("A", 0));
	given->key = TEXT("mine");
	given->client_key = true;
	assert_true(same_fingerprint(a, b));
	assert_int_equal(operation_prepare(given), LU_OK);
	assert_int_equal(a->key.size, 1 + TOKEN_BYTES);
	assert_int_equal(a->key.data[0], '~');
	assert_false(text_equal(a->key, b->key));
	assert_false(a->client_key);
	assert_true(text_equal(given->key, TEXT("mine")) && given->client_key);
	struct operation *sale = MAKE(CHECKOUT, LINE("A", 1));
	assert_int_equal(operation_prepare(sale), LU_OK);
	assert_int_equal(sale->key.size, 0);
	assert_false(uuid_is_nil(&sale->new_id));
	assert_false(uuid_equal(&a->new_id, &b->new_id));
}

static void skus_of_objects_join_without_twins(void **state)
{
	(void)state;
	struct operation *op = MAKE(RESERVE, LINE("B", 1), LINE("D", 1));
	assert_false(operation_needs_resolving(op));
	op->other = uuid_new();
	assert_int_equal(operation_prepare(op), LU_OK);
	assert_true(operation_needs_resolving(op));
	char transient[] = "CBA";
	struct line lines[] = {{.sku = {transient, 1}}, {.sku = {transient + 1, 1}}, {.sku = {transient + 2, 1}}};
	operation_add_skus(op, lines, 3);
	memset(transient, 'Z', sizeof transient); /* copied */
	static const char *const skus[] = {"A", "B", "C", "D"};
	assert_int_equal(op->sku_count, 4);
	for (size_t i = 0; i < 4; i++)
		assert_true(text_equal(op->skus[i], text_of(skus[i])));
	assert_int_equal(op->line_count, 2);
	struct operation *commit = make(OPERATION_COMMIT, 0, NULL);
	assert_int_equal(operation_prepare(commit), LU_OK);
	assert_true(operation_needs_resolving(commit));
	operation_add_skus(commit, lines, 1);
	assert_false(operation_needs_resolving(commit));
}

static void claims_are_the_skus_then_the_key(void **state)
{
	(void)state;
	struct operation *a = MAKE(CHECKOUT, LINE("A", 1), LINE("B", 1)), *b = MAKE(CHECKOUT, LINE("B", 1));
	a->key = b->key = TEXT("B");
	b->principal.id = 2;
	assert_true(operation_prepare(a) == LU_OK && operation_prepare(b) == LU_OK);
	operation_claim(a);
	operation_claim(b);
	assert_int_equal(a->claim_count, 3);
	assert_int_equal(b->claim_count, 2);
	assert_true(a->claims[1] == b->claims[0]);
	assert_true(a->claims[2] != b->claims[1]); /* another principal's key */
	assert_true(a->claims[2] != a->claims[1]); /* a key is not a SKU of the same bytes */
	for (size_t i = 0; i < 2; i++)
		assert_true(a->claims[i] & 1);
	assert_false(a->claims[2] & 1); /* even: not twice in one batch */
	uint64_t key = a->claims[2], sku = a->claims[1];
	operation_claim_blocked(a, a->skus[1]); /* of its SKUs it now claims only the one it cannot have */
	assert_true(text_equal(a->blocked_sku, TEXT("B")));
	assert_true(a->blocked_claim == sku);
	assert_int_equal(a->claim_count, 2);
	assert_true(a->claims[0] == sku && a->claims[1] == key);
	b->key = (struct text){0};
	operation_claim(b);
	assert_int_equal(b->claim_count, 1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_arena, free_arena)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(b06_twins_are_added_and_lines_sorted_by_their_bytes),
		CASE(b58_sums_of_twins_cannot_overflow),
		CASE(the_order_of_twins_decides_nothing),
		CASE(b57_a_negative_line_offsets_nothing),
		CASE(a_counted_value_has_no_twin_and_no_sign),
		CASE(b60_the_number_of_lines_is_bounded),
		CASE(the_same_operation_has_the_same_fingerprint),
		CASE(every_field_changes_the_fingerprint),
		CASE(the_fingerprint_stays_what_it_is),
		CASE(an_order_is_its_number_and_its_version),
		CASE(for_whom_it_is_asked_is_not_what_is_asked),
		CASE(a_put_without_a_key_gets_one_of_ours),
		CASE(skus_of_objects_join_without_twins),
		CASE(claims_are_the_skus_then_the_key),
	};
	return cmocka_run_group_tests_name("prepare", tests, NULL, NULL);
}
