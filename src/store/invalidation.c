/* Invalidations recorded by triggers (invalidation.h). */
#include "store/invalidation.h"

#include "store/pg_internal.h"
#include "store/tx.h"

static const struct pg_statement take = {
	"invalidation_take",
	"WITH gone AS (DELETE FROM invalidation WHERE id = ANY (ARRAY(SELECT i.id FROM invalidation i ORDER BY i.id"
	" LIMIT $1 FOR UPDATE SKIP LOCKED)) RETURNING code, version, at)"
	" SELECT code, max(version), min(at), count(*) FROM gone GROUP BY code",
};
static const struct pg_statement epoch = {
	"invalidation_epoch",
	"SELECT e.state, e.namespace FROM cache_epoch e",
};

enum lu_error invalidation_take(struct pg *pg, struct arena *arena, size_t limit, int64_t deadline_ns,
                                struct invalidation **ret_invalidations, size_t *ret_count, size_t *ret_rows,
                                struct epoch_row *ret_epoch)
{
	PGresult *rows __attribute__((cleanup(pg_clear))) = NULL, *row __attribute__((cleanup(pg_clear))) = NULL;
	struct pg_params p;
	pg_params_init(&p, arena);
	pg_add_int8(&p, (int64_t)limit);
	tx_begin_send(pg);
	pg_pipe_add(pg, &take, &p);
	pg_pipe_add(pg, &epoch, NULL);
	enum lu_error error = pg_pipe_send(pg, deadline_ns);
	if (!error)
		error = tx_begin_take(pg, deadline_ns);
	if (!error)
		error = pg_pipe_take(pg, deadline_ns, &rows);
	if (!error)
		error = pg_pipe_take(pg, deadline_ns, &row);
	enum lu_error end = pg_pipe_end(pg, deadline_ns);
	if (error || end)
		return error ? error : end;
	*ret_count = (size_t)PQntuples(rows);
	*ret_rows = 0;
	*ret_invalidations = ARENA_ARRAY(arena, *ret_count, struct invalidation);
	for (int i = 0; i < PQntuples(rows); i++) {
		(*ret_invalidations)[i] = (struct invalidation){pg_get_text(rows, i, 0, arena), pg_get_int(rows, i, 1),
		                                                pg_get_time(rows, i, 2)};
		*ret_rows += (size_t)pg_get_int(rows, i, 3);
	}
	*ret_epoch = (struct epoch_row){.state = (enum epoch_state)pg_get_int(row, 0, 0),
	                                .namespace = pg_get_text(row, 0, 1, arena)};
	return LU_OK;
}

enum lu_error invalidation_waiting(struct pg *pg, struct arena *arena, const struct text *codes, size_t count,
                                   int64_t deadline_ns, bool **ret_waiting)
{
	static const struct pg_statement statement = {
		"invalidation_waiting",
		"SELECT u.n FROM unnest($1) WITH ORDINALITY AS u(code, n)"
		" WHERE u.code IN (SELECT i.code FROM invalidation i)",
	};
	struct pg_params p;
	pg_params_init(&p, arena);
	pg_add_texts(&p, codes, sizeof *codes, count);
	PGresult *r __attribute__((cleanup(pg_clear))) = NULL;
	enum lu_error error = pg_query(pg, &statement, &p, deadline_ns, &r);
	if (error)
		return error;
	bool *waiting = *ret_waiting = ARENA_ARRAY(arena, count, bool);
	for (int i = 0; i < PQntuples(r); i++)
		waiting[pg_get_int(r, i, 0) - 1] = true;
	return LU_OK;
}
