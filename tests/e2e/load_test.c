/* Under load: lock order, retries, hot rows, and nobody waiting for somebody else's slow third party.
 *
 * Each test is named after the fault it guards against: carts that deadlock (b74, b75), lock failures that reach the
 * client as a server error (b76) or as "not enough" (b77), a lock held across a call to Redis (b78), a hot row that
 * grows (b80), a stampede after each sale (b84), balances that two entries share (b99).
 *
 * How long things take is printed, not judged.
 */
#include "lib/shop.h"

#include <signal.h>

static struct service beside;

static int64_t deadlocks(void)
{
	return shop_sql_int("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()");
}

/* --- B74, B75 ----------------------------------------------------------------------------------------------------- */

struct b74 {
	struct tally carts, holds;
	_Atomic int64_t taken[3];
};

static void b74_buy(int index, void *context)
{
	static const struct {
		const char *cart;
		int taken[3];
	} rows[] = {{"B74-A=1 B74-B=1", {1, 1, 0}},
	            {"B74-B=1 B74-A=1", {1, 1, 0}},
	            {"B74-A=1 B74-B=1 B74-C=1", {1, 1, 1}},
	            {"B74-C=1 B74-B=1 B74-A=1", {1, 1, 1}},
	            {"B74-C=1 B74-A=1", {1, 0, 1}}};
	struct b74 *x = context;
	char code[40], id[37];
	for (int i = 0; i < shop_scaled(40, 5); i++) {
		const struct service *at = (index + i) % 3 ? &shop : &beside;
		int row = (index + i) % 5;
		int status = shop_ask(at, shop_key(index), "/v1/checkouts", shop_cart(rows[row].cart), code);
		tally_add(&x->carts, status);
		for (int sku = 0; status == 201 && sku < 3; sku++)
			x->taken[sku] += rows[row].taken[sku];
		/* Work for the reaper, on the same rows. */
		if (i % 8 == 0)
			tally_add(&x->holds, service_reserve(at, shop_key(index), NULL, i % 16 ? "B74-A" : "B74-C", 1, 1, id));
	}
}

static void b74_import(int index, void *context)
{
	char path[] = "/tmp/lastunit-b74-XXXXXX";
	FILE *file = fdopen(mkstemp(path), "w");
	fprintf(file, "sku,delta\nB74-C,%d\nB74-A,%d\nB74-B,%d\n", index + 1, index + 1, index + 1);
	fclose(file);
	assert_int_equal(service_run(&shop, (const char *[]){"import", path, NULL}), 0);
	unlink(path);
}

static void b74_carts_in_any_order_never_deadlock(void **state)
{
	static struct b74 x; /* its crowd outlives a failed assertion */
	static const char *const skus[] = {"B74-A", "B74-B", "B74-C"};
	for (int i = 2; i >= 0; i--)
		service_create_sku(&shop, skus[i], 10000);
	int64_t before = deadlocks();
	struct crowd *crowd = crowd_begin(64, b74_buy, &x);
	for (int i = 0; i < 3; i++)
		b74_import(i, NULL);
	crowd_end(crowd);
	assert_int_equal(tally_of(&x.carts, 201), tally_total(&x.carts));
	assert_int_equal(tally_of(&x.holds, 201), tally_total(&x.holds));
	shop_wait_sql("SELECT sum(reserved) FROM lastunit.sku WHERE code LIKE 'B74-%'", "0");
	for (int i = 0; i < 3; i++)
		shop_expect_row(skus[i], 10000 + 1 + 2 + 3 - x.taken[i], 0);
	assert_int_equal(deadlocks(), before);
}

static void b75_a_repeated_sku_does_not_wait_for_itself(void **state)
{
	char id[37];
	service_create_sku(&shop, "B75", 10);
	for (int i = 0; i < 2; i++) {
		shop_expect_post(i ? "/v1/reservations" : "/v1/checkouts", shop_cart("B75=1 B75=1"), 201);
		assert_int_equal(json_array_size(answer_at(&shop_answer, "lines")), 1);
		assert_int_equal(answer_int(&shop_answer, "lines.0.quantity"), 2);
	}
	snprintf(id, sizeof id, "%s", answer_string(&shop_answer, "id"));
	/* The old lines and the new ones are locked together. */
	shop_expect_post("/v1/reservations",
	                 shop_text("{\"lines\":[{\"sku\":\"B75\",\"quantity\":1},{\"sku\":\"B75\",\"quantity\":3}],"
	                           "\"replaces\":\"%s\"}",
	                           id),
	                 201);
	shop_expect_row("B75", 8, 4);
}

/* --- B76, B77 ----------------------------------------------------------------------------------------------------- */

static void b76_a_strangers_locks_are_waited_out_or_said(void **state)
{
	service_create_sku(&shop, "B76-A", 100);
	service_create_sku(&shop, "B76-B", 100);
	service_create_sku(&shop, "B76-C", 100);
	/* He locks in the wrong order. If the service held A while it waits for B, one of the two would be a victim. */
	for (int i = 0; i < 5; i++) {
		struct stranger *stranger = stranger_new();
		const char *cart = shop_text("%s", shop_cart("B76-A=1 B76-B=1"));
		stranger_say(stranger, "BEGIN; SELECT 1 FROM lastunit.sku WHERE code = 'B76-B' FOR UPDATE");
		struct errand *sale = errand_begin(&shop, shop.key_web, "POST", "/v1/checkouts", cart);
		shop_wait_sql("SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'", "t");
		stranger_say(stranger, "SELECT 1 FROM lastunit.sku WHERE code = 'B76-A' FOR UPDATE");
		stranger_say(stranger, "COMMIT");
		stranger_free(stranger);
		assert_int_equal(errand_end(sale), 201);
		errand_done(sale);
	}
	shop_expect_row("B76-A", 95, 0);
	/* He never lets go: an honest 503 that says when to come again, and meanwhile everybody else is served. */
	struct stranger *stranger = stranger_new();
	const char *cart = shop_text("%s", shop_cart("B76-A=1 B76-B=1"));
	stranger_say(stranger, "BEGIN; SELECT 1 FROM lastunit.sku WHERE code = 'B76-B' FOR UPDATE");
	struct errand *sale = errand_begin(&shop, shop.key_web, "POST", "/v1/checkouts", cart);
	int others = 0;
	while (!sale->done) {
		assert_int_equal(service_sell(&shop, shop.key_web, NULL, "B76-C", 1), 201);
		others++;
		shop_sleep_ms(100);
	}
	assert_int_equal(errand_end(sale), 503);
	assert_true(atoi(answer_header(&sale->answer, "Retry-After")) > 0);
	errand_done(sale);
	shop_expect_row("B76-A", 95, 0);
	shop_expect_row("B76-C", 100 - others, 0);
	stranger_say(stranger, "ROLLBACK");
	stranger_free(stranger);
	shop_expect(shop.key_web, "POST", "/v1/checkouts", NULL, cart, 201);
	shop_expect_row("B76-A", 94, 0);
	shop_expect_row("B76-B", 94, 0);
}

struct b77 {
	const struct service *instance;
	const char *sku;
	struct tally tally;
};

static void b77_buy(int index, void *context)
{
	struct b77 *x = context;
	tally_add(&x->tally, service_sell(x->instance, shop_key(index), NULL, x->sku, 1));
}

static void b77_contention_is_not_a_shortage_at_any_isolation(void **state)
{
	static const char *const levels[] = {"read committed", "repeatable read", "serializable"};
	for (int i = 0; i < 3; i++) {
		struct service instance;
		char sku[20];
		snprintf(sku, sizeof sku, "B77-%d", i);
		service_create_sku(&shop, sku, 1000);
		shop_sql("ALTER DATABASE lastunit SET default_transaction_isolation = '%s'", levels[i]);
		shop_beside(&instance, NULL, NULL);
		struct b77 here = {.instance = &instance, .sku = sku}, there = {.instance = &shop, .sku = sku};
		struct crowd *crowd = crowd_begin(50, b77_buy, &there);
		crowd_run(50, b77_buy, &here);
		crowd_end(crowd);
		assert_string_equal(tally_text(&here.tally), "50 x 201");
		assert_string_equal(tally_text(&there.tally), "50 x 201");
		shop_expect_row(sku, 900, 0);
		assert_int_equal(service_stop(&instance), 0);
	}
	shop_sql("ALTER DATABASE lastunit RESET default_transaction_isolation");
}

/* --- B78 ---------------------------------------------------------------------------------------------------------- */

static void b78_buy(int index, void *context)
{
	tally_add(context,
	          service_sell(index % 4 < 2 ? &shop : &beside, shop_key(index), NULL, index % 2 ? "B78-A" : "B78-B", 1));
}

static void b78_a_redis_that_stands_still_stops_no_sale(void **state)
{
	struct tally tally = {0};
	pid_t redis = shop_child("redis-server");
	service_create_sku(&shop, "B78-A", 100);
	service_create_sku(&shop, "B78-B", 100);
	shop_warm(&shop, "B78-A");
	kill(redis, SIGSTOP);
	int64_t since_ms = shop_now_ms();
	crowd_run(100, b78_buy, &tally);
	printf("100 sales of two SKUs while Redis stood still: %lld ms\n", (long long)(shop_now_ms() - since_ms));
	/* And once it is known, without any wait: only the first had to find out. */
	since_ms = shop_now_ms();
	crowd_run(100, b78_buy, &tally);
	printf("the next 100: %lld ms\n", (long long)(shop_now_ms() - since_ms));
	kill(redis, SIGCONT);
	assert_string_equal(tally_text(&tally), "200 x 201");
	shop_expect_row("B78-A", 0, 0);
	shop_expect_row("B78-B", 0, 0);
	shop_expect_seen(&shop, "B78-A", 0, 0);
	shop_warm(&shop, "B78-A");
	shop_warm(&beside, "B78-A");
	shop_expect_seen(&beside, "B78-A", 0, 0);
}

/* --- B80 ---------------------------------------------------------------------------------------------------------- */

#define B80_CLIENTS 32

struct b80 {
	const char *sku;
	_Atomic int left, sold;
	_Atomic int64_t first_ms, last_ms;
	int total;
	struct tally tally;
};

static void b80_buy(int index, void *context)
{
	struct b80 *x = context;
	int64_t since_ms = shop_now_ms();
	while (x->left-- > 0) {
		tally_add(&x->tally, service_sell(&shop, shop_key(index), NULL, x->sku, 1));
		int sold = ++x->sold;
		if (sold == x->total / 4)
			x->first_ms = shop_now_ms() - since_ms;
		else if (sold == x->total / 4 * 3)
			x->last_ms = shop_now_ms();
	}
}

static void b80_a_hot_row_is_exact_beside_a_reader_that_never_ends(void **state)
{
	for (int round = 0; round < 2; round++) {
		struct b80 x = {.sku = round ? "B80-ALONE" : "B80", .total = shop_scaled(12000, 400)};
		service_create_sku(&shop, x.sku, 1000000);
		struct stranger *reader = stranger_new();
		if (!round)
			stranger_say(reader, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM lastunit.sku");
		x.left = x.total;
		crowd_run(B80_CLIENTS, b80_buy, &x);
		int64_t last_ms = shop_now_ms() - x.last_ms;
		stranger_free(reader);
		printf("%s a long reader: first quarter of %d sales %lld ms, last quarter %lld ms\n",
		       round ? "without" : "beside", x.total, (long long)x.first_ms, (long long)last_ms);
		assert_int_equal(tally_of(&x.tally, 201), x.total);
		shop_expect_row(x.sku, 1000000 - x.total, 0);
		assert_int_equal(service_row(&shop, x.sku).version, x.total + 1);
	}
}

/* --- B84 ---------------------------------------------------------------------------------------------------------- */

struct b84 {
	struct tally reads, sales;
	_Atomic int64_t version; /* the highest that anybody was told */
	_Atomic bool is_killed;
	struct service filler;
};

static void raise_to(_Atomic int64_t *value, int64_t to)
{
	int64_t seen = *value;
	while (seen < to && !atomic_compare_exchange_weak(value, &seen, to))
		;
}

static void b84_go(int index, void *context)
{
	struct b84 *x = context;
	while (!crowd_is_over()) {
		if (index < 2) {
			struct answer answer = service_call(index ? &shop : &beside, shop.key_pos, "POST", "/v1/checkouts", NULL,
			                                    shop_cart("B84=1"));
			tally_add(&x->sales, answer.status);
			if (answer.status == 201)
				raise_to(&x->version, answer_int(&answer, "lines.0.version"));
			answer_done(&answer);
			shop_sleep_ms(20);
			continue;
		}
		const struct service *at = index % 3 == 2 && !x->is_killed ? &x->filler : index % 2 ? &shop : &beside;
		int64_t floor = x->version;
		struct seen seen = service_see(at, "B84");
		if (at == &x->filler && seen.status == 0)
			continue; /* it was killed */
		tally_add(&x->reads, seen.status);
		if (seen.version < floor || seen.available != 100000 - (seen.version - 1))
			tally_complain(&x->reads, "version %lld with %lld after version %lld", (long long)seen.version,
			               (long long)seen.available, (long long)floor);
		raise_to(&x->version, seen.version);
	}
}

static void b84_readers_of_a_hot_sku_share_their_misses(void **state)
{
	static struct b84 x = {.version = 1}; /* its crowd outlives a failed assertion */
	service_create_sku(&shop, "B84", 100000);
	shop_warm(&shop, "B84");
	shop_beside(&x.filler, NULL, NULL);
	int64_t hits = shop_metric(&shop, "lastunit_lookup_hits_total"),
			misses = shop_metric(&shop, "lastunit_lookup_misses_total"),
			bypasses = shop_metric(&shop, "lastunit_lookup_bypasses_total"),
			fills = shop_metric(&shop, "lastunit_cell_cas_total");
	struct crowd *crowd = crowd_begin(18, b84_go, &x);
	shop_wait_until(tally_of(&x.sales, 201) > shop_scaled(60, 10));
	/* Whoever fills may die with the ticket in hand: the others go on. */
	kill(x.filler.pid, SIGKILL);
	x.is_killed = true;
	int so_far = tally_of(&x.sales, 201);
	shop_wait_until(tally_of(&x.sales, 201) > so_far + shop_scaled(60, 10));
	crowd_end(crowd);
	service_stop(&x.filler);
	assert_string_equal(x.reads.complaint, "");
	assert_int_equal(tally_of(&x.reads, 200), tally_total(&x.reads));
	assert_int_equal(tally_of(&x.sales, 201), tally_total(&x.sales));
	printf("%d reads, %d sales; here %lld hits, %lld misses, %lld bypasses, %lld tickets and fills\n",
	       tally_total(&x.reads), tally_total(&x.sales),
	       (long long)(shop_metric(&shop, "lastunit_lookup_hits_total") - hits),
	       (long long)(shop_metric(&shop, "lastunit_lookup_misses_total") - misses),
	       (long long)(shop_metric(&shop, "lastunit_lookup_bypasses_total") - bypasses),
	       (long long)(shop_metric(&shop, "lastunit_cell_cas_total") - fills));
}

/* --- B99 ---------------------------------------------------------------------------------------------------------- */

static void b99_buy(int index, void *context)
{
	tally_add(context, service_sell(index % 2 ? &shop : &beside, shop_key(index), NULL, "B99", 1));
}

static void b99_every_balance_stands_in_the_ledger_once(void **state)
{
	struct tally tally = {0};
	service_create_sku(&shop, "B99", 100);
	crowd_run(50, b99_buy, &tally);
	assert_string_equal(tally_text(&tally), "50 x 201");
	shop_expect_get("/v1/skus/B99/ledger?limit=500", 200);
	for (int i = 0; i <= 50; i++) {
		assert_int_equal(answer_int(&shop_answer, shop_text("items.%d.version", i)), i + 1);
		assert_int_equal(answer_int(&shop_answer, shop_text("items.%d.on_hand_after", i)), 100 - i);
	}
	/* Nobody rewrites it: not the service's role, not even the owner. */
	static const char *const statements[] = {"UPDATE lastunit.ledger SET on_hand_after = 1",
	                                         "DELETE FROM lastunit.ledger", "TRUNCATE lastunit.ledger"};
	for (int i = 0; i < 3; i++)
		for (int role = 0; role < 2; role++) {
			const char *refused = shop_sql(
				"DO $$ BEGIN %s; RAISE 'it was done'; EXCEPTION WHEN restrict_violation OR"
				" insufficient_privilege THEN NULL; END $$;"
				" SELECT 'refused'",
				shop_text("%s%s", role ? "SET LOCAL ROLE lastunit_service; " : "", statements[i]));
			assert_string_equal(refused, "refused");
		}
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
		cmocka_unit_test_teardown(b74_carts_in_any_order_never_deadlock, shop_audit),
		cmocka_unit_test_teardown(b75_a_repeated_sku_does_not_wait_for_itself, shop_audit),
		cmocka_unit_test_teardown(b76_a_strangers_locks_are_waited_out_or_said, shop_audit),
		cmocka_unit_test_teardown(b77_contention_is_not_a_shortage_at_any_isolation, shop_audit),
		cmocka_unit_test_teardown(b78_a_redis_that_stands_still_stops_no_sale, shop_audit),
		cmocka_unit_test_teardown(b80_a_hot_row_is_exact_beside_a_reader_that_never_ends, shop_audit),
		cmocka_unit_test_teardown(b84_readers_of_a_hot_sku_share_their_misses, shop_audit),
		cmocka_unit_test_teardown(b99_every_balance_stands_in_the_ledger_once, shop_audit),
	};
	return cmocka_run_group_tests(tests, open_both, close_both);
}
