/* Limits: deadlines of clients that dribble, are silent or do not read; those who leave; connections, memory, descriptors.
 *
 * Guards against: connections that never end, memory that clients can grow.
 */
#include "unit/server_fixture.h"

#include <malloc.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

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

static void handle_loop(struct request *request)
{
	request_reply(request, 200, "text/plain",
	              arena_printf(request_arena(request), "%p", server_loop_context(request_loop(request))));
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

static const struct route routes[] = {
	{HTTP_METHOD_GET, "/hello", 0, handle_hello},
	{HTTP_METHOD_GET | HTTP_METHOD_POST | HTTP_METHOD_PUT, "/echo", 0, handle_echo},
	{HTTP_METHOD_GET | HTTP_METHOD_POST, "/hold", 0, handle_hold},
	{HTTP_METHOD_GET, "/big", 0, handle_big},
	{HTTP_METHOD_GET, "/loop", 0, handle_loop},
};
static const struct router router = {routes, COUNT(routes)};

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

/* Reads `at_once` every so often, behind no more than the clock: the bytes it got before the end. *ret_longest_ns: between
 * two reads. */
static size_t read_slowly(int64_t body_ms, size_t at_once, int64_t each_ms, int64_t *ret_longest_ns)
{
	struct server *server = serve_with(60000, body_ms, 60000);
	struct http_client client = http_client(server_address(server), NULL);
	char *bytes = malloc(at_once + 1);
	size_t size = 0, n;
	assert_true(
		http_client_send_text(&client, "GET /big?bytes=50000000 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
	int64_t read_ns = clock_boottime_ns();
	*ret_longest_ns = 0;
	for (int64_t next_ns = deadline_in_ms(each_ms);;) {
		bool more = http_client_read_some(&client, bytes, at_once + 1, &n);
		int64_t last_ns = read_ns;
		read_ns = clock_boottime_ns();
		if (read_ns - last_ns > *ret_longest_ns)
			*ret_longest_ns = read_ns - last_ns;
		if (!more)
			break;
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

/* In twice the time that one who takes nothing is given, and then some: only who stands still for most of three seconds
 * would be cut here. A machine that does so proves nothing. */
static void a_client_that_reads_steadily_is_served_for_as_long_as_it_takes(void **state)
{
	int64_t longest_ns;
	for (int i = 0; i < 5 && read_slowly(3000, BIG_BYTES / 60, 110, &longest_ns) <= BIG_BYTES; i++)
		if (longest_ns < 1000 * NS_PER_MS)
			fail_msg("cut off, having read every %lld ms", (long long)(longest_ns / NS_PER_MS));
}

/* It takes something before every deadline, but it would sit here until tomorrow. */
static void a_client_that_trickles_is_closed(void **state)
{
	int64_t longest_ns;
	assert_true(read_slowly(300, 4096, 5, &longest_ns) < BIG_BYTES);
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

static const struct CMUnitTest tests[] = {
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
};

SERVER_MAIN(tests)
