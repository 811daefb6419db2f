/* The client on an event loop: every call is answered exactly once, with its own reply or with an error, in time.
 *
 * Each call is an ECHO of a text of its own. Its callback checks that it is the first for this call, that it does not
 * run inside redis_async_call(), and that the reply is this call's. The bug it guards against: one reply too late, and
 * every later call is answered with the reply before its own.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <netdb.h>
#include <poll.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"
#include "cache/cell.h"
#include "lib/redis_server.h"

#define CALLS_MAX 100000
#define TIMEOUT_MS 50    /* of a call to a Redis that is paused: it passes for certain */
#define PATIENT_MS 30000 /* where Redis answers: never passes */

static struct redis_server server;
static struct event_base *base;
static struct redis_async *redis;

/* In place of the kernel's, which may refuse to watch one descriptor more (fs.epoll.max_user_watches). */
static int watches_refused;

int epoll_ctl(int epoll, int what, int fd, struct epoll_event *event)
{
	if (what == EPOLL_CTL_ADD && watches_refused > 0) {
		watches_refused--;
		errno = ENOSPC;
		return -1;
	}
	return (int)syscall(SYS_epoll_ctl, epoll, what, fd, event);
}

/* --- calls ------------------------------------------------------------------------------------------------------ */

static struct {
	int made, answered, ok, failed;
	bool inside; /* redis_async_call() is running */
	bool order;  /* replies must come in the order of the calls */
	int last;
	int again; /* so many calls more, from inside callbacks */
	char done[CALLS_MAX];
} calls;

static void call(void);

static void on_reply(enum lu_error error, const redisReply *reply, void *context)
{
	int number = (int)(intptr_t)context;
	char text[32];
	snprintf(text, sizeof text, "call %d", number);
	assert_false(calls.inside);
	assert_false(calls.done[number]);
	calls.done[number] = 1;
	calls.answered++;
	if (calls.order)
		assert_true(number > calls.last);
	calls.last = number;
	if (error == LU_OK) {
		assert_int_equal(reply->type, REDIS_REPLY_STRING);
		assert_string_equal(reply->str, text);
		calls.ok++;
	} else {
		assert_int_equal(error, LU_CACHE_UNAVAILABLE);
		assert_null(reply);
		calls.failed++;
	}
	if (calls.again > 0) {
		calls.again--;
		call();
	}
}

static void call(void)
{
	char text[32];
	assert_true(calls.made < CALLS_MAX);
	int number = calls.made++;
	snprintf(text, sizeof text, "call %d", number);
	calls.inside = true;
	redis_async_call(redis, 2, (struct text[]){TEXT("ECHO"), text_of(text)}, on_reply, (void *)(intptr_t)number);
	calls.inside = false;
}

static void run_until_answered(void)
{
	while (calls.answered < calls.made)
		assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
}

static void run_until_connected(void)
{
	while (!redis_async_connected(redis))
		assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
}

static void open_client(const char *url, int64_t timeout_ms)
{
	struct redis_address address;
	const char *why = NULL;
	if (!redis_address_parse(url, &address, &why))
		fail_msg("%s: %s", url, why);
	memset(&calls, 0, sizeof calls);
	calls.last = -1;
	redis = redis_async_new(base, &address, timeout_ms);
}

static int setup(void **state)
{
	base = event_base_new();
	open_client(server.url, PATIENT_MS);
	return 0;
}

static int teardown(void **state)
{
	redis_async_free(redis);
	redis = NULL;
	event_base_free(base);
	assert_int_equal(calls.answered, calls.made);
	return 0;
}

static void impatient(void)
{
	redis_async_free(redis);
	open_client(server.url, TIMEOUT_MS);
}

static int group_setup(void **state)
{
	redis_server_start_tcp(&server, NULL);
	return 0;
}

static int group_teardown(void **state)
{
	redis_server_stop(&server);
	return 0;
}

/* --- tests ------------------------------------------------------------------------------------------------------ */

static void without_a_connection_a_call_fails_at_once_but_through_the_loop(void **state)
{
	call(); /* the first turn of the loop has not come: nothing is connected */
	assert_int_equal(calls.answered, 0);
	run_until_answered();
	assert_int_equal(calls.failed, 1);
	run_until_connected();
	call();
	run_until_answered();
	assert_int_equal(calls.ok, 1);
}

static void calls_are_answered_once_and_in_order(void **state)
{
	run_until_connected();
	calls.order = true;
	for (int i = 0; i < 1000; i++)
		call();
	run_until_answered();
	assert_int_equal(calls.ok, 1000);
}

static void a_callback_may_call_again(void **state)
{
	run_until_connected();
	calls.again = 500;
	call();
	run_until_answered();
	assert_int_equal(calls.ok, 501);
}

static void two_hundred_calls_to_a_slow_redis_all_fail_and_no_reply_shifts(void **state)
{
	impatient();
	for (int round = 0; round < 5; round++) {
		run_until_connected();
		redis_server_pause(&server);
		int failed = calls.failed;
		int64_t from_ns = clock_boottime_ns();
		for (int i = 0; i < 200; i++)
			call();
		run_until_answered();
		assert_int_equal(calls.failed, failed + 200);
		assert_true(clock_boottime_ns() - from_ns >= TIMEOUT_MS * NS_PER_MS); /* not before its time */
		assert_false(redis_async_connected(redis));
		redis_server_resume(&server); /* now it answers the 200, to nobody */
		run_until_connected();
		/* A machine that stalls may cost this call its time, never its own reply. */
		call();
		run_until_answered();
	}
}

static void a_younger_call_is_not_failed_with_its_elders_deadline(void **state)
{
	/* The timer was set for the first call, long answered: it must look again, not fail the second. */
	impatient();
	do {
		run_until_connected();
		call();
		run_until_answered();
		clock_sleep_until(deadline_in_ms(TIMEOUT_MS / 2));
	} while (!redis_async_connected(redis));
	redis_server_pause(&server);
	int64_t from_ns = clock_boottime_ns();
	int failed = calls.failed;
	call();
	run_until_answered();
	assert_int_equal(calls.failed, failed + 1);
	assert_true(clock_boottime_ns() - from_ns >= TIMEOUT_MS * NS_PER_MS);
	redis_server_resume(&server);
}

static void a_redis_that_does_not_greet_is_left_and_tried_again(void **state)
{
	redis_server_pause(&server);
	impatient();
	/* Several attempts, each ended by its deadline. */
	for (int64_t until_ns = deadline_in_ms(4 * TIMEOUT_MS); clock_boottime_ns() < until_ns;) {
		event_base_loop(base, EVLOOP_ONCE);
		assert_false(redis_async_connected(redis));
	}
	call();
	run_until_answered();
	assert_int_equal(calls.failed, 1);
	redis_server_resume(&server);
	run_until_connected();
}

static void a_killed_connection_fails_what_waits_and_comes_back(void **state)
{
	for (int i = 0; i < 10; i++) {
		run_until_connected();
		free(redis_server_command(&server, "CLIENT KILL TYPE normal SKIPME yes"));
		call(); /* written into a connection that is gone, or failed because it is known to be gone */
		run_until_answered();
		while (redis_async_connected(redis))
			event_base_loop(base, EVLOOP_ONCE);
	}
	assert_int_equal(calls.failed, 10);
	run_until_connected();
	call();
	run_until_answered();
	assert_int_equal(calls.ok, 1);
}

static void a_restarted_redis_is_found_again(void **state)
{
	run_until_connected();
	redis_server_kill(&server);
	call();
	run_until_answered();
	assert_int_equal(calls.failed, 1);
	for (int i = 0; i < 3; i++) /* no socket there: some attempts in vain */
		event_base_loop(base, EVLOOP_ONCE);
	redis_server_restart(&server);
	run_until_connected();
	call();
	run_until_answered();
	assert_int_equal(calls.ok, 1);
}

static int got_errors;

static void on_error(enum lu_error error, const redisReply *reply, void *context)
{
	assert_int_equal(error, LU_CACHE_UNAVAILABLE);
	assert_null(reply);
	got_errors++;
}

static void an_error_reply_is_an_error_but_keeps_the_connection(void **state)
{
	run_until_connected();
	got_errors = 0;
	redis_async_call(redis, 1, (struct text[]){TEXT("NOSUCHCOMMAND")}, on_error, NULL);
	call();
	run_until_answered();
	assert_int_equal(got_errors, 1);
	assert_int_equal(calls.ok, 1);
	assert_true(redis_async_connected(redis));
}

/* Makes the namespace's guard, as opening an epoch does. */
static void guard_make(struct text namespace)
{
	struct redis_address address;
	const char *why;
	char identity[160];
	assert_true(redis_address_parse(server.url, &address, &why));
	struct redis *plain = redis_new(&address);
	assert_int_equal(cell_redis_identity(plain, deadline_in_ms(PATIENT_MS), identity), LU_OK);
	assert_int_equal(cell_guard_set(plain, namespace, identity, deadline_in_ms(PATIENT_MS)), LU_OK);
	redis_free(plain);
}

static int cells_read;

static void on_cells(enum lu_error error, const redisReply *reply, void *context)
{
	assert_int_equal(error, LU_OK);
	assert_int_equal(cell_reply_kind(reply, 1), CELL_OK);
	cells_read++;
}

static void a_forgotten_script_is_loaded_within_the_same_call(void **state)
{
	struct arena arena;
	const struct text ns = TEXT("lu:async"), sku = TEXT("A");
	const int64_t version = 1;
	guard_make(ns);
	arena_init(&arena, 4096);
	run_until_connected();
	cells_read = 0;
	for (int i = 0; i < 3; i++) {
		free(redis_server_command(&server, "SCRIPT FLUSH"));
		for (int n = 0; n < 5; n++) {
			struct cell_call mark = cell_intend(&arena, ns, TEXT("m"), &sku, &version, 1);
			redis_async_call(redis, mark.argc, mark.argv, on_cells, NULL);
			call(); /* its reply stays its own while the script's comes later */
		}
		arena_reset(&arena); /* the call's bytes were copied */
		while (cells_read < 5 * (i + 1))
			event_base_loop(base, EVLOOP_ONCE);
		run_until_answered();
	}
	assert_int_equal(calls.ok, 15);
	arena_done(&arena);
}

static void on_most_cells(enum lu_error error, const redisReply *reply, void *context)
{
	redisReply *const *cells;
	*(enum cell_reply *)context = error ? CELL_FAILED : cell_read_kind(reply, LU_CELLS_MAX, &cells);
	cells_read++;
}

/* Its answer is longer than its cells are many: the guard comes first. */
static void the_largest_read_is_answered(void **state)
{
	const struct text ns = TEXT("lu:largest");
	struct redis_command read[2];
	struct arena arena;
	guard_make(ns);
	arena_init(&arena, 4096);
	struct text *skus = ARENA_ARRAY(&arena, LU_CELLS_MAX, struct text);
	for (size_t i = 0; i < LU_CELLS_MAX; i++)
		skus[i] = arena_printf(&arena, "SKU %zu", i);
	cell_read(&arena, ns, skus, LU_CELLS_MAX, read);
	run_until_connected();
	cells_read = 0;
	enum cell_reply kind = CELL_FAILED;
	redis_async_call_two(redis, read, on_most_cells, &kind);
	while (!cells_read)
		assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
	assert_int_equal(kind, CELL_OK);
	assert_true(redis_async_connected(redis));
	arena_done(&arena);
}

#define BIG_BYTES 20000000

static int big_replies;

static void on_big(enum lu_error error, const redisReply *reply, void *context)
{
	const char *bytes = context;
	assert_int_equal(error, LU_OK);
	assert_int_equal(reply->len, BIG_BYTES);
	assert_memory_equal(reply->str, bytes, BIG_BYTES);
	big_replies++;
}

static void requests_and_replies_of_megabytes_are_whole(void **state)
{
	char *bytes = malloc(BIG_BYTES);
	for (size_t i = 0; i < BIG_BYTES; i++)
		bytes[i] = (char)(i * 2654435761u >> 13);
	run_until_connected();
	big_replies = 0;
	for (int i = 0; i < 2; i++) {
		call();
		redis_async_call(redis, 2, (struct text[]){TEXT("ECHO"), {bytes, BIG_BYTES}}, on_big, bytes);
		call();
	}
	run_until_answered();
	assert_int_equal(big_replies, 2);
	assert_int_equal(calls.ok, 4);
	free(bytes);
}

static void freeing_answers_every_call_even_those_made_meanwhile(void **state)
{
	run_until_connected();
	for (int i = 0; i < 100; i++)
		call();
	calls.again = 50; /* from inside the callbacks that redis_async_free() makes */
	redis_async_free(redis);
	assert_int_equal(calls.made, 150);
	assert_int_equal(calls.answered, 150);
	assert_int_equal(calls.failed, 150);
	open_client(server.url, PATIENT_MS);
}

static void cluster_mode_is_never_connected(void **state)
{
	struct redis_server cluster;
	redis_server_start(&cluster, "cluster-enabled yes\ndatabases 1\n");
	redis_async_free(redis);
	open_client(cluster.url, PATIENT_MS);
	/* Our own look is one connection each; two more are two attempts refused. */
	for (int looks = 1, connections = 0; connections - looks < 4; looks++) {
		event_base_loop(base, EVLOOP_ONCE);
		assert_false(redis_async_connected(redis));
		char *info = redis_server_command(&cluster, "INFO stats");
		connections = atoi(strstr(info, "total_connections_received:") + 27);
		free(info);
	}
	call();
	run_until_answered();
	assert_int_equal(calls.failed, 1);
	redis_async_free(redis);
	redis = NULL;
	redis_server_stop(&cluster);
	open_client(server.url, PATIENT_MS);
}

/* --- faults at random ------------------------------------------------------------------------------------------- */

static void whatever_happens_every_call_has_one_answer_its_own(void **state)
{
	const char *given = getenv("SEED");
	unsigned seed = given ? (unsigned)atoi(given) : (unsigned)clock_boottime_ns();
	print_message("SEED=%u\n", seed);
	impatient();
	bool paused = false;
	for (int step = 0; step < 600; step++) {
		int dice = rand_r(&seed) % 100;
		if (dice >= 50 && !paused)
			run_until_connected();
		for (int i = rand_r(&seed) % 20; i > 0; i--)
			call();
		if (dice < 4 && !paused) {
			redis_server_pause(&server);
			paused = true;
		} else if (dice < 20 && paused) {
			redis_server_resume(&server);
			paused = false;
		} else if (dice < 24 && !paused) {
			free(redis_server_command(&server, "CLIENT KILL TYPE normal SKIPME yes"));
		} else if (dice < 25) {
			redis_server_restart(&server);
			paused = false;
		} else if (dice < 28 && !paused) {
			free(redis_server_command(&server, "SCRIPT FLUSH"));
		} else if (dice < 29) {
			redis_async_free(redis);
			assert_int_equal(calls.answered, calls.made);
			struct redis_address address;
			const char *why;
			assert_true(redis_address_parse(step % 2 ? server.url : server.url_tcp, &address, &why));
			redis = redis_async_new(base, &address, TIMEOUT_MS);
		}
		/* Waiting with nothing under way would be waiting for ever. */
		event_base_loop(base, dice % 2 && calls.answered < calls.made ? EVLOOP_ONCE : EVLOOP_NONBLOCK);
	}
	if (paused)
		redis_server_resume(&server);
	run_until_answered();
	print_message("%d calls: %d answered, %d failed\n", calls.made, calls.ok, calls.failed);
	run_until_connected();
	redis_async_free(redis);
	open_client(server.url, PATIENT_MS);
	run_until_connected();
	call();
	run_until_answered();
	assert_int_equal(calls.ok, 1);
}

/* --- names: this getaddrinfo() stands before the C library's ---------------------------------------------------- */

static sem_t resolver_may_answer;

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **result)
{
	static const char *const addresses[] = {"127.0.0.2", "127.0.0.1"}; /* nobody listens on the first */
	bool numeric = hints && (hints->ai_flags & AI_NUMERICHOST), literal = strcmp(node, "127.0.0.1") == 0;
	if (numeric && !literal)
		return EAI_NONAME;
	if (!literal)
		while (sem_wait(&resolver_may_answer) < 0)
			;
	if (strcmp(node, "nobody.example") == 0)
		return EAI_NONAME;
	struct addrinfo *list = NULL;
	for (size_t i = 2; i-- > (literal ? 1 : 0);) {
		struct addrinfo *info = calloc(1, sizeof *info + sizeof(struct sockaddr_in));
		CHECK(info);
		struct sockaddr_in *in = (struct sockaddr_in *)(info + 1);
		in->sin_family = AF_INET;
		in->sin_port = htons((uint16_t)atoi(service));
		inet_pton(AF_INET, addresses[i], &in->sin_addr);
		*info = (struct addrinfo){.ai_family = AF_INET,
		                          .ai_addr = (struct sockaddr *)in,
		                          .ai_addrlen = sizeof *in,
		                          .ai_next = list};
		list = info;
	}
	*result = list;
	return 0;
}

void freeaddrinfo(struct addrinfo *list)
{
	while (list) {
		struct addrinfo *next = list->ai_next;
		free(list);
		list = next;
	}
}

static int ticks;

static void on_tick(evutil_socket_t fd, short events, void *context)
{
	ticks++;
}

static void a_resolver_that_hangs_does_not_hold_the_loop(void **state)
{
	char url[64];
	snprintf(url, sizeof url, "redis://slow.example:%d", server.port);
	redis_async_free(redis);
	open_client(url, TIMEOUT_MS);
	struct event *tick = event_new(base, -1, EV_PERSIST, on_tick, NULL);
	ticks = 0;
	event_add(tick, &(struct timeval){0, 1000});
	/* Several attempts end and begin while the look-up hangs; the loop turns all the while. */
	for (int64_t until_ns = deadline_in_ms(6 * TIMEOUT_MS); clock_boottime_ns() < until_ns || ticks < 20;) {
		event_base_loop(base, EVLOOP_ONCE);
		assert_false(redis_async_connected(redis));
	}
	call();
	run_until_answered();
	assert_int_equal(calls.failed, 1);
	sem_post(&resolver_may_answer); /* one answer is enough: all attempts waited for one look-up */
	run_until_connected();          /* by way of the second address */
	event_free(tick);

	/* Freed in the middle of a look-up: the thread cleans up behind us. */
	redis_async_free(redis);
	open_client(url, TIMEOUT_MS);
	event_base_loop(base, EVLOOP_ONCE);
	redis_async_free(redis);
	sem_post(&resolver_may_answer);
	open_client(server.url, PATIENT_MS);
}

static void a_name_without_an_address_is_looked_up_again(void **state)
{
	redis_async_free(redis);
	open_client("redis://nobody.example", PATIENT_MS);
	for (int i = 0; i < 2; i++) {
		int value = 1;
		sem_post(&resolver_may_answer);
		while (value > 0) { /* taken: another look-up has begun */
			event_base_loop(base, EVLOOP_ONCE);
			assert_false(redis_async_connected(redis));
			sem_getvalue(&resolver_may_answer, &value);
		}
	}
}

/* At each of its steps: when it connects, when it greets. */
static void a_descriptor_that_may_not_be_watched_is_tried_again(void **state)
{
	for (int refused = 1; refused <= 3; refused++) {
		redis_async_free(redis);
		open_client(server.url, PATIENT_MS);
		watches_refused = refused;
		run_until_connected();
		assert_int_equal(watches_refused, 0);
		call();
		run_until_answered();
		assert_int_equal(calls.ok, 1);
	}
}

int main(void)
{
	alarm(300); /* what is never answered must fail, not hang */
	sem_init(&resolver_may_answer, 0, 0);
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(without_a_connection_a_call_fails_at_once_but_through_the_loop),
		TEST(calls_are_answered_once_and_in_order),
		TEST(a_callback_may_call_again),
		TEST(two_hundred_calls_to_a_slow_redis_all_fail_and_no_reply_shifts),
		TEST(a_younger_call_is_not_failed_with_its_elders_deadline),
		TEST(a_redis_that_does_not_greet_is_left_and_tried_again),
		TEST(a_killed_connection_fails_what_waits_and_comes_back),
		TEST(a_restarted_redis_is_found_again),
		TEST(an_error_reply_is_an_error_but_keeps_the_connection),
		TEST(a_forgotten_script_is_loaded_within_the_same_call),
		TEST(the_largest_read_is_answered),
		TEST(requests_and_replies_of_megabytes_are_whole),
		TEST(freeing_answers_every_call_even_those_made_meanwhile),
		TEST(cluster_mode_is_never_connected),
		TEST(whatever_happens_every_call_has_one_answer_its_own),
		TEST(a_resolver_that_hangs_does_not_hold_the_loop),
		TEST(a_name_without_an_address_is_looked_up_again),
		TEST(a_descriptor_that_may_not_be_watched_is_tried_again),
	};
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
