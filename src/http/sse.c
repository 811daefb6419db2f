/* Server-sent events (sse.h).
 *
 * Happy path: lines of `field: value`, a blank line ends an event. Failure modes: none; a line break inside a value
 * would begin another field, so it is a bug (CHECK).
 */
#include "http/sse.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

static void put_field(struct buffer *out, const char *name, struct text value)
{
	CHECK(!value.size || (!memchr(value.data, '\n', value.size) && !memchr(value.data, '\r', value.size)));
	buffer_add_string(out, name);
	buffer_add_text(out, TEXT(": "));
	buffer_add_text(out, value);
	buffer_add_char(out, '\n');
}

void sse_put_event(struct buffer *out, struct text id, const char *event, struct text data)
{
	if (id.size)
		put_field(out, "id", id);
	put_field(out, "event", text_of(event));
	put_field(out, "data", data);
	buffer_add_char(out, '\n');
}

void sse_put_id(struct buffer *out, struct text id)
{
	put_field(out, "id", id);
	buffer_add_char(out, '\n');
}

void sse_put_comment(struct buffer *out)
{
	buffer_add_text(out, TEXT(":\n\n"));
}

static struct text retry_line(struct request *request, int64_t retry_ms)
{
	return arena_printf(request_arena(request), "retry: %" PRId64 "\n\n", retry_ms);
}

static void add_headers(struct request *request)
{
	request_add_header(request, "Cache-Control", TEXT("no-store"));
	request_add_header(request, "X-Accel-Buffering", TEXT("no")); /* nginx would wait for a buffer full of events */
}

bool sse_open(struct request *request, int64_t retry_ms, const struct stream_hooks *hooks)
{
	struct text retry = retry_line(request, retry_ms);
	add_headers(request);
	if (!request_stream(request, "text/event-stream", hooks))
		return false;
	/* A client that cannot take its first line is behind, or gone: on_writable or on_end tells. */
	bool taken = request_stream_send(request, retry);
	(void)taken;
	return true;
}

void sse_refuse(struct request *request, int64_t retry_ms)
{
	struct text retry = retry_line(request, retry_ms);
	add_headers(request);
	request_reply(request, 200, "text/event-stream", retry);
}
