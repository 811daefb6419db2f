/* `lastunit race` and its caches: each control shows what is gone, in the order of steps that is its own; ours does not.
 *
 * Bugs it guards against: a control that was not shown wrong, so that a team keeps it; ours called right because its cache
 * never answered; keys of ours that stay in the user's Redis; holds without a TTL that seem to cost nothing.
 *
 * The steps are exact and decide alone. Of the load only that is asked which does not need luck.
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
#include <sys/stat.h>
#include <unistd.h>

#include "lib/command.h"
#include "lib/pg_server.h"
#include "lib/redis_server.h"
#include "lib/service.h"

static struct pg_server pg;
static struct redis_server redis;
static char database[300], cache[300];
static char directory[] = "/tmp/race-cache-XXXXXX";

#define WAITS 6000 /* of 10 ms */

/* As short as it can be: one strategy that is right, one buyer, little time. */
#define SHORT "--strategy", "lastunit", "--workload", "hot", "--buyers", "1", "--run-ms", "400", "--json"

static json_t *raced(struct command *command)
{
	json_error_t error;
	json_t *json = json_loads(command->out, 0, &error);
	if (command->exit_code != 0 || !json)
		fail_msg("exit code %d: %s%s", command->exit_code, command->out, command->err);
	return json;
}

static json_t *cache_of(json_t *race, const char *name)
{
	size_t i;
	json_t *one;
	json_array_foreach(json_object_get(race, "caches"), i, one)
	{
		if (strcmp(json_string_value(json_object_get(one, "cache")), name) == 0)
			return one;
	}
	fail_msg("no cache %s", name);
	return NULL;
}

static int64_t number(json_t *object, const char *key)
{
	assert_true(json_is_integer(json_object_get(object, key)));
	return json_integer_value(json_object_get(object, key));
}

static bool is_wrong(json_t *steps, size_t step)
{
	return json_is_true(json_object_get(json_array_get(steps, step), "wrong"));
}

static const char *said(json_t *steps, size_t step)
{
	return json_string_value(json_object_get(json_array_get(steps, step), "said"));
}

static void assert_no_key_of_ours(void)
{
	char *keys = redis_server_command(&redis, "KEYS lastunit_race_*");
	assert_string_equal(keys, "");
	free(keys);
}

static void size_of(const char *name, off_t at_least)
{
	char path[120];
	struct stat file;
	snprintf(path, sizeof path, "%s/%s", directory, name);
	assert_int_equal(stat(path, &file), 0);
	assert_true(file.st_size > at_least);
	unlink(path);
}

/* Step by step: the last look of each, after the sale was answered. */
static void assert_controls(json_t *race)
{
	static const struct {
		const char *name;
		size_t steps, wrong;
		bool oversells;
	} controls[] = {
		{"ttl-only", 3, 1, false},     {"del-before-commit", 4, 1, false}, {"del-after-commit", 4, 1, false},
		{"lagging-copy", 4, 2, false}, {"channel-counter", 3, 2, true},
	};
	for (size_t i = 0; i < sizeof controls / sizeof *controls; i++) {
		json_t *one = cache_of(race, controls[i].name), *steps = json_object_get(one, "steps");
		size_t wrong = 0;
		assert_true(json_is_true(json_object_get(one, "raced")));
		assert_int_equal(json_array_size(steps), controls[i].steps);
		for (size_t s = 0; s < controls[i].steps; s++)
			wrong += is_wrong(steps, s);
		if (wrong != controls[i].wrong || !is_wrong(steps, controls[i].steps - 1))
			fail_msg("%s: %s", controls[i].name, json_dumps(steps, 0));
		assert_true(number(one, "reads") > 0 && number(one, "writes") > 0);
		assert_int_equal(number(one, "oversold") > 0, controls[i].oversells);
	}
	/* These need no luck under load either: a figure lives on for long after many sales. */
	assert_true(number(cache_of(race, "ttl-only"), "stale") > 0);
	assert_true(number(cache_of(race, "lagging-copy"), "stale") > 0);
	assert_true(number(cache_of(race, "channel-counter"), "stale") > 0);
}

/* The same late fill that del-after-commit loses by. */
static void assert_ours(json_t *race)
{
	json_t *ours = cache_of(race, "lastunit"), *steps = json_object_get(ours, "steps");
	assert_true(json_is_true(json_object_get(ours, "raced")));
	assert_int_equal(json_array_size(steps), 4);
	for (size_t s = 0; s < 4; s++)
		assert_false(is_wrong(steps, s));
	assert_string_equal(said(steps, 2), "goes on: its ticket is gone, the fill is refused");
	assert_string_equal(said(steps, 3), "looks: 0 left");
	assert_true(number(ours, "reads") > 0 && number(ours, "writes") > 0);
	assert_int_equal(number(ours, "stale"), 0);
	assert_int_equal(number(ours, "gone_back"), 0);
	assert_int_equal(number(ours, "oversold"), 0);
}

static void assert_drift(json_t *race)
{
	json_t *without = json_array_get(json_object_get(race, "drift"), 0);
	json_t *with = json_array_get(json_object_get(race, "drift"), 1);
	json_t *last = json_array_get(json_object_get(without, "points"), 60);
	int64_t stuck = number(without, "unsold");
	assert_true(stuck > 60 && stuck < 120); /* about three of ten */
	assert_int_equal(number(last, "available"), 0);
	assert_int_equal(number(last, "held_by_nobody"), stuck);
	assert_int_equal(number(last, "sold"), 300 - stuck);
	assert_int_equal(number(with, "unsold"), 0);
	last = json_array_get(json_object_get(with, "points"), 60);
	assert_true(number(last, "sold") > 300 - stuck / 2);
}

static void each_control_shows_what_is_gone_ours_does_not_and_no_key_is_left(void **state)
{
	char html[120];
	snprintf(html, sizeof html, "%s/race.html", directory);
	struct command command = command_run((const char *[]){"race", SHORT, "--html", html, "--svg", directory, NULL},
	                                     (const char *[]){database, cache, NULL});
	json_t *race = raced(&command);
	assert_controls(race);
	assert_ours(race);
	assert_drift(race);
	assert_no_key_of_ours();
	assert_string_equal(pg_server_ask(pg.url, "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'lastunit%'"), "0");
	size_of("race.html", 10000);
	size_of("race-sales.svg", 1000);
	size_of("race-oversold.svg", 1000);
	json_decref(race);
	command_done(&command);
}

static void without_redis_no_cache_is_raced_and_says_so(void **state)
{
	struct command command = command_run((const char *[]){"race", SHORT, NULL}, (const char *[]){database, NULL});
	json_t *race = raced(&command);
	json_t *ours = cache_of(race, "lastunit");
	assert_true(json_is_false(json_object_get(ours, "raced")));
	assert_string_equal(json_string_value(json_object_get(ours, "why_not")), "no --redis-url");
	assert_true(json_array_size(json_object_get(race, "drift")) == 2);
	json_decref(race);
	command_done(&command);
}

static int ended(const char *option, const char *value, const char *url, const char *sentence)
{
	struct command command = command_run((const char *[]){"race", SHORT, option, value, NULL},
	                                     (const char *[]){database, url, NULL});
	int code = command.exit_code;
	assert_string_equal(command.out, "");
	if (!strstr(command.err, sentence))
		fail_msg("\"%s\" is not in: %s", sentence, command.err);
	command_done(&command);
	return code;
}

static void what_would_fail_at_the_end_fails_at_the_beginning(void **state)
{
	assert_int_equal(ended("--html", "/nowhere/race.html", cache, "/nowhere/race.html cannot be written: No such file"),
	                 2);
	assert_int_equal(ended("--svg", "/nowhere", cache, "nothing can be written to /nowhere: No such file"), 2);
	assert_int_equal(ended("--redis-url", "unix:///nowhere/s", cache, "cannot connect to Redis at /nowhere/s"), 3);
}

/* Its database is its own: it is asked as any client may, and nothing of it is left to sell. */
static void a_service_that_runs_is_raced_too(void **state)
{
	struct service service;
	service_start(&service, NULL);
	struct command command = command_run((const char *[]){"race", SHORT, "--url", service.url, "--key",
	                                                      service.key_admin, NULL},
	                                     (const char *[]){database, cache, NULL});
	json_t *race = raced(&command), *steps = json_object_get(cache_of(race, "lastunit"), "steps");
	assert_int_equal(json_array_size(steps), 3);
	assert_string_equal(said(steps, 2), "looks: 0 left");
	assert_int_equal(number(cache_of(race, "lastunit"), "stale"), 0);
	assert_string_equal(pg_server_ask(service.database_url, "SELECT coalesce(sum(on_hand), 0) FROM lastunit.sku"), "0");
	assert_int_equal(service_audit(&service), 0);
	json_decref(race);
	command_done(&command);
	assert_int_equal(service_stop(&service), 0);
}

static char *asked_redis(const char *line)
{
	char *answer = redis_server_command(&redis, line);
	assert_non_null(answer);
	return answer;
}

/* All that are there, and those of them without a TTL. */
static void count_keys(size_t *ret_keys, size_t *ret_for_ever)
{
	char *keys = asked_redis("KEYS *"), *save = NULL;
	*ret_keys = *ret_for_ever = 0;
	for (char *key = strtok_r(keys, "\n", &save); key; key = strtok_r(NULL, "\n", &save)) {
		char line[300];
		snprintf(line, sizeof line, "TTL %s", key);
		char *ttl = asked_redis(line);
		*ret_keys += 1;
		if (strcmp(ttl, "-1") == 0) {
			*ret_for_ever += 1;
			print_error("%s has no TTL\n", key);
		}
		free(ttl);
	}
	free(keys);
}

/* The last kind of control has put its counters: the keys of all the others lie there, too. */
static void a_race_that_is_killed_leaves_no_key_for_ever(void **state)
{
	size_t keys, for_ever;
	bool counted = false;
	struct command command = command_start((const char *[]){"race", "--strategy", "atomic", "--workload", "hot",
	                                                        "--buyers", "1", "--run-ms", "1000", "--no-timeline", NULL},
	                                       (const char *[]){database, cache, NULL});
	for (int i = 0; i < WAITS && !counted; i++) {
		char *found = asked_redis("KEYS *channel-counter-many:1");
		counted = *found != '\0';
		free(found);
		usleep(counted ? 0 : 10000);
	}
	kill(command.pid, SIGKILL);
	command_wait(&command);
	command_done(&command);
	assert_true(counted);
	char *guards = asked_redis("KEYS lu:*!open");
	assert_true(*guards != '\0');
	free(guards);
	count_keys(&keys, &for_ever);
	assert_true(keys > 4);
	assert_int_equal(for_ever, 0);
}

static int start(void **state)
{
	pg_server_start(&pg, NULL);
	redis_server_start(&redis, NULL);
	snprintf(database, sizeof database, "LASTUNIT_DATABASE_URL=%s", pg.url);
	snprintf(cache, sizeof cache, "LASTUNIT_REDIS_URL=%s", redis.url);
	return mkdtemp(directory) == NULL;
}

static int end(void **state)
{
	rmdir(directory);
	redis_server_stop(&redis);
	pg_server_done(&pg);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_control_shows_what_is_gone_ours_does_not_and_no_key_is_left),
		cmocka_unit_test(without_redis_no_cache_is_raced_and_says_so),
		cmocka_unit_test(what_would_fail_at_the_end_fails_at_the_beginning),
		cmocka_unit_test(a_service_that_runs_is_raced_too),
		cmocka_unit_test(a_race_that_is_killed_leaves_no_key_for_ever), /* the last: its database stays */
	};
	return cmocka_run_group_tests(tests, start, end);
}
