/* The invariants of src/inventory/README.md, each forced: by a stranger's lock, a planted constraint, a proxy that cuts
 * or holds one message, a Redis that is paused or killed. What is waited for is always an event, never a time. */
#include "lib/house.h"

#include <poll.h>
#include <pthread.h>

#include "inventory/inventory_internal.h"
#include "store/epoch.h"
#include "store/keyring.h"
#include "store/pg.h"

static struct house h;

static int open_house(void **state)
{
	house_open(&h, NULL);
	return 0;
}

/* With one setting that is not the others'. */
static int open_house_with(int64_t *setting, int64_t value)
{
	int64_t usual = *setting;
	*setting = value;
	house_open(&h, NULL);
	*setting = usual;
	return 0;
}

static int open_house_of_one_writer(void **state)
{
	return open_house_with(&house_config.writers, 1);
}

static int open_house_of_one_loader(void **state)
{
	return open_house_with(&house_config.loaders, 1);
}

static int open_house_with_a_patient_redis_client(void **state)
{
	return open_house_with(&house_config.redis_timeout_ms, 5000);
}

static int open_house_of_patient_locks(void **state)
{
	return open_house_with(&house_config.lock_timeout_ms, 4000);
}

static int open_house_of_long_leases(void **state)
{
	return open_house_with(&house_config.lease_ms, 2000);
}

static int close_house(void **state)
{
	assert_audit(&h);
	house_close(&h);
	return 0;
}

/* A deferred trigger runs inside COMMIT: the transaction then waits for the advisory lock 77, which a stranger holds. */
#define STOP_AT_COMMIT                                                                                               \
	"CREATE FUNCTION public.stop_at_commit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS"                   \
	" $$BEGIN PERFORM set_config('lock_timeout', '0', true); PERFORM pg_advisory_xact_lock(77); RETURN NULL; END$$;" \
	"CREATE CONSTRAINT TRIGGER stop AFTER INSERT ON lastunit.ledger DEFERRABLE INITIALLY DEFERRED"                   \
	" FOR EACH ROW EXECUTE FUNCTION public.stop_at_commit()"
#define WAITING_AT_COMMIT "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND objid = 77 AND NOT granted"

static void wait_for_a_waiter(const char *relation_of)
{
	char text[300];
	snprintf(text, sizeof text,
	         "SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = '%s' AND wait_event_type = 'Lock'"
	         " AND datname = current_database()",
	         relation_of);
	wait_sql(&h, text, "t");
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

/* B22: the transaction begins before the end of the hold and wakes after it. */
static void I2_the_time_is_read_after_the_locks(void **state)
{
	make_sku(&h, "A", 1);
	struct uuid id = hold_for(&h, "A1", 2);
	struct pg *other = stranger(&h);
	tell(other, "BEGIN");
	tell(other, "SELECT FROM lastunit.sku FOR UPDATE");
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
	struct pg *other = stranger(&h);
	tell(other, "BEGIN");
	tell(other, "SELECT FROM lastunit.sku FOR UPDATE");
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

static void I5_a_cell_is_marked_before_its_sku_commits(void **state)
{
	make_sku(&h, "A", 10);
	warm(&h, "A");
	sql(&h, STOP_AT_COMMIT);
	struct pg *other = stranger(&h);
	tell(other, "SELECT pg_advisory_lock(77)");
	struct attempt_at *cart = begin(&h, OPERATION_CHECKOUT, "A1", NULL);
	wait_sql(&h, WAITING_AT_COMMIT, "t");
	char *raw = cell(&h, "A");
	assert_memory_equal(raw, "I|", 2);
	free(raw);
	/* A reader meanwhile is told the truth, and fills nothing. */
	struct seen_item seen = look(&h, "A");
	assert_int_equal(seen.source, LOOKUP_BYPASS);
	assert_int_equal(seen.figures.on_hand, 10);
	assert_false(is_answered(cart));
	tell(other, "SELECT pg_advisory_unlock(77)");
	assert_int_equal(await(cart)->error, LU_OK);
	forget(cart), pg_free(other);
	seen = look(&h, "A");
	assert_int_equal(seen.source, LOOKUP_HIT);
	assert_int_equal(seen.figures.on_hand, 9);
}

static void I5_without_redis_the_epoch_is_closed_before_the_sale_commits(void **state)
{
	make_sku(&h, "A", 10);
	warm(&h, "A");
	redis_server_pause(&house_redis);
	/* By the time it is answered, every instance has stopped serving hits. */
	struct attempt_at *cart = begin(&h, OPERATION_CHECKOUT, "A1", NULL);
	assert_int_equal(await(cart)->error, LU_OK);
	assert_string_equal(sql(&h, "SELECT state FROM lastunit.cache_epoch"), "3");
	forget(cart);
	assert_int_equal(look(&h, "A").figures.on_hand, 9);
	assert_int_equal(run(&h, OPERATION_CHECKOUT, "A1", NULL), LU_OK);
	redis_server_resume(&house_redis);
	wait_for_open_epoch(&h);
	struct seen_item seen;
	do
		seen = look(&h, "A");
	while (seen.figures.on_hand == 8 && seen.source != LOOKUP_HIT);
	assert_int_equal(seen.figures.on_hand, 8);
}

static void I5_a_redis_that_came_back_from_a_dump_is_fenced(void **state)
{
	make_sku(&h, "A", 10);
	warm(&h, "A");
	free(redis_server_command(&house_redis, "SAVE"));
	assert_int_equal(run(&h, OPERATION_CHECKOUT, "A7", NULL), LU_OK);
	redis_server_restart(&house_redis);
	assert_int_equal(look(&h, "A").figures.on_hand, 3);
	assert_int_equal(run(&h, OPERATION_CHECKOUT, "A1", NULL), LU_OK);
	assert_int_equal(look(&h, "A").figures.on_hand, 2);
	free(redis_server_command(&house_redis, "FLUSHALL"));
	assert_int_equal(run(&h, OPERATION_CHECKOUT, "A1", NULL), LU_OK);
	assert_int_equal(look(&h, "A").figures.on_hand, 1);
	wait_for_open_epoch(&h);
	free(redis_server_command(&house_redis, "SAVE")); /* leave a dump without our namespace's past */
}

/* B31: the SELECT stands still with its ticket out; meanwhile a writer of another instance marks the cell. */
static void I6_the_ticket_is_out_before_the_select(void **state)
{
	make_sku(&h, "A", 10);
	char key[200];
	snprintf(key, sizeof key, "DEL %s:A", sql(&h, "SELECT namespace FROM lastunit.cache_epoch"));
	free(redis_server_command(&house_redis, key));
	struct pg *other = stranger(&h);
	tell(other, "BEGIN");
	tell(other, "LOCK TABLE lastunit.sku IN ACCESS EXCLUSIVE MODE");
	struct looking *reader = look_begin(&h, "A");
	wait_for_a_waiter("lastunit loader");
	char *raw = cell(&h, "A");
	assert_memory_equal(raw, "F|", 2);
	free(raw);
	set_cell(&h, "A", "I|another-writer|2");
	tell(other, "COMMIT");
	assert_int_equal(look_await(reader).figures.on_hand, 10);
	pg_free(other);
}

static void I7_a_fill_replaces_its_own_ticket_and_nothing_else(void **state)
{
	static const char *const instead[] = {"I|another-writer|2", "F|another-ticket-of-a-fill", "V|2|4|0|0|1|A"};
	make_sku(&h, "A", 10);
	for (int i = 0; i < 3; i++) {
		char key[200];
		snprintf(key, sizeof key, "DEL %s:A", sql(&h, "SELECT namespace FROM lastunit.cache_epoch"));
		free(redis_server_command(&house_redis, key));
		struct pg *other = stranger(&h);
		tell(other, "BEGIN");
		tell(other, "LOCK TABLE lastunit.sku IN ACCESS EXCLUSIVE MODE");
		struct looking *reader = look_begin(&h, "A");
		wait_for_a_waiter("lastunit loader");
		set_cell(&h, "A", instead[i]);
		tell(other, "COMMIT");
		look_await(reader);
		/* The fill came and went: one more look-up through the same loaders is behind it. */
		look(&h, "UNKNOWN"), look(&h, "UNKNOWN");
		char *raw = cell(&h, "A");
		assert_string_equal(raw, instead[i]);
		free(raw);
		pg_free(other);
	}
	free(redis_server_command(&house_redis, "FLUSHALL"));
}

/* The reply is on its way while the epoch closes and a sale is answered: what it says is old. */
static void I8_a_lease_that_ran_out_before_the_reply_serves_nothing(void **state)
{
	make_sku(&h, "A", 10);
	warm(&h, "A");
	proxy_when(&h.redis_proxy, PROXY_TO_CLIENT, "V|1|10|", PROXY_HOLD);
	struct looking *reader = look_begin(&h, "A");
	proxy_wait_matches(&h.redis_proxy, 1);
	/* Somebody closes the epoch, and a sale is answered. */
	struct pg *other = stranger(&h);
	bool moved;
	struct text namespace = text_of(sql(&h, "SELECT namespace FROM lastunit.cache_epoch"));
	tell(other, "SET search_path = lastunit");
	assert_int_equal(epoch_close(other, namespace, deadline_in_ms(5000), &moved), LU_OK);
	wait_sql(&h, "SELECT state FROM lastunit.cache_epoch", "3");
	assert_int_equal(run(&h, OPERATION_CHECKOUT, "A4", NULL), LU_OK);
	proxy_release(&h.redis_proxy);
	struct seen_item seen = look_await(reader);
	assert_int_equal(seen.error, LU_OK);
	assert_int_equal(seen.figures.on_hand, 6);
	pg_free(other);
}

static void I9_every_operation_is_answered_by_its_deadline(void **state)
{
	make_sku(&h, "A", 1000);
	struct pg *other = stranger(&h);
	tell(other, "BEGIN");
	tell(other, "SELECT FROM lastunit.sku FOR UPDATE");
	struct attempt_at *carts[50];
	int64_t begun = clock_boottime_ns();
	for (int i = 0; i < 50; i++)
		carts[i] = begin(&h, OPERATION_CHECKOUT, "A1", NULL);
	for (int i = 0; i < 50; i++)
		assert_int_equal(await(carts[i])->error, LU_DEADLINE_EXCEEDED);
	int64_t took_ms = (clock_boottime_ns() - begun) / NS_PER_MS;
	assert_in_range(took_ms, 1000, h.config.request_timeout_ms + 500);
	for (int i = 0; i < 50; i++) {
		assert_int_equal(answer_count(carts[i]), 1);
		forget(carts[i]);
	}
	tell(other, "COMMIT");
	pg_free(other);
	assert_string_equal(sql(&h, "SELECT on_hand FROM lastunit.sku"), "1000");
}

/* While a stranger keeps one SKU, carts of others go on; the cart that needs it waits for it and then sells. */
static void I9_a_strangers_lock_stops_only_those_who_need_its_row(void **state)
{
	make_sku(&h, "A", 10);
	make_sku(&h, "B", 1000);
	struct pg *other = stranger(&h);
	tell(other, "BEGIN");
	tell(other, "SELECT FROM lastunit.sku WHERE code = 'A' FOR UPDATE");
	struct attempt_at *waits = begin(&h, OPERATION_CHECKOUT, "A1 B1", NULL);
	wait_for_a_waiter("lastunit writer");
	for (int i = 0; i < 100; i++)
		assert_int_equal(run(&h, OPERATION_CHECKOUT, "B1", NULL), LU_OK);
	assert_false(is_answered(waits));
	tell(other, "COMMIT");
	assert_int_equal(await(waits)->error, LU_OK);
	forget(waits), pg_free(other);
}

/* One cart waits for the row, twenty come behind it: when it has the lock they all go with it. */
static void who_comes_while_a_batch_waits_for_its_row_goes_with_it(void **state)
{
	struct attempt_at *carts[21];
	make_sku(&h, "A", 20);
	struct pg *other = stranger(&h);
	tell(other, "BEGIN");
	tell(other, "SELECT FROM lastunit.sku FOR UPDATE");
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

/* Behind the locks their keys are read, too: one that another instance used meanwhile is answered as that was. */
static void I7_who_joins_late_is_not_sold_to_twice(void **state)
{
	struct attempt_at *carts[21];
	make_sku(&h, "A", 100);
	assert_int_equal(run(&h, OPERATION_CHECKOUT, "A1", "twice"), LU_OK);
	struct pg *other = stranger(&h);
	tell(other, "BEGIN");
	tell(other, "SELECT FROM lastunit.sku FOR UPDATE");
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
	struct pg *other = stranger(&h);
	tell(other, "BEGIN");
	tell(other, "SELECT FROM lastunit.sku FOR UPDATE");
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

/* Neither by an instance that found the epoch open and had no reason to probe Redis itself. */
static void a_postgres_that_is_away_is_not_taken_for_a_redis_that_is(void **state)
{
	struct house beside;
	struct inventory_status status = {.lease = true};
	house_open(&beside, &h);
	proxy_cut_all(&beside.pg_proxy, true);
	for (int i = 0; i < 30000 && (status.lease || status.database_reachable); i++) {
		usleep(1000);
		inventory_status(beside.inventory, &status);
	}
	house_close(&beside);
	assert_false(status.lease || status.database_reachable);
	assert_true(status.redis_reachable);
}

/* The keeper hangs at the epoch's row, which a stranger has locked: the lease's reading, and the keys with it, go on. */
static void I9_what_the_keeper_waits_for_holds_up_no_reading_of_the_keys(void **state)
{
#define KEEPER_HANGS                                                                                              \
	"SELECT coalesce(min(query_start)::text, '') FROM pg_stat_activity WHERE application_name = 'lastunit epoch'" \
	" AND wait_event_type = 'Lock' AND datname = current_database()"
	make_sku(&h, "A", 10);
	struct pg *other = stranger(&h);
	tell(other, "BEGIN");
	tell(other, "SELECT FROM lastunit.cache_epoch FOR UPDATE");
	free(redis_server_command(&house_redis,
	                          "FLUSHALL")); /* the guard too: a sale is fenced, and the epoch to be closed */
	struct attempt_at *cart = begin(&h, OPERATION_CHECKOUT, "A1", NULL);
	bool beside = false;
	for (int i = 0; i < 20 && !beside; i++) { /* the keeper gives up after a second and begins again */
		wait_for_a_waiter("lastunit epoch");
		char since[64];
		snprintf(since, sizeof since, "%s", sql(&h, KEEPER_HANGS));
		clock_sleep_until(deadline_in_ms(2 * h.config.lease_ms));
		beside = keyring_fresh(h.keyring, INT64_MAX) && *since && !strcmp(since, sql(&h, KEEPER_HANGS));
	}
	assert_true(beside);
	tell(other, "ROLLBACK");
	assert_int_equal(await(cart)->error, LU_OK);
	forget(cart), pg_free(other);
}

static struct attempt_at *release_within(struct uuid hold, int64_t timeout_ms)
{
	int64_t usual_ms = h.config.request_timeout_ms;
	h.config.request_timeout_ms = timeout_ms;
	struct attempt_at *attempt = begin_by_id(&h, OPERATION_RELEASE, hold);
	h.config.request_timeout_ms = usual_ms;
	return attempt;
}

/* Two whose objects are read together, from a PostgreSQL that does not answer: the one's time ends before the other's. */
static void I9_who_has_little_time_takes_none_from_his_neighbour(void **state)
{
	make_sku(&h, "A", 10);
	struct uuid holds[3];
	for (int i = 0; i < 3; i++)
		holds[i] = hold_for(&h, "A1", 600);
	struct pg *other = stranger(&h);
	tell(other, "BEGIN");
	tell(other, "LOCK TABLE lastunit.reservation IN ACCESS EXCLUSIVE MODE");
	struct attempt_at *first = release_within(holds[0], 300); /* the one loader hangs with it, and the others gather */
	struct attempt_at *hurried = release_within(holds[1], 600);
	struct attempt_at *patient = release_within(holds[2], 20000);
	assert_int_not_equal(await(first)->error, LU_OK);
	assert_int_not_equal(await(hurried)->error, LU_OK);
	tell(other, "COMMIT");
	assert_int_equal(await(patient)->error, LU_OK);
	forget(first), forget(hurried), forget(patient), pg_free(other);
}

/* Sixteen rows locked by a stranger, and at most half the writers wait for such: nobody waits beyond his deadline. */
/* All loaders hang in PostgreSQL; whose time ends meanwhile is answered before they come back. */
static void I9_who_waits_for_a_loader_is_answered_in_time(void **state)
{
	make_sku(&h, "A", 10);
	struct uuid holds[2];
	for (int i = 0; i < 2; i++)
		holds[i] = hold_for(&h, "A1", 600);
	struct pg *other = stranger(&h);
	tell(other, "BEGIN");
	tell(other, "LOCK TABLE lastunit.reservation IN ACCESS EXCLUSIVE MODE");
	struct attempt_at *first = release_within(holds[0], 20000);
	wait_for_a_waiter("lastunit loader");
	struct attempt_at *hurried = release_within(holds[1], 300);
	assert_int_equal(await(hurried)->error, LU_DEADLINE_EXCEEDED);
	assert_false(is_answered(first));
	tell(other, "ROLLBACK");
	assert_int_equal(await(first)->error, LU_OK);
	forget(hurried), forget(first), pg_free(other);
}

static void I9_those_behind_many_strangers_locks_are_all_answered_in_time(void **state)
{
	struct attempt_at *carts[16];
	int64_t begun[16];
	char code[2] = "A", cart[4] = "A1";
	for (int i = 0; i < 16; i++, code[0]++)
		make_sku(&h, code, 5);
	struct pg *other = stranger(&h);
	tell(other, "BEGIN");
	tell(other, "SELECT FROM lastunit.sku FOR UPDATE");
	for (int i = 0; i < 16; i++, cart[0]++) {
		begun[i] = clock_boottime_ns();
		carts[i] = begin(&h, OPERATION_CHECKOUT, cart, NULL);
		usleep(100000);
	}
	for (int i = 0; i < 16; i++) {
		assert_int_equal(await(carts[i])->error, LU_DEADLINE_EXCEEDED);
		int64_t took_ms = (clock_boottime_ns() - begun[i]) / NS_PER_MS;
		assert_in_range(took_ms, 0, h.config.request_timeout_ms + 1500);
		forget(carts[i]);
	}
	tell(other, "COMMIT");
	pg_free(other);
}

/* One cart of a batch has a key that another transaction is at work under, its neighbour has little time: each hears
 * only what concerns it. */
static void I9_a_key_at_work_elsewhere_is_its_own_carts_trouble_alone(void **state)
{
	make_sku(&h, "A", 5);
	make_sku(&h, "B", 5);
	make_sku(&h, "C", 5);
	struct pg *stranger_of_a = stranger(&h), *twin = stranger(&h);
	tell(stranger_of_a, "BEGIN");
	tell(stranger_of_a, "SELECT FROM lastunit.sku WHERE code = 'A' FOR UPDATE");
	char insert[300];
	snprintf(insert, sizeof insert,
	         "INSERT INTO lastunit.idempotency (principal_id, at, kind, key, fingerprint, status)"
	         " VALUES (%lld, now(), 1, 'busy', sha256(''), 'ok')",
	         (long long)h.principal_id);
	tell(twin, "BEGIN");
	tell(twin, insert);
	/* Both gather while the one writer waits for the row of A. */
	struct attempt_at *first = begin(&h, OPERATION_CHECKOUT, "A1", NULL);
	wait_for_a_waiter("lastunit writer");
	int64_t timeout_ms = h.config.request_timeout_ms;
	h.config.request_timeout_ms = 450;
	struct attempt_at *neighbour = begin(&h, OPERATION_CHECKOUT, "B1", "calm");
	h.config.request_timeout_ms = timeout_ms;
	struct attempt_at *busy = begin(&h, OPERATION_CHECKOUT, "C1", "busy");
	tell(stranger_of_a, "COMMIT");
	assert_int_equal(await(first)->error, LU_OK);
	enum lu_error error = await(neighbour)->error;
	if (error != LU_DEADLINE_EXCEEDED) /* on a machine that slow */
		assert_int_equal(error, LU_OK);
	assert_int_equal(await(busy)->error, LU_IDEMPOTENCY_IN_FLIGHT);
	tell(twin, "ROLLBACK");
	assert_int_equal(run(&h, OPERATION_CHECKOUT, "C1", "busy"), LU_OK);
	forget(first), forget(neighbour), forget(busy), pg_free(stranger_of_a), pg_free(twin);
}

/* A due hold reaches into a row that a stranger has locked: the cart that needs its units waits for that row, once. */
static void I9_a_due_hold_behind_a_strangers_lock_is_waited_for_not_spun_for(void **state)
{
	make_sku(&h, "B", 5);
	make_sku(&h, "A", 5);
	hold_for(&h, "A5 B1", 1);
	struct pg *other = stranger(&h);
	tell(other, "BEGIN");
	tell(other, "SELECT FROM lastunit.sku WHERE code = 'B' FOR UPDATE");
	tell(other, "SELECT pg_sleep_until((SELECT expires_at FROM lastunit.reservation) + interval '1 ms')");
	int64_t retries = metric_get(METRIC_BATCH_RETRIES);
	struct attempt_at *cart = begin(&h, OPERATION_CHECKOUT, "A1", NULL);
	wait_for_a_waiter("lastunit writer");
	tell(other, "SELECT pg_sleep(0.5)");
	tell(other, "COMMIT");
	assert_int_equal(await(cart)->error, LU_OK);
	assert_in_range(metric_get(METRIC_BATCH_RETRIES) - retries, 0, 20);
	forget(cart), pg_free(other);
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

/* L belongs to the epoch: who closes it waits as long as the longest lease that anybody may hold. */
static void I5_instances_of_different_leases_wait_for_the_longest(void **state)
{
	static struct house hasty;
	int64_t lease_ms = house_config.lease_ms;
	make_sku(&h, "A", 10);
	warm(&h, "A");
	int64_t began_ns = clock_boottime_ns();
	house_config.lease_ms = 100;
	house_config.redis_url = "unix:///nowhere/at/all";
	house_open_without_epoch(&hasty, &h);
	house_config.lease_ms = lease_ms;
	house_config.redis_url = "";
	assert_int_equal(run(&hasty, OPERATION_CHECKOUT, "A1", NULL), LU_OK);
	int64_t took_ns = clock_boottime_ns() - began_ns;
	assert_int_equal(look(&h, "A").figures.on_hand, 9);
	house_close(&hasty);
	assert_true(took_ns >= h.config.lease_ms * NS_PER_MS);
}

static void I10_a_sale_that_cannot_be_published_is_answered_after_the_epoch_closed(void **state)
{
	make_sku(&h, "A", 10);
	warm(&h, "A");
	sql(&h, STOP_AT_COMMIT);
	struct pg *other = stranger(&h);
	tell(other, "SELECT pg_advisory_lock(77)");
	struct attempt_at *cart = begin(&h, OPERATION_CHECKOUT, "A1", NULL);
	wait_sql(&h, WAITING_AT_COMMIT, "t");
	redis_server_pause(&house_redis); /* after intend, before publish */
	tell(other, "SELECT pg_advisory_unlock(77)");
	assert_int_equal(await(cart)->error, LU_OK);
	assert_string_equal(sql(&h, "SELECT state FROM lastunit.cache_epoch"), "3");
	redis_server_resume(&house_redis);
	forget(cart), pg_free(other);
	assert_int_equal(look(&h, "A").figures.on_hand, 9);
}

/* The first writer died between COMMIT and publish; whoever retries with its key must not leave an old cell behind. */
static void I10_a_replay_removes_what_is_older_than_its_answer(void **state)
{
	make_sku(&h, "A", 10);
	assert_int_equal(run(&h, OPERATION_CHECKOUT, "A1", "retried"), LU_OK);
	set_cell(&h, "A", "V|1|10|0|0|1|A"); /* as if publish had never come and a marker had been evicted */
	struct attempt_at *again = begin(&h, OPERATION_CHECKOUT, "A1", "retried");
	assert_int_equal(await(again)->error, LU_OK);
	assert_true(again->operation.verdict.replayed);
	forget(again);
	assert_int_equal(look(&h, "A").figures.on_hand, 9);
}

/* A writer died after intend: its marker stands, nobody publishes. Readers get the truth, and the cell is healed. */
static void I10_a_marker_left_behind_is_healed(void **state)
{
	make_sku(&h, "A", 10);
	warm(&h, "A");
	set_cell(&h, "A", "I|a-writer-that-died|2");
	assert_int_equal(look(&h, "A").source, LOOKUP_BYPASS);
	/* One reader must see it for a second: a new reader each time would begin to watch anew. */
	assert_int_equal(look_until_hit(&h, "A").figures.on_hand, 10);
	assert_string_equal(sql(&h, "SELECT version FROM lastunit.sku"), "1");
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

/* The first look-up's SELECT stands still: a second one must send one of its own. */
static void I12_a_look_up_never_joins_a_select_under_way(void **state)
{
	make_sku(&h, "A", 10);
	char key[200];
	snprintf(key, sizeof key, "DEL %s:A", sql(&h, "SELECT namespace FROM lastunit.cache_epoch"));
	free(redis_server_command(&house_redis, key));
	struct pg *other = stranger(&h);
	tell(other, "BEGIN");
	tell(other, "LOCK TABLE lastunit.sku IN ACCESS EXCLUSIVE MODE");
	struct looking *first = look_begin(&h, "A");
	wait_for_a_waiter("lastunit loader");
	struct looking *second = look_begin(&h, "A");
	wait_sql(
		&h,
		"SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lastunit loader' AND wait_event_type = 'Lock'"
		" AND datname = current_database()",
		"2");
	assert_false(look_is_done(first) || look_is_done(second));
	tell(other, "COMMIT");
	assert_int_equal(look_await(first).figures.on_hand, 10);
	assert_int_equal(look_await(second).figures.on_hand, 10);
	pg_free(other);
}

/* --- more cold cells than one call of Redis takes ----------------------------------------------------------------- */

enum { COLD = 2 * LU_CELLS_MAX };

struct cold_load {
	struct load load; /* first: its item is the load's */
	char sku[16];
	size_t *delivered;
};

static void on_cold_loaded(struct mailbox_item *item)
{
	struct cold_load *cold = (struct cold_load *)item;
	assert_int_equal(cold->load.error, LU_OK);
	assert_false(cold->load.known);
	++*cold->delivered;
}

static void cold_load(struct cold_load *cold, struct mailbox *mailbox, size_t *delivered, int number)
{
	snprintf(cold->sku, sizeof cold->sku, "COLD-%d", number);
	cold->delivered = delivered;
	cold->load = (struct load){.item.deliver = on_cold_loaded,
	                           .mailbox = mailbox,
	                           .sku = text_of(cold->sku),
	                           .deadline_ns = deadline_in_ms(30000),
	                           .fill = true};
	assert_int_equal(loaders_load(h.inventory->loaders, &cold->load), LU_OK);
}

/* After a flush of Redis: while one SELECT stands still, 4,000 look-ups of absent cells gather behind it. */
static void P6_a_cold_cache_is_filled_however_many_ask(void **state)
{
	struct cold_load *cold = calloc(COLD + 1, sizeof *cold);
	struct mailbox mailbox;
	size_t delivered = 0;
	mailbox_init(&mailbox);
	struct pg *other = stranger(&h);
	tell(other, "BEGIN");
	tell(other, "LOCK TABLE lastunit.sku IN ACCESS EXCLUSIVE MODE");
	cold_load(&cold[COLD], &mailbox, &delivered, COLD);
	wait_for_a_waiter("lastunit loader");
	for (int i = 0; i < COLD; i++)
		cold_load(&cold[i], &mailbox, &delivered, i);
	tell(other, "COMMIT");
	while (delivered < COLD + 1) {
		struct pollfd wait = {.fd = mailbox_fd(&mailbox), .events = POLLIN};
		assert_int_equal(poll(&wait, 1, 30000), 1);
		mailbox_deliver(&mailbox);
	}
	pg_free(other);
	mailbox_done(&mailbox);
	free(cold);
}

#define ONE_LOADER(f) cmocka_unit_test_setup_teardown(f, open_house_of_one_loader, close_house)
#define ONE_WRITER(f) cmocka_unit_test_setup_teardown(f, open_house_of_one_writer, close_house)
#define PATIENT_LOCKS(f) cmocka_unit_test_setup_teardown(f, open_house_of_patient_locks, close_house)
#define PATIENT(f) cmocka_unit_test_setup_teardown(f, open_house_with_a_patient_redis_client, close_house)
#define HOUSE_TEST(f) cmocka_unit_test_setup_teardown(f, open_house, close_house)

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
	HOUSE_TEST(I5_a_cell_is_marked_before_its_sku_commits),
	HOUSE_TEST(I5_without_redis_the_epoch_is_closed_before_the_sale_commits),
	HOUSE_TEST(I5_a_redis_that_came_back_from_a_dump_is_fenced),
	HOUSE_TEST(I6_the_ticket_is_out_before_the_select),
	HOUSE_TEST(I7_a_fill_replaces_its_own_ticket_and_nothing_else),
	PATIENT(I8_a_lease_that_ran_out_before_the_reply_serves_nothing),
	HOUSE_TEST(I9_every_operation_is_answered_by_its_deadline),
	HOUSE_TEST(a_postgres_that_is_away_is_not_taken_for_a_redis_that_is),
	HOUSE_TEST(I9_what_the_keeper_waits_for_holds_up_no_reading_of_the_keys),
	ONE_LOADER(I9_who_has_little_time_takes_none_from_his_neighbour),
	ONE_LOADER(I9_who_waits_for_a_loader_is_answered_in_time),
	ONE_LOADER(P6_a_cold_cache_is_filled_however_many_ask),
	PATIENT_LOCKS(who_comes_while_a_batch_waits_for_its_row_goes_with_it),
	PATIENT_LOCKS(I7_who_joins_late_is_not_sold_to_twice),
	PATIENT_LOCKS(I13_who_joins_late_overtakes_nobody),
	HOUSE_TEST(I9_those_behind_many_strangers_locks_are_all_answered_in_time),
	HOUSE_TEST(I9_a_due_hold_behind_a_strangers_lock_is_waited_for_not_spun_for),
	ONE_WRITER(I9_a_key_at_work_elsewhere_is_its_own_carts_trouble_alone),
	HOUSE_TEST(I4_nobody_is_told_that_nothing_was_changed_while_a_commit_hangs),
	cmocka_unit_test_setup_teardown(I5_instances_of_different_leases_wait_for_the_longest, open_house_of_long_leases,
                                    close_house),
	HOUSE_TEST(I9_a_strangers_lock_stops_only_those_who_need_its_row),
	HOUSE_TEST(I10_a_sale_that_cannot_be_published_is_answered_after_the_epoch_closed),
	HOUSE_TEST(I10_a_replay_removes_what_is_older_than_its_answer),
	HOUSE_TEST(I10_a_marker_left_behind_is_healed),
	HOUSE_TEST(I11_a_hold_that_is_due_can_be_sold_but_never_committed),
	HOUSE_TEST(I11_a_due_hold_frees_all_its_skus_for_a_cart_that_needs_one),
	HOUSE_TEST(I12_a_look_up_never_joins_a_select_under_way),
};

HOUSE_MAIN(tests)
