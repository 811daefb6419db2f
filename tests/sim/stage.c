/* The stage (stage.h), but for its faults (fault.c). Happy path: servers once, a database and two instances per run; each
 * turn reaps and starts again what died.
 *
 * Failure modes: an instance that ends without having been ended is complained of; one that cannot reach PostgreSQL at
 * its start (exit code 3) is started again. Whatever else goes wrong here ends the program with a sentence.
 */
#include "sim/stage_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define AGAIN_MS 50 /* an instance that could not start is tried again after this */
#define ARGUMENTS_MAX 40

int64_t stage_now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 * MS + now.tv_nsec;
}

_Noreturn void stage_give_up(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	fputs("sim: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	exit(3);
}

/* Asked to end: at the next turn, and nothing is left behind. */
static volatile sig_atomic_t interrupted;
static struct stage *the_stage;

static void on_signal(int number)
{
	interrupted = number;
}

void stage_give_way(void)
{
	if (interrupted)
		exit(128 + interrupted);
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
	return remove(path);
}

/* Whichever way the program ends, memory is not left full of a database. */
static void on_exit_remove(void)
{
	if (the_stage && the_stage->pg.directory[0]) {
		if (the_stage->pg.pid > 0)
			kill(the_stage->pg.pid, SIGQUIT);
		while (the_stage->pg.pid > 0 && waitpid(the_stage->pg.pid, NULL, 0) < 0 && errno == EINTR)
			;
		nftw(the_stage->pg.directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	}
}

void stage_complain(struct stage *stage, const char *format, ...)
{
	if (stage->complaint_count == STAGE_COMPLAINTS_MAX)
		return;
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(stage->complaints[stage->complaint_count++], sizeof stage->complaints[0], format, arguments);
	va_end(arguments);
}

void stage_note_outage(struct stage *stage, enum history_outage_kind kind, int instance, int64_t from_ns)
{
	if (stage->outage_count == STAGE_OUTAGES_MAX)
		stage_give_up("more than %d outages", STAGE_OUTAGES_MAX);
	stage->outages[stage->outage_count++] = (struct history_outage){kind, instance, from_ns, stage_now_ns()};
}

/* --- processes ---------------------------------------------------------------------------------------------------- */

/* Runs the binary; its stderr is appended to this file, its stdout too unless it gets a descriptor. */
pid_t stage_spawn(const struct stage *stage, const char *const *arguments, const char *log, int output)
{
	char path[160];
	const char *argv[ARGUMENTS_MAX + 2] = {"lastunit"};
	for (size_t i = 0; arguments[i]; i++)
		argv[i + 1] = arguments[i];
	snprintf(path, sizeof path, "%s/%s", stage->directory, log);
	pid_t parent = getpid(), pid = fork();
	if (pid < 0)
		stage_give_up("fork: %s", strerror(errno));
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (getppid() != parent || file < 0)
		_exit(127);
	dup2(output >= 0 ? output : file, STDOUT_FILENO);
	dup2(file, STDERR_FILENO);
	execv(stage->binary, (char *const *)argv);
	_exit(127);
}

static void instance_start(struct stage *stage, struct stage_instance *x)
{
	const struct plan *plan = stage->plan;
	char database[200], redis[128], numbers[8][24], log[24];
	const int values[] = {plan->lease_ms,   plan->reopen_after_ms, plan->redis_timeout_ms, plan->lock_timeout_ms,
	                      plan->cell_ttl_s, plan->writers,         plan->loaders,          plan->loops};
	for (size_t i = 0; i < sizeof values / sizeof *values; i++)
		snprintf(numbers[i], sizeof numbers[i], "%d", values[i]);
	snprintf(database, sizeof database, "host=%s user=lastunit dbname=sim_%d", x->directory, stage->runs);
	snprintf(redis, sizeof redis, "unix://%s/redis", x->directory);
	snprintf(log, sizeof log, "instance-%d.log", (int)(x - stage->instances));
	const char *arguments[] = {"serve",    "--listen",
	                           x->address, "--database-url",
	                           database,   "--redis-url",
	                           redis,      "--lease-ms",
	                           numbers[0], "--reopen-after-ms",
	                           numbers[1], "--redis-timeout-ms",
	                           numbers[2], "--lock-timeout-ms",
	                           numbers[3], "--cell-ttl-s",
	                           numbers[4], "--writers",
	                           numbers[5], "--loaders",
	                           numbers[6], "--http-loops",
	                           numbers[7], "--statement-timeout-ms",
	                           "1000",     "--request-timeout-ms",
	                           "3000",     NULL};
	int ends[2];
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		stage_give_up("pipe: %s", strerror(errno));
	if (x->output >= 0)
		close(x->output);
	x->pid = stage_spawn(stage, arguments, log, ends[1]);
	close(ends[1]);
	x->output = ends[0];
	x->line[0] = 0;
	x->ready = x->doomed = x->stopped = false;
}

static void instance_read(struct stage *stage, struct stage_instance *x)
{
	size_t size = strlen(x->line);
	ssize_t n = read(x->output, x->line + size, sizeof x->line - 1 - size);
	if (n <= 0)
		return;
	x->line[size + (size_t)n] = 0;
	if (!strstr(x->line, "ready http://"))
		return;
	x->ready = true;
	stage_note_outage(stage, HISTORY_DEAD, (int)(x - stage->instances), x->dead_since_ns);
}

static void instance_reap(struct stage *stage, struct stage_instance *x)
{
	int status, index = (int)(x - stage->instances);
	if (waitpid(x->pid, &status, WNOHANG) != x->pid)
		return;
	bool no_database = WIFEXITED(status) && WEXITSTATUS(status) == 3 && !x->ready;
	if (!x->doomed && !no_database)
		stage_complain(stage, "instance %d ended by itself (%s %d), %.3f s after the start", index,
		               WIFEXITED(status) ? "exit code" : "signal",
		               WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status),
		               (double)(stage_now_ns() - stage->origin_ns) / 1e9);
	if (x->ready)
		x->dead_since_ns = stage_now_ns();
	x->pid = 0;
	x->ready = false;
	x->again_ns = stage_now_ns() + AGAIN_MS * MS;
}

void stage_resume(struct stage *stage, struct stage_instance *x)
{
	if (!x->stopped)
		return;
	x->stopped = false;
	kill(x->pid, SIGCONT);
	stage_note_outage(stage, HISTORY_STOPPED, (int)(x - stage->instances), x->stopped_since_ns);
}

void stage_kill(struct stage *stage, struct stage_instance *x)
{
	bool served = x->ready;
	int64_t now_ns = stage_now_ns();
	x->doomed = true;
	kill(x->pid, SIGKILL);
	stage_resume(stage, x);
	while (waitpid(x->pid, NULL, 0) < 0 && errno == EINTR)
		;
	x->pid = 0;
	x->ready = false;
	if (served)
		x->dead_since_ns = now_ns;
}

void stage_instances_turn(struct stage *stage)
{
	for (int i = 0; i < PLAN_INSTANCES; i++) {
		struct stage_instance *x = &stage->instances[i];
		if (x->pid)
			instance_reap(stage, x);
		if (!x->pid && !x->down && stage_now_ns() >= x->again_ns)
			instance_start(stage, x);
		if (x->pid && !x->ready)
			instance_read(stage, x);
	}
	if (stage->flush && waitpid(stage->flush, NULL, WNOHANG) == stage->flush)
		stage->flush = 0;
}

bool stage_serves(const struct stage *stage)
{
	for (int i = 0; i < PLAN_INSTANCES; i++)
		if (!stage->instances[i].ready)
			return false;
	return true;
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

/* Below the range of which the kernel gives clients' connections their ports: while an instance is
 * dead, nobody takes its. */
static int free_port(int after)
{
	for (int port = after + 1; port < 32000; port++) {
		struct sockaddr_in address = {.sin_family = AF_INET,
		                              .sin_port = htons((uint16_t)port),
		                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		bool free = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
		if (fd >= 0)
			close(fd);
		if (free)
			return port;
	}
	stage_give_up("no free port");
}

/* In memory, if there is room: killing a process loses the same on any file system, and a recovery on a busy disk takes
 * longer than a whole run. */
static void prefer_memory(void)
{
	struct statvfs room;
	if (statvfs("/dev/shm", &room) == 0 && room.f_bavail * room.f_frsize > UINT64_C(1) << 30)
		setenv("TMPDIR", "/dev/shm", 0);
}

void stage_open(struct stage *stage, const char *binary, const char *directory)
{
	memset(stage, 0, sizeof *stage);
	prefer_memory();
	the_stage = stage;
	atexit(on_exit_remove);
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	snprintf(stage->binary, sizeof stage->binary, "%s", binary);
	snprintf(stage->directory, sizeof stage->directory, "%s", directory);
	pg_server_start(&stage->pg, "shared_buffers = 16MB\nmax_wal_size = 256MB\n");
	redis_server_start(&stage->redis, NULL);
	int port = 20000 + (int)(getpid() % 10000);
	for (int i = 0; i < PLAN_INSTANCES; i++) {
		struct stage_instance *x = &stage->instances[i];
		char from[140], to[140];
		port = free_port(port);
		x->output = -1;
		snprintf(x->address, sizeof x->address, "127.0.0.1:%d", port);
		snprintf(x->directory, sizeof x->directory, "%s/%d", directory, i);
		if (mkdir(x->directory, 0700))
			stage_give_up("%s: %s", x->directory, strerror(errno));
		snprintf(from, sizeof from, "%s/.s.PGSQL.5432", x->directory);
		snprintf(to, sizeof to, "%s/.s.PGSQL.5432", stage->pg.directory);
		proxy_start(&x->postgres, from, to);
		snprintf(from, sizeof from, "%s/redis", x->directory);
		proxy_start(&x->redis, from, stage->redis.socket);
	}
}

void stage_close(struct stage *stage)
{
	for (int i = 0; i < PLAN_INSTANCES; i++) {
		struct stage_instance *x = &stage->instances[i];
		proxy_stop(&x->postgres);
		proxy_stop(&x->redis);
		rmdir(x->directory);
		if (x->output >= 0)
			close(x->output);
	}
	redis_server_stop(&stage->redis);
	pg_server_done(&stage->pg);
}

static void stock(struct stage *stage)
{
	char sql[400];
	for (int i = 0; i < PLAN_SKUS; i++) {
		snprintf(sql, sizeof sql,
		         "INSERT INTO lastunit.sku (code, on_hand, safety_stock, tracked) VALUES ('S%d', %" PRId64 ", %" PRId64
		         ", %s)",
		         i, stage->plan->skus[i].on_hand, stage->plan->skus[i].safety_stock,
		         i < PLAN_SKUS - 1 ? "true" : "false");
		pg_server_ask(stage->url, sql);
	}
	/* Three principals on three channels; the scopes: read sell orders stock. */
	pg_server_ask(stage->url,
	              "INSERT INTO lastunit.principal (name, channel) VALUES ('p0', 1), ('p1', 3), ('p2', 6);"
	              "INSERT INTO lastunit.api_key (sha256, principal_id, prefix, scopes)"
	              " SELECT sha256(convert_to('lu_' || repeat(right(name, 1), 32), 'UTF8')), id, 'sim', 15"
	              " FROM lastunit.principal");
}

void stage_begin(struct stage *stage, const struct plan *plan)
{
	char name[32];
	stage->plan = plan;
	stage->runs++;
	stage->outage_count = stage->complaint_count = 0;
	/* Only a PostgreSQL that is killed has to write to disk: the others are as fast without. */
	pg_server_ask(stage->pg.url,
	              plan_has(plan, FAULT_PG_RESTART) ? "ALTER SYSTEM SET fsync = on" : "ALTER SYSTEM SET fsync = off");
	pg_server_ask(stage->pg.url, "SELECT pg_reload_conf()");
	snprintf(name, sizeof name, "sim_%d", stage->runs);
	pg_server_database(&stage->pg, name, stage->url);
	if (stage->runs == 1)
		pg_server_ask(stage->pg.url, "CREATE ROLE lastunit LOGIN IN ROLE lastunit_service");
	stock(stage);
	stage_remove_dump(stage);
	redis_server_restart(&stage->redis);
	for (int i = 0; i < plan->fault_count; i++)
		stage->faults[i] = (struct stage_fault){.fault = &plan->faults[i], .over = true, .begun = true};
	for (int i = 0; i < PLAN_INSTANCES; i++) {
		struct stage_instance *x = &stage->instances[i];
		x->down = false;
		x->again_ns = 0;
		x->dead_since_ns = stage_now_ns();
	}
	stage->origin_ns = stage_now_ns();
	stage_calm(stage);
	for (int i = 0; i < plan->fault_count; i++)
		stage->faults[i] = (struct stage_fault){.fault = &plan->faults[i]};
	stage->origin_ns = stage_now_ns();
}

static int wait_for(pid_t pid)
{
	int status;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			stage_give_up("waitpid: %s", strerror(errno));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool stage_audit(struct stage *stage)
{
	char redis[128];
	snprintf(redis, sizeof redis, "unix://%s", stage->redis.socket);
	const char *arguments[] = {"audit", "--database-url", stage->url, "--redis-url", redis, NULL};
	return wait_for(stage_spawn(stage, arguments, "audit", -1)) == 0;
}

void stage_end(struct stage *stage)
{
	char sql[64];
	if (stage->flush) {
		kill(stage->flush, SIGKILL);
		wait_for(stage->flush);
		stage->flush = 0;
	}
	for (int i = 0; i < PLAN_INSTANCES; i++)
		kill(stage->instances[i].pid, SIGTERM);
	for (int i = 0; i < PLAN_INSTANCES; i++) {
		int code = wait_for(stage->instances[i].pid);
		stage->instances[i].pid = 0;
		stage->instances[i].ready = false;
		if (code)
			stage_complain(stage, "instance %d ended with %d when asked to end", i, code);
	}
	snprintf(sql, sizeof sql, "DROP DATABASE sim_%d WITH (FORCE)", stage->runs);
	pg_server_ask(stage->pg.url, sql);
}
