/* What changes the count other than a cart: CANCEL, ADJUST, SKU_PUT; and REFRESH, which changes nothing.
 *
 * Happy path: every line is checked first, then all move.
 * Failure modes: one failing line refuses the whole operation and is named, with every other that fails the same way.
 * A correction never goes below what is held, but due holds make room for it like for a cart.
 */
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "inventory/decide_internal.h"
#include "inventory/verdict.h"

/* --- CANCEL ------------------------------------------------------------------------------------------------------- */

static struct line *line_find(struct line *lines, size_t count, struct text sku)
{
	size_t low = 0, high = count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = text_compare(lines[middle].sku, sku);
		if (order == 0)
			return &lines[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

static int64_t left_of(const struct line *line)
{
	return line->quantity - line->cancelled;
}

/* How much of each line of the checkout comes back. */
static bool cancel_quantities(struct operation *op, const struct checkout *checkout, int64_t *quantities)
{
	if (op->line_count == 0)
		for (size_t i = 0; i < checkout->line_count; i++)
			quantities[i] = left_of(&checkout->lines[i]);
	for (size_t i = 0; i < op->line_count; i++) {
		const struct line *line = line_find(checkout->lines, checkout->line_count, op->lines[i].sku);
		int64_t left = line ? left_of(line) : 0;
		if (op->lines[i].quantity < 1) {
			refuse(op, LU_INVALID_QUANTITY);
			return false;
		}
		if (op->lines[i].quantity > left)
			shortage_add(op, op->lines[i].sku, op->lines[i].quantity)->available = left;
		else
			quantities[line - checkout->lines] = op->lines[i].quantity;
	}
	if (op->verdict.shortage_count)
		refuse(op, LU_EXCEEDS_SOLD);
	return op->verdict.shortage_count == 0;
}

/* The rows that take units back must be locked and have room. */
static bool cancel_fits(struct run *run, struct operation *op, const struct checkout *checkout,
                        const int64_t *quantities)
{
	bool locked = true;
	for (size_t i = 0; i < checkout->line_count; i++) {
		const struct line *line = &checkout->lines[i];
		if (!line->counted || !quantities[i])
			continue;
		const struct row *row = row_find(run, line->sku);
		if (!row) {
			lock_needed(run, line->sku);
			locked = false;
		} else if (!row_can_move(row, quantities[i], 0, 1)) {
			beyond_add(op, line->sku, quantities[i], row, checkout->line_count);
		}
	}
	if (op->verdict.shortage_count)
		refuse(op, LU_COUNT_OUT_OF_RANGE);
	return locked && !op->verdict.shortage_count;
}

void decide_cancel(struct run *run, struct operation *op)
{
	struct sale *sale = sale_find(run, &op->target);
	op->verdict.object_id = op->target;
	if (!sale || (sale->checkout->principal_id != op->principal.id && !(op->principal.scopes & SCOPE_ORDERS))) {
		refuse(op, LU_UNKNOWN_CHECKOUT);
		return;
	}
	if (!sale->checkout->line_count) { /* damaged */
		refuse(op, LU_INTERNAL);
		return;
	}
	int64_t *quantities = ARENA_ARRAY(run->arena, sale->checkout->line_count, int64_t);
	if (!cancel_quantities(op, sale->checkout, quantities) || !cancel_fits(run, op, sale->checkout, quantities))
		return;
	struct checkout *checkout = verdict_checkout(run->arena, sale->checkout);
	struct author author = operation_author(op, checkout->reference, checkout->id);
	bool any = false;
	for (size_t i = 0; i < checkout->line_count; i++) {
		if (!quantities[i])
			continue;
		any = true;
		checkout->lines[i].cancelled += quantities[i];
		if (checkout->lines[i].counted)
			row_move(run, row_find(run, checkout->lines[i].sku), LEDGER_CANCEL, quantities[i], 0, &author);
	}
	if (any) {
		sale->checkout = checkout;
		sale->changed = true;
	}
	op->verdict.checkout = verdict_checkout(op->arena, checkout);
}

/* --- ADJUST ------------------------------------------------------------------------------------------------------- */

/* By how much the line moves on_hand; false if that is beyond counting. */
static bool adjust_delta(const struct line *line, const struct figures *f, int64_t *ret_delta)
{
	int64_t on_hand;
	if (!line->set) {
		*ret_delta = line->quantity;
		return line->quantity >= -LU_COUNT_MAX && line->quantity <= LU_COUNT_MAX &&
		       !__builtin_add_overflow(f->on_hand, line->quantity, &on_hand) && on_hand <= LU_COUNT_MAX;
	}
	if (line->quantity < 0 || line->quantity > LU_COUNT_MAX)
		return false;
	*ret_delta = line->quantity - f->on_hand;
	return true;
}

static struct sku_figures figures_shown(const struct operation *op, struct text sku, const struct figures *figures)
{
	return (struct sku_figures){sku, *figures, figures_available(figures, &op->principal)};
}

/* What is wrong with one line; in order of precedence, for one answer names one error. */
enum adjust_fault { ADJUST_FINE, ADJUST_SHORT, ADJUST_BEYOND, ADJUST_MISMATCH, ADJUST_UNKNOWN };

static enum adjust_fault adjust_fault(struct run *run, const struct line *line, struct row *row)
{
	if (!row)
		return ADJUST_UNKNOWN;
	const struct figures *f = &row->sku.figures;
	if (line->set && line->change_from_given && line->change_from != f->on_hand)
		return ADJUST_MISMATCH;
	int64_t delta;
	if (!adjust_delta(line, f, &delta) || !row_can_move(row, 0, 0, 1))
		return ADJUST_BEYOND;
	if (delta < 0 && row_free(row, 0, 0) < -delta)
		row_secure(run, row, -delta, 0, 0);
	return delta < 0 && row_free(row, 0, 0) < -delta ? ADJUST_SHORT : ADJUST_FINE;
}

static void adjust_name(struct operation *op, const struct line *line, const struct row *row, enum adjust_fault fault)
{
	int64_t requested = line->quantity;
	if (fault == ADJUST_MISMATCH)
		requested = line->change_from;
	else if (fault == ADJUST_SHORT)
		requested = line->set ? row->sku.figures.on_hand - line->quantity : -line->quantity;
	struct shortage *shortage = shortage_add(op, line->sku, requested);
	if (!row)
		return;
	shortage_figures(shortage, row, 0, 0);
	if (fault == ADJUST_SHORT) {
		shortage->available = row_free(row, 0, 0);
		return;
	}
	shortage->available = row->sku.figures.on_hand;
	shortage->next_release_us = 0; /* waiting would not help, and nobody may have looked it up */
}

/* True if every line may move. */
static bool adjust_allowed(struct run *run, struct operation *op, struct row *const *rows)
{
	static const enum lu_error errors[] = {
		[ADJUST_SHORT] = LU_INSUFFICIENT_STOCK,
		[ADJUST_BEYOND] = LU_COUNT_OUT_OF_RANGE,
		[ADJUST_MISMATCH] = LU_CHANGE_FROM_MISMATCH,
		[ADJUST_UNKNOWN] = LU_UNKNOWN_SKU,
	};
	enum adjust_fault *faults = ARENA_ARRAY(run->arena, op->line_count, enum adjust_fault);
	enum adjust_fault worst = ADJUST_FINE;
	for (size_t i = 0; i < op->line_count; i++) {
		faults[i] = adjust_fault(run, &op->lines[i], rows[i]);
		worst = faults[i] > worst ? faults[i] : worst;
	}
	if (worst == ADJUST_FINE)
		return true;
	for (size_t i = 0; i < op->line_count; i++)
		if (faults[i] == worst)
			adjust_name(op, &op->lines[i], rows[i], worst);
	refuse(op, errors[worst]);
	return false;
}

void decide_adjust(struct run *run, struct operation *op)
{
	if (op->line_count == 0) {
		refuse(op, LU_INVALID_LINES);
		return;
	}
	struct row **rows = ARENA_ARRAY(run->arena, op->line_count, struct row *);
	for (size_t i = 0; i < op->line_count; i++)
		rows[i] = row_find(run, op->lines[i].sku);
	if (!adjust_allowed(run, op, rows))
		return;
	/* What the entry refers to: the caller's own number for it, or else why it was made. */
	struct text reference = op->reference.data ? op->reference : op->reason;
	struct author author = operation_author(op, reference, op->new_id);
	op->verdict.object_id = op->new_id;
	op->verdict.figures = ARENA_ARRAY(op->arena, op->line_count, struct sku_figures);
	for (size_t i = 0; i < op->line_count; i++) {
		int64_t delta;
		CHECK(adjust_delta(&op->lines[i], &rows[i]->sku.figures, &delta));
		if (delta)
			row_move(run, rows[i], op->lines[i].set ? LEDGER_SET : LEDGER_ADJUST, delta, 0, &author);
		op->verdict.figures[op->verdict.figures_count++] = figures_shown(op, op->lines[i].sku, &rows[i]->sku.figures);
	}
}

/* --- SKU_PUT, REFRESH --------------------------------------------------------------------------------------------- */

/* Where it is among the SKUs that this batch creates, or where it would go. */
static size_t insert_place(const struct run *run, struct text sku)
{
	size_t low = 0, high = run->insert_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (text_compare(run->inserts[middle].operation->lines[0].sku, sku) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void show_figures(struct operation *op, const struct figures *figures)
{
	op->verdict.figures = ARENA_NEW(op->arena, struct sku_figures);
	op->verdict.figures[0] = figures_shown(op, op->lines[0].sku, figures);
	op->verdict.figures_count = 1;
}

static bool settings_differ(const struct sku_change *change, const struct figures *f)
{
	return (change->safety_stock_given && change->safety_stock != f->safety_stock) ||
	       (change->tracked_given && change->tracked != f->tracked);
}

/* A SKU that an operation before this one creates. It has no id to write an entry or a title under yet; the queue never
 * lends both at once, and should it happen all the same, the later one is to come again. */
static void put_again(struct operation *op, const struct figures *f)
{
	const struct sku_change *change = op->sku_change;
	if (change->on_hand_given)
		refuse(op, LU_SKU_EXISTS);
	else if (settings_differ(change, f) || change->titles_given || change->names_given)
		refuse(op, LU_OVERLOADED);
	else
		show_figures(op, f);
}

static void put_new(struct run *run, struct operation *op)
{
	const struct sku_change *change = op->sku_change;
	size_t place = insert_place(run, op->lines[0].sku);
	if (place < run->insert_count && text_equal(run->inserts[place].operation->lines[0].sku, op->lines[0].sku)) {
		put_again(op, &run->inserts[place].figures);
		return;
	}
	struct figures figures = {
		.version = 1,
		.on_hand = change->on_hand_given ? change->on_hand : 0,
		.safety_stock = change->safety_stock_given ? change->safety_stock : 0,
		.tracked = change->tracked_given ? change->tracked : true,
	};
	if (!run->inserts)
		run->inserts = ARENA_ARRAY(run->arena, run->input->operation_count, struct sku_insert);
	memmove(&run->inserts[place + 1], &run->inserts[place], (run->insert_count - place) * sizeof *run->inserts);
	run->inserts[place] = (struct sku_insert){op, figures};
	run->insert_count++;
	op->verdict.created = true;
	show_figures(op, &figures);
}

static void put_known(struct run *run, struct operation *op, struct row *row)
{
	const struct sku_change *change = op->sku_change;
	struct figures *f = &row->sku.figures;
	if (change->on_hand_given) {
		refuse(op, LU_SKU_EXISTS);
		return;
	}
	if (settings_differ(change, f)) {
		if (!row_can_move(row, 0, 0, 1)) {
			refuse(op, LU_COUNT_OUT_OF_RANGE);
			return;
		}
		if (change->safety_stock_given)
			f->safety_stock = change->safety_stock;
		if (change->tracked_given)
			f->tracked = change->tracked;
		struct author author = operation_author(op, op->reference, op->new_id);
		row_move(run, row, LEDGER_SETTINGS, 0, 0, &author);
	}
	if (change->titles_given || change->names_given) {
		if (!run->describes) {
			run->describes = ARENA_ARRAY(run->arena, run->input->operation_count, struct operation *);
			run->describe_ids = ARENA_ARRAY(run->arena, run->input->operation_count, int64_t);
		}
		run->describes[run->describe_count] = op;
		run->describe_ids[run->describe_count++] = row->sku.id;
	}
	show_figures(op, f);
}

static bool count_in_range(bool given, int64_t count)
{
	return !given || (count >= 0 && count <= LU_COUNT_MAX);
}

void decide_sku_put(struct run *run, struct operation *op)
{
	CHECK(op->line_count == 1 && op->sku_change);
	const struct sku_change *change = op->sku_change;
	if (!count_in_range(change->on_hand_given, change->on_hand) ||
	    !count_in_range(change->safety_stock_given, change->safety_stock)) {
		refuse(op, LU_COUNT_OUT_OF_RANGE);
		return;
	}
	struct row *row = row_find(run, op->lines[0].sku);
	if (row)
		put_known(run, op, row);
	else
		put_new(run, op);
}

void decide_refresh(struct run *run, struct operation *op)
{
	CHECK(op->line_count == 1);
	struct row *row = row_find(run, op->lines[0].sku);
	if (row)
		row->refresh = true;
	else
		refuse(op, LU_UNKNOWN_SKU);
}
