/* The names of channels and scopes, and whose a hold is.
 *
 * Failure modes: a channel written by a newer release is shown as "unknown", for the ledger must stay readable while
 * releases are mixed; parsing is exact, and an unknown word leaves ret_* untouched.
 */
#include "lastunit/types.h"

#include <string.h>

#include "base/text.h"

static const char *const channels[] = {
	[CHANNEL_WEB] = "web",
	[CHANNEL_TELEGRAM] = "telegram",
	[CHANNEL_AGENT] = "agent",
	[CHANNEL_VOICE] = "voice",
	[CHANNEL_MARKETPLACE] = "marketplace",
	[CHANNEL_POS] = "pos",
	[CHANNEL_ADMIN] = "admin",
	[CHANNEL_SQL] = "sql",
	[CHANNEL_SYSTEM] = "system",
};
#define CHANNEL_COUNT (sizeof channels / sizeof channels[0])

static const struct {
	enum scope scope;
	const char *name;
} scopes[] = {
	{SCOPE_READ, "read"},   {SCOPE_SELL, "sell"},   {SCOPE_ORDERS, "orders"},
	{SCOPE_STOCK, "stock"}, {SCOPE_ADMIN, "admin"},
};
#define SCOPE_COUNT (sizeof scopes / sizeof scopes[0])

bool caller_may_have(struct text caller, struct text holder)
{
	return !caller.data || !holder.data || text_equal(caller, holder);
}

const char *channel_name(enum channel channel)
{
	return (unsigned)channel - 1 < CHANNEL_COUNT - 1 ? channels[channel] : "unknown";
}

bool channel_parse(struct text name, enum channel *ret_channel)
{
	for (unsigned i = CHANNEL_WEB; i < CHANNEL_COUNT; i++)
		if (text_equal(name, text_of(channels[i]))) {
			*ret_channel = (enum channel)i;
			return true;
		}
	return false;
}

const char *scope_name(enum scope scope)
{
	for (unsigned i = 0; i < SCOPE_COUNT; i++)
		if (scopes[i].scope == scope)
			return scopes[i].name;
	return "unknown";
}

static unsigned scope_parse(struct text name)
{
	for (unsigned i = 0; i < SCOPE_COUNT; i++)
		if (text_equal(name, text_of(scopes[i].name)))
			return scopes[i].scope;
	return 0;
}

bool scopes_parse(struct text list, unsigned *ret_scopes)
{
	unsigned result = 0;
	for (;;) {
		const char *comma = list.size ? memchr(list.data, ',', list.size) : NULL;
		struct text word = {list.data, comma ? (size_t)(comma - list.data) : list.size};
		unsigned scope = scope_parse(word);
		if (!scope)
			return false;
		result |= scope;
		if (!comma)
			break;
		list = (struct text){comma + 1, list.size - word.size - 1};
	}
	*ret_scopes = result;
	return true;
}
