/* Servers and instances for scenarios (bench.h).
 *
 * Happy path: a database from the template, a Redis, wires, one `lastunit serve` per instance with a short lease; play;
 * the audit behind each permutation; everything ended by its pid.
 * Failure modes: what cannot be started ends the test program with a sentence; an instance that ends by itself fails its
 * scenario. All children die with the test.
 */
#include "spec/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/audit_run.h"
#include "store/key.h"

#define PATIENCE_MS 30000
#define START_MS 60000
#define ARGUMENTS_MAX 40

static struct pg_server shared_pg;

/* So that a deadlock is seen as such, and not as a lock timeout. */
#define POSTGRES_OPTIONS "autovacuum = off\nmax_connections = 100\ndeadlock_timeout = 20ms\n"

static _Noreturn void give_up(const char *what)
{
	fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
	abort();
}

void bench_servers_start(void)
{
	http_caller_global_init();
	pg_server_start(&shared_pg, POSTGRES_OPTIONS);
}

void bench_servers_stop(void)
{
	pg_server_done(&shared_pg);
	http_caller_global_done();
}

const char *bench_socket(const struct pg_server *pg)
{
	static char path[2][108];
	static int next;
	char *out = path[next++ % 2];
	snprintf(out, sizeof path[0], "%s/.s.PGSQL.5432", pg->directory);
	return out;
}

/* --- instances ---------------------------------------------------------------------------------------------------- */

static const char *binary(void)
{
	static char path[4200];
	const char *given = getenv("LASTUNIT_SYNC_BIN");
	if (given && *given)
		return given;
	ssize_t size = readlink("/proc/self/exe", path, 4000);
	if (size <= 0)
		give_up("/proc/self/exe");
	path[size] = '\0';
	for (int i = 0; i < 4; i++) { /* …/build/MODE/tests/spec/spec_test */
		char *slash = strrchr(path, '/');
		if (!slash)
			give_up("set LASTUNIT_SYNC_BIN");
		*slash = '\0';
	}
	strcat(path, "/sync/lastunit");
	return path;
}

/* Its output, byte by byte up to the line "ready URL". */
static void wait_until_ready(struct bench *b, size_t index)
{
	struct bench_instance *instance = &b->instances[index];
	struct scenario_instance *told = &b->scenario->instances[index];
	char line[300];
	size_t size = 0;
	for (int64_t until_ns = deadline_in_ms(START_MS);;) {
		struct pollfd wait = {.fd = instance->output, .events = POLLIN};
		char c;
		if (poll(&wait, 1, deadline_left_ms(until_ns)) == 0)
			give_up("an instance was not ready in time");
		ssize_t n = read(instance->output, &c, 1);
		if (n == 0)
			give_up("an instance ended before it was ready");
		if (n < 0)
			continue;
		if (c != '\n') {
			if (size < sizeof line - 1)
				line[size++] = c;
			continue;
		}
		line[size] = '\0';
		size = 0;
		if (strncmp(line, "ready http://", 13) == 0) {
			snprintf(told->url, sizeof told->url, "%.60s", line + 6);
			return;
		}
	}
}

void bench_start(struct bench *b, size_t index)
{
	struct bench_instance *instance = &b->instances[index];
	const char *argv[ARGUMENTS_MAX] = {"lastunit",          "serve",
	                                   "--listen",          "127.0.0.1:0",
	                                   "--lease-ms",        "500",
	                                   "--reopen-after-ms", "100",
	                                   "--database-url",    instance->database_url,
	                                   "--redis-url",       instance->redis_url,
	                                   "--http-loops",      "1"};
	char options[300], sync[140], log_path[140], *save = NULL;
	size_t count = 14;
	snprintf(options, sizeof options, "%s", b->scenario->instances[index].options);
	for (char *word = strtok_r(options, " ", &save); word && count < ARGUMENTS_MAX - 1;
	     word = strtok_r(NULL, " ", &save))
		argv[count++] = word;
	snprintf(sync, sizeof sync, "LASTUNIT_SYNC=%s/sync", instance->directory);
	snprintf(log_path, sizeof log_path, "%s/log", instance->directory);
	char *environment[] = {sync, "PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", NULL};
	const char *program = binary();
	int ends[2], log = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (log < 0 || pipe2(ends, O_CLOEXEC) != 0)
		give_up(log_path);
	pid_t parent = getpid(), pid = fork();
	if (pid < 0)
		give_up("fork");
	if (pid == 0) { /* other threads are running: nothing but system calls */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent || dup2(ends[1], STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0)
			_exit(127);
		execve(program, (char *const *)argv, environment);
		_exit(127);
	}
	close(log);
	close(ends[1]);
	instance->pid = pid;
	instance->output = ends[0];
	wait_until_ready(b, index);
}

void bench_end_instance(struct bench *b, size_t index, int signal_number)
{
	struct bench_instance *instance = &b->instances[index];
	if (!instance->pid)
		return;
	kill(instance->pid, signal_number);
	kill(instance->pid, SIGCONT);
	while (waitpid(instance->pid, NULL, 0) < 0 && errno == EINTR)
		continue;
	close(instance->output);
	instance->pid = 0;
	instance->paused = false;
	b->scenario->instances[index].url[0] = '\0';
}

bool bench_has_lease(const struct bench *b, size_t index)
{
	const char *url = b->scenario->instances[index].url;
	if (!*url)
		return false;
	struct http_caller *caller = http_caller_new(url, 5000);
	struct http_answer answer = http_call(caller, "GET", "/readyz", (struct text){0}, NULL, NULL);
	json_t *json = answer.status == 200 ? json_loadb(answer.body.data, answer.body.size, 0, NULL) : NULL;
	bool lease = json_is_true(json_object_get(json, "lease"));
	json_decref(json);
	http_caller_free(caller);
	return lease;
}

static bool wait_for_lease(struct bench *b, size_t index, char why[SCENARIO_WHY_BYTES])
{
	for (int64_t until_ns = deadline_in_ms(PATIENCE_MS); !bench_has_lease(b, index);) {
		if (clock_boottime_ns() > until_ns) {
			snprintf(why, SCENARIO_WHY_BYTES, "instance %s has no lease", b->scenario->instances[index].name);
			return false;
		}
		clock_sleep_until(deadline_in_ms(5));
	}
	return true;
}

/* --- PostgreSQL --------------------------------------------------------------------------------------------------- */

static const char *program_path(const char *name)
{
	static char path[300];
	glob_t found = {0};
	if (glob("/usr/lib/postgresql/*/bin", 0, NULL, &found) != 0 || found.gl_pathc == 0)
		give_up("/usr/lib/postgresql");
	snprintf(path, sizeof path, "%s/%s", found.gl_pathv[found.gl_pathc - 1], name);
	globfree(&found);
	return path;
}

bool bench_tool(struct bench *b, const char *const *argv)
{
	char log_path[100];
	const char *program = program_path(argv[0]);
	const struct passwd *user = geteuid() == 0 ? getpwnam("postgres") : NULL;
	if (geteuid() == 0 && !user)
		user = getpwnam("nobody");
	snprintf(log_path, sizeof log_path, "%s/tools", b->directory);
	int log = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666), status;
	pid_t parent = getpid(), pid = fork();
	if (log < 0 || pid < 0)
		give_up(argv[0]);
	if (pid == 0) {
		if (user && (setgroups(0, NULL) != 0 || setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0))
			_exit(126);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent || dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0 || chdir("/") != 0)
			_exit(126);
		execv(program, (char *const *)argv);
		_exit(127);
	}
	close(log);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void own_directory(char directory[64])
{
	const struct passwd *user = geteuid() == 0 ? getpwnam("postgres") : NULL;
	if (geteuid() == 0 && !user)
		user = getpwnam("nobody");
	strcpy(directory, "/tmp/lu-pg-XXXXXX");
	if (!mkdtemp(directory) || (user && chown(directory, user->pw_uid, user->pw_gid) != 0))
		give_up(directory);
}

/* A standby that streams from the bench's PostgreSQL. */
void bench_standby_start(struct bench *b)
{
	struct pg_server *s = &b->standby;
	char data[100];
	memset(s, 0, sizeof *s);
	own_directory(s->directory);
	snprintf(s->url, sizeof s->url, "host=%s port=5432 user=postgres dbname=postgres", s->directory);
	snprintf(data, sizeof data, "%s/data", s->directory);
	if (!bench_tool(b, (const char *const[]){"pg_basebackup", "-h", b->pg->directory, "-U", "postgres", "-D", data,
	                                         "-R", "-X", "stream", "-c", "fast", NULL}))
		give_up("pg_basebackup");
	pg_server_restart(s, PG_SERVER_FAST);
	b->has_standby = true;
}

int64_t bench_deadlocks(const struct bench *b)
{
	char path[100], line[2000];
	int64_t count = 0;
	snprintf(path, sizeof path, "%s/log", b->pg->directory);
	FILE *log = fopen(path, "r");
	while (log && fgets(line, sizeof line, log))
		count += strstr(line, "deadlock detected") != NULL;
	if (log)
		fclose(log);
	return count;
}

static void keys_make(struct bench *b, const char *url)
{
	struct pg *pg = pg_new(&(struct pg_options){.url = url});
	int64_t deadline_ns = deadline_in_ms(START_MS);
	if (pg_connect(pg, deadline_ns))
		give_up("the new database");
	for (int c = CHANNEL_WEB; c <= CHANNEL_ADMIN; c++) {
		struct text name = text_of(channel_name((enum channel)c));
		unsigned scopes = c == CHANNEL_ADMIN ? 31 : SCOPE_READ | SCOPE_SELL | SCOPE_ORDERS;
		snprintf(b->keys[c], sizeof b->keys[c], "lu_%032d", c);
		if (key_store(pg, name, (enum channel)c, scopes, (struct text){0}, b->keys[c], deadline_ns))
			give_up("a key");
		b->options.keys[c] = b->keys[c];
	}
	pg_free(pg);
}

/* --- the bench ---------------------------------------------------------------------------------------------------- */

/* As libpq wants it; lives as long as the scenario. */
static const char *database_url(struct bench *b, const char *directory)
{
	return arena_printf(&b->scenario->arena, "host=%s port=5432 user=postgres dbname=%s", directory, b->database).data;
}

static void directory_make(char *path, mode_t mode)
{
	if (mkdir(path, mode) != 0)
		give_up(path);
}

static void instance_wire(struct bench *b, size_t index)
{
	struct bench_instance *i = &b->instances[index];
	char path[120];
	snprintf(i->directory, sizeof i->directory, "%s/%zu", b->directory, index);
	directory_make(i->directory, 0755);
	snprintf(path, sizeof path, "%s/.s.PGSQL.5432", i->directory);
	i->postgres = wire_link(b->wire, WIRE_POSTGRES, path, bench_socket(b->pg));
	i->database_url = database_url(b, i->directory);
	snprintf(path, sizeof path, "%s/redis", i->directory);
	i->redis = wire_link(b->wire, WIRE_REDIS, path, b->redis.socket);
	i->redis_url = arena_printf(&b->scenario->arena, "unix://%s", path).data;
	snprintf(path, sizeof path, "%s/sync", i->directory);
	desk_listen(b->desk, index, path);
}

static void servers_make(struct bench *b)
{
	static int number;
	const char *needs = b->scenario->needs ? b->scenario->needs : "";
	char url[200];
	b->pg = &shared_pg;
	if (strstr(needs, "a PostgreSQL of its own") || strstr(needs, "a standby")) {
		pg_server_start(&b->own_pg, POSTGRES_OPTIONS "wal_level = replica\nmax_wal_senders = 4\n");
		b->pg = &b->own_pg;
	}
	snprintf(b->database, sizeof b->database, "spec_%d", ++number);
	pg_server_database(b->pg, b->database, url);
	keys_make(b, url);
	b->has_twin = strstr(needs, "a second Redis") != NULL;
	if (b->has_twin) {
		redis_server_start_tcp(&b->redis, NULL);
		redis_server_start_tcp(&b->twin, NULL);
	} else {
		redis_server_start(&b->redis, NULL);
	}
	if (strstr(needs, "a standby"))
		bench_standby_start(b);
}

static void bench_make(struct bench *b, struct scenario *scenario)
{
	const char *why, *patience = getenv("LASTUNIT_SPEC_PATIENCE_MS");
	char path[100];
	memset(b, 0, sizeof *b);
	b->scenario = scenario;
	strcpy(b->directory, "/tmp/lu-spec-XXXXXX");
	if (!mkdtemp(b->directory) || chmod(b->directory, 0777) != 0)
		give_up(b->directory);
	servers_make(b);
	b->wire = wire_new();
	b->desk = desk_new();
	snprintf(path, sizeof path, "%s/.s.PGSQL.5432", b->directory);
	b->world = wire_link(b->wire, WIRE_POSTGRES, path, bench_socket(b->pg));
	b->options.database_url = database_url(b, b->directory);
	if (!redis_address_parse(b->redis.url, &b->redis_address, &why))
		give_up(why);
	b->options.redis = &b->redis_address;
	b->language = bench_language;
	b->language.context = b;
	b->options.bench = &b->language;
	b->options.mark = "spec";
	b->options.patience_ms = patience ? atoi(patience) : PATIENCE_MS;
	for (size_t i = 0; i < scenario->instance_count; i++) {
		instance_wire(b, i);
		bench_start(b, i);
	}
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
	return remove(path);
}

static void bench_unmake(struct bench *b)
{
	desk_reset(b->desk);
	for (size_t i = 0; i < b->scenario->instance_count; i++)
		bench_end_instance(b, i, SIGKILL);
	desk_free(b->desk);
	wire_free(b->wire);
	redis_server_stop(&b->redis);
	if (b->has_twin)
		redis_server_stop(&b->twin);
	if (b->has_standby)
		pg_server_done(&b->standby);
	if (b->pg == &b->own_pg)
		pg_server_done(&b->own_pg);
	nftw(b->directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* --- permutations ------------------------------------------------------------------------------------------------- */

struct bench *bench_of(const struct scenario_call *call)
{
	return call->run->options->bench->context;
}

size_t bench_index(const struct scenario_call *call, const struct scenario_instance *instance)
{
	return (size_t)(instance - call->scenario->instances);
}

/* Whatever the last permutation broke is mended. */
static void mend(struct bench *b)
{
	desk_reset(b->desk);
	wire_reset(b->wire);
	if (b->redis_paused)
		redis_server_resume(&b->redis);
	b->redis_paused = false;
	if (!b->redis.pid)
		redis_server_restart(&b->redis);
	if (!b->pg->pid)
		pg_server_restart(b->pg, PG_SERVER_FAST);
	for (size_t i = 0; i < b->scenario->instance_count; i++) {
		if (b->instances[i].paused)
			kill(b->instances[i].pid, SIGCONT);
		b->instances[i].paused = false;
	}
}

static bool permutation_begin(void *context, struct scenario *scenario, char why[SCENARIO_WHY_BYTES])
{
	struct bench *b = context;
	mend(b);
	for (size_t i = 0; i < scenario->instance_count; i++) {
		if (!b->instances[i].pid)
			bench_start(b, i);
		if (!wait_for_lease(b, i, why))
			return false;
	}
	b->deadlocks_before = bench_deadlocks(b);
	return true;
}

static bool audit(struct bench *b, char why[SCENARIO_WHY_BYTES])
{
	struct arena arena;
	struct audit audit;
	char reason[512] = "";
	arena_init(&arena, 1 << 14);
	struct audit_options options = {.database_url = b->options.database_url,
	                                .redis = &b->redis_address,
	                                .redis_timeout_ms = 2000};
	enum lu_error error = audit_run(&options, &arena, &audit, reason);
	bool sound = !error && audit_sound(&audit);
	if (error)
		snprintf(why, SCENARIO_WHY_BYTES, "the audit: %s", reason);
	for (int check = 0; !error && !sound && check < AUDIT_CHECKS; check++)
		if (audit.lines[check].broken) {
			snprintf(why, SCENARIO_WHY_BYTES, "the audit: %s: %.*s", audit_name((enum audit_check)check),
			         audit.lines[check].shown_count ? (int)audit.lines[check].shown[0].size : 0,
			         audit.lines[check].shown_count ? audit.lines[check].shown[0].data : "");
			break;
		}
	arena_done(&arena);
	return sound;
}

static bool permutation_end(void *context, struct scenario *scenario, char why[SCENARIO_WHY_BYTES])
{
	struct bench *b = context;
	mend(b);
	for (size_t i = 0; i < scenario->instance_count; i++) {
		int status;
		if (b->instances[i].pid && waitpid(b->instances[i].pid, &status, WNOHANG) == b->instances[i].pid) {
			snprintf(why, SCENARIO_WHY_BYTES, "instance %s ended by itself (status %d)", scenario->instances[i].name,
			         status);
			b->instances[i].pid = 0;
			close(b->instances[i].output);
			scenario->instances[i].url[0] = '\0';
			return false;
		}
	}
	return audit(b, why);
}

static void stop_at(void *context, size_t instance, const char *point)
{
	desk_stop_at(((struct bench *)context)->desk, instance, point);
}

static bool reached(void *context, size_t instance, const char *point)
{
	return desk_reached(((struct bench *)context)->desk, instance, point);
}

static void go_on(void *context, size_t instance, const char *point)
{
	desk_go_on(((struct bench *)context)->desk, instance, point);
}

const struct scenario_bench bench_language = {
	.verbs = bench_verbs,
	.begin = permutation_begin,
	.end = permutation_end,
	.stop_at = stop_at,
	.reached = reached,
	.go_on = go_on,
};

/* --- playing ------------------------------------------------------------------------------------------------------ */

static void show_log(const struct bench *b, size_t index)
{
	char path[120], line[600];
	snprintf(path, sizeof path, "%s/log", b->instances[index].directory);
	FILE *log = fopen(path, "r");
	fprintf(stderr, "--- log of instance %s\n", b->scenario->instances[index].name);
	while (log && fgets(line, sizeof line, log))
		fputs(line, stderr);
	if (log)
		fclose(log);
}

bool bench_play(const char *path)
{
	char why[SCENARIO_WHY_BYTES];
	struct scenario *scenario = scenario_read(path, &bench_language, why);
	if (!scenario) {
		fprintf(stderr, "%s\n", why);
		return false;
	}
	struct bench *b = calloc(1, sizeof *b);
	CHECK(b);
	bench_make(b, scenario);
	struct scenario_run run = {.options = &b->options, .scenario = scenario};
	bool good = scenario_play(&run);
	if (!good || getenv("LASTUNIT_SPEC_VERBOSE"))
		fprintf(stderr, "%s\n%.*s", scenario->title, (int)run.narration.size, run.narration.data);
	if (!good) {
		fprintf(stderr, "  %s\n", run.why);
		for (size_t i = 0; i < scenario->instance_count; i++)
			show_log(b, i);
	}
	scenario_run_done(&run);
	bench_unmake(b);
	free(b);
	scenario_free(scenario);
	return good;
}
