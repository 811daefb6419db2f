/* Cells and script calls: bytes out, bytes in.
 *
 * Happy path: cell_read() & co. build a call in the arena, a client sends it, cell_reply_kind() judges the answer,
 * cell_decode() reads each cell. Numbers are made into decimal strings here and nowhere in Lua.
 * Failure modes: FENCED and failures are kinds of reply. Bytes that are not exactly what cell_value(), cell_ticket()
 * or intend.lua write are CELL_FOREIGN; a decoded V encodes to the same bytes again.
 *
 * Counters: cell_run() counts; who sends a call himself counts himself.
 */
#include "cache/cell.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/metrics.h"
#include "base/text.h"
#include "cache/script.h"
#include "cache/wire.h"

#define NUMBER_BYTES 20  /* of an int64, sign included */
#define COUNT_DIGITS 16  /* of LU_COUNT_MAX */
#define SCAN_KEYS "1000" /* looked at per step of an unlink */
#define SCAN_STEP_MS 1000

/* --- cells ------------------------------------------------------------------------------------------------------ */

static char *put_bytes(char *at, const void *bytes, size_t size)
{
	if (size > 0) /* memcpy wants a pointer even for nothing */
		memcpy(at, bytes, size);
	return at + size;
}

static char *put_number(char *at, int64_t value)
{
	char digits[NUMBER_BYTES];
	size_t count = 0;
	CHECK(value >= 0);
	do
		digits[count++] = (char)('0' + value % 10);
	while ((value /= 10) > 0);
	while (count > 0)
		*at++ = digits[--count];
	return at;
}

static struct text number_text(struct arena *arena, int64_t value)
{
	char *bytes = arena_alloc(arena, NUMBER_BYTES);
	return (struct text){bytes, (size_t)(put_number(bytes, value) - bytes)};
}

struct text cell_value(struct arena *arena, const struct figures *figures, struct text sku)
{
	const int64_t numbers[] = {figures->version, figures->on_hand, figures->reserved, figures->safety_stock};
	char *bytes = arena_alloc(arena, 2 + 4 * (NUMBER_BYTES + 1) + 2 + sku.size), *at = bytes;
	at = put_bytes(at, "V|", 2);
	for (size_t i = 0; i < 4; i++) {
		CHECK(numbers[i] <= LU_COUNT_MAX);
		at = put_number(at, numbers[i]);
		*at++ = '|';
	}
	at = put_bytes(at, figures->tracked ? "1|" : "0|", 2);
	at = put_bytes(at, sku.data, sku.size);
	return (struct text){bytes, (size_t)(at - bytes)};
}

static bool is_token_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

struct text cell_ticket(struct arena *arena, const char *ticket)
{
	size_t size = strlen(ticket);
	char *bytes = arena_alloc(arena, size + 2);
	put_bytes(put_bytes(bytes, "F|", 2), ticket, size);
	return (struct text){bytes, size + 2};
}

/* What is left of a cell while it is read. */
struct cursor {
	const char *at, *end;
};

static bool take(struct cursor *cursor, char c)
{
	if (cursor->at == cursor->end || *cursor->at != c)
		return false;
	cursor->at++;
	return true;
}

/* A count as put_number() writes it: no sign, no leading zero, at most LU_COUNT_MAX. */
static bool take_count(struct cursor *cursor, int64_t *ret_value)
{
	const char *from = cursor->at;
	int64_t value = 0;
	while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9') {
		if (cursor->at - from == COUNT_DIGITS)
			return false;
		value = value * 10 + (*cursor->at++ - '0');
	}
	*ret_value = value;
	return cursor->at > from && value <= LU_COUNT_MAX && (*from != '0' || cursor->at == from + 1);
}

static bool take_token(struct cursor *cursor, struct text *ret_token)
{
	const char *from = cursor->at;
	while (cursor->at < cursor->end && is_token_char(*cursor->at))
		cursor->at++;
	*ret_token = (struct text){from, (size_t)(cursor->at - from)};
	return cursor->at > from;
}

static bool take_figures(struct cursor *cursor, struct figures *ret_figures)
{
	if (!take_count(cursor, &ret_figures->version) || !take(cursor, '|') ||
	    !take_count(cursor, &ret_figures->on_hand) || !take(cursor, '|') ||
	    !take_count(cursor, &ret_figures->reserved) || !take(cursor, '|') ||
	    !take_count(cursor, &ret_figures->safety_stock) || !take(cursor, '|'))
		return false;
	ret_figures->tracked = take(cursor, '1');
	return (ret_figures->tracked || take(cursor, '0')) && take(cursor, '|');
}

struct cell cell_decode(struct text raw, bool present, struct text sku)
{
	struct cell cell = {.state = CELL_ABSENT};
	if (!present)
		return cell;
	cell.state = CELL_FOREIGN;
	cell.raw = raw;
	if (raw.size < 2 || raw.data[1] != '|')
		return cell;
	struct cursor cursor = {raw.data + 2, raw.data + raw.size};
	struct figures figures;
	struct text token;
	int64_t version;
	switch (raw.data[0]) {
	case 'V':
		if (take_figures(&cursor, &figures) &&
		    text_equal((struct text){cursor.at, (size_t)(cursor.end - cursor.at)}, sku)) {
			cell.state = CELL_VALUE;
			cell.figures = figures;
		}
		break;
	case 'F':
		if (take_token(&cursor, &token) && cursor.at == cursor.end) {
			cell.state = CELL_FILL;
			cell.token = token;
		}
		break;
	case 'I':
		if (take_token(&cursor, &token) && take(&cursor, '|') && take_count(&cursor, &version) &&
		    cursor.at == cursor.end) {
			cell.state = CELL_INTENT;
			cell.token = token;
			cell.figures.version = version;
		}
		break;
	default:
		break;
	}
	return cell;
}

/* --- calls ------------------------------------------------------------------------------------------------------ */

static struct text joined(struct arena *arena, struct text namespace, struct text tail)
{
	char *bytes = arena_alloc(arena, namespace.size + tail.size);
	put_bytes(put_bytes(bytes, namespace.data, namespace.size), tail.data, tail.size);
	return (struct text){bytes, namespace.size + tail.size};
}

static void argument(struct cell_call *call, struct text text)
{
	call->argv[call->argc++] = text;
}

static void add_keys(struct arena *arena, struct cell_call *call, struct text namespace, const struct text *skus,
                     size_t count)
{
	for (size_t i = 0; i < count; i++) {
		char *key = arena_alloc(arena, namespace.size + 1 + skus[i].size);
		char *at = put_bytes(key, namespace.data, namespace.size);
		*at++ = ':';
		at = put_bytes(at, skus[i].data, skus[i].size);
		argument(call, (struct text){key, (size_t)(at - key)});
	}
}

/* EVALSHA sha keys guard key…, with room for `arguments` more; argc counts what is there so far. */
static struct cell_call call_new(struct arena *arena, enum script_name name, struct text namespace,
                                 const struct text *skus, size_t count, size_t arguments)
{
	struct cell_call call = {0, ARENA_ARRAY(arena, 4 + count + arguments, struct text)};
	argument(&call, TEXT("EVALSHA"));
	argument(&call, (struct text){script_get(name)->sha, SCRIPT_SHA_BYTES});
	argument(&call, number_text(arena, (int64_t)count + 1));
	argument(&call, joined(arena, namespace, TEXT("!open")));
	add_keys(arena, &call, namespace, skus, count);
	return call;
}

void cell_read(struct arena *arena, struct text namespace, const struct text *skus, size_t count,
               struct redis_command ret_commands[2])
{
	CHECK(count > 0 && count <= LU_CELLS_MAX);
	struct cell_call fence = call_new(arena, SCRIPT_READ, namespace, NULL, 0, 0);
	struct cell_call get = {0, ARENA_ARRAY(arena, 1 + count, struct text)};
	argument(&get, TEXT("MGET"));
	add_keys(arena, &get, namespace, skus, count);
	ret_commands[0] = (struct redis_command){fence.argc, fence.argv};
	ret_commands[1] = (struct redis_command){get.argc, get.argv};
}

struct cell_call cell_teach_read(struct arena *arena)
{
	struct cell_call call = {0, ARENA_ARRAY(arena, 3, struct text)};
	argument(&call, TEXT("SCRIPT"));
	argument(&call, TEXT("LOAD"));
	argument(&call, script_get(SCRIPT_READ)->source);
	return call;
}

struct cell_call cell_cas(struct arena *arena, struct text namespace, const struct text *skus, const struct text *old,
                          const struct text *new, const int64_t *px_ms, size_t count)
{
	CHECK(count > 0 && count <= LU_CELLS_MAX);
	struct cell_call call = call_new(arena, SCRIPT_CAS, namespace, skus, count, 3 * count);
	for (size_t i = 0; i < count; i++) {
		CHECK(px_ms[i] > 0);
		argument(&call, old[i]);
		argument(&call, new[i]);
		argument(&call, number_text(arena, px_ms[i]));
	}
	return call;
}

static void token_check(struct text token)
{
	CHECK(token.size > 0);
	for (size_t i = 0; i < token.size; i++)
		CHECK(is_token_char(token.data[i]));
}

static struct text version_text(struct arena *arena, int64_t version)
{
	CHECK(version <= LU_COUNT_MAX); /* exact in a Lua number */
	return number_text(arena, version);
}

struct cell_call cell_intend(struct arena *arena, struct text namespace, struct text token, const struct text *skus,
                             const int64_t *versions, size_t count)
{
	CHECK(count > 0 && count <= LU_CELLS_MAX);
	struct cell_call call = call_new(arena, SCRIPT_INTEND, namespace, skus, count, 1 + count);
	token_check(token);
	argument(&call, token);
	for (size_t i = 0; i < count; i++)
		argument(&call, version_text(arena, versions[i]));
	return call;
}

struct cell_call cell_publish(struct arena *arena, struct text namespace, struct text token, const struct text *skus,
                              const struct figures *rows, int64_t ttl_ms, size_t count)
{
	CHECK(count > 0 && count <= LU_CELLS_MAX);
	struct cell_call call = call_new(arena, SCRIPT_PUBLISH, namespace, skus, count, 1 + 3 * count);
	token_check(token);
	CHECK(ttl_ms > 0);
	argument(&call, token);
	for (size_t i = 0; i < count; i++) {
		/* Up to a tenth longer, so that cells written together do not end together. */
		int64_t px_ms = ttl_ms + (int64_t)random_below((uint64_t)ttl_ms / 10 + 1);
		argument(&call, version_text(arena, rows[i].version));
		argument(&call, number_text(arena, px_ms));
		argument(&call, cell_value(arena, &rows[i], skus[i]));
	}
	return call;
}

struct cell_call cell_invalidate(struct arena *arena, struct text namespace, const struct text *skus,
                                 const int64_t *versions, size_t count)
{
	CHECK(count > 0 && count <= LU_CELLS_MAX);
	struct cell_call call = call_new(arena, SCRIPT_INVALIDATE, namespace, skus, count, count);
	for (size_t i = 0; i < count; i++)
		argument(&call, version_text(arena, versions[i]));
	return call;
}

enum cell_reply cell_reply_kind(const redisReply *reply, size_t count)
{
	if (!reply)
		return CELL_FAILED;
	if (reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "FENCED") == 0)
		return CELL_FENCED;
	if (reply->type == REDIS_REPLY_INTEGER)
		return reply->integer >= 0 && (unsigned long long)reply->integer <= count ? CELL_OK : CELL_FAILED;
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != count)
		return CELL_FAILED;
	for (size_t i = 0; i < count; i++) {
		int type = reply->element[i]->type;
		if (type != REDIS_REPLY_STRING && type != REDIS_REPLY_NIL && type != REDIS_REPLY_INTEGER)
			return CELL_FAILED;
	}
	return CELL_OK;
}

static void count_outcome(enum cell_reply kind)
{
	if (kind == CELL_FENCED)
		metric_add(METRIC_CELL_FENCED, 1);
	else if (kind == CELL_FAILED)
		metric_add(METRIC_CELL_ERRORS, 1);
}

static void count_call(const struct cell_call *call, enum cell_reply kind)
{
	static const enum metric metrics[SCRIPT_COUNT] = {METRIC_CELL_READ, METRIC_CELL_CAS, METRIC_CELL_INTEND,
	                                                  METRIC_CELL_PUBLISH, METRIC_CELL_INVALIDATE};
	for (enum script_name name = 0; name < SCRIPT_COUNT; name++)
		if (call->argv[1].data == script_get(name)->sha)
			metric_add(metrics[name], 1);
	count_outcome(kind);
}

enum cell_reply cell_run(struct redis *redis, struct cell_call call, size_t count, int64_t deadline_ns,
                         redisReply **ret_reply)
{
	__attribute__((cleanup(redis_reply_done))) redisReply *reply = NULL;
	enum cell_reply kind = CELL_FAILED;
	if (redis_call(redis, call.argc, call.argv, deadline_ns, &reply) == LU_OK)
		kind = cell_reply_kind(reply, count);
	count_call(&call, kind);
	if (kind == CELL_OK) {
		*ret_reply = reply;
		reply = NULL;
	}
	return kind;
}

enum cell_reply cell_read_kind(const redisReply *reply, size_t count, redisReply *const **ret_cells,
                               bool *ret_forgotten)
{
	*ret_forgotten = false;
	if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
		return CELL_FAILED;
	const redisReply *fence = reply->element[0], *cells = reply->element[1];
	*ret_forgotten = fence->type == REDIS_REPLY_ERROR && strncmp(fence->str, "NOSCRIPT", 8) == 0;
	enum cell_reply kind = cell_reply_kind(fence, 1);
	if (kind != CELL_OK)
		return kind;
	if (fence->type != REDIS_REPLY_INTEGER || fence->integer != 1 || cells->type != REDIS_REPLY_ARRAY ||
	    cells->elements != count)
		return CELL_FAILED;
	for (size_t i = 0; i < count; i++)
		if (cells->element[i]->type != REDIS_REPLY_STRING && cells->element[i]->type != REDIS_REPLY_NIL)
			return CELL_FAILED;
	*ret_cells = cells->element;
	return CELL_OK;
}

enum cell_reply cell_look(struct redis *redis, struct arena *arena, struct text namespace, const struct text *skus,
                          size_t count, int64_t deadline_ns, struct cell **ret_cells)
{
	__attribute__((cleanup(redis_reply_done))) redisReply *reply = NULL, *taught = NULL;
	struct redis_command commands[2];
	redisReply *const *elements;
	bool forgotten = false;
	enum cell_reply kind = CELL_FAILED;
	cell_read(arena, namespace, skus, count, commands);
	metric_add(METRIC_CELL_READ, 1);
	if (redis_call_two(redis, commands, deadline_ns, &reply) == LU_OK)
		kind = cell_read_kind(reply, count, &elements, &forgotten);
	if (forgotten) {
		struct cell_call teach = cell_teach_read(arena);
		redis_reply_done(&reply);
		if (redis_call(redis, teach.argc, teach.argv, deadline_ns, &taught) == LU_OK &&
		    redis_call_two(redis, commands, deadline_ns, &reply) == LU_OK)
			kind = cell_read_kind(reply, count, &elements, &forgotten);
	}
	count_outcome(kind);
	if (kind != CELL_OK)
		return kind;
	struct cell *cells = *ret_cells = ARENA_ARRAY(arena, count, struct cell);
	for (size_t i = 0; i < count; i++) {
		bool present = elements[i]->type == REDIS_REPLY_STRING;
		struct text raw = TEXT("");
		if (present)
			raw = arena_text(arena, (struct text){elements[i]->str, (size_t)elements[i]->len});
		cells[i] = cell_decode(raw, present, skus[i]);
	}
	return CELL_OK;
}

/* --- the guard and the namespace -------------------------------------------------------------------------------- */

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
	const struct text argv[] = {TEXT("SET"), joined(&arena, namespace, TEXT("!open")), text_of(identity)};
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
	char number[NUMBER_BYTES + 1];
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
	struct text sku = joined(&a, TEXT("\1"), text_of(token)), ns = namespace, mark = text_of(token);
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
	at = put_bytes(at, ":*", 2);
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

/* One SCAN and its UNLINK. `cursor` is "0" again at the end of the keyspace. */
static enum lu_error scan_step(struct redis *redis, struct arena *arena, struct text pattern, char cursor[24],
                               int64_t deadline_ns)
{
	__attribute__((cleanup(redis_reply_done))) redisReply *reply = NULL;
	const struct text argv[] = {TEXT("SCAN"), text_of(cursor), TEXT("MATCH"), pattern, TEXT("COUNT"), TEXT(SCAN_KEYS)};
	enum lu_error error = redis_call(redis, 6, argv, step_deadline(deadline_ns), &reply);
	if (error)
		return error;
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || reply->element[0]->type != REDIS_REPLY_STRING ||
	    reply->element[0]->len >= 24 || reply->element[1]->type != REDIS_REPLY_ARRAY)
		return LU_CACHE_UNAVAILABLE;
	strcpy(cursor, reply->element[0]->str);
	return keys_unlink(redis, arena, reply->element[1], deadline_ns);
}

enum lu_error cell_namespace_unlink(struct redis *redis, struct text namespace, int64_t deadline_ns)
{
	struct arena arena;
	arena_init(&arena, 64 * 1024);
	__attribute__((cleanup(redis_reply_done))) redisReply *reply = NULL;
	/* The guard first: from here on every script is FENCED, so nothing is written behind the scan. */
	const struct text argv[] = {TEXT("UNLINK"), joined(&arena, namespace, TEXT("!open"))};
	enum lu_error error = redis_call(redis, 2, argv, step_deadline(deadline_ns), &reply);
	char cursor[24] = "0";
	while (!error) {
		arena_reset(&arena);
		if (clock_boottime_ns() >= deadline_ns)
			error = LU_DEADLINE_EXCEEDED;
		else
			error = scan_step(redis, &arena, cells_pattern(&arena, namespace), cursor, deadline_ns);
		if (strcmp(cursor, "0") == 0)
			break;
	}
	arena_done(&arena);
	return error;
}
