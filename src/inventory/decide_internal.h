/* What the files of the decision share: one run of decide() and its working rows. Included by decide*.c alone.
 *
 * Everything here works on copies in the input's arena. A run that finds it needs more input (`needs_more`) goes on to
 * the end all the same, to ask for everything at once; what it wrote is then thrown away.
 */
#ifndef INVENTORY_DECIDE_INTERNAL_H
#define INVENTORY_DECIDE_INTERNAL_H

#include "lastunit/decide.h"

/* A due hold, in the list of each SKU that it holds units of. */
struct due {
	struct hold *hold;
	struct due *next;
};

struct row {
	struct locked_sku sku;  /* the row as it shall be */
	int64_t reserved_found; /* before this batch */
	bool changed;
	bool refresh;
	bool holds_needed;
	struct due *due, **due_end; /* earliest first; those that ended are dropped when met */
};

struct hold {
	struct reservation reservation;
	bool changed;
	struct checkout *checkout; /* made by a COMMIT of this batch */
};

struct sale {
	const struct checkout *checkout; /* as found; from the first cancellation on: as it shall be */
	bool changed;
};

/* One number of one principal in this run. */
struct numbered {
	int64_t principal_id;
	struct text number;
	const struct order *order; /* as found, then as it shall be; NULL: there is none */
	bool stored;               /* a row is there */
	bool changed;
};

/* Whose ledger entry it is. */
struct author {
	enum channel channel;
	int64_t principal_id;
	struct text reference;
	struct uuid operation_id;
};

struct run {
	const struct decision_input *input;
	struct arena *arena;
	struct row *rows;          /* as input->skus */
	struct hold *holds;        /* as input->reservations */
	struct sale *sales;        /* as input->checkouts */
	struct holdings *holdings; /* as input->holdings; what this batch holds is added */
	struct numbered *orders;   /* those that operations before this one named, and this one */
	size_t order_count;
	bool due_listed;
	bool needs_more;
	struct text *locks_needed;
	size_t locks_needed_count, locks_needed_room;
	size_t holds_needed_count;
	struct ledger_entry *entries;
	size_t entry_count, entry_room;
	struct hold **changed_holds;
	size_t changed_hold_count;
	struct reservation **new_reservations;
	size_t new_reservation_count;
	struct checkout **new_checkouts;
	size_t new_checkout_count;
	struct sku_insert *inserts; /* in code order */
	size_t insert_count;
	struct operation **describes;
	int64_t *describe_ids;
	size_t describe_count;
	size_t expired_count;
};

/* decide.c: the rows and objects of a run */
struct row *row_find(struct run *run, struct text sku);
/* 0 <= reserved <= on_hand <= LU_COUNT_MAX would still hold, and the version has room for `versions` more. */
bool row_can_move(const struct row *row, int64_t on_hand_delta, int64_t reserved_delta, int64_t versions);
/* Moves the figures and writes the ledger entry; returns the new version. */
int64_t row_move(struct run *run, struct row *row, enum ledger_kind kind, int64_t on_hand_delta, int64_t reserved_delta,
                 const struct author *author);
struct author operation_author(const struct operation *operation, struct text reference, struct uuid operation_id);
/* By id, if the operation's principal may see it. */
struct hold *hold_find(struct run *run, const struct uuid *id);
struct hold *hold_visible(struct run *run, const struct operation *operation, const struct uuid *id);
struct sale *sale_find(struct run *run, const struct uuid *id);
void hold_changed(struct run *run, struct hold *hold);
/* Counted units of this SKU in a hold. */
int64_t hold_units(const struct hold *hold, struct text sku);
void lock_needed(struct run *run, struct text sku);
void refuse(struct operation *operation, enum lu_error error);
/* Names one failing line; room for every line of the operation is made at the first. */
struct shortage *shortage_add(struct operation *operation, struct text sku, int64_t requested);
/* What the asker could have had: beyond `floor`, and in any case the `own` units of its old hold. */
void shortage_figures(struct shortage *shortage, const struct row *row, int64_t floor, int64_t own);
/* A line of LU_COUNT_OUT_OF_RANGE: its row cannot take `units`. Of an operation that has no lines of its own but those of
 * the object it ends: `room` is for all of them. */
void beyond_add(struct operation *operation, struct text sku, int64_t units, const struct row *row, size_t room);

/* decide_end.c: how holds end */
enum hold_check { HOLD_READY, HOLD_UNLOCKED, HOLD_BROKEN };
enum hold_check hold_check(struct run *run, const struct hold *hold, bool commit);
bool hold_due(const struct run *run, const struct hold *hold);
/* Ends an active hold; `ret_lines`, if given, takes the new version of each counted line. */
void hold_end(struct run *run, struct hold *hold, enum reservation_state state, const struct author *author,
              struct line *ret_lines);
/* Expires a due hold. False if its figures do not allow it (a damaged row): it stays as it is. */
bool hold_expire(struct run *run, struct hold *hold);
/* Expires due holds of this SKU, earliest first, until it can give `units` beyond `floor` (principal_floor(), or 0 for a
 * correction), `own` units of the asker's old hold counted as free, or until none is left. */
void row_secure(struct run *run, struct row *row, int64_t units, int64_t floor, int64_t own);
/* What it can give. */
static inline int64_t row_free(const struct row *row, int64_t floor, int64_t own)
{
	return row->sku.figures.on_hand - row->sku.figures.reserved - floor + own;
}

/* decide_caps.c: caps against hoarding */
/* False after refusing a RESERVE whose principal or caller would hold more than it may. `old`: the hold that it takes the
 * place of, or NULL. Every row of the cart is there. */
bool caps_allow(struct run *run, struct operation *operation, const struct hold *old);
/* The reservation was made: the carts behind it in the batch find it counted. */
void caps_count(struct run *run, const struct operation *operation, const struct hold *old);

/* one family of operations each */
void decide_cart(struct run *run, struct operation *operation); /* CHECKOUT, RESERVE */
void decide_commit(struct run *run, struct operation *operation);
void decide_release(struct run *run, struct operation *operation);
void decide_extend(struct run *run, struct operation *operation);
void decide_expire(struct run *run, struct operation *operation);
void decide_cancel(struct run *run, struct operation *operation);
void decide_adjust(struct run *run, struct operation *operation);
void decide_sku_put(struct run *run, struct operation *operation);
void decide_refresh(struct run *run, struct operation *operation);
void decide_order_put(struct run *run, struct operation *operation);

/* decide_order.c: what became of orders, for the decision */
void list_orders(struct run *run, struct decision *decision);

#endif
