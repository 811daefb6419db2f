/* The scrub (scrub.h).
 *
 * Happy path, once a second: a run of rows from a random place · their cells · compare. A V is right if it is not older
 * than the row selected *before* the cell was read, and if a V of that row's version has its figures.
 * What may differ rightly: a cell that is newer (a sale in between): its row is selected again and must have caught up.
 * A cell that is older: only by a direct SQL change that the relay has not relayed yet. It is looked at again after a
 * second, and is wrong if it still says the same though no record of a change is waiting: the relay removes the cell
 * first and the record after it. (A relay that is late is told by its own metric.)
 * Failure modes: no lease, Redis or PostgreSQL away: nothing is checked, nothing is counted.
 */
#include "inventory/scrub.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/text.h"
#include "store/invalidation.h"
#include "store/sku.h"

#define PASS_MS 1000
#define RECHECK_MS 1000
#define ASK_MS 2000

struct scrub {
	const struct config *config;
	struct epoch *epoch;
	struct pg *pg;
	struct redis *redis;
	struct arena arena;
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t wake;
	bool stopping;
};

/* Sleeps; false when it is time to stop. */
static bool rest(struct scrub *s, int64_t ms)
{
	int64_t until_ns = deadline_in_ms(ms);
	pthread_mutex_lock(&s->mutex);
	while (!s->stopping && clock_cond_wait(&s->wake, &s->mutex, until_ns))
		continue;
	bool go_on = !s->stopping;
	pthread_mutex_unlock(&s->mutex);
	return go_on;
}

/* A run of cells as they stand. False: Redis or the lease is away. */
static bool read_cells(struct scrub *s, const char *namespace, const struct text *skus, size_t count,
                       struct cell **ret_cells)
{
	int64_t deadline_ns = deadline_in_ms(s->config->redis_timeout_ms);
	if (redis_connect(s->redis, deadline_ns))
		return false;
	switch (cell_look(s->redis, &s->arena, text_of(namespace), skus, count, deadline_ns, ret_cells)) {
	case CELL_FENCED:
		epoch_report(s->epoch, namespace, "a scrub was fenced");
		return false;
	case CELL_FAILED:
		return false;
	case CELL_OK:
		break;
	}
	/* What was read when no hit may be served is nobody's answer. */
	return epoch_lease_covers(s->epoch, namespace);
}

static bool same(const struct figures *a, const struct figures *b)
{
	return a->version == b->version && a->on_hand == b->on_hand && a->reserved == b->reserved &&
	       a->safety_stock == b->safety_stock && a->tracked == b->tracked;
}

enum finding { RIGHT, OLDER, NEWER, WRONG };

static enum finding compare(const struct cell *cell, const struct figures *row)
{
	if (cell->state != CELL_VALUE)
		return RIGHT; /* nobody is shown anything */
	if (cell->figures.version != row->version)
		return cell->figures.version < row->version ? OLDER : NEWER;
	return same(&cell->figures, row) ? RIGHT : WRONG;
}

static void report_wrong(struct scrub *s, struct text sku, const struct cell *cell, const struct figures *row)
{
	metric_add(METRIC_SCRUB_WRONG, 1);
	log_event(LOG_ERROR, "cell_wrong sku=%s cell=%s version=%lld on_hand=%lld reserved=%lld", log_quote(sku),
	          log_quote(cell->raw), (long long)row->version, (long long)row->on_hand, (long long)row->reserved);
	/* Exactly these bytes, and nothing that a writer may have put there meanwhile, give way to a ticket that nobody
	 * holds and that ends by itself. */
	char namespace[CELL_NAMESPACE_BYTES + 1], ticket[TOKEN_BYTES + 1];
	token_new(ticket);
	struct text ticket_cell = cell_ticket(&s->arena, ticket);
	int64_t px_ms = CELL_TICKET_MS;
	redisReply *reply __attribute__((cleanup(redis_reply_done))) = NULL;
	if (epoch_lease(s->epoch, namespace))
		(void)cell_run(s->redis, cell_cas(&s->arena, text_of(namespace), &sku, &cell->raw, &ticket_cell, &px_ms, 1), 1,
		               deadline_in_ms(s->config->redis_timeout_ms), &reply);
}

/* Cells that were older than their rows, looked at again after the relay's time: the records first, then the cells. Who
 * still says the same, and has no record that waits, was forgotten. */
static void look_again(struct scrub *s, const char *namespace, const struct text *skus, const struct cell *first,
                       size_t count)
{
	struct cell *cells = NULL;
	struct sku_figures_row *rows;
	bool *waiting;
	if (!count || !rest(s, RECHECK_MS) || pg_connect(s->pg, deadline_in_ms(ASK_MS)) ||
	    invalidation_waiting(s->pg, &s->arena, skus, count, deadline_in_ms(ASK_MS), &waiting) ||
	    !read_cells(s, namespace, skus, count, &cells) ||
	    sku_read(s->pg, &s->arena, skus, count, deadline_in_ms(ASK_MS), &rows))
		return;
	for (size_t i = 0; i < count; i++)
		if (!waiting[i] && rows[i].known && compare(&cells[i], &rows[i].figures) == OLDER &&
		    text_equal(cells[i].raw, first[i].raw))
			report_wrong(s, skus[i], &cells[i], &rows[i].figures);
}

/* Cells that were newer than their rows: those rows, selected again, must have caught up by now. */
static void catch_up(struct scrub *s, const struct text *skus, const struct cell *cells, size_t count)
{
	struct sku_figures_row *rows;
	if (!count || sku_read(s->pg, &s->arena, skus, count, deadline_in_ms(ASK_MS), &rows))
		return;
	for (size_t i = 0; i < count; i++) {
		enum finding finding = rows[i].known ? compare(&cells[i], &rows[i].figures) : WRONG;
		if (finding == WRONG || finding == NEWER)
			report_wrong(s, skus[i], &cells[i], &rows[i].figures);
	}
}

/* Cells that differ from their rows, perhaps rightly. */
struct doubt {
	struct text *skus;
	struct cell *cells;
	size_t count;
};

static struct doubt doubt_new(struct scrub *s, size_t most)
{
	return (struct doubt){ARENA_ARRAY(&s->arena, most, struct text), ARENA_ARRAY(&s->arena, most, struct cell), 0};
}

static void doubt_add(struct doubt *doubt, struct text sku, const struct cell *cell)
{
	doubt->skus[doubt->count] = sku;
	doubt->cells[doubt->count++] = *cell;
}

static void pass(struct scrub *s)
{
	char namespace[CELL_NAMESPACE_BYTES + 1];
	arena_reset(&s->arena);
	int64_t deadline_ns = deadline_in_ms(ASK_MS);
	struct sku_page_row *rows;
	struct cell *cells;
	size_t count;
	if (!epoch_lease(s->epoch, namespace) || pg_connect(s->pg, deadline_ns) ||
	    sku_sample(s->pg, &s->arena, random_u64(), (size_t)s->config->scrub_per_s, deadline_ns, &rows, &count) ||
	    !count)
		return;
	struct text *skus = ARENA_ARRAY(&s->arena, count, struct text);
	for (size_t i = 0; i < count; i++)
		skus[i] = rows[i].code;
	if (!read_cells(s, namespace, skus, count, &cells))
		return;
	struct doubt newer = doubt_new(s, count), older = doubt_new(s, count);
	for (size_t i = 0; i < count; i++) {
		metric_add(METRIC_SCRUB_CHECKED, cells[i].state == CELL_VALUE);
		switch (compare(&cells[i], &rows[i].figures)) {
		case RIGHT:
			break;
		case WRONG:
			report_wrong(s, skus[i], &cells[i], &rows[i].figures);
			break;
		case NEWER:
			doubt_add(&newer, skus[i], &cells[i]);
			break;
		case OLDER:
			doubt_add(&older, skus[i], &cells[i]);
			break;
		}
	}
	catch_up(s, newer.skus, newer.cells, newer.count);
	look_again(s, namespace, older.skus, older.cells, older.count);
}

static void *scrub_main(void *context)
{
	struct scrub *s = context;
	while (rest(s, PASS_MS))
		if (s->redis && s->config->scrub_per_s)
			pass(s);
	return NULL;
}

struct scrub *scrub_start(const struct config *config, const struct redis_address *redis, struct epoch *epoch)
{
	struct scrub *s = calloc(1, sizeof *s);
	CHECK(s);
	s->config = config;
	s->epoch = epoch;
	s->pg = pg_new(&(struct pg_options){.url = config->database_url,
	                                    .role = "lastunit_service",
	                                    .application_name = "lastunit scrub",
	                                    .statement_timeout_ms = config->statement_timeout_ms});
	s->redis = redis ? redis_new(redis) : NULL;
	arena_init(&s->arena, 16 * 1024);
	pthread_mutex_init(&s->mutex, NULL);
	clock_cond_init(&s->wake);
	CHECK(pthread_create(&s->thread, NULL, scrub_main, s) == 0);
	return s;
}

void scrub_stop(struct scrub *s)
{
	pthread_mutex_lock(&s->mutex);
	s->stopping = true;
	pthread_cond_broadcast(&s->wake);
	pthread_mutex_unlock(&s->mutex);
	pthread_join(s->thread, NULL);
	pg_free(s->pg);
	if (s->redis)
		redis_free(s->redis);
	arena_done(&s->arena);
	pthread_cond_destroy(&s->wake);
	pthread_mutex_destroy(&s->mutex);
	free(s);
}
