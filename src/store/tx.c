/* The frame of a write transaction (tx.h). */
#include "store/tx.h"

static const struct pg_statement begin = {"tx_begin", "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"};
static const struct pg_statement clock = {"tx_clock", "SELECT clock_timestamp()"};
static const struct pg_statement lock_timeout = {"tx_lock_timeout", "SELECT set_config('lock_timeout', $1, true)"};

static enum lu_error take_and_forget(struct pg *pg, int64_t deadline_ns)
{
	PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
	return pg_pipe_take(pg, deadline_ns, &result);
}

void tx_begin_send(struct pg *pg)
{
	pg_pipe_add(pg, &begin, NULL);
}

enum lu_error tx_begin_take(struct pg *pg, int64_t deadline_ns)
{
	return take_and_forget(pg, deadline_ns);
}

void tx_clock_send(struct pg *pg)
{
	pg_pipe_add(pg, &clock, NULL);
}

enum lu_error tx_clock_take(struct pg *pg, int64_t deadline_ns, int64_t *ret_unix_us)
{
	PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
	enum lu_error error = pg_pipe_take(pg, deadline_ns, &result);
	if (error)
		return error;
	*ret_unix_us = pg_get_time(result, 0, 0);
	return LU_OK;
}

enum lu_error tx_clock_read(struct pg *pg, int64_t deadline_ns, int64_t *ret_unix_us)
{
	PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
	enum lu_error error = pg_query(pg, &clock, NULL, deadline_ns, &result);
	if (error)
		return error;
	*ret_unix_us = pg_get_time(result, 0, 0);
	return LU_OK;
}

void tx_lock_timeout_send(struct pg *pg, struct arena *arena, int64_t ms)
{
	struct pg_params params;
	pg_params_init(&params, arena);
	pg_add_text(&params, arena_printf(arena, "%lldms", (long long)ms));
	pg_pipe_add(pg, &lock_timeout, &params);
}

enum lu_error tx_lock_timeout_take(struct pg *pg, int64_t deadline_ns)
{
	return take_and_forget(pg, deadline_ns);
}
