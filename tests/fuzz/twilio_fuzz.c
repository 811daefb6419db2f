/* Fuzz target: a call of Twilio's to /channels/twilio: the form in its body, the address with language and state, the
 * signature over all of it.
 *
 * A form that reads, signed as Twilio's documentation says it, is answered in TwiML that is well-formed: one Response, a
 * sentence in it, no markup but ours. With another byte in the signature, the address or a field it is refused. A
 * form that does not read is no fault of ours. Input: "LANGUAGE STATE", a line; the form.
 */
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "fuzz/fake_inventory.h"
#include "fuzz/fuzz.h"
#include "fuzz/peer.h"
#include "fuzz/service.h"

#define TOKEN "the token of an account"
#define PUBLIC_URL "https://shop.example"
#define BYTES_MAX (16 * 1024)
#define FIELDS_MAX 200
#define SIGNATURE_BYTES 28

/* --- the form, in its plainest form ------------------------------------------------------------------------------- */

struct field {
	struct text name, value;
};

struct form {
	struct buffer bytes; /* room for all of it, decoded */
	struct field fields[FIELDS_MAX];
	size_t count;
};

static int digit_of(char c)
{
	const char *digits = "0123456789abcdefABCDEF", *at = c ? strchr(digits, c) : NULL;
	return !at ? -1 : at - digits < 16 ? (int)(at - digits) : (int)(at - digits) - 6;
}

/* False: an escape that is none, or what is decoded is no text. */
static bool decode(struct buffer *out, struct text raw, struct text *ret)
{
	size_t from = out->size;
	for (size_t i = 0; i < raw.size; i++) {
		char c = raw.data[i] == '+' ? ' ' : raw.data[i];
		if (c == '%') {
			if (raw.size - i < 3 || digit_of(raw.data[i + 1]) < 0 || digit_of(raw.data[i + 2]) < 0)
				return false;
			c = (char)(digit_of(raw.data[i + 1]) << 4 | digit_of(raw.data[i + 2]));
			i += 2;
		}
		buffer_add_char(out, c);
	}
	*ret = (struct text){out->data + from, out->size - from};
	return text_is_utf8(*ret); /* has no NUL */
}

/* True if it reads. More fields than we have room for: false, too, and *ret_too_many. */
static bool form_read(struct form *form, struct text body, bool *ret_too_many)
{
	*form = (struct form){0};
	*ret_too_many = false;
	buffer_reserve(&form->bytes, body.size + 1); /* fields point into it */
	while (body.size) {
		const char *end = memchr(body.data, '&', body.size);
		struct text piece = {body.data, end ? (size_t)(end - body.data) : body.size};
		body = (struct text){piece.data + piece.size + (end != NULL), body.size - piece.size - (end != NULL)};
		if (!piece.size)
			continue;
		const char *equals = memchr(piece.data, '=', piece.size);
		struct text name = {piece.data, equals ? (size_t)(equals - piece.data) : piece.size};
		struct text value = {equals ? equals + 1 : NULL, equals ? piece.size - name.size - 1 : 0};
		*ret_too_many = form->count == FIELDS_MAX;
		if (*ret_too_many || !decode(&form->bytes, name, &form->fields[form->count].name) ||
		    !decode(&form->bytes, value, &form->fields[form->count].value))
			return false;
		form->count++;
	}
	return true;
}

static int by_bytes(struct text a, struct text b)
{
	size_t size = a.size < b.size ? a.size : b.size;
	int order = size ? memcmp(a.data, b.data, size) : 0;
	return order ? order : (a.size > b.size) - (a.size < b.size);
}

/* "Sort the list of POST variables alphabetically, append each name and value to the end of the URL,
 * sign with HMAC-SHA1." */
static void sign(struct form *form, struct text address, char out[SIGNATURE_BYTES + 1])
{
	unsigned char mac[EVP_MAX_MD_SIZE];
	unsigned size;
	struct buffer message = {0};
	buffer_add_text(&message, address);
	for (size_t i = 1; i < form->count; i++)
		for (size_t j = i; j; j--) {
			struct field *a = &form->fields[j - 1], *b = &form->fields[j], swapped = *a;
			int order = by_bytes(a->name, b->name);
			if (order < 0 || (order == 0 && by_bytes(a->value, b->value) <= 0))
				break;
			*a = *b;
			*b = swapped;
		}
	for (size_t i = 0; i < form->count; i++) {
		buffer_add_text(&message, form->fields[i].name);
		buffer_add_text(&message, form->fields[i].value);
	}
	CHECK(HMAC(EVP_sha1(), TOKEN, sizeof TOKEN - 1, (const unsigned char *)message.data, message.size, mac, &size));
	CHECK(EVP_EncodeBlock((unsigned char *)out, mac, (int)size) == SIGNATURE_BYTES);
	buffer_done(&message);
}

/* --- the answer --------------------------------------------------------------------------------------------------- */

/* Tags of these names, properly nested, and between them text whose '&' begins an entity. */
static void check_markup(struct text xml)
{
	static const char *const names[] = {"Response", "Gather", "Say", "Hangup"};
	const char *open[8];
	size_t depth = 0, at = 0, says = 0;
	static const char head[] = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
	CHECK(xml.size > sizeof head && memcmp(xml.data, head, sizeof head - 1) == 0 && text_is_utf8(xml));
	for (at = sizeof head - 1; at < xml.size; at++) {
		const char *here = xml.data + at;
		if (*here == '&')
			CHECK(memchr(here, ';', xml.size - at < 8 ? xml.size - at : 8));
		if (*here != '<')
			continue;
		const char *end = memchr(here, '>', xml.size - at);
		const char *name = NULL;
		bool closes = here[1] == '/';
		CHECK(end && !memchr(here + 1, '<', (size_t)(end - here - 1)));
		for (size_t i = 0; i < sizeof names / sizeof *names; i++)
			if (strncmp(here + 1 + closes, names[i], strlen(names[i])) == 0)
				name = names[i];
		CHECK(name);
		says += !closes && strcmp(name, "Say") == 0;
		if (closes)
			CHECK(depth && open[--depth] == name);
		else if (end[-1] != '/')
			CHECK(depth < 8 && (depth || strcmp(name, "Response") == 0) && (open[depth++] = name));
		at += (size_t)(end - here);
	}
	CHECK(!depth && says == 1);
}

static int call(const char *target, struct text body, const char *signature)
{
	struct buffer bytes = {0};
	struct peer_answers answers;
	buffer_add_format(&bytes,
	                  "POST %s HTTP/1.1\r\nHost: fuzz\r\nContent-Type: application/x-www-form-urlencoded\r\n"
	                  "X-Twilio-Signature: %s\r\nContent-Length: %zu\r\n\r\n",
	                  target, signature, body.size);
	buffer_add_text(&bytes, body);
	peer_exchange(buffer_text(&bytes), bytes.size, bytes.size, false, &answers);
	CHECK(answers.count == 1);
	int status = answers.answers[0].status;
	if (status == 200)
		check_markup(answers.answers[0].body);
	else
		CHECK(status == 400 || status == 403);
	peer_answers_done(&answers);
	buffer_done(&bytes);
	return status;
}

/* Only what an address of ours holds: nothing that has to be escaped. */
static size_t plain(struct text word, char *out, size_t room)
{
	size_t size = 0;
	for (size_t i = 0; i < word.size && size + 1 < room; i++)
		if (word.data[i] && strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_~", word.data[i]))
			out[size++] = word.data[i];
	out[size] = 0;
	return size;
}

static void check_call(struct text line, struct text body)
{
	char language[32], state[200], target[300], signature[SIGNATURE_BYTES + 1];
	struct form form;
	bool too_many;
	const char *blank = line.size ? memchr(line.data, ' ', line.size) : NULL;
	struct text word = {line.data, blank ? (size_t)(blank - line.data) : line.size};
	plain(word, language, sizeof language);
	plain((struct text){word.data + word.size, line.size - word.size}, state, sizeof state);
	snprintf(target, sizeof target, "/channels/twilio%s%s%s%s", *language ? "?language=" : "", language,
	         *state ? (*language ? "&state=" : "?state=") : "", state);
	struct buffer address = {0};
	buffer_add_format(&address, PUBLIC_URL "%s", target);
	bool reads = form_read(&form, body, &too_many);
	if (reads) {
		sign(&form, buffer_text(&address), signature);
		CHECK(call(target, body, signature) == 200);
		size_t at = body.size % (SIGNATURE_BYTES - 2);
		signature[at] = signature[at] == 'A' ? 'B' : 'A';
		CHECK(call(target, body, signature) == 403);
		signature[at] = 0;
		CHECK(call(target, body, signature) == 403);
	} else if (!too_many) {
		CHECK(call(target, body, "AAAAAAAAAAAAAAAAAAAAAAAAAAA=") == 400);
	}
	buffer_done(&address);
	buffer_done(&form.bytes);
}

/* --- the target --------------------------------------------------------------------------------------------------- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > BYTES_MAX)
		return 0;
	struct text rest = {(const char *)data, size};
	struct text line = line_cut(&rest);
	struct config config;
	service_config(&config);
	config.twilio_key = SERVICE_KEY;
	config.twilio_token = TOKEN;
	config.public_url = PUBLIC_URL;
	fake_products = true;
	service_start(&config, CHANNEL_VOICE, SCOPE_READ | SCOPE_SELL);
	check_call(line, rest);
	service_stop();
	return 0;
}
