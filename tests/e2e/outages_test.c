/* The promises while things break: keys repeated on broken connections (P3), PostgreSQL killed in the middle of sales
 * (P4), holds that everybody ends at once (P5), Redis and PostgreSQL away, paused and back (P6).
 *
 * The simulation (tests/sim) judges whole histories; here each promise stands alone, with the fault that threatens it.
 */
#include "lib/http_client.h"
#include "lib/shop.h"

#include <signal.h>

static struct service beside;

static const struct service *instance(unsigned number)
{
	return number % 2 ? &beside : &shop;
}

/* --- P3 ----------------------------------------------------------------------------------------------------------- */

struct p3 {
	struct tally answers;
	_Atomic int sold;
	_Atomic bool is_over;
};

/* Sends and hangs up before the answer: the operation outlives its connection. */
static void send_and_leave(const struct service *at, const char *body)
{
	struct http_client client = http_client(at->url, NULL);
	char head[300];
	snprintf(head, sizeof head,
	         "POST /v1/checkouts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"
	         "Content-Length: %zu\r\n\r\n",
	         shop.key_web, strlen(body));
	if (http_client_send_text(&client, head) && http_client_send_text(&client, body))
		http_client_reset(&client);
	http_client_done(&client);
}

static void p3_repeat(int index, void *context)
{
	struct p3 *x = context;
	unsigned seed = (unsigned)index + 1;
	for (int i = 0; i < shop_scaled(60, 8); i++) {
		char body[200], id[37] = "";
		snprintf(body, sizeof body, "{\"idempotency_key\":\"p3-%d-%d\",\"lines\":[{\"sku\":\"P3\",\"quantity\":1}]}",
		         index, i);
		int answered = 0;
		for (int attempt = 0; answered < 2 && attempt < 500; attempt++) {
			const struct service *at = instance((unsigned)rand_r(&seed));
			if (rand_r(&seed) % 3 == 0) {
				send_and_leave(at, body);
				continue;
			}
			struct answer answer = service_call(at, shop.key_web, "POST", "/v1/checkouts", NULL, body);
			tally_add(&x->answers, answer.status);
			if (answer.status == 201) {
				if (answered++ && strcmp(id, answer_string(&answer, "id")) != 0)
					tally_complain(&x->answers, "one key, two sales: %s", body);
				snprintf(id, sizeof id, "%s", answer_string(&answer, "id"));
			} else if (answer.status != 503 && strcmp(answer_string(&answer, "code"), "idempotency_in_flight") != 0) {
				tally_complain(&x->answers, "%d: %.200s", answer.status, answer.body ? answer.body : "no answer");
			}
			answer_done(&answer);
		}
		x->sold += answered == 2;
	}
	if (index == 0)
		x->is_over = true;
}

static void p3_a_key_has_one_effect_however_often_and_wherever_it_is_repeated(void **state)
{
	static struct p3 x;
	int members = 8, keys = members * shop_scaled(60, 8);
	service_create_sku(&shop, "P3", 100000);
	struct crowd *crowd = crowd_begin(members, p3_repeat, &x);
	while (!x.is_over) {
		shop_sql(
			"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lastunit writer'"
			" AND random() < 0.5");
		shop_sleep_ms(50);
	}
	crowd_end(crowd);
	printf("%d keys: %s\n", keys, tally_text(&x.answers));
	assert_string_equal(x.answers.complaint, "");
	assert_int_equal(x.sold, keys);
	shop_expect_row("P3", 100000 - keys, 0);
	assert_int_equal(service_row(&shop, "P3").version, keys + 1);
}

/* --- P4 ----------------------------------------------------------------------------------------------------------- */

#define P4_MAX 20000

struct p4 {
	struct tally answers;
	char (*ids)[37];
	_Atomic int count;
};

static void p4_sell(int index, void *context)
{
	struct p4 *x = context;
	while (!crowd_is_over()) {
		struct answer answer = service_call(instance((unsigned)index), shop.key_web, "POST", "/v1/checkouts", NULL,
		                                    shop_cart("P4=1"));
		tally_add(&x->answers, answer.status);
		if (answer.status == 201 && x->count < P4_MAX - 20)
			snprintf(x->ids[x->count++], 37, "%s", answer_string(&answer, "id"));
		answer_done(&answer);
	}
}

static void p4_what_was_answered_survives_postgres_being_killed(void **state)
{
	static struct p4 x;
	x.ids = calloc(P4_MAX, sizeof *x.ids);
	service_create_sku(&shop, "P4", 1000000);
	struct crowd *crowd = crowd_begin(8, p4_sell, &x);
	for (int i = 0; i < shop_scaled(4, 1); i++) {
		int count = x.count;
		shop_wait_until(x.count > count + 20);
		shop_restart("postgres");
	}
	int count = x.count;
	shop_wait_until(x.count > count + 20);
	crowd_end(crowd);
	printf("%s\n", tally_text(&x.answers));
	assert_int_equal(tally_of(&x.answers, 201) + tally_of(&x.answers, 503), tally_total(&x.answers));
	/* Every sale that was answered is there; others may be, whose answer was lost: never the other way round. */
	int64_t sold = 1000000 - service_row(&shop, "P4").on_hand;
	assert_true(sold >= tally_of(&x.answers, 201));
	assert_int_equal(service_row(&shop, "P4").version, sold + 1);
	for (int i = 0; i < x.count; i += 1 + x.count / 300)
		shop_expect_get(shop_path("checkouts", x.ids[i], ""), 200);
	free(x.ids);
}

/* --- P5 ----------------------------------------------------------------------------------------------------------- */

#define P5_HOLDS 120

struct p5 {
	char ids[P5_HOLDS][37];
	_Atomic int committed[P5_HOLDS]; /* times answered 200 */
	struct tally commits, releases, extends;
};

static void p5_end(int index, void *context)
{
	struct p5 *x = context;
	for (int i = 0; i < P5_HOLDS; i++) {
		/* Each begins elsewhere, so that all three meet on every hold in every order. */
		int hold = (i + index * 17) % P5_HOLDS;
		const struct service *at = instance((unsigned)(index + i));
		switch (index % 3) {
		case 0: {
			int status = service_end(at, shop.key_web, x->ids[hold], "commit");
			tally_add(&x->commits, status);
			x->committed[hold] += status == 200;
			break;
		}
		case 1:
			tally_add(&x->releases, service_end(at, shop.key_web, x->ids[hold], "release"));
			break;
		default:
			tally_add(&x->extends, service_end(at, shop.key_web, x->ids[hold], "extend"));
			break;
		}
	}
}

static void p5_every_hold_ends_exactly_once_whoever_ends_it(void **state)
{
	static struct p5 x;
	service_create_sku(&shop, "P5", P5_HOLDS);
	for (int i = 0; i < P5_HOLDS; i++)
		assert_int_equal(service_reserve(&shop, shop.key_web, NULL, "P5", 1, 3600, x.ids[i]), 201);
	/* A third of them is due at the moment when all begin. */
	shop_sql(
		"WITH due AS (UPDATE lastunit.hold h SET expires_at = clock_timestamp() FROM lastunit.sku s"
		" WHERE s.id = h.sku_id AND s.code = 'P5' AND hashtext(h.reservation_id::text) %% 3 = 0"
		" RETURNING h.reservation_id)"
		" UPDATE lastunit.reservation SET expires_at = clock_timestamp() WHERE id IN (SELECT reservation_id FROM due)");
	crowd_run(9, p5_end, &x);
	shop_wait_sql("SELECT reserved FROM lastunit.sku WHERE code = 'P5'", "0");
	printf("commits: %s; releases: %s; extends: %s\n", tally_text(&x.commits), tally_text(&x.releases),
	       tally_text(&x.extends));
	int sold = 0;
	for (int i = 0; i < P5_HOLDS; i++) {
		shop_expect_get(shop_path("reservations", x.ids[i], ""), 200);
		const char *status = answer_string(&shop_answer, "status");
		bool committed = strcmp(status, "committed") == 0;
		assert_true(committed || strcmp(status, "released") == 0 || strcmp(status, "expired") == 0);
		/* Answered "committed" if and only if it was. */
		assert_int_equal(x.committed[i] > 0, committed);
		sold += committed;
	}
	shop_expect_row("P5", P5_HOLDS - sold, 0);
	assert_int_equal(service_row(&shop, "P5").version, 1 + 2 * P5_HOLDS);
	assert_int_equal(tally_of(&x.commits, 200) + tally_of(&x.commits, 409) + tally_of(&x.commits, 410),
	                 tally_total(&x.commits));
	assert_int_equal(tally_of(&x.releases, 200) + tally_of(&x.releases, 409), tally_total(&x.releases));
}

/* --- P6 ----------------------------------------------------------------------------------------------------------- */

#define REQUEST_TIMEOUT_MS 5000

struct p6 {
	struct tally reads, sales, stale;
	_Atomic int64_t longest_ms;
};

static void p6_ask(int index, void *context)
{
	struct p6 *x = context;
	while (!crowd_is_over()) {
		const struct service *at = instance((unsigned)index / 2);
		int64_t since_ms = shop_now_ms();
		struct answer answer;
		if (index % 4 == 0) {
			answer = service_call(at, shop.key_web, "POST", "/v1/checkouts", NULL, shop_cart("P6=1"));
			tally_add(&x->sales, answer.status);
		} else {
			bool stale = index % 4 == 1;
			answer = service_call(at, shop.key_web, "GET", "/v1/availability/P6",
			                      stale ? "Cache-Control: max-stale=60\r\n" : NULL, NULL);
			tally_add(stale ? &x->stale : &x->reads, answer.status);
			if (!stale && answer_at(&answer, "stale"))
				tally_complain(&x->reads, "stale though nobody asked for it");
		}
		int64_t took_ms = shop_now_ms() - since_ms, longest_ms = x->longest_ms;
		while (took_ms > longest_ms && !atomic_compare_exchange_weak(&x->longest_ms, &longest_ms, took_ms))
			;
		if (answer.status == 503 && atoi(answer_header(&answer, "Retry-After")) < 1)
			tally_complain(&x->reads, "a 503 that does not say when to come again");
		answer_done(&answer);
	}
}

/* Sales go on, as the others see it, before the next thing breaks. */
static void wait_for_sales(struct p6 *x)
{
	int sold = tally_of(&x->sales, 201);
	shop_wait_until(tally_of(&x->sales, 201) > sold + 20);
}

static void p6_every_request_is_answered_whatever_breaks(void **state)
{
	static struct p6 x;
	pid_t stopped;
	service_create_sku(&shop, "P6", 1000000);
	struct crowd *crowd = crowd_begin(16, p6_ask, &x);
	wait_for_sales(&x);
	shop_restart("redis-server");
	wait_for_sales(&x);
	stopped = shop_child("redis-server");
	kill(stopped, SIGSTOP);
	wait_for_sales(&x);
	kill(stopped, SIGCONT);
	wait_for_sales(&x);
	free(shop_redis("FLUSHALL"));
	wait_for_sales(&x);
	shop_restart("postgres");
	wait_for_sales(&x);
	kill(shop_child("postgres"), SIGQUIT);
	wait_for_sales(&x);
	if (!shop_short()) {
		/* All sessions stand still for longer than any deadline: whoever asked is told so in time. */
		shop_sql("SELECT count(*) FROM lastunit.sku");
		struct stranger *stranger = stranger_new();
		stranger_say(stranger, "BEGIN; LOCK TABLE lastunit.sku IN ACCESS EXCLUSIVE MODE");
		shop_sleep_ms(REQUEST_TIMEOUT_MS + 1000);
		stranger_say(stranger, "ROLLBACK");
		stranger_free(stranger);
		wait_for_sales(&x);
	}
	crowd_end(crowd);
	printf("reads: %s; allowing stale: %s; sales: %s; the longest took %lld ms\n", tally_text(&x.reads),
	       tally_text(&x.stale), tally_text(&x.sales), (long long)x.longest_ms);
	assert_string_equal(x.reads.complaint, "");
	assert_int_equal(tally_of(&x.reads, 200) + tally_of(&x.reads, 503), tally_total(&x.reads));
	assert_int_equal(tally_of(&x.stale, 200) + tally_of(&x.stale, 503), tally_total(&x.stale));
	assert_int_equal(tally_of(&x.sales, 201) + tally_of(&x.sales, 503), tally_total(&x.sales));
	/* The promise itself has a time in it. Sanitizers are slow, and no shop runs under them. */
	if (!shop_short())
		assert_in_range(x.longest_ms, 0, REQUEST_TIMEOUT_MS + 1000);
	/* And everything is as before: hits, from both. */
	shop_warm(&shop, "P6");
	shop_warm(&beside, "P6");
	struct row row = service_row(&shop, "P6");
	assert_true(1000000 - row.on_hand >= tally_of(&x.sales, 201));
	shop_expect_seen(&beside, "P6", row.on_hand, 0);
}

static int open_both(void **state)
{
	int code = shop_open(state);
	shop_beside(&beside, NULL, NULL);
	return code;
}

static int close_both(void **state)
{
	int code = service_stop(&beside);
	return shop_close(state) || code;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(p3_a_key_has_one_effect_however_often_and_wherever_it_is_repeated, shop_audit),
		cmocka_unit_test_teardown(p4_what_was_answered_survives_postgres_being_killed, shop_audit),
		cmocka_unit_test_teardown(p5_every_hold_ends_exactly_once_whoever_ends_it, shop_audit),
		cmocka_unit_test_teardown(p6_every_request_is_answered_whatever_breaks, shop_audit),
	};
	return cmocka_run_group_tests(tests, open_both, close_both);
}
