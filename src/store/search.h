/* Products by what people call them: inflected, in any language of their titles, with a slip of the finger. */
#ifndef STORE_SEARCH_H
#define STORE_SEARCH_H

#include "store/sku.h"

#define SEARCH_BYTES_MAX 1000 /* of what is said; the rest is not looked at */

/* The best `limit` products for what somebody said, best first; in stock before sold out among equals. The figures are
 * those of the primary now. Nothing found is LU_OK and none. `said` is valid UTF-8 without NUL. */
enum lu_error search_products(struct pg *pg, struct arena *arena, struct text said, size_t limit, int64_t deadline_ns,
                              struct sku_page_row **ret_rows, size_t *ret_count) LU_MUST_CHECK;

#endif
