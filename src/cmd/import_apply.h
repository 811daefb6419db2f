/* An import's one transaction: lock the SKUs named, check every row against them, write, commit, publish.
 *
 * The rows lie in the session (import_stage.h). Everything happens set by set inside PostgreSQL, in the lock order of
 * the service: epoch, SKUs by id, new SKUs by code, idempotency key. A row that sets or changes figures is one ledger
 * entry, `create` for the first row of a SKU that is new, `import` otherwise; titles alone are none.
 *
 * The cache, as the protocol has it for every writer (lua/README.md):
 *   only new SKUs              no cell can hold them; nothing to do
 *   up to IMPORT_OPEN_MAX      intend before COMMIT, publish after it, in the open namespace
 *   more, or no Redis given,   the epoch is closed first (L of no cached answers for the whole file, not per row); a
 *   or Redis fails             running service opens the next one by itself
 * Thread: the connection's.
 */
#ifndef CMD_IMPORT_APPLY_H
#define CMD_IMPORT_APPLY_H

#include "base/config.h"
#include "cache/redis.h"
#include "lastunit/types.h"
#include "store/pg.h"

#define IMPORT_OPEN_MAX 2000

struct import_options {
	const struct config *config; /* lease_ms, cell_ttl_s, redis_timeout_ms */
	struct redis *redis;         /* NULL: none given */
	struct text key;
	uint8_t fingerprint[32];
	struct text reference; /* of ledger entries whose row gives no reason; size 0: none */
	bool partial;
	int64_t unreadable; /* rows refused before they got here: told again when the import is repeated */
	bool texts;         /* some row may have a title or names */
	int64_t deadline_ns;
	/* Called whenever others' locks stand in the way, with who they are; NULL: nobody wants to know. */
	void (*on_wait)(const char *sentence, void *context);
	void *context;
};

struct import_refusal {
	int64_t line;
	struct text sku;  /* size 0: not readable */
	const char *code; /* of the API's error for the same fault */
	struct text why;
};

enum import_cache { IMPORT_CACHE_UNCONCERNED, IMPORT_CACHE_PUBLISHED, IMPORT_CACHE_CLOSED };

struct import_report {
	bool applied;  /* false: refused as a whole, nothing was written */
	bool replayed; /* an earlier run with this key did it; the counts are that run's */
	int64_t replayed_at_us;
	int64_t created, changed, entries, described, refused, units; /* SKUs, SKUs, ledger entries, SKUs, rows, units */
	enum import_cache cache;
	struct import_refusal *refusals; /* in the arena; those of the database, by line */
	size_t refusal_count;
	char why[512]; /* of a failure */
};

/* What this key has done before: report->replayed. LU_IDEMPOTENCY_CONFLICT if it was another file or other options. */
enum lu_error import_known(struct pg *pg, struct arena *arena, const struct import_options *options,
                           struct import_report *report) LU_MUST_CHECK;
/* Locks of others are waited for outside of the transaction (import_wait.h), until the deadline: LU_OVERLOADED then.
 * LU_OK: applied or refused, see the report. LU_DATABASE_UNAVAILABLE: the connection is lost; stage again on a new one,
 * after import_known(), for the commit may have happened. Anything else: failed, nothing was written. */
enum lu_error import_apply(struct pg *pg, struct arena *arena, const struct import_options *options,
                           struct import_report *report) LU_MUST_CHECK;

/* One row as it ended, for the list of outcomes. Only after LU_OK, applied and not replayed. */
struct import_outcome {
	int64_t line;
	struct text sku;
	const char *outcome;      /* "created", "changed", "described" */
	int64_t version, on_hand; /* after this row; 0 if described */
};
/* Rows with a line above `after`, at most `limit`, by line. */
enum lu_error import_outcomes(struct pg *pg, struct arena *arena, int64_t after, size_t limit, int64_t deadline_ns,
                              struct import_outcome **ret_rows, size_t *ret_count) LU_MUST_CHECK;

#endif
