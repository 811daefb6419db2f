/* One pass over the bytes. What it takes, jansson and body_skus() take too, with the same codes
 * (tests/fuzz/body_fuzz.c). */
#include "api/plain_skus.h"

#include <string.h>

#include "base/text.h"

struct cursor {
	const char *at, *end;
};

static void skip_space(struct cursor *c)
{
	while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t' || *c->at == '\r'))
		c->at++;
}

/* `token`, behind white space. */
static bool take(struct cursor *c, struct text token)
{
	skip_space(c);
	if ((size_t)(c->end - c->at) < token.size || memcmp(c->at, token.data, token.size) != 0)
		return false;
	c->at += token.size;
	return true;
}

static bool take_sku(struct cursor *c, struct text *ret_sku)
{
	if (!take(c, TEXT("\"")))
		return false;
	const char *quote = memchr(c->at, '"', (size_t)(c->end - c->at));
	if (!quote)
		return false;
	*ret_sku = (struct text){c->at, (size_t)(quote - c->at)};
	c->at = quote + 1;
	return !memchr(ret_sku->data, '\\', ret_sku->size) && !text_check_sku(*ret_sku);
}

bool plain_skus(struct text body, struct arena *arena, struct text **ret_skus, size_t *ret_count)
{
	struct cursor c = {body.data, body.data + body.size};
	if (!take(&c, TEXT("{")) || !take(&c, TEXT("\"skus\"")) || !take(&c, TEXT(":")) || !take(&c, TEXT("[")))
		return false;
	/* A code has at least its quotes and a comma or a bracket. */
	size_t room = (size_t)(c.end - c.at) / 4 + 1, count = 0;
	struct text *skus = ARENA_ARRAY(arena, room < LU_LOOKUP_MAX ? room : LU_LOOKUP_MAX, struct text);
	do {
		if (count == LU_LOOKUP_MAX || !take_sku(&c, &skus[count++]))
			return false;
	} while (take(&c, TEXT(",")));
	if (!take(&c, TEXT("]")) || !take(&c, TEXT("}")))
		return false;
	skip_space(&c);
	if (c.at != c.end)
		return false;
	*ret_skus = skus;
	*ret_count = count;
	return true;
}
