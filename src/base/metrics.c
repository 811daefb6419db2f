/* Metrics: one row of metrics.def is one slot here.
 *
 * Happy path: a relaxed atomic addition on a cache line of its own, so that two event loops counting different things
 * do not slow each other. Failure modes: the wrong kind of metric is a bug (CHECK). A scrape sees each figure at a
 * slightly different moment; only a histogram's count is made to agree with its buckets, as readers rely on it.
 */
#include "base/metrics.h"

#include <inttypes.h>
#include <stdatomic.h>

#include "base/check.h"
#include "base/clock.h"

enum kind { COUNTER, GAUGE, HISTOGRAM };

struct metric_row {
	enum kind kind;
	const char *name;
	const char *help;
};

static const struct metric_row rows[METRIC_COUNT] = {
#define X(kind_, NAME, name_, help_) [METRIC_##NAME] = {.kind = kind_, .name = #name_, .help = help_},
#include "base/metrics.def"
#undef X
};

static const struct bucket {
	int64_t ns_max;
	const char *le; /* in seconds */
} buckets[] = {
	{NS_PER_MS / 10, "0.0001"},
	{NS_PER_MS / 4, "0.00025"},
	{NS_PER_MS / 2, "0.0005"},
	{NS_PER_MS, "0.001"},
	{NS_PER_MS * 5 / 2, "0.0025"},
	{NS_PER_MS * 5, "0.005"},
	{NS_PER_MS * 10, "0.01"},
	{NS_PER_MS * 25, "0.025"},
	{NS_PER_MS * 50, "0.05"},
	{NS_PER_MS * 100, "0.1"},
	{NS_PER_MS * 250, "0.25"},
	{NS_PER_MS * 500, "0.5"},
	{NS_PER_S, "1"},
	{NS_PER_S * 5 / 2, "2.5"},
	{NS_PER_S * 5, "5"},
	{NS_PER_S * 10, "10"},
	{INT64_MAX, "+Inf"},
};
#define BUCKET_COUNT (sizeof buckets / sizeof buckets[0])

static struct slot {
	_Alignas(64) _Atomic int64_t value;
} slots[METRIC_COUNT];

static struct histogram {
	_Alignas(64) _Atomic int64_t counts[BUCKET_COUNT];
	_Atomic int64_t sum_ns;
} histograms[METRIC_COUNT];

static void add(_Atomic int64_t *to, int64_t n)
{
	atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

static int64_t load(const _Atomic int64_t *from)
{
	return atomic_load_explicit(from, memory_order_relaxed);
}

void metric_add(enum metric metric, int64_t n)
{
	CHECK((unsigned)metric < METRIC_COUNT);
	CHECK(rows[metric].kind == GAUGE || (rows[metric].kind == COUNTER && n >= 0));
	add(&slots[metric].value, n);
}

void metric_set(enum metric metric, int64_t value)
{
	CHECK((unsigned)metric < METRIC_COUNT && rows[metric].kind == GAUGE);
	atomic_store_explicit(&slots[metric].value, value, memory_order_relaxed);
}

void metric_observe_ns(enum metric metric, int64_t ns)
{
	CHECK((unsigned)metric < METRIC_COUNT && rows[metric].kind == HISTOGRAM);
	if (ns < 0)
		ns = 0;
	unsigned i = 0;
	while (ns > buckets[i].ns_max)
		i++;
	add(&histograms[metric].counts[i], 1);
	add(&histograms[metric].sum_ns, ns);
}

int64_t metric_get(enum metric metric)
{
	CHECK((unsigned)metric < METRIC_COUNT);
	if (rows[metric].kind != HISTOGRAM)
		return load(&slots[metric].value);
	int64_t count = 0;
	for (unsigned i = 0; i < BUCKET_COUNT; i++)
		count += load(&histograms[metric].counts[i]);
	return count;
}

static void print_histogram(struct buffer *out, const char *name, const struct histogram *histogram)
{
	int64_t count = 0, sum_ns = load(&histogram->sum_ns);
	for (unsigned i = 0; i < BUCKET_COUNT; i++) {
		count += load(&histogram->counts[i]);
		buffer_add_format(out, "lastunit_%s_bucket{le=\"%s\"} %" PRId64 "\n", name, buckets[i].le, count);
	}
	/* Not %f: the decimal point is the locale's. */
	buffer_add_format(out, "lastunit_%s_sum %" PRId64 ".%09" PRId64 "\n", name, sum_ns / NS_PER_S, sum_ns % NS_PER_S);
	buffer_add_format(out, "lastunit_%s_count %" PRId64 "\n", name, count);
}

void metrics_print(struct buffer *out)
{
	static const char *const kinds[] = {"counter", "gauge", "histogram"};
	for (unsigned i = 0; i < METRIC_COUNT; i++) {
		const struct metric_row *row = &rows[i];
		buffer_add_format(out, "# HELP lastunit_%s %s\n# TYPE lastunit_%s %s\n", row->name, row->help, row->name,
		                  kinds[row->kind]);
		if (row->kind == HISTOGRAM)
			print_histogram(out, row->name, &histograms[i]);
		else
			buffer_add_format(out, "lastunit_%s %" PRId64 "\n", row->name, load(&slots[i].value));
	}
}
