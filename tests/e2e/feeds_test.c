/* The feeds that marketplaces fetch: whole, true for who asks, and free when nothing moved. */
#include "lib/detour.h"

static char body[1 << 20];

static void fetch(const char *key, const char *path, const char *headers, int status)
{
	shop_expect(key, "GET", path, headers, NULL, status);
	snprintf(body, sizeof body, "%s", shop_answer.body ? shop_answer.body : "");
}

static int count_lines(const char *text)
{
	int count = 0;
	for (; *text; text++)
		count += *text == '\n';
	return count;
}

static void every_sku_has_its_line(void **state)
{
	shop_sql("INSERT INTO lastunit.sku (code, on_hand) SELECT 'F-' || i, i %% 3 FROM generate_series(1, 12000) i");
	shop_expect(shop.key_admin, "PUT", "/v1/skus/a%2Cb%22c", NULL, "{\"on_hand\":7}", 201);
	shop_expect(shop.key_admin, "PUT", "/v1/skus/EBOOK", NULL, "{\"tracked\":false}", 201);
	fetch(shop.key_marketplace, "/feeds/google.tsv", NULL, 200);
	assert_int_equal(count_lines(body), 12003);
	assert_true(strncmp(body, "id\tavailability\n", 16) == 0);
	assert_non_null(strstr(body, "\na,b\"c\tin_stock\n"));
	assert_non_null(strstr(body, "\nEBOOK\tin_stock\n"));
	assert_non_null(strstr(body, "\nF-3\tout_of_stock\n"));
	assert_non_null(strstr(body, "\nF-12000\tout_of_stock\n"));
	fetch(shop.key_marketplace, "/feeds/local.csv?store=shop-7", NULL, 200);
	assert_int_equal(count_lines(body), 12003);
	assert_non_null(strstr(body, "\r\nshop-7,\"a,b\"\"c\",in_stock,7\r\n"));
	assert_non_null(strstr(body, "\r\nshop-7,F-2,in_stock,2\r\n"));
	assert_non_null(strstr(body, "\r\nshop-7,EBOOK,in_stock,999\r\n")); /* always there: more than anybody buys */
	fetch(shop.key_marketplace, "/feeds/local.csv?store=a,b", NULL, 422);
	fetch(shop.key_marketplace, shop_text("/feeds/local.csv?store=%064d", 7), NULL, 200);
	fetch(shop.key_marketplace, shop_text("/feeds/local.csv?store=%065d", 7), NULL, 422);
	/* What is misspelt would be another shop's feed. */
	fetch(shop.key_marketplace, "/feeds/local.csv?stores=shop-7", NULL, 422);
	fetch(shop.key_marketplace, "/feeds/google.tsv?store=shop-7", NULL, 422);
}

/* Made while the trigger that refuses it was off. The 5000th of a page is where the next one begins. */
static void a_code_longer_than_any_is_fed_like_others(void **state)
{
	shop_sql(
		"ALTER TABLE lastunit.sku DISABLE TRIGGER sku_code_has_1_to_128_bytes;"
		" INSERT INTO lastunit.sku (code, on_hand) SELECT '!' || to_char(i, 'FM0000'), 1 FROM generate_series(1, 4999) i;"
		" INSERT INTO lastunit.sku (code, on_hand) VALUES (repeat('#', 200), 1);"
		" ALTER TABLE lastunit.sku ENABLE ALWAYS TRIGGER sku_code_has_1_to_128_bytes");
	fetch(shop.key_marketplace, "/feeds/google.tsv", NULL, 200);
	assert_true(count_lines(body) > 12003 + 5000);
	assert_non_null(strstr(body, "\n!4999\tin_stock\n#########"));
}

static void a_buffer_is_not_offered(void **state)
{
	const char *const set[] = {"key", "set", "marketplace", "--buffer", "2", NULL};
	service_create_sku(&shop, "BUFFERED", 5);
	assert_int_equal(service_run(&shop, set), 0);
	fetch(shop.key_marketplace, "/feeds/local.csv", NULL, 200);
	assert_non_null(strstr(body, "\r\nmain,BUFFERED,in_stock,3\r\n"));
	assert_non_null(strstr(body, "\r\nmain,F-2,out_of_stock,0\r\n"));
	fetch(shop.key_web, "/feeds/local.csv", NULL, 200);
	assert_non_null(strstr(body, "\r\nmain,BUFFERED,in_stock,5\r\n"));
	const char *const unset[] = {"key", "set", "marketplace", "--buffer", "0", NULL};
	assert_int_equal(service_run(&shop, unset), 0);
}

static void nothing_moved_is_a_304(void **state)
{
	char tag[200];
	service_create_sku(&shop, "TAGGED", 5);
	fetch(shop.key_marketplace, "/feeds/google.tsv", NULL, 200);
	snprintf(tag, sizeof tag, "If-None-Match: %s\r\n", answer_header(&shop_answer, "ETag"));
	fetch(shop.key_marketplace, "/feeds/google.tsv", tag, 304);
	/* As it comes back through a proxy that compresses, and among others. */
	char others[400];
	const char *known = tag + strlen("If-None-Match: ");
	snprintf(others, sizeof others, "If-None-Match: W/%s", known);
	fetch(shop.key_marketplace, "/feeds/google.tsv", others, 304);
	snprintf(others, sizeof others, "If-None-Match: \"a,b\", %s", known);
	fetch(shop.key_marketplace, "/feeds/google.tsv", others, 304);
	shop_expect(shop.key_web, "POST", "/v1/checkouts", NULL, shop_cart("TAGGED=5"), 201);
	fetch(shop.key_marketplace, "/feeds/google.tsv", tag, 200);
	assert_non_null(strstr(body, "\nTAGGED\tout_of_stock\n"));
	/* Another address, another settings: another tag. */
	snprintf(tag, sizeof tag, "If-None-Match: %s\r\n", answer_header(&shop_answer, "ETag"));
	fetch(shop.key_marketplace, "/feeds/local.csv", tag, 200);
}

/* Each transaction moves the feed's place, and the tag with it: until nobody's fell in between. */
static void the_tag_of_one_store_is_not_anothers(void **state)
{
	char tag[200];
	bool quiet = false;
	for (int i = 0; !quiet && i < 100; i++) {
		fetch(shop.key_marketplace, "/feeds/local.csv?store=a", NULL, 200);
		snprintf(tag, sizeof tag, "If-None-Match: %s\r\n", answer_header(&shop_answer, "ETag"));
		struct answer other = service_call(&shop, shop.key_marketplace, "GET", "/feeds/local.csv?store=b", tag, NULL);
		struct answer same = service_call(&shop, shop.key_marketplace, "GET", "/feeds/local.csv?store=a", tag, NULL);
		quiet = same.status == 304;
		assert_int_equal(other.status, 200);
		answer_done(&other);
		answer_done(&same);
	}
	assert_true(quiet);
}

/* Two are written at a time: those whose rows could not be read are none of them. */
static void feeds_that_failed_hold_no_place(void **state)
{
	struct stranger *stranger = stranger_new();
	stranger_say(stranger, "BEGIN; LOCK TABLE lastunit.sku IN ACCESS EXCLUSIVE MODE");
	for (int i = 0; i < 2; i++)
		fetch(shop.key_marketplace, "/feeds/google.tsv", NULL, 503); /* in three seconds */
	stranger_free(stranger);
	fetch(shop.key_marketplace, "/feeds/google.tsv", NULL, 200);
}

/* A transaction that has written something holds the change feed's place, but not the figures. */
static void a_strangers_transaction_hides_no_sale(void **state)
{
	char tag[200];
	service_create_sku(&shop, "HIDDEN", 1);
	struct stranger *stranger = stranger_new();
	stranger_say(stranger, "BEGIN");
	stranger_say(stranger, "SELECT txid_current()");
	fetch(shop.key_marketplace, "/feeds/google.tsv", NULL, 200);
	snprintf(tag, sizeof tag, "If-None-Match: %s\r\n", answer_header(&shop_answer, "ETag"));
	shop_expect(shop.key_web, "POST", "/v1/checkouts", NULL, shop_cart("HIDDEN=1"), 201);
	fetch(shop.key_marketplace, "/feeds/google.tsv", tag, 200);
	assert_non_null(strstr(body, "\nHIDDEN\tout_of_stock\n"));
	stranger_free(stranger);
}

/* Whoever keeps the tag of whatever he is answered (curl --etag-save) would be told 304 of a feed that he never had. */
static void a_feed_that_fails_has_no_tag(void **state)
{
	detour_open();
	struct answer answer = service_call(&detour.service, shop.key_marketplace, "GET", "/feeds/google.tsv", NULL, NULL);
	assert_int_equal(answer.status, 200);
	assert_string_not_equal(answer_header(&answer, "ETag"), "");
	answer_done(&answer);
	proxy_when(&detour.postgres, PROXY_TO_SERVER, "sku_page", PROXY_HOLD);
	answer = service_call(&detour.service, shop.key_marketplace, "GET", "/feeds/google.tsv", NULL, NULL);
	assert_int_equal(answer.status, 503);
	assert_string_equal(answer_header(&answer, "ETag"), "");
	answer_done(&answer);
	proxy_release(&detour.postgres);
	detour_close();
}

/* What a feed holds lies beside its request's headers, wherever these end (for the sanitizers to see). */
static void headers_of_any_size_may_come_with_it(void **state)
{
	static char pad[9000];
	for (int size = 6000; size < 8000; size += 250) {
		memset(pad, 'x', sizeof pad);
		memcpy(pad, "X-Pad: ", 7);
		memcpy(pad + size, "\r\n", 3);
		fetch(shop.key_marketplace, "/feeds/google.tsv", pad, 200);
	}
}

static void a_feed_wants_a_key(void **state)
{
	fetch(NULL, "/feeds/google.tsv", NULL, 401);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_sku_has_its_line),
		cmocka_unit_test(a_buffer_is_not_offered),
		cmocka_unit_test(nothing_moved_is_a_304),
		cmocka_unit_test(the_tag_of_one_store_is_not_anothers),
		cmocka_unit_test(feeds_that_failed_hold_no_place),
		cmocka_unit_test(a_strangers_transaction_hides_no_sale),
		cmocka_unit_test_teardown(a_feed_that_fails_has_no_tag, detour_audit),
		cmocka_unit_test(headers_of_any_size_may_come_with_it),
		cmocka_unit_test(a_feed_wants_a_key),
		cmocka_unit_test(a_code_longer_than_any_is_fed_like_others),
	};
	return cmocka_run_group_tests(tests, shop_open, shop_close);
}
