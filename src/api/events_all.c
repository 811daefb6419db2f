/* Streams of all changes (events.h).
 *
 * Happy path: LIVE, each batch of the follower goes out as it comes. Who resumes behind that, or cannot take a batch,
 * is REPLAYING: pages of the feed are read from where it is, each when the one before has been taken, until it stands
 * where the follower's last batch ended; from then on it is LIVE again. A loop has one page read at a time, and rests
 * between two: however many clients are behind, PostgreSQL has others to serve.
 * Failure modes: a page that cannot be read ends the stream: its client comes back with its last id. An id of another
 * PostgreSQL, none of ours, or ahead of the feed (feed_has()): the event `reset`, then what comes.
 */
#include <event2/event.h>
#include <poll.h>
#include <stdlib.h>

#include "api/events.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/container.h"
#include "http/auth.h"

#define PAGE_ENTRIES 500
#define PAGE_REST_MS 20

/* One page of the feed for one stream. Its memory is its own: the stream may end while a loader works on it (E4). */
struct replay {
	struct query query; /* first: work() casts */
	struct mailbox_item item;
	struct mailbox *mailbox;
	struct arena arena;
	struct events *events;
	struct stream *stream; /* NULL: it has ended */
	struct feed_position after;
	struct feed_state state;
	struct feed_change *changes;
	size_t count;
	bool more;
};

/* --- rendering ---------------------------------------------------------------------------------------------------- */

/* Puts the changes into events->batch, each one's end into events->ends. */
static void render(struct stream *stream, const struct feed_change *changes, size_t count)
{
	struct events *events = stream->events;
	if (count > events->end_room) {
		events->end_room = count;
		events->ends = realloc(events->ends, count * sizeof *events->ends);
		CHECK(events->ends);
	}
	buffer_clear(&events->batch);
	for (size_t i = 0; i < count; i++) {
		stream_put(stream, &events->batch, changes[i].sku, true, &changes[i].figures, &changes[i].position);
		events->ends[i] = events->batch.size;
	}
}

/* Sends what is rendered, from change `i` on, in pieces; the position follows. False: the client has no room. */
static bool send_from(struct stream *stream, const struct feed_change *changes, size_t count, size_t i)
{
	struct events *events = stream->events;
	while (i < count) {
		size_t from = i ? events->ends[i - 1] : 0, last = i;
		while (last + 1 < count && events->ends[last + 1] - from <= EVENTS_PIECE_BYTES)
			last++;
		if (!stream_send(stream, (struct text){events->batch.data + from, events->ends[last] - from}))
			return false;
		stream->position = changes[last].position;
		i = last + 1;
	}
	return true;
}

/* --- replaying ---------------------------------------------------------------------------------------------------- */

static void replay_free(struct replay *replay)
{
	arena_done(&replay->arena);
	free(replay);
}

/* On a loader's thread. */
static enum lu_error read_page(struct query *query, struct pg *pg)
{
	struct replay *replay = (struct replay *)query;
	return feed_changes(pg, query->arena, &replay->after, PAGE_ENTRIES, query->deadline_ns, &replay->state,
	                    &replay->changes, &replay->count, &replay->more);
}

static void on_page_read(struct query *query)
{
	struct replay *replay = (struct replay *)query;
	mailbox_post(replay->mailbox, &replay->item);
}

static void ask(struct stream *stream);
static bool send_reset(struct stream *stream);

/* True when the stream stands where the follower's batches go on. */
static bool has_caught_up(const struct stream *stream)
{
	return feed_position_compare(&stream->position, &stream->events->position) >= 0;
}

/* Sends a page of this PostgreSQL's feed. */
static void go_on_behind(struct stream *stream, const struct replay *replay)
{
	bool all = true;
	if (feed_has(&replay->state, &stream->position)) {
		render(stream, replay->changes, replay->count);
		all = send_from(stream, replay->changes, replay->count, 0);
		if (all && !replay->more && feed_position_compare(&replay->state.now, &stream->position) > 0)
			stream->position = replay->state.now; /* nothing else is in front of it */
	} else {
		stream->position = replay->state.now;
		all = send_reset(stream);
	}
	if (all && has_caught_up(stream))
		stream->state = STREAM_LIVE;
	else if (all)
		ask(stream);
}

static void on_page(struct mailbox_item *item)
{
	struct replay *replay = CONTAINER_OF(item, struct replay, item);
	struct stream *stream = replay->stream;
	replay->events->paging = false;
	event_add(replay->events->pace, &(struct timeval){.tv_usec = PAGE_REST_MS * 1000});
	if (stream) {
		stream->replay = NULL;
		stream->events->rendered_for = 0;
		if (replay->query.error || replay->state.now.identity != stream->position.identity) {
			stream_end(stream);
		} else {
			go_on_behind(stream, replay);
		}
	}
	replay_free(replay);
}

static void read_for(struct stream *stream)
{
	struct events *events = stream->events;
	struct replay *replay = calloc(1, sizeof *replay);
	CHECK(replay);
	arena_init(&replay->arena, 4096);
	replay->query = (struct query){
		.arena = &replay->arena,
		.deadline_ns = deadline_in_ms(events->config->request_timeout_ms),
		.work = read_page,
		.on_done = on_page_read,
		.asker = request_asker(stream->request),
	};
	replay->item.deliver = on_page;
	replay->mailbox = events->tap.mailbox;
	replay->after = stream->position;
	replay->events = events;
	replay->stream = stream;
	stream->replay = replay;
	events->paging = true;
	if (inventory_query(events->inventory, &replay->query)) {
		stream->replay = NULL;
		events->paging = false;
		replay_free(replay);
		stream_end(stream);
	}
}

void all_next_turn(struct events *events)
{
	struct stream *stream;
	while (!events->paging && (stream = TAILQ_FIRST(&events->turns))) {
		TAILQ_REMOVE(&events->turns, stream, turn);
		stream->waits = false;
		read_for(stream);
	}
}

/* The next page for this stream, when it is its turn. */
static void ask(struct stream *stream)
{
	struct events *events = stream->events;
	stream->waits = true;
	TAILQ_INSERT_TAIL(&events->turns, stream, turn);
	if (!event_pending(events->pace, EV_TIMEOUT, NULL))
		all_next_turn(events);
}

void all_wait(struct events *events)
{
	while (events->paging) {
		struct pollfd wait = {.fd = mailbox_fd(events->tap.mailbox), .events = POLLIN};
		poll(&wait, 1, 100);
		mailbox_deliver(events->tap.mailbox);
	}
}

/* --- the life of a stream ----------------------------------------------------------------------------------------- */

/* Its client knows something that is not of this feed, and must forget it. False: the stream has ended. */
static bool send_reset(struct stream *stream)
{
	struct buffer *out = &stream->events->out;
	char id[FEED_CURSOR_BYTES_MAX + 1];
	buffer_clear(out);
	sse_put_event(out, (struct text){id, feed_cursor_format(&stream->position, id)}, "reset",
	              TEXT("{\"code\":\"cursor_expired\"}"));
	if (stream_send(stream, buffer_text(out)))
		return true;
	stream_end(stream); /* it comes back with the same id */
	return false;
}

static void send_position(struct stream *stream)
{
	struct buffer *out = &stream->events->out;
	char id[FEED_CURSOR_BYTES_MAX + 1];
	buffer_clear(out);
	sse_put_id(out, (struct text){id, feed_cursor_format(&stream->position, id)});
	if (!stream_send(stream, buffer_text(out)))
		stream_end(stream);
}

void all_begin(struct stream *stream)
{
	struct events *events = stream->events;
	bool resumes = stream->resumes && stream->position.identity == events->position.identity;
	if (!resumes)
		stream->position = events->position;
	/* In front of the follower, too: another instance's may be further, or the feed has no such place. A page tells. */
	bool elsewhere = feed_position_compare(&stream->position, &events->position) != 0;
	stream->state = elsewhere ? STREAM_REPLAYING : STREAM_LIVE;
	if (!stream_open(stream))
		return;
	if (elsewhere)
		ask(stream);
	else if (stream->resumes && !resumes)
		(void)send_reset(stream);
	else if (!stream->resumes)
		send_position(stream); /* so that who leaves before the first change can resume, too */
}

/* The first change behind the stream's position: they are in order. */
static size_t first_behind(const struct stream *stream, const struct follower_news *news)
{
	size_t low = 0, high = news->change_count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (feed_position_compare(&news->changes[middle].position, &stream->position) > 0)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

void all_take(struct stream *stream, const struct follower_news *news)
{
	struct events *events = stream->events;
	int64_t principal_id = request_principal(stream->request)->id;
	if (events->rendered_for != principal_id) {
		render(stream, news->changes, news->change_count);
		events->rendered_for = principal_id;
	}
	if (!send_from(stream, news->changes, news->change_count, first_behind(stream, news)))
		stream->state = STREAM_REPLAYING; /* from its position, when it has room (E3) */
	else if (feed_position_compare(&news->position, &stream->position) > 0)
		stream->position = news->position;
}

void all_flush(struct stream *stream)
{
	if (stream->state == STREAM_REPLAYING && !stream->replay && !stream->waits)
		ask(stream);
}

void all_end(struct stream *stream)
{
	if (stream->replay)
		stream->replay->stream = NULL;
	if (stream->waits)
		TAILQ_REMOVE(&stream->events->turns, stream, turn);
}
