/* Webhooks in the database: a place is moved only from where it was believed to be, and nothing grows without end. */
#include "store/webhook.h"
#include "store/rows.h"

static struct webhook given(unsigned events)
{
	return (struct webhook){.id = next_id(),
	                        .url = TEXT("https://example.com/"),
	                        .events = events,
	                        .secret = TEXT("whsec_x")};
}

static struct webhook made(struct pg *pg, struct webhook webhook)
{
	bool done;
	struct webhook *rows;
	size_t count;
	ok(pg, webhook_insert(pg, &arena, &webhook, SOON, &done));
	assert_true(done);
	ok(pg, webhook_list(pg, &arena, &webhook.id, SOON, &rows, &count));
	assert_int_equal(count, 1);
	return rows[0];
}

static struct webhook now(struct pg *pg, const struct webhook *webhook)
{
	struct webhook *rows;
	size_t count;
	ok(pg, webhook_list(pg, &arena, &webhook->id, SOON, &rows, &count));
	assert_int_equal(count, 1);
	return rows[0];
}

static void a_webhook_is_read_back_as_it_was_made(void **state)
{
	struct pg *pg = session();
	struct text skus[] = {TEXT("A"), TEXT("B")};
	struct webhook webhook = given(5), row, *rows;
	struct feed_state feed;
	size_t count;
	webhook.skus = skus;
	webhook.sku_count = 2;
	row = made(pg, webhook);
	ok(pg, feed_look(pg, &arena, SOON, &feed));
	assert_text(row.url, "https://example.com/");
	assert_text(row.secret, "whsec_x");
	assert_int_equal(row.events, 5);
	assert_int_equal(row.sku_count, 2);
	assert_text(row.skus[1], "B");
	assert_null(row.old_secret.data);
	assert_null(row.disabled.data);
	assert_true(row.position.identity == feed.now.identity && row.position.xid <= feed.now.xid);
	assert_true(row.created_us > 0 && !row.delivered_us && !row.failing_since_us && !row.next_attempt_us);
	row = made(pg, given(7));
	assert_null(row.skus);
	ok(pg, webhook_list(pg, &arena, NULL, SOON, &rows, &count));
	assert_int_equal(count, 2);
	pg_free(pg);
}

static void there_are_at_most_100(void **state)
{
	struct pg *pg = session();
	bool done = true;
	for (int i = 0; i < WEBHOOKS_MAX; i++)
		made(pg, given(1));
	struct webhook webhook = given(1);
	ok(pg, webhook_insert(pg, &arena, &webhook, SOON, &done));
	assert_false(done);
	assert_int_equal(ask_int("SELECT count(*) FROM lastunit.webhook"), WEBHOOKS_MAX);
	pg_free(pg);
}

static void who_is_out_when_it_is_made_is_noted(void **state)
{
	struct pg *pg = session();
	int64_t ids[] = {make_sku("IN", 2), make_sku("OUT", 0), make_sku("SAFE", 2), make_sku("LOOSE", 0)};
	struct text only[] = {TEXT("SAFE")};
	bool *outs;
	ask("UPDATE lastunit.sku SET safety_stock = 2 WHERE code = 'SAFE';"
	    " UPDATE lastunit.sku SET tracked = false WHERE code = 'LOOSE'");
	struct webhook all = made(pg, given(WEBHOOK_STOCK_OUT)), none = made(pg, given(WEBHOOK_AVAILABILITY)),
				   some = given(WEBHOOK_STOCK_BACK);
	some.skus = only;
	some.sku_count = 1;
	some = made(pg, some);
	ok(pg, webhook_outs(pg, &arena, &all.id, ids, 4, SOON, &outs));
	assert_true(!outs[0] && outs[1] && outs[2] && !outs[3]);
	ok(pg, webhook_outs(pg, &arena, &none.id, ids, 4, SOON, &outs));
	assert_true(!outs[0] && !outs[1] && !outs[2] && !outs[3]);
	ok(pg, webhook_outs(pg, &arena, &some.id, ids, 4, SOON, &outs));
	assert_true(!outs[0] && !outs[1] && outs[2] && !outs[3]);
	pg_free(pg);
}

/* A million SKUs that are out must not be a million rows, or a webhook could not be made in one statement. */
static void who_is_out_is_noted_in_few_rows(void **state)
{
	enum { SKUS = 1000 };
	struct pg *pg = session();
	int64_t ids[SKUS + 1], backs[2], new = 1000000;
	bool *outs;
	ask("INSERT INTO lastunit.sku (code, on_hand) SELECT 'out-' || n, 0 FROM generate_series(1, 1000) n");
	int64_t first = ask_int("SELECT min(id) FROM lastunit.sku");
	for (int i = 0; i < SKUS; i++)
		ids[i] = first + i;
	ids[SKUS] = new;
	struct webhook webhook = made(pg, given(WEBHOOK_STOCK_BACK));
	assert_in_range(ask_int("SELECT count(*) FROM lastunit.webhook_out"), 4, 5);
	backs[0] = ids[0];
	backs[1] = ids[SKUS - 1];
	struct webhook_progress progress = {.from = webhook.position,
	                                    .to = webhook.position,
	                                    .outs = (int64_t[]){new, ids[1]},
	                                    .out_count = 2,
	                                    .backs = backs,
	                                    .back_count = 2};
	progress.to.version++;
	ok(pg, webhook_advance(pg, &arena, &webhook.id, &progress, SOON));
	ok(pg, webhook_outs(pg, &arena, &webhook.id, ids, SKUS + 1, SOON, &outs));
	for (int i = 0; i <= SKUS; i++)
		assert_int_equal(outs[i], i != 0 && i != SKUS - 1);
	assert_int_equal(ask_int("SELECT sum(cardinality(sku_ids)) FROM lastunit.webhook_out"), SKUS - 1);
	pg_free(pg);
}

static void a_place_is_moved_from_where_it_is_and_from_nowhere_else(void **state)
{
	struct pg *pg = session();
	int64_t skus[] = {11, 12, 13};
	bool *outs;
	struct webhook webhook = made(pg, given(7));
	struct webhook_progress progress = {.from = webhook.position,
	                                    .to = {webhook.position.identity, webhook.position.xid + 5, 12, 3},
	                                    .outs = skus,
	                                    .out_count = 2,
	                                    .delivered = true};
	ok(pg, webhook_delay(pg, &webhook.id, 3, TEXT("it answered 500"), 60000, SOON));
	struct webhook row = now(pg, &webhook);
	assert_int_equal(row.attempts, 3);
	assert_text(row.last_error, "it answered 500");
	assert_true(row.failing_since_us > 0 && row.failing_ms >= 0 && row.next_in_ms > 50000);
	ok(pg, webhook_advance(pg, &arena, &webhook.id, &progress, SOON));
	row = now(pg, &webhook);
	assert_int_equal(feed_position_compare(&row.position, &progress.to), 0);
	assert_true(row.delivered_us > 0 && !row.failing_since_us && !row.attempts && !row.last_error.data);
	assert_int_equal(row.next_in_ms, 0);
	/* The second who believes to lead: neither its place nor what it noted. */
	struct webhook_progress stale = {.from = webhook.position,
	                                 .to = webhook.position,
	                                 .backs = skus,
	                                 .back_count = 1,
	                                 .outs = skus + 2,
	                                 .out_count = 1};
	stale.to.xid++;
	ok(pg, webhook_advance(pg, &arena, &webhook.id, &stale, SOON));
	row = now(pg, &webhook);
	assert_int_equal(feed_position_compare(&row.position, &progress.to), 0);
	ok(pg, webhook_outs(pg, &arena, &webhook.id, skus, 3, SOON, &outs));
	assert_true(outs[0] && outs[1] && !outs[2]);
	struct webhook_progress back = {.from = progress.to, .to = progress.to, .backs = skus, .back_count = 1};
	back.to.version++;
	ok(pg, webhook_advance(pg, &arena, &webhook.id, &back, SOON));
	ok(pg, webhook_outs(pg, &arena, &webhook.id, skus, 3, SOON, &outs));
	assert_true(!outs[0] && outs[1]);
	pg_free(pg);
}

static void one_session_leads_until_it_ends(void **state)
{
	struct pg *first = session(), *second = session();
	bool leads;
	ok(first, webhook_lead(first, SOON, &leads));
	assert_true(leads);
	ok(second, webhook_lead(second, SOON, &leads));
	assert_false(leads);
	pg_free(first);
	do
		ok(second, webhook_lead(second, SOON, &leads));
	while (!leads);
	pg_free(second);
}

static void a_leader_that_says_nothing_loses_the_lead(void **state)
{
	struct pg *silent = pg_new(&(struct pg_options){.url = url,
	                                                .role = "lastunit_service",
	                                                .application_name = "silent",
	                                                .idle_timeout_ms = 1000});
	struct pg *other = session();
	bool leads;
	ok(silent, pg_connect(silent, SOON));
	ok(silent, webhook_lead(silent, SOON, &leads));
	assert_true(leads);
	int64_t until_ns = SOON;
	do {
		ok(other, webhook_lead(other, SOON, &leads));
		assert_true(clock_boottime_ns() < until_ns);
	} while (!leads);
	/* It is told so, and not by a lead that it takes anew in silence. */
	assert_int_equal(webhook_lead(silent, SOON, &leads), LU_DATABASE_UNAVAILABLE);
	assert_false(pg_connected(silent));
	ok(silent, pg_connect(silent, SOON));
	ok(silent, webhook_lead(silent, SOON, &leads));
	assert_false(leads);
	pg_free(silent);
	pg_free(other);
}

static void what_was_put_aside_is_kept_up_to_a_thousand(void **state)
{
	struct pg *pg = session();
	struct webhook webhook = made(pg, given(7)), other = made(pg, given(7));
	struct webhook_failure *seen, failure = {.body = TEXT("{}"), .attempts = 5, .error = TEXT("it answered 400")};
	size_t count;
	for (int i = 0; i < WEBHOOK_FAILURES_KEPT + 5; i++) {
		failure.message = arena_printf(&arena, "msg_%d", i);
		ok(pg, webhook_bury(pg, &arena, &webhook.id, &failure, SOON));
	}
	ok(pg, webhook_bury(pg, &arena, &other.id, &failure, SOON));
	ok(pg, webhook_failures(pg, &arena, &webhook.id, 0, 2 * WEBHOOK_FAILURES_KEPT, SOON, &seen, &count));
	assert_int_equal(count, WEBHOOK_FAILURES_KEPT);
	assert_text(seen[0].message, "msg_5");
	assert_text(seen[0].error, "it answered 400");
	assert_int_equal(seen[0].attempts, 5);
	ok(pg, webhook_failures(pg, &arena, &webhook.id, seen[997].id, 2, SOON, &seen, &count));
	assert_int_equal(count, 2);
	assert_text(seen[1].message, "msg_1004");
	bool found;
	ok(pg, webhook_delete(pg, &webhook.id, SOON, &found));
	assert_true(found);
	assert_int_equal(ask_int("SELECT count(*) FROM lastunit.webhook_failure"), 1);
	ok(pg, webhook_bury(pg, &arena, &webhook.id, &failure, SOON)); /* deleted meanwhile */
	assert_int_equal(ask_int("SELECT count(*) FROM lastunit.webhook_failure"), 1);
	pg_free(pg);
}

static void secrets_rotate_and_what_is_disabled_is_enabled(void **state)
{
	struct pg *pg = session();
	struct webhook webhook = made(pg, given(7)), row;
	struct uuid nobody = uuid_new();
	bool found;
	ok(pg, webhook_rotate(pg, &webhook.id, TEXT("whsec_y"), 60, SOON, &found));
	assert_true(found);
	row = now(pg, &webhook);
	assert_text(row.secret, "whsec_y");
	assert_text(row.old_secret, "whsec_x");
	ok(pg, webhook_rotate(pg, &webhook.id, TEXT("whsec_z"), 0, SOON, &found));
	assert_null(now(pg, &webhook).old_secret.data);
	ok(pg, webhook_delay(pg, &webhook.id, 3, TEXT("away"), 60000, SOON));
	ok(pg, webhook_disable(pg, &webhook.id, TEXT("gone"), SOON));
	row = now(pg, &webhook);
	assert_text(row.disabled, "gone");
	ok(pg, webhook_enable(pg, &webhook.id, SOON, &found));
	row = now(pg, &webhook);
	assert_true(found && !row.disabled.data && !row.failing_since_us && !row.attempts && !row.next_attempt_us);
	ok(pg, webhook_rotate(pg, &nobody, TEXT("x"), 0, SOON, &found));
	assert_false(found);
	ok(pg, webhook_enable(pg, &nobody, SOON, &found));
	assert_false(found);
	ok(pg, webhook_delete(pg, &nobody, SOON, &found));
	assert_false(found);
	pg_free(pg);
}

/* As when the answer to the first time was lost with the connection. */
static void making_and_rotating_twice_is_as_once(void **state)
{
	struct pg *pg = session();
	bool done;
	for (int i = 0; i < WEBHOOKS_MAX - 1; i++)
		made(pg, given(1));
	struct webhook mine = given(7), row;
	mine.secret = TEXT("whsec_mine");
	made(pg, mine);
	made(pg, mine); /* there are as many as there can be, but it is one of them */
	mine.secret = TEXT("whsec_another");
	ok(pg, webhook_insert(pg, &arena, &mine, SOON, &done));
	assert_false(done); /* its id, but somebody else's */
	assert_int_equal(ask_int("SELECT count(*) FROM lastunit.webhook"), WEBHOOKS_MAX);
	for (int i = 0; i < 2; i++) {
		ok(pg, webhook_rotate(pg, &mine.id, TEXT("whsec_new"), 60, SOON, &done));
		assert_true(done);
		row = now(pg, &mine);
		assert_text(row.secret, "whsec_new");
		assert_text(row.old_secret, "whsec_mine");
		ask("UPDATE lastunit.webhook SET old_secret_until = '2100-01-01' WHERE secret = 'whsec_new'");
	}
	assert_int_equal(ask_int("SELECT count(*) FROM lastunit.webhook WHERE old_secret_until = '2100-01-01'"), 1);
	pg_free(pg);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(a_webhook_is_read_back_as_it_was_made),
		STORE_TEST(there_are_at_most_100),
		STORE_TEST(who_is_out_when_it_is_made_is_noted),
		STORE_TEST(who_is_out_is_noted_in_few_rows),
		STORE_TEST(a_place_is_moved_from_where_it_is_and_from_nowhere_else),
		STORE_TEST(one_session_leads_until_it_ends),
		STORE_TEST(a_leader_that_says_nothing_loses_the_lead),
		STORE_TEST(what_was_put_aside_is_kept_up_to_a_thousand),
		STORE_TEST(secrets_rotate_and_what_is_disabled_is_enabled),
		STORE_TEST(making_and_rotating_twice_is_as_once),
	};
	return cmocka_run_group_tests(tests, fixture_start, fixture_end);
}
