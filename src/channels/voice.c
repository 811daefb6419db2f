/* Conversations. Happy path: hear → search → "3 pieces available. Shall I hold one?" → yes → hold → "Shall I buy it?" →
 * yes → bought. Failure modes: every refusal is a sentence and a question that goes on; what is no answer leaves the
 * question open; a state that nobody wrote is a search. */
#include "channels/voice.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "channels/deal.h"
#include "channels/hearing.h"
#include "http/auth.h"

#define MATCHES_MAX 2

static enum voice_question read_state(struct text state, struct press *yes, struct press *no)
{
	const char *split = state.size ? memchr(state.data, '~', state.size) : NULL;
	struct text first = {state.data, split ? (size_t)(split - state.data) : state.size};
	struct text second = split ? (struct text){split + 1, state.size - first.size - 1} : (struct text){0};
	if (!press_read(first, yes))
		return VOICE_ASKED_NOTHING;
	if (yes->action == PRESS_HOLD && !split)
		return VOICE_ASKED_HOLD;
	if (!press_read(second, no))
		return VOICE_ASKED_NOTHING;
	if (yes->action == PRESS_BUY && no->action == PRESS_RELEASE)
		return VOICE_ASKED_BUY;
	return yes->action == PRESS_CHECK && no->action == PRESS_CHECK ? VOICE_ASKED_WHICH : VOICE_ASKED_NOTHING;
}

void voice_init(struct voice *voice, struct request *request, enum language language, struct text state,
                void (*on_said)(struct voice *))
{
	*voice = (struct voice){.language = language, .on_said = on_said};
	voice->question = read_state(state, &voice->yes, &voice->no);
	turn_init(&voice->turn, request);
}

void voice_set_caller(struct voice *voice, const char *wire, struct text name)
{
	if (name.size > VOICE_CALLER_BYTES_MAX)
		name.size = VOICE_CALLER_BYTES_MAX;
	name = text_utf8_part(name);
	if (name.size)
		voice->caller = arena_printf(voice->turn.arena, "%s:%.*s", wire, (int)name.size, name.data);
}

/* --- saying ------------------------------------------------------------------------------------------------------- */

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

/* Nothing was decided, and nobody can say when it will be. */
static void fail(struct voice *voice)
{
	say_phrase(voice, PHRASE_TRY_AGAIN, NULL, PHRASE_COUNT);
}

static void ask_which(struct voice *voice, struct text title, struct text other)
{
	struct phrase_words words = {.title = title, .other = other};
	struct text asked = sentence(voice, PHRASE_THIS_OR_THAT, &words);
	expect(voice, &voice->yes, &voice->no);
	voice->sentence = arena_printf(voice->turn.arena, "%.*s%s%.*s", (int)voice->statement.size, voice->statement.data,
	                               voice->statement.size ? " " : "", (int)asked.size, asked.data);
	voice->on_said(voice);
}

static void on_second_name(struct turn *turn)
{
	struct voice *voice = (struct voice *)turn;
	if (turn->error || !turn->product_count)
		fail(voice);
	else
		ask_which(voice, spoken_title(voice, &voice->product), spoken_title(voice, turn->products));
}

static void on_first_name(struct turn *turn)
{
	struct voice *voice = (struct voice *)turn;
	if (turn->error || !turn->product_count) {
		fail(voice);
		return;
	}
	voice->product = turn->products[0];
	turn_name(turn, voice->no.product_id, on_second_name);
}

/* The open question, with its state. The state holds no names: two are looked up. They do not age as figures do. */
static void ask_again(struct voice *voice, struct text statement)
{
	voice->statement = statement;
	switch (voice->question) {
	case VOICE_ASKED_NOTHING:
		say(voice, statement, PHRASE_SPOKEN_WELCOME);
		break;
	case VOICE_ASKED_HOLD:
		expect(voice, &voice->yes, NULL);
		say(voice, statement, PHRASE_ASK_HOLD);
		break;
	case VOICE_ASKED_BUY:
		expect(voice, &voice->yes, &voice->no);
		say(voice, statement, PHRASE_ASK_BUY);
		break;
	case VOICE_ASKED_WHICH:
		turn_name(&voice->turn, voice->yes.product_id, on_first_name);
		break;
	}
}

void voice_welcome(struct voice *voice)
{
	say(voice, TEXT(""), PHRASE_SPOKEN_WELCOME);
}

void voice_leave(struct voice *voice)
{
	say_phrase(voice, PHRASE_GOODBYE, NULL, PHRASE_COUNT);
}

void voice_repeat(struct voice *voice)
{
	ask_again(voice, TEXT(""));
}

void voice_help(struct voice *voice)
{
	ask_again(voice, sentence(voice, PHRASE_SPOKEN_HELP, NULL));
}

void voice_wonder(struct voice *voice)
{
	ask_again(voice, sentence(voice, PHRASE_NOT_UNDERSTOOD, NULL));
}

/* --- looking ------------------------------------------------------------------------------------------------------ */

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

static void on_found(struct turn *turn);
static void on_dealt(struct turn *turn);

static void find_none(struct voice *voice)
{
	if (voice->code.size && voice->words.size) {
		/* A resolved id may be anything that the skill's maker thought of. */
		voice->code = (struct text){0};
		turn_search(&voice->turn, voice->words, MATCHES_MAX, on_found);
	} else if (voice->question != VOICE_ASKED_NOTHING) {
		ask_again(voice, sentence(voice, PHRASE_NOTHING_LIKE_IT, NULL));
	} else {
		say_phrase(voice, PHRASE_NOT_FOUND, NULL, PHRASE_SPOKEN_WELCOME);
	}
}

/* What was asked about is found again: by its code, or by words that are all its own, it is the answer. A search forgives
 * much, a sale must not hang on that. */
static void answer_with(struct voice *voice, const struct product *product)
{
	if (voice->code.size || hearing_names(voice->words, spoken_title(voice, product))) {
		voice->product = *product;
		voice->press = voice->yes;
		deal_run(&voice->turn, &voice->press, &voice->product, voice->caller, on_dealt);
	} else {
		ask_again(voice, TEXT(""));
	}
}

static void on_found(struct turn *turn)
{
	struct voice *voice = (struct voice *)turn;
	if (turn->error) {
		fail(voice);
		return;
	}
	if (!turn->product_count) {
		find_none(voice);
		return;
	}
	if (voice->wants_it && turn->products[0].id == voice->yes.product_id) {
		answer_with(voice, &turn->products[0]);
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
	voice->yes = (struct press){.action = PRESS_CHECK, .product_id = turn->products[0].id};
	voice->no = (struct press){.action = PRESS_CHECK, .product_id = turn->products[1].id};
	ask_which(voice, title, other);
}

/* --- holding and buying ------------------------------------------------------------------------------------------- */

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
	if (turn->error) {
		fail(voice);
		return;
	}
	if (!turn->product_count) {
		say_phrase(voice, PHRASE_NOT_FOUND, NULL, PHRASE_SPOKEN_WELCOME);
		return;
	}
	voice->product = turn->products[0];
	if (voice->press.action == PRESS_CHECK)
		tell(voice, &voice->product);
	else
		deal_run(turn, &voice->press, &voice->product, voice->caller, on_dealt);
}

static void press(struct voice *voice, const struct press *press)
{
	voice->press = *press;
	deal_find(&voice->turn, &voice->press, on_product);
}

static bool asks_yes_or_no(const struct voice *voice)
{
	return voice->question == VOICE_ASKED_HOLD || voice->question == VOICE_ASKED_BUY;
}

void voice_agree(struct voice *voice)
{
	if (asks_yes_or_no(voice))
		press(voice, &voice->yes);
	else if (voice->question == VOICE_ASKED_WHICH)
		voice_repeat(voice); /* yes to one of two: to which? */
	else
		say(voice, TEXT(""), PHRASE_ASK_ELSE);
}

void voice_refuse(struct voice *voice)
{
	if (voice->question == VOICE_ASKED_BUY)
		press(voice, &voice->no);
	else
		say(voice, TEXT(""), PHRASE_ASK_ELSE);
}

/* --- hearing ------------------------------------------------------------------------------------------------------ */

void voice_look_for(struct voice *voice, struct text code, struct text words)
{
	enum hearing heard = hearing_of(voice->language, words);
	voice->code = code;
	voice->words = words;
	if (code.size)
		turn_find_code(&voice->turn, code, on_found);
	else if (voice->question == VOICE_ASKED_WHICH && heard == HEARING_FIRST)
		press(voice, &voice->yes);
	else if (voice->question == VOICE_ASKED_WHICH && heard == HEARING_SECOND)
		press(voice, &voice->no);
	else
		turn_search(&voice->turn, words, MATCHES_MAX, on_found);
}

void voice_want(struct voice *voice, struct text code, struct text words)
{
	voice->wants_it = asks_yes_or_no(voice);
	voice_look_for(voice, code, words);
}

void voice_hear(struct voice *voice, struct text said)
{
	enum hearing heard = hearing_of(voice->language, said);
	if (voice->question == VOICE_ASKED_NOTHING || heard == HEARING_WORDS)
		voice_look_for(voice, (struct text){0}, said);
	else if (heard == HEARING_YES || (heard == HEARING_HOLD && voice->question == VOICE_ASKED_HOLD))
		voice_agree(voice);
	else if (heard == HEARING_NO)
		voice_refuse(voice);
	else if (asks_yes_or_no(voice))
		voice_repeat(voice); /* more than a yes, or a number where nothing was counted */
	else
		voice_look_for(voice, (struct text){0}, said);
}

void voice_key(struct voice *voice, struct text digits)
{
	bool first = text_equal(digits, TEXT("1")), second = text_equal(digits, TEXT("2"));
	if (asks_yes_or_no(voice) && (first || second))
		(first ? voice_agree : voice_refuse)(voice);
	else
		voice_hear(voice, digits);
}
