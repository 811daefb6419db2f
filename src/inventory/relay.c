/* The relay (relay.h; protocol: lua/README.md).
 *
 * Happy path: BEGIN · take records, see those that others have · read the epoch · invalidate · COMMIT.
 * Failure modes: Redis not to be had or FENCED: ROLLBACK (the records stay), the epoch is reported; once it is closed
 * nobody serves hits, so the records are dropped. Epoch closing: ROLLBACK, again: until it is closed leases may be out.
 * PostgreSQL away: again. Another relay frozen with records in its hands: their cells go all the same, the records stay
 * until its session ends. The records are read before the epoch: read the other way round, an epoch opened in between
 * could hold a cell filled before the change and never invalidated.
 */
#include "inventory/relay.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/sync.h"
#include "inventory/coherence.h"
#include "store/invalidation.h"

#define POLL_MS 100
#define PASS_MAX LU_CELLS_MAX
#define ASK_MS 2000

struct relay {
	const struct config *config;
	struct epoch *epoch;
	struct pg *pg;
	struct redis *redis; /* NULL: none configured */
	struct arena arena;
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t wake;
	bool stopping;
};

/* True when nobody serves a cell any more that is older than these records: those removed may be let go. */
static bool invalidate(struct relay *r, const struct invalidations *records)
{
	size_t count = records->count;
	const struct epoch_row *epoch = &records->epoch;
	if (count)
		SYNC_POINT("relay-taken");
	if (!count || epoch->state == EPOCH_CLOSED)
		return true;
	if (epoch->state == EPOCH_CLOSING)
		return false;
	struct text *skus = ARENA_ARRAY(&r->arena, count, struct text);
	int64_t *versions = ARENA_ARRAY(&r->arena, count, int64_t);
	for (size_t i = 0; i < count; i++) {
		skus[i] = records->items[i].sku;
		versions[i] = records->items[i].version;
	}
	struct coherence coherence;
	coherence_init(&coherence, r->redis, epoch->namespace);
	int64_t deadline_ns = deadline_in_ms(r->config->redis_timeout_ms);
	enum cell_reply reply = coherence_invalidate(&coherence, &r->arena, skus, versions, count, deadline_ns);
	if (reply != CELL_OK)
		epoch_report(r->epoch, epoch->namespace.data,
		             reply == CELL_FENCED ? "an invalidation was fenced" : "an invalidation failed");
	return reply == CELL_OK;
}

static void measure(const struct invalidations *records)
{
	int64_t oldest_us = INT64_MAX;
	for (size_t i = 0; i < records->removed; i++)
		if (records->items[i].at_us < oldest_us)
			oldest_us = records->items[i].at_us;
	int64_t lag_us = clock_unix_us() - oldest_us;
	metric_add(METRIC_RELAYED, (int64_t)records->rows);
	metric_observe_ns(METRIC_RELAY_SECONDS, lag_us > 0 ? lag_us * 1000 : 0);
}

/* True when there may be more to do at once. */
static bool pass(struct relay *r)
{
	int64_t deadline_ns = deadline_in_ms(ASK_MS);
	arena_reset(&r->arena);
	struct invalidations records;
	bool sent;
	if (pg_connect(r->pg, deadline_ns))
		return false;
	int64_t asked_ns = clock_boottime_ns();
	if (invalidation_take(r->pg, &r->arena, PASS_MAX, deadline_ns, &records) || !invalidate(r, &records)) {
		pg_rollback(r->pg, deadline_ns);
		return false;
	}
	if (records.removed) {
		SYNC_POINT("relay-invalidated");
		if (pg_commit(r->pg, deadline_ns, &sent)) /* lost: the records come back, and are invalidated once more */
			return false;
		measure(&records);
	} else {
		pg_rollback(r->pg, deadline_ns);
	}
	if (!records.more)
		epoch_relayed(r->epoch,
		              asked_ns); /* not before the cells are gone: who read past them must not see them again */
	return records.rows == PASS_MAX;
}

static void *relay_main(void *context)
{
	struct relay *r = context;
	pthread_mutex_lock(&r->mutex);
	while (!r->stopping) {
		pthread_mutex_unlock(&r->mutex);
		bool more = pass(r);
		int64_t until_ns = more ? 0 : deadline_in_ms(POLL_MS);
		pthread_mutex_lock(&r->mutex);
		while (!r->stopping && clock_cond_wait(&r->wake, &r->mutex, until_ns))
			continue;
	}
	pthread_mutex_unlock(&r->mutex);
	return NULL;
}

struct relay *relay_start(const struct config *config, const struct redis_address *redis, struct epoch *epoch)
{
	struct relay *r = calloc(1, sizeof *r);
	CHECK(r);
	r->config = config;
	r->epoch = epoch;
	r->pg = pg_new(&(struct pg_options){.url = config->database_url,
	                                    .role = "lastunit_service",
	                                    .application_name = "lastunit relay",
	                                    .lock_timeout_ms = config->lock_timeout_ms,
	                                    .statement_timeout_ms = config->statement_timeout_ms,
	                                    .idle_in_transaction_timeout_ms = config->statement_timeout_ms});
	r->redis = redis ? redis_new(redis) : NULL;
	arena_init(&r->arena, 4096);
	pthread_mutex_init(&r->mutex, NULL);
	clock_cond_init(&r->wake);
	CHECK(pthread_create(&r->thread, NULL, relay_main, r) == 0);
	return r;
}

void relay_stop(struct relay *r)
{
	pthread_mutex_lock(&r->mutex);
	r->stopping = true;
	pthread_cond_broadcast(&r->wake);
	pthread_mutex_unlock(&r->mutex);
	pthread_join(r->thread, NULL);
	pg_free(r->pg);
	if (r->redis)
		redis_free(r->redis);
	arena_done(&r->arena);
	pthread_cond_destroy(&r->wake);
	pthread_mutex_destroy(&r->mutex);
	free(r);
}
