/* Names to addresses with a resolver that hangs: no caller is held beyond his deadline, no thread too many is started.
 *
 * The getaddrinfo() and the clock_gettime() of this program stand before the C library's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/resolver.h"

#define FAR deadline_in_ms(30000)

static _Atomic int64_t clock_ahead_ns;
static atomic_int calls;         /* that were no look at a numeric address */
static sem_t called, may_answer; /* of names that begin with "slow" */

int clock_gettime(clockid_t id, struct timespec *ret_time)
{
	int result = (int)syscall(SYS_clock_gettime, id, ret_time);
	if (id == CLOCK_BOOTTIME)
		ret_time->tv_sec += atomic_load(&clock_ahead_ns) / NS_PER_S;
	return result;
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **result)
{
	struct in_addr address = {.s_addr = htonl(INADDR_LOOPBACK)};
	bool literal = inet_pton(AF_INET, node, &address) == 1;
	if (hints->ai_flags & AI_NUMERICHOST && !literal)
		return EAI_NONAME;
	if (!literal) {
		atomic_fetch_add(&calls, 1);
		sem_post(&called);
		if (strncmp(node, "slow", 4) == 0)
			while (sem_wait(&may_answer) < 0)
				;
	}
	if (strcmp(node, "nobody.example") == 0)
		return EAI_NONAME;
	struct addrinfo *info = calloc(1, sizeof *info + sizeof(struct sockaddr_in));
	CHECK(info);
	struct sockaddr_in *in = (struct sockaddr_in *)(info + 1);
	*in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(service)), .sin_addr = address};
	*info = (struct addrinfo){.ai_family = AF_INET, .ai_addr = (struct sockaddr *)in, .ai_addrlen = sizeof *in};
	*result = info;
	return 0;
}

void freeaddrinfo(struct addrinfo *list)
{
	free(list);
}

static void wait_for(sem_t *sem)
{
	while (sem_wait(sem) < 0)
		;
}

static void wait_done(const struct resolver_lookup *lookup)
{
	struct pollfd poller = {.fd = resolver_lookup_fd(lookup), .events = POLLIN};
	assert_int_equal(poll(&poller, 1, 30000), 1);
}

static int start_of_test(void **state)
{
	while (sem_trywait(&called) == 0)
		;
	atomic_store(&calls, 0);
	return 0;
}

static void a_numeric_address_asks_nobody(void **state)
{
	struct resolver_addresses addresses;
	char error[RESOLVER_ERROR_BYTES];
	assert_true(resolver_resolve("127.0.0.9", 5432, 0, &addresses, error)); /* even past the deadline */
	assert_int_equal(addresses.count, 1);
	const struct sockaddr_in *in = (const struct sockaddr_in *)&addresses.items[0].address;
	assert_int_equal(ntohl(in->sin_addr.s_addr), INADDR_LOOPBACK + 8);
	assert_int_equal(ntohs(in->sin_port), 5432);
	assert_int_equal(atomic_load(&calls), 0);
}

static void a_name_that_is_known_is_an_address_and_one_that_is_not_a_sentence(void **state)
{
	struct resolver_addresses addresses;
	char error[RESOLVER_ERROR_BYTES];
	assert_true(resolver_resolve("db.example", 1, FAR, &addresses, error));
	assert_int_equal(addresses.count, 1);
	assert_false(resolver_resolve("nobody.example", 1, FAR, &addresses, error));
	assert_non_null(strstr(error, "cannot resolve nobody.example: "));
	char endless[RESOLVER_NAME_BYTES + 1];
	memset(endless, 'a', sizeof endless - 1);
	endless[sizeof endless - 1] = '\0';
	assert_false(resolver_resolve(endless, 1, FAR, &addresses, error));
	assert_non_null(strstr(error, "no name is that long"));
}

static void an_answer_that_was_taken_is_not_given_to_the_next_asker(void **state)
{
	struct resolver_addresses addresses;
	char error[RESOLVER_ERROR_BYTES];
	for (int i = 1; i <= 3; i++) {
		assert_true(resolver_resolve("db.example", 1, FAR, &addresses, error));
		assert_int_equal(atomic_load(&calls), i);
	}
}

static void whoever_asks_during_a_look_up_waits_for_the_same_one(void **state)
{
	struct resolver_addresses addresses;
	char error[RESOLVER_ERROR_BYTES];
	struct resolver_lookup *first = resolver_lookup_new("slow.example", 1, error);
	struct resolver_lookup *second = resolver_lookup_new("slow.example", 1, error);
	struct resolver_lookup *other_port = resolver_lookup_new("slow.example", 2, error);
	assert_non_null(first);
	assert_ptr_equal(first, second);
	assert_ptr_not_equal(first, other_port);
	for (int i = 0; i < 20; i++) {
		assert_false(resolver_resolve("slow.example", 1, deadline_in_ms(1), &addresses, error));
		assert_non_null(strstr(error, "slow.example was not resolved in time"));
	}
	sem_post(&may_answer);
	sem_post(&may_answer);
	wait_done(first);
	wait_done(other_port);
	assert_int_equal(atomic_load(&calls), 2);
	assert_true(resolver_lookup_take(first, &addresses, error));
	assert_true(resolver_lookup_take(second, &addresses, error)); /* he had asked before the answer came */
	resolver_lookup_free(first);
	resolver_lookup_free(second);
	resolver_lookup_free(other_port);
	assert_true(resolver_resolve("slow.example", 2, FAR, &addresses, error));
	assert_int_equal(atomic_load(&calls), 2);
}

/* A resolver that is slower than every deadline would otherwise never be heard: its answers come between attempts. */
static void an_answer_that_nobody_waited_for_is_the_next_askers_for_a_while(void **state)
{
	struct resolver_addresses addresses;
	char error[RESOLVER_ERROR_BYTES];
	for (int late = 0; late < 2; late++) {
		struct resolver_lookup *watch = resolver_lookup_new("slow.example", 1, error);
		assert_false(resolver_resolve("slow.example", 1, deadline_in_ms(1), &addresses, error));
		sem_post(&may_answer);
		wait_done(watch);
		resolver_lookup_free(watch);
		if (late) {
			atomic_fetch_add(&clock_ahead_ns, (RESOLVER_KEPT_MS + 1000) * NS_PER_MS);
			sem_post(&may_answer);
		}
		atomic_store(&calls, 0);
		assert_true(resolver_resolve("slow.example", 1, FAR, &addresses, error));
		assert_int_equal(atomic_load(&calls), late);
	}
}

static void a_look_up_that_hangs_for_long_is_not_waited_for_any_more(void **state)
{
	struct resolver_addresses addresses;
	char error[RESOLVER_ERROR_BYTES];
	struct resolver_lookup *hung = resolver_lookup_new("slow.example", 1, error);
	wait_for(&called);
	atomic_fetch_add(&clock_ahead_ns, (RESOLVER_HUNG_MS + 1000) * NS_PER_MS);
	struct resolver_lookup *fresh = resolver_lookup_new("slow.example", 1, error);
	assert_ptr_not_equal(hung, fresh);
	wait_for(&called);
	sem_post(&may_answer);
	sem_post(&may_answer);
	wait_done(hung);
	wait_done(fresh);
	assert_true(resolver_lookup_take(hung, &addresses, error));
	assert_true(resolver_lookup_take(fresh, &addresses, error));
	resolver_lookup_free(hung);
	resolver_lookup_free(fresh);
}

static void a_resolver_that_never_answers_gets_so_many_threads_and_no_more(void **state)
{
	struct resolver_addresses addresses;
	char error[RESOLVER_ERROR_BYTES], name[32];
	struct resolver_lookup *watched = NULL;
	for (int i = 0; i < RESOLVER_THREADS_MAX; i++) {
		snprintf(name, sizeof name, "slow-%d.example", i);
		struct resolver_lookup *lookup = resolver_lookup_new(name, 1, error);
		assert_non_null(lookup);
		wait_for(&called);
		if (i == 0)
			watched = lookup;
		else
			resolver_lookup_free(lookup); /* given up; its thread still hangs */
	}
	assert_false(resolver_resolve("db.example", 1, FAR, &addresses, error));
	assert_non_null(strstr(error, "16 look-ups hang already"));
	assert_true(resolver_resolve("127.0.0.1", 1, FAR, &addresses, error));
	for (int i = 0; i < RESOLVER_THREADS_MAX; i++)
		sem_post(&may_answer);
	wait_done(watched);
	resolver_lookup_free(watched);
	assert_true(resolver_resolve("db.example", 1, FAR, &addresses, error));
}

int main(void)
{
	alarm(300); /* what is never answered must fail, not hang */
	sem_init(&called, 0, 0);
	sem_init(&may_answer, 0, 0);
#define TEST(name) cmocka_unit_test_setup(name, start_of_test)
	const struct CMUnitTest tests[] = {
		TEST(a_numeric_address_asks_nobody),
		TEST(a_name_that_is_known_is_an_address_and_one_that_is_not_a_sentence),
		TEST(an_answer_that_was_taken_is_not_given_to_the_next_asker),
		TEST(whoever_asks_during_a_look_up_waits_for_the_same_one),
		TEST(an_answer_that_nobody_waited_for_is_the_next_askers_for_a_while),
		TEST(a_look_up_that_hangs_for_long_is_not_waited_for_any_more),
		TEST(a_resolver_that_never_answers_gets_so_many_threads_and_no_more),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
