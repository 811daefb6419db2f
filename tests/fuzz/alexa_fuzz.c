/* Fuzz target: what comes to /channels/alexa: the address of a certificate, a signature, and the envelope with its intent.
 *
 * An address is taken only if libcurl reads it as Amazon's, too, and as the same after it has tidied its path up. A
 * signature fits only if its base64 holds the bytes that our key makes over the body. Whatever an envelope holds, it is
 * answered: in the form that Alexa reads, with a sentence unless the session was over, and with a state that we can
 * read again. Input: the address, a line; the signature, a line; the envelope, whose time and skill are put in.
 */
#include <curl/curl.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/check.h"
#include "base/json.h"
#include "base/text.h"
#include "channels/alexa.h"
#include "channels/press.h"
#include "fuzz/fake_inventory.h"
#include "fuzz/fuzz.h"
#include "fuzz/peer.h"
#include "fuzz/service.h"

#define SKILL "amzn1.ask.skill.fuzz"
#define BYTES_MAX (64 * 1024)

/* --- the address -------------------------------------------------------------------------------------------------- */

static bool part_is(CURLU *url, CURLUPart part, const char *expected)
{
	char *value = NULL;
	bool is = curl_url_get(url, part, &value, 0) == CURLUE_OK && strcasecmp(value, expected) == 0;
	curl_free(value);
	return is;
}

static void check_url(struct text text)
{
	char spelled[ALEXA_URL_BYTES_MAX];
	if (!alexa_url_read(text, spelled))
		return;
	char *address = strndup(text.data, text.size), *path = NULL, *port = NULL, *extra = NULL;
	CURLU *url = curl_url();
	CHECK(url && strlen(address) == text.size && curl_url_set(url, CURLUPART_URL, address, 0) == CURLUE_OK);
	CHECK(part_is(url, CURLUPART_SCHEME, "https") && part_is(url, CURLUPART_HOST, "s3.amazonaws.com"));
	CHECK(curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK && strcmp(port, "443") == 0);
	/* It is the end of the address as it stands: nothing was tidied up, and nothing comes behind it. */
	CHECK(curl_url_get(url, CURLUPART_PATH, &path, 0) == CURLUE_OK && strncmp(path, "/echo.api/", 10) == 0);
	CHECK(strlen(path) < text.size && strcmp(address + text.size - strlen(path), path) == 0);
	CHECK(strncmp(spelled, "https://s3.amazonaws.com/", 25) == 0 && strcmp(spelled + 24, path) == 0);
	CHECK(curl_url_get(url, CURLUPART_USER, &extra, 0) != CURLUE_OK);
	CHECK(curl_url_get(url, CURLUPART_QUERY, &extra, 0) != CURLUE_OK);
	CHECK(curl_url_get(url, CURLUPART_FRAGMENT, &extra, 0) != CURLUE_OK);
	curl_free(path);
	curl_free(port);
	curl_url_cleanup(url);
	free(address);
}

/* --- the signature ------------------------------------------------------------------------------------------------ */

static EVP_PKEY *our_key(void)
{
	static EVP_PKEY *key; /* the same for every input; which one it is means nothing */
	if (!key)
		key = EVP_RSA_gen(1024);
	CHECK(key);
	return key;
}

static size_t sign(struct text body, unsigned char out[512])
{
	size_t size = 512;
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	CHECK(context && EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, our_key()) == 1);
	CHECK(EVP_DigestSign(context, out, &size, (const unsigned char *)body.data, body.size) == 1);
	EVP_MD_CTX_free(context);
	return size;
}

/* RFC 4648, 4, in its plainest form. */
static bool decodes_to(struct text base64, const unsigned char *bytes, size_t size)
{
	static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint32_t bits = 0;
	size_t at = 0, count = 0;
	for (size_t i = 0; i < base64.size; i++) {
		const char *digit = base64.data[i] ? strchr(alphabet, base64.data[i]) : NULL;
		if (!digit)
			continue;
		bits = bits << 6 | (uint32_t)(digit - alphabet);
		if (++count % 4 == 1)
			continue;
		unsigned char byte = (unsigned char)(bits >> (6 - 2 * ((count - 1) % 4)));
		if (at < size && bytes[at] != byte)
			return false;
		at++;
	}
	return at == size;
}

static void check_signature(struct text signature, struct text body)
{
	unsigned char raw[512], coded[700];
	size_t size = sign(body, raw);
	bool fits = alexa_signature_check(our_key(), body, signature);
	CHECK(!fits || decodes_to(signature, raw, size));
	struct text ours = {(const char *)coded, (size_t)EVP_EncodeBlock(coded, raw, (int)size)};
	CHECK(alexa_signature_check(our_key(), body, ours));
	/* Neither over another body, nor with another byte in it. */
	if (body.size)
		CHECK(!alexa_signature_check(our_key(), (struct text){body.data, body.size - 1}, ours));
	size_t at = signature.size % (ours.size - 4);
	coded[at] = coded[at] == 'A' ? 'B' : 'A';
	CHECK(!alexa_signature_check(our_key(), body, ours));
}

/* --- the conversation --------------------------------------------------------------------------------------------- */

/* The envelope with a time of now and our skill, if it is an object; else as it is. The caller frees it. */
static char *complete(struct text input)
{
	char stamp[32];
	struct tm tm;
	time_t now = time(NULL);
	json_t *envelope = NULL, *asked, *skill;
	const char *why;
	if (json_parse(input, &envelope, &why) || !json_is_object(envelope)) {
		json_decref(envelope);
		return strndup(input.data ? input.data : "", input.size);
	}
	strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
	asked = json_object_get(envelope, "request");
	if (json_is_object(asked))
		CHECK(json_object_set_new(asked, "timestamp", json_string(stamp)) == 0);
	skill = json_pack("{s:{s:{s:s}}}", "System", "application", "applicationId", SKILL);
	CHECK(skill && json_object_set_new(envelope, "context", skill) == 0);
	char *text = json_dumps(envelope, JSON_COMPACT);
	json_decref(envelope);
	CHECK(text);
	return text;
}

static void check_state(struct text state)
{
	struct press press;
	const char *split = state.size ? memchr(state.data, '~', state.size) : NULL;
	struct text yes = {state.data, split ? (size_t)(split - state.data) : state.size};
	CHECK(press_read(yes, &press));
	if (split)
		CHECK(press_read((struct text){split + 1, state.size - yes.size - 1}, &press));
}

static void check_reply(struct text body)
{
	json_t *reply = NULL, *response, *state, *sentence;
	const char *why;
	CHECK(json_parse(body, &reply, &why) == LU_OK && json_is_object(reply));
	response = json_object_get(reply, "response");
	CHECK(strcmp(json_string_value(json_object_get(reply, "version")), "1.0") == 0);
	CHECK(json_is_boolean(json_object_get(response, "shouldEndSession")));
	sentence = json_object_get(json_object_get(response, "outputSpeech"), "text");
	if (!sentence)
		CHECK(json_is_true(json_object_get(response, "shouldEndSession")));
	else
		CHECK(json_string_length(sentence));
	state = json_object_get(json_object_get(reply, "sessionAttributes"), "state");
	if (state)
		check_state(json_text(state));
	json_decref(reply);
}

static void check_conversation(struct text input)
{
	struct buffer bytes = {0};
	struct peer_answers answers;
	char *envelope = complete(input);
	buffer_add_format(&bytes,
	                  "POST /channels/alexa HTTP/1.1\r\nHost: fuzz\r\nContent-Type: application/json\r\n"
	                  "Content-Length: %zu\r\n\r\n",
	                  strlen(envelope));
	buffer_add_string(&bytes, envelope);
	peer_exchange(buffer_text(&bytes), bytes.size, bytes.size, false, &answers);
	CHECK(answers.count == 1);
	const struct peer_answer *answer = &answers.answers[0];
	if (answer->status == 200)
		check_reply(answer->body);
	else
		CHECK(answer->status == 400 || answer->status == 403);
	peer_answers_done(&answers);
	buffer_done(&bytes);
	free(envelope);
}

/* --- the target --------------------------------------------------------------------------------------------------- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > BYTES_MAX)
		return 0;
	struct text rest = {(const char *)data, size};
	check_url(line_cut(&rest));
	struct text signature = line_cut(&rest);
	check_signature(signature, rest);
	struct config config;
	service_config(&config);
	config.alexa_key = SERVICE_KEY;
	config.alexa_application = SKILL;
	config.alexa_verify = false;
	fake_products = true;
	service_start(&config, CHANNEL_VOICE, SCOPE_READ | SCOPE_SELL);
	check_conversation(rest);
	service_stop();
	return 0;
}
