/* What a button carries: what was written is read back, within Telegram's 64 bytes, and nothing else is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/id.h"
#include "base/text.h"
#include "channels/press.h"

static const uint8_t secret[SECRET_BYTES];

static void every_press_is_read_back(void **state)
{
	static const enum press_action actions[] = {PRESS_HOLD, PRESS_CHECK, PRESS_BUY, PRESS_RELEASE};
	for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
		struct press press = {.action = actions[i], .product_id = INT64_MAX}, read;
		if (actions[i] == PRESS_HOLD)
			offer_mint(secret, 7, press.offer);
		else if (actions[i] != PRESS_CHECK)
			press.hold = uuid_new();
		char data[PRESS_BYTES_MAX + 1];
		press_write(&press, data);
		assert_true(press_read(text_of(data), &read));
		assert_int_equal(read.action, press.action);
		assert_int_equal(read.product_id, press.product_id);
		assert_string_equal(read.offer, press.offer);
		assert_true(uuid_equal(&read.hold, &press.hold));
	}
}

static void no_other_spelling_of_a_hold_is_read(void **state)
{
	struct press press = {.action = PRESS_BUY, .hold = uuid_new(), .product_id = 1}, read;
	char data[PRESS_BYTES_MAX + 1];
	press_write(&press, data);
	for (size_t i = 1; i < 23; i++) {
		char was = data[i];
		for (int c = 1; c < 256; c++) {
			data[i] = (char)c;
			if (press_read(text_of(data), &read)) {
				char again[PRESS_BYTES_MAX + 1];
				press_write(&read, again);
				assert_string_equal(again, data);
			}
		}
		data[i] = was;
	}
}

static void what_is_no_press_leaves_the_output_alone(void **state)
{
	static const char *const none[] = {"", ".", "c", "c.", "c.0", "c.-1", "cx.1", "h.1", "x.1", "b.1"};
	for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
		struct press read = {.product_id = 42};
		assert_false(press_read(text_of(none[i]), &read));
		assert_int_equal(read.product_id, 42);
	}
	struct press read;
	assert_false(press_read((struct text){0}, &read)); /* a press without data */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_press_is_read_back),
		cmocka_unit_test(no_other_spelling_of_a_hold_is_read),
		cmocka_unit_test(what_is_no_press_leaves_the_output_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
