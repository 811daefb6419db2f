/* Copies of what a verdict points to, whole, into another arena: a verdict outlives the batch that found it.
 *
 * Texts, lines and objects are all copied; nothing is shared with the source. Thread: any; pure. */
#ifndef INVENTORY_VERDICT_H
#define INVENTORY_VERDICT_H

#include "lastunit/operation.h"

/* Keeps data NULL (none) apart from an empty text. */
struct text verdict_text(struct arena *arena, struct text text);
struct reservation *verdict_reservation(struct arena *arena, const struct reservation *reservation);
struct checkout *verdict_checkout(struct arena *arena, const struct checkout *checkout);
struct order *verdict_order(struct arena *arena, const struct order *order);
struct verdict verdict_copy(struct arena *arena, const struct verdict *verdict);

#endif
