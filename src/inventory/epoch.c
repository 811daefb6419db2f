/* The read lease, and what is seen of the cache epoch (epoch.h; the protocol: lua/README.md).
 *
 * Happy path: the watcher asks PostgreSQL each L/4, counted from one question to the next, "is the epoch open, and are
 * you the one it was opened on?" and, on yes, extends the lease to (time before the question) + L. It does nothing else
 * and has a connection of its own: a lease that is late costs every instance's reads a way to PostgreSQL, so nothing
 * slow may stand in its way. What is to be done about what it saw is the keeper's (epoch_keeper.c).
 * Failure modes: no answer: the lease runs out by itself. A late answer still extends it, if there is anything left, and
 * tells who waits for the keys (store/keyring.h) that they were read.
 */
#include "inventory/epoch_internal.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/sync.h"
#include "store/key.h"

#define DRIFT_PERCENT 1 /* rho: clocks drift by less */
#define STABLE_MS 60000 /* trouble again within this doubles the wait before opening */
#define REOPEN_MS_MAX 60000
#define CONNECT_MS 3000
#define LOOK_MS 2000 /* limit of one reading: beyond L, for who waits for the keys; a new connection comes no sooner */
#define LOOK_FAILED_MS 20
#define RELAY_LATE_MS 2000 /* the relay asks ten times a second; a pass of its may take so long */

int64_t epoch_drifted_ns(int64_t lease_ns)
{
	return lease_ns + lease_ns * DRIFT_PERCENT / 100 + NS_PER_MS;
}

int64_t epoch_lease_wait_ns(const struct epoch *e)
{
	return epoch_drifted_ns(e->row_lease_ns);
}

/* --- what others ask ---------------------------------------------------------------------------------------------- */

/* Under the mutex. I15: cells are as true as the relay keeps them. While it cannot read what was changed in SQL (its
 * right is gone, its table is locked) nobody here serves hits, however well the epoch's row can be read. */
static bool lease_valid(const struct epoch *e)
{
	int64_t now = clock_boottime_ns();
	return now < e->lease_until_ns && now < e->relayed_ns + RELAY_LATE_MS * NS_PER_MS;
}

void epoch_relayed(struct epoch *e, int64_t asked_ns)
{
	pthread_mutex_lock(&e->mutex);
	e->relayed_ns = asked_ns;
	pthread_mutex_unlock(&e->mutex);
}

bool epoch_lease(struct epoch *e, char ret_namespace[CELL_NAMESPACE_BYTES + 1])
{
	pthread_mutex_lock(&e->mutex);
	bool valid = lease_valid(e);
	if (valid)
		copy_namespace(ret_namespace, e->namespace);
	pthread_mutex_unlock(&e->mutex);
	return valid;
}

bool epoch_lease_covers(struct epoch *e, const char *namespace)
{
	pthread_mutex_lock(&e->mutex);
	bool covers = lease_valid(e) && !strcmp(e->namespace, namespace);
	pthread_mutex_unlock(&e->mutex);
	return covers;
}

bool epoch_database_reachable(struct epoch *e)
{
	pthread_mutex_lock(&e->mutex);
	bool reachable = clock_boottime_ns() < e->database_until_ns;
	pthread_mutex_unlock(&e->mutex);
	return reachable;
}

bool epoch_database_away(struct epoch *e, char ret_error[256])
{
	pthread_mutex_lock(&e->mutex);
	bool away = e->database_error[0] && clock_boottime_ns() >= e->database_until_ns;
	if (away)
		memcpy(ret_error, e->database_error, sizeof e->database_error);
	pthread_mutex_unlock(&e->mutex);
	return away;
}

int64_t epoch_database_silent_ns(struct epoch *e)
{
	pthread_mutex_lock(&e->mutex);
	int64_t silent = clock_boottime_ns() - (e->database_until_ns - lease_ns(e));
	pthread_mutex_unlock(&e->mutex);
	return silent;
}

enum epoch_state epoch_state_seen(struct epoch *e)
{
	pthread_mutex_lock(&e->mutex);
	enum epoch_state state = e->state;
	pthread_mutex_unlock(&e->mutex);
	return state;
}

bool epoch_redis_reachable(struct epoch *e)
{
	pthread_mutex_lock(&e->mutex);
	bool reachable = e->redis_reachable;
	pthread_mutex_unlock(&e->mutex);
	return reachable;
}

void epoch_redis_seen(struct epoch *e, bool reachable)
{
	pthread_mutex_lock(&e->mutex);
	if (!reachable || e->state != EPOCH_CLOSED)
		e->redis_reachable = reachable;
	pthread_mutex_unlock(&e->mutex);
}

bool epoch_redis_refuses(struct epoch *e, char ret_error[200])
{
	pthread_mutex_lock(&e->mutex);
	bool refuses = e->state == EPOCH_CLOSED && e->redis_refusal[0];
	if (refuses)
		memcpy(ret_error, e->redis_refusal, sizeof e->redis_refusal);
	pthread_mutex_unlock(&e->mutex);
	return refuses;
}

void epoch_last_namespace(struct epoch *e, char ret_namespace[CELL_NAMESPACE_BYTES + 1])
{
	pthread_mutex_lock(&e->mutex);
	copy_namespace(ret_namespace, e->namespace);
	pthread_mutex_unlock(&e->mutex);
}

bool epoch_has_work(const struct epoch *e)
{
	return e->report[0] || e->state == EPOCH_CLOSING || (e->state == EPOCH_CLOSED && e->redis) ||
	       (e->state == EPOCH_OPEN && !e->genuine);
}

static bool is_past(const struct epoch *e, const char *namespace)
{
	for (unsigned i = 0; i < PAST_MAX; i++)
		if (!strcmp(e->past[i], namespace))
			return true;
	return false;
}

/* Under the mutex. */
static void report(struct epoch *e, const char *namespace, const char *reason)
{
	if (is_past(e, namespace) || !strcmp(e->report, namespace) || !strcmp(e->closing, namespace))
		return;
	log_event(LOG_WARN, "epoch_reported namespace=%s reason=%s", namespace, log_quote(text_of(reason)));
	copy_namespace(e->report, namespace);
	e->report_ns = clock_boottime_ns();
	e->redis_reachable = false;
	pthread_cond_signal(&e->wake);
}

void epoch_report(struct epoch *e, const char *namespace, const char *reason)
{
	pthread_mutex_lock(&e->mutex);
	report(e, namespace, reason);
	pthread_mutex_unlock(&e->mutex);
}

enum lu_error epoch_wait_closed(struct epoch *e, const char *namespace, const char *reason, int64_t deadline_ns)
{
	enum lu_error error = LU_OK;
	pthread_mutex_lock(&e->mutex);
	while (!is_past(e, namespace) && !error) {
		report(e, namespace, reason);
		if (e->stopping)
			error = LU_SHUTTING_DOWN;
		else if (!clock_cond_wait(&e->changed, &e->mutex, deadline_ns))
			error = clock_boottime_ns() < e->database_until_ns ? LU_DEADLINE_EXCEEDED : LU_DATABASE_UNAVAILABLE;
	}
	pthread_mutex_unlock(&e->mutex);
	return error;
}

/* --- the watcher: what it sees ------------------------------------------------------------------------------------ */

/* Under the mutex: this namespace will never be open again. */
static void mark_past(struct epoch *e, const char *namespace)
{
	if (!namespace[0] || is_past(e, namespace))
		return;
	copy_namespace(e->past[e->past_next++ % PAST_MAX], namespace);
	if (!strcmp(e->report, namespace))
		e->report[0] = 0;
	if (!strcmp(e->closing, namespace))
		e->closing[0] = 0;
}

/* A database restored to an earlier time shows an old namespace again. */
static void unmark_past(struct epoch *e, const char *namespace)
{
	for (unsigned i = 0; i < PAST_MAX; i++)
		if (!strcmp(e->past[i], namespace))
			e->past[i][0] = 0;
}

/* Takes in one reading of the row. `asked_ns` is the time before the question. */
static void see(struct epoch *e, const struct epoch_row *row, int64_t asked_ns)
{
	const char *namespace = row->namespace.data;
	pthread_mutex_lock(&e->mutex);
	e->seen_ns = asked_ns;
	e->database_error[0] = 0;
	e->database_until_ns = asked_ns + lease_ns(e);
	/* Another namespace stands in the row than one that stood there before we asked: that one is past. */
	if (strcmp(namespace, e->namespace)) {
		mark_past(e, e->namespace);
		copy_namespace(e->namespace, namespace);
	}
	if (e->report[0] && strcmp(namespace, e->report) && e->report_ns < asked_ns)
		mark_past(e, e->report);
	if (row->state != EPOCH_CLOSED)
		unmark_past(e, namespace);
	if (row->state != EPOCH_OPEN && e->state == EPOCH_OPEN) {
		bool again = e->trouble_ns && asked_ns - e->trouble_ns < STABLE_MS * NS_PER_MS;
		e->reopen_ms = !again                             ? e->config->reopen_after_ms
		               : e->reopen_ms * 2 < REOPEN_MS_MAX ? e->reopen_ms * 2
		                                                  : REOPEN_MS_MAX;
		e->trouble_ns = asked_ns;
	}
	e->state = row->state;
	e->genuine = row->genuine;
	bool reported = !strcmp(e->report, namespace);
	e->row_lease_ns = row->lease_ms * NS_PER_MS;
	int64_t granted_ns = e->row_lease_ns < lease_ns(e) ? e->row_lease_ns : lease_ns(e);
	bool lease = row->state == EPOCH_OPEN && row->genuine && !reported && e->redis;
	e->lease_until_ns = lease ? asked_ns + granted_ns : 0;
	keyring_extend(e->keyring, asked_ns, asked_ns + granted_ns);
	if (row->state == EPOCH_CLOSING && strcmp(e->closing, namespace)) {
		copy_namespace(e->closing, namespace);
		e->closing_since_ns = clock_boottime_ns();
	}
	pthread_cond_broadcast(&e->changed);
	if (epoch_has_work(e))
		pthread_cond_signal(&e->wake);
	if (row->state == EPOCH_CLOSED)
		mark_past(e, namespace);
	pthread_mutex_unlock(&e->mutex);
	metric_set(METRIC_EPOCH_OPEN, lease);
}

/* *ret_asked_ns: the time before the question. Connecting is not part of it and has a time of its own: with one limit for
 * both, a PostgreSQL as slow as half of it would be asked by new connections for ever, and never answer one. */
static bool look(struct epoch *e, int64_t *ret_asked_ns)
{
	struct epoch_row row;
	arena_reset(&e->arena);
	if (pg_connect(e->watcher_pg, deadline_in_ms(CONNECT_MS)))
		return false;
	*ret_asked_ns = clock_boottime_ns();
	int64_t deadline_ns = *ret_asked_ns + LOOK_MS * NS_PER_MS;
	if (epoch_lease_read(e->watcher_pg, &e->arena, deadline_ns, &row))
		return false;
	if (row.keys_version != e->keys_version) {
		struct keyring_entry *entries;
		size_t count;
		if (key_load(e->watcher_pg, &e->arena, deadline_ns, &entries, &count))
			return false;
		keyring_replace(e->keyring, entries, count);
		e->keys_version = row.keys_version;
	}
	SYNC_POINT("lease-asked");
	see(e, &row, *ret_asked_ns);
	return true;
}

/* Why, for whoever tells of it. */
static void see_nothing(struct epoch *e)
{
	pthread_mutex_lock(&e->mutex);
	const char *why = pg_error(e->watcher_pg)->message;
	snprintf(e->database_error, sizeof e->database_error, "%s", *why ? why : "no answer");
	pthread_mutex_unlock(&e->mutex);
	metric_set(METRIC_EPOCH_OPEN, 0);
}

/* False: the end. */
static bool watcher_sleep(struct epoch *e, int64_t until_ns)
{
	pthread_mutex_lock(&e->mutex);
	while (!e->stopping && !e->look_wanted && clock_cond_wait(&e->look, &e->mutex, until_ns))
		;
	e->look_wanted = false;
	bool stopping = e->stopping;
	pthread_mutex_unlock(&e->mutex);
	return !stopping;
}

static void *watcher_main(void *context)
{
	struct epoch *e = context;
	int64_t next_ns;
	do {
		int64_t asked_ns = 0;
		bool seen = look(e, &asked_ns);
		if (!seen)
			see_nothing(e);
		next_ns = seen ? asked_ns + lease_ns(e) / 4 : deadline_in_ms(LOOK_FAILED_MS);
	} while (watcher_sleep(e, next_ns));
	return NULL;
}

void epoch_look_again(struct epoch *e)
{
	int64_t since_ns = clock_boottime_ns(), deadline_ns = deadline_in_ms(DATABASE_MS);
	pthread_mutex_lock(&e->mutex);
	while (!e->stopping && e->seen_ns < since_ns) {
		e->look_wanted = true;
		pthread_cond_signal(&e->look);
		if (!clock_cond_wait(&e->changed, &e->mutex, deadline_ns))
			break;
	}
	pthread_mutex_unlock(&e->mutex);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct epoch *epoch_start(const struct config *config, const struct redis_address *redis, struct keyring *keyring)
{
	struct epoch *e = calloc(1, sizeof *e);
	CHECK(e);
	e->config = config;
	e->address = redis;
	e->keyring = keyring;
	e->keys_version = -1;
	e->reopen_ms = config->reopen_after_ms;
	e->relayed_ns = clock_boottime_ns(); /* the relay's first pass is due */
	pthread_mutex_init(&e->mutex, NULL);
	clock_cond_init(&e->changed);
	clock_cond_init(&e->look);
	clock_cond_init(&e->wake);
	clock_cond_init(&e->sweep);
	arena_init(&e->arena, 4096);
	e->watcher_pg = pg_new(&(struct pg_options){.url = config->database_url,
	                                            .role = "lastunit_service",
	                                            .application_name = "lastunit lease",
	                                            .statement_timeout_ms = LOOK_MS});
	e->pg = pg_new(&(struct pg_options){.url = config->database_url,
	                                    .role = "lastunit_service",
	                                    .application_name = "lastunit epoch",
	                                    .statement_timeout_ms = DATABASE_MS});
	e->redis = redis ? redis_new(redis) : NULL;
	CHECK(pthread_create(&e->watcher, NULL, watcher_main, e) == 0);
	CHECK(pthread_create(&e->keeper, NULL, epoch_keeper_main, e) == 0);
	CHECK(pthread_create(&e->sweeper, NULL, epoch_sweeper_main, e) == 0);
	return e;
}

void epoch_stop(struct epoch *e)
{
	pthread_mutex_lock(&e->mutex);
	e->stopping = true;
	pthread_cond_broadcast(&e->changed);
	pthread_cond_broadcast(&e->look);
	pthread_cond_broadcast(&e->wake);
	pthread_cond_broadcast(&e->sweep);
	pthread_mutex_unlock(&e->mutex);
	pthread_join(e->watcher, NULL);
	pthread_join(e->keeper, NULL);
	pthread_join(e->sweeper, NULL);
	pg_free(e->watcher_pg);
	pg_free(e->pg);
	if (e->redis)
		redis_free(e->redis);
	arena_done(&e->arena);
	pthread_cond_destroy(&e->changed);
	pthread_cond_destroy(&e->look);
	pthread_cond_destroy(&e->wake);
	pthread_cond_destroy(&e->sweep);
	pthread_mutex_destroy(&e->mutex);
	free(e);
}

/* --- by hand ------------------------------------------------------------------------------------------------------ */

enum lu_error epoch_close_by_hand(struct pg *pg, int64_t deadline_ns)
{
	struct arena arena;
	arena_init(&arena, 1024);
	struct epoch_row row;
	bool moved;
	enum lu_error error = epoch_lease_read(pg, &arena, deadline_ns, &row);
	if (!error && row.state != EPOCH_CLOSED) {
		error = epoch_close(pg, row.namespace, deadline_ns, &moved);
		if (!error) {
			clock_sleep_until(clock_boottime_ns() + epoch_drifted_ns(row.lease_ms * NS_PER_MS));
			error = epoch_closed(pg, row.namespace, deadline_ns, &moved);
		}
	}
	arena_done(&arena);
	return error;
}
