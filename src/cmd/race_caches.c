/* Caches in front of the stock, raced: each is first shown step by step, then under a short random load (race_cache.h).
 *
 * Happy path, for each kind: a SKU of one unit and the interleaving of three clients; a SKU of many, two sellers and four
 * readers for options.run_ms. A reader notes what had been answered and shown before it looks, and judges what it is
 * shown against that: no clock decides, only the order of events, so a read that overlaps a sale is never called stale.
 * Failure modes: without Redis, or for ours without a service, a kind is not raced and says why. A backend that goes away
 * ends the part; the keys, all behind the scratch schema's name, are removed in any case.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"
#include "cmd/histogram.h"
#include "cmd/race_cache.h"

#define SELLERS 2
#define READERS 4
#define CLIENTS (SELLERS + READERS + CACHE_COPIES)
#define UNITS_PLENTY 1000000000
#define SELL_PAUSE_MS 8 /* between sales, at most */
#define LOOK_PAUSE_MS 1
#define CLEAN_MS 5000

struct load {
	const struct cache_kind *kind;
	struct cache_history history;
	atomic_bool end;
};

struct load_client {
	struct load *load;
	struct cache_client *client;
	pthread_t thread;
	bool failed;
	int copy; /* of a feeder */
	int64_t writes, reads, stale, gone_back, late_ns_max;
	struct histogram took_us;
};

/* --- the judge ---------------------------------------------------------------------------------------------------- */

static void raise_to(atomic_int_least64_t *to, int64_t value)
{
	int64_t seen = atomic_load(to);
	while (seen < value && !atomic_compare_exchange_weak(to, &seen, value))
		;
}

void cache_answered(struct cache_history *history, int64_t version, int64_t now_ns)
{
	CHECK(version > 0 && version < CACHE_VERSIONS_MAX);
	atomic_store(&history->at_ns[version], now_ns);
	raise_to(&history->answered, version);
}

struct cache_before cache_before(struct cache_history *history, int64_t now_ns)
{
	return (struct cache_before){atomic_load(&history->answered), atomic_load(&history->seen), now_ns};
}

struct cache_judgement cache_judge(struct cache_history *history, struct cache_before before, int64_t version)
{
	struct cache_judgement judgement = {.stale = version < before.answered, .gone_back = version < before.seen};
	int64_t first_ns = 0;
	/* Answers need not come in the order of versions; the first of them made this figure old. */
	for (int64_t newer = version + 1; newer <= before.answered; newer++) {
		int64_t at_ns = atomic_load(&history->at_ns[newer]);
		if (at_ns && (!first_ns || at_ns < first_ns))
			first_ns = at_ns;
	}
	if (judgement.stale && first_ns && before.at_ns > first_ns)
		judgement.late_ns = before.at_ns - first_ns;
	raise_to(&history->seen, version);
	return judgement;
}

/* --- the load ----------------------------------------------------------------------------------------------------- */

static bool goes_on(struct load *load)
{
	return !atomic_load(&load->end) && !race_stopping() &&
	       atomic_load(&load->history.answered) < CACHE_VERSIONS_MAX - 2 * CLIENTS;
}

/* Its backend is gone: then the others need not go on either. */
static void *give_up(struct load_client *c)
{
	c->failed = true;
	atomic_store(&c->load->end, true);
	return NULL;
}

static void *sells(void *context)
{
	struct load_client *c = context;
	bool sold = false;
	int64_t version;
	while (goes_on(c->load)) {
		if (!c->load->kind->sell(c->client, &sold, &version))
			return give_up(c);
		if (sold) {
			cache_answered(&c->load->history, version, clock_boottime_ns());
			c->writes++;
		}
		clock_sleep_until(clock_boottime_ns() + (int64_t)cache_random(c->client, SELL_PAUSE_MS * NS_PER_MS));
	}
	return NULL;
}

static void *looks(void *context)
{
	struct load_client *c = context;
	struct cache_figure figure;
	while (goes_on(c->load)) {
		struct cache_before before = cache_before(&c->load->history, clock_boottime_ns());
		if (!c->load->kind->look(c->client, &figure))
			return give_up(c);
		histogram_record(&c->took_us, (clock_boottime_ns() - before.at_ns) / 1000);
		struct cache_judgement judgement = cache_judge(&c->load->history, before, figure.version);
		c->reads++;
		c->stale += judgement.stale;
		c->gone_back += judgement.gone_back;
		if (judgement.late_ns > c->late_ns_max)
			c->late_ns_max = judgement.late_ns;
		clock_sleep_until(clock_boottime_ns() + (int64_t)cache_random(c->client, LOOK_PAUSE_MS * NS_PER_MS));
	}
	return NULL;
}

static void *feeds(void *context)
{
	static const int64_t every_ms[CACHE_COPIES] = {20, 100};
	struct load_client *c = context;
	while (goes_on(c->load)) {
		if (!cache_copy_feed(c->client, c->copy))
			return give_up(c);
		clock_sleep_until(deadline_in_ms(every_ms[c->copy]));
	}
	return NULL;
}

static void add_up(struct race_cache *cache, const struct load_client *clients, int64_t units)
{
	struct histogram *all = calloc(1, sizeof *all);
	CHECK(all);
	for (size_t i = 0; i < CLIENTS; i++) {
		const struct load_client *c = &clients[i];
		cache->writes += c->writes;
		cache->reads += c->reads;
		cache->stale += c->stale;
		cache->gone_back += c->gone_back;
		if ((double)c->late_ns_max / 1e6 > cache->stale_ms_max)
			cache->stale_ms_max = (double)c->late_ns_max / 1e6;
		histogram_add(all, &c->took_us);
	}
	if (cache->writes > units)
		cache->oversold += cache->writes - units;
	cache->p50_ms = (double)histogram_percentile(all, 50) / 1000;
	cache->p99_ms = (double)histogram_percentile(all, 99) / 1000;
	free(all);
}

/* False: why of the client that failed in ret_why. */
static bool load_run(const struct cache_kind *kind, struct cache_client *clients, struct race_cache *cache,
                     const char **ret_why)
{
	struct load load = {.kind = kind};
	struct load_client *all = calloc(CLIENTS, sizeof *all);
	size_t started = SELLERS + READERS + (kind->feeds ? CACHE_COPIES : 0);
	bool good = true;
	load.history.at_ns = calloc(CACHE_VERSIONS_MAX, sizeof *load.history.at_ns);
	CHECK(all && load.history.at_ns);
	for (size_t i = 0; i < started; i++) {
		struct load_client *c = &all[i];
		*c = (struct load_client){.load = &load, .client = &clients[i]};
		c->client->pauses = true;
		c->copy = (int)i - SELLERS - READERS;
		CHECK(pthread_create(&c->thread, NULL, i < SELLERS ? sells : i < SELLERS + READERS ? looks : feeds, c) == 0);
	}
	int64_t deadline_ns = deadline_in_ms(clients->bench->race->options.run_ms);
	while (deadline_left_ms(deadline_ns) && goes_on(&load))
		clock_sleep_until(deadline_in_ms(10) < deadline_ns ? deadline_in_ms(10) : deadline_ns);
	atomic_store(&load.end, true);
	for (size_t i = 0; i < started; i++) {
		pthread_join(all[i].thread, NULL);
		clients[i].pauses = false;
		if (all[i].failed) {
			*ret_why = clients[i].why;
			good = false;
		}
	}
	add_up(cache, all, clients->bench->units);
	free(load.history.at_ns);
	free(all);
	return good;
}

/* --- the part ----------------------------------------------------------------------------------------------------- */

static void name_sku(struct cache_bench *bench, const struct cache_kind *kind, const char *what, int64_t units)
{
	snprintf(bench->sku, sizeof bench->sku, "%s-%s-%s", bench->race->scratch.schema, kind->name, what);
	bench->units = units;
}

static bool show_run(const struct cache_kind *kind, struct cache_client *clients, struct race_cache *cache,
                     const char **ret_why)
{
	struct cache_show show = {.cache = cache, .page = &clients[0], .till = &clients[1], .bot = &clients[2]};
	if (kind->put(show.till) && kind->show(&show))
		return true;
	for (size_t i = 0; i < 3; i++)
		if (*clients[i].why)
			*ret_why = clients[i].why;
	return false;
}

/* A service is made ready by the SKU of the load, so that its cache is there when the other one is sold. */
static bool race_one(const struct cache_kind *kind, struct cache_client *clients, struct race_cache *cache,
                     const char **ret_why)
{
	struct cache_bench *bench = clients->bench;
	int64_t units = kind->units ? kind->units : UNITS_PLENTY;
	bool tidy = kind->service && !bench->race->service.own;
	*ret_why = clients[0].why;
	name_sku(bench, kind, "many", units);
	if (!kind->put(&clients[0]) || (kind->ready && !kind->ready(&clients[0])))
		return false;
	name_sku(bench, kind, "one", 1);
	if (!show_run(kind, clients, cache, ret_why))
		return false;
	if (tidy && !cache_service_tidy(&clients[0]))
		return false;
	name_sku(bench, kind, "many", units);
	bool good = load_run(kind, clients, cache, ret_why);
	return good && (!tidy || cache_service_tidy(&clients[0]));
}

static bool tables_make(struct cache_client *client)
{
	static const char *const tables[] =
		{"CREATE TABLE cached_stock (sku text PRIMARY KEY, on_hand bigint NOT NULL CHECK (on_hand >= 0),"
	     " version bigint NOT NULL) WITH (fillfactor = 50)",
	     "CREATE TABLE stock_copy (copy int, sku text, on_hand bigint NOT NULL, version bigint NOT NULL,"
	     " PRIMARY KEY (copy, sku)) WITH (fillfactor = 50)",
	     "CREATE TABLE counted_sale (sku text NOT NULL, channel int NOT NULL)"};
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
		if (pg_command(client->pg, tables[i], deadline_in_ms(CLEAN_MS)))
			return cache_fails(client, "PostgreSQL: %s", pg_error(client->pg)->message);
	return true;
}

/* Every key there may be, by name: a SCAN would read all of the user's Redis. */
static void keys_remove(struct cache_client *client)
{
	struct cache_bench *bench = client->bench;
	for (size_t k = 0; k < CACHE_KINDS; k++)
		for (size_t w = 0; w < 2; w++)
			for (int channel = -1; channel < CACHE_CHANNELS; channel++) {
				redisReply *reply __attribute__((cleanup(redis_reply_done))) = NULL;
				char key[160];
				name_sku(bench, &cache_kinds[k], w ? "many" : "one", 0);
				int size = snprintf(key, sizeof key, "%s:%s", bench->race->scratch.schema, bench->sku);
				if (channel >= 0)
					snprintf(key + size, sizeof key - (size_t)size, ":%d", channel);
				if (redis_call(client->redis, 2, (struct text[]){TEXT("DEL"), text_of(key)}, deadline_in_ms(CLEAN_MS),
				               &reply))
					return;
			}
}

static const char *obstacle(const struct race *race, const struct cache_kind *kind)
{
	if (!*race->options.redis_url)
		return "no --redis-url";
	return kind->service && !race->service.there ? race->service.why_not : NULL;
}

static bool race_all(struct race *race, struct cache_client *clients)
{
	bool good = true;
	for (size_t k = 0; good && k < CACHE_KINDS && !race_stopping(); k++) {
		const struct cache_kind *kind = &cache_kinds[k];
		struct race_cache *cache = &race->caches[k];
		const char *why = "";
		if (!cache->raced)
			continue;
		progress_show(&race->progress, "caches: %s", kind->name);
		good = race_one(kind, clients, cache, &why) || race_stopping();
		if (!good)
			snprintf(race->why, sizeof race->why, "the cache %s: %s", kind->name, why);
	}
	return good;
}

bool race_caches_run(struct race *race)
{
	const char *why;
	bool any = false, good = true;
	struct cache_bench bench = {.race = race};
	struct cache_client *clients = ARENA_ARRAY(&race->arena, CLIENTS, struct cache_client);
	race->caches = ARENA_ARRAY(&race->arena, CACHE_KINDS, struct race_cache);
	race->cache_count = CACHE_KINDS;
	for (size_t k = 0; k < CACHE_KINDS; k++) {
		struct race_cache *cache = &race->caches[k];
		const char *why_not = obstacle(race, &cache_kinds[k]);
		cache->name = cache_kinds[k].name;
		cache->does = cache_kinds[k].does;
		cache->must_hold = cache_kinds[k].must_hold;
		cache->raced = !why_not;
		any |= cache->raced;
		snprintf(cache->why_not, sizeof cache->why_not, "%s", why_not ? why_not : "");
	}
	if (!any)
		return true;
	CHECK(redis_address_parse(race->options.redis_url, &bench.redis, &why)); /* the command has looked at it */
	for (size_t i = 0; good && i < CLIENTS; i++) {
		good = cache_client_open(&clients[i], &bench, (uint64_t)race->options.seed + i) && (i || tables_make(clients));
		if (!good)
			snprintf(race->why, sizeof race->why, "the caches: %s", clients[i].why);
	}
	if (good) {
		good = race_all(race, clients);
		keys_remove(clients);
	}
	for (size_t i = 0; i < CLIENTS; i++)
		cache_client_close(&clients[i]);
	return good;
}

bool race_cache_holds(const struct race_cache *cache)
{
	for (size_t i = 0; i < cache->step_count; i++)
		if (cache->steps[i].wrong)
			return false;
	return cache->stale == 0 && cache->gone_back == 0 && cache->oversold == 0;
}
