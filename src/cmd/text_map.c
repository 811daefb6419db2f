/* A table from a text to a number (text_map.h): open addressing, at most half full.
 *
 * Happy path: the keyed hash of text_hash() (so a file cannot be made to collide), then the slots behind it in order.
 * Failure modes: out of memory is CHECKed.
 */
#include "cmd/text_map.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"

#define SLOTS_MIN 64

struct text_map_slot {
	struct text key; /* data NULL: free */
	uint64_t hash;
	size_t value;
};

void text_map_done(struct text_map *map)
{
	free(map->slots);
	*map = (struct text_map){0};
}

static struct text_map_slot *slot_of(const struct text_map *map, struct text key, uint64_t hash)
{
	size_t at = hash & (map->slot_count - 1);
	while (map->slots[at].key.data && (map->slots[at].hash != hash || !text_equal(map->slots[at].key, key)))
		at = (at + 1) & (map->slot_count - 1);
	return &map->slots[at];
}

bool text_map_find(const struct text_map *map, struct text key, size_t *ret_value)
{
	if (map->slot_count == 0)
		return false;
	const struct text_map_slot *slot = slot_of(map, key, text_hash(key));
	if (!slot->key.data)
		return false;
	*ret_value = slot->value;
	return true;
}

static void grow(struct text_map *map)
{
	struct text_map old = *map;
	map->slot_count = old.slot_count ? old.slot_count * 2 : SLOTS_MIN;
	map->slots = calloc(map->slot_count, sizeof *map->slots);
	CHECK(map->slots);
	for (size_t i = 0; i < old.slot_count; i++)
		if (old.slots[i].key.data)
			*slot_of(map, old.slots[i].key, old.slots[i].hash) = old.slots[i];
	free(old.slots);
}

size_t text_map_add(struct text_map *map, struct text key, size_t value, bool *ret_new)
{
	if (map->count * 2 >= map->slot_count)
		grow(map);
	uint64_t hash = text_hash(key);
	struct text_map_slot *slot = slot_of(map, key, hash);
	*ret_new = !slot->key.data;
	if (*ret_new) {
		*slot = (struct text_map_slot){{key.data ? key.data : "", key.size}, hash, value};
		map->count++;
	}
	return slot->value;
}
