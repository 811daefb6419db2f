/* Publishable keys: what stands in a page for everybody to see may only read, and only pages of its origins may use it.
 *
 * Guards against: a key in a page that sells; a page of another shop that shows our stock as its own; a secret key in an
 * address, where every log keeps it.
 */
#include "lib/command.h"
#include "lib/shop.h"

static char key[80];

static int open_shop(void **state)
{
	int failed = shop_open(state);
	struct command made = command_run((const char *[]){"key", "create", "--principal", "page", "--channel", "web",
	                                                   "--scopes", "read", "--origins",
	                                                   "https://shop.example http://localhost:3000", NULL},
	                                  (const char *[]){shop_text("LASTUNIT_DATABASE_URL=%s", shop.database_url), NULL});
	assert_int_equal(made.exit_code, 0);
	assert_int_equal(sscanf(made.out, "%79s", key), 1);
	command_done(&made);
	assert_int_equal(strncmp(key, "lu_pub_", 7), 0);
	service_create_sku(&shop, "PUB", 3);
	return failed;
}

static void ask(const char *with, const char *path, const char *origin, int status)
{
	shop_expect(with, "GET", path, origin ? shop_text("Origin: %s\r\n", origin) : NULL, NULL, status);
}

static void a_page_of_ours_may_read(void **state)
{
	ask(key, "/v1/availability/PUB", "https://shop.example", 200);
	assert_string_equal(answer_header(&shop_answer, "Access-Control-Allow-Origin"), "https://shop.example");
	assert_string_equal(answer_header(&shop_answer, "Vary"), "Origin");
	assert_string_equal(answer_header(&shop_answer, "Access-Control-Expose-Headers"),
	                    "ETag, Cache-Status, Retry-After");
	ask(key, "/v1/availability/PUB", "http://localhost:3000", 200);
	ask(key, "/v1/availability/PUB", NULL, 200);
	ask(NULL, shop_text("/v1/availability/PUB?key=%s", key), "https://shop.example", 200);
	assert_int_equal(answer_int(&shop_answer, "available"), 3);
	ask(NULL, shop_text("/v1/availability?sku=PUB&key=%s", key), "https://shop.example", 200);
	ask(NULL, shop_text("/v1/availability/PUB?other=1&key=%s", key), NULL, 422);
	ask(NULL, shop_text("/v1/availability/PUB?key=%s&key=lu_pub_other", key), NULL, 400);
}

/* A cache in between must not give a page what it kept of an answer to a feed's reader, which no page may read. */
static void every_answer_depends_on_who_asks(void **state)
{
	ask(NULL, shop_text("/feeds/google.tsv?key=%s", key), NULL, 200);
	assert_string_equal(answer_header(&shop_answer, "Vary"), "Origin");
	ask(key, "/v1/availability/PUB", "https://evil.example", 403);
	assert_string_equal(answer_header(&shop_answer, "Vary"), "Origin");
	ask(key, "/v1/availability/PUB", "https://shop.example", 200);
	assert_string_equal(answer_header(&shop_answer, "Vary"), "Origin");
	ask(shop.key_web, "/v1/availability/PUB", NULL, 200);
	assert_string_equal(answer_header(&shop_answer, "Vary"), "");
}

static void a_page_of_another_shop_may_not(void **state)
{
	static const char *const others[] = {"https://evil.example",
	                                     "http://shop.example",
	                                     "https://shop.example:8443",
	                                     "null",
	                                     "https://shop.example.evil.example",
	                                     "https://shop"};
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		ask(key, "/v1/availability/PUB", others[i], 403);
		assert_string_equal(answer_header(&shop_answer, "Access-Control-Allow-Origin"), "");
	}
	/* On the connection that it was good on. */
	ask(key, "/v1/availability/PUB", "https://shop.example", 200);
	ask(key, "/v1/availability/PUB", "https://evil.example", 403);
}

static void it_sells_nothing(void **state)
{
	shop_expect(key, "POST", "/v1/checkouts", NULL, shop_cart("PUB=1"), 403);
	shop_expect(NULL, "POST", shop_text("/v1/checkouts?key=%s", key), NULL, shop_cart("PUB=1"), 403);
	shop_expect_row("PUB", 3, 0);
}

/* The ledger has the names of our clients and the numbers of their orders in it. */
static void it_tells_what_is_left_and_nothing_else(void **state)
{
	static const char *const closed[] = {"/v1/skus/PUB", "/v1/skus", "/v1/skus/PUB/ledger", "/v1/changes"};
	for (size_t i = 0; i < sizeof closed / sizeof *closed; i++) {
		ask(key, closed[i], NULL, 403);
		ask(NULL, shop_text("%s?key=%s", closed[i], key), NULL, 403);
	}
	shop_expect(key, "POST", "/mcp", NULL, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", 403);
	ask(key, "/feeds/google.tsv", NULL, 200);
}

/* Else a browser hides the 401 from the page, which takes it for a broken line and asks again for ever. */
static void a_page_is_told_that_its_key_is_revoked(void **state)
{
	static const char revoked[] = "lu_pub_0000000000000000000000000000";
	ask(revoked, "/v1/availability/PUB", "https://shop.example", 401);
	assert_string_equal(answer_header(&shop_answer, "Access-Control-Allow-Origin"), "*");
	ask(NULL, shop_text("/v1/availability/PUB?key=%s", revoked), "https://shop.example", 401);
	assert_string_equal(answer_header(&shop_answer, "Access-Control-Allow-Origin"), "*");
	ask("lu_000000000000000000000000000000000", "/v1/availability/PUB", "https://shop.example", 401);
	assert_string_equal(answer_header(&shop_answer, "Access-Control-Allow-Origin"), "");
	ask(revoked, "/v1/skus/PUB", "https://shop.example", 401);
	assert_string_equal(answer_header(&shop_answer, "Access-Control-Allow-Origin"), "");
}

static void a_secret_key_does_not_stand_in_an_address(void **state)
{
	ask(NULL, shop_text("/v1/availability/PUB?key=%s", shop.key_web), NULL, 401);
	ask(NULL, "/v1/availability/PUB?key=lu_pub_0000000000000000000000000000", NULL, 401);
	/* With a key in the header it is a parameter like any other: one that nobody knows. */
	ask(shop.key_web, shop_text("/v1/availability/PUB?key=%s", key), NULL, 422);
}

static void a_browser_may_ask_first(void **state)
{
	const char *headers =
		"Origin: https://shop.example\r\nAccess-Control-Request-Method: GET\r\n"
		"Access-Control-Request-Headers: authorization\r\n";
	shop_expect(NULL, "OPTIONS", "/v1/availability/PUB", headers, NULL, 204);
	assert_string_equal(answer_header(&shop_answer, "Access-Control-Allow-Methods"), "GET");
	assert_string_equal(answer_header(&shop_answer, "Access-Control-Max-Age"), "600"); /* else each request is two */
	assert_non_null(strstr(answer_header(&shop_answer, "Access-Control-Allow-Headers"), "Authorization"));
	/* What is too long for an address is asked by POST, and JSON is a type that a browser asks about. */
	const char *post =
		"Origin: https://shop.example\r\nAccess-Control-Request-Method: POST\r\n"
		"Access-Control-Request-Headers: authorization, content-type\r\n";
	shop_expect(NULL, "OPTIONS", "/v1/availability", post, NULL, 204);
	assert_string_equal(answer_header(&shop_answer, "Access-Control-Allow-Methods"), "GET, POST");
	assert_non_null(strstr(answer_header(&shop_answer, "Access-Control-Allow-Headers"), "Content-Type"));
	/* What no key of a page may do is promised to no page. */
	static const char *const others[] = {"/v1/checkouts/x/cancel", "/v1/checkouts", "/v1/skus"};
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		shop_expect(NULL, "OPTIONS", others[i], i ? post : headers, NULL, 204);
		assert_string_equal(answer_header(&shop_answer, "Access-Control-Allow-Origin"), "");
	}
}

static void its_origins_are_origins(void **state)
{
	static const char *const bad[] =
		{"shop.example", "https://shop.example/", "https://", "https://a  https://b", "*", "https://a https://b "};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		const char *const arguments[] = {"key",  "create",    "--principal", "page", "--scopes",
		                                 "read", "--origins", bad[i],        NULL};
		assert_int_equal(service_run(&shop, arguments), 2);
	}
	const char *const selling[] = {"key", "create", "--principal", "page", "--origins", "https://a", NULL};
	assert_int_equal(service_run(&shop, selling), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_page_of_ours_may_read),
		cmocka_unit_test(every_answer_depends_on_who_asks),
		cmocka_unit_test(a_page_of_another_shop_may_not),
		cmocka_unit_test(it_sells_nothing),
		cmocka_unit_test(it_tells_what_is_left_and_nothing_else),
		cmocka_unit_test(a_page_is_told_that_its_key_is_revoked),
		cmocka_unit_test(a_secret_key_does_not_stand_in_an_address),
		cmocka_unit_test(a_browser_may_ask_first),
		cmocka_unit_test(its_origins_are_origins),
	};
	return cmocka_run_group_tests(tests, open_shop, shop_close);
}
