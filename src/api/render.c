/* Rendering: structs to JSON.
 *
 * Happy path: straight into the buffer, one function per object. Nothing here can fail.
 */
#include "api/render.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"

/* --- availability: the hot path ----------------------------------------------------------------------------------- */

void render_availability(struct json_writer *w, const struct lookup_item *item, const struct principal *principal)
{
	render_availability_open(w, item, principal);
	json_object_close(w);
}

/* What is not counted is always there. */
static void put_available(struct json_writer *w, const struct figures *figures, int64_t available)
{
	json_key(w, "available");
	if (figures->tracked)
		json_put_int(w, available);
	else
		json_put_null(w);
}

void render_availability_open(struct json_writer *w, const struct lookup_item *item, const struct principal *principal)
{
	const struct figures *figures = &item->figures;
	json_object_open(w);
	json_member_text(w, "sku", item->sku);
	if (!item->known) {
		json_member_string(w, "status", "unknown");
		return;
	}
	json_member_string(w, "status", figures_in_stock(figures, principal) ? "in_stock" : "out_of_stock");
	put_available(w, figures, figures_available(figures, principal));
	json_member_int(w, "held", figures->reserved);
	json_member_bool(w, "tracked", figures->tracked);
	json_member_int(w, "version", figures->version);
	if (item->source == LOOKUP_STALE)
		json_member_bool(w, "stale", true);
}

static char *put_digits(char *to, int64_t value)
{
	char digits[20];
	size_t n = 0;
	do
		digits[n++] = (char)('0' + value % 10);
	while (value /= 10);
	while (n)
		*to++ = digits[--n];
	return to;
}

size_t render_etag(const struct figures *figures, const struct principal *principal, char out[ETAG_BYTES_MAX])
{
	char *to = out;
	*to++ = '"';
	to = put_digits(to, figures->version);
	*to++ = '.';
	if (figures->tracked)
		to = put_digits(to, figures_available(figures, principal));
	else
		*to++ = 'u';
	*to++ = '.';
	to = put_digits(to, figures->reserved);
	*to++ = '"';
	return (size_t)(to - out);
}

/* --- reservations, checkouts, adjustments ------------------------------------------------------------------------- */

static void member_line_version(struct json_writer *w, const struct line *line)
{
	json_key(w, "version");
	if (line->counted)
		json_put_int(w, line->version);
	else
		json_put_null(w);
}

static const char *checkout_status(const struct checkout *checkout)
{
	bool some = false, all = true;
	for (size_t i = 0; i < checkout->line_count; i++) {
		some |= checkout->lines[i].cancelled > 0;
		all &= checkout->lines[i].cancelled == checkout->lines[i].quantity;
	}
	return !some ? "completed" : all ? "cancelled" : "partially_cancelled";
}

void render_checkout(struct json_writer *w, const struct checkout *checkout)
{
	json_object_open(w);
	json_member_uuid(w, "id", &checkout->id);
	json_member_string(w, "status", checkout_status(checkout));
	json_key(w, "lines");
	json_array_open(w);
	for (size_t i = 0; i < checkout->line_count; i++) {
		const struct line *line = &checkout->lines[i];
		json_object_open(w);
		json_member_text(w, "sku", line->sku);
		json_member_int(w, "quantity", line->quantity);
		json_member_int(w, "cancelled", line->cancelled);
		member_line_version(w, line);
		json_object_close(w);
	}
	json_array_close(w);
	json_member_text(w, "reference", checkout->reference);
	json_member_uuid(w, "reservation_id", &checkout->reservation_id);
	json_member_time(w, "created_at", checkout->created_us);
	json_member_string(w, "channel", channel_name(checkout->channel));
	json_object_close(w);
}

static const char *const state_names[] = {
	[RESERVATION_ACTIVE] = "active",
	[RESERVATION_COMMITTED] = "committed",
	[RESERVATION_RELEASED] = "released",
	[RESERVATION_EXPIRED] = "expired",
};

const char *reservation_state_name(enum reservation_state state)
{
	CHECK(state >= RESERVATION_ACTIVE && state <= RESERVATION_EXPIRED);
	return state_names[state];
}

bool reservation_state_parse(struct text name, enum reservation_state *ret_state)
{
	for (enum reservation_state state = RESERVATION_ACTIVE; state <= RESERVATION_EXPIRED; state++)
		if (text_equal(name, text_of(state_names[state]))) {
			*ret_state = state;
			return true;
		}
	return false;
}

enum reservation_state reservation_state_at(const struct reservation *reservation, int64_t now_us)
{
	bool due = reservation->state == RESERVATION_ACTIVE && reservation->expires_us <= now_us;
	return due ? RESERVATION_EXPIRED : reservation->state;
}

void render_reservation(struct json_writer *w, const struct reservation *reservation, int64_t now_us)
{
	enum reservation_state state = reservation_state_at(reservation, now_us);
	json_object_open(w);
	json_member_uuid(w, "id", &reservation->id);
	json_member_string(w, "status", reservation_state_name(state));
	json_member_time(w, "expires_at", reservation->expires_us);
	/* Rounded down: a promise of units is never longer than they are held. */
	int64_t left_us = state == RESERVATION_ACTIVE ? reservation->expires_us - now_us : 0;
	json_member_int(w, "expires_in_seconds", left_us / US_PER_S);
	json_key(w, "lines");
	json_array_open(w);
	for (size_t i = 0; i < reservation->line_count; i++) {
		const struct line *line = &reservation->lines[i];
		json_object_open(w);
		json_member_text(w, "sku", line->sku);
		json_member_int(w, "quantity", line->quantity);
		member_line_version(w, line);
		json_object_close(w);
	}
	json_array_close(w);
	json_member_text(w, "reference", reservation->reference);
	json_member_uuid(w, "checkout_id", &reservation->checkout_id);
	json_member_time(w, "created_at", reservation->created_us);
	json_member_string(w, "channel", channel_name(reservation->channel));
	json_object_close(w);
}

void render_order(struct json_writer *w, const struct order *order)
{
	json_object_open(w);
	json_member_text(w, "number", order->number);
	json_member_int(w, "version", order->version);
	json_member_string(w, "status", order->line_count ? "completed" : "cancelled");
	json_key(w, "lines");
	json_array_open(w);
	for (size_t i = 0; i < order->line_count; i++) {
		json_object_open(w);
		json_member_text(w, "sku", order->lines[i].sku);
		json_member_int(w, "quantity", order->lines[i].quantity);
		json_object_close(w);
	}
	json_array_close(w);
	json_member_uuid(w, "id", &order->id);
	json_member_time(w, "created_at", order->created_us);
	json_member_time(w, "changed_at", order->changed_us);
	json_member_string(w, "channel", channel_name(order->channel));
	json_object_close(w);
}

void render_adjustment(struct json_writer *w, const struct verdict *verdict)
{
	json_object_open(w);
	json_member_uuid(w, "id", &verdict->object_id);
	json_key(w, "lines");
	json_array_open(w);
	for (size_t i = 0; i < verdict->figures_count; i++) {
		const struct figures *figures = &verdict->figures[i].figures;
		json_object_open(w);
		json_member_text(w, "sku", verdict->figures[i].sku);
		json_member_int(w, "on_hand", figures->on_hand);
		json_member_int(w, "reserved", figures->reserved);
		put_available(w, figures, verdict->figures[i].available);
		json_member_int(w, "version", figures->version);
		json_object_close(w);
	}
	json_array_close(w);
	json_object_close(w);
}

/* --- SKUs and their ledger ---------------------------------------------------------------------------------------- */

void render_sku(struct json_writer *w, struct text code, const struct figures *figures, struct text titles_json,
                const struct sku_names *names, int64_t available)
{
	json_object_open(w);
	json_member_text(w, "sku", code);
	if (titles_json.data) {
		json_key(w, "titles");
		json_put_jsonb(w, titles_json);
	}
	if (names) {
		json_key(w, "names");
		json_array_open(w);
		for (size_t i = 0; i < names->count; i++)
			json_put_text(w, names->names[i]);
		json_array_close(w);
	}
	json_member_int(w, "on_hand", figures->on_hand);
	json_member_int(w, "reserved", figures->reserved);
	json_member_int(w, "safety_stock", figures->safety_stock);
	json_member_bool(w, "tracked", figures->tracked);
	put_available(w, figures, available);
	json_member_int(w, "version", figures->version);
	json_object_close(w);
}

static void ledger_members(struct json_writer *w, const struct ledger_row *row)
{
	const struct ledger_entry *entry = &row->entry;
	json_member_int(w, "version", entry->version);
	json_member_string(w, "kind", ledger_kind_name(entry->kind));
	json_member_int(w, "on_hand_delta", entry->on_hand_delta);
	json_member_int(w, "reserved_delta", entry->reserved_delta);
	json_member_int(w, "on_hand_after", entry->on_hand_after);
	json_member_int(w, "reserved_after", entry->reserved_after);
	json_member_string(w, "channel", channel_name(entry->channel));
	json_member_text(w, "principal", row->principal);
	json_member_text(w, "reference", entry->reference);
	json_member_uuid(w, "operation_id", &entry->operation_id);
	json_member_time(w, "at", row->at_us);
}

void render_ledger_row(struct json_writer *w, const struct ledger_row *row)
{
	json_object_open(w);
	ledger_members(w, row);
	json_object_close(w);
}

void render_change(struct json_writer *w, struct text sku, const struct ledger_row *row)
{
	json_object_open(w);
	json_member_text(w, "sku", sku);
	ledger_members(w, row);
	json_object_close(w);
}

/* --- verdicts ----------------------------------------------------------------------------------------------------- */

void render_verdict(struct json_writer *w, const struct operation *operation)
{
	const struct verdict *verdict = &operation->verdict;
	CHECK(!verdict->error);
	switch (operation->kind) {
	case OPERATION_CHECKOUT:
	case OPERATION_COMMIT:
	case OPERATION_CANCEL:
		CHECK(verdict->checkout);
		render_checkout(w, verdict->checkout);
		return;
	case OPERATION_RESERVE:
	case OPERATION_EXTEND:
	case OPERATION_RELEASE:
		CHECK(verdict->reservation);
		render_reservation(w, verdict->reservation, verdict->at_us);
		return;
	case OPERATION_ADJUST:
		render_adjustment(w, verdict);
		return;
	case OPERATION_ORDER_PUT:
		CHECK(verdict->order);
		render_order(w, verdict->order);
		return;
	case OPERATION_SKU_PUT:
	case OPERATION_EXPIRE:
	case OPERATION_REFRESH:
		break;
	}
	CHECK(false); /* routes, batches and channels render those themselves, or never see them */
}

int verdict_status(const struct operation *operation)
{
	if (operation->verdict.error)
		return lu_error_status(operation->verdict.error);
	switch (operation->kind) {
	case OPERATION_CHECKOUT:
	case OPERATION_RESERVE:
	case OPERATION_ADJUST:
		return 201;
	case OPERATION_SKU_PUT:
		return operation->verdict.created ? 201 : 200;
	default:
		return 200;
	}
}

#define LINES_TOLD_MAX 5

/* "A: 3 requested, 1 available, 2 held until 14:32:05Z". */
static void tell_shortage(struct buffer *out, enum operation_kind kind, const struct shortage *shortage)
{
	buffer_add_format(out,
	                  kind == OPERATION_ADJUST ? "%" PRId64 " to take away, %" PRId64 " may be"
	                                           : "%" PRId64 " requested, %" PRId64 " available",
	                  shortage->requested, shortage->available);
	if (!shortage->held)
		return;
	buffer_add_format(out, ", %" PRId64 " held", shortage->held);
	if (shortage->next_release_us) {
		char time[25];
		clock_format(shortage->next_release_us, time);
		buffer_add_format(out, " until %.8sZ", time + strlen("2026-11-29T"));
	}
}

/* What `requested` and `available` of a shortage mean depends on why it was refused. */
static void tell_line(struct buffer *out, enum operation_kind kind, enum lu_error error,
                      const struct shortage *shortage)
{
	buffer_add_text(out, shortage->sku);
	buffer_add_string(out, ": ");
	switch (error) {
	case LU_UNKNOWN_SKU:
		buffer_add_string(out, "not known");
		return;
	case LU_CHANGE_FROM_MISMATCH:
		buffer_add_format(out, "change_from is %" PRId64 ", on_hand is %" PRId64, shortage->requested,
		                  shortage->available);
		return;
	case LU_EXCEEDS_SOLD:
		buffer_add_format(out, "%" PRId64 " to cancel, %" PRId64 " left", shortage->requested, shortage->available);
		return;
	case LU_COUNT_OUT_OF_RANGE:
		buffer_add_format(out, "%" PRId64 " requested, on_hand is %" PRId64, shortage->requested, shortage->available);
		return;
	default:
		tell_shortage(out, kind, shortage);
	}
}

static const char *cart_advice(bool left, bool held, bool waiting_helps)
{
	if (waiting_helps)
		return left ? "Ask for less, or try again under a new key after `next_release_at`."
		            : "Nothing is left: try again under a new key after `next_release_at`.";
	if (left)
		return "Ask for less: for so many only new stock helps.";
	return held ? "Nothing is left: ask for less, under a new key after `next_release_at`."
	            : "Nothing is left and nothing is held: only new stock helps.";
}

static const char *adjust_advice(bool left, bool held, bool waiting_helps)
{
	if (waiting_helps)
		return left ? "Take away at most what may be, or try again under a new key after `next_release_at`."
		            : "All of it is held: try again under a new key after `next_release_at`.";
	if (left)
		return "Take away at most what may be.";
	return held ? "All of it is held: take away less, under a new key after `next_release_at`."
	            : "Nothing is there to take away.";
}

/* Waiting is no advice where too little is held, nor asking for less where nothing is left. */
static const char *advice(enum operation_kind kind, const struct verdict *verdict)
{
	bool left = false, held = false, waiting_helps = true;
	if (verdict->error != LU_INSUFFICIENT_STOCK)
		return lu_error_mend(verdict->error);
	if (kind == OPERATION_ORDER_PUT)
		return "Nothing was changed: send a higher version with fewer lines.";
	for (size_t i = 0; i < verdict->shortage_count; i++) {
		const struct shortage *shortage = &verdict->shortages[i];
		left |= shortage->available > 0;
		held |= shortage->held > 0;
		waiting_helps &= shortage->requested - shortage->available <= shortage->held;
	}
	return (kind == OPERATION_ADJUST ? adjust_advice : cart_advice)(left, held, waiting_helps);
}

struct text verdict_detail(struct arena *arena, enum operation_kind kind, const struct verdict *verdict)
{
	if (verdict->detail.size || !verdict->shortage_count)
		return verdict->detail;
	struct buffer out = {0};
	size_t told = verdict->shortage_count < LINES_TOLD_MAX ? verdict->shortage_count : LINES_TOLD_MAX;
	for (size_t i = 0; i < told; i++) {
		if (i)
			buffer_add_string(&out, "; ");
		tell_line(&out, kind, verdict->error, &verdict->shortages[i]);
	}
	if (told < verdict->shortage_count)
		buffer_add_format(&out, "; and %zu more", verdict->shortage_count - told);
	buffer_add_format(&out, ". %s", advice(kind, verdict));
	struct text detail = arena_text(arena, buffer_text(&out));
	buffer_done(&out);
	return detail;
}

static void render_shortage(struct json_writer *w, enum lu_error error, const struct shortage *shortage)
{
	json_object_open(w);
	json_member_text(w, "sku", shortage->sku);
	switch (error) {
	case LU_UNKNOWN_SKU:
		json_member_int(w, "requested", shortage->requested);
		break;
	case LU_CHANGE_FROM_MISMATCH:
		json_member_int(w, "change_from", shortage->requested);
		json_member_int(w, "on_hand", shortage->available);
		break;
	case LU_EXCEEDS_SOLD:
		json_member_int(w, "requested", shortage->requested);
		json_member_int(w, "left", shortage->available);
		break;
	case LU_COUNT_OUT_OF_RANGE:
		json_member_int(w, "requested", shortage->requested);
		json_member_int(w, "on_hand", shortage->available);
		break;
	default:
		json_member_int(w, "requested", shortage->requested);
		json_member_int(w, "available", shortage->available);
		json_member_int(w, "held", shortage->held);
		json_member_time(w, "next_release_at", shortage->next_release_us);
	}
	json_object_close(w);
}

void render_shortages(struct json_writer *w, const struct verdict *verdict)
{
	if (!verdict->shortage_count)
		return;
	json_key(w, "lines");
	json_array_open(w);
	for (size_t i = 0; i < verdict->shortage_count; i++)
		render_shortage(w, verdict->error, &verdict->shortages[i]);
	json_array_close(w);
}
