/* How much memory `serve` takes: idle, with 2,000 silent connections, with a million SKUs in the catalogue.
 *
 * Sanitizers multiply memory, so a sanitized build only walks the path. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <cmocka.h>

#include "lib/pg_server.h"
#include "lib/service.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#define MIB 1024
#define CONNECTIONS 2000

static struct service service;

/* The child of `dev` whose second argument is "serve". */
static int serve_pid(void)
{
	char path[64], line[512];
	snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)service.pid, (int)service.pid);
	FILE *children = fopen(path, "r");
	assert_non_null(children);
	int pid, found = 0;
	while (!found && fscanf(children, "%d", &pid) == 1) {
		snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
		FILE *command = fopen(path, "r");
		size_t size = command ? fread(line, 1, sizeof line - 1, command) : 0;
		line[size] = 0;
		if (size && !strcmp(line + strlen(line) + 1, "serve"))
			found = pid;
		if (command)
			fclose(command);
	}
	fclose(children);
	assert_true(found > 0);
	return found;
}

static long rss_kib(void)
{
	char path[64], line[256];
	long kib = 0;
	snprintf(path, sizeof path, "/proc/%d/status", serve_pid());
	FILE *status = fopen(path, "r");
	assert_non_null(status);
	while (fgets(line, sizeof line, status))
		sscanf(line, "VmRSS: %ld", &kib);
	fclose(status);
	assert_true(kib > 0);
	return kib;
}

static void at_most(const char *what, long mib)
{
	long kib = rss_kib();
	print_message("serve, %s: %.1f MiB (at most %ld)\n", what, (double)kib / MIB, mib);
	if (!SANITIZED)
		assert_in_range(kib, 1, mib * MIB);
}

static void idle_it_takes_less_than_30_mib(void **state)
{
	service_create_sku(&service, "A", 10);
	for (int i = 0; i < 200; i++) {
		assert_int_equal(service_see(&service, "A").status, 200);
		service_adjust(&service, "A", 1);
	}
	at_most("idle", 30);
}

static void with_2000_idle_connections_it_takes_less_than_100_mib(void **state)
{
	static int fds[CONNECTIONS];
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)service.port)};
	inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
	for (int i = 0; i < CONNECTIONS; i++) {
		/* Each has been used once: an idle connection is one that is kept, not one that was never alive. */
		char request[300], answer[1024];
		fds[i] = socket(AF_INET, SOCK_STREAM, 0);
		assert_int_equal(connect(fds[i], (struct sockaddr *)&address, sizeof address), 0);
		int size = snprintf(request, sizeof request,
		                    "GET /v1/availability/A HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n",
		                    service.key_web);
		assert_int_equal(send(fds[i], request, (size_t)size, MSG_NOSIGNAL), size);
		assert_true(recv(fds[i], answer, sizeof answer, 0) > 12);
		assert_memory_equal(answer, "HTTP/1.1 200", 12);
	}
	at_most("2,000 idle connections", 100);
	for (int i = 0; i < CONNECTIONS; i++)
		close(fds[i]);
}

static void a_million_skus_do_not_change_it(void **state)
{
	int skus = SANITIZED || getenv("LASTUNIT_TEST_SHORT") ? 50000 : 1000000;
	char sql[300];
	snprintf(sql, sizeof sql,
	         "INSERT INTO lastunit.sku (code, on_hand, writer) SELECT 'M-' || n, 5, gen_random_uuid()"
	         " FROM generate_series(1, %d) n",
	         skus);
	pg_server_ask(service.database_url, sql);
	for (int i = 1; i <= 2000; i++) {
		char sku[32];
		snprintf(sku, sizeof sku, "M-%d", 1 + (int)((long long)i * 7919 % skus));
		assert_int_equal(service_see(&service, sku).available, 5);
	}
	at_most("a million SKUs", 40);
}

static int start(void **state)
{
	service_start(&service, NULL);
	return 0;
}

static int stop(void **state)
{
	return service_stop(&service);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(idle_it_takes_less_than_30_mib),
		cmocka_unit_test(with_2000_idle_connections_it_takes_less_than_100_mib),
		cmocka_unit_test(a_million_skus_do_not_change_it),
	};
	return cmocka_run_group_tests(tests, start, stop);
}
