/* What the ledger says about each operation, summed up while it is read once: one row per operation id.
 *
 * A line of `quantity` units of a SKU weighs quantity * weight(sku), modulo 2^64, with random weights: two sets of lines
 * have the same sum only if they are the same, but for one chance in 2^63. So lines need not be kept, only sums.
 * Memory: 200 to 400 bytes per reservation or checkout (a slot has 96, a quarter to a half are taken). Thread: the owner's.
 */
#ifndef CMD_AUDIT_TALLY_H
#define CMD_AUDIT_TALLY_H

#include "lastunit/decide.h"

enum tally_kind { TALLY_RESERVE, TALLY_COMMIT, TALLY_RELEASE, TALLY_EXPIRE, TALLY_SALE, TALLY_CANCEL, TALLY_KINDS };

struct tally {
	struct uuid id; /* nil: free slot */
	uint64_t sums[TALLY_KINDS];
	uint32_t entries[TALLY_KINDS];
	bool matched; /* its reservation or checkout was seen */
};

struct tallies {
	struct tally *slots;
	size_t slot_count, count;
	uint64_t seed;
};

void tallies_init(struct tallies *tallies);
void tallies_done(struct tallies *tallies);
/* The row of an id, made if it is new. Valid until the next call. */
struct tally *tally_make(struct tallies *tallies, const struct uuid *id);
/* NULL: the ledger never named it. */
struct tally *tally_find(const struct tallies *tallies, const struct uuid *id);
uint64_t tally_weight(const struct tallies *tallies, int64_t sku_id, int64_t quantity);
/* Counts one entry. Kinds without an object of their own (create, adjust, …) are passed over. */
void tally_entry(struct tallies *tallies, const struct ledger_entry *entry);

#endif
