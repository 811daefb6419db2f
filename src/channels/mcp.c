/* MCP: `POST /mcp`, JSON only, without sessions, for agents of both eras of the protocol.
 *
 * Happy path: who asks, one JSON-RPC request, its era, its method; a tool call goes on in mcp_tools.c and replies later.
 * Failure modes, in the order in which they are looked for: a page of another site (403), no key (401), not JSON,
 * neither a JSON-RPC request nor a batch of them (mcp_batch.c), headers that do not say what the body says, a version or
 * a method that is not spoken here. A notification is taken and forgotten. A client that leaves changes nothing: what it
 * asked for is decided all the same, and the offer it brought tells it the outcome when it asks again.
 */
#include "channels/mcp.h"

#include <string.h>
#include <strings.h>

#include "base/base64.h"
#include "base/text.h"
#include "channels/handlers.h"
#include "channels/origin.h"
#include "http/auth.h"
#include "http/problem.h"
#include "lastunit/version.h"

#define VERSION_MODERN "2026-07-28"
#define VERSION_META "io.modelcontextprotocol/protocolVersion"
#define LIST_TTL_MS 3600000 /* the tools change with the binary only */
#define SHOWN_BYTES_MAX 64

/* Newest first. */
static const char *const legacy_versions[] = {"2025-11-25", "2025-06-18", MCP_VERSION_BATCHES};
#define LEGACY_COUNT (sizeof legacy_versions / sizeof *legacy_versions)

static const char instructions[] =
	"One authoritative stock count. find_products and check_stock only look: they reserve nothing, and what they show may "
	"be gone a moment later. hold takes units off sale for a few minutes, all of them or none; buy makes a held cart a "
	"sale; release_hold gives it back. Never tell a person that something is theirs before hold or buy said so.";

static bool is_legacy(struct text version)
{
	for (size_t i = 0; i < LEGACY_COUNT; i++)
		if (text_equal(version, text_of(legacy_versions[i])))
			return true;
	return false;
}

static struct text string_member(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);
	return json_is_string(value) ? json_text(value) : (struct text){0};
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

static void put_id(struct json_writer *w, const json_t *id)
{
	json_key(w, "id");
	if (json_is_string(id)) {
		json_put_text(w, json_text(id));
	} else if (json_is_integer(id)) {
		json_put_int(w, json_integer_value(id));
	} else {
		json_put_null(w);
	}
}

static void put_server_info(struct json_writer *w)
{
	json_object_open(w);
	json_member_string(w, "name", "lastunit");
	json_member_string(w, "title", "Lastunit: one stock count for every sales channel");
	json_member_string(w, "version", LASTUNIT_VERSION);
	json_object_close(w);
}

/* Every message's one answer. */
static void send_answer(struct mcp *mcp, int status, struct buffer *body)
{
	if (mcp->batch)
		mcp_batch_answer(mcp->batch, buffer_text(body));
	else
		request_reply_json(mcp->turn.request, status, body);
}

/* What needs none has this instead. */
static void take_notification(struct mcp *mcp)
{
	if (mcp->batch)
		mcp_batch_answer(mcp->batch, (struct text){0});
	else
		request_reply(mcp->turn.request, 202, NULL, (struct text){0});
}

struct json_writer mcp_result_open(struct mcp *mcp)
{
	struct json_writer w = json_writer(loop_out(loop_of(mcp->turn.request)));
	json_object_open(&w);
	json_member_string(&w, "jsonrpc", "2.0");
	put_id(&w, mcp->id);
	json_key(&w, "result");
	json_object_open(&w);
	if (mcp->modern) {
		json_member_string(&w, "resultType", "complete");
		json_key(&w, "_meta");
		json_object_open(&w);
		json_key(&w, "io.modelcontextprotocol/serverInfo");
		put_server_info(&w);
		json_object_close(&w);
	}
	return w;
}

void mcp_result_send(struct mcp *mcp, struct json_writer *w)
{
	json_object_close(w);
	json_object_close(w);
	send_answer(mcp, 200, w->out);
}

/* `requested` data NULL: an error without data. */
static void reply_error(struct mcp *mcp, int status, int code, struct text message, struct text requested)
{
	struct json_writer w = json_writer(loop_out(loop_of(mcp->turn.request)));
	json_object_open(&w);
	json_member_string(&w, "jsonrpc", "2.0");
	put_id(&w, mcp->id);
	json_key(&w, "error");
	json_object_open(&w);
	json_member_int(&w, "code", code);
	json_key(&w, "message");
	json_put_text(&w, message);
	if (requested.data) {
		json_key(&w, "data");
		json_object_open(&w);
		json_key(&w, "supported");
		json_array_open(&w);
		json_put_string(&w, VERSION_MODERN); /* what `discover` lists: the others are spoken with a handshake only */
		json_array_close(&w);
		json_key(&w, "requested");
		json_put_text(&w, requested);
		json_object_close(&w);
	}
	json_object_close(&w);
	json_object_close(&w);
	send_answer(mcp, status, w.out);
}

void mcp_error(struct mcp *mcp, int status, int code, struct text message)
{
	reply_error(mcp, status, code, message, (struct text){0});
}

void mcp_invalid_params(struct mcp *mcp, struct text message)
{
	mcp_error(mcp, mcp->modern ? 400 : 200, JSONRPC_INVALID_PARAMS, message);
}

/* --- methods ------------------------------------------------------------------------------------------------------ */

static void put_capabilities(struct json_writer *w)
{
	json_key(w, "capabilities");
	json_put_raw(w, TEXT("{\"tools\":{}}"));
}

/* How long a client may keep an answer, which is the same for everybody. */
static void put_caching(struct json_writer *w)
{
	json_member_int(w, "ttlMs", LIST_TTL_MS);
	json_member_string(w, "cacheScope", "public");
}

static void put_instructions(struct json_writer *w)
{
	json_member_string(w, "instructions", instructions);
}

static void discover(struct mcp *mcp)
{
	struct json_writer w = mcp_result_open(mcp);
	json_key(&w, "supportedVersions");
	json_array_open(&w);
	json_put_string(&w, VERSION_MODERN);
	json_array_close(&w);
	put_capabilities(&w);
	put_instructions(&w);
	put_caching(&w);
	mcp_result_send(mcp, &w);
}

static void initialize(struct mcp *mcp)
{
	if (mcp->batch) { /* until it is answered nobody may send anything else */
		mcp_error(mcp, 200, JSONRPC_INVALID_REQUEST, TEXT("`initialize` must not be part of a batch."));
		return;
	}
	struct text theirs = string_member(mcp->params, "protocolVersion");
	struct json_writer w = mcp_result_open(mcp);
	json_key(&w, "protocolVersion");
	json_put_text(&w, is_legacy(theirs) ? theirs : text_of(legacy_versions[0]));
	put_capabilities(&w);
	json_key(&w, "serverInfo");
	put_server_info(&w);
	put_instructions(&w);
	mcp_result_send(mcp, &w);
}

static void ping(struct mcp *mcp)
{
	struct json_writer w = mcp_result_open(mcp);
	mcp_result_send(mcp, &w);
}

static void tools_list(struct mcp *mcp)
{
	const json_t *cursor = json_object_get(mcp->params, "cursor");
	if (cursor && !json_is_null(cursor)) {
		mcp_invalid_params(mcp,
		                   TEXT("`cursor` is not one of ours: the list has one page, which is asked for without it."));
		return;
	}
	struct json_writer w = mcp_result_open(mcp);
	mcp_tools_list(&w);
	if (mcp->modern)
		put_caching(&w);
	mcp_result_send(mcp, &w);
}

static const struct {
	const char *name;
	bool modern, legacy;
	void (*run)(struct mcp *mcp);
} methods[] = {
	{"server/discover", true, false, discover}, {"initialize", false, true, initialize},    {"ping", false, true, ping},
	{"tools/list", true, true, tools_list},     {"tools/call", true, true, mcp_tools_call},
};

/* No more of what a client sent than fits into a sentence. */
struct text mcp_shown(struct text sent)
{
	return text_utf8_part((struct text){sent.data, sent.size < SHOWN_BYTES_MAX ? sent.size : SHOWN_BYTES_MAX});
}

static void reply_no_method(struct mcp *mcp, struct text method)
{
	struct text part = mcp_shown(method);
	struct text known = arena_printf(mcp->turn.arena, "There is no method \"%.*s\"; there are", (int)part.size,
	                                 part.data);
	bool first = true;
	for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
		if (!(mcp->modern ? methods[i].modern : methods[i].legacy))
			continue;
		known = arena_printf(mcp->turn.arena, "%s%s %s", known.data, first ? "" : ",", methods[i].name);
		first = false;
	}
	mcp_error(mcp, 404, JSONRPC_METHOD_NOT_FOUND, arena_printf(mcp->turn.arena, "%s.", known.data));
}

static void dispatch(struct mcp *mcp, struct text method)
{
	for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
		if (!text_equal(method, text_of(methods[i].name)) || !(mcp->modern ? methods[i].modern : methods[i].legacy))
			continue;
		methods[i].run(mcp);
		return;
	}
	reply_no_method(mcp, method);
}

/* --- the modern era's headers ------------------------------------------------------------------------------------- */

/* A header that does not fit into ASCII comes as =?base64?…?=. */
static struct text header_decode(struct arena *arena, struct text value)
{
	static const char open[] = "=?base64?", close[] = "?=";
	size_t open_size = sizeof open - 1, close_size = sizeof close - 1;
	if (value.size < open_size + close_size || memcmp(value.data, open, open_size) != 0 ||
	    memcmp(value.data + value.size - close_size, close, close_size) != 0)
		return value;
	struct text coded = {value.data + open_size, value.size - open_size - close_size};
	unsigned char *bytes = arena_alloc(arena, coded.size + 1);
	size_t size;
	return base64_decode(coded, bytes, coded.size, &size) ? (struct text){(char *)bytes, size} : value;
}

static bool header_says(const struct mcp *mcp, const char *name, struct text body)
{
	struct text value;
	return request_header(mcp->turn.request, name, &value) && body.data &&
	       text_equal(header_decode(mcp->turn.arena, value), body);
}

/* `data` lists what `discover` lists, the sentence those with a handshake, too. */
static void reply_unspoken(struct mcp *mcp, struct text version)
{
	struct text part = mcp_shown(version), spoken = TEXT(VERSION_MODERN);
	for (size_t i = 0; i < LEGACY_COUNT; i++)
		spoken = arena_printf(mcp->turn.arena, "%s%s %s", spoken.data, i + 1 < LEGACY_COUNT ? "," : " and",
		                      legacy_versions[i]);
	reply_error(mcp, 400, MCP_UNSUPPORTED_VERSION,
	            arena_printf(mcp->turn.arena, "The version \"%.*s\" of the protocol is not spoken here; %s are.",
	                         (int)part.size, part.data, spoken.data),
	            part);
}

/* False: replied. */
static bool check_modern(struct mcp *mcp, struct text method)
{
	const json_t *meta = json_object_get(mcp->params, "_meta");
	struct text version = string_member(meta, VERSION_META), header;
	/* It is neither era's, so what it lacks of the modern one is not the point. */
	if (!version.data && request_header(mcp->turn.request, "MCP-Protocol-Version", &header) &&
	    !text_equal(header, TEXT(VERSION_MODERN))) {
		reply_unspoken(mcp, header);
		return false;
	}
	if (!version.data || !json_is_object(json_object_get(meta, "io.modelcontextprotocol/clientCapabilities"))) {
		mcp_error(mcp, 400, JSONRPC_INVALID_PARAMS,
		          TEXT("params._meta must carry io.modelcontextprotocol/protocolVersion and "
		               "io.modelcontextprotocol/clientCapabilities."));
		return false;
	}
	const char *wrong = !header_says(mcp, "MCP-Protocol-Version", version) ? "MCP-Protocol-Version"
	                    : !header_says(mcp, "Mcp-Method", method)          ? "Mcp-Method"
	                    : text_equal(method, TEXT("tools/call")) &&
	                            !header_says(mcp, "Mcp-Name", string_member(mcp->params, "name"))
	                        ? "Mcp-Name"
	                        : NULL;
	if (wrong) {
		mcp_error(mcp, 400, MCP_HEADER_MISMATCH,
		          arena_printf(mcp->turn.arena, "The header %s is missing or does not say what the body says.", wrong));
		return false;
	}
	if (!text_equal(version, TEXT(VERSION_MODERN))) {
		reply_unspoken(mcp, version);
		return false;
	}
	return true;
}

/* --- one request -------------------------------------------------------------------------------------------------- */

/* False: replied. */
static bool check_caller(struct request *request, bool *ret_anonymous)
{
	struct text ignored;
	const char *why;
	enum lu_error error;
	const char *key = loop_of(request)->config->public_mcp;
	*ret_anonymous = *key && !request_header(request, "Authorization", &ignored);
	if (*ret_anonymous)
		error = auth_as(request, text_of(key), SCOPE_READ, &why);
	else
		error = auth_check(request, SCOPE_READ, &why);
	if (error)
		problem_reply(request, error, text_of(why));
	return !error;
}

static void reply_parse_error(struct mcp *mcp, enum lu_error error, const char *why)
{
	struct text sentence = why ? text_of(why) : (struct text){0};
	if (error == LU_MALFORMED_REQUEST)
		mcp_error(mcp, 400, JSONRPC_PARSE_ERROR, sentence.size ? sentence : TEXT("The body is not JSON."));
	else
		problem_reply(mcp->turn.request, error, sentence);
}

static bool is_id(const json_t *id)
{
	return json_is_string(id) || json_is_integer(id);
}

/* Why it is not one request or notification with a method, and an id that can be echoed. NULL: it is. */
static const char *jsonrpc_fault(const json_t *body)
{
	const json_t *id = json_object_get(body, "id");
	if (!json_is_object(body))
		return "Send one JSON-RPC 2.0 request, a JSON object.";
	if (!text_equal(string_member(body, "jsonrpc"), TEXT("2.0")))
		return "`jsonrpc` must be \"2.0\".";
	if (!string_member(body, "method").data)
		return "`method` must be a string.";
	if (id && !is_id(id))
		return "`id` must be a string or an integer; only a notification has none.";
	return NULL;
}

/* False: answered. */
static bool check_jsonrpc(struct mcp *mcp, const json_t *body)
{
	const json_t *id = json_object_get(body, "id"), *params = json_object_get(body, "params");
	const char *why = jsonrpc_fault(body);
	mcp->id = is_id(id) ? id : NULL;
	if (why)
		mcp_error(mcp, 400, JSONRPC_INVALID_REQUEST, text_of(why));
	else if (params && !json_is_object(params))
		mcp_error(mcp, 400, JSONRPC_INVALID_PARAMS, TEXT("`params` must be an object."));
	else
		return true;
	return false;
}

void mcp_message(struct mcp *mcp, const json_t *body)
{
	if (!check_jsonrpc(mcp, body))
		return;
	mcp->params = json_object_get(body, "params");
	struct text method = string_member(body, "method"), version;
	if (!mcp->id) {
		take_notification(mcp);
		return;
	}
	if (mcp->batch && mcp_batch_full(mcp->batch)) {
		mcp_error(mcp, 200, JSONRPC_INVALID_REQUEST,
		          TEXT("Not begun: the answers before this one are too long together. Send it anew."));
		return;
	}
	/* Never by Mcp-Method: some send it on the legacy wire, too. */
	mcp->modern = json_object_get(json_object_get(mcp->params, "_meta"), VERSION_META) ||
	              (request_header(mcp->turn.request, "MCP-Protocol-Version", &version) && !is_legacy(version));
	if (!mcp->modern || check_modern(mcp, method))
		dispatch(mcp, method);
}

void mcp_post(struct request *request)
{
	bool anonymous;
	if (!origin_check(request) || !check_caller(request, &anonymous))
		return;
	struct mcp *mcp = ARENA_NEW(request_arena(request), struct mcp);
	turn_init(&mcp->turn, request);
	mcp->anonymous = anonymous;
	json_t *body;
	const char *why = NULL;
	enum lu_error error = request_json(request, REQUEST_VALUES_MAX, &body, &why);
	if (error)
		reply_parse_error(mcp, error, why);
	else if (json_is_array(body))
		mcp_batch(mcp, body);
	else
		mcp_message(mcp, body);
}
