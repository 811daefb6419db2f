/* The lookout: how PostgreSQL and Redis are, looked at anew for as long as the service runs, for /readyz and the log.
 *
 * One thread with connections of its own, which may wait: nobody waits for it, and the read lease least of all. Every
 * 10 s it looks for what weakens a promise (weakness.h); at Redis every second while that is not reachable. When one of the
 * two goes and when it comes back is one line in the log each, with the reason; so are the rights that the service's
 * role loses, by name, and that it has them again; the parts of this instance that PostgreSQL gives no session; and what
 * a Redis that answers refuses to do.
 * Thread: lookout_found from any, the rest from the one that starts and stops the inventory.
 */
#ifndef INVENTORY_LOOKOUT_H
#define INVENTORY_LOOKOUT_H

#include "base/config.h"
#include "inventory/epoch.h"
#include "inventory/weakness.h"

struct lookout;

struct lookout *lookout_new(const struct config *config, const struct redis_address *redis /* NULL: no Redis at all */);
/* The first look at PostgreSQL, by a connection that is there: what fails here fails the start. */
enum lu_error lookout_first(struct lookout *lookout, struct pg *pg, int64_t deadline_ns) LU_MUST_CHECK;
/* The first look at Redis, which may be away, and the thread. The epoch must outlive it. */
void lookout_start(struct lookout *lookout, struct epoch *epoch);
/* Ends and frees it, started or not. */
void lookout_stop(struct lookout *lookout);
/* What was found last, copied to the end of `list` and into its arena. A PostgreSQL that is away takes nothing back. */
void lookout_found(struct lookout *lookout, struct weaknesses *list);

#endif
