/* The sweep: each strategy at each number of buyers on each workload, for a while.
 *
 * Happy path of one point: the tables anew; a session or an HTTP connection for each buyer; all begin at once and buy
 * until the time is over. When one of them is told that a SKU is sold out, all go on to its next generation, as a page that
 * says so would make them: last units are fought for all the time, and sold-out ones are not asked for again; then
 * three witnesses are heard (race_judge.h).
 * Failure modes: a buyer who meets what no strategy retries ends the sweep with its words; a signal ends it between two
 * carts.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/id.h"
#include "cmd/histogram.h"
#include "cmd/race_place.h"
#include "cmd/race_workload.h"

#define CALL_MS 10000
#define PROCESSES 2 /* of `process-mutex` */
#define PAUSE_DOUBLINGS 4
#define CUSTOMERS_PER_S 20000
#define UNITS_FOR_ALL 1000000000

struct point {
	struct race *race;
	const struct race_strategy *strategy;
	const struct race_workload *workload;
	int buyers;
	int64_t generations, skus, customers;
	_Atomic int32_t *generation;   /* of each slot, that is on sale now */
	_Atomic int32_t *answered;     /* of each SKU, or of each customer */
	_Atomic int64_t next_customer; /* every customer comes twice, to two buyers */
	uint64_t tag;                  /* of idempotency keys: a customer of this point is nobody else */
	pthread_mutex_t process[PROCESSES];
	pthread_barrier_t ready, go;
	int64_t start_ns, end_ns;
	pthread_mutex_t mutex; /* of what follows */
	bool failed;
	char why[512];
};

struct buyer {
	struct point *point;
	pthread_t thread;
	int number;
	struct pg *pg;
	struct http_caller *caller;
	uint64_t random;
	int64_t sold, refused, retries, deadlocks;
	int64_t last_ns;
	struct histogram latency; /* µs */
};

static void fail(struct point *point, const char *why)
{
	pthread_mutex_lock(&point->mutex);
	if (!point->failed)
		snprintf(point->why, sizeof point->why, "%s", why);
	point->failed = true;
	pthread_mutex_unlock(&point->mutex);
}

static bool has_failed(struct point *point)
{
	pthread_mutex_lock(&point->mutex);
	bool failed = point->failed;
	pthread_mutex_unlock(&point->mutex);
	return failed;
}

/* xorshift64*: the same seed draws the same carts. */
static uint64_t draw(struct buyer *buyer, uint64_t bound)
{
	buyer->random ^= buyer->random >> 12;
	buyer->random ^= buyer->random << 25;
	buyer->random ^= buyer->random >> 27;
	return (buyer->random * UINT64_C(2685821657736338717) >> 33) % bound;
}

/* --- one cart ----------------------------------------------------------------------------------------------------- */

static enum race_outcome attempt_sql(struct buyer *buyer, const struct race_cart *cart, unsigned *ret_short)
{
	struct point *point = buyer->point;
	struct race_try t;
	race_try_init(&t, point->strategy, buyer->pg, cart);
	pthread_mutex_t *process = point->strategy->mutex ? &point->process[buyer->number % PROCESSES] : NULL;
	if (process)
		pthread_mutex_lock(process);
	enum race_outcome outcome = race_look(&t, 0, cart->lines);
	if (outcome == RACE_GO_ON)
		outcome = race_write(&t);
	if (outcome == RACE_GO_ON)
		outcome = race_end(&t);
	if (process)
		pthread_mutex_unlock(process);
	/* The strategy may have sorted the lines. */
	*ret_short = t.short_lines == 3 || t.cart.skus[0] == cart->skus[0] ? t.short_lines
	                                                                   : (t.short_lines << 1 | t.short_lines >> 1) & 3;
	buyer->deadlocks += t.deadlock;
	race_try_done(&t);
	if (outcome == RACE_BROKEN) {
		char why[512];
		const struct pg_error *error = pg_error(buyer->pg);
		snprintf(why, sizeof why, "%s: %s %s", point->strategy->name, error->sqlstate, error->message);
		fail(point, why);
	}
	return outcome;
}

static enum race_outcome attempt_http(struct buyer *buyer, const struct race_cart *cart, const char *key,
                                      unsigned *ret_short)
{
	struct race_bought bought;
	enum race_outcome outcome = race_shop_buy(&buyer->point->race->service, buyer->caller, cart, key, &bought);
	if (outcome == RACE_BROKEN)
		fail(buyer->point, bought.why);
	/* Somebody came with this customer's key before: he has it. */
	if (outcome == RACE_SOLD && bought.replayed && buyer->point->workload->bit == RACE_ONCE)
		outcome = RACE_REFUSED;
	*ret_short = bought.short_lines;
	return outcome;
}

static void pause_before(int attempt)
{
	int doublings = attempt < PAUSE_DOUBLINGS ? attempt : PAUSE_DOUBLINGS;
	clock_sleep_until(clock_boottime_ns() + (int64_t)random_below((uint64_t)NS_PER_MS << doublings));
}

/* RACE_AGAIN: the time was over before there was an answer. */
static enum race_outcome buy(struct buyer *buyer, const struct race_cart *cart, unsigned *ret_short)
{
	struct point *point = buyer->point;
	char key[TOKEN_BYTES + 24];
	if (point->workload->bit == RACE_ONCE)
		snprintf(key, sizeof key, "race-%llx-%lld", (unsigned long long)point->tag, (long long)cart->customer);
	else
		token_new(key);
	for (int attempt = 0;; attempt++) {
		if (attempt > 1)
			pause_before(attempt - 1);
		if (attempt && (clock_boottime_ns() >= point->end_ns || race_stopping()))
			return RACE_AGAIN;
		buyer->retries += attempt > 0;
		enum race_outcome outcome = point->strategy->write ? attempt_sql(buyer, cart, ret_short)
		                                                   : attempt_http(buyer, cart, key, ret_short);
		if (outcome != RACE_AGAIN)
			return outcome;
	}
}

/* --- one buyer ---------------------------------------------------------------------------------------------------- */

/* False: everything there is has been sold. */
static bool fill_cart(struct buyer *buyer, struct race_cart *ret_cart)
{
	struct point *point = buyer->point;
	const struct race_workload *workload = point->workload;
	int slots[RACE_LINES_MAX];
	*ret_cart = (struct race_cart){.lines = workload->lines};
	if (workload->bit == RACE_ONCE) {
		ret_cart->customer = atomic_fetch_add(&point->next_customer, 1) / 2;
		return ret_cart->customer < point->customers;
	}
	ret_cart->customer = buyer->number;
	slots[0] = (int)draw(buyer, (uint64_t)workload->slots);
	if (workload->lines == 2)
		slots[1] = (slots[0] + 1 + (int)draw(buyer, (uint64_t)workload->slots - 1)) % workload->slots;
	for (int i = 0; i < workload->lines; i++) {
		int64_t generation = atomic_load(&point->generation[slots[i]]);
		if (generation >= point->generations)
			return false;
		ret_cart->skus[i] = generation * workload->slots + slots[i];
	}
	return true;
}

/* Of the slot of a SKU that was told to be sold out; many are told so at once. */
static void next_generation(struct point *point, int64_t sku)
{
	int32_t sold_out = (int32_t)(sku / point->workload->slots);
	atomic_compare_exchange_strong(&point->generation[sku % point->workload->slots], &sold_out, sold_out + 1);
}

static void count(struct buyer *buyer, const struct race_cart *cart, enum race_outcome outcome, unsigned short_lines,
                  int64_t begin_ns)
{
	struct point *point = buyer->point;
	if (outcome == RACE_SOLD) {
		buyer->sold++;
		buyer->last_ns = clock_boottime_ns();
		histogram_record(&buyer->latency, (buyer->last_ns - begin_ns) / 1000);
		for (int i = 0; i < cart->lines; i++)
			atomic_fetch_add(&point->answered[point->workload->bit == RACE_ONCE ? cart->customer : cart->skus[i]], 1);
	}
	if (outcome == RACE_REFUSED) {
		buyer->refused++;
		for (int i = 0; i < cart->lines && point->workload->bit != RACE_ONCE; i++)
			if (short_lines >> i & 1)
				next_generation(point, cart->skus[i]);
	}
}

static void fail_to_connect(struct point *point, const char *why)
{
	char hint[600];
	snprintf(hint, sizeof hint, "%s%s", why, point->buyers > 1 ? " (fewer --buyers need fewer sessions)" : "");
	fail(point, hint);
}

static void *shop(void *context)
{
	struct buyer *buyer = context;
	struct point *point = buyer->point;
	char why[512];
	if (!point->strategy->write)
		buyer->caller = http_caller_new(point->race->service.url, CALL_MS);
	else if (!(buyer->pg = race_session_open(point->race, why)))
		fail_to_connect(point, why);
	pthread_barrier_wait(&point->ready);
	pthread_barrier_wait(&point->go);
	struct race_cart cart;
	while (!has_failed(point) && !race_stopping() && fill_cart(buyer, &cart)) {
		unsigned short_lines = 0;
		int64_t begin_ns = clock_boottime_ns();
		if (begin_ns >= point->end_ns)
			break;
		enum race_outcome outcome = buy(buyer, &cart, &short_lines);
		count(buyer, &cart, outcome, short_lines, begin_ns);
	}
	pg_free(buyer->pg);
	http_caller_free(buyer->caller);
	return NULL;
}

/* --- one point of the sweep --------------------------------------------------------------------------------------- */

static void run_buyers(struct point *point, struct buyer *buyers)
{
	pthread_barrier_init(&point->ready, NULL, (unsigned)point->buyers + 1);
	pthread_barrier_init(&point->go, NULL, (unsigned)point->buyers + 1);
	for (int i = 0; i < point->buyers; i++) {
		struct buyer *buyer = &buyers[i];
		buyer->point = point;
		buyer->number = i;
		/* Odd multiples of the golden ratio: far apart, and never 0. */
		buyer->random = ((uint64_t)point->race->options.seed * 2 + 1) * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)i * 2;
		CHECK(pthread_create(&buyer->thread, NULL, shop, buyer) == 0);
	}
	pthread_barrier_wait(&point->ready);
	point->start_ns = clock_boottime_ns();
	point->end_ns = point->start_ns + point->race->options.run_ms * NS_PER_MS;
	pthread_barrier_wait(&point->go);
	for (int i = 0; i < point->buyers; i++)
		pthread_join(buyers[i].thread, NULL);
	pthread_barrier_destroy(&point->ready);
	pthread_barrier_destroy(&point->go);
}

static struct race_result sum(const struct point *point, const struct buyer *buyers)
{
	struct race_result r = {.strategy = point->strategy->name,
	                        .workload = point->workload->name,
	                        .buyers = point->buyers,
	                        .must_hold = point->strategy->must_hold};
	struct histogram *latency = calloc(1, sizeof *latency);
	CHECK(latency);
	int64_t last_ns = point->start_ns;
	for (int i = 0; i < point->buyers; i++) {
		const struct buyer *b = &buyers[i];
		r.sold += b->sold;
		r.refused += b->refused;
		r.retries += b->retries;
		r.deadlocks += b->deadlocks;
		last_ns = b->last_ns > last_ns ? b->last_ns : last_ns;
		histogram_add(latency, &b->latency);
	}
	r.p50_ms = (double)histogram_percentile(latency, 50) / 1000;
	r.p99_ms = (double)histogram_percentile(latency, 99) / 1000;
	r.sales_per_s = last_ns > point->start_ns ? (double)r.sold * 1e9 / (double)(last_ns - point->start_ns) : 0;
	free(latency);
	return r;
}

/* The service's rows: each sale is one entry of the ledger, and the version counts them. */
static bool look_shop(struct point *point, const struct race_shop_row *before, struct race_item *items)
{
	struct race_shop_row *after = calloc((size_t)point->skus, sizeof *after);
	CHECK(after);
	bool done = race_shop_look(point->race, point->skus, after);
	for (int64_t i = 0; done && i < point->skus; i++) {
		items[i].rows = after[i].version - before[i].version;
		items[i].left = after[i].on_hand;
	}
	free(after);
	return done;
}

/* Items: the SKUs; behind them, where each customer may have one, the customers. */
static bool judge(struct point *point, const struct race_shop_row *before, struct race_result *result)
{
	bool once = point->workload->bit == RACE_ONCE, http = !point->strategy->write;
	size_t count = (size_t)(point->skus + (once ? point->customers : 0));
	struct race_item *items = calloc(count, sizeof *items);
	CHECK(items);
	for (int64_t i = 0; i < point->skus; i++) {
		items[i].units = once ? UNITS_FOR_ALL : point->workload->units;
		items[i].left = items[i].units;
		items[i].answered = once ? result->sold : atomic_load(&point->answered[i]);
	}
	bool done = http ? look_shop(point, before, items) : race_scratch_look(point->race, point->skus, items);
	struct race_item *customers = items + point->skus;
	if (once && done && !http)
		done = race_scratch_look_customers(point->race, point->customers, customers);
	for (int64_t i = 0; once && i < point->customers; i++) {
		customers[i].units = 1;
		customers[i].answered = atomic_load(&point->answered[i]);
		if (http) /* whose a sale is, only the answers tell */
			customers[i].rows = customers[i].answered;
		customers[i].left = 1 - customers[i].rows;
	}
	struct race_verdict verdict = race_judge(items, count);
	result->oversold = verdict.oversold;
	result->lost = verdict.lost;
	result->correct = !verdict.oversold && !verdict.lost && (!point->strategy->cart_order || !result->deadlocks);
	free(items);
	return done;
}

static bool run_point(struct race *race, const struct race_strategy *strategy, const struct race_workload *workload,
                      int buyer_count)
{
	struct point point = {.race = race, .strategy = strategy, .workload = workload, .buyers = buyer_count};
	bool once = workload->bit == RACE_ONCE;
	point.generations = race_workload_generations(workload, race->options.run_ms);
	point.skus = point.generations * workload->slots;
	point.customers = once ? CUSTOMERS_PER_S * race->options.run_ms / 1000 + 1 : 0;
	point.tag = random_u64();
	point.answered = calloc((size_t)(point.skus + point.customers), sizeof *point.answered);
	struct buyer *buyers = calloc((size_t)buyer_count, sizeof *buyers);
	struct race_shop_row *before = calloc((size_t)point.skus, sizeof *before);
	point.generation = calloc((size_t)workload->slots, sizeof *point.generation);
	CHECK(point.answered && point.generation && buyers && before);
	pthread_mutex_init(&point.mutex, NULL);
	for (int i = 0; i < PROCESSES; i++)
		pthread_mutex_init(&point.process[i], NULL);
	int64_t units = once ? UNITS_FOR_ALL : workload->units;
	bool done = strategy->write ? race_scratch_stock(race, point.skus, units, strategy->checked, once)
	                            : race_shop_stock(race, point.skus, units, before);
	if (done) {
		run_buyers(&point, buyers);
		done = !point.failed || cmd_refuse(race->why, "%s", point.why);
	}
	if (done && !race_stopping()) {
		struct race_result *result = &race->results[race->result_count];
		*result = sum(&point, buyers);
		done = judge(&point, before, result);
		race->result_count += done;
	}
	pthread_mutex_destroy(&point.mutex);
	for (int i = 0; i < PROCESSES; i++)
		pthread_mutex_destroy(&point.process[i]);
	free(point.answered);
	free(point.generation);
	free(buyers);
	free(before);
	return done;
}

/* --- the sweep ---------------------------------------------------------------------------------------------------- */

static bool run_level(struct race *race, const struct race_workload *workload, int buyers)
{
	for (size_t s = 0; s < race_strategy_count && !race_stopping(); s++) {
		const struct race_strategy *strategy = &race_strategies[s];
		if (!(strategy->workloads & workload->bit) || !race_takes_part(race, strategy))
			continue;
		progress_show(&race->progress, "%s, %d %s: %s", workload->title, buyers, buyers == 1 ? "buyer" : "buyers",
		              strategy->name);
		if (!run_point(race, strategy, workload, buyers))
			return false;
	}
	return true;
}

bool race_sweep_run(struct race *race)
{
	int levels[RACE_LEVELS_MAX], level_count = race_levels(race->options.buyers_max, levels);
	int64_t skus_max = 0;
	bool done = true;
	race->results = ARENA_ARRAY(&race->arena, race_workload_count * RACE_LEVELS_MAX * race_strategy_count,
	                            struct race_result);
	for (size_t w = 0; done && w < race_workload_count; w++) {
		const struct race_workload *workload = &race_workloads[w];
		if (*race->options.workload && strcmp(race->options.workload, workload->name) != 0)
			continue;
		int64_t skus = race_workload_generations(workload, race->options.run_ms) * workload->slots;
		skus_max = skus > skus_max ? skus : skus_max;
		for (int l = 0; done && l < level_count; l++)
			done = run_level(race, workload, levels[l]);
	}
	/* A shop that was there before us is not left with stock that nobody has. */
	if (race->service.there && !race->service.own)
		race_shop_clear(race, skus_max);
	return done;
}
