/* What principals and their callers hold, counted for the caps. */
#include "store/holding.h"
#include "store/rows.h"

static int64_t a, b;

static void give(struct pg *pg, int64_t principal_id, const char *caller, int64_t in_s, int64_t quantity, bool counted)
{
	struct reservation *r = new_reservation((int64_t[]){a, b}, 2, quantity, in_s);
	r->principal_id = principal_id;
	if (caller)
		r->caller = text_of(caller);
	r->lines[0].counted = r->lines[1].counted = counted;
	insert_reservations(pg, &r, 1);
}

static void expect(struct pg *pg, int64_t principal_id, const char *caller, int64_t holds, int64_t units)
{
	struct held held[] = {{a, -1}, {INT64_C(1) << 40, -1}};
	struct holdings of = {principal_id, caller ? text_of(caller) : (struct text){0}, -1, held, 2, false};
	ok(pg, holding_count(pg, &arena, &of, 1, SOON));
	assert_int_equal(of.holds, holds);
	assert_int_equal(held[0].units, units);
	assert_int_equal(held[1].units, 0); /* nothing is held of what there is not */
}

static void live_holds_and_their_units_are_counted_by_whom_they_are(void **state)
{
	struct pg *pg = session();
	a = make_sku("A", 100);
	b = make_sku("B", 100);
	give(pg, 7, NULL, 60, 2, true);
	give(pg, 7, "chat 1", 60, 3, true);
	give(pg, 7, "chat 1", 90, 4, true);
	give(pg, 7, "chat 2", 60, 5, true);
	give(pg, 8, "chat 1", 60, 6, true);
	expect(pg, 7, NULL, 4, 14);
	expect(pg, 7, "chat 1", 2, 7);
	expect(pg, 7, "chat 2", 1, 5);
	expect(pg, 8, "chat 1", 1, 6);
	expect(pg, 8, "chat 2", 0, 0);
	expect(pg, 9, NULL, 0, 0);
	pg_free(pg);
}

static void what_is_due_or_not_counted_weighs_nothing(void **state)
{
	struct pg *pg = session();
	a = make_sku("A", 100);
	b = make_sku("B", 100);
	give(pg, 7, "chat", -1, 2, true);
	expect(pg, 7, NULL, 0, 0);
	expect(pg, 7, "chat", 0, 0);
	give(pg, 7, "chat", 60, 9, false); /* a hold all the same, of units that nobody counts */
	expect(pg, 7, NULL, 1, 0);
	expect(pg, 7, "chat", 1, 0);
	pg_free(pg);
}

static void many_are_counted_at_once_and_each_is_told_its_own(void **state)
{
	enum { MANY = 50 };
	struct pg *pg = session();
	a = make_sku("A", 1000000);
	b = make_sku("B", 1000000);
	struct holdings of[MANY];
	struct held held[MANY][2];
	for (int i = 0; i < MANY; i++) {
		const char *caller = arena_printf(&arena, "chat %d", i / 2).data;
		give(pg, 7, i % 2 ? NULL : caller, 60, i + 1, true);
		held[i][0] = (struct held){a, -1};
		held[i][1] = (struct held){b, -1};
		of[i] = (struct holdings){7, i % 2 ? (struct text){0} : text_of(caller), -1, held[i], i % 2 ? 1 : 2, false};
	}
	ok(pg, holding_count(pg, &arena, of, MANY, SOON));
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(of[i].holds, i % 2 ? MANY : 1);
		assert_int_equal(held[i][0].units, i % 2 ? MANY * (MANY + 1) / 2 : i + 1);
		assert_int_equal(held[i][1].units, i % 2 ? -1 : i + 1);
	}
	pg_free(pg);
}

/* He may have a hundred thousand: they are not gone through, and the others are told their own numbers all the same. */
static void the_holds_of_who_has_no_cap_on_them_are_not_counted(void **state)
{
	struct pg *pg = session();
	a = make_sku("A", 1000);
	b = make_sku("B", 1000);
	for (int i = 0; i < 3; i++)
		give(pg, 7, "chat 1", 60, 1, true);
	give(pg, 8, "chat 2", 60, 5, true);
	struct held held[4] = {{a, -1}, {a, -1}, {a, -1}, {a, -1}};
	struct holdings of[4] = {{7, {0}, -1, &held[0], 1, true},
	                         {8, {0}, -1, &held[1], 1, false},
	                         {7, text_of("chat 1"), -1, &held[2], 1, true},
	                         {8, text_of("chat 2"), -1, &held[3], 1, false}};
	ok(pg, holding_count(pg, &arena, of, 4, SOON));
	for (int i = 0; i < 4; i++) {
		assert_int_equal(of[i].holds, i % 2 ? 1 : -1);
		assert_int_equal(held[i].units, i % 2 ? 5 : 3);
	}
	ok(pg, holding_count(pg, &arena, of, 1, SOON)); /* nobody's at all */
	assert_int_equal(of[0].holds, -1);
	assert_int_equal(held[0].units, 3);
	pg_free(pg);
}

/* A caller may be a phone number: it is kept while something is held for it, no longer. */
static void a_caller_is_forgotten_with_its_hold(void **state)
{
	struct pg *pg = session();
	a = make_sku("A", 100);
	b = make_sku("B", 100);
	give(pg, 7, "+15550100", 60, 1, true);
	assert_int_equal(ask_int("SELECT count(*) FROM lastunit.hold WHERE caller = '+15550100'"), 2);
	ask("UPDATE lastunit.reservation SET state = 3, ended_at = now(); DELETE FROM lastunit.hold");
	assert_int_equal(ask_int("SELECT count(*) FROM information_schema.columns WHERE table_schema = 'lastunit'"
	                         " AND column_name = 'caller' AND table_name <> 'hold'"),
	                 0);
	expect(pg, 7, "+15550100", 0, 0);
	pg_free(pg);
}

static const struct CMUnitTest tests[] = {
	STORE_TEST(live_holds_and_their_units_are_counted_by_whom_they_are),
	STORE_TEST(what_is_due_or_not_counted_weighs_nothing),
	STORE_TEST(many_are_counted_at_once_and_each_is_told_its_own),
	STORE_TEST(the_holds_of_who_has_no_cap_on_them_are_not_counted),
	STORE_TEST(a_caller_is_forgotten_with_its_hold),
};

STORE_MAIN(tests)
