/* What lua/cell.lua reads in a cell, said again in C, so that a fuzz target can hold cell.c against it a million times
 * without a Redis. That it is the same is seen in tests/cache/cell_lua_test.c, on the Lua of a real Redis. Pure.
 */
#ifndef TESTS_LIB_LUA_VIEW_H
#define TESTS_LIB_LUA_VIEW_H

#include <string.h>

#include "base/text.h"

#define LUA_VERSION_DIGITS_MAX 16 /* of a version; more is none of ours */

/* %d+ at *io_at, at least one digit. */
static inline bool lua_digits(struct text cell, size_t *io_at, struct text *ret_digits)
{
	size_t from = *io_at;
	while (*io_at < cell.size && cell.data[*io_at] >= '0' && cell.data[*io_at] <= '9')
		++*io_at;
	*ret_digits = (struct text){cell.data + from, *io_at - from};
	return *io_at > from;
}

static inline bool lua_byte(struct text cell, size_t *io_at, char c)
{
	if (*io_at == cell.size || cell.data[*io_at] != c)
		return false;
	++*io_at;
	return true;
}

/* value_version(): '^V|(%d+)|%d+|%d+|%d+|[01]|(.+)$' and the SKU of the key. numbers: version,
 * on_hand, reserved, safety. */
static inline bool lua_value(struct text cell, struct text sku, struct text numbers[4])
{
	size_t at = 0;
	if (!lua_byte(cell, &at, 'V') || !lua_byte(cell, &at, '|'))
		return false;
	for (int i = 0; i < 4; i++)
		if (!lua_digits(cell, &at, &numbers[i]) || !lua_byte(cell, &at, '|'))
			return false;
	if (!(lua_byte(cell, &at, '0') || lua_byte(cell, &at, '1')) || !lua_byte(cell, &at, '|'))
		return false;
	struct text rest = {cell.data + at, cell.size - at};
	return rest.size && text_equal(rest, sku) && numbers[0].size <= LUA_VERSION_DIGITS_MAX;
}

/* intent_version(): '^I|[%w_-]+|(%d+)$'. */
static inline bool lua_intent(struct text cell, struct text *ret_token, struct text *ret_version)
{
	static const char word[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
	size_t at = 0;
	if (!lua_byte(cell, &at, 'I') || !lua_byte(cell, &at, '|'))
		return false;
	size_t from = at;
	while (at < cell.size && cell.data[at] && memchr(word, cell.data[at], sizeof word - 1))
		at++;
	*ret_token = (struct text){cell.data + from, at - from};
	return at > from && lua_byte(cell, &at, '|') && lua_digits(cell, &at, ret_version) && at == cell.size &&
	       ret_version->size <= LUA_VERSION_DIGITS_MAX;
}

#endif
