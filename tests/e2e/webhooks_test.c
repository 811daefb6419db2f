/* Webhooks against the real service: subscriptions, and what an endpoint is sent. What becomes of it when the endpoint
 * misbehaves or an instance dies: webhooks_outages_test.c. */
#include "e2e/webhooks_fixture.h"

#include <time.h>

/* --- subscriptions ------------------------------------------------------------------------------------------------ */

static void a_webhook_is_made_shown_and_removed_and_its_secret_is_shown_once(void **state)
{
	subscribe(",\"events\":[\"stock.out\"],\"skus\":[\"WH-B\",\"WH-A\",\"WH-B\"]");
	assert_string_equal(answer_header(&shop_answer, "Location"), shop_path("webhooks", hook, ""));
	assert_string_equal(answer_header(&shop_answer, "Cache-Control"), "no-store"); /* nobody keeps a secret for us */
	assert_int_equal(strncmp(secret, "whsec_", 6), 0);
	assert_string_equal(answer_string(&shop_answer, "status"), "active");
	assert_string_equal(look("events.0"), "stock.out");
	assert_string_equal(answer_string(&shop_answer, "skus.0"), "WH-A");
	assert_string_equal(answer_string(&shop_answer, "skus.1"), "WH-B");
	assert_int_equal(json_array_size(answer_at(&shop_answer, "skus")), 2);
	assert_null(answer_at(&shop_answer, "secret"));
	assert_null(strstr(shop_answer.body, "whsec_"));
	admin("GET", "/v1/webhooks", NULL, 200);
	assert_string_equal(answer_string(&shop_answer, "items.0.id"), hook);
	assert_null(strstr(shop_answer.body, "whsec_"));
	admin("DELETE", shop_path("webhooks", hook, ""), NULL, 204);
	admin("DELETE", shop_path("webhooks", hook, ""), NULL, 404);
	admin("GET", shop_path("webhooks", hook, ""), NULL, 404);
	shop_expect_problem("unknown_webhook", "");
	admin("GET", shop_path("webhooks", hook, "/deliveries"), NULL, 404);
	admin("POST", shop_path("webhooks", hook, "/rotate"), NULL, 404);
	admin("POST", shop_path("webhooks", hook, "/enable"), NULL, 404);
}

/* An answer that was lost is asked for again: there is one webhook, and its secret is told once more. */
static void the_same_key_makes_one_webhook(void **state)
{
	const char *key = "Idempotency-Key: wh-1\r\n", *body = "{\"url\":\"https://example.com/\",\"skus\":[\"B\",\"A\"]}";
	shop_expect(shop.key_admin, "POST", "/v1/webhooks", key, body, 201);
	snprintf(hook, sizeof hook, "%s", answer_string(&shop_answer, "id"));
	snprintf(secret, sizeof secret, "%s", answer_string(&shop_answer, "secret"));
	assert_string_equal(answer_header(&shop_answer, "Idempotent-Replayed"), "");
	shop_expect(shop.key_admin, "POST", "/v1/webhooks", "Idempotency-Key: \"wh-1\"\r\n",
	            "{\"skus\":[\"A\",\"B\"],\"url\":\"https://example.com/\"}", 201);
	assert_string_equal(answer_string(&shop_answer, "id"), hook);
	assert_string_equal(answer_string(&shop_answer, "secret"), secret);
	assert_string_equal(answer_header(&shop_answer, "Idempotent-Replayed"), "true");
	shop_expect(shop.key_admin, "POST", "/v1/webhooks", key, "{\"url\":\"https://example.com/\",\"skus\":[\"A\"]}",
	            422);
	shop_expect_problem("idempotency_conflict", "");
	shop_expect(shop.key_admin, "POST", "/v1/webhooks", key,
	            "{\"url\":\"https://example.com/\",\"skus\":[\"A\",\"B\"],\"events\":[\"stock.out\"]}", 422);
	shop_expect_problem("idempotency_conflict", "");
	shop_expect(shop.key_admin, "POST", "/v1/webhooks", "Idempotency-Key: wh-1\r\nIdempotency-Key: wh-1\r\n", body,
	            400);
	shop_expect_problem("malformed_request", "Idempotency-Key");
	shop_expect(shop.key_admin, "POST", "/v1/webhooks", "Idempotency-Key: \"\r\n", body, 422);
	shop_expect_problem("invalid_idempotency_key", "");
	/* A new secret is ours, whatever one may wish. */
	admin("POST", shop_path("webhooks", hook, "/rotate"), "{\"secret\":\"whsec_mine\"}", 422);
	admin("POST", shop_path("webhooks", hook, "/enable"), "[]", 422);
	admin("POST", shop_path("webhooks", hook, "/enable"), "{}", 200);
	assert_int_equal(shop_sql_int("SELECT count(*) FROM lastunit.webhook"), 1);
	shop_expect(shop.key_admin, "POST", "/v1/webhooks", "Idempotency-Key: wh-2\r\n", body, 201);
	admin("GET", "/v1/webhooks", NULL, 200); /* in the order of their making, whatever their ids are */
	assert_string_equal(answer_string(&shop_answer, "items.0.id"), hook);
}

/* Or he would be told the secret of a webhook that is not his. */
static void the_same_key_of_another_principal_makes_another_webhook(void **state)
{
	static const char other[] = "lu_admin_of_webhooks";
	const char *key = "Idempotency-Key: wh-3\r\n", *body = "{\"url\":\"https://example.com/\"}";
	shop_sql(
		"INSERT INTO lastunit.api_key (sha256, principal_id, prefix, scopes)"
		" SELECT sha256('%s'), id, 'lu_admi', 1 + 2 + 16 FROM lastunit.principal WHERE name = 'voice' RETURNING 1",
		other);
	char code[40];
	shop_wait_until(shop_ask(&shop, other, "/v1/availability", "{\"skus\":[\"WHOSE\"]}", code) == 200);
	shop_expect(shop.key_admin, "POST", "/v1/webhooks", key, body, 201);
	snprintf(hook, sizeof hook, "%s", answer_string(&shop_answer, "id"));
	shop_expect(other, "POST", "/v1/webhooks", key, body, 201);
	assert_string_equal(answer_header(&shop_answer, "Idempotent-Replayed"), "");
	assert_string_not_equal(answer_string(&shop_answer, "id"), hook);
}

/* The body of a webhook with so long an address and so many SKUs. */
static const char *body_of(size_t url_bytes, int skus)
{
	static char body[12000];
	char *to = body + sprintf(body, "{\"url\":\"https://example.com/");
	size_t path_bytes = url_bytes - strlen("https://example.com/");
	memset(to, 'x', path_bytes);
	to += path_bytes;
	to += sprintf(to, "\",\"skus\":[\"0\"");
	for (int i = 1; i < skus; i++)
		to += sprintf(to, ",\"%d\"", i);
	strcpy(to, "]}");
	return body;
}

static void what_is_no_webhook_is_refused(void **state)
{
	static const char *const bad[] = {
		"{}",
		"[]",
		"{\"url\":1}",
		"{\"url\":\"\"}",
		"{\"url\":\"ftp://example.com/\"}",
		"{\"url\":\"https://u:p@example.com/\"}",
		"{\"url\":\"https://example.com/\",\"events\":[]}",
		"{\"url\":\"https://example.com/\",\"events\":[\"stock\"]}",
		"{\"url\":\"https://example.com/\",\"events\":\"stock.out\"}",
		"{\"url\":\"https://example.com/\",\"skus\":[]}",
		"{\"url\":\"https://example.com/\",\"skus\":[\" A\"]}",
		"{\"url\":\"https://example.com/\",\"secret\":\"x\"}",
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		admin("POST", "/v1/webhooks", bad[i], 422);
	shop_expect_problem("invalid_field", "`secret` is not a field of this request; it has url, events, skus.");
	admin("POST", "/v1/webhooks", body_of(2001, 1), 422);
	shop_expect_problem("invalid_field", "1 to 2000 bytes");
	admin("POST", "/v1/webhooks", body_of(100, 501), 422);
	shop_expect_problem("invalid_field", "1 to 500 codes");
	shop_expect(shop.key_web, "POST", "/v1/webhooks", NULL, "{\"url\":\"https://example.com/\"}", 403);
	shop_expect(shop.key_web, "GET", "/v1/webhooks", NULL, NULL, 403);
	assert_int_equal(shop_sql_int("SELECT count(*) FROM lastunit.webhook"), 0);
	admin("POST", "/v1/webhooks", body_of(2000, 500), 201);
}

static void there_is_an_end_to_how_many_there_can_be(void **state)
{
	subscribe("");
	shop_sql(
		"INSERT INTO lastunit.webhook (id, url, events, secret, identity, xid, sku_id, version, disabled)"
		" SELECT gen_random_uuid(), 'https://example.com/', 1, 'whsec_', 0, '1', 0, 0, 'a test'"
		" FROM generate_series(1, 99)");
	admin("POST", "/v1/webhooks", shop_text("{\"url\":\"%s\"}", receiver.url), 422);
	shop_expect_problem("invalid_field", "100 webhooks");
}

/* --- what is sent ------------------------------------------------------------------------------------------------- */

static void a_change_is_told_signed_as_availability(void **state)
{
	service_create_sku(&shop, "WH-ONE", 10);
	subscribe("");
	sell("WH-ONE", 3);
	const struct delivery *d = next();
	assert_string_equal(delivery_string(d, "type"), "availability.changed");
	assert_string_equal(d->content_type, "application/json");
	assert_in_range(d->time_s, time(NULL) - 60, time(NULL) + 1);
	assert_int_equal(strncmp(d->id, "msg_", 4), 0);
	assert_string_equal(delivery_string(d, "sku"), "WH-ONE");
	assert_string_equal(delivery_string(d, "status"), "in_stock");
	assert_int_equal(delivery_int(d, "available"), 7);
	assert_int_equal(delivery_int(d, "version"), 2);
	shop_wait_until(*look("delivered_at"));
	assert_string_equal(answer_string(&shop_answer, "status"), "active");
}

static void out_of_stock_and_back_are_told_once_each(void **state)
{
	service_create_sku(&shop, "WH-LAST", 1);
	service_create_sku(&shop, "WH-WAS-OUT", 0);
	subscribe(",\"events\":[\"stock.out\",\"stock.back\"],\"skus\":[\"WH-LAST\",\"WH-WAS-OUT\"]");
	sell("WH-LAST", 1);
	expect("stock.out", "WH-LAST", 2);
	assert_int_equal(service_adjust(&shop, "WH-LAST", 5), 201);
	expect("stock.back", "WH-LAST", 3);
	sell("WH-LAST", 1); /* neither */
	assert_int_equal(service_adjust(&shop, "WH-WAS-OUT", 5), 201);
	expect("stock.back", "WH-WAS-OUT", 2); /* it was out when the webhook was made */
	char hold[37];
	assert_int_equal(service_reserve(&shop, shop.key_web, NULL, "WH-LAST", 4, 600, hold), 201);
	expect("stock.out", "WH-LAST", 5);
	assert_int_equal(service_end(&shop, shop.key_web, hold, "release"), 200);
	expect("stock.back", "WH-LAST", 6);
}

static void who_wants_everything_hears_of_stock_first(void **state)
{
	service_create_sku(&shop, "WH-ALL", 1);
	subscribe(",\"skus\":[\"WH-ALL\"]");
	sell("WH-ALL", 1);
	expect("stock.out", "WH-ALL", 2);
	expect("availability.changed", "WH-ALL", 2);
}

static void only_its_skus_are_told(void **state)
{
	service_create_sku(&shop, "WH-MINE", 10);
	service_create_sku(&shop, "WH-OTHERS", 10);
	subscribe(",\"skus\":[\"WH-MINE\"]");
	sell("WH-OTHERS", 1);
	sell("WH-MINE", 1);
	sell("WH-OTHERS", 1);
	expect("availability.changed", "WH-MINE", 2);
	sell("WH-MINE", 1);
	expect("availability.changed", "WH-MINE", 3);
}

static void a_new_secret_is_signed_with_beside_the_old_one(void **state)
{
	service_create_sku(&shop, "WH-ROTATE", 10);
	subscribe("");
	char old[64];
	snprintf(old, sizeof old, "%s", secret);
	admin("POST", shop_path("webhooks", hook, "/rotate"), NULL, 200);
	snprintf(secret, sizeof secret, "%s", answer_string(&shop_answer, "secret"));
	assert_string_not_equal(secret, old);
	/* For a day. */
	assert_in_range(shop_sql_int("SELECT extract(epoch FROM old_secret_until - now())::int8 FROM lastunit.webhook"),
	                23 * 3600, 24 * 3600);
	sell("WH-ROTATE", 1);
	const struct delivery *d = receiver_take(&receiver);
	assert_non_null(d);
	assert_true(delivery_is_signed(d, old));
	/* The deliverer learns of it within a second. */
	for (int64_t i = 0; !delivery_is_signed(d, secret); i++) {
		sell("WH-ROTATE", 1);
		d = receiver_take(&receiver);
		assert_non_null(d);
		assert_true(i < 9);
	}
	assert_true(delivery_is_signed(d, old));
	shop_sql("UPDATE lastunit.webhook SET old_secret_until = now() - interval '1 s'");
	int64_t available = 0;
	do {
		assert_int_equal(service_adjust(&shop, "WH-ROTATE", 1), 201);
		d = next();
		assert_true(available++ < 100);
	} while (delivery_is_signed(d, old));
}

/* The answer to a rotation may be lost. Whoever asks again must not be rotated away from the secret that his endpoint still
 * has: only one old one is signed with. */
static void a_rotation_asked_for_again_is_the_same_one(void **state)
{
	char old[64], twin[37];
	static const char *const key = "Idempotency-Key: rotate-1\r\n", *const other = "Idempotency-Key: rotate-2\r\n";
	service_create_sku(&shop, "WH-ROTATE-2", 10);
	subscribe("");
	snprintf(twin, sizeof twin, "%s", hook);
	subscribe("");
	snprintf(old, sizeof old, "%s", secret);
	shop_expect(shop.key_admin, "POST", shop_path("webhooks", hook, "/rotate"), key, NULL, 200);
	snprintf(secret, sizeof secret, "%s", answer_string(&shop_answer, "secret"));
	assert_string_not_equal(secret, old);
	assert_string_equal(answer_header(&shop_answer, "Idempotent-Replayed"), "");
	shop_expect(shop.key_admin, "POST", shop_path("webhooks", hook, "/rotate"), key, NULL, 200);
	assert_string_equal(answer_string(&shop_answer, "secret"), secret);
	assert_string_equal(answer_header(&shop_answer, "Idempotent-Replayed"), "true");
	assert_string_equal(shop_sql("SELECT old_secret FROM lastunit.webhook WHERE id = '%s'", hook), old);
	/* One key, two webhooks: two secrets. */
	shop_expect(shop.key_admin, "POST", shop_path("webhooks", twin, "/rotate"), key, NULL, 200);
	assert_string_not_equal(answer_string(&shop_answer, "secret"), secret);
	/* Late, behind another rotation: it may have been rotated away because somebody else had it. */
	shop_expect(shop.key_admin, "POST", shop_path("webhooks", hook, "/rotate"), other, NULL, 200);
	assert_string_not_equal(answer_string(&shop_answer, "secret"), secret);
	shop_expect(shop.key_admin, "POST", shop_path("webhooks", hook, "/rotate"), key, NULL, 422);
	shop_expect_problem("idempotency_conflict", "");
	shop_sql("UPDATE lastunit.webhook SET old_secret_until = now() - interval '1 s'");
	shop_expect(shop.key_admin, "POST", shop_path("webhooks", hook, "/rotate"), key, NULL, 422);
	shop_expect(shop.key_admin, "POST", shop_path("webhooks", hook, "/rotate"), other, NULL, 200);
	assert_string_equal(answer_header(&shop_answer, "Idempotent-Replayed"), "true");
	shop_expect(shop.key_admin, "POST", shop_path("webhooks", hook, "/rotate"), "Idempotency-Key: \"\r\n", NULL, 422);
	shop_expect_problem("invalid_idempotency_key", "");
}

/* A damaged row: nobody is sent what everybody could have signed. */
static void what_cannot_be_signed_is_not_sent_until_it_can(void **state)
{
	char old[64];
	service_create_sku(&shop, "WH-DAMAGED", 1000);
	subscribe("");
	snprintf(old, sizeof old, "%s", secret);
	shop_sql("UPDATE lastunit.webhook SET secret = 'whsec_'");
	do /* the deliverer learns of it within a second */
		sell("WH-DAMAGED", 1);
	while (strcmp(look("last_error"), "its secret is damaged; rotate it"));
	admin("POST", shop_path("webhooks", hook, "/rotate"), NULL, 200);
	snprintf(secret, sizeof secret, "%s", answer_string(&shop_answer, "secret"));
	for (;;) {
		const struct delivery *d = receiver_take(&receiver);
		assert_non_null(d);
		if (delivery_is_signed(d, secret))
			break;
		assert_true(delivery_is_signed(d, old));
	}
}

static const struct CMUnitTest tests[] = {
	WEBHOOK_TEST(a_webhook_is_made_shown_and_removed_and_its_secret_is_shown_once),
	WEBHOOK_TEST(the_same_key_makes_one_webhook),
	WEBHOOK_TEST(the_same_key_of_another_principal_makes_another_webhook),
	WEBHOOK_TEST(what_is_no_webhook_is_refused),
	WEBHOOK_TEST(there_is_an_end_to_how_many_there_can_be),
	WEBHOOK_TEST(a_change_is_told_signed_as_availability),
	WEBHOOK_TEST(out_of_stock_and_back_are_told_once_each),
	WEBHOOK_TEST(who_wants_everything_hears_of_stock_first),
	WEBHOOK_TEST(only_its_skus_are_told),
	WEBHOOK_TEST(a_new_secret_is_signed_with_beside_the_old_one),
	WEBHOOK_TEST(a_rotation_asked_for_again_is_the_same_one),
	WEBHOOK_TEST(what_cannot_be_signed_is_not_sent_until_it_can),
};

WEBHOOK_MAIN(tests)
