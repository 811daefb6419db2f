/* Webhooks, what is pure of them: signatures by the specification, ids that stay, addresses that are let through. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "base/text.h"
#include "channels/webhook_address.h"
#include "channels/webhook_message.h"

static bool sign(const struct webhook *webhook, char signature[WEBHOOK_SIGNATURE_BYTES_MAX + 1])
{
	return webhook_sign(webhook, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, TEXT("{\"test\": 2432232314}"), signature);
}

/* The example of the specification and of its libraries' own tests. */
static void the_signature_is_that_of_the_specification(void **state)
{
	struct webhook webhook = {.secret = TEXT("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")};
	char signature[WEBHOOK_SIGNATURE_BYTES_MAX + 1];
	assert_true(sign(&webhook, signature));
	assert_string_equal(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
	webhook.old_secret = webhook.secret;
	webhook.secret = TEXT("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
	assert_true(sign(&webhook, signature));
	assert_non_null(strstr(signature, " v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="));
}

/* A damaged row: a signature without a key would be everybody's. */
static void a_secret_without_a_key_signs_nothing(void **state)
{
	struct text none[] = {{0},
	                      TEXT(""),
	                      TEXT("whsec_"),
	                      TEXT("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
	                      TEXT("whsec_===="),
	                      TEXT("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS"),
	                      TEXT("whsec_\0\0\0\0")};
	char signature[WEBHOOK_SIGNATURE_BYTES_MAX + 1];
	for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
		struct webhook webhook = {.secret = none[i], .old_secret = TEXT("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")};
		assert_false(sign(&webhook, signature));
		assert_string_equal(signature, "");
		/* Rotated, it is well again, with the damaged one beside it. */
		webhook = (struct webhook){.secret = webhook.old_secret, .old_secret = none[i]};
		assert_true(sign(&webhook, signature));
		assert_string_equal(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
	}
}

static void secrets_are_32_random_bytes_in_base64(void **state)
{
	char a[WEBHOOK_SECRET_BYTES + 1], b[WEBHOOK_SECRET_BYTES + 1];
	webhook_secret_new(a);
	webhook_secret_new(b);
	assert_int_equal(strlen(a), WEBHOOK_SECRET_BYTES);
	assert_memory_equal(a, "whsec_", 6);
	assert_string_not_equal(a, b);
	assert_int_equal(strspn(a + 6, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="), 44);
}

static void an_id_names_the_message_and_nothing_else(void **state)
{
	struct webhook webhook = {.id = {{1}}};
	struct feed_change change = {.position = {7, 100, 3, 4}, .sku = TEXT("A"), .figures = {.version = 5}};
	char first[WEBHOOK_ID_BYTES + 1], other[WEBHOOK_ID_BYTES + 1];
	webhook_message_id(&webhook, WEBHOOK_AVAILABILITY, &change, first);
	assert_int_equal(strlen(first), WEBHOOK_ID_BYTES);
	change.position.xid = 200; /* found again behind another entry: the same state all the same */
	webhook_message_id(&webhook, WEBHOOK_AVAILABILITY, &change, other);
	assert_string_equal(first, other);
	webhook_message_id(&webhook, WEBHOOK_STOCK_OUT, &change, other);
	assert_string_not_equal(first, other);
	change.figures.version++;
	webhook_message_id(&webhook, WEBHOOK_AVAILABILITY, &change, other);
	assert_string_not_equal(first, other);
	change.figures.version--;
	change.position.sku_id++;
	webhook_message_id(&webhook, WEBHOOK_AVAILABILITY, &change, other);
	assert_string_not_equal(first, other);
	change.position.sku_id--;
	change.position.identity++; /* another PostgreSQL gives out the same numbers */
	webhook_message_id(&webhook, WEBHOOK_AVAILABILITY, &change, other);
	assert_string_not_equal(first, other);
	change.position.identity--;
	webhook.id.bytes[0]++;
	webhook_message_id(&webhook, WEBHOOK_AVAILABILITY, &change, other);
	assert_string_not_equal(first, other);
}

static void a_body_is_availability_in_an_envelope(void **state)
{
	const struct feed_change change =
		{.sku = TEXT("A"),
	     .figures = {.version = 5, .on_hand = 9, .reserved = 2, .safety_stock = 1, .tracked = true},
	     .at_us = INT64_C(1796135525123000)};
	struct buffer out = {0};
	webhook_message_body(&out, WEBHOOK_STOCK_BACK, &change);
	buffer_add_char(&out, 0);
	assert_string_equal(out.data,
	                    "{\"type\":\"stock.back\",\"timestamp\":\"2026-12-01T14:32:05.123Z\",\"data\":"
	                    "{\"sku\":\"A\",\"status\":\"in_stock\",\"available\":6,\"held\":2,\"tracked\":true,"
	                    "\"version\":5}}");
	buffer_done(&out);
}

static void events_have_names_and_only_these(void **state)
{
	enum webhook_event event;
	for (unsigned bit = 1; bit <= WEBHOOK_EVENTS_ALL; bit *= 2) {
		assert_true(webhook_event_parse(text_of(webhook_event_name((enum webhook_event)bit)), &event));
		assert_int_equal(event, bit);
	}
	assert_false(webhook_event_parse(TEXT("stock"), &event));
	assert_false(webhook_event_parse(TEXT(""), &event));
}

static bool is_public(const char *address)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
	if (inet_pton(AF_INET, address, &v4.sin_addr) == 1)
		return webhook_address_is_public((struct sockaddr *)&v4);
	assert_int_equal(inet_pton(AF_INET6, address, &v6.sin6_addr), 1);
	return webhook_address_is_public((struct sockaddr *)&v6);
}

static void addresses_inside_are_not_public_however_they_are_written(void **state)
{
	static const char *const inside[] = {"0.0.0.0",
	                                     "0.1.2.3",
	                                     "10.0.0.1",
	                                     "10.255.255.255",
	                                     "100.64.0.1",
	                                     "100.127.255.255",
	                                     "127.0.0.1",
	                                     "127.255.0.1",
	                                     "169.254.169.254",
	                                     "172.16.0.1",
	                                     "172.31.255.255",
	                                     "192.0.0.8",
	                                     "192.0.2.1",
	                                     "192.168.1.1",
	                                     "198.18.0.1",
	                                     "198.19.255.255",
	                                     "198.51.100.7",
	                                     "203.0.113.9",
	                                     "224.0.0.1",
	                                     "240.0.0.1",
	                                     "255.255.255.255",
	                                     "::",
	                                     "::1",
	                                     "::ffff:127.0.0.1",
	                                     "::ffff:10.1.2.3",
	                                     "::127.0.0.1",
	                                     "64:ff9b::a00:1",
	                                     "64:ff9b:1::1",
	                                     "100::1",
	                                     "2001::1",
	                                     "2001:2::1",
	                                     "2001:10::1",
	                                     "2001:db8::1",
	                                     "2002:7f00:1::",
	                                     "2002:a00:1::",
	                                     "fc00::1",
	                                     "fd12::1",
	                                     "fe80::1",
	                                     "fec0::1",
	                                     "ff02::1"};
	static const char *const outside[] = {"1.1.1.1",        "9.255.255.255",
	                                      "11.0.0.1",       "100.63.255.255",
	                                      "100.128.0.1",    "126.0.0.1",
	                                      "128.0.0.1",      "169.253.0.1",
	                                      "172.15.0.1",     "172.32.0.1",
	                                      "192.0.1.1",      "192.167.0.1",
	                                      "192.169.0.1",    "198.17.0.1",
	                                      "198.20.0.1",     "223.255.255.255",
	                                      "::ffff:8.8.8.8", "64:ff9b::808:808",
	                                      "2001:200::1",    "2001:4860:4860::8888",
	                                      "2002:808:808::", "2a00:1450:4001:80b::200e"};
	struct sockaddr unix_socket = {.sa_family = AF_UNIX};
	for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
		if (is_public(inside[i]))
			fail_msg("%s is let through", inside[i]);
	for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
		if (!is_public(outside[i]))
			fail_msg("%s is held back", outside[i]);
	assert_false(webhook_address_is_public(&unix_socket));
}

static void urls_are_absolute_plain_and_lead_outside(void **state)
{
	static const char *const good[] = {"https://example.com/hook", "http://example.com:8080/a?b=c", "https://1.1.1.1/",
	                                   "https://[2001:4860:4860::8888]/x"};
	static const char *const bad[] = {"",
	                                  "example.com/hook",
	                                  "/hook",
	                                  "ftp://example.com/",
	                                  "file:///etc/passwd",
	                                  "https://",

	                                  "https://user@example.com/",
	                                  "https://user:word@example.com/",
	                                  "https://exa mple.com/",
	                                  "https://example.com/\r\nX: y",
	                                  "https://ex\xc3\xa4mple.com/",
	                                  "gopher://example.com/",
	                                  "javascript:alert(1)"};
	static const char *const inside[] =
		{"http://127.0.0.1/", "http://localhost:9/",      "http://a.LOCALHOST/",
	     "http://127.1/",     "http://0x7f000001/",       "http://2130706433/",
	     "http://[::1]/",     "http://[fe80::1%25eth0]/", "http://169.254.169.254/latest/meta-data",
	     "http://10.0.0.7/"};
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		if (webhook_url_flaw(good[i], false))
			fail_msg("%s: %s", good[i], webhook_url_flaw(good[i], false));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (!webhook_url_flaw(bad[i], true))
			fail_msg("%s is taken", bad[i]);
	for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
		if (!webhook_url_flaw(inside[i], false))
			fail_msg("%s is taken", inside[i]);
		if (webhook_url_flaw(inside[i], true))
			fail_msg("%s is refused though it is allowed", inside[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_signature_is_that_of_the_specification),
		cmocka_unit_test(a_secret_without_a_key_signs_nothing),
		cmocka_unit_test(secrets_are_32_random_bytes_in_base64),
		cmocka_unit_test(an_id_names_the_message_and_nothing_else),
		cmocka_unit_test(a_body_is_availability_in_an_envelope),
		cmocka_unit_test(events_have_names_and_only_these),
		cmocka_unit_test(addresses_inside_are_not_public_however_they_are_written),
		cmocka_unit_test(urls_are_absolute_plain_and_lead_outside),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
