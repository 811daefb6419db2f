/* Hearing. Happy path: an utterance in plain words, looked up whole in one table. Failure modes: what stands in no list is
 * words; what is longer than any answer is judged by its beginning. */
#include "channels/hearing.h"

#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

#define PLAIN_BYTES_MAX 100 /* longer than the longest answer */
#define LONGEST_LETTER 4    /* bytes of UTF-8 */

/* In plain words: small letters, one blank between two words, no apostrophes, е for ё. */
static const struct {
	enum hearing hearing;
	const char *said[LANGUAGE_COUNT];
} answers[] = {
	{HEARING_YES,
     {"|yes|yeah|yep|yup|yes yes|yes please|yeah please|yes thanks|yes thank you|yes sure|yes ok|yes of course|ok|okay"
      "|ok please|okay please|sure|sure thing|sure please|of course|certainly|absolutely|go ahead|yes go ahead"
      "|please do|yes please do|do it|do it please|yes do it|yes i do|lets do it"
      "|buy it|buy it now|buy it please|please buy it|yes buy it|yes buy it please|ok buy it|okay buy it"
      "|i take it|ill take it|yes ill take it|",
      "|да|ага|угу|да да|да пожалуйста|да спасибо|да конечно|да хорошо|да давай|да давайте|давай|давайте|хорошо|ладно|ок"
      "|окей|ok|конечно|конечно да|разумеется|согласен|согласна|да согласен|да согласна"
      "|купить|купи|купите|да купить|да купи|да купите|покупаю|да покупаю|беру|да беру"
      "|оформить|оформи|оформите|оформляй|оформляйте|да оформить|да оформи|да оформите|да оформляй|да оформляйте|"}},
	{HEARING_HOLD,
     {"|hold it|hold one|hold it please|hold one please|please hold it|please hold one|yes hold it|yes hold one"
      "|yes hold it please|yes hold one please|",
      "|отложи|отложите|отложить|отложи пожалуйста|отложите пожалуйста|да отложи|да отложите|да отложить|"}},
	{HEARING_NO,
     {"|no|nope|nah|no no|no thanks|no thank you|nope thanks|no please|not now|no not now|no dont|dont|do not|please dont"
      "|dont buy it|no dont buy it|cancel|cancel it|cancel please|cancel it please|no cancel|no cancel it|stop|release it"
      "|no release it|never mind|no never mind|",
      "|нет|неа|нет нет|не надо|нет не надо|не нужно|нет не нужно|не хочу|нет не хочу|нет спасибо|спасибо нет"
      "|спасибо не надо|нет пожалуйста|не сейчас|нет не сейчас|не покупать|нет не покупать|отмена|отмени|отмените"
      "|отменить|нет отмена|нет отмени|нет отмените|стоп|"}},
	{HEARING_FIRST,
     {"|1|one|first|the first|first one|the first one|the first please|the first one please|first please|number one"
      "|number 1|yes the first|yes the first one|",
      "|1|один|первый|первая|первое|первую|первый пожалуйста|первую пожалуйста|номер один|номер 1|"}},
	{HEARING_SECOND,
     {"|2|two|second|the second|second one|the second one|the second please|the second one please|second please"
      "|number two|number 2|yes the second|yes the second one|",
      "|2|два|второй|вторая|второе|вторую|второй пожалуйста|вторую пожалуйста|номер два|номер 2|"}},
};

static bool is_letter(utf8proc_int32_t code)
{
	utf8proc_category_t category = utf8proc_category(code);
	return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

/* A mark belongs to its letter, a numeral is a word. */
static bool is_of_word(utf8proc_int32_t code)
{
	utf8proc_category_t category = utf8proc_category(code);
	return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NO;
}

static bool is_apostrophe(utf8proc_int32_t code)
{
	return code == '\'' || code == 0x2019;
}

/* The code point at *offset, stepped over; false at the end. */
static bool next_code(struct text text, size_t *offset, utf8proc_int32_t *ret_code)
{
	if (*offset >= text.size)
		return false;
	utf8proc_ssize_t size = utf8proc_iterate((const uint8_t *)text.data + *offset,
	                                         (utf8proc_ssize_t)(text.size - *offset), ret_code);
	*offset += size > 0 ? (size_t)size : 0;
	return size > 0;
}

/* The next word of `said` in small letters behind `out`; 0: there is none, or no room. */
static size_t next_word(struct text said, size_t *offset, char *out, size_t room)
{
	utf8proc_int32_t code;
	size_t size = 0;
	for (size_t at = *offset; next_code(said, offset, &code); at = *offset) {
		if (is_apostrophe(code))
			continue;
		if (!is_of_word(code)) {
			if (size)
				break;
			continue;
		}
		if (size + LONGEST_LETTER > room) {
			*offset = at; /* so that nobody takes it for the end */
			return 0;
		}
		code = utf8proc_tolower(code);
		size += (size_t)utf8proc_encode_char(code == 0x451 /* ё */ ? 0x435 /* е */ : code, (uint8_t *)out + size);
	}
	return size;
}

static enum hearing look_up(enum language language, const char *plain, size_t size)
{
	char entry[PLAIN_BYTES_MAX + 3];
	snprintf(entry, sizeof entry, "|%.*s|", (int)size, plain);
	for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
		if (strstr(answers[i].said[language], entry))
			return answers[i].hearing;
	return HEARING_WORDS;
}

enum hearing hearing_of(enum language language, struct text said)
{
	char plain[PLAIN_BYTES_MAX + 1]; /* with a blank behind each word */
	size_t offset = 0, size = 0, word;
	enum hearing heard = HEARING_WORDS;
	bool unsure = false;
	while (size < PLAIN_BYTES_MAX && (word = next_word(said, &offset, plain + size, PLAIN_BYTES_MAX - size))) {
		size += word;
		heard = look_up(language, plain, size);
		unsure |= heard == HEARING_YES || heard == HEARING_NO || heard == HEARING_HOLD;
		plain[size++] = ' ';
	}
	bool whole = offset == said.size;
	return whole && heard ? heard : unsure ? HEARING_UNSURE : HEARING_WORDS;
}

bool hearing_names(struct text words, struct text title)
{
	char word[PLAIN_BYTES_MAX], other[PLAIN_BYTES_MAX];
	size_t offset = 0, size, count = 0;
	for (; (size = next_word(words, &offset, word, sizeof word)); count++) {
		size_t at = 0, other_size;
		while ((other_size = next_word(title, &at, other, sizeof other)))
			if (other_size == size && memcmp(word, other, size) == 0)
				break;
		if (!other_size)
			return false;
	}
	return count && offset == words.size;
}

bool hearing_has_letter(struct text said)
{
	utf8proc_int32_t code;
	for (size_t offset = 0; next_code(said, &offset, &code);)
		if (is_letter(code))
			return true;
	return false;
}
