/* The writers: which batch is run, how often, and what a failure leads to. The seven steps are in batch.c.
 *
 * Happy path: queue_take → one attempt → COMMIT → queue_finish → every operation answered.
 * Failure modes, one row each in batch_run(): run again at once (more locks, the epoch moved, a key was won by another),
 * with jitter and at most RETRIES_MAX times, on a new connection, around a stranger's row lock, or one operation at a
 * time to find the culprit. Whatever happens, each operation is answered once, and by its deadline (I9).
 */
#include "inventory/batch_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/text.h"
#include "store/pg.h"

#define RETRIES_MAX 5
#define AGAIN_MAX 50        /* moves that cost nothing, before they count as retries: a bound on everything */
#define TROUBLE_MS_MAX 2000 /* how long a batch waits for PostgreSQL to come back */
#define ABANDONED_MAX 4     /* sessions given up with a COMMIT under way, before new ones are refused */
#define ABANDONED_PROBE_MS 1000
#define TOLD_EVERY_MS 10000
#define REFUSED_MS 10000

/* --- 1 drop ------------------------------------------------------------------------------------------------------- */

static void refuse_all(struct batch *b, enum lu_error error)
{
	for (size_t i = 0; i < b->count; i++)
		batch_refuse(b->operations[i], b->operations[i]->outcome_unknown ? LU_OUTCOME_UNKNOWN : error);
	b->count = 0;
}

static bool any_outcome_unknown(const struct batch *b)
{
	for (size_t i = 0; i < b->count; i++)
		if (b->operations[i]->outcome_unknown)
			return true;
	return false;
}

/* A client whose key is at work elsewhere hears that; `error` is for everybody else. */
static enum lu_error refusal_of(const struct operation *operation, enum lu_error error)
{
	return operation->key_in_flight && operation->client_key ? LU_IDEMPOTENCY_IN_FLIGHT : error;
}

/* Answers what has no time left. Returns the deadline of the next attempt: the earliest of those that remain. */
static int64_t drop_late(struct batch *b)
{
	int64_t now = clock_boottime_ns(), earliest = DEADLINE_NONE;
	size_t kept = 0;
	for (size_t i = 0; i < b->count; i++) {
		struct operation *op = b->operations[i];
		if (op->deadline_ns - now >= QUEUE_LATE_MS * NS_PER_MS) {
			if (op->deadline_ns < earliest)
				earliest = op->deadline_ns;
			b->operations[kept++] = op;
			continue;
		}
		metric_add(METRIC_OPERATIONS_DROPPED, 1);
		batch_refuse(op, op->outcome_unknown ? LU_OUTCOME_UNKNOWN : refusal_of(op, LU_DEADLINE_EXCEEDED));
	}
	b->count = kept;
	return earliest;
}

/* --- what an outcome leads to ------------------------------------------------------------------------------------- */

static void batch_run(struct batch *b);

static void pause_with_jitter(unsigned attempts)
{
	clock_sleep_until(clock_boottime_ns() + (int64_t)(1 + random_below(4u << attempts)) * NS_PER_MS);
}

/* One operation at a time, in order, so that only the culprit fails. */
static void run_singly(struct batch *b)
{
	metric_add(METRIC_BATCH_SPLITS, 1);
	for (size_t i = 0; i < b->count; i++) {
		struct batch *single = calloc(1, sizeof *single);
		CHECK(single);
		single->writer = b->writer;
		single->operations[0] = b->operations[i];
		single->count = 1;
		single->lock = b->lock;
		batch_run(single);
		free(single);
	}
	b->count = 0;
}

static bool may_tell(_Atomic int64_t *not_before_ns)
{
	int64_t tell_ns = atomic_load(not_before_ns);
	return clock_boottime_ns() >= tell_ns &&
	       atomic_compare_exchange_strong(not_before_ns, &tell_ns, deadline_in_ms(TOLD_EVERY_MS));
}

/* It is the role's fault, not the operation's. The lookout names the right (lookout.h). */
static void refuse_forbidden(struct batch *b, const struct pg_error *e)
{
	if (may_tell(&b->writer->all->tell_forbidden_ns))
		log_event(LOG_ERROR, "write_forbidden sqlstate=%s message=%s", e->sqlstate, log_quote(text_of(e->message)));
	refuse_all(b, refusal_of(b->operations[0], LU_DATABASE_UNAVAILABLE));
}

/* A server that is out of something still answers whoever looks at it: only who writes is told. */
static void refuse_unavailable(struct batch *b)
{
	struct writers *all = b->writer->all;
	const struct pg_error *e = pg_error(b->writer->pg);
	if (may_tell(&all->tell_refused_ns))
		log_event(LOG_ERROR, "write_refused sqlstate=%s message=%s", e->sqlstate, log_quote(text_of(e->message)));
	if (strncmp(e->sqlstate, "53", 2) == 0) {
		pthread_mutex_lock(&all->refused_mutex);
		snprintf(all->refused, sizeof all->refused, "%s (SQLSTATE %s)", e->message, e->sqlstate);
		pthread_mutex_unlock(&all->refused_mutex);
		atomic_store(&all->refused_until_ns, deadline_in_ms(REFUSED_MS));
	}
	refuse_all(b, LU_DATABASE_UNAVAILABLE);
}

void writers_weaknesses(struct writers *all, struct weaknesses *list)
{
	if (clock_boottime_ns() >= atomic_load(&all->refused_until_ns))
		return;
	pthread_mutex_lock(&all->refused_mutex);
	weakness_add(list, WEAKNESS_WRITES_REFUSED, "P6", "PostgreSQL takes no writes, each is answered 503: %s",
	             all->refused);
	pthread_mutex_unlock(&all->refused_mutex);
}

static void blame(struct batch *b)
{
	const struct pg_error *e = pg_error(b->writer->pg);
	const struct operation *op = b->operations[0];
	if (e->class == PG_FORBIDDEN) {
		refuse_forbidden(b, e);
		return;
	}
	log_event(LOG_ERROR, "operation_failed kind=%d sku=%s sqlstate=%s constraint=%s message=%s", op->kind,
	          op->sku_count ? log_quote(op->skus[0]) : "-", e->sqlstate, e->constraint[0] ? e->constraint : "-",
	          log_quote(text_of(e->message)));
	refuse_all(b, LU_INTERNAL);
}

static void retry(struct batch *b)
{
	metric_add(METRIC_BATCH_RETRIES, 1);
	if (++b->attempts < RETRIES_MAX) {
		pause_with_jitter(b->attempts);
		return;
	}
	if (b->count > 1)
		run_singly(b);
	else
		refuse_all(b, refusal_of(b->operations[0], LU_OVERLOADED));
}

static void reconnect(struct batch *b)
{
	metric_add(METRIC_BATCH_RETRIES, 1);
	int64_t now = clock_boottime_ns();
	if (!b->trouble_since_ns)
		b->trouble_since_ns = now;
	/* An unknown outcome is worth every moment up to the deadlines: drop_late() ends it. */
	if (!any_outcome_unknown(b) && now - b->trouble_since_ns > TROUBLE_MS_MAX * NS_PER_MS)
		refuse_all(b, LU_DATABASE_UNAVAILABLE);
	else
		pause_with_jitter(3);
}

static void unknown(struct batch *b)
{
	struct writers *all = b->writer->all;
	unsigned abandoned = atomic_fetch_add(&all->abandoned, 1) + 1;
	metric_add(METRIC_OUTCOME_UNKNOWN, 1);
	log_event(LOG_WARN, "outcome_unknown operations=%zu abandoned=%u", b->count, abandoned);
	for (size_t i = 0; i < b->count; i++)
		b->operations[i]->outcome_unknown = true;
}

/* True when too many sessions hang in COMMIT: then one batch a second finds out whether that is over. */
static bool too_many_abandoned(struct writers *all)
{
	if (atomic_load(&all->abandoned) < ABANDONED_MAX)
		return false;
	int64_t now = clock_boottime_ns(), last = atomic_load(&all->last_try_ns);
	return now - last < ABANDONED_PROBE_MS * NS_PER_MS ||
	       !atomic_compare_exchange_strong(&all->last_try_ns, &last, now);
}

static void batch_run(struct batch *b)
{
	struct writers *all = b->writer->all;
	arena_init(&b->extra_arena, 1024);
	for (unsigned moves = 0; b->count; moves++) {
		int64_t deadline_ns = drop_late(b);
		if (!b->count)
			break;
		if (!any_outcome_unknown(b) && too_many_abandoned(all)) {
			refuse_all(b, LU_DATABASE_UNAVAILABLE);
			break;
		}
		bool finds_out = any_outcome_unknown(b);
		enum outcome outcome = OUTCOME_BLOCKED;
		if (b->lock == LOCK_PATIENT && (outcome = batch_wait_for_stranger(b, deadline_ns)) == OUTCOME_ANSWERED)
			b->lock = LOCK_WAIT;
		if (b->lock != LOCK_PATIENT)
			outcome = batch_attempt(b, deadline_ns);
		if ((outcome == OUTCOME_AGAIN && moves > AGAIN_MAX) || (outcome == OUTCOME_BLOCKED && b->lock == LOCK_SKIP))
			outcome = OUTCOME_RETRY;
		switch (outcome) {
		case OUTCOME_ANSWERED:
			if (finds_out)
				atomic_store(&all->abandoned, 0); /* that session has ended, one way or the other */
			atomic_store(&all->refused_until_ns, 0);
			break;
		case OUTCOME_AGAIN:
			metric_add(METRIC_BATCH_RETRIES, 1);
			break;
		case OUTCOME_RETRY:
			retry(b);
			break;
		case OUTCOME_BLOCKED:
			/* First around the stranger; who came back for that row waits for it, to the deadlines. */
			if (b->lock == LOCK_WAIT)
				b->lock = LOCK_SKIP;
			break;
		case OUTCOME_RECONNECT:
			reconnect(b);
			break;
		case OUTCOME_UNKNOWN:
			unknown(b);
			break;
		case OUTCOME_UNAVAILABLE:
			refuse_unavailable(b);
			break;
		case OUTCOME_SINGLY:
			run_singly(b);
			break;
		case OUTCOME_CULPRIT:
			if (b->count > 1)
				run_singly(b);
			else
				blame(b);
			break;
		}
	}
	arena_done(&b->extra_arena);
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

static void *writer_main(void *context)
{
	struct writer *w = context;
	struct queue *queue = w->all->queue;
	struct batch *b = calloc(1, sizeof *b);
	CHECK(b);
	for (;;) {
		memset(b, 0, sizeof *b);
		b->writer = w;
		b->count = queue_take(queue, w->index, b->operations);
		if (!b->count)
			break;
		if (b->operations[0]->blocked_claim)
			b->lock = LOCK_PATIENT;
		int64_t started = clock_boottime_ns();
		b->claims_lent = true;
		batch_run(b);
		if (b->claims_lent)
			queue_finish(queue, w->index);
		metric_observe_ns(METRIC_BATCH_SECONDS, clock_boottime_ns() - started);
	}
	free(b);
	return NULL;
}

struct writers *writers_start(const struct config *config, const struct redis_address *redis, struct epoch *epoch,
                              struct queue *queue)
{
	struct writers *all = calloc(1, sizeof *all);
	CHECK(all);
	*all = (struct writers){.config = config,
	                        .epoch = epoch,
	                        .queue = queue,
	                        .count = (unsigned)config->writers,
	                        .refused_mutex = PTHREAD_MUTEX_INITIALIZER};
	all->list = calloc(all->count, sizeof *all->list);
	CHECK(all->list);
	for (unsigned i = 0; i < all->count; i++) {
		struct writer *w = &all->list[i];
		w->all = all;
		w->index = i;
		w->pg = pg_new(&(struct pg_options){.url = config->database_url,
		                                    .role = "lastunit_service",
		                                    .application_name = "lastunit writer",
		                                    .lock_timeout_ms = config->lock_timeout_ms,
		                                    .statement_timeout_ms = config->statement_timeout_ms,
		                                    .idle_in_transaction_timeout_ms = config->statement_timeout_ms});
		w->redis = redis ? redis_new(redis) : NULL;
		arena_init(&w->arena, 64 * 1024);
		CHECK(pthread_create(&w->thread, NULL, writer_main, w) == 0);
	}
	return all;
}

void writers_stop(struct writers *all)
{
	for (unsigned i = 0; i < all->count; i++) {
		struct writer *w = &all->list[i];
		CHECK(pthread_join(w->thread, NULL) == 0);
		pg_free(w->pg);
		if (w->redis)
			redis_free(w->redis);
		arena_done(&w->arena);
	}
	free(all->list);
	free(all);
}
