/* Whether a request that a browser may have made was made by a page of ours.
 *
 * A page of another site can make its visitor's browser send requests here, and by rebinding a name of its own to our
 * address even read the answers. Such a request carries the other site's name in Host or in Origin. Used by endpoints
 * that answer without a key or to agents on the same machine (MCP: "DNS rebinding protection").
 */
#ifndef CHANNELS_ORIGIN_H
#define CHANNELS_ORIGIN_H

#include "http/request.h"

/* Host must be the host of --public-url, or a loopback name if this service listens on a loopback address; where neither is
 * given, any. Origin, if there is one, must be that host. False: 403 was replied. */
bool origin_check(struct request *request) LU_MUST_CHECK;
/* Whether the page that asks is this service's own, in a browser on this machine: the service listens on a loopback
 * address, Host is one, Origin is exactly `http://` and this Host, and nobody stands in between. Without Origin: no. */
bool origin_is_own_page(const struct request *request) LU_MUST_CHECK;
/* The rules, for tests. Texts of size 0: not given; `host` is the field's value, `origin` too. */
bool origin_allowed(struct text public_url, struct text listen, struct text host, struct text origin);
bool origin_own(struct text listen, struct text host, struct text origin);

/* What this service is reached by, "https://shop.example", without a slash at its end: --public-url, or else by the
 * request's Host, which only a request that passed origin_check() is believed for. In the request's arena. */
struct text origin_address(struct request *request);

#endif
