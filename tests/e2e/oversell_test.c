/* Oversell races over HTTP, on the real service: what happens when everybody wants the last unit at once.
 *
 * Each test is named after the fault it guards against: check-then-act without holding the row (b01), read-modify-write
 * in memory (b03), nothing to lock yet (b04), a decision on what was read before the lock was had (b05), lines checked
 * one by one (b06), counters beside their rows (b07), effects of the loser that stay (b08, b14), absolute counts over
 * sales not yet seen (b10), paths that lock different things (b11), held units sold at the counter (b12).
 */
#include "lib/command.h"
#include "lib/shop.h"

static struct service beside; /* a second instance on the same PostgreSQL and Redis */

/* Every line of the answer's ledger page adds up to what the row says. */
static int64_t ledger_sum(const char *sku, const char *column)
{
	return shop_sql_int(
		"SELECT coalesce(sum(l.%s), 0) FROM lastunit.ledger l JOIN lastunit.sku s ON s.id = l.sku_id"
		" WHERE s.code = '%s'",
		column, sku);
}

static int64_t holds_of(const char *sku)
{
	return shop_sql_int(
		"SELECT count(*) FROM lastunit.hold h JOIN lastunit.sku s ON s.id = h.sku_id"
		" WHERE s.code = '%s'",
		sku);
}

/* --- B01 ---------------------------------------------------------------------------------------------------------- */

struct rush {
	const char *sku;
	struct tally sold, held;
};

static void buy_one(int index, void *context)
{
	struct rush *rush = context;
	char code[40];
	int status = shop_ask(&shop, shop_key(index), "/v1/checkouts", shop_cart(shop_text("%s=1", rush->sku)), code);
	tally_add(&rush->sold, status);
	if (status == 409 && strcmp(code, "insufficient_stock") != 0)
		rush->sold.other_code++;
}

static void hold_and_commit_one(int index, void *context)
{
	struct rush *rush = context;
	char id[37];
	int status = service_reserve(&shop, shop_key(index), NULL, rush->sku, 1, 600, id);
	tally_add(&rush->held, status);
	if (status == 201)
		tally_add(&rush->sold, service_end(&shop, shop_key(index), id, "commit"));
}

static void b01_last_unit_goes_to_one_of_sixty(void **state)
{
	struct rush rush = {.sku = "B01"};
	service_create_sku(&shop, rush.sku, 1);
	crowd_run(60, buy_one, &rush);
	assert_string_equal(tally_text(&rush.sold), "1 x 201, 59 x 409");
	assert_int_equal(rush.sold.other_code, 0);
	shop_expect_row(rush.sku, 0, 0);
	assert_int_equal(service_ledger_count(&shop, rush.sku, "sale"), 1);
	assert_int_equal(service_ledger_count(&shop, rush.sku, NULL), 2);
	shop_expect_seen(&shop, rush.sku, 0, 0);
	shop_expect_seen(&beside, rush.sku, 0, 0);
}

static void b01_last_unit_is_held_by_one_of_sixty(void **state)
{
	struct rush rush = {.sku = "B01-HOLD"};
	service_create_sku(&shop, rush.sku, 1);
	crowd_run(60, hold_and_commit_one, &rush);
	assert_string_equal(tally_text(&rush.held), "1 x 201, 59 x 409");
	assert_string_equal(tally_text(&rush.sold), "1 x 200");
	shop_expect_row(rush.sku, 0, 0);
	assert_int_equal(service_ledger_count(&shop, rush.sku, "commit"), 1);
}

/* --- B03 ---------------------------------------------------------------------------------------------------------- */

#define B03_ROUNDS shop_scaled(200, 20)

static void move_the_count(int index, void *context)
{
	struct tally *tallies = context;
	for (int round = 0; round < B03_ROUNDS; round++) {
		switch (index) {
		case 0:
			tally_add(&tallies[0], service_sell(&shop, shop.key_web, NULL, "B03", 5));
			break;
		case 1:
			tally_add(&tallies[0], service_sell(&beside, shop.key_pos, NULL, "B03", 3));
			break;
		case 2:
			tally_add(&tallies[0], service_adjust(&beside, "B03", 10));
			break;
		case 3:
			tally_add(&tallies[1], service_end(&shop, shop.key_web, "0190a5b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b", "release"));
			break;
		}
		crowd_meet();
		if (index == 0 && service_see(&shop, "B03").available != 100 + 2 * (round + 1))
			tally_complain(&tallies[0], "round %d: %lld left", round, (long long)service_see(&shop, "B03").available);
		crowd_meet();
	}
}

static void b03_no_decrement_is_lost_between_two_hundred_rounds(void **state)
{
	struct tally tallies[2] = {0};
	int rounds = B03_ROUNDS;
	service_create_sku(&shop, "B03", 100);
	crowd_run(4, move_the_count, tallies);
	assert_string_equal(tallies[0].complaint, "");
	assert_int_equal(tally_of(&tallies[0], 201), 3 * rounds);
	assert_int_equal(tally_of(&tallies[1], 404), rounds);
	shop_expect_row("B03", 100 + 2 * rounds, 0);
	assert_int_equal(ledger_sum("B03", "on_hand_delta"), 100 + 2 * rounds);
	assert_int_equal(service_ledger_count(&shop, "B03", "sale"), 2 * rounds);
	assert_int_equal(service_ledger_count(&shop, "B03", NULL), 3 * rounds + 1);
}

/* --- B04 ---------------------------------------------------------------------------------------------------------- */

struct first_holders {
	const char *prefix;
	int rounds;
	bool create;
	struct tally held, other;
	_Atomic int holders; /* in this round */
};

static void hold_first(int index, void *context)
{
	struct first_holders *x = context;
	for (int round = 0; round < x->rounds; round++) {
		const char *sku = shop_text("%s-%d", x->prefix, round);
		char id[37];
		if (index == 2) {
			if (x->create)
				service_create_sku(&shop, sku, 1);
		} else {
			int status = service_reserve(index ? &beside : &shop, shop_key(index), NULL, sku, 1, 600, id);
			tally_add(&x->held, status);
			x->holders += status == 201;
		}
		crowd_meet();
		if (index == 0 && x->holders > 1)
			tally_complain(&x->other, "%s is held %d times", sku, x->holders);
		if (index == 0)
			x->holders = 0;
		crowd_meet();
	}
}

static void b04_a_sku_without_any_rows_has_one_first_holder(void **state)
{
	struct first_holders x = {.prefix = "B04", .rounds = shop_scaled(500, 30)};
	shop_sql("INSERT INTO lastunit.sku (code, on_hand) SELECT 'B04-' || n, 1 FROM generate_series(0, %d) n",
	         x.rounds - 1);
	crowd_run(2, hold_first, &x);
	assert_string_equal(x.other.complaint, "");
	assert_int_equal(tally_of(&x.held, 201), x.rounds);
	assert_int_equal(tally_of(&x.held, 409), x.rounds);
	assert_int_equal(shop_sql_int("SELECT count(*) FROM lastunit.sku WHERE code LIKE 'B04-%%' AND reserved = 1"),
	                 x.rounds);
	shop_expect_row("B04-7", 1, 1);
}

static void b04_a_sku_that_is_just_being_made_has_at_most_one_holder(void **state)
{
	struct first_holders x = {.prefix = "B04-NEW", .rounds = shop_scaled(150, 20), .create = true};
	crowd_run(3, hold_first, &x);
	assert_string_equal(x.other.complaint, "");
	assert_int_equal(tally_of(&x.held, 201) + tally_of(&x.held, 404) + tally_of(&x.held, 409), 2 * x.rounds);
	assert_int_equal(shop_sql_int("SELECT sum(reserved) FROM lastunit.sku WHERE code LIKE 'B04-NEW-%%'"),
	                 tally_of(&x.held, 201));
	assert_int_equal(shop_sql_int("SELECT count(*) FROM lastunit.sku WHERE code LIKE 'B04-NEW-%%' AND on_hand = 1"),
	                 x.rounds);
}

/* --- B05 ---------------------------------------------------------------------------------------------------------- */

static void hold_six(int index, void *context)
{
	char code[40];
	int status = shop_ask(index ? &beside : &shop, shop_key(index), "/v1/reservations", shop_cart("B05=6"), code);
	tally_add(context, status);
}

static void b05_a_cart_that_waited_for_the_lock_decides_on_what_it_finds(void **state)
{
	static struct tally tally; /* its crowd outlives a failed assertion */
	service_create_sku(&shop, "B05", 10);
	struct stranger *stranger = stranger_new();
	stranger_say(stranger, "BEGIN; SELECT 1 FROM lastunit.sku WHERE code = 'B05' FOR UPDATE");
	struct crowd *crowd = crowd_begin(2, hold_six, &tally);
	/* Both stand before the row, in two processes. What the one will have done the other must see. */
	shop_wait_sql("SELECT count(*) >= 2 FROM pg_stat_activity WHERE wait_event_type = 'Lock'", "t");
	stranger_say(stranger, "COMMIT");
	crowd_end(crowd);
	stranger_free(stranger);
	assert_string_equal(tally_text(&tally), "1 x 201, 1 x 409");
	shop_expect_row("B05", 10, 6);
	assert_int_equal(holds_of("B05"), 1);
}

/* --- B06 ---------------------------------------------------------------------------------------------------------- */

static void b06_lines_of_one_sku_are_one_wish(void **state)
{
	service_create_sku(&shop, "B06-A", 1);
	service_create_sku(&shop, "B06-B", 5);
	service_create_sku(&shop, "B06-C", 1);
	service_create_sku(&shop, "B06-D", 2);
	static const char *const paths[] = {"/v1/reservations", "/v1/checkouts"};
	for (int i = 0; i < 2; i++) {
		shop_expect_post(paths[i], shop_cart("B06-A=1 B06-A=1"), 409);
		assert_int_equal(answer_int(&shop_answer, "lines.0.requested"), 2);
		shop_expect_row("B06-A", 1, 0);
		shop_expect_post(paths[i], shop_cart("B06-B=3 B06-B=3"), 409);
		shop_expect_row("B06-B", 5, 0);
	}
	shop_expect_post("/v1/reservations", shop_cart("B06-B=2 B06-C=1 B06-B=3"), 201);
	shop_expect_row("B06-B", 5, 5);
	shop_expect_row("B06-C", 1, 1);
	/* Spelled otherwise is not the same SKU, and not a SKU. */
	shop_expect_post("/v1/reservations",
	                 "{\"lines\":[{\"sku\":\"B06-A\",\"quantity\":1},{\"sku\":\"B06-A \",\"quantity\":1}]}", 422);
	shop_expect_problem("invalid_sku", "lines[1].sku");
	shop_expect_row("B06-A", 1, 0);
	/* One line of one's own hold of 1 + 1 raised to 2. */
	shop_expect_post("/v1/reservations", shop_cart("B06-D=1 B06-D=1"), 201);
	shop_expect_post("/v1/reservations",
	                 shop_text("{\"lines\":[{\"sku\":\"B06-D\",\"quantity\":2},{\"sku\":\"B06-D\",\"quantity\":1}],"
	                           "\"replaces\":\"%s\"}",
	                           answer_string(&shop_answer, "id")),
	                 409);
	shop_expect_row("B06-D", 2, 2);
}

/* --- B07 ---------------------------------------------------------------------------------------------------------- */

struct b07 {
	struct tally held, ended, watched;
	char ids[40][37];
	_Atomic int id_count;
};

static void b07_hold(int index, void *context)
{
	struct b07 *x = context;
	char id[37];
	int status = service_reserve(index % 2 ? &beside : &shop, shop.key_web, NULL, "B07", 1, 600, id);
	tally_add(&x->held, status);
	if (status == 201)
		strcpy(x->ids[x->id_count++], id);
}

static void b07_end(int index, void *context)
{
	struct b07 *x = context;
	if (index < 10)
		tally_add(&x->ended, service_end(index % 2 ? &beside : &shop, shop.key_web, x->ids[index], "release"));
	else
		service_end(&shop, shop.key_web, x->ids[index - 10], "extend");
}

static void b07_watch(int index, void *context)
{
	struct b07 *x = context;
	while (!crowd_is_over()) {
		struct row row = service_row(&shop, "B07");
		struct seen seen = service_see(&beside, "B07");
		if (row.reserved < 0 || row.reserved > 10 || row.on_hand != 10)
			tally_complain(&x->watched, "%lld/%lld", (long long)row.on_hand, (long long)row.reserved);
		if (seen.available + seen.held != 10 || seen.held < 0)
			tally_complain(&x->watched, "%lld free, %lld held", (long long)seen.available, (long long)seen.held);
	}
}

static void b07_the_counter_is_the_sum_of_its_rows(void **state)
{
	static struct b07 x; /* its crowd outlives a failed assertion */
	service_create_sku(&shop, "B07", 10);
	struct crowd *watchers = crowd_begin(2, b07_watch, &x);
	crowd_run(40, b07_hold, &x);
	assert_string_equal(tally_text(&x.held), "10 x 201, 30 x 409");
	shop_expect_row("B07", 10, 10);
	assert_int_equal(holds_of("B07"), 10);
	crowd_run(20, b07_end, &x);
	crowd_end(watchers);
	assert_string_equal(tally_text(&x.ended), "10 x 200");
	assert_string_equal(x.watched.complaint, "");
	shop_expect_row("B07", 10, 0);
	assert_int_equal(holds_of("B07"), 0);
}

/* --- B08 ---------------------------------------------------------------------------------------------------------- */

static void b08_hold(int index, void *context)
{
	char code[40];
	int status = shop_ask(index % 2 ? &beside : &shop, shop_key(index), "/v1/reservations",
	                      shop_cart(shop_text("B08=1 B08-%d=1", index)), code);
	tally_add(context, status);
}

static void b08_the_nineteen_losers_leave_no_trace(void **state)
{
	struct tally tally = {0};
	service_create_sku(&shop, "B08", 1);
	for (int i = 0; i < 20; i++)
		service_create_sku(&shop, shop_text("B08-%d", i), 5);
	int64_t reservations = shop_sql_int("SELECT count(*) FROM lastunit.reservation");
	int64_t refusals = shop_sql_int("SELECT count(*) FROM lastunit.idempotency WHERE status = 'insufficient_stock'");
	crowd_run(20, b08_hold, &tally);
	assert_string_equal(tally_text(&tally), "1 x 201, 19 x 409");
	shop_expect_row("B08", 1, 1);
	assert_int_equal(shop_sql_int("SELECT count(*) FROM lastunit.sku WHERE code LIKE 'B08-%%' AND on_hand = 5"
	                              " AND reserved = 0 AND version = 1"),
	                 19);
	assert_int_equal(shop_sql_int("SELECT count(*) FROM lastunit.ledger l JOIN lastunit.sku s ON s.id = l.sku_id"
	                              " WHERE s.code LIKE 'B08-%%'"),
	                 21);
	assert_int_equal(shop_sql_int("SELECT count(*) FROM lastunit.reservation"), reservations + 1);
	assert_int_equal(shop_sql_int("SELECT count(*) FROM lastunit.idempotency WHERE status = 'insufficient_stock'"),
	                 refusals + 19);
}

/* --- B10 ---------------------------------------------------------------------------------------------------------- */

static const char *set_to(int64_t count, int64_t change_from, const char *key)
{
	return shop_text(
		"{\"idempotency_key\":\"%s\",\"reason\":\"count\",\"lines\":[{\"sku\":\"B10\",\"set\":%lld,"
		"\"change_from\":%lld}]}",
		key, (long long)count, (long long)change_from);
}

struct b10 {
	struct tally tally;
	char keys[2][40];
	_Atomic int winner; /* 1 + index */
};

static void b10_set(int index, void *context)
{
	struct b10 *x = context;
	char code[40];
	int status = shop_ask(index ? &beside : &shop, shop.key_admin, "/v1/adjustments",
	                      set_to(index ? 2 : 4, 70, x->keys[index]), code);
	tally_add(&x->tally, status);
	if (status == 201)
		x->winner = 1 + index;
}

static void b10_a_count_taken_before_the_sales_is_refused(void **state)
{
	struct b10 x = {0};
	service_create_sku(&shop, "B10", 100);
	assert_int_equal(service_sell(&shop, shop.key_pos, NULL, "B10", 30), 201);
	shop_expect(shop.key_admin, "POST", "/v1/adjustments", NULL, set_to(120, 100, service_new_key()), 412);
	shop_expect_problem("change_from_mismatch", "on_hand is 70");
	shop_expect_row("B10", 70, 0);
	for (int i = 0; i < 2; i++)
		strcpy(x.keys[i], service_new_key());
	crowd_run(2, b10_set, &x);
	assert_string_equal(tally_text(&x.tally), "1 x 201, 1 x 412");
	int64_t now = x.winner == 1 ? 4 : 2;
	shop_expect_row("B10", now, 0);
	assert_int_equal(ledger_sum("B10", "on_hand_delta"), now);
	shop_expect(shop.key_admin, "POST", "/v1/adjustments", NULL, set_to(now, 70, x.keys[x.winner - 1]), 201);
	assert_string_equal(answer_header(&shop_answer, "Idempotent-Replayed"), "true");
	shop_expect_row("B10", now, 0);
	assert_int_equal(service_ledger_count(&shop, "B10", NULL), 3);
}

/* --- B11 ---------------------------------------------------------------------------------------------------------- */

enum way { HOLD, SELL, TAKE, SET, COMMIT, IMPORT, WAYS };

struct b11 {
	char sku[24], reservation[37], file[64];
	enum way ways[WAYS];
	struct tally tally;
	_Atomic int done[WAYS];
};

static void b11_go(int index, void *context)
{
	struct b11 *x = context;
	const struct service *at = index % 2 ? &beside : &shop;
	char code[40], id[37];
	int status = 0;
	switch (x->ways[index]) {
	case HOLD:
		status = service_reserve(at, shop.key_web, NULL, x->sku, 5, 600, id);
		break;
	case SELL:
		status = service_sell(at, shop.key_pos, NULL, x->sku, 5);
		break;
	case TAKE:
		status = service_adjust(at, x->sku, -5);
		break;
	case SET:
		status = shop_ask(at, shop.key_admin, "/v1/adjustments",
		                  shop_text("{\"idempotency_key\":\"%s\",\"reason\":\"count\",\"lines\":[{\"sku\":\"%s\","
		                            "\"set\":0,\"change_from\":5}]}",
		                            service_new_key(), x->sku),
		                  code);
		break;
	case COMMIT:
		status = service_end(at, shop.key_web, x->reservation, "commit");
		break;
	case IMPORT:
		/* The main thread's: a process dies with the thread that started it. */
		return;
	case WAYS:
		break;
	}
	tally_add(&x->tally, status);
	x->done[x->ways[index]] += status < 300;
}

/* An import is a process: it needs a head start to win now and then. */
static struct command b11_import(struct b11 *x, int64_t ahead_ms)
{
	char database[600], redis[300];
	snprintf(database, sizeof database, "LASTUNIT_DATABASE_URL=%s", shop.database_url);
	snprintf(redis, sizeof redis, "LASTUNIT_REDIS_URL=%s", shop.redis_url);
	snprintf(x->file, sizeof x->file, "/tmp/lastunit-b11-%d.csv", (int)getpid());
	FILE *file = fopen(x->file, "w");
	assert_non_null(file);
	fprintf(file, "sku,on_hand,change_from\n%s,0,5\n", x->sku);
	fclose(file);
	struct command import = command_start((const char *[]){"import", x->file, NULL},
	                                      (const char *[]){database, redis, NULL});
	shop_sleep_ms(ahead_ms);
	return import;
}

/* One round: these ways at once on 5 units. Whoever wins has them all, everybody else none. */
static void b11_round(int round, const enum way *ways, int count, int64_t ahead_ms)
{
	struct b11 x = {0};
	bool import = false, commit = false;
	snprintf(x.sku, sizeof x.sku, "B11-%d", round);
	service_create_sku(&shop, x.sku, 5);
	for (int i = 0; i < count; i++) {
		x.ways[i] = ways[i];
		import |= ways[i] == IMPORT;
		commit |= ways[i] == COMMIT;
	}
	if (commit)
		assert_int_equal(service_reserve(&shop, shop.key_web, NULL, x.sku, 5, 600, x.reservation), 201);
	struct command command = {0};
	if (import)
		command = b11_import(&x, ahead_ms);
	crowd_run(count, b11_go, &x);
	if (import) {
		command_wait(&command);
		x.done[IMPORT] = command.exit_code == 0;
		command_done(&command);
		unlink(x.file);
	}
	struct row row = service_row(&shop, x.sku);
	/* A hold on an already empty SKU cannot be; a SET 0 that came behind the others found 0 and was refused. */
	int winners = x.done[HOLD] + x.done[SELL] + x.done[TAKE] + x.done[SET] + x.done[COMMIT] + x.done[IMPORT];
	int64_t taken = 5 - row.on_hand + row.reserved;
	if (winners != 1 || taken != 5 || row.reserved != (x.done[HOLD] ? 5 : 0) || (commit && !x.done[COMMIT]))
		fail_msg("%s: %d winners, %lld/%lld, %s", x.sku, winners, (long long)row.on_hand, (long long)row.reserved,
		         tally_text(&x.tally));
}

static void b11_every_path_locks_the_same_row(void **state)
{
	int round = 0, repeat = shop_scaled(21, 2);
	enum way all[WAYS];
	for (int i = 0; i < WAYS; i++)
		all[i] = (enum way)i;
	for (int i = 0; i < repeat; i++) {
		for (enum way a = 0; a < IMPORT; a++)
			for (enum way b = a; b < IMPORT; b++)
				if (a != b || a < SET)
					b11_round(round++, (enum way[]){a, b}, 2, 0);
		b11_round(round++, all, COMMIT, 0);
	}
	/* A process each, so fewer: an import against every other way, and all six. */
	for (int64_t ahead_ms = 0; ahead_ms < shop_scaled(50, 10); ahead_ms += 10) {
		for (enum way a = 0; a < IMPORT; a++)
			b11_round(round++, (enum way[]){a, IMPORT}, 2, ahead_ms);
		b11_round(round++, all, WAYS, ahead_ms);
	}
}

/* --- B12 ---------------------------------------------------------------------------------------------------------- */

static void b12_a_held_unit_is_not_sold_at_the_counter(void **state)
{
	char id[37];
	for (int released = 0; released < 2; released++) {
		const char *sku = released ? "B12-FREED" : "B12";
		service_create_sku(&shop, sku, 1);
		assert_int_equal(service_reserve(&shop, shop.key_web, NULL, sku, 1, 600, id), 201);
		assert_int_equal(service_sell(&shop, shop.key_pos, NULL, sku, 1), 409);
		assert_int_equal(service_sell(&beside, shop.key_marketplace, NULL, sku, 1), 409);
		assert_int_equal(service_adjust(&shop, sku, -1), 409);
		shop_expect_row(sku, 1, 1);
		assert_int_equal(service_end(&beside, shop.key_web, id, released ? "release" : "commit"), 200);
		assert_int_equal(service_sell(&shop, shop.key_pos, NULL, sku, 1), released ? 201 : 409);
		shop_expect_row(sku, 0, 0);
	}
}

/* --- B14 ---------------------------------------------------------------------------------------------------------- */

static void b14_a_refused_cart_changes_nothing_and_says_what_is_short(void **state)
{
	service_create_sku(&shop, "B14-A", 3);
	service_create_sku(&shop, "B14-B", 10);
	shop_expect_post("/v1/reservations", shop_cart("B14-B=3 B14-A=5"), 409);
	shop_expect_problem("insufficient_stock", "B14-A: 5 requested, 3 available");
	assert_int_equal(json_array_size(answer_at(&shop_answer, "lines")), 1);
	assert_string_equal(answer_string(&shop_answer, "lines.0.sku"), "B14-A");
	assert_int_equal(answer_int(&shop_answer, "lines.0.available"), 3);
	shop_expect_row("B14-A", 3, 0);
	shop_expect_row("B14-B", 10, 0);
	shop_expect_post("/v1/reservations", shop_cart("B14-B=1"), 201);
	char id[37];
	snprintf(id, sizeof id, "%s", answer_string(&shop_answer, "id"));
	shop_expect_post("/v1/reservations",
	                 shop_text("{\"lines\":[{\"sku\":\"B14-B\",\"quantity\":4},{\"sku\":\"B14-A\",\"quantity\":9}],"
	                           "\"replaces\":\"%s\"}",
	                           id),
	                 409);
	shop_expect_row("B14-A", 3, 0);
	shop_expect_row("B14-B", 10, 1);
	shop_expect_get(shop_path("reservations", id, ""), 200);
	assert_string_equal(answer_string(&shop_answer, "status"), "active");
	/* Every line that is short is named. */
	shop_expect_post("/v1/checkouts", shop_cart("B14-B=10 B14-A=4"), 409);
	assert_int_equal(json_array_size(answer_at(&shop_answer, "lines")), 2);
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
		cmocka_unit_test_teardown(b01_last_unit_goes_to_one_of_sixty, shop_audit),
		cmocka_unit_test_teardown(b01_last_unit_is_held_by_one_of_sixty, shop_audit),
		cmocka_unit_test_teardown(b03_no_decrement_is_lost_between_two_hundred_rounds, shop_audit),
		cmocka_unit_test_teardown(b04_a_sku_without_any_rows_has_one_first_holder, shop_audit),
		cmocka_unit_test_teardown(b04_a_sku_that_is_just_being_made_has_at_most_one_holder, shop_audit),
		cmocka_unit_test_teardown(b05_a_cart_that_waited_for_the_lock_decides_on_what_it_finds, shop_audit),
		cmocka_unit_test_teardown(b06_lines_of_one_sku_are_one_wish, shop_audit),
		cmocka_unit_test_teardown(b07_the_counter_is_the_sum_of_its_rows, shop_audit),
		cmocka_unit_test_teardown(b08_the_nineteen_losers_leave_no_trace, shop_audit),
		cmocka_unit_test_teardown(b10_a_count_taken_before_the_sales_is_refused, shop_audit),
		cmocka_unit_test_teardown(b11_every_path_locks_the_same_row, shop_audit),
		cmocka_unit_test_teardown(b12_a_held_unit_is_not_sold_at_the_counter, shop_audit),
		cmocka_unit_test_teardown(b14_a_refused_cart_changes_nothing_and_says_what_is_short, shop_audit),
	};
	return cmocka_run_group_tests(tests, open_both, close_both);
}
