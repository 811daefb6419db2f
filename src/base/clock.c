/* Clocks, deadlines and the spelling of times.
 *
 * Happy path: a vDSO call, no system call. Failure modes: clock_gettime cannot fail for these clocks (CHECKed); a
 * suspended machine freezes CLOCK_MONOTONIC, on which condition variables wait, so a wait is cut into slices and
 * BOOTTIME is asked after each. Times outside the years 0001 to 9999 are shown as the nearest of them.
 */
#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <time.h>

#include "base/check.h"

#define SLICE_NS_MAX NS_PER_S
#define SECONDS_PER_DAY INT64_C(86400)
#define UNIX_US_MIN (INT64_C(-62135596800) * US_PER_S)     /* 0001-01-01T00:00:00.000Z */
#define UNIX_US_MAX (INT64_C(253402300800) * US_PER_S - 1) /* 9999-12-31T23:59:59.999Z */

static int64_t now_ns(clockid_t clock)
{
	struct timespec now;
	CHECK(clock_gettime(clock, &now) == 0);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static struct timespec timespec_of(int64_t ns)
{
	return (struct timespec){.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
}

int64_t clock_boottime_ns(void)
{
	return now_ns(CLOCK_BOOTTIME);
}

int64_t clock_unix_us(void)
{
	return now_ns(CLOCK_REALTIME) / 1000;
}

int deadline_left_ms(int64_t deadline_ns)
{
	int64_t now = clock_boottime_ns();
	if (deadline_ns <= now)
		return 0;
	int64_t left_ns = deadline_ns - now;
	int64_t left_ms = left_ns / NS_PER_MS + (left_ns % NS_PER_MS != 0);
	return left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}

static void put_digits(char *out, int width, unsigned value)
{
	while (width--) {
		out[width] = (char)('0' + value % 10);
		value /= 10;
	}
}

/* The calendar by arithmetic: gmtime_r() reads the time zone of the process and takes a lock for it. Days are counted
 * from 1 March of a year divisible by 400, which puts the leap day last (Hinnant, "chrono-compatible low-level date
 * algorithms"). */
void clock_format(int64_t unix_us, char out[25])
{
	if (unix_us < UNIX_US_MIN)
		unix_us = UNIX_US_MIN;
	if (unix_us > UNIX_US_MAX)
		unix_us = UNIX_US_MAX;
	/* All positive from here on, so that division rounds down. */
	int64_t since_year_1_us = unix_us - UNIX_US_MIN;
	int64_t seconds = since_year_1_us / US_PER_S;
	unsigned ms = (unsigned)(since_year_1_us % US_PER_S / 1000);
	unsigned second_of_day = (unsigned)(seconds % SECONDS_PER_DAY);
	unsigned day = (unsigned)(seconds / SECONDS_PER_DAY) + 306; /* since 1 March of the year 0 */
	unsigned era = day / 146097, day_of_era = day % 146097;
	unsigned year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
	unsigned day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	unsigned month_from_march = (5 * day_of_year + 2) / 153;
	unsigned month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
	memcpy(out, "0000-00-00T00:00:00.000Z", 25);
	put_digits(out, 4, era * 400 + year_of_era + (month <= 2));
	put_digits(out + 5, 2, month);
	put_digits(out + 8, 2, day_of_year - (153 * month_from_march + 2) / 5 + 1);
	put_digits(out + 11, 2, second_of_day / 3600);
	put_digits(out + 14, 2, second_of_day / 60 % 60);
	put_digits(out + 17, 2, second_of_day % 60);
	put_digits(out + 20, 3, ms);
}

void clock_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attributes;
	CHECK(pthread_condattr_init(&attributes) == 0);
	CHECK(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0);
	CHECK(pthread_cond_init(cond, &attributes) == 0);
	CHECK(pthread_condattr_destroy(&attributes) == 0);
}

bool clock_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t deadline_ns)
{
	if (deadline_ns == DEADLINE_NONE) {
		CHECK(pthread_cond_wait(cond, mutex) == 0);
		return true;
	}
	for (;;) {
		int64_t left_ns = deadline_ns - clock_boottime_ns();
		if (left_ns <= 0)
			return false;
		if (left_ns > SLICE_NS_MAX)
			left_ns = SLICE_NS_MAX;
		struct timespec until = timespec_of(now_ns(CLOCK_MONOTONIC) + left_ns);
		int error = pthread_cond_timedwait(cond, mutex, &until);
		if (error == 0)
			return true;
		CHECK(error == ETIMEDOUT);
	}
}

void clock_sleep_until(int64_t deadline_ns)
{
	if (deadline_ns <= 0)
		return;
	struct timespec until = timespec_of(deadline_ns);
	while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}
