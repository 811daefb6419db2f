/* One batch through the seven steps: drop · begin · lock · decide · write ‖ intend · COMMIT · publish, answer.
 *
 * The write path of the service; src/inventory/README.md has its invariants. Thread: a writer's, with its own
 * connections.
 */
#ifndef INVENTORY_BATCH_H
#define INVENTORY_BATCH_H

#include "base/config.h"
#include "inventory/epoch.h"
#include "inventory/queue.h"
#include "inventory/weakness.h"

struct writers;

struct writers *writers_start(const struct config *config, const struct redis_address *redis, struct epoch *epoch,
                              struct queue *queue);
/* The queue must be closed; returns when all that was in it has been answered. */
void writers_stop(struct writers *writers);
/* Why PostgreSQL takes no writes now, as it told the last one that it has no room for (53*: a full disk). Thread: any. */
void writers_weaknesses(struct writers *writers, struct weaknesses *list);

#endif
