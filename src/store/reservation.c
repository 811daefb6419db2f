/* Reservations and their holds: read, made, changed, listed.
 *
 * Happy path: a batch reads the reservations it is told about under the locks of all their SKUs, and writes new ones
 * and changed ones in one statement each. Failure modes: a reservation that is no longer active although its SKUs'
 * locks are held was changed by somebody who does not lock: the change is refused (PG_VIOLATION), never repeated.
 * What is due, and when the next end comes, is asked in reservation_due.c. How the statements stay index scans: sku.c.
 */
#include "store/reservation.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/id.h"
#include "store/lines.h"
#include "store/pg_internal.h"
#include "store/reservation_internal.h"

/* --- reading ------------------------------------------------------------------------------------------------------ */

struct reservation *reservation_take_row(const PGresult *r, int row, struct arena *arena)
{
	struct reservation *reservation = ARENA_NEW(arena, struct reservation);
	*reservation = (struct reservation){
		.id = pg_get_uuid(r, row, 0),
		.principal_id = pg_get_int(r, row, 1),
		.channel = (enum channel)pg_get_int(r, row, 2),
		.state = (enum reservation_state)pg_get_int(r, row, 3),
		.reference = pg_get_text(r, row, 4, arena),
		.created_us = pg_get_time(r, row, 5),
		.expires_us = pg_get_time(r, row, 6),
		.ended_us = pg_get_time(r, row, 7),
		.checkout_id = pg_get_uuid(r, row, 8),
		.caller = pg_get_text(r, row, 9, arena),
	};
	reservation->line_count = lines_get(r, row, 10, arena, &reservation->lines);
	return reservation;
}

struct reservation **reservations_get(const PGresult *r, struct arena *arena, size_t *ret_count)
{
	*ret_count = (size_t)PQntuples(r);
	struct reservation **rows = ARENA_ARRAY(arena, *ret_count, struct reservation *);
	for (int i = 0; i < PQntuples(r); i++)
		rows[i] = reservation_take_row(r, i, arena);
	return rows;
}

const struct pg_statement reservation_read_statement = {
	"reservation_read",
	"SELECT " RESERVATION_COLUMNS " FROM reservation r WHERE r.id = ANY($1)",
};

void reservation_read_send(struct pg *pg, struct arena *arena, const struct uuid *ids, size_t count)
{
	struct pg_params p;
	pg_params_init(&p, arena);
	pg_add_uuids(&p, ids, sizeof *ids, count);
	pg_pipe_add(pg, &reservation_read_statement, &p);
}

static int by_id(const void *a, const void *b)
{
	const struct reservation *x = *(struct reservation *const *)a, *y = *(struct reservation *const *)b;
	return memcmp(x->id.bytes, y->id.bytes, sizeof x->id.bytes);
}

enum lu_error reservation_read_take(struct pg *pg, int64_t deadline_ns, struct arena *arena,
                                    struct reservation ***ret_reservations, size_t *ret_count)
{
	PGresult *r;
	enum lu_error error = pg_pipe_take(pg, deadline_ns, &r);
	if (error)
		return error;
	*ret_reservations = reservations_get(r, arena, ret_count);
	PQclear(r);
	if (*ret_count > 0)
		qsort(*ret_reservations, *ret_count, sizeof **ret_reservations, by_id);
	return LU_OK;
}

enum lu_error reservation_find(struct pg *pg, struct arena *arena, const struct uuid *id, int64_t deadline_ns,
                               struct reservation **ret_reservation, int64_t *ret_now_us)
{
	static const struct pg_statement statement = {
		"reservation_find",
		"SELECT " RESERVATION_COLUMNS ", clock_timestamp() FROM reservation r WHERE r.id = $1",
	};
	struct pg_params p;
	pg_params_init(&p, arena);
	pg_add_uuid(&p, id);
	PGresult *r;
	enum lu_error error = pg_query(pg, &statement, &p, deadline_ns, &r);
	if (error)
		return error;
	*ret_reservation = PQntuples(r) ? reservation_take_row(r, 0, arena) : NULL;
	if (*ret_reservation)
		*ret_now_us = pg_get_time(r, 0, RESERVATION_COLUMN_COUNT);
	PQclear(r);
	return LU_OK;
}

/* --- making ------------------------------------------------------------------------------------------------------- */

/* Copies of rows that lie apart, in one piece and in a given order, so that each column is a stride. */
static struct reservation *gathered(struct arena *arena, struct reservation *const *rows, size_t count)
{
	struct reservation *copies = ARENA_ARRAY(arena, count + 1, struct reservation);
	for (size_t i = 0; i < count; i++)
		copies[i] = *rows[i];
	return copies;
}

static void insert_rows(struct pg *pg, struct arena *arena, const struct reservation *rows, size_t count)
{
	static const struct pg_statement statement = {
		"reservation_insert",
		"INSERT INTO reservation (id, created_at, expires_at, ended_at, principal_id, checkout_id, channel, state,"
		" reference, sku_ids, quantities, counted, versions)"
		" SELECT u.id, u.created_at, u.expires_at, u.ended_at, u.principal_id, u.checkout_id, u.channel, u.state,"
		" u.reference, ($12)[u.first:u.last], ($13)[u.first:u.last], ($14)[u.first:u.last], ($15)[u.first:u.last]"
		" FROM (SELECT unnest($1) AS id, unnest($2) AS created_at, unnest($3) AS expires_at, unnest($4) AS ended_at,"
		" unnest($5) AS principal_id, unnest($6) AS checkout_id, unnest($7) AS channel, unnest($8) AS state,"
		" unnest($9) AS reference, unnest($10) AS first, unnest($11) AS last) u",
	};
	size_t line_count = 0;
	for (size_t i = 0; i < count; i++)
		line_count += rows[i].line_count;
	struct flat_lines flat = flat_lines_new(arena, count, line_count);
	int16_t *channels = ARENA_ARRAY(arena, count, int16_t), *states = ARENA_ARRAY(arena, count, int16_t);
	for (size_t i = 0; i < count; i++) {
		channels[i] = (int16_t)rows[i].channel;
		states[i] = (int16_t)rows[i].state;
		flat_lines_add(&flat, rows[i].lines, rows[i].line_count);
	}
	struct pg_params p;
	pg_params_init_rows(&p, arena, count);
	pg_add_uuids(&p, &rows->id, sizeof *rows, count);
	pg_add_times(&p, &rows->created_us, sizeof *rows, count);
	pg_add_times(&p, &rows->expires_us, sizeof *rows, count);
	pg_add_times(&p, &rows->ended_us, sizeof *rows, count);
	pg_add_int8s(&p, &rows->principal_id, sizeof *rows, count);
	pg_add_uuids(&p, &rows->checkout_id, sizeof *rows, count);
	pg_add_int2s(&p, channels, sizeof *channels, count);
	pg_add_int2s(&p, states, sizeof *states, count);
	pg_add_texts(&p, &rows->reference, sizeof *rows, count);
	pg_add_int8s(&p, flat.firsts, sizeof *flat.firsts, count);
	pg_add_int8s(&p, flat.lasts, sizeof *flat.lasts, count);
	flat_lines_params(&flat, &p);
	pg_pipe_add(pg, &statement, &p);
}

/* A line of a live reservation, as a row of its own. */
struct hold {
	struct uuid reservation_id;
	int64_t expires_us;
	struct line line;
	int64_t principal_id;
	struct text caller;
};

static size_t lines_held(const struct reservation *reservation)
{
	return reservation->state == RESERVATION_ACTIVE ? reservation->line_count : 0;
}

static void insert_holds(struct pg *pg, struct arena *arena, const struct reservation *rows, size_t count)
{
	static const struct pg_statement statement = {
		"hold_insert",
		"INSERT INTO hold (reservation_id, expires_at, sku_id, quantity, counted, principal_id, caller)"
		" SELECT unnest($1), unnest($2), unnest($3), unnest($4), unnest($5), unnest($6), unnest($7)",
	};
	size_t hold_count = 0;
	for (size_t i = 0; i < count; i++)
		hold_count += lines_held(&rows[i]);
	struct hold *holds = ARENA_ARRAY(arena, hold_count + 1, struct hold);
	hold_count = 0;
	for (size_t i = 0; i < count; i++)
		for (size_t n = 0; n < lines_held(&rows[i]); n++)
			holds[hold_count++] = (struct hold){rows[i].id, rows[i].expires_us, rows[i].lines[n], rows[i].principal_id,
			                                    rows[i].caller};
	struct pg_params p;
	pg_params_init_rows(&p, arena, hold_count);
	pg_add_uuids(&p, &holds->reservation_id, sizeof *holds, hold_count);
	pg_add_times(&p, &holds->expires_us, sizeof *holds, hold_count);
	pg_add_int8s(&p, &holds->line.sku_id, sizeof *holds, hold_count);
	pg_add_int8s(&p, &holds->line.quantity, sizeof *holds, hold_count);
	pg_add_bools(&p, &holds->line.counted, sizeof *holds, hold_count);
	pg_add_int8s(&p, &holds->principal_id, sizeof *holds, hold_count);
	pg_add_texts(&p, &holds->caller, sizeof *holds, hold_count);
	pg_pipe_add(pg, &statement, &p);
}

void reservation_insert_send(struct pg *pg, struct arena *arena, struct reservation *const *rows, size_t count)
{
	struct reservation *copies = gathered(arena, rows, count);
	insert_rows(pg, arena, copies, count);
	insert_holds(pg, arena, copies, count);
}

enum lu_error reservation_insert_take(struct pg *pg, int64_t deadline_ns, struct reservation *const *rows, size_t count)
{
	size_t hold_count = 0;
	for (size_t i = 0; i < count; i++)
		hold_count += lines_held(rows[i]);
	enum lu_error error = pg_pipe_take_changed(pg, deadline_ns, count);
	return error ? error : pg_pipe_take_changed(pg, deadline_ns, hold_count);
}

/* --- changing ----------------------------------------------------------------------------------------------------- */

void reservation_change_send(struct pg *pg, struct arena *arena, const struct reservation_change *changes, size_t count)
{
	/* One statement for both kinds of change, ended ones $6 and extended ones $7 with their new ends $8; $1 and $7 are
	 * sorted, so width_bucket finds a row's element (sku_update has the trick). `state + 0`: a plain `state = 1` would
	 * prove the partial index of the live ones fit, and a plan made while it was empty would read all of it for ever.
	 * Of the holds, as many must go or move as there are: some may be missing, by a hand, and the rest still ends. */
	static const struct pg_statement statement = {
		"reservation_change",
		"WITH changed AS (UPDATE reservation r SET state = ($2)[width_bucket(r.id, $1)],"
		" expires_at = ($3)[width_bucket(r.id, $1)], ended_at = ($4)[width_bucket(r.id, $1)],"
		" checkout_id = ($5)[width_bucket(r.id, $1)] WHERE r.id = ANY($1) AND r.state + 0 = 1 RETURNING 1),"
		"ended AS (DELETE FROM hold h WHERE h.reservation_id = ANY($6) RETURNING 1),"
		"extended AS (UPDATE hold h SET expires_at = ($8)[width_bucket(h.reservation_id, $7)]"
		" WHERE h.reservation_id = ANY($7) RETURNING 1) "
		"SELECT (SELECT count(*) FROM changed) = cardinality($1) AND (SELECT count(*) FROM ended)"
		" + (SELECT count(*) FROM extended) = (SELECT count(*) FROM hold h WHERE h.reservation_id = ANY($6 || $7))",
	};
	struct reservation **sorted = ARENA_ARRAY(arena, count + 1, struct reservation *);
	for (size_t i = 0; i < count; i++)
		sorted[i] = changes[i].reservation;
	if (count > 0)
		qsort(sorted, count, sizeof *sorted, by_id);
	struct reservation *rows = gathered(arena, sorted, count);
	struct reservation *ended = ARENA_ARRAY(arena, count + 1, struct reservation);
	struct reservation *extended = ARENA_ARRAY(arena, count + 1, struct reservation);
	int16_t *states = ARENA_ARRAY(arena, count, int16_t);
	size_t ended_count = 0, extended_count = 0;
	for (size_t i = 0; i < count; i++) {
		states[i] = (int16_t)rows[i].state;
		if (rows[i].state == RESERVATION_ACTIVE)
			extended[extended_count++] = rows[i];
		else
			ended[ended_count++] = rows[i];
	}
	struct pg_params p;
	pg_params_init(&p, arena);
	pg_add_uuids(&p, &rows->id, sizeof *rows, count);
	pg_add_int2s(&p, states, sizeof *states, count);
	pg_add_times(&p, &rows->expires_us, sizeof *rows, count);
	pg_add_times(&p, &rows->ended_us, sizeof *rows, count);
	pg_add_uuids(&p, &rows->checkout_id, sizeof *rows, count);
	pg_add_uuids(&p, &ended->id, sizeof *ended, ended_count);
	pg_add_uuids(&p, &extended->id, sizeof *extended, extended_count);
	pg_add_times(&p, &extended->expires_us, sizeof *extended, extended_count);
	pg_pipe_add(pg, &statement, &p);
}

enum lu_error reservation_change_take(struct pg *pg, int64_t deadline_ns)
{
	return pg_pipe_take_all_written(pg, deadline_ns); /* or it ended twice, or is not there */
}

/* --- listing ------------------------------------------------------------------------------------------------------ */

/* $1 after, $2 state, $3 principal, $4 SKU, $5 limit; each may be "any". A hold that is due counts as expired (4) at once, and
 * as active until the row says so, too: whoever asks for those looks at the clock. */
#define FILTER                                                                                   \
	"($2 = 0 OR r.state = $2 OR ($2 = 4 AND r.state = 1 AND r.expires_at <= clock_timestamp()))" \
	" AND ($3 = 0 OR r.principal_id = $3)"                                                       \
	" AND ($4::text IS NULL OR (SELECT s.id FROM sku s WHERE s.code = $4) = ANY(r.sku_ids))"

/* Where a walk through all must end: who asks for few of many would be answered by the statement timeout, and keep a loader
 * from everybody else for as long. */
static enum lu_error walk_end(struct pg *pg, struct arena *arena, const struct uuid *after, int64_t deadline_ns,
                              struct uuid *ret_end)
{
	static const struct pg_statement statement = {
		"reservation_walk_end",
		"SELECT w.id FROM reservation w WHERE w.id > $1 ORDER BY w.id OFFSET $2 LIMIT 1",
	};
	struct pg_params p;
	pg_params_init(&p, arena);
	pg_add_after(&p, after);
	pg_add_int8(&p, RESERVATION_WALK_MAX - 1);
	PGresult *r;
	enum lu_error error = pg_query(pg, &statement, &p, deadline_ns, &r);
	if (error)
		return error;
	*ret_end = PQntuples(r) ? pg_get_uuid(r, 0, 0) : (struct uuid){0};
	PQclear(r);
	return LU_OK;
}

enum lu_error reservation_page(struct pg *pg, struct arena *arena, const struct reservation_filter *filter,
                               int64_t deadline_ns, struct reservation ***ret_rows, size_t *ret_count,
                               struct uuid *ret_walked)
{
	/* Three ways in, so that each has its index: by reference; by what holds a SKU now; or through all, by id, up to where
	 * the walk ends. "The same reference and a greater id" is written as a range of (reference, id), because with an
	 * equation the order by id would do, and statistics could talk the planner into walking through the primary key for
	 * it. */
	static const struct pg_statement by_reference = {
		"reservation_page_reference",
		"SELECT " RESERVATION_COLUMNS
		" FROM reservation r WHERE (r.reference, r.id) > ($6, $1) AND r.reference <= $6"
		" AND " FILTER " ORDER BY r.reference, r.id LIMIT $5",
	};
	static const struct pg_statement by_hold = {
		"reservation_page_hold",
		"SELECT f.* FROM (SELECT h.reservation_id FROM hold h"
		" WHERE h.sku_id = (SELECT s.id FROM sku s WHERE s.code = $4) OFFSET 0) h,"
		" LATERAL (SELECT " RESERVATION_COLUMNS
		" FROM reservation r WHERE r.id = h.reservation_id AND r.id > $1 AND " FILTER
		" OFFSET 0) f ORDER BY 1 LIMIT $5",
	};
	static const struct pg_statement through_all = {
		"reservation_page",
		"SELECT " RESERVATION_COLUMNS
		" FROM reservation r WHERE r.id > $1"
		" AND r.id <= coalesce($6, 'ffffffff-ffff-ffff-ffff-ffffffffffff') AND " FILTER " ORDER BY r.id LIMIT $5",
	};
	struct uuid end = {0}; /* nil: the walk goes to the last one */
	struct pg_params p;
	bool walks = !filter->reference.data && !(filter->sku.data && filter->state == RESERVATION_ACTIVE);
	enum lu_error error = walks ? walk_end(pg, arena, &filter->after, deadline_ns, &end) : LU_OK;
	if (error)
		return error;
	pg_params_init(&p, arena);
	pg_add_after(&p, &filter->after);
	pg_add_int8(&p, filter->state);
	pg_add_int8(&p, filter->principal_id);
	pg_add_text(&p, filter->sku);
	pg_add_int8(&p, (int64_t)filter->limit);
	const struct pg_statement *statement = walks ? &through_all : filter->reference.data ? &by_reference : &by_hold;
	if (walks)
		pg_add_uuid(&p, &end);
	else if (filter->reference.data)
		pg_add_text(&p, filter->reference);
	PGresult *r;
	error = pg_query(pg, statement, &p, deadline_ns, &r);
	if (error)
		return error;
	*ret_rows = reservations_get(r, arena, ret_count);
	*ret_walked = *ret_count < filter->limit ? end : (struct uuid){0};
	PQclear(r);
	return LU_OK;
}
