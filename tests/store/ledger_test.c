/* The ledger: what is written is read, and nobody can unwrite it. */
#include "store/ledger.h"
#include "store/rows.h"

static struct ledger_entry entry(int64_t sku_id, int64_t version)
{
	return (struct ledger_entry){.sku_id = sku_id,
	                             .version = version,
	                             .kind = LEDGER_SALE,
	                             .on_hand_delta = -1,
	                             .on_hand_after = 100 - version,
	                             .channel = CHANNEL_WEB,
	                             .principal_id = 7};
}

static enum lu_error insert(struct pg *pg, const struct ledger_entry *entries, size_t count)
{
	ledger_insert_send(pg, &arena, entries, count);
	sent(pg);
	enum lu_error error = ledger_insert_take(pg, SOON, count), end = pg_pipe_end(pg, SOON);
	return error ? error : end;
}

static void entries_are_read_back_by_pages_of_their_sku(void **state)
{
	static const int64_t numbers[] = {1, 255, 256, 65536, INT64_C(1) << 31, INT64_C(1) << 40, LU_COUNT_MAX};
	int64_t a = make_sku("A", 100), b = make_sku("B", 100);
	ask("INSERT INTO lastunit.principal (id, name, channel) OVERRIDING SYSTEM VALUE VALUES (7, 'shop', 1)");
	struct pg *pg = session();
	struct ledger_entry entries[8];
	for (int i = 0; i < 7; i++) {
		entries[i] = entry(a, i + 1);
		entries[i].kind = (enum ledger_kind)(i + 1);
		entries[i].on_hand_delta = -numbers[i];
		entries[i].reserved_delta = numbers[i];
		entries[i].on_hand_after = numbers[i];
		entries[i].reserved_after = numbers[i] - 1;
		entries[i].operation_id = uuid_new();
	}
	entries[2].reference = TEXT("order 2");
	entries[3].principal_id = 0;
	entries[3].operation_id = (struct uuid){{0}};
	entries[3].channel = CHANNEL_SYSTEM;
	entries[4].principal_id = 8; /* gone, or of another service: its name is not known */
	entries[7] = entry(b, LU_COUNT_MAX);
	entries[7].on_hand_after = 1;
	ok(pg, insert(pg, entries, 8));
	struct ledger_row *rows;
	size_t count;
	bool known;
	int64_t before = ask_int("SELECT (extract(epoch FROM now() - interval '1 minute') * 1e6)::bigint");
	for (int64_t after = 0; after < 7; after += 3) {
		ok(pg, ledger_page(pg, &arena, TEXT("A"), after, 3, SOON, &rows, &count, &known));
		assert_true(known);
		assert_int_equal(count, after < 6 ? 3 : 1);
		for (size_t i = 0; i < count; i++) {
			const struct ledger_entry *seen = &rows[i].entry, *made = &entries[after + (int64_t)i];
			assert_int_equal(seen->sku_id, made->sku_id);
			assert_int_equal(seen->version, made->version);
			assert_int_equal(seen->kind, made->kind);
			assert_int_equal(seen->on_hand_delta, made->on_hand_delta);
			assert_int_equal(seen->reserved_delta, made->reserved_delta);
			assert_int_equal(seen->on_hand_after, made->on_hand_after);
			assert_int_equal(seen->reserved_after, made->reserved_after);
			assert_int_equal(seen->channel, made->channel);
			assert_int_equal(seen->principal_id, made->principal_id);
			assert_true(text_equal(seen->reference, made->reference));
			assert_uuid(seen->operation_id, made->operation_id);
			assert_true(rows[i].at_us > before);
			if (made->principal_id == 7)
				assert_text(rows[i].principal, "shop");
			else
				assert_null(rows[i].principal.data);
		}
	}
	ok(pg, ledger_page(pg, &arena, TEXT("A"), 7, 3, SOON, &rows, &count, &known));
	assert_true(known);
	assert_int_equal(count, 0);
	ok(pg, ledger_page(pg, &arena, TEXT("B"), 0, 3, SOON, &rows, &count, &known));
	assert_int_equal(rows[0].entry.version, LU_COUNT_MAX);
	ok(pg, ledger_page(pg, &arena, TEXT("a"), 0, 3, SOON, &rows, &count, &known));
	assert_false(known);
	assert_int_equal(count, 0);
	ok(pg, insert(pg, NULL, 0));
	pg_free(pg);
}

static void entries_of_one_transaction_share_its_xid(void **state)
{
	int64_t a = make_sku("A", 100);
	struct pg *pg = session();
	struct ledger_entry entries[] = {entry(a, 1), entry(a, 2), entry(a, 3)};
	ok(pg, insert(pg, entries, 2));
	ok(pg, insert(pg, &entries[2], 1));
	assert_int_equal(ask_int("SELECT count(DISTINCT xid) FROM lastunit.ledger"), 2);
	assert_int_equal(ask_int("SELECT count(*) FROM lastunit.ledger WHERE xid::xid = xmin"), 3);
	pg_free(pg);
}

static void two_entries_cannot_share_a_version_nor_show_what_cannot_be(void **state)
{
	int64_t a = make_sku("A", 100);
	struct pg *pg = session();
	struct ledger_entry first = entry(a, 1), negative = entry(a, 2), lent = entry(a, 2), oversold = entry(a, 2);
	ok(pg, insert(pg, &first, 1));
	assert_int_equal(insert(pg, &first, 1), LU_INTERNAL);
	assert_int_equal(pg_error(pg)->class, PG_DUPLICATE);
	assert_string_equal(pg_error(pg)->constraint, "ledger_pkey");
	negative.on_hand_after = -1;
	assert_int_equal(insert(pg, &negative, 1), LU_INTERNAL);
	assert_string_equal(pg_error(pg)->constraint, "ledger_never_oversold");
	lent.reserved_after = -1;
	assert_int_equal(insert(pg, &lent, 1), LU_INTERNAL);
	assert_string_equal(pg_error(pg)->constraint, "ledger_never_oversold");
	oversold.reserved_after = oversold.on_hand_after + 1;
	assert_int_equal(insert(pg, &oversold, 1), LU_INTERNAL);
	assert_string_equal(pg_error(pg)->constraint, "ledger_never_oversold");
	pg_free(pg);
}

static void nobody_rewrites_the_ledger(void **state)
{
	static const char *const changes[] = {"UPDATE ledger SET reference = 'x'", "DELETE FROM ledger", "TRUNCATE ledger",
	                                      "DELETE FROM ledger WHERE false", "TRUNCATE ledger, sku CASCADE"};
	int64_t a = make_sku("A", 100);
	struct pg *service = session(), *owner = owner_session();
	struct ledger_entry first = entry(a, 1);
	ok(service, insert(service, &first, 1));
	for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
		/* The service has no right to. */
		assert_int_equal(pg_command(service, changes[i], SOON), LU_DATABASE_UNAVAILABLE);
		assert_string_equal(pg_error(service)->sqlstate, "42501");
		/* The owner, a superuser even, meets the trigger; also one that says it is a replica. */
		assert_int_equal(pg_command(owner, changes[i], SOON), LU_INTERNAL);
		assert_string_equal(pg_error(owner)->sqlstate, "23001");
	}
	ok(owner, pg_command(owner, "SET session_replication_role = replica", SOON));
	assert_int_equal(pg_command(owner, changes[1], SOON), LU_INTERNAL);
	assert_string_equal(pg_error(owner)->sqlstate, "23001");
	assert_int_equal(ask_int("SELECT count(*) FROM lastunit.ledger WHERE reference IS NULL"), 1);
	pg_free(service);
	pg_free(owner);
}

static const struct CMUnitTest tests[] = {
	STORE_TEST(entries_are_read_back_by_pages_of_their_sku),
	STORE_TEST(entries_of_one_transaction_share_its_xid),
	STORE_TEST(two_entries_cannot_share_a_version_nor_show_what_cannot_be),
	STORE_TEST(nobody_rewrites_the_ledger),
};

STORE_MAIN(tests)
