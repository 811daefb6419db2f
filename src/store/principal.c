/* Settings of principals: listed, and changed one by one.
 *
 * Happy path: one statement each; a change touches only what is given, so two that are made at once both stay. Failure
 * modes: a value out of its range is the constraint's to refuse (PG_VIOLATION), and the command's before it.
 */
#include "store/principal.h"

#include <stdlib.h>

struct principal_settings principal_settings_get(const PGresult *r, int row, int column)
{
	return (struct principal_settings){
		.buffer = pg_get_int(r, row, column),
		.may_use_safety_stock = pg_get_bool(r, row, column + 1),
		.holds_max = pg_get_int(r, row, column + 2), /* NULL, no cap, reads as 0 */
		.held_units_max = pg_get_int(r, row, column + 3),
		.caller_holds_max = pg_get_int(r, row, column + 4),
		.caller_held_units_max = pg_get_int(r, row, column + 5),
	};
}

enum lu_error principal_list(struct pg *pg, struct arena *arena, struct text name, int64_t deadline_ns,
                             struct principal_row **ret_rows, size_t *ret_count)
{
	static const struct pg_statement statement = {
		"principal_list",
		"SELECT p.name, p.channel, " PRINCIPAL_SETTINGS(
			"p") " FROM principal p WHERE ($1::text IS NULL OR p.name = $1) ORDER BY p.name",
	};
	struct pg_params p;
	PGresult *r;
	pg_params_init(&p, arena);
	pg_add_text(&p, name);
	enum lu_error error = pg_query(pg, &statement, &p, deadline_ns, &r);
	if (error)
		return error;
	*ret_count = (size_t)PQntuples(r);
	*ret_rows = ARENA_ARRAY(arena, *ret_count, struct principal_row);
	for (int i = 0; i < PQntuples(r); i++)
		(*ret_rows)[i] = (struct principal_row){
			.name = pg_get_text(r, i, 0, arena),
			.channel = (enum channel)pg_get_int(r, i, 1),
			.settings = principal_settings_get(r, i, 2),
		};
	PQclear(r);
	return LU_OK;
}

#define CAP(column, parameter) \
	column " = CASE WHEN " parameter " < 0 THEN p." column " ELSE nullif(" parameter ", 0) END"

enum lu_error principal_change(struct pg *pg, struct text name, const struct principal_change *change,
                               int64_t deadline_ns, bool *ret_known)
{
	static const struct pg_statement statement = {
		"principal_change",
		"UPDATE principal p SET buffer = CASE WHEN $2 < 0 THEN p.buffer ELSE $2 END,"
		" may_use_safety_stock = CASE WHEN $3 < 0 THEN p.may_use_safety_stock ELSE $3 > 0 END, " CAP(
			"holds_max", "$4") ", " CAP("held_units_max", "$5") ", " CAP("caller_holds_max",
	                                                                     "$6") ", " CAP("caller_held_units_max",
	                                                                                    "$7") " WHERE p.name = $1",
	};
	struct arena arena;
	arena_init(&arena, 0);
	struct pg_params p;
	PGresult *r;
	pg_params_init(&p, &arena);
	pg_add_text(&p, name);
	pg_add_int8(&p, change->buffer);
	pg_add_int8(&p, change->may_use_safety_stock);
	pg_add_int8(&p, change->holds_max);
	pg_add_int8(&p, change->held_units_max);
	pg_add_int8(&p, change->caller_holds_max);
	pg_add_int8(&p, change->caller_held_units_max);
	enum lu_error error = pg_query(pg, &statement, &p, deadline_ns, &r);
	arena_done(&arena);
	if (error)
		return error;
	*ret_known = strtoull(PQcmdTuples(r), NULL, 10) == 1;
	PQclear(r);
	return LU_OK;
}
