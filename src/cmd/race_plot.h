/* Plots as SVG, drawn for people: bars, ranges on a scale of tens, lines over time, lanes of a timeline.
 *
 * They are the same inside a report and as a file of their own: `alone` adds what an SVG needs then (namespace, style,
 * ground). Colours, fonts and dashes stand in race_plot.css. Nothing is told by colour alone: ours has a full bar, a
 * strategy that breaks its promise a hatched one and its fault in words, and every number stands beside its bar.
 * Each plot has a title and a description for those who do not see it. A plot is about PLOT_WIDTH units wide, so that it
 * can be read on a phone. All text is escaped here. Thread: the buffer's.
 */
#ifndef CMD_RACE_PLOT_H
#define CMD_RACE_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

#define PLOT_WIDTH 390

struct plot_frame {
	const char *id;          /* [a-z0-9-]+, once in a page */
	const char *title;       /* of an `alone` plot it is drawn, too */
	const char *description; /* what is to be seen, in a sentence */
	bool alone;
};

enum plot_kind {
	PLOT_OURS,
	PLOT_RIGHT, /* another that keeps the promise */
	PLOT_WRONG, /* one that breaks it */
};

/* --- how much: one bar each, from 0 ------------------------------------------------------------------------------- */
struct plot_bar {
	const char *name;
	double value;     /* >= 0 */
	const char *note; /* behind the number: "oversold 37"; "": nothing */
	enum plot_kind kind;
};
/* scale_max: what the full width is; 0: the greatest value. */
void plot_bars(struct buffer *out, const struct plot_frame *frame, const struct plot_bar *bars, size_t count,
               double scale_max);

/* --- from where to where: a dot and a tick on a scale of tens, in milliseconds ------------------------------------ */
struct plot_range {
	const char *name;
	double low_ms, high_ms; /* p50 and p99; 0 < low <= high, or both 0: nothing was measured */
	enum plot_kind kind;
};
void plot_ranges(struct buffer *out, const struct plot_frame *frame, const struct plot_range *ranges, size_t count);

/* --- over time: what is there, and what of it is for sale; the gap between them is hatched ------------------------ */
struct plot_gap {
	const char *upper_name, *lower_name, *gap_name; /* gap_name "": the gap is not a fault */
	const char *x_name;                             /* "buyers so far" */
	const double *upper, *lower;                    /* count of each; 0 <= lower <= upper */
	size_t count;                                   /* >= 2 */
	double x_max;                                   /* of the last point */
};
void plot_gap(struct buffer *out, const struct plot_frame *frame, const struct plot_gap *gap);

/* --- two buyers: a lane each; a span is what lasted, a numbered point what happened ------------------------------- */
struct plot_span {
	size_t lane;
	int64_t from_ms, to_ms;
	bool waiting; /* for the other: hatched */
};
struct plot_point {
	size_t lane;
	int64_t at_ms;
	bool wrong; /* what should not have happened: a square instead of a circle */
};
struct plot_lanes {
	const char *names[2];
	const struct plot_span *spans;
	size_t span_count;
	const struct plot_point *points; /* in order: numbered from 1 */
	size_t point_count;
	int64_t end_ms;
};
void plot_lanes(struct buffer *out, const struct plot_frame *frame, const struct plot_lanes *lanes);

/* A number as people write it: 0, 0.42, 3, 3.1, 37, 9,412; not below 0. */
#define PLOT_NUMBER_BYTES 32
const char *plot_number(double value, char out[PLOT_NUMBER_BYTES]);

#endif
