/* Webhooks whose endpoint misbehaves, and those of instances that die or stand still: what was not taken comes again, and
 * nothing is missed. */
#include "e2e/webhooks_fixture.h"

#include <signal.h>
#include <time.h>

#include "lib/freeze.h"

static const char *const beside_options[] =
	{"--webhook-private-addresses", "--webhook-retry-ms", "50", "--log-level", "error", NULL};

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

static void any_2xx_is_a_yes(void **state)
{
	static const int yes[] = {201, 202, 204, 299};
	service_create_sku(&shop, "WH-YES", 10);
	subscribe("");
	for (int i = 0; i < 4; i++) {
		receiver_answer(&receiver, yes[i], "");
		sell("WH-YES", 1);
		expect("availability.changed", "WH-YES", i + 2);
	}
	shop_wait_until(*look("delivered_at"));
	assert_string_equal(look("status"), "active");
	assert_int_equal(receiver_count(&receiver), 4);
}

/* As if so many attempts had failed before: in how many seconds the next one is due. */
static int64_t pause_after(int attempts)
{
	/* The deliverer reads the row each second, and writes it when an attempt has failed in between. */
	shop_wait_until((shop_sql("UPDATE lastunit.webhook SET attempts = %d, next_attempt_at = NULL, failing_since = NULL"
	                          " WHERE attempts <> %d",
	                          attempts, attempts + 1),
	                 shop_sql_int("SELECT attempts FROM lastunit.webhook") == attempts + 1));
	return shop_sql_int("SELECT extract(epoch FROM next_attempt_at - clock_timestamp())::int8 FROM lastunit.webhook");
}

/* 50 ms, 100 ms, 200 ms … and at most a quarter of an hour; each half as long to one and a half times. */
static void who_goes_on_failing_is_asked_ever_more_rarely(void **state)
{
	service_create_sku(&shop, "WH-RARELY", 10);
	subscribe("");
	receiver_answer(&receiver, 500, "");
	sell("WH-RARELY", 1);
	assert_in_range(pause_after(12), 30, 205 * 3 / 2);
	assert_in_range(pause_after(60), 300, 900 * 3 / 2);
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
	static struct receiver elsewhere; /* its thread outlives a failed assertion */
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
	static struct receiver silent; /* its thread outlives a failed assertion */
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

static const struct CMUnitTest tests[] = {
	WEBHOOK_TEST(what_was_not_taken_comes_again_under_the_same_id),
	WEBHOOK_TEST(who_was_away_is_told_the_newest_state_and_no_steps),
	WEBHOOK_TEST(any_2xx_is_a_yes),
	WEBHOOK_TEST(who_goes_on_failing_is_asked_ever_more_rarely),
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

WEBHOOK_MAIN(tests)
