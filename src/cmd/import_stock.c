/* The rows of an import against the stock, set by set inside PostgreSQL (import_internal.h).
 *
 * import_stage has the rows of the file (import_stage.h), import_target the SKUs that are there, locked, and import_applied
 * each row with the figures before and after it: everything that is checked, written and told later is read from there.
 * Failure modes: a row that must not be applied carries the API's code for it; what is done about it is the caller's.
 */
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/text.h"
#include "cmd/import_internal.h"
#include "lastunit/decide.h"
#include "store/sku.h"

/* The sort lies below the locking: rows are locked in the order of their ids whatever the plan of the join. */
static const struct pg_statement lock_targets =
	{"import_lock_targets",
     "WITH locked AS MATERIALIZED ("
     "  SELECT s.id, s.code, s.on_hand, s.reserved, s.version FROM lastunit.sku s"
     "    JOIN (SELECT DISTINCT code FROM import_stage) named USING (code) ORDER BY s.id FOR UPDATE OF s)"
     " INSERT INTO import_target SELECT id, code, on_hand, reserved, version, false FROM locked"};
static const struct pg_statement count_targets = {
	"import_count_targets",
	"SELECT count(*) FROM import_target t WHERE EXISTS (SELECT FROM import_stage s WHERE s.code = t.code AND s.counts)"};
static const struct pg_statement find_twins =
	{"import_find_twins", "SELECT EXISTS (SELECT FROM import_stage GROUP BY code HAVING count(*) > 1)"};
#define FAULT                                                                                                     \
	"CASE WHEN change_from <> before THEN 'change_from_mismatch' WHEN after < reserved THEN 'insufficient_stock'" \
	" WHEN after > 1000000000000000 THEN 'count_out_of_range' END"
/* Each SKU on one row at most: two figures and no windows. */
static const struct pg_statement compute_singles =
	{"import_compute_singles",
     "INSERT INTO import_applied"
     " SELECT line, id, code, 1, before, after, reserved, safety_stock, tracked, reason, change_from, true, " FAULT
     "   FROM (SELECT s.*, t.id, coalesce(t.on_hand, 0) AS before, coalesce(t.reserved, 0) AS reserved,"
     "                coalesce(s.on_hand, coalesce(t.on_hand, 0) + coalesce(s.delta, 0)) AS after"
     "           FROM import_stage s LEFT JOIN import_target t USING (code) WHERE s.counts OR t.id IS NULL) AS summed"};
/* A count (`on_hand`) begins a segment of its SKU's rows; what follows it in the file adds to it. Sums are numeric, so
 * they cannot overflow; what is out of range is cut to where it still is. */
static const struct pg_statement compute_twins = {
	"import_compute_twins",
	"INSERT INTO import_applied"
	" SELECT line, id, code, nth, before, after, reserved, safety_stock, tracked, reason, change_from, last, " FAULT
	"   FROM (SELECT *, coalesce(lag(after) OVER rows_of_sku, base) AS before, lead(line) OVER rows_of_sku IS NULL AS last"
	"   FROM (SELECT *, greatest(least(coalesce(max(on_hand) OVER segments, base)"
	"                + coalesce(sum(delta) OVER (segments ORDER BY line), 0), 4e18), -4e18)::bigint AS after"
	"   FROM (SELECT s.*, t.id, coalesce(t.on_hand, 0) AS base, coalesce(t.reserved, 0) AS reserved,"
	"                row_number() OVER rows_of_sku AS nth, count(s.on_hand) OVER rows_of_sku AS segment"
	"           FROM import_stage s LEFT JOIN import_target t USING (code)"
	"          WHERE s.counts OR t.id IS NULL"
	"         WINDOW rows_of_sku AS (PARTITION BY s.code ORDER BY s.line)) AS numbered"
	"         WINDOW segments AS (PARTITION BY code, segment)) AS summed"
	"         WINDOW rows_of_sku AS (PARTITION BY code ORDER BY line)) AS compared"};
/* A hold that is due ends when somebody needs its units or a service sees the time; an import does neither. */
#define REFUSED                                                                                                    \
	"SELECT line, code, error, before, after, reserved, change_from,"                                              \
	" (SELECT coalesce(sum(h.quantity), 0)::bigint FROM lastunit.hold h WHERE h.sku_id = refused.id AND h.counted" \
	"   AND h.expires_at <= (SELECT clock_timestamp())), count(*) OVER () FROM "
static const struct pg_statement refusals_all =
	{"import_refusals_all", REFUSED "import_applied refused WHERE error IS NOT NULL ORDER BY line LIMIT 100000"};
static const struct pg_statement refusals_take =
	{"import_refusals_take",
     "WITH first AS (SELECT code, min(line) AS line FROM import_applied WHERE error IS NOT NULL GROUP BY code),"
     " taken AS (DELETE FROM import_applied a USING first f WHERE a.code = f.code AND a.line >= f.line"
     "           RETURNING a.line, a.id, a.code, a.error, a.before, a.after, a.reserved, a.change_from),"
     " staged AS (DELETE FROM import_stage s USING taken t WHERE s.line = t.line)"
     " " REFUSED "taken refused ORDER BY line LIMIT 100000"};
static const struct pg_statement find_last_again =
	{"import_find_last_again",
     "UPDATE import_applied a SET last = true WHERE NOT last"
     " AND NOT EXISTS (SELECT FROM import_applied b WHERE b.code = a.code AND b.nth = a.nth + 1)"};
/* Per SKU: how many entries and the figures after the last, and the last word on each setting. */
#define FINAL_FIGURES                                                                                           \
	"settings AS (SELECT code,"                                                                                 \
	"  (array_agg(safety_stock ORDER BY nth DESC) FILTER (WHERE safety_stock IS NOT NULL))[1] AS safety_stock," \
	"  (array_agg(tracked ORDER BY nth DESC) FILTER (WHERE tracked IS NOT NULL))[1] AS tracked"                 \
	"  FROM import_applied WHERE safety_stock IS NOT NULL OR tracked IS NOT NULL GROUP BY code),"               \
	" final AS (SELECT a.code, a.id, a.nth AS entries, a.after AS on_hand, s.safety_stock, s.tracked"           \
	"  FROM import_applied a LEFT JOIN settings s USING (code) WHERE a.last)"
static const struct pg_statement make_skus = {
	"import_make_skus",
	"WITH " FINAL_FIGURES
	","
	" made AS (INSERT INTO lastunit.sku (code, on_hand, safety_stock, tracked, version, writer)"
	"  SELECT code, on_hand, coalesce(safety_stock, 0), coalesce(tracked, true), entries, $1 FROM final WHERE id IS NULL"
	"   ORDER BY code"
	"  RETURNING id, code)"
	" INSERT INTO import_target SELECT id, code, 0, 0, 0, true FROM made"};
static const struct pg_statement change_skus =
	{"import_change_skus",
     "WITH " FINAL_FIGURES
     " UPDATE lastunit.sku s SET on_hand = f.on_hand, safety_stock = coalesce(f.safety_stock, s.safety_stock),"
     "  tracked = coalesce(f.tracked, s.tracked), version = s.version + f.entries, writer = $1"
     "  FROM final f WHERE s.id = f.id"};
static const struct pg_statement write_ledger =
	{"import_write_ledger",
     "INSERT INTO lastunit.ledger (sku_id, version, on_hand_delta, reserved_delta, on_hand_after, reserved_after,"
     " principal_id, operation_id, kind, channel, reference)"
     " SELECT t.id, t.version + a.nth, a.after - a.before, 0, a.after, a.reserved, $1, $2,"
     "        (CASE WHEN t.made AND a.nth = 1 THEN $3 ELSE $4 END)::smallint, $5::smallint, coalesce(a.reason, $6)"
     "   FROM import_applied a JOIN import_target t USING (code) ORDER BY t.id, a.nth"};
/* A title of one language leaves those of others as they are; a list of names is whole, and the last one counts. */
static const struct pg_statement write_texts =
	{"import_write_texts",
     "INSERT INTO lastunit.sku_text (sku_id, titles, names)"
     " SELECT t.id, jsonb_object_agg(e.key, e.value ORDER BY s.line) FILTER (WHERE e.key IS NOT NULL),"
     "        regexp_split_to_array((array_agg(trim(s.names) ORDER BY s.line DESC)"
     "                               FILTER (WHERE s.names IS NOT NULL))[1], ' *; *')"
     "   FROM import_stage s JOIN import_target t USING (code) LEFT JOIN LATERAL jsonb_each(s.titles::jsonb) e ON true"
     "  WHERE s.titles IS NOT NULL OR s.names IS NOT NULL GROUP BY t.id ORDER BY t.id"
     " ON CONFLICT (sku_id) DO UPDATE SET names = coalesce(excluded.names, sku_text.names),"
     "  titles = nullif(coalesce(sku_text.titles, '{}') || coalesce(excluded.titles, '{}'), '{}')"};
static const struct pg_statement sum_units =
	{"import_sum_units", "SELECT coalesce(sum(after - before), 0)::bigint, clock_timestamp() FROM import_applied"};
static const struct pg_statement read_cells =
	{"import_read_cells",
     "SELECT s.code, s.version, s.on_hand, s.reserved, s.safety_stock, s.tracked FROM import_target t"
     " JOIN lastunit.sku s USING (id) WHERE NOT t.made AND EXISTS (SELECT FROM import_applied a WHERE a.id = t.id)"
     " ORDER BY s.code"};
static const struct pg_statement read_outcomes =
	{"import_read_outcomes",
     "SELECT s.line, s.code, CASE WHEN a.line IS NULL THEN 0 WHEN t.made AND a.nth = 1 THEN 1 ELSE 2 END,"
     "       coalesce(t.version + a.nth, 0), coalesce(a.after, 0)"
     "  FROM import_stage s LEFT JOIN import_applied a USING (line) LEFT JOIN import_target t ON t.code = s.code"
     " WHERE s.line > $1 ORDER BY s.line LIMIT $2"};

/* One statement; *ret_rows how many it wrote. */
static enum lu_error run(struct import *in, const struct pg_statement *statement, const struct pg_params *params,
                         int64_t *ret_rows)
{
	PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
	enum lu_error error = pg_query(in->pg, statement, params, in->options->deadline_ns, &result);
	if (error)
		return error;
	if (ret_rows)
		*ret_rows = strtoll(PQcmdTuples(result), NULL, 10);
	return LU_OK;
}

enum lu_error import_lock(struct import *in, int64_t *ret_touched)
{
	enum lu_error error = run(in, &lock_targets, NULL, NULL);
	if (error)
		return error;
	PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
	error = pg_query(in->pg, &count_targets, NULL, in->options->deadline_ns, &result);
	if (error)
		return error;
	*ret_touched = pg_get_int(result, 0, 0);
	return LU_OK;
}

enum lu_error import_compute(struct import *in)
{
	PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
	enum lu_error error = pg_query(in->pg, &find_twins, NULL, in->options->deadline_ns, &result);
	if (error)
		return error;
	return run(in, pg_get_bool(result, 0, 0) ? &compute_twins : &compute_singles, NULL, NULL);
}

static struct text refusal_why(struct import *in, const PGresult *result, int row, const char *code)
{
	long long before = pg_get_int(result, row, 3), after = pg_get_int(result, row, 4);
	long long reserved = pg_get_int(result, row, 5), change_from = pg_get_int(result, row, 6);
	long long due = pg_get_int(result, row, 7);
	if (strcmp(code, "change_from_mismatch") == 0)
		return arena_printf(in->arena, "on_hand is %lld, change_from says %lld", before, change_from);
	if (strcmp(code, "count_out_of_range") == 0)
		return arena_printf(in->arena, "on_hand would be above 1000000000000000");
	if (due > 0)
		return arena_printf(in->arena,
		                    "on_hand would be %lld while %lld are held, %lld of them by holds that are due: a running "
		                    "service frees those",
		                    after, reserved, due);
	if (reserved > 0)
		return arena_printf(in->arena, "on_hand would be %lld while %lld are held", after, reserved);
	return arena_printf(in->arena, "on_hand would be %lld", after);
}

enum lu_error import_refuse(struct import *in)
{
	PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
	enum lu_error error = pg_query(in->pg, in->options->partial ? &refusals_take : &refusals_all, NULL,
	                               in->options->deadline_ns, &result);
	if (error)
		return error;
	struct import_report *report = in->report;
	size_t count = (size_t)PQntuples(result);
	if (count && in->options->partial)
		error = run(in, &find_last_again, NULL, NULL);
	if (error)
		return error;
	report->refused = count ? pg_get_int(result, 0, 8) : 0;
	report->refusal_count = count;
	report->refusals = ARENA_ARRAY(in->arena, count, struct import_refusal);
	for (int i = 0; i < (int)count; i++) {
		struct text code = pg_get_text(result, i, 2, in->arena);
		struct import_refusal *refusal = &report->refusals[i];
		*refusal = (struct import_refusal){pg_get_int(result, i, 0), pg_get_text(result, i, 1, in->arena),
		                                   code.data ? code.data : "insufficient_stock", TEXT("")};
		refusal->why = code.data ? refusal_why(in, result, i, refusal->code)
		                         : TEXT("an earlier row of this SKU was refused, and this one rests on it");
	}
	return LU_OK;
}

enum lu_error import_write_rows(struct import *in)
{
	struct import_report *report = in->report;
	struct uuid writer = uuid_new();
	struct pg_params params;
	pg_params_init(&params, &in->scratch);
	pg_add_uuid(&params, &writer);
	enum lu_error error = run(in, &make_skus, &params, &report->created);
	if (!error)
		error = run(in, &change_skus, &params, &report->changed);
	/* Before the ledger, for it takes long: whoever asks how the change feed stands steps over all entries that are written
	 * and not committed, each time. */
	if (!error && in->options->texts)
		error = run(in, &write_texts, NULL, &report->described);
	if (error)
		return error;
	pg_params_init(&params, &in->scratch);
	pg_add_int8(&params, in->principal_id);
	pg_add_uuid(&params, &in->operation_id);
	pg_add_int8(&params, LEDGER_CREATE);
	pg_add_int8(&params, LEDGER_IMPORT);
	pg_add_int8(&params, CHANNEL_SYSTEM);
	pg_add_text(&params, in->options->reference.size ? in->options->reference : (struct text){NULL, 0});
	return run(in, &write_ledger, &params, &report->entries);
}

enum lu_error import_sum_units(struct import *in, int64_t *ret_at_us)
{
	PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
	enum lu_error error = pg_query(in->pg, &sum_units, NULL, in->options->deadline_ns, &result);
	if (error)
		return error;
	in->report->units = pg_get_int(result, 0, 0);
	*ret_at_us = pg_get_time(result, 0, 1);
	return LU_OK;
}

enum lu_error import_collect_cells(struct import *in)
{
	PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
	enum lu_error error = pg_query(in->pg, &read_cells, NULL, in->options->deadline_ns, &result);
	if (error)
		return error;
	in->cell_count = (size_t)PQntuples(result);
	in->cell_skus = ARENA_ARRAY(&in->scratch, in->cell_count, struct text);
	in->cell_versions = ARENA_ARRAY(&in->scratch, in->cell_count, int64_t);
	in->cell_figures = ARENA_ARRAY(&in->scratch, in->cell_count, struct figures);
	for (int i = 0; i < PQntuples(result); i++) {
		in->cell_skus[i] = pg_get_text(result, i, 0, &in->scratch);
		in->cell_versions[i] = pg_get_int(result, i, 1);
		in->cell_figures[i] = (struct figures){.version = in->cell_versions[i],
		                                       .on_hand = pg_get_int(result, i, 2),
		                                       .reserved = pg_get_int(result, i, 3),
		                                       .safety_stock = pg_get_int(result, i, 4),
		                                       .tracked = pg_get_bool(result, i, 5)};
		if (!figures_possible(&in->cell_figures[i]))
			return sku_refuse_impossible(in->pg, in->cell_skus[i]);
	}
	return LU_OK;
}

enum lu_error import_outcomes(struct pg *pg, struct arena *arena, int64_t after, size_t limit, int64_t deadline_ns,
                              struct import_outcome **ret_rows, size_t *ret_count)
{
	static const char *const names[] = {"described", "created", "changed"};
	struct pg_params params;
	pg_params_init(&params, arena);
	pg_add_int8(&params, after);
	pg_add_int8(&params, (int64_t)limit);
	PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
	enum lu_error error = pg_query(pg, &read_outcomes, &params, deadline_ns, &result);
	if (error)
		return error;
	*ret_count = (size_t)PQntuples(result);
	*ret_rows = ARENA_ARRAY(arena, *ret_count, struct import_outcome);
	for (int i = 0; i < (int)*ret_count; i++)
		(*ret_rows)[i] = (struct import_outcome){pg_get_int(result, i, 0), pg_get_text(result, i, 1, arena),
		                                         names[pg_get_int(result, i, 2)], pg_get_int(result, i, 3),
		                                         pg_get_int(result, i, 4)};
	return LU_OK;
}
