/* The report and the JSON of a race, from known results.
 *
 * Guards against: a report that needs something from elsewhere, that a screen reader cannot tell, that tells by colour
 * alone, or that takes a text for markup; a member of the JSON that is missing or has another's figure.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "cmd/race_figure.h"

static struct race_result results[] = {
	{"pessimistic", "hot", 8, true, 100, 0, 0, 7, 0, 0, 1.5, 12.25, 835, true},
	{"lastunit", "hot", 8, true, 470, 0, 0, 32, 1, 0, 4.3, 19, 1537.5, true},
	{"naive", "hot", 8, false, 133, 7, 0, 8, 0, 0, 9, 150, 391, false},
	{"lost-update", "hot", 8, false, 67, 0, 62, 0, 0, 0, 20, 107, 281, false},
	{"naive", "hot", 1, false, 50, 0, 0, 0, 0, 0, 1, 2, 300, true},
};

static struct race_timeline timelines[] = {
	{.strategy = "lastunit",
     .steps = {{0, 'A', "asks: 1 available"},
               {40, 'B', "asks: 1 available"},
               {180, 'A', "201: sold"},
               {220, 'B', "409 insufficient_stock: refused"},
               {310, 'A', "has his answer"},
               {350, 'B', "has his answer"}},
     .sold = 1,
     .must_hold = true,
     .holds = true},
	{.strategy = "naive",
     .steps = {{0, 'A', "reads 1"},
               {40, 'B', "reads 1"},
               {180, 'A', "takes it"},
               {220, 'B', "waits for A; then takes it"},
               {310, 'A', "COMMIT: sold"},
               {350, 'B', "COMMIT: sold"}},
     .sold = 2,
     .on_hand = -1},
};

static struct race_cache caches[] = {
	{.name = "del-after-commit",
     .does = "the sale commits, then deletes",
     .raced = true,
     .steps = {{"till", "sells", false}, {"bot", "looks: 1 left", true}},
     .step_count = 2,
     .writes = 10,
     .reads = 200,
     .stale = 50,
     .gone_back = 3,
     .stale_ms_max = 104.5},
	{.name = "lastunit", .does = "a ticket", .must_hold = true, .why_not = "no --redis-url"},
};

static struct race_drift_point points[] = {{0, 0, 300, 0}, {600, 31, 200, 69}, {1200, 90, 0, 210}};
static struct race_drift drifts[] = {{.name = "without TTL", .points = points, .count = 3, .units = 300, .unsold = 90}};

static struct race *race_known(void)
{
	static struct race race;
	race = (struct race){
		.options = {.run_ms = 300, .seed = 5},
		.timelines = timelines,
		.timeline_count = 2,
		.results = results,
		.result_count = 5,
		.caches = caches,
		.cache_count = 2,
		.drifts = drifts,
		.drift_count = 1,
		.postgres = "PostgreSQL <script>alert(\"1\")</script> & more",
		.service = {.there = true},
	};
	return &race;
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static json_t *as_json(const struct race *race)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	race_json_write(race, out);
	fclose(out);
	assert_int_equal(text[size - 1], '\n');
	json_t *json = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	free(text);
	assert_non_null(json);
	return json;
}

static void json_has_the_members_that_are_promised_and_their_figures(void **state)
{
	json_t *json = as_json(race_known());
	json_t *row = json_array_get(json_object_get(json, "strategies"), 1);
	json_t *wanted = json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:f}", "strategy", "lastunit",
	                           "workload", "hot", "buyers", 8, "sold", 470, "oversold", 0, "lost", 0, "refused", 32,
	                           "retries", 1, "deadlocks", 0, "p50_ms", 4.3, "p99_ms", 19., "sales_per_s", 1537.5);
	assert_int_equal(json_array_size(json_object_get(json, "strategies")), 5);
	assert_true(json_equal(row, wanted));
	json_decref(wanted);
	assert_int_equal(json_integer_value(
						 json_object_get(json_array_get(json_object_get(json, "strategies"), 2), "oversold")),
	                 7);
	assert_int_equal(json_integer_value(
						 json_object_get(json_array_get(json_object_get(json, "strategies"), 3), "lost")),
	                 62);

	json_t *cache = json_array_get(json_object_get(json, "caches"), 0);
	assert_string_equal(json_string_value(json_object_get(cache, "cache")), "del-after-commit");
	assert_int_equal(json_integer_value(json_object_get(cache, "reads")), 200);
	assert_int_equal(json_integer_value(json_object_get(cache, "stale")), 50);
	assert_int_equal(json_integer_value(json_object_get(cache, "gone_back")), 3);
	assert_true(json_real_value(json_object_get(cache, "longest_stale_ms")) > 104.4);
	assert_true(json_is_true(json_object_get(json_array_get(json_object_get(cache, "steps"), 1), "wrong")));
	json_t *not_raced = json_array_get(json_object_get(json, "caches"), 1);
	assert_true(json_is_false(json_object_get(not_raced, "raced")));
	assert_string_equal(json_string_value(json_object_get(not_raced, "why_not")), "no --redis-url");
	assert_int_equal(json_integer_value(json_object_get(json_array_get(json_object_get(json, "drift"), 0), "unsold")),
	                 90);
	assert_true(json_is_true(json_object_get(json, "kept")));
	json_decref(json);
}

/* Controls, as they are where nothing else was asked for. */
static struct race race_of_controls(void)
{
	static struct race_result rows[] = {
		{.strategy = "naive", .workload = "hot", .buyers = 8, .sold = 3, .oversold = 1}};
	return (struct race){.options = {.run_ms = 300}, .results = rows, .result_count = 1};
}

static void of_controls_alone_json_says_neither_kept_nor_broken(void **state)
{
	struct race race = race_of_controls();
	json_t *json = as_json(&race);
	assert_true(json_is_null(json_object_get(json, "kept")));
	json_decref(json);
}

static void of_controls_alone_the_tables_claim_nothing(void **state)
{
	struct race race = race_of_controls();
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	race_print(&race, out);
	fclose(out);
	assert_non_null(strstr(text, "\nnothing was raced that must hold: only controls\n"));
	assert_null(strstr(text, "has held"));
	assert_non_null(strstr(text, " alone: nothing, for one buyer has nobody to race."));
	free(text);
}

/* --- HTML --------------------------------------------------------------------------------------------------------- */

static char *as_html(const struct race *race)
{
	char path[] = "/tmp/race-report-XXXXXX", why[512];
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	assert_true(race_html_write(race, path, why));
	FILE *file = fopen(path, "r");
	char *text = calloc(1, 1 << 20);
	assert_true(file && text);
	assert_true(fread(text, 1, (1 << 20) - 1, file) > 1000);
	fclose(file);
	unlink(path);
	return text;
}

static size_t count_of(const char *text, const char *what)
{
	size_t count = 0;
	for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
		count++;
	return count;
}

static void the_report_needs_nothing_from_elsewhere(void **state)
{
	static const char *const foreign[] = {"<script", "<link",    "<img",  "src=",     "@import",
	                                      "http://", "https://", "url(h", "style=\"", NULL};
	char *html = as_html(race_known());
	for (size_t i = 0; foreign[i]; i++)
		if (strstr(html, foreign[i]))
			fail_msg("\"%s\" is in it", foreign[i]);
	free(html);
}

static void what_would_be_markup_is_text(void **state)
{
	char *html = as_html(race_known());
	assert_non_null(strstr(html, "PostgreSQL &lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; more"));
	free(html);
}

/* Every element that is opened is closed, in order; void ones are not. */
static void every_element_is_closed(void **state)
{
	char *html = as_html(race_known()), open[64][24];
	size_t depth = 0;
	for (char *at = strchr(html, '<'); at; at = strchr(at + 1, '<')) {
		char name[24] = "";
		if (at[1] == '!')
			continue;
		assert_int_equal(sscanf(at + (at[1] == '/' ? 2 : 1), "%23[a-z0-9]", name), 1);
		const char *end = strchr(at, '>');
		assert_non_null(end);
		if (at[1] == '/') {
			assert_true(depth > 0);
			assert_string_equal(open[--depth], name);
		} else if (end[-1] != '/' && strcmp(name, "meta") != 0) {
			assert_true(depth < 64);
			strcpy(open[depth++], name);
		}
	}
	assert_int_equal(depth, 0);
	free(html);
}

static void each_plot_has_a_name_and_a_description_and_ids_are_its_own(void **state)
{
	char *html = as_html(race_known());
	size_t plots = count_of(html, "<svg ");
	assert_int_equal(plots, 8); /* 2 timelines, sales and times at two levels, caches, drift */
	assert_int_equal(count_of(html, "role=\"img\" aria-labelledby=\""), plots);
	assert_int_equal(count_of(html, "<title id=\""), plots);
	assert_int_equal(count_of(html, "<desc id=\""), plots);
	for (const char *at = html; (at = strstr(at, " id=\"")); at++) {
		char id[100], again[120];
		assert_int_equal(sscanf(at, " id=\"%99[^\"]\"", id), 1);
		snprintf(again, sizeof again, " id=\"%s\"", id);
		assert_int_equal(count_of(html, again), 1);
	}
	free(html);
}

static void a_broken_promise_is_told_in_words_and_by_hatching(void **state)
{
	char *html = as_html(race_known());
	assert_non_null(strstr(html, "oversold 7"));
	assert_non_null(strstr(html, "62 sales lost"));
	assert_non_null(strstr(html, "(a control)")); /* one that met no race */
	assert_non_null(strstr(html, "✗ sold 2; left by the row: -1"));
	assert_non_null(strstr(html, "✓ sold 1; left by the row: 0"));
	assert_non_null(strstr(html, "✗ 90 of 300 units lie on the shelf"));
	assert_non_null(strstr(html, "Not raced: no --redis-url"));
	assert_non_null(strstr(html, "class=\"wrong\" fill=\"url(#sales-hot-8-hatch)\""));
	assert_non_null(strstr(html, "class=\"number-wrong\"")); /* the second sale */
	assert_int_equal(count_of(html, "class=\"number-wrong\""), 1);
	free(html);
}

static void the_rows_that_hold_come_first_and_the_fastest_of_them_before_the_others(void **state)
{
	const struct race_result *rows[RACE_ROWS_MAX];
	int levels[RACE_BUYERS_MAX];
	assert_int_equal(race_rows(race_known(), "hot", 8, rows), 4);
	assert_string_equal(rows[0]->strategy, "lastunit");
	assert_string_equal(rows[1]->strategy, "pessimistic");
	assert_string_equal(rows[2]->strategy, "naive");
	assert_int_equal(race_buyers(race_known(), "hot", levels), 2);
	assert_int_equal(levels[0], 1);
	assert_int_equal(levels[1], 8);
}

static void an_empty_race_is_a_report_too(void **state)
{
	char *html = as_html(&(struct race){.options = {.run_ms = 1}});
	assert_non_null(strstr(html, "How it was measured"));
	assert_int_equal(count_of(html, "<svg "), 0);
	free(html);
}

static void a_report_that_cannot_be_written_says_why(void **state)
{
	char why[512] = "";
	assert_false(race_html_write(race_known(), "/nowhere/race.html", why));
	assert_non_null(strstr(why, "/nowhere/race.html cannot be written: No such file or directory"));
	assert_false(race_svg_write(race_known(), "/nowhere", why));
}

/* --- plots -------------------------------------------------------------------------------------------------------- */

static void numbers_are_written_as_people_do(void **state)
{
	static const struct {
		double value;
		const char *text;
	} numbers[] = {{0, "0"},   {0.421, "0.42"}, {3, "3"},          {3.14, "3.1"},
	               {37, "37"}, {999, "999"},    {9411.6, "9,412"}, {1234567, "1,234,567"}};
	char out[PLOT_NUMBER_BYTES];
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		assert_string_equal(plot_number(numbers[i].value, out), numbers[i].text);
}

/* The greatest has the whole width, half of it half. */
static void bars_are_as_long_as_their_numbers(void **state)
{
	struct buffer svg = {0};
	struct plot_bar bars[] = {{"a", 100, "", PLOT_OURS}, {"b", 50, "so <small>", PLOT_WRONG}};
	double long_one = 0, short_one = 0;
	plot_bars(&svg, &(struct plot_frame){"x", "T & t", "d", true}, bars, 2, 0);
	buffer_add_char(&svg, '\0');
	const char *at = strstr(svg.data, "<g transform");
	assert_non_null(at);
	at = strstr(at, "width=\"");
	assert_int_equal(sscanf(at, "width=\"%lf", &long_one), 1);
	assert_int_equal(sscanf(strstr(at + 1, "width=\""), "width=\"%lf", &short_one), 1);
	assert_true(long_one > 100 && short_one > long_one / 2 - 1 && short_one < long_one / 2 + 1);
	assert_non_null(strstr(svg.data, "so &lt;small&gt;"));
	assert_non_null(strstr(svg.data, "<title id=\"x-t\">T &amp; t</title>"));
	assert_non_null(strstr(svg.data, "xmlns=\"http://www.w3.org/2000/svg\""));
	assert_non_null(strstr(svg.data, "prefers-color-scheme: dark")); /* it has its style with it */
	buffer_done(&svg);
}

static void of_controls_alone_the_report_claims_nothing(void **state)
{
	struct race race = race_of_controls();
	char *html = as_html(&race);
	assert_non_null(strstr(html, "<p class=\"lead\">Nothing was raced that must hold: only controls.</p>"));
	assert_null(strstr(html, "Everything that must hold held"));
	free(html);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(json_has_the_members_that_are_promised_and_their_figures),
		cmocka_unit_test(the_report_needs_nothing_from_elsewhere),
		cmocka_unit_test(what_would_be_markup_is_text),
		cmocka_unit_test(every_element_is_closed),
		cmocka_unit_test(each_plot_has_a_name_and_a_description_and_ids_are_its_own),
		cmocka_unit_test(a_broken_promise_is_told_in_words_and_by_hatching),
		cmocka_unit_test(the_rows_that_hold_come_first_and_the_fastest_of_them_before_the_others),
		cmocka_unit_test(an_empty_race_is_a_report_too),
		cmocka_unit_test(a_report_that_cannot_be_written_says_why),
		cmocka_unit_test(numbers_are_written_as_people_do),
		cmocka_unit_test(bars_are_as_long_as_their_numbers),
		cmocka_unit_test(of_controls_alone_json_says_neither_kept_nor_broken),
		cmocka_unit_test(of_controls_alone_the_tables_claim_nothing),
		cmocka_unit_test(of_controls_alone_the_report_claims_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
