/* What `lastunit why` found, as lines for people and as JSON for programs (why.h). */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/facts.h"
#include "cmd/why.h"

#define TEXT_ARGS(text) (int)(text).size, (text).data

static const char *const epoch_names[] =
	{"unknown", [EPOCH_OPEN] = "open", [EPOCH_CLOSING] = "closing", [EPOCH_CLOSED] = "closed"};
static const char *const verdict_names[] = {
	[WHY_NOT_LOOKED] = "not_looked_at",
	[WHY_UNREACHABLE] = "unreachable",
	[WHY_FENCED] = "fenced",
	[WHY_ABSENT] = "absent",
	[WHY_FILLING] = "filling",
	[WHY_AGREES] = "agrees",
	[WHY_BEHIND] = "behind",
	[WHY_WRITING] = "writing",
	[WHY_STUCK] = "stuck",
	[WHY_WRONG] = "wrong",
	[WHY_FOREIGN] = "foreign",
};
static const char *const state_names[] = {[CELL_ABSENT] = "absent",
                                          [CELL_FILL] = "fill",
                                          [CELL_INTENT] = "marker",
                                          [CELL_VALUE] = "value",
                                          [CELL_FOREIGN] = "foreign"};

static const struct figures *answered(const struct why *why)
{
	return why_is_hit(why) ? &why->cell.figures : &why->row.figures;
}

static bool cell_was_read(const struct why *why)
{
	return why->verdict >= WHY_ABSENT;
}

/* What a principal without settings of its own sees. */
static int64_t figures_free(const struct figures *f)
{
	int64_t left = f->on_hand - f->reserved - f->safety_stock;
	return left > 0 ? left : 0;
}

/* Untracked is always in stock. */
static bool in_stock(const struct figures *f)
{
	return !f->tracked || figures_free(f) > 0;
}

/* --- for people --------------------------------------------------------------------------------------------------- */

static void print_answer(const struct why *why, FILE *out)
{
	const struct figures *f = answered(why);
	const char *from = why_is_hit(why) ? "from Redis, while the instance asked holds its read lease"
	                                   : "from PostgreSQL";
	if (f->tracked)
		facts_line(out, "answer", "%s, %" PRId64 " available, %" PRId64 " held, %s",
		           in_stock(f) ? "in_stock" : "out_of_stock", figures_free(f), f->reserved, from);
	else
		facts_line(out, "answer", "in_stock, available null, %s", from);
}

static void print_row(const struct why *why, FILE *out)
{
	const struct figures *f = &why->row.figures;
	int64_t left = f->on_hand - f->reserved - f->safety_stock;
	if (!f->tracked)
		facts_line(out, "available",
		           "not tracked: always in stock, and no sale moves its figures (on_hand %" PRId64 ", reserved %" PRId64
		           ")",
		           f->on_hand, f->reserved);
	else
		facts_line(out, "available",
		           "on_hand − reserved − safety_stock = %" PRId64 " − %" PRId64 " − %" PRId64 " = %" PRId64 "%s",
		           f->on_hand, f->reserved, f->safety_stock, left, left < 0 ? ", so 0" : "");
	for (size_t i = 0; f->tracked && i < why->principal_count; i++) {
		const struct why_principal *p = &why->principals[i];
		facts_line(out, "", "%.*s (buffer %" PRId64 "%s) sees %" PRId64, TEXT_ARGS(p->name), p->buffer,
		           p->may_use_safety_stock ? ", may use the safety stock" : "", p->available);
	}
	facts_line(out, "row", "version %" PRId64 ", %s", f->version, f->tracked ? "tracked" : "not tracked");
	if (why->row.locker_pid)
		facts_line(out, "", "locked by PostgreSQL session %" PRId64 " (%.*s)", why->row.locker_pid,
		           TEXT_ARGS(why->row.locker_application));
}

static void print_holds(const struct why *why, FILE *out)
{
	facts_line(out, "held", "%" PRId64 " %s in %" PRId64 " live %s", why->row.held_units,
	           text_plural(why->row.held_units, "unit", "units"), why->row.holds,
	           text_plural(why->row.holds, "hold", "holds"));
	for (size_t i = 0; i < why->hold_count; i++) {
		const struct why_hold *h = &why->holds[i];
		char id[UUID_TEXT_BYTES + 1];
		uuid_format(&h->reservation_id, id);
		fprintf(out, "  %s  %" PRId64 "%s through %s by %.*s", id, h->quantity, h->counted ? "" : " (not counted)",
		        channel_name(h->channel), TEXT_ARGS(h->principal));
		if (h->reference.data)
			fprintf(out, ", reference %s", log_quote(h->reference));
		if (h->left_ms > 0)
			fprintf(out, ", ends in %s\n", facts_duration(h->left_ms));
		else
			fprintf(out, ", due for %s: whoever needs it expires it\n", facts_duration(-h->left_ms));
	}
	if (why->row.holds > (int64_t)why->hold_count)
		fprintf(out, "  … and %" PRId64 " more, which end later\n", why->row.holds - (int64_t)why->hold_count);
}

static void print_entries(const struct why *why, FILE *out)
{
	facts_line(out, "ledger", "the last %zu of %" PRId64 " %s, newest first", why->entry_count,
	           why->row.figures.version, text_plural(why->row.figures.version, "entry", "entries"));
	for (size_t i = 0; i < why->entry_count; i++) {
		const struct why_entry *w = &why->entries[i];
		const struct ledger_entry *e = &w->entry;
		fprintf(out,
		        "  %-6" PRId64 " %-8s %+" PRId64 " on hand to %" PRId64 ", %+" PRId64 " reserved to %" PRId64
		        ", through %s",
		        e->version, ledger_kind_name(e->kind), e->on_hand_delta, e->on_hand_after, e->reserved_delta,
		        e->reserved_after, channel_name(e->channel));
		if (w->principal.data)
			fprintf(out, " by %.*s", TEXT_ARGS(w->principal));
		if (e->reference.data)
			fprintf(out, ", reference %s", log_quote(e->reference));
		fprintf(out, ", %s ago\n", facts_duration(w->age_ms));
	}
}

static void print_cell(const struct why *why, FILE *out)
{
	if (!cell_was_read(why)) {
		facts_line(out, "cell", "%s", why->verdict_sentence);
		return;
	}
	const struct cell *c = &why->cell;
	facts_line(out, "cell", "%.*s", TEXT_ARGS(why->key));
	if (c->state != CELL_ABSENT)
		facts_line(out, "", "%s", log_quote(c->raw));
	char end[80] = "no end";
	if (why->ttl_ms >= 0)
		snprintf(end, sizeof end, "ends in %s", facts_duration(why->ttl_ms));
	switch (c->state) {
	case CELL_ABSENT:
		facts_line(out, "", "absent: %s", why->verdict_sentence);
		break;
	case CELL_VALUE:
		facts_line(out, "", "V, the value of version %" PRId64 ", %s: %s", c->figures.version, end,
		           why->verdict_sentence);
		break;
	case CELL_FILL:
		facts_line(out, "", "F, a ticket to fill it, %s: %s", end, why->verdict_sentence);
		break;
	case CELL_INTENT:
		facts_line(out, "", "I, a marker of a write, %s: %s", end, why->verdict_sentence);
		break;
	case CELL_FOREIGN:
		facts_line(out, "", "%s, %s", why->verdict_sentence, end);
		break;
	}
}

static void print_unknown(const struct why *why, FILE *out)
{
	facts_line(out, "SKU", "%.*s is unknown: a look-up answers 404 unknown_sku, from PostgreSQL", TEXT_ARGS(why->sku));
	for (size_t i = 0; i < why->near_count; i++)
		facts_line(out, i ? "" : "meant?", "%.*s (%s)", TEXT_ARGS(why->near[i].sku), why->near[i].reason);
	if (!why->near_count)
		facts_line(out, "meant?", "no code, title or name is like it");
}

void why_print(const struct why *why, FILE *out)
{
	char promises[32];
	if (!why->row.known) {
		print_unknown(why, out);
		return;
	}
	if (why->row.title.data)
		facts_line(out, "SKU", "%.*s, %.*s", TEXT_ARGS(why->sku), TEXT_ARGS(why->row.title));
	else
		facts_line(out, "SKU", "%.*s", TEXT_ARGS(why->sku));
	print_answer(why, out);
	print_row(why, out);
	print_holds(why, out);
	print_entries(why, out);
	print_cell(why, out);
	facts_line(out, "epoch", "%s%s, lease %" PRId64 " ms", epoch_names[why->epoch.state],
	           why->epoch.state != EPOCH_OPEN || why->epoch.genuine ? "" : ", on another life of PostgreSQL",
	           why->epoch.lease_ms);
	facts_findings(out, &why->findings);
	facts_promises(&why->findings, promises);
	if (*promises)
		fprintf(out, "promises weakened: %s\n", promises);
	else
		fputs("all as it should be\n", out);
}

/* --- for programs ------------------------------------------------------------------------------------------------- */

static void json_figures(struct json_writer *w, const struct figures *f)
{
	json_member_int(w, "version", f->version);
	json_member_int(w, "on_hand", f->on_hand);
	json_member_int(w, "reserved", f->reserved);
	json_member_int(w, "safety_stock", f->safety_stock);
	json_member_bool(w, "tracked", f->tracked);
}

static void json_answer(struct json_writer *w, const struct why *why)
{
	const struct figures *f = answered(why);
	json_key(w, "answer");
	json_object_open(w);
	json_member_string(w, "status", in_stock(f) ? "in_stock" : "out_of_stock");
	json_key(w, "available");
	if (f->tracked)
		json_put_int(w, figures_free(f));
	else
		json_put_null(w);
	json_member_int(w, "held", f->reserved);
	json_member_string(w, "from", why_is_hit(why) ? "redis" : "postgresql");
	json_object_close(w);
	json_key(w, "row");
	json_object_open(w);
	json_figures(w, &why->row.figures);
	json_member_text(w, "title", why->row.title);
	json_member_int(w, "held_units", why->row.held_units);
	json_member_int(w, "locked_by_pid", why->row.locker_pid);
	json_member_int(w, "relay_waiting", why->row.relay_waiting);
	json_object_close(w);
	json_key(w, "principals");
	json_array_open(w);
	for (size_t i = 0; i < why->principal_count; i++) {
		json_object_open(w);
		json_member_text(w, "name", why->principals[i].name);
		json_member_int(w, "buffer", why->principals[i].buffer);
		json_member_bool(w, "may_use_safety_stock", why->principals[i].may_use_safety_stock);
		json_member_int(w, "available", why->principals[i].available);
		json_object_close(w);
	}
	json_array_close(w);
}

static void json_holds(struct json_writer *w, const struct why *why)
{
	json_member_int(w, "hold_count", why->row.holds);
	json_key(w, "holds");
	json_array_open(w);
	for (size_t i = 0; i < why->hold_count; i++) {
		const struct why_hold *h = &why->holds[i];
		json_object_open(w);
		json_key(w, "reservation");
		json_put_uuid(w, &h->reservation_id);
		json_member_int(w, "quantity", h->quantity);
		json_member_bool(w, "counted", h->counted);
		json_member_string(w, "channel", channel_name(h->channel));
		json_member_text(w, "principal", h->principal);
		json_member_text(w, "reference", h->reference);
		json_member_int(w, "ends_in_ms", h->left_ms);
		json_object_close(w);
	}
	json_array_close(w);
}

static void json_ledger(struct json_writer *w, const struct why *why)
{
	json_key(w, "ledger");
	json_array_open(w);
	for (size_t i = 0; i < why->entry_count; i++) {
		const struct why_entry *e = &why->entries[i];
		json_object_open(w);
		json_member_int(w, "version", e->entry.version);
		json_member_string(w, "kind", ledger_kind_name(e->entry.kind));
		json_member_int(w, "on_hand_delta", e->entry.on_hand_delta);
		json_member_int(w, "reserved_delta", e->entry.reserved_delta);
		json_member_int(w, "on_hand_after", e->entry.on_hand_after);
		json_member_int(w, "reserved_after", e->entry.reserved_after);
		json_member_string(w, "channel", channel_name(e->entry.channel));
		json_member_text(w, "principal", e->principal);
		json_member_text(w, "reference", e->entry.reference);
		json_key(w, "at");
		json_put_time(w, e->at_us);
		json_object_close(w);
	}
	json_array_close(w);
}

static void json_cell(struct json_writer *w, const struct why *why)
{
	const struct cell *c = &why->cell;
	json_key(w, "cell");
	json_object_open(w);
	json_member_string(w, "verdict", verdict_names[why->verdict]);
	json_member_string(w, "sentence", why->verdict_sentence);
	json_member_text(w, "key", why->key);
	if (cell_was_read(why)) {
		json_member_string(w, "state", state_names[c->state]);
		json_member_text(w, "raw", text_is_utf8(c->raw) ? c->raw : (struct text){0});
		json_key(w, "version");
		if (c->state == CELL_VALUE || c->state == CELL_INTENT)
			json_put_int(w, c->figures.version);
		else
			json_put_null(w);
		json_key(w, "ttl_ms");
		if (why->ttl_ms >= 0)
			json_put_int(w, why->ttl_ms);
		else
			json_put_null(w);
	}
	json_object_close(w);
	json_key(w, "epoch");
	json_object_open(w);
	json_member_string(w, "state", epoch_names[why->epoch.state]);
	json_member_text(w, "namespace", why->epoch.namespace);
	json_member_bool(w, "same_database", why->epoch.genuine);
	json_member_int(w, "lease_ms", why->epoch.lease_ms);
	json_object_close(w);
}

void why_json(const struct why *why, struct buffer *out)
{
	struct json_writer w = json_writer(out);
	json_object_open(&w);
	json_member_text(&w, "sku", why->sku);
	json_member_bool(&w, "known", why->row.known);
	if (why->row.known) {
		json_answer(&w, why);
		json_holds(&w, why);
		json_ledger(&w, why);
		json_cell(&w, why);
		facts_findings_json(&w, &why->findings);
	} else {
		json_key(&w, "near");
		json_array_open(&w);
		for (size_t i = 0; i < why->near_count; i++) {
			json_object_open(&w);
			json_member_text(&w, "sku", why->near[i].sku);
			json_member_string(&w, "reason", why->near[i].reason);
			json_object_close(&w);
		}
		json_array_close(&w);
	}
	json_object_close(&w);
}
