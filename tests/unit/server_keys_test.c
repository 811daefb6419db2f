/* Keys: routes that ask for scopes, keys that are revoked, and a keyring that must be read again before it is believed. */
#include "unit/server_fixture.h"

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

static const struct route routes[] = {
	{HTTP_METHOD_GET, "/secret", SCOPE_READ | SCOPE_STOCK, handle_secret},
	{HTTP_METHOD_GET, "/look", SCOPE_READ, handle_secret},
	{HTTP_METHOD_GET, "/as", 0, handle_as},
};
static const struct router router = {routes, COUNT(routes)};

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

static const struct CMUnitTest tests[] = {
	TEST(a_route_with_scopes_wants_a_key_that_has_them_all),
	TEST(a_revoked_key_is_forgotten_by_connections_that_used_it),
	TEST(a_keyring_that_is_not_fresh_opens_only_what_is_read),
	TEST(a_request_waits_for_the_keys_to_be_read),
	TEST(a_client_may_leave_while_he_waits_for_the_keys),
};

SERVER_MAIN(tests)
