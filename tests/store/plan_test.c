/* Plans: every hot statement stays an index scan, whenever its plan was made.
 *
 * A session plans each statement once (plan_cache_mode = force_generic_plan) and keeps the plan for as long as it lives,
 * so a plan made on the first day, for tables that were empty, serves the table of a million rows. Here the sessions
 * plan on empty tables, on vacuumed empty ones, on ten rows and on 200,000, analysed and not; then the plans of all
 * their prepared statements are looked at, the old ones again after the tables have grown.
 */
#include "store/checkout.h"
#include "store/epoch.h"
#include "store/holding.h"
#include "store/feed.h"
#include "store/idempotency.h"
#include "store/key.h"
#include "store/ledger.h"
#include "store/order.h"
#include "store/rows.h"

/* The statements of rows are others for one row (pg_params_init_rows). */
static void prepare_for_one_row(struct pg *pg)
{
	const struct text key = TEXT("a key of nobody's");
	const int64_t number = INT64_C(1) << 50;
	struct idempotency_row stored = {.principal_id = number, .key = key, .kind = 1, .status = TEXT("ok"), .at_us = 1};
	struct reservation *held = new_reservation(&number, 1, 1, 60);
	struct checkout sold = {.id = uuid_new(), .created_us = 1, .lines = held->lines, .line_count = 1},
					*checkouts[] = {&sold};
	struct ledger_entry entry = {.sku_id = number, .version = 1};
	struct locked_sku sku = {.id = number};
	sku_lock_send(pg, &arena, &key, 1, SKU_LOCK_WAIT);
	sku_lock_send(pg, &arena, &key, 1, SKU_LOCK_SKIP);
	sku_update_send(pg, &arena, &sku, 1);
	idempotency_read_send(pg, &arena, &number, &key, 1);
	idempotency_insert_send(pg, &arena, &stored, 1);
	reservation_insert_send(pg, &arena, &held, 1);
	checkout_insert_send(pg, &arena, checkouts, 1);
	ledger_insert_send(pg, &arena, &entry, 1);
}

/* Runs every statement of the store once, on whatever is there, so that it is prepared and planned. */
static void prepare_all(struct pg *pg)
{
	const struct text code = TEXT("no such code"), codes[] = {code, code};
	const struct uuid id = uuid_new();
	const int64_t number = INT64_C(1) << 50, numbers[] = {number, number};
	struct locked_sku sku = {.id = number}, skus[] = {sku, sku}, *asked[] = {&sku};
	struct checkout checkout = {.id = id}, *checkouts[] = {&checkout};
	struct sku_figures_row *figures;
	struct sku_page_row *page;
	struct reservation **reservations, *one;
	struct ledger_row *ledger;
	struct epoch_row epoch;
	size_t count;
	int64_t next_us;
	bool known;
	ok(pg, pg_command(pg, "BEGIN", SOON));
	epoch_enter_send(pg, &arena);
	sku_lock_send(pg, &arena, codes, 2, SKU_LOCK_WAIT);
	sku_lock_send(pg, &arena, codes, 2, SKU_LOCK_SKIP);
	sku_exist_send(pg, &arena, &code, 1);
	reservation_read_send(pg, &arena, &id, 1);
	checkout_read_send(pg, &arena, &id, 1);
	idempotency_read_send(pg, &arena, numbers, codes, 2);
	idempotency_insert_send(pg, &arena, NULL, 0);
	sku_update_send(pg, &arena, skus, 2);
	sku_insert_send(pg, &arena, NULL, 0);
	sku_describe_send(pg, &arena, NULL, NULL, 0);
	reservation_insert_send(pg, &arena, NULL, 0);
	reservation_change_send(pg, &arena, NULL, 0);
	checkout_insert_send(pg, &arena, NULL, 0);
	checkout_change_send(pg, &arena, checkouts, 1);
	struct order order = {.id = id, .number = code}, *orders[] = {&order};
	struct operation put = {.kind = OPERATION_ORDER_PUT, .principal.id = number, .number = code}, *puts[] = {&put};
	order_lock_send(pg, &arena, puts, 1);
	order_insert_send(pg, &arena, NULL, 0);
	order_change_send(pg, &arena, orders, 1);
	ledger_insert_send(pg, &arena, NULL, 0);
	prepare_for_one_row(pg);
	sent(pg);
	ended(pg);
	ok(pg, reservation_due(pg, &arena, asked, 1, 5, SOON, &reservations, &count));
	struct holdings holdings[] = {{1, {0}, 0, &(struct held){number, 0}, 1, false},
	                              {1, code, 0, &(struct held){number, 0}, 1, false}};
	ok(pg, holding_count(pg, &arena, holdings, 2, SOON));
	pg_rollback(pg, SOON);
	ok(pg, epoch_lease_read(pg, &arena, SOON, &epoch));
	ok(pg, sku_read(pg, &arena, &code, 1, SOON, &figures));
	ok(pg, sku_page(pg, &arena, code, true, 5, SOON, &page, &count));
	ok(pg, sku_page(pg, &arena, code, false, 5, SOON, &page, &count));
	struct uuid left_alone = id;
	int64_t left_alone_sku = 1;
	struct overdue_filter filter = {number, id, &left_alone, 1, &left_alone_sku, 1};
	ok(pg, reservation_overdue(pg, &arena, &filter, 5, SOON, &reservations, &count, &next_us));
	const struct reservation_filter filters[] = {{.reference = code, .limit = 5},
	                                             {.limit = 5},
	                                             {.sku = code, .state = RESERVATION_ACTIVE, .limit = 5}};
	for (int i = 0; i < 3; i++)
		ok(pg, reservation_page(pg, &arena, &filters[i], SOON, &reservations, &count, &left_alone));
	ok(pg, reservation_find(pg, &arena, &id, SOON, &one, &next_us));
	struct checkout **sold;
	ok(pg, checkout_page(pg, &arena, code, 0, NULL, 5, SOON, &sold, &count));
	struct order *found;
	ok(pg, order_read(pg, &arena, number, code, SOON, &found));
	ok(pg, ledger_page(pg, &arena, code, 0, 5, SOON, &ledger, &count, &known));
	struct ledger_walk_row *walked;
	ok(pg, ledger_walk(pg, &arena, number, number, 5, SOON, &walked, &count));
	struct text *languages;
	ok(pg, sku_languages(pg, &arena, number, 5, SOON, &languages, &count, &next_us));
	ok(pg, idempotency_prune(pg, 5, SOON, &count));
	const struct feed_position behind = {.xid = number};
	struct feed_state state;
	struct feed_row *feed;
	struct feed_change *changes;
	ok(pg, feed_look(pg, &arena, SOON, &state));
	ok(pg, feed_page(pg, &arena, &behind, 5, SOON, &state, &feed, &count));
	ok(pg, feed_changes(pg, &arena, &behind, 5, SOON, &state, &changes, &count, &known));
}

/* Tables of one row, which have no better plan than to read it. */
static bool is_small(const char *line)
{
	return strstr(line, " on cache_epoch") || strstr(line, " on keys_version");
}

static bool has_word(const char *line, const char *const *words)
{
	for (; *words; words++)
		if (strstr(line, *words))
			return true;
	return false;
}

/* What is wrong with a plan (rows of EXPLAIN), or NULL. */
static const char *plan_flaw(const PGresult *plan)
{
	static const char *const bad[] = {"Seq Scan on", "Bitmap", "Materialize", "Gather", NULL};
	for (int i = 0; i < PQntuples(plan); i++) {
		const char *line = PQgetvalue(plan, i, 0);
		if (has_word(line, bad) && !is_small(line))
			return line;
		if (!strstr(line, "Index Scan") && !strstr(line, "Index Only Scan"))
			continue;
		/* Its condition stands in the lines behind it, before the next node. A page through a whole table starts at a
		 * key, so it has one too. */
		bool bounded = false;
		for (int n = i + 1; n < PQntuples(plan) && !strstr(PQgetvalue(plan, n, 0), "->"); n++)
			bounded |= strstr(PQgetvalue(plan, n, 0), "Index Cond:") != NULL;
		if (!bounded)
			return line;
	}
	return NULL;
}

/* A join written as one may be of two results, never of a table. */
static const char *join_flaw(const PGresult *plan, const char *name)
{
	for (int i = 0; i < PQntuples(plan); i++)
		if ((strstr(PQgetvalue(plan, i, 0), "Hash Join") || strstr(PQgetvalue(plan, i, 0), "Merge Join")) &&
		    strcmp(name, "sku_insert") != 0)
			return PQgetvalue(plan, i, 0);
	return NULL;
}

/* Explains every prepared statement of the session with the plan that it keeps. */
static void check_plans(struct pg *pg, const char *when)
{
	PGconn *conn = pg_conn(pg);
	PGresult *all = PQexec(
		conn,
		"SELECT format('EXPLAIN (COSTS off) EXECUTE %I%s', name, CASE WHEN cardinality(parameter_types) > 0"
		" THEN '(' || array_to_string(array_fill('NULL'::text, ARRAY[cardinality(parameter_types)]), ',')"
		" || ')' ELSE '' END), name FROM pg_prepared_statements WHERE statement ~ '^(SELECT|WITH|INSERT|UPDATE|DELETE)'");
	assert_int_equal(PQresultStatus(all), PGRES_TUPLES_OK);
	assert_true(PQntuples(all) >= 51);
	int flaws = 0;
	for (int i = 0; i < PQntuples(all); i++) {
		PGresult *plan = PQexec(conn, PQgetvalue(all, i, 0));
		if (PQresultStatus(plan) != PGRES_TUPLES_OK)
			print_error("%s: %s", PQgetvalue(all, i, 0), PQerrorMessage(conn));
		assert_int_equal(PQresultStatus(plan), PGRES_TUPLES_OK);
		const char *flaw = plan_flaw(plan) ? plan_flaw(plan) : join_flaw(plan, PQgetvalue(all, i, 1));
		if (flaw) {
			flaws++;
			print_error("%s, %s: %s\n", when, PQgetvalue(all, i, 1), flaw);
			for (int n = 0; n < PQntuples(plan); n++)
				print_error("    %s\n", PQgetvalue(plan, n, 0));
		}
		PQclear(plan);
	}
	PQclear(all);
	assert_int_equal(flaws, 0);
}

static bool plan_uses(struct pg *pg, const char *statement, const char *index)
{
	PGresult *plan = PQexec(pg_conn(pg), statement);
	assert_int_equal(PQresultStatus(plan), PGRES_TUPLES_OK);
	bool uses = false;
	for (int i = 0; i < PQntuples(plan); i++)
		uses |= strstr(PQgetvalue(plan, i, 0), index) != NULL;
	PQclear(plan);
	return uses;
}

/* Two indexes yield the order by id, and the primary key is the wrong one: it would walk through everything. */
static void check_pages(struct pg *pg)
{
	assert_true(plan_uses(pg, "EXPLAIN EXECUTE reservation_page_reference(NULL, NULL, NULL, NULL, NULL, NULL)",
	                      "reservation_by_reference"));
	assert_true(plan_uses(pg, "EXPLAIN EXECUTE checkout_page(NULL, NULL, NULL, NULL)", "checkout_by_reference"));
	/* A hot SKU has the holds of everybody, and a principal those of all its callers. */
	assert_false(plan_uses(pg, "EXPLAIN EXECUTE holding_units(NULL, NULL, NULL)", "hold_by_sku"));
	assert_true(plan_uses(pg, "EXPLAIN EXECUTE holding_units(NULL, NULL, NULL)", "hold_by_principal"));
	assert_true(plan_uses(pg, "EXPLAIN EXECUTE holding_units(NULL, NULL, NULL)", "hold_by_caller"));
	assert_true(plan_uses(pg, "EXPLAIN EXECUTE holding_count(NULL, NULL)", "hold_by_principal"));
	assert_true(plan_uses(pg, "EXPLAIN EXECUTE holding_count(NULL, NULL)", "hold_by_caller"));
	assert_true(plan_uses(pg, "EXPLAIN EXECUTE feed_page(NULL, NULL, NULL, NULL)", "ledger_by_xid"));
	assert_true(plan_uses(pg, "EXPLAIN EXECUTE feed_changes(NULL, NULL, NULL, NULL)", "ledger_by_xid"));
}

/* n SKUs, each with a reservation that is live, one that has ended, a sale, an entry and a key. */
static void fill(int from, int to)
{
	char sql[4000];
	snprintf(
		sql, sizeof sql,
		"INSERT INTO lastunit.sku (code, on_hand, writer) SELECT 'sku-' || n, 100, gen_random_uuid()"
		"  FROM generate_series(%1$d, %2$d) n;"
		"INSERT INTO lastunit.sku_text (sku_id, titles) SELECT id, '{}' FROM lastunit.sku ON CONFLICT DO NOTHING;"
		"CREATE TEMP TABLE made AS SELECT gen_random_uuid() AS id, n, now() + n * interval '1 s' AS expires_at"
		"  FROM generate_series(%1$d, %2$d) n;"
		"INSERT INTO lastunit.reservation (id, created_at, expires_at, ended_at, principal_id, channel, state, reference,"
		"  sku_ids, quantities, counted, versions) SELECT id, now(), expires_at, NULL, 1, 1, 1, 'r' || n,"
		"  ARRAY[n::bigint], ARRAY[1], ARRAY[true], ARRAY[1] FROM made UNION ALL SELECT gen_random_uuid(), now(), expires_at, now(), 1,"
		"  1, 3, 'r' || n, ARRAY[n::bigint], ARRAY[1], ARRAY[true], ARRAY[1] FROM made;"
		"INSERT INTO lastunit.hold (reservation_id, sku_id, expires_at, quantity, counted, principal_id, caller)"
		"  SELECT id, n, expires_at, 1, true, 1 + n %% 2, CASE WHEN n %% 3 = 0 THEN 'c' || n %% 100 END FROM made;"
		"INSERT INTO lastunit.checkout (id, created_at, principal_id, reservation_id, channel, reference, sku_ids, quantities,"
		"  counted, versions, cancelled) SELECT id, now(), 1, id, 1, 'r' || n, ARRAY[n::bigint], '{1}', '{t}', '{1}', '{0}'"
		"  FROM made;"
		"INSERT INTO lastunit.orders (id, created_at, changed_at, principal_id, version, channel, number, sku_ids,"
		"  quantities, counted) SELECT id, now(), now(), 1, n, 5, 'o' || n, ARRAY[n::bigint], '{1}', '{1}' FROM made;"
		"INSERT INTO lastunit.ledger (sku_id, version, on_hand_delta, reserved_delta, on_hand_after, reserved_after, kind,"
		"  channel) SELECT n, 1, 1, 0, 1, 0, 1, 1 FROM made;"
		"INSERT INTO lastunit.idempotency (principal_id, at, kind, key, fingerprint, status, detail)"
		"  SELECT 1, now(), 1, 'k' || n, sha256('x'), CASE WHEN n %% 2 = 0 THEN 'ok' ELSE 'unknown_sku' END, '{}' FROM made",
		from, to);
	ask(sql);
}

static void hot_statements_stay_index_scans_on_tables_of_every_size(void **state)
{
	/* Each session keeps the plans of its day. */
	enum { EMPTY, VACUUMED, TEN, TEN_ANALYSED, GROWN, GROWN_ANALYSED, SESSIONS };
	static const char *const days[SESSIONS] = {"planned empty",
	                                           "planned vacuumed empty",
	                                           "planned with 10 rows",
	                                           "planned with 10 rows, analysed",
	                                           "planned with 200,000 rows",
	                                           "planned with 200,000 rows, analysed"};
	struct pg *sessions[SESSIONS];
	for (int day = 0; day < SESSIONS; day++) {
		if (day == TEN)
			fill(1, 10);
		if (day == GROWN)
			fill(11, 200000);
		if (day == VACUUMED || day == TEN_ANALYSED || day == GROWN_ANALYSED) {
			ask("VACUUM");
			ask("ANALYZE");
		}
		sessions[day] = owner_session();
		prepare_all(sessions[day]);
		for (int old = 0; old <= day; old++) {
			check_plans(sessions[old], days[old]);
			check_pages(sessions[old]);
		}
	}
	for (int i = 0; i < SESSIONS; i++)
		pg_free(sessions[i]);
}

/* The statistics of a shop that gave every order the same reference: walking the primary key, which yields the order
 * asked for, looks cheap, and would be a walk through everything for the shop that does not. */
static void a_page_by_reference_is_not_lured_to_the_order_by_id(void **state)
{
	fill(1, 20000);
	ask("UPDATE lastunit.reservation SET reference = 'the same'; UPDATE lastunit.checkout SET reference = 'the same'");
	ask("VACUUM");
	ask("ANALYZE");
	struct pg *pg = owner_session();
	prepare_all(pg);
	check_pages(pg);
	pg_free(pg);
}

/* Beside EXPLAIN: what a look-up really reads, in pages, on a big table with a plan made on an empty one. */
static void a_plan_made_on_an_empty_table_reads_a_few_pages_of_a_big_one(void **state)
{
	struct pg *pg = owner_session();
	prepare_all(pg);
	fill(1, 20000);
	struct text codes[10];
	for (int i = 0; i < 10; i++)
		codes[i] = arena_printf(&arena, "sku-%d", 1 + i * 1999);
	ok(pg, pg_command(pg, "SELECT pg_stat_force_next_flush()", SOON));
	int64_t before = ask_int("SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'sku_code_is_unique'");
	int64_t scans = ask_int("SELECT seq_scan + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'sku'");
	ok(pg, pg_command(pg, "BEGIN", SOON));
	sku_lock_send(pg, &arena, codes, 10, SKU_LOCK_WAIT);
	sent(pg);
	struct locked_sku *skus;
	size_t count;
	ok(pg, sku_lock_take(pg, SOON, &arena, &skus, &count));
	ended(pg);
	assert_int_equal(count, 10);
	sku_update_send(pg, &arena, skus, 10);
	sent(pg);
	ok(pg, sku_update_take(pg, SOON, 10));
	ended(pg);
	bool was_sent;
	ok(pg, pg_commit(pg, SOON, &was_sent));
	ok(pg, pg_command(pg, "SELECT pg_stat_force_next_flush()", SOON));
	pg_free(pg);
	assert_int_equal(ask_int(
						 "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'sku_code_is_unique'") -
	                     before,
	                 10);
	assert_in_range(ask_int("SELECT seq_scan + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'sku'") - scans,
	                20, 40);
}

static const struct CMUnitTest tests[] = {
	STORE_TEST(hot_statements_stay_index_scans_on_tables_of_every_size),
	STORE_TEST(a_page_by_reference_is_not_lured_to_the_order_by_id),
	STORE_TEST(a_plan_made_on_an_empty_table_reads_a_few_pages_of_a_big_one),
};

STORE_MAIN(tests)
