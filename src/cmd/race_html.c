/* The report of a race: one HTML file that needs nothing else, for whoever must decide.
 *
 * Happy path: the head with its style, what was found in four figures, the parts, how it was measured; then to the file.
 * Failure modes: a file that cannot be written is a sentence. What was not raced is left out.
 */
#include "cmd/race_html.h"

#include <stdarg.h>
#include <string.h>

#include "base/clock.h"
#include "base/embed.h"
#include "base/markup.h"
#include "base/text.h"
#include "cmd/race_file.h"
#include "lastunit/version.h"

void html_text(struct buffer *out, const char *text)
{
	markup_add(out, text_of(text));
}

void html_format(struct buffer *out, const char *format, ...)
{
	char text[1024];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	html_text(out, text);
}

/* --- tables ------------------------------------------------------------------------------------------------------- */

void html_table_open(struct buffer *out, const char *caption, const char *const *heads)
{
	buffer_add_string(out, "<div class=\"table\" role=\"region\" tabindex=\"0\" aria-label=\"");
	html_text(out, caption);
	buffer_add_string(out, "\"><table><caption>");
	html_text(out, caption);
	buffer_add_string(out, "</caption><thead><tr>");
	for (; *heads; heads++) {
		buffer_add_string(out, "<th scope=\"col\">");
		html_text(out, *heads);
		buffer_add_string(out, "</th>");
	}
	buffer_add_string(out, "</tr></thead><tbody>\n");
}

void html_row_open(struct buffer *out, const char *name, bool ours)
{
	buffer_add_string(out, ours ? "<tr class=\"mine\"><th scope=\"row\">" : "<tr><th scope=\"row\">");
	html_text(out, name);
	buffer_add_string(out, "</th>");
}

void html_cell_number(struct buffer *out, double value)
{
	char number[PLOT_NUMBER_BYTES];
	buffer_add_format(out, "<td>%s</td>", plot_number(value, number));
}

/* Every digit of it: a count of faults is not rounded. */
void html_cell_int(struct buffer *out, int64_t value)
{
	buffer_add_format(out, "<td>%lld</td>", (long long)value);
}

void html_cell_text(struct buffer *out, const char *text)
{
	buffer_add_string(out, "<td class=\"text\">");
	html_text(out, text);
	buffer_add_string(out, "</td>");
}

void html_table_close(struct buffer *out)
{
	buffer_add_string(out, "</tbody></table></div>\n");
}

void html_verdict(struct buffer *out, bool good, const char *sentence)
{
	buffer_add_format(out, "<p class=\"%s\">%s ", good ? "good" : "bad", good ? "✓" : "✗");
	html_text(out, sentence);
	buffer_add_string(out, "</p>\n");
}

/* --- what was found ----------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 4, 5))) static void add_figure(struct buffer *out, const char *style, const char *figure,
                                                             const char *format, ...)
{
	char sentence[400];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(sentence, sizeof sentence, format, arguments);
	va_end(arguments);
	buffer_add_format(out, "<li><strong class=\"%s\">", style);
	html_text(out, figure);
	buffer_add_string(out, "</strong><span>");
	html_text(out, sentence);
	buffer_add_string(out, "</span></li>\n");
}

static const struct race_timeline *timeline_of(const struct race *race, const char *strategy)
{
	for (size_t i = 0; i < race->timeline_count; i++)
		if (strcmp(race->timelines[i].strategy, strategy) == 0)
			return &race->timelines[i];
	return NULL;
}

static const struct race_result *result_of(const struct race *race, const char *strategy, const char *workload,
                                           int buyers)
{
	for (size_t i = 0; i < race->result_count; i++) {
		const struct race_result *result = &race->results[i];
		if (result->buyers == buyers && strcmp(result->strategy, strategy) == 0 &&
		    strcmp(result->workload, workload) == 0)
			return result;
	}
	return NULL;
}

static void add_speed_figure(struct buffer *out, const struct race *race)
{
	int levels[RACE_BUYERS_MAX];
	size_t count = race_buyers(race, "hot", levels);
	char number[PLOT_NUMBER_BYTES], times[PLOT_NUMBER_BYTES], buyers[32], figure[64];
	const struct race_result *ours = count ? result_of(race, "lastunit", "hot", levels[count - 1]) : NULL;
	const struct race_result *rows = count ? result_of(race, "pessimistic", "hot", levels[count - 1]) : NULL;
	if (!ours || !rows || rows->sales_per_s <= 0)
		return;
	snprintf(figure, sizeof figure, "%s/s", plot_number(ours->sales_per_s, number));
	add_figure(out, ours->correct ? "good" : "bad", figure,
	           "sales of one hot SKU by Lastunit to %s: %s × SELECT … FOR UPDATE",
	           race_buyers_text(levels[count - 1], buyers), plot_number(ours->sales_per_s / rows->sales_per_s, times));
}

static void add_stale_figure(struct buffer *out, const struct race *race)
{
	const struct race_cache *ours = NULL, *worst = NULL;
	char figure[64];
	for (size_t i = 0; i < race->cache_count; i++) {
		const struct race_cache *cache = &race->caches[i];
		if (cache->raced && cache->must_hold)
			ours = cache;
		if (cache->raced && !cache->must_hold && (!worst || cache->stale > worst->stale))
			worst = cache;
	}
	if (!ours || !worst)
		return;
	snprintf(figure, sizeof figure, "%lld stale", (long long)ours->stale);
	add_figure(out, race_cache_holds(ours) ? "good" : "bad", figure,
	           "of %lld cached reads by Lastunit; of %lld by %s, %lld were stale", (long long)ours->reads,
	           (long long)worst->reads, worst->name, (long long)worst->stale);
}

static void add_found(struct buffer *out, const struct race *race)
{
	const struct race_timeline *naive = timeline_of(race, "naive"), *ours = timeline_of(race, "lastunit");
	char figure[64];
	buffer_add_string(out, "<ul class=\"figures\">\n");
	if (naive) {
		snprintf(figure, sizeof figure, "%d of 1", naive->sold);
		add_figure(out, naive->holds ? "good" : "bad", figure,
		           "sold by the usual transaction: read, check, decrement, on READ COMMITTED");
	}
	if (ours) {
		snprintf(figure, sizeof figure, "%d of 1", ours->sold);
		add_figure(out, ours->holds ? "good" : "bad", figure, "sold by Lastunit, to the same two buyers");
	}
	add_speed_figure(out, race);
	add_stale_figure(out, race);
	buffer_add_string(out, "</ul>\n");
}

/* --- the frame ---------------------------------------------------------------------------------------------------- */

static void add_head(struct buffer *out, const struct race *race)
{
	char now[25];
	clock_format(clock_unix_us(), now);
	buffer_add_string(out,
	                  "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	                  "<title>The race for the last unit</title>\n"
	                  "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	                  "<meta name=\"color-scheme\" content=\"light dark\">\n<style>\n");
	buffer_add_text(out, embed_find("src/cmd/race_plot.css"));
	buffer_add_text(out, embed_find("src/cmd/race_page.css"));
	buffer_add_string(out,
	                  "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#found\">Skip to the figures</a>\n<header>\n"
	                  "<h1>The race for the last unit</h1>\n<p class=\"lead\">");
	html_format(
		out,
		"Every usual way to sell stock, and every usual way to cache it, raced on this database: %s. %.10s, seed %lld.",
		*race->postgres ? race->postgres : "PostgreSQL", now, (long long)race->options.seed);
	buffer_add_string(out, "</p>\n");
	if (!race_holds(race))
		html_verdict(out, false, "Something that must hold did not: see below.");
	else if (race_has_promise(race))
		html_verdict(out, true, "Everything that must hold held: nothing oversold, nothing lost, nothing stale.");
	else
		buffer_add_string(out, "<p class=\"lead\">Nothing was raced that must hold: only controls.</p>\n");
	buffer_add_string(out, "</header>\n<main>\n<div id=\"found\">\n");
	add_found(out, race);
	buffer_add_string(out, "</div>\n");
}

static void add_method(struct buffer *out, const struct race *race)
{
	buffer_add_string(
		out, "<section aria-labelledby=\"method\">\n<h2 id=\"method\">How it was measured</h2>\n<p class=\"lead\">");
	html_format(
		out,
		"Each strategy sold for %lld ms at each number of buyers, in a schema of its own that is gone now. What "
		"the buyers were answered was counted apart from what the tables say, and the two were compared.",
		(long long)race->options.run_ms);
	buffer_add_string(
		out,
		"</p>\n<p class=\"lead\"><strong>Oversold</strong>: units sold beyond what there was. <strong>Lost</strong>: sales "
		"that the stock does not miss, so that it will sell their units again. <strong>Stale</strong>: a read that showed an "
		"older figure than one that somebody had been answered before the read began. p50 and p99 are times of carts sold, "
		"retries included. A bar that is hatched belongs to a strategy that broke its promise.</p>\n");
	if (!race->service.there && *race->service.why_not) {
		buffer_add_string(out, "<p class=\"lead\">Lastunit itself was not raced: ");
		html_text(out, race->service.why_not);
		buffer_add_string(out, "</p>\n");
	}
	buffer_add_string(out, "</section>\n");
}

static void add_all(struct buffer *out, const struct race *race)
{
	add_head(out, race);
	race_html_timelines(out, race);
	race_html_sweep(out, race);
	race_html_caches(out, race);
	race_html_drift(out, race);
	add_method(out, race);
	buffer_add_string(out, "</main>\n<footer>Made by <code>lastunit race</code> of Lastunit " LASTUNIT_VERSION
	                       ". One stock count, every sales channel, the last unit never sold twice.</footer>\n"
	                       "</body>\n</html>\n");
}

bool race_html_write(const struct race *race, const char *path, char why[512])
{
	struct buffer out = {0};
	add_all(&out, race);
	bool written = race_file_write(path, buffer_text(&out), why);
	buffer_done(&out);
	return written;
}
