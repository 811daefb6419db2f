/* The promises of the README at their plainest: the last unit, a thousand overlapping carts, a million reads. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/service.h"

#define CLIENTS 240
#define SELLERS 8
#define READERS 4
#define WRITERS 4
#define SKUS 100

static struct service service;

/* One thread of a crowd; it asserts nothing, it counts. */
struct member {
	pthread_t thread;
	pthread_barrier_t *barrier;
	int number;
	int sold, refused, other;
};

static const char *channel_key(int number)
{
	const char *keys[] = {service.key_web,   service.key_telegram,    service.key_agent,
	                      service.key_voice, service.key_marketplace, service.key_pos};
	return keys[number % 6];
}

static void *buy_the_last_unit(void *context)
{
	struct member *m = context;
	char body[200];
	snprintf(body, sizeof body, "{\"lines\":[{\"sku\":\"LAST\",\"quantity\":1}],\"idempotency_key\":\"last-%d\"}",
	         m->number);
	pthread_barrier_wait(m->barrier);
	struct answer answer = service_call(&service, channel_key(m->number), "POST", "/v1/checkouts", NULL, body);
	m->sold = answer.status == 201;
	m->refused = answer.status == 409 && !strcmp(answer_string(&answer, "code"), "insufficient_stock") &&
	             !strcmp(answer_string(&answer, "lines.0.sku"), "LAST");
	answer_done(&answer);
	return NULL;
}

static struct member crowd(int count, void *(*run)(void *))
{
	struct member *members = calloc((size_t)count, sizeof *members), sum = {0};
	pthread_barrier_t barrier;
	pthread_barrier_init(&barrier, NULL, (unsigned)count);
	for (int i = 0; i < count; i++) {
		members[i] = (struct member){.barrier = &barrier, .number = i};
		assert_int_equal(pthread_create(&members[i].thread, NULL, run, &members[i]), 0);
	}
	for (int i = 0; i < count; i++) {
		pthread_join(members[i].thread, NULL);
		sum.sold += members[i].sold;
		sum.refused += members[i].refused;
		sum.other += members[i].other;
	}
	pthread_barrier_destroy(&barrier);
	free(members);
	return sum;
}

static void p1_the_last_unit_goes_to_one_of_240_clients_on_six_channels(void **state)
{
	service_create_sku(&service, "LAST", 1);
	struct member sum = crowd(CLIENTS, buy_the_last_unit);
	assert_int_equal(sum.sold, 1);
	assert_int_equal(sum.refused, CLIENTS - 1);
	struct row row = service_row(&service, "LAST");
	assert_int_equal(row.on_hand, 0);
	assert_int_equal(row.reserved, 0);
	assert_int_equal(service_ledger_count(&service, "LAST", "sale"), 1);
	assert_int_equal(service_see(&service, "LAST").available, 0);
	assert_int_equal(service_audit(&service), 0);
}

/* Carts of one to four of six scarce SKUs, in any order: sold, held and released or committed. */
static void *sell_overlapping_carts(void *context)
{
	struct member *m = context;
	unsigned seed = (unsigned)m->number * 7919u + 1;
	pthread_barrier_wait(m->barrier);
	for (int round = 0; round < 1000 / SELLERS; round++) {
		char body[600];
		size_t size = (size_t)snprintf(body, sizeof body, "{\"idempotency_key\":\"o-%d-%d\",\"lines\":[", m->number,
		                               round);
		int first = rand_r(&seed) % 6, lines = 1 + rand_r(&seed) % 4;
		for (int i = 0; i < lines; i++)
			size += (size_t)snprintf(body + size, sizeof body - size, "%s{\"sku\":\"O%d\",\"quantity\":%d}",
			                         i ? "," : "", (first + i * (1 + 4 * (m->number % 2))) % 6, 1 + rand_r(&seed) % 3);
		snprintf(body + size, sizeof body - size, "]}");
		bool hold = rand_r(&seed) % 2;
		struct answer answer = service_call(&service, channel_key(m->number), "POST",
		                                    hold ? "/v1/reservations" : "/v1/checkouts", NULL, body);
		if (answer.status == 201) {
			m->sold++;
			if (hold)
				service_end(&service, channel_key(m->number), answer_string(&answer, "id"),
				            rand_r(&seed) % 3 ? "release" : "commit");
		} else if (answer.status == 409) {
			m->refused++;
		} else {
			m->other++;
		}
		answer_done(&answer);
	}
	return NULL;
}

static void p1_a_thousand_overlapping_carts_break_nothing(void **state)
{
	for (int i = 0; i < 6; i++)
		service_create_sku(&service, (char[]){'O', (char)('0' + i), 0}, 200);
	struct member sum = crowd(SELLERS, sell_overlapping_carts);
	assert_int_equal(sum.other, 0);
	assert_int_equal(sum.sold + sum.refused, 1000);
	assert_true(sum.sold > 0 && sum.refused > 0);
	assert_int_equal(service_audit(&service), 0);
}

/* The newest version of each SKU that any writer was answered, and that any reader was shown. */
static _Atomic int64_t answered[SKUS], seen[SKUS];
static _Atomic long reads, went_back;
static _Atomic bool enough;

static void raise_to(_Atomic int64_t *version, int64_t to)
{
	int64_t was = atomic_load(version);
	while (was < to && !atomic_compare_exchange_weak(version, &was, to))
		continue;
}

static void *write_on(void *context)
{
	struct member *m = context;
	unsigned seed = (unsigned)m->number + 1;
	pthread_barrier_wait(m->barrier);
	while (!atomic_load(&enough)) {
		/* Some SKUs are hot. */
		int sku = rand_r(&seed) % 3 ? rand_r(&seed) % 5 : rand_r(&seed) % SKUS;
		char body[200];
		snprintf(body, sizeof body, "{\"lines\":[{\"sku\":\"R%02d\",\"quantity\":1}],\"idempotency_key\":\"%s\"}", sku,
		         service_new_key());
		struct answer answer = service_call(&service, channel_key(m->number), "POST", "/v1/checkouts", NULL, body);
		if (answer.status == 201) {
			raise_to(&answered[sku], answer_int(&answer, "lines.0.version"));
			m->sold++;
		} else {
			m->other++;
		}
		answer_done(&answer);
	}
	return NULL;
}

static void read_once(const char *body)
{
	int64_t least[SKUS];
	for (int i = 0; i < SKUS; i++) {
		int64_t a = atomic_load(&answered[i]), s = atomic_load(&seen[i]);
		least[i] = a > s ? a : s;
	}
	struct answer answer = service_call(&service, service.key_web, "POST", "/v1/availability", NULL, body);
	json_t *items = answer_at(&answer, "items");
	for (size_t i = 0; i < json_array_size(items); i++) {
		int64_t version = json_integer_value(json_object_get(json_array_get(items, i), "version"));
		if (version < least[i])
			atomic_fetch_add(&went_back, 1);
		raise_to(&seen[i], version);
		atomic_fetch_add(&reads, 1);
	}
	answer_done(&answer);
}

static void *read_on(void *context)
{
	struct member *m = context;
	long wanted = getenv("LASTUNIT_TEST_SHORT") ? 50000 : 1000000;
	char body[SKUS * 8 + 32];
	size_t size = (size_t)snprintf(body, sizeof body, "{\"skus\":[");
	for (int i = 0; i < SKUS; i++)
		size += (size_t)snprintf(body + size, sizeof body - size, "%s\"R%02d\"", i ? "," : "", i);
	snprintf(body + size, sizeof body - size, "]}");
	pthread_barrier_wait(m->barrier);
	while (atomic_load(&reads) < wanted)
		read_once(body);
	atomic_store(&enough, true);
	return NULL;
}

static void *read_or_write(void *context)
{
	struct member *m = context;
	return m->number < READERS ? read_on(m) : write_on(m);
}

static void p2_a_million_reads_never_go_back(void **state)
{
	for (int i = 0; i < SKUS; i++) {
		char sku[4];
		snprintf(sku, sizeof sku, "R%02d", i);
		service_create_sku(&service, sku, 1000000);
	}
	struct member sum = crowd(READERS + WRITERS, read_or_write);
	print_message("%ld reads beside %d sales\n", atomic_load(&reads), sum.sold);
	assert_int_equal(atomic_load(&went_back), 0);
	assert_int_equal(sum.other, 0);
	assert_true(sum.sold > 0);
	assert_int_equal(service_audit(&service), 0);
}

static int start(void **state)
{
	service_start(&service, (const char *const[]){"--http-loops", "4", "--writers", "4", NULL});
	return 0;
}

static int stop(void **state)
{
	return service_stop(&service);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(p1_the_last_unit_goes_to_one_of_240_clients_on_six_channels),
		cmocka_unit_test(p1_a_thousand_overlapping_carts_break_nothing),
		cmocka_unit_test(p2_a_million_reads_never_go_back),
	};
	return cmocka_run_group_tests(tests, start, stop);
}
