/* Offers: base64url of 12 random bytes and the first 8 of HMAC-SHA256(secret, "offer", principal, random). */
#include "channels/offer.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#include "base/check.h"
#include "base/id.h"

#define RANDOM_BYTES 12
#define MAC_BYTES 8
#define RAW_BYTES (RANDOM_BYTES + MAC_BYTES + 1) /* a multiple of three: no padding; the last byte is always 0 */
#define TEXT_BYTES (RAW_BYTES / 3 * 4)           /* and its last character always A: not shown */

_Static_assert(TEXT_BYTES == OFFER_BYTES + 1, "one character is cut");

static void sign(const uint8_t secret[SECRET_BYTES], int64_t principal_id, const uint8_t random[RANDOM_BYTES],
                 uint8_t out[MAC_BYTES])
{
	static const char domain[] = "offer";
	uint8_t message[sizeof domain + sizeof principal_id + RANDOM_BYTES], mac[EVP_MAX_MD_SIZE];
	unsigned size;
	memcpy(message, domain, sizeof domain);
	for (size_t i = 0; i < sizeof principal_id; i++)
		message[sizeof domain + i] = (uint8_t)((uint64_t)principal_id >> (8 * i));
	memcpy(message + sizeof domain + sizeof principal_id, random, RANDOM_BYTES);
	CHECK(HMAC(EVP_sha256(), secret, SECRET_BYTES, message, sizeof message, mac, &size) && size >= MAC_BYTES);
	memcpy(out, mac, MAC_BYTES);
}

static void encode(const uint8_t raw[RAW_BYTES], char out[OFFER_BYTES + 1])
{
	unsigned char text[TEXT_BYTES + 1];
	CHECK(EVP_EncodeBlock(text, raw, RAW_BYTES) == TEXT_BYTES);
	for (size_t i = 0; i < OFFER_BYTES; i++)
		out[i] = (char)(text[i] == '+' ? '-' : text[i] == '/' ? '_' : text[i]);
	out[OFFER_BYTES] = 0;
}

void offer_mint(const uint8_t secret[SECRET_BYTES], int64_t principal_id, char out[OFFER_BYTES + 1])
{
	uint8_t raw[RAW_BYTES] = {0};
	random_bytes(raw, RANDOM_BYTES);
	sign(secret, principal_id, raw, raw + RANDOM_BYTES);
	encode(raw, out);
}

static bool decode(struct text offer, uint8_t out[RAW_BYTES])
{
	unsigned char text[TEXT_BYTES + 1];
	if (offer.size != OFFER_BYTES)
		return false;
	for (size_t i = 0; i < OFFER_BYTES; i++) {
		char c = offer.data[i];
		bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
		if (!letter && c != '-' && c != '_')
			return false;
		text[i] = (unsigned char)(c == '-' ? '+' : c == '_' ? '/' : c);
	}
	text[OFFER_BYTES] = 'A';
	text[TEXT_BYTES] = 0;
	return EVP_DecodeBlock(out, text, TEXT_BYTES) == RAW_BYTES;
}

bool offer_verify(const uint8_t secret[SECRET_BYTES], int64_t principal_id, struct text offer)
{
	uint8_t raw[RAW_BYTES], mac[MAC_BYTES];
	/* One spelling only: what is the same offer must be the same key. The last character shown carries two bits that
	 * mean nothing, and they must be 0. */
	if (!decode(offer, raw) || raw[RAW_BYTES - 1] != 0)
		return false;
	sign(secret, principal_id, raw, mac);
	return CRYPTO_memcmp(raw + RANDOM_BYTES, mac, MAC_BYTES) == 0;
}
