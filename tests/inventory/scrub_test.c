/* The scrub finds a cell that lies, says so, and removes it; it cries no wolf while sales go on. */
#include "inventory/house_fixture.h"

#include "inventory/inventory_internal.h"

static int open_house_that_is_scrubbed(void **state)
{
	house_config.scrub_per_s = 100;
	house_open(&h, NULL);
	return 0;
}

static void wait_until_found(int64_t before)
{
	for (int i = 0; i < 1500; i++) {
		if (metric_get(METRIC_SCRUB_WRONG) > before)
			return;
		usleep(10000);
	}
	fail_msg("the scrub never found it");
}

static void a_cell_with_other_figures_is_found_and_removed(void **state)
{
	make_sku(&h, "A", 10);
	warm(&h, "A");
	int64_t wrong = metric_get(METRIC_SCRUB_WRONG);
	set_cell(&h, "A", "V|1|11|0|0|1|A");
	wait_until_found(wrong);
	assert_int_equal(look_until_hit(&h, "A").figures.on_hand, 10);
}

static void a_cell_that_stayed_old_is_found(void **state)
{
	make_sku(&h, "A", 10);
	assert_int_equal(run(&h, OPERATION_CHECKOUT, "A1", NULL), LU_OK);
	int64_t wrong = metric_get(METRIC_SCRUB_WRONG);
	set_cell(&h, "A", "V|1|10|0|0|1|A");
	wait_until_found(wrong);
}

static void a_cell_of_a_version_that_never_was_is_found(void **state)
{
	make_sku(&h, "A", 10);
	int64_t wrong = metric_get(METRIC_SCRUB_WRONG);
	set_cell(&h, "A", "V|7|3|0|0|1|A");
	wait_until_found(wrong);
}

static void it_cries_no_wolf_while_sales_and_sql_go_on(void **state)
{
	make_sku(&h, "A", 1000000);
	int64_t checked = metric_get(METRIC_SCRUB_CHECKED), wrong = metric_get(METRIC_SCRUB_WRONG);
	while (metric_get(METRIC_SCRUB_CHECKED) < checked + 5) {
		assert_int_equal(run(&h, OPERATION_CHECKOUT, "A1", NULL), LU_OK);
		sql(&h, "UPDATE lastunit.sku SET on_hand = on_hand + 1 WHERE code = 'A'");
		look(&h, "A");
	}
	assert_int_equal(metric_get(METRIC_SCRUB_WRONG), wrong);
}

/* Checked so often more: two passes and a second look lie between. No relay says meanwhile that all is well: this does. */
static void wait_until_checked(int64_t more)
{
	int64_t before = metric_get(METRIC_SCRUB_CHECKED);
	for (int i = 0; i < 3000; i++) {
		if (metric_get(METRIC_SCRUB_CHECKED) >= before + more)
			return;
		epoch_relayed(h.inventory->epoch, clock_boottime_ns());
		usleep(10000);
	}
	fail_msg("the scrub has stopped");
}

static void a_relay_that_is_late_is_no_lie(void **state)
{
	make_sku(&h, "A", 10);
	warm(&h, "A");
	relay_stop(h.inventory->relay);
	int64_t wrong = metric_get(METRIC_SCRUB_WRONG);
	sql(&h, "UPDATE lastunit.sku SET on_hand = 11 WHERE code = 'A'");
	wait_until_checked(3);
	assert_int_equal(metric_get(METRIC_SCRUB_WRONG), wrong);
	h.inventory->relay = relay_start(h.inventory->config, h.inventory->redis, h.inventory->epoch);
	wait_sql(&h, "SELECT count(*) FROM lastunit.invalidation", "0");
	assert_int_equal(look_until_hit(&h, "A").figures.on_hand, 11);
}

static void a_record_that_was_lost_is_found(void **state)
{
	make_sku(&h, "A", 10);
	warm(&h, "A");
	int64_t wrong = metric_get(METRIC_SCRUB_WRONG);
	sql(&h, "ALTER TABLE lastunit.sku DISABLE TRIGGER stranger_updated");
	sql(&h, "UPDATE lastunit.sku SET on_hand = 11 WHERE code = 'A'");
	sql(&h,
	    "INSERT INTO lastunit.ledger (sku_id, version, kind, on_hand_delta, reserved_delta, on_hand_after,"
	    " reserved_after, channel) SELECT id, version, 12, 1, 0, 11, 0, 8 FROM lastunit.sku WHERE code = 'A'");
	wait_until_found(wrong);
	assert_int_equal(look_until_hit(&h, "A").figures.on_hand, 11);
}

#define SCRUB_TEST(f) cmocka_unit_test_setup_teardown(f, open_house_that_is_scrubbed, close_house)

static const struct CMUnitTest tests[] = {
	SCRUB_TEST(a_cell_with_other_figures_is_found_and_removed),
	SCRUB_TEST(a_cell_that_stayed_old_is_found),
	SCRUB_TEST(a_cell_of_a_version_that_never_was_is_found),
	SCRUB_TEST(a_relay_that_is_late_is_no_lie),
	SCRUB_TEST(a_record_that_was_lost_is_found),
	SCRUB_TEST(it_cries_no_wolf_while_sales_and_sql_go_on),
};

HOUSE_MAIN(tests)
