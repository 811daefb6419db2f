/* The frame of a write transaction: BEGIN, the database's clock, a longer wait for locks. Pairs of _send and _take as
 * in the other headers; COMMIT and ROLLBACK are pg_commit() and pg_rollback(). Thread: the connection's. */
#ifndef STORE_TX_H
#define STORE_TX_H

#include "store/pg.h"

/* BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE: each statement behind it has its own snapshot, so "lock" and "read
 * what the lock protects" can share one round trip. Fails on a standby. */
void tx_begin_send(struct pg *pg);
enum lu_error tx_begin_take(struct pg *pg, int64_t deadline_ns) LU_MUST_CHECK;
/* clock_timestamp(): the time as it is now. now() froze at BEGIN, before the locks were had, and is never used. */
void tx_clock_send(struct pg *pg);
enum lu_error tx_clock_take(struct pg *pg, int64_t deadline_ns, int64_t *ret_unix_us) LU_MUST_CHECK;
/* The same at once, outside of any transaction. */
enum lu_error tx_clock_read(struct pg *pg, int64_t deadline_ns, int64_t *ret_unix_us) LU_MUST_CHECK;
/* lock_timeout for the rest of this transaction only. */
void tx_lock_timeout_send(struct pg *pg, struct arena *arena, int64_t ms);
enum lu_error tx_lock_timeout_take(struct pg *pg, int64_t deadline_ns) LU_MUST_CHECK;

#endif
