/* Phrases: a sentence with its placeholders filled. Failure modes: none; a placeholder that is not known is a bug. */
#include "channels/phrase.h"

#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/check.h"
#include "base/json.h"
#include "base/text.h"

static const char *const phrases[PHRASE_COUNT][LANGUAGE_COUNT] = {
#define X(NAME, english, russian) [PHRASE_##NAME] = {[LANGUAGE_ENGLISH] = english, [LANGUAGE_RUSSIAN] = russian},
#include "channels/phrase.def"
#undef X
};

static const char *const pieces[LANGUAGE_COUNT][3] = {
	[LANGUAGE_ENGLISH] = {"piece", "pieces", "pieces"},
	[LANGUAGE_RUSSIAN] = {"штука", "штуки", "штук"},
};
static const char *const minutes[LANGUAGE_COUNT][3] = {
	[LANGUAGE_ENGLISH] = {"minute", "minutes", "minutes"},
	[LANGUAGE_RUSSIAN] = {"минута", "минуты", "минут"},
};

/* Is it this language, of whatever region or script? */
static bool is_of(struct text tag, const char *language)
{
	size_t size = strlen(language);
	return tag.size >= size && strncasecmp(tag.data, language, size) == 0 &&
	       (tag.size == size || tag.data[size] == '-' || tag.data[size] == '_');
}

enum language language_of_tag(struct text tag)
{
	return is_of(tag, "ru") ? LANGUAGE_RUSSIAN : LANGUAGE_ENGLISH;
}

/* "ru", or "ru-RU;q=0.9": how much it is wanted, in thousandths. */
static int weight_of(struct text range)
{
	const char *q = memmem(range.data, range.size, "q=", 2);
	size_t left = q ? (size_t)(range.data + range.size - q) - 2 : 0;
	int weight = 1000;
	if (!q || !left || q[2] != '0')
		return weight;
	weight = 0;
	for (size_t i = 2, unit = 100; i < left && i < 5 && q[2 + i] >= '0' && q[2 + i] <= '9'; i++, unit /= 10)
		weight += (q[2 + i] - '0') * (int)unit;
	return weight;
}

enum language language_accepted(struct text list)
{
	enum language best = LANGUAGE_ENGLISH;
	int best_weight = 0;
	while (list.size) {
		const char *comma = memchr(list.data, ',', list.size);
		struct text range = {list.data, comma ? (size_t)(comma - list.data) : list.size};
		list = comma ? (struct text){comma + 1, list.size - range.size - 1} : (struct text){0};
		while (range.size && (*range.data == ' ' || *range.data == '\t'))
			range = (struct text){range.data + 1, range.size - 1};
		size_t size = 0;
		while (size < range.size && !strchr("; \t", range.data[size]))
			size++;
		struct text tag = {range.data, size};
		enum language language = language_of_tag(tag);
		int weight = weight_of(range);
		if (weight > best_weight && (language != LANGUAGE_ENGLISH || is_of(tag, "en"))) {
			best = language;
			best_weight = weight;
		}
	}
	return best;
}

enum language language_of_words(struct text said, enum language otherwise)
{
	for (size_t i = 0; i < said.size; i++) {
		unsigned char c = (unsigned char)said.data[i];
		/* U+0400..U+04FF are two bytes from D0 80 to D3 BF. */
		if (c >= 0xd0 && c <= 0xd3)
			return LANGUAGE_RUSSIAN;
		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
			return LANGUAGE_ENGLISH;
	}
	return otherwise;
}

unsigned plural_form(enum language language, int64_t n)
{
	if (language == LANGUAGE_ENGLISH)
		return n == 1 ? 0 : 2;
	int64_t tens = n % 100, ones = n % 10;
	if (ones == 1 && tens != 11)
		return 0;
	return ones >= 2 && ones <= 4 && (tens < 12 || tens > 14) ? 1 : 2;
}

static void put_count(struct buffer *out, enum language language, int64_t n, const char *const forms[][3])
{
	buffer_add_int(out, n);
	buffer_add_char(out, ' ');
	buffer_add_string(out, forms[language][plural_form(language, n)]);
}

static void put_time(struct buffer *out, int64_t unix_us)
{
	time_t seconds = (time_t)(unix_us / 1000000);
	struct tm local;
	localtime_r(&seconds, &local);
	buffer_add_format(out, "%02d:%02d", local.tm_hour, local.tm_min);
}

static void put_word(struct buffer *out, enum language language, struct text name, const struct phrase_words *words)
{
	CHECK(words);
	if (text_equal(name, TEXT("title")))
		buffer_add_text(out, words->title);
	else if (text_equal(name, TEXT("other")))
		buffer_add_text(out, words->other);
	else if (text_equal(name, TEXT("pieces")))
		put_count(out, language, words->pieces, pieces);
	else if (text_equal(name, TEXT("minutes")))
		put_count(out, language, words->minutes, minutes);
	else if (text_equal(name, TEXT("time")))
		put_time(out, words->time_us);
	else
		check_failed(__FILE__, __LINE__, "a placeholder that is known");
}

void phrase_say(struct buffer *out, enum language language, enum phrase phrase, const struct phrase_words *words)
{
	for (const char *at = phrases[phrase][language]; *at;) {
		const char *open = strchr(at, '{'), *close = open ? strchr(open, '}') : NULL;
		if (!close) {
			buffer_add_string(out, at);
			return;
		}
		buffer_add(out, at, (size_t)(open - at));
		put_word(out, language, (struct text){open + 1, (size_t)(close - open - 1)}, words);
		at = close + 1;
	}
}

struct text phrase_text(struct arena *arena, enum language language, enum phrase phrase,
                        const struct phrase_words *words)
{
	struct buffer out = {0};
	phrase_say(&out, language, phrase, words);
	struct text text = arena_text(arena, buffer_text(&out));
	buffer_done(&out);
	return text;
}

struct text phrase_title(struct arena *arena, enum language language, struct text titles_json, struct text code)
{
	static const char *const tags[LANGUAGE_COUNT] = {[LANGUAGE_ENGLISH] = "en", [LANGUAGE_RUSSIAN] = "ru"};
	json_t *titles = json_loadb(titles_json.data, titles_json.size, 0, NULL);
	const json_t *title = json_object_get(titles, tags[language]);
	if (!title)
		title = json_object_get(titles, tags[LANGUAGE_ENGLISH]);
	if (!title)
		title = json_object_iter_value(json_object_iter(titles));
	struct text text = json_is_string(title) ? arena_text(arena, json_text(title)) : code;
	json_decref(titles);
	return text;
}

enum phrase phrase_for(const struct figures *figures, const struct principal *principal, int64_t next_release_us,
                       struct phrase_words *words)
{
	if (!figures->tracked)
		return PHRASE_ALWAYS_AVAILABLE;
	words->pieces = figures_available(figures, principal);
	words->time_us = next_release_us;
	if (words->pieces)
		return PHRASE_AVAILABLE;
	if (!figures->reserved)
		return PHRASE_SOLD_OUT;
	return next_release_us ? PHRASE_HELD_BY_OTHERS : PHRASE_HELD_BY_OTHERS_NOW;
}
