/* The decision under the settings of a principal: its buffer and the safety stock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "lib/world.h"

static int make_world(void **state)
{
	*state = world_new();
	return 0;
}

static int free_world(void **state)
{
	world_free(*state);
	return 0;
}

static struct principal with_buffer(int64_t buffer)
{
	struct principal principal = world_bazaar;
	principal.settings.buffer = buffer;
	return principal;
}

static void a_buffer_is_neither_sold_nor_held(void **state)
{
	struct world *w = *state;
	struct principal bazaar = with_buffer(2);
	world_sku(w, 'A', 4);
	world_figures(w, 'A')->safety_stock = 1;
	struct verdict *refused = sell(w, bazaar, "A2");
	expect_error(refused, LU_INSUFFICIENT_STOCK);
	assert_int_equal(refused->shortages[0].available, 1);
	assert_int_equal(refused->shortages[0].held, 0);
	refused = hold(w, bazaar, "A2", 0);
	expect_error(refused, LU_INSUFFICIENT_STOCK);
	assert_int_equal(refused->shortages[0].available, 1);
	expect_error(hold(w, bazaar, "A1", 0), LU_OK);
	refused = sell(w, bazaar, "A1");
	expect_error(refused, LU_INSUFFICIENT_STOCK);
	assert_int_equal(refused->shortages[0].available, 0);
	/* Who has no buffer sells what this one left alone. */
	expect_error(sell(w, world_web, "A2"), LU_OK);
	expect_figures(w, 'A', 2, 1);
}

static void a_buffer_wider_than_the_stock_leaves_nothing_and_breaks_nothing(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 3);
	world_figures(w, 'A')->safety_stock = LU_COUNT_MAX;
	struct verdict *refused = sell(w, with_buffer(LU_COUNT_MAX), "A1");
	expect_error(refused, LU_INSUFFICIENT_STOCK);
	assert_int_equal(refused->shortages[0].available, 0);
}

static void what_is_not_counted_has_no_buffer(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 0);
	world_figures(w, 'A')->tracked = false;
	expect_error(sell(w, with_buffer(5), "A3"), LU_OK);
}

static void a_hold_is_committed_whatever_the_buffer_has_become(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 3);
	struct uuid id = hold(w, with_buffer(0), "A2", 0)->object_id;
	expect_error(by_id(w, OPERATION_COMMIT, with_buffer(3), id), LU_OK);
	expect_figures(w, 'A', 1, 0);
}

/* What was granted when the hold was made is not taken back by a rule that came later; more than that is decided anew. */
static void units_of_the_own_hold_are_the_askers_whatever_rule_came_since(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 3);
	struct uuid id = hold(w, with_buffer(0), "A1", 0)->object_id;
	struct operation *more = world_operation(w, OPERATION_CHECKOUT, with_buffer(3), "A2");
	more->other = id;
	world_run(w, more);
	expect_error(&more->verdict, LU_INSUFFICIENT_STOCK);
	assert_int_equal(more->verdict.shortages[0].available, 1);
	struct operation *same = world_operation(w, OPERATION_CHECKOUT, with_buffer(3), "A1");
	same->other = id;
	world_run(w, same);
	expect_error(&same->verdict, LU_OK);
	expect_figures(w, 'A', 2, 0);
	/* The same for safety stock: a till holds the last unit, the site, which may not touch it, sells that hold. */
	world_figures(w, 'A')->safety_stock = 2;
	id = hold(w, world_till, "A2", 0)->object_id;
	struct operation *sold = world_operation(w, OPERATION_CHECKOUT, world_site, "A2");
	sold->other = id;
	world_run(w, sold);
	expect_error(&sold->verdict, LU_OK);
	expect_figures(w, 'A', 0, 0);
}

static void who_may_sells_safety_stock_and_nobody_else(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 3);
	world_figures(w, 'A')->safety_stock = 2;
	struct verdict *refused = sell(w, world_pos, "A2");
	expect_error(refused, LU_INSUFFICIENT_STOCK);
	assert_int_equal(refused->shortages[0].available, 1);
	expect_error(sell(w, world_till, "A2"), LU_OK);
	refused = sell(w, world_till, "A2");
	expect_error(refused, LU_INSUFFICIENT_STOCK);
	assert_int_equal(refused->shortages[0].available, 1);
	expect_error(hold(w, world_till, "A1", 0), LU_OK);
	expect_figures(w, 'A', 1, 1);
	expect_error(sell(w, world_till, "A1"), LU_INSUFFICIENT_STOCK); /* held is held */
}

/* Somebody else's hold that is due makes room only for who is short: by its own rule. */
static void due_holds_expire_for_who_is_short_by_its_own_rule(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 3);
	struct uuid id = hold(w, world_web, "A2", 60)->object_id;
	w->now_us += 61 * WORLD_SECOND;
	expect_error(sell(w, world_till, "A1"), LU_OK);
	assert_int_equal(world_hold(w, id)->row.state, RESERVATION_ACTIVE);
	world_figures(w, 'A')->safety_stock = 1;
	expect_error(sell(w, with_buffer(1), "A1"), LU_INSUFFICIENT_STOCK);
	assert_int_equal(world_hold(w, id)->row.state, RESERVATION_EXPIRED);
	expect_error(sell(w, world_till, "A2"), LU_OK);
	expect_figures(w, 'A', 0, 0);
}

/* A stock-take counts what is there: no rule of a channel stands in its way. */
static void a_correction_knows_no_buffer(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 3);
	struct operation *op = world_operation(w, OPERATION_ADJUST, with_buffer(3), "A0");
	op->lines[0].quantity = -3;
	world_run(w, op);
	expect_error(&op->verdict, LU_OK);
	expect_figures(w, 'A', 0, 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_world, free_world)
	const struct CMUnitTest tests[] = {
		TEST(a_buffer_is_neither_sold_nor_held),
		TEST(a_buffer_wider_than_the_stock_leaves_nothing_and_breaks_nothing),
		TEST(what_is_not_counted_has_no_buffer),
		TEST(a_hold_is_committed_whatever_the_buffer_has_become),
		TEST(units_of_the_own_hold_are_the_askers_whatever_rule_came_since),
		TEST(who_may_sells_safety_stock_and_nobody_else),
		TEST(due_holds_expire_for_who_is_short_by_its_own_rule),
		TEST(a_correction_knows_no_buffer),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
