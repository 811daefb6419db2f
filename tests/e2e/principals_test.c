/* What a principal may do beyond its scopes, over HTTP and the command line: its buffer, the safety stock, and caps against
 * who holds everything (b30).
 *
 * When `lastunit key set` returns, every instance must obey: each test asks both of two instances, with no wait between.
 */
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

/* `lastunit key set NAME …`; its exit code. */
static int set(const char *name, const char *flag, const char *value)
{
	return service_run(&shop, (const char *const[]){"key", "set", name, flag, value, NULL});
}

/* What one key is told by both instances. */
static void expect_available(const char *key, const char *sku, int64_t available)
{
	const struct service *instances[] = {&shop, &second};
	for (int i = 0; i < 2; i++) {
		struct answer answer = service_call(instances[i], key, "GET", shop_path("availability", sku, ""), NULL, NULL);
		assert_int_equal(answer.status, 200);
		assert_int_equal(answer_int(&answer, "available"), available);
		assert_string_equal(answer_string(&answer, "status"), available ? "in_stock" : "out_of_stock");
		answer_done(&answer);
		char codes[300];
		snprintf(codes, sizeof codes, "{\"skus\":[\"%s\"]}", sku);
		answer = service_call(instances[i], key, "POST", "/v1/availability", NULL, codes);
		assert_int_equal(answer_int(&answer, "items.0.available"), available);
		answer_done(&answer);
		answer = service_call(instances[i], key, "GET", shop_path("skus", sku, ""), NULL, NULL);
		assert_int_equal(answer_int(&answer, "available"), available);
		answer_done(&answer);
	}
}

static void create(const char *sku, int on_hand, int safety_stock)
{
	shop_expect(shop.key_admin, "PUT", shop_path("skus", sku, ""), NULL,
	            shop_text("{\"on_hand\":%d,\"safety_stock\":%d}", on_hand, safety_stock), 201);
}

/* Its settings belong to the answer: the same key has the same one, whatever was set since. */
static void a_replay_tells_what_was_available_then(void **state)
{
	const char *key = "Idempotency-Key: then\r\n", *put = "Idempotency-Key: then-put\r\n";
	const char *body = "{\"lines\":[{\"sku\":\"THEN\",\"delta\":1}],\"reason\":\"delivery\"}";
	create("THEN", 10, 2);
	for (int again = 0; again < 2; again++) {
		shop_expect(shop.key_admin, "POST", "/v1/adjustments", key, body, 201);
		assert_int_equal(answer_int(&shop_answer, "lines.0.available"), 9);
		shop_expect(shop.key_admin, "PUT", "/v1/skus/THEN", put, "{\"safety_stock\":1}", 200);
		assert_int_equal(answer_int(&shop_answer, "available"), 10);
		assert_string_equal(answer_header(&shop_answer, "Idempotent-Replayed"), again ? "true" : "");
		assert_int_equal(set("admin", "--buffer", "4"), 0);
	}
	expect_available(shop.key_admin, "THEN", 6);
	assert_int_equal(set("admin", "--buffer", "0"), 0);
	/* As GET has it: what is not counted is not so many. */
	shop_expect(shop.key_admin, "PUT", "/v1/skus/THEN", NULL, "{\"tracked\":false}", 200);
	shop_expect(shop.key_admin, "POST", "/v1/adjustments", "Idempotency-Key: uncounted\r\n", body, 201);
	assert_true(json_is_null(answer_at(&shop_answer, "lines.0.available")));
}

static void what_a_principal_sees_is_what_it_may_sell(void **state)
{
	create("BUF", 10, 1);
	shop_warm(&shop, "BUF");
	shop_warm(&second, "BUF");
	shop_expect(shop.key_marketplace, "GET", "/v1/availability/BUF", NULL, NULL, 200);
	char tag[120];
	snprintf(tag, sizeof tag, "If-None-Match: %s\r\n", answer_header(&shop_answer, "ETag"));
	assert_int_equal(set("marketplace", "--buffer", "4"), 0);
	/* Nothing was written to the SKU: the cells are the same, what they say to this one is not. */
	expect_available(shop.key_marketplace, "BUF", 5);
	expect_available(shop.key_web, "BUF", 9);
	shop_expect(shop.key_marketplace, "GET", "/v1/availability/BUF", tag, NULL, 200);
	shop_expect(shop.key_web, "GET", "/v1/availability/BUF", tag, NULL, 304);
	shop_expect(shop.key_marketplace, "POST", "/v1/checkouts", NULL, shop_cart("BUF=6"), 409);
	assert_int_equal(answer_int(&shop_answer, "lines.0.available"), 5);
	shop_expect(shop.key_marketplace, "POST", "/v1/checkouts", NULL, shop_cart("BUF=5"), 201);
	expect_available(shop.key_marketplace, "BUF", 0);
	expect_available(shop.key_web, "BUF", 4);
	assert_int_equal(service_sell(&shop, shop.key_web, NULL, "BUF", 4), 201);
	shop_expect_row("BUF", 1, 0);
	assert_int_equal(set("marketplace", "--buffer", "0"), 0);
}

static void a_hold_is_committed_on_whatever_rule_came_since(void **state)
{
	char id[37];
	create("RULE", 3, 0);
	assert_int_equal(service_reserve(&shop, shop.key_marketplace, NULL, "RULE", 2, 600, id), 201);
	assert_int_equal(set("marketplace", "--buffer", "3"), 0);
	expect_available(shop.key_marketplace, "RULE", 0);
	assert_int_equal(service_end(&second, shop.key_marketplace, id, "commit"), 200);
	shop_expect_row("RULE", 1, 0);
	assert_int_equal(set("marketplace", "--buffer", "0"), 0);
}

static void a_till_that_may_sells_the_safety_stock(void **state)
{
	create("SAFE", 2, 2);
	expect_available(shop.key_pos, "SAFE", 0);
	assert_int_equal(service_sell(&shop, shop.key_pos, NULL, "SAFE", 1), 409);
	assert_int_equal(set("pos", "--may-use-safety-stock", "yes"), 0);
	expect_available(shop.key_pos, "SAFE", 2);
	expect_available(shop.key_web, "SAFE", 0);
	assert_int_equal(service_sell(&second, shop.key_pos, NULL, "SAFE", 1), 201);
	assert_int_equal(service_sell(&second, shop.key_web, NULL, "SAFE", 1), 409);
	shop_expect_row("SAFE", 1, 0);
	assert_int_equal(set("pos", "--may-use-safety-stock", "no"), 0);
	expect_available(shop.key_pos, "SAFE", 0);
}

/* --- caps --------------------------------------------------------------------------------------------------------- */

static const char *holding(const char *caller, const char *sku, int quantity)
{
	return shop_text("{\"lines\":[{\"sku\":\"%s\",\"quantity\":%d}],\"caller\":\"%s\",\"idempotency_key\":\"%s\"}", sku,
	                 quantity, caller, service_new_key());
}

static void b30_one_key_does_not_hold_everything(void **state)
{
	char ids[3][37], id[37];
	create("HOARD", 100, 0);
	assert_int_equal(set("agent", "--holds-max", "3"), 0);
	int64_t capped = shop_metric(&second, "lastunit_holds_capped_total");
	for (int i = 0; i < 3; i++)
		assert_int_equal(service_reserve(&shop, shop.key_agent, NULL, "HOARD", 1, 600, ids[i]), 201);
	/* The other instance counts the same holds. */
	struct answer answer = service_call(&second, shop.key_agent, "POST", "/v1/reservations",
	                                    "Idempotency-Key: hoard-4\r\n",
	                                    "{\"lines\":[{\"sku\":\"HOARD\",\"quantity\":1}]}");
	assert_int_equal(answer.status, 429);
	assert_string_equal(answer_string(&answer, "code"), "too_many_holds");
	assert_non_null(strstr(answer_string(&answer, "detail"), "has 3 live holds and may have 3"));
	assert_string_equal(answer_header(&answer, "Retry-After"), "1");
	assert_string_equal(answer_header(&answer, "RateLimit-Policy"), "\"principal-holds\";q=3");
	assert_string_equal(answer_header(&answer, "RateLimit"), "\"principal-holds\";r=0");
	answer_done(&answer);
	assert_int_equal(shop_metric(&second, "lastunit_holds_capped_total"), capped + 1);
	assert_int_equal(service_reserve(&shop, shop.key_web, NULL, "HOARD", 50, 600, id), 201);
	shop_expect_row("HOARD", 100, 53);
	/* Nothing was kept under the key: what was too many is not when one has ended. */
	assert_int_equal(service_end(&shop, shop.key_agent, ids[0], "release"), 200);
	shop_expect(shop.key_agent, "POST", "/v1/reservations", "Idempotency-Key: hoard-4\r\n",
	            "{\"lines\":[{\"sku\":\"HOARD\",\"quantity\":1}]}", 201);
	assert_int_equal(set("agent", "--holds-max", "0"), 0);
	assert_int_equal(service_reserve(&shop, shop.key_agent, NULL, "HOARD", 1, 600, id), 201);
}

static void each_shopper_of_the_site_has_a_share(void **state)
{
	create("SHARE", 100, 0);
	assert_int_equal(set("web", "--caller-held-units-max", "4"), 0);
	shop_expect(shop.key_web, "POST", "/v1/reservations", NULL, holding("ann", "SHARE", 3), 201);
	assert_null(answer_at(&shop_answer, "caller")); /* a name is not shown around */
	shop_expect(shop.key_web, "POST", "/v1/reservations", NULL, holding("ann", "SHARE", 2), 429);
	shop_expect_problem("too_many_holds", "holds 3 units of SHARE, asks for 2 and may hold 4");
	assert_string_equal(answer_header(&shop_answer, "RateLimit-Policy"), "\"caller-held-units\";q=4");
	assert_string_equal(answer_header(&shop_answer, "RateLimit"), "\"caller-held-units\";r=1");
	assert_string_equal(answer_header(&shop_answer, "Retry-After"), "1");
	/* However long he waits. */
	shop_expect(shop.key_web, "POST", "/v1/reservations", NULL, holding("cid", "SHARE", 5), 429);
	shop_expect_problem("too_many_holds", "Ask for fewer: never more than 4 at a time.");
	assert_string_equal(answer_header(&shop_answer, "RateLimit-Policy"), "\"caller-held-units\";q=4");
	assert_string_equal(answer_header(&shop_answer, "Retry-After"), "");
	shop_expect(shop.key_web, "POST", "/v1/reservations", NULL, holding("bob", "SHARE", 4), 201);
	shop_expect_post("/v1/batch",
	                 shop_text("{\"operations\":[{\"operation\":\"reserve\",%s,{\"operation\":\"reserve\",%s]}",
	                           holding("bob", "SHARE", 1) + 1, holding("ann", "SHARE", 1) + 1),
	                 200);
	assert_int_equal(answer_int(&shop_answer, "results.0.status"), 429);
	assert_int_equal(answer_int(&shop_answer, "results.1.status"), 201);
	shop_expect_row("SHARE", 100, 8);
	shop_expect(shop.key_web, "POST", "/v1/reservations", NULL, holding("", "SHARE", 1), 422);
	shop_expect_problem("invalid_field", "`caller`");
	shop_expect(shop.key_web, "POST", "/v1/checkouts", NULL, holding("ann", "SHARE", 1), 422);
	assert_int_equal(set("web", "--caller-held-units-max", "0"), 0);
}

static void grab(int index, void *context)
{
	char id[37];
	tally_add(context, service_reserve(index % 2 ? &second : &shop, shop.key_voice, NULL, "RUSH", 1, 600, id));
}

/* On one SKU carts are decided one after the other, so there the cap is exact, however many come at once. */
static void a_crowd_on_two_instances_gets_what_the_cap_allows(void **state)
{
	struct tally tally = {0};
	create("RUSH", 100, 0);
	assert_int_equal(set("voice", "--holds-max", "7"), 0);
	crowd_run(20, grab, &tally);
	assert_string_equal(tally_text(&tally), "7 x 201, 13 x 429");
	shop_expect_row("RUSH", 100, 7);
	assert_int_equal(set("voice", "--holds-max", "0"), 0);
}

static void dev_caps_callers_and_channels_that_anybody_may_call(void **state)
{
	assert_int_equal(shop_sql_int("SELECT count(*) FROM lastunit.principal WHERE caller_holds_max = 20"
	                              " AND name IN ('web', 'telegram', 'agent', 'voice')"),
	                 4);
	assert_int_equal(shop_sql_int("SELECT holds_max FROM lastunit.principal WHERE name = 'telegram'"), 5000);
	assert_int_equal(shop_sql_int("SELECT count(*) FROM lastunit.principal WHERE caller_holds_max IS NULL"
	                              " AND holds_max IS NULL AND name IN ('admin', 'marketplace', 'pos')"),
	                 3);
}

static void a_setting_that_makes_no_sense_is_refused(void **state)
{
	assert_int_equal(set("nobody", "--buffer", "1"), 1);
	assert_int_equal(set("web", "--buffer", "-2"), 2);
	assert_int_equal(set("web", "--may-use-safety-stock", "da"), 2);
	assert_int_equal(service_run(&shop, (const char *const[]){"key", "set", "web", NULL}), 2);
	assert_int_equal(service_run(&shop, (const char *const[]){"key", "set", "--buffer", "1", NULL}), 2);
	assert_int_equal(service_run(&shop, (const char *const[]){"key", "list", "web", NULL}), 2);
	assert_int_equal(service_run(&shop, (const char *const[]){"key", "show", "nobody", NULL}), 1);
	assert_int_equal(service_run(&shop, (const char *const[]){"key", "show", "--json", NULL}), 0);
	assert_int_equal(shop_sql_int("SELECT count(*) FROM lastunit.principal WHERE buffer <> 0 OR may_use_safety_stock"),
	                 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(what_a_principal_sees_is_what_it_may_sell, shop_audit),
		cmocka_unit_test_teardown(a_replay_tells_what_was_available_then, shop_audit),
		cmocka_unit_test_teardown(a_hold_is_committed_on_whatever_rule_came_since, shop_audit),
		cmocka_unit_test_teardown(a_till_that_may_sells_the_safety_stock, shop_audit),
		cmocka_unit_test_teardown(b30_one_key_does_not_hold_everything, shop_audit),
		cmocka_unit_test_teardown(each_shopper_of_the_site_has_a_share, shop_audit),
		cmocka_unit_test_teardown(a_crowd_on_two_instances_gets_what_the_cap_allows, shop_audit),
		cmocka_unit_test(dev_caps_callers_and_channels_that_anybody_may_call),
		cmocka_unit_test_teardown(a_setting_that_makes_no_sense_is_refused, shop_audit),
	};
	return cmocka_run_group_tests(tests, open_two, close_two);
}
