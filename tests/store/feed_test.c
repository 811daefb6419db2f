/* The change feed: in order, nothing twice, nothing skipped, however late it commits. */
#include "store/feed.h"
#include "store/rows.h"

static const struct feed_position beginning;

/* One entry of a SKU in a transaction of its own, or in the one that `pg` is in. */
static void append(PGconn *conn, int64_t sku_id, int64_t version)
{
	char sql[300];
	snprintf(
		sql, sizeof sql,
		"INSERT INTO lastunit.ledger (sku_id, version, on_hand_delta, reserved_delta, on_hand_after, reserved_after,"
		" kind, channel) VALUES (%lld, %lld, 0, 0, 0, 0, 8, 7)",
		(long long)sku_id, (long long)version);
	PGresult *r = PQexec(conn, sql);
	assert_int_equal(PQresultStatus(r), PGRES_COMMAND_OK);
	PQclear(r);
}

static void say(PGconn *conn, const char *sql)
{
	PGresult *r = PQexec(conn, sql);
	assert_int_equal(PQresultStatus(r), PGRES_COMMAND_OK);
	PQclear(r);
}

/* Reads one page behind *io_at and goes there: "A1 B2" of codes and versions. */
static const char *read_on(struct pg *pg, struct feed_position *io_at, size_t limit)
{
	struct feed_state state;
	struct feed_row *rows;
	size_t count;
	static char told[1000];
	char *to = told;
	ok(pg, feed_page(pg, &arena, io_at, limit, SOON, &state, &rows, &count));
	*told = 0;
	for (size_t i = 0; i < count; i++) {
		to += sprintf(to, "%s%.*s%lld", i ? " " : "", (int)rows[i].sku.size, rows[i].sku.data,
		              (long long)rows[i].row.entry.version);
		struct feed_position at = {state.now.identity, rows[i].xid, rows[i].row.entry.sku_id,
		                           rows[i].row.entry.version};
		assert_true(feed_position_compare(io_at, &at) < 0);
		*io_at = at;
	}
	return told;
}

static void entries_come_once_in_the_order_of_their_transactions(void **state)
{
	struct pg *pg = session(), *other = owner_session();
	int64_t a = make_sku("A", 1), b = make_sku("B", 1);
	PGconn *conn = pg_conn(other);
	append(conn, b, 1);
	say(conn, "BEGIN");
	append(conn, b, 2);
	append(conn, a, 2);
	append(conn, a, 1);
	say(conn, "COMMIT");
	append(conn, a, 3);
	struct feed_position at = beginning;
	/* Pages that end in the middle of a transaction. */
	assert_string_equal(read_on(pg, &at, 2), "B1 A1");
	assert_string_equal(read_on(pg, &at, 1), "A2");
	assert_string_equal(read_on(pg, &at, 5), "B2 A3");
	assert_string_equal(read_on(pg, &at, 5), "");
	append(conn, b, 3);
	assert_string_equal(read_on(pg, &at, 5), "B3");
	pg_free(pg);
	pg_free(other);
}

static void a_late_commit_is_never_skipped(void **state)
{
	struct pg *pg = session(), *early = owner_session(), *late = owner_session();
	int64_t a = make_sku("A", 1), b = make_sku("B", 1);
	struct feed_position at = beginning;
	struct feed_state now;
	say(pg_conn(late), "BEGIN");
	append(pg_conn(late), a, 1); /* its number is the lower one */
	append(pg_conn(early), b, 1);
	/* B is committed and waits for A: whoever read it now would have passed A. */
	assert_string_equal(read_on(pg, &at, 5), "");
	for (now.lag_ms = 0; now.lag_ms == 0;)
		ok(pg, feed_look(pg, &arena, SOON, &now));
	say(pg_conn(late), "COMMIT");
	assert_string_equal(read_on(pg, &at, 5), "A1 B1");
	ok(pg, feed_look(pg, &arena, SOON, &now));
	assert_int_equal(now.lag_ms, 0);
	pg_free(pg);
	pg_free(early);
	pg_free(late);
}

static void now_is_behind_what_is_committed_and_before_what_is_under_way(void **state)
{
	struct pg *pg = session(), *before = owner_session(), *during = owner_session();
	int64_t a = make_sku("A", 1), b = make_sku("B", 1);
	append(pg_conn(before), a, 1);
	say(pg_conn(during), "BEGIN");
	append(pg_conn(during), b, 1);
	struct feed_state now;
	ok(pg, feed_look(pg, &arena, SOON, &now));
	assert_false(now.restored);
	say(pg_conn(during), "COMMIT");
	append(pg_conn(before), a, 2);
	assert_string_equal(read_on(pg, &now.now, 5), "B1 A2");
	pg_free(pg);
	pg_free(before);
	pg_free(during);
}

static void changes_are_the_newest_state_of_each_sku(void **state)
{
	struct pg *pg = session(), *other = owner_session();
	int64_t a = make_sku("A", 11), b = make_sku("B", 22);
	ask("UPDATE lastunit.sku SET version = 3, reserved = 4, safety_stock = 2, writer = gen_random_uuid() WHERE code = 'A'");
	for (int64_t version = 1; version <= 3; version++)
		append(pg_conn(other), a, version);
	append(pg_conn(other), b, 1);
	struct feed_state now;
	struct feed_change *changes;
	size_t count;
	bool more;
	ok(pg, feed_changes(pg, &arena, &beginning, 4, SOON, &now, &changes, &count, &more));
	assert_int_equal(count, 2);
	assert_true(more);
	assert_text(changes[0].sku, "A");
	assert_int_equal(changes[0].position.version, 3);
	assert_int_equal(changes[0].figures.version, 3);
	assert_int_equal(changes[0].figures.on_hand, 11);
	assert_int_equal(changes[0].figures.reserved, 4);
	assert_int_equal(changes[0].figures.safety_stock, 2);
	assert_true(changes[0].figures.tracked);
	assert_text(changes[1].sku, "B");
	assert_int_equal(changes[1].figures.on_hand, 22);
	/* Cut behind A's second entry: the figures are today's all the same, and A comes again with its third. */
	ok(pg, feed_changes(pg, &arena, &beginning, 2, SOON, &now, &changes, &count, &more));
	assert_int_equal(count, 1);
	assert_true(more);
	assert_int_equal(changes[0].position.version, 2);
	assert_int_equal(changes[0].figures.version, 3);
	ok(pg, feed_changes(pg, &arena, &changes[0].position, 5, SOON, &now, &changes, &count, &more));
	assert_int_equal(count, 2);
	assert_false(more);
	assert_int_equal(changes[0].position.version, 3);
	ok(pg, feed_changes(pg, &arena, &changes[1].position, 5, SOON, &now, &changes, &count, &more));
	assert_int_equal(count, 0);
	assert_false(more);
	pg_free(pg);
	pg_free(other);
}

static void a_ledger_from_a_dump_of_another_cluster_is_recognised(void **state)
{
	struct pg *pg = session();
	struct feed_state now;
	struct feed_position at = beginning;
	make_sku("A", 1);
	ask("INSERT INTO lastunit.ledger (sku_id, version, on_hand_delta, reserved_delta, on_hand_after, reserved_after, kind,"
	    " channel, xid) VALUES (1, 1, 0, 0, 0, 0, 8, 7, '900000000')");
	ok(pg, feed_look(pg, &arena, SOON, &now));
	assert_true(now.restored);
	assert_int_equal(now.lag_ms, 0);
	assert_string_equal(read_on(pg, &at, 5), "");
	pg_free(pg);
}

static void another_database_has_another_identity(void **state)
{
	struct feed_state here, there, again;
	struct pg *pg = session();
	ok(pg, feed_look(pg, &arena, SOON, &here));
	pg_free(pg);
	pg = session();
	ok(pg, feed_look(pg, &arena, SOON, &again));
	assert_true(here.now.identity == again.now.identity);
	pg_free(pg);
	fixture_forget(NULL);
	fixture_database(NULL);
	pg = session();
	ok(pg, feed_look(pg, &arena, SOON, &there));
	assert_true(here.now.identity != there.now.identity);
	pg_free(pg);
}

static void a_cursor_is_a_place_and_nothing_else_is(void **state)
{
	static const struct feed_position places[] = {{0, 0, 0, 0},
	                                              {-1, 1, 2, 3},
	                                              {INT64_MIN, INT64_MAX, INT64_MAX, INT64_MAX},
	                                              {0x1234, 0x2f7, 15, 16}};
	static const char *const others[] = {"",
	                                     "now",
	                                     "-",
	                                     "0000000000000000-0-0",
	                                     "0000000000000000-0-0-",
	                                     "0000000000000000-0-0-0-0",
	                                     "0000000000000000-0-0-00",
	                                     "0000000000000000-0-0-G",
	                                     "0000000000000000-0-0-A",
	                                     "000000000000000-0-0-0",
	                                     "0000000000000000-8000000000000000-0-0",
	                                     "0000000000000000-0-0-10000000000000000",
	                                     " 0000000000000000-0-0-0",
	                                     "0000000000000000--0-0"};
	struct feed_position seen;
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		char cursor[FEED_CURSOR_BYTES_MAX + 1];
		size_t size = feed_cursor_format(&places[i], cursor);
		assert_int_equal(size, strlen(cursor));
		assert_true(feed_cursor_parse((struct text){cursor, size}, &seen));
		assert_memory_equal(&seen, &places[i], sizeof seen);
	}
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		assert_false(feed_cursor_parse(text_of(others[i]), &seen));
}

/* Ahead of it is a place of another life of the same PostgreSQL. */
static void a_place_ahead_of_the_feed_is_none_of_its(void **unused)
{
	struct pg *pg = session(), *other = owner_session();
	struct feed_state state;
	append(pg_conn(other), make_sku("A", 1), 1);
	ok(pg, feed_look(pg, &arena, SOON, &state));
	struct feed_position at = state.now;
	assert_true(feed_has(&state, &at));
	at.sku_id = 1;
	assert_false(feed_has(&state, &at));
	at.xid--;
	assert_true(feed_has(&state, &at));
	at.xid += 2;
	assert_false(feed_has(&state, &at));
	at = state.now;
	at.identity++;
	assert_false(feed_has(&state, &at));
	pg_free(pg);
	pg_free(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(entries_come_once_in_the_order_of_their_transactions),
		STORE_TEST(a_late_commit_is_never_skipped),
		STORE_TEST(now_is_behind_what_is_committed_and_before_what_is_under_way),
		STORE_TEST(changes_are_the_newest_state_of_each_sku),
		STORE_TEST(a_ledger_from_a_dump_of_another_cluster_is_recognised),
		STORE_TEST(another_database_has_another_identity),
		STORE_TEST(a_cursor_is_a_place_and_nothing_else_is),
		STORE_TEST(a_place_ahead_of_the_feed_is_none_of_its),
	};
	return cmocka_run_group_tests(tests, fixture_start, fixture_end);
}
