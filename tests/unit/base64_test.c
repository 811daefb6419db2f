/* Base64: what RFC 4648 says and not a character more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <openssl/evp.h>

#include "base/base64.h"
#include "base/id.h"
#include "base/text.h"

static void expect(struct text coded, const char *raw)
{
	unsigned char out[32];
	size_t size = 99;
	assert_true(base64_decode(coded, out, sizeof out, &size));
	assert_int_equal(size, strlen(raw));
	assert_memory_equal(out, raw, size);
}

static void expect_none(struct text coded)
{
	unsigned char out[64];
	size_t size = 99;
	if (base64_decode(coded, out, sizeof out, &size))
		fail_msg("%.*s is %zu bytes", (int)coded.size, coded.data, size);
	assert_int_equal(size, 99);
}

/* RFC 4648, 10. */
static void the_standards_examples_are_read(void **state)
{
	expect(TEXT(""), "");
	expect(TEXT("Zg=="), "f");
	expect(TEXT("Zm8="), "fo");
	expect(TEXT("Zm9v"), "foo");
	expect(TEXT("Zm9vYg=="), "foob");
	expect(TEXT("Zm9vYmE="), "fooba");
	expect(TEXT("Zm9vYmFy"), "foobar");
	expect(TEXT("++//"), "\xfb\xef\xff");
}

static void what_was_written_is_read_back(void **state)
{
	for (size_t size = 0; size < 100; size++) {
		unsigned char raw[100], out[100], coded[200];
		size_t got;
		random_bytes(raw, size);
		struct text text = {(char *)coded, (size_t)EVP_EncodeBlock(coded, raw, (int)size)};
		assert_true(base64_decode(text, out, size, &got));
		assert_int_equal(got, size);
		assert_memory_equal(out, raw, size);
	}
}

static void what_is_none_is_refused(void **state)
{
	static const char *const none[] = {
		/* a length that is no multiple of four */
		"Z",
		"Zg",
		"Zg=",
		"Zm9vY",
		"Zm9vYg=",
		/* padding where there is nothing to pad, or in the middle, or too much of it */
		"=",
		"====",
		"========",
		"Z===",
		"Zm9v====",
		"Zg==Zm9v",
		"Z=g=",
		"=Zg=",
		"Zm=v",
		/* characters of no alphabet, of the other alphabet, blanks */
		"Zm9*",
		"Zm9-",
		"Zm9_",
		"Zm9\x80",
		" Zm9",
		"Zm9\n",
		"Zm9v\n\n\n\n",
		"Z m9",
		"\tZm9vYmF",
	};
	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		expect_none(text_of(none[i]));
	expect_none(TEXT("Zm9\0"));
	expect_none(TEXT("\0\0\0\0"));
	expect_none(TEXT("Zm\0="));
}

static void no_more_is_written_than_there_is_room_for(void **state)
{
	unsigned char out[4] = "abc";
	size_t size = 99;
	assert_false(base64_decode(TEXT("Zm9v"), out, 2, &size));
	assert_false(base64_decode(TEXT("Zm8="), out, 1, &size));
	assert_int_equal(size, 99);
	assert_memory_equal(out, "abc", 3);
	assert_true(base64_decode(TEXT("Zm8="), out, 2, &size));
	assert_memory_equal(out, "foc", 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_standards_examples_are_read),
		cmocka_unit_test(what_was_written_is_read_back),
		cmocka_unit_test(what_is_none_is_refused),
		cmocka_unit_test(no_more_is_written_than_there_is_room_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
