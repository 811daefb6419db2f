/* The strategies as one table, and an attempt to buy as three steps: look, write, end.
 *
 * The steps are apart so that the timeline can play them at their moments; the sweep runs them one after the other.
 * Statements of one step share a round trip, as a careful program would send them; COMMIT is a call of its own.
 * Thread: a try is its buyer's; the table is read-only.
 */
#ifndef CMD_RACE_STRATEGY_H
#define CMD_RACE_STRATEGY_H

#include <stdbool.h>
#include <stdint.h>

#include "store/pg.h"

#define RACE_LINES_MAX 2

struct race_cart {
	int lines;
	int64_t skus[RACE_LINES_MAX]; /* different ones */
	int64_t customer;
};

enum race_outcome {
	RACE_GO_ON, /* the next step is due */
	RACE_SOLD,
	RACE_REFUSED, /* sold out, or the customer has had it */
	RACE_AGAIN,   /* nothing happened: the whole attempt once more */
	RACE_BROKEN,  /* no strategy retries this: pg_error() says what it was */
};

enum race_workload_bit {
	RACE_STOCK = 1, /* one line: one hot SKU, 100 SKUs */
	RACE_CARTS = 2, /* two lines */
	RACE_ONCE = 4,  /* one for each customer */
};

/* What is tried again from the beginning. A deadlock is, by everybody: that is what its detail asks for. */
enum race_again {
	RACE_AGAIN_NO_ROW = 1,   /* the UPDATE found no row of this version */
	RACE_AGAIN_CONFLICT = 2, /* 40001 */
};

/* Every statement takes $1 the SKU, $2 the on_hand and $3 the version that were read, $4 the customer. */
struct race_strategy {
	const char *name;
	const char *does; /* one sentence */
	unsigned workloads;
	bool must_hold;                   /* false: a control */
	const struct pg_statement *begin; /* before the look; NULL: the look is a statement by itself, and a transaction is
	                                     begun only where more than one statement writes */
	const struct pg_statement *lock;  /* NULL: takes none by itself */
	const struct pg_statement *read;  /* NULL: does not look. One row: what is left, and its version */
	const struct pg_statement *write; /* one row: taken. NULL: sold by the service, over HTTP */
	unsigned again;
	bool checked;    /* the tables have their constraints */
	bool cart_order; /* lines as they lie in the cart, not in the order of their SKUs */
	bool mutex;      /* each process has one, held for the whole attempt */
};

extern const struct race_strategy race_strategies[];
extern const size_t race_strategy_count;

struct race_try {
	const struct race_strategy *strategy;
	struct pg *pg;
	struct race_cart cart;
	int64_t on_hand[RACE_LINES_MAX], version[RACE_LINES_MAX]; /* as read */
	unsigned short_lines;                                     /* of a refusal: bits of the lines that were short */
	bool open;                                                /* a transaction is */
	bool explicit; /* always in a transaction that race_end() commits: the timeline's */
	bool deadlock; /* 40P01 was the reason for RACE_AGAIN */
	struct arena arena;
};

/* The cart's lines are put in the strategy's order. race_try_done() at the end. */
void race_try_init(struct race_try *t, const struct race_strategy *strategy, struct pg *pg,
                   const struct race_cart *cart);
void race_try_done(struct race_try *t);
/* Begins, locks and reads lines [from, to). RACE_GO_ON, or what has become of it. */
enum race_outcome race_look(struct race_try *t, int from, int to);
/* Decides by what was read, and writes. RACE_GO_ON: race_end() is due. */
enum race_outcome race_write(struct race_try *t);
enum race_outcome race_end(struct race_try *t);

#endif
