/* An excerpt: what a text is cut to where only so much of it fits. Thread: any; pure.
 *
 * Counted in UTF-16 code units, as the Bot API counts: a character beyond U+FFFF is two.
 */
#ifndef CHANNELS_EXCERPT_H
#define CHANNELS_EXCERPT_H

#include "base/arena.h"

/* The text itself if it has at most `units_max` units; else a beginning of whole characters and "…", together no more than
 * that. `text`: valid UTF-8; units_max: 1 or more. */
struct text excerpt(struct arena *arena, struct text text, size_t units_max);

#endif
