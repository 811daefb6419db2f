/* The decision: a pure function of locked rows, operations and the database's time.
 *
 * decide() reads what the batch found under its locks and says what becomes of it: a verdict per operation, the SKU
 * rows as they shall be, the ledger entries in order, the objects to insert, change and end. No I/O, no clock, no
 * library beyond base. It may be run again with more input; it leaves its inputs as they were.
 *
 * Rules (numbers: src/inventory/README.md): a cart is all or nothing; a refused cart leaves no trace but its verdict
 * and never fails its neighbours; operations are decided in order, each seeing those before it; a hold that is due is
 * expired by whoever is short of its units, earliest first, only as many as needed, and only when all its SKUs are
 * among the locked rows; a cart is refused only when none of its SKUs' due holds remains. A cart that would lift its
 * principal or its caller above a cap is refused before anything expires for it.
 */
#ifndef LASTUNIT_DECIDE_H
#define LASTUNIT_DECIDE_H

#include "lastunit/operation.h"

/* Stored as smallint: append only. */
enum ledger_kind {
	LEDGER_CREATE = 1,
	LEDGER_SALE,     /* on_hand -q */
	LEDGER_RESERVE,  /* reserved +q */
	LEDGER_COMMIT,   /* both -q */
	LEDGER_RELEASE,  /* reserved -q */
	LEDGER_EXPIRE,   /* reserved -q */
	LEDGER_CANCEL,   /* on_hand +q */
	LEDGER_ADJUST,   /* on_hand by delta */
	LEDGER_SET,      /* on_hand to a counted value: the delta that it makes */
	LEDGER_SETTINGS, /* safety_stock or tracked changed; no delta */
	LEDGER_IMPORT,
	LEDGER_SQL, /* a row changed by others */
};
const char *ledger_kind_name(enum ledger_kind kind);

/* A SKU's row as found under its lock. */
struct locked_sku {
	int64_t id;
	struct text code;
	struct figures figures;
	/* Known only after the batch asked, because only a short cart needs it: */
	bool holds_known;
	bool holds_more;         /* there are due holds beyond those in `due` */
	int64_t next_release_us; /* earliest end of a hold that is not due; 0: none */
};

/* The stored answer of a key that is known. */
struct stored_answer {
	int64_t principal_id;
	struct text key;
	uint8_t fingerprint[32];
	struct verdict verdict; /* complete, replayed = true */
};

/* What a principal, or one of its callers, holds already; live and not due. */
struct held {
	int64_t sku_id;
	int64_t units; /* counted ones */
};

struct holdings {
	int64_t principal_id;
	struct text caller; /* data NULL: all of the principal's */
	int64_t holds;
	struct held *held; /* by sku_id, no twins: those that the batch's carts name */
	size_t held_count;
	bool units_only; /* no cap asks for the number of `holds`: it is not counted */
};

struct decision_input {
	struct arena *arena;     /* everything decide() makes that only the batch needs */
	int64_t now_us;          /* clock_timestamp() read after the locks */
	struct locked_sku *skus; /* byte order of code, no twins */
	size_t sku_count;
	struct reservation **reservations; /* those named by operations, and due holds found; by id, no twins */
	size_t reservation_count;
	struct reservation **due; /* live, due, by expires_us: subset that touches skus with holds_known */
	size_t due_count;
	struct checkout **checkouts; /* those named by operations; by id */
	size_t checkout_count;
	struct order **orders; /* those of ORDER_PUTs that are there, their rows locked; no twins */
	size_t order_count;
	struct stored_answer *answers;
	size_t answer_count;
	struct holdings *holdings; /* of everybody with a cap who asks to hold, and of nobody else */
	size_t holdings_count;
	struct operation **operations; /* in order; verdicts are written into them */
	size_t operation_count;
};

struct ledger_entry {
	int64_t sku_id;
	int64_t version;
	enum ledger_kind kind;
	int64_t on_hand_delta, reserved_delta, on_hand_after, reserved_after;
	enum channel channel;
	int64_t principal_id;     /* 0: none (system) */
	struct text reference;    /* data NULL: none */
	struct uuid operation_id; /* the reservation, checkout or adjustment */
};

/* A reservation's life changed. */
struct reservation_change {
	struct reservation *reservation; /* with its new state, expires_us, ended_us, checkout_id */
	bool ended;                      /* else: extended */
};

struct sku_insert {
	struct operation *operation; /* SKU_PUT */
	struct figures figures;      /* version 1 */
};

struct decision {
	enum decision_result {
		DECISION_MADE,
		DECISION_NEEDS_HOLDS, /* look up the due holds of `needed`, run again */
		DECISION_NEEDS_LOCKS, /* ROLLBACK, lock `needed` too, run again */
	} result;
	struct text *needed; /* SKU codes */
	size_t needed_count;
	/* DECISION_MADE: */
	struct locked_sku *changed; /* rows whose figures changed, with the new figures; byte order */
	size_t changed_count;
	struct ledger_entry *entries; /* in order of decision: versions dense per SKU */
	size_t entry_count;
	struct reservation *
		*new_reservations; /* these and new_checkouts are those of the verdicts: in the operations' arenas */
	size_t new_reservation_count;
	struct reservation_change *reservation_changes; /* of rows that existed before the batch */
	size_t reservation_change_count;
	struct checkout **new_checkouts;
	size_t new_checkout_count;
	struct checkout **changed_checkouts; /* cancelled units changed */
	size_t changed_checkout_count;
	struct order **new_orders; /* by (principal, number bytes) */
	size_t new_order_count;
	struct order **changed_orders; /* another version; the lines may be the same */
	size_t changed_order_count;
	struct sku_insert *inserts;
	size_t insert_count;
	struct operation **describes; /* SKU_PUTs that give titles or names to a SKU that was there before … */
	int64_t *describe_ids;        /* … and its id */
	size_t describe_count;
	size_t expired_count; /* reservations that this decision expires */
	struct operation *
		*answers; /* operations whose verdict is to be stored under their key; order of (principal, key bytes) */
	size_t answer_count;
	struct sku_figures *refreshed; /* REFRESH: cells to rewrite though nothing changed */
	size_t refreshed_count;
};

/* Default time to live of a hold, by channel, in seconds: web, telegram, marketplace... (README of the API). */
int64_t channel_ttl_s(enum channel channel);

/* Decides. Verdicts and all they point to are made in each operation's own arena; everything else in input->arena.
 * The inputs are read only (rows are copied before they are changed). */
struct decision decide(const struct decision_input *input);

#endif
