/* Loaders: threads with one PostgreSQL and one Redis connection each, for every read that is not a hit.
 *
 * Look-ups: ticket → SELECT → fill, in natural batches; single flight per SKU: a look-up joins only a SELECT not yet
 * sent when it arrives. Queries (GET by id, lists) and resolving of operations run one by one, in between.
 */
#ifndef INVENTORY_LOADER_H
#define INVENTORY_LOADER_H

#include "base/mailbox.h"
#include "inventory/epoch.h"
#include "inventory/inventory.h"
#include "inventory/queue.h"

struct loaders;

/* One SKU wanted by one reader. The asker embeds it; `item.deliver` runs on its loop. */
struct load {
	struct mailbox_item item;
	struct mailbox *mailbox;
	struct text sku; /* lives until delivered */
	int64_t deadline_ns;
	bool fill; /* the cell was absent: fill it under a ticket */
	bool heal; /* another's I has stood for longer than 1 s: refresh it */
	/* the answer */
	enum lu_error error;
	bool known;
	struct figures figures;
	struct load *next;
};

struct loaders *loaders_start(const struct config *config, const struct redis_address *redis, struct epoch *epoch,
                              struct queue *queue);
/* Everything accepted is answered. */
void loaders_stop(struct loaders *loaders);
enum lu_error loaders_load(struct loaders *loaders, struct load *load) LU_MUST_CHECK;    /* LU_OVERLOADED */
enum lu_error loaders_query(struct loaders *loaders, struct query *query) LU_MUST_CHECK; /* LU_OVERLOADED */
/* Reads which SKUs a prepared operation concerns (operation_needs_resolving), then hands it to the queue. */
enum lu_error loaders_resolve(struct loaders *loaders, struct operation *operation) LU_MUST_CHECK;

#endif
