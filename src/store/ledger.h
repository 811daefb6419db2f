/* The ledger: append-only, primary key (sku_id, version). */
#ifndef STORE_LEDGER_H
#define STORE_LEDGER_H

#include "lastunit/decide.h"
#include "store/pg.h"

void ledger_insert_send(struct pg *pg, struct arena *arena, const struct ledger_entry *entries, size_t count);
enum lu_error ledger_insert_take(struct pg *pg, int64_t deadline_ns, size_t count) LU_MUST_CHECK;

struct ledger_row {
	struct ledger_entry entry;
	struct text principal; /* its name; data NULL: none */
	int64_t at_us;
};
/* The columns of a ledger_row from `table`, and reading them from `column` on; for this folder. */
#define LEDGER_COLUMNS(table)                                                                                     \
	table ".sku_id, " table ".version, " table ".kind, " table ".on_hand_delta, " table ".reserved_delta, " table \
		  ".on_hand_after, " table ".reserved_after, " table ".channel, " table ".principal_id, " table           \
		  ".reference, " table ".operation_id, " table ".at, (SELECT p.name FROM principal p WHERE p.id = " table \
		  ".principal_id)"
struct ledger_row ledger_get(const PGresult *r, int row, int column, struct arena *arena);

/* One SKU's entries with version > after, at most limit. *ret_known false: no such SKU. */
enum lu_error ledger_page(struct pg *pg, struct arena *arena, struct text sku, int64_t after, size_t limit,
                          int64_t deadline_ns, struct ledger_row **ret_rows, size_t *ret_count, bool *ret_known)
	LU_MUST_CHECK;

/* The whole ledger in the order of its key: entries behind `version` of the SKU of this id, each with its SKU's code. */
struct ledger_walk_row {
	struct text sku;
	struct ledger_row row;
};
enum lu_error ledger_walk(struct pg *pg, struct arena *arena, int64_t sku_id, int64_t version, size_t limit,
                          int64_t deadline_ns, struct ledger_walk_row **ret_rows, size_t *ret_count) LU_MUST_CHECK;

#endif
