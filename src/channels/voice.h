/* A conversation by voice: one engine for every wire that hears and speaks.
 *
 * What a caller may answer next is the *state*: up to two presses (press.h), the one for "yes" or "the first" and the one for
 * "no" or "the second". The wire carries it to the next turn (Alexa in its session, Twilio in the address it calls), so the
 * service keeps nothing, and a turn that is sent again does the same again: a hold's key is the offer in its press.
 * Codes are never spoken. When two products match, one question is asked. Thread: the loop's.
 */
#ifndef CHANNELS_VOICE_H
#define CHANNELS_VOICE_H

#include "channels/phrase.h"
#include "channels/press.h"
#include "channels/turn.h"

#define VOICE_STATE_BYTES_MAX (2 * PRESS_BYTES_MAX + 1)

struct voice {
	struct turn turn; /* first */
	enum language language;
	struct text caller; /* for caps: who speaks; data NULL: not known */
	void (*on_said)(struct voice *voice);

	/* what is said */
	struct text sentence;
	char state[VOICE_STATE_BYTES_MAX + 1]; /* "": the next turn is a search */
	bool ends;                             /* nothing is asked any more */

	struct press press; /* the one at work */
	struct product product;
};

/* The request has a principal. */
void voice_init(struct voice *voice, struct request *request, enum language language, void (*on_said)(struct voice *));
/* Each says something through on_said, once: at once or later. */
void voice_welcome(struct voice *voice);
void voice_help(struct voice *voice);
void voice_leave(struct voice *voice);
/* What is there of what they name. */
void voice_look_for(struct voice *voice, struct text words);
/* Of a product known by its code, e.g. from a slot. */
void voice_look_up(struct voice *voice, struct text code);
/* The answer to the question that `state` stands for. */
enum voice_choice { VOICE_YES, VOICE_NO };
void voice_choose(struct voice *voice, struct text state, enum voice_choice choice);
/* What somebody said after a question: yes or no in their language, or words to search for. */
void voice_hear(struct voice *voice, struct text state, struct text said);

#endif
