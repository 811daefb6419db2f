/* A line on stderr that says how far a long command is: only on a terminal, rewritten in place, at most five times a
 * second. Starts as {0}. Thread: one at a time. */
#ifndef CMD_PROGRESS_H
#define CMD_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	int terminal; /* 0: not asked yet, 1 yes, -1 no */
	int64_t next_ns;
	bool shown;
};

void progress_show(struct progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Clears the line, before anything else is printed. */
void progress_done(struct progress *progress);

#endif
