/* Products by what people call them: inflected, in any language of their titles, with a slip of the finger. */
#ifndef STORE_SEARCH_H
#define STORE_SEARCH_H

#include "store/pg.h"

#define SEARCH_BYTES_MAX 1000 /* of what is said; the rest is not looked at */

/* What a person is told of a SKU. The figures are those of the primary when it was read. */
struct product {
	int64_t id;
	struct text code;
	struct figures figures;
	struct text titles_json; /* {"en": "…"} */
	int64_t next_release_us; /* earliest end of a hold on it; 0: nobody holds it */
};

/* The best `limit` products for what somebody said, best first; in stock before sold out among equals. Before all others
 * comes that whose code it is, whatever it is called (signs such as a question's may follow). Nothing found is
 * LU_OK and none. `said` is valid UTF-8 without NUL. */
enum lu_error search_products(struct pg *pg, struct arena *arena, struct text said, size_t limit, int64_t deadline_ns,
                              struct product **ret_products, size_t *ret_count) LU_MUST_CHECK;
/* One by its id, or by its code (id 0). *ret_product NULL: there is none. */
enum lu_error search_product(struct pg *pg, struct arena *arena, int64_t id, struct text code, int64_t deadline_ns,
                             struct product **ret_product) LU_MUST_CHECK;
/* The same without figures and holds, for whoever only wants to say what it is called: by its id. */
enum lu_error search_name(struct pg *pg, struct arena *arena, int64_t id, int64_t deadline_ns,
                          struct product **ret_product) LU_MUST_CHECK;

#endif
