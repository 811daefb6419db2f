/* The loaders: their threads, and look-ups in natural batches (loader.h).
 *
 * Happy path of look-ups: take all that wait → one ticket per absent cell (cas '' → F) → one SELECT on the primary →
 * answer what was selected → cas F → V. The ticket is had before the SELECT: whatever commits in between has removed
 * it (I6, I7).
 * Failure modes: a ticket refused or Redis away: answered all the same, not filled. PostgreSQL away: LU_DATABASE_
 * UNAVAILABLE. FENCED: reported, not filled. Past its deadline while waiting: LU_DEADLINE_EXCEEDED.
 * At most all loaders but one run queries (they may be slow), so look-ups are never stuck behind lists. Of queries each
 * asker's are taken in their order, and askers in turn: a search may take a second, and one client's are in no other's way.
 */
#include "inventory/loader_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/metrics.h"
#include "base/sync.h"
#include "base/text.h"
#include "inventory/prepare.h"

#define LOADS_MAX LU_CELLS_MAX /* look-ups taken at once: their distinct SKUs are one SELECT and one call of cas */
#define WAITING_MAX 200000     /* look-ups, queries and operations that may wait */

bool loader_again(struct loader *l, enum lu_error *error, int64_t deadline_ns, int *tries)
{
	if (*tries > 0 && (!*error || pg_connected(l->pg) || pg_error(l->pg)->class != PG_CONNECTION))
		return false;
	if ((*tries)++ == 2)
		return false;
	*error = pg_connect(l->pg, deadline_ns);
	if (*error) {
		*error = LU_DATABASE_UNAVAILABLE;
		return false;
	}
	return true;
}

/* --- look-ups ----------------------------------------------------------------------------------------------------- */

static int compare_loads(const void *a, const void *b)
{
	const struct load *x = *(struct load *const *)a, *y = *(struct load *const *)b;
	return text_compare(x->sku, y->sku);
}

/* The distinct SKUs of a batch, and what became of each. */
struct selection {
	struct text *skus;
	bool *fill; /* a cell was seen absent: try for a ticket */
	bool *ticketed;
	struct text *tickets;
	struct sku_figures_row *rows;
	size_t count;
};

static void add_to_selection(struct loader *l, struct selection *s, const struct load *load)
{
	if (!s->count || !text_equal(s->skus[s->count - 1], load->sku))
		s->skus[s->count++] = arena_text(&l->arena, load->sku); /* the load is gone when it has been delivered */
	s->fill[s->count - 1] |= load->fill;
}

/* cas on a subset; the result of each is put where it came from. False: Redis was no help. */
static bool cas(struct loader *l, const char *namespace, const struct selection *s, const size_t *which, size_t count,
                const struct text *old, const struct text *new, const int64_t *px_ms, bool *ret_done)
{
	struct text *skus = ARENA_ARRAY(&l->arena, count, struct text);
	for (size_t i = 0; i < count; i++)
		skus[i] = s->skus[which[i]];
	int64_t deadline_ns = deadline_in_ms(l->all->config->redis_timeout_ms);
	redisReply *reply __attribute__((cleanup(redis_reply_done))) = NULL;
	if (redis_connect(l->redis, deadline_ns))
		return false;
	switch (cell_run(l->redis, cell_cas(&l->arena, text_of(namespace), skus, old, new, px_ms, count), count,
	                 deadline_ns, &reply)) {
	case CELL_FENCED:
		epoch_report(l->all->epoch, namespace, "a fill was fenced");
		return false;
	case CELL_FAILED:
		return false;
	case CELL_OK:
		break;
	}
	for (size_t i = 0; i < count; i++)
		ret_done[which[i]] = reply->element[i]->integer == 1;
	return true;
}

static void take_tickets(struct loader *l, const char *namespace, struct selection *s)
{
	size_t *which = ARENA_ARRAY(&l->arena, s->count, size_t), count = 0;
	for (size_t i = 0; i < s->count; i++)
		if (s->fill[i])
			which[count++] = i;
	if (!count)
		return;
	struct text *old = ARENA_ARRAY(&l->arena, count, struct text);
	struct text *new = ARENA_ARRAY(&l->arena, count, struct text);
	int64_t *px_ms = ARENA_ARRAY(&l->arena, count, int64_t);
	for (size_t i = 0; i < count; i++) {
		char ticket[TOKEN_BYTES + 1];
		token_new(ticket);
		old[i] = TEXT("");
		new[i] = s->tickets[which[i]] = cell_ticket(&l->arena, ticket);
		px_ms[i] = CELL_TICKET_MS;
	}
	cas(l, namespace, s, which, count, old, new, px_ms, s->ticketed);
}

static void fill(struct loader *l, const char *namespace, struct selection *s)
{
	size_t *which = ARENA_ARRAY(&l->arena, s->count, size_t), count = 0;
	for (size_t i = 0; i < s->count; i++)
		if (s->ticketed[i] && s->rows[i].known && figures_possible(&s->rows[i].figures))
			which[count++] = i;
	if (!count)
		return;
	struct text *old = ARENA_ARRAY(&l->arena, count, struct text);
	struct text *new = ARENA_ARRAY(&l->arena, count, struct text);
	int64_t *px_ms = ARENA_ARRAY(&l->arena, count, int64_t);
	int64_t ttl_ms = l->all->config->cell_ttl_s * 1000;
	for (size_t i = 0; i < count; i++) {
		old[i] = s->tickets[which[i]];
		new[i] = cell_value(&l->arena, &s->rows[which[i]].figures, s->skus[which[i]]);
		px_ms[i] = ttl_ms + (int64_t)random_below((uint64_t)ttl_ms / 10 + 1);
	}
	cas(l, namespace, s, which, count, old, new, px_ms, s->ticketed);
}

/* An I that has stood for longer than a second: its writer may be dead. A refresh takes the row's lock, so it waits
 * for a writer that lives, and marks and publishes anew. */
struct healing {
	struct operation operation;
	struct arena arena;
	struct line line;
};

static void on_healed(struct operation *operation)
{
	struct healing *h = (struct healing *)operation;
	arena_done(&h->arena);
	free(h);
}

static void heal(struct loaders *all, struct text sku)
{
	struct healing *h = calloc(1, sizeof *h);
	CHECK(h);
	arena_init(&h->arena, 1024);
	h->line.sku = arena_text(&h->arena, sku);
	h->operation = (struct operation){.kind = OPERATION_REFRESH,
	                                  .arena = &h->arena,
	                                  .principal = {.channel = CHANNEL_SYSTEM},
	                                  .deadline_ns = deadline_in_ms(all->config->request_timeout_ms),
	                                  .lines = &h->line,
	                                  .line_count = 1,
	                                  .keeper = true,
	                                  .on_done = on_healed};
	if (operation_prepare(&h->operation)) {
		on_healed(&h->operation);
		return;
	}
	operation_claim(&h->operation);
	if (queue_submit(all->queue, &h->operation))
		on_healed(&h->operation);
}

void load_deliver(struct load *load, enum lu_error error, const struct sku_figures_row *row)
{
	load->error = error;
	if (!error) {
		load->known = row->known;
		load->figures = row->figures;
	}
	mailbox_post(load->mailbox, &load->item);
}

/* Answers those whose time is up; the earliest deadline of the rest, at most *deadline_ns. */
static size_t drop_late_loads(struct load **loads, size_t count, int64_t *deadline_ns)
{
	int64_t late_ns = deadline_in_ms(LOADER_LATE_MS);
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		if (loads[i]->deadline_ns <= late_ns) {
			load_deliver(loads[i], LU_DATABASE_UNAVAILABLE, NULL);
			continue;
		}
		if (loads[i]->deadline_ns < *deadline_ns)
			*deadline_ns = loads[i]->deadline_ns;
		loads[kept++] = loads[i];
	}
	return kept;
}

/* The SELECT, until the first of the deadlines: whose it was is answered, and the others' is asked again. */
static enum lu_error select_skus(struct loader *l, struct selection *s, struct load **loads, size_t *count)
{
	int64_t last_ns = deadline_in_ms(LOADER_SELECT_MS);
	enum lu_error error = LU_DATABASE_UNAVAILABLE;
	for (;;) {
		int64_t deadline_ns = last_ns;
		*count = drop_late_loads(loads, *count, &deadline_ns);
		if (*count == 0)
			return error;
		for (int tries = 0; loader_again(l, &error, deadline_ns, &tries);)
			error = sku_read(l->pg, &l->arena, s->skus, s->count, deadline_ns, &s->rows);
		if (!error || deadline_ns == last_ns || clock_boottime_ns() < deadline_ns)
			return error;
	}
}

static void run_loads(struct loader *l, struct load **loads, size_t count)
{
	arena_reset(&l->arena);
	qsort(loads, count, sizeof *loads, compare_loads);
	struct selection s = {.skus = ARENA_ARRAY(&l->arena, count, struct text),
	                      .fill = ARENA_ARRAY(&l->arena, count, bool),
	                      .ticketed = ARENA_ARRAY(&l->arena, count, bool),
	                      .tickets = ARENA_ARRAY(&l->arena, count, struct text)};
	for (size_t i = 0; i < count; i++)
		add_to_selection(l, &s, loads[i]);
	char namespace[CELL_NAMESPACE_BYTES + 1];
	bool lease = l->redis && epoch_lease(l->all->epoch, namespace);
	if (lease)
		take_tickets(l, namespace, &s); /* before the SELECT: that is the whole point (I6) */
	SYNC_POINT("ticketed");
	enum lu_error error = select_skus(l, &s, loads, &count);
	SYNC_POINT("selected");
	for (size_t i = 0, at = 0; i < count; i++) {
		while (!text_equal(s.skus[at], loads[i]->sku))
			at++;
		if (loads[i]->heal && !error)
			heal(l->all, s.skus[at]);
		if (error)
			load_deliver(loads[i], LU_DATABASE_UNAVAILABLE, NULL);
		else if (!figures_possible(&s.rows[at].figures)) /* of a SKU that is not known they are all 0 */
			load_deliver(loads[i], LU_INTERNAL, NULL);
		else
			load_deliver(loads[i], LU_OK, &s.rows[at]);
	}
	if (lease && !error)
		fill(l, namespace, &s);
	SYNC_POINT("filled");
}

/* --- queries ------------------------------------------------------------------------------------------------------ */

static void run_query(struct loader *l, struct query *query)
{
	query->error = LU_DEADLINE_EXCEEDED;
	if (clock_boottime_ns() < query->deadline_ns)
		for (int tries = 0; loader_again(l, &query->error, query->deadline_ns, &tries);)
			query->error = query->work(query, l->pg);
	query->on_done(query);
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

/* Under the mutex. */
static size_t take_loads(struct loaders *all, struct load **ret_loads)
{
	size_t count = 0;
	while (all->loads.first && count < LOADS_MAX) {
		ret_loads[count++] = all->loads.first;
		all->loads.first = all->loads.first->next;
	}
	if (!all->loads.first)
		LIST_INIT(&all->loads);
	all->waiting -= count;
	return count;
}

static size_t take_resolves(struct loaders *all, struct operation **ret_ops)
{
	size_t count = 0;
	while (all->resolves.first && count < LU_BATCH_OPERATIONS_MAX) {
		ret_ops[count++] = all->resolves.first;
		all->resolves.first = all->resolves.first->next;
	}
	if (!all->resolves.first)
		LIST_INIT(&all->resolves);
	all->waiting -= count;
	return count;
}

static struct query *take_query(struct loaders *all)
{
	if (!all->queries_waiting || (all->count > 1 && all->querying >= all->count - 1))
		return NULL;
	do
		all->turn = (all->turn + 1) % LOADER_TURNS;
	while (!all->queries[all->turn].first);
	struct query *query = all->queries[all->turn].first;
	all->queries[all->turn].first = query->next;
	if (!query->next)
		LIST_INIT(&all->queries[all->turn]);
	all->queries_waiting--;
	all->waiting--;
	all->querying++;
	return query;
}

static void *loader_main(void *context)
{
	struct loader *l = context;
	struct loaders *all = l->all;
	struct load **loads = malloc(LOADS_MAX * sizeof *loads);
	struct operation **ops = malloc(LU_BATCH_OPERATIONS_MAX * sizeof *ops);
	CHECK(loads && ops);
	unsigned turn = 0;
	pthread_mutex_lock(&all->mutex);
	for (;;) {
		/* One kind of work a turn, each kind in its turn: what hangs holds up one loader's turn, not three. */
		size_t load_count = 0, op_count = 0;
		struct query *query = NULL;
		for (int tried = 0; tried < 3 && !load_count && !op_count && !query; tried++) {
			switch (turn++ % 3) {
			case 0:
				load_count = take_loads(all, loads);
				break;
			case 1:
				op_count = take_resolves(all, ops);
				break;
			default:
				query = take_query(all);
				break;
			}
		}
		if (!load_count && !op_count && !query) {
			if (all->stopping && !all->waiting)
				break;
			pthread_cond_wait(&all->work, &all->mutex);
			continue;
		}
		pthread_mutex_unlock(&all->mutex);
		if (load_count)
			run_loads(l, loads, load_count);
		if (op_count)
			loader_run_resolves(l, ops, op_count);
		if (query)
			run_query(l, query);
		pthread_mutex_lock(&all->mutex);
		if (query) {
			all->querying--;
			pthread_cond_signal(&all->work); /* another query may have waited for its turn */
		}
	}
	pthread_cond_broadcast(&all->work);
	pthread_mutex_unlock(&all->mutex);
	free(loads);
	free(ops);
	return NULL;
}

/* Under the mutex. */
static enum lu_error admit(struct loaders *all)
{
	if (all->stopping)
		return LU_SHUTTING_DOWN;
	if (all->waiting >= WAITING_MAX)
		return LU_OVERLOADED;
	all->waiting++;
	pthread_cond_signal(&all->work);
	loader_late_wake(all);
	return LU_OK;
}

enum lu_error loaders_load(struct loaders *all, struct load *load)
{
	pthread_mutex_lock(&all->mutex);
	enum lu_error error = admit(all);
	if (!error)
		LIST_ADD(&all->loads, load);
	pthread_mutex_unlock(&all->mutex);
	return error;
}

enum lu_error loaders_query(struct loaders *all, struct query *query)
{
	pthread_mutex_lock(&all->mutex);
	enum lu_error error = admit(all);
	if (!error) {
		LIST_ADD(&all->queries[(uint64_t)query->asker % LOADER_TURNS], query);
		all->queries_waiting++;
	}
	pthread_mutex_unlock(&all->mutex);
	return error;
}

enum lu_error loaders_resolve(struct loaders *all, struct operation *operation)
{
	pthread_mutex_lock(&all->mutex);
	enum lu_error error = admit(all);
	if (!error)
		LIST_ADD(&all->resolves, operation);
	pthread_mutex_unlock(&all->mutex);
	return error;
}

struct loaders *loaders_start(const struct config *config, const struct redis_address *redis, struct epoch *epoch,
                              struct queue *queue)
{
	struct loaders *all = calloc(1, sizeof *all);
	CHECK(all);
	*all = (struct loaders){.config = config, .epoch = epoch, .queue = queue, .count = (unsigned)config->loaders};
	pthread_mutex_init(&all->mutex, NULL);
	pthread_cond_init(&all->work, NULL);
	LIST_INIT(&all->loads);
	for (size_t i = 0; i < LOADER_TURNS; i++)
		LIST_INIT(&all->queries[i]);
	LIST_INIT(&all->resolves);
	all->list = calloc(all->count, sizeof *all->list);
	CHECK(all->list);
	for (unsigned i = 0; i < all->count; i++) {
		struct loader *l = &all->list[i];
		l->all = all;
		l->pg = pg_new(&(struct pg_options){.url = config->database_url,
		                                    .role = "lastunit_service",
		                                    .application_name = "lastunit loader",
		                                    .statement_timeout_ms = config->statement_timeout_ms});
		l->redis = redis ? redis_new(redis) : NULL;
		arena_init(&l->arena, 64 * 1024);
		CHECK(pthread_create(&l->thread, NULL, loader_main, l) == 0);
	}
	loader_late_start(all);
	return all;
}

void loaders_stop(struct loaders *all)
{
	pthread_mutex_lock(&all->mutex);
	all->stopping = true;
	pthread_cond_broadcast(&all->work);
	pthread_mutex_unlock(&all->mutex);
	loader_late_stop(all);
	for (unsigned i = 0; i < all->count; i++) {
		struct loader *l = &all->list[i];
		pthread_join(l->thread, NULL);
		pg_free(l->pg);
		if (l->redis)
			redis_free(l->redis);
		arena_done(&l->arena);
	}
	pthread_cond_destroy(&all->work);
	pthread_mutex_destroy(&all->mutex);
	free(all->list);
	free(all);
}
