/* One client of the HTTP API: blocking calls over a kept-alive connection, one libcurl easy handle each.
 *
 * http_caller_global_init() once, before any thread. Then a caller per thread; nothing is shared. The answer's body is
 * the caller's until its next call.
 */
#ifndef CMD_HTTP_CALLER_H
#define CMD_HTTP_CALLER_H

#include "base/buffer.h"
#include "lastunit/types.h"

struct http_caller;

void http_caller_global_init(void);
void http_caller_global_done(void);

/* url: "http://host:port", without a slash at the end. timeout_ms: of a whole call. */
struct http_caller *http_caller_new(const char *url, int64_t timeout_ms);
void http_caller_free(struct http_caller *caller);

struct http_answer {
	int status; /* 0: no answer came; see http_caller_error() */
	struct text body;
	int64_t retry_after_s;    /* of the header; -1: none */
	bool replayed;            /* Idempotent-Replayed: true */
	const char *cache_status; /* of the header, "" without one; the caller's until its next call */
	int64_t took_us;
};

/* method: "GET", "PUT" or "POST"; path from "/v1/…" on; body size 0: none; key "" or NULL: no Authorization;
 * idempotency_key NULL: none. */
struct http_answer http_call(struct http_caller *caller, const char *method, const char *path, struct text body,
                             const char *key, const char *idempotency_key);
/* One more header line, "Cache-Control: max-stale=60", for the calls to come; NULL: none. Borrowed. */
void http_caller_header(struct http_caller *caller, const char *line);
/* Why the last call got no answer. */
const char *http_caller_error(const struct http_caller *caller);
/* `text` percent-encoded for one segment of a path. */
void http_path_add(struct buffer *path, struct text text);

#endif
