/* Telegram: `POST /channels/telegram`, the webhook of a bot that tells what is left, holds it and sells it.
 *
 * Happy path: the secret token, one update, one turn, one reply, in which Telegram finds the call it shall make for us.
 * A message is a search; a button carries what to do (press.h): look again, hold, buy, release, and its message is edited
 * to say how things stand, with the buttons that make sense then.
 * Failure modes: a wrong secret is 401, what is not an update 400 (Telegram gives up on neither, so neither can come from
 * it); everything else is 200, refusals too, for any other status is sent again for hours. The same press again, or the same update,
 * does nothing again, and is told how things stand: a hold's key is the offer its button carries, and a hold ends once. What cannot be answered now is told
 * in an alert that leaves the buttons for another try.
 */
#include <openssl/crypto.h>
#include <string.h>

#include "base/text.h"
#include "channels/deal.h"
#include "channels/handlers.h"
#include "channels/phrase.h"
#include "channels/press.h"
#include "channels/turn.h"
#include "http/auth.h"
#include "http/problem.h"

#define FOUND_MAX 5
#define ALERT_BYTES_MAX 200 /* characters by the Bot API; bytes are fewer characters */

struct telegram {
	struct turn turn; /* first */
	enum language language;
	int64_t chat_id;
	struct text callback_id; /* of a press; size 0: a message */
	int64_t message_id;      /* the message its button is on; 0: not known */
	struct press press;
	struct product product; /* of the press */
};

/* --- replies: one call of the Bot API, in the body -------------------------------------------------------------------- */

static struct json_writer reply_open(struct telegram *telegram, const char *method)
{
	struct json_writer w = json_writer(loop_out(loop_of(telegram->turn.request)));
	json_object_open(&w);
	json_member_string(&w, "method", method);
	return w;
}

static void reply_send(struct telegram *telegram, struct json_writer *w)
{
	json_object_close(w);
	request_reply_json(telegram->turn.request, 200, w->out);
}

static void reply_nothing(struct request *request)
{
	request_reply(request, 200, NULL, (struct text){0});
}

static void put_text(struct json_writer *w, struct text text)
{
	json_key(w, "text");
	json_put_text(w, text);
}

/* A press is answered where its button is: the message says how things stand now. */
static struct json_writer message_open(struct telegram *telegram, struct text text)
{
	struct json_writer w = reply_open(telegram, telegram->message_id ? "editMessageText" : "sendMessage");
	json_member_int(&w, "chat_id", telegram->chat_id);
	if (telegram->message_id)
		json_member_int(&w, "message_id", telegram->message_id);
	put_text(&w, text);
	return w;
}

/* In front of everything, gone with a tap; the message stays as it is. */
static void reply_alert(struct telegram *telegram, struct text text)
{
	struct json_writer w = reply_open(telegram, "answerCallbackQuery");
	json_key(&w, "callback_query_id");
	json_put_text(&w, telegram->callback_id);
	while (text.size > ALERT_BYTES_MAX || (text.size && ((unsigned char)text.data[text.size] & 0xc0) == 0x80))
		text.size--;
	put_text(&w, text);
	json_member_bool(&w, "show_alert", true);
	reply_send(telegram, &w);
}

static void reply_phrase(struct telegram *telegram, enum phrase phrase)
{
	struct text text = phrase_text(telegram->turn.arena, telegram->language, phrase, NULL);
	if (telegram->callback_id.size) {
		reply_alert(telegram, text);
		return;
	}
	struct json_writer w = message_open(telegram, text);
	reply_send(telegram, &w);
}

static void keyboard_open(struct json_writer *w)
{
	json_key(w, "reply_markup");
	json_object_open(w);
	json_key(w, "inline_keyboard");
	json_array_open(w);
}

static void keyboard_close(struct json_writer *w)
{
	json_array_close(w);
	json_object_close(w);
}

static void put_button(struct json_writer *w, struct text label, const struct press *press)
{
	char data[PRESS_BYTES_MAX + 1];
	press_write(press, data);
	json_object_open(w);
	put_text(w, label);
	json_member_string(w, "callback_data", data);
	json_object_close(w);
}

static void put_phrase_button(struct json_writer *w, const struct telegram *telegram, enum phrase phrase,
                              const struct press *press)
{
	put_button(w, phrase_text(telegram->turn.arena, telegram->language, phrase, NULL), press);
}

static struct text title_of(const struct telegram *telegram, const struct product *product)
{
	return phrase_title(telegram->turn.arena, telegram->language, product->titles_json, product->code);
}

/* --- what is left ----------------------------------------------------------------------------------------------------- */

static enum phrase say_availability(const struct telegram *telegram, const struct product *product, struct buffer *text)
{
	struct phrase_words words = {.title = title_of(telegram, product)};
	enum phrase phrase = phrase_for(&product->figures, request_principal(telegram->turn.request),
	                                product->next_release_us, &words);
	phrase_say(text, telegram->language, phrase, &words);
	return phrase;
}

static bool may_be_held(const struct telegram *telegram, const struct product *product)
{
	return figures_in_stock(&product->figures, request_principal(telegram->turn.request));
}

/* A new offer each time it is shown: each may be held once. */
static struct press hold_press(const struct telegram *telegram, const struct product *product)
{
	struct request *request = telegram->turn.request;
	struct press press = {.action = PRESS_HOLD, .product_id = product->id};
	offer_mint(inventory_secret(loop_of(request)->inventory), request_principal(request)->id, press.offer);
	return press;
}

/* One of several is named, and has no row when it cannot be held: the Bot API knows no row without a button. */
static void put_row_of_product(struct json_writer *w, const struct telegram *telegram, const struct product *product,
                               bool named)
{
	struct arena *arena = telegram->turn.arena;
	if (named && !may_be_held(telegram, product))
		return;
	json_array_open(w);
	if (may_be_held(telegram, product)) {
		struct press press = hold_press(telegram, product);
		struct text hold = phrase_text(arena, telegram->language, PHRASE_BUTTON_HOLD, NULL);
		struct text title = title_of(telegram, product);
		put_button(w, named ? arena_printf(arena, "%s: %.*s", hold.data, (int)title.size, title.data) : hold, &press);
	}
	if (!named) {
		struct press press = {.action = PRESS_CHECK, .product_id = product->id};
		put_phrase_button(w, telegram, PHRASE_BUTTON_CHECK, &press);
	}
	json_array_close(w);
}

static void reply_products(struct telegram *telegram, const struct product *products, size_t count)
{
	struct buffer text = {0};
	bool counted = false;
	for (size_t i = 0; i < count; i++) {
		if (i)
			buffer_add_char(&text, '\n');
		counted |= say_availability(telegram, &products[i], &text) == PHRASE_AVAILABLE;
	}
	if (counted) {
		buffer_add_char(&text, count > 1 ? '\n' : ' ');
		phrase_say(&text, telegram->language, PHRASE_NOT_YOURS_YET, NULL);
	}
	struct json_writer w = message_open(telegram, buffer_text(&text));
	buffer_done(&text);
	keyboard_open(&w);
	for (size_t i = 0; i < count; i++)
		put_row_of_product(&w, telegram, &products[i], count > 1);
	keyboard_close(&w);
	reply_send(telegram, &w);
}

static void on_searched(struct turn *turn)
{
	struct telegram *telegram = (struct telegram *)turn;
	if (turn->error)
		reply_phrase(telegram, PHRASE_TRY_AGAIN);
	else if (!turn->product_count)
		reply_phrase(telegram, PHRASE_NOT_FOUND);
	else
		reply_products(telegram, turn->products, turn->product_count);
}

/* --- presses ---------------------------------------------------------------------------------------------------------- */

/* How things stand, and one button to look again. */
static void reply_state(struct telegram *telegram, struct text text)
{
	struct json_writer w = message_open(telegram, text);
	struct press press = {.action = PRESS_CHECK, .product_id = telegram->product.id};
	keyboard_open(&w);
	json_array_open(&w);
	put_phrase_button(&w, telegram, PHRASE_BUTTON_CHECK, &press);
	json_array_close(&w);
	keyboard_close(&w);
	reply_send(telegram, &w);
}

static void reply_held(struct telegram *telegram, struct text text)
{
	struct press buy = deal_end(&telegram->turn, PRESS_BUY, &telegram->product);
	struct press release = deal_end(&telegram->turn, PRESS_RELEASE, &telegram->product);
	struct json_writer w = message_open(telegram, text);
	keyboard_open(&w);
	json_array_open(&w);
	put_phrase_button(&w, telegram, PHRASE_BUTTON_BUY, &buy);
	put_phrase_button(&w, telegram, PHRASE_BUTTON_RELEASE, &release);
	json_array_close(&w);
	keyboard_close(&w);
	reply_send(telegram, &w);
}

static void on_dealt(struct turn *turn)
{
	struct telegram *telegram = (struct telegram *)turn;
	struct phrase_words words = {.title = title_of(telegram, &telegram->product)};
	enum phrase phrase = deal_phrase(turn, telegram->press.action, &words);
	/* Its buttons are as good as before: in an alert, and the message stays. */
	if (phrase == PHRASE_TRY_AGAIN || phrase == PHRASE_TOO_MANY_HOLDS) {
		reply_phrase(telegram, phrase);
		return;
	}
	struct text text = phrase_text(turn->arena, telegram->language, phrase, &words);
	if (phrase == PHRASE_HELD_FOR_YOU)
		reply_held(telegram, text);
	else
		reply_state(telegram, text);
}

/* The product is known: its title for the answer, its code for the hold. */
static void on_product(struct turn *turn)
{
	struct telegram *telegram = (struct telegram *)turn;
	if (turn->error) {
		reply_phrase(telegram, PHRASE_TRY_AGAIN);
		return;
	}
	if (!turn->product_count) {
		reply_phrase(telegram, PHRASE_NOT_FOUND);
		return;
	}
	telegram->product = turn->products[0];
	if (telegram->press.action == PRESS_CHECK)
		reply_products(telegram, &telegram->product, 1);
	else
		deal_run(turn, &telegram->press, &telegram->product,
		         arena_printf(turn->arena, "telegram:%lld", (long long)telegram->chat_id), on_dealt);
}

/* --- updates ---------------------------------------------------------------------------------------------------------- */

static struct text string_at(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);
	return json_is_string(value) ? json_text(value) : (struct text){0};
}

static int64_t integer_at(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static void take_press(struct telegram *telegram, const json_t *query)
{
	const json_t *message = json_object_get(query, "message"), *from = json_object_get(query, "from");
	telegram->callback_id = string_at(query, "id");
	telegram->language = language_of_words(string_at(message, "text"),
	                                       language_of_tag(string_at(from, "language_code")));
	telegram->message_id = integer_at(message, "message_id");
	telegram->chat_id = integer_at(json_object_get(message, "chat"), "id");
	/* A button on a message that is too old to be shown to us: answer in a chat with whoever pressed it. */
	if (!telegram->message_id || !telegram->chat_id) {
		telegram->message_id = 0;
		telegram->chat_id = integer_at(from, "id");
	}
	if (press_read(string_at(query, "data"), &telegram->press))
		deal_find(&telegram->turn, &telegram->press, on_product);
	else
		reply_phrase(telegram, PHRASE_NOT_UNDERSTOOD);
}

/* "/stock@shop_bot red mug" → "red mug"; *ret_start: "/start", with or without what follows. */
static struct text words_of(struct text said, bool *ret_start)
{
	*ret_start = false;
	if (!said.size || said.data[0] != '/')
		return said;
	const char *blank = memchr(said.data, ' ', said.size);
	size_t command = blank ? (size_t)(blank - said.data) : said.size;
	const char *at = memchr(said.data, '@', command);
	*ret_start = text_equal((struct text){said.data, at ? (size_t)(at - said.data) : command}, TEXT("/start"));
	return (struct text){said.data + command, said.size - command};
}

static bool is_blank(struct text text)
{
	for (size_t i = 0; i < text.size; i++)
		if (!strchr(" \t\r\n", text.data[i]))
			return false;
	return true;
}

static void take_message(struct telegram *telegram, const json_t *message)
{
	bool start;
	enum language spoken = language_of_tag(string_at(json_object_get(message, "from"), "language_code"));
	struct text words = words_of(string_at(message, "text"), &start);
	telegram->chat_id = integer_at(json_object_get(message, "chat"), "id");
	telegram->language = language_of_words(words, spoken);
	if (!telegram->chat_id || !string_at(message, "text").data)
		reply_nothing(telegram->turn.request); /* a picture, a member who joined */
	else if (start || is_blank(words))
		reply_phrase(telegram, PHRASE_WELCOME);
	else
		turn_search(&telegram->turn, words, FOUND_MAX, on_searched);
}

/* False: replied. */
static bool check_sender(struct request *request)
{
	const struct config *config = loop_of(request)->config;
	struct text token, secret = text_of(config->telegram_secret);
	const char *why;
	if (!secret.size || !*config->telegram_key) {
		problem_reply(request, LU_NOT_FOUND,
		              TEXT("This service has no bot: start it with --telegram-key and --telegram-secret."));
		return false;
	}
	if (!request_header(request, "X-Telegram-Bot-Api-Secret-Token", &token) || token.size != secret.size ||
	    CRYPTO_memcmp(token.data, secret.data, secret.size) != 0) {
		problem_reply(request, LU_UNAUTHORIZED, TEXT("The header X-Telegram-Bot-Api-Secret-Token is not our secret."));
		return false;
	}
	enum lu_error error = auth_as(request, text_of(config->telegram_key), SCOPE_READ | SCOPE_SELL, &why);
	if (error == LU_DATABASE_UNAVAILABLE && request_wait_for_keys(request))
		return false;
	if (error)
		problem_reply(request, error, text_of(why));
	return !error;
}

void telegram_post(struct request *request)
{
	json_t *update;
	if (!check_sender(request) || !take_json(request, true, &update))
		return;
	struct telegram *telegram = ARENA_NEW(request_arena(request), struct telegram);
	turn_init(&telegram->turn, request);
	const json_t *message = json_object_get(update, "message"), *query = json_object_get(update, "callback_query");
	if (json_is_object(query))
		take_press(telegram, query);
	else if (json_is_object(message))
		take_message(telegram, message);
	else
		reply_nothing(request); /* an update of a kind that we have no answer to */
}
