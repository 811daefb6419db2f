/* How holds end: COMMIT, RELEASE, EXTEND (which puts the end off), EXPIRE, and the expiry of due holds for a cart that
 * is short.
 *
 *   active ──▶ committed | released | expired        one way, once; a due hold can only expire (I11)
 *
 * Happy path: the hold is visible and active, all its counted rows are locked; each yields one entry.
 * Failure modes: a due hold is expired by whoever finds it, whatever was asked. Missing locks are asked for. A hold that
 * does not fit its rows (reserved would turn negative) is damaged data: its own operations fail as LU_INTERNAL, carts
 * pass it by.
 */
#include "base/arena.h"
#include "base/check.h"
#include "base/clock.h"
#include "inventory/decide_internal.h"
#include "inventory/verdict.h"

enum hold_check hold_check(struct run *run, const struct hold *hold, bool commit)
{
	enum hold_check result = hold->reservation.line_count ? HOLD_READY : HOLD_BROKEN;
	for (size_t i = 0; i < hold->reservation.line_count; i++) {
		const struct line *line = &hold->reservation.lines[i];
		if (!line->counted)
			continue;
		const struct row *row = row_find(run, line->sku);
		if (!row)
			result = HOLD_UNLOCKED;
		else if (!row_can_move(row, commit ? -line->quantity : 0, -line->quantity, 1))
			return HOLD_BROKEN;
	}
	return result;
}

bool hold_due(const struct run *run, const struct hold *hold)
{
	return hold->reservation.state == RESERVATION_ACTIVE && hold->reservation.expires_us <= run->input->now_us;
}

void hold_end(struct run *run, struct hold *hold, enum reservation_state state, const struct author *author,
              struct line *ret_lines)
{
	CHECK(hold->reservation.state == RESERVATION_ACTIVE); /* one end, and for ever (I11) */
	bool commit = state == RESERVATION_COMMITTED;
	enum ledger_kind kind = commit ? LEDGER_COMMIT : state == RESERVATION_RELEASED ? LEDGER_RELEASE : LEDGER_EXPIRE;
	for (size_t i = 0; i < hold->reservation.line_count; i++) {
		const struct line *line = &hold->reservation.lines[i];
		struct row *row = line->counted ? row_find(run, line->sku) : NULL;
		CHECK(row || !line->counted || run->needs_more);
		if (!row)
			continue;
		int64_t version = row_move(run, row, kind, commit ? -line->quantity : 0, -line->quantity, author);
		if (ret_lines)
			ret_lines[i].version = version;
	}
	hold->reservation.state = state;
	hold->reservation.ended_us = run->input->now_us;
	hold_changed(run, hold);
}

static void hold_need_locks(struct run *run, const struct hold *hold)
{
	for (size_t i = 0; i < hold->reservation.line_count; i++) {
		const struct line *line = &hold->reservation.lines[i];
		if (line->counted && !row_find(run, line->sku))
			lock_needed(run, line->sku);
	}
}

bool hold_expire(struct run *run, struct hold *hold)
{
	enum hold_check check = hold_check(run, hold, false);
	if (check == HOLD_BROKEN)
		return false;
	if (check == HOLD_UNLOCKED)
		hold_need_locks(run, hold);
	struct author author = {.channel = CHANNEL_SYSTEM,
	                        .reference = hold->reservation.reference,
	                        .operation_id = hold->reservation.id};
	hold_end(run, hold, RESERVATION_EXPIRED, &author, NULL);
	run->expired_count++;
	return true;
}

/* --- for a cart that is short ------------------------------------------------------------------------------------- */

/* Once a run, for the first cart that is short: each due hold joins the list of every SKU it holds units of. */
static void due_list(struct run *run)
{
	const struct decision_input *input = run->input;
	run->due_listed = true;
	for (size_t i = 0; i < input->sku_count; i++)
		run->rows[i].due_end = &run->rows[i].due;
	for (size_t i = 0; i < input->due_count; i++) {
		struct hold *hold = hold_find(run, &input->due[i]->id);
		if (!hold) {
			hold = ARENA_NEW(run->arena, struct hold);
			hold->reservation = *input->due[i];
		}
		for (size_t j = 0; j < hold->reservation.line_count; j++) {
			const struct line *line = &hold->reservation.lines[j];
			struct row *row = line->counted ? row_find(run, line->sku) : NULL;
			if (!row)
				continue;
			struct due *due = ARENA_NEW(run->arena, struct due);
			due->hold = hold;
			*row->due_end = due;
			row->due_end = &due->next;
		}
	}
}

static struct hold *due_next(const struct run *run, struct row *row)
{
	while (row->due && !hold_due(run, row->due->hold))
		row->due = row->due->next;
	if (!row->due)
		return NULL;
	struct hold *hold = row->due->hold;
	row->due = row->due->next;
	return hold;
}

static void need_holds(struct run *run, struct row *row)
{
	run->holds_needed_count += !row->holds_needed;
	row->holds_needed = true;
	run->needs_more = true;
}

void row_secure(struct run *run, struct row *row, int64_t units, int64_t floor, int64_t own)
{
	if (!run->due_listed)
		due_list(run);
	while (row_free(row, floor, own) < units) {
		if (row->sku.figures.reserved - own <= 0 || row->reserved_found - own <= 0)
			return; /* nobody else's units; what this batch held is not due */
		if (!row->sku.holds_known) {
			need_holds(run, row);
			return;
		}
		struct hold *hold = due_next(run, row);
		if (!hold) {
			if (row->sku.holds_more)
				need_holds(run, row);
			return;
		}
		hold_expire(run, hold);
	}
}

/* --- by id -------------------------------------------------------------------------------------------------------- */

/* The hold an operation is about, alive and ready to end or be extended; else NULL, the operation refused. What is due
 * expires here. */
static struct hold *hold_alive(struct run *run, struct operation *op, struct hold *hold, bool commit)
{
	switch (hold->reservation.state) {
	case RESERVATION_COMMITTED:
	case RESERVATION_RELEASED:
		refuse(op, LU_RESERVATION_NOT_ACTIVE);
		return NULL;
	case RESERVATION_EXPIRED:
		refuse(op, LU_RESERVATION_EXPIRED);
		return NULL;
	case RESERVATION_ACTIVE:
		break;
	}
	if (hold_due(run, hold)) {
		refuse(op, hold_expire(run, hold) ? LU_RESERVATION_EXPIRED : LU_INTERNAL);
		return NULL;
	}
	switch (hold_check(run, hold, commit)) {
	case HOLD_READY:
		return hold;
	case HOLD_UNLOCKED:
		hold_need_locks(run, hold);
		return NULL;
	case HOLD_BROKEN:
		break;
	}
	refuse(op, LU_INTERNAL);
	return NULL;
}

/* Whose a hold was is not known of one that has ended, nor does it matter. */
static bool hold_of_another(const struct run *run, const struct operation *op, const struct hold *hold)
{
	const struct reservation *r = &hold->reservation;
	return r->state == RESERVATION_ACTIVE && !hold_due(run, hold) && !caller_may_have(op->caller, r->caller);
}

static struct hold *hold_target(struct run *run, struct operation *op)
{
	struct hold *hold = hold_visible(run, op, &op->target);
	op->verdict.object_id = op->target;
	if (!hold) {
		refuse(op, LU_UNKNOWN_RESERVATION);
	} else if (hold_of_another(run, op, hold)) {
		refuse(op, LU_FORBIDDEN);
		hold = NULL;
	}
	return hold;
}

static void show_hold(struct operation *op, const struct hold *hold)
{
	op->verdict.reservation = verdict_reservation(op->arena, &hold->reservation);
}

/* Committed before: the same answer again. */
static void commit_again(struct run *run, struct operation *op, const struct hold *hold)
{
	const struct sale *sale = sale_find(run, &hold->reservation.checkout_id);
	const struct checkout *checkout = sale ? sale->checkout : hold->checkout;
	if (!checkout) {
		refuse(op, LU_INTERNAL);
		return;
	}
	op->verdict.checkout = verdict_checkout(op->arena, checkout);
	op->verdict.object_id = checkout->id;
}

void decide_commit(struct run *run, struct operation *op)
{
	struct hold *hold = hold_target(run, op);
	if (!hold)
		return;
	if (hold->reservation.state == RESERVATION_COMMITTED) {
		commit_again(run, op, hold);
		return;
	}
	if (!hold_alive(run, op, hold, true))
		return;
	struct reservation *reservation = &hold->reservation;
	struct checkout *checkout = ARENA_NEW(op->arena, struct checkout);
	*checkout = (struct checkout){
		.id = op->new_id,
		.principal_id = op->principal.id,
		.channel = op->principal.channel,
		.reference = verdict_text(op->arena, reservation->reference),
		.reservation_id = reservation->id,
		.created_us = run->input->now_us,
		.lines = ARENA_ARRAY(op->arena, reservation->line_count, struct line),
		.line_count = reservation->line_count,
	};
	for (size_t i = 0; i < reservation->line_count; i++) {
		const struct line *line = &reservation->lines[i];
		checkout->lines[i] = (struct line){.sku = verdict_text(op->arena, line->sku),
		                                   .quantity = line->quantity,
		                                   .sku_id = line->sku_id,
		                                   .counted = line->counted};
	}
	struct author author = operation_author(op, reservation->reference, reservation->id);
	hold_end(run, hold, RESERVATION_COMMITTED, &author, checkout->lines);
	reservation->checkout_id = checkout->id;
	hold->checkout = checkout;
	run->new_checkouts[run->new_checkout_count++] = checkout;
	op->verdict.checkout = checkout;
	op->verdict.object_id = checkout->id;
}

void decide_release(struct run *run, struct operation *op)
{
	struct hold *hold = hold_target(run, op);
	if (!hold)
		return;
	switch (hold->reservation.state) {
	case RESERVATION_COMMITTED:
		refuse(op, LU_RESERVATION_NOT_ACTIVE);
		return;
	case RESERVATION_ACTIVE:
		if (hold_due(run, hold)) {
			if (!hold_expire(run, hold)) {
				refuse(op, LU_INTERNAL);
				return;
			}
		} else {
			if (!hold_alive(run, op, hold, false))
				return;
			struct author author = operation_author(op, hold->reservation.reference, hold->reservation.id);
			hold_end(run, hold, RESERVATION_RELEASED, &author, NULL);
		}
		break;
	case RESERVATION_RELEASED:
	case RESERVATION_EXPIRED:
		break;
	}
	show_hold(op, hold);
}

void decide_extend(struct run *run, struct operation *op)
{
	struct hold *hold = hold_target(run, op);
	if (!hold)
		return;
	if (op->ttl_s < 0 || op->ttl_s > LU_TTL_SECONDS_MAX) {
		refuse(op, LU_INVALID_TTL);
		return;
	}
	if (!hold_alive(run, op, hold, false))
		return;
	int64_t ttl_s = op->ttl_s ? op->ttl_s : channel_ttl_s(op->principal.channel);
	int64_t expires_us = run->input->now_us + ttl_s * US_PER_S;
	if (expires_us > hold->reservation.created_us + LU_HOLD_LIFE_SECONDS_MAX * US_PER_S) {
		refuse(op, LU_INVALID_TTL);
		return;
	}
	if (expires_us > hold->reservation.expires_us) {
		hold->reservation.expires_us = expires_us;
		hold_changed(run, hold);
	}
	show_hold(op, hold);
}

/* The reaper's, and GET's for a hold that is due: it may name anybody's hold, and one that is not due (it was extended
 * meanwhile) is left alone. */
void decide_expire(struct run *run, struct operation *op)
{
	struct hold *hold = hold_find(run, &op->target);
	op->verdict.object_id = op->target;
	if (!hold) {
		refuse(op, LU_UNKNOWN_RESERVATION);
		return;
	}
	if (hold_due(run, hold) && !hold_expire(run, hold)) {
		refuse(op, LU_INTERNAL);
		return;
	}
	show_hold(op, hold);
}
