/* The judge of a simulated shop (history.h).
 *
 * Happy path: the ledger is checked for itself; every answer claims the entries it speaks of; what was answered and
 * what was seen become two lists of floors per SKU, ordered by time; every read, write and refusal is held against
 * them.
 * Failure modes: what is wrong is counted under its rule, the first HISTORY_SHOWN_MAX in a sentence each. Nothing ends
 * the judging: one cause breaks several rules, and which ones says much about it.
 */
#include "sim/history.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/id.h"

/* From time_ns on, nothing below version may be shown. */
struct floor {
	int64_t time_ns;
	int64_t version;
	char why[64];
};

struct floors {
	struct floor *list;
	size_t count, room;
};

struct judge {
	struct history *history;
	struct history_report *report;
	struct floors *answered, *seen; /* by SKU */
	int64_t **begun;                /* by SKU and version - 1: when the last of the writes up to it began */
};

/* --- telling ------------------------------------------------------------------------------------------------------ */

const char *history_rule_name(enum history_rule rule)
{
	static const char *const names[HISTORY_RULES] = {
		[HISTORY_ANSWERED] = "ANSWERED", [HISTORY_SEEN] = "SEEN",   [HISTORY_BEGUN] = "BEGUN",
		[HISTORY_CONTENT] = "CONTENT",   [HISTORY_ORDER] = "ORDER", [HISTORY_ONCE] = "ONCE",
		[HISTORY_LEDGER] = "LEDGER",     [HISTORY_ENDS] = "ENDS",   [HISTORY_REFUSAL] = "REFUSAL",
		[HISTORY_TIME] = "TIME",         [HISTORY_LOST] = "LOST",
	};
	return names[rule];
}

static __attribute__((format(printf, 3, 4))) void blame(struct judge *j, enum history_rule rule, const char *format,
                                                        ...)
{
	struct history_report *r = j->report;
	r->broken[rule]++;
	r->total++;
	/* A rule broken a thousand times must not hide another broken once. */
	if (r->shown_count == HISTORY_SHOWN_MAX || (r->broken[rule] > 5 && r->shown_count > HISTORY_SHOWN_MAX / 2))
		return;
	char sentence[600];
	int size = snprintf(sentence, sizeof sentence, "%s: ", history_rule_name(rule));
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(sentence + size, sizeof sentence - (size_t)size, format, arguments);
	va_end(arguments);
	r->shown[r->shown_count] = strdup(sentence);
	CHECK(r->shown[r->shown_count]);
	r->shown_count++;
}

void history_report_done(struct history_report *report)
{
	for (size_t i = 0; i < report->shown_count; i++)
		free(report->shown[i]);
	*report = (struct history_report){0};
}

/* Seconds since the run began. */
static double told(const struct judge *j, int64_t time_ns)
{
	return (double)(time_ns - j->history->origin_ns) / 1e9;
}

static const char *kind_name(enum operation_kind kind)
{
	static const char *const names[] = {
		[OPERATION_CHECKOUT] = "checkout", [OPERATION_RESERVE] = "reserve", [OPERATION_COMMIT] = "commit",
		[OPERATION_RELEASE] = "release",   [OPERATION_EXTEND] = "extend",   [OPERATION_CANCEL] = "cancel",
		[OPERATION_ADJUST] = "adjust",     [OPERATION_SKU_PUT] = "put",
	};
	return (size_t)kind < sizeof names / sizeof *names && names[kind] ? names[kind] : "operation";
}

static const char *code(const struct judge *j, int sku)
{
	return j->history->skus[sku].code;
}

/* --- the ledger for itself ---------------------------------------------------------------------------------------- */

static int64_t available(const struct history_sku *sku, const struct history_entry *entry)
{
	int64_t units = entry->on_hand_after - entry->reserved_after - sku->safety_stock;
	return units > 0 ? units : 0;
}

static struct history_entry *entry_of(const struct history *h, int sku, int64_t version)
{
	struct history_sku *s = &h->skus[sku];
	return version >= 1 && (uint64_t)version <= s->entry_count ? &s->entries[version - 1] : NULL;
}

static bool takes_units(const struct history_entry *e)
{
	return e->kind == LEDGER_SALE || e->kind == LEDGER_RESERVE;
}

/* Whoever gives a hold back in the same step (`replaces`, `releases`) may have its units again, even if a stranger took the
 * stock below the safety stock meanwhile. */
static bool is_exchange(const struct history_entry *e, const struct history_entry *before)
{
	int64_t taken = e->reserved_delta - e->on_hand_delta;
	return before && before->kind == LEDGER_RELEASE && -before->reserved_delta >= taken;
}

static void check_ledger(struct judge *j)
{
	for (size_t i = 0; i < j->history->sku_count; i++) {
		const struct history_sku *sku = &j->history->skus[i];
		int64_t on_hand = 0, reserved = 0;
		for (size_t k = 0; k < sku->entry_count; k++) {
			const struct history_entry *e = &sku->entries[k];
			on_hand += e->on_hand_delta;
			reserved += e->reserved_delta;
			if (e->version != (int64_t)k + 1)
				blame(j, HISTORY_LEDGER, "%s: entry %zu has version %" PRId64, sku->code, k + 1, e->version);
			if (e->on_hand_after != on_hand || e->reserved_after != reserved)
				blame(j, HISTORY_LEDGER,
				      "%s v%" PRId64 ": %" PRId64 "/%" PRId64 " after it, the deltas make %" PRId64 "/%" PRId64,
				      sku->code, e->version, e->on_hand_after, e->reserved_after, on_hand, reserved);
			if (reserved < 0 || reserved > on_hand)
				blame(j, HISTORY_LEDGER, "%s v%" PRId64 ": oversold, %" PRId64 " on hand, %" PRId64 " reserved",
				      sku->code, e->version, on_hand, reserved);
			if (takes_units(e) && !is_exchange(e, k ? e - 1 : NULL) && sku->tracked &&
			    on_hand - reserved < sku->safety_stock)
				blame(j, HISTORY_LEDGER, "%s v%" PRId64 ": the safety stock was sold", sku->code, e->version);
		}
	}
}

/* --- claims: which answer speaks of which entry ------------------------------------------------------------------- */

static struct history_entry *find_entry(struct judge *j, int sku, enum ledger_kind kind, const struct uuid *id)
{
	struct history_sku *s = &j->history->skus[sku];
	for (size_t i = 0; i < s->entry_count; i++)
		if (s->entries[i].kind == kind && uuid_equal(&s->entries[i].operation_id, id))
			return &s->entries[i];
	return NULL;
}

static void floors_add(struct floors *floors, int64_t time_ns, int64_t version, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

static void floors_add(struct floors *floors, int64_t time_ns, int64_t version, const char *format, ...)
{
	if (floors->count == floors->room) {
		floors->room = floors->room ? floors->room * 2 : 256;
		floors->list = realloc(floors->list, floors->room * sizeof *floors->list);
		CHECK(floors->list);
	}
	struct floor *floor = &floors->list[floors->count++];
	*floor = (struct floor){.time_ns = time_ns, .version = version};
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(floor->why, sizeof floor->why, format, arguments);
	va_end(arguments);
}

/* The version up to which readers are bound at once: a stranger's entry at the end binds them later. */
static int64_t firm(const struct history *h, int sku, int64_t version)
{
	while (version > 0) {
		const struct history_entry *e = entry_of(h, sku, version);
		if (!e || e->kind != LEDGER_SQL)
			break;
		version--;
	}
	return version;
}

/* What a line's entry must be. */
struct wanted {
	enum ledger_kind kind;
	const struct uuid *id;
	int64_t on_hand_delta, reserved_delta;
	int64_t version; /* 0: not told */
};

static void claim(struct judge *j, const struct history_write *w, int sku, const struct wanted *wanted)
{
	struct history_entry *e = wanted->version ? entry_of(j->history, sku, wanted->version)
	                                          : find_entry(j, sku, wanted->kind, wanted->id);
	int64_t answered_ns = w->answers[0].returned_ns;
	if (!e) {
		blame(j, HISTORY_ONCE, "%s %s of client %d, answered %d at %.6f: %s has no entry of it (version %" PRId64 ")",
		      kind_name(w->kind), w->key, w->client, w->answers[0].status, told(j, answered_ns), code(j, sku),
		      wanted->version);
		return;
	}
	if (e->kind != wanted->kind || !uuid_equal(&e->operation_id, wanted->id) ||
	    e->on_hand_delta != wanted->on_hand_delta || e->reserved_delta != wanted->reserved_delta) {
		blame(j, HISTORY_ONCE,
		      "%s %s of client %d, answered at %.6f, wants a %s of %" PRId64 "/%" PRId64 "; %s v%" PRId64
		      " is a %s of %" PRId64 "/%" PRId64,
		      kind_name(w->kind), w->key, w->client, told(j, answered_ns), ledger_kind_name(wanted->kind),
		      wanted->on_hand_delta, wanted->reserved_delta, code(j, sku), e->version, ledger_kind_name(e->kind),
		      e->on_hand_delta, e->reserved_delta);
		return;
	}
	/* Releases are claimed by whoever was told so: asking twice under two keys is allowed. */
	if (e->claims++ && e->kind != LEDGER_RELEASE && e->kind != LEDGER_EXPIRE)
		blame(j, HISTORY_ONCE, "%s v%" PRId64 " is claimed by a second key, %s", code(j, sku), e->version, w->key);
	if (e->kind != LEDGER_EXPIRE && (e->claims == 1 || w->called_ns < e->began_ns))
		e->began_ns = w->called_ns;
	floors_add(&j->answered[sku], answered_ns, firm(j->history, sku, e->version), "v%" PRId64 " by %s %s", e->version,
	           kind_name(w->kind), w->key);
}

static const struct history_write *reservation_of(const struct history *h, const struct uuid *id)
{
	for (size_t i = 0; i < h->write_count; i++)
		if (h->writes[i].kind == OPERATION_RESERVE && uuid_equal(&h->writes[i].object, id))
			return &h->writes[i];
	return NULL;
}

static void claim_end(struct judge *j, const struct history_write *w, const struct uuid *reservation,
                      enum ledger_kind kind)
{
	const struct history_write *made = reservation_of(j->history, reservation);
	if (!made) {
		blame(j, HISTORY_ONCE, "%s %s names a hold that nobody made", kind_name(w->kind), w->key);
		return;
	}
	for (size_t i = 0; i < made->line_count; i++) {
		const struct history_line *line = &made->lines[i];
		int64_t on_hand_delta = kind == LEDGER_COMMIT ? -line->quantity : 0, version = 0;
		for (size_t k = 0; kind == LEDGER_COMMIT && k < w->line_count; k++)
			if (w->lines[k].sku == line->sku)
				version = w->lines[k].version;
		if (line->version)
			claim(j, w, line->sku, &(struct wanted){kind, reservation, on_hand_delta, -line->quantity, version});
	}
}

static void claim_adjustment(struct judge *j, const struct history_write *w)
{
	for (size_t i = 0; i < w->line_count; i++) {
		const struct history_line *line = &w->lines[i];
		const struct history_entry *e = entry_of(j->history, line->sku, line->version);
		enum ledger_kind kind = line->set ? LEDGER_SET : LEDGER_ADJUST;
		int64_t delta = line->set && e ? line->quantity - (e->on_hand_after - e->on_hand_delta) : line->quantity;
		bool nothing = line->set && e && e->on_hand_after == line->quantity &&
		               !(e->kind == LEDGER_SET && uuid_equal(&e->operation_id, &w->object));
		if (nothing) /* it stood at that value already: no entry, but the version was told */
			floors_add(&j->answered[line->sku], w->answers[0].returned_ns, firm(j->history, line->sku, line->version),
			           "v%" PRId64 " told to %s", line->version, w->key);
		else
			claim(j, w, line->sku, &(struct wanted){kind, &w->object, delta, 0, line->version});
	}
}

/* The answer of a cancellation does not name its versions: they are looked up, for the order of writes. */
static void claim_cancel(struct judge *j, struct history_write *w)
{
	for (size_t i = 0; i < w->line_count; i++) {
		struct history_line *line = &w->lines[i];
		if (!j->history->skus[line->sku].tracked)
			continue;
		const struct history_entry *e = find_entry(j, line->sku, LEDGER_CANCEL, &w->target);
		line->version = e ? e->version : 0;
		claim(j, w, line->sku, &(struct wanted){LEDGER_CANCEL, &w->target, line->quantity, 0, line->version});
	}
}

static void claim_write(struct judge *j, struct history_write *w)
{
	switch (w->kind) {
	case OPERATION_CHECKOUT:
	case OPERATION_RESERVE:
		for (size_t i = 0; i < w->line_count; i++) {
			const struct history_line *line = &w->lines[i];
			bool tracked = j->history->skus[line->sku].tracked;
			bool sale = w->kind == OPERATION_CHECKOUT;
			if (tracked != (line->version > 0))
				blame(j, HISTORY_ONCE, "%s: the version of %s was answered as %" PRId64, w->key, code(j, line->sku),
				      line->version);
			else if (tracked)
				claim(j, w, line->sku,
				      &(struct wanted){sale ? LEDGER_SALE : LEDGER_RESERVE, &w->object, sale ? -line->quantity : 0,
				                       sale ? 0 : line->quantity, line->version});
		}
		if (!uuid_is_nil(&w->other))
			claim_end(j, w, &w->other, LEDGER_RELEASE);
		break;
	case OPERATION_COMMIT:
		claim_end(j, w, &w->target, LEDGER_COMMIT);
		break;
	case OPERATION_RELEASE:
		claim_end(j, w, &w->target, w->state == RESERVATION_EXPIRED ? LEDGER_EXPIRE : LEDGER_RELEASE);
		break;
	case OPERATION_CANCEL:
		claim_cancel(j, w);
		break;
	case OPERATION_ADJUST:
		claim_adjustment(j, w);
		break;
	default:
		break;
	}
}

static bool was_done(const struct history_write *w)
{
	return w->answer_count && w->answers[0].status < 300;
}

static void check_answers(struct judge *j, const struct history_write *w)
{
	if (!w->answer_count)
		blame(j, HISTORY_ONCE, "%s %s of client %d, called at %.6f, never got its answer", kind_name(w->kind), w->key,
		      w->client, told(j, w->called_ns));
	for (size_t i = 1; i < w->answer_count; i++)
		if (w->answers[i].status != w->answers[0].status || w->answers[i].digest != w->answers[0].digest)
			blame(j, HISTORY_ONCE, "%s %s of client %d: answered %d at %.6f and something else, %d, at %.6f",
			      kind_name(w->kind), w->key, w->client, w->answers[0].status, told(j, w->answers[0].returned_ns),
			      w->answers[i].status, told(j, w->answers[i].returned_ns));
}

/* From when on a stranger's entry, committed at that time, binds readers. */
static int64_t firm_from(const struct history *h, int64_t committed_ns)
{
	int64_t from = committed_ns + h->sql_lag_ns;
	bool moved = true;
	while (moved) {
		moved = false;
		for (size_t i = 0; i < h->outage_count; i++) {
			const struct history_outage *o = &h->outages[i];
			int64_t over = o->to_ns + h->recovery_ns;
			if (o->from_ns <= from && over >= committed_ns && over + h->sql_lag_ns > from) {
				from = over + h->sql_lag_ns;
				moved = true;
			}
		}
	}
	return from;
}

static void claim_sqls(struct judge *j)
{
	struct history *h = j->history;
	for (size_t i = 0; i < h->sql_count; i++) {
		const struct history_sql *s = &h->sqls[i];
		struct history_entry *e = entry_of(h, s->sku, s->version);
		bool same = e && e->kind == LEDGER_SQL && e->on_hand_delta == s->on_hand_delta;
		if (!same) {
			if (s->sure)
				blame(j, HISTORY_ONCE, "a stranger's COMMIT was answered at %.6f, but %s v%" PRId64 " is not his",
				      told(j, s->returned_ns), code(j, s->sku), s->version);
			continue;
		}
		if (e->claims++)
			continue;
		e->began_ns = s->called_ns;
		e->firm_from_ns = firm_from(h, s->returned_ns);
	}
}

static void claim_all(struct judge *j)
{
	struct history *h = j->history;
	for (size_t i = 0; i < h->sku_count; i++)
		for (size_t k = 0; k < h->skus[i].entry_count; k++) {
			struct history_entry *e = &h->skus[i].entries[k];
			bool asked = e->kind != LEDGER_CREATE && e->kind != LEDGER_EXPIRE && e->kind != LEDGER_SQL;
			e->claims = 0;
			e->began_ns = asked ? HISTORY_NEVER : e->at_ns - h->clock_slack_ns;
			e->firm_from_ns = firm_from(h, e->at_ns + h->clock_slack_ns);
		}
	claim_sqls(j);
	for (size_t i = 0; i < h->write_count; i++) {
		check_answers(j, &h->writes[i]);
		if (was_done(&h->writes[i]))
			claim_write(j, &h->writes[i]);
	}
	for (size_t i = 0; i < h->sku_count; i++)
		for (size_t k = 0; k < h->skus[i].entry_count; k++) {
			const struct history_entry *e = &h->skus[i].entries[k];
			if (e->began_ns == HISTORY_NEVER)
				blame(j, HISTORY_ONCE,
				      "%s v%" PRId64 ", a %s of %" PRId64 "/%" PRId64 " at %.6f: nobody was answered so",
				      h->skus[i].code, e->version, ledger_kind_name(e->kind), e->on_hand_delta, e->reserved_delta,
				      told(j, e->at_ns));
		}
}

/* --- ends of holds ------------------------------------------------------------------------------------------------ */

static bool ends_a_hold(enum ledger_kind kind)
{
	return kind == LEDGER_COMMIT || kind == LEDGER_RELEASE || kind == LEDGER_EXPIRE;
}

/* When it was sold, by the answer of its commit; 0: it was not. */
static int64_t sold_at(const struct history *h, const struct history_write *made)
{
	for (size_t i = 0; i < h->write_count; i++)
		if (h->writes[i].kind == OPERATION_COMMIT && was_done(&h->writes[i]) &&
		    uuid_equal(&h->writes[i].target, &made->object))
			return h->writes[i].created_at_ns;
	return 0;
}

/* The latest end that was promised: by the hold itself or an extension. */
static int64_t promised_until(const struct history *h, const struct history_write *made)
{
	int64_t until = made->expires_at_ns;
	for (size_t i = 0; i < h->write_count; i++) {
		const struct history_write *w = &h->writes[i];
		if (w->kind == OPERATION_EXTEND && was_done(w) && uuid_equal(&w->target, &made->object) &&
		    w->expires_at_ns > until)
			until = w->expires_at_ns;
	}
	return until;
}

static void check_hold(struct judge *j, const struct history_write *made)
{
	const struct history *h = j->history;
	enum ledger_kind kind = 0;
	int64_t until_ns = promised_until(h, made);
	/* Both are the database's own word, cut to milliseconds the same way. */
	if (sold_at(h, made) > until_ns)
		blame(j, HISTORY_ENDS, "the hold of %s, promised until %.6f, was sold at %.6f", made->key, told(j, until_ns),
		      told(j, sold_at(h, made)));
	for (size_t i = 0; i < made->line_count; i++) {
		const struct history_sku *sku = &h->skus[made->lines[i].sku];
		unsigned ends = 0;
		for (size_t k = 0; k < sku->entry_count; k++) {
			const struct history_entry *e = &sku->entries[k];
			if (!ends_a_hold(e->kind) || !uuid_equal(&e->operation_id, &made->object))
				continue;
			ends++;
			if (kind && e->kind != kind)
				blame(j, HISTORY_ENDS, "the hold of %s ends as %s and as %s", made->key, ledger_kind_name(kind),
				      ledger_kind_name(e->kind));
			kind = e->kind;
			if (kind == LEDGER_EXPIRE && e->at_ns < until_ns - h->clock_slack_ns)
				blame(j, HISTORY_ENDS, "the hold of %s, promised until %.6f, expired at %.6f", made->key,
				      told(j, until_ns), told(j, e->at_ns));
			if (e->reserved_delta != -made->lines[i].quantity)
				blame(j, HISTORY_ENDS, "%s v%" PRId64 " gives back %" PRId64 " of %" PRId64 " held by %s", sku->code,
				      e->version, -e->reserved_delta, made->lines[i].quantity, made->key);
		}
		if (sku->tracked && ends != 1)
			blame(j, HISTORY_ENDS, "the hold of %s ends %u times for %s", made->key, ends, sku->code);
	}
}

/* --- floors ------------------------------------------------------------------------------------------------------- */

static int compare_floors(const void *a, const void *b)
{
	const struct floor *x = a, *y = b;
	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

/* Ordered by time, and each at least as high as those before it. */
static void floors_order(struct floors *floors)
{
	if (floors->count)
		qsort(floors->list, floors->count, sizeof *floors->list, compare_floors);
	for (size_t i = 1; i < floors->count; i++)
		if (floors->list[i].version < floors->list[i - 1].version) {
			int64_t time_ns = floors->list[i].time_ns;
			floors->list[i] = floors->list[i - 1];
			floors->list[i].time_ns = time_ns;
		}
}

/* The highest floor that stood before that moment; NULL: none. */
static const struct floor *floor_at(const struct floors *floors, int64_t time_ns)
{
	size_t low = 0, high = floors->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (floors->list[middle].time_ns < time_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &floors->list[low - 1] : NULL;
}

static void raise_floors(struct judge *j)
{
	struct history *h = j->history;
	for (size_t i = 0; i < h->read_count; i++) {
		const struct history_read *r = &h->reads[i];
		floors_add(&j->seen[r->sku], r->returned_ns, firm(h, r->sku, r->version),
		           "v%" PRId64 " seen by client %d, instance %d", r->version, r->client, r->instance);
	}
	for (size_t i = 0; i < h->sku_count; i++) {
		struct history_sku *sku = &h->skus[i];
		int64_t begun = INT64_MIN;
		j->begun[i] = calloc(sku->entry_count + 1, sizeof *j->begun[i]);
		CHECK(j->begun[i]);
		for (size_t k = 0; k < sku->entry_count; k++) {
			const struct history_entry *e = &sku->entries[k];
			if (e->began_ns != HISTORY_NEVER && e->began_ns > begun)
				begun = e->began_ns;
			if (e->at_ns - h->clock_slack_ns > begun)
				begun = e->at_ns - h->clock_slack_ns;
			j->begun[i][k] = begun;
			if (e->kind == LEDGER_SQL)
				floors_add(&j->answered[i], e->firm_from_ns, e->version, "v%" PRId64 " by a stranger", e->version);
		}
		floors_order(&j->answered[i]);
		floors_order(&j->seen[i]);
	}
}

static bool below(const struct floor *floor, int64_t version)
{
	return floor && version < floor->version;
}

/* --- what is held against them ------------------------------------------------------------------------------------ */

static void check_begun(struct judge *j, int sku, int64_t version, int64_t returned_ns, const char *who)
{
	if (entry_of(j->history, sku, version) && j->begun[sku][version - 1] > returned_ns)
		blame(j, HISTORY_BEGUN,
		      "%s v%" PRId64 " was returned to %s at %.6f, but one of the writes up to it began at %.6f", code(j, sku),
		      version, who, told(j, returned_ns), told(j, j->begun[sku][version - 1]));
}

static void check_read(struct judge *j, const struct history_read *r)
{
	const struct history *h = j->history;
	const struct history_sku *sku = &h->skus[r->sku];
	char who[120];
	snprintf(who, sizeof who, "client %d on instance %d (%.6f to %.6f, %s)", r->client, r->instance,
	         told(j, r->called_ns), told(j, r->returned_ns), r->hit ? "hit" : "no hit");
	const struct floor *answered = floor_at(&j->answered[r->sku], r->called_ns);
	const struct floor *seen = floor_at(&j->seen[r->sku], r->called_ns);
	if (below(answered, r->version))
		blame(j, HISTORY_ANSWERED, "%s v%" PRId64 " was shown to %s; %s was answered at %.6f", sku->code, r->version,
		      who, answered->why, told(j, answered->time_ns));
	if (below(seen, r->version))
		blame(j, HISTORY_SEEN, "%s v%" PRId64 " was shown to %s; %s at %.6f", sku->code, r->version, who, seen->why,
		      told(j, seen->time_ns));
	check_begun(j, r->sku, r->version, r->returned_ns, who);
	const struct history_entry *e = entry_of(h, r->sku, r->version);
	if (!e) {
		blame(j, HISTORY_CONTENT, "%s v%" PRId64 " was shown to %s; the ledger ends at %zu", sku->code, r->version, who,
		      sku->entry_count);
		return;
	}
	int64_t wanted = sku->tracked ? available(sku, e) : -1;
	if (r->available != wanted || r->held != e->reserved_after || r->tracked != sku->tracked ||
	    (r->on_hand >= 0 && r->on_hand != e->on_hand_after))
		blame(j, HISTORY_CONTENT,
		      "%s v%" PRId64 " was shown to %s as %" PRId64 " available, %" PRId64 " held; the ledger says %" PRId64
		      " and %" PRId64,
		      sku->code, r->version, who, r->available, r->held, wanted, e->reserved_after);
}

static void check_order(struct judge *j, const struct history_write *w)
{
	char who[80];
	snprintf(who, sizeof who, "%s %s", kind_name(w->kind), w->key);
	for (size_t i = 0; i < w->line_count; i++) {
		const struct history_line *line = &w->lines[i];
		const struct history_entry *e = entry_of(j->history, line->sku, line->version);
		if (!e)
			continue;
		check_begun(j, line->sku, line->version, w->answers[0].returned_ns, who);
		/* A set to what stands there already makes no version: it sees one, like a read. */
		int64_t least = e->began_ns == w->called_ns ? line->version - 1 : line->version;
		const struct floor *answered = floor_at(&j->answered[line->sku], w->called_ns);
		const struct floor *seen = floor_at(&j->seen[line->sku], w->called_ns);
		const struct floor *floor = below(answered, least) ? answered : below(seen, least) ? seen : NULL;
		if (floor)
			blame(j, HISTORY_ORDER, "%s of client %d, called at %.6f, made %s v%" PRId64 "; %s at %.6f", who, w->client,
			      told(j, w->called_ns), code(j, line->sku), line->version, floor->why, told(j, floor->time_ns));
	}
}

static void check_refusal(struct judge *j, const struct history_write *w)
{
	const struct history *h = j->history;
	bool short_of = strcmp(w->code, "insufficient_stock") == 0;
	bool mismatch = strcmp(w->code, "change_from_mismatch") == 0;
	/* What a hold that is to be replaced lends is not in the ledger. */
	if ((!short_of && !mismatch) || !uuid_is_nil(&w->other))
		return;
	for (size_t i = 0; i < w->line_count; i++) {
		const struct history_line *line = &w->lines[i];
		if (line->requested < 0)
			continue;
		const struct history_sku *sku = &h->skus[line->sku];
		const struct floor *answered = floor_at(&j->answered[line->sku], w->called_ns);
		const struct floor *seen = floor_at(&j->seen[line->sku], w->called_ns);
		int64_t from = answered ? answered->version : 1;
		if (seen && seen->version > from)
			from = seen->version;
		bool found = false;
		for (int64_t v = from < 1 ? 1 : from; !found && v <= (int64_t)sku->entry_count; v++) {
			const struct history_entry *e = entry_of(h, line->sku, v);
			if (j->begun[line->sku][v - 1] > w->answers[0].returned_ns)
				break;
			int64_t units = w->kind == OPERATION_ADJUST ? e->on_hand_after - e->reserved_after : available(sku, e);
			found = mismatch ? e->on_hand_after == line->available
			                 : units == line->available && e->reserved_after == line->held;
		}
		if (!found)
			blame(j, HISTORY_REFUSAL,
			      "%s %s of client %d, called at %.6f, refused at %.6f: %s had never %" PRId64 " available and %" PRId64
			      " held from v%" PRId64 " on",
			      kind_name(w->kind), w->key, w->client, told(j, w->called_ns), told(j, w->answers[0].returned_ns),
			      sku->code, line->available, line->held, from);
		if (short_of ? line->requested <= line->available : line->requested == line->available)
			blame(j, HISTORY_REFUSAL, "%s %s: refused %" PRId64 " of %s though there were %" PRId64, kind_name(w->kind),
			      w->key, line->requested, sku->code, line->available);
	}
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static int compare_outages(const void *a, const void *b)
{
	const struct history_outage *x = *(const struct history_outage *const *)a;
	const struct history_outage *y = *(const struct history_outage *const *)b;
	return x->from_ns < y->from_ns ? -1 : x->from_ns > y->from_ns;
}

/* How much of the request's time its instance, or the machine, stood still; ordered by begin, so overlaps count once. */
static int64_t stood_still(const struct history_outage *const *ordered, size_t count, const struct history_request *r)
{
	int64_t still = 0, until = r->called_ns;
	for (size_t i = 0; i < count; i++) {
		const struct history_outage *o = ordered[i];
		if ((o->kind != HISTORY_STOPPED && o->kind != HISTORY_STALL) ||
		    (o->instance >= 0 && o->instance != r->instance))
			continue;
		int64_t from = o->from_ns > until ? o->from_ns : until;
		int64_t to = o->to_ns < r->returned_ns ? o->to_ns : r->returned_ns;
		if (to > from) {
			still += to - from;
			until = to;
		}
	}
	return still;
}

static void check_requests(struct judge *j)
{
	const struct history *h = j->history;
	const struct history_outage **ordered = calloc(h->outage_count + 1, sizeof *ordered);
	CHECK(ordered);
	for (size_t i = 0; i < h->outage_count; i++)
		ordered[i] = &h->outages[i];
	if (h->outage_count)
		qsort(ordered, h->outage_count, sizeof *ordered, compare_outages);
	for (size_t i = 0; i < h->request_count; i++) {
		const struct history_request *r = &h->requests[i];
		int64_t took = r->returned_ns - r->called_ns;
		bool killed = false;
		for (size_t k = 0; k < h->outage_count && !r->status; k++)
			killed |= h->outages[k].kind == HISTORY_DEAD && h->outages[k].instance == r->instance &&
			          h->outages[k].from_ns <= r->returned_ns && h->outages[k].to_ns >= r->called_ns;
		if (!r->status && !r->timed_out && !killed)
			blame(j, HISTORY_LOST, "client %d lost its connection to instance %d (%.6f to %.6f), which lived",
			      r->client, r->instance, told(j, r->called_ns), told(j, r->returned_ns));
		if ((r->status || r->timed_out) && took > h->deadline_ns &&
		    took - stood_still(ordered, h->outage_count, r) > h->deadline_ns)
			blame(j, HISTORY_TIME,
			      "client %d waited %.3f s for instance %d (from %.6f), %.3f s of them while it ran; %s %d", r->client,
			      (double)took / 1e9, r->instance, told(j, r->called_ns),
			      (double)(took - stood_still(ordered, h->outage_count, r)) / 1e9,
			      r->timed_out ? "no answer" : "status", r->status);
	}
	free(ordered);
}

void history_check(struct history *history, struct history_report *ret_report)
{
	*ret_report = (struct history_report){0};
	struct judge j = {.history = history,
	                  .report = ret_report,
	                  .answered = calloc(history->sku_count, sizeof *j.answered),
	                  .seen = calloc(history->sku_count, sizeof *j.seen),
	                  .begun = calloc(history->sku_count, sizeof *j.begun)};
	CHECK(j.answered && j.seen && j.begun);
	check_ledger(&j);
	claim_all(&j);
	for (size_t i = 0; i < history->write_count; i++)
		if (history->writes[i].kind == OPERATION_RESERVE && was_done(&history->writes[i]))
			check_hold(&j, &history->writes[i]);
	raise_floors(&j);
	for (size_t i = 0; i < history->read_count; i++)
		check_read(&j, &history->reads[i]);
	for (size_t i = 0; i < history->write_count; i++) {
		if (was_done(&history->writes[i]))
			check_order(&j, &history->writes[i]);
		else if (history->writes[i].answer_count)
			check_refusal(&j, &history->writes[i]);
	}
	check_requests(&j);
	for (size_t i = 0; i < history->sku_count; i++) {
		free(j.answered[i].list);
		free(j.seen[i].list);
		free(j.begun[i]);
	}
	free(j.answered);
	free(j.seen);
	free(j.begun);
}
