/* The report's parts, and the few words in which it is written. Thread: the buffer's. */
#ifndef CMD_RACE_HTML_H
#define CMD_RACE_HTML_H

#include "cmd/race_figure.h"

/* Text that stands for itself. */
void html_text(struct buffer *out, const char *text);
/* The same, made by a format. */
void html_format(struct buffer *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A table in a box of its own that scrolls; then rows, then html_table_close(). heads: NULL-ended, the first is that of the
 * rows' names. */
void html_table_open(struct buffer *out, const char *caption, const char *const *heads);
void html_row_open(struct buffer *out, const char *name, bool ours);
void html_cell_number(struct buffer *out, double value);
void html_cell_int(struct buffer *out, int64_t value);
void html_cell_text(struct buffer *out, const char *text);
void html_table_close(struct buffer *out);
/* In words, with a sign before them: the colour is not needed. */
void html_verdict(struct buffer *out, bool good, const char *sentence);

/* --- parts (race_html_parts.c, race_html_sweep.c); each adds nothing if it was not raced -------------------------- */
void race_html_timelines(struct buffer *out, const struct race *race);
void race_html_sweep(struct buffer *out, const struct race *race);
void race_html_caches(struct buffer *out, const struct race *race);
void race_html_drift(struct buffer *out, const struct race *race);

#endif
