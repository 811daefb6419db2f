/* The workloads as a table. Few units where there are many SKUs, so that each of them is sold out
 * several times a second. */
#include "cmd/race_workload.h"

#include <string.h>

#define GENERATIONS_MIN 2

const struct race_workload race_workloads[] = {
	{"hot", "one hot SKU", RACE_STOCK, 1, 1, 100, 150},
	{"spread", "100 SKUs", RACE_STOCK, 100, 1, 5, 30},
	{"carts", "two-SKU carts over 100 SKUs", RACE_CARTS, 100, 2, 5, 30},
	{"once", "one for each customer, who comes twice at once", RACE_ONCE, 1, 1, 0, 0},
};
const size_t race_workload_count = sizeof race_workloads / sizeof *race_workloads;

const char *race_workload_title(const char *name)
{
	for (size_t i = 0; i < race_workload_count; i++)
		if (strcmp(race_workloads[i].name, name) == 0)
			return race_workloads[i].title;
	return NULL;
}

bool race_workload_takes(const char *workload, const char *strategy)
{
	for (size_t w = 0; w < race_workload_count; w++)
		for (size_t s = 0; s < race_strategy_count; s++)
			if ((!*workload || strcmp(race_workloads[w].name, workload) == 0) &&
			    (!*strategy || strcmp(race_strategies[s].name, strategy) == 0) &&
			    (race_strategies[s].workloads & race_workloads[w].bit))
				return true;
	return false;
}

int64_t race_workload_generations(const struct race_workload *workload, int64_t run_ms)
{
	int64_t generations = workload->generations_per_s * run_ms / 1000, room = RACE_SKUS_MAX / workload->slots;
	if (workload->bit == RACE_ONCE)
		return 1;
	if (generations > room)
		return room;
	return generations > GENERATIONS_MIN ? generations : GENERATIONS_MIN;
}

int race_levels(int64_t buyers_max, int ret_levels[RACE_LEVELS_MAX])
{
	static const int usual[] = {1, 8, 64};
	int count = 0;
	for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
		if (usual[i] < buyers_max)
			ret_levels[count++] = usual[i];
	ret_levels[count++] = (int)buyers_max;
	return count;
}
