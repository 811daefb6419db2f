/* What is due: for carts that are short of a SKU's units, and for the reaper.
 *
 * Happy path: the index of holds by SKU and end gives each SKU's due holds, earliest first, and the first end after
 * now; the index of live reservations by end gives the reaper its work. "Now" is clock_timestamp() of the statement,
 * fenced in a sub-select: as a volatile call it could not bound an index scan. Failure modes: those of pg.h.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/id.h"
#include "store/reservation_internal.h"

/* A due hold of one of the SKUs asked for. */
struct due {
	struct uuid reservation_id;
	int64_t expires_us;
	size_t sku; /* its place in `skus` */
};

static int by_end(const void *a, const void *b)
{
	const struct due *x = a, *y = b;
	if (x->expires_us != y->expires_us)
		return x->expires_us < y->expires_us ? -1 : 1;
	return memcmp(x->reservation_id.bytes, y->reservation_id.bytes, sizeof x->reservation_id.bytes);
}

static int by_expiry(const void *a, const void *b)
{
	const struct reservation *x = *(struct reservation *const *)a, *y = *(struct reservation *const *)b;
	if (x->expires_us != y->expires_us)
		return x->expires_us < y->expires_us ? -1 : 1;
	return memcmp(x->id.bytes, y->id.bytes, sizeof x->id.bytes);
}

/* Chooses the ids of the first `limit` reservations and tells each SKU what is left. A SKU's list was cut at limit + 1,
 * so a SKU with more than that has at least one hold that is not chosen. */
static size_t choose(struct due *dues, size_t due_count, size_t limit, struct locked_sku **skus, struct uuid *ret_ids)
{
	size_t chosen = 0;
	if (due_count > 0)
		qsort(dues, due_count, sizeof *dues, by_end);
	for (size_t i = 0; i < due_count; i++) {
		/* The lines of one reservation have one end, so they stand together. */
		bool again = chosen > 0 && uuid_equal(&ret_ids[chosen - 1], &dues[i].reservation_id);
		if (!again && chosen == limit)
			skus[dues[i].sku]->holds_more = true;
		else if (!again)
			ret_ids[chosen++] = dues[i].reservation_id;
	}
	return chosen;
}

enum lu_error reservation_due(struct pg *pg, struct arena *arena, struct locked_sku **skus, size_t count, size_t limit,
                              int64_t deadline_ns, struct reservation ***ret_due, size_t *ret_count)
{
	/* Only counted lines give units back. The second part is one row per SKU: its first end after now. */
	static const struct pg_statement statement = {
		"reservation_due",
		"SELECT u.n, true, h.reservation_id, h.expires_at FROM unnest($1) WITH ORDINALITY AS u(id, n),"
		" LATERAL (SELECT k.reservation_id, k.expires_at FROM hold k WHERE k.sku_id = u.id AND k.counted"
		" AND k.expires_at <= (SELECT clock_timestamp()) ORDER BY k.expires_at LIMIT $2) h"
		" UNION ALL "
		"SELECT u.n, false, NULL, h.expires_at FROM unnest($1) WITH ORDINALITY AS u(id, n),"
		" LATERAL (SELECT k.expires_at FROM hold k WHERE k.sku_id = u.id AND k.counted"
		" AND k.expires_at > (SELECT clock_timestamp()) ORDER BY k.expires_at LIMIT 1) h",
	};
	int64_t *ids = ARENA_ARRAY(arena, count, int64_t);
	for (size_t i = 0; i < count; i++)
		ids[i] = skus[i]->id;
	struct pg_params p;
	pg_params_init(&p, arena);
	pg_add_int8s(&p, ids, sizeof *ids, count);
	pg_add_int8(&p, (int64_t)limit + 1);
	PGresult *r;
	enum lu_error error = pg_query(pg, &statement, &p, deadline_ns, &r);
	if (error)
		return error;
	size_t row_count = (size_t)PQntuples(r), due_count = 0;
	struct due *dues = ARENA_ARRAY(arena, row_count, struct due);
	int64_t *next_us = ARENA_ARRAY(arena, count, int64_t);
	for (int i = 0; i < (int)row_count; i++) {
		size_t sku = (size_t)pg_get_int(r, i, 0) - 1;
		CHECK(sku < count);
		if (pg_get_bool(r, i, 1))
			dues[due_count++] = (struct due){pg_get_uuid(r, i, 2), pg_get_time(r, i, 3), sku};
		else
			next_us[sku] = pg_get_time(r, i, 3);
	}
	PQclear(r);

	for (size_t i = 0; i < count; i++)
		skus[i]->holds_more = false;
	struct uuid *chosen = ARENA_ARRAY(arena, due_count, struct uuid);
	size_t chosen_count = choose(dues, due_count, limit, skus, chosen);
	pg_params_init(&p, arena);
	pg_add_uuids(&p, chosen, sizeof *chosen, chosen_count);
	error = pg_query(pg, &reservation_read_statement, &p, deadline_ns, &r);
	if (error)
		return error;
	*ret_due = reservations_get(r, arena, ret_count);
	PQclear(r);
	if (*ret_count > 0)
		qsort(*ret_due, *ret_count, sizeof **ret_due, by_expiry);
	for (size_t i = 0; i < count; i++) {
		skus[i]->holds_known = true;
		skus[i]->next_release_us = next_us[i];
	}
	return LU_OK;
}

enum lu_error reservation_overdue(struct pg *pg, struct arena *arena, const struct overdue_filter *filter, size_t limit,
                                  int64_t deadline_ns, struct reservation ***ret_due, size_t *ret_count,
                                  int64_t *ret_next_in_us)
{
	static const struct pg_statement due = {
		"reservation_overdue",
		"SELECT " RESERVATION_COLUMNS
		" FROM reservation r WHERE r.state = 1"
		" AND r.expires_at <= (SELECT clock_timestamp()) AND r.id <> ALL($1) AND NOT r.sku_ids && $2"
		" AND (r.expires_at, r.id) > (coalesce($4, '-infinity'), $5) ORDER BY r.expires_at, r.id LIMIT $3",
	};
	static const struct pg_statement next = {
		"reservation_next_end",
		"SELECT r.expires_at, clock_timestamp() FROM reservation r WHERE r.state = 1"
		" AND r.expires_at > (SELECT clock_timestamp()) ORDER BY r.expires_at LIMIT 1",
	};
	struct pg_params p;
	pg_params_init(&p, arena);
	pg_add_uuids(&p, filter->ids, sizeof *filter->ids, filter->count);
	pg_add_int8s(&p, filter->sku_ids, sizeof *filter->sku_ids, filter->sku_count);
	pg_add_int8(&p, (int64_t)limit);
	pg_add_time(&p, filter->after_us);
	pg_add_after(&p, &filter->after_id);
	/* The next end is asked first: what becomes due between the two statements is found by the second. */
	PGresult *due_rows, *next_row;
	enum lu_error error = pg_query(pg, &next, NULL, deadline_ns, &next_row);
	if (error)
		return error;
	int64_t next_in_us = INT64_MAX;
	if (PQntuples(next_row) > 0)
		next_in_us = pg_get_time(next_row, 0, 0) - pg_get_time(next_row, 0, 1);
	PQclear(next_row);
	error = pg_query(pg, &due, &p, deadline_ns, &due_rows);
	if (error)
		return error;
	*ret_due = reservations_get(due_rows, arena, ret_count);
	PQclear(due_rows);
	*ret_next_in_us = *ret_count >= limit ? 0 : next_in_us > 0 ? next_in_us : 0; /* cut off: there is more at once */
	return LU_OK;
}
