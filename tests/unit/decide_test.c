/* The decision, case by case: the faults that really happened (b01…) around who gets the last unit, and the rule of
 * keys. What must hold for every sequence is in decide_model_test.c; holds and stock have files of their own. */
#include "unit/decide_cases.h"

/* --- A. oversell races -------------------------------------------------------------------------------------------- */

static void b01_last_unit_goes_to_one_cart_of_sixty(void **state)
{
	struct world *w = *state;
	const struct principal *channels[] = {&world_web, &world_telegram, &world_agent, &world_pos};
	world_sku(w, 'A', 1);
	struct operation *ops[60];
	for (size_t i = 0; i < 60; i++)
		ops[i] = cart(w, OPERATION_CHECKOUT, *channels[i % 4], "A1");
	world_batch(w, ops, 60);
	expect_error(&ops[0]->verdict, LU_OK); /* in order: the first that came */
	for (size_t i = 1; i < 60; i++)
		expect_error(&ops[i]->verdict, LU_INSUFFICIENT_STOCK);
	expect_figures(w, 'A', 0, 0);
	expect_ledger(w, 'A', "sale -1 0");
	assert_int_equal(w->sale_count, 1);
	assert_int_equal(w->lookups, 0); /* nothing is held: nothing to look up */
}

static void b01_last_unit_is_held_once_then_committed(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 1);
	struct operation *ops[60];
	for (size_t i = 0; i < 60; i++)
		ops[i] = cart(w, OPERATION_RESERVE, world_web, "A1");
	world_batch(w, ops, 60);
	size_t held = 0;
	for (size_t i = 0; i < 60; i++)
		held += ops[i]->verdict.error == LU_OK;
	assert_int_equal(held, 1);
	expect_figures(w, 'A', 1, 1);
	const struct shortage *shortage = &ops[59]->verdict.shortages[0];
	assert_int_equal(shortage->held, 1);
	assert_int_equal(shortage->next_release_us, ops[0]->verdict.reservation->expires_us);
	assert_int_equal(w->lookups, 0); /* what this very batch held cannot be due */
	expect_error(by_id(w, OPERATION_COMMIT, world_web, ops[0]->new_id), LU_OK);
	expect_figures(w, 'A', 0, 0);
	expect_ledger(w, 'A', "reserve 0 +1, commit -1 -1");
}

static void b03_no_update_is_lost(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 100);
	for (int round = 1; round <= 200; round++) {
		struct operation *plus = world_operation(w, OPERATION_ADJUST, world_admin, "A10");
		assert_int_equal(world_prepare(w, plus), LU_OK);
		struct operation *ops[] = {cart(w, OPERATION_CHECKOUT, world_web, "A5"),
		                           cart(w, OPERATION_CHECKOUT, world_pos, "A3"), plus,
		                           named(w, OPERATION_RELEASE, world_web, world_id(999999))};
		world_batch(w, ops, 4);
		expect_error(&ops[3]->verdict, LU_UNKNOWN_RESERVATION);
		expect_figures(w, 'A', 100 + 2 * round, 0);
	}
}

static void b04_a_sku_without_any_row_yet_is_held_once(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 1);
	struct operation *ops[] = {cart(w, OPERATION_RESERVE, world_web, "A1"),
	                           cart(w, OPERATION_RESERVE, world_pos, "A1")};
	world_batch(w, ops, 2);
	expect_error(&ops[0]->verdict, LU_OK);
	expect_error(&ops[1]->verdict, LU_INSUFFICIENT_STOCK);
	struct verdict *unknown = hold(w, world_web, "A1 X1 Y2", 0);
	expect_error(unknown, LU_UNKNOWN_SKU);
	assert_int_equal(unknown->shortage_count, 2); /* every unknown line, and only those */
	assert_memory_equal(unknown->shortages[1].sku.data, "Y", 1);
	assert_int_equal(unknown->shortages[1].requested, 2);
	assert_int_equal(unknown->shortages[1].available, 0);
	expect_figures(w, 'A', 1, 1);
}

static void b05_the_second_hold_sees_the_first(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 10);
	struct operation *ops[] = {cart(w, OPERATION_RESERVE, world_web, "A6"),
	                           cart(w, OPERATION_RESERVE, world_pos, "A6")};
	world_batch(w, ops, 2);
	expect_error(&ops[1]->verdict, LU_INSUFFICIENT_STOCK);
	assert_int_equal(ops[1]->verdict.shortages[0].available, 4);
	expect_figures(w, 'A', 10, 6);
}

static void b06_twin_lines_are_summed(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 1);
	expect_error(sell(w, world_web, "A1 A1"), LU_INSUFFICIENT_STOCK);
	expect_figures(w, 'A', 1, 0);
	adjust(w, 'A', 4);
	world_sku(w, 'B', 1);
	expect_error(sell(w, world_web, "A3 A3"), LU_INSUFFICIENT_STOCK);
	struct verdict *held = hold(w, world_web, "A2 B1 A3", 0);
	expect_error(held, LU_OK);
	assert_int_equal(held->reservation->line_count, 2);
	expect_figures(w, 'A', 5, 5);
	expect_figures(w, 'B', 1, 1);
}

static void b06_own_hold_of_twin_lines_cannot_be_raised_beyond_stock(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 2);
	struct uuid own = hold(w, world_web, "A1 A1", 0)->object_id;
	expect_error(replace(w, world_web, "A2 A1", own), LU_INSUFFICIENT_STOCK);
	expect_figures(w, 'A', 2, 2);
	assert_int_equal(state_of(w, own), RESERVATION_ACTIVE);
}

static void b06_unmerged_twins_are_a_bug(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 5);
	struct operation *op = cart(w, OPERATION_CHECKOUT, world_web, "A1 B1");
	op->lines[1].sku = op->lines[0].sku;
	assert_dies(world_batch(w, &op, 1));
}

static void b07_counter_never_drifts_from_its_holds(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 10);
	struct operation *ops[40];
	for (size_t i = 0; i < 40; i++)
		ops[i] = cart(w, OPERATION_RESERVE, world_web, "A1");
	world_batch(w, ops, 40);
	expect_figures(w, 'A', 10, 10);
	assert_int_equal(w->hold_count, 10);
	struct operation *ends[20];
	for (size_t i = 0; i < 20; i++) {
		ends[i] = world_operation(w, i % 2 ? OPERATION_RELEASE : OPERATION_EXTEND, world_web, NULL);
		ends[i]->target = w->holds[i / 2].row.id;
		ends[i]->ttl_s = i % 2 ? 0 : 3600;
		assert_int_equal(world_prepare(w, ends[i]), LU_OK);
	}
	world_batch(w, ends, 20);
	for (size_t i = 0; i < 20; i++)
		expect_error(&ends[i]->verdict, LU_OK);
	expect_figures(w, 'A', 10, 0);
}

static void b08_a_losing_cart_leaves_nothing(void **state)
{
	struct world *w = *state;
	struct operation *ops[20];
	world_sku(w, 'A', 1);
	for (int i = 0; i < 20; i++) {
		world_sku(w, (char)('B' + i), 5);
		ops[i] = keyed(w, OPERATION_RESERVE, world_web, (char[]){'A', '1', ' ', (char)('B' + i), '1', 0},
		               (char[]){'k', (char)('B' + i), 0});
		ops[i]->key = arena_text(w->arena, ops[i]->key);
		assert_int_equal(world_prepare(w, ops[i]), LU_OK);
	}
	world_batch(w, ops, 20);
	expect_figures(w, 'A', 1, 1);
	expect_figures(w, 'B', 5, 1);
	for (int i = 1; i < 20; i++) {
		expect_error(&ops[i]->verdict, LU_INSUFFICIENT_STOCK);
		assert_int_equal(ops[i]->verdict.shortage_count, 1);
		expect_figures(w, (char)('B' + i), 5, 0);
		assert_int_equal(world_figures(w, (char)('B' + i))->version, 1);
	}
	assert_int_equal(w->hold_count, 1);
	assert_int_equal(w->answer_count, 20); /* the refusal is what is remembered */
}

static void b10_a_count_believed_too_long_ago_is_refused(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 100);
	sell(w, world_pos, "A30");
	struct verdict *late = set(w, 'A', 120, 100);
	expect_error(late, LU_CHANGE_FROM_MISMATCH);
	assert_int_equal(late->shortages[0].requested, 100);
	assert_int_equal(late->shortages[0].available, 70);
	expect_figures(w, 'A', 70, 0);
	struct operation *ops[2];
	for (int i = 0; i < 2; i++) {
		ops[i] = keyed(w, OPERATION_ADJUST, world_admin, i ? "A2" : "A4", i ? "two" : "four");
		ops[i]->lines[0].set = ops[i]->lines[0].change_from_given = true;
		ops[i]->lines[0].change_from = 70;
		assert_int_equal(world_prepare(w, ops[i]), LU_OK);
	}
	world_batch(w, ops, 2);
	expect_error(&ops[0]->verdict, LU_OK);
	expect_error(&ops[1]->verdict, LU_CHANGE_FROM_MISMATCH);
	expect_figures(w, 'A', 4, 0);
	world_batch(w, ops, 1); /* the winner again, with its key */
	assert_true(ops[0]->verdict.replayed);
	assert_int_equal(ops[0]->verdict.figures[0].figures.on_hand, 4);
	expect_figures(w, 'A', 4, 0);
	expect_ledger(w, 'A', "sale -30 0, set -66 0");
}

/* Each takes all five units, or what of them is left; whichever comes second finds them gone. */
static void b11_every_pair_of_outflows_takes_the_units_once(void **state)
{
	(void)state;
	enum { RESERVE, SELL, MINUS, SET_ZERO, COMMIT, OUTFLOWS };
	for (int first = 0; first < OUTFLOWS; first++)
		for (int second = 0; second < OUTFLOWS; second++) {
			struct world *w = world_new();
			world_sku(w, 'A', 5);
			bool held = first == COMMIT || second == COMMIT;
			struct uuid old = held ? hold(w, world_web, "A5", 0)->object_id : world_id(0);
			struct operation *ops[2];
			for (int i = 0; i < 2; i++) {
				int outflow = i ? second : first;
				if (outflow == COMMIT) {
					ops[i] = named(w, OPERATION_COMMIT, world_web, old);
					continue;
				}
				ops[i] = world_operation(w,
				                         outflow == RESERVE ? OPERATION_RESERVE
				                         : outflow == SELL  ? OPERATION_CHECKOUT
				                                            : OPERATION_ADJUST,
				                         outflow == RESERVE || outflow == SELL ? world_pos : world_admin, "A5");
				ops[i]->lines[0].set = outflow == SET_ZERO;
				if (outflow == MINUS || outflow == SET_ZERO)
					ops[i]->lines[0].quantity = outflow == MINUS ? -5 : 0;
				assert_int_equal(world_prepare(w, ops[i]), LU_OK);
			}
			world_batch(w, ops, 2);
			const struct figures *f = world_figures(w, 'A');
			int64_t taken = 5 - f->on_hand + f->reserved;
			assert_int_equal(taken, 5);
			bool idle = second == SET_ZERO && f->on_hand == 0; /* set to what it already is */
			bool same = first == COMMIT && second == COMMIT;
			if (!idle && !same && !(held && first != COMMIT))
				expect_error(&ops[1]->verdict, LU_INSUFFICIENT_STOCK);
			world_free(w);
		}
}

static void b12_held_units_are_not_for_sale_at_the_counter(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 1);
	struct uuid web = hold(w, world_web, "A1", 0)->object_id;
	expect_error(sell(w, world_pos, "A1"), LU_INSUFFICIENT_STOCK);
	struct verdict *minus = adjust(w, 'A', -1);
	expect_error(minus, LU_INSUFFICIENT_STOCK);
	assert_int_equal(minus->shortages[0].requested, 1);
	assert_int_equal(minus->shortages[0].available, 0);
	assert_int_equal(minus->shortages[0].held, 1);
	assert_int_equal(minus->shortages[0].next_release_us, world_hold(w, web)->row.expires_us);
	struct world *other = world_copy(w);
	expect_error(by_id(w, OPERATION_COMMIT, world_web, web), LU_OK);
	expect_figures(w, 'A', 0, 0);
	by_id(other, OPERATION_RELEASE, world_web, web);
	expect_error(sell(other, world_pos, "A1"), LU_OK);
	expect_figures(other, 'A', 0, 0);
	world_free(other);
}

static void b14_a_refused_cart_names_every_short_line_and_changes_none(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 3);
	world_sku(w, 'B', 10);
	world_sku(w, 'C', 0);
	struct verdict *refused = hold(w, world_web, "B3 A5 C1", 0);
	expect_error(refused, LU_INSUFFICIENT_STOCK);
	assert_int_equal(refused->shortage_count, 2);
	assert_memory_equal(refused->shortages[0].sku.data, "A", 1);
	assert_int_equal(refused->shortages[0].requested, 5);
	assert_int_equal(refused->shortages[0].available, 3);
	assert_int_equal(refused->shortages[1].available, 0);
	assert_true(uuid_is_nil(&refused->object_id));
	expect_figures(w, 'A', 3, 0);
	expect_figures(w, 'B', 10, 0);
	struct uuid old = hold(w, world_web, "B1", 0)->object_id;
	expect_error(replace(w, world_web, "B4 A9", old), LU_INSUFFICIENT_STOCK);
	expect_figures(w, 'B', 10, 1);
	assert_int_equal(state_of(w, old), RESERVATION_ACTIVE);
	expect_ledger(w, 'B', "reserve 0 +1");
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

static void a_key_has_one_effect_and_one_answer(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 10);
	struct operation *first = keyed(w, OPERATION_CHECKOUT, world_web, "A1", "k");
	expect_error((world_run(w, first), &first->verdict), LU_OK);
	pass_time(w, 100);
	for (int i = 0; i < 3; i++) {
		struct operation *again = keyed(w, OPERATION_CHECKOUT, world_web, "A1", "k");
		expect_error((world_run(w, again), &again->verdict), LU_OK);
		assert_true(again->verdict.replayed);
		assert_memory_equal(&again->verdict.object_id, &first->verdict.object_id, sizeof(struct uuid));
		assert_int_equal(again->verdict.at_us, first->verdict.at_us);
		assert_int_equal(again->verdict.checkout->lines[0].version, first->verdict.checkout->lines[0].version);
	}
	struct operation *other = keyed(w, OPERATION_CHECKOUT, world_web, "A2", "k");
	expect_error((world_run(w, other), &other->verdict), LU_IDEMPOTENCY_CONFLICT);
	assert_false(other->verdict.replayed);
	struct operation *kind = keyed(w, OPERATION_RESERVE, world_web, "A1", "k");
	expect_error((world_run(w, kind), &kind->verdict), LU_IDEMPOTENCY_CONFLICT);
	expect_figures(w, 'A', 9, 0);
	assert_int_equal(w->answer_count, 1);
}

static void twins_of_a_key_in_one_batch_have_one_effect(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 10);
	struct operation *ops[4];
	for (int i = 0; i < 4; i++) {
		ops[i] = keyed(w, OPERATION_CHECKOUT, world_web, i == 3 ? "A2" : "A1", i == 1 ? "other" : "twin");
		assert_int_equal(world_prepare(w, ops[i]), LU_OK);
	}
	world_batch(w, ops, 4);
	expect_error(&ops[0]->verdict, LU_OK);
	expect_error(&ops[1]->verdict, LU_OK);
	expect_error(&ops[2]->verdict, LU_IDEMPOTENCY_IN_FLIGHT);
	expect_error(&ops[3]->verdict, LU_IDEMPOTENCY_IN_FLIGHT);
	expect_figures(w, 'A', 8, 0);
	assert_int_equal(w->answer_count, 2);
}

static void b49_a_key_belongs_to_its_principal(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 10);
	struct operation *ops[] = {keyed(w, OPERATION_CHECKOUT, world_pos, "A1", "order-1001"),
	                           keyed(w, OPERATION_CHECKOUT, world_web, "A1", "order-1001")};
	for (int i = 0; i < 2; i++)
		assert_int_equal(world_prepare(w, ops[i]), LU_OK);
	world_batch(w, ops, 2);
	expect_figures(w, 'A', 8, 0);
	struct operation *again = keyed(w, OPERATION_CHECKOUT, world_web, "A1", "order-1001");
	world_run(w, again);
	assert_memory_equal(&again->verdict.object_id, &ops[1]->verdict.object_id, sizeof(struct uuid));
	assert_int_equal(again->verdict.checkout->principal_id, world_web.id);
}

static void b50_a_refusal_is_replayed_though_stock_has_come(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 0);
	struct operation *first = keyed(w, OPERATION_CHECKOUT, world_web, "A1", "k");
	expect_error((world_run(w, first), &first->verdict), LU_INSUFFICIENT_STOCK);
	adjust(w, 'A', 5);
	struct operation *again = keyed(w, OPERATION_CHECKOUT, world_web, "A1", "k");
	expect_error((world_run(w, again), &again->verdict), LU_INSUFFICIENT_STOCK);
	assert_true(again->verdict.replayed);
	assert_int_equal(again->verdict.shortage_count, 1);
	assert_int_equal(again->verdict.shortages[0].available, 0); /* the old answer's figures */
	expect_figures(w, 'A', 5, 0);
	/* What was not decided in the transaction is not remembered. */
	struct operation *unknown = keyed(w, OPERATION_COMMIT, world_web, NULL, "u");
	unknown->target = world_id(12345);
	expect_error((world_run(w, unknown), &unknown->verdict), LU_UNKNOWN_RESERVATION);
	assert_int_equal(w->answer_count, 1);
}

static void keys_that_share_a_beginning_are_kept_apart_and_in_order(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 100);
	static const char *const keys[] = {"order-10", "order-100", "order-1", "order-10\x7f", "o", "\xc3\xa9", "order-2"};
	struct operation *ops[14];
	for (size_t i = 0; i < 14; i++) {
		ops[i] = keyed(w, OPERATION_CHECKOUT, i % 2 ? world_web : world_pos, "A1", keys[i / 2]);
		assert_int_equal(world_prepare(w, ops[i]), LU_OK);
	}
	world_batch(w, ops, 14); /* checks the order of the answers */
	assert_int_equal(w->answer_count, 14);
	world_batch(w, ops, 14);
	for (size_t i = 0; i < 14; i++)
		assert_true(ops[i]->verdict.replayed && ops[i]->verdict.error == LU_OK);
	expect_figures(w, 'A', 86, 0);
}

static void a_replay_shows_the_object_as_it_was(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 10);
	struct operation *reserve = keyed(w, OPERATION_RESERVE, world_web, "A2", "r");
	reserve->reference = TEXT("basket 7");
	world_run(w, reserve);
	int64_t expires_us = reserve->verdict.reservation->expires_us;
	pass_time(w, 100);
	by_id(w, OPERATION_EXTEND, world_web, reserve->new_id);
	struct verdict *sale = by_id(w, OPERATION_COMMIT, world_web, reserve->new_id);
	assert_memory_equal(sale->checkout->reference.data, "basket 7", 8);
	struct operation *again = keyed(w, OPERATION_RESERVE, world_web, "A1 A1", "r");
	again->reference = TEXT("basket 7");
	expect_error((world_run(w, again), &again->verdict), LU_OK);
	assert_true(again->verdict.replayed);
	assert_int_equal(again->verdict.reservation->state, RESERVATION_ACTIVE);
	assert_int_equal(again->verdict.reservation->expires_us, expires_us);
	assert_true(uuid_is_nil(&again->verdict.reservation->checkout_id));
	struct operation *cancels[2];
	for (int i = 0; i < 2; i++) {
		cancels[i] = keyed(w, OPERATION_CANCEL, world_web, "A1", i ? "c1" : "c0");
		cancels[i]->target = sale->object_id;
		expect_error((world_run(w, cancels[i]), &cancels[i]->verdict), LU_OK);
	}
	world_batch(w, cancels, 1);
	assert_true(cancels[0]->verdict.replayed);
	assert_int_equal(cancels[0]->verdict.checkout->lines[0].cancelled, 1);
	world_batch(w, cancels + 1, 1);
	assert_int_equal(cancels[1]->verdict.checkout->lines[0].cancelled, 2);
	expect_figures(w, 'A', 10, 0);
}

/* --- speed -------------------------------------------------------------------------------------------------------- */

/* Not a judge, a number to look at: the decision must not be what a hot SKU waits for. */
static void a_full_batch_on_one_sku_is_decided_at_once(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 1000000);
	struct operation *ops[LU_BATCH_OPERATIONS_MAX];
	for (size_t i = 0; i < LU_BATCH_OPERATIONS_MAX; i++) {
		ops[i] = keyed(w, OPERATION_CHECKOUT, world_web, "A1",
		               arena_printf(w->arena, "%016llx", (long long)random_u64()).data);
		assert_int_equal(world_prepare(w, ops[i]), LU_OK);
	}
	struct arena arena;
	arena_init(&arena, 1 << 20);
	int64_t best_ns = INT64_MAX;
	for (int i = 0; i < 100; i++) {
		struct timespec from, to;
		arena_reset(&arena);
		struct decision_input input = {.arena = &arena,
		                               .now_us = w->now_us,
		                               .skus = &w->skus[0].row,
		                               .sku_count = 1,
		                               .operations = ops,
		                               .operation_count = LU_BATCH_OPERATIONS_MAX};
		clock_gettime(CLOCK_MONOTONIC, &from);
		struct decision d = decide(&input);
		clock_gettime(CLOCK_MONOTONIC, &to);
		assert_int_equal(d.entry_count, LU_BATCH_OPERATIONS_MAX);
		assert_int_equal(d.answer_count, LU_BATCH_OPERATIONS_MAX);
		int64_t ns = (to.tv_sec - from.tv_sec) * INT64_C(1000000000) + to.tv_nsec - from.tv_nsec;
		best_ns = ns < best_ns ? ns : best_ns;
	}
	print_message("[          ] 256 carts on one SKU, each with its key: %lld us\n", (long long)(best_ns / 1000));
	arena_done(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(b01_last_unit_goes_to_one_cart_of_sixty),
		CASE(b01_last_unit_is_held_once_then_committed),
		CASE(b03_no_update_is_lost),
		CASE(b04_a_sku_without_any_row_yet_is_held_once),
		CASE(b05_the_second_hold_sees_the_first),
		CASE(b06_twin_lines_are_summed),
		CASE(b06_own_hold_of_twin_lines_cannot_be_raised_beyond_stock),
		CASE(b06_unmerged_twins_are_a_bug),
		CASE(b07_counter_never_drifts_from_its_holds),
		CASE(b08_a_losing_cart_leaves_nothing),
		CASE(b10_a_count_believed_too_long_ago_is_refused),
		CASE(b11_every_pair_of_outflows_takes_the_units_once),
		CASE(b12_held_units_are_not_for_sale_at_the_counter),
		CASE(b14_a_refused_cart_names_every_short_line_and_changes_none),
		CASE(a_key_has_one_effect_and_one_answer),
		CASE(twins_of_a_key_in_one_batch_have_one_effect),
		CASE(b49_a_key_belongs_to_its_principal),
		CASE(b50_a_refusal_is_replayed_though_stock_has_come),
		CASE(keys_that_share_a_beginning_are_kept_apart_and_in_order),
		CASE(a_replay_shows_the_object_as_it_was),
		CASE(a_full_batch_on_one_sku_is_decided_at_once),
	};
	return cmocka_run_group_tests_name("decide", tests, NULL, NULL);
}
