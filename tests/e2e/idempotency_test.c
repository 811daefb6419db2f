/* One key, one effect, one answer: whatever is repeated, wherever, whatever broke in between.
 *
 * Each test is named after the fault it guards against: two that both find the key unknown (b46), a finished key reset
 * by a late duplicate or by a dead owner's (b47), a key used for something else (b48), keys shared between channels
 * (b49), errors replayed for ever (b50), a till's queue sent twice (b51), a COMMIT lost in flight (b54).
 *
 * The second instance reaches PostgreSQL through a proxy that loses what networks lose.
 */
#include "lib/detour.h"

#include <signal.h>

static const char *checkout(const char *key, const char *sku, int quantity)
{
	return shop_text("{\"idempotency_key\":\"%s\",\"lines\":[{\"sku\":\"%s\",\"quantity\":%d}]}", key, sku, quantity);
}

/* What a good client does: the same key until there is an answer that is final. */
static struct answer insist(const struct service *instance, const char *key, const char *path, const char *body)
{
	for (int64_t until_ms = shop_now_ms() + 60000;;) {
		struct answer answer = service_call(instance, key, "POST", path, NULL, body);
		bool in_flight = strcmp(answer_string(&answer, "code"), "idempotency_in_flight") == 0;
		if ((answer.status && answer.status < 500 && !in_flight) || shop_now_ms() > until_ms)
			return answer;
		answer_done(&answer);
		shop_sleep_ms(10);
	}
}

static void is_sold_once(const char *sku, const char *cart, int64_t left)
{
	struct answer first = insist(&shop, shop.key_web, "/v1/checkouts", cart);
	struct answer second = insist(&detour.service, shop.key_web, "/v1/checkouts", cart);
	assert_int_equal(first.status, 201);
	assert_int_equal(second.status, 201);
	assert_true(json_equal(first.json, second.json));
	assert_string_equal(answer_header(&second, "Idempotent-Replayed"), "true");
	answer_done(&first);
	answer_done(&second);
	shop_expect_row(sku, left, 0);
	assert_int_equal(service_ledger_count(&shop, sku, "sale"), 1);
	shop_expect_seen(&shop, sku, left, 0);
	shop_expect_seen(&detour.service, sku, left, 0);
}

/* --- B46, B47, B48 ------------------------------------------------------------------------------------------------ */

struct b46 {
	const char *body;
	struct tally tally;
	char ids[50][37];
};

static void b46_send(int index, void *context)
{
	struct b46 *x = context;
	struct answer answer = service_call(index % 2 ? &detour.service : &shop, shop.key_web, "POST", "/v1/checkouts",
	                                    NULL, x->body);
	tally_add(&x->tally, answer.status);
	if (answer.status == 201)
		snprintf(x->ids[index], sizeof x->ids[index], "%s", answer_string(&answer, "id"));
	else if (strcmp(answer_string(&answer, "code"), "idempotency_in_flight") != 0)
		x->tally.other_code++;
	answer_done(&answer);
}

static void b46_fifty_twins_in_flight_on_two_instances_are_one_sale(void **state)
{
	for (int round = 0; round < shop_scaled(20, 3); round++) {
		struct b46 x = {.body = checkout(service_new_key(), shop_text("B46-%d", round), 1)};
		char sku[20];
		snprintf(sku, sizeof sku, "B46-%d", round);
		service_create_sku(&shop, sku, 10);
		crowd_run(50, b46_send, &x);
		assert_int_equal(x.tally.other_code, 0);
		assert_true(tally_of(&x.tally, 201) > 0);
		const char *id = NULL;
		for (int i = 0; i < 50; i++) {
			if (!*x.ids[i])
				continue;
			id = id ? id : x.ids[i];
			assert_string_equal(x.ids[i], id);
		}
		shop_expect_row(sku, 9, 0);
		assert_int_equal(service_ledger_count(&shop, sku, NULL), 2);
	}
}

static void b47_a_finished_key_stays_finished_while_connections_break(void **state)
{
	service_create_sku(&shop, "B47", 10);
	const char *body = checkout("b47", "B47", 1);
	struct answer first = insist(&shop, shop.key_web, "/v1/checkouts", body);
	assert_int_equal(first.status, 201);
	for (int i = 0; i < 20; i++) {
		shop_sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'lastunit w%%'");
		struct answer again = service_call(i % 2 ? &detour.service : &shop, shop.key_web, "POST", "/v1/checkouts", NULL,
		                                   body);
		assert_true(again.status == 201 || again.status == 503);
		if (again.status == 201)
			assert_true(json_equal(again.json, first.json));
		answer_done(&again);
	}
	answer_done(&first);
	is_sold_once("B47", body, 9);
}

static void b47_a_dead_owners_key_has_his_effect_or_ours_never_both(void **state)
{
	service_create_sku(&shop, "B47-DEAD", 10);
	const char *body = shop_text("%s", checkout("b47-dead", "B47-DEAD", 1));
	proxy_when(&detour.postgres, PROXY_TO_SERVER, "\vCOMMIT", PROXY_HOLD);
	struct errand *sale = errand_begin(&detour.service, shop.key_web, "POST", "/v1/checkouts", body);
	proxy_wait_matches(&detour.postgres, 1);
	detour_kill();
	assert_int_equal(errand_end(sale), 0);
	errand_done(sale);
	/* His transaction still stands open, his COMMIT is on the way; the retry must not be answered before that is known. */
	struct errand *retry = errand_begin(&shop, shop.key_web, "POST", "/v1/checkouts", body);
	shop_wait_sql("SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'", "t");
	assert_false(retry->done);
	proxy_release(&detour.postgres);
	int status = errand_end(retry);
	assert_true(status == 201 || status == 503);
	errand_done(retry);
	detour_serve_again();
	is_sold_once("B47-DEAD", body, 9);
}

static void b48_a_key_names_one_thing(void **state)
{
	service_create_sku(&shop, "B48", 10);
	service_create_sku(&shop, "B48-B", 10);
	shop_expect(shop.key_web, "POST", "/v1/checkouts", NULL, checkout("b48", "B48", 1), 201);
	const char *const others[] = {checkout("b48", "B48", 2), checkout("b48", "B48-B", 1)};
	for (int i = 0; i < 2; i++) {
		shop_expect(shop.key_web, "POST", "/v1/checkouts", NULL, others[i], 422);
		shop_expect_problem("idempotency_conflict", "");
	}
	shop_expect(shop.key_web, "POST", "/v1/reservations", NULL, checkout("b48", "B48", 1), 422);
	shop_expect_problem("idempotency_conflict", "");
	shop_expect_row("B48", 9, 0);
	shop_expect_row("B48-B", 10, 0);
	is_sold_once("B48", checkout("b48", "B48", 1), 9);
}

/* --- B49, B50 ----------------------------------------------------------------------------------------------------- */

static void b49_two_channels_may_choose_the_same_key(void **state)
{
	char id[37];
	service_create_sku(&shop, "B49", 10);
	shop_expect(shop.key_web, "POST", "/v1/checkouts", NULL, checkout("order-1001", "B49", 1), 201);
	snprintf(id, sizeof id, "%s", answer_string(&shop_answer, "id"));
	shop_expect(shop.key_pos, "POST", "/v1/checkouts", NULL, checkout("order-1001", "B49", 1), 201);
	assert_string_equal(answer_header(&shop_answer, "Idempotent-Replayed"), "");
	assert_string_not_equal(answer_string(&shop_answer, "id"), id);
	assert_string_equal(answer_string(&shop_answer, "channel"), "pos");
	/* Nor does a key tell what another channel did with it. */
	shop_expect(shop.key_voice, "POST", "/v1/checkouts", NULL, checkout("order-1001", "B49", 100), 409);
	shop_expect_row("B49", 8, 0);
}

static void b50_refusals_are_kept_and_failures_are_not(void **state)
{
	service_create_sku(&shop, "B50", 0);
	const char *refused = shop_text("%s", checkout("b50", "B50", 1)),
			   *failed = shop_text("%s", checkout("b50-2", "B50", 1));
	shop_expect(shop.key_web, "POST", "/v1/checkouts", NULL, refused, 409);
	assert_int_equal(service_adjust(&shop, "B50", 5), 201);
	shop_expect(shop.key_web, "POST", "/v1/checkouts", NULL, refused, 409);
	assert_string_equal(answer_header(&shop_answer, "Idempotent-Replayed"), "true");
	/* Without PostgreSQL: an honest 503, that says when to come again and leaves nothing. */
	proxy_cut_all(&detour.postgres, true);
	struct answer answer = service_call(&detour.service, shop.key_web, "POST", "/v1/checkouts", NULL, failed);
	assert_int_equal(answer.status, 503);
	assert_true(atoi(answer_header(&answer, "Retry-After")) > 0);
	answer_done(&answer);
	proxy_cut_all(&detour.postgres, false);
	answer = insist(&detour.service, shop.key_web, "/v1/checkouts", failed);
	assert_int_equal(answer.status, 201);
	assert_string_equal(answer_header(&answer, "Idempotent-Replayed"), "");
	answer_done(&answer);
	is_sold_once("B50", failed, 4);
	/* Validation is not stored either. */
	shop_expect(shop.key_web, "POST", "/v1/checkouts", NULL, "{\"idempotency_key\":\"b50-3\",\"lines\":[]}", 422);
	shop_expect(shop.key_web, "POST", "/v1/checkouts", NULL, checkout("b50-3", "B50", 1), 201);
	shop_expect_row("B50", 3, 0);
}

/* --- B51 ---------------------------------------------------------------------------------------------------------- */

/* Twenty sales of a till: the first twelve of B51-A, then seven of B51-B, and one that cannot be had. */
static char *till_queue(void)
{
	char *body = malloc(4000), *to = body + sprintf(body, "{\"operations\":[");
	for (int i = 0; i < 20; i++)
		to += sprintf(to,
		              "%s{\"operation\":\"checkout\",\"idempotency_key\":\"b51-%d\",\"lines\":[{\"sku\":\"%s\","
		              "\"quantity\":%d}]}",
		              i ? "," : "", i, i < 12 ? "B51-A" : "B51-B", i == 15 ? 1000 : 1);
	strcpy(to, "]}");
	return body;
}

struct b51 {
	char *body;
	struct tally results, calls;
};

static void b51_resend(int index, void *context)
{
	struct b51 *x = context;
	struct answer answer = service_call(index ? &detour.service : &shop, shop.key_pos, "POST", "/v1/batch", NULL,
	                                    x->body);
	tally_add(&x->calls, answer.status);
	for (int i = 0; i < 20; i++)
		tally_add(&x->results, (int)answer_int(&answer, shop_text("results.%d.status", i)));
	answer_done(&answer);
}

static void b51_a_tills_queue_sent_again_by_two_tabs_has_twenty_effects(void **state)
{
	struct b51 x = {.body = till_queue()};
	service_create_sku(&shop, "B51-A", 100);
	service_create_sku(&shop, "B51-B", 100);
	struct stranger *stranger = stranger_new();
	stranger_say(stranger, "BEGIN; SELECT 1 FROM lastunit.sku WHERE code = 'B51-B' FOR UPDATE");
	struct errand *queue = errand_begin(&detour.service, shop.key_pos, "POST", "/v1/batch", x.body);
	shop_wait_until(service_row(&shop, "B51-A").on_hand == 88);
	detour_kill(); /* twelve are done, and the till does not know */
	assert_int_equal(errand_end(queue), 0);
	errand_done(queue);
	stranger_say(stranger, "ROLLBACK");
	stranger_free(stranger);
	detour_serve_again();
	crowd_run(2, b51_resend, &x);
	free(x.body);
	assert_string_equal(tally_text(&x.calls), "2 x 200");
	assert_string_equal(tally_text(&x.results), "38 x 201, 2 x 409");
	shop_expect_row("B51-A", 88, 0);
	shop_expect_row("B51-B", 93, 0);
	assert_int_equal(service_ledger_count(&shop, "B51-A", "sale"), 12);
	assert_int_equal(service_ledger_count(&shop, "B51-B", "sale"), 7);
}

/* --- B54 ---------------------------------------------------------------------------------------------------------- */

static void lose_commit(const char *sku, enum proxy_action action, bool terminate)
{
	service_create_sku(&shop, sku, 10);
	const char *body = shop_text("%s", checkout(service_new_key(), sku, 1));
	unsigned matches = detour.postgres.matches;
	proxy_when(&detour.postgres, PROXY_TO_SERVER, "\vCOMMIT", action);
	struct errand *sale = errand_begin(&detour.service, shop.key_web, "POST", "/v1/checkouts", body);
	proxy_wait_matches(&detour.postgres, matches + 1);
	if (terminate) {
		shop_sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction'");
		proxy_release(&detour.postgres);
	}
	int status = errand_end(sale);
	if (status != 201 && status != 503)
		fail_msg("%s: %d", sku, status);
	errand_done(sale);
	is_sold_once(sku, body, 9);
}

static void b54_a_commit_lost_in_flight_is_found_out_never_repeated(void **state)
{
	for (int i = 0; i < shop_scaled(5, 2); i++) {
		char sku[32];
		snprintf(sku, sizeof sku, "B54-BEFORE-%d", i);
		lose_commit(sku, PROXY_CUT_BEFORE, false);
		snprintf(sku, sizeof sku, "B54-AFTER-%d", i);
		lose_commit(sku, PROXY_CUT_AFTER, false);
		snprintf(sku, sizeof sku, "B54-ANSWER-%d", i);
		lose_commit(sku, PROXY_CUT_AFTER_ANSWER, false);
		snprintf(sku, sizeof sku, "B54-KILLED-%d", i);
		lose_commit(sku, PROXY_HOLD, true);
	}
	assert_true(shop_metric(&detour.service, "lastunit_outcome_unknown_total") > 0);
}

/* --- webhooks ----------------------------------------------------------------------------------------------------- */

#define HOOK "00000000-0000-8000-8000-000000000001"
#define ADD_HOOKS(count, id)                                                                                        \
	"INSERT INTO lastunit.webhook (id, url, events, secret, identity, xid, sku_id, version, disabled)"              \
	" SELECT " id ", 'https://example.com/', 1, 'whsec_old', 0, '1', 0, 0, 'a test' FROM generate_series(1, " count \
	")"

/* Reads connect the loaders, and give these connections time: one that is lost right after it was made is not made anew
 * at once. */
static void connect_loaders(void)
{
	for (int64_t until_ms = shop_now_ms() + 200; shop_now_ms() < until_ms;) {
		struct answer answer = service_call(&detour.service, shop.key_admin, "GET", "/v1/webhooks", NULL, NULL);
		answer_done(&answer);
	}
}

/* The statement's answer is lost with its connection, so the service runs it once more on another: at once, unless that
 * connection was new: then it is 503, and all is arranged anew for the next attempt. */
static struct answer losing(const char *arrange, const char *statement, const char *method, const char *path,
                            const char *body)
{
	for (int64_t until_ms = shop_now_ms() + 60000;;) {
		connect_loaders();
		shop_sql("%s", arrange);
		unsigned matches = proxy_matches(&detour.postgres);
		proxy_when(&detour.postgres, PROXY_TO_SERVER, statement, PROXY_CUT_AFTER_ANSWER);
		struct answer answer = service_call(&detour.service, shop.key_admin, method, path, NULL, body);
		if (answer.status != 503 || shop_now_ms() > until_ms) {
			assert_int_equal(proxy_matches(&detour.postgres), matches + 1);
			return answer;
		}
		answer_done(&answer);
	}
}

static void a_webhooks_lost_answer_is_that_of_one_run(void **state)
{
	struct answer made = losing("DELETE FROM lastunit.webhook; " ADD_HOOKS("99", "gen_random_uuid()"), "webhook_insert",
	                            "POST", "/v1/webhooks", "{\"url\":\"https://example.com/\"}");
	assert_int_equal(made.status, 201); /* the hundredth: its own is not one too many */
	assert_string_equal(answer_string(&made, "secret"),
	                    shop_sql("SELECT secret FROM lastunit.webhook WHERE id = '%s'", answer_string(&made, "id")));
	struct answer turned = losing("DELETE FROM lastunit.webhook; " ADD_HOOKS("1", "'" HOOK "'"), "webhook_rotate",
	                              "POST", "/v1/webhooks/" HOOK "/rotate", NULL);
	assert_int_equal(turned.status, 200);
	assert_string_equal(answer_string(&turned, "secret"), shop_sql("SELECT secret FROM lastunit.webhook"));
	assert_string_equal(shop_sql("SELECT old_secret FROM lastunit.webhook"), "whsec_old");
	struct answer gone = losing("DELETE FROM lastunit.webhook; " ADD_HOOKS("1", "'" HOOK "'"), "webhook_delete",
	                            "DELETE", "/v1/webhooks/" HOOK, NULL);
	assert_int_equal(gone.status, 204);
	assert_int_equal(shop_sql_int("SELECT count(*) FROM lastunit.webhook"), 0);
	answer_done(&made);
	answer_done(&turned);
	answer_done(&gone);
}

static int open_both(void **state)
{
	int code = shop_open(state);
	detour_open();
	return code;
}

static int close_both(void **state)
{
	detour_close();
	return shop_close(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(b46_fifty_twins_in_flight_on_two_instances_are_one_sale, shop_audit),
		cmocka_unit_test_teardown(b47_a_finished_key_stays_finished_while_connections_break, shop_audit),
		cmocka_unit_test_teardown(b47_a_dead_owners_key_has_his_effect_or_ours_never_both, shop_audit),
		cmocka_unit_test_teardown(b48_a_key_names_one_thing, shop_audit),
		cmocka_unit_test_teardown(b49_two_channels_may_choose_the_same_key, shop_audit),
		cmocka_unit_test_teardown(b50_refusals_are_kept_and_failures_are_not, shop_audit),
		cmocka_unit_test_teardown(b51_a_tills_queue_sent_again_by_two_tabs_has_twenty_effects, shop_audit),
		cmocka_unit_test_teardown(b54_a_commit_lost_in_flight_is_found_out_never_repeated, shop_audit),
		cmocka_unit_test_teardown(a_webhooks_lost_answer_is_that_of_one_run, shop_audit),
	};
	return cmocka_run_group_tests(tests, open_both, close_both);
}
