/* The routes of the API: one table. What a handler does stands in the file named after its object. */
#include "api/api.h"

#include <stdlib.h>

#include "api/call.h"
#include "api/events.h"
#include "api/handlers.h"
#include "base/check.h"
#include "channels/handlers.h"
#include "channels/names.h"

#define GET HTTP_METHOD_GET
#define POST HTTP_METHOD_POST
#define PUT HTTP_METHOD_PUT
#define LOOK (SCOPE_READ | ROUTE_PUBLISHABLE)
#define DELETE HTTP_METHOD_DELETE

// clang-format off
static const struct route routes[] = {
	{GET,  "/v1/availability/{sku}",          LOOK,        availability_get},
	{GET,  "/v1/availability",                LOOK,        availability_list},
	{POST, "/v1/availability",                LOOK,        availability_post},
	{POST, "/v1/checkouts",                   SCOPE_SELL,  checkout_post},
	{GET,  "/v1/checkouts",                   SCOPE_SELL,  checkout_list},
	{GET,  "/v1/checkouts/{id}",              SCOPE_SELL,  checkout_get},
	{POST, "/v1/checkouts/{id}/cancel",       SCOPE_SELL,  checkout_cancel},
	{POST, "/v1/reservations",                SCOPE_SELL,  reservation_post},
	{GET,  "/v1/reservations",                SCOPE_SELL,  reservation_list},
	{GET,  "/v1/reservations/{id}",           SCOPE_SELL,  reservation_get},
	{POST, "/v1/reservations/{id}/extend",    SCOPE_SELL,  reservation_extend},
	{POST, "/v1/reservations/{id}/commit",    SCOPE_SELL,  reservation_commit},
	{POST, "/v1/reservations/{id}/release",   SCOPE_SELL,  reservation_release},
	{PUT,  "/v1/orders/{number}",             SCOPE_SELL,  order_put},
	{GET,  "/v1/orders/{number}",             SCOPE_SELL,  order_get},
	{POST, "/v1/adjustments",                 SCOPE_STOCK, adjustment_post},
	{POST, "/v1/batch",                       SCOPE_SELL,  batch_post}, /* its adjustments need `stock` as well */
	{PUT,  "/v1/skus/{sku}",                  SCOPE_STOCK, sku_put},
	{GET,  "/v1/skus/{sku}",                  SCOPE_READ,  sku_get},
	{GET,  "/v1/skus",                        SCOPE_READ,  sku_list},
	{GET,  "/v1/skus/{sku}/ledger",           SCOPE_READ,  ledger_list},
	{GET,  "/v1/changes",                     SCOPE_READ,  change_list},
	{GET,  "/v1/events",                      LOOK,        event_stream},
	{POST, "/v1/webhooks",                    SCOPE_ADMIN, webhook_post},
	{GET,  "/v1/webhooks",                    SCOPE_ADMIN, webhook_list_get},
	{GET,  "/v1/webhooks/{id}",               SCOPE_ADMIN, webhook_get},
	{DELETE, "/v1/webhooks/{id}",             SCOPE_ADMIN, webhook_remove},
	{POST, "/v1/webhooks/{id}/rotate",        SCOPE_ADMIN, webhook_rotate_post},
	{POST, "/v1/webhooks/{id}/enable",        SCOPE_ADMIN, webhook_enable_post},
	{GET,  "/v1/webhooks/{id}/deliveries",    SCOPE_ADMIN, webhook_deliveries},
	{GET,  "/feeds/google.tsv",               LOOK,        feed_google_get},
	{GET,  "/feeds/local.csv",                LOOK,        feed_local_get},
	{POST, "/mcp",                            0,           mcp_post},    /* its own key, or --public-mcp */
	{POST, "/channels/telegram",              0,           telegram_post}, /* the secret of its webhook */
	{POST, "/channels/alexa",                 0,           alexa_post},    /* Amazon's signature */
	{POST, "/channels/twilio",                0,           twilio_post},   /* Twilio's signature */
	{GET,  "/healthz",                        0,           health_get},
	{GET,  "/readyz",                         0,           ready_get},
	{GET,  "/metrics",                        0,           metrics_get},
	{GET,  "/openapi.json",                   0,           openapi_get},
	{GET,  "/problems",                       0,           problem_index_get},
	{GET,  "/problems/{code}",                0,           problem_page_get},
	{GET,  "/routes",                         0,           route_index_get},
	{GET,  "/",                               ROUTE_ANY_QUERY, page_get},
	{GET,  "/page/{file}",                    0,           page_file_get},
	{POST, "/page-keys",                      0,           page_keys_post},        /* dev's own page only */
	{POST, "/page-break-redis",               0,           page_break_redis_post}, /* dev's own page only */
	{POST, "/page-naive",                     0,           page_naive_post},       /* dev's own page only */
	{GET,  "/shop/{sku}",                     ROUTE_ANY_QUERY, shop_page_get},
};
// clang-format on

static const struct router router = {routes, sizeof routes / sizeof *routes};

struct api {
	const struct config *config;
	struct inventory *inventory;
	struct names *names;
};

struct api *api_new(const struct config *config, struct inventory *inventory)
{
	struct api *api = calloc(1, sizeof *api);
	CHECK(api);
	api->config = config;
	api->inventory = inventory;
	api->names = names_new();
	return api;
}

void api_free(struct api *api)
{
	names_free(api->names);
	free(api);
}

const struct router *api_router(const struct api *api)
{
	return &router;
}

static void *loop_start(struct server_loop *server_loop, void *context)
{
	struct api *api = context;
	struct api_loop *loop = calloc(1, sizeof *loop);
	CHECK(loop);
	loop->config = api->config;
	loop->inventory = api->inventory;
	loop->names = api->names;
	loop->reader = reader_new(api->inventory, server_loop_base(server_loop), server_loop_mailbox(server_loop));
	loop->events = events_new(api->config, api->inventory, server_loop, loop->reader);
	return loop;
}

static void loop_stop(void *loop_context, void *context)
{
	struct api_loop *loop = loop_context;
	events_free(loop->events);
	reader_free(loop->reader);
	buffer_done(&loop->out);
	free(loop);
}

struct server_hooks api_hooks(struct api *api)
{
	return (struct server_hooks){.loop_start = loop_start, .loop_stop = loop_stop, .context = api};
}
