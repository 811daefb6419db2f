/* The report: two buyers and one unit, what a cache shows, and holds that nobody ends. */
#include <string.h>

#include "base/text.h"
#include "cmd/race_html.h"

/* --- the timeline ------------------------------------------------------------------------------------------------- */

static void add_timeline_card(struct buffer *out, const struct race_timeline *timeline)
{
	char id[80], title[120], sentence[200];
	const char *does = race_strategy_does(timeline->strategy);
	snprintf(id, sizeof id, "lanes-%s", timeline->strategy);
	snprintf(title, sizeof title, "%s: two buyers, step by step", timeline->strategy);
	struct plot_frame frame = {id, title, "The numbered steps are listed below.", false};
	buffer_add_string(out, "<article class=\"card\">\n<h3>");
	html_text(out, timeline->strategy);
	buffer_add_string(out, "</h3>\n<p class=\"does\">");
	html_text(out, does ? does : "");
	buffer_add_string(out, "</p>\n");
	race_figure_timeline(out, timeline, &frame);
	buffer_add_string(out, "<ol class=\"steps\">\n");
	for (size_t i = 0; i < RACE_STEPS; i++) {
		buffer_add_format(out, "<li><span class=\"n\">%zu</span><span class=\"who\">%d ms · %c</span><span>", i + 1,
		                  timeline->steps[i].at_ms, timeline->steps[i].buyer);
		html_text(out, timeline->steps[i].said);
		buffer_add_string(out, "</span></li>\n");
	}
	buffer_add_string(out, "</ol>\n");
	if (timeline->deadlocks && !timeline->holds)
		snprintf(sentence, sizeof sentence, "%d sold, after %d %s", timeline->sold, timeline->deadlocks,
		         text_plural(timeline->deadlocks, "deadlock", "deadlocks"));
	else
		snprintf(sentence, sizeof sentence, "sold %d; left by the row: %lld%s", timeline->sold,
		         (long long)timeline->on_hand, timeline->lost ? ", which knows of one sale only" : "");
	html_verdict(out, timeline->holds, sentence);
	buffer_add_string(out, "</article>\n");
}

/* The two that tell the story stand before the others. */
static bool is_featured(const struct race_timeline *timeline)
{
	return strcmp(timeline->strategy, "naive") == 0 || strcmp(timeline->strategy, "lastunit") == 0;
}

static void add_timelines(struct buffer *out, const struct race *race, bool featured)
{
	buffer_add_string(out, "<div class=\"grid wide\">\n");
	for (size_t i = race->timeline_count; i-- > 0;) /* the controls are the last: naive, then ours */
		if (is_featured(&race->timelines[i]) && featured)
			add_timeline_card(out, &race->timelines[i]);
	for (size_t i = 0; i < race->timeline_count; i++)
		if (!is_featured(&race->timelines[i]) && !featured)
			add_timeline_card(out, &race->timelines[i]);
	buffer_add_string(out, "</div>\n");
}

void race_html_timelines(struct buffer *out, const struct race *race)
{
	size_t others = 0;
	if (!race->timeline_count)
		return;
	for (size_t i = 0; i < race->timeline_count; i++)
		others += !is_featured(&race->timelines[i]);
	buffer_add_string(
		out,
		"<section aria-labelledby=\"two\">\n<h2 id=\"two\">Two buyers, one unit</h2>\n<p class=\"lead\">The same two "
		"buyers come to each strategy at the same moments. A hatched span waits for the other buyer; a square is what "
		"should not have happened.</p>\n");
	add_timelines(out, race, true);
	if (others) {
		buffer_add_format(out, "<details><summary>The other %zu %s</summary>\n", others,
		                  text_plural((int64_t)others, "strategy", "strategies"));
		add_timelines(out, race, false);
		buffer_add_string(out, "</details>\n");
	}
	buffer_add_string(out, "</section>\n");
}

/* --- caches ------------------------------------------------------------------------------------------------------- */

static void add_cache_card(struct buffer *out, const struct race_cache *cache)
{
	bool wrong = false;
	buffer_add_string(out, "<article class=\"card\">\n<h3>");
	html_text(out, cache->name);
	buffer_add_string(out, "</h3>\n<p class=\"does\">");
	html_text(out, cache->does);
	buffer_add_string(out, "</p>\n");
	if (!cache->raced) {
		buffer_add_string(out, "<p>Not raced: ");
		html_text(out, cache->why_not);
		buffer_add_string(out, "</p>\n</article>\n");
		return;
	}
	buffer_add_string(out, "<ol class=\"steps\">\n");
	for (size_t i = 0; i < cache->step_count; i++) {
		const struct race_cache_step *step = &cache->steps[i];
		wrong |= step->wrong;
		buffer_add_format(out, "<li><span class=\"n\">%zu</span><span class=\"who\">", i + 1);
		html_text(out, step->who);
		buffer_add_format(out, "</span><span%s>%s", step->wrong ? " class=\"wrong\"" : "", step->wrong ? "✗ " : "");
		html_text(out, step->said);
		buffer_add_string(out, "</span></li>\n");
	}
	buffer_add_string(out, "</ol>\n");
	html_verdict(out, !wrong, wrong ? "shown what is gone" : "nothing shown that is gone");
	buffer_add_string(out, "</article>\n");
}

static void add_cache_table(struct buffer *out, const struct race *race)
{
	static const char *const heads[] = {"cache",    "reads", "stale",  "longest ms", "gone back",
	                                    "oversold", "sales", "p50 ms", "p99 ms",     NULL};
	html_table_open(out, "What readers were shown under a short random load; longest: how long a stale figure lived",
	                heads);
	for (size_t i = 0; i < race->cache_count; i++) {
		const struct race_cache *cache = &race->caches[i];
		if (!cache->raced)
			continue;
		html_row_open(out, cache->name, cache->must_hold);
		html_cell_int(out, cache->reads);
		html_cell_int(out, cache->stale);
		html_cell_number(out, cache->stale_ms_max);
		html_cell_int(out, cache->gone_back);
		html_cell_int(out, cache->oversold);
		html_cell_int(out, cache->writes);
		html_cell_number(out, cache->p50_ms);
		html_cell_number(out, cache->p99_ms);
		buffer_add_string(out, "</tr>\n");
	}
	html_table_close(out);
}

void race_html_caches(struct buffer *out, const struct race *race)
{
	bool any = false;
	for (size_t i = 0; i < race->cache_count; i++)
		any |= race->caches[i].raced;
	if (!race->cache_count)
		return;
	buffer_add_string(
		out,
		"<section aria-labelledby=\"caches\">\n<h2 id=\"caches\">What a cache shows</h2>\n<p class=\"lead\">One unit, "
		"sold once, in the one order of steps that matters. None of these needs bad luck for long: the load below "
		"meets them by itself.</p>\n<div class=\"grid\">\n");
	for (size_t i = 0; i < race->cache_count; i++)
		add_cache_card(out, &race->caches[i]);
	buffer_add_string(out, "</div>\n");
	if (any) {
		struct plot_frame frame = {"stale", "Stale reads of a hundred, by cache",
		                           "The figures are in the table beside it.", false};
		buffer_add_string(out,
		                  "<div class=\"grid uneven\">\n<figure class=\"card\"><figcaption><h4>Stale reads of a hundred"
		                  "</h4></figcaption>");
		race_figure_caches(out, race, &frame);
		buffer_add_string(out, "</figure>\n<div class=\"card\">");
		add_cache_table(out, race);
		buffer_add_string(out, "</div>\n</div>\n");
	}
	buffer_add_string(out, "</section>\n");
}

/* --- holds -------------------------------------------------------------------------------------------------------- */

#define TABLE_EVERY_S 600

static void add_drift_table(struct buffer *out, const struct race_drift *drift)
{
	static const char *const heads[] = {"minute", "for sale", "held by buyers who have gone", "sold", NULL};
	html_table_open(out, drift->name, heads);
	for (size_t i = 0; i < drift->count; i++) {
		const struct race_drift_point *point = &drift->points[i];
		char minute[16];
		if ((int64_t)point->at_s % TABLE_EVERY_S)
			continue;
		snprintf(minute, sizeof minute, "%.0f", point->at_s / 60);
		html_row_open(out, minute, false);
		html_cell_int(out, point->available);
		html_cell_int(out, point->held_by_nobody);
		html_cell_int(out, point->sold);
		buffer_add_string(out, "</tr>\n");
	}
	html_table_close(out);
}

void race_html_drift(struct buffer *out, const struct race *race)
{
	if (!race->drift_count)
		return;
	buffer_add_string(
		out,
		"<section aria-labelledby=\"holds\">\n<h2 id=\"holds\">Holds that nobody ends</h2>\n<p class=\"lead\">An hour "
		"of a shop in which three of ten buyers put something into the cart and are never seen again.</p>\n"
		"<div class=\"grid wide\">\n");
	for (size_t i = 0; i < race->drift_count; i++) {
		const struct race_drift *drift = &race->drifts[i];
		char id[32], title[100], sentence[160];
		snprintf(id, sizeof id, "drift-%zu", i);
		snprintf(title, sizeof title, "Holds %s: what could be sold, and what is for sale", drift->name);
		struct plot_frame frame = {id, title, "The figures are in the table below it.", false};
		buffer_add_string(out, "<figure class=\"card\"><figcaption><h3>Holds ");
		html_text(out, drift->name);
		buffer_add_string(out, "</h3></figcaption>");
		race_figure_drift(out, drift, &frame);
		if (drift->unsold)
			snprintf(sentence, sizeof sentence, "%lld of %lld units lie on the shelf, and can never be sold",
			         (long long)drift->unsold, (long long)drift->units);
		else
			snprintf(sentence, sizeof sentence, "each hold ends, and its unit is for sale again");
		html_verdict(out, !drift->unsold, sentence);
		buffer_add_string(out, "<details><summary>The figures</summary>\n");
		add_drift_table(out, drift);
		buffer_add_string(out, "</details></figure>\n");
	}
	buffer_add_string(out, "</div>\n</section>\n");
}
