/* The decision on a marketplace's orders: whatever order its messages come in, the highest version is on the books, each
 * unit once (B56). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/id.h"
#include "base/text.h"
#include "lib/world.h"

#define bazaar world_pos /* any principal without settings */

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

/* "A2 B1": what the order has; "" a tombstone. */
static void expect_lines(const struct order *o, const char *lines)
{
	char seen[100] = "";
	assert_non_null(o);
	for (size_t i = 0; i < o->line_count; i++)
		snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%s%c%lld", i ? " " : "", o->lines[i].sku.data[0],
		         (long long)o->lines[i].quantity);
	assert_string_equal(seen, lines);
}

static void expect_shown(const struct verdict *verdict, int64_t version, const char *lines)
{
	expect_error(verdict, LU_OK);
	assert_non_null(verdict->order);
	assert_int_equal(verdict->order->version, version);
	expect_lines(verdict->order, lines);
}

static struct operation *put(struct world *w, struct principal principal, const char *number, int64_t version,
                             const char *lines)
{
	struct operation *op = world_operation(w, OPERATION_ORDER_PUT, principal, lines);
	op->number = text_of(number);
	op->order_version = version;
	return op;
}

static void b56_a_cancellation_that_comes_first_leaves_a_tombstone(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 10);
	expect_shown(order(w, bazaar, "O", 2, NULL), 2, "");
	expect_shown(order(w, bazaar, "O", 1, "A2"), 2, "");
	expect_shown(order(w, bazaar, "O", 1, "A2"), 2, "");
	expect_shown(order(w, bazaar, "O", 2, NULL), 2, "");
	expect_figures(w, 'A', 10, 0);
	assert_int_equal(w->ledger_count, 0);
}

static void b56_an_older_version_changes_nothing_and_is_shown_what_stands(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 10);
	expect_shown(order(w, bazaar, "O", 3, "A3"), 3, "A3");
	expect_shown(order(w, bazaar, "O", 2, "A1"), 3, "A3");
	expect_figures(w, 'A', 7, 0);
	/* Not even looked at: neither what it names nor whether there is enough of it. */
	expect_shown(order(w, bazaar, "O", 1, "X5 A99"), 3, "A3");
}

/* Every order of arrival of four versions, each sent twice. */
static void b56_the_highest_version_stands_whatever_came_when(void **state)
{
	static const char *const versions[] = {"A2", "A1 B3", "", "A3 C1"};
	int order_of[8], tried = 0;
	(void)state;
	for (int code = 0; code < 8 * 7 * 6 * 5 * 4 * 3 * 2; code++) {
		int left[8] = {0, 0, 1, 1, 2, 2, 3, 3}, rest = code, count = 8;
		for (int i = 0; i < 8; i++) {
			int pick = rest % count;
			rest /= count;
			order_of[i] = left[pick];
			memmove(&left[pick], &left[pick + 1], (size_t)(--count - pick) * sizeof *left);
		}
		if (code % 7) /* a sample of the 40,320, thousands all the same */
			continue;
		struct world *w = world_new();
		world_sku(w, 'A', 3);
		world_sku(w, 'B', 3);
		world_sku(w, 'C', 1);
		for (int i = 0; i < 8; i++)
			expect_error(order(w, bazaar, "O", order_of[i], versions[order_of[i]]), LU_OK);
		expect_lines(world_order(w, bazaar, "O"), "A3 C1");
		expect_figures(w, 'A', 0, 0);
		expect_figures(w, 'B', 3, 0);
		expect_figures(w, 'C', 0, 0);
		world_free(w);
		tried++;
	}
	assert_true(tried > 5000);
}

static void a_new_version_moves_the_difference_only(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 10);
	world_sku(w, 'B', 10);
	world_sku(w, 'C', 10);
	struct verdict *first = order(w, bazaar, "O", 1, "A5 B2");
	expect_shown(first, 1, "A5 B2");
	struct verdict *second = order(w, bazaar, "O", 7, "A3 C4");
	expect_shown(second, 7, "A3 C4");
	assert_true(uuid_equal(&first->object_id, &second->object_id)); /* one number, one id in the ledger */
	expect_shown(order(w, bazaar, "O", 8, "A3 C4"), 8, "A3 C4");    /* another version, the same lines */
	assert_string_equal(world_ledger(w, 'A').data, "sale -5 0, cancel +2 0");
	assert_string_equal(world_ledger(w, 'B').data, "sale -2 0, cancel +2 0");
	assert_string_equal(world_ledger(w, 'C').data, "sale -4 0");
	assert_true(w->relocks > 0); /* B was in no line of the second: its lock was asked for */
	expect_shown(order(w, bazaar, "O", 9, NULL), 9, "");
	expect_figures(w, 'A', 10, 0);
	expect_figures(w, 'C', 10, 0);
	expect_shown(order(w, bazaar, "O", 10, "A1"), 10, "A1"); /* a higher version lifts a tombstone, too */
	expect_figures(w, 'A', 9, 0);
}

static void a_version_is_taken_whole_or_not_at_all(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 5);
	world_sku(w, 'B', 2);
	world_sku(w, 'C', 9);
	expect_error(order(w, bazaar, "O", 1, "A2 C4"), LU_OK);
	struct verdict *refused = order(w, bazaar, "O", 2, "A6 B3 C1");
	expect_error(refused, LU_INSUFFICIENT_STOCK);
	assert_int_equal(refused->shortage_count, 2); /* the lines to cancel, and to which quantity */
	assert_int_equal(refused->shortages[0].requested, 6);
	assert_int_equal(refused->shortages[0].available, 5); /* the 2 it has and the 3 that are left */
	assert_int_equal(refused->shortages[1].requested, 3);
	assert_int_equal(refused->shortages[1].available, 2);
	expect_lines(world_order(w, bazaar, "O"), "A2 C4");
	expect_figures(w, 'A', 3, 0);
	expect_figures(w, 'C', 5, 0);
	/* It left no trace: the same version comes again, with what there is. */
	expect_shown(order(w, bazaar, "O", 2, "A5 B2 C1"), 2, "A5 B2 C1");
	expect_figures(w, 'A', 0, 0);
	expect_figures(w, 'C', 8, 0);
}

static void a_refused_first_version_is_no_order(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 1);
	expect_error(order(w, bazaar, "O", 1, "A2"), LU_INSUFFICIENT_STOCK);
	struct verdict *unknown = order(w, bazaar, "O", 1, "A1 X1 Y2");
	expect_error(unknown, LU_UNKNOWN_SKU);
	assert_int_equal(unknown->shortage_count, 2);
	assert_null(world_order(w, bazaar, "O"));
	expect_shown(order(w, bazaar, "O", 0, "A1"), 0, "A1");
}

static void one_version_has_one_content(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 10);
	world_sku(w, 'B', 10);
	expect_error(order(w, bazaar, "O", 4, "A2 B1"), LU_OK);
	static const char *const others[] = {"A2", "A2 B2", "A2 B1 A1", "", "B3", "A1 B1"};
	for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
		expect_error(order(w, bazaar, "O", 4, others[i]), LU_ORDER_VERSION_CONFLICT);
	expect_shown(order(w, bazaar, "O", 4, "B1 A1 A1"), 4, "A2 B1"); /* spelled otherwise, the same */
	expect_figures(w, 'A', 8, 0);
}

static void each_principal_has_its_own_numbers(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 10);
	expect_shown(order(w, bazaar, "O", 5, "A2"), 5, "A2");
	expect_shown(order(w, world_site, "O", 1, "A1"), 1, "A1"); /* whatever its scopes */
	expect_shown(order(w, bazaar, "o", 1, "A1"), 1, "A1");
	expect_figures(w, 'A', 6, 0);
}

static void versions_of_one_batch_follow_each_other(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 4);
	world_sku(w, 'B', 4);
	struct operation *ops[] = {put(w, bazaar, "O", 2, "A3"), put(w, bazaar, "O", 1, "A1"),
	                           put(w, bazaar, "P", 1, "A2"), put(w, bazaar, "O", 3, "A1 B1"),
	                           put(w, bazaar, "P", 1, "A2"), put(w, bazaar, "O", 3, "A1 B1"),
	                           put(w, bazaar, "O", 3, NULL)};
	static const enum lu_error expected[] = {LU_OK, LU_OK, LU_INSUFFICIENT_STOCK,    LU_OK,
	                                         LU_OK, LU_OK, LU_ORDER_VERSION_CONFLICT};
	for (size_t i = 0; i < 7; i++)
		assert_int_equal(world_prepare(w, ops[i]), LU_OK);
	world_batch(w, ops, 7);
	for (size_t i = 0; i < 7; i++)
		expect_error(&ops[i]->verdict, expected[i]);
	expect_shown(&ops[1]->verdict, 2, "A3"); /* each is shown what stood then */
	expect_shown(&ops[5]->verdict, 3, "A1 B1");
	expect_lines(world_order(w, bazaar, "O"), "A1 B1");
	expect_lines(world_order(w, bazaar, "P"), "A2");
	expect_figures(w, 'A', 1, 0);
	/* And on a row that is there already. */
	struct operation *again[] = {put(w, bazaar, "O", 4, NULL), put(w, bazaar, "O", 5, "A2")};
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(world_prepare(w, again[i]), LU_OK);
	world_batch(w, again, 2);
	expect_lines(world_order(w, bazaar, "O"), "A2");
	expect_figures(w, 'A', 0, 0);
	expect_figures(w, 'B', 4, 0);
}

/* New ones are told in the order in which everybody inserts them (world.c looks), and each finds its own row again. */
static void one_batch_keeps_the_numbers_of_principals_apart(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 20);
	struct operation *ops[] = {put(w, world_site, "P", 1, "A1"), put(w, bazaar, "P", 1, "A2"),
	                           put(w, world_site, "O", 1, "A3"), put(w, bazaar, "O", 1, "A4")};
	for (int round = 1; round <= 2; round++) {
		for (size_t i = 0; i < 4; i++) {
			ops[i]->order_version = round;
			assert_int_equal(world_prepare(w, ops[i]), LU_OK);
		}
		world_batch(w, ops, 4);
		for (size_t i = 0; i < 4; i++)
			expect_error(&ops[i]->verdict, LU_OK);
		expect_lines(world_order(w, world_site, "P"), "A1");
		expect_lines(world_order(w, bazaar, "P"), "A2");
		expect_lines(world_order(w, world_site, "O"), "A3");
		expect_lines(world_order(w, bazaar, "O"), "A4");
	}
	expect_figures(w, 'A', 10, 0);
}

static void an_order_obeys_the_settings_of_its_principal(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 5);
	struct verdict *refused = order(w, world_bazaar, "O", 1, "A5"); /* a buffer of 1 */
	expect_error(refused, LU_INSUFFICIENT_STOCK);
	assert_int_equal(refused->shortages[0].available, 4);
	expect_error(order(w, world_bazaar, "O", 1, "A4"), LU_OK);
	refused = order(w, world_bazaar, "O", 2, "A5");
	expect_error(refused, LU_INSUFFICIENT_STOCK);
	assert_int_equal(refused->shortages[0].available, 4);
	/* What it has sold it may always keep, and give back. */
	expect_error(sell(w, world_web, "A1"), LU_OK);
	expect_error(order(w, world_bazaar, "O", 2, "A4"), LU_OK);
	expect_error(order(w, world_bazaar, "O", 3, "A1"), LU_OK);
	expect_figures(w, 'A', 3, 0);
}

static void due_holds_make_room_for_an_order(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 3);
	struct uuid due = hold(w, world_web, "A2", 60)->object_id;
	struct verdict *refused = order(w, bazaar, "O", 1, "A3");
	expect_error(refused, LU_INSUFFICIENT_STOCK);
	assert_int_equal(refused->shortages[0].held, 2);
	assert_true(refused->shortages[0].next_release_us > w->now_us);
	w->now_us += 61 * WORLD_SECOND;
	expect_error(order(w, bazaar, "O", 1, "A3"), LU_OK);
	assert_int_equal(world_hold(w, due)->row.state, RESERVATION_EXPIRED);
	expect_figures(w, 'A', 0, 0);
}

/* Units sold while nobody counted never come back to the count, and those that were counted come back once. */
static void a_line_remembers_which_of_its_units_were_counted(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 10);
	expect_error(order(w, bazaar, "O", 1, "A3"), LU_OK);
	world_figures(w, 'A')->tracked = false;
	expect_error(order(w, bazaar, "O", 2, "A8"), LU_OK);
	assert_int_equal(world_order(w, bazaar, "O")->lines[0].counted, 3);
	expect_figures(w, 'A', 7, 0);
	world_figures(w, 'A')->tracked = true;
	expect_error(order(w, bazaar, "O", 3, "A5"), LU_OK); /* the uncounted leave first */
	expect_figures(w, 'A', 7, 0);
	expect_error(order(w, bazaar, "O", 4, "A6"), LU_OK);
	assert_int_equal(world_order(w, bazaar, "O")->lines[0].counted, 4);
	expect_error(order(w, bazaar, "O", 5, "A2"), LU_OK);
	expect_figures(w, 'A', 8, 0);
	world_figures(w, 'A')->tracked = false;
	expect_error(order(w, bazaar, "O", 6, NULL), LU_OK); /* the line is obeyed, not today's flag */
	expect_figures(w, 'A', 10, 0);
}

static void a_cancellation_cannot_lift_a_count_out_of_its_range(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 2);
	expect_error(order(w, bazaar, "O", 1, "A2"), LU_OK);
	expect_error(adjust(w, 'A', LU_COUNT_MAX), LU_OK);
	expect_beyond(order(w, bazaar, "O", 2, NULL), 'A', 2, LU_COUNT_MAX);
	expect_lines(world_order(w, bazaar, "O"), "A2");
}

static struct verdict *keyed(struct world *w, int64_t version, const char *lines, const char *key)
{
	struct operation *op = put(w, bazaar, "O", version, lines);
	op->key = text_of(key);
	op->client_key = true;
	world_run(w, op);
	return &op->verdict;
}

/* A version is its own key; who sends one all the same has the old answer repeated, as ever. */
static void a_key_repeats_the_order_as_that_answer_showed_it(void **state)
{
	struct world *w = *state;
	world_sku(w, 'A', 5);
	struct verdict *first = keyed(w, 1, "A2", "k1");
	expect_shown(first, 1, "A2");
	w->now_us += WORLD_SECOND;
	expect_shown(keyed(w, 2, NULL, "k2"), 2, "");
	struct verdict *again = keyed(w, 1, "A2", "k1");
	assert_true(again->replayed);
	expect_shown(again, 1, "A2");
	assert_true(uuid_equal(&again->order->id, &first->order->id));
	assert_int_equal(again->order->changed_us, first->order->changed_us);
	assert_int_equal(again->order->channel, first->order->channel);
	assert_memory_equal(again->order->number.data, "O", 2);
	expect_shown(keyed(w, 2, NULL, "k2"), 2, "");
	expect_error(keyed(w, 2, "A2", "k1"), LU_IDEMPOTENCY_CONFLICT); /* the version is part of what was asked */
	expect_error(keyed(w, 3, "A9", "k3"), LU_INSUFFICIENT_STOCK);
	struct verdict *kept = keyed(w, 3, "A9", "k3");
	expect_error(kept, LU_INSUFFICIENT_STOCK);
	assert_true(kept->replayed);
	expect_figures(w, 'A', 5, 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_world, free_world)
	const struct CMUnitTest tests[] = {
		TEST(b56_a_cancellation_that_comes_first_leaves_a_tombstone),
		TEST(b56_an_older_version_changes_nothing_and_is_shown_what_stands),
		TEST(b56_the_highest_version_stands_whatever_came_when),
		TEST(a_new_version_moves_the_difference_only),
		TEST(a_version_is_taken_whole_or_not_at_all),
		TEST(a_refused_first_version_is_no_order),
		TEST(one_version_has_one_content),
		TEST(each_principal_has_its_own_numbers),
		TEST(versions_of_one_batch_follow_each_other),
		TEST(one_batch_keeps_the_numbers_of_principals_apart),
		TEST(an_order_obeys_the_settings_of_its_principal),
		TEST(due_holds_make_room_for_an_order),
		TEST(a_line_remembers_which_of_its_units_were_counted),
		TEST(a_cancellation_cannot_lift_a_count_out_of_its_range),
		TEST(a_key_repeats_the_order_as_that_answer_showed_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
