/* The keyring: a key is valid exactly while it is in the last table given, and every swap is noticed. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "store/keyring.h"

enum { KEYS = 200, SWAPS = 50000 };

static struct keyring_entry entry_of(uint8_t first, uint8_t last, int64_t id)
{
	struct keyring_entry entry = {.principal = {.id = id, .channel = CHANNEL_WEB, .scopes = SCOPE_READ}};
	entry.sha256[0] = first;
	entry.sha256[31] = last;
	return entry;
}

static void a_key_is_found_while_it_is_in_the_table(void **state)
{
	struct keyring *keyring = keyring_new();
	struct keyring_entry entries[KEYS];
	struct keyring_entry found = {.principal.id = -1};
	assert_false(keyring_find(keyring, entry_of(1, 1, 0).sha256, &found));
	/* in no order, and some that differ in their last byte only */
	for (size_t i = 0; i < KEYS; i++)
		entries[i] = entry_of((uint8_t)(i * 37 % KEYS / 4), (uint8_t)(i * 37 % KEYS % 4), (int64_t)i);
	keyring_replace(keyring, entries, KEYS);
	for (size_t i = 0; i < KEYS; i++) {
		assert_true(keyring_find(keyring, entries[i].sha256, &found));
		assert_int_equal(found.principal.id, i);
	}
	found.principal.id = -1;
	assert_false(keyring_find(keyring, entry_of(0, 200, 0).sha256, &found));
	assert_int_equal(found.principal.id, -1);
	keyring_replace(keyring, entries, KEYS - 1);
	assert_false(keyring_find(keyring, entries[KEYS - 1].sha256, &found));
	keyring_replace(keyring, NULL, 0);
	assert_false(keyring_find(keyring, entries[0].sha256, &found));
	keyring_free(keyring);
	keyring_free(NULL);
}

static void every_swap_raises_the_generation(void **state)
{
	struct keyring *keyring = keyring_new();
	uint64_t before = keyring_generation(keyring);
	keyring_replace(keyring, NULL, 0);
	assert_true(keyring_generation(keyring) > before);
	keyring_free(keyring);
}

#define HOUR_NS (3600 * NS_PER_S)

/* A revocation that could not be heard of must not be missed for longer than the lease. */
static void its_keys_count_only_until_the_moment_last_given(void **state)
{
	struct keyring *keyring = keyring_new();
	int64_t now_ns = clock_boottime_ns();
	assert_true(keyring_fresh(keyring, now_ns)); /* never extended: nobody reads the database for it */
	keyring_extend(keyring, now_ns - HOUR_NS, now_ns + HOUR_NS);
	assert_true(keyring_fresh(keyring, now_ns));
	keyring_extend(keyring, now_ns - HOUR_NS, now_ns);
	assert_false(keyring_fresh(keyring, now_ns));
	keyring_replace(keyring, NULL, 0); /* new keys alone say nothing of when they were read */
	assert_false(keyring_fresh(keyring, now_ns));
	keyring_extend(keyring, now_ns - HOUR_NS, now_ns + HOUR_NS);
	assert_true(keyring_fresh(keyring, now_ns));
	keyring_free(keyring);
}

/* An answer that took longer than the lease still tells those who had come before it was asked for. */
static void who_came_before_the_question_may_believe_the_answer(void **state)
{
	struct keyring *keyring = keyring_new();
	int64_t now_ns = clock_boottime_ns();
	keyring_extend(keyring, now_ns, now_ns);
	assert_true(keyring_fresh(keyring, now_ns - 1));
	assert_true(keyring_fresh(keyring, now_ns));
	assert_false(keyring_fresh(keyring, now_ns + 1));
	keyring_free(keyring);
}

static atomic_bool swapped;

/* What a connection does: the generation first, then the look-up. */
static void *look_up(void *context)
{
	struct keyring *keyring = context;
	const struct keyring_entry wanted = entry_of(7, 7, 0);
	uintptr_t wrong = 0;
	while (!atomic_load(&swapped)) {
		struct keyring_entry found = {0};
		int64_t generation = (int64_t)keyring_generation(keyring);
		/* an entry older than the generation read before it would be remembered for ever */
		if (!keyring_find(keyring, wanted.sha256, &found) || found.principal.id < generation)
			wrong++;
	}
	return (void *)wrong;
}

static void a_look_up_is_never_older_than_the_generation_read_before_it(void **state)
{
	struct keyring *keyring = keyring_new();
	struct keyring_entry entry = entry_of(7, 7, 0);
	pthread_t threads[3];
	for (int i = 0; i <= SWAPS; i++) {
		/* the id is the generation that its table brings */
		entry.principal.id = (int64_t)keyring_generation(keyring) + 1;
		keyring_replace(keyring, &entry, 1);
		for (size_t j = 0; i == 0 && j < 3; j++)
			assert_int_equal(pthread_create(&threads[j], NULL, look_up, keyring), 0);
	}
	atomic_store(&swapped, true);
	for (size_t i = 0; i < 3; i++) {
		void *wrong;
		pthread_join(threads[i], &wrong);
		assert_null(wrong);
	}
	keyring_free(keyring);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_is_found_while_it_is_in_the_table),
		cmocka_unit_test(every_swap_raises_the_generation),
		cmocka_unit_test(its_keys_count_only_until_the_moment_last_given),
		cmocka_unit_test(who_came_before_the_question_may_believe_the_answer),
		cmocka_unit_test(a_look_up_is_never_older_than_the_generation_read_before_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
