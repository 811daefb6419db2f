/* Fuzz target: the path and the query of a request, from the bytes behind the method to what a handler is given.
 *
 * The routes are those of the API. A path goes to the route, with the parameters, that a reader finds who splits path and
 * patterns at each '/'. Escapes are undone exactly once, to UTF-8 without NUL, as the rule says in its plainest form; what
 * is decoded, escaped again byte by byte, decodes to the same. A handler finds each value of a name in its order, however
 * it asks. Input: the target; a byte that cannot stand in one stands for its escape.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buffer.h"
#include "base/check.h"
#include "base/id.h"
#include "base/text.h"
#include "fuzz/fuzz.h"
#include "http/connection.h"
#include "http/percent.h"
#include "http/router.h"

#define PIECES_MAX 16

/* Of api/api.h, which cannot be seen beside http/connection.h: each has a `struct query` of its own. */
struct api;
const struct router *api_router(const struct api *api);

/* --- escapes ------------------------------------------------------------------------------------------------------ */

/* False: not to be decoded. */
static bool plain_decode(struct text raw, bool plus_is_blank, struct buffer *out)
{
	static const char digits[] = "0123456789abcdef0123456789ABCDEF";
	buffer_clear(out);
	for (size_t i = 0; i < raw.size; i++) {
		if (raw.data[i] != '%') {
			buffer_add_char(out, plus_is_blank && raw.data[i] == '+' ? ' ' : raw.data[i]);
			continue;
		}
		if (raw.size - i < 3)
			return false;
		const char *high = memchr(digits, raw.data[i + 1], sizeof digits - 1);
		const char *low = memchr(digits, raw.data[i + 2], sizeof digits - 1);
		if (!high || !low)
			return false;
		buffer_add_char(out, (char)(((high - digits) & 15) << 4 | ((low - digits) & 15)));
		i += 2;
	}
	return text_is_utf8(buffer_text(out)); /* has no NUL */
}

static void check_again(struct arena *arena, struct text decoded, bool plus_is_blank)
{
	struct buffer escaped = {0};
	struct text again;
	const char *why;
	for (size_t i = 0; i < decoded.size; i++)
		buffer_add_format(&escaped, "%%%02x", (unsigned char)decoded.data[i]);
	CHECK(percent_decode(arena, buffer_text(&escaped), plus_is_blank, &again, &why) == LU_OK);
	CHECK(text_equal(again, decoded));
	buffer_done(&escaped);
}

static bool check_decode(struct arena *arena, struct text raw, bool plus_is_blank)
{
	struct buffer plain = {0};
	struct text decoded = TEXT("untouched");
	const char *why = NULL;
	bool good = percent_decode(arena, raw, plus_is_blank, &decoded, &why) == LU_OK;
	CHECK(good == plain_decode(raw, plus_is_blank, &plain));
	if (good) {
		CHECK(text_equal(decoded, buffer_text(&plain)));
		check_again(arena, decoded, plus_is_blank);
	} else {
		CHECK(why && *why && text_equal(decoded, TEXT("untouched")));
	}
	buffer_done(&plain);
	return good;
}

/* --- the path ----------------------------------------------------------------------------------------------------- */

/* Splits at each '/'; the piece before the first is empty. */
static size_t split(struct text path, struct text pieces[PIECES_MAX])
{
	size_t count = 0;
	while (count < PIECES_MAX) {
		const char *slash = memchr(path.data, '/', path.size);
		struct text piece = {path.data, slash ? (size_t)(slash - path.data) : path.size};
		pieces[count++] = piece;
		if (!slash)
			return count;
		path = (struct text){slash + 1, path.size - piece.size - 1};
	}
	return PIECES_MAX + 1;
}

static bool fits(const char *pattern, struct text path, struct text params[ROUTE_PARAMS_MAX], size_t *ret_count)
{
	struct text wanted[PIECES_MAX], there[PIECES_MAX];
	size_t count = split(path, there);
	*ret_count = 0;
	if (split(text_of(pattern), wanted) != count)
		return false;
	for (size_t i = 0; i < count; i++) {
		bool any = wanted[i].size && wanted[i].data[0] == '{' && there[i].size;
		if (!any && !text_equal(wanted[i], there[i]))
			return false;
		if (any)
			params[(*ret_count)++] = there[i];
	}
	return true;
}

static void check_route(struct arena *arena, unsigned method, struct text path)
{
	const struct router *router = api_router(NULL); /* the table is no api's own */
	const struct route *expected = NULL, *found = NULL;
	struct text params[ROUTE_PARAMS_MAX], plain[ROUTE_PARAMS_MAX], ignored[ROUTE_PARAMS_MAX];
	size_t count = 0, plain_count = 0;
	unsigned allow = 0, plain_allow = 0;
	for (size_t i = 0; i < router->count; i++) {
		const struct route *route = &router->routes[i];
		size_t n;
		if (!fits(route->pattern, path, expected ? ignored : plain, &n))
			continue;
		plain_allow |= route->methods;
		if (!expected && route->methods & (method == HTTP_METHOD_HEAD ? HTTP_METHOD_GET : method)) {
			expected = route;
			plain_count = n;
		}
	}
	enum route_match match = router_match(router, method, path, &found, params, &count, &allow);
	CHECK(match == (expected ? ROUTE_FOUND : plain_allow ? ROUTE_METHOD_NOT_ALLOWED : ROUTE_NOT_FOUND));
	if (match == ROUTE_METHOD_NOT_ALLOWED)
		CHECK(allow == (plain_allow | (plain_allow & HTTP_METHOD_GET ? HTTP_METHOD_HEAD : 0)));
	if (match != ROUTE_FOUND)
		return;
	CHECK(found == expected && count == plain_count);
	for (size_t i = 0; i < count; i++) {
		struct uuid id;
		char text[UUID_TEXT_BYTES + 1];
		CHECK(text_equal(params[i], plain[i]));
		check_decode(arena, params[i], false);
		if (uuid_parse(params[i], &id)) {
			uuid_format(&id, text);
			CHECK(params[i].size == UUID_TEXT_BYTES && strncasecmp(text, params[i].data, UUID_TEXT_BYTES) == 0);
		}
	}
}

/* --- the query ---------------------------------------------------------------------------------------------------- */

/* The values of each name, found by asking, are those of the pairs. */
static void check_asking(struct query_pair *pairs, size_t count)
{
	static struct connection connection; /* large; nothing of it is used but the query */
	struct request *request = &connection.request;
	request->connection = &connection;
	request->query = (struct query){pairs, count, NULL, 0, 0};
	static const char *const names[] = {"sku", "limit", "after", "status", "reference", "a", NULL};
	bool known = true;
	for (size_t i = 0; i < count; i++) {
		bool one = false;
		for (const char *const *name = names; *name; name++)
			one |= text_equal(pairs[i].name, text_of(*name));
		known &= one;
	}
	CHECK((request_query_check(request, names).size == 0) == known);
	for (const char *const *name = names; *name; name++) {
		struct text value = {0}, first = {0}, again = {0};
		size_t n = 0;
		for (size_t i = 0; i < count; i++) {
			if (!text_equal(pairs[i].name, text_of(*name)))
				continue;
			CHECK(request_query(request, *name, n, &value) && value.data == pairs[i].value.data);
			first = n ? first : value;
			/* now and then from the front, and by another name, in between */
			if (i & 1)
				CHECK(request_query(request, *name, 0, &again) && again.data == first.data);
			if (i & 2)
				(void)request_query(request, names[i % 6], i / 6, &again);
			n++;
		}
		CHECK(!request_query(request, *name, n, &value));
	}
}

static void check_query(struct arena *arena, struct text query)
{
	struct query_pair *pairs = NULL;
	size_t count = 0, at = 0;
	const char *why = NULL;
	bool good = percent_query(arena, query, &pairs, &count, &why) == LU_OK, expected = true;
	struct buffer name = {0}, value = {0};
	for (size_t i = 0; expected && i <= query.size;) {
		const char *end = memchr(query.data + i, '&', query.size - i);
		struct text piece = {query.data + i, end ? (size_t)(end - query.data) - i : query.size - i};
		i += piece.size + 1;
		if (!piece.size)
			continue;
		const char *equals = memchr(piece.data, '=', piece.size);
		struct text left = {piece.data, equals ? (size_t)(equals - piece.data) : piece.size};
		struct text right = {equals ? equals + 1 : NULL, equals ? piece.size - left.size - 1 : 0};
		expected = plain_decode(left, true, &name) && plain_decode(right, true, &value);
		if (good)
			CHECK(at < count && text_equal(pairs[at].name, buffer_text(&name)) &&
			      text_equal(pairs[at].value, buffer_text(&value)));
		at++;
	}
	CHECK(good == expected && (good ? at == count : why && *why));
	buffer_done(&name);
	buffer_done(&value);
	if (good)
		check_asking(pairs, count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena arena;
	struct buffer target = {0};
	arena_init(&arena, 4096);
	buffer_add_char(&target, '/');
	for (size_t i = size && data[0] == '/'; i < size; i++)
		if (data[i] > ' ' && data[i] < 0x7f && data[i] != '#')
			buffer_add_char(&target, (char)data[i]);
		else
			buffer_add_format(&target, "%%%02X", data[i]);
	const char *mark = memchr(target.data, '?', target.size);
	struct text path = {target.data, mark ? (size_t)(mark - target.data) : target.size};
	for (unsigned method = HTTP_METHOD_GET; method <= HTTP_METHOD_OPTIONS; method <<= 1)
		check_route(&arena, method, path);
	check_decode(&arena, path, false);
	if (mark)
		check_query(&arena, (struct text){mark + 1, target.size - path.size - 1});
	buffer_done(&target);
	arena_done(&arena);
	return 0;
}
