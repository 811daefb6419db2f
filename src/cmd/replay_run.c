/* A replay: its clients and its phases (replay_run.h).
 *
 * Happy path: four phases, each of them all clients taking the next piece of work until there is none.
 * Failure modes: replay_stop() ends the phase and the replay; violations do not.
 */
#include "cmd/replay_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/text.h"
#include "cmd/replay_client.h"

enum phase { PHASE_STOCK, PHASE_ORDERS, PHASE_HOLDS, PHASE_COUNT, PHASES };

static const char *const phase_names[PHASES] = {"stocking SKUs", "carts", "waiting for abandoned holds",
                                                "counting SKUs"};

struct worker {
	pthread_t thread;
	struct replay *replay;
	enum phase phase;
};

void replay_init(struct replay *replay, const struct replay_options *options, const struct order_book *book,
                 struct arena *arena)
{
	*replay = (struct replay){.options = *options, .book = book, .arena = arena};
	replay->skus = calloc(book->sku_count + 1, sizeof *replay->skus);
	CHECK(replay->skus);
	pthread_mutex_init(&replay->mutex, NULL);
	token_new(replay->run);
}

void replay_done(struct replay *replay)
{
	free(replay->skus);
	pthread_mutex_destroy(&replay->mutex);
}

void replay_violation(struct replay *replay, const char *format, ...)
{
	pthread_mutex_lock(&replay->mutex);
	if (replay->violations < REPLAY_VIOLATIONS_SHOWN) {
		va_list args;
		va_start(args, format);
		vsnprintf(replay->violation[replay->violations], REPLAY_SENTENCE_BYTES, format, args);
		va_end(args);
	}
	replay->violations++;
	pthread_mutex_unlock(&replay->mutex);
}

void replay_stop(struct replay *replay, const char *format, ...)
{
	pthread_mutex_lock(&replay->mutex);
	if (!replay->stop) {
		va_list args;
		va_start(args, format);
		vsnprintf(replay->why, sizeof replay->why, format, args);
		va_end(args);
	}
	replay->stop = true;
	pthread_mutex_unlock(&replay->mutex);
}

/* The next abandoned hold. */
static const struct replay_hold *hold_take(struct replay *replay)
{
	pthread_mutex_lock(&replay->mutex);
	struct replay_hold *hold = replay->holds;
	if (hold)
		replay->holds = hold->next;
	pthread_mutex_unlock(&replay->mutex);
	return hold;
}

static size_t work_count(const struct replay *replay, enum phase phase)
{
	switch (phase) {
	case PHASE_STOCK:
	case PHASE_COUNT:
		return replay->book->sku_count;
	case PHASE_ORDERS:
		return replay->book->order_count;
	default:
		return 0;
	}
}

static void *worker_run(void *argument)
{
	struct worker *worker = argument;
	struct replay *replay = worker->replay;
	struct replay_client client;
	replay_client_init(&client, replay);
	const struct replay_hold *hold;
	while (worker->phase == PHASE_HOLDS && !replay->stop && (hold = hold_take(replay))) {
		replay_await_hold(&client, hold);
		replay->done++;
	}
	size_t count = work_count(replay, worker->phase), index;
	while (!replay->stop && (index = atomic_fetch_add(&replay->next, 1)) < count) {
		if (worker->phase == PHASE_STOCK)
			replay_stock_sku(&client, index);
		else if (worker->phase == PHASE_ORDERS)
			replay_order(&client, index);
		else
			replay_count_sku(&client, index);
		replay->done++;
	}
	replay_client_done(&client);
	replay->running--;
	return NULL;
}

static void show(struct replay *replay, struct progress *progress, enum phase phase, int64_t start_ns)
{
	long long done = replay->done, of = (long long)work_count(replay, phase);
	double seconds = (double)(clock_boottime_ns() - start_ns) / 1e9;
	if (phase == PHASE_ORDERS)
		progress_show(progress, "%lld of %lld %s, %lld sold, %lld refused, %.0f carts/s", done, of,
		              text_plural(of, "cart", "carts"), (long long)replay->carts_sold, (long long)replay->carts_refused,
		              (double)done / (seconds + 0.001));
	else if (of)
		progress_show(progress, "%s: %lld of %lld", phase_names[phase], done, of);
	else
		progress_show(progress, "%s: %lld", phase_names[phase], done);
}

static void run_phase(struct replay *replay, struct progress *progress, enum phase phase)
{
	size_t count = (size_t)replay->options.clients;
	struct worker *workers = calloc(count, sizeof *workers);
	CHECK(workers);
	int64_t start_ns = clock_boottime_ns();
	replay->next = 0;
	replay->done = 0;
	replay->running = (int64_t)count;
	for (size_t i = 0; i < count; i++) {
		workers[i] = (struct worker){.replay = replay, .phase = phase};
		CHECK(pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]) == 0);
	}
	while (replay->running > 0) {
		show(replay, progress, phase, start_ns);
		clock_sleep_until(deadline_in_ms(20));
	}
	for (size_t i = 0; i < count; i++)
		pthread_join(workers[i].thread, NULL);
	free(workers);
	if (phase == PHASE_ORDERS)
		replay->play_ns = clock_boottime_ns() - start_ns;
}

bool replay_play(struct replay *replay, struct progress *progress)
{
	for (enum phase phase = PHASE_STOCK; phase < PHASES && !replay->stop; phase++)
		run_phase(replay, progress, phase);
	progress_done(progress);
	return !replay->stop;
}
