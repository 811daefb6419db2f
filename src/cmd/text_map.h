/* A table from a text to a number, usually the index into an array: which SKU, which invoice.
 *
 * Starts as {0}. Keys are borrowed: they must outlive the map. Nothing is ever removed. Out of memory ends the process.
 * Thread: one writer, or any number of readers when nobody writes.
 */
#ifndef CMD_TEXT_MAP_H
#define CMD_TEXT_MAP_H

#include "lastunit/types.h"

struct text_map {
	struct text_map_slot *slots;
	size_t slot_count; /* a power of two; 0: none yet */
	size_t count;
};

void text_map_done(struct text_map *map);
/* The value of a key. False, and *ret_value untouched, if it is not there. */
bool text_map_find(const struct text_map *map, struct text key, size_t *ret_value);
/* The value of a key; a new key gets `value`. *ret_new says whether it was new. */
size_t text_map_add(struct text_map *map, struct text key, size_t value, bool *ret_new);

#endif
