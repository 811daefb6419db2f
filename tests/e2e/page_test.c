/* The page, its keys, a product's page, and where the time of an operation went.
 *
 * Guards against: keys of a developer's shop handed to a page of another site, or to whoever comes through a proxy; a page
 * that loads something from elsewhere; a product's title that ends the script it stands in; a step of the write path that
 * nobody can see.
 */
#include "lib/shop.h"

#include "base/embed.h"
#include "base/text.h"
#include "channels/origin.h"
#include "lib/pg_server.h"

static void get(const char *path, const char *headers, int status)
{
	shop_expect(NULL, "GET", path, headers, NULL, status);
}

static void expect_header(const char *name, const char *words)
{
	const char *value = answer_header(&shop_answer, name);
	if (!strstr(value, words))
		fail_msg("%s: \"%s\" does not say \"%s\"", name, value, words);
}

static const char *own_origin(void)
{
	return shop_text("Origin: http://127.0.0.1:%d\r\n", shop.port);
}

/* --- the page ----------------------------------------------------------------------------------------------------- */

static void the_page_asks_nobody_but_this_service(void **state)
{
	get("/", NULL, 200);
	assert_string_equal(answer_header(&shop_answer, "Content-Type"), "text/html; charset=utf-8");
	expect_header("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'");
	expect_header("Content-Security-Policy", "base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
	assert_null(strstr(answer_header(&shop_answer, "Content-Security-Policy"), "unsafe"));
	assert_string_equal(answer_header(&shop_answer, "Referrer-Policy"), "no-referrer");
	assert_string_equal(answer_header(&shop_answer, "Cache-Control"), "no-cache"); /* a new release is seen at once */
	assert_null(strstr(shop_answer.body, "://"));
	assert_null(strstr(shop_answer.body, " style="));
	assert_null(strstr(shop_answer.body, "<script>"));
	assert_non_null(strstr(shop_answer.body, "href=\"/routes\""));
	char known[80];
	snprintf(known, sizeof known, "If-None-Match: %s\r\n", answer_header(&shop_answer, "ETag"));
	get("/", known, 304);
	assert_int_equal(shop_answer.body_size, 0);
	snprintf(known, sizeof known, "If-None-Match: \"x\", W/%s\r\n", answer_header(&shop_answer, "ETag"));
	get("/", known, 304);
}

static void each_of_its_files_is_served_as_what_it_is(void **state)
{
	static const char folder[] = "src/channels/page/";
	size_t files = 0;
	for (size_t i = 0; i < embedded_file_count; i++) {
		const char *name = embedded_files[i].name;
		if (strncmp(name, folder, strlen(folder)) != 0)
			continue;
		files++;
		get(shop_text("/page/%s", name + strlen(folder)), NULL, 200);
		assert_int_equal(shop_answer.body_size, embedded_files[i].content.size);
		assert_string_not_equal(answer_header(&shop_answer, "Content-Type"), "application/octet-stream");
		expect_header("X-Content-Type-Options", "nosniff");
	}
	assert_true(files > 8);
	/* With `nosniff` a browser takes no other type for a script, a style or a picture. */
	static const char *const kinds[][2] = {{"page.js", "text/javascript; charset=utf-8"},
	                                       {"shop.css", "text/css; charset=utf-8"},
	                                       {"icon.svg", "image/svg+xml"}};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		get(shop_text("/page/%s", kinds[i][0]), NULL, 200);
		assert_string_equal(answer_header(&shop_answer, "Content-Type"), kinds[i][1]);
	}
	get("/page/nothing.js", NULL, 404);
	get("/page/..%2Fpage%2Fpage.js", NULL, 404);
	get("/page/..%2F..%2F..%2Fsql%2Fdemo.csv", NULL, 404);
}

/* --- its keys ----------------------------------------------------------------------------------------------------- */

static void only_a_loopback_page_of_this_host_is_our_own(void **state)
{
	static const struct {
		const char *listen, *host, *origin;
		bool own;
	} rows[] = {
		{"127.0.0.1:8080", "127.0.0.1:8080", "http://127.0.0.1:8080", true},
		{"127.0.0.1:8080", "localhost:8080", "http://localhost:8080", true},
		{"127.0.0.1:8080", "LOCALHOST:8080", "http://localhost:8080", true},
		{"[::1]:8080", "[::1]:8080", "http://[::1]:8080", true},
		{"127.0.0.1:80", "localhost", "http://localhost", true},
		{"127.0.0.1:8080", "127.0.0.1:8080", "", false},
		{"127.0.0.1:8080", "127.0.0.1:8080", "null", false},
		{"127.0.0.1:8080", "127.0.0.1:8080", "http://localhost:8080", false},
		{"127.0.0.1:8080", "127.0.0.1:8080", "http://127.0.0.1:8081", false},
		{"127.0.0.1:8080", "127.0.0.1:8080", "http://127.0.0.1", false},
		{"127.0.0.1:8080", "127.0.0.1:8080", "https://127.0.0.1:8080", false},
		{"127.0.0.1:8080", "127.0.0.1:8080", "http://127.0.0.1:8080.evil.example", false},
		{"127.0.0.1:8080", "127.0.0.1:8080", "https://evil.example", false},
		{"127.0.0.1:8080", "evil.example:8080", "http://evil.example:8080", false},
		{"127.0.0.1:8080", "localhost.evil.example", "http://localhost.evil.example", false},
		{"127.0.0.1:8080", "", "http://", false},
		{"0.0.0.0:8080", "127.0.0.1:8080", "http://127.0.0.1:8080", false},
		{"192.168.0.7:8080", "localhost:8080", "http://localhost:8080", false},
		{":8080", "localhost:8080", "http://localhost:8080", false},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (origin_own(text_of(rows[i].listen), text_of(rows[i].host), text_of(rows[i].origin)) != rows[i].own)
			fail_msg("listening on %s: Host %s, Origin %s", rows[i].listen, rows[i].host, rows[i].origin);
}

static void keys_are_given_to_the_page_of_this_machine_alone(void **state)
{
	shop_expect(NULL, "POST", "/page-keys", own_origin(), NULL, 200);
	assert_string_equal(answer_string(&shop_answer, "web"), shop.key_web);
	assert_string_equal(answer_string(&shop_answer, "admin"), shop.key_admin);
	assert_int_equal(strlen(answer_string(&shop_answer, "telegram_secret")), 32);
	assert_string_equal(answer_header(&shop_answer, "Cache-Control"), "no-store");
	assert_string_equal(answer_header(&shop_answer, "Access-Control-Allow-Origin"), "");
	const char *const others[] = {NULL,
	                              "Origin: null\r\n",
	                              "Origin: https://evil.example\r\n",
	                              shop_text("Origin: http://localhost:%d\r\n", shop.port),
	                              shop_text("%sX-Forwarded-For: 192.0.2.1\r\n", own_origin()),
	                              shop_text("%sX-Forwarded-Host: shop.example\r\n", own_origin()),
	                              shop_text("%sX-Real-IP: 192.0.2.1\r\n", own_origin()),
	                              shop_text("%sVia: 1.1 proxy\r\n", own_origin()),
	                              shop_text("%sForwarded: for=192.0.2.1\r\n", own_origin())};
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		shop_expect(NULL, "POST", "/page-keys", others[i], NULL, 403);
		assert_null(strstr(shop_answer.body, "lu_"));
		shop_expect(NULL, "POST", "/page-break-redis", others[i], NULL, 403);
		shop_expect(NULL, "POST", "/page-naive", others[i], NULL, 403);
	}
	get("/page-keys", own_origin(), 405);
}

static void serve_gives_no_keys_and_breaks_nothing(void **state)
{
	struct service other;
	shop_beside(&other, NULL, NULL);
	const char *origin = shop_text("Origin: http://127.0.0.1:%d\r\n", other.port);
	static const char *const paths[] = {"/page-keys", "/page-break-redis", "/page-naive"};
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		struct answer answer = service_call(&other, NULL, "POST", paths[i], origin, NULL);
		assert_int_equal(answer.status, 404);
		answer_done(&answer);
	}
	assert_int_equal(service_stop(&other), 0);
}

static void redis_is_broken_and_comes_back(void **state)
{
	service_create_sku(&shop, "PAGE-BREAK", 5);
	shop_warm(&shop, "PAGE-BREAK");
	pid_t before = shop_child("redis-server");
	shop_expect(NULL, "POST", "/page-break-redis", own_origin(), NULL, 202);
	assert_int_equal(service_sell(&shop, shop.key_web, NULL, "PAGE-BREAK", 1), 201);
	shop_expect_seen(&shop, "PAGE-BREAK", 4, 0);
	shop_wait_until(shop_child("redis-server") && shop_child("redis-server") != before);
	shop_warm(&shop, "PAGE-BREAK");
	shop_expect_seen(&shop, "PAGE-BREAK", 4, 0);
}

static void the_naive_control_oversells_and_leaves_nothing(void **state)
{
	for (int i = 0; i < 3; i++) {
		shop_expect(NULL, "POST", "/page-naive", own_origin(), NULL, 200);
		assert_int_equal(answer_int(&shop_answer, "sold"), 2);
		assert_int_equal(answer_int(&shop_answer, "of"), 1);
		assert_int_equal(answer_int(&shop_answer, "on_hand"), -1);
	}
	const char *left = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'lastunit_race%'";
	assert_string_equal(pg_server_ask(shop.database_url, left), "0");
}

/* The server ends the session that has made the schema, when it makes the table. */
static void a_naive_control_whose_session_dies_leaves_nothing_either(void **state)
{
	pg_server_ask(shop.database_url,
	              "CREATE FUNCTION public.end_page() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN"
	              " IF current_setting('application_name') = 'lastunit page' THEN"
	              " PERFORM pg_terminate_backend(pg_backend_pid()); END IF; END $$;"
	              "CREATE EVENT TRIGGER end_page ON ddl_command_start WHEN TAG IN ('CREATE TABLE')"
	              " EXECUTE FUNCTION public.end_page()");
	shop_expect(NULL, "POST", "/page-naive", own_origin(), NULL, 503);
	pg_server_ask(shop.database_url, "DROP EVENT TRIGGER end_page; DROP FUNCTION public.end_page()");
	const char *left = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'lastunit_race%'";
	assert_string_equal(pg_server_ask(shop.database_url, left), "0");
}

/* --- where the time went ------------------------------------------------------------------------------------------ */

static const char *const steps[] = {"queue;dur=",  "lock;dur=",   "decide;dur=", "write;dur=",
                                    "intend;dur=", "commit;dur=", "publish;dur="};

static void expect_all_steps(void)
{
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
		expect_header("Server-Timing", steps[i]);
}

static void an_answer_says_where_its_time_went(void **state)
{
	service_create_sku(&shop, "PAGE-TIME", 5);
	shop_warm(&shop, "PAGE-TIME"); /* an epoch is open */
	shop_expect_post("/v1/checkouts", shop_cart("PAGE-TIME=1"), 201);
	expect_all_steps();
	expect_header("Server-Timing", shop_text("operation;desc=\"%s\"", answer_string(&shop_answer, "id")));
	shop_expect_get("/v1/skus/PAGE-TIME/ledger?after=1", 200);
	assert_string_equal(answer_header(&shop_answer, "Server-Timing"), "");
	/* A refusal is decided and kept under its key, and changes no cell. */
	shop_expect_post("/v1/checkouts", shop_cart("PAGE-TIME=9"), 409);
	expect_header("Server-Timing", "commit;dur=");
	assert_null(strstr(answer_header(&shop_answer, "Server-Timing"), "intend"));
	/* A replay writes nothing. */
	const char *body = shop_cart("PAGE-TIME=1");
	shop_expect_post("/v1/checkouts", body, 201);
	expect_header("Server-Timing", "write;dur=");
	shop_expect_post("/v1/checkouts", body, 201);
	assert_string_equal(answer_header(&shop_answer, "Idempotent-Replayed"), "true");
	assert_null(strstr(answer_header(&shop_answer, "Server-Timing"), "write"));
	expect_header("Server-Timing", "decide;dur=");
	shop_expect_post("/v1/batch",
	                 shop_text("{\"operations\":[{\"operation\":\"checkout\",\"idempotency_key\":\"%s\",\"lines\":[{"
	                           "\"sku\":\"PAGE-TIME\",\"quantity\":1}]}]}",
	                           service_new_key()),
	                 200);
	expect_all_steps();
	expect_header("Server-Timing", answer_string(&shop_answer, "results.0.body.id"));
}

static void a_channels_answer_says_it_too(void **state)
{
	service_create_sku(&shop, "PAGE-TURN", 5);
	shop_warm(&shop, "PAGE-TURN");
	static const char *const call =
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\",\"arguments\":%s}}";
	char offer[100];
	shop_expect(shop.key_agent, "POST", "/mcp", NULL, shop_text(call, "check_stock", "{\"skus\":[\"PAGE-TURN\"]}"),
	            200);
	assert_string_equal(answer_header(&shop_answer, "Server-Timing"), "");
	snprintf(offer, sizeof offer, "%s", answer_string(&shop_answer, "result.structuredContent.offer_id"));
	shop_expect(shop.key_agent, "POST", "/mcp", NULL,
	            shop_text(call, "hold",
	                      shop_text("{\"offer_id\":\"%s\",\"lines\":[{\"sku\":\"PAGE-TURN\",\"quantity\":1}]}", offer)),
	            200);
	expect_all_steps();
	expect_header("Server-Timing", answer_string(&shop_answer, "result.structuredContent.hold_id"));
}

/* --- a product's page --------------------------------------------------------------------------------------------- */

#define EVIL "</script><script>alert(1)</script><!-- & \\\"x\\\""

/* The JSON-LD of the page, as a search engine reads it: up to the first end of a script. */
static json_t *json_ld(void)
{
	static const char open[] = "<script type=\"application/ld+json\">";
	const char *start = strstr(shop_answer.body, open);
	assert_non_null(start);
	start += strlen(open);
	const char *end = strstr(start, "</script>");
	assert_non_null(end);
	json_t *json = json_loadb(start, (size_t)(end - start), 0, NULL);
	assert_non_null(json);
	return json;
}

static void expect_json_ld(const char *name, const char *availability)
{
	json_t *json = json_ld();
	assert_string_equal(json_string_value(json_object_get(json, "name")), name);
	assert_string_equal(json_string_value(json_object_get(json, "@type")), "Product");
	json_t *offer = json_object_get(json, "offers");
	assert_string_equal(json_string_value(json_object_get(offer, "availability")), availability);
	json_decref(json);
}

static void expect_says(const char *words)
{
	if (!strstr(shop_answer.body, words))
		fail_msg("%s\ndoes not say: %s", shop_answer.body, words);
}

static void a_products_page_says_what_is_left(void **state)
{
	shop_expect(shop.key_admin, "PUT", "/v1/skus/PAGE%2F%3C1%3E", NULL,
	            "{\"on_hand\":2,\"titles\":{\"en\":\"Lamp\",\"ru\":\"Лампа\"}}", 201);
	get("/shop/PAGE%2F%3C1%3E", NULL, 200);
	expect_json_ld("Lamp", "https://schema.org/InStock");
	expect_says(">2 in stock</p>");
	expect_says("<p class=\"code\">PAGE/&lt;1&gt;</p>");
	expect_says("data-sku=\"PAGE/&lt;1&gt;\"");
	expect_says(shop_text("&quot;%s/v1/events?sku=PAGE%%2F%%3C1%%3E&amp;key=lu_pub_", shop.url));
	expect_says("data-some=\"{n} in stock\" data-last=\"The last one\" data-none=\"Sold out\"");
	expect_says("data-held=\"Held by another buyer just now\" data-always=\"In stock\"");
	assert_string_equal(answer_header(&shop_answer, "Vary"), "Accept-Language, Host");
	char known[80];
	snprintf(known, sizeof known, "If-None-Match: %s\r\n", answer_header(&shop_answer, "ETag"));
	get("/shop/PAGE%2F%3C1%3E", known, 304);
	shop_expect_post("/v1/checkouts", shop_cart("PAGE/<1>=1"), 201);
	get("/shop/PAGE%2F%3C1%3E", known, 200);
	expect_says(">The last one</p>");
	get("/shop/PAGE%2F%3C1%3E", "Accept-Language: ru-RU,ru;q=0.9\r\n", 200);
	expect_says("<html lang=\"ru\">");
	expect_says(">Последняя штука</p>");
	expect_json_ld("Лампа", "https://schema.org/InStock");
	char hold[37];
	assert_int_equal(service_reserve(&shop, shop.key_web, NULL, "PAGE/<1>", 1, 600, hold), 201);
	get("/shop/PAGE%2F%3C1%3E", NULL, 200);
	expect_says(">Held by another buyer just now</p>");
	expect_json_ld("Lamp", "https://schema.org/OutOfStock");
	assert_int_equal(service_end(&shop, shop.key_web, hold, "commit"), 200);
	get("/shop/PAGE%2F%3C1%3E", NULL, 200);
	expect_says(">Sold out</p>");
	expect_json_ld("Lamp", "https://schema.org/OutOfStock");
	shop_expect(shop.key_admin, "PUT", "/v1/skus/PAGE-ALWAYS", NULL, "{\"tracked\":false}", 201);
	get("/shop/PAGE-ALWAYS", NULL, 200);
	expect_says(">In stock</p>");
	expect_json_ld("PAGE-ALWAYS", "https://schema.org/InStock");
	get("/shop/PAGE-NOWHERE%3Cb%3E", NULL, 404);
	expect_header("Content-Type", "text/html");
	expect_header("Content-Security-Policy", "script-src 'self'");
	expect_says("<h1>There is no such product.</h1>");
	expect_says("<p class=\"code\">PAGE-NOWHERE&lt;b&gt;</p>");
	get("/shop/PAGE-NOWHERE", "Accept-Language: ru\r\n", 404);
	expect_says("<html lang=\"ru\">");
	expect_says("<h1>Такого товара нет.</h1>");
}

/* Who sends a link about adds to it: utm_source, fbclid. And what its reader has mistyped is no JSON to him. */
static void a_products_page_opens_by_whatever_link_was_sent_about(void **state)
{
	service_create_sku(&shop, "PAGE-LINK", 2);
	get("/shop/PAGE-LINK?utm_source=mail&utm_source=mail&fbclid=IwAR0%26", NULL, 200);
	expect_says(">2 in stock</p>");
	get("/shop/PAGE-LINK?utm_campaign=50%off&x=%00", NULL, 200);
	get("/?utm_campaign=50%off", NULL, 200);
	get("/shop/PAGE-LINK%20", NULL, 404);
	expect_header("Content-Type", "text/html");
	expect_says("<h1>There is no such product.</h1>");
}

static void a_products_page_says_it_when_nobody_knows_what_is_left(void **state)
{
	struct service other;
	service_create_sku(&shop, "PAGE-LATER", 2);
	service_beside(&other, &shop, NULL, NULL, (const char *const[]){"--request-timeout-ms", "500", NULL});
	struct stranger *stranger = stranger_new();
	stranger_say(stranger, "BEGIN; LOCK TABLE lastunit.sku IN ACCESS EXCLUSIVE MODE");
	answer_done(&shop_answer);
	shop_answer = service_call(&other, NULL, "GET", "/shop/PAGE-LATER", "Accept-Language: ru\r\n", NULL);
	assert_int_equal(shop_answer.status, 503);
	assert_string_equal(answer_header(&shop_answer, "Retry-After"), "1");
	expect_header("Content-Type", "text/html");
	expect_header("Content-Security-Policy", "script-src 'self'");
	expect_header("Cache-Control", "no-cache");
	assert_string_equal(answer_header(&shop_answer, "ETag"), "");
	expect_says("<html lang=\"ru\">");
	expect_says("<h1>Сейчас нельзя сказать, что осталось. Попробуйте ещё раз чуть позже.</h1>");
	expect_says("<p class=\"code\">PAGE-LATER</p>");
	stranger_say(stranger, "ROLLBACK");
	stranger_free(stranger);
	assert_int_equal(service_stop(&other), 0);
}

static void a_title_ends_no_script(void **state)
{
	shop_expect(shop.key_admin, "PUT", "/v1/skus/PAGE-EVIL", NULL, "{\"on_hand\":1,\"titles\":{\"en\":\"" EVIL "\"}}",
	            201);
	get("/shop/PAGE-EVIL", NULL, 200);
	assert_null(strstr(shop_answer.body, "<script>"));
	assert_null(strstr(shop_answer.body, "<!--"));
	expect_json_ld("</script><script>alert(1)</script><!-- & \"x\"", "https://schema.org/InStock");
	expect_header("Content-Security-Policy", "script-src 'self'");
}

/* Its key is a publishable one: what a page of everybody's may show. Without it the page is as true, and still. */
static void a_page_without_a_key_is_a_plain_one(void **state)
{
	struct service other;
	service_create_sku(&shop, "PAGE-PLAIN", 3);
	shop_beside(&other, NULL, NULL);
	struct answer answer = service_call(&other, NULL, "GET", "/shop/PAGE-PLAIN", NULL, NULL);
	assert_int_equal(answer.status, 200);
	assert_non_null(strstr(answer.body, ">3 in stock</p>"));
	assert_null(strstr(answer.body, "shop.js"));
	assert_null(strstr(answer.body, "lu_"));
	answer_done(&answer);
	assert_int_equal(service_stop(&other), 0);
}

/* What a page of ours does not offer to others it does not offer here, and the address is the one that clients know. */
static void a_page_obeys_its_keys_buffer_and_is_found_by_its_public_name(void **state)
{
	struct service other;
	service_create_sku(&shop, "PAGE-BUFFER", 3);
	const char *const set[] = {"key", "set", "shop", "--buffer", "2", NULL};
	const char *const unset[] = {"key", "set", "shop", "--buffer", "0", NULL};
	get("/shop/PAGE-BUFFER", NULL, 200);
	expect_says(">3 in stock</p>");
	const char *key = strstr(shop_answer.body, "data-key=\"") + 10;
	const char *const options[] = {"--shop-key",
	                               shop_text("%.*s", (int)strcspn(key, "\""), key),
	                               "--public-url",
	                               "https://shop.example/",
	                               "--log-level",
	                               "error",
	                               NULL};
	service_beside(&other, &shop, NULL, NULL, options);
	assert_int_equal(service_run(&shop, set), 0);
	get("/shop/PAGE-BUFFER", NULL, 200);
	expect_says(">The last one</p>");
	assert_int_equal(service_run(&shop, unset), 0);
	answer_done(&shop_answer);
	shop_answer = service_call(&other, NULL, "GET", "/shop/PAGE-BUFFER", NULL, NULL);
	assert_int_equal(shop_answer.status, 200);
	expect_says("&quot;https://shop.example/v1/events?sku=PAGE-BUFFER&amp;key=lu_pub_");
	/* And whose key was revoked is a plain one. */
	shop_sql("UPDATE lastunit.api_key SET revoked_at = clock_timestamp() WHERE prefix = '%.11s'", options[1]);
	shop_wait_until((answer_done(&shop_answer),
	                 shop_answer = service_call(&other, NULL, "GET", "/shop/PAGE-BUFFER", NULL, NULL),
	                 !strstr(shop_answer.body, "lu_pub_")));
	assert_int_equal(shop_answer.status, 200);
	expect_says(">3 in stock</p>");
	shop_sql("UPDATE lastunit.api_key SET revoked_at = NULL WHERE prefix = '%.11s'", options[1]);
	assert_int_equal(service_stop(&other), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_page_asks_nobody_but_this_service),
		cmocka_unit_test(each_of_its_files_is_served_as_what_it_is),
		cmocka_unit_test(only_a_loopback_page_of_this_host_is_our_own),
		cmocka_unit_test(keys_are_given_to_the_page_of_this_machine_alone),
		cmocka_unit_test(serve_gives_no_keys_and_breaks_nothing),
		cmocka_unit_test(the_naive_control_oversells_and_leaves_nothing),
		cmocka_unit_test(a_naive_control_whose_session_dies_leaves_nothing_either),
		cmocka_unit_test_teardown(redis_is_broken_and_comes_back, shop_audit),
		cmocka_unit_test(an_answer_says_where_its_time_went),
		cmocka_unit_test(a_channels_answer_says_it_too),
		cmocka_unit_test(a_products_page_says_what_is_left),
		cmocka_unit_test(a_products_page_opens_by_whatever_link_was_sent_about),
		cmocka_unit_test(a_products_page_says_it_when_nobody_knows_what_is_left),
		cmocka_unit_test(a_title_ends_no_script),
		cmocka_unit_test(a_page_without_a_key_is_a_plain_one),
		cmocka_unit_test(a_page_obeys_its_keys_buffer_and_is_found_by_its_public_name),
	};
	return cmocka_run_group_tests(tests, shop_open, shop_close);
}
