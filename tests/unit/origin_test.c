/* Whose page it is: ours may ask, another site's may not, whatever it calls itself.
 *
 * Bugs it guards against: a name of another's that was made to lead to this machine (DNS rebinding); "shop.example.evil";
 * a page that was opened from a file. What is exactly ours: tests/e2e/page_test.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/text.h"
#include "channels/origin.h"

static void only_pages_of_ours_may_ask(void **state)
{
	static const struct {
		const char *public_url, *listen, *host, *origin;
		bool allowed;
	} rows[] = {
		/* On a loopback address: any name of it, any port. */
		{"", "127.0.0.1:8080", "127.0.0.1:8080", "", true},
		{"", "127.0.0.1:8080", "localhost:8080", "http://localhost:3000", true},
		{"", "[::1]:8080", "[::1]:8080", "http://127.0.0.1", true},
		{"", "127.0.0.1:8080", "evil.example", "", false},
		{"", "127.0.0.1:8080", "127.0.0.1.evil.example:8080", "", false},
		{"", "127.0.0.1:8080", "", "", false},
		{"", "[::1]:8080", "[::1", "", false},
		{"", "127.0.0.1:8080", "127.0.0.1:8080", "https://evil.example", false},
		{"", "127.0.0.1:8080", "127.0.0.1:8080", "null", false},
		{"", "127.0.0.1:8080", "127.0.0.1:8080", "file://", false},
		/* On another one without a name: that of the request. */
		{"", "0.0.0.0:8080", "shop.example", "", true},
		{"", "0.0.0.0:8080", "shop.example:8080", "http://shop.example:3000", true},
		{"", "0.0.0.0:8080", "shop.example", "https://evil.example", false},
		{"", "0.0.0.0:8080", "shop.example", "http://localhost", false},
		{"", "0.0.0.0:8080", "", "", false},
		/* With a name: that, and where it listens. */
		{"https://shop.example", "0.0.0.0:8080", "shop.example", "https://shop.example", true},
		{"https://shop.example:8443/", "127.0.0.1:8080", "Shop.Example:8443", "https://SHOP.example", true},
		{"https://shop.example", "127.0.0.1:8080", "127.0.0.1:8080", "http://localhost", true},
		{"https://shop.example", "0.0.0.0:8080", "other.example", "", false},
		{"https://shop.example", "0.0.0.0:8080", "127.0.0.1:8080", "", false},
		{"https://shop.example", "127.0.0.1:8080", "shop.example", "http://localhost", false},
		{"https://shop.example", "127.0.0.1:8080", "shop.example", "https://shop.example.evil.example", false},
		{"https://shop.example", "127.0.0.1:8080", "shop.example", "https://shop.exampl", false},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (origin_allowed(text_of(rows[i].public_url), text_of(rows[i].listen), text_of(rows[i].host),
		                   text_of(rows[i].origin)) != rows[i].allowed)
			fail_msg("%zu: \"%s\" \"%s\" \"%s\" \"%s\"", i, rows[i].public_url, rows[i].listen, rows[i].host,
			         rows[i].origin);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_pages_of_ours_may_ask),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
