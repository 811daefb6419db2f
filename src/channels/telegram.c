/* Telegram: `POST /channels/telegram`, the webhook of a bot that tells what is left, holds it and sells it.
 *
 * Happy path: the secret token, one update, one turn, one reply, in which Telegram finds the call it shall make for us.
 * A message is a search; a button carries what to do (press.h): look again, hold, buy, release, and its message is
 * edited to say how things stand, with the buttons that make sense then. In a group all see the same buttons: what is
 * held is held for who pressed, and nobody else ends it.
 * Failure modes: a wrong secret is 401, what is not an update 400 (Telegram gives up on neither, so neither can come
 * from it); everything else is 200, refusals too, for any other status is sent again for hours. The same press again,
 * or the same update, does nothing again, and is told how things stand: a hold's key is the offer its button carries,
 * and a hold ends once. What cannot be answered now is told in an alert that leaves the buttons for another try. What
 * Telegram would refuse, and tell nobody, is not sent: a text that is too long, an edit that changes nothing, or of a
 * message that cannot be edited any more.
 */
#include <openssl/crypto.h>
#include <string.h>

#include "base/text.h"
#include "channels/deal.h"
#include "channels/excerpt.h"
#include "channels/handlers.h"
#include "channels/phrase.h"
#include "channels/press.h"
#include "channels/turn.h"
#include "http/auth.h"
#include "http/problem.h"

#define FOUND_MAX 5
#define ALERT_BYTES_MAX 200 /* characters by the Bot API; bytes are fewer characters */
/* In UTF-16 code units, as the Bot API counts. */
#define TEXT_UNITS_MAX 4096
#define TITLE_UNITS_MAX 256
#define LABEL_UNITS_MAX 60
#define PHRASE_UNITS_MAX 200 /* without its title */

_Static_assert(FOUND_MAX *(TITLE_UNITS_MAX + PHRASE_UNITS_MAX) + PHRASE_UNITS_MAX <= TEXT_UNITS_MAX, "an answer fits");

struct telegram {
	struct turn turn; /* first */
	enum language language;
	int64_t user_id; /* who pressed; in a private chat the chat's id, too */
	int64_t chat_id;
	int64_t topic_id;        /* of a forum; 0: none */
	struct text callback_id; /* of a press; size 0: a message */
	int64_t message_id;      /* the message its button is on; 0: not known, or it cannot be edited */
	const json_t *shown;     /* that message, as it is */
	struct press press;
	bool offer_spent;       /* what was pressed is a hold that was refused before: a new offer must be shown */
	struct product product; /* of the press */
};

/* --- replies: one call of the Bot API, in the body ---------------------------------------------------------------- */

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

/* An answer to a press that leaves the message as it is: gone by itself, or in front of everything until a tap. */
static void reply_notice(struct telegram *telegram, struct text text, bool in_front)
{
	struct json_writer w = reply_open(telegram, "answerCallbackQuery");
	json_key(&w, "callback_query_id");
	json_put_text(&w, telegram->callback_id);
	while (text.size > ALERT_BYTES_MAX || (text.size && ((unsigned char)text.data[text.size] & 0xc0) == 0x80))
		text.size--;
	put_text(&w, text);
	json_member_bool(&w, "show_alert", in_front);
	reply_send(telegram, &w);
}

/* A press is answered where its button is: the message says how things stand now. */
static struct json_writer message_open(struct telegram *telegram, struct text text)
{
	struct json_writer w = reply_open(telegram, telegram->message_id ? "editMessageText" : "sendMessage");
	json_member_int(&w, "chat_id", telegram->chat_id);
	if (telegram->message_id)
		json_member_int(&w, "message_id", telegram->message_id);
	else if (telegram->topic_id)
		json_member_int(&w, "message_thread_id", telegram->topic_id);
	put_text(&w, text);
	return w;
}

static bool same_at(const json_t *a, const json_t *b, const char *key)
{
	return json_equal(json_object_get(a, key), json_object_get(b, key));
}

/* The button of a hold carries an offer, a new one each time. The one that is shown does as well, unless it is spent. */
static bool same_hold(const struct telegram *telegram, const json_t *button, const json_t *shown)
{
	struct press press, before;
	struct request *request = telegram->turn.request;
	return !telegram->offer_spent && press_read(json_text_at(button, "callback_data"), &press) &&
	       press_read(json_text_at(shown, "callback_data"), &before) && press.action == PRESS_HOLD &&
	       before.action == PRESS_HOLD && press.product_id == before.product_id &&
	       offer_verify(inventory_secret(loop_of(request)->inventory), request_principal(request)->id,
	                    text_of(before.offer));
}

static bool same_buttons(const struct telegram *telegram, const json_t *call)
{
	const json_t *rows = json_object_get(json_object_get(call, "reply_markup"), "inline_keyboard");
	const json_t *shown = json_object_get(json_object_get(telegram->shown, "reply_markup"), "inline_keyboard");
	if (json_array_size(rows) != json_array_size(shown))
		return false;
	for (size_t i = 0; i < json_array_size(rows); i++) {
		const json_t *row = json_array_get(rows, i), *row_shown = json_array_get(shown, i);
		if (json_array_size(row) != json_array_size(row_shown))
			return false;
		for (size_t j = 0; j < json_array_size(row); j++) {
			const json_t *button = json_array_get(row, j), *button_shown = json_array_get(row_shown, j);
			if (!same_at(button, button_shown, "text") ||
			    (!same_at(button, button_shown, "callback_data") && !same_hold(telegram, button, button_shown)))
				return false;
		}
	}
	return true;
}

static bool is_shown(const struct telegram *telegram, struct text edit)
{
	json_t *call = json_loadb(edit.data, edit.size, 0, NULL);
	bool same = same_at(call, telegram->shown, "text") && same_buttons(telegram, call);
	json_decref(call);
	return same;
}

static void message_send(struct telegram *telegram, struct json_writer *w)
{
	json_object_close(w);
	if (telegram->message_id && is_shown(telegram, buffer_text(w->out)))
		reply_notice(telegram, phrase_text(telegram->turn.arena, telegram->language, PHRASE_NOTHING_CHANGED, NULL),
		             false);
	else
		request_reply_json(telegram->turn.request, 200, w->out);
}

static void reply_phrase(struct telegram *telegram, enum phrase phrase)
{
	struct text text = phrase_text(telegram->turn.arena, telegram->language, phrase, NULL);
	if (telegram->callback_id.size) {
		reply_notice(telegram, text, true);
		return;
	}
	struct json_writer w = message_open(telegram, text);
	message_send(telegram, &w);
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

static void put_button(struct json_writer *w, const struct telegram *telegram, struct text label,
                       const struct press *press)
{
	char data[PRESS_BYTES_MAX + 1];
	press_write(press, data);
	json_object_open(w);
	put_text(w, excerpt(telegram->turn.arena, label, LABEL_UNITS_MAX));
	json_member_string(w, "callback_data", data);
	json_object_close(w);
}

static void put_phrase_button(struct json_writer *w, const struct telegram *telegram, enum phrase phrase,
                              const struct press *press)
{
	put_button(w, telegram, phrase_text(telegram->turn.arena, telegram->language, phrase, NULL), press);
}

static struct text title_of(const struct telegram *telegram, const struct product *product)
{
	struct arena *arena = telegram->turn.arena;
	struct text title = phrase_title(arena, telegram->language, product->titles_json, product->code);
	return excerpt(arena, title, TITLE_UNITS_MAX);
}

/* --- what is left ------------------------------------------------------------------------------------------------- */

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

/* A new offer each time it is asked for: each may be held once. */
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
		put_button(w, telegram, named ? arena_printf(arena, "%s: %.*s", hold.data, (int)title.size, title.data) : hold,
		           &press);
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
	message_send(telegram, &w);
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

/* --- presses ------------------------------------------------------------------------------------------------------ */

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
	message_send(telegram, &w);
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
	message_send(telegram, &w);
}

static void on_product(struct turn *turn);

static void on_dealt(struct turn *turn)
{
	struct telegram *telegram = (struct telegram *)turn;
	const struct verdict *verdict = &turn->call.operation.verdict;
	/* Refused when it was first made: what was short then says nothing of now. */
	if (verdict->replayed && verdict->error) {
		telegram->press.action = PRESS_CHECK;
		telegram->offer_spent = true;
		deal_find(turn, &telegram->press, on_product);
		return;
	}
	struct phrase_words words = {.title = title_of(telegram, &telegram->product)};
	enum phrase phrase = deal_phrase(turn, telegram->press.action, &words);
	/* Its buttons are as good as before: in an alert, and the message stays. */
	if (phrase == PHRASE_TRY_AGAIN || phrase == PHRASE_TOO_MANY_HOLDS || phrase == PHRASE_HELD_FOR_ANOTHER) {
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
		         arena_printf(turn->arena, "telegram:%lld", (long long)telegram->user_id), on_dealt);
}

/* --- updates ------------------------------------------------------------------------------------------------------ */

static int64_t integer_at(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

/* Where to answer. A thread of replies has a number as well, but only a topic is a place. */
static void take_place(struct telegram *telegram, const json_t *message)
{
	telegram->chat_id = integer_at(json_object_get(message, "chat"), "id");
	if (json_is_true(json_object_get(message, "is_topic_message")))
		telegram->topic_id = integer_at(message, "message_thread_id");
}

/* That of the message a button is on: by the button's label, for the text begins with a title, which may be in another. */
static enum language language_shown(const json_t *message, enum language otherwise)
{
	const json_t *rows = json_object_get(json_object_get(message, "reply_markup"), "inline_keyboard");
	struct text label = json_text_at(json_array_get(json_array_get(rows, 0), 0), "text");
	return language_of_words(label.size ? label : json_text_at(message, "text"), otherwise);
}

static void take_press(struct telegram *telegram, const json_t *query)
{
	const json_t *message = json_object_get(query, "message"), *from = json_object_get(query, "from");
	telegram->callback_id = json_text_at(query, "id");
	telegram->language = language_shown(message, language_of_tag(json_text_at(from, "language_code")));
	telegram->user_id = integer_at(from, "id");
	take_place(telegram, message);
	telegram->shown = message;
	/* Too old to be edited, a message comes without its contents and dated 0. */
	const json_t *date = json_object_get(message, "date");
	if (telegram->chat_id && !(json_is_integer(date) && !json_integer_value(date)))
		telegram->message_id = integer_at(message, "message_id");
	/* On no message at all, or on one that was sent inline: answer in a chat with whoever pressed it. */
	if (!telegram->chat_id)
		telegram->chat_id = telegram->user_id;
	if (press_read(json_text_at(query, "data"), &telegram->press))
		deal_find(&telegram->turn, &telegram->press, on_product);
	else
		reply_phrase(telegram, PHRASE_NOT_UNDERSTOOD);
}

static bool is_space(char c)
{
	return c && strchr(" \t\r\n", c);
}

/* "/stock@shop_bot red mug" → "red mug"; *ret_start: "/start", with or without what follows. */
static struct text words_of(struct text said, bool *ret_start)
{
	*ret_start = false;
	if (!said.size || said.data[0] != '/')
		return said;
	size_t command = 1;
	while (command < said.size && !is_space(said.data[command])) /* a line's end is one, too */
		command++;
	const char *at = memchr(said.data, '@', command);
	*ret_start = text_equal((struct text){said.data, at ? (size_t)(at - said.data) : command}, TEXT("/start"));
	return (struct text){said.data + command, said.size - command};
}

static bool is_blank(struct text text)
{
	for (size_t i = 0; i < text.size; i++)
		if (!is_space(text.data[i]))
			return false;
	return true;
}

static void take_message(struct telegram *telegram, const json_t *message)
{
	bool start;
	enum language spoken = language_of_tag(json_text_at(json_object_get(message, "from"), "language_code"));
	struct text words = words_of(json_text_at(message, "text"), &start);
	take_place(telegram, message);
	/* What stands behind /start came out of a link. */
	telegram->language = start ? spoken : language_of_words(words, spoken);
	if (!telegram->chat_id || !json_text_at(message, "text").data)
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
