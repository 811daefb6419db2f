/* What epoch.c (the lease: what is seen and asked) and epoch_keeper.c (what is done about it) share. */
#ifndef INVENTORY_EPOCH_INTERNAL_H
#define INVENTORY_EPOCH_INTERNAL_H

#include <pthread.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/text.h"
#include "inventory/epoch.h"

#define PAST_MAX 16      /* namespaces remembered as past */
#define DATABASE_MS 1000 /* limit of one move of the keeper's */

struct epoch {
	const struct config *config;
	const struct redis_address *address;
	struct keyring *keyring;
	pthread_t watcher, keeper, sweeper;

	/* shared; everything below is under the mutex */
	pthread_mutex_t mutex;
	pthread_cond_t changed; /* to waiters: the row was read, a namespace is past, or stop */
	pthread_cond_t look;    /* to the watcher: somebody wants to know, or stop */
	pthread_cond_t wake;    /* to the keeper: work, or stop */
	pthread_cond_t sweep;   /* to the sweeper */
	bool stopping, look_wanted;
	int64_t seen_ns;                          /* before the question whose answer was seen last; 0: none */
	char namespace[CELL_NAMESPACE_BYTES + 1]; /* as last seen */
	enum epoch_state state;                   /* as last seen; 0: never */
	bool genuine;                             /* as last seen */
	int64_t relayed_ns;                       /* when the relay had dealt with all that was changed in SQL */
	int64_t lease_until_ns;
	int64_t row_lease_ns;                  /* L of the epoch last seen */
	int64_t database_until_ns;             /* PostgreSQL counts as reachable until then */
	char redis_refusal[200];               /* what the last probe was told by a Redis that answers; "": nothing */
	bool redis_reachable;                  /* as last known: a report says no, a probe and the lookout either */
	char database_error[256];              /* why the last reading failed; "" it did not */
	char report[CELL_NAMESPACE_BYTES + 1]; /* to be closed; "" none */
	int64_t report_ns;                     /* when it was reported */
	char past[PAST_MAX][CELL_NAMESPACE_BYTES + 1]; /* closed or replaced */
	unsigned past_next;
	char swept[CELL_NAMESPACE_BYTES + 1]; /* to be unlinked; "" none */

	/* the watcher's own */
	struct pg *watcher_pg;
	struct arena arena;
	int64_t keys_version;

	/* the keeper's own */
	struct pg *pg;
	struct redis *redis;
	char closing[CELL_NAMESPACE_BYTES + 1]; /* whose closing we saw, and when first */
	int64_t closing_since_ns;
	char candidate[CELL_NAMESPACE_BYTES + 1]; /* the namespace being probed; "" none */
	char candidate_identity[160];
	int64_t well_since_ns, next_probe_ns;
	int64_t open_again_ms;         /* after an opening that had to wait for a writer; 0: none */
	int64_t reopen_ms, trouble_ns; /* wait before opening; when an open epoch last ended */
};

static inline int64_t lease_ns(const struct epoch *e)
{
	return e->config->lease_ms * NS_PER_MS;
}

static inline void copy_namespace(char to[CELL_NAMESPACE_BYTES + 1], const char *from)
{
	size_t size = strnlen(from, CELL_NAMESPACE_BYTES);
	memcpy(to, from, size);
	to[size] = 0;
}

/* Under the mutex: how long the longest lease on the epoch last seen may last, L(1+rho). */
int64_t epoch_lease_wait_ns(const struct epoch *e);
/* Under the mutex: there is something to be moved, or soon will be. */
bool epoch_has_work(const struct epoch *e);
/* Has the row read again, and waits for a reading that was asked for after this call. */
void epoch_look_again(struct epoch *e);

void *epoch_keeper_main(void *epoch);
void *epoch_sweeper_main(void *epoch);

#endif
