/* JSON: what is refused, and that what we write is read back by another implementation as it was meant. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/json.h"

static json_t *parsed(struct text body)
{
	json_t *value = NULL;
	const char *why = NULL;
	if (json_parse(body, &value, &why) != LU_OK)
		fail_msg("%.*s: %s", (int)body.size, body.data, why);
	return value;
}

static void assert_refused(struct text body, const char *reason)
{
	json_t untouched, *value = &untouched;
	const char *why = NULL;
	assert_int_equal(json_parse(body, &value, &why), LU_MALFORMED_REQUEST);
	assert_ptr_equal(value, &untouched);
	assert_non_null(why);
	if (!strstr(why, reason))
		fail_msg("expected \"%s\" in \"%s\"", reason, why);
}

static void any_one_value_is_taken(void **state)
{
	const struct text good[] = {
		TEXT("{}"),   TEXT("[]"),       TEXT(" {\"a\": [1, 2]} \r\n\t"), TEXT("1"),
		TEXT("null"), TEXT("\"x\""),    TEXT("{\"a\":1,\"A\":2}"),       TEXT("\"\\\"[{\""),
		TEXT("true"), TEXT("\"\\\\\""),
	};
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
		json_decref(parsed(good[i]));
}

static void what_is_not_exactly_one_value_is_refused_with_a_reason(void **state)
{
	assert_refused(TEXT(""), "empty");
	assert_refused((struct text){NULL, 0}, "empty");
	assert_refused(TEXT("   "), "ends too soon");
	assert_refused(TEXT("{\"quantity\":1"), "ends too soon");
	assert_refused(TEXT("\"abc"), "ends too soon");
	assert_refused(TEXT("{\"a\":1} x"), "follows");
	assert_refused(TEXT("{}{}"), "follows");
	static const char *const wrong[] = {"-",          "1e",   "+1",  ".5", "NaN",     "Infinity", "{'a':1}",
	                                    "{\"a\":1,}", "[1,]", "nul", "01", "// c\n1", "\"a\nb\"", "\xef\xbb\xbf{}"};
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
		assert_refused((struct text){wrong[i], strlen(wrong[i])}, "syntax");
}

static void twin_keys_are_refused(void **state)
{
	assert_refused(TEXT("{\"sku\":\"A\",\"quantity\":1,\"quantity\":100}"), "same key twice");
	assert_refused(TEXT("{\"a\":{\"b\":1,\"\\u0062\":2}}"), "same key twice");
}

static void nul_is_refused_in_every_disguise(void **state)
{
	assert_refused(TEXT("\"ABC\\u0000DEF\""), "\\u0000");
	assert_refused(TEXT("{\"a\\u0000\":1}"), "\\u0000");
	assert_refused(TEXT("{}\0"), "NUL byte");
	assert_refused(TEXT("{}\0{}"), "NUL byte");
	assert_refused(TEXT("\"a\0b\""), "NUL byte");
	assert_refused(TEXT("\"a\\\0b\""), "NUL byte");
}

static void what_is_not_unicode_is_refused(void **state)
{
	assert_refused(TEXT("\"\xff\""), "UTF-8");
	assert_refused(TEXT("\"\xc0\xaf\""), "UTF-8");
	assert_refused(TEXT("\"\xed\xa0\x80\""), "UTF-8");
	assert_refused(TEXT("\"\\ud800\""), "");
	assert_refused(TEXT("\"\\ud800\\u0041\""), "");
	assert_refused(TEXT("\"\\udc00\""), "");
}

static void the_reason_repeats_nothing_of_the_body(void **state)
{
	json_t *value;
	const char *why;
	assert_int_equal(json_parse(TEXT("{\"secret\":1,\"secret\":2}"), &value, &why), LU_MALFORMED_REQUEST);
	assert_null(strstr(why, "secret"));
	assert_non_null(strstr(why, "line 1"));
}

static void nesting_is_taken_to_64_levels_and_no_deeper(void **state)
{
	static char body[200002];
	memset(body, '[', 64);
	memset(body + 64, ']', 64);
	json_decref(parsed((struct text){body, 128}));
	memset(body, '[', 65);
	memset(body + 65, ']', 65);
	assert_refused((struct text){body, 130}, "deep");
	memset(body, '[', 100000);
	memset(body + 100000, ']', 100000);
	assert_refused((struct text){body, 200000}, "deep");
	assert_refused((struct text){body, 100000}, "deep");
	for (int i = 0; i + 5 <= 200000; i += 5)
		memcpy(body + i, "{\"a\":", 5);
	assert_refused((struct text){body, 200000}, "deep");
}

static void brackets_in_a_string_and_side_by_side_are_not_depth(void **state)
{
	char body[4000];
	body[0] = '"';
	memset(body + 1, '[', 200);
	memcpy(body + 50, "\\\"", 2);
	memcpy(body + 60, "\\\\", 2);
	body[201] = '"';
	json_decref(parsed((struct text){body, 202}));
	body[0] = '[';
	for (int i = 0; i < 1000; i++)
		memcpy(body + 1 + i * 3, "[],", 3);
	memcpy(body + 3001, "1]", 2);
	json_decref(parsed((struct text){body, 3003}));
	/* and a string that ends in an escaped backslash has ended */
	char tricky[300] = "[\"\\\\\",";
	memset(tricky + 6, '[', 100);
	assert_refused((struct text){tricky, 106}, "deep");
	/* nor does one in a string make it shallower again */
	for (int i = 0; i < 65; i++)
		memcpy(body + i * 5, "[\"]\",", 5);
	assert_refused((struct text){body, 325}, "deep");
}

/* A megabyte of "{}," is 350,000 values, 80 MB and a quarter of a second of the loop that reads it. */
static void a_crowd_of_values_is_refused_before_any_is_made(void **state)
{
	static char body[1024 * 1024];
	static const char *const pieces[] = {"{},", "[],", "0,", "\"\",", "{\"\":0},"};
	json_t *value;
	const char *why;
	for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
		size_t size = 1, piece = strlen(pieces[i]);
		for (body[0] = '['; size + piece < sizeof body; size += piece)
			memcpy(body + size, pieces[i], piece);
		body[size - 1] = ']';
		assert_int_equal(json_parse_bounded((struct text){body, size}, 20000, &value, &why), LU_PAYLOAD_TOO_LARGE);
		assert_non_null(strstr(why, "20000 values"));
	}
}

static void as_many_values_as_are_allowed_are_taken(void **state)
{
	json_t *value;
	const char *why;
	const struct text four = TEXT("{\"a\":[1,2]}"), one = TEXT("\"[,{,\"");
	assert_int_equal(json_parse_bounded(four, 4, &value, &why), LU_OK);
	json_decref(value);
	assert_int_equal(json_parse_bounded(four, 3, &value, &why), LU_PAYLOAD_TOO_LARGE);
	assert_int_equal(json_parse_bounded(one, 1, &value, &why), LU_OK);
	json_decref(value);
}

static void integers_are_exact_and_never_made_of_reals(void **state)
{
	json_t *list = parsed(TEXT("[1, 9007199254740993, 9223372036854775807, -9223372036854775808, 1.0, 1e0, \"1\"]"));
	assert_true(json_is_integer(json_array_get(list, 0)));
	assert_int_equal(json_integer_value(json_array_get(list, 1)), INT64_C(9007199254740993));
	assert_int_equal(json_integer_value(json_array_get(list, 2)), INT64_MAX);
	assert_int_equal(json_integer_value(json_array_get(list, 3)), INT64_MIN);
	for (size_t i = 4; i < 7; i++)
		assert_false(json_is_integer(json_array_get(list, i)));
	json_decref(list);
	assert_refused(TEXT("9223372036854775808"), "too large");
	assert_refused(TEXT("1e999"), "too large");
}

static void a_string_is_counted(void **state)
{
	json_t *value = parsed(TEXT("\"caf\\u00e9\""));
	struct text text = json_text(value);
	assert_int_equal(text.size, 5);
	assert_memory_equal(text.data, "caf\xc3\xa9", 5);
	json_decref(value);
}

static void a_member_that_is_no_string_has_no_text(void **state)
{
	json_t *value = parsed(TEXT("{\"name\":\"fox\",\"empty\":\"\",\"count\":1,\"nothing\":null}"));
	assert_int_equal(json_text_at(value, "name").size, 3);
	assert_non_null(json_text_at(value, "empty").data);
	assert_int_equal(json_text_at(value, "empty").size, 0);
	assert_null(json_text_at(value, "count").data);
	assert_null(json_text_at(value, "nothing").data);
	assert_null(json_text_at(value, "missing").data);
	assert_null(json_text_at(json_object_get(value, "name"), "name").data);
	assert_null(json_text_at(NULL, "name").data);
	json_decref(value);
}

static struct buffer out;

static int open_out(void **state)
{
	out = (struct buffer){0};
	return 0;
}

static int close_out(void **state)
{
	buffer_done(&out);
	return 0;
}

static void assert_written(const char *expected)
{
	buffer_add_char(&out, 0);
	assert_string_equal(out.data, expected);
	buffer_clear(&out);
}

static void commas_stand_where_they_belong(void **state)
{
	struct json_writer w = json_writer(&out);
	json_object_open(&w);
	json_key(&w, "empty");
	json_array_open(&w);
	json_array_close(&w);
	json_key(&w, "list");
	json_array_open(&w);
	json_put_int(&w, -1);
	json_put_int(&w, 10);
	json_put_bool(&w, true);
	json_put_bool(&w, false);
	json_put_null(&w);
	json_object_open(&w);
	json_object_close(&w);
	json_object_open(&w);
	json_key(&w, "a");
	json_put_string(&w, "");
	json_object_close(&w);
	json_put_raw(&w, TEXT("[1, 2]"));
	json_put_text(&w, TEXT("x"));
	json_array_close(&w);
	json_key(&w, "n");
	json_put_int(&w, INT64_MIN);
	json_object_close(&w);
	assert_written(
		"{\"empty\":[],\"list\":[-1,10,true,false,null,{},{\"a\":\"\"},[1, 2],\"x\"],\"n\":-9223372036854775808}");
}

static void a_jsonb_loses_the_blanks_between_only(void **state)
{
	struct json_writer w = json_writer(&out);
	json_put_jsonb(&w, TEXT("{\"en\": \"A \\\"B, c\\\": d\\\\\", \"x\": [1, {}]}"));
	assert_written("{\"en\":\"A \\\"B, c\\\": d\\\\\",\"x\":[1,{}]}");
}

static void ids_and_times_are_strings(void **state)
{
	struct json_writer w = json_writer(&out);
	struct uuid id;
	assert_true(uuid_parse(TEXT("0123abcd-4567-89ab-cdef-0123456789ab"), &id));
	json_array_open(&w);
	json_put_uuid(&w, &id);
	json_put_time(&w, INT64_C(1795959900123456));
	json_put_uuid(&w, &id);
	json_array_close(&w);
	assert_written(
		"[\"0123abcd-4567-89ab-cdef-0123456789ab\",\"2026-11-29T13:45:00.123Z\","
		"\"0123abcd-4567-89ab-cdef-0123456789ab\"]");
}

static void a_member_that_is_not_there_is_null(void **state)
{
	struct json_writer w = json_writer(&out);
	const struct uuid nil = {{0}}, id = {{1}};
	json_object_open(&w);
	json_member_text(&w, "a", (struct text){0});
	json_member_text(&w, "b", TEXT(""));
	json_member_string(&w, "c", "x");
	json_member_int(&w, "d", 0);
	json_member_bool(&w, "e", false);
	json_member_uuid(&w, "f", &nil);
	json_member_uuid(&w, "g", &id);
	json_member_time(&w, "h", 0);
	json_member_time(&w, "i", 1000);
	json_object_close(&w);
	assert_written(
		"{\"a\":null,\"b\":\"\",\"c\":\"x\",\"d\":0,\"e\":false,\"f\":null,"
		"\"g\":\"01000000-0000-0000-0000-000000000000\",\"h\":null,\"i\":\"1970-01-01T00:00:00.001Z\"}");
}

static void escapes_are_the_short_ones_where_there_are(void **state)
{
	struct json_writer w = json_writer(&out);
	json_put_text(&w, TEXT("\"\\/\b\f\n\r\t\x01\x1f\x7f"));
	assert_written("\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\"");
	w = json_writer(&out);
	json_put_text(&w, TEXT("\xe2\x80\xa8|\xe2\x80\xa9|\xe2\x80\xa7|\xe2\x82\xac"));
	assert_written("\"\\u2028|\\u2029|\xe2\x80\xa7|\xe2\x82\xac\"");
	w = json_writer(&out);
	json_put_text(&w, (struct text){NULL, 0});
	assert_written("\"\"");
}

/* jansson is the other implementation. Each special character, at each place of a run longer than a machine word. */
static void every_text_is_read_back_as_it_was(void **state)
{
	static const char *const specials[] =
		{"\"",           "\\",           "\n",           "\x01", "\x1f", "\x20",
	     "\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaa", "\x7f", "\x21", "\x23",
	     "\xe2\x82\xac", "\xe3\x80\xa8", "\xc3\xa9",     "[",    "]",    "\xf0\x9f\x98\x80"};
	for (size_t s = 0; s < sizeof specials / sizeof specials[0]; s++)
		for (size_t size = 0; size < 24; size++)
			for (size_t at = 0; at <= size; at++) {
				char text[64];
				size_t special = strlen(specials[s]);
				memset(text, 'a', at);
				memcpy(text + at, specials[s], special);
				memset(text + at + special, 'b', size - at);
				struct text original = {text, size + special};
				struct json_writer w = json_writer(&out);
				buffer_clear(&out);
				json_put_text(&w, original);
				json_t *value = parsed(buffer_text(&out));
				struct text again = json_text(value);
				assert_int_equal(again.size, original.size);
				assert_memory_equal(again.data, original.data, original.size);
				json_decref(value);
			}
}

static void a_text_of_nothing_but_escapes_finds_room(void **state)
{
	static char text[10000];
	memset(text, 1, sizeof text);
	struct json_writer w = json_writer(&out);
	json_put_text(&w, (struct text){text, sizeof text});
	assert_int_equal(out.size, 6 * sizeof text + 2);
	assert_memory_equal(out.data + out.size - 7, "\\u0001\"", 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_one_value_is_taken),
		cmocka_unit_test(what_is_not_exactly_one_value_is_refused_with_a_reason),
		cmocka_unit_test(twin_keys_are_refused),
		cmocka_unit_test(nul_is_refused_in_every_disguise),
		cmocka_unit_test(what_is_not_unicode_is_refused),
		cmocka_unit_test(the_reason_repeats_nothing_of_the_body),
		cmocka_unit_test(nesting_is_taken_to_64_levels_and_no_deeper),
		cmocka_unit_test(brackets_in_a_string_and_side_by_side_are_not_depth),
		cmocka_unit_test(a_crowd_of_values_is_refused_before_any_is_made),
		cmocka_unit_test(as_many_values_as_are_allowed_are_taken),
		cmocka_unit_test(integers_are_exact_and_never_made_of_reals),
		cmocka_unit_test(a_string_is_counted),
		cmocka_unit_test(a_member_that_is_no_string_has_no_text),
		cmocka_unit_test_setup_teardown(commas_stand_where_they_belong, open_out, close_out),
		cmocka_unit_test_setup_teardown(a_jsonb_loses_the_blanks_between_only, open_out, close_out),
		cmocka_unit_test_setup_teardown(ids_and_times_are_strings, open_out, close_out),
		cmocka_unit_test_setup_teardown(a_member_that_is_not_there_is_null, open_out, close_out),
		cmocka_unit_test_setup_teardown(escapes_are_the_short_ones_where_there_are, open_out, close_out),
		cmocka_unit_test_setup_teardown(every_text_is_read_back_as_it_was, open_out, close_out),
		cmocka_unit_test_setup_teardown(a_text_of_nothing_but_escapes_finds_room, open_out, close_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
