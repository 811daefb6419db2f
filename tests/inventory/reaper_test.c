/* The reaper: what keeps one due hold from ending keeps no other. How it forgets the details of old refusals. */
#include "inventory/house_fixture.h"

#include "inventory/inventory_internal.h"
#include "store/pg.h"

static int open_house_of_patient_requests(void **state)
{
	return open_house_with(&house_config.request_timeout_ms, 60000);
}

enum { ROUND = 500 };

/* `count` holds of one unit, of A and the SKUs behind it in turn, in rounds. */
static void hold_many(int count, int skus)
{
	static struct attempt_at *holds[ROUND];
	for (int done = 0; done < count; done += ROUND) {
		for (int i = 0; i < ROUND; i++)
			holds[i] = begin(&h, OPERATION_RESERVE, (char[]){(char)('A' + i % skus), '1', 0}, NULL);
		for (int i = 0; i < ROUND; i++) {
			assert_int_equal(await(holds[i])->error, LU_OK);
			forget(holds[i]);
		}
	}
}

static void I11_a_row_locked_by_a_stranger_delays_no_other_expiry(void **state)
{
	make_sku(&h, "Z", 5);
	make_sku(&h, "A", 5);
	hold_for(&h, "Z1", 1);
	hold_for(&h, "A1", 2);
	struct pg *other = stranger(&h);
	tell(other, "BEGIN");
	tell(other, "SELECT FROM lastunit.sku WHERE code = 'Z' FOR UPDATE");
	wait_sql(&h, "SELECT state FROM lastunit.reservation ORDER BY expires_at DESC LIMIT 1", "4");
	assert_string_equal(sql(&h,
	                        "SELECT ended_at - expires_at < interval '1 s' FROM lastunit.reservation"
	                        " ORDER BY expires_at DESC LIMIT 1"),
	                    "t");
	tell(other, "COMMIT");
	pg_free(other);
}

/* A stranger has a row that more due holds wait for than the reaper has places: those of other SKUs end all the same. */
static void P6_holds_that_wait_for_a_locked_row_delay_no_others(void **state)
{
	enum { HOLDS = 10 * ROUND };
	make_sku(&h, "A", HOLDS);
	make_sku(&h, "B", 1);
	hold_many(HOLDS, 1);
	hold_for(&h, "B1", 1);
	struct pg *other = stranger(&h);
	tell(other, "BEGIN");
	tell(other, "SELECT FROM lastunit.sku WHERE code = 'A' FOR UPDATE");
	/* All are due at once, those of A first. */
	sql(&h,
	    "UPDATE lastunit.reservation SET expires_at = created_at + interval '1 ms'"
	    " WHERE sku_ids = (SELECT ARRAY[id] FROM lastunit.sku WHERE code = 'A')");
	int64_t refused = metric_get(METRIC_OPERATIONS_REFUSED);
	wait_sql(&h, "SELECT reserved FROM lastunit.sku WHERE code = 'B'", "0");
	refused = metric_get(METRIC_OPERATIONS_REFUSED) - refused;
	assert_int_equal(sql_int(&h, "SELECT reserved FROM lastunit.sku WHERE code = 'A'"), HOLDS);
	tell(other, "COMMIT");
	assert_int_equal(refused, 0); /* B waited for none of A to give up its place */
	wait_sql(&h, "SELECT reserved FROM lastunit.sku WHERE code = 'A'", "0");
	pg_free(other);
}

/* More holds fail to end than the reaper has places for and can let rest, of many SKUs and in one instant: those behind
 * them end all the same. */
static void P5_holds_that_cannot_end_delay_no_others(void **state)
{
	enum { SKUS = 25, HOLDS = 12 * ROUND };
	for (int i = 0; i < SKUS; i++)
		make_sku(&h, (char[]){(char)('A' + i), 0}, HOLDS / SKUS);
	make_sku(&h, "Z", 1);
	hold_many(HOLDS, SKUS);
	hold_for(&h, "Z1", 1);
	sql(&h, "ALTER TABLE lastunit.sku ADD CONSTRAINT planted CHECK (code = 'Z' OR reserved >= on_hand) NOT VALID");
	sql(&h,
	    "UPDATE lastunit.reservation SET expires_at = (SELECT min(created_at) + interval '1 ms' FROM lastunit.reservation)"
	    " WHERE sku_ids <> (SELECT ARRAY[id] FROM lastunit.sku WHERE code = 'Z')");
	wait_sql(&h, "SELECT reserved FROM lastunit.sku WHERE code = 'Z'", "0");
	assert_int_equal(sql_int(&h, "SELECT sum(reserved) FROM lastunit.sku"), HOLDS);
	sql(&h, "ALTER TABLE lastunit.sku DROP CONSTRAINT planted");
	wait_sql(&h, "SELECT sum(reserved) FROM lastunit.sku", "0");
}

/* More refusals a minute than one page of them: their details go all the same. */
static void details_of_many_old_refusals_are_forgotten_at_once(void **state)
{
	static struct house second; /* the first one's reaper has looked, and looks again in a minute */
	sql(&h,
	    "INSERT INTO lastunit.idempotency (principal_id, key, fingerprint, kind, status, detail, at)"
	    " SELECT (SELECT min(id) FROM lastunit.principal), 'old-' || n, decode(repeat('00', 32), 'hex'), 1,"
	    " 'insufficient_stock', '{}', clock_timestamp() - interval '25 hours' FROM generate_series(1, 20000) n");
	assert_int_equal(sql_int(&h, "SELECT count(*) FROM lastunit.idempotency WHERE detail IS NOT NULL"), 20000);
	house_open(&second, &h);
	wait_sql(&h, "SELECT count(*) FROM lastunit.idempotency WHERE detail IS NOT NULL", "0");
	house_close(&second);
}

static const struct CMUnitTest tests[] = {
	HOUSE_TEST(I11_a_row_locked_by_a_stranger_delays_no_other_expiry),
	cmocka_unit_test_setup_teardown(P6_holds_that_wait_for_a_locked_row_delay_no_others, open_house_of_patient_requests,
                                    close_house),
	HOUSE_TEST(P5_holds_that_cannot_end_delay_no_others),
	HOUSE_TEST(details_of_many_old_refusals_are_forgotten_at_once),
};

HOUSE_MAIN(tests)
