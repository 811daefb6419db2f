/* `lastunit status`: the facts, gathered by status_database.c, status_redis.c and status_service.c, told by
 * status_print.c.
 *
 * Each part fills its own struct and names in `findings` what weakens a promise or costs something (inventory/weakness.h
 * knows the settings; what moves is judged here). Nothing is changed: SELECT, INFO, SCAN and the script `read` only.
 * Texts live in the arena. Thread: one.
 */
#ifndef CMD_STATUS_H
#define CMD_STATUS_H

#include <stdio.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "cache/redis.h"
#include "inventory/weakness.h"
#include "store/epoch.h"

struct status_database {
	bool reachable;
	struct text error; /* why not */
	struct text version, name, user;
	int64_t schema_version;
	int64_t clock_ahead_us; /* its clock minus this machine's */
	int64_t instances;      /* sessions of keepers of the lease: running services */
	struct epoch_row epoch;
	int64_t epoch_since_us;
	int64_t holds_live, holds_due, held_units;
	int64_t oldest_due_ms; /* how long it has been due; 0: none is */
	int64_t relay_waiting, relay_oldest_ms;
	bool sessions_hidden; /* this user may not see what others do */
	struct {
		bool any;
		int64_t pid, age_ms;
		struct text user, application, state;
	} oldest; /* transaction that keeps dead rows alive */
};

struct status_redis {
	bool configured, reachable;
	struct text error;
	struct text version, policy;
	int64_t memory_bytes, memory_bytes_max; /* of the limit; 0: none */
	int64_t clock_ahead_us;
	bool same; /* the Redis that the epoch was opened on */
	/* Cells of the open namespace, counted by SCAN up to a bound. */
	bool counted, complete;
	int64_t values, fills, markers, foreign, stuck;
};

struct status_service {
	const char *url; /* "": not asked */
	bool reachable;
	struct text error;
	int64_t hits, misses, bypasses, stale;
	int64_t queue_depth, connections, relayed, scrub_checked, scrub_wrong, outcome_unknown, refreshes, epoch_open;
};

struct status {
	struct arena *arena;
	struct status_database database;
	struct status_redis redis;
	struct status_service service;
	struct weaknesses findings;
};

/* False: the schema is not this binary's, or not there, with a sentence; nothing else can then be asked. Not being
 * reachable is a fact like others. */
bool status_look_database(struct status *status, const char *database_url, char ret_why[512])
	__attribute__((warn_unused_result));
/* After the database: it says which epoch. */
void status_look_redis(struct status *status, const struct redis_address *address, int64_t timeout_ms);
void status_look_service(struct status *status);
/* 0 all promises stand, 1 one is weakened, 3 PostgreSQL cannot be reached. */
int status_exit_code(const struct status *status);
void status_print(const struct status *status, FILE *out);
void status_json(const struct status *status, struct buffer *out);

/* Of a look-up since the start of the service: per 10,000; -1: none yet. */
int64_t status_hits_per_10000(const struct status_service *service);

#endif
