/* Every scenario of tests/spec as one test (README.md). One that fails tells what happened step by step.
 *
 *	spec_test                   all of them
 *	spec_test late-fill …       these
 *
 * LASTUNIT_SYNC_BIN is the service with sync points (build/sync/lastunit); LASTUNIT_SPECS the directory of the files, if
 * it is not tests/spec below the working directory; LASTUNIT_SPEC_VERBOSE=1 tells every story. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "spec/bench.h"

#define FILES_MAX 400

static void a_scenario_goes_as_it_is_written(void **state)
{
	if (!bench_play(*state))
		fail_msg("%s did not go as it is written", (const char *)*state);
}

static bool wanted(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return true;
	return argc == 1;
}

int main(int argc, char **argv)
{
	static struct CMUnitTest tests[FILES_MAX];
	const char *directory = getenv("LASTUNIT_SPECS");
	char pattern[4000];
	glob_t found = {0};
	size_t count = 0;
	snprintf(pattern, sizeof pattern, "%s/*.spec", directory ? directory : "tests/spec");
	if (glob(pattern, 0, NULL, &found) != 0) {
		fprintf(stderr, "spec_test: no %s\n", pattern);
		return 2;
	}
	for (size_t i = 0; i < found.gl_pathc && count < FILES_MAX; i++) {
		char *path = found.gl_pathv[i], *name = strdup(strrchr(path, '/') + 1);
		name[strlen(name) - strlen(".spec")] = '\0';
		if (wanted(name, argc, argv))
			tests[count++] = (struct CMUnitTest){.name = name,
			                                     .test_func = a_scenario_goes_as_it_is_written,
			                                     .initial_state = path};
	}
	bench_servers_start();
	int failed = _cmocka_run_group_tests("scenarios", tests, count, NULL, NULL);
	bench_servers_stop();
	return count && !failed ? 0 : 1;
}
