/* The verdict on a race, and what its sweep is made of.
 *
 * Bugs it guards against: a sum that hides one SKU's surplus behind another's want; a sale that was answered and left no
 * row; a stock row that is right because two mistakes met in it; a sweep that leaves out the number that was asked for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "cmd/race.h"
#include "cmd/race_judge.h"
#include "cmd/race_strategy.h"
#include "cmd/race_workload.h"

static void expect(struct race_item item, int64_t oversold, int64_t lost)
{
	struct race_verdict verdict = race_judge(&item, 1);
	assert_int_equal(verdict.oversold, oversold);
	assert_int_equal(verdict.lost, lost);
}

static void what_adds_up_is_right(void **state)
{
	expect((struct race_item){.units = 5, .answered = 0, .rows = 0, .left = 5}, 0, 0);
	expect((struct race_item){.units = 5, .answered = 5, .rows = 5, .left = 0}, 0, 0);
	/* committed, and the buyer was cut off before he was told */
	expect((struct race_item){.units = 5, .answered = 3, .rows = 4, .left = 1}, 0, 0);
}

static void a_unit_sold_twice_is_oversold_whatever_the_stock_row_says(void **state)
{
	expect((struct race_item){.units = 1, .answered = 2, .rows = 2, .left = -1}, 1, 0);
	expect((struct race_item){.units = 1, .answered = 2, .rows = 2, .left = 0}, 1, 1);
}

static void an_update_that_was_overwritten_is_lost_before_anything_is_oversold(void **state)
{
	expect((struct race_item){.units = 10, .answered = 4, .rows = 4, .left = 8}, 0, 2);
}

static void an_answer_without_a_row_is_lost(void **state)
{
	expect((struct race_item){.units = 10, .answered = 4, .rows = 3, .left = 7}, 0, 1);
	expect((struct race_item){.units = 3, .answered = 4, .rows = 3, .left = 0}, 1, 1);
}

static void one_sku_does_not_make_good_for_another(void **state)
{
	struct race_item items[] = {{.units = 1, .answered = 2, .rows = 2, .left = -1},
	                            {.units = 9, .answered = 0, .rows = 0, .left = 9}};
	struct race_verdict verdict = race_judge(items, 2);
	assert_int_equal(verdict.oversold, 1);
	assert_int_equal(verdict.lost, 0);
}

static void the_sweep_ends_with_the_number_that_was_asked_for(void **state)
{
	int levels[RACE_LEVELS_MAX];
	assert_int_equal(race_levels(64, levels), 3);
	assert_true(levels[0] == 1 && levels[1] == 8 && levels[2] == 64);
	assert_int_equal(race_levels(200, levels), 4);
	assert_int_equal(levels[3], 200);
	assert_int_equal(race_levels(3, levels), 2);
	assert_int_equal(levels[1], 3);
	assert_int_equal(race_levels(1, levels), 1);
	assert_int_equal(levels[0], 1);
}

static void every_time_that_is_allowed_has_room_for_its_skus(void **state)
{
	for (size_t w = 0; w < race_workload_count; w++) {
		const struct race_workload *workload = &race_workloads[w];
		for (int64_t run_ms = 10; run_ms <= RACE_RUN_MS_MAX; run_ms += 10) {
			int64_t generations = race_workload_generations(workload, run_ms);
			assert_true(generations >= 1 && generations * workload->slots <= RACE_SKUS_MAX);
		}
		int64_t usual = race_workload_generations(workload, 1000);
		assert_true(workload->bit == RACE_ONCE || usual == workload->generations_per_s);
	}
}

/* --- the cheapest ------------------------------------------------------------------------------------------------- */

#define ROW(name, holds, right, speed)                                                                      \
	{                                                                                                       \
		.strategy = name, .workload = "hot", .buyers = 8, .must_hold = holds, .correct = right, .sold = 10, \
		.sales_per_s = speed                                                                                \
	}

static void the_cheapest_is_the_fastest_of_those_that_are_right(void **state)
{
	struct race_result rows[] = {ROW("atomic", true, true, 500), ROW("pessimistic", true, true, 400),
	                             ROW("broken", true, false, 900), ROW("naive", false, true, 1000)};
	struct race race = {.results = rows, .result_count = 4};
	assert_string_equal(race_cheapest(&race, "hot", 8)->strategy, "atomic");
	assert_null(race_cheapest(&race, "hot", 64));
	assert_null(race_cheapest(&race, "carts", 8));
}

static void a_strategy_that_must_hold_and_did_not_is_what_fails_a_race(void **state)
{
	struct race_result rows[] = {ROW("atomic", true, true, 500), ROW("naive", false, false, 1000)};
	struct race race = {.results = rows, .result_count = 2};
	assert_true(race_holds(&race));
	rows[1].correct = true; /* a control had luck under load */
	assert_true(race_holds(&race));
	rows[0].correct = false;
	assert_false(race_holds(&race));
}

static void a_control_that_holds_in_the_timeline_fails_a_race(void **state)
{
	struct race_timeline timelines[] = {{.must_hold = true, .holds = true}, {.must_hold = false, .holds = false}};
	struct race race = {.timelines = timelines, .timeline_count = 2};
	assert_true(race_holds(&race));
	timelines[1].holds = true;
	assert_false(race_holds(&race));
	timelines[1].holds = timelines[0].holds = false;
	assert_false(race_holds(&race));
}

static void of_controls_alone_nothing_is_claimed(void **state)
{
	struct race_result rows[] = {ROW("naive", false, false, 1000)};
	struct race_timeline timelines[] = {{.must_hold = false, .holds = false}};
	struct race_cache caches[] = {{.must_hold = true, .raced = false}, {.must_hold = false, .raced = true}};
	struct race race = {.results = rows,
	                    .result_count = 1,
	                    .timelines = timelines,
	                    .timeline_count = 1,
	                    .caches = caches,
	                    .cache_count = 2};
	assert_true(race_holds(&race));
	assert_false(race_has_promise(&race));
	caches[0].raced = true;
	assert_true(race_has_promise(&race));
	caches[0].raced = false;
	rows[0].must_hold = true;
	assert_true(race_has_promise(&race));
	rows[0].must_hold = false;
	timelines[0].must_hold = true;
	assert_true(race_has_promise(&race));
	assert_false(race_has_promise(&(struct race){0}));
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

static void every_workload_is_raced_by_some_that_hold_and_some_that_do_not(void **state)
{
	for (size_t w = 0; w < race_workload_count; w++) {
		int holding = 0, controls = 0;
		for (size_t s = 0; s < race_strategy_count; s++)
			if (race_strategies[s].workloads & race_workloads[w].bit)
				race_strategies[s].must_hold ? holding++ : controls++;
		assert_true(holding >= 5 && controls >= 1);
	}
}

static void a_pair_that_is_not_in_the_table_is_known(void **state)
{
	assert_false(race_workload_takes("hot", "unordered"));
	assert_false(race_workload_takes("once", "atomic"));
	assert_true(race_workload_takes("carts", "unordered"));
	assert_true(race_workload_takes("", "unordered"));
	assert_true(race_workload_takes("once", ""));
	assert_true(race_workload_takes("", ""));
}

static void no_strategy_is_twice_in_one_workload(void **state)
{
	for (size_t a = 0; a < race_strategy_count; a++)
		for (size_t b = 0; b < a; b++)
			if (strcmp(race_strategies[a].name, race_strategies[b].name) == 0)
				assert_int_equal(race_strategies[a].workloads & race_strategies[b].workloads, 0);
}

static void lines_are_locked_in_the_order_of_their_skus_but_by_the_control(void **state)
{
	struct race_cart cart = {.lines = 2, .skus = {9, 4}};
	for (size_t s = 0; s < race_strategy_count; s++) {
		struct race_try t;
		race_try_init(&t, &race_strategies[s], NULL, &cart);
		bool ordered = t.cart.skus[0] < t.cart.skus[1];
		assert_int_equal(ordered, strcmp(race_strategies[s].name, "unordered") != 0);
		race_try_done(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_adds_up_is_right),
		cmocka_unit_test(a_unit_sold_twice_is_oversold_whatever_the_stock_row_says),
		cmocka_unit_test(an_update_that_was_overwritten_is_lost_before_anything_is_oversold),
		cmocka_unit_test(an_answer_without_a_row_is_lost),
		cmocka_unit_test(one_sku_does_not_make_good_for_another),
		cmocka_unit_test(the_sweep_ends_with_the_number_that_was_asked_for),
		cmocka_unit_test(every_time_that_is_allowed_has_room_for_its_skus),
		cmocka_unit_test(the_cheapest_is_the_fastest_of_those_that_are_right),
		cmocka_unit_test(a_strategy_that_must_hold_and_did_not_is_what_fails_a_race),
		cmocka_unit_test(a_control_that_holds_in_the_timeline_fails_a_race),
		cmocka_unit_test(of_controls_alone_nothing_is_claimed),
		cmocka_unit_test(a_pair_that_is_not_in_the_table_is_known),
		cmocka_unit_test(every_workload_is_raced_by_some_that_hold_and_some_that_do_not),
		cmocka_unit_test(no_strategy_is_twice_in_one_workload),
		cmocka_unit_test(lines_are_locked_in_the_order_of_their_skus_but_by_the_control),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
