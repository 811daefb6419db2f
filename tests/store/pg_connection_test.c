/* Connections: who is connected to and who is refused, deadlines, a slow line, sessions that are lost. */
#include "store/pg_fixture.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "store/session.h"

/* Waits until the backend is gone, so that what follows meets a dead session and not a dying one. */
static void kill_backend(int pid)
{
	char sql[128];
	snprintf(sql, sizeof sql, "SELECT pg_terminate_backend(%d, 30000)", pid);
	assert_string_equal(ask(sql), "t");
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
	/* Yet it is what the server said that is told, not that a host behind it is away. */
	assert_string_equal(pg_error(pg)->sqlstate, "3D000");
	assert_non_null(strstr(pg_error(pg)->message, "no_such_database"));
	pg_free(pg);
}

static void who_is_refused_a_session_for_long_is_named_until_it_is_had(void **state)
{
	char to[300], parts[SESSION_PARTS_BYTES], why[SESSION_WHY_BYTES];
	snprintf(to, sizeof to, "%s user=nobody_known", url);
	struct pg *pg = pg_new(&(struct pg_options){.url = to, .application_name = "lastunit tester"});
	int64_t since_ns = clock_boottime_ns();
	do {
		assert_int_equal(pg_connect(pg, SOON), LU_DATABASE_UNAVAILABLE);
		if (session_refusals(parts, why))
			break;
		poll(NULL, 0, 10);
	} while (clock_boottime_ns() - since_ns < 20 * NS_PER_S);
	assert_true(clock_boottime_ns() - since_ns >= SESSION_REFUSED_MS * NS_PER_MS);
	assert_string_equal(parts, "tester");
	assert_non_null(strstr(why, "nobody_known"));
	pg_free(pg); /* no longer wanted */
	assert_false(session_refusals(parts, why));
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

/* --- a slow line -------------------------------------------------------------------------------------------------- */

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

static const struct CMUnitTest tests[] = {
	STORE_TEST(a_session_has_the_settings_the_promises_need),
	STORE_TEST(what_cannot_be_connected_says_why),
	STORE_TEST(only_what_waiting_does_not_mend_is_a_refusal),
	STORE_TEST(who_is_refused_a_session_for_long_is_named_until_it_is_had),
	STORE_TEST(a_deadline_carries_what_was_told_before),
	STORE_TEST(a_host_that_does_not_answer_leaves_time_for_the_next),
	STORE_TEST(a_pooler_between_is_refused),
	STORE_TEST(a_standby_is_refused_until_it_is_promoted),
	STORE_TEST(full_buffers_on_both_sides_stall_nobody),
	STORE_TEST(a_passed_deadline_leaves_the_connection_closed),
	STORE_TEST(a_deadline_in_the_middle_of_a_result_closes_too),
	STORE_TEST(a_killed_backend_is_a_lost_connection),
	STORE_TEST(a_restarted_server_is_found_again),
	STORE_TEST(an_idle_transaction_that_is_timed_out_is_a_lost_connection),
};

STORE_MAIN(tests)
