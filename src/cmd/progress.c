/* A line on stderr that says how far a long command is (progress.h). */
#include "cmd/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

#define GAP_MS 200
#define CLEAR_LINE "\r\033[K"

void progress_show(struct progress *progress, const char *format, ...)
{
	if (!progress->terminal)
		progress->terminal = isatty(STDERR_FILENO) ? 1 : -1;
	if (progress->terminal < 0 || clock_boottime_ns() < progress->next_ns)
		return;
	progress->next_ns = deadline_in_ms(GAP_MS);
	progress->shown = true;
	char line[160];
	va_list args;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	fprintf(stderr, CLEAR_LINE "%s", line);
	fflush(stderr);
}

void progress_done(struct progress *progress)
{
	if (progress->shown)
		fprintf(stderr, CLEAR_LINE);
	progress->shown = false;
	progress->next_ns = 0;
}
