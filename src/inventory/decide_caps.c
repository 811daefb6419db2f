/* Caps against hoarding: how many holds, and how many units of one SKU, a principal and each of its callers may have at a
 * time.
 *
 * Happy path: the principal has no cap, and nothing is looked at. Else what it holds was counted behind the locks of this
 * batch; carts before this one in the batch are added. The hold that the cart takes the place of does not count if it was
 * counted: against a principal's cap its own ones, against a caller's cap that caller's.
 * Failure modes: LU_TOO_MANY_HOLDS, with a sentence that names the cap; it is true of this moment only (but of a cart for
 * which the cap has no room at all), so it is not stored under the key. What else the batch ends is not taken off: its
 * answer is not out either, so nobody can have relied on it.
 *
 * Soft: holds of other SKUs come and go beside this transaction, so a race may lift the number of holds a little above its
 * cap. Units of a SKU are counted under that SKU's lock and are exact.
 */
#include <inttypes.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "inventory/decide_internal.h"

struct cap {
	const char *who, *holds_policy, *units_policy;
	struct text caller; /* data NULL: the principal as a whole */
	int64_t holds_max, units_max;
};

/* The caps that an operation is under; at most two. */
static size_t caps_of(const struct operation *op, struct cap ret_caps[2])
{
	const struct principal_settings *s = &op->principal.settings;
	size_t count = 0;
	if (s->holds_max || s->held_units_max)
		ret_caps[count++] = (struct cap){.who = "This key's principal",
		                                 .holds_policy = "principal-holds",
		                                 .units_policy = "principal-held-units",
		                                 .holds_max = s->holds_max,
		                                 .units_max = s->held_units_max};
	if (op->caller.data && (s->caller_holds_max || s->caller_held_units_max))
		ret_caps[count++] = (struct cap){.who = "This caller",
		                                 .holds_policy = "caller-holds",
		                                 .units_policy = "caller-held-units",
		                                 .caller = op->caller,
		                                 .holds_max = s->caller_holds_max,
		                                 .units_max = s->caller_held_units_max};
	return count;
}

static struct holdings *holdings_find(struct run *run, const struct operation *op, struct text caller)
{
	for (size_t i = 0; i < run->input->holdings_count; i++) {
		struct holdings *h = &run->holdings[i];
		if (h->principal_id == op->principal.id && !h->caller.data == !caller.data && text_equal(h->caller, caller))
			return h;
	}
	check_failed(__FILE__, __LINE__, "the holdings of whoever has a cap"); /* the batch reads them */
}

static struct held *held_find(const struct holdings *holdings, int64_t sku_id)
{
	size_t low = 0, high = holdings->held_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		struct held *held = &holdings->held[middle];
		if (held->sku_id == sku_id)
			return held;
		if (held->sku_id < sku_id)
			low = middle + 1;
		else
			high = middle;
	}
	check_failed(__FILE__, __LINE__, "the units held of every SKU in a capped cart");
}

/* The old hold, if ending it makes room under this cap: it is among what was counted for it. */
static const struct hold *own(const struct operation *op, const struct cap *cap, const struct hold *old)
{
	if (!old || old->reservation.principal_id != op->principal.id)
		return NULL;
	bool counted = !cap->caller.data ||
	               (old->reservation.caller.data && text_equal(old->reservation.caller, cap->caller));
	return counted ? old : NULL;
}

/* A cap may have been lowered below what is held. */
static void reach(struct operation *op, const char *policy, int64_t quota, int64_t taken)
{
	refuse(op, LU_TOO_MANY_HOLDS);
	op->verdict.cap = (struct cap_reached){.policy = policy, .quota = quota, .left = taken < quota ? quota - taken : 0};
}

#define MEND "Commit or release a hold, or wait until one ends."

static bool holds_allow(struct operation *op, const struct cap *cap, const struct holdings *holdings,
                        const struct hold *old)
{
	int64_t holds = holdings->holds - (own(op, cap, old) != NULL);
	if (!cap->holds_max || holds < cap->holds_max)
		return true;
	reach(op, cap->holds_policy, cap->holds_max, holds);
	op->verdict.detail = arena_printf(op->arena,
	                                  "%s has %" PRId64 " live holds and may have %" PRId64 " at a time. " MEND,
	                                  cap->who, holds, cap->holds_max);
	return false;
}

static void refuse_units(struct operation *op, const struct cap *cap, const struct line *line, int64_t units)
{
	reach(op, cap->units_policy, cap->units_max, units);
	op->verdict.cap.never = line->quantity > cap->units_max;
	if (op->verdict.cap.never)
		op->verdict.detail = arena_printf(op->arena,
		                                  "%s asks for %" PRId64
		                                  " units of %.*s. Ask for fewer: never more than %" PRId64 " at a time.",
		                                  cap->who, line->quantity, (int)line->sku.size, line->sku.data,
		                                  cap->units_max);
	else
		op->verdict.detail = arena_printf(op->arena,
		                                  "%s holds %" PRId64 " units of %.*s, asks for %" PRId64
		                                  " and may hold %" PRId64 " at a time. Ask for fewer. " MEND,
		                                  cap->who, units, (int)line->sku.size, line->sku.data, line->quantity,
		                                  cap->units_max);
}

static bool units_allow(struct run *run, struct operation *op, const struct cap *cap, const struct holdings *holdings,
                        const struct hold *old)
{
	for (size_t i = 0; cap->units_max && i < op->line_count; i++) {
		const struct line *line = &op->lines[i];
		const struct row *row = row_find(run, line->sku);
		if (!row->sku.figures.tracked)
			continue;
		int64_t units = held_find(holdings, row->sku.id)->units;
		if (own(op, cap, old))
			units -= hold_units(old, line->sku);
		if (units + line->quantity <= cap->units_max)
			continue;
		refuse_units(op, cap, line, units);
		return false;
	}
	return true;
}

bool caps_allow(struct run *run, struct operation *op, const struct hold *old)
{
	struct cap caps[2];
	size_t count = caps_of(op, caps);
	for (size_t i = 0; i < count; i++) {
		const struct holdings *holdings = holdings_find(run, op, caps[i].caller);
		if (!holds_allow(op, &caps[i], holdings, old) || !units_allow(run, op, &caps[i], holdings, old))
			return false;
	}
	return true;
}

void caps_count(struct run *run, const struct operation *op, const struct hold *old)
{
	struct cap caps[2];
	size_t count = caps_of(op, caps);
	for (size_t i = 0; i < count; i++) {
		struct holdings *holdings = holdings_find(run, op, caps[i].caller);
		holdings->holds += own(op, &caps[i], old) ? 0 : 1;
		for (size_t j = 0; j < op->line_count; j++) {
			const struct row *row = row_find(run, op->lines[j].sku);
			if (!row->sku.figures.tracked)
				continue;
			held_find(holdings, row->sku.id)->units += op->lines[j].quantity -
			                                           (own(op, &caps[i], old) ? hold_units(old, op->lines[j].sku) : 0);
		}
	}
}
