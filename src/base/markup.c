/* Escapes of HTML and XML that are the same in both. What XML has no place for becomes a blank: control characters, and the
 * two noncharacters that it names (XML 1.0, 2.2), which titles of former times or of SQL may hold. Failure modes: none. */
#include "base/markup.h"

#include <string.h>

static const char *escape_of(char c)
{
	switch (c) {
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '&':
		return "&amp;";
	case '"':
		return "&quot;";
	case '\'':
		return "&#39;";
	default:
		return (unsigned char)c < ' ' && c != '\t' && c != '\r' && c != '\n' ? " " : NULL;
	}
}

void markup_add(struct buffer *out, struct text text)
{
	for (size_t i = 0; i < text.size; i++) {
		/* U+FFFE, U+FFFF */
		if (i + 2 < text.size &&
		    (!memcmp(text.data + i, "\xef\xbf\xbe", 3) || !memcmp(text.data + i, "\xef\xbf\xbf", 3))) {
			buffer_add_char(out, ' ');
			i += 2;
			continue;
		}
		const char *escape = escape_of(text.data[i]);
		if (escape)
			buffer_add_string(out, escape);
		else
			buffer_add_char(out, text.data[i]);
	}
}
