/* The cache epoch's row: cache_epoch(namespace, state, redis_identity, pg_identity, xid), one row.
 *
 * Transitions are made here, each in its own transaction; who makes them when is the protocol's business
 * (inventory/epoch.c, lua/README.md). */
#ifndef STORE_EPOCH_H
#define STORE_EPOCH_H

#include "store/pg.h"

enum epoch_state { EPOCH_OPEN = 1, EPOCH_CLOSING, EPOCH_CLOSED };

struct epoch_row {
	enum epoch_state state;
	struct text namespace; /* "lu:…" */
	struct text redis_identity;
	bool genuine;     /* epoch_lease_read: this PostgreSQL is the one it was opened on, and `xid` is still its xmin */
	int64_t lease_ms; /* epoch_lease_read: L, the same for everybody while this epoch lasts; set by its opener */
	int64_t keys_version; /* epoch_lease_read: changes whenever a key or principal changes */
};

/* In a batch: advisory lock (shared, own statement), then the row: 2 results. */
void epoch_enter_send(struct pg *pg, struct arena *arena);
enum lu_error epoch_enter_take(struct pg *pg, int64_t deadline_ns, struct arena *arena, struct epoch_row *ret_row)
	LU_MUST_CHECK;
/* One statement outside any transaction: the row, and whether PostgreSQL's identity (system identifier, timeline,
 * postmaster start time, database oid, the row's tableoid) is the one it was opened on. 55000 on a standby. */
enum lu_error epoch_lease_read(struct pg *pg, struct arena *arena, int64_t deadline_ns, struct epoch_row *ret_row)
	LU_MUST_CHECK;
/* open -> closing, closing -> closed, for this namespace only; no effect (and LU_OK) if it has moved on. */
enum lu_error epoch_close(struct pg *pg, struct text namespace, int64_t deadline_ns, bool *ret_moved) LU_MUST_CHECK;
enum lu_error epoch_closed(struct pg *pg, struct text namespace, int64_t deadline_ns, bool *ret_moved) LU_MUST_CHECK;
/* closed -> open with a new namespace: exclusive advisory lock with lock_timeout 200 ms (LU_OVERLOADED when not had:
 * try again), which waits out the writers in flight; identity of PostgreSQL read in the same transaction.
 * LU_OUTCOME_UNKNOWN: COMMIT was sent and not answered. Any other error: nothing was opened. */
enum lu_error epoch_open(struct pg *pg, struct text old_namespace, struct text namespace, struct text redis_identity,
                         int64_t lease_ms, int64_t deadline_ns, bool *ret_moved) LU_MUST_CHECK;

#endif
