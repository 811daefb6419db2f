/* The decision about whose a hold is: a bot speaks for all in a group, who see each other's buttons. */
#include "unit/decide_cases.h"

static struct uuid held_for(struct world *w, const char *caller)
{
	struct operation *op = cart(w, OPERATION_RESERVE, world_web, "A2");
	op->caller = text_of(caller);
	world_run(w, op);
	expect_error(&op->verdict, LU_OK);
	return op->verdict.object_id;
}

static struct verdict *by_caller(struct world *w, enum operation_kind kind, const char *caller, struct uuid target)
{
	struct operation *op = named(w, kind, world_web, target);
	op->caller = text_of(caller);
	world_run(w, op);
	return &op->verdict;
}

static void what_is_held_for_another_is_not_ended(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 5);
	struct uuid r = held_for(w, "7");
	expect_error(by_caller(w, OPERATION_COMMIT, "8", r), LU_FORBIDDEN);
	expect_error(by_caller(w, OPERATION_RELEASE, "8", r), LU_FORBIDDEN);
	expect_error(by_caller(w, OPERATION_EXTEND, "8", r), LU_FORBIDDEN);
	expect_figures(w, 'A', 5, 2);
	expect_error(by_caller(w, OPERATION_COMMIT, "7", r), LU_OK);
	expect_figures(w, 'A', 3, 0);
}

static void who_names_nobody_speaks_for_all(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 5);
	expect_error(by_id(w, OPERATION_RELEASE, world_web, held_for(w, "7")), LU_OK);
	struct uuid nobodys = hold(w, world_web, "A1", 0)->object_id;
	expect_error(by_caller(w, OPERATION_RELEASE, "8", nobodys), LU_OK);
	expect_figures(w, 'A', 5, 0);
}

static void what_has_ended_is_told_to_anybody(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 5);
	struct uuid r = held_for(w, "7");
	expect_error(by_caller(w, OPERATION_RELEASE, "7", r), LU_OK);
	expect_error(by_caller(w, OPERATION_COMMIT, "8", r), LU_RESERVATION_NOT_ACTIVE);
	r = held_for(w, "7");
	pass_time(w, 3600);
	expect_error(by_caller(w, OPERATION_COMMIT, "8", r), LU_RESERVATION_EXPIRED);
	expect_figures(w, 'A', 5, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(what_is_held_for_another_is_not_ended),
		CASE(who_names_nobody_speaks_for_all),
		CASE(what_has_ended_is_told_to_anybody),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
