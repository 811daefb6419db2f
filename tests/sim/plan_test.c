/* The plan: what is drawn from a seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sim/plan.h"

static void a_seed_is_one_plan(void **state)
{
	struct plan a = plan_draw(17, 4000), b = plan_draw(17, 4000), c = plan_draw(18, 4000);
	assert_int_equal(a.fault_count, b.fault_count);
	assert_memory_equal(a.skus, b.skus, sizeof a.skus);
	for (int i = 0; i < a.fault_count; i++) {
		assert_int_equal(a.faults[i].kind, b.faults[i].kind);
		assert_int_equal(a.faults[i].at_ms, b.faults[i].at_ms);
		assert_int_equal(a.faults[i].for_ms, b.faults[i].for_ms);
		assert_int_equal(a.faults[i].choice, b.faults[i].choice);
	}
	assert_memory_not_equal(a.skus, c.skus, sizeof a.skus);
}

static void clients_roll_dice_of_their_own(void **state)
{
	struct dice a = dice_of(17, 100), again = dice_of(17, 100), b = dice_of(17, 101), c = dice_of(18, 100);
	unsigned same_b = 0, same_c = 0;
	for (int i = 0; i < 1000; i++) {
		uint64_t roll = dice_roll(&a, 1000);
		assert_in_range(roll, 0, 999);
		assert_int_equal(roll, dice_roll(&again, 1000));
		same_b += roll == dice_roll(&b, 1000);
		same_c += roll == dice_roll(&c, 1000);
	}
	assert_in_range(same_b, 0, 20);
	assert_in_range(same_c, 0, 20);
}

static void faults_come_in_order_and_within_the_run(void **state)
{
	for (uint64_t seed = 1; seed <= 500; seed++) {
		struct plan plan = plan_draw(seed, 4000);
		int64_t last_ms = 0;
		for (int i = 0; i < plan.fault_count; i++) {
			assert_true(plan.faults[i].at_ms >= last_ms && plan.faults[i].at_ms < plan.run_ms);
			assert_in_range(plan.faults[i].instance, 0, PLAN_INSTANCES - 1);
			last_ms = plan.faults[i].at_ms;
		}
	}
}

static void every_fault_comes_and_some_seeds_have_none(void **state)
{
	unsigned seen[FAULT_KINDS] = {0}, calm = 0;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct plan plan = plan_draw(seed, 4000);
		calm += plan.fault_count == 0;
		for (int kind = 0; kind < FAULT_KINDS; kind++)
			seen[kind] += plan_has(&plan, (enum fault_kind)kind);
	}
	for (int kind = 0; kind < FAULT_KINDS; kind++)
		if (seen[kind] < 10)
			fail_msg("%s comes in %u of 200 seeds", fault_name((enum fault_kind)kind), seen[kind]);
	assert_in_range(calm, 2, 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_seed_is_one_plan),
		cmocka_unit_test(clients_roll_dice_of_their_own),
		cmocka_unit_test(faults_come_in_order_and_within_the_run),
		cmocka_unit_test(every_fault_comes_and_some_seeds_have_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
