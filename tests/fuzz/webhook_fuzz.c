/* Fuzz target: what an operator gives for a webhook, its URL and the name of an event, and what is in the
 * database as its secret.
 *
 * A URL is taken only if libcurl reads it as http or https to a host, without a user; without the operator's leave, not to
 * a host that is an address which a plain reading of RFC 6890 keeps for others. A secret signs as Standard Webhooks says,
 * with the bytes that its base64 holds, read in its plainest form; whatever else stands there signs nothing, and
 * nothing is written behind the room for a signature. Input: the URL, a line; the secret, a line; the old secret, a
 * line; the body.
 */
#include <arpa/inet.h>
#include <curl/curl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/text.h"
#include "channels/webhook_address.h"
#include "channels/webhook_message.h"
#include "fuzz/fuzz.h"
#include "fuzz/service.h"

#define TIME_S INT64_C(1796135525)
#define ID "msg_00112233445566778899aabbccddeeff"

/* --- the URL ------------------------------------------------------------------------------------------------------ */

/* RFC 6890 and 5771, octet by octet. */
static bool is_kept_4(const uint8_t a[4])
{
	return a[0] == 0 || a[0] == 10 || a[0] == 127 || (a[0] == 100 && a[1] >= 64 && a[1] <= 127) ||
	       (a[0] == 169 && a[1] == 254) || (a[0] == 172 && a[1] >= 16 && a[1] <= 31) ||
	       (a[0] == 192 && a[1] == 0 && (a[2] == 0 || a[2] == 2)) || (a[0] == 192 && a[1] == 88 && a[2] == 99) ||
	       (a[0] == 192 && a[1] == 168) || (a[0] == 198 && (a[1] == 18 || a[1] == 19)) ||
	       (a[0] == 198 && a[1] == 51 && a[2] == 100) || (a[0] == 203 && a[1] == 0 && a[2] == 113) || a[0] >= 224;
}

/* Is the host an address that is kept: 127.0.0.1, [::1], [::ffff:10.0.0.1]? */
static bool is_kept(const char *host)
{
	uint8_t four[4], six[16];
	char bare[64];
	if (inet_pton(AF_INET, host, four) == 1)
		return is_kept_4(four);
	if (host[0] != '[' || strlen(host) >= sizeof bare)
		return strcasecmp(host, "localhost") == 0;
	snprintf(bare, sizeof bare, "%.*s", (int)strcspn(host + 1, "]%"), host + 1);
	if (inet_pton(AF_INET6, bare, six) != 1)
		return true;
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	if (memcmp(six, mapped, sizeof mapped) == 0)
		return is_kept_4(six + 12);
	return six[0] == 0xfc || six[0] == 0xfd || six[0] == 0xfe || six[0] == 0xff ||
	       (six[0] == 0 && memcmp(six, (uint8_t[12]){0, 0x64, 0xff, 0x9b}, 12) != 0);
}

static void check_taken(const char *text, bool private_allowed)
{
	char *scheme = NULL, *host = NULL, *user = NULL;
	CURLU *url = curl_url();
	CHECK(url && curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK);
	CHECK(curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK);
	CHECK(strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
	CHECK(curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK && *host);
	CHECK(curl_url_get(url, CURLUPART_USER, &user, 0) != CURLUE_OK);
	CHECK(private_allowed || !is_kept(host));
	curl_free(scheme);
	curl_free(host);
	curl_url_cleanup(url);
}

static void check_url(struct text text)
{
	char *url = strndup(text.data ? text.data : "", text.size);
	const char *flaw = webhook_url_flaw(url, false), *flaw_of_private = webhook_url_flaw(url, true);
	CHECK(flaw || !flaw_of_private); /* leave allows more, never less */
	CHECK((!flaw || *flaw) && (!flaw_of_private || *flaw_of_private));
	if (!flaw)
		check_taken(url, false);
	if (!flaw_of_private)
		check_taken(url, true);
	free(url);
}

/* The first 16 bytes as an address, of both kinds. */
static void check_address(struct text bytes)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr.s6_addr = {[10] = 0xff, [11] = 0xff}};
	if (bytes.size < 4)
		return;
	memcpy(&v4.sin_addr, bytes.data, 4);
	bool kept = is_kept_4((const uint8_t *)bytes.data);
	CHECK(webhook_address_is_public((struct sockaddr *)&v4) == !kept);
	/* The same address, written as IPv6. */
	memcpy(v6.sin6_addr.s6_addr + 12, bytes.data, 4);
	CHECK(webhook_address_is_public((struct sockaddr *)&v6) == !kept);
	v6.sin6_addr = (struct in6_addr){.s6_addr = {0x20, 0x02}};
	memcpy(v6.sin6_addr.s6_addr + 2, bytes.data, 4);
	CHECK(webhook_address_is_public((struct sockaddr *)&v6) == !kept);
}

/* --- the secret --------------------------------------------------------------------------------------------------- */

/* "whsec_" and base64 with its padding, RFC 4648, 4. The size of the key; 0: it is none. */
static size_t plain_key(struct text secret, unsigned char out[128])
{
	static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint32_t bits = 0;
	size_t size = 0, padding = 0;
	if (secret.size <= 6 || memcmp(secret.data, "whsec_", 6) != 0 || (secret.size - 6) % 4 || secret.size - 6 > 128)
		return 0;
	for (size_t i = 6; i < secret.size; i++) {
		const char *digit = secret.data[i] ? strchr(alphabet, secret.data[i]) : NULL;
		if (secret.data[i] == '=')
			padding++;
		else if (padding || !digit)
			return 0;
		bits = bits << 6 | (uint32_t)(digit ? digit - alphabet : 0);
		if ((i - 6) % 4 == 3) {
			out[size++] = (unsigned char)(bits >> 16);
			out[size++] = (unsigned char)(bits >> 8);
			out[size++] = (unsigned char)bits;
		}
	}
	return padding > 2 ? 0 : size - padding;
}

/* False: the secret holds no key. */
static bool plain_signature(struct text secret, struct text body, struct buffer *out)
{
	unsigned char key[128], mac[EVP_MAX_MD_SIZE], coded[64];
	unsigned size;
	struct buffer content = {0};
	size_t key_size = plain_key(secret, key);
	if (!key_size)
		return false;
	buffer_add_format(&content, ID ".%lld.", (long long)TIME_S);
	buffer_add_text(&content, body);
	CHECK(HMAC(EVP_sha256(), key, (int)key_size, (const unsigned char *)content.data, content.size, mac, &size));
	CHECK(EVP_EncodeBlock(coded, mac, (int)size) == 44);
	buffer_add_string(out, out->size ? " v1," : "v1,");
	buffer_add(out, coded, 44);
	buffer_done(&content);
	return true;
}

static void check_secret(struct text secret, struct text old_secret, struct text body)
{
	struct {
		char signature[WEBHOOK_SIGNATURE_BYTES_MAX + 1], behind[16];
	} out;
	struct webhook webhook = {.secret = secret};
	struct buffer expected = {0};
	memset(&out, 'b', sizeof out);
	bool signs = plain_signature(secret, body, &expected);
	CHECK(webhook_sign(&webhook, ID, TIME_S, body, out.signature) == signs);
	CHECK(text_equal(text_of(out.signature), buffer_text(&expected)));
	webhook.old_secret = old_secret.data ? old_secret : TEXT("");
	CHECK(webhook_sign(&webhook, ID, TIME_S, body, out.signature) == signs);
	if (signs)
		(void)plain_signature(old_secret, body, &expected);
	CHECK(text_equal(text_of(out.signature), buffer_text(&expected)));
	for (size_t i = 0; i < sizeof out.behind; i++)
		CHECK(out.behind[i] == 'b');
	buffer_done(&expected);
}

static void check_event(struct text name)
{
	enum webhook_event event = 0;
	if (webhook_event_parse(name, &event))
		CHECK(text_equal(text_of(webhook_event_name(event)), name));
	else
		CHECK(event == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text rest = {(const char *)data, size};
	check_url(line_cut(&rest));
	struct text secret = line_cut(&rest), old_secret = line_cut(&rest);
	check_secret(secret, old_secret, rest);
	check_event(secret);
	check_event(rest);
	check_address(rest);
	return 0;
}
