/* What a press makes the service do, and the words for what came of it: the same for everybody who is talked to, in a
 * chat or by voice. A chat adds its buttons, a voice its next question. Thread: the loop's.
 */
#ifndef CHANNELS_DEAL_H
#define CHANNELS_DEAL_H

#include "channels/phrase.h"
#include "channels/press.h"
#include "channels/turn.h"

/* The product of a press, first: with its figures only if the press asks for them. */
void deal_find(struct turn *turn, const struct press *press, void (*on_done)(struct turn *turn));
/* Holds one unit of the product under the press's offer, buys the press's hold, or releases it (not PRESS_CHECK).
 * `caller`: for whom, for the caps, and because nobody ends what is held for another; data NULL: not known. An offer
 * that is none of ours comes to on_done as a hold that nobody knows. */
void deal_run(struct turn *turn, const struct press *press, const struct product *product, struct text caller,
              void (*on_done)(struct turn *turn));
/* In on_done: the phrase, and the words that it needs but for the title. PHRASE_TRY_AGAIN: nothing was decided, the
 * same press may come again. */
enum phrase deal_phrase(const struct turn *turn, enum press_action action, struct phrase_words *words);
/* After PHRASE_HELD_FOR_YOU: the presses that end the hold. */
struct press deal_end(const struct turn *turn, enum press_action action, const struct product *product);

#endif
