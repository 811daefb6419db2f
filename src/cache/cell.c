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

#define NUMBER_BYTES 20                          /* of an int64, sign included */
#define IDENTITY_BYTES 40                        /* of a run_id, of a replication id */
#define GUARD_BYTES_MIN (2 * IDENTITY_BYTES + 2) /* "run_id role replication_id", but for the role */
#define COUNT_DIGITS 16                          /* of LU_COUNT_MAX */

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

struct text cell_guard_key(struct arena *arena, struct text namespace)
{
	static const char tail[] = "!open";
	char *bytes = arena_alloc(arena, namespace.size + sizeof tail - 1);
	char *end = put_bytes(put_bytes(bytes, namespace.data, namespace.size), tail, sizeof tail - 1);
	return (struct text){bytes, (size_t)(end - bytes)};
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
	argument(&call, cell_guard_key(arena, namespace));
	add_keys(arena, &call, namespace, skus, count);
	return call;
}

void cell_read(struct arena *arena, struct text namespace, const struct text *skus, size_t count,
               struct redis_command ret_commands[2])
{
	CHECK(count > 0 && count <= LU_CELLS_MAX);
	static const struct text info[] = {{"INFO", 4}, {"replication", 11}};
	struct cell_call get = {0, ARENA_ARRAY(arena, 2 + count, struct text)};
	argument(&get, TEXT("MGET"));
	argument(&get, cell_guard_key(arena, namespace));
	add_keys(arena, &get, namespace, skus, count);
	ret_commands[0] = (struct redis_command){2, info};
	ret_commands[1] = (struct redis_command){get.argc, get.argv};
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
	/* Exact in a Lua number; a damaged row's may be more, or less than nothing, and no cell has as much or as little. */
	return number_text(arena, version < 0 ? 0 : version < LU_COUNT_MAX ? version : LU_COUNT_MAX);
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
	static const enum metric metrics[SCRIPT_COUNT] = {METRIC_CELL_CAS, METRIC_CELL_INTEND, METRIC_CELL_PUBLISH,
	                                                  METRIC_CELL_INVALIDATE};
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

/* The fence, as in lua/guard.lua but for the run_id, and that a replica is never the one that is meant (lua/README.md, "Why
 * does `read` not look at the run_id?"). */
static bool guard_holds(const redisReply *guard, const redisReply *info)
{
	if (guard->type != REDIS_REPLY_STRING || (size_t)guard->len <= GUARD_BYTES_MIN)
		return false;
	struct text all = {info->str, (size_t)info->len};
	struct text role = {guard->str + IDENTITY_BYTES + 1, (size_t)guard->len - GUARD_BYTES_MIN};
	struct text history = {role.data + role.size + 1, IDENTITY_BYTES};
	return text_equal(role, TEXT("master")) && text_equal(redis_info_value(all, "role"), role) &&
	       text_equal(redis_info_value(all, "master_replid"), history);
}

enum cell_reply cell_read_kind(const redisReply *reply, size_t count, redisReply *const **ret_cells)
{
	if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
		return CELL_FAILED;
	const redisReply *info = reply->element[0], *cells = reply->element[1];
	if (info->type != REDIS_REPLY_STRING || cells->type != REDIS_REPLY_ARRAY || cells->elements != 1 + count)
		return CELL_FAILED;
	for (size_t i = 0; i <= count; i++)
		if (cells->element[i]->type != REDIS_REPLY_STRING && cells->element[i]->type != REDIS_REPLY_NIL)
			return CELL_FAILED;
	if (!guard_holds(cells->element[0], info))
		return CELL_FENCED;
	*ret_cells = cells->element + 1;
	return CELL_OK;
}

enum cell_reply cell_look(struct redis *redis, struct arena *arena, struct text namespace, const struct text *skus,
                          size_t count, int64_t deadline_ns, struct cell **ret_cells)
{
	__attribute__((cleanup(redis_reply_done))) redisReply *reply = NULL;
	struct redis_command commands[2];
	redisReply *const *elements;
	enum cell_reply kind = CELL_FAILED;
	cell_read(arena, namespace, skus, count, commands);
	metric_add(METRIC_CELL_READ, 1);
	if (redis_call_two(redis, commands, deadline_ns, &reply) == LU_OK)
		kind = cell_read_kind(reply, count, &elements);
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
