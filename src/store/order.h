/* Orders of marketplaces: one row per number of a principal, which each higher version replaces. */
#ifndef STORE_ORDER_H
#define STORE_ORDER_H

#include "lastunit/decide.h"
#include "store/pg.h"

/* Locks the orders that ORDER_PUTs among these operations name, in the order of (principal, number bytes), then reads them
 * in a second statement, which sees what was committed while the first waited; what is not there has no row. Behind the
 * SKU locks. PG_RETRY: one was made meanwhile and is not locked; the transaction is to be run again. */
void order_lock_send(struct pg *pg, struct arena *arena, struct operation *const *operations, size_t count);
enum lu_error order_lock_take(struct pg *pg, int64_t deadline_ns, struct arena *arena, struct order ***ret_orders,
                              size_t *ret_count) LU_MUST_CHECK;
/* In the order given, which is that of (principal, number bytes). 23505 on orders_number_is_unique: another transaction
 * was first. */
void order_insert_send(struct pg *pg, struct arena *arena, struct order *const *rows, size_t count);
enum lu_error order_insert_take(struct pg *pg, int64_t deadline_ns, size_t count) LU_MUST_CHECK;
/* Version, time and lines of rows that this transaction locked. */
void order_change_send(struct pg *pg, struct arena *arena, struct order *const *rows, size_t count);
enum lu_error order_change_take(struct pg *pg, int64_t deadline_ns, size_t count)
	LU_MUST_CHECK; /* CHECKs the row count */

/* As it stands, without a lock. *ret_order NULL: there is none. */
enum lu_error order_read(struct pg *pg, struct arena *arena, int64_t principal_id, struct text number,
                         int64_t deadline_ns, struct order **ret_order) LU_MUST_CHECK;

#endif
