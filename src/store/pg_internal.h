/* What the files of a connection (pg.c, pg_connect.c, pg_pipe.c) share among themselves; nobody else includes it. */
#ifndef STORE_PG_INTERNAL_H
#define STORE_PG_INTERNAL_H

#include "store/pg.h"
#include "store/session.h"

/* A statement as it was written, or as it is for one row (pg_params_init_rows): two for the server. */
struct pg_prepared {
	const struct pg_statement *statement;
	bool one_row;
};

/* One statement in the pipeline and what is still to come for it. */
struct pg_pipe_item {
	struct pg_prepared prepared;
	bool prepares; /* a Parse of ours goes in front: its answer comes first */
};

struct pg {
	PGconn *conn; /* NULL when closed */
	char *url, *role, *application_name;
	int64_t lock_timeout_ms, statement_timeout_ms, idle_in_transaction_timeout_ms, idle_timeout_ms;
	int64_t next_attempt_ns;       /* pg_connect fails at once before that */
	struct pg_error connect_error; /* why the last attempt failed; repeated until the next is due */
	char told[160];                /* why the last one failed that did not just run out of time; "" once connected */
	bool refused;                  /* pg_refused() */
	struct session session;        /* whether it is refused one; unlike `refused`, also for want of connections */
	struct pg_error error;
	bool warned; /* a WARNING arrived since it was last cleared */

	/* Prepared on this connection, or about to be by a Parse in the running pipeline. */
	struct pg_prepared *prepared;
	size_t prepared_count, prepared_room;

	struct pg_pipe_item *items; /* of the open pipeline; [taken, count) are still to be taken */
	size_t item_count, item_room, item_taken;
	bool pipe_open; /* from the first pg_pipe_add to pg_pipe_end */
	bool piping;    /* libpq's pipeline mode is on: the connection is not idle */
	bool synced;    /* the Sync was sent, its answer not yet read */
	bool pipe_failed;
	struct pg_error pipe_error; /* the first failure, which every further call repeats */
};

/* Sets the error and returns what the caller's caller sees. */
enum lu_error pg_fail(struct pg *pg, enum pg_class class, const char *sqlstate, const char *message);
/* The same from a failed result, or, when it is NULL or says nothing, from the connection. */
enum lu_error pg_fail_result(struct pg *pg, const PGresult *result);
enum lu_error pg_error_meaning(enum pg_class class);
/* Waits for the next result. LU_OK with *ret_result NULL: the end of this statement's results. */
enum lu_error pg_next_result(struct pg *pg, int64_t deadline_ns, PGresult **ret_result) LU_MUST_CHECK;
/* Sends all that is buffered, taking in what the server says meanwhile. */
enum lu_error pg_flush(struct pg *pg, int64_t deadline_ns) LU_MUST_CHECK;
/* Simple query protocol; the last result with rows goes to ret_result (may be NULL), `tag` gets the last command tag. */
enum lu_error pg_simple(struct pg *pg, const char *sql, int64_t deadline_ns, PGresult **ret_result, char tag[64])
	LU_MUST_CHECK;
void pg_on_notice(void *context, const PGresult *notice);

#endif
