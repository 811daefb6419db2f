/* The holdings of a batch: whose, and of which SKUs.
 *
 * Happy path: no RESERVE of the batch is under a cap, and nothing is done. Else each capped principal, and each capped
 * caller, is listed once with the SKUs of all its carts, and counted in one round trip.
 * Failure modes: those of the store. A SKU that is not known has no units; its cart is refused for that.
 */
#include "inventory/batch_holdings.h"

#include <stdlib.h>

#include "base/text.h"
#include "store/holding.h"

/* Which of its caps an operation is under. */
static bool under_own_cap(const struct operation *op)
{
	const struct principal_settings *s = &op->principal.settings;
	return op->kind == OPERATION_RESERVE && (s->holds_max || s->held_units_max);
}

static bool under_caller_cap(const struct operation *op)
{
	const struct principal_settings *s = &op->principal.settings;
	return op->kind == OPERATION_RESERVE && op->caller.data && (s->caller_holds_max || s->caller_held_units_max);
}

/* Made when it is not there yet. */
static struct holdings *holdings_of(struct decision_input *input, int64_t principal_id, struct text caller)
{
	for (size_t i = 0; i < input->holdings_count; i++) {
		struct holdings *h = &input->holdings[i];
		if (h->principal_id == principal_id && !h->caller.data == !caller.data && text_equal(h->caller, caller))
			return h;
	}
	struct holdings *h = &input->holdings[input->holdings_count++];
	*h = (struct holdings){.principal_id = principal_id, .caller = caller, .units_only = true};
	return h;
}

/* A cart with so many lines is under these caps. */
static void add_cart(struct holdings *h, const struct operation *op, int64_t holds_max)
{
	h->held_count += op->line_count;
	h->units_only = h->units_only && !holds_max; /* settings may have changed between two carts */
}

/* First whose holdings, with room for the SKUs of all their carts … */
static void whose(struct arena *arena, const struct batch *batch, const struct operation *op,
                  struct decision_input *input)
{
	static const struct text all;
	if (!under_own_cap(op) && !under_caller_cap(op))
		return;
	if (!input->holdings_count)
		input->holdings = ARENA_ARRAY(arena, 2 * batch->count, struct holdings);
	if (under_own_cap(op))
		add_cart(holdings_of(input, op->principal.id, all), op, op->principal.settings.holds_max);
	if (under_caller_cap(op))
		add_cart(holdings_of(input, op->principal.id, op->caller), op, op->principal.settings.caller_holds_max);
}

static void add_lines(const struct decision_input *input, const struct operation *op, struct holdings *h)
{
	for (size_t i = 0; i < op->line_count; i++) {
		const struct locked_sku *sku = batch_sku(input, op->lines[i].sku);
		if (sku)
			h->held[h->held_count++].sku_id = sku->id;
	}
}

/* … then which SKUs. */
static void what(const struct operation *op, struct decision_input *input)
{
	static const struct text all;
	if (under_own_cap(op))
		add_lines(input, op, holdings_of(input, op->principal.id, all));
	if (under_caller_cap(op))
		add_lines(input, op, holdings_of(input, op->principal.id, op->caller));
}

static int by_sku(const void *left, const void *right)
{
	const struct held *a = left, *b = right;
	return (a->sku_id > b->sku_id) - (a->sku_id < b->sku_id);
}

static void held_sort(struct holdings *h)
{
	size_t kept = 0;
	if (h->held_count)
		qsort(h->held, h->held_count, sizeof *h->held, by_sku);
	for (size_t i = 0; i < h->held_count; i++)
		if (kept == 0 || h->held[kept - 1].sku_id != h->held[i].sku_id)
			h->held[kept++] = h->held[i];
	h->held_count = kept;
}

enum lu_error batch_holdings(struct pg *pg, struct arena *arena, const struct batch *batch,
                             struct decision_input *input, int64_t deadline_ns)
{
	input->holdings_count = 0;
	for (size_t i = 0; i < batch->count; i++)
		whose(arena, batch, batch->operations[i], input);
	if (!input->holdings_count)
		return LU_OK;
	for (size_t i = 0; i < input->holdings_count; i++) {
		input->holdings[i].held = ARENA_ARRAY(arena, input->holdings[i].held_count, struct held);
		input->holdings[i].held_count = 0;
	}
	for (size_t i = 0; i < batch->count; i++)
		what(batch->operations[i], input);
	for (size_t i = 0; i < input->holdings_count; i++)
		held_sort(&input->holdings[i]);
	return holding_count(pg, arena, input->holdings, input->holdings_count, deadline_ns);
}
