/* A turn: one message from a channel and the one thing that it makes the service do, a search, a look-up or an operation.
 *
 * Happy path: turn_init → one of turn_search, turn_look_up, turn_operate → `on_done` on the request's loop, once, with
 * `error` and what was found → the channel says it in its own words and replies. A turn has one step: what needs two is
 * two turns, or one query that asks the database for both; but for a hold that is asked for again (turn_operate). Embed
 * it as the first member of the channel's own state, in the request's arena. Thread: the loop's.
 */
#ifndef CHANNELS_TURN_H
#define CHANNELS_TURN_H

#include "api/call.h"
#include "store/search.h"

struct turn {
	struct call call; /* of turn_operate: call.operation.verdict is the answer */
	struct ask ask;   /* of turn_search, and of a hold asked for again */
	struct lookup lookup;
	struct request *request;
	struct arena *arena;
	void (*on_done)(struct turn *turn);

	/* what came of it */
	enum lu_error error; /* LU_OK, or why not; a refused operation's is that of its verdict */
	struct text detail;  /* a sentence beside the error; size 0: the error's own */

	struct text said; /* of a search */
	size_t limit;
	int64_t product_id;                       /* of a search by id; 0: by the code in `said` */
	int64_t asked_ns;                         /* when it was asked … */
	char namespace[INVENTORY_NAMESPACE_ROOM]; /* … and under which read lease; "": none */
	struct product *products;                 /* best first */
	size_t product_count;
	struct lookup_item *items; /* of a look-up, in the order asked */
	size_t item_count;
};

/* The request has a principal (a route with scopes, or auth_as()). */
void turn_init(struct turn *turn, struct request *request);
/* `said`: valid UTF-8 without NUL. */
void turn_search(struct turn *turn, struct text said, size_t limit, void (*on_done)(struct turn *turn));
/* One product by its id: 1 or none is found. */
void turn_find(struct turn *turn, int64_t product_id, void (*on_done)(struct turn *turn));
/* The same, but only what it is called and its code: for who acts on it and does not tell what is left. What a search told
 * this process a moment ago is not asked again (names.h): then on_done comes from inside the call. */
void turn_name(struct turn *turn, int64_t product_id, void (*on_done)(struct turn *turn));
/* As turn_find(), by its code. */
void turn_find_code(struct turn *turn, struct text code, void (*on_done)(struct turn *turn));
/* 1..LU_LOOKUP_MAX valid codes; the array is copied. */
void turn_look_up(struct turn *turn, const struct text *skus, size_t count, void (*on_done)(struct turn *turn));
/* The operation to fill: lines, target, key … */
struct operation *turn_operation(struct turn *turn, enum operation_kind kind);
/* `key`: what makes a repeated message the same message; size 0: none. The stored answer of a hold tells how it
 * stood when it was made, and people ask about now. So if RESERVE turns out to be a repetition, the hold is looked
 * at: `error` is LU_OK only while it lives, and the verdict's reservation and at_us are those of the look;
 * LU_FORBIDDEN if it is held for another caller; else LU_RESERVATION_EXPIRED, or LU_RESERVATION_NOT_ACTIVE with the
 * reservation's state telling how it ended. */
void turn_operate(struct turn *turn, struct text key, void (*on_done)(struct turn *turn));

#endif
