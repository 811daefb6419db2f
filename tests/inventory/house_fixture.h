/* What the tests of one house share: it is opened before each test, and closed and audited after it. How its
 * transactions are made to wait, and how a test sees that they do. */
#ifndef TESTS_INVENTORY_HOUSE_FIXTURE_H
#define TESTS_INVENTORY_HOUSE_FIXTURE_H

#include "lib/house.h"

static struct house h;

static inline int open_house(void **state)
{
	house_open(&h, NULL);
	return 0;
}

/* With one setting that is not the others'. */
static inline int open_house_with(int64_t *setting, int64_t value)
{
	int64_t usual = *setting;
	*setting = value;
	house_open(&h, NULL);
	*setting = usual;
	return 0;
}

static inline int open_house_of_one_writer(void **state)
{
	return open_house_with(&house_config.writers, 1);
}

static inline int close_house(void **state)
{
	assert_audit(&h);
	house_close(&h);
	return 0;
}

/* A deferred trigger runs inside COMMIT: the transaction then waits for the advisory lock 77, which a stranger holds. */
#define STOP_AT_COMMIT                                                                                               \
	"CREATE FUNCTION public.stop_at_commit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS"                   \
	" $$BEGIN PERFORM set_config('lock_timeout', '0', true); PERFORM pg_advisory_xact_lock(77); RETURN NULL; END$$;" \
	"CREATE CONSTRAINT TRIGGER stop AFTER INSERT ON lastunit.ledger DEFERRABLE INITIALLY DEFERRED"                   \
	" FOR EACH ROW EXECUTE FUNCTION public.stop_at_commit()"
#define WAITING_AT_COMMIT "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND objid = 77 AND NOT granted"

static inline void wait_for_a_waiter(const char *relation_of)
{
	char text[300];
	snprintf(text, sizeof text,
	         "SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = '%s' AND wait_event_type = 'Lock'"
	         " AND datname = current_database()",
	         relation_of);
	wait_sql(&h, text, "t");
}

#define HOUSE_TEST(f) cmocka_unit_test_setup_teardown(f, open_house, close_house)
#define ONE_WRITER(f) cmocka_unit_test_setup_teardown(f, open_house_of_one_writer, close_house)

#endif
