/* The ledger: appended to in the batch's transaction, read by pages of one SKU.
 *
 * Happy path: one INSERT for all entries of a batch; `at` and `xid` are the table's defaults. Failure modes: 23505 on
 * ledger_pkey means that somebody else wrote a version of a SKU that this transaction had locked: a stranger without
 * the lock, or a bug.
 */
#include "store/ledger.h"

#include "store/lines.h"

void ledger_insert_send(struct pg *pg, struct arena *arena, const struct ledger_entry *entries, size_t count)
{
	static const struct pg_statement statement = {
		"ledger_insert",
		"INSERT INTO ledger (sku_id, version, on_hand_delta, reserved_delta, on_hand_after, reserved_after,"
		" principal_id, operation_id, reference, kind, channel)"
		" SELECT unnest($1), unnest($2), unnest($3), unnest($4), unnest($5), unnest($6), nullif(unnest($7), 0),"
		" unnest($8), unnest($9), unnest($10), unnest($11)",
	};
	int16_t *kinds = ARENA_ARRAY(arena, count, int16_t), *channels = ARENA_ARRAY(arena, count, int16_t);
	for (size_t i = 0; i < count; i++) {
		kinds[i] = (int16_t)entries[i].kind;
		channels[i] = (int16_t)entries[i].channel;
	}
	static const struct ledger_entry none;
	if (count == 0)
		entries = &none; /* nothing is read, but its address is taken */
	struct pg_params p;
	pg_params_init_rows(&p, arena, count);
	pg_add_int8s(&p, &entries->sku_id, sizeof *entries, count);
	pg_add_int8s(&p, &entries->version, sizeof *entries, count);
	pg_add_int8s(&p, &entries->on_hand_delta, sizeof *entries, count);
	pg_add_int8s(&p, &entries->reserved_delta, sizeof *entries, count);
	pg_add_int8s(&p, &entries->on_hand_after, sizeof *entries, count);
	pg_add_int8s(&p, &entries->reserved_after, sizeof *entries, count);
	pg_add_int8s(&p, &entries->principal_id, sizeof *entries, count);
	pg_add_uuids(&p, &entries->operation_id, sizeof *entries, count);
	pg_add_texts(&p, &entries->reference, sizeof *entries, count);
	pg_add_int2s(&p, kinds, sizeof *kinds, count);
	pg_add_int2s(&p, channels, sizeof *channels, count);
	pg_pipe_add(pg, &statement, &p);
}

enum lu_error ledger_insert_take(struct pg *pg, int64_t deadline_ns, size_t count)
{
	return pg_pipe_take_changed(pg, deadline_ns, count);
}

struct ledger_row ledger_get(const PGresult *r, int i, int column, struct arena *arena)
{
	return (struct ledger_row){
		.entry =
			{
				.sku_id = pg_get_int(r, i, column),
				.version = pg_get_int(r, i, column + 1),
				.kind = (enum ledger_kind)pg_get_int(r, i, column + 2),
				.on_hand_delta = pg_get_int(r, i, column + 3),
				.reserved_delta = pg_get_int(r, i, column + 4),
				.on_hand_after = pg_get_int(r, i, column + 5),
				.reserved_after = pg_get_int(r, i, column + 6),
				.channel = (enum channel)pg_get_int(r, i, column + 7),
				.principal_id = pg_get_int(r, i, column + 8),
				.reference = pg_get_text(r, i, column + 9, arena),
				.operation_id = pg_get_uuid(r, i, column + 10),
			},
		.at_us = pg_get_time(r, i, column + 11),
		.principal = pg_get_text(r, i, column + 12, arena),
	};
}

enum lu_error ledger_page(struct pg *pg, struct arena *arena, struct text sku, int64_t after, size_t limit,
                          int64_t deadline_ns, struct ledger_row **ret_rows, size_t *ret_count, bool *ret_known)
{
	/* No entry behind `after`: one row with only the SKU, which tells an end from an unknown code. */
	static const struct pg_statement statement = {
		"ledger_page",
		"SELECT " LEDGER_COLUMNS("l") " FROM sku s LEFT JOIN LATERAL (SELECT * FROM ledger e WHERE e.sku_id = s.id AND e.version > $2"
		" ORDER BY e.version LIMIT $3) l ON true WHERE s.code = $1",
	};
	struct pg_params p;
	pg_params_init(&p, arena);
	pg_add_text(&p, sku);
	pg_add_int8(&p, after);
	pg_add_int8(&p, (int64_t)limit);
	PGresult *r;
	enum lu_error error = pg_query(pg, &statement, &p, deadline_ns, &r);
	if (error)
		return error;
	size_t count = (size_t)PQntuples(r);
	*ret_known = count > 0;
	if (count == 1 && PQgetisnull(r, 0, 1))
		count = 0;
	*ret_rows = ARENA_ARRAY(arena, count, struct ledger_row);
	*ret_count = count;
	for (int i = 0; i < (int)count; i++)
		(*ret_rows)[i] = ledger_get(r, i, 0, arena);
	PQclear(r);
	return LU_OK;
}

enum lu_error ledger_walk(struct pg *pg, struct arena *arena, int64_t sku_id, int64_t version, size_t limit,
                          int64_t deadline_ns, struct ledger_walk_row **ret_rows, size_t *ret_count)
{
	static const struct pg_statement statement = {
		"ledger_walk",
		"SELECT (SELECT s.code FROM sku s WHERE s.id = l.sku_id), " LEDGER_COLUMNS(
			"l") " FROM ledger l WHERE (l.sku_id, l.version) > ($1, $2) ORDER BY l.sku_id, l.version LIMIT $3",
	};
	struct pg_params p;
	pg_params_init(&p, arena);
	pg_add_int8(&p, sku_id);
	pg_add_int8(&p, version);
	pg_add_int8(&p, (int64_t)limit);
	PGresult *r;
	enum lu_error error = pg_query(pg, &statement, &p, deadline_ns, &r);
	if (error)
		return error;
	*ret_count = (size_t)PQntuples(r);
	*ret_rows = ARENA_ARRAY(arena, *ret_count, struct ledger_walk_row);
	for (int i = 0; i < (int)*ret_count; i++)
		(*ret_rows)[i] = (struct ledger_walk_row){pg_get_text(r, i, 0, arena), ledger_get(r, i, 1, arena)};
	PQclear(r);
	return LU_OK;
}
