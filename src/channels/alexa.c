/* Alexa: `POST /channels/alexa`, a skill that tells what is left, holds it and sells it.
 *
 * Happy path: the request is Amazon's, fresh and for our skill; its intent is one turn of the conversation (voice.h),
 * whose state the session carries.
 * Failure modes: a signature or a time that is not right is 400, another skill's request 403; everything else is spoken.
 * A turn that is sent again carries the same state, so the same offer, so the same hold.
 */
#include "channels/alexa.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/clock.h"
#include "base/text.h"
#include "channels/handlers.h"
#include "channels/hearing.h"
#include "channels/voice.h"
#include "http/auth.h"
#include "http/problem.h"

#define AGE_S_MAX 150
#define STATE_MEMBER "state"

static struct text string_at(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);
	return json_is_string(value) ? json_text(value) : (struct text){0};
}

/* --- replies ---------------------------------------------------------------------------------------------------------- */

static void put_speech(struct json_writer *w, const char *member, struct text sentence)
{
	json_key(w, member);
	json_object_open(w);
	json_member_string(w, "type", "PlainText");
	json_key(w, "text");
	json_put_text(w, sentence);
	json_object_close(w);
}

static void reply(struct request *request, struct text sentence, const char *state, bool ends)
{
	struct json_writer w = json_writer(loop_out(loop_of(request)));
	json_object_open(&w);
	json_member_string(&w, "version", "1.0");
	json_key(&w, "sessionAttributes");
	json_object_open(&w);
	if (*state)
		json_member_string(&w, STATE_MEMBER, state);
	json_object_close(&w);
	json_key(&w, "response");
	json_object_open(&w);
	if (sentence.size)
		put_speech(&w, "outputSpeech", sentence);
	if (sentence.size && !ends) {
		json_key(&w, "reprompt");
		json_object_open(&w);
		put_speech(&w, "outputSpeech", sentence);
		json_object_close(&w);
	}
	json_member_bool(&w, "shouldEndSession", ends);
	json_object_close(&w);
	json_object_close(&w);
	request_reply_json(request, 200, w.out);
}

static void on_said(struct voice *voice)
{
	reply(voice->turn.request, voice->sentence, voice->state, voice->ends);
}

/* --- intents ---------------------------------------------------------------------------------------------------------- */

/* What a slot was resolved to, if that may be a SKU; else size 0. */
static struct text resolved_code(const json_t *slot)
{
	const json_t *authorities = json_object_get(json_object_get(slot, "resolutions"), "resolutionsPerAuthority");
	size_t i;
	json_t *authority;
	json_array_foreach((json_t *)authorities, i, authority)
	{
		if (!text_equal(string_at(json_object_get(authority, "status"), "code"), TEXT("ER_SUCCESS_MATCH")))
			continue;
		const json_t *value = json_object_get(json_array_get(json_object_get(authority, "values"), 0), "value");
		struct text code = string_at(value, "id");
		if (!text_check_sku(code))
			return code;
	}
	return (struct text){0};
}

/* How many are wanted is no product. */
static bool is_quantity(const char *name)
{
	static const char *const names[] = {"quantity", "count", "number", "amount"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcasecmp(name, names[i]) == 0)
			return true;
	return false;
}

/* The first slot with something in it that may be a product: a skill may name its slots as it likes. False: none. */
static bool find_slot(const json_t *intent, struct text *ret_code, struct text *ret_words)
{
	const char *name;
	json_t *slot;
	json_object_foreach(json_object_get(intent, "slots"), name, slot)
	{
		struct text code = resolved_code(slot), words = string_at(slot, "value");
		if (is_quantity(name) || (!code.size && !hearing_has_letter(words)))
			continue;
		*ret_code = code;
		*ret_words = words;
		return true;
	}
	return false;
}

/* True: the intent is one of those that mean what they say. */
static bool take_plain_intent(struct voice *voice, struct text name)
{
	static const struct {
		const char *name;
		void (*take)(struct voice *voice);
	} rows[] = {
		{"AMAZON.YesIntent", voice_agree},       {"AMAZON.NoIntent", voice_refuse},
		{"AMAZON.RepeatIntent", voice_repeat},   {"AMAZON.HelpIntent", voice_help},
		{"AMAZON.FallbackIntent", voice_wonder}, {"AMAZON.StopIntent", voice_leave},
		{"AMAZON.CancelIntent", voice_leave},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (text_equal(name, text_of(rows[i].name))) {
			rows[i].take(voice);
			return true;
		}
	return false;
}

static void take_intent(struct voice *voice, const json_t *intent)
{
	struct text name = string_at(intent, "name"), code, words;
	if (take_plain_intent(voice, name))
		return;
	bool buys = text_equal(name, TEXT("BuyIntent"));
	if (!find_slot(intent, &code, &words))
		(buys ? voice_agree : voice_repeat)(voice);
	else
		(buys ? voice_want : voice_look_for)(voice, code, words);
}

static void take_request(struct request *request, const json_t *envelope)
{
	const json_t *asked = json_object_get(envelope, "request"), *session = json_object_get(envelope, "session");
	struct text type = string_at(asked, "type"), user = string_at(json_object_get(session, "user"), "userId");
	if (text_equal(type, TEXT("SessionEndedRequest"))) {
		reply(request, (struct text){0}, "", true);
		return;
	}
	struct voice *voice = ARENA_NEW(request_arena(request), struct voice);
	voice_init(voice, request, language_of_tag(string_at(asked, "locale")),
	           string_at(json_object_get(session, "attributes"), STATE_MEMBER), on_said);
	voice_set_caller(voice, "alexa", user);
	if (text_equal(type, TEXT("IntentRequest")))
		take_intent(voice, json_object_get(asked, "intent"));
	else
		voice_welcome(voice);
}

/* --- who sent it ------------------------------------------------------------------------------------------------------ */

/* "2026-11-29T14:32:05Z", with or without a fraction. */
static bool is_fresh(struct text timestamp)
{
	char text[32];
	struct tm tm = {0};
	if (timestamp.size < 20 || timestamp.size >= sizeof text)
		return false;
	memcpy(text, timestamp.data, timestamp.size);
	text[timestamp.size] = 0;
	if (!strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) || text[timestamp.size - 1] != 'Z')
		return false;
	int64_t age_s = clock_unix_us() / 1000000 - (int64_t)timegm(&tm);
	return age_s <= AGE_S_MAX && age_s >= -AGE_S_MAX;
}

static struct text application_of(const json_t *envelope)
{
	const json_t *system = json_object_get(json_object_get(envelope, "context"), "System");
	struct text id = string_at(json_object_get(system, "application"), "applicationId");
	return id.size ? id
	               : string_at(json_object_get(json_object_get(envelope, "session"), "application"), "applicationId");
}

static void on_checked(struct request *request, enum lu_error error, const char *why)
{
	const struct config *config = loop_of(request)->config;
	json_t *envelope;
	if (error) {
		problem_reply(request, error, text_of(why));
		return;
	}
	if (!take_json(request, true, &envelope))
		return;
	if (!is_fresh(string_at(json_object_get(envelope, "request"), "timestamp"))) {
		problem_reply(request, LU_MALFORMED_REQUEST, TEXT("request.timestamp must be of the last 150 seconds."));
		return;
	}
	if (!text_equal(application_of(envelope), text_of(config->alexa_application))) {
		problem_reply(request, LU_FORBIDDEN, TEXT("The application id is not that of --alexa-application."));
		return;
	}
	error = auth_as(request, text_of(config->alexa_key), SCOPE_READ | SCOPE_SELL, &why);
	if (error == LU_DATABASE_UNAVAILABLE && request_wait_for_keys(request))
		return;
	if (error)
		problem_reply(request, error, text_of(why));
	else
		take_request(request, envelope);
}

void alexa_post(struct request *request)
{
	const struct config *config = loop_of(request)->config;
	if (*config->alexa_key && *config->alexa_application)
		alexa_verify(request, on_checked);
	else
		problem_reply(request, LU_NOT_FOUND,
		              TEXT("This service has no skill: start it with --alexa-key and --alexa-application."));
}
