/* Stock changed straight in SQL: as good as a change through the API, and seen by every reader soon after. */
#include "inventory/house_fixture.h"

#include "store/pg.h"

/* Reads from Redis until the figure is there; a reader that is never told fails the test. */
static void wait_until_seen(const char *sku, int64_t on_hand)
{
	struct seen_item seen;
	for (int i = 0; i < 600; i++) {
		seen = look(&h, sku);
		if (seen.figures.on_hand == on_hand && seen.source == LOOKUP_HIT)
			return;
		usleep(10000);
	}
	fail_msg("%s: readers still see %lld", sku, (long long)seen.figures.on_hand);
}

static void an_update_in_sql_is_an_entry_of_the_ledger_and_seen_by_readers(void **state)
{
	make_sku(&h, "A", 10);
	warm(&h, "A");
	sql(&h, "UPDATE lastunit.sku SET on_hand = 7 WHERE code = 'A'");
	wait_until_seen("A", 7);
	assert_string_equal(
		sql(&h,
	        "SELECT version || ' ' || kind || ' ' || channel || ' ' || on_hand_delta || ' ' || on_hand_after"
	        " FROM lastunit.ledger ORDER BY version DESC LIMIT 1"),
		"2 12 8 -3 7");
	wait_sql(&h, "SELECT count(*) FROM lastunit.invalidation", "0");
	/* And the service goes on from there. */
	assert_int_equal(run(&h, OPERATION_CHECKOUT, "A7", NULL), LU_OK);
	assert_int_equal(run(&h, OPERATION_CHECKOUT, "A1", NULL), LU_INSUFFICIENT_STOCK);
	assert_string_equal(sql(&h, "SELECT version FROM lastunit.sku"), "3");
}

static void our_own_writes_record_nothing(void **state)
{
	make_sku(&h, "A", 10);
	sql(&h, "ALTER TABLE lastunit.invalidation ADD CONSTRAINT never CHECK (false) NOT VALID");
	assert_int_equal(run(&h, OPERATION_CHECKOUT, "A1", NULL), LU_OK);
	assert_int_equal(run(&h, OPERATION_RESERVE, "A1", NULL), LU_OK);
}

/* As Hibernate or ActiveRecord do it: one row updated means that nobody was there in between. */
static void an_orm_with_optimistic_versions_works(void **state)
{
	make_sku(&h, "A", 10);
	static const char update[] =
		"WITH u AS (UPDATE lastunit.sku SET on_hand = 4, version = version + 1"
		" WHERE code = 'A' AND version = %d RETURNING 1) SELECT count(*) FROM u";
	char text[300];
	snprintf(text, sizeof text, update, 1);
	assert_string_equal(sql(&h, text), "1");
	assert_string_equal(sql(&h, "SELECT version FROM lastunit.sku"), "2");
	assert_string_equal(sql(&h, text), "0");
	assert_int_equal(run(&h, OPERATION_CHECKOUT, "A1", NULL), LU_OK);
	snprintf(text, sizeof text, update, 2);
	assert_string_equal(sql(&h, text), "0");
	snprintf(text, sizeof text, update, 3);
	assert_string_equal(sql(&h, text), "1");
}

static void bulk_updates_and_upserts_leave_no_phantoms(void **state)
{
	make_sku(&h, "A", 10);
	warm(&h, "A");
	sql(&h, "INSERT INTO lastunit.sku (code, on_hand) SELECT 'S' || n, n FROM generate_series(1, 500) n");
	sql(&h, "UPDATE lastunit.sku SET on_hand = on_hand + 1");
	sql(&h,
	    "INSERT INTO lastunit.sku (code, on_hand) VALUES ('A', 99), ('NEW', 3) ON CONFLICT (code) DO UPDATE"
	    " SET on_hand = excluded.on_hand");
	sql(&h, "INSERT INTO lastunit.sku (code, on_hand) VALUES ('A', 1), ('S1', 1) ON CONFLICT DO NOTHING");
	wait_until_seen("A", 99);
	assert_string_equal(sql(&h, "SELECT count(*) FROM lastunit.ledger"), "1004");
	assert_string_equal(sql(&h,
	                        "SELECT string_agg(code || ' ' || on_hand || ' ' || version, ', ' ORDER BY code)"
	                        " FROM lastunit.sku WHERE code IN ('A', 'NEW', 'S1', 'S500')"),
	                    "A 99 3, NEW 3 1, S1 2 2, S500 501 2");
}

static void a_session_that_replicates_is_no_way_around(void **state)
{
	make_sku(&h, "A", 10);
	warm(&h, "A");
	sql(&h, "SET session_replication_role = replica; UPDATE lastunit.sku SET on_hand = 2");
	wait_until_seen("A", 2);
}

static void strangers_may_not_touch_what_is_the_services(void **state)
{
	static const char *const refused[] = {
		"UPDATE lastunit.sku SET reserved = 1",
		"UPDATE lastunit.sku SET code = 'B'",
		"DELETE FROM lastunit.sku",
		"TRUNCATE lastunit.sku CASCADE",
		"INSERT INTO lastunit.sku (code, on_hand, reserved) VALUES ('B', 5, 1)",
		"UPDATE lastunit.sku SET on_hand = -1",
		"INSERT INTO lastunit.sku (code) VALUES (' B')",
		"INSERT INTO lastunit.sku (code, writer) VALUES ('B ', gen_random_uuid())",
		"INSERT INTO lastunit.sku (code) VALUES (E'B\\x07B')",
	};
	make_sku(&h, "A", 10);
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		char sqlstate[6];
		pg_server_try(h.url, refused[i], sqlstate);
		assert_string_equal(sqlstate, i >= 5 ? "23514" : "23001");
	}
	assert_string_equal(sql(&h, "SELECT string_agg(code || on_hand || reserved || version, '') FROM lastunit.sku"),
	                    "A1001");
	/* A hold protects its units from SQL too (B27). */
	hold_for(&h, "A6", 60);
	char sqlstate[6];
	pg_server_try(h.url, "UPDATE lastunit.sku SET on_hand = 5", sqlstate);
	assert_string_equal(sqlstate, "23514");
}

/* B99's kin: a cursor "id > last" would never come back for it. */
static void a_record_with_a_lower_id_that_commits_late_is_relayed(void **state)
{
	make_sku(&h, "A", 10);
	make_sku(&h, "B", 10);
	warm(&h, "A");
	struct pg *slow = stranger(&h);
	tell(slow, "BEGIN");
	tell(slow, "UPDATE lastunit.sku SET on_hand = 1 WHERE code = 'A'");
	sql(&h, "UPDATE lastunit.sku SET on_hand = 1 WHERE code = 'B'");
	wait_sql(&h, "SELECT count(*) FROM lastunit.invalidation", "0");
	assert_int_equal(look(&h, "A").figures.on_hand, 10);
	tell(slow, "COMMIT");
	wait_until_seen("A", 1);
	pg_free(slow);
}

static void a_change_between_select_and_fill_is_not_filled_over(void **state)
{
	make_sku(&h, "A", 10);
	char key[200];
	snprintf(key, sizeof key, "DEL %s:A", sql(&h, "SELECT namespace FROM lastunit.cache_epoch"));
	free(redis_server_command(&house_redis, key));
	/* The fill's message is held between the loader and Redis; the change and its invalidation overtake it. */
	proxy_when(&h.redis_proxy, PROXY_TO_SERVER, "V|1|10|", PROXY_HOLD);
	struct looking *reader = look_begin(&h, "A");
	proxy_wait_matches(&h.redis_proxy, 1);
	sql(&h, "UPDATE lastunit.sku SET on_hand = 3");
	wait_sql(&h, "SELECT count(*) FROM lastunit.invalidation", "0");
	proxy_release(&h.redis_proxy);
	assert_int_equal(look_await(reader).figures.on_hand, 10);
	wait_until_seen("A", 3);
}

/* I14: while leases may still be out, the record stays; once the epoch is closed nobody serves hits. */
static void I14_a_record_is_kept_until_its_cell_is_gone_or_nobody_serves_it(void **state)
{
	make_sku(&h, "A", 10);
	warm(&h, "A");
	redis_server_pause(&house_redis);
	sql(&h, "UPDATE lastunit.sku SET on_hand = 6");
	wait_sql(&h, "SELECT count(*) FROM lastunit.invalidation", "0");
	assert_string_equal(sql(&h, "SELECT state FROM lastunit.cache_epoch"), "3");
	redis_server_resume(&house_redis);
	wait_for_open_epoch(&h);
	wait_until_seen("A", 6);
}

/* I15: cells are as true as the relay keeps them. */
static void I15_no_hits_are_served_while_the_relay_cannot_read(void **state)
{
	make_sku(&h, "A", 10);
	warm(&h, "A");
	sql(&h, "REVOKE DELETE ON lastunit.invalidation FROM lastunit_service");
	sql(&h, "UPDATE lastunit.sku SET on_hand = 6");
	struct seen_item seen = look(&h, "A");
	for (int i = 0; i < 600 && seen.source == LOOKUP_HIT; i++) {
		usleep(10000);
		seen = look(&h, "A");
	}
	assert_int_not_equal(seen.source, LOOKUP_HIT);
	assert_int_equal(seen.figures.on_hand, 6);
	assert_int_equal(run(&h, OPERATION_CHECKOUT, "A6", NULL), LU_OK); /* who sells is let in */
	sql(&h, "GRANT DELETE ON lastunit.invalidation TO lastunit_service");
	wait_until_seen("A", 0);
}

/* A relay that is frozen keeps its records locked, which the others cannot take: their cells must go all the same. */
static void records_in_the_hands_of_a_frozen_relay_are_invalidated(void **state)
{
	make_sku(&h, "A", 10);
	warm(&h, "A");
	sql(&h, "REVOKE DELETE ON lastunit.invalidation FROM lastunit_service");
	sql(&h, "UPDATE lastunit.sku SET on_hand = 6");
	struct pg *frozen = stranger(&h);
	tell(frozen, "BEGIN");
	tell(frozen, "SELECT FROM lastunit.invalidation FOR UPDATE");
	sql(&h, "GRANT DELETE ON lastunit.invalidation TO lastunit_service");
	wait_until_seen("A", 6);
	assert_int_equal(sql_int(&h, "SELECT count(*) FROM lastunit.invalidation"), 1);
	tell(frozen, "COMMIT");
	wait_sql(&h, "SELECT count(*) FROM lastunit.invalidation", "0");
	pg_free(frozen);
}

/* By whoever would have a cell removed by hand. */
static void a_record_of_a_version_that_cannot_be_is_relayed(void **state)
{
	make_sku(&h, "A", 10);
	warm(&h, "A");
	sql(&h, "INSERT INTO lastunit.invalidation (sku_id, code, version) SELECT id, code, -1 FROM lastunit.sku");
	wait_sql(&h, "SELECT count(*) FROM lastunit.invalidation", "0");
	assert_int_equal(look_until_hit(&h, "A").figures.on_hand, 10);
}

/* Row level security, which some hosts switch on for every table: what it hides would be taken for what is not there. */
static void rows_that_are_hidden_are_no_rows_that_are_not_there(void **state)
{
	make_sku(&h, "A", 10);
	sql(&h, "ALTER TABLE lastunit.sku ENABLE ROW LEVEL SECURITY");
	assert_int_equal(run(&h, OPERATION_CHECKOUT, "A1", NULL), LU_DATABASE_UNAVAILABLE);
	sql(&h, "ALTER TABLE lastunit.sku DISABLE ROW LEVEL SECURITY");
	assert_int_equal(run(&h, OPERATION_CHECKOUT, "A1", NULL), LU_OK);
}

static const struct CMUnitTest tests[] = {
	HOUSE_TEST(an_update_in_sql_is_an_entry_of_the_ledger_and_seen_by_readers),
	HOUSE_TEST(our_own_writes_record_nothing),
	HOUSE_TEST(an_orm_with_optimistic_versions_works),
	HOUSE_TEST(bulk_updates_and_upserts_leave_no_phantoms),
	HOUSE_TEST(a_session_that_replicates_is_no_way_around),
	HOUSE_TEST(strangers_may_not_touch_what_is_the_services),
	HOUSE_TEST(a_record_with_a_lower_id_that_commits_late_is_relayed),
	HOUSE_TEST(a_change_between_select_and_fill_is_not_filled_over),
	HOUSE_TEST(I15_no_hits_are_served_while_the_relay_cannot_read),
	HOUSE_TEST(records_in_the_hands_of_a_frozen_relay_are_invalidated),
	HOUSE_TEST(a_record_of_a_version_that_cannot_be_is_relayed),
	HOUSE_TEST(rows_that_are_hidden_are_no_rows_that_are_not_there),
	HOUSE_TEST(I14_a_record_is_kept_until_its_cell_is_gone_or_nobody_serves_it),
};

HOUSE_MAIN(tests)
