/* What loader.c, loader_resolve.c and loader_late.c share; nobody else includes it. */
#ifndef INVENTORY_LOADER_INTERNAL_H
#define INVENTORY_LOADER_INTERNAL_H

#include <pthread.h>

#include "base/arena.h"
#include "cache/redis.h"
#include "inventory/loader.h"
#include "store/pg.h"
#include "store/sku.h"

#define LOADER_LATE_MS 20     /* who has less time left than this is not asked for */
#define LOADER_SELECT_MS 2000 /* of one reading */
#define LOADER_TURNS 64       /* askers told apart, by their ids; two of one turn share it */

/* An intrusive list, oldest first. */
#define LIST(type)          \
	struct {                \
		struct type *first; \
		struct type **last; \
	}
#define LIST_INIT(list) ((list)->first = NULL, (list)->last = &(list)->first)
#define LIST_ADD(list, item) ((item)->next = NULL, *(list)->last = (item), (list)->last = &(item)->next)

struct loaders {
	const struct config *config;
	struct epoch *epoch;
	struct queue *queue;
	pthread_mutex_t mutex;
	pthread_cond_t work;
	bool stopping;
	size_t waiting;
	LIST(load) loads;
	LIST(query) queries[LOADER_TURNS]; /* by asker */
	LIST(operation) resolves;
	size_t queries_waiting;
	unsigned turn;     /* of the query taken last */
	unsigned querying; /* loaders busy with queries */
	struct loader *list;
	unsigned count;
	pthread_t watch; /* loader_late.c */
	pthread_cond_t watching;
	bool watch_sleeps; /* until something waits */
};

struct loader {
	struct loaders *all;
	pthread_t thread;
	struct pg *pg;
	struct redis *redis;
	struct arena arena;
};

/* for (int tries = 0; loader_again(…, &error, …, &tries);) error = a read…: connects, and runs the read once more on a new
 * connection if the old one turned out to be dead: a session that was ended while it was idle shows only when used. */
bool loader_again(struct loader *l, enum lu_error *error, int64_t deadline_ns, int *tries);

/* Reads what these operations concern, and submits or refuses each. Its own thread's. */
void loader_run_resolves(struct loader *l, struct operation **ops, size_t count);

/* Each answers once and lets go of it. */
void load_deliver(struct load *load, enum lu_error error, const struct sku_figures_row *row);
void loader_refuse(struct operation *operation, enum lu_error error);

/* The watch over those who wait: a thread of its own, from loaders_start() to loaders_stop(). */
void loader_late_start(struct loaders *all);
void loader_late_stop(struct loaders *all); /* `stopping` is set */
/* Under the mutex: something waits now. */
void loader_late_wake(struct loaders *all);

#endif
