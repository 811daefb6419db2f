/* Percentiles of what took how long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cmd/histogram.h"

static struct histogram h, other;

static void nothing_recorded_is_zero(void **state)
{
	h = (struct histogram){0};
	assert_int_equal(histogram_percentile(&h, 50), 0);
	assert_int_equal(histogram_percentile(&h, 99), 0);
}

static void small_values_are_exact(void **state)
{
	h = (struct histogram){0};
	for (int i = 1; i <= 100; i++)
		histogram_record(&h, i);
	assert_int_equal(histogram_percentile(&h, 50), 50);
	assert_int_equal(histogram_percentile(&h, 99), 99);
	assert_int_equal(histogram_percentile(&h, 100), 100);
	assert_int_equal(histogram_percentile(&h, 0), 1);
}

static void any_value_is_right_to_one_part_in_sixty_four(void **state)
{
	for (int64_t value = 1; value < INT64_C(1) << 42; value += value / 3 + 1) {
		h = (struct histogram){0};
		histogram_record(&h, value);
		histogram_record(&h, INT64_C(1) << 42);
		int64_t seen = histogram_percentile(&h, 50);
		assert_true(seen >= value && seen - value <= value / 64);
	}
}

static void a_percentile_is_never_above_the_greatest_seen(void **state)
{
	h = (struct histogram){0};
	histogram_record(&h, 1000001);
	assert_int_equal(histogram_percentile(&h, 99), 1000001);
}

static void what_is_out_of_range_is_counted_at_the_ends(void **state)
{
	h = (struct histogram){0};
	histogram_record(&h, -5);
	histogram_record(&h, INT64_MAX);
	assert_int_equal(h.count, 2);
	assert_int_equal(histogram_percentile(&h, 50), 0);
	assert_true(histogram_percentile(&h, 100) >= INT64_C(1) << 41);
}

static void histograms_add_up(void **state)
{
	h = other = (struct histogram){0};
	for (int i = 0; i < 50; i++) {
		histogram_record(&h, 10);
		histogram_record(&other, 100);
	}
	histogram_record(&other, 120);
	histogram_add(&h, &other);
	assert_int_equal(h.count, 101);
	assert_int_equal(histogram_percentile(&h, 49), 10);
	assert_int_equal(histogram_percentile(&h, 51), 100);
	assert_int_equal(histogram_percentile(&h, 100), 120);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_recorded_is_zero),
		cmocka_unit_test(small_values_are_exact),
		cmocka_unit_test(any_value_is_right_to_one_part_in_sixty_four),
		cmocka_unit_test(a_percentile_is_never_above_the_greatest_seen),
		cmocka_unit_test(what_is_out_of_range_is_counted_at_the_ends),
		cmocka_unit_test(histograms_add_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
