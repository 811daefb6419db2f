/* SKU rows: locked, read, changed, described. Creation is in sku_insert.c.
 *
 * Happy path: one statement for any number of rows, parameters as arrays. Failure modes: those of pg.h; a row count
 * that is not what was locked is an error: a trigger of somebody's may be at work.
 *
 * Every statement here must stay an index scan although its plan is made once, perhaps while the table was empty. So
 * each looks one table up by `= ANY($1)`, or by a LATERAL sub-select fenced with OFFSET 0: both leave the planner one
 * index to choose. A join written as a join would let a plan made for ten rows read a million.
 */
#include "store/sku.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/id.h"
#include "base/text.h"
#include "store/lines.h"
#include "store/pg_internal.h"

#define FIGURES "s.version, s.on_hand, s.reserved, s.safety_stock, s.tracked"

static struct figures figures_get(const PGresult *r, int row, int column)
{
	return (struct figures){
		.version = pg_get_int(r, row, column),
		.on_hand = pg_get_int(r, row, column + 1),
		.reserved = pg_get_int(r, row, column + 2),
		.safety_stock = pg_get_int(r, row, column + 3),
		.tracked = pg_get_bool(r, row, column + 4),
	};
}

/* --- locking ------------------------------------------------------------------------------------------------------ */

/* The sort stands below the locking, so the locks are taken in id order; `+ 0` keeps the planner from reading the
 * primary key from end to end to save that sort. */
#define LOCK_SQL "SELECT s.id, s.code, " FIGURES " FROM sku s WHERE s.code = ANY($1) ORDER BY s.id + 0 FOR UPDATE OF s"
#define LOCK_ONE_SQL "SELECT s.id, s.code, " FIGURES " FROM sku s WHERE s.code = $1 FOR UPDATE OF s"

void sku_lock_send(struct pg *pg, struct arena *arena, const struct text *codes, size_t count, enum sku_lock mode)
{
	/* By mode; each for many SKUs and for one, which a hot SKU's batch has however many carts are in it. */
	static const struct pg_statement many[] = {{"sku_lock", LOCK_SQL}, {"sku_lock_skip", LOCK_SQL " SKIP LOCKED"}};
	static const struct pg_statement one[] = {{"sku_lock", LOCK_ONE_SQL},
	                                          {"sku_lock_skip", LOCK_ONE_SQL " SKIP LOCKED"}};
	struct pg_params p;
	pg_params_init_rows(&p, arena, count);
	pg_add_texts(&p, codes, sizeof *codes, count);
	pg_pipe_add(pg, &(count == 1 ? one : many)[mode == SKU_LOCK_SKIP], &p);
}

static int by_code(const void *a, const void *b)
{
	return text_compare(((const struct locked_sku *)a)->code, ((const struct locked_sku *)b)->code);
}

enum lu_error sku_refuse_impossible(struct pg *pg, struct text code)
{
	char message[256];
	snprintf(message, sizeof message, "the figures of SKU %.*s cannot be: see lastunit audit", (int)code.size,
	         code.data);
	return pg_fail(pg, PG_VIOLATION, "", message);
}

/* So is the one that lets a code be used once: which of the two is meant, nobody can say. */
static enum lu_error refuse_twins(struct pg *pg, const struct locked_sku *sku)
{
	char message[256];
	snprintf(message, sizeof message, "there are two SKUs %.*s", (int)sku->code.size, sku->code.data);
	return pg_fail(pg, PG_VIOLATION, "", message);
}

enum lu_error sku_lock_take(struct pg *pg, int64_t deadline_ns, struct arena *arena, struct locked_sku **ret_skus,
                            size_t *ret_count)
{
	PGresult *r;
	enum lu_error error = pg_pipe_take(pg, deadline_ns, &r);
	if (error)
		return error;
	size_t count = (size_t)PQntuples(r);
	struct locked_sku *skus = ARENA_ARRAY(arena, count, struct locked_sku);
	for (int i = 0; i < (int)count; i++)
		skus[i] = (struct locked_sku){
			.id = pg_get_int(r, i, 0),
			.code = pg_get_text(r, i, 1, arena),
			.figures = figures_get(r, i, 2),
		};
	PQclear(r);
	for (size_t i = 0; i < count; i++)
		if (!figures_possible(&skus[i].figures))
			return sku_refuse_impossible(pg, skus[i].code);
	if (count > 0)
		qsort(skus, count, sizeof *skus, by_code);
	for (size_t i = 1; i < count; i++)
		if (by_code(&skus[i - 1], &skus[i]) == 0)
			return refuse_twins(pg, &skus[i]);
	*ret_skus = skus;
	*ret_count = count;
	return LU_OK;
}

void sku_exist_send(struct pg *pg, struct arena *arena, const struct text *codes, size_t count)
{
	static const struct pg_statement statement = {"sku_exist", "SELECT s.code FROM sku s WHERE s.code = ANY($1)"};
	struct pg_params p;
	pg_params_init(&p, arena);
	pg_add_texts(&p, codes, sizeof *codes, count);
	pg_pipe_add(pg, &statement, &p);
}

enum lu_error sku_exist_take(struct pg *pg, int64_t deadline_ns, struct arena *arena, struct text **ret_codes,
                             size_t *ret_count)
{
	PGresult *r;
	enum lu_error error = pg_pipe_take(pg, deadline_ns, &r);
	if (error)
		return error;
	*ret_count = (size_t)PQntuples(r);
	*ret_codes = ARENA_ARRAY(arena, *ret_count, struct text);
	for (int i = 0; i < PQntuples(r); i++)
		(*ret_codes)[i] = pg_get_text(r, i, 0, arena);
	PQclear(r);
	return LU_OK;
}

/* --- changing ----------------------------------------------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
	const struct locked_sku *x = a, *y = b;
	return (x->id > y->id) - (x->id < y->id);
}

void sku_update_send(struct pg *pg, struct arena *arena, const struct locked_sku *rows, size_t count)
{
	/* width_bucket(x, sorted array) is a binary search: the position of x in it. Each row finds its new figures by its
	 * id, without a join that could be planned badly. */
	static const struct pg_statement many = {
		"sku_update",
		"UPDATE sku s SET on_hand = ($2)[width_bucket(s.id, $1)], reserved = ($3)[width_bucket(s.id, $1)],"
		" safety_stock = ($4)[width_bucket(s.id, $1)], tracked = ($5)[width_bucket(s.id, $1)],"
		" version = ($6)[width_bucket(s.id, $1)], writer = $7 WHERE s.id = ANY($1)",
	};
	static const struct pg_statement one = {
		"sku_update",
		"UPDATE sku SET on_hand = $2, reserved = $3, safety_stock = $4, tracked = $5, version = $6, writer = $7 WHERE id = $1",
	};
	struct locked_sku *sorted = ARENA_ARRAY(arena, count + 1, struct locked_sku);
	if (count > 0) {
		memcpy(sorted, rows, count * sizeof *rows);
		qsort(sorted, count, sizeof *sorted, by_id);
	}
	struct uuid writer = uuid_new(); /* differs from any before: triggers know our writes by that */
	struct pg_params p;
	pg_params_init_rows(&p, arena, count);
	pg_add_int8s(&p, &sorted->id, sizeof *sorted, count);
	pg_add_int8s(&p, &sorted->figures.on_hand, sizeof *sorted, count);
	pg_add_int8s(&p, &sorted->figures.reserved, sizeof *sorted, count);
	pg_add_int8s(&p, &sorted->figures.safety_stock, sizeof *sorted, count);
	pg_add_bools(&p, &sorted->figures.tracked, sizeof *sorted, count);
	pg_add_int8s(&p, &sorted->figures.version, sizeof *sorted, count);
	pg_add_uuid(&p, &writer);
	pg_pipe_add(pg, count == 1 ? &one : &many, &p);
}

enum lu_error sku_update_take(struct pg *pg, int64_t deadline_ns, size_t count)
{
	return pg_pipe_take_changed(pg, deadline_ns, count);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

enum lu_error sku_read(struct pg *pg, struct arena *arena, const struct text *codes, size_t count, int64_t deadline_ns,
                       struct sku_figures_row **ret_rows)
{
	static const struct pg_statement statement = {
		"sku_read",
		"SELECT u.n, s.id, " FIGURES
		" FROM unnest($1) WITH ORDINALITY AS u(code, n),"
		" LATERAL (SELECT k.* FROM sku k WHERE k.code = u.code OFFSET 0) s",
	};
	struct pg_params p;
	pg_params_init(&p, arena);
	pg_add_texts(&p, codes, sizeof *codes, count);
	PGresult *r;
	enum lu_error error = pg_query(pg, &statement, &p, deadline_ns, &r);
	if (error)
		return error;
	struct sku_figures_row *rows = ARENA_ARRAY(arena, count, struct sku_figures_row);
	for (int i = 0; i < PQntuples(r); i++)
		rows[pg_get_int(r, i, 0) - 1] = (struct sku_figures_row){
			.known = true,
			.id = pg_get_int(r, i, 1),
			.figures = figures_get(r, i, 2),
		};
	PQclear(r);
	*ret_rows = rows;
	return LU_OK;
}

#define PAGE_SQL(condition)                                                                                     \
	"SELECT s.id, s.code, " FIGURES                                                                             \
	", coalesce(t.titles::text, '{}'), coalesce(t.names, '{}')"                                                 \
	" FROM sku s LEFT JOIN LATERAL (SELECT k.titles, k.names FROM sku_text k WHERE k.sku_id = s.id OFFSET 0) t" \
	" ON true WHERE s.code " condition " $1 ORDER BY s.code LIMIT $2"

enum lu_error sku_page(struct pg *pg, struct arena *arena, struct text after, bool only_this, size_t limit,
                       int64_t deadline_ns, struct sku_page_row **ret_rows, size_t *ret_count)
{
	static const struct pg_statement one = {"sku_page_one", PAGE_SQL("=")};
	static const struct pg_statement page = {"sku_page", PAGE_SQL(">")};
	struct pg_params p;
	pg_params_init(&p, arena);
	pg_add_text(&p, after.data ? after : TEXT(""));
	pg_add_int8(&p, (int64_t)limit);
	PGresult *r;
	enum lu_error error = pg_query(pg, only_this ? &one : &page, &p, deadline_ns, &r);
	if (error)
		return error;
	*ret_count = (size_t)PQntuples(r);
	*ret_rows = ARENA_ARRAY(arena, *ret_count, struct sku_page_row);
	for (int i = 0; i < PQntuples(r); i++) {
		struct sku_page_row *row = *ret_rows + i;
		row->id = pg_get_int(r, i, 0);
		row->code = pg_get_text(r, i, 1, arena);
		row->figures = figures_get(r, i, 2);
		row->titles_json = pg_get_text(r, i, 7, arena);
		row->name_count = pg_get_texts(r, i, 8, arena, &row->names);
	}
	PQclear(r);
	return LU_OK;
}

enum lu_error sku_languages(struct pg *pg, struct arena *arena, int64_t after, size_t limit, int64_t deadline_ns,
                            struct text **ret_languages, size_t *ret_count, int64_t *ret_last)
{
	static const struct pg_statement statement = {
		"sku_languages",
		"WITH page AS (SELECT t.sku_id, t.titles FROM sku_text t WHERE t.sku_id > $1 ORDER BY t.sku_id LIMIT $2)"
		" SELECT coalesce(max(p.sku_id), 0), ARRAY(SELECT DISTINCT k COLLATE \"C\" FROM page q,"
		" jsonb_object_keys(q.titles) k ORDER BY 1) FROM page p",
	};
	struct pg_params p;
	pg_params_init(&p, arena);
	pg_add_int8(&p, after);
	pg_add_int8(&p, (int64_t)limit);
	PGresult *r;
	enum lu_error error = pg_query(pg, &statement, &p, deadline_ns, &r);
	if (error)
		return error;
	*ret_last = pg_get_int(r, 0, 0);
	*ret_count = pg_get_texts(r, 0, 1, arena, ret_languages);
	PQclear(r);
	return LU_OK;
}

enum lu_error sku_sample(struct pg *pg, struct arena *arena, uint64_t random, size_t limit, int64_t deadline_ns,
                         struct sku_page_row **ret_rows, size_t *ret_count)
{
	static const struct pg_statement statement = {
		"sku_sample",
		"SELECT s.id, s.code, " FIGURES
		" FROM sku s WHERE s.id >= 1 + $1 % (SELECT max(m.id) FROM sku m)"
		" ORDER BY s.id LIMIT $2",
	};
	struct pg_params p;
	pg_params_init(&p, arena);
	pg_add_int8(&p, (int64_t)(random >> 1));
	pg_add_int8(&p, (int64_t)limit);
	PGresult *r;
	enum lu_error error = pg_query(pg, &statement, &p, deadline_ns, &r);
	if (error)
		return error;
	*ret_count = (size_t)PQntuples(r);
	*ret_rows = ARENA_ARRAY(arena, *ret_count, struct sku_page_row);
	for (int i = 0; i < PQntuples(r); i++)
		(*ret_rows)[i] = (struct sku_page_row){
			.id = pg_get_int(r, i, 0),
			.code = pg_get_text(r, i, 1, arena),
			.figures = figures_get(r, i, 2),
		};
	PQclear(r);
	return LU_OK;
}
