/* What the tests of `lastunit dev` and of the commands share: the real binary, run in a directory of the test's
 * own under /tmp.
 *
 * Events are waited for; time only limits how long before a test gives up. The test is a subreaper, so that what a killed
 * supervisor leaves is seen, and reaped.
 */
#ifndef TESTS_E2E_DEV_FIXTURE_H
#define TESTS_E2E_DEV_FIXTURE_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/pg.h"

#define OUTPUT_BYTES_MAX 8192
#define PATH_BYTES 256

static const char *const variables[] = {"LASTUNIT_URL",       "LASTUNIT_DATABASE_URL", "LASTUNIT_REDIS_URL",
                                        "LASTUNIT_KEY_ADMIN", "LASTUNIT_KEY_WEB",      "LASTUNIT_KEY_TELEGRAM",
                                        "LASTUNIT_KEY_AGENT", "LASTUNIT_KEY_VOICE",    "LASTUNIT_KEY_MARKETPLACE",
                                        "LASTUNIT_KEY_POS"};
#define VARIABLE_COUNT (sizeof variables / sizeof variables[0])

struct dev {
	char base[PATH_BYTES];     /* a directory for this test */
	char data[PATH_BYTES + 8]; /* base/data */
	pid_t pid;
	int output;                  /* its stdout and stderr */
	char text[OUTPUT_BYTES_MAX]; /* of it, so far */
	size_t size;
	char values[VARIABLE_COUNT][300]; /* of dev.env */
};

static inline void binary_path(char out[PATH_BYTES])
{
	const char *given = getenv("LASTUNIT_BIN");
	if (given) {
		snprintf(out, PATH_BYTES, "%s", given);
		return;
	}
	ssize_t size = readlink("/proc/self/exe", out, PATH_BYTES - 1);
	assert_true(size > 0);
	out[size] = 0;
	char *tests = strstr(out, "/tests/");
	assert_non_null(tests);
	strcpy(tests, "/lastunit");
}

/* Runs the binary with its output in a pipe. */
static inline pid_t spawn(const char *const *arguments, int *ret_output)
{
	char binary[PATH_BYTES];
	binary_path(binary);
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM); /* a test that fails leaves nothing */
		const char *argv[20] = {binary};
		for (int i = 0; arguments[i]; i++)
			argv[i + 1] = arguments[i];
		dup2(ends[1], STDOUT_FILENO);
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		execv(binary, (char *const *)argv);
		_exit(127);
	}
	close(ends[1]);
	*ret_output = ends[0];
	return pid;
}

static inline void dev_begin(struct dev *dev)
{
	*dev = (struct dev){.output = -1};
	strcpy(dev->base, "/tmp/dev-test-XXXXXX");
	assert_non_null(mkdtemp(dev->base));
	assert_int_equal(chmod(dev->base, 0755), 0);
	snprintf(dev->data, sizeof dev->data, "%s/data", dev->base);
}

static inline void dev_start_listening(struct dev *dev, const char *address, const char *option)
{
	const char *arguments[] = {"dev", "--data", dev->data, "--listen", address, "--no-demo", option, NULL};
	dev->size = 0;
	dev->pid = spawn(arguments, &dev->output);
}

static inline void dev_start(struct dev *dev, const char *option)
{
	dev_start_listening(dev, "127.0.0.1:0", option);
}

/* Reads its output until a line begins with `start`; false at the end of output. */
static inline bool dev_says(struct dev *dev, const char *start)
{
	for (;;) {
		dev->text[dev->size] = 0;
		for (char *line = dev->text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
			if (strncmp(line, start, strlen(start)) == 0 && strchr(line, '\n'))
				return true;
		ssize_t size = read(dev->output, dev->text + dev->size, sizeof dev->text - 1 - dev->size);
		if (size <= 0)
			return false;
		dev->size += (size_t)size;
	}
}

static inline void dev_read_env(struct dev *dev)
{
	char path[PATH_BYTES + 16], line[400];
	snprintf(path, sizeof path, "%s/dev.env", dev->data);
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	memset(dev->values, 0, sizeof dev->values);
	while (fgets(line, sizeof line, file)) {
		line[strcspn(line, "\n")] = 0;
		for (size_t i = 0; i < VARIABLE_COUNT; i++)
			if (strncmp(line, variables[i], strlen(variables[i])) == 0 && line[strlen(variables[i])] == '=')
				snprintf(dev->values[i], sizeof dev->values[i], "%s", line + strlen(variables[i]) + 1);
	}
	fclose(file);
}

static inline void dev_ready(struct dev *dev, const char *option)
{
	dev_start(dev, option);
	if (!dev_says(dev, "ready http://127.0.0.1:"))
		fail_msg("not ready: %s", dev->text);
	dev_read_env(dev);
}

static inline int reap(pid_t pid)
{
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline int dev_stop(struct dev *dev)
{
	kill(dev->pid, SIGTERM);
	int code = reap(dev->pid);
	close(dev->output);
	return code;
}

static inline void dev_done(struct dev *dev)
{
	char command[3 * PATH_BYTES];
	snprintf(command, sizeof command, "p=$(readlink -f '%s') && rm -rf \"$p\"; rm -rf '%s'", dev->data, dev->base);
	assert_int_equal(system(command), 0);
}

static inline const char *dev_value(const struct dev *dev, const char *variable)
{
	for (size_t i = 0; i < VARIABLE_COUNT; i++)
		if (strcmp(variables[i], variable) == 0)
			return dev->values[i];
	fail_msg("no variable %s", variable);
	return NULL;
}

/* One GET with the admin's key; the status, 0 if there is no answer. */
static inline int http_status(const struct dev *dev, const char *path)
{
	const char *url = dev_value(dev, "LASTUNIT_URL");
	struct sockaddr_in address = {.sin_family = AF_INET,
	                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	                              .sin_port = htons((uint16_t)atoi(strrchr(url, ':') + 1))};
	int fd = socket(AF_INET, SOCK_STREAM, 0), status = 0;
	char text[512];
	int size = snprintf(text, sizeof text,
	                    "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer %s\r\n\r\n", path,
	                    dev_value(dev, "LASTUNIT_KEY_ADMIN"));
	if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
	    send(fd, text, (size_t)size, MSG_NOSIGNAL) == size) {
		ssize_t got = recv(fd, text, sizeof text - 1, 0);
		text[got > 0 ? got : 0] = 0;
		if (sscanf(text, "HTTP/1.1 %d", &status) != 1)
			status = 0;
	}
	close(fd);
	return status;
}

/* The first value of a query by the private cluster's superuser, or "" if there was none. */
static inline const char *sql(const struct dev *dev, const char *query)
{
	static char value[200];
	PGconn *conn = PQconnectdb(dev_value(dev, "LASTUNIT_DATABASE_URL"));
	PGresult *result = PQexec(conn, query);
	if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK)
		print_error("%s", PQerrorMessage(conn));
	snprintf(value, sizeof value, "%s", PQntuples(result) ? PQgetvalue(result, 0, 0) : "");
	PQclear(result);
	PQfinish(conn);
	return value;
}

static inline bool exists(const char *format, const char *name)
{
	char path[2 * PATH_BYTES];
	struct stat status;
	snprintf(path, sizeof path, format, name);
	return lstat(path, &status) == 0;
}

#define DEV_MAIN(tests)                                   \
	int main(void)                                        \
	{                                                     \
		prctl(PR_SET_CHILD_SUBREAPER, 1);                 \
		signal(SIGPIPE, SIG_IGN);                         \
		return cmocka_run_group_tests(tests, NULL, NULL); \
	}

#endif
