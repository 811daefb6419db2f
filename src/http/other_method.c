/* A path that there is, asked by a method that has no handler.
 *
 * Happy path: OPTIONS is told what is allowed, and a browser's preflight whether a page may ask.
 * Failure modes: any other method is 405, with the same list in `Allow` and in the detail.
 */
#include "http/other_method.h"

#include "base/arena.h"
#include "base/text.h"
#include "http/connection.h"
#include "http/loop.h"
#include "http/problem.h"
#include "http/request.h"

/* As `Allow` has them. */
static struct text method_list(struct request *request, unsigned allow)
{
	static const struct {
		enum http_method method;
		const char *name;
	} names[] = {
		{HTTP_METHOD_GET, "GET"}, {HTTP_METHOD_HEAD, "HEAD"},     {HTTP_METHOD_POST, "POST"},
		{HTTP_METHOD_PUT, "PUT"}, {HTTP_METHOD_DELETE, "DELETE"}, {HTTP_METHOD_OPTIONS, "OPTIONS"},
	};
	struct text list = {0};
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (allow & names[i].method)
			list = arena_printf(request_arena(request), "%.*s%s%s", (int)list.size, list.size ? list.data : "",
			                    list.size ? ", " : "", names[i].name);
	return list;
}

/* Whether a publishable key may do that here. */
static bool is_for_pages(const struct request *request, enum http_method method)
{
	const struct route *route;
	struct text params[ROUTE_PARAMS_MAX];
	size_t count;
	unsigned allow;
	return router_match(&request->connection->loop->server->router, method, request->path, &route, params, &count,
	                    &allow) == ROUTE_FOUND &&
	       (route->scopes & ROUTE_PUBLISHABLE);
}

/* The question of a browser before a page's request with headers of its own (Fetch, "CORS-preflight"). It carries no key,
 * so anybody is told yes; whether the key is for that page is looked at when it comes. */
static void answer_preflight(struct request *request)
{
	struct text wanted, origin;
	bool get = is_for_pages(request, HTTP_METHOD_GET), post = is_for_pages(request, HTTP_METHOD_POST);
	if (!request_header(request, "Origin", &origin) ||
	    !request_header(request, "Access-Control-Request-Method", &wanted) || !(get || post))
		return;
	request_add_header(request, "Access-Control-Allow-Origin", TEXT("*"));
	request_add_header(request, "Access-Control-Allow-Methods",
	                   get && post ? TEXT("GET, POST")
	                   : get       ? TEXT("GET")
	                               : TEXT("POST"));
	request_add_header(request, "Access-Control-Allow-Headers",
	                   TEXT("Authorization, Cache-Control, Content-Type, If-None-Match, Last-Event-ID"));
	request_add_header(request, "Access-Control-Max-Age", TEXT("600"));
}

void other_method_answer(struct request *request, unsigned allow)
{
	struct text list = method_list(request, allow | HTTP_METHOD_OPTIONS);
	request_add_header(request, "Allow", list);
	if (request->head.method != HTTP_METHOD_OPTIONS) {
		problem_reply(request, LU_METHOD_NOT_ALLOWED,
		              arena_printf(request_arena(request), "Allowed here: %.*s.", (int)list.size, list.data));
		return;
	}
	answer_preflight(request);
	request_reply(request, 204, NULL, (struct text){0});
}
