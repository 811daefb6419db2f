/* Percent decoding.
 *
 * Happy path: nothing is encoded, and the raw text is the answer. Otherwise one pass into the arena, then one check
 * that the result is UTF-8. Failure modes: three refusals, each with its sentence.
 */
#include "http/percent.h"

#include <string.h>

#include "base/text.h"

static enum lu_error refuse(const char *why, const char **ret_why)
{
	*ret_why = why;
	return LU_MALFORMED_REQUEST;
}

static bool holds(struct text text, char c)
{
	return text.size && memchr(text.data, c, text.size);
}

enum lu_error percent_decode(struct arena *arena, struct text raw, bool plus_is_blank, struct text *ret_text,
                             const char **ret_why)
{
	if (!holds(raw, '%') && !(plus_is_blank && holds(raw, '+'))) {
		/* Nothing to decode. A target is ASCII, the scan saw to that; the body of a form is whatever it is. */
		if (!text_is_utf8(raw))
			return refuse("The bytes are not valid UTF-8.", ret_why);
		*ret_text = raw;
		return LU_OK;
	}
	char *out = arena_alloc(arena, raw.size + 1);
	size_t size = 0;
	for (size_t i = 0; i < raw.size; i++) {
		char c = raw.data[i];
		if (c == '%') {
			int high = i + 2 < raw.size ? text_hex_digit(raw.data[i + 1]) : -1;
			int low = i + 2 < raw.size ? text_hex_digit(raw.data[i + 2]) : -1;
			if (high < 0 || low < 0)
				return refuse("A '%' must be followed by two hex digits; write %25 for the sign itself.", ret_why);
			c = (char)(high << 4 | low);
			if (c == '\0')
				return refuse("%00 is not a character here.", ret_why);
			i += 2;
		} else if (c == '+' && plus_is_blank) {
			c = ' ';
		}
		out[size++] = c;
	}
	struct text text = {out, size};
	if (!text_is_utf8(text))
		return refuse("The percent-encoded bytes are not valid UTF-8.", ret_why);
	*ret_text = text;
	return LU_OK;
}

/* Cuts the piece before the first `separator` off *rest; what follows the separator stays. */
static struct text cut(struct text *rest, char separator)
{
	const char *at = rest->size ? memchr(rest->data, separator, rest->size) : NULL;
	struct text piece = {rest->data, at ? (size_t)(at - rest->data) : rest->size};
	size_t gone = piece.size + (at != NULL);
	*rest = (struct text){rest->size ? rest->data + gone : NULL, rest->size - gone};
	return piece;
}

enum lu_error percent_query(struct arena *arena, struct text query, struct query_pair **ret_pairs, size_t *ret_count,
                            const char **ret_why)
{
	size_t room = query.size > 0;
	for (size_t i = 0; i < query.size; i++)
		room += query.data[i] == '&';
	struct query_pair *pairs = ARENA_ARRAY(arena, room, struct query_pair);
	size_t count = 0;
	while (query.size) {
		struct text piece = cut(&query, '&');
		if (!piece.size)
			continue;
		struct text name = cut(&piece, '=');
		enum lu_error error = percent_decode(arena, name, true, &pairs[count].name, ret_why);
		if (!error)
			error = percent_decode(arena, piece, true, &pairs[count].value, ret_why);
		if (error)
			return error;
		count++;
	}
	*ret_pairs = pairs;
	*ret_count = count;
	return LU_OK;
}
