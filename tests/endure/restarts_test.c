/* PostgreSQL is shut down at once, and instances are killed by SIGKILL, while clients with keys sell and insist until
 * they are answered: a hundred times (`make endure`), or a few.
 *
 * Twins, two clients, share the same keys, and each asks a random instance each time. What a key sells is drawn from the
 * key, so at the end it is known unit by unit what must be gone: every key once, whoever was answered, however often it
 * was asked, whichever process died meanwhile. Readers beside them look whether anything goes back.
 */
#include <libpq-fe.h>
#include <signal.h>

#include "lib/figures.h"
#include "lib/fleet.h"
#include "lib/shop.h"
#include "lib/witness.h"

#define CLIENTS_MAX 64
#define READERS 8
#define SKUS 50
#define STOCK 10000000
#define LINES_MAX 3
#define AGAIN_MS 20
#define CACHE_TRIES 100
#define KEYS_BETWEEN 60
#define COMMIT_DELAY_US 10000

static struct fleet fleet;
static int serving = 2; /* of its instances */

struct client {
	char (*ids)[37]; /* of the sale of each of its keys, in order */
	int count, room;
};

struct load {
	struct witness witness;
	const char *prefix; /* of this test's keys and SKUs */
	int sellers;
	struct client clients[CLIENTS_MAX];
	struct tally answers;
	_Atomic int done;     /* keys that were answered, each of the twins' */
	_Atomic int replayed; /* answers that had been stored before */
	_Atomic int found;    /* of them: the first answer to a client whose earlier try had died with a process */
	_Atomic int64_t longest_ms;
};

/* --- what a key sells --------------------------------------------------------------------------------------------- */

struct wish {
	int lines, sku[LINES_MAX], quantity[LINES_MAX];
};

static struct wish wish_of(int twins, int number)
{
	unsigned seed = (unsigned)twins * 1000003u + (unsigned)number;
	struct wish wish = {.lines = 1 + rand_r(&seed) % LINES_MAX};
	for (int i = 0; i < wish.lines; i++) {
		/* Some are hot. Lines that name the same SKU are one wish. */
		wish.sku[i] = rand_r(&seed) % 2 ? rand_r(&seed) % 5 : rand_r(&seed) % SKUS;
		wish.quantity[i] = 1 + rand_r(&seed) % 3;
	}
	return wish;
}

static bool is_held_first(int number)
{
	return number % 3 == 2;
}

static void cart_of(const struct load *x, int twins, int number, char out[400])
{
	struct wish wish = wish_of(twins, number);
	char code[16];
	int size = snprintf(out, 400, "{\"idempotency_key\":\"%s-%d-%d\",\"lines\":[", x->prefix, twins, number);
	for (int i = 0; i < wish.lines; i++)
		size += snprintf(out + size, (size_t)(400 - size), "%s{\"sku\":\"%s\",\"quantity\":%d}", i ? "," : "",
		                 witness_sku(&x->witness, wish.sku[i], code), wish.quantity[i]);
	snprintf(out + size, (size_t)(400 - size), "]}");
}

/* --- the clients -------------------------------------------------------------------------------------------------- */

static const struct service *door(unsigned *seed)
{
	return &fleet.doors[rand_r(seed) % serving];
}

static void note_lines(struct load *x, const struct answer *answer)
{
	json_t *lines = answer_at(answer, "lines");
	for (size_t i = 0; i < json_array_size(lines); i++) {
		json_t *line = json_array_get(lines, i);
		const char *code = json_string_value(json_object_get(line, "sku"));
		int64_t version = json_integer_value(json_object_get(line, "version"));
		if (code && version)
			witness_answered(&x->witness, atoi(code + strlen(x->prefix)), version);
	}
}

/* Until it is answered 2xx, or told what it never should be. */
static void insist(struct load *x, unsigned *seed, const char *path, const char *body, char ret_id[37])
{
	int64_t since_ms = shop_now_ms();
	for (bool tried_in_vain = false, done = false; !done;) {
		struct answer answer = service_try(door(seed), fleet.doors[0].key_web, "POST", path, NULL, body);
		bool replayed = strcmp(answer_header(&answer, "Idempotent-Replayed"), "true") == 0;
		tally_add(&x->answers, answer.status);
		done = answer.status == 200 || answer.status == 201;
		if (done) {
			note_lines(x, &answer);
			snprintf(ret_id, 37, "%s", answer_string(&answer, "id"));
			x->replayed += replayed;
			x->found += replayed && tried_in_vain;
		} else if (answer.status != 0 && answer.status != 503 &&
		           strcmp(answer_string(&answer, "code"), "idempotency_in_flight") != 0) {
			tally_complain(&x->answers, "%s %s: %d: %.150s", path, body, answer.status, answer.body ? answer.body : "");
			snprintf(ret_id, 37, "none");
			done = true;
		}
		tried_in_vain |= answer.status == 0;
		answer_done(&answer);
		if (!done)
			shop_sleep_ms(AGAIN_MS);
	}
	int64_t took_ms = shop_now_ms() - since_ms, longest_ms = x->longest_ms;
	while (took_ms > longest_ms && !atomic_compare_exchange_weak(&x->longest_ms, &longest_ms, took_ms))
		continue;
}

static void sell(struct load *x, int index)
{
	struct client *client = &x->clients[index];
	int twins = index / 2;
	for (unsigned seed = (unsigned)index + 1; !crowd_is_over(); client->count++) {
		char body[400], path[100], id[37];
		if (client->count == client->room)
			client->ids = realloc(client->ids, (size_t)(client->room += 1000) * sizeof *client->ids);
		cart_of(x, twins, client->count, body);
		if (is_held_first(client->count)) {
			insist(x, &seed, "/v1/reservations", body, id);
			snprintf(path, sizeof path, "/v1/reservations/%s/commit", id);
			snprintf(body, sizeof body, "{\"idempotency_key\":\"%s-%d-%d-commit\"}", x->prefix, twins, client->count);
			insist(x, &seed, path, body, id);
		} else {
			insist(x, &seed, "/v1/checkouts", body, id);
		}
		memcpy(client->ids[client->count], id, sizeof id);
		x->done++;
	}
}

static void look(struct load *x, int index)
{
	for (unsigned seed = (unsigned)index + 1; !crowd_is_over();)
		if (witness_read(&x->witness, door(&seed), rand_r(&seed) % (rand_r(&seed) % 2 ? 5 : SKUS)) != 200)
			shop_sleep_ms(AGAIN_MS);
}

static void work(int index, void *context)
{
	struct load *x = context;
	if (index < x->sellers)
		sell(x, index);
	else
		look(x, index);
}

/* --- the account -------------------------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* The ids of this test's sales in PostgreSQL, sorted. */
static PGresult *sales_in_postgres(const struct load *x)
{
	PGconn *conn = PQconnectdb(shop.database_url);
	PGresult *r = PQexec(conn, shop_text("SELECT c.id::text FROM lastunit.checkout c"
	                                     " JOIN lastunit.sku s ON s.id = c.sku_ids[1]"
	                                     " WHERE s.code LIKE '%s%%' ORDER BY c.id",
	                                     x->prefix));
	assert_int_equal(PQresultStatus(r), PGRES_TUPLES_OK);
	PQfinish(conn);
	return r;
}

/* Twins who shared a key were told of one sale, and it is in PostgreSQL. Returns the number of keys. */
static int expect_one_sale_per_key(const struct load *x)
{
	PGresult *r = sales_in_postgres(x);
	int count = PQntuples(r), keys = 0;
	char(*there)[37] = calloc((size_t)count + 1, sizeof *there);
	for (int i = 0; i < count; i++)
		snprintf(there[i], sizeof *there, "%s", PQgetvalue(r, i, 0));
	PQclear(r);
	for (int i = 0; i < x->sellers; i += 2) {
		const struct client *a = &x->clients[i], *b = a + 1, *longer = a->count > b->count ? a : b;
		keys += longer->count;
		for (int n = 0; n < longer->count; n++) {
			if (!bsearch(longer->ids[n], there, (size_t)count, sizeof *there, by_text))
				fail_msg("key %s-%d-%d was answered with sale %s, which is lost", x->prefix, i / 2, n, longer->ids[n]);
			if (n < a->count && n < b->count && strcmp(a->ids[n], b->ids[n]) != 0)
				fail_msg("key %s-%d-%d: two sales, %s and %s", x->prefix, i / 2, n, a->ids[n], b->ids[n]);
		}
	}
	free(there);
	assert_int_equal(count, keys);
	return keys;
}

/* Unit by unit: what the keys wished, once. Returns the units. */
static int64_t expect_units_gone(const struct load *x)
{
	int64_t wished[SKUS] = {0}, units = 0;
	for (int i = 0; i < x->sellers; i += 2) {
		const struct client *a = &x->clients[i], *b = a + 1;
		for (int n = 0; n < a->count || n < b->count; n++) {
			struct wish wish = wish_of(i / 2, n);
			for (int line = 0; line < wish.lines; line++)
				wished[wish.sku[line]] += wish.quantity[line];
		}
	}
	for (int i = 0; i < SKUS; i++) {
		char code[16];
		shop_expect_row(witness_sku(&x->witness, i, code), STOCK - wished[i], 0);
		units += wished[i];
	}
	return units;
}

static void judge(struct load *x, const char *what, int times, double seconds)
{
	int retried = tally_of(&x->answers, 0), refused = tally_of(&x->answers, 503);
	printf("%s, %d times in %.1f s; %d clients in pairs that share their keys, %d readers, %d instance%s\n", what,
	       times, seconds, x->sellers, READERS, serving, serving > 1 ? "s" : "");
	assert_string_equal(x->witness.reads.complaint, "");
	assert_string_equal(x->answers.complaint, "");
	int keys = expect_one_sale_per_key(x);
	int64_t units = expect_units_gone(x);
	figure("distinct keys answered or retried to success", keys, "", "");
	figure("sales in PostgreSQL", keys, "", "as many as keys");
	figure("units gone, SKU by SKU as the keys wished", (double)units, "", "");
	figure("requests whose answer died with a process", retried, "", "");
	figure("requests answered 503", refused, "", "");
	figure("answers that were stored ones", x->replayed, "", "");
	figure("of them, found by a client whose earlier try had died", x->found, "", "");
	figure("longest time until a key was answered", (double)x->longest_ms, "ms", "");
	figure("reads judged", tally_of(&x->witness.reads, 200), "", "");
	figure("reads that were wrong", x->witness.reads.complaints, "", "0");
	/* Calls that died or were refused were tried again; nobody was told anything else. */
	assert_int_equal(tally_of(&x->answers, 200) + tally_of(&x->answers, 201) + retried + refused +
	                     tally_of(&x->answers, 409),
	                 tally_total(&x->answers));
}

/* --- the tests ---------------------------------------------------------------------------------------------------- */

static void begin_with(struct load *x, const char *prefix)
{
	x->prefix = prefix;
	x->sellers = endure_full() ? CLIENTS_MAX - READERS : shop_scaled(24, 8);
	witness_open(&x->witness, &shop, prefix, SKUS, STOCK);
}

/* When all sell again and the cache is in use, if that is soon, or in the middle of the last upheaval; at no moment in
 * particular. */
static void wait_for_a_moment(struct load *x, unsigned *seed)
{
	int until = x->done + (rand_r(seed) % 3 ? KEYS_BETWEEN : 1);
	shop_wait_until(x->done >= until);
	for (int i = 0; i < CACHE_TRIES && rand_r(seed) % 8 && shop_metric(&shop, "lastunit_epoch_open") != 1; i++)
		shop_sleep_ms(AGAIN_MS);
	shop_sleep_ms(rand_r(seed) % 200);
}

static void end_with(struct load *x)
{
	for (int i = 0; i < x->sellers; i++)
		free(x->clients[i].ids);
}

static void postgres_shut_down_at_once_takes_no_answer_with_it(void **state)
{
	static struct load x;
	int times = endure_full() ? 20 : shop_scaled(3, 1);
	unsigned seed = (unsigned)getpid();
	begin_with(&x, "P");
	struct crowd *crowd = crowd_begin(x.sellers + READERS, work, &x);
	int64_t since_ms = shop_now_ms();
	for (int i = 0; i < times; i++) {
		wait_for_a_moment(&x, &seed);
		pg_server_restart(&fleet.postgres, PG_SERVER_IMMEDIATE);
	}
	wait_for_a_moment(&x, &seed);
	crowd_end(crowd);
	judge(&x, "PostgreSQL shut down (immediate) and started again", times, (double)(shop_now_ms() - since_ms) / 1000);
	end_with(&x);
}

/* One of the instances that serve is killed, again and again. */
static void kill_and_judge(struct load *x, const char *prefix, const char *what)
{
	int times = endure_full() ? 100 : shop_scaled(6, 2);
	unsigned seed = (unsigned)getpid();
	begin_with(x, prefix);
	struct crowd *crowd = crowd_begin(x->sellers + READERS, work, x);
	int64_t since_ms = shop_now_ms();
	for (int i = 0; i < times; i++) {
		int victim = rand_r(&seed) % serving;
		wait_for_a_moment(x, &seed);
		fleet_kill(&fleet, victim);
		fleet_serve(&fleet, victim);
	}
	wait_for_a_moment(x, &seed);
	crowd_end(crowd);
	judge(x, what, times, (double)(shop_now_ms() - since_ms) / 1000);
	end_with(x);
}

static void one_of_two_killed_at_any_moment_sells_each_key_once(void **state)
{
	static struct load x;
	kill_and_judge(&x, "T", "One of two instances killed (SIGKILL) and started again");
}

static void the_only_instance_killed_at_any_moment_sells_each_key_once(void **state)
{
	static struct load x;
	fleet_kill(&fleet, 1);
	serving = 1;
	kill_and_judge(&x, "K", "The only instance killed (SIGKILL) and started again");
	serving = 2;
	fleet_serve(&fleet, 1);
}

static int open_fleet(void **state)
{
	/* The cache is soon in use again, for the next to break. */
	static const char *const options[] = {"--lease-ms", "300", "--reopen-after-ms", "100", NULL};
	fleet_open(&fleet, 2, options);
	shop = fleet.doors[0];
	/* A COMMIT takes as long as on a slow disk: whoever dies, dies in the middle of some. */
	shop_sql("ALTER SYSTEM SET fsync = on");
	shop_sql("ALTER SYSTEM SET commit_siblings = 0");
	shop_sql("ALTER SYSTEM SET commit_delay = %d", COMMIT_DELAY_US);
	shop_sql("SELECT pg_reload_conf()");
	return 0;
}

static int close_fleet(void **state)
{
	return fleet_close(&fleet);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(postgres_shut_down_at_once_takes_no_answer_with_it, shop_audit),
		cmocka_unit_test_teardown(one_of_two_killed_at_any_moment_sells_each_key_once, shop_audit),
		cmocka_unit_test_teardown(the_only_instance_killed_at_any_moment_sells_each_key_once, shop_audit),
	};
	return cmocka_run_group_tests(tests, open_fleet, close_fleet);
}
