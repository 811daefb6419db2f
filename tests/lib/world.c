/* The world for decide(): see world.h. */
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/id.h"
#include "base/text.h"
#include "inventory/answer.h"
#include "inventory/prepare.h"
#include "inventory/verdict.h"

const struct principal world_web = {1, CHANNEL_WEB, SCOPE_READ | SCOPE_SELL, {0}};
const struct principal world_telegram = {2, CHANNEL_TELEGRAM, SCOPE_READ | SCOPE_SELL, {0}};
const struct principal world_agent = {3, CHANNEL_AGENT, SCOPE_READ | SCOPE_SELL, {0}};
const struct principal world_pos = {4, CHANNEL_POS, SCOPE_READ | SCOPE_SELL, {0}};
const struct principal world_site = {5, CHANNEL_WEB, SCOPE_READ | SCOPE_SELL | SCOPE_ORDERS, {0}};
const struct principal world_admin = {6,
                                      CHANNEL_ADMIN,
                                      SCOPE_READ | SCOPE_SELL | SCOPE_ORDERS | SCOPE_STOCK | SCOPE_ADMIN,
                                      {0}};

const struct principal world_till = {7, CHANNEL_POS, SCOPE_READ | SCOPE_SELL, {.may_use_safety_stock = true}};
const struct principal world_bazaar = {8, CHANNEL_MARKETPLACE, SCOPE_READ | SCOPE_SELL, {.buffer = 1}};

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/* --- rows --------------------------------------------------------------------------------------------------------- */

struct world *world_new(void)
{
	struct world *w = calloc(1, sizeof *w);
	w->now_us = INT64_C(1700000000) * WORLD_SECOND;
	w->due_limit = 100;
	w->arena = calloc(1, sizeof *w->arena);
	arena_init(w->arena, 65536);
	return w;
}

void world_free(struct world *w)
{
	arena_done(w->arena);
	free(w->arena);
	free(w->holds);
	free(w->sales);
	free(w);
}

struct world *world_copy(const struct world *from)
{
	struct world *w = malloc(sizeof *w);
	*w = *from;
	w->arena = calloc(1, sizeof *w->arena);
	arena_init(w->arena, 4096);
	w->hold_room = from->hold_count + 1;
	w->holds = malloc(w->hold_room * sizeof *w->holds);
	if (from->hold_count)
		memcpy(w->holds, from->holds, from->hold_count * sizeof *w->holds);
	w->sale_room = from->sale_count + 1;
	w->sales = malloc(w->sale_room * sizeof *w->sales);
	if (from->sale_count)
		memcpy(w->sales, from->sales, from->sale_count * sizeof *w->sales);
	return w;
}

static struct world_sku *sku_of(struct world *w, struct text code)
{
	assert_int_equal(code.size, 1);
	return &w->skus[code.data[0] - 'A'];
}

static struct world_sku *sku_by_id(struct world *w, int64_t id)
{
	assert_in_range(id, 1, 26);
	return &w->skus[id - 1];
}

void world_sku(struct world *w, char code, int64_t on_hand)
{
	struct world_sku *sku = &w->skus[code - 'A'];
	assert_int_equal(sku->row.id, 0);
	sku->row = (struct locked_sku){.id = code - 'A' + 1,
	                               .code = {&letters[code - 'A'], 1},
	                               .figures = {.version = 1, .on_hand = on_hand, .tracked = true}};
	sku->entries = 1;
	sku->on_hand_sum = on_hand;
}

struct figures *world_figures(struct world *w, char code)
{
	return &w->skus[code - 'A'].row.figures;
}

struct uuid world_id(uint64_t number)
{
	struct uuid id = {{0}};
	for (int i = 0; i < 8; i++)
		id.bytes[15 - i] = (uint8_t)(number >> (8 * i));
	return id;
}

struct world_hold *world_hold(struct world *w, struct uuid id)
{
	for (size_t i = 0; i < w->hold_count; i++)
		if (uuid_equal(&w->holds[i].row.id, &id)) {
			w->holds[i].row.lines = w->holds[i].lines; /* the array may have moved */
			if (w->holds[i].row.reference.data)
				w->holds[i].row.reference.data = w->holds[i].reference;
			return &w->holds[i];
		}
	return NULL;
}

struct world_sale *world_sale(struct world *w, struct uuid id)
{
	for (size_t i = 0; i < w->sale_count; i++)
		if (uuid_equal(&w->sales[i].row.id, &id)) {
			w->sales[i].row.lines = w->sales[i].lines;
			if (w->sales[i].row.reference.data)
				w->sales[i].row.reference.data = w->sales[i].reference;
			return &w->sales[i];
		}
	return NULL;
}

static size_t order_place(const struct world *w, int64_t principal_id, struct text number)
{
	size_t i = 0;
	while (i < w->order_count &&
	       (w->orders[i]->principal_id != principal_id || !text_equal(w->orders[i]->number, number)))
		i++;
	return i;
}

const struct order *world_order(const struct world *w, struct principal principal, const char *number)
{
	size_t i = order_place(w, principal.id, text_of(number));
	return i < w->order_count ? w->orders[i] : NULL;
}

struct text world_ledger(struct world *w, char code)
{
	struct text all = TEXT("");
	size_t first = w->ledger_count > WORLD_LEDGER_MAX ? w->ledger_count - WORLD_LEDGER_MAX : 0;
	for (size_t i = first; i < w->ledger_count; i++) {
		const struct ledger_entry *e = &w->ledger[i % WORLD_LEDGER_MAX];
		if (e->sku_id == code - 'A' + 1)
			all = arena_printf(w->arena, "%.*s%s%s %s%lld %s%lld", (int)all.size, all.data, all.size ? ", " : "",
			                   ledger_kind_name(e->kind), e->on_hand_delta > 0 ? "+" : "", (long long)e->on_hand_delta,
			                   e->reserved_delta > 0 ? "+" : "", (long long)e->reserved_delta);
	}
	return all;
}

/* --- what must always hold -------------------------------------------------------------------------------------- */

static void check_invariants(struct world *w)
{
	int64_t live[26] = {0};
	for (size_t i = 0; i < w->hold_count; i++) {
		const struct world_hold *h = &w->holds[i];
		assert_in_range(h->ends, 0, 1);
		assert_int_equal(h->ends == 0, h->row.state == RESERVATION_ACTIVE);
		for (size_t j = 0; h->row.state == RESERVATION_ACTIVE && j < h->row.line_count; j++)
			if (h->lines[j].counted)
				live[h->lines[j].sku.data[0] - 'A'] += h->lines[j].quantity;
	}
	for (size_t i = 0; i < 26; i++) {
		const struct world_sku *s = &w->skus[i];
		const struct figures *f = &s->row.figures;
		assert_true(0 <= f->reserved && f->reserved <= f->on_hand);
		assert_int_equal(f->reserved, live[i]);
		assert_int_equal(f->on_hand, s->on_hand_sum);
		assert_int_equal(f->reserved, s->reserved_sum);
		assert_int_equal(f->version, s->entries);
	}
}

/* --- applying a decision ------------------------------------------------------------------------------------------ */

static void apply_rows(struct world *w, const struct decision *d)
{
	for (size_t i = 0; i < d->entry_count; i++) {
		const struct ledger_entry *e = &d->entries[i];
		struct world_sku *s = sku_by_id(w, e->sku_id);
		assert_int_equal(e->version, ++s->entries);
		assert_int_equal(e->on_hand_after, s->on_hand_sum += e->on_hand_delta);
		assert_int_equal(e->reserved_after, s->reserved_sum += e->reserved_delta);
		assert_true(e->on_hand_delta || e->reserved_delta || e->kind == LEDGER_SETTINGS);
		assert_false(uuid_is_nil(&e->operation_id));
		assert_int_equal(e->principal_id == 0, e->kind == LEDGER_EXPIRE);
		w->ledger[w->ledger_count++ % WORLD_LEDGER_MAX] = *e;
	}
	for (size_t i = 0; i < d->changed_count; i++) {
		assert_true(i == 0 || text_compare(d->changed[i - 1].code, d->changed[i].code) < 0);
		sku_of(w, d->changed[i].code)->row.figures = d->changed[i].figures;
	}
	for (size_t i = 0; i < d->insert_count; i++) {
		struct text code = d->inserts[i].operation->lines[0].sku;
		assert_true(i == 0 || text_compare(d->inserts[i - 1].operation->lines[0].sku, code) < 0);
		world_sku(w, code.data[0], d->inserts[i].figures.on_hand);
		assert_int_equal(d->inserts[i].figures.version, 1);
		*world_figures(w, code.data[0]) = d->inserts[i].figures;
	}
}

static void keep_lines(struct world *w, struct line *into, const struct line *lines, size_t count)
{
	assert_in_range(count, 1, WORLD_LINES_MAX);
	for (size_t i = 0; i < count; i++) {
		into[i] = lines[i];
		into[i].sku = sku_of(w, lines[i].sku)->row.code;
		assert_int_equal(lines[i].sku_id, sku_of(w, lines[i].sku)->row.id);
		assert_int_equal(lines[i].version != 0, lines[i].counted);
		assert_true(i == 0 || text_compare(into[i - 1].sku, into[i].sku) < 0);
	}
}

static struct text keep_text(char buffer[32], struct text text)
{
	if (!text.data)
		return text;
	snprintf(buffer, 32, "%.*s", (int)text.size, text.data);
	return (struct text){buffer, text.size};
}

static void apply_objects(struct world *w, const struct decision *d)
{
	for (size_t i = 0; i < d->new_reservation_count; i++) {
		if (w->hold_count == w->hold_room)
			w->holds = realloc(w->holds, (w->hold_room = w->hold_room * 2 + 8) * sizeof *w->holds);
		struct world_hold *h = &w->holds[w->hold_count++];
		*h = (struct world_hold){.row = *d->new_reservations[i]};
		assert_int_equal(h->row.state, RESERVATION_ACTIVE);
		assert_int_equal(h->row.ended_us, 0);
		keep_lines(w, h->lines, h->row.lines, h->row.line_count);
		h->row.reference = keep_text(h->reference, h->row.reference);
		h->row.caller = keep_text(h->caller, h->row.caller);
	}
	size_t expired = 0;
	for (size_t i = 0; i < d->reservation_change_count; i++) {
		const struct reservation *r = d->reservation_changes[i].reservation;
		struct world_hold *h = world_hold(w, r->id);
		assert_non_null(h);
		assert_int_equal(h->row.state, RESERVATION_ACTIVE);
		assert_int_equal(d->reservation_changes[i].ended, r->state != RESERVATION_ACTIVE);
		assert_int_equal(r->ended_us, r->state == RESERVATION_ACTIVE ? 0 : w->now_us);
		assert_int_equal(uuid_is_nil(&r->checkout_id), r->state != RESERVATION_COMMITTED);
		/* An expired hold can never be committed or extended; one that is alive cannot expire. */
		assert_int_equal(h->row.expires_us <= w->now_us, r->state == RESERVATION_EXPIRED);
		h->ends += d->reservation_changes[i].ended;
		h->row.state = r->state;
		h->row.expires_us = r->expires_us;
		h->row.ended_us = r->ended_us;
		h->row.checkout_id = r->checkout_id;
		expired += r->state == RESERVATION_EXPIRED;
	}
	assert_int_equal(d->expired_count, expired);
	for (size_t i = 0; i < d->new_checkout_count; i++) {
		if (w->sale_count == w->sale_room)
			w->sales = realloc(w->sales, (w->sale_room = w->sale_room * 2 + 8) * sizeof *w->sales);
		struct world_sale *s = &w->sales[w->sale_count++];
		*s = (struct world_sale){.row = *d->new_checkouts[i]};
		keep_lines(w, s->lines, s->row.lines, s->row.line_count);
		s->row.reference = keep_text(s->reference, s->row.reference);
	}
	for (size_t i = 0; i < d->changed_checkout_count; i++) {
		struct world_sale *s = world_sale(w, d->changed_checkouts[i]->id);
		for (size_t j = 0; j < s->row.line_count; j++) {
			assert_in_range(d->changed_checkouts[i]->lines[j].cancelled, s->lines[j].cancelled, s->lines[j].quantity);
			s->lines[j].cancelled = d->changed_checkouts[i]->lines[j].cancelled;
		}
	}
}

static void check_order(struct world *w, const struct order *o)
{
	assert_int_equal(o->changed_us, w->now_us);
	for (size_t i = 0; i < o->line_count; i++) {
		assert_true(i == 0 || text_compare(o->lines[i - 1].sku, o->lines[i].sku) < 0);
		assert_int_equal(o->lines[i].sku_id, sku_of(w, o->lines[i].sku)->row.id);
		assert_in_range(o->lines[i].quantity, 1, LU_QUANTITY_MAX);
		assert_in_range(o->lines[i].counted, 0, o->lines[i].quantity);
	}
}

static void apply_orders(struct world *w, const struct decision *d)
{
	for (size_t i = 0; i < d->new_order_count; i++) {
		const struct order *o = d->new_orders[i];
		assert_true(i == 0 || d->new_orders[i - 1]->principal_id < o->principal_id ||
		            (d->new_orders[i - 1]->principal_id == o->principal_id &&
		             text_compare(d->new_orders[i - 1]->number, o->number) < 0));
		assert_int_equal(order_place(w, o->principal_id, o->number), w->order_count); /* it was not there */
		assert_in_range(w->order_count, 0, sizeof w->orders / sizeof w->orders[0] - 1);
		check_order(w, o);
		w->orders[w->order_count++] = verdict_order(w->arena, o);
	}
	for (size_t i = 0; i < d->changed_order_count; i++) {
		const struct order *o = d->changed_orders[i];
		size_t place = order_place(w, o->principal_id, o->number);
		assert_in_range(place, 0, w->order_count - 1);
		assert_true(o->version > w->orders[place]->version);
		assert_true(uuid_equal(&o->id, &w->orders[place]->id));
		assert_int_equal(o->created_us, w->orders[place]->created_us);
		check_order(w, o);
		w->orders[place] = verdict_order(w->arena, o);
	}
}

static void apply_answers(struct world *w, const struct decision *d)
{
	for (size_t i = 0; i < d->answer_count; i++) {
		const struct operation *op = d->answers[i];
		assert_true(lu_error_stored(op->verdict.error) && !op->verdict.replayed && op->key.size);
		if (i > 0) {
			const struct operation *last = d->answers[i - 1];
			assert_true(last->principal.id < op->principal.id ||
			            (last->principal.id == op->principal.id && text_compare(last->key, op->key) < 0));
		}
		assert_in_range(w->answer_count, 0, sizeof w->answers / sizeof w->answers[0] - 1);
		answer_encode(w->arena, op, &w->answers[w->answer_count]);
		w->answers[w->answer_count++].key = arena_text(w->arena, op->key);
	}
}

/* --- one batch ---------------------------------------------------------------------------------------------------- */

struct inputs {
	struct decision_input input;
	struct text codes[26]; /* locked beside the operations' own */
	size_t code_count;
};

static int uuid_order(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct uuid));
}

static size_t uuids_sort(struct uuid *ids, size_t count)
{
	size_t kept = 0;
	qsort(ids, count, sizeof *ids, uuid_order);
	for (size_t i = 0; i < count; i++)
		if (kept == 0 || !uuid_equal(&ids[kept - 1], &ids[i]))
			ids[kept++] = ids[i];
	return kept;
}

static void find_skus(struct world *w, struct inputs *in)
{
	bool wanted[26] = {0};
	for (size_t i = 0; i < in->input.operation_count; i++)
		for (size_t j = 0; j < in->input.operations[i]->sku_count; j++)
			wanted[in->input.operations[i]->skus[j].data[0] - 'A'] = true;
	for (size_t i = 0; i < in->code_count; i++)
		wanted[in->codes[i].data[0] - 'A'] = true;
	in->input.skus = ARENA_ARRAY(in->input.arena, 26, struct locked_sku);
	in->input.sku_count = 0;
	for (size_t i = 0; i < 26; i++)
		if (wanted[i] && w->skus[i].row.id) {
			in->input.skus[in->input.sku_count] = w->skus[i].row;
			struct locked_sku *sku = &in->input.skus[in->input.sku_count++];
			sku->code = arena_text(in->input.arena, sku->code);
		}
}

static const struct idempotency_row *known_key(const struct world *w, const struct operation *op)
{
	for (size_t i = 0; i < w->answer_count; i++)
		if (op->key.size && w->answers[i].principal_id == op->principal.id && text_equal(w->answers[i].key, op->key))
			return &w->answers[i];
	return NULL;
}

static void find_objects(struct world *w, struct inputs *in)
{
	struct arena *arena = in->input.arena;
	size_t count = in->input.operation_count, holds = 0, sales = 0;
	struct uuid *ids = ARENA_ARRAY(arena, count * 3, struct uuid),
				*sale_ids = ARENA_ARRAY(arena, count * 6, struct uuid);
	for (size_t i = 0; i < count; i++) {
		const struct operation *op = in->input.operations[i];
		ids[holds++] = op->target;
		ids[holds++] = op->other;
		sale_ids[sales++] = op->target;
		const struct idempotency_row *row = known_key(w, op);
		if (row && answer_needs_reservation(row, &ids[holds]))
			holds++;
		if (row && answer_needs_checkout(row, &sale_ids[sales]))
			sales++;
	}
	holds = uuids_sort(ids, holds);
	in->input.reservations = ARENA_ARRAY(arena, holds, struct reservation *);
	in->input.reservation_count = 0;
	for (size_t i = 0; i < holds; i++) {
		struct world_hold *h = world_hold(w, ids[i]);
		if (!h)
			continue;
		in->input.reservations[in->input.reservation_count++] = verdict_reservation(arena, &h->row);
		if (!uuid_is_nil(&h->row.checkout_id))
			sale_ids[sales++] = h->row.checkout_id;
	}
	sales = uuids_sort(sale_ids, sales);
	in->input.checkouts = ARENA_ARRAY(arena, sales, struct checkout *);
	in->input.checkout_count = 0;
	for (size_t i = 0; i < sales; i++) {
		struct world_sale *s = world_sale(w, sale_ids[i]);
		if (s)
			in->input.checkouts[in->input.checkout_count++] = verdict_checkout(arena, &s->row);
	}
}

static void find_orders(struct world *w, struct inputs *in)
{
	in->input.orders = ARENA_ARRAY(in->input.arena, w->order_count, struct order *);
	for (size_t place = 0; place < w->order_count; place++) {
		bool wanted = false;
		for (size_t i = 0; i < in->input.operation_count; i++) {
			const struct operation *op = in->input.operations[i];
			wanted |= op->kind == OPERATION_ORDER_PUT && order_place(w, op->principal.id, op->number) == place;
		}
		if (wanted)
			in->input.orders[in->input.order_count++] = verdict_order(in->input.arena, w->orders[place]);
	}
}

static void find_answers(struct world *w, struct inputs *in)
{
	in->input.answers = ARENA_ARRAY(in->input.arena, in->input.operation_count, struct stored_answer);
	in->input.answer_count = 0;
	for (size_t i = 0; i < in->input.operation_count; i++) {
		const struct idempotency_row *row = known_key(w, in->input.operations[i]);
		if (!row)
			continue;
		struct stored_answer *answer = &in->input.answers[in->input.answer_count++];
		struct uuid id;
		const struct world_hold *h = answer_needs_reservation(row, &id) ? world_hold(w, id) : NULL;
		const struct world_sale *s = answer_needs_checkout(row, &id) ? world_sale(w, id) : NULL;
		answer->principal_id = row->principal_id;
		answer->key = row->key;
		memcpy(answer->fingerprint, row->fingerprint, sizeof answer->fingerprint);
		assert_int_equal(answer_decode(in->input.arena, row, h ? &h->row : NULL, s ? &s->row : NULL, &answer->verdict),
		                 LU_OK);
	}
}

/* Whose holds count. */
static bool holds_for(const struct world *w, const struct world_hold *h, const struct holdings *of)
{
	return h->row.state == RESERVATION_ACTIVE && h->row.expires_us > w->now_us &&
	       h->row.principal_id == of->principal_id &&
	       (!of->caller.data || (h->row.caller.data && strcmp(h->caller, of->caller.data) == 0));
}

static void add_holdings(struct world *w, struct inputs *in, int64_t principal_id, struct text caller)
{
	for (size_t i = 0; i < in->input.holdings_count; i++)
		if (in->input.holdings[i].principal_id == principal_id && !in->input.holdings[i].caller.data == !caller.data &&
		    text_equal(in->input.holdings[i].caller, caller))
			return;
	struct holdings *of = &in->input.holdings[in->input.holdings_count++];
	*of = (struct holdings){principal_id, caller, 0, ARENA_ARRAY(in->input.arena, 26, struct held), 26, false};
	for (int64_t sku = 1; sku <= 26; sku++)
		of->held[sku - 1].sku_id = sku;
	for (size_t i = 0; i < w->hold_count; i++) {
		const struct world_hold *h = &w->holds[i];
		if (!holds_for(w, h, of))
			continue;
		of->holds++;
		for (size_t j = 0; j < h->row.line_count; j++)
			of->held[h->lines[j].sku_id - 1].units += h->lines[j].counted ? h->lines[j].quantity : 0;
	}
	w->counted++;
}

/* What is told of those with a cap, and of nobody else. */
static void find_holdings(struct world *w, struct inputs *in)
{
	static const struct text all;
	in->input.holdings = ARENA_ARRAY(in->input.arena, 2 * in->input.operation_count, struct holdings);
	for (size_t i = 0; i < in->input.operation_count; i++) {
		const struct operation *op = in->input.operations[i];
		const struct principal_settings *s = &op->principal.settings;
		if (op->kind == OPERATION_RESERVE && (s->holds_max || s->held_units_max))
			add_holdings(w, in, op->principal.id, all);
		if (op->kind == OPERATION_RESERVE && op->caller.data && (s->caller_holds_max || s->caller_held_units_max))
			add_holdings(w, in, op->principal.id, op->caller);
	}
}

static int due_order(const void *left, const void *right)
{
	const struct reservation *a = *(struct reservation *const *)left, *b = *(struct reservation *const *)right;
	if (a->expires_us != b->expires_us)
		return a->expires_us < b->expires_us ? -1 : 1;
	return memcmp(&a->id, &b->id, sizeof a->id);
}

static bool touches(const struct world_hold *h, struct text code)
{
	for (size_t i = 0; i < h->row.line_count; i++)
		if (h->lines[i].counted && text_equal(h->lines[i].sku, code))
			return true;
	return false;
}

/* The due holds of every SKU asked about so far, earliest first, `limit` at most. */
static void find_holds(struct world *w, struct inputs *in, const struct decision *d, size_t limit)
{
	for (size_t i = 0; i < d->needed_count; i++)
		for (size_t j = 0; j < in->input.sku_count; j++)
			if (text_equal(d->needed[i], in->input.skus[j].code))
				in->input.skus[j].holds_known = true;
	in->input.due = ARENA_ARRAY(in->input.arena, w->hold_count, struct reservation *);
	in->input.due_count = 0;
	for (size_t i = 0; i < w->hold_count; i++) {
		struct world_hold *h = world_hold(w, w->holds[i].row.id);
		bool found = false;
		for (size_t j = 0; j < in->input.sku_count; j++)
			found = found || (in->input.skus[j].holds_known && touches(h, in->input.skus[j].code));
		if (found && h->row.state == RESERVATION_ACTIVE && h->row.expires_us <= w->now_us)
			in->input.due[in->input.due_count++] = verdict_reservation(in->input.arena, &h->row);
	}
	qsort(in->input.due, in->input.due_count, sizeof *in->input.due, due_order);
	for (size_t j = 0; j < in->input.sku_count; j++) {
		struct locked_sku *sku = &in->input.skus[j];
		sku->holds_more = false;
		sku->next_release_us = 0;
		for (size_t i = limit; i < in->input.due_count; i++)
			sku->holds_more = sku->holds_more || touches(world_hold(w, in->input.due[i]->id), sku->code);
		for (size_t i = 0; sku->holds_known && i < w->hold_count; i++) {
			const struct world_hold *h = &w->holds[i];
			if (h->row.state == RESERVATION_ACTIVE && h->row.expires_us > w->now_us && touches(h, sku->code) &&
			    (!sku->next_release_us || h->row.expires_us < sku->next_release_us))
				sku->next_release_us = h->row.expires_us;
		}
	}
	if (in->input.due_count > limit)
		in->input.due_count = limit;
}

/* decide() must leave its input as it was. */
static struct decision decide_and_compare(struct inputs *in)
{
	struct decision_input *input = &in->input, before = *input;
	struct arena copies;
	arena_init(&copies, 4096);
	struct locked_sku *skus = ARENA_ARRAY(&copies, input->sku_count, struct locked_sku);
	memcpy(skus, input->skus, input->sku_count * sizeof *skus);
	struct reservation **holds = ARENA_ARRAY(&copies, input->reservation_count, struct reservation *);
	for (size_t i = 0; i < input->reservation_count; i++)
		holds[i] = verdict_reservation(&copies, input->reservations[i]);
	struct checkout **sales = ARENA_ARRAY(&copies, input->checkout_count, struct checkout *);
	for (size_t i = 0; i < input->checkout_count; i++)
		sales[i] = verdict_checkout(&copies, input->checkouts[i]);
	struct decision d = decide(input);
	assert_memory_equal(&before, input, sizeof before);
	assert_memory_equal(skus, input->skus, input->sku_count * sizeof *skus);
	for (size_t i = 0; i < input->reservation_count; i++) {
		assert_int_equal(holds[i]->state, input->reservations[i]->state);
		assert_int_equal(holds[i]->expires_us, input->reservations[i]->expires_us);
		assert_int_equal(holds[i]->ended_us, input->reservations[i]->ended_us);
	}
	for (size_t i = 0; i < input->checkout_count; i++)
		for (size_t j = 0; j < input->checkouts[i]->line_count; j++)
			assert_int_equal(sales[i]->lines[j].cancelled, input->checkouts[i]->lines[j].cancelled);
	arena_done(&copies);
	return d;
}

void world_batch(struct world *w, struct operation **operations, size_t count)
{
	struct arena arena;
	arena_init(&arena, 16384);
	struct inputs in = {
		.input = {.arena = &arena, .now_us = w->now_us, .operations = operations, .operation_count = count}};
	size_t limit = w->due_limit;
	find_skus(w, &in);
	find_objects(w, &in);
	find_orders(w, &in);
	find_answers(w, &in);
	find_holdings(w, &in);
	struct decision d = decide_and_compare(&in);
	for (int rounds = 0; d.result != DECISION_MADE; rounds++) {
		assert_in_range(rounds, 0, 100);
		assert_true(d.needed_count > 0);
		for (size_t i = 1; i < d.needed_count; i++)
			assert_true(text_compare(d.needed[i - 1], d.needed[i]) < 0);
		if (d.result == DECISION_NEEDS_HOLDS) {
			w->lookups++;
			for (size_t i = 0; i < in.input.sku_count; i++)
				for (size_t j = 0; in.input.skus[i].holds_known && j < d.needed_count; j++)
					if (text_equal(in.input.skus[i].code, d.needed[j]))
						limit *= 2; /* asked again */
			find_holds(w, &in, &d, limit);
		} else {
			w->relocks++;
			for (size_t i = 0; i < d.needed_count; i++)
				in.codes[in.code_count++] = sku_of(w, d.needed[i])->row.code;
			find_skus(w, &in); /* and the holds are unknown again */
			in.input.due_count = 0;
		}
		d = decide_and_compare(&in);
	}
	apply_rows(w, &d);
	apply_objects(w, &d);
	apply_orders(w, &d);
	apply_answers(w, &d);
	arena_done(&arena);
	check_invariants(w);
}

/* --- operations --------------------------------------------------------------------------------------------------- */

struct operation *world_operation(struct world *w, enum operation_kind kind, struct principal principal,
                                  const char *lines)
{
	struct operation *op = ARENA_NEW(w->arena, struct operation);
	op->kind = kind;
	op->arena = w->arena;
	op->principal = principal;
	op->lines = ARENA_ARRAY(w->arena, 16, struct line);
	for (const char *c = lines ? lines : ""; *c;) {
		char *end;
		assert_in_range(*c, 'A', 'Z');
		assert_in_range(op->line_count, 0, 15);
		struct line *line = &op->lines[op->line_count++];
		line->sku = (struct text){&letters[*c - 'A'], 1};
		line->quantity = strtoll(c + 1, &end, 10);
		for (c = end; *c == ' ';)
			c++;
	}
	return op;
}

enum lu_error world_prepare(struct world *w, struct operation *op)
{
	enum lu_error error = operation_prepare(op);
	if (error)
		return error;
	op->new_id = world_id(++w->last_id);
	const struct uuid *ids[] = {&op->target, &op->other};
	for (size_t i = 0; i < 2; i++) {
		struct world_hold *h = world_hold(w, *ids[i]);
		struct world_sale *s = world_sale(w, *ids[i]);
		if (h)
			operation_add_skus(op, h->lines, h->row.line_count);
		if (s)
			operation_add_skus(op, s->lines, s->row.line_count);
	}
	return LU_OK;
}

enum lu_error world_run(struct world *w, struct operation *op)
{
	op->verdict.error = world_prepare(w, op);
	if (!op->verdict.error)
		world_batch(w, &op, 1);
	return op->verdict.error;
}

struct verdict *sell(struct world *w, struct principal principal, const char *lines)
{
	struct operation *op = world_operation(w, OPERATION_CHECKOUT, principal, lines);
	world_run(w, op);
	return &op->verdict;
}

struct verdict *hold(struct world *w, struct principal principal, const char *lines, int64_t ttl_s)
{
	struct operation *op = world_operation(w, OPERATION_RESERVE, principal, lines);
	op->ttl_s = ttl_s;
	world_run(w, op);
	return &op->verdict;
}

struct verdict *by_id(struct world *w, enum operation_kind kind, struct principal principal, struct uuid target)
{
	struct operation *op = world_operation(w, kind, principal, NULL);
	op->target = target;
	world_run(w, op);
	return &op->verdict;
}

struct verdict *order(struct world *w, struct principal principal, const char *number, int64_t version,
                      const char *lines)
{
	struct operation *op = world_operation(w, OPERATION_ORDER_PUT, principal, lines);
	op->number = text_of(number);
	op->order_version = version;
	world_run(w, op);
	return &op->verdict;
}

struct verdict *adjust(struct world *w, char code, int64_t delta)
{
	struct operation *op = world_operation(w, OPERATION_ADJUST, world_admin, (char[]){code, '0', 0});
	op->lines[0].quantity = delta;
	world_run(w, op);
	return &op->verdict;
}

void expect_beyond(const struct verdict *verdict, char code, int64_t units, int64_t on_hand)
{
	expect_error(verdict, LU_COUNT_OUT_OF_RANGE);
	assert_int_equal(verdict->shortage_count, 1);
	assert_memory_equal(verdict->shortages[0].sku.data, &code, 1);
	assert_int_equal(verdict->shortages[0].requested, units);
	assert_int_equal(verdict->shortages[0].available, on_hand);
}

void expect_figures(struct world *w, char code, int64_t on_hand, int64_t reserved)
{
	assert_int_equal(world_figures(w, code)->on_hand, on_hand);
	assert_int_equal(world_figures(w, code)->reserved, reserved);
}
