/* Statements on a connection: pipelines that fail in the middle, errors told apart, COMMIT's outcome. Whether there is a
 * connection: pg_connection_test.c. */
#include "store/pg_fixture.h"

#include <sys/wait.h>
#include <unistd.h>

static const struct pg_statement begin = {"begin", "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"};
static const struct pg_statement wrong = {"wrong", "SELECT 1 / (random() * 0)::integer"};
static const struct pg_statement unknown_table = {"unknown_table", "SELECT * FROM no_such_table"};
static const struct pg_statement add_principal = {"add_principal",
                                                  "INSERT INTO principal (name, channel) VALUES ($1, 1)"};

static void add_text_statement(struct pg *pg, const struct pg_statement *statement, const char *value)
{
	struct pg_params p;
	pg_params_init(&p, &arena);
	pg_add_text(&p, text_of(value));
	pg_pipe_add(pg, statement, &p);
}

/* --- pipelines ---------------------------------------------------------------------------------------------------- */

static void a_pipeline_answers_in_order_and_prepares_once(void **state)
{
	static const struct pg_statement echo = {"echo", "SELECT $1"};
	static const struct pg_statement prepared = {"prepared",
	                                             "SELECT count(*) FROM pg_prepared_statements WHERE name = 'echo'"};
	struct pg *pg = session();
	for (int round = 0; round < 2; round++) {
		for (int64_t i = 0; i < 50; i++) {
			struct pg_params p;
			pg_params_init(&p, &arena);
			pg_add_int8(&p, i);
			pg_pipe_add(pg, &echo, &p);
		}
		pg_pipe_add(pg, &prepared, NULL);
		sent(pg);
		PGresult *r;
		for (int64_t i = 0; i < 51; i++) {
			ok(pg, pg_pipe_take(pg, SOON, &r));
			assert_int_equal(pg_get_int(r, 0, 0), i < 50 ? i : 1);
			PQclear(r);
		}
		ended(pg);
	}
	pg_free(pg);
}

static void an_error_in_the_third_of_ten_aborts_the_rest(void **state)
{
	struct pg *pg = owner_session();
	PGresult *r = NULL;
	pg_pipe_add(pg, &begin, NULL);
	add_text_statement(pg, &add_principal, "before");
	pg_pipe_add(pg, &wrong, NULL);
	for (int i = 0; i < 6; i++)
		add_text_statement(pg, &add_principal, "behind");
	pg_pipe_add(pg, &one, NULL);
	sent(pg);
	for (int i = 0; i < 10; i++) {
		enum lu_error error = pg_pipe_take(pg, SOON, &r);
		if (i < 2) {
			ok(pg, error);
			PQclear(r);
			continue;
		}
		/* The aborted ones repeat it: none of them is ever taken for done. */
		assert_int_equal(error, LU_INTERNAL);
		assert_int_equal(pg_error(pg)->class, PG_VIOLATION);
		assert_string_equal(pg_error(pg)->sqlstate, "22012");
	}
	assert_int_equal(pg_pipe_end(pg, SOON), LU_INTERNAL);
	assert_true(pg_connected(pg));
	/* The transaction is there to be rolled back; its reason is kept meanwhile. */
	assert_int_equal(PQtransactionStatus(pg_conn(pg)), PQTRANS_INERROR);
	pg_rollback(pg, SOON);
	assert_string_equal(pg_error(pg)->sqlstate, "22012");
	assert_int_equal(PQtransactionStatus(pg_conn(pg)), PQTRANS_IDLE);
	/* `one` was to be prepared behind the error and was not: it is prepared now. */
	query_one(pg);
	assert_int_equal(ask_int("SELECT count(*) FROM lastunit.principal"), 0);
	pg_free(pg);
}

static void a_statement_that_cannot_be_prepared_is_tried_again(void **state)
{
	struct pg *pg = owner_session();
	PGresult *r;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pg_query(pg, &unknown_table, NULL, SOON, &r), LU_DATABASE_UNAVAILABLE);
		assert_string_equal(pg_error(pg)->sqlstate, "42P01");
		query_one(pg);
	}
	ask("CREATE TABLE lastunit.no_such_table ()");
	ok(pg, pg_query(pg, &unknown_table, NULL, SOON, &r));
	PQclear(r);
	pg_free(pg);
}

static void what_was_not_taken_is_dropped_at_the_end(void **state)
{
	struct pg *pg = session();
	for (int i = 0; i < 10; i++)
		pg_pipe_add(pg, &one, NULL);
	sent(pg);
	take_one(pg);
	ended(pg);
	query_one(pg);
	/* Added, never sent: the end sends and drops it. */
	pg_pipe_add(pg, &one, NULL);
	ended(pg);
	query_one(pg);
	/* An empty pipeline, and an end without any. */
	sent(pg);
	ended(pg);
	ended(pg);
	pg_free(pg);
}

static void an_error_nobody_took_is_told_at_the_end(void **state)
{
	struct pg *pg = session();
	pg_pipe_add(pg, &one, NULL);
	pg_pipe_add(pg, &wrong, NULL);
	sent(pg);
	take_one(pg);
	assert_int_equal(pg_pipe_end(pg, SOON), LU_INTERNAL);
	assert_string_equal(pg_error(pg)->sqlstate, "22012");
	query_one(pg);
	pg_free(pg);
}

/* Outside a transaction the commit happens behind the last answer. */
static void a_commit_that_fails_behind_the_answer_is_a_failure(void **state)
{
	static const struct pg_statement insert = {"insert_twice", "INSERT INTO late VALUES (1) RETURNING 1::bigint"};
	ask("CREATE TABLE lastunit.late (n bigint UNIQUE DEFERRABLE INITIALLY DEFERRED);"
	    "GRANT ALL ON lastunit.late TO lastunit_service");
	struct pg *pg = session();
	PGresult *r;
	ok(pg, pg_query(pg, &insert, NULL, SOON, &r));
	PQclear(r);
	assert_int_equal(pg_query(pg, &insert, NULL, SOON, &r), LU_INTERNAL);
	assert_int_equal(pg_error(pg)->class, PG_DUPLICATE);
	assert_string_equal(pg_error(pg)->constraint, "late_n_key");
	assert_true(pg_connected(pg));
	assert_int_equal(ask_int("SELECT count(*) FROM lastunit.late"), 1);
	/* In a transaction COMMIT itself is answered so: rolled back, and known to be. */
	bool was_sent;
	pg_pipe_add(pg, &begin, NULL);
	pg_pipe_add(pg, &insert, NULL);
	sent(pg);
	ended(pg);
	assert_int_equal(pg_commit(pg, SOON, &was_sent), LU_INTERNAL);
	assert_int_equal(pg_error(pg)->class, PG_DUPLICATE);
	assert_false(was_sent);
	query_one(pg);
	pg_free(pg);
}

static void errors_are_told_apart(void **state)
{
	static const struct {
		const char *sql;
		enum pg_class class;
		enum lu_error error;
	} cases[] = {
		{"40001", PG_RETRY, LU_OVERLOADED},
		{"40P01", PG_RETRY, LU_OVERLOADED},
		{"55P03", PG_RETRY, LU_OVERLOADED},
		{"57014", PG_UNAVAILABLE, LU_OVERLOADED},
		{"53100", PG_UNAVAILABLE, LU_OVERLOADED},
		{"53200", PG_UNAVAILABLE, LU_OVERLOADED},
		{"23505", PG_DUPLICATE, LU_INTERNAL},
		{"42501", PG_FORBIDDEN, LU_DATABASE_UNAVAILABLE},
		{"42P01", PG_FORBIDDEN, LU_DATABASE_UNAVAILABLE},
		{"23514", PG_VIOLATION, LU_INTERNAL},
		{"XX000", PG_VIOLATION, LU_INTERNAL},
		{"22003", PG_VIOLATION, LU_INTERNAL},
		{"08006", PG_CONNECTION, LU_DATABASE_UNAVAILABLE},
		{"57P01", PG_CONNECTION, LU_DATABASE_UNAVAILABLE},
		{"57P03", PG_CONNECTION, LU_DATABASE_UNAVAILABLE},
		{"25006", PG_CONNECTION, LU_DATABASE_UNAVAILABLE},
		{"25P03", PG_CONNECTION, LU_DATABASE_UNAVAILABLE},
		{"0A000", PG_CONNECTION, LU_DATABASE_UNAVAILABLE},
		{"55000", PG_CONNECTION, LU_DATABASE_UNAVAILABLE},
		{"26000", PG_CONNECTION, LU_DATABASE_UNAVAILABLE},
	};
	struct pg *pg = session();
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char sql[256];
		snprintf(sql, sizeof sql,
		         "DO $$BEGIN RAISE EXCEPTION E'first line\\nsecond' USING ERRCODE = '%s',"
		         " CONSTRAINT = 'a_sentence'; END$$",
		         cases[i].sql);
		reconnect(pg);
		assert_int_equal(pg_command(pg, sql, SOON), cases[i].error);
		assert_int_equal(pg_error(pg)->class, cases[i].class);
		assert_string_equal(pg_error(pg)->sqlstate, cases[i].sql);
		assert_string_equal(pg_error(pg)->message, "first line");
		assert_string_equal(pg_error(pg)->constraint, "a_sentence");
		/* A connection of no more use is not kept, any other is. */
		assert_int_equal(pg_connected(pg), cases[i].class != PG_CONNECTION);
	}
	pg_free(pg);
}

/* --- COMMIT ------------------------------------------------------------------------------------------------------- */

static void only_a_clean_commit_is_a_success(void **state)
{
	struct pg *pg = owner_session();
	bool was_sent = true;
	ok(pg, pg_command(pg, "BEGIN", SOON));
	ok(pg, pg_command(pg, "INSERT INTO principal (name, channel) VALUES ('a', 1)", SOON));
	ok(pg, pg_commit(pg, SOON, &was_sent));
	assert_int_equal(ask_int("SELECT count(*) FROM lastunit.principal"), 1);
	/* A failed transaction answers COMMIT with ROLLBACK: the outcome is known. */
	ok(pg, pg_command(pg, "BEGIN", SOON));
	assert_int_equal(pg_command(pg, "SELECT 1 / 0", SOON), LU_INTERNAL);
	assert_int_not_equal(pg_commit(pg, SOON, &was_sent), LU_OK);
	assert_false(was_sent);
	assert_true(pg_connected(pg));
	/* Without a transaction it says COMMIT, and warns. */
	assert_int_equal(pg_commit(pg, SOON, &was_sent), LU_DATABASE_UNAVAILABLE);
	assert_true(was_sent);
	assert_null(pg_conn(pg));
	/* A warning before it is not one of it. */
	reconnect(pg);
	ok(pg, pg_command(pg, "BEGIN; DO $$BEGIN RAISE WARNING 'w'; END$$", SOON));
	ok(pg, pg_commit(pg, SOON, &was_sent));
	pg_free(pg);
}

/* The standby that was to confirm never comes; the administrator cancels the wait: durable here only, so not a success
 * that could be answered. */
static void a_cancelled_wait_for_a_standby_is_an_unknown_outcome(void **state)
{
	struct pg *pg = owner_session();
	bool was_sent;
	char sql[256];
	ask("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
	ask("SELECT pg_reload_conf()");
	/* The waiter is told by a child: this process waits in COMMIT. The setting has reached the session when the wait
	 * shows, and it is set back before the child asks for the cancel. */
	snprintf(sql, sizeof sql,
	         "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE pid = %d AND wait_event = 'SyncRep'",
	         backend_of(pg));
	pid_t child = fork();
	if (child == 0) {
		while (strcmp(ask(sql), "t") != 0)
			poll(NULL, 0, 5);
		_exit(0);
	}
	enum lu_error error = LU_OK;
	for (int i = 0; !error && i < 10000; i++) {
		ok(pg, pg_command(pg, "BEGIN", SOON));
		ok(pg, pg_command(pg, "UPDATE keys_version SET version = version + 1", SOON));
		error = pg_commit(pg, SOON, &was_sent);
	}
	assert_int_equal(error, LU_DATABASE_UNAVAILABLE);
	assert_string_equal(pg_error(pg)->sqlstate, "01000");
	assert_true(was_sent);
	assert_null(pg_conn(pg));
	waitpid(child, NULL, 0);
	ask("ALTER SYSTEM RESET synchronous_standby_names");
	ask("SELECT pg_reload_conf()");
	pg_free(pg);
}

static void a_commit_that_is_not_answered_is_unknown(void **state)
{
	ask("CREATE FUNCTION public.wait() RETURNS trigger LANGUAGE plpgsql AS"
	    " $$BEGIN PERFORM pg_sleep(600); RETURN NULL; END$$;"
	    "CREATE CONSTRAINT TRIGGER waits AFTER INSERT ON lastunit.principal DEFERRABLE INITIALLY DEFERRED"
	    " FOR EACH ROW EXECUTE FUNCTION public.wait()");
	struct pg *pg = owner_session();
	bool was_sent = false;
	ok(pg, pg_command(pg, "BEGIN", SOON));
	ok(pg, pg_command(pg, "INSERT INTO principal (name, channel) VALUES ('a', 1)", SOON));
	assert_int_equal(pg_commit(pg, deadline_in_ms(30), &was_sent), LU_DATABASE_UNAVAILABLE);
	assert_true(was_sent);
	assert_int_equal(pg_error(pg)->class, PG_DEADLINE);
	assert_null(pg_conn(pg));
	/* The server knows nothing of our deadline: the session is still at it. */
	assert_int_equal(ask_int(
						 "SELECT count(pg_terminate_backend(pid, 30000)) FROM pg_stat_activity WHERE query = 'COMMIT'"),
	                 1);
	/* Killed while it commits: as unknown. */
	reconnect(pg);
	ok(pg, pg_command(pg, "BEGIN", SOON));
	ok(pg, pg_command(pg, "INSERT INTO principal (name, channel) VALUES ('b', 1)", SOON));
	char sql[160];
	snprintf(sql, sizeof sql,
	         "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %d AND query = 'COMMIT'"
	         " AND wait_event = 'PgSleep'",
	         backend_of(pg));
	pid_t child = fork();
	if (child == 0) {
		while (strcmp(ask(sql), "t") != 0)
			poll(NULL, 0, 5);
		_exit(0);
	}
	was_sent = false;
	assert_int_equal(pg_commit(pg, SOON, &was_sent), LU_DATABASE_UNAVAILABLE);
	assert_true(was_sent);
	assert_int_equal(pg_error(pg)->class, PG_CONNECTION);
	waitpid(child, NULL, 0);
	pg_free(pg);
}

static void rollback_ends_whatever_is_under_way(void **state)
{
	struct pg *pg = owner_session();
	pg_rollback(pg, SOON); /* nothing is */
	query_one(pg);
	pg_pipe_add(pg, &begin, NULL);
	add_text_statement(pg, &add_principal, "x");
	pg_rollback(pg, SOON); /* a pipeline that was not even sent */
	assert_int_equal(PQtransactionStatus(pg_conn(pg)), PQTRANS_IDLE);
	pg_pipe_add(pg, &begin, NULL);
	add_text_statement(pg, &add_principal, "x");
	sent(pg);
	pg_rollback(pg, SOON); /* one of which nothing was taken */
	assert_int_equal(PQtransactionStatus(pg_conn(pg)), PQTRANS_IDLE);
	pg_pipe_add(pg, &begin, NULL);
	pg_pipe_add(pg, &sleeps, NULL);
	sent(pg);
	pg_rollback(pg, deadline_in_ms(30)); /* one that does not end */
	assert_null(pg_conn(pg));
	assert_int_equal(ask_int("SELECT count(*) FROM lastunit.principal"), 0);
	pg_free(pg);
}

static const struct CMUnitTest tests[] = {
	STORE_TEST(a_pipeline_answers_in_order_and_prepares_once),
	STORE_TEST(an_error_in_the_third_of_ten_aborts_the_rest),
	STORE_TEST(a_statement_that_cannot_be_prepared_is_tried_again),
	STORE_TEST(what_was_not_taken_is_dropped_at_the_end),
	STORE_TEST(an_error_nobody_took_is_told_at_the_end),
	STORE_TEST(a_commit_that_fails_behind_the_answer_is_a_failure),
	STORE_TEST(errors_are_told_apart),
	STORE_TEST(only_a_clean_commit_is_a_success),
	STORE_TEST(a_cancelled_wait_for_a_standby_is_an_unknown_outcome),
	STORE_TEST(a_commit_that_is_not_answered_is_unknown),
	STORE_TEST(rollback_ends_whatever_is_under_way),
};

STORE_MAIN(tests)
