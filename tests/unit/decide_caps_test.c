/* The decision under caps: how much a principal, and each of its callers, may hold at a time (B30). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
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

static struct principal capped(struct principal_settings settings)
{
	struct principal principal = world_agent;
	principal.settings = settings;
	return principal;
}

static struct operation *asks(struct world *w, struct principal principal, const char *caller, const char *lines)
{
	struct operation *op = world_operation(w, OPERATION_RESERVE, principal, lines);
	op->ttl_s = 600;
	if (caller)
		op->caller = text_of(caller);
	return op;
}

static struct verdict *hold_for(struct world *w, struct principal principal, const char *caller, const char *lines)
{
	struct operation *op = asks(w, principal, caller, lines);
	world_run(w, op);
	return &op->verdict;
}

static void expect_detail(const struct verdict *verdict, const char *words)
{
	assert_non_null(verdict->detail.data);
	if (!strstr(verdict->detail.data, words))
		fail_msg("\"%s\" does not say \"%s\"", verdict->detail.data, words);
}

static void expect_cap(const struct verdict *verdict, const char *policy, int64_t quota, int64_t left)
{
	expect_error(verdict, LU_TOO_MANY_HOLDS);
	assert_string_equal(verdict->cap.policy, policy);
	assert_int_equal(verdict->cap.quota, quota);
	assert_int_equal(verdict->cap.left, left);
}

static void b30_one_who_hoards_is_stopped_and_nobody_else(void **state)
{
	struct world *w = *state;
	struct principal hoarder = capped((struct principal_settings){.holds_max = 2});
	world_sku(w, 'A', 100);
	struct uuid first = hold_for(w, hoarder, NULL, "A1")->object_id;
	expect_error(hold_for(w, hoarder, NULL, "A1"), LU_OK);
	struct verdict *refused = hold_for(w, hoarder, NULL, "A1");
	expect_error(refused, LU_TOO_MANY_HOLDS);
	expect_detail(refused, "has 2 live holds and may have 2 at a time");
	expect_cap(refused, "principal-holds", 2, 0);
	expect_figures(w, 'A', 100, 2);
	expect_error(hold(w, world_web, "A50", 0), LU_OK);
	expect_error(sell(w, hoarder, "A1"), LU_OK); /* a sale is no hold */
	expect_error(by_id(w, OPERATION_RELEASE, hoarder, first), LU_OK);
	expect_error(hold_for(w, hoarder, NULL, "A1"), LU_OK);
}

static void a_cap_of_units_is_of_each_sku(void **state)
{
	struct world *w = *state;
	struct principal agent = capped((struct principal_settings){.held_units_max = 5});
	world_sku(w, 'A', 100);
	world_sku(w, 'B', 100);
	world_sku(w, 'C', 0);
	world_figures(w, 'C')->tracked = false;
	expect_error(hold_for(w, agent, NULL, "A3"), LU_OK);
	expect_error(hold_for(w, agent, NULL, "B5"), LU_OK);
	struct verdict *refused = hold_for(w, agent, NULL, "A3 B1");
	expect_error(refused, LU_TOO_MANY_HOLDS);
	expect_detail(refused, "holds 3 units of A, asks for 3 and may hold 5 at a time");
	expect_cap(refused, "principal-held-units", 5, 2);
	expect_error(hold_for(w, agent, NULL, "A2"), LU_OK);
	expect_error(hold_for(w, agent, NULL, "A1"), LU_TOO_MANY_HOLDS);
	expect_error(hold_for(w, agent, NULL, "C9"), LU_OK); /* what is not counted is not hoarded */
	expect_error(hold_for(w, agent, NULL, "C9"), LU_OK);
	expect_figures(w, 'A', 100, 5);
}

/* No hold that ends makes room for it. */
static void more_than_a_cap_ever_allows_is_told_so(void **state)
{
	struct world *w = *state;
	struct principal agent = capped((struct principal_settings){.held_units_max = 5});
	world_sku(w, 'A', 100);
	struct verdict *refused = hold_for(w, agent, NULL, "A6");
	expect_cap(refused, "principal-held-units", 5, 5);
	assert_true(refused->cap.never);
	expect_detail(refused, "asks for 6 units of A. Ask for fewer: never more than 5 at a time.");
	assert_null(strstr(refused->detail.data, "wait"));
	expect_error(hold_for(w, agent, NULL, "A1"), LU_OK);
	refused = hold_for(w, agent, NULL, "A5");
	expect_cap(refused, "principal-held-units", 5, 4);
	assert_false(refused->cap.never);
	expect_detail(refused, "wait until one ends");
}

static void each_caller_has_its_own_share(void **state)
{
	struct world *w = *state;
	struct principal bot = capped((struct principal_settings){.caller_holds_max = 1, .caller_held_units_max = 3});
	world_sku(w, 'A', 100);
	expect_cap(hold_for(w, bot, "chat 1", "A4"), "caller-held-units", 3, 3);
	expect_error(hold_for(w, bot, "chat 1", "A3"), LU_OK);
	struct verdict *refused = hold_for(w, bot, "chat 1", "A1");
	expect_error(refused, LU_TOO_MANY_HOLDS);
	expect_detail(refused, "This caller has 1 live holds");
	expect_cap(refused, "caller-holds", 1, 0);
	struct principal lowered = bot; /* below what is held */
	lowered.settings = (struct principal_settings){.caller_held_units_max = 2};
	expect_cap(hold_for(w, lowered, "chat 1", "A1"), "caller-held-units", 2, 0);
	expect_error(hold_for(w, bot, "chat 2", "A3"), LU_OK);
	/* Who names no caller is under the caps of the principal only; another principal's chat 1 is another. */
	expect_error(hold_for(w, bot, NULL, "A9"), LU_OK);
	struct principal other = bot;
	other.id = world_telegram.id;
	expect_error(hold_for(w, other, "chat 1", "A3"), LU_OK);
}

static void the_principal_is_capped_whoever_calls(void **state)
{
	struct world *w = *state;
	struct principal bot = capped((struct principal_settings){.holds_max = 3, .caller_holds_max = 2});
	world_sku(w, 'A', 100);
	expect_error(hold_for(w, bot, "1", "A1"), LU_OK);
	expect_error(hold_for(w, bot, "1", "A1"), LU_OK);
	expect_error(hold_for(w, bot, "2", "A1"), LU_OK);
	struct verdict *refused = hold_for(w, bot, "3", "A1");
	expect_error(refused, LU_TOO_MANY_HOLDS);
	expect_detail(refused, "principal has 3 live holds");
}

static void one_batch_is_counted_cart_by_cart(void **state)
{
	struct world *w = *state;
	struct principal bot = capped((struct principal_settings){.holds_max = 3, .caller_held_units_max = 4});
	world_sku(w, 'A', 100);
	struct operation *ops[] = {asks(w, bot, "1", "A3"),        asks(w, bot, "1", "A2"), asks(w, bot, "2", "A2"),
	                           asks(w, world_web, NULL, "A1"), asks(w, bot, "1", "A1"), asks(w, bot, "3", "A1")};
	static const enum lu_error expected[] = {LU_OK, LU_TOO_MANY_HOLDS, LU_OK, LU_OK, LU_OK, LU_TOO_MANY_HOLDS};
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(world_prepare(w, ops[i]), LU_OK);
	world_batch(w, ops, 6);
	for (size_t i = 0; i < 6; i++)
		expect_error(&ops[i]->verdict, expected[i]);
	expect_figures(w, 'A', 100, 7);
}

/* A hold that takes the place of an own one is no further hold; of somebody else's it is. */
static void a_replaced_hold_makes_room_for_its_successor(void **state)
{
	struct world *w = *state;
	struct principal agent = capped((struct principal_settings){.holds_max = 1, .held_units_max = 4});
	agent.scopes |= SCOPE_ORDERS;
	world_sku(w, 'A', 100);
	struct uuid own = hold_for(w, agent, NULL, "A3")->object_id;
	struct operation *wider = asks(w, agent, NULL, "A5");
	wider->other = own;
	expect_error((world_run(w, wider), &wider->verdict), LU_TOO_MANY_HOLDS);
	struct operation *fits = asks(w, agent, NULL, "A4");
	fits->other = own;
	expect_error((world_run(w, fits), &fits->verdict), LU_OK);
	struct uuid others = hold(w, world_web, "A1", 0)->object_id;
	struct operation *taken = asks(w, agent, NULL, "A1");
	taken->other = others;
	expect_error((world_run(w, taken), &taken->verdict), LU_TOO_MANY_HOLDS);
	assert_int_equal(world_hold(w, others)->row.state, RESERVATION_ACTIVE);
	expect_figures(w, 'A', 100, 5);
}

/* Else a caller has puppets hold for it, and takes their holds over one by one. */
static void another_callers_hold_makes_no_room(void **state)
{
	struct world *w = *state;
	struct principal bot = capped((struct principal_settings){.caller_holds_max = 1, .caller_held_units_max = 4});
	world_sku(w, 'A', 100);
	struct uuid mine = hold_for(w, bot, "mallory", "A4")->object_id;
	struct uuid puppets = hold_for(w, bot, "puppet", "A4")->object_id;
	struct operation *swap = asks(w, bot, "mallory", "A4");
	swap->other = puppets;
	expect_error((world_run(w, swap), &swap->verdict), LU_TOO_MANY_HOLDS);
	struct operation *own = asks(w, bot, "mallory", "A3");
	own->other = mine;
	expect_error((world_run(w, own), &own->verdict), LU_OK);
	expect_figures(w, 'A', 100, 7);
}

static void what_is_due_is_held_no_longer(void **state)
{
	struct world *w = *state;
	struct principal agent = capped((struct principal_settings){.holds_max = 1, .held_units_max = 1});
	world_sku(w, 'A', 9);
	expect_error(hold_for(w, agent, NULL, "A1"), LU_OK);
	w->now_us += 600 * WORLD_SECOND;
	expect_error(hold_for(w, agent, NULL, "A1"), LU_OK); /* though nobody has expired it yet */
	expect_figures(w, 'A', 9, 2);
}

/* "Too many" is true of a moment: the same key may come again. And it stands in front of the stock: nothing expires for a
 * cart that may not be. */
static void a_cap_is_no_answer_to_keep(void **state)
{
	struct world *w = *state;
	struct principal agent = capped((struct principal_settings){.holds_max = 1});
	world_sku(w, 'A', 2);
	struct uuid due = hold(w, world_web, "A1", 60)->object_id, own = hold_for(w, agent, NULL, "A1")->object_id;
	w->now_us += 61 * WORLD_SECOND;
	struct operation *op = asks(w, agent, NULL, "A1");
	op->key = TEXT("k");
	world_run(w, op);
	expect_error(&op->verdict, LU_TOO_MANY_HOLDS);
	assert_int_equal(w->answer_count, 0);
	assert_int_equal(world_hold(w, due)->row.state, RESERVATION_ACTIVE);
	expect_error(by_id(w, OPERATION_RELEASE, agent, own), LU_OK);
	op = asks(w, agent, NULL, "A1");
	op->key = TEXT("k");
	world_run(w, op);
	expect_error(&op->verdict, LU_OK);
	expect_error(hold_for(w, agent, NULL, "X1"), LU_UNKNOWN_SKU); /* and behind what never changes */
}

static void who_has_no_cap_is_not_counted(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 9);
	expect_error(hold_for(w, world_web, "somebody", "A1"), LU_OK);
	expect_error(hold_for(w, capped((struct principal_settings){.caller_holds_max = 1}), NULL, "A1"), LU_OK);
	assert_int_equal(w->counted, 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_world, free_world)
	const struct CMUnitTest tests[] = {
		TEST(b30_one_who_hoards_is_stopped_and_nobody_else),
		TEST(a_cap_of_units_is_of_each_sku),
		TEST(more_than_a_cap_ever_allows_is_told_so),
		TEST(each_caller_has_its_own_share),
		TEST(the_principal_is_capped_whoever_calls),
		TEST(one_batch_is_counted_cart_by_cart),
		TEST(a_replaced_hold_makes_room_for_its_successor),
		TEST(another_callers_hold_makes_no_room),
		TEST(what_is_due_is_held_no_longer),
		TEST(a_cap_is_no_answer_to_keep),
		TEST(who_has_no_cap_is_not_counted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
