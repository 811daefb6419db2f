/* How fast a client must take an answer whose bytes its socket has refused. Private to src/http; the loop's thread.
 *
 * One deadline (body_timeout_ms) after another, as long as each sees a sixteenth of it taken, and 64 KiB at least: so a
 * large answer may take long if it is taken steadily, but nobody holds one for longer than 16 deadlines.
 *
 * And how much all of a loop's clients together may leave with us. An answer lies in memory until its last byte is taken;
 * beyond the bound who has been at it longest is cut off, for who takes what he asked for is done in seconds. The last
 * that came stays in any case: one feed may be larger than the bound.
 */
#ifndef HTTP_UPTAKE_H
#define HTTP_UPTAKE_H

#include "http/connection.h"

#define UPTAKE_DEADLINES_MAX 16
#define UPTAKE_BYTES_MIN ((size_t)64 * 1024)

/* The socket has refused so many bytes, and the bufferevent has them now: the connection is `writing`. */
void uptake_owe(struct connection *connection, size_t bytes);
/* It is `writing` no more: all was taken, or it is closed. */
void uptake_end(struct connection *connection);
/* Its deadline has passed: true if enough was taken meanwhile, and the next one is set. */
bool uptake_goes_on(struct connection *connection);

#endif
