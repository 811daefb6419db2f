/* An instance of the service whose way to PostgreSQL and to Redis leads through proxies (proxy.h), so that one message
 * of it can be cut off, held, or lose its answer while the shop's first instance goes on.
 *
 *	detour_open();
 *	proxy_when(&detour.postgres, PROXY_TO_SERVER, "COMMIT", PROXY_HOLD);
 *	sale = errand_begin(&detour.service, shop.key_web, "POST", "/v1/checkouts", shop_cart("A=1"));
 *	proxy_wait_matches(&detour.postgres, 1);
 *	… the sale stands before its COMMIT …
 *	proxy_release(&detour.postgres);
 *	detour_close();
 *
 * One for all tests of the program, as the shop is: the threads of its proxies may outlive a test that fails, and must not
 * find its frame gone. A test that opens one has detour_audit as teardown, or a fixture that closes it.
 */
#ifndef TESTS_LIB_DETOUR_H
#define TESTS_LIB_DETOUR_H

#include "lib/proxy.h"
#include "lib/shop.h"

struct detour {
	struct service service;
	struct proxy postgres, redis;
	char directory[64];
	bool open;
};
extern struct detour detour;

void detour_open(void);
/* Another process in place of one that was killed. */
void detour_serve_again(void);
/* SIGKILL, at once. */
void detour_kill(void);
/* Nothing if it is closed already. */
void detour_close(void);
/* As teardown: closes what a test that failed has left open, then shop_audit(). */
int detour_audit(void **state);

#endif
