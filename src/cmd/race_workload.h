/* What is bought in the sweep, and by how many. Tables and sums; no state. */
#ifndef CMD_RACE_WORKLOAD_H
#define CMD_RACE_WORKLOAD_H

#include <stddef.h>
#include <stdint.h>

#include "cmd/race_strategy.h"

/* `slots` SKUs are on sale at a time. Where one is sold out its buyers go on to the slot's next generation, another SKU
 * with as many units: last units come all the time, and no buyer waits for another. */
struct race_workload {
	const char *name, *title;
	unsigned bit; /* enum race_workload_bit: which strategies take part */
	int slots, lines;
	int64_t units;             /* of each SKU */
	int64_t generations_per_s; /* more than any strategy sells out */
};

#define RACE_RUN_MS_MAX 60000
#define RACE_SKUS_MAX 100000 /* of one workload: a service is given all of them before it is raced */

extern const struct race_workload race_workloads[];
extern const size_t race_workload_count;

/* "hot" -> "one hot SKU"; a name that is none: NULL. */
const char *race_workload_title(const char *name);
/* Is this strategy raced on this workload? Names; of either: "" is any. */
bool race_workload_takes(const char *workload, const char *strategy);
/* As many as nobody sells out in `run_ms`, which is at most RACE_RUN_MS_MAX, and as RACE_SKUS_MAX has room for: where that
 * is less and all is sold, a run ends before its time. At least 1. */
int64_t race_workload_generations(const struct race_workload *workload, int64_t run_ms);

#define RACE_LEVELS_MAX 4
/* 1, 8 and 64 as far as they are below `buyers_max`, and that. Returns how many. */
int race_levels(int64_t buyers_max, int ret_levels[RACE_LEVELS_MAX]);

#endif
