/* Excerpts: whole characters, never more units than allowed, and nothing cut that fits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "channels/excerpt.h"

static struct arena arena;

static const char *cut(const char *text, size_t units_max)
{
	return excerpt(&arena, text_of(text), units_max).data;
}

static void what_fits_is_left_alone(void **state)
{
	assert_string_equal(cut("", 1), "");
	assert_string_equal(cut("mug", 3), "mug");
	assert_string_equal(cut("чашка", 5), "чашка");
	assert_string_equal(cut("🫖🫖", 4), "🫖🫖");
}

static void what_does_not_fit_ends_behind_a_whole_character(void **state)
{
	assert_string_equal(cut("mugs", 3), "mu…");
	assert_string_equal(cut("чашка", 4), "чаш…");
	assert_string_equal(cut("m🫖🫖", 4), "m🫖…");
	assert_string_equal(cut("m🫖🫖", 3), "m…");
	assert_string_equal(cut("🫖", 1), "…");
}

static size_t units(struct text text)
{
	size_t count = 0;
	for (size_t i = 0; i < text.size; i++) {
		unsigned char c = (unsigned char)text.data[i];
		count += (c & 0xc0) != 0x80 ? 1 + (c >= 0xf0) : 0;
	}
	return count;
}

static void no_excerpt_is_longer_than_allowed(void **state)
{
	const struct text text = TEXT("aж🫖зb🫖🫖жc…🫖");
	for (size_t max = 1; max < 20; max++) {
		struct text short_one = excerpt(&arena, text, max);
		assert_true(text_is_utf8(short_one));
		assert_in_range(units(short_one), units(text) < max ? units(text) : max - (max > 1), max);
	}
}

static int start(void **state)
{
	arena_init(&arena, 65536);
	return 0;
}

static int end(void **state)
{
	arena_done(&arena);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_fits_is_left_alone),
		cmocka_unit_test(what_does_not_fit_ends_behind_a_whole_character),
		cmocka_unit_test(no_excerpt_is_longer_than_allowed),
	};
	return cmocka_run_group_tests(tests, start, end);
}
