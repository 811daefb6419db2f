/* The decision: the frame around the families of operations.
 *
 * Happy path: copy the rows and objects, sort the keys once, decide each operation in order on the copies, then list
 * what became of them. Rows are found by binary search, holds and checkouts too; a batch of n operations costs
 * O(n log n), and a batch of carts on one SKU hardly more than writing down its ledger entries.
 * Failure modes: a cart that needs input the batch has not read yet makes the whole run one that only collects what is
 * needed (decide_internal.h). Figures that cannot be are the caller's bug (CHECK): who locks rows lets none pass. A hold
 * that disagrees with them is the fault of that hold alone and stays as it is.
 *
 * decide_cart.c: CHECKOUT, RESERVE. decide_caps.c: how much may be held. decide_end.c: how holds end, COMMIT, RELEASE,
 * EXTEND, EXPIRE. decide_stock.c: CANCEL, ADJUST, SKU_PUT, REFRESH. decide_order.c: ORDER_PUT.
 */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "inventory/decide_internal.h"
#include "inventory/verdict.h"

const char *ledger_kind_name(enum ledger_kind kind)
{
	static const char *const names[] = {
		[LEDGER_CREATE] = "create",     [LEDGER_SALE] = "sale",       [LEDGER_RESERVE] = "reserve",
		[LEDGER_COMMIT] = "commit",     [LEDGER_RELEASE] = "release", [LEDGER_EXPIRE] = "expire",
		[LEDGER_CANCEL] = "cancel",     [LEDGER_ADJUST] = "adjust",   [LEDGER_SET] = "set",
		[LEDGER_SETTINGS] = "settings", [LEDGER_IMPORT] = "import",   [LEDGER_SQL] = "sql",
	};
	bool known = (unsigned)kind < sizeof names / sizeof names[0] && names[kind];
	return known ? names[kind] : "unknown"; /* written by a newer release: the ledger stays readable */
}

int64_t channel_ttl_s(enum channel channel)
{
	switch (channel) {
	case CHANNEL_AGENT:
		return 600;
	case CHANNEL_VOICE:
	case CHANNEL_POS:
		return 300;
	case CHANNEL_MARKETPLACE:
		return 1800;
	case CHANNEL_WEB:
	case CHANNEL_TELEGRAM:
	case CHANNEL_ADMIN:
	case CHANNEL_SQL:
	case CHANNEL_SYSTEM:
		break;
	}
	return 900;
}

/* --- rows ------------------------------------------------------------------------------------------------------------ */

struct row *row_find(struct run *run, struct text sku)
{
	size_t low = 0, high = run->input->sku_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = text_compare(run->rows[middle].sku.code, sku);
		if (order == 0)
			return &run->rows[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

bool row_can_move(const struct row *row, int64_t on_hand_delta, int64_t reserved_delta, int64_t versions)
{
	const struct figures *f = &row->sku.figures;
	int64_t on_hand, reserved, version;
	if (__builtin_add_overflow(f->on_hand, on_hand_delta, &on_hand) ||
	    __builtin_add_overflow(f->reserved, reserved_delta, &reserved) ||
	    __builtin_add_overflow(f->version, versions, &version))
		return false;
	return 0 <= reserved && reserved <= on_hand && on_hand <= LU_COUNT_MAX && version <= LU_COUNT_MAX;
}

static struct ledger_entry *entry_new(struct run *run)
{
	if (run->entry_count == run->entry_room) {
		size_t room = run->entry_room ? run->entry_room * 2 : run->input->operation_count + 16;
		struct ledger_entry *entries = ARENA_ARRAY(run->arena, room, struct ledger_entry);
		if (run->entry_count)
			memcpy(entries, run->entries, run->entry_count * sizeof *entries);
		run->entries = entries;
		run->entry_room = room;
	}
	return &run->entries[run->entry_count++];
}

int64_t row_move(struct run *run, struct row *row, enum ledger_kind kind, int64_t on_hand_delta, int64_t reserved_delta,
                 const struct author *author)
{
	CHECK(row_can_move(row, on_hand_delta, reserved_delta, 1));
	struct figures *f = &row->sku.figures;
	f->on_hand += on_hand_delta;
	f->reserved += reserved_delta;
	f->version++;
	row->changed = true;
	*entry_new(run) = (struct ledger_entry){
		.sku_id = row->sku.id,
		.version = f->version,
		.kind = kind,
		.on_hand_delta = on_hand_delta,
		.reserved_delta = reserved_delta,
		.on_hand_after = f->on_hand,
		.reserved_after = f->reserved,
		.channel = author->channel,
		.principal_id = author->principal_id,
		.reference = author->reference,
		.operation_id = author->operation_id,
	};
	return f->version;
}

struct author operation_author(const struct operation *operation, struct text reference, struct uuid operation_id)
{
	return (struct author){operation->principal.channel, operation->principal.id, reference, operation_id};
}

/* --- holds and checkouts --------------------------------------------------------------------------------------------- */

static int uuid_compare(const struct uuid *a, const struct uuid *b)
{
	return memcmp(a, b, sizeof *a);
}

struct hold *hold_find(struct run *run, const struct uuid *id)
{
	size_t low = 0, high = run->input->reservation_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = uuid_compare(&run->holds[middle].reservation.id, id);
		if (order == 0)
			return &run->holds[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

struct hold *hold_visible(struct run *run, const struct operation *operation, const struct uuid *id)
{
	struct hold *hold = hold_find(run, id);
	bool visible = hold && (hold->reservation.principal_id == operation->principal.id ||
	                        (operation->principal.scopes & SCOPE_ORDERS));
	return visible ? hold : NULL;
}

struct sale *sale_find(struct run *run, const struct uuid *id)
{
	size_t low = 0, high = run->input->checkout_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = uuid_compare(&run->sales[middle].checkout->id, id);
		if (order == 0)
			return &run->sales[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

int64_t hold_units(const struct hold *hold, struct text sku)
{
	const struct reservation *r = &hold->reservation;
	size_t low = 0, high = r->line_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = text_compare(r->lines[middle].sku, sku);
		if (order == 0)
			return r->lines[middle].counted ? r->lines[middle].quantity : 0;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return 0;
}

void hold_changed(struct run *run, struct hold *hold)
{
	if (!hold->changed)
		run->changed_holds[run->changed_hold_count++] = hold;
	hold->changed = true;
}

void lock_needed(struct run *run, struct text sku)
{
	if (run->locks_needed_count == run->locks_needed_room) {
		size_t room = run->locks_needed_room ? run->locks_needed_room * 2 : 16;
		struct text *codes = ARENA_ARRAY(run->arena, room, struct text);
		if (run->locks_needed_count)
			memcpy(codes, run->locks_needed, run->locks_needed_count * sizeof *codes);
		run->locks_needed = codes;
		run->locks_needed_room = room;
	}
	run->locks_needed[run->locks_needed_count++] = sku;
	run->needs_more = true;
}

/* --- verdicts -------------------------------------------------------------------------------------------------------- */

void refuse(struct operation *operation, enum lu_error error)
{
	operation->verdict.error = error;
}

struct shortage *shortage_add(struct operation *operation, struct text sku, int64_t requested)
{
	struct verdict *verdict = &operation->verdict;
	if (!verdict->shortages)
		verdict->shortages = ARENA_ARRAY(operation->arena, operation->line_count, struct shortage);
	CHECK(verdict->shortage_count < operation->line_count);
	struct shortage *shortage = &verdict->shortages[verdict->shortage_count++];
	*shortage = (struct shortage){.sku = sku, .requested = requested};
	return shortage;
}

void shortage_figures(struct shortage *shortage, const struct row *row, int64_t floor, int64_t own)
{
	int64_t available = row_free(row, floor, own);
	shortage->available = available > own ? available : own;
	shortage->held = row->sku.figures.reserved - own;
	shortage->next_release_us = shortage->held > 0 ? row->sku.next_release_us : 0;
}

void beyond_add(struct operation *operation, struct text sku, int64_t units, const struct row *row, size_t room)
{
	struct verdict *verdict = &operation->verdict;
	if (!verdict->shortages)
		verdict->shortages = ARENA_ARRAY(operation->arena, room, struct shortage);
	CHECK(verdict->shortage_count < room);
	verdict->shortages[verdict->shortage_count++] = (struct shortage){.sku = verdict_text(operation->arena, sku),
	                                                                  .requested = units,
	                                                                  .available = row->sku.figures.on_hand};
}

/* --- keys ------------------------------------------------------------------------------------------------------------ */

/* A key in its order: (principal, bytes). The first eight bytes as a number settle nearly every comparison. */
struct keyed {
	int64_t principal_id;
	uint64_t prefix;
	struct text key;
	size_t index; /* of the operation or stored answer */
};

static struct keyed keyed_of(int64_t principal_id, struct text key, size_t index)
{
	uint64_t prefix = 0;
	for (size_t i = 0; i < 8; i++)
		prefix = prefix << 8 | (i < key.size ? (uint8_t)key.data[i] : 0);
	return (struct keyed){principal_id, prefix, key, index};
}

static int key_compare(const struct keyed *a, const struct keyed *b)
{
	if (a->principal_id != b->principal_id)
		return a->principal_id < b->principal_id ? -1 : 1;
	if (a->prefix != b->prefix)
		return a->prefix < b->prefix ? -1 : 1;
	return text_compare(a->key, b->key);
}

static int keyed_compare(const void *left, const void *right)
{
	const struct keyed *a = left, *b = right;
	int order = key_compare(a, b);
	return order ? order : (a->index > b->index) - (a->index < b->index);
}

struct keys {
	struct keyed *operations;
	size_t operation_count;
	bool *decided; /* by operation: its key alone has settled it */
};

/* Settles every operation whose key is known: the same operation again has its stored answer repeated, another one is a
 * conflict. Of twins within the batch, which the queue keeps apart, the later one is to come again. */
static void keys_settle(const struct decision_input *input, struct keys *keys)
{
	struct keyed *answers = ARENA_ARRAY(input->arena, input->answer_count, struct keyed);
	for (size_t i = 0; i < input->answer_count; i++)
		answers[i] = keyed_of(input->answers[i].principal_id, input->answers[i].key, i);
	qsort(answers, input->answer_count, sizeof *answers, keyed_compare);
	keys->operations = ARENA_ARRAY(input->arena, input->operation_count, struct keyed);
	keys->decided = ARENA_ARRAY(input->arena, input->operation_count, bool);
	for (size_t i = 0; i < input->operation_count; i++) {
		const struct operation *op = input->operations[i];
		if (op->key.size)
			keys->operations[keys->operation_count++] = keyed_of(op->principal.id, op->key, i);
	}
	qsort(keys->operations, keys->operation_count, sizeof *keys->operations, keyed_compare);
	for (size_t i = 0, j = 0; i < keys->operation_count; i++) {
		const struct keyed *keyed = &keys->operations[i];
		struct operation *op = input->operations[keyed->index];
		while (j < input->answer_count && key_compare(&answers[j], keyed) < 0)
			j++;
		if (j < input->answer_count && key_compare(&answers[j], keyed) == 0) {
			const struct stored_answer *answer = &input->answers[answers[j].index];
			bool same = memcmp(answer->fingerprint, op->fingerprint, sizeof op->fingerprint) == 0;
			op->verdict = same ? verdict_copy(op->arena, &answer->verdict)
			                   : (struct verdict){.error = LU_IDEMPOTENCY_CONFLICT, .at_us = input->now_us};
			op->verdict.replayed = same;
		} else if (i > 0 && key_compare(keyed - 1, keyed) == 0) {
			op->verdict = (struct verdict){.error = LU_IDEMPOTENCY_IN_FLIGHT, .at_us = input->now_us};
		} else {
			continue;
		}
		keys->decided[keyed->index] = true;
	}
}

/* --- one run --------------------------------------------------------------------------------------------------------- */

static void run_init(struct run *run, const struct decision_input *input)
{
	struct arena *arena = input->arena;
	size_t operations = input->operation_count;
	*run = (struct run){.input = input, .arena = arena};
	run->rows = ARENA_ARRAY(arena, input->sku_count, struct row);
	for (size_t i = 0; i < input->sku_count; i++) {
		run->rows[i].sku = input->skus[i];
		run->rows[i].reserved_found = input->skus[i].figures.reserved;
		CHECK(figures_possible(&input->skus[i].figures));
		CHECK(i == 0 || text_compare(input->skus[i - 1].code, input->skus[i].code) < 0);
	}
	run->holds = ARENA_ARRAY(arena, input->reservation_count, struct hold);
	for (size_t i = 0; i < input->reservation_count; i++) {
		run->holds[i].reservation = *input->reservations[i];
		CHECK(i == 0 || uuid_compare(&input->reservations[i - 1]->id, &input->reservations[i]->id) < 0);
	}
	run->sales = ARENA_ARRAY(arena, input->checkout_count, struct sale);
	for (size_t i = 0; i < input->checkout_count; i++) {
		run->sales[i].checkout = input->checkouts[i];
		CHECK(i == 0 || uuid_compare(&input->checkouts[i - 1]->id, &input->checkouts[i]->id) < 0);
	}
	run->holdings = ARENA_ARRAY(arena, input->holdings_count, struct holdings);
	for (size_t i = 0; i < input->holdings_count; i++) {
		const struct holdings *h = &input->holdings[i];
		run->holdings[i] = *h;
		run->holdings[i].held = ARENA_ARRAY(arena, h->held_count, struct held);
		if (h->held_count)
			memcpy(run->holdings[i].held, h->held, h->held_count * sizeof *h->held);
	}
	run->changed_holds = ARENA_ARRAY(arena, input->reservation_count + input->due_count, struct hold *);
	run->new_reservations = ARENA_ARRAY(arena, operations, struct reservation *);
	run->new_checkouts = ARENA_ARRAY(arena, operations, struct checkout *);
	size_t orders = 0;
	for (size_t i = 0; i < operations; i++)
		orders += input->operations[i]->kind == OPERATION_ORDER_PUT;
	run->orders = ARENA_ARRAY(arena, orders, struct numbered);
}

static void operation_decide(struct run *run, struct operation *op)
{
	op->verdict = (struct verdict){.at_us = run->input->now_us};
	/* A twin line would be checked against figures that do not know of the other. */
	for (size_t i = 1; i < op->line_count; i++)
		CHECK(text_compare(op->lines[i - 1].sku, op->lines[i].sku) < 0);
	switch (op->kind) {
	case OPERATION_CHECKOUT:
	case OPERATION_RESERVE:
		decide_cart(run, op);
		return;
	case OPERATION_COMMIT:
		decide_commit(run, op);
		return;
	case OPERATION_RELEASE:
		decide_release(run, op);
		return;
	case OPERATION_EXTEND:
		decide_extend(run, op);
		return;
	case OPERATION_EXPIRE:
		decide_expire(run, op);
		return;
	case OPERATION_CANCEL:
		decide_cancel(run, op);
		return;
	case OPERATION_ADJUST:
		decide_adjust(run, op);
		return;
	case OPERATION_SKU_PUT:
		decide_sku_put(run, op);
		return;
	case OPERATION_REFRESH:
		decide_refresh(run, op);
		return;
	case OPERATION_ORDER_PUT:
		decide_order_put(run, op);
		return;
	}
	CHECK(false); /* an operation has a kind */
}

static int text_order(const void *left, const void *right)
{
	return text_compare(*(const struct text *)left, *(const struct text *)right);
}

/* Holds first: they can be had under the locks already held, and may show that still more locks are needed. */
static struct decision ask_for_more(struct run *run)
{
	struct decision decision = {.result = DECISION_NEEDS_HOLDS};
	if (run->holds_needed_count) {
		decision.needed = ARENA_ARRAY(run->arena, run->holds_needed_count, struct text);
		for (size_t i = 0; i < run->input->sku_count; i++)
			if (run->rows[i].holds_needed)
				decision.needed[decision.needed_count++] = run->rows[i].sku.code;
		return decision;
	}
	decision.result = DECISION_NEEDS_LOCKS;
	decision.needed = run->locks_needed;
	qsort(decision.needed, run->locks_needed_count, sizeof *decision.needed, text_order);
	for (size_t i = 0; i < run->locks_needed_count; i++)
		if (i == 0 || !text_equal(run->locks_needed[i], decision.needed[decision.needed_count - 1]))
			decision.needed[decision.needed_count++] = run->locks_needed[i];
	return decision;
}

static void list_rows(struct run *run, struct decision *decision)
{
	size_t changed = 0, refreshed = 0;
	for (size_t i = 0; i < run->input->sku_count; i++) {
		changed += run->rows[i].changed;
		refreshed += run->rows[i].refresh && !run->rows[i].changed; /* a changed one is published anyway */
	}
	decision->changed = ARENA_ARRAY(run->arena, changed, struct locked_sku);
	decision->refreshed = ARENA_ARRAY(run->arena, refreshed, struct sku_figures);
	for (size_t i = 0; i < run->input->sku_count; i++) {
		const struct row *row = &run->rows[i];
		if (row->changed)
			decision->changed[decision->changed_count++] = row->sku;
		else if (row->refresh)
			decision->refreshed[decision->refreshed_count++] = (struct sku_figures){.sku = row->sku.code,
			                                                                        .figures = row->sku.figures};
	}
}

static void list_objects(struct run *run, struct decision *decision)
{
	decision->reservation_changes = ARENA_ARRAY(run->arena, run->changed_hold_count, struct reservation_change);
	for (size_t i = 0; i < run->changed_hold_count; i++) {
		struct reservation *reservation = &run->changed_holds[i]->reservation;
		decision->reservation_changes[decision->reservation_change_count++] =
			(struct reservation_change){reservation, reservation->state != RESERVATION_ACTIVE};
	}
	decision->changed_checkouts = ARENA_ARRAY(run->arena, run->input->checkout_count, struct checkout *);
	for (size_t i = 0; i < run->input->checkout_count; i++)
		if (run->sales[i].changed) /* it is our own copy then */
			decision->changed_checkouts[decision->changed_checkout_count++] = (struct checkout *)run->sales[i].checkout;
}

static void list_answers(struct run *run, const struct keys *keys, struct decision *decision)
{
	decision->answers = ARENA_ARRAY(run->arena, keys->operation_count, struct operation *);
	for (size_t i = 0; i < keys->operation_count; i++) {
		struct operation *op = run->input->operations[keys->operations[i].index];
		if (!keys->decided[keys->operations[i].index] && lu_error_stored(op->verdict.error))
			decision->answers[decision->answer_count++] = op;
	}
}

struct decision decide(const struct decision_input *input)
{
	struct run run;
	run_init(&run, input);
	struct keys keys = {0};
	keys_settle(input, &keys);
	for (size_t i = 0; i < input->operation_count; i++)
		if (!keys.decided[i])
			operation_decide(&run, input->operations[i]);
	if (run.needs_more)
		return ask_for_more(&run);
	struct decision decision = {
		.result = DECISION_MADE,
		.entries = run.entries,
		.entry_count = run.entry_count,
		.new_reservations = run.new_reservations,
		.new_reservation_count = run.new_reservation_count,
		.new_checkouts = run.new_checkouts,
		.new_checkout_count = run.new_checkout_count,
		.inserts = run.inserts,
		.insert_count = run.insert_count,
		.describes = run.describes,
		.describe_ids = run.describe_ids,
		.describe_count = run.describe_count,
		.expired_count = run.expired_count,
	};
	list_rows(&run, &decision);
	list_objects(&run, &decision);
	list_orders(&run, &decision);
	list_answers(&run, &keys, &decision);
	return decision;
}
