/* The figures of a race: what it found, as plots (race_plot.h), and the words that go with them.
 *
 * Shared by the report and by the files of --svg. Thread: the buffer's.
 */
#ifndef CMD_RACE_FIGURE_H
#define CMD_RACE_FIGURE_H

#include "cmd/race.h"
#include "cmd/race_plot.h"

/* The results of one workload and number of buyers: what must hold first, then the controls, each by sales per second.
 * In `out`, room for RACE_ROWS_MAX; returns how many. */
#define RACE_ROWS_MAX 32
size_t race_rows(const struct race *race, const char *workload, int buyers,
                 const struct race_result *out[RACE_ROWS_MAX]);
/* Its levels, rising; returns how many. */
#define RACE_BUYERS_MAX 8
size_t race_buyers(const struct race *race, const char *workload, int out[RACE_BUYERS_MAX]);
/* "oversold 37", "37 sales lost", "12 deadlocks"; "(a control)" for one that met no race; "" for what is correct. */
const char *race_fault(const struct race_result *result, char out[64]);
/* "1 buyer", "64 buyers". */
const char *race_buyers_text(int buyers, char out[32]);
enum plot_kind race_kind(const char *strategy, bool correct);

void race_figure_sales(struct buffer *out, const struct race *race, const struct plot_frame *frame,
                       const char *workload, int buyers);
void race_figure_latency(struct buffer *out, const struct race *race, const struct plot_frame *frame,
                         const char *workload, int buyers);
/* Units that were sold and were not there, or sales that were forgotten. */
void race_figure_oversold(struct buffer *out, const struct race *race, const struct plot_frame *frame,
                          const char *workload, int buyers);
void race_figure_timeline(struct buffer *out, const struct race_timeline *timeline, const struct plot_frame *frame);
/* Stale reads of a hundred. */
void race_figure_caches(struct buffer *out, const struct race *race, const struct plot_frame *frame);
void race_figure_drift(struct buffer *out, const struct race_drift *drift, const struct plot_frame *frame);

/* race-sales.svg and race-oversold.svg in the directory, for a README. False with a sentence. */
bool race_svg_write(const struct race *race, const char *directory, char why[512]) LU_MUST_CHECK;

#endif
