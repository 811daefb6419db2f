/* The rows of an import on their way into PostgreSQL (import_stage.h).
 *
 * Happy path: rows become COPY lines in a buffer, which is handed to libpq whenever it is half a megabyte long and
 * flushed with poll(), taking in what the server says meanwhile.
 * Failure modes: the server's own words, or the deadline's; the connection is then closed by whoever owns it.
 */
#include "cmd/import_stage.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"

#define SEND_BYTES ((size_t)1 << 19)

static const char tables[] =
	"DROP TABLE IF EXISTS pg_temp.import_stage, pg_temp.import_target, pg_temp.import_applied;"
	"CREATE TEMPORARY TABLE import_stage (line bigint, code text COLLATE \"C\", on_hand bigint, delta bigint,"
	" change_from bigint, safety_stock bigint, tracked boolean, titles text, names text, reason text, counts boolean);"
	"CREATE TEMPORARY TABLE import_target (id bigint, code text COLLATE \"C\", on_hand bigint, reserved bigint,"
	" version bigint, made boolean);"
	"CREATE TEMPORARY TABLE import_applied (line bigint, id bigint, code text COLLATE \"C\", nth bigint,"
	" before bigint, after bigint, reserved bigint, safety_stock bigint, tracked boolean, reason text,"
	" change_from bigint, last boolean, error text);"
	/* The session is set up for look-ups of single rows; here whole tables are joined. */
	"SET enable_seqscan = on; SET plan_cache_mode = auto; SET work_mem = '64MB'";

static enum lu_error say(struct import_stage *stage, enum lu_error error, const char *what)
{
	snprintf(stage->why, sizeof stage->why, "%.*s", (int)strcspn(what, "\n"), what);
	return error;
}

/* Waits until the socket is ready and takes in what is there. */
static enum lu_error wait_ready(struct import_stage *stage, bool unsent)
{
	PGconn *conn = pg_conn(stage->pg);
	struct pollfd ready = {.fd = PQsocket(conn), .events = (short)(POLLIN | (unsent ? POLLOUT : 0))};
	int n = poll(&ready, 1, deadline_left_ms(stage->deadline_ns));
	CHECK(n >= 0 || errno == EINTR);
	if (n == 0 && deadline_left_ms(stage->deadline_ns) == 0)
		return say(stage, LU_DEADLINE_EXCEEDED, "PostgreSQL did not take the rows in time");
	if (n > 0 && (ready.revents & ~POLLOUT) && !PQconsumeInput(conn))
		return say(stage, LU_DATABASE_UNAVAILABLE, PQerrorMessage(conn));
	return LU_OK;
}

static enum lu_error flush(struct import_stage *stage)
{
	PGconn *conn = pg_conn(stage->pg);
	for (;;) {
		int unsent = PQflush(conn);
		if (unsent == 0)
			return LU_OK;
		if (unsent < 0)
			return say(stage, LU_DATABASE_UNAVAILABLE, PQerrorMessage(conn));
		enum lu_error error = wait_ready(stage, true);
		if (error)
			return error;
	}
}

/* The next result, NULL behind the last one. */
static enum lu_error next_result(struct import_stage *stage, PGresult **ret_result)
{
	PGconn *conn = pg_conn(stage->pg);
	enum lu_error error = flush(stage);
	while (!error && PQisBusy(conn))
		error = wait_ready(stage, false);
	if (!error)
		*ret_result = PQgetResult(conn);
	return error;
}

static enum lu_error send_rows(struct import_stage *stage)
{
	PGconn *conn = pg_conn(stage->pg);
	if (stage->out.size == 0)
		return LU_OK;
	int sent;
	while ((sent = PQputCopyData(conn, stage->out.data, (int)stage->out.size)) == 0) {
		enum lu_error error = wait_ready(stage, true);
		if (error)
			return error;
	}
	if (sent < 0)
		return say(stage, LU_DATABASE_UNAVAILABLE, PQerrorMessage(conn));
	buffer_clear(&stage->out);
	return flush(stage);
}

enum lu_error import_stage_begin(struct import_stage *stage, struct pg *pg, int64_t deadline_ns)
{
	*stage = (struct import_stage){.pg = pg, .deadline_ns = deadline_ns};
	enum lu_error error = pg_command(pg, tables, deadline_ns);
	if (error)
		return say(stage, error, pg_error(pg)->message);
	if (!PQsendQuery(pg_conn(pg), "COPY import_stage FROM STDIN"))
		return say(stage, LU_DATABASE_UNAVAILABLE, PQerrorMessage(pg_conn(pg)));
	PGresult *result = NULL;
	error = next_result(stage, &result);
	if (!error && PQresultStatus(result) != PGRES_COPY_IN)
		error = say(stage, LU_DATABASE_UNAVAILABLE, PQresultErrorMessage(result));
	pg_clear(&result);
	return error;
}

static void add_text(struct buffer *out, struct text text)
{
	if (!text.size) {
		buffer_add_string(out, "\t\\N");
		return;
	}
	buffer_add_char(out, '\t');
	for (size_t i = 0; i < text.size; i++) {
		char c = text.data[i];
		if (c == '\\' || c == '\t' || c == '\n' || c == '\r')
			buffer_add_char(out, '\\');
		buffer_add_char(out, c == '\t' ? 't' : c == '\n' ? 'n' : c == '\r' ? 'r' : c);
	}
}

static void add_count(struct buffer *out, bool given, int64_t value)
{
	buffer_add_string(out, given ? "\t" : "\t\\N");
	if (given)
		buffer_add_int(out, value);
}

static void add_bool(struct buffer *out, bool given, bool value)
{
	buffer_add_string(out, !given ? "\t\\N" : value ? "\tt" : "\tf");
}

enum lu_error import_stage_add(struct import_stage *stage, const struct import_row *row, struct text titles)
{
	struct buffer *out = &stage->out;
	buffer_add_int(out, row->line);
	add_text(out, row->sku);
	add_count(out, row->on_hand_given, row->on_hand);
	add_count(out, row->delta_given, row->delta);
	add_count(out, row->change_from_given, row->change_from);
	add_count(out, row->safety_stock_given, row->safety_stock);
	add_bool(out, row->tracked_given, row->tracked);
	add_text(out, titles);
	add_text(out, row->names);
	add_text(out, row->reason);
	add_bool(out, true, import_row_counts(row));
	buffer_add_char(out, '\n');
	return out->size < SEND_BYTES ? LU_OK : send_rows(stage);
}

enum lu_error import_stage_end(struct import_stage *stage, bool keep)
{
	PGconn *conn = pg_conn(stage->pg);
	enum lu_error error = keep ? send_rows(stage) : LU_OK;
	if (error)
		return error;
	int sent;
	while ((sent = PQputCopyEnd(conn, keep ? NULL : "the import was given up")) == 0) {
		error = wait_ready(stage, true);
		if (error)
			return error;
	}
	if (sent < 0)
		return say(stage, LU_DATABASE_UNAVAILABLE, PQerrorMessage(conn));
	enum lu_error outcome = LU_OK;
	for (;;) {
		PGresult *result = NULL;
		error = next_result(stage, &result);
		if (error || !result)
			break;
		if (keep && PQresultStatus(result) != PGRES_COMMAND_OK)
			outcome = say(stage, LU_INTERNAL, PQresultErrorMessage(result));
		pg_clear(&result);
	}
	if (error || outcome || !keep)
		return error ? error : outcome;
	error = pg_command(stage->pg, "ANALYZE import_stage", stage->deadline_ns);
	return error ? say(stage, error, pg_error(stage->pg)->message) : LU_OK;
}

void import_stage_done(struct import_stage *stage)
{
	buffer_done(&stage->out);
}
