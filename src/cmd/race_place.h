/* Where a race is run: a scratch schema for the textbook, a `lastunit serve` for ours. Both are gone afterwards.
 *
 * Thread: the main one, but for the shop's calls, which are any thread's with a caller of its own.
 */
#ifndef CMD_RACE_PLACE_H
#define CMD_RACE_PLACE_H

#include "cmd/http_caller.h"
#include "cmd/race.h"
#include "cmd/race_judge.h"
#include "cmd/race_strategy.h"

/* --- race_scratch.c ----------------------------------------------------------------------------------------------- */
/* Connects, names what dead runs have left, creates the schema. False with race->why. */
bool race_scratch_open(struct race *race) LU_MUST_CHECK;
/* Drops it; accepts one that was never opened. What cannot be dropped is said on stderr, with the
 * statement that does it. */
void race_scratch_close(struct race *race);
/* For what is dropped: a session that was lost, known or not, is had anew, and the statement tried once more. False:
 * pg_error(race->scratch.owner); if it is connected, the server has refused. */
bool race_scratch_command(struct race *race, const char *sql) LU_MUST_CHECK;
/* Empty tables `stock` and `sale` in place of those there were: `skus` rows with `units` each. checked: with the
 * constraints of the strategy `constraint`. once: for one unit a customer. */
bool race_scratch_stock(struct race *race, int64_t skus, int64_t units, bool checked, bool once) LU_MUST_CHECK;
/* What there is and what was sold of each SKU of `stock`, by its row and by the rows of `sale`; `items` has `skus`. */
bool race_scratch_look(struct race *race, int64_t skus, struct race_item *items) LU_MUST_CHECK;
/* How many rows of `sale` each customer has; `items` has `customers`. */
bool race_scratch_look_customers(struct race *race, int64_t customers, struct race_item *items) LU_MUST_CHECK;

/* --- race_service.c ----------------------------------------------------------------------------------------------- */
/* The service at --url, or one of our own. That ours cannot be had is no failure, unless nothing else was asked for:
 * race->service.why_not says why. */
bool race_service_open(struct race *race) LU_MUST_CHECK;
void race_service_close(struct race *race);

/* It was asked for, and if it is ours there is a service. */
bool race_takes_part(const struct race *race, const struct race_strategy *strategy);

/* --- race_shop.c: what is bought over HTTP ------------------------------------------------------------------------ */
/* One SKU of the service as it stands; version 0: it is not there. */
struct race_shop_row {
	int64_t on_hand, version;
};

/* SKUs race-000000 … have `units` each, made where they are not there; `rows` has room for `skus`, at most RACE_SKUS_MAX.
 * False with race->why. */
bool race_shop_stock(struct race *race, int64_t skus, int64_t units, struct race_shop_row *rows) LU_MUST_CHECK;
bool race_shop_look(struct race *race, int64_t skus, struct race_shop_row *rows) LU_MUST_CHECK;
/* Nothing is left to sell of the first `skus`; if that cannot be had it is said on stderr. */
void race_shop_clear(struct race *race, int64_t skus);

/* What is on the page of a SKU; -1 without an answer. */
int64_t race_shop_see(const struct race_service *service, struct http_caller *caller, int64_t sku);
struct race_bought {
	unsigned short_lines; /* of a refusal: bits of the cart's lines */
	bool replayed;        /* a sale that was answered before, or to somebody else with this key */
	char why[512];        /* of RACE_BROKEN */
};

/* One attempt to buy. key: idempotency key of the cart. RACE_AGAIN: no answer, or none that says what has become of it;
 * the same key finds out. */
enum race_outcome race_shop_buy(const struct race_service *service, struct http_caller *caller,
                                const struct race_cart *cart, const char *key, struct race_bought *ret_bought);

#endif
