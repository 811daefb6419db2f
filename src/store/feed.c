/* The change feed (feed.h).
 *
 * Happy path: one statement, so that the horizon and the entries below it belong to one snapshot; it always has a row,
 * which tells how the feed stands when there is no entry. Failure modes: as in pg.h; on a standby the identity cannot be
 * had (55000, PG_CONNECTION).
 */
#include "store/feed.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/feed_internal.h"

#define STATE_COLUMNS "f.identity, f.horizon, f.lag_ms, f.restored, f.settled"
#define STATE_COLUMN_COUNT 5
/* xid8 has no cast from bigint: by way of text. */
#define BEHIND_AND_SHOWN "(l.xid, l.sku_id, l.version) > ($1::text::xid8, $2, $3) AND l.xid < f.horizon"

/* --- positions ------------------------------------------------------------------------------------------------------ */

size_t feed_cursor_format(const struct feed_position *p, char out[FEED_CURSOR_BYTES_MAX + 1])
{
	return (size_t)snprintf(out, FEED_CURSOR_BYTES_MAX + 1, "%016" PRIx64 "-%" PRIx64 "-%" PRIx64 "-%" PRIx64,
	                        (uint64_t)p->identity, (uint64_t)p->xid, (uint64_t)p->sku_id, (uint64_t)p->version);
}

/* The digits up to `end`; what feed_cursor_format() would not have written is refused, so one place has one name. */
static bool read_hex(const char **at, const char *end, bool negative_allowed, int64_t *ret_value)
{
	uint64_t value = 0;
	const char *from = *at;
	for (; *at < end && **at != '-'; (*at)++) {
		char c = **at;
		int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
		if (digit < 0 || *at - from == 16)
			return false;
		value = value << 4 | (uint64_t)digit;
	}
	*ret_value = (int64_t)value;
	return *at > from && (negative_allowed || *ret_value >= 0);
}

bool feed_cursor_parse(struct text cursor, struct feed_position *ret_position)
{
	struct feed_position p;
	int64_t *const parts[] = {&p.identity, &p.xid, &p.sku_id, &p.version};
	const char *at = cursor.data, *end = at + cursor.size;
	for (size_t i = 0; i < 4; i++) {
		if (i && (at == end || *at++ != '-'))
			return false;
		if (!read_hex(&at, end, i == 0, parts[i]))
			return false;
	}
	char again[FEED_CURSOR_BYTES_MAX + 1];
	if (at != end || feed_cursor_format(&p, again) != cursor.size || memcmp(again, cursor.data, cursor.size) != 0)
		return false;
	*ret_position = p;
	return true;
}

static int compare(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

int feed_position_compare(const struct feed_position *a, const struct feed_position *b)
{
	int order = compare(a->xid, b->xid);
	if (!order)
		order = compare(a->sku_id, b->sku_id);
	return order ? order : compare(a->version, b->version);
}

bool feed_has(const struct feed_state *state, const struct feed_position *position)
{
	return position->identity == state->now.identity && feed_position_compare(position, &state->now) <= 0;
}

/* --- reading -------------------------------------------------------------------------------------------------------- */

static struct feed_state state_get(const PGresult *r)
{
	int64_t lag_ms = pg_get_int(r, 0, 2);
	return (struct feed_state){
		.now = {.identity = pg_get_int(r, 0, 0), .xid = pg_get_int(r, 0, 1)},
		.lag_ms = lag_ms > 0 ? lag_ms : 0,
		.restored = pg_get_bool(r, 0, 3),
		.settled = pg_get_bool(r, 0, 4),
	};
}

static enum lu_error ask(struct pg *pg, struct arena *arena, const struct pg_statement *statement,
                         const struct feed_position *after, size_t limit, int64_t deadline_ns,
                         struct feed_state *ret_state, PGresult **ret_result)
{
	struct pg_params p;
	pg_params_init(&p, arena);
	pg_add_int8(&p, after->xid);
	pg_add_int8(&p, after->sku_id);
	pg_add_int8(&p, after->version);
	pg_add_int8(&p, (int64_t)limit);
	enum lu_error error = pg_query(pg, statement, &p, deadline_ns, ret_result);
	if (error)
		return error;
	*ret_state = state_get(*ret_result);
	return LU_OK;
}

enum lu_error feed_look(struct pg *pg, struct arena *arena, int64_t deadline_ns, struct feed_state *ret_state)
{
	static const struct pg_statement statement = {"feed_look", "SELECT " STATE_COLUMNS " FROM " FEED_STATE};
	struct pg_params p;
	PGresult *r;
	pg_params_init(&p, arena);
	enum lu_error error = pg_query(pg, &statement, &p, deadline_ns, &r);
	if (error)
		return error;
	*ret_state = state_get(r);
	PQclear(r);
	return LU_OK;
}

/* The number of rows that are not only the state's. */
static size_t row_count(const PGresult *r)
{
	return PQgetisnull(r, 0, STATE_COLUMN_COUNT) ? 0 : (size_t)PQntuples(r);
}

enum lu_error feed_page(struct pg *pg, struct arena *arena, const struct feed_position *after, size_t limit,
                        int64_t deadline_ns, struct feed_state *ret_state, struct feed_row **ret_rows,
                        size_t *ret_count)
{
	static const struct pg_statement statement = {
		"feed_page",
		"SELECT " STATE_COLUMNS ", e.xid, (SELECT k.code FROM sku k WHERE k.id = e.sku_id), " LEDGER_COLUMNS(
			"e") " FROM " FEED_STATE " LEFT JOIN LATERAL (SELECT * FROM ledger l WHERE " BEHIND_AND_SHOWN
				 " ORDER BY l.xid, l.sku_id, l.version LIMIT $4) e ON true",
	};
	PGresult *r;
	enum lu_error error = ask(pg, arena, &statement, after, limit, deadline_ns, ret_state, &r);
	if (error)
		return error;
	*ret_count = row_count(r);
	*ret_rows = ARENA_ARRAY(arena, *ret_count, struct feed_row);
	for (int i = 0; i < (int)*ret_count; i++)
		(*ret_rows)[i] = (struct feed_row){
			.xid = pg_get_int(r, i, STATE_COLUMN_COUNT),
			.sku = pg_get_text(r, i, STATE_COLUMN_COUNT + 1, arena),
			.row = ledger_get(r, i, STATE_COLUMN_COUNT + 2, arena),
		};
	PQclear(r);
	return LU_OK;
}

enum lu_error feed_changes(struct pg *pg, struct arena *arena, const struct feed_position *after, size_t limit,
                           int64_t deadline_ns, struct feed_state *ret_state, struct feed_change **ret_changes,
                           size_t *ret_count, bool *ret_more)
{
	/* The newest entry of each SKU among the next ones, and its row by the primary key: what they were, not how many. */
	static const struct pg_statement statement = {
		"feed_changes",
		"SELECT " STATE_COLUMNS
		", c.xid, c.sku_id, c.version, c.at, c.read, k.code, k.version, k.on_hand, k.reserved,"
		" k.safety_stock, k.tracked FROM " FEED_STATE
		" LEFT JOIN LATERAL (SELECT DISTINCT ON (e.sku_id) e.xid, e.sku_id,"
		" e.version, e.at, count(*) OVER () AS read FROM (SELECT l.xid, l.sku_id, l.version, l.at FROM ledger l"
		" WHERE " BEHIND_AND_SHOWN
		" ORDER BY l.xid, l.sku_id, l.version LIMIT $4) e"
		" ORDER BY e.sku_id, e.xid DESC, e.version DESC) c ON true"
		" LEFT JOIN LATERAL (SELECT s.code, s.version, s.on_hand, s.reserved, s.safety_stock, s.tracked FROM sku s"
		" WHERE s.id = c.sku_id OFFSET 0) k ON true ORDER BY c.xid, c.sku_id, c.version",
	};
	enum { XID = STATE_COLUMN_COUNT, SKU_ID, VERSION, AT, READ, CODE, NOW_VERSION, ON_HAND, RESERVED, SAFETY, TRACKED };
	PGresult *r;
	enum lu_error error = ask(pg, arena, &statement, after, limit, deadline_ns, ret_state, &r);
	if (error)
		return error;
	*ret_count = row_count(r);
	*ret_more = *ret_count && pg_get_int(r, 0, READ) == (int64_t)limit;
	*ret_changes = ARENA_ARRAY(arena, *ret_count, struct feed_change);
	for (int i = 0; i < (int)*ret_count; i++)
		(*ret_changes)[i] = (struct feed_change){
			.position = {ret_state->now.identity, pg_get_int(r, i, XID), pg_get_int(r, i, SKU_ID),
		                 pg_get_int(r, i, VERSION)},
			.sku = pg_get_text(r, i, CODE, arena),
			.figures = {.version = pg_get_int(r, i, NOW_VERSION),
		                .on_hand = pg_get_int(r, i, ON_HAND),
		                .reserved = pg_get_int(r, i, RESERVED),
		                .safety_stock = pg_get_int(r, i, SAFETY),
		                .tracked = pg_get_bool(r, i, TRACKED)},
			.at_us = pg_get_time(r, i, AT),
		};
	PQclear(r);
	return LU_OK;
}
