/* `lastunit race`: the controls fail, the strategies hold, and nothing is left of it.
 *
 * Bugs it guards against: a demonstration that needs luck, so that a control passes on a slow machine; a strategy that is
 * called right because nobody counted; a user's database that keeps a schema, a database, a role, a session or a lock of
 * ours; a race that asks for more rights than it says.
 *
 * What must fail is asked of the timeline, which is played by events. Under load a control fails sooner or later: it is
 * raced until it does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/command.h"
#include "lib/pg_server.h"
#include "lib/service.h"

#define TRIES 40
#define WAITS 3000 /* of 10 ms */

static struct pg_server pg;
static char database[300];
static char html[] = "/tmp/race-command-XXXXXX/race.html"; /* of a race that is never over: it is never written */
static const char *variables[] = {database, NULL};

#define RACE(...) command_run((const char *[]){"race", __VA_ARGS__, NULL}, variables)

static json_t *document(const struct command *command)
{
	json_error_t error;
	json_t *json = json_loads(command->out, 0, &error);
	if (!json)
		fail_msg("no JSON: %s\n%s%s", error.text, command->out, command->err);
	return json;
}

static const char *text_at(json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text ? text : "";
}

static int64_t number_at(json_t *object, const char *key)
{
	json_t *number = json_object_get(object, key);
	assert_true(json_is_number(number));
	return json_is_integer(number) ? json_integer_value(number) : (int64_t)json_real_value(number);
}

static bool is_control(const char *strategy)
{
	return strcmp(strategy, "naive") == 0 || strcmp(strategy, "lost-update") == 0 ||
	       strcmp(strategy, "process-mutex") == 0 || strcmp(strategy, "unordered") == 0;
}

/* Schemas, databases and roles of ours, whoever made them. */
static const char *leftovers(void)
{
	return pg_server_ask(pg.url,
	                     "SELECT (SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'lastunit%')"
	                     " + (SELECT count(*) FROM pg_database WHERE datname LIKE 'lastunit%')"
	                     " + (SELECT count(*) FROM pg_roles WHERE rolname LIKE 'lastunit%')");
}

/* --- the timeline ------------------------------------------------------------------------------------------------- */

static void assert_timeline(json_t *timeline)
{
	const char *strategy = text_at(timeline, "strategy");
	bool holds = json_is_true(json_object_get(timeline, "holds"));
	if (holds == is_control(strategy))
		fail_msg("%s %s in the timeline: %s", strategy, holds ? "holds" : "fails", json_dumps(timeline, 0));
	json_t *steps = json_object_get(timeline, "steps");
	static const int at_ms[] = {0, 40, 180, 220, 310, 350};
	assert_int_equal(json_array_size(steps), 6);
	for (size_t i = 0; i < 6; i++) {
		assert_int_equal(number_at(json_array_get(steps, i), "at_ms"), at_ms[i]);
		assert_true(*text_at(json_array_get(steps, i), "said") != '\0');
	}
	if (strcmp(strategy, "unordered") != 0)
		assert_int_equal(number_at(timeline, "sold"), holds ? 1 : 2);
	/* each fails in the way that it is known for */
	if (strcmp(strategy, "naive") == 0)
		assert_int_equal(number_at(timeline, "on_hand"), -1);
	if (strcmp(strategy, "lost-update") == 0 || strcmp(strategy, "process-mutex") == 0) {
		assert_int_equal(number_at(timeline, "on_hand"), 0);
		assert_int_equal(number_at(timeline, "lost"), 1);
	}
	/* Whoever was the victim begins again, and on a busy machine may be one again. */
	if (strcmp(strategy, "unordered") == 0)
		assert_true(number_at(timeline, "deadlocks") >= 1);
	else
		assert_int_equal(number_at(timeline, "deadlocks"), 0);
}

static void assert_result(json_t *row)
{
	const char *strategy = text_at(row, "strategy");
	if (!is_control(strategy) && (number_at(row, "oversold") || number_at(row, "lost") || number_at(row, "deadlocks") ||
	                              !number_at(row, "sold")))
		fail_msg("%s does not hold: %s", strategy, json_dumps(row, 0));
	assert_true(*text_at(row, "workload") != '\0');
	assert_true(number_at(row, "buyers") == 1 || number_at(row, "buyers") == 4);
	assert_true(number_at(row, "refused") >= 0 && number_at(row, "retries") >= 0);
	if (number_at(row, "sold"))
		assert_true(json_real_value(json_object_get(row, "p50_ms")) > 0 &&
		            json_real_value(json_object_get(row, "p99_ms")) >=
		                json_real_value(json_object_get(row, "p50_ms")) &&
		            json_real_value(json_object_get(row, "sales_per_s")) > 0);
}

/* Two buyers and one unit, then everything at two numbers of buyers. */
static void the_controls_fail_the_strategies_hold_and_nothing_is_left(void **state)
{
	assert_string_equal(leftovers(), "0");
	struct command command = RACE("--json", "--no-caches", "--buyers", "4", "--run-ms", "60");
	if (command.exit_code != 0)
		fail_msg("exit code %d\n%s%s", command.exit_code, command.out, command.err);
	json_t *json = document(&command), *item;
	size_t i;
	json_array_foreach(json_object_get(json, "timelines"), i, item) assert_timeline(item);
	assert_int_equal(i, 11); /* seven that hold, four controls */
	json_array_foreach(json_object_get(json, "strategies"), i, item) assert_result(item);
	assert_int_equal(i, 2 * (10 + 10 + 11 + 6)); /* hot, 100 SKUs, carts, one for each customer */
	json_decref(json);
	command_done(&command);
	assert_string_equal(leftovers(), "0");
	assert_string_equal(pg_server_ask(pg.url, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), "0");
}

/* --- the load ----------------------------------------------------------------------------------------------------- */

/* Raced until it oversells, loses or deadlocks. */
static void fails_under_load(const char *strategy, const char *workload, const char *how)
{
	int64_t found = 0;
	for (int i = 0; i < TRIES && !found; i++) {
		char seed[12];
		snprintf(seed, sizeof seed, "%d", i);
		struct command command = RACE("--json", "--no-caches", "--no-timeline", "--buyers", "8", "--run-ms", "150",
		                              "--strategy", strategy, "--workload", workload, "--seed", seed);
		assert_int_equal(command.exit_code, 0); /* it is there to fail */
		json_t *json = document(&command), *row;
		size_t n;
		json_array_foreach(json_object_get(json, "strategies"), n, row) found += number_at(row, how);
		assert_int_equal(n, 2);
		json_decref(json);
		command_done(&command);
	}
	if (!found)
		fail_msg("%s has not %s in %d races of %s", strategy, how, TRIES, workload);
}

static void the_controls_fail_under_load_each_in_its_own_way(void **state)
{
	fails_under_load("naive", "carts", "oversold");
	fails_under_load("naive", "once", "oversold");
	fails_under_load("lost-update", "hot", "lost");
	fails_under_load("process-mutex", "hot", "lost");
}

/* --- ends --------------------------------------------------------------------------------------------------------- */

/* races: that are at work then, this one included. */
static struct command start_long_race(int races)
{
	struct command command = command_start((const char *[]){"race", "--no-caches", "--no-timeline", "--buyers", "4",
	                                                        "--run-ms", "60000", "--strategy", "lastunit", "--workload",
	                                                        "hot", "--html", html, NULL},
	                                       variables);
	/* The scratch database is there, and the child at work on it. */
	char databases[12];
	snprintf(databases, sizeof databases, "%d", races);
	const char *at_work =
		"SELECT count(*) FROM (SELECT FROM pg_stat_activity WHERE datname LIKE 'lastunit_race_%'"
		" GROUP BY datname HAVING count(*) > 4) busy";
	for (int i = 0; i < WAITS && strcmp(pg_server_ask(pg.url, at_work), databases) != 0; i++)
		usleep(10000);
	assert_string_equal(pg_server_ask(pg.url, at_work), databases);
	return command;
}

static void a_signal_ends_it_and_nothing_is_left(void **state)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
		char sentence[40];
		struct command command = start_long_race(1);
		kill(command.pid, signals[i]);
		command_wait(&command);
		assert_int_equal(command.exit_code, 1);
		snprintf(sentence, sizeof sentence, "stopped by signal %d", signals[i]);
		assert_non_null(strstr(command.err, sentence));
		assert_string_equal(command.out, "");
		command_done(&command);
		assert_string_equal(leftovers(), "0");
		assert_int_equal(access(html, F_OK), -1);
	}
}

/* The session that made everything is lost, and does not know it yet when it is to drop everything. */
static void after_a_restart_of_postgresql_nothing_is_left(void **state)
{
	struct command command = start_long_race(1);
	pg_server_restart(&pg, PG_SERVER_FAST);
	kill(command.pid, SIGINT); /* ours may have outlived it, and would go on */
	command_wait(&command);
	if ((command.exit_code != 3 && command.exit_code != 1) || strstr(command.err, " left: "))
		fail_msg("exit code %d\n%s%s", command.exit_code, command.out, command.err);
	command_done(&command);
	assert_string_equal(leftovers(), "0");
}

static void the_last_of_two_races_drops_the_role_that_the_first_made(void **state)
{
	struct command first = start_long_race(1), second = start_long_race(2);
	kill(first.pid, SIGINT);
	command_wait(&first);
	assert_null(strstr(first.err, " left: "));
	assert_string_equal(pg_server_ask(pg.url, "SELECT count(*) FROM pg_roles WHERE rolname = 'lastunit_service'"), "1");
	kill(second.pid, SIGINT);
	command_wait(&second);
	assert_string_equal(leftovers(), "0");
	/* Somebody else's, who has no database yet, is not theirs. */
	pg_server_ask(pg.url, "CREATE ROLE lastunit_service NOLOGIN");
	struct command third = start_long_race(1);
	kill(third.pid, SIGINT);
	command_wait(&third);
	assert_string_equal(leftovers(), "1");
	pg_server_ask(pg.url, "DROP ROLE lastunit_service");
	command_done(&first);
	command_done(&second);
	command_done(&third);
}

static void what_a_killed_race_has_left_is_named_by_the_next(void **state)
{
	struct command command = start_long_race(1);
	char sql[200];
	kill(command.pid, SIGKILL);
	command_wait(&command);
	command_done(&command);
	/* the kernel ends its child, and PostgreSQL the sessions of both */
	for (int i = 0; i < WAITS && strcmp(pg_server_ask(pg.url,
	                                                  "SELECT count(*) FROM pg_stat_activity WHERE"
	                                                  " pid <> pg_backend_pid() AND datname IS NOT NULL"),
	                                    "0") != 0;
	     i++)
		usleep(10000);
	snprintf(sql, sizeof sql, "%s",
	         pg_server_ask(pg.url,
	                       "SELECT 'DROP SCHEMA ' || nspname || ' CASCADE; DROP DATABASE ' || nspname || ';'"
	                       " FROM pg_namespace WHERE nspname LIKE 'lastunit_race_%'"));
	assert_true(*sql != '\0');
	/* One that runs beside it is not called dead. */
	struct command beside = start_long_race(1);
	struct command next = RACE("--no-caches", "--buyers", "1", "--run-ms", "10", "--strategy", "atomic", "--workload",
	                           "hot");
	kill(beside.pid, SIGTERM);
	command_wait(&beside);
	command_done(&beside);
	assert_int_equal(next.exit_code, 0);
	char line[300];
	snprintf(line, sizeof line, "\nleft by a race that was killed: %s\n", sql);
	if (!strstr(next.out, line))
		fail_msg("no \"%s\" in\n%s", line, next.out);
	command_done(&next);
	char *second = strstr(sql, "DROP DATABASE");
	second[-1] = '\0';
	pg_server_ask(pg.url, sql);
	pg_server_ask(pg.url, second);
	pg_server_ask(pg.url, "DROP ROLE lastunit_service");
	assert_string_equal(leftovers(), "0");
}

static void a_result_that_nobody_got_is_a_failure(void **state)
{
	const char *arguments[] = {"race",       "--no-caches", "--no-timeline", "--buyers", "1",      "--run-ms", "10",
	                           "--strategy", "atomic",      "--workload",    "hot",      "--json", NULL};
	for (int i = 0; i < 2; i++) {
		struct command command = command_run_into("/dev/full", arguments, variables);
		assert_int_equal(command.exit_code, 1);
		assert_string_equal(command.err, "lastunit race: not all could be written to standard output\n");
		command_done(&command);
		arguments[11] = NULL; /* tables, then */
	}
	assert_string_equal(leftovers(), "0");
}

/* --- rights ------------------------------------------------------------------------------------------------------- */

static void who_may_not_create_databases_races_the_textbook_alone_and_is_told(void **state)
{
	char poor[300];
	pg_server_ask(pg.url, "CREATE ROLE poor LOGIN; GRANT CREATE ON DATABASE postgres TO poor");
	snprintf(poor, sizeof poor, "%s user=poor", pg.url);
	struct command command = RACE("--database-url", poor, "--no-caches", "--no-timeline", "--buyers", "2", "--run-ms",
	                              "10", "--workload", "carts");
	assert_int_equal(command.exit_code, 0);
	assert_non_null(strstr(command.out, "\nlastunit does not take part: cannot create a scratch database"));
	assert_non_null(strstr(command.out, "permission denied to create database"));
	assert_non_null(strstr(command.out, "\n  pessimistic "));
	assert_null(strstr(command.out, "\n  lastunit "));
	command_done(&command);
	assert_string_equal(leftovers(), "0");
	command = RACE("--database-url", poor, "--no-caches", "--no-timeline", "--strategy", "lastunit");
	assert_int_equal(command.exit_code, 3); /* nothing else was asked for */
	assert_non_null(strstr(command.err, "permission denied to create database"));
	assert_string_equal(command.out, "");
	command_done(&command);
	pg_server_ask(pg.url, "REVOKE CREATE ON DATABASE postgres FROM poor");
	command = RACE("--database-url", poor);
	assert_int_equal(command.exit_code, 3);
	assert_non_null(strstr(command.err, "cannot create a scratch schema: permission denied"));
	command_done(&command);
	pg_server_ask(pg.url, "DROP ROLE poor");
}

/* --- a service that runs ------------------------------------------------------------------------------------------ */

static void a_service_that_runs_is_raced_on_skus_that_keep_no_stock(void **state)
{
	struct service service;
	service_start(&service, NULL);
	service_create_sku(&service, "A", 7);
	struct command command = RACE("--json", "--no-caches", "--buyers", "4", "--run-ms", "100", "--strategy", "lastunit",
	                              "--url", service.url, "--key", service.key_admin);
	if (command.exit_code != 0)
		fail_msg("exit code %d\n%s%s", command.exit_code, command.out, command.err);
	json_t *json = document(&command), *row;
	size_t n;
	json_array_foreach(json_object_get(json, "strategies"), n, row) assert_result(row);
	assert_int_equal(n, 2 * 4);
	json_decref(json);
	command_done(&command);
	assert_string_equal(pg_server_ask(service.database_url,
	                                  "SELECT sum(on_hand) FROM lastunit.sku WHERE code LIKE 'race-%'"),
	                    "0");
	assert_int_equal(service_row(&service, "A").on_hand, 7);
	assert_int_equal(service_audit(&service), 0);
	command = RACE("--url", service.url, "--key", "lu_nobody");
	assert_int_equal(command.exit_code, 2);
	assert_non_null(strstr(command.err, "--key needs the scopes read, sell and stock"));
	command_done(&command);
	assert_int_equal(service_stop(&service), 0);
}

static void wrong_usage_is_2_and_a_server_that_is_not_there_3(void **state)
{
	static const struct {
		int code;
		const char *said, *arguments[4];
	} cases[] = {
		{2, "hot, spread, carts or once", {"--workload", "cold"}},
		{2,
	     "there is no \"hope\": there are atomic, pessimistic, optimistic, constraint, serializable, advisory, lastunit, "
	     "naive, lost-update, process-mutex, unordered\n",
	     {"--strategy", "hope"}},
		{2, "--url needs --key", {"--url", "http://127.0.0.1:1"}},
		{2, "--url is http://", {"--url", "127.0.0.1:1", "--key", "k"}},
		{2, "--redis-url", {"--redis-url", "ftp://x"}},
		{2, "unordered does not race on --workload hot", {"--strategy", "unordered", "--workload", "hot"}},
		{3, "http://127.0.0.1:1", {"--url", "http://127.0.0.1:1", "--key", "k"}},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *const *a = cases[i].arguments;
		struct command command = RACE(a[0], a[1], a[2], a[3]);
		if (command.exit_code != cases[i].code || !strstr(command.err, cases[i].said))
			fail_msg("%s %s: %d %s", a[0], a[1], command.exit_code, command.err);
		command_done(&command);
	}
	assert_string_equal(leftovers(), "0");
}

static int start(void **state)
{
	pg_server_start(&pg, NULL);
	snprintf(database, sizeof database, "LASTUNIT_DATABASE_URL=%s", pg.url);
	char *name = strrchr(html, '/');
	*name = '\0';
	bool made = mkdtemp(html) != NULL;
	*name = '/';
	return !made;
}

static int end(void **state)
{
	pg_server_done(&pg);
	*strrchr(html, '/') = '\0';
	return rmdir(html);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_usage_is_2_and_a_server_that_is_not_there_3),
		cmocka_unit_test(the_controls_fail_the_strategies_hold_and_nothing_is_left),
		cmocka_unit_test(the_controls_fail_under_load_each_in_its_own_way),
		cmocka_unit_test(a_signal_ends_it_and_nothing_is_left),
		cmocka_unit_test(after_a_restart_of_postgresql_nothing_is_left),
		cmocka_unit_test(the_last_of_two_races_drops_the_role_that_the_first_made),
		cmocka_unit_test(what_a_killed_race_has_left_is_named_by_the_next),
		cmocka_unit_test(a_result_that_nobody_got_is_a_failure),
		cmocka_unit_test(who_may_not_create_databases_races_the_textbook_alone_and_is_told),
		cmocka_unit_test(a_service_that_runs_is_raced_on_skus_that_keep_no_stock),
	};
	return cmocka_run_group_tests(tests, start, end);
}
