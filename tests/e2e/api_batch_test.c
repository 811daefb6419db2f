/* The API against the real service: batches, whose entries are answered each by itself, in their order. */
#include "e2e/api_fixture.h"

#include <unistd.h>

static void batch(const char *key, const char *body, int status)
{
	call(key, "POST", "/v1/batch", NULL, body, status);
}

static void a_batch_answers_each_by_itself(void **state)
{
	service_create_sku(&service, "TILL", 5);
	service_create_sku(&service, "TILL-2", 1);
	char id[37], sold[37], body[2000];
	assert_int_equal(service_reserve(&service, service.key_admin, NULL, "TILL", 1, 60, id), 201);
	call(service.key_admin, "POST", "/v1/checkouts", "Idempotency-Key: till-0\r\n",
	     "{\"lines\":[{\"sku\":\"TILL-2\",\"quantity\":1}]}", 201);
	snprintf(sold, sizeof sold, "%s", answer_string(&answer, "id"));
	snprintf(
		body, sizeof body,
		"{\"operations\":["
		"{\"operation\":\"checkout\",\"idempotency_key\":\"till-1\",\"lines\":[{\"sku\":\"TILL\",\"quantity\":1}]},"
		"{\"operation\":\"checkout\",\"idempotency_key\":\"till-2\",\"lines\":[{\"sku\":\"TILL\",\"quantity\":9}]},"
		"{\"operation\":\"reserve\",\"idempotency_key\":\"till-3\",\"lines\":[{\"sku\":\"TILL\",\"quantity\":1}]},"
		"{\"operation\":\"commit\",\"reservation_id\":\"%s\"},"
		"{\"operation\":\"cancel\",\"checkout_id\":\"%s\",\"idempotency_key\":\"till-4\"},"
		"{\"operation\":\"adjustment\",\"idempotency_key\":\"till-5\",\"reason\":\"found\","
		"\"lines\":[{\"sku\":\"TILL-2\",\"delta\":2}]},"
		"{\"operation\":\"release\",\"reservation_id\":\"" NO_ID
		"\"},"
		"{\"operation\":\"checkout\",\"lines\":[{\"sku\":\"TILL\",\"quantity\":1}]},"
		"{\"operation\":\"checkout\",\"idempotency_key\":\"till-6\",\"lines\":[{\"sku\":\"TILL\",\"quantity\":1.5}]},"
		"{\"operation\":\"steal\"},7,"
		"{\"operation\":\"checkout\",\"idempotency_key\":\"till-1\",\"lines\":[{\"sku\":\"TILL\",\"quantity\":1}]}"
		"]}",
		id, sold);
	static const int expected[] = {201, 409, 201, 200, 200, 201, 404, 400, 422, 422, 400, 201};
	batch(service.key_admin, body, 200);
	assert_int_equal(json_array_size(answer_at(&answer, "results")), 12);
	for (int i = 0; i < 12; i++) {
		char path[40];
		snprintf(path, sizeof path, "results.%d.status", i);
		if (answer_int(&answer, path) != expected[i])
			fail_msg("result %d is %lld instead of %d: %s", i, (long long)answer_int(&answer, path), expected[i],
			         answer.body);
	}
	assert_string_equal(answer_string(&answer, "results.0.body.status"), "completed");
	assert_int_equal(answer_int(&answer, "results.1.body.lines.0.requested"), 9);
	assert_string_equal(answer_string(&answer, "results.2.body.status"), "active");
	assert_string_equal(answer_string(&answer, "results.3.body.reservation_id"), id);
	assert_string_equal(answer_string(&answer, "results.4.body.status"), "cancelled");
	assert_string_equal(answer_string(&answer, "results.6.body.code"), "unknown_reservation");
	assert_string_equal(answer_string(&answer, "results.7.body.code"), "idempotency_key_required");
	assert_non_null(strstr(answer_string(&answer, "results.7.body.detail"),
	                       "`operations[7].idempotency_key` is missing: in a batch each entry has its own"));
	assert_null(strstr(answer_string(&answer, "results.7.body.detail"), "Send `Idempotency-Key:"));
	assert_non_null(strstr(answer_string(&answer, "results.8.body.detail"), "lines[0].quantity"));
	/* The same key twice in one batch: one effect. */
	assert_true(json_is_true(answer_at(&answer, "results.11.idempotent_replayed")));
	assert_string_equal(answer_string(&answer, "results.11.body.id"), answer_string(&answer, "results.0.body.id"));
	row_is("TILL", 3, 1);
	row_is("TILL-2", 3, 0);
	/* The till was cut off and sends everything again (B51). */
	batch(service.key_admin, body, 200);
	assert_true(json_is_true(answer_at(&answer, "results.0.idempotent_replayed")));
	assert_true(json_is_true(answer_at(&answer, "results.1.idempotent_replayed")));
	assert_int_equal(answer_int(&answer, "results.1.status"), 409);
	row_is("TILL", 3, 1);
	row_is("TILL-2", 3, 0);
}

/* An entry that names an object is read up first; nobody behind it may use the detour to overtake. */
static void a_batch_is_done_in_its_order(void **state)
{
	enum { ROUNDS = 20 };
	char sold[37], held[37], body[1600];
	service_create_sku(&service, "TURN", 1);
	service_create_sku(&service, "TURN-2", 1);
	assert_int_equal(service_reserve(&service, service.key_web, NULL, "TURN-2", 1, 600, held), 201);
	post("/v1/checkouts", "{\"lines\":[{\"sku\":\"TURN\",\"quantity\":1}]}", 201);
	for (int i = 0; i < ROUNDS; i++) {
		snprintf(sold, sizeof sold, "%s", answer_string(&answer, i ? "results.2.body.id" : "id"));
		snprintf(
			body, sizeof body,
			"{\"operations\":["
			"{\"operation\":\"checkout\",\"idempotency_key\":\"%s\",\"lines\":[{\"sku\":\"TURN\",\"quantity\":1}]},"
			"{\"operation\":\"cancel\",\"checkout_id\":\"%s\",\"idempotency_key\":\"%s\"},"
			"{\"operation\":\"checkout\",\"idempotency_key\":\"%s\",\"lines\":[{\"sku\":\"TURN\",\"quantity\":1}]},"
			"{\"operation\":\"release\",\"reservation_id\":\"%s\"},"
			"{\"operation\":\"commit\",\"reservation_id\":\"%s\"},"
			"{\"operation\":\"reserve\",\"idempotency_key\":\"%s\",\"lines\":[{\"sku\":\"TURN-2\",\"quantity\":1}],"
			"\"ttl_seconds\":600}]}",
			service_new_key(), sold, service_new_key(), service_new_key(), held, held, service_new_key());
		batch(service.key_web, body, 200);
		static const int expected[] = {409, 200, 201, 200, 409, 201};
		for (int j = 0; j < 6; j++) {
			char path[40];
			snprintf(path, sizeof path, "results.%d.status", j);
			if (answer_int(&answer, path) != expected[j])
				fail_msg("round %d, result %d is %lld instead of %d: %s", i, j, (long long)answer_int(&answer, path),
				         expected[j], answer.body);
		}
		snprintf(held, sizeof held, "%s", answer_string(&answer, "results.5.body.id"));
	}
	assert_int_equal(service_end(&service, service.key_web, held, "release"), 200);
	row_is("TURN", 0, 0);
	row_is("TURN-2", 1, 0);
}

static void a_batch_asks_for_the_scope_of_each(void **state)
{
	service_create_sku(&service, "SCOPE", 5);
	batch(service.key_pos,
	      "{\"operations\":[{\"operation\":\"adjustment\",\"idempotency_key\":\"s-1\",\"reason\":\"x\","
	      "\"lines\":[{\"sku\":\"SCOPE\",\"delta\":1}]},"
	      "{\"operation\":\"checkout\",\"idempotency_key\":\"s-2\",\"lines\":[{\"sku\":\"SCOPE\",\"quantity\":1}]}]}",
	      200);
	assert_int_equal(answer_int(&answer, "results.0.status"), 403);
	assert_int_equal(answer_int(&answer, "results.1.status"), 201);
	row_is("SCOPE", 4, 0);
}

#define LONG_CODE "LONG-%03d-%0118d" /* 128 bytes */
#define LONG_LINES 1000

static void create_long_codes(void)
{
	char path[] = "/tmp/lastunit-long-XXXXXX";
	FILE *file = fdopen(mkstemp(path), "w");
	fputs("sku,on_hand\n", file);
	for (int i = 0; i < LONG_LINES; i++)
		fprintf(file, LONG_CODE ",1000\n", i, 0);
	fclose(file);
	assert_int_equal(service_run(&service, (const char *[]){"import", path, NULL}), 0);
	unlink(path);
}

/* A release of a hundred bytes is answered with a thousand lines. */
static void a_batch_whose_answers_are_too_long_leaves_its_rest_undone(void **state)
{
	enum { HOLDS = 40, WAVE = 32 };
	char code[129], path[50], *body = malloc(200 * LONG_LINES), *to = body + sprintf(body, "{\"lines\":[");
	char *batch_body = malloc(HOLDS * 100), *end = batch_body + sprintf(batch_body, "{\"operations\":[");
	create_long_codes();
	snprintf(code, sizeof code, LONG_CODE, 0, 0);
	for (int i = 0; i < LONG_LINES; i++)
		to += sprintf(to, "%s{\"sku\":\"" LONG_CODE "\",\"quantity\":1}", i ? "," : "", i, 0);
	strcpy(to, "]}");
	for (int i = 0; i < HOLDS; i++) {
		post("/v1/reservations", body, 201);
		end += sprintf(end, "%s{\"operation\":\"release\",\"reservation_id\":\"%s\"}", i ? "," : "",
		               answer_string(&answer, "id"));
	}
	strcpy(end, "]}");
	batch(service.key_web, batch_body, 200);
	assert_in_range(answer.body_size, 4 << 20, 6 << 20);
	for (int i = 0; i < HOLDS; i++) {
		snprintf(path, sizeof path, "results.%d.status", i);
		assert_int_equal(answer_int(&answer, path), i < WAVE ? 200 : 503);
	}
	assert_string_equal(answer_string(&answer, "results.39.body.code"), "overloaded");
	assert_non_null(strstr(answer_string(&answer, "results.39.body.detail"), "in a batch of their own"));
	row_is(code, 1000, HOLDS - WAVE);
	free(body);
	free(batch_body);
}

static void a_batch_has_one_to_a_thousand_entries(void **state)
{
	service_create_sku(&service, "QUEUE", 2000);
	batch(service.key_pos, "{\"operations\":[]}", 422);
	batch(service.key_pos, "{\"operation\":[]}", 422);
	problem("invalid_field", "`operation`");
	batch(service.key_pos, "[]", 400);
	char *body = malloc(200000), *to = body + sprintf(body, "{\"operations\":[");
	for (int i = 0; i < 1000; i++)
		to += sprintf(to,
		              "%s{\"operation\":\"checkout\",\"idempotency_key\":\"queue-%d\",\"lines\":[{\"sku\":\"QUEUE\","
		              "\"quantity\":1}]}",
		              i ? "," : "", i);
	strcpy(to, "]}");
	batch(service.key_pos, body, 200);
	assert_int_equal(json_array_size(answer_at(&answer, "results")), 1000);
	for (size_t i = 0; i < 1000; i++) {
		json_t *result = json_array_get(answer_at(&answer, "results"), i);
		assert_int_equal(json_integer_value(json_object_get(result, "status")), 201);
	}
	row_is("QUEUE", 1000, 0);
	strcpy(to, ",{}]}");
	batch(service.key_pos, body, 422);
	problem("invalid_field", "1000");
	row_is("QUEUE", 1000, 0);
	free(body);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_batch_answers_each_by_itself),
	cmocka_unit_test(a_batch_is_done_in_its_order),
	cmocka_unit_test(a_batch_asks_for_the_scope_of_each),
	cmocka_unit_test(a_batch_whose_answers_are_too_long_leaves_its_rest_undone),
	cmocka_unit_test(a_batch_has_one_to_a_thousand_entries),
};

API_MAIN(tests)
