/* Who waits for a loader is answered at his deadline, whatever the loaders are at.
 *
 * Happy path: nothing waits, and the watch sleeps. While something waits it looks every LOOK_MS, takes those whose time
 * is up out of the lists and refuses them.
 * Why: a loader is inside a read for as long as PostgreSQL is mute, two seconds at most, and all of them may be; a
 * request that came meanwhile with less time than that would be answered late (P6). The writers' queue has no need of
 * this: it lends out what is overdue.
 */
#include "base/check.h"
#include "base/clock.h"
#include "inventory/loader_internal.h"

#define LOOK_MS 50

/* Moves what is due from the list `from` to the end of the list `to`; all have `next` and `deadline_ns`. */
#define TAKE_OVERDUE(type, from, to, now_ns, waiting)     \
	do {                                                  \
		for (struct type **at_ = &(from)->first; *at_;) { \
			struct type *item_ = *at_;                    \
			if (item_->deadline_ns > (now_ns)) {          \
				at_ = &item_->next;                       \
				continue;                                 \
			}                                             \
			*at_ = item_->next;                           \
			if (!*at_)                                    \
				(from)->last = at_;                       \
			LIST_ADD(to, item_);                          \
			(waiting)--;                                  \
		}                                                 \
	} while (0)

/* Under the mutex, which is let go of while they are answered: their owners may come back at once. */
static void refuse_overdue(struct loaders *all)
{
	int64_t now_ns = clock_boottime_ns();
	LIST(load) loads;
	LIST(query) queries;
	LIST(operation) resolves;
	LIST_INIT(&loads);
	LIST_INIT(&queries);
	LIST_INIT(&resolves);
	TAKE_OVERDUE(load, &all->loads, &loads, now_ns, all->waiting);
	size_t before = all->waiting;
	for (size_t i = 0; i < LOADER_TURNS; i++)
		TAKE_OVERDUE(query, &all->queries[i], &queries, now_ns, all->waiting);
	all->queries_waiting -= before - all->waiting;
	TAKE_OVERDUE(operation, &all->resolves, &resolves, now_ns, all->waiting);
	pthread_mutex_unlock(&all->mutex);
	for (struct load *load = loads.first, *next; load; load = next) {
		next = load->next;
		load_deliver(load, LU_DATABASE_UNAVAILABLE, NULL);
	}
	for (struct query *query = queries.first, *next; query; query = next) {
		next = query->next;
		query->error = LU_DEADLINE_EXCEEDED;
		query->on_done(query);
	}
	for (struct operation *operation = resolves.first, *next; operation; operation = next) {
		next = operation->next;
		loader_refuse(operation, LU_DEADLINE_EXCEEDED);
	}
	pthread_mutex_lock(&all->mutex);
}

static void *watch_main(void *context)
{
	struct loaders *all = context;
	pthread_mutex_lock(&all->mutex);
	while (!all->stopping) {
		all->watch_sleeps = all->waiting == 0;
		clock_cond_wait(&all->watching, &all->mutex, all->watch_sleeps ? DEADLINE_NONE : deadline_in_ms(LOOK_MS));
		all->watch_sleeps = false;
		if (all->waiting)
			refuse_overdue(all);
	}
	pthread_mutex_unlock(&all->mutex);
	return NULL;
}

void loader_late_wake(struct loaders *all)
{
	if (all->watch_sleeps)
		pthread_cond_signal(&all->watching);
}

void loader_late_start(struct loaders *all)
{
	clock_cond_init(&all->watching);
	CHECK(pthread_create(&all->watch, NULL, watch_main, all) == 0);
}

void loader_late_stop(struct loaders *all)
{
	pthread_mutex_lock(&all->mutex);
	pthread_cond_signal(&all->watching);
	pthread_mutex_unlock(&all->mutex);
	pthread_join(all->watch, NULL);
	pthread_cond_destroy(&all->watching);
}
