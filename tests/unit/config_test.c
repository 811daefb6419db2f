/* Configuration: precedence, refusals with their reason, positionals, and a --help that names every option. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"

static struct config config;
static char *argv_of[16];
static char *complaint;
static size_t complaint_size;
static int positionals;
static bool help;

/* Runs config_load() on a NULL-terminated list of arguments behind the program's name. */
static bool load(const char *shared, const struct config_option *options, const char *const *arguments)
{
	int argc = 0;
	argv_of[argc++] = (char *)"lastunit";
	while (*arguments)
		argv_of[argc++] = (char *)*arguments++;
	free(complaint);
	FILE *err = open_memstream(&complaint, &complaint_size);
	positionals = -1;
	help = false;
	bool loaded = config_load(&config, shared, options, argc, argv_of, &positionals, &help, err);
	fclose(err);
	return loaded;
}

#define ARGUMENTS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NO_ARGUMENTS ((const char *const[]){NULL})

static void assert_complains(const char *expected)
{
	assert_string_equal(complaint, expected);
}

static int clear_environment(void **state)
{
	clearenv();
	return 0;
}

static int forget_complaint(void **state)
{
	free(complaint);
	complaint = NULL;
	return 0;
}

static void defaults_are_those_of_the_table(void **state)
{
	assert_true(load("*", NULL, NO_ARGUMENTS));
	assert_string_equal(config.listen, "127.0.0.1:8080");
	assert_string_equal(config.database_url, "");
	assert_int_equal(config.writers, 2);
	assert_int_equal(config.lease_ms, 1000);
	assert_int_equal(positionals, 0);
	assert_false(help);
	assert_complains("");
}

static void a_flag_wins_over_the_environment_and_that_over_the_default(void **state)
{
	setenv("LASTUNIT_WRITERS", "5", 1);
	setenv("LASTUNIT_LISTEN", "127.0.0.1:1", 1);
	assert_true(load("*", NULL, NO_ARGUMENTS));
	assert_int_equal(config.writers, 5);
	assert_string_equal(config.listen, "127.0.0.1:1");
	assert_true(load("*", NULL, ARGUMENTS("--writers", "7", "--listen=127.0.0.1:2")));
	assert_int_equal(config.writers, 7);
	assert_string_equal(config.listen, "127.0.0.1:2");
	assert_true(load("*", NULL, ARGUMENTS("--writers", "7", "--writers=8")));
	assert_int_equal(config.writers, 8);
}

static void an_empty_variable_is_not_set_but_an_empty_flag_is(void **state)
{
	setenv("LASTUNIT_WRITERS", "", 1);
	setenv("LASTUNIT_REDIS_URL", "redis://x", 1);
	assert_true(load("*", NULL, ARGUMENTS("--redis-url=")));
	assert_int_equal(config.writers, 2);
	assert_string_equal(config.redis_url, "");
	assert_false(load("*", NULL, ARGUMENTS("--writers=")));
	assert_false(load("*", NULL, ARGUMENTS("--writers", "")));
}

static void a_subcommand_takes_only_what_it_lists(void **state)
{
	setenv("LASTUNIT_WRITERS", "nonsense", 1);
	assert_true(load("database_url listen", NULL, ARGUMENTS("--database-url", "postgres://x")));
	assert_string_equal(config.database_url, "postgres://x");
	assert_int_equal(config.writers, 2);
	assert_false(load("database_url listen", NULL, ARGUMENTS("--writers", "3")));
	assert_complains("--writers: no such option; --help lists them\n");
	assert_false(load("xlisten listens", NULL, ARGUMENTS("--listen", "x")));
	assert_false(load("", NULL, ARGUMENTS("--listen", "x")));
	assert_true(load("listens listen", NULL, ARGUMENTS("--listen", "x")));
}

#define WRITERS_HELP                                                                                                  \
	"writer threads, one PostgreSQL connection each; at most half of them wait for rows that strangers lock, so one " \
	"is too few"

static void a_wrong_value_is_refused_with_source_bounds_and_meaning(void **state)
{
	/* One writer who waits for a stranger's row would be all of them. */
	assert_false(load("*", NULL, ARGUMENTS("--writers", "1")));
	assert_complains("--writers: 1 is out of bounds; they are 2 to 64 (" WRITERS_HELP ")\n");
	assert_false(load("*", NULL, ARGUMENTS("--lease-ms=10001")));
	assert_complains(
		"--lease-ms: 10001 is out of bounds; they are 100 to 10000 ms (L: how long a read lease permits hits after PostgreSQL was asked)\n");
	assert_false(load("*", NULL, ARGUMENTS("--writers=2x")));
	assert_complains("--writers: \"2x\" is not an integer; 2 to 64 is expected\n");
	assert_false(load("*", NULL, ARGUMENTS("--log-level=")));
	assert_complains("--log-level: 0 bytes long; 1 to 10 are allowed\n");
	assert_false(load("*", NULL, ARGUMENTS("--writers=99999999999999999999")));
	setenv("LASTUNIT_WRITERS", "65", 1);
	assert_false(load("*", NULL, NO_ARGUMENTS));
	assert_complains("LASTUNIT_WRITERS: 65 is out of bounds; they are 2 to 64 (" WRITERS_HELP ")\n");
}

static void bounds_are_included(void **state)
{
	assert_true(load("*", NULL, ARGUMENTS("--writers=2", "--loaders=64")));
	assert_int_equal(config.writers, 2);
	assert_int_equal(config.loaders, 64);
}

static void a_complaint_never_repeats_a_password(void **state)
{
	char url[5000], argument[5100];
	memset(url, 'x', sizeof url - 1);
	url[sizeof url - 1] = 0;
	memcpy(url, "postgres://user:secret@", 23);
	assert_false(load("*", NULL, ARGUMENTS("--database-url", url)));
	assert_null(strstr(complaint, "secret"));
	strcat(strcpy(argument, "--databas-url="), url);
	assert_false(load("*", NULL, ARGUMENTS(argument)));
	assert_null(strstr(complaint, "secret"));
}

static void an_unknown_flag_is_refused_with_the_nearest_known(void **state)
{
	static const char *const pairs[][2] = {
		{"--wirters=3", "--wirters: no such option; did you mean --writers?\n"},
		{"--lisen", "--lisen: no such option; did you mean --listen?\n"},
		{"--database_url=x", "--database_url: no such option; did you mean --database-url?\n"},
		{"--database", "--database: no such option; did you mean --database-url?\n"},
		{"--xyzzy", "--xyzzy: no such option; --help lists them\n"},
		{"--no-writers", "--no-writers: no such option; did you mean --writers?\n"},
	};
	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
		assert_false(load("*", NULL, ARGUMENTS(pairs[i][0])));
		assert_complains(pairs[i][1]);
	}
}

static void a_missing_value_is_refused(void **state)
{
	assert_false(load("*", NULL, ARGUMENTS("--writers")));
	assert_complains("--writers: a value is missing: --writers VALUE or --writers=VALUE\n");
	assert_false(load("*", NULL, ARGUMENTS("--listen", "--writers", "3")));
	assert_complains("--listen: a value is missing: --listen VALUE or --listen=VALUE\n");
}

static void positionals_move_to_the_front_in_order(void **state)
{
	assert_true(load("*", NULL, ARGUMENTS("a", "--writers", "3", "b", "--listen=x", "-5", "-", "--", "--c", "--")));
	assert_int_equal(positionals, 6);
	static const char *const expected[] = {"a", "b", "-5", "-", "--c", "--"};
	for (int i = 0; i < 6; i++)
		assert_string_equal(argv_of[1 + i], expected[i]);
	assert_int_equal(config.writers, 3);
}

static void help_wins_over_whatever_else_is_wrong(void **state)
{
	setenv("LASTUNIT_WRITERS", "0", 1);
	assert_true(load("*", NULL, ARGUMENTS("--nonsense", "--help")));
	assert_true(help);
	assert_true(load("*", NULL, ARGUMENTS("-h")));
	assert_true(help);
	unsetenv("LASTUNIT_WRITERS");
	assert_true(load("*", NULL, ARGUMENTS("--", "--help")));
	assert_false(help);
	assert_int_equal(positionals, 1);
}

static const char *data;
static int64_t clients;
static bool demo, verbose;
static const struct config_option own[] = {
	{"data", CONFIG_STRING, "", 1, 100, "", "a directory (required)", &data},
	{"clients", CONFIG_INT, "32", 1, 10000, "", "how many at once", &clients},
	{"demo", CONFIG_BOOL, "1", 0, 1, "", "load the demo catalogue", &demo},
	{"verbose_output", CONFIG_BOOL, "0", 0, 1, NULL, "say more", &verbose},
	{0},
};

static void a_subcommand_has_options_of_its_own(void **state)
{
	setenv("LASTUNIT_CLIENTS", "7", 1); /* not read */
	assert_true(load("", own, NO_ARGUMENTS));
	assert_string_equal(data, "");
	assert_int_equal(clients, 32);
	assert_true(demo);
	assert_false(verbose);
	assert_true(load("", own, ARGUMENTS("--no-demo", "--verbose-output", "--clients", "5", "--data=/x", "rest")));
	assert_string_equal(data, "/x");
	assert_int_equal(clients, 5);
	assert_false(demo);
	assert_true(verbose);
	assert_int_equal(positionals, 1);
	assert_string_equal(argv_of[1], "rest");
	assert_false(load("", own, ARGUMENTS("--data=")));
}

static void a_switch_takes_no_value_but_after_an_equals_sign(void **state)
{
	static const char *const on[] = {"--demo", "--demo=1", "--demo=true", "--demo=yes", "--demo=on"};
	static const char *const off[] = {"--no-demo", "--demo=0", "--demo=false", "--demo=no", "--demo=off"};
	for (int i = 0; i < 5; i++) {
		assert_true(load("", own, ARGUMENTS(off[i], on[i], "false")));
		assert_true(demo);
		assert_int_equal(positionals, 1);
		assert_true(load("", own, ARGUMENTS(on[i], off[i])));
		assert_false(demo);
	}
	assert_false(load("", own, ARGUMENTS("--demo=maybe")));
	assert_complains("--demo: \"maybe\" is neither true nor false\n");
	assert_false(load("", own, ARGUMENTS("--no-demo=1")));
}

static void help_names_every_option_with_variable_default_and_bounds(void **state)
{
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	config_print_help(out, "*", own);
	fclose(out);
	static const char *const names[] = {
#define X(type, name, default_, min, max, unit, help) #name,
#include "base/config.def"
#undef X
	};
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		char flag[100] = "  --", variable[100] = "  LASTUNIT_";
		strcat(flag, names[i]);
		strcat(variable, names[i]);
		for (char *c = flag; *c; c++)
			*c = *c == '_' ? '-' : *c;
		for (char *c = variable; *c; c++)
			*c = (char)toupper((unsigned char)*c);
		assert_non_null(strstr(text, flag));
		assert_non_null(strstr(text, variable));
	}
	assert_non_null(strstr(text, "--lease-ms N  (100 to 10000 ms, default 1000)  LASTUNIT_LEASE_MS\n"));
	assert_non_null(strstr(text, "--listen TEXT  (default 127.0.0.1:8080)  LASTUNIT_LISTEN\n"));
	assert_non_null(strstr(text, "--clients N  (1 to 10000, default 32)\n"));
	assert_non_null(strstr(text, "--demo  (default on; --no-demo)\n"));
	assert_null(strstr(text, "LASTUNIT_CLIENTS"));
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		assert_true(strlen(line) <= 120);
	free(text);
}

/* `--redis-url` of an audit is not that of a service: whoever only reads it has nothing "served from PostgreSQL". */
static void a_subcommand_may_say_what_an_option_means_there(void **state)
{
	static const struct config_option here[] = {{.name = "redis_url", .help = "the cells to look at"}, {0}};
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	config_print_help(out, "database_url redis_url", here);
	fclose(out);
	assert_non_null(strstr(text, "--redis-url TEXT  LASTUNIT_REDIS_URL\n"));
	assert_non_null(strstr(text, "the cells to look at"));
	assert_null(strstr(text, "serve every read"));
	assert_non_null(strstr(text, "(required)"));
	free(text);
	assert_true(load("database_url redis_url", here, ARGUMENTS("--redis-url", "redis://cache")));
	assert_string_equal(config.redis_url, "redis://cache");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, clear_environment, forget_complaint)
	const struct CMUnitTest tests[] = {
		TEST(defaults_are_those_of_the_table),
		TEST(a_flag_wins_over_the_environment_and_that_over_the_default),
		TEST(an_empty_variable_is_not_set_but_an_empty_flag_is),
		TEST(a_subcommand_takes_only_what_it_lists),
		TEST(a_wrong_value_is_refused_with_source_bounds_and_meaning),
		TEST(bounds_are_included),
		TEST(a_complaint_never_repeats_a_password),
		TEST(an_unknown_flag_is_refused_with_the_nearest_known),
		TEST(a_missing_value_is_refused),
		TEST(positionals_move_to_the_front_in_order),
		TEST(help_wins_over_whatever_else_is_wrong),
		TEST(a_subcommand_has_options_of_its_own),
		TEST(a_switch_takes_no_value_but_after_an_equals_sign),
		TEST(a_subcommand_may_say_what_an_option_means_there),
		TEST(help_names_every_option_with_variable_default_and_bounds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
