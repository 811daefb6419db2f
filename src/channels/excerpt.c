/* Excerpts. Failure modes: none. */
#include "channels/excerpt.h"

#include "base/check.h"

/* Those of the character that begins with this byte; none if it only goes on with one. */
static size_t units_of(char byte)
{
	unsigned char c = (unsigned char)byte;
	return (c & 0xc0) == 0x80 ? 0 : c >= 0xf0 ? 2 : 1;
}

struct text excerpt(struct arena *arena, struct text text, size_t units_max)
{
	CHECK(units_max);
	size_t units = 0, cut = 0; /* where the last character ends that leaves room for the "…" */
	for (size_t i = 0; i < text.size; i++) {
		if (units_of(text.data[i]) && units < units_max)
			cut = i;
		units += units_of(text.data[i]);
	}
	if (units <= units_max)
		return text;
	return arena_printf(arena, "%.*s…", (int)cut, text.data);
}
