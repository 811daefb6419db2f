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
/* Not those that were removed just now: this is a later statement of the same transaction. */
static const struct pg_statement see = {
	"invalidation_see",
	"SELECT code, max(version), min(at), count(*) FROM (SELECT i.* FROM invalidation i ORDER BY i.id LIMIT $1) seen GROUP BY code",
};
static const struct pg_statement epoch = {
	"invalidation_epoch",
	"SELECT e.state, e.namespace FROM cache_epoch e",
};

/* Appends the SKUs of one answer; how many records they are of. */
static size_t append(struct invalidations *list, const PGresult *r, struct arena *arena)
{
	size_t rows = 0;
	for (int i = 0; i < PQntuples(r); i++) {
		list->items[list->count++] = (struct invalidation){pg_get_text(r, i, 0, arena), pg_get_int(r, i, 1),
		                                                   pg_get_time(r, i, 2)};
		rows += (size_t)pg_get_int(r, i, 3);
	}
	return rows;
}

enum lu_error invalidation_take(struct pg *pg, struct arena *arena, size_t limit, int64_t deadline_ns,
                                struct invalidations *ret)
{
	PGresult *taken __attribute__((cleanup(pg_clear))) = NULL, *seen __attribute__((cleanup(pg_clear))) = NULL;
	PGresult *row __attribute__((cleanup(pg_clear))) = NULL;
	struct pg_params p;
	pg_params_init(&p, arena);
	pg_add_int8(&p, (int64_t)limit);
	tx_begin_send(pg);
	pg_pipe_add(pg, &take, &p);
	pg_pipe_add(pg, &see, &p);
	pg_pipe_add(pg, &epoch, NULL);
	enum lu_error error = pg_pipe_send(pg, deadline_ns);
	if (!error)
		error = tx_begin_take(pg, deadline_ns);
	if (!error)
		error = pg_pipe_take(pg, deadline_ns, &taken);
	if (!error)
		error = pg_pipe_take(pg, deadline_ns, &seen);
	if (!error)
		error = pg_pipe_take(pg, deadline_ns, &row);
	enum lu_error end = pg_pipe_end(pg, deadline_ns);
	if (error || end)
		return error ? error : end;
	if (PQntuples(row) != 1)
		return pg_fail(pg, PG_VIOLATION, "", "cache_epoch has lost its row");
	size_t most = (size_t)PQntuples(taken) + (size_t)PQntuples(seen);
	*ret = (struct invalidations){.items = ARENA_ARRAY(arena, most, struct invalidation),
	                              .epoch = {.state = (enum epoch_state)pg_get_int(row, 0, 0),
	                                        .namespace = pg_get_text(row, 0, 1, arena)}};
	ret->rows = append(ret, taken, arena);
	ret->removed = ret->count;
	ret->more = ret->rows == limit;
	if (!ret->more) /* or those behind the limit, which are nobody's yet, would be gone through twice */
		ret->more = append(ret, seen, arena) == limit;
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
