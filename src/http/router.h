/* The routes: one table, matched by segment. `{name}` takes one segment, percent-decoded; the name is for whoever reads
 * the table. Nothing else is decoded, so "%2F" never makes a new segment. No match: 404 not_found; other method: 405
 * with Allow (HEAD where GET is; OPTIONS answers Allow). Thread: read-only once the server runs.
 */
#ifndef HTTP_ROUTER_H
#define HTTP_ROUTER_H

#include <stddef.h>

#include "lastunit/types.h"

struct request;

#define ROUTE_PARAMS_MAX 4
/* Beside the scopes of a route: publishable keys are let in, because it tells what any visitor of a shop may know. */
#define ROUTE_PUBLISHABLE (1u << 16)
/* A page, opened by links that others add parameters to: its query is passed over, whatever is in it. */
#define ROUTE_ANY_QUERY (1u << 17)

struct route {
	unsigned methods;                        /* enum http_method, or-ed */
	const char *pattern;                     /* "/v1/skus/{sku}/ledger" */
	unsigned scopes;                         /* every one needed (route_scopes()), and ROUTE_… */
	void (*handle)(struct request *request); /* called when scopes are met */
};

/* 0: no key needed. */
static inline unsigned route_scopes(const struct route *route)
{
	return route->scopes & ~(ROUTE_PUBLISHABLE | ROUTE_ANY_QUERY);
}

struct router {
	const struct route *routes;
	size_t count;
};

enum route_match { ROUTE_FOUND, ROUTE_NOT_FOUND, ROUTE_METHOD_NOT_ALLOWED };
/* Several routes of one pattern may differ in methods. *ret_allow: all methods of the pattern.
 * params are the raw segments, undecoded. */
enum route_match router_match(const struct router *router, unsigned method, struct text path,
                              const struct route **ret_route, struct text params[ROUTE_PARAMS_MAX], size_t *ret_count,
                              unsigned *ret_allow);

#endif
