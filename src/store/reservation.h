/* Reservations and their live holds. A reservation keeps its lines as arrays for ever; `hold` has one narrow row per
 * line while it lives (index by SKU and expiry), deleted when it ends. Lines come back in code order. */
#ifndef STORE_RESERVATION_H
#define STORE_RESERVATION_H

#include "lastunit/decide.h"
#include "store/pg.h"

/* By ids, as they stand (in a batch: under the SKUs' locks, so as they will stay). */
void reservation_read_send(struct pg *pg, struct arena *arena, const struct uuid *ids, size_t count);
enum lu_error reservation_read_take(struct pg *pg, int64_t deadline_ns, struct arena *arena,
                                    struct reservation ***ret_reservations, size_t *ret_count)
	LU_MUST_CHECK; /* by id */
/* One of them, outside a batch, and the database's clock; *ret_reservation NULL, the clock untouched:
 * there is none such. */
enum lu_error reservation_find(struct pg *pg, struct arena *arena, const struct uuid *id, int64_t deadline_ns,
                               struct reservation **ret_reservation, int64_t *ret_now_us) LU_MUST_CHECK;
/* Live holds of these SKUs that are due at clock_timestamp(), earliest first, at most `limit`; and, per SKU, the earliest
 * end of a hold that is not due (0: none). Fills holds_known, holds_more, next_release_us of `skus`. */
enum lu_error reservation_due(struct pg *pg, struct arena *arena, struct locked_sku **skus, size_t count, size_t limit,
                              int64_t deadline_ns, struct reservation ***ret_due, size_t *ret_count) LU_MUST_CHECK;
void reservation_insert_send(struct pg *pg, struct arena *arena, struct reservation *const *rows,
                             size_t count); /* + holds: 2 results */
enum lu_error reservation_insert_take(struct pg *pg, int64_t deadline_ns, struct reservation *const *rows, size_t count)
	LU_MUST_CHECK;
/* New state or expiry, and the holds with it. */
void reservation_change_send(struct pg *pg, struct arena *arena, const struct reservation_change *changes,
                             size_t count);
enum lu_error reservation_change_take(struct pg *pg, int64_t deadline_ns) LU_MUST_CHECK;

/* For the reaper: due reservations (id and SKUs) behind `after_us` and `after_id`, earliest first, without `ids` and those
 * that hold one of `sku_ids`; and when the next one is due, in microseconds from the database's now (INT64_MAX: none
 * live). */
struct overdue_filter {
	int64_t after_us; /* 0: from the earliest */
	struct uuid after_id;
	struct uuid *ids;
	size_t count;
	int64_t *sku_ids;
	size_t sku_count;
};
enum lu_error reservation_overdue(struct pg *pg, struct arena *arena, const struct overdue_filter *filter, size_t limit,
                                  int64_t deadline_ns, struct reservation ***ret_due, size_t *ret_count,
                                  int64_t *ret_next_in_us) LU_MUST_CHECK;

#define RESERVATION_WALK_MAX 100000
/* GET /v1/reservations: newest id last, after `after` (nil: from the start). sku data NULL, reference data NULL, state 0,
 * principal_id 0: any. What no index leads to is looked for among so many only: *ret_walked is then where the next page
 * begins; nil: none of them is left, or the page is full. */
struct reservation_filter {
	struct text sku, reference;
	enum reservation_state state;
	int64_t principal_id;
	struct uuid after;
	size_t limit;
};
enum lu_error reservation_page(struct pg *pg, struct arena *arena, const struct reservation_filter *filter,
                               int64_t deadline_ns, struct reservation ***ret_rows, size_t *ret_count,
                               struct uuid *ret_walked) LU_MUST_CHECK;

#endif
