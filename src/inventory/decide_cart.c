/* Carts: CHECKOUT sells, RESERVE holds; both may take the place of an older hold in the same step.
 *
 * Happy path: the old hold, if any, is active; every SKU is known; each row is made to yield what its line asks (due
 * holds expire for it); only then the old hold is released and the cart's own entries follow.
 * Failure modes: an old hold that does not fit its rows, from the start or after that, is damaged data and fails the cart
 * (LU_INTERNAL). A refusal names every failing line and leaves nothing: the old hold stands, no row has moved. What
 * expired on the way stays expired, for that was due anyhow.
 */
#include "base/arena.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/text.h"
#include "inventory/decide_internal.h"

struct cart_line {
	struct row *row;
	int64_t own; /* units of the old hold that this line may take over */
};

static enum lu_error cart_check(const struct operation *op)
{
	if (op->line_count == 0)
		return LU_INVALID_LINES;
	for (size_t i = 0; i < op->line_count; i++)
		if (op->lines[i].quantity < 1 || op->lines[i].quantity > LU_QUANTITY_MAX)
			return LU_INVALID_QUANTITY;
	if (op->kind == OPERATION_RESERVE && (op->ttl_s < 0 || op->ttl_s > LU_TTL_SECONDS_MAX))
		return LU_INVALID_TTL;
	return LU_OK;
}

/* The hold that the cart releases or replaces must be alive, and all its rows locked. */
static enum lu_error old_hold(struct run *run, const struct operation *op, struct hold **ret_hold)
{
	struct hold *hold = hold_visible(run, op, &op->other);
	if (!hold)
		return LU_UNKNOWN_RESERVATION;
	switch (hold->reservation.state) {
	case RESERVATION_COMMITTED:
	case RESERVATION_RELEASED:
		return LU_RESERVATION_NOT_ACTIVE;
	case RESERVATION_EXPIRED:
		return LU_RESERVATION_EXPIRED;
	case RESERVATION_ACTIVE:
		break;
	}
	enum hold_check check = hold_check(run, hold, false);
	if (hold_due(run, hold)) {
		if (check == HOLD_READY)
			hold_expire(run, hold);
		return LU_RESERVATION_EXPIRED;
	}
	if (check == HOLD_BROKEN)
		return LU_INTERNAL;
	if (check == HOLD_UNLOCKED)
		for (size_t i = 0; i < hold->reservation.line_count; i++)
			if (hold->reservation.lines[i].counted && !row_find(run, hold->reservation.lines[i].sku))
				lock_needed(run, hold->reservation.lines[i].sku);
	*ret_hold = hold;
	return LU_OK;
}

/* What the asker leaves alone of the line's SKU. */
static int64_t line_floor(const struct operation *op, const struct cart_line *cart_line)
{
	return principal_floor(&op->principal, &cart_line->row->sku.figures);
}

/* Units of the old hold were granted when it was made: no buffer, and no safety stock raised since, takes them back. */
static bool cart_line_short(const struct operation *op, const struct cart_line *cart_line, const struct line *line)
{
	return cart_line->row->sku.figures.tracked && line->quantity > cart_line->own &&
	       row_free(cart_line->row, line_floor(op, cart_line), cart_line->own) < line->quantity;
}

/* Finds the rows; false after refusing because one is missing. */
static bool cart_rows(struct run *run, struct operation *op, const struct hold *old, struct cart_line *cart)
{
	for (size_t i = 0; i < op->line_count; i++) {
		cart[i].row = row_find(run, op->lines[i].sku);
		if (!cart[i].row)
			shortage_add(op, op->lines[i].sku, op->lines[i].quantity);
		else if (old)
			cart[i].own = hold_units(old, op->lines[i].sku);
	}
	if (op->verdict.shortage_count)
		refuse(op, LU_UNKNOWN_SKU);
	return op->verdict.shortage_count == 0;
}

/* Expires what it must; false after refusing because units are missing all the same, with no due hold left (I11). */
static bool cart_secure(struct run *run, struct operation *op, struct cart_line *cart)
{
	for (size_t i = 0; i < op->line_count; i++)
		if (cart_line_short(op, &cart[i], &op->lines[i]))
			row_secure(run, cart[i].row, op->lines[i].quantity, line_floor(op, &cart[i]), cart[i].own);
	for (size_t i = 0; i < op->line_count; i++)
		if (cart_line_short(op, &cart[i], &op->lines[i]))
			shortage_figures(shortage_add(op, op->lines[i].sku, op->lines[i].quantity), cart[i].row,
			                 line_floor(op, &cart[i]), cart[i].own);
	if (op->verdict.shortage_count) {
		refuse(op, LU_INSUFFICIENT_STOCK);
		return false;
	}
	/* One entry for the line, one for the old hold's. */
	for (size_t i = 0; i < op->line_count; i++)
		if (!row_can_move(cart[i].row, 0, 0, 2))
			beyond_add(op, op->lines[i].sku, op->lines[i].quantity, cart[i].row, op->line_count);
	if (op->verdict.shortage_count)
		refuse(op, LU_COUNT_OUT_OF_RANGE);
	return op->verdict.shortage_count == 0;
}

/* Moves the rows; the cart's lines as the new object remembers them. */
static struct line *cart_move(struct run *run, struct operation *op, const struct cart_line *cart)
{
	struct author author = operation_author(op, op->reference, op->new_id);
	struct line *lines = ARENA_ARRAY(op->arena, op->line_count, struct line);
	for (size_t i = 0; i < op->line_count; i++) {
		struct row *row = cart[i].row;
		int64_t quantity = op->lines[i].quantity;
		lines[i] = (struct line){.sku = op->lines[i].sku,
		                         .quantity = quantity,
		                         .sku_id = row->sku.id,
		                         .counted = row->sku.figures.tracked};
		if (!lines[i].counted)
			continue;
		lines[i].version = op->kind == OPERATION_CHECKOUT ? row_move(run, row, LEDGER_SALE, -quantity, 0, &author)
		                                                  : row_move(run, row, LEDGER_RESERVE, 0, quantity, &author);
	}
	return lines;
}

static void cart_sell(struct run *run, struct operation *op, struct line *lines)
{
	struct checkout *checkout = ARENA_NEW(op->arena, struct checkout);
	*checkout = (struct checkout){
		.id = op->new_id,
		.principal_id = op->principal.id,
		.channel = op->principal.channel,
		.reference = op->reference,
		.created_us = run->input->now_us,
		.lines = lines,
		.line_count = op->line_count,
	};
	run->new_checkouts[run->new_checkout_count++] = checkout;
	op->verdict.checkout = checkout;
}

static void cart_hold(struct run *run, struct operation *op, struct line *lines, const struct cart_line *cart,
                      const struct hold *old)
{
	int64_t ttl_s = op->ttl_s ? op->ttl_s : channel_ttl_s(op->principal.channel);
	struct reservation *reservation = ARENA_NEW(op->arena, struct reservation);
	*reservation = (struct reservation){
		.id = op->new_id,
		.principal_id = op->principal.id,
		.channel = op->principal.channel,
		.state = RESERVATION_ACTIVE,
		.reference = op->reference,
		.caller = op->caller,
		.created_us = run->input->now_us,
		.expires_us = run->input->now_us + ttl_s * US_PER_S,
		.lines = lines,
		.line_count = op->line_count,
	};
	/* The carts behind this one in the batch are told when its units may come back. */
	for (size_t i = 0; i < op->line_count; i++) {
		int64_t *next_us = &cart[i].row->sku.next_release_us;
		if (lines[i].counted && (*next_us == 0 || reservation->expires_us < *next_us))
			*next_us = reservation->expires_us;
	}
	run->new_reservations[run->new_reservation_count++] = reservation;
	op->verdict.reservation = reservation;
	caps_count(run, op, old);
}

void decide_cart(struct run *run, struct operation *op)
{
	struct hold *old = NULL;
	enum lu_error error = cart_check(op);
	if (!error && !uuid_is_nil(&op->other))
		error = old_hold(run, op, &old);
	if (error) {
		refuse(op, error);
		return;
	}
	struct cart_line *cart = ARENA_ARRAY(run->arena, op->line_count, struct cart_line);
	if (!cart_rows(run, op, old, cart) || (op->kind == OPERATION_RESERVE && !caps_allow(run, op, old)) ||
	    !cart_secure(run, op, cart))
		return;
	/* Due holds that expired on the way may have left it too few units, if the row had counted too few. */
	if (old && hold_check(run, old, false) == HOLD_BROKEN) {
		refuse(op, LU_INTERNAL);
		return;
	}
	if (old) {
		struct author author = operation_author(op, old->reservation.reference, old->reservation.id);
		hold_end(run, old, RESERVATION_RELEASED, &author, NULL);
	}
	op->verdict.object_id = op->new_id;
	struct line *lines = cart_move(run, op, cart);
	if (op->kind == OPERATION_CHECKOUT)
		cart_sell(run, op, lines);
	else
		cart_hold(run, op, lines, cart, old);
}
