/* What the cases of the decision share: a world for each, and words for what is done in it. */
#ifndef UNIT_DECIDE_CASES_H
#define UNIT_DECIDE_CASES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/id.h"
#include "base/text.h"
#include "inventory/prepare.h"
#include "lib/dies.h"
#include "lib/world.h"

#define expect_ledger(w, code, text) assert_string_equal(world_ledger((w), (code)).data, (text))

static inline int make_world(void **state)
{
	*state = world_new();
	return 0;
}

static inline int free_world(void **state)
{
	world_free(*state);
	return 0;
}

static inline struct operation *cart(struct world *w, enum operation_kind kind, struct principal principal,
                                     const char *lines)
{
	struct operation *op = world_operation(w, kind, principal, lines);
	assert_int_equal(world_prepare(w, op), LU_OK);
	return op;
}

static inline struct operation *named(struct world *w, enum operation_kind kind, struct principal principal,
                                      struct uuid target)
{
	struct operation *op = world_operation(w, kind, principal, NULL);
	op->target = target;
	assert_int_equal(world_prepare(w, op), LU_OK);
	return op;
}

static inline struct verdict *replace(struct world *w, struct principal principal, const char *lines, struct uuid other)
{
	struct operation *op = world_operation(w, OPERATION_RESERVE, principal, lines);
	op->other = other;
	world_run(w, op);
	return &op->verdict;
}

static inline struct verdict *set(struct world *w, char code, int64_t value, int64_t change_from)
{
	struct operation *op = world_operation(w, OPERATION_ADJUST, world_admin, (char[]){code, '0', 0});
	op->lines[0].quantity = value;
	op->lines[0].set = true;
	op->lines[0].change_from_given = change_from >= 0;
	op->lines[0].change_from = change_from;
	world_run(w, op);
	return &op->verdict;
}

static inline struct operation *keyed(struct world *w, enum operation_kind kind, struct principal principal,
                                      const char *lines, const char *key)
{
	struct operation *op = world_operation(w, kind, principal, lines);
	op->key = text_of(key);
	op->client_key = true;
	return op;
}

static inline enum reservation_state state_of(struct world *w, struct uuid id)
{
	assert_non_null(world_hold(w, id));
	return world_hold(w, id)->row.state;
}

static inline void pass_time(struct world *w, int64_t seconds)
{
	w->now_us += seconds * WORLD_SECOND;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_world, free_world)

#endif
