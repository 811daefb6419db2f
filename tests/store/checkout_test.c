/* Checkouts: made, read back, cancelled in part, found by reference. */
#include "store/rows.h"

static struct checkout *new_checkout(const int64_t *sku_ids, size_t count)
{
	struct checkout *c = ARENA_NEW(&arena, struct checkout);
	*c = (struct checkout){
		.id = next_id(),
		.principal_id = 7,
		.channel = CHANNEL_POS,
		.created_us = clock_unix_us(),
		.lines = ARENA_ARRAY(&arena, count, struct line),
		.line_count = count,
	};
	for (size_t i = 0; i < count; i++)
		c->lines[i] = (struct line){.sku_id = sku_ids[i],
		                            .quantity = (int64_t)i + 1,
		                            .counted = i % 2 == 0,
		                            .version = INT64_C(1) << (10 * i)};
	return c;
}

static enum lu_error insert(struct pg *pg, struct checkout *const *rows, size_t count)
{
	checkout_insert_send(pg, &arena, rows, count);
	sent(pg);
	enum lu_error error = checkout_insert_take(pg, SOON, count), end = pg_pipe_end(pg, SOON);
	return error ? error : end;
}

static struct checkout **read_back(struct pg *pg, const struct uuid *ids, size_t count, size_t *ret_count)
{
	struct checkout **rows;
	checkout_read_send(pg, &arena, ids, count);
	sent(pg);
	ok(pg, checkout_read_take(pg, SOON, &arena, &rows, ret_count));
	ended(pg);
	return rows;
}

static void assert_same(const struct checkout *a, const struct checkout *b)
{
	assert_uuid(a->id, b->id);
	assert_uuid(a->reservation_id, b->reservation_id);
	assert_int_equal(a->principal_id, b->principal_id);
	assert_int_equal(a->channel, b->channel);
	assert_int_equal(a->created_us, b->created_us);
	assert_true(text_equal(a->reference, b->reference));
	assert_int_equal(a->line_count, b->line_count);
	for (size_t i = 0; i < a->line_count; i++) {
		assert_int_equal(a->lines[i].sku_id, b->lines[i].sku_id);
		assert_int_equal(a->lines[i].quantity, b->lines[i].quantity);
		assert_int_equal(a->lines[i].counted, b->lines[i].counted);
		assert_int_equal(a->lines[i].version, b->lines[i].version);
		assert_int_equal(a->lines[i].cancelled, b->lines[i].cancelled);
	}
}

static void what_was_sold_is_read_back_and_cancelled(void **state)
{
	static const int64_t numbers[] = {1, 255, 256, 65536, INT64_C(1) << 31, INT64_C(1) << 40, LU_COUNT_MAX};
	int64_t ids[] = {make_sku("A", 1), make_sku("B", 1), make_sku("C", 1), make_sku("D", 1)};
	struct pg *pg = session();
	struct checkout *made[] = {new_checkout(ids, 4), new_checkout(&ids[1], 1), new_checkout(&ids[2], 2)};
	made[1]->reference = TEXT("order 1");
	made[2]->reservation_id = uuid_new();
	/* In an order that is not that of their ids. */
	ok(pg, insert(pg, (struct checkout *const[]){made[2], made[0], made[1]}, 3));
	const struct uuid wanted[] = {made[1]->id, made[2]->id, uuid_new(), made[0]->id};
	size_t count;
	struct checkout **rows = read_back(pg, wanted, 4, &count);
	assert_int_equal(count, 3);
	for (int i = 0; i < 3; i++)
		assert_same(rows[i], made[i]);
	assert_text(rows[0]->lines[3].sku, "D");
	assert_text(rows[2]->lines[0].sku, "C");
	for (int i = 0, n = 0; i < 3; i++)
		for (size_t j = 0; j < made[i]->line_count; j++)
			made[i]->lines[j].cancelled = numbers[n++ % 7];
	checkout_change_send(pg, &arena, (struct checkout *const[]){made[2], made[0]}, 2);
	sent(pg);
	ok(pg, checkout_change_take(pg, SOON, 2));
	ended(pg);
	made[1]->lines[0].cancelled = 0; /* was not changed */
	rows = read_back(pg, wanted, 4, &count);
	for (int i = 0; i < 3; i++)
		assert_same(rows[i], made[i]);
	ok(pg, insert(pg, NULL, 0));
	checkout_change_send(pg, &arena, NULL, 0);
	sent(pg);
	ok(pg, checkout_change_take(pg, SOON, 0));
	ended(pg);
	pg_free(pg);
}

static void a_reservation_is_sold_once(void **state)
{
	int64_t id = make_sku("A", 1);
	struct pg *pg = session();
	struct checkout *made[] = {new_checkout(&id, 1), new_checkout(&id, 1)};
	made[0]->reservation_id = made[1]->reservation_id = uuid_new();
	ok(pg, insert(pg, made, 1));
	assert_int_equal(insert(pg, &made[1], 1), LU_INTERNAL);
	assert_int_equal(pg_error(pg)->class, PG_DUPLICATE);
	assert_string_equal(pg_error(pg)->constraint, "checkout_sells_a_reservation_once");
	pg_free(pg);
}

static void checkouts_are_found_by_reference_page_by_page(void **state)
{
	int64_t id = make_sku("A", 1);
	struct pg *pg = session();
	struct checkout *made[6];
	for (int i = 0; i < 6; i++) {
		made[i] = new_checkout(&id, 1);
		made[i]->reference = i == 3 ? TEXT("other") : TEXT("R");
		made[i]->principal_id = i == 4 ? 8 : 7;
	}
	ok(pg, insert(pg, made, 6));
	struct checkout **rows;
	size_t count;
	static const int order[] = {0, 1, 2, 4, 5};
	const struct uuid *after = NULL;
	for (int i = 0; i < 5; i += 2) {
		ok(pg, checkout_page(pg, &arena, TEXT("R"), 0, after, 2, SOON, &rows, &count));
		assert_int_equal(count, i < 4 ? 2 : 1);
		for (size_t n = 0; n < count; n++)
			assert_same(rows[n], made[order[i + (int)n]]);
		after = &rows[count - 1]->id;
	}
	ok(pg, checkout_page(pg, &arena, TEXT("R"), 8, &(struct uuid){{0}}, 10, SOON, &rows, &count));
	assert_int_equal(count, 1);
	assert_uuid(rows[0]->id, made[4]->id);
	ok(pg, checkout_page(pg, &arena, TEXT("r"), 0, NULL, 10, SOON, &rows, &count));
	assert_int_equal(count, 0);
	pg_free(pg);
}

/* Lines are arrays side by side: none may be longer or shorter than the others, and there is at least one. */
static void a_sale_and_a_hold_have_whole_lines(void **state)
{
	static const char *const arrays[][5] = {
		{"{1}", "{1}", "{t}", "{1}", "{0}"},   /* whole */
		{"{}", "{}", "{}", "{}", "{}"},        /* nothing */
		{"{1,2}", "{1}", "{t}", "{1}", "{0}"}, /* then each of them longer */
		{"{1}", "{1,1}", "{t}", "{1}", "{0}"}, {"{1}", "{1}", "{t,t}", "{1}", "{0}"},
		{"{1}", "{1}", "{t}", "{1,2}", "{0}"}, {"{1}", "{1}", "{t}", "{1}", "{0,0}"},
		{"{1}", "{1}", "{}", "{1}", "{0}"},
	};
	for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
		const char *const *of = arrays[i];
		char sqlstate[6];
		pg_server_try(
			url,
			arena_printf(&arena,
		                 "INSERT INTO lastunit.checkout (id, created_at, principal_id, channel, sku_ids, quantities,"
		                 " counted, versions, cancelled) VALUES (gen_random_uuid(), now(), 1, 1, '%s', '%s', '%s',"
		                 " '%s', '%s')",
		                 of[0], of[1], of[2], of[3], of[4])
				.data,
			sqlstate);
		assert_string_equal(sqlstate, i == 0 ? "" : "23514");
		if (strcmp(of[4], "{0,0}") == 0)
			continue; /* of a hold nothing is cancelled */
		pg_server_try(
			url,
			arena_printf(&arena,
		                 "INSERT INTO lastunit.reservation (id, created_at, expires_at, principal_id, channel, state,"
		                 " sku_ids, quantities, counted, versions) VALUES (gen_random_uuid(), now(), now(), 1, 1, 1,"
		                 " '%s', '%s', '%s', '%s')",
		                 of[0], of[1], of[2], of[3])
				.data,
			sqlstate);
		assert_string_equal(sqlstate, i == 0 ? "" : "23514");
	}
}

/* What the CHECKs let pass and only a hand can have written. */
static void a_row_whose_lines_are_damaged_is_read_without_them(void **state)
{
	static const struct {
		const char *sku_ids, *quantities;
		size_t line_count;
	} rows[] = {
		{"{1}", "{3}", 1},     {"{{1}}", "{3}", 1},   {"{1,2}", "{{3,4}}", 2}, {"{{1},{2}}", "{3,4}", 2},
		{"{NULL}", "{3}", 0},  {"{99}", "{3}", 0},    {"{1,99}", "{3,4}", 0},  {"{1,NULL}", "{3,4}", 0},
		{"{1,1}", "{3,4}", 0}, {"{2,1}", "{3,4}", 0}, {"{1}", "{-3}", 0},      {"{1,2}", "{3,NULL}", 0},
		{"{{99}}", "{3}", 0},
	};
	assert_int_equal(make_sku("A", 10), 1);
	assert_int_equal(make_sku("B", 10), 2);
	struct pg *pg = session();
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct uuid id = next_id();
		char name[UUID_TEXT_BYTES + 1];
		uuid_format(&id, name);
		const char *two = strchr(rows[i].sku_ids, ',') ? "1" : "NULL";
		ask(arena_printf(&arena,
		                 "INSERT INTO lastunit.checkout (id, created_at, principal_id, channel, sku_ids, quantities,"
		                 " counted, versions, cancelled) SELECT '%s', now(), 1, 1, '%s', '%s', array_remove("
		                 "ARRAY[true, %s::int::bool], NULL), array_remove(ARRAY[1, %s], NULL),"
		                 " array_remove(ARRAY[0, %s], NULL)",
		                 name, rows[i].sku_ids, rows[i].quantities, two, two, two)
		        .data);
		ask(arena_printf(&arena,
		                 "INSERT INTO lastunit.reservation (id, created_at, expires_at, principal_id, channel, state,"
		                 " sku_ids, quantities, counted, versions) SELECT id, created_at, created_at, 1, 1, 1, sku_ids,"
		                 " quantities, counted, versions FROM lastunit.checkout WHERE id = '%s'",
		                 name)
		        .data);
		size_t count;
		struct checkout **sales = read_back(pg, &id, 1, &count);
		assert_int_equal(count, 1);
		assert_int_equal(sales[0]->line_count, rows[i].line_count);
		struct reservation **holds = read_reservations(pg, &id, 1, &count);
		assert_int_equal(count, 1);
		assert_int_equal(holds[0]->line_count, rows[i].line_count);
		for (size_t n = 0; n < rows[i].line_count; n++) {
			assert_text(sales[0]->lines[n].sku, n ? "B" : "A");
			assert_int_equal(sales[0]->lines[n].quantity, 3 + n);
			assert_int_equal(holds[0]->lines[n].quantity, 3 + n);
		}
	}
	pg_free(pg);
}

static const struct CMUnitTest tests[] = {
	STORE_TEST(what_was_sold_is_read_back_and_cancelled),           STORE_TEST(a_reservation_is_sold_once),
	STORE_TEST(checkouts_are_found_by_reference_page_by_page),      STORE_TEST(a_sale_and_a_hold_have_whole_lines),
	STORE_TEST(a_row_whose_lines_are_damaged_is_read_without_them),
};

STORE_MAIN(tests)
