/* Conversations. Happy path: hear → search → "3 pieces available. Shall I hold one?" → yes → hold → "Shall I buy it?" → yes →
 * bought. Failure modes: every refusal is a sentence and a question that goes on; a state that nobody wrote is a search. */
#include "channels/voice.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "channels/deal.h"
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

static void on_dealt(struct turn *turn)
{
	struct voice *voice = (struct voice *)turn;
	struct phrase_words words = {.title = spoken_title(voice, &voice->product)};
	enum phrase phrase = deal_phrase(turn, voice->press.action, &words), question = PHRASE_ASK_ELSE;
	if (phrase == PHRASE_HELD_FOR_YOU) {
		struct press buy = deal_end(turn, PRESS_BUY, &voice->product);
		struct press release = deal_end(turn, PRESS_RELEASE, &voice->product);
		expect(voice, &buy, &release);
		question = PHRASE_ASK_BUY;
	} else if (phrase == PHRASE_BOUGHT || phrase == PHRASE_TRY_AGAIN) {
		question = PHRASE_COUNT;
	}
	say_phrase(voice, phrase, &words, question);
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
	if (voice->press.action == PRESS_CHECK)
		tell(voice, &voice->product);
	else
		deal_run(turn, &voice->press, &voice->product, voice->caller, on_dealt);
}

void voice_choose(struct voice *voice, struct text state, enum voice_choice choice)
{
	const char *split = state.size ? memchr(state.data, '~', state.size) : NULL;
	struct text yes = {state.data, split ? (size_t)(split - state.data) : state.size};
	struct text no = split ? (struct text){split + 1, state.size - yes.size - 1} : (struct text){0};
	if (press_read(choice == VOICE_YES ? yes : no, &voice->press))
		deal_find(&voice->turn, &voice->press, on_product);
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
