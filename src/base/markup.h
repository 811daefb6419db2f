/* Text inside HTML and XML. Thread: the buffer's. */
#ifndef BASE_MARKUP_H
#define BASE_MARKUP_H

#include "base/buffer.h"

/* Adds UTF-8 text so that it stands for itself in an element or in a quoted attribute of HTML and XML: & < > " ' are
 * escaped; a control character, which XML 1.0 cannot carry at all, is a blank, but for tab, CR and LF. */
void markup_add(struct buffer *out, struct text text);

#endif
