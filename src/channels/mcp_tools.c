/* The tools of MCP: find, check, hold, buy, release.
 *
 * Happy path: tools/call finds the tool, checks its arguments by the rules of the API's bodies, takes one turn, and answers
 * a structured result whose text says the same. "Sold out" is an answer, not an error: an agent must be able to tell it
 * from a fault. Failure modes: arguments that are not valid, and an outcome that only trying again can tell, are
 * results with isError, in words that a model can act upon; a tool that does not exist is a JSON-RPC error; a key that may
 * not sell is 403.
 */
#include <inttypes.h>
#include <string.h>

#include "api/render.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/text.h"
#include "channels/mcp.h"
#include "channels/offer.h"
#include "http/auth.h"
#include "http/problem.h"

#define FIND_LIMIT 5
#define FIND_LIMIT_MAX 20
#define QUERY_BYTES_MAX 400
#define ANONYMOUS_TTL_S 120

struct tool {
	const char *name, *title, *description;
	const char *input, *output; /* JSON Schema */
	bool writes, repeatable;    /* annotations */
	unsigned scopes;
	bool anonymous; /* also without a key of one's own */
	void (*call)(struct mcp *mcp, const json_t *arguments);
};

static void find_products(struct mcp *mcp, const json_t *arguments);
static void check_stock(struct mcp *mcp, const json_t *arguments);
static void hold(struct mcp *mcp, const json_t *arguments);
static void release_hold(struct mcp *mcp, const json_t *arguments);
static void buy(struct mcp *mcp, const json_t *arguments);

#define SKU_SCHEMA "{\"type\":\"string\",\"minLength\":1,\"maxLength\":128}"
#define ITEM_PROPERTIES                                                                                                      \
	"\"sku\":" SKU_SCHEMA                                                                                                    \
	",\"status\":{\"type\":\"string\",\"enum\":[\"in_stock\",\"out_of_stock\",\"unknown\"]},"                                \
	"\"available\":{\"type\":[\"integer\",\"null\"],\"description\":\"units that can be held now; null: always in stock\"}," \
	"\"held\":{\"type\":\"integer\",\"description\":\"units other buyers hold at the moment\"},"                             \
	"\"tracked\":{\"type\":\"boolean\"},\"version\":{\"type\":\"integer\"}"
#define LINES_SCHEMA                                                                                                          \
	"{\"type\":\"array\",\"minItems\":1,\"maxItems\":1000,\"items\":{\"type\":\"object\",\"properties\":{\"sku\":" SKU_SCHEMA \
	",\"quantity\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":1000000000}},\"required\":[\"sku\",\"quantity\"],"         \
	"\"additionalProperties\":false}}"
#define SHORTAGES_SCHEMA                                                                                                        \
	"{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"sku\":{\"type\":\"string\"},\"requested\":{\"type\":" \
	"\"integer\"},\"available\":{\"type\":\"integer\"},\"held\":{\"type\":\"integer\"},\"next_release_at\":{\"type\":"          \
	"[\"string\",\"null\"]}},\"required\":[\"sku\"]}}"
#define HOLD_ID_INPUT                                                                                                  \
	"{\"type\":\"object\",\"properties\":{\"hold_id\":{\"type\":\"string\",\"description\":\"as hold returned it\"}}," \
	"\"required\":[\"hold_id\"],\"additionalProperties\":false}"

/* The order of tools/list; clients and caches rely on it. */
static const struct tool tools[] = {
	{"find_products", "Find products",
     "Finds products by what people call them, in any language of their titles, inflected or misspelled. Only looks: "
     "reserves nothing.",
     "{\"type\":\"object\",\"properties\":{\"query\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":400},\"limit\":{"
     "\"type\":\"integer\",\"minimum\":1,\"maximum\":20,\"default\":5}},\"required\":[\"query\"],\"additionalProperties\":false}",
     "{\"type\":\"object\",\"properties\":{\"items\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":"
     "{" ITEM_PROPERTIES
     ",\"titles\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}}},\"required\":["
     "\"sku\",\"status\",\"titles\"]}}},\"required\":[\"items\"]}",
     false, true, SCOPE_READ, true, find_products},
	{"check_stock", "Check stock",
     "Tells what is left of each SKU and hands out an offer_id with which they may be held once. Only looks: reserves "
     "nothing, and what it shows may be gone a moment later.",
     "{\"type\":\"object\",\"properties\":{\"skus\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":500,\"items\":" SKU_SCHEMA
     "}},\"required\":[\"skus\"],\"additionalProperties\":false}",
     "{\"type\":\"object\",\"properties\":{\"items\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":"
     "{" ITEM_PROPERTIES "},\"required\":[\"sku\",\"status\"]}},\"offer_id\":{\"type\":\"string\"},\"as_of\":{\"type\":"
     "\"string\",\"format\":\"date-time\"}},\"required\":[\"items\",\"offer_id\",\"as_of\"]}",
     false, true, SCOPE_READ, true, check_stock},
	{"hold", "Hold for a buyer",
     "Takes the units off sale for a few minutes, all lines or none, and only if granted is true. Needs the offer_id of a "
     "check_stock; the same offer_id again repeats the same answer and never holds twice.",
     "{\"type\":\"object\",\"properties\":{\"offer_id\":{\"type\":\"string\",\"description\":\"from check_stock\"},\"lines\":" LINES_SCHEMA
     "},\"required\":[\"offer_id\",\"lines\"],\"additionalProperties\":false}",
     "{\"type\":\"object\",\"properties\":{\"granted\":{\"type\":\"boolean\"},\"hold_id\":{\"type\":\"string\"},"
     "\"expires_in_seconds\":{\"type\":\"integer\"},\"code\":{\"type\":\"string\"},\"lines\":" SHORTAGES_SCHEMA
     "},\"required\":[\"granted\"]}",
     true, true, SCOPE_SELL, true, hold},
	{"release_hold", "Release a hold", "Gives a hold back before it ends by itself. Does no harm when repeated.",
     HOLD_ID_INPUT,
     "{\"type\":\"object\",\"properties\":{\"released\":{\"type\":\"boolean\"},\"code\":{\"type\":\"string\"}},\"required\":["
     "\"released\"]}",
     true, true, SCOPE_SELL, true, release_hold},
	{"buy", "Buy what is held",
     "Makes a hold a sale. Only if sold is true is anything sold; repeated, it answers the same sale.", HOLD_ID_INPUT,
     "{\"type\":\"object\",\"properties\":{\"sold\":{\"type\":\"boolean\"},\"checkout_id\":{\"type\":\"string\"},\"code\":{"
     "\"type\":\"string\"}},\"required\":[\"sold\"]}",
     true, true, SCOPE_SELL, false, buy},
};

void mcp_tools_list(struct json_writer *w)
{
	json_key(w, "tools");
	json_array_open(w);
	for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
		const struct tool *tool = tools + i;
		json_object_open(w);
		json_member_string(w, "name", tool->name);
		json_member_string(w, "title", tool->title);
		json_member_string(w, "description", tool->description);
		json_key(w, "inputSchema");
		json_put_raw(w, text_of(tool->input));
		json_key(w, "outputSchema");
		json_put_raw(w, text_of(tool->output));
		json_key(w, "annotations");
		json_object_open(w);
		json_member_bool(w, "readOnlyHint", !tool->writes);
		json_member_bool(w, "destructiveHint", false);
		json_member_bool(w, "idempotentHint", tool->repeatable);
		json_member_bool(w, "openWorldHint", false);
		json_object_close(w);
		json_object_close(w);
	}
	json_array_close(w);
}

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
static void reply_fault_text(struct mcp *mcp, struct text sentence)
{
	struct json_writer w = content_open(mcp, sentence);
	json_member_bool(&w, "isError", true);
	mcp_result_send(mcp, &w);
}

static void reply_error(struct mcp *mcp, enum lu_error error, struct text detail)
{
	if (!detail.size)
		detail = text_of(lu_error_mend(error));
	reply_fault_text(mcp,
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
		reply_error(mcp, turn->error, turn->detail);
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
		json_put_raw(&w, row->titles_json);
		json_object_close(&w);
	}
	json_array_close(&w);
	structured_send(mcp, &w);
}

static void find_products(struct mcp *mcp, const json_t *arguments)
{
	const json_t *query = json_object_get(arguments, "query"), *limit = json_object_get(arguments, "limit");
	int64_t count = FIND_LIMIT;
	if (!json_is_string(query) || !json_text(query).size || json_text(query).size > QUERY_BYTES_MAX) {
		reply_fault_text(mcp, TEXT("query must be a text of 1 to 400 bytes."));
		return;
	}
	if (limit) {
		count = json_is_integer(limit) ? json_integer_value(limit) : 0;
		if (count < 1 || count > FIND_LIMIT_MAX) {
			reply_fault_text(mcp, TEXT("limit must be an integer from 1 to 20."));
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
		reply_error(mcp, turn->error, turn->detail);
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

static void check_stock(struct mcp *mcp, const json_t *arguments)
{
	struct text *skus;
	size_t count;
	struct fault fault;
	if (body_skus(arguments, mcp->turn.arena, &skus, &count, &fault))
		turn_look_up(&mcp->turn, skus, count, on_checked);
	else
		reply_error(mcp, fault.error, fault.detail);
}

/* --- hold --------------------------------------------------------------------------------------------------------- */

/* A refusal of the inventory is an answer; anything else the model must act upon. */
static bool is_refusal(enum lu_error error)
{
	return lu_error_stored(error) || error == LU_UNKNOWN_RESERVATION;
}

static void on_held(struct turn *turn)
{
	struct mcp *mcp = (struct mcp *)turn;
	const struct verdict *verdict = &turn->call.operation.verdict;
	if (turn->error == LU_IDEMPOTENCY_CONFLICT) {
		reply_fault_text(mcp,
		                 TEXT("This offer_id has already been used for another cart. Call check_stock for a new one."));
		return;
	}
	if (turn->error && !is_refusal(turn->error)) {
		reply_error(mcp, turn->error, turn->detail);
		return;
	}
	struct buffer buffer = {0};
	struct json_writer w = structured_open(&buffer);
	json_member_bool(&w, "granted", !turn->error);
	if (turn->error) {
		json_member_string(&w, "code", lu_error_code(turn->error));
		render_shortages(&w, verdict);
	} else {
		json_key(&w, "hold_id");
		json_put_uuid(&w, &verdict->object_id);
		int64_t left_us = verdict->reservation->expires_us - verdict->at_us;
		json_member_int(&w, "expires_in_seconds", left_us > 0 ? left_us / 1000000 : 0);
	}
	structured_send(mcp, &w);
}

static void hold(struct mcp *mcp, const json_t *arguments)
{
	const json_t *offer = json_object_get(arguments, "offer_id");
	const uint8_t *secret = inventory_secret(loop_of(mcp->turn.request)->inventory);
	if (!json_is_string(offer) || !offer_verify(secret, request_principal(mcp->turn.request)->id, json_text(offer))) {
		reply_fault_text(mcp,
		                 TEXT("offer_id is not one of ours. Call check_stock and use the offer_id it returns; do not "
		                      "make one up."));
		return;
	}
	struct operation *operation = turn_operation(&mcp->turn, OPERATION_RESERVE);
	json_t *lines = json_object_get(arguments, "lines");
	json_t *body __attribute__((cleanup(json_decrefp))) = json_object();
	struct fault fault;
	if (lines)
		json_object_set(body, "lines", lines);
	if (!body_decode(body, BODY_OF_ROUTE, operation, &fault)) {
		reply_error(mcp, fault.error, fault.detail);
		return;
	}
	if (mcp->anonymous)
		operation->ttl_s = ANONYMOUS_TTL_S;
	turn_operate(&mcp->turn, arena_printf(mcp->turn.arena, "offer:%s", json_string_value(offer)), on_held);
}

/* --- release, buy ------------------------------------------------------------------------------------------------- */

static void reply_end(struct mcp *mcp, const char *done)
{
	struct turn *turn = &mcp->turn;
	if (turn->error && !is_refusal(turn->error)) {
		reply_error(mcp, turn->error, turn->detail);
		return;
	}
	struct buffer buffer = {0};
	struct json_writer w = structured_open(&buffer);
	json_member_bool(&w, done, !turn->error);
	if (turn->error)
		json_member_string(&w, "code", lu_error_code(turn->error));
	else if (turn->call.operation.kind == OPERATION_COMMIT) {
		json_key(&w, "checkout_id");
		json_put_uuid(&w, &turn->call.operation.verdict.checkout->id);
	}
	structured_send(mcp, &w);
}

static void on_released(struct turn *turn)
{
	reply_end((struct mcp *)turn, "released");
}

static void on_bought(struct turn *turn)
{
	reply_end((struct mcp *)turn, "sold");
}

static void end_hold(struct mcp *mcp, const json_t *arguments, enum operation_kind kind, void (*on_done)(struct turn *))
{
	const json_t *id = json_object_get(arguments, "hold_id");
	struct operation *operation = turn_operation(&mcp->turn, kind);
	if (json_is_string(id) && uuid_parse(json_text(id), &operation->target))
		turn_operate(&mcp->turn, (struct text){0}, on_done);
	else
		reply_fault_text(mcp, TEXT("hold_id must be the hold_id that hold returned."));
}

static void release_hold(struct mcp *mcp, const json_t *arguments)
{
	end_hold(mcp, arguments, OPERATION_RELEASE, on_released);
}

static void buy(struct mcp *mcp, const json_t *arguments)
{
	end_hold(mcp, arguments, OPERATION_COMMIT, on_bought);
}

/* --- tools/call --------------------------------------------------------------------------------------------------- */

/* Only members that the schema names; false: replied. */
static bool check_members(struct mcp *mcp, const struct tool *tool, json_t *arguments)
{
	const char *key;
	json_t *value;
	json_object_foreach(arguments, key, value)
	{
		struct text quoted = arena_printf(mcp->turn.arena, "\"%s\":", key);
		if (strlen(key) > 64 || !strstr(tool->input, quoted.data)) {
			struct text part = text_utf8_part((struct text){key, strnlen(key, 64)});
			reply_fault_text(mcp, arena_printf(mcp->turn.arena,
			                                   "arguments holds \"%.*s\", which the input schema does not name.",
			                                   (int)part.size, part.data));
			return false;
		}
	}
	return true;
}

static const struct tool *find_tool(const json_t *name)
{
	for (size_t i = 0; i < sizeof tools / sizeof *tools; i++)
		if (json_is_string(name) && text_equal(json_text(name), text_of(tools[i].name)))
			return &tools[i];
	return NULL;
}

void mcp_tools_call(struct mcp *mcp)
{
	static const char public_refusal[] = "This tool needs a key of your own: send Authorization: Bearer lu_...";
	const struct tool *tool = find_tool(json_object_get(mcp->params, "name"));
	json_t *arguments = json_object_get(mcp->params, "arguments");
	if (!tool || (arguments && !json_is_object(arguments))) {
		mcp_error(mcp, mcp->modern ? 400 : 200, JSONRPC_INVALID_PARAMS,
		          tool ? TEXT("arguments must be an object.") : TEXT("There is no such tool."));
		return;
	}
	if (mcp->anonymous && !tool->anonymous) {
		problem_reply(mcp->turn.request, LU_UNAUTHORIZED, text_of(public_refusal));
		return;
	}
	/* Asked again, for what this tool does: a key that may have been revoked still reads, but does not sell. */
	const char *why;
	struct request *request = mcp->turn.request;
	enum lu_error error = mcp->anonymous
	                          ? auth_as(request, text_of(loop_of(request)->config->public_mcp), tool->scopes, &why)
	                          : auth_check(request, tool->scopes, &why);
	if (error == LU_DATABASE_UNAVAILABLE && request_wait_for_keys(request))
		return;
	if (error) {
		problem_reply(request, error, text_of(why));
		return;
	}
	if (!check_members(mcp, tool, arguments))
		return;
	tool->call(mcp, arguments);
}
