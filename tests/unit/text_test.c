/* Counted strings and the one rule for SKU codes, keys and references. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/text.h"

#define E_ACUTE "\xc3\xa9"       /* NFC */
#define E_THEN_ACUTE "e\xcc\x81" /* NFD: the same to the eye */

static void assert_sku(struct text code, enum lu_error expected)
{
	if (text_check_sku(code) != expected)
		fail_msg("SKU \"%.*s\" (%zu bytes) should be %s", (int)code.size, code.data ? code.data : "", code.size,
		         lu_error_code(expected));
}

static void ordinary_codes_are_taken(void **state)
{
	const struct text good[] = {
		TEXT("A"),
		TEXT("SKU123"),
		TEXT("red shoe, 42 (left)"),
		TEXT("100%s%n"),
		TEXT("a+b/c?d=e&f\"g\\h"),
		TEXT("~!@#$%^&*()_+{}|:<>?"),
		TEXT("Caf" E_ACUTE),
		TEXT("\xd0\x90\xd0\x91\xd0\x92"),             /* Cyrillic */
		TEXT("\xf0\x9f\x98\x80"),                     /* an emoji */
		TEXT("\xe4\xb8\xad\xe3\x80\x80\xe6\x96\x87"), /* a wide blank inside */
		TEXT("\xcd\xb8"),                             /* U+0378, not assigned yet */
	};
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
		assert_sku(good[i], LU_OK);
}

static void a_code_has_1_to_128_bytes(void **state)
{
	char bytes[129];
	memset(bytes, 'x', sizeof bytes);
	assert_sku((struct text){bytes, 0}, LU_INVALID_SKU);
	assert_sku((struct text){NULL, 0}, LU_INVALID_SKU);
	assert_sku((struct text){bytes, 1}, LU_OK);
	assert_sku((struct text){bytes, 128}, LU_OK);
	assert_sku((struct text){bytes, 129}, LU_INVALID_SKU);
	/* bytes, not characters; and letters that decompose to three and four code points fill the table inside */
	for (int i = 0; i < 128; i += 2)
		memcpy(bytes + i, "\xc7\x95", 2);
	assert_sku((struct text){bytes, 128}, LU_OK);
	for (int i = 0; i < 126; i += 3)
		memcpy(bytes + i, "\xe1\xbe\x82", 3);
	assert_sku((struct text){bytes, 126}, LU_OK);
}

static void every_byte_that_is_a_control_or_no_utf8_is_refused_anywhere(void **state)
{
	for (int c = 0; c < 256; c++) {
		if (c >= 0x20 && c != 0x7f && c < 0x80)
			continue;
		for (int at = 0; at < 3; at++) {
			char code[3] = {'a', 'b', 'c'};
			code[at] = (char)c;
			assert_sku((struct text){code, 3}, LU_INVALID_SKU);
		}
	}
}

static void what_cannot_be_seen_is_refused(void **state)
{
	const struct text bad[] = {
		TEXT("ABC\xe2\x80\x8b"),    /* U+200B zero-width space */
		TEXT("AB\xe2\x80\x8bZ"),    /* inside as well */
		TEXT("\xef\xbb\xbfZ"),      /* U+FEFF byte order mark */
		TEXT("A\xe2\x80\x8dZ"),     /* U+200D joiner */
		TEXT("A\xc2\xadZ"),         /* U+00AD soft hyphen */
		TEXT("A\xe2\x80\xaeZ"),     /* U+202E turns the line around */
		TEXT("A\xcd\x8fZ"),         /* U+034F grapheme joiner, a mark without width */
		TEXT("A\xef\xb8\x8f"),      /* U+FE0F variation selector */
		TEXT("A\xe3\x85\xa4Z"),     /* U+3164 Hangul filler */
		TEXT("A\xe2\x80\xa8Z"),     /* U+2028 line separator */
		TEXT("A\xe2\x80\xa9Z"),     /* U+2029 paragraph separator */
		TEXT("A\xc2\x85Z"),         /* U+0085 next line */
		TEXT("A\xc2\x9bZ"),         /* U+009B, a terminal's escape */
		TEXT("A\xee\x80\x80Z"),     /* U+E000 private use */
		TEXT("A\xf3\xa0\x81\x81Z"), /* U+E0041 tag */
	};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_sku(bad[i], LU_INVALID_SKU);
}

static void no_blank_of_any_kind_stands_at_either_end(void **state)
{
	static const char *const blanks[] = {" ",
	                                     "\xc2\xa0",
	                                     "\xe1\x9a\x80",
	                                     "\xe2\x80\x80",
	                                     "\xe2\x80\x83",
	                                     "\xe2\x80\x87",
	                                     "\xe2\x80\x8a",
	                                     "\xe2\x80\xaf",
	                                     "\xe2\x81\x9f",
	                                     "\xe3\x80\x80",
	                                     "\t",
	                                     "\r",
	                                     "\n",
	                                     "\v",
	                                     "\f"};
	for (size_t i = 0; i < sizeof blanks / sizeof blanks[0]; i++) {
		char code[32];
		strcat(strcpy(code, blanks[i]), "SKU");
		assert_sku(text_of(code), LU_INVALID_SKU);
		strcat(strcpy(code, "SKU"), blanks[i]);
		assert_sku(text_of(code), LU_INVALID_SKU);
		assert_sku(text_of(blanks[i]), LU_INVALID_SKU);
		/* with a letter beyond ASCII the slow path decides */
		strcat(strcpy(code, E_ACUTE), blanks[i]);
		assert_sku(text_of(code), LU_INVALID_SKU);
		strcat(strcpy(code, blanks[i]), E_ACUTE);
		assert_sku(text_of(code), LU_INVALID_SKU);
	}
	assert_sku(TEXT("a " E_ACUTE), LU_OK);
}

static void only_the_composed_form_is_a_code(void **state)
{
	assert_sku(TEXT("Caf" E_ACUTE), LU_OK);
	assert_sku(TEXT("Caf" E_THEN_ACUTE), LU_INVALID_SKU);
	assert_sku(TEXT("\xe2\x84\xab"), LU_INVALID_SKU); /* the Angstrom sign is the letter */
	assert_sku(TEXT("\xc3\x85"), LU_OK);
	assert_sku(TEXT("\xe1\x84\x80\xe1\x85\xa1"), LU_INVALID_SKU); /* Hangul in pieces */
	assert_sku(TEXT("\xea\xb0\x80"), LU_OK);
	assert_sku(TEXT("q\xcc\x87\xcc\xa3"), LU_INVALID_SKU); /* marks in the wrong order */
	assert_sku(TEXT("q\xcc\xa3\xcc\x87"), LU_OK);
	assert_sku(TEXT("\xef\xac\x81"), LU_OK); /* a ligature stays itself; only NFKC folds it */
}

static const struct text not_utf8[] = {
	TEXT("\x80"),     TEXT("\xff"),         TEXT("\xc3"),         TEXT("a\xc3"),
	TEXT("\xc0\xaf"), TEXT("\xe0\x80\xaf"), TEXT("\xc1\x81"),     TEXT("\xed\xa0\x80"),
	TEXT("\xe2\x80"), TEXT("\xed\xbf\xbf"), TEXT("\xf0\x9f\x98"), TEXT("\xf4\x90\x80\x80"),
	TEXT("\xc3("),    TEXT("a\0b"),         TEXT("\0"),           TEXT("\xf8\x88\x80\x80\x80"),
};

static void what_was_cut_within_a_character_ends_before_it(void **state)
{
	assert_int_equal(text_utf8_part(TEXT("caf" E_ACUTE)).size, 5);
	assert_int_equal(text_utf8_part(TEXT("caf\xc3")).size, 3);
	assert_int_equal(text_utf8_part(TEXT("\xf0\x9f\x98")).size, 0);
	assert_int_equal(text_utf8_part(TEXT("a\xff z")).size, 1);
	assert_int_equal(text_utf8_part(TEXT("")).size, 0);
}

static void what_is_not_utf8_is_refused_everywhere(void **state)
{
	for (size_t i = 0; i < sizeof not_utf8 / sizeof not_utf8[0]; i++) {
		assert_false(text_is_utf8(not_utf8[i]));
		assert_sku(not_utf8[i], LU_INVALID_SKU);
		assert_int_equal(text_check_key(not_utf8[i]), LU_INVALID_IDEMPOTENCY_KEY);
		assert_int_equal(text_check_free(not_utf8[i], 255), LU_INVALID_FIELD);
	}
	assert_true(text_is_utf8(TEXT("")));
	assert_true(text_is_utf8(TEXT("a\n" E_ACUTE "\xe2\x82\xac\xf0\x9f\x98\x80\xef\xbf\xbd\xf4\x8f\xbf\xbf")));
}

static void a_key_has_1_to_255_bytes_without_control_characters(void **state)
{
	char bytes[256];
	memset(bytes, 'k', sizeof bytes);
	assert_int_equal(text_check_key((struct text){bytes, 0}), LU_INVALID_IDEMPOTENCY_KEY);
	assert_int_equal(text_check_key((struct text){bytes, 255}), LU_OK);
	assert_int_equal(text_check_key((struct text){bytes, 256}), LU_INVALID_IDEMPOTENCY_KEY);
	assert_int_equal(text_check_key(TEXT(" a b ")), LU_OK);
	assert_int_equal(text_check_key(TEXT(E_THEN_ACUTE)), LU_OK);
	assert_int_equal(text_check_key(TEXT("a\tb")), LU_INVALID_IDEMPOTENCY_KEY);
	assert_int_equal(text_check_key(TEXT("a\x7f")), LU_INVALID_IDEMPOTENCY_KEY);
	assert_int_equal(text_check_key(TEXT("a\xc2\x80")), LU_INVALID_IDEMPOTENCY_KEY);
	assert_int_equal(text_check_key(TEXT("a\xc2\xa0")), LU_OK);
}

static void what_is_no_character_is_in_no_code_and_no_text(void **state)
{
	const struct text bad[] = {
		TEXT("A\xef\xbf\xbeZ"),     /* U+FFFE */
		TEXT("A\xef\xbf\xbf"),      /* U+FFFF */
		TEXT("\xef\xb7\x90Z"),      /* U+FDD0 */
		TEXT("A\xef\xb7\xafZ"),     /* U+FDEF */
		TEXT("A\xf0\x9f\xbf\xbeZ"), /* U+1FFFE */
		TEXT("A\xf4\x8f\xbf\xbfZ"), /* U+10FFFF */
	};
	const struct text good[] = {
		TEXT("A\xef\xbf\xbdZ"),     /* U+FFFD */
		TEXT("A\xef\xb7\x8fZ"),     /* U+FDCF */
		TEXT("A\xef\xb7\xb0Z"),     /* U+FDF0 */
		TEXT("A\xf0\x9f\xbf\xbdZ"), /* U+1FFFD, not yet a character */
	};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		assert_sku(bad[i], LU_INVALID_SKU);
		assert_int_equal(text_check_free(bad[i], 255), LU_INVALID_FIELD);
	}
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		assert_sku(good[i], LU_OK);
		assert_int_equal(text_check_free(good[i], 255), LU_OK);
	}
}

static void free_text_may_be_empty_and_have_lines(void **state)
{
	assert_int_equal(text_check_free((struct text){NULL, 0}, 255), LU_OK);
	assert_int_equal(text_check_free(TEXT("a\tb\r\nc"), 255), LU_OK);
	assert_int_equal(text_check_free(TEXT("abc"), 3), LU_OK);
	assert_int_equal(text_check_free(TEXT("abcd"), 3), LU_INVALID_FIELD);
	assert_int_equal(text_check_free(TEXT("a\x1b[2J"), 255), LU_INVALID_FIELD);
	assert_int_equal(text_check_free(TEXT("a\xc2\x9b"), 255), LU_INVALID_FIELD);
}

static void texts_compare_by_bytes_as_collate_c_does(void **state)
{
	const struct text sorted[] = {TEXT(""),  TEXT("A"),    TEXT("A\0"),      TEXT("AB"),  TEXT("B"),
	                              TEXT("a"), TEXT("\x7f"), TEXT("\xc3\xa9"), TEXT("\xff")};
	int count = sizeof sorted / sizeof sorted[0];
	for (int i = 0; i < count; i++)
		for (int j = 0; j < count; j++) {
			int order = text_compare(sorted[i], sorted[j]);
			assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
			assert_int_equal(text_equal(sorted[i], sorted[j]), i == j);
		}
	assert_true(text_equal((struct text){NULL, 0}, TEXT("")));
	assert_int_equal(text_compare((struct text){NULL, 0}, TEXT("")), 0);
}

static void equal_texts_hash_alike_and_others_do_not(void **state)
{
	/* every length of the tail, and every single bit of a text, makes another hash */
	char a[40] = {0}, b[40];
	uint64_t of_length[41];
	for (size_t size = 0; size <= 40; size++) {
		of_length[size] = text_hash((struct text){a, size});
		for (size_t shorter = 0; shorter < size; shorter++)
			assert_true(of_length[size] != of_length[shorter]);
	}
	for (int bit = 0; bit < 320; bit++) {
		memcpy(b, a, sizeof a);
		assert_true(text_hash((struct text){a, 40}) == text_hash((struct text){b, 40}));
		b[bit / 8] = (char)(1 << bit % 8);
		assert_true(text_hash((struct text){a, 40}) != text_hash((struct text){b, 40}));
	}
	/* the low bits choose the slot of a table: 4096 names leave about 1/e of 4096 slots empty */
	static unsigned char slots[4096];
	unsigned used = 0;
	for (int i = 0; i < 4096; i++) {
		memcpy(a, &i, sizeof i);
		unsigned char *slot = &slots[text_hash((struct text){a, 12}) % 4096];
		used += !*slot;
		*slot = 1;
	}
	assert_true(used > 2400 && used < 2800);
}

static void a_language_is_told_by_its_tag(void **state)
{
	static const char *const good[] = {"en", "RU", "deu", "pt-BR", "zh-Hant-TW", "es-419", "sl-rozaj-biske"};
	static const char *const bad[] = {"",
	                                  "e",
	                                  "engl",
	                                  "english",
	                                  "e1",
	                                  "en-",
	                                  "-en",
	                                  "en--US",
	                                  "e n",
	                                  "en_US",
	                                  "en-123456789",
	                                  "en-\xc3\xa9",
	                                  "en-12345678-12345678-12345678-123456"};
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		if (!text_is_language(text_of(good[i])))
			fail_msg("\"%s\" is refused", good[i]);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (text_is_language(text_of(bad[i])))
			fail_msg("\"%s\" is taken", bad[i]);
}

static void integers_are_digits_with_an_optional_minus(void **state)
{
	static const struct {
		struct text text;
		int64_t value;
	} good[] = {
		{TEXT("0"), 0},
		{TEXT("-0"), 0},
		{TEXT("007"), 7},
		{TEXT("-15"), -15},
		{TEXT("9223372036854775807"), INT64_MAX},
		{TEXT("-9223372036854775808"), INT64_MIN},
	};
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		int64_t value = 99;
		assert_true(text_to_int64(good[i].text, &value));
		assert_int_equal(value, good[i].value);
	}
	const struct text bad[] = {
		TEXT(""),
		TEXT("-"),
		TEXT("+1"),
		TEXT(" 1"),
		TEXT("1 "),
		TEXT("1.0"),
		TEXT("1e0"),
		TEXT("0x1"),
		TEXT("1\0"),
		TEXT("--1"),
		TEXT("1-"),
		{0},
		TEXT("9223372036854775808"),
		TEXT("-9223372036854775809"),
		TEXT("99999999999999999999"),
	};
	int64_t value = 99;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_false(text_to_int64(bad[i], &value));
	assert_int_equal(value, 99);
}

static void one_is_one_and_all_else_are_many(void **state)
{
	static const int64_t many[] = {0, 2, 11, 21, 101, -2, INT64_MIN, INT64_MAX};
	assert_string_equal(text_plural(1, "entry", "entries"), "entry");
	assert_string_equal(text_plural(-1, "unit", "units"), "unit");
	for (size_t i = 0; i < sizeof many / sizeof many[0]; i++)
		assert_string_equal(text_plural(many[i], "entry", "entries"), "entries");
}

static void hex_digits_have_either_case_and_nothing_else_is_one(void **state)
{
	static const char lower[] = "0123456789abcdef", upper[] = "0123456789ABCDEF";
	for (int c = -128; c < 128; c++) {
		int value = -1;
		for (int digit = 0; digit < 16; digit++)
			if (c == lower[digit] || c == upper[digit])
				value = digit;
		assert_int_equal(text_hex_digit((char)c), value);
	}
}

static void words_are_as_far_apart_as_they_need_edits(void **state)
{
	static const struct {
		const char *a, *b;
		size_t edits;
	} pairs[] = {
		{"", "", 0},           {"", "abc", 3},           {"stock", "stock", 0}, {"stock", "stocks", 1},
		{"tsock", "stock", 2}, {"sitting", "kitten", 3}, {"flaw", "lawn", 2},
	};
	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
		assert_int_equal(text_distance(pairs[i].a, pairs[i].b), pairs[i].edits);
		assert_int_equal(text_distance(pairs[i].b, pairs[i].a), pairs[i].edits);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ordinary_codes_are_taken),
		cmocka_unit_test(a_code_has_1_to_128_bytes),
		cmocka_unit_test(every_byte_that_is_a_control_or_no_utf8_is_refused_anywhere),
		cmocka_unit_test(what_cannot_be_seen_is_refused),
		cmocka_unit_test(no_blank_of_any_kind_stands_at_either_end),
		cmocka_unit_test(only_the_composed_form_is_a_code),
		cmocka_unit_test(what_was_cut_within_a_character_ends_before_it),
		cmocka_unit_test(what_is_not_utf8_is_refused_everywhere),
		cmocka_unit_test(a_key_has_1_to_255_bytes_without_control_characters),
		cmocka_unit_test(what_is_no_character_is_in_no_code_and_no_text),
		cmocka_unit_test(free_text_may_be_empty_and_have_lines),
		cmocka_unit_test(texts_compare_by_bytes_as_collate_c_does),
		cmocka_unit_test(equal_texts_hash_alike_and_others_do_not),
		cmocka_unit_test(a_language_is_told_by_its_tag),
		cmocka_unit_test(integers_are_digits_with_an_optional_minus),
		cmocka_unit_test(one_is_one_and_all_else_are_many),
		cmocka_unit_test(hex_digits_have_either_case_and_nothing_else_is_one),
		cmocka_unit_test(words_are_as_far_apart_as_they_need_edits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
