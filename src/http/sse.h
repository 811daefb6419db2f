/* Server-sent events (HTML Living Standard, 9.2) on an answer that goes on: the format, and what all streams say first.
 *
 * An EventSource takes any status but 200 for the end of its life, and the end of an answer for a pause. So whoever
 * cannot be served now gets sse_refuse(): 200, when to come back, and the end. Thread: the loop's.
 */
#ifndef HTTP_SSE_H
#define HTTP_SSE_H

#include "http/request.h"

/* request_stream() as text/event-stream, not to be kept by anybody in between, and the pause to make before coming back.
 * False: it has ended already, as in request_stream(). */
bool sse_open(struct request *request, int64_t retry_ms, const struct stream_hooks *hooks) LU_MUST_CHECK;
/* Instead of sse_open(). The request is gone. */
void sse_refuse(struct request *request, int64_t retry_ms);

/* One event. id size 0: none. data: one line. */
void sse_put_event(struct buffer *out, struct text id, const char *event, struct text data);
/* The last id alone: where to go on, with nothing to tell. */
void sse_put_id(struct buffer *out, struct text id);
/* A line that clients ignore: keeps what lies in between from thinking that nobody is there. */
void sse_put_comment(struct buffer *out);

#endif
