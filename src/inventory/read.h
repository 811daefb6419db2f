/* Reading availability: hits from Redis on the caller's event loop, everything else through the loaders.
 *
 * One reader per http loop. All look-ups of one loop tick travel in one call of `read`. A V is served only if
 * the read lease covers its namespace after the reply came (I-numbers: src/inventory/README.md).
 * Ownership: the caller embeds the look-up; on_done comes exactly once, on the loop's thread, never from inside
 * reader_lookup(). Thread: the loop's.
 */
#ifndef INVENTORY_READ_H
#define INVENTORY_READ_H

#include "inventory/inventory.h"

struct event_base;
struct mailbox;
struct reader;

enum lookup_source {
	LOOKUP_HIT,    /* Redis, under the lease */
	LOOKUP_MISS,   /* PostgreSQL: no cell */
	LOOKUP_BYPASS, /* PostgreSQL: marker, foreign cell, no lease, Redis away */
	LOOKUP_STALE,  /* Redis, allowed by max_stale_s, while PostgreSQL is away */
};

struct lookup_item {
	struct text sku; /* a valid code */
	bool known;
	struct figures figures;
	enum lookup_source source;
};

struct lookup {
	struct arena *arena;
	int64_t deadline_ns;
	int64_t max_stale_s;       /* Cache-Control: max-stale=N; 0: none */
	struct lookup_item *items; /* 1..LU_LOOKUP_MAX */
	size_t item_count;
	void (*on_done)(struct lookup *lookup);
	enum lu_error error; /* LU_OK, LU_DATABASE_UNAVAILABLE, LU_DEADLINE_EXCEEDED, LU_OVERLOADED */
	/* the reader's own */
	struct reader *reader;
	size_t waiting;
	struct lookup *next;
};

struct reader *reader_new(struct inventory *inventory, struct event_base *base, struct mailbox *mailbox);
/* Answers what is still waiting (LU_SHUTTING_DOWN) before it returns. */
void reader_free(struct reader *reader);
void reader_lookup(struct reader *reader, struct lookup *lookup);

#endif
