/* The API against the real service: pages, keys, SKUs, availability, adjustments, the ledger and what is refused.
 * Selling and holding: api_sales_test.c. Each test has SKUs of its own. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lastunit/error.h"
#include "lib/command.h"
#include "lib/follow.h"
#include "lib/pg_server.h"
#include "lib/service.h"

static struct service service;
static struct answer answer; /* the last one */

/* One call as `key`; the answer must have this status. */
static void call(const char *key, const char *method, const char *path, const char *headers, const char *body,
                 int status)
{
	answer_done(&answer);
	answer = service_call(&service, key, method, path, headers, body);
	if (answer.status != status)
		fail_msg("%s %s %.200s: %d instead of %d: %s", method, path, body ? body : "", answer.status, status,
		         answer.body ? answer.body : "");
}

static void get(const char *path, int status)
{
	call(service.key_admin, "GET", path, NULL, NULL, status);
}

static void put(const char *path, const char *body, int status)
{
	call(service.key_admin, "PUT", path, NULL, body, status);
}

static void adjust(const char *body, int status)
{
	char key[80];
	snprintf(key, sizeof key, "Idempotency-Key: %s\r\n", service_new_key());
	call(service.key_admin, "POST", "/v1/adjustments", key, body, status);
}

/* The last answer is a problem with this code, and its detail holds `word`. */
static void problem(const char *code, const char *word)
{
	assert_string_equal(answer_string(&answer, "code"), code);
	assert_string_equal(answer_header(&answer, "Content-Type"), "application/problem+json");
	assert_int_equal(answer_int(&answer, "status"), answer.status);
	char type[100];
	snprintf(type, sizeof type, "/problems/%s", code);
	assert_string_equal(answer_string(&answer, "type"), type);
	if (!strstr(answer_string(&answer, "detail"), word))
		fail_msg("\"%s\" does not name %s", answer_string(&answer, "detail"), word);
}

/* --- pages and keys ----------------------------------------------------------------------------------------------- */

static void operators_pages_need_no_key(void **state)
{
	call(NULL, "GET", "/healthz", NULL, NULL, 200);
	assert_string_equal(answer.body, "{\"status\":\"ok\"}\n");
	/* True as soon as the keepers have asked for the first time. */
	for (int i = 0; i < 20000 && !json_is_true(answer_at(&answer, "database_reachable")); i++)
		call(NULL, "GET", "/readyz", NULL, NULL, 200);
	assert_true(json_is_true(answer_at(&answer, "database_reachable")));
	assert_true(json_is_boolean(answer_at(&answer, "redis_reachable")));
	assert_true(json_is_array(answer_at(&answer, "warnings")));
	assert_string_equal(answer_header(&answer, "Cache-Control"), "no-store");
	call(NULL, "GET", "/metrics", NULL, NULL, 200);
	assert_non_null(strstr(answer.body, "\nlastunit_http_requests_total "));
	assert_non_null(strstr(answer_header(&answer, "Content-Type"), "text/plain; version=0.0.4"));
}

/* Whoever configured no Redis is not to be woken for it: nothing is amiss, and a sentence says what it costs. */
static void without_a_redis_it_is_ready_and_says_so(void **state)
{
	struct service beside;
	service_beside(&beside, &service, NULL, NULL, (const char *const[]){"--redis-url=", NULL});
	struct answer ready = service_call(&beside, NULL, "GET", "/readyz", NULL, NULL);
	/* `degraded` until the keepers have asked PostgreSQL for the first time. */
	for (int i = 0; i < 20000 && !json_is_true(answer_at(&ready, "database_reachable")); i++) {
		answer_done(&ready);
		ready = service_call(&beside, NULL, "GET", "/readyz", NULL, NULL);
	}
	assert_string_equal(answer_string(&ready, "status"), "ok");
	assert_true(json_is_null(answer_at(&ready, "redis_reachable")));
	assert_non_null(strstr(ready.body, "no Redis is configured: every read comes from PostgreSQL"));
	answer_done(&ready);
	service_create_sku(&service, "NO-REDIS", 1);
	ready = service_call(&beside, service.key_web, "GET", "/v1/availability?sku=NO-REDIS", NULL, NULL);
	assert_string_equal(answer_header(&ready, "Cache-Status"), "lastunit; fwd=bypass");
	answer_done(&ready);
	assert_int_equal(service_stop(&beside), 0);
}

static void a_serve_whose_user_lacks_the_role_names_the_grant(void **state)
{
	char url[600];
	pg_server_ask(service.database_url, "CREATE ROLE stranger LOGIN");
	snprintf(url, sizeof url, "%s%cuser=stranger", service.database_url, strchr(service.database_url, '?') ? '&' : '?');
	struct command serve = command_run((const char *[]){"serve", "--listen", "127.0.0.1:0", "--database-url", url,
	                                                    NULL},
	                                   NULL);
	assert_int_equal(serve.exit_code, 2);
	assert_non_null(strstr(serve.err, "`GRANT lastunit_service TO stranger`"));
	command_done(&serve);
	pg_server_ask(service.database_url, "DROP ROLE stranger");
}

static void the_index_of_routes_names_every_call(void **state)
{
	call(NULL, "GET", "/routes", NULL, NULL, 200);
	assert_string_equal(answer_header(&answer, "Content-Type"), "text/html; charset=utf-8");
	assert_string_equal(answer_header(&answer, "Content-Security-Policy"),
	                    "default-src 'none'; style-src 'unsafe-inline'");
	assert_string_equal(answer_header(&answer, "X-Content-Type-Options"), "nosniff");
	static const char *const says[] = {"Lastunit",
	                                   "<code>GET /v1/availability/{sku}</code> read",
	                                   "<code>POST /v1/reservations/{id}/commit</code> sell",
	                                   "<code>PUT /v1/skus/{sku}</code> stock",
	                                   "<a href=\"/readyz\">",
	                                   "<a href=\"/problems\"><code>GET /problems</code></a>",
	                                   "<li><code>GET /problems/{code}</code></li>",
	                                   "<code>DELETE /v1/webhooks/{id}</code> admin",
	                                   "<a href=\"/routes\">",
	                                   "<li><code>POST /mcp</code></li>"};
	for (size_t i = 0; i < sizeof says / sizeof *says; i++)
		if (!strstr(answer.body, says[i]))
			fail_msg("/routes lacks %s", says[i]);
	assert_null(strstr(answer.body, "{}"));
}

static void every_problem_has_a_page_and_the_index_names_them_all(void **state)
{
	call(NULL, "GET", "/problems", NULL, NULL, 200);
	char *index = strdup(answer.body);
	for (enum lu_error error = LU_OK + 1; error < LU_ERROR_COUNT; error++) {
		char text[200];
		snprintf(text, sizeof text, "<a href=\"/problems/%s\"><code>%s</code></a></td><td>%d</td>",
		         lu_error_code(error), lu_error_code(error), lu_error_status(error));
		if (!strstr(index, text))
			fail_msg("the index lacks %s", text);
		snprintf(text, sizeof text, "/problems/%s", lu_error_code(error));
		call(NULL, "GET", text, NULL, NULL, 200);
		snprintf(text, sizeof text, "<h1>%s</h1>", lu_error_title(error));
		assert_non_null(strstr(answer.body, text));
		snprintf(text, sizeof text, "HTTP status %d", lu_error_status(error));
		assert_non_null(strstr(answer.body, text));
		assert_non_null(strstr(answer.body, "What to do"));
		assert_non_null(strstr(answer.body, "the same key again"));
	}
	assert_non_null(strstr(index, "<dt>only it helps</dt><dd>It is the only thing that helps"));
	assert_non_null(strstr(index, "<a href=\"/\">"));
	free(index);
	call(NULL, "GET", "/problems/insufficient_stock", NULL, NULL, 200);
	assert_non_null(strstr(answer.body, "<code>next_release_at</code>"));
	assert_string_equal(answer_header(&answer, "Content-Type"), "text/html; charset=utf-8");
	call(NULL, "GET", "/problems/no_such_thing", NULL, NULL, 404);
	problem("not_found", "/problems");
	call(NULL, "GET", "/problems/ok", NULL, NULL, 404);
	char path[200] = "/problems/";
	memset(path + strlen(path), 'x', 100);
	call(NULL, "GET", path, NULL, NULL, 404);
}

/* Who reads "nothing is stored" takes a new key, and sells twice. */
static void a_problems_page_says_what_its_key_is_worth(void **state)
{
	static const struct {
		const char *code, *says;
		bool nothing_stored;
	} pages[] = {
		{"too_many_holds", "only asking for fewer helps", true},
		{"insufficient_stock", "the same idempotency key is answered the same again", false},
		{"overloaded", "It helps: nothing was changed", true},
		{"invalid_quantity", "once the request is mended", true},
		{"outcome_unknown", "the request may have been done", false},
		{"idempotency_in_flight", "the request may have been done", false},
		{"idempotency_conflict", "first answer of this idempotency key stays stored", false},
	};
	for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
		char path[80];
		snprintf(path, sizeof path, "/problems/%s", pages[i].code);
		call(NULL, "GET", path, NULL, NULL, 200);
		assert_non_null(strstr(answer.body, pages[i].says));
		assert_int_equal(strstr(answer.body, "othing is stored") != NULL, pages[i].nothing_stored);
	}
}

static void a_key_opens_what_its_scopes_name(void **state)
{
	service_create_sku(&service, "KEYS", 1);
	call(NULL, "GET", "/v1/availability/KEYS", NULL, NULL, 401);
	problem("unauthorized", "Bearer");
	assert_string_equal(answer_header(&answer, "WWW-Authenticate"), "Bearer");
	call("lu_unknown", "GET", "/v1/availability/KEYS", NULL, NULL, 401);
	problem("unauthorized", "`lastunit key list` shows those that are.");
	call(service.key_pos, "GET", "/v1/availability/KEYS", NULL, NULL, 200);
	call(service.key_pos, "PUT", "/v1/skus/KEYS", NULL, "{}", 403);
	problem("forbidden", "the scope `stock`. Take a key that has it (`lastunit key create --scopes stock ...`).");
	call(service.key_pos, "POST", "/v1/adjustments", NULL, "{}", 403);
	call(service.key_pos, "GET", "/v1/skus/KEYS/ledger", NULL, NULL, 200);
}

static void unknown_routes_and_methods_are_told(void **state)
{
	get("/v1/availabilities/A", 404);
	problem("not_found", "");
	get("/v1/skus/A/ledger/", 404);
	call(service.key_admin, "DELETE", "/v1/skus/A", NULL, NULL, 405);
	problem("method_not_allowed", "");
	assert_non_null(strstr(answer_header(&answer, "Allow"), "PUT"));
	call(service.key_admin, "OPTIONS", "/v1/checkouts", NULL, NULL, 204);
	assert_non_null(strstr(answer_header(&answer, "Allow"), "POST"));
}

/* One byte for people: curl leaves the prompt on a line of its own. */
static void every_json_answer_ends_in_a_newline(void **state)
{
	static const struct {
		const char *method, *path, *body;
		int status;
	} calls[] = {
		{"GET", "/v1/availability/NEWLINE", NULL, 200},
		{"GET", "/v1/availability?sku=NEWLINE", NULL, 200},
		{"GET", "/v1/skus", NULL, 200},
		{"PUT", "/v1/skus/NEWLINE", "{\"safety_stock\":0}", 200},
		{"POST", "/v1/batch", "{\"operations\":[{\"operation\":\"release\",\"reservation_id\":\"x\"}]}", 200},
		{"GET", "/v1/availability/NO-NEWLINE", NULL, 404},
		{"POST", "/v1/checkouts", "{}", 422},
		{"GET", "/readyz", NULL, 200},
	};
	service_create_sku(&service, "NEWLINE", 1);
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		call(service.key_admin, calls[i].method, calls[i].path, NULL, calls[i].body, calls[i].status);
		assert_true(answer.body_size > 2);
		assert_string_equal(answer.body + answer.body_size - 2, "}\n");
	}
}

static void a_key_sent_twice_is_no_key(void **state)
{
	service_create_sku(&service, "TWICE", 5);
	const char *body = "{\"lines\":[{\"sku\":\"TWICE\",\"quantity\":1}]}";
	call(service.key_web, "POST", "/v1/checkouts", "Idempotency-Key: k1\r\nidempotency-key: k2\r\n", body, 400);
	problem("malformed_request", "Idempotency-Key");
	call(service.key_web, "POST", "/v1/checkouts", "Idempotency-Key: k1\r\nIdempotency-Key: k1\r\n", body, 400);
	/* service_call() adds the key of its second parameter */
	char second[120];
	snprintf(second, sizeof second, "Authorization: Bearer %s\r\n", service.key_pos);
	call(service.key_web, "GET", "/v1/availability/TWICE", second, NULL, 400);
	problem("malformed_request", "Authorization");
	assert_int_equal(service_see(&service, "TWICE").available, 5);
}

/* --- SKUs --------------------------------------------------------------------------------------------------------- */

static void a_sku_is_created_once_and_changed_often(void **state)
{
	put("/v1/skus/CUP", "{\"on_hand\":5,\"safety_stock\":1,\"titles\":{\"en\":\"Cup\"},\"names\":[\"mug\"]}", 201);
	assert_int_equal(answer_int(&answer, "on_hand"), 5);
	assert_int_equal(answer_int(&answer, "available"), 4);
	assert_int_equal(answer_int(&answer, "version"), 1);
	assert_string_equal(answer_string(&answer, "titles.en"), "Cup");
	assert_string_equal(answer_string(&answer, "names.0"), "mug");
	assert_null(strstr(answer.body, "\": ")); /* PostgreSQL writes blanks, nobody else does */
	put("/v1/skus/CUP", "{\"on_hand\":6}", 409);
	problem("sku_exists", "adjustments");
	put("/v1/skus/CUP", "{\"safety_stock\":2}", 200);
	assert_int_equal(answer_int(&answer, "available"), 3);
	assert_int_equal(answer_int(&answer, "version"), 2);
	assert_string_equal(answer_string(&answer, "titles.en"), "Cup");
	/* A title is no change of stock. */
	put("/v1/skus/CUP", "{\"titles\":{\"de\":\"Becher\"}}", 200);
	assert_int_equal(answer_int(&answer, "version"), 2);
	assert_string_equal(answer_string(&answer, "titles.de"), "Becher");
	assert_string_equal(answer_string(&answer, "names.0"), "mug");
	put("/v1/skus/CUP", "{\"tracked\":false}", 200);
	assert_true(json_is_null(answer_at(&answer, "available")));
	get("/v1/skus/CUP", 200);
	assert_string_equal(answer_string(&answer, "sku"), "CUP");
	assert_int_equal(answer_int(&answer, "on_hand"), 5);
	assert_int_equal(answer_int(&answer, "safety_stock"), 2);
	assert_true(json_is_false(answer_at(&answer, "tracked")));
	assert_int_equal(answer_int(&answer, "version"), 3);
	get("/v1/skus/NO-CUP", 404);
	problem("unknown_sku", "Look at its spelling");
	call(service.key_admin, "PUT", "/v1/skus/EMPTY", NULL, NULL, 201);
	assert_int_equal(answer_int(&answer, "on_hand"), 0);
	assert_true(json_is_true(answer_at(&answer, "tracked")));
}

static void a_replayed_put_repeats_its_titles(void **state)
{
	static const char key[] = "Idempotency-Key: spoon\r\n", more[] = "Idempotency-Key: spoon-2\r\n";
	const char *made = "{\"on_hand\":1,\"titles\":{\"en\":\"Spoon\",\"de\":\"Löffel\"}}",
			   *named = "{\"names\":[\"a\"]}";
	call(service.key_admin, "PUT", "/v1/skus/SPOON", key, made, 201);
	json_t *first = json_incref(answer.json);
	call(service.key_admin, "PUT", "/v1/skus/SPOON", more, named, 200);
	put("/v1/skus/SPOON", "{\"titles\":{\"en\":\"Ladle\"},\"names\":[\"b\"]}", 200);
	/* It was made by that call, so all of it is known: what was not given was empty. */
	call(service.key_admin, "PUT", "/v1/skus/SPOON", key, made, 201);
	assert_string_equal(answer_header(&answer, "Idempotent-Replayed"), "true");
	assert_true(json_equal(answer.json, first));
	json_decref(first);
	/* What was not given to a change was as it was then, which nobody knows any more: better nothing than today's. */
	call(service.key_admin, "PUT", "/v1/skus/SPOON", more, named, 200);
	assert_string_equal(answer_header(&answer, "Idempotent-Replayed"), "true");
	assert_string_equal(answer_string(&answer, "names.0"), "a");
	assert_null(answer_at(&answer, "titles"));
	get("/v1/skus/SPOON", 200);
	assert_string_equal(answer_string(&answer, "titles.en"), "Ladle");
	for (int i = 0; i < 2; i++) {
		call(service.key_admin, "PUT", "/v1/skus/SPOON-NO-BODY", "Idempotency-Key: spoon-3\r\n", NULL, 201);
		assert_int_equal(json_object_size(answer_at(&answer, "titles")), 0);
		assert_true(json_is_array(answer_at(&answer, "names")));
	}
}

static void skus_come_in_pages_by_code(void **state)
{
	for (int i = 0; i < 5; i++) {
		char sku[20];
		snprintf(sku, sizeof sku, "PAGE-%d", i);
		service_create_sku(&service, sku, i);
	}
	get("/v1/skus?after=PAGE-&limit=2", 200);
	assert_int_equal(json_array_size(answer_at(&answer, "items")), 2);
	assert_string_equal(answer_string(&answer, "items.0.sku"), "PAGE-0");
	assert_string_equal(answer_string(&answer, "next"), "PAGE-1");
	get("/v1/skus?after=PAGE-1&limit=2", 200);
	assert_string_equal(answer_string(&answer, "items.0.sku"), "PAGE-2");
	get("/v1/skus?after=PAGE-3&limit=1", 200);
	assert_string_equal(answer_string(&answer, "items.0.sku"), "PAGE-4");
	get("/v1/skus?limit=500&after=zzzz", 200);
	assert_int_equal(json_array_size(answer_at(&answer, "items")), 0);
	assert_true(json_is_null(answer_at(&answer, "next")));
	/* A code of earlier days, with a noncharacter, is `next` of a page as any other. */
	get("/v1/skus?after=PAGE-3%EF%BF%BE&limit=1", 200);
	assert_string_equal(answer_string(&answer, "items.0.sku"), "PAGE-4");
	const char *const wrong[] = {"limit=0", "limit=501", "limit=x", "limit=", "after=A&after=B", "page=2"};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		char path[60];
		snprintf(path, sizeof path, "/v1/skus?%s", wrong[i]);
		get(path, 422);
	}
}

/* B64, B66, B67, B73 */
static void codes_are_bytes_with_one_spelling(void **state)
{
	static const struct {
		const char *path;
		int status;
	} rows[] = {
		{"/v1/skus/SPELL%20", 422},
		{"/v1/skus/%20SPELL", 422},
		{"/v1/skus/SPELL%09", 422},
		{"/v1/skus/SPELL%C2%A0", 422},
		{"/v1/skus/SPELL%0D", 422},
		{"/v1/skus/Cafe%CC%81", 422},
		{"/v1/skus/SPELL%E2%80%8B", 422},
		{"/v1/skus/SPELL%00X", 400},
		{"/v1/skus/%00", 400},
		{"/v1/skus/%", 400},
		{"/v1/skus/%4", 400},
		{"/v1/skus/%zz", 400},
		{"/v1/skus/%C0%AF", 400},
		{"/v1/skus/%ED%A0%80", 400},
		{"/v1/availability?sku=SPELL%00", 400},
		{"/v1/availability/SPELL%00", 400},
		{"/v1/skus/spell", 404},
	};
	service_create_sku(&service, "SPELL", 5);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		get(rows[i].path, rows[i].status);
	char longest[200] = "/v1/skus/", *end = longest + strlen(longest);
	memset(end, 'L', 129);
	put(longest, "{\"on_hand\":1}", 422);
	problem("invalid_sku", "128 bytes");
	end[128] = 0;
	put(longest, "{\"on_hand\":1}", 201);
	const char *const odd[] = {"A B", "100%s%n", "Café 🍋", "x/../y", "DEL \"y\"", "'; DROP", "{a}*?", "a+b", "SPELL"};
	for (size_t i = 0; i < 8; i++) {
		service_create_sku(&service, odd[i], 2 + (int64_t)i);
		assert_int_equal(service_see(&service, odd[i]).available, 2 + (int64_t)i);
		assert_int_equal(service_sell(&service, service.key_web, NULL, odd[i], 1), 201);
		assert_int_equal(service_see(&service, odd[i]).available, 1 + (int64_t)i);
	}
	/* A plus in a path is a plus, in a query a blank. */
	get("/v1/availability/a+b", 200);
	get("/v1/availability?sku=A+B&sku=a%2Bb", 200);
	assert_string_equal(answer_string(&answer, "items.0.sku"), "A B");
	assert_string_equal(answer_string(&answer, "items.1.sku"), "a+b");
	assert_int_equal(service_see(&service, "SPELL").available, 5);
}

/* --- availability ------------------------------------------------------------------------------------------------- */

static void availability_carries_a_tag_until_it_changes(void **state)
{
	service_create_sku(&service, "TAG", 3);
	get("/v1/availability/TAG", 200);
	assert_string_equal(answer.body,
	                    "{\"sku\":\"TAG\",\"status\":\"in_stock\",\"available\":3,\"held\":0,\"tracked\":true,"
	                    "\"version\":1}\n");
	assert_string_equal(answer_header(&answer, "Cache-Control"), "no-cache");
	assert_memory_equal(answer_header(&answer, "Cache-Status"), "lastunit; ", 10);
	char tag[100], header[300];
	snprintf(tag, sizeof tag, "%s", answer_header(&answer, "ETag"));
	assert_int_equal(tag[0], '"');
	static const char *const same[] = {"%s", "W/%s", "\"x\", %s", "\"a,b\",W/\"c\" , %s, \"d\"", "*%.0s"};
	for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
		char list[200];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(list, sizeof list, same[i], tag);
#pragma GCC diagnostic pop
		snprintf(header, sizeof header, "If-None-Match: %s\r\n", list);
		call(service.key_web, "GET", "/v1/availability/TAG", header, NULL, 304);
		assert_int_equal(answer.body_size, 0);
		assert_string_equal(answer_header(&answer, "ETag"), tag);
	}
	call(service.key_web, "GET", "/v1/availability/TAG", "If-None-Match: \"x\", y\r\n", NULL, 200);
	snprintf(header, sizeof header, "If-None-Match: %s\r\n", tag);
	assert_int_equal(service_sell(&service, service.key_web, NULL, "TAG", 1), 201);
	call(service.key_web, "GET", "/v1/availability/TAG", header, NULL, 200);
	assert_int_equal(answer_int(&answer, "available"), 2);
	assert_string_not_equal(answer_header(&answer, "ETag"), tag);
	call(service.key_web, "HEAD", "/v1/availability/TAG", NULL, NULL, 200);
	assert_int_equal(answer.body_size, 0);
	call(service.key_web, "GET", "/v1/availability/NO-TAG", header, NULL, 404);
	problem("unknown_sku", "");
}

static void a_hit_says_so(void **state)
{
	service_create_sku(&service, "HIT", 1);
	/* The epoch opens when Redis has been well for a while; from then on the second look is a hit. */
	for (int i = 0; i < 20000; i++) {
		get("/v1/availability/HIT", 200);
		if (strcmp(answer_header(&answer, "Cache-Status"), "lastunit; hit") == 0)
			break;
	}
	assert_string_equal(answer_header(&answer, "Cache-Status"), "lastunit; hit");
	assert_int_equal(answer_int(&answer, "available"), 1);
	/* Of several the one that had to go furthest. */
	get("/v1/availability?sku=HIT", 200);
	assert_string_equal(answer_header(&answer, "Cache-Status"), "lastunit; hit");
	get("/v1/availability?sku=HIT&sku=NO-HIT", 200);
	assert_string_equal(answer_header(&answer, "Cache-Status"), "lastunit; fwd=miss");
	call(NULL, "GET", "/readyz", NULL, NULL, 200);
	assert_string_equal(answer_string(&answer, "status"), "ok");
	assert_string_equal(answer_string(&answer, "epoch"), "open");
	assert_int_equal(answer_int(&answer, "queue_depth"), 0);
	assert_true(json_is_true(answer_at(&answer, "redis_reachable")));
	assert_true(json_is_true(answer_at(&answer, "lease")));
}

static void many_are_answered_in_the_order_asked(void **state)
{
	service_create_sku(&service, "MANY-1", 1);
	service_create_sku(&service, "MANY-2", 0);
	put("/v1/skus/MANY-3", "{\"tracked\":false}", 201);
	static const char *const bodies[] = {NULL, "{\"skus\":[\"MANY-2\",\"NONE\",\"MANY-1\",\"MANY-2\",\"MANY-3\"]}"};
	for (int i = 0; i < 2; i++) {
		call(service.key_web, i ? "POST" : "GET",
		     i ? "/v1/availability" : "/v1/availability?sku=MANY-2&sku=NONE&sku=MANY-1&sku=MANY-2&sku=MANY-3", NULL,
		     bodies[i], 200);
		assert_int_equal(json_array_size(answer_at(&answer, "items")), 5);
		assert_string_equal(answer_string(&answer, "items.0.status"), "out_of_stock");
		assert_string_equal(answer_string(&answer, "items.1.sku"), "NONE");
		assert_string_equal(answer_string(&answer, "items.1.status"), "unknown");
		assert_null(answer_at(&answer, "items.1.available"));
		assert_int_equal(answer_int(&answer, "items.2.available"), 1);
		assert_string_equal(answer_string(&answer, "items.3.sku"), "MANY-2");
		assert_true(json_is_null(answer_at(&answer, "items.4.available")));
		assert_string_equal(answer_string(&answer, "items.4.status"), "in_stock");
		assert_string_equal(answer_header(&answer, "Cache-Control"), "no-cache");
	}
	get("/v1/availability", 422);
	problem("invalid_field", "sku");
	get("/v1/availability?sku=", 422);
	get("/v1/availability?sku=A%20", 422);
	get("/v1/availability?skus=A", 422);
	problem("invalid_field", "skus");
	call(service.key_web, "POST", "/v1/availability", NULL, "{\"skus\":[]}", 422);
	problem("invalid_field", "`skus`");
	char *body = malloc(10000), *to = body + sprintf(body, "{\"skus\":[");
	for (int i = 0; i < 500; i++)
		to += sprintf(to, "%s\"N%d\"", i ? "," : "", i);
	strcpy(to, "]}");
	call(service.key_web, "POST", "/v1/availability", NULL, body, 200);
	assert_string_equal(answer_string(&answer, "items.499.sku"), "N499");
	strcpy(to, ",\"N\"]}");
	call(service.key_web, "POST", "/v1/availability", NULL, body, 422);
	free(body);
}

/* --- adjustments and the ledger ----------------------------------------------------------------------------------- */

static void adjustments_move_the_count_and_never_below_what_is_held(void **state)
{
	service_create_sku(&service, "ADJ", 10);
	service_create_sku(&service, "ADJ-2", 0);
	char id[37];
	assert_int_equal(service_reserve(&service, service.key_web, NULL, "ADJ", 6, 60, id), 201);
	adjust("{\"reason\":\"delivery\",\"lines\":[{\"sku\":\"ADJ\",\"delta\":5},{\"sku\":\"ADJ-2\",\"delta\":7}]}", 201);
	assert_int_equal(answer_int(&answer, "lines.0.on_hand"), 15);
	assert_int_equal(answer_int(&answer, "lines.0.reserved"), 6);
	assert_int_equal(answer_int(&answer, "lines.0.available"), 9);
	assert_int_equal(answer_int(&answer, "lines.0.version"), 3);
	assert_int_equal(answer_int(&answer, "lines.1.on_hand"), 7);
	assert_int_equal(strlen(answer_string(&answer, "id")), 36);
	adjust("{\"reason\":\"count\",\"lines\":[{\"sku\":\"ADJ\",\"set\":6,\"change_from\":15}]}", 201);
	adjust("{\"reason\":\"count\",\"lines\":[{\"sku\":\"ADJ\",\"set\":8,\"change_from\":15}]}", 412);
	problem("change_from_mismatch", "on_hand is 6");
	assert_int_equal(answer_int(&answer, "lines.0.change_from"), 15);
	assert_int_equal(answer_int(&answer, "lines.0.on_hand"), 6);
	/* All or nothing: ADJ-2 does not move either. */
	adjust("{\"reason\":\"loss\",\"lines\":[{\"sku\":\"ADJ\",\"delta\":-1},{\"sku\":\"ADJ-2\",\"delta\":-1}]}", 409);
	problem("insufficient_stock", "ADJ: 1 to take away, 0 may be, 6 held");
	assert_int_equal(service_row(&service, "ADJ-2").on_hand, 7);
	adjust("{\"reason\":\"count\",\"lines\":[{\"sku\":\"ADJ\",\"set\":5,\"change_from\":null}]}", 409);
	adjust("{\"reason\":\"count\",\"lines\":[{\"sku\":\"ADJ-2\",\"set\":3,\"change_from\":null}]}", 201);
	adjust("{\"reason\":\"more\",\"lines\":[{\"sku\":\"ADJ-2\",\"delta\":1000000000000000}]}", 409);
	problem("count_out_of_range", "1000000000000000");
	adjust("{\"reason\":\"x\",\"lines\":[{\"sku\":\"NO-ADJ\",\"delta\":1}]}", 404);
	problem("unknown_sku", "NO-ADJ");
	adjust("{\"lines\":[{\"sku\":\"ADJ\",\"delta\":1}]}", 422);
	problem("invalid_field", "`reason`");
	call(service.key_admin, "POST", "/v1/adjustments", NULL,
	     "{\"reason\":\"x\",\"lines\":[{\"sku\":\"ADJ\",\"delta\":1}]}", 400);
	problem("idempotency_key_required", "Idempotency-Key");
	assert_int_equal(service_end(&service, service.key_web, id, "release"), 200);
	assert_int_equal(service_row(&service, "ADJ").reserved, 0);
}

static void the_ledger_has_every_change_in_order(void **state)
{
	service_create_sku(&service, "BOOK", 10);
	assert_int_equal(service_sell(&service, service.key_pos, NULL, "BOOK", 3), 201);
	assert_int_equal(service_adjust(&service, "BOOK", 5), 201);
	get("/v1/skus/BOOK/ledger", 200);
	assert_int_equal(json_array_size(answer_at(&answer, "items")), 3);
	assert_true(json_is_null(answer_at(&answer, "next")));
	assert_string_equal(answer_string(&answer, "items.0.kind"), "create");
	assert_int_equal(answer_int(&answer, "items.0.on_hand_after"), 10);
	assert_string_equal(answer_string(&answer, "items.1.kind"), "sale");
	assert_string_equal(answer_string(&answer, "items.1.channel"), "pos");
	assert_string_equal(answer_string(&answer, "items.1.principal"), "pos");
	assert_int_equal(answer_int(&answer, "items.1.on_hand_delta"), -3);
	assert_int_equal(answer_int(&answer, "items.1.on_hand_after"), 7);
	assert_int_equal(answer_int(&answer, "items.2.version"), 3);
	get("/v1/skus/BOOK/ledger?limit=2", 200);
	assert_string_equal(answer_string(&answer, "next"), "2");
	get("/v1/skus/BOOK/ledger?limit=3", 200); /* they fit, and there is no more */
	assert_true(json_is_null(answer_at(&answer, "next")));
	get("/v1/skus/BOOK/ledger?limit=2&after=2", 200);
	assert_int_equal(answer_int(&answer, "items.0.version"), 3);
	assert_true(json_is_null(answer_at(&answer, "next")));
	adjust("{\"reason\":\"found\",\"lines\":[{\"sku\":\"BOOK\",\"delta\":1}]}", 201);
	adjust("{\"reason\":\"found\",\"reference\":\"note-7\",\"lines\":[{\"sku\":\"BOOK\",\"delta\":1}]}", 201);
	get("/v1/skus/BOOK/ledger?after=3", 200);
	assert_string_equal(answer_string(&answer, "items.0.reference"), "found");
	assert_string_equal(answer_string(&answer, "items.1.reference"), "note-7");
	get("/v1/skus/NO-BOOK/ledger", 404);
	get("/v1/skus/BOOK/ledger?after=x", 422);
	get("/v1/skus/BOOK/ledger?after=-1", 422);
	assert_int_equal(service_ledger_count(&service, "BOOK", "sale"), 1);
}

/* --- bodies ------------------------------------------------------------------------------------------------------- */

/* B60, B62, B63, B96 */
static void bodies_that_can_be_read_two_ways_are_not_read_at_all(void **state)
{
	service_create_sku(&service, "BODY", 10);
	static const struct {
		const char *body;
		int status;
	} rows[] = {
		{"{\"lines\":[{\"sku\":\"BODY\",\"quantity\":1,\"quantity\":9}]}", 400},
		{"{\"lines\":[{\"sku\":\"BODY\\u0000X\",\"quantity\":1}]}", 400},
		{"{\"lines\":[{\"sku\":\"\\ud800\",\"quantity\":1}]}", 400},
		{"{\"lines\":[{\"sku\":\"BODY\xff\",\"quantity\":1}]}", 400},
		{"{\"lines\":[{\"sku\":\"BODY\",\"quantity\":1}]} x", 400},
		{"{\"lines\":[{\"sku\":\"BODY\",\"quantity\":9223372036854775808}]}", 400},
		{"{\"lines\":[{\"sku\":\"BODY\",\"quantity\":1}", 400},
		{"{\"lines\":[{\"sku\":\"BODY\",\"quantity\":1e", 400},
		{"-", 400},
		{"[]", 400},
		{"{\"lines\":[{\"sku\":\"BODY\",\"quantity\":1.0}]}", 422},
		{"{\"lines\":[{\"sku\":\"BODY\",\"quantity\":-5}]}", 422},
		{"{\"lines\":[]}", 422},
		{"{}", 422},
		{"{\"lines\":[{\"sku\":\"BODY\",\"quantity\":600000000},{\"sku\":\"BODY\",\"quantity\":600000000}]}", 422},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		call(service.key_web, "POST", "/v1/checkouts", "Idempotency-Key: body\r\n", rows[i].body, rows[i].status);
	call(service.key_web, "POST", "/v1/checkouts", "Idempotency-Key: body\r\n", NULL, 422);
	call(service.key_web, "POST", "/v1/checkouts", "Idempotency-Key: body\r\nContent-Type: text/plain\r\n",
	     "{\"lines\":[{\"sku\":\"BODY\",\"quantity\":1}]}", 415);
	problem("unsupported_media_type", "");
	call(service.key_web, "POST", "/v1/checkouts", "Idempotency-Key: body\r\n",
	     "{\"lines\":[{\"sku\":\"BODY\",\"quantity\":1},{\"sku\":\"BODY\",\"quantity\":0}]}", 422);
	problem("invalid_quantity", "lines[1].quantity");
	char *large = malloc(1024 * 1024 + 2);
	memset(large, ' ', 1024 * 1024 + 1);
	large[1024 * 1024 + 1] = 0;
	call(service.key_web, "POST", "/v1/checkouts", NULL, large, 413);
	free(large);
	assert_int_equal(service_row(&service, "BODY").on_hand, 10);
	assert_int_equal(service_row(&service, "BODY").version, 1);
}

/* --- the description ---------------------------------------------------------------------------------------------- */

static void expect_members_described(const json_t *schema, const char *what)
{
	const json_t *name, *required = json_object_get(schema, "required");
	const char *member;
	json_t *value;
	size_t i;
	json_object_foreach(answer_at(&answer, ""), member, value)
	{
		if (!json_object_get(json_object_get(schema, "properties"), member))
			fail_msg("%s: `%s` is not described", what, member);
	}
	json_array_foreach(required, i, name)
	{
		if (!json_object_get(answer_at(&answer, ""), json_string_value(name)))
			fail_msg("%s: `%s` is required and not there", what, json_string_value(name));
	}
}

/* The last answer is described, with its members and those of its headers that are ours. */
static void expect_described(const json_t *description, const char *method, const char *pattern)
{
	static const char *const headers[] = {"Location",     "Idempotent-Replayed", "Server-Timing",
	                                      "Cache-Status", "Retry-After",         "ETag"};
	char status[8], what[100];
	snprintf(status, sizeof status, "%d", answer.status);
	snprintf(what, sizeof what, "%s %s %s", method, pattern, status);
	const json_t *operation = json_object_get(json_object_get(json_object_get(description, "paths"), pattern), method);
	const json_t *response = json_object_get(json_object_get(operation, "responses"), status);
	if (!response)
		fail_msg("%s is not described", what);
	response = json_follow(description, response);
	for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
		if (*answer_header(&answer, headers[i]) && !json_object_get(json_object_get(response, "headers"), headers[i]))
			fail_msg("%s: the header %s is not described", what, headers[i]);
	const char *type = answer.status < 400 ? "application/json" : "application/problem+json";
	const json_t *content = json_object_get(json_object_get(response, "content"), type);
	const json_t *schema = json_follow(description, json_object_get(content, "schema"));
	if (answer.body_size)
		expect_members_described(schema, what);
}

static json_t *read_description(void)
{
	call(NULL, "GET", "/openapi.json", NULL, NULL, 200);
	assert_string_equal(answer_header(&answer, "Access-Control-Allow-Origin"), "*"); /* editors in a browser read it */
	json_t *description = json_loads(answer.body, 0, NULL);
	assert_non_null(description);
	return description;
}

static void what_is_answered_is_described(void **state)
{
	static const char line[] = "{\"lines\":[{\"sku\":\"TOLD\",\"quantity\":1}]}";
	static const char delta[] = "{\"lines\":[{\"sku\":\"TOLD\",\"delta\":1}],\"reason\":\"found\"}";
	static const struct {
		const char *method, *pattern, *path, *headers, *body;
		int status;
	} calls[] = {
		{"put", "/v1/skus/{sku}", "/v1/skus/TOLD", "Idempotency-Key: told-1\r\n", "{\"on_hand\":3}", 201},
		{"put", "/v1/skus/{sku}", "/v1/skus/TOLD", NULL, "{\"safety_stock\":1}", 200},
		{"post", "/v1/checkouts", "/v1/checkouts", "Idempotency-Key: told-2\r\n", line, 201},
		{"post", "/v1/checkouts", "/v1/checkouts", "Idempotency-Key: told-2\r\n", line, 201},
		{"post", "/v1/reservations", "/v1/reservations", "Idempotency-Key: told-3\r\n", line, 201},
		{"post", "/v1/reservations", "/v1/reservations", "Idempotency-Key: told-4\r\n", line, 409},
		{"post", "/v1/reservations", "/v1/reservations", "Idempotency-Key: told-4\r\n", line, 409},
		{"post", "/v1/adjustments", "/v1/adjustments", "Idempotency-Key: told-5\r\n", delta, 201},
		{"put", "/v1/orders/{number}", "/v1/orders/TOLD-1", NULL, "{\"version\":1,\"lines\":[]}", 200},
		{"get", "/v1/availability/{sku}", "/v1/availability/TOLD", NULL, NULL, 200},
		{"get", "/v1/availability", "/v1/availability?sku=TOLD", NULL, NULL, 200},
		{"post", "/v1/availability", "/v1/availability", NULL, "{\"skus\":[\"TOLD\"]}", 200},
		{"post", "/v1/batch", "/v1/batch", NULL,
	     "{\"operations\":[{\"operation\":\"adjustment\",\"idempotency_key\":\"told-5\",\"lines\":[{\"sku\":\"TOLD\","
	     "\"delta\":1}],\"reason\":\"found\"}]}",
	     200},
		{"post", "/v1/webhooks", "/v1/webhooks", "Idempotency-Key: told-6\r\n", "{\"url\":\"http://127.0.0.1:1/\"}",
	     201},
		{"post", "/v1/webhooks", "/v1/webhooks", "Idempotency-Key: told-6\r\n", "{\"url\":\"http://127.0.0.1:1/\"}",
	     201},
	};
	json_t *description = read_description();
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		const char *method = *calls[i].method == 'g' ? "GET" : calls[i].method[1] == 'u' ? "PUT" : "POST";
		call(service.key_admin, method, calls[i].path, calls[i].headers, calls[i].body, calls[i].status);
		expect_described(description, calls[i].method, calls[i].pattern);
	}
	char path[80];
	snprintf(path, sizeof path, "/v1/webhooks/%s", answer_string(&answer, "id"));
	assert_string_equal(answer_header(&answer, "Location"), path); /* of a replay, too */
	call(service.key_admin, "GET", path, NULL, NULL, 200);
	expect_described(description, "get", "/v1/webhooks/{id}");
	char stray[100];
	snprintf(stray, sizeof stray, "%s?x=1", path);
	call(service.key_admin, "DELETE", stray, NULL, NULL, 422);
	expect_described(description, "delete", "/v1/webhooks/{id}");
	call(service.key_admin, "DELETE", path, NULL, NULL, 204);
	json_decref(description);
}

static int start(void **state)
{
	service_start(&service, NULL);
	return 0;
}

static int stop(void **state)
{
	answer_done(&answer);
	int audited = service_audit(&service);
	int code = service_stop(&service);
	return audited || code;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(operators_pages_need_no_key),
		cmocka_unit_test(without_a_redis_it_is_ready_and_says_so),
		cmocka_unit_test(a_serve_whose_user_lacks_the_role_names_the_grant),
		cmocka_unit_test(the_index_of_routes_names_every_call),
		cmocka_unit_test(every_problem_has_a_page_and_the_index_names_them_all),
		cmocka_unit_test(a_problems_page_says_what_its_key_is_worth),
		cmocka_unit_test(every_json_answer_ends_in_a_newline),
		cmocka_unit_test(a_key_sent_twice_is_no_key),
		cmocka_unit_test(a_replayed_put_repeats_its_titles),
		cmocka_unit_test(a_key_opens_what_its_scopes_name),
		cmocka_unit_test(unknown_routes_and_methods_are_told),
		cmocka_unit_test(a_sku_is_created_once_and_changed_often),
		cmocka_unit_test(skus_come_in_pages_by_code),
		cmocka_unit_test(codes_are_bytes_with_one_spelling),
		cmocka_unit_test(availability_carries_a_tag_until_it_changes),
		cmocka_unit_test(a_hit_says_so),
		cmocka_unit_test(many_are_answered_in_the_order_asked),
		cmocka_unit_test(adjustments_move_the_count_and_never_below_what_is_held),
		cmocka_unit_test(the_ledger_has_every_change_in_order),
		cmocka_unit_test(bodies_that_can_be_read_two_ways_are_not_read_at_all),
		cmocka_unit_test(what_is_answered_is_described),
	};
	return cmocka_run_group_tests(tests, start, stop);
}
