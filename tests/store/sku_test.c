/* SKU rows: locking in one order, changing, creating, describing, reading. */
#include "store/rows.h"

#include <poll.h>
#include <pthread.h>

static void lock(struct pg *pg, const struct text *codes, size_t count, enum sku_lock mode)
{
	ok(pg, pg_command(pg, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", SOON));
	sku_lock_send(pg, &arena, codes, count, mode);
	sent(pg);
}

static struct locked_sku *locked(struct pg *pg, size_t *ret_count)
{
	struct locked_sku *skus;
	ok(pg, sku_lock_take(pg, SOON, &arena, &skus, ret_count));
	ended(pg);
	return skus;
}

static void locked_rows_come_in_byte_order_of_code(void **state)
{
	const struct text codes[] = {TEXT("b"),       TEXT("B"), TEXT("\xC3\xA9"), TEXT("a"),
	                             TEXT("unknown"), TEXT("a"), TEXT("a b")};
	int64_t a = make_sku("a", LU_COUNT_MAX);
	make_sku("\xC3\xA9", 4), make_sku("a b", 3), make_sku("b", 1), make_sku("B", 2);
	struct pg *pg = session();
	size_t count;
	lock(pg, codes, sizeof codes / sizeof codes[0], SKU_LOCK_WAIT);
	struct locked_sku *skus = locked(pg, &count);
	static const char *const order[] = {"B", "a", "a b", "b", "\xC3\xA9"};
	assert_int_equal(count, 5);
	for (size_t i = 0; i < 5; i++)
		assert_text(skus[i].code, order[i]);
	assert_int_equal(skus[1].id, a);
	assert_int_equal(skus[1].figures.on_hand, LU_COUNT_MAX);
	assert_int_equal(skus[1].figures.version, 1);
	assert_true(skus[1].figures.tracked);
	pg_rollback(pg, SOON);
	lock(pg, codes, 0, SKU_LOCK_WAIT);
	locked(pg, &count);
	assert_int_equal(count, 0);
	pg_free(pg);
}

static void a_row_that_a_stranger_holds_is_skipped_but_known_to_exist(void **state)
{
	const struct text codes[] = {TEXT("free"), TEXT("held"), TEXT("unknown")};
	make_sku("free", 1), make_sku("held", 1);
	struct pg *stranger = session(), *pg = session();
	size_t count;
	lock(stranger, &codes[1], 1, SKU_LOCK_WAIT);
	locked(stranger, &count);
	ok(pg, pg_command(pg, "BEGIN", SOON));
	sku_lock_send(pg, &arena, codes, 3, SKU_LOCK_SKIP);
	sku_exist_send(pg, &arena, codes, 3);
	sent(pg);
	struct locked_sku *skus;
	struct text *existing;
	size_t existing_count;
	ok(pg, sku_lock_take(pg, SOON, &arena, &skus, &count));
	ok(pg, sku_exist_take(pg, SOON, &arena, &existing, &existing_count));
	ended(pg);
	assert_int_equal(count, 1);
	assert_text(skus[0].code, "free");
	assert_int_equal(existing_count, 2);
	pg_rollback(pg, SOON);
	/* Waiting for it ends by lock_timeout, as something to run again. */
	ok(pg, pg_command(pg, "SET lock_timeout = 20", SOON));
	lock(pg, codes, 3, SKU_LOCK_WAIT);
	assert_int_equal(sku_lock_take(pg, SOON, &arena, &skus, &count), LU_OVERLOADED);
	assert_int_equal(pg_error(pg)->class, PG_RETRY);
	assert_string_equal(pg_error(pg)->sqlstate, "55P03");
	pg_free(pg);
	pg_free(stranger);
}

/* What was committed while the lock was waited for is what the lock returns (B05). */
static void a_lock_that_waited_returns_the_row_as_it_is_now(void **state)
{
	const struct text code = TEXT("A");
	make_sku("A", 10);
	struct pg *first = session(), *second = session();
	size_t count;
	lock(first, &code, 1, SKU_LOCK_WAIT);
	struct locked_sku *skus = locked(first, &count);
	lock(second, &code, 1, SKU_LOCK_WAIT); /* sent: it waits */
	char waits[128];
	snprintf(waits, sizeof waits, "SELECT count(*) FROM pg_locks WHERE pid = %d AND NOT granted",
	         PQbackendPID(pg_conn(second)));
	while (ask_int(waits) == 0)
		poll(NULL, 0, 5);
	skus[0].figures.on_hand = 3;
	skus[0].figures.reserved = 1;
	skus[0].figures.version = 2;
	sku_update_send(first, &arena, skus, 1);
	sent(first);
	ok(first, sku_update_take(first, SOON, 1));
	ended(first);
	bool was_sent;
	ok(first, pg_commit(first, SOON, &was_sent));
	skus = locked(second, &count);
	assert_int_equal(count, 1);
	assert_int_equal(skus[0].figures.on_hand, 3);
	assert_int_equal(skus[0].figures.version, 2);
	pg_free(first);
	pg_free(second);
}

struct contender {
	pthread_t thread;
	bool backwards;
	struct pg *pg;
	int rounds, deadlocks;
	char failure[300];
};

/* Threads hand their findings over; the test's own thread asserts. */
static void *contend(void *context)
{
	static const struct text forwards[] = {TEXT("A"), TEXT("B"), TEXT("C"), TEXT("D")};
	static const struct text backwards[] = {TEXT("D"), TEXT("C"), TEXT("B"), TEXT("A")};
	struct contender *c = context;
	struct arena own;
	arena_init(&own, 4096);
	for (int i = 0; i < c->rounds && !c->failure[0]; i++) {
		struct locked_sku *skus;
		size_t count = 0;
		bool was_sent;
		arena_reset(&own);
		enum lu_error error = pg_command(c->pg, "BEGIN", SOON);
		sku_lock_send(c->pg, &own, c->backwards ? backwards : forwards, 4, SKU_LOCK_WAIT);
		error = error ? error : pg_pipe_send(c->pg, SOON);
		error = error ? error : sku_lock_take(c->pg, SOON, &own, &skus, &count);
		enum lu_error end = pg_pipe_end(c->pg, SOON);
		error = error ? error : end;
		if (!error)
			error = pg_commit(c->pg, SOON, &was_sent);
		if (error || count != 4)
			snprintf(c->failure, sizeof c->failure, "%s %s", pg_error(c->pg)->sqlstate, pg_error(c->pg)->message);
	}
	arena_done(&own);
	return NULL;
}

static void two_who_lock_the_same_rows_in_other_orders_never_deadlock(void **state)
{
	/* Ids against the order of codes, so neither order of codes is that of ids. */
	make_sku("C", 1), make_sku("A", 1), make_sku("D", 1), make_sku("B", 1);
	struct contender contenders[4] = {{0}};
	for (int i = 0; i < 4; i++) {
		contenders[i].backwards = i % 2 == 1;
		contenders[i].rounds = 300;
		contenders[i].pg = session();
		assert_int_equal(pthread_create(&contenders[i].thread, NULL, contend, &contenders[i]), 0);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(contenders[i].thread, NULL);
		assert_string_equal(contenders[i].failure, "");
		pg_free(contenders[i].pg);
	}
	assert_int_equal(ask_int("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"), 0);
}

/* Ids are the order, not codes: a waiter holds what comes before the row it waits for, and nothing behind it. */
static void rows_are_locked_in_the_order_of_their_ids(void **state)
{
	const struct text codes[] = {TEXT("A"), TEXT("B"), TEXT("C"), TEXT("D")};
	make_sku("C", 1), make_sku("A", 1), make_sku("D", 1), make_sku("B", 1);
	struct pg *stranger = session(), *waiter = session(), *pg = session();
	size_t count;
	lock(stranger, &codes[3], 1, SKU_LOCK_WAIT);
	locked(stranger, &count);
	lock(waiter, codes, 4, SKU_LOCK_WAIT);
	char waits[128];
	snprintf(waits, sizeof waits, "SELECT count(*) FROM pg_locks WHERE pid = %d AND NOT granted",
	         PQbackendPID(pg_conn(waiter)));
	while (ask_int(waits) == 0)
		poll(NULL, 0, 5);
	lock(pg, codes, 4, SKU_LOCK_SKIP);
	struct locked_sku *skus = locked(pg, &count);
	assert_int_equal(count, 1);
	assert_text(skus[0].code, "B");
	pg_rollback(pg, SOON);
	pg_rollback(stranger, SOON);
	locked(waiter, &count);
	assert_int_equal(count, 4);
	pg_free(stranger);
	pg_free(waiter);
	pg_free(pg);
}

static void updates_reach_their_own_rows_and_stay_hot(void **state)
{
	enum { COUNT = 300 };
	struct text codes[COUNT];
	struct pg *pg = session();
	for (int i = 0; i < COUNT; i++) {
		codes[i] = arena_printf(&arena, "sku-%03d", COUNT - i); /* ids run against codes */
		char sql[200];
		snprintf(sql, sizeof sql,
		         "INSERT INTO lastunit.sku (code, on_hand, writer) VALUES ('%s', 5, gen_random_uuid())", codes[i].data);
		if (i < 3)
			ask(sql);
	}
	ask("INSERT INTO lastunit.sku (code, on_hand, writer) SELECT 'sku-' || lpad(n::text, 3, '0'), 5, gen_random_uuid()"
	    " FROM generate_series(297, 1, -1) n");
	static const int64_t numbers[] = {1, 255, 256, 65536, INT64_C(1) << 31, INT64_C(1) << 40, LU_COUNT_MAX};
	size_t count;
	const char *writer = ask("SELECT writer FROM lastunit.sku WHERE code = 'sku-007'");
	for (int round = 0; round < 2; round++) {
		lock(pg, codes, COUNT, SKU_LOCK_WAIT);
		struct locked_sku *skus = locked(pg, &count);
		assert_int_equal(count, COUNT);
		for (size_t i = 0; i < count; i++) {
			struct figures *f = &skus[i].figures;
			int64_t number = numbers[i % 7];
			f->on_hand = number;
			f->reserved = number - (int64_t)(i % 2);
			f->safety_stock = number;
			f->version += 1 + number / 4;
			f->tracked = i % 3 == 0;
		}
		sku_update_send(pg, &arena, skus, count);
		sent(pg);
		ok(pg, sku_update_take(pg, SOON, count));
		ended(pg);
		bool was_sent;
		ok(pg, pg_commit(pg, SOON, &was_sent));
		struct sku_figures_row *rows;
		ok(pg, sku_read(pg, &arena, codes, COUNT, SOON, &rows));
		for (size_t i = 0; i < count; i++) { /* skus are in code order, codes the other way round */
			assert_true(rows[COUNT - 1 - i].known);
			assert_int_equal(rows[COUNT - 1 - i].id, skus[i].id);
			assert_memory_equal(&rows[COUNT - 1 - i].figures, &skus[i].figures, offsetof(struct figures, tracked));
			assert_int_equal(rows[COUNT - 1 - i].figures.tracked, skus[i].figures.tracked);
		}
	}
	assert_string_not_equal(writer, ask("SELECT writer FROM lastunit.sku WHERE code = 'sku-007'"));
	assert_int_equal(ask_int("SELECT count(DISTINCT writer) FROM lastunit.sku"), 1);
	pg_free(pg); /* its statistics are there when it is gone */
	while (ask_int("SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'sku'") < 2 * COUNT)
		poll(NULL, 0, 5);
	assert_true(ask_int("SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'sku'") >= 2 * COUNT - 10);
}

static void the_database_refuses_what_the_decision_must_never_ask(void **state)
{
	static const struct {
		int64_t on_hand, reserved, safety_stock;
		const char *constraint;
	} cases[] = {
		{1, 2, 0, "sku_never_oversold"},
		{-1, -1, 0, "sku_figures_stay_in_range"},
		{LU_COUNT_MAX + 1, 0, 0, "sku_figures_stay_in_range"},
		{1, -1, 0, "sku_figures_stay_in_range"},
		{1, 0, -1, "sku_figures_stay_in_range"},
		{1, 0, LU_COUNT_MAX + 1, "sku_figures_stay_in_range"},
	};
	const struct text code = TEXT("A");
	make_sku("A", 10);
	struct pg *pg = session();
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		size_t count;
		lock(pg, &code, 1, SKU_LOCK_WAIT);
		struct locked_sku *skus = locked(pg, &count);
		skus[0].figures.on_hand = cases[i].on_hand;
		skus[0].figures.reserved = cases[i].reserved;
		skus[0].figures.safety_stock = cases[i].safety_stock;
		sku_update_send(pg, &arena, skus, 1);
		sent(pg);
		assert_int_equal(sku_update_take(pg, SOON, 1), LU_INTERNAL);
		assert_int_equal(pg_error(pg)->class, PG_VIOLATION);
		assert_string_equal(pg_error(pg)->constraint, cases[i].constraint);
		pg_rollback(pg, SOON);
	}
	assert_string_equal(ask("SELECT (on_hand, reserved, version) FROM lastunit.sku"), "(10,0,1)");
	pg_free(pg);
}

/* After a restore without that constraint: the batch fails by an error, and the service goes on. */
static void two_skus_of_one_code_are_an_error(void **state)
{
	const struct text codes[] = {TEXT("A"), TEXT("B")};
	make_sku("A", 1), make_sku("B", 1);
	ask("ALTER TABLE lastunit.sku DROP CONSTRAINT sku_code_is_unique;"
	    "CREATE INDEX ON lastunit.sku (code); INSERT INTO lastunit.sku (code) VALUES ('A')");
	struct pg *pg = session();
	for (size_t n = 1; n <= 2; n++) {
		struct locked_sku *skus;
		size_t count;
		lock(pg, codes, n, SKU_LOCK_WAIT);
		assert_int_equal(sku_lock_take(pg, SOON, &arena, &skus, &count), LU_INTERNAL);
		assert_int_equal(pg_error(pg)->class, PG_VIOLATION);
		ended(pg);
		pg_rollback(pg, SOON);
	}
	pg_free(pg);
}

/* Nothing can be decided on them, and the decision would end the service. */
static void figures_that_cannot_be_are_an_error(void **state)
{
	const struct text codes[] = {TEXT("A"), TEXT("B")};
	make_sku("A", 1), make_sku("B", 1);
	ask("ALTER TABLE lastunit.sku DROP CONSTRAINT sku_never_oversold;"
	    "UPDATE lastunit.sku SET reserved = 2, writer = gen_random_uuid() WHERE code = 'B'");
	struct pg *pg = session();
	struct locked_sku *skus;
	size_t count;
	lock(pg, codes, 2, SKU_LOCK_WAIT);
	assert_int_equal(sku_lock_take(pg, SOON, &arena, &skus, &count), LU_INTERNAL);
	assert_int_equal(pg_error(pg)->class, PG_VIOLATION);
	assert_string_equal(pg_error(pg)->message, "the figures of SKU B cannot be: see lastunit audit");
	ended(pg);
	pg_rollback(pg, SOON);
	lock(pg, codes, 1, SKU_LOCK_WAIT);
	assert_int_equal(locked(pg, &count)->figures.on_hand, 1);
	pg_rollback(pg, SOON);
	pg_free(pg);
}

/* A code is looked at by triggers where it comes in, and named by them as a CHECK would be. */
static void the_database_refuses_codes_that_nobody_could_name(void **state)
{
	static const struct {
		const char *code, *sqlstate;
	} cases[] = {
		{"repeat('x', 128)", ""},
		{"repeat('x', 129)", "23514"},
		{"repeat(U&'\\00e9', 65)", "23514"},
		{"''", "23514"},
		{"'x y'", ""},
		{"' x'", "23514"},
		{"'x '", "23514"},
		{"E'x\\ty'", "23514"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		for (int ours = 0; ours < 2; ours++) {
			char sqlstate[6];
			pg_server_try(url,
			              arena_printf(&arena,
			                           "BEGIN; INSERT INTO lastunit.sku (code, writer) VALUES (%s, %s); ROLLBACK",
			                           cases[i].code, ours ? "gen_random_uuid()" : "NULL")
			                  .data,
			              sqlstate);
			assert_string_equal(sqlstate, cases[i].sqlstate);
		}
	struct pg *pg = owner_session();
	assert_int_equal(pg_command(pg, "INSERT INTO sku (code) VALUES (repeat('x', 129))", SOON), LU_INTERNAL);
	assert_string_equal(pg_error(pg)->constraint, "sku_code_has_1_to_128_bytes");
	pg_free(pg);
	/* Nor by a trigger that comes behind ours, nor afterwards. */
	ask("INSERT INTO lastunit.sku (code, writer) VALUES ('CHANGED', gen_random_uuid());"
	    "CREATE FUNCTION public.lengthen() RETURNS trigger LANGUAGE plpgsql AS"
	    " $$BEGIN NEW.code := NEW.code || repeat('x', 128); RETURN NEW; END$$;"
	    "CREATE TRIGGER zzz_lengthens BEFORE INSERT ON lastunit.sku FOR EACH ROW EXECUTE FUNCTION public.lengthen()");
	static const char *const later[] = {
		"INSERT INTO lastunit.sku (code) VALUES ('y')",
		"INSERT INTO lastunit.sku (code, writer) VALUES ('y', gen_random_uuid())",
		"UPDATE lastunit.sku SET code = repeat('x', 129), writer = gen_random_uuid() WHERE code = 'CHANGED'",
		"UPDATE lastunit.sku SET code = ' x', writer = gen_random_uuid() WHERE code = 'CHANGED'",
	};
	for (size_t i = 0; i < sizeof later / sizeof later[0]; i++) {
		char sqlstate[6];
		pg_server_try(url, later[i], sqlstate);
		assert_string_equal(sqlstate, "23514");
	}
}

static struct operation *put(struct text code, const char *titles, const struct text *names, size_t name_count)
{
	struct operation *op = ARENA_NEW(&arena, struct operation);
	*op = (struct operation){
		.kind = OPERATION_SKU_PUT,
		.principal = {.id = 9, .channel = CHANNEL_ADMIN},
		.lines = ARENA_NEW(&arena, struct line),
		.line_count = 1,
		.reference = TEXT("delivery 5"),
		.sku_change = ARENA_NEW(&arena, struct sku_change),
		.new_id = uuid_new(),
	};
	op->lines[0].sku = code;
	op->sku_change->titles_given = titles;
	op->sku_change->titles_json = titles ? text_of(titles) : (struct text){0};
	op->sku_change->names_given = names;
	op->sku_change->names = (struct text *)names;
	op->sku_change->name_count = name_count;
	return op;
}

static enum lu_error insert(struct pg *pg, const struct sku_insert *inserts, size_t count)
{
	sku_insert_send(pg, &arena, inserts, count);
	sent(pg);
	enum lu_error error = sku_insert_take(pg, SOON), end = pg_pipe_end(pg, SOON);
	return error ? error : end;
}

static void new_skus_come_with_their_names_and_their_first_entry(void **state)
{
	static const struct text names[] = {TEXT("caf\xC3\xA9"), TEXT("a \"b\", {c}"), TEXT("")};
	struct sku_insert inserts[] = {
		{put(TEXT("A"), "{\"en\": \"Tea\"}", names, 3), {1, LU_COUNT_MAX, 0, 5, true}},
		{put(TEXT("B"), NULL, NULL, 0), {1, 0, 0, 0, false}},
		{put(TEXT("C"), NULL, names, 0), {1, 255, 0, 256, true}},
	};
	inserts[1].operation->principal.id = 0;
	inserts[1].operation->principal.channel = CHANNEL_SYSTEM;
	inserts[1].operation->reference = (struct text){0};
	inserts[1].operation->new_id = (struct uuid){{0}};
	struct pg *pg = session();
	ok(pg, insert(pg, inserts, 3));
	struct sku_page_row *rows;
	size_t count;
	ok(pg, sku_page(pg, &arena, (struct text){0}, false, 10, SOON, &rows, &count));
	assert_int_equal(count, 3);
	assert_text(rows[0].code, "A");
	assert_int_equal(rows[0].figures.on_hand, LU_COUNT_MAX);
	assert_int_equal(rows[0].figures.safety_stock, 5);
	assert_int_equal(rows[0].figures.version, 1);
	assert_text(rows[0].titles_json, "{\"en\": \"Tea\"}");
	assert_int_equal(rows[0].name_count, 3);
	for (int i = 0; i < 3; i++)
		assert_true(text_equal(rows[0].names[i], names[i]));
	assert_text(rows[1].titles_json, "{}");
	assert_int_equal(rows[1].name_count, 0);
	assert_false(rows[1].figures.tracked);
	assert_int_equal(rows[2].name_count, 0);
	char id[UUID_TEXT_BYTES + 1];
	uuid_format(&inserts[0].operation->new_id, id);
	assert_string_equal(
		ask("SELECT concat_ws(' ', version, kind, on_hand_delta, reserved_delta, on_hand_after, reserved_after,"
	        " channel, principal_id, reference, operation_id) FROM lastunit.ledger l"
	        " WHERE sku_id = (SELECT id FROM lastunit.sku WHERE code = 'A')"),
		arena_printf(&arena, "1 1 1000000000000000 0 1000000000000000 0 7 9 delivery 5 %s", id).data);
	assert_string_equal(
		ask("SELECT (on_hand_delta, channel, principal_id, reference, operation_id) FROM lastunit.ledger"
	        " WHERE sku_id = (SELECT id FROM lastunit.sku WHERE code = 'B')"),
		"(0,9,,,)");
	/* One of them exists: none is made. */
	struct sku_insert more[] = {{put(TEXT("D"), NULL, NULL, 0), {1, 1, 0, 0, true}},
	                            {put(TEXT("B"), NULL, NULL, 0), {1, 1, 0, 0, true}}};
	assert_int_equal(insert(pg, more, 2), LU_INTERNAL);
	assert_int_equal(pg_error(pg)->class, PG_DUPLICATE);
	assert_string_equal(pg_error(pg)->constraint, "sku_code_is_unique");
	assert_int_equal(ask_int("SELECT count(*) FROM lastunit.sku"), 3);
	ok(pg, insert(pg, NULL, 0));
	pg_free(pg);
}

static void a_sku_that_a_trigger_swallows_is_an_error(void **state)
{
	struct pg *pg = session();
	ask("CREATE FUNCTION public.swallow() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NULL; END$$;"
	    "CREATE TRIGGER swallows BEFORE INSERT ON lastunit.sku FOR EACH ROW WHEN (NEW.code = 'A')"
	    " EXECUTE FUNCTION public.swallow()");
	struct sku_insert inserts[] = {{put(TEXT("A"), NULL, NULL, 0), {1, 1, 0, 0, true}},
	                               {put(TEXT("B"), NULL, NULL, 0), {1, 1, 0, 0, true}}};
	assert_int_equal(insert(pg, inserts, 2), LU_INTERNAL);
	assert_int_equal(pg_error(pg)->class, PG_VIOLATION);
	pg_free(pg);
}

static void only_what_is_given_is_described_anew(void **state)
{
	static const struct text old_names[] = {TEXT("old")}, new_names[] = {TEXT("new"), TEXT("newer")};
	int64_t ids[4] = {make_sku("A", 1), make_sku("B", 1)};
	struct pg *pg = session();
	struct operation *first[] = {put(TEXT("A"), "{\"en\": \"a\"}", old_names, 1)};
	sku_describe_send(pg, &arena, first, ids, 1);
	sent(pg);
	ok(pg, sku_describe_take(pg, SOON));
	ended(pg);
	/* Twice the same SKU in one batch: later ones win, field by field. */
	struct operation *puts[] = {put(TEXT("A"), NULL, new_names, 2), put(TEXT("B"), "{\"de\": \"b\"}", NULL, 0),
	                            put(TEXT("B"), NULL, old_names, 1), put(TEXT("B"), "{\"de\": \"c\"}", NULL, 0)};
	int64_t put_ids[] = {ids[0], ids[1], ids[1], ids[1]};
	sku_describe_send(pg, &arena, puts, put_ids, 4);
	sent(pg);
	ok(pg, sku_describe_take(pg, SOON));
	ended(pg);
	assert_string_equal(
		ask("SELECT string_agg(titles::text || names::text, ' ' ORDER BY sku_id) FROM lastunit.sku_text"),
		"{\"en\": \"a\"}{new,newer} {\"de\": \"c\"}{old}");
	/* Given and empty is not the same as not given. */
	struct operation *none[] = {put(TEXT("A"), "{}", new_names, 0)};
	sku_describe_send(pg, &arena, none, ids, 1);
	sent(pg);
	ok(pg, sku_describe_take(pg, SOON));
	ended(pg);
	struct sku_page_row *rows;
	size_t count;
	ok(pg, sku_page(pg, &arena, TEXT("A"), true, 1, SOON, &rows, &count));
	assert_int_equal(count, 1);
	assert_int_equal(rows[0].name_count, 0);
	assert_text(rows[0].titles_json, "{}");
	pg_free(pg);
}

static void pages_follow_the_byte_order_of_codes(void **state)
{
	static const char *const order[] = {"A", "B", "a", "b", "\xC3\xA9"};
	make_sku("b", 1), make_sku("A", 1), make_sku("\xC3\xA9", 1), make_sku("a", 1), make_sku("B", 1);
	struct pg *pg = session();
	struct text after = {0};
	for (size_t i = 0; i < 5; i += 2) {
		struct sku_page_row *rows;
		size_t count;
		ok(pg, sku_page(pg, &arena, after, false, 2, SOON, &rows, &count));
		assert_int_equal(count, i < 4 ? 2 : 1);
		for (size_t n = 0; n < count; n++)
			assert_text(rows[n].code, order[i + n]);
		after = rows[count - 1].code;
	}
	struct sku_page_row *rows;
	size_t count;
	ok(pg, sku_page(pg, &arena, after, false, 2, SOON, &rows, &count));
	assert_int_equal(count, 0);
	ok(pg, sku_page(pg, &arena, TEXT("c"), true, 2, SOON, &rows, &count));
	assert_int_equal(count, 0);
	pg_free(pg);
}

static void figures_are_read_in_the_order_asked(void **state)
{
	const struct text codes[] = {TEXT("B"), TEXT("unknown"), TEXT("A"), TEXT("B"), TEXT("B\0"), TEXT("b")};
	int64_t a = make_sku("A", 1), b = make_sku("B", 2);
	struct pg *pg = session();
	struct sku_figures_row *rows;
	ok(pg, sku_read(pg, &arena, codes, 4, SOON, &rows));
	assert_int_equal(rows[0].id, b);
	assert_int_equal(rows[0].figures.on_hand, 2);
	assert_false(rows[1].known);
	assert_int_equal(rows[2].id, a);
	assert_int_equal(rows[3].id, b);
	ok(pg, sku_read(pg, &arena, &codes[5], 1, SOON, &rows));
	assert_false(rows[0].known);
	ok(pg, sku_read(pg, &arena, codes, 0, SOON, &rows));
	pg_free(pg);
}

static const struct CMUnitTest tests[] = {
	STORE_TEST(locked_rows_come_in_byte_order_of_code),
	STORE_TEST(a_row_that_a_stranger_holds_is_skipped_but_known_to_exist),
	STORE_TEST(a_lock_that_waited_returns_the_row_as_it_is_now),
	STORE_TEST(two_who_lock_the_same_rows_in_other_orders_never_deadlock),
	STORE_TEST(rows_are_locked_in_the_order_of_their_ids),
	STORE_TEST(updates_reach_their_own_rows_and_stay_hot),
	STORE_TEST(the_database_refuses_what_the_decision_must_never_ask),
	STORE_TEST(two_skus_of_one_code_are_an_error),
	STORE_TEST(figures_that_cannot_be_are_an_error),
	STORE_TEST(the_database_refuses_codes_that_nobody_could_name),
	STORE_TEST(new_skus_come_with_their_names_and_their_first_entry),
	STORE_TEST(a_sku_that_a_trigger_swallows_is_an_error),
	STORE_TEST(only_what_is_given_is_described_anew),
	STORE_TEST(pages_follow_the_byte_order_of_codes),
	STORE_TEST(figures_are_read_in_the_order_asked),
};

STORE_MAIN(tests)
