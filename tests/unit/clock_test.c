/* Clocks: deadlines are counted, never waited out to judge something; times are spelt as RFC 3339. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

static void assert_spelt(int64_t unix_us, const char *expected)
{
	char out[25];
	memset(out, 'x', sizeof out);
	clock_format(unix_us, out);
	assert_string_equal(out, expected);
}

static void times_are_spelt_with_milliseconds_rounded_down(void **state)
{
	assert_spelt(0, "1970-01-01T00:00:00.000Z");
	assert_spelt(INT64_C(1795959900123999), "2026-11-29T13:45:00.123Z");
	assert_spelt(-1, "1969-12-31T23:59:59.999Z");
	assert_spelt(-1000, "1969-12-31T23:59:59.999Z");
	assert_spelt(-1001, "1969-12-31T23:59:59.998Z");
	assert_spelt(INT64_C(951782400) * US_PER_S, "2000-02-29T00:00:00.000Z");
	assert_spelt(INT64_C(4107542400) * US_PER_S, "2100-03-01T00:00:00.000Z");
}

static void times_beyond_four_digit_years_are_shown_as_the_nearest(void **state)
{
	assert_spelt(INT64_MIN, "0001-01-01T00:00:00.000Z");
	assert_spelt(INT64_MAX, "9999-12-31T23:59:59.999Z");
	assert_spelt(INT64_C(253402300799999999), "9999-12-31T23:59:59.999Z");
	assert_spelt(INT64_C(-62135596800000000), "0001-01-01T00:00:00.000Z");
}

static void every_day_of_a_thousand_years_is_spelt_as_gmtime_knows_it(void **state)
{
	for (time_t day = -200000; day < 200000; day++) {
		time_t second = day * 86400 + (day * 7919 % 86400 + 86400) % 86400;
		struct tm parts;
		assert_non_null(gmtime_r(&second, &parts));
		char expected[25], out[25];
		strftime(expected, sizeof expected, "%Y-%m-%dT%H:%M:%S.000Z", &parts);
		clock_format(second * US_PER_S, out);
		if (strcmp(out, expected) != 0)
			assert_string_equal(out, expected);
	}
}

static void time_left_is_rounded_up_and_never_negative(void **state)
{
	int64_t now = clock_boottime_ns();
	assert_int_equal(deadline_left_ms(0), 0);
	assert_int_equal(deadline_left_ms(INT64_MIN), 0);
	assert_int_equal(deadline_left_ms(now), 0);
	assert_int_equal(deadline_left_ms(DEADLINE_NONE), INT_MAX);
	/* an hour ahead: at most that, and more than nothing, however slow this machine is */
	int left = deadline_left_ms(deadline_in_ms(3600 * 1000));
	assert_true(left > 0 && left <= 3600 * 1000);
	/* what is left of a millisecond is one, or poll() would spin; 0 only if it passed while we asked */
	do
		now = clock_boottime_ns() + NS_PER_MS / 2;
	while ((left = deadline_left_ms(now)) == 0 && clock_boottime_ns() >= now);
	assert_int_equal(left, 1);
}

static void boottime_never_runs_backwards(void **state)
{
	int64_t before = clock_boottime_ns();
	for (int i = 0; i < 100000; i++) {
		int64_t now = clock_boottime_ns();
		assert_true(now >= before);
		before = now;
	}
	assert_true(clock_unix_us() > INT64_C(1600000000) * US_PER_S);
}

static void a_wait_ends_at_its_deadline_and_not_before(void **state)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond;
	clock_cond_init(&cond);
	pthread_mutex_lock(&mutex);
	int64_t deadline = deadline_in_ms(5);
	while (clock_cond_wait(&cond, &mutex, deadline))
		; /* woken for nothing */
	assert_true(clock_boottime_ns() >= deadline);
	assert_false(clock_cond_wait(&cond, &mutex, deadline));
	assert_false(clock_cond_wait(&cond, &mutex, 0));
	pthread_mutex_unlock(&mutex);
	pthread_cond_destroy(&cond);
}

struct bell {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	bool rung;
};

static void *ring(void *context)
{
	struct bell *bell = context;
	pthread_mutex_lock(&bell->mutex);
	bell->rung = true;
	pthread_cond_signal(&bell->cond);
	pthread_mutex_unlock(&bell->mutex);
	return NULL;
}

static void a_signal_ends_a_wait(void **state)
{
	int64_t deadlines[] = {DEADLINE_NONE, deadline_in_ms(3600 * 1000)};
	for (int i = 0; i < 2; i++) {
		struct bell bell = {.mutex = PTHREAD_MUTEX_INITIALIZER};
		clock_cond_init(&bell.cond);
		pthread_mutex_lock(&bell.mutex);
		pthread_t ringer;
		assert_int_equal(pthread_create(&ringer, NULL, ring, &bell), 0);
		while (!bell.rung)
			assert_true(clock_cond_wait(&bell.cond, &bell.mutex, deadlines[i]));
		pthread_mutex_unlock(&bell.mutex);
		pthread_join(ringer, NULL);
		pthread_cond_destroy(&bell.cond);
	}
}

static void a_sleep_lasts_until_its_deadline(void **state)
{
	int64_t deadline = deadline_in_ms(5);
	clock_sleep_until(deadline);
	assert_true(clock_boottime_ns() >= deadline);
	clock_sleep_until(0);
	clock_sleep_until(INT64_MIN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_are_spelt_with_milliseconds_rounded_down),
		cmocka_unit_test(times_beyond_four_digit_years_are_shown_as_the_nearest),
		cmocka_unit_test(every_day_of_a_thousand_years_is_spelt_as_gmtime_knows_it),
		cmocka_unit_test(time_left_is_rounded_up_and_never_negative),
		cmocka_unit_test(boottime_never_runs_backwards),
		cmocka_unit_test(a_wait_ends_at_its_deadline_and_not_before),
		cmocka_unit_test(a_signal_ends_a_wait),
		cmocka_unit_test(a_sleep_lasts_until_its_deadline),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
