/* The HTTP API under /v1, and the operator's pages, over an inventory.
 *
 * serve makes one `struct api`, gives its router and hooks to server_start(), and frees it last: server_stop(),
 * inventory_stop(), server_free(), api_free(). Every handler runs on the loop that took the request; operations and
 * queries come back to it through the loop's mailbox. Thread: api_new and api_free from the one that starts and stops
 * the server.
 */
#ifndef API_API_H
#define API_API_H

#include "http/server.h"
#include "inventory/inventory.h"

struct api;

/* Borrows both. Never fails. */
struct api *api_new(const struct config *config, struct inventory *inventory);
void api_free(struct api *api);
/* The table of routes; constant. */
const struct router *api_router(const struct api *api);
/* loop_start makes the loop's reader; loop_stop frees it. */
struct server_hooks api_hooks(struct api *api);

#endif
