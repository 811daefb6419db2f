/* What lies behind inventory.h: its parts, for the inventory's own files. */
#ifndef INVENTORY_INVENTORY_INTERNAL_H
#define INVENTORY_INVENTORY_INTERNAL_H

#include "inventory/batch.h"
#include "inventory/follower.h"
#include "inventory/loader.h"
#include "inventory/lookout.h"
#include "inventory/reaper.h"
#include "inventory/relay.h"
#include "inventory/scrub.h"
#include "store/secret.h"

struct inventory {
	const struct config *config;
	struct redis_address redis_address;
	const struct redis_address *redis; /* NULL: none configured */
	struct lookout *lookout;
	struct epoch *epoch;
	struct queue *queue;
	struct loaders *loaders;
	struct writers *writers;
	struct reaper *reaper;
	struct relay *relay;
	struct scrub *scrub;
	struct follower *follower;
	uint8_t secret[SECRET_BYTES];
};

#endif
