/* Deals. Happy path: offer → hold → its end. Failure modes: every refusal of the inventory has its phrase. */
#include "channels/deal.h"

#include "base/check.h"
#include "base/text.h"
#include "http/auth.h"

#define US_PER_MINUTE 60000000

void deal_find(struct turn *turn, const struct press *press, void (*on_done)(struct turn *turn))
{
	if (press->action == PRESS_CHECK)
		turn_find(turn, press->product_id, on_done);
	else
		turn_name(turn, press->product_id, on_done);
}

static void hold(struct turn *turn, const struct press *press, const struct product *product, struct text caller,
                 void (*on_done)(struct turn *turn))
{
	const uint8_t *secret = inventory_secret(loop_of(turn->request)->inventory);
	if (!offer_verify(secret, request_principal(turn->request)->id, text_of(press->offer))) {
		turn->error = LU_UNKNOWN_RESERVATION;
		on_done(turn);
		return;
	}
	struct operation *operation = turn_operation(turn, OPERATION_RESERVE);
	operation->caller = caller;
	operation->lines = ARENA_NEW(turn->arena, struct line);
	operation->lines[0] = (struct line){.sku = product->code, .quantity = 1};
	operation->line_count = 1;
	turn_operate(turn, arena_printf(turn->arena, "offer:%s", press->offer), on_done);
}

void deal_run(struct turn *turn, const struct press *press, const struct product *product, struct text caller,
              void (*on_done)(struct turn *turn))
{
	CHECK(press->action != PRESS_CHECK);
	if (press->action == PRESS_HOLD) {
		hold(turn, press, product, caller, on_done);
		return;
	}
	/* A hold ends once, whoever asks how often: no key is needed. */
	struct operation *operation = turn_operation(turn,
	                                             press->action == PRESS_BUY ? OPERATION_COMMIT : OPERATION_RELEASE);
	operation->target = press->hold;
	operation->caller = caller;
	turn_operate(turn, (struct text){0}, on_done);
}

static enum phrase shortage_phrase(const struct verdict *verdict, struct phrase_words *words)
{
	if (!verdict->shortage_count)
		return PHRASE_SOLD_OUT;
	const struct shortage *shortage = verdict->shortages;
	words->pieces = shortage->available;
	words->time_us = shortage->next_release_us;
	return words->pieces     ? PHRASE_TOO_FEW
	       : !shortage->held ? PHRASE_SOLD_OUT
	       : words->time_us  ? PHRASE_HELD_BY_OTHERS
	                         : PHRASE_HELD_BY_OTHERS_NOW;
}

/* A hold that somebody ended before. */
static enum phrase end_phrase(const struct verdict *verdict, enum press_action action)
{
	bool bought = action == PRESS_HOLD ? verdict->reservation->state == RESERVATION_COMMITTED : action == PRESS_RELEASE;
	return bought ? PHRASE_HOLD_BOUGHT : PHRASE_HOLD_RELEASED;
}

/* What a release came to: a hold that it found ended it did not release. */
static enum phrase release_phrase(const struct verdict *verdict)
{
	const struct reservation *reservation = verdict->reservation;
	if (reservation->state == RESERVATION_EXPIRED)
		return PHRASE_HOLD_ENDED;
	return reservation->ended_us < verdict->at_us ? PHRASE_HOLD_RELEASED : PHRASE_RELEASED;
}

static enum phrase refusal_phrase(const struct turn *turn, enum press_action action, struct phrase_words *words)
{
	switch (turn->error) {
	case LU_INSUFFICIENT_STOCK:
	case LU_UNKNOWN_SKU:
		return shortage_phrase(&turn->call.operation.verdict, words);
	case LU_RESERVATION_EXPIRED:
		return PHRASE_HOLD_ENDED;
	case LU_RESERVATION_NOT_ACTIVE:
		return end_phrase(&turn->call.operation.verdict, action);
	case LU_UNKNOWN_RESERVATION:
		return PHRASE_HOLD_UNKNOWN;
	case LU_FORBIDDEN:
		return PHRASE_HELD_FOR_ANOTHER;
	case LU_TOO_MANY_HOLDS:
		return PHRASE_TOO_MANY_HOLDS;
	default:
		return PHRASE_TRY_AGAIN;
	}
}

/* To the nearest, so that a press that is sent again at once is told the same; never "0 minutes" of what still lives. */
static int64_t minutes_left(const struct verdict *verdict)
{
	int64_t left_us = verdict->reservation->expires_us - verdict->at_us;
	int64_t minutes = (left_us + US_PER_MINUTE / 2) / US_PER_MINUTE;
	return minutes > 0 ? minutes : 1;
}

enum phrase deal_phrase(const struct turn *turn, enum press_action action, struct phrase_words *words)
{
	const struct verdict *verdict = &turn->call.operation.verdict;
	if (turn->error)
		return refusal_phrase(turn, action, words);
	switch (action) {
	case PRESS_HOLD:
		words->pieces = verdict->reservation->lines[0].quantity;
		words->minutes = minutes_left(verdict);
		words->time_us = verdict->reservation->expires_us;
		return PHRASE_HELD_FOR_YOU;
	case PRESS_BUY:
		if (!verdict->checkout->line_count)
			return PHRASE_TRY_AGAIN; /* its lines are damaged (store/lines.c): nobody can say what was bought */
		words->pieces = verdict->checkout->lines[0].quantity;
		return PHRASE_BOUGHT;
	default:
		return release_phrase(verdict);
	}
}

struct press deal_end(const struct turn *turn, enum press_action action, const struct product *product)
{
	return (struct press){.action = action, .hold = turn->call.operation.verdict.object_id, .product_id = product->id};
}
