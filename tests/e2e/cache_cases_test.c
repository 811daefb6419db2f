/* Staleness: what must never be read after a write was answered, on two real instances.
 *
 * The second instance reaches PostgreSQL and Redis through proxies, so that it can be stopped between two of its steps:
 * a fill that comes late (b31, b37), a mark that comes early (b32), a value that never was (b34), a writer that loses
 * Redis or its life between COMMIT and publish (b35), evicted marks (b38), writers that forget the cache (b40), a Redis
 * that returns with old values (b41), one instance without Redis (b44).
 *
 * A test that would pass with a cache that is never used proves nothing: every one begins with a hit.
 */
#include "lib/detour.h"
#include "lib/freeze.h"

#include <signal.h>

/* A count that shows in the binary answer of PostgreSQL as text: the proxy's rule can name it. */
#define MARKED_TEXT "ZQXJ"
#define MARKED INT64_C(0x5A51584A)

static int64_t closes; /* of the first instance, when the test began */

static const char *availability(const char *sku)
{
	return shop_path("availability", sku, "");
}

static void both_see(const char *sku, int64_t available, int64_t held)
{
	shop_expect_seen(&shop, sku, available, held);
	shop_expect_seen(&detour.service, sku, available, held);
}

/* Both serve it from Redis. */
static void warm(const char *sku)
{
	shop_warm(&shop, sku);
	shop_warm(&detour.service, sku);
}

static void hits_say(const char *sku, int64_t available, int64_t held)
{
	both_see(sku, available, held);
	warm(sku);
	both_see(sku, available, held);
}

static void create(const char *sku, int64_t on_hand)
{
	service_create_sku(&shop, sku, on_hand);
	warm(sku);
}

static void forget_cell(const char *sku)
{
	free(shop_redis(shop_text("DEL %s:%s", shop_sql("SELECT namespace FROM lastunit.cache_epoch"), sku)));
}

static void sell(const struct service *instance, const char *sku, int64_t quantity)
{
	assert_int_equal(service_sell(instance, shop.key_pos, NULL, sku, quantity), 201);
}

/* A process that is new has seen no trouble: it opens the next epoch at once. */
static int fresh(void **state)
{
	shop_restart("lastunit");
	detour_open();
	closes = shop_metric(&shop, "lastunit_epoch_closes_total");
	return 0;
}

/* --- B31, B32 ----------------------------------------------------------------------------------------------------- */

static void b31_a_fill_that_selected_before_the_sale_is_refused(void **state)
{
	create("B31", MARKED);
	forget_cell("B31");
	proxy_when(&detour.postgres, PROXY_TO_CLIENT, MARKED_TEXT, PROXY_HOLD);
	struct errand *look = errand_begin(&detour.service, shop.key_web, "GET", availability("B31"), NULL);
	proxy_wait_matches(&detour.postgres, 1);
	/* It has its ticket and its SELECT's answer is on the way. */
	char *cell = shop_cell("B31");
	assert_memory_equal(cell, "F|", 2);
	free(cell);
	sell(&shop, "B31", 1);
	shop_expect_seen(&shop, "B31", MARKED - 1, 0);
	proxy_release(&detour.postgres);
	assert_int_equal(errand_end(look), 200);
	/* It began before the sale was answered: the old value was true then. */
	assert_in_range(answer_int(&look->answer, "available"), MARKED - 1, MARKED);
	errand_done(look);
	hits_say("B31", MARKED - 1, 0);
}

static void b31_a_fill_that_arrives_after_the_sale_is_refused(void **state)
{
	create("B31-LATE", 10);
	forget_cell("B31-LATE");
	proxy_when(&detour.redis, PROXY_TO_SERVER, "V|1|10|0|0|1|B31-LATE", PROXY_HOLD);
	shop_expect_seen(&detour.service, "B31-LATE", 10, 0);
	proxy_wait_matches(&detour.redis, 1);
	sell(&shop, "B31-LATE", 1);
	proxy_release(&detour.redis);
	hits_say("B31-LATE", 9, 0);
}

static void b32_nothing_is_filled_between_the_mark_and_the_commit(void **state)
{
	create("B32", 10);
	const char *cart = shop_cart("B32=1");
	proxy_when(&detour.postgres, PROXY_TO_SERVER, "\vCOMMIT", PROXY_HOLD);
	struct errand *sale = errand_begin(&detour.service, shop.key_pos, "POST", "/v1/checkouts", cart);
	proxy_wait_matches(&detour.postgres, 1);
	char *cell = shop_cell("B32");
	assert_memory_equal(cell, "I|", 2);
	free(cell);
	for (int i = 0; i < 20; i++)
		both_see("B32", 10, 0);
	proxy_release(&detour.postgres);
	assert_int_equal(errand_end(sale), 201);
	errand_done(sale);
	hits_say("B32", 9, 0);
}

/* --- B34 ---------------------------------------------------------------------------------------------------------- */

static void b34_what_was_rolled_back_was_never_seen(void **state)
{
	create("B34-A", 10);
	create("B34-B", 3);
	char code[40];
	assert_int_equal(shop_ask(&detour.service, shop.key_web, "/v1/checkouts", shop_cart("B34-A=1 B34-B=5"), code), 409);
	hits_say("B34-A", 10, 0);
	hits_say("B34-B", 3, 0);
	/* The connection breaks before COMMIT: rolled back, and run again. */
	const char *cart = shop_cart("B34-A=1 B34-B=3");
	proxy_when(&detour.postgres, PROXY_TO_SERVER, "\vCOMMIT", PROXY_CUT_BEFORE);
	struct errand *sale = errand_begin(&detour.service, shop.key_web, "POST", "/v1/checkouts", cart);
	assert_int_equal(errand_end(sale), 201);
	errand_done(sale);
	assert_int_equal(detour.postgres.matches, 1);
	hits_say("B34-A", 9, 0);
	hits_say("B34-B", 0, 0);
	assert_int_equal(service_row(&shop, "B34-A").version, 2);
}

/* --- B35 ---------------------------------------------------------------------------------------------------------- */

static void b35_sales_go_on_while_redis_stands_still_and_nobody_reads_the_old_count(void **state)
{
	pid_t redis = shop_child("redis-server");
	create("B35-A", 10);
	kill(redis, SIGSTOP);
	sell(&shop, "B35-A", 1);
	both_see("B35-A", 9, 0);
	sell(&detour.service, "B35-A", 1);
	both_see("B35-A", 8, 0);
	kill(redis, SIGCONT);
	both_see("B35-A", 8, 0);
	hits_say("B35-A", 8, 0);
	assert_true(shop_metric(&shop, "lastunit_epoch_closes_total") > closes ||
	            shop_metric(&detour.service, "lastunit_epoch_closes_total") > 0);
}

static void b35_a_writer_killed_between_commit_and_publish_leaves_no_old_count(void **state)
{
	create("B35-B", 10);
	const char *cart = shop_cart("B35-B=1");
	proxy_when(&detour.redis, PROXY_TO_SERVER, "V|2|9|0|0|1|B35-B", PROXY_HOLD);
	struct errand *sale = errand_begin(&detour.service, shop.key_pos, "POST", "/v1/checkouts", cart);
	proxy_wait_matches(&detour.redis, 1);
	detour_kill();
	assert_int_equal(errand_end(sale), 0);
	errand_done(sale);
	shop_expect_row("B35-B", 9, 0); /* durable, though nobody was told */
	shop_expect_seen(&shop, "B35-B", 9, 0);
	sell(&shop, "B35-B", 1);
	/* The dead one's publish arrives after all. */
	proxy_release(&detour.redis);
	shop_expect_seen(&shop, "B35-B", 8, 0);
	/* The same key learns what happened. */
	shop_expect(shop.key_pos, "POST", "/v1/checkouts", NULL, cart, 201);
	assert_string_equal(answer_header(&shop_answer, "Idempotent-Replayed"), "true");
	detour_serve_again();
	hits_say("B35-B", 8, 0);
}

static void b35_a_publish_whose_answer_is_lost_leaves_no_old_count(void **state)
{
	create("B35-C", 10);
	proxy_when(&detour.redis, PROXY_TO_SERVER, "V|2|9|0|0|1|B35-C", PROXY_CUT_AFTER);
	sell(&detour.service, "B35-C", 1);
	assert_int_equal(detour.redis.matches, 1);
	hits_say("B35-C", 9, 0);
	/* And one that never arrives. */
	create("B35-D", 10);
	proxy_when(&detour.redis, PROXY_TO_SERVER, "V|2|9|0|0|1|B35-D", PROXY_CUT_BEFORE);
	sell(&detour.service, "B35-D", 1);
	hits_say("B35-D", 9, 0);
}

/* --- B37, B38 ----------------------------------------------------------------------------------------------------- */

static void b37_a_filler_frozen_beyond_its_ticket_fills_nothing(void **state)
{
	create("B37", MARKED);
	forget_cell("B37");
	proxy_when(&detour.postgres, PROXY_TO_CLIENT, MARKED_TEXT, PROXY_HOLD);
	struct errand *look = errand_begin(&detour.service, shop.key_web, "GET", availability("B37"), NULL);
	proxy_wait_matches(&detour.postgres, 1);
	freeze(detour.service.pid);
	proxy_release(&detour.postgres); /* its answer lies in its socket */
	char *cell;
	shop_wait_until((cell = shop_cell("B37"), !strcmp(cell, "(nil)") || (free(cell), false)));
	free(cell);
	sell(&shop, "B37", 1);
	shop_warm(&shop, "B37");
	kill(detour.service.pid, SIGCONT);
	int status = errand_end(look);
	assert_true(status == 200 || status == 503); /* too late, perhaps; but answered */
	errand_done(look);
	hits_say("B37", MARKED - 1, 0);
}

static void b38_an_evicted_ticket_permits_nothing(void **state)
{
	create("B38", MARKED);
	forget_cell("B38");
	proxy_when(&detour.postgres, PROXY_TO_CLIENT, MARKED_TEXT, PROXY_HOLD);
	struct errand *look = errand_begin(&detour.service, shop.key_web, "GET", availability("B38"), NULL);
	proxy_wait_matches(&detour.postgres, 1);
	sell(&shop, "B38", 1);
	forget_cell("B38"); /* the fence itself is evicted */
	proxy_release(&detour.postgres);
	assert_int_equal(errand_end(look), 200);
	errand_done(look);
	hits_say("B38", MARKED - 1, 0);
}

static void b38_an_emptied_redis_permits_nothing(void **state)
{
	create("B38-FLUSH", MARKED);
	forget_cell("B38-FLUSH");
	proxy_when(&detour.postgres, PROXY_TO_CLIENT, MARKED_TEXT, PROXY_HOLD);
	struct errand *look = errand_begin(&detour.service, shop.key_web, "GET", availability("B38-FLUSH"), NULL);
	proxy_wait_matches(&detour.postgres, 1);
	sell(&shop, "B38-FLUSH", 1);
	free(shop_redis("FLUSHALL"));
	proxy_release(&detour.postgres);
	assert_int_equal(errand_end(look), 200);
	errand_done(look);
	hits_say("B38-FLUSH", MARKED - 1, 0);
	/* Emptied between the mark and the publish. */
	const char *cart = shop_cart("B38-FLUSH=1");
	proxy_when(&detour.postgres, PROXY_TO_SERVER, "\vCOMMIT", PROXY_HOLD);
	struct errand *sale = errand_begin(&detour.service, shop.key_pos, "POST", "/v1/checkouts", cart);
	proxy_wait_matches(&detour.postgres, 2);
	free(shop_redis("FLUSHALL"));
	proxy_release(&detour.postgres);
	assert_int_equal(errand_end(sale), 201);
	errand_done(sale);
	hits_say("B38-FLUSH", MARKED - 2, 0);
}

/* --- B40 ---------------------------------------------------------------------------------------------------------- */

static void import_row(const char *row)
{
	char path[] = "/tmp/lastunit-b40-XXXXXX";
	int fd = mkstemp(path);
	FILE *file = fdopen(fd, "w");
	fprintf(file, "sku,on_hand\n%s\n", row);
	fclose(file);
	assert_int_equal(service_run(&shop, (const char *[]){"import", path, NULL}), 0);
	unlink(path);
}

static void put_sku(const char *body)
{
	shop_expect(shop.key_admin, "PUT", "/v1/skus/B40", NULL, body, 200);
}

static void b40_every_way_to_write_is_seen_by_every_hit(void **state)
{
	char id[37], checkout[37];
	assert_int_equal(service_see(&detour.service, "B40").status, 404);
	create("B40", 10);
	both_see("B40", 10, 0);
	sell(&shop, "B40", 1);
	hits_say("B40", 9, 0);
	assert_int_equal(service_reserve(&shop, shop.key_web, NULL, "B40", 2, 600, id), 201);
	hits_say("B40", 7, 2);
	assert_int_equal(service_end(&detour.service, shop.key_web, id, "extend"), 200);
	hits_say("B40", 7, 2);
	shop_expect_post(shop_path("reservations", id, "/commit"), NULL, 200);
	snprintf(checkout, sizeof checkout, "%s", answer_string(&shop_answer, "id"));
	hits_say("B40", 7, 0);
	shop_expect_post(shop_path("checkouts", checkout, "/cancel"), NULL, 200);
	hits_say("B40", 9, 0);
	assert_int_equal(service_reserve(&detour.service, shop.key_web, NULL, "B40", 4, 600, id), 201);
	hits_say("B40", 5, 4);
	shop_expect_post("/v1/reservations",
	                 shop_text("{\"lines\":[{\"sku\":\"B40\",\"quantity\":3}],\"replaces\":\"%s\"}", id), 201);
	snprintf(id, sizeof id, "%s", answer_string(&shop_answer, "id"));
	hits_say("B40", 6, 3);
	assert_int_equal(service_end(&shop, shop.key_web, id, "release"), 200);
	hits_say("B40", 9, 0);
	/* The reaper's write: nobody's call answers it, so it is waited for; then everybody sees it. */
	assert_int_equal(service_reserve(&shop, shop.key_web, NULL, "B40", 5, 1, id), 201);
	hits_say("B40", 4, 5);
	shop_wait_until(service_see(&detour.service, "B40").held == 0);
	hits_say("B40", 9, 0);
	assert_int_equal(service_adjust(&detour.service, "B40", 6), 201);
	hits_say("B40", 15, 0);
	shop_expect(shop.key_admin, "POST", "/v1/adjustments", NULL,
	            shop_text("{\"idempotency_key\":\"%s\",\"reason\":\"count\",\"lines\":[{\"sku\":\"B40\",\"set\":20,"
	                      "\"change_from\":15}]}",
	                      service_new_key()),
	            201);
	hits_say("B40", 20, 0);
	put_sku("{\"safety_stock\":3}");
	hits_say("B40", 17, 0);
	put_sku("{\"safety_stock\":0,\"titles\":{\"en\":\"Forty\"}}");
	hits_say("B40", 20, 0);
	put_sku("{\"tracked\":false}");
	assert_false(service_see(&shop, "B40").tracked || service_see(&detour.service, "B40").tracked);
	put_sku("{\"tracked\":true}");
	hits_say("B40", 20, 0);
	import_row("B40,33");
	hits_say("B40", 33, 0);
	/* An operator's SQL answers nobody: it is seen within a moment, and then by everybody. */
	shop_sql("UPDATE lastunit.sku SET on_hand = 44 WHERE code = 'B40'");
	shop_wait_until(service_see(&detour.service, "B40").available == 44);
	hits_say("B40", 44, 0);
}

/* --- B41, B44 ----------------------------------------------------------------------------------------------------- */

static void b41_a_redis_that_returns_with_old_values_is_not_believed(void **state)
{
	create("B41", 10);
	char *saved = shop_redis("SAVE");
	assert_string_equal(saved, "OK");
	free(saved);
	sell(&shop, "B41", 7);
	hits_say("B41", 3, 0);
	shop_restart("redis-server");
	struct service *const instances[] = {&shop, &detour.service};
	/* From the first moment on, through all that the two do about it. */
	for (int i = 0; i < 200; i++)
		shop_expect_seen(instances[i % 2], "B41", 3, 0);
	char *info = shop_redis("INFO persistence"), *loaded = strstr(info, "rdb_last_load_keys_loaded:");
	assert_non_null(loaded);
	assert_true(atoi(loaded + strlen("rdb_last_load_keys_loaded:")) > 0);
	free(info);
	hits_say("B41", 3, 0);
	sell(&detour.service, "B41", 1);
	hits_say("B41", 2, 0);
	char *directory = shop_redis("CONFIG GET dir"), *path = strrchr(directory, '\n') ? strchr(directory, '/') : NULL;
	if (path)
		unlink(shop_text("%.*s/dump.rdb", (int)strcspn(path, "\n"), path));
	free(directory);
}

static void b44_one_instance_without_redis_deceives_nobody(void **state)
{
	create("B44-A", 10);
	create("B44-B", 10);
	proxy_cut_all(&detour.redis, true);
	for (int left = 9; left >= 4; left--) {
		sell(&detour.service, "B44-A", 1);
		both_see("B44-A", left, 0);
		sell(&shop, "B44-B", 1);
		both_see("B44-B", left, 0);
	}
	proxy_cut_all(&detour.redis, false);
	both_see("B44-A", 4, 0);
	both_see("B44-B", 4, 0);
	hits_say("B44-A", 4, 0);
	hits_say("B44-B", 4, 0);
}

int main(void)
{
	/* Without the scrub, which reads the same figures from PostgreSQL: what is held up must be the look-up's. */
	static const char *const options[] = {"--lease-ms", "300", "--reopen-after-ms", "100", "--scrub-per-s", "0", NULL};
	shop_options = options;
#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, detour_audit)
	const struct CMUnitTest tests[] = {
		TEST(b31_a_fill_that_selected_before_the_sale_is_refused),
		TEST(b31_a_fill_that_arrives_after_the_sale_is_refused),
		TEST(b32_nothing_is_filled_between_the_mark_and_the_commit),
		TEST(b34_what_was_rolled_back_was_never_seen),
		TEST(b35_sales_go_on_while_redis_stands_still_and_nobody_reads_the_old_count),
		TEST(b35_a_writer_killed_between_commit_and_publish_leaves_no_old_count),
		TEST(b35_a_publish_whose_answer_is_lost_leaves_no_old_count),
		TEST(b37_a_filler_frozen_beyond_its_ticket_fills_nothing),
		TEST(b38_an_evicted_ticket_permits_nothing),
		TEST(b38_an_emptied_redis_permits_nothing),
		TEST(b40_every_way_to_write_is_seen_by_every_hit),
		TEST(b41_a_redis_that_returns_with_old_values_is_not_believed),
		TEST(b44_one_instance_without_redis_deceives_nobody),
	};
	return cmocka_run_group_tests(tests, shop_open, shop_close);
}
