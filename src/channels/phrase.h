/* Phrases: what people are told, in their language, with its plurals.
 *
 * All sentences stand in phrase.def, so that every channel says the same, and a translator has one place to look. Pure.
 * Times of day are those of the process's time zone (TZ).
 */
#ifndef CHANNELS_PHRASE_H
#define CHANNELS_PHRASE_H

#include "base/arena.h"
#include "base/buffer.h"
#include "lastunit/types.h"

enum language { LANGUAGE_ENGLISH, LANGUAGE_RUSSIAN, LANGUAGE_COUNT };

/* "ru", "ru-RU", "RU_ru" …; anything else is English (BCP 47: the part before the first - or _). */
enum language language_of_tag(struct text tag);
/* Of an Accept-Language (RFC 9110, 12.5.4): the one that is spoken here and wanted most; English, if it is none of them. */
enum language language_accepted(struct text list);
/* By the letters of what somebody said: the first letter that is Cyrillic or Latin decides; none: `otherwise`. */
enum language language_of_words(struct text said, enum language otherwise);

enum phrase {
#define X(NAME, english, russian) PHRASE_##NAME,
#include "channels/phrase.def"
#undef X
	PHRASE_COUNT
};

/* What stands in the placeholders. */
struct phrase_words {
	struct text title, other;
	int64_t pieces;
	int64_t minutes;
	int64_t time_us; /* unix */
};

void phrase_say(struct buffer *out, enum language language, enum phrase phrase, const struct phrase_words *words);
/* The same as a text of its own; words NULL: it has no placeholders. */
struct text phrase_text(struct arena *arena, enum language language, enum phrase phrase,
                        const struct phrase_words *words);
/* The plural of `n` things by the rules of CLDR: 0 one (1 штука), 1 few (2 штуки), 2 many (5 штук); English has 0 and 2. */
unsigned plural_form(enum language language, int64_t n);

/* The title of a product in this language, or in English, or in any, or its code. `titles_json`: {"en": "…"}. */
struct text phrase_title(struct arena *arena, enum language language, struct text titles_json, struct text code);
/* What is left of a product, by what this principal may sell; `next_release_us` 0: not known. Which phrase, and the words
 * it needs but for the title. */
enum phrase phrase_for(const struct figures *figures, const struct principal *principal, int64_t next_release_us,
                       struct phrase_words *words);

#endif
