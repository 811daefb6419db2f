/* What weakens a promise, as a sentence: told whole, or cut between two characters (inventory/weakness.h). */
#include "inventory/weakness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"

/* Names of roles may be in any script: /readyz must stay JSON whatever they are. */
static void a_long_sentence_is_cut_between_two_characters(void **state)
{
	struct arena arena;
	arena_init(&arena, 1024);
	struct weaknesses list = {.arena = &arena};
	char names[1000] = "";
	for (int i = 0; i < 300; i++)
		strcat(names, "店");
	for (int i = 0; i < 3; i++)
		weakness_add(&list, "x", "", "%.*s%s", i, "aa", names);
	for (size_t i = 0; i < list.count; i++) {
		assert_true(text_is_utf8(text_of(list.items[i].sentence)));
		assert_true(strlen(list.items[i].sentence) > 600);
	}
	arena_done(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_long_sentence_is_cut_between_two_characters),
	};
	return cmocka_run_group_tests_name("weakness", tests, NULL, NULL);
}
