/* A server that is stopped: what runs is answered, nobody else is let in, and no client keeps it longer than its limit. */
#include "unit/server_fixture.h"

static const struct route routes[] = {
	{HTTP_METHOD_GET, "/hello", 0, handle_hello},
	{HTTP_METHOD_GET | HTTP_METHOD_POST | HTTP_METHOD_PUT, "/echo", 0, handle_echo},
	{HTTP_METHOD_GET | HTTP_METHOD_POST, "/hold", 0, handle_hold},
	{HTTP_METHOD_GET, "/params/{first}/{second}", 0, handle_params},
};
static const struct router router = {routes, COUNT(routes)};

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

static const struct CMUnitTest tests[] = {
	TEST(a_stop_lets_running_requests_end),
	TEST(a_stop_waits_no_longer_than_its_limit_for_clients),
	TEST(a_stop_under_load_cuts_no_answer),
};

SERVER_MAIN(tests)
