/* The relay: stock that others change straight in SQL is seen by readers within a bounded time (default 250 ms).
 *
 * Triggers record each such change in the same transaction; the relay of any instance takes the records every 100 ms,
 * reads the epoch after them, and invalidates the cells before it commits their removal. One thread with its own
 * connections. */
#ifndef INVENTORY_RELAY_H
#define INVENTORY_RELAY_H

#include "base/config.h"
#include "inventory/epoch.h"

struct relay;

struct relay *relay_start(const struct config *config, const struct redis_address *redis, struct epoch *epoch);
void relay_stop(struct relay *relay);

#endif
