/* One request, from its last byte read to its answer.
 *
 * Ownership: the server owns it; a handler borrows it until request_reply*() and may not touch it afterwards. Every
 * request gets exactly one reply; a reply to a client that left is dropped inside. Everything a handler needs for the
 * request lives in its arena, freed with it. Thread: the loop's that delivered it; hand results back through the
 * loop's mailbox.
 */
#ifndef HTTP_REQUEST_H
#define HTTP_REQUEST_H

#include <jansson.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "http/server.h"
#include "lastunit/error.h"
#include "lastunit/types.h"

struct request;

enum http_method {
	HTTP_METHOD_GET = 1,
	HTTP_METHOD_HEAD = 2,
	HTTP_METHOD_POST = 4,
	HTTP_METHOD_PUT = 8,
	HTTP_METHOD_DELETE = 16,
	HTTP_METHOD_OPTIONS = 32
};

enum http_method request_method(const struct request *request);
struct arena *request_arena(struct request *request);
struct server_loop *request_loop(struct request *request);
/* BOOTTIME ns by which it must be answered: its last byte + request_timeout_ms. */
int64_t request_deadline_ns(const struct request *request);
/* The path as sent, undecoded, without the query. */
struct text request_path(const struct request *request);
/* The i-th `{…}` of the route, percent-decoded exactly once ("%00" and bad escapes never get this far: 400). */
struct text request_param(const struct request *request, size_t i);
/* A header by its name, case-insensitive; false if absent. Several fields of one name are joined by ", ". */
bool request_header(const struct request *request, const char *name, struct text *ret_value);
/* The number of fields of this name: a header that is no list must not come twice. */
size_t request_header_count(const struct request *request, const char *name);
/* The client says by If-None-Match that it has what bears this tag: 304 is the answer. */
bool request_knows_tag(const struct request *request, struct text etag);
/* The body bytes, complete. */
struct text request_body(const struct request *request);
/* Its type is JSON's. */
bool request_says_json(const struct request *request);
/* The body as JSON, parsed once and freed with the request; content type checked. On error *ret_why says why. It has at
 * most values_max values (base/json.h): they are made on the loop, while all others wait. */
enum lu_error request_json(struct request *request, size_t values_max, json_t **ret_value, const char **ret_why)
	LU_MUST_CHECK;
#define REQUEST_VALUES_MAX 20000 /* a cart of 1,000 lines has 4,000 */
/* Query: the n-th value (0, 1, …) of a name, decoded once, plus as blank; false when there is none.
 * request_query_check() finds a name that is not in the NULL-ended list: its name, or size 0. */
bool request_query(const struct request *request, const char *name, size_t n, struct text *ret_value);
struct text request_query_check(const struct request *request, const char *const *names);

/* For a handler that asked auth_as() or auth_check() itself and was told LU_DATABASE_UNAVAILABLE: true: it
 * returns now, and is called again, from its beginning, with the next reading of the keys. False: that has taken
 * too long; it replies. */
bool request_wait_for_keys(struct request *request) LU_MUST_CHECK;

/* Answer headers beside Content-Type, Content-Length, Date and Connection; value checked for CR and LF. Before reply. An
 * answer to GET or HEAD without a Cache-Control of its handler's says `no-store`. */
void request_add_header(struct request *request, const char *name, struct text value);
/* Status, type and body (copied). HEAD sends no body; 304 and 204 neither. */
void request_reply(struct request *request, int status, const char *content_type, struct text body);
/* application/json from a buffer, which gets a final newline: whoever asks with curl has his prompt on
 * a line of its own. */
void request_reply_json(struct request *request, int status, struct buffer *body);

/* --- an answer that goes on --------------------------------------------------------------------------------------------
 * request_stream() answers 200 and leaves the request open: all that may be asked of it may still be asked, and its
 * arena lives. What follows goes out by request_stream_send(), until the handler says request_stream_end(), or the
 * client leaves, has not taken its bytes for body_timeout_ms, or the server drains: then `on_end` is called, once, and
 * the request is gone when it returns. But for one case neither callback comes from inside one of these calls.
 * The connection ends with the stream. Bytes that the client sends meanwhile are dropped; the request's deadline
 * means nothing any more.
 *
 * What the handler must not do: let somebody else's thread work on the arena while it streams, for the client may
 * leave at any time. */
struct stream_hooks {
	void (*on_writable)(struct request *request); /* what was refused may be sent now */
	void (*on_end)(struct request *request);
};
/* False: it has ended already, on_end was called: it was HEAD, which has its answer, or the client had left. */
bool request_stream(struct request *request, const char *content_type, const struct stream_hooks *hooks) LU_MUST_CHECK;
/* True: taken, all of it, if necessary into memory. False: none of it, because the client has yet to take what it was
 * sent before; on_writable follows. So a client that does not read costs one send and the socket's 64 KiB. */
bool request_stream_send(struct request *request, struct text bytes) LU_MUST_CHECK;
/* Ends the answer in order. The request is gone. */
void request_stream_end(struct request *request);

/* Per-request place for the handler's own state. */
void request_set_context(struct request *request, void *context);
void *request_context(const struct request *request);

#endif
