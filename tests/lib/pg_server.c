/* A private PostgreSQL for a test. Happy path: mkdtemp, initdb, append to postgresql.conf, fork, exec, PQping.
 *
 * Failure modes: no binaries, no directory, an initdb that fails, a server that ends at once. Each ends the test
 * program with the log. If the test program dies, PR_SET_PDEATHSIG ends the postmaster (SIGQUIT: it takes its children
 * along); the directory is left for a look.
 */
#include "lib/pg_server.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <libpq-fe.h>

#include "base/clock.h"
#include "store/migrate.h"

#define START_WAIT_MS 60000

static const char *path_of(const struct pg_server *server, const char *name)
{
	static _Thread_local char path[128];
	snprintf(path, sizeof path, "%s/%s", server->directory, name);
	return path;
}

static _Noreturn void fail(const struct pg_server *server, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static _Noreturn void fail(const struct pg_server *server, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fputs("pg_server: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	char line[512];
	FILE *log = server ? fopen(path_of(server, "log"), "r") : NULL;
	while (log && fgets(line, sizeof line, log))
		fputs(line, stderr);
	if (log)
		fclose(log);
	if (server && server->pid > 0)
		kill(server->pid, SIGQUIT);
	exit(1);
}

/* Debian keeps the programs out of PATH, by version: the highest wins. */
static const char *bindir(const struct pg_server *server)
{
	static char found[PATH_MAX];
	glob_t list = {0};
	int highest = -1;
	if (!found[0] && glob("/usr/lib/postgresql/*/bin/postgres", 0, NULL, &list) == 0)
		for (size_t i = 0; i < list.gl_pathc; i++) {
			int version = atoi(list.gl_pathv[i] + strlen("/usr/lib/postgresql/"));
			if (version > highest) {
				highest = version;
				snprintf(found, sizeof found, "/usr/lib/postgresql/%d/bin", version);
			}
		}
	globfree(&list);
	FILE *asked = found[0] ? NULL : popen("pg_config --bindir", "r");
	if (asked) {
		if (fgets(found, sizeof found, asked))
			found[strcspn(found, "\n")] = '\0';
		pclose(asked);
	}
	if (!found[0])
		fail(server, "no PostgreSQL server: install postgresql");
	return found;
}

/* Who runs the server: nobody special when we are not root. */
static const struct passwd *unprivileged(const struct pg_server *server)
{
	if (geteuid() != 0)
		return NULL;
	const struct passwd *user = getpwnam("postgres");
	if (!user)
		user = getpwnam("nobody");
	if (!user)
		fail(server, "neither the user postgres nor nobody exists");
	return user;
}

/* In the child: another user, gone with the parent, output to the log, then the program. */
static _Noreturn void become(const struct pg_server *server, pid_t parent, const char *program, char *const argv[])
{
	char path[PATH_MAX + 16];
	const struct passwd *user = unprivileged(server);
	snprintf(path, sizeof path, "%s/%s", bindir(server), program);
	int log = open(path_of(server, "log"), O_WRONLY | O_APPEND | O_CREAT, 0644), null = open("/dev/null", O_RDONLY);
	if (log < 0 || null < 0 || dup2(null, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0 ||
	    chdir(server->directory) < 0)
		_exit(126);
	if (user && (setgroups(0, NULL) < 0 || setgid(user->pw_gid) < 0 || setuid(user->pw_uid) < 0))
		_exit(126);
	/* Behind setuid, which clears it. */
	prctl(PR_SET_PDEATHSIG, SIGQUIT);
	if (getppid() != parent)
		_exit(1);
	execv(path, argv);
	fprintf(stderr, "pg_server: %s: %s\n", path, strerror(errno));
	_exit(127);
}

static pid_t spawn(const struct pg_server *server, const char *program, char *const argv[])
{
	pid_t parent = getpid(), child = fork();
	if (child < 0)
		fail(server, "fork: %s", strerror(errno));
	if (child == 0)
		become(server, parent, program, argv);
	return child;
}

static void launch(struct pg_server *server)
{
	char data[128], directory[64];
	snprintf(data, sizeof data, "%s", path_of(server, "data"));
	snprintf(directory, sizeof directory, "%s", server->directory);
	server->pid = spawn(server, "postgres", (char *[]){"postgres", "-D", data, "-k", directory, NULL});
	for (int waited_ms = 0; PQping(server->url) != PQPING_OK; waited_ms += 5) {
		int status;
		if (waitpid(server->pid, &status, WNOHANG) == server->pid) {
			server->pid = 0;
			fail(server, "the server ended at once (status %d)", status);
		}
		if (waited_ms > START_WAIT_MS)
			fail(server, "no connection after %d ms", START_WAIT_MS);
		poll(NULL, 0, 5);
	}
}

void pg_server_start(struct pg_server *server, const char *options)
{
	memset(server, 0, sizeof *server);
	const char *temporary = getenv("TMPDIR");
	/* A socket's path has at most 107 bytes. */
	snprintf(server->directory, sizeof server->directory, "%s/lu-pg-XXXXXX",
	         temporary && strlen(temporary) < 40 ? temporary : "/tmp");
	if (!mkdtemp(server->directory))
		fail(NULL, "mkdtemp: %s", strerror(errno));
	const struct passwd *user = unprivileged(server);
	if (user && chown(server->directory, user->pw_uid, user->pw_gid) < 0)
		fail(server, "chown: %s", strerror(errno));
	snprintf(server->url, sizeof server->url, "host=%s port=5432 user=postgres dbname=postgres", server->directory);

	char data[128];
	snprintf(data, sizeof data, "%s", path_of(server, "data"));
	pid_t initdb = spawn(server, "initdb",
	                     (char *[]){"initdb", "-N", "-D", data, "-U", "postgres", "-A", "trust", "--locale=C.UTF-8",
	                                "-E", "UTF8", "--no-instructions", NULL});
	int status;
	if (waitpid(initdb, &status, 0) != initdb || status != 0)
		fail(server, "initdb failed (status %d)", status);
	FILE *conf = fopen(path_of(server, "data/postgresql.conf"), "a");
	if (!conf)
		fail(server, "postgresql.conf: %s", strerror(errno));
	fputs(
		"\nlisten_addresses = ''\nunix_socket_permissions = 0700\nfsync = off\nshared_buffers = 64MB\n"
		"max_connections = 100\nlogging_collector = off\nlc_messages = 'C'\n",
		conf);
	if (options)
		fputs(options, conf);
	if (fclose(conf) != 0)
		fail(server, "postgresql.conf: %s", strerror(errno));
	launch(server);
}

void pg_server_stop(struct pg_server *server, enum pg_server_end how)
{
	if (server->pid <= 0)
		return;
	kill(server->pid, how == PG_SERVER_FAST ? SIGINT : SIGQUIT);
	while (waitpid(server->pid, NULL, 0) < 0 && errno == EINTR)
		;
	server->pid = 0;
}

void pg_server_restart(struct pg_server *server, enum pg_server_end how)
{
	pg_server_stop(server, how);
	launch(server);
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
	return remove(path);
}

void pg_server_done(struct pg_server *server)
{
	pg_server_stop(server, PG_SERVER_IMMEDIATE);
	if (server->directory[0])
		nftw(server->directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	memset(server, 0, sizeof *server);
}

void pg_server_pause(pid_t backend)
{
	kill(backend, SIGSTOP);
}

void pg_server_resume(pid_t backend)
{
	kill(backend, SIGCONT);
}

static void migrate(const struct pg_server *server, const char *url)
{
	char why[512];
	struct migrate_report report;
	struct pg *pg = pg_new(&(struct pg_options){.url = url});
	int64_t deadline_ns = deadline_in_ms(START_WAIT_MS);
	if (pg_connect(pg, deadline_ns))
		fail(server, "cannot connect: %s", pg_error(pg)->message);
	if (!migrate_run(pg, deadline_ns, &report, why))
		fail(server, "cannot migrate: %s", why);
	pg_free(pg);
}

void pg_server_database(const struct pg_server *server, const char *name, char url[200])
{
	char sql[128];
	/* Migrated once, copied for each: half a second less per test. */
	if (strcmp(pg_server_ask(server->url, "SELECT count(*) FROM pg_database WHERE datname = 'migrated'"), "0") == 0) {
		pg_server_ask(server->url, "CREATE DATABASE migrated");
		snprintf(url, 200, "host=%s port=5432 user=postgres dbname=migrated", server->directory);
		migrate(server, url);
	}
	/* The session that migrated, or was asked before, may not have gone yet; the template must be alone. */
	pg_server_ask(server->url,
	              "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE datname = 'migrated'");
	snprintf(sql, sizeof sql, "CREATE DATABASE %s TEMPLATE migrated", name);
	pg_server_ask(server->url, sql);
	snprintf(url, 200, "host=%s port=5432 user=postgres dbname=%s", server->directory, name);
}

static void on_notice(void *context, const char *message) {}

const char *pg_server_try(const char *url, const char *sql, char ret_sqlstate[6])
{
	static _Thread_local char ring[8][4096];
	static _Thread_local unsigned next;
	char *out = ring[next++ % 8];
	out[0] = '\0';
	ret_sqlstate[0] = '\0';
	PGconn *conn = PQconnectdb(url);
	if (PQstatus(conn) != CONNECTION_OK)
		fail(NULL, "%s", PQerrorMessage(conn));
	PQsetNoticeProcessor(conn, on_notice, NULL);
	PGresult *r = PQexec(conn, sql);
	if (PQresultStatus(r) == PGRES_TUPLES_OK && PQntuples(r) > 0 && PQnfields(r) > 0)
		snprintf(out, sizeof ring[0], "%s", PQgetvalue(r, 0, 0));
	else if (PQresultStatus(r) != PGRES_TUPLES_OK && PQresultStatus(r) != PGRES_COMMAND_OK) {
		const char *sqlstate = PQresultErrorField(r, PG_DIAG_SQLSTATE);
		snprintf(ret_sqlstate, 6, "%s", sqlstate ? sqlstate : "08006");
		snprintf(out, sizeof ring[0], "%s", PQerrorMessage(conn));
	}
	PQclear(r);
	PQfinish(conn);
	return out;
}

const char *pg_server_ask(const char *url, const char *sql)
{
	char sqlstate[6];
	const char *answer = pg_server_try(url, sql, sqlstate);
	if (sqlstate[0])
		fail(NULL, "%s (SQLSTATE %s) in: %s", answer, sqlstate, sql);
	return answer;
}
