/* How long things took (histogram.h).
 *
 * Happy path: the position of the highest bit chooses the row of 64 buckets, the six bits below it the bucket.
 * Failure modes: none; what is out of range is counted at the ends.
 */
#include "cmd/histogram.h"

#include <math.h>

#define SUB_BITS 6
#define SUB_BUCKETS (1 << SUB_BITS)

static int bucket_of(int64_t value)
{
	if (value < 2 * SUB_BUCKETS)
		return value < 0 ? 0 : (int)value;
	int shift = 63 - __builtin_clzll((uint64_t)value) - SUB_BITS;
	int bucket = shift * SUB_BUCKETS + (int)(value >> shift);
	return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

/* The greatest value that bucket_of() puts there. */
static int64_t bucket_top(int bucket)
{
	if (bucket < 2 * SUB_BUCKETS)
		return bucket;
	int shift = bucket / SUB_BUCKETS - 1;
	int64_t head = bucket - shift * SUB_BUCKETS;
	return ((head + 1) << shift) - 1;
}

void histogram_record(struct histogram *histogram, int64_t value)
{
	histogram->counts[bucket_of(value)]++;
	histogram->count++;
	if (value > histogram->max)
		histogram->max = value;
}

void histogram_add(struct histogram *into, const struct histogram *from)
{
	for (int i = 0; i < HISTOGRAM_BUCKETS; i++)
		into->counts[i] += from->counts[i];
	into->count += from->count;
	if (from->max > into->max)
		into->max = from->max;
}

int64_t histogram_percentile(const struct histogram *histogram, double percent)
{
	int64_t wanted = (int64_t)ceil((double)histogram->count * percent / 100.0);
	if (wanted < 1)
		wanted = histogram->count ? 1 : 0;
	int64_t seen = 0;
	for (int i = 0; wanted && i < HISTOGRAM_BUCKETS; i++) {
		seen += histogram->counts[i];
		if (seen >= wanted)
			return bucket_top(i) < histogram->max ? bucket_top(i) : histogram->max;
	}
	return histogram->max;
}
