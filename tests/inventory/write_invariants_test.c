/* What is written: the invariants of src/inventory/README.md that keep an effect whole, one, and behind its locks (I1 to
 * I4, I11, I13), each forced: by a stranger's lock, a planted constraint, a COMMIT cut off. What is waited for is always an
 * event, never a time. What is answered meanwhile: answer_invariants_test.c. */
#include "inventory/house_fixture.h"

#include <pthread.h>

#include "store/pg.h"

static int open_house_of_patient_locks(void **state)
{
	return open_house_with(&house_config.lock_timeout_ms, 4000);
}

static void I1_a_failed_operation_leaves_no_trace_and_its_neighbours_stand(void **state)
{
	make_sku(&h, "A", 10);
	make_sku(&h, "B", 10);
	sql(&h, "ALTER TABLE lastunit.sku ADD CONSTRAINT planted CHECK (code <> 'A' OR on_hand > 8) NOT VALID");
	struct pg *blocker = stranger(&h);
	/* All three gather behind a stranger's lock on B, so that they share batches. */
	tell(blocker, "BEGIN");
	tell(blocker, "SELECT FROM lastunit.sku FOR UPDATE");
	struct attempt_at *good = begin(&h, OPERATION_CHECKOUT, "B1", NULL);
	struct attempt_at *bad = begin(&h, OPERATION_CHECKOUT, "A3 B1", "bad");
	struct attempt_at *also_good = begin(&h, OPERATION_CHECKOUT, "B2", NULL);
	wait_for_a_waiter("lastunit writer");
	tell(blocker, "COMMIT");
	assert_int_equal(await(good)->error, LU_OK);
	assert_int_equal(await(bad)->error, LU_INTERNAL);
	assert_int_equal(await(also_good)->error, LU_OK);
	forget(good), forget(bad), forget(also_good), pg_free(blocker);
	assert_string_equal(sql(&h, "SELECT string_agg(on_hand::text, ' ' ORDER BY code) FROM lastunit.sku"), "10 7");
	assert_string_equal(sql(&h, "SELECT count(*) FROM lastunit.idempotency WHERE key = 'bad'"), "0");
	/* 5xx is not stored: mended, the same key runs (B50). */
	sql(&h, "ALTER TABLE lastunit.sku DROP CONSTRAINT planted");
	assert_int_equal(run(&h, OPERATION_CHECKOUT, "A3 B1", "bad"), LU_OK);
}

static void I2_a_cart_is_decided_by_what_was_committed_while_it_waited(void **state)
{
	make_sku(&h, "A", 5);
	struct pg *other = stranger(&h);
	tell(other, "BEGIN");
	tell(other, "UPDATE lastunit.sku SET on_hand = 1, version = 2, writer = gen_random_uuid() WHERE code = 'A'");
	tell(other,
	     "INSERT INTO lastunit.ledger (sku_id, version, on_hand_delta, reserved_delta, on_hand_after,"
	     " reserved_after, kind, channel) SELECT id, 2, -4, 0, 1, 0, 2, 1 FROM lastunit.sku WHERE code = 'A'");
	struct attempt_at *cart = begin(&h, OPERATION_CHECKOUT, "A2", NULL);
	wait_for_a_waiter("lastunit writer");
	tell(other, "COMMIT");
	assert_int_equal(await(cart)->error, LU_INSUFFICIENT_STOCK);
	assert_int_equal(await(cart)->shortages[0].available, 1);
	forget(cart), pg_free(other);
}

/* Whose transaction has the only SKU locked until it is told to end. */
static struct pg *stranger_with_the_row(void)
{
	struct pg *other = stranger(&h);
	tell(other, "BEGIN");
	tell(other, "SELECT FROM lastunit.sku FOR UPDATE");
	return other;
}

/* B22: the transaction begins before the end of the hold and wakes after it. */
static void I2_the_time_is_read_after_the_locks(void **state)
{
	make_sku(&h, "A", 1);
	struct uuid id = hold_for(&h, "A1", 2);
	struct pg *other = stranger_with_the_row();
	struct attempt_at *commit = begin_by_id(&h, OPERATION_COMMIT, id);
	wait_for_a_waiter("lastunit writer");
	tell(other, "SELECT pg_sleep_until((SELECT expires_at FROM lastunit.reservation) + interval '1 ms')");
	tell(other, "COMMIT");
	assert_int_equal(await(commit)->error, LU_RESERVATION_EXPIRED);
	forget(commit), pg_free(other);
	assert_int_equal(run(&h, OPERATION_CHECKOUT, "A1", NULL), LU_OK);
}

struct carts {
	struct house *house;
	const char *lines;
	int sold, other;
};

static void *sell_carts(void *context)
{
	struct carts *c = context;
	for (int i = 0; i < 150; i++) {
		struct attempt_at *carts[4];
		for (int j = 0; j < 4; j++)
			carts[j] = begin(c->house, OPERATION_CHECKOUT, c->lines, NULL);
		for (int j = 0; j < 4; j++) {
			if (await(carts[j])->error == LU_OK)
				c->sold++;
			else
				c->other++;
			forget(carts[j]);
		}
	}
	return NULL;
}

/* B74, and with two instances: no queue keeps their carts apart, only the order of the locks does. */
static void I3_two_instances_and_carts_in_any_order_never_deadlock(void **state)
{
	for (const char *code = "CBA"; *code; code++)
		make_sku(&h, (char[]){*code, 0}, 100000);
	static struct house second; /* its threads outlive a failed assertion */
	house_open(&second, &h);
	static const char *const lines[] = {"A1 B1", "B1 A1", "A1 B1 C1", "C1 B1 A1", "C1 A1", "B1 C1"};
	struct carts carts[6];
	pthread_t threads[6];
	for (int i = 0; i < 6; i++) {
		carts[i] = (struct carts){i % 2 ? &second : &h, lines[i], 0, 0};
		assert_int_equal(pthread_create(&threads[i], NULL, sell_carts, &carts[i]), 0);
	}
	for (int i = 0; i < 6; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 6; i++) {
		assert_int_equal(carts[i].sold, 600);
		assert_int_equal(carts[i].other, 0);
	}
	house_close(&second);
	assert_string_equal(sql(&h, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"), "0");
	assert_string_equal(sql(&h, "SELECT string_agg((100000 - on_hand)::text, ' ' ORDER BY code) FROM lastunit.sku"),
	                    "3000 3000 2400");
}

static void commit_lost(enum proxy_action how, unsigned expected_unknown)
{
	make_sku(&h, "A", 10);
	assert_int_equal(run(&h, OPERATION_CHECKOUT, "A1", NULL), LU_OK);
	int64_t unknown = metric_get(METRIC_OUTCOME_UNKNOWN);
	/* With one writer everything is prepared by now: COMMIT travels as text only as itself ("READ COMMITTED" is past). */
	proxy_when(&h.pg_proxy, PROXY_TO_SERVER, "COMMIT", how);
	assert_int_equal(run(&h, OPERATION_CHECKOUT, "A1", "once"), LU_OK);
	proxy_wait_matches(&h.pg_proxy, 1);
	assert_int_equal(metric_get(METRIC_OUTCOME_UNKNOWN) - unknown, expected_unknown);
	assert_string_equal(sql(&h, "SELECT on_hand FROM lastunit.sku WHERE code = 'A'"), "8");
	assert_int_equal(run(&h, OPERATION_CHECKOUT, "A1", "once"), LU_OK);
	assert_string_equal(sql(&h, "SELECT on_hand FROM lastunit.sku WHERE code = 'A'"), "8");
	assert_int_equal(look(&h, "A").figures.on_hand, 8);
}

/* B54 (a): the server never saw it. */
static void I4_a_commit_cut_off_before_the_server_sells_once(void **state)
{
	commit_lost(PROXY_CUT_BEFORE, 1);
}

/* B54 (b): the server did it, the answer was lost. */
static void I4_a_commit_whose_answer_is_lost_sells_once(void **state)
{
	commit_lost(PROXY_CUT_AFTER_ANSWER, 1);
}

/* `told`: the SQLSTATE that the service is told in place of the server's; NULL: the server's. */
static void session_ended_inside_commit(const char *told)
{
	make_sku(&h, "A", 10);
	sql(&h, STOP_AT_COMMIT);
	struct pg *other = stranger(&h);
	tell(other, "SELECT pg_advisory_lock(77)");
	struct attempt_at *cart = begin(&h, OPERATION_CHECKOUT, "A1", "once");
	wait_sql(&h, WAITING_AT_COMMIT, "t");
	if (told)
		proxy_replace(&h.pg_proxy, PROXY_TO_CLIENT, "57P01", told);
	sql(&h,
	    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objid = 77 AND NOT granted");
	if (told)
		proxy_wait_matches(&h.pg_proxy, 1);
	tell(other, "SELECT pg_advisory_unlock(77)");
	assert_int_equal(await(cart)->error, LU_OK);
	forget(cart), pg_free(other);
	assert_string_equal(sql(&h, "SELECT on_hand FROM lastunit.sku"), "9");
}

/* B54 (c): the session is ended while it commits. */
static void I4_a_session_ended_inside_commit_sells_once(void **state)
{
	session_ended_inside_commit(NULL);
}

/* The server dies of something else, as of a disk that does not take the COMMIT: it says PANIC, and that is no word on what
 * it has done. */
static void I4_a_fatal_error_inside_commit_is_not_a_refusal(void **state)
{
	session_ended_inside_commit("58030");
}

/* Each sale is unknown until its key tells; that it does tell is what counts, not how many there were. */
static void I4_commits_that_always_warn_stop_no_sale(void **state)
{
	make_sku(&h, "A", 100);
	sql(&h,
	    "CREATE FUNCTION public.warn() RETURNS trigger LANGUAGE plpgsql AS"
	    " $$BEGIN RAISE WARNING 'at COMMIT'; RETURN NULL; END$$;"
	    "CREATE CONSTRAINT TRIGGER warns AFTER INSERT ON lastunit.ledger DEFERRABLE INITIALLY DEFERRED"
	    " FOR EACH ROW EXECUTE FUNCTION public.warn()");
	for (int i = 0; i < 12; i++)
		assert_int_equal(run(&h, OPERATION_CHECKOUT, "A1", NULL), LU_OK);
	assert_string_equal(sql(&h, "SELECT on_hand FROM lastunit.sku"), "88");
}

/* Somebody's trigger keeps one row from changing: that cart fails, its neighbours do not, nor does the process. */
static void I1_a_row_that_will_not_change_fails_its_cart_only(void **state)
{
	make_sku(&h, "A", 10);
	make_sku(&h, "B", 10);
	sql(&h,
	    "CREATE FUNCTION public.keep() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NULL; END$$;"
	    "CREATE TRIGGER keeps BEFORE UPDATE ON lastunit.sku FOR EACH ROW WHEN (OLD.code = 'A')"
	    " EXECUTE FUNCTION public.keep()");
	assert_int_equal(run(&h, OPERATION_CHECKOUT, "B1 A1", "both"), LU_INTERNAL);
	assert_int_equal(run(&h, OPERATION_CHECKOUT, "B2", NULL), LU_OK);
	assert_string_equal(sql(&h, "SELECT string_agg(on_hand::text, ' ' ORDER BY code) FROM lastunit.sku"), "10 8");
	sql(&h, "DROP TRIGGER keeps ON lastunit.sku");
	assert_int_equal(run(&h, OPERATION_CHECKOUT, "B1 A1", "both"), LU_OK);
}

/* The constraints are gone, and a hand has written what they would have refused: nobody sells that SKU or shows
 * it, and what is asked beside it, in the same batch, goes on. So does the process, which meets that row again
 * whenever a hold ends. */
static void P6_a_sku_whose_figures_cannot_be_fails_alone(void **state)
{
	static const char *const figures[] = {"on_hand = 1",
	                                      "on_hand = -5",
	                                      "safety_stock = -1",
	                                      "reserved = -1",
	                                      "on_hand = 1000000000000001",
	                                      "version = 1000000000000001"};
	make_sku(&h, "A", 10);
	make_sku(&h, "B", 10);
	struct uuid hold = hold_for(&h, "A2", 600);
	sql(&h,
	    "DO $$DECLARE c record; BEGIN FOR c IN SELECT conrelid::regclass AS t, conname FROM pg_constraint"
	    " WHERE contype = 'c' AND conrelid IN ('lastunit.sku'::regclass, 'lastunit.ledger'::regclass)"
	    " LOOP EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', c.t, c.conname); END LOOP; END$$");
	sql(&h, "ALTER TABLE lastunit.sku DISABLE TRIGGER USER; CREATE TABLE public.whole AS SELECT * FROM lastunit.sku");
	for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
		char text[200];
		snprintf(text, sizeof text, "UPDATE lastunit.sku SET %s WHERE code = 'A'", figures[i]);
		sql(&h, text);
		struct pg *other = stranger(&h);
		tell(other, "BEGIN");
		tell(other, "SELECT FROM lastunit.sku FOR UPDATE");
		struct attempt_at *damaged = begin(&h, OPERATION_CHECKOUT, "A1", NULL);
		struct attempt_at *sold = begin(&h, OPERATION_CHECKOUT, "B1", NULL);
		wait_for_a_waiter("lastunit writer");
		tell(other, "COMMIT");
		assert_int_equal(await(damaged)->error, LU_INTERNAL);
		assert_int_equal(await(sold)->error, LU_OK);
		assert_int_equal(run_by_id(&h, OPERATION_RELEASE, hold), LU_INTERNAL);
		set_cell(&h, "A", "I|-|1"); /* not served from Redis, which has not heard of it */
		assert_int_equal(look(&h, "A").error, LU_INTERNAL);
		assert_int_equal(look(&h, "B").error, LU_OK);
		forget(damaged), forget(sold), pg_free(other);
		sql(&h,
		    "UPDATE lastunit.sku s SET on_hand = w.on_hand, reserved = w.reserved, safety_stock = w.safety_stock,"
		    " version = w.version FROM public.whole w WHERE w.id = s.id AND s.code = 'A'");
	}
	assert_int_equal(run_by_id(&h, OPERATION_RELEASE, hold), LU_OK);
	assert_int_equal(look(&h, "A").figures.on_hand, 10);
}

/* Somebody's trigger keeps what ends from ending: it is not told as done, and is done when the trigger has gone. */
static void I1_what_does_not_change_or_go_is_not_told_as_done(void **state)
{
	static const struct {
		const char *table, *event;
		enum operation_kind kind;
	} rows[] = {
		{"checkout", "UPDATE", OPERATION_CANCEL},
		{"hold", "UPDATE", OPERATION_EXTEND},
		{"hold", "DELETE", OPERATION_RELEASE},
	};
	make_sku(&h, "A", 10);
	sql(&h, "CREATE FUNCTION public.keep() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NULL; END$$");
	struct attempt_at *sold = begin(&h, OPERATION_CHECKOUT, "A1", NULL);
	assert_int_equal(await(sold)->error, LU_OK);
	struct uuid hold = hold_for(&h, "A2", 600), checkout = await(sold)->checkout->id;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct uuid target = rows[i].kind == OPERATION_CANCEL ? checkout : hold;
		char text[300];
		snprintf(text, sizeof text,
		         "CREATE TRIGGER keeps BEFORE %s ON lastunit.%s FOR EACH ROW EXECUTE FUNCTION public.keep()",
		         rows[i].event, rows[i].table);
		sql(&h, text);
		assert_int_equal(run_by_id(&h, rows[i].kind, target), LU_INTERNAL);
		assert_int_equal(run_by_id(&h, rows[i].kind, target), LU_INTERNAL);
		snprintf(text, sizeof text, "DROP TRIGGER keeps ON lastunit.%s", rows[i].table);
		sql(&h, text);
		assert_int_equal(run_by_id(&h, rows[i].kind, target), LU_OK);
	}
	assert_string_equal(sql(&h, "SELECT on_hand || ' ' || reserved FROM lastunit.sku"), "10 0");
	assert_int_equal(sql_int(&h, "SELECT count(*) FROM lastunit.hold"), 0);
	forget(sold);
}

/* Somebody's trigger swallows a row that a sale is written with, and says nothing: that sale is none, and is told so. */
static void I1_a_row_that_is_not_inserted_fails_its_cart_only(void **state)
{
	static const struct {
		const char *table, *when, *lines;
		enum operation_kind kind;
	} rows[] = {
		{"idempotency", "", "A1", OPERATION_CHECKOUT},
		{"checkout", "", "A1", OPERATION_CHECKOUT},
		{"ledger", "", "A1", OPERATION_CHECKOUT},
		{"ledger", " WHEN (NEW.on_hand_delta = -2)", "B1 A2", OPERATION_CHECKOUT}, /* one of two */
		{"reservation", "", "A1", OPERATION_RESERVE},
		{"hold", " WHEN (NEW.quantity = 2)", "B1 A2", OPERATION_RESERVE},
	};
	make_sku(&h, "A", 10);
	make_sku(&h, "B", 10);
	sql(&h, "CREATE FUNCTION public.swallow() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NULL; END$$");
	char text[300];
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		snprintf(
			text, sizeof text,
			"CREATE TRIGGER swallows BEFORE INSERT ON lastunit.%s FOR EACH ROW%s EXECUTE FUNCTION public.swallow()",
			rows[i].table, rows[i].when);
		sql(&h, text);
		assert_int_equal(run(&h, rows[i].kind, rows[i].lines, NULL), LU_INTERNAL);
		snprintf(text, sizeof text, "DROP TRIGGER swallows ON lastunit.%s", rows[i].table);
		sql(&h, text);
		assert_int_equal(sql_int(&h, "SELECT sum(on_hand - reserved) FROM lastunit.sku"), 20);
	}
	/* Of two carts in one batch, one: its neighbour stands. */
	sql(&h,
	    "CREATE TRIGGER swallows BEFORE INSERT ON lastunit.idempotency FOR EACH ROW WHEN (NEW.key = 'swallowed')"
	    " EXECUTE FUNCTION public.swallow()");
	struct pg *other = stranger_with_the_row();
	struct attempt_at *lost = begin(&h, OPERATION_CHECKOUT, "A1", "swallowed");
	struct attempt_at *sold = begin(&h, OPERATION_CHECKOUT, "A1", "sold");
	wait_for_a_waiter("lastunit writer");
	tell(other, "COMMIT");
	assert_int_equal(await(lost)->error, LU_INTERNAL);
	assert_int_equal(await(sold)->error, LU_OK);
	assert_int_equal(sql_int(&h, "SELECT on_hand FROM lastunit.sku WHERE code = 'A'"), 9);
	forget(lost), forget(sold), pg_free(other);
}

/* A commit, a release and an extend carry no key: their reservation's state tells what happened. */
static void I4_a_lost_commit_of_a_reservation_is_found_by_its_state(void **state)
{
	make_sku(&h, "A", 10);
	struct uuid id = hold_for(&h, "A4", 600);
	int64_t unknown = metric_get(METRIC_OUTCOME_UNKNOWN);
	proxy_when(&h.pg_proxy, PROXY_TO_SERVER, "COMMIT", PROXY_CUT_AFTER_ANSWER);
	assert_int_equal(run_by_id(&h, OPERATION_COMMIT, id), LU_OK);
	proxy_wait_matches(&h.pg_proxy, 1);
	assert_int_equal(metric_get(METRIC_OUTCOME_UNKNOWN) - unknown, 1);
	assert_string_equal(sql(&h, "SELECT on_hand || ' ' || reserved FROM lastunit.sku"), "6 0");
	assert_string_equal(sql(&h, "SELECT count(*) FROM lastunit.checkout"), "1");
}

/* One cart waits for the row, twenty come behind it: when it has the lock they all go with it. */
static void who_comes_while_a_batch_waits_for_its_row_goes_with_it(void **state)
{
	struct attempt_at *carts[21];
	make_sku(&h, "A", 20);
	struct pg *other = stranger_with_the_row();
	int64_t batches = metric_get(METRIC_BATCHES), joined = metric_get(METRIC_BATCH_JOINED);
	carts[0] = begin(&h, OPERATION_CHECKOUT, "A1", NULL);
	wait_for_a_waiter("lastunit writer");
	for (int i = 1; i < 21; i++)
		carts[i] = begin(&h, OPERATION_CHECKOUT, "A1", i == 1 ? "again" : NULL);
	tell(other, "UPDATE lastunit.sku SET on_hand = 19 WHERE code = 'A'");
	tell(other, "COMMIT");
	int sold = 0, refused = 0;
	for (int i = 0; i < 21; i++) {
		enum lu_error error = await(carts[i])->error;
		sold += error == LU_OK;
		refused += error == LU_INSUFFICIENT_STOCK;
		forget(carts[i]);
	}
	assert_int_equal(sold, 19);
	assert_int_equal(refused, 2);
	assert_int_equal(metric_get(METRIC_BATCHES) - batches, 1);
	assert_int_equal(metric_get(METRIC_BATCH_JOINED) - joined, 20);
	/* The key of one of them says the same again: it was looked up, and is kept. */
	assert_int_equal(run(&h, OPERATION_CHECKOUT, "A1", "again"), LU_OK);
	assert_string_equal(sql(&h, "SELECT on_hand FROM lastunit.sku"), "0");
	pg_free(other);
}

/* Nor does he who has less time than the batch: its attempt ends when the first of those it began with must be answered. */
static void I9_who_has_little_time_joins_nobody(void **state)
{
	struct attempt_at *carts[21];
	make_sku(&h, "A", 100);
	struct pg *other = stranger_with_the_row();
	carts[0] = begin(&h, OPERATION_CHECKOUT, "A1", NULL);
	wait_for_a_waiter("lastunit writer");
	int64_t usual_ms = h.config.request_timeout_ms, joined = metric_get(METRIC_BATCH_JOINED);
	for (int i = 1; i < 21; i++) {
		h.config.request_timeout_ms = i == 20 ? 1000 : usual_ms;
		carts[i] = begin(&h, OPERATION_CHECKOUT, "A1", NULL);
	}
	h.config.request_timeout_ms = usual_ms;
	proxy_when(&h.pg_proxy, PROXY_TO_SERVER, "COMMIT", PROXY_HOLD);
	tell(other, "COMMIT");
	proxy_wait_matches(&h.pg_proxy, 1);
	assert_int_equal(metric_get(METRIC_BATCH_JOINED) - joined, 19);
	assert_int_equal(await(carts[20])->error, LU_DEADLINE_EXCEEDED);
	assert_false(is_answered(carts[0]));
	proxy_release(&h.pg_proxy);
	for (int i = 0; i < 21; i++) {
		assert_int_equal(await(carts[i])->error, i < 20 ? LU_OK : LU_DEADLINE_EXCEEDED);
		forget(carts[i]);
	}
	assert_string_equal(sql(&h, "SELECT on_hand FROM lastunit.sku"), "80");
	pg_free(other);
}

/* Behind the locks their keys are read, too: one that another instance used meanwhile is answered as that was. */
static void I7_who_joins_late_is_not_sold_to_twice(void **state)
{
	struct attempt_at *carts[21];
	make_sku(&h, "A", 100);
	assert_int_equal(run(&h, OPERATION_CHECKOUT, "A1", "twice"), LU_OK);
	struct pg *other = stranger_with_the_row();
	int64_t retries = metric_get(METRIC_BATCH_RETRIES);
	carts[0] = begin(&h, OPERATION_CHECKOUT, "A1", NULL);
	wait_for_a_waiter("lastunit writer");
	for (int i = 1; i < 21; i++)
		carts[i] = begin(&h, OPERATION_CHECKOUT, "A1", i == 20 ? "twice" : NULL);
	tell(other, "COMMIT");
	for (int i = 0; i < 21; i++) {
		const struct verdict *verdict = await(carts[i]);
		assert_int_equal(verdict->error, LU_OK);
		assert_int_equal(verdict->replayed, i == 20);
		forget(carts[i]);
	}
	assert_int_equal(metric_get(METRIC_BATCH_RETRIES), retries);
	assert_string_equal(sql(&h, "SELECT on_hand FROM lastunit.sku"), "79");
	pg_free(other);
}

/* Corrections and carts, turn by turn: each cart lives on the correction that came before it. */
static void I13_who_joins_late_overtakes_nobody(void **state)
{
	struct attempt_at *all[41];
	make_sku(&h, "A", 1);
	struct pg *other = stranger_with_the_row();
	all[0] = begin(&h, OPERATION_CHECKOUT, "A1", NULL);
	wait_for_a_waiter("lastunit writer");
	for (int i = 1; i < 41; i++)
		all[i] = begin(&h, i % 2 ? OPERATION_ADJUST : OPERATION_CHECKOUT, "A1", NULL);
	tell(other, "COMMIT");
	for (int i = 0; i < 41; i++) {
		assert_int_equal(await(all[i])->error, LU_OK);
		forget(all[i]);
	}
	assert_string_equal(sql(&h, "SELECT on_hand FROM lastunit.sku"), "0");
	pg_free(other);
}

/* A standby that never answers: the sale is durable here, its COMMIT hangs, and so does whoever wants its row. */
static void I4_nobody_is_told_that_nothing_was_changed_while_a_commit_hangs(void **state)
{
	make_sku(&h, "A", 10);
	pg_server_ask(h.url, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
	sql(&h, "SELECT pg_reload_conf()");
	struct attempt_at *carts[3];
	for (int i = 0; i < 3; i++) {
		carts[i] = begin(&h, OPERATION_CHECKOUT, "A1", NULL);
		wait_sql(&h, "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep'", "t");
	}
	for (int i = 0; i < 3; i++)
		await(carts[i]);
	pg_server_ask(h.url, "ALTER SYSTEM RESET synchronous_standby_names");
	sql(&h, "SELECT pg_reload_conf()");
	wait_sql(&h, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'", "0");
	for (int i = 0; i < 3; i++) {
		char text[200];
		snprintf(text, sizeof text, "SELECT count(*) FROM lastunit.idempotency WHERE key = '%.*s'",
		         (int)carts[i]->operation.key.size, carts[i]->operation.key.data);
		if (await(carts[i])->error == LU_DEADLINE_EXCEEDED)
			assert_string_equal(sql(&h, text), "0");
		forget(carts[i]);
	}
}

static void I11_a_hold_that_is_due_can_be_sold_but_never_committed(void **state)
{
	make_sku(&h, "A", 10);
	struct uuid id = hold_for(&h, "A10", 1);
	assert_int_equal(run(&h, OPERATION_CHECKOUT, "A1", NULL), LU_INSUFFICIENT_STOCK);
	wait_sql(&h, "SELECT clock_timestamp() > expires_at FROM lastunit.reservation", "t");
	assert_int_equal(run(&h, OPERATION_RESERVE, "A10", NULL), LU_OK);
	assert_int_equal(run_by_id(&h, OPERATION_COMMIT, id), LU_RESERVATION_EXPIRED);
	assert_int_equal(run_by_id(&h, OPERATION_EXTEND, id), LU_RESERVATION_EXPIRED);
	assert_int_equal(run_by_id(&h, OPERATION_RELEASE, id), LU_OK);
	assert_string_equal(sql(&h, "SELECT reserved FROM lastunit.sku"), "10");
}

/* A due hold on A and B; a cart that needs A has to lock B too, which it never named. */
static void I11_a_due_hold_frees_all_its_skus_for_a_cart_that_needs_one(void **state)
{
	make_sku(&h, "B", 5);
	make_sku(&h, "A", 5);
	hold_for(&h, "A5 B5", 1);
	struct pg *other = stranger(&h);
	tell(other, "BEGIN"); /* keeps the reaper's batch and ours behind this, so that the cart may find it due */
	tell(other, "SELECT FROM lastunit.sku FOR UPDATE");
	struct attempt_at *cart = begin(&h, OPERATION_CHECKOUT, "A1", NULL);
	tell(other, "SELECT pg_sleep_until((SELECT expires_at FROM lastunit.reservation) + interval '1 ms')");
	tell(other, "COMMIT");
	assert_int_equal(await(cart)->error, LU_OK);
	forget(cart), pg_free(other);
	wait_sql(&h, "SELECT string_agg(on_hand || '/' || reserved, ' ' ORDER BY code) FROM lastunit.sku", "4/0 5/0");
}

#define PATIENT_LOCKS(f) cmocka_unit_test_setup_teardown(f, open_house_of_patient_locks, close_house)

static const struct CMUnitTest tests[] = {
	HOUSE_TEST(I1_a_failed_operation_leaves_no_trace_and_its_neighbours_stand),
	HOUSE_TEST(I2_a_cart_is_decided_by_what_was_committed_while_it_waited),
	HOUSE_TEST(I2_the_time_is_read_after_the_locks),
	HOUSE_TEST(I3_two_instances_and_carts_in_any_order_never_deadlock),
	ONE_WRITER(I4_a_commit_cut_off_before_the_server_sells_once),
	ONE_WRITER(I4_a_commit_whose_answer_is_lost_sells_once),
	HOUSE_TEST(I4_a_session_ended_inside_commit_sells_once),
	HOUSE_TEST(I4_a_fatal_error_inside_commit_is_not_a_refusal),
	HOUSE_TEST(I4_commits_that_always_warn_stop_no_sale),
	HOUSE_TEST(I1_a_row_that_will_not_change_fails_its_cart_only),
	HOUSE_TEST(P6_a_sku_whose_figures_cannot_be_fails_alone),
	HOUSE_TEST(I1_what_does_not_change_or_go_is_not_told_as_done),
	HOUSE_TEST(I1_a_row_that_is_not_inserted_fails_its_cart_only),
	ONE_WRITER(I4_a_lost_commit_of_a_reservation_is_found_by_its_state),
	PATIENT_LOCKS(who_comes_while_a_batch_waits_for_its_row_goes_with_it),
	PATIENT_LOCKS(I9_who_has_little_time_joins_nobody),
	PATIENT_LOCKS(I7_who_joins_late_is_not_sold_to_twice),
	PATIENT_LOCKS(I13_who_joins_late_overtakes_nobody),
	HOUSE_TEST(I4_nobody_is_told_that_nothing_was_changed_while_a_commit_hangs),
	HOUSE_TEST(I11_a_hold_that_is_due_can_be_sold_but_never_committed),
	HOUSE_TEST(I11_a_due_hold_frees_all_its_skus_for_a_cart_that_needs_one),
};

HOUSE_MAIN(tests)
