/* What follows from the figures of a race: who is the cheapest that is right, and whether all held that must. */
#include <string.h>

#include "base/check.h"
#include "cmd/race.h"
#include "cmd/race_strategy.h"

const char *race_strategy_does(const char *strategy)
{
	for (size_t i = 0; i < race_strategy_count; i++)
		if (strcmp(race_strategies[i].name, strategy) == 0)
			return race_strategies[i].does;
	return NULL;
}

/* Rows of one name stand together. */
const char *race_strategy_names(char ret_names[RACE_STRATEGY_NAMES_BYTES])
{
	size_t used = 0;
	for (size_t i = 0; i < race_strategy_count; i++) {
		const char *name = race_strategies[i].name;
		if (i && strcmp(name, race_strategies[i - 1].name) == 0)
			continue;
		used += (size_t)snprintf(ret_names + used, RACE_STRATEGY_NAMES_BYTES - used, "%s%s", i ? ", " : "", name);
		CHECK(used < RACE_STRATEGY_NAMES_BYTES);
	}
	return ret_names;
}

const struct race_result *race_cheapest(const struct race *race, const char *workload, int buyers)
{
	const struct race_result *best = NULL;
	for (const struct race_result *r = race->results; r < race->results + race->result_count; r++)
		if (r->must_hold && r->correct && r->sold && r->buyers == buyers && strcmp(r->workload, workload) == 0 &&
		    (!best || r->sales_per_s > best->sales_per_s))
			best = r;
	return best;
}

bool race_has_promise(const struct race *race)
{
	bool any = false;
	for (size_t i = 0; i < race->timeline_count; i++)
		any = any || race->timelines[i].must_hold;
	for (size_t i = 0; i < race->result_count; i++)
		any = any || race->results[i].must_hold;
	for (size_t i = 0; i < race->cache_count; i++)
		any = any || (race->caches[i].must_hold && race->caches[i].raced);
	return any;
}

bool race_holds(const struct race *race)
{
	bool holds = true;
	/* Of a control that did not fail here the steps were not those of the plan: then nothing was shown at all. */
	for (size_t i = 0; i < race->timeline_count; i++)
		holds = holds && race->timelines[i].holds == race->timelines[i].must_hold;
	for (size_t i = 0; i < race->result_count; i++)
		holds = holds && (race->results[i].correct || !race->results[i].must_hold);
	for (size_t i = 0; i < race->cache_count; i++)
		holds = holds && (race_cache_holds(&race->caches[i]) || !race->caches[i].must_hold || !race->caches[i].raced);
	return holds;
}
