/* One connection to PostgreSQL: waiting with deadlines, what errors mean, single commands, COMMIT and ROLLBACK.
 *
 * Happy path: bytes are buffered by libpq, flushed with poll(), and results are waited for with poll(), always to a
 * deadline. Connecting is in pg_connect.c, pipelines (and with them every prepared statement) in pg_pipe.c, binary
 * values in pg_value.c.
 * Failure modes: a server's error is translated into one pg_class and the connection stays, unless the class says
 * that it is of no more use; a passed deadline or a lost connection closes it, so a late answer is never read as the
 * answer to something else. Nothing is logged here.
 */
#include "store/pg.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "store/pg_internal.h"

/* --- errors ------------------------------------------------------------------------------------------------------ */

static void copy_line(char *out, size_t room, const char *in)
{
	size_t n = 0;
	for (; in && *in && *in != '\n' && n + 1 < room; in++)
		out[n++] = *in;
	out[n] = '\0';
}

static bool starts(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

static enum pg_class class_of(const char *sqlstate)
{
	static const struct {
		const char *prefix;
		enum pg_class class;
	} table[] = {
		// clang-format off
		{"40001", PG_RETRY},      {"40P01", PG_RETRY},     {"55P03", PG_RETRY},
		{"57014", PG_UNAVAILABLE}, {"53", PG_UNAVAILABLE}, {"23505", PG_DUPLICATE},
		{"42501", PG_FORBIDDEN},
		/* Without USAGE of the schema none of its tables is to be seen. */
		{"42P01", PG_FORBIDDEN},
		/* The server is going, or has gone, or has become a standby. */
		{"08", PG_CONNECTION},    {"57P", PG_CONNECTION},  {"25006", PG_CONNECTION}, {"25P03", PG_CONNECTION},
		/* BEGIN READ WRITE and pg_current_wal_lsn() on a standby; 0A000 also: a prepared plan's table was altered. */
		{"0A000", PG_CONNECTION}, {"55000", PG_CONNECTION},
		/* Our prepared statement is gone: somebody reset the session. */
		{"26000", PG_CONNECTION},
		// clang-format on
	};
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
		if (starts(sqlstate, table[i].prefix))
			return table[i].class;
	return PG_VIOLATION;
}

enum lu_error pg_error_meaning(enum pg_class class)
{
	switch (class) {
	case PG_NONE:
		return LU_OK;
	case PG_RETRY:
	case PG_UNAVAILABLE:
		return LU_OVERLOADED;
	case PG_CONNECTION:
	case PG_DEADLINE:
	case PG_FORBIDDEN: /* no fault of the request's, and mended by an operator like the others */
		return LU_DATABASE_UNAVAILABLE;
	case PG_DUPLICATE:
	case PG_VIOLATION:
		break;
	}
	return LU_INTERNAL;
}

enum lu_error pg_fail(struct pg *pg, enum pg_class class, const char *sqlstate, const char *message)
{
	/* `message` may live in the connection, so it is copied before anything is closed. */
	memset(&pg->error, 0, sizeof pg->error);
	pg->error.class = class;
	copy_line(pg->error.sqlstate, sizeof pg->error.sqlstate, sqlstate);
	copy_line(pg->error.message, sizeof pg->error.message, message);
	if (class == PG_DEADLINE)
		pg_close(pg);
	return pg_error_meaning(class);
}

/* FATAL and PANIC, whatever their SQLSTATE: the server's last word, and none on what it has done. */
static bool ends_session(const PGresult *result)
{
	const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
	return severity && (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0);
}

enum lu_error pg_fail_result(struct pg *pg, const PGresult *result)
{
	const char *sqlstate = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
	if (!sqlstate) /* made up by libpq: the connection is lost */
		return pg_fail(pg, PG_CONNECTION, "", pg->conn ? PQerrorMessage(pg->conn) : "the connection is closed");
	enum lu_error error = pg_fail(pg, ends_session(result) ? PG_CONNECTION : class_of(sqlstate), sqlstate,
	                              PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
	copy_line(pg->error.constraint, sizeof pg->error.constraint, PQresultErrorField(result, PG_DIAG_CONSTRAINT_NAME));
	return error;
}

const struct pg_error *pg_error(const struct pg *pg)
{
	return &pg->error;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static char *copied(const char *s)
{
	char *copy = s ? strdup(s) : NULL;
	CHECK(!s || copy);
	return copy;
}

struct pg *pg_new(const struct pg_options *options)
{
	CHECK(options->url);
	struct pg *pg = calloc(1, sizeof *pg);
	CHECK(pg);
	pg->url = copied(options->url);
	pg->role = copied(options->role);
	pg->application_name = copied(options->application_name);
	pg->session.part = pg->application_name ? pg->application_name : "";
	pg->lock_timeout_ms = options->lock_timeout_ms;
	pg->statement_timeout_ms = options->statement_timeout_ms;
	pg->idle_in_transaction_timeout_ms = options->idle_in_transaction_timeout_ms;
	pg->idle_timeout_ms = options->idle_timeout_ms;
	return pg;
}

void pg_free(struct pg *pg)
{
	if (!pg)
		return;
	pg_close(pg);
	session_settled(&pg->session);
	free(pg->prepared);
	free(pg->items);
	free(pg->url);
	free(pg->role);
	free(pg->application_name);
	free(pg);
}

bool pg_connected(const struct pg *pg)
{
	return pg->conn && PQstatus(pg->conn) == CONNECTION_OK;
}

void pg_close(struct pg *pg)
{
	PQfinish(pg->conn); /* non-blocking: a server that does not read is not waited for */
	pg->conn = NULL;
	pg->prepared_count = 0;
	pg->item_count = pg->item_taken = 0;
	pg->piping = pg->synced = false;
	if (pg->pipe_open && !pg->pipe_failed) {
		if (pg->error.class == PG_NONE)
			(void)pg_fail(pg, PG_CONNECTION, "", "the connection was closed");
		pg->pipe_failed = true;
		pg->pipe_error = pg->error;
	}
}

PGconn *pg_conn(struct pg *pg)
{
	return pg->conn;
}

void pg_on_notice(void *context, const PGresult *notice)
{
	struct pg *pg = context;
	const char *severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
	if (severity && strcmp(severity, "WARNING") == 0)
		pg->warned = true;
}

/* --- waiting ------------------------------------------------------------------------------------------------------ */

/* Waits until the socket is ready, then takes in what is there. The socket is asked for each time: libpq owns it. */
static enum lu_error wait_ready(struct pg *pg, bool unsent, int64_t deadline_ns)
{
	struct pollfd ready = {.fd = PQsocket(pg->conn), .events = (short)(POLLIN | (unsent ? POLLOUT : 0))};
	for (;;) {
		int left_ms = deadline_left_ms(deadline_ns);
		int n = poll(&ready, 1, left_ms);
		if (n > 0)
			break;
		CHECK(n == 0 || errno == EINTR);
		if (n == 0 && deadline_left_ms(deadline_ns) == 0)
			return pg_fail(pg, PG_DEADLINE, "", "PostgreSQL did not answer before the deadline");
	}
	if ((ready.revents & ~POLLOUT) && !PQconsumeInput(pg->conn))
		return pg_fail_result(pg, NULL);
	return LU_OK;
}

enum lu_error pg_flush(struct pg *pg, int64_t deadline_ns)
{
	for (;;) {
		int unsent = PQflush(pg->conn);
		if (unsent == 0)
			return LU_OK;
		if (unsent < 0)
			return pg_fail_result(pg, NULL);
		enum lu_error error = wait_ready(pg, true, deadline_ns);
		if (error)
			return error;
	}
}

enum lu_error pg_next_result(struct pg *pg, int64_t deadline_ns, PGresult **ret_result)
{
	while (PQisBusy(pg->conn)) {
		int unsent = PQflush(pg->conn);
		if (unsent < 0)
			return pg_fail_result(pg, NULL);
		enum lu_error error = wait_ready(pg, unsent > 0, deadline_ns);
		if (error)
			return error;
	}
	*ret_result = PQgetResult(pg->conn);
	return LU_OK;
}

/* --- single commands ---------------------------------------------------------------------------------------------- */

/* Reads all results of a simple query, also behind an error, so that the connection is idle again. */
static enum lu_error simple_results(struct pg *pg, int64_t deadline_ns, PGresult **ret_result, char tag[64])
{
	enum lu_error outcome = LU_OK;
	struct pg_error first = {0};
	for (;;) {
		PGresult *result;
		enum lu_error error = pg_next_result(pg, deadline_ns, &result);
		if (error && outcome) {
			pg_close(pg); /* an error, then silence: the error is the reason */
			pg->error = first;
		}
		if (error)
			return outcome ? outcome : error;
		if (!result)
			return outcome;
		ExecStatusType status = PQresultStatus(result);
		if (status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH) {
			PQclear(result);
			pg_close(pg); /* only pg_conn()'s users may COPY */
			return pg_fail(pg, PG_VIOLATION, "", "COPY is not a command");
		}
		if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK && status != PGRES_EMPTY_QUERY) {
			if (!outcome) {
				outcome = pg_fail_result(pg, result);
				first = pg->error;
			}
		} else if (!outcome) {
			copy_line(tag, 64, PQcmdStatus(result));
			if (status == PGRES_TUPLES_OK && ret_result) {
				PQclear(*ret_result);
				*ret_result = result;
				continue;
			}
		}
		PQclear(result);
	}
}

enum lu_error pg_simple(struct pg *pg, const char *sql, int64_t deadline_ns, PGresult **ret_result, char tag[64])
{
	if (ret_result)
		*ret_result = NULL;
	tag[0] = '\0';
	if (!pg->conn)
		return pg_fail(pg, PG_CONNECTION, "", "the connection is closed");
	CHECK(!pg->piping);
	enum lu_error error = PQsendQuery(pg->conn, sql) ? pg_flush(pg, deadline_ns) : pg_fail_result(pg, NULL);
	if (!error)
		error = simple_results(pg, deadline_ns, ret_result, tag);
	if (error && ret_result)
		pg_clear(ret_result);
	/* A connection that was lost, or is of no more use, is not kept. */
	if (error && pg->error.class == PG_CONNECTION)
		pg_close(pg);
	return error;
}

enum lu_error pg_command(struct pg *pg, const char *sql, int64_t deadline_ns)
{
	char tag[64];
	return pg_simple(pg, sql, deadline_ns, NULL, tag);
}

enum lu_error pg_commit(struct pg *pg, int64_t deadline_ns, bool *ret_sent)
{
	char tag[64];
	*ret_sent = false;
	if (!pg_connected(pg))
		return pg_fail(pg, PG_CONNECTION, "", "the connection is closed");
	pg->warned = false;
	enum lu_error error = pg_simple(pg, "COMMIT", deadline_ns, NULL, tag);
	if (error) {
		/* An ordinary error is the server's word that nothing was done. A lost connection, a FATAL of a dying server or
		 * our own deadline says nothing. */
		*ret_sent = pg->error.class == PG_CONNECTION || pg->error.class == PG_DEADLINE;
		return error;
	}
	if (strcmp(tag, "COMMIT") != 0)
		return pg_fail(pg, PG_VIOLATION, "25P02", "COMMIT of a failed transaction: rolled back");
	if (pg->warned) {
		/* 01000: the wait for a standby was cancelled, so it is durable here only. 25P01: there was no transaction. */
		*ret_sent = true;
		error = pg_fail(pg, PG_CONNECTION, "01000", "COMMIT came with a warning");
		pg_close(pg);
	}
	return error;
}

void pg_rollback(struct pg *pg, int64_t deadline_ns)
{
	struct pg_error first = pg->error; /* the caller asks why after it has cleaned up */
	(void)!pg_pipe_end(pg, deadline_ns);
	switch (pg->conn ? PQtransactionStatus(pg->conn) : PQTRANS_UNKNOWN) {
	case PQTRANS_IDLE:
		break;
	case PQTRANS_INTRANS:
	case PQTRANS_INERROR:
		if (pg_command(pg, "ROLLBACK", deadline_ns))
			pg_close(pg);
		break;
	case PQTRANS_ACTIVE:
	case PQTRANS_UNKNOWN:
		pg_close(pg);
		break;
	}
	pg->error = first;
}
