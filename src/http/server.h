/* The HTTP/1.1 server: event loops on libevent's bufferevents with http_parser, one thread each.
 *
 * Happy path: accept → header bytes → scan_headers() (strict framing) → parser → request → router → handler →
 * request_reply() → bytes. One request per connection runs at a time; bytes behind it wait unread (bounded), so
 * pipelined answers keep their order and a client that does not read its answers stops being read.
 * Failure modes: slow headers or body (408, close), too large (413/414/431, close), ambiguous framing (400, close),
 * early leavers (the request runs on, its answer is dropped), too many connections (503 and close).
 * Nothing here knows what an inventory is.
 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include "base/config.h"
#include "base/mailbox.h"
#include "http/router.h"

struct event_base;
struct server;
struct server_loop;

struct server_hooks {
	/* Called on each loop's own thread before it serves and after its last request: for what lives per loop (the
	 * reader and its Redis connection). The returned pointer is server_loop_context(). */
	void *(*loop_start)(struct server_loop *loop, void *context);
	void (*loop_stop)(void *loop_context, void *context);
	void *context;
};

/* Binds and starts the loops. NULL with a sentence in *ret_why: address in use, not an address. */
struct server *server_start(const struct config *config, const struct router *router, struct server_hooks hooks,
                            const char **ret_why);
/* "127.0.0.1:8080", the port really bound. */
const char *server_address(const struct server *server);
/* Stops listening, lets running requests end (drain_timeout_ms; new requests on kept-alive connections are answered
 * with `Connection: close`), closes idle connections at once, joins the loops. */
void server_stop(struct server *server);
/* Frees a stopped server. Apart from server_stop, because a thread that posted the last answer may still be inside
 * mailbox_post(): stop the server, join every thread that posts to its loops, then free it. Accepts NULL. */
void server_free(struct server *server);

struct event_base *server_loop_base(struct server_loop *loop);
struct mailbox *server_loop_mailbox(struct server_loop *loop);
void *server_loop_context(struct server_loop *loop);

#endif
