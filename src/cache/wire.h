/* What the blocking and the event-loop client share: the bytes of a request, the first commands on a connection,
 * and sockets. Private to cache/.
 *
 * hiredis is used for what is the same in 0.14 and 1.x and has no deadlines to get wrong: its reply reader and reply
 * objects. Sockets and waiting are ours. Thread: any; no state.
 */
#ifndef CACHE_WIRE_H
#define CACHE_WIRE_H

#include <hiredis/hiredis.h>
#include <sys/socket.h>

#include "base/buffer.h"
#include "base/resolver.h"
#include "cache/redis.h"
#include "lastunit/types.h"

#define WIRE_ERROR_BYTES RESOLVER_ERROR_BYTES
#define WIRE_RETRY_MS 50 /* between attempts to connect */

/* --- requests -------------------------------------------------------------------------------------------------- */

/* One command as RESP: an array of bulk strings. */
void wire_request(struct buffer *out, int argc, const struct text *argv);
/* If `reply` says NOSCRIPT to an EVALSHA of one of our scripts, appends the same call as EVAL, which also loads the
 * script for the next ones. False otherwise. */
bool wire_again(const redisReply *reply, struct text request, struct buffer *out);

/* The commands that open a connection (AUTH, SELECT, INFO), as one pipeline. Returns the number of replies to come. */
int wire_hello(const struct redis_address *address, struct buffer *out);
/* Judges one of these replies: an error, or a Redis in cluster mode, is refused with a sentence in `error`. */
bool wire_hello_ok(const redisReply *reply, char error[WIRE_ERROR_BYTES]);

/* --- replies --------------------------------------------------------------------------------------------------- */

struct arena;
/* A reader whose replies lie in `arena` and go with it: a reply of a thousand cells is a few allocations, not two thousand.
 * arena_reset() it between two replies, never inside one; freeReplyObject() is not for these. */
redisReader *wire_reader_new(struct arena *arena);

/* --- sockets --------------------------------------------------------------------------------------------------- */

/* Starts a non-blocking connect. -1 with errno; otherwise a socket that becomes writable when it is decided. */
int wire_connect(const struct resolver_address *endpoint);
/* 0, or the errno of a connect that was started. */
int wire_connect_error(int fd);

/* A unix path or a numeric address needs no look-up (base/resolver.h): true, and *ret_endpoints. */
bool wire_literal(const struct redis_address *address, struct resolver_addresses *ret_endpoints);

#endif
