/* Offers: what a look-up hands out so that a hold can be asked for, once.
 *
 * An offer is 96 random bits and a signature over them and the principal: unguessable, needs no storage, holds on every
 * instance, and never grows old (what it is asked for is decided when it is asked). It is the idempotency key of the
 * hold, because people press twice, clients resend and models invent keys that collide: an offer of our own cannot.
 * Thread: any; pure but for the random bytes.
 */
#ifndef CHANNELS_OFFER_H
#define CHANNELS_OFFER_H

#include <stdbool.h>

#include "lastunit/types.h"
#include "store/secret.h"

#define OFFER_BYTES 27 /* of [A-Za-z0-9_-] */

/* NUL behind. */
void offer_mint(const uint8_t secret[SECRET_BYTES], int64_t principal_id, char out[OFFER_BYTES + 1]);
/* True if we minted it for this principal. In constant time. */
bool offer_verify(const uint8_t secret[SECRET_BYTES], int64_t principal_id, struct text offer);

#endif
