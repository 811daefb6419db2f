/* A server on which some do what they can to have it for themselves, and the others have their turn all the same.
 *
 * One loop. To see in which order it does things, it is made to stand: the handler of /stand waits for the test, which
 * meanwhile lets clients come, ask and grow old; then the one whose turn is asked for says what was done before him. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "http/connection.h"
#include "http/linger.h"
#include "http/loop.h"
#include "lib/http_client.h"

#define WAIT_MS 20000
#define MANY 200

/* --- the application -------------------------------------------------------------------------------------------- */

static struct {
	sem_t standing, go;   /* the loop stands; it may go on */
	struct request *kept; /* of /keep, never answered before the test says so */
	struct server_loop *loop;
	struct mailbox_item item;
	sem_t is_kept;
	_Atomic int page_count;
	_Atomic size_t untaken_bytes_max; /* as the server has it */
} app;

static void handle_stand(struct request *request)
{
	sem_post(&app.standing);
	CHECK(sem_wait(&app.go) == 0);
	request_reply(request, 200, "text/plain", (struct text){0});
}

/* What was done so far: connections accepted, pages sent, clients refused. */
static void handle_count(struct request *request)
{
	char text[100];
	int size = snprintf(text, sizeof text, "%d %d %d", (int)metric_get(METRIC_HTTP_CONNECTIONS), app.page_count,
	                    (int)metric_get(METRIC_HTTP_REJECTED));
	request_reply(request, 200, "text/plain", (struct text){text, (size_t)size});
}

/* A turn holds no more than one of these. */
static void handle_page(struct request *request)
{
	static char page[LOOP_OUT_BYTES_MAX];
	memset(page, 'p', sizeof page);
	app.page_count++;
	request_reply(request, 200, "text/plain", (struct text){page, sizeof page});
}

/* Larger than what the kernel holds of both ends; three of them are more than may lie with us. */
#define LARGE_BYTES ((size_t)12 << 20)

static void send_large(struct request *request)
{
	char *large = malloc(LARGE_BYTES);
	CHECK(large);
	memset(large, 'l', LARGE_BYTES);
	app.page_count++;
	request_reply(request, 200, "text/plain", (struct text){large, LARGE_BYTES});
	free(large);
}

static void handle_large(struct request *request)
{
	if (!app.untaken_bytes_max)
		app.untaken_bytes_max = request_loop(request)->untaken_bytes_max;
	request_loop(request)->untaken_bytes_max = 2 * LARGE_BYTES;
	send_large(request);
}

/* Alone it is more than all may leave with us. */
static void handle_larger(struct request *request)
{
	request_loop(request)->untaken_bytes_max = 1;
	send_large(request);
}

static void on_writable(struct request *request)
{
	(void)request;
}

static void on_stream_end(struct request *request)
{
	(void)request;
	sem_post(&app.is_kept);
}

/* More than its socket takes. */
static void handle_stream(struct request *request)
{
	static const struct stream_hooks hooks = {.on_writable = on_writable, .on_end = on_stream_end};
	static char much[LARGE_BYTES];
	CHECK(request_stream(request, "text/plain", &hooks));
	CHECK(request_stream_send(request, (struct text){much, sizeof much}));
	app.page_count++;
}

static void handle_keep(struct request *request)
{
	app.kept = request;
	app.loop = request_loop(request);
	sem_post(&app.is_kept);
}

static void do_answer(struct mailbox_item *item)
{
	request_reply(app.kept, 200, "text/plain", TEXT("kept"));
	sem_post(&app.is_kept);
}

static const struct route routes[] = {
	{HTTP_METHOD_GET, "/stand", 0, handle_stand},   {HTTP_METHOD_GET, "/count", 0, handle_count},
	{HTTP_METHOD_GET, "/page", 0, handle_page},     {HTTP_METHOD_GET, "/keep", 0, handle_keep},
	{HTTP_METHOD_GET, "/large", 0, handle_large},   {HTTP_METHOD_GET, "/larger", 0, handle_larger},
	{HTTP_METHOD_GET, "/stream", 0, handle_stream},
};

/* --- the test's side ---------------------------------------------------------------------------------------------- */

static struct server *server;
static struct http_client others[MANY], stander, asker;

static void start(int64_t header_timeout_ms)
{
	const struct router router = {routes, sizeof routes / sizeof *routes};
	struct config config = {.listen = "127.0.0.1:0",
	                        .http_loops = 1,
	                        .http_connections_max = 10000,
	                        .header_timeout_ms = header_timeout_ms,
	                        .body_timeout_ms = 60000,
	                        .idle_timeout_ms = 60000,
	                        .request_timeout_ms = 60000,
	                        .drain_timeout_ms = 100};
	const char *why;
	signal(SIGPIPE, SIG_IGN);
	memset(&app, 0, sizeof app);
	sem_init(&app.standing, 0, 0);
	sem_init(&app.go, 0, 0);
	sem_init(&app.is_kept, 0, 0);
	server = server_start(&config, &router, (struct server_hooks){0}, &why);
	assert_non_null(server);
	stander = asker = http_client(server_address(server), NULL);
	for (int i = 0; i < MANY; i++)
		others[i] = stander;
}

static void comes(sem_t *sem)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += WAIT_MS / 1000;
	assert_int_equal(sem_timedwait(sem, &until), 0);
}

static void answer_the_kept(void)
{
	app.item.deliver = do_answer;
	mailbox_post(server_loop_mailbox(app.loop), &app.item);
	comes(&app.is_kept);
	app.kept = NULL;
}

static int teardown(void **state)
{
	for (int i = 0; i < MANY; i++)
		http_client_done(&others[i]);
	http_client_done(&stander);
	http_client_done(&asker);
	if (app.kept)
		answer_the_kept();
	server_stop(server);
	server_free(server);
	return 0;
}

static void ask(struct http_client *client, const char *path)
{
	char text[100];
	snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path);
	assert_true(http_client_send_text(client, text));
}

struct counts {
	int connections, pages, refused;
};

static struct counts read_counts(struct http_client *client)
{
	struct http_answer answer = {0};
	struct counts counts = {0};
	assert_true(http_client_read(client, false, &answer));
	assert_int_equal(sscanf(answer.body, "%d %d %d", &counts.connections, &counts.pages, &counts.refused), 3);
	http_answer_done(&answer);
	return counts;
}

/* The asker is known already, his next request will lie in his socket, and the loop does nothing meanwhile. */
static struct counts make_it_stand(void)
{
	ask(&asker, "/count");
	struct counts counts = read_counts(&asker);
	ask(&stander, "/stand");
	comes(&app.standing);
	return counts;
}

static struct counts let_it_go(void)
{
	ask(&asker, "/count");
	sem_post(&app.go);
	return read_counts(&asker);
}

static void come(struct http_client *client, const char *bytes, size_t size)
{
	assert_true(http_client_open(client));
	assert_true(http_client_send(client, bytes, size));
}

static double cpu_s(void)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* The server waits, it does not ask whether there is something to do: a busy loop would have a good part of a core. */
static void nothing_is_done_meanwhile(void)
{
	double before = cpu_s();
	clock_sleep_until(deadline_in_ms(1000));
	assert_true(cpu_s() - before < 0.1);
}

/* --- sentences ---------------------------------------------------------------------------------------------------- */

static void a_flood_of_strangers_is_let_in_by_and_by(void **state)
{
	start(60000);
	int before = make_it_stand().connections;
	for (int i = 0; i < MANY; i++)
		assert_true(http_client_open(&others[i]));
	int let_in = let_it_go().connections - before;
	/* The stander himself, and two rounds of the loop: libevent may see the door and the asker in either order. */
	assert_in_range(let_in, 1, 1 + 2 * 16);
	while (let_in < MANY) {
		ask(&asker, "/count");
		let_in = read_counts(&asker).connections - before;
	}
}

static void those_who_pipeline_take_turns_with_the_others(void **state)
{
#define PAGE "GET /page HTTP/1.1\r\nHost: x\r\n\r\n"
	static const char pages[] = PAGE PAGE PAGE PAGE, first[] = PAGE "GET /stand HTTP/1.1\r\nHost: x\r\n\r\n";
	start(60000);
	for (int i = 0; i < MANY; i++)
		come(&others[i], "", 0);
	struct counts counts;
	do {
		ask(&asker, "/count");
		counts = read_counts(&asker);
	} while (counts.connections < MANY + 1);
	make_it_stand();
	/* The first of them will make it stand again, in the middle of the turns that all of them will have. */
	come(&others[0], first, sizeof first - 1);
	for (int i = 1; i < MANY; i++)
		come(&others[i], pages, sizeof pages - 1);
	sem_post(&app.go);
	comes(&app.standing);
	/* Who has more to say does not jump the queue either. */
	for (int i = 1; i < MANY; i++)
		come(&others[i], pages, sizeof pages - 1);
	int before = app.page_count;
	assert_in_range(let_it_go().pages - before, 0, MANY / 4);
}

static void those_whose_time_is_over_are_told_so_by_and_by(void **state)
{
	enum { TIMEOUT_MS = 1000 };
	start(TIMEOUT_MS);
	int refused_before = (int)metric_get(METRIC_HTTP_REJECTED), connections_before = make_it_stand().connections;
	for (int i = 0; i < MANY; i++)
		come(&others[i], "G", 1);
	struct counts counts = let_it_go();
	while (counts.connections < connections_before + MANY) {
		ask(&asker, "/count");
		counts = read_counts(&asker);
	}
	counts = make_it_stand();
	clock_sleep_until(deadline_in_ms(TIMEOUT_MS + 2 * LOOP_TICK_MS)); /* all of them are too slow now */
	/* The page takes a turn; the clock's comes before the next. */
	ask(&asker, "/page");
	ask(&asker, "/count");
	sem_post(&app.go);
	struct http_answer answer = {0};
	assert_true(http_client_read(&asker, false, &answer));
	http_answer_done(&answer);
	assert_in_range(read_counts(&asker).refused - counts.refused, 1, MANY / 4);
	while (counts.refused < refused_before + MANY) {
		ask(&asker, "/count");
		counts = read_counts(&asker);
	}
}

static void who_sends_ahead_of_his_answer_costs_nothing_while_he_waits(void **state)
{
	static char ahead[4 * INPUT_BYTES_MAX];
	struct http_answer answer = {0};
	start(60000);
	memset(ahead, 'x', sizeof ahead);
	ask(&others[0], "/keep");
	comes(&app.is_kept);
	assert_true(http_client_send(&others[0], ahead, sizeof ahead));
	nothing_is_done_meanwhile();
	/* And he is heard again afterwards: told that this was no request. */
	answer_the_kept();
	assert_true(http_client_read(&others[0], false, &answer));
	assert_string_equal(answer.body, "kept");
	assert_true(http_client_read(&others[0], false, &answer));
	assert_true(answer.status >= 400);
	http_answer_done(&answer);
}

static void who_asks_and_does_not_read_costs_nothing_while_he_waits(void **state)
{
	static char many[4 * INPUT_BYTES_MAX];
	char *to = many;
	start(60000);
	while (to + 40 < many + sizeof many)
		to = stpcpy(to, "GET /page HTTP/1.1\r\nHost: x\r\n\r\n");
	come(&others[0], many, (size_t)(to - many));
	/* Until his socket is full: then no page more is made. */
	int before = -1;
	while (before != app.page_count) {
		before = app.page_count;
		clock_sleep_until(deadline_in_ms(200));
	}
	assert_true(before > 0);
	nothing_is_done_meanwhile();
}

static bool gets_large(struct http_client *client)
{
	struct http_answer answer = {0};
	bool whole = http_client_read(client, false, &answer) && answer.body_size == LARGE_BYTES;
	http_answer_done(&answer);
	return whole;
}

/* Each for as long as his time lets him: then the answers of a thousand would lie with us. */
static void of_those_who_do_not_read_the_longest_makes_room(void **state)
{
	start(60000);
	int64_t refused = metric_get(METRIC_HTTP_REJECTED);
	for (int i = 0; i < 4; i++) {
		ask(&others[i], "/large");
		do
			ask(&asker, "/count");
		while (read_counts(&asker).pages <= i);
	}
	for (int i = 0; i < 4; i++)
		assert_int_equal(gets_large(&others[i]), i >= 2);
	assert_int_equal(metric_get(METRIC_HTTP_REJECTED), refused + 2);
	assert_int_equal(app.untaken_bytes_max, 256 << 20);
	/* What is taken counts no more, and who is alone gets whatever he asks for. */
	for (int i = 4; i < 10; i++) {
		ask(&others[i], "/large");
		assert_true(gets_large(&others[i]));
	}
}

static void one_answer_may_be_larger_than_the_bound(void **state)
{
	start(60000);
	ask(&others[0], "/larger");
	do
		ask(&asker, "/count");
	while (read_counts(&asker).pages < 1);
	assert_true(gets_large(&others[0]));
}

static void who_listens_and_does_not_read_makes_room_as_well(void **state)
{
	start(60000);
	for (int i = 0; i < 4; i++) {
		ask(&others[i], i ? "/large" : "/stream");
		do
			ask(&asker, "/count");
		while (read_counts(&asker).pages <= i);
	}
	comes(&app.is_kept); /* its handler was told */
	assert_false(gets_large(&others[1]));
	assert_true(gets_large(&others[2]) && gets_large(&others[3]));
}

static void what_the_refused_go_on_sending_is_dropped_up_to_a_bound(void **state)
{
	static char flood[1 << 20];
	size_t sent = 0;
	start(60000);
	memset(flood, 'x', sizeof flood);
	come(&others[0], "POST /count HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n", 62);
	/* Until nobody takes it any more: the server stops, and what the kernel holds of both of them is full. */
	struct pollfd waits = {.fd = others[0].fd, .events = POLLOUT};
	while (poll(&waits, 1, LINGER_MS / 2) == 1 && !(waits.revents & (POLLERR | POLLHUP))) {
		ssize_t n = send(others[0].fd, flood, sizeof flood, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n <= 0)
			break;
		sent += (size_t)n;
	}
	assert_in_range(sent, 1, LINGER_BYTES_MAX + (16 << 20));
}

/* With no descriptor to spare each tick tries again, and one line is enough for all of them. */
static void who_cannot_be_let_in_is_told_of_in_the_log_now_and_then(void **state)
{
	int log_ends[2], saved = dup(STDERR_FILENO);
	char text[4096] = "";
	struct rlimit limit, none;
	struct http_answer answer = {0};
	start(60000);
	assert_int_equal(pipe2(log_ends, O_NONBLOCK), 0);
	struct sockaddr_in door = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	door.sin_port = htons((uint16_t)atoi(stander.port));
	others[0].fd = socket(AF_INET, SOCK_STREAM, 0); /* the lowest that was free */
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){.rlim_cur = (rlim_t)others[0].fd + 1, .rlim_max = limit.rlim_max};
	dup2(log_ends[1], STDERR_FILENO);
	setrlimit(RLIMIT_NOFILE, &none);
	int connected = connect(others[0].fd, (struct sockaddr *)&door, sizeof door);
	struct pollfd told = {.fd = log_ends[0], .events = POLLIN};
	int lines = poll(&told, 1, WAIT_MS);
	clock_sleep_until(deadline_in_ms(10 * LOOP_TICK_MS));
	setrlimit(RLIMIT_NOFILE, &limit);
	dup2(saved, STDERR_FILENO);
	close(saved);
	ssize_t size = read(log_ends[0], text, sizeof text - 1);
	close(log_ends[0]);
	close(log_ends[1]);
	assert_int_equal(connected, 0);
	assert_int_equal(lines, 1);
	assert_non_null(strstr(text, "warn http_accept_failed error=\"Too many open files\"\n"));
	assert_ptr_equal(strchr(text, '\n'), text + size - 1);
	ask(&others[0], "/page"); /* and now he is let in */
	assert_true(http_client_read(&others[0], false, &answer));
	assert_int_equal(answer.status, 200);
	http_answer_done(&answer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_flood_of_strangers_is_let_in_by_and_by, teardown),
		cmocka_unit_test_teardown(those_who_pipeline_take_turns_with_the_others, teardown),
		cmocka_unit_test_teardown(those_whose_time_is_over_are_told_so_by_and_by, teardown),
		cmocka_unit_test_teardown(who_sends_ahead_of_his_answer_costs_nothing_while_he_waits, teardown),
		cmocka_unit_test_teardown(who_asks_and_does_not_read_costs_nothing_while_he_waits, teardown),
		cmocka_unit_test_teardown(who_cannot_be_let_in_is_told_of_in_the_log_now_and_then, teardown),
		cmocka_unit_test_teardown(of_those_who_do_not_read_the_longest_makes_room, teardown),
		cmocka_unit_test_teardown(one_answer_may_be_larger_than_the_bound, teardown),
		cmocka_unit_test_teardown(who_listens_and_does_not_read_makes_room_as_well, teardown),
		cmocka_unit_test_teardown(what_the_refused_go_on_sending_is_dropped_up_to_a_bound, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
