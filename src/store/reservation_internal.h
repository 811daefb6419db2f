/* What reservation.c and reservation_due.c share; nobody else includes it. */
#ifndef STORE_RESERVATION_INTERNAL_H
#define STORE_RESERVATION_INTERNAL_H

#include "store/lines.h"
#include "store/reservation.h"

/* The caller is remembered by what is held for it; an ended reservation has none. */
#define RESERVATION_COLUMNS                                                                                         \
	"r.id, r.principal_id, r.channel, r.state, r.reference, r.created_at, r.expires_at, r.ended_at, r.checkout_id," \
	" (SELECT h.caller FROM hold h WHERE h.reservation_id = r.id LIMIT 1), " LINES_COLUMNS("r")
#define RESERVATION_COLUMN_COUNT (10 + LINES_COLUMN_COUNT)

extern const struct pg_statement reservation_read_statement; /* $1: ids */

struct reservation *reservation_take_row(const PGresult *r, int row, struct arena *arena);
struct reservation **reservations_get(const PGresult *r, struct arena *arena, size_t *ret_count);

#endif
