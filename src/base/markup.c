/* Escapes of HTML and XML that are the same in both. Failure modes: none. */
#include "base/markup.h"

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
		const char *escape = escape_of(text.data[i]);
		if (escape)
			buffer_add_string(out, escape);
		else
			buffer_add_char(out, text.data[i]);
	}
}
