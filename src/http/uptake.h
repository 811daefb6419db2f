/* How fast a client must take an answer whose bytes its socket has refused. Private to src/http; the loop's thread.
 *
 * One deadline (body_timeout_ms) after another, as long as each sees a sixteenth of it taken, and 64 KiB at least: so a
 * large answer may take long if it is taken steadily, but nobody holds one for longer than 16 deadlines.
 */
#ifndef HTTP_UPTAKE_H
#define HTTP_UPTAKE_H

#include "http/connection.h"

#define UPTAKE_DEADLINES_MAX 16
#define UPTAKE_BYTES_MIN ((size_t)64 * 1024)

/* The socket has refused so many bytes, and the bufferevent has them now: the connection is `writing`. */
void uptake_owe(struct connection *connection, size_t bytes);
/* Its deadline has passed: true if enough was taken meanwhile, and the next one is set. */
bool uptake_goes_on(struct connection *connection);

#endif
