/* The log: one line per event on stderr, `time level event key=value ...`. Lower layers do not log: whoever gives up
 * logs once. A value that came from outside goes through log_quote(). Thread: any; one write(2) per line. Nobody waits
 * for who reads the log: a line that a pipe, a socket or a terminal does not take now is lost, counted
 * (lastunit_log_lines_lost_total) and told of by the next that goes through: `warn log_lost lines=N`.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "lastunit/types.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

void log_set_level(enum log_level level);
void log_event(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Bytes as they are, a line of at most PIPE_BUF; false if they could not be written now. Safe in a signal handler. */
bool log_write(const char *line, size_t size);
/* Text made safe for one line: control bytes and quotes escaped, in quotes if it has blanks, cut at
 * 200 bytes. Result in a small ring of
 * thread-local buffers: up to four may stand in one log_event. */
const char *log_quote(struct text text);

#endif
