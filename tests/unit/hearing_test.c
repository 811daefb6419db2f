/* Hearing: what counts as an answer by voice.
 *
 * Bugs it guards against: "first aid kit" and "yes but not now" that bought; "OK", "YES" and "nope" that were searched for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "channels/hearing.h"

struct row {
	const char *said;
	enum hearing hearing;
};

static void expect(enum language language, const struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		enum hearing heard = hearing_of(language, text_of(rows[i].said));
		if (heard != rows[i].hearing)
			fail_msg("\"%s\": %d instead of %d", rows[i].said, heard, rows[i].hearing);
	}
}

static void a_whole_utterance_is_an_answer_however_it_is_written(void **state)
{
	static const struct row english[] = {
		{"yes", HEARING_YES},
		{"YES", HEARING_YES},
		{"Yes;", HEARING_YES},
		{"OK", HEARING_YES},
		{"Okay.", HEARING_YES},
		{"yep", HEARING_YES},
		{"Sure!", HEARING_YES},
		{"please do", HEARING_YES},
		{" Yes,  buy it. ", HEARING_YES},
		{"I’ll take it", HEARING_YES},
		{"Hold one.", HEARING_HOLD},
		{"nope", HEARING_NO},
		{"No, thanks.", HEARING_NO},
		{"Cancel", HEARING_NO},
		{"Don't buy it", HEARING_NO},
		{"The second one", HEARING_SECOND},
		{"1", HEARING_FIRST},
		{"First!", HEARING_FIRST},
	};
	static const struct row russian[] = {
		{"ДА", HEARING_YES},          {"Да, пожалуйста.", HEARING_YES}, {"давай", HEARING_YES},
		{"Хорошо!", HEARING_YES},     {"Конечно", HEARING_YES},         {"купить", HEARING_YES},
		{"Нет, спасибо", HEARING_NO}, {"не надо", HEARING_NO},          {"Отмена.", HEARING_NO},
		{"Второе", HEARING_SECOND},   {"Отложите!", HEARING_HOLD},
	};
	expect(LANGUAGE_ENGLISH, english, sizeof english / sizeof *english);
	expect(LANGUAGE_RUSSIAN, russian, sizeof russian / sizeof *russian);
}

static void what_says_more_is_no_consent(void **state)
{
	static const struct row english[] = {
		{"First tell me the price", HEARING_WORDS},
		{"first aid kit", HEARING_WORDS},
		{"1 blue lamp", HEARING_WORDS},
		{"yeah no", HEARING_UNSURE},
		{"Yes but not now, cancel it", HEARING_UNSURE},
		{"of course not", HEARING_UNSURE},
		{"no wait, yes", HEARING_UNSURE},
		{"hold it right there", HEARING_UNSURE},
		{"yes \xe2\x91\xa1", HEARING_UNSURE}, /* a two in a circle is a word, too */
		{"yesterday", HEARING_WORDS},
		{"red mug", HEARING_WORDS},
		{"да", HEARING_WORDS},
		{"", HEARING_WORDS},
		{"...", HEARING_WORDS},
		{"|yes|", HEARING_YES}, /* bars are punctuation */
		{"yes|yeah", HEARING_UNSURE},
	};
	static const struct row russian[] = {
		{"Да нет, не надо", HEARING_UNSURE}, {"да подожди", HEARING_UNSURE},    {"дача", HEARING_WORDS},
		{"первая помощь", HEARING_WORDS},    {"красная кружка", HEARING_WORDS},
	};
	expect(LANGUAGE_ENGLISH, english, sizeof english / sizeof *english);
	expect(LANGUAGE_RUSSIAN, russian, sizeof russian / sizeof *russian);
}

static void what_is_longer_than_any_answer_is_judged_by_its_beginning(void **state)
{
	char said[400] = "yes";
	memset(said + 3, ' ', 300);
	strcpy(said + 303, "no");
	assert_int_equal(hearing_of(LANGUAGE_ENGLISH, text_of(said)), HEARING_UNSURE);
	memset(said + 4, 'x', 300);
	assert_int_equal(hearing_of(LANGUAGE_ENGLISH, text_of(said)), HEARING_UNSURE);
	memset(said, 'x', 300);
	assert_int_equal(hearing_of(LANGUAGE_ENGLISH, text_of(said)), HEARING_WORDS);
	/* Wherever the room ends. */
	for (size_t size = 1; size < 300; size++) {
		snprintf(said, sizeof said, "yes %0*d", (int)size, 0);
		assert_int_equal(hearing_of(LANGUAGE_ENGLISH, text_of(said)), HEARING_UNSURE);
	}
}

static void words_name_a_title_they_stand_in(void **state)
{
	assert_true(hearing_names(TEXT("numbat"), TEXT("Plush Numbat, large")));
	assert_true(hearing_names(TEXT("Large numbat"), TEXT("Plush Numbat, large")));
	assert_true(hearing_names(TEXT("желтый"), TEXT("Жёлтый чайник")));
	assert_false(hearing_names(TEXT("wombat"), TEXT("Numbat")));
	assert_false(hearing_names(TEXT("num"), TEXT("Numbat")));
	assert_false(hearing_names(TEXT("red numbat"), TEXT("Numbat")));
	assert_false(hearing_names(TEXT(""), TEXT("Numbat")));
}

static void a_number_has_no_letter(void **state)
{
	assert_false(hearing_has_letter(TEXT("2")));
	assert_false(hearing_has_letter(TEXT("?")));
	assert_true(hearing_has_letter(TEXT("2 кружки")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_whole_utterance_is_an_answer_however_it_is_written),
		cmocka_unit_test(what_says_more_is_no_consent),
		cmocka_unit_test(what_is_longer_than_any_answer_is_judged_by_its_beginning),
		cmocka_unit_test(words_name_a_title_they_stand_in),
		cmocka_unit_test(a_number_has_no_letter),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
