/* An arena: a chain of blocks, newest first, cut from the front of the newest.
 *
 * Happy path: a request fits into the newest block, which costs an addition and a memset. A request larger than a
 * quarter of a block gets a block of its own *behind* the newest, whose room is not wasted; so the newest block is
 * always an ordinary one. Ordinary blocks double up to BLOCK_BYTES_MAX: a large batch takes a dozen, not thousands.
 * Failure modes: out of memory and overflow are CHECKed. Under AddressSanitizer what is not handed out is poisoned,
 * so an overrun inside an arena is found like one on the heap.
 */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)0)
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)0)
#endif

#define ALIGNMENT ((size_t)16)
#define BLOCK_BYTES_MIN ((size_t)256)
#define BLOCK_BYTES_MAX ((size_t)1 << 20)

struct arena_block {
	struct arena_block *next;
	size_t size; /* of data */
	bool large;  /* holds one allocation */
	_Alignas(16) char data[];
};

void arena_init(struct arena *arena, size_t block_bytes)
{
	if (block_bytes < BLOCK_BYTES_MIN)
		block_bytes = BLOCK_BYTES_MIN;
	*arena = (struct arena){.block_bytes = (block_bytes + ALIGNMENT - 1) & ~(ALIGNMENT - 1)};
}

void arena_done(struct arena *arena)
{
	for (struct arena_block *block = arena->head, *next; block; block = next) {
		next = block->next;
		free(block);
	}
	arena->head = NULL;
	arena->used = 0;
}

void arena_reset(struct arena *arena)
{
	struct arena_block *first = NULL;
	for (struct arena_block *block = arena->head; block; block = block->next)
		if (!block->large)
			first = block;
	for (struct arena_block *block = arena->head, *next; block; block = next) {
		next = block->next;
		if (block != first)
			free(block);
	}
	arena->head = first;
	arena->used = 0;
	if (first) {
		first->next = NULL;
		arena->block_bytes = first->size;
		ASAN_POISON_MEMORY_REGION(first->data, first->size);
	}
}

static struct arena_block *block_new(size_t size, bool large)
{
	struct arena_block *block = malloc(sizeof *block + size);
	CHECK(block);
	block->size = size;
	block->large = large;
	ASAN_POISON_MEMORY_REGION(block->data, size);
	return block;
}

static void add_block(struct arena *arena)
{
	struct arena_block *block = block_new(arena->block_bytes, false);
	block->next = arena->head;
	/* The second block has the size of the first, which arena_reset() keeps; from then on they double. */
	if (arena->head && arena->block_bytes < BLOCK_BYTES_MAX)
		arena->block_bytes *= 2;
	arena->head = block;
	arena->used = 0;
}

void *arena_alloc(struct arena *arena, size_t size)
{
	CHECK(size <= SIZE_MAX / 2);
	/* An empty allocation still gets an address of its own. */
	size_t step = size ? (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1) : ALIGNMENT;
	if (!arena->head)
		add_block(arena);
	char *result;
	if (step <= arena->head->size - arena->used) {
		result = arena->head->data + arena->used;
		arena->used += step;
	} else if (step > arena->block_bytes / 4) {
		struct arena_block *block = block_new(step, true);
		block->next = arena->head->next;
		arena->head->next = block;
		result = block->data;
	} else {
		add_block(arena);
		result = arena->head->data;
		arena->used = step;
	}
	ASAN_UNPOISON_MEMORY_REGION(result, size);
	return memset(result, 0, size);
}

void *arena_array(struct arena *arena, size_t count, size_t size)
{
	size_t bytes;
	CHECK(!__builtin_mul_overflow(count, size, &bytes));
	return arena_alloc(arena, bytes);
}

struct text arena_text(struct arena *arena, struct text text)
{
	char *copy = arena_alloc(arena, text.size + 1);
	if (text.size)
		memcpy(copy, text.data, text.size);
	return (struct text){copy, text.size};
}

struct text arena_printf(struct arena *arena, const char *format, ...)
{
	va_list arguments, again;
	va_start(arguments, format);
	va_copy(again, arguments);
	int size = vsnprintf(NULL, 0, format, arguments);
	CHECK(size >= 0);
	char *text = arena_alloc(arena, (size_t)size + 1);
	CHECK(vsnprintf(text, (size_t)size + 1, format, again) == size);
	va_end(again);
	va_end(arguments);
	return (struct text){text, (size_t)size};
}
