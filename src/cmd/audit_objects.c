/* The audit of reservations, holds, checkouts and orders against the ledger.
 *
 * Happy path: pages by id; each row is read with its holds, and each of its lines with the entry it names, in one
 * statement. What the ledger said about the id in the first pass must be what the row says: lines, state, cancelled
 * units. That comparison is good only for rows that have not changed since before the pass: their xmin lies below the
 * horizon. The others are counted as moving.
 * Failure modes: an id that the ledger names and no page had is an object made meanwhile (ids are made before they are
 * committed), or a broken promise: it is looked up.
 */
#include "base/clock.h"
#include "base/id.h"
#include "base/text.h"
#include "cmd/audit_internal.h"
#include "lastunit/decide.h"

#define PAGE 2000

/* Older than the horizon: age() counts backwards from now, so wrapping does not matter; frozen rows are the oldest. */
#define SETTLED(row) "age(" row ".xmin) > age($3::text::xid8::xid)"

static const struct pg_statement reservation_page = {
    "audit_reservation_page",
    "SELECT r.id, r.state, r.sku_ids, r.quantities, r.counted, " SETTLED("r") ","
    "       r.state = 1 AND r.expires_at < clock_timestamp() - $4 * interval '1 second',"
    "       (SELECT count(*) FROM lastunit.hold h WHERE h.reservation_id = r.id),"
    "       (SELECT count(*) FROM unnest(r.sku_ids, r.quantities, r.counted) AS l(sku_id, quantity, counted),"
    "               LATERAL (SELECT FROM lastunit.hold h WHERE h.reservation_id = r.id AND h.sku_id = l.sku_id"
    "                           AND h.quantity = l.quantity AND h.counted = l.counted"
    "                           AND h.expires_at = r.expires_at OFFSET 0) AS held),"
    "       (SELECT count(*) FROM unnest(r.sku_ids, r.quantities, r.counted, r.versions)"
    "                             AS l(sku_id, quantity, counted, version),"
    "               LATERAL (SELECT FROM lastunit.ledger g WHERE g.sku_id = l.sku_id AND g.version = l.version"
    "                           AND g.operation_id = r.id AND g.kind = 3 AND g.reserved_delta = l.quantity"
    "                           AND g.on_hand_delta = 0 OFFSET 0) AS entry WHERE l.counted)"
    "  FROM lastunit.reservation r WHERE r.id > $1 ORDER BY r.id LIMIT $2"};
static const struct pg_statement checkout_page = {
    "audit_checkout_page",
    "SELECT c.id, c.reservation_id, c.sku_ids, c.quantities, c.counted, c.cancelled, " SETTLED("c") ","
    "       (SELECT count(*) FROM unnest(c.sku_ids, c.quantities, c.counted, c.versions)"
    "                             AS l(sku_id, quantity, counted, version),"
    "               LATERAL (SELECT FROM lastunit.ledger g WHERE g.sku_id = l.sku_id AND g.version = l.version"
    "                           AND g.operation_id = coalesce(c.reservation_id, c.id)"
    "                           AND g.kind = CASE WHEN c.reservation_id IS NULL THEN 2 ELSE 4 END"
    "                           AND g.on_hand_delta = -l.quantity OFFSET 0) AS entry WHERE l.counted)"
    "  FROM lastunit.checkout c WHERE c.id > $1 ORDER BY c.id LIMIT $2"};
static const struct pg_statement order_page =
	{"audit_order_page", "SELECT o.id, o.sku_ids, o.quantities, o.counted, " SETTLED(
							 "o") "  FROM lastunit.orders o WHERE o.id > $1 ORDER BY o.id LIMIT $2"};
static const struct pg_statement orphan_holds =
	{"audit_orphan_holds",
     "SELECT h.reservation_id, count(*) OVER () FROM lastunit.hold h"
     " WHERE NOT EXISTS (SELECT FROM lastunit.reservation r WHERE r.id = h.reservation_id) LIMIT 20"};
static const struct pg_statement objects_missing =
	{"audit_objects_missing",
     "SELECT o.id FROM unnest($1::uuid[]) AS o(id)"
     " WHERE NOT EXISTS (SELECT FROM lastunit.reservation r WHERE r.id = o.id)"
     "   AND NOT EXISTS (SELECT FROM lastunit.checkout c WHERE c.id = o.id)"
     "   AND NOT EXISTS (SELECT FROM lastunit.orders m WHERE m.id = o.id)"};

_Static_assert(LEDGER_SALE == 2 && LEDGER_RESERVE == 3 && LEDGER_COMMIT == 4, "the statements above spell them out");
_Static_assert(RESERVATION_ACTIVE == 1, "the statements above spell it out");

struct object {
	struct uuid id;
	char name[UUID_TEXT_BYTES + 1];
	size_t count;
	int64_t *sku_ids, *quantities, *cancelled;
	bool *counted;
	uint64_t sum, cancelled_sum; /* weights of the counted lines */
	uint32_t counted_lines;
	bool whole; /* its lines' arrays are of one length */
	bool cancelled_in_range;
};

static struct object object_get(struct audit_work *work, const PGresult *r, int row, int column, bool cancellable,
                                struct arena *arena)
{
	struct object o = {.id = pg_get_uuid(r, row, 0), .cancelled_in_range = true};
	uuid_format(&o.id, o.name);
	o.count = pg_get_int8s(r, row, column, arena, &o.sku_ids);
	o.whole = pg_get_int8s(r, row, column + 1, arena, &o.quantities) == o.count &&
	          pg_get_bools(r, row, column + 2, arena, &o.counted) == o.count &&
	          (!cancellable || pg_get_int8s(r, row, column + 3, arena, &o.cancelled) == o.count);
	if (!o.whole)
		o.count = 0;
	for (size_t i = 0; i < o.count; i++) {
		if (cancellable && (o.cancelled[i] < 0 || o.cancelled[i] > o.quantities[i]))
			o.cancelled_in_range = false;
		if (!o.counted[i])
			continue;
		o.counted_lines++;
		o.sum += tally_weight(&work->tallies, o.sku_ids[i], o.quantities[i]);
		if (cancellable)
			o.cancelled_sum += tally_weight(&work->tallies, o.sku_ids[i], o.cancelled[i]);
	}
	return o;
}

static const struct tally none;

/* Its tally, marked as accounted for. */
static const struct tally *tally_take(struct audit_work *work, const struct uuid *id)
{
	struct tally *tally = tally_find(&work->tallies, id);
	if (tally)
		tally->matched = true;
	return tally ? tally : &none;
}

static bool same(const struct tally *tally, enum tally_kind kind, uint64_t sum, uint32_t entries)
{
	return tally->sums[kind] == sum && tally->entries[kind] == entries;
}

/* The one end that the state says, with all lines, and no other. */
static bool ends_agree(const struct tally *tally, const struct object *o, int64_t state)
{
	static const struct {
		enum tally_kind kind;
		int64_t state;
	} ends[] = {{TALLY_COMMIT, RESERVATION_COMMITTED},
	            {TALLY_RELEASE, RESERVATION_RELEASED},
	            {TALLY_EXPIRE, RESERVATION_EXPIRED}};
	for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
		bool its = state == ends[i].state;
		if (!same(tally, ends[i].kind, its ? o->sum : 0, its ? o->counted_lines : 0))
			return false;
	}
	return true;
}

static const char *line_word(unsigned count)
{
	return text_plural(count, "line", "lines");
}

static const char *entry_word(unsigned count)
{
	return text_plural(count, "entry", "entries");
}

static void reservation_judge(struct audit_work *work, const PGresult *r, int row, struct arena *arena)
{
	static const char *const states[] = {"?", "active", "committed", "released", "expired"};
	struct audit_line *lines = work->audit->lines;
	struct object o = object_get(work, r, row, 2, false, arena);
	int64_t state = pg_get_int(r, row, 1);
	const char *state_name = states[state >= 1 && state <= 4 ? state : 0];
	bool settled = pg_get_bool(r, row, 5), active = state == RESERVATION_ACTIVE;
	int64_t holds = pg_get_int(r, row, 7), holds_right = pg_get_int(r, row, 8);
	int64_t wanted = active ? (int64_t)o.count : 0;
	lines[AUDIT_HOLDS].checked++;
	lines[AUDIT_ENDS].checked++;
	lines[AUDIT_OVERDUE].checked += active;
	if (holds != wanted || (active && holds_right != wanted))
		audit_broken(work, AUDIT_HOLDS, "reservation %s is %s with %zu %s: %lld %s, %lld of them right", o.name,
		             state_name, o.count, text_plural((int64_t)o.count, "line", "lines"), (long long)holds,
		             text_plural(holds, "hold", "holds"), (long long)holds_right);
	if (pg_get_bool(r, row, 6))
		audit_broken(work, AUDIT_OVERDUE, "reservation %s", o.name);
	const struct tally *tally = tally_take(work, &o.id);
	lines[AUDIT_ENDS].moving += !settled;
	if (!o.whole)
		audit_broken(work, AUDIT_ENDS, "reservation %s: its lines are not whole", o.name);
	else if (pg_get_int(r, row, 9) != o.counted_lines)
		audit_broken(work, AUDIT_ENDS, "reservation %s: counted lines %u, of them with an entry %lld", o.name,
		             o.counted_lines, (long long)pg_get_int(r, row, 9));
	else if (settled && !same(tally, TALLY_RESERVE, o.sum, o.counted_lines))
		audit_broken(work, AUDIT_ENDS, "reservation %s has %u reserve %s for %u counted %s, or other quantities",
		             o.name, tally->entries[TALLY_RESERVE], entry_word(tally->entries[TALLY_RESERVE]), o.counted_lines,
		             line_word(o.counted_lines));
	else if (settled && !ends_agree(tally, &o, state))
		audit_broken(work, AUDIT_ENDS,
		             "reservation %s is %s with %u counted %s, and in the ledger commit %u, release %u, expire %u",
		             o.name, state_name, o.counted_lines, line_word(o.counted_lines), tally->entries[TALLY_COMMIT],
		             tally->entries[TALLY_RELEASE], tally->entries[TALLY_EXPIRE]);
}

static void checkout_judge(struct audit_work *work, const PGresult *r, int row, struct arena *arena)
{
	struct audit_line *line = &work->audit->lines[AUDIT_SALES];
	struct object o = object_get(work, r, row, 2, true, arena);
	struct uuid reservation = pg_get_uuid(r, row, 1);
	bool settled = pg_get_bool(r, row, 6);
	line->checked++;
	line->moving += !settled;
	const struct tally *tally = tally_take(work, &o.id);
	/* The units of a hold left by its commit; a direct sale has entries of its own. */
	const struct tally *sold = uuid_is_nil(&reservation) ? tally : tally_take(work, &reservation);
	enum tally_kind kind = uuid_is_nil(&reservation) ? TALLY_SALE : TALLY_COMMIT;
	if (!o.whole)
		audit_broken(work, AUDIT_SALES, "checkout %s: its lines are not whole", o.name);
	else if (!o.cancelled_in_range)
		audit_broken(work, AUDIT_SALES, "checkout %s: more units cancelled than sold", o.name);
	else if (pg_get_int(r, row, 7) != o.counted_lines)
		audit_broken(work, AUDIT_SALES, "checkout %s: counted lines %u, of them with an entry %lld", o.name,
		             o.counted_lines, (long long)pg_get_int(r, row, 7));
	else if (settled && !same(sold, kind, o.sum, o.counted_lines))
		audit_broken(work, AUDIT_SALES, "checkout %s has %u %s for %u counted %s, or other quantities", o.name,
		             sold->entries[kind], entry_word(sold->entries[kind]), o.counted_lines, line_word(o.counted_lines));
	else if (settled && tally->sums[TALLY_CANCEL] != o.cancelled_sum)
		audit_broken(work, AUDIT_SALES, "checkout %s: its cancelled units are not those of the ledger", o.name);
}

/* What all its versions sold, less what they brought back, is what it has now. */
static void order_judge(struct audit_work *work, const PGresult *r, int row, struct arena *arena)
{
	struct audit_line *line = &work->audit->lines[AUDIT_SALES];
	struct uuid id = pg_get_uuid(r, row, 0);
	char name[UUID_TEXT_BYTES + 1];
	int64_t *sku_ids, *quantities, *counted;
	size_t count = pg_get_int8s(r, row, 1, arena, &sku_ids);
	bool whole = pg_get_int8s(r, row, 2, arena, &quantities) == count &&
	             pg_get_int8s(r, row, 3, arena, &counted) == count;
	bool settled = pg_get_bool(r, row, 4), in_range = true;
	uint64_t sum = 0;
	for (size_t i = 0; whole && i < count; i++) {
		in_range &= quantities[i] > 0 && counted[i] >= 0 && counted[i] <= quantities[i];
		sum += tally_weight(&work->tallies, sku_ids[i], counted[i]);
	}
	line->checked++;
	line->moving += !settled;
	uuid_format(&id, name);
	const struct tally *tally = tally_take(work, &id);
	if (!whole)
		audit_broken(work, AUDIT_SALES, "order %s: its lines are not whole", name);
	else if (!in_range)
		audit_broken(work, AUDIT_SALES, "order %s: more units counted than ordered, or fewer than none", name);
	else if (settled && tally->sums[TALLY_SALE] - tally->sums[TALLY_CANCEL] != sum)
		audit_broken(work, AUDIT_SALES, "order %s: its units are not those that the ledger sold and brought back",
		             name);
}

typedef void (*judge_function)(struct audit_work *work, const PGresult *r, int row, struct arena *arena);

static enum lu_error pages(struct audit_work *work, const struct pg_statement *statement, const char *what,
                           judge_function judge, int64_t *count)
{
	struct uuid after = {0};
	for (int rows = PAGE; rows == PAGE;) {
		struct arena page;
		arena_init(&page, 1 << 18);
		struct pg_params params;
		pg_params_init(&params, &page);
		pg_add_uuid(&params, &after);
		if (uuid_is_nil(&after))
			params.values[0] = (const char *)&after, params.lengths[0] = sizeof after; /* nil, not NULL */
		pg_add_int8(&params, PAGE);
		pg_add_text(&params, arena_printf(&page, "%lld", (long long)work->horizon));
		if (statement == &reservation_page)
			pg_add_int8(&params, AUDIT_OVERDUE_S);
		PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
		enum lu_error error = audit_query(work, statement, &params, &result);
		rows = error ? 0 : PQntuples(result);
		for (int i = 0; i < rows; i++)
			judge(work, result, i, &page);
		if (rows)
			after = pg_get_uuid(result, rows - 1, 0);
		*count += rows;
		arena_done(&page);
		if (error)
			return error;
		audit_progress(work, what, *count);
	}
	return LU_OK;
}

static enum lu_error holds_without_reservation(struct audit_work *work)
{
	PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
	enum lu_error error = audit_query(work, &orphan_holds, NULL, &result);
	if (error)
		return error;
	for (int i = 0; i < PQntuples(result); i++) {
		char name[UUID_TEXT_BYTES + 1];
		struct uuid id = pg_get_uuid(result, i, 0);
		uuid_format(&id, name);
		audit_broken(work, AUDIT_HOLDS, "a hold of reservation %s, which does not exist", name);
	}
	if (PQntuples(result))
		work->audit->lines[AUDIT_HOLDS].broken += pg_get_int(result, 0, 1) - PQntuples(result);
	return LU_OK;
}

/* Ids of the ledger that no page had. */
static enum lu_error entries_without_object(struct audit_work *work)
{
	size_t at = 0;
	while (at < work->tallies.slot_count) {
		struct arena page;
		arena_init(&page, 1 << 16);
		struct uuid *ids = ARENA_ARRAY(&page, PAGE, struct uuid);
		size_t count = 0;
		for (; at < work->tallies.slot_count && count < PAGE; at++)
			if (!uuid_is_nil(&work->tallies.slots[at].id) && !work->tallies.slots[at].matched)
				ids[count++] = work->tallies.slots[at].id;
		PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
		enum lu_error error = LU_OK;
		if (count) {
			struct pg_params params;
			pg_params_init(&params, &page);
			pg_add_uuids(&params, ids, sizeof *ids, count);
			error = audit_query(work, &objects_missing, &params, &result);
		}
		for (int i = 0; !error && result && i < PQntuples(result); i++) {
			char name[UUID_TEXT_BYTES + 1];
			struct uuid id = pg_get_uuid(result, i, 0);
			uuid_format(&id, name);
			const struct tally *tally = tally_find(&work->tallies, &id);
			bool sale = tally->entries[TALLY_SALE] || tally->entries[TALLY_CANCEL];
			audit_broken(work, sale ? AUDIT_SALES : AUDIT_ENDS, "the ledger has entries of %s %s, which does not exist",
			             sale ? "checkout or order" : "reservation", name);
		}
		arena_done(&page);
		if (error)
			return error;
	}
	return LU_OK;
}

enum lu_error audit_objects(struct audit_work *work)
{
	enum lu_error error = pages(work, &reservation_page, "reservations", reservation_judge, &work->audit->reservations);
	if (!error)
		error = pages(work, &checkout_page, "checkouts", checkout_judge, &work->audit->checkouts);
	if (!error)
		error = pages(work, &order_page, "orders", order_judge, &work->audit->orders);
	if (!error)
		error = holds_without_reservation(work);
	if (!error)
		error = entries_without_object(work);
	return error;
}
