/* What the quick reader of look-ups takes, and what it leaves to the parser. */
#include "api/plain_skus.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/text.h"

static struct arena arena;

static int setup(void **state)
{
	arena_init(&arena, 1024);
	return 0;
}

static int teardown(void **state)
{
	arena_done(&arena);
	return 0;
}

static void plain_bodies_are_read(void **state)
{
	static const struct {
		const char *body;
		size_t count;
		const char *last;
	} rows[] = {
		{"{\"skus\":[\"A\"]}", 1, "A"},
		{"{\"skus\":[\"A\",\"B\",\"A\"]}", 3, "A"},
		{" {\n\t\"skus\" : [ \"A\" , \"чашка b\" ] }\r\n", 2, "чашка b"},
		{"{\"skus\":[\"]}\"]}", 1, "]}"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct text *skus;
		size_t count;
		assert_true(plain_skus(text_of(rows[i].body), &arena, &skus, &count));
		assert_int_equal(count, rows[i].count);
		assert_true(text_equal(skus[count - 1], text_of(rows[i].last)));
	}
}

static void all_else_is_left_to_the_parser(void **state)
{
	static const char *const bodies[] = {"",
	                                     "{",
	                                     "{}",
	                                     "[]",
	                                     "{\"skus\":[]}",
	                                     "{\"skus\":[\"\"]}",
	                                     "{\"skus\":[\"A \"]}",
	                                     "{\"skus\":[\"A\\u0042\"]}",
	                                     "{\"skus\":[\"A\\\"\"]}",
	                                     "{\"skus\":[\"A\xff\"]}",
	                                     "{\"skus\":[\"A\nB\"]}",
	                                     "{\"skus\":[\"A\",]}",
	                                     "{\"skus\":[,\"A\"]}",
	                                     "{\"skus\":[\"A\" \"B\"]}",
	                                     "{\"skus\":[1]}",
	                                     "{\"skus\":\"A\"}",
	                                     "{\"SKUS\":[\"A\"]}",
	                                     "{\"skus\":[\"A\"],\"skus\":[\"A\"]}",
	                                     "{\"skus\":[\"A\"]}x",
	                                     "{\"skus\":[\"A\"]",
	                                     "{\"skus\":[\"A\"",
	                                     "{\"skus\":[\"A",
	                                     "\xef\xbb\xbf{\"skus\":[\"A\"]}",
	                                     "\f{\"skus\":[\"A\"]}"};
	for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
		struct text *skus;
		size_t count;
		if (plain_skus(text_of(bodies[i]), &arena, &skus, &count))
			fail_msg("taken: %s", bodies[i]);
	}
}

static void as_many_as_may_be_asked_for_and_no_more(void **state)
{
	for (size_t wanted = LU_LOOKUP_MAX; wanted <= LU_LOOKUP_MAX + 1; wanted++) {
		char body[LU_LOOKUP_MAX * 8 + 32], *at = body + sprintf(body, "{\"skus\":[");
		for (size_t i = 0; i < wanted; i++)
			at += sprintf(at, "%s\"%zu\"", i ? "," : "", i % 10);
		strcpy(at, "]}");
		struct text *skus;
		size_t count;
		assert_int_equal(plain_skus(text_of(body), &arena, &skus, &count), wanted == LU_LOOKUP_MAX);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(plain_bodies_are_read, setup, teardown),
		cmocka_unit_test_setup_teardown(all_else_is_left_to_the_parser, setup, teardown),
		cmocka_unit_test_setup_teardown(as_many_as_may_be_asked_for_and_no_more, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
