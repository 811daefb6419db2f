/* A real server on 127.0.0.1 with a small router, and clients that behave and that do not.
 *
 * Guards against: answers out of order or lost, memory that clients can grow, connections that never end, requests that
 * two programs read differently, and a stop that cuts answers off.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <malloc.h>
#include <openssl/evp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/metrics.h"
#include "http/auth.h"
#include "http/problem.h"
#include "http/request.h"
#include "http/server.h"
#include "lib/http_client.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define BODY_MAX ((size_t)1024 * 1024)
#define WAIT_MS 20000

/* --- the application -------------------------------------------------------------------------------------------- */

/* A request that its handler keeps until the test lets it go. */
struct held {
	struct mailbox_item item;
	struct request *request;
	struct server_loop *loop;
	struct held *next;
};

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	struct held *first;
	unsigned loops_started, loops_stopped, wrong_threads;
} app = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void handle_hello(struct request *request)
{
	request_reply(request, 200, "text/plain", TEXT("hello"));
}

static void handle_echo(struct request *request)
{
	request_reply(request, 200, "application/octet-stream", request_body(request));
}

static void on_release(struct mailbox_item *item)
{
	struct held *held = (struct held *)item;
	struct text path = request_path(held->request);
	request_reply(held->request, 200, "text/plain", path);
}

static void handle_hold(struct request *request)
{
	struct held *held = ARENA_NEW(request_arena(request), struct held);
	held->item.deliver = on_release;
	held->request = request;
	held->loop = request_loop(request);
	pthread_mutex_lock(&app.mutex);
	struct held **end = &app.first;
	while (*end)
		end = &(*end)->next;
	*end = held;
	pthread_cond_broadcast(&app.cond);
	pthread_mutex_unlock(&app.mutex);
}

/* Waits until a handler holds a request. */
static struct held *take_held(void)
{
	int64_t deadline = deadline_in_ms(WAIT_MS);
	pthread_mutex_lock(&app.mutex);
	while (!app.first && clock_cond_wait(&app.cond, &app.mutex, deadline))
		;
	struct held *held = app.first;
	if (held)
		app.first = held->next;
	pthread_mutex_unlock(&app.mutex);
	assert_non_null(held);
	return held;
}

static void release(struct held *held)
{
	mailbox_post(server_loop_mailbox(held->loop), &held->item);
}

static void handle_big(struct request *request)
{
	struct text bytes = {0};
	int64_t size = 0;
	CHECK(request_query(request, "bytes", 0, &bytes));
	for (size_t i = 0; i < bytes.size; i++)
		size = size * 10 + (bytes.data[i] - '0');
	char *body = malloc((size_t)size);
	memset(body, 'b', (size_t)size);
	request_reply(request, 200, "text/plain", (struct text){body, (size_t)size});
	free(body);
}

/* How many of these were answered so far; the first stands still until the test opens the gate. */
static struct {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	bool reached, open;
	int answered;
} gate = {.mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};

static void handle_gate(struct request *request)
{
	char body[1000];
	pthread_mutex_lock(&gate.mutex);
	gate.reached = true;
	pthread_cond_broadcast(&gate.cond);
	while (!gate.open)
		pthread_cond_wait(&gate.cond, &gate.mutex);
	memset(body, 'g', sizeof body);
	snprintf(body, 12, "%-11d", gate.answered++);
	pthread_mutex_unlock(&gate.mutex);
	request_reply(request, 200, "text/plain", (struct text){body, sizeof body});
}

static void handle_params(struct request *request)
{
	struct text a = request_param(request, 0), b = request_param(request, 1);
	request_reply(request, 200, "text/plain",
	              arena_printf(request_arena(request), "<%.*s><%.*s>", (int)a.size, a.data, (int)b.size, b.data));
}

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
	enum lu_error error = request_json(request, &value, &why);
	if (!error)
		CHECK(request_json(request, &again, &why) == LU_OK && again == value);
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

static void handle_secret(struct request *request)
{
	request_reply(request, 200, "text/plain",
	              arena_printf(request_arena(request), "%d", (int)request_principal(request)->id));
}

/* With a key of the service's own, as a channel does it. */
static void handle_as(struct request *request)
{
	const char *why = "";
	enum lu_error error = auth_as(request, TEXT("lu_full"), SCOPE_STOCK, &why);
	if (error)
		problem_reply(request, error, (struct text){why, strlen(why)});
	else
		handle_secret(request);
}

static void handle_loop(struct request *request)
{
	request_reply(request, 200, "text/plain",
	              arena_printf(request_arena(request), "%p", server_loop_context(request_loop(request))));
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
	{HTTP_METHOD_GET | HTTP_METHOD_POST, "/hold", 0, handle_hold},
	{HTTP_METHOD_GET, "/hold/{id}", 0, handle_hold},
	{HTTP_METHOD_GET, "/big", 0, handle_big},
	{HTTP_METHOD_GET, "/gate", 0, handle_gate},
	{HTTP_METHOD_GET, "/params/{first}/{second}", 0, handle_params},
	{HTTP_METHOD_GET, "/query", 0, handle_query},
	{HTTP_METHOD_POST, "/json", 0, handle_json},
	{HTTP_METHOD_GET, "/fields", 0, handle_fields},
	{HTTP_METHOD_GET, "/status/{code}", 0, handle_status},
	{HTTP_METHOD_GET, "/secret", SCOPE_READ | SCOPE_STOCK, handle_secret},
	{HTTP_METHOD_GET, "/look", SCOPE_READ, handle_secret},
	{HTTP_METHOD_GET, "/as", 0, handle_as},
	{HTTP_METHOD_GET, "/loop", 0, handle_loop},
	{HTTP_METHOD_GET, "/shortage", 0, handle_shortage},
	{HTTP_METHOD_GET, "/overload", 0, handle_overload},
};

static struct {
	pthread_t thread;
} loop_places[64];

static void *on_loop_start(struct server_loop *loop, void *context)
{
	CHECK(context == &app);
	unsigned i = __atomic_fetch_add(&app.loops_started, 1, __ATOMIC_RELAXED);
	loop_places[i].thread = pthread_self();
	return &loop_places[i];
}

static void on_loop_stop(void *loop_context, void *context)
{
	if (!pthread_equal(loop_places[(size_t)((char *)loop_context - (char *)loop_places) / sizeof loop_places[0]].thread,
	                   pthread_self()))
		__atomic_fetch_add(&app.wrong_threads, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&app.loops_stopped, 1, __ATOMIC_RELAXED);
}

/* --- starting and stopping -------------------------------------------------------------------------------------- */

struct place {
	struct config config;
	struct server *server;
	struct keyring *keyring;
};

static const struct config usual = {
	.listen = "127.0.0.1:0",
	.http_loops = 2,
	.http_connections_max = 20000,
	.header_timeout_ms = 60000,
	.body_timeout_ms = 60000,
	.idle_timeout_ms = 60000,
	.request_timeout_ms = 5000,
	.drain_timeout_ms = 20000,
};

static struct server *serve(const struct config *config)
{
	const struct router router = {routes, COUNT(routes)};
	const char *why = NULL;
	app.loops_started = app.loops_stopped = app.wrong_threads = 0;
	struct server *server = server_start(config, &router, (struct server_hooks){on_loop_start, on_loop_stop, &app},
	                                     &why);
	if (!server)
		print_error("%s\n", why);
	assert_non_null(server);
	return server;
}

static void stop(struct server *server)
{
	server_stop(server);
	server_free(server);
}

static void await_connections(int64_t count)
{
	int64_t deadline = deadline_in_ms(WAIT_MS);
	while (metric_get(METRIC_HTTP_CONNECTIONS) != count && clock_boottime_ns() < deadline)
		clock_sleep_until(deadline_in_ms(1));
	assert_int_equal(metric_get(METRIC_HTTP_CONNECTIONS), count);
}

static int setup(void **state)
{
	static struct keyring_entry entries[2] = {
		{.principal = {.id = 7, .channel = CHANNEL_WEB, .scopes = SCOPE_READ | SCOPE_STOCK}},
		{.principal = {.id = 8, .channel = CHANNEL_WEB, .scopes = SCOPE_READ | SCOPE_SELL}},
	};
	EVP_Digest("lu_full", 7, entries[0].sha256, NULL, EVP_sha256(), NULL);
	EVP_Digest("lu_less", 7, entries[1].sha256, NULL, EVP_sha256(), NULL);
	struct place *place = calloc(1, sizeof *place);
	place->keyring = keyring_new();
	keyring_replace(place->keyring, entries, 2);
	auth_use(place->keyring);
	place->config = usual;
	place->server = serve(&place->config);
	*state = place;
	return 0;
}

static int teardown(void **state)
{
	struct place *place = *state;
	if (place->server)
		stop(place->server);
	keyring_free(place->keyring);
	free(place);
	return metric_get(METRIC_HTTP_CONNECTIONS) == 0 ? 0 : -1;
}

static struct http_client client_of(void **state)
{
	return http_client(server_address(((struct place *)*state)->server), NULL);
}

/* A server of its own beside the usual one. */
static struct server *serve_with(int64_t header_ms, int64_t body_ms, int64_t idle_ms)
{
	struct config config = usual;
	config.header_timeout_ms = header_ms;
	config.body_timeout_ms = body_ms;
	config.idle_timeout_ms = idle_ms;
	return serve(&config);
}

static void assert_call(struct http_client *client, const char *method, const char *path, const char *fields,
                        const char *body, int status, struct http_answer *answer)
{
	if (!http_client_call(client, method, path, fields, body, answer))
		fail_msg("%s %s: %s", method, path, client->error);
	if (answer->status != status)
		fail_msg("%s %s: %d, not %d: %s", method, path, answer->status, status, answer->body);
}

static void assert_problem(const struct http_answer *answer, int status, const char *code)
{
	if (answer->status != status)
		fail_msg("%d, not %d: %s", answer->status, status, answer->body);
	assert_string_equal(http_answer_field(answer, "Content-Type"), "application/problem+json");
	json_t *body = json_loadb(answer->body, answer->body_size, 0, NULL);
	assert_non_null(body);
	assert_string_equal(json_string_value(json_object_get(body, "code")), code);
	assert_int_equal(json_integer_value(json_object_get(body, "status")), status);
	assert_true(json_string_length(json_object_get(body, "title")) > 0);
	assert_true(json_string_length(json_object_get(body, "detail")) > 0);
	char type[100];
	snprintf(type, sizeof type, "/problems/%s", code);
	assert_string_equal(json_string_value(json_object_get(body, "type")), type);
	json_decref(body);
}

static void assert_read(struct http_client *client, struct http_answer *answer)
{
	if (!http_client_read(client, false, answer))
		fail_msg("%s", client->error);
}

/* --- plain service ---------------------------------------------------------------------------------------------- */

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

/* --- keys ------------------------------------------------------------------------------------------------------- */

static void a_route_with_scopes_wants_a_key_that_has_them_all(void **state)
{
	struct http_client client = client_of(state);
	struct http_answer answer = {0};
	assert_call(&client, "GET", "/secret", NULL, NULL, 401, &answer);
	assert_problem(&answer, 401, "unauthorized");
	assert_string_equal(http_answer_field(&answer, "WWW-Authenticate"), "Bearer");
	static const char *const bad[] = {"Authorization: Bearer lu_wrong\r\n", "Authorization: Basic lu_full\r\n",
	                                  "Authorization: Bearer\r\n", "Authorization: lu_full\r\n"};
	for (size_t i = 0; i < COUNT(bad); i++) {
		assert_call(&client, "GET", "/secret", bad[i], NULL, 401, &answer);
		assert_problem(&answer, 401, "unauthorized");
	}
	/* two programs could each believe another of them */
	assert_call(&client, "GET", "/secret", "Authorization: Bearer lu_full\r\nauthorization: Bearer lu_full\r\n", NULL,
	            400, &answer);
	assert_problem(&answer, 400, "malformed_request");
	client.key = "lu_less";
	assert_call(&client, "GET", "/secret", NULL, NULL, 403, &answer);
	assert_problem(&answer, 403, "forbidden");
	assert_non_null(strstr(answer.body, "`stock`"));
	client.key = "lu_full";
	assert_call(&client, "GET", "/secret", NULL, NULL, 200, &answer);
	assert_string_equal(answer.body, "7");
	client.key = NULL;
	assert_call(&client, "GET", "/secret", "Authorization: bEARER   lu_full\r\n", NULL, 200, &answer);
	assert_call(&client, "GET", "/secret", NULL, NULL, 401, &answer);
	http_answer_done(&answer);
	http_client_done(&client);
}

static void a_revoked_key_is_forgotten_by_connections_that_used_it(void **state)
{
	struct place *place = *state;
	struct http_client client = client_of(state);
	struct http_answer answer = {0};
	client.key = "lu_full";
	for (int i = 0; i < 3; i++)
		assert_call(&client, "GET", "/secret", NULL, NULL, 200, &answer);
	struct keyring_entry entry = {.principal = {.id = 9, .scopes = SCOPE_READ | SCOPE_STOCK}};
	EVP_Digest("lu_full", 7, entry.sha256, NULL, EVP_sha256(), NULL);
	keyring_replace(place->keyring, &entry, 1);
	assert_call(&client, "GET", "/secret", NULL, NULL, 200, &answer);
	assert_string_equal(answer.body, "9");
	keyring_replace(place->keyring, NULL, 0);
	assert_call(&client, "GET", "/secret", NULL, NULL, 401, &answer);
	http_answer_done(&answer);
	http_client_done(&client);
}

/* Read just now and good for an hour; or read an hour ago and stale. */
static void keys_are_fresh(struct place *place)
{
	keyring_extend(place->keyring, clock_boottime_ns(), deadline_in_ms(3600000));
}

static void keys_are_stale(struct place *place)
{
	int64_t now_ns = clock_boottime_ns();
	keyring_extend(place->keyring, now_ns - 3600 * NS_PER_S, now_ns);
}

static void a_keyring_that_is_not_fresh_opens_only_what_is_read(void **state)
{
	struct place *place = *state;
	struct http_client client = client_of(state);
	struct http_answer answer = {0};
	client.key = "lu_full";
	keys_are_fresh(place);
	assert_call(&client, "GET", "/secret", NULL, NULL, 200, &answer);
	assert_call(&client, "GET", "/as", NULL, NULL, 200, &answer);
	/* the connection remembers its key, and that does not help it */
	keys_are_stale(place);
	assert_call(&client, "GET", "/as", NULL, NULL, 503, &answer);
	assert_problem(&answer, 503, "database_unavailable");
	assert_call(&client, "GET", "/secret", NULL, NULL, 503, &answer);
	assert_problem(&answer, 503, "database_unavailable");
	assert_string_equal(http_answer_field(&answer, "Retry-After"), "1");
	assert_call(&client, "GET", "/look", NULL, NULL, 200, &answer);
	client.key = "lu_wrong";
	assert_call(&client, "GET", "/look", NULL, NULL, 401, &answer);
	/* it may have been made since: that it is not known means nothing */
	assert_call(&client, "GET", "/secret", NULL, NULL, 503, &answer);
	client.key = NULL;
	assert_call(&client, "GET", "/secret", NULL, NULL, 401, &answer);
	client.key = "lu_full";
	keys_are_fresh(place);
	assert_call(&client, "GET", "/secret", NULL, NULL, 200, &answer);
	http_answer_done(&answer);
	http_client_done(&client);
}

struct key_reading {
	struct place *place;
	int64_t parked;
	bool late; /* it took longer than the keys may be believed */
};

/* The database answers as soon as a request waits for it. */
static void *read_keys(void *context)
{
	struct key_reading *reading = context;
	while (metric_get(METRIC_HTTP_PARKED) == reading->parked)
		usleep(1000);
	int64_t now_ns = clock_boottime_ns();
	keyring_extend(reading->place->keyring, now_ns, reading->late ? now_ns : now_ns + 3600 * NS_PER_S);
	return NULL;
}

/* A reading of the keys that is late, as everything may be on a busy machine, costs its time and no refusal. */
static void a_request_waits_for_the_keys_to_be_read(void **state)
{
	struct place *place = *state;
	struct http_client client = client_of(state);
	struct http_answer answer = {0};
	client.key = "lu_full";
	for (int late = 0; late < 2; late++) {
		struct key_reading reading = {place, metric_get(METRIC_HTTP_PARKED), late};
		pthread_t thread;
		keys_are_stale(place);
		assert_int_equal(pthread_create(&thread, NULL, read_keys, &reading), 0);
		assert_call(&client, "GET", "/secret", NULL, NULL, 200, &answer);
		assert_string_equal(answer.body, "7");
		pthread_join(thread, NULL);
		assert_int_equal(metric_get(METRIC_HTTP_PARKED), reading.parked + 1);
	}
	keys_are_fresh(place);
	http_answer_done(&answer);
	http_client_done(&client);
}

static void a_client_may_leave_while_he_waits_for_the_keys(void **state)
{
	struct place *place = *state;
	struct http_client client = client_of(state);
	struct http_answer answer = {0};
	int64_t parked = metric_get(METRIC_HTTP_PARKED);
	keys_are_stale(place);
	assert_true(http_client_open(&client));
	assert_true(
		http_client_send_text(&client, "GET /secret HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer lu_full\r\n\r\n"));
	while (metric_get(METRIC_HTTP_PARKED) == parked)
		usleep(1000);
	http_client_done(&client);
	keys_are_fresh(place);
	client = client_of(state);
	client.key = "lu_full";
	assert_call(&client, "GET", "/secret", NULL, NULL, 200, &answer);
	http_answer_done(&answer);
	http_client_done(&client);
}

/* --- pipelining ------------------------------------------------------------------------------------------------- */

static void pipelined_answers_keep_their_order(void **state)
{
	struct http_client client = client_of(state);
	struct http_answer answer = {0};
	assert_true(http_client_send_text(&client,
	                                  "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"
	                                  "GET /hold/1 HTTP/1.1\r\nHost: a\r\n\r\n"
	                                  "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"
	                                  "GET /hold/2 HTTP/1.1\r\nHost: a\r\n\r\n"
	                                  "GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n"));
	assert_read(&client, &answer);
	assert_string_equal(answer.body, "hello");
	struct held *first = take_held();
	assert_null(app.first); /* one request of a connection runs at a time */
	release(first);
	assert_read(&client, &answer);
	assert_string_equal(answer.body, "/hold/1");
	assert_read(&client, &answer);
	assert_string_equal(answer.body, "hello");
	release(take_held());
	assert_read(&client, &answer);
	assert_string_equal(answer.body, "/hold/2");
	assert_read(&client, &answer);
	assert_int_equal(answer.status, 404);
	http_answer_done(&answer);
	http_client_done(&client);
}

static void a_long_pipeline_is_answered_whole(void **state)
{
	enum { REQUESTS = 20000 };
	static const char request[] = "GET /params/aaaaaaaaaa/bbbbbbbbbb HTTP/1.1\r\nHost: a\r\n\r\n";
	struct http_client client = client_of(state);
	struct http_answer answer = {0};
	char *bytes = malloc((sizeof request - 1) * REQUESTS);
	for (size_t i = 0; i < REQUESTS; i++)
		memcpy(bytes + i * (sizeof request - 1), request, sizeof request - 1);
	/* A thousand ahead of the answers: more than fits into any one buffer of the server. */
	size_t sent = 0;
	for (size_t i = 0; i < REQUESTS; i++) {
		if (sent < REQUESTS && sent - i < 500) {
			assert_true(http_client_send(&client, bytes + sent * (sizeof request - 1), (sizeof request - 1) * 500));
			sent += 500;
		}
		assert_read(&client, &answer);
		assert_string_equal(answer.body, "<aaaaaaaaaa><bbbbbbbbbb>");
	}
	free(bytes);
	http_answer_done(&answer);
	http_client_done(&client);
}

static void a_client_that_pipelines_a_lot_lets_others_in_between(void **state)
{
	enum { REQUESTS = 300 };
	struct config config = usual;
	config.http_loops = 1;
	struct server *server = serve(&config);
	struct http_client greedy = http_client(server_address(server), NULL), other = greedy;
	struct http_answer answer = {0};
	char bytes[REQUESTS * 40], *to = bytes;
	for (int i = 0; i < REQUESTS; i++)
		to = stpcpy(to, "GET /gate HTTP/1.1\r\nHost: a\r\n\r\n");
	assert_call(&other, "GET", "/hello", NULL, NULL, 200, &answer);
	assert_true(http_client_send(&greedy, bytes, (size_t)(to - bytes)));
	pthread_mutex_lock(&gate.mutex);
	while (!gate.reached)
		pthread_cond_wait(&gate.cond, &gate.mutex);
	pthread_mutex_unlock(&gate.mutex);
	/* The loop stands in the first of them; when it goes on, the other one's request lies in its socket. */
	assert_true(http_client_send_text(&other, "GET /gate HTTP/1.1\r\nHost: a\r\n\r\n"));
	pthread_mutex_lock(&gate.mutex);
	gate.open = true;
	pthread_cond_broadcast(&gate.cond);
	pthread_mutex_unlock(&gate.mutex);
	assert_read(&other, &answer);
	assert_in_range(atoi(answer.body), 1, 100);
	for (int i = 0; i < REQUESTS; i++)
		assert_read(&greedy, &answer);
	http_answer_done(&answer);
	http_client_done(&other);
	http_client_done(&greedy);
	stop(server);
}

static void a_client_that_pipelines_without_end_is_no_longer_read(void **state)
{
	struct http_client client = client_of(state);
	struct http_answer answer = {0};
	assert_true(http_client_send_text(&client, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n"));
	struct held *held = take_held();
	size_t before = mallinfo2().uordblks;
	/* More than all socket buffers hold: the server takes its bounded share, then the sender must stand still. */
	char *flood = malloc(1 << 20);
	memset(flood, 'x', 1 << 20);
	client.timeout_ms = 500;
	bool stood_still = false;
	for (int i = 0; i < 64 && !stood_still; i++)
		stood_still = !http_client_send(&client, flood, 1 << 20);
	assert_true(stood_still);
	assert_string_equal(client.error, "timed out");
	free(flood);
	assert_true(mallinfo2().uordblks < before + 256 * 1024);
	release(held);
	http_client_done(&client);
	await_connections(0);
	http_answer_done(&answer);
}

/* --- refusals --------------------------------------------------------------------------------------------------- */

static void what_cannot_be_read_is_answered_and_closed(void **state)
{
	static const struct {
		const char *request;
		int status;
		const char *code;
	} cases[] = {
		{"GET / HTTP/1.1\nHost: a\n\n", 400, "malformed_request"},
		{"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400, "malformed_request"},
		{"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n", 400, "malformed_request"},
		{"GET / HTTP/1.1\r\n\r\n", 400, "malformed_request"},
		{"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "malformed_request"},
		{"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400,
	     "malformed_request"},
		{"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400,
	     "malformed_request"},
		{"POST /echo HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "malformed_request"},
		{"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabXX0\r\n\r\n", 400,
	     "malformed_request"},
		{"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\nab\r\n0\r\n\r\n", 400,
	     "malformed_request"},
		{"\x16\x03\x01\x02", 400, "malformed_request"},
		{"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 400, "malformed_request"},
		{"\r\n\r\nGET /hello HTTP/1.1\r\nHost: a\r\n\r\n", 400, "malformed_request"},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "malformed_request"},
		{"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505, "version_not_supported"},
		{"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: more\r\n\r\n", 417, "expectation_failed"},
		{"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577\r\n\r\n", 413, "payload_too_large"},
		{"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", 413, "payload_too_large"},
		{"POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1048577\r\n\r\n", 413,
	     "payload_too_large"},
		{"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n100001\r\n", 413, "payload_too_large"},
	};
	struct http_answer answer = {0};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct http_client client = client_of(state);
		int64_t rejected = metric_get(METRIC_HTTP_REJECTED);
		/* A good request right behind must not be run: nobody knows where the bad one ends. */
		assert_true(http_client_send_text(&client, cases[i].request));
		if (!http_client_read(&client, false, &answer))
			fail_msg("%s: %s", client.error, cases[i].request);
		assert_problem(&answer, cases[i].status, cases[i].code);
		assert_true(answer.close);
		assert_int_equal(answer.continues, 0);
		assert_true(http_client_send_text(&client, "\r\n\r\nGET /hello HTTP/1.1\r\nHost: a\r\n\r\n"));
		assert_true(http_client_sees_close(&client));
		assert_int_equal(metric_get(METRIC_HTTP_REJECTED), rejected + 1);
		http_client_done(&client);
	}
	http_answer_done(&answer);
}

static void one_empty_line_before_a_request_is_forgiven(void **state)
{
	struct http_client client = client_of(state);
	struct http_answer answer = {0};
	assert_true(http_client_send_text(&client, "\r\nGET /hello HTTP/1.1\r\nHost: a\r\n\r\n\r"));
	assert_read(&client, &answer);
	assert_int_equal(answer.status, 200);
	assert_true(http_client_send_text(&client, "\n"));
	assert_true(http_client_send_text(&client, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"));
	assert_read(&client, &answer);
	assert_int_equal(answer.status, 200);
	http_answer_done(&answer);
	http_client_done(&client);
}

static void a_client_that_sends_too_much_still_gets_its_answer(void **state)
{
	enum { BYTES = 8 << 20 };
	static const char *const heads[] = {
		"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 8388608\r\n\r\n",
		"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n800000\r\n",
	};
	struct http_answer answer = {0};
	char *body = malloc(BYTES);
	memset(body, 'x', BYTES);
	for (size_t i = 0; i < COUNT(heads); i++) {
		struct http_client client = client_of(state);
		/* All of it is sent before the answer is looked at; a reset on the way would eat the answer. */
		assert_true(http_client_send_text(&client, heads[i]));
		assert_true(http_client_send(&client, body, BYTES));
		assert_read(&client, &answer);
		assert_problem(&answer, 413, "payload_too_large");
		assert_true(http_client_sees_close(&client));
		http_client_done(&client);
	}
	free(body);
	http_answer_done(&answer);
}

static void long_targets_and_headers_are_told_apart(void **state)
{
	enum { BYTES = 100000 };
	char *request = malloc(BYTES + 100);
	struct http_answer answer = {0};
	for (int i = 0; i < 2; i++) {
		struct http_client client = client_of(state);
		snprintf(request, BYTES + 100,
		         i == 0 ? "GET /%0*d HTTP/1.1\r\nHost: a\r\n\r\n" : "GET / HTTP/1.1\r\nHost: a\r\nX: %0*d\r\n\r\n",
		         BYTES, 0);
		assert_true(http_client_send_text(&client, request));
		assert_read(&client, &answer);
		assert_problem(&answer, i == 0 ? 414 : 431, i == 0 ? "uri_too_long" : "headers_too_large");
		assert_true(http_client_sees_close(&client));
		http_client_done(&client);
	}
	free(request);
	http_answer_done(&answer);
}

static void an_expected_body_is_asked_for_once(void **state)
{
	struct http_client client = client_of(state);
	struct http_answer answer = {0};
	char some[200];
	size_t size;
	assert_true(http_client_send_text(&client,
	                                  "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
	                                  "Content-Length: 5\r\n\r\n"));
	assert_true(http_client_read_some(&client, some, sizeof some, &size));
	assert_string_equal(some, "HTTP/1.1 100 Continue\r\n\r\n");
	assert_true(http_client_send_text(&client, "he"));
	assert_true(http_client_send_text(&client, "llo"));
	assert_read(&client, &answer);
	assert_int_equal(answer.continues, 0);
	assert_string_equal(answer.body, "hello");
	/* a body that is there already, or none at all, is not asked for */
	assert_true(http_client_send_text(&client,
	                                  "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
	                                  "Content-Length: 5\r\n\r\nhello"));
	assert_read(&client, &answer);
	assert_int_equal(answer.continues, 0);
	assert_true(http_client_send_text(&client, "GET /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n"));
	assert_read(&client, &answer);
	assert_int_equal(answer.continues, 0);
	assert_int_equal(answer.status, 200);
	assert_false(answer.close);
	http_answer_done(&answer);
	http_client_done(&client);
}

/* --- time ------------------------------------------------------------------------------------------------------- */

static bool readable(const struct http_client *client, int wait_ms)
{
	struct pollfd wait = {.fd = client->fd, .events = POLLIN};
	return poll(&wait, 1, wait_ms) > 0;
}

/* Sends `byte` every 10 ms until the server says something; a server that lets bytes move its deadline never does. */
static void dribble(struct http_client *client, const char *byte)
{
	int64_t deadline = deadline_in_ms(WAIT_MS);
	while (!readable(client, 10) && clock_boottime_ns() < deadline)
		assert_true(http_client_send(client, byte, 1));
}

static void dribbled_requests_end_by_their_deadline(void **state)
{
	static const char *const starts[] = {
		"G",
		"GET / HTTP/1.1\r\nX: ",
		"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n",
		"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n10000\r\n",
	};
	struct server *server = serve_with(200, 400, 60000);
	struct http_answer answer = {0};
	for (size_t i = 0; i < COUNT(starts); i++) {
		struct http_client client = http_client(server_address(server), NULL);
		assert_true(http_client_send_text(&client, starts[i]));
		dribble(&client, "x");
		assert_read(&client, &answer);
		assert_problem(&answer, 408, "request_timeout");
		assert_true(http_client_sees_close(&client));
		http_client_done(&client);
	}
	http_answer_done(&answer);
	stop(server);
}

/* A handler may take longer than a client may be silent. */
static void silence_begins_with_the_last_answer(void **state)
{
	enum { IDLE_MS = 2000 };
	struct server *server = serve_with(60000, 60000, IDLE_MS);
	struct http_client client = http_client(server_address(server), NULL);
	struct http_answer answer = {0};
	assert_true(http_client_open(&client));
	assert_true(http_client_send_text(&client, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n"));
	struct held *held = take_held();
	clock_sleep_until(deadline_in_ms(IDLE_MS + 100));
	release(held);
	assert_read(&client, &answer);
	clock_sleep_until(deadline_in_ms(200)); /* some ticks */
	assert_true(http_client_send_text(&client, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"));
	assert_read(&client, &answer);
	assert_string_equal(answer.body, "hello");
	http_answer_done(&answer);
	http_client_done(&client);
	stop(server);
}

static void a_silent_connection_is_closed_without_a_word(void **state)
{
	struct server *server = serve_with(60000, 60000, 200);
	struct http_client fresh = http_client(server_address(server), NULL), used = fresh;
	struct http_answer answer = {0};
	assert_true(http_client_open(&fresh));
	assert_call(&used, "GET", "/hello", NULL, NULL, 200, &answer);
	assert_true(http_client_sees_close(&fresh));
	assert_true(http_client_sees_close(&used));
	http_answer_done(&answer);
	http_client_done(&fresh);
	http_client_done(&used);
	stop(server);
}

static void a_client_that_does_not_read_is_closed(void **state)
{
	struct server *server = serve_with(60000, 300, 60000);
	struct http_client client = http_client(server_address(server), NULL);
	assert_true(http_client_send_text(&client, "GET /big?bytes=50000000 HTTP/1.1\r\nHost: a\r\n\r\n"));
	await_connections(1);
	await_connections(0);
	http_client_done(&client);
	stop(server);
}

enum { BIG_BYTES = 50000000 };

/* Reads `at_once` every so often, behind no more than the clock: the bytes it got before the end. */
static size_t read_slowly(int64_t body_ms, size_t at_once, int64_t each_ms)
{
	struct server *server = serve_with(60000, body_ms, 60000);
	struct http_client client = http_client(server_address(server), NULL);
	char *bytes = malloc(at_once + 1);
	size_t size = 0, n;
	assert_true(
		http_client_send_text(&client, "GET /big?bytes=50000000 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
	for (int64_t next_ns = deadline_in_ms(each_ms); http_client_read_some(&client, bytes, at_once + 1, &n);) {
		size += n;
		if (size % at_once >= n)
			continue;
		clock_sleep_until(next_ns);
		next_ns += each_ms * NS_PER_MS;
	}
	free(bytes);
	http_client_done(&client);
	stop(server);
	return size;
}

/* In twice the time that one who takes nothing is given, and then some: only who stands still for most of three seconds, be
 * it for want of a processor, would be cut here. */
static void a_client_that_reads_steadily_is_served_for_as_long_as_it_takes(void **state)
{
	assert_true(read_slowly(3000, BIG_BYTES / 60, 110) > BIG_BYTES);
}

/* It takes something before every deadline, but it would sit here until tomorrow. */
static void a_client_that_trickles_is_closed(void **state)
{
	assert_true(read_slowly(300, 4096, 5) < BIG_BYTES);
}

static void a_large_answer_reaches_a_client_that_reads(void **state)
{
	struct http_client client = client_of(state);
	struct http_answer answer = {0};
	assert_true(http_client_send_text(&client,
	                                  "GET /big?bytes=20000000 HTTP/1.1\r\nHost: a\r\n\r\n"
	                                  "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"
	                                  "GET /big?bytes=3000000 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
	assert_read(&client, &answer);
	assert_int_equal(answer.body_size, 20000000);
	assert_read(&client, &answer);
	assert_string_equal(answer.body, "hello");
	assert_read(&client, &answer);
	assert_int_equal(answer.body_size, 3000000);
	assert_true(http_client_sees_close(&client));
	http_answer_done(&answer);
	http_client_done(&client);
}

/* --- leaving ---------------------------------------------------------------------------------------------------- */

static void an_early_leaver_is_dropped_and_its_request_runs_on(void **state)
{
	struct http_client client = client_of(state);
	for (int i = 0; i < 50; i++) {
		assert_true(http_client_send_text(&client, "POST /hold HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"));
		struct held *held = take_held();
		http_client_reset(&client);
		await_connections(0); /* seen at once, while the request still runs */
		release(held);
	}
	struct http_answer answer = {0};
	assert_call(&client, "GET", "/hello", NULL, NULL, 200, &answer);
	http_answer_done(&answer);
	http_client_done(&client);
}

static void leavers_at_any_byte_leave_nothing_behind(void **state)
{
	static const char request[] = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n\r\n{\"some\": \"body\"}";
	struct http_client client = client_of(state);
	for (size_t size = 0; size < sizeof request; size++) {
		assert_true(http_client_open(&client));
		assert_true(http_client_send(&client, request, size));
		if (size % 2)
			http_client_reset(&client);
		else
			http_client_close(&client);
	}
	/* all of them were accepted, and all are gone */
	struct http_answer answer = {0};
	assert_call(&client, "GET", "/hello", NULL, NULL, 200, &answer);
	await_connections(1);
	http_answer_done(&answer);
	http_client_done(&client);
	await_connections(0);
}

static void a_client_that_half_closes_gets_all_its_answers(void **state)
{
	struct http_client client = client_of(state);
	struct http_answer answer = {0};
	assert_true(http_client_send_text(&client,
	                                  "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n"
	                                  "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"));
	http_client_half_close(&client);
	release(take_held());
	assert_read(&client, &answer);
	assert_string_equal(answer.body, "/hold");
	assert_read(&client, &answer);
	assert_string_equal(answer.body, "hello");
	assert_true(http_client_sees_close(&client));
	http_answer_done(&answer);
	http_client_done(&client);
}

/* --- loops and limits ------------------------------------------------------------------------------------------- */

static void connections_are_spread_evenly_over_the_loops(void **state)
{
	enum { LOOPS = 4, CLIENTS = 32 };
	struct config config = usual;
	config.http_loops = LOOPS;
	struct server *server = serve(&config);
	struct http_client clients[CLIENTS];
	struct http_answer answer = {0};
	char names[LOOPS][32] = {{0}};
	int counts[LOOPS] = {0};
	for (size_t i = 0; i < CLIENTS; i++) {
		clients[i] = http_client(server_address(server), NULL);
		assert_call(&clients[i], "GET", "/loop", NULL, NULL, 200, &answer);
		size_t at = 0;
		while (at < LOOPS && names[at][0] && strcmp(names[at], answer.body) != 0)
			at++;
		assert_true(at < LOOPS);
		snprintf(names[at], sizeof names[at], "%s", answer.body);
		counts[at]++;
	}
	for (size_t i = 0; i < LOOPS; i++)
		assert_int_equal(counts[i], CLIENTS / LOOPS);
	for (size_t i = 0; i < CLIENTS; i++)
		http_client_done(&clients[i]);
	http_answer_done(&answer);
	assert_int_equal(app.loops_started, LOOPS);
	stop(server);
	assert_int_equal(app.loops_stopped, LOOPS);
	assert_int_equal(app.wrong_threads, 0);
}

static void connections_beyond_the_limit_are_told_so(void **state)
{
	enum { MAX = 16 };
	struct config config = usual;
	config.http_connections_max = MAX;
	struct server *server = serve(&config);
	struct http_client clients[MAX], late = http_client(server_address(server), NULL);
	struct http_answer answer = {0};
	for (size_t i = 0; i < MAX; i++) {
		clients[i] = late;
		assert_call(&clients[i], "GET", "/hello", NULL, NULL, 200, &answer);
	}
	assert_true(http_client_send_text(&late, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"));
	assert_read(&late, &answer);
	assert_problem(&answer, 503, "overloaded");
	assert_string_equal(http_answer_field(&answer, "Retry-After"), "1");
	assert_true(answer.close);
	assert_true(http_client_sees_close(&late));
	for (size_t i = 0; i < MAX; i++)
		assert_call(&clients[i], "GET", "/hello", NULL, NULL, 200, &answer);
	http_client_done(&clients[0]);
	await_connections(MAX - 1);
	assert_call(&late, "GET", "/hello", NULL, NULL, 200, &answer);
	for (size_t i = 1; i < MAX; i++)
		http_client_done(&clients[i]);
	http_client_done(&late);
	http_answer_done(&answer);
	stop(server);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

static void an_idle_connection_costs_little_memory(void **state)
{
#ifdef SANITIZED
	skip(); /* mallinfo2 sees nothing there */
#endif
	enum { CLIENTS = 2000, BYTES_EACH_MAX = 4 * 1024 };
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < CLIENTS * 2 + 100)
		skip(); /* the server raised it as far as it goes */
	struct http_client *clients = calloc(CLIENTS, sizeof *clients);
	struct http_answer answer = {0};
	for (int i = 0; i < CLIENTS; i++)
		clients[i] = client_of(state);
	size_t before = mallinfo2().uordblks;
	/* All of them at work at once, with bodies, so that every one had buffers and arenas to give back. */
	for (int i = 0; i < CLIENTS; i++)
		assert_true(
			http_client_send_text(&clients[i], "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9000\r\n\r\n"));
	char body[9001];
	memset(body, 'x', sizeof body);
	for (int i = 0; i < CLIENTS; i++)
		assert_true(http_client_send(&clients[i], body, 9000));
	for (int i = 0; i < CLIENTS; i++) {
		assert_read(&clients[i], &answer);
		free(clients[i].input);
		clients[i].input = NULL;
		clients[i].input_room = 0;
	}
	await_connections(CLIENTS);
	size_t each = (mallinfo2().uordblks - before) / CLIENTS;
	if (each > BYTES_EACH_MAX)
		fail_msg("%zu bytes each", each);
	print_message("           an idle connection holds %zu bytes of the heap\n", each);
	for (int i = 0; i < CLIENTS; i++)
		http_client_done(&clients[i]);
	free(clients);
	http_answer_done(&answer);
	await_connections(0);
}

static void addresses_that_cannot_be_served_are_explained(void **state)
{
	static const char *const bad[] = {"",    "8080",   "127.0.0.1", "127.0.0.1:", "127.0.0.1:x",  "127.0.0.1:70000",
	                                  ":80", "::1:80", "[::1]",     "[]:80",      "300.0.0.1:80", "192.0.2.1:80"};
	struct place *place = *state;
	const struct router router = {routes, COUNT(routes)};
	struct config config = usual;
	for (size_t i = 0; i < COUNT(bad); i++) {
		const char *why = NULL;
		config.listen = bad[i];
		assert_null(server_start(&config, &router, (struct server_hooks){0}, &why));
		assert_non_null(why);
	}
	const char *why = NULL;
	config.listen = server_address(place->server);
	assert_null(server_start(&config, &router, (struct server_hooks){0}, &why));
	assert_non_null(strstr(why, "in use"));
}

/* The soft limit is often 1024, whatever number of connections is configured. */
static void as_many_descriptors_as_connections_are_asked_for(void **state)
{
	struct rlimit before, low, raised;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	low = (struct rlimit){.rlim_cur = 300, .rlim_max = before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	struct config config = usual;
	config.http_connections_max = 400;
	struct server *server = serve(&config);
	getrlimit(RLIMIT_NOFILE, &raised);
	setrlimit(RLIMIT_NOFILE, &before);
	stop(server);
	assert_true(raised.rlim_cur >= 400);
}

static void an_ipv6_address_is_served_too(void **state)
{
	int probe = socket(AF_INET6, SOCK_STREAM, 0);
	struct config config = usual;
	config.listen = "[::1]:0";
	const struct router router = {routes, COUNT(routes)};
	const char *why = NULL;
	struct server *server = probe < 0 ? NULL : server_start(&config, &router, (struct server_hooks){0}, &why);
	if (probe >= 0)
		close(probe);
	if (!server)
		skip(); /* a machine without IPv6 */
	assert_int_equal(strncmp(server_address(server), "[::1]:", 6), 0);
	struct http_client client = http_client(server_address(server), NULL);
	struct http_answer answer = {0};
	assert_call(&client, "GET", "/hello", NULL, NULL, 200, &answer);
	http_answer_done(&answer);
	http_client_done(&client);
	stop(server);
}

/* --- stopping --------------------------------------------------------------------------------------------------- */

static void *stop_in_thread(void *server)
{
	server_stop(server);
	return NULL;
}

static void a_stop_lets_running_requests_end(void **state)
{
	struct place *place = *state;
	struct http_client idle = client_of(state), busy = idle, halfway = idle, next = idle;
	struct http_answer answer = {0};
	assert_call(&idle, "GET", "/hello", NULL, NULL, 200, &answer);
	assert_true(http_client_send_text(&halfway,
	                                  "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
	                                  "Content-Length: 2\r\n\r\n"));
	char some[100];
	size_t size;
	assert_true(http_client_read_some(&halfway, some, sizeof some, &size));
	assert_true(http_client_send_text(&busy,
	                                  "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n"
	                                  "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"));
	struct held *held = take_held();
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, stop_in_thread, place->server), 0);
	assert_true(http_client_sees_close(&idle)); /* so the stop has begun, and that loop is draining */
	assert_false(http_client_open(&next));
	await_connections(2);
	assert_true(http_client_send_text(&halfway, "ab"));
	assert_read(&halfway, &answer);
	assert_string_equal(answer.body, "ab");
	assert_true(answer.close);
	release(held);
	assert_read(&busy, &answer);
	assert_string_equal(answer.body, "/hold");
	pthread_join(thread, NULL);
	assert_int_equal(metric_get(METRIC_HTTP_CONNECTIONS), 0);
	assert_int_equal(app.loops_stopped, 2);
	server_free(place->server);
	place->server = NULL;
	http_answer_done(&answer);
	http_client_done(&idle);
	http_client_done(&busy);
	http_client_done(&halfway);
	http_client_done(&next);
}

static void a_stop_waits_no_longer_than_its_limit_for_clients(void **state)
{
	struct config config = usual;
	config.drain_timeout_ms = 300;
	struct server *server = serve(&config);
	struct http_client half = http_client(server_address(server), NULL), running = half;
	assert_true(http_client_send_text(&half, "GET /hello HT"));
	assert_true(http_client_send_text(&running, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n"));
	struct held *held = take_held();
	await_connections(2);
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, stop_in_thread, server), 0);
	assert_true(http_client_sees_close(&half));
	assert_true(http_client_sees_close(&running));
	/* its client is gone, but the request still has the loop to come back to */
	release(held);
	pthread_join(thread, NULL);
	server_free(server);
	http_client_done(&half);
	http_client_done(&running);
}

struct caller {
	const char *address;
	bool stopping;
	int answered;
	char error[300];
};

/* Calls until the server is gone. Every answer must be whole; a request may only be refused by a closed connection. */
static void *call_until_stopped(void *context)
{
	struct caller *caller = context;
	struct http_client client = http_client(caller->address, NULL);
	struct http_answer answer = {0};
	while (http_client_call(&client, "GET", "/params/x/y", NULL, NULL, &answer) && answer.status == 200)
		__atomic_fetch_add(&caller->answered, 1, __ATOMIC_RELAXED);
	snprintf(caller->error, sizeof caller->error, "%s", client.error);
	http_answer_done(&answer);
	http_client_done(&client);
	return NULL;
}

static void a_stop_under_load_cuts_no_answer(void **state)
{
	enum { CALLERS = 8 };
	struct place *place = *state;
	struct caller callers[CALLERS] = {{0}};
	pthread_t threads[CALLERS];
	for (int i = 0; i < CALLERS; i++) {
		callers[i].address = server_address(place->server);
		assert_int_equal(pthread_create(&threads[i], NULL, call_until_stopped, &callers[i]), 0);
	}
	for (int i = 0; i < CALLERS; i++) {
		int64_t deadline = deadline_in_ms(WAIT_MS);
		while (__atomic_load_n(&callers[i].answered, __ATOMIC_RELAXED) < 20 && clock_boottime_ns() < deadline)
			clock_sleep_until(deadline_in_ms(1));
	}
	server_stop(place->server);
	for (int i = 0; i < CALLERS; i++) {
		pthread_join(threads[i], NULL);
		if (strstr(callers[i].error, "within"))
			fail_msg("%s", callers[i].error);
		assert_true(callers[i].answered >= 20);
	}
	server_free(place->server);
	place->server = NULL;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	clock_cond_init(&app.cond);
	const struct CMUnitTest tests[] = {
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
		TEST(a_route_with_scopes_wants_a_key_that_has_them_all),
		TEST(a_revoked_key_is_forgotten_by_connections_that_used_it),
		TEST(a_keyring_that_is_not_fresh_opens_only_what_is_read),
		TEST(a_request_waits_for_the_keys_to_be_read),
		TEST(a_client_may_leave_while_he_waits_for_the_keys),
		TEST(pipelined_answers_keep_their_order),
		TEST(a_long_pipeline_is_answered_whole),
		TEST(a_client_that_pipelines_a_lot_lets_others_in_between),
		TEST(a_client_that_pipelines_without_end_is_no_longer_read),
		TEST(what_cannot_be_read_is_answered_and_closed),
		TEST(one_empty_line_before_a_request_is_forgiven),
		TEST(a_client_that_sends_too_much_still_gets_its_answer),
		TEST(long_targets_and_headers_are_told_apart),
		TEST(an_expected_body_is_asked_for_once),
		TEST(dribbled_requests_end_by_their_deadline),
		TEST(silence_begins_with_the_last_answer),
		TEST(a_silent_connection_is_closed_without_a_word),
		TEST(a_client_that_does_not_read_is_closed),
		TEST(a_client_that_reads_steadily_is_served_for_as_long_as_it_takes),
		TEST(a_client_that_trickles_is_closed),
		TEST(a_large_answer_reaches_a_client_that_reads),
		TEST(an_early_leaver_is_dropped_and_its_request_runs_on),
		TEST(leavers_at_any_byte_leave_nothing_behind),
		TEST(a_client_that_half_closes_gets_all_its_answers),
		TEST(connections_are_spread_evenly_over_the_loops),
		TEST(connections_beyond_the_limit_are_told_so),
		TEST(an_idle_connection_costs_little_memory),
		TEST(addresses_that_cannot_be_served_are_explained),
		TEST(as_many_descriptors_as_connections_are_asked_for),
		TEST(an_ipv6_address_is_served_too),
		TEST(a_stop_lets_running_requests_end),
		TEST(a_stop_waits_no_longer_than_its_limit_for_clients),
		TEST(a_stop_under_load_cuts_no_answer),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
