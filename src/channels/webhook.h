/* The deliverer of webhooks: one thread per instance, of which one in the cluster leads and delivers.
 *
 * Each webhook goes through the change feed at its own pace, from a place kept in PostgreSQL: a page of SKUs that
 * changed, one message at a time, the place moved on as they are taken. So messages are never lost and may come twice;
 * those of one SKU come in order; an endpoint that is slow, or away for days, costs nobody anything and is then told the
 * newest state of each SKU, not each step.
 *
 *   2xx                     taken
 *   410                     the webhook is disabled
 *   other 4xx               it does not want this message: after REFUSALS_MAX attempts put aside, and on
 *   anything else, silence  it is away: again after 1 s, 2 s, 4 s … 15 min, jittered, or when Retry-After says; disabled
 *                           when nothing has been taken for --webhook-disable-after-s
 *
 * 408, 425 and 429 count as away. Redirects are not followed, proxies not used; addresses inside the operator's own
 * network are refused unless --webhook-private-addresses. Secrets and addresses are never logged.
 * Thread: start and stop from the one that starts the service.
 */
#ifndef CHANNELS_WEBHOOK_H
#define CHANNELS_WEBHOOK_H

#include "base/config.h"

struct webhooks;

struct webhooks *webhooks_start(const struct config *config);
/* Cuts off what is under way; it is sent again by whoever leads next. */
void webhooks_stop(struct webhooks *webhooks);

#endif
