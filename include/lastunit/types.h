/* The words of the service as C types: what every layer above base speaks.
 *
 * Plain data, no behaviour. Sizes and bounds are the contract of the HTTP API and are checked at its edge, again
 * in `decide`, and a last time by the constraints of the schema.
 */
#ifndef LASTUNIT_TYPES_H
#define LASTUNIT_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LU_SKU_BYTES_MAX 128
#define LU_KEY_BYTES_MAX 255
#define LU_REFERENCE_BYTES_MAX 255
#define LU_CALLER_BYTES_MAX 255
#define LU_ORDER_NUMBER_BYTES_MAX 255
#define LU_TITLE_BYTES_MAX 1000
#define LU_LINES_MAX 1000 /* lines of one cart */
#define LU_LOOKUP_MAX 500 /* SKUs of one look-up over HTTP */
#define LU_QUANTITY_MAX INT64_C(1000000000)
#define LU_COUNT_MAX INT64_C(1000000000000000)         /* 10^15: exact in a double, so in every JSON client */
#define LU_ORDER_VERSION_MAX INT64_C(9007199254740991) /* 2^53 - 1: room for microseconds */
#define LU_TTL_SECONDS_MAX 86400
#define LU_HOLD_LIFE_SECONDS_MAX (7 * 86400)
#define LU_BATCH_OPERATIONS_MAX 256
#define LU_BATCH_LINES_MAX 2000
#define LU_CELLS_MAX 2000 /* keys of one call to Redis */

/* A counted string: never assumed to end in NUL, never copied by looking for one. Borrowed unless said otherwise. */
struct text {
	const char *data;
	size_t size;
};

#define TEXT(literal) ((struct text){(literal), sizeof(literal) - 1})

struct uuid {
	uint8_t bytes[16];
};

/* Stored as smallint: append only. */
enum channel {
	CHANNEL_WEB = 1,
	CHANNEL_TELEGRAM,
	CHANNEL_AGENT,
	CHANNEL_VOICE,
	CHANNEL_MARKETPLACE,
	CHANNEL_POS,
	CHANNEL_ADMIN,
	CHANNEL_SQL,
	CHANNEL_SYSTEM,
};

enum scope {
	SCOPE_READ = 1 << 0,
	SCOPE_SELL = 1 << 1,
	SCOPE_ORDERS = 1 << 2,
	SCOPE_STOCK = 1 << 3,
	SCOPE_ADMIN = 1 << 4,
};

/* What a principal may do beyond its scopes; `lastunit key set`. All zero: nothing special. */
struct principal_settings {
	int64_t buffer;            /* units of every SKU that it neither sees nor sells */
	bool may_use_safety_stock; /* what it sees and sells includes the safety stock */
	/* Caps against hoarding, soft (src/inventory/README.md); 0: none. Live holds at a time, and units of one SKU that they
	 * hold; of the principal as a whole, and of each of its callers (a chat, a phone, a shopper). */
	int64_t holds_max, held_units_max;
	int64_t caller_holds_max, caller_held_units_max;
};

/* Who asks: a client of the service. Copied by value into each operation, so a revoked key never dangles. */
struct principal {
	int64_t id;
	enum channel channel;
	unsigned scopes; /* enum scope, or-ed */
	struct principal_settings settings;
};

/* The figures of one SKU as one version of it: what a cell holds and what a look-up answers. */
struct figures {
	int64_t version; /* number of its ledger entries */
	int64_t on_hand;
	int64_t reserved;
	int64_t safety_stock;
	bool tracked;
};

/* Whether they can be: what the table's constraints promise, as long as nobody takes those away. Figures that cannot be are
 * sold from, cached and shown by nobody. */
static inline bool figures_possible(const struct figures *f)
{
	return 0 <= f->reserved && f->reserved <= f->on_hand && f->on_hand <= LU_COUNT_MAX && 0 <= f->safety_stock &&
	       f->safety_stock <= LU_COUNT_MAX && 0 <= f->version && f->version <= LU_COUNT_MAX;
}

/* The units of a SKU that this principal leaves alone: its buffer, and the safety stock unless it may use that. */
static inline int64_t principal_floor(const struct principal *principal, const struct figures *f)
{
	return principal->settings.buffer + (principal->settings.may_use_safety_stock ? 0 : f->safety_stock);
}

/* One principal may speak for many, who see each other's holds (a bot in a group): may this caller of it have what is held
 * for `holder`? Who is not named (data NULL) stands for all of them. */
bool caller_may_have(struct text caller, struct text holder);

/* What this principal sees and may sell: max(0, on_hand - reserved - floor). The same number that `decide` grants by;
 * meaningless for an untracked SKU. */
static inline int64_t figures_available(const struct figures *f, const struct principal *principal)
{
	int64_t free_units = f->on_hand - f->reserved - principal_floor(principal, f);
	return free_units > 0 ? free_units : 0;
}

/* Whether it may buy one: what is not counted is always there. */
static inline bool figures_in_stock(const struct figures *f, const struct principal *principal)
{
	return !f->tracked || figures_available(f, principal) > 0;
}

const char *channel_name(enum channel channel);
bool channel_parse(struct text name, enum channel *ret_channel);
const char *scope_name(enum scope scope);
/* "read,sell" -> bits; false on an unknown word or an empty list. */
bool scopes_parse(struct text list, unsigned *ret_scopes);

#endif
