/* Names of channels and scopes, and the one formula: available. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/text.h"
#include "lastunit/types.h"

static void every_channel_is_read_back_by_its_name(void **state)
{
	for (int i = CHANNEL_WEB; i <= CHANNEL_SYSTEM; i++) {
		enum channel channel = 0;
		assert_string_not_equal(channel_name(i), "unknown");
		assert_true(channel_parse(text_of(channel_name(i)), &channel));
		assert_int_equal(channel, i);
	}
}

static void the_numbers_of_channels_never_change_for_they_are_stored(void **state)
{
	static const char *const names[] = {"web", "telegram", "agent", "voice", "marketplace",
	                                    "pos", "admin",    "sql",   "system"};
	for (int i = 0; i < 9; i++)
		assert_string_equal(channel_name(i + 1), names[i]);
}

static void a_channel_of_a_newer_release_is_shown_as_unknown(void **state)
{
	assert_string_equal(channel_name(0), "unknown");
	assert_string_equal(channel_name(CHANNEL_SYSTEM + 1), "unknown");
	assert_string_equal(channel_name((enum channel)(-1)), "unknown");
}

static void channel_names_are_exact(void **state)
{
	enum channel channel = CHANNEL_POS;
	const struct text bad[] = {TEXT(""), TEXT("we"), TEXT("webs"), TEXT("WEB"), TEXT("web "), TEXT("unknown"), {0}};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_false(channel_parse(bad[i], &channel));
	assert_int_equal(channel, CHANNEL_POS);
}

static void a_list_of_scopes_is_read(void **state)
{
	unsigned scopes = 0;
	assert_true(scopes_parse(TEXT("read"), &scopes));
	assert_int_equal(scopes, SCOPE_READ);
	assert_true(scopes_parse(TEXT("sell,read,sell"), &scopes));
	assert_int_equal(scopes, SCOPE_READ | SCOPE_SELL);
	assert_true(scopes_parse(TEXT("read,sell,orders,stock,admin"), &scopes));
	assert_int_equal(scopes, 31);
	for (unsigned scope = 1; scope <= SCOPE_ADMIN; scope <<= 1) {
		assert_true(scopes_parse(text_of(scope_name(scope)), &scopes));
		assert_int_equal(scopes, scope);
	}
}

static void a_list_with_an_unknown_or_empty_word_is_refused_whole(void **state)
{
	unsigned scopes = 99;
	const struct text bad[] = {TEXT(""),       TEXT(","),          TEXT("read,"), TEXT(",read"), TEXT("read,,sell"),
	                           TEXT("reader"), TEXT("read, sell"), TEXT("Read"),  TEXT("rea"),   {0}};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_false(scopes_parse(bad[i], &scopes));
	assert_int_equal(scopes, 99);
}

static void available_is_what_is_left_and_never_negative(void **state)
{
	struct principal plain = {0};
	struct figures f = {.on_hand = 10, .reserved = 3, .safety_stock = 2};
	assert_int_equal(figures_available(&f, &plain), 5);
	f.safety_stock = 8;
	assert_int_equal(figures_available(&f, &plain), 0);
	f = (struct figures){.on_hand = LU_COUNT_MAX, .reserved = LU_COUNT_MAX, .safety_stock = LU_COUNT_MAX};
	assert_int_equal(figures_available(&f, &(struct principal){.settings.buffer = LU_COUNT_MAX}), 0);
}

static void a_buffer_is_left_alone_and_safety_stock_unless_it_may_be_used(void **state)
{
	struct figures f = {.on_hand = 10, .reserved = 3, .safety_stock = 2};
	struct principal bazaar = {.settings.buffer = 4}, till = {.settings.may_use_safety_stock = true};
	assert_int_equal(figures_available(&f, &bazaar), 1);
	assert_int_equal(figures_available(&f, &till), 7);
	bazaar.settings.may_use_safety_stock = true;
	assert_int_equal(figures_available(&f, &bazaar), 3);
	bazaar.settings.buffer = 8;
	assert_int_equal(figures_available(&f, &bazaar), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_channel_is_read_back_by_its_name),
		cmocka_unit_test(the_numbers_of_channels_never_change_for_they_are_stored),
		cmocka_unit_test(a_channel_of_a_newer_release_is_shown_as_unknown),
		cmocka_unit_test(channel_names_are_exact),
		cmocka_unit_test(a_list_of_scopes_is_read),
		cmocka_unit_test(a_list_with_an_unknown_or_empty_word_is_refused_whole),
		cmocka_unit_test(available_is_what_is_left_and_never_negative),
		cmocka_unit_test(a_buffer_is_left_alone_and_safety_stock_unless_it_may_be_used),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
