/* Answers that go on, on a real server: what goes out, who ends it, and that nobody's memory grows.
 *
 * One loop, one stream at a time. The test tells the stream what to do by posts to its loop, and waits for each to be
 * done, so every step is seen before the next. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "http/request.h"
#include "http/sse.h"
#include "lib/http_client.h"

#define WAIT_MS 20000

/* --- the application -------------------------------------------------------------------------------------------- */

/* The one stream there is. Its loop's thread writes; the test reads when it was told that something is done. */
static struct {
	struct mailbox_item item;
	struct server_loop *loop;
	struct request *request;
	struct text bytes;
	bool opened, taken;
	sem_t held;     /* a request waits to be opened */
	sem_t done;     /* an order was carried out */
	sem_t writable; /* on_writable came */
	sem_t ended;    /* on_end came */
} app;

static void on_writable(struct request *request)
{
	CHECK(request == app.request);
	sem_post(&app.writable);
}

static void on_end(struct request *request)
{
	CHECK(request == app.request);
	app.request = NULL;
	sem_post(&app.ended);
}

static const struct stream_hooks hooks = {on_writable, on_end};

static void handle_stream(struct request *request)
{
	app.request = request;
	app.loop = request_loop(request);
	app.opened = request_stream(request, "text/event-stream", &hooks);
	if (app.opened)
		CHECK(request_stream_send(request, TEXT("first\n")));
	sem_post(&app.held);
}

static void handle_later(struct request *request)
{
	app.request = request;
	app.loop = request_loop(request);
	sem_post(&app.held);
}

static void handle_refused(struct request *request)
{
	sse_refuse(request, 5000);
}

static const struct route routes[] = {
	{HTTP_METHOD_GET, "/stream", 0, handle_stream},
	{HTTP_METHOD_GET, "/later", 0, handle_later},
	{HTTP_METHOD_GET, "/refused", 0, handle_refused},
};

static void do_open(struct mailbox_item *item)
{
	app.opened = request_stream(app.request, "text/event-stream", &hooks);
	sem_post(&app.done);
}

static void do_send(struct mailbox_item *item)
{
	app.taken = request_stream_send(app.request, app.bytes);
	sem_post(&app.done);
}

static void do_end(struct mailbox_item *item)
{
	request_stream_end(app.request);
	sem_post(&app.done);
}

/* --- the test's side ---------------------------------------------------------------------------------------------- */

static bool comes(sem_t *sem)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += WAIT_MS / 1000;
	return sem_timedwait(sem, &until) == 0;
}

static void order(void (*what)(struct mailbox_item *item))
{
	app.item.deliver = what;
	mailbox_post(server_loop_mailbox(app.loop), &app.item);
	assert_true(comes(&app.done));
}

static bool send_bytes(const char *bytes, size_t size)
{
	app.bytes = (struct text){bytes, size};
	order(do_send);
	return app.taken;
}

static struct config config;
static struct server *server;
static struct http_client client;

static int setup(void **state)
{
	const struct router router = {routes, sizeof routes / sizeof *routes};
	const char *why;
	signal(SIGPIPE, SIG_IGN);
	memset(&app, 0, sizeof app);
	sem_init(&app.held, 0, 0);
	sem_init(&app.done, 0, 0);
	sem_init(&app.writable, 0, 0);
	sem_init(&app.ended, 0, 0);
	config = (struct config){.listen = "127.0.0.1:0",
	                         .http_loops = 1,
	                         .http_connections_max = 100,
	                         .header_timeout_ms = 60000,
	                         .body_timeout_ms = *state ? *(int64_t *)*state : 60000,
	                         .idle_timeout_ms = 60000,
	                         .request_timeout_ms = 500,
	                         .drain_timeout_ms = 60000};
	server = server_start(&config, &router, (struct server_hooks){0}, &why);
	client = http_client(server_address(server), NULL);
	return server ? 0 : -1;
}

static void stop(void)
{
	server_stop(server);
	server_free(server);
	server = NULL;
}

static int teardown(void **state)
{
	http_client_done(&client);
	if (server)
		stop();
	return 0;
}

static void ask_for(const char *line)
{
	char request[200];
	snprintf(request, sizeof request, "%s HTTP/1.1\r\nHost: x\r\n\r\n", line);
	assert_true(http_client_open(&client));
	assert_true(http_client_send_text(&client, request));
}

/* What comes, until it ends in `end`; NUL behind. */
static const char *read_until(const char *end)
{
	static char seen[100000];
	size_t size = 0, n;
	*seen = 0;
	while (size < strlen(end) || strcmp(seen + size - strlen(end), end) != 0) {
		assert_true(http_client_read_some(&client, seen + size, sizeof seen - size, &n));
		size += n;
	}
	return seen;
}

static void open_stream(void)
{
	ask_for("GET /stream");
	assert_true(comes(&app.held));
	assert_true(app.opened);
	read_until("first\n");
}

/* --- sentences ---------------------------------------------------------------------------------------------------- */

static void what_is_sent_goes_out_at_once_and_ends_in_order(void **state)
{
	ask_for("GET /stream");
	const char *head = read_until("first\n");
	assert_non_null(strstr(head, "HTTP/1.1 200 OK\r\n"));
	assert_non_null(strstr(head, "Content-Type: text/event-stream\r\n"));
	assert_non_null(strstr(head, "Connection: close\r\n"));
	assert_null(strstr(head, "Content-Length"));
	assert_null(strstr(head, "Transfer-Encoding"));
	assert_true(comes(&app.held));
	assert_true(send_bytes("second\n", 7));
	assert_string_equal(read_until("second\n"), "second\n");
	order(do_end);
	assert_true(http_client_sees_close(&client));
	assert_int_equal(sem_trywait(&app.ended), -1); /* its handler knows */
}

static void a_stream_outlives_its_request_deadline(void **state)
{
	open_stream();
	clock_sleep_until(deadline_in_ms(3 * config.request_timeout_ms));
	assert_true(send_bytes("still here\n", 11));
	read_until("still here\n");
}

static void a_stream_may_be_opened_later(void **state)
{
	ask_for("GET /later");
	assert_true(comes(&app.held));
	order(do_open);
	assert_true(app.opened);
	read_until("\r\n\r\n");
	assert_true(send_bytes("a\n", 2));
	read_until("a\n");
}

static void who_left_before_it_was_opened_is_told_of_at_once(void **state)
{
	ask_for("GET /later");
	assert_true(comes(&app.held));
	http_client_reset(&client);
	/* A second client's answer shows that the loop has seen the first one leave. */
	struct http_client other = http_client(server_address(server), NULL);
	struct http_answer answer = {0};
	assert_true(http_client_call(&other, "GET", "/refused", NULL, NULL, &answer));
	order(do_open);
	assert_false(app.opened);
	assert_true(comes(&app.ended));
	http_answer_done(&answer);
	http_client_done(&other);
}

static void who_leaves_ends_it(void **state)
{
	open_stream();
	http_client_close(&client);
	assert_true(comes(&app.ended));
}

static void what_the_client_says_meanwhile_is_dropped(void **state)
{
	static char noise[100000];
	memset(noise, 'n', sizeof noise);
	ask_for("GET /stream");
	assert_true(http_client_send_text(&client, "GET /refused HTTP/1.1\r\nHost: x\r\n\r\n"));
	assert_true(comes(&app.held));
	read_until("first\n");
	assert_true(http_client_send(&client, noise, sizeof noise));
	assert_true(send_bytes("second\n", 7));
	assert_string_equal(read_until("second\n"), "second\n");
	/* And that it leaves is still seen, behind all of it. */
	http_client_close(&client);
	assert_true(comes(&app.ended));
}

static void who_talks_without_end_instead_of_listening_is_closed(void **state)
{
	static char noise[100000];
	memset(noise, 'n', sizeof noise);
	open_stream();
	/* What is refused in the end is beyond the limit and what the sockets hold. */
	for (int i = 0; i < 1000 && http_client_send(&client, noise, sizeof noise); i++)
		continue;
	assert_true(comes(&app.ended));
}

static void head_gets_the_head_and_is_over(void **state)
{
	struct http_answer answer = {0};
	assert_true(http_client_open(&client));
	assert_true(http_client_send_text(&client, "HEAD /stream HTTP/1.1\r\nHost: x\r\n\r\n"));
	assert_true(http_client_read(&client, true, &answer));
	assert_int_equal(answer.status, 200);
	assert_null(http_answer_field(&answer, "Content-Length"));
	assert_true(comes(&app.ended));
	assert_false(app.opened);
	assert_true(http_client_sees_close(&client));
	http_answer_done(&answer);
}

static void who_does_not_read_is_queued_one_send_and_told_when_there_is_room(void **state)
{
	enum { PIECE = 10000 };
	static char piece[PIECE], seen[PIECE * 4];
	open_stream();
	size_t sent = 0, received = 0, n;
	do {
		memset(piece, 'a' + (int)(sent / PIECE % 26), sizeof piece);
		if (send_bytes(piece, sizeof piece))
			sent += sizeof piece;
	} while (app.taken && sent < (size_t)64 << 20);
	assert_false(app.taken); /* the socket's buffers, and then no more */
	assert_false(send_bytes("x", 1));
	assert_int_equal(sem_trywait(&app.writable), -1);
	while (received < sent) {
		assert_true(http_client_read_some(&client, seen, sizeof seen, &n));
		for (size_t i = 0; i < n; i++)
			if (seen[i] != 'a' + (char)((received + i) / PIECE % 26))
				fail_msg("byte %zu is '%c'", received + i, seen[i]);
		received += n;
	}
	assert_true(comes(&app.writable));
	assert_true(send_bytes("again\n", 6));
	assert_string_equal(read_until("again\n"), "again\n");
}

static int64_t short_ms = 300;

static void who_never_reads_is_closed(void **state)
{
	static char piece[100000];
	open_stream();
	while (app.request && send_bytes(piece, sizeof piece))
		continue;
	assert_true(comes(&app.ended));
}

static void a_server_that_stops_ends_its_streams(void **state)
{
	open_stream();
	stop(); /* with a minute to drain in, none of which it takes */
	assert_true(comes(&app.ended));
	assert_true(http_client_sees_close(&client));
}

static void who_is_refused_is_told_when_to_come_back(void **state)
{
	struct http_answer answer = {0};
	assert_true(http_client_call(&client, "GET", "/refused", NULL, NULL, &answer));
	assert_int_equal(answer.status, 200);
	assert_string_equal(http_answer_field(&answer, "Content-Type"), "text/event-stream");
	assert_string_equal(answer.body, "retry: 5000\n\n");
	/* What a proxy keeps or gathers is no news. */
	assert_string_equal(http_answer_field(&answer, "Cache-Control"), "no-store");
	assert_string_equal(http_answer_field(&answer, "X-Accel-Buffering"), "no");
	http_answer_done(&answer);
}

static void events_are_written_as_the_standard_has_them(void **state)
{
	struct buffer out = {0};
	sse_put_event(&out, TEXT("7-1"), "availability", TEXT("{\"a\":1}"));
	sse_put_event(&out, (struct text){0}, "reset", TEXT("x"));
	sse_put_comment(&out);
	sse_put_id(&out, TEXT("8"));
	buffer_add_char(&out, 0);
	assert_string_equal(out.data,
	                    "id: 7-1\nevent: availability\ndata: {\"a\":1}\n\nevent: reset\ndata: x\n\n:\n\nid: 8\n\n");
	buffer_done(&out);
}

#define STREAM_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STREAM_TEST(what_is_sent_goes_out_at_once_and_ends_in_order),
		STREAM_TEST(a_stream_outlives_its_request_deadline),
		STREAM_TEST(a_stream_may_be_opened_later),
		STREAM_TEST(who_left_before_it_was_opened_is_told_of_at_once),
		STREAM_TEST(who_leaves_ends_it),
		STREAM_TEST(what_the_client_says_meanwhile_is_dropped),
		STREAM_TEST(who_talks_without_end_instead_of_listening_is_closed),
		STREAM_TEST(head_gets_the_head_and_is_over),
		STREAM_TEST(who_does_not_read_is_queued_one_send_and_told_when_there_is_room),
		cmocka_unit_test_prestate_setup_teardown(who_never_reads_is_closed, setup, teardown, &short_ms),
		STREAM_TEST(a_server_that_stops_ends_its_streams),
		STREAM_TEST(who_is_refused_is_told_when_to_come_back),
		cmocka_unit_test(events_are_written_as_the_standard_has_them),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
