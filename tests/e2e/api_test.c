/* The API against the real service: pages, keys, routes, bodies that are not read, the description. SKUs and their figures:
 * api_stock_test.c. Selling and holding: api_sales_test.c. */
#include "e2e/api_fixture.h"

#include "lastunit/error.h"
#include "lib/command.h"
#include "lib/follow.h"
#include "lib/pg_server.h"

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

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(operators_pages_need_no_key),
	cmocka_unit_test(without_a_redis_it_is_ready_and_says_so),
	cmocka_unit_test(a_serve_whose_user_lacks_the_role_names_the_grant),
	cmocka_unit_test(the_index_of_routes_names_every_call),
	cmocka_unit_test(every_problem_has_a_page_and_the_index_names_them_all),
	cmocka_unit_test(a_problems_page_says_what_its_key_is_worth),
	cmocka_unit_test(every_json_answer_ends_in_a_newline),
	cmocka_unit_test(a_key_sent_twice_is_no_key),
	cmocka_unit_test(a_key_opens_what_its_scopes_name),
	cmocka_unit_test(unknown_routes_and_methods_are_told),
	cmocka_unit_test(bodies_that_can_be_read_two_ways_are_not_read_at_all),
	cmocka_unit_test(what_is_answered_is_described),
};

API_MAIN(tests)
