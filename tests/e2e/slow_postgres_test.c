/* A PostgreSQL whose every answer is later than the read lease lasts, as on a machine that others use up: nothing of the
 * cache may be believed any more, and who sells waits for the keys to be read; nobody is refused for it.
 */
#include "lib/detour.h"

static bool database_reachable(const struct service *instance)
{
	struct answer answer = service_call(instance, NULL, "GET", "/readyz", NULL, NULL);
	bool reachable = json_is_true(answer_at(&answer, "database_reachable"));
	answer_done(&answer);
	return reachable;
}

static void wait_reachable(const struct service *instance, bool reachable)
{
	for (int i = 0; i < 20000 && database_reachable(instance) != reachable; i++)
		usleep(1000);
	assert_int_equal(database_reachable(instance), reachable);
}

static void who_sells_waits_for_the_keys_and_is_not_refused(void **state)
{
	service_create_sku(&shop, "SLOW", 10);
	detour_open();
	wait_reachable(&detour.service, true);
	proxy_delay(&detour.postgres, 200000); /* there and back: more than a lease */
	wait_reachable(&detour.service, false);
	for (int i = 0; i < 3; i++) {
		struct answer answer = service_call(&detour.service, shop.key_web, "GET", "/v1/reservations?limit=1", NULL,
		                                    NULL);
		if (answer.status != 200)
			print_error("%.300s\n", answer.body ? answer.body : "no answer");
		assert_int_equal(answer.status, 200);
		answer_done(&answer);
	}
	assert_true(shop_metric(&detour.service, "lastunit_http_parked_total") > 0);
	proxy_delay(&detour.postgres, 0);
	wait_reachable(&detour.service, true);
	char code[40];
	assert_int_equal(shop_ask(&detour.service, shop.key_web, "/v1/checkouts", shop_cart("SLOW=1"), code), 201);
	shop_expect_seen(&detour.service, "SLOW", 9, 0);
	detour_close();
}

/* An old number says that it is one, and has no tag: whoever revalidated it would be told that nothing has changed. */
static void who_takes_an_old_number_is_told_that_it_is_one(void **state)
{
	static const char allowed[] = "Cache-Control: max-stale=60\r\n";
	service_create_sku(&shop, "OLD", 10);
	detour_open();
	shop_warm(&detour.service, "OLD");
	proxy_cut_all(&detour.postgres, true);
	wait_reachable(&detour.service, false);
	struct answer one = service_call(&detour.service, shop.key_web, "GET", "/v1/availability/OLD", allowed, NULL);
	struct answer several = service_call(&detour.service, shop.key_web, "GET", "/v1/availability?sku=OLD", allowed,
	                                     NULL);
	proxy_cut_all(&detour.postgres, false);
	detour_close();
	assert_int_equal(one.status, 200);
	assert_int_equal(answer_int(&one, "available"), 10);
	assert_true(json_is_true(answer_at(&one, "stale")));
	assert_string_equal(answer_header(&one, "Cache-Status"), "lastunit; fwd=stale");
	assert_string_equal(answer_header(&one, "ETag"), "");
	assert_true(json_is_true(answer_at(&several, "items.0.stale")));
	assert_string_equal(answer_header(&several, "Cache-Status"), "lastunit; fwd=stale");
	answer_done(&one);
	answer_done(&several);
}

/* Revoked since, and never heard of it: the first reading of the lease has to say whether they are still good. */
static void keys_read_at_the_start_are_believed_only_once_they_were_read_again(void **state)
{
	detour_open();
	detour_kill();
	proxy_when(&detour.postgres, PROXY_TO_SERVER, "lastunit lease", PROXY_HOLD);
	detour_serve_again();
	struct errand *errand = errand_begin(&detour.service, shop.key_web, "GET", "/v1/reservations?limit=1", NULL);
	for (int i = 0; i < 20000 && shop_metric(&detour.service, "lastunit_http_parked_total") < 1 && !errand->done; i++)
		usleep(1000);
	assert_int_equal(shop_metric(&detour.service, "lastunit_http_parked_total"), 1);
	proxy_release(&detour.postgres);
	assert_int_equal(errand_end(errand), 200);
	errand_done(errand);
	detour_close();
}

int main(void)
{
	static const char *const options[] = {"--lease-ms", "300", "--reopen-after-ms", "100", "--request-timeout-ms",
	                                      "20000",      NULL};
	shop_options = options;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(who_sells_waits_for_the_keys_and_is_not_refused, detour_audit),
		cmocka_unit_test_teardown(who_takes_an_old_number_is_told_that_it_is_one, detour_audit),
		cmocka_unit_test_teardown(keys_read_at_the_start_are_believed_only_once_they_were_read_again, detour_audit),
	};
	return cmocka_run_group_tests(tests, shop_open, shop_close);
}
