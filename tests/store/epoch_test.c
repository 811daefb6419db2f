/* The cache epoch: open, closing, closed and open again; who waits for whom; and when a row is not to be trusted. */
#include "store/epoch.h"
#include "store/invalidation.h"
#include "store/fixture.h"

#include <poll.h>

static struct epoch_row lease(struct pg *pg)
{
	struct epoch_row row;
	ok(pg, epoch_lease_read(pg, &arena, SOON, &row));
	return row;
}

static bool open_epoch(struct pg *pg, const char *old, const char *new)
{
	bool moved = false;
	ok(pg, epoch_open(pg, text_of(old), text_of(new), TEXT("redis-1"), 1000, SOON, &moved));
	return moved;
}

static bool moved_by(struct pg *pg, enum lu_error (*move)(struct pg *, struct text, int64_t, bool *),
                     const char *namespace)
{
	bool moved;
	ok(pg, move(pg, text_of(namespace), SOON, &moved));
	return moved;
}

static struct epoch_row enter(struct pg *pg)
{
	struct epoch_row row;
	ok(pg, pg_command(pg, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", SOON));
	epoch_enter_send(pg, &arena);
	sent(pg);
	ok(pg, epoch_enter_take(pg, SOON, &arena, &row));
	ended(pg);
	return row;
}

static void leave(struct pg *pg)
{
	bool was_sent;
	ok(pg, pg_commit(pg, SOON, &was_sent));
}

static void a_new_database_is_closed_and_opens(void **state)
{
	struct pg *pg = session(); /* the service's role: it may ask for the identity */
	struct epoch_row row = lease(pg);
	assert_int_equal(row.state, EPOCH_CLOSED);
	assert_false(row.genuine);
	assert_true(row.keys_version > 0);
	assert_int_equal(row.namespace.size, 0);
	assert_true(open_epoch(pg, "", "lu:1"));
	row = lease(pg);
	assert_int_equal(row.state, EPOCH_OPEN);
	assert_true(row.genuine);
	assert_text(row.namespace, "lu:1");
	assert_text(row.redis_identity, "redis-1");
	row = enter(pg);
	assert_int_equal(row.state, EPOCH_OPEN);
	assert_text(row.namespace, "lu:1");
	assert_text(row.redis_identity, "redis-1");
	leave(pg);
	pg_free(pg);
}

/* While a dump is loaded over a database that is served, the row is away for a moment. */
static void without_its_row_everybody_fails_and_nobody_ends(void **state)
{
	struct pg *pg = session();
	struct epoch_row row;
	struct invalidations list;
	ask("DELETE FROM lastunit.cache_epoch");
	assert_int_equal(epoch_lease_read(pg, &arena, SOON, &row), LU_INTERNAL);
	assert_int_equal(invalidation_take(pg, &arena, 10, SOON, &list), LU_INTERNAL);
	assert_int_equal(pg_error(pg)->class, PG_VIOLATION);
	pg_free(pg);
}

static void each_transition_is_of_its_own_namespace_and_state(void **state)
{
	struct pg *pg = session();
	assert_false(open_epoch(pg, "lu:0", "lu:1"));
	assert_false(moved_by(pg, epoch_close, ""));
	assert_true(open_epoch(pg, "", "lu:1"));
	assert_false(open_epoch(pg, "lu:1", "lu:2"));     /* open: not to be opened */
	assert_false(moved_by(pg, epoch_closed, "lu:1")); /* not before closing */
	assert_false(moved_by(pg, epoch_close, "lu:0"));  /* of an epoch long gone */
	assert_true(moved_by(pg, epoch_close, "lu:1"));
	assert_false(moved_by(pg, epoch_close, "lu:1"));
	struct epoch_row row = lease(pg);
	assert_int_equal(row.state, EPOCH_CLOSING);
	assert_true(row.genuine);
	assert_false(open_epoch(pg, "lu:1", "lu:2")); /* not before closed */
	assert_true(moved_by(pg, epoch_closed, "lu:1"));
	assert_int_equal(lease(pg).state, EPOCH_CLOSED);
	assert_true(open_epoch(pg, "lu:1", "lu:2"));
	assert_int_equal(lease(pg).state, EPOCH_OPEN);
	/* What a transition that did not happen returns is told apart from one that did; the row is as it was. */
	assert_false(open_epoch(pg, "lu:1", "lu:3"));
	assert_text(lease(pg).namespace, "lu:2");
	assert_int_equal(PQtransactionStatus(pg_conn(pg)), PQTRANS_IDLE);
	pg_free(pg);
}

static void the_opener_waits_out_the_writers_in_flight(void **state)
{
	struct pg *writer = session(), *opener = session();
	struct epoch_row row = enter(writer);
	assert_int_equal(row.state, EPOCH_CLOSED);
	bool moved = true;
	assert_int_equal(epoch_open(opener, TEXT(""), TEXT("lu:1"), TEXT("redis-1"), 1000, SOON, &moved), LU_OVERLOADED);
	assert_int_equal(pg_error(opener)->class, PG_RETRY);
	assert_string_equal(pg_error(opener)->sqlstate, "55P03");
	assert_int_equal(PQtransactionStatus(pg_conn(opener)), PQTRANS_IDLE);
	assert_int_equal(lease(opener).state, EPOCH_CLOSED);
	/* It gave way: another writer gets in, and closing never waits for anybody. */
	struct pg *other = session();
	enter(other);
	leave(other);
	leave(writer);
	assert_true(open_epoch(opener, "", "lu:1"));
	enter(writer);
	assert_true(moved_by(opener, epoch_close, "lu:1"));
	leave(writer);
	pg_free(other);
	pg_free(writer);
	pg_free(opener);
}

/* A writer that had to wait for the opener sees what it did: lock and row are two statements. */
static void a_writer_that_waited_for_the_opener_sees_it_open(void **state)
{
	struct pg *writer = session(), *opener = owner_session();
	ok(opener, pg_command(opener,
	                      "BEGIN; SELECT pg_advisory_xact_lock(7809650172860721524);"
	                      "UPDATE cache_epoch SET state = 1, namespace = 'lu:1', xid = pg_current_xact_id()",
	                      SOON));
	ok(writer, pg_command(writer, "BEGIN", SOON));
	epoch_enter_send(writer, &arena);
	sent(writer);
	char waits[128];
	snprintf(waits, sizeof waits, "SELECT count(*) FROM pg_locks WHERE pid = %d AND NOT granted",
	         PQbackendPID(pg_conn(writer)));
	while (ask_int(waits) == 0)
		poll(NULL, 0, 5);
	leave(opener);
	struct epoch_row row;
	ok(writer, epoch_enter_take(writer, SOON, &arena, &row));
	ended(writer);
	assert_int_equal(row.state, EPOCH_OPEN);
	assert_text(row.namespace, "lu:1");
	leave(writer);
	pg_free(writer);
	pg_free(opener);
}

static void an_epoch_is_genuine_only_where_it_was_opened(void **state)
{
	struct pg *pg = session();
	assert_true(open_epoch(pg, "", "lu:1"));
	assert_true(lease(pg).genuine);
	/* A row that was written again by anybody else (a restore above all) carries an xid that is not its xmin. */
	ask("UPDATE lastunit.cache_epoch SET namespace = namespace");
	assert_false(lease(pg).genuine);
	assert_true(moved_by(pg, epoch_close, "lu:1"));
	assert_true(moved_by(pg, epoch_closed, "lu:1"));
	assert_true(open_epoch(pg, "lu:1", "lu:2"));
	assert_true(lease(pg).genuine);
	/* A vacuum, a freeze, a lock change nothing. */
	ask("SELECT * FROM lastunit.cache_epoch FOR UPDATE");
	ask("VACUUM FREEZE lastunit.cache_epoch");
	assert_true(lease(pg).genuine);
	pg_free(pg);
	/* A restart is another PostgreSQL: writes may have been lost with it. */
	pg_server_restart(&server, PG_SERVER_FAST);
	pg = session();
	struct epoch_row row = lease(pg);
	assert_int_equal(row.state, EPOCH_OPEN);
	assert_false(row.genuine);
	pg_free(pg);
}

static void a_copy_of_the_database_is_not_genuine(void **state)
{
	struct pg *pg = session();
	assert_true(open_epoch(pg, "", "lu:1"));
	pg_free(pg);
	char here[200], there[200], sql[400];
	strcpy(here, url);
	snprintf(sql, sizeof sql, "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE datname = '%s'",
	         strstr(url, "dbname=") + 7);
	pg_server_ask(server.url, sql);
	snprintf(sql, sizeof sql, "CREATE DATABASE copied TEMPLATE %s", strstr(url, "dbname=") + 7);
	pg_server_ask(server.url, sql);
	snprintf(there, sizeof there, "host=%s user=postgres dbname=copied", server.directory);
	strcpy(url, there);
	pg = session();
	assert_int_equal(lease(pg).state, EPOCH_OPEN);
	assert_false(lease(pg).genuine);
	pg_free(pg);
	strcpy(url, here);
	pg = session();
	assert_true(lease(pg).genuine);
	pg_free(pg);
}

static void a_standby_has_no_epoch(void **state)
{
	/* In recovery pg_current_wal_lsn() fails with 55000. A server in recovery is a long story; a function of that name
	 * in front of it is the same to us. */
	struct pg *pg = owner_session();
	ask("CREATE FUNCTION lastunit.pg_current_wal_lsn() RETURNS pg_lsn LANGUAGE plpgsql AS"
	    " $$BEGIN RAISE EXCEPTION 'recovery is in progress' USING ERRCODE = '55000'; END$$");
	ok(pg, pg_command(pg, "SET search_path = lastunit, pg_catalog", SOON));
	struct epoch_row row;
	assert_int_equal(epoch_lease_read(pg, &arena, SOON, &row), LU_DATABASE_UNAVAILABLE);
	assert_int_equal(pg_error(pg)->class, PG_CONNECTION);
	assert_false(pg_connected(pg));
	pg_free(pg);
}

static void a_lost_row_is_an_error_and_not_an_epoch(void **state)
{
	struct pg *pg = session();
	ask("DELETE FROM lastunit.cache_epoch");
	struct epoch_row row;
	assert_int_equal(epoch_lease_read(pg, &arena, SOON, &row), LU_INTERNAL);
	ok(pg, pg_command(pg, "BEGIN", SOON));
	epoch_enter_send(pg, &arena);
	sent(pg);
	assert_int_equal(epoch_enter_take(pg, SOON, &arena, &row), LU_INTERNAL);
	ended(pg);
	pg_free(pg);
}

static const struct CMUnitTest tests[] = {
	STORE_TEST(a_new_database_is_closed_and_opens),
	STORE_TEST(without_its_row_everybody_fails_and_nobody_ends),
	STORE_TEST(each_transition_is_of_its_own_namespace_and_state),
	STORE_TEST(the_opener_waits_out_the_writers_in_flight),
	STORE_TEST(a_writer_that_waited_for_the_opener_sees_it_open),
	STORE_TEST(an_epoch_is_genuine_only_where_it_was_opened),
	STORE_TEST(a_copy_of_the_database_is_not_genuine),
	STORE_TEST(a_standby_has_no_epoch),
	STORE_TEST(a_lost_row_is_an_error_and_not_an_epoch),
};

STORE_MAIN(tests)
