/* An arena: many small allocations, freed at once. One per request and per batch.
 *
 * Ownership: the arena owns what it hands out; nothing is freed singly. Memory is zeroed and aligned to 16 bytes.
 * Out of memory ends the process (there is no meaningful answer to give). Thread: the owner's only.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

#include "lastunit/types.h"

struct arena_block;

struct arena {
	struct arena_block *head; /* newest block first */
	size_t used;              /* bytes used of the newest block */
	size_t block_bytes;       /* size of the next ordinary block */
};

void arena_init(struct arena *arena, size_t block_bytes);
void arena_done(struct arena *arena);
/* Forgets everything but keeps the first block, for the next request. */
void arena_reset(struct arena *arena);
void *arena_alloc(struct arena *arena, size_t size);
/* count * size, CHECKed against overflow. */
void *arena_array(struct arena *arena, size_t count, size_t size);
/* A copy, with a NUL behind it for the C libraries that want one (not counted in size). */
struct text arena_text(struct arena *arena, struct text text);
struct text arena_printf(struct arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define ARENA_NEW(arena, type) ((type *)arena_alloc((arena), sizeof(type)))
#define ARENA_ARRAY(arena, count, type) ((type *)arena_array((arena), (count), sizeof(type)))

#endif
