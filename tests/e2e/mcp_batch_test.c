/* Batches of MCP: what clients of the revision 2025-03-26 may send, and nobody else.
 *
 * Guards against: a revision that is agreed to and not spoken; a message that takes its neighbours down with it, or the
 * whole answer's status; a batch that runs twice, or its messages out of order; answers without an end.
 */
#include "lib/command.h"
#include "lib/shop.h"

#define PING(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"ping\"}"
#define NOTIFICATION "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"
#define ZEROS "00000000-0000-0000-0000-000000000000"

static void post(const char *key, const char *headers, const char *body, int status)
{
	shop_expect(key, "POST", "/mcp", headers, body, status);
}

static const char *calling(int id, const char *tool, const char *arguments)
{
	return shop_text(
		"{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\",\"arguments\":%s}}", id,
		tool, arguments);
}

static const char *offer_for(const char *sku)
{
	post(shop.key_agent, NULL, calling(1, "check_stock", shop_text("{\"skus\":[\"%s\"]}", sku)), 200);
	return shop_text("%s", answer_string(&shop_answer, "result.structuredContent.offer_id"));
}

static void holding(char ret_message[500], int id, const char *sku, int quantity)
{
	snprintf(ret_message, 500, "%s",
	         calling(id, "hold",
	                 shop_text("{\"offer_id\":\"%s\",\"lines\":[{\"sku\":\"%s\",\"quantity\":%d}]}", offer_for(sku),
	                           sku, quantity)));
}

static bool is_true(const char *path)
{
	json_t *value = answer_at(&shop_answer, path);
	assert_true(json_is_boolean(value));
	return json_is_true(value);
}

/* The revision is agreed to by an old client's handshake, so all that it says is spoken. */
static void a_batch_is_answered_message_by_message_in_its_order(void **state)
{
	service_create_sku(&shop, "BATCH-A", 5);
	post(shop.key_agent, NULL,
	     "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-03-26\"}}",
	     200);
	assert_string_equal(answer_string(&shop_answer, "result.protocolVersion"), "2025-03-26");
	char first[500], second[500];
	holding(first, 3, "BATCH-A", 4);
	holding(second, 4, "BATCH-A", 4);
	post(shop.key_agent, NULL,
	     shop_text("[%s,%s,%s,%s,%s]", NOTIFICATION, calling(2, "check_stock", "{\"skus\":[\"BATCH-A\"]}"), first,
	               second, PING("\"five\"")),
	     200);
	for (int i = 0; i < 3; i++)
		assert_int_equal(answer_int(&shop_answer, shop_text("%d.id", i)), i + 2);
	assert_int_equal(answer_int(&shop_answer, "0.result.structuredContent.items.0.available"), 5);
	assert_true(is_true("1.result.structuredContent.granted"));
	assert_false(is_true("2.result.structuredContent.granted"));
	assert_string_equal(answer_string(&shop_answer, "3.id"), "five");
	assert_null(answer_at(&shop_answer, "4"));
	shop_expect_row("BATCH-A", 5, 4);
	/* By that revision's own name, too. */
	post(shop.key_agent, "MCP-Protocol-Version: 2025-03-26\r\n", "[" PING("1") "]", 200);
	assert_int_equal(answer_int(&shop_answer, "0.id"), 1);
}

static void notifications_alone_are_taken_without_an_answer(void **state)
{
	post(shop.key_agent, NULL, "[" NOTIFICATION "," NOTIFICATION "]", 202);
	assert_int_equal(shop_answer.body_size, 0);
}

static void what_is_wrong_with_one_message_is_its_own_answer(void **state)
{
	service_create_sku(&shop, "BATCH-WRONG", 5);
	post(shop.key_agent, NULL,
	     shop_text("[1,{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"resources/list\"},%s,%s,%s,%s]",
	               "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"initialize\",\"params\":{}}",
	               calling(4, "buy", "{\"hold_id\":\"" ZEROS "\"}"), "[" PING("9") "]", PING("5")),
	     200);
	assert_int_equal(answer_int(&shop_answer, "0.error.code"), -32600);
	assert_true(json_is_null(answer_at(&shop_answer, "0.id")));
	assert_int_equal(answer_int(&shop_answer, "1.error.code"), -32601);
	assert_int_equal(answer_int(&shop_answer, "2.error.code"), -32600);
	assert_non_null(strstr(answer_string(&shop_answer, "2.error.message"), "initialize"));
	assert_false(is_true("3.result.structuredContent.sold"));
	assert_int_equal(answer_int(&shop_answer, "4.error.code"), -32600);
	assert_int_equal(answer_int(&shop_answer, "5.id"), 5);
	/* A key that may only read: its message is refused, and the answer's status is not. */
	struct command made = command_run((const char *[]){"key", "create", "--principal", "batch-reader", "--channel",
	                                                   "agent", "--scopes", "read", NULL},
	                                  (const char *[]){shop_text("LASTUNIT_DATABASE_URL=%s", shop.database_url), NULL});
	assert_int_equal(made.exit_code, 0);
	char hold[500];
	holding(hold, 1, "BATCH-WRONG", 1);
	post(strtok(made.out, "\n"), NULL,
	     shop_text("[%s,%s]", hold, calling(2, "check_stock", "{\"skus\":[\"BATCH-WRONG\"]}")), 200);
	assert_true(is_true("0.result.isError"));
	assert_non_null(strstr(answer_string(&shop_answer, "0.result.content.0.text"), "sell"));
	assert_int_equal(answer_int(&shop_answer, "1.result.structuredContent.items.0.available"), 5);
	command_done(&made);
	post(NULL, NULL, "[" PING("1") "]", 401);
}

static void a_batch_that_is_none_is_refused_whole(void **state)
{
	char many[101 * sizeof PING("1") + 8] = "[";
	for (int i = 0; i < 101; i++)
		strcat(many, i ? "," PING("1") : PING("1"));
	strcat(many, "]");
	const struct {
		const char *headers, *body, *sentence;
	} rows[] = {
		{NULL, "[]", "empty"},
		{NULL, many, "at most 100"},
		{"MCP-Protocol-Version: 2025-06-18\r\n", "[" PING("1") "]", "2025-03-26 only"},
		{"MCP-Protocol-Version: 2026-07-28\r\n", "[" PING("1") "]", "2025-03-26 only"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		post(shop.key_agent, rows[i].headers, rows[i].body, 400);
		assert_int_equal(answer_int(&shop_answer, "error.code"), -32600);
		assert_non_null(strstr(answer_string(&shop_answer, "error.message"), rows[i].sentence));
	}
	strcpy(many + strlen(many) - strlen("," PING("1") "]"), "]");
	post(shop.key_agent, NULL, many, 200);
	assert_int_equal(json_array_size(shop_answer.json), 100);
}

/* A client that does not read could have its answers pile up: a body of 1 MiB brings no more than about as much. */
static void a_batch_whose_answers_grow_too_long_is_cut_short(void **state)
{
	enum { SKUS = 60, MESSAGES = 100 };
	char *skus = calloc(1, SKUS * 160), *body = calloc(1, 1 << 20);
	for (int i = 0; i < SKUS; i++) {
		const char *sku = shop_text("BATCH-LONG-%02d-%0100d", i, 0);
		service_create_sku(&shop, sku, 5);
		sprintf(skus + strlen(skus), "%s\"%s\"", i ? "," : "", sku);
	}
	char *end = body;
	for (int i = 0; i < MESSAGES; i++)
		end += sprintf(end,
		               "%c{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/call\",\"params\":"
		               "{\"name\":\"check_stock\",\"arguments\":{\"skus\":[%s]}}}",
		               i ? ',' : '[', i, skus);
	strcpy(end, "]");
	post(shop.key_agent, NULL, body, 200);
	assert_in_range(shop_answer.body_size, 1 << 20, (1 << 20) + (1 << 17));
	assert_int_equal(json_array_size(shop_answer.json), MESSAGES);
	assert_int_equal(json_array_size(answer_at(&shop_answer, "0.result.structuredContent.items")), SKUS);
	assert_int_equal(answer_int(&shop_answer, "99.id"), 99);
	assert_int_equal(answer_int(&shop_answer, "99.error.code"), -32600);
	assert_non_null(strstr(answer_string(&shop_answer, "99.error.message"), "Not begun: "));
	free(skus), free(body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_batch_is_answered_message_by_message_in_its_order, shop_audit),
		cmocka_unit_test(notifications_alone_are_taken_without_an_answer),
		cmocka_unit_test_teardown(what_is_wrong_with_one_message_is_its_own_answer, shop_audit),
		cmocka_unit_test(a_batch_that_is_none_is_refused_whole),
		cmocka_unit_test(a_batch_whose_answers_grow_too_long_is_cut_short),
	};
	return cmocka_run_group_tests(tests, shop_open, shop_close);
}
