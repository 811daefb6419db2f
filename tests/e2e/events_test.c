/* GET /v1/events against the real service: what those who listen are told, and that it costs the others nothing. */
#include "base/clock.h"
#include "lastunit/types.h"
#include "lib/detour.h"
#include "lib/sse_client.h"

#include <signal.h>

static struct sse_client stream;
static struct sse_client quiet; /* of a SKU that never changes; open from the first test on */

static void listen_to(const struct service *instance, const char *path, const char *last_id)
{
	sse_client_done(&stream);
	if (!sse_client_open(&stream, instance, shop.key_web, path, last_id))
		fail_msg("%s: %s", path, stream.http.error);
	assert_int_equal(stream.status, 200);
}

static void hear(void)
{
	if (!sse_client_next(&stream))
		fail_msg("nothing was told: %s", stream.http.error);
}

/* The next event: this SKU, so much of it, this version. */
static void hear_of(const char *sku, int64_t available, int64_t version)
{
	hear();
	assert_string_equal(stream.event, "availability");
	assert_string_equal(sse_client_string(&stream, "sku"), sku);
	assert_int_equal(sse_client_int(&stream, "available"), available);
	assert_int_equal(sse_client_int(&stream, "version"), version);
	assert_true(*stream.last_id);
}

static int over(void **state)
{
	sse_client_done(&stream);
	return detour_audit(state);
}

static void sell(const char *sku, int64_t quantity)
{
	assert_int_equal(service_sell(&shop, shop.key_pos, NULL, sku, quantity), 201);
}

/* --- named SKUs --------------------------------------------------------------------------------------------------- */

static void a_stream_begins_with_what_is_and_goes_on_with_each_change(void **state)
{
	service_create_sku(&shop, "EV-A", 10);
	service_create_sku(&shop, "EV-OTHER", 10);
	sell("EV-A", 1);
	service_create_sku(&shop, "EV-QUIET", 1);
	assert_true(sse_client_open(&quiet, &shop, shop.key_pos, "/v1/events?sku=EV-QUIET", NULL));
	assert_true(sse_client_next(&quiet));
	listen_to(&shop, "/v1/events?sku=EV-A&sku=EV-A", NULL);
	hear_of("EV-A", 9, 2);
	assert_in_range(stream.retry_ms, 1000, 2000);
	sell("EV-OTHER", 1);
	sell("EV-A", 2);
	hear_of("EV-A", 7, 3);
	char hold[37];
	assert_int_equal(service_reserve(&shop, shop.key_web, NULL, "EV-A", 3, 600, hold), 201);
	hear_of("EV-A", 4, 4);
	assert_int_equal(sse_client_int(&stream, "held"), 3);
	assert_int_equal(service_end(&shop, shop.key_web, hold, "release"), 200);
	hear_of("EV-A", 7, 5);
}

static void what_another_instance_sells_and_what_sql_changes_is_told(void **state)
{
	struct service other;
	service_create_sku(&shop, "EV-B", 10);
	shop_beside(&other, NULL, NULL);
	listen_to(&other, "/v1/events?sku=EV-B", NULL);
	hear_of("EV-B", 10, 1);
	sell("EV-B", 1);
	hear_of("EV-B", 9, 2);
	shop_sql("UPDATE lastunit.sku SET on_hand = 100 WHERE code = 'EV-B'");
	hear_of("EV-B", 100, 3);
	/* SIGTERM ends it at once, in order. */
	assert_int_equal(service_stop(&other), 0);
	assert_true(sse_client_sees_end(&stream));
}

static void a_sku_that_is_unknown_is_told_when_it_is_made(void **state)
{
	listen_to(&shop, "/v1/events?sku=EV-NEW", NULL);
	hear();
	assert_string_equal(sse_client_string(&stream, "status"), "unknown");
	service_create_sku(&shop, "EV-NEW", 3);
	hear_of("EV-NEW", 3, 1);
}

/* True as soon as one more stream is open; false if it waits for room in the socket. */
static bool stream_opens(int64_t before)
{
	int64_t until_ns = deadline_in_ms(1000);
	while (shop_metric(&shop, "lastunit_event_streams") == before)
		if (!deadline_left_ms(until_ns))
			return false;
	return true;
}

/* Its first bytes come when there is no room for them: behind answers that the client has not taken yet. How many of these
 * it takes is the machine's business, so more and more are tried, until the stream itself has to wait. */
static void who_begins_behind_is_told_what_is_unknown_too(void **state)
{
	static const char page[] = "GET /page/page.css HTTP/1.1\r\nHost: a\r\n\r\n";
	char listen[200];
	bool opens = true;
	snprintf(listen, sizeof listen,
	         "GET /v1/events?sku=EV-NOWHERE HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\n\r\n", shop.key_web);
	for (int pages = 1; opens; pages *= 2) {
		assert_true(pages < 1000);
		struct http_client client = http_client(shop.url, NULL);
		struct http_answer answer = {0};
		char told[2000] = "";
		size_t size = 0, more;
		int64_t before = shop_metric(&shop, "lastunit_event_streams");
		assert_true(http_client_open(&client));
		for (int i = 0; i < pages; i++)
			assert_true(http_client_send_text(&client, page));
		assert_true(http_client_send_text(&client, listen));
		opens = stream_opens(before);
		for (int i = 0; i < pages; i++)
			assert_true(http_client_read(&client, false, &answer));
		client.timeout_ms = 5000;
		for (; !strstr(told, "\"unknown\""); size += more)
			if (!http_client_read_some(&client, told + size, sizeof told - size, &more))
				fail_msg("behind %d pages nothing else is told but %s", pages, told);
		http_answer_done(&answer);
		http_client_done(&client);
		shop_wait_until(shop_metric(&shop, "lastunit_event_streams") == before);
	}
}

static void a_stream_outlives_postgresql(void **state)
{
	service_create_sku(&shop, "EV-RESTART", 5);
	listen_to(&shop, "/v1/events?sku=EV-RESTART", NULL);
	hear_of("EV-RESTART", 5, 1);
	shop_restart("postgres");
	shop_wait_until(service_sell(&shop, shop.key_pos, NULL, "EV-RESTART", 1) == 201);
	hear_of("EV-RESTART", 4, 2);
}

/* --- a busy SKU --------------------------------------------------------------------------------------------------- */

static void buy(int index, void *context)
{
	while (!crowd_is_over())
		service_sell(&shop, shop.key_pos, NULL, "EV-BUSY", 1);
}

static void a_busy_sku_never_goes_back_and_ends_as_it_is(void **state)
{
	service_create_sku(&shop, "EV-BUSY", 1000000);
	struct crowd *crowd = crowd_begin(4, buy, NULL);
	listen_to(&shop, "/v1/events?sku=EV-BUSY", NULL);
	int64_t version = 0;
	for (int i = 0; i < 15; i++) {
		hear();
		assert_true(sse_client_int(&stream, "version") > version);
		version = sse_client_int(&stream, "version");
		assert_int_equal(sse_client_int(&stream, "available"), 1000000 - version + 1);
		/* Who was told of it is never shown less. */
		assert_true(service_see(&shop, "EV-BUSY").version >= version);
	}
	crowd_end(crowd);
	int64_t last = service_row(&shop, "EV-BUSY").version;
	while (version < last) {
		hear();
		assert_true(sse_client_int(&stream, "version") > version);
		version = sse_client_int(&stream, "version");
	}
	assert_int_equal(version, last);
}

/* --- all changes -------------------------------------------------------------------------------------------------- */

static void a_stream_without_skus_tells_of_all_and_resumes_where_it_was(void **state)
{
	listen_to(&shop, "/v1/events", NULL);
	service_create_sku(&shop, "EV-ALL-1", 5);
	service_create_sku(&shop, "EV-ALL-2", 5);
	hear_of("EV-ALL-1", 5, 1);
	char id[128];
	snprintf(id, sizeof id, "%s", stream.last_id);
	hear_of("EV-ALL-2", 5, 1);
	sse_client_done(&stream);
	sell("EV-ALL-1", 1);
	listen_to(&shop, "/v1/events", id);
	hear_of("EV-ALL-2", 5, 1);
	hear_of("EV-ALL-1", 4, 2);
	sell("EV-ALL-2", 2);
	hear_of("EV-ALL-2", 3, 2);
}

static void an_id_of_another_database_is_told_to_be_forgotten(void **state)
{
	char id[128];
	listen_to(&shop, "/v1/events", "0123456789abcdef-1-1-1");
	hear();
	assert_string_equal(stream.event, "reset");
	assert_string_equal(sse_client_string(&stream, "code"), "cursor_expired");
	service_create_sku(&shop, "EV-RESET", 5);
	hear_of("EV-RESET", 5, 1);
	snprintf(id, sizeof id, "%s", stream.last_id);
	sse_client_done(&stream);
	sell("EV-RESET", 1); /* while nobody listens */
	listen_to(&shop, "/v1/events", id);
	hear_of("EV-RESET", 4, 2);
}

/* A snapshot of the storage was put back: the numbers behind it come again, for changes that this client has not heard. */
static void an_id_ahead_of_the_feed_is_told_to_be_forgotten(void **state)
{
	unsigned long long identity, xid;
	listen_to(&shop, "/v1/events", NULL);
	service_create_sku(&shop, "EV-AHEAD", 5);
	hear_of("EV-AHEAD", 5, 1);
	assert_int_equal(sscanf(stream.last_id, "%llx-%llx-", &identity, &xid), 2);
	listen_to(&shop, "/v1/events", shop_text("%016llx-%llx-1-1", identity, xid + 100000));
	hear();
	assert_string_equal(stream.event, "reset");
	assert_string_equal(sse_client_string(&stream, "code"), "cursor_expired");
	sell("EV-AHEAD", 1);
	hear_of("EV-AHEAD", 4, 2);
}

/* Changes of many SKUs in one transaction, again and again, while nobody reads: far more than the sockets hold. */
static void change_many(int skus, int times)
{
	for (int i = 0; i < times; i++)
		shop_sql("UPDATE lastunit.sku SET on_hand = on_hand + 1 WHERE code LIKE 'EV-MANY-%%' AND %d > 0", skus);
}

static void make_many(int skus)
{
	shop_sql(
		"INSERT INTO lastunit.sku (code, on_hand) SELECT 'EV-MANY-' || n, 0 FROM generate_series(1, %d) n"
		" ON CONFLICT DO NOTHING",
		skus);
}

enum { MANY = 3000, TIMES = 10 };

static void who_reads_all_changes_slowly_misses_no_state(void **state)
{
	static int64_t seen[MANY + 1];
	make_many(MANY);
	listen_to(&shop, "/v1/events", NULL);
	change_many(MANY, TIMES);
	int done = 0;
	for (int events = 0; done < MANY; events++) {
		int n;
		hear();
		assert_int_equal(sscanf(sse_client_string(&stream, "sku"), "EV-MANY-%d", &n), 1);
		assert_in_range(n, 1, MANY);
		seen[n] = sse_client_int(&stream, "available");
		done += seen[n] == TIMES;
		assert_true(events <= MANY * (TIMES + 1));
	}
	/* It has caught up, and hears what comes next as everybody does. */
	service_create_sku(&shop, "EV-AFTER-MANY", 1);
	do
		hear();
	while (strcmp(sse_client_string(&stream, "sku"), "EV-AFTER-MANY") != 0);
}

/* More pages of the feed than one, read one behind the other. */
static void who_resumes_far_behind_is_told_all_that_was_missed(void **state)
{
	static bool seen[MANY + 1];
	make_many(MANY);
	shop_expect_get("/v1/changes?cursor=now", 200);
	char id[128];
	snprintf(id, sizeof id, "%s", answer_string(&shop_answer, "next"));
	change_many(MANY, 1);
	listen_to(&shop, "/v1/events", id);
	for (int done = 0; done < MANY; done++) {
		int n;
		hear();
		assert_int_equal(sscanf(sse_client_string(&stream, "sku"), "EV-MANY-%d", &n), 1);
		assert_false(seen[n]);
		seen[n] = true;
	}
	service_create_sku(&shop, "EV-BEHIND", 1);
	hear_of("EV-BEHIND", 1, 1);
}

static void who_reads_named_skus_slowly_gets_the_newest_state_of_each(void **state)
{
	enum { UPDATES = 60 };
	static char path[40000];
	static int64_t seen[LU_LOOKUP_MAX + 1];
	make_many(MANY);
	int64_t base = service_row(&shop, "EV-MANY-1").on_hand;
	char *to = path + sprintf(path, "/v1/events?");
	for (int i = 1; i <= 150; i++)
		to += sprintf(to, "sku=EV-MANY-%d&", i);
	to[-1] = 0;
	listen_to(&shop, path, NULL);
	for (int i = 0; i < UPDATES; i++)
		shop_sql(
			"UPDATE lastunit.sku SET on_hand = on_hand + 1 WHERE code = ANY(ARRAY(SELECT 'EV-MANY-' || n FROM"
			" generate_series(1, 150) n))");
	int done = 0, events = 0;
	for (; done < 150; events++) {
		int n;
		hear();
		assert_int_equal(sscanf(sse_client_string(&stream, "sku"), "EV-MANY-%d", &n), 1);
		int64_t available = sse_client_int(&stream, "available");
		assert_true(available > seen[n] || !seen[n]);
		seen[n] = available;
		done += available == base + UPDATES;
	}
	assert_true(events < 150 * UPDATES);
}

/* One batch is rendered for all who listen, but what is left depends on who asks. */
static void each_who_listens_to_all_is_told_what_it_may_sell(void **state)
{
	enum { STREAMS = 8 }; /* on each loop some of both */
	static struct sse_client streams[STREAMS];
	assert_int_equal(service_run(&shop, (const char *[]){"key", "set", "marketplace", "--buffer", "2", NULL}), 0);
	for (int i = 0; i < STREAMS; i++)
		assert_true(
			sse_client_open(&streams[i], &shop, i % 4 < 2 ? shop.key_pos : shop.key_marketplace, "/v1/events", NULL));
	service_create_sku(&shop, "EV-BUFFER", 5);
	for (int i = 0; i < STREAMS; i++) {
		assert_true(sse_client_next(&streams[i]));
		assert_string_equal(sse_client_string(&streams[i], "sku"), "EV-BUFFER");
		assert_int_equal(sse_client_int(&streams[i], "available"), i % 4 < 2 ? 5 : 3);
		sse_client_done(&streams[i]);
	}
	assert_int_equal(service_run(&shop, (const char *[]){"key", "set", "marketplace", "--buffer", "0", NULL}), 0);
}

/* --- refusals and ends -------------------------------------------------------------------------------------------- */

static void what_waiting_does_not_mend_is_refused_as_everywhere(void **state)
{
	shop_expect(NULL, "GET", "/v1/events", NULL, NULL, 401);
	shop_expect(shop.key_web, "GET", "/v1/events?sku=%20", NULL, NULL, 422);
	shop_expect(shop.key_web, "GET", "/v1/events?limit=1", NULL, NULL, 422);
	shop_expect(shop.key_web, "HEAD", "/v1/events?sku=EV-A", NULL, NULL, 200);
	assert_string_equal(answer_header(&shop_answer, "Content-Type"), "text/event-stream");
	static char path[8000];
	char *to = path + sprintf(path, "/v1/events?sku=0");
	for (int i = 1; i <= LU_LOOKUP_MAX; i++)
		to += sprintf(to, "&sku=%d", i);
	shop_expect(shop.key_web, "GET", path, NULL, NULL, 422);
}

static void one_stream_too_many_is_told_to_come_back(void **state)
{
	struct service other;
	struct sse_client second;
	service_create_sku(&shop, "EV-LIMIT", 5);
	service_beside(&other, &shop, NULL, NULL, (const char *[]){"--event-streams-max", "1", NULL});
	listen_to(&other, "/v1/events?sku=EV-LIMIT", NULL);
	hear_of("EV-LIMIT", 5, 1);
	assert_true(sse_client_open(&second, &other, shop.key_web, "/v1/events?sku=EV-LIMIT", NULL));
	assert_int_equal(second.status, 200);
	second.http.timeout_ms = 300; /* nothing but the pause comes */
	assert_false(sse_client_next(&second));
	assert_in_range(second.retry_ms, 10000, 20000);
	sse_client_done(&second);
	/* Who leaves makes room. */
	sse_client_done(&stream);
	shop_wait_until(shop_metric(&other, "lastunit_event_streams") == 0);
	listen_to(&other, "/v1/events?sku=EV-LIMIT", NULL);
	hear_of("EV-LIMIT", 5, 1);
	service_stop(&other);
}

/* Nothing to begin with: better an answer that says when to come back than none. */
static void who_comes_while_postgresql_is_silent_is_told_to_come_back(void **state)
{
	service_create_sku(&shop, "EV-SILENT", 5);
	detour_open();
	shop_warm(&detour.service, "EV-SILENT");
	proxy_cut_all(&detour.postgres, true);
	listen_to(&detour.service, "/v1/events?sku=EV-SILENT", NULL);
	stream.http.timeout_ms = 300; /* nothing but the pause comes */
	assert_false(sse_client_next(&stream));
	assert_in_range(stream.retry_ms, 10000, 20000);
	proxy_cut_all(&detour.postgres, false);
	detour_close();
}

static void a_silent_stream_is_kept_alive(void **state)
{
	char bytes[16] = "";
	size_t size = 0;
	assert_true(http_client_read_some(&quiet.http, bytes, sizeof bytes - 1, &size));
	assert_memory_equal(bytes, ":\n\n", 3);
	sse_client_done(&quiet);
}

/* Its versions may be lower than those that were told: clients come back and are told anew. */
static void streams_end_when_postgresql_is_another_one(void **state)
{
	struct sse_client all;
	service_create_sku(&shop, "EV-OTHER-PG", 5);
	listen_to(&shop, "/v1/events?sku=EV-OTHER-PG", NULL);
	hear_of("EV-OTHER-PG", 5, 1);
	assert_true(sse_client_open(&all, &shop, shop.key_web, "/v1/events", NULL));
	/* The ledger's oid is part of what tells one from another. */
	shop_sql(
		"ALTER TABLE lastunit.ledger RENAME TO ledger_of_before;"
		" CREATE TABLE lastunit.ledger (LIKE lastunit.ledger_of_before);"
		" GRANT SELECT ON lastunit.ledger TO lastunit_service");
	bool ended = sse_client_sees_end(&stream), all_ended = sse_client_sees_end(&all);
	sse_client_done(&all);
	/* Who came meanwhile hears the end when that one, too, is seen to have gone. */
	bool came = sse_client_open(&all, &shop, shop.key_web, "/v1/events", NULL);
	shop_sql("DROP TABLE lastunit.ledger; ALTER TABLE lastunit.ledger_of_before RENAME TO ledger");
	assert_true(ended && all_ended && came);
	assert_true(sse_client_sees_end(&all));
	sse_client_done(&all);
	listen_to(&shop, "/v1/events?sku=EV-OTHER-PG", NULL);
	hear_of("EV-OTHER-PG", 5, 1);
	sell("EV-OTHER-PG", 1);
	hear_of("EV-OTHER-PG", 4, 2);
}

static const char *path_of(int skus)
{
	static char path[4000];
	char *to = path + sprintf(path, "/v1/events?sku=EV-NAMED");
	for (int i = 1; i < skus; i++)
		to += sprintf(to, "&sku=EV-NAMED-%d", i);
	return path;
}

/* Each SKU that a stream names costs memory, whether there is one or not, and anybody who has the key of a page may ask. */
static void streams_that_name_too_many_skus_make_no_room_for_others(void **state)
{
	struct service other;
	struct sse_client first = {0}, second = {0};
	service_create_sku(&shop, "EV-NAMED", 1);
	service_beside(&other, &shop, NULL, NULL, (const char *[]){"--event-streams-max", "10", NULL});
	assert_true(sse_client_open(&first, &other, shop.key_pos, path_of(150), NULL));
	assert_true(sse_client_next(&first));
	assert_true(sse_client_open(&second, &other, shop.key_pos, path_of(60), NULL));
	second.http.timeout_ms = 300; /* nothing but the pause comes */
	assert_false(sse_client_next(&second));
	assert_in_range(second.retry_ms, 10000, 20000);
	sse_client_done(&second);
	listen_to(&other, path_of(20), NULL);
	hear();
	sse_client_done(&first);
	shop_wait_until(shop_metric(&other, "lastunit_event_streams") == 1);
	listen_to(&other, path_of(150), NULL);
	hear();
	sse_client_done(&stream);
	assert_int_equal(service_stop(&other), 0);
}

static void a_key_that_is_revoked_hears_nothing_more(void **state)
{
	service_create_sku(&shop, "EV-KEY", 5);
	listen_to(&shop, "/v1/events?sku=EV-KEY", NULL);
	hear_of("EV-KEY", 5, 1);
	char prefix[12];
	snprintf(prefix, sizeof prefix, "%.11s", shop.key_web);
	assert_int_equal(service_run(&shop, (const char *[]){"key", "revoke", "--prefix", prefix, NULL}), 0);
	assert_true(sse_client_sees_end(&stream));
	shop_sql("UPDATE lastunit.api_key SET revoked_at = NULL");
	shop_wait_until(service_sell(&shop, shop.key_web, NULL, "EV-KEY", 1) == 201);
}

static void a_transaction_left_open_holds_events_back_and_is_seen(void **state)
{
	service_create_sku(&shop, "EV-LAG", 5);
	listen_to(&shop, "/v1/events?sku=EV-LAG", NULL);
	hear_of("EV-LAG", 5, 1);
	struct stranger *stranger = stranger_new();
	stranger_say(stranger, "BEGIN");
	stranger_say(stranger, "CREATE TEMP TABLE anything ()");
	sell("EV-LAG", 1);
	shop_wait_until(shop_metric(&shop, "lastunit_feed_lag_milliseconds") > 100);
	shop_expect_get("/readyz", 200);
	assert_true(answer_int(&shop_answer, "feed_lag_ms") > 100);
	stranger_say(stranger, "COMMIT");
	stranger_free(stranger);
	hear_of("EV-LAG", 4, 2);
	shop_wait_until(shop_metric(&shop, "lastunit_feed_lag_milliseconds") == 0);
}

/* --- what it costs ------------------------------------------------------------------------------------------------ */

static long rss_kib(pid_t pid)
{
	char path[64], line[200];
	long kib = -1;
	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof line, file))
		sscanf(line, "VmRSS: %ld", &kib);
	fclose(file);
	return kib;
}

static void a_thousand_streams_cost_less_than_60_mib(void **state)
{
	enum { STREAMS = 1000 };
	static struct sse_client streams[STREAMS];
	struct service other;
	service_create_sku(&shop, "EV-THOUSAND", 5);
	shop_beside(&other, NULL, NULL);
	shop_warm(&other, "EV-THOUSAND");
	long before = rss_kib(other.pid);
	for (int i = 0; i < STREAMS; i++) {
		assert_true(sse_client_open(&streams[i], &other, shop.key_web,
		                            i % 4 ? "/v1/events?sku=EV-THOUSAND&sku=EV-A&sku=EV-B" : "/v1/events", NULL));
		assert_int_equal(streams[i].status, 200);
	}
	for (int sale = 1; sale <= 3; sale++) {
		sell("EV-THOUSAND", 1);
		for (int i = 0; i < STREAMS; i++)
			do
				assert_true(sse_client_next(&streams[i]));
			while (sse_client_int(&streams[i], "version") != sale + 1 ||
			       strcmp(sse_client_string(&streams[i], "sku"), "EV-THOUSAND") != 0);
	}
	long grown = rss_kib(other.pid) - before;
	print_message("1,000 streams: %ld KiB\n", grown);
#ifndef __SANITIZE_ADDRESS__
	if (!shop_short())
		assert_true(grown < 60 * 1024);
#endif
	for (int i = 0; i < STREAMS; i++)
		sse_client_done(&streams[i]);
	shop_wait_until(shop_metric(&other, "lastunit_event_streams") == 0);
	service_stop(&other);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_stream_begins_with_what_is_and_goes_on_with_each_change, over),
		cmocka_unit_test_teardown(what_another_instance_sells_and_what_sql_changes_is_told, over),
		cmocka_unit_test_teardown(a_sku_that_is_unknown_is_told_when_it_is_made, over),
		cmocka_unit_test_teardown(who_begins_behind_is_told_what_is_unknown_too, over),
		cmocka_unit_test_teardown(a_stream_outlives_postgresql, over),
		cmocka_unit_test_teardown(a_busy_sku_never_goes_back_and_ends_as_it_is, over),
		cmocka_unit_test_teardown(a_stream_without_skus_tells_of_all_and_resumes_where_it_was, over),
		cmocka_unit_test_teardown(an_id_of_another_database_is_told_to_be_forgotten, over),
		cmocka_unit_test_teardown(an_id_ahead_of_the_feed_is_told_to_be_forgotten, over),
		cmocka_unit_test_teardown(who_reads_all_changes_slowly_misses_no_state, over),
		cmocka_unit_test_teardown(who_resumes_far_behind_is_told_all_that_was_missed, over),
		cmocka_unit_test_teardown(who_reads_named_skus_slowly_gets_the_newest_state_of_each, over),
		cmocka_unit_test_teardown(each_who_listens_to_all_is_told_what_it_may_sell, over),
		cmocka_unit_test_teardown(what_waiting_does_not_mend_is_refused_as_everywhere, over),
		cmocka_unit_test_teardown(one_stream_too_many_is_told_to_come_back, over),
		cmocka_unit_test_teardown(streams_that_name_too_many_skus_make_no_room_for_others, over),
		cmocka_unit_test_teardown(a_key_that_is_revoked_hears_nothing_more, over),
		cmocka_unit_test_teardown(a_transaction_left_open_holds_events_back_and_is_seen, over),
		cmocka_unit_test_teardown(who_comes_while_postgresql_is_silent_is_told_to_come_back, over),
		cmocka_unit_test_teardown(a_silent_stream_is_kept_alive, over),
		cmocka_unit_test_teardown(streams_end_when_postgresql_is_another_one, over),
		cmocka_unit_test_teardown(a_thousand_streams_cost_less_than_60_mib, over),
	};
	return cmocka_run_group_tests(tests, shop_open, shop_close);
}
