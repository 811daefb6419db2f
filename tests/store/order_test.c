/* Orders of marketplaces: locked, made, changed, read. */
#include <poll.h>

#include "store/order.h"
#include "store/pg_internal.h"
#include "store/rows.h"

static struct operation *named(int64_t principal_id, const char *number)
{
	struct operation *op = ARENA_NEW(&arena, struct operation);
	op->kind = OPERATION_ORDER_PUT;
	op->principal.id = principal_id;
	op->number = text_of(number);
	return op;
}

static struct order *new_order(int64_t principal_id, const char *number, int64_t version, const int64_t *sku_ids,
                               size_t count)
{
	struct order *o = ARENA_NEW(&arena, struct order);
	int64_t now_us = clock_unix_us();
	*o = (struct order){
		.id = next_id(),
		.principal_id = principal_id,
		.number = text_of(number),
		.version = version,
		.channel = CHANNEL_MARKETPLACE,
		.created_us = now_us,
		.changed_us = now_us,
		.lines = ARENA_ARRAY(&arena, count, struct order_line),
		.line_count = count,
	};
	for (size_t i = 0; i < count; i++)
		o->lines[i] = (struct order_line){{0}, sku_ids[i], (int64_t)i + 3, (int64_t)i + 1};
	return o;
}

static void insert(struct pg *pg, struct order *const *rows, size_t count)
{
	order_insert_send(pg, &arena, rows, count);
	sent(pg);
	ok(pg, order_insert_take(pg, SOON, count));
	ended(pg);
}

static void change(struct pg *pg, struct order *const *rows, size_t count)
{
	order_change_send(pg, &arena, rows, count);
	sent(pg);
	ok(pg, order_change_take(pg, SOON, count));
	ended(pg);
}

static struct order *read(struct pg *pg, int64_t principal_id, const char *number)
{
	struct order *o;
	ok(pg, order_read(pg, &arena, principal_id, text_of(number), SOON, &o));
	return o;
}

static void an_order_is_read_back_as_it_was_written(void **state)
{
	struct pg *pg = session();
	int64_t ids[] = {make_sku("A", 1), make_sku("B", 1), make_sku("C", 1)};
	struct order *rows[] = {new_order(7, "N-1", 0, ids, 3), new_order(7, "N-2", LU_ORDER_VERSION_MAX, ids, 0),
	                        new_order(8, "N-1", 5, ids + 1, 1)};
	insert(pg, rows, 3);
	struct order *o = read(pg, 7, "N-1");
	assert_uuid(o->id, rows[0]->id);
	assert_text(o->number, "N-1");
	assert_int_equal(o->version, 0);
	assert_int_equal(o->channel, CHANNEL_MARKETPLACE);
	assert_int_equal(o->created_us, rows[0]->created_us);
	assert_int_equal(o->line_count, 3);
	assert_text(o->lines[2].sku, "C");
	assert_int_equal(o->lines[2].quantity, 5);
	assert_int_equal(o->lines[2].counted, 3);
	o = read(pg, 7, "N-2"); /* a tombstone */
	assert_int_equal(o->version, LU_ORDER_VERSION_MAX);
	assert_int_equal(o->line_count, 0);
	assert_text(read(pg, 8, "N-1")->lines[0].sku, "B");
	assert_null(read(pg, 8, "N-2"));
	assert_null(read(pg, 7, "n-1"));
	pg_free(pg);
}

static void an_order_that_a_trigger_swallows_is_an_error(void **state)
{
	struct pg *pg = session();
	int64_t id = make_sku("A", 1);
	ask("CREATE FUNCTION public.swallow() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NULL; END$$;"
	    "CREATE TRIGGER swallows BEFORE INSERT ON lastunit.orders FOR EACH ROW WHEN (NEW.number = 'N-1')"
	    " EXECUTE FUNCTION public.swallow()");
	order_insert_send(pg, &arena, (struct order *[]){new_order(7, "N-1", 0, &id, 1), new_order(7, "N-2", 0, &id, 1)},
	                  2);
	sent(pg);
	assert_int_equal(order_insert_take(pg, SOON, 2), LU_INTERNAL);
	assert_int_equal(pg_error(pg)->class, PG_VIOLATION);
	ended(pg);
	pg_free(pg);
}

/* Not read as one without lines: that is an order that was cancelled. */
static void an_order_whose_lines_are_damaged_is_an_error(void **state)
{
	struct pg *pg = session();
	int64_t id = make_sku("A", 1);
	struct order *rows[] = {new_order(7, "N-1", 0, &id, 1)}, *o;
	insert(pg, rows, 1);
	ask("UPDATE lastunit.orders SET sku_ids = '{{1}}'");
	assert_int_equal(read(pg, 7, "N-1")->line_count, 1);
	/* What it would sell, bring back or be short of would be units that nobody has asked for. */
	static const char *const damaged[] = {
		"sku_ids = '{NULL}'",
		"sku_ids = '{99}'",
		"quantities = '{0}'",
		"quantities = '{-3}'",
		"counted = '{-1}'",
		"counted = '{4}'",
		"sku_ids = '{1,1}', quantities = '{3,3}', counted = '{1,1}'",
	};
	for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
		ask("UPDATE lastunit.orders SET sku_ids = '{1}', quantities = '{3}', counted = '{1}'");
		assert_int_equal(read(pg, 7, "N-1")->line_count, 1);
		ask(arena_printf(&arena, "UPDATE lastunit.orders SET %s", damaged[i]).data);
		assert_int_equal(order_read(pg, &arena, 7, TEXT("N-1"), SOON, &o), LU_INTERNAL);
		assert_int_equal(pg_error(pg)->class, PG_VIOLATION);
		struct operation *op = named(7, "N-1");
		struct order **orders;
		size_t count;
		order_lock_send(pg, &arena, &op, 1);
		sent(pg);
		assert_int_equal(order_lock_take(pg, SOON, &arena, &orders, &count), LU_INTERNAL);
		assert_int_equal(pg_error(pg)->class, PG_VIOLATION);
		ended(pg);
	}
	pg_free(pg);
}

/* Lines of different lengths, and none, in one statement: each row must get its own. */
static void many_are_changed_at_once_and_each_gets_its_lines(void **state)
{
	struct pg *pg = session();
	int64_t ids[] = {make_sku("A", 1), make_sku("B", 1), make_sku("C", 1)};
	struct order *rows[] = {new_order(7, "1", 1, ids, 1), new_order(7, "2", 1, ids, 3), new_order(7, "3", 1, ids, 0),
	                        new_order(7, "4", 1, ids + 2, 1)};
	insert(pg, rows, 4);
	struct order *next[4];
	static const size_t counts[] = {3, 0, 2, 1};
	for (size_t i = 0; i < 4; i++) {
		next[i] = new_order(7, "", 2 + (int64_t)i, ids, counts[i]);
		next[i]->id = rows[i]->id;
		next[i]->changed_us += 5;
	}
	struct order *mixed[] = {next[2], next[0], next[3], next[1]};
	change(pg, mixed, 4);
	for (size_t i = 0; i < 4; i++) {
		char number[] = {(char)('1' + i), 0};
		struct order *o = read(pg, 7, number);
		assert_int_equal(o->version, 2 + i);
		assert_int_equal(o->line_count, counts[i]);
		assert_int_equal(o->created_us, rows[i]->created_us);
		assert_int_equal(o->changed_us, next[i]->changed_us);
		for (size_t n = 0; n < counts[i]; n++) {
			assert_int_equal(o->lines[n].sku_id, ids[n]);
			assert_int_equal(o->lines[n].quantity, n + 3);
		}
	}
	pg_free(pg);
}

static struct order **locked(struct pg *pg, struct operation *const *operations, size_t count, size_t *ret_count)
{
	struct order **rows;
	order_lock_send(pg, &arena, operations, count);
	sent(pg);
	ok(pg, order_lock_take(pg, SOON, &arena, &rows, ret_count));
	ended(pg);
	return rows;
}

static void orders_are_locked_once_each_in_the_order_of_their_numbers(void **state)
{
	struct pg *pg = session(), *other = session();
	int64_t ids[] = {make_sku("A", 1)};
	struct order *rows[] = {new_order(7, "Z", 1, ids, 1), new_order(7, "a", 1, ids, 1), new_order(8, "A", 1, ids, 0)};
	insert(pg, rows, 3);
	struct operation *cart = named(7, "Z");
	cart->kind = OPERATION_CHECKOUT; /* whatever it carries, it names no order */
	struct operation *ops[] = {named(8, "A"), named(7, "a"), named(7, "none"), named(7, "Z"), named(7, "a"), cart};
	size_t count;
	ok(pg, pg_command(pg, "BEGIN", SOON));
	struct order **found = locked(pg, ops, 6, &count);
	assert_int_equal(count, 3);
	assert_text(found[0]->number, "Z"); /* by bytes */
	assert_text(found[1]->number, "a");
	assert_int_equal(found[2]->principal_id, 8);
	/* Locked: another cannot have it … */
	ok(other, pg_command(other, "BEGIN", SOON));
	ok(other, pg_command(other, "SET LOCAL lock_timeout = '50ms'", SOON));
	order_lock_send(other, &arena, &ops[1], 1);
	sent(other);
	assert_int_not_equal(order_lock_take(other, SOON, &arena, &found, &count), LU_OK);
	assert_string_equal(pg_error(other)->sqlstate, "55P03");
	assert_int_equal(pg_error(other)->class, PG_RETRY);
	(void)!pg_pipe_end(other, SOON);
	pg_rollback(other, SOON);
	/* … and a cart is not locked by what it carries. */
	ok(other, pg_command(other, "BEGIN", SOON));
	locked(other, &ops[5], 1, &count);
	assert_int_equal(count, 0);
	pg_rollback(other, SOON);
	pg_rollback(pg, SOON);
	pg_free(pg);
	pg_free(other);
}

/* A batch asks for the orders 1 and 2 while a stranger holds 1; returns when it waits, with its snapshot taken. */
static void wait_behind(struct pg *stranger, struct pg *batch)
{
	struct operation *ops[] = {named(7, "1"), named(7, "2")};
	size_t count;
	ok(stranger, pg_command(stranger, "BEGIN", SOON));
	locked(stranger, ops, 1, &count);
	assert_int_equal(count, 1);
	ok(batch, pg_command(batch, "BEGIN", SOON));
	order_lock_send(batch, &arena, ops, 2);
	sent(batch);
	char waits[128];
	snprintf(waits, sizeof waits, "SELECT count(*) FROM pg_locks WHERE pid = %d AND NOT granted",
	         PQbackendPID(pg_conn(batch)));
	while (ask_int(waits) == 0)
		poll(NULL, 0, 5);
}

/* The snapshot of the statement that waits knows neither the SKU nor the version that names it. */
static void an_order_that_changes_to_a_new_sku_while_another_is_waited_for_has_all_its_codes(void **state)
{
	struct pg *stranger = session(), *batch = session(), *other = session();
	int64_t old[] = {make_sku("A", 1)};
	struct order *rows[] = {new_order(7, "1", 1, old, 1), new_order(7, "2", 1, old, 1)};
	insert(stranger, rows, 2);
	wait_behind(stranger, batch);
	int64_t made[] = {make_sku("B", 1)};
	struct order *next = new_order(7, "2", 2, made, 1);
	next->id = rows[1]->id;
	change(other, &next, 1);
	pg_rollback(stranger, SOON);
	struct order **found;
	size_t count;
	ok(batch, order_lock_take(batch, SOON, &arena, &found, &count));
	ended(batch);
	assert_int_equal(count, 2);
	assert_int_equal(found[0]->version, 1);
	assert_text(found[0]->lines[0].sku, "A");
	assert_int_equal(found[1]->version, 2);
	assert_int_equal(found[1]->line_count, 1);
	assert_text(found[1]->lines[0].sku, "B");
	assert_int_equal(found[1]->lines[0].sku_id, made[0]);
	pg_rollback(batch, SOON);
	pg_free(stranger);
	pg_free(batch);
	pg_free(other);
}

/* It can be seen behind the lock, but was not there to be locked: deciding on it would undo whoever changes it next. */
static void an_order_that_is_made_while_another_is_waited_for_is_not_taken_for_locked(void **state)
{
	struct pg *stranger = session(), *batch = session(), *other = session();
	int64_t ids[] = {make_sku("A", 1)};
	struct order *rows[] = {new_order(7, "1", 1, ids, 1), new_order(7, "2", 1, ids, 1)}, **found;
	size_t count;
	insert(stranger, rows, 1);
	wait_behind(stranger, batch);
	insert(other, &rows[1], 1);
	pg_rollback(stranger, SOON);
	assert_int_not_equal(order_lock_take(batch, SOON, &arena, &found, &count), LU_OK);
	assert_int_equal(pg_error(batch)->class, PG_RETRY);
	ended(batch);
	assert_int_equal(pg_error(batch)->class, PG_RETRY);
	pg_rollback(batch, SOON);
	/* Run again, it finds both. */
	struct operation *ops[] = {named(7, "1"), named(7, "2")};
	ok(batch, pg_command(batch, "BEGIN", SOON));
	found = locked(batch, ops, 2, &count);
	assert_int_equal(count, 2);
	assert_text(found[1]->number, "2");
	pg_rollback(batch, SOON);
	pg_free(stranger);
	pg_free(batch);
	pg_free(other);
}

static void a_number_is_made_once_whoever_comes_second_is_told_by_name(void **state)
{
	struct pg *pg = session();
	struct order *rows[] = {new_order(7, "N", 1, NULL, 0), new_order(7, "N", 2, NULL, 0)};
	insert(pg, rows, 1);
	order_insert_send(pg, &arena, &rows[1], 1);
	sent(pg);
	assert_int_equal(order_insert_take(pg, SOON, 1), LU_INTERNAL);
	assert_int_equal(pg_error(pg)->class, PG_DUPLICATE);
	assert_string_equal(pg_error(pg)->constraint, "orders_number_is_unique");
	(void)!pg_pipe_end(pg, SOON);
	pg_free(pg);
}

static void the_service_changes_versions_and_lines_and_nothing_else(void **state)
{
	static const char *const refused[] = {"UPDATE orders SET number = 'x'", "UPDATE orders SET principal_id = 1",
	                                      "UPDATE orders SET created_at = now()", "DELETE FROM orders",
	                                      "TRUNCATE orders"};
	struct pg *pg = session();
	for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
		assert_int_equal(pg_command(pg, refused[i], SOON), LU_DATABASE_UNAVAILABLE);
		assert_string_equal(pg_error(pg)->sqlstate, "42501");
	}
	pg_free(pg);
}

static const struct CMUnitTest tests[] = {
	STORE_TEST(an_order_is_read_back_as_it_was_written),
	STORE_TEST(an_order_that_a_trigger_swallows_is_an_error),
	STORE_TEST(an_order_whose_lines_are_damaged_is_an_error),
	STORE_TEST(many_are_changed_at_once_and_each_gets_its_lines),
	STORE_TEST(orders_are_locked_once_each_in_the_order_of_their_numbers),
	STORE_TEST(an_order_that_changes_to_a_new_sku_while_another_is_waited_for_has_all_its_codes),
	STORE_TEST(an_order_that_is_made_while_another_is_waited_for_is_not_taken_for_locked),
	STORE_TEST(a_number_is_made_once_whoever_comes_second_is_told_by_name),
	STORE_TEST(the_service_changes_versions_and_lines_and_nothing_else),
};

STORE_MAIN(tests)
