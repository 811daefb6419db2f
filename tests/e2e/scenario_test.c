/* `lastunit scenario`: the scenarios that need no bench, against a real service; and what it leaves behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/command.h"
#include "lib/pg_server.h"
#include "lib/service.h"

static struct service service;
static char values[10][600];
static const char *variables[11];

/* One that looks at nothing but answers, for whoever has only the service's address. */
static char directory[] = "/tmp/lastunit-scenario-XXXXXX";
static char over_http[60];
static const char over_http_text[] =
	"# Two buyers of the last unit, and only what they are told.\n"
	"instance a\nstock LAMP 1\nsession web on a\nsession telegram on a\n\n"
	"web: sell LAMP 1 -> 201\n"
	"telegram: sell LAMP 1 -> 409 insufficient_stock\n"
	"web: see LAMP = 0\n";

static void write_over_http(void)
{
	assert_non_null(mkdtemp(directory));
	snprintf(over_http, sizeof over_http, "%s/over-http.spec", directory);
	FILE *file = fopen(over_http, "w");
	assert_non_null(file);
	fputs(over_http_text, file);
	assert_int_equal(fclose(file), 0);
}

static int open_service(void **state)
{
	write_over_http();
	const struct {
		const char *name, *value;
	} rows[] = {{"URL", service.url},
	            {"DATABASE_URL", service.database_url},
	            {"REDIS_URL", service.redis_url},
	            {"KEY_ADMIN", service.key_admin},
	            {"KEY_WEB", service.key_web},
	            {"KEY_TELEGRAM", service.key_telegram},
	            {"KEY_AGENT", service.key_agent},
	            {"KEY_VOICE", service.key_voice},
	            {"KEY_MARKETPLACE", service.key_marketplace},
	            {"KEY_POS", service.key_pos}};
	service_start(&service, NULL);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		snprintf(values[i], sizeof values[i], "LASTUNIT_%s=%s", rows[i].name, rows[i].value);
		variables[i] = values[i];
	}
	return 0;
}

static int close_service(void **state)
{
	unlink(over_http);
	rmdir(directory);
	assert_int_equal(service_audit(&service), 0);
	return service_stop(&service);
}

static const char *ask(const char *sql)
{
	return pg_server_ask(service.database_url, sql);
}

static bool needs_a_bench(const char *path)
{
	char line[400];
	bool needs = false;
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	while (!needs && fgets(line, sizeof line, file))
		needs = strncmp(line, "needs ", 6) == 0;
	fclose(file);
	return needs;
}

/* `lastunit scenario` with these further arguments, every file of tests/spec that a shop can play, and one that it
 * cannot. */
static struct command run_all(const char *first, const char *second)
{
	static const char *arguments[40];
	static glob_t found;
	size_t count = 0;
	globfree(&found);
	assert_int_equal(glob("tests/spec/*.spec", 0, NULL, &found), 0);
	arguments[count++] = "scenario";
	for (size_t i = 0; i < found.gl_pathc && count < 30; i++)
		if (!needs_a_bench(found.gl_pathv[i]))
			arguments[count++] = found.gl_pathv[i];
	arguments[count++] = over_http;
	arguments[count++] = "tests/spec/late-fill.spec";
	arguments[count++] = first ? first : "--no-verbose";
	arguments[count++] = second ? second : "--no-verbose";
	arguments[count] = NULL;
	return command_run(arguments, variables);
}

static void expect_out(const struct command *command, const char *text)
{
	if (!strstr(command->out, text))
		fail_msg("nothing of \"%s\" in:\n%s%s", text, command->out, command->err);
}

static void a_dry_run_says_what_would_happen_and_touches_nothing(void **state)
{
	struct command command = run_all("--dry-run", NULL);
	assert_int_equal(command.exit_code, 0);
	expect_out(&command, "to be played  last-unit ");
	expect_out(&command, "at the end they are at 0");
	expect_out(&command, "passed over   late-fill ");
	expect_out(&command, "needs a bench");
	command_done(&command);
	assert_string_equal(ask("SELECT count(*) FROM lastunit.sku"), "0");
}

static void every_scenario_that_needs_no_bench_holds_and_leaves_its_skus_at_0(void **state)
{
	struct command command = run_all(NULL, NULL);
	if (command.exit_code != 0)
		fail_msg("exit code %d\n%s%s", command.exit_code, command.out, command.err);
	expect_out(&command, "passed        last-unit ");
	expect_out(&command, " 0 failed");
	command_done(&command);
	assert_string_not_equal(ask("SELECT count(*) FROM lastunit.sku WHERE code LIKE 'scenario-%'"), "0");
	assert_string_equal(ask("SELECT count(*) FROM lastunit.sku WHERE on_hand <> 0 OR reserved <> 0"), "0");
	assert_string_equal(ask("SELECT count(*) FROM lastunit.sku WHERE code NOT LIKE 'scenario-%'"), "0");
}

static void a_scenario_that_does_not_hold_is_told_step_by_step_and_tidied_up(void **state)
{
	char path[] = "/tmp/scenario-test-XXXXXX.spec";
	static const char text[] =
		"# One is sold, and nobody notices.\nstock LAMP 3\nsession web\n"
		"web: reserve LAMP 1\nweb: sell LAMP 1 -> 201\nweb: see LAMP = 3\n";
	int fd = mkstemps(path, 5);
	assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
	close(fd);
	struct command command = command_run((const char *[]){"scenario", path, NULL}, variables);
	unlink(path);
	assert_int_equal(command.exit_code, 1);
	expect_out(&command, "FAILED");
	expect_out(&command, "sell LAMP 1 -> 201");
	expect_out(&command, "expected 3, saw 1");
	command_done(&command);
	assert_string_equal(ask("SELECT count(*) FROM lastunit.sku WHERE on_hand <> 0 OR reserved <> 0"), "0");
}

static void without_sql_and_redis_what_needs_them_is_passed_over(void **state)
{
	struct command command = run_all("--database-url=", "--redis-url=");
	/* The variables of both are set, and an empty flag says "none". */
	if (command.exit_code != 0)
		fail_msg("exit code %d\n%s%s", command.exit_code, command.out, command.err);
	expect_out(&command, "needs --database-url");
	expect_out(&command, "passed        over-http ");
	command_done(&command);
}

static void wrong_usage_is_said_in_one_line(void **state)
{
	const struct {
		const char *arguments[5];
		int exit_code;
		const char *text;
	} cases[] = {
		{{"scenario", NULL}, 2, "which files?"},
		{{"scenario", "tests/spec/no-such.spec", NULL}, 2, "no-such.spec"},
		{{"scenario", "tests/spec/last-unit.spec", "--url", "http://127.0.0.1:1", NULL}, 3, "127.0.0.1:1"},
		{{"scenario", "tests/spec/last-unit.spec", "--key-web=lu_wrong", NULL}, 2, "does not take the key of web"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct command command = command_run(cases[i].arguments, variables);
		if (command.exit_code != cases[i].exit_code || !strstr(command.err, cases[i].text))
			fail_msg("case %zu: exit code %d, %s", i, command.exit_code, command.err);
		command_done(&command);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_dry_run_says_what_would_happen_and_touches_nothing),
		cmocka_unit_test(every_scenario_that_needs_no_bench_holds_and_leaves_its_skus_at_0),
		cmocka_unit_test(a_scenario_that_does_not_hold_is_told_step_by_step_and_tidied_up),
		cmocka_unit_test(without_sql_and_redis_what_needs_them_is_passed_over),
		cmocka_unit_test(wrong_usage_is_said_in_one_line),
	};
	return cmocka_run_group_tests(tests, open_service, close_service);
}
