/* A real server on 127.0.0.1 with a small router, and clients that behave: routes, fields, parameters, bodies, problems.
 * Those that do not: server_framing_test.c, server_limits_test.c. Keys: server_keys_test.c. Its end: server_stop_test.c. */
#include "unit/server_fixture.h"

#define BODY_MAX ((size_t)1024 * 1024)

static void handle_query(struct request *request)
{
	static const char *const known[] = {"sku", "other", NULL};
	struct text unknown = request_query_check(request, known), value, again;
	struct buffer body = {0};
	if (unknown.size)
		buffer_add_format(&body, "unknown:%.*s ", (int)unknown.size, unknown.data);
	for (size_t n = 0; request_query(request, "sku", n, &value); n++) {
		buffer_add_format(&body, "[%.*s]", (int)value.size, value.data);
		/* asked again, and out of order now and then: the server's cursor must not matter */
		if (!request_query(request, "sku", n, &again) || again.data != value.data)
			buffer_add_string(&body, "other");
		if (n == 2 && !request_query(request, "sku", 0, &again))
			buffer_add_string(&body, "lost");
	}
	request_reply(request, 200, "text/plain", buffer_text(&body));
	buffer_done(&body);
}

static void handle_json(struct request *request)
{
	json_t *value = NULL, *again = NULL;
	const char *why = "";
	enum lu_error error = request_json(request, REQUEST_VALUES_MAX, &value, &why);
	if (!error)
		CHECK(request_json(request, REQUEST_VALUES_MAX, &again, &why) == LU_OK && again == value);
	if (error)
		problem_reply(request, error, (struct text){why, strlen(why)});
	else
		request_reply(request, 200, "text/plain", json_is_object(value) ? TEXT("object") : TEXT("other"));
}

static void handle_fields(struct request *request)
{
	struct text value = TEXT("absent");
	request_header(request, "x-test", &value);
	request_add_header(request, "X-Good", value);
	request_add_header(request, "X-Bad", TEXT("a\r\nX-Evil: yes"));
	request_add_header(request, "Cache-Control", TEXT("max-age=1"));
	request_reply(request, 200, "text/plain", value);
}

static void handle_status(struct request *request)
{
	struct text code = request_param(request, 0);
	request_reply(request, atoi(code.data), "text/plain", TEXT("body"));
}

static void handle_shortage(struct request *request)
{
	struct buffer body = {0};
	struct json_writer w = json_writer(&body);
	problem_open(&w, LU_INSUFFICIENT_STOCK, (struct text){0});
	json_key(&w, "lines");
	json_array_open(&w);
	json_array_close(&w);
	problem_send(request, LU_INSUFFICIENT_STOCK, &w);
	buffer_done(&body);
}

static void handle_overload(struct request *request)
{
	problem_reply(request, LU_OVERLOADED, (struct text){0});
}

static const struct route routes[] = {
	{HTTP_METHOD_GET, "/hello", 0, handle_hello},
	{HTTP_METHOD_GET | HTTP_METHOD_POST | HTTP_METHOD_PUT, "/echo", 0, handle_echo},
	{HTTP_METHOD_GET, "/params/{first}/{second}", 0, handle_params},
	{HTTP_METHOD_GET, "/query", 0, handle_query},
	{HTTP_METHOD_POST, "/json", 0, handle_json},
	{HTTP_METHOD_GET, "/fields", 0, handle_fields},
	{HTTP_METHOD_GET, "/status/{code}", 0, handle_status},
	{HTTP_METHOD_GET, "/shortage", 0, handle_shortage},
	{HTTP_METHOD_GET, "/overload", 0, handle_overload},
};
static const struct router router = {routes, COUNT(routes)};

static void a_request_is_answered_and_the_connection_kept(void **state)
{
	struct http_client client = client_of(state);
	struct http_answer answer = {0};
	assert_call(&client, "GET", "/hello", NULL, NULL, 200, &answer);
	assert_string_equal(answer.body, "hello");
	assert_string_equal(http_answer_field(&answer, "Content-Length"), "5");
	assert_string_equal(http_answer_field(&answer, "Content-Type"), "text/plain");
	assert_null(http_answer_field(&answer, "Connection"));
	assert_int_equal(strlen(http_answer_field(&answer, "Date")), strlen("Sun, 29 Nov 2026 13:45:00 GMT"));
	int fd = client.fd;
	for (int i = 0; i < 1000; i++)
		assert_call(&client, "GET", "/hello", NULL, NULL, 200, &answer);
	assert_int_equal(client.fd, fd);
	assert_int_equal(metric_get(METRIC_HTTP_CONNECTIONS), 1);
	http_answer_done(&answer);
	http_client_done(&client);
	await_connections(0);
}

static void the_date_goes_on(void **state)
{
	struct http_client client = client_of(state);
	struct http_answer answer = {0};
	char first[40];
	int64_t deadline = deadline_in_ms(WAIT_MS);
	assert_call(&client, "GET", "/hello", NULL, NULL, 200, &answer);
	snprintf(first, sizeof first, "%s", http_answer_field(&answer, "Date"));
	do
		assert_call(&client, "GET", "/hello", NULL, NULL, 200, &answer);
	while (strcmp(http_answer_field(&answer, "Date"), first) == 0 && clock_boottime_ns() < deadline);
	assert_string_not_equal(http_answer_field(&answer, "Date"), first);
	http_answer_done(&answer);
	http_client_done(&client);
}

static void bodies_of_every_size_arrive_whole(void **state)
{
	static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 16383, 16384, 16385, 20480, 65536, BODY_MAX - 1, BODY_MAX};
	struct http_client client = client_of(state);
	struct http_answer answer = {0};
	char *body = malloc(BODY_MAX + 1);
	for (size_t i = 0; i < COUNT(sizes); i++) {
		for (size_t j = 0; j < sizes[i]; j++)
			body[j] = (char)('a' + (j * 31 + j / 977) % 26);
		body[sizes[i]] = '\0';
		assert_call(&client, "POST", "/echo", NULL, body, 200, &answer);
		assert_int_equal(answer.body_size, sizes[i]);
		assert_memory_equal(answer.body, body, sizes[i] + 1);
	}
	free(body);
	http_answer_done(&answer);
	http_client_done(&client);
}

static void a_request_may_come_byte_by_byte(void **state)
{
	static const char request[] =
		"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
		"PUT /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n1\r\nd\r\n0\r\nT: u\r\n\r\n";
	struct http_client client = client_of(state);
	struct http_answer answer = {0};
	for (size_t i = 0; i < sizeof request - 1; i++)
		assert_true(http_client_send(&client, request + i, 1));
	assert_read(&client, &answer);
	assert_string_equal(answer.body, "hello");
	assert_read(&client, &answer);
	assert_string_equal(answer.body, "abcd");
	http_answer_done(&answer);
	http_client_done(&client);
}

static void head_and_bodiless_statuses_send_no_body(void **state)
{
	struct http_client client = client_of(state);
	struct http_answer answer = {0};
	assert_call(&client, "HEAD", "/hello", NULL, NULL, 200, &answer);
	assert_string_equal(http_answer_field(&answer, "Content-Length"), "5");
	assert_call(&client, "GET", "/status/304", NULL, NULL, 304, &answer);
	assert_null(http_answer_field(&answer, "Content-Length"));
	assert_call(&client, "GET", "/status/204", NULL, NULL, 204, &answer);
	assert_null(http_answer_field(&answer, "Content-Length"));
	assert_call(&client, "GET", "/status/299", NULL, NULL, 299, &answer);
	assert_string_equal(answer.body, "body");
	http_answer_done(&answer);
	http_client_done(&client);
}

static void http_1_0_closes_unless_asked_to_stay(void **state)
{
	struct http_client client = client_of(state);
	struct http_answer answer = {0};
	assert_true(http_client_send_text(&client, "GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
	assert_read(&client, &answer);
	assert_string_equal(http_answer_field(&answer, "Connection"), "keep-alive");
	assert_true(http_client_send_text(&client, "GET /hello HTTP/1.0\r\n\r\n"));
	assert_read(&client, &answer);
	assert_string_equal(answer.body, "hello");
	assert_true(answer.close);
	assert_true(http_client_sees_close(&client));
	assert_call(&client, "GET", "/hello", "Connection: close\r\n", NULL, 200, &answer);
	assert_true(answer.close);
	http_answer_done(&answer);
	http_client_done(&client);
}

static void fields_are_found_in_any_case_joined_and_kept_clean(void **state)
{
	struct http_client client = client_of(state);
	struct http_answer answer = {0};
	assert_call(&client, "GET", "/fields", NULL, NULL, 200, &answer);
	assert_string_equal(answer.body, "absent");
	assert_call(&client, "GET", "/fields", "X-TEST:  one \r\nOther: x\r\nx-tEst: two\r\n", NULL, 200, &answer);
	assert_string_equal(answer.body, "one, two");
	assert_string_equal(http_answer_field(&answer, "X-Good"), "one, two");
	/* a value with a line end would write fields of its own */
	assert_null(http_answer_field(&answer, "X-Bad"));
	assert_null(http_answer_field(&answer, "X-Evil"));
	http_answer_done(&answer);
	http_client_done(&client);
}

static void parameters_are_decoded_once_and_bad_ones_never_reach_the_handler(void **state)
{
	struct http_client client = client_of(state);
	struct http_answer answer = {0};
	assert_call(&client, "GET", "/params/a%2Fb+c/%2525", NULL, NULL, 200, &answer);
	assert_string_equal(answer.body, "<a/b+c><%25>");
	static const char *const bad[] = {"/params/a/%00",  "/params/%/b",  "/params/a/%ff",
	                                  "/query?sku=%00", "/query?%zz=1", "/query?other=%c3%28"};
	for (size_t i = 0; i < COUNT(bad); i++) {
		assert_call(&client, "GET", bad[i], NULL, NULL, 400, &answer);
		assert_problem(&answer, 400, "malformed_request");
		assert_false(answer.close);
	}
	http_answer_done(&answer);
	http_client_done(&client);
}

static void query_values_are_found_by_name_and_number(void **state)
{
	struct http_client client = client_of(state);
	struct http_answer answer = {0};
	assert_call(&client, "GET", "/query?sku=A&other=x&sku=B+b&sku=&sku=D", NULL, NULL, 200, &answer);
	assert_string_equal(answer.body, "[A][B b][][D]");
	assert_call(&client, "GET", "/query", NULL, NULL, 200, &answer);
	assert_string_equal(answer.body, "");
	assert_call(&client, "GET", "/query?sku=A&Sku=B", NULL, NULL, 200, &answer);
	assert_string_equal(answer.body, "unknown:Sku [A]");
	assert_call(&client, "GET", "/query?sku=A&=5", NULL, NULL, 200, &answer);
	assert_string_equal(answer.body, "unknown:= [A]");
	http_answer_done(&answer);
	http_client_done(&client);
}

static void json_is_asked_for_by_its_type_and_read_whole(void **state)
{
	struct http_client client = client_of(state);
	struct http_answer answer = {0};
	assert_call(&client, "POST", "/json", NULL, "{\"a\": 1}", 200, &answer);
	assert_string_equal(answer.body, "object");
	assert_call(&client, "POST", "/json", "Content-Type: Application/JSON; charset=utf-8\r\n", "[1]", 200, &answer);
	assert_call(&client, "POST", "/json", "Content-Type: application/json ;charset=utf-8\r\n", "[1]", 200, &answer);
	static const char *const types[] = {"Content-Type: text/plain\r\n", "Content-Type: application/jsonx\r\n",
	                                    "Content-Type:\r\n"};
	for (size_t i = 0; i < COUNT(types); i++) {
		assert_call(&client, "POST", "/json", types[i], "{}", 415, &answer);
		assert_problem(&answer, 415, "unsupported_media_type");
	}
	static const char *const packed[] = {"Content-Encoding: gzip\r\n", "Content-Encoding: identity, gzip\r\n",
	                                     "content-encoding: identity\r\nContent-Encoding: br\r\n"};
	for (size_t i = 0; i < COUNT(packed); i++) {
		assert_call(&client, "POST", "/json", packed[i], "{}", 415, &answer);
		assert_problem(&answer, 415, "unsupported_media_type");
		assert_non_null(strstr(answer.body, "Content-Encoding"));
		assert_string_equal(http_answer_field(&answer, "Accept-Encoding"), "identity");
		assert_call(&client, "POST", "/echo", packed[i], "a=b", 415, &answer);
	}
	assert_call(&client, "POST", "/json", "Content-Encoding: Identity\r\n", "{}", 200, &answer);
	assert_call(&client, "GET", "/hello", "Content-Encoding: gzip\r\n", NULL, 200, &answer);
	static const char *const bodies[] =
		{"", "-", "1e", "\"abc", "{\"quantity\":1", "{} {}", "{}x", "{\"a\":1,\"a\":2}"};
	for (size_t i = 0; i < COUNT(bodies); i++) {
		assert_call(&client, "POST", "/json", NULL, bodies[i], 400, &answer);
		assert_problem(&answer, 400, "malformed_request");
	}
	http_answer_done(&answer);
	http_client_done(&client);
}

static void problems_carry_what_their_status_asks_for(void **state)
{
	struct http_client client = client_of(state);
	struct http_answer answer = {0};
	int64_t of_clients = metric_get(METRIC_HTTP_ERRORS_4XX), of_ours = metric_get(METRIC_HTTP_ERRORS_5XX);
	assert_call(&client, "GET", "/shortage", NULL, NULL, 409, &answer);
	assert_problem(&answer, 409, "insufficient_stock");
	assert_int_equal(metric_get(METRIC_HTTP_ERRORS_4XX), of_clients + 1);
	assert_int_equal(metric_get(METRIC_HTTP_ERRORS_5XX), of_ours);
	assert_non_null(strstr(answer.body, "\"lines\":[]"));
	assert_null(http_answer_field(&answer, "Retry-After"));
	assert_call(&client, "GET", "/overload", NULL, NULL, 503, &answer);
	assert_problem(&answer, 503, "overloaded");
	assert_int_equal(metric_get(METRIC_HTTP_ERRORS_4XX), of_clients + 1);
	assert_int_equal(metric_get(METRIC_HTTP_ERRORS_5XX), of_ours + 1);
	assert_string_equal(http_answer_field(&answer, "Retry-After"), "1");
	http_answer_done(&answer);
	http_client_done(&client);
}

static void other_paths_and_methods_are_told_so(void **state)
{
	struct http_client client = client_of(state);
	struct http_answer answer = {0};
	assert_call(&client, "GET", "/nowhere", NULL, NULL, 404, &answer);
	assert_problem(&answer, 404, "not_found");
	assert_call(&client, "DELETE", "/echo", NULL, NULL, 405, &answer);
	assert_problem(&answer, 405, "method_not_allowed");
	assert_non_null(strstr(answer.body, "GET, HEAD, POST, PUT, OPTIONS"));
	assert_string_equal(http_answer_field(&answer, "Allow"), "GET, HEAD, POST, PUT, OPTIONS");
	assert_call(&client, "OPTIONS", "/echo", NULL, NULL, 204, &answer);
	assert_string_equal(http_answer_field(&answer, "Allow"), "GET, HEAD, POST, PUT, OPTIONS");
	assert_false(answer.close);
	assert_call(&client, "BREW", "/echo", NULL, "coffee", 405, &answer);
	assert_true(answer.close);
	assert_call(&client, "PATCH", "/nowhere", NULL, NULL, 404, &answer);
	assert_true(answer.close);
	http_answer_done(&answer);
	http_client_done(&client);
}

/* A 404 may be kept by a cache in between if nobody says otherwise, and then a new SKU is unknown for a while. */
static void what_says_nothing_of_caches_is_kept_by_none(void **state)
{
	struct http_client client = client_of(state);
	struct http_answer answer = {0};
	assert_call(&client, "GET", "/nowhere", NULL, NULL, 404, &answer);
	assert_string_equal(http_answer_field(&answer, "Cache-Control"), "no-store");
	assert_call(&client, "HEAD", "/hello", NULL, NULL, 200, &answer);
	assert_string_equal(http_answer_field(&answer, "Cache-Control"), "no-store");
	assert_call(&client, "GET", "/fields", NULL, NULL, 200, &answer);
	assert_string_equal(http_answer_field(&answer, "Cache-Control"), "max-age=1");
	assert_call(&client, "PUT", "/echo", NULL, "x", 200, &answer);
	assert_null(http_answer_field(&answer, "Cache-Control"));
	http_answer_done(&answer);
	http_client_done(&client);
}

static const struct CMUnitTest tests[] = {
	TEST(a_request_is_answered_and_the_connection_kept),
	TEST(the_date_goes_on),
	TEST(bodies_of_every_size_arrive_whole),
	TEST(a_request_may_come_byte_by_byte),
	TEST(head_and_bodiless_statuses_send_no_body),
	TEST(http_1_0_closes_unless_asked_to_stay),
	TEST(fields_are_found_in_any_case_joined_and_kept_clean),
	TEST(parameters_are_decoded_once_and_bad_ones_never_reach_the_handler),
	TEST(query_values_are_found_by_name_and_number),
	TEST(json_is_asked_for_by_its_type_and_read_whole),
	TEST(problems_carry_what_their_status_asks_for),
	TEST(other_paths_and_methods_are_told_so),
	TEST(what_says_nothing_of_caches_is_kept_by_none),
};

SERVER_MAIN(tests)
