/* The race as JSON, for programs.
 *
 *	{"kept", "postgres", "run_ms", "seed",
 *	 "strategies": [{"strategy", "workload", "buyers", "sold", "oversold", "lost", "refused", "retries", "deadlocks",
 *	                 "p50_ms", "p99_ms", "sales_per_s"}],
 *	 "caches": [{"cache", "raced", "reads", "stale", "longest_stale_ms", "gone_back", "oversold", …, "steps": []}],
 *	 "timelines": [{"strategy", "sold", …, "steps": []}], "drift": [{"holds", …, "points": []}]}
 *
 * kept: did all hold that must? null: nothing was raced that must.
 * Happy path: into a buffer, then out at once. Failure modes: none.
 */
#include <math.h>

#include "base/json.h"
#include "cmd/race.h"

static void member_number(struct json_writer *json, const char *key, double value)
{
	char digits[40];
	int size = snprintf(digits, sizeof digits, "%.3f", isfinite(value) ? value : 0);
	json_key(json, key);
	json_put_raw(json, (struct text){digits, (size_t)size});
}

static void add_result(struct json_writer *json, const struct race_result *result)
{
	json_object_open(json);
	json_member_string(json, "strategy", result->strategy);
	json_member_string(json, "workload", result->workload);
	json_member_int(json, "buyers", result->buyers);
	json_member_int(json, "sold", result->sold);
	json_member_int(json, "oversold", result->oversold);
	json_member_int(json, "lost", result->lost);
	json_member_int(json, "refused", result->refused);
	json_member_int(json, "retries", result->retries);
	json_member_int(json, "deadlocks", result->deadlocks);
	member_number(json, "p50_ms", result->p50_ms);
	member_number(json, "p99_ms", result->p99_ms);
	member_number(json, "sales_per_s", result->sales_per_s);
	json_object_close(json);
}

static void add_cache(struct json_writer *json, const struct race_cache *cache)
{
	json_object_open(json);
	json_member_string(json, "cache", cache->name);
	json_member_bool(json, "raced", cache->raced);
	if (!cache->raced)
		json_member_string(json, "why_not", cache->why_not);
	json_member_int(json, "reads", cache->reads);
	json_member_int(json, "stale", cache->stale);
	member_number(json, "longest_stale_ms", cache->stale_ms_max);
	json_member_int(json, "gone_back", cache->gone_back);
	json_member_int(json, "oversold", cache->oversold);
	json_member_int(json, "writes", cache->writes);
	member_number(json, "p50_ms", cache->p50_ms);
	member_number(json, "p99_ms", cache->p99_ms);
	json_key(json, "steps");
	json_array_open(json);
	for (size_t i = 0; i < cache->step_count; i++) {
		json_object_open(json);
		json_member_string(json, "who", cache->steps[i].who);
		json_member_string(json, "said", cache->steps[i].said);
		json_member_bool(json, "wrong", cache->steps[i].wrong);
		json_object_close(json);
	}
	json_array_close(json);
	json_object_close(json);
}

static void add_timeline(struct json_writer *json, const struct race_timeline *timeline)
{
	json_object_open(json);
	json_member_string(json, "strategy", timeline->strategy);
	json_member_int(json, "sold", timeline->sold);
	json_member_int(json, "on_hand", timeline->on_hand);
	json_member_int(json, "lost", timeline->lost);
	json_member_int(json, "deadlocks", timeline->deadlocks);
	json_member_bool(json, "holds", timeline->holds);
	json_key(json, "steps");
	json_array_open(json);
	for (size_t i = 0; i < RACE_STEPS; i++) {
		json_object_open(json);
		json_member_int(json, "at_ms", timeline->steps[i].at_ms);
		json_key(json, "buyer");
		json_put_text(json, (struct text){&timeline->steps[i].buyer, 1});
		json_member_string(json, "said", timeline->steps[i].said);
		json_object_close(json);
	}
	json_array_close(json);
	json_object_close(json);
}

static void add_drift(struct json_writer *json, const struct race_drift *drift)
{
	json_object_open(json);
	json_member_string(json, "holds", drift->name);
	json_member_int(json, "units", drift->units);
	json_member_int(json, "unsold", drift->unsold);
	json_key(json, "points");
	json_array_open(json);
	for (size_t i = 0; i < drift->count; i++) {
		json_object_open(json);
		member_number(json, "at_s", drift->points[i].at_s);
		json_member_int(json, "available", drift->points[i].available);
		json_member_int(json, "held_by_nobody", drift->points[i].held_by_nobody);
		json_member_int(json, "sold", drift->points[i].sold);
		json_object_close(json);
	}
	json_array_close(json);
	json_object_close(json);
}

void race_json_write(const struct race *race, FILE *out)
{
	struct buffer all = {0};
	struct json_writer json = json_writer(&all);
	json_object_open(&json);
	json_key(&json, "kept");
	if (race_has_promise(race) || !race_holds(race))
		json_put_bool(&json, race_holds(race));
	else
		json_put_null(&json);
	json_member_string(&json, "postgres", race->postgres);
	json_member_int(&json, "run_ms", race->options.run_ms);
	json_member_int(&json, "seed", race->options.seed);
	json_key(&json, "strategies");
	json_array_open(&json);
	for (size_t i = 0; i < race->result_count; i++)
		add_result(&json, &race->results[i]);
	json_array_close(&json);
	json_key(&json, "caches");
	json_array_open(&json);
	for (size_t i = 0; i < race->cache_count; i++)
		add_cache(&json, &race->caches[i]);
	json_array_close(&json);
	json_key(&json, "timelines");
	json_array_open(&json);
	for (size_t i = 0; i < race->timeline_count; i++)
		add_timeline(&json, &race->timelines[i]);
	json_array_close(&json);
	json_key(&json, "drift");
	json_array_open(&json);
	for (size_t i = 0; i < race->drift_count; i++)
		add_drift(&json, &race->drifts[i]);
	json_array_close(&json);
	json_object_close(&json);
	fprintf(out, "%.*s\n", (int)all.size, all.data);
	buffer_done(&all);
}
