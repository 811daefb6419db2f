/* Redis is killed under load and stays away: half a minute (`make endure`), or a few seconds.
 *
 * 64 clients, 8 of which sell. No read may be wrong, no sale that failed may be durable, sales pause once, for about the
 * length of a lease, reads go on at PostgreSQL's pace. Redis returns with what it held when it went, none of which may be
 * seen again, and soon hits are back. What PostgreSQL's pace is, the readers find out themselves: in the last part of the
 * outage they ask it directly, by its own protocol.
 *
 * Times are printed; they decide only in the full form, which has the machine for itself.
 */
#include <libpq-fe.h>
#include <pthread.h>

#include "lib/figures.h"
#include "lib/fleet.h"
#include "lib/shop.h"
#include "lib/witness.h"

#define CLIENTS 64
#define SELLERS 8
#define SKUS 200
#define STOCK 10000000
#define LEASE_MS 1000
#define REDIS_TIMEOUT_MS 200
#define SLACK_MS 1000
#define PAUSE_MS (LEASE_MS / 2)
#define HIT_PERCENT 95
#define HITS_BACK_MS 10000

static struct fleet fleet;

struct load {
	struct witness witness;
	struct tally sales;
	_Atomic bool direct;
	_Atomic int64_t points; /* reads straight from PostgreSQL */
	/* the time between two sales that were answered, whosever they were */
	pthread_mutex_t mutex;
	int64_t last_sale_ms, longest_ms, pauses;
};

/* --- the clients -------------------------------------------------------------------------------------------------- */

static void note_gap(struct load *x)
{
	pthread_mutex_lock(&x->mutex);
	int64_t now_ms = shop_now_ms(), gap_ms = now_ms - x->last_sale_ms;
	x->last_sale_ms = now_ms;
	x->pauses += gap_ms >= PAUSE_MS;
	x->longest_ms = gap_ms > x->longest_ms ? gap_ms : x->longest_ms;
	pthread_mutex_unlock(&x->mutex);
}

static void sell(struct load *x, int sku)
{
	const struct service *door = &fleet.doors[0];
	char code[16], body[160];
	snprintf(body, sizeof body, "{\"idempotency_key\":\"%s\",\"lines\":[{\"sku\":\"%s\",\"quantity\":1}]}",
	         service_new_key(), witness_sku(&x->witness, sku, code));
	struct answer answer = service_try(door, door->key_web, "POST", "/v1/checkouts", NULL, body);
	tally_add(&x->sales, answer.status);
	if (answer.status == 201) {
		witness_answered(&x->witness, sku, answer_int(&answer, "lines.0.version"));
		note_gap(x);
	} else if (answer.status != 503) {
		tally_complain(&x->sales, "%d: %.200s", answer.status, answer.body ? answer.body : "no answer");
	}
	answer_done(&answer);
}

static PGconn *connect_directly(void)
{
	PGconn *conn = PQconnectdb(fleet.doors[0].database_url);
	PGresult *r = PQprepare(conn, "point",
	                        "SELECT version, on_hand, reserved, safety_stock, tracked FROM lastunit.sku"
	                        " WHERE code = $1",
	                        1, NULL);
	if (PQresultStatus(r) != PGRES_COMMAND_OK)
		abort();
	PQclear(r);
	return conn;
}

static void read_point(struct load *x, PGconn *conn, int sku)
{
	char code[16];
	const char *values[] = {witness_sku(&x->witness, sku, code)};
	PGresult *r = PQexecPrepared(conn, "point", 1, values, NULL, NULL, 0);
	if (PQntuples(r) == 1)
		x->points++;
	else
		tally_complain(&x->witness.reads, "a point read: %.200s", PQerrorMessage(conn));
	PQclear(r);
}

static void work(int index, void *context)
{
	struct load *x = context;
	unsigned seed = (unsigned)index + 1;
	PGconn *conn = index < SELLERS ? NULL : connect_directly();
	while (!crowd_is_over()) {
		int sku = rand_r(&seed) % SKUS;
		if (!conn)
			sell(x, sku);
		else if (x->direct)
			read_point(x, conn, sku);
		else
			witness_read(&x->witness, &fleet.doors[0], sku);
	}
	PQfinish(conn);
}

/* --- a part of the run -------------------------------------------------------------------------------------------- */

struct part {
	int64_t since_ms, reads, points, sales;
	double seconds, reads_per_s, points_per_s, sales_per_s;
	int64_t longest_ms, pauses;
};

static struct part part_begin(struct load *x)
{
	pthread_mutex_lock(&x->mutex);
	x->longest_ms = x->pauses = 0;
	pthread_mutex_unlock(&x->mutex);
	return (struct part){.since_ms = shop_now_ms(),
	                     .reads = tally_of(&x->witness.reads, 200),
	                     .points = x->points,
	                     .sales = tally_of(&x->sales, 201)};
}

static void part_end(struct part *part, struct load *x)
{
	part->seconds = (double)(shop_now_ms() - part->since_ms) / 1000;
	part->reads_per_s = (double)(tally_of(&x->witness.reads, 200) - part->reads) / part->seconds;
	part->points_per_s = (double)(x->points - part->points) / part->seconds;
	part->sales_per_s = (double)(tally_of(&x->sales, 201) - part->sales) / part->seconds;
	pthread_mutex_lock(&x->mutex);
	part->longest_ms = x->longest_ms;
	part->pauses = x->pauses;
	pthread_mutex_unlock(&x->mutex);
}

static struct part part_of(struct load *x, int64_t ms)
{
	struct part part = part_begin(x);
	shop_sleep_ms(ms);
	part_end(&part, x);
	return part;
}

/* Looks every 100 ms until so many of the look-ups since the last look were hits (60 s). */
static void wait_for_hits(void)
{
	int64_t hits = 0, all = 0, new_hits, new_all, until_ms = shop_now_ms() + 60000;
	for (;; hits = new_hits, all = new_all) {
		new_hits = shop_metric(&shop, "lastunit_lookup_hits_total");
		new_all = new_hits + shop_metric(&shop, "lastunit_lookup_misses_total") +
		          shop_metric(&shop, "lastunit_lookup_bypasses_total");
		if (all && new_all >= all + 20 && (new_hits - hits) * 100 > HIT_PERCENT * (new_all - all))
			return;
		if (shop_now_ms() > until_ms)
			fail_msg("for 60 s less than %d %% of the look-ups were hits", HIT_PERCENT);
		shop_sleep_ms(100);
	}
}

static void redis_away_for_a_while_costs_one_pause_and_no_truth(void **state)
{
	static struct load x = {.mutex = PTHREAD_MUTEX_INITIALIZER};
	bool full = endure_full();
	witness_open(&x.witness, &shop, "A", SKUS, STOCK);
	x.witness.single_sales = true;
	x.last_sale_ms = shop_now_ms();
	struct crowd *crowd = crowd_begin(CLIENTS, work, &x);
	wait_for_hits();
	struct part calm = part_of(&x, full ? 10000 : 1000);
	free(redis_server_command(&fleet.redis, "SAVE"));
	redis_server_kill(&fleet.redis);
	struct part away = part_of(&x, full ? 20000 : 3000);
	x.direct = true;
	struct part direct = part_of(&x, full ? 10000 : 1000);
	x.direct = false;
	struct part back = part_begin(&x);
	redis_server_restart(&fleet.redis);
	int64_t returned_ms = shop_now_ms();
	wait_for_hits();
	int64_t hits_ms = shop_now_ms() - returned_ms;
	shop_sleep_ms(full ? 10000 : 500);
	part_end(&back, &x);
	crowd_end(crowd);

	double ratio = away.reads_per_s / direct.points_per_s;
	int64_t gone = (int64_t)SKUS * STOCK - shop_sql_int("SELECT sum(on_hand) FROM lastunit.sku WHERE code LIKE 'A%%'");
	printf("Redis away for %.1f s, %d clients, %d of which sell\n", away.seconds + direct.seconds, CLIENTS, SELLERS);
	figure("reads with Redis", calm.reads_per_s, "/s", "");
	figure("reads without Redis", away.reads_per_s, "/s", "");
	figure("point reads, straight from PostgreSQL", direct.points_per_s, "/s", "");
	figure("reads without Redis : point reads", ratio, "", "at least 0.5");
	figure("sales with Redis", calm.sales_per_s, "/s", "");
	figure("sales without Redis", away.sales_per_s, "/s", "");
	figure("longest time without a sale, with Redis", (double)calm.longest_ms, "ms", "");
	figure("longest time without a sale, Redis killed", (double)away.longest_ms, "ms", "L + Redis timeout = 1200");
	figure("pauses of L/2 and more while Redis is away", (double)(away.pauses + direct.pauses), "", "at most 1");
	figure("longest time without a sale, Redis back", (double)back.longest_ms, "ms", "");
	figure("95 % of the look-ups are hits again after", (double)hits_ms, "ms", "at most 10000");
	figure("reads judged", tally_of(&x.witness.reads, 200), "", "");
	figure("reads that were wrong", x.witness.reads.complaints, "", "0");
	figure("sales answered 201", tally_of(&x.sales, 201), "", "");
	figure("sales answered 503", tally_of(&x.sales, 503), "", "");
	figure("units gone from PostgreSQL", (double)gone, "", "as many as answered 201");

	assert_string_equal(x.witness.reads.complaint, "");
	assert_string_equal(x.sales.complaint, "");
	assert_int_equal(gone, tally_of(&x.sales, 201));
	assert_int_equal(tally_of(&x.witness.reads, 200) + tally_of(&x.witness.reads, 503), tally_total(&x.witness.reads));
	assert_true(away.sales_per_s > 0 && away.reads_per_s > 0 && direct.sales_per_s > 0);
	if (!full)
		return;
	assert_in_range(away.longest_ms, 0, LEASE_MS + REDIS_TIMEOUT_MS + SLACK_MS);
	assert_in_range(away.pauses + direct.pauses, 0, 1);
	assert_in_range(hits_ms, 0, HITS_BACK_MS);
	assert_true(ratio >= 0.5);
}

static int open_fleet(void **state)
{
	fleet_open(&fleet, 1, NULL);
	shop = fleet.doors[0];
	return 0;
}

static int close_fleet(void **state)
{
	return fleet_close(&fleet);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(redis_away_for_a_while_costs_one_pause_and_no_truth, shop_audit),
	};
	return cmocka_run_group_tests(tests, open_fleet, close_fleet);
}
