/* An operation: one thing a client wants done to the stock, and the verdict it gets.
 *
 * The caller embeds the operation in its own request, fills the first part, and hands it to inventory_submit(). From
 * then until `on_done` it belongs to the inventory. Every accepted operation is answered exactly once, also at
 * shutdown, never from inside the submit call. All memory it points to lives in `arena`, which the inventory uses for
 * the verdict too. `on_done` runs on a writer's or loader's thread: post to your own mailbox and return.
 */
#ifndef LASTUNIT_OPERATION_H
#define LASTUNIT_OPERATION_H

#include "lastunit/error.h"
#include "lastunit/types.h"

struct arena;

/* Stored as smallint with the key: append only. */
enum operation_kind {
	OPERATION_CHECKOUT = 1, /* lines, reference, other = `releases` */
	OPERATION_RESERVE,      /* lines, reference, ttl_s, other = `replaces` */
	OPERATION_COMMIT,       /* target = reservation */
	OPERATION_RELEASE,      /* target = reservation */
	OPERATION_EXTEND,       /* target = reservation, ttl_s */
	OPERATION_CANCEL,       /* target = checkout, lines (none: all that is left) */
	OPERATION_ADJUST,       /* lines with delta or set, reason, reference */
	OPERATION_SKU_PUT,      /* lines[0].sku, sku_change */
	OPERATION_EXPIRE,       /* target = reservation; the reaper's */
	OPERATION_REFRESH,      /* lines[0].sku; changes nothing, heals its cell */
	OPERATION_ORDER_PUT,    /* number, order_version, lines (none: cancelled) */
};

/* One line of a cart, of an adjustment, of a reservation or a checkout. */
struct line {
	struct text sku;
	int64_t quantity;       /* cart: 1..LU_QUANTITY_MAX; adjustment: the delta, or the value of `set` */
	bool set;               /* adjustment: `quantity` is the new on_hand */
	bool change_from_given; /* adjustment with set: compare on_hand with change_from first */
	int64_t change_from;
	/* filled by the inventory */
	int64_t sku_id;
	bool counted;      /* the SKU was tracked when the line was made: its figures moved */
	int64_t version;   /* of the SKU, by this line's ledger entry; 0 if not counted */
	int64_t cancelled; /* checkout: units restocked so far */
};

enum reservation_state { RESERVATION_ACTIVE = 1, RESERVATION_COMMITTED, RESERVATION_RELEASED, RESERVATION_EXPIRED };

struct reservation {
	struct uuid id;
	int64_t principal_id;
	enum channel channel;
	enum reservation_state state;
	struct text reference; /* data NULL: none */
	struct text caller;    /* of one just made; its holds keep it while they live, nothing else does */
	int64_t created_us, expires_us, ended_us; /* the database's clock; ended_us 0 while active */
	struct uuid checkout_id;                  /* nil unless committed */
	struct line *lines;                       /* in code order; never change */
	size_t line_count;
};

struct checkout {
	struct uuid id;
	int64_t principal_id;
	enum channel channel;
	struct text reference;
	struct uuid reservation_id; /* nil for a direct sale */
	int64_t created_us;
	struct line *lines;
	size_t line_count;
};

/* A marketplace's order: what one number of a principal has sold by now, as its highest version says. Its lines change
 * from version to version; no line left: it is cancelled, and stays as a tombstone. */
struct order {
	struct uuid id; /* of the number, whatever the version: what its ledger entries name */
	int64_t principal_id;
	struct text number;
	int64_t version;
	enum channel channel;
	int64_t created_us, changed_us; /* first and last version taken, by the database's clock */
	struct order_line {
		struct text sku;
		int64_t sku_id;
		int64_t quantity;
		int64_t counted; /* units of `quantity` that moved figures: those sold while the SKU was tracked */
	} * lines;           /* in code order */
	size_t line_count;
};

/* PUT /v1/skus: what is given is changed, the rest stays (a new SKU starts with 0, tracked, no titles). */
struct sku_change {
	bool on_hand_given, safety_stock_given, tracked_given, titles_given, names_given;
	int64_t on_hand, safety_stock;
	bool tracked;
	struct text titles_json; /* {"en": "…"} */
	struct text *names;
	size_t name_count;
};

/* Why a line was refused. */
struct shortage {
	struct text sku;
	int64_t requested, available, held;
	int64_t next_release_us; /* earliest end of a live hold of it; 0: none */
};

struct sku_figures {
	struct text sku;
	struct figures figures;
	int64_t available; /* of it to the principal then, by the settings it had then */
};

/* Which cap was reached. */
struct cap_reached {
	const char *policy; /* "principal-holds", "principal-held-units", "caller-holds", "caller-held-units"; NULL: none */
	int64_t quota, left; /* what it allows at a time, and of that what is not held */
	bool never;          /* more was asked for than it ever allows: waiting does not help */
};

struct verdict {
	enum lu_error error;
	bool replayed;              /* the stored answer of an earlier call with this key */
	bool created;               /* SKU_PUT: the SKU is new */
	struct text detail;         /* a sentence beside the error; size 0: the error's own */
	struct uuid object_id;      /* reservation, checkout or adjustment made or concerned */
	int64_t at_us;              /* when it was decided */
	struct shortage *shortages; /* every failing line, for INSUFFICIENT_STOCK, UNKNOWN_SKU, CHANGE_FROM_MISMATCH, … */
	size_t shortage_count;
	struct reservation *reservation; /* RESERVE, EXTEND, RELEASE, as that answer showed it */
	struct checkout *checkout;       /* CHECKOUT, COMMIT, CANCEL, as that answer showed it */
	struct order *order;             /* ORDER_PUT, as that answer showed it */
	struct sku_figures *figures;     /* ADJUST, SKU_PUT: after it */
	size_t figures_count;
	struct cap_reached cap; /* for TOO_MANY_HOLDS */
};

/* Where the time went, in ns: the wait for a writer, attempts that came to nothing included, then the steps of the batch
 * that answered it, shared by all its operations. `intend` is what Redis took beside the write. 0: not reached. */
struct operation_timing {
	int64_t queue, lock, decide, write, intend, commit, publish;
};

struct operation {
	/* filled by the caller */
	enum operation_kind kind;
	struct arena *arena;
	struct principal principal;
	bool client_key;     /* `key` came from the client */
	struct text key;     /* idempotency key; size 0: none */
	int64_t deadline_ns; /* BOOTTIME; not started after it */
	struct line *lines;
	size_t line_count;
	struct uuid target;    /* COMMIT RELEASE EXTEND CANCEL EXPIRE */
	struct uuid other;     /* `replaces` or `releases`; nil: none */
	int64_t ttl_s;         /* 0: the channel's default */
	struct text reference; /* data NULL: none */
	struct text caller;    /* which client of the principal asks; data NULL: not said. RESERVE: for caps; COMMIT RELEASE
	                        * EXTEND: what is held for another one is LU_FORBIDDEN */
	struct text reason;
	struct sku_change *sku_change;
	struct text number; /* ORDER_PUT: with the principal, which order */
	int64_t order_version;
	void (*on_done)(struct operation *operation);

	/* the answer */
	struct verdict verdict;
	struct operation_timing timing;

	/* the inventory's own */
	int64_t submitted_ns; /* BOOTTIME */
	uint8_t fingerprint[32];
	struct uuid new_id; /* of the object it may make */
	struct text *skus;  /* every SKU concerned, byte order, no twins */
	size_t sku_count;
	uint64_t *claims; /* hashes of skus and of (principal, key) */
	size_t claim_count;
	uint64_t blocked_claim;  /* the claim of a SKU whose row a stranger holds; 0: none … */
	struct text blocked_sku; /* … and that SKU */
	bool keeper;             /* may use the queue's reserved room */
	int64_t sequence;        /* of its arrival in the queue */
	bool outcome_unknown;    /* a COMMIT of it was sent and not answered */
	bool key_in_flight;      /* when last looked at, another was at work under its key, in whatever instance */
	struct operation *next;  /* in the queue */
};

#endif
