/* An import's one transaction (import_apply.h).
 *
 * Happy path, one statement each (of the rows: import_stock.c, of the key: import_key.c): BEGIN and the epoch's lock ·
 * lock the SKUs named, by id · figures before and after each row · those that fail · new SKUs by code · changed SKUs ·
 * ledger · titles · the key's row · the cells to intend · COMMIT · publish.
 * Failure modes: a failing row refuses the file, or, with --partial, itself and the rows of its SKU behind it (they
 * rest on it); the epoch is open and must not be, or Redis fails: ROLLBACK, close it, run again; a deadlock, a key or a
 * SKU that somebody else inserted: run again; a lock not had in IMPORT_LOCK_MS: ROLLBACK, say whose it is, wait holding
 * nothing, run again; the connection lost: the caller's business.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/text.h"
#include "cmd/import_internal.h"
#include "cmd/import_wait.h"
#include "inventory/coherence.h"
#include "inventory/epoch.h"
#include "store/tx.h"

#define ATTEMPTS_MAX 8

/* What becomes of an attempt. */
enum next { NEXT_DONE, NEXT_AGAIN, NEXT_WAIT, NEXT_CLOSE_EPOCH, NEXT_FAIL };

enum lu_error import_fail(struct import *in, enum lu_error error)
{
	const struct pg_error *why = pg_error(in->pg);
	snprintf(in->report->why, sizeof in->report->why, "%s%s%s", why->message, *why->sqlstate ? ", SQLSTATE " : "",
	         why->sqlstate);
	return error;
}

/* --- the cache ---------------------------------------------------------------------------------------------------- */

static enum lu_error close_epoch(struct import *in)
{
	enum lu_error error = epoch_close_by_hand(in->pg, in->options->deadline_ns);
	in->closed = true;
	return error ? import_fail(in, error) : LU_OK;
}

static int64_t redis_deadline(const struct import *in)
{
	return deadline_in_ms(in->options->config->redis_timeout_ms);
}

/* --- the steps ---------------------------------------------------------------------------------------------------- */

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
	int64_t touched = 0;
	enum lu_error error = import_lock(in, &touched);
	if (error)
		return error;
	in->use_redis = touched > 0 && epoch->state == EPOCH_OPEN;
	if (touched > 0 && (epoch->state == EPOCH_CLOSING ||
	                    (epoch->state == EPOCH_OPEN && (!in->options->redis || touched > IMPORT_OPEN_MAX))))
		*ret_next = NEXT_CLOSE_EPOCH;
	return LU_OK;
}

/* The last steps before COMMIT: the key, and in Redis the markers. */
static enum lu_error promise(struct import *in, struct coherence *coherence, enum next *ret_next)
{
	int64_t at_us = 0;
	enum lu_error error = import_sum_units(in, &at_us);
	if (!error)
		error = import_write_key(in, at_us);
	if (error || !in->use_redis)
		return error;
	error = import_collect_cells(in);
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
		(void)import_fail(in, error);
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
		error = import_compute(in);
	if (!error && *ret_next == NEXT_DONE)
		error = import_refuse(in);
	bool refused = !error && in->report->refused && !in->options->partial;
	if (error || refused || *ret_next != NEXT_DONE)
		return error;
	error = import_write_rows(in);
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
		(void)import_fail(in, error);
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
	enum lu_error error = import_principal(pg, arena, options->deadline_ns, &in.principal_id);
	if (error)
		return import_fail(&in, error);
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
