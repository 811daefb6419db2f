/* Files built into the binary: there, sorted, ended by a NUL. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/embed.h"
#include "lib/dies.h"

static void every_file_is_found_by_its_name(void **state)
{
	assert_true(embedded_file_count > 0);
	for (size_t i = 0; i < embedded_file_count; i++) {
		struct text content = embed_find(embedded_files[i].name);
		assert_ptr_equal(content.data, embedded_files[i].content.data);
		assert_true(content.size > 0);
		assert_int_equal(content.data[content.size], 0);
	}
	assert_null(embedded_files[embedded_file_count].name);
}

static void files_are_sorted_by_name(void **state)
{
	for (size_t i = 1; i < embedded_file_count; i++)
		assert_true(strcmp(embedded_files[i - 1].name, embedded_files[i].name) < 0);
}

static void scripts_and_migrations_are_there(void **state)
{
	static const char *const starts[] = {"lua/", "sql/"};
	for (int i = 0; i < 2; i++) {
		size_t found = 0;
		for (size_t j = 0; j < embedded_file_count; j++)
			found += strncmp(embedded_files[j].name, starts[i], 4) == 0;
		assert_true(found > 0);
	}
}

static void a_file_that_is_not_there_is_a_bug(void **state)
{
	assert_dies(embed_find("lua/no_such_file.lua"));
	assert_dies(embed_find(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_file_is_found_by_its_name),
		cmocka_unit_test(files_are_sorted_by_name),
		cmocka_unit_test(scripts_and_migrations_are_there),
		cmocka_unit_test(a_file_that_is_not_there_is_a_bug),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
