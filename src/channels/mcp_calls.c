/* What the tools of MCP do: find, check, hold, release, buy.
 *
 * Happy path: a call checks its arguments by the rules of the API's bodies, takes one turn, and answers a structured result
 * whose text says the same. "Sold out" is an answer, not an error: an agent must be able to tell it from a fault.
 * Failure modes: arguments that are not valid, and an outcome that only trying again can tell, are results with isError,
 * in words that a model can act upon.
 */
#include "api/render.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/text.h"
#include "channels/mcp.h"
#include "channels/offer.h"
#include "http/auth.h"

#define FIND_LIMIT 5
#define FIND_LIMIT_MAX 20
#define QUERY_BYTES_MAX 400
#define ANONYMOUS_TTL_S 120

/* --- results ------------------------------------------------------------------------------------------------------ */

/* {"content": [the text], … up to isError. */
static struct json_writer content_open(struct mcp *mcp, struct text text)
{
	struct json_writer w = mcp_result_open(mcp);
	json_key(&w, "content");
	json_array_open(&w);
	json_object_open(&w);
	json_member_string(&w, "type", "text");
	json_key(&w, "text");
	json_put_text(&w, text);
	json_object_close(&w);
	json_array_close(&w);
	return w;
}

/* `structured`: a whole JSON object; the text says the same for clients that only read text. */
static void reply_structured(struct mcp *mcp, struct text structured)
{
	struct json_writer w = content_open(mcp, structured);
	json_key(&w, "structuredContent");
	json_put_raw(&w, structured);
	json_member_bool(&w, "isError", false);
	mcp_result_send(mcp, &w);
}

/* For the model: what is wrong and what it can do. */
void mcp_reply_fault(struct mcp *mcp, struct text sentence)
{
	struct json_writer w = content_open(mcp, sentence);
	json_member_bool(&w, "isError", true);
	mcp_result_send(mcp, &w);
}

void mcp_reply_error(struct mcp *mcp, enum lu_error error, struct text detail)
{
	if (!detail.size)
		detail = text_of(lu_error_mend(error));
	mcp_reply_fault(mcp,
	                arena_printf(mcp->turn.arena, "%s: %.*s", lu_error_code(error), (int)detail.size, detail.data));
}

/* The structured result is built here and copied out by reply_structured(). */
static struct json_writer structured_open(struct buffer *buffer)
{
	struct json_writer w = json_writer(buffer);
	json_object_open(&w);
	return w;
}

static void structured_send(struct mcp *mcp, struct json_writer *w)
{
	json_object_close(w);
	reply_structured(mcp, buffer_text(w->out));
	buffer_done(w->out);
}

/* --- find --------------------------------------------------------------------------------------------------------- */

static void on_found(struct turn *turn)
{
	struct mcp *mcp = (struct mcp *)turn;
	if (turn->error) {
		mcp_reply_error(mcp, turn->error, turn->detail);
		return;
	}
	struct buffer buffer = {0};
	struct json_writer w = structured_open(&buffer);
	json_key(&w, "items");
	json_array_open(&w);
	for (size_t i = 0; i < turn->product_count; i++) {
		const struct product *row = &turn->products[i];
		struct lookup_item item = {.sku = row->code, .known = true, .figures = row->figures};
		render_availability_open(&w, &item, request_principal(turn->request));
		json_key(&w, "titles");
		json_put_jsonb(&w, row->titles_json);
		json_object_close(&w);
	}
	json_array_close(&w);
	structured_send(mcp, &w);
}

void mcp_find_products(struct mcp *mcp, const json_t *arguments)
{
	const json_t *query = json_object_get(arguments, "query"), *limit = json_object_get(arguments, "limit");
	int64_t count = FIND_LIMIT;
	if (!json_is_string(query) || !json_text(query).size || json_text(query).size > QUERY_BYTES_MAX) {
		mcp_reply_fault(mcp, TEXT("query must be a text of 1 to 400 bytes."));
		return;
	}
	if (limit && !json_is_null(limit)) {
		count = json_is_integer(limit) ? json_integer_value(limit) : 0;
		if (count < 1 || count > FIND_LIMIT_MAX) {
			mcp_reply_fault(mcp, TEXT("limit must be an integer from 1 to 20."));
			return;
		}
	}
	turn_search(&mcp->turn, json_text(query), (size_t)count, on_found);
}

/* --- check -------------------------------------------------------------------------------------------------------- */

static void on_checked(struct turn *turn)
{
	struct mcp *mcp = (struct mcp *)turn;
	if (turn->error) {
		mcp_reply_error(mcp, turn->error, turn->detail);
		return;
	}
	const struct principal *principal = request_principal(turn->request);
	struct buffer buffer = {0};
	struct json_writer w = structured_open(&buffer);
	json_key(&w, "items");
	json_array_open(&w);
	for (size_t i = 0; i < turn->item_count; i++)
		render_availability(&w, &turn->items[i], principal);
	json_array_close(&w);
	char offer[OFFER_BYTES + 1];
	offer_mint(inventory_secret(loop_of(turn->request)->inventory), principal->id, offer);
	json_member_string(&w, "offer_id", offer);
	json_key(&w, "as_of");
	json_put_time(&w, clock_unix_us());
	structured_send(mcp, &w);
}

void mcp_check_stock(struct mcp *mcp, const json_t *arguments)
{
	struct text *skus;
	size_t count;
	struct fault fault;
	if (body_skus(arguments, mcp->turn.arena, &skus, &count, &fault))
		turn_look_up(&mcp->turn, skus, count, on_checked);
	else
		mcp_reply_error(mcp, fault.error, fault.detail);
}

/* --- hold --------------------------------------------------------------------------------------------------------- */

/* A refusal of the inventory is an answer; anything else the model must act upon. */
static bool is_refusal(enum lu_error error)
{
	return lu_error_stored(error) || error == LU_UNKNOWN_RESERVATION;
}

/* How a hold has ended that was over before it was asked about. */
static void put_ended(struct json_writer *w, enum reservation_state state)
{
	json_member_string(w, "status", reservation_state_name(state));
	json_member_string(w, "next",
	                   state == RESERVATION_COMMITTED
	                       ? "It was bought: nothing is left to do. To hold more, call check_stock for a new offer_id."
	                       : "Nothing is held any more. To hold again, call check_stock for a new offer_id.");
}

static void put_unknown(struct json_writer *w)
{
	json_member_string(w, "next", "No hold of yours has this hold_id: use the one that hold returned.");
}

static struct operation *begin_operation(struct mcp *mcp, enum operation_kind kind)
{
	struct operation *operation = turn_operation(&mcp->turn, kind);
	mcp->turn.call.one_of_many = mcp->batch;
	return operation;
}

static void on_held(struct turn *turn)
{
	struct mcp *mcp = (struct mcp *)turn;
	const struct verdict *verdict = &turn->call.operation.verdict;
	if (turn->error == LU_IDEMPOTENCY_CONFLICT) {
		mcp_reply_fault(mcp,
		                TEXT("This offer_id has already been used for another cart. Call check_stock for a new one."));
		return;
	}
	if (turn->error && !is_refusal(turn->error)) {
		mcp_reply_error(mcp, turn->error, turn->detail);
		return;
	}
	struct buffer buffer = {0};
	struct json_writer w = structured_open(&buffer);
	json_member_bool(&w, "granted", !turn->error);
	if (turn->error) {
		json_member_string(&w, "code", lu_error_code(turn->error));
		if (verdict->reservation) { /* asked for again, and over since (turn_operate) */
			json_member_uuid(&w, "hold_id", &verdict->reservation->id);
			put_ended(&w, reservation_state_at(verdict->reservation, verdict->at_us));
		} else {
			render_shortages(&w, verdict);
		}
	} else {
		json_key(&w, "hold_id");
		json_put_uuid(&w, &verdict->object_id);
		int64_t left_us = verdict->reservation->expires_us - verdict->at_us;
		json_member_int(&w, "expires_in_seconds", left_us > 0 ? left_us / 1000000 : 0);
	}
	structured_send(mcp, &w);
}

void mcp_hold(struct mcp *mcp, const json_t *arguments)
{
	const json_t *offer = json_object_get(arguments, "offer_id");
	const uint8_t *secret = inventory_secret(loop_of(mcp->turn.request)->inventory);
	if (!json_is_string(offer) || !offer_verify(secret, request_principal(mcp->turn.request)->id, json_text(offer))) {
		mcp_reply_fault(mcp,
		                TEXT("offer_id is not one of ours. Call check_stock and use the offer_id it returns; do not "
		                     "make one up."));
		return;
	}
	struct operation *operation = begin_operation(mcp, OPERATION_RESERVE);
	json_t *body __attribute__((cleanup(json_decrefp))) = json_object();
	struct fault fault;
	json_object_set(body, "lines", json_object_get(arguments, "lines"));
	if (!body_decode(body, BODY_OF_ROUTE, operation, &fault)) {
		mcp_reply_error(mcp, fault.error, fault.detail);
		return;
	}
	if (mcp->anonymous)
		operation->ttl_s = ANONYMOUS_TTL_S;
	turn_operate(&mcp->turn, arena_printf(mcp->turn.arena, "offer:%s", json_string_value(offer)), on_held);
}

/* --- release, buy ------------------------------------------------------------------------------------------------- */

/* A release that finds the hold over does no harm and is no error, but what ended otherwise it did not release. */
static void put_release(struct json_writer *w, const struct turn *turn)
{
	const struct verdict *verdict = &turn->call.operation.verdict;
	enum reservation_state state = turn->error ? RESERVATION_COMMITTED : verdict->reservation->state;
	json_member_bool(w, "released", state == RESERVATION_RELEASED);
	if (turn->error)
		json_member_string(w, "code", lu_error_code(turn->error));
	if (turn->error == LU_UNKNOWN_RESERVATION)
		put_unknown(w);
	else if (state == RESERVATION_RELEASED && verdict->reservation->ended_us == verdict->at_us)
		json_member_string(w, "status", reservation_state_name(state));
	else
		put_ended(w, state);
}

static void put_sale(struct json_writer *w, const struct turn *turn)
{
	json_member_bool(w, "sold", !turn->error);
	if (turn->error)
		json_member_string(w, "code", lu_error_code(turn->error));
	else
		json_member_uuid(w, "checkout_id", &turn->call.operation.verdict.checkout->id);
	if (turn->error == LU_UNKNOWN_RESERVATION)
		put_unknown(w);
	else if (turn->error == LU_RESERVATION_EXPIRED)
		put_ended(w, RESERVATION_EXPIRED);
	else if (turn->error == LU_RESERVATION_NOT_ACTIVE) /* one that was bought is answered with its sale */
		put_ended(w, RESERVATION_RELEASED);
}

static void on_ended(struct turn *turn)
{
	struct mcp *mcp = (struct mcp *)turn;
	if (turn->error && !is_refusal(turn->error)) {
		mcp_reply_error(mcp, turn->error, turn->detail);
		return;
	}
	struct buffer buffer = {0};
	struct json_writer w = structured_open(&buffer);
	(turn->call.operation.kind == OPERATION_COMMIT ? put_sale : put_release)(&w, turn);
	structured_send(mcp, &w);
}

static void end_hold(struct mcp *mcp, const json_t *arguments, enum operation_kind kind)
{
	const json_t *id = json_object_get(arguments, "hold_id");
	struct operation *operation = begin_operation(mcp, kind);
	if (json_is_string(id) && uuid_parse(json_text(id), &operation->target))
		turn_operate(&mcp->turn, (struct text){0}, on_ended);
	else
		mcp_reply_fault(mcp, TEXT("hold_id must be the hold_id that hold returned."));
}

void mcp_release_hold(struct mcp *mcp, const json_t *arguments)
{
	end_hold(mcp, arguments, OPERATION_RELEASE);
}

void mcp_buy(struct mcp *mcp, const json_t *arguments)
{
	end_hold(mcp, arguments, OPERATION_COMMIT);
}
