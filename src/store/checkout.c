/* Checkouts: finished sales, made once, of which only the cancelled units change.
 *
 * Happy path and failure modes: as in reservation.c. 23505 on checkout_sells_a_reservation_once would be a second
 * commit of one reservation; the decision under the locks never makes one.
 */
#include "store/checkout.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/id.h"
#include "store/lines.h"
#include "store/pg_internal.h"

#define COLUMNS \
	"c.id, c.principal_id, c.channel, c.reference, c.reservation_id, c.created_at, c.cancelled, " LINES_COLUMNS("c")

static struct checkout *checkout_get(const PGresult *r, int row, struct arena *arena)
{
	struct checkout *checkout = ARENA_NEW(arena, struct checkout);
	*checkout = (struct checkout){
		.id = pg_get_uuid(r, row, 0),
		.principal_id = pg_get_int(r, row, 1),
		.channel = (enum channel)pg_get_int(r, row, 2),
		.reference = pg_get_text(r, row, 3, arena),
		.reservation_id = pg_get_uuid(r, row, 4),
		.created_us = pg_get_time(r, row, 5),
	};
	int64_t *cancelled;
	size_t cancelled_count = pg_get_int8s(r, row, 6, arena, &cancelled);
	checkout->line_count = lines_get(r, row, 7, arena, &checkout->lines);
	if (cancelled_count != checkout->line_count)
		checkout->line_count = 0; /* damaged (lines_get) */
	for (size_t i = 0; i < checkout->line_count; i++)
		checkout->lines[i].cancelled = cancelled[i];
	return checkout;
}

static struct checkout **checkouts_get(const PGresult *r, struct arena *arena, size_t *ret_count)
{
	*ret_count = (size_t)PQntuples(r);
	struct checkout **rows = ARENA_ARRAY(arena, *ret_count, struct checkout *);
	for (int i = 0; i < PQntuples(r); i++)
		rows[i] = checkout_get(r, i, arena);
	return rows;
}

static int by_id(const void *a, const void *b)
{
	const struct checkout *x = *(struct checkout *const *)a, *y = *(struct checkout *const *)b;
	return memcmp(x->id.bytes, y->id.bytes, sizeof x->id.bytes);
}

void checkout_read_send(struct pg *pg, struct arena *arena, const struct uuid *ids, size_t count)
{
	static const struct pg_statement statement = {
		"checkout_read",
		"SELECT " COLUMNS " FROM checkout c WHERE c.id = ANY($1)",
	};
	struct pg_params p;
	pg_params_init(&p, arena);
	pg_add_uuids(&p, ids, sizeof *ids, count);
	pg_pipe_add(pg, &statement, &p);
}

enum lu_error checkout_read_take(struct pg *pg, int64_t deadline_ns, struct arena *arena,
                                 struct checkout ***ret_checkouts, size_t *ret_count)
{
	PGresult *r;
	enum lu_error error = pg_pipe_take(pg, deadline_ns, &r);
	if (error)
		return error;
	*ret_checkouts = checkouts_get(r, arena, ret_count);
	PQclear(r);
	if (*ret_count > 0)
		qsort(*ret_checkouts, *ret_count, sizeof **ret_checkouts, by_id);
	return LU_OK;
}

/* The lines of all rows, flat, and the rows themselves in one piece, sorted by id. */
static struct checkout *gathered(struct arena *arena, struct checkout *const *rows, size_t count,
                                 struct flat_lines *ret_flat)
{
	struct checkout **sorted = ARENA_ARRAY(arena, count + 1, struct checkout *);
	struct checkout *copies = ARENA_ARRAY(arena, count + 1, struct checkout);
	size_t line_count = 0;
	for (size_t i = 0; i < count; i++) {
		sorted[i] = rows[i];
		line_count += rows[i]->line_count;
	}
	if (count > 0)
		qsort(sorted, count, sizeof *sorted, by_id);
	*ret_flat = flat_lines_new(arena, count, line_count);
	for (size_t i = 0; i < count; i++) {
		copies[i] = *sorted[i];
		flat_lines_add(ret_flat, copies[i].lines, copies[i].line_count);
	}
	return copies;
}

void checkout_insert_send(struct pg *pg, struct arena *arena, struct checkout *const *rows, size_t count)
{
	static const struct pg_statement statement = {
		"checkout_insert",
		"INSERT INTO checkout (id, created_at, principal_id, reservation_id, channel, reference, sku_ids, quantities,"
		" counted, versions, cancelled)"
		" SELECT u.id, u.created_at, u.principal_id, u.reservation_id, u.channel, u.reference,"
		" ($9)[u.first:u.last], ($10)[u.first:u.last], ($11)[u.first:u.last], ($12)[u.first:u.last],"
		" ($13)[u.first:u.last]"
		" FROM (SELECT unnest($1) AS id, unnest($2) AS created_at, unnest($3) AS principal_id,"
		" unnest($4) AS reservation_id, unnest($5) AS channel, unnest($6) AS reference, unnest($7) AS first,"
		" unnest($8) AS last) u",
	};
	struct flat_lines flat;
	const struct checkout *copies = gathered(arena, rows, count, &flat);
	int16_t *channels = ARENA_ARRAY(arena, count, int16_t);
	for (size_t i = 0; i < count; i++)
		channels[i] = (int16_t)copies[i].channel;
	struct pg_params p;
	pg_params_init_rows(&p, arena, count);
	pg_add_uuids(&p, &copies->id, sizeof *copies, count);
	pg_add_times(&p, &copies->created_us, sizeof *copies, count);
	pg_add_int8s(&p, &copies->principal_id, sizeof *copies, count);
	pg_add_uuids(&p, &copies->reservation_id, sizeof *copies, count);
	pg_add_int2s(&p, channels, sizeof *channels, count);
	pg_add_texts(&p, &copies->reference, sizeof *copies, count);
	pg_add_int8s(&p, flat.firsts, sizeof *flat.firsts, count);
	pg_add_int8s(&p, flat.lasts, sizeof *flat.lasts, count);
	flat_lines_params(&flat, &p);
	pg_add_int8s(&p, &flat.lines->cancelled, sizeof *flat.lines, flat.count);
	pg_pipe_add(pg, &statement, &p);
}

enum lu_error checkout_insert_take(struct pg *pg, int64_t deadline_ns, size_t count)
{
	return pg_pipe_take_changed(pg, deadline_ns, count);
}

void checkout_change_send(struct pg *pg, struct arena *arena, struct checkout *const *rows, size_t count)
{
	static const struct pg_statement statement = {
		"checkout_change",
		"UPDATE checkout c SET cancelled = ($4)[($2)[width_bucket(c.id, $1)]:($3)[width_bucket(c.id, $1)]]"
		" WHERE c.id = ANY($1)",
	};
	struct flat_lines flat;
	const struct checkout *copies = gathered(arena, rows, count, &flat);
	struct pg_params p;
	pg_params_init(&p, arena);
	pg_add_uuids(&p, &copies->id, sizeof *copies, count);
	pg_add_int8s(&p, flat.firsts, sizeof *flat.firsts, count);
	pg_add_int8s(&p, flat.lasts, sizeof *flat.lasts, count);
	pg_add_int8s(&p, &flat.lines->cancelled, sizeof *flat.lines, flat.count);
	pg_pipe_add(pg, &statement, &p);
}

enum lu_error checkout_change_take(struct pg *pg, int64_t deadline_ns, size_t count)
{
	return pg_pipe_take_changed(pg, deadline_ns, count);
}

enum lu_error checkout_page(struct pg *pg, struct arena *arena, struct text reference, int64_t principal_id,
                            const struct uuid *after, size_t limit, int64_t deadline_ns, struct checkout ***ret_rows,
                            size_t *ret_count)
{
	/* A range, for the reason in reservation_page. */
	static const struct pg_statement statement = {
		"checkout_page",
		"SELECT " COLUMNS
		" FROM checkout c WHERE (c.reference, c.id) > ($1, $2) AND c.reference <= $1"
		" AND ($3 = 0 OR c.principal_id = $3) ORDER BY c.reference, c.id LIMIT $4",
	};
	static const struct uuid nil;
	struct pg_params p;
	pg_params_init(&p, arena);
	pg_add_text(&p, reference);
	pg_add_after(&p, after ? after : &nil);
	pg_add_int8(&p, principal_id);
	pg_add_int8(&p, (int64_t)limit);
	PGresult *r;
	enum lu_error error = pg_query(pg, &statement, &p, deadline_ns, &r);
	if (error)
		return error;
	*ret_rows = checkouts_get(r, arena, ret_count);
	PQclear(r);
	return LU_OK;
}
