/* Ailing backends and bodies that are not what they seem, as far as they can be seen from outside; hostile clients by the
 * thousand are in mob_test.c.
 *
 * Each test is named after the fault it guards against: a Redis that is slow but alive (b86), a body that is too
 * large to be sent at all (b89), buffers full on both sides of a connection to PostgreSQL (b91), sockets that
 * change under a reconnect (b92), memory lost on an error path (b94), numbers that arrive as others (b95), bodies
 * taken for C strings (b96).
 */
#include "lib/shop.h"

#include <signal.h>

#include "lib/http_client.h"
#include "lib/process.h"

#define CLIENTS 16

/* Nobody's connection but ours, and no descriptor more than before; its own to PostgreSQL and Redis come and go. */
static void nothing_is_left(pid_t serve, int files)
{
	shop_wait_until(shop_metric(&shop, "lastunit_http_connections") <= 1);
	shop_wait_until(process_open_files(serve) <= files + 16);
}

/* --- B89 ---------------------------------------------------------------------------------------------------------- */

static void b89_a_body_beyond_the_limit_is_told_before_it_is_sent(void **state)
{
	struct http_client client = http_client(shop.url, shop.key_web);
	struct http_answer answer = {0};
	assert_true(
		http_client_send_text(&client, shop_text("POST /v1/checkouts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer"
	                                             " %s\r\nContent-Type: application/json\r\nExpect: 100-continue"
	                                             "\r\nContent-Length: 1048577\r\n\r\n",
	                                             shop.key_web)));
	assert_true(http_client_read(&client, false, &answer));
	assert_int_equal(answer.status, 413);
	assert_int_equal(answer.continues, 0);
	assert_true(answer.close);
	http_client_close(&client);
	/* And one within it is asked for. */
	assert_true(
		http_client_send_text(&client, shop_text("POST /v1/availability HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer"
	                                             " %s\r\nContent-Type: application/json\r\nExpect: 100-continue"
	                                             "\r\nContent-Length: 17\r\n\r\n",
	                                             shop.key_web)));
	char line[64];
	size_t size;
	assert_true(http_client_read_some(&client, line, sizeof line, &size));
	assert_memory_equal(line, "HTTP/1.1 100", 12);
	assert_true(http_client_send_text(&client, "{\"skus\":[\"NONE\"]}"));
	assert_true(http_client_read(&client, false, &answer));
	assert_int_equal(answer.status, 200);
	http_answer_done(&answer);
	http_client_done(&client);
}

/* --- B86 ---------------------------------------------------------------------------------------------------------- */

static void b86_read(int index, void *context)
{
	for (int i = 0; i < 20; i++)
		tally_add(context, service_see(&shop, "B86").status);
}

static void b86_sleep(int index, void *context)
{
	free(shop_redis(context));
}

static void b86_a_redis_that_is_slow_or_idle_costs_no_answer(void **state)
{
	struct tally tally = {0};
	service_create_sku(&shop, "B86", 5);
	shop_warm(&shop, "B86");
	struct crowd *sleeper = crowd_begin(1, b86_sleep, "DEBUG SLEEP 2");
	crowd_run(20, b86_read, &tally);
	crowd_end(sleeper);
	assert_string_equal(tally_text(&tally), "400 x 200");
	/* It closes by itself again, without anybody's help. */
	shop_warm(&shop, "B86");
	/* Links that Redis drops because nobody used them are made anew before anybody notices. */
	free(shop_redis("CONFIG SET timeout 1"));
	shop_sleep_ms(2500);
	int64_t closes = shop_metric(&shop, "lastunit_epoch_closes_total");
	shop_expect_seen(&shop, "B86", 5, 0);
	assert_int_equal(service_sell(&shop, shop.key_web, NULL, "B86", 1), 201);
	shop_expect_seen(&shop, "B86", 4, 0);
	printf("epochs closed for idle links: %lld\n",
	       (long long)(shop_metric(&shop, "lastunit_epoch_closes_total") - closes));
	free(shop_redis("CONFIG SET timeout 0"));
	shop_warm(&shop, "B86");
	shop_expect_seen(&shop, "B86", 4, 0);
}

/* --- B91, B92 ----------------------------------------------------------------------------------------------------- */

static void b91_buffers_full_on_both_sides_are_no_deadlock(void **state)
{
	shop_sql("INSERT INTO lastunit.sku (code, on_hand) SELECT 'B91-' || n, 1000 FROM generate_series(0, 999) n");
	char *lines = malloc(60000), *to = lines;
	for (int i = 0; i < 1000; i++)
		to += sprintf(to, "%s{\"sku\":\"B91-%d\",\"quantity\":1}", i ? "," : "", i);
	char *body = malloc(70000);
	int count = shop_scaled(20, 4);
	for (int i = 0; i < count; i++) {
		sprintf(body, "{\"idempotency_key\":\"b91-%d\",\"reference\":\"b91\",\"ttl_seconds\":3600,\"lines\":[%s]}", i,
		        lines);
		shop_expect(shop.key_web, "POST", "/v1/reservations", NULL, body, 201);
	}
	/* A page of a megabyte of PostgreSQL's answer. */
	shop_expect_get("/v1/reservations?reference=b91&limit=500", 200);
	assert_int_equal(json_array_size(answer_at(&shop_answer, "items")), count);
	assert_int_equal(json_array_size(answer_at(&shop_answer, shop_text("items.%d.lines", count - 1))), 1000);
	printf("a page of %zu bytes\n", shop_answer.body_size);
	/* Short by one unit of one line of a thousand: that one is named, and nothing is kept. */
	assert_int_equal(service_adjust(&shop, "B91-500", -(1000 - count)), 201);
	sprintf(body, "{\"idempotency_key\":\"b91-short\",\"lines\":[%s]}", lines);
	shop_expect(shop.key_web, "POST", "/v1/checkouts", NULL, body, 409);
	assert_int_equal(json_array_size(answer_at(&shop_answer, "lines")), 1);
	assert_string_equal(answer_string(&shop_answer, "lines.0.sku"), "B91-500");
	shop_expect_row("B91-499", 1000, count);
	free(lines);
	free(body);
}

struct b92 {
	struct tally reads, sales;
	_Atomic int sold;
};

static void b92_go(int index, void *context)
{
	struct b92 *x = context;
	char key[40];
	while (!crowd_is_over()) {
		/* A new connection each time: descriptors that PostgreSQL's socket had are given to clients. */
		struct http_client client = http_client(shop.url, index % 2 ? shop.key_web : shop.key_pos);
		struct http_answer answer = {0};
		if (index % 4) {
			bool answered = http_client_call(&client, "GET", "/v1/availability/B92", NULL, NULL, &answer);
			tally_add(&x->reads, answered ? answer.status : 0);
		} else {
			snprintf(key, sizeof key, "%s", service_new_key());
			const char *body = shop_text("{\"idempotency_key\":\"%s\",\"lines\":[{\"sku\":\"B92\",\"quantity\":1}]}",
			                             key);
			int status = 503;
			while (status == 503) {
				bool answered = http_client_call(&client, "POST", "/v1/checkouts", NULL, body, &answer);
				status = answered ? answer.status : 0;
				tally_add(&x->sales, status);
			}
			x->sold += status == 201;
		}
		http_answer_done(&answer);
		http_client_done(&client);
	}
}

static void b92_postgres_restarts_again_and_again_under_load(void **state)
{
	static struct b92 x;
	pid_t serve = shop_child("lastunit");
	int files = process_open_files(serve);
	service_create_sku(&shop, "B92", 1000000);
	struct crowd *crowd = crowd_begin(16, b92_go, &x);
	for (int i = 0; i < shop_scaled(5, 1); i++) {
		shop_restart("postgres");
		int sold = x.sold;
		shop_wait_until(x.sold > sold + 20);
	}
	crowd_end(crowd);
	printf("reads: %s; sales: %s\n", tally_text(&x.reads), tally_text(&x.sales));
	assert_int_equal(tally_of(&x.reads, 200) + tally_of(&x.reads, 503), tally_total(&x.reads));
	assert_int_equal(tally_of(&x.sales, 201) + tally_of(&x.sales, 503), tally_total(&x.sales));
	shop_expect_row("B92", 1000000 - x.sold, 0);
	assert_int_equal(shop_child("lastunit"), serve);
	nothing_is_left(serve, files);
}

/* --- B94, B95 ----------------------------------------------------------------------------------------------------- */

static void b94_go(int index, void *context)
{
	static const struct {
		const char *path, *body;
		int status;
	} rows[] = {
		{"/v1/checkouts", "{\"idempotency_key\":\"%s\",\"lines\":[{\"sku\":\"B94\",\"quantity\":1}]}", 201},
		{"/v1/checkouts", "{\"idempotency_key\":\"b94-same%.0s\",\"lines\":[{\"sku\":\"B94\",\"quantity\":1}]}", 201},
		{"/v1/checkouts", "{\"idempotency_key\":\"b94-same%.0s\",\"lines\":[{\"sku\":\"B94\",\"quantity\":2}]}", 422},
		{"/v1/checkouts", "{\"idempotency_key\":\"%s\",\"lines\":[{\"sku\":\"B94-0\",\"quantity\":1}]}", 409},
		{"/v1/checkouts", "{\"idempotency_key\":\"%s\",\"lines\":[{\"sku\":\"NONE\",\"quantity\":1}]}", 404},
		{"/v1/checkouts", "{\"idempotency_key\":\"%s\",\"lines\":[{\"sku\":\"B94\",\"quantity\":0}]}", 422},
		{"/v1/checkouts", "{\"idempotency_key\":\"%s\",", 400},
		{"/v1/reservations",
	     "{\"idempotency_key\":\"%s\",\"ttl_seconds\":1,\"lines\":[{\"sku\":\"B94\",\"quantity\":1}]}", 201},
		{"/v1/reservations/0190a5b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b/commit", "{\"idempotency_key\":\"%s\"}", 404},
		{"/v1/nothing", "{\"idempotency_key\":\"%s\"}", 404},
		{"/v1/availability", "{\"idempotency_key\":\"%s\"}", 422},
		{"/v1/adjustments", "{\"idempotency_key\":\"%s\",\"reason\":\"x\",\"lines\":[{\"sku\":\"B94\",\"delta\":1}]}",
	     403},
	};
	struct tally *tally = context;
	char code[40], body[300];
	for (int i = 0; i < shop_scaled(600, 60); i++) {
		size_t row = (size_t)(i + index) % (sizeof rows / sizeof *rows);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(body, sizeof body, rows[row].body, service_new_key());
#pragma GCC diagnostic pop
		int status = shop_ask(&shop, shop.key_web, rows[row].path, body, code);
		tally_add(tally, status);
		if (status != rows[row].status && strcmp(code, "idempotency_in_flight") != 0)
			tally_complain(tally, "%s: %d %s", body, status, code);
	}
}

static void b94_error_paths_keep_no_memory(void **state)
{
	pid_t serve = shop_child("lastunit");
	int files = process_open_files(serve);
	int64_t resident[3];
	service_create_sku(&shop, "B94", 1000000);
	service_create_sku(&shop, "B94-0", 0);
	assert_int_equal(service_sell(&shop, shop.key_web, "b94-same", "B94", 1), 201);
	for (int round = 0; round < 3; round++) {
		struct tally tally = {0};
		crowd_run(CLIENTS, b94_go, &tally);
		assert_string_equal(tally.complaint, "");
		/* Errors of the connection itself as well. */
		shop_sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'lastunit%%'");
		shop_wait_until(service_sell(&shop, shop.key_web, NULL, "B94", 1) == 201);
		resident[round] = process_resident_kib(serve);
	}
	printf("resident: %lld, %lld, %lld KiB\n", (long long)resident[0], (long long)resident[1], (long long)resident[2]);
	nothing_is_left(serve, files);
	if (!shop_short())
		assert_in_range(resident[2], 0, resident[1] + 4 * 1024);
}

static void b95_what_is_written_is_what_is_read(void **state)
{
	static const int64_t quantities[] = {1, 255, 256, 65535, 65536, 16777216, 1000000000};
	int64_t left = INT64_C(1000000000000000);
	service_create_sku(&shop, "B95", left);
	for (size_t i = 0; i < sizeof quantities / sizeof *quantities; i++) {
		char id[37];
		int64_t n = quantities[i];
		shop_expect_post("/v1/reservations", shop_cart(shop_text("B95=%lld", (long long)n)), 201);
		snprintf(id, sizeof id, "%s", answer_string(&shop_answer, "id"));
		shop_expect_row("B95", left, n);
		shop_expect_seen(&shop, "B95", left - n, n);
		shop_expect_get(shop_path("reservations", id, ""), 200);
		assert_int_equal(answer_int(&shop_answer, "lines.0.quantity"), n);
		shop_expect_post(shop_path("reservations", id, "/commit"), NULL, 200);
		shop_expect_get(shop_path("checkouts", answer_string(&shop_answer, "id"), ""), 200);
		assert_int_equal(answer_int(&shop_answer, "lines.0.quantity"), n);
		left -= n;
		shop_expect_row("B95", left, 0);
		shop_expect_get(shop_text("/v1/skus/B95/ledger?after=%zu", 2 * i + 2), 200);
		assert_int_equal(answer_int(&shop_answer, "items.0.on_hand_delta"), -n);
		assert_int_equal(answer_int(&shop_answer, "items.0.reserved_delta"), -n);
		assert_int_equal(answer_int(&shop_answer, "items.0.on_hand_after"), left);
	}
}

/* --- B96 ---------------------------------------------------------------------------------------------------------- */

/* A body of these bytes, in pieces of this size. Returns the status. */
static int send_body(const char *bytes, size_t size, size_t piece)
{
	struct http_client client = http_client(shop.url, NULL);
	struct http_answer answer = {0};
	int status = 0;
	bool sent = http_client_send_text(&client,
	                                  shop_text("POST /v1/checkouts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s"
	                                            "\r\nContent-Type: application/json\r\nIdempotency-Key: %s\r\n"
	                                            "Content-Length: %zu\r\n\r\n",
	                                            shop.key_web, service_new_key(), size));
	for (size_t at = 0; sent && at < size; at += piece)
		sent = http_client_send(&client, bytes + at, size - at < piece ? size - at : piece);
	if (sent && http_client_read(&client, false, &answer))
		status = answer.status;
	http_answer_done(&answer);
	http_client_done(&client);
	return status;
}

static void b96_a_body_ends_where_it_ends(void **state)
{
#define GOOD "{\"lines\":[{\"sku\":\"B96\",\"quantity\":1}]}"
	static const struct {
		const char *bytes;
		size_t size;
		int status;
	} rows[] = {
#define ROW(text, expected) {text, sizeof(text) - 1, expected}
		ROW("-", 400),
		ROW("1e", 400),
		ROW("\"abc", 400),
		ROW("\"abc\\", 400),
		ROW("\"abc\\u12", 400),
		ROW("{\"quantity\":1", 400),
		ROW("tru", 400),
		ROW("\0", 400),
		ROW(GOOD "\0", 400),
		ROW(GOOD "\0" GOOD, 400),
		ROW(GOOD "x", 400),
		ROW(GOOD GOOD, 400),
		ROW(GOOD "]", 400),
		ROW("\0" GOOD, 400),
		ROW("{\"lines\":[{\"sku\":\"B96\0\",\"quantity\":1}]}", 400),
		ROW("", 422),
		ROW(GOOD, 201),
		ROW(" \r\n\t" GOOD " \n", 201),
	};
	service_create_sku(&shop, "B96", 1000);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		for (size_t piece = 1; piece < 100; piece += 32) {
			int status = send_body(rows[i].bytes, rows[i].size, piece);
			if (status != rows[i].status)
				fail_msg("%s (%zu bytes, %zu at once): %d instead of %d", rows[i].bytes, rows[i].size, piece, status,
				         rows[i].status);
		}
	shop_expect_row("B96", 1000 - 8, 0);
	/* Around the sizes of pages and buffers. */
	static const size_t sizes[] = {4095, 4096, 4097, 16384, 65536, 65537, 1048575, 1048576};
	char *body = malloc(1048577);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		memset(body, ' ', sizes[i]);
		memcpy(body, GOOD, sizeof GOOD - 1);
		assert_int_equal(send_body(body, sizes[i], sizes[i]), 201);
		/* The last byte is not overlooked. */
		body[sizes[i] - 1] = '}';
		assert_int_equal(send_body(body, sizes[i], 4096), 400);
		/* A value that ends with the buffer. */
		memset(body, '1', sizes[i]);
		assert_int_equal(send_body(body, sizes[i], 5000), 400);
	}
	free(body);
	shop_expect_row("B96", 1000 - 8 - 8, 0);
}

int main(void)
{
	static const char *const options[] = {"--header-timeout-ms", "1000", "--body-timeout-ms", "2500", NULL};
	shop_options = options;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(b89_a_body_beyond_the_limit_is_told_before_it_is_sent, shop_audit),
		cmocka_unit_test_teardown(b86_a_redis_that_is_slow_or_idle_costs_no_answer, shop_audit),
		cmocka_unit_test_teardown(b91_buffers_full_on_both_sides_are_no_deadlock, shop_audit),
		cmocka_unit_test_teardown(b92_postgres_restarts_again_and_again_under_load, shop_audit),
		cmocka_unit_test_teardown(b94_error_paths_keep_no_memory, shop_audit),
		cmocka_unit_test_teardown(b95_what_is_written_is_what_is_read, shop_audit),
		cmocka_unit_test_teardown(b96_a_body_ends_where_it_ends, shop_audit),
	};
	return cmocka_run_group_tests(tests, shop_open, shop_close);
}
