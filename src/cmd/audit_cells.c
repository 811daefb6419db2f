/* The audit of the cache: every cell of the open namespace against the row it speaks of.
 *
 * Happy path, per page of SKUs: read the rows, then the cells, as a reader would. A V of the row's version has the
 * row's figures. Other cells (absent, F, I) answer nobody and are passed over.
 * Failure modes: writes go on, so a V of another version is looked at again: row, cell, row. It must lie between the
 * two rows, which holds at once for our own writes and within the relay's time for direct SQL; a cell that is still
 * outside after three seconds is an offender. FENCED, or an epoch that is not open: nothing is served, nothing to
 * compare.
 */
#include "base/clock.h"
#include "base/text.h"
#include "cache/cell.h"
#include "cmd/audit_internal.h"
#include "store/epoch.h"

#define PAGE 1000
#define RECHECK_MS 3000
#define RECHECK_GAP_MS 50

static const struct pg_statement figures_page =
	{"audit_figures_page",
     "SELECT s.code, s.version, s.on_hand, s.reserved, s.safety_stock, s.tracked, s.id FROM lastunit.sku s"
     " WHERE s.id > $1 ORDER BY s.id LIMIT $2"};
static const struct pg_statement figures_one =
	{"audit_figures_one",
     "SELECT s.code, s.version, s.on_hand, s.reserved, s.safety_stock, s.tracked, s.id FROM lastunit.sku s"
     " WHERE s.id = $1"};

struct row {
	int64_t id;
	struct text code;
	struct figures figures;
};

static struct row row_get(const PGresult *r, int i, struct arena *arena)
{
	return (struct row){pg_get_int(r, i, 6),
	                    pg_get_text(r, i, 0, arena),
	                    {pg_get_int(r, i, 1), pg_get_int(r, i, 2), pg_get_int(r, i, 3), pg_get_int(r, i, 4),
	                     pg_get_bool(r, i, 5)}};
}

static bool figures_equal(const struct figures *a, const struct figures *b)
{
	return a->version == b->version && a->on_hand == b->on_hand && a->reserved == b->reserved &&
	       a->safety_stock == b->safety_stock && a->tracked == b->tracked;
}

/* Reads cells as a reader does. LU_OK with *ret_cells NULL: FENCED. */
static enum lu_error cells_get(struct audit_work *work, struct redis *redis, struct text namespace,
                               const struct text *skus, size_t count, struct arena *arena, struct cell **ret_cells)
{
	int64_t deadline_ns = deadline_in_ms(work->options->redis_timeout_ms * 5);
	enum cell_reply kind = CELL_FAILED;
	*ret_cells = NULL;
	if (!redis_connect(redis, deadline_ns))
		kind = cell_look(redis, arena, namespace, skus, count, deadline_ns, ret_cells);
	if (kind != CELL_FAILED)
		return LU_OK;
	snprintf(work->why, 512, "Redis: %s", redis_error(redis));
	return LU_CACHE_UNAVAILABLE;
}

static enum lu_error row_again(struct audit_work *work, int64_t id, struct arena *arena, struct row *ret_row)
{
	struct pg_params params;
	pg_params_init(&params, arena);
	pg_add_int8(&params, id);
	PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
	enum lu_error error = audit_query(work, &figures_one, &params, &result);
	if (!error && PQntuples(result) == 1)
		*ret_row = row_get(result, 0, arena);
	return error;
}

/* Row, cell, row, until the cell lies between them or time is up. */
static enum lu_error cell_recheck(struct audit_work *work, struct redis *redis, struct text namespace,
                                  const struct row *suspect)
{
	int64_t deadline_ns = deadline_in_ms(RECHECK_MS);
	for (;;) {
		struct arena scratch;
		arena_init(&scratch, 4096);
		struct row before = *suspect, after = *suspect;
		struct cell *cells = NULL;
		enum lu_error error = row_again(work, suspect->id, &scratch, &before);
		if (!error)
			error = cells_get(work, redis, namespace, &suspect->code, 1, &scratch, &cells);
		if (!error)
			error = row_again(work, suspect->id, &scratch, &after);
		const struct figures *f = cells ? &cells[0].figures : NULL;
		bool fine = error || !cells || cells[0].state != CELL_VALUE ||
		            (before.figures.version <= f->version && f->version <= after.figures.version &&
		             (f->version != before.figures.version || figures_equal(f, &before.figures)) &&
		             (f->version != after.figures.version || figures_equal(f, &after.figures)));
		bool over = deadline_left_ms(deadline_ns) == 0;
		if (!fine && over)
			audit_broken(
				work, AUDIT_CELLS,
				"%.*s: the cache says on_hand %lld, reserved %lld (version %lld), the row %lld, %lld (version %lld)",
				(int)suspect->code.size, suspect->code.data, (long long)f->on_hand, (long long)f->reserved,
				(long long)f->version, (long long)after.figures.on_hand, (long long)after.figures.reserved,
				(long long)after.figures.version);
		arena_done(&scratch);
		if (fine || over)
			return error;
		clock_sleep_until(deadline_in_ms(RECHECK_GAP_MS));
	}
}

/* One page. *ret_count rows; *ret_fenced: the namespace is not served any more. */
static enum lu_error page_compare(struct audit_work *work, struct redis *redis, struct text namespace, int64_t *after,
                                  int *ret_count, bool *ret_fenced)
{
	struct arena page;
	arena_init(&page, 1 << 18);
	struct pg_params params;
	pg_params_init(&params, &page);
	pg_add_int8(&params, *after);
	pg_add_int8(&params, PAGE);
	PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
	enum lu_error error = audit_query(work, &figures_page, &params, &result);
	size_t count = error ? 0 : (size_t)PQntuples(result);
	struct row *rows = ARENA_ARRAY(&page, count, struct row);
	struct text *skus = ARENA_ARRAY(&page, count, struct text);
	for (size_t i = 0; i < count; i++) {
		rows[i] = row_get(result, (int)i, &page);
		skus[i] = rows[i].code;
	}
	struct cell *cells = NULL;
	if (!error && count)
		error = cells_get(work, redis, namespace, skus, count, &page, &cells);
	*ret_fenced = !error && count && !cells;
	for (size_t i = 0; !error && cells && i < count; i++) {
		if (cells[i].state != CELL_VALUE)
			continue;
		work->audit->cells++;
		work->audit->lines[AUDIT_CELLS].checked++;
		if (!figures_equal(&cells[i].figures, &rows[i].figures))
			error = cell_recheck(work, redis, namespace, &rows[i]);
	}
	if (count)
		*after = rows[count - 1].id;
	*ret_count = (int)count;
	arena_done(&page);
	return error;
}

/* The guard is not there, or is another's: the epoch has been closed meanwhile, or this is not the Redis it is open on. */
static const char *why_fenced(struct audit_work *work, struct text namespace)
{
	struct epoch_row now;
	if (!epoch_lease_read(work->pg, work->arena, deadline_in_ms(AUDIT_STATEMENT_MS), &now) && now.state == EPOCH_OPEN &&
	    text_equal(now.namespace, namespace))
		return "not compared: the epoch is open on another Redis, or on another life of this one";
	return "the epoch was closed meanwhile: no cell is served";
}

enum lu_error audit_cells(struct audit_work *work)
{
	struct audit_line *line = &work->audit->lines[AUDIT_CELLS];
	if (!work->options->redis) {
		line->note = "not compared: no --redis-url";
		return LU_OK;
	}
	struct epoch_row epoch;
	enum lu_error error = epoch_lease_read(work->pg, work->arena, deadline_in_ms(AUDIT_STATEMENT_MS), &epoch);
	if (error) {
		snprintf(work->why, 512, "%s", pg_error(work->pg)->message);
		return error;
	}
	if (epoch.state != EPOCH_OPEN || !epoch.genuine) {
		line->note = "no epoch is open: no cell is served";
		return LU_OK;
	}
	struct redis *redis = redis_new(work->options->redis);
	bool fenced = false;
	int64_t after = 0;
	for (int rows = PAGE; !error && !fenced && rows == PAGE;) {
		error = page_compare(work, redis, epoch.namespace, &after, &rows, &fenced);
		audit_progress(work, "cells", work->audit->cells);
	}
	redis_free(redis);
	if (fenced)
		line->note = why_fenced(work, epoch.namespace);
	return error;
}
