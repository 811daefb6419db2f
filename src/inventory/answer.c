/* The stored answer of a key.
 *
 * Happy path: the row's columns tell status, object and times; `detail` is a small JSON object with what is left:
 *
 *   {"shortages": [[sku, requested, available, held, next_release_us]…],
 *    "figures": [[sku, version, on_hand, reserved, safety_stock, tracked, available]…], "created": true,
 *    "order": [number, version, channel, created_us, changed_us, [[sku, quantity]…]],
 *    "cancelled": [units of each line of the checkout], "state": 3, "ended_us": …, "text": "…"}
 *
 * Each member is there only if it says something; a plain sale has no detail at all.
 * Failure modes: a row that this release cannot read (written by a newer one, or damaged) is LU_INTERNAL. Refusals may
 * have lost their detail to pruning: then they are told without lines.
 */
#include "inventory/answer.h"

#include <string.h>

#include "base/arena.h"
#include "base/id.h"
#include "base/json.h"
#include "base/text.h"
#include "inventory/verdict.h"

/* --- encode ------------------------------------------------------------------------------------------------------- */

static void put_shortages(struct json_writer *w, const struct verdict *verdict)
{
	json_key(w, "shortages");
	json_array_open(w);
	for (size_t i = 0; i < verdict->shortage_count; i++) {
		const struct shortage *s = &verdict->shortages[i];
		json_array_open(w);
		json_put_text(w, s->sku);
		json_put_int(w, s->requested);
		json_put_int(w, s->available);
		json_put_int(w, s->held);
		json_put_int(w, s->next_release_us);
		json_array_close(w);
	}
	json_array_close(w);
}

static void put_figures(struct json_writer *w, const struct verdict *verdict)
{
	json_key(w, "figures");
	json_array_open(w);
	for (size_t i = 0; i < verdict->figures_count; i++) {
		const struct figures *f = &verdict->figures[i].figures;
		json_array_open(w);
		json_put_text(w, verdict->figures[i].sku);
		json_put_int(w, f->version);
		json_put_int(w, f->on_hand);
		json_put_int(w, f->reserved);
		json_put_int(w, f->safety_stock);
		json_put_bool(w, f->tracked);
		json_put_int(w, verdict->figures[i].available);
		json_array_close(w);
	}
	json_array_close(w);
}

static void put_cancelled(struct json_writer *w, const struct checkout *checkout)
{
	bool any = false;
	for (size_t i = 0; i < checkout->line_count; i++)
		any = any || checkout->lines[i].cancelled;
	if (!any)
		return;
	json_key(w, "cancelled");
	json_array_open(w);
	for (size_t i = 0; i < checkout->line_count; i++)
		json_put_int(w, checkout->lines[i].cancelled);
	json_array_close(w);
}

/* Whole: a later version leaves nothing of it. */
static void put_order(struct json_writer *w, const struct order *order)
{
	json_key(w, "order");
	json_array_open(w);
	json_put_text(w, order->number);
	json_put_int(w, order->version);
	json_put_int(w, order->channel);
	json_put_int(w, order->created_us);
	json_put_int(w, order->changed_us);
	json_array_open(w);
	for (size_t i = 0; i < order->line_count; i++) {
		json_array_open(w);
		json_put_text(w, order->lines[i].sku);
		json_put_int(w, order->lines[i].quantity);
		json_array_close(w);
	}
	json_array_close(w);
	json_array_close(w);
}

static void put_detail(struct json_writer *w, const struct verdict *verdict)
{
	if (verdict->shortage_count)
		put_shortages(w, verdict);
	if (verdict->figures_count)
		put_figures(w, verdict);
	if (verdict->created) {
		json_key(w, "created");
		json_put_bool(w, true);
	}
	if (verdict->checkout)
		put_cancelled(w, verdict->checkout);
	if (verdict->order)
		put_order(w, verdict->order);
	if (verdict->reservation && verdict->reservation->state != RESERVATION_ACTIVE) {
		json_key(w, "state");
		json_put_int(w, verdict->reservation->state);
		json_key(w, "ended_us");
		json_put_int(w, verdict->reservation->ended_us);
	}
	if (verdict->detail.size) {
		json_key(w, "text");
		json_put_text(w, verdict->detail);
	}
}

void answer_encode(struct arena *arena, const struct operation *operation, struct idempotency_row *ret_row)
{
	const struct verdict *verdict = &operation->verdict;
	*ret_row = (struct idempotency_row){
		.principal_id = operation->principal.id,
		.key = operation->key,
		.kind = operation->kind,
		.status = text_of(lu_error_code(verdict->error)),
		.object_id = verdict->object_id,
		.at_us = verdict->at_us,
		.expires_us = verdict->reservation ? verdict->reservation->expires_us : 0,
	};
	memcpy(ret_row->fingerprint, operation->fingerprint, sizeof ret_row->fingerprint);
	struct buffer json = {0};
	struct json_writer w = json_writer(&json);
	json_object_open(&w);
	size_t empty = json.size;
	put_detail(&w, verdict);
	bool any = json.size > empty;
	json_object_close(&w);
	if (any)
		ret_row->detail = arena_text(arena, buffer_text(&json));
	buffer_done(&json);
}

/* --- decode ------------------------------------------------------------------------------------------------------- */

static bool is_ok(const struct idempotency_row *row)
{
	return text_equal(row->status, text_of(lu_error_code(LU_OK)));
}

bool answer_needs_reservation(const struct idempotency_row *row, struct uuid *ret_id)
{
	switch (row->kind) {
	case OPERATION_RESERVE:
	case OPERATION_RELEASE:
	case OPERATION_EXTEND:
	case OPERATION_EXPIRE:
		if (!is_ok(row))
			return false;
		*ret_id = row->object_id;
		return true;
	default:
		return false;
	}
}

bool answer_needs_checkout(const struct idempotency_row *row, struct uuid *ret_id)
{
	switch (row->kind) {
	case OPERATION_CHECKOUT:
	case OPERATION_COMMIT:
	case OPERATION_CANCEL:
		if (!is_ok(row))
			return false;
		*ret_id = row->object_id;
		return true;
	default:
		return false;
	}
}

/* Reads the i-th element of a row of numbers that begins with a SKU code. */
static bool get_int(const json_t *array, size_t i, int64_t *ret_value)
{
	const json_t *value = json_array_get(array, i);
	if (!json_is_integer(value))
		return false;
	*ret_value = json_integer_value(value);
	return true;
}

static bool get_name(struct arena *arena, const json_t *array, struct text *ret_name)
{
	const json_t *value = json_array_get(array, 0);
	if (!json_is_string(value))
		return false;
	*ret_name = arena_text(arena, json_text(value));
	return true;
}

static bool get_shortages(struct arena *arena, const json_t *detail, struct verdict *verdict)
{
	const json_t *rows = json_object_get(detail, "shortages");
	if (!rows)
		return true;
	verdict->shortages = ARENA_ARRAY(arena, json_array_size(rows), struct shortage);
	for (size_t i = 0; i < json_array_size(rows); i++) {
		const json_t *row = json_array_get(rows, i);
		struct shortage *s = &verdict->shortages[verdict->shortage_count++];
		if (!get_name(arena, row, &s->sku) || !get_int(row, 1, &s->requested) || !get_int(row, 2, &s->available) ||
		    !get_int(row, 3, &s->held) || !get_int(row, 4, &s->next_release_us))
			return false;
	}
	return verdict->shortage_count > 0;
}

static bool get_figures(struct arena *arena, const json_t *detail, struct verdict *verdict)
{
	const json_t *rows = json_object_get(detail, "figures");
	if (!rows)
		return true;
	verdict->figures = ARENA_ARRAY(arena, json_array_size(rows), struct sku_figures);
	for (size_t i = 0; i < json_array_size(rows); i++) {
		const json_t *row = json_array_get(rows, i), *tracked = json_array_get(row, 5);
		struct sku_figures *s = &verdict->figures[verdict->figures_count++];
		struct figures *f = &s->figures;
		if (!get_name(arena, row, &s->sku) || !get_int(row, 1, &f->version) || !get_int(row, 2, &f->on_hand) ||
		    !get_int(row, 3, &f->reserved) || !get_int(row, 4, &f->safety_stock) || !json_is_boolean(tracked))
			return false;
		f->tracked = json_is_true(tracked);
		/* Rows of the first releases lack it: what a principal without settings was told. */
		static const struct principal plain;
		if (json_array_size(row) == 6)
			s->available = figures_available(f, &plain);
		else if (!get_int(row, 6, &s->available))
			return false;
	}
	return verdict->figures_count > 0;
}

/* The reservation as the old answer showed it, whatever became of it since. */
static bool get_reservation(struct arena *arena, const json_t *detail, const struct idempotency_row *row,
                            const struct reservation *reservation, struct verdict *verdict)
{
	struct uuid id;
	if (!answer_needs_reservation(row, &id))
		return true;
	if (!reservation || !uuid_equal(&reservation->id, &id))
		return false;
	struct reservation *then = verdict_reservation(arena, reservation);
	const json_t *state = json_object_get(detail, "state"), *ended_us = json_object_get(detail, "ended_us");
	then->state = RESERVATION_ACTIVE;
	then->ended_us = 0;
	then->expires_us = row->expires_us;
	if (state) {
		int64_t number = json_integer_value(state);
		if (number < RESERVATION_COMMITTED || number > RESERVATION_EXPIRED || !json_is_integer(ended_us))
			return false;
		then->state = (enum reservation_state)number;
		then->ended_us = json_integer_value(ended_us);
	}
	if (then->state != RESERVATION_COMMITTED)
		then->checkout_id = (struct uuid){0};
	verdict->reservation = then;
	return true;
}

/* The checkout with the units that were cancelled by then. */
static bool get_checkout(struct arena *arena, const json_t *detail, const struct idempotency_row *row,
                         const struct checkout *checkout, struct verdict *verdict)
{
	struct uuid id;
	if (!answer_needs_checkout(row, &id))
		return true;
	if (!checkout || !uuid_equal(&checkout->id, &id))
		return false;
	const json_t *cancelled = json_object_get(detail, "cancelled");
	if (cancelled && json_array_size(cancelled) != checkout->line_count)
		return false;
	struct checkout *then = verdict_checkout(arena, checkout);
	for (size_t i = 0; i < then->line_count; i++) {
		then->lines[i].cancelled = 0;
		if (cancelled && !get_int(cancelled, i, &then->lines[i].cancelled))
			return false;
	}
	verdict->checkout = then;
	return true;
}

static bool get_order(struct arena *arena, const json_t *detail, const struct idempotency_row *row,
                      struct verdict *verdict)
{
	if (row->kind != OPERATION_ORDER_PUT || !is_ok(row))
		return true;
	const json_t *array = json_object_get(detail, "order"), *lines = json_array_get(array, 5);
	struct order *order = ARENA_NEW(arena, struct order);
	int64_t channel;
	*order = (struct order){.id = row->object_id, .principal_id = row->principal_id};
	if (!get_name(arena, array, &order->number) || !get_int(array, 1, &order->version) ||
	    !get_int(array, 2, &channel) || !get_int(array, 3, &order->created_us) ||
	    !get_int(array, 4, &order->changed_us) || !json_is_array(lines))
		return false;
	order->channel = (enum channel)channel;
	order->lines = ARENA_ARRAY(arena, json_array_size(lines), struct order_line);
	for (size_t i = 0; i < json_array_size(lines); i++) {
		const json_t *line = json_array_get(lines, i);
		struct order_line *into = &order->lines[order->line_count++];
		if (!get_name(arena, line, &into->sku) || !get_int(line, 1, &into->quantity))
			return false;
	}
	verdict->order = order;
	return true;
}

static bool get_detail(struct arena *arena, const json_t *detail, struct verdict *verdict)
{
	const json_t *text = json_object_get(detail, "text");
	if (text && !json_is_string(text))
		return false;
	if (text)
		verdict->detail = arena_text(arena, json_text(text));
	verdict->created = json_is_true(json_object_get(detail, "created"));
	return get_shortages(arena, detail, verdict) && get_figures(arena, detail, verdict);
}

enum lu_error answer_decode(struct arena *arena, const struct idempotency_row *row,
                            const struct reservation *reservation, const struct checkout *checkout,
                            struct verdict *ret_verdict)
{
	struct verdict verdict = {.replayed = true, .object_id = row->object_id, .at_us = row->at_us};
	struct text status = arena_text(arena, row->status); /* with a NUL behind it */
	if (!lu_error_parse(status.data, &verdict.error))
		return LU_INTERNAL;
	json_t *detail = NULL;
	const char *why;
	if (row->detail.data && (json_parse(row->detail, &detail, &why) || !json_is_object(detail))) {
		json_decref(detail);
		return LU_INTERNAL;
	}
	bool figures_told = row->kind == OPERATION_ADJUST || row->kind == OPERATION_SKU_PUT;
	bool read = get_detail(arena, detail, &verdict) && get_reservation(arena, detail, row, reservation, &verdict) &&
	            get_checkout(arena, detail, row, checkout, &verdict) && get_order(arena, detail, row, &verdict) &&
	            (verdict.error || !figures_told || verdict.figures_count);
	json_decref(detail);
	if (!read)
		return LU_INTERNAL;
	*ret_verdict = verdict;
	return LU_OK;
}
