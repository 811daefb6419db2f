/* Hostile clients by the thousand, beside good ones: clients that leave while their request is owned (b88), slow, oversized,
 * lying and unread ones (b89).
 *
 * What decides is that every good client is served, that the mob is told and thrown out, and that the process has no
 * descriptor and no memory more afterwards. Times are printed: the good clients' p99 alone and beside the mob, in turns; and
 * what a hostile connection costs the service in CPU, which does not depend on who else uses the machine.
 *
 * A good client asks every PACE_MS and sells with every twentieth request; what it waits counts from when it was due, so that a
 * stall is not taken for patience. A hostile one connects once in BACK_AFTER_MS at most: without a bound the measure would
 * be how much of the machine its generator gets.
 */
#include "lib/shop.h"

#include <time.h>

#include "base/clock.h"
#include "lib/http_client.h"
#include "lib/mob.h"
#include "lib/process.h"

#define GOOD_CLIENTS 16
#define PACE_MS 20
#define BACK_AFTER_MS 2000
#define ROUNDS 5

/* --- good clients ------------------------------------------------------------------------------------------------------- */

struct good {
	struct tally tally;
	int requests;
	double *looks_us, *sales_us;
	_Atomic int looks, sales;
};

static void good_go(int index, void *context)
{
	struct good *x = context;
	int64_t due_ns = clock_boottime_ns() + index * PACE_MS * NS_PER_MS / GOOD_CLIENTS;
	for (int i = 0; i < x->requests; i++, due_ns += PACE_MS * NS_PER_MS) {
		clock_sleep_until(due_ns);
		bool looks = i % 20;
		int status = looks ? service_see(&shop, "GOOD").status : service_sell(&shop, shop_key(index), NULL, "GOOD", 1);
		double took_us = (double)(clock_boottime_ns() - due_ns) / 1e3;
		if (looks)
			x->looks_us[x->looks++] = took_us;
		else
			x->sales_us[x->sales++] = took_us;
		tally_add(&x->tally, status);
	}
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* In ms. A sale waits for the disk as well, and one request in twenty is one: it is the p99 of all. */
struct waits {
	double p50, p99, looks_p99;
};

static double percentile_ms(double *took_us, int count, int percent)
{
	qsort(took_us, (size_t)count, sizeof *took_us, by_size);
	return took_us[count * percent / 100] / 1e3;
}

/* Every one of them is served. */
static struct waits good_clients_are_served(void)
{
	struct good x = {.requests = shop_scaled(200, 20)};
	int count = x.requests * GOOD_CLIENTS;
	struct waits waits;
	x.looks_us = calloc((size_t)count * 2, sizeof *x.looks_us);
	x.sales_us = x.looks_us + count;
	crowd_run(GOOD_CLIENTS, good_go, &x);
	assert_int_equal(tally_of(&x.tally, 200) + tally_of(&x.tally, 201), count);
	waits.looks_p99 = percentile_ms(x.looks_us, x.looks, 99);
	memcpy(x.looks_us + x.looks, x.sales_us, (size_t)x.sales * sizeof *x.sales_us);
	waits.p99 = percentile_ms(x.looks_us, count, 99);
	waits.p50 = percentile_ms(x.looks_us, count, 50);
	free(x.looks_us);
	return waits;
}

/* Nobody's connection but ours, and no descriptor more than before; its own to PostgreSQL and Redis come and go. */
static void nothing_is_left(pid_t serve, int files)
{
	shop_wait_until(shop_metric(&shop, "lastunit_http_connections") <= 1);
	shop_wait_until(process_open_files(serve) <= files + 16);
}

/* --- B89 --------------------------------------------------------------------------------------------------------------- */

static void mob_is_dealt_with(const struct mob_report *report)
{
	for (int kind = 0; kind < MOB_KINDS; kind++) {
		if (!report->connects[kind])
			continue;
		printf("  %-13s %6ld connections, %6ld closed by the service; answers:", mob_name((enum mob_kind)kind),
		       report->connects[kind], report->thrown_out[kind]);
		for (int status = 0; status < MOB_STATUSES; status++)
			if (report->answers[kind][status])
				printf(" %ld x %d", report->answers[kind][status], status);
		printf("\n");
	}
	/* Told what was wrong, as far as they listened, and thrown out. */
	for (int kind = 0; kind < MOB_KINDS; kind++)
		if (kind != MOB_LEAVERS && kind != MOB_NON_READERS)
			assert_true(report->thrown_out[kind] > 0);
	for (int status = 0; status < MOB_STATUSES; status++) {
		if (status != 408) {
			assert_int_equal(report->answers[MOB_SLOW_HEADERS][status], 0);
			assert_int_equal(report->answers[MOB_SLOW_BODY][status], 0);
		}
		if (status != 400 && status != 501)
			assert_int_equal(report->answers[MOB_AMBIGUOUS][status], 0);
		if (status != 400 && status != 408 && status != 413 && status != 431)
			assert_int_equal(report->answers[MOB_OVERSIZED][status], 0);
	}
	assert_true(report->answers[MOB_AMBIGUOUS][400] > 0);
	assert_true(report->answers[MOB_OVERSIZED][413] > 0);
	assert_true(report->answers[MOB_OVERSIZED][431] > 0);
	assert_true(report->answers[MOB_SLOW_HEADERS][408] > 0);
}

static long all_connects(const struct mob_report *report)
{
	long sum = 0;
	for (int kind = 0; kind < MOB_KINDS; kind++)
		sum += report->connects[kind];
	return sum;
}

/* The good clients alone, then beside the mob, at once: a noisy moment should fall on both. */
struct round {
	struct waits alone, beside;
	double connects_per_s, us_per_connect;
	int64_t resident_kib;
};

static struct round play(pid_t serve, const int each[MOB_KINDS], int files)
{
	struct round round;
	struct mob_report report, before;
	int64_t from_us = process_cpu_us(serve);
	round.alone = good_clients_are_served();
	int64_t alone_us = process_cpu_us(serve) - from_us;
	struct mob *mob = mob_begin(shop.port, shop.key_web, "MOB", each, BACK_AFTER_MS);
	/* All are there, and the slow ones have been thrown out at least once. */
	shop_wait_until((report = mob_look(mob), report.thrown_out[MOB_SLOW_HEADERS] >= each[MOB_SLOW_HEADERS] &&
	                                             report.thrown_out[MOB_SLOW_BODY] >= each[MOB_SLOW_BODY]));
	before = mob_look(mob);
	from_us = process_cpu_us(serve);
	int64_t from_ns = clock_boottime_ns();
	round.beside = good_clients_are_served();
	int64_t beside_us = process_cpu_us(serve) - from_us, took_ns = clock_boottime_ns() - from_ns;
	report = mob_look(mob);
	long connects = all_connects(&report) - all_connects(&before);
	round.connects_per_s = (double)connects * 1e9 / (double)took_ns;
	round.us_per_connect = (double)(beside_us - alone_us) / (double)connects;
	mob_end(mob, &report);
	mob_is_dealt_with(&report);
	nothing_is_left(serve, files);
	round.resident_kib = process_resident_kib(serve);
	return round;
}

static double median(double *values, int count)
{
	qsort(values, (size_t)count, sizeof *values, by_size);
	return values[count / 2];
}

static void b89_thousands_of_hostile_clients_cost_the_good_ones_nothing(void **state)
{
	int each[MOB_KINDS], rounds = shop_scaled(ROUNDS, 2);
	double ratios[ROUNDS], look_ratios[ROUNDS], costs[ROUNDS];
	pid_t serve = shop_child("lastunit");
	struct round first = {0}, round = {0};
	for (int kind = 0; kind < MOB_KINDS; kind++)
		each[kind] = kind == MOB_NON_READERS ? 0 : shop_scaled(1000, 100);
	service_create_sku(&shop, "GOOD", 1000000);
	service_create_sku(&shop, "MOB", 10);
	shop_warm(&shop, "GOOD");
	int files = process_open_files(serve);
	for (int i = 0; i < rounds; i++) {
		round = play(serve, each, files);
		if (!i)
			first = round;
		ratios[i] = round.beside.p99 / round.alone.p99;
		look_ratios[i] = round.beside.looks_p99 / round.alone.looks_p99;
		costs[i] = round.us_per_connect;
		printf(
			"good clients' p50, p99, p99 of looks: %.1f %.1f %.1f ms alone, %.1f %.1f %.1f ms beside %.0f hostile"
			" connections/s, which cost %.0f us each; %lld KiB resident\n",
			round.alone.p50, round.alone.p99, round.alone.looks_p99, round.beside.p50, round.beside.p99,
			round.beside.looks_p99, round.connects_per_s, round.us_per_connect, (long long)round.resident_kib);
	}
	printf(
		"medians: p99 beside the mob %.2fx that alone, of looks %.2fx (wanted 1.2); a hostile connection costs %.0f us of"
		" CPU\n",
		median(ratios, rounds), median(look_ratios, rounds), median(costs, rounds));
	/* None of it was executed but what was sent whole: one sale under one key. */
	assert_in_range(service_row(&shop, "MOB").on_hand, 9, 10);
	assert_int_equal(shop_child("lastunit"), serve);
	if (!shop_short())
		/* A few KiB kept of each connection would show. */
		assert_in_range(round.resident_kib, 0, first.resident_kib + 32 * 1024);
}

/* Apart from the others: what they ask for is no less than what anybody may ask, until their sockets are full. */
static void b89_who_never_reads_is_closed(void **state)
{
	int count = shop_scaled(200, 50), each[MOB_KINDS] = {[MOB_NON_READERS] = count};
	struct mob_report report;
	struct mob *mob = mob_begin(shop.port, shop.key_web, "MOB", each, BACK_AFTER_MS);
	shop_wait_until(mob_look(mob).thrown_out[MOB_NON_READERS] >= count);
	struct waits waits = good_clients_are_served();
	mob_end(mob, &report);
	printf("good clients' p50, p99, p99 of looks beside %d who ask and never read: %.1f %.1f %.1f ms\n", count,
	       waits.p50, waits.p99, waits.looks_p99);
	nothing_is_left(shop_child("lastunit"), 100);
}

/* --- B88 --------------------------------------------------------------------------------------------------------------- */

static void b88_clients_that_leave_at_any_moment_leave_nothing(void **state)
{
	pid_t serve = shop_child("lastunit");
	int files = process_open_files(serve), each[MOB_KINDS] = {[MOB_LEAVERS] = shop_scaled(1500, 100)};
	int64_t resident_kib[2];
	service_create_sku(&shop, "LEFT", 10);
	for (int round = 0; round < 2; round++) {
		struct mob_report report;
		long wanted = shop_scaled(10000, 500);
		struct mob *mob = mob_begin(shop.port, shop.key_web, "LEFT", each, 500);
		shop_wait_until(mob_look(mob).connects[MOB_LEAVERS] > wanted);
		mob_end(mob, &report);
		nothing_is_left(serve, files);
		resident_kib[round] = process_resident_kib(serve);
	}
	/* A thousand requests on one connection, then silence, is nobody's fault. */
	for (int i = 0; i < 1000; i++)
		assert_int_equal(service_see(&shop, "LEFT").status, 200);
	nothing_is_left(serve, files);
	if (!shop_short())
		assert_in_range(resident_kib[1], 0, resident_kib[0] + 8 * 1024);
	assert_in_range(service_row(&shop, "LEFT").on_hand, 9, 10);
}

int main(void)
{
	static const char *const options[] = {"--header-timeout-ms", "1000", "--body-timeout-ms", "2500", NULL};
	shop_options = options;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(b89_thousands_of_hostile_clients_cost_the_good_ones_nothing, shop_audit),
		cmocka_unit_test_teardown(b89_who_never_reads_is_closed, shop_audit),
		cmocka_unit_test_teardown(b88_clients_that_leave_at_any_moment_leave_nothing, shop_audit),
	};
	return cmocka_run_group_tests(tests, shop_open, shop_close);
}
