/* What the tests of `lastunit import` share: a running service for all tests of a program, files in a directory of its
 * own, an import of one and what it said. Each test has SKUs of its own, and the audit runs after each. */
#ifndef TESTS_E2E_IMPORT_FIXTURE_H
#define TESTS_E2E_IMPORT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "lib/command.h"
#include "lib/pg_server.h"
#include "lib/service.h"

#define PATIENCE_MS 60000

static struct service service;
static char database[600], redis[300];
/* A busy machine may take longer than the default for 2,000 cells; then the epoch would be closed, rightly. */
static const char *const variables[] = {database, redis, "LASTUNIT_REDIS_TIMEOUT_MS=5000", NULL};
static char directory[] = "/tmp/import-test-XXXXXX";

/* --- words -------------------------------------------------------------------------------------------------------- */

static inline const char *path_of(const char *name)
{
	static char paths[4][200];
	static int turn;
	char *path = paths[turn++ % 4];
	snprintf(path, 200, "%s/%s", directory, name);
	return path;
}

static inline const char *write_bytes(const char *name, const char *bytes, size_t size)
{
	const char *path = path_of(name);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, size, file), size);
	fclose(file);
	return path;
}

static inline const char *write_text(const char *name, const char *text)
{
	return write_bytes(name, text, strlen(text));
}

/* What an import printed with --json. */
struct result {
	int exit_code;
	json_t *json;
	char err[600];
};

static inline struct result import_with(const char *const *environment, const char *path, const char *const *options)
{
	const char *arguments[20] = {"import", path, "--json"};
	for (int i = 0; options && options[i]; i++)
		arguments[3 + i] = options[i];
	struct command command = command_run(arguments, environment);
	struct result result = {command.exit_code, json_loads(command.out, 0, NULL), ""};
	snprintf(result.err, sizeof result.err, "%s", command.err);
	command_done(&command);
	return result;
}

static inline struct result import(const char *path, const char *option, const char *value)
{
	const char *options[] = {option, value, NULL};
	return import_with(variables, path, option ? options : NULL);
}

static inline int64_t number(const struct result *result, const char *key)
{
	json_t *value = json_object_get(result->json, key);
	return json_is_integer(value) ? json_integer_value(value) : -1;
}

static inline bool flag(const struct result *result, const char *key)
{
	return json_is_true(json_object_get(result->json, key));
}

static inline void assert_refusal(const struct result *result, size_t at, int64_t line, const char *sku,
                                  const char *code)
{
	json_t *refusal = json_array_get(json_object_get(result->json, "refusals"), at);
	assert_non_null(refusal);
	assert_int_equal(json_integer_value(json_object_get(refusal, "line")), line);
	assert_string_equal(json_string_value(json_object_get(refusal, "sku")), sku);
	assert_string_equal(json_string_value(json_object_get(refusal, "code")), code);
	assert_true(strlen(json_string_value(json_object_get(refusal, "detail"))) > 5);
}

static inline void done(struct result *result)
{
	json_decref(result->json);
	*result = (struct result){0};
}

static inline void import_ok(const char *path)
{
	struct result result = import(path, NULL, NULL);
	if (result.exit_code)
		fail_msg("import of %s: %d: %s", path, result.exit_code, result.err);
	done(&result);
}

static inline void assert_row(const char *sku, int64_t on_hand, int64_t version)
{
	struct row row = service_row(&service, sku);
	assert_int_equal(row.status, 200);
	if (row.on_hand != on_hand || row.version != version)
		fail_msg("%s: on_hand %lld version %lld, should be %lld, %lld", sku, (long long)row.on_hand,
		         (long long)row.version, (long long)on_hand, (long long)version);
	struct seen seen = service_see(&service, sku);
	assert_int_equal(seen.status, 200);
	assert_int_equal(seen.version, version);
	assert_int_equal(seen.available, on_hand - row.reserved);
}

static inline const char *ask(const char *sql)
{
	return pg_server_ask(service.database_url, sql);
}

static inline void wait_until(const char *sql, const char *value)
{
	int64_t deadline_ns = deadline_in_ms(PATIENCE_MS);
	while (strcmp(ask(sql), value) != 0) {
		if (deadline_left_ms(deadline_ns) == 0)
			fail_msg("%s is not %s", sql, value);
		usleep(5000);
	}
}

static inline void wait_until_open(void)
{
	wait_until("SELECT state FROM lastunit.cache_epoch", "1");
}

/* --- the service ------------------------------------------------------------------------------------------------ */

static inline int start(void **state)
{
	service_start(&service, NULL);
	snprintf(database, sizeof database, "LASTUNIT_DATABASE_URL=%s", service.database_url);
	snprintf(redis, sizeof redis, "LASTUNIT_REDIS_URL=%s", service.redis_url);
	return mkdtemp(directory) ? 0 : -1;
}

static inline int stop(void **state)
{
	char command[100];
	snprintf(command, sizeof command, "rm -r %s", directory);
	(void)!system(command);
	return service_stop(&service);
}

static inline int audit_is_sound(void **state)
{
	int code = service_audit(&service);
	if (code)
		fprintf(stderr, "the audit after the test: exit code %d\n", code);
	return code;
}

#define SOUND(test) cmocka_unit_test_teardown(test, audit_is_sound)
#define IMPORT_MAIN(tests)                                 \
	int main(void)                                         \
	{                                                      \
		return cmocka_run_group_tests(tests, start, stop); \
	}

#endif
