/* The audit: recomputes every promise from the ledger and compares. Never repairs; the session is read-only.
 *
 * Safe beside a running service, and short for it: pages by key, one statement each, no snapshot lives longer than one.
 * That is enough, because the ledger is append-only: a SKU's row and its holds are read together in one statement, and
 * the entries up to that row's version cannot change any more, whenever they are read. Objects changed since the audit
 * began are compared as far as that holds and counted as `moving`. A cell that differs is looked at again for a while.
 * Thread: any, one per audit.
 */
#ifndef CMD_AUDIT_RUN_H
#define CMD_AUDIT_RUN_H

#include <stdio.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "cache/redis.h"
#include "cmd/progress.h"
#include "lastunit/error.h"

#define AUDIT_SHOWN_MAX 20

enum audit_check {
	AUDIT_RANGE,
	AUDIT_RESERVED,
	AUDIT_HOLDS,
	AUDIT_ON_HAND,
	AUDIT_BALANCES,
	AUDIT_VERSIONS,
	AUDIT_ENDS,
	AUDIT_SALES,
	AUDIT_OVERDUE,
	AUDIT_CELLS,
	AUDIT_CHECKS,
};

struct audit_line {
	int64_t checked; /* things of the kind named by audit_unit() */
	int64_t broken;
	int64_t moving;                     /* of those checked, not compared in full */
	struct text shown[AUDIT_SHOWN_MAX]; /* the first offenders, a sentence each */
	size_t shown_count;
	const char *note; /* why it was not looked at; NULL: it was */
};

struct audit {
	struct audit_line lines[AUDIT_CHECKS];
	int64_t skus, entries, reservations, checkouts, orders, cells;
	int64_t elapsed_ms;
	bool of_another_schema, may_not; /* why it failed: the user lacks a right */
};

struct audit_options {
	const char *database_url;
	const struct redis_address *redis; /* NULL: cells are not compared */
	int64_t redis_timeout_ms;
	struct progress *progress; /* NULL: none */
};

/* Looks at everything; texts live in the arena. LU_OK: it did, whatever it found. LU_DATABASE_UNAVAILABLE,
 * LU_CACHE_UNAVAILABLE, LU_INTERNAL: with a sentence. */
enum lu_error audit_run(const struct audit_options *options, struct arena *arena, struct audit *audit,
                        char ret_why[512]) LU_MUST_CHECK;
/* No promise is broken. An overdue hold is a warning: without a service nobody expires it. */
bool audit_sound(const struct audit *audit);
const char *audit_name(enum audit_check check);
/* One line per check, its offenders below it. */
void audit_print(const struct audit *audit, FILE *out);
/* {"sound": …, "checks": […]} */
void audit_json(const struct audit *audit, struct buffer *out);

#endif
