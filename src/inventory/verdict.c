/* Whole copies of verdicts and of the objects they show.
 *
 * Happy path: one allocation per text, per array and per object. Failure modes: none but memory, which ends the process
 * in the arena.
 */
#include "inventory/verdict.h"

#include <string.h>

#include "base/arena.h"

struct text verdict_text(struct arena *arena, struct text text)
{
	return text.data ? arena_text(arena, text) : text;
}

static struct line *lines_copy(struct arena *arena, const struct line *lines, size_t count)
{
	struct line *copy = ARENA_ARRAY(arena, count, struct line);
	for (size_t i = 0; i < count; i++) {
		copy[i] = lines[i];
		copy[i].sku = verdict_text(arena, lines[i].sku);
	}
	return copy;
}

struct reservation *verdict_reservation(struct arena *arena, const struct reservation *reservation)
{
	struct reservation *copy = ARENA_NEW(arena, struct reservation);
	*copy = *reservation;
	copy->reference = verdict_text(arena, reservation->reference);
	copy->caller = verdict_text(arena, reservation->caller);
	copy->lines = lines_copy(arena, reservation->lines, reservation->line_count);
	return copy;
}

struct checkout *verdict_checkout(struct arena *arena, const struct checkout *checkout)
{
	struct checkout *copy = ARENA_NEW(arena, struct checkout);
	*copy = *checkout;
	copy->reference = verdict_text(arena, checkout->reference);
	copy->lines = lines_copy(arena, checkout->lines, checkout->line_count);
	return copy;
}

struct order *verdict_order(struct arena *arena, const struct order *order)
{
	struct order *copy = ARENA_NEW(arena, struct order);
	*copy = *order;
	copy->number = verdict_text(arena, order->number);
	copy->lines = ARENA_ARRAY(arena, order->line_count, struct order_line);
	for (size_t i = 0; i < order->line_count; i++) {
		copy->lines[i] = order->lines[i];
		copy->lines[i].sku = verdict_text(arena, order->lines[i].sku);
	}
	return copy;
}

struct verdict verdict_copy(struct arena *arena, const struct verdict *verdict)
{
	struct verdict copy = *verdict;
	copy.detail = verdict_text(arena, verdict->detail);
	copy.shortages = ARENA_ARRAY(arena, verdict->shortage_count, struct shortage);
	for (size_t i = 0; i < verdict->shortage_count; i++) {
		copy.shortages[i] = verdict->shortages[i];
		copy.shortages[i].sku = verdict_text(arena, verdict->shortages[i].sku);
	}
	copy.figures = ARENA_ARRAY(arena, verdict->figures_count, struct sku_figures);
	for (size_t i = 0; i < verdict->figures_count; i++) {
		copy.figures[i] = verdict->figures[i];
		copy.figures[i].sku = verdict_text(arena, verdict->figures[i].sku);
	}
	if (verdict->reservation)
		copy.reservation = verdict_reservation(arena, verdict->reservation);
	if (verdict->checkout)
		copy.checkout = verdict_checkout(arena, verdict->checkout);
	if (verdict->order)
		copy.order = verdict_order(arena, verdict->order);
	return copy;
}
