/* What principals and their callers hold.
 *
 * Happy path: two statements in one pipeline, each for any number of principals and callers: the number of their holds,
 * and their units of single SKUs. What is counted is what is held: the cost grows with it, and a cap bounds it. So who has
 * no cap on the number of his holds is not asked about it: a shop's may be a hundred thousand.
 * Failure modes: those of pg.h.
 *
 * One index for each question whatever the plan's day (sku.c has the rule): `caller` leads to hold_by_caller alone because
 * `+ 0` hides the other columns; a SKU of a principal is a range of both columns, because as two equations the index by SKU
 * would do as well, and a hot SKU has the holds of everybody; the end is compared as a difference, which no index knows.
 */
#include "store/holding.h"

#include "base/check.h"
#include "store/lines.h"

#define NOT_DUE "h.expires_at - (SELECT clock_timestamp()) > interval '0'"
#define OF_CALLER "h.caller = u.caller AND h.principal_id + 0 = u.principal_id AND " NOT_DUE

/* Returns how many are asked about: places[n - 1] is whose the answer's number n is. */
static size_t send_counts(struct pg *pg, struct arena *arena, const struct holdings *holdings, size_t count,
                          size_t *places)
{
	static const struct pg_statement statement = {
		"holding_count",
		"SELECT u.n, h.count FROM unnest($1, $2) WITH ORDINALITY AS u(principal_id, caller, n), LATERAL"
		" (SELECT count(DISTINCT h.reservation_id) FROM hold h WHERE h.principal_id = u.principal_id AND " NOT_DUE
		") h WHERE u.caller IS NULL"
		" UNION ALL "
		"SELECT u.n, h.count FROM unnest($1, $2) WITH ORDINALITY AS u(principal_id, caller, n), LATERAL"
		" (SELECT count(DISTINCT h.reservation_id) FROM hold h WHERE " OF_CALLER ") h WHERE u.caller IS NOT NULL",
	};
	struct holdings *asked = ARENA_ARRAY(arena, count + 1, struct holdings);
	size_t asked_count = 0;
	for (size_t i = 0; i < count; i++) {
		if (holdings[i].units_only)
			continue;
		places[asked_count] = i;
		asked[asked_count++] = holdings[i];
	}
	struct pg_params p;
	pg_params_init(&p, arena);
	pg_add_int8s(&p, &asked->principal_id, sizeof *asked, asked_count);
	pg_add_texts(&p, &asked->caller, sizeof *asked, asked_count);
	if (asked_count)
		pg_pipe_add(pg, &statement, &p);
	return asked_count;
}

/* One SKU of one of them. */
struct asked {
	int64_t principal_id;
	struct text caller;
	struct held *held;
	int64_t sku_id;
};

static void send_units(struct pg *pg, struct arena *arena, const struct asked *asked, size_t count)
{
	static const struct pg_statement statement = {
		"holding_units",
		"SELECT u.n, h.units FROM unnest($1, $2, $3) WITH ORDINALITY AS u(principal_id, caller, sku_id, n), LATERAL"
		" (SELECT coalesce(sum(h.quantity), 0)::bigint AS units FROM hold h WHERE h.counted"
		" AND (h.principal_id, h.sku_id) >= (u.principal_id, u.sku_id)"
		" AND (h.principal_id, h.sku_id) <= (u.principal_id, u.sku_id) AND " NOT_DUE
		") h WHERE u.caller IS NULL"
		" UNION ALL "
		"SELECT u.n, h.units FROM unnest($1, $2, $3) WITH ORDINALITY AS u(principal_id, caller, sku_id, n), LATERAL"
		" (SELECT coalesce(sum(h.quantity), 0)::bigint AS units FROM hold h WHERE h.counted"
		" AND h.sku_id + 0 = u.sku_id AND " OF_CALLER ") h WHERE u.caller IS NOT NULL",
	};
	struct pg_params p;
	pg_params_init(&p, arena);
	pg_add_int8s(&p, &asked->principal_id, sizeof *asked, count);
	pg_add_texts(&p, &asked->caller, sizeof *asked, count);
	pg_add_int8s(&p, &asked->sku_id, sizeof *asked, count);
	pg_pipe_add(pg, &statement, &p);
}

/* Each row tells one of the askers' number; twins of an asker, and rows of none, cannot be. */
static enum lu_error take(struct pg *pg, int64_t deadline_ns, size_t count, PGresult **ret_result)
{
	enum lu_error error = pg_pipe_take(pg, deadline_ns, ret_result);
	if (!error)
		CHECK((size_t)PQntuples(*ret_result) == count);
	return error;
}

enum lu_error holding_count(struct pg *pg, struct arena *arena, struct holdings *holdings, size_t count,
                            int64_t deadline_ns)
{
	size_t asked_count = 0;
	for (size_t i = 0; i < count; i++)
		asked_count += holdings[i].held_count;
	struct asked *asked = ARENA_ARRAY(arena, asked_count + 1, struct asked);
	asked_count = 0;
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < holdings[i].held_count; j++)
			asked[asked_count++] = (struct asked){holdings[i].principal_id, holdings[i].caller, &holdings[i].held[j],
			                                      holdings[i].held[j].sku_id};
	size_t *places = ARENA_ARRAY(arena, count, size_t), counted = send_counts(pg, arena, holdings, count, places);
	send_units(pg, arena, asked, asked_count);
	PGresult *counts __attribute__((cleanup(pg_clear))) = NULL, *units __attribute__((cleanup(pg_clear))) = NULL;
	enum lu_error error = pg_pipe_send(pg, deadline_ns);
	if (!error && counted)
		error = take(pg, deadline_ns, counted, &counts);
	if (!error)
		error = take(pg, deadline_ns, asked_count, &units);
	enum lu_error end = pg_pipe_end(pg, deadline_ns);
	if (error || end)
		return error ? error : end;
	for (int i = 0; counted && i < PQntuples(counts); i++)
		holdings[places[pg_get_int(counts, i, 0) - 1]].holds = pg_get_int(counts, i, 1);
	for (int i = 0; i < PQntuples(units); i++)
		asked[pg_get_int(units, i, 0) - 1].held->units = pg_get_int(units, i, 1);
	return LU_OK;
}
