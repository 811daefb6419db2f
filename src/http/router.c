/* The routes, matched segment by segment.
 *
 * Happy path: patterns are tried in the order of the table; the first that fits in path and method wins. A table of
 * a few dozen rows, most of which differ in their first bytes, costs less this way than a tree would.
 * Failure modes: none; a pattern that is no pattern is a bug (CHECK).
 */
#include "http/router.h"

#include <string.h>

#include "base/check.h"
#include "http/request.h"

static bool fits(const char *pattern, struct text path, struct text params[ROUTE_PARAMS_MAX], size_t *ret_count)
{
	const char *at = path.data, *end = path.data + path.size;
	size_t count = 0;
	while (*pattern) {
		if (*pattern == '{') {
			const char *slash = memchr(at, '/', (size_t)(end - at));
			const char *stop = slash ? slash : end;
			if (stop == at)
				return false; /* an empty segment is no value */
			CHECK(count < ROUTE_PARAMS_MAX);
			params[count++] = (struct text){at, (size_t)(stop - at)};
			at = stop;
			pattern = strchr(pattern, '}');
			CHECK(pattern);
			pattern++;
		} else {
			if (at == end || *at != *pattern)
				return false;
			at++;
			pattern++;
		}
	}
	*ret_count = count;
	return at == end;
}

enum route_match router_match(const struct router *router, unsigned method, struct text path,
                              const struct route **ret_route, struct text params[ROUTE_PARAMS_MAX], size_t *ret_count,
                              unsigned *ret_allow)
{
	/* HEAD is answered where GET is. */
	unsigned wanted = method == HTTP_METHOD_HEAD ? HTTP_METHOD_HEAD | HTTP_METHOD_GET : method;
	unsigned allow = 0;
	for (size_t i = 0; i < router->count; i++) {
		const struct route *route = &router->routes[i];
		struct text found[ROUTE_PARAMS_MAX];
		size_t count;
		if (!fits(route->pattern, path, found, &count))
			continue;
		allow |= route->methods;
		if (!(route->methods & wanted))
			continue;
		memcpy(params, found, count * sizeof found[0]);
		*ret_route = route;
		*ret_count = count;
		*ret_allow = allow;
		return ROUTE_FOUND;
	}
	if (allow & HTTP_METHOD_GET)
		allow |= HTTP_METHOD_HEAD;
	*ret_allow = allow;
	return allow ? ROUTE_METHOD_NOT_ALLOWED : ROUTE_NOT_FOUND;
}
