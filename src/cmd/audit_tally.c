/* What the ledger says about each operation (audit_tally.h): open addressing, at most half full. */
#include "cmd/audit_tally.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/id.h"

#define SLOTS_MIN 1024

void tallies_init(struct tallies *tallies)
{
	*tallies = (struct tallies){.slot_count = SLOTS_MIN, .seed = random_u64()};
	tallies->slots = calloc(SLOTS_MIN, sizeof *tallies->slots);
	CHECK(tallies->slots);
}

void tallies_done(struct tallies *tallies)
{
	free(tallies->slots);
	*tallies = (struct tallies){0};
}

/* splitmix64: every bit of the result depends on every bit of x. */
static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

uint64_t tally_weight(const struct tallies *tallies, int64_t sku_id, int64_t quantity)
{
	return (mix(tallies->seed ^ (uint64_t)sku_id) | 1) * (uint64_t)quantity;
}

static struct tally *slot_of(const struct tallies *tallies, const struct uuid *id)
{
	uint64_t words[2];
	memcpy(words, id->bytes, sizeof words);
	size_t at = mix(mix(words[0] ^ tallies->seed) ^ words[1]) & (tallies->slot_count - 1);
	while (!uuid_is_nil(&tallies->slots[at].id) && !uuid_equal(&tallies->slots[at].id, id))
		at = (at + 1) & (tallies->slot_count - 1);
	return &tallies->slots[at];
}

struct tally *tally_find(const struct tallies *tallies, const struct uuid *id)
{
	struct tally *tally = slot_of(tallies, id);
	return uuid_is_nil(&tally->id) ? NULL : tally;
}

struct tally *tally_make(struct tallies *tallies, const struct uuid *id)
{
	if (tallies->count * 2 >= tallies->slot_count) {
		struct tallies old = *tallies;
		tallies->slot_count *= 2;
		tallies->slots = calloc(tallies->slot_count, sizeof *tallies->slots);
		CHECK(tallies->slots);
		for (size_t i = 0; i < old.slot_count; i++)
			if (!uuid_is_nil(&old.slots[i].id))
				*slot_of(tallies, &old.slots[i].id) = old.slots[i];
		free(old.slots);
	}
	struct tally *tally = slot_of(tallies, id);
	if (uuid_is_nil(&tally->id)) {
		tally->id = *id;
		tallies->count++;
	}
	return tally;
}

void tally_entry(struct tallies *tallies, const struct ledger_entry *entry)
{
	/* Which figure an entry of this kind moves, and which it must leave alone: what does not obey must not look right. */
	enum tally_kind kind;
	int64_t units, stray = 0;
	switch (entry->kind) {
	case LEDGER_RESERVE:
		kind = TALLY_RESERVE;
		units = entry->reserved_delta;
		stray = entry->on_hand_delta;
		break;
	case LEDGER_COMMIT:
		kind = TALLY_COMMIT;
		units = -entry->reserved_delta;
		stray = entry->on_hand_delta - entry->reserved_delta;
		break;
	case LEDGER_RELEASE:
	case LEDGER_EXPIRE:
		kind = entry->kind == LEDGER_RELEASE ? TALLY_RELEASE : TALLY_EXPIRE;
		units = -entry->reserved_delta;
		stray = entry->on_hand_delta;
		break;
	case LEDGER_SALE:
		kind = TALLY_SALE;
		units = -entry->on_hand_delta;
		stray = entry->reserved_delta;
		break;
	case LEDGER_CANCEL:
		kind = TALLY_CANCEL;
		units = entry->on_hand_delta;
		stray = entry->reserved_delta;
		break;
	default:
		return;
	}
	if (stray)
		units = 0;
	if (uuid_is_nil(&entry->operation_id))
		return;
	struct tally *tally = tally_make(tallies, &entry->operation_id);
	tally->sums[kind] += tally_weight(tallies, entry->sku_id, units);
	tally->entries[kind]++;
}
