/* The event streams of one loop: who follows which SKUs, and what each has been told.
 *
 * A stream is a request of GET /v1/events from its handler to its end. Two kinds:
 *
 *   named SKUs   RUNNING: wait for START · look all of them up ─▶ STREAMING: their states, then each change
 *   all changes  RUNNING: wait for START ─▶ STREAMING: LIVE, or REPLAYING pages of the feed until it has caught up
 *
 * E1 Nothing is missed: a stream's SKUs are watched before they are looked up, and looked up after START.
 * E2 Nothing goes back: a state is sent only if its version is newer than the one the stream was sent before.
 * E3 Nothing is queued: a client that is behind gets, when it can take it, the newest state of what changed meanwhile
 *    (named), or goes on through the feed from where it was (all).
 * E4 What other threads work on is never in the arena of a request that streams: a replay has its own.
 *
 * The tap of the follower is open while there are streams. Thread: the loop's. Internal to api.
 */
#ifndef API_EVENTS_H
#define API_EVENTS_H

#include <sys/queue.h>

#include "api/call.h"
#include "http/sse.h"
#include "inventory/follower.h"

#define EVENTS_PIECE_BYTES ((size_t)16 * 1024) /* sent at once */
#define EVENTS_TABLE ((size_t)4096)            /* lists of watches; a power of two */

struct stream;

/* A SKU that streams of this loop follow, and the newest that the follower told of it. */
struct watch {
	LIST_ENTRY(watch) same_hash;
	LIST_HEAD(, subscription) subscriptions;
	struct text sku; /* behind the struct */
	struct figures figures;
	struct feed_position position;
};

/* One stream's interest in one SKU. */
struct subscription {
	LIST_ENTRY(subscription) same_watch;
	struct subscription *next_dirty;
	struct watch *watch;
	struct stream *stream;
	int64_t version; /* sent last; 0: none, or that it is unknown */
	bool dirty;      /* in the stream's list: its state is to be sent */
};

struct stream {
	LIST_ENTRY(stream) all;
	LIST_ENTRY(stream) starting; /* waits for START */
	LIST_ENTRY(stream) touched;  /* by the batch at hand */
	struct events *events;
	struct request *request;
	enum stream_state {
		STREAM_STARTING, /* for START; RUNNING until here … */
		STREAM_LOOKING,  /* … or here */
		STREAM_LIVE,
		STREAM_REPLAYING,
	} state;
	bool is_touched;
	bool doomed; /* LOOKING, and PostgreSQL is another one since */
	int64_t sent_ns, checked_ns;
	/* named SKUs */
	struct subscription *subscriptions;
	size_t count; /* 0: all changes */
	struct subscription *dirty, **dirty_end;
	struct feed_position position; /* named: of START; all: sent up to here */
	/* all changes */
	bool resumes;          /* from `position` */
	struct replay *replay; /* a page is being read for it */
	bool waits;            /* for its turn to have one read */
	TAILQ_ENTRY(stream) turn;
};

struct events {
	struct follower_tap tap;
	struct inventory *inventory;
	const struct config *config;
	struct server_loop *server_loop;
	struct reader *reader;
	struct event *tick;
	bool started; /* the tap has heard START */
	struct feed_position position;
	LIST_HEAD(stream_list, stream) streams;
	LIST_HEAD(, stream) starting;
	LIST_HEAD(, stream) touched;
	LIST_HEAD(watch_list, watch) table[EVENTS_TABLE];
	TAILQ_HEAD(, stream) turns; /* streams that wait for a page of the feed */
	bool paging;                /* one is being read … */
	struct event *pace;         /* … or was, just now */
	size_t told;                /* by the batch at hand: follower.h */
	struct buffer out;          /* what one stream is sent */
	/* The batch at hand as streams of all changes get it: rendered once for each principal in a row. */
	struct buffer batch;
	size_t *ends; /* of each event in it */
	size_t end_room;
	int64_t rendered_for; /* 0: nobody */
};

struct events *events_new(const struct config *config, struct inventory *inventory, struct server_loop *server_loop,
                          struct reader *reader);
void events_free(struct events *events);

/* --- shared by events.c, events_named.c and events_all.c ---------------------------------------------------------- */

/* Opens the answer; the state is set. False: it has ended already, and the stream with it. */
bool stream_open(struct stream *stream) LU_MUST_CHECK;
/* 200, when to come back, and the end: before it streams. The stream is gone. */
void stream_refuse(struct stream *stream);
/* Ends it in order: it streams. The stream is gone. */
void stream_end(struct stream *stream);
/* request_stream_send(), counted. */
bool stream_send(struct stream *stream, struct text bytes) LU_MUST_CHECK;
void stream_put(struct stream *stream, struct buffer *out, struct text sku, bool known, const struct figures *figures,
                const struct feed_position *position);

/* Named SKUs: after START; on a change, then for all it touched; when there is room; when PostgreSQL is another one; at
 * the end. */
void named_begin(struct stream *stream);
void named_take(struct events *events, const struct feed_change *change);
void named_flush_touched(struct events *events);
void named_flush(struct stream *stream);
void named_forget(struct stream *stream);
void named_end(struct stream *stream);
/* Reads a page for the next whose turn it is. */
void all_next_turn(struct events *events);
/* Waits for the page that is being read, whose stream may be gone. */
void all_wait(struct events *events);
/* All changes: after START; on a batch, before events->position moves; when there is room; at the end. */
void all_begin(struct stream *stream);
void all_take(struct stream *stream, const struct follower_news *news);
void all_flush(struct stream *stream);
void all_end(struct stream *stream);

#endif
