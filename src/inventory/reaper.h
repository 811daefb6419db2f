/* The reaper: submits an expire operation for every reservation that is due, at most 250 ms after it is.
 *
 * It wakes for the next expiry or every 100 ms (another instance may have made a shorter one). A reservation whose
 * expiry fails is left alone for a while, doubling from 1 s to 60 s: one bad row never stops the others (B28).
 * One thread with its own connection; what it submits counts as a keeper's operation.
 */
#ifndef INVENTORY_REAPER_H
#define INVENTORY_REAPER_H

#include "base/config.h"
#include "inventory/inventory.h"

struct reaper;

struct reaper *reaper_start(const struct config *config, struct inventory *inventory);
/* Waits for the operations it has under way. */
void reaper_stop(struct reaper *reaper);

#endif
