/* Metrics: counters, gauges and histograms named once in metrics.def, printed as Prometheus text.
 *
 * X(kind, NAME, name_without_prefix, help): kind is COUNTER, GAUGE or HISTOGRAM; histograms take
 * seconds. All are relaxed atomics: cheap, and shared by every thread.
 */
#ifndef BASE_METRICS_H
#define BASE_METRICS_H

#include <stdint.h>

#include "base/buffer.h"

enum metric {
#define X(kind, NAME, name, help) METRIC_##NAME,
#include "base/metrics.def"
#undef X
	METRIC_COUNT
};

void metric_add(enum metric metric, int64_t n);         /* counters and gauges */
void metric_set(enum metric metric, int64_t value);     /* gauges */
void metric_observe_ns(enum metric metric, int64_t ns); /* histograms */
int64_t metric_get(enum metric metric);                 /* counters and gauges; a histogram's count */
/* Prometheus text exposition format 0.0.4, every metric prefixed `lastunit_`. */
void metrics_print(struct buffer *out);

#endif
