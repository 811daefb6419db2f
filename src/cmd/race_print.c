/* A race on a terminal: the place, the timeline, a table per workload, who is cheapest, the caches, the
 * holds, the verdict. */
#include <string.h>

#include "base/text.h"
#include "cmd/race.h"
#include "cmd/race_strategy.h"
#include "cmd/race_workload.h"

static void print_place(const struct race *race, FILE *out)
{
	const struct race_service *service = &race->service;
	fprintf(out, "%s\n", race->postgres);
	if (!service->there && *service->why_not)
		fprintf(out, "lastunit does not take part: %s\n", service->why_not);
	else if (service->there && service->own)
		fprintf(out, "lastunit: `serve` as a child, on a scratch database of the same server, %s\n",
		        *race->options.redis_url ? "with your Redis" : "without Redis");
	else if (service->there)
		fprintf(out, "lastunit: %s, on SKUs race-…\n", service->url);
	if (*race->scratch.leftovers)
		fprintf(out, "left by a race that was killed: %s\n", race->scratch.leftovers);
}

/* --- the timeline ------------------------------------------------------------------------------------------------- */

/* "RIGHT", "oversold 1, lost 1": what a timeline has come to. */
static void print_end(const struct race_timeline *t, FILE *out)
{
	fprintf(out, "     sold %d, in stock %lld", t->sold, (long long)t->on_hand);
	if (t->lost)
		fprintf(out, ", lost %d", t->lost);
	if (t->deadlocks)
		fprintf(out, ", deadlocks %d", t->deadlocks);
	fprintf(out, ": %s%s\n", t->holds ? "holds" : "FAILS",
	        t->holds == t->must_hold ? ""
	        : t->must_hold           ? ", and must not"
	                                 : ", though it is there to fail");
}

static void print_timelines(const struct race *race, FILE *out)
{
	if (race->timeline_count)
		fputs("\nTwo buyers, one unit (unordered: two carts with the same two SKUs, two units of each)\n", out);
	for (const struct race_timeline *t = race->timelines; t < race->timelines + race->timeline_count; t++) {
		fprintf(out, "\n  %s: %s\n", t->strategy, race_strategy_does(t->strategy));
		for (int i = 0; i < RACE_STEPS; i++)
			fprintf(out, "  %3d ms  %c  %s\n", t->steps[i].at_ms, t->steps[i].buyer, t->steps[i].said);
		print_end(t, out);
	}
}

/* --- the sweep ---------------------------------------------------------------------------------------------------- */

/* A control that did nothing wrong was alone, or had luck: it is never "right". */
static const char *verdict_of(const struct race_result *r)
{
	if (!r->correct)
		return r->must_hold ? "WRONG, and must not be" : "WRONG";
	return r->must_hold ? "right" : r->buyers > 1 ? "lucky" : "alone";
}

static void print_result(const struct race_result *r, FILE *out)
{
	fprintf(out, "  %-14s %6d %8lld %8lld %8lld %8lld %8lld %9lld", r->strategy, r->buyers, (long long)r->sold,
	        (long long)r->oversold, (long long)r->lost, (long long)r->refused, (long long)r->retries,
	        (long long)r->deadlocks);
	if (r->sold)
		fprintf(out, " %8.2f %8.2f %9.0f", r->p50_ms, r->p99_ms, r->sales_per_s);
	else
		fprintf(out, " %8s %8s %9s", "-", "-", "-");
	fprintf(out, "  %s\n", verdict_of(r));
}

/* One table for each workload; a blank line between numbers of buyers. */
static void print_results(const struct race *race, FILE *out)
{
	const char *workload = NULL;
	int buyers = 0;
	for (const struct race_result *r = race->results; r < race->results + race->result_count; r++) {
		if (r->workload != workload)
			fprintf(out, "\n%s\n  %-14s %6s %8s %8s %8s %8s %8s %9s %8s %8s %9s\n", race_workload_title(r->workload),
			        "strategy", "buyers", "sold", "oversold", "lost", "refused", "retries", "deadlocks", "p50 ms",
			        "p99 ms", "sales/s");
		else if (r->buyers != buyers)
			fputc('\n', out);
		workload = r->workload;
		buyers = r->buyers;
		print_result(r, out);
	}
}

static void print_legend(const struct race *race, FILE *out)
{
	if (race->result_count)
		fputs(
			"\n  WRONG: oversold, lost, or, of unordered carts, deadlocked. right: nothing of that, as must be.\n"
			"  lucky: nothing of that, this time. alone: nothing, for one buyer has nobody to race.\n",
			out);
}

static void print_cheapest(const struct race *race, FILE *out)
{
	int levels[RACE_LEVELS_MAX], count = race_levels(race->options.buyers_max, levels);
	if (race->result_count)
		fputs("\nThe cheapest that is right\n", out);
	for (size_t w = 0; w < race_workload_count; w++)
		for (int l = 0; l < count; l++) {
			const struct race_result *best = race_cheapest(race, race_workloads[w].name, levels[l]);
			if (best)
				fprintf(out, "  %-48s %3d %-7s %-13s %7.0f sales/s, p99 %.2f ms\n", race_workloads[w].title, levels[l],
				        text_plural(levels[l], "buyer", "buyers"), best->strategy, best->sales_per_s, best->p99_ms);
		}
	if (race->result_count)
		fputs(
			"\n  All do the same: a row of stock, a row of a sale. The strategies of the textbook speak the protocol of\n"
			"  PostgreSQL, statements of one step in one round trip, and do nothing else. What lastunit does is a whole\n"
			"  service: HTTP and JSON, keys, exactly once by an idempotency key, a ledger, a cache that is never stale.\n",
			out);
}

/* --- caches and holds --------------------------------------------------------------------------------------------- */

static void print_cache(const struct race_cache *c, FILE *out)
{
	fprintf(out, "\n  %s: %s\n", c->name, c->does);
	for (size_t i = 0; i < c->step_count; i++)
		fprintf(out, "     %-6s %s%s\n", c->steps[i].who, c->steps[i].said, c->steps[i].wrong ? "   <- WRONG" : "");
	if (!c->raced) {
		fprintf(out, "     not raced: %s\n", c->why_not);
		return;
	}
	fprintf(
		out,
		"     %lld sales, %lld reads: %lld stale (up to %.1f ms), %lld gone back, %lld oversold; p50 %.2f ms, p99 %.2f "
		"ms: %s%s\n",
		(long long)c->writes, (long long)c->reads, (long long)c->stale, c->stale_ms_max, (long long)c->gone_back,
		(long long)c->oversold, c->p50_ms, c->p99_ms, race_cache_holds(c) ? "holds" : "FAILS",
		c->must_hold && !race_cache_holds(c) ? ", and must not" : "");
}

static void print_caches(const struct race *race, FILE *out)
{
	if (race->cache_count)
		fputs("\nA cache in front of it\n", out);
	for (size_t i = 0; i < race->cache_count; i++)
		print_cache(&race->caches[i], out);
	if (race->drift_count)
		fputs("\nHolds, of which buyers abandon 30 %\n", out);
	for (const struct race_drift *d = race->drifts; d < race->drifts + race->drift_count; d++) {
		const struct race_drift_point *last = d->count ? &d->points[d->count - 1] : NULL;
		long long sold = last ? last->sold : 0;
		fprintf(
			out,
			"  %-12s of %lld units %lld are sold at the end, %lld are held by nobody and for ever, %lld are on sale or "
			"under a hold that ends\n",
			d->name, (long long)d->units, sold, (long long)d->unsold, (long long)(d->units - d->unsold) - sold);
	}
}

static void print_verdict(const struct race *race, FILE *out)
{
	int quiet = 0;
	for (const struct race_result *r = race->results; r < race->results + race->result_count; r++)
		quiet += !r->must_hold && r->correct && r->buyers > 1;
	if (quiet)
		fprintf(
			out,
			"\n%d %s of a control with more than one buyer met no race this time (lucky): that is luck, not a lock\n",
			quiet, text_plural(quiet, "run", "runs"));
	fprintf(out, "\n%s\n",
	        !race_holds(race)        ? "NOT AS IT MUST BE: see above, in capitals"
	        : race_has_promise(race) ? "every strategy that must hold has held"
	                                 : "nothing was raced that must hold: only controls");
}

void race_print(const struct race *race, FILE *out)
{
	print_place(race, out);
	print_timelines(race, out);
	print_results(race, out);
	print_legend(race, out);
	print_cheapest(race, out);
	print_caches(race, out);
	print_verdict(race, out);
}
