/* Reservations and holds: made, ended once, extended; what is due is found, earliest first. */
#include "store/rows.h"

static enum lu_error change(struct pg *pg, const struct reservation_change *changes, size_t count)
{
	reservation_change_send(pg, &arena, changes, count);
	sent(pg);
	enum lu_error error = reservation_change_take(pg, SOON);
	ended(pg);
	return error;
}

static struct reservation ended_as(const struct reservation *r, enum reservation_state state)
{
	struct reservation copy = *r;
	copy.state = state;
	copy.ended_us = clock_unix_us();
	if (state == RESERVATION_COMMITTED)
		copy.checkout_id = uuid_new();
	return copy;
}

static void what_was_reserved_is_read_back(void **state)
{
	static const int64_t quantities[] = {1, 255, 256, 65536, LU_QUANTITY_MAX};
	int64_t ids[5];
	static const char *const codes[] = {"A", "B", "C", "D", "E"};
	for (int i = 0; i < 5; i++)
		ids[4 - i] = make_sku(codes[4 - i], 10); /* ids run against codes */
	struct pg *pg = session();
	struct reservation *made[3] = {new_reservation(ids, 5, 1, 900), new_reservation(&ids[2], 1, 2, 60),
	                               new_reservation(ids, 2, 3, 60)};
	for (int i = 0; i < 5; i++) {
		made[0]->lines[i].quantity = quantities[i];
		made[0]->lines[i].version = i == 4 ? LU_COUNT_MAX : quantities[i];
		made[0]->lines[i].counted = i != 3;
	}
	made[0]->reference = TEXT("cart \"7\", {x}");
	/* Made and committed within one batch: it never has a hold. */
	*made[2] = ended_as(made[2], RESERVATION_COMMITTED);
	insert_reservations(pg, made, 3);
	const struct uuid wanted[] = {made[2]->id, uuid_new(), made[0]->id, made[1]->id};
	size_t count;
	struct reservation **rows = read_reservations(pg, wanted, 4, &count);
	assert_int_equal(count, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_uuid(rows[i]->id, made[i]->id);
		assert_int_equal(rows[i]->principal_id, 7);
		assert_int_equal(rows[i]->channel, CHANNEL_TELEGRAM);
		assert_int_equal(rows[i]->state, made[i]->state);
		assert_true(text_equal(rows[i]->reference, made[i]->reference));
		assert_int_equal(rows[i]->reference.data == NULL, made[i]->reference.data == NULL);
		assert_int_equal(rows[i]->created_us, made[i]->created_us);
		assert_int_equal(rows[i]->expires_us, made[i]->expires_us);
		assert_int_equal(rows[i]->ended_us, made[i]->ended_us);
		assert_uuid(rows[i]->checkout_id, made[i]->checkout_id);
		assert_int_equal(rows[i]->line_count, made[i]->line_count);
		for (size_t n = 0; n < rows[i]->line_count; n++) {
			assert_int_equal(rows[i]->lines[n].sku_id, made[i]->lines[n].sku_id);
			assert_int_equal(rows[i]->lines[n].quantity, made[i]->lines[n].quantity);
			assert_int_equal(rows[i]->lines[n].version, made[i]->lines[n].version);
			assert_int_equal(rows[i]->lines[n].counted, made[i]->lines[n].counted);
		}
	}
	for (int i = 0; i < 5; i++)
		assert_text(rows[0]->lines[i].sku, codes[i]);
	assert_text(rows[1]->lines[0].sku, "C");
	assert_int_equal(ask_int("SELECT count(*) FROM lastunit.hold"), 6);
	assert_int_equal(ask_int("SELECT quantity FROM lastunit.hold WHERE NOT counted"), 65536);
	rows = read_reservations(pg, wanted, 0, &count);
	assert_int_equal(count, 0);
	insert_reservations(pg, NULL, 0);
	pg_free(pg);
}

static void one_is_found_with_the_time_it_is_there(void **state)
{
	int64_t id = make_sku("A", 10), now_us = 7;
	struct pg *pg = session();
	struct reservation *made = new_reservation(&id, 1, 1, 900), *found = made;
	made->caller = TEXT("somebody");
	insert_reservations(pg, &made, 1);
	const struct uuid other = uuid_new();
	ok(pg, reservation_find(pg, &arena, &other, SOON, &found, &now_us));
	assert_null(found);
	assert_int_equal(now_us, 7);
	ok(pg, reservation_find(pg, &arena, &made->id, SOON, &found, &now_us));
	assert_uuid(found->id, made->id);
	assert_int_equal(found->expires_us, made->expires_us);
	assert_text(found->caller, "somebody");
	assert_text(found->lines[0].sku, "A");
	int64_t off_us = ask_int("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint") - now_us;
	assert_in_range(off_us, 0, 60 * US_PER_S);
	pg_free(pg);
}

static void an_end_takes_the_holds_and_an_extension_moves_them(void **state)
{
	enum { COUNT = 40 };
	int64_t ids[] = {make_sku("A", 100), make_sku("B", 100)};
	struct pg *pg = session();
	struct reservation *made[COUNT];
	struct reservation changed[COUNT];
	struct reservation_change changes[COUNT];
	for (int i = 0; i < COUNT; i++)
		made[i] = new_reservation(ids, 2, 1, 60);
	insert_reservations(pg, made, COUNT);
	/* All four things that can happen to them, in one statement, in an order that is not that of their ids. */
	for (int i = 0; i < COUNT; i++) {
		int n = (i * 7) % COUNT;
		static const enum reservation_state ends[] = {RESERVATION_ACTIVE, RESERVATION_COMMITTED, RESERVATION_RELEASED,
		                                              RESERVATION_EXPIRED};
		changed[i] = *made[n];
		if (n % 4 > 0)
			changed[i] = ended_as(made[n], ends[n % 4]);
		else
			changed[i].expires_us += (n + 1) * US_PER_S;
		changes[i] = (struct reservation_change){&changed[i], n % 4 > 0};
	}
	ok(pg, change(pg, changes, COUNT));
	for (int i = 0; i < COUNT; i++) {
		size_t count;
		struct reservation **rows = read_reservations(pg, &changed[i].id, 1, &count);
		assert_int_equal(count, 1);
		assert_int_equal(rows[0]->state, changed[i].state);
		assert_int_equal(rows[0]->expires_us, changed[i].expires_us);
		assert_int_equal(rows[0]->ended_us, changed[i].ended_us);
		assert_uuid(rows[0]->checkout_id, changed[i].checkout_id);
	}
	assert_int_equal(ask_int("SELECT count(*) FROM lastunit.hold"), COUNT / 4 * 2);
	assert_int_equal(ask_int(
						 "SELECT count(*) FROM lastunit.hold h JOIN lastunit.reservation r ON r.id = h.reservation_id"
						 " AND r.state = 1 AND r.expires_at = h.expires_at"),
	                 COUNT / 4 * 2);
	ok(pg, change(pg, NULL, 0));
	pg_free(pg);
}

static void a_reservation_ends_once(void **state)
{
	int64_t id = make_sku("A", 100);
	struct pg *pg = session();
	struct reservation *made[] = {new_reservation(&id, 1, 1, 60), new_reservation(&id, 1, 1, 60)};
	insert_reservations(pg, made, 2);
	struct reservation released = ended_as(made[0], RESERVATION_RELEASED),
					   other = ended_as(made[1], RESERVATION_EXPIRED);
	struct reservation_change changes[] = {{&released, true}, {&other, true}};
	ok(pg, change(pg, changes, 1));
	released.state = RESERVATION_EXPIRED;
	ok(pg, pg_command(pg, "BEGIN", SOON));
	assert_int_equal(change(pg, changes, 2), LU_INTERNAL);
	assert_int_equal(pg_error(pg)->class, PG_VIOLATION);
	pg_rollback(pg, SOON);
	assert_string_equal(ask("SELECT string_agg(state::text, ' ' ORDER BY id) FROM lastunit.reservation"), "3 1");
	/* And the row itself refuses half an end. */
	char sqlstate[6];
	pg_server_try(url, "UPDATE lastunit.reservation SET state = 2, ended_at = now() WHERE state = 1", sqlstate);
	assert_string_equal(sqlstate, "23514");
	pg_server_try(url, "UPDATE lastunit.reservation SET state = 1 WHERE state = 3", sqlstate);
	assert_string_equal(sqlstate, "23514");
	pg_free(pg);
}

static void due_holds_come_earliest_first_with_what_is_left(void **state)
{
	int64_t a = make_sku("A", 100), b = make_sku("B", 100), c = make_sku("C", 100), d = make_sku("D", 100);
	const int64_t ab[] = {a, b};
	struct pg *pg = session();
	struct reservation *made[] = {
		new_reservation(ab, 2, 1, -10), new_reservation(&a, 1, 1, -30), new_reservation(&a, 1, 1, -20),
		new_reservation(&a, 1, 1, 900), new_reservation(&a, 1, 1, 300), new_reservation(&b, 1, 1, -40),
		new_reservation(&c, 1, 1, 60),  new_reservation(&d, 1, 1, -50),
	};
	made[7]->lines[0].counted = false; /* gives nothing back, so nobody is interested */
	insert_reservations(pg, made, 8);
	struct locked_sku skus[] = {{.id = a}, {.id = b}, {.id = c}, {.id = d}};
	struct locked_sku *asked[] = {&skus[0], &skus[1], &skus[2], &skus[3]};
	struct reservation **due;
	size_t count;
	ok(pg, reservation_due(pg, &arena, asked, 4, 10, SOON, &due, &count));
	static const int order[] = {5, 1, 2, 0};
	assert_int_equal(count, 4);
	for (int i = 0; i < 4; i++)
		assert_uuid(due[i]->id, made[order[i]]->id);
	assert_int_equal(due[3]->line_count, 2); /* whole, with the lines of other SKUs */
	assert_text(due[3]->lines[1].sku, "B");
	for (int i = 0; i < 4; i++) {
		assert_true(skus[i].holds_known);
		assert_false(skus[i].holds_more);
	}
	assert_int_equal(skus[0].next_release_us, made[4]->expires_us);
	assert_int_equal(skus[1].next_release_us, 0);
	assert_int_equal(skus[2].next_release_us, made[6]->expires_us);
	assert_int_equal(skus[3].next_release_us, 0);
	/* Cut off: each SKU knows whether it has more. */
	ok(pg, reservation_due(pg, &arena, asked, 3, 3, SOON, &due, &count));
	assert_int_equal(count, 3);
	assert_uuid(due[2]->id, made[2]->id);
	assert_true(skus[0].holds_more);
	assert_true(skus[1].holds_more);
	assert_false(skus[2].holds_more);
	ok(pg, reservation_due(pg, &arena, asked, 3, 1, SOON, &due, &count));
	assert_int_equal(count, 1);
	assert_uuid(due[0]->id, made[5]->id);
	assert_true(skus[0].holds_more);
	assert_true(skus[1].holds_more);
	ok(pg, reservation_due(pg, &arena, &asked[2], 1, 1, SOON, &due, &count));
	assert_int_equal(count, 0);
	assert_true(skus[2].holds_known);
	ok(pg, reservation_due(pg, &arena, asked, 0, 1, SOON, &due, &count));
	pg_free(pg);
}

static void the_reaper_finds_what_is_overdue_and_when_to_come_back(void **state)
{
	int64_t id = make_sku("A", 100);
	struct pg *pg = session();
	struct reservation **due;
	size_t count;
	int64_t next_us;
	const struct overdue_filter none = {0};
	ok(pg, reservation_overdue(pg, &arena, &none, 10, SOON, &due, &count, &next_us));
	assert_int_equal(count, 0);
	assert_int_equal(next_us, INT64_MAX);
	struct reservation *made[] = {new_reservation(&id, 1, 1, -10), new_reservation(&id, 1, 1, -30),
	                              new_reservation(&id, 1, 1, -20), new_reservation(&id, 1, 1, 5000),
	                              new_reservation(&id, 1, 1, -60)};
	*made[4] = ended_as(made[4], RESERVATION_RELEASED);
	insert_reservations(pg, made, 5);
	ok(pg, reservation_overdue(pg, &arena, &none, 10, SOON, &due, &count, &next_us));
	assert_int_equal(count, 3);
	assert_uuid(due[0]->id, made[1]->id);
	assert_uuid(due[1]->id, made[2]->id);
	assert_uuid(due[2]->id, made[0]->id);
	assert_text(due[0]->lines[0].sku, "A");
	assert_true(next_us > 4000 * US_PER_S && next_us <= 5000 * US_PER_S);
	/* Those already under way are left out; a full page means that there is more at once. */
	ok(pg, reservation_overdue(pg, &arena, &(struct overdue_filter){.ids = &made[1]->id, .count = 1}, 1, SOON, &due,
	                           &count, &next_us));
	assert_int_equal(count, 1);
	assert_uuid(due[0]->id, made[2]->id);
	assert_int_equal(next_us, 0);
	/* The next page begins behind the last one's last, where several end in one instant too. */
	struct overdue_filter behind = {.after_us = made[1]->expires_us, .after_id = made[1]->id};
	ok(pg, reservation_overdue(pg, &arena, &behind, 10, SOON, &due, &count, &next_us));
	assert_int_equal(count, 2);
	assert_uuid(due[0]->id, made[2]->id);
	struct reservation *twins[] = {new_reservation(&id, 1, 1, -5), new_reservation(&id, 1, 1, -5)};
	twins[1]->expires_us = twins[0]->expires_us;
	insert_reservations(pg, twins, 2);
	behind = (struct overdue_filter){.after_us = twins[0]->expires_us, .after_id = twins[0]->id};
	ok(pg, reservation_overdue(pg, &arena, &behind, 10, SOON, &due, &count, &next_us));
	assert_int_equal(count, 1);
	assert_uuid(due[0]->id, twins[1]->id);
	/* Those of a SKU that has enough of them are left out. */
	ok(pg, reservation_overdue(pg, &arena, &(struct overdue_filter){.sku_ids = &id, .sku_count = 1}, 1, SOON, &due,
	                           &count, &next_us));
	assert_int_equal(count, 0);
	pg_free(pg);
}

static void check_page(struct pg *pg, const struct reservation_filter *filter, struct reservation *const *expected,
                       size_t n)
{
	struct reservation **rows;
	size_t count;
	struct reservation_filter limited = *filter;
	if (limited.limit == 0)
		limited.limit = 10;
	struct uuid walked;
	ok(pg, reservation_page(pg, &arena, &limited, SOON, &rows, &count, &walked));
	assert_true(uuid_is_nil(&walked));
	assert_int_equal(count, n);
	for (size_t i = 0; i < n; i++)
		assert_uuid(rows[i]->id, expected[i]->id);
}

#define PAGE(filter, ...)                                                                                     \
	do {                                                                                                      \
		struct reservation *const expected[] = {__VA_ARGS__};                                                 \
		check_page(pg, &(struct reservation_filter){filter}, expected, sizeof expected / sizeof expected[0]); \
	} while (0)
#define AND ,

static void pages_are_filtered_by_anything(void **state)
{
	int64_t a = make_sku("A", 100), b = make_sku("B", 100);
	const int64_t ab[] = {a, b};
	struct pg *pg = session();
	struct reservation *m[] = {new_reservation(&a, 1, 1, 60), new_reservation(&b, 1, 1, 60),
	                           new_reservation(ab, 2, 1, 60), new_reservation(&a, 1, 1, 60),
	                           new_reservation(&a, 1, 1, 60)};
	m[1]->reference = m[2]->reference = m[3]->reference = TEXT("R");
	m[0]->reference = TEXT("r");
	m[2]->principal_id = 8;
	*m[3] = ended_as(m[3], RESERVATION_EXPIRED);
	insert_reservations(pg, m, 5);
	PAGE(.after = {{0}}, m[0], m[1], m[2], m[3], m[4]);
	PAGE(.after = m[2]->id, m[3], m[4]);
	PAGE(.limit = 2, m[0], m[1]);
	PAGE(.reference = TEXT("R"), m[1], m[2], m[3]);
	PAGE(.reference = TEXT("R") AND.after = m[1]->id AND.limit = 1, m[2]);
	PAGE(.reference = TEXT("R") AND.principal_id = 7, m[1], m[3]);
	PAGE(.reference = TEXT("R") AND.sku = TEXT("A") AND.state = RESERVATION_ACTIVE, m[2]);
	PAGE(.principal_id = 8, m[2]);
	PAGE(.state = RESERVATION_EXPIRED, m[3]);
	PAGE(.sku = TEXT("A"), m[0], m[2], m[3], m[4]);
	PAGE(.sku = TEXT("A") AND.state = RESERVATION_EXPIRED, m[3]);
	PAGE(.sku = TEXT("A") AND.state = RESERVATION_ACTIVE, m[0], m[2], m[4]);
	PAGE(.sku = TEXT("A") AND.state = RESERVATION_ACTIVE AND.after = m[0]->id AND.limit = 1, m[2]);
	PAGE(.sku = TEXT("A") AND.state = RESERVATION_ACTIVE AND.principal_id = 8, m[2]);
	check_page(pg, &(struct reservation_filter){.sku = TEXT("unknown")}, NULL, 0);
	check_page(pg, &(struct reservation_filter){.reference = TEXT("")}, NULL, 0);
	pg_free(pg);
}

/* The last of 100,001 is asked for: the first page has walked far enough and found nothing. */
static void who_asks_for_few_of_many_is_told_where_to_go_on(void **state)
{
	make_sku("A", 100);
	ask_int(
		"WITH made AS (INSERT INTO lastunit.reservation (id, created_at, expires_at, ended_at, principal_id, channel,"
		" state, sku_ids, quantities, counted, versions) SELECT ('00000000-0000-7000-8000-' ||"
		" lpad(to_hex(n), 12, '0'))::uuid, now(), now(), now(), n / 100001, 1, 3, ARRAY(SELECT id FROM lastunit.sku),"
		" '{1}', '{t}', '{1}' FROM generate_series(1, 100001) n RETURNING 1) SELECT count(*) FROM made");
	struct pg *pg = session();
	struct reservation_filter filter = {.principal_id = 1, .limit = 2};
	struct reservation **rows;
	size_t count;
	struct uuid walked;
	ok(pg, reservation_page(pg, &arena, &filter, SOON, &rows, &count, &walked));
	assert_int_equal(count, 0);
	assert_false(uuid_is_nil(&walked));
	filter.after = walked;
	ok(pg, reservation_page(pg, &arena, &filter, SOON, &rows, &count, &walked));
	assert_int_equal(count, 1);
	assert_true(uuid_is_nil(&walked));
	pg_free(pg);
}

static const struct CMUnitTest tests[] = {
	STORE_TEST(what_was_reserved_is_read_back),
	STORE_TEST(one_is_found_with_the_time_it_is_there),
	STORE_TEST(an_end_takes_the_holds_and_an_extension_moves_them),
	STORE_TEST(a_reservation_ends_once),
	STORE_TEST(due_holds_come_earliest_first_with_what_is_left),
	STORE_TEST(the_reaper_finds_what_is_overdue_and_when_to_come_back),
	STORE_TEST(pages_are_filtered_by_anything),
	STORE_TEST(who_asks_for_few_of_many_is_told_where_to_go_on),
};

STORE_MAIN(tests)
