/* The key of an import: a row of `idempotency` under the principal `system`, written in the import's transaction
 * (import_apply.h, import_internal.h).
 *
 * Happy path: the key is unknown, and the counts of what was done are written under it. Known: those counts are told
 * again. Failure modes: another fingerprint under the same key is LU_IDEMPOTENCY_CONFLICT.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cmd/import_internal.h"
#include "store/idempotency.h"

#define KIND_IMPORT 100 /* idempotency.kind: beside enum operation_kind, for no operation is looked up there */

static const struct pg_statement principal_find = {"import_principal_find",
                                                   "SELECT id FROM lastunit.principal WHERE name = 'system'"};
static const struct pg_statement principal_make =
	{"import_principal_make",
     "INSERT INTO lastunit.principal (name, channel) VALUES ('system', $1::smallint) ON CONFLICT DO NOTHING"};

enum lu_error import_principal(struct pg *pg, struct arena *arena, int64_t deadline_ns, int64_t *ret_id)
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
	enum lu_error error = import_principal(pg, arena, options->deadline_ns, &principal_id);
	if (error)
		return import_fail(&in, error);
	struct idempotency_row *rows = NULL;
	size_t count = 0;
	idempotency_read_send(pg, arena, &principal_id, &options->key, 1);
	error = pg_pipe_send(pg, options->deadline_ns);
	if (!error)
		error = idempotency_read_take(pg, options->deadline_ns, arena, &rows, &count);
	enum lu_error end = pg_pipe_end(pg, options->deadline_ns);
	if (error || end)
		return import_fail(&in, error ? error : end);
	if (count == 0)
		return LU_OK;
	if (memcmp(rows[0].fingerprint, options->fingerprint, sizeof options->fingerprint) != 0)
		return LU_IDEMPOTENCY_CONFLICT;
	report_read(report, &rows[0]);
	return LU_OK;
}

enum lu_error import_write_key(struct import *in, int64_t at_us)
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
		error = idempotency_insert_take(in->pg, in->options->deadline_ns, 1);
	enum lu_error end = pg_pipe_end(in->pg, in->options->deadline_ns);
	return error ? error : end;
}
