/* Idempotency rows: looked up before the decision, written with it, their details pruned at leisure.
 *
 * Happy path: one statement each. Failure modes: 23505 on idempotency_key_is_used_once is how two transactions with
 * the same key find out about each other: the second INSERT waits for the first transaction and then fails, unless
 * that one rolled back. Because rows are inserted in (principal, key) order by everybody, those waits form no circle.
 */
#include "store/idempotency.h"

#include <stdlib.h>
#include <string.h>

#include "store/lines.h"
#include "store/pg_internal.h"

void idempotency_read_send(struct pg *pg, struct arena *arena, const int64_t *principal_ids, const struct text *keys,
                           size_t count)
{
	static const struct pg_statement statement = {
		"idempotency_read",
		"SELECT i.principal_id, i.key, i.fingerprint, i.kind, i.status, i.object_id, i.at, i.expires_at, i.detail"
		" FROM (SELECT unnest($1) AS principal_id, unnest($2) AS key) u, LATERAL (SELECT * FROM idempotency k"
		" WHERE k.principal_id = u.principal_id AND k.key = u.key OFFSET 0) i",
	};
	struct pg_params p;
	pg_params_init_rows(&p, arena, count);
	pg_add_int8s(&p, principal_ids, sizeof *principal_ids, count);
	pg_add_texts(&p, keys, sizeof *keys, count);
	pg_pipe_add(pg, &statement, &p);
}

enum lu_error idempotency_read_take(struct pg *pg, int64_t deadline_ns, struct arena *arena,
                                    struct idempotency_row **ret_rows, size_t *ret_count)
{
	PGresult *r;
	enum lu_error error = pg_pipe_take(pg, deadline_ns, &r);
	if (error)
		return error;
	*ret_count = (size_t)PQntuples(r);
	*ret_rows = ARENA_ARRAY(arena, *ret_count, struct idempotency_row);
	for (int i = 0; i < PQntuples(r); i++) {
		struct idempotency_row *row = *ret_rows + i;
		row->principal_id = pg_get_int(r, i, 0);
		row->key = pg_get_text(r, i, 1, arena);
		if (PQgetlength(r, i, 2) != sizeof row->fingerprint) {
			PQclear(r);
			return pg_fail(pg, PG_VIOLATION, "", "the fingerprint of an idempotency key is damaged");
		}
		memcpy(row->fingerprint, PQgetvalue(r, i, 2), sizeof row->fingerprint);
		row->kind = pg_get_int(r, i, 3);
		row->status = pg_get_text(r, i, 4, arena);
		row->object_id = pg_get_uuid(r, i, 5);
		row->at_us = pg_get_time(r, i, 6);
		row->expires_us = pg_get_time(r, i, 7);
		row->detail = pg_get_text(r, i, 8, arena);
	}
	PQclear(r);
	return LU_OK;
}

void idempotency_insert_send(struct pg *pg, struct arena *arena, const struct idempotency_row *rows, size_t count)
{
	static const struct pg_statement statement = {
		"idempotency_insert",
		"INSERT INTO idempotency (principal_id, key, fingerprint, kind, status, object_id, at, expires_at, detail)"
		" SELECT unnest($1), unnest($2), unnest($3), unnest($4), unnest($5), unnest($6), unnest($7), unnest($8),"
		" unnest($9)::json",
	};
	struct text *fingerprints = ARENA_ARRAY(arena, count, struct text);
	for (size_t i = 0; i < count; i++)
		fingerprints[i] = (struct text){(const char *)rows[i].fingerprint, sizeof rows[i].fingerprint};
	static const struct idempotency_row none;
	if (count == 0)
		rows = &none; /* nothing is read, but its address is taken */
	struct pg_params p;
	pg_params_init_rows(&p, arena, count);
	pg_add_int8s(&p, &rows->principal_id, sizeof *rows, count);
	pg_add_texts(&p, &rows->key, sizeof *rows, count);
	pg_add_byteas(&p, fingerprints, sizeof *fingerprints, count);
	pg_add_int8s(&p, &rows->kind, sizeof *rows, count);
	pg_add_texts(&p, &rows->status, sizeof *rows, count);
	pg_add_uuids(&p, &rows->object_id, sizeof *rows, count);
	pg_add_times(&p, &rows->at_us, sizeof *rows, count);
	pg_add_times(&p, &rows->expires_us, sizeof *rows, count);
	pg_add_texts(&p, &rows->detail, sizeof *rows, count);
	pg_pipe_add(pg, &statement, &p);
}

enum lu_error idempotency_insert_take(struct pg *pg, int64_t deadline_ns, size_t count)
{
	return pg_pipe_take_changed(pg, deadline_ns, count);
}

enum lu_error idempotency_prune(struct pg *pg, size_t limit, int64_t deadline_ns, size_t *ret_count)
{
	/* SKIP LOCKED: two instances that prune at once share the work instead of waiting for each other. */
	static const struct pg_statement statement = {
		"idempotency_prune",
		"UPDATE idempotency SET detail = NULL WHERE ctid = ANY(ARRAY(SELECT i.ctid FROM idempotency i"
		" WHERE i.status <> 'ok' AND i.detail IS NOT NULL"
		" AND i.at < (SELECT clock_timestamp() - interval '24 hours') ORDER BY i.at LIMIT $1"
		" FOR UPDATE SKIP LOCKED))",
	};
	struct arena arena;
	arena_init(&arena, 0);
	struct pg_params p;
	pg_params_init(&p, &arena);
	pg_add_int8(&p, (int64_t)limit);
	PGresult *r;
	enum lu_error error = pg_query(pg, &statement, &p, deadline_ns, &r);
	arena_done(&arena);
	if (error)
		return error;
	*ret_count = (size_t)strtoull(PQcmdTuples(r), NULL, 10);
	PQclear(r);
	return LU_OK;
}
