/* A connection to PostgreSQL: blocking calls with deadlines, prepared statements, pipelines, binary parameters.
 *
 * Never bare PQexec: everything is sent, then poll()ed to the deadline; flush on write-ready and input consumed
 * together, so full buffers never stall (B91). A call that passes its deadline or loses the connection leaves it
 * closed: a half-read answer is never taken for the next one. Thread: the owner's only; never on an event loop.
 * Ownership: results are the caller's (PQclear, or the cleanup attribute with pg_clear); text from them is copied
 * before they are cleared (pg_get_text takes an arena).
 */
#ifndef STORE_PG_H
#define STORE_PG_H

#include <libpq-fe.h>

#include "base/arena.h"
#include "lastunit/error.h"
#include "lastunit/types.h"

struct pg;

/* What a failure means for the caller; class_of() in pg.c tells it from the SQLSTATE. PG_CONNECTION: 08*, 57P0x, 25006,
 * 25P03, none at all, 0A000 at BEGIN, 55000 of the identity, and whatever is FATAL or PANIC. */
enum pg_class {
	PG_NONE = 0,
	PG_RETRY,       /* 40001 40P01 55P03: run the transaction again */
	PG_CONNECTION,  /* new connection */
	PG_UNAVAILABLE, /* 57014, 53*: 503 */
	PG_DUPLICATE,   /* 23505: constraint tells which */
	PG_FORBIDDEN,   /* 42501, 42P01: the role lacks a right that it was given when the schema was made */
	PG_VIOLATION,   /* 23514 and anything unexpected: a culprit is in the batch */
	PG_DEADLINE,    /* our own deadline passed; the connection is closed */
};

struct pg_error {
	enum pg_class class;
	char sqlstate[6]; /* "" : none */
	char constraint[64];
	char message[256]; /* one line, primary message */
};

/* url: libpq string or URL. role: SET ROLE to it in each session (NULL: none). The session gets synchronous_commit on,
 * the timeouts, force_generic_plan, enable_seqscan off, search_path lastunit, application_name. */
struct pg_options {
	const char *url;
	const char *role;
	const char *application_name;
	int64_t lock_timeout_ms, statement_timeout_ms, idle_in_transaction_timeout_ms; /* 0: none */
	int64_t idle_timeout_ms; /* silent for so long outside a transaction, and PostgreSQL (14 or newer) ends the session;
	                          * 0: as the database has it */
};

/* What libpq refuses before it asks any server, but for a wrong target_session_attrs: false with its sentence, which has no
 * password. */
#define PG_URL_WHY_BYTES 256
bool pg_url_check(const char *url, char ret_why[PG_URL_WHY_BYTES]) LU_MUST_CHECK;
struct pg *pg_new(const struct pg_options *options);
void pg_free(struct pg *pg);
/* Connects if there is no usable connection. Refuses a pooler between (PQbackendPID differs from pg_backend_pid()) and
 * a standby. At most one attempt per 50 ms with jitter; between attempts it fails at once. When its deadline passes, the
 * message carries what the attempt before it was told. */
enum lu_error pg_connect(struct pg *pg, int64_t deadline_ns) LU_MUST_CHECK;
bool pg_connected(const struct pg *pg);
void pg_close(struct pg *pg);
/* Of the last call that failed; good until the next call. */
const struct pg_error *pg_error(const struct pg *pg);
/* The last pg_connect failed because the server refuses this user, password or database (28xxx, 3D000), or wants a
 * password and was given none: waiting does not mend it. */
bool pg_refused(const struct pg *pg);
PGconn *pg_conn(struct pg *pg); /* for COPY and the like; NULL when closed */

/* --- parameters: binary, typed, built in an arena -------------------------------------------------------------- */
#define PG_PARAMS_MAX 20

struct pg_params {
	struct arena *arena;
	int count;
	bool one_row; /* pg_params_init_rows(), of one: the element of each array goes in place of it … */
	bool arrays;  /* … but not of those that come now */
	unsigned types[PG_PARAMS_MAX];
	const char *values[PG_PARAMS_MAX];
	int lengths[PG_PARAMS_MAX];
};

void pg_params_init(struct pg_params *params, struct arena *arena);
/* For a statement of rows, "INSERT … SELECT unnest($1), unnest($2)", an array for each column. Of one row the elements
 * themselves are sent, and each unnest($n) becomes $n, in a statement that has "_one" behind its name: unpacking arrays
 * would be a fifth of what a cart that comes alone costs PostgreSQL. Arrays that are values of the row are added after
 * pg_params_arrays(). */
void pg_params_init_rows(struct pg_params *params, struct arena *arena, size_t row_count);
void pg_params_arrays(struct pg_params *params);
void pg_add_int8(struct pg_params *p, int64_t value);
void pg_add_text(struct pg_params *p, struct text value); /* data NULL: NULL */
void pg_add_bool(struct pg_params *p, bool value);
void pg_add_uuid(struct pg_params *p, const struct uuid *value); /* nil: NULL */
/* What a page begins behind. nil is itself, smaller than every id, where NULL would be greater than none. */
void pg_add_after(struct pg_params *p, const struct uuid *value);
void pg_add_bytes(struct pg_params *p, const void *bytes, size_t size);
void pg_add_time(struct pg_params *p, int64_t unix_us); /* timestamptz; 0: NULL */
/* Arrays, one dimension. `stride` is the distance in bytes between elements, so a member of an array of structs can
 * be passed as it lies: pg_add_int8s(p, &rows[0].id, sizeof rows[0], count). */
void pg_add_int8s(struct pg_params *p, const int64_t *first, size_t stride, size_t count);
void pg_add_int2s(struct pg_params *p, const int16_t *first, size_t stride, size_t count);
void pg_add_bools(struct pg_params *p, const bool *first, size_t stride, size_t count);
void pg_add_texts(struct pg_params *p, const struct text *first, size_t stride,
                  size_t count); /* data NULL: NULL element */
void pg_add_uuids(struct pg_params *p, const struct uuid *first, size_t stride, size_t count); /* nil: NULL element */
void pg_add_times(struct pg_params *p, const int64_t *first_us, size_t stride, size_t count);  /* 0: NULL element */
void pg_add_byteas(struct pg_params *p, const struct text *first, size_t stride,
                   size_t count); /* data NULL: NULL element */

/* --- statements ----------------------------------------------------------------------------------------------------
 * A statement is static data; it is prepared on first use on each connection, in the same pipeline. */
struct pg_statement {
	const char *name; /* unique */
	const char *sql;
};

/* One statement, one answer (binary). */
enum lu_error pg_query(struct pg *pg, const struct pg_statement *statement, const struct pg_params *params,
                       int64_t deadline_ns, PGresult **ret_result) LU_MUST_CHECK;
/* A utility command without parameters (BEGIN, SET …). */
enum lu_error pg_command(struct pg *pg, const char *sql, int64_t deadline_ns) LU_MUST_CHECK;
/* COMMIT as its own call: LU_OK only for the command tag COMMIT without a warning. On failure *ret_sent says whether
 * the server may have got it: then the outcome is unknown. */
enum lu_error pg_commit(struct pg *pg, int64_t deadline_ns, bool *ret_sent) LU_MUST_CHECK;
/* ROLLBACK if in a transaction; closes the connection if that fails. */
void pg_rollback(struct pg *pg, int64_t deadline_ns);

/* A pipeline: add statements, send, take one result per statement in order, end. After the first failure every
 * further pg_pipe_take fails the same way (aborted statements are never reported as done); pg_pipe_end always leaves
 * the connection either usable or closed. BEGIN may be the first: then failures leave a transaction to roll back. */
void pg_pipe_add(struct pg *pg, const struct pg_statement *statement, const struct pg_params *params /* or NULL */);
enum lu_error pg_pipe_send(struct pg *pg, int64_t deadline_ns) LU_MUST_CHECK;
enum lu_error pg_pipe_take(struct pg *pg, int64_t deadline_ns, PGresult **ret_result) LU_MUST_CHECK;
enum lu_error pg_pipe_end(struct pg *pg, int64_t deadline_ns) LU_MUST_CHECK;

/* --- reading binary results --------------------------------------------------------------------------------------- */
int64_t pg_get_int(const PGresult *r, int row, int column); /* int2, int4, int8, xid8; CHECKs the length; NULL: 0 */
bool pg_get_bool(const PGresult *r, int row, int column);
struct text pg_get_text(const PGresult *r, int row, int column, struct arena *arena); /* copied; NULL: data NULL */
struct uuid pg_get_uuid(const PGresult *r, int row, int column);                      /* NULL: nil */
int64_t pg_get_time(const PGresult *r, int row, int column); /* timestamptz -> unix µs; NULL: 0 */
/* A one-dimensional array's elements in the arena; returns their count. */
size_t pg_get_int8s(const PGresult *r, int row, int column, struct arena *arena, int64_t **ret_values);
size_t pg_get_bools(const PGresult *r, int row, int column, struct arena *arena, bool **ret_values);
size_t pg_get_texts(const PGresult *r, int row, int column, struct arena *arena, struct text **ret_values);
void pg_clear(PGresult **result); /* for the cleanup attribute; accepts NULL */

#endif
