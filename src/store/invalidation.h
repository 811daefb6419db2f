/* SKUs changed straight in SQL, recorded by triggers (sql/0003), waiting for their cells to be invalidated.
 * Thread: the connection's. */
#ifndef STORE_INVALIDATION_H
#define STORE_INVALIDATION_H

#include "store/epoch.h"

struct invalidation {
	struct text sku;
	int64_t version;
	int64_t at_us; /* when the row was written */
};

/* In a transaction: removes up to `limit` recorded rows that no other relay has (SKIP LOCKED: never a cursor, for a
 * lower id can commit later), and then, in a statement of its own, reads the epoch. What it removed stays removed only
 * if the caller commits. Each SKU once, with its newest version; *ret_rows is the number of rows removed. */
enum lu_error invalidation_take(struct pg *pg, struct arena *arena, size_t limit, int64_t deadline_ns,
                                struct invalidation **ret_invalidations, size_t *ret_count, size_t *ret_rows,
                                struct epoch_row *ret_epoch) LU_MUST_CHECK;
/* Which of these codes have a record that no relay has dealt with. ret_waiting: one per code. */
enum lu_error invalidation_waiting(struct pg *pg, struct arena *arena, const struct text *codes, size_t count,
                                   int64_t deadline_ns, bool **ret_waiting) LU_MUST_CHECK;

#endif
