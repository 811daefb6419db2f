/* Orders: locked, read, made, changed.
 *
 * Happy path: a batch locks the rows of the numbers it was told, behind its SKU locks, reads them in a statement of its
 * own behind those locks, and writes each new version in one statement for all.
 * Failure modes: two transactions that make the same number: the second INSERT waits for the first and fails by 23505, and
 * its batch runs again and finds the row. A number that is made while another's row is waited for is read, but was not
 * locked: the batch runs again (PG_RETRY). A change of other than the locked rows is an error; so is a row whose lines are
 * damaged.
 * How the statements stay index scans: sku.c.
 */
#include "store/order.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/id.h"
#include "base/text.h"
#include "store/lines.h"
#include "store/pg_internal.h"

/* In one snapshot every line has its code: a version is committed after its SKUs, and SKUs are never removed. */
#define COLUMNS(table)                                                                                  \
	table ".id, " table ".principal_id, " table ".number, " table ".version, " table ".channel, " table \
		  ".created_at, " table ".changed_at, " table ".sku_ids, " table ".quantities, " table          \
		  ".counted, " LINES_CODES(table)

/* NULL: damaged, by a hand. Without its lines it would be taken for one that was cancelled, and sold once more. */
static struct order *order_get(const PGresult *r, int row, struct arena *arena)
{
	struct order *order = ARENA_NEW(arena, struct order);
	*order = (struct order){
		.id = pg_get_uuid(r, row, 0),
		.principal_id = pg_get_int(r, row, 1),
		.number = pg_get_text(r, row, 2, arena),
		.version = pg_get_int(r, row, 3),
		.channel = (enum channel)pg_get_int(r, row, 4),
		.created_us = pg_get_time(r, row, 5),
		.changed_us = pg_get_time(r, row, 6),
	};
	int64_t *sku_ids, *quantities, *counted;
	struct text *codes;
	order->line_count = pg_get_int8s(r, row, 7, arena, &sku_ids);
	if (pg_get_int8s(r, row, 8, arena, &quantities) != order->line_count ||
	    pg_get_int8s(r, row, 9, arena, &counted) != order->line_count ||
	    pg_get_texts(r, row, 10, arena, &codes) != order->line_count)
		return NULL;
	for (size_t i = 0; i < order->line_count; i++)
		if (quantities[i] < 1 || counted[i] < 0 || counted[i] > quantities[i] ||
		    (i > 0 && text_compare(codes[i - 1], codes[i]) >= 0))
			return NULL;
	order->lines = ARENA_ARRAY(arena, order->line_count, struct order_line);
	for (size_t i = 0; i < order->line_count; i++)
		order->lines[i] = (struct order_line){codes[i], sku_ids[i], quantities[i], counted[i]};
	return order;
}

static enum lu_error fail_damaged(struct pg *pg)
{
	return pg_fail(pg, PG_VIOLATION, "", "the lines of an order are damaged");
}

/* --- locking ------------------------------------------------------------------------------------------------------ */

static int by_number(const void *left, const void *right)
{
	const struct operation *a = *(struct operation *const *)left, *b = *(struct operation *const *)right;
	if (a->principal.id != b->principal.id)
		return a->principal.id < b->principal.id ? -1 : 1;
	return text_compare(a->number, b->number);
}

/* The orders of these numbers, in the order asked. */
#define ASKED                                                                    \
	"unnest($1, $2) AS u(principal_id, number), LATERAL (SELECT * FROM orders k" \
	" WHERE k.principal_id = u.principal_id AND k.number = u.number OFFSET 0 "

void order_lock_send(struct pg *pg, struct arena *arena, struct operation *const *operations, size_t count)
{
	/* The rows come out of the index one by one, in the order asked, and are locked as they come (I3). */
	static const struct pg_statement lock = {
		"order_lock",
		"SELECT o.id FROM " ASKED "FOR UPDATE) o",
	};
	static const struct pg_statement read_locked = {
		"order_read_locked",
		"SELECT " COLUMNS("o") " FROM " ASKED ") o",
	};
	struct operation **puts = ARENA_ARRAY(arena, count, struct operation *);
	size_t put_count = 0, kept = 0;
	for (size_t i = 0; i < count; i++)
		if (operations[i]->kind == OPERATION_ORDER_PUT)
			puts[put_count++] = operations[i];
	if (put_count)
		qsort(puts, put_count, sizeof *puts, by_number);
	int64_t *principals = ARENA_ARRAY(arena, put_count, int64_t);
	struct text *numbers = ARENA_ARRAY(arena, put_count, struct text);
	for (size_t i = 0; i < put_count; i++) {
		if (i > 0 && by_number(&puts[i - 1], &puts[i]) == 0)
			continue;
		principals[kept] = puts[i]->principal.id;
		numbers[kept++] = puts[i]->number;
	}
	struct pg_params p;
	pg_params_init(&p, arena);
	pg_add_int8s(&p, principals, sizeof *principals, kept);
	pg_add_texts(&p, numbers, sizeof *numbers, kept);
	pg_pipe_add(pg, &lock, &p);
	pg_pipe_add(pg, &read_locked, &p);
}

/* Whether what was read is what was locked, row by row. */
static bool all_locked(const PGresult *locks, const PGresult *rows)
{
	bool same = PQntuples(locks) == PQntuples(rows);
	for (int i = 0; same && i < PQntuples(rows); i++) {
		struct uuid locked = pg_get_uuid(locks, i, 0), read = pg_get_uuid(rows, i, 0);
		same = uuid_equal(&locked, &read);
	}
	return same;
}

enum lu_error order_lock_take(struct pg *pg, int64_t deadline_ns, struct arena *arena, struct order ***ret_orders,
                              size_t *ret_count)
{
	PGresult *locks __attribute__((cleanup(pg_clear))) = NULL, *rows __attribute__((cleanup(pg_clear))) = NULL;
	enum lu_error error = pg_pipe_take(pg, deadline_ns, &locks);
	if (!error)
		error = pg_pipe_take(pg, deadline_ns, &rows);
	if (error)
		return error;
	if (!all_locked(locks, rows))
		return pg_fail(pg, PG_RETRY, "", "an order was made while another was waited for");
	*ret_count = (size_t)PQntuples(rows);
	*ret_orders = ARENA_ARRAY(arena, *ret_count, struct order *);
	for (int i = 0; i < PQntuples(rows); i++) {
		(*ret_orders)[i] = order_get(rows, i, arena);
		if (!(*ret_orders)[i])
			return fail_damaged(pg);
	}
	return LU_OK;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* Rows in one piece, their lines behind one another, each with its first and last (lines.h has the why). */
struct gathered {
	struct order *rows;
	int16_t *channels;
	int64_t *firsts, *lasts;
	struct order_line *lines;
	size_t line_count;
};

static struct gathered gather(struct arena *arena, struct order *const *rows, size_t count)
{
	struct gathered g = {
		.rows = ARENA_ARRAY(arena, count + 1, struct order),
		.channels = ARENA_ARRAY(arena, count, int16_t),
		.firsts = ARENA_ARRAY(arena, count, int64_t),
		.lasts = ARENA_ARRAY(arena, count, int64_t),
	};
	size_t line_count = 0;
	for (size_t i = 0; i < count; i++)
		line_count += rows[i]->line_count;
	g.lines = ARENA_ARRAY(arena, line_count + 1, struct order_line);
	for (size_t i = 0; i < count; i++) {
		g.rows[i] = *rows[i];
		g.channels[i] = (int16_t)rows[i]->channel;
		g.firsts[i] = (int64_t)g.line_count + 1;
		if (rows[i]->line_count)
			memcpy(g.lines + g.line_count, rows[i]->lines, rows[i]->line_count * sizeof *g.lines);
		g.line_count += rows[i]->line_count;
		g.lasts[i] = (int64_t)g.line_count;
	}
	return g;
}

static void add_lines(struct pg_params *p, const struct gathered *g, size_t count)
{
	pg_add_int8s(p, g->firsts, sizeof *g->firsts, count);
	pg_add_int8s(p, g->lasts, sizeof *g->lasts, count);
	pg_add_int8s(p, &g->lines->sku_id, sizeof *g->lines, g->line_count);
	pg_add_int8s(p, &g->lines->quantity, sizeof *g->lines, g->line_count);
	pg_add_int8s(p, &g->lines->counted, sizeof *g->lines, g->line_count);
}

void order_insert_send(struct pg *pg, struct arena *arena, struct order *const *rows, size_t count)
{
	static const struct pg_statement statement = {
		"order_insert",
		"INSERT INTO orders (id, principal_id, number, version, created_at, changed_at, channel, sku_ids, quantities,"
		" counted)"
		" SELECT u.id, u.principal_id, u.number, u.version, u.created_at, u.changed_at, u.channel,"
		" ($10)[u.first:u.last], ($11)[u.first:u.last], ($12)[u.first:u.last]"
		" FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9) WITH ORDINALITY AS u(id, principal_id, number, version,"
		" created_at, changed_at, channel, first, last, n) ORDER BY u.n",
	};
	struct gathered g = gather(arena, rows, count);
	struct pg_params p;
	pg_params_init(&p, arena);
	pg_add_uuids(&p, &g.rows->id, sizeof *g.rows, count);
	pg_add_int8s(&p, &g.rows->principal_id, sizeof *g.rows, count);
	pg_add_texts(&p, &g.rows->number, sizeof *g.rows, count);
	pg_add_int8s(&p, &g.rows->version, sizeof *g.rows, count);
	pg_add_times(&p, &g.rows->created_us, sizeof *g.rows, count);
	pg_add_times(&p, &g.rows->changed_us, sizeof *g.rows, count);
	pg_add_int2s(&p, g.channels, sizeof *g.channels, count);
	add_lines(&p, &g, count);
	pg_pipe_add(pg, &statement, &p);
}

enum lu_error order_insert_take(struct pg *pg, int64_t deadline_ns, size_t count)
{
	return pg_pipe_take_changed(pg, deadline_ns, count);
}

static int by_id(const void *a, const void *b)
{
	const struct order *x = *(struct order *const *)a, *y = *(struct order *const *)b;
	return memcmp(x->id.bytes, y->id.bytes, sizeof x->id.bytes);
}

void order_change_send(struct pg *pg, struct arena *arena, struct order *const *rows, size_t count)
{
	/* width_bucket in the sorted ids: sku_update has the trick. */
	static const struct pg_statement statement = {
		"order_change",
		"UPDATE orders o SET version = ($2)[width_bucket(o.id, $1)], changed_at = ($3)[width_bucket(o.id, $1)],"
		" channel = ($4)[width_bucket(o.id, $1)],"
		" sku_ids = ($7)[($5)[width_bucket(o.id, $1)]:($6)[width_bucket(o.id, $1)]],"
		" quantities = ($8)[($5)[width_bucket(o.id, $1)]:($6)[width_bucket(o.id, $1)]],"
		" counted = ($9)[($5)[width_bucket(o.id, $1)]:($6)[width_bucket(o.id, $1)]] WHERE o.id = ANY($1)",
	};
	struct order **sorted = ARENA_ARRAY(arena, count + 1, struct order *);
	for (size_t i = 0; i < count; i++)
		sorted[i] = rows[i];
	if (count > 0)
		qsort(sorted, count, sizeof *sorted, by_id);
	struct gathered g = gather(arena, sorted, count);
	struct pg_params p;
	pg_params_init(&p, arena);
	pg_add_uuids(&p, &g.rows->id, sizeof *g.rows, count);
	pg_add_int8s(&p, &g.rows->version, sizeof *g.rows, count);
	pg_add_times(&p, &g.rows->changed_us, sizeof *g.rows, count);
	pg_add_int2s(&p, g.channels, sizeof *g.channels, count);
	add_lines(&p, &g, count);
	pg_pipe_add(pg, &statement, &p);
}

enum lu_error order_change_take(struct pg *pg, int64_t deadline_ns, size_t count)
{
	return pg_pipe_take_changed(pg, deadline_ns, count);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

enum lu_error order_read(struct pg *pg, struct arena *arena, int64_t principal_id, struct text number,
                         int64_t deadline_ns, struct order **ret_order)
{
	static const struct pg_statement statement = {
		"order_read",
		"SELECT " COLUMNS("o") " FROM orders o WHERE o.principal_id = $1 AND o.number = $2",
	};
	struct pg_params p;
	pg_params_init(&p, arena);
	pg_add_int8(&p, principal_id);
	pg_add_text(&p, number);
	PGresult *r;
	enum lu_error error = pg_query(pg, &statement, &p, deadline_ns, &r);
	if (error)
		return error;
	bool found = PQntuples(r) > 0;
	*ret_order = found ? order_get(r, 0, arena) : NULL;
	PQclear(r);
	return found && !*ret_order ? fail_damaged(pg) : LU_OK;
}
