/* Reservations: units held for a while, then committed, released or expired.
 *
 * Happy path: POST decodes a cart and submits it; the transitions submit an operation on the id in the path. GET reads
 * the row together with the database's clock. A GET that finds a hold due expires it first and answers what then stands
 * there, so that nobody is ever shown a hold as live that can no longer be committed.
 * Failure modes: another's reservation without the scope `orders` is 404; if a due hold cannot be expired just now it is
 * shown as expired all the same, and the reaper does the rest.
 */
#include "api/call.h"
#include "api/handlers.h"
#include "api/render.h"
#include "base/clock.h"
#include "base/container.h"
#include "base/id.h"
#include "http/auth.h"
#include "http/problem.h"
#include "store/reservation.h"
#include "store/tx.h"

void reservation_post(struct request *request)
{
	call_run(call_new(request, OPERATION_RESERVE), call_reply);
}

static void run_on_path(struct request *request, enum operation_kind kind)
{
	struct uuid id;
	if (!take_path_id(request, LU_UNKNOWN_RESERVATION, &id))
		return;
	struct call *call = call_new(request, kind);
	call->operation.target = id;
	call_run(call, call_reply);
}

void reservation_commit(struct request *request)
{
	run_on_path(request, OPERATION_COMMIT);
}

void reservation_release(struct request *request)
{
	run_on_path(request, OPERATION_RELEASE);
}

void reservation_extend(struct request *request)
{
	run_on_path(request, OPERATION_EXTEND);
}

/* --- one ---------------------------------------------------------------------------------------------------------- */

/* A look does not wait longer than this for the hold it finds due to be expired: somebody may hold its SKUs' rows. */
#define EXPIRE_MS 1000

struct shown {
	struct ask ask;
	struct call call; /* the expiry, if it is due */
	struct uuid id;
	bool expired_by_us;
	struct reservation *reservation; /* NULL: none such */
	int64_t now_us;
};

/* On a loader's thread. */
static enum lu_error read_reservation(struct query *query, struct pg *pg)
{
	struct shown *shown = (struct shown *)query; /* its first member's first member */
	return reservation_find(pg, query->arena, &shown->id, query->deadline_ns, &shown->reservation, &shown->now_us);
}

static void reply_shown(struct shown *shown)
{
	struct request *request = shown->ask.request;
	struct json_writer w = json_writer(loop_out(loop_of(request)));
	render_reservation(&w, shown->reservation, shown->now_us);
	request_reply_json(request, 200, w.out);
}

static void on_reservation(struct ask *ask);

static void on_not_read_again(struct ask *ask)
{
	reply_shown((struct shown *)ask);
}

/* Whatever came of the expiry, the row tells it: another may have ended the hold first. If it is still there, or
 * cannot be read now, it is due all the same, and shown so. */
static void on_expired(struct call *call)
{
	struct shown *shown = CONTAINER_OF(call, struct shown, call);
	shown->ask.on_error = on_not_read_again;
	ask_run(&shown->ask, read_reservation, on_reservation);
}

static void expire(struct shown *shown)
{
	struct text detail;
	shown->expired_by_us = true;
	call_init(&shown->call, shown->ask.request, OPERATION_EXPIRE, shown->ask.query.arena);
	shown->call.operation.target = shown->id;
	int64_t soon_ns = deadline_in_ms(EXPIRE_MS);
	if (shown->call.operation.deadline_ns > soon_ns)
		shown->call.operation.deadline_ns = soon_ns;
	if (call_submit(&shown->call, on_expired, &detail))
		reply_shown(shown);
}

static void on_reservation(struct ask *ask)
{
	struct shown *shown = (struct shown *)ask;
	const struct reservation *found = shown->reservation;
	if (!found || !sees_object_of(request_principal(ask->request), found->principal_id)) {
		problem_reply(ask->request, LU_UNKNOWN_RESERVATION, (struct text){0});
		return;
	}
	bool due = reservation_state_at(found, shown->now_us) != found->state;
	if (due && !shown->expired_by_us)
		expire(shown);
	else
		reply_shown(shown);
}

void reservation_get(struct request *request)
{
	struct shown *shown = ARENA_NEW(request_arena(request), struct shown);
	if (!take_query_names(request, (const char *const[]){NULL}) ||
	    !take_path_id(request, LU_UNKNOWN_RESERVATION, &shown->id))
		return;
	ask_init(&shown->ask, request);
	ask_run(&shown->ask, read_reservation, on_reservation);
}

/* --- list --------------------------------------------------------------------------------------------------------- */

struct listed {
	struct ask ask;
	struct reservation_filter filter;
	struct reservation **rows;
	size_t count;
	struct uuid walked; /* nil, or where to go on though the page is not full */
	int64_t now_us;
};

/* On a loader's thread. */
static enum lu_error read_page(struct query *query, struct pg *pg)
{
	struct listed *listed = (struct listed *)query;
	struct reservation_filter filter = listed->filter;
	filter.limit++; /* is there a next page? */
	enum lu_error error = reservation_page(pg, query->arena, &filter, query->deadline_ns, &listed->rows, &listed->count,
	                                       &listed->walked);
	return error ? error : tx_clock_read(pg, query->deadline_ns, &listed->now_us);
}

static void on_page(struct ask *ask)
{
	struct listed *listed = (struct listed *)ask;
	struct json_writer w = json_writer(loop_out(loop_of(ask->request)));
	bool more = listed->count > listed->filter.limit;
	size_t count = more ? listed->filter.limit : listed->count;
	json_object_open(&w);
	json_key(&w, "items");
	json_array_open(&w);
	for (size_t i = 0; i < count; i++) {
		const struct reservation *row = listed->rows[i];
		/* Due but not yet expired: no longer what was asked for. */
		if (!listed->filter.state || reservation_state_at(row, listed->now_us) == listed->filter.state)
			render_reservation(&w, row, listed->now_us);
	}
	json_array_close(&w);
	json_key(&w, "next");
	if (more)
		json_put_uuid(&w, &listed->rows[count - 1]->id);
	else if (!uuid_is_nil(&listed->walked))
		json_put_uuid(&w, &listed->walked);
	else
		json_put_null(&w);
	json_object_close(&w);
	request_reply_json(ask->request, 200, w.out);
}

static bool take_state(struct request *request, enum reservation_state *ret_state)
{
	struct text text;
	if (!request_query(request, "status", 0, &text) || reservation_state_parse(text, ret_state))
		return true;
	problem_reply(request, LU_INVALID_FIELD,
	              TEXT("The query's `status` must be active, committed, released or expired."));
	return false;
}

void reservation_list(struct request *request)
{
	struct listed *listed = ARENA_NEW(request_arena(request), struct listed);
	struct reservation_filter *filter = &listed->filter;
	const struct principal *principal = request_principal(request);
	if (!take_query_names(request, (const char *const[]){"sku", "status", "reference", "after", "limit", NULL}) ||
	    !take_query_sku(request, "sku", &filter->sku) || !take_state(request, &filter->state) ||
	    !take_query_text(request, "reference", &filter->reference) ||
	    !take_query_id(request, "after", &filter->after) || !take_limit(request, &filter->limit))
		return;
	filter->principal_id = sees_all(principal) ? 0 : principal->id;
	ask_init(&listed->ask, request);
	ask_run(&listed->ask, read_page, on_page);
}
