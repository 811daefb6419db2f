/* The report: what each strategy sold, to how many buyers, and how long they waited. */
#include <string.h>

#include "cmd/race_html.h"
#include "cmd/race_workload.h"

static void add_table(struct buffer *out, const struct race *race, const struct race_workload *workload,
                      const int *levels, size_t count)
{
	static const char *const heads[] = {"strategy", "buyers",    "sold",   "oversold", "lost",    "refused",
	                                    "retries",  "deadlocks", "p50 ms", "p99 ms",   "sales/s", NULL};
	html_table_open(out, workload->title, heads);
	for (size_t l = 0; l < count; l++) {
		const struct race_result *rows[RACE_ROWS_MAX];
		size_t row_count = race_rows(race, workload->name, levels[l], rows);
		for (size_t i = 0; i < row_count; i++) {
			const struct race_result *row = rows[i];
			html_row_open(out, row->strategy, strcmp(row->strategy, "lastunit") == 0);
			html_cell_int(out, row->buyers);
			html_cell_int(out, row->sold);
			html_cell_int(out, row->oversold);
			html_cell_int(out, row->lost);
			html_cell_int(out, row->refused);
			html_cell_int(out, row->retries);
			html_cell_int(out, row->deadlocks);
			html_cell_number(out, row->p50_ms);
			html_cell_number(out, row->p99_ms);
			html_cell_number(out, row->sales_per_s);
			buffer_add_string(out, "</tr>\n");
		}
	}
	html_table_close(out);
}

static void add_plots(struct buffer *out, const struct race *race, const struct race_workload *workload,
                      const int *levels, size_t count, bool latency)
{
	buffer_add_string(out, "<div class=\"grid\">\n");
	for (size_t l = 0; l < count; l++) {
		char id[80], title[160], buyers[32];
		const struct race_result *best = race_cheapest(race, workload->name, levels[l]);
		race_buyers_text(levels[l], buyers);
		snprintf(id, sizeof id, "%s-%s-%d", latency ? "wait" : "sales", workload->name, levels[l]);
		snprintf(title, sizeof title, "%s, %s: %s", workload->title, buyers,
		         latency ? "from p50 to p99" : "sales per second");
		struct plot_frame frame = {id, title, "The figures are in the table below.", false};
		buffer_add_string(out, "<figure class=\"card\"><figcaption><h4>");
		html_text(out, buyers);
		buffer_add_string(out, "</h4>");
		if (latency)
			buffer_add_string(out, "<p class=\"legend\">● half of the carts are sold by then, ┃ 99 of 100</p>");
		else if (best) {
			buffer_add_string(out, "<p class=\"legend\">Cheapest that holds: <strong>");
			html_text(out, best->strategy);
			buffer_add_string(out, "</strong></p>");
		}
		buffer_add_string(out, "</figcaption>");
		if (latency)
			race_figure_latency(out, race, &frame, workload->name, levels[l]);
		else
			race_figure_sales(out, race, &frame, workload->name, levels[l]);
		buffer_add_string(out, "</figure>\n");
	}
	buffer_add_string(out, "</div>\n");
}

/* What they are, once for all plots. */
static void add_strategies(struct buffer *out, const struct race *race)
{
	static const char *const heads[] = {"strategy", "what it does", NULL};
	buffer_add_string(out, "<details><summary>What each strategy does</summary>\n");
	html_table_open(out, "The strategies", heads);
	for (size_t i = 0; i < race->result_count; i++) {
		const char *name = race->results[i].strategy, *does = race_strategy_does(name);
		bool again = false;
		for (size_t j = 0; j < i && !again; j++)
			again = strcmp(race->results[j].strategy, name) == 0;
		if (again)
			continue;
		html_row_open(out, name, strcmp(name, "lastunit") == 0);
		html_cell_text(out, does ? does : "");
		buffer_add_string(out, "</tr>\n");
	}
	html_table_close(out);
	buffer_add_string(out, "</details>\n");
}

void race_html_sweep(struct buffer *out, const struct race *race)
{
	if (!race->result_count)
		return;
	buffer_add_string(
		out,
		"<section aria-labelledby=\"contention\">\n<h2 id=\"contention\">Under contention</h2>\n"
		"<p class=\"lead\">Sales per second: longer is better, unless the bar is hatched. Then the number beside "
		"it says what was sold that was not there.</p>\n");
	add_strategies(out, race);
	for (size_t w = 0; w < race_workload_count; w++) {
		const struct race_workload *workload = &race_workloads[w];
		int levels[RACE_BUYERS_MAX];
		size_t count = race_buyers(race, workload->name, levels);
		if (!count)
			continue;
		buffer_add_format(out, "<h3 id=\"%s\">", workload->name);
		html_text(out, workload->title);
		buffer_add_string(out, "</h3>\n");
		add_plots(out, race, workload, levels, count, false);
		buffer_add_string(out, "<details><summary>How long a buyer waits, and every figure</summary>\n");
		add_plots(out, race, workload, levels, count, true);
		add_table(out, race, workload, levels, count);
		buffer_add_string(out, "</details>\n");
	}
	buffer_add_string(out, "</section>\n");
}
