/* Agents over MCP: both eras on the wire, the tools, and what models get wrong.
 *
 * Guards against: an invented or repeated key that sells to nobody or twice; "sold out" told as a fault; a page of
 * another site that talks to an agent's server; a hold that is over, told as granted; a client of one era that is
 * answered in the other's words.
 */
#include "lib/command.h"
#include "lib/shop.h"

#define LEGACY "MCP-Protocol-Version: 2025-11-25\r\n"
#define MODERN_META                                                          \
	"\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"," \
	"\"io.modelcontextprotocol/clientCapabilities\":{}}"

static void post(const char *key, const char *headers, const char *body, int status)
{
	shop_expect(key, "POST", "/mcp", headers, body, status);
}

static const char *request(const char *method, const char *params)
{
	return shop_text("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"%s\",\"params\":%s}", method, params);
}

/* One tool, as a client of the legacy era calls it. Its structured result lies below "result.structuredContent". */
static void call(const char *key, const char *tool, const char *arguments)
{
	post(key, LEGACY, request("tools/call", shop_text("{\"name\":\"%s\",\"arguments\":%s}", tool, arguments)), 200);
	assert_int_equal(answer_int(&shop_answer, "id"), 7);
}

static const char *said(const char *member)
{
	return answer_string(&shop_answer, shop_text("result.structuredContent.%s", member));
}

static bool is_true(const char *path)
{
	json_t *value = answer_at(&shop_answer, path);
	assert_true(json_is_boolean(value));
	return json_is_true(value);
}

static bool says(const char *member)
{
	return is_true(shop_text("result.structuredContent.%s", member));
}

/* Text for the model, isError. */
static void expect_fault(const char *word)
{
	assert_true(is_true("result.isError"));
	assert_non_null(strstr(answer_string(&shop_answer, "result.content.0.text"), word));
}

static const char *offer_for(const char *key, const char *sku)
{
	call(key, "check_stock", shop_text("{\"skus\":[\"%s\"]}", sku));
	return shop_text("%s", said("offer_id"));
}

static const char *holding(const char *offer, const char *sku, int quantity)
{
	return shop_text("{\"offer_id\":\"%s\",\"lines\":[{\"sku\":\"%s\",\"quantity\":%d}]}", offer, sku, quantity);
}

/* --- the wire ----------------------------------------------------------------------------------------------------- */

static void a_handshake_answers_in_the_clients_version(void **state)
{
	post(shop.key_agent, NULL, request("initialize", "{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{}}"), 200);
	assert_string_equal(answer_string(&shop_answer, "result.protocolVersion"), "2025-06-18");
	assert_string_equal(answer_string(&shop_answer, "result.serverInfo.name"), "lastunit");
	assert_true(json_is_object(answer_at(&shop_answer, "result.capabilities.tools")));
	post(shop.key_agent, NULL, request("initialize", "{\"protocolVersion\":\"2024-01-01\"}"), 200);
	assert_string_equal(answer_string(&shop_answer, "result.protocolVersion"), "2025-11-25");
	post(shop.key_agent, LEGACY, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}", 202);
	assert_int_equal(shop_answer.body_size, 0);
	post(shop.key_agent, LEGACY, request("ping", "{}"), 200);
	assert_null(answer_at(&shop_answer, "result.resultType"));
}

static void a_modern_request_says_everything_itself(void **state)
{
	const char *headers = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: server/discover\r\n";
	post(shop.key_agent, headers, request("server/discover", "{" MODERN_META "}"), 200);
	assert_string_equal(answer_string(&shop_answer, "result.supportedVersions.0"), "2026-07-28");
	assert_string_equal(answer_string(&shop_answer, "result.resultType"), "complete");
	headers = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n";
	post(shop.key_agent, headers, request("tools/list", "{" MODERN_META "}"), 200);
	static const char *const order[] = {"find_products", "check_stock", "hold", "release_hold", "buy"};
	for (int i = 0; i < 5; i++)
		assert_string_equal(answer_string(&shop_answer, shop_text("result.tools.%d.name", i)), order[i]);
	assert_null(answer_at(&shop_answer, "result.tools.5"));
	assert_true(answer_int(&shop_answer, "result.ttlMs") > 0);
	/* A name in base64, as for what does not fit into a header. */
	service_create_sku(&shop, "MODERN", 1);
	headers = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: =?base64?Y2hlY2tfc3RvY2s=?=\r\n";
	post(shop.key_agent, headers,
	     request("tools/call", "{\"name\":\"check_stock\",\"arguments\":{\"skus\":[\"MODERN\"]}," MODERN_META "}"),
	     200);
	assert_int_equal(answer_int(&shop_answer, "result.structuredContent.items.0.available"), 1);
}

static void what_is_wrong_on_the_wire_has_its_code(void **state)
{
	static const struct {
		const char *headers, *body;
		int status, code;
	} rows[] = {
		{LEGACY, "{", 400, -32700},
		{LEGACY, "[]", 400, -32600},
		{LEGACY, "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", 400, -32600},
		{LEGACY, "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", 400, -32600},
		{LEGACY, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/list\"}", 404, -32601},
		{LEGACY, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"sell_all\"}}", 200,
	     -32602},
		{"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: ping\r\n",
	     "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{" MODERN_META "}}", 404, -32601},
		{"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n",
	     "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{" MODERN_META "}}", 400, -32020},
		{"Mcp-Method: tools/list\r\n",
	     "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{" MODERN_META "}}", 400, -32020},
		{"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n",
	     "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}", 400, -32602},
		{"MCP-Protocol-Version: 1999-01-01\r\nMcp-Method: tools/list\r\n",
	     "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"_meta\":{\"io.modelcontextprotocol/"
	     "protocolVersion\":\"1999-01-01\",\"io.modelcontextprotocol/clientCapabilities\":{}}}}",
	     400, -32022},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		post(shop.key_agent, rows[i].headers, rows[i].body, rows[i].status);
		assert_int_equal(answer_int(&shop_answer, "error.code"), rows[i].code);
	}
	/* What may be asked for instead is what server/discover lists, no more. */
	assert_string_equal(answer_string(&shop_answer, "error.data.supported.0"), "2026-07-28");
	assert_null(answer_at(&shop_answer, "error.data.supported.1"));
	shop_expect(shop.key_agent, "GET", "/mcp", NULL, NULL, 405);
	assert_string_equal(answer_header(&shop_answer, "Allow"), "POST, OPTIONS");
	post(NULL, LEGACY, request("ping", "{}"), 401);
	assert_non_null(strstr(answer_header(&shop_answer, "WWW-Authenticate"), "Bearer"));
}

static void a_page_of_another_site_is_refused(void **state)
{
	post(shop.key_agent, "Origin: https://evil.example\r\n", request("ping", "{}"), 403);
	post(shop.key_agent, "Origin: null\r\n", request("ping", "{}"), 403);
	post(shop.key_agent, shop_text("Origin: http://localhost:%d\r\n", shop.port), request("ping", "{}"), 200);
}

/* Each of these once got the sentence of a batch. */
static void what_is_wrong_on_the_wire_is_named(void **state)
{
	static const struct {
		const char *body;
		int code;
		const char *sentence;
	} rows[] = {
		{"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", -32600, "batches are of the revision 2025-03-26 only"},
		{"7", -32600, "one JSON-RPC 2.0 request"},
		{"{\"id\":1,\"method\":\"ping\"}", -32600, "`jsonrpc` must be \"2.0\""},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", -32600, "`method` must be a string"},
		{"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", -32600, "`id` must be a string or an integer"},
		{"{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"ping\"}", -32600, "`id` must be a string or an integer"},
		{"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", -32600, "`id` must be a string or an integer"},
		{"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\",\"params\":[]}", -32602, "`params` must be an object"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		post(shop.key_agent, LEGACY, rows[i].body, 400);
		assert_int_equal(answer_int(&shop_answer, "error.code"), rows[i].code);
		if (!strstr(answer_string(&shop_answer, "error.message"), rows[i].sentence))
			fail_msg("%s: %s", rows[i].body, answer_string(&shop_answer, "error.message"));
	}
	/* An id that can be echoed is. */
	assert_int_equal(answer_int(&shop_answer, "id"), 7);
}

/* Who asks for what is not there is told what there is. */
static void what_is_not_there_is_named_beside_what_is(void **state)
{
	static const char old[] = "MCP-Protocol-Version: 2024-11-05\r\n", none[] = "MCP-Protocol-Version: 1.0\r\n";
	static const char modern[] = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: resources/list\r\n";
	const char *no_tool = shop_text("{\"name\":\"%070d\"}", 7);
	const struct {
		const char *headers, *method, *params;
		int status, code;
		const char *sentence;
	} rows[] = {
		{LEGACY, "resources/list", "{}", 404, -32601,
	     "There is no method \"resources/list\"; there are initialize, ping, tools/list, tools/call."},
		{modern, "resources/list", "{" MODERN_META "}", 404, -32601,
	     "There is no method \"resources/list\"; there are server/discover, tools/list, tools/call."},
		{LEGACY, "tools/call", "{\"name\":\"sell\"}", 200, -32602,
	     "There is no tool \"sell\"; there are find_products, check_stock, hold, release_hold, buy."},
		{LEGACY, "tools/call", no_tool, 200, -32602, "0000\"; there are find_products"},
		{LEGACY, "tools/call", "{}", 200, -32602, "params.name must name a tool; there are find_products"},
		{old, "tools/list", "{}", 400, -32022,
	     "The version \"2024-11-05\" of the protocol is not spoken here; 2026-07-28, 2025-11-25, 2025-06-18 and "
	     "2025-03-26 are."},
		{none, "ping", "{}", 400, -32022, "The version \"1.0\" of"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		post(shop.key_agent, rows[i].headers, request(rows[i].method, rows[i].params), rows[i].status);
		assert_int_equal(answer_int(&shop_answer, "error.code"), rows[i].code);
		if (!strstr(answer_string(&shop_answer, "error.message"), rows[i].sentence))
			fail_msg("\"%s\" instead of \"%s\"", answer_string(&shop_answer, "error.message"), rows[i].sentence);
	}
	assert_string_equal(answer_string(&shop_answer, "error.data.requested"), "1.0");
	assert_string_equal(answer_string(&shop_answer, "error.data.supported.0"), "2026-07-28");
}

/* There is one page of tools: whoever asks for another has not got its cursor from us. */
static void the_list_of_tools_has_one_page(void **state)
{
	post(shop.key_agent, LEGACY, request("tools/list", "{\"cursor\":\"zzz\"}"), 200);
	assert_int_equal(answer_int(&shop_answer, "error.code"), -32602);
	assert_non_null(strstr(answer_string(&shop_answer, "error.message"), "cursor"));
	post(shop.key_agent, "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n",
	     request("tools/list", "{\"cursor\":\"\"," MODERN_META "}"), 400);
	assert_int_equal(answer_int(&shop_answer, "error.code"), -32602);
	post(shop.key_agent, LEGACY, request("tools/list", "{}"), 200);
	assert_null(answer_at(&shop_answer, "result.nextCursor"));
}

/* --- the tools ---------------------------------------------------------------------------------------------------- */

static void expect_not_released(const char *id, const char *status)
{
	call(shop.key_agent, "release_hold", id);
	assert_false(is_true("result.isError"));
	assert_false(says("released"));
	assert_string_equal(said("status"), status);
	assert_non_null(strstr(said("next"), "check_stock"));
	assert_int_equal(!!strstr(said("next"), "It was bought"), !strcmp(status, "committed"));
}

static void an_agent_finds_checks_holds_and_buys(void **state)
{
	shop_expect(shop.key_admin, "PUT", "/v1/skus/MCP-LAMP", NULL,
	            "{\"on_hand\":2,\"titles\":{\"en\":\"Dragonfly lantern\",\"ru\":\"Фонарь «Стрекоза»\"}}", 201);
	call(shop.key_agent, "find_products", "{\"query\":\"have you got dragonfly lanterns?\",\"limit\":3}");
	assert_string_equal(said("items.0.sku"), "MCP-LAMP");
	assert_string_equal(said("items.0.titles.ru"), "Фонарь «Стрекоза»");
	assert_int_equal(answer_int(&shop_answer, "result.structuredContent.items.0.available"), 2);
	/* The text says what the structure says. */
	json_t *text = json_loads(answer_string(&shop_answer, "result.content.0.text"), 0, NULL);
	assert_true(json_equal(text, answer_at(&shop_answer, "result.structuredContent")));
	json_decref(text);

	const char *offer = offer_for(shop.key_agent, "MCP-LAMP");
	call(shop.key_agent, "hold", holding(offer, "MCP-LAMP", 2));
	assert_true(says("granted"));
	assert_in_range(answer_int(&shop_answer, "result.structuredContent.expires_in_seconds"), 590, 600);
	char id[80];
	snprintf(id, sizeof id, "{\"hold_id\":\"%s\"}", said("hold_id"));
	shop_expect_row("MCP-LAMP", 2, 2);
	call(shop.key_agent, "buy", id);
	assert_true(says("sold"));
	char checkout[40];
	snprintf(checkout, sizeof checkout, "%s", said("checkout_id"));
	call(shop.key_agent, "buy", id);
	assert_true(says("sold"));
	assert_string_equal(said("checkout_id"), checkout);
	shop_expect_row("MCP-LAMP", 0, 0);
	expect_not_released(id, "committed");
	assert_string_equal(said("code"), "reservation_not_active");
}

static void the_same_offer_holds_once(void **state)
{
	char offer[80];
	service_create_sku(&shop, "MCP-ONCE", 5);
	snprintf(offer, sizeof offer, "%s", offer_for(shop.key_agent, "MCP-ONCE"));
	call(shop.key_agent, "hold", holding(offer, "MCP-ONCE", 2));
	char first[40];
	snprintf(first, sizeof first, "%s", said("hold_id"));
	call(shop.key_agent, "hold", holding(offer, "MCP-ONCE", 2));
	assert_string_equal(said("hold_id"), first);
	shop_expect_row("MCP-ONCE", 5, 2);
	call(shop.key_agent, "hold", holding(offer, "MCP-ONCE", 3));
	expect_fault("already been used for another cart. Call check_stock");
	shop_expect_row("MCP-ONCE", 5, 2);
}

static void move_end(const char *hold, const char *when)
{
	shop_sql("UPDATE lastunit.reservation SET expires_at = %s WHERE id = '%s'", when, hold);
	shop_sql(
		"UPDATE lastunit.hold h SET expires_at = r.expires_at FROM lastunit.reservation r"
		" WHERE r.id = h.reservation_id AND r.id = '%s'",
		hold);
}

static void hold_two(const char *offer, const char *sku, char ret_hold[40])
{
	call(shop.key_agent, "hold", holding(offer, sku, 2));
	assert_true(says("granted"));
	snprintf(ret_hold, 40, "%s", said("hold_id"));
}

/* The same offer once more, after its hold has ended so. */
static void expect_ended(const char *offer, const char *hold, const char *status)
{
	call(shop.key_agent, "hold", holding(offer, "MCP-AGAIN", 2));
	assert_false(is_true("result.isError"));
	assert_false(says("granted"));
	assert_string_equal(said("status"), status);
	assert_string_equal(said("hold_id"), hold);
	assert_non_null(strstr(said("next"), "check_stock"));
	assert_int_equal(!!strstr(said("next"), "It was bought"), !strcmp(status, "committed"));
	assert_null(answer_at(&shop_answer, "result.structuredContent.expires_in_seconds"));
}

static void expect_not_sold(const char *hold, const char *status)
{
	call(shop.key_agent, "buy", shop_text("{\"hold_id\":\"%s\"}", hold));
	assert_false(is_true("result.isError"));
	assert_false(says("sold"));
	assert_string_equal(said("status"), status);
	assert_non_null(strstr(said("next"), "check_stock"));
}

/* A model tells a person what it is told: "held for two minutes" of what is anybody's again would be a lie. */
static void the_same_offer_is_told_how_its_hold_stands_now(void **state)
{
	char offer[80], hold[40];
	service_create_sku(&shop, "MCP-AGAIN", 5);
	snprintf(offer, sizeof offer, "%s", offer_for(shop.key_agent, "MCP-AGAIN"));
	hold_two(offer, "MCP-AGAIN", hold);
	move_end(hold, "clock_timestamp() + interval '60 seconds'");
	call(shop.key_agent, "hold", holding(offer, "MCP-AGAIN", 2));
	assert_true(says("granted"));
	assert_string_equal(said("hold_id"), hold);
	assert_in_range(answer_int(&shop_answer, "result.structuredContent.expires_in_seconds"), 1, 60);
	call(shop.key_agent, "release_hold", shop_text("{\"hold_id\":\"%s\"}", hold));
	expect_ended(offer, hold, "released");
	expect_not_sold(hold, "released");

	snprintf(offer, sizeof offer, "%s", offer_for(shop.key_agent, "MCP-AGAIN"));
	hold_two(offer, "MCP-AGAIN", hold);
	move_end(hold, "clock_timestamp()");
	expect_ended(offer, hold, "expired");
	expect_not_sold(hold, "expired");

	snprintf(offer, sizeof offer, "%s", offer_for(shop.key_agent, "MCP-AGAIN"));
	hold_two(offer, "MCP-AGAIN", hold);
	call(shop.key_agent, "buy", shop_text("{\"hold_id\":\"%s\"}", hold));
	expect_ended(offer, hold, "committed");
	assert_string_equal(said("code"), "reservation_not_active");
}

/* A retried release has what it wants; what ended otherwise nobody released. */
static void a_release_is_told_how_the_hold_has_ended(void **state)
{
	char id[80], hold[40];
	service_create_sku(&shop, "MCP-OVER", 5);
	hold_two(offer_for(shop.key_agent, "MCP-OVER"), "MCP-OVER", hold);
	snprintf(id, sizeof id, "{\"hold_id\":\"%s\"}", hold);
	for (int again = 0; again < 2; again++) {
		call(shop.key_agent, "release_hold", id);
		assert_true(says("released"));
		assert_string_equal(said("status"), "released");
		assert_int_equal(!!strstr(said("next"), "check_stock"), again);
	}
	hold_two(offer_for(shop.key_agent, "MCP-OVER"), "MCP-OVER", hold);
	snprintf(id, sizeof id, "{\"hold_id\":\"%s\"}", hold);
	move_end(hold, "clock_timestamp()");
	expect_not_released(id, "expired");
	expect_not_released(id, "expired");
	assert_string_equal(said("code"), "");
	shop_expect_row("MCP-OVER", 5, 0);
	call(shop.key_agent, "release_hold", "{\"hold_id\":\"01900000-0000-7000-8000-000000000000\"}");
	assert_false(says("released"));
	assert_string_equal(said("code"), "unknown_reservation");
	assert_string_equal(said("status"), "");
}

/* A model that makes a key up, or brings one that another agent was given. */
static void an_invented_offer_is_told_to_look_again(void **state)
{
	service_create_sku(&shop, "MCP-FORGED", 5);
	call(shop.key_agent, "hold", holding("order-1", "MCP-FORGED", 1));
	expect_fault("check_stock");
	const char *offer = offer_for(shop.key_voice, "MCP-FORGED");
	call(shop.key_agent, "hold", holding(offer, "MCP-FORGED", 1));
	expect_fault("check_stock");
	call(shop.key_agent, "hold", "{\"lines\":[{\"sku\":\"MCP-FORGED\",\"quantity\":1}]}");
	expect_fault("offer_id");
	shop_expect_row("MCP-FORGED", 5, 0);
}

static void sold_out_is_an_answer(void **state)
{
	service_create_sku(&shop, "MCP-OUT", 1);
	const char *offer = offer_for(shop.key_agent, "MCP-OUT");
	call(shop.key_agent, "hold", holding(offer, "MCP-OUT", 2));
	assert_false(says("granted"));
	assert_string_equal(said("code"), "insufficient_stock");
	assert_string_equal(said("lines.0.sku"), "MCP-OUT");
	assert_int_equal(answer_int(&shop_answer, "result.structuredContent.lines.0.available"), 1);
	assert_false(is_true("result.isError"));
	offer = offer_for(shop.key_agent, "MCP-OUT");
	call(shop.key_agent, "hold", holding(offer, "MCP-NOWHERE", 1));
	assert_false(says("granted"));
	assert_string_equal(said("code"), "unknown_sku");
	call(shop.key_agent, "buy", "{\"hold_id\":\"01900000-0000-7000-8000-000000000000\"}");
	assert_false(says("sold"));
	assert_string_equal(said("code"), "unknown_reservation");
	assert_non_null(strstr(said("next"), "the one that hold returned"));
}

/* An empty list would say that the shop has not got it. */
static void what_cannot_be_looked_up_now_is_a_fault(void **state)
{
	shop_expect(shop.key_admin, "PUT", "/v1/skus/MCP-AWAY", NULL, "{\"titles\":{\"en\":\"Tourmaline\"}}", 201);
	struct stranger *stranger = stranger_new();
	stranger_say(stranger, "BEGIN");
	stranger_say(stranger, "LOCK TABLE lastunit.sku");
	call(shop.key_agent, "find_products", "{\"query\":\"tourmaline\"}");
	expect_fault("overloaded: ");
	stranger_free(stranger);
	call(shop.key_agent, "find_products", "{\"query\":\"tourmaline\"}");
	assert_string_equal(said("items.0.sku"), "MCP-AWAY");
}

static void bad_arguments_are_told_to_the_model(void **state)
{
	static const struct {
		const char *tool, *arguments, *word;
	} rows[] = {
		{"find_products", "{}", "query"},
		{"find_products", "{\"query\":\"\"}", "1 to 400 bytes"},
		{"find_products", "{\"query\":7}", "1 to 400 bytes"},
		{"find_products", "{\"query\":\"mug\",\"limit\":0}", "limit"},
		{"find_products", "{\"query\":\"mug\",\"limit\":21}", "limit"},
		{"find_products", "{\"query\":\"mug\",\"limit\":1.0}", "limit"},
		{"find_products", "{\"query\":\"mug\",\"colour\":\"red\"}", "no argument \"colour\"; it takes query, limit"},
		/* Words of the schema, and arguments of another tool. */
		{"find_products", "{\"query\":\"mug\",\"default\":1}", "no argument \"default\""},
		{"find_products", "{\"query\":\"mug\",\"properties\":{}}", "no argument \"properties\""},
		{"find_products", "{\"query\":\"mug\",\"minLength\":9}", "no argument \"minLength\""},
		{"check_stock", "{\"skus\":[\"MCP-OUT\"],\"query\":\"mug\"}", "no argument \"query\""},
		{"check_stock", "{}", "lacks the argument \"skus\""},
		{"check_stock", "{\"skus\":[]}", "skus"},
		{"check_stock", "{\"skus\":[\" A\"]}", "skus"},
		{"buy", "{\"hold_id\":\"mine\"}", "hold_id"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		call(shop.key_agent, rows[i].tool, rows[i].arguments);
		expect_fault(rows[i].word);
	}
	const char *offer = offer_for(shop.key_agent, "MCP-OUT");
	call(shop.key_agent, "hold", holding(offer, "MCP-OUT", -1));
	expect_fault("lines[0].quantity");
	call(shop.key_agent, "find_products", shop_text("{\"query\":\"%0401d\"}", 0));
	expect_fault("1 to 400 bytes");
	call(shop.key_agent, "find_products", shop_text("{\"query\":\"%0400d\",\"limit\":20}", 0));
	assert_false(is_true("result.isError"));
	post(shop.key_agent, LEGACY, request("tools/call", "{\"name\":\"check_stock\",\"arguments\":[]}"), 200);
	assert_int_equal(answer_int(&shop_answer, "error.code"), -32602);
}

/* What a model believes it has said must not be done without it. */
static void an_argument_that_is_none_stops_the_tool(void **state)
{
	service_create_sku(&shop, "MCP-STRAY", 9);
	const char *offer = offer_for(shop.key_agent, "MCP-STRAY"), *line = "{\"sku\":\"MCP-STRAY\",\"quantity\":1";
	call(shop.key_agent, "hold", shop_text("{\"offer_id\":\"%s\",\"lines\":[%s}],\"quantity\":5}", offer, line));
	expect_fault("no argument \"quantity\"; it takes offer_id, lines");
	call(shop.key_agent, "hold", shop_text("{\"offer_id\":\"%s\",\"lines\":[%s,\"minimum\":5}]}", offer, line));
	expect_fault("lines[0]");
	shop_expect_row("MCP-STRAY", 9, 0);
	call(shop.key_agent, "hold", holding(offer, "MCP-STRAY", 2));
	assert_true(says("granted"));
	call(shop.key_agent, "release_hold", shop_text("{\"hold_id\":\"%s\",\"type\":3}", said("hold_id")));
	expect_fault("no argument \"type\"");
	shop_expect_row("MCP-STRAY", 9, 2);
}

/* Models that must name every argument send null for those they have nothing to say of. */
static void null_is_an_argument_left_out(void **state)
{
	service_create_sku(&shop, "MCP-NULL", 2);
	call(shop.key_agent, "find_products", "{\"query\":\"MCP-NULL\",\"limit\":null}");
	assert_string_equal(said("items.0.sku"), "MCP-NULL");
	call(shop.key_agent, "find_products", "null");
	expect_fault("lacks the argument \"query\"");
	call(shop.key_agent, "find_products", "{\"query\":null}");
	expect_fault("1 to 400 bytes");
}

static void missing_arguments_are_none(void **state)
{
	post(shop.key_agent, LEGACY, request("tools/call", "{\"name\":\"check_stock\"}"), 200);
	expect_fault("lacks the argument \"skus\"");
	post(shop.key_agent, LEGACY, request("tools/call", "{\"name\":\"hold\"}"), 200);
	expect_fault("from check_stock");
}

static void a_key_that_only_reads_finds_and_holds_nothing(void **state)
{
	char key[80];
	struct command made = command_run((const char *[]){"key", "create", "--principal", "watcher", "--channel", "agent",
	                                                   "--scopes", "read", NULL},
	                                  (const char *[]){shop_text("LASTUNIT_DATABASE_URL=%s", shop.database_url), NULL});
	assert_int_equal(sscanf(made.out, "%79s", key), 1);
	command_done(&made);
	service_create_sku(&shop, "MCP-SEEN", 5);
	const char *offer = offer_for(key, "MCP-SEEN");
	post(key, LEGACY,
	     request("tools/call", shop_text("{\"name\":\"hold\",\"arguments\":%s}", holding(offer, "MCP-SEEN", 1))), 403);
	shop_expect_problem("forbidden", "sell");
	shop_expect_row("MCP-SEEN", 5, 0);
}

/* --- without a key of their own ----------------------------------------------------------------------------------- */

static struct answer call_openly(const struct service *open, const char *key, const char *tool, const char *arguments)
{
	return service_call(open, key, "POST", "/mcp", LEGACY,
	                    request("tools/call", shop_text("{\"name\":\"%s\",\"arguments\":%s}", tool, arguments)));
}

/* The hold's id, and how long it lives. */
static int64_t hold_openly(const struct service *open, const char *key, char ret_id[80])
{
	struct answer answer = call_openly(open, key, "check_stock", "{\"skus\":[\"MCP-PUBLIC\"]}");
	const char *offer = shop_text("%s", answer_string(&answer, "result.structuredContent.offer_id"));
	answer_done(&answer);
	answer = call_openly(open, key, "hold", holding(offer, "MCP-PUBLIC", 1));
	assert_true(json_is_true(answer_at(&answer, "result.structuredContent.granted")));
	snprintf(ret_id, 80, "{\"hold_id\":\"%s\"}", answer_string(&answer, "result.structuredContent.hold_id"));
	int64_t left_s = answer_int(&answer, "result.structuredContent.expires_in_seconds");
	answer_done(&answer);
	return left_s;
}

/* Nobody knows who they are: what they hold comes back soon, and they buy nothing. */
static void agents_without_a_key_hold_for_two_minutes_and_do_not_buy(void **state)
{
	struct service open;
	char id[80], own[80];
	service_create_sku(&shop, "MCP-PUBLIC", 5);
	service_beside(&open, &shop, NULL, NULL,
	               (const char *[]){"--public-mcp", shop.key_agent, "--log-level", "error", NULL});
	assert_in_range(hold_openly(&open, NULL, id), 100, 120);
	struct answer answer = call_openly(&open, NULL, "buy", id);
	assert_int_equal(answer.status, 401);
	assert_non_null(strstr(answer_string(&answer, "detail"), "a key of your own"));
	answer_done(&answer);
	shop_expect_row("MCP-PUBLIC", 5, 1);
	answer = call_openly(&open, NULL, "release_hold", id);
	assert_true(json_is_true(answer_at(&answer, "result.structuredContent.released")));
	answer_done(&answer);
	/* Who has one is who he is, also there. */
	assert_in_range(hold_openly(&open, shop.key_agent, own), 590, 600);
	answer = call_openly(&open, shop.key_agent, "buy", own);
	assert_true(json_is_true(answer_at(&answer, "result.structuredContent.sold")));
	answer_done(&answer);
	answer = call_openly(&open, "lu_nobodys", "check_stock", "{\"skus\":[\"MCP-PUBLIC\"]}");
	assert_int_equal(answer.status, 401);
	answer_done(&answer);
	shop_expect_row("MCP-PUBLIC", 4, 0);
	assert_int_equal(service_stop(&open), 0);
}

/* What a client checks arguments by is what they are checked by here. */
static void each_tools_schema_names_its_arguments(void **state)
{
	static const struct {
		const char *required[2], *optional;
	} rows[] = {{{"query"}, "limit"},
	            {{"skus"}, NULL},
	            {{"offer_id", "lines"}, NULL},
	            {{"hold_id"}, NULL},
	            {{"hold_id"}, NULL}};
	post(shop.key_agent, LEGACY, request("tools/list", "{}"), 200);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		json_t *schema = answer_at(&shop_answer, shop_text("result.tools.%zu.inputSchema", i));
		json_t *properties = json_object_get(schema, "properties"), *required = json_object_get(schema, "required");
		size_t count = rows[i].required[1] ? 2 : 1;
		assert_string_equal(json_string_value(json_object_get(schema, "type")), "object");
		assert_true(json_is_false(json_object_get(schema, "additionalProperties")));
		assert_int_equal(json_array_size(required), count);
		assert_int_equal(json_object_size(properties), count + !!rows[i].optional);
		for (size_t j = 0; j < count; j++) {
			assert_string_equal(json_string_value(json_array_get(required, j)), rows[i].required[j]);
			assert_true(json_is_object(json_object_get(properties, rows[i].required[j])));
		}
		if (rows[i].optional)
			assert_true(json_is_object(json_object_get(properties, rows[i].optional)));
	}
}

/* A search of words that are all mistyped may take a second where there are many products: those of one agent wait for
 * each other, and nobody else for more than the one that is under way. */
static void the_searches_of_one_agent_are_in_nobody_elses_way(void **state)
{
	enum { SEARCHES = 8 };
	static const char find[] =
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":"
		"\"find_products\",\"arguments\":{\"query\":\"mug\"}}}";
	struct errand *searches[SEARCHES];
	service_create_sku(&shop, "MCP-TURN", 1);
	struct stranger *stranger = stranger_new();
	stranger_say(stranger,
	             "BEGIN; LOCK TABLE lastunit.search_word IN ACCESS EXCLUSIVE MODE"); /* each takes two seconds */
	for (int i = 0; i < SEARCHES; i++)
		searches[i] = errand_begin(&shop, shop.key_agent, "POST", "/mcp", find);
	shop_wait_sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'search_products'",
	              "1");
	shop_expect_get("/v1/skus/MCP-TURN", 200);
	for (int i = 0; i < SEARCHES; i++) {
		errand_end(searches[i]);
		errand_done(searches[i]);
	}
	stranger_free(stranger);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_handshake_answers_in_the_clients_version),
		cmocka_unit_test(a_modern_request_says_everything_itself),
		cmocka_unit_test(what_is_wrong_on_the_wire_has_its_code),
		cmocka_unit_test(what_is_wrong_on_the_wire_is_named),
		cmocka_unit_test(what_is_not_there_is_named_beside_what_is),
		cmocka_unit_test(the_list_of_tools_has_one_page),
		cmocka_unit_test(a_page_of_another_site_is_refused),
		cmocka_unit_test_teardown(an_agent_finds_checks_holds_and_buys, shop_audit),
		cmocka_unit_test_teardown(the_same_offer_holds_once, shop_audit),
		cmocka_unit_test_teardown(the_same_offer_is_told_how_its_hold_stands_now, shop_audit),
		cmocka_unit_test_teardown(a_release_is_told_how_the_hold_has_ended, shop_audit),
		cmocka_unit_test(an_invented_offer_is_told_to_look_again),
		cmocka_unit_test_teardown(sold_out_is_an_answer, shop_audit),
		cmocka_unit_test(what_cannot_be_looked_up_now_is_a_fault),
		cmocka_unit_test(bad_arguments_are_told_to_the_model),
		cmocka_unit_test_teardown(an_argument_that_is_none_stops_the_tool, shop_audit),
		cmocka_unit_test(null_is_an_argument_left_out),
		cmocka_unit_test(missing_arguments_are_none),
		cmocka_unit_test(a_key_that_only_reads_finds_and_holds_nothing),
		cmocka_unit_test_teardown(agents_without_a_key_hold_for_two_minutes_and_do_not_buy, shop_audit),
		cmocka_unit_test(each_tools_schema_names_its_arguments),
		cmocka_unit_test(the_searches_of_one_agent_are_in_nobody_elses_way),
	};
	return cmocka_run_group_tests(tests, shop_open, shop_close);
}
