/* What is done about the epoch: open → closing → closed → open in another namespace (epoch.h; the protocol:
 * lua/README.md).
 *
 * Happy path: nothing, and the keeper sleeps. A report (intend, publish or a script FENCED or unanswered), or a row that
 * was opened on another PostgreSQL: open → closing; after L(1+rho) by this clock since closing was first seen, closing →
 * closed: by then no instance holds a lease. Closed and Redis well for a while: a new namespace with its guard, closed →
 * open. Each move is one conditional statement, so what the keeper believes may be old; what came of it the watcher sees.
 * Failure modes: PostgreSQL away: again in a moment. Unlinking the cells of a namespace that is past is a second
 * thread's work: it may take long and holds no move up.
 */
#include "inventory/epoch_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/id.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/sync.h"

#define PROBE_MS 250
#define OPEN_AGAIN_MS_MAX 8000
#define SWEEP_MS 2000 /* of a walk through Redis; cut off, it goes on where it was */
#define FAILED_MS 20

/* The row as the watcher saw it last. */
struct view {
	enum epoch_state state;
	bool genuine;
	char namespace[CELL_NAMESPACE_BYTES + 1];
};

/* --- closing ------------------------------------------------------------------------------------------------------ */

/* A report, or a row that was opened on another PostgreSQL than this one: open → closing. False: PostgreSQL is away. */
static bool close_if_needed(struct epoch *e, const struct view *view)
{
	char namespace[CELL_NAMESPACE_BYTES + 1];
	pthread_mutex_lock(&e->mutex);
	copy_namespace(namespace, e->report);
	pthread_mutex_unlock(&e->mutex);
	bool other_database = view->state == EPOCH_OPEN && !view->genuine;
	if (!namespace[0] && other_database)
		copy_namespace(namespace, view->namespace);
	if (!namespace[0])
		return true;
	bool moved = false;
	if (epoch_close(e->pg, text_of(namespace), deadline_in_ms(DATABASE_MS), &moved))
		return false;
	if (moved) {
		metric_add(METRIC_EPOCH_CLOSES, 1);
		log_event(LOG_WARN, "epoch_closing namespace=%s reason=%s", namespace,
		          other_database ? "\"PostgreSQL was restarted, or is another one\"" : "reported");
	}
	/* What stands there now: `closing` starts the wait, another namespace ends it. */
	epoch_look_again(e);
	return true;
}

/* closing → closed, L(1+rho) after this instance first saw it closing: every lease given before has run out. */
static bool finish_closing(struct epoch *e)
{
	char namespace[CELL_NAMESPACE_BYTES + 1];
	pthread_mutex_lock(&e->mutex);
	bool over = e->closing[0] && e->state == EPOCH_CLOSING &&
	            clock_boottime_ns() - e->closing_since_ns >= epoch_lease_wait_ns(e);
	copy_namespace(namespace, e->closing);
	pthread_mutex_unlock(&e->mutex);
	if (!over)
		return true;
	bool moved = false;
	if (epoch_closed(e->pg, text_of(namespace), deadline_in_ms(DATABASE_MS), &moved))
		return false;
	if (moved)
		log_event(LOG_INFO, "epoch_closed namespace=%s", namespace);
	epoch_look_again(e);
	return true;
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

/* Not well: from the beginning. The namespace's name is kept, so that a long outage leaves one guard behind, not one
 * for each try: nothing but the probe was ever written under it. (Once it may have been opened, its name is spent.) */
static void candidate_restart(struct epoch *e)
{
	e->candidate_identity[0] = 0;
	e->well_since_ns = 0;
}

static void note_probe(struct epoch *e, bool well)
{
	const char *error = redis_error(e->redis);
	bool refused = !well && strncmp(error, REDIS_ANSWERED, strlen(REDIS_ANSWERED)) == 0;
	pthread_mutex_lock(&e->mutex);
	e->redis_reachable = well;
	snprintf(e->redis_refusal, sizeof e->redis_refusal, "%s", refused ? error + strlen(REDIS_ANSWERED) : "");
	pthread_mutex_unlock(&e->mutex);
}

/* One round of all five calls in the candidate's namespace, on the Redis it began with. */
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
		if (cell_guard_set(e->redis, text_of(e->candidate), identity, deadline_ns))
			return false;
		memcpy(e->candidate_identity, identity, sizeof identity);
		e->well_since_ns = clock_boottime_ns();
	}
	return !strcmp(identity, e->candidate_identity) && !cell_probe(e->redis, text_of(e->candidate), deadline_ns);
}

static void sweep_later(struct epoch *e, const char *namespace)
{
	pthread_mutex_lock(&e->mutex);
	copy_namespace(e->swept, namespace);
	pthread_cond_signal(&e->sweep);
	pthread_mutex_unlock(&e->mutex);
}

static void open_if_well(struct epoch *e, const struct view *view)
{
	int64_t now = clock_boottime_ns();
	if (view->state != EPOCH_CLOSED || !e->redis) {
		candidate_restart(e);
		return;
	}
	if (now < e->next_probe_ns)
		return;
	e->next_probe_ns = now + PROBE_MS * NS_PER_MS;
	bool well = probe(e);
	note_probe(e, well);
	if (!well) {
		candidate_restart(e);
		redis_close(e->redis);
		return;
	}
	if (clock_boottime_ns() - e->well_since_ns < e->reopen_ms * NS_PER_MS)
		return;
	char old[CELL_NAMESPACE_BYTES + 1];
	copy_namespace(old, view->namespace);
	bool moved = false;
	SYNC_POINT("opening");
	enum lu_error error = epoch_open(e->pg, text_of(old), text_of(e->candidate), text_of(e->candidate_identity),
	                                 e->config->lease_ms, deadline_in_ms(DATABASE_MS), &moved);
	if (error) {
		/* COMMIT may have been done and only its answer lost: then the epoch is open, its cells are being filled, and it
		 * must never be opened again. Before COMMIT nothing was opened, and the same is tried again: this session was
		 * idle while Redis proved itself, and who ends idle ones would otherwise have it prove itself for ever. */
		if (error == LU_OUTCOME_UNKNOWN) {
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
	epoch_look_again(e);
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

/* Under the mutex: a report that nobody acted on yet, and a PostgreSQL that may be told. */
static bool to_close(const struct epoch *e)
{
	return e->report[0] && strcmp(e->report, e->closing) && clock_boottime_ns() < e->database_until_ns;
}

/* Waits for work, then for its time: each L/4, but at once for a report and on time for the end of closing. False: the
 * end. */
static bool keeper_wait(struct epoch *e, int64_t last_ns, struct view *ret_view)
{
	pthread_mutex_lock(&e->mutex);
	if (!epoch_has_work(e))
		candidate_restart(e); /* open: what the next one waits for begins anew */
	for (;;) {
		int64_t until_ns = last_ns + lease_ns(e) / 4;
		if (e->closing[0] && e->state == EPOCH_CLOSING && e->closing_since_ns + epoch_lease_wait_ns(e) < until_ns)
			until_ns = e->closing_since_ns + epoch_lease_wait_ns(e);
		bool work = epoch_has_work(e);
		if (e->stopping || to_close(e) || (work && clock_boottime_ns() >= until_ns))
			break;
		clock_cond_wait(&e->wake, &e->mutex, work ? until_ns : DEADLINE_NONE);
	}
	ret_view->state = e->state;
	ret_view->genuine = e->genuine;
	copy_namespace(ret_view->namespace, e->namespace);
	bool stopping = e->stopping;
	pthread_mutex_unlock(&e->mutex);
	return !stopping;
}

void *epoch_keeper_main(void *context)
{
	struct epoch *e = context;
	struct view view;
	for (int64_t last_ns = clock_boottime_ns(); keeper_wait(e, last_ns, &view);) {
		last_ns = clock_boottime_ns();
		bool moving = !pg_connect(e->pg, deadline_in_ms(DATABASE_MS)) && close_if_needed(e, &view) && finish_closing(e);
		if (moving)
			open_if_well(e, &view);
		else
			clock_sleep_until(deadline_in_ms(FAILED_MS));
	}
	return NULL;
}

void *epoch_sweeper_main(void *context)
{
	struct epoch *e = context;
	struct redis *redis = e->address ? redis_new(e->address) : NULL;
	char namespace[CELL_NAMESPACE_BYTES + 1] = "", cursor[CELL_CURSOR_BYTES] = "";
	pthread_mutex_lock(&e->mutex);
	while (!e->stopping) {
		if (!e->swept[0]) {
			pthread_cond_wait(&e->sweep, &e->mutex);
			continue;
		}
		/* A connection that was lost may lead to another Redis now. */
		if (strcmp(namespace, e->swept) || !redis || !redis_connected(redis))
			*cursor = '\0';
		copy_namespace(namespace, e->swept);
		pthread_mutex_unlock(&e->mutex);
		int64_t deadline_ns = deadline_in_ms(SWEEP_MS);
		bool done = redis && !redis_connect(redis, deadline_ns) &&
		            !cell_namespace_unlink(redis, text_of(namespace), cursor, deadline_ns);
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
