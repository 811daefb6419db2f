/* A namespace in a Redis: what that Redis is, its guard, the probe before it is opened, and its end (cell.h).
 *
 * Happy path: identity → guard → probe, and, when it is another's turn, unlink: guard first, then cells by SCAN.
 * Failure modes: an INFO without an identity, a Redis that answers and does not do (out of memory, an ACL), one that is
 * slow: LU_CACHE_UNAVAILABLE, or LU_DEADLINE_EXCEEDED between two steps of an unlink, which may be called again.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/text.h"
#include "cache/cell.h"

#define SCAN_KEYS "1000" /* looked at per step of an unlink */
#define SCAN_STEP_MS 1000

static struct text reply_text(const redisReply *reply)
{
	if (!reply || (reply->type != REDIS_REPLY_STRING && reply->type != REDIS_REPLY_STATUS))
		return (struct text){"", 0};
	return (struct text){reply->str, (size_t)reply->len};
}

enum lu_error cell_redis_identity(struct redis *redis, int64_t deadline_ns, char out[160])
{
	__attribute__((cleanup(redis_reply_done))) redisReply *server = NULL, *replication = NULL;
	/* Two calls, as every Redis understands them; once per opening. */
	enum lu_error error = redis_call(redis, 2, (struct text[]){TEXT("INFO"), TEXT("server")}, deadline_ns, &server);
	if (!error)
		error = redis_call(redis, 2, (struct text[]){TEXT("INFO"), TEXT("replication")}, deadline_ns, &replication);
	if (error)
		return error;
	struct text run_id = redis_info_value(reply_text(server), "run_id");
	struct text role = redis_info_value(reply_text(replication), "role");
	struct text replid = redis_info_value(reply_text(replication), "master_replid");
	/* guard.lua cuts the guard at these places. */
	if (run_id.size != 40 || replid.size != 40 || role.size == 0 || role.size > 16)
		return LU_CACHE_UNAVAILABLE;
	snprintf(out, 160, "%.*s %.*s %.*s", (int)run_id.size, run_id.data, (int)role.size, role.data, (int)replid.size,
	         replid.data);
	return LU_OK;
}

enum lu_error cell_guard_set(struct redis *redis, struct text namespace, const char *identity, int64_t deadline_ns)
{
	struct arena arena;
	arena_init(&arena, 512);
	__attribute__((cleanup(redis_reply_done))) redisReply *reply = NULL;
	const struct text argv[] = {TEXT("SET"), cell_guard_key(&arena, namespace), text_of(identity)};
	enum lu_error error = redis_call(redis, 3, argv, deadline_ns, &reply);
	arena_done(&arena);
	return error;
}

/* One step of the probe: the cell must read `expected`; size 0: is absent. */
static bool probe_look(struct redis *redis, struct arena *arena, struct text namespace, struct text sku,
                       int64_t deadline_ns, struct text expected)
{
	struct cell *cell;
	return cell_look(redis, arena, namespace, &sku, 1, deadline_ns, &cell) == CELL_OK &&
	       text_equal(cell->state == CELL_ABSENT ? TEXT("") : cell->raw, expected);
}

/* The same of a script: the call must be answered, and its only number, or only cell, must be `expected`. */
static bool probe_step(struct redis *redis, struct cell_call call, int64_t deadline_ns, struct text expected)
{
	__attribute__((cleanup(redis_reply_done))) redisReply *reply = NULL;
	if (cell_run(redis, call, 1, deadline_ns, &reply) != CELL_OK)
		return false;
	const redisReply *answer = reply->type == REDIS_REPLY_ARRAY ? reply->element[0] : reply;
	char number[24];
	struct text seen = reply_text(answer);
	if (answer->type == REDIS_REPLY_INTEGER)
		seen = (struct text){number, (size_t)snprintf(number, sizeof number, "%lld", answer->integer)};
	return text_equal(seen, expected);
}

enum lu_error cell_probe(struct redis *redis, struct text namespace, int64_t deadline_ns)
{
	struct arena a;
	arena_init(&a, 4096);
	/* No SKU begins with a control character, and no two probes share a key. */
	char token[TOKEN_BYTES + 1];
	token_new(token);
	struct text sku = arena_printf(&a, "\1%s", token), ns = namespace, mark = text_of(token);
	struct figures old = {.version = 1, .on_hand = 1, .tracked = true}, now = {.version = 2, .tracked = true};
	struct text nothing = TEXT(""), ticket = cell_ticket(&a, token);
	struct text filled = cell_value(&a, &old, sku), published = cell_value(&a, &now, sku);
	const int64_t px_ms = CELL_TICKET_MS, next = 3;
	struct text one = TEXT("1");

	bool ok = probe_look(redis, &a, ns, sku, deadline_ns, nothing) &&
	          probe_step(redis, cell_cas(&a, ns, &sku, &nothing, &ticket, &px_ms, 1), deadline_ns, one) &&
	          probe_step(redis, cell_cas(&a, ns, &sku, &ticket, &filled, &px_ms, 1), deadline_ns, one) &&
	          probe_look(redis, &a, ns, sku, deadline_ns, filled) &&
	          probe_step(redis, cell_intend(&a, ns, mark, &sku, &now.version, 1), deadline_ns, one) &&
	          probe_step(redis, cell_publish(&a, ns, mark, &sku, &now, px_ms, 1), deadline_ns, one) &&
	          probe_look(redis, &a, ns, sku, deadline_ns, published) &&
	          probe_step(redis, cell_invalidate(&a, ns, &sku, &next, 1), deadline_ns, one) &&
	          probe_look(redis, &a, ns, sku, deadline_ns, nothing);
	arena_done(&a);
	return ok ? LU_OK : LU_CACHE_UNAVAILABLE;
}

/* <namespace>:* with what MATCH would take for a pattern escaped. */
static struct text cells_pattern(struct arena *arena, struct text namespace)
{
	char *bytes = arena_alloc(arena, 2 * namespace.size + 2), *at = bytes;
	for (size_t i = 0; i < namespace.size; i++) {
		if (memchr("*?[]\\^", namespace.data[i], 6))
			*at++ = '\\';
		*at++ = namespace.data[i];
	}
	*at++ = ':';
	*at++ = '*';
	return (struct text){bytes, (size_t)(at - bytes)};
}

static int64_t step_deadline(int64_t deadline_ns)
{
	int64_t step_ns = deadline_in_ms(SCAN_STEP_MS);
	return step_ns < deadline_ns ? step_ns : deadline_ns;
}

static enum lu_error keys_unlink(struct redis *redis, struct arena *arena, const redisReply *keys, int64_t deadline_ns)
{
	if (keys->elements == 0)
		return LU_OK;
	__attribute__((cleanup(redis_reply_done))) redisReply *reply = NULL;
	struct text *argv = ARENA_ARRAY(arena, keys->elements + 1, struct text);
	argv[0] = TEXT("UNLINK");
	for (size_t i = 0; i < keys->elements; i++)
		argv[i + 1] = reply_text(keys->element[i]);
	return redis_call(redis, (int)keys->elements + 1, argv, step_deadline(deadline_ns), &reply);
}

/* One SCAN and its UNLINK. `cursor` moves if both are done; it is "0" again at the end of the keyspace. */
static enum lu_error scan_step(struct redis *redis, struct arena *arena, struct text pattern,
                               char cursor[CELL_CURSOR_BYTES], int64_t deadline_ns)
{
	__attribute__((cleanup(redis_reply_done))) redisReply *reply = NULL;
	const struct text argv[] = {TEXT("SCAN"), text_of(cursor), TEXT("MATCH"), pattern, TEXT("COUNT"), TEXT(SCAN_KEYS)};
	enum lu_error error = redis_call(redis, 6, argv, step_deadline(deadline_ns), &reply);
	if (error)
		return error;
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || reply->element[0]->type != REDIS_REPLY_STRING ||
	    reply->element[0]->len >= CELL_CURSOR_BYTES || reply->element[1]->type != REDIS_REPLY_ARRAY)
		return LU_CACHE_UNAVAILABLE;
	error = keys_unlink(redis, arena, reply->element[1], deadline_ns);
	if (!error)
		strcpy(cursor, reply->element[0]->str);
	return error;
}

enum lu_error cell_namespace_unlink(struct redis *redis, struct text namespace, char cursor[CELL_CURSOR_BYTES],
                                    int64_t deadline_ns)
{
	struct arena arena;
	arena_init(&arena, 64 * 1024);
	__attribute__((cleanup(redis_reply_done))) redisReply *reply = NULL;
	/* The guard first: from here on every script is FENCED, so nothing is written behind the scan. */
	const struct text argv[] = {TEXT("UNLINK"), cell_guard_key(&arena, namespace)};
	enum lu_error error = redis_call(redis, 2, argv, step_deadline(deadline_ns), &reply);
	if (!*cursor)
		strcpy(cursor, "0");
	while (!error) {
		arena_reset(&arena);
		if (clock_boottime_ns() >= deadline_ns)
			error = LU_DEADLINE_EXCEEDED;
		else
			error = scan_step(redis, &arena, cells_pattern(&arena, namespace), cursor, deadline_ns);
		if (!error && strcmp(cursor, "0") == 0)
			break;
	}
	if (!error)
		*cursor = '\0';
	arena_done(&arena);
	return error;
}
