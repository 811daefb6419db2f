/* An inventory for the API under a fuzzer: linked in the place of src/inventory/inventory.c and read.c, without PostgreSQL,
 * Redis or a thread. What it answers depends on what was asked and on nothing else.
 *
 * It sees to the contract from the inside: every operation and look-up that the API hands on is valid by the rules of
 * include/lastunit, and is answered once, later, never from inside the call. Queries find no database, unless a target sets
 * fake_products: then those that search find products, by what was said and nothing else.
 *
 *	SKUs       U… is unknown; S… is stale when that is allowed; all others are version 7, 9 on hand, 2 reserved
 *	operations half are done; the others meet an error that their kind can have
 *
 * Thread: one.
 */
#ifndef FUZZ_FAKE_INVENTORY_H
#define FUZZ_FAKE_INVENTORY_H

#include "inventory/read.h"

#define FAKE_ETAG "\"7.7.2\"" /* of every known SKU */

/* What was asked since it was last set to nothing. */
struct fake_seen {
	size_t operations, lookups, queries;
	int64_t max_stale_s; /* of the last look-up */
	bool stale;          /* its first item was answered so */
};
extern struct fake_seen fake_seen;
extern bool fake_products;
#define FAKE_PRODUCTS_MAX 3 /* their ids are 1, 2, 3; the third has no title */

#endif
