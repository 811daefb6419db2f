/* The judge of cached reads: what is stale, what has gone back, and what only overlaps a sale.
 *
 * Guards against: a judge that calls a cache wrong for a read that began before the sale was answered, and one that misses
 * a figure which is shown again after a newer one was.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cmd/race_cache.h"

static struct cache_history history;

static int start(void **state)
{
	history = (struct cache_history){.at_ns = calloc(CACHE_VERSIONS_MAX, sizeof *history.at_ns)};
	return history.at_ns == NULL;
}

static int end(void **state)
{
	free(history.at_ns);
	return 0;
}

static void a_figure_older_than_an_answer_is_stale(void **state)
{
	cache_answered(&history, 2, 1000);
	cache_answered(&history, 3, 5000);
	struct cache_judgement judgement = cache_judge(&history, cache_before(&history, 9000), 1);
	assert_true(judgement.stale);
	assert_int_equal(judgement.late_ns, 8000); /* since the first answer that made it old */
	judgement = cache_judge(&history, cache_before(&history, 9000), 2);
	assert_true(judgement.stale);
	assert_int_equal(judgement.late_ns, 4000);
	assert_false(cache_judge(&history, cache_before(&history, 9000), 3).stale);
}

static void a_read_that_began_before_the_answer_may_show_either(void **state)
{
	cache_answered(&history, 2, 1000);
	struct cache_before before = cache_before(&history, 2000);
	cache_answered(&history, 3, 2500);
	struct cache_judgement judgement = cache_judge(&history, before, 2);
	assert_false(judgement.stale || judgement.gone_back || judgement.late_ns);
	assert_false(cache_judge(&history, before, 3).stale);
}

static void what_was_shown_may_not_be_taken_back(void **state)
{
	/* Shown before it was answered: not stale, and gone back all the same. */
	cache_judge(&history, cache_before(&history, 1000), 7);
	struct cache_judgement judgement = cache_judge(&history, cache_before(&history, 2000), 6);
	assert_true(judgement.gone_back);
	assert_false(judgement.stale);
	assert_false(cache_judge(&history, cache_before(&history, 3000), 7).gone_back);
}

static void answers_out_of_order_count_from_the_first(void **state)
{
	cache_answered(&history, 3, 1000); /* its neighbour's seller is slower */
	assert_int_equal(cache_judge(&history, cache_before(&history, 4000), 1).late_ns, 3000);
	cache_answered(&history, 2, 2000);
	assert_int_equal(cache_judge(&history, cache_before(&history, 4000), 1).late_ns, 3000);
	assert_int_equal(atomic_load(&history.answered), 3);
}

static void one_wrong_step_is_enough(void **state)
{
	struct race_cache cache = {.steps = {{.who = "bot"}, {.who = "bot"}}, .step_count = 2};
	assert_true(race_cache_holds(&cache));
	cache.steps[1].wrong = true;
	assert_false(race_cache_holds(&cache));
	assert_false(race_cache_holds(&(struct race_cache){.stale = 1}));
	assert_false(race_cache_holds(&(struct race_cache){.gone_back = 1}));
	assert_false(race_cache_holds(&(struct race_cache){.oversold = 1}));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_figure_older_than_an_answer_is_stale, start, end),
		cmocka_unit_test_setup_teardown(a_read_that_began_before_the_answer_may_show_either, start, end),
		cmocka_unit_test_setup_teardown(what_was_shown_may_not_be_taken_back, start, end),
		cmocka_unit_test_setup_teardown(answers_out_of_order_count_from_the_first, start, end),
		cmocka_unit_test(one_wrong_step_is_enough),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
