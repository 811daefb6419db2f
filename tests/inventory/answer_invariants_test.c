/* What is answered: the invariants of src/inventory/README.md by which nobody is shown what is old (I5 to I8, I10, I12) or
 * waits beyond his deadline (I9), each forced: by a stranger's lock, a proxy that cuts or holds one message, a Redis that
 * is paused or killed. What is waited for is always an event, never a time. What is written: write_invariants_test.c. */
#include "inventory/house_fixture.h"

#include <poll.h>

#include "inventory/inventory_internal.h"
#include "store/epoch.h"
#include "store/keyring.h"
#include "store/pg.h"

static int open_house_of_one_loader(void **state)
{
	return open_house_with(&house_config.loaders, 1);
}

static int open_house_with_a_patient_redis_client(void **state)
{
	return open_house_with(&house_config.redis_timeout_ms, 5000);
}

static int open_house_of_long_leases(void **state)
{
	return open_house_with(&house_config.lease_ms, 2000);
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

/* A's cell is gone, and a look-up of A stands with its ticket in front of its SELECT until what is returned commits. */
static struct pg *stands_in_front_of_the_select(struct looking **ret_reader)
{
	char key[200];
	snprintf(key, sizeof key, "DEL %s:A", sql(&h, "SELECT namespace FROM lastunit.cache_epoch"));
	free(redis_server_command(&house_redis, key));
	struct pg *other = stranger(&h);
	tell(other, "BEGIN");
	tell(other, "LOCK TABLE lastunit.sku IN ACCESS EXCLUSIVE MODE");
	*ret_reader = look_begin(&h, "A");
	wait_for_a_waiter("lastunit loader");
	return other;
}

/* B31: the SELECT stands still with its ticket out; meanwhile a writer of another instance marks the cell. */
static void I6_the_ticket_is_out_before_the_select(void **state)
{
	make_sku(&h, "A", 10);
	struct looking *reader;
	struct pg *other = stands_in_front_of_the_select(&reader);
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
		struct looking *reader;
		struct pg *other = stands_in_front_of_the_select(&reader);
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

/* Neither by an instance that found the epoch open and had no reason to probe Redis itself. */
static void a_postgres_that_is_away_is_not_taken_for_a_redis_that_is(void **state)
{
	static struct house beside; /* its threads outlive a failed assertion */
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

/* Sixteen rows locked by a stranger, and at most half the writers wait for such: nobody waits beyond his deadline. */
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

/* The first look-up's SELECT stands still: a second one must send one of its own. */
static void I12_a_look_up_never_joins_a_select_under_way(void **state)
{
	make_sku(&h, "A", 10);
	struct looking *first;
	struct pg *other = stands_in_front_of_the_select(&first);
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
#define PATIENT(f) cmocka_unit_test_setup_teardown(f, open_house_with_a_patient_redis_client, close_house)

static const struct CMUnitTest tests[] = {
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
	HOUSE_TEST(I9_those_behind_many_strangers_locks_are_all_answered_in_time),
	HOUSE_TEST(I9_a_due_hold_behind_a_strangers_lock_is_waited_for_not_spun_for),
	ONE_WRITER(I9_a_key_at_work_elsewhere_is_its_own_carts_trouble_alone),
	cmocka_unit_test_setup_teardown(I5_instances_of_different_leases_wait_for_the_longest, open_house_of_long_leases,
                                    close_house),
	HOUSE_TEST(I9_a_strangers_lock_stops_only_those_who_need_its_row),
	HOUSE_TEST(I10_a_sale_that_cannot_be_published_is_answered_after_the_epoch_closed),
	HOUSE_TEST(I10_a_replay_removes_what_is_older_than_its_answer),
	HOUSE_TEST(I10_a_marker_left_behind_is_healed),
	HOUSE_TEST(I12_a_look_up_never_joins_a_select_under_way),
};

HOUSE_MAIN(tests)
