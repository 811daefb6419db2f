/* Idempotency rows: one key, one row, whoever comes second waits and is told. */
#include "store/idempotency.h"
#include "store/rows.h"

#include <poll.h>

static struct idempotency_row row(int64_t principal_id, const char *key)
{
	struct idempotency_row r = {.principal_id = principal_id,
	                            .key = text_of(key),
	                            .kind = OPERATION_CHECKOUT,
	                            .status = TEXT("ok"),
	                            .object_id = uuid_new(),
	                            .at_us = clock_unix_us()};
	memset(r.fingerprint, (int)principal_id, sizeof r.fingerprint);
	return r;
}

static enum lu_error insert(struct pg *pg, const struct idempotency_row *rows, size_t count)
{
	idempotency_insert_send(pg, &arena, rows, count);
	sent(pg);
	enum lu_error error = idempotency_insert_take(pg, SOON, count), end = pg_pipe_end(pg, SOON);
	return error ? error : end;
}

static struct idempotency_row *read_back(struct pg *pg, const int64_t *principals, const struct text *keys, size_t n,
                                         size_t *ret_count)
{
	struct idempotency_row *rows;
	idempotency_read_send(pg, &arena, principals, keys, n);
	sent(pg);
	ok(pg, idempotency_read_take(pg, SOON, &arena, &rows, ret_count));
	ended(pg);
	return rows;
}

static void a_stored_answer_is_found_by_its_principal_and_key(void **state)
{
	struct pg *pg = session();
	struct idempotency_row made[] = {row(1, "order-1001"), row(2, "order-1001"), row(INT64_C(1) << 40, "k \"x\", {y}")};
	made[1].status = TEXT("insufficient_stock");
	made[1].detail = TEXT("{\"b\":  1, \"a\": [1000000000000000]}");
	made[1].object_id = (struct uuid){{0}};
	made[2].expires_us = made[2].at_us + 5;
	made[2].kind = OPERATION_REFRESH;
	ok(pg, insert(pg, made, 3));
	const int64_t principals[] = {2, 3, INT64_C(1) << 40, 1, 1};
	const struct text keys[] = {TEXT("order-1001"), TEXT("order-1001"), made[2].key, TEXT("Order-1001"),
	                            TEXT("order-1001")};
	size_t count;
	struct idempotency_row *rows = read_back(pg, principals, keys, 5, &count);
	assert_int_equal(count, 3);
	for (size_t i = 0; i < count; i++) {
		const struct idempotency_row *m = rows[i].principal_id == 1   ? &made[0]
		                                  : rows[i].principal_id == 2 ? &made[1]
		                                                              : &made[2];
		assert_int_equal(rows[i].principal_id, m->principal_id);
		assert_true(text_equal(rows[i].key, m->key));
		assert_memory_equal(rows[i].fingerprint, m->fingerprint, sizeof m->fingerprint);
		assert_int_equal(rows[i].kind, m->kind);
		assert_true(text_equal(rows[i].status, m->status));
		assert_uuid(rows[i].object_id, m->object_id);
		assert_int_equal(rows[i].at_us, m->at_us);
		assert_int_equal(rows[i].expires_us, m->expires_us);
		assert_true(text_equal(rows[i].detail, m->detail)); /* byte for byte as it was given */
		assert_int_equal(rows[i].detail.data == NULL, m->detail.data == NULL);
	}
	read_back(pg, principals, keys, 0, &count);
	assert_int_equal(count, 0);
	ok(pg, insert(pg, NULL, 0));
	pg_free(pg);
}

static void a_row_without_its_whole_fingerprint_is_an_error(void **state)
{
	struct pg *pg = session();
	struct idempotency_row made = row(1, "k"), *rows;
	size_t count;
	ok(pg, insert(pg, &made, 1));
	ask("ALTER TABLE lastunit.idempotency DROP CONSTRAINT idempotency_fingerprint_is_sha256;"
	    "UPDATE lastunit.idempotency SET fingerprint = 'short'");
	idempotency_read_send(pg, &arena, &made.principal_id, &made.key, 1);
	sent(pg);
	assert_int_equal(idempotency_read_take(pg, SOON, &arena, &rows, &count), LU_INTERNAL);
	assert_int_equal(pg_error(pg)->class, PG_VIOLATION);
	ended(pg);
	pg_free(pg);
}

static void the_second_waits_for_the_first_and_then_finds_its_answer(void **state)
{
	struct pg *first = session(), *second = session();
	struct idempotency_row a = row(1, "K"), b = row(1, "K");
	char waits[128];
	snprintf(waits, sizeof waits, "SELECT count(*) FROM pg_locks WHERE pid = %d AND NOT granted",
	         PQbackendPID(pg_conn(second)));
	for (int commits = 0; commits < 2; commits++) {
		ok(first, pg_command(first, "BEGIN", SOON));
		ok(first, insert(first, &a, 1));
		idempotency_insert_send(second, &arena, &b, 1);
		sent(second);
		while (ask_int(waits) == 0)
			poll(NULL, 0, 5);
		bool was_sent;
		if (commits)
			ok(first, pg_commit(first, SOON, &was_sent));
		else
			pg_rollback(first, SOON);
		enum lu_error error = idempotency_insert_take(second, SOON, 1);
		if (!commits) {
			ok(second, error);
			ended(second);
			ask("DELETE FROM lastunit.idempotency");
			continue;
		}
		assert_int_equal(error, LU_INTERNAL);
		assert_int_equal(pg_pipe_end(second, SOON), LU_INTERNAL);
		assert_int_equal(pg_error(second)->class, PG_DUPLICATE);
		assert_string_equal(pg_error(second)->constraint, "idempotency_key_is_used_once");
		size_t count;
		struct idempotency_row *rows = read_back(second, &a.principal_id, &a.key, 1, &count);
		assert_int_equal(count, 1);
		assert_uuid(rows[0].object_id, a.object_id);
	}
	pg_free(first);
	pg_free(second);
}

/* The order of the rows is the lock order: with 3000 keys in one statement, no plan may shuffle them. */
static void rows_are_inserted_in_the_order_given(void **state)
{
	enum { COUNT = 3000 };
	struct pg *pg = session();
	struct idempotency_row *rows = ARENA_ARRAY(&arena, COUNT, struct idempotency_row);
	for (int i = 0; i < COUNT; i++)
		rows[i] = row(1 + i / 1000, arena_printf(&arena, "key-%d", (i * 7919) % COUNT).data);
	ok(pg, insert(pg, rows, COUNT));
	/* ctid is the order of insertion in a new table. */
	const char *seen = ask("SELECT md5(string_agg(principal_id || key, ',' ORDER BY ctid)) FROM lastunit.idempotency");
	const char *expected = ask(
		"SELECT md5(string_agg((1 + n / 1000) || 'key-' || (n * 7919) % 3000, ',' ORDER BY n))"
		" FROM generate_series(0, 2999) n");
	assert_string_equal(seen, expected);
	pg_free(pg);
}

static void only_details_of_old_refusals_are_forgotten(void **state)
{
	struct pg *pg = session();
	struct idempotency_row made[] = {row(1, "old refusal"), row(1, "old refusal 2"), row(1, "old sale"),
	                                 row(1, "new refusal"), row(1, "bare refusal")};
	int64_t day_us = 25 * 3600 * US_PER_S;
	made[0].status = made[1].status = made[3].status = made[4].status = TEXT("insufficient_stock");
	made[0].detail = made[1].detail = made[2].detail = made[3].detail = TEXT("{}");
	made[0].at_us -= day_us, made[1].at_us -= day_us, made[2].at_us -= day_us, made[4].at_us -= day_us;
	ok(pg, insert(pg, made, 5));
	size_t count;
	ok(pg, idempotency_prune(pg, 1, SOON, &count));
	assert_int_equal(count, 1);
	ok(pg, idempotency_prune(pg, 10, SOON, &count));
	assert_int_equal(count, 1);
	ok(pg, idempotency_prune(pg, 10, SOON, &count));
	assert_int_equal(count, 0);
	assert_string_equal(
		ask("SELECT string_agg(key, ',' ORDER BY key) FROM lastunit.idempotency WHERE detail IS NOT NULL"),
		"new refusal,old sale");
	assert_int_equal(ask_int("SELECT count(*) FROM lastunit.idempotency WHERE octet_length(fingerprint) = 32"), 5);
	/* And the service cannot forget more than that. */
	assert_int_equal(pg_command(pg, "DELETE FROM idempotency", SOON), LU_DATABASE_UNAVAILABLE);
	assert_string_equal(pg_error(pg)->sqlstate, "42501");
	assert_int_equal(pg_command(pg, "UPDATE idempotency SET status = 'ok'", SOON), LU_DATABASE_UNAVAILABLE);
	assert_string_equal(pg_error(pg)->sqlstate, "42501");
	pg_free(pg);
}

static const struct CMUnitTest tests[] = {
	STORE_TEST(a_stored_answer_is_found_by_its_principal_and_key),
	STORE_TEST(a_row_without_its_whole_fingerprint_is_an_error),
	STORE_TEST(the_second_waits_for_the_first_and_then_finds_its_answer),
	STORE_TEST(rows_are_inserted_in_the_order_given),
	STORE_TEST(only_details_of_old_refusals_are_forgotten),
};

STORE_MAIN(tests)
