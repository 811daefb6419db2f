/* The arena: what it hands out does not overlap, is zeroed and aligned, and a reset reuses it. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "lib/dies.h"

static void allocations_are_zeroed_aligned_and_apart(void **state)
{
	struct arena arena;
	arena_init(&arena, 512);
	enum { COUNT = 2000 };
	static unsigned char *pieces[COUNT];
	static size_t sizes[COUNT];
	for (size_t i = 0; i < COUNT; i++) {
		/* small ones, some that need a block of their own, and empty ones */
		sizes[i] = i % 97 == 0 ? 5000 : i % 53;
		pieces[i] = arena_alloc(&arena, sizes[i]);
		assert_int_equal((uintptr_t)pieces[i] % 16, 0);
		for (size_t j = 0; j < sizes[i]; j++)
			assert_int_equal(pieces[i][j], 0);
		memset(pieces[i], (int)(i % 251) + 1, sizes[i]);
	}
	for (size_t i = 0; i < COUNT; i++)
		for (size_t j = 0; j < sizes[i]; j++)
			assert_int_equal(pieces[i][j], i % 251 + 1);
	arena_done(&arena);
}

static void empty_allocations_have_addresses_of_their_own(void **state)
{
	struct arena arena;
	arena_init(&arena, 512);
	assert_ptr_not_equal(arena_alloc(&arena, 0), arena_alloc(&arena, 0));
	arena_done(&arena);
}

static void a_reset_zeroes_again_and_reuses_the_first_block(void **state)
{
	struct arena arena;
	arena_init(&arena, 512);
	char *first = arena_alloc(&arena, 100);
	memset(first, 'x', 100);
	for (int i = 0; i < 100; i++) {
		arena_alloc(&arena, 100);
		arena_alloc(&arena, 100 + (size_t)i * 40);
	}
	assert_true(arena.block_bytes > 512);
	arena_reset(&arena);
	assert_int_equal(arena.block_bytes, 512);
	char *again = arena_alloc(&arena, 100);
	assert_ptr_equal(first, again);
	for (int i = 0; i < 100; i++)
		assert_int_equal(again[i], 0);
	arena_done(&arena);
}

static void a_large_allocation_does_not_waste_the_room_left_in_the_block(void **state)
{
	struct arena arena;
	arena_init(&arena, 4096);
	char *before = arena_alloc(&arena, 16);
	arena_alloc(&arena, 100000);
	char *after = arena_alloc(&arena, 16);
	assert_ptr_equal(before + 16, after);
	arena_done(&arena);
}

static void a_first_large_allocation_is_given_back_by_a_reset(void **state)
{
	struct arena arena;
	arena_init(&arena, 4096);
	memset(arena_alloc(&arena, 1 << 20), 'x', 1 << 20);
	arena_reset(&arena);
	assert_int_equal(arena.block_bytes, 4096);
	char *small = arena_alloc(&arena, 4096);
	assert_int_equal(small[4095], 0);
	arena_done(&arena);
}

static void done_and_reset_accept_an_unused_arena(void **state)
{
	struct arena arena;
	arena_init(&arena, 0);
	arena_reset(&arena);
	assert_non_null(arena_alloc(&arena, 1));
	arena_done(&arena);
	arena_done(&arena);
}

static void a_text_is_copied_with_a_nul_behind(void **state)
{
	struct arena arena;
	arena_init(&arena, 512);
	char original[] = {'a', 0, 'b'};
	struct text copy = arena_text(&arena, (struct text){original, 3});
	original[0] = 'x';
	assert_int_equal(copy.size, 3);
	assert_memory_equal(copy.data, "a\0b\0", 4);
	struct text empty = arena_text(&arena, (struct text){NULL, 0});
	assert_non_null(empty.data);
	assert_string_equal(empty.data, "");
	/* when the text fills its last 16 bytes, what comes next must not stand where the NUL belongs */
	struct text full = arena_text(&arena, TEXT("0123456789abcdef"));
	memset(arena_alloc(&arena, 16), 'x', 16);
	assert_string_equal(full.data, "0123456789abcdef");
	arena_done(&arena);
}

static void printf_takes_what_it_needs(void **state)
{
	struct arena arena;
	arena_init(&arena, 512);
	struct text text = arena_printf(&arena, "%s:%d%0*d", "port", 80, 3000, 7);
	assert_int_equal(text.size, 3007);
	assert_memory_equal(text.data, "port:80000", 10);
	assert_int_equal(strlen(text.data), 3007);
	arena_done(&arena);
}

static void an_array_that_overflows_is_a_bug(void **state)
{
	struct arena arena;
	arena_init(&arena, 512);
	assert_dies(arena_array(&arena, SIZE_MAX / 4 + 2, 4));
	assert_dies(arena_alloc(&arena, SIZE_MAX - 8));
	arena_done(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(allocations_are_zeroed_aligned_and_apart),
		cmocka_unit_test(empty_allocations_have_addresses_of_their_own),
		cmocka_unit_test(a_reset_zeroes_again_and_reuses_the_first_block),
		cmocka_unit_test(a_large_allocation_does_not_waste_the_room_left_in_the_block),
		cmocka_unit_test(a_first_large_allocation_is_given_back_by_a_reset),
		cmocka_unit_test(done_and_reset_accept_an_unused_arena),
		cmocka_unit_test(a_text_is_copied_with_a_nul_behind),
		cmocka_unit_test(printf_takes_what_it_needs),
		cmocka_unit_test(an_array_that_overflows_is_a_bug),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
