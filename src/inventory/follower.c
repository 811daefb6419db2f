/* The follower (follower.h).
 *
 * Happy path: while a tap is open, every POLL_MS: the changes behind our position, each SKU once with its figures as
 * they are; the batch goes to every tap that has started. A tap that was just opened gets START with the position
 * behind that batch instead.
 * Failure modes: PostgreSQL away: again, from the same position. Another PostgreSQL: RESET for all who had started.
 * A transaction that stays open holds the feed back: nothing comes, and lag_ms says so.
 */
#include "inventory/follower.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/container.h"
#include "base/log.h"
#include "base/metrics.h"

#define POLL_MS 50
#define LOOK_MS 1000        /* how often the lag is measured while nobody listens */
#define ENTRIES_MAX 2000    /* of the ledger, read at once */
#define ASK_MS 2000         /* for one answer of PostgreSQL */
#define TOLD_PER_S_MAX 1500 /* sends to clients, all loops together: some 2 % of a core */
#define REST_MS_MAX 1000    /* so a SKU that a great many watch is told of once a second at least */
#define LAG_WARNED_MS 10000

struct follower_batch {
	struct arena arena;
	struct follower_news news;
	size_t holders; /* taps that have yet to take it; under the mutex */
};

struct follower {
	const struct config *config;
	struct pg *pg;
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t wake;
	bool stopping;
	struct follower_tap *taps;
	size_t told; /* to clients, since it was last looked at */
	_Atomic int64_t lag_ms;
	/* the thread's own */
	bool positioned;
	struct feed_position position;
	bool lag_warned;
};

/* --- batches ------------------------------------------------------------------------------------------------------ */

static struct follower_batch *batch_new(enum follower_word word)
{
	struct follower_batch *batch = calloc(1, sizeof *batch);
	CHECK(batch);
	arena_init(&batch->arena, 4096);
	batch->news.word = word;
	return batch;
}

static void batch_free(struct follower_batch *batch)
{
	arena_done(&batch->arena);
	free(batch);
}

/* On the loop's thread. */
static void deliver(struct mailbox_item *item)
{
	struct follower_tap *tap = CONTAINER_OF(item, struct follower_tap, item);
	struct follower *f = tap->follower;
	struct follower_batch *batch = tap->batch;
	size_t told = 0;
	if (!tap->outdated) /* else, opened again or not: even a START is not the one that we go on from (E1) */
		told = tap->on_news(tap, &batch->news);
	pthread_mutex_lock(&f->mutex);
	tap->batch = NULL;
	f->told += told;
	bool last = --batch->holders == 0;
	pthread_cond_signal(&f->wake);
	pthread_mutex_unlock(&f->mutex);
	if (last)
		batch_free(batch);
}

/* Under the mutex, so that a tap that was removed gets nothing more. */
static void post(struct follower_tap *tap, struct follower_batch *batch)
{
	CHECK(!tap->batch);
	tap->batch = batch;
	tap->outdated = false;
	tap->item.deliver = deliver;
	batch->holders++;
	mailbox_post(tap->mailbox, &tap->item);
}

/* Under the mutex. Tells all that have started, or START to those that have not; frees what nobody wants. */
static void tell(struct follower *f, struct follower_batch *batch, bool started)
{
	for (struct follower_tap *tap = f->taps; tap; tap = tap->next)
		if (tap->open && tap->started == started && !tap->batch) {
			post(tap, batch);
			tap->started = batch->news.word != FOLLOWER_RESET;
		}
	if (!batch->holders)
		batch_free(batch);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static void note_state(struct follower *f, const struct feed_state *state)
{
	atomic_store_explicit(&f->lag_ms, state->lag_ms, memory_order_relaxed);
	metric_set(METRIC_FEED_LAG_MS, state->lag_ms);
	bool long_lag = state->lag_ms >= LAG_WARNED_MS;
	if (long_lag && !f->lag_warned)
		log_event(LOG_WARN,
		          "feed_held_back lag_ms=%lld why=\"a transaction that has written stays open: see pg_stat_activity\"",
		          (long long)state->lag_ms);
	f->lag_warned = long_lag;
}

static void observe(const struct feed_change *changes, size_t count)
{
	int64_t now_us = clock_unix_us();
	for (size_t i = 0; i < count; i++)
		metric_observe_ns(METRIC_FEED_SECONDS, now_us > changes[i].at_us ? (now_us - changes[i].at_us) * 1000 : 0);
}

/* One look. Returns the batch for those who have started (NULL: nothing new), *ret_more when there is more to read at
 * once. False: PostgreSQL is not to be had. */
static bool look(struct follower *f, struct follower_batch **ret_batch, bool *ret_more)
{
	int64_t deadline_ns = deadline_in_ms(ASK_MS);
	struct feed_state state;
	struct feed_change *changes;
	size_t count;
	*ret_batch = NULL;
	*ret_more = false;
	if (pg_connect(f->pg, deadline_ns))
		return false;
	struct follower_batch *batch = batch_new(FOLLOWER_CHANGES);
	enum lu_error error = f->positioned ? feed_changes(f->pg, &batch->arena, &f->position, ENTRIES_MAX, deadline_ns,
	                                                   &state, &changes, &count, ret_more)
	                                    : feed_look(f->pg, &batch->arena, deadline_ns, &state);
	if (error) {
		batch_free(batch);
		return false;
	}
	note_state(f, &state);
	if (!f->positioned || !feed_has(&state, &f->position)) {
		batch->news.word = FOLLOWER_RESET;
		*ret_more = false;
		f->position = state.now;
		f->positioned = true;
	} else {
		if (count)
			f->position = changes[count - 1].position;
		batch->news.changes = changes;
		batch->news.change_count = count;
		observe(changes, count);
	}
	batch->news.position = f->position;
	if (batch->news.word == FOLLOWER_CHANGES && !batch->news.change_count)
		batch_free(batch);
	else
		*ret_batch = batch;
	return true;
}

/* How the feed stands, for the metric: nobody listens. */
static void look_idly(struct follower *f)
{
	int64_t deadline_ns = deadline_in_ms(ASK_MS);
	struct feed_state state;
	struct arena arena;
	f->positioned = false;
	if (pg_connect(f->pg, deadline_ns))
		return;
	arena_init(&arena, 0);
	if (!feed_look(f->pg, &arena, deadline_ns, &state))
		note_state(f, &state);
	arena_done(&arena);
}

/* --- the thread --------------------------------------------------------------------------------------------------- */

/* Under the mutex. */
static bool any(const struct follower *f, bool (*is)(const struct follower_tap *tap))
{
	for (const struct follower_tap *tap = f->taps; tap; tap = tap->next)
		if (is(tap))
			return true;
	return false;
}

static bool is_open(const struct follower_tap *tap)
{
	return tap->open;
}

static bool is_busy(const struct follower_tap *tap)
{
	return tap->batch;
}

static bool is_new(const struct follower_tap *tap)
{
	return tap->open && !tap->started;
}

/* Under the mutex, which is given up meanwhile: a wait that a new tap, or the end, cuts short. */
static void rest(struct follower *f, int64_t ms)
{
	int64_t until_ns = deadline_in_ms(ms);
	while (!f->stopping && !any(f, is_new) && clock_cond_wait(&f->wake, &f->mutex, until_ns))
		continue;
}

/* What was told must have cost its share of time before more is read. */
static int64_t rest_ms(struct follower *f)
{
	int64_t ms = (int64_t)f->told * 1000 / TOLD_PER_S_MAX;
	f->told = 0;
	return ms < POLL_MS ? POLL_MS : ms > REST_MS_MAX ? REST_MS_MAX : ms;
}

/* Under the mutex. One look and what follows from it. */
static void pass(struct follower *f)
{
	struct follower_batch *batch;
	bool more;
	pthread_mutex_unlock(&f->mutex);
	bool read = look(f, &batch, &more);
	pthread_mutex_lock(&f->mutex);
	if (batch)
		tell(f, batch, true);
	if (read && any(f, is_new)) {
		struct follower_batch *start = batch_new(FOLLOWER_START);
		start->news.position = f->position;
		tell(f, start, false);
	}
	while (!f->stopping && any(f, is_busy))
		clock_cond_wait(&f->wake, &f->mutex, deadline_in_ms(LOOK_MS));
	rest(f, more ? rest_ms(f) / 2 : rest_ms(f));
	if (!read && any(f, is_new)) /* rest() does not wait for those */
		clock_cond_wait(&f->wake, &f->mutex, deadline_in_ms(POLL_MS));
}

static void *follower_main(void *context)
{
	struct follower *f = context;
	pthread_mutex_lock(&f->mutex);
	while (!f->stopping) {
		if (any(f, is_open)) {
			pass(f);
			continue;
		}
		pthread_mutex_unlock(&f->mutex);
		look_idly(f);
		pthread_mutex_lock(&f->mutex);
		rest(f, LOOK_MS);
	}
	pthread_mutex_unlock(&f->mutex);
	return NULL;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct follower *follower_start(const struct config *config)
{
	struct follower *f = calloc(1, sizeof *f);
	CHECK(f);
	f->config = config;
	f->pg = pg_new(&(struct pg_options){.url = config->database_url,
	                                    .role = "lastunit_service",
	                                    .application_name = "lastunit follower",
	                                    .lock_timeout_ms = config->lock_timeout_ms,
	                                    .statement_timeout_ms = config->statement_timeout_ms,
	                                    .idle_in_transaction_timeout_ms = config->statement_timeout_ms});
	pthread_mutex_init(&f->mutex, NULL);
	clock_cond_init(&f->wake);
	CHECK(pthread_create(&f->thread, NULL, follower_main, f) == 0);
	return f;
}

void follower_stop(struct follower *f)
{
	pthread_mutex_lock(&f->mutex);
	CHECK(!f->taps);
	f->stopping = true;
	pthread_cond_broadcast(&f->wake);
	pthread_mutex_unlock(&f->mutex);
	pthread_join(f->thread, NULL);
	pg_free(f->pg);
	pthread_cond_destroy(&f->wake);
	pthread_mutex_destroy(&f->mutex);
	free(f);
}

int64_t follower_lag_ms(const struct follower *f)
{
	return atomic_load_explicit(&f->lag_ms, memory_order_relaxed);
}

void follower_add(struct follower *f, struct follower_tap *tap)
{
	tap->follower = f;
	pthread_mutex_lock(&f->mutex);
	tap->next = f->taps;
	f->taps = tap;
	pthread_mutex_unlock(&f->mutex);
}

/* Under the mutex. */
static void shut(struct follower_tap *tap)
{
	tap->open = tap->started = false;
	tap->outdated = tap->batch;
}

void follower_remove(struct follower_tap *tap)
{
	struct follower *f = tap->follower;
	pthread_mutex_lock(&f->mutex);
	struct follower_tap **at = &f->taps;
	while (*at != tap)
		at = &(*at)->next;
	*at = tap->next;
	shut(tap);
	bool busy = tap->batch;
	pthread_mutex_unlock(&f->mutex);
	if (busy)
		mailbox_deliver(tap->mailbox);
	CHECK(!tap->batch);
}

void follower_open(struct follower_tap *tap)
{
	struct follower *f = tap->follower;
	pthread_mutex_lock(&f->mutex);
	if (!tap->open) {
		tap->open = true;
		pthread_cond_signal(&f->wake);
	}
	pthread_mutex_unlock(&f->mutex);
}

void follower_close(struct follower_tap *tap)
{
	struct follower *f = tap->follower;
	pthread_mutex_lock(&f->mutex);
	shut(tap);
	pthread_mutex_unlock(&f->mutex);
}
