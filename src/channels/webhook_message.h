/* What a webhook is sent: Standard Webhooks (https://www.standardwebhooks.com, spec 1.0.0).
 *
 * A body {"type", "timestamp", "data"}, an id that is the same for every attempt, and a signature over "id.time.body" with
 * the secret: v1, HMAC-SHA256, base64. Secrets are `whsec_` and the base64 of 24 to 64 bytes. Thread: any; pure.
 */
#ifndef CHANNELS_WEBHOOK_MESSAGE_H
#define CHANNELS_WEBHOOK_MESSAGE_H

#include "base/buffer.h"
#include "store/secret.h"
#include "store/webhook.h"

#define WEBHOOK_SECRET_BYTES 50        /* "whsec_" and 44 of base64: 32 bytes */
#define WEBHOOK_ID_BYTES 36            /* "msg_" and 32 hex digits */
#define WEBHOOK_SIGNATURE_BYTES_MAX 96 /* two of "v1," and 44, a blank between */

/* "availability.changed", "stock.out", "stock.back". */
const char *webhook_event_name(enum webhook_event event);
bool webhook_event_parse(struct text name, enum webhook_event *ret_event) LU_MUST_CHECK;

void webhook_secret_new(char out[WEBHOOK_SECRET_BYTES + 1]);
/* The same for the same idempotency key of the same principal at the same webhook, and nobody's who has not `secret`, which
 * the instances share. */
void webhook_secret_of(const uint8_t secret[SECRET_BYTES], const struct uuid *webhook, int64_t principal_id,
                       struct text key, char out[WEBHOOK_SECRET_BYTES + 1]);

/* The same for the same change of the same SKU to the same webhook, whoever sends it and how often. */
void webhook_message_id(const struct webhook *webhook, enum webhook_event event, const struct feed_change *change,
                        char out[WEBHOOK_ID_BYTES + 1]);
void webhook_message_body(struct buffer *out, enum webhook_event event, const struct feed_change *change);
/* The value of webhook-signature: with the secret, and with the old one while that counts. False: the secret is damaged
 * and holds no key, so nobody may be sent this; an old one that is damaged is left out. */
bool webhook_sign(const struct webhook *webhook, const char *id, int64_t time_s, struct text body,
                  char out[WEBHOOK_SIGNATURE_BYTES_MAX + 1]) LU_MUST_CHECK;

#endif
