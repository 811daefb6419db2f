/* Orders of a marketplace, by its own numbers and versions.
 *
 * Happy path: PUT submits the lines that a version has; whichever version is the highest stands. GET reads it.
 * Failure modes: a number belongs to the principal that sent it; another's does not exist (404), whatever the scopes, for
 * two marketplaces may use the same one.
 */
#include "api/call.h"
#include "api/handlers.h"
#include "api/render.h"
#include "base/text.h"
#include "http/auth.h"
#include "http/problem.h"
#include "store/order.h"

static bool take_path_number(struct request *request, struct text *ret_number)
{
	*ret_number = request_param(request, 0);
	if (ret_number->size && !text_check_free(*ret_number, LU_ORDER_NUMBER_BYTES_MAX))
		return true;
	problem_reply(request, LU_INVALID_FIELD,
	              TEXT("An order's number in the path must be 1 to 255 bytes of UTF-8 without noncharacters, without "
	                   "control characters but tab and line ends."));
	return false;
}

void order_put(struct request *request)
{
	struct text number;
	if (!take_path_number(request, &number))
		return;
	struct call *call = call_new(request, OPERATION_ORDER_PUT);
	call->operation.number = number;
	call_run(call, call_reply);
}

struct shown {
	struct ask ask;
	int64_t principal_id;
	struct text number;
	struct order *order; /* NULL: none such */
};

/* On a loader's thread. */
static enum lu_error read_order(struct query *query, struct pg *pg)
{
	struct shown *shown = (struct shown *)query; /* its first member's first member */
	return order_read(pg, query->arena, shown->principal_id, shown->number, query->deadline_ns, &shown->order);
}

static void on_order(struct ask *ask)
{
	struct shown *shown = (struct shown *)ask;
	if (!shown->order) {
		problem_reply(ask->request, LU_UNKNOWN_ORDER, (struct text){0});
		return;
	}
	struct json_writer w = json_writer(loop_out(loop_of(ask->request)));
	render_order(&w, shown->order);
	request_reply_json(ask->request, 200, w.out);
}

void order_get(struct request *request)
{
	struct shown *shown = ARENA_NEW(request_arena(request), struct shown);
	if (!take_query_names(request, (const char *const[]){NULL}) || !take_path_number(request, &shown->number))
		return;
	shown->principal_id = request_principal(request)->id;
	ask_init(&shown->ask, request);
	ask_run(&shown->ask, read_order, on_order);
}
