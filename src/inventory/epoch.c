/* The read lease and the cache epoch (epoch.h; the protocol: lua/README.md).
 *
 * Happy path: the keeper asks PostgreSQL each L/4 "is the epoch open, and are you the one it was opened on?" and, on
 * yes, extends the lease to (time before the question) + L.
 * Failure modes: no answer: the lease runs out by itself. A report (intend, publish or a script FENCED or unanswered):
 * open → closing; after L(1+rho) by this clock since closing was first seen, closing → closed: by then no instance
 * holds a lease. Closed and Redis well for a while: a new namespace with its guard, closed → open.
 * Unlinking the cells of a namespace that is past is a second thread's work: it may take long and holds no lease up.
 */
#include "inventory/epoch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/sync.h"
#include "base/text.h"
#include "store/key.h"

#define DRIFT_PERCENT 1 /* rho: clocks drift by less */
#define PAST_MAX 16     /* namespaces remembered as past */
#define PROBE_MS 250
#define OPEN_AGAIN_MS_MAX 8000
#define REOPEN_MS_MAX 60000
#define STABLE_MS 60000  /* trouble again within this doubles the wait before opening */
#define SWEEP_MS 2000    /* one walk through Redis; cut off, it begins again */
#define DATABASE_MS 1000 /* limit of one question of the keeper's */

struct epoch {
	const struct config *config;
	const struct redis_address *address;
	struct keyring *keyring;
	pthread_t keeper, sweeper;

	/* shared; everything below is under the mutex */
	pthread_mutex_t mutex;
	pthread_cond_t changed; /* to waiters: something was seen or is past */
	pthread_cond_t wake;    /* to the keeper: a report, or stop */
	pthread_cond_t sweep;   /* to the sweeper */
	bool stopping;
	char namespace[CELL_NAMESPACE_BYTES + 1]; /* as last seen */
	enum epoch_state state;                   /* as last seen; 0: never */
	int64_t lease_until_ns;
	int64_t row_lease_ns;      /* L of the epoch last seen */
	int64_t database_until_ns; /* PostgreSQL counts as reachable until then */
	bool redis_reachable;
	char report[CELL_NAMESPACE_BYTES + 1];         /* to be closed; "" none */
	int64_t report_ns;                             /* when it was reported */
	char past[PAST_MAX][CELL_NAMESPACE_BYTES + 1]; /* closed or replaced */
	unsigned past_next;
	char swept[CELL_NAMESPACE_BYTES + 1]; /* to be unlinked; "" none */

	/* the keeper's own */
	struct pg *pg;
	struct redis *redis;
	struct arena arena;
	int64_t keys_version;
	char closing[CELL_NAMESPACE_BYTES + 1]; /* whose closing we saw, and when first */
	int64_t closing_since_ns;
	char candidate[CELL_NAMESPACE_BYTES + 1]; /* the namespace being probed; "" none */
	char candidate_identity[160];
	int64_t well_since_ns, next_probe_ns;
	int64_t open_again_ms;         /* after an opening that had to wait for a writer; 0: none */
	int64_t reopen_ms, trouble_ns; /* wait before opening; when an open epoch last ended */
};

static int64_t lease_ns(const struct epoch *e)
{
	return e->config->lease_ms * NS_PER_MS;
}

/* L(1+rho) */
static int64_t drifted(int64_t ns)
{
	return ns + ns * DRIFT_PERCENT / 100 + NS_PER_MS;
}

/* Under the mutex: how long the longest lease on the epoch last seen may last. */
static int64_t lease_wait_ns(const struct epoch *e)
{
	return drifted(e->row_lease_ns);
}

static void copy_namespace(char to[CELL_NAMESPACE_BYTES + 1], const char *from)
{
	size_t size = strnlen(from, CELL_NAMESPACE_BYTES);
	memcpy(to, from, size);
	to[size] = 0;
}

static struct text namespace_text(const char *namespace)
{
	return text_of(namespace);
}

/* --- what others ask ------------------------------------------------------------------------------------------------ */

bool epoch_lease(struct epoch *e, char ret_namespace[CELL_NAMESPACE_BYTES + 1])
{
	pthread_mutex_lock(&e->mutex);
	bool valid = clock_boottime_ns() < e->lease_until_ns;
	if (valid)
		copy_namespace(ret_namespace, e->namespace);
	pthread_mutex_unlock(&e->mutex);
	return valid;
}

bool epoch_lease_covers(struct epoch *e, const char *namespace)
{
	pthread_mutex_lock(&e->mutex);
	bool covers = clock_boottime_ns() < e->lease_until_ns && !strcmp(e->namespace, namespace);
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

void epoch_last_namespace(struct epoch *e, char ret_namespace[CELL_NAMESPACE_BYTES + 1])
{
	pthread_mutex_lock(&e->mutex);
	copy_namespace(ret_namespace, e->namespace);
	pthread_mutex_unlock(&e->mutex);
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

/* --- the keeper: what it sees ------------------------------------------------------------------------------------------ */

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
	pthread_cond_broadcast(&e->changed);
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
	bool reported = !strcmp(e->report, namespace);
	e->row_lease_ns = row->lease_ms * NS_PER_MS;
	int64_t granted_ns = e->row_lease_ns < lease_ns(e) ? e->row_lease_ns : lease_ns(e);
	bool lease = row->state == EPOCH_OPEN && row->genuine && !reported && e->redis;
	e->lease_until_ns = lease ? asked_ns + granted_ns : 0;
	keyring_extend(e->keyring, asked_ns + granted_ns);
	if (row->state == EPOCH_CLOSING && strcmp(e->closing, namespace)) {
		copy_namespace(e->closing, namespace);
		e->closing_since_ns = clock_boottime_ns();
	}
	if (row->state == EPOCH_CLOSED)
		mark_past(e, namespace);
	pthread_mutex_unlock(&e->mutex);
	metric_set(METRIC_EPOCH_OPEN, lease);
}

static bool look(struct epoch *e, struct epoch_row *ret_row)
{
	int64_t asked_ns = clock_boottime_ns(), deadline_ns = asked_ns + DATABASE_MS * NS_PER_MS;
	arena_reset(&e->arena);
	if (pg_connect(e->pg, deadline_ns) || epoch_lease_read(e->pg, &e->arena, deadline_ns, ret_row))
		return false;
	if (ret_row->keys_version != e->keys_version) {
		struct keyring_entry *entries;
		size_t count;
		if (key_load(e->pg, &e->arena, deadline_ns, &entries, &count))
			return false;
		keyring_replace(e->keyring, entries, count);
		e->keys_version = ret_row->keys_version;
	}
	SYNC_POINT("lease-asked");
	see(e, ret_row, asked_ns);
	return true;
}

/* --- the keeper: closing ------------------------------------------------------------------------------------------------- */

/* A report, or a row that was opened on another PostgreSQL than this one: open → closing. */
static void close_if_needed(struct epoch *e, const struct epoch_row *row)
{
	char namespace[CELL_NAMESPACE_BYTES + 1];
	pthread_mutex_lock(&e->mutex);
	copy_namespace(namespace, e->report);
	pthread_mutex_unlock(&e->mutex);
	bool other_database = row->state == EPOCH_OPEN && !row->genuine;
	if (!namespace[0] && other_database)
		copy_namespace(namespace, row->namespace.data);
	if (!namespace[0])
		return;
	bool moved = false;
	if (epoch_close(e->pg, namespace_text(namespace), deadline_in_ms(DATABASE_MS), &moved))
		return;
	if (moved) {
		metric_add(METRIC_EPOCH_CLOSES, 1);
		log_event(LOG_WARN, "epoch_closing namespace=%s reason=%s", namespace,
		          other_database ? "\"another PostgreSQL\"" : "reported");
	}
	/* See what stands there now: `closing` starts the wait, another namespace ends it. */
	struct epoch_row now;
	look(e, &now);
}

/* closing → closed, L(1+rho) after this instance first saw it closing: every lease given before has run out. */
static void finish_closing(struct epoch *e)
{
	char namespace[CELL_NAMESPACE_BYTES + 1];
	pthread_mutex_lock(&e->mutex);
	bool over = e->closing[0] && e->state == EPOCH_CLOSING &&
	            clock_boottime_ns() - e->closing_since_ns >= lease_wait_ns(e);
	copy_namespace(namespace, e->closing);
	pthread_mutex_unlock(&e->mutex);
	if (!over)
		return;
	bool moved = false;
	if (epoch_closed(e->pg, namespace_text(namespace), deadline_in_ms(DATABASE_MS), &moved))
		return;
	if (moved)
		log_event(LOG_INFO, "epoch_closed namespace=%s", namespace);
	struct epoch_row now;
	look(e, &now);
}

/* --- the keeper: opening ----------------------------------------------------------------------------------------------- */

/* Not well: from the beginning. The namespace's name is kept, so that a long outage leaves one guard behind, not one
 * for each try: nothing but the probe was ever written under it. (Once it may have been opened, its name is spent.) */
static void candidate_restart(struct epoch *e)
{
	e->candidate_identity[0] = 0;
	e->well_since_ns = 0;
}

static void set_redis_reachable(struct epoch *e, bool reachable)
{
	pthread_mutex_lock(&e->mutex);
	e->redis_reachable = reachable;
	pthread_mutex_unlock(&e->mutex);
}

/* One round of all five scripts in the candidate's namespace, on the Redis it began with. */
static bool probe(struct epoch *e)
{
	int64_t deadline_ns = deadline_in_ms(e->config->redis_timeout_ms);
	char identity[160];
	if (redis_connect(e->redis, deadline_ns) || cell_redis_identity(e->redis, deadline_ns, identity))
		return false;
	if (!e->candidate[0]) {
		memcpy(e->candidate, "lu:", 3);
		token_new(e->candidate + 3);
	}
	if (!e->candidate_identity[0]) {
		if (cell_guard_set(e->redis, namespace_text(e->candidate), identity, deadline_ns))
			return false;
		memcpy(e->candidate_identity, identity, sizeof identity);
		e->well_since_ns = clock_boottime_ns();
	}
	return !strcmp(identity, e->candidate_identity) && !cell_probe(e->redis, namespace_text(e->candidate), deadline_ns);
}

static void sweep_later(struct epoch *e, const char *namespace)
{
	pthread_mutex_lock(&e->mutex);
	copy_namespace(e->swept, namespace);
	pthread_cond_signal(&e->sweep);
	pthread_mutex_unlock(&e->mutex);
}

static void open_if_well(struct epoch *e, const struct epoch_row *row)
{
	int64_t now = clock_boottime_ns();
	if (row->state != EPOCH_CLOSED || !e->redis) {
		candidate_restart(e);
		return;
	}
	if (now < e->next_probe_ns)
		return;
	e->next_probe_ns = now + PROBE_MS * NS_PER_MS;
	bool well = probe(e);
	set_redis_reachable(e, well);
	if (!well) {
		candidate_restart(e);
		redis_close(e->redis);
		return;
	}
	if (clock_boottime_ns() - e->well_since_ns < e->reopen_ms * NS_PER_MS)
		return;
	char old[CELL_NAMESPACE_BYTES + 1];
	copy_namespace(old, row->namespace.data);
	bool moved = false;
	SYNC_POINT("opening");
	enum lu_error error = epoch_open(e->pg, namespace_text(old), namespace_text(e->candidate),
	                                 text_of(e->candidate_identity), e->config->lease_ms, deadline_in_ms(DATABASE_MS),
	                                 &moved);
	if (error) {
		/* Who did not get the lock has opened nothing. Otherwise COMMIT may have been done and only its answer lost: then
		 * the epoch is open, its cells are being filled, and it must never be opened again. */
		if (strcmp(pg_error(e->pg)->sqlstate, "55P03")) {
			e->candidate[0] = 0; /* spent */
			candidate_restart(e);
		}
		/* A transaction is in flight for long (an import), or PostgreSQL is away. Each try stops new writers for a
		 * moment, so they come at growing distances. */
		e->open_again_ms = e->open_again_ms ? 2 * e->open_again_ms : PROBE_MS;
		if (e->open_again_ms > OPEN_AGAIN_MS_MAX)
			e->open_again_ms = OPEN_AGAIN_MS_MAX;
		e->next_probe_ns = clock_boottime_ns() + e->open_again_ms * NS_PER_MS;
		return;
	}
	e->open_again_ms = 0;
	SYNC_POINT("opened");
	if (moved) {
		metric_add(METRIC_EPOCH_OPENS, 1);
		log_event(LOG_INFO, "epoch_open namespace=%s", e->candidate);
		sweep_later(e, old);
	} else {
		sweep_later(e, e->candidate); /* another instance was faster */
	}
	e->candidate[0] = 0;
	candidate_restart(e);
	struct epoch_row seen;
	look(e, &seen);
}

/* --- threads ----------------------------------------------------------------------------------------------------------------- */

static bool keeper_sleep(struct epoch *e)
{
	pthread_mutex_lock(&e->mutex);
	int64_t until_ns = clock_boottime_ns() + lease_ns(e) / 4;
	if (e->closing[0] && e->closing_since_ns + lease_wait_ns(e) < until_ns)
		until_ns = e->closing_since_ns + lease_wait_ns(e);
	bool to_close = e->report[0] && strcmp(e->report, e->closing) && clock_boottime_ns() < e->database_until_ns;
	if (!e->stopping && !to_close)
		clock_cond_wait(&e->wake, &e->mutex, until_ns);
	bool stopping = e->stopping;
	pthread_mutex_unlock(&e->mutex);
	return !stopping;
}

static void *keeper_main(void *context)
{
	struct epoch *e = context;
	do {
		struct epoch_row row;
		if (!look(e, &row)) {
			metric_set(METRIC_EPOCH_OPEN, 0);
			clock_sleep_until(deadline_in_ms(20));
			continue;
		}
		/* The steps below look again and so reuse the arena the row's texts lie in. */
		struct epoch_row now = row;
		char namespace[CELL_NAMESPACE_BYTES + 1];
		copy_namespace(namespace, row.namespace.data);
		now.namespace = namespace_text(namespace);
		close_if_needed(e, &now);
		finish_closing(e);
		open_if_well(e, &now);
	} while (keeper_sleep(e));
	return NULL;
}

static void *sweeper_main(void *context)
{
	struct epoch *e = context;
	struct redis *redis = e->address ? redis_new(e->address) : NULL;
	pthread_mutex_lock(&e->mutex);
	while (!e->stopping) {
		if (!e->swept[0]) {
			pthread_cond_wait(&e->sweep, &e->mutex);
			continue;
		}
		char namespace[CELL_NAMESPACE_BYTES + 1];
		copy_namespace(namespace, e->swept);
		pthread_mutex_unlock(&e->mutex);
		int64_t deadline_ns = deadline_in_ms(SWEEP_MS);
		bool done = redis && !redis_connect(redis, deadline_ns) &&
		            !cell_namespace_unlink(redis, namespace_text(namespace), deadline_ns);
		if (!done)
			clock_sleep_until(deadline_in_ms(PROBE_MS));
		pthread_mutex_lock(&e->mutex);
		if (done && !strcmp(e->swept, namespace))
			e->swept[0] = 0;
	}
	pthread_mutex_unlock(&e->mutex);
	if (redis)
		redis_free(redis);
	return NULL;
}

struct epoch *epoch_start(const struct config *config, const struct redis_address *redis, struct keyring *keyring)
{
	struct epoch *e = calloc(1, sizeof *e);
	CHECK(e);
	e->config = config;
	e->address = redis;
	e->keyring = keyring;
	e->keys_version = -1;
	e->reopen_ms = config->reopen_after_ms;
	pthread_mutex_init(&e->mutex, NULL);
	clock_cond_init(&e->changed);
	clock_cond_init(&e->wake);
	clock_cond_init(&e->sweep);
	arena_init(&e->arena, 4096);
	e->pg = pg_new(&(struct pg_options){.url = config->database_url,
	                                    .role = "lastunit_service",
	                                    .application_name = "lastunit lease",
	                                    .statement_timeout_ms = DATABASE_MS});
	e->redis = redis ? redis_new(redis) : NULL;
	CHECK(pthread_create(&e->keeper, NULL, keeper_main, e) == 0);
	CHECK(pthread_create(&e->sweeper, NULL, sweeper_main, e) == 0);
	return e;
}

void epoch_stop(struct epoch *e)
{
	pthread_mutex_lock(&e->mutex);
	e->stopping = true;
	pthread_cond_broadcast(&e->changed);
	pthread_cond_broadcast(&e->wake);
	pthread_cond_broadcast(&e->sweep);
	pthread_mutex_unlock(&e->mutex);
	pthread_join(e->keeper, NULL);
	pthread_join(e->sweeper, NULL);
	pg_free(e->pg);
	if (e->redis)
		redis_free(e->redis);
	arena_done(&e->arena);
	pthread_cond_destroy(&e->changed);
	pthread_cond_destroy(&e->wake);
	pthread_cond_destroy(&e->sweep);
	pthread_mutex_destroy(&e->mutex);
	free(e);
}

/* --- by hand ------------------------------------------------------------------------------------------------------------------ */

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
			clock_sleep_until(clock_boottime_ns() + drifted(row.lease_ms * NS_PER_MS));
			error = epoch_closed(pg, row.namespace, deadline_ns, &moved);
		}
	}
	arena_done(&arena);
	return error;
}
