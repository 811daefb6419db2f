/* Plots as SVG (race_plot.h).
 *
 * Happy path: open the svg, draw from the left to the right and downwards in units of a fixed width, close it. Failure
 * modes: none; what cannot be drawn (nothing measured) is a name with a dash.
 */
#include "cmd/race_plot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/embed.h"
#include "base/markup.h"
#include "base/text.h"

#define NAME_END 112 /* names end here, bars begin a little behind */
#define BAR_FROM 120
#define ROW 24
#define BAR 12
#define NOTE 124   /* what stands behind a bar, at least: */
#define NUMBER 50  /* its value … */
#define LETTER 6.4 /* … and each letter of its note, at most */
#define HEAD 44    /* of a plot that stands alone */

static const char *const kind_style[] = {"ours", "right", "wrong"};

const char *plot_number(double value, char out[PLOT_NUMBER_BYTES])
{
	char digits[PLOT_NUMBER_BYTES];
	if (value < 9.95 && value > floor(value)) {
		snprintf(out, PLOT_NUMBER_BYTES, value < 0.995 ? "%.2f" : "%.1f", value);
		return out;
	}
	int size = snprintf(digits, sizeof digits, "%.0f", value), to = 0;
	for (int i = 0; i < size && to < PLOT_NUMBER_BYTES - 2; i++) {
		if (i && (size - i) % 3 == 0)
			out[to++] = ',';
		out[to++] = digits[i];
	}
	out[to] = '\0';
	return out;
}

static void add_escaped(struct buffer *out, const char *text)
{
	markup_add(out, text_of(text));
}

static void add_text(struct buffer *out, double x, double y, const char *style, const char *text)
{
	buffer_add_format(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, style);
	add_escaped(out, text);
	buffer_add_string(out, "</text>");
}

static void add_line(struct buffer *out, double x1, double y1, double x2, double y2, const char *style)
{
	buffer_add_format(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>", x1, y1, x2, y2,
	                  style);
}

/* A rectangle of a style; hatched: filled with the frame's pattern. */
static void add_box(struct buffer *out, const struct plot_frame *frame, const char *style, bool hatched, double x,
                    double y, double width, double height)
{
	buffer_add_format(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2\" class=\"%s\"", x, y,
	                  width, height, style);
	if (hatched)
		buffer_add_format(out, " fill=\"url(#%s-hatch)\"", frame->id);
	buffer_add_string(out, "/>");
}

static void plot_open(struct buffer *out, const struct plot_frame *frame, int height)
{
	int head = frame->alone ? HEAD : 0, all = height + head;
	buffer_add_format(out, "<svg class=\"plot\" viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"%s-t %s-d\"",
	                  PLOT_WIDTH, all, frame->id, frame->id);
	if (frame->alone)
		buffer_add_format(out, " xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\"", PLOT_WIDTH, all);
	buffer_add_format(out, "><title id=\"%s-t\">", frame->id);
	add_escaped(out, frame->title);
	buffer_add_format(out, "</title><desc id=\"%s-d\">", frame->id);
	add_escaped(out, frame->description);
	buffer_add_string(out, "</desc>");
	if (frame->alone) {
		buffer_add_string(out, "<style>");
		buffer_add_text(out, embed_find("src/cmd/race_plot.css"));
		buffer_add_format(out,
		                  "</style><rect x=\".5\" y=\".5\" width=\"%d\" height=\"%d\" rx=\"10\" class=\"ground\"/>",
		                  PLOT_WIDTH - 1, all - 1);
		add_text(out, 16, 28, "head", frame->title);
	}
	buffer_add_format(out,
	                  "<defs><pattern id=\"%s-hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\""
	                  " patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" class=\"hatch-ground\"/>"
	                  "<line y2=\"6\" class=\"hatch\"/></pattern></defs><g transform=\"translate(0 %d)\">",
	                  frame->id, head);
}

static void plot_close(struct buffer *out)
{
	buffer_add_string(out, "</g></svg>\n");
}

static void add_name(struct buffer *out, double y, const char *name, enum plot_kind kind)
{
	add_text(out, NAME_END, y, kind == PLOT_OURS ? "end ours-name" : "end", name);
}

/* --- bars --------------------------------------------------------------------------------------------------------- */

void plot_bars(struct buffer *out, const struct plot_frame *frame, const struct plot_bar *bars, size_t count,
               double scale_max)
{
	char number[PLOT_NUMBER_BYTES];
	double most = scale_max, behind = NOTE;
	for (size_t i = 0; i < count; i++) {
		if (scale_max <= 0)
			most = fmax(most, bars[i].value);
		behind = fmax(behind, NUMBER + LETTER * (double)strlen(bars[i].note));
	}
	const double room = PLOT_WIDTH - BAR_FROM - behind;
	plot_open(out, frame, (int)count * ROW + 8);
	for (size_t i = 0; i < count; i++) {
		const struct plot_bar *bar = &bars[i];
		double y = (double)i * ROW, width = most > 0 ? room * fmin(bar->value / most, 1) : 0;
		add_name(out, y + 16, bar->name, bar->kind);
		add_box(out, frame, kind_style[bar->kind], bar->kind == PLOT_WRONG, BAR_FROM, y + 6, fmax(width, 1), BAR);
		buffer_add_format(out, "<text x=\"%.1f\" y=\"%.1f\">%s", BAR_FROM + fmax(width, 1) + 6, y + 16,
		                  plot_number(bar->value, number));
		if (*bar->note) {
			buffer_add_format(out, " <tspan class=\"%s\">", bar->kind == PLOT_WRONG ? "fault" : "soft");
			add_escaped(out, bar->note);
			buffer_add_string(out, "</tspan>");
		}
		buffer_add_string(out, "</text>");
	}
	add_line(out, BAR_FROM, 2, BAR_FROM, (double)count * ROW + 2, "axis");
	plot_close(out);
}

/* --- ranges ------------------------------------------------------------------------------------------------------- */

struct scale {
	int from, to; /* powers of ten, in ms */
	double left, right;
};

static double scale_at(const struct scale *scale, double ms)
{
	return scale->left + (scale->right - scale->left) * (log10(ms) - scale->from) / (scale->to - scale->from);
}

static struct scale scale_of(const struct plot_range *ranges, size_t count)
{
	double low = INFINITY, high = 0;
	for (size_t i = 0; i < count; i++)
		if (ranges[i].high_ms > 0) {
			low = fmin(low, ranges[i].low_ms);
			high = fmax(high, ranges[i].high_ms);
		}
	struct scale scale = {.left = BAR_FROM + 6, .right = PLOT_WIDTH - 96, .from = 0, .to = 1};
	if (high > 0) {
		scale.from = (int)floor(log10(low));
		scale.to = (int)ceil(log10(high));
		scale.to += scale.to == scale.from;
	}
	return scale;
}

static void add_scale(struct buffer *out, const struct scale *scale, double bottom)
{
	for (int power = scale->from; power <= scale->to; power++) {
		char label[PLOT_NUMBER_BYTES];
		double ms = pow(10, power), x = scale_at(scale, ms);
		snprintf(label, sizeof label, ms < 1000 ? "%g ms" : "%g s", ms < 1000 ? ms : ms / 1000);
		add_line(out, x, 4, x, bottom, "axis");
		add_text(out, x, bottom + 16, "mid soft", label);
	}
}

void plot_ranges(struct buffer *out, const struct plot_frame *frame, const struct plot_range *ranges, size_t count)
{
	struct scale scale = scale_of(ranges, count);
	double bottom = (double)count * ROW + 4;
	char low[PLOT_NUMBER_BYTES], high[PLOT_NUMBER_BYTES];
	plot_open(out, frame, (int)bottom + 26);
	add_scale(out, &scale, bottom);
	for (size_t i = 0; i < count; i++) {
		const struct plot_range *range = &ranges[i];
		double y = (double)i * ROW + 12;
		add_name(out, y + 4, range->name, range->kind);
		if (range->high_ms <= 0) {
			add_text(out, scale.left, y + 4, "soft", "–");
			continue;
		}
		double from = scale_at(&scale, range->low_ms), to = scale_at(&scale, range->high_ms);
		const char *style = kind_style[range->kind];
		add_line(out, from, y, to, y, style);
		buffer_add_format(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\" class=\"%s\"", from, y, style);
		if (range->kind == PLOT_WRONG)
			buffer_add_format(out, " fill=\"url(#%s-hatch)\"", frame->id);
		buffer_add_string(out, "/>");
		buffer_add_format(out,
		                  "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\" stroke-width=\"3\"/>", to,
		                  y - 6, to, y + 6, style);
		buffer_add_format(out, "<text x=\"%d\" y=\"%.1f\" class=\"end\">%s – %s ms</text>", PLOT_WIDTH - 4, y + 4,
		                  plot_number(range->low_ms, low), plot_number(range->high_ms, high));
	}
	plot_close(out);
}

/* --- the gap between two lines ------------------------------------------------------------------------------------ */

#define GAP_LEFT 40
#define GAP_RIGHT (PLOT_WIDTH - 14)
#define GAP_TOP 52
#define GAP_BOTTOM 212

struct plane {
	const struct plot_gap *gap;
	double most;
};

static void add_points(struct buffer *out, const struct plane *plane, const double *values, bool backwards)
{
	size_t count = plane->gap->count;
	for (size_t i = 0; i < count; i++) {
		size_t at = backwards ? count - 1 - i : i;
		buffer_add_format(out, "%.1f,%.1f ", GAP_LEFT + (GAP_RIGHT - GAP_LEFT) * (double)at / (double)(count - 1),
		                  GAP_BOTTOM - (GAP_BOTTOM - GAP_TOP) * values[at] / plane->most);
	}
}

static void add_curve(struct buffer *out, const struct plane *plane, const double *values, const char *style)
{
	buffer_add_format(out, "<polyline class=\"%s\" points=\"", style);
	add_points(out, plane, values, false);
	buffer_add_string(out, "\"/>");
}

/* The legend has a line or a patch for each, and a name. */
static void add_legend(struct buffer *out, const struct plot_frame *frame, const struct plot_gap *gap)
{
	add_line(out, GAP_LEFT, 14, GAP_LEFT + 26, 14, "upper");
	add_text(out, GAP_LEFT + 34, 18, "", gap->upper_name);
	add_line(out, GAP_LEFT + 184, 14, GAP_LEFT + 210, 14, "lower");
	add_text(out, GAP_LEFT + 218, 18, "", gap->lower_name);
	if (*gap->gap_name) {
		add_box(out, frame, "gap", true, GAP_LEFT, 25, 26, 12);
		add_text(out, GAP_LEFT + 34, 35, "fault", gap->gap_name);
	}
}

void plot_gap(struct buffer *out, const struct plot_frame *frame, const struct plot_gap *gap)
{
	struct plane plane = {.gap = gap, .most = 1};
	char label[PLOT_NUMBER_BYTES];
	CHECK(gap->count >= 2);
	for (size_t i = 0; i < gap->count; i++)
		plane.most = fmax(plane.most, gap->upper[i]);
	plot_open(out, frame, GAP_BOTTOM + 40);
	for (int tick = 0; tick <= 4; tick++) {
		double part = tick / 4., x = GAP_LEFT + (GAP_RIGHT - GAP_LEFT) * part;
		double y = GAP_BOTTOM - (GAP_BOTTOM - GAP_TOP) * part;
		if (tick % 2 == 0) {
			add_line(out, GAP_LEFT, y, GAP_RIGHT, y, "axis");
			add_text(out, GAP_LEFT - 6, y + 4, "end soft", plot_number(plane.most * part, label));
		}
		snprintf(label, sizeof label, "%g", gap->x_max * part);
		add_text(out, x, GAP_BOTTOM + 16, "mid soft", label);
	}
	add_text(out, (GAP_LEFT + GAP_RIGHT) / 2., GAP_BOTTOM + 34, "mid soft", gap->x_name);
	if (*gap->gap_name) {
		buffer_add_format(out, "<polygon class=\"gap\" fill=\"url(#%s-hatch)\" points=\"", frame->id);
		add_points(out, &plane, gap->upper, false);
		add_points(out, &plane, gap->lower, true);
		buffer_add_string(out, "\"/>");
	}
	add_curve(out, &plane, gap->upper, "upper");
	add_curve(out, &plane, gap->lower, "lower");
	add_legend(out, frame, gap);
	plot_close(out);
}

/* --- two lanes ---------------------------------------------------------------------------------------------------- */

#define LANES_LEFT 78
#define LANES_RIGHT (PLOT_WIDTH - 18)
#define LANE_TOP 22
#define LANE_STEP 46

static double lane_x(const struct plot_lanes *lanes, int64_t ms)
{
	return LANES_LEFT + (LANES_RIGHT - LANES_LEFT) * (double)ms / (double)lanes->end_ms;
}

static double lane_y(size_t lane)
{
	return LANE_TOP + LANE_STEP * (double)lane;
}

static void add_number(struct buffer *out, const struct plot_lanes *lanes, size_t i)
{
	const struct plot_point *point = &lanes->points[i];
	double x = lane_x(lanes, point->at_ms), y = lane_y(point->lane);
	char number[PLOT_NUMBER_BYTES];
	if (point->wrong)
		buffer_add_format(out,
		                  "<rect x=\"%.1f\" y=\"%.1f\" width=\"20\" height=\"20\" rx=\"2\" class=\"number-wrong\"/>",
		                  x - 10, y - 10);
	else
		buffer_add_format(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"10\" class=\"number\"/>", x, y);
	snprintf(number, sizeof number, "%zu", i + 1);
	add_text(out, x, y + 4, point->wrong ? "mid fault" : "mid", number);
}

void plot_lanes(struct buffer *out, const struct plot_frame *frame, const struct plot_lanes *lanes)
{
	double bottom = lane_y(1) + 22;
	CHECK(lanes->end_ms > 0);
	plot_open(out, frame, (int)bottom + 26);
	for (int64_t ms = 0; ms <= lanes->end_ms; ms += 50) {
		double x = lane_x(lanes, ms);
		char label[PLOT_NUMBER_BYTES];
		add_line(out, x, 4, x, bottom, "axis");
		if (ms % 100)
			continue;
		snprintf(label, sizeof label, ms ? "%lld" : "%lld ms", (long long)ms);
		add_text(out, x, bottom + 16, "mid soft", label);
	}
	for (size_t lane = 0; lane < 2; lane++) {
		add_text(out, 8, lane_y(lane) + 4, "", lanes->names[lane]);
		add_line(out, LANES_LEFT, lane_y(lane), LANES_RIGHT, lane_y(lane), "lane");
	}
	for (size_t i = 0; i < lanes->span_count; i++) {
		const struct plot_span *span = &lanes->spans[i];
		double from = lane_x(lanes, span->from_ms), to = lane_x(lanes, span->to_ms);
		add_box(out, frame, span->waiting ? "wrong" : "span", span->waiting, from, lane_y(span->lane) - 5, to - from,
		        10);
	}
	for (size_t i = 0; i < lanes->point_count; i++)
		add_number(out, lanes, i);
	plot_close(out);
}
