/* The figures of a race as plots (race_figure.h).
 *
 * Happy path: pick the rows, put them in an order that reads, draw. Failure modes: nothing was measured: an empty plot.
 */
#include "cmd/race_figure.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cmd/race_file.h"

size_t race_buyers(const struct race *race, const char *workload, int out[RACE_BUYERS_MAX])
{
	size_t count = 0;
	for (size_t i = 0; i < race->result_count; i++) {
		const struct race_result *result = &race->results[i];
		size_t at = 0;
		if (strcmp(result->workload, workload) != 0)
			continue;
		while (at < count && out[at] < result->buyers)
			at++;
		if ((at < count && out[at] == result->buyers) || count == RACE_BUYERS_MAX)
			continue;
		memmove(out + at + 1, out + at, (count - at) * sizeof *out);
		out[at] = result->buyers;
		count++;
	}
	return count;
}

static int compare_rows(const void *a, const void *b)
{
	const struct race_result *x = *(const struct race_result *const *)a, *y = *(const struct race_result *const *)b;
	if (x->must_hold != y->must_hold)
		return x->must_hold ? -1 : 1;
	if (x->sales_per_s > y->sales_per_s || x->sales_per_s < y->sales_per_s)
		return x->sales_per_s > y->sales_per_s ? -1 : 1;
	return strcmp(x->strategy, y->strategy);
}

size_t race_rows(const struct race *race, const char *workload, int buyers,
                 const struct race_result *out[RACE_ROWS_MAX])
{
	size_t count = 0;
	for (size_t i = 0; i < race->result_count && count < RACE_ROWS_MAX; i++)
		if (race->results[i].buyers == buyers && strcmp(race->results[i].workload, workload) == 0)
			out[count++] = &race->results[i];
	qsort(out, count, sizeof *out, compare_rows);
	return count;
}

const char *race_fault(const struct race_result *result, char out[64])
{
	*out = '\0';
	if (result->oversold)
		snprintf(out, 64, "oversold %lld", (long long)result->oversold);
	else if (result->lost)
		snprintf(out, 64, "%lld %s lost", (long long)result->lost, text_plural(result->lost, "sale", "sales"));
	else if (result->deadlocks && !result->correct)
		snprintf(out, 64, "%lld %s", (long long)result->deadlocks,
		         text_plural(result->deadlocks, "deadlock", "deadlocks"));
	else if (!result->must_hold)
		snprintf(out, 64, "(a control)"); /* which met no race this time */
	return out;
}

const char *race_buyers_text(int buyers, char out[32])
{
	snprintf(out, 32, "%d %s", buyers, text_plural(buyers, "buyer", "buyers"));
	return out;
}

enum plot_kind race_kind(const char *strategy, bool correct)
{
	return !correct ? PLOT_WRONG : strcmp(strategy, "lastunit") == 0 ? PLOT_OURS : PLOT_RIGHT;
}

/* --- the sweep ---------------------------------------------------------------------------------------------------- */

void race_figure_sales(struct buffer *out, const struct race *race, const struct plot_frame *frame,
                       const char *workload, int buyers)
{
	const struct race_result *rows[RACE_ROWS_MAX];
	struct plot_bar bars[RACE_ROWS_MAX];
	char notes[RACE_ROWS_MAX][64];
	size_t count = race_rows(race, workload, buyers, rows);
	for (size_t i = 0; i < count; i++)
		bars[i] = (struct plot_bar){rows[i]->strategy, rows[i]->sales_per_s, race_fault(rows[i], notes[i]),
		                            race_kind(rows[i]->strategy, rows[i]->correct)};
	plot_bars(out, frame, bars, count, 0);
}

void race_figure_latency(struct buffer *out, const struct race *race, const struct plot_frame *frame,
                         const char *workload, int buyers)
{
	const struct race_result *rows[RACE_ROWS_MAX];
	struct plot_range ranges[RACE_ROWS_MAX];
	size_t count = race_rows(race, workload, buyers, rows);
	for (size_t i = 0; i < count; i++) {
		bool measured = rows[i]->p50_ms > 0 && rows[i]->p99_ms >= rows[i]->p50_ms;
		ranges[i] = (struct plot_range){rows[i]->strategy, measured ? rows[i]->p50_ms : 0,
		                                measured ? rows[i]->p99_ms : 0, race_kind(rows[i]->strategy, rows[i]->correct)};
	}
	plot_ranges(out, frame, ranges, count);
}

void race_figure_oversold(struct buffer *out, const struct race *race, const struct plot_frame *frame,
                          const char *workload, int buyers)
{
	const struct race_result *rows[RACE_ROWS_MAX];
	struct plot_bar bars[RACE_ROWS_MAX];
	char notes[RACE_ROWS_MAX][64];
	size_t all = race_rows(race, workload, buyers, rows), count = 0;
	for (size_t i = 0; i < all; i++) {
		bool ours = strcmp(rows[i]->strategy, "lastunit") == 0;
		if (!ours && rows[i]->must_hold)
			continue;
		/* A SKU whose row was written back sells what it has sold before: the same units, counted once. */
		int64_t faults = rows[i]->oversold > rows[i]->lost ? rows[i]->oversold : rows[i]->lost;
		snprintf(notes[count], sizeof notes[count], "%sof %lld sold",
		         !faults                      ? ""
		         : rows[i]->oversold < faults ? "forgotten "
		                                      : "oversold ",
		         (long long)rows[i]->sold);
		bars[count] = (struct plot_bar){rows[i]->strategy, (double)faults, notes[count],
		                                race_kind(rows[i]->strategy, rows[i]->correct)};
		count++;
	}
	plot_bars(out, frame, bars, count, 0);
}

/* --- the timeline ------------------------------------------------------------------------------------------------- */

/* Until the other's last step: what he waited for is then decided. */
static int64_t wait_ends(const struct race_timeline *timeline, size_t step)
{
	int64_t end_ms = timeline->steps[step].at_ms;
	for (size_t i = step + 1; i < RACE_STEPS; i++)
		if (timeline->steps[i].buyer != timeline->steps[step].buyer)
			end_ms = timeline->steps[i].at_ms;
	return end_ms;
}

void race_figure_timeline(struct buffer *out, const struct race_timeline *timeline, const struct plot_frame *frame)
{
	struct plot_span spans[2 + RACE_STEPS] = {{.lane = 0, .from_ms = -1}, {.lane = 1, .from_ms = -1}};
	struct plot_point points[RACE_STEPS];
	struct plot_lanes lanes = {.names = {"buyer A", "buyer B"}, .spans = spans, .points = points, .span_count = 2};
	int sold = 0;
	for (size_t i = 0; i < RACE_STEPS; i++) {
		const struct race_step *step = &timeline->steps[i];
		size_t lane = step->buyer == 'B';
		bool sells = strstr(step->said, "sold") != NULL;
		sold += sells;
		if (spans[lane].from_ms < 0)
			spans[lane].from_ms = step->at_ms;
		spans[lane].to_ms = step->at_ms;
		if (strstr(step->said, "waits for") && wait_ends(timeline, i) > step->at_ms)
			spans[lanes.span_count++] = (struct plot_span){lane, step->at_ms, wait_ends(timeline, i), true};
		points[i] = (struct plot_point){lane, step->at_ms,
		                                !timeline->holds && ((sells && sold > 1) || strstr(step->said, "deadlock"))};
		lanes.end_ms = step->at_ms > lanes.end_ms ? step->at_ms : lanes.end_ms;
	}
	lanes.point_count = RACE_STEPS;
	lanes.end_ms += 10;
	plot_lanes(out, frame, &lanes);
}

/* --- caches and holds --------------------------------------------------------------------------------------------- */

void race_figure_caches(struct buffer *out, const struct race *race, const struct plot_frame *frame)
{
	struct plot_bar *bars = calloc(race->cache_count + 1, sizeof *bars);
	char(*notes)[64] = calloc(race->cache_count + 1, sizeof *notes);
	size_t count = 0;
	for (size_t i = 0; bars && notes && i < race->cache_count; i++) {
		const struct race_cache *cache = &race->caches[i];
		if (!cache->raced)
			continue;
		bool holds = race_cache_holds(cache);
		if (cache->stale)
			snprintf(notes[count], sizeof notes[count], "%% · %.0f ms late", cache->stale_ms_max);
		else
			snprintf(notes[count], sizeof notes[count], holds ? "%% stale" : "%% here; shown above");
		bars[count] = (struct plot_bar){cache->name,
		                                cache->reads ? 100. * (double)cache->stale / (double)cache->reads : 0,
		                                notes[count], race_kind(cache->name, holds)};
		count++;
	}
	plot_bars(out, frame, bars, count, 100);
	free(bars);
	free(notes);
}

void race_figure_drift(struct buffer *out, const struct race_drift *drift, const struct plot_frame *frame)
{
	double *shelf = calloc(drift->count + 1, sizeof *shelf), *left = calloc(drift->count + 1, sizeof *left);
	if (shelf && left && drift->count >= 2) {
		for (size_t i = 0; i < drift->count; i++) {
			left[i] = (double)drift->points[i].available;
			shelf[i] = left[i] + (double)drift->points[i].held_by_nobody;
		}
		struct plot_gap gap = {.upper_name = "what could be sold",
		                       .lower_name = "what is for sale",
		                       .gap_name = "held by buyers who have gone",
		                       .x_name = "minutes of the shop",
		                       .upper = shelf,
		                       .lower = left,
		                       .count = drift->count,
		                       .x_max = drift->points[drift->count - 1].at_s / 60};
		plot_gap(out, frame, &gap);
	}
	free(shelf);
	free(left);
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static bool write_file(const char *directory, const char *name, const struct buffer *content, char why[512])
{
	char path[4096];
	snprintf(path, sizeof path, "%s/%s", directory, name);
	return race_file_write(path, buffer_text(content), why);
}

bool race_svg_write(const struct race *race, const char *directory, char why[512])
{
	int levels[RACE_BUYERS_MAX];
	char title[80], buyers[32];
	struct buffer svg = {0};
	size_t count = race_buyers(race, "hot", levels);
	if (!count)
		return cmd_refuse(why, "the hot SKU was not raced: there is nothing to draw");
	int most = levels[count - 1];
	race_buyers_text(most, buyers);

	snprintf(title, sizeof title, "Sales per second, one hot SKU, %s", buyers);
	race_figure_sales(&svg, race,
	                  &(struct plot_frame){"race-sales", title,
	                                       "Each strategy's sales per second; hatched ones oversell.", true},
	                  "hot", most);
	bool written = write_file(directory, "race-sales.svg", &svg, why);
	buffer_clear(&svg);
	snprintf(title, sizeof title, "Units oversold or forgotten, %s", buyers);
	race_figure_oversold(&svg, race,
	                     &(struct plot_frame){"race-oversold", title,
	                                          "Units oversold or forgotten by each control, and by Lastunit.", true},
	                     "hot", most);
	written = written && write_file(directory, "race-oversold.svg", &svg, why);
	buffer_done(&svg);
	return written;
}
