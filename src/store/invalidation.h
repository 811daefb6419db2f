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

/* What was changed and is to be invalidated: the records removed first, each SKU once with its newest version; then,
 * the same way, those that are to be seen but locked, as by a relay that is at it or was frozen at it. */
struct invalidations {
	struct invalidation *items;
	size_t removed, count;  /* SKUs: of the records removed, and of all */
	size_t rows;            /* records removed */
	bool more;              /* there may be records that are not among them */
	struct epoch_row epoch; /* read in a later statement than all of them */
};
/* In a transaction: removes up to `limit` records that nobody has locked (never by a cursor, for a lower id can commit
 * later), and looks at up to `limit` that somebody has. What it removed stays removed only if the caller commits. */
enum lu_error invalidation_take(struct pg *pg, struct arena *arena, size_t limit, int64_t deadline_ns,
                                struct invalidations *ret) LU_MUST_CHECK;
/* Which of these codes have a record that no relay has dealt with. ret_waiting: one per code. */
enum lu_error invalidation_waiting(struct pg *pg, struct arena *arena, const struct text *codes, size_t count,
                                   int64_t deadline_ns, bool **ret_waiting) LU_MUST_CHECK;

#endif
