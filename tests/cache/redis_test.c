/* The blocking client: deadlines hold, replies never shift, connections come back.
 *
 * The bug it guards against: a reply that comes after its caller has gone is taken for the reply to the next request,
 * and from then on every answer is that of the request before.
 */
#include "cache/redis.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"
#include "cache/cell.h"
#include "lib/redis_server.h"

#define FAR deadline_in_ms(30000)

static struct redis_server server;

static struct redis *client(const char *url)
{
	struct redis_address address;
	const char *why = NULL;
	if (!redis_address_parse(url, &address, &why))
		fail_msg("%s: %s", url, why);
	return redis_new(&address);
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

static int setup(void **state)
{
	*state = client(server.url);
	return 0;
}

static int teardown(void **state)
{
	redis_free(*state);
	return 0;
}

/* ECHO of a text no other call used: whoever gets another's reply gets another's text. */
static void assert_own_reply(struct redis *redis)
{
	static int unique;
	char text[32];
	snprintf(text, sizeof text, "reply %d", ++unique);
	redisReply *reply = NULL;
	if (redis_call(redis, 2, (struct text[]){TEXT("ECHO"), text_of(text)}, FAR, &reply) != LU_OK)
		fail_msg("%s", redis_error(redis));
	assert_int_equal(reply->type, REDIS_REPLY_STRING);
	assert_string_equal(reply->str, text);
	redis_reply_done(&reply);
}

static enum lu_error ping(struct redis *redis, int64_t deadline_ns)
{
	redisReply *reply = NULL;
	enum lu_error error = redis_call(redis, 1, (struct text[]){TEXT("PING")}, deadline_ns, &reply);
	assert_true((error == LU_OK) == (reply != NULL));
	redis_reply_done(&reply);
	return error;
}

static void send_echo(struct redis *redis, const char *text)
{
	assert_int_equal(redis_send(redis, 2, (struct text[]){TEXT("ECHO"), text_of(text)}, FAR), LU_OK);
}

static void receive_echo(struct redis *redis, const char *text)
{
	redisReply *reply = NULL;
	assert_int_equal(redis_receive(redis, FAR, &reply), LU_OK);
	assert_string_equal(reply->str, text);
	redis_reply_done(&reply);
}

/* --- replies ---------------------------------------------------------------------------------------------------- */

static void replies_come_in_the_order_of_the_requests(void **state)
{
	struct redis *redis = *state;
	send_echo(redis, "one");
	send_echo(redis, "two");
	receive_echo(redis, "one");
	send_echo(redis, "three");
	receive_echo(redis, "two");
	receive_echo(redis, "three");
	redisReply *reply = NULL;
	assert_int_equal(redis_receive(redis, FAR, &reply), LU_CACHE_UNAVAILABLE); /* nothing is outstanding */
	assert_null(reply);
	assert_own_reply(redis);
}

static void an_error_reply_is_an_error_but_keeps_the_connection(void **state)
{
	struct redis *redis = *state;
	redisReply *reply = NULL;
	assert_int_equal(redis_call(redis, 1, (struct text[]){TEXT("NOSUCHCOMMAND")}, FAR, &reply), LU_CACHE_UNAVAILABLE);
	assert_null(reply);
	assert_non_null(strstr(redis_error(redis), "NOSUCHCOMMAND"));
	assert_true(redis_connected(redis));
	assert_own_reply(redis);
}

static void a_reply_that_is_here_is_taken_even_after_the_deadline(void **state)
{
	struct redis *redis = *state, *other = client(server.url);
	send_echo(redis, "in time");
	/* Redis answers connections in turn, so when the other one is answered this one has been. */
	assert_int_equal(ping(other, FAR), LU_OK);
	assert_int_equal(ping(other, FAR), LU_OK);
	redisReply *reply = NULL;
	assert_int_equal(redis_receive(redis, clock_boottime_ns() - NS_PER_S, &reply), LU_OK);
	assert_string_equal(reply->str, "in time");
	redis_reply_done(&reply);
	redis_free(other);
}

static void requests_and_replies_of_megabytes_are_whole(void **state)
{
	struct redis *redis = *state;
	size_t size = 20 * 1000 * 1000;
	char *bytes = malloc(size);
	for (size_t i = 0; i < size; i++)
		bytes[i] = (char)(i * 2654435761u >> 13);
	redisReply *reply = NULL;
	assert_int_equal(redis_call(redis, 2, (struct text[]){TEXT("ECHO"), {bytes, size}}, FAR, &reply), LU_OK);
	assert_int_equal(reply->len, size);
	assert_memory_equal(reply->str, bytes, size);
	redis_reply_done(&reply);
	free(bytes);
}

/* --- deadlines -------------------------------------------------------------------------------------------------- */

static void a_late_reply_never_answers_the_next_request(void **state)
{
	struct redis *redis = *state;
	for (int i = 0; i < 20; i++) {
		assert_own_reply(redis);
		redis_server_pause(&server); /* takes requests, answers nothing */
		assert_int_equal(ping(redis, deadline_in_ms(10)), LU_CACHE_UNAVAILABLE);
		assert_false(redis_connected(redis));
		redis_server_resume(&server); /* and now it answers */
		assert_own_reply(redis);
	}
}

static void a_timeout_takes_all_outstanding_requests_along(void **state)
{
	struct redis *redis = *state;
	assert_own_reply(redis);
	redis_server_pause(&server);
	send_echo(redis, "lost 1");
	send_echo(redis, "lost 2");
	redisReply *reply = NULL;
	assert_int_equal(redis_receive(redis, deadline_in_ms(10), &reply), LU_CACHE_UNAVAILABLE);
	assert_non_null(strstr(redis_error(redis), "in time"));
	redis_server_resume(&server);
	assert_int_equal(redis_receive(redis, FAR, &reply), LU_CACHE_UNAVAILABLE);
	assert_null(reply);
	assert_own_reply(redis);
}

static void a_request_that_is_not_taken_in_time_fails(void **state)
{
	struct redis *redis = *state;
	size_t size = 50 * 1000 * 1000; /* more than any socket buffer */
	char *bytes = calloc(1, size);
	assert_own_reply(redis);
	redis_server_pause(&server);
	assert_int_equal(redis_send(redis, 2, (struct text[]){TEXT("ECHO"), {bytes, size}}, deadline_in_ms(10)),
	                 LU_CACHE_UNAVAILABLE);
	assert_false(redis_connected(redis));
	redis_server_resume(&server);
	free(bytes);
	assert_own_reply(redis);
}

static void connecting_to_a_redis_that_does_not_answer_ends_in_time(void **state)
{
	struct redis *redis = *state;
	redis_server_pause(&server); /* the kernel accepts, nobody greets */
	assert_int_equal(redis_connect(redis, deadline_in_ms(10)), LU_CACHE_UNAVAILABLE);
	assert_false(redis_connected(redis));
	redis_server_resume(&server);
}

/* --- connections ------------------------------------------------------------------------------------------------ */

static void an_idle_connection_that_redis_closed_costs_no_error(void **state)
{
	struct redis *redis = *state;
	for (int i = 0; i < 10; i++) {
		assert_own_reply(redis);
		free(redis_server_command(&server, "CLIENT KILL TYPE normal SKIPME yes"));
		assert_own_reply(redis);
	}
}

static void a_restarted_redis_is_found_again(void **state)
{
	struct redis *redis = *state;
	assert_own_reply(redis);
	redis_server_restart(&server);
	assert_own_reply(redis);
	send_echo(redis, "lost");
	redis_server_kill(&server);
	redisReply *reply = NULL;
	/* Either it was answered before the kill, or it is lost; never something else. */
	enum lu_error error = redis_receive(redis, FAR, &reply);
	assert_true(error == LU_CACHE_UNAVAILABLE || strcmp(reply->str, "lost") == 0);
	redis_reply_done(&reply);
	assert_int_equal(ping(redis, FAR), LU_CACHE_UNAVAILABLE);
	redis_server_restart(&server);
	/* The last attempt failed less than 50 ms ago, perhaps. */
	while (redis_connect(redis, FAR) != LU_OK)
		poll(NULL, 0, 1);
	assert_own_reply(redis);
}

static void credentials_and_database_are_sent(void **state)
{
	struct redis_server guarded;
	redis_server_start(&guarded, "user default off\nuser app on >s@cret ~* +@all\nuser old on >plain ~* +@all\n");
	char url[192];
	snprintf(url, sizeof url, "unix://app:s%%40cret@%s?db=2", guarded.socket);
	struct redis *redis = client(url);
	redisReply *reply = NULL;
	assert_int_equal(redis_call(redis, 2, (struct text[]){TEXT("CLIENT"), TEXT("INFO")}, FAR, &reply), LU_OK);
	assert_non_null(strstr(reply->str, " db=2 "));
	assert_non_null(strstr(reply->str, " user=app "));
	redis_reply_done(&reply);
	redis_free(redis);

	static const struct {
		const char *format, *word;
	} wrong[] = {
		{"unix://app:wrong@%s", "WRONGPASS"},
		{"unix://%s", "NOAUTH"},
		{"unix://app:s%%40cret@%s?db=99", "out of range"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(url, sizeof url, wrong[i].format, guarded.socket);
#pragma GCC diagnostic pop
		redis = client(url);
		assert_int_equal(redis_connect(redis, FAR), LU_CACHE_UNAVAILABLE);
		assert_false(redis_connected(redis));
		if (!strstr(redis_error(redis), wrong[i].word))
			fail_msg("%s: %s", url, redis_error(redis));
		redis_free(redis);
	}
	redis_server_stop(&guarded);

	redis_server_start(&guarded, "requirepass plain\n");
	snprintf(url, sizeof url, "unix://:plain@%s", guarded.socket);
	redis = client(url);
	assert_own_reply(redis);
	redis_free(redis);
	redis_server_stop(&guarded);
}

static void cluster_mode_is_refused_with_a_sentence(void **state)
{
	struct redis_server cluster;
	redis_server_start(&cluster, "cluster-enabled yes\ndatabases 1\n");
	struct redis *redis = client(cluster.url);
	assert_int_equal(redis_connect(redis, FAR), LU_CACHE_UNAVAILABLE);
	assert_false(redis_connected(redis));
	assert_non_null(strstr(redis_error(redis), "cluster mode"));
	redis_free(redis);
	redis_server_stop(&cluster);
}

static void tcp_works_as_the_socket_does(void **state)
{
	struct redis *redis = client(server.url_tcp);
	assert_own_reply(redis);
	redis_free(redis);
	char url[64];
	snprintf(url, sizeof url, "redis://127.0.0.1:%d/3", server.port);
	redis = client(url);
	assert_own_reply(redis);
	redis_free(redis);
}

/* --- scripts ---------------------------------------------------------------------------------------------------- */

static void a_forgotten_script_is_loaded_within_the_same_call(void **state)
{
	struct redis *redis = *state;
	struct arena arena;
	arena_init(&arena, 4096);
	char identity[160];
	const struct text ns = TEXT("lu:forgotten"), sku = TEXT("A");
	assert_int_equal(cell_redis_identity(redis, FAR, identity), LU_OK);
	assert_int_equal(cell_guard_set(redis, ns, identity, FAR), LU_OK);
	const int64_t version = 1;
	struct cell_call mark = cell_intend(&arena, ns, TEXT("m"), &sku, &version, 1);
	for (int i = 0; i < 3; i++) {
		free(redis_server_command(&server, "SCRIPT FLUSH"));
		redisReply *reply = NULL;
		assert_int_equal(cell_run(redis, mark, 1, FAR, &reply), CELL_OK);
		redis_reply_done(&reply);
		char *exists = redis_server_command(&server, arena_printf(&arena, "SCRIPT EXISTS %s", mark.argv[1].data).data);
		assert_string_equal(exists, "1"); /* so the next call finds it */
		free(exists);
	}

	/* Among others under way: everyone still gets his own, in order. */
	free(redis_server_command(&server, "SCRIPT FLUSH"));
	send_echo(redis, "before");
	assert_int_equal(redis_send(redis, mark.argc, mark.argv, FAR), LU_OK);
	send_echo(redis, "between");
	assert_int_equal(redis_send(redis, mark.argc, mark.argv, FAR), LU_OK);
	send_echo(redis, "behind");
	redisReply *reply = NULL;
	receive_echo(redis, "before");
	assert_int_equal(redis_receive(redis, FAR, &reply), LU_OK);
	assert_int_equal(cell_reply_kind(reply, 1), CELL_OK);
	redis_reply_done(&reply);
	receive_echo(redis, "between");
	assert_int_equal(redis_receive(redis, FAR, &reply), LU_OK);
	assert_int_equal(cell_reply_kind(reply, 1), CELL_OK);
	redis_reply_done(&reply);
	receive_echo(redis, "behind");
	arena_done(&arena);
}

/* --- a server that misbehaves ----------------------------------------------------------------------------------- */

/* Accepts connections one after the other. On each it answers the greeting, then plays the next script: a text sent
 * byte by byte when the first request has come, then the connection is closed (or kept, if `keep`). */
struct rogue {
	char directory[64], path[96], url[128];
	const char *const *plays;
	int listener;
	atomic_int accepted;
	bool greet; /* else it closes at once, for ever */
	pthread_t thread;
};

static void *rogue_run(void *context)
{
	struct rogue *rogue = context;
	for (const char *const *play = rogue->plays; !rogue->greet || *play; play += rogue->greet) {
		int fd = accept(rogue->listener, NULL, NULL);
		if (fd < 0)
			break;
		atomic_fetch_add(&rogue->accepted, 1);
		static const char info[] = "$30\r\n# Cluster\r\ncluster_enabled:0\r\n\r\n";
		char request[256];
		if (rogue->greet && recv(fd, request, sizeof request, 0) > 0 &&
		    send(fd, info, sizeof info - 1, MSG_NOSIGNAL) > 0 && recv(fd, request, sizeof request, 0) > 0)
			for (const char *byte = *play; *byte; byte++)
				if (send(fd, byte, 1, MSG_NOSIGNAL) != 1)
					break;
		close(fd);
	}
	return NULL;
}

static void rogue_start(struct rogue *rogue, const char *const *plays)
{
	*rogue = (struct rogue){.plays = plays, .greet = plays != NULL, .directory = "/tmp/lu-rogue-XXXXXX"};
	assert_non_null(mkdtemp(rogue->directory));
	snprintf(rogue->path, sizeof rogue->path, "%s/s", rogue->directory);
	snprintf(rogue->url, sizeof rogue->url, "unix://%s", rogue->path);
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	strcpy(address.sun_path, rogue->path);
	rogue->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(rogue->listener, (struct sockaddr *)&address, sizeof address), 0);
	assert_int_equal(listen(rogue->listener, 128), 0);
	assert_int_equal(pthread_create(&rogue->thread, NULL, rogue_run, rogue), 0);
}

static void rogue_stop(struct rogue *rogue)
{
	shutdown(rogue->listener, SHUT_RDWR);
	pthread_join(rogue->thread, NULL);
	close(rogue->listener);
	unlink(rogue->path);
	rmdir(rogue->directory);
}

static void a_reply_in_single_bytes_is_whole_and_rubbish_closes(void **state)
{
	static const struct {
		const char *sent;
		enum lu_error error;
	} cases[] = {
		{"+PONG\r\n", LU_OK},
		{"$3\r\na\nb\r\n", LU_OK},
		{"*2\r\n$1\r\na\r\n*1\r\n:7\r\n", LU_OK},
		{"", LU_CACHE_UNAVAILABLE},
		{"+PON", LU_CACHE_UNAVAILABLE},
		{"$3\r\nab", LU_CACHE_UNAVAILABLE},
		{"HTTP/1.1 200 OK\r\n\r\n", LU_CACHE_UNAVAILABLE},
		{"*1000000\r\n:1\r\n", LU_CACHE_UNAVAILABLE},
		{"\r\n", LU_CACHE_UNAVAILABLE},
		{"-ERR no\r\n", LU_CACHE_UNAVAILABLE},
		{"-NOSCRIPT of yours\r\n", LU_CACHE_UNAVAILABLE},
	};
	enum { N = sizeof cases / sizeof *cases };
	const char *plays[N + 1] = {0};
	for (size_t i = 0; i < N; i++)
		plays[i] = cases[i].sent;
	struct rogue rogue;
	rogue_start(&rogue, plays);
	for (size_t i = 0; i < N; i++) {
		struct redis *redis = client(rogue.url);
		if (ping(redis, FAR) != cases[i].error)
			fail_msg("case %zu: %s", i, redis_error(redis));
		redis_free(redis);
	}
	rogue_stop(&rogue);
}

static void a_dead_redis_is_tried_once_in_fifty_milliseconds(void **state)
{
	struct rogue rogue;
	rogue_start(&rogue, NULL); /* accepts and closes */
	struct redis *redis = client(rogue.url);
	int64_t from_ns = clock_boottime_ns();
	for (int i = 0; i < 100000; i++)
		assert_int_equal(redis_connect(redis, FAR), LU_CACHE_UNAVAILABLE);
	int64_t periods = (clock_boottime_ns() - from_ns) / (50 * NS_PER_MS);
	redis_free(redis);
	rogue_stop(&rogue);
	assert_in_range(atomic_load(&rogue.accepted), 1, 1 + periods);
}

/* --- names: this getaddrinfo() stands before the C library's ---------------------------------------------------- */

static sem_t resolver_may_answer;
static atomic_int resolver_calls;

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **result)
{
	static const char *const addresses[] = {"127.0.0.2", "127.0.0.1"}; /* nobody listens on the first */
	bool numeric = hints && (hints->ai_flags & AI_NUMERICHOST), literal = strcmp(node, "127.0.0.1") == 0;
	if (numeric && !literal)
		return EAI_NONAME;
	if (!literal) {
		atomic_fetch_add(&resolver_calls, 1);
		if (strcmp(node, "nobody.example") == 0)
			return EAI_NONAME;
		if (strcmp(node, "slow.example") == 0)
			while (sem_wait(&resolver_may_answer) < 0)
				;
	}
	struct addrinfo *list = NULL;
	for (size_t i = literal ? 1 : 0; i < 2; i++) {
		struct addrinfo *info = calloc(1, sizeof *info + sizeof(struct sockaddr_in)), **last = &list;
		CHECK(info);
		struct sockaddr_in *in = (struct sockaddr_in *)(info + 1);
		in->sin_family = AF_INET;
		in->sin_port = htons((uint16_t)atoi(service));
		inet_pton(AF_INET, addresses[i], &in->sin_addr);
		*info = (struct addrinfo){.ai_family = AF_INET, .ai_addr = (struct sockaddr *)in, .ai_addrlen = sizeof *in};
		while (*last)
			last = &(*last)->ai_next;
		*last = info;
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

static struct redis *client_named(const char *host)
{
	char url[64];
	snprintf(url, sizeof url, "redis://%s:%d", host, server.port);
	return client(url);
}

static void the_second_address_of_a_name_is_tried(void **state)
{
	struct redis *redis = client_named("two.example");
	assert_own_reply(redis);
	redis_free(redis);
}

static void a_name_without_an_address_is_an_error(void **state)
{
	struct redis *redis = client_named("nobody.example");
	assert_int_equal(redis_connect(redis, FAR), LU_CACHE_UNAVAILABLE);
	assert_non_null(strstr(redis_error(redis), "cannot resolve nobody.example"));
	redis_free(redis);
}

static void a_resolver_that_hangs_holds_nobody_beyond_his_deadline(void **state)
{
	int before = atomic_load(&resolver_calls);
	struct redis *redis = client_named("slow.example"), *forsaken = client_named("slow.example");
	assert_int_equal(redis_connect(forsaken, deadline_in_ms(10)), LU_CACHE_UNAVAILABLE);
	redis_free(forsaken); /* its look-up is still under way */
	for (int i = 0; i < 3; i++) {
		assert_int_equal(redis_connect(redis, deadline_in_ms(10)), LU_CACHE_UNAVAILABLE);
		assert_non_null(strstr(redis_error(redis), "not resolved in time"));
		clock_sleep_until(deadline_in_ms(51)); /* past the pause between attempts */
	}
	sem_post(&resolver_may_answer);
	sem_post(&resolver_may_answer);
	assert_own_reply(redis);
	redis_free(redis);
	assert_in_range(atomic_load(&resolver_calls), before + 1, before + 2); /* its attempts waited for one look-up */
}

int main(void)
{
	alarm(300); /* what is never answered must fail, not hang */
	sem_init(&resolver_may_answer, 0, 0);
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(replies_come_in_the_order_of_the_requests),
		TEST(an_error_reply_is_an_error_but_keeps_the_connection),
		TEST(a_reply_that_is_here_is_taken_even_after_the_deadline),
		TEST(requests_and_replies_of_megabytes_are_whole),
		TEST(a_late_reply_never_answers_the_next_request),
		TEST(a_timeout_takes_all_outstanding_requests_along),
		TEST(a_request_that_is_not_taken_in_time_fails),
		TEST(connecting_to_a_redis_that_does_not_answer_ends_in_time),
		TEST(an_idle_connection_that_redis_closed_costs_no_error),
		TEST(a_restarted_redis_is_found_again),
		TEST(credentials_and_database_are_sent),
		TEST(cluster_mode_is_refused_with_a_sentence),
		TEST(tcp_works_as_the_socket_does),
		TEST(a_forgotten_script_is_loaded_within_the_same_call),
		TEST(a_reply_in_single_bytes_is_whole_and_rubbish_closes),
		TEST(a_dead_redis_is_tried_once_in_fifty_milliseconds),
		TEST(the_second_address_of_a_name_is_tried),
		TEST(a_name_without_an_address_is_an_error),
		TEST(a_resolver_that_hangs_holds_nobody_beyond_his_deadline),
	};
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
