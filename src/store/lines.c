/* Lines of reservations and checkouts, flattened for SQL and read back.
 *
 * Happy path: copied once into one array, from which every column is taken by its stride. Failure modes: a stored row
 * whose arrays differ in length, whose SKU is gone (SKUs are never deleted), or whose lines are not by code, each of one
 * SKU and at least one unit, is damaged: it is read without lines, and whoever would act on it fails alone.
 */
#include "store/lines.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "store/pg_internal.h"

struct flat_lines flat_lines_new(struct arena *arena, size_t cart_count, size_t line_count)
{
	return (struct flat_lines){
		.lines = ARENA_ARRAY(arena, line_count + 1, struct line),
		.firsts = ARENA_ARRAY(arena, cart_count, int64_t),
		.lasts = ARENA_ARRAY(arena, cart_count, int64_t),
	};
}

void flat_lines_add(struct flat_lines *flat, const struct line *lines, size_t count)
{
	if (count > 0)
		memcpy(flat->lines + flat->count, lines, count * sizeof *lines);
	flat->firsts[flat->cart_count] = (int64_t)flat->count + 1;
	flat->count += count;
	flat->lasts[flat->cart_count++] = (int64_t)flat->count;
}

void flat_lines_params(const struct flat_lines *flat, struct pg_params *p)
{
	const struct line *line = flat->lines;
	pg_params_arrays(p);
	pg_add_int8s(p, &line->sku_id, sizeof *line, flat->count);
	pg_add_int8s(p, &line->quantity, sizeof *line, flat->count);
	pg_add_bools(p, &line->counted, sizeof *line, flat->count);
	pg_add_int8s(p, &line->version, sizeof *line, flat->count);
}

size_t lines_get(const PGresult *r, int row, int column, struct arena *arena, struct line **ret_lines)
{
	int64_t *sku_ids, *quantities, *versions;
	bool *counted;
	struct text *codes;
	size_t count = pg_get_int8s(r, row, column, arena, &sku_ids);
	*ret_lines = NULL;
	if (pg_get_int8s(r, row, column + 1, arena, &quantities) != count ||
	    pg_get_bools(r, row, column + 2, arena, &counted) != count ||
	    pg_get_int8s(r, row, column + 3, arena, &versions) != count ||
	    pg_get_texts(r, row, column + 4, arena, &codes) != count)
		return 0;
	/* The same SKU twice would fit its row line by line, and not together; a line of less than nothing would take. */
	for (size_t i = 0; i < count; i++)
		if (quantities[i] < 1 || (i > 0 && text_compare(codes[i - 1], codes[i]) >= 0))
			return 0;
	struct line *lines = ARENA_ARRAY(arena, count, struct line);
	for (size_t i = 0; i < count; i++)
		lines[i] = (struct line){
			.sku = codes[i],
			.quantity = quantities[i],
			.sku_id = sku_ids[i],
			.counted = counted[i],
			.version = versions[i],
		};
	*ret_lines = lines;
	return count;
}

static enum lu_error written(struct pg *pg, bool all)
{
	return all ? LU_OK : pg_fail(pg, PG_VIOLATION, "", "a row was not written: a trigger of somebody's?");
}

enum lu_error pg_pipe_take_changed(struct pg *pg, int64_t deadline_ns, size_t count)
{
	PGresult *result;
	enum lu_error error = pg_pipe_take(pg, deadline_ns, &result);
	if (error)
		return error;
	bool all = strtoull(PQcmdTuples(result), NULL, 10) == count;
	PQclear(result);
	return written(pg, all);
}

enum lu_error pg_pipe_take_all_written(struct pg *pg, int64_t deadline_ns)
{
	PGresult *result;
	enum lu_error error = pg_pipe_take(pg, deadline_ns, &result);
	if (error)
		return error;
	bool all = pg_get_bool(result, 0, 0);
	PQclear(result);
	return written(pg, all);
}

enum lu_error pg_pipe_take_done(struct pg *pg, int64_t deadline_ns)
{
	PGresult *result;
	enum lu_error error = pg_pipe_take(pg, deadline_ns, &result);
	if (!error)
		PQclear(result);
	return error;
}
