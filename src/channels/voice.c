/* Conversations. Happy path: hear → search → "3 pieces available. Shall I hold one?" → yes → hold → "Shall I buy it?" → yes →
 * bought. Failure modes: every refusal is a sentence and a question that goes on; a state that nobody wrote is a search. */
#include "channels/voice.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "http/auth.h"

#define MATCHES_MAX 2

void voice_init(struct voice *voice, struct request *request, enum language language, void (*on_said)(struct voice *))
{
	*voice = (struct voice){.language = language, .on_said = on_said};
	turn_init(&voice->turn, request);
}

/* --- saying ----------------------------------------------------------------------------------------------------------- */

static struct text sentence(struct voice *voice, enum phrase phrase, const struct phrase_words *words)
{
	return phrase_text(voice->turn.arena, voice->language, phrase, words);
}

/* `question` PHRASE_COUNT: none, it ends. */
static void say(struct voice *voice, struct text statement, enum phrase question)
{
	voice->ends = question == PHRASE_COUNT;
	struct text asked = voice->ends ? TEXT("") : sentence(voice, question, NULL);
	voice->sentence = arena_printf(voice->turn.arena, "%.*s%s%.*s", (int)statement.size, statement.data,
	                               statement.size && asked.size ? " " : "", (int)asked.size, asked.data);
	voice->on_said(voice);
}

static void say_phrase(struct voice *voice, enum phrase phrase, const struct phrase_words *words, enum phrase question)
{
	say(voice, sentence(voice, phrase, words), question);
}

static void expect(struct voice *voice, const struct press *yes, const struct press *no)
{
	char data[PRESS_BYTES_MAX + 1];
	press_write(yes, data);
	strcpy(voice->state, data);
	if (no) {
		press_write(no, data);
		strcat(strcat(voice->state, "~"), data);
	}
}

/* Never its code. */
static struct text spoken_title(struct voice *voice, const struct product *product)
{
	return phrase_title(voice->turn.arena, voice->language, product->titles_json,
	                    sentence(voice, PHRASE_NAMELESS, NULL));
}

void voice_welcome(struct voice *voice)
{
	say(voice, TEXT(""), PHRASE_SPOKEN_WELCOME);
}

void voice_help(struct voice *voice)
{
	say_phrase(voice, PHRASE_SPOKEN_HELP, NULL, PHRASE_SPOKEN_WELCOME);
}

void voice_leave(struct voice *voice)
{
	say_phrase(voice, PHRASE_GOODBYE, NULL, PHRASE_COUNT);
}

/* --- looking ---------------------------------------------------------------------------------------------------------- */

static void tell(struct voice *voice, const struct product *product)
{
	struct request *request = voice->turn.request;
	const struct principal *principal = request_principal(request);
	struct phrase_words words = {.title = spoken_title(voice, product)};
	enum phrase phrase = phrase_for(&product->figures, principal, product->next_release_us, &words);
	if (phrase != PHRASE_AVAILABLE && phrase != PHRASE_ALWAYS_AVAILABLE) {
		say_phrase(voice, phrase, &words, PHRASE_ASK_ELSE);
		return;
	}
	struct press hold = {.action = PRESS_HOLD, .product_id = product->id};
	offer_mint(inventory_secret(loop_of(request)->inventory), principal->id, hold.offer);
	expect(voice, &hold, NULL);
	struct text left = sentence(voice, phrase, &words);
	if (phrase == PHRASE_AVAILABLE)
		left = arena_printf(voice->turn.arena, "%s %s", left.data, sentence(voice, PHRASE_NOT_YOURS_YET, NULL).data);
	say(voice, left, PHRASE_ASK_HOLD);
}

static void on_found(struct turn *turn)
{
	struct voice *voice = (struct voice *)turn;
	if (turn->error) {
		say_phrase(voice, PHRASE_TRY_AGAIN, NULL, PHRASE_COUNT);
		return;
	}
	if (!turn->product_count) {
		say_phrase(voice, PHRASE_NOT_FOUND, NULL, PHRASE_SPOKEN_WELCOME);
		return;
	}
	struct text title = spoken_title(voice, &turn->products[0]), other = title;
	if (turn->product_count > 1)
		other = spoken_title(voice, &turn->products[1]);
	/* Two that are called the same cannot be told apart by asking. */
	if (text_equal(title, other)) {
		tell(voice, &turn->products[0]);
		return;
	}
	struct press first = {.action = PRESS_CHECK, .product_id = turn->products[0].id};
	struct press second = {.action = PRESS_CHECK, .product_id = turn->products[1].id};
	expect(voice, &first, &second);
	struct phrase_words words = {.title = title, .other = other};
	voice->sentence = sentence(voice, PHRASE_THIS_OR_THAT, &words);
	voice->on_said(voice);
}

void voice_look_for(struct voice *voice, struct text words)
{
	turn_search(&voice->turn, words, MATCHES_MAX, on_found);
}

void voice_look_up(struct voice *voice, struct text code)
{
	turn_find_code(&voice->turn, code, on_found);
}

/* --- holding and buying ----------------------------------------------------------------------------------------------- */

static void say_refusal(struct voice *voice)
{
	const struct verdict *verdict = &voice->turn.call.operation.verdict;
	struct phrase_words words = {.title = spoken_title(voice, &voice->product)};
	switch (voice->turn.error) {
	case LU_INSUFFICIENT_STOCK:
		words.time_us = verdict->shortage_count ? verdict->shortages[0].next_release_us : 0;
		say_phrase(voice, words.time_us ? PHRASE_HELD_BY_OTHERS : PHRASE_SOLD_OUT, &words, PHRASE_ASK_ELSE);
		break;
	case LU_RESERVATION_EXPIRED:
		say_phrase(voice, PHRASE_HOLD_ENDED, NULL, PHRASE_ASK_ELSE);
		break;
	case LU_RESERVATION_NOT_ACTIVE:
		say_phrase(voice, voice->press.action == PRESS_BUY ? PHRASE_HOLD_RELEASED : PHRASE_HOLD_BOUGHT, NULL,
		           PHRASE_ASK_ELSE);
		break;
	case LU_UNKNOWN_SKU:
	case LU_UNKNOWN_RESERVATION:
		say_phrase(voice, PHRASE_HOLD_UNKNOWN, NULL, PHRASE_ASK_ELSE);
		break;
	case LU_TOO_MANY_HOLDS:
		say_phrase(voice, PHRASE_TOO_MANY_HOLDS, NULL, PHRASE_ASK_ELSE);
		break;
	default:
		say_phrase(voice, PHRASE_TRY_AGAIN, NULL, PHRASE_COUNT);
	}
}

static void on_held(struct turn *turn)
{
	struct voice *voice = (struct voice *)turn;
	const struct verdict *verdict = &turn->call.operation.verdict;
	if (turn->error) {
		say_refusal(voice);
		return;
	}
	struct press buy = {.action = PRESS_BUY, .hold = verdict->object_id, .product_id = voice->product.id};
	struct press release = {.action = PRESS_RELEASE, .hold = verdict->object_id, .product_id = voice->product.id};
	struct phrase_words words = {.title = spoken_title(voice, &voice->product),
	                             .pieces = verdict->reservation->lines[0].quantity,
	                             .minutes = (verdict->reservation->expires_us - verdict->at_us) / 60000000,
	                             .time_us = verdict->reservation->expires_us};
	expect(voice, &buy, &release);
	say_phrase(voice, PHRASE_HELD_FOR_YOU, &words, PHRASE_ASK_BUY);
}

static void on_bought(struct turn *turn)
{
	struct voice *voice = (struct voice *)turn;
	if (turn->error) {
		say_refusal(voice);
		return;
	}
	struct phrase_words words = {.title = spoken_title(voice, &voice->product),
	                             .pieces = turn->call.operation.verdict.checkout->lines[0].quantity};
	say_phrase(voice, PHRASE_BOUGHT, &words, PHRASE_COUNT);
}

static void on_released(struct turn *turn)
{
	struct voice *voice = (struct voice *)turn;
	if (turn->error)
		say_refusal(voice);
	else
		say_phrase(voice, PHRASE_RELEASED, NULL, PHRASE_ASK_ELSE);
}

static void hold(struct voice *voice)
{
	struct turn *turn = &voice->turn;
	const uint8_t *secret = inventory_secret(loop_of(turn->request)->inventory);
	if (!offer_verify(secret, request_principal(turn->request)->id, text_of(voice->press.offer))) {
		say_phrase(voice, PHRASE_HOLD_UNKNOWN, NULL, PHRASE_ASK_ELSE);
		return;
	}
	struct operation *operation = turn_operation(turn, OPERATION_RESERVE);
	operation->caller = voice->caller;
	operation->lines = ARENA_NEW(turn->arena, struct line);
	operation->lines[0] = (struct line){.sku = voice->product.code, .quantity = 1};
	operation->line_count = 1;
	turn_operate(turn, arena_printf(turn->arena, "offer:%s", voice->press.offer), on_held);
}

/* The product is known: its title for the answer, its code for the hold. */
static void on_product(struct turn *turn)
{
	struct voice *voice = (struct voice *)turn;
	if (turn->error || !turn->product_count) {
		on_found(turn);
		return;
	}
	voice->product = turn->products[0];
	switch (voice->press.action) {
	case PRESS_CHECK:
		tell(voice, &voice->product);
		break;
	case PRESS_HOLD:
		hold(voice);
		break;
	case PRESS_BUY:
		turn_operation(turn, OPERATION_COMMIT)->target = voice->press.hold;
		turn_operate(turn, (struct text){0}, on_bought);
		break;
	case PRESS_RELEASE:
		turn_operation(turn, OPERATION_RELEASE)->target = voice->press.hold;
		turn_operate(turn, (struct text){0}, on_released);
		break;
	}
}

void voice_choose(struct voice *voice, struct text state, enum voice_choice choice)
{
	const char *split = memchr(state.data, '~', state.size);
	struct text yes = {state.data, split ? (size_t)(split - state.data) : state.size};
	struct text no = split ? (struct text){split + 1, state.size - yes.size - 1} : (struct text){0};
	if (press_read(choice == VOICE_YES ? yes : no, &voice->press))
		turn_find(&voice->turn, voice->press.product_id, on_product);
	else
		say(voice, TEXT(""), PHRASE_ASK_ELSE);
}

static bool begins_with(struct text said, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t size = strlen(words[i]);
		if (said.size >= size && memcmp(said.data, words[i], size) == 0 &&
		    (said.size == size || strchr(" ,.!?", said.data[size])))
			return true;
	}
	return false;
}

void voice_hear(struct voice *voice, struct text state, struct text said)
{
	/* Recognisers write the first word with a capital letter, or not. */
	static const char *const yes[] = {"1",      "yes",    "Yes",       "yeah",      "Yeah",  "sure", "Sure",
	                                  "first",  "First",  "the first", "The first", "да",    "Да",   "первый",
	                                  "Первый", "первая", "Первая",    "первое",    "Первое"};
	static const char *const no[] = {"2",   "no",     "No",     "second", "Second", "the second", "The second", "нет",
	                                 "Нет", "второй", "Второй", "вторая", "Вторая", "второе",     "Второе"};
	if (state.size && begins_with(said, yes, sizeof yes / sizeof *yes))
		voice_choose(voice, state, VOICE_YES);
	else if (state.size && begins_with(said, no, sizeof no / sizeof *no))
		voice_choose(voice, state, VOICE_NO);
	else
		voice_look_for(voice, said);
}
