/* Pipelines: many statements, one round trip, one answer each.
 *
 * Happy path: pg_pipe_add puts statements (and, on first use, their Parse) into libpq's buffer; pg_pipe_send adds the
 * Sync and flushes, taking in answers meanwhile; pg_pipe_take hands them out in order; pg_pipe_end reads to the Sync
 * and leaves pipeline mode.
 * Failure modes: at the first error the rest is read up to the Sync at once, the Parses that did not run are forgotten,
 * and every further take repeats that error. Outside a transaction the commit happens at the Sync, so an error can
 * come behind the last answer: only pg_pipe_end's LU_OK means done.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "store/pg_internal.h"

/* Its place on the list, or the list's end. */
static size_t prepared_index(const struct pg *pg, const struct pg_prepared *wanted)
{
	size_t i = 0;
	while (i < pg->prepared_count &&
	       (pg->prepared[i].statement != wanted->statement || pg->prepared[i].one_row != wanted->one_row))
		i++;
	return i;
}

static void forget(struct pg *pg, const struct pg_prepared *prepared)
{
	size_t i = prepared_index(pg, prepared);
	if (i < pg->prepared_count)
		pg->prepared[i] = pg->prepared[--pg->prepared_count];
}

static void remember(struct pg *pg, const struct pg_prepared *prepared)
{
	if (pg->prepared_count == pg->prepared_room) {
		pg->prepared_room = pg->prepared_room ? 2 * pg->prepared_room : 64;
		pg->prepared = realloc(pg->prepared, pg->prepared_room * sizeof *pg->prepared);
		CHECK(pg->prepared);
	}
	pg->prepared[pg->prepared_count++] = *prepared;
}

/* The statement with $n for each unnest($n). */
static const char *sql_for_one_row(struct arena *arena, const char *sql)
{
	char *copy = arena_alloc(arena, strlen(sql) + 1), *end = copy;
	while (*sql) {
		if (strncmp(sql, "unnest($", 8)) {
			*end++ = *sql++;
			continue;
		}
		for (sql += 7; *sql != ')'; sql++)
			*end++ = *sql;
		sql++;
	}
	*end = '\0';
	return copy;
}

static void push_item(struct pg *pg, struct pg_pipe_item item)
{
	if (pg->item_count == pg->item_room) {
		pg->item_room = pg->item_room ? 2 * pg->item_room : 32;
		pg->items = realloc(pg->items, pg->item_room * sizeof *pg->items);
		CHECK(pg->items);
	}
	pg->items[pg->item_count++] = item;
}

/* Records the first failure, or goes back to it. A connection of no more use is closed. */
static enum lu_error fail_pipe(struct pg *pg)
{
	if (!pg->pipe_failed)
		pg->pipe_error = pg->error;
	pg->pipe_failed = true;
	if (pg->pipe_error.class == PG_CONNECTION)
		pg_close(pg);
	pg->error = pg->pipe_error;
	return pg_error_meaning(pg->error.class);
}

/* Opens a pipeline if none is open. False: it has failed. */
static bool open_pipe(struct pg *pg)
{
	if (pg->pipe_open)
		return !pg->pipe_failed;
	pg->pipe_open = true;
	pg->pipe_failed = false;
	pg->item_count = pg->item_taken = 0;
	memset(&pg->error, 0, sizeof pg->error);
	if (!pg->conn) {
		(void)pg_fail(pg, PG_CONNECTION, "", "the connection is closed");
		(void)fail_pipe(pg);
		return false;
	}
	/* Refused only when a result is left over, which would be a bug in here. */
	CHECK(PQenterPipelineMode(pg->conn));
	pg->piping = true;
	return true;
}

void pg_pipe_add(struct pg *pg, const struct pg_statement *statement, const struct pg_params *params)
{
	static const struct pg_params none;
	static const int binary[PG_PARAMS_MAX] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
	if (!params)
		params = &none;
	CHECK(!pg->synced);
	if (!open_pipe(pg))
		return;
	struct pg_prepared prepared = {statement, params->one_row};
	const char *name = statement->name;
	if (params->one_row)
		name = arena_printf(params->arena, "%s_one", name).data;
	bool prepares = prepared_index(pg, &prepared) == pg->prepared_count, sent = true;
	push_item(pg, (struct pg_pipe_item){prepared, prepares});
	if (prepares) {
		remember(pg, &prepared);
		const char *sql = params->one_row ? sql_for_one_row(params->arena, statement->sql) : statement->sql;
		sent = PQsendPrepare(pg->conn, name, sql, params->count, params->types);
	}
	sent = sent && PQsendQueryPrepared(pg->conn, name, params->count, params->values, params->lengths, binary, 1);
	if (!sent) {
		(void)pg_fail_result(pg, NULL);
		(void)fail_pipe(pg);
	}
}

enum lu_error pg_pipe_send(struct pg *pg, int64_t deadline_ns)
{
	CHECK(!pg->synced);
	if (!open_pipe(pg))
		return fail_pipe(pg);
	enum lu_error error = PQpipelineSync(pg->conn) ? LU_OK : pg_fail_result(pg, NULL);
	pg->synced = true;
	if (!error)
		error = pg_flush(pg, deadline_ns);
	return error ? fail_pipe(pg) : LU_OK;
}

/* The answer to one Parse or Execute, with the NULL behind it. With LU_OK the connection is in step, and *ret_result
 * NULL means that this statement failed (pipe_error says how) or was aborted by one before it. */
static enum lu_error one_answer(struct pg *pg, int64_t deadline_ns, PGresult **ret_result)
{
	PGresult *result, *end = NULL;
	enum lu_error error = pg_next_result(pg, deadline_ns, &result);
	if (error)
		return error;
	switch (result ? PQresultStatus(result) : PGRES_BAD_RESPONSE) {
	case PGRES_TUPLES_OK:
	case PGRES_COMMAND_OK:
	case PGRES_EMPTY_QUERY:
		break;
	case PGRES_FATAL_ERROR:
		if (!pg->pipe_failed) {
			(void)pg_fail_result(pg, result);
			pg->pipe_error = pg->error;
			pg->pipe_failed = true;
		}
		pg_clear(&result);
		break;
	case PGRES_PIPELINE_ABORTED:
		CHECK(pg->pipe_failed);
		pg_clear(&result);
		break;
	default:
		pg_clear(&result);
		return pg_fail(pg, PG_CONNECTION, "", "an answer that does not belong into a pipeline");
	}
	error = pg_next_result(pg, deadline_ns, &end);
	if (!error && end)
		error = pg_fail(pg, PG_CONNECTION, "", "two answers to one statement");
	pg_clear(&end);
	if (error)
		pg_clear(&result);
	else
		*ret_result = result;
	return error;
}

/* Takes the next item off the pipeline: its Parse's answer, then its own. */
static enum lu_error next_item(struct pg *pg, int64_t deadline_ns, PGresult **ret_result)
{
	struct pg_pipe_item item = pg->items[pg->item_taken];
	PGresult *result = NULL;
	enum lu_error error;
	if (item.prepares) {
		error = one_answer(pg, deadline_ns, &result);
		if (error)
			return error;
		if (!result)
			forget(pg, &item.prepared);
		pg_clear(&result);
	}
	error = one_answer(pg, deadline_ns, &result);
	if (error)
		return error;
	pg->item_taken++;
	*ret_result = result;
	return LU_OK;
}

/* Reads everything up to the Sync and leaves pipeline mode. LU_OK: in step again, whatever the statements did. */
static enum lu_error drain(struct pg *pg, int64_t deadline_ns)
{
	PGresult *result = NULL;
	enum lu_error error;
	while (pg->item_taken < pg->item_count) {
		error = next_item(pg, deadline_ns, &result);
		if (error)
			return error;
		pg_clear(&result);
	}
	bool synced = false;
	for (int silent = 0; !synced; silent = result ? 0 : silent + 1) {
		if (silent > 1)
			return pg_fail_result(pg, NULL);
		error = pg_next_result(pg, deadline_ns, &result);
		if (error)
			return error;
		if (!result)
			continue;
		synced = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
		if (!synced && !pg->pipe_failed) {
			/* Behind the last answer: the commit at the Sync failed. */
			(void)pg_fail_result(pg, result);
			pg->pipe_error = pg->error;
			pg->pipe_failed = true;
		}
		PQclear(result);
	}
	if (!PQexitPipelineMode(pg->conn))
		return pg_fail_result(pg, NULL);
	pg->piping = pg->synced = false;
	return LU_OK;
}

/* Leaves pipeline mode, whatever its state; the connection is usable or closed. */
static enum lu_error finish(struct pg *pg, int64_t deadline_ns)
{
	enum lu_error error = LU_OK;
	if (pg->piping && !pg->synced)
		error = pg_pipe_send(pg, deadline_ns);
	if (!error && pg->piping)
		error = drain(pg, deadline_ns);
	if (error || pg->pipe_failed) {
		(void)fail_pipe(pg);
		if (pg->piping)
			pg_close(pg); /* out of step */
		pg->error = pg->pipe_error;
		return pg_error_meaning(pg->error.class);
	}
	return LU_OK;
}

enum lu_error pg_pipe_take(struct pg *pg, int64_t deadline_ns, PGresult **ret_result)
{
	CHECK(pg->pipe_open);
	if (pg->pipe_failed)
		return finish(pg, deadline_ns);
	CHECK(pg->synced && pg->item_taken < pg->item_count);
	PGresult *result = NULL;
	enum lu_error error = next_item(pg, deadline_ns, &result);
	if (error)
		return fail_pipe(pg);
	if (!result)
		return finish(pg, deadline_ns);
	*ret_result = result;
	return LU_OK;
}

enum lu_error pg_pipe_end(struct pg *pg, int64_t deadline_ns)
{
	if (!pg->pipe_open)
		return LU_OK;
	enum lu_error error = finish(pg, deadline_ns);
	pg->pipe_open = pg->pipe_failed = false;
	return error;
}

enum lu_error pg_query(struct pg *pg, const struct pg_statement *statement, const struct pg_params *params,
                       int64_t deadline_ns, PGresult **ret_result)
{
	PGresult *result = NULL;
	CHECK(!pg->pipe_open);
	pg_pipe_add(pg, statement, params);
	enum lu_error error = pg_pipe_send(pg, deadline_ns);
	if (!error)
		error = pg_pipe_take(pg, deadline_ns, &result);
	enum lu_error end = pg_pipe_end(pg, deadline_ns);
	if (!error)
		error = end;
	if (error) {
		pg_clear(&result);
		return error;
	}
	*ret_result = result;
	return LU_OK;
}
