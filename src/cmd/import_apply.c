/* An import's one transaction (import_apply.h).
 *
 * Happy path, one statement each: BEGIN and the epoch's lock · lock the SKUs named, by id · figures before and after
 * each row · those that fail · new SKUs by code · changed SKUs · ledger · titles · the key's row · the cells to intend ·
 * COMMIT · publish.
 * Failure modes: a failing row refuses the file, or, with --partial, itself and the rows of its SKU behind it (they
 * rest on it); the epoch is open and must not be, or Redis fails: ROLLBACK, close it, run again; a deadlock, a key or a
 * SKU that somebody else inserted: run again; a lock not had in IMPORT_LOCK_MS: ROLLBACK, say whose it is, wait holding
 * nothing, run again; the connection lost: the caller's business.
 */
#include "cmd/import_apply.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/import_wait.h"
#include "inventory/coherence.h"
#include "lastunit/decide.h"
#include "inventory/epoch.h"
#include "store/idempotency.h"
#include "store/tx.h"

#define ATTEMPTS_MAX 8
#define KIND_IMPORT 100 /* idempotency.kind: beside enum operation_kind, for no operation is looked up there */

static const struct pg_statement principal_find = {"import_principal_find",
                                                   "SELECT id FROM lastunit.principal WHERE name = 'system'"};
static const struct pg_statement principal_make =
	{"import_principal_make",
     "INSERT INTO lastunit.principal (name, channel) VALUES ('system', $1::smallint) ON CONFLICT DO NOTHING"};

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
static const struct pg_statement refusals_all =
	{"import_refusals_all",
     "SELECT line, code, error, before, after, reserved, change_from, count(*) OVER () FROM import_applied"
     " WHERE error IS NOT NULL ORDER BY line LIMIT 100000"};
static const struct pg_statement refusals_take =
	{"import_refusals_take",
     "WITH first AS (SELECT code, min(line) AS line FROM import_applied WHERE error IS NOT NULL GROUP BY code),"
     " taken AS (DELETE FROM import_applied a USING first f WHERE a.code = f.code AND a.line >= f.line"
     "           RETURNING a.line, a.code, a.error, a.before, a.after, a.reserved, a.change_from),"
     " staged AS (DELETE FROM import_stage s USING taken t WHERE s.line = t.line)"
     " SELECT *, count(*) OVER () FROM taken ORDER BY line LIMIT 100000"};
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

/* What becomes of an attempt. */
enum next { NEXT_DONE, NEXT_AGAIN, NEXT_WAIT, NEXT_CLOSE_EPOCH, NEXT_FAIL };

struct import {
	struct pg *pg;
	struct arena *arena; /* the caller's: what the report points to */
	const struct import_options *options;
	struct import_report *report;
	int64_t principal_id;
	struct uuid operation_id;
	struct arena scratch;                     /* of one attempt */
	char namespace[CELL_NAMESPACE_BYTES + 8]; /* of the open or closing epoch */
	bool use_redis;                           /* in this attempt */
	bool published;                           /* the cache was brought up to date by us */
	bool closed;                              /* an epoch was closed for us */
	struct text *cell_skus;
	int64_t *cell_versions;
	struct figures *cell_figures;
	size_t cell_count;
};

static enum lu_error fail(struct import *in, enum lu_error error)
{
	const struct pg_error *why = pg_error(in->pg);
	snprintf(in->report->why, sizeof in->report->why, "%s%s%s", why->message, *why->sqlstate ? ", SQLSTATE " : "",
	         why->sqlstate);
	return error;
}

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

/* --- who and whether ---------------------------------------------------------------------------------------------- */

/* The principal of what the service does of its own accord; made by whoever needs it first. */
static enum lu_error find_principal(struct pg *pg, struct arena *arena, int64_t deadline_ns, int64_t *ret_id)
{
	for (int look = 0; look < 2; look++) {
		PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
		enum lu_error error = pg_query(pg, &principal_find, NULL, deadline_ns, &result);
		if (error)
			return error;
		if (PQntuples(result) == 1) {
			*ret_id = pg_get_int(result, 0, 0);
			return LU_OK;
		}
		struct pg_params params;
		pg_params_init(&params, arena);
		pg_add_int8(&params, CHANNEL_SYSTEM);
		PGresult *made __attribute__((cleanup(pg_clear))) = NULL;
		error = pg_query(pg, &principal_make, &params, deadline_ns, &made);
		if (error)
			return error;
	}
	return LU_INTERNAL;
}

static int64_t detail_int(const json_t *detail, const char *key)
{
	return json_integer_value(json_object_get(detail, key));
}

static void report_read(struct import_report *report, const struct idempotency_row *row)
{
	report->applied = report->replayed = true;
	report->replayed_at_us = row->at_us;
	json_t *detail = row->detail.data ? json_loadb(row->detail.data, row->detail.size, 0, NULL) : NULL;
	report->created = detail_int(detail, "created");
	report->changed = detail_int(detail, "changed");
	report->entries = detail_int(detail, "entries");
	report->described = detail_int(detail, "described");
	report->refused = detail_int(detail, "refused");
	report->units = detail_int(detail, "units");
	json_decref(detail);
}

enum lu_error import_known(struct pg *pg, struct arena *arena, const struct import_options *options,
                           struct import_report *report)
{
	struct import in = {.pg = pg, .options = options, .report = report};
	int64_t principal_id = 0;
	enum lu_error error = find_principal(pg, arena, options->deadline_ns, &principal_id);
	if (error)
		return fail(&in, error);
	struct idempotency_row *rows = NULL;
	size_t count = 0;
	idempotency_read_send(pg, arena, &principal_id, &options->key, 1);
	error = pg_pipe_send(pg, options->deadline_ns);
	if (!error)
		error = idempotency_read_take(pg, options->deadline_ns, arena, &rows, &count);
	enum lu_error end = pg_pipe_end(pg, options->deadline_ns);
	if (error || end)
		return fail(&in, error ? error : end);
	if (count == 0)
		return LU_OK;
	if (memcmp(rows[0].fingerprint, options->fingerprint, sizeof options->fingerprint) != 0)
		return LU_IDEMPOTENCY_CONFLICT;
	report_read(report, &rows[0]);
	return LU_OK;
}

static enum lu_error write_key(struct import *in, int64_t at_us)
{
	const struct import_report *report = in->report;
	struct idempotency_row row = {
		.principal_id = in->principal_id,
		.key = in->options->key,
		.kind = KIND_IMPORT,
		.status = TEXT("ok"),
		.object_id = in->operation_id,
		.at_us = at_us,
		.detail =
			arena_printf(&in->scratch,
	                     "{\"created\":%lld,\"changed\":%lld,\"entries\":%lld,\"described\":%lld,\"refused\":%lld,"
	                     "\"units\":%lld}",
	                     (long long)report->created, (long long)report->changed, (long long)report->entries,
	                     (long long)report->described, (long long)(report->refused + in->options->unreadable),
	                     (long long)report->units),
	};
	memcpy(row.fingerprint, in->options->fingerprint, sizeof row.fingerprint);
	idempotency_insert_send(in->pg, &in->scratch, &row, 1);
	enum lu_error error = pg_pipe_send(in->pg, in->options->deadline_ns);
	if (!error)
		error = idempotency_insert_take(in->pg, in->options->deadline_ns);
	enum lu_error end = pg_pipe_end(in->pg, in->options->deadline_ns);
	return error ? error : end;
}

/* --- the cache ------------------------------------------------------------------------------------------------------- */

static enum lu_error close_epoch(struct import *in)
{
	enum lu_error error = epoch_close_by_hand(in->pg, in->options->deadline_ns);
	in->closed = true;
	return error ? fail(in, error) : LU_OK;
}

static enum lu_error collect_cells(struct import *in)
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
	}
	return LU_OK;
}

static int64_t redis_deadline(const struct import *in)
{
	return deadline_in_ms(in->options->config->redis_timeout_ms);
}

/* --- the steps ----------------------------------------------------------------------------------------------------- */

static enum lu_error begin(struct import *in, struct epoch_row *ret_epoch)
{
	struct pg *pg = in->pg;
	int64_t deadline_ns = in->options->deadline_ns;
	tx_begin_send(pg);
	epoch_enter_send(pg, &in->scratch);
	enum lu_error error = pg_pipe_send(pg, deadline_ns);
	if (!error)
		error = tx_begin_take(pg, deadline_ns);
	if (!error)
		error = epoch_enter_take(pg, deadline_ns, &in->scratch, ret_epoch);
	enum lu_error end = pg_pipe_end(pg, deadline_ns);
	snprintf(in->namespace, sizeof in->namespace, "%.*s", (int)ret_epoch->namespace.size,
	         ret_epoch->namespace.size ? ret_epoch->namespace.data : "");
	return error ? error : end;
}

/* Locks, and says whether the epoch allows going on. */
static enum lu_error lock(struct import *in, const struct epoch_row *epoch, enum next *ret_next)
{
	enum lu_error error = run(in, &lock_targets, NULL, NULL);
	if (error)
		return error;
	PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
	error = pg_query(in->pg, &count_targets, NULL, in->options->deadline_ns, &result);
	if (error)
		return error;
	int64_t touched = pg_get_int(result, 0, 0);
	in->use_redis = touched > 0 && epoch->state == EPOCH_OPEN;
	if (touched > 0 && (epoch->state == EPOCH_CLOSING ||
	                    (epoch->state == EPOCH_OPEN && (!in->options->redis || touched > IMPORT_OPEN_MAX))))
		*ret_next = NEXT_CLOSE_EPOCH;
	return LU_OK;
}

/* The figures before and after each row. */
static enum lu_error compute(struct import *in)
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
	if (strcmp(code, "change_from_mismatch") == 0)
		return arena_printf(in->arena, "on_hand is %lld, change_from says %lld", before, change_from);
	if (strcmp(code, "count_out_of_range") == 0)
		return arena_printf(in->arena, "on_hand would be above 1000000000000000");
	if (reserved > 0)
		return arena_printf(in->arena, "on_hand would be %lld while %lld are held", after, reserved);
	return arena_printf(in->arena, "on_hand would be %lld", after);
}

/* The rows that fail; with --partial they are taken out, with those behind them of the same SKU. */
static enum lu_error refuse(struct import *in)
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
	report->refused = count ? pg_get_int(result, 0, 7) : 0;
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

static enum lu_error write_rows(struct import *in)
{
	struct import_report *report = in->report;
	struct uuid writer = uuid_new();
	struct pg_params params;
	pg_params_init(&params, &in->scratch);
	pg_add_uuid(&params, &writer);
	enum lu_error error = run(in, &make_skus, &params, &report->created);
	if (!error)
		error = run(in, &change_skus, &params, &report->changed);
	if (error)
		return error;
	pg_params_init(&params, &in->scratch);
	pg_add_int8(&params, in->principal_id);
	pg_add_uuid(&params, &in->operation_id);
	pg_add_int8(&params, LEDGER_CREATE);
	pg_add_int8(&params, LEDGER_IMPORT);
	pg_add_int8(&params, CHANNEL_SYSTEM);
	pg_add_text(&params, in->options->reference.size ? in->options->reference : (struct text){NULL, 0});
	error = run(in, &write_ledger, &params, &report->entries);
	if (!error && in->options->texts)
		error = run(in, &write_texts, NULL, &report->described);
	return error;
}

/* The last steps before COMMIT: the key, and in Redis the markers. */
static enum lu_error promise(struct import *in, struct coherence *coherence, enum next *ret_next)
{
	PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
	enum lu_error error = pg_query(in->pg, &sum_units, NULL, in->options->deadline_ns, &result);
	if (error)
		return error;
	in->report->units = pg_get_int(result, 0, 0);
	error = write_key(in, pg_get_time(result, 0, 1));
	if (error || !in->use_redis)
		return error;
	error = collect_cells(in);
	if (error)
		return error;
	enum cell_reply reply = coherence_intend_send(coherence, &in->scratch, in->cell_skus, in->cell_versions,
	                                              in->cell_count, redis_deadline(in));
	if (reply == CELL_OK)
		reply = coherence_intend_take(coherence, redis_deadline(in));
	if (reply != CELL_OK)
		*ret_next = NEXT_CLOSE_EPOCH;
	return LU_OK;
}

/* COMMIT, then the new values, before anybody is told. */
static enum lu_error commit(struct import *in, struct coherence *coherence)
{
	bool sent = false;
	enum lu_error error = pg_commit(in->pg, in->options->deadline_ns, &sent);
	if (error) {
		(void)fail(in, error);
		if (sent)
			pg_close(in->pg); /* the key will tell whether it was done */
		return sent ? LU_DATABASE_UNAVAILABLE : error;
	}
	in->report->applied = true;
	if (!in->use_redis)
		return LU_OK;
	enum cell_reply reply = coherence_publish(coherence, &in->scratch, in->cell_skus, in->cell_figures, in->cell_count,
	                                          in->options->config->cell_ttl_s * 1000, redis_deadline(in));
	in->published = reply == CELL_OK;
	return reply == CELL_OK ? LU_OK : close_epoch(in);
}

static enum lu_error attempt(struct import *in, struct coherence *coherence, enum next *ret_next)
{
	struct epoch_row epoch = {0};
	enum lu_error error = begin(in, &epoch);
	if (!error)
		error = lock(in, &epoch, ret_next);
	if (!error && *ret_next == NEXT_DONE)
		error = compute(in);
	if (!error && *ret_next == NEXT_DONE)
		error = refuse(in);
	bool refused = !error && in->report->refused && !in->options->partial;
	if (error || refused || *ret_next != NEXT_DONE)
		return error;
	error = write_rows(in);
	coherence_init(coherence, in->options->redis, text_of(in->namespace));
	if (!error)
		error = promise(in, coherence, ret_next);
	if (!error && *ret_next == NEXT_DONE)
		error = commit(in, coherence);
	return error;
}

/* After a failed or unfinished attempt. */
static enum next what_next(struct import *in, enum lu_error error)
{
	switch (pg_error(in->pg)->class) {
	case PG_RETRY:
		return strcmp(pg_error(in->pg)->sqlstate, "55P03") == 0 ? NEXT_WAIT : NEXT_AGAIN;
	case PG_DUPLICATE: /* somebody made one of our SKUs, or ran this very import */
		return NEXT_AGAIN;
	default:
		(void)fail(in, error);
		return NEXT_FAIL;
	}
}

/* False: the time is up; the report says for whom it was spent. */
static bool wait_for_others(struct import *in, struct import_wait *wait)
{
	struct arena arena;
	arena_init(&arena, 1024);
	import_wait_look(wait, in->pg, &arena, in->options->deadline_ns);
	arena_done(&arena);
	if (in->options->on_wait)
		in->options->on_wait(wait->why, in->options->context);
	if (import_wait_sleep(wait, in->options->deadline_ns))
		return true;
	snprintf(in->report->why, sizeof in->report->why, "gave up waiting: %s; nothing was imported", wait->why);
	return false;
}

enum lu_error import_apply(struct pg *pg, struct arena *arena, const struct import_options *options,
                           struct import_report *report)
{
	struct import in = {.pg = pg, .arena = arena, .options = options, .report = report, .operation_id = uuid_new()};
	enum lu_error error = find_principal(pg, arena, options->deadline_ns, &in.principal_id);
	if (error)
		return fail(&in, error);
	struct import_wait wait = {0};
	for (int n = 0; n < ATTEMPTS_MAX;) {
		struct coherence coherence = {0};
		enum next next = NEXT_DONE;
		arena_init(&in.scratch, 1 << 16);
		*report = (struct import_report){0};
		error = attempt(&in, &coherence, &next);
		if (error)
			next = what_next(&in, error);
		if (!report->applied)
			pg_rollback(pg, options->deadline_ns);
		coherence_done(&coherence);
		arena_done(&in.scratch);
		report->cache = in.published ? IMPORT_CACHE_PUBLISHED
		                : in.closed  ? IMPORT_CACHE_CLOSED
		                             : IMPORT_CACHE_UNCONCERNED;
		if (next == NEXT_DONE)
			return LU_OK;
		if (next == NEXT_FAIL)
			return error;
		if (next == NEXT_CLOSE_EPOCH && (error = close_epoch(&in)))
			return error;
		if (next == NEXT_AGAIN || next == NEXT_WAIT) {
			/* A twin of this import may have won: then its answer is ours. */
			error = import_known(pg, arena, options, report);
			if (error || report->replayed)
				return error;
		}
		if (next == NEXT_WAIT) {
			if (!wait_for_others(&in, &wait))
				return LU_OVERLOADED;
			continue; /* it is their time, not one of our attempts */
		}
		if (next == NEXT_AGAIN)
			clock_sleep_until(deadline_in_ms(20 + (int64_t)random_below(80)));
		n++;
	}
	snprintf(report->why, sizeof report->why, "others are changing the same SKUs or the cache epoch; try again");
	return LU_OVERLOADED;
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
