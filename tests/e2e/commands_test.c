/* The commands beside `dev`, as their users meet them: their help, their exit codes, the schema they ask for, and keys that
 * hold as soon as their command has ended. */
#include "e2e/dev_fixture.h"

#include "base/clock.h"
#include "store/advisory.h"

/* usage: what the binary prints and the code it ends with. */
static int run(char out[OUTPUT_BYTES_MAX], const char *const *arguments)
{
	struct dev any = {0};
	any.pid = spawn(arguments, &any.output);
	while (dev_says(&any, "no line begins so"))
		;
	close(any.output);
	snprintf(out, OUTPUT_BYTES_MAX, "%s", any.text);
	return reap(any.pid);
}

static void every_command_has_help_and_refuses_nonsense(void **state)
{
	static const char *const commands[] = {"serve", "dev", "migrate", "key", "import", "audit", "replay"};
	char out[OUTPUT_BYTES_MAX];
	for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
		char usage[64];
		snprintf(usage, sizeof usage, "usage: lastunit %s", commands[i]);
		assert_int_equal(run(out, (const char *[]){commands[i], "--help", NULL}), 0);
		assert_non_null(strstr(out, usage));
		assert_non_null(strstr(out, "exit codes:"));
		assert_int_equal(run(out, (const char *[]){commands[i], "--no-such-option", "1", NULL}), 2);
		snprintf(usage, sizeof usage, "lastunit %s: --no-such-option: no such option", commands[i]);
		assert_int_equal(strncmp(out, usage, strlen(usage)), 0);
	}
	assert_int_equal(run(out, (const char *[]){"dev", "--help", NULL}), 0);
	assert_true(strstr(out, "  --data TEXT") < strstr(out, "  --listen TEXT")); /* its own options first */
	assert_int_equal(run(out, (const char *[]){"serv", NULL}), 2);
	assert_non_null(strstr(out, "did you mean \"serve\"?"));
	assert_int_equal(run(out, (const char *[]){NULL}), 2);
	assert_int_equal(run(out, (const char *[]){"--help", NULL}), 0);
	assert_int_equal(run(out, (const char *[]){"--version", NULL}), 0);
	assert_int_equal(strncmp(out, "lastunit ", 9), 0);
}

static void exit_codes_tell_configuration_from_a_backend_that_is_away(void **state)
{
	char out[OUTPUT_BYTES_MAX];
	unsetenv("LASTUNIT_DATABASE_URL");
	assert_int_equal(run(out, (const char *[]){"serve", NULL}), 2);
	assert_int_equal(run(out, (const char *[]){"migrate", NULL}), 2);
	const char *away = "postgresql://nobody@%2Ftmp%2Fno-such-directory/x";
	assert_int_equal(run(out, (const char *[]){"serve", "--database-url", away, NULL}), 3);
	assert_int_equal(run(out, (const char *[]){"migrate", "--database-url", away, NULL}), 3);
	assert_int_equal(run(out, (const char *[]){"key", "list", "--database-url", away, NULL}), 3);
	assert_int_equal(run(out, (const char *[]){"key", "destroy", "--database-url", away, NULL}), 2);
}

/* Until then a migration beside it could not meet any lock that it keeps. */
static void wait_for_the_leader(const struct dev *dev)
{
	int64_t deadline_ns = deadline_in_ms(30000);
	while (strcmp(sql(dev,
	                  "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
	                  " AND classid::bigint << 32 | objid::bigint = " ADVISORY(ADVISORY_LEAD)),
	              "1") != 0) {
		assert_true(deadline_left_ms(deadline_ns) > 0);
		clock_sleep_until(deadline_in_ms(20));
	}
}

static void a_schema_of_another_version_is_refused_by_serve(void **state)
{
	struct dev dev;
	char out[OUTPUT_BYTES_MAX];
	dev_begin(&dev);
	dev_ready(&dev, "--ephemeral");
	const char *url = dev_value(&dev, "LASTUNIT_DATABASE_URL");
	wait_for_the_leader(&dev);
	assert_int_equal(run(out, (const char *[]){"migrate", "--database-url", url, NULL}), 0);
	assert_non_null(strstr(out, "nothing to do"));
	char empty[300];
	snprintf(empty, sizeof empty, "%s", url);
	strcpy(strrchr(empty, '/'), "/empty");
	sql(&dev, "CREATE DATABASE empty");
	assert_int_equal(run(out, (const char *[]){"serve", "--listen", "127.0.0.1:0", "--database-url", empty, NULL}), 2);
	assert_non_null(strstr(out, "lastunit migrate"));
	assert_int_equal(run(out, (const char *[]){"migrate", "--check", "--database-url", empty, NULL}), 1);
	assert_int_equal(run(out, (const char *[]){"migrate", "--database-url", empty, NULL}), 0);
	assert_int_equal(run(out, (const char *[]){"migrate", "--check", "--database-url", empty, NULL}), 0);
	assert_int_equal(dev_stop(&dev), 0);
	dev_done(&dev);
}

static void keys_hold_from_the_moment_their_command_ends(void **state)
{
	struct dev dev;
	char out[OUTPUT_BYTES_MAX], rotated[OUTPUT_BYTES_MAX];
	dev_begin(&dev);
	dev_ready(&dev, "--ephemeral");
	const char *url = dev_value(&dev, "LASTUNIT_DATABASE_URL");
	char *admin = dev.values[3]; /* http_status() asks with this key */
	assert_int_equal(run(out, (const char *[]){"key", "create", "--database-url", url, "--principal", "till-7",
	                                           "--channel", "pos", "--scopes", "read,sell", NULL}),
	                 0);
	assert_int_equal(strncmp(out, "lu_", 3), 0);
	out[strcspn(out, "\n")] = 0;
	strcpy(admin, out);
	assert_int_equal(http_status(&dev, "/v1/skus"), 200);

	assert_int_equal(run(rotated, (const char *[]){"key", "rotate", "--database-url", url, "--principal", "till-7",
	                                               "--grace", "0", NULL}),
	                 0);
	rotated[strcspn(rotated, "\n")] = 0;
	assert_int_equal(http_status(&dev, "/v1/skus"), 401);
	strcpy(admin, rotated);
	assert_int_equal(http_status(&dev, "/v1/skus"), 200);

	char prefix[12];
	snprintf(prefix, sizeof prefix, "%.11s", rotated);
	assert_int_equal(run(out, (const char *[]){"key", "revoke", "--database-url", url, "--prefix", prefix, NULL}), 0);
	assert_int_equal(http_status(&dev, "/v1/skus"), 401);
	assert_int_equal(run(out, (const char *[]){"key", "revoke", "--database-url", url, "--prefix", prefix, NULL}), 1);
	assert_int_equal(run(out, (const char *[]){"key", "create", "--database-url", url, "--principal", "till-7",
	                                           "--channel", "web", "--scopes", "read", NULL}),
	                 1);
	assert_int_equal(run(out, (const char *[]){"key", "list", "--database-url", url, "--principal", "till-7", "--json",
	                                           NULL}),
	                 0);
	assert_non_null(strstr(out, prefix));
	assert_null(strstr(out, rotated)); /* a secret is shown once */
	assert_int_equal(dev_stop(&dev), 0);
	dev_done(&dev);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(every_command_has_help_and_refuses_nonsense),
	cmocka_unit_test(exit_codes_tell_configuration_from_a_backend_that_is_away),
	cmocka_unit_test(a_schema_of_another_version_is_refused_by_serve),
	cmocka_unit_test(keys_hold_from_the_moment_their_command_ends),
};

DEV_MAIN(tests)
