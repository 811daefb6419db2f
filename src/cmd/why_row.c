/* The row of a SKU and what depends on it (why.h).
 *
 * Happy path: the row with the sum of its holds in one statement, so that the two can be compared; then the lists.
 * Failure modes: PostgreSQL's errors go up.
 */
#include "base/clock.h"
#include "base/text.h"
#include "cmd/why.h"

/* xmax of a row that is locked or being changed is the transaction that does it. */
static const struct pg_statement row = {
	"why_row",
	"SELECT s.id, s.version, s.on_hand, s.reserved, s.safety_stock, s.tracked,"
	" (SELECT coalesce(t.titles->>'en', (SELECT v.value FROM jsonb_each_text(t.titles) v LIMIT 1)) FROM sku_text t"
	"  WHERE t.sku_id = s.id),"
	" h.holds, h.units, i.waiting, i.oldest_ms, coalesce(a.pid, 0), a.application_name"
	" FROM sku s"
	" CROSS JOIN LATERAL (SELECT count(*), coalesce(sum(k.quantity) FILTER (WHERE k.counted), 0)::int8"
	"  FROM hold k WHERE k.sku_id = s.id) h(holds, units)"
	" CROSS JOIN LATERAL (SELECT count(*), coalesce((extract(epoch FROM clock_timestamp() - min(n.at)) * 1000)::int8, 0)"
	"  FROM invalidation n WHERE n.sku_id = s.id) i(waiting, oldest_ms)"
	" LEFT JOIN pg_stat_activity a ON a.backend_xid = s.xmax WHERE s.code = $1 LIMIT 1"};

static const struct pg_statement holds = {
	"why_holds",
	"SELECT h.reservation_id, h.quantity, h.counted, (extract(epoch FROM h.expires_at - clock_timestamp()) * 1000)::int8,"
	" r.channel, p.name, r.reference FROM hold h JOIN reservation r ON r.id = h.reservation_id"
	" LEFT JOIN principal p ON p.id = r.principal_id WHERE h.sku_id = $1 ORDER BY h.expires_at LIMIT $2"};

static const struct pg_statement entries =
	{"why_entries",
     "SELECT l.version, l.kind, l.on_hand_delta, l.reserved_delta, l.on_hand_after, l.reserved_after, l.channel,"
     " l.reference, l.operation_id, l.at, (extract(epoch FROM clock_timestamp() - l.at) * 1000)::int8, p.name"
     " FROM ledger l LEFT JOIN principal p ON p.id = l.principal_id WHERE l.sku_id = $1"
     " ORDER BY l.version DESC LIMIT $2"};

static const struct pg_statement principals =
	{"why_principals",
     "SELECT p.name, p.buffer, p.may_use_safety_stock FROM principal p WHERE p.buffer > 0 OR p.may_use_safety_stock"
     " ORDER BY p.name LIMIT $1"};

enum lu_error why_look_row(struct why *why, struct pg *pg)
{
	struct pg_params params;
	pg_params_init(&params, why->arena);
	pg_add_text(&params, why->sku);
	PGresult *r __attribute__((cleanup(pg_clear))) = NULL;
	enum lu_error error = pg_query(pg, &row, &params, deadline_in_ms(WHY_ASK_MS), &r);
	if (error)
		return error;
	why->row = (struct why_row){.known = PQntuples(r) == 1};
	if (!why->row.known)
		return LU_OK;
	why->row = (struct why_row){
		.known = true,
		.id = pg_get_int(r, 0, 0),
		.figures = {pg_get_int(r, 0, 1), pg_get_int(r, 0, 2), pg_get_int(r, 0, 3), pg_get_int(r, 0, 4),
	                pg_get_bool(r, 0, 5)},
		.title = pg_get_text(r, 0, 6, why->arena),
		.holds = pg_get_int(r, 0, 7),
		.held_units = pg_get_int(r, 0, 8),
		.relay_waiting = pg_get_int(r, 0, 9),
		.relay_oldest_ms = pg_get_int(r, 0, 10),
		.locker_pid = pg_get_int(r, 0, 11),
		.locker_application = pg_get_text(r, 0, 12, why->arena),
	};
	return LU_OK;
}

static enum lu_error look_at_holds(struct why *why, struct pg *pg)
{
	struct pg_params params;
	pg_params_init(&params, why->arena);
	pg_add_int8(&params, why->row.id);
	pg_add_int8(&params, WHY_HOLDS_MAX);
	PGresult *r __attribute__((cleanup(pg_clear))) = NULL;
	enum lu_error error = pg_query(pg, &holds, &params, deadline_in_ms(WHY_ASK_MS), &r);
	if (error)
		return error;
	why->hold_count = (size_t)PQntuples(r);
	why->holds = ARENA_ARRAY(why->arena, why->hold_count, struct why_hold);
	for (int i = 0; i < PQntuples(r); i++)
		why->holds[i] = (struct why_hold){pg_get_uuid(r, i, 0),
		                                  pg_get_int(r, i, 1),
		                                  pg_get_int(r, i, 3),
		                                  pg_get_bool(r, i, 2),
		                                  (enum channel)pg_get_int(r, i, 4),
		                                  pg_get_text(r, i, 5, why->arena),
		                                  pg_get_text(r, i, 6, why->arena)};
	return LU_OK;
}

static enum lu_error look_at_entries(struct why *why, struct pg *pg)
{
	struct pg_params params;
	pg_params_init(&params, why->arena);
	pg_add_int8(&params, why->row.id);
	pg_add_int8(&params, why->entries_max);
	PGresult *r __attribute__((cleanup(pg_clear))) = NULL;
	enum lu_error error = pg_query(pg, &entries, &params, deadline_in_ms(WHY_ASK_MS), &r);
	if (error)
		return error;
	why->entry_count = (size_t)PQntuples(r);
	why->entries = ARENA_ARRAY(why->arena, why->entry_count, struct why_entry);
	for (int i = 0; i < PQntuples(r); i++)
		why->entries[i] = (struct why_entry){
			.entry = {.sku_id = why->row.id,
		              .version = pg_get_int(r, i, 0),
		              .kind = (enum ledger_kind)pg_get_int(r, i, 1),
		              .on_hand_delta = pg_get_int(r, i, 2),
		              .reserved_delta = pg_get_int(r, i, 3),
		              .on_hand_after = pg_get_int(r, i, 4),
		              .reserved_after = pg_get_int(r, i, 5),
		              .channel = (enum channel)pg_get_int(r, i, 6),
		              .reference = pg_get_text(r, i, 7, why->arena),
		              .operation_id = pg_get_uuid(r, i, 8)},
			.at_us = pg_get_time(r, i, 9),
			.age_ms = pg_get_int(r, i, 10),
			.principal = pg_get_text(r, i, 11, why->arena),
		};
	return LU_OK;
}

static enum lu_error look_at_principals(struct why *why, struct pg *pg)
{
	struct pg_params params;
	pg_params_init(&params, why->arena);
	pg_add_int8(&params, WHY_PRINCIPALS_MAX);
	PGresult *r __attribute__((cleanup(pg_clear))) = NULL;
	enum lu_error error = pg_query(pg, &principals, &params, deadline_in_ms(WHY_ASK_MS), &r);
	if (error)
		return error;
	const struct figures *f = &why->row.figures;
	why->principal_count = (size_t)PQntuples(r);
	why->principals = ARENA_ARRAY(why->arena, why->principal_count, struct why_principal);
	for (int i = 0; i < PQntuples(r); i++) {
		struct why_principal *p = &why->principals[i];
		*p = (struct why_principal){.name = pg_get_text(r, i, 0, why->arena),
		                            .buffer = pg_get_int(r, i, 1),
		                            .may_use_safety_stock = pg_get_bool(r, i, 2)};
		int64_t left = f->on_hand - f->reserved - p->buffer - (p->may_use_safety_stock ? 0 : f->safety_stock);
		p->available = left > 0 ? left : 0;
	}
	return LU_OK;
}

enum lu_error why_look_rest(struct why *why, struct pg *pg)
{
	const struct why_row *w = &why->row;
	if (w->held_units != w->figures.reserved)
		weakness_add(&why->findings, "reserved_without_holds", "P1",
		             "the row has %lld reserved, its live holds add up to %lld: run `lastunit audit`",
		             (long long)w->figures.reserved, (long long)w->held_units);
	enum lu_error error = look_at_holds(why, pg);
	if (!error)
		error = look_at_entries(why, pg);
	if (!error)
		error = look_at_principals(why, pg);
	if (!error && why->entry_count && why->entries[0].entry.version < w->figures.version)
		weakness_add(&why->findings, "ledger_behind", "P1",
		             "the row has version %lld, the ledger ends at %lld: run `lastunit audit`",
		             (long long)w->figures.version, (long long)why->entries[0].entry.version);
	return error;
}
