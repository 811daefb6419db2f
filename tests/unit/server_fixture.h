/* What the tests of the server share: a real server on 127.0.0.1 with the routes of the program, requests that their
 * handler keeps until the test lets them go, and words for what clients are answered. */
#ifndef UNIT_SERVER_FIXTURE_H
#define UNIT_SERVER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <openssl/evp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
#define WAIT_MS 20000

/* Each program defines it, behind its handlers. */
static const struct router router;

/* --- handlers that several programs have ---------------------------------------------------------------------------- */

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

static inline void handle_hello(struct request *request)
{
	request_reply(request, 200, "text/plain", TEXT("hello"));
}

static inline void handle_echo(struct request *request)
{
	request_reply(request, 200, "application/octet-stream", request_body(request));
}

static inline void on_release(struct mailbox_item *item)
{
	struct held *held = (struct held *)item;
	struct text path = request_path(held->request);
	request_reply(held->request, 200, "text/plain", path);
}

static inline void handle_hold(struct request *request)
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
static inline struct held *take_held(void)
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

static inline void release(struct held *held)
{
	mailbox_post(server_loop_mailbox(held->loop), &held->item);
}

static inline void handle_params(struct request *request)
{
	struct text a = request_param(request, 0), b = request_param(request, 1);
	request_reply(request, 200, "text/plain",
	              arena_printf(request_arena(request), "<%.*s><%.*s>", (int)a.size, a.data, (int)b.size, b.data));
}

static struct {
	pthread_t thread;
} loop_places[64];

static inline void *on_loop_start(struct server_loop *loop, void *context)
{
	CHECK(context == &app);
	unsigned i = __atomic_fetch_add(&app.loops_started, 1, __ATOMIC_RELAXED);
	loop_places[i].thread = pthread_self();
	return &loop_places[i];
}

static inline void on_loop_stop(void *loop_context, void *context)
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

static inline struct server *serve(const struct config *config)
{
	const char *why = NULL;
	app.loops_started = app.loops_stopped = app.wrong_threads = 0;
	struct server *server = server_start(config, &router, (struct server_hooks){on_loop_start, on_loop_stop, &app},
	                                     &why);
	if (!server)
		print_error("%s\n", why);
	assert_non_null(server);
	return server;
}

static inline void stop(struct server *server)
{
	server_stop(server);
	server_free(server);
}

static inline void await_connections(int64_t count)
{
	int64_t deadline = deadline_in_ms(WAIT_MS);
	while (metric_get(METRIC_HTTP_CONNECTIONS) != count && clock_boottime_ns() < deadline)
		clock_sleep_until(deadline_in_ms(1));
	assert_int_equal(metric_get(METRIC_HTTP_CONNECTIONS), count);
}

static inline int setup(void **state)
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

static inline int teardown(void **state)
{
	struct place *place = *state;
	if (place->server)
		stop(place->server);
	keyring_free(place->keyring);
	free(place);
	return metric_get(METRIC_HTTP_CONNECTIONS) == 0 ? 0 : -1;
}

static inline struct http_client client_of(void **state)
{
	return http_client(server_address(((struct place *)*state)->server), NULL);
}

static inline void assert_call(struct http_client *client, const char *method, const char *path, const char *fields,
                               const char *body, int status, struct http_answer *answer)
{
	if (!http_client_call(client, method, path, fields, body, answer))
		fail_msg("%s %s: %s", method, path, client->error);
	if (answer->status != status)
		fail_msg("%s %s: %d, not %d: %s", method, path, answer->status, status, answer->body);
}

static inline void assert_problem(const struct http_answer *answer, int status, const char *code)
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

static inline void assert_read(struct http_client *client, struct http_answer *answer)
{
	if (!http_client_read(client, false, answer))
		fail_msg("%s", client->error);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define SERVER_MAIN(tests)                                \
	int main(void)                                        \
	{                                                     \
		signal(SIGPIPE, SIG_IGN);                         \
		clock_cond_init(&app.cond);                       \
		return cmocka_run_group_tests(tests, NULL, NULL); \
	}

#endif
