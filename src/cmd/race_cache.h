/* The caches of the race from within: what a client can do, the kinds, and the exact interleavings.
 *
 *	race_caches.c         the command's part: clients, the load and its judge
 *	race_cache_client.c   one client's steps: stock row, cache entry, calls of the service
 *	race_cache_kinds.c    the table: how each kind sells and looks, made of those steps; and how it is shown wrong
 *
 * Every figure has a version, the number of sales so far, so that old and new can be told apart whatever the count.
 * Threads: a client belongs to one thread; struct cache_history is shared by all of a load.
 */
#ifndef CMD_RACE_CACHE_H
#define CMD_RACE_CACHE_H

#include <stdatomic.h>

#include "cache/redis.h"
#include "cmd/http_caller.h"
#include "cmd/race.h"

#define CACHE_TTL_MS 200
#define CACHE_NO_TTL_MS 600000 /* of keys that live without one: longer than a load, but not for ever */
#define CACHE_COPIES 2
#define CACHE_CHANNELS 2
#define CACHE_SKU_BYTES 96

struct cache_figure {
	int64_t left, version;
};

/* Where all clients of one kind work: rows in the scratch schema, keys behind the scratch schema's name. */
struct cache_bench {
	struct race *race;
	struct redis_address redis;
	char sku[CACHE_SKU_BYTES]; /* of the interleaving, then of the load */
	int64_t units;             /* there were of it */
	atomic_int_least64_t sold; /* channel-counter: units sold on all channels */
};

struct cache_client {
	struct cache_bench *bench;
	struct pg *pg;
	struct redis *redis;
	struct http_caller *caller; /* NULL: there is no service */
	struct arena arena;
	uint64_t random; /* state of its own generator */
	bool pauses;     /* between its steps, at random, as a busy process does */
	char why[300];   /* why a step could not be done */
};

bool cache_client_open(struct cache_client *client, struct cache_bench *bench, uint64_t seed);
void cache_client_close(struct cache_client *client);
/* A number below `bound`, of the client's own generator. */
uint64_t cache_random(struct cache_client *client, uint64_t bound);
/* Waits for up to `ms`, at random, if the client pauses. */
void cache_pause(struct cache_client *client, int64_t ms_max);

/* --- steps; false: client->why says what failed ------------------------------------------------------------------- */

/* The SKU's row with its units, and a copy of it in each copy. */
bool cache_stock_put(struct cache_client *client);
bool cache_stock_look(struct cache_client *client, struct cache_figure *ret_figure);
bool cache_begin(struct cache_client *client);
/* One unit less, by one conditional UPDATE. */
bool cache_stock_take(struct cache_client *client, bool *ret_sold, struct cache_figure *ret_figure);
bool cache_commit(struct cache_client *client);
bool cache_copy_feed(struct cache_client *client, int copy);
bool cache_copy_look(struct cache_client *client, int copy, struct cache_figure *ret_figure);

bool cache_entry_get(struct cache_client *client, bool *ret_found, struct cache_figure *ret_figure);
/* ttl_ms 0: none, as far as the race can see (CACHE_NO_TTL_MS). A race that is killed removes no key. */
bool cache_entry_set(struct cache_client *client, struct cache_figure figure, int64_t ttl_ms);
bool cache_entry_delete(struct cache_client *client);

bool cache_counter_put(struct cache_client *client, int channel);
bool cache_counter_get(struct cache_client *client, int channel, int64_t *ret_left);
/* DECR, taken back if there was none left; a sale is a row in PostgreSQL. */
bool cache_counter_take(struct cache_client *client, int channel, bool *ret_sold);

/* The service: its SKU made with the bench's units; sold; looked at (hit: Redis answered). */
bool cache_service_put(struct cache_client *client);
bool cache_service_sell(struct cache_client *client, bool *ret_sold, struct cache_figure *ret_figure);
bool cache_service_look(struct cache_client *client, struct cache_figure *ret_figure, bool *ret_hit);
/* In a shop of the user: nothing of it is left to sell. */
bool cache_service_tidy(struct cache_client *client);
/* False, and client->why: it failed. */
bool cache_fails(struct cache_client *client, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* --- kinds -------------------------------------------------------------------------------------------------------- */

/* The clients of an interleaving. */
struct cache_show {
	struct race_cache *cache; /* its steps are filled */
	struct cache_client *page, *till, *bot;
};

struct cache_kind {
	const char *name, *does;
	bool must_hold;
	bool service;                               /* needs one */
	bool feeds;                                 /* copies are fed during the load */
	int64_t units;                              /* under load; 0: more than can be sold */
	bool (*put)(struct cache_client *client);   /* the bench's SKU with its units */
	bool (*ready)(struct cache_client *client); /* waits until it is cached; NULL: nothing to wait for */
	bool (*sell)(struct cache_client *client, bool *ret_sold, int64_t *ret_version);
	bool (*look)(struct cache_client *client, struct cache_figure *ret_figure);
	/* With one unit; false: a client's why. */
	bool (*show)(struct cache_show *show);
};

#define CACHE_KINDS 6
extern const struct cache_kind cache_kinds[CACHE_KINDS];

/* --- the judge of a load ------------------------------------------------------------------------------------------ */

#define CACHE_VERSIONS_MAX (1 << 17)

struct cache_history {
	atomic_int_least64_t answered; /* the newest version that a seller was answered */
	atomic_int_least64_t seen;     /* the newest version that a reader was shown */
	atomic_int_least64_t *at_ns;   /* when each version was answered; 0: not yet */
};

struct cache_judgement {
	bool stale, gone_back;
	int64_t late_ns; /* stale: how long after the answer to the first newer version the read began */
};

void cache_answered(struct cache_history *history, int64_t version, int64_t now_ns);
/* What a reader knows before it looks. */
struct cache_before {
	int64_t answered, seen, at_ns;
};
struct cache_before cache_before(struct cache_history *history, int64_t now_ns);
struct cache_judgement cache_judge(struct cache_history *history, struct cache_before before, int64_t version);

#endif
