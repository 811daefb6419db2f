/* What principals and their callers hold, counted for the caps: live holds that are not due. */
#ifndef STORE_HOLDING_H
#define STORE_HOLDING_H

#include "lastunit/decide.h"
#include "store/pg.h"

/* Fills `holds` of each that is not `units_only`, and `units` of each of its `held`, whose sku_id says which SKU.
 * principal_id and caller are given. One round trip. Under the locks of those SKUs the units are exact; the number of
 * holds is of this moment. */
enum lu_error holding_count(struct pg *pg, struct arena *arena, struct holdings *holdings, size_t count,
                            int64_t deadline_ns) LU_MUST_CHECK;

#endif
