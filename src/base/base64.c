/* Base64 (base64.h). By hand: EVP_DecodeBlock() counts the padding, takes it anywhere, and blanks around it all. */
#include "base/base64.h"

#include <stdint.h>
#include <string.h>

/* -1: none of the alphabet's. */
static int digit_of(char c)
{
	static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c ? strchr(alphabet, c) : NULL;
	return at ? (int)(at - alphabet) : -1;
}

bool base64_decode(struct text coded, unsigned char *out, size_t room, size_t *ret_size)
{
	size_t padding = 0, size;
	if (coded.size % 4)
		return false;
	while (padding < 2 && padding < coded.size && coded.data[coded.size - 1 - padding] == '=')
		padding++;
	size = BASE64_RAW_BYTES_MAX(coded.size) - padding;
	if (size > room)
		return false;
	uint32_t bits = 0;
	for (size_t i = 0, at = 0; i < coded.size; i++) {
		int digit = i < coded.size - padding ? digit_of(coded.data[i]) : 0;
		if (digit < 0)
			return false;
		bits = bits << 6 | (uint32_t)digit;
		if (i % 4 < 3)
			continue;
		for (int shift = 16; shift >= 0 && at < size; shift -= 8)
			out[at++] = (unsigned char)(bits >> shift);
	}
	*ret_size = size;
	return true;
}
