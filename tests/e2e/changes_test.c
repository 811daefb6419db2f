/* GET /v1/changes against the real service: what a follower that keeps its cursor sees of a shop that is busy. */
#include "lib/shop.h"

#include "base/text.h"

/* The cursor to go on with; "" is the beginning. */
static char cursor[100];

static void start_now(void)
{
	shop_expect_get("/v1/changes?cursor=now", 200);
	assert_int_equal(json_array_size(answer_at(&shop_answer, "items")), 0);
	snprintf(cursor, sizeof cursor, "%s", answer_string(&shop_answer, "next"));
}

/* The next page; how many items it has. */
static size_t go_on(int limit)
{
	shop_expect_get(*cursor ? shop_text("/v1/changes?limit=%d&cursor=%s", limit, cursor)
	                        : shop_text("/v1/changes?limit=%d", limit),
	                200);
	snprintf(cursor, sizeof cursor, "%s", answer_string(&shop_answer, "next"));
	assert_true(*cursor);
	return json_array_size(answer_at(&shop_answer, "items"));
}

/* Goes on until an item of this SKU with this version comes. */
static void expect_item(const char *sku, int64_t version)
{
	shop_wait_until(go_on(1) == 1);
	assert_string_equal(answer_string(&shop_answer, "items.0.sku"), sku);
	assert_int_equal(answer_int(&shop_answer, "items.0.version"), version);
}

static void items_are_ledger_entries_with_their_sku(void **state)
{
	start_now();
	service_create_sku(&shop, "CHANGES-A", 5);
	assert_int_equal(service_sell(&shop, shop.key_pos, NULL, "CHANGES-A", 2), 201);
	expect_item("CHANGES-A", 1);
	assert_string_equal(answer_header(&shop_answer, "Cache-Control"), "no-store");
	assert_string_equal(answer_string(&shop_answer, "items.0.kind"), "create");
	assert_int_equal(answer_int(&shop_answer, "items.0.on_hand_after"), 5);
	expect_item("CHANGES-A", 2);
	assert_string_equal(answer_string(&shop_answer, "items.0.kind"), "sale");
	assert_string_equal(answer_string(&shop_answer, "items.0.channel"), "pos");
	assert_string_equal(answer_string(&shop_answer, "items.0.principal"), "pos");
	assert_int_equal(answer_int(&shop_answer, "items.0.on_hand_delta"), -2);
	assert_int_equal(answer_int(&shop_answer, "items.0.on_hand_after"), 3);
	char last[100];
	snprintf(last, sizeof last, "%s", cursor);
	assert_int_equal(go_on(10), 0);
	assert_string_equal(cursor, last);
}

/* --- a busy shop -------------------------------------------------------------------------------------------------- */

static void buy(int index, void *context)
{
	for (int i = 0; !crowd_is_over() && i < 100000; i++)
		service_sell(&shop, shop.key_pos, NULL, shop_text("CHANGES-BUSY-%d", (index + i) % 3), 1);
}

/* Versions of a SKU are dense, so a hole shows, and so does an entry that comes twice. */
static void a_follower_of_a_busy_shop_misses_nothing(void **state)
{
	enum { SKUS = 3, PAGES = 60 };
	static bool seen[SKUS][200000];
	int64_t top[SKUS] = {0};
	for (int i = 0; i < SKUS; i++)
		service_create_sku(&shop, shop_text("CHANGES-BUSY-%d", i), 1000000);
	*cursor = 0; /* from the very beginning, the demo's catalogue included */
	struct crowd *crowd = crowd_begin(4, buy, NULL);
	bool over = false;
	for (int page = 0, empty = 0; empty < 2; page++) {
		size_t count = go_on(7 + page % 50 * 10);
		for (size_t i = 0; i < count; i++) {
			int n;
			const char *sku = answer_string(&shop_answer, shop_text("items.%zu.sku", i));
			int64_t version = answer_int(&shop_answer, shop_text("items.%zu.version", i));
			if (sscanf(sku, "CHANGES-BUSY-%d", &n) != 1)
				continue;
			assert_in_range(version, 1, 199999);
			assert_false(seen[n][version]);
			seen[n][version] = true;
			top[n] = version > top[n] ? version : top[n];
		}
		if (page >= shop_scaled(PAGES, 20) && !over && top[0] > 5) {
			crowd_end(crowd);
			over = true;
		}
		empty += over && !count;
	}
	for (int i = 0; i < SKUS; i++) {
		assert_int_equal(top[i], service_row(&shop, shop_text("CHANGES-BUSY-%d", i)).version);
		for (int64_t version = 1; version <= top[i]; version++)
			assert_true(seen[i][version]);
	}
}

static void what_a_stranger_commits_late_comes_and_holds_back_what_follows(void **state)
{
	service_create_sku(&shop, "CHANGES-LATE", 5);
	service_create_sku(&shop, "CHANGES-NEXT", 5);
	start_now();
	struct stranger *stranger = stranger_new();
	stranger_say(stranger, "BEGIN");
	stranger_say(stranger, "UPDATE lastunit.sku SET on_hand = 7 WHERE code = 'CHANGES-LATE'");
	assert_int_equal(service_sell(&shop, shop.key_pos, NULL, "CHANGES-NEXT", 1), 201);
	assert_int_equal(go_on(10), 0);
	stranger_say(stranger, "COMMIT");
	stranger_free(stranger);
	expect_item("CHANGES-LATE", 2);
	assert_string_equal(answer_string(&shop_answer, "items.0.kind"), "sql");
	expect_item("CHANGES-NEXT", 2);
}

/* --- refusals ----------------------------------------------------------------------------------------------------- */

/* A snapshot of the storage that was put back is the same PostgreSQL, with numbers that come again for other entries:
 * whoever has seen the first of them would never be shown the second. */
static void a_cursor_ahead_of_the_feed_is_refused(void **state)
{
	unsigned long long identity, xid;
	start_now();
	assert_int_equal(sscanf(cursor, "%llx-%llx-0-0", &identity, &xid), 2);
	shop_expect_get(shop_text("/v1/changes?cursor=%016llx-%llx-0-0", identity, xid), 200);
	shop_expect_get(shop_text("/v1/changes?cursor=%016llx-%llx-0-0", identity, xid + 100000), 410);
	shop_expect_problem("cursor_expired", "cursor=now");
}

static void a_cursor_of_another_database_is_refused_with_the_way_out(void **state)
{
	start_now();
	cursor[0] = cursor[0] == '0' ? '1' : '0';
	shop_expect_get(shop_text("/v1/changes?cursor=%s", cursor), 410);
	shop_expect_problem("cursor_expired", "cursor=now");
}

static void a_cursor_outlives_a_restart_of_postgresql(void **state)
{
	service_create_sku(&shop, "CHANGES-RESTART", 5);
	start_now();
	shop_restart("postgres");
	shop_wait_until(service_sell(&shop, shop.key_pos, NULL, "CHANGES-RESTART", 1) == 201);
	expect_item("CHANGES-RESTART", 2);
}

static void what_is_no_cursor_is_refused(void **state)
{
	static const char *const wrong[] = {"", "Now", "1", "0000000000000000-0-0", "%00"};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		shop_expect_get(shop_text("/v1/changes?cursor=%s", wrong[i]), wrong[i][0] == '%' ? 400 : 422);
		if (wrong[i][0] != '%')
			shop_expect_problem("invalid_field", "cursor");
	}
	shop_expect_get("/v1/changes?limit=501", 422);
	shop_expect_get("/v1/changes?after=1", 422);
	shop_expect_problem("invalid_field", "`after` that is not known here; known are `cursor`, `limit`.");
	shop_expect_get("/v1/availability/CHANGES-RESTART?sku=1", 422);
	shop_expect_problem("invalid_field", "`sku` that is not known here; this call takes none.");
	shop_expect(NULL, "GET", "/v1/changes", NULL, NULL, 401);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(items_are_ledger_entries_with_their_sku, shop_audit),
		cmocka_unit_test_teardown(a_follower_of_a_busy_shop_misses_nothing, shop_audit),
		cmocka_unit_test_teardown(what_a_stranger_commits_late_comes_and_holds_back_what_follows, shop_audit),
		cmocka_unit_test(a_cursor_ahead_of_the_feed_is_refused),
		cmocka_unit_test(a_cursor_of_another_database_is_refused_with_the_way_out),
		cmocka_unit_test(a_cursor_outlives_a_restart_of_postgresql),
		cmocka_unit_test(what_is_no_cursor_is_refused),
	};
	return cmocka_run_group_tests(tests, shop_open, shop_close);
}
