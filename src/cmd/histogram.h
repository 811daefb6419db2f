/* How long things took: counts in buckets whose width grows with the value, so that a percentile is right to 1.6 %.
 *
 * 0…127 exactly; above, 64 buckets for each doubling, up to about 2^42 (microseconds: 50 days), where the last bucket
 * takes what is beyond. Plain data, starts as {0}. Thread: the owner's; histogram_add brings several together.
 */
#ifndef CMD_HISTOGRAM_H
#define CMD_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BUCKETS (64 * 37)

struct histogram {
	int64_t counts[HISTOGRAM_BUCKETS];
	int64_t count;
	int64_t max;
};

/* value < 0 counts as 0. */
void histogram_record(struct histogram *histogram, int64_t value);
void histogram_add(struct histogram *into, const struct histogram *from);
/* The value that `percent` of all are not above: the upper end of its bucket, at most the greatest seen. 0 if none. */
int64_t histogram_percentile(const struct histogram *histogram, double percent);

#endif
