/* A world for decide(): the rows of a database in memory, and a batch around the decision like the writers'.
 *
 * Operations go through the real operation_prepare(), answers through the real answer_encode() and answer_decode().
 * Every decision is checked while it is applied: entries add up, versions are dense, nothing ends twice, the input is as
 * it was; and the batch's arena is gone before anybody looks at a verdict. After each batch
 * 0 <= reserved <= on_hand, reserved is what the live holds add up to, on_hand what the ledger adds up to, versions are
 * dense and no hold has ended twice, or the test fails. cmocka asserts inside: main thread only.
 *
 * A cart is written "A2 B1": codes are one capital letter. Ids are numbers, in order of their making.
 */
#ifndef TESTS_LIB_WORLD_H
#define TESTS_LIB_WORLD_H

#include "base/arena.h"
#include "lastunit/decide.h"
#include "store/idempotency.h"

#define WORLD_LINES_MAX 4
#define WORLD_LEDGER_MAX 64
#define WORLD_SECOND INT64_C(1000000)

struct world_sku {
	struct locked_sku row;
	int64_t on_hand_sum, reserved_sum, entries; /* by the ledger */
};

struct world_hold {
	struct reservation row;
	struct line lines[WORLD_LINES_MAX];
	char reference[32], caller[32];
	int ends;
};

struct world_sale {
	struct checkout row;
	struct line lines[WORLD_LINES_MAX];
	char reference[32];
};

struct world {
	int64_t now_us;
	struct world_sku skus[26];
	struct world_hold *holds;
	struct world_sale *sales;
	size_t hold_count, hold_room, sale_count, sale_room;
	struct order *orders[16]; /* whole, in `arena` */
	size_t order_count;
	struct idempotency_row answers[64];
	size_t answer_count;
	struct ledger_entry ledger[WORLD_LEDGER_MAX]; /* the newest */
	size_t ledger_count;
	uint64_t last_id;
	size_t due_limit;        /* what the first look-up of due holds brings; doubled when asked again */
	size_t lookups, relocks; /* how often decide() asked for more, so far */
	size_t counted;          /* how many holdings were told to decide() */
	struct arena *arena;     /* of operations and of what answers keep */
};

extern const struct principal world_web, world_telegram, world_agent, world_pos, world_site /* has `orders` */,
	world_admin, world_till /* may use safety stock */, world_bazaar /* a marketplace with a buffer of 1 */;

struct world *world_new(void);
void world_free(struct world *world);
/* What its answers point to stays in the original's arena, which must outlive it. */
struct world *world_copy(const struct world *world);
void world_sku(struct world *world, char code, int64_t on_hand);
struct figures *world_figures(struct world *world, char code);
struct uuid world_id(uint64_t number);
struct world_hold *world_hold(struct world *world, struct uuid id);
struct world_sale *world_sale(struct world *world, struct uuid id);
/* NULL: none. */
const struct order *world_order(const struct world *world, struct principal principal, const char *number);
/* All entries kept of one SKU, oldest first: "sale -1 0, reserve 0 +1". */
struct text world_ledger(struct world *world, char code);

struct operation *world_operation(struct world *world, enum operation_kind kind, struct principal principal,
                                  const char *lines);
/* operation_prepare() and the SKUs of the objects it names, as inventory_submit() and the loaders do. */
enum lu_error world_prepare(struct world *world, struct operation *operation);
/* One batch of prepared operations. */
void world_batch(struct world *world, struct operation **operations, size_t count);
/* Prepares and runs one operation alone; its error. */
enum lu_error world_run(struct world *world, struct operation *operation);

/* Short forms: make, run, return the verdict. */
struct verdict *sell(struct world *world, struct principal principal, const char *lines);
struct verdict *hold(struct world *world, struct principal principal, const char *lines, int64_t ttl_s);
struct verdict *by_id(struct world *world, enum operation_kind kind, struct principal principal, struct uuid target);
/* lines NULL: none. */
struct verdict *order(struct world *world, struct principal principal, const char *number, int64_t version,
                      const char *lines);
struct verdict *adjust(struct world *world, char code, int64_t delta);
void expect_figures(struct world *world, char code, int64_t on_hand, int64_t reserved);
/* LU_COUNT_OUT_OF_RANGE, for one line: the row that is named cannot take so many units. */
void expect_beyond(const struct verdict *verdict, char code, int64_t units, int64_t on_hand);
#define expect_error(verdict, expected) assert_string_equal(lu_error_code((verdict)->error), lu_error_code(expected))

#endif
