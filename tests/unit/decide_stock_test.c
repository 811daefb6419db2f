/* The decision about figures, case by case: what is untracked or not for sale, cancellations, adjustments, SKUs. */
#include "unit/decide_cases.h"

/* --- untracked and safety stock ----------------------------------------------------------------------------------- */

static void an_untracked_sku_sells_without_moving(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 0);
	world_figures(w, 'A')->tracked = false;
	struct verdict *v = sell(w, world_web, "A1000000000");
	expect_error(v, LU_OK);
	assert_false(v->checkout->lines[0].counted);
	assert_int_equal(v->checkout->lines[0].version, 0);
	expect_error(by_id(w, OPERATION_CANCEL, world_web, v->object_id), LU_OK);
	expect_figures(w, 'A', 0, 0);
	assert_int_equal(world_figures(w, 'A')->version, 1);
	expect_error(adjust(w, 'A', 3), LU_OK); /* its physical units may be stated */
	expect_figures(w, 'A', 3, 0);
	expect_error(adjust(w, 'A', -4), LU_INSUFFICIENT_STOCK);
}

static void a_line_remembers_whether_it_was_counted(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 5);
	world_sku(w, 'B', 5);
	world_figures(w, 'B')->tracked = false;
	struct uuid commit = hold(w, world_web, "A1 B1", 0)->object_id, release = hold(w, world_web, "A1 B1", 0)->object_id;
	struct uuid sale = sell(w, world_web, "A1 B1")->object_id;
	world_figures(w, 'A')->tracked = false;
	world_figures(w, 'B')->tracked = true;
	expect_error(by_id(w, OPERATION_COMMIT, world_web, commit), LU_OK);
	expect_error(by_id(w, OPERATION_RELEASE, world_web, release), LU_OK);
	expect_error(by_id(w, OPERATION_CANCEL, world_web, sale), LU_OK);
	expect_figures(w, 'A', 4, 0);
	expect_figures(w, 'B', 5, 0);
}

static void safety_stock_is_not_for_sale_but_may_be_corrected(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 5);
	world_figures(w, 'A')->safety_stock = 3;
	struct verdict *v = sell(w, world_web, "A3");
	expect_error(v, LU_INSUFFICIENT_STOCK);
	assert_int_equal(v->shortages[0].available, 2);
	expect_error(sell(w, world_web, "A2"), LU_OK);
	expect_error(adjust(w, 'A', -2), LU_OK);
	v = sell(w, world_web, "A1");
	assert_int_equal(v->shortages[0].available, 0); /* never negative, though on_hand is below the safety stock */
	expect_figures(w, 'A', 1, 0);
}

/* --- cancel ------------------------------------------------------------------------------------------------------- */

static struct verdict *cancel(struct world *w, struct uuid id, const char *lines)
{
	struct operation *op = world_operation(w, OPERATION_CANCEL, world_web, lines);
	op->target = id;
	world_run(w, op);
	return &op->verdict;
}

static void cancel_restocks_per_line_at_most_what_was_sold(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 10);
	world_sku(w, 'B', 10);
	world_sku(w, 'C', 10);
	struct uuid sale = sell(w, world_web, "A5 B5")->object_id;
	struct verdict *v = cancel(w, sale, "A2");
	expect_error(v, LU_OK);
	assert_int_equal(v->checkout->lines[0].cancelled, 2);
	assert_int_equal(v->checkout->lines[1].cancelled, 0);
	v = cancel(w, sale, "A4 B1 C1");
	expect_error(v, LU_EXCEEDS_SOLD);
	assert_int_equal(v->shortage_count, 2);
	assert_int_equal(v->shortages[0].requested, 4);
	assert_int_equal(v->shortages[0].available, 3);
	assert_memory_equal(v->shortages[1].sku.data, "C", 1);
	assert_int_equal(v->shortages[1].available, 0);
	expect_figures(w, 'B', 5, 0);
	expect_error(cancel(w, sale, NULL), LU_OK);
	expect_figures(w, 'A', 10, 0);
	expect_figures(w, 'B', 10, 0);
	v = cancel(w, sale, NULL); /* nothing is left */
	expect_error(v, LU_OK);
	assert_int_equal(v->checkout->lines[1].cancelled, 5);
	expect_error(cancel(w, sale, "A1"), LU_EXCEEDS_SOLD);
	expect_ledger(w, 'A', "sale -5 0, cancel +2 0, cancel +3 0");
	expect_error(cancel(w, world_id(77777), NULL), LU_UNKNOWN_CHECKOUT);
}

static void two_cancels_in_one_batch_restock_once(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 5);
	struct uuid sale = sell(w, world_web, "A3")->object_id;
	struct operation *ops[3];
	for (int i = 0; i < 3; i++) {
		ops[i] = world_operation(w, OPERATION_CANCEL, world_web, "A2");
		ops[i]->target = sale;
		assert_int_equal(world_prepare(w, ops[i]), LU_OK);
	}
	world_batch(w, ops, 3);
	expect_error(&ops[0]->verdict, LU_OK);
	expect_error(&ops[1]->verdict, LU_EXCEEDS_SOLD);
	assert_int_equal(ops[0]->verdict.checkout->lines[0].cancelled, 2);
	expect_figures(w, 'A', 4, 0);
}

static void cancel_cannot_lift_a_count_out_of_its_range(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', LU_COUNT_MAX);
	struct uuid sale = sell(w, world_web, "A1")->object_id;
	expect_error(adjust(w, 'A', 1), LU_OK);
	expect_beyond(cancel(w, sale, NULL), 'A', 1, LU_COUNT_MAX);
	expect_figures(w, 'A', LU_COUNT_MAX, 0);
}

/* Every line that fails, none that does not: also where the request named none. */
static void a_cancellation_names_the_counts_that_would_leave_their_range(void **state)
{
	struct world *w = *state;
	for (char sku = 'A'; sku <= 'C'; sku++)
		world_sku(w, sku, 5);
	struct uuid sale = sell(w, world_web, "A1 B2 C3")->object_id;
	expect_error(adjust(w, 'A', LU_COUNT_MAX - 4), LU_OK);
	expect_error(adjust(w, 'C', LU_COUNT_MAX - 3), LU_OK);
	const struct verdict *v = cancel(w, sale, NULL);
	expect_error(v, LU_COUNT_OUT_OF_RANGE);
	assert_int_equal(v->shortage_count, 2);
	assert_memory_equal(v->shortages[0].sku.data, "A", 1);
	assert_memory_equal(v->shortages[1].sku.data, "C", 1);
	assert_int_equal(v->shortages[1].requested, 3);
	assert_int_equal(v->shortages[1].available, LU_COUNT_MAX - 1);
	expect_error(cancel(w, sale, "B2"), LU_OK);
}

/* --- adjust ------------------------------------------------------------------------------------------------------- */

static void an_adjustment_is_all_or_nothing(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 5);
	world_sku(w, 'B', 5);
	struct operation *op = world_operation(w, OPERATION_ADJUST, world_admin, "A0 B0 C0");
	op->lines[0].quantity = 3;
	op->lines[1].quantity = -6;
	expect_error((world_run(w, op), &op->verdict), LU_UNKNOWN_SKU);
	assert_int_equal(op->verdict.shortage_count, 1);
	op = world_operation(w, OPERATION_ADJUST, world_admin, "A0 B0");
	op->lines[0].quantity = 3;
	op->lines[1].quantity = -6;
	expect_error((world_run(w, op), &op->verdict), LU_INSUFFICIENT_STOCK);
	assert_int_equal(op->verdict.shortages[0].requested, 6);
	assert_int_equal(op->verdict.shortages[0].available, 5);
	expect_figures(w, 'A', 5, 0);
	op = world_operation(w, OPERATION_ADJUST, world_admin, "A0 B0");
	op->reference = TEXT("truck");
	op->lines[0].quantity = 3;
	op->lines[1].quantity = -5;
	expect_error((world_run(w, op), &op->verdict), LU_OK);
	assert_int_equal(op->verdict.figures_count, 2);
	assert_int_equal(op->verdict.figures[0].figures.on_hand, 8);
	assert_int_equal(op->verdict.figures[0].figures.version, 2);
	assert_int_equal(op->verdict.figures[1].figures.on_hand, 0);
	assert_memory_equal(w->ledger[0].reference.data, "truck", 5);
	assert_memory_equal(&w->ledger[0].operation_id, &op->verdict.object_id, sizeof(struct uuid));
}

static void an_adjustment_by_nothing_writes_nothing(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 5);
	expect_error(adjust(w, 'A', 0), LU_OK);
	struct verdict *v = set(w, 'A', 5, 5);
	expect_error(v, LU_OK);
	assert_int_equal(v->figures[0].figures.version, 1);
	assert_int_equal(w->ledger_count, 0);
}

static void counts_stay_in_their_range(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 10);
	expect_error(adjust(w, 'A', LU_COUNT_MAX), LU_COUNT_OUT_OF_RANGE);
	expect_error(adjust(w, 'A', LU_COUNT_MAX - 10), LU_OK);
	expect_error(adjust(w, 'A', 1), LU_COUNT_OUT_OF_RANGE);
	/* Past operation_prepare(), decide() still looks for itself. */
	struct operation *op = cart(w, OPERATION_ADJUST, world_admin, "A1");
	const int64_t wrong[] = {INT64_MAX, INT64_MIN, LU_COUNT_MAX + 1, -LU_COUNT_MAX - 1};
	for (size_t i = 0; i < 8; i++) {
		op->lines[0].set = i % 2;
		op->lines[0].quantity = wrong[i / 2];
		world_batch(w, &op, 1);
		expect_error(&op->verdict, LU_COUNT_OUT_OF_RANGE);
	}
	op = cart(w, OPERATION_CHECKOUT, world_web, "A1");
	const int64_t wrong_quantities[] = {0, -1, INT64_MIN, INT64_MAX, LU_QUANTITY_MAX + 1};
	for (size_t i = 0; i < 5; i++) {
		op->lines[0].quantity = wrong_quantities[i];
		world_batch(w, &op, 1);
		expect_error(&op->verdict, LU_INVALID_QUANTITY);
	}
	expect_figures(w, 'A', LU_COUNT_MAX, 0);
}

static void a_version_that_has_run_out_refuses(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 10);
	world_figures(w, 'A')->version = w->skus[0].entries = LU_COUNT_MAX;
	expect_beyond(sell(w, world_web, "A1"), 'A', 1, 10);
	expect_beyond(hold(w, world_web, "A1", 0), 'A', 1, 10);
	expect_error(adjust(w, 'A', 1), LU_COUNT_OUT_OF_RANGE);
	expect_figures(w, 'A', 10, 0);
}

/* --- SKU_PUT, REFRESH --------------------------------------------------------------------------------------------- */

static struct operation *put(struct world *w, const char *sku, struct sku_change change)
{
	struct operation *op = world_operation(w, OPERATION_SKU_PUT, world_admin, sku);
	op->sku_change = ARENA_NEW(w->arena, struct sku_change);
	*op->sku_change = change;
	return op;
}

static void a_put_creates_once(void **state)
{
	struct world *w = *state;
	struct operation *ops[] = {put(w, "B", (struct sku_change){.on_hand_given = true, .on_hand = 7}),
	                           put(w, "A", (struct sku_change){0}),
	                           put(w, "B", (struct sku_change){.on_hand_given = true, .on_hand = 7}),
	                           put(w, "B", (struct sku_change){.safety_stock_given = true, .safety_stock = 0}),
	                           put(w, "B", (struct sku_change){.safety_stock_given = true, .safety_stock = 1})};
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(world_prepare(w, ops[i]), LU_OK);
	world_batch(w, ops, 5);
	expect_error(&ops[0]->verdict, LU_OK);
	assert_true(ops[0]->verdict.created);
	assert_int_equal(ops[0]->verdict.figures[0].figures.on_hand, 7);
	assert_true(ops[1]->verdict.created);
	assert_true(world_figures(w, 'A')->tracked);
	expect_error(&ops[2]->verdict, LU_SKU_EXISTS);
	expect_error(&ops[3]->verdict, LU_OK); /* sees the first, and has nothing to change */
	assert_false(ops[3]->verdict.created);
	expect_error(&ops[4]->verdict, LU_OVERLOADED); /* cannot write before the row has its id; not stored */
	expect_figures(w, 'B', 7, 0);
	assert_int_equal(w->answer_count, 4);
}

static void a_put_changes_what_is_given_and_counts_settings_only(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 7);
	struct operation *op = put(w, "A", (struct sku_change){.on_hand_given = true, .on_hand = 7});
	expect_error((world_run(w, op), &op->verdict), LU_SKU_EXISTS);
	op = put(w, "A", (struct sku_change){.titles_given = true, .titles_json = TEXT("{}")});
	expect_error((world_run(w, op), &op->verdict), LU_OK);
	assert_int_equal(op->verdict.figures[0].figures.version, 1);
	op = put(w, "A", (struct sku_change){.safety_stock_given = true, .safety_stock = 9});
	expect_error((world_run(w, op), &op->verdict), LU_OK);
	assert_int_equal(op->verdict.figures[0].figures.version, 2);
	assert_int_equal(world_figures(w, 'A')->safety_stock, 9);
	op = put(w, "A", (struct sku_change){.safety_stock_given = true, .safety_stock = 9, .tracked_given = true});
	expect_error((world_run(w, op), &op->verdict), LU_OK);
	assert_false(world_figures(w, 'A')->tracked);
	expect_ledger(w, 'A', "settings 0 0, settings 0 0");
	op = put(w, "A", (struct sku_change){.safety_stock_given = true, .safety_stock = LU_COUNT_MAX + 1});
	expect_error((world_run(w, op), &op->verdict), LU_COUNT_OUT_OF_RANGE);
}

static void titles_of_a_known_sku_are_told_with_its_id(void **state)
{
	struct world *w = *state;
	struct arena arena;
	arena_init(&arena, 4096);
	world_sku(w, 'C', 1);
	struct operation *ops[] = {put(w, "C", (struct sku_change){.names_given = true}),
	                           put(w, "D", (struct sku_change){.names_given = true})};
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(world_prepare(w, ops[i]), LU_OK);
	struct decision_input input = {.arena = &arena,
	                               .now_us = 1,
	                               .skus = &w->skus[2].row,
	                               .sku_count = 1,
	                               .operations = ops,
	                               .operation_count = 2};
	struct decision d = decide(&input);
	assert_int_equal(d.describe_count, 1);
	assert_ptr_equal(d.describes[0], ops[0]);
	assert_int_equal(d.describe_ids[0], w->skus[2].row.id);
	assert_int_equal(d.insert_count, 1);
	arena_done(&arena);
}

static void a_refresh_tells_the_figures_unless_they_change_anyway(void **state)
{
	struct world *w = *state;
	struct arena arena;
	arena_init(&arena, 4096);
	world_sku(w, 'A', 3);
	world_sku(w, 'B', 4);
	struct operation *ops[] = {cart(w, OPERATION_REFRESH, world_pos, "A"), cart(w, OPERATION_REFRESH, world_pos, "B"),
	                           cart(w, OPERATION_REFRESH, world_pos, "C"),
	                           cart(w, OPERATION_CHECKOUT, world_pos, "A1")};
	struct locked_sku skus[] = {w->skus[0].row, w->skus[1].row};
	struct decision_input input =
		{.arena = &arena, .now_us = 1, .skus = skus, .sku_count = 2, .operations = ops, .operation_count = 4};
	struct decision d = decide(&input);
	assert_int_equal(d.refreshed_count, 1);
	assert_int_equal(d.refreshed[0].figures.on_hand, 4);
	assert_int_equal(d.changed_count, 1);
	expect_error(&ops[2]->verdict, LU_UNKNOWN_SKU);
	arena_done(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(an_untracked_sku_sells_without_moving),
		CASE(a_line_remembers_whether_it_was_counted),
		CASE(safety_stock_is_not_for_sale_but_may_be_corrected),
		CASE(cancel_restocks_per_line_at_most_what_was_sold),
		CASE(two_cancels_in_one_batch_restock_once),
		CASE(cancel_cannot_lift_a_count_out_of_its_range),
		CASE(a_cancellation_names_the_counts_that_would_leave_their_range),
		CASE(an_adjustment_is_all_or_nothing),
		CASE(an_adjustment_by_nothing_writes_nothing),
		CASE(counts_stay_in_their_range),
		CASE(a_version_that_has_run_out_refuses),
		CASE(a_put_creates_once),
		CASE(a_put_changes_what_is_given_and_counts_settings_only),
		CASE(titles_of_a_known_sku_are_told_with_its_id),
		CASE(a_refresh_tells_the_figures_unless_they_change_anyway),
	};
	return cmocka_run_group_tests_name("decide stock", tests, NULL, NULL);
}
