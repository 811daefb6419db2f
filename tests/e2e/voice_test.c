/* By voice: the phone (Twilio) and the skill (Alexa), one conversation on two wires.
 *
 * Guards against: a turn that is sent again and holds twice; a code that is read out; a question that asks for one of many;
 * a request that is not Twilio's; one that Amazon sent an hour ago; a sale to somebody who said something else; a question,
 * and the hold behind it, forgotten because nobody answered.
 */
#include "lib/shop.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <time.h>

#include "base/text.h"
#include "channels/alexa.h"

static char token[64], application[80];

static int open_shop(void **state)
{
	int failed = shop_open(state);
	char line[200];
	FILE *env = fopen(shop_text("%s/dev.env", shop.directory), "r");
	assert_non_null(env);
	while (fgets(line, sizeof line, env)) {
		sscanf(line, "LASTUNIT_TWILIO_TOKEN=%63s", token);
		sscanf(line, "LASTUNIT_ALEXA_APPLICATION=%79s", application);
	}
	fclose(env);
	assert_true(strlen(token) == 32);
	return failed;
}

static void stock(const char *sku, int on_hand, const char *english, const char *russian)
{
	shop_expect(shop.key_admin, "PUT", shop_text("/v1/skus/%s", sku), NULL,
	            shop_text("{\"on_hand\":%d,\"titles\":{\"en\":\"%s\",\"ru\":\"%s\"}}", on_hand, english, russian), 201);
}

static void make_due(const char *sku)
{
	shop_sql(
		"WITH due AS (UPDATE lastunit.hold h SET expires_at = clock_timestamp() FROM lastunit.sku s"
		" WHERE s.id = h.sku_id AND s.code = '%s' RETURNING h.reservation_id)"
		" UPDATE lastunit.reservation SET expires_at = clock_timestamp() WHERE id IN (SELECT reservation_id FROM due)",
		sku);
}

/* --- the phone ---------------------------------------------------------------------------------------------------- */

static char address[600]; /* of the next turn, as the last answer said */

/* `fields`: names and values, by name. */
static void sign(const char *url, const char *fields, char ret_signature[40])
{
	unsigned char mac[64];
	unsigned size;
	char message[1200];
	snprintf(message, sizeof message, "%s%s", url, fields);
	HMAC(EVP_sha1(), token, (int)strlen(token), (unsigned char *)message, strlen(message), mac, &size);
	EVP_EncodeBlock((unsigned char *)ret_signature, mac, (int)size);
}

/* The next turn: the fields as they are signed, and as a form. */
static void turn(const char *fields, const char *form)
{
	char signature[40];
	sign(shop_text("%s%s", shop.url, address), fields, signature);
	shop_expect(NULL, "POST", address,
	            shop_text("Content-Type: application/x-www-form-urlencoded\r\nX-Twilio-Signature: %s\r\n", signature),
	            form, 200);
	const char *action = strstr(shop_answer.body, "action=\"");
	char *out = address;
	for (action = action ? action + 8 : ""; *action && *action != '"'; action++) {
		*out++ = *action;
		if (strncmp(action, "&amp;", 5) == 0)
			action += 4;
	}
	*out = 0;
}

/* A caller says something; `speech` as it is and as a form carries it. */
static void say(const char *from, const char *speech, const char *encoded)
{
	turn(shop_text("CallSidCA1From%sSpeechResult%s", from, speech),
	     shop_text("CallSid=CA1&From=%%2B%s&SpeechResult=%s", from + 1, encoded));
}

static void key_in(const char *from, const char *digits)
{
	turn(shop_text("CallSidCA1Digits%sFrom%s", digits, from),
	     shop_text("CallSid=CA1&Digits=%s&From=%%2B%s", digits, from + 1));
}

static void expect_said(const char *words)
{
	if (!strstr(shop_answer.body, words))
		fail_msg("%s\ndoes not say: %s", shop_answer.body, words);
}

static void dial(const char *language)
{
	snprintf(address, sizeof address, "/channels/twilio?language=%s", language);
}

static void a_caller_asks_holds_and_buys(void **state)
{
	stock("VOICE-<1>", 1, "Cobalt & gold vase", "Кобальтовая ваза");
	dial("en");
	say("+15550001", "", "");
	expect_said("Which product are you looking for?");
	say("+15550001", "cobalt vase", "cobalt+vase");
	expect_said("Cobalt &amp; gold vase: 1 piece available. They are yours only once you hold them.");
	expect_said("Shall I hold one for you?");
	assert_null(strstr(shop_answer.body, "VOICE"));
	say("+15550001", "Yes, please", "Yes%2C+please");
	expect_said("1 piece held for you until ");
	expect_said("that is 5 minutes. Shall I buy it for you?");
	shop_expect_row("VOICE-<1>", 1, 1);
	say("+15550001", "yes", "yes");
	expect_said("1 piece bought");
	expect_said("<Hangup/>");
	shop_expect_row("VOICE-<1>", 0, 0);
}

/* "X, E, N, O, N, dash": nobody wants to hear that. */
static void a_product_without_a_title_is_not_called_by_its_code(void **state)
{
	service_create_sku(&shop, "XENON-7", 2);
	dial("en");
	say("+15550013", "XENON-7", "XENON-7");
	expect_said("The product: 2 pieces available.");
	assert_null(strcasestr(shop_answer.body, "xenon"));
}

static void a_turn_sent_again_does_the_same_again(void **state)
{
	char turn[600], first[4000];
	stock("VOICE-2", 5, "Umber jug", "Умбровый кувшин");
	dial("en");
	say("+15550002", "umber jug", "umber+jug");
	strcpy(turn, address);
	say("+15550002", "yes", "yes");
	snprintf(first, sizeof first, "%s", shop_answer.body);
	strcpy(address, turn);
	say("+15550002", "yes", "yes");
	assert_string_equal(shop_answer.body, first);
	shop_expect_row("VOICE-2", 5, 1);
	say("+15550002", "no", "no");
	expect_said("Released.");
	shop_expect_row("VOICE-2", 5, 0);
}

static void two_that_match_are_asked_for_once(void **state)
{
	stock("VOICE-3A", 1, "Saffron kettle", "Шафрановый чайник");
	stock("VOICE-3B", 2, "Saffron teapot", "Шафрановый заварник");
	dial("en");
	say("+15550003", "saffron", "saffron");
	expect_said("Do you mean Saffron kettle or Saffron teapot?");
	say("+15550003", "the second one", "the+second+one");
	expect_said("Saffron teapot: 2 pieces available");
	dial("en");
	say("+15550003", "saffron", "saffron");
	say("+15550003", "the first one", "the+first+one");
	expect_said("Saffron kettle: 1 piece available");
}

static void russian_callers_are_spoken_to_in_russian(void **state)
{
	stock("VOICE-4", 3, "Sorrel cup", "Щавелевая чашка");
	dial("ru");
	say("+70000004", "щавелевую чашку",
	    "%D1%89%D0%B0%D0%B2%D0%B5%D0%BB%D0%B5%D0%B2%D1%83%D1%8E+%D1%87%D0%B0%D1%88%D0%BA%D1%83");
	expect_said("Щавелевая чашка: доступно 3 штуки.");
	expect_said("language=\"ru-RU\"");
	say("+70000004", "да", "%D0%B4%D0%B0");
	expect_said("1 штука отложено для вас до");
	make_due("VOICE-4");
	say("+70000004", "да", "%D0%B4%D0%B0");
	expect_said("Бронь закончилась");
	shop_expect_row("VOICE-4", 3, 0);
}

/* Of a product with one piece: held, and asked whether to buy it. */
static void hold_by_phone(const char *language, const char *sku, const char *word)
{
	const char *yes = strcmp(language, "ru") == 0 ? "да" : "yes";
	dial(language);
	say("+15550005", word, word);
	say("+15550005", yes, strcmp(yes, "yes") == 0 ? yes : "%D0%B4%D0%B0");
	shop_expect_row(sku, 1, 1);
}

static void only_a_whole_yes_buys(void **state)
{
	static const struct {
		const char *said, *encoded;
	} rows[] = {
		{"First tell me the price", "First+tell+me+the+price"},
		{"first aid kit", "first+aid+kit"},
		{"1 blue lamp", "1+blue+lamp"},
		{"yeah no", "yeah+no"},
		{"Yes but not now, cancel it", "Yes+but+not+now%2C+cancel+it"},
		{"hold it", "hold+it"},
		{"first", "first"},
		{"1", "1"},
		{"2", "2"},
	};
	stock("VOICE-5", 1, "Taupe quokka", "Туканус");
	hold_by_phone("en", "VOICE-5", "quokka");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		say("+15550005", rows[i].said, rows[i].encoded);
		expect_said("Shall I buy it for you?");
		shop_expect_row("VOICE-5", 1, 1);
	}
	say("+15550005", "OK.", "OK.");
	expect_said("1 piece bought");
	shop_expect_row("VOICE-5", 0, 0);

	stock("VOICE-6", 1, "Quoll", "Quoll");
	hold_by_phone("ru", "VOICE-6", "quoll");
	say("+15550005", "Да нет, не надо", "%D0%94%D0%B0+%D0%BD%D0%B5%D1%82%2C+%D0%BD%D0%B5+%D0%BD%D0%B0%D0%B4%D0%BE");
	expect_said("Оформить покупку?");
	shop_expect_row("VOICE-6", 1, 1);
	say("+15550005", "Не надо!", "%D0%9D%D0%B5+%D0%BD%D0%B0%D0%B4%D0%BE%21");
	expect_said("Отменено.");
	shop_expect_row("VOICE-6", 1, 0);
}

static void keys_say_yes_and_no(void **state)
{
	stock("VOICE-12", 2, "Umber wombat", "Вомбат");
	for (int i = 0; i < 2; i++) {
		dial("en");
		say("+15550012", "wombat", "wombat");
		key_in("+15550012", "1");
		shop_expect_row("VOICE-12", 2, 1);
		key_in("+15550012", "7");
		expect_said("Shall I buy it for you?");
		key_in("+15550012", i ? "1" : "2");
		shop_expect_row("VOICE-12", i ? 1 : 2, 0);
	}
}

static void which_of_two_is_no_question_for_yes(void **state)
{
	stock("VOICE-7A", 1, "Russet bilby", "Бильби");
	stock("VOICE-7B", 2, "Russet potoroo", "Потору");
	dial("en");
	say("+15550007", "russet", "russet");
	for (int i = 0; i < 2; i++) {
		say("+15550007", i ? "" : "yes", i ? "" : "yes");
		expect_said("<Say language=\"en-US\">Do you mean Russet bilby or Russet potoroo?");
	}
	say("+15550007", "zzyzx", "zzyzx");
	expect_said("I found nothing like that. Do you mean Russet bilby or Russet potoroo?");
	say("+15550007", "2", "2");
	expect_said("Russet potoroo: 2 pieces available");
	say("+15550007", "No thanks", "No+thanks");
	expect_said("What else");
}

static void silence_is_asked_again_and_hung_up_on(void **state)
{
	stock("VOICE-8", 1, "Wallaroo", "Валлару");
	dial("en");
	say("+15550005", "", "");
	say("+15550005", "", "");
	expect_said("Which product");
	say("+15550005", "wallaroo", "wallaroo");
	say("+15550005", "", "");
	expect_said("<Say language=\"en-US\">Shall I hold one for you?</Say>");
	say("+15550005", "yes", "yes");
	shop_expect_row("VOICE-8", 1, 1);
	say("+15550005", "no", "no");
	hold_by_phone("en", "VOICE-8", "wallaroo");
	for (int turn = 0; turn < 5; turn++) {
		/* What is said in between starts the count anew. */
		const char *said = turn == 2 ? "hm" : "";
		say("+15550005", said, said);
		expect_said("Shall I buy it for you?");
	}
	say("+15550005", "", "");
	expect_said("Goodbye.</Say><Hangup/>");
	shop_expect_row("VOICE-8", 1, 1);
}

static void what_had_ended_is_not_released(void **state)
{
	stock("VOICE-9", 1, "Thylacine", "Тилацин");
	hold_by_phone("en", "VOICE-9", "thylacine");
	make_due("VOICE-9");
	say("+15550005", "nope", "nope");
	expect_said("That hold has ended");
}

static void what_cannot_be_looked_up_now_is_not_said_to_be_unknown(void **state)
{
	stock("VOICE-AWAY", 1, "Kowari", "Ковари");
	struct stranger *stranger = stranger_new();
	stranger_say(stranger, "BEGIN");
	stranger_say(stranger, "LOCK TABLE lastunit.sku");
	dial("en");
	say("+15550005", "kowari", "kowari");
	expect_said("I cannot answer just now.");
	expect_said("<Hangup/>");
	stranger_free(stranger);
}

static void only_twilio_may_call(void **state)
{
	char signature[40];
	sign(shop_text("%s/channels/twilio", shop.url), "CallSidCA1From+1SpeechResulthello", signature);
	const char *type = "Content-Type: application/x-www-form-urlencoded\r\n";
	const char *headers = shop_text("%sX-Twilio-Signature: %s\r\n", type, signature);
	shop_expect(NULL, "POST", "/channels/twilio", headers, "CallSid=CA1&From=%2B1&SpeechResult=hello", 200);
	shop_expect(NULL, "POST", "/channels/twilio", headers, "CallSid=CA1&From=%2B2&SpeechResult=hello", 403);
	shop_expect(NULL, "POST", "/channels/twilio?language=ru", headers, "CallSid=CA1&From=%2B1&SpeechResult=hello", 403);
	shop_expect(NULL, "POST", "/channels/twilio", type, "CallSid=CA1&From=%2B1&SpeechResult=hello", 403);
}

/* A megabyte of "a&" is half a million fields to sort before the signature can be looked at, and anybody may send it. */
static void a_form_that_is_no_phones_is_not_taken_apart(void **state)
{
	const char *headers =
		"Content-Type: application/x-www-form-urlencoded\r\n"
		"X-Twilio-Signature: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n";
	char *form = malloc(32 * 1024 + 2);
	for (int i = 0; i < 32 * 1024 + 1; i++)
		form[i] = i % 2 ? '&' : 'a';
	form[32 * 1024 + 1] = 0;
	shop_expect(NULL, "POST", "/channels/twilio", headers, form, 413);
	shop_expect_problem("payload_too_large", "32 KiB");
	form[32 * 1024] = 0;
	shop_expect(NULL, "POST", "/channels/twilio", headers, form, 403);
	free(form);
}

/* --- the skill ---------------------------------------------------------------------------------------------------- */

static char attributes[400] = "{}";
static const char *user = "u1";

static const char *envelope(const char *stamp, const char *id, const char *request)
{
	return shop_text(
		"{\"version\":\"1.0\",\"session\":{\"sessionId\":\"s\",\"user\":{\"userId\":\"%s\"},\"attributes\":%s},"
		"\"context\":{\"System\":{\"application\":{\"applicationId\":\"%s\"}}},"
		"\"request\":{\"requestId\":\"r\",\"timestamp\":\"%s\",\"locale\":\"en-US\",%s}}",
		user, attributes, id, stamp, request);
}

static const char *stamp_of(time_t at)
{
	static char stamp[32];
	struct tm tm;
	strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&at, &tm));
	return stamp;
}

static void alexa_at(time_t at, const char *id, const char *request, int status)
{
	shop_expect(NULL, "POST", "/channels/alexa", NULL, envelope(stamp_of(at), id, request), status);
	json_t *kept = answer_at(&shop_answer, "sessionAttributes");
	char *text = kept ? json_dumps(kept, JSON_COMPACT) : NULL;
	snprintf(attributes, sizeof attributes, "%s", text ? text : "{}");
	free(text);
}

static void alexa(const char *request)
{
	alexa_at(time(NULL), application, request, 200);
}

static void intent(const char *name, const char *slots)
{
	alexa(shop_text("\"type\":\"IntentRequest\",\"intent\":{\"name\":\"%s\",\"slots\":%s}", name, slots));
}

static void expect_spoken(const char *words)
{
	const char *text = answer_string(&shop_answer, "response.outputSpeech.text");
	if (!strstr(text, words))
		fail_msg("\"%s\" does not say \"%s\"", text, words);
}

static void a_skill_asks_holds_and_buys(void **state)
{
	stock("ALEXA-1", 1, "Vermilion tray", "Алый поднос");
	alexa("\"type\":\"LaunchRequest\"");
	expect_spoken("Which product");
	intent("CheckStockIntent", "{\"product\":{\"name\":\"product\",\"value\":\"vermilion tray\"}}");
	expect_spoken("Vermilion tray: 1 piece available");
	intent("AMAZON.YesIntent", "{}");
	expect_spoken("held for you");
	shop_expect_row("ALEXA-1", 1, 1);
	intent("AMAZON.YesIntent", "{}");
	expect_spoken("bought");
	assert_true(json_is_true(answer_at(&shop_answer, "response.shouldEndSession")));
	shop_expect_row("ALEXA-1", 0, 0);
	/* A slot that was resolved to a SKU. */
	intent(
		"CheckStockIntent",
		"{\"p\":{\"name\":\"p\",\"value\":\"tray\",\"resolutions\":{\"resolutionsPerAuthority\":[{\"status\":{\"code\":"
		"\"ER_SUCCESS_MATCH\"},\"values\":[{\"value\":{\"id\":\"ALEXA-1\",\"name\":\"tray\"}}]}]}}}");
	expect_spoken("Vermilion tray: sold out");
	intent("AMAZON.StopIntent", "{}");
	expect_spoken("Goodbye");
	alexa("\"type\":\"SessionEndedRequest\"");
	assert_null(answer_at(&shop_answer, "response.outputSpeech"));
}

#define SLOT(name, value) "\"" name "\":{\"name\":\"" name "\",\"value\":\"" value "\"}"
#define RESOLVED_AS(code, value, id)                                \
	"\"p\":{\"name\":\"p\",\"value\":\"" value                      \
	"\",\"resolutions\":{\"resolutionsPerAuthority\":[{\"status\":" \
	"{\"code\":\"" code "\"},\"values\":[{\"value\":{\"id\":\"" id "\",\"name\":\"x\"}}]}]}}"
#define RESOLVED(value, id) RESOLVED_AS("ER_SUCCESS_MATCH", value, id)

static void hold_by_skill(const char *slots, const char *sku)
{
	intent("Find", slots);
	intent("AMAZON.YesIntent", "{}");
	expect_spoken("Shall I buy it for you?");
	shop_expect_row(sku, 1, 1);
}

/* What is too long of a caller's name is cut between two characters: half of one is nothing to PostgreSQL. */
static void a_callers_long_name_is_cut_between_characters(void **state)
{
	char from[160] = "+", encoded[500] = "", fields[300], form[600];
	stock("VOICE-LONG", 1, "Heliotrope lamp", "Лампа");
	for (int i = 0; i < 70; i++) {
		strcat(from, "ж");
		strcat(encoded, "%D0%B6");
	}
	dial("en");
	const char *said[] = {"heliotrope", "yes"};
	for (int i = 0; i < 2; i++) {
		snprintf(fields, sizeof fields, "CallSidCA1From%sSpeechResult%s", from, said[i]);
		snprintf(form, sizeof form, "CallSid=CA1&From=%%2B%s&SpeechResult=%s", encoded, said[i]);
		turn(fields, form);
	}
	shop_expect_row("VOICE-LONG", 1, 1);
	user = from;
	stock("ALEXA-LONG", 1, "Marigold lamp", "Лампа");
	hold_by_skill("{" SLOT("product", "marigold") "}", "ALEXA-LONG");
	user = "u1";
	from[1 + 126] = 0;
	assert_string_equal(
		shop_sql("SELECT string_agg(caller, ' ' ORDER BY caller) FROM lastunit.hold WHERE caller LIKE '%%ж'"),
		shop_text("alexa:%s phone:%s", from, from));
}

static void to_buy_what_was_not_asked_about_is_a_search(void **state)
{
	stock("ALEXA-2", 1, "Numbat", "Намбат");
	stock("ALEXA-3", 1, "Red echidna", "Ехидна");
	intent("BuyIntent", "{" SLOT("product", "numbat") "}");
	expect_spoken("Numbat: 1 piece available");
	hold_by_skill("{" SLOT("product", "numbat") "}", "ALEXA-2");
	/* Nearly its name: a search forgives that, a sale does not. */
	intent("BuyIntent", "{" SLOT("product", "numbats") "}");
	expect_spoken("Shall I buy it for you?");
	intent("BuyIntent", "{" SLOT("product", "zzyzx") "}");
	expect_spoken("I found nothing like that. Shall I buy it for you?");
	shop_expect_row("ALEXA-2", 1, 1);
	intent("BuyIntent", "{" SLOT("product", "red echidna") "}");
	expect_spoken("Red echidna: 1 piece available");
	shop_expect_row("ALEXA-2", 1, 1);
	shop_expect_row("ALEXA-3", 1, 0);
	intent("BuyIntent", "{" SLOT("product", "red echidna") "}");
	expect_spoken("held for you");
	intent("BuyIntent", "{" RESOLVED("it", "ALEXA-3") "}");
	expect_spoken("bought");
	shop_expect_row("ALEXA-3", 0, 0);
	shop_expect_row("ALEXA-2", 1, 1);
}

static void a_question_stays_open_until_it_is_answered(void **state)
{
	static const struct {
		const char *intent, *sentence;
	} rows[] = {
		{"AMAZON.HelpIntent", "hold it for you. Shall I buy it for you?"},
		{"AMAZON.FallbackIntent", "I did not understand that. Shall I buy it for you?"},
		{"AMAZON.RepeatIntent", "Shall I buy it for you?"},
		{"Find", "Shall I buy it for you?"},
	};
	stock("ALEXA-4", 1, "Cuscus", "Кускус");
	hold_by_skill("{" SLOT("product", "cuscus") "}", "ALEXA-4");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		intent(rows[i].intent, "{}");
		expect_spoken(rows[i].sentence);
	}
	intent("BuyIntent", "{" SLOT("quantity", "2") "}");
	expect_spoken("bought");
	shop_expect_row("ALEXA-4", 0, 0);
}

static void a_slot_is_looked_for_by_what_it_says(void **state)
{
	stock("ALEXA-5", 1, "Potoroo lamp", "Лампа");
	intent("Find", "{" RESOLVED("potoroo lamp", "NO-SUCH-SKU") "}");
	expect_spoken("Potoroo lamp: 1 piece available");
	stock("ALEXA-6", 1, "Celadon lamp", "Лампа");
	intent("Find", "{" RESOLVED_AS("ER_SUCCESS_NO_MATCH", "potoroo lamp", "ALEXA-6") "}");
	expect_spoken("Potoroo lamp: 1 piece available");
	intent("Find", "{" SLOT("quantity", "two") "," SLOT("n", "2") "," SLOT("product", "potoroo lamp") "}");
	expect_spoken("Potoroo lamp: 1 piece available");
}

static void only_our_skill_is_served_and_only_now(void **state)
{
	static const char *const no_times[] = {"", "now", "2026-11-29T14:32:05+00:00", "2026-13-29T14:32:05Z",
	                                       "2026-11-29T14:32:05.000000000000000Z"};
	alexa_at(time(NULL) - 200, application, "\"type\":\"LaunchRequest\"", 400);
	alexa_at(time(NULL) + 200, application, "\"type\":\"LaunchRequest\"", 400);
	for (size_t i = 0; i < sizeof no_times / sizeof *no_times; i++)
		shop_expect(NULL, "POST", "/channels/alexa", NULL,
		            envelope(no_times[i], application, "\"type\":\"LaunchRequest\""), 400);
	alexa_at(time(NULL), "amzn1.ask.skill.another", "\"type\":\"LaunchRequest\"", 403);
	alexa_at(time(NULL), application, "\"type\":\"LaunchRequest\"", 200);
}

/* `dev` does not verify, for nobody but Amazon can sign: here it is verified, as everywhere else. */
static void what_amazon_did_not_sign_is_refused(void **state)
{
	static const char *const headers[] = {"", "SignatureCertChainUrl: https://evil.example/echo.api/c.pem\r\n"};
	struct service strict;
	service_beside(&strict, &shop, NULL, NULL,
	               (const char *[]){"--alexa-key", shop.key_voice, "--alexa-application", application, "--log-level",
	                                "error", NULL});
	for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
		struct answer answer = service_call(&strict, NULL, "POST", "/channels/alexa", headers[i],
		                                    envelope(stamp_of(time(NULL)), application, "\"type\":\"LaunchRequest\""));
		assert_int_equal(answer.status, 400); /* Amazon certifies no skill that answers otherwise */
		assert_non_null(strstr(answer_string(&answer, "detail"), "SignatureCertChainUrl"));
		answer_done(&answer);
	}
	assert_int_equal(service_stop(&strict), 0);
}

static void a_certificate_comes_from_amazon_only(void **state)
{
	static const char *const good[] = {"https://s3.amazonaws.com/echo.api/echo-api-cert.pem",
	                                   "https://s3.amazonaws.com:443/echo.api/echo-api-cert.pem",
	                                   "HTTPS://S3.amazonaws.com/echo.api/echo-api-cert.pem"};
	static const char *const bad[] = {"http://s3.amazonaws.com/echo.api/c.pem",
	                                  "https://notamazon.com/echo.api/c.pem",
	                                  "https://s3.amazonaws.com/EcHo.aPi/c.pem",
	                                  "https://s3.amazonaws.com/invalid.path/c.pem",
	                                  "https://s3.amazonaws.com:563/echo.api/c.pem",
	                                  "https://s3.amazonaws.com/echo.api/../other/c.pem",
	                                  "https://s3.amazonaws.com/echo.api/./echo-api-cert.pem",
	                                  "https://s3.amazonaws.com/echo.api/%2e%2e/other",
	                                  "https://s3.amazonaws.com.evil.example/echo.api/c.pem",
	                                  "https://s3.amazonaws.com@evil.example/echo.api/c.pem",
	                                  "https://s3.amazonaws.com/echo.api/",
	                                  ""};
	char url[ALEXA_URL_BYTES_MAX];
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		assert_true(alexa_url_read(text_of(good[i]), url));
		assert_string_equal(url, good[0]); /* one address has one key, whoever writes it in capitals */
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_false(alexa_url_read(text_of(bad[i]), url));
}

/* Of an authority, or of who is none. No issuer: its own. */
static X509 *certificate(EVP_PKEY *key, const char *name, bool authority, X509 *issuer, EVP_PKEY *issuer_key,
                         time_t until)
{
	X509 *x = X509_new();
	X509_set_version(x, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(x), issuer ? 2 : 1);
	ASN1_TIME_set(X509_getm_notBefore(x), 1000000000);
	ASN1_TIME_set(X509_getm_notAfter(x), until);
	X509_set_pubkey(x, key);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
	X509_set_issuer_name(x, X509_get_subject_name(issuer ? issuer : x));
	if (authority) {
		X509_EXTENSION *ca = X509V3_EXT_conf_nid(NULL, NULL, NID_basic_constraints, "critical,CA:TRUE");
		X509_add_ext(x, ca, -1);
		X509_EXTENSION_free(ca);
	}
	X509_sign(x, issuer_key, EVP_sha256());
	return x;
}

static struct text pem_of(X509 *x, BIO *bio)
{
	char *data;
	PEM_write_bio_X509(bio, x);
	long size = BIO_get_mem_data(bio, &data);
	return (struct text){data, (size_t)size};
}

static void a_signature_is_amazons_or_refused(void **state)
{
	EVP_PKEY *root_key = EVP_RSA_gen(2048), *key = EVP_RSA_gen(2048), *found = NULL;
	X509 *root = certificate(root_key, "a root", true, NULL, root_key, 4000000000);
	X509 *good = certificate(key, "echo-api.amazon.com", false, root, root_key, 2000000000);
	X509 *other = certificate(key, "evil.example", false, root, root_key, 2000000000);
	X509_STORE *roots = X509_STORE_new(), *none = X509_STORE_new();
	X509_STORE_add_cert(roots, root);
	BIO *good_bio = BIO_new(BIO_s_mem()), *other_bio = BIO_new(BIO_s_mem());
	struct text chain = pem_of(good, good_bio), other_chain = pem_of(other, other_bio);
	assert_false(alexa_chain_check(chain, 1900000000, none, &found));
	assert_false(alexa_chain_check(other_chain, 1900000000, roots, &found));
	assert_false(alexa_chain_check(chain, 2000000001, roots, &found));
	assert_false(alexa_chain_check(TEXT("not a certificate"), 1900000000, roots, &found));
	assert_false(alexa_chain_check((struct text){0}, 1900000000, roots, &found)); /* an answer without a body */
	assert_null(found);
	assert_true(alexa_chain_check(chain, 1900000000, roots, &found));

	unsigned char raw[256], coded[400];
	size_t size = sizeof raw;
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	assert_int_equal(EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, key), 1);
	assert_int_equal(EVP_DigestSign(context, raw, &size, (const unsigned char *)"body", 4), 1);
	EVP_EncodeBlock(coded, raw, (int)size);
	assert_true(alexa_signature_check(found, TEXT("body"), text_of((char *)coded)));
	assert_false(alexa_signature_check(found, TEXT("bodY"), text_of((char *)coded)));
	coded[10] ^= 1;
	assert_false(alexa_signature_check(found, TEXT("body"), text_of((char *)coded)));
	assert_false(alexa_signature_check(found, TEXT("body"), TEXT("")));
	assert_false(alexa_signature_check(found, TEXT("body"), TEXT("====")));
	EVP_MD_CTX_free(context);
	EVP_PKEY_free(found);
	EVP_PKEY_free(key);
	EVP_PKEY_free(root_key);
	X509_free(root);
	X509_free(good);
	X509_free(other);
	X509_STORE_free(roots);
	X509_STORE_free(none);
	BIO_free(good_bio);
	BIO_free(other_bio);
}

/* Amazon's leads over two of them. */
static void a_chain_leads_to_its_root_over_what_stands_between(void **state)
{
	EVP_PKEY *root_key = EVP_RSA_gen(2048), *middle_key = EVP_RSA_gen(2048), *key = EVP_RSA_gen(2048), *found = NULL;
	X509 *root = certificate(root_key, "a root", true, NULL, root_key, 4000000000);
	X509 *middle = certificate(middle_key, "between", true, root, root_key, 2000000000);
	X509 *leaf = certificate(key, "echo-api.amazon.com", false, middle, middle_key, 2000000000);
	X509_STORE *roots = X509_STORE_new();
	X509_STORE_add_cert(roots, root);
	BIO *bio = BIO_new(BIO_s_mem());
	assert_false(alexa_chain_check(pem_of(leaf, bio), 1900000000, roots, &found));
	assert_null(found);
	assert_true(alexa_chain_check(pem_of(middle, bio), 1900000000, roots, &found)); /* behind its leaf */
	assert_int_equal(EVP_PKEY_eq(found, key), 1);
	EVP_PKEY_free(found);
	EVP_PKEY_free(key);
	EVP_PKEY_free(middle_key);
	EVP_PKEY_free(root_key);
	X509_free(root);
	X509_free(middle);
	X509_free(leaf);
	X509_STORE_free(roots);
	BIO_free(bio);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_caller_asks_holds_and_buys, shop_audit),
		cmocka_unit_test(a_product_without_a_title_is_not_called_by_its_code),
		cmocka_unit_test_teardown(a_turn_sent_again_does_the_same_again, shop_audit),
		cmocka_unit_test(two_that_match_are_asked_for_once),
		cmocka_unit_test_teardown(russian_callers_are_spoken_to_in_russian, shop_audit),
		cmocka_unit_test_teardown(only_a_whole_yes_buys, shop_audit),
		cmocka_unit_test_teardown(keys_say_yes_and_no, shop_audit),
		cmocka_unit_test(which_of_two_is_no_question_for_yes),
		cmocka_unit_test_teardown(silence_is_asked_again_and_hung_up_on, shop_audit),
		cmocka_unit_test(what_had_ended_is_not_released),
		cmocka_unit_test(what_cannot_be_looked_up_now_is_not_said_to_be_unknown),
		cmocka_unit_test(only_twilio_may_call),
		cmocka_unit_test(a_form_that_is_no_phones_is_not_taken_apart),
		cmocka_unit_test_teardown(a_skill_asks_holds_and_buys, shop_audit),
		cmocka_unit_test_teardown(a_callers_long_name_is_cut_between_characters, shop_audit),
		cmocka_unit_test_teardown(to_buy_what_was_not_asked_about_is_a_search, shop_audit),
		cmocka_unit_test_teardown(a_question_stays_open_until_it_is_answered, shop_audit),
		cmocka_unit_test(a_slot_is_looked_for_by_what_it_says),
		cmocka_unit_test(only_our_skill_is_served_and_only_now),
		cmocka_unit_test(what_amazon_did_not_sign_is_refused),
		cmocka_unit_test(a_certificate_comes_from_amazon_only),
		cmocka_unit_test(a_signature_is_amazons_or_refused),
		cmocka_unit_test(a_chain_leads_to_its_root_over_what_stands_between),
	};
	return cmocka_run_group_tests(tests, open_shop, shop_close);
}
