/* Hearing: what a few spoken words mean as the answer to a question.
 *
 * A sale hangs on it, so only a whole utterance is an answer: "yes" is one, "yes but not now" and "first aid kit" are none.
 * Letters and digits count, without case; punctuation, which recognisers put where they like, does not. Pure.
 */
#ifndef CHANNELS_HEARING_H
#define CHANNELS_HEARING_H

#include "channels/phrase.h"

enum hearing {
	HEARING_WORDS,  /* no answer: words to search for */
	HEARING_YES,    /* to whatever was asked */
	HEARING_HOLD,   /* yes to a hold only: "hold it" before a purchase means wait */
	HEARING_NO,     /* to whatever was asked */
	HEARING_FIRST,  /* of what was offered to choose from */
	HEARING_SECOND, /* likewise */
	HEARING_UNSURE, /* begins as a yes or a no and goes on */
};

/* `said`: valid UTF-8. */
enum hearing hearing_of(enum language language, struct text said);
/* Whether each of these words stands in the title, and there is one. */
bool hearing_names(struct text words, struct text title);
/* Whether there is a letter in it: "2" and "?" have none. */
bool hearing_has_letter(struct text said);

#endif
