/* Connections: deadlines, pipelines that fail in the middle, COMMIT's outcome, sessions that are lost, poolers. */
#include "store/fixture.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct pg_statement begin = {"begin", "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"};
static const struct pg_statement one = {"select_one", "SELECT 1::bigint"};
static const struct pg_statement sleeps = {"sleeps", "SELECT 1::bigint FROM pg_sleep(600)"};
static const struct pg_statement wrong = {"wrong", "SELECT 1 / (random() * 0)::integer"};
static const struct pg_statement unknown_table = {"unknown_table", "SELECT * FROM no_such_table"};
static const struct pg_statement add_principal = {"add_principal",
                                                  "INSERT INTO principal (name, channel) VALUES ($1, 1)"};

static void take_one(struct pg *pg)
{
	PGresult *r;
	ok(pg, pg_pipe_take(pg, SOON, &r));
	assert_int_equal(pg_get_int(r, 0, 0), 1);
	PQclear(r);
}

static void query_one(struct pg *pg)
{
	PGresult *r;
	ok(pg, pg_query(pg, &one, NULL, SOON, &r));
	assert_int_equal(pg_get_int(r, 0, 0), 1);
	PQclear(r);
}

static void add_text_statement(struct pg *pg, const struct pg_statement *statement, const char *value)
{
	struct pg_params p;
	pg_params_init(&p, &arena);
	pg_add_text(&p, text_of(value));
	pg_pipe_add(pg, statement, &p);
}

static int backend_of(struct pg *pg)
{
	return PQbackendPID(pg_conn(pg));
}

/* Waits until the backend is gone, so that what follows meets a dead session and not a dying one. */
static void kill_backend(int pid)
{
	char sql[128];
	snprintf(sql, sizeof sql, "SELECT pg_terminate_backend(%d, 30000)", pid);
	assert_string_equal(ask(sql), "t");
}

/* Connecting again is allowed a moment after the last attempt; events, not time, decide when it worked. */
static void reconnect(struct pg *pg)
{
	int64_t deadline_ns = SOON;
	while (pg_connect(pg, deadline_ns)) {
		assert_true(deadline_left_ms(deadline_ns) > 0);
		poll(NULL, 0, 5);
	}
}

/* --- a proxy between us and the server --------------------------------------------------------------------------- */

struct proxy {
	pid_t pid;
	char directory[64];
	char url[200];
};

enum proxy_kind {
	PROXY_PLAIN,
	PROXY_SLOW,   /* small buffers, small bites: both sides' buffers fill */
	PROXY_POOLER, /* another backend pid in BackendKeyData, as a pooler shows it */
};

static bool move_bytes(int from, int to, enum proxy_kind kind, bool answers)
{
	static char bytes[65536];
	ssize_t n = read(from, bytes, kind == PROXY_SLOW ? 1000 : sizeof bytes);
	if (n <= 0)
		return false;
	/* 'K', length 12, the pid, the secret. It comes in one piece on a unix socket, if anywhere. */
	for (ssize_t i = 0; kind == PROXY_POOLER && answers && i + 9 <= n; i++)
		if (memcmp(bytes + i, "K\0\0\0\x0c", 5) == 0)
			bytes[i + 8] ^= 1;
	for (ssize_t done = 0, m; done < n; done += m)
		if ((m = write(to, bytes + done, (size_t)(n - done))) <= 0)
			return false;
	return true;
}

/* One connection after the other, one process: blocking writes are what makes it a bad neighbour. */
static _Noreturn void proxy_main(int listener, const char *path, enum proxy_kind kind)
{
	signal(SIGPIPE, SIG_IGN);
	for (;;) {
		struct sockaddr_un address = {.sun_family = AF_UNIX};
		snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
		int client = accept(listener, NULL, NULL), upstream = socket(AF_UNIX, SOCK_STREAM, 0), small = 4096;
		if (kind == PROXY_SLOW) {
			setsockopt(client, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
			setsockopt(client, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
		}
		if (client < 0 || connect(upstream, (struct sockaddr *)&address, sizeof address) < 0)
			_exit(1);
		struct pollfd fds[2] = {{.fd = client, .events = POLLIN}, {.fd = upstream, .events = POLLIN}};
		for (bool open = true; open;) {
			if (poll(fds, 2, -1) < 0)
				break;
			if (fds[1].revents)
				open = move_bytes(upstream, client, kind, true);
			else if (fds[0].revents)
				open = move_bytes(client, upstream, kind, false);
		}
		close(client);
		close(upstream);
	}
}

static void proxy_start(struct proxy *proxy, enum proxy_kind kind)
{
	char upstream[96];
	snprintf(upstream, sizeof upstream, "%s/.s.PGSQL.5432", server.directory);
	strcpy(proxy->directory, "/tmp/lu-proxy-XXXXXX");
	assert_non_null(mkdtemp(proxy->directory));
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	snprintf(address.sun_path, sizeof address.sun_path, "%s/.s.PGSQL.5432", proxy->directory);
	int listener = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
	assert_int_equal(listen(listener, 16), 0);
	snprintf(proxy->url, sizeof proxy->url, "host=%s %s", proxy->directory, strchr(url, ' ') + 1);
	pid_t parent = getpid();
	proxy->pid = fork();
	if (proxy->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		proxy_main(listener, upstream, kind);
	}
	close(listener);
}

static void proxy_stop(struct proxy *proxy)
{
	char path[96];
	kill(proxy->pid, SIGKILL);
	waitpid(proxy->pid, NULL, 0);
	snprintf(path, sizeof path, "%s/.s.PGSQL.5432", proxy->directory);
	unlink(path);
	rmdir(proxy->directory);
}

/* --- connecting --------------------------------------------------------------------------------------------------- */

static void a_session_has_the_settings_the_promises_need(void **state)
{
	static const struct pg_statement ask_all = {
		"ask_all",
		"SELECT concat_ws(' ', current_setting('synchronous_commit'), current_setting('plan_cache_mode'),"
		" current_setting('enable_seqscan'), current_setting('search_path'), current_setting('lock_timeout'),"
		" current_setting('statement_timeout'), current_setting('idle_in_transaction_session_timeout'),"
		" current_setting('transaction_read_only'), current_setting('transaction_isolation'),"
		" current_setting('transaction_deferrable'), current_setting('application_name'), current_user)",
	};
	ask("ALTER DATABASE test_1 SET synchronous_commit = off");
	ask("ALTER DATABASE test_1 SET default_transaction_isolation = serializable");
	ask("ALTER DATABASE test_1 SET default_transaction_deferrable = on");
	ask("ALTER DATABASE test_1 SET default_transaction_read_only = on");
	struct pg *pg = pg_new(&(struct pg_options){.url = url,
	                                            .role = "lastunit_service",
	                                            .application_name = "it's",
	                                            .lock_timeout_ms = 100,
	                                            .statement_timeout_ms = 2000,
	                                            .idle_in_transaction_timeout_ms = 3000});
	ok(pg, pg_connect(pg, SOON));
	PGresult *r;
	ok(pg, pg_query(pg, &ask_all, NULL, SOON, &r));
	assert_text(pg_get_text(r, 0, 0, &arena),
	            "on force_generic_plan off lastunit 100ms 2s 3s off read committed off it's lastunit_service");
	PQclear(r);
	pg_free(pg);
}

static void what_cannot_be_connected_says_why(void **state)
{
	struct {
		const char *url, *role, *says;
	} cases[] = {
		{"host=/nonexistent dbname=postgres", NULL, "No such file"},
		{"what is=this", NULL, "what"},
		{url, "no_such_role", "no_such_role"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct pg *pg = pg_new(&(struct pg_options){.url = cases[i].url, .role = cases[i].role});
		assert_int_equal(pg_connect(pg, SOON), LU_DATABASE_UNAVAILABLE);
		assert_int_equal(pg_error(pg)->class, PG_CONNECTION);
		assert_non_null(strstr(pg_error(pg)->message, cases[i].says));
		assert_false(pg_connected(pg));
		/* The second attempt comes too soon: it fails without trying, for the same reason. */
		assert_int_equal(pg_connect(pg, SOON), LU_DATABASE_UNAVAILABLE);
		assert_non_null(strstr(pg_error(pg)->message, cases[i].says));
		pg_free(pg);
	}
}

static void only_what_waiting_does_not_mend_is_a_refusal(void **state)
{
	struct {
		const char *parameters, *sqlstate, *says;
	} cases[] = {
		{"user=nobody_known", "28000", "FATAL:  role \"nobody_known\" does not exist"},
		{"dbname=no_such_database", "3D000", "FATAL:  database \"no_such_database\" does not exist"},
	};
	char to[300];
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		snprintf(to, sizeof to, "%s %s", url, cases[i].parameters);
		struct pg *pg = pg_new(&(struct pg_options){.url = to});
		assert_int_equal(pg_connect(pg, SOON), LU_DATABASE_UNAVAILABLE);
		assert_true(pg_refused(pg));
		assert_string_equal(pg_error(pg)->sqlstate, cases[i].sqlstate);
		assert_non_null(strstr(pg_error(pg)->message, cases[i].says));
		pg_free(pg);
	}
	/* A host that is not there may come; and what comes after a refusal is not one. */
	snprintf(to, sizeof to, "%s dbname=no_such_database host=%s,/nonexistent", url, server.directory);
	struct pg *pg = pg_new(&(struct pg_options){.url = to});
	assert_int_equal(pg_connect(pg, SOON), LU_DATABASE_UNAVAILABLE);
	assert_false(pg_refused(pg));
	pg_free(pg);
}

/* Between two attempts a host that refused becomes one that says nothing. */
static void a_deadline_carries_what_was_told_before(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char directory[] = "/tmp/lu-mute-XXXXXX", to[100];
	assert_non_null(mkdtemp(directory));
	snprintf(address.sun_path, sizeof address.sun_path, "%s/.s.PGSQL.5432", directory);
	snprintf(to, sizeof to, "host=%s", directory);
	struct pg *pg = pg_new(&(struct pg_options){.url = to});
	assert_int_equal(pg_connect(pg, SOON), LU_DATABASE_UNAVAILABLE);
	assert_int_equal(pg_error(pg)->class, PG_CONNECTION);
	int mute = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(mute, (struct sockaddr *)&address, sizeof address), 0);
	assert_int_equal(listen(mute, 4), 0);
	for (int64_t deadline_ns = SOON; pg_error(pg)->class != PG_DEADLINE;) { /* the next attempt has to be due */
		assert_true(deadline_left_ms(deadline_ns) > 0);
		assert_int_equal(pg_connect(pg, deadline_in_ms(50)), LU_DATABASE_UNAVAILABLE);
		poll(NULL, 0, 5);
	}
	assert_non_null(strstr(pg_error(pg)->message, "before the deadline; before that: "));
	assert_non_null(strstr(pg_error(pg)->message, "No such file"));
	pg_free(pg);
	close(mute);
	unlink(address.sun_path);
	rmdir(directory);
}

static void a_host_that_does_not_answer_leaves_time_for_the_next(void **state)
{
	/* A listening socket that nobody accepts from: the connection stands, the answer never comes. */
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char directory[] = "/tmp/lu-mute-XXXXXX", both[400];
	assert_non_null(mkdtemp(directory));
	snprintf(address.sun_path, sizeof address.sun_path, "%s/.s.PGSQL.5432", directory);
	int mute = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(mute, (struct sockaddr *)&address, sizeof address), 0);
	assert_int_equal(listen(mute, 4), 0);
	snprintf(both, sizeof both, "host=/nonexistent,%s,%s %s", directory, server.directory, strchr(url, ' ') + 1);
	struct pg *pg = pg_new(&(struct pg_options){.url = both});
	ok(pg, pg_connect(pg, deadline_in_ms(5000)));
	query_one(pg);
	pg_free(pg);
	/* Alone, it costs the deadline and not more. */
	snprintf(both, sizeof both, "host=%s %s", directory, strchr(url, ' ') + 1);
	pg = pg_new(&(struct pg_options){.url = both});
	assert_int_equal(pg_connect(pg, deadline_in_ms(50)), LU_DATABASE_UNAVAILABLE);
	assert_int_equal(pg_error(pg)->class, PG_DEADLINE);
	pg_free(pg);
	close(mute);
	unlink(address.sun_path);
	rmdir(directory);
}

static void a_pooler_between_is_refused(void **state)
{
	struct proxy plain, pooler;
	proxy_start(&plain, PROXY_PLAIN);
	proxy_start(&pooler, PROXY_POOLER);
	struct pg *pg = pg_new(&(struct pg_options){.url = plain.url});
	ok(pg, pg_connect(pg, SOON)); /* the test's proxy as such is no obstacle */
	pg_free(pg);
	pg = pg_new(&(struct pg_options){.url = pooler.url});
	assert_int_equal(pg_connect(pg, SOON), LU_DATABASE_UNAVAILABLE);
	assert_non_null(strstr(pg_error(pg)->message, "pooler"));
	assert_null(pg_conn(pg));
	pg_free(pg);
	proxy_stop(&plain);
	proxy_stop(&pooler);
}

static void a_standby_is_refused_until_it_is_promoted(void **state)
{
	char path[128];
	pg_server_stop(&server, PG_SERVER_FAST);
	snprintf(path, sizeof path, "%s/data/standby.signal", server.directory);
	FILE *signal_file = fopen(path, "w");
	assert_non_null(signal_file);
	fclose(signal_file);
	assert_int_equal(chmod(path, 0666), 0);
	pg_server_restart(&server, PG_SERVER_FAST);
	struct pg *pg = pg_new(&(struct pg_options){.url = url});
	assert_int_equal(pg_connect(pg, SOON), LU_DATABASE_UNAVAILABLE);
	assert_int_equal(pg_error(pg)->class, PG_CONNECTION);
	assert_non_null(strstr(pg_error(pg)->message, "standby"));
	assert_string_equal(ask("SELECT pg_promote()"), "t");
	reconnect(pg);
	query_one(pg);
	pg_free(pg);
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

static void five_thousand_statements_through_a_slow_line(struct pg *pg)
{
	static const struct pg_statement echo = {"echo_text", "SELECT $1, repeat('b', 1000)"};
	static char kilobyte[1024];
	memset(kilobyte, 'a', sizeof kilobyte);
	for (int i = 0; i < 5000; i++) {
		struct pg_params p;
		pg_params_init(&p, &arena);
		pg_add_text(&p, (struct text){kilobyte, sizeof kilobyte});
		pg_pipe_add(pg, &echo, &p);
	}
	sent(pg);
	for (int i = 0; i < 5000; i++) {
		PGresult *r;
		ok(pg, pg_pipe_take(pg, SOON, &r));
		assert_int_equal(PQgetlength(r, 0, 0), sizeof kilobyte);
		PQclear(r);
	}
	ended(pg);
}

static void full_buffers_on_both_sides_stall_nobody(void **state)
{
	static const struct pg_statement megabyte = {"megabyte", "SELECT repeat('x', 1048576) FROM generate_series(1, 3)"};
	struct proxy proxy;
	proxy_start(&proxy, PROXY_SLOW);
	struct pg *pg = pg_new(&(struct pg_options){.url = proxy.url});
	ok(pg, pg_connect(pg, SOON));
	five_thousand_statements_through_a_slow_line(pg);
	PGresult *r;
	ok(pg, pg_query(pg, &megabyte, NULL, SOON, &r));
	assert_int_equal(PQntuples(r), 3);
	assert_int_equal(PQgetlength(r, 2, 0), 1048576);
	PQclear(r);
	query_one(pg);
	pg_free(pg);
	proxy_stop(&proxy);
	pg = session();
	five_thousand_statements_through_a_slow_line(pg);
	pg_free(pg);
}

/* --- deadlines ---------------------------------------------------------------------------------------------------- */

static void a_passed_deadline_leaves_the_connection_closed(void **state)
{
	struct pg *pg = session();
	PGresult *r;
	assert_int_equal(pg_query(pg, &sleeps, NULL, deadline_in_ms(30), &r), LU_DATABASE_UNAVAILABLE);
	assert_int_equal(pg_error(pg)->class, PG_DEADLINE);
	assert_false(pg_connected(pg));
	assert_null(pg_conn(pg));
	/* Closed means closed, for everything. */
	assert_int_equal(pg_query(pg, &one, NULL, SOON, &r), LU_DATABASE_UNAVAILABLE);
	assert_int_equal(pg_error(pg)->class, PG_CONNECTION);
	assert_int_equal(pg_command(pg, "SELECT 1", SOON), LU_DATABASE_UNAVAILABLE);
	bool was_sent = true;
	assert_int_equal(pg_commit(pg, SOON, &was_sent), LU_DATABASE_UNAVAILABLE);
	assert_false(was_sent);
	pg_rollback(pg, SOON);
	reconnect(pg);
	query_one(pg);
	assert_int_equal(pg_command(pg, "SELECT pg_sleep(600)", deadline_in_ms(30)), LU_DATABASE_UNAVAILABLE);
	assert_int_equal(pg_error(pg)->class, PG_DEADLINE);
	pg_free(pg);
}

static void a_deadline_in_the_middle_of_a_result_closes_too(void **state)
{
	/* Rows come at once, then never again. */
	static const struct pg_statement stuck =
		{"stuck",
	     "SELECT repeat('x', 100000) FROM generate_series(1, 100) n WHERE CASE WHEN n > 50"
	     " THEN pg_sleep(600) IS NOT NULL ELSE true END"};
	struct pg *pg = session();
	PGresult *r;
	pg_pipe_add(pg, &one, NULL);
	pg_pipe_add(pg, &stuck, NULL);
	pg_pipe_add(pg, &one, NULL);
	sent(pg);
	take_one(pg);
	assert_int_equal(pg_pipe_take(pg, deadline_in_ms(100), &r), LU_DATABASE_UNAVAILABLE);
	assert_int_equal(pg_error(pg)->class, PG_DEADLINE);
	assert_null(pg_conn(pg));
	assert_int_equal(pg_pipe_take(pg, SOON, &r), LU_DATABASE_UNAVAILABLE);
	assert_int_equal(pg_error(pg)->class, PG_DEADLINE);
	assert_int_equal(pg_pipe_end(pg, SOON), LU_DATABASE_UNAVAILABLE);
	reconnect(pg);
	query_one(pg);
	pg_free(pg);
}

/* --- sessions that end -------------------------------------------------------------------------------------------- */

static void a_killed_backend_is_a_lost_connection(void **state)
{
	struct pg *pg = session();
	PGresult *r;
	kill_backend(backend_of(pg));
	assert_int_equal(pg_query(pg, &one, NULL, SOON, &r), LU_DATABASE_UNAVAILABLE);
	assert_int_equal(pg_error(pg)->class, PG_CONNECTION);
	assert_null(pg_conn(pg));
	reconnect(pg);
	/* With a pipeline under way, and nothing taken yet. */
	pg_pipe_add(pg, &one, NULL);
	pg_pipe_add(pg, &sleeps, NULL);
	pg_pipe_add(pg, &one, NULL);
	sent(pg);
	kill_backend(backend_of(pg));
	take_one(pg);
	assert_int_equal(pg_pipe_take(pg, SOON, &r), LU_DATABASE_UNAVAILABLE);
	assert_int_equal(pg_error(pg)->class, PG_CONNECTION);
	assert_string_equal(pg_error(pg)->sqlstate, "57P01");
	assert_int_equal(pg_pipe_end(pg, SOON), LU_DATABASE_UNAVAILABLE);
	assert_null(pg_conn(pg));
	reconnect(pg);
	query_one(pg);
	pg_free(pg);
}

static void a_restarted_server_is_found_again(void **state)
{
	struct pg *pg = session();
	query_one(pg);
	pg_server_restart(&server, PG_SERVER_IMMEDIATE);
	PGresult *r;
	assert_int_equal(pg_query(pg, &one, NULL, SOON, &r), LU_DATABASE_UNAVAILABLE);
	assert_int_equal(pg_error(pg)->class, PG_CONNECTION);
	reconnect(pg);
	query_one(pg);
	pg_free(pg);
}

static void an_idle_transaction_that_is_timed_out_is_a_lost_connection(void **state)
{
	struct pg *pg = pg_new(&(struct pg_options){.url = url, .idle_in_transaction_timeout_ms = 20});
	ok(pg, pg_connect(pg, SOON));
	int pid = backend_of(pg);
	ok(pg, pg_command(pg, "BEGIN", SOON));
	char sql[128];
	snprintf(sql, sizeof sql, "SELECT count(*) FROM pg_stat_activity WHERE pid = %d", pid);
	while (ask_int(sql) > 0)
		poll(NULL, 0, 5);
	assert_int_equal(pg_command(pg, "SELECT 1", SOON), LU_DATABASE_UNAVAILABLE);
	assert_int_equal(pg_error(pg)->class, PG_CONNECTION);
	pg_rollback(pg, SOON);
	assert_null(pg_conn(pg));
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
	STORE_TEST(a_session_has_the_settings_the_promises_need),
	STORE_TEST(what_cannot_be_connected_says_why),
	STORE_TEST(only_what_waiting_does_not_mend_is_a_refusal),
	STORE_TEST(a_deadline_carries_what_was_told_before),
	STORE_TEST(a_host_that_does_not_answer_leaves_time_for_the_next),
	STORE_TEST(a_pooler_between_is_refused),
	STORE_TEST(a_standby_is_refused_until_it_is_promoted),
	STORE_TEST(a_pipeline_answers_in_order_and_prepares_once),
	STORE_TEST(an_error_in_the_third_of_ten_aborts_the_rest),
	STORE_TEST(a_statement_that_cannot_be_prepared_is_tried_again),
	STORE_TEST(what_was_not_taken_is_dropped_at_the_end),
	STORE_TEST(an_error_nobody_took_is_told_at_the_end),
	STORE_TEST(a_commit_that_fails_behind_the_answer_is_a_failure),
	STORE_TEST(full_buffers_on_both_sides_stall_nobody),
	STORE_TEST(a_passed_deadline_leaves_the_connection_closed),
	STORE_TEST(a_deadline_in_the_middle_of_a_result_closes_too),
	STORE_TEST(a_killed_backend_is_a_lost_connection),
	STORE_TEST(a_restarted_server_is_found_again),
	STORE_TEST(an_idle_transaction_that_is_timed_out_is_a_lost_connection),
	STORE_TEST(errors_are_told_apart),
	STORE_TEST(only_a_clean_commit_is_a_success),
	STORE_TEST(a_cancelled_wait_for_a_standby_is_an_unknown_outcome),
	STORE_TEST(a_commit_that_is_not_answered_is_unknown),
	STORE_TEST(rollback_ends_whatever_is_under_way),
};

STORE_MAIN(tests)
