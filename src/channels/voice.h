/* A conversation by voice: one engine for every wire that hears and speaks.
 *
 * What a caller may answer next is the *state*: up to two presses (press.h), the one for "yes" or "the first" and the
 * one for "no" or "the second". The wire carries it to the next turn (Alexa in its session, Twilio in the address it
 * calls), so the service keeps nothing, and a turn that is sent again does the same again: a hold's key is the offer
 * in its press. A question stays open until it is answered or another product is found: whatever else is said, or
 * nothing, it is asked again with the same state. Codes are never spoken. When two products match, one question is
 * asked. Thread: the loop's.
 */
#ifndef CHANNELS_VOICE_H
#define CHANNELS_VOICE_H

#include "channels/phrase.h"
#include "channels/press.h"
#include "channels/turn.h"

#define VOICE_STATE_BYTES_MAX (2 * PRESS_BYTES_MAX + 1)
#define VOICE_CALLER_BYTES_MAX 128

/* The question that a state stands for. */
enum voice_question {
	VOICE_ASKED_NOTHING, /* but for a product: what is said is a search */
	VOICE_ASKED_HOLD,
	VOICE_ASKED_BUY,
	VOICE_ASKED_WHICH, /* of two */
};

struct voice {
	struct turn turn; /* first */
	enum language language;
	struct text caller; /* for caps: who speaks; data NULL: not known */
	void (*on_said)(struct voice *voice);

	/* what was asked last */
	enum voice_question question;
	struct press yes, no; /* or the first and the second */

	/* what is said */
	struct text sentence;
	char state[VOICE_STATE_BYTES_MAX + 1]; /* "": the next turn is a search */
	bool ends;                             /* nothing is asked any more */

	/* at work */
	struct text code, words; /* what is looked for */
	bool wants_it;           /* to answer yes, if what is found is what was asked about */
	struct text statement;   /* before the question that is asked again */
	struct press press;
	struct product product;
};

/* The request has a principal. `state`: what the last turn left; one that nobody wrote counts as none. */
void voice_init(struct voice *voice, struct request *request, enum language language, struct text state,
                void (*on_said)(struct voice *));
/* Who speaks, as the wire names them; "": not known. Of a longer name its first VOICE_CALLER_BYTES_MAX count, cut
 * between two characters. */
void voice_set_caller(struct voice *voice, const char *wire, struct text name);
/* Each says something through on_said, once: at once or later. */
void voice_welcome(struct voice *voice);
void voice_leave(struct voice *voice);
/* The open question again: for silence; after what one may say here; after what nobody understood. */
void voice_repeat(struct voice *voice);
void voice_help(struct voice *voice);
void voice_wonder(struct voice *voice);
/* What is there of what they name: by its code if it is one (data NULL: none is known), else by the words. */
void voice_look_for(struct voice *voice, struct text code, struct text words);
/* The same, but what the question is about is wanted: that is a yes. What may be it or not is asked again. */
void voice_want(struct voice *voice, struct text code, struct text words);
/* The answer to the question. */
void voice_agree(struct voice *voice);
void voice_refuse(struct voice *voice);
/* What somebody said: an answer in their language (hearing.h), or words to search for. */
void voice_hear(struct voice *voice, struct text said);
/* What somebody keyed in: 1 is yes, or the first; 2 is no, or the second. */
void voice_key(struct voice *voice, struct text digits);

#endif
