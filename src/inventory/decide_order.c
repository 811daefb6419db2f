/* Orders of a marketplace: ORDER_PUT makes what a number of a principal has sold what its highest version says.
 *
 *   none ──▶ lines ◀──▶ other lines ◀──▶ no line (cancelled: a tombstone)       only a higher version moves it
 *
 * Happy path: the version is higher than any before. The lines are laid beside those of the version that stands: what is
 * more is sold, what is less comes back, all of it or nothing. Whatever order versions come in, the highest ends up on the
 * books, and a cancellation that overtakes its order leaves a tombstone that the order cannot undo.
 * Failure modes: an older version changes nothing and is shown what stands. The version that stands, sent again, is shown
 * too; with other lines it is a conflict. A refused version leaves no trace: it may come again with fewer lines.
 *
 * A line remembers how many of its units moved figures: those that were sold while the SKU was tracked. Others leave
 * first, so that what was counted comes back to the count exactly once.
 */
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "inventory/decide_internal.h"
#include "inventory/verdict.h"

/* What becomes of one SKU: in the version that stands, in the new one, or in both. */
struct step {
	struct text sku;
	struct row *row; /* NULL: it is not locked, or not known */
	int64_t sku_id;
	int64_t before, after; /* units */
	int64_t counted;       /* of those before; then of those after */
	int64_t sold, back;    /* units that move figures */
};

static struct numbered *numbered_find(struct run *run, const struct operation *op)
{
	for (size_t i = 0; i < run->order_count; i++)
		if (run->orders[i].principal_id == op->principal.id && text_equal(run->orders[i].number, op->number))
			return &run->orders[i];
	struct numbered *numbered = &run->orders[run->order_count++];
	*numbered = (struct numbered){.principal_id = op->principal.id, .number = op->number};
	for (size_t i = 0; i < run->input->order_count; i++) {
		const struct order *order = run->input->orders[i];
		if (order->principal_id == op->principal.id && text_equal(order->number, op->number)) {
			numbered->order = order;
			numbered->stored = true;
		}
	}
	return numbered;
}

static void show(struct operation *op, const struct order *order)
{
	op->verdict.object_id = order->id;
	op->verdict.order = verdict_order(op->arena, order);
}

static bool same_lines(const struct operation *op, const struct order *order)
{
	if (op->line_count != order->line_count)
		return false;
	for (size_t i = 0; i < op->line_count; i++)
		if (op->lines[i].quantity != order->lines[i].quantity || !text_equal(op->lines[i].sku, order->lines[i].sku))
			return false;
	return true;
}

/* Both lists stand in code order: one walk. */
static size_t steps_of(struct run *run, const struct operation *op, const struct order *order, struct step *steps)
{
	size_t count = 0, old_count = order ? order->line_count : 0;
	for (size_t i = 0, j = 0; i < op->line_count || j < old_count; count++) {
		int side = i == op->line_count ? 1 : j == old_count ? -1 : text_compare(op->lines[i].sku, order->lines[j].sku);
		struct step *step = &steps[count];
		*step = (struct step){.sku = side <= 0 ? op->lines[i].sku : order->lines[j].sku};
		if (side <= 0)
			step->after = op->lines[i++].quantity;
		if (side >= 0) {
			step->before = order->lines[j].quantity;
			step->counted = order->lines[j].counted;
			step->sku_id = order->lines[j++].sku_id;
		}
		step->row = row_find(run, step->sku);
		if (step->row)
			step->sku_id = step->row->sku.id;
	}
	return count;
}

/* Every SKU of the new version must be known, and every row that a unit comes back to must be locked. */
static bool rows_there(struct run *run, struct operation *op, const struct step *steps, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (steps[i].row)
			continue;
		if (steps[i].after)
			shortage_add(op, steps[i].sku, steps[i].after);
		else if (steps[i].counted)
			lock_needed(run, steps[i].sku);
	}
	if (op->verdict.shortage_count)
		refuse(op, LU_UNKNOWN_SKU);
	return op->verdict.shortage_count == 0;
}

static bool step_short(const struct operation *op, const struct step *step)
{
	const struct row *row = step->row;
	return step->sold && row_free(row, principal_floor(&op->principal, &row->sku.figures), 0) < step->sold;
}

/* How many units move each row; false after refusing because some cannot. */
static bool steps_settle(struct run *run, struct operation *op, struct step *steps, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct step *step = &steps[i];
		if (step->after >= step->before) {
			if (step->row && step->row->sku.figures.tracked)
				step->sold = step->after - step->before;
		} else if (step->counted > step->after) {
			step->back = step->counted - step->after;
		}
		step->counted += step->sold - step->back;
		if (step->sold && step_short(op, step))
			row_secure(run, step->row, step->sold, principal_floor(&op->principal, &step->row->sku.figures), 0);
	}
	for (size_t i = 0; i < count; i++) {
		struct step *step = &steps[i];
		if (!step_short(op, step))
			continue;
		struct shortage *shortage = shortage_add(op, step->sku, step->after);
		shortage_figures(shortage, step->row, principal_floor(&op->principal, &step->row->sku.figures), 0);
		shortage->available += step->before; /* of this order: what it has, and what it may still have */
	}
	if (op->verdict.shortage_count) {
		refuse(op, LU_INSUFFICIENT_STOCK);
		return false;
	}
	for (size_t i = 0; i < count; i++)
		if (steps[i].row && !row_can_move(steps[i].row, steps[i].back, 0, 1))
			beyond_add(op, steps[i].sku, steps[i].back ? steps[i].back : steps[i].after, steps[i].row, count);
	if (op->verdict.shortage_count)
		refuse(op, LU_COUNT_OUT_OF_RANGE);
	return op->verdict.shortage_count == 0;
}

/* The order as this version makes it; its rows move. */
static struct order *steps_take(struct run *run, struct operation *op, const struct order *old, struct step *steps,
                                size_t count)
{
	struct order *order = ARENA_NEW(run->arena, struct order);
	*order = (struct order){
		.id = old ? old->id : op->new_id,
		.principal_id = op->principal.id,
		.number = op->number,
		.version = op->order_version,
		.channel = op->principal.channel,
		.created_us = old ? old->created_us : run->input->now_us,
		.changed_us = run->input->now_us,
		.lines = ARENA_ARRAY(run->arena, op->line_count, struct order_line),
	};
	struct author author = operation_author(op, op->number, order->id);
	for (size_t i = 0; i < count; i++) {
		const struct step *step = &steps[i];
		CHECK(step->row || run->needs_more || (!step->sold && !step->back));
		if (step->row && step->sold)
			row_move(run, step->row, LEDGER_SALE, -step->sold, 0, &author);
		if (step->row && step->back)
			row_move(run, step->row, LEDGER_CANCEL, step->back, 0, &author);
		if (step->after)
			order->lines[order->line_count++] = (struct order_line){step->sku, step->sku_id, step->after,
			                                                        step->counted};
	}
	return order;
}

void decide_order_put(struct run *run, struct operation *op)
{
	struct numbered *numbered = numbered_find(run, op);
	const struct order *old = numbered->order;
	if (!op->number.size || op->order_version < 0 || op->order_version > LU_ORDER_VERSION_MAX) {
		refuse(op, LU_INVALID_FIELD);
		return;
	}
	if (old && op->order_version <= old->version) {
		if (op->order_version == old->version && !same_lines(op, old)) {
			op->verdict.object_id = old->id;
			refuse(op, LU_ORDER_VERSION_CONFLICT);
		} else {
			show(op, old);
		}
		return;
	}
	struct step *steps = ARENA_ARRAY(run->arena, op->line_count + (old ? old->line_count : 0), struct step);
	size_t count = steps_of(run, op, old, steps);
	if (!rows_there(run, op, steps, count) || !steps_settle(run, op, steps, count))
		return;
	numbered->order = steps_take(run, op, old, steps, count);
	numbered->changed = true;
	show(op, numbered->order);
}

/* New ones in the order in which everybody inserts them (I3). */
static void insert_sorted(struct order **orders, size_t count, struct order *order)
{
	size_t place = count;
	while (place > 0 && (orders[place - 1]->principal_id > order->principal_id ||
	                     (orders[place - 1]->principal_id == order->principal_id &&
	                      text_compare(orders[place - 1]->number, order->number) > 0)))
		place--;
	memmove(&orders[place + 1], &orders[place], (count - place) * sizeof *orders);
	orders[place] = order;
}

void list_orders(struct run *run, struct decision *decision)
{
	decision->new_orders = ARENA_ARRAY(run->arena, run->order_count, struct order *);
	decision->changed_orders = ARENA_ARRAY(run->arena, run->order_count, struct order *);
	for (size_t i = 0; i < run->order_count; i++) {
		struct order *order = (struct order *)run->orders[i].order; /* our own, if it changed */
		if (!run->orders[i].changed)
			continue;
		if (run->orders[i].stored)
			decision->changed_orders[decision->changed_order_count++] = order;
		else
			insert_sorted(decision->new_orders, decision->new_order_count++, order);
	}
}
