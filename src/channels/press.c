/* Presses. One spelling each: what was written is read back, and nothing else is. */
#include "channels/press.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

#define HOLD_BYTES 22 /* base64url of 16 bytes */

static void hold_write(const struct uuid *hold, char out[HOLD_BYTES + 1])
{
	unsigned char raw[18] = {0}, coded[25];
	memcpy(raw, hold->bytes, sizeof hold->bytes);
	CHECK(EVP_EncodeBlock(coded, raw, sizeof raw) == 24);
	for (size_t i = 0; i < HOLD_BYTES; i++)
		out[i] = (char)(coded[i] == '+' ? '-' : coded[i] == '/' ? '_' : coded[i]);
	out[HOLD_BYTES] = 0;
}

static bool hold_read(struct text text, struct uuid *ret_hold)
{
	unsigned char coded[24], raw[18];
	char again[HOLD_BYTES + 1];
	if (text.size != HOLD_BYTES)
		return false;
	memset(coded, 'A', sizeof coded);
	for (size_t i = 0; i < HOLD_BYTES; i++)
		coded[i] = (unsigned char)(text.data[i] == '-' ? '+' : text.data[i] == '_' ? '/' : text.data[i]);
	if (EVP_DecodeBlock(raw, coded, sizeof coded) != sizeof raw)
		return false;
	memcpy(ret_hold->bytes, raw, sizeof ret_hold->bytes);
	hold_write(ret_hold, again);
	return memcmp(again, text.data, HOLD_BYTES) == 0;
}

void press_write(const struct press *press, char out[PRESS_BYTES_MAX + 1])
{
	char hold[HOLD_BYTES + 1] = "";
	if (press->action == PRESS_BUY || press->action == PRESS_RELEASE)
		hold_write(&press->hold, hold);
	int size = snprintf(out, PRESS_BYTES_MAX + 1, "%c%s.%" PRId64, press->action,
	                    press->action == PRESS_HOLD ? press->offer : hold, press->product_id);
	CHECK(size > 0 && size <= PRESS_BYTES_MAX);
}

bool press_read(struct text data, struct press *ret_press)
{
	const char *dot = data.size ? memchr(data.data, '.', data.size) : NULL;
	if (!dot || data.size > PRESS_BYTES_MAX)
		return false;
	struct press press = {.action = (enum press_action)data.data[0]};
	struct text middle = {data.data + 1, (size_t)(dot - data.data) - (dot != data.data)};
	struct text product = {dot + 1, (size_t)(data.data + data.size - dot - 1)};
	if (!text_to_int64(product, &press.product_id) || press.product_id < 1)
		return false;
	switch (press.action) {
	case PRESS_HOLD:
		if (middle.size != OFFER_BYTES)
			return false;
		memcpy(press.offer, middle.data, OFFER_BYTES);
		break;
	case PRESS_BUY:
	case PRESS_RELEASE:
		if (!hold_read(middle, &press.hold))
			return false;
		break;
	case PRESS_CHECK:
		if (middle.size)
			return false;
		break;
	default:
		return false;
	}
	*ret_press = press;
	return true;
}
