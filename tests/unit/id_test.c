/* Ids and randomness: the right form, no repetition, not across threads and not across fork(). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id.h"

static void a_uuid_has_the_form_of_version_7_and_the_time_in_front(void **state)
{
	int64_t before_ms = clock_unix_us() / 1000;
	struct uuid id = uuid_new();
	int64_t after_ms = clock_unix_us() / 1000;
	int64_t ms = 0;
	for (int i = 0; i < 6; i++)
		ms = ms << 8 | id.bytes[i];
	assert_true(ms >= before_ms && ms <= after_ms);
	assert_int_equal(id.bytes[6] >> 4, 7);
	assert_int_equal(id.bytes[8] >> 6, 2);
}

static void every_random_bit_of_a_uuid_takes_both_values(void **state)
{
	uint8_t ever_one[16] = {0}, ever_zero[16] = {0};
	for (int i = 0; i < 1000; i++) {
		struct uuid id = uuid_new();
		for (int j = 0; j < 16; j++) {
			ever_one[j] |= id.bytes[j];
			ever_zero[j] |= (uint8_t)~id.bytes[j];
		}
	}
	int random_bits = 0;
	for (int j = 6; j < 16; j++)
		random_bits += __builtin_popcount(ever_one[j] & ever_zero[j]);
	assert_int_equal(random_bits, 74);
}

static void a_uuid_is_read_back_as_it_was_written(void **state)
{
	for (int i = 0; i < 1000; i++) {
		struct uuid id = uuid_new(), again;
		char text[UUID_TEXT_BYTES + 1];
		uuid_format(&id, text);
		assert_int_equal(strlen(text), UUID_TEXT_BYTES);
		assert_true(uuid_parse((struct text){text, UUID_TEXT_BYTES}, &again));
		assert_true(uuid_equal(&id, &again));
	}
	struct uuid id;
	assert_true(uuid_parse(TEXT("0123ABCD-4567-89ab-CDEF-0123456789aB"), &id));
	char text[UUID_TEXT_BYTES + 1];
	uuid_format(&id, text);
	assert_string_equal(text, "0123abcd-4567-89ab-cdef-0123456789ab");
}

static void what_is_not_a_uuid_is_refused_and_changes_nothing(void **state)
{
	const struct text bad[] = {
		TEXT(""),
		TEXT("0123abcd-4567-89ab-cdef-0123456789a"),
		TEXT("0123abcd-4567-89ab-cdef-0123456789abc"),
		TEXT("0123abcd-4567-89ab-cdef-0123456789ag"),
		TEXT("0123abcd-4567-89ab-cdef-0123456789a\0"),
		TEXT("0123abcd04567-89ab-cdef-0123456789ab"),
		TEXT("0123abcd-4567-89ab-cdef 0123456789ab"),
		TEXT("{123abcd-4567-89ab-cdef-0123456789a}"),
		TEXT("0123abcd4567-89ab-cdef--0123456789ab"),
		TEXT(" 123abcd-4567-89ab-cdef-0123456789ab"),
		TEXT("@123abcd-4567-89ab-cdef-0123456789ab"),
		TEXT("`123abcd-4567-89ab-cdef-0123456789ab"),
	};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct uuid id = {{42}};
		assert_false(uuid_parse(bad[i], &id));
		assert_int_equal(id.bytes[0], 42);
	}
}

static void nil_is_known(void **state)
{
	struct uuid nil = {0}, id = uuid_new();
	assert_true(uuid_is_nil(&nil));
	assert_false(uuid_is_nil(&id));
	assert_false(uuid_equal(&id, &nil));
}

enum { IDS = 20000, THREADS = 4 };

static int by_bytes(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct uuid));
}

static void *draw(void *context)
{
	struct uuid *ids = context;
	for (int i = 0; i < IDS; i++)
		ids[i] = uuid_new();
	return NULL;
}

static void no_uuid_is_drawn_twice_by_any_thread(void **state)
{
	static struct uuid ids[THREADS * IDS];
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, draw, ids + (size_t)i * IDS), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	qsort(ids, THREADS * IDS, sizeof ids[0], by_bytes);
	for (int i = 1; i < THREADS * IDS; i++)
		assert_int_not_equal(memcmp(&ids[i - 1], &ids[i], sizeof ids[0]), 0);
}

static void parent_and_child_of_a_fork_draw_different_bytes(void **state)
{
	uint64_t parent_draws, child_draws;
	random_u64(); /* the pool is filled before the fork */
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	pid_t child = fork();
	if (child == 0) {
		child_draws = random_u64();
		_exit(write(ends[1], &child_draws, sizeof child_draws) != sizeof child_draws);
	}
	parent_draws = random_u64();
	assert_int_equal(read(ends[0], &child_draws, sizeof child_draws), sizeof child_draws);
	assert_int_equal(waitpid(child, NULL, 0), child);
	close(ends[0]);
	close(ends[1]);
	assert_true(parent_draws != child_draws);
}

static void random_bytes_fills_exactly_what_is_asked(void **state)
{
	/* sizes below, at and above the pool and what may be taken from it */
	static uint8_t out[10002];
	const size_t sizes[] = {0, 1, 7, 255, 256, 257, 4095, 4096, 4097, 10000};
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		size_t size = sizes[i];
		bool ever_changed[2] = {size == 0, size == 0};
		for (int again = 0; again < 20; again++) {
			memset(out, 0xa5, sizeof out);
			random_bytes(out + 1, size);
			assert_int_equal(out[0], 0xa5);
			assert_int_equal(out[size + 1], 0xa5);
			ever_changed[0] |= size && out[1] != 0xa5;
			ever_changed[1] |= size && out[size] != 0xa5;
		}
		assert_true(ever_changed[0] && ever_changed[1]);
	}
}

static void random_below_reaches_every_number_and_stays_below(void **state)
{
	unsigned seen[7] = {0};
	for (int i = 0; i < 70000; i++) {
		uint64_t drawn = random_below(7);
		assert_true(drawn < 7);
		seen[drawn]++;
	}
	/* 10,000 expected, standard deviation 93: ten of them off is one in 10^23 */
	for (int i = 0; i < 7; i++)
		assert_true(seen[i] > 9070 && seen[i] < 10930);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(random_below(1), 0);
		assert_true(random_below(UINT64_C(3) << 62) < UINT64_C(3) << 62);
	}
}

static void a_token_is_22_characters_of_the_url_alphabet_and_never_the_same(void **state)
{
	static char tokens[1000][TOKEN_BYTES + 1];
	bool last_varies = false;
	for (int i = 0; i < 1000; i++) {
		memset(tokens[i], 'x', sizeof tokens[i]);
		token_new(tokens[i]);
		assert_int_equal(strlen(tokens[i]), TOKEN_BYTES);
		assert_int_equal(strspn(tokens[i], "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
		                 TOKEN_BYTES);
		/* 21 characters hold 126 bits; the last holds two, so it is one of four */
		assert_non_null(strchr("AQgw", tokens[i][TOKEN_BYTES - 1]));
		last_varies |= tokens[i][TOKEN_BYTES - 1] != tokens[0][TOKEN_BYTES - 1];
		for (int j = 0; j < i; j++)
			assert_string_not_equal(tokens[i], tokens[j]);
	}
	assert_true(last_varies);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_uuid_has_the_form_of_version_7_and_the_time_in_front),
		cmocka_unit_test(every_random_bit_of_a_uuid_takes_both_values),
		cmocka_unit_test(a_uuid_is_read_back_as_it_was_written),
		cmocka_unit_test(what_is_not_a_uuid_is_refused_and_changes_nothing),
		cmocka_unit_test(nil_is_known),
		cmocka_unit_test(no_uuid_is_drawn_twice_by_any_thread),
		cmocka_unit_test(parent_and_child_of_a_fork_draw_different_bytes),
		cmocka_unit_test(random_bytes_fills_exactly_what_is_asked),
		cmocka_unit_test(random_below_reaches_every_number_and_stays_below),
		cmocka_unit_test(a_token_is_22_characters_of_the_url_alphabet_and_never_the_same),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
