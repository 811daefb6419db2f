/* The reaper (reaper.h).
 *
 * Happy path: ask which reservations are due → one expire operation each → wait a moment for their answers → again.
 * Failure modes: PostgreSQL away: ask again in 100 ms. The queue is full: the rest is found again by the next question.
 * One expiry fails (a planted CHECK, a row locked for long): that reservation rests, the others go on. More fail than can
 * rest: each pass asks behind the last one's, so that they are in nobody's way. Many wait for one row: while SKU_FULL of
 * its SKU are under way no more of it are asked for, or they would take all places.
 */
#include "inventory/reaper.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/metrics.h"
#include "inventory/prepare.h"
#include "inventory/inventory_internal.h"
#include "store/idempotency.h"
#include "store/reservation.h"

#define PASS_MAX 256       /* expiries asked for at a time */
#define SKU_FULL 256       /* under way of one SKU: its row is locked, or it is very busy; no more are asked for */
#define UNDER_WAY_MAX 4096 /* of several such SKUs, and yet there is room for all others */
#define POLL_MS 100
#define RESTING_MAX 1024
#define REST_MS_MIN 1000
#define REST_MS_MAX 60000
#define ASK_MS 2000
#define PRUNE_EVERY_MS 60000
#define PRUNE_MAX 1000

struct rest {
	struct uuid id;
	int64_t until_ns;
	int64_t ms;
};

struct expiry {
	struct operation operation;
	struct reaper *reaper;
	struct arena arena;
	int64_t *sku_ids; /* of its lines */
	size_t sku_count;
};

struct reaper {
	const struct config *config;
	struct inventory *inventory;
	pthread_t thread;
	struct pg *pg;
	struct arena arena;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	bool stopping;
	struct expiry *under_way[UNDER_WAY_MAX]; /* not answered yet */
	size_t under_way_count;
	struct rest resting[RESTING_MAX]; /* under the mutex */
	size_t resting_count;
	int64_t after_us; /* the next pass asks for what is due behind these; 0: from the earliest */
	struct uuid after_id;
	int64_t prune_ns; /* when next */
};

/* --- reservations that are left alone for a while ----------------------------------------------------------------- */

static struct rest *find_rest(struct reaper *r, const struct uuid *id)
{
	for (size_t i = 0; i < r->resting_count; i++)
		if (uuid_equal(&r->resting[i].id, id))
			return &r->resting[i];
	return NULL;
}

static void rest(struct reaper *r, const struct uuid *id)
{
	struct rest *entry = find_rest(r, id);
	if (!entry && r->resting_count < RESTING_MAX) {
		entry = &r->resting[r->resting_count++];
		*entry = (struct rest){.id = *id, .ms = REST_MS_MIN / 2};
	}
	if (!entry)
		return; /* so many failures are one failure: they are all asked again in the next round */
	entry->ms = entry->ms * 2 < REST_MS_MAX ? entry->ms * 2 : REST_MS_MAX;
	entry->until_ns = deadline_in_ms(entry->ms);
}

static int compare_ids(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

/* Under the mutex. The SKUs that so many expiries are under way of that one more would only wait with them, and take the
 * place of those that need not wait. */
static void leave_full_skus(struct reaper *r, struct overdue_filter *filter)
{
	size_t count = 0, kept = 0;
	for (size_t i = 0; i < r->under_way_count; i++)
		count += r->under_way[i]->sku_count;
	int64_t *ids = filter->sku_ids = ARENA_ARRAY(&r->arena, count, int64_t);
	count = 0;
	for (size_t i = 0; i < r->under_way_count; i++)
		for (size_t j = 0; j < r->under_way[i]->sku_count; j++)
			ids[count++] = r->under_way[i]->sku_ids[j];
	if (count)
		qsort(ids, count, sizeof *ids, compare_ids);
	for (size_t first = 0, i = 1; i <= count; i++) {
		if (i < count && ids[i] == ids[first])
			continue;
		if (i - first >= SKU_FULL)
			ids[kept++] = ids[first];
		first = i;
	}
	filter->sku_count = kept;
}

/* Those not to be asked for: resting, or still under way. Who rested for very long without being asked about is
 * forgotten. */
static struct overdue_filter left_alone(struct reaper *r, size_t *ret_under_way)
{
	int64_t now = clock_boottime_ns();
	size_t kept = 0;
	struct overdue_filter filter = {.after_us = r->after_us,
	                                .after_id = r->after_id,
	                                .ids = ARENA_ARRAY(&r->arena, RESTING_MAX + UNDER_WAY_MAX, struct uuid)};
	pthread_mutex_lock(&r->mutex);
	for (size_t i = 0; i < r->resting_count; i++) {
		if (r->resting[i].until_ns + 2 * REST_MS_MAX * NS_PER_MS < now)
			continue;
		if (r->resting[i].until_ns > now)
			filter.ids[filter.count++] = r->resting[i].id;
		r->resting[kept++] = r->resting[i];
	}
	r->resting_count = kept;
	for (size_t i = 0; i < r->under_way_count; i++)
		filter.ids[filter.count++] = r->under_way[i]->operation.target;
	leave_full_skus(r, &filter);
	*ret_under_way = r->under_way_count; /* only this thread adds to them */
	pthread_mutex_unlock(&r->mutex);
	return filter;
}

/* --- one pass ----------------------------------------------------------------------------------------------------- */

/* Under the mutex. */
static void arrived(struct reaper *r, const struct expiry *x)
{
	for (size_t i = 0; i < r->under_way_count; i++)
		if (r->under_way[i] == x) {
			r->under_way[i] = r->under_way[--r->under_way_count];
			break;
		}
	pthread_cond_signal(&r->changed);
}

/* PostgreSQL away or everything overloaded is no fault of a reservation: the next pass finds it again. A row that a
 * stranger has locked for long is: the others must not wait with it. */
static bool deserves_rest(enum lu_error error)
{
	return error && error != LU_DATABASE_UNAVAILABLE && error != LU_OUTCOME_UNKNOWN && error != LU_OVERLOADED &&
	       error != LU_SHUTTING_DOWN;
}

static void on_expired(struct operation *operation)
{
	struct expiry *x = (struct expiry *)operation;
	struct reaper *r = x->reaper;
	pthread_mutex_lock(&r->mutex);
	if (deserves_rest(operation->verdict.error)) {
		metric_add(METRIC_EXPIRE_FAILURES, 1);
		rest(r, &operation->target);
	}
	arrived(r, x);
	pthread_mutex_unlock(&r->mutex);
	arena_done(&x->arena);
	free(x);
}

static bool submit(struct reaper *r, const struct reservation *reservation)
{
	struct expiry *x = calloc(1, sizeof *x);
	CHECK(x);
	x->reaper = r;
	arena_init(&x->arena, 512);
	x->sku_ids = ARENA_ARRAY(&x->arena, reservation->line_count, int64_t);
	for (size_t i = 0; i < reservation->line_count; i++)
		x->sku_ids[x->sku_count++] = reservation->lines[i].sku_id;
	struct operation *op = &x->operation;
	*op = (struct operation){.kind = OPERATION_EXPIRE,
	                         .arena = &x->arena,
	                         .principal = {.channel = CHANNEL_SYSTEM, .scopes = SCOPE_ORDERS},
	                         .deadline_ns = deadline_in_ms(r->config->request_timeout_ms),
	                         .target = reservation->id,
	                         .keeper = true,
	                         .on_done = on_expired};
	enum lu_error error = operation_prepare(op);
	CHECK(!error);
	operation_add_skus(op, reservation->lines, reservation->line_count);
	operation_claim(op);
	pthread_mutex_lock(&r->mutex);
	r->under_way[r->under_way_count++] = x;
	pthread_mutex_unlock(&r->mutex);
	if (!queue_submit(r->inventory->queue, op))
		return true;
	pthread_mutex_lock(&r->mutex);
	arrived(r, x);
	pthread_mutex_unlock(&r->mutex);
	arena_done(&x->arena);
	free(x);
	return false;
}

/* Refusals' details may go after a day (sql/README.md): a little now and then, and while there is more, in each pass. An
 * error comes again. */
static void prune(struct reaper *r)
{
	size_t count;
	if (clock_boottime_ns() < r->prune_ns)
		return;
	r->prune_ns = deadline_in_ms(PRUNE_EVERY_MS);
	if (!idempotency_prune(r->pg, PRUNE_MAX, deadline_in_ms(ASK_MS), &count) && count == PRUNE_MAX)
		r->prune_ns = 0;
}

/* Most of a pass is answered at once; who is not, because its row is locked, is not waited for, then or later. */
static void wait_for_answers(struct reaper *r, size_t stuck)
{
	int64_t until_ns = deadline_in_ms(POLL_MS);
	pthread_mutex_lock(&r->mutex);
	while (r->under_way_count > stuck && clock_cond_wait(&r->changed, &r->mutex, until_ns))
		continue;
	pthread_mutex_unlock(&r->mutex);
}

/* Returns how long to sleep; 0: there is more to do. */
static int64_t pass(struct reaper *r)
{
	int64_t deadline_ns = deadline_in_ms(ASK_MS);
	arena_reset(&r->arena);
	size_t count, stuck;
	struct overdue_filter filter = left_alone(r, &stuck);
	size_t room = UNDER_WAY_MAX - stuck < PASS_MAX ? UNDER_WAY_MAX - stuck : PASS_MAX;
	struct reservation **due;
	int64_t next_us;
	if (pg_connect(r->pg, deadline_ns))
		return POLL_MS * NS_PER_MS;
	prune(r);
	if (!room || reservation_overdue(r->pg, &r->arena, &filter, room, deadline_ns, &due, &count, &next_us))
		return POLL_MS * NS_PER_MS;
	size_t submitted = 0;
	while (submitted < count && submit(r, due[submitted]))
		submitted++;
	if (submitted) {
		r->after_us = due[submitted - 1]->expires_us;
		r->after_id = due[submitted - 1]->id;
	}
	if (count < room && submitted == count) { /* the round is over */
		r->after_us = 0;
		r->after_id = (struct uuid){0};
	}
	wait_for_answers(r, stuck);
	if (count == room && submitted == count)
		return 0;
	return next_us < POLL_MS * 1000 ? (next_us > 0 ? next_us * 1000 : NS_PER_MS) : POLL_MS * NS_PER_MS;
}

static void *reaper_main(void *context)
{
	struct reaper *r = context;
	pthread_mutex_lock(&r->mutex);
	while (!r->stopping) {
		pthread_mutex_unlock(&r->mutex);
		int64_t until_ns = pass(r);
		until_ns += clock_boottime_ns();
		pthread_mutex_lock(&r->mutex);
		while (!r->stopping && clock_cond_wait(&r->changed, &r->mutex, until_ns))
			continue;
	}
	pthread_mutex_unlock(&r->mutex);
	return NULL;
}

struct reaper *reaper_start(const struct config *config, struct inventory *inventory)
{
	struct reaper *r = calloc(1, sizeof *r);
	CHECK(r);
	r->config = config;
	r->inventory = inventory;
	pthread_mutex_init(&r->mutex, NULL);
	clock_cond_init(&r->changed);
	arena_init(&r->arena, 64 * 1024);
	r->pg = pg_new(&(struct pg_options){.url = config->database_url,
	                                    .role = "lastunit_service",
	                                    .application_name = "lastunit reaper",
	                                    .statement_timeout_ms = config->statement_timeout_ms});
	CHECK(pthread_create(&r->thread, NULL, reaper_main, r) == 0);
	return r;
}

void reaper_stop(struct reaper *r)
{
	pthread_mutex_lock(&r->mutex);
	r->stopping = true;
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->mutex);
	pthread_join(r->thread, NULL);
	pthread_mutex_lock(&r->mutex);
	while (r->under_way_count)
		pthread_cond_wait(&r->changed, &r->mutex);
	pthread_mutex_unlock(&r->mutex);
	pg_free(r->pg);
	arena_done(&r->arena);
	pthread_cond_destroy(&r->changed);
	pthread_mutex_destroy(&r->mutex);
	free(r);
}
