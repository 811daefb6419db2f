/* The stored answer of a key: what of a verdict goes into its idempotency row, and back.
 *
 * The row keeps what neither the request (whose fingerprint must match) nor the object can tell again: status, times,
 * shortages, figures, and how many units of each line were cancelled by then. A replay repeats the old answer's
 * figures. Thread: any; pure. */
#ifndef INVENTORY_ANSWER_H
#define INVENTORY_ANSWER_H

#include "store/idempotency.h"

/* The row for an operation that has its verdict (arena: the batch's). */
void answer_encode(struct arena *arena, const struct operation *operation, struct idempotency_row *ret_row);

/* Which object's rows a stored answer needs before it can be told again; false: none. */
bool answer_needs_reservation(const struct idempotency_row *row, struct uuid *ret_id);
bool answer_needs_checkout(const struct idempotency_row *row, struct uuid *ret_id);

/* The verdict again, replayed = true, in `arena`. reservation and checkout: the object as it stands now (NULL when not
 * needed); the verdict shows it as the old answer did (a reservation active with the expires_at it had then, a checkout
 * with the cancelled units it had then). LU_INTERNAL if the row cannot be read. */
enum lu_error answer_decode(struct arena *arena, const struct idempotency_row *row,
                            const struct reservation *reservation, const struct checkout *checkout,
                            struct verdict *ret_verdict) LU_MUST_CHECK;

#endif
