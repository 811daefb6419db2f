/* An instance of the service whose way to PostgreSQL and to Redis leads through proxies (proxy.h), so that one message
 * of it can be cut off, held, or lose its answer while the shop's first instance goes on.
 *
 *	detour_open(&detour);
 *	proxy_when(&detour.postgres, PROXY_TO_SERVER, "COMMIT", PROXY_HOLD);
 *	errand_begin(&sale, &detour.service, shop.key_web, "POST", "/v1/checkouts", shop_cart("A=1"));
 *	proxy_wait_matches(&detour.postgres, 1);
 *	… the sale stands before its COMMIT …
 *	proxy_release(&detour.postgres);
 *	detour_close(&detour);
 */
#ifndef TESTS_LIB_DETOUR_H
#define TESTS_LIB_DETOUR_H

#include "lib/proxy.h"
#include "lib/shop.h"

struct detour {
	struct service service;
	struct proxy postgres, redis;
	char directory[64];
};

void detour_open(struct detour *detour);
/* Another process in place of one that was killed. */
void detour_serve_again(struct detour *detour);
/* SIGKILL, at once. */
void detour_kill(struct detour *detour);
void detour_close(struct detour *detour);

#endif
