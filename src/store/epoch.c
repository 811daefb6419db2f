/* The cache epoch's row and its transitions.
 *
 * Happy path: a batch takes the epoch's lock shared and then reads the row, so the opener, who takes it exclusive,
 * knows that every writer who saw "closed" has ended. Closing takes no lock: it may not wait for anybody. Failure
 * modes: on a standby the identity cannot be had (55000, PG_CONNECTION); the opener that does not get the lock in
 * 200 ms leaves and is called again, so that writers are never stopped for longer.
 */
#include "store/epoch.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/clock.h"
#include "store/advisory.h"
#include "store/lines.h"
#include "store/pg_internal.h"

#define LOCK_TIMEOUT "200" /* ms, for the opener */

/* Which PostgreSQL this is. A restart, a failover, a copy of the files, another database and a table made anew by a
 * restore each change one part. */
#define IDENTITY(row)                                                                                  \
	"concat_ws('/', (SELECT c.system_identifier FROM pg_control_system() c),"                          \
	" left(pg_walfile_name(pg_current_wal_lsn()), 8), extract(epoch FROM pg_postmaster_start_time())," \
	" (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()), " row ".tableoid::oid)"

static const struct pg_statement enter_lock = {
	"epoch_enter_lock",
	"SELECT pg_advisory_xact_lock_shared(" ADVISORY(ADVISORY_EPOCH) ")",
};
static const struct pg_statement enter_row = {
	"epoch_enter_row",
	"SELECT e.state, e.namespace, e.redis_identity FROM cache_epoch e",
};

static struct epoch_row row_get(const PGresult *r, struct arena *arena)
{
	return (struct epoch_row){
		.state = (enum epoch_state)pg_get_int(r, 0, 0),
		.namespace = pg_get_text(r, 0, 1, arena),
		.redis_identity = pg_get_text(r, 0, 2, arena),
	};
}

void epoch_enter_send(struct pg *pg, struct arena *arena)
{
	pg_pipe_add(pg, &enter_lock, NULL);
	pg_pipe_add(pg, &enter_row, NULL);
}

enum lu_error epoch_enter_take(struct pg *pg, int64_t deadline_ns, struct arena *arena, struct epoch_row *ret_row)
{
	PGresult *r;
	enum lu_error error = pg_pipe_take_done(pg, deadline_ns);
	if (error)
		return error;
	error = pg_pipe_take(pg, deadline_ns, &r);
	if (error)
		return error;
	if (PQntuples(r) == 1)
		*ret_row = row_get(r, arena);
	else
		error = pg_fail(pg, PG_VIOLATION, "", "cache_epoch has lost its row");
	PQclear(r);
	return error;
}

enum lu_error epoch_lease_read(struct pg *pg, struct arena *arena, int64_t deadline_ns, struct epoch_row *ret_row)
{
	static const struct pg_statement statement = {
	        "epoch_lease_read",
	        "SELECT e.state, e.namespace, e.redis_identity,"
	        " e.xmin = e.xid::xid AND e.pg_identity = " IDENTITY("e") ", (SELECT v.version FROM keys_version v), e.lease_ms"
	        " FROM cache_epoch e",
	};
	PGresult *r;
	enum lu_error error = pg_query(pg, &statement, NULL, deadline_ns, &r);
	if (error)
		return error;
	if (PQntuples(r) == 1) {
		*ret_row = row_get(r, arena);
		ret_row->genuine = pg_get_bool(r, 0, 3);
		ret_row->keys_version = pg_get_int(r, 0, 4);
		ret_row->lease_ms = pg_get_int(r, 0, 5);
	} else {
		error = pg_fail(pg, PG_VIOLATION, "", "cache_epoch has lost its row");
	}
	PQclear(r);
	return error;
}

/* A transition in a transaction of its own: the statement is one. */
static enum lu_error move(struct pg *pg, const struct pg_statement *statement, struct text namespace,
                          int64_t deadline_ns, bool *ret_moved)
{
	struct arena arena;
	arena_init(&arena, 0);
	struct pg_params p;
	pg_params_init(&p, &arena);
	pg_add_text(&p, namespace);
	PGresult *r;
	enum lu_error error = pg_query(pg, statement, &p, deadline_ns, &r);
	arena_done(&arena);
	if (error)
		return error;
	*ret_moved = strtol(PQcmdTuples(r), NULL, 10) == 1;
	PQclear(r);
	return LU_OK;
}

enum lu_error epoch_close(struct pg *pg, struct text namespace, int64_t deadline_ns, bool *ret_moved)
{
	static const struct pg_statement statement = {
		"epoch_close",
		"UPDATE cache_epoch SET state = 2, since = clock_timestamp(), xid = pg_current_xact_id()"
		" WHERE namespace = $1 AND state = 1",
	};
	return move(pg, &statement, namespace, deadline_ns, ret_moved);
}

enum lu_error epoch_closed(struct pg *pg, struct text namespace, int64_t deadline_ns, bool *ret_moved)
{
	static const struct pg_statement statement = {
		"epoch_closed",
		"UPDATE cache_epoch SET state = 3, since = clock_timestamp(), xid = pg_current_xact_id()"
		" WHERE namespace = $1 AND state = 2",
	};
	return move(pg, &statement, namespace, deadline_ns, ret_moved);
}

/* BEGIN, wait for the writers, move: one pipeline, each statement with a snapshot of its own, so the UPDATE sees what
 * the lock waited for. */
static enum lu_error open_pipe(struct pg *pg, const struct pg_params *p, int64_t deadline_ns, bool *ret_moved)
{
	static const struct pg_statement begin = {"epoch_open_begin", "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"};
	static const struct pg_statement timeout = {"epoch_open_timeout", "SET LOCAL lock_timeout = " LOCK_TIMEOUT};
	static const struct pg_statement lock = {"epoch_open_lock",
	                                         "SELECT pg_advisory_xact_lock(" ADVISORY(ADVISORY_EPOCH) ")"};
	static const struct pg_statement open = {
		"epoch_open",
		"UPDATE cache_epoch e SET state = 1, namespace = $2, redis_identity = $3, pg_identity = " IDENTITY(
			"e") ", lease_ms = $4, since = clock_timestamp(), xid = pg_current_xact_id()"
		" WHERE e.namespace = $1 AND e.state = 3",
	};
	pg_pipe_add(pg, &begin, NULL);
	pg_pipe_add(pg, &timeout, NULL);
	pg_pipe_add(pg, &lock, NULL);
	pg_pipe_add(pg, &open, p);
	enum lu_error error = pg_pipe_send(pg, deadline_ns);
	for (int i = 0; !error && i < 3; i++)
		error = pg_pipe_take_done(pg, deadline_ns);
	PGresult *r;
	if (!error)
		error = pg_pipe_take(pg, deadline_ns, &r);
	if (!error) {
		*ret_moved = strtol(PQcmdTuples(r), NULL, 10) == 1;
		PQclear(r);
	}
	enum lu_error end = pg_pipe_end(pg, deadline_ns);
	return error ? error : end;
}

enum lu_error epoch_open(struct pg *pg, struct text old_namespace, struct text namespace, struct text redis_identity,
                         int64_t lease_ms, int64_t deadline_ns, bool *ret_moved)
{
	struct arena arena;
	arena_init(&arena, 0);
	struct pg_params p;
	pg_params_init(&p, &arena);
	pg_add_text(&p, old_namespace);
	pg_add_text(&p, namespace);
	pg_add_text(&p, redis_identity);
	pg_add_int8(&p, lease_ms);
	bool moved = false, sent = false;
	enum lu_error error = open_pipe(pg, &p, deadline_ns, &moved);
	arena_done(&arena);
	if (!error)
		error = pg_commit(pg, deadline_ns, &sent);
	if (error)
		pg_rollback(pg, deadline_ns); /* keeps the reason in pg_error() */
	else
		*ret_moved = moved;
	return sent ? LU_OUTCOME_UNKNOWN : error;
}
