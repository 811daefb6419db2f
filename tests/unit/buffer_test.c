/* The buffer: it grows, keeps every byte, and spells integers exactly. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/text.h"

static void assert_holds(const struct buffer *buffer, const char *expected)
{
	assert_int_equal(buffer->size, strlen(expected));
	assert_memory_equal(buffer->data, expected, buffer->size);
}

static void bytes_of_every_kind_follow_each_other(void **state)
{
	struct buffer buffer = {0};
	buffer_add(&buffer, "ab", 2);
	buffer_add_text(&buffer, TEXT("cd"));
	buffer_add_string(&buffer, "ef");
	buffer_add_char(&buffer, 'g');
	buffer_add_int(&buffer, -12);
	buffer_add_format(&buffer, "<%d|%s>", 7, "x");
	assert_holds(&buffer, "abcdefg-12<7|x>");
	buffer_done(&buffer);
}

static void a_field_of_csv_is_quoted_where_it_must_be(void **state)
{
	static const char *const fields[][2] = {{"", ""},
	                                        {"red mug; 350 ml", "red mug; 350 ml"},
	                                        {"a,b", "\"a,b\""},
	                                        {"6\" nail", "\"6\"\" nail\""},
	                                        {"two\nlines", "\"two\nlines\""},
	                                        {"two\rlines", "\"two\rlines\""}};
	for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
		struct buffer buffer = {0};
		buffer_add_csv(&buffer, text_of(fields[i][0]));
		assert_holds(&buffer, fields[i][1]);
		buffer_done(&buffer);
	}
}

static void nothing_may_be_added_to_an_empty_buffer(void **state)
{
	struct buffer buffer = {0};
	buffer_add(&buffer, NULL, 0);
	buffer_add_text(&buffer, (struct text){NULL, 0});
	buffer_add_string(&buffer, "");
	assert_int_equal(buffer_text(&buffer).size, 0);
	buffer_done(&buffer);
}

static void it_grows_and_keeps_every_byte(void **state)
{
	struct buffer buffer = {0};
	for (int i = 0; i < 100000; i++)
		buffer_add_char(&buffer, (char)i);
	assert_int_equal(buffer.size, 100000);
	for (int i = 0; i < 100000; i++)
		assert_int_equal(buffer.data[i], (char)i);
	assert_true(buffer.room < 4 * buffer.size);
	buffer_done(&buffer);
}

static void clear_keeps_the_room_and_done_gives_it_back(void **state)
{
	struct buffer buffer = {0};
	buffer_reserve(&buffer, 1000);
	size_t room = buffer.room;
	assert_true(room >= 1000);
	buffer_add_string(&buffer, "x");
	buffer_clear(&buffer);
	assert_int_equal(buffer.size, 0);
	assert_int_equal(buffer.room, room);
	buffer_done(&buffer);
	assert_null(buffer.data);
	assert_int_equal(buffer.room, 0);
	buffer_done(&buffer);
}

static void reserve_makes_exactly_the_promise_it_gives(void **state)
{
	struct buffer buffer = {0};
	for (size_t more = 1; more < 5000; more = more * 3 + 1) {
		buffer_reserve(&buffer, more);
		assert_true(buffer.room - buffer.size >= more);
		memset(buffer.data + buffer.size, 'x', more);
		buffer.size += more;
	}
	buffer_done(&buffer);
}

static void integers_are_spelt_as_printf_spells_them(void **state)
{
	struct buffer buffer = {0};
	int64_t values[200] = {0, 1, -1, 9, 10, 99, 100, 101, INT64_MAX, INT64_MIN, INT64_MIN + 1, 1000000000000000};
	size_t count = 12;
	for (int64_t power = 1; power < INT64_MAX / 10; power *= 10) {
		values[count++] = power - 1;
		values[count++] = power;
		values[count++] = -power;
		values[count++] = power * 9 + 5;
	}
	for (size_t i = 0; i < count; i++) {
		char expected[32];
		snprintf(expected, sizeof expected, "%" PRId64, values[i]);
		buffer_clear(&buffer);
		buffer_add_int(&buffer, values[i]);
		assert_holds(&buffer, expected);
	}
	buffer_done(&buffer);
}

static void a_format_longer_than_the_room_is_written_whole(void **state)
{
	struct buffer buffer = {0};
	/* each length around the first room, where the NUL of vsnprintf just fits or just does not */
	for (int width = 1; width < 600; width++) {
		struct buffer fresh = {0};
		buffer_add_char(&fresh, '>');
		buffer_add_format(&fresh, "%0*d", width, 1);
		assert_int_equal(fresh.size, 1 + width);
		assert_int_equal(fresh.data[width], '1');
		assert_int_equal(fresh.data[0], '>');
		buffer_done(&fresh);
		buffer_add_format(&buffer, "%0*d", width, 1);
		assert_int_equal(buffer.data[buffer.size - 1], '1');
	}
	buffer_done(&buffer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_of_every_kind_follow_each_other),
		cmocka_unit_test(a_field_of_csv_is_quoted_where_it_must_be),
		cmocka_unit_test(nothing_may_be_added_to_an_empty_buffer),
		cmocka_unit_test(it_grows_and_keeps_every_byte),
		cmocka_unit_test(clear_keeps_the_room_and_done_gives_it_back),
		cmocka_unit_test(reserve_makes_exactly_the_promise_it_gives),
		cmocka_unit_test(integers_are_spelt_as_printf_spells_them),
		cmocka_unit_test(a_format_longer_than_the_room_is_written_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
