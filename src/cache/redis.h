/* A connection to Redis with deadlines of our own, blocking (writers, loaders, keepers) or on an event loop.
 *
 * A reply that did not come in time means that the connection is closed: replies can never shift by one. Scripts are
 * sent by their SHA-1; NOSCRIPT loads and repeats within the same deadline. `unix://[user:password@]/path[?db=N]`,
 * `redis://[user:password@]host[:port][/db]`, with %XX decoded in credentials and path; `rediss://` is refused, cluster
 * mode too, when connecting.
 * Ownership: struct redis is its owner's only; replies are freed by redis_reply_done(). Thread: the owner's.
 * Works with hiredis 0.14 and 1.x. Errors: LU_CACHE_UNAVAILABLE, text by redis_error().
 */
#ifndef CACHE_REDIS_H
#define CACHE_REDIS_H

#include <hiredis/hiredis.h>

#include "lastunit/error.h"
#include "lastunit/types.h"

struct event_base;
struct redis;

struct redis_address {
	bool unix_socket;
	char host[256]; /* or the path */
	int port;
	int db;
	char user[64], password[256];
};

/* False with a sentence in *ret_why (static) when the URL is not one of the forms above. */
bool redis_address_parse(const char *url, struct redis_address *ret_address, const char **ret_why) LU_MUST_CHECK;

/* For messages: host:port, [IPv6]:port, or the path. */
#define REDIS_PLACE_BYTES (256 + 10)
const char *redis_address_place(const struct redis_address *address, char ret_place[REDIS_PLACE_BYTES]);

struct redis *redis_new(const struct redis_address *address);
void redis_free(struct redis *redis);
/* Connects, authenticates and selects if there is no connection. At most one attempt per 50 ms: between attempts it
 * fails at once, so a dead Redis costs its callers nothing. */
enum lu_error redis_connect(struct redis *redis, int64_t deadline_ns) LU_MUST_CHECK;
bool redis_connected(const struct redis *redis);
void redis_close(struct redis *redis);
const char *redis_error(const struct redis *redis);
#define REDIS_ANSWERED "Redis answered: " /* so it begins where Redis is there and says no */

/* Sends one command now (all bytes are written before it returns); its reply is taken by redis_receive() later, in
 * order. So a caller can talk to PostgreSQL meanwhile. With nothing outstanding it connects by itself if it must. On
 * error the connection is closed and every reply outstanding is lost. */
enum lu_error redis_send(struct redis *redis, int argc, const struct text *argv, int64_t deadline_ns) LU_MUST_CHECK;
/* An error reply of Redis (-OOM, -NOPERM, …) is LU_CACHE_UNAVAILABLE too, but keeps the connection. */
enum lu_error redis_receive(struct redis *redis, int64_t deadline_ns, redisReply **ret_reply) LU_MUST_CHECK;
/* Send and receive. */
enum lu_error redis_call(struct redis *redis, int argc, const struct text *argv, int64_t deadline_ns,
                         redisReply **ret_reply) LU_MUST_CHECK;

struct redis_command {
	int argc;
	const struct text *argv;
};

/* Two commands with nothing of anybody else's between them (MULTI … EXEC). The reply is an array of theirs. Without it the
 * connection is closed: it might be left in its MULTI, where whatever is asked next is only queued. An error of one of them
 * stands in the array; NOSCRIPT too, it is not repeated. */
enum lu_error redis_call_two(struct redis *redis, const struct redis_command commands[2], int64_t deadline_ns,
                             redisReply **ret_reply) LU_MUST_CHECK;
void redis_reply_done(redisReply **reply); /* for the cleanup attribute; accepts NULL */
/* The value of the line "name:value" in an answer to INFO, borrowed from it; size 0: there is none. */
struct text redis_info_value(struct text info, const char *name);

/* --- the same on an event loop: used by the http loops for `read` ------------------------------------------------ */
struct redis_async;
typedef void (*redis_on_reply)(enum lu_error error, const redisReply *reply, void *context);

struct redis_async *redis_async_new(struct event_base *base, const struct redis_address *address, int64_t timeout_ms);
/* Every call still waiting is answered LU_CACHE_UNAVAILABLE before this returns. Never from inside on_reply. */
void redis_async_free(struct redis_async *redis);
bool redis_async_connected(const struct redis_async *redis);
/* Sends one command; on_reply is called exactly once, never from inside this call, at the latest timeout_ms later:
 * then the connection is closed and every call waiting on it fails. Reconnects by itself (50 ms, doubling to 1 s);
 * while there is no connection it fails at once (still through the loop). The reply lives until on_reply returns, and is
 * NULL with an error. The arguments are copied. on_reply NULL: nobody wants to know. */
void redis_async_call(struct redis_async *redis, int argc, const struct text *argv, redis_on_reply on_reply,
                      void *context);
/* As redis_call_two(), but the connection stays: a MULTI left open ends with the next EXEC, which fails. */
void redis_async_call_two(struct redis_async *redis, const struct redis_command commands[2], redis_on_reply on_reply,
                          void *context);

#endif
