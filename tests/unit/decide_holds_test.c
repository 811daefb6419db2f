/* The decision about holds, case by case: stuck, due, replaced, released twice, and how long each lives. */
#include "unit/decide_cases.h"

/* --- B. stuck, expired or double-released reservations ------------------------------------------------------------ */

static void b15_a_late_payment_does_not_take_anothers_unit(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 1);
	struct uuid ra = hold(w, world_web, "A1", 1)->object_id;
	pass_time(w, 1);
	struct uuid rb = hold(w, world_pos, "A1", 60)->object_id; /* it expires the due one itself */
	assert_int_equal(state_of(w, ra), RESERVATION_EXPIRED);
	expect_error(by_id(w, OPERATION_COMMIT, world_web, ra), LU_RESERVATION_EXPIRED);
	expect_figures(w, 'A', 1, 1);
	expect_error(by_id(w, OPERATION_COMMIT, world_pos, rb), LU_OK);
	expect_error(by_id(w, OPERATION_COMMIT, world_web, ra), LU_RESERVATION_EXPIRED);
	expect_error(by_id(w, OPERATION_RELEASE, world_web, ra), LU_OK);
	expect_figures(w, 'A', 0, 0);
	expect_ledger(w, 'A', "reserve 0 +1, expire 0 -1, reserve 0 +1, commit -1 -1");
}

static void b16_an_ended_hold_never_comes_back(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 2);
	struct uuid r = hold(w, world_web, "A2", 0)->object_id;
	expect_error(by_id(w, OPERATION_RELEASE, world_web, r), LU_OK);
	expect_error(sell(w, world_pos, "A1"), LU_OK);
	expect_error(by_id(w, OPERATION_COMMIT, world_web, r), LU_RESERVATION_NOT_ACTIVE);
	expect_error(by_id(w, OPERATION_EXTEND, world_web, r), LU_RESERVATION_NOT_ACTIVE);
	expect_error(replace(w, world_web, "A1", r), LU_RESERVATION_NOT_ACTIVE);
	expect_error(hold(w, world_web, "A2", 0), LU_INSUFFICIENT_STOCK);
	expect_error(hold(w, world_web, "A1", 0), LU_OK);
	expect_figures(w, 'A', 1, 1);
}

static void b18_commit_again_is_the_same_sale_and_release_comes_too_late(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 100);
	struct uuid r = hold(w, world_web, "A5", 0)->object_id;
	struct verdict *first = by_id(w, OPERATION_COMMIT, world_web, r);
	expect_error(first, LU_OK);
	expect_error(by_id(w, OPERATION_RELEASE, world_web, r), LU_RESERVATION_NOT_ACTIVE);
	for (int i = 0; i < 3; i++) {
		struct verdict *again = by_id(w, OPERATION_COMMIT, world_web, r);
		expect_error(again, LU_OK);
		assert_memory_equal(&again->object_id, &first->object_id, sizeof first->object_id);
		assert_int_equal(again->checkout->lines[0].quantity, 5);
		assert_memory_equal(&again->checkout->reservation_id, &r, sizeof r);
	}
	expect_figures(w, 'A', 95, 0);
	adjust(w, 'A', 5);
	expect_figures(w, 'A', 100, 0);
	expect_ledger(w, 'A', "reserve 0 +5, commit -5 -5, adjust +5 0");
}

static void b18_two_commits_in_one_batch_are_one_sale(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 5);
	struct uuid r = hold(w, world_web, "A2", 0)->object_id;
	struct operation *ops[] = {named(w, OPERATION_COMMIT, world_web, r), named(w, OPERATION_COMMIT, world_web, r),
	                           named(w, OPERATION_RELEASE, world_web, r), named(w, OPERATION_EXPIRE, world_pos, r)};
	world_batch(w, ops, 4);
	expect_error(&ops[1]->verdict, LU_OK);
	assert_memory_equal(&ops[0]->verdict.object_id, &ops[1]->verdict.object_id, sizeof(struct uuid));
	expect_error(&ops[2]->verdict, LU_RESERVATION_NOT_ACTIVE);
	expect_error(&ops[3]->verdict, LU_OK);
	expect_figures(w, 'A', 3, 0);
	assert_int_equal(w->sale_count, 1);
}

static void b19_release_gives_back_exactly_what_is_held(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 100);
	world_sku(w, 'B', 100);
	struct uuid r = hold(w, world_web, "A10 B10", 0)->object_id;
	expect_error(by_id(w, OPERATION_RELEASE, world_web, r), LU_OK);
	expect_error(by_id(w, OPERATION_RELEASE, world_web, r), LU_OK);
	expect_figures(w, 'A', 100, 0);
	expect_figures(w, 'B', 100, 0);
	expect_ledger(w, 'B', "reserve 0 +10, release 0 -10");
}

static void b21_units_of_a_due_hold_are_for_sale_at_once(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 10);
	struct uuid old = hold(w, world_web, "A10", 60)->object_id;
	pass_time(w, 62);
	struct operation *op = cart(w, OPERATION_RESERVE, world_pos, "A10");
	world_batch(w, &op, 1);
	expect_error(&op->verdict, LU_OK);
	assert_int_equal(state_of(w, old), RESERVATION_EXPIRED);
	expect_figures(w, 'A', 10, 10);
	expect_error(by_id(w, OPERATION_COMMIT, world_web, old), LU_RESERVATION_EXPIRED);
	const struct ledger_entry *expire = &w->ledger[1];
	assert_int_equal(expire->channel, CHANNEL_SYSTEM);
	assert_int_equal(expire->principal_id, 0);
	assert_memory_equal(&expire->operation_id, &old, sizeof old);
}

static void b21_only_as_many_due_holds_end_as_the_cart_is_short_of_earliest_first(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 1000);
	struct uuid ids[1000];
	for (int i = 0; i < 1000; i++) /* the later made, the earlier due */
		ids[i] = hold(w, world_web, "A1", 2000 - i)->object_id;
	pass_time(w, 3000);
	w->due_limit = 3; /* asked again and again */
	expect_error(sell(w, world_pos, "A10"), LU_OK);
	expect_figures(w, 'A', 990, 990);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(state_of(w, ids[i]), i >= 990 ? RESERVATION_EXPIRED : RESERVATION_ACTIVE);
	assert_in_range(w->lookups, 2, 4);
}

static void I11_b21_a_cart_is_refused_only_when_no_due_hold_is_left(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 10);
	for (int i = 0; i < 5; i++)
		hold(w, world_web, "A1", 10 + i);
	struct uuid alive = hold(w, world_web, "A5", 600)->object_id;
	pass_time(w, 60);
	w->due_limit = 1;
	struct verdict *refused = sell(w, world_pos, "A6");
	expect_error(refused, LU_INSUFFICIENT_STOCK);
	assert_int_equal(refused->shortages[0].available, 5);
	assert_int_equal(refused->shortages[0].held, 5);
	assert_int_equal(refused->shortages[0].next_release_us, world_hold(w, alive)->row.expires_us);
	expect_figures(w, 'A', 10, 5); /* what was due has expired all the same */
	expect_error(sell(w, world_pos, "A5"), LU_OK);
}

static void b21_a_due_hold_expires_under_all_its_locks_only(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 1);
	world_sku(w, 'B', 5);
	world_sku(w, 'C', 5);
	hold(w, world_web, "A1 B2 C3", 10);
	pass_time(w, 10);
	expect_error(sell(w, world_pos, "A1"), LU_OK);
	assert_int_equal(w->relocks, 1); /* B and C asked for together */
	expect_figures(w, 'A', 0, 0);
	expect_figures(w, 'B', 5, 0);
	expect_figures(w, 'C', 5, 0);
}

static void b21_needs_of_a_whole_batch_are_asked_for_at_once(void **state)
{
	struct world *w = *state;
	struct operation *ops[6];
	for (int i = 0; i < 6; i++) {
		world_sku(w, (char)('A' + i), 1);
		hold(w, world_web, (char[]){(char)('A' + i), '1', 0}, 10);
	}
	pass_time(w, 10);
	for (int i = 0; i < 6; i++)
		ops[i] = cart(w, i % 2 ? OPERATION_RESERVE : OPERATION_CHECKOUT, world_pos, (char[]){(char)('A' + i), '1', 0});
	world_batch(w, ops, 6);
	for (int i = 0; i < 6; i++)
		expect_error(&ops[i]->verdict, LU_OK);
	assert_int_equal(w->lookups, 1);
}

static void b21_no_more_expires_than_needed_when_one_hold_frees_two_lines(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 2);
	world_sku(w, 'B', 1);
	struct uuid both = hold(w, world_web, "A1 B1", 10)->object_id;
	struct uuid one = hold(w, world_web, "A1", 11)->object_id;
	pass_time(w, 20);
	expect_error(sell(w, world_pos, "A1 B1"), LU_OK);
	assert_int_equal(state_of(w, both), RESERVATION_EXPIRED);
	assert_int_equal(state_of(w, one), RESERVATION_ACTIVE);
	expect_figures(w, 'A', 1, 1);
}

static void b21_a_hold_that_ends_for_one_line_serves_the_other_too(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 2);
	world_sku(w, 'B', 1);
	hold(w, world_web, "A1 B1", 10);
	hold(w, world_web, "A1", 3600);
	pass_time(w, 20);
	expect_error(sell(w, world_pos, "A1 B1"), LU_OK);
	expect_figures(w, 'A', 1, 1);
	expect_figures(w, 'B', 0, 0);
}

static void I11_b22_the_time_read_after_the_locks_decides(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 1);
	struct uuid r = hold(w, world_web, "A1", 60)->object_id;
	struct operation *commit = named(w, OPERATION_COMMIT, world_web, r); /* sent in time… */
	struct operation *expire = named(w, OPERATION_EXPIRE, world_pos, r);
	pass_time(w, 60); /* …but the lock came at the very end */
	struct operation *ops[] = {commit, expire};
	world_batch(w, ops, 2);
	expect_error(&commit->verdict, LU_RESERVATION_EXPIRED);
	expect_error(&expire->verdict, LU_OK);
	expect_figures(w, 'A', 1, 0);
	expect_ledger(w, 'A', "reserve 0 +1, expire 0 -1");
}

static void b22_one_microsecond_earlier_is_in_time(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 1);
	struct uuid r = hold(w, world_web, "A1", 60)->object_id;
	w->now_us += 60 * WORLD_SECOND - 1;
	expect_error(by_id(w, OPERATION_EXPIRE, world_pos, r), LU_OK); /* not due: nothing happens */
	assert_int_equal(state_of(w, r), RESERVATION_ACTIVE);
	expect_error(by_id(w, OPERATION_COMMIT, world_web, r), LU_OK);
	expect_figures(w, 'A', 0, 0);
}

static void b23_a_clock_that_steps_back_revives_nothing(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 1);
	struct uuid r = hold(w, world_web, "A1", 60)->object_id;
	assert_int_equal(world_hold(w, r)->row.expires_us, w->now_us + 60 * WORLD_SECOND);
	pass_time(w, 60);
	expect_error(by_id(w, OPERATION_EXPIRE, world_pos, r), LU_OK);
	pass_time(w, -50);
	expect_error(by_id(w, OPERATION_COMMIT, world_web, r), LU_RESERVATION_EXPIRED);
	expect_error(by_id(w, OPERATION_EXTEND, world_web, r), LU_RESERVATION_EXPIRED);
	expect_figures(w, 'A', 1, 0);
}

static void b25_own_units_do_not_block_their_owner(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 4);
	struct uuid r = hold(w, world_web, "A4", 0)->object_id;
	struct verdict *v = replace(w, world_web, "A4", r);
	expect_error(v, LU_OK);
	assert_int_equal(state_of(w, r), RESERVATION_RELEASED);
	expect_figures(w, 'A', 4, 4);
	r = v->object_id;
	v = replace(w, world_web, "A3", r);
	expect_error(v, LU_OK);
	expect_figures(w, 'A', 4, 3);
	r = v->object_id;
	v = replace(w, world_web, "A5", r);
	expect_error(v, LU_INSUFFICIENT_STOCK);
	assert_int_equal(v->shortages[0].available, 4); /* with those it holds itself */
	assert_int_equal(v->shortages[0].held, 0);      /* by others */
	expect_figures(w, 'A', 4, 3);
	assert_int_equal(state_of(w, r), RESERVATION_ACTIVE);
	expect_ledger(w, 'A', "reserve 0 +4, release 0 -4, reserve 0 +4, release 0 -4, reserve 0 +3");
	assert_int_equal(w->lookups, 0); /* only own units are held: there is nothing to look up */
}

static void b25_own_units_count_before_anothers_due_hold_ends(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 10);
	struct uuid others[3];
	for (int i = 0; i < 3; i++)
		others[i] = hold(w, world_pos, "A1", 10 + i)->object_id;
	struct uuid own = hold(w, world_web, "A4", 600)->object_id;
	pass_time(w, 60);
	expect_error(replace(w, world_web, "A8", own), LU_OK); /* 3 free, 4 own: short of one */
	assert_int_equal(state_of(w, others[0]), RESERVATION_EXPIRED);
	assert_int_equal(state_of(w, others[1]), RESERVATION_ACTIVE);
	expect_figures(w, 'A', 10, 10);
}

static void b25_a_checkout_that_releases_sells_the_held_unit(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 1);
	world_sku(w, 'B', 3);
	struct uuid r = hold(w, world_telegram, "A1 B2", 0)->object_id;
	struct operation *op = world_operation(w, OPERATION_CHECKOUT, world_site, "A1 B3"); /* hold there, pay here */
	op->other = r;
	op->reference = TEXT("order 9");
	expect_error((world_run(w, op), &op->verdict), LU_OK);
	expect_figures(w, 'A', 0, 0);
	expect_figures(w, 'B', 0, 0);
	assert_int_equal(state_of(w, r), RESERVATION_RELEASED);
	expect_ledger(w, 'A', "reserve 0 +1, release 0 -1, sale -1 0");
	assert_true(uuid_is_nil(&op->verdict.checkout->reservation_id));
	assert_int_equal(op->verdict.checkout->lines[0].version, 4);
	assert_memory_equal(op->verdict.checkout->reference.data, "order 9", 7);
}

static void b25_a_replaced_due_hold_is_expired_though_the_cart_is_refused(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 4);
	struct uuid r = hold(w, world_web, "A4", 10)->object_id;
	pass_time(w, 10);
	expect_error(replace(w, world_web, "A4", r), LU_RESERVATION_EXPIRED);
	assert_int_equal(state_of(w, r), RESERVATION_EXPIRED);
	expect_figures(w, 'A', 4, 0);
	expect_error(replace(w, world_web, "A4", r), LU_RESERVATION_EXPIRED);
}

static void b25_anothers_hold_does_not_exist_without_orders(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 4);
	struct uuid r = hold(w, world_telegram, "A4", 0)->object_id;
	expect_error(replace(w, world_web, "A4", r), LU_UNKNOWN_RESERVATION);
	expect_error(by_id(w, OPERATION_COMMIT, world_web, r), LU_UNKNOWN_RESERVATION);
	expect_error(by_id(w, OPERATION_RELEASE, world_web, r), LU_UNKNOWN_RESERVATION);
	expect_error(by_id(w, OPERATION_EXTEND, world_web, r), LU_UNKNOWN_RESERVATION);
	expect_figures(w, 'A', 4, 4);
	struct verdict *sold = by_id(w, OPERATION_COMMIT, world_site, r);
	expect_error(sold, LU_OK);
	expect_error(by_id(w, OPERATION_CANCEL, world_web, sold->object_id), LU_UNKNOWN_CHECKOUT);
	expect_error(by_id(w, OPERATION_CANCEL, world_site, sold->object_id), LU_OK);
	expect_figures(w, 'A', 4, 0);
}

static void b27_a_correction_stops_at_what_is_held(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 10);
	struct uuid r = hold(w, world_web, "A6", 0)->object_id;
	struct verdict *refused = set(w, 'A', 5, -1);
	expect_error(refused, LU_INSUFFICIENT_STOCK);
	assert_int_equal(refused->shortages[0].requested, 5);
	assert_int_equal(refused->shortages[0].available, 4);
	assert_int_equal(refused->shortages[0].held, 6);
	expect_error(adjust(w, 'A', -5), LU_INSUFFICIENT_STOCK);
	expect_error(set(w, 'A', 6, -1), LU_OK);
	expect_figures(w, 'A', 6, 6);
	expect_error(by_id(w, OPERATION_RELEASE, world_web, r), LU_OK);
	expect_figures(w, 'A', 6, 0);
	expect_error(adjust(w, 'A', -6), LU_OK);
	expect_error(adjust(w, 'A', -1), LU_INSUFFICIENT_STOCK);
}

static void b27_due_holds_make_room_for_a_correction(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 10);
	hold(w, world_web, "A6", 10);
	struct uuid second = hold(w, world_web, "A1", 20)->object_id;
	pass_time(w, 60);
	expect_error(set(w, 'A', 2, 10), LU_OK);
	expect_figures(w, 'A', 2, 1);
	assert_int_equal(state_of(w, second), RESERVATION_ACTIVE);
}

/* A hold that disagrees with its row: the row says less is reserved. It fails alone. */
static void b28_a_damaged_hold_stops_nobody_else(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 10);
	struct uuid bad = hold(w, world_web, "A3", 10)->object_id, good = hold(w, world_web, "A4", 20)->object_id;
	pass_time(w, 60);
	struct arena arena;
	arena_init(&arena, 4096);
	struct operation *expire = named(w, OPERATION_EXPIRE, world_pos, bad);
	struct operation *sale = cart(w, OPERATION_CHECKOUT, world_pos, "A10");
	struct operation *commit = named(w, OPERATION_COMMIT, world_web, bad);
	struct operation *release = named(w, OPERATION_RELEASE, world_web, bad);
	struct operation *ops[] = {expire, sale, commit, release};
	struct reservation *rows[2] = {&world_hold(w, bad)->row, &world_hold(w, good)->row};
	rows[0]->lines[0].quantity = 5;
	struct locked_sku sku = w->skus[0].row;
	sku.figures.reserved = 4;
	sku.holds_known = true;
	struct decision_input input = {.arena = &arena,
	                               .now_us = w->now_us,
	                               .skus = &sku,
	                               .sku_count = 1,
	                               .reservations = rows,
	                               .reservation_count = 2,
	                               .due = rows,
	                               .due_count = 2,
	                               .operations = ops,
	                               .operation_count = 4};
	struct decision d = decide(&input);
	assert_int_equal(d.result, DECISION_MADE);
	expect_error(&expire->verdict, LU_INTERNAL);
	expect_error(&sale->verdict, LU_OK);
	expect_error(&commit->verdict, LU_INTERNAL);
	expect_error(&release->verdict, LU_INTERNAL);
	assert_int_equal(d.reservation_change_count, 1);
	assert_memory_equal(&d.reservation_changes[0].reservation->id, &good, sizeof good);
	assert_int_equal(d.expired_count, 1);
	arena_done(&arena);
}

/* The row says that less is reserved than the holds add up to. The hold to be replaced fits it, until a due one that the
 * cart expires on its way has taken what was left. */
static void b28_a_hold_that_no_longer_fits_is_not_replaced(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 10);
	struct uuid old = hold(w, world_web, "A3", 600)->object_id, due = hold(w, world_web, "A5", 10)->object_id;
	pass_time(w, 60);
	struct arena arena;
	arena_init(&arena, 4096);
	struct operation *again = world_operation(w, OPERATION_RESERVE, world_web, "A10");
	again->other = old;
	assert_int_equal(world_prepare(w, again), LU_OK);
	struct reservation *rows[2] = {&world_hold(w, old)->row, &world_hold(w, due)->row};
	struct locked_sku sku = w->skus[0].row;
	sku.figures.reserved = 5;
	sku.holds_known = true;
	struct decision_input input = {.arena = &arena,
	                               .now_us = w->now_us,
	                               .skus = &sku,
	                               .sku_count = 1,
	                               .reservations = rows,
	                               .reservation_count = 2,
	                               .due = rows + 1,
	                               .due_count = 1,
	                               .operations = &again,
	                               .operation_count = 1};
	struct decision d = decide(&input);
	assert_int_equal(d.result, DECISION_MADE);
	expect_error(&again->verdict, LU_INTERNAL);
	assert_int_equal(d.expired_count, 1);
	assert_int_equal(d.new_reservation_count, 0);
	assert_int_equal(d.reservation_change_count, 1);
	assert_memory_equal(&d.reservation_changes[0].reservation->id, &due, sizeof due);
	arena_done(&arena);
}

/* A hold whose lines nobody can read (lines_get): it neither sells nor frees anything. */
static void b28_a_hold_without_its_lines_stops_nobody_else(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 10);
	struct uuid bad = hold(w, world_web, "A3", 600)->object_id, due = hold(w, world_web, "A1", 10)->object_id;
	pass_time(w, 60);
	struct arena arena;
	arena_init(&arena, 4096);
	struct operation *ops[] = {named(w, OPERATION_COMMIT, world_web, bad), named(w, OPERATION_RELEASE, world_web, bad),
	                           named(w, OPERATION_EXTEND, world_web, bad), named(w, OPERATION_EXPIRE, world_pos, due),
	                           cart(w, OPERATION_CHECKOUT, world_pos, "A6")};
	struct reservation *rows[2] = {&world_hold(w, bad)->row, &world_hold(w, due)->row};
	rows[0]->line_count = rows[1]->line_count = 0;
	struct locked_sku sku = w->skus[0].row;
	sku.holds_known = true;
	struct decision_input input = {.arena = &arena,
	                               .now_us = w->now_us,
	                               .skus = &sku,
	                               .sku_count = 1,
	                               .reservations = rows,
	                               .reservation_count = 2,
	                               .due = rows + 1,
	                               .due_count = 1,
	                               .operations = ops,
	                               .operation_count = 5};
	struct decision d = decide(&input);
	assert_int_equal(d.result, DECISION_MADE);
	for (int i = 0; i < 4; i++)
		expect_error(&ops[i]->verdict, LU_INTERNAL);
	expect_error(&ops[4]->verdict, LU_OK);
	assert_int_equal(d.reservation_change_count, 0);
	assert_int_equal(d.expired_count, 0);
	rows[0]->line_count = rows[1]->line_count = 1;
	arena_done(&arena);
}

static void b30_time_to_live_has_bounds_and_a_hold_a_longest_life(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 100);
	const int64_t wrong[] = {-1, LU_TTL_SECONDS_MAX + 1, 1000000000, INT64_MAX, INT64_MIN};
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
		expect_error(hold(w, world_web, "A1", wrong[i]), LU_INVALID_TTL);
	expect_figures(w, 'A', 100, 0);
	struct uuid r = hold(w, world_web, "A1", LU_TTL_SECONDS_MAX)->object_id;
	int64_t created_us = w->now_us;
	for (int day = 1; day < 7; day++) {
		pass_time(w, 86400 - 1);
		struct operation *extend = world_operation(w, OPERATION_EXTEND, world_web, NULL);
		extend->target = r;
		extend->ttl_s = 86400;
		expect_error((world_run(w, extend), &extend->verdict), LU_OK);
	}
	assert_int_equal(world_hold(w, r)->row.expires_us, created_us + INT64_C(1000000) * (7 * 86400 - 6));
	pass_time(w, 7);
	struct operation *last = world_operation(w, OPERATION_EXTEND, world_web, NULL);
	last->target = r;
	last->ttl_s = 86400;
	expect_error((world_run(w, last), &last->verdict), LU_INVALID_TTL);
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		struct operation *extend = world_operation(w, OPERATION_EXTEND, world_web, NULL);
		extend->target = r;
		extend->ttl_s = wrong[i];
		expect_error((world_run(w, extend), &extend->verdict), LU_INVALID_TTL);
	}
	expect_figures(w, 'A', 100, 1);
}

/* --- extend and the defaults -------------------------------------------------------------------------------------- */

static void extend_never_shortens_and_writes_no_entry(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 1);
	struct uuid r = hold(w, world_web, "A1", 1000)->object_id;
	int64_t expires_us = world_hold(w, r)->row.expires_us;
	struct verdict *v = by_id(w, OPERATION_EXTEND, world_web, r); /* 900 s, the channel's own */
	expect_error(v, LU_OK);
	assert_int_equal(v->reservation->expires_us, expires_us);
	pass_time(w, 200);
	v = by_id(w, OPERATION_EXTEND, world_web, r);
	assert_int_equal(v->reservation->expires_us, expires_us + 100 * WORLD_SECOND);
	assert_int_equal(world_hold(w, r)->row.expires_us, expires_us + 100 * WORLD_SECOND);
	assert_int_equal(world_figures(w, 'A')->version, 2);
	pass_time(w, 900);
	expect_error(by_id(w, OPERATION_EXTEND, world_web, r), LU_RESERVATION_EXPIRED);
	expect_figures(w, 'A', 1, 0);
}

static void each_channel_has_its_own_time_to_live(void **state)
{
	(void)state;
	assert_int_equal(channel_ttl_s(CHANNEL_WEB), 900);
	assert_int_equal(channel_ttl_s(CHANNEL_TELEGRAM), 900);
	assert_int_equal(channel_ttl_s(CHANNEL_AGENT), 600);
	assert_int_equal(channel_ttl_s(CHANNEL_VOICE), 300);
	assert_int_equal(channel_ttl_s(CHANNEL_MARKETPLACE), 1800);
	assert_int_equal(channel_ttl_s(CHANNEL_POS), 300);
	struct world *w = world_new();
	world_sku(w, 'A', 9);
	assert_int_equal(hold(w, world_agent, "A1", 0)->reservation->expires_us, w->now_us + 600 * WORLD_SECOND);
	world_free(w);
}

static void release_of_a_due_hold_is_its_expiry(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 1);
	struct uuid r = hold(w, world_web, "A1", 10)->object_id;
	pass_time(w, 11);
	struct verdict *v = by_id(w, OPERATION_RELEASE, world_web, r);
	expect_error(v, LU_OK);
	assert_int_equal(v->reservation->state, RESERVATION_EXPIRED);
	expect_ledger(w, 'A', "reserve 0 +1, expire 0 -1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(b15_a_late_payment_does_not_take_anothers_unit),
		CASE(b16_an_ended_hold_never_comes_back),
		CASE(b18_commit_again_is_the_same_sale_and_release_comes_too_late),
		CASE(b18_two_commits_in_one_batch_are_one_sale),
		CASE(b19_release_gives_back_exactly_what_is_held),
		CASE(b21_units_of_a_due_hold_are_for_sale_at_once),
		CASE(b21_only_as_many_due_holds_end_as_the_cart_is_short_of_earliest_first),
		CASE(I11_b21_a_cart_is_refused_only_when_no_due_hold_is_left),
		CASE(b21_a_due_hold_expires_under_all_its_locks_only),
		CASE(b21_needs_of_a_whole_batch_are_asked_for_at_once),
		CASE(b21_no_more_expires_than_needed_when_one_hold_frees_two_lines),
		CASE(b21_a_hold_that_ends_for_one_line_serves_the_other_too),
		CASE(I11_b22_the_time_read_after_the_locks_decides),
		CASE(b22_one_microsecond_earlier_is_in_time),
		CASE(b23_a_clock_that_steps_back_revives_nothing),
		CASE(b25_own_units_do_not_block_their_owner),
		CASE(b25_own_units_count_before_anothers_due_hold_ends),
		CASE(b25_a_checkout_that_releases_sells_the_held_unit),
		CASE(b25_a_replaced_due_hold_is_expired_though_the_cart_is_refused),
		CASE(b25_anothers_hold_does_not_exist_without_orders),
		CASE(b27_a_correction_stops_at_what_is_held),
		CASE(b27_due_holds_make_room_for_a_correction),
		CASE(b28_a_damaged_hold_stops_nobody_else),
		CASE(b28_a_hold_that_no_longer_fits_is_not_replaced),
		CASE(b28_a_hold_without_its_lines_stops_nobody_else),
		CASE(b30_time_to_live_has_bounds_and_a_hold_a_longest_life),
		CASE(extend_never_shortens_and_writes_no_entry),
		CASE(each_channel_has_its_own_time_to_live),
		CASE(release_of_a_due_hold_is_its_expiry),
	};
	return cmocka_run_group_tests_name("decide holds", tests, NULL, NULL);
}
