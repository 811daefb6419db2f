/* `lastunit dev` as its users meet it: what it prints and writes, what it starts again, what it leaves behind.
 *
 * Bugs it guards against: a child that outlives its supervisor; a PostgreSQL that cannot be started again after kill -9;
 * keys that change at the second start; two supervisors on one directory; a directory under /root that `postgres`
 * cannot reach.
 *
 * Each test runs the real binary in a directory of its own under /tmp and waits for events; time only limits how long
 * it waits before it gives up. The test is a subreaper, so that what a killed supervisor leaves is seen, and reaped.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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

#include "base/clock.h"
#include "cmd/dev_home.h"
#include "store/advisory.h"
#include "store/pg.h"

#define PATIENCE_MS 60000
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

static void binary_path(char out[PATH_BYTES])
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
static pid_t spawn(const char *const *arguments, int *ret_output)
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

static void dev_begin(struct dev *dev)
{
	*dev = (struct dev){.output = -1};
	strcpy(dev->base, "/tmp/dev-test-XXXXXX");
	assert_non_null(mkdtemp(dev->base));
	assert_int_equal(chmod(dev->base, 0755), 0);
	snprintf(dev->data, sizeof dev->data, "%s/data", dev->base);
}

static void dev_start_listening(struct dev *dev, const char *address, const char *option)
{
	const char *arguments[] = {"dev", "--data", dev->data, "--listen", address, "--no-demo", option, NULL};
	dev->size = 0;
	dev->pid = spawn(arguments, &dev->output);
}

static void dev_start(struct dev *dev, const char *option)
{
	dev_start_listening(dev, "127.0.0.1:0", option);
}

/* Reads its output until a line begins with `start`; false at the end of output. */
static bool dev_says(struct dev *dev, const char *start)
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

static void dev_read_env(struct dev *dev)
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

static void dev_ready(struct dev *dev, const char *option)
{
	dev_start(dev, option);
	if (!dev_says(dev, "ready http://127.0.0.1:"))
		fail_msg("not ready: %s", dev->text);
	dev_read_env(dev);
}

static int reap(pid_t pid)
{
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int dev_stop(struct dev *dev)
{
	kill(dev->pid, SIGTERM);
	int code = reap(dev->pid);
	close(dev->output);
	return code;
}

static void dev_done(struct dev *dev)
{
	char command[3 * PATH_BYTES];
	snprintf(command, sizeof command, "p=$(readlink -f '%s') && rm -rf \"$p\"; rm -rf '%s'", dev->data, dev->base);
	assert_int_equal(system(command), 0);
}

/* The supervisor's child with this name, 0 if there is none: by /proc, as `ps --ppid` does. */
static pid_t child_of(pid_t parent, const char *name)
{
	DIR *proc = opendir("/proc");
	pid_t found = 0;
	for (struct dirent *entry; !found && (entry = readdir(proc));) {
		char path[300], text[512] = "";
		int pid = atoi(entry->d_name), of;
		if (pid <= 0)
			continue;
		snprintf(path, sizeof path, "/proc/%d/stat", pid);
		FILE *file = fopen(path, "r");
		char *behind = file && fgets(text, sizeof text, file) ? strrchr(text, ')') : NULL;
		if (file)
			fclose(file);
		char state;
		if (!behind || sscanf(behind, ") %c %d", &state, &of) != 2 || of != parent || state == 'Z')
			continue;
		snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
		file = fopen(path, "r");
		size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
		text[size] = 0;
		if (file)
			fclose(file);
		/* "redis-server unixsocket:…", "/usr/lib/postgresql/15/bin/postgres", "lastunit" */
		text[strcspn(text, " ")] = 0;
		const char *slash = strrchr(text, '/');
		if (strcmp(slash ? slash + 1 : text, name) == 0)
			found = pid;
	}
	closedir(proc);
	return found;
}

#define wait_until(condition)                               \
	do {                                                    \
		int64_t deadline_ns_ = deadline_in_ms(PATIENCE_MS); \
		while (!(condition)) {                              \
			if (!deadline_left_ms(deadline_ns_))            \
				fail_msg("waited in vain: %s", #condition); \
			clock_sleep_until(deadline_in_ms(10));          \
		}                                                   \
	} while (0)

static bool has_ended(pid_t pid)
{
	waitpid(pid, NULL, WNOHANG); /* an orphan is ours to reap */
	return kill(pid, 0) < 0 && errno == ESRCH;
}

static const char *dev_value(const struct dev *dev, const char *variable)
{
	for (size_t i = 0; i < VARIABLE_COUNT; i++)
		if (strcmp(variables[i], variable) == 0)
			return dev->values[i];
	fail_msg("no variable %s", variable);
	return NULL;
}

/* One GET with the admin's key; the status, 0 if there is no answer. */
static int http_status(const struct dev *dev, const char *path)
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

static bool database_answers(const struct dev *dev)
{
	return PQping(dev_value(dev, "LASTUNIT_DATABASE_URL")) == PQPING_OK;
}

/* The first value of a query by the private cluster's superuser, or "" if there was none. */
static const char *sql(const struct dev *dev, const char *query)
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

static bool exists(const char *format, const char *name)
{
	char path[2 * PATH_BYTES];
	struct stat status;
	snprintf(path, sizeof path, format, name);
	return lstat(path, &status) == 0;
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

static void it_serves_and_dev_env_says_where(void **state)
{
	struct dev dev;
	dev_begin(&dev);
	dev_ready(&dev, NULL);
	for (size_t i = 0; i < VARIABLE_COUNT; i++)
		if (!*dev.values[i])
			fail_msg("%s is not in dev.env", variables[i]);
	char ready[sizeof dev.values + 8], path[2 * PATH_BYTES];
	snprintf(ready, sizeof ready, "ready %s", dev_value(&dev, "LASTUNIT_URL"));
	assert_true(dev_says(&dev, ready));
	assert_int_equal(http_status(&dev, "/v1/skus"), 200);
	assert_true(database_answers(&dev));
	assert_string_equal(sql(&dev, "SELECT current_setting('is_superuser')"), "on");
	assert_string_equal(
		sql(&dev,
	        "SELECT current_setting('server_encoding') || datcollate FROM pg_database WHERE datname = current_database()"),
		"UTF8C.UTF-8");
	assert_string_equal(sql(&dev, "SELECT current_setting('fsync')"), "on");
	struct stat status;
	snprintf(path, sizeof path, "%s/dev.env", dev.data);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0600);
	snprintf(path, sizeof path, "%s/sockets/", dev.data);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0700);
	assert_int_equal(dev_stop(&dev), 0);
	dev_done(&dev);
}

static void a_stop_ends_all_and_a_second_start_finds_keys_and_data(void **state)
{
	struct dev dev;
	dev_begin(&dev);
	dev_ready(&dev, NULL);
	struct dev first = dev;
	pid_t postgres = child_of(dev.pid, "postgres"), redis = child_of(dev.pid, "redis-server"),
		  serve = child_of(dev.pid, "lastunit");
	assert_true(postgres && redis && serve);
	sql(&dev, "INSERT INTO lastunit.sku (code, on_hand) VALUES ('KEPT', 3)");
	char sockets[PATH_BYTES], link[PATH_BYTES + 16];
	snprintf(link, sizeof link, "%s/sockets", dev.data);
	ssize_t size = readlink(link, sockets, sizeof sockets - 1);
	assert_true(size > 0);
	sockets[size] = 0;
	assert_int_equal(dev_stop(&dev), 0);
	assert_true(has_ended(postgres) && has_ended(redis) && has_ended(serve));
	assert_int_equal(http_status(&dev, "/v1/skus"), 0);
	assert_false(exists("%s", sockets));

	dev_ready(&dev, NULL);
	for (size_t i = 1; i < VARIABLE_COUNT; i++) /* all but the URL, whose port was any */
		assert_string_equal(dev.values[i], first.values[i]);
	assert_string_equal(sql(&dev, "SELECT on_hand FROM lastunit.sku WHERE code = 'KEPT'"), "3");
	assert_int_equal(http_status(&dev, "/v1/skus/KEPT"), 200);
	assert_int_equal(dev_stop(&dev), 0);
	dev_done(&dev);
}

static void what_dies_is_started_again(void **state)
{
	struct dev dev;
	dev_begin(&dev);
	dev_ready(&dev, NULL);
	pid_t redis = child_of(dev.pid, "redis-server"), postgres = child_of(dev.pid, "postgres"),
		  serve = child_of(dev.pid, "lastunit");
	kill(redis, SIGKILL);
	wait_until(child_of(dev.pid, "redis-server") && child_of(dev.pid, "redis-server") != redis);
	assert_int_equal(http_status(&dev, "/v1/skus"), 200);

	kill(postgres, SIGKILL);
	wait_until(child_of(dev.pid, "postgres") && child_of(dev.pid, "postgres") != postgres && database_answers(&dev));
	wait_until(http_status(&dev, "/v1/skus") == 200);

	kill(serve, SIGKILL); /* port 0 was any port: it comes back on the one it had */
	wait_until(child_of(dev.pid, "lastunit") && child_of(dev.pid, "lastunit") != serve);
	wait_until(http_status(&dev, "/v1/skus") == 200);
	assert_int_equal(dev_stop(&dev), 0);
	dev_done(&dev);
}

static void nothing_outlives_a_supervisor_that_is_killed(void **state)
{
	struct dev dev;
	dev_begin(&dev);
	dev_ready(&dev, NULL);
	pid_t postgres = child_of(dev.pid, "postgres"), redis = child_of(dev.pid, "redis-server"),
		  serve = child_of(dev.pid, "lastunit");
	kill(redis, SIGSTOP); /* stopped ones too */
	kill(serve, SIGSTOP);
	kill(dev.pid, SIGKILL);
	assert_int_equal(reap(dev.pid), 128 + SIGKILL);
	close(dev.output);
	wait_until(has_ended(postgres));
	wait_until(has_ended(redis));
	wait_until(has_ended(serve));
	/* and the directory is free for another */
	dev_ready(&dev, NULL);
	assert_int_equal(dev_stop(&dev), 0);
	dev_done(&dev);
}

static void is_refused_the_directory(struct dev *second)
{
	assert_false(dev_says(second, "ready"));
	assert_int_equal(reap(second->pid), 2);
	close(second->output);
	assert_non_null(strstr(second->text, "is in use by another `lastunit dev`"));
}

static void two_on_one_directory_are_refused(void **state)
{
	struct dev dev;
	dev_begin(&dev);
	dev_ready(&dev, NULL);
	struct dev second = dev;
	dev_start(&second, NULL);
	is_refused_the_directory(&second);
	assert_int_equal(http_status(&dev, "/v1/skus"), 200);
	/* on the same port, too: another port would not help */
	dev_start_listening(&second, dev_value(&dev, "LASTUNIT_URL") + strlen("http://"), NULL);
	is_refused_the_directory(&second);
	assert_int_equal(dev_stop(&dev), 0);
	dev_done(&dev);
}

/* It must not clear away at its end what it was refused at its beginning. */
static void a_refused_ephemeral_one_removes_nothing(void **state)
{
	struct dev dev;
	dev_begin(&dev);
	dev_ready(&dev, NULL);
	struct dev second = dev;
	dev_start(&second, "--ephemeral");
	is_refused_the_directory(&second);
	assert_true(exists("%s/dev.env", dev.data));
	assert_int_equal(http_status(&dev, "/v1/skus"), 200);
	assert_int_equal(dev_stop(&dev), 0);
	dev_done(&dev);
}

static void a_busy_port_is_said_before_anything_is_made(void **state)
{
	struct dev dev;
	dev_begin(&dev);
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	char listen_address[32];
	snprintf(listen_address, sizeof listen_address, "127.0.0.1:%d", ntohs(address.sin_port));
	dev_start_listening(&dev, listen_address, NULL);
	assert_false(dev_says(&dev, "ready"));
	assert_int_equal(reap(dev.pid), 2);
	close(dev.output);
	close(fd);
	assert_non_null(strstr(dev.text, listen_address));
	assert_non_null(strstr(dev.text, "is in use"));
	assert_false(exists("%s", dev.data));
	dev_done(&dev);
}

static void it_ends_when_its_directory_is_gone(void **state)
{
	struct dev dev;
	dev_begin(&dev);
	dev_ready(&dev, NULL);
	pid_t postgres = child_of(dev.pid, "postgres");
	char command[2 * PATH_BYTES];
	snprintf(command, sizeof command, "rm -rf '%s'", dev.data);
	assert_int_equal(system(command), 0);
	int64_t begun_ns = clock_boottime_ns();
	assert_true(dev_says(&dev, "lastunit dev: "));
	assert_true(clock_boottime_ns() - begun_ns < 20 * NS_PER_S); /* PostgreSQL itself takes up to a minute to see it */
	assert_int_equal(reap(dev.pid), 1);
	close(dev.output);
	assert_non_null(strstr(dev.text, "is gone, and the data with it"));
	assert_null(strstr(dev.text, "starting it again"));
	wait_until(has_ended(postgres));
	assert_false(exists("%s", dev.data));
	snprintf(command, sizeof command, "rm -rf '%s'", dev.base);
	assert_int_equal(system(command), 0);
}

static void ephemeral_leaves_nothing(void **state)
{
	struct dev dev;
	dev_begin(&dev);
	dev_ready(&dev, "--ephemeral");
	char sockets[PATH_BYTES], link[PATH_BYTES + 16];
	snprintf(link, sizeof link, "%s/sockets", dev.data);
	ssize_t size = readlink(link, sockets, sizeof sockets - 1);
	assert_true(size > 0);
	sockets[size] = 0;
	assert_int_equal(dev_stop(&dev), 0);
	assert_false(exists("%s", dev.data));
	assert_false(exists("%s", sockets));
	dev_done(&dev);
}

static void keep_diary(const struct dev *dev)
{
	char path[PATH_BYTES + 16];
	snprintf(path, sizeof path, "%s/diary", dev->data);
	int fd = open(path, O_WRONLY | O_CREAT, 0644);
	assert_true(fd >= 0);
	close(fd);
}

static void refused_directory(struct dev *dev, const char *why)
{
	dev_start(dev, "--ephemeral");
	assert_false(dev_says(dev, "ready"));
	assert_int_equal(reap(dev->pid), 2);
	close(dev->output);
	if (!strstr(dev->text, why))
		fail_msg("%s", dev->text);
}

static void a_directory_of_others_is_refused_and_left_as_it_was(void **state)
{
	struct dev dev;
	dev_begin(&dev);
	assert_int_equal(mkdir(dev.data, 0700), 0);
	keep_diary(&dev);
	refused_directory(&dev, "/data is not empty and no data directory of lastunit dev: choose another\n");
	assert_false(exists("%s/lock", dev.data));
	assert_false(exists("%s/sockets", dev.data));
	struct stat status;
	assert_int_equal(stat(dev.data, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0700);
	char path[PATH_BYTES + 16];
	snprintf(path, sizeof path, "%s/diary", dev.data);
	assert_int_equal(unlink(path), 0);
	snprintf(path, sizeof path, "%s/postgres", dev.data); /* a cluster of somebody's own may be called so, too */
	assert_int_equal(mkdir(path, 0700), 0);
	refused_directory(&dev, "no data directory of lastunit dev");
	assert_false(exists("%s/lock", dev.data));
	dev_done(&dev);
}

/* As somebody who is not root, of a directory that is another's. */
static void refused_to_nobody(const char *directory, const char *why)
{
	char said[512] = "";
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	if (pid == 0) {
		struct child_user user;
		struct dev_home home;
		bool opened = setresuid(65534, 65534, 65534) < 0 || !child_user_find(&user) ||
		              dev_home_open(directory, &user, &home, said);
		_exit(write(ends[1], said, sizeof said) != sizeof said || opened);
	}
	assert_int_equal(reap(pid), 0);
	assert_int_equal(read(ends[0], said, sizeof said), sizeof said);
	close(ends[0]);
	close(ends[1]);
	if (!strstr(said, why))
		fail_msg("%s", said);
}

static void a_directory_of_another_user_is_told_as_such(void **state)
{
	if (geteuid() != 0)
		skip(); /* nobody else to be */
	struct dev dev;
	dev_begin(&dev);
	assert_int_equal(mkdir(dev.data, 0700), 0);
	refused_to_nobody(dev.data, "/data is another user's, who lets nobody in: choose another --data");
	assert_int_equal(chmod(dev.data, 0711), 0);
	refused_to_nobody(dev.data, "/data/lock: Permission denied: choose another --data");
	dev_done(&dev);
}

static void ephemeral_leaves_what_others_keep_there(void **state)
{
	struct dev dev;
	dev_begin(&dev);
	dev_ready(&dev, NULL);
	assert_int_equal(dev_stop(&dev), 0);
	keep_diary(&dev);
	dev_ready(&dev, "--ephemeral");
	assert_int_equal(dev_stop(&dev), 0);
	assert_true(exists("%s/diary", dev.data));
	assert_false(exists("%s/postgres", dev.data));
	assert_false(exists("%s/dev.env", dev.data));
	dev_done(&dev);
}

static void a_directory_that_postgres_cannot_reach_becomes_a_link(void **state)
{
	if (geteuid() != 0)
		skip(); /* whoever runs it reaches its own directory */
	struct dev dev;
	dev_begin(&dev);
	assert_int_equal(chmod(dev.base, 0700), 0);
	dev_ready(&dev, "--ephemeral");
	struct stat status;
	assert_int_equal(lstat(dev.data, &status), 0);
	assert_true(S_ISLNK(status.st_mode));
	char target[PATH_BYTES];
	ssize_t size = readlink(dev.data, target, sizeof target - 1);
	assert_true(size > 0);
	target[size] = 0;
	assert_int_equal(http_status(&dev, "/v1/skus"), 200);
	assert_int_equal(dev_stop(&dev), 0);
	assert_false(exists("%s", dev.data));
	assert_false(exists("%s", target));
	dev_done(&dev);
}

static void a_stop_while_it_starts_ends_all(void **state)
{
	struct dev dev;
	dev_begin(&dev);
	dev_start(&dev, "--ephemeral");
	assert_true(dev_says(&dev, "making a PostgreSQL cluster"));
	kill(dev.pid, SIGTERM);
	reap(dev.pid);
	while (dev_says(&dev, "no line begins so"))
		;
	close(dev.output); /* the end of output: no child holds it */
	assert_false(exists("%s", dev.data));
	dev_done(&dev);
}

/* usage: what the binary prints and the code it ends with. */
static int run(char out[OUTPUT_BYTES_MAX], const char *const *arguments)
{
	struct dev any = {0};
	any.pid = spawn(arguments, &any.output);
	while (dev_says(&any, "no line begins so"))
		;
	close(any.output);
	snprintf(out, OUTPUT_BYTES_MAX, "%s", any.text);
	return reap(any.pid);
}

static void every_command_has_help_and_refuses_nonsense(void **state)
{
	static const char *const commands[] = {"serve", "dev", "migrate", "key", "import", "audit", "replay"};
	char out[OUTPUT_BYTES_MAX];
	for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
		char usage[64];
		snprintf(usage, sizeof usage, "usage: lastunit %s", commands[i]);
		assert_int_equal(run(out, (const char *[]){commands[i], "--help", NULL}), 0);
		assert_non_null(strstr(out, usage));
		assert_non_null(strstr(out, "exit codes:"));
		assert_int_equal(run(out, (const char *[]){commands[i], "--no-such-option", "1", NULL}), 2);
		snprintf(usage, sizeof usage, "lastunit %s: --no-such-option: no such option", commands[i]);
		assert_int_equal(strncmp(out, usage, strlen(usage)), 0);
	}
	assert_int_equal(run(out, (const char *[]){"dev", "--help", NULL}), 0);
	assert_true(strstr(out, "  --data TEXT") < strstr(out, "  --listen TEXT")); /* its own options first */
	assert_int_equal(run(out, (const char *[]){"serv", NULL}), 2);
	assert_non_null(strstr(out, "did you mean \"serve\"?"));
	assert_int_equal(run(out, (const char *[]){NULL}), 2);
	assert_int_equal(run(out, (const char *[]){"--help", NULL}), 0);
	assert_int_equal(run(out, (const char *[]){"--version", NULL}), 0);
	assert_int_equal(strncmp(out, "lastunit ", 9), 0);
}

static void exit_codes_tell_configuration_from_a_backend_that_is_away(void **state)
{
	char out[OUTPUT_BYTES_MAX];
	unsetenv("LASTUNIT_DATABASE_URL");
	assert_int_equal(run(out, (const char *[]){"serve", NULL}), 2);
	assert_int_equal(run(out, (const char *[]){"migrate", NULL}), 2);
	const char *away = "postgresql://nobody@%2Ftmp%2Fno-such-directory/x";
	assert_int_equal(run(out, (const char *[]){"serve", "--database-url", away, NULL}), 3);
	assert_int_equal(run(out, (const char *[]){"migrate", "--database-url", away, NULL}), 3);
	assert_int_equal(run(out, (const char *[]){"key", "list", "--database-url", away, NULL}), 3);
	assert_int_equal(run(out, (const char *[]){"key", "destroy", "--database-url", away, NULL}), 2);
}

/* Until then a migration beside it could not meet any lock that it keeps. */
static void wait_for_the_leader(const struct dev *dev)
{
	int64_t deadline_ns = deadline_in_ms(30000);
	while (strcmp(sql(dev,
	                  "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
	                  " AND classid::bigint << 32 | objid::bigint = " ADVISORY(ADVISORY_LEAD)),
	              "1") != 0) {
		assert_true(deadline_left_ms(deadline_ns) > 0);
		clock_sleep_until(deadline_in_ms(20));
	}
}

static void a_schema_of_another_version_is_refused_by_serve(void **state)
{
	struct dev dev;
	char out[OUTPUT_BYTES_MAX];
	dev_begin(&dev);
	dev_ready(&dev, "--ephemeral");
	const char *url = dev_value(&dev, "LASTUNIT_DATABASE_URL");
	wait_for_the_leader(&dev);
	assert_int_equal(run(out, (const char *[]){"migrate", "--database-url", url, NULL}), 0);
	assert_non_null(strstr(out, "nothing to do"));
	char empty[300];
	snprintf(empty, sizeof empty, "%s", url);
	strcpy(strrchr(empty, '/'), "/empty");
	sql(&dev, "CREATE DATABASE empty");
	assert_int_equal(run(out, (const char *[]){"serve", "--listen", "127.0.0.1:0", "--database-url", empty, NULL}), 2);
	assert_non_null(strstr(out, "lastunit migrate"));
	assert_int_equal(run(out, (const char *[]){"migrate", "--check", "--database-url", empty, NULL}), 1);
	assert_int_equal(run(out, (const char *[]){"migrate", "--database-url", empty, NULL}), 0);
	assert_int_equal(run(out, (const char *[]){"migrate", "--check", "--database-url", empty, NULL}), 0);
	assert_int_equal(dev_stop(&dev), 0);
	dev_done(&dev);
}

static void keys_hold_from_the_moment_their_command_ends(void **state)
{
	struct dev dev;
	char out[OUTPUT_BYTES_MAX], rotated[OUTPUT_BYTES_MAX];
	dev_begin(&dev);
	dev_ready(&dev, "--ephemeral");
	const char *url = dev_value(&dev, "LASTUNIT_DATABASE_URL");
	char *admin = dev.values[3]; /* http_status() asks with this key */
	assert_int_equal(run(out, (const char *[]){"key", "create", "--database-url", url, "--principal", "till-7",
	                                           "--channel", "pos", "--scopes", "read,sell", NULL}),
	                 0);
	assert_int_equal(strncmp(out, "lu_", 3), 0);
	out[strcspn(out, "\n")] = 0;
	strcpy(admin, out);
	assert_int_equal(http_status(&dev, "/v1/skus"), 200);

	assert_int_equal(run(rotated, (const char *[]){"key", "rotate", "--database-url", url, "--principal", "till-7",
	                                               "--grace", "0", NULL}),
	                 0);
	rotated[strcspn(rotated, "\n")] = 0;
	assert_int_equal(http_status(&dev, "/v1/skus"), 401);
	strcpy(admin, rotated);
	assert_int_equal(http_status(&dev, "/v1/skus"), 200);

	char prefix[12];
	snprintf(prefix, sizeof prefix, "%.11s", rotated);
	assert_int_equal(run(out, (const char *[]){"key", "revoke", "--database-url", url, "--prefix", prefix, NULL}), 0);
	assert_int_equal(http_status(&dev, "/v1/skus"), 401);
	assert_int_equal(run(out, (const char *[]){"key", "revoke", "--database-url", url, "--prefix", prefix, NULL}), 1);
	assert_int_equal(run(out, (const char *[]){"key", "create", "--database-url", url, "--principal", "till-7",
	                                           "--channel", "web", "--scopes", "read", NULL}),
	                 1);
	assert_int_equal(run(out, (const char *[]){"key", "list", "--database-url", url, "--principal", "till-7", "--json",
	                                           NULL}),
	                 0);
	assert_non_null(strstr(out, prefix));
	assert_null(strstr(out, rotated)); /* a secret is shown once */
	assert_int_equal(dev_stop(&dev), 0);
	dev_done(&dev);
}

static void a_second_signal_does_not_wait(void **state)
{
	struct dev dev;
	dev_begin(&dev);
	dev_ready(&dev, "--ephemeral");
	pid_t serve = child_of(dev.pid, "lastunit");
	kill(serve, SIGSTOP);
	kill(dev.pid, SIGTERM);
	kill(dev.pid, SIGINT);
	reap(dev.pid);
	close(dev.output);
	wait_until(has_ended(serve));
	assert_false(exists("%s", dev.data));
	dev_done(&dev);
}

static void a_service_that_crashed_is_shown_and_fails_the_command(void **state)
{
	struct dev dev;
	dev_begin(&dev);
	dev_ready(&dev, "--ephemeral");
	pid_t serve = child_of(dev.pid, "lastunit");
	kill(serve, SIGABRT); /* as CHECK() and sanitizers end it */
	assert_true(dev_says(&dev, "lastunit dev: serve ended with code 134"));
	assert_true(dev_says(&dev, "the end of "));
	wait_until(http_status(&dev, "/v1/skus") == 200);
	assert_int_equal(dev_stop(&dev), 1);
	dev_done(&dev);
}

static void the_demo_has_a_last_unit_and_is_loaded_once(void **state)
{
	struct dev dev;
	dev_begin(&dev);
	for (int i = 0; i < 2; i++) {
		const char *arguments[] = {"dev", "--data", dev.data, "--listen", "127.0.0.1:0", NULL};
		dev.size = 0;
		dev.pid = spawn(arguments, &dev.output);
		assert_true(dev_says(&dev, "  try   curl"));
		dev_read_env(&dev);
		assert_string_equal(sql(&dev, "SELECT count(*) FROM lastunit.sku"), "40");
		assert_string_equal(sql(&dev, "SELECT count(*) FROM lastunit.ledger"), "40");
		assert_string_equal(sql(&dev, "SELECT on_hand FROM lastunit.sku WHERE code = 'LAMP-FIREFLY'"), "1");
		/* the line that it prints to try is one that works */
		char *line = strstr(dev.text, "  try   curl"), command[700];
		snprintf(command, sizeof command, "%s", line + strlen("  try   "));
		command[strcspn(command, "\n")] = 0;
		strcat(command, " | grep -q '\"available\":1'");
		assert_int_equal(system(command), 0);
		assert_int_equal(dev_stop(&dev), 0);
	}
	dev_done(&dev);
}

int main(void)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	signal(SIGPIPE, SIG_IGN);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_serves_and_dev_env_says_where),
		cmocka_unit_test(a_stop_ends_all_and_a_second_start_finds_keys_and_data),
		cmocka_unit_test(what_dies_is_started_again),
		cmocka_unit_test(nothing_outlives_a_supervisor_that_is_killed),
		cmocka_unit_test(two_on_one_directory_are_refused),
		cmocka_unit_test(a_refused_ephemeral_one_removes_nothing),
		cmocka_unit_test(a_busy_port_is_said_before_anything_is_made),
		cmocka_unit_test(it_ends_when_its_directory_is_gone),
		cmocka_unit_test(ephemeral_leaves_nothing),
		cmocka_unit_test(a_directory_of_others_is_refused_and_left_as_it_was),
		cmocka_unit_test(a_directory_of_another_user_is_told_as_such),
		cmocka_unit_test(ephemeral_leaves_what_others_keep_there),
		cmocka_unit_test(a_directory_that_postgres_cannot_reach_becomes_a_link),
		cmocka_unit_test(a_stop_while_it_starts_ends_all),
		cmocka_unit_test(a_second_signal_does_not_wait),
		cmocka_unit_test(a_service_that_crashed_is_shown_and_fails_the_command),
		cmocka_unit_test(the_demo_has_a_last_unit_and_is_loaded_once),
		cmocka_unit_test(every_command_has_help_and_refuses_nonsense),
		cmocka_unit_test(exit_codes_tell_configuration_from_a_backend_that_is_away),
		cmocka_unit_test(a_schema_of_another_version_is_refused_by_serve),
		cmocka_unit_test(keys_hold_from_the_moment_their_command_ends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
