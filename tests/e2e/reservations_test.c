/* Reservations over HTTP: stuck, expired, released twice, paid too late.
 *
 * Each test is named after the fault it guards against: a late payment takes somebody else's unit (b15), an ended hold
 * that lives again (b16), units given back twice (b18) or more than were left (b19), two truths about "expired" (b21), a
 * clock that stood still behind a lock (b22), two clocks (b23), one's own hold in one's own way (b25), data that traps
 * itself (b27), one bad row that stops the reaper (b28).
 *
 * Where a hold must be due, its time is set in the database and waited for by its clock: no test guesses how long
 * something takes.
 */
#include "lib/shop.h"

#include <signal.h>

#include "lib/pg_server.h"

static void reserve(const char *key, const char *sku, int64_t quantity, int64_t ttl_s, char ret_id[37])
{
	assert_int_equal(service_reserve(&shop, key, NULL, sku, quantity, ttl_s, ret_id), 201);
}

static void end_is(const char *id, const char *what, int status, const char *code)
{
	shop_expect(shop.key_web, "POST", shop_path("reservations", id, shop_text("/%s", what)), NULL, NULL, status);
	if (code)
		assert_string_equal(answer_string(&shop_answer, "code"), code);
}

static void state_is(const char *id, const char *status)
{
	shop_expect_get(shop_path("reservations", id, ""), 200);
	assert_string_equal(answer_string(&shop_answer, "status"), status);
}

/* Every live hold on these SKUs is due from now on. */
static void make_due(const char *like)
{
	shop_sql(
		"WITH due AS (UPDATE lastunit.hold h SET expires_at = clock_timestamp() FROM lastunit.sku s"
		" WHERE s.id = h.sku_id AND s.code LIKE '%s' RETURNING h.reservation_id)"
		" UPDATE lastunit.reservation SET expires_at = clock_timestamp() WHERE id IN (SELECT reservation_id FROM due)",
		like);
}

/* The clock that judges says that it is past its time. */
static void wait_past(const char *id)
{
	shop_wait_sql(shop_text("SELECT expires_at <= clock_timestamp() FROM lastunit.reservation WHERE id = '%s'", id),
	              "t");
}

static const char *replacing(const char *id, const char *sku, int quantity)
{
	return shop_text("{\"lines\":[{\"sku\":\"%s\",\"quantity\":%d}],\"replaces\":\"%s\"}", sku, quantity, id);
}

/* --- B15, B16 ----------------------------------------------------------------------------------------------------- */

static void b15_a_late_payment_does_not_take_anothers_unit(void **state)
{
	char late[37], other[37];
	service_create_sku(&shop, "B15", 1);
	reserve(shop.key_web, "B15", 1, 1, late);
	/* Nobody asks about the old hold: whoever wants its unit finds that it is due. */
	shop_wait_until(service_reserve(&shop, shop.key_pos, NULL, "B15", 1, 600, other) == 201);
	end_is(late, "commit", 410, "reservation_expired");
	shop_expect_row("B15", 1, 1);
	end_is(late, "release", 200, NULL);
	shop_expect_row("B15", 1, 1);
	end_is(other, "commit", 200, NULL);
	end_is(late, "commit", 410, "reservation_expired");
	end_is(late, "extend", 410, "reservation_expired");
	end_is(late, "release", 200, NULL);
	assert_string_equal(answer_string(&shop_answer, "status"), "expired");
	shop_expect_row("B15", 0, 0);
	assert_int_equal(service_ledger_count(&shop, "B15", "expire"), 1);
	assert_int_equal(service_ledger_count(&shop, "B15", "commit"), 1);
	assert_int_equal(service_ledger_count(&shop, "B15", NULL), 5);
}

static void b16_what_was_released_stays_released(void **state)
{
	char id[37], again[37];
	service_create_sku(&shop, "B16", 2);
	reserve(shop.key_web, "B16", 2, 600, id);
	end_is(id, "release", 200, NULL);
	shop_expect_row("B16", 2, 0);
	assert_int_equal(service_sell(&shop, shop.key_pos, NULL, "B16", 1), 201);
	end_is(id, "commit", 409, "reservation_not_active");
	end_is(id, "extend", 409, "reservation_not_active");
	shop_expect_post("/v1/reservations", replacing(id, "B16", 1), 409);
	shop_expect_problem("reservation_not_active", "");
	assert_int_equal(service_reserve(&shop, shop.key_web, NULL, "B16", 2, 600, again), 409);
	reserve(shop.key_web, "B16", 1, 600, again);
	shop_expect_row("B16", 1, 1);
	state_is(id, "released");
}

/* --- B18, B19 ----------------------------------------------------------------------------------------------------- */

static void b18_a_committed_hold_gives_nothing_back_but_once_by_cancel(void **state)
{
	char id[37], checkout[37];
	service_create_sku(&shop, "B18", 100);
	reserve(shop.key_web, "B18", 5, 600, id);
	const char *key = "Idempotency-Key: b18\r\n", *path = shop_path("reservations", id, "/commit");
	shop_expect(shop.key_web, "POST", path, key, NULL, 200);
	snprintf(checkout, sizeof checkout, "%s", answer_string(&shop_answer, "id"));
	shop_expect_row("B18", 95, 0);
	end_is(id, "release", 409, "reservation_not_active");
	for (int i = 0; i < 3; i++) {
		shop_expect(shop.key_web, "POST", path, i == 1 ? key : NULL, NULL, 200);
		assert_string_equal(answer_string(&shop_answer, "id"), checkout);
	}
	shop_expect_row("B18", 95, 0);
	for (int i = 0; i < 2; i++)
		shop_expect(shop.key_web, "POST", shop_path("checkouts", checkout, "/cancel"), "Idempotency-Key: b18-c\r\n",
		            NULL, 200);
	shop_expect_post(shop_path("checkouts", checkout, "/cancel"), "{\"lines\":[{\"sku\":\"B18\",\"quantity\":5}]}",
	                 409);
	shop_expect_problem("exceeds_sold", "B18: 5 to cancel, 0 left");
	shop_expect_row("B18", 100, 0);
	assert_int_equal(service_ledger_count(&shop, "B18", NULL), 4); /* create, reserve, commit, cancel */
}

static void b19_part_of_a_hold_is_not_committed(void **state)
{
	char id[37];
	service_create_sku(&shop, "B19-A", 100);
	service_create_sku(&shop, "B19-B", 100);
	shop_expect_post("/v1/reservations", shop_cart("B19-A=10 B19-B=10"), 201);
	snprintf(id, sizeof id, "%s", answer_string(&shop_answer, "id"));
	shop_expect_post(shop_path("reservations", id, "/commit"),
	                 "{\"lines\":[{\"sku\":\"B19-A\",\"quantity\":7},{\"sku\":\"B19-B\",\"quantity\":6}]}", 422);
	shop_expect_problem("invalid_field", "`lines`");
	shop_expect_row("B19-A", 100, 10);
	end_is(id, "release", 200, NULL);
	shop_expect_row("B19-A", 100, 0);
	shop_expect_row("B19-B", 100, 0);
	/* What it is for: a sale of part that ends the hold in the same step. */
	shop_expect_post("/v1/reservations", shop_cart("B19-A=10 B19-B=10"), 201);
	snprintf(id, sizeof id, "%s", answer_string(&shop_answer, "id"));
	shop_expect_post("/v1/checkouts",
	                 shop_text("{\"lines\":[{\"sku\":\"B19-A\",\"quantity\":7},{\"sku\":\"B19-B\",\"quantity\":6}],"
	                           "\"releases\":\"%s\"}",
	                           id),
	                 201);
	shop_expect_row("B19-A", 93, 0);
	shop_expect_row("B19-B", 94, 0);
	end_is(id, "commit", 409, "reservation_not_active");
}

/* --- B21 ---------------------------------------------------------------------------------------------------------- */

static void b21_a_due_hold_is_in_nobodys_way_even_without_the_reaper(void **state)
{
	char id[37], other[37];
	service_create_sku(&shop, "B21", 10);
	reserve(shop.key_web, "B21", 10, 600, id);
	pid_t reaper = (pid_t)shop_sql_int("SELECT pid FROM pg_stat_activity WHERE application_name = 'lastunit reaper'");
	pg_server_pause(reaper);
	make_due("B21");
	int status = service_reserve(&shop, shop.key_pos, NULL, "B21", 10, 600, other);
	pg_server_resume(reaper);
	assert_int_equal(status, 201);
	shop_expect_seen(&shop, "B21", 0, 10);
	end_is(id, "commit", 410, "reservation_expired");
	state_is(id, "expired");
	shop_expect_row("B21", 10, 10);
	assert_int_equal(service_ledger_count(&shop, "B21", "expire"), 1);
}

#define B21_SKUS 100

static void watch_the_freed(int index, void *context)
{
	int64_t version[B21_SKUS] = {0};
	while (!crowd_is_over())
		for (int i = 0; i < B21_SKUS && !crowd_is_over(); i++) {
			struct seen seen = service_see(&shop, shop_text("B21-MANY-%d", i));
			if (seen.status != 200 || seen.available + seen.held != 200 || seen.version < version[i])
				tally_complain(context, "%d: status %d, %lld free, %lld held, version %lld after %lld", i, seen.status,
				               (long long)seen.available, (long long)seen.held, (long long)seen.version,
				               (long long)version[i]);
			version[i] = seen.version;
		}
}

static void b21_twenty_thousand_holds_that_end_at_once_are_each_freed_once(void **state)
{
	static struct tally watched; /* its crowd outlives a failed assertion */
	int batches = shop_scaled(20, 2), per_sku = batches * 10;
	char *body = malloc(300000);
	for (int i = 0; i < B21_SKUS; i++)
		service_create_sku(&shop, shop_text("B21-MANY-%d", i), 200);
	for (int batch = 0; batch < batches; batch++) {
		char *to = body + sprintf(body, "{\"operations\":[");
		for (int i = 0; i < 1000; i++)
			to += sprintf(to,
			              "%s{\"operation\":\"reserve\",\"idempotency_key\":\"b21-%d-%d\",\"ttl_seconds\":3600,"
			              "\"lines\":[{\"sku\":\"B21-MANY-%d\",\"quantity\":1}]}",
			              i ? "," : "", batch, i, i % B21_SKUS);
		strcpy(to, "]}");
		shop_expect(shop.key_marketplace, "POST", "/v1/batch", NULL, body, 200);
		assert_int_equal(answer_int(&shop_answer, "results.999.status"), 201);
	}
	free(body);
	shop_expect_row("B21-MANY-7", 200, per_sku);
	struct crowd *watchers = crowd_begin(2, watch_the_freed, &watched);
	int64_t since_ms = shop_now_ms();
	make_due("B21-MANY-%");
	shop_wait_sql("SELECT sum(reserved) FROM lastunit.sku WHERE code LIKE 'B21-MANY-%'", "0");
	printf("%d holds that ended at once were freed in %lld ms\n", batches * 1000,
	       (long long)(shop_now_ms() - since_ms));
	crowd_end(watchers);
	assert_string_equal(watched.complaint, "");
	for (int i = 0; i < B21_SKUS; i += 11)
		shop_expect_seen(&shop, shop_text("B21-MANY-%d", i), 200, 0);
	assert_int_equal(shop_sql_int("SELECT count(*) FROM lastunit.ledger l JOIN lastunit.sku s ON s.id = l.sku_id"
	                              " WHERE s.code LIKE 'B21-MANY-%%' AND reserved_delta = -1"),
	                 batches * 1000);
	assert_int_equal(shop_sql_int(
						 "SELECT count(*) FROM lastunit.reservation r JOIN lastunit.sku s ON s.id = r.sku_ids[1]"
						 " WHERE s.code LIKE 'B21-MANY-%%' AND state = 4"),
	                 batches * 1000);
}

/* --- B22, B23 ----------------------------------------------------------------------------------------------------- */

struct b22 {
	char id[37], code[40];
	int status;
};

static void b22_commit(int index, void *context)
{
	struct b22 *x = context;
	x->status = shop_ask(&shop, shop.key_web, shop_path("reservations", x->id, "/commit"), "{}", x->code);
}

static void b22_the_clock_is_read_behind_the_lock(void **state)
{
	static struct b22 x; /* its crowd outlives a failed assertion */
	service_create_sku(&shop, "B22", 1);
	struct stranger *stranger = stranger_new();
	reserve(shop.key_web, "B22", 1, 2, x.id);
	stranger_say(stranger, "BEGIN; SELECT 1 FROM lastunit.sku WHERE code = 'B22' FOR UPDATE");
	struct crowd *crowd = crowd_begin(1, b22_commit, &x);
	/* It stands before the row while the hold is alive, and gets it when the hold is not. */
	shop_wait_sql("SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'", "t");
	wait_past(x.id);
	struct answer expired = service_call(&shop, shop.key_web, "GET", "/v1/reservations?sku=B22&status=expired", NULL,
	                                     NULL);
	struct answer active = service_call(&shop, shop.key_web, "GET", "/v1/reservations?sku=B22&status=active", NULL,
	                                    NULL);
	stranger_say(stranger, "COMMIT");
	crowd_end(crowd);
	stranger_free(stranger);
	assert_int_equal(x.status, 410);
	assert_string_equal(x.code, "reservation_expired");
	state_is(x.id, "expired");
	shop_expect_row("B22", 1, 0);
	/* In a list it was expired, and only that, before anybody could write so. */
	assert_string_equal(answer_string(&expired, "items.0.id"), x.id);
	assert_string_equal(answer_string(&expired, "items.0.status"), "expired");
	assert_int_equal(json_array_size(answer_at(&active, "items")), 0);
	answer_done(&expired), answer_done(&active);
	assert_int_equal(service_ledger_count(&shop, "B22", "expire"), 1);
	assert_int_equal(service_ledger_count(&shop, "B22", NULL), 3);
}

/* A library that moves this process's wall clock by CLOCK_OFFSET_S seconds, made by the compiler that is here anyway. */
static const char *clock_library(void)
{
	static char path[] = "/tmp/lastunit-clock-XXXXXX.so";
	int fd = mkstemps(path, 3);
	assert_true(fd >= 0);
	close(fd);
	FILE *compiler = popen(shop_text("cc -shared -fPIC -x c -o %s -", path), "w");
	assert_non_null(compiler);
	fputs(
		"#define _GNU_SOURCE\n#include <stdlib.h>\n#include <sys/syscall.h>\n#include <sys/time.h>\n#include <time.h>\n"
		"#include <unistd.h>\n"
		"static long offset(void) { const char *s = getenv(\"CLOCK_OFFSET_S\"); return s ? atol(s) : 0; }\n"
		"int clock_gettime(clockid_t id, struct timespec *t) { int r = (int)syscall(SYS_clock_gettime, id, t);\n"
		"	if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) t->tv_sec += offset();\n	return r; }\n"
		"time_t time(time_t *out) { struct timespec t; clock_gettime(CLOCK_REALTIME, &t);\n"
		"	if (out) *out = t.tv_sec;\n	return t.tv_sec; }\n"
		"int gettimeofday(struct timeval *restrict v, void *restrict z) { struct timespec t;\n"
		"	clock_gettime(CLOCK_REALTIME, &t); v->tv_sec = t.tv_sec; v->tv_usec = t.tv_nsec / 1000; return 0; }\n",
		compiler);
	assert_int_equal(pclose(compiler), 0);
	return path;
}

/* The wall clock an instance has, by the ids it makes: the first 48 bits of a UUIDv7 are milliseconds. */
static int64_t clock_of_id(const char *id)
{
	char digits[13] = "";
	snprintf(digits, sizeof digits, "%.8s%.4s", id, id + 9);
	return strtoll(digits, NULL, 16) / 1000;
}

static void hold_lives_by_the_databases_clock(const struct service *skewed, const char *sku, int offset_s)
{
	int64_t before = shop_sql_int("SELECT extract(epoch FROM clock_timestamp())::bigint");
	struct answer answer = service_call(skewed, shop.key_web, "POST", "/v1/reservations", NULL,
	                                    shop_text("{\"idempotency_key\":\"%s\",\"ttl_seconds\":60,\"lines\":[{\"sku\":"
	                                              "\"%s\",\"quantity\":1}]}",
	                                              service_new_key(), sku));
	int64_t after = shop_sql_int("SELECT extract(epoch FROM clock_timestamp())::bigint");
	assert_int_equal(answer.status, 201);
	char id[37], expires[40];
	snprintf(id, sizeof id, "%s", answer_string(&answer, "id"));
	snprintf(expires, sizeof expires, "%s", answer_string(&answer, "expires_at"));
	assert_int_equal(answer_int(&answer, "expires_in_seconds"), 60);
	answer_done(&answer);
	assert_in_range(clock_of_id(id) - offset_s, before - 2, after + 2); /* else the clock was not moved at all */
	assert_int_equal(shop_sql_int("SELECT extract(epoch FROM expires_at - created_at)::bigint FROM lastunit.reservation"
	                              " WHERE id = '%s'",
	                              id),
	                 60);
	assert_in_range(
		shop_sql_int("SELECT extract(epoch FROM created_at)::bigint FROM lastunit.reservation WHERE id = '%s'", id),
		before, after);
	state_is(id, "active");
	assert_string_equal(answer_string(&shop_answer, "expires_at"), expires);
	assert_int_equal(service_end(skewed, shop.key_web, id, "commit"), 200);
}

static void b23_one_clock_writes_the_deadline_and_judges_it(void **state)
{
	static const int offsets_s[] = {90, -90};
	const char *library = clock_library();
	for (int i = 0; i < 2; i++) {
		struct service skewed;
		const char *sku = shop_text("B23-%d", i);
		char id[37];
		service_create_sku(&shop, sku, 3);
		/* Under AddressSanitizer its own library would have to come first. */
		setenv("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0", 1);
		setenv("LD_PRELOAD", library, 1);
		setenv("CLOCK_OFFSET_S", shop_text("%d", offsets_s[i]), 1);
		shop_beside(&skewed, NULL, NULL);
		unsetenv("LD_PRELOAD");
		unsetenv("CLOCK_OFFSET_S");
		unsetenv("ASAN_OPTIONS");
		hold_lives_by_the_databases_clock(&skewed, sku, offsets_s[i]);
		assert_int_equal(service_reserve(&skewed, shop.key_web, NULL, sku, 1, 1, id), 201);
		wait_past(id);
		assert_int_equal(service_end(&skewed, shop.key_web, id, "commit"), 410);
		assert_int_equal(service_end(&shop, shop.key_web, id, "commit"), 410);
		state_is(id, "expired");
		assert_int_equal(service_stop(&skewed), 0);
		shop_expect_row(sku, 2, 0);
	}
	unlink(library);
}

/* A stranger's lock keeps the hold from being expired; it has ended all the same, and a look at it need not wait. */
static void b23_a_due_hold_behind_a_locked_row_is_shown_as_expired(void **state)
{
	char id[37];
	service_create_sku(&shop, "B23-LOCK", 1);
	reserve(shop.key_web, "B23-LOCK", 1, 600, id);
	struct stranger *stranger = stranger_new();
	stranger_say(stranger, "BEGIN; SELECT 1 FROM lastunit.sku WHERE code = 'B23-LOCK' FOR UPDATE");
	make_due("B23-LOCK");
	wait_past(id);
	state_is(id, "expired");
	assert_int_equal(answer_int(&shop_answer, "expires_in_seconds"), 0);
	stranger_say(stranger, "COMMIT");
	stranger_free(stranger);
	state_is(id, "expired");
	shop_wait_sql("SELECT reserved FROM lastunit.sku WHERE code = 'B23-LOCK'", "0");
	shop_expect_row("B23-LOCK", 1, 0);
}

/* --- whose is it -------------------------------------------------------------------------------------------------- */

static void the_scope_admin_does_not_see_what_is_anothers(void **state)
{
	static const char key[] = "lu_admin_without_orders";
	char id[37], sale[37];
	service_create_sku(&shop, "WHOSE", 2);
	reserve(shop.key_web, "WHOSE", 1, 600, id);
	shop_expect_post("/v1/checkouts", "{\"lines\":[{\"sku\":\"WHOSE\",\"quantity\":1}],\"reference\":\"whose\"}", 201);
	snprintf(sale, sizeof sale, "%s", answer_string(&shop_answer, "id"));
	/* read, sell, admin */
	shop_sql(
		"INSERT INTO lastunit.api_key (sha256, principal_id, prefix, scopes)"
		" SELECT sha256('%s'), id, 'lu_admi', 1 + 2 + 16 FROM lastunit.principal WHERE name = 'voice' RETURNING 1",
		key);
	char code[40];
	shop_wait_until(shop_ask(&shop, key, "/v1/availability", "{\"skus\":[\"WHOSE\"]}", code) == 200);
	shop_expect(key, "GET", shop_path("reservations", id, ""), NULL, NULL, 404);
	shop_expect_problem("unknown_reservation", "orders");
	shop_expect(key, "POST", shop_path("reservations", id, "/release"), NULL, NULL, 404);
	shop_expect(key, "GET", shop_path("checkouts", sale, ""), NULL, NULL, 404);
	shop_expect_problem("unknown_checkout", "orders");
	shop_expect(key, "GET", "/v1/reservations?sku=WHOSE", NULL, NULL, 200);
	assert_int_equal(json_array_size(answer_at(&shop_answer, "items")), 0);
	shop_expect(key, "GET", "/v1/checkouts?reference=whose", NULL, NULL, 200);
	assert_int_equal(json_array_size(answer_at(&shop_answer, "items")), 0);
	end_is(id, "release", 200, NULL);
}

/* --- B25, B27 ----------------------------------------------------------------------------------------------------- */

struct b25 {
	struct tally stolen;
};

static void steal(int index, void *context)
{
	struct b25 *x = context;
	while (!crowd_is_over())
		tally_add(&x->stolen, service_sell(&shop, shop.key_pos, NULL, "B25", 1));
}

static void b25_ones_own_hold_is_not_in_ones_way(void **state)
{
	static struct b25 x; /* its crowd outlives a failed assertion */
	char id[37];
	service_create_sku(&shop, "B25", 4);
	reserve(shop.key_web, "B25", 4, 600, id);
	/* At no moment between "release the old" and "take the new" may another have them. */
	struct crowd *thieves = crowd_begin(2, steal, &x);
	for (int i = 0; i < shop_scaled(100, 20); i++) {
		shop_expect_post("/v1/reservations", replacing(id, "B25", 4), 201);
		snprintf(id, sizeof id, "%s", answer_string(&shop_answer, "id"));
	}
	crowd_end(thieves);
	assert_int_equal(tally_of(&x.stolen, 409), tally_total(&x.stolen));
	shop_expect_row("B25", 4, 4);
	shop_expect_post("/v1/reservations", replacing(id, "B25", 3), 201);
	snprintf(id, sizeof id, "%s", answer_string(&shop_answer, "id"));
	shop_expect_row("B25", 4, 3);
	shop_expect_post("/v1/reservations", replacing(id, "B25", 5), 409);
	shop_expect_row("B25", 4, 3);
	state_is(id, "active");
	/* Two of his, replaced one by one: his other one still counts. */
	char other[37];
	service_create_sku(&shop, "B25-TWO", 2);
	reserve(shop.key_web, "B25-TWO", 1, 600, id);
	reserve(shop.key_web, "B25-TWO", 1, 600, other);
	shop_expect_post("/v1/reservations", replacing(id, "B25-TWO", 2), 409);
	end_is(other, "release", 200, NULL);
	shop_expect_post("/v1/reservations", replacing(id, "B25-TWO", 2), 201);
	shop_expect_row("B25-TWO", 2, 2);
}

static void adjust_is(const char *line, int status, const char *code, const char *word)
{
	shop_expect(shop.key_admin, "POST", "/v1/adjustments", NULL,
	            shop_text("{\"idempotency_key\":\"%s\",\"reason\":\"b27\",\"lines\":[{\"sku\":\"B27\",%s}]}",
	                      service_new_key(), line),
	            status);
	if (code)
		shop_expect_problem(code, word);
}

static void b27_stock_is_never_corrected_below_what_is_held(void **state)
{
	char four[37], two[37];
	service_create_sku(&shop, "B27", 10);
	reserve(shop.key_web, "B27", 4, 600, four);
	reserve(shop.key_web, "B27", 2, 600, two);
	adjust_is("\"set\":5,\"change_from\":10", 409, "insufficient_stock", "6 held");
	adjust_is("\"set\":5,\"change_from\":null", 409, "insufficient_stock", "6 held");
	adjust_is("\"delta\":-5", 409, "insufficient_stock", "6 held");
	shop_expect_row("B27", 10, 6);
	adjust_is("\"set\":6,\"change_from\":10", 201, NULL, NULL);
	shop_expect_row("B27", 6, 6);
	adjust_is("\"delta\":-1", 409, "insufficient_stock", "6 held");
	end_is(four, "release", 200, NULL);
	shop_expect_row("B27", 6, 2);
	end_is(two, "commit", 200, NULL);
	shop_expect_row("B27", 4, 0);
	adjust_is("\"delta\":-4", 201, NULL, NULL);
	shop_expect_row("B27", 0, 0);
}

/* --- B28 ---------------------------------------------------------------------------------------------------------- */

static void b28_one_bad_row_and_one_locked_row_stop_nobody_else(void **state)
{
	char id[37];
	int64_t failures = shop_metric(&shop, "lastunit_reservation_expire_failures_total");
	for (int i = 0; i < 100; i++) {
		service_create_sku(&shop, shop_text("B28-%d", i), 1);
		reserve(shop.key_web, shop_text("B28-%d", i), 1, 600, id);
	}
	shop_sql("ALTER TABLE lastunit.sku ADD CONSTRAINT planted CHECK (code <> 'B28-37' OR reserved > 0)");
	struct stranger *stranger = stranger_new();
	stranger_say(stranger, "BEGIN; SELECT 1 FROM lastunit.sku WHERE code = 'B28-99' FOR UPDATE");
	make_due("B28-%");
	shop_wait_sql("SELECT count(*) FROM lastunit.sku WHERE code LIKE 'B28-%' AND reserved = 0", "98");
	shop_wait_until(shop_metric(&shop, "lastunit_reservation_expire_failures_total") > failures);
	/* Its connection lost in the middle of it, the reaper goes on. */
	shop_sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lastunit reaper'");
	shop_expect_row("B28-37", 1, 1);
	assert_int_equal(service_sell(&shop, shop.key_pos, NULL, "B28-5", 1), 201);
	stranger_say(stranger, "COMMIT");
	stranger_free(stranger);
	shop_wait_sql("SELECT reserved FROM lastunit.sku WHERE code = 'B28-99'", "0");
	shop_expect_row("B28-37", 1, 1);
	shop_sql("ALTER TABLE lastunit.sku DROP CONSTRAINT planted");
	shop_wait_sql("SELECT sum(reserved) FROM lastunit.sku WHERE code LIKE 'B28-%'", "0");
	assert_int_equal(shop_sql_int("SELECT count(*) FROM lastunit.ledger l JOIN lastunit.sku s ON s.id = l.sku_id"
	                              " WHERE s.code LIKE 'B28-%%' AND reserved_delta = -1"),
	                 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(b15_a_late_payment_does_not_take_anothers_unit, shop_audit),
		cmocka_unit_test_teardown(b16_what_was_released_stays_released, shop_audit),
		cmocka_unit_test_teardown(b18_a_committed_hold_gives_nothing_back_but_once_by_cancel, shop_audit),
		cmocka_unit_test_teardown(b19_part_of_a_hold_is_not_committed, shop_audit),
		cmocka_unit_test_teardown(b21_a_due_hold_is_in_nobodys_way_even_without_the_reaper, shop_audit),
		cmocka_unit_test_teardown(b21_twenty_thousand_holds_that_end_at_once_are_each_freed_once, shop_audit),
		cmocka_unit_test_teardown(b22_the_clock_is_read_behind_the_lock, shop_audit),
		cmocka_unit_test_teardown(b23_one_clock_writes_the_deadline_and_judges_it, shop_audit),
		cmocka_unit_test_teardown(b23_a_due_hold_behind_a_locked_row_is_shown_as_expired, shop_audit),
		cmocka_unit_test_teardown(the_scope_admin_does_not_see_what_is_anothers, shop_audit),
		cmocka_unit_test_teardown(b25_ones_own_hold_is_not_in_ones_way, shop_audit),
		cmocka_unit_test_teardown(b27_stock_is_never_corrected_below_what_is_held, shop_audit),
		cmocka_unit_test_teardown(b28_one_bad_row_and_one_locked_row_stop_nobody_else, shop_audit),
	};
	return cmocka_run_group_tests(tests, shop_open, shop_close);
}
