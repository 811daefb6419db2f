/* Operations whose SKUs stand in the database (loader.h): those of a reservation or a sale that they name by its id.
 *
 * Happy path: take all that wait → their objects, read in one round trip → the SKUs of each are known, so it can be claimed
 * for → the queue. Nothing is locked: which SKUs an object has never changes, and all else about it is read again behind
 * the locks (I2).
 * Failure modes: no such object, PostgreSQL away, past the deadline, the queue full or closed: refused here.
 */
#include "base/clock.h"
#include "base/id.h"
#include "inventory/loader_internal.h"
#include "inventory/prepare.h"
#include "store/checkout.h"
#include "store/reservation.h"

void loader_refuse(struct operation *operation, enum lu_error error)
{
	operation->verdict = (struct verdict){.error = error};
	operation->on_done(operation);
}

/* The objects that operations name. */
struct objects {
	struct uuid *reservation_ids, *checkout_ids;
	size_t reservation_id_count, checkout_id_count;
	struct reservation **reservations;
	struct checkout **checkouts;
	size_t reservation_count, checkout_count;
};

/* Adds the SKUs of the object an operation names. False: there is no such object. */
static bool resolve_one(struct operation *op, const struct uuid *id, const struct objects *o)
{
	if (uuid_is_nil(id))
		return true;
	for (size_t i = 0; i < o->reservation_count; i++)
		if (uuid_equal(&o->reservations[i]->id, id)) {
			operation_add_skus(op, o->reservations[i]->lines, o->reservations[i]->line_count);
			return true;
		}
	for (size_t i = 0; i < o->checkout_count; i++)
		if (uuid_equal(&o->checkouts[i]->id, id)) {
			operation_add_skus(op, o->checkouts[i]->lines, o->checkouts[i]->line_count);
			return true;
		}
	return false;
}

static enum lu_error read_objects(struct loader *l, struct objects *o, int64_t deadline_ns)
{
	reservation_read_send(l->pg, &l->arena, o->reservation_ids, o->reservation_id_count);
	checkout_read_send(l->pg, &l->arena, o->checkout_ids, o->checkout_id_count);
	enum lu_error error = pg_pipe_send(l->pg, deadline_ns);
	if (!error)
		error = reservation_read_take(l->pg, deadline_ns, &l->arena, &o->reservations, &o->reservation_count);
	if (!error)
		error = checkout_read_take(l->pg, deadline_ns, &l->arena, &o->checkouts, &o->checkout_count);
	enum lu_error end = pg_pipe_end(l->pg, deadline_ns);
	return error ? error : end;
}

/* Refuses those whose time is up; the earliest deadline of the rest, at most *deadline_ns. */
static size_t drop_late(struct operation **ops, size_t count, int64_t *deadline_ns)
{
	int64_t late_ns = deadline_in_ms(LOADER_LATE_MS);
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		if (ops[i]->deadline_ns <= late_ns) {
			loader_refuse(ops[i], LU_DEADLINE_EXCEEDED);
			continue;
		}
		if (ops[i]->deadline_ns < *deadline_ns)
			*deadline_ns = ops[i]->deadline_ns;
		ops[kept++] = ops[i];
	}
	return kept;
}

/* The reading, until the first of the deadlines: whose it was is refused, and for the others it is asked again. */
static enum lu_error select_objects(struct loader *l, struct objects *o, struct operation **ops, size_t *count)
{
	int64_t last_ns = deadline_in_ms(LOADER_SELECT_MS);
	enum lu_error error = LU_DATABASE_UNAVAILABLE;
	for (;;) {
		int64_t deadline_ns = last_ns;
		*count = drop_late(ops, *count, &deadline_ns);
		if (*count == 0)
			return error;
		for (int tries = 0; loader_again(l, &error, deadline_ns, &tries);)
			error = read_objects(l, o, deadline_ns);
		if (!error || deadline_ns == last_ns || clock_boottime_ns() < deadline_ns)
			return error;
	}
}

void loader_run_resolves(struct loader *l, struct operation **ops, size_t count)
{
	arena_reset(&l->arena);
	struct objects o = {.reservation_ids = ARENA_ARRAY(&l->arena, 2 * count, struct uuid),
	                    .checkout_ids = ARENA_ARRAY(&l->arena, count, struct uuid)};
	for (size_t i = 0; i < count; i++) {
		if (ops[i]->kind == OPERATION_CANCEL)
			o.checkout_ids[o.checkout_id_count++] = ops[i]->target;
		else if (!uuid_is_nil(&ops[i]->target))
			o.reservation_ids[o.reservation_id_count++] = ops[i]->target;
		if (!uuid_is_nil(&ops[i]->other))
			o.reservation_ids[o.reservation_id_count++] = ops[i]->other;
	}
	enum lu_error error = select_objects(l, &o, ops, &count);
	for (size_t i = 0; i < count; i++) {
		struct operation *op = ops[i];
		if (error) {
			loader_refuse(op, LU_DATABASE_UNAVAILABLE);
			continue;
		}
		if (!resolve_one(op, &op->target, &o) || !resolve_one(op, &op->other, &o)) {
			loader_refuse(op, op->kind == OPERATION_CANCEL ? LU_UNKNOWN_CHECKOUT : LU_UNKNOWN_RESERVATION);
			continue;
		}
		operation_claim(op);
		enum lu_error refused = queue_submit(l->all->queue, op);
		if (refused)
			loader_refuse(op, refused);
	}
}
