/* A marketplace's orders over HTTP, on two instances: messages doubled, late and out of order (b56), many at once. */
#include "lib/shop.h"

static struct service second;

static int open_two(void **state)
{
	int failed = shop_open(state);
	if (!failed)
		shop_beside(&second, NULL, NULL);
	return failed;
}

static int close_two(void **state)
{
	assert_int_equal(service_stop(&second), 0);
	return shop_close(state);
}

/* "A=2 B=1" as lines; "" none. */
static const char *version_of(int64_t version, const char *lines)
{
	char json[2000] = "";
	for (const char *at = lines; *at;) {
		int size = (int)strcspn(at, "=");
		char *end;
		long quantity = strtol(at + size + 1, &end, 10);
		snprintf(json + strlen(json), sizeof json - strlen(json), "%s{\"sku\":\"%.*s\",\"quantity\":%ld}",
		         *json ? "," : "", size, at, quantity);
		at = *end ? end + 1 : end;
	}
	return shop_text("{\"version\":%lld,\"lines\":[%s]}", (long long)version, json);
}

static void put(const char *number, int64_t version, const char *lines, int status)
{
	shop_expect(shop.key_marketplace, "PUT", shop_path("orders", number, ""), NULL, version_of(version, lines), status);
}

static void expect_order(const char *number, int64_t version, const char *status)
{
	const struct service *instances[] = {&shop, &second};
	for (int i = 0; i < 2; i++) {
		struct answer answer = service_call(instances[i], shop.key_marketplace, "GET", shop_path("orders", number, ""),
		                                    NULL, NULL);
		assert_int_equal(answer.status, 200);
		assert_string_equal(answer_string(&answer, "number"), number);
		assert_int_equal(answer_int(&answer, "version"), version);
		assert_string_equal(answer_string(&answer, "status"), status);
		answer_done(&answer);
	}
}

static void b56_doubled_and_out_of_order_nothing_is_sold_twice(void **state)
{
	service_create_sku(&shop, "B56", 10);
	put("O-1", 2, "", 200);
	assert_string_equal(answer_string(&shop_answer, "status"), "cancelled");
	put("O-1", 1, "B56=2", 200);
	assert_string_equal(answer_string(&shop_answer, "status"), "cancelled");
	put("O-1", 1, "B56=2", 200);
	put("O-1", 2, "", 200);
	expect_order("O-1", 2, "cancelled");
	shop_expect_row("B56", 10, 0);
	put("O-2", 3, "B56=3", 200);
	put("O-2", 2, "B56=1", 200);
	assert_int_equal(answer_int(&shop_answer, "version"), 3);
	assert_int_equal(answer_int(&shop_answer, "lines.0.quantity"), 3);
	expect_order("O-2", 3, "completed");
	shop_expect_row("B56", 7, 0);
	shop_expect_seen(&second, "B56", 7, 0);
	assert_int_equal(service_ledger_count(&shop, "B56", "sale"), 1);
	/* The ledger names the order and the marketplace. */
	shop_expect(shop.key_admin, "GET", "/v1/skus/B56/ledger", NULL, NULL, 200);
	assert_string_equal(answer_string(&shop_answer, "items.1.reference"), "O-2");
	assert_string_equal(answer_string(&shop_answer, "items.1.channel"), "marketplace");
}

static void a_change_moves_the_difference_or_nothing(void **state)
{
	service_create_sku(&shop, "CHG-A", 5);
	service_create_sku(&shop, "CHG-B", 2);
	put("C-1", 10, "CHG-A=2 CHG-B=1", 200);
	put("C-1", 11, "CHG-A=6 CHG-B=3", 409);
	shop_expect_problem("insufficient_stock", "CHG-A: 6 requested, 5 available");
	assert_int_equal(answer_int(&shop_answer, "lines.0.available"), 5);
	assert_int_equal(answer_int(&shop_answer, "lines.1.available"), 2);
	expect_order("C-1", 10, "completed");
	shop_expect_row("CHG-A", 3, 0);
	/* Nothing was stored: the same version with the lines cancelled that could not be had. */
	put("C-1", 11, "CHG-A=5", 200);
	shop_expect_row("CHG-A", 0, 0);
	shop_expect_row("CHG-B", 2, 0);
	shop_expect_seen(&second, "CHG-B", 2, 0);
	put("C-1", 11, "CHG-A=4", 409);
	shop_expect_problem("order_version_conflict", "higher version");
	put("C-1", 12, "", 200);
	shop_expect_row("CHG-A", 5, 0);
	put("C-1", 13, "CHG-A=1 NO-SUCH=1", 404);
	shop_expect_problem("unknown_sku", "NO-SUCH");
	shop_expect_row("CHG-A", 5, 0);
}

static void a_number_belongs_to_who_sent_it(void **state)
{
	service_create_sku(&shop, "OWN", 5);
	put("1/2", 1, "OWN=1", 404); /* a slash parts a path */
	shop_expect(shop.key_marketplace, "PUT", "/v1/orders/%D0%96%201%2F2", NULL, version_of(1, "OWN=1"), 200);
	assert_string_equal(answer_string(&shop_answer, "number"), "Ж 1/2");
	shop_expect(shop.key_marketplace, "GET", "/v1/orders/%D0%96%201%2F2", NULL, NULL, 200);
	shop_expect(shop.key_web, "GET", "/v1/orders/%D0%96%201%2F2", NULL, NULL, 404);
	shop_expect_problem("unknown_order", "");
	shop_expect(shop.key_pos, "PUT", "/v1/orders/%D0%96%201%2F2", NULL, version_of(1, "OWN=2"), 200);
	shop_expect_row("OWN", 2, 0);
}

static void what_is_no_version_of_an_order_is_refused(void **state)
{
	static const struct {
		const char *body, *code, *word;
	} bad[] = {
		{"{\"lines\":[]}", "invalid_field", "`version`"},
		{"{\"version\":1}", "invalid_lines", "`lines`"},
		{"{\"version\":-1,\"lines\":[]}", "invalid_field", "`version`"},
		{"{\"version\":9007199254740992,\"lines\":[]}", "invalid_field", "`version`"},
		{"{\"version\":1.0,\"lines\":[]}", "invalid_field", "`version`"},
		{"{\"version\":\"1\",\"lines\":[]}", "invalid_field", "`version`"},
		{"{\"version\":1,\"lines\":{}}", "invalid_lines", "0 to 1000"},
		{"{\"version\":1,\"lines\":[{\"sku\":\"A\",\"quantity\":0}]}", "invalid_quantity", "lines[0].quantity"},
		{"{\"version\":1,\"lines\":[],\"reference\":\"x\"}", "invalid_field", "`reference`"},
	};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		shop_expect(shop.key_marketplace, "PUT", "/v1/orders/BAD", NULL, bad[i].body, 422);
		shop_expect_problem(bad[i].code, bad[i].word);
	}
	shop_expect(shop.key_marketplace, "PUT", "/v1/orders/%00", NULL, version_of(1, ""), 400);
	char path[400] = "/v1/orders/";
	memset(path + strlen(path), 'n', 256);
	shop_expect(shop.key_marketplace, "PUT", path, NULL, version_of(1, ""), 422);
	path[strlen("/v1/orders/") + 255] = 0;
	shop_expect(shop.key_marketplace, "PUT", path, NULL, version_of(9007199254740991, ""), 200);
	shop_expect(shop.key_marketplace, "GET", "/v1/orders/BAD", NULL, NULL, 404);
}

static void a_key_that_comes_with_a_version_is_kept(void **state)
{
	service_create_sku(&shop, "KEYED", 5);
	for (int i = 0; i < 2; i++) {
		shop_expect(shop.key_marketplace, "PUT", "/v1/orders/K-1", "Idempotency-Key: k-1\r\n", version_of(1, "KEYED=2"),
		            200);
		assert_int_equal(answer_int(&shop_answer, "lines.0.quantity"), 2);
		assert_string_equal(answer_header(&shop_answer, "Idempotent-Replayed"), i ? "true" : "");
		put("K-1", 2, "KEYED=1", 200);
	}
	shop_expect(shop.key_marketplace, "PUT", "/v1/orders/K-2", "Idempotency-Key: k-1\r\n", version_of(1, "KEYED=2"),
	            422);
	shop_expect_problem("idempotency_conflict", "");
	shop_expect_row("KEYED", 4, 0);
}

/* --- many at once ------------------------------------------------------------------------------------------------- */

enum { VERSIONS = 24 };

struct storm {
	struct tally tally;
	const char *number;
	char bodies[VERSIONS][300];
};

static void send_version(int index, void *context)
{
	struct storm *storm = context;
	struct answer answer = service_call(index % 2 ? &second : &shop, shop.key_marketplace, "PUT",
	                                    shop_path("orders", storm->number, ""), NULL,
	                                    storm->bodies[index * 7 % VERSIONS]);
	tally_add(&storm->tally, answer.status);
	answer_done(&answer);
}

static void every_version_at_once_ends_with_the_highest(void **state)
{
	static struct storm storm;
	service_create_sku(&shop, "STORM-A", 100);
	service_create_sku(&shop, "STORM-B", 100);
	for (int round = 0; round < 5; round++) {
		char number[20];
		snprintf(number, sizeof number, "S-%d", round);
		storm = (struct storm){.number = number};
		/* Versions that have no SKU in common meet on the order's row alone. */
		for (int i = 0; i < VERSIONS; i++)
			strcpy(storm.bodies[i], version_of(i + 1, i % 3 == 0 ? "" : i % 3 == 1 ? "STORM-A=4" : "STORM-B=3"));
		crowd_run(VERSIONS, send_version, &storm);
		assert_string_equal(tally_text(&storm.tally), "24 x 200");
		expect_order(number, VERSIONS, "completed");
		shop_expect_row("STORM-A", 100, 0);
		shop_expect_row("STORM-B", 100 - 3 * (round + 1), 0);
	}
}

static void one_version_many_times_at_once_sells_once(void **state)
{
	static struct storm storm = {.number = "SAME"};
	service_create_sku(&shop, "SAME", 100);
	for (int i = 0; i < VERSIONS; i++)
		strcpy(storm.bodies[i], version_of(1, "SAME=4"));
	crowd_run(VERSIONS, send_version, &storm);
	assert_string_equal(tally_text(&storm.tally), "24 x 200");
	shop_expect_row("SAME", 96, 0);
	assert_int_equal(service_ledger_count(&shop, "SAME", "sale"), 1);
}

/* One unit, and orders with numbers of their own: one has it, the others are told which line to cancel. */
static void order_the_last_unit(int index, void *context)
{
	char body[200], path[60];
	snprintf(path, sizeof path, "/v1/orders/LAST-%d", index);
	strcpy(body, version_of(1, "LAST=1"));
	struct answer answer = service_call(index % 2 ? &second : &shop, shop.key_marketplace, "PUT", path, NULL, body);
	tally_add(context, answer.status);
	answer_done(&answer);
}

static void the_last_unit_goes_to_one_order(void **state)
{
	struct tally tally = {0};
	service_create_sku(&shop, "LAST", 1);
	crowd_run(20, order_the_last_unit, &tally);
	assert_string_equal(tally_text(&tally), "1 x 200, 19 x 409");
	shop_expect_row("LAST", 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(b56_doubled_and_out_of_order_nothing_is_sold_twice, shop_audit),
		cmocka_unit_test_teardown(a_change_moves_the_difference_or_nothing, shop_audit),
		cmocka_unit_test_teardown(a_number_belongs_to_who_sent_it, shop_audit),
		cmocka_unit_test_teardown(what_is_no_version_of_an_order_is_refused, shop_audit),
		cmocka_unit_test_teardown(a_key_that_comes_with_a_version_is_kept, shop_audit),
		cmocka_unit_test_teardown(every_version_at_once_ends_with_the_highest, shop_audit),
		cmocka_unit_test_teardown(one_version_many_times_at_once_sells_once, shop_audit),
		cmocka_unit_test_teardown(the_last_unit_goes_to_one_order, shop_audit),
	};
	return cmocka_run_group_tests(tests, open_two, close_two);
}
