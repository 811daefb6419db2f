/* What the tests of webhooks share: a shop that is impatient with endpoints, a receiver for each test, a
 * subscription of it, and what comes there next. */
#ifndef TESTS_E2E_WEBHOOKS_FIXTURE_H
#define TESTS_E2E_WEBHOOKS_FIXTURE_H

#include "lib/receiver.h"
#include "lib/shop.h"

static const char *const options[] =
	{"--webhook-retry-ms", "50", "--webhook-timeout-ms", "1000", "--webhook-disable-after-s", "3", NULL};

static struct receiver receiver;
static char hook[37], secret[64];

static inline int begin(void **state)
{
	receiver_open(&receiver);
	return 0;
}

static inline int over(void **state)
{
	shop_sql("DELETE FROM lastunit.webhook");
	receiver_close(&receiver);
	return shop_audit(state);
}

static inline void admin(const char *method, const char *path, const char *body, int status)
{
	shop_expect(shop.key_admin, method, path, NULL, body, status);
}

/* A webhook to this receiver; `rest` of its body, "" for all there is. */
static inline void subscribe_to(const struct receiver *r, const char *rest)
{
	admin("POST", "/v1/webhooks", shop_text("{\"url\":\"%s\"%s}", r->url, rest), 201);
	snprintf(hook, sizeof hook, "%s", answer_string(&shop_answer, "id"));
	snprintf(secret, sizeof secret, "%s", answer_string(&shop_answer, "secret"));
}

static inline void subscribe(const char *rest)
{
	subscribe_to(&receiver, rest);
}

static inline const char *look(const char *member)
{
	admin("GET", shop_path("webhooks", hook, ""), NULL, 200);
	return answer_string(&shop_answer, member);
}

static inline void sell(const char *sku, int64_t quantity)
{
	assert_int_equal(service_sell(&shop, shop.key_pos, NULL, sku, quantity), 201);
}

static inline const struct delivery *next(void)
{
	const struct delivery *d = receiver_take(&receiver);
	if (!d)
		fail_msg("nothing was delivered");
	if (!delivery_is_signed(d, secret))
		fail_msg("not signed with %s: %s", secret, d->signature);
	return d;
}

/* The next delivery is this event, of this SKU at this version. */
static inline void expect(const char *type, const char *sku, int64_t version)
{
	const struct delivery *d = next();
	assert_string_equal(delivery_string(d, "type"), type);
	assert_string_equal(delivery_string(d, "sku"), sku);
	assert_int_equal(delivery_int(d, "version"), version);
}

#define WEBHOOK_TEST(f) cmocka_unit_test_setup_teardown(f, begin, over)
#define WEBHOOK_MAIN(tests)                                          \
	int main(void)                                                   \
	{                                                                \
		shop_options = options;                                      \
		return cmocka_run_group_tests(tests, shop_open, shop_close); \
	}

#endif
