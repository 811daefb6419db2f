/* Where a request ends and the next one begins: pipelines, what cannot be read, bodies that are too large or asked for.
 *
 * Guards against: answers out of order or lost, memory that clients can grow, requests that two programs read differently.
 */
#include "unit/server_fixture.h"

#include <malloc.h>

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

static const struct route routes[] = {
	{HTTP_METHOD_GET, "/hello", 0, handle_hello},
	{HTTP_METHOD_GET | HTTP_METHOD_POST | HTTP_METHOD_PUT, "/echo", 0, handle_echo},
	{HTTP_METHOD_GET | HTTP_METHOD_POST, "/hold", 0, handle_hold},
	{HTTP_METHOD_GET, "/hold/{id}", 0, handle_hold},
	{HTTP_METHOD_GET, "/gate", 0, handle_gate},
	{HTTP_METHOD_GET, "/params/{first}/{second}", 0, handle_params},
};
static const struct router router = {routes, COUNT(routes)};

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

static const struct CMUnitTest tests[] = {
	TEST(pipelined_answers_keep_their_order),
	TEST(a_long_pipeline_is_answered_whole),
	TEST(a_client_that_pipelines_a_lot_lets_others_in_between),
	TEST(a_client_that_pipelines_without_end_is_no_longer_read),
	TEST(what_cannot_be_read_is_answered_and_closed),
	TEST(one_empty_line_before_a_request_is_forgiven),
	TEST(a_client_that_sends_too_much_still_gets_its_answer),
	TEST(long_targets_and_headers_are_told_apart),
	TEST(an_expected_body_is_asked_for_once),
};

SERVER_MAIN(tests)
