/* The phone: `POST /channels/twilio`, called by Twilio with what a caller said or keyed in, answered in TwiML.
 *
 * Happy path: the signature over our public address and the form's fields, one turn of the conversation, its sentence
 * inside a Gather whose action carries what may be answered next.
 * Failure modes: a signature that is not of our token is 403, a form that is too long for one to be looked for 413;
 * everything else is spoken. The same turn again has the same address, so the same offer, so the same hold. Nobody speaks:
 * the question again, and at the third time goodbye; what is held ends by itself. How often it was silent in a row is in
 * the address, too.
 */
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/markup.h"
#include "base/text.h"
#include "channels/handlers.h"
#include "channels/origin.h"
#include "channels/voice.h"
#include "http/auth.h"
#include "http/percent.h"
#include "http/problem.h"

#define PATH "/channels/twilio"
#define MAC_BYTES 20
#define MAC_TEXT_BYTES 28
#define SILENCES_MAX 3
#define FORM_BYTES_MAX (32 * 1024) /* ten times what Twilio sends: it is taken apart before its sender is known */

struct phone {
	struct voice voice; /* first */
	int64_t silences;   /* turns in a row, this one included */
};

struct form {
	struct query_pair *pairs;
	size_t count;
};

static struct text field(const struct form *form, const char *name)
{
	for (size_t i = 0; i < form->count; i++)
		if (text_equal(form->pairs[i].name, text_of(name)))
			return form->pairs[i].value;
	return (struct text){0};
}

/* --- the signature ---------------------------------------------------------------------------------------------------- */

static int compare_pairs(const void *a, const void *b)
{
	const struct query_pair *left = a, *right = b;
	int by_name = text_compare(left->name, right->name);
	return by_name ? by_name : text_compare(left->value, right->value);
}

/* The address as Twilio was given it: what is behind the path was written by us, or by the operator in this order. Where it
 * lies is configured, not believed from Host; but on a loopback address there is only Host. */
static void put_address(struct buffer *out, struct request *request)
{
	static const char *const names[] = {"language", "silences", "state"};
	const char *mark = "?";
	buffer_add_text(out, origin_address(request));
	buffer_add_string(out, PATH);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct text value;
		if (!request_query(request, names[i], 0, &value))
			continue;
		buffer_add_string(out, mark);
		buffer_add_string(out, names[i]);
		buffer_add_char(out, '=');
		buffer_add_text(out, value);
		mark = "&";
	}
}

/* base64(HMAC-SHA1(token, address, then every field's name and value, by name)). */
static bool is_signed(struct request *request, const struct form *form)
{
	const char *token = loop_of(request)->config->twilio_token;
	struct text theirs;
	unsigned char mac[EVP_MAX_MD_SIZE], ours[MAC_TEXT_BYTES + 1];
	unsigned size;
	if (!request_header(request, "X-Twilio-Signature", &theirs))
		return false;
	struct buffer message = {0};
	put_address(&message, request);
	qsort(form->pairs, form->count, sizeof *form->pairs, compare_pairs);
	for (size_t i = 0; i < form->count; i++) {
		buffer_add_text(&message, form->pairs[i].name);
		buffer_add_text(&message, form->pairs[i].value);
	}
	bool done = HMAC(EVP_sha1(), token, (int)strlen(token), (const unsigned char *)message.data, message.size, mac,
	                 &size) &&
	            size == MAC_BYTES && EVP_EncodeBlock(ours, mac, MAC_BYTES) == MAC_TEXT_BYTES;
	buffer_done(&message);
	return done && theirs.size == MAC_TEXT_BYTES && CRYPTO_memcmp(theirs.data, ours, MAC_TEXT_BYTES) == 0;
}

/* --- TwiML ------------------------------------------------------------------------------------------------------------ */

static void put_say(struct buffer *out, const char *tag, struct text sentence)
{
	buffer_add_format(out, "<Say language=\"%s\">", tag);
	markup_add(out, sentence);
	buffer_add_string(out, "</Say>");
}

static void on_said(struct voice *voice)
{
	bool russian = voice->language == LANGUAGE_RUSSIAN;
	const char *tag = russian ? "ru-RU" : "en-US";
	struct buffer *out = loop_out(loop_of(voice->turn.request));
	buffer_add_string(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Response>");
	if (voice->ends) {
		put_say(out, tag, voice->sentence);
		buffer_add_string(out, "<Hangup/>");
	} else {
		/* A state holds letters, digits and . - _ ~ only: nothing to escape in an address. */
		buffer_add_format(out,
		                  "<Gather input=\"speech dtmf\" language=\"%s\" action=\"" PATH
		                  "?language=%s&amp;silences=%" PRId64
		                  "%s%s\" method=\"POST\""
		                  " speechTimeout=\"auto\" actionOnEmptyResult=\"true\">",
		                  tag, russian ? "ru" : "en", ((struct phone *)voice)->silences,
		                  *voice->state ? "&amp;state=" : "", voice->state);
		put_say(out, tag, voice->sentence);
		buffer_add_string(out, "</Gather>");
	}
	buffer_add_string(out, "</Response>\n");
	request_reply(voice->turn.request, 200, "text/xml; charset=utf-8", buffer_text(out));
}

/* --- a turn ----------------------------------------------------------------------------------------------------------- */

/* False: replied. */
static bool check_sender(struct request *request, struct form *ret_form)
{
	const struct config *config = loop_of(request)->config;
	const char *why;
	if (!*config->twilio_key || !*config->twilio_token) {
		problem_reply(request, LU_NOT_FOUND,
		              TEXT("This service has no phone: start it with --twilio-key, --twilio-token and --public-url."));
		return false;
	}
	if (!*config->public_url && !origin_check(request))
		return false;
	if (request_body(request).size > FORM_BYTES_MAX) {
		problem_reply(request, LU_PAYLOAD_TOO_LARGE, TEXT("A form of Twilio's has at most 32 KiB."));
		return false;
	}
	enum lu_error error = percent_query(request_arena(request), request_body(request), &ret_form->pairs,
	                                    &ret_form->count, &why);
	if (!error && !is_signed(request, ret_form)) {
		error = LU_FORBIDDEN;
		why = "X-Twilio-Signature is not that of our token over our public address and these fields.";
	}
	if (!error)
		error = auth_as(request, text_of(config->twilio_key), SCOPE_READ | SCOPE_SELL, &why);
	if (error == LU_DATABASE_UNAVAILABLE && request_wait_for_keys(request))
		return false;
	if (error)
		problem_reply(request, error, text_of(why));
	return !error;
}

/* Nothing is said: by a caller who has just dialled, or in answer to a question of ours, whose address counts. */
static void hear_nothing(struct phone *phone, struct text silences)
{
	int64_t before;
	if (!text_to_int64(silences, &before)) {
		voice_repeat(&phone->voice);
		return;
	}
	phone->silences = before < SILENCES_MAX ? before + 1 : SILENCES_MAX;
	(phone->silences < SILENCES_MAX ? voice_repeat : voice_leave)(&phone->voice);
}

static struct text query_or(struct request *request, const char *name, struct text otherwise)
{
	struct text value;
	return request_query(request, name, 0, &value) ? value : otherwise;
}

void twilio_post(struct request *request)
{
	struct form form;
	if (!check_sender(request, &form))
		return;
	struct phone *phone = ARENA_NEW(request_arena(request), struct phone);
	struct voice *voice = &phone->voice;
	voice_init(voice, request, language_of_tag(query_or(request, "language", TEXT("en"))),
	           query_or(request, "state", (struct text){0}), on_said);
	struct text from = field(&form, "From"), said = field(&form, "SpeechResult"), digits = field(&form, "Digits");
	voice_set_caller(voice, "phone", from);
	if (said.size)
		voice_hear(voice, said);
	else if (digits.size)
		voice_key(voice, digits);
	else
		hear_nothing(phone, query_or(request, "silences", (struct text){0}));
}
