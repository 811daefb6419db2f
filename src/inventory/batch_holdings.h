/* What those hold who ask to hold more and have a cap: read behind the locks of the batch. */
#ifndef INVENTORY_BATCH_HOLDINGS_H
#define INVENTORY_BATCH_HOLDINGS_H

#include "inventory/batch_internal.h"
#include "lastunit/decide.h"
#include "store/pg.h"

/* Fills input->holdings; input->skus are there. A batch in which nobody who asks has a cap costs nothing, not even a round
 * trip. */
enum lu_error batch_holdings(struct pg *pg, struct arena *arena, const struct batch *batch,
                             struct decision_input *input, int64_t deadline_ns) LU_MUST_CHECK;

#endif
