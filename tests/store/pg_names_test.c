/* Hosts by name: libpq, which waits for a resolver as long as it takes, is never asked to resolve one.
 *
 * The getaddrinfo() of this program stands before the C library's, for libpq too. Names that begin with "slow" are not
 * answered until a test says so; all others are known. The server listens on an address that no other process uses.
 */
#include "store/fixture.h"

#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

static char here[32], nobody_there[32]; /* loopback addresses, with and without a server */
static pthread_t test_thread;
static atomic_int look_ups, in_test_thread;
static sem_t may_answer;

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **result)
{
	int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
	*(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
	struct addrinfo numeric = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *first;
	if (hints && hints->ai_flags & AI_NUMERICHOST)
		return real(node, service, hints, result);
	atomic_fetch_add(&look_ups, 1);
	if (pthread_equal(pthread_self(), test_thread))
		atomic_fetch_add(&in_test_thread, 1);
	if (strncmp(node, "slow", 4) == 0)
		while (sem_wait(&may_answer) < 0)
			;
	int error = real(nobody_there, service, &numeric, &first);
	if (!error)
		error = real(here, service, &numeric, &first->ai_next);
	*result = first;
	return error;
}

static int start(void **state)
{
	char options[96];
	int pid = getpid();
	test_thread = pthread_self();
	sem_init(&may_answer, 0, 0);
	snprintf(here, sizeof here, "127.%d.%d.%d", 1 + (pid >> 14 & 0x7f), pid >> 7 & 0x7f, 1 + (pid & 0x7f));
	snprintf(nobody_there, sizeof nobody_there, "127.%d.%d.%d", 1 + (pid >> 14 & 0x7f), pid >> 7 & 0x7f,
	         128 + (pid & 0x7f));
	snprintf(options, sizeof options, "listen_addresses = '%s'\n", here);
	pg_server_start(&server, options);
	return 0;
}

static int start_of_test(void **state)
{
	atomic_store(&look_ups, 0);
	return fixture_database(state);
}

/* The test's database by another host. */
static struct pg *at(const char *host)
{
	char text[400];
	snprintf(text, sizeof text, "%s %s", host, strchr(url, ' ') + 1);
	return pg_new(&(struct pg_options){.url = text});
}

static void assert_connects_by_name(struct pg *pg, const char *name)
{
	ok(pg, pg_connect(pg, SOON));
	assert_string_equal(PQhost(pg_conn(pg)), name); /* what a certificate is compared with */
	assert_string_equal(PQhostaddr(pg_conn(pg)), here);
	assert_int_equal(atomic_load(&in_test_thread), 0);
}

static void a_name_is_resolved_beside_and_its_addresses_are_tried_in_turn(void **state)
{
	struct pg *pg = at("host=db.example");
	assert_connects_by_name(pg, "db.example");
	assert_int_equal(atomic_load(&look_ups), 1);
	pg_free(pg);
}

static void each_connection_asks_anew(void **state)
{
	struct pg *pg = at("host=db.example");
	for (int i = 1; i <= 2; i++) {
		assert_connects_by_name(pg, "db.example");
		assert_int_equal(atomic_load(&look_ups), i);
		pg_close(pg);
		clock_sleep_until(deadline_in_ms(80)); /* past the pause between attempts */
	}
	pg_free(pg);
}

static void a_resolver_that_hangs_holds_nobody_beyond_his_deadline(void **state)
{
	struct pg *pg = at("host=slow.example");
	for (int i = 0; i < 3; i++) {
		assert_int_equal(pg_connect(pg, deadline_in_ms(10)), LU_DATABASE_UNAVAILABLE);
		assert_non_null(strstr(pg_error(pg)->message, "slow.example was not resolved in time"));
		clock_sleep_until(deadline_in_ms(80));
	}
	sem_post(&may_answer); /* one answer is enough: all attempts waited for one look-up */
	assert_connects_by_name(pg, "slow.example");
	assert_int_equal(atomic_load(&look_ups), 1);
	pg_free(pg);
}

static void a_name_that_hangs_leaves_time_for_the_next_host(void **state)
{
	char hosts[128];
	struct pg *pg = at("host=slow.example,db.example");
	ok(pg, pg_connect(pg, deadline_in_ms(5000)));
	assert_string_equal(PQhost(pg_conn(pg)), "db.example");
	pg_free(pg);
	snprintf(hosts, sizeof hosts, "host=slow.example,%s", server.directory);
	pg = at(hosts);
	ok(pg, pg_connect(pg, deadline_in_ms(5000)));
	pg_free(pg);
	sem_post(&may_answer);
}

static void an_address_beside_the_name_asks_nobody(void **state)
{
	char hosts[128];
	snprintf(hosts, sizeof hosts, "host=slow.example hostaddr=%s", here);
	struct pg *pg = at(hosts);
	assert_connects_by_name(pg, "slow.example");
	pg_free(pg);
	snprintf(hosts, sizeof hosts, "host=%s", here);
	pg = at(hosts);
	assert_connects_by_name(pg, here);
	assert_int_equal(atomic_load(&look_ups), 0);
	pg_free(pg);
}

/* What libpq would put together is what is resolved: the string alone does not say it all. */
static void a_name_from_the_environment_or_a_service_is_found_too(void **state)
{
	char path[128];
	snprintf(path, sizeof path, "%s/services", server.directory);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs("[stock]\nhost=service.example\nport=5432\n", file);
	fclose(file);
	setenv("PGSERVICEFILE", path, 1);
	setenv("PGHOST", "environment.example", 1);
	struct pg *pg = at("application_name=names");
	assert_connects_by_name(pg, "environment.example");
	pg_free(pg);
	pg = at("service=stock");
	assert_connects_by_name(pg, "service.example");
	pg_free(pg);
	unsetenv("PGHOST");
	unsetenv("PGSERVICEFILE");
	unlink(path);
}

static void hosts_that_say_nothing_are_refused_with_the_reason(void **state)
{
	const struct {
		const char *hosts, *says;
	} cases[] = {
		{"host=/nonexistent,", "an empty host in a list"},
		{"host=slow.example,db.example hostaddr=127.0.0.1", "could not match"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct pg *pg = pg_new(&(struct pg_options){.url = cases[i].hosts});
		assert_int_equal(pg_connect(pg, SOON), LU_DATABASE_UNAVAILABLE);
		assert_non_null(strstr(pg_error(pg)->message, cases[i].says));
		pg_free(pg);
	}
	assert_int_equal(atomic_load(&look_ups), 0);
}

int main(void)
{
	alarm(300); /* who resolves without a deadline must fail, not hang */
#define TEST(name) cmocka_unit_test_setup_teardown(name, start_of_test, fixture_forget)
	const struct CMUnitTest tests[] = {
		TEST(a_name_is_resolved_beside_and_its_addresses_are_tried_in_turn),
		TEST(each_connection_asks_anew),
		TEST(a_resolver_that_hangs_holds_nobody_beyond_his_deadline),
		TEST(a_name_that_hangs_leaves_time_for_the_next_host),
		TEST(an_address_beside_the_name_asks_nobody),
		TEST(a_name_from_the_environment_or_a_service_is_found_too),
		TEST(hosts_that_say_nothing_are_refused_with_the_reason),
	};
	return cmocka_run_group_tests(tests, start, fixture_end);
}
