/* Sums of ledger entries by operation, and the table from texts to numbers beside it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "base/arena.h"
#include "base/id.h"
#include "base/text.h"
#include "cmd/audit_tally.h"
#include "cmd/text_map.h"

static struct tallies tallies;

static void entry(enum ledger_kind kind, int64_t sku, int64_t on_hand, int64_t reserved, const struct uuid *id)
{
	tally_entry(&tallies, &(struct ledger_entry){.kind = kind,
	                                             .sku_id = sku,
	                                             .on_hand_delta = on_hand,
	                                             .reserved_delta = reserved,
	                                             .operation_id = *id});
}

static void the_sum_of_entries_is_the_sum_of_lines(void **state)
{
	tallies_init(&tallies);
	struct uuid id = uuid_new();
	entry(LEDGER_RESERVE, 1, 0, 3, &id);
	entry(LEDGER_RESERVE, 2, 0, 5, &id);
	entry(LEDGER_COMMIT, 2, -5, -5, &id);
	entry(LEDGER_COMMIT, 1, -3, -3, &id);
	const struct tally *tally = tally_find(&tallies, &id);
	uint64_t lines = tally_weight(&tallies, 1, 3) + tally_weight(&tallies, 2, 5);
	assert_true(tally->sums[TALLY_RESERVE] == lines);
	assert_true(tally->sums[TALLY_COMMIT] == lines);
	assert_int_equal(tally->entries[TALLY_RESERVE], 2);
	assert_int_equal(tally->entries[TALLY_RELEASE], 0);
	tallies_done(&tallies);
}

static void swapped_quantities_do_not_sum_up_to_the_same(void **state)
{
	tallies_init(&tallies);
	assert_true(tally_weight(&tallies, 1, 3) + tally_weight(&tallies, 2, 5) !=
	            tally_weight(&tallies, 1, 5) + tally_weight(&tallies, 2, 3));
	assert_true(tally_weight(&tallies, 1, 2) == 2 * tally_weight(&tallies, 1, 1));
	tallies_done(&tallies);
}

static void an_entry_that_moves_what_its_kind_may_not_does_not_look_right(void **state)
{
	static const struct {
		enum ledger_kind kind;
		int64_t on_hand, reserved;
		enum tally_kind tally;
	} cases[] = {{LEDGER_RESERVE, 1, 3, TALLY_RESERVE},
	             {LEDGER_RELEASE, -1, -3, TALLY_RELEASE},
	             {LEDGER_EXPIRE, -3, -3, TALLY_EXPIRE},
	             {LEDGER_SALE, -3, -1, TALLY_SALE},
	             {LEDGER_CANCEL, 3, 1, TALLY_CANCEL}};
	tallies_init(&tallies);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct uuid id = uuid_new();
		entry(cases[i].kind, 1, cases[i].on_hand, cases[i].reserved, &id);
		assert_true(tally_find(&tallies, &id)->sums[cases[i].tally] != tally_weight(&tallies, 1, 3));
	}
	tallies_done(&tallies);
}

static void a_commit_whose_two_sides_differ_does_not_look_right(void **state)
{
	tallies_init(&tallies);
	struct uuid id = uuid_new();
	entry(LEDGER_COMMIT, 1, -2, -3, &id);
	assert_true(tally_find(&tallies, &id)->sums[TALLY_COMMIT] != tally_weight(&tallies, 1, 3));
	assert_true(tally_find(&tallies, &id)->sums[TALLY_COMMIT] != tally_weight(&tallies, 1, 2));
	tallies_done(&tallies);
}

static void cancellations_of_a_line_add_up(void **state)
{
	tallies_init(&tallies);
	struct uuid id = uuid_new();
	entry(LEDGER_SALE, 1, -5, 0, &id);
	entry(LEDGER_CANCEL, 1, 2, 0, &id);
	entry(LEDGER_CANCEL, 1, 3, 0, &id);
	const struct tally *tally = tally_find(&tallies, &id);
	assert_true(tally->sums[TALLY_CANCEL] == tally->sums[TALLY_SALE]);
	assert_int_equal(tally->entries[TALLY_CANCEL], 2);
	tallies_done(&tallies);
}

static void kinds_without_an_object_are_passed_over(void **state)
{
	tallies_init(&tallies);
	struct uuid id = uuid_new();
	entry(LEDGER_CREATE, 1, 5, 0, &id);
	entry(LEDGER_ADJUST, 1, 5, 0, &id);
	entry(LEDGER_IMPORT, 1, 5, 0, &id);
	assert_null(tally_find(&tallies, &id));
	tallies_done(&tallies);
}

static void ten_thousand_operations_keep_their_own_sums(void **state)
{
	tallies_init(&tallies);
	struct uuid ids[200];
	for (int i = 0; i < 200; i++)
		ids[i] = uuid_new();
	for (int i = 0; i < 10000; i++) {
		struct uuid other = uuid_new();
		entry(LEDGER_SALE, i, -1, 0, &other);
		entry(LEDGER_SALE, 7, -1, 0, &ids[i % 200]);
	}
	assert_int_equal(tallies.count, 10200);
	for (int i = 0; i < 200; i++) {
		assert_int_equal(tally_find(&tallies, &ids[i])->entries[TALLY_SALE], 50);
		assert_true(tally_find(&tallies, &ids[i])->sums[TALLY_SALE] == tally_weight(&tallies, 7, 50));
	}
	tallies_done(&tallies);
}

static void a_text_map_finds_what_was_added_and_nothing_else(void **state)
{
	struct text_map map = {0};
	struct arena arena;
	arena_init(&arena, 4096);
	size_t value = 99;
	bool new;
	assert_false(text_map_find(&map, TEXT("A"), &value));
	assert_int_equal(value, 99);
	for (size_t i = 0; i < 5000; i++) {
		assert_int_equal(text_map_add(&map, arena_printf(&arena, "sku-%zu", i), i, &new), i);
		assert_true(new);
	}
	assert_int_equal(text_map_add(&map, TEXT("sku-17"), 1, &new), 17);
	assert_false(new);
	for (size_t i = 0; i < 5000; i++) {
		assert_true(text_map_find(&map, arena_printf(&arena, "sku-%zu", i), &value));
		assert_int_equal(value, i);
	}
	assert_false(text_map_find(&map, TEXT("SKU-17"), &value));
	assert_false(text_map_find(&map, TEXT("sku-17\0"), &value));
	/* The empty text is a key like any other. */
	assert_int_equal(text_map_add(&map, (struct text){NULL, 0}, 3, &new), 3);
	assert_true(text_map_find(&map, TEXT(""), &value));
	arena_done(&arena);
	text_map_done(&map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_sum_of_entries_is_the_sum_of_lines),
		cmocka_unit_test(swapped_quantities_do_not_sum_up_to_the_same),
		cmocka_unit_test(an_entry_that_moves_what_its_kind_may_not_does_not_look_right),
		cmocka_unit_test(a_commit_whose_two_sides_differ_does_not_look_right),
		cmocka_unit_test(cancellations_of_a_line_add_up),
		cmocka_unit_test(kinds_without_an_object_are_passed_over),
		cmocka_unit_test(ten_thousand_operations_keep_their_own_sums),
		cmocka_unit_test(a_text_map_finds_what_was_added_and_nothing_else),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
