/* Clocks. Deadlines and leases are int64 nanoseconds of CLOCK_BOOTTIME: it never steps and counts suspended time.
 * What the database stores is judged by the database's clock only (int64 microseconds since 1970). Thread: any.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)
#define US_PER_S INT64_C(1000000)
#define DEADLINE_NONE INT64_MAX

int64_t clock_boottime_ns(void);
int64_t clock_unix_us(void);
static inline int64_t deadline_in_ms(int64_t ms)
{
	return clock_boottime_ns() + ms * NS_PER_MS;
}
/* Milliseconds left, rounded up, 0 if past, at most INT_MAX: ready for poll(). */
int deadline_left_ms(int64_t deadline_ns);
/* Fills 25 bytes with "2026-11-29T13:45:00.123Z" and a NUL. */
void clock_format(int64_t unix_us, char out[25]);
/* Initialises a condition variable on CLOCK_MONOTONIC; clock_cond_wait waits until signalled or the BOOTTIME deadline:
 * false when that has passed. */
void clock_cond_init(pthread_cond_t *cond);
bool clock_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t deadline_ns);
void clock_sleep_until(int64_t deadline_ns);

#endif
