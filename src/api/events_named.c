/* Streams of named SKUs (events.h).
 *
 * Happy path: watch each SKU, look all of them up, send their states; then each change that the follower tells of, as
 * soon as the client has room. Failure modes: a failed look-up is refused; a client that is behind has its subscriptions
 * marked, and gets the newest state of each when it has taken what it was sent (E3).
 */
#include <stdlib.h>
#include <string.h>

#include "api/events.h"
#include "base/check.h"
#include "base/text.h"

struct looking {
	struct lookup lookup;
	struct stream *stream;
	struct lookup_item items[];
};

/* --- watches ------------------------------------------------------------------------------------------------------ */

static struct watch_list *list_of(struct events *events, struct text sku)
{
	return &events->table[text_hash(sku) & (EVENTS_TABLE - 1)];
}

static struct watch *watch_find(struct events *events, struct text sku)
{
	struct watch *watch = LIST_FIRST(list_of(events, sku));
	while (watch && !text_equal(watch->sku, sku))
		watch = LIST_NEXT(watch, same_hash);
	return watch;
}

static struct watch *watch_get(struct events *events, struct text sku)
{
	struct watch *watch = watch_find(events, sku);
	if (watch)
		return watch;
	watch = calloc(1, sizeof *watch + sku.size);
	CHECK(watch);
	memcpy(watch + 1, sku.data, sku.size);
	watch->sku = (struct text){(char *)(watch + 1), sku.size};
	LIST_INIT(&watch->subscriptions);
	LIST_INSERT_HEAD(list_of(events, sku), watch, same_hash);
	return watch;
}

/* It shall be told how this SKU is. */
static void mark(struct subscription *subscription)
{
	struct stream *stream = subscription->stream;
	if (subscription->dirty)
		return;
	subscription->dirty = true;
	subscription->next_dirty = NULL;
	*stream->dirty_end = subscription;
	stream->dirty_end = &subscription->next_dirty;
}

static void touch(struct stream *stream)
{
	if (stream->is_touched || stream->state != STREAM_LIVE)
		return;
	stream->is_touched = true;
	LIST_INSERT_HEAD(&stream->events->touched, stream, touched);
}

/* Somebody knows something newer; all who watch it shall hear of it (E2). */
static void watch_learn(struct watch *watch, const struct figures *figures, const struct feed_position *position)
{
	struct subscription *subscription;
	if (watch->figures.version >= figures->version)
		return;
	watch->figures = *figures;
	watch->position = *position;
	LIST_FOREACH(subscription, &watch->subscriptions, same_watch)
	{
		if (figures->version > subscription->version)
			mark(subscription);
		touch(subscription->stream);
	}
}

void named_take(struct events *events, const struct feed_change *change)
{
	struct watch *watch = watch_find(events, change->sku);
	if (watch)
		watch_learn(watch, &change->figures, &change->position);
}

void named_forget(struct stream *stream)
{
	for (size_t i = 0; i < stream->count; i++)
		if (stream->subscriptions[i].watch)
			stream->subscriptions[i].watch->figures = (struct figures){0};
}

/* --- the beginning and the end ------------------------------------------------------------------------------------ */

/* A SKU named twice is followed once: its second subscription stays empty. */
static void subscribe(struct stream *stream, struct subscription *subscription, struct text sku)
{
	struct watch *watch = watch_get(stream->events, sku);
	struct subscription *newest = LIST_FIRST(&watch->subscriptions);
	if (newest && newest->stream == stream)
		return;
	*subscription = (struct subscription){.stream = stream, .watch = watch};
	LIST_INSERT_HEAD(&watch->subscriptions, subscription, same_watch);
}

static void on_looked_up(struct lookup *lookup)
{
	struct looking *looking = (struct looking *)lookup; /* its first member */
	struct stream *stream = looking->stream;
	struct events *events = stream->events;
	if (lookup->error || stream->doomed) {
		stream_refuse(stream);
		return;
	}
	for (size_t i = 0; i < stream->count; i++) {
		struct subscription *subscription = &stream->subscriptions[i];
		if (!subscription->watch)
			continue;
		if (looking->items[i].known)
			watch_learn(subscription->watch, &looking->items[i].figures, &stream->position);
		mark(subscription); /* also one that is unknown, or that the follower told of while we looked */
	}
	stream->state = STREAM_LIVE;
	if (stream_open(stream))
		named_flush(stream);
	named_flush_touched(events);
}

void named_begin(struct stream *stream)
{
	struct arena *arena = request_arena(stream->request);
	struct looking *looking = arena_alloc(arena, sizeof *looking + stream->count * sizeof looking->items[0]);
	looking->stream = stream;
	looking->lookup = (struct lookup){.arena = arena,
	                                  .deadline_ns = request_deadline_ns(stream->request),
	                                  .items = looking->items,
	                                  .item_count = stream->count,
	                                  .on_done = on_looked_up};
	stream->state = STREAM_LOOKING;
	stream->position = stream->events->position;
	for (size_t i = 0; i < stream->count; i++) {
		CHECK(request_query(stream->request, "sku", i, &looking->items[i].sku));
		subscribe(stream, &stream->subscriptions[i], looking->items[i].sku); /* before the look-up (E1) */
	}
	reader_lookup(stream->events->reader, &looking->lookup);
}

void named_end(struct stream *stream)
{
	for (size_t i = 0; i < stream->count; i++) {
		struct watch *watch = stream->subscriptions[i].watch;
		if (!watch)
			continue;
		LIST_REMOVE(&stream->subscriptions[i], same_watch);
		if (LIST_EMPTY(&watch->subscriptions)) {
			LIST_REMOVE(watch, same_hash);
			free(watch);
		}
	}
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

/* As the watch knows it; version 0: nobody has made it. */
static void put_state(struct stream *stream, struct buffer *out, const struct watch *watch)
{
	bool known = watch->figures.version > 0;
	stream_put(stream, out, watch->sku, known, &watch->figures, known ? &watch->position : &stream->position);
}

void named_flush(struct stream *stream)
{
	struct buffer *out = &stream->events->out;
	while (stream->dirty) {
		struct subscription *s;
		buffer_clear(out);
		for (s = stream->dirty; s && out->size < EVENTS_PIECE_BYTES; s = s->next_dirty)
			put_state(stream, out, s->watch);
		if (!stream_send(stream, buffer_text(out)))
			return;
		for (; stream->dirty != s; stream->dirty = stream->dirty->next_dirty) {
			stream->dirty->dirty = false;
			stream->dirty->version = stream->dirty->watch->figures.version;
		}
	}
	stream->dirty_end = &stream->dirty;
}

void named_flush_touched(struct events *events)
{
	struct stream *stream;
	while ((stream = LIST_FIRST(&events->touched))) {
		LIST_REMOVE(stream, touched);
		stream->is_touched = false;
		named_flush(stream);
	}
}
