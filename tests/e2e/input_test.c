/* What clients send that nobody should: quantities, numbers, JSON, codes.
 *
 * Each test is named after the fault it guards against: one-sided checks (b57), overflow (b58), numbers through a double
 * (b59), numbers that are none (b60), JSON read in two ways (b62), strings cut at a NUL (b63, b64), twins of a code
 * (b66, b67), codes that reach a format string or a command line (b73). Files: import_test.c (b71) and
 * import_refusals_test.c (b69, b70).
 *
 * What is refused leaves nothing: no count, no entry, no reservation, no stored answer.
 */
#include "lastunit/types.h"
#include "lib/shop.h"

#include "lib/http_client.h"

static int64_t reservations, keys;

/* A SKU with ten units, and what there is of everything. */
static void ten_units(const char *sku)
{
	service_create_sku(&shop, sku, 10);
	reservations = shop_sql_int("SELECT count(*) FROM lastunit.reservation");
	keys = shop_sql_int("SELECT count(*) FROM lastunit.idempotency");
}

static void nothing_happened(const char *sku)
{
	struct row row = service_row(&shop, sku);
	if (row.on_hand != 10 || row.reserved != 0 || row.version != 1)
		fail_msg("%s is %lld/%lld in version %lld", sku, (long long)row.on_hand, (long long)row.reserved,
		         (long long)row.version);
	assert_int_equal(shop_sql_int("SELECT count(*) FROM lastunit.reservation"), reservations);
	assert_int_equal(shop_sql_int("SELECT count(*) FROM lastunit.idempotency"), keys);
}

/* 400 or 422, with a problem that says how to mend it. */
static void is_refused(const char *key, const char *path, const char *body)
{
	answer_done(&shop_answer);
	shop_answer = service_call(&shop, key, "POST", path, "Idempotency-Key: input\r\n", body);
	if ((shop_answer.status != 400 && shop_answer.status != 422) || !*answer_string(&shop_answer, "code") ||
	    !*answer_string(&shop_answer, "detail"))
		fail_msg("POST %s %.200s: %d %s", path, body, shop_answer.status, shop_answer.body ? shop_answer.body : "");
}

/* A line of every call that takes quantities. */
static void quantity_is_refused(const char *sku, const char *quantity)
{
	static const char *const paths[] = {"/v1/checkouts", "/v1/reservations"};
	for (int i = 0; i < 2; i++)
		is_refused(shop.key_web, paths[i], shop_text("{\"lines\":[{\"sku\":\"%s\",\"quantity\":%s}]}", sku, quantity));
	/* In a batch either the whole cannot be read, or the entry is refused. */
	answer_done(&shop_answer);
	shop_answer = service_call(&shop, shop.key_web, "POST", "/v1/batch", NULL,
	                           shop_text("{\"operations\":[{\"operation\":\"checkout\",\"idempotency_key\":\"input\","
	                                     "\"lines\":[{\"sku\":\"%s\",\"quantity\":%s}]}]}",
	                                     sku, quantity));
	int64_t status = shop_answer.status == 200 ? answer_int(&shop_answer, "results.0.status") : shop_answer.status;
	if (status != 400 && status != 422)
		fail_msg("a batch with quantity %s: %lld", quantity, (long long)status);
}

/* --- B57 to B60 --------------------------------------------------------------------------------------------------- */

static void b57_nothing_negative_is_sold_or_offset(void **state)
{
	ten_units("B57-B");
	ten_units("B57");
	static const char *const quantities[] = {"-5", "-1", "-2147483648", "-9223372036854775808", "-0", "0"};
	for (size_t i = 0; i < sizeof quantities / sizeof *quantities; i++)
		quantity_is_refused("B57", quantities[i]);
	is_refused(shop.key_web, "/v1/reservations",
	           "{\"lines\":[{\"sku\":\"B57\",\"quantity\":3},{\"sku\":\"B57\","
	           "\"quantity\":-2}]}");
	is_refused(shop.key_web, "/v1/checkouts",
	           "{\"lines\":[{\"sku\":\"B57-B\",\"quantity\":1},{\"sku\":\"B57\","
	           "\"quantity\":-1}]}");
	/* Only an adjustment has a sign, and never takes more than there is. */
	is_refused(shop.key_admin, "/v1/adjustments", "{\"reason\":\"x\",\"lines\":[{\"sku\":\"B57\",\"delta\":-0.5}]}");
	shop_expect(shop.key_admin, "POST", "/v1/adjustments", "Idempotency-Key: b57\r\n",
	            "{\"reason\":\"x\",\"lines\":[{\"sku\":\"B57\",\"delta\":-2147483648}]}", 409);
	is_refused(shop.key_admin, "/v1/adjustments",
	           "{\"reason\":\"x\",\"lines\":[{\"sku\":\"B57\",\"set\":-1,\"change_from\":10}]}");
	keys++;
	nothing_happened("B57");
	nothing_happened("B57-B");
}

static void b58_no_number_and_no_sum_wraps_around(void **state)
{
	ten_units("B58");
	static const char *const quantities[] =
		{"1000000001",          "2147483647",           "2147483648", "4294967297", "9223372036854775807",
	     "9223372036854775808", "18446744073709551617", "1e308",      "1e400"};
	for (size_t i = 0; i < sizeof quantities / sizeof *quantities; i++)
		quantity_is_refused("B58", quantities[i]);
	is_refused(shop.key_web, "/v1/checkouts",
	           "{\"lines\":[{\"sku\":\"B58\",\"quantity\":4611686018427387904},{\"sku\":\"B58\",\"quantity\":"
	           "4611686018427387904}]}");
	/* Each line is within bounds, their sum is not. */
	char *body = malloc(80000), *to = body + sprintf(body, "{\"lines\":[");
	for (int i = 0; i < 1000; i++)
		to += sprintf(to, "%s{\"sku\":\"B58\",\"quantity\":1000000000}", i ? "," : "");
	strcpy(to, "]}");
	is_refused(shop.key_web, "/v1/checkouts", body);
	free(body);
	is_refused(shop.key_admin, "/v1/adjustments",
	           "{\"reason\":\"x\",\"lines\":[{\"sku\":\"B58\",\"delta\":9223372036854775807}]}");
	is_refused(shop.key_admin, "/v1/adjustments",
	           "{\"reason\":\"x\",\"lines\":[{\"sku\":\"B58\",\"delta\":1000000000000000},{\"sku\":\"B58\",\"delta\":"
	           "1000000000000000}]}");
	shop_expect_problem("invalid_quantity", "more than 1000000000000000.");
	shop_expect(shop.key_admin, "POST", "/v1/adjustments", "Idempotency-Key: b58\r\n",
	            "{\"reason\":\"x\",\"lines\":[{\"sku\":\"B58\",\"delta\":1000000000000000}]}", 409);
	shop_expect_problem("count_out_of_range", "");
	keys++;
	nothing_happened("B58");
}

static void b59_integers_are_exact_to_the_last_digit(void **state)
{
	ten_units("B59");
	quantity_is_refused("B59", "9007199254740993");
	static const int64_t counts[] =
		{1,          255,        256,           65535,           65536,           2147483647,
	     2147483648, 4294967295, 1099511627776, 999999999999999, 1000000000000000};
	nothing_happened("B59");
	int64_t before = 10;
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		shop_expect(
			shop.key_admin, "POST", "/v1/adjustments", NULL,
			shop_text("{\"idempotency_key\":\"b59-%zu\",\"reason\":\"x\",\"lines\":[{\"sku\":\"B59\",\"set\":%lld,"
		              "\"change_from\":%lld}]}",
		              i, (long long)counts[i], (long long)before),
			201);
		assert_int_equal(answer_int(&shop_answer, "lines.0.on_hand"), counts[i]);
		shop_expect_row("B59", counts[i], 0);
		shop_expect_seen(&shop, "B59", counts[i], 0);
		shop_expect_get("/v1/availability/B59", 200);
		assert_non_null(strstr(shop_answer.body, shop_text("\"available\":%lld,", (long long)counts[i])));
		before = counts[i];
	}
	shop_expect(shop.key_admin, "POST", "/v1/adjustments", "Idempotency-Key: b59\r\n",
	            "{\"reason\":\"x\",\"lines\":[{\"sku\":\"B59\",\"delta\":1}]}", 409);
	shop_expect_post("/v1/checkouts", shop_cart("B59=1000000000"), 201);
	shop_expect_row("B59", 999999000000000, 0);
	/* Ids are strings: nothing in an answer is a number that a JavaScript client would round. */
	assert_true(json_is_string(answer_at(&shop_answer, "id")));
}

static void b60_what_is_no_whole_number_is_no_quantity(void **state)
{
	ten_units("B60");
	static const char *const quantities[] = {"0.0",  "-0.0",  "0.5",  "1.5",  "1.0", "1e0",
	                                         "1e-1", "10e-1", "null", "true", "[]",  "{}",
	                                         "[1]",  "\"1\"", "\"\"", "01",   "NaN", "Infinity"};
	for (size_t i = 0; i < sizeof quantities / sizeof *quantities; i++)
		quantity_is_refused("B60", quantities[i]);
	static const char *const bodies[] = {
		"{\"lines\":[]}",
		"{}",
		"{\"lines\":null}",
		"{\"lines\":{\"sku\":\"B60\",\"quantity\":1}}",
		"{\"lines\":[[]]}",
		"{\"lines\":[null]}",
		"{\"lines\":[{\"sku\":\"B60\"}]}",
		"{\"lines\":[{\"quantity\":1}]}",
		"{\"lines\":[{\"sku\":5,\"quantity\":1}]}",
		"{\"lines\":[{\"sku\":\"B60\",\"quantity\":1,\"price\":1}]}",
	};
	for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
		is_refused(shop.key_web, "/v1/checkouts", bodies[i]);
		is_refused(shop.key_web, "/v1/reservations", bodies[i]);
	}
	static const char *const ttls[] = {"0", "-1", "86401", "1000000000", "9223372036854775807", "1.5", "\"60\"", "1e3"};
	for (size_t i = 0; i < sizeof ttls / sizeof *ttls; i++)
		is_refused(shop.key_web, "/v1/reservations",
		           shop_text("{\"lines\":[{\"sku\":\"B60\",\"quantity\":1}],\"ttl_seconds\":%s}", ttls[i]));
	nothing_happened("B60");
}

/* --- B62, B63, B64 ------------------------------------------------------------------------------------------------ */

static char *repeated(const char *before, const char *what, size_t times, const char *after)
{
	size_t size = strlen(what);
	char *text = malloc(strlen(before) + size * times + strlen(after) + 1), *to = stpcpy(text, before);
	for (size_t i = 0; i < times; i++, to += size)
		memcpy(to, what, size);
	strcpy(to, after);
	return text;
}

static void b62_json_that_reads_two_ways_is_not_read(void **state)
{
	ten_units("B62");
	static const char *const bodies[] = {
		"{\"lines\":[{\"sku\":\"B62\",\"quantity\":1,\"quantity\":9}]}",
		"{\"lines\":[{\"sku\":\"B62\",\"sku\":\"B62\",\"quantity\":1}]}",
		"{\"lines\":[{\"sku\":\"B62\",\"quantity\":1}],\"lines\":[{\"sku\":\"B62\",\"quantity\":9}]}",
		"{\"lines\":[{\"sku\":\"B62\",\"quantity\":1,\"\\u0071uantity\":9}]}",
		"{\"lines\":[{\"sku\":\"B62\",\"Quantity\":1}]}",
		"{\"Lines\":[{\"sku\":\"B62\",\"quantity\":1}]}",
		"{\"lines\":[{\"sku\":\"B62\",\"quantity\":1}],\"idempotency_key\":\"other\"}",
		"{'lines':[{'sku':'B62','quantity':1}]}",
		"{\"lines\":[{\"sku\":\"B62\",\"quantity\":1},]}",
		"{\"lines\":[{\"sku\":\"B62\",\"quantity\":1}]}//",
		"{\"lines\":[{\"sku\":\"B62\",\"quantity\":1}]}{}",
		"\xef\xbb\xbf{\"lines\":[{\"sku\":\"B62\",\"quantity\":1}]}",
	};
	for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
		is_refused(shop.key_web, "/v1/checkouts", bodies[i]);
	/* Depth and size have limits. */
	char *deep = repeated("{\"lines\":", "[", 100000, ""), *closed = repeated(deep, "]", 100000, "}");
	is_refused(shop.key_web, "/v1/checkouts", deep);
	is_refused(shop.key_web, "/v1/checkouts", closed);
	free(closed);
	free(deep);
	struct http_client client = http_client(shop.url, shop.key_web);
	struct http_answer answer = {0};
	char *blanks = repeated("", " ", 50 * 1024 * 1024, "{}");
	/* It need not be read to the end to be refused; whoever closes first, nothing is executed. */
	if (http_client_call(&client, "POST", "/v1/checkouts", "Idempotency-Key: input\r\n", blanks, &answer))
		assert_int_equal(answer.status, 413);
	free(blanks);
	http_answer_done(&answer);
	http_client_done(&client);
	nothing_happened("B62");
}

/* A megabyte of them would keep the loop that reads it from everybody else, and anybody who has the key of a page could
 * send it all day. */
static void a_crowd_of_values_is_refused_before_it_is_made(void **state)
{
	ten_units("CROWD");
	char *crowd = repeated("{\"skus\":[", "{},", 340000, "1]}");
	static const char *const paths[] = {"/v1/availability", "/v1/checkouts", "/v1/batch", "/mcp"};
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		shop_expect(shop.key_web, "POST", paths[i], "Idempotency-Key: input\r\n", crowd, 413);
		shop_expect_problem("payload_too_large", "values");
	}
	free(crowd);
	nothing_happened("CROWD");
}

/* 41 carts of a thousand lines, written as short as it goes: that much does make sense. */
static void the_fullest_batch_there_may_be_is_taken(void **state)
{
	service_create_sku(&shop, "F", 100000);
	char *lines = repeated("", "{\"sku\":\"F\",\"quantity\":1},", 999, "{\"sku\":\"F\",\"quantity\":1}");
	char *body = malloc(1200000), *to = stpcpy(body, "{\"operations\":[");
	for (int i = 0; i < 41; i++)
		to += sprintf(to, "%s{\"operation\":\"checkout\",\"idempotency_key\":\"full-%d\",\"lines\":[%s]}", i ? "," : "",
		              i, lines);
	strcpy(to, "]}");
	assert_in_range(strlen(body), 1024 * 1000, 1024 * 1024);
	shop_expect(shop.key_web, "POST", "/v1/batch", NULL, body, 200);
	shop_expect_row("F", 100000 - 41 * 1000, 0);
	free(body);
	free(lines);
}

/* The same of an address: whoever checks the first value may not be whoever reads the last. */
static void b62_an_address_that_reads_two_ways_is_not_read(void **state)
{
	static const char *const addresses[] = {
		"/v1/skus?limit=1&limit=2",
		"/v1/skus?after=A&limit=1&after=A",
		"/v1/skus/B62/ledger?after=0&after=0",
		"/v1/changes?cursor=now&cursor=now",
		"/v1/checkouts?reference=a&reference=b",
		"/v1/reservations?status=active&status=expired",
		"/v1/reservations?sku=B62&sku=B63",
		"/feeds/local.csv?store=a&store=b",
	};
	for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
		shop_expect(shop.key_admin, "GET", addresses[i], NULL, NULL, 422);
		shop_expect_problem("invalid_field", "must be given once");
	}
	shop_expect(shop.key_web, "GET", "/v1/availability?sku=B62&sku=B62", NULL, NULL, 200);
}

/* Who asks for a trial run by a parameter that does not exist must not be sold anything. */
static void b62_a_write_takes_no_parameters(void **state)
{
	ten_units("B62-Q");
	is_refused(shop.key_web, "/v1/checkouts?dry_run=true", "{\"lines\":[{\"sku\":\"B62-Q\",\"quantity\":1}]}");
	is_refused(shop.key_web, "/v1/reservations?ttl_seconds=60", "{\"lines\":[{\"sku\":\"B62-Q\",\"quantity\":1}]}");
	is_refused(shop.key_admin, "/v1/adjustments?dry_run=true",
	           "{\"reason\":\"x\",\"lines\":[{\"sku\":\"B62-Q\",\"delta\":1}]}");
	is_refused(shop.key_web, "/v1/batch?dry_run=true",
	           "{\"operations\":[{\"operation\":\"checkout\",\"idempotency_key\":\"input\",\"lines\":[{\"sku\":"
	           "\"B62-Q\",\"quantity\":1}]}]}");
	is_refused(shop.key_web, "/v1/availability?sku=B62", "{\"skus\":[\"B62-Q\"]}");
	shop_expect(shop.key_web, "PUT", "/v1/orders/B62-Q?version=2", NULL,
	            "{\"version\":1,\"lines\":[{\"sku\":\"B62-Q\",\"quantity\":1}]}", 422);
	shop_expect(shop.key_admin, "PUT", "/v1/skus/B62-Q?safety_stock=3", NULL, "{\"safety_stock\":1}", 422);
	shop_expect_problem("invalid_field", "safety_stock");
	nothing_happened("B62-Q");
}

/* Who says If-Match means to lose nobody's change. There is no tag that it could be of, and a write that passes over it
 * overwrites. */
static void a_write_under_a_condition_is_not_done(void **state)
{
	static const char *const conditions[] = {"If-Match: \"1.10.0\"\r\n", "if-match: *\r\n", "If-None-Match: *\r\n"};
	ten_units("IF-MATCH");
	for (size_t i = 0; i < sizeof conditions / sizeof *conditions; i++) {
		char headers[100];
		snprintf(headers, sizeof headers, "Idempotency-Key: if-match\r\n%s", conditions[i]);
		shop_expect(shop.key_admin, "PUT", "/v1/skus/IF-MATCH", conditions[i], "{\"safety_stock\":1}", 412);
		shop_expect_problem("precondition_failed", "change_from");
		shop_expect(shop.key_admin, "POST", "/v1/checkouts", headers, shop_cart("IF-MATCH=1"), 412);
		shop_expect(shop.key_admin, "PUT", "/v1/orders/IF-MATCH", conditions[i], "{\"version\":1,\"lines\":[]}", 412);
		shop_expect(shop.key_admin, "DELETE", "/v1/webhooks/01900000-0000-7000-8000-000000000000", conditions[i], NULL,
		            412);
		shop_expect(NULL, "POST", "/v1/checkouts", headers, shop_cart("IF-MATCH=1"), 401);
	}
	nothing_happened("IF-MATCH");
	/* A tag of one's own cache forbids nothing. */
	shop_expect(shop.key_admin, "PUT", "/v1/skus/IF-MATCH", "If-None-Match: \"1.10.0\"\r\n", "{\"titles\":{}}", 200);
	shop_expect(shop.key_admin, "GET", "/v1/availability/IF-MATCH", "If-Match: \"1.10.0\"\r\n", NULL, 200);
}

static void b63_a_nul_never_cuts_a_string(void **state)
{
	ten_units("B63");
	static const char *const skus[] =
		{"B63\\u0000", "B63\\u0000DEF", "\\u0000",         "B63\xc0\x80",        "\\ud800", "\\udc00B63", "B63\\ud83d",
	     "B63\xff",    "B63\xc0\xaf",   "B63\xed\xa0\x80", "B63\xf5\x80\x80\x80"};
	for (size_t i = 0; i < sizeof skus / sizeof *skus; i++)
		is_refused(shop.key_web, "/v1/checkouts", shop_text("{\"lines\":[{\"sku\":\"%s\",\"quantity\":1}]}", skus[i]));
	static const char *const members[] = {"\"idempotency_key\":\"k\\u0000x\"", "\"reference\":\"r\\u0000x\"",
	                                      "\"reference\":\"\\ud800\"", "\"reference\":\"\xff\""};
	for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
		answer_done(&shop_answer);
		shop_answer = service_call(&shop, shop.key_web, "POST", "/v1/checkouts",
		                           i ? "Idempotency-Key: input\r\n" : NULL,
		                           shop_text("{\"lines\":[{\"sku\":\"B63\",\"quantity\":1}],%s}", members[i]));
		assert_true(shop_answer.status == 400 || shop_answer.status == 422);
	}
	shop_expect(shop.key_web, "POST", "/v1/availability", NULL, "{\"skus\":[\"B63\\u0000\"]}", 400);
	nothing_happened("B63");
	/* A key that a NUL would have made the same is another one's. */
	shop_expect(shop.key_web, "POST", "/v1/checkouts", "Idempotency-Key: k\r\n",
	            "{\"lines\":[{\"sku\":\"B63\",\"quantity\":1}]}", 201);
	assert_string_equal(answer_header(&shop_answer, "Idempotent-Replayed"), "");
}

static void b64_a_nul_in_an_address_opens_nothing(void **state)
{
	service_create_sku(&shop, "B64", 5);
	static const char *const paths[] = {
		"/v1/availability/B64%00DEF",
		"/v1/availability/B64%00",
		"/v1/availability/%00",
		"/v1/availability?sku=B64%00",
		"/v1/availability?sku=B64%00&sku=B64",
		"/v1/skus/B64%00",
		"/v1/skus/B64%00/ledger",
		"/v1/skus?after=%00",
		"/v1%00/skus/B64",
		"/healthz%00",
		"/metrics%00.x",
		"/v1/availability/B64%",
		"/v1/availability/B64%4",
		"/v1/availability/B64%zz",
		"/v1/availability/%C0%80",
		"/v1/availability?sku=%zz",
		"/v1/reservations/%00",
	};
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		answer_done(&shop_answer);
		shop_answer = service_call(&shop, shop.key_web, "GET", paths[i], NULL, NULL);
		assert_true(shop_answer.status == 400 || (shop_answer.status == 404 && strstr(paths[i], "%00")));
		assert_string_not_equal(answer_string(&shop_answer, "code"), "unknown_sku");
		assert_null(strstr(shop_answer.body, "\"available\""));
		/* Nor without a key, nor by another method. */
		answer_done(&shop_answer);
		shop_answer = service_call(&shop, NULL, "GET", paths[i], NULL, NULL);
		assert_true(shop_answer.status >= 400 && shop_answer.status <= 404);
		answer_done(&shop_answer);
		shop_answer = service_call(&shop, shop.key_admin, "DELETE", paths[i], NULL, NULL);
		assert_true(shop_answer.status >= 400 && shop_answer.status <= 405);
	}
	shop_expect_row("B64", 5, 0);
}

/* --- B66, B67, B73 ------------------------------------------------------------------------------------------------ */

static void put_is(const char *encoded, int status)
{
	shop_expect(shop.key_admin, "PUT", shop_path("skus", encoded, ""), NULL, "{\"on_hand\":5}", status);
}

static void b66_blanks_make_no_second_sku_and_case_does(void **state)
{
	static const char *const twins[] = {"B66%20",       "%20B66",       "B66%09", "B66%C2%A0", "B66%0D",   "B66%0A",
	                                    "%E2%80%83B66", "B66%E3%80%80", "B66%0B", "B66%7F",    "B66%C2%85"};
	static const char *const in_json[] = {"B66 ",
	                                      " B66",
	                                      "B66\\t",
	                                      "B66\xc2\xa0",
	                                      "B66\\r",
	                                      "B66\\n",
	                                      "\xe2\x80\x83\x42\x36\x36",
	                                      "B66\xe3\x80\x80",
	                                      "B66\\u000b",
	                                      "B66\x7f",
	                                      "B66\xc2\x85"};
	put_is("B66", 201);
	for (size_t i = 0; i < sizeof twins / sizeof *twins; i++) {
		put_is(twins[i], 422);
		shop_expect_get(shop_path("availability", twins[i], ""), 422);
		shop_expect(shop.key_web, "POST", "/v1/availability", NULL, shop_text("{\"skus\":[\"%s\"]}", in_json[i]), 422);
		shop_expect_post("/v1/reservations", shop_text("{\"lines\":[{\"sku\":\"%s\",\"quantity\":1}]}", in_json[i]),
		                 422);
		shop_expect_problem("invalid_sku", "lines[0].sku");
	}
	/* Case matters, in every locale. */
	setenv("LC_ALL", "tr_TR.UTF-8", 1);
	struct service turkish;
	shop_beside(&turkish, NULL, NULL);
	unsetenv("LC_ALL");
	shop_expect_get(shop_path("availability", "b66", ""), 404);
	service_create_sku(&turkish, "B66-I", 5);
	service_create_sku(&turkish, "B66-i", 5);
	service_create_sku(&turkish, "B66-\xc4\xb0", 5);
	service_create_sku(&turkish, "B66-\xc4\xb1", 5);
	assert_int_equal(service_sell(&turkish, shop.key_web, NULL, "B66-i", 2), 201);
	assert_int_equal(service_stop(&turkish), 0);
	shop_expect_row("B66-I", 5, 0);
	shop_expect_row("B66-i", 3, 0);
	shop_expect_row("B66-\xc4\xb0", 5, 0);
	shop_expect_seen(&shop, "B66", 5, 0);
	assert_int_equal(shop_sql_int("SELECT count(*) FROM lastunit.sku WHERE lower(code) LIKE '%%b66'"), 1);
}

/* Whatever way it comes: a title that a file may have is one that may be sent back. */
static void a_title_has_one_length_on_every_channel(void **state)
{
	char *longest = repeated("{\"titles\":{\"en\":\"", "x", LU_TITLE_BYTES_MAX, "\"}}");
	char *longer = repeated("{\"titles\":{\"en\":\"", "x", LU_TITLE_BYTES_MAX + 1, "\"}}");
	shop_expect(shop.key_admin, "PUT", "/v1/skus/TITLED", NULL, longest, 201);
	shop_expect(shop.key_admin, "PUT", "/v1/skus/TITLED", NULL, longer, 422);
	shop_expect_problem("invalid_field", "1 to 1000 bytes");
	free(longer);
	free(longest);
}

static void b67_unicode_has_one_spelling_and_a_length_in_bytes(void **state)
{
	static const char *const refused[] = {
		"Cafe%CC%81-B67", /* the same letter in two code points */
		"B67%E2%80%8B",   /* zero-width space */
		"B67%E2%80%8D",   /* joiner */
		"B67%EF%BB%BF",   /* byte order mark */
		"B67%E2%80%AE",   /* right-to-left override */
		"%ED%A0%80",      /* surrogate */
	};
	put_is("Caf%C3%A9-B67", 201);
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		answer_done(&shop_answer);
		shop_answer = service_call(&shop, shop.key_admin, "PUT", shop_path("skus", refused[i], ""), NULL,
		                           "{\"on_hand\":5}");
		if (shop_answer.status != 400 && shop_answer.status != 422)
			fail_msg("%s: %d", refused[i], shop_answer.status);
	}
	/* Another letter that looks alike is another SKU: it is told apart, not guessed. */
	put_is("ABC-B67", 201);
	put_is("%D0%90BC-B67", 201);
	put_is("%F0%9F%8D%8B-B67", 201);
	assert_int_equal(service_sell(&shop, shop.key_web, NULL,
	                              "\xd0\x90"
	                              "BC-B67",
	                              5),
	                 201);
	shop_expect_row("ABC-B67", 5, 0);
	shop_expect_seen(&shop, "\xf0\x9f\x8d\x8b-B67", 5, 0);
	static const struct {
		size_t size;
		int status;
	} lengths[] = {{127, 201}, {128, 201}, {129, 422}, {255, 422}, {3000, 422}};
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		char *code = repeated("", "L", lengths[i].size, "");
		put_is(code, lengths[i].status);
		free(code);
	}
	char *long_body = repeated("{\"lines\":[{\"quantity\":1,\"sku\":\"", "L", 1000000, "\"}]}");
	is_refused(shop.key_web, "/v1/checkouts", long_body);
	free(long_body);
	/* 64 letters of two bytes fit, 65 do not. */
	char *fits = repeated("", "%C3%A9", 64, ""), *exceeds = repeated("", "%C3%A9", 65, "");
	put_is(fits, 201);
	put_is(exceeds, 422);
	free(fits);
	free(exceeds);
}

static void b73_a_code_is_data_wherever_it_goes(void **state)
{
	static const struct {
		const char *sku;
		int64_t on_hand;
	} rows[] = {
		{"A B", 5},
		{"A", 1},
		{"B", 1},
		{"100%s%n", 3},
		{"%1$n%d%x", 3},
		{"$1 $$", 3},
		{"'; DROP TABLE lastunit.sku;--", 3},
		{"*", 3},
		{"A*", 3},
		{"\\x00", 3},
		{"lu:x!open", 3},
		{"V|1|9|0|0|1|A", 3},
		{"{\"a\":[", 3},
		{"..", 3},
		{"a/b", 3},
		{"a?b&c=d#e", 3},
		{"a+b", 3},
		{"%2e%2e", 3},
		{"\xe2\x82\xac,\xe2\x82\xac", 3},
		{"{a,b}", 3},
	};
	size_t count = sizeof rows / sizeof *rows;
	for (size_t i = 0; i < count; i++)
		service_create_sku(&shop, rows[i].sku, rows[i].on_hand);
	for (int hit = 0; hit < 3; hit++)
		for (size_t i = 0; i < count; i++)
			shop_expect_seen(&shop, rows[i].sku, rows[i].on_hand, 0);
	assert_int_equal(service_sell(&shop, shop.key_web, NULL, "A B", 1), 201);
	shop_expect_seen(&shop, "A B", 4, 0);
	shop_expect_seen(&shop, "A", 1, 0);
	shop_expect_seen(&shop, "B", 1, 0);
	/* Sold and held, refused and read: in the answers, the ledger, the log. */
	for (size_t i = 3; i < count; i++) {
		char id[37];
		assert_int_equal(service_sell(&shop, shop.key_web, NULL, rows[i].sku, 1), 201);
		assert_int_equal(service_reserve(&shop, shop.key_web, NULL, rows[i].sku, 1, 600, id), 201);
		assert_int_equal(service_sell(&shop, shop.key_web, NULL, rows[i].sku, 9), 409);
		shop_expect_seen(&shop, rows[i].sku, rows[i].on_hand - 2, 1);
		assert_int_equal(service_ledger_count(&shop, rows[i].sku, NULL), 3);
	}
	shop_expect_post("/v1/checkouts", "{\"lines\":[{\"sku\":\"x\\r\\nDEL y\",\"quantity\":1}]}", 422);
	shop_expect_seen(&shop, "A", 1, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(b57_nothing_negative_is_sold_or_offset, shop_audit),
		cmocka_unit_test_teardown(b58_no_number_and_no_sum_wraps_around, shop_audit),
		cmocka_unit_test_teardown(b59_integers_are_exact_to_the_last_digit, shop_audit),
		cmocka_unit_test_teardown(b60_what_is_no_whole_number_is_no_quantity, shop_audit),
		cmocka_unit_test_teardown(b62_json_that_reads_two_ways_is_not_read, shop_audit),
		cmocka_unit_test_teardown(a_crowd_of_values_is_refused_before_it_is_made, shop_audit),
		cmocka_unit_test_teardown(the_fullest_batch_there_may_be_is_taken, shop_audit),
		cmocka_unit_test_teardown(b62_a_write_takes_no_parameters, shop_audit),
		cmocka_unit_test_teardown(a_write_under_a_condition_is_not_done, shop_audit),
		cmocka_unit_test_teardown(b62_an_address_that_reads_two_ways_is_not_read, shop_audit),
		cmocka_unit_test_teardown(b63_a_nul_never_cuts_a_string, shop_audit),
		cmocka_unit_test_teardown(b64_a_nul_in_an_address_opens_nothing, shop_audit),
		cmocka_unit_test_teardown(b66_blanks_make_no_second_sku_and_case_does, shop_audit),
		cmocka_unit_test(a_title_has_one_length_on_every_channel),
		cmocka_unit_test_teardown(b67_unicode_has_one_spelling_and_a_length_in_bytes, shop_audit),
		cmocka_unit_test_teardown(b73_a_code_is_data_wherever_it_goes, shop_audit),
	};
	return cmocka_run_group_tests(tests, shop_open, shop_close);
}
