/* Turns. Failure modes: what is refused at once comes to on_done like everything else, but from inside the call, and so
 * does a name that is known. A channel may therefore do nothing behind it. */
#include "channels/turn.h"

#include "api/render.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/container.h"
#include "base/metrics.h"
#include "channels/names.h"
#include "http/auth.h"
#include "store/reservation.h"

void turn_init(struct turn *turn, struct request *request)
{
	*turn = (struct turn){.request = request, .arena = request_arena(request)};
}

static void finish(struct turn *turn, enum lu_error error, struct text detail)
{
	turn->error = error;
	turn->detail = detail;
	turn->on_done(turn);
}

/* --- search ------------------------------------------------------------------------------------------------------- */

/* On a loader's thread. */
static enum lu_error search(struct query *query, struct pg *pg)
{
	struct turn *turn = CONTAINER_OF(query, struct turn, ask.query);
	return search_products(pg, query->arena, turn->said, turn->limit, query->deadline_ns, &turn->products,
	                       &turn->product_count);
}

/* On a loader's thread. */
static enum lu_error find(struct query *query, struct pg *pg)
{
	struct turn *turn = CONTAINER_OF(query, struct turn, ask.query);
	enum lu_error error = search_product(pg, query->arena, turn->product_id, turn->said, query->deadline_ns,
	                                     &turn->products);
	turn->product_count = !error && turn->products;
	return error;
}

/* On a loader's thread. */
static enum lu_error name(struct query *query, struct pg *pg)
{
	struct turn *turn = CONTAINER_OF(query, struct turn, ask.query);
	enum lu_error error = search_name(pg, query->arena, turn->product_id, query->deadline_ns, &turn->products);
	turn->product_count = !error && turn->products;
	return error;
}

static void on_searched(struct ask *ask)
{
	struct turn *turn = CONTAINER_OF(ask, struct turn, ask);
	if (!ask->query.error && *turn->namespace)
		names_put(loop_of(turn->request)->names, turn->namespace, turn->asked_ns, turn->products, turn->product_count);
	finish(turn, ask->query.error, (struct text){0});
}

static void prepare(struct turn *turn, void (*on_done)(struct turn *turn))
{
	turn->on_done = on_done;
	turn->asked_ns = clock_boottime_ns();
	if (!inventory_lease(loop_of(turn->request)->inventory, turn->namespace))
		*turn->namespace = 0;
}

static void run(struct turn *turn, enum lu_error (*how)(struct query *query, struct pg *pg),
                void (*on_answer)(struct ask *ask))
{
	ask_init(&turn->ask, turn->request);
	turn->ask.on_error = on_answer;
	ask_run(&turn->ask, how, on_answer);
}

void turn_search(struct turn *turn, struct text said, size_t limit, void (*on_done)(struct turn *turn))
{
	prepare(turn, on_done);
	turn->said = said;
	turn->limit = limit;
	run(turn, search, on_searched);
}

void turn_find(struct turn *turn, int64_t product_id, void (*on_done)(struct turn *turn))
{
	prepare(turn, on_done);
	turn->product_id = product_id;
	run(turn, find, on_searched);
}

void turn_find_code(struct turn *turn, struct text code, void (*on_done)(struct turn *turn))
{
	prepare(turn, on_done);
	turn->said = code;
	run(turn, find, on_searched);
}

void turn_name(struct turn *turn, int64_t product_id, void (*on_done)(struct turn *turn))
{
	prepare(turn, on_done);
	turn->product_id = product_id;
	turn->products = ARENA_NEW(turn->arena, struct product);
	if (*turn->namespace && names_get(loop_of(turn->request)->names, turn->namespace, turn->asked_ns, product_id,
	                                  turn->arena, turn->products)) {
		turn->product_count = 1;
		metric_add(METRIC_NAMES_KNOWN, 1);
		finish(turn, LU_OK, (struct text){0});
		return;
	}
	metric_add(METRIC_NAMES_ASKED, 1);
	run(turn, name, on_searched);
}

/* --- look-up ------------------------------------------------------------------------------------------------------ */

static void on_looked_up(struct lookup *lookup)
{
	finish(CONTAINER_OF(lookup, struct turn, lookup), lookup->error, (struct text){0});
}

void turn_look_up(struct turn *turn, const struct text *skus, size_t count, void (*on_done)(struct turn *turn))
{
	CHECK(count && count <= LU_LOOKUP_MAX);
	turn->on_done = on_done;
	turn->items = ARENA_ARRAY(turn->arena, count, struct lookup_item);
	turn->item_count = count;
	for (size_t i = 0; i < count; i++)
		turn->items[i].sku = skus[i];
	turn->lookup = (struct lookup){.arena = turn->arena,
	                               .deadline_ns = request_deadline_ns(turn->request),
	                               .items = turn->items,
	                               .item_count = count,
	                               .on_done = on_looked_up};
	reader_lookup(loop_of(turn->request)->reader, &turn->lookup);
}

/* --- operation ---------------------------------------------------------------------------------------------------- */

struct operation *turn_operation(struct turn *turn, enum operation_kind kind)
{
	call_init(&turn->call, turn->request, kind, turn->arena);
	return &turn->call.operation;
}

/* On a loader's thread. */
static enum lu_error stand(struct query *query, struct pg *pg)
{
	struct turn *turn = CONTAINER_OF(query, struct turn, ask.query);
	struct verdict *verdict = &turn->call.operation.verdict;
	return reservation_find(pg, query->arena, &verdict->object_id, query->deadline_ns, &verdict->reservation,
	                        &verdict->at_us);
}

static enum lu_error error_of_standing(const struct operation *operation)
{
	const struct verdict *verdict = &operation->verdict;
	if (!verdict->reservation)
		return LU_UNKNOWN_RESERVATION;
	if (!verdict->reservation->line_count)
		return LU_INTERNAL; /* its lines are damaged (store/lines.c): nobody can say what is held */
	switch (reservation_state_at(verdict->reservation, verdict->at_us)) {
	case RESERVATION_ACTIVE:
		return caller_may_have(operation->caller, verdict->reservation->caller) ? LU_OK : LU_FORBIDDEN;
	case RESERVATION_EXPIRED:
		return LU_RESERVATION_EXPIRED;
	default:
		return LU_RESERVATION_NOT_ACTIVE;
	}
}

static void on_standing(struct ask *ask)
{
	struct turn *turn = CONTAINER_OF(ask, struct turn, ask);
	enum lu_error error = ask->query.error;
	finish(turn, error ? error : error_of_standing(&turn->call.operation), (struct text){0});
}

static void on_decided(struct call *call)
{
	struct turn *turn = CONTAINER_OF(call, struct turn, call);
	const struct verdict *verdict = &call->operation.verdict;
	if (verdict->replayed && !verdict->error && call->operation.kind == OPERATION_RESERVE) {
		run(turn, stand, on_standing);
		return;
	}
	finish(turn, verdict->error,
	       verdict->error ? verdict_detail(call->operation.arena, call->operation.kind, verdict) : (struct text){0});
}

void turn_operate(struct turn *turn, struct text key, void (*on_done)(struct turn *turn))
{
	struct text detail;
	turn->on_done = on_done;
	turn->call.operation.key = key;
	turn->call.operation.client_key = key.size > 0;
	enum lu_error error = call_submit(&turn->call, on_decided, &detail);
	if (error)
		finish(turn, error, detail);
}
