/* Webhooks against the real service: what an endpoint is sent, and what becomes of it when the endpoint misbehaves. */
#include "lib/freeze.h"
#include "lib/receiver.h"
#include "lib/shop.h"

#include <signal.h>
#include <time.h>

static const char *const options[] =
	{"--webhook-retry-ms", "50", "--webhook-timeout-ms", "1000", "--webhook-disable-after-s", "3", NULL};
static const char *const beside_options[] =
	{"--webhook-private-addresses", "--webhook-retry-ms", "50", "--log-level", "error", NULL};

static struct receiver receiver;
static char hook[37], secret[64];

/* --- arranging ---------------------------------------------------------------------------------------------------- */

static int begin(void **state)
{
	receiver_open(&receiver);
	return 0;
}

static int over(void **state)
{
	shop_sql("DELETE FROM lastunit.webhook");
	receiver_close(&receiver);
	return shop_audit(state);
}

static void admin(const char *method, const char *path, const char *body, int status)
{
	shop_expect(shop.key_admin, method, path, NULL, body, status);
}

/* A webhook to this receiver; `rest` of its body, "" for all there is. */
static void subscribe_to(const struct receiver *r, const char *rest)
{
	admin("POST", "/v1/webhooks", shop_text("{\"url\":\"%s\"%s}", r->url, rest), 201);
	snprintf(hook, sizeof hook, "%s", answer_string(&shop_answer, "id"));
	snprintf(secret, sizeof secret, "%s", answer_string(&shop_answer, "secret"));
}

static void subscribe(const char *rest)
{
	subscribe_to(&receiver, rest);
}

static const char *look(const char *member)
{
	admin("GET", shop_path("webhooks", hook, ""), NULL, 200);
	return answer_string(&shop_answer, member);
}

static void sell(const char *sku, int64_t quantity)
{
	assert_int_equal(service_sell(&shop, shop.key_pos, NULL, sku, quantity), 201);
}

static const struct delivery *next(void)
{
	const struct delivery *d = receiver_take(&receiver);
	if (!d)
		fail_msg("nothing was delivered");
	if (!delivery_is_signed(d, secret))
		fail_msg("not signed with %s: %s", secret, d->signature);
	return d;
}

/* The next delivery is this event, of this SKU at this version. */
static void expect(const char *type, const char *sku, int64_t version)
{
	const struct delivery *d = next();
	assert_string_equal(delivery_string(d, "type"), type);
	assert_string_equal(delivery_string(d, "sku"), sku);
	assert_int_equal(delivery_int(d, "version"), version);
}

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

/* --- endpoints that misbehave ------------------------------------------------------------------------------------- */

static void what_was_not_taken_comes_again_under_the_same_id(void **state)
{
	service_create_sku(&shop, "WH-RETRY", 10);
	subscribe("");
	receiver_answer(&receiver, 503, "");
	sell("WH-RETRY", 1);
	const struct delivery *first = next(), *again = next();
	assert_string_equal(first->id, again->id);
	assert_string_equal(first->body, again->body);
	shop_wait_until(!strcmp(look("status"), "failing"));
	assert_string_equal(answer_string(&shop_answer, "last_error"), "it answered 503");
	receiver_answer(&receiver, 200, "");
	const struct delivery *d;
	do {
		d = next();
		assert_string_equal(d->id, first->id);
	} while (d->status != 200);
	shop_wait_until(!strcmp(look("status"), "active"));
	sell("WH-RETRY", 1);
	expect("availability.changed", "WH-RETRY", 3);
}

static void who_was_away_is_told_the_newest_state_and_no_steps(void **state)
{
	enum { SALES = 20 };
	service_create_sku(&shop, "WH-AWAY", 100);
	service_create_sku(&shop, "WH-AWAY-2", 100);
	subscribe("");
	receiver_answer(&receiver, 500, "");
	sell("WH-AWAY", 1);
	next();
	for (int i = 0; i < SALES; i++) {
		sell("WH-AWAY", 1);
		sell("WH-AWAY-2", 1);
	}
	receiver_answer(&receiver, 200, "");
	int64_t newest = 0, newest_2 = 0;
	int taken = 0;
	while (newest < SALES + 2 || newest_2 < SALES + 1) {
		const struct delivery *d = next();
		int64_t *version = strcmp(delivery_string(d, "sku"), "WH-AWAY") ? &newest_2 : &newest;
		assert_true(delivery_int(d, "version") >= *version); /* in order */
		*version = delivery_int(d, "version");
		taken += d->status == 200;
	}
	assert_true(taken < SALES);
}

static void it_is_left_in_peace_as_long_as_it_asks(void **state)
{
	service_create_sku(&shop, "WH-LATER", 10);
	subscribe("");
	receiver_answer(&receiver, 429, "Retry-After: 2\r\n");
	sell("WH-LATER", 1);
	const struct delivery *first = next(), *second = next();
	assert_true(second->time_s - first->time_s >= 2);
}

/* These three say "later", not "no", however often they are said. */
static void who_asks_to_be_asked_again_loses_no_message(void **state)
{
	static const int later[] = {408, 425, 429};
	service_create_sku(&shop, "WH-AGAIN", 10);
	subscribe("");
	for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
		char id[80] = "";
		receiver_answer(&receiver, later[i], "");
		sell("WH-AGAIN", 1);
		for (int times = 0; times < 6; times++) {
			const struct delivery *d = next();
			if (times)
				assert_string_equal(d->id, id);
			snprintf(id, sizeof id, "%s", d->id);
			if (times == 4)
				receiver_answer(&receiver, 200, "");
			/* so that a slow machine is not taken for an endpoint that takes nothing for long */
			shop_sql("UPDATE lastunit.webhook SET failing_since = NULL");
		}
		shop_wait_until(!strcmp(look("status"), "active"));
	}
	assert_int_equal(shop_sql_int("SELECT count(*) FROM lastunit.webhook_failure"), 0);
}

/* As in a database that was restored from a dump into a younger cluster: there is no such place yet, perhaps for years. */
static void a_place_of_another_postgresql_is_left_for_now(void **state)
{
	service_create_sku(&shop, "WH-RESTORED", 10);
	subscribe("");
	shop_sql("UPDATE lastunit.webhook SET identity = identity - 1, xid = '4611686018427387904'");
	shop_wait_sql("SELECT xid < '4611686018427387904' FROM lastunit.webhook", "t");
	sell("WH-RESTORED", 1);
	expect("availability.changed", "WH-RESTORED", 2);
}

static void gone_means_gone_until_it_is_enabled(void **state)
{
	service_create_sku(&shop, "WH-GONE", 10);
	subscribe("");
	receiver_answer(&receiver, 410, "");
	sell("WH-GONE", 1);
	next();
	shop_wait_until(!strcmp(look("status"), "disabled"));
	assert_string_equal(answer_string(&shop_answer, "disabled_because"), "it answered 410 Gone");
	int count = receiver_count(&receiver);
	receiver_answer(&receiver, 200, "");
	sell("WH-GONE", 1);
	shop_wait_until(shop_metric(&shop, "lastunit_webhooks_led") == 0);
	assert_int_equal(receiver_count(&receiver), count);
	admin("POST", shop_path("webhooks", hook, "/enable"), NULL, 200);
	assert_string_equal(answer_string(&shop_answer, "status"), "active");
	expect("availability.changed", "WH-GONE", 3);
}

static void what_it_does_not_want_is_put_aside_and_shown(void **state)
{
	service_create_sku(&shop, "WH-UNWANTED", 10);
	service_create_sku(&shop, "WH-WANTED", 10);
	subscribe("");
	receiver_answer(&receiver, 422, "");
	sell("WH-UNWANTED", 1);
	const char *deliveries = shop_path("webhooks", hook, "/deliveries");
	const struct delivery *d = NULL;
	for (int i = 0; i < 5; i++)
		d = next();
	shop_wait_until((admin("GET", deliveries, NULL, 200), json_array_size(answer_at(&shop_answer, "items")) == 1));
	assert_string_equal(answer_string(&shop_answer, "items.0.message_id"), d->id);
	assert_string_equal(answer_string(&shop_answer, "items.0.error"), "it answered 422");
	assert_string_equal(answer_string(&shop_answer, "items.0.body.data.sku"), "WH-UNWANTED");
	assert_int_equal(answer_int(&shop_answer, "items.0.attempts"), 5);
	assert_null(json_string_value(answer_at(&shop_answer, "next")));
	receiver_answer(&receiver, 200, "");
	sell("WH-WANTED", 1);
	expect("availability.changed", "WH-WANTED", 2);
	assert_int_equal(receiver_count(&receiver), 6);
}

static void what_was_put_aside_comes_in_pages(void **state)
{
	subscribe("");
	shop_sql(
		"INSERT INTO lastunit.webhook_failure (webhook_id, message, body, attempts, error)"
		" SELECT '%s', 'msg_' || n, '{}', 5, 'a test' FROM generate_series(1, 3) n",
		hook);
	admin("GET", shop_path("webhooks", hook, "/deliveries?limit=2"), NULL, 200);
	assert_int_equal(json_array_size(answer_at(&shop_answer, "items")), 2);
	assert_string_equal(answer_string(&shop_answer, "items.1.message_id"), "msg_2");
	const char *rest = shop_text("/deliveries?limit=2&after=%s", answer_string(&shop_answer, "next"));
	admin("GET", shop_path("webhooks", hook, rest), NULL, 200);
	assert_int_equal(json_array_size(answer_at(&shop_answer, "items")), 1);
	assert_string_equal(answer_string(&shop_answer, "items.0.message_id"), "msg_3");
	assert_true(json_is_null(answer_at(&shop_answer, "next")));
	admin("GET", shop_path("webhooks", hook, "/deliveries?after=x"), NULL, 422);
	shop_expect_problem("invalid_field", "`after`");
	admin("GET", shop_path("webhooks", hook, "/deliveries?after=-1"), NULL, 422);
}

static void a_redirect_is_not_followed(void **state)
{
	struct receiver elsewhere;
	receiver_open(&elsewhere);
	service_create_sku(&shop, "WH-MOVED", 10);
	subscribe("");
	receiver_answer(&receiver, 307, shop_text("Location: %s\r\n", elsewhere.url));
	sell("WH-MOVED", 1);
	next();
	next();
	shop_wait_until(!strcmp(look("last_error"), "it answered 307"));
	assert_int_equal(receiver_count(&elsewhere), 0);
	receiver_close(&elsewhere);
}

static void one_that_is_silent_holds_up_nobody_else(void **state)
{
	struct receiver silent;
	receiver_open(&silent);
	receiver_answer(&silent, 0, "");
	service_create_sku(&shop, "WH-SILENT", 100);
	subscribe_to(&silent, "");
	char silent_hook[37];
	snprintf(silent_hook, sizeof silent_hook, "%s", hook);
	subscribe("");
	for (int i = 0; i < 5; i++) {
		sell("WH-SILENT", 1);
		expect("availability.changed", "WH-SILENT", i + 2);
	}
	assert_non_null(receiver_take(&silent));
	snprintf(hook, sizeof hook, "%s", silent_hook);
	shop_wait_until(strstr(look("last_error"), "imeout"));
	receiver_close(&silent);
}

static void who_takes_nothing_for_long_is_disabled(void **state)
{
	service_create_sku(&shop, "WH-DEAD", 10);
	subscribe("");
	receiver_answer(&receiver, 500, "");
	sell("WH-DEAD", 1);
	shop_wait_until(!strcmp(look("status"), "disabled"));
	assert_non_null(strstr(answer_string(&shop_answer, "disabled_because"), "it answered 500"));
	receiver_answer(&receiver, 200, "");
	admin("POST", shop_path("webhooks", hook, "/enable"), NULL, 200);
	const struct delivery *d;
	do
		d = next();
	while (d->status != 200);
	assert_int_equal(delivery_int(d, "version"), 2);
}

/* --- instances and outages ---------------------------------------------------------------------------------------- */

static void another_instance_goes_on_when_the_one_that_delivers_dies(void **state)
{
	struct service other;
	service_create_sku(&shop, "WH-LEAD", 100);
	service_beside(&other, &shop, NULL, NULL, beside_options);
	subscribe("");
	sell("WH-LEAD", 1);
	expect("availability.changed", "WH-LEAD", 2);
	shop_wait_until(shop_metric(&shop, "lastunit_webhooks_led") == 1);
	assert_int_equal(shop_metric(&other, "lastunit_webhooks_led"), 0);
	shop_restart("lastunit");
	sell("WH-LEAD", 1);
	/* What was under way may come twice; nothing is missed. */
	const struct delivery *d;
	do
		d = next();
	while (delivery_int(d, "version") < 3);
	assert_int_equal(delivery_int(d, "version"), 3);
	/* One of the two has the lead, whichever was first. */
	assert_int_equal(shop_metric(&shop, "lastunit_webhooks_led") + shop_metric(&other, "lastunit_webhooks_led"), 1);
	service_stop(&other);
}

/* A process that stands still keeps its session, and with it the lead, for as long as PostgreSQL lets it. */
static void another_instance_goes_on_when_the_one_that_delivers_stands_still(void **state)
{
	struct service other;
	const struct delivery *d;
	service_create_sku(&shop, "WH-STILL", 100);
	subscribe("");
	sell("WH-STILL", 1);
	expect("availability.changed", "WH-STILL", 2);
	shop_wait_until(shop_metric(&shop, "lastunit_webhooks_led") == 1);
	service_beside(&other, &shop, NULL, NULL, beside_options);
	freeze(shop_child("lastunit"));
	assert_int_equal(service_sell(&other, shop.key_pos, NULL, "WH-STILL", 1), 201);
	do /* the last one of before may not have been noted */
		d = next();
	while (delivery_int(d, "version") < 3);
	assert_int_equal(shop_metric(&other, "lastunit_webhooks_led"), 1);
	kill(shop_child("lastunit"), SIGCONT);
	shop_wait_until(shop_metric(&shop, "lastunit_webhooks_led") == 0);
	sell("WH-STILL", 1);
	expect("availability.changed", "WH-STILL", 4); /* once: the old leader sends nothing */
	service_stop(&other);
}

static void nothing_is_missed_while_postgresql_restarts(void **state)
{
	service_create_sku(&shop, "WH-PG", 100);
	subscribe("");
	sell("WH-PG", 1);
	expect("availability.changed", "WH-PG", 2);
	shop_restart("postgres");
	shop_wait_until(service_sell(&shop, shop.key_pos, NULL, "WH-PG", 1) == 201);
	const struct delivery *d;
	do
		d = next();
	while (delivery_int(d, "version") < 3);
	assert_int_equal(delivery_int(d, "version"), 3);
}

static void addresses_inside_are_refused_unless_they_are_allowed(void **state)
{
	struct service strict;
	service_create_sku(&shop, "WH-INSIDE", 10);
	service_beside(&strict, &shop, NULL, NULL,
	               (const char *[]){"--webhook-retry-ms", "50", "--log-level", "error", NULL});
	struct answer answer = service_call(&strict, shop.key_admin, "POST", "/v1/webhooks", NULL,
	                                    shop_text("{\"url\":\"%s\"}", receiver.url));
	assert_int_equal(answer.status, 422);
	assert_non_null(strstr(answer_string(&answer, "detail"), "--webhook-private-addresses"));
	answer_done(&answer);
	/* One that was made all the same is not called: the address is looked at when it is connected to. */
	subscribe("");
	shop_sql("UPDATE lastunit.webhook SET url = replace(url, '127.0.0.1', 'localhost')");
	freeze(shop_child("lastunit"));
	shop_sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lastunit webhooks'");
	shop_wait_until(shop_metric(&strict, "lastunit_webhooks_led") == 1);
	assert_int_equal(service_sell(&strict, shop.key_pos, NULL, "WH-INSIDE", 1), 201);
	shop_wait_sql("SELECT last_error LIKE '%private%' FROM lastunit.webhook", "t");
	assert_int_equal(receiver_count(&receiver), 0);
	kill(shop_child("lastunit"), SIGCONT);
	service_stop(&strict);
	expect("availability.changed", "WH-INSIDE", 2);
}

#define WEBHOOK_TEST(f) cmocka_unit_test_setup_teardown(f, begin, over)

int main(void)
{
	shop_options = options;
	const struct CMUnitTest tests[] = {
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
		WEBHOOK_TEST(what_was_not_taken_comes_again_under_the_same_id),
		WEBHOOK_TEST(who_was_away_is_told_the_newest_state_and_no_steps),
		WEBHOOK_TEST(it_is_left_in_peace_as_long_as_it_asks),
		WEBHOOK_TEST(who_asks_to_be_asked_again_loses_no_message),
		WEBHOOK_TEST(a_place_of_another_postgresql_is_left_for_now),
		WEBHOOK_TEST(gone_means_gone_until_it_is_enabled),
		WEBHOOK_TEST(what_it_does_not_want_is_put_aside_and_shown),
		WEBHOOK_TEST(what_was_put_aside_comes_in_pages),
		WEBHOOK_TEST(a_redirect_is_not_followed),
		WEBHOOK_TEST(one_that_is_silent_holds_up_nobody_else),
		WEBHOOK_TEST(who_takes_nothing_for_long_is_disabled),
		WEBHOOK_TEST(another_instance_goes_on_when_the_one_that_delivers_dies),
		WEBHOOK_TEST(another_instance_goes_on_when_the_one_that_delivers_stands_still),
		WEBHOOK_TEST(nothing_is_missed_while_postgresql_restarts),
		WEBHOOK_TEST(addresses_inside_are_refused_unless_they_are_allowed),
	};
	return cmocka_run_group_tests(tests, shop_open, shop_close);
}
