/* Names: what products are called and their codes, as the look told them, so that the press that
 * follows need not ask again.
 *
 * A chat looks, then presses: the press carries the product's id, and its hold needs the code. That is a question to
 * PostgreSQL that the same process asked a moment ago, and most of what a press costs beyond the plain call. Figures
 * are never in here: what is told of stock comes from where it always comes from.
 *
 * Why it may be believed. An id keeps its code while the database is the same one: ids are given once, codes do not
 * change, SKUs are not removed (sql/0003). It is another one after a dump was restored, a standby promoted, the schema
 * dropped; then the read lease is of another namespace. So a name counts only under a lease of the namespace that was
 * leased when it was asked for, as a hit of the cache does: no lease, no names, and none from before a `lastunit flush`.
 * Titles do change, and nobody is told when: therefore a name counts for NAMES_KEPT_MS only, and each look tells the
 * newest. Until then who pressed may be answered with the title that the button stood under.
 *
 * One table per process: a press may come on another loop than its look. A product has one place, its id
 * modulo NAMES_PLACES (ids are dense, so neighbours do not collide), and the last one stays; one with more
 * text than NAMES_TEXT_BYTES_MAX is not kept. Both only cost the question. Memory is at most 1.1 MiB, taken as
 * places are used. Thread: any.
 */
#ifndef CHANNELS_NAMES_H
#define CHANNELS_NAMES_H

#include "base/arena.h"
#include "store/search.h"

#define NAMES_PLACES 1024
#define NAMES_TEXT_BYTES_MAX 1000 /* code and titles together */
#define NAMES_KEPT_MS 60000       /* from when it was asked for */

struct names;

struct names *names_new(void);
void names_free(struct names *names);
/* Keeps code and titles of these, as asked for at `asked_ns` (BOOTTIME) under a lease of `namespace`. */
void names_put(struct names *names, const char *namespace, int64_t asked_ns, const struct product *products,
               size_t count);
/* The product's id, code and titles, copied into the arena, its figures 0; false, *ret_product untouched, if it is not
 * known. `namespace`: of the lease there is now. */
bool names_get(struct names *names, const char *namespace, int64_t now_ns, int64_t id, struct arena *arena,
               struct product *ret_product) LU_MUST_CHECK;

#endif
