/* Webhooks in the database (webhook.h).
 *
 * Happy path: one statement each. Failure modes: as in pg.h. Who is out of stock when a webhook is made is noted with it,
 * in the same statement, so that the first to come back is told of as back.
 */
#include "store/webhook.h"

#include <stdlib.h>

#include "store/advisory.h"
#include "store/feed_internal.h"

#define BLOCK_OF(id) id " / 256" /* rows of webhook_out hold the ids of one block */

/* --- subscriptions ------------------------------------------------------------------------------------------------- */

/* Nobody else knows the secret: who finds it there has made it, by a run whose answer was lost. A statement of its own,
 * for the INSERT's snapshot is older than a first run that it had to wait for. */
static enum lu_error was_made(struct pg *pg, struct arena *arena, const struct webhook *w, int64_t deadline_ns,
                              bool *ret_made)
{
	static const struct pg_statement statement = {"webhook_was_made",
	                                              "SELECT EXISTS (SELECT FROM webhook WHERE id = $1 AND secret = $2)"};
	struct pg_params p;
	PGresult *r;
	pg_params_init(&p, arena);
	pg_add_uuid(&p, &w->id);
	pg_add_text(&p, w->secret);
	enum lu_error error = pg_query(pg, &statement, &p, deadline_ns, &r);
	if (error)
		return error;
	*ret_made = pg_get_bool(r, 0, 0);
	PQclear(r);
	return LU_OK;
}

enum lu_error webhook_insert(struct pg *pg, struct arena *arena, const struct webhook *w, int64_t deadline_ns,
                             bool *ret_made)
{
	static const struct pg_statement statement = {
		"webhook_insert",
		"WITH w AS (INSERT INTO webhook (id, url, events, skus, secret, identity, xid, sku_id, version) SELECT $1, $2,"
		" $3::smallint, CASE WHEN cardinality($4) > 0 THEN $4 END, $5, f.identity, f.horizon, 0, 0 FROM " FEED_STATE
		" WHERE (SELECT count(*) FROM webhook) < $6 ON CONFLICT (id) DO NOTHING RETURNING id),"
		" o AS (INSERT INTO webhook_out (webhook_id, block, sku_ids) SELECT $1, " BLOCK_OF("s.id") ", array_agg(s.id)"
		" FROM sku s WHERE s.tracked AND s.on_hand - s.reserved - s.safety_stock <= 0 AND $3 > 1"
		" AND (cardinality($4) = 0 OR s.code = ANY ($4)) AND EXISTS (SELECT FROM w) GROUP BY 2)"
		" SELECT count(*) FROM w",
	};
	static const struct text none;
	struct pg_params p;
	PGresult *r;
	pg_params_init(&p, arena);
	pg_add_uuid(&p, &w->id);
	pg_add_text(&p, w->url);
	pg_add_int8(&p, w->events);
	pg_add_texts(&p, w->skus ? w->skus : &none, sizeof none, w->sku_count);
	pg_add_text(&p, w->secret);
	pg_add_int8(&p, WEBHOOKS_MAX);
	enum lu_error error = pg_query(pg, &statement, &p, deadline_ns, &r);
	if (error)
		return error;
	*ret_made = pg_get_int(r, 0, 0) == 1;
	PQclear(r);
	return *ret_made ? LU_OK : was_made(pg, arena, w, deadline_ns, ret_made);
}

static struct webhook webhook_get(const PGresult *r, int i, struct arena *arena)
{
	struct webhook w = {
		.id = pg_get_uuid(r, i, 0),
		.url = pg_get_text(r, i, 1, arena),
		.events = (unsigned)pg_get_int(r, i, 2),
		.secret = pg_get_text(r, i, 4, arena),
		.old_secret = pg_get_text(r, i, 5, arena),
		.position = {pg_get_int(r, i, 6), pg_get_int(r, i, 7), pg_get_int(r, i, 8), pg_get_int(r, i, 9)},
		.created_us = pg_get_time(r, i, 10),
		.delivered_us = pg_get_time(r, i, 11),
		.failing_since_us = pg_get_time(r, i, 12),
		.next_attempt_us = pg_get_time(r, i, 13),
		.failing_ms = pg_get_int(r, i, 14),
		.next_in_ms = pg_get_int(r, i, 15),
		.attempts = pg_get_int(r, i, 16),
		.disabled = pg_get_text(r, i, 17, arena),
		.last_error = pg_get_text(r, i, 18, arena),
	};
	if (!PQgetisnull(r, i, 3))
		w.sku_count = pg_get_texts(r, i, 3, arena, &w.skus);
	return w;
}

enum lu_error webhook_list(struct pg *pg, struct arena *arena, const struct uuid *only, int64_t deadline_ns,
                           struct webhook **ret_webhooks, size_t *ret_count)
{
	static const struct pg_statement statement = {
		"webhook_list",
		"SELECT w.id, w.url, w.events, w.skus, w.secret,"
		" CASE WHEN w.old_secret_until > clock_timestamp() THEN w.old_secret END, w.identity, w.xid, w.sku_id, w.version,"
		" w.created_at, w.delivered_at, w.failing_since, w.next_attempt_at,"
		" coalesce((extract(epoch FROM clock_timestamp() - w.failing_since) * 1000)::int8, 0),"
		" coalesce((extract(epoch FROM w.next_attempt_at - clock_timestamp()) * 1000)::int8, 0),"
		" w.attempts, w.disabled, w.last_error FROM webhook w WHERE $1::uuid IS NULL OR w.id = $1"
		" ORDER BY w.created_at, w.id",
	};
	static const struct uuid nil;
	struct pg_params p;
	PGresult *r;
	pg_params_init(&p, arena);
	pg_add_uuid(&p, only ? only : &nil);
	enum lu_error error = pg_query(pg, &statement, &p, deadline_ns, &r);
	if (error)
		return error;
	*ret_count = (size_t)PQntuples(r);
	*ret_webhooks = ARENA_ARRAY(arena, *ret_count, struct webhook);
	for (int i = 0; i < (int)*ret_count; i++)
		(*ret_webhooks)[i] = webhook_get(r, i, arena);
	PQclear(r);
	return LU_OK;
}

/* A statement that concerns one webhook: was there one? */
static enum lu_error change(struct pg *pg, const struct pg_statement *statement, struct pg_params *p,
                            int64_t deadline_ns, bool *ret_found)
{
	PGresult *r;
	enum lu_error error = pg_query(pg, statement, p, deadline_ns, &r);
	if (error)
		return error;
	*ret_found = strtol(PQcmdTuples(r), NULL, 10) == 1;
	PQclear(r);
	return LU_OK;
}

enum lu_error webhook_delete(struct pg *pg, const struct uuid *id, int64_t deadline_ns, bool *ret_found)
{
	static const struct pg_statement statement = {"webhook_delete", "DELETE FROM webhook WHERE id = $1"};
	struct arena arena;
	struct pg_params p;
	arena_init(&arena, 0);
	pg_params_init(&p, &arena);
	pg_add_uuid(&p, id);
	enum lu_error error = change(pg, &statement, &p, deadline_ns, ret_found);
	arena_done(&arena);
	return error;
}

enum lu_error webhook_rotate(struct pg *pg, const struct uuid *id, struct text secret, int64_t grace_s,
                             int64_t deadline_ns, bool *ret_found)
{
	static const struct pg_statement statement = {
		"webhook_rotate",
		/* Once more with the same secret, it changes nothing: the one before stays the old one. */
		"UPDATE webhook SET old_secret = CASE WHEN secret = $2 THEN old_secret ELSE secret END,"
		" old_secret_until = CASE WHEN secret = $2 THEN old_secret_until"
		" ELSE clock_timestamp() + $3 * interval '1 second' END, secret = $2 WHERE id = $1"
		" AND old_secret IS DISTINCT FROM $2",
	};
	struct arena arena;
	struct pg_params p;
	arena_init(&arena, 0);
	pg_params_init(&p, &arena);
	pg_add_uuid(&p, id);
	pg_add_text(&p, secret);
	pg_add_int8(&p, grace_s);
	enum lu_error error = change(pg, &statement, &p, deadline_ns, ret_found);
	arena_done(&arena);
	return error;
}

enum lu_error webhook_enable(struct pg *pg, const struct uuid *id, int64_t deadline_ns, bool *ret_found)
{
	static const struct pg_statement statement = {
		"webhook_enable",
		"UPDATE webhook SET disabled = NULL, failing_since = NULL, attempts = 0, next_attempt_at = NULL WHERE id = $1",
	};
	struct arena arena;
	struct pg_params p;
	arena_init(&arena, 0);
	pg_params_init(&p, &arena);
	pg_add_uuid(&p, id);
	enum lu_error error = change(pg, &statement, &p, deadline_ns, ret_found);
	arena_done(&arena);
	return error;
}

enum lu_error webhook_failures(struct pg *pg, struct arena *arena, const struct uuid *id, int64_t after, size_t limit,
                               int64_t deadline_ns, struct webhook_failure **ret_failures, size_t *ret_count)
{
	static const struct pg_statement statement = {
		"webhook_failures",
		"SELECT f.id, f.at, f.attempts, f.message, f.body, f.error FROM webhook_failure f WHERE f.webhook_id = $1"
		" AND f.id > $2 ORDER BY f.webhook_id, f.id LIMIT $3",
	};
	struct pg_params p;
	PGresult *r;
	pg_params_init(&p, arena);
	pg_add_uuid(&p, id);
	pg_add_int8(&p, after);
	pg_add_int8(&p, (int64_t)limit);
	enum lu_error error = pg_query(pg, &statement, &p, deadline_ns, &r);
	if (error)
		return error;
	*ret_count = (size_t)PQntuples(r);
	*ret_failures = ARENA_ARRAY(arena, *ret_count, struct webhook_failure);
	for (int i = 0; i < (int)*ret_count; i++)
		(*ret_failures)[i] = (struct webhook_failure){
			.id = pg_get_int(r, i, 0),
			.at_us = pg_get_time(r, i, 1),
			.attempts = pg_get_int(r, i, 2),
			.message = pg_get_text(r, i, 3, arena),
			.body = pg_get_text(r, i, 4, arena),
			.error = pg_get_text(r, i, 5, arena),
		};
	PQclear(r);
	return LU_OK;
}

/* --- the leader's -------------------------------------------------------------------------------------------------- */

enum lu_error webhook_lead(struct pg *pg, int64_t deadline_ns, bool *ret_leads)
{
	static const struct pg_statement statement = {"webhook_lead",
	                                              "SELECT pg_try_advisory_lock(" ADVISORY(ADVISORY_LEAD) ")"};
	PGresult *r;
	enum lu_error error = pg_query(pg, &statement, NULL, deadline_ns, &r);
	if (error)
		return error;
	*ret_leads = pg_get_bool(r, 0, 0);
	PQclear(r);
	return LU_OK;
}

enum lu_error webhook_outs(struct pg *pg, struct arena *arena, const struct uuid *id, const int64_t *sku_ids,
                           size_t count, int64_t deadline_ns, bool **ret_outs)
{
	static const struct pg_statement statement = {
		"webhook_outs",
		"SELECT EXISTS (SELECT FROM webhook_out o WHERE o.webhook_id = $1 AND o.block = " BLOCK_OF("k.id")
		" AND k.id = ANY (o.sku_ids))"
		" FROM unnest($2) WITH ORDINALITY AS k(id, n) ORDER BY k.n",
	};
	struct pg_params p;
	PGresult *r;
	pg_params_init(&p, arena);
	pg_add_uuid(&p, id);
	pg_add_int8s(&p, sku_ids, sizeof *sku_ids, count);
	enum lu_error error = pg_query(pg, &statement, &p, deadline_ns, &r);
	if (error)
		return error;
	*ret_outs = ARENA_ARRAY(arena, count, bool);
	for (int i = 0; i < (int)count && i < PQntuples(r); i++)
		(*ret_outs)[i] = pg_get_bool(r, i, 0);
	PQclear(r);
	return LU_OK;
}

enum lu_error webhook_advance(struct pg *pg, struct arena *arena, const struct uuid *id,
                              const struct webhook_progress *progress, int64_t deadline_ns)
{
	static const struct pg_statement statement = {
		"webhook_advance",
		"WITH w AS (UPDATE webhook SET identity = $6, xid = $7::text::xid8, sku_id = $8, version = $9,"
		" delivered_at = CASE WHEN $12 THEN clock_timestamp() ELSE delivered_at END,"
		" failing_since = CASE WHEN $12 THEN NULL ELSE failing_since END,"
		" last_error = CASE WHEN $12 THEN NULL ELSE last_error END, attempts = 0, next_attempt_at = NULL"
		" WHERE id = $1 AND identity = $2 AND xid = $3::text::xid8 AND sku_id = $4 AND version = $5 RETURNING id),"
		" told AS (SELECT " BLOCK_OF("k.id") " AS block, array_agg(k.id) FILTER (WHERE k.is_out) AS outs,"
		" array_agg(k.id) AS all_ids FROM (SELECT unnest($10), true UNION ALL SELECT unnest($11), false) k(id, is_out)"
		" GROUP BY 1),"
		" known AS (UPDATE webhook_out o SET sku_ids = ARRAY(SELECT unnest(o.sku_ids) EXCEPT SELECT unnest(t.all_ids)"
		" UNION ALL SELECT unnest(t.outs)) FROM told t, w WHERE o.webhook_id = w.id AND o.block = t.block"
		" RETURNING o.block)"
		" INSERT INTO webhook_out (webhook_id, block, sku_ids) SELECT w.id, t.block, t.outs FROM w, told t"
		" WHERE t.outs IS NOT NULL AND NOT EXISTS (SELECT FROM known k WHERE k.block = t.block)",
	};
	static const int64_t none;
	struct pg_params p;
	PGresult *r;
	pg_params_init(&p, arena);
	pg_add_uuid(&p, id);
	for (const struct feed_position *at = &progress->from;; at = &progress->to) {
		pg_add_int8(&p, at->identity);
		pg_add_int8(&p, at->xid);
		pg_add_int8(&p, at->sku_id);
		pg_add_int8(&p, at->version);
		if (at == &progress->to)
			break;
	}
	pg_add_int8s(&p, progress->out_count ? progress->outs : &none, sizeof none, progress->out_count);
	pg_add_int8s(&p, progress->back_count ? progress->backs : &none, sizeof none, progress->back_count);
	pg_add_bool(&p, progress->delivered);
	enum lu_error error = pg_query(pg, &statement, &p, deadline_ns, &r);
	if (!error)
		PQclear(r);
	return error;
}

enum lu_error webhook_delay(struct pg *pg, const struct uuid *id, int64_t attempts, struct text error_text,
                            int64_t next_in_ms, int64_t deadline_ns)
{
	static const struct pg_statement statement = {
		"webhook_delay",
		"UPDATE webhook SET attempts = $2::integer, last_error = $3, failing_since = coalesce(failing_since,"
		" clock_timestamp()), next_attempt_at = clock_timestamp() + $4 * interval '1 millisecond' WHERE id = $1",
	};
	struct arena arena;
	struct pg_params p;
	bool found;
	arena_init(&arena, 0);
	pg_params_init(&p, &arena);
	pg_add_uuid(&p, id);
	pg_add_int8(&p, attempts);
	pg_add_text(&p, error_text);
	pg_add_int8(&p, next_in_ms);
	enum lu_error error = change(pg, &statement, &p, deadline_ns, &found);
	arena_done(&arena);
	return error;
}

enum lu_error webhook_disable(struct pg *pg, const struct uuid *id, struct text why, int64_t deadline_ns)
{
	static const struct pg_statement statement = {
		"webhook_disable",
		"UPDATE webhook SET disabled = $2, next_attempt_at = NULL WHERE id = $1",
	};
	struct arena arena;
	struct pg_params p;
	bool found;
	arena_init(&arena, 0);
	pg_params_init(&p, &arena);
	pg_add_uuid(&p, id);
	pg_add_text(&p, why);
	enum lu_error error = change(pg, &statement, &p, deadline_ns, &found);
	arena_done(&arena);
	return error;
}

enum lu_error webhook_bury(struct pg *pg, struct arena *arena, const struct uuid *id,
                           const struct webhook_failure *failure, int64_t deadline_ns)
{
	static const struct pg_statement statement = {
		"webhook_bury",
		"WITH f AS (INSERT INTO webhook_failure (webhook_id, message, body, attempts, error)"
		" SELECT w.id, $2, $3, $4::integer, $5 FROM webhook w WHERE w.id = $1 RETURNING id)"
		" DELETE FROM webhook_failure o WHERE o.webhook_id = $1 AND o.id <= (SELECT k.id FROM webhook_failure k"
		" WHERE k.webhook_id = $1 ORDER BY k.webhook_id DESC, k.id DESC OFFSET $6 LIMIT 1) AND EXISTS (SELECT FROM f)",
	};
	struct pg_params p;
	PGresult *r;
	pg_params_init(&p, arena);
	pg_add_uuid(&p, id);
	pg_add_text(&p, failure->message);
	pg_add_text(&p, failure->body);
	pg_add_int8(&p, failure->attempts);
	pg_add_text(&p, failure->error);
	pg_add_int8(&p, WEBHOOK_FAILURES_KEPT - 1); /* the new one is not in the statement's snapshot */
	enum lu_error error = pg_query(pg, &statement, &p, deadline_ns, &r);
	if (!error)
		PQclear(r);
	return error;
}
