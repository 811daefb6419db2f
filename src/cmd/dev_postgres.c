/* The private PostgreSQL of `lastunit dev`.
 *
 * Happy path: initdb into postgres.new as the unprivileged user, rename, start the postmaster on a unix socket in a
 * directory of mode 0700 (which is why `trust` is enough), create the database, migrate.
 * Failure modes: no binaries (the sentence names the package); a start that was cut short (postgres.new is thrown away,
 * so a cluster is whole or not there); a predecessor that is still shutting down (the supervisor tries again).
 */
#include <errno.h>
#include <ftw.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "cmd/dev.h"
#include "store/migrate.h"

#define INITDB_MS 120000
#define CONNECT_MS 10000
#define MIGRATE_MS 120000
#define ROLE "lastunit"

static char bindir[PATH_MAX];

/* Debian keeps them out of PATH, by version: the highest wins. */
bool dev_postgres_find(char ret_why[512])
{
	glob_t found = {0};
	int highest = -1;
	if (glob("/usr/lib/postgresql/*/bin/postgres", 0, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc; i++) {
			int version = atoi(found.gl_pathv[i] + strlen("/usr/lib/postgresql/"));
			if (version > highest) {
				highest = version;
				snprintf(bindir, sizeof bindir, "/usr/lib/postgresql/%d/bin", version);
			}
		}
	globfree(&found);
	char *path = highest < 0 && getenv("PATH") ? strdup(getenv("PATH")) : NULL, *rest = path, candidate[PATH_MAX];
	for (char *directory; rest && highest < 0 && (directory = strsep(&rest, ":"));)
		if (snprintf(candidate, sizeof candidate, "%s/initdb", directory) < (int)sizeof candidate &&
		    access(candidate, X_OK) == 0) {
			highest = 0;
			snprintf(bindir, sizeof bindir, "%s", directory);
		}
	free(path);
	return highest >= 0 || cmd_refuse(ret_why, "PostgreSQL's server is not installed: apt-get install postgresql");
}

static int on_entry(const char *path, const struct stat *status, int type, struct FTW *where)
{
	return remove(path);
}

bool dev_postgres_init(const struct dev_home *home, const struct child_user *user, bool keep, int log,
                       char ret_why[512])
{
	char made[PATH_MAX], final[PATH_MAX], program[PATH_MAX];
	dev_home_path(home, "postgres.new", made);
	dev_home_path(home, "postgres", final);
	nftw(made, on_entry, 16, FTW_DEPTH | FTW_PHYS);
	if (mkdir(made, 0700) < 0 || chown(made, user->uid, user->gid) < 0)
		return cmd_refuse(ret_why, "cannot make %s: %s", made, strerror(errno));
	CHECK(snprintf(program, sizeof program, "%s/initdb", bindir) < (int)sizeof program);
	const char *argv[] = {program, /* the whole path: by it initdb finds its siblings */ "-D", made, "--locale=C.UTF-8",
	                      "-E", "UTF8", "-U", ROLE, "--auth-local=trust", "--auth-host=reject", "--no-instructions",
	                      /* What is thrown away at the end need not survive a power cut while it is being made. */
	                      keep ? NULL : "--no-sync", NULL};
	struct child_options options = {.programs = (const char *[]){program, NULL},
	                                .argv = argv,
	                                .user = user,
	                                .parent_death_signal = SIGKILL,
	                                .output = log,
	                                .log = log,
	                                .directory = made};
	pid_t pid = child_start(&options);
	if (pid < 0)
		return cmd_refuse(ret_why, "cannot run %s: %s", program, strerror(errno));
	int code;
	if (!child_wait(pid, deadline_in_ms(INITDB_MS), &code)) {
		kill(pid, SIGKILL);
		(void)child_wait(pid, DEADLINE_NONE, &code);
	}
	if (code != 0)
		return cmd_refuse(ret_why, "initdb failed with code %d", code);
	return rename(made, final) == 0 || cmd_refuse(ret_why, "cannot rename %s: %s", made, strerror(errno));
}

/* A quarter of the memory, as PostgreSQL's manual advises for a start, up to what a million SKUs need: with its default,
 * 128 MB, each sale among so many would read a page and write another back. Pages are taken as they are used. */
static int shared_buffers_mb(void)
{
	long long quarter = (long long)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 4 >> 20;
	return quarter < 128 ? 128 : quarter > 1024 ? 1024 : (int)quarter;
}

pid_t dev_postgres_start(const struct dev_home *home, const struct child_user *user, int output, int log)
{
	char data[PATH_MAX], program[PATH_MAX], sockets[64], buffers[32];
	dev_home_path(home, "postgres", data);
	snprintf(buffers, sizeof buffers, "shared_buffers=%dMB", shared_buffers_mb());
	CHECK(snprintf(program, sizeof program, "%s/postgres", bindir) < (int)sizeof program);
	snprintf(sockets, sizeof sockets, "unix_socket_directories=%s", home->sockets);
	/* Settings of the server belong to the start, not to postgresql.conf: a second start has today's. */
	const char *argv[] = {program,
	                      "-D",
	                      data,
	                      "-p",
	                      "5432",
	                      "-c",
	                      "listen_addresses=",
	                      "-c",
	                      sockets,
	                      "-c",
	                      "unix_socket_permissions=0700",
	                      "-c",
	                      "max_connections=200",
	                      "-c",
	                      buffers,
	                      "-c",
	                      "jit=off",
	                      "-c",
	                      "logging_collector=off",
	                      "-c",
	                      "log_timezone=UTC",
	                      "-c",
	                      "timezone=UTC",
	                      "-c",
	                      "lc_messages=C",
	                      "-c",
	                      "cluster_name=lastunit-dev",
	                      NULL};
	struct child_options options = {.programs = (const char *[]){program, NULL},
	                                .argv = argv,
	                                .user = user,
	                                .parent_death_signal = SIGQUIT /* at once: backends that are stopped end too */,
	                                .output = output,
	                                .log = log,
	                                .directory = data};
	return child_start(&options);
}

void dev_postgres_forget_pid(const struct dev_home *home)
{
	char path[PATH_MAX];
	unlink(dev_home_path(home, "postgres/postmaster.pid", path));
}

/* The host of a libpq URL may be a directory, percent-encoded: nothing in it that a shell would expand. */
void dev_postgres_url(const struct dev_home *home, const char *database, char out[DEV_URL_BYTES_MAX])
{
	char *to = stpcpy(out, "postgresql://" ROLE "@");
	for (const char *from = home->sockets; *from; from++)
		to = *from == '/' ? stpcpy(to, "%2F") : (*to = *from, to + 1);
	sprintf(to, ":5432/%s", database);
}

bool dev_postgres_ready(const struct dev_home *home)
{
	char url[DEV_URL_BYTES_MAX];
	dev_postgres_url(home, "postgres", url);
	return PQping(url) == PQPING_OK;
}

struct pg *dev_postgres_connect(const char *url, char ret_why[512])
{
	struct pg_options options = {.url = url, .application_name = "lastunit dev"};
	struct pg *pg = pg_new(&options);
	int64_t deadline_ns = deadline_in_ms(CONNECT_MS);
	while (pg_connect(pg, deadline_ns) != LU_OK) {
		if (!deadline_left_ms(deadline_ns)) {
			cmd_refuse(ret_why, "cannot connect to the private PostgreSQL: %s", pg_error(pg)->message);
			pg_free(pg);
			return NULL;
		}
		clock_sleep_until(deadline_in_ms(100)); /* pg_connect tries no more often */
	}
	return pg;
}

static bool create_database(const struct dev_home *home, char ret_why[512])
{
	char url[DEV_URL_BYTES_MAX];
	dev_postgres_url(home, "postgres", url);
	struct pg *pg = dev_postgres_connect(url, ret_why);
	if (!pg)
		return false;
	bool made = pg_command(pg, "CREATE DATABASE lastunit", deadline_in_ms(MIGRATE_MS)) == LU_OK ||
	            strcmp(pg_error(pg)->sqlstate, "42P04") == 0; /* duplicate_database: an earlier start made it */
	if (!made)
		cmd_refuse(ret_why, "cannot create the database: %s", pg_error(pg)->message);
	pg_free(pg);
	return made;
}

bool dev_postgres_prepare(const struct dev_home *home, char ret_why[512])
{
	if (!create_database(home, ret_why))
		return false;
	char url[DEV_URL_BYTES_MAX];
	dev_postgres_url(home, "lastunit", url);
	struct pg *pg = dev_postgres_connect(url, ret_why);
	if (!pg)
		return false;
	struct migrate_report report;
	bool done = migrate_run(pg, deadline_in_ms(MIGRATE_MS), &report, ret_why);
	pg_free(pg);
	return done;
}
