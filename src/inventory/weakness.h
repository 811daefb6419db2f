/* What weakens a promise: settings, missing guards and too much power, looked up in PostgreSQL and in Redis and named in
 * one sentence each. In one place, for serve at its start (/readyz, its log) and for `lastunit status`.
 *
 * A finding either weakens promises (P4, …: the README's) or only costs something: then it says so and weakens none.
 * Only what can be seen in one look is here; what needs a while or a running service is status's own.
 * Ownership: sentences live in the list's arena. Thread: the caller's.
 */
#ifndef INVENTORY_WEAKNESS_H
#define INVENTORY_WEAKNESS_H

#include "base/arena.h"
#include "cache/redis.h"
#include "store/pg.h"

#define WEAKNESS_MAX 48 /* further ones are not kept: nobody reads that far */

#define WEAKNESS_RIGHTS_MISSING "rights_missing"
#define WEAKNESS_SESSIONS_REFUSED "sessions_refused"
#define WEAKNESS_WRITES_REFUSED "writes_refused" /* told by the writers: to look does not show it */

struct weakness {
	const char *name;     /* for programs, never changed: "fsync_off" */
	const char *promises; /* "P4", "P1 P4"; "": it weakens none, it costs */
	const char *sentence; /* what is so, what it leads to, what to do */
};

struct weaknesses {
	struct arena *arena;
	struct weakness items[WEAKNESS_MAX];
	size_t count;
};

void weakness_add(struct weaknesses *list, const char *name, const char *promises, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* The sentence of the first of this name; NULL: there is none. */
const char *weakness_find(const struct weaknesses *list, const char *name);
/* Some item weakens a promise. */
bool weakness_any_promise(const struct weaknesses *list);

/* Durability, standbys, the guards that the schema's promises stand on, who may rewrite the ledger, what the service's
 * role has lost. Any role may look; what only a member of pg_read_all_stats sees is passed over otherwise. */
enum lu_error weakness_look_database(struct weaknesses *list, struct pg *pg, int64_t deadline_ns) LU_MUST_CHECK;
/* Eviction, persistence, role, memory: by INFO, which every Redis user may ask, never by CONFIG. */
enum lu_error weakness_look_redis(struct weaknesses *list, struct redis *redis, int64_t deadline_ns) LU_MUST_CHECK;

#endif
