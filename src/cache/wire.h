/* What the blocking and the event-loop client share: the bytes of a request, the first commands on a connection,
 * sockets and names. Private to cache/.
 *
 * hiredis is used for what is the same in 0.14 and 1.x and has no deadlines to get wrong: its reply reader and reply
 * objects. Sockets and waiting are ours. Thread: any; no state.
 */
#ifndef CACHE_WIRE_H
#define CACHE_WIRE_H

#include <hiredis/hiredis.h>
#include <sys/socket.h>

#include "base/buffer.h"
#include "cache/redis.h"
#include "lastunit/types.h"

#define WIRE_ERROR_BYTES 256
#define WIRE_RETRY_MS 50     /* between attempts to connect */
#define WIRE_ENDPOINTS_MAX 8 /* of one name; the rest is not tried */

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

/* --- sockets --------------------------------------------------------------------------------------------------- */

struct wire_endpoint {
	struct sockaddr_storage address;
	socklen_t size;
};

struct wire_endpoints {
	size_t count;
	struct wire_endpoint items[WIRE_ENDPOINTS_MAX];
};

/* Starts a non-blocking connect. -1 with errno; otherwise a socket that becomes writable when it is decided. */
int wire_connect(const struct wire_endpoint *endpoint);
/* 0, or the errno of a connect that was started. */
int wire_connect_error(int fd);

/* --- names ----------------------------------------------------------------------------------------------------- */

/* getaddrinfo() can hang for longer than any deadline here, so a thread of its own calls it. Nobody waits for that
 * thread: who gives up drops the look-up, and the thread frees it when it is done. */
struct wire_lookup;

/* A unix path or a numeric address needs no look-up: true, and *ret_endpoints. */
bool wire_literal(const struct redis_address *address, struct wire_endpoints *ret_endpoints);
/* NULL when no thread can be had. */
struct wire_lookup *wire_lookup_new(const struct redis_address *address);
/* Becomes readable, and stays so, when the answer is there. */
int wire_lookup_fd(const struct wire_lookup *lookup);
/* Once it is readable. False with a sentence when the name has no address. */
bool wire_lookup_take(struct wire_lookup *lookup, struct wire_endpoints *ret_endpoints, char error[WIRE_ERROR_BYTES]);
void wire_lookup_free(struct wire_lookup *lookup);

#endif
