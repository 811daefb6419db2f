/* Lines of reservations and checkouts between C and SQL: many carts in one statement, each line an array element.
 *
 * SQL has no arrays of arrays of different lengths, so the lines of all carts go in flat, one array per column, and
 * each cart brings its first and last index (from 1): the statement cuts `($n)[first:last]`, which for elements of
 * fixed width is an addition and a copy. Internal to store/.
 */
#ifndef STORE_LINES_H
#define STORE_LINES_H

#include "lastunit/operation.h"
#include "store/pg.h"

struct flat_lines {
	struct line *lines; /* all carts' lines, one behind the other, copied */
	size_t count;
	int64_t *firsts, *lasts; /* per cart, for SQL */
	size_t cart_count;
};

struct flat_lines flat_lines_new(struct arena *arena, size_t cart_count, size_t line_count);
/* Appends the next cart's lines. */
void flat_lines_add(struct flat_lines *flat, const struct line *lines, size_t count);

/* sku_ids, quantities, counted, versions: 4 parameters, which are arrays even of one cart with one line. */
void flat_lines_params(const struct flat_lines *flat, struct pg_params *p);

/* The codes of r.sku_ids, in their order. The inner SELECT is fenced so that it is always an index look-up per line.
 * Never in a statement that locks the row: one that was waited for is the newest there, while the codes are still those of
 * the statement's snapshot, and a SKU made meanwhile has none. Lock, then read in a statement behind it. */
#define LINES_CODES(table)                   \
	"ARRAY(SELECT s.code FROM unnest(" table \
	".sku_ids) WITH ORDINALITY AS l(id, n)," \
	" LATERAL (SELECT k.code FROM sku k WHERE k.id = l.id OFFSET 0) s ORDER BY l.n)"
#define LINES_COLUMNS(table) \
	table ".sku_ids, " table ".quantities, " table ".counted, " table ".versions, " LINES_CODES(table)
#define LINES_COLUMN_COUNT 5

/* Reads LINES_COLUMNS from `column` on. 0: damaged, by a hand (lines.c). */
size_t lines_get(const PGresult *r, int row, int column, struct arena *arena, struct line **ret_lines);

/* pg_pipe_take for an UPDATE of `count` rows that are locked, or an INSERT of so many: an error unless it wrote each. */
enum lu_error pg_pipe_take_changed(struct pg *pg, int64_t deadline_ns, size_t count) LU_MUST_CHECK;
/* The same for a statement that writes in several tables and counts by itself: its one answer is whether it wrote each. */
enum lu_error pg_pipe_take_all_written(struct pg *pg, int64_t deadline_ns) LU_MUST_CHECK;
/* pg_pipe_take for statements whose answer is only "done". */
enum lu_error pg_pipe_take_done(struct pg *pg, int64_t deadline_ns) LU_MUST_CHECK;

#endif
