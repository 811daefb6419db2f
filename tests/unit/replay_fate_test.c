/* What a replay does with the carts of a file: by its rule, in long files and in short ones. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdlib.h>

#include "cmd/replay_client.h"

#define CARTS 600

struct fates {
	int checkouts, commits, abandoned;
};

static void count(struct fates *fates, size_t turn)
{
	enum replay_fate fate = replay_fate_of(turn);
	fates->checkouts += fate == FATE_CHECKOUT;
	fates->commits += fate == FATE_COMMIT;
	fates->abandoned += fate == FATE_ABANDON;
}

/* The first invoices of a file used to be checkouts, thirty of them, so that a short file never held anything. */
static void half_are_checkouts_however_short_the_file(void **state)
{
	struct fates fates = {0};
	for (size_t turn = 0; turn < CARTS; turn++) {
		count(&fates, turn);
		int carts = (int)turn + 1, holds = fates.commits + fates.abandoned;
		assert_true(abs(fates.checkouts - holds) <= 1);
		assert_true(abs(10 * fates.abandoned - carts) <= 10);
	}
	assert_int_equal(fates.checkouts, CARTS / 2);
	assert_int_equal(fates.commits, CARTS / 10 * 4);
	assert_int_equal(fates.abandoned, CARTS / 10);
}

static void every_channel_has_all_fates(void **state)
{
	for (size_t channel = 0; channel < REPLAY_CHANNELS; channel++) {
		struct fates fates = {0};
		for (size_t turn = channel; turn < 10 * REPLAY_CHANNELS; turn += REPLAY_CHANNELS)
			count(&fates, turn);
		assert_int_equal(fates.checkouts, 5);
		assert_int_equal(fates.commits, 4);
		assert_int_equal(fates.abandoned, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(half_are_checkouts_however_short_the_file),
		cmocka_unit_test(every_channel_has_all_fates),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
