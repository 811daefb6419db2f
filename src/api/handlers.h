/* The handlers that routes.c names: one per route, the deed and then its object. Internal to api. */
#ifndef API_HANDLERS_H
#define API_HANDLERS_H

#include "http/request.h"

void availability_get(struct request *request); /* availability.c */
void availability_list(struct request *request);
void availability_post(struct request *request);
void checkout_post(struct request *request); /* checkouts.c */
void checkout_get(struct request *request);
void checkout_list(struct request *request);
void checkout_cancel(struct request *request);
void reservation_post(struct request *request); /* reservations.c */
void reservation_get(struct request *request);
void reservation_list(struct request *request);
void reservation_commit(struct request *request);
void reservation_release(struct request *request);
void reservation_extend(struct request *request);
void order_put(struct request *request); /* orders.c */
void order_get(struct request *request);
void adjustment_post(struct request *request); /* adjustments.c */
void batch_post(struct request *request);      /* batch.c */
void sku_put(struct request *request);         /* skus.c */
void sku_get(struct request *request);
void sku_list(struct request *request);
void ledger_list(struct request *request);  /* ledger.c */
void change_list(struct request *request);  /* changes.c */
void event_stream(struct request *request); /* events.c */
void webhook_post(struct request *request); /* webhooks.c */
void webhook_get(struct request *request);
void webhook_list_get(struct request *request);
void webhook_remove(struct request *request);
void webhook_rotate_post(struct request *request);
void webhook_enable_post(struct request *request);
void webhook_deliveries(struct request *request);
void health_get(struct request *request); /* operations.c */
void ready_get(struct request *request);
void metrics_get(struct request *request);
void openapi_get(struct request *request);       /* openapi.c */
void problem_index_get(struct request *request); /* pages.c */
void problem_page_get(struct request *request);
void route_index_get(struct request *request);

#endif
