/* Checkouts: finished sales.
 *
 * Happy path: POST decodes a cart and submits it; cancel restocks; GET reads the row by id, or all of one reference.
 * Failure modes: another's checkout without the scope `orders` is 404.
 */
#include "api/call.h"
#include "api/handlers.h"
#include "api/render.h"
#include "http/auth.h"
#include "http/problem.h"
#include "store/checkout.h"

void checkout_post(struct request *request)
{
	call_run(call_new(request, OPERATION_CHECKOUT), call_reply);
}

void checkout_cancel(struct request *request)
{
	struct uuid id;
	if (!take_path_id(request, LU_UNKNOWN_CHECKOUT, &id))
		return;
	struct call *call = call_new(request, OPERATION_CANCEL);
	call->operation.target = id;
	call_run(call, call_reply);
}

/* --- one ---------------------------------------------------------------------------------------------------------- */

struct shown {
	struct ask ask;
	struct uuid id;
	struct checkout *checkout; /* NULL: none such */
};

/* On a loader's thread. */
static enum lu_error read_checkout(struct query *query, struct pg *pg)
{
	struct shown *shown = (struct shown *)query; /* its first member's first member */
	struct checkout **rows;
	size_t count = 0;
	checkout_read_send(pg, query->arena, &shown->id, 1);
	enum lu_error error = pg_pipe_send(pg, query->deadline_ns);
	if (!error)
		error = checkout_read_take(pg, query->deadline_ns, query->arena, &rows, &count);
	enum lu_error ended = pg_pipe_end(pg, query->deadline_ns);
	if (!error)
		error = ended;
	shown->checkout = !error && count ? rows[0] : NULL;
	return error;
}

static void on_checkout(struct ask *ask)
{
	struct shown *shown = (struct shown *)ask;
	const struct checkout *found = shown->checkout;
	if (!found || !sees_object_of(request_principal(ask->request), found->principal_id)) {
		problem_reply(ask->request, LU_UNKNOWN_CHECKOUT, (struct text){0});
		return;
	}
	struct json_writer w = json_writer(loop_out(loop_of(ask->request)));
	render_checkout(&w, found);
	request_reply_json(ask->request, 200, w.out);
}

void checkout_get(struct request *request)
{
	struct shown *shown = ARENA_NEW(request_arena(request), struct shown);
	if (!take_query_names(request, (const char *const[]){NULL}) ||
	    !take_path_id(request, LU_UNKNOWN_CHECKOUT, &shown->id))
		return;
	ask_init(&shown->ask, request);
	ask_run(&shown->ask, read_checkout, on_checkout);
}

/* --- list --------------------------------------------------------------------------------------------------------- */

struct listed {
	struct ask ask;
	struct text reference;
	int64_t principal_id;
	struct uuid after;
	size_t limit;
	struct checkout **rows;
	size_t count;
};

/* On a loader's thread. */
static enum lu_error read_page(struct query *query, struct pg *pg)
{
	struct listed *listed = (struct listed *)query;
	return checkout_page(pg, query->arena, listed->reference, listed->principal_id, &listed->after, listed->limit + 1,
	                     query->deadline_ns, &listed->rows, &listed->count);
}

static void on_page(struct ask *ask)
{
	struct listed *listed = (struct listed *)ask;
	struct json_writer w = json_writer(loop_out(loop_of(ask->request)));
	bool more = listed->count > listed->limit;
	size_t count = more ? listed->limit : listed->count;
	json_object_open(&w);
	json_key(&w, "items");
	json_array_open(&w);
	for (size_t i = 0; i < count; i++)
		render_checkout(&w, listed->rows[i]);
	json_array_close(&w);
	json_key(&w, "next");
	if (more)
		json_put_uuid(&w, &listed->rows[count - 1]->id);
	else
		json_put_null(&w);
	json_object_close(&w);
	request_reply_json(ask->request, 200, w.out);
}

void checkout_list(struct request *request)
{
	struct listed *listed = ARENA_NEW(request_arena(request), struct listed);
	const struct principal *principal = request_principal(request);
	if (!take_query_names(request, (const char *const[]){"reference", "after", "limit", NULL}) ||
	    !take_query_text(request, "reference", &listed->reference) ||
	    !take_query_id(request, "after", &listed->after) || !take_limit(request, &listed->limit))
		return;
	if (!listed->reference.data) {
		problem_reply(request, LU_INVALID_FIELD, TEXT("The query must have `reference`: ?reference=order-1001."));
		return;
	}
	listed->principal_id = sees_all(principal) ? 0 : principal->id;
	ask_init(&listed->ask, request);
	ask_run(&listed->ask, read_page, on_page);
}
