/* Phrases: right words, right plurals, nothing left in braces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/text.h"
#include "channels/phrase.h"

static struct arena arena;

static int start(void **state)
{
	arena_init(&arena, 65536);
	setenv("TZ", "MSK-3", 1); /* without a file of time zones */
	tzset();
	return 0;
}

static int end(void **state)
{
	arena_done(&arena);
	return 0;
}

static const char *say(enum language language, enum phrase phrase, struct phrase_words words)
{
	return phrase_text(&arena, language, phrase, &words).data;
}

static void russian_counts_by_one_few_and_many(void **state)
{
	static const struct {
		int64_t n;
		const char *said;
	} rows[] = {{0, "0 штук"},      {1, "1 штука"},    {2, "2 штуки"},    {4, "4 штуки"},
	            {5, "5 штук"},      {10, "10 штук"},   {11, "11 штук"},   {12, "12 штук"},
	            {14, "14 штук"},    {21, "21 штука"},  {22, "22 штуки"},  {25, "25 штук"},
	            {101, "101 штука"}, {111, "111 штук"}, {112, "112 штук"}, {122, "122 штуки"}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const char *said = say(LANGUAGE_RUSSIAN, PHRASE_AVAILABLE,
		                       (struct phrase_words){.title = TEXT("Кружка"), .pieces = rows[i].n});
		assert_non_null(strstr(said, arena_printf(&arena, " %s.", rows[i].said).data));
	}
}

static void english_counts_by_one_and_more(void **state)
{
	assert_non_null(strstr(say(LANGUAGE_ENGLISH, PHRASE_AVAILABLE, (struct phrase_words){.pieces = 1}), " 1 piece "));
	assert_non_null(strstr(say(LANGUAGE_ENGLISH, PHRASE_AVAILABLE, (struct phrase_words){.pieces = 2}), " 2 pieces "));
	assert_non_null(
		strstr(say(LANGUAGE_ENGLISH, PHRASE_HELD_FOR_YOU, (struct phrase_words){.minutes = 1}), " 1 minute."));
}

/* Whatever is said, in every language, has its words filled in, and says something. */
static void no_phrase_shows_its_braces(void **state)
{
	struct phrase_words words = {TEXT("T"), TEXT("O"), 3, 4, 5};
	for (int language = 0; language < LANGUAGE_COUNT; language++)
		for (int phrase = 0; phrase < PHRASE_COUNT; phrase++) {
			const char *said = say((enum language)language, (enum phrase)phrase, words);
			assert_true(strlen(said) > 2);
			assert_null(strpbrk(said, "{}"));
		}
}

static void a_time_is_that_of_the_place(void **state)
{
	/* 2026-11-29 11:32:00 UTC */
	const char *said = say(LANGUAGE_RUSSIAN, PHRASE_HELD_BY_OTHERS,
	                       (struct phrase_words){.title = TEXT("Кружка"), .time_us = INT64_C(1795951920) * 1000000});
	assert_string_equal(said, "Кружка: отложен другим покупателем до 14:32. После этого может освободиться.");
}

static void a_language_is_known_by_its_tag_or_its_letters(void **state)
{
	assert_int_equal(language_of_tag(TEXT("ru")), LANGUAGE_RUSSIAN);
	assert_int_equal(language_of_tag(TEXT("ru-RU")), LANGUAGE_RUSSIAN);
	assert_int_equal(language_of_tag(TEXT("rup")), LANGUAGE_ENGLISH);
	assert_int_equal(language_of_tag(TEXT("en-US")), LANGUAGE_ENGLISH);
	assert_int_equal(language_of_tag(TEXT("")), LANGUAGE_ENGLISH);
	assert_int_equal(language_of_words(TEXT("2 кружки mug"), LANGUAGE_ENGLISH), LANGUAGE_RUSSIAN);
	assert_int_equal(language_of_words(TEXT("12 mug"), LANGUAGE_RUSSIAN), LANGUAGE_ENGLISH);
	assert_int_equal(language_of_words(TEXT("42?"), LANGUAGE_RUSSIAN), LANGUAGE_RUSSIAN);
}

/* A browser lists all that its reader knows: the first need not be one of ours. */
static void of_the_languages_accepted_the_best_known_counts(void **state)
{
	assert_int_equal(language_accepted(TEXT("ru-RU,ru;q=0.9")), LANGUAGE_RUSSIAN);
	assert_int_equal(language_accepted(TEXT("uk-UA,uk;q=0.9,ru;q=0.8,en-US;q=0.7")), LANGUAGE_RUSSIAN);
	assert_int_equal(language_accepted(TEXT("en;q=0.5, ru;q=0.75")), LANGUAGE_RUSSIAN);
	assert_int_equal(language_accepted(TEXT("en, ru;q=0.999")), LANGUAGE_ENGLISH);
	assert_int_equal(language_accepted(TEXT("de,en;q=0.3,ru;q=0")), LANGUAGE_ENGLISH);
	assert_int_equal(language_accepted(TEXT("en;q=0.05,ru;q=0.1")), LANGUAGE_RUSSIAN);
	assert_int_equal(language_accepted(TEXT("de, enm, rup;q=")), LANGUAGE_ENGLISH);
	assert_int_equal(language_accepted(TEXT("")), LANGUAGE_ENGLISH);
}

static void a_title_is_the_best_there_is(void **state)
{
	struct text both = TEXT("{\"en\":\"Mug\",\"ru\":\"Кружка\"}"), german = TEXT("{\"de\":\"Becher\"}");
	assert_string_equal(phrase_title(&arena, LANGUAGE_RUSSIAN, both, TEXT("M-1")).data, "Кружка");
	assert_string_equal(phrase_title(&arena, LANGUAGE_ENGLISH, both, TEXT("M-1")).data, "Mug");
	assert_string_equal(phrase_title(&arena, LANGUAGE_RUSSIAN, german, TEXT("M-1")).data, "Becher");
	assert_string_equal(phrase_title(&arena, LANGUAGE_RUSSIAN, TEXT("{}"), TEXT("M-1")).data, "M-1");
}

static void held_by_another_is_not_sold_out(void **state)
{
	struct phrase_words words = {0};
	struct principal principal = {.id = 1};
	struct figures figures = {.version = 1, .on_hand = 3, .reserved = 1, .tracked = true};
	assert_int_equal(phrase_for(&figures, &principal, 0, &words), PHRASE_AVAILABLE);
	assert_int_equal(words.pieces, 2);
	figures.reserved = 3;
	assert_int_equal(phrase_for(&figures, &principal, 9, &words), PHRASE_HELD_BY_OTHERS);
	assert_int_equal(words.time_us, 9);
	assert_int_equal(phrase_for(&figures, &principal, 0, &words), PHRASE_HELD_BY_OTHERS_NOW);
	figures.on_hand = figures.reserved = 0;
	assert_int_equal(phrase_for(&figures, &principal, 0, &words), PHRASE_SOLD_OUT);
	figures.tracked = false;
	assert_int_equal(phrase_for(&figures, &principal, 0, &words), PHRASE_ALWAYS_AVAILABLE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(russian_counts_by_one_few_and_many),
		cmocka_unit_test(english_counts_by_one_and_more),
		cmocka_unit_test(no_phrase_shows_its_braces),
		cmocka_unit_test(a_time_is_that_of_the_place),
		cmocka_unit_test(a_language_is_known_by_its_tag_or_its_letters),
		cmocka_unit_test(of_the_languages_accepted_the_best_known_counts),
		cmocka_unit_test(a_title_is_the_best_there_is),
		cmocka_unit_test(held_by_another_is_not_sold_out),
	};
	return cmocka_run_group_tests(tests, start, end);
}
