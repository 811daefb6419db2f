/* CHECK(): the end of a process that has met a bug. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/check.h"
#include "lib/dies.h"

static void a_true_condition_passes_and_is_evaluated_once(void **state)
{
	int evaluated = 0;
	CHECK(++evaluated == 1);
	assert_int_equal(evaluated, 1);
}

static void a_false_condition_ends_the_process(void **state)
{
	int zero = 0;
	assert_dies(CHECK(zero == 1));
}

static void the_last_line_names_file_line_and_condition(void **state)
{
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	pid_t child = fork();
	if (child == 0) {
		dup2(ends[1], STDERR_FILENO);
		check_failed("src/some/file.c", 4711, "stock >= 0");
	}
	close(ends[1]);
	char line[600] = {0};
	assert_true(read(ends[0], line, sizeof line - 1) > 0);
	close(ends[0]);
	waitpid(child, NULL, 0);
	assert_string_equal(line, "lastunit: bug: src/some/file.c:4711: CHECK(stock >= 0) failed\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_true_condition_passes_and_is_evaluated_once),
		cmocka_unit_test(a_false_condition_ends_the_process),
		cmocka_unit_test(the_last_line_names_file_line_and_condition),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
