/* Hostile clients by the thousand, beside good ones: clients that leave while their request is owned (b88), slow,
 * oversized, lying and unread ones (b89).
 *
 * What decides is that every good client is served, that the mob is told and thrown out, and that the process has no
 * descriptor and no memory more afterwards. Times are printed, not judged by the exit code: by how much a thousand of
 * each kind raise the good clients' p99, in a table; and what a hostile connection costs the service in CPU, which
 * depends less on who else uses the machine.
 *
 * A good client asks every PACE_MS and sells with every twentieth request; what it waits counts from when it was due,
 * so that a stall is not taken for patience. A hostile one connects once in BACK_AFTER_MS at most: without a bound the
 * measure would be how much of the machine its generator gets.
 *
 * The table compares the median of the rounds' p99 beside the mob with that of the rounds alone, which take turns with
 * them. A stall of the host spoils the round it falls into, and nothing else: half of a side's rounds may be spoiled
 * before its median is. It would spoil the p99 of all waits together, of which the worst round alone makes most, and
 * the median of the rounds' ratios as soon as either of the two is stalled. The row "nobody" is the same measure
 * without a mob: as far as that is from 1 the other ratios may be off.
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
#define ROUNDS 13
#define RATIO_WANTED 1.2

/* --- good clients ------------------------------------------------------------------------------------------------- */

/* One round. In ms; a sale waits for the disk as well, and one request in twenty is one: it is the p99 of all. */
struct waits {
	double p50, p99;
	int64_t cpu_us; /* of the service meanwhile */
};

struct good {
	struct tally tally;
	int requests;
	double *took_us;
	_Atomic int count;
};

static void good_go(int index, void *context)
{
	struct good *x = context;
	int64_t due_ns = clock_boottime_ns() + index * PACE_MS * NS_PER_MS / GOOD_CLIENTS;
	for (int i = 0; i < x->requests; i++, due_ns += PACE_MS * NS_PER_MS) {
		clock_sleep_until(due_ns);
		int status = i % 20 ? service_see(&shop, "GOOD").status : service_sell(&shop, shop_key(index), NULL, "GOOD", 1);
		x->took_us[x->count++] = (double)(clock_boottime_ns() - due_ns) / 1e3;
		tally_add(&x->tally, status);
	}
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double percentile(double *values, int count, int percent)
{
	qsort(values, (size_t)count, sizeof *values, by_size);
	return values[count * percent / 100];
}

/* Every one of them is served. */
static struct waits good_clients_are_served(pid_t serve)
{
	struct good x = {.requests = shop_scaled(100, 20)};
	struct waits waits;
	int count = x.requests * GOOD_CLIENTS;
	int64_t from_us = process_cpu_us(serve);
	x.took_us = calloc((size_t)count, sizeof *x.took_us);
	crowd_run(GOOD_CLIENTS, good_go, &x);
	assert_int_equal(tally_of(&x.tally, 200) + tally_of(&x.tally, 201), count);
	waits.cpu_us = process_cpu_us(serve) - from_us;
	waits.p50 = percentile(x.took_us, count, 50) / 1e3;
	waits.p99 = percentile(x.took_us, count, 99) / 1e3;
	free(x.took_us);
	return waits;
}

/* Nobody's connection but ours, and no descriptor more than before; its own to PostgreSQL and Redis come and go. */
static void nothing_is_left(pid_t serve, int files)
{
	shop_wait_until(shop_metric(&shop, "lastunit_http_connections") <= 1);
	shop_wait_until(process_open_files(serve) <= files + 16);
}

/* --- B89 ---------------------------------------------------------------------------------------------------------- */

static void show(const struct mob_report *report)
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
}

/* Told what was wrong, as far as they listened, and thrown out: of each kind those who were there. */
static void mob_is_dealt_with(const struct mob_report *report, const int each[MOB_KINDS])
{
	for (int kind = 0; kind < MOB_KINDS; kind++)
		if (each[kind] && kind != MOB_LEAVERS && kind != MOB_NON_READERS)
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
	if (each[MOB_AMBIGUOUS])
		assert_true(report->answers[MOB_AMBIGUOUS][400] > 0);
	if (each[MOB_OVERSIZED]) {
		assert_true(report->answers[MOB_OVERSIZED][413] > 0);
		assert_true(report->answers[MOB_OVERSIZED][431] > 0);
	}
	if (each[MOB_SLOW_HEADERS])
		assert_true(report->answers[MOB_SLOW_HEADERS][408] > 0);
}

/* All have come, and the slow ones have been thrown out at least once. */
static bool mob_is_there(const struct mob_report *report, const int each[MOB_KINDS])
{
	for (int kind = 0; kind < MOB_KINDS; kind++) {
		bool slow = kind == MOB_SLOW_HEADERS || kind == MOB_SLOW_BODY;
		if ((slow ? report->thrown_out[kind] : report->connects[kind]) < each[kind])
			return false;
	}
	return true;
}

static long all_connects(const struct mob_report *report)
{
	long sum = 0;
	for (int kind = 0; kind < MOB_KINDS; kind++)
		sum += report->connects[kind];
	return sum;
}

struct measure {
	int rounds;
	struct waits alone[ROUNDS], beside[ROUNDS];
	long connects; /* while good clients were beside */
	int64_t beside_ns;
	int64_t resident_kib;
	struct mob_report report; /* of the last round */
};

/* The good clients alone, then beside the mob, at once: a noisy time should fall on both. */
static void play(pid_t serve, const int each[MOB_KINDS], int files, struct measure *io_measure)
{
	struct mob_report report, before;
	int round = io_measure->rounds++;
	io_measure->alone[round] = good_clients_are_served(serve);
	struct mob *mob = mob_begin(shop.port, shop.key_web, "MOB", each, BACK_AFTER_MS);
	shop_wait_until((before = mob_look(mob), mob_is_there(&before, each)));
	int64_t from_ns = clock_boottime_ns();
	io_measure->beside[round] = good_clients_are_served(serve);
	report = mob_look(mob);
	io_measure->beside_ns += clock_boottime_ns() - from_ns;
	io_measure->connects += all_connects(&report) - all_connects(&before);
	mob_end(mob, &io_measure->report);
	mob_is_dealt_with(&io_measure->report, each);
	nothing_is_left(serve, files);
	io_measure->resident_kib = process_resident_kib(serve);
}

/* Of each figure by itself; the CPU of all rounds. */
static struct waits median(const struct waits *rounds, int count)
{
	double p50[ROUNDS], p99[ROUNDS];
	struct waits waits = {0};
	for (int i = 0; i < count; i++) {
		p50[i] = rounds[i].p50;
		p99[i] = rounds[i].p99;
		waits.cpu_us += rounds[i].cpu_us;
	}
	waits.p50 = percentile(p50, count, 50);
	waits.p99 = percentile(p99, count, 50);
	return waits;
}

static void print_header(void)
{
	printf(
		"good clients' waits in ms, alone and beside hostile clients; wanted of the ratio of the p99: %.1f at most\n"
		"  %-13s %6s %6s   %6s %6s   %5s  %-6s %8s %8s\n",
		RATIO_WANTED, "kind", "p50", "p99", "p50", "p99", "ratio", "", "conn/s", "CPU us");
}

/* A row of the table. One round says nothing of times. */
static void print_measure(const char *who, const struct measure *measure)
{
	struct waits alone = median(measure->alone, measure->rounds), beside = median(measure->beside, measure->rounds);
	double ratio = beside.p99 / alone.p99, connects = (double)measure->connects;
	printf("  %-13s %6.2f %6.2f   %6.2f %6.2f   %5.2f  %-6s", who, alone.p50, alone.p99, beside.p50, beside.p99, ratio,
	       measure->rounds < ROUNDS ? ""
	       : ratio <= RATIO_WANTED  ? "ok"
	                                : "MISSED");
	if (measure->connects)
		printf(" %8.0f %8.0f", connects * 1e9 / (double)measure->beside_ns,
		       (double)(beside.cpu_us - alone.cpu_us) / connects);
	printf("\n");
	fflush(stdout);
}

static struct measure measure_mob(const char *who, const int each[MOB_KINDS], int rounds)
{
	pid_t serve = shop_child("lastunit");
	int files = process_open_files(serve);
	int64_t first_kib = 0;
	struct measure measure = {0};
	while (measure.rounds < rounds) {
		play(serve, each, files, &measure);
		if (!first_kib)
			first_kib = measure.resident_kib;
	}
	print_measure(who, &measure);
	assert_int_equal(shop_child("lastunit"), serve);
	if (!shop_short())
		/* A few KiB kept of each connection would show. */
		assert_in_range(measure.resident_kib, 0, first_kib + 32 * 1024);
	return measure;
}

static int b89_open(void **state)
{
	service_create_sku(&shop, "GOOD", 10000000);
	service_create_sku(&shop, "MOB", 10);
	shop_warm(&shop, "GOOD");
	return 0;
}

static void b89_a_thousand_hostile_clients_of_each_kind_cost_the_good_ones_nothing(void **state)
{
	int rounds = shop_scaled(ROUNDS, 1);
	print_header();
	measure_mob("nobody", (const int[MOB_KINDS]){0}, rounds);
	for (int kind = 0; kind < MOB_KINDS; kind++) {
		int each[MOB_KINDS] = {0};
		each[kind] = shop_scaled(1000, 100);
		if (kind != MOB_NON_READERS)
			measure_mob(mob_name((enum mob_kind)kind), each, rounds);
	}
}

static void b89_thousands_of_every_kind_at_once_are_dealt_with(void **state)
{
	int each[MOB_KINDS];
	for (int kind = 0; kind < MOB_KINDS; kind++)
		each[kind] = kind == MOB_NON_READERS ? 0 : shop_scaled(1000, 100);
	print_header();
	struct measure measure = measure_mob("all of these", each, 2);
	printf("  %lld KiB resident; of the last round:\n", (long long)measure.resident_kib);
	show(&measure.report);
	/* None of it was executed but what was sent whole: one sale under one key. */
	assert_in_range(service_row(&shop, "MOB").on_hand, 9, 10);
}

/* Apart from the others: what they ask for is no less than what anybody may ask, until their sockets are full. */
static void b89_who_never_reads_is_closed(void **state)
{
	int count = shop_scaled(200, 50), each[MOB_KINDS] = {[MOB_NON_READERS] = count};
	struct mob_report report;
	struct mob *mob = mob_begin(shop.port, shop.key_web, "MOB", each, BACK_AFTER_MS);
	shop_wait_until(mob_look(mob).thrown_out[MOB_NON_READERS] >= count);
	struct waits waits = good_clients_are_served(shop_child("lastunit"));
	mob_end(mob, &report);
	printf("good clients' p50, p99 beside %d who ask and never read: %.1f %.1f ms\n", count, waits.p50, waits.p99);
	nothing_is_left(shop_child("lastunit"), 100);
}

/* --- B88 ---------------------------------------------------------------------------------------------------------- */

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
		cmocka_unit_test_setup_teardown(b89_a_thousand_hostile_clients_of_each_kind_cost_the_good_ones_nothing,
	                                    b89_open, shop_audit),
		cmocka_unit_test_teardown(b89_thousands_of_every_kind_at_once_are_dealt_with, shop_audit),
		cmocka_unit_test_teardown(b89_who_never_reads_is_closed, shop_audit),
		cmocka_unit_test_teardown(b88_clients_that_leave_at_any_moment_leave_nothing, shop_audit),
	};
	return cmocka_run_group_tests(tests, shop_open, shop_close);
}
