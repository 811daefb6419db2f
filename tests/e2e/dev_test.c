/* `lastunit dev` as its users meet it: what it prints and writes, what it starts again, what it leaves behind. Whose
 * directory it takes: dev_directory_test.c.
 *
 * Bugs it guards against: a child that outlives its supervisor; a PostgreSQL that cannot be started again after kill -9;
 * keys that change at the second start.
 */
#include "e2e/dev_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/stat.h>

#include "base/clock.h"

#define PATIENCE_MS 60000

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

static bool database_answers(const struct dev *dev)
{
	return PQping(dev_value(dev, "LASTUNIT_DATABASE_URL")) == PQPING_OK;
}

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

/* They may be another user's, and `serve` reads what strangers send: the terminal of who started it is not theirs. */
static void the_children_have_no_terminal(void **state)
{
	static const char *const names[] = {"postgres", "redis-server", "lastunit"};
	struct dev dev;
	dev_begin(&dev);
	dev_ready(&dev, "--ephemeral");
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		pid_t pid = child_of(dev.pid, names[i]);
		assert_true(pid > 0);
		assert_int_equal(getsid(pid), pid); /* and a new session has none */
	}
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

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(it_serves_and_dev_env_says_where),
	cmocka_unit_test(a_stop_ends_all_and_a_second_start_finds_keys_and_data),
	cmocka_unit_test(what_dies_is_started_again),
	cmocka_unit_test(the_children_have_no_terminal),
	cmocka_unit_test(nothing_outlives_a_supervisor_that_is_killed),
	cmocka_unit_test(it_ends_when_its_directory_is_gone),
	cmocka_unit_test(a_stop_while_it_starts_ends_all),
	cmocka_unit_test(a_second_signal_does_not_wait),
	cmocka_unit_test(a_service_that_crashed_is_shown_and_fails_the_command),
	cmocka_unit_test(the_demo_has_a_last_unit_and_is_loaded_once),
};

DEV_MAIN(tests)
