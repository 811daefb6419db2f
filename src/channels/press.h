/* What a button carries: what to do, with which offer or hold, of which product, in at most 64 bytes of text.
 *
 *	h<offer>.<product>   hold one            c.<product>          look again
 *	b<hold>.<product>    buy what is held    r<hold>.<product>    release it
 *
 * An offer is offer.h's, a hold its id in base64url (22), a product its id in decimal. Thread: any; pure.
 */
#ifndef CHANNELS_PRESS_H
#define CHANNELS_PRESS_H

#include "channels/offer.h"

#define PRESS_BYTES_MAX 64 /* Telegram's limit for callback_data */

struct press {
	enum press_action { PRESS_HOLD = 'h', PRESS_CHECK = 'c', PRESS_BUY = 'b', PRESS_RELEASE = 'r' } action;
	char offer[OFFER_BYTES + 1]; /* PRESS_HOLD; whether it is ours is for offer_verify() */
	struct uuid hold;            /* PRESS_BUY, PRESS_RELEASE */
	int64_t product_id;          /* positive */
};

/* NUL behind. */
void press_write(const struct press *press, char out[PRESS_BYTES_MAX + 1]);
/* False if it is none. */
bool press_read(struct text data, struct press *ret_press) LU_MUST_CHECK;

#endif
