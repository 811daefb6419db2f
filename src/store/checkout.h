/* Checkouts: finished sales, lines as arrays, cancelled units per line. */
#ifndef STORE_CHECKOUT_H
#define STORE_CHECKOUT_H

#include "lastunit/decide.h"
#include "store/pg.h"

void checkout_read_send(struct pg *pg, struct arena *arena, const struct uuid *ids, size_t count);
enum lu_error checkout_read_take(struct pg *pg, int64_t deadline_ns, struct arena *arena,
                                 struct checkout ***ret_checkouts, size_t *ret_count)
	LU_MUST_CHECK; /* by id; lines in code order */
void checkout_insert_send(struct pg *pg, struct arena *arena, struct checkout *const *rows, size_t count);
enum lu_error checkout_insert_take(struct pg *pg, int64_t deadline_ns, size_t count) LU_MUST_CHECK;
void checkout_change_send(struct pg *pg, struct arena *arena, struct checkout *const *rows,
                          size_t count); /* cancelled[] */
enum lu_error checkout_change_take(struct pg *pg, int64_t deadline_ns, size_t count) LU_MUST_CHECK;
/* GET /v1/checkouts?reference=: by id after `after`; principal_id 0: any. */
enum lu_error checkout_page(struct pg *pg, struct arena *arena, struct text reference, int64_t principal_id,
                            const struct uuid *after, size_t limit, int64_t deadline_ns, struct checkout ***ret_rows,
                            size_t *ret_count) LU_MUST_CHECK;

#endif
