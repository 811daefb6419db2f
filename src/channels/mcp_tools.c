/* The tools of MCP: what each is called, what it takes and answers, and who may call it (what they do: mcp_calls.c).
 *
 * Happy path: tools/call finds the tool, checks who asks and the names of the arguments, and calls. One table is what
 * tools/list tells and what is checked, so a client that keeps to the schema is never refused for a name. Failure modes: an
 * argument that is missing, or that the tool has not got, is a result with isError, in words that a model can act upon; a
 * tool that does not exist is a JSON-RPC error; a key that may not sell is 403.
 */
#include <string.h>

#include "base/text.h"
#include "channels/mcp.h"
#include "http/auth.h"
#include "http/problem.h"

struct argument {
	const char *name, *schema;
	bool optional;
};

#define ARGUMENTS_MAX 2

struct tool {
	const char *name, *title, *description;
	struct argument arguments[ARGUMENTS_MAX]; /* those there are; what is told and what is checked */
	const char *output;                       /* JSON Schema */
	bool writes;
	unsigned scopes;
	bool anonymous; /* also without a key of one's own */
	/* Of `arguments` those that must be there are, and no others than these. */
	void (*call)(struct mcp *mcp, const json_t *arguments);
};

#define SKU_SCHEMA \
	"{\"type\":\"string\",\"minLength\":1,\"maxLength\":128,\"description\":\"at most 128 bytes of UTF-8\"}"
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
#define ENDED_SCHEMA                                                          \
	"{\"type\":\"string\",\"enum\":[\"released\",\"expired\",\"committed\"]," \
	"\"description\":\"how the hold has ended; committed: it was bought\"}"
#define HOLD_ID                                                                           \
	{                                                                                     \
		"hold_id", "{\"type\":\"string\",\"description\":\"as hold returned it\"}", false \
	}

/* The order of tools/list; clients and caches rely on it. */
static const struct tool tools[] = {
	{
		.name = "find_products",
		.title = "Find products",
		.description =
			"Finds products by what people call them, in any language of their titles, inflected or misspelled, or by "
			"the exact code of one. "
			"Only looks: reserves nothing.",
		.arguments = {{"query",
                       "{\"type\":\"string\",\"minLength\":1,\"maxLength\":400,\"description\":\"at most 400 bytes of "
                       "UTF-8\"}",
                       false},
                      {"limit", "{\"type\":\"integer\",\"minimum\":1,\"maximum\":20,\"default\":5}", true}},
		.output = "{\"type\":\"object\",\"properties\":{\"items\":{\"type\":\"array\",\"items\":{\"type\":\"object\","
				  "\"properties\":{" ITEM_PROPERTIES
				  ",\"titles\":{\"type\":\"object\",\"additionalProperties\":{\"type\":"
				  "\"string\"}}},\"required\":[\"sku\",\"status\",\"titles\"]}}},\"required\":[\"items\"]}",
		.scopes = SCOPE_READ,
		.anonymous = true,
		.call = mcp_find_products,
	},
	{
		.name = "check_stock",
		.title = "Check stock",
		.description =
			"Tells what is left of each SKU and hands out an offer_id with which they may be held once. Only "
			"looks: reserves nothing, and what it shows may be gone a moment later.",
		.arguments = {{"skus", "{\"type\":\"array\",\"minItems\":1,\"maxItems\":500,\"items\":" SKU_SCHEMA "}", false}},
		.output =
			"{\"type\":\"object\",\"properties\":{\"items\":{\"type\":\"array\",\"items\":{\"type\":\"object\","
			"\"properties\":{" ITEM_PROPERTIES
			"},\"required\":[\"sku\",\"status\"]}},\"offer_id\":{\"type\":\"string\"},"
			"\"as_of\":{\"type\":\"string\",\"format\":\"date-time\"}},\"required\":[\"items\",\"offer_id\",\"as_of\"]}",
		.scopes = SCOPE_READ,
		.anonymous = true,
		.call = mcp_check_stock,
	},
	{
		.name = "hold",
		.title = "Hold for a buyer",
		.description =
			"Takes the units off sale for a few minutes, all lines or none, and only if granted is true. Needs the "
			"offer_id of a check_stock; the same offer_id again never holds twice: it tells how its hold stands now, or "
			"repeats its refusal.",
		.arguments = {{"offer_id", "{\"type\":\"string\",\"description\":\"from check_stock\"}", false},
                      {"lines", LINES_SCHEMA, false}},
		.output =
			"{\"type\":\"object\",\"properties\":{\"granted\":{\"type\":\"boolean\"},\"hold_id\":{\"type\":\"string\"},"
			"\"expires_in_seconds\":{\"type\":\"integer\"},\"code\":{\"type\":\"string\"},\"status\":" ENDED_SCHEMA
			",\"next\":{\"type\":\"string\",\"description\":\"what to do then\"},\"lines\":" SHORTAGES_SCHEMA
			"},\"required\":[\"granted\"]}",
		.writes = true,
		.scopes = SCOPE_SELL,
		.anonymous = true,
		.call = mcp_hold,
	},
	{
		.name = "release_hold",
		.title = "Release a hold",
		.description =
			"Gives a hold back before it ends by itself. Does no harm when repeated, or when the hold is over: status "
			"tells how it ended, and released is true only if it was released.",
		.arguments = {HOLD_ID},
		.output =
			"{\"type\":\"object\",\"properties\":{\"released\":{\"type\":\"boolean\"},\"code\":{\"type\":\"string\"},"
			"\"status\":" ENDED_SCHEMA
			",\"next\":{\"type\":\"string\",\"description\":\"what to do if it was over before\"}},"
			"\"required\":[\"released\"]}",
		.writes = true,
		.scopes = SCOPE_SELL,
		.anonymous = true,
		.call = mcp_release_hold,
	},
	{
		.name = "buy",
		.title = "Buy what is held",
		.description =
			"Makes a hold a sale. Only if sold is true is anything sold; repeated, it answers the same sale.",
		.arguments = {HOLD_ID},
		.output =
			"{\"type\":\"object\",\"properties\":{\"sold\":{\"type\":\"boolean\"},\"checkout_id\":{\"type\":\"string\"},"
			"\"code\":{\"type\":\"string\"},\"status\":" ENDED_SCHEMA
			",\"next\":{\"type\":\"string\",\"description\":\"what to do if it was not sold\"}},\"required\":[\"sold\"]}",
		.writes = true,
		.scopes = SCOPE_SELL,
		.call = mcp_buy,
	},
};

static bool has_argument(const struct tool *tool, size_t i)
{
	return i < ARGUMENTS_MAX && tool->arguments[i].name;
}

static void put_input_schema(struct json_writer *w, const struct tool *tool)
{
	json_object_open(w);
	json_member_string(w, "type", "object");
	json_key(w, "properties");
	json_object_open(w);
	for (size_t i = 0; has_argument(tool, i); i++) {
		json_key(w, tool->arguments[i].name);
		json_put_raw(w, text_of(tool->arguments[i].schema));
	}
	json_object_close(w);
	json_key(w, "required");
	json_array_open(w);
	for (size_t i = 0; has_argument(tool, i); i++)
		if (!tool->arguments[i].optional)
			json_put_string(w, tool->arguments[i].name);
	json_array_close(w);
	json_member_bool(w, "additionalProperties", false);
	json_object_close(w);
}

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
		put_input_schema(w, tool);
		json_key(w, "outputSchema");
		json_put_raw(w, text_of(tool->output));
		json_key(w, "annotations");
		json_object_open(w);
		json_member_bool(w, "readOnlyHint", !tool->writes);
		json_member_bool(w, "destructiveHint", false);
		json_member_bool(w, "idempotentHint", true); /* by the offer, or by the hold that ends once */
		json_member_bool(w, "openWorldHint", false);
		json_object_close(w);
		json_object_close(w);
	}
	json_array_close(w);
}

/* --- tools/call --------------------------------------------------------------------------------------------------- */

static bool takes(const struct tool *tool, const char *name)
{
	for (size_t i = 0; has_argument(tool, i); i++)
		if (!strcmp(tool->arguments[i].name, name))
			return true;
	return false;
}

static void reply_stray_argument(struct mcp *mcp, const struct tool *tool, const char *name)
{
	struct text part = mcp_shown(text_of(name));
	struct text known = text_of(tool->arguments[0].name);
	for (size_t i = 1; has_argument(tool, i); i++)
		known = arena_printf(mcp->turn.arena, "%s, %s", known.data, tool->arguments[i].name);
	mcp_reply_fault(mcp, arena_printf(mcp->turn.arena, "%s has no argument \"%.*s\"; it takes %s.", tool->name,
	                                  (int)part.size, part.data, known.data));
}

/* By their names; what they hold is the tool's to check. False: replied. */
static bool check_arguments(struct mcp *mcp, const struct tool *tool, json_t *arguments)
{
	const char *name;
	json_t *value;
	json_object_foreach(arguments, name, value)
	{
		if (takes(tool, name))
			continue;
		reply_stray_argument(mcp, tool, name);
		return false;
	}
	for (size_t i = 0; has_argument(tool, i); i++) {
		const struct argument *argument = &tool->arguments[i];
		if (argument->optional || json_object_get(arguments, argument->name))
			continue;
		mcp_reply_fault(mcp, arena_printf(mcp->turn.arena, "%s lacks the argument \"%s\": %s.", tool->name,
		                                  argument->name, argument->schema));
		return false;
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

static void reply_no_tool(struct mcp *mcp, const json_t *name)
{
	struct text part = json_is_string(name) ? mcp_shown(json_text(name)) : (struct text){0};
	struct text known = json_is_string(name) ? arena_printf(mcp->turn.arena, "There is no tool \"%.*s\"; there are",
	                                                        (int)part.size, part.data)
	                                         : TEXT("params.name must name a tool; there are");
	for (size_t i = 0; i < sizeof tools / sizeof *tools; i++)
		known = arena_printf(mcp->turn.arena, "%s%s %s", known.data, i ? "," : "", tools[i].name);
	mcp_invalid_params(mcp, arena_printf(mcp->turn.arena, "%s.", known.data));
}

/* Who may not is told by HTTP's own status, as long as that is the answer to one message. */
static void refuse(struct mcp *mcp, enum lu_error error, const char *why)
{
	if (mcp->batch)
		mcp_reply_error(mcp, error, text_of(why));
	else
		problem_reply(mcp->turn.request, error, text_of(why));
}

void mcp_tools_call(struct mcp *mcp)
{
	static const char public_refusal[] = "This tool needs a key of your own: send Authorization: Bearer lu_...";
	const json_t *name = json_object_get(mcp->params, "name");
	const struct tool *tool = find_tool(name);
	json_t *arguments = json_object_get(mcp->params, "arguments");
	if (!tool) {
		reply_no_tool(mcp, name);
		return;
	}
	if (json_is_null(arguments)) /* left out, as everywhere */
		arguments = NULL;
	if (arguments && !json_is_object(arguments)) {
		mcp_invalid_params(mcp, TEXT("arguments must be an object."));
		return;
	}
	if (mcp->anonymous && !tool->anonymous) {
		refuse(mcp, LU_UNAUTHORIZED, public_refusal);
		return;
	}
	/* Asked again, for what this tool does: a key that may have been revoked still reads, but does not sell. */
	const char *why;
	struct request *request = mcp->turn.request;
	enum lu_error error = mcp->anonymous
	                          ? auth_as(request, text_of(loop_of(request)->config->public_mcp), tool->scopes, &why)
	                          : auth_check(request, tool->scopes, &why);
	/* Waiting would run the whole batch again. */
	if (error == LU_DATABASE_UNAVAILABLE && !mcp->batch && request_wait_for_keys(request))
		return;
	if (error) {
		refuse(mcp, error, why);
		return;
	}
	if (check_arguments(mcp, tool, arguments)) /* left out: as if empty */
		tool->call(mcp, arguments);
}
