/* What a webhook is sent (webhook_message.h).
 *
 * Happy path: availability as GET shows it, in an envelope; digests by OpenSSL. Failure modes: a secret in the database
 * that is none of ours is a bug of whoever wrote it there, and signs nothing.
 */
#include "channels/webhook_message.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#include "api/render.h"
#include "base/base64.h"
#include "base/check.h"
#include "base/id.h"
#include "base/text.h"

#define PREFIX "whsec_"
#define PREFIX_BYTES (sizeof PREFIX - 1)
#define SECRET_RAW_BYTES 32
#define SECRET_RAW_BYTES_MAX 96

static const struct {
	enum webhook_event event;
	const char *name;
} events[] = {
	{WEBHOOK_AVAILABILITY, "availability.changed"},
	{WEBHOOK_STOCK_OUT, "stock.out"},
	{WEBHOOK_STOCK_BACK, "stock.back"},
};

const char *webhook_event_name(enum webhook_event event)
{
	for (size_t i = 0; i < sizeof events / sizeof *events; i++)
		if (events[i].event == event)
			return events[i].name;
	CHECK(false);
	return NULL;
}

bool webhook_event_parse(struct text name, enum webhook_event *ret_event)
{
	for (size_t i = 0; i < sizeof events / sizeof *events; i++)
		if (text_equal(name, text_of(events[i].name))) {
			*ret_event = events[i].event;
			return true;
		}
	return false;
}

static void put_secret(const unsigned char raw[SECRET_RAW_BYTES], char out[WEBHOOK_SECRET_BYTES + 1])
{
	memcpy(out, PREFIX, PREFIX_BYTES);
	CHECK(EVP_EncodeBlock((unsigned char *)out + PREFIX_BYTES, raw, SECRET_RAW_BYTES) ==
	      (int)(WEBHOOK_SECRET_BYTES - PREFIX_BYTES));
}

void webhook_secret_new(char out[WEBHOOK_SECRET_BYTES + 1])
{
	unsigned char raw[SECRET_RAW_BYTES];
	random_bytes(raw, sizeof raw);
	put_secret(raw, out);
}

void webhook_secret_of(const uint8_t secret[SECRET_BYTES], const struct uuid *webhook, int64_t principal_id,
                       struct text key, char out[WEBHOOK_SECRET_BYTES + 1])
{
	char id[UUID_TEXT_BYTES + 1];
	unsigned char raw[EVP_MAX_MD_SIZE];
	unsigned size;
	struct buffer message = {0};
	uuid_format(webhook, id);
	buffer_add_format(&message, "rotate %s %" PRId64 " ", id, principal_id);
	buffer_add_text(&message, key);
	CHECK(HMAC(EVP_sha256(), secret, SECRET_BYTES, (const unsigned char *)message.data, message.size, raw, &size) &&
	      size == SECRET_RAW_BYTES);
	buffer_done(&message);
	put_secret(raw, out);
}

void webhook_message_id(const struct webhook *webhook, enum webhook_event event, const struct feed_change *change,
                        char out[WEBHOOK_ID_BYTES + 1])
{
	char webhook_id[UUID_TEXT_BYTES + 1], name[200];
	unsigned char digest[EVP_MAX_MD_SIZE];
	uuid_format(&webhook->id, webhook_id);
	int size = snprintf(name, sizeof name, "%s %s %" PRId64 " %" PRId64 " %" PRId64, webhook_id,
	                    webhook_event_name(event), change->position.identity, change->position.sku_id,
	                    change->figures.version);
	CHECK(EVP_Digest(name, (size_t)size, digest, NULL, EVP_sha256(), NULL) == 1);
	memcpy(out, "msg_", 4);
	for (size_t i = 0; i < (WEBHOOK_ID_BYTES - 4) / 2; i++)
		snprintf(out + 4 + 2 * i, 3, "%02x", digest[i]);
}

void webhook_message_body(struct buffer *out, enum webhook_event event, const struct feed_change *change)
{
	static const struct principal anybody; /* no buffer, no rights: what the shop as a whole has */
	struct json_writer w = json_writer(out);
	struct lookup_item item = {.sku = change->sku, .known = true, .figures = change->figures};
	json_object_open(&w);
	json_member_string(&w, "type", webhook_event_name(event));
	json_key(&w, "timestamp");
	json_put_time(&w, change->at_us);
	json_key(&w, "data");
	render_availability(&w, &item, &anybody);
	json_object_close(&w);
}

/* The key in a secret; its size, 0: it is none. */
static size_t secret_key(struct text secret, unsigned char out[SECRET_RAW_BYTES_MAX])
{
	size_t size;
	if (secret.size <= PREFIX_BYTES || memcmp(secret.data, PREFIX, PREFIX_BYTES) != 0)
		return 0;
	struct text coded = {secret.data + PREFIX_BYTES, secret.size - PREFIX_BYTES};
	return base64_decode(coded, out, SECRET_RAW_BYTES_MAX, &size) ? size : 0;
}

/* Its size, 0: the secret holds no key. An empty one would sign as everybody can. */
static size_t put_signature(char *out, struct text secret, struct text content)
{
	unsigned char key[SECRET_RAW_BYTES_MAX], digest[EVP_MAX_MD_SIZE];
	unsigned size = 0;
	size_t key_size = secret_key(secret, key);
	if (!key_size)
		return 0;
	CHECK(HMAC(EVP_sha256(), key, (int)key_size, (const unsigned char *)content.data, content.size, digest, &size));
	memcpy(out, "v1,", 3);
	return 3 + (size_t)EVP_EncodeBlock((unsigned char *)out + 3, digest, (int)size);
}

bool webhook_sign(const struct webhook *webhook, const char *id, int64_t time_s, struct text body,
                  char out[WEBHOOK_SIGNATURE_BYTES_MAX + 1])
{
	struct buffer content = {0};
	buffer_add_format(&content, "%s.%" PRId64 ".", id, time_s);
	buffer_add_text(&content, body);
	size_t size = put_signature(out, webhook->secret, buffer_text(&content));
	if (size && webhook->old_secret.data) {
		size_t more = put_signature(out + size + 1, webhook->old_secret, buffer_text(&content));
		out[size] = ' ';
		size += more ? 1 + more : 0;
	}
	out[size] = 0;
	buffer_done(&content);
	return size > 0;
}
