/* GET /v1/events: availability as it changes (events.h; for clients: README.md).
 *
 * Happy path: the handler makes a stream; START comes (at once, if the loop has other streams); named SKUs are looked
 * up; the answer opens; the follower's batches become events. A tick keeps silent streams alive and sees whether their
 * keys still count.
 * Failure modes: an EventSource takes any status but 200 for the end, so what may be mended by waiting is a 200 that
 * ends at once: too many streams, or SKUs of all streams together, PostgreSQL away, a failed look-up, another PostgreSQL
 * than before. What cannot be (no key, not a SKU code) is a problem as everywhere.
 */
#include "api/events.h"

#include <event2/event.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"
#include "api/render.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/container.h"
#include "base/id.h"
#include "base/metrics.h"
#include "base/text.h"
#include "http/auth.h"
#include "http/problem.h"

#define TICK_S 1
#define KEEP_ALIVE_NS (15 * NS_PER_S) /* proxies give up after 30 s and more */
#define CHECK_NS (5 * NS_PER_S)       /* a key that was revoked */
#define RETRY_MS 1000
#define RETRY_REFUSED_MS 10000
/* All that are named together, for each stream that may be open: one costs half a KiB, and a page of a product names one.
 * A stream of no more than these has always its place. */
#define SKUS_PER_STREAM 20
#define RETRY_SPREAD 2 /* times as long at most, so that those who left together do not come back together */

static _Atomic int64_t named; /* by the streams of all loops */

/* --- a stream's life ---------------------------------------------------------------------------------------------- */

static int64_t spread(int64_t ms)
{
	return ms + (int64_t)random_below((uint64_t)ms * (RETRY_SPREAD - 1));
}

/* Forgets the stream; its memory goes with the request. */
static void leave(struct stream *stream)
{
	struct events *events = stream->events;
	if (stream->count)
		named_end(stream);
	else
		all_end(stream);
	LIST_REMOVE(stream, all);
	atomic_fetch_sub(&named, (int64_t)stream->count);
	if (stream->state == STREAM_STARTING)
		LIST_REMOVE(stream, starting);
	if (stream->is_touched)
		LIST_REMOVE(stream, touched);
	metric_add(METRIC_EVENT_STREAMS, -1);
	if (LIST_EMPTY(&events->streams)) {
		follower_close(&events->tap);
		events->started = false;
	}
}

static void on_writable(struct request *request)
{
	struct stream *stream = request_context(request);
	if (stream->count)
		named_flush(stream);
	else
		all_flush(stream);
}

static void on_end(struct request *request)
{
	leave(request_context(request));
}

bool stream_open(struct stream *stream)
{
	static const struct stream_hooks hooks = {.on_writable = on_writable, .on_end = on_end};
	struct request *request = stream->request;
	stream->sent_ns = stream->checked_ns = clock_boottime_ns();
	request_set_context(request, stream);
	return sse_open(request, spread(RETRY_MS), &hooks);
}

void stream_refuse(struct stream *stream)
{
	struct request *request = stream->request;
	leave(stream);
	metric_add(METRIC_EVENT_STREAMS_REFUSED, 1);
	sse_refuse(request, spread(RETRY_REFUSED_MS));
}

void stream_end(struct stream *stream)
{
	struct request *request = stream->request;
	leave(stream);
	request_stream_end(request);
}

bool stream_send(struct stream *stream, struct text bytes)
{
	if (!request_stream_send(stream->request, bytes))
		return false;
	stream->sent_ns = clock_boottime_ns();
	stream->events->told += 1 + bytes.size / FOLLOWER_TOLD_BYTES;
	return true;
}

void stream_put(struct stream *stream, struct buffer *out, struct text sku, bool known, const struct figures *figures,
                const struct feed_position *position)
{
	char id[FEED_CURSOR_BYTES_MAX + 1];
	struct buffer *json = loop_out(loop_of(stream->request));
	struct json_writer w = json_writer(json);
	struct lookup_item item = {.sku = sku, .known = known, .figures = *figures};
	render_availability(&w, &item, request_principal(stream->request));
	sse_put_event(out, (struct text){id, feed_cursor_format(position, id)}, "availability", buffer_text(json));
	metric_add(METRIC_EVENTS, 1);
}

/* --- the follower ------------------------------------------------------------------------------------------------- */

static void begin(struct stream *stream)
{
	LIST_REMOVE(stream, starting);
	if (stream->count)
		named_begin(stream);
	else
		all_begin(stream);
}

static void on_start(struct events *events, const struct feed_position *position)
{
	events->started = true;
	events->position = *position;
	while (!LIST_EMPTY(&events->starting))
		begin(LIST_FIRST(&events->starting));
}

/* Another PostgreSQL: what was sent may never have been. Clients come back and are told anew. */
static void on_reset(struct events *events)
{
	struct stream *stream, *next;
	events->started = false;
	for (stream = LIST_FIRST(&events->streams); stream; stream = next) {
		next = LIST_NEXT(stream, all);
		if (stream->state == STREAM_LIVE || stream->state == STREAM_REPLAYING) {
			stream_end(stream);
		} else if (stream->state == STREAM_LOOKING) {
			stream->doomed = true;
			named_forget(stream);
		}
	}
}

static void on_changes(struct events *events, const struct follower_news *news)
{
	events->rendered_for = 0;
	for (size_t i = 0; i < news->change_count; i++)
		named_take(events, &news->changes[i]);
	named_flush_touched(events);
	struct stream *stream, *next;
	for (stream = LIST_FIRST(&events->streams); stream; stream = next) {
		next = LIST_NEXT(stream, all);
		if (!stream->count && stream->state == STREAM_LIVE)
			all_take(stream, news);
	}
	events->position = news->position;
}

static size_t on_news(struct follower_tap *tap, const struct follower_news *news)
{
	struct events *events = CONTAINER_OF(tap, struct events, tap);
	events->told = 0;
	switch (news->word) {
	case FOLLOWER_START:
		on_start(events, &news->position);
		break;
	case FOLLOWER_CHANGES:
		on_changes(events, news);
		break;
	case FOLLOWER_RESET:
		on_reset(events);
		break;
	}
	return events->told;
}

/* --- the tick ----------------------------------------------------------------------------------------------------- */

static void tend(struct stream *stream, int64_t now_ns)
{
	const char *why;
	if (stream->state == STREAM_STARTING) {
		/* No START: PostgreSQL does not answer. */
		if (now_ns >= request_deadline_ns(stream->request) - TICK_S * NS_PER_S)
			stream_refuse(stream);
		return;
	}
	if (stream->state == STREAM_LOOKING)
		return; /* the look-up has the request's deadline */
	if (now_ns - stream->checked_ns >= CHECK_NS) {
		stream->checked_ns = now_ns;
		if (auth_check(stream->request, SCOPE_READ, &why)) {
			stream_end(stream);
			return;
		}
	}
	if (now_ns - stream->sent_ns < KEEP_ALIVE_NS)
		return;
	buffer_clear(&stream->events->out);
	sse_put_comment(&stream->events->out);
	/* Refused: there are bytes under way, which will do. */
	if (request_stream_send(stream->request, buffer_text(&stream->events->out)))
		stream->sent_ns = now_ns;
}

static void on_tick(evutil_socket_t fd, short what, void *context)
{
	struct events *events = context;
	int64_t now_ns = clock_boottime_ns();
	struct stream *stream, *next;
	for (stream = LIST_FIRST(&events->streams); stream; stream = next) {
		next = LIST_NEXT(stream, all);
		tend(stream, now_ns);
	}
}

static void on_pace(evutil_socket_t fd, short what, void *context)
{
	all_next_turn(context);
}

/* --- the route ---------------------------------------------------------------------------------------------------- */

/* The SKUs of the query, checked. False: a problem was replied. */
static bool take_skus(struct request *request, size_t *ret_count)
{
	struct text sku;
	size_t count = 0;
	while (count <= LU_LOOKUP_MAX && request_query(request, "sku", count, &sku)) {
		if (text_check_sku(sku)) {
			problem_reply(request, LU_INVALID_SKU,
			              arena_printf(request_arena(request), "The query's `sku` number %zu is not a SKU code. %s",
			                           count + 1, lu_error_mend(LU_INVALID_SKU)));
			return false;
		}
		count++;
	}
	if (count > LU_LOOKUP_MAX) {
		problem_reply(request, LU_INVALID_FIELD,
		              arena_printf(request_arena(request),
		                           "A stream follows up to %d `sku`; without any it follows all of them.",
		                           LU_LOOKUP_MAX));
		return false;
	}
	*ret_count = count;
	return true;
}

void event_stream(struct request *request)
{
	struct api_loop *loop = loop_of(request);
	struct events *events = loop->events;
	struct text id;
	size_t count;
	if (!take_query_lists(request, (const char *const[]){"sku", NULL}) || !take_skus(request, &count))
		return;
	struct stream *stream = ARENA_NEW(request_arena(request), struct stream);
	stream->events = events;
	stream->request = request;
	stream->count = count;
	stream->subscriptions = ARENA_ARRAY(request_arena(request), count, struct subscription);
	stream->dirty_end = &stream->dirty;
	/* What is no cursor of ours is as good as one of another database: told, and begun anew. */
	stream->resumes = !count && request_header(request, "Last-Event-ID", &id) && id.size;
	if (stream->resumes && !feed_cursor_parse(id, &stream->position))
		stream->position = (struct feed_position){0};
	LIST_INSERT_HEAD(&events->streams, stream, all);
	LIST_INSERT_HEAD(&events->starting, stream, starting);
	metric_add(METRIC_EVENT_STREAMS, 1);
	int64_t streams_max = events->config->event_streams_max;
	bool many = atomic_fetch_add(&named, (int64_t)count) + (int64_t)count > SKUS_PER_STREAM * streams_max;
	if ((many && count > SKUS_PER_STREAM) || metric_get(METRIC_EVENT_STREAMS) > streams_max) {
		stream_refuse(stream);
		return;
	}
	follower_open(&events->tap);
	if (events->started)
		begin(stream);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct events *events_new(const struct config *config, struct inventory *inventory, struct server_loop *server_loop,
                          struct reader *reader)
{
	struct events *events = calloc(1, sizeof *events);
	CHECK(events);
	events->config = config;
	events->inventory = inventory;
	events->server_loop = server_loop;
	events->reader = reader;
	events->tap.mailbox = server_loop_mailbox(server_loop);
	events->tap.on_news = on_news;
	events->tick = event_new(server_loop_base(server_loop), -1, EV_PERSIST, on_tick, events);
	CHECK(events->tick && event_add(events->tick, &(struct timeval){.tv_sec = TICK_S}) == 0);
	events->pace = event_new(server_loop_base(server_loop), -1, 0, on_pace, events);
	CHECK(events->pace);
	TAILQ_INIT(&events->turns);
	follower_add(inventory_follower(inventory), &events->tap);
	return events;
}

void events_free(struct events *events)
{
	follower_remove(&events->tap);
	all_wait(events);
	event_free(events->tick);
	event_free(events->pace);
	buffer_done(&events->out);
	buffer_done(&events->batch);
	free(events->ends);
	free(events);
}
