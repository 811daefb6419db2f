/* CSV as it really comes: BOMs, three kinds of line ends, quotes, other encodings; and where the line numbers point.
 *
 * Bugs it guards against (B69, B66): "7\r" as a quantity, a quoted field split at its line end, a blank trimmed off a
 * SKU code, a wrong separator taken for one wide column, an unclosed quote that swallows the rest of the file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/text.h"
#include "cmd/csv_rows.h"

/* What came, as "line:field|field\n" per row. */
struct seen {
	struct buffer text;
	int stop_after; /* rows; 0: never */
	int rows;
};

static bool on_row(const struct csv_row *row, void *context)
{
	struct seen *seen = context;
	buffer_add_format(&seen->text, "%lld:", (long long)row->line);
	for (size_t i = 0; i < row->count; i++) {
		if (i)
			buffer_add_char(&seen->text, '|');
		buffer_add_text(&seen->text, row->fields[i]);
	}
	buffer_add_char(&seen->text, '\n');
	return ++seen->rows != seen->stop_after;
}

static void assert_rows_of(struct text file, const struct csv_format *format, const char *expected,
                           const char *expected_why)
{
	struct seen seen = {0};
	char why[CSV_WHY_BYTES] = "untouched";
	bool ok = csv_rows_read(file, format, on_row, &seen, why);
	buffer_add_char(&seen.text, '\0');
	assert_string_equal(seen.text.data, expected);
	assert_int_equal(ok, !*expected_why);
	if (!strstr(why, expected_why) || (!*expected_why && *why))
		fail_msg("\"%s\" should contain \"%s\"", why, expected_why);
	buffer_done(&seen.text);
}

#define ROWS(file, expected) assert_rows_of(TEXT(file), &(struct csv_format){0}, expected, "")
#define BROKEN(file, expected, why) assert_rows_of(TEXT(file), &(struct csv_format){0}, expected, why)

static void lf_crlf_and_a_lone_cr_end_a_line(void **state)
{
	ROWS("a,b\n1,2\n", "1:a|b\n2:1|2\n");
	ROWS("a,b\r\n1,2\r\n", "1:a|b\n2:1|2\n");
	ROWS("a,b\r1,2\r", "1:a|b\n2:1|2\n");
	ROWS("a,b\n1,2", "1:a|b\n2:1|2\n");
	ROWS("a,b\r\n1,7\r", "1:a|b\n2:1|7\n");
}

static void blank_lines_are_no_rows_but_are_counted(void **state)
{
	ROWS("\n\na\n\n\r\nb\n\n", "3:a\n6:b\n");
	ROWS("", "");
	ROWS("\r\n\r\n", "");
}

static void a_byte_order_mark_is_not_part_of_the_first_name(void **state)
{
	ROWS("\xef\xbb\xbfsku,delta\nA,1\n", "1:sku|delta\n2:A|1\n");
}

static void quotes_hold_separators_quotes_and_line_ends(void **state)
{
	ROWS("\"A\",\"7\"\n", "1:A|7\n");
	ROWS("\"x, y\",1\n", "1:x, y|1\n");
	ROWS("\"7\"\" single\",1\n", "1:7\" single|1\n");
	ROWS("\"\",\n", "1:|\n");
}

static void a_row_has_the_line_it_begins_on(void **state)
{
	ROWS("h\n\"one\r\ntwo\nthree\"\nlast\n", "1:h\n2:one\r\ntwo\nthree\n5:last\n");
}

static void nothing_is_trimmed(void **state)
{
	ROWS(" A ,\tB,C \n", "1: A |\tB|C \n");
	ROWS("\" A \"\n", "1: A \n");
}

static void another_separator_can_be_named(void **state)
{
	assert_rows_of(TEXT("a;b,c\n1;2\n"), &(struct csv_format){.separator = ';'}, "1:a|b,c\n2:1|2\n", "");
	assert_rows_of(TEXT("a\tb\n"), &(struct csv_format){.separator = '\t'}, "1:a|b\n", "");
}

static void an_unclosed_quote_refuses_the_file_at_the_row_it_opens_in(void **state)
{
	BROKEN("a\n\"b\nc\nd\n", "1:a\n", "line 2: a quote is opened and never closed");
	BROKEN("a\nb\n\"", "1:a\n2:b\n", "line 3: a quote is opened");
}

static void a_stray_quote_is_not_guessed_at(void **state)
{
	BROKEN("a\nx\"y\nc\n", "1:a\n", "line 2: a quote inside a field");
	BROKEN("a\n\"x\"y\nc\n", "1:a\n", "line 2: a quote inside a field");
}

static void bytes_that_are_not_utf8_name_their_line(void **state)
{
	BROKEN("a\nok\n\xa3 5\nc\n", "1:a\n2:ok\n", "line 3: not UTF-8; name the file's encoding");
	BROKEN("a\nx\0y\n", "1:a\n", "line 2: not UTF-8");
	BROKEN(
		"\xff\xfe"
		"a\0,\0b\0",
		"", "--encoding UTF-16");
}

static void other_encodings_are_decoded(void **state)
{
	assert_rows_of(TEXT("a\r\n\xa3"
	                    "5\r\n"),
	               &(struct csv_format){.encoding = "ISO-8859-1"},
	               "1:a\n2:\xc2\xa3"
	               "5\n",
	               "");
	assert_rows_of(TEXT("\xff\xfe"
	                    "a\0,\0b\0\n\0"),
	               &(struct csv_format){.encoding = "UTF-16"}, "1:a|b\n", "");
	assert_rows_of(TEXT("\xcf\xf0\n"), &(struct csv_format){.encoding = "WINDOWS-1251"}, "1:\xd0\x9f\xd1\x80\n", "");
	assert_rows_of(TEXT("a\n"), &(struct csv_format){.encoding = "KLINGON-1"}, "",
	               "the encoding KLINGON-1 is not known");
	assert_rows_of(TEXT("a\nb\n\x81\n"), &(struct csv_format){.encoding = "ASCII"}, "", "line 3: bytes that are none");
	assert_rows_of(TEXT("a\n\0"), &(struct csv_format){.encoding = "UTF-16LE"}, "", "the file ends within a character");
}

static void the_receiver_may_stop_and_that_is_no_fault(void **state)
{
	struct seen seen = {.stop_after = 2};
	char why[CSV_WHY_BYTES];
	assert_true(csv_rows_read(TEXT("1\n2\n3\n\"never closed"), &(struct csv_format){0}, on_row, &seen, why));
	assert_int_equal(seen.rows, 2);
	buffer_done(&seen.text);
}

static bool count_row(const struct csv_row *row, void *context)
{
	*(size_t *)context += row->count;
	return true;
}

/* `count` times the same byte between a head and a tail. */
static bool read_long(const char *head, char c, size_t count, const char *tail, char why[CSV_WHY_BYTES],
                      size_t *ret_fields)
{
	struct buffer file = {0};
	buffer_add_string(&file, head);
	buffer_reserve(&file, count);
	memset(file.data + file.size, c, count);
	file.size += count;
	buffer_add_string(&file, tail);
	*ret_fields = 0;
	bool ok = csv_rows_read(buffer_text(&file), &(struct csv_format){0}, count_row, ret_fields, why);
	buffer_done(&file);
	return ok;
}

static void a_field_has_a_mebibyte_and_a_row_256_columns(void **state)
{
	char why[CSV_WHY_BYTES];
	size_t fields;
	assert_true(read_long("h\n", 'x', 1 << 20, "\nend\n", why, &fields));
	assert_int_equal(fields, 3);
	assert_false(read_long("h\n", 'x', (1 << 20) + 1, "\nend\n", why, &fields));
	assert_string_equal(why, "line 2: a field has more than 1 MiB");
	assert_false(read_long("h\n\"", 'x', 10 << 20, "\"\nend\n", why, &fields));
	assert_true(read_long("", ',', 255, "\n", why, &fields));
	assert_int_equal(fields, 256);
	assert_false(read_long("", ',', 256, "\n", why, &fields));
	assert_string_equal(why, "line 1: more than 256 columns");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lf_crlf_and_a_lone_cr_end_a_line),
		cmocka_unit_test(blank_lines_are_no_rows_but_are_counted),
		cmocka_unit_test(a_byte_order_mark_is_not_part_of_the_first_name),
		cmocka_unit_test(quotes_hold_separators_quotes_and_line_ends),
		cmocka_unit_test(a_row_has_the_line_it_begins_on),
		cmocka_unit_test(nothing_is_trimmed),
		cmocka_unit_test(another_separator_can_be_named),
		cmocka_unit_test(an_unclosed_quote_refuses_the_file_at_the_row_it_opens_in),
		cmocka_unit_test(a_stray_quote_is_not_guessed_at),
		cmocka_unit_test(bytes_that_are_not_utf8_name_their_line),
		cmocka_unit_test(other_encodings_are_decoded),
		cmocka_unit_test(the_receiver_may_stop_and_that_is_no_fault),
		cmocka_unit_test(a_field_has_a_mebibyte_and_a_row_256_columns),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
