/* The scrub: serve compares random cells with the truth all the time, at a bounded rate, and counts what it finds.
 *
 * It watches the promise P2 in production: `lastunit_scrub_checked_total` grows, `lastunit_scrub_wrong_total` stays 0. A
 * cell found wrong is logged and removed, and never explained away. One thread with its own connections. */
#ifndef INVENTORY_SCRUB_H
#define INVENTORY_SCRUB_H

#include "base/config.h"
#include "inventory/epoch.h"

struct scrub;

struct scrub *scrub_start(const struct config *config, const struct redis_address *redis, struct epoch *epoch);
void scrub_stop(struct scrub *scrub);

#endif
