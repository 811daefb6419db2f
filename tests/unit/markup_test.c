/* Markup: text stands for itself, wherever it is put. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/markup.h"
#include "base/text.h"

static void expect(struct text text, const char *markup)
{
	struct buffer out = {0};
	markup_add(&out, text);
	buffer_add_char(&out, '\0');
	assert_string_equal(out.data, markup);
	buffer_done(&out);
}

static void what_would_be_markup_is_text(void **state)
{
	expect(TEXT("</title><b class=\"x\">O'Neill & Söhne"),
	       "&lt;/title&gt;&lt;b class=&quot;x&quot;&gt;O&#39;Neill &amp; Söhne");
	expect(TEXT(""), "");
}

static void what_xml_cannot_carry_is_a_blank(void **state)
{
	expect(TEXT("a\x01\x1f\0z\t\r\n"), "a   z\t\r\n");
	expect(TEXT("a\xef\xbf\xbez\xef\xbf\xbf"), "a z ");                           /* U+FFFE, U+FFFF */
	expect(TEXT("\xef\xbf\xbd\xf0\x9f\xbf\xbe"), "\xef\xbf\xbd\xf0\x9f\xbf\xbe"); /* U+FFFD, U+1FFFE: XML has them */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_would_be_markup_is_text),
		cmocka_unit_test(what_xml_cannot_carry_is_a_blank),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
