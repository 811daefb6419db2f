/* The stage (stage.h). Happy path: servers once, a database and two instances per run; each turn reaps, starts again
 * what died, and begins and ends the faults whose time has come.
 *
 * Failure modes: an instance that ends without having been ended is complained of; one that cannot reach PostgreSQL at
 * its start (exit code 3) is started again. Whatever else goes wrong here ends the program with a sentence.
 */
#include "sim/stage.h"

#include <arpa/inet.h>
#include <dirent.h>
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

#include "cache/script.h"

#define MS INT64_C(1000000)
#define AGAIN_MS 50    /* an instance that could not start is tried again after this */
#define READY_MS 30000 /* and must serve by then, once all is calm */
#define ARGUMENTS_MAX 40
#define NEVER "\x01 no message of anybody \x02" /* the needle of a rule that is over */

int64_t stage_now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 * MS + now.tv_nsec;
}

static _Noreturn __attribute__((format(printf, 1, 2))) void give_up(const char *format, ...)
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

static void give_way(void)
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

static void note_outage(struct stage *stage, enum history_outage_kind kind, int instance, int64_t from_ns)
{
	if (stage->outage_count == STAGE_OUTAGES_MAX)
		give_up("more than %d outages", STAGE_OUTAGES_MAX);
	stage->outages[stage->outage_count++] = (struct history_outage){kind, instance, from_ns, stage_now_ns()};
}

/* --- processes ---------------------------------------------------------------------------------------------------- */

/* Runs the binary; its stderr is appended to this file, its stdout too unless it gets a descriptor. */
static pid_t spawn(const struct stage *stage, const char *const *arguments, const char *log, int output)
{
	char path[160];
	const char *argv[ARGUMENTS_MAX + 2] = {"lastunit"};
	for (size_t i = 0; arguments[i]; i++)
		argv[i + 1] = arguments[i];
	snprintf(path, sizeof path, "%s/%s", stage->directory, log);
	pid_t parent = getpid(), pid = fork();
	if (pid < 0)
		give_up("fork: %s", strerror(errno));
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
		give_up("pipe: %s", strerror(errno));
	if (x->output >= 0)
		close(x->output);
	x->pid = spawn(stage, arguments, log, ends[1]);
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
	note_outage(stage, HISTORY_DEAD, (int)(x - stage->instances), x->dead_since_ns);
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

static void instance_resume(struct stage *stage, struct stage_instance *x)
{
	if (!x->stopped)
		return;
	x->stopped = false;
	kill(x->pid, SIGCONT);
	note_outage(stage, HISTORY_STOPPED, (int)(x - stage->instances), x->stopped_since_ns);
}

static void instance_kill(struct stage *stage, struct stage_instance *x)
{
	bool served = x->ready;
	int64_t now_ns = stage_now_ns();
	x->doomed = true;
	kill(x->pid, SIGKILL);
	instance_resume(stage, x);
	while (waitpid(x->pid, NULL, 0) < 0 && errno == EINTR)
		;
	x->pid = 0;
	x->ready = false;
	if (served)
		x->dead_since_ns = now_ns;
}

static void instances_turn(struct stage *stage)
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

/* --- faults: how each begins and ends ------------------------------------------------------------------------------- */

static struct stage_instance *instance_of(struct stage *stage, const struct stage_fault *f)
{
	return &stage->instances[f->fault->instance];
}

static void end_others(struct stage *stage, enum fault_kind kind);

static bool kill_begin(struct stage *stage, struct stage_fault *f)
{
	struct stage_instance *x = instance_of(stage, f);
	if (!x->pid)
		return false;
	instance_kill(stage, x);
	x->down = true;
	return true;
}

static void kill_end(struct stage *stage, struct stage_fault *f)
{
	instance_of(stage, f)->down = false;
}

static bool stop_begin(struct stage *stage, struct stage_fault *f)
{
	struct stage_instance *x = instance_of(stage, f);
	if (!x->ready || x->stopped)
		return false;
	x->stopped_since_ns = stage_now_ns();
	x->stopped = true;
	kill(x->pid, SIGSTOP);
	return true;
}

static void stop_end(struct stage *stage, struct stage_fault *f)
{
	instance_resume(stage, instance_of(stage, f));
}

static void redis_say(struct stage *stage, const char *line)
{
	if (!stage->redis.pid)
		return;
	end_others(stage, FAULT_REDIS_STOP);
	free(redis_server_command(&stage->redis, line));
}

static bool redis_stop_begin(struct stage *stage, struct stage_fault *f)
{
	if (!stage->redis.pid || stage->redis_stopped)
		return false;
	redis_server_pause(&stage->redis);
	stage->redis_stopped = true;
	return true;
}

static void redis_stop_end(struct stage *stage, struct stage_fault *f)
{
	if (stage->redis_stopped)
		redis_server_resume(&stage->redis);
	stage->redis_stopped = false;
}

static void remove_dump(struct stage *stage)
{
	char path[96];
	snprintf(path, sizeof path, "%s/dump.rdb", stage->redis.directory);
	unlink(path);
}

static bool redis_restart_begin(struct stage *stage, struct stage_fault *f)
{
	if (!stage->redis.pid)
		return false;
	end_others(stage, FAULT_REDIS_STOP);
	redis_server_kill(&stage->redis);
	remove_dump(stage);
	return true;
}

static void redis_restart_end(struct stage *stage, struct stage_fault *f)
{
	redis_server_restart(&stage->redis);
}

/* Saved when the fault begins, restored when it ends: with whatever was a value then. */
static bool redis_dump_begin(struct stage *stage, struct stage_fault *f)
{
	redis_say(stage, "SAVE");
	return stage->redis.pid != 0;
}

static void redis_dump_end(struct stage *stage, struct stage_fault *f)
{
	if (!stage->redis.pid)
		return; /* down just now: it comes back empty */
	end_others(stage, FAULT_REDIS_STOP);
	redis_server_restart(&stage->redis);
	remove_dump(stage);
}

static bool redis_flush_begin(struct stage *stage, struct stage_fault *f)
{
	redis_say(stage, "FLUSHALL");
	return true;
}

static bool redis_clients_begin(struct stage *stage, struct stage_fault *f)
{
	redis_say(stage, "CLIENT KILL TYPE normal");
	return true;
}

static bool redis_full_begin(struct stage *stage, struct stage_fault *f)
{
	redis_say(stage, "CONFIG SET maxmemory 1");
	return true;
}

static bool redis_evict_begin(struct stage *stage, struct stage_fault *f)
{
	redis_say(stage, "CONFIG SET maxmemory-policy volatile-random");
	redis_say(stage, "CONFIG SET maxmemory 1");
	return true;
}

static void redis_memory_end(struct stage *stage, struct stage_fault *f)
{
	redis_say(stage, "CONFIG SET maxmemory 0");
	redis_say(stage, "CONFIG SET maxmemory-policy noeviction");
}

static void nothing(struct stage *stage, struct stage_fault *f) {}

static struct proxy *proxy_of(struct stage *stage, const struct stage_fault *f, bool redis)
{
	struct stage_instance *x = instance_of(stage, f);
	return redis ? &x->redis : &x->postgres;
}

/* Cut once, or cut and refused until the end. */
static bool redis_cut_begin(struct stage *stage, struct stage_fault *f)
{
	proxy_cut_all(proxy_of(stage, f, true), f->fault->for_ms > 0);
	return true;
}

static void redis_cut_end(struct stage *stage, struct stage_fault *f)
{
	proxy_cut_all(proxy_of(stage, f, true), false);
}

static bool pg_cut_begin(struct stage *stage, struct stage_fault *f)
{
	proxy_cut_all(proxy_of(stage, f, false), f->fault->for_ms > 0);
	return true;
}

static void pg_cut_end(struct stage *stage, struct stage_fault *f)
{
	proxy_cut_all(proxy_of(stage, f, false), false);
}

/* A message that a rule of the proxy waits for. `script`: in place of a text, the name under which Redis runs it. */
struct message {
	enum proxy_direction direction;
	const char *text;
	int script;
	enum proxy_action action;
};

#define TEXT_OF(text) (text), -1
#define SCRIPT_OF(name) NULL, SCRIPT_##name

/* "V|" is in what publish and fill send, "F|" in what asks for a ticket and what pays with it. A fill that comes late is
 * the classic: it is here several times. */
static const struct message redis_messages[] = {
	{PROXY_TO_SERVER, TEXT_OF("V|"), PROXY_HOLD},
	{PROXY_TO_SERVER, TEXT_OF("V|"), PROXY_HOLD},
	{PROXY_TO_SERVER, TEXT_OF("V|"), PROXY_HOLD},
	{PROXY_TO_SERVER, TEXT_OF("V|"), PROXY_CUT_AFTER},
	{PROXY_TO_SERVER, SCRIPT_OF(CAS), PROXY_HOLD},
	{PROXY_TO_SERVER, TEXT_OF("F|"), PROXY_CUT_AFTER},
	{PROXY_TO_SERVER, SCRIPT_OF(INTEND), PROXY_HOLD},
	{PROXY_TO_SERVER, SCRIPT_OF(INTEND), PROXY_CUT_AFTER},
	{PROXY_TO_SERVER, SCRIPT_OF(INTEND), PROXY_CUT_BEFORE},
	{PROXY_TO_SERVER, SCRIPT_OF(PUBLISH), PROXY_HOLD},
	{PROXY_TO_SERVER, SCRIPT_OF(PUBLISH), PROXY_CUT_AFTER},
	{PROXY_TO_SERVER, SCRIPT_OF(PUBLISH), PROXY_CUT_BEFORE},
	{PROXY_TO_SERVER, SCRIPT_OF(READ), PROXY_HOLD},
	{PROXY_TO_SERVER, SCRIPT_OF(READ), PROXY_CUT_AFTER_ANSWER},
	{PROXY_TO_SERVER, SCRIPT_OF(INVALIDATE), PROXY_HOLD},
	{PROXY_TO_CLIENT, TEXT_OF("V|"), PROXY_HOLD},
	{PROXY_TO_CLIENT, TEXT_OF(""), PROXY_HOLD},
	{PROXY_TO_CLIENT, TEXT_OF(""), PROXY_CUT_BEFORE},
};

/* The byte before COMMIT is the length of that message: not a COMMIT within another text. */
static const struct message pg_messages[] = {
	{PROXY_TO_SERVER, TEXT_OF("\vCOMMIT"), PROXY_HOLD},
	{PROXY_TO_SERVER, TEXT_OF("\vCOMMIT"), PROXY_CUT_BEFORE},
	{PROXY_TO_SERVER, TEXT_OF("\vCOMMIT"), PROXY_CUT_AFTER},
	{PROXY_TO_SERVER, TEXT_OF("\vCOMMIT"), PROXY_CUT_AFTER_ANSWER},
	{PROXY_TO_CLIENT, TEXT_OF("COMMIT"), PROXY_HOLD},
	{PROXY_TO_CLIENT, TEXT_OF("COMMIT"), PROXY_CUT_BEFORE},
	{PROXY_TO_SERVER, TEXT_OF("ledger_insert"), PROXY_HOLD},
	{PROXY_TO_SERVER, TEXT_OF("idempotency_insert"), PROXY_HOLD},
	{PROXY_TO_SERVER, TEXT_OF("sku_lock"), PROXY_HOLD},
	{PROXY_TO_SERVER, TEXT_OF("sku_read"), PROXY_HOLD},
	{PROXY_TO_CLIENT, TEXT_OF(""), PROXY_HOLD},
	{PROXY_TO_CLIENT, TEXT_OF(""), PROXY_CUT_BEFORE},
};

static void message_begin(struct proxy *proxy, const struct message *m)
{
	proxy_when(proxy, m->direction, m->script >= 0 ? script_get((enum script_name)m->script)->sha : m->text, m->action);
}

static void message_end(struct proxy *proxy)
{
	proxy_when(proxy, PROXY_TO_SERVER, NEVER, PROXY_HOLD);
	proxy_release(proxy);
}

static bool redis_message_begin(struct stage *stage, struct stage_fault *f)
{
	size_t count = sizeof redis_messages / sizeof *redis_messages;
	message_begin(proxy_of(stage, f, true), &redis_messages[f->fault->choice % count]);
	return true;
}

static void redis_message_end(struct stage *stage, struct stage_fault *f)
{
	message_end(proxy_of(stage, f, true));
}

static bool pg_message_begin(struct stage *stage, struct stage_fault *f)
{
	size_t count = sizeof pg_messages / sizeof *pg_messages;
	message_begin(proxy_of(stage, f, false), &pg_messages[f->fault->choice % count]);
	return true;
}

static void pg_message_end(struct stage *stage, struct stage_fault *f)
{
	message_end(proxy_of(stage, f, false));
}

static bool delay_begin(struct stage *stage, struct stage_fault *f)
{
	proxy_delay(proxy_of(stage, f, f->fault->choice % 3 != 0), 500 + f->fault->choice / 3 % 8000);
	return true;
}

static void delay_end(struct stage *stage, struct stage_fault *f)
{
	proxy_delay(proxy_of(stage, f, f->fault->choice % 3 != 0), 0);
}

/* Where an instance is killed or stopped: a message of it is held, so that it is between this one and the next. */
static const struct crossing {
	bool redis;
	struct message message;
} crossings[] = {
	{false, {PROXY_TO_SERVER, TEXT_OF("\vCOMMIT"), PROXY_HOLD}}, /* marked, not committed */
	{false, {PROXY_TO_CLIENT, TEXT_OF("COMMIT"), PROXY_HOLD}},   /* committed, not known to be */
	{true, {PROXY_TO_SERVER, SCRIPT_OF(PUBLISH), PROXY_HOLD}},   /* committed, not published */
	{true, {PROXY_TO_SERVER, TEXT_OF("V|"), PROXY_HOLD}},        /* that, or selected and not filled */
	{true, {PROXY_TO_SERVER, SCRIPT_OF(CAS), PROXY_HOLD}},       /* no ticket, or selected and not filled */
	{true, {PROXY_TO_SERVER, SCRIPT_OF(INTEND), PROXY_HOLD}},
	{true, {PROXY_TO_SERVER, SCRIPT_OF(INVALIDATE), PROXY_HOLD}},
	{false, {PROXY_TO_SERVER, TEXT_OF("sku_read"), PROXY_HOLD}}, /* ticketed, not selected */
};

static const struct crossing *crossing_of(const struct stage_fault *f)
{
	return &crossings[f->fault->choice % (sizeof crossings / sizeof *crossings)];
}

static bool crossing_begin(struct stage *stage, struct stage_fault *f)
{
	const struct crossing *c = crossing_of(f);
	struct proxy *proxy = proxy_of(stage, f, c->redis);
	if (!instance_of(stage, f)->ready)
		return false;
	f->matches = proxy_matches(proxy);
	message_begin(proxy, &c->message);
	return true;
}

/* Looks whether the message has come. Half of them then go on to where they were sent, the others with the end of the
 * fault: what a dead man sent still arrives. */
static void crossing_turn(struct stage *stage, struct stage_fault *f)
{
	struct proxy *proxy = proxy_of(stage, f, crossing_of(f)->redis);
	struct stage_instance *x = instance_of(stage, f);
	if (f->matches == proxy_matches(proxy) || f->struck || !x->ready)
		return;
	f->struck = true;
	if (f->fault->kind == FAULT_MESSAGE_KILL)
		(void)kill_begin(stage, f);
	else
		f->struck = stop_begin(stage, f);
	if (f->fault->choice & (1u << 20))
		proxy_release(proxy);
}

static void crossing_end(struct stage *stage, struct stage_fault *f)
{
	message_end(proxy_of(stage, f, crossing_of(f)->redis));
	if (f->struck && f->fault->kind == FAULT_MESSAGE_KILL)
		kill_end(stage, f);
	else if (f->struck)
		stop_end(stage, f);
}

/* The session of an instance, by choice; 0: there is none. */
static pid_t find_backend(const struct stage *stage, unsigned choice)
{
	pid_t found[128];
	size_t count = 0;
	DIR *proc = opendir("/proc");
	if (!proc)
		give_up("/proc: %s", strerror(errno));
	for (struct dirent *entry; (entry = readdir(proc)) && count < 128;) {
		char path[300], text[512] = "", *after;
		pid_t pid = atoi(entry->d_name), parent = 0;
		if (pid <= 0)
			continue;
		snprintf(path, sizeof path, "/proc/%d/stat", pid);
		int file = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t size = file >= 0 ? read(file, text, sizeof text - 1) : 0;
		if (file >= 0)
			close(file);
		if (size <= 0 || !(after = strrchr(text, ')')) || sscanf(after + 2, "%*c %d", &parent) != 1 ||
		    parent != stage->pg.pid)
			continue;
		snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
		file = open(path, O_RDONLY | O_CLOEXEC);
		size = file >= 0 ? read(file, text, sizeof text - 1) : 0;
		if (file >= 0)
			close(file);
		if (size > 0 && strncmp(text, "postgres: lastunit ", 19) == 0)
			found[count++] = pid;
	}
	closedir(proc);
	return count ? found[choice % count] : 0;
}

static bool pg_stop_begin(struct stage *stage, struct stage_fault *f)
{
	f->backend = stage->pg.pid ? find_backend(stage, f->fault->choice) : 0;
	if (f->backend)
		pg_server_pause(f->backend);
	return f->backend != 0;
}

static void pg_stop_end(struct stage *stage, struct stage_fault *f)
{
	pg_server_resume(f->backend);
}

static bool pg_restart_begin(struct stage *stage, struct stage_fault *f)
{
	if (!stage->pg.pid)
		return false;
	end_others(stage, FAULT_PG_STOP); /* the postmaster waits for its children */
	pg_server_stop(&stage->pg, PG_SERVER_IMMEDIATE);
	return true;
}

static void pg_restart_end(struct stage *stage, struct stage_fault *f)
{
	pg_server_restart(&stage->pg, PG_SERVER_IMMEDIATE);
}

static bool row_lock_begin(struct stage *stage, struct stage_fault *f)
{
	atomic_store(&stage->lock_choice, f->fault->choice);
	atomic_store(&stage->lock_until_ns, stage_now_ns() + f->fault->for_ms * MS);
	return true;
}

static bool close_begin(struct stage *stage, struct stage_fault *f)
{
	char lease[24];
	if (stage->flush)
		return false;
	snprintf(lease, sizeof lease, "%d", stage->plan->lease_ms);
	const char *arguments[] = {"flush", "--database-url", stage->url, "--lease-ms", lease, NULL};
	stage->flush = spawn(stage, arguments, "flush.log", -1);
	return true;
}

/* `begin` says whether there was anything to break. */
static const struct {
	bool (*begin)(struct stage *stage, struct stage_fault *f);
	void (*end)(struct stage *stage, struct stage_fault *f);
} acts[FAULT_KINDS] = {
	[FAULT_MESSAGE_KILL] = {crossing_begin, crossing_end},
	[FAULT_MESSAGE_STOP] = {crossing_begin, crossing_end},
	[FAULT_DELAY] = {delay_begin, delay_end},
	[FAULT_KILL] = {kill_begin, kill_end},
	[FAULT_STOP] = {stop_begin, stop_end},
	[FAULT_REDIS_STOP] = {redis_stop_begin, redis_stop_end},
	[FAULT_REDIS_CUT] = {redis_cut_begin, redis_cut_end},
	[FAULT_REDIS_MESSAGE] = {redis_message_begin, redis_message_end},
	[FAULT_REDIS_RESTART] = {redis_restart_begin, redis_restart_end},
	[FAULT_REDIS_DUMP] = {redis_dump_begin, redis_dump_end},
	[FAULT_REDIS_FLUSH] = {redis_flush_begin, nothing},
	[FAULT_REDIS_CLIENTS] = {redis_clients_begin, nothing},
	[FAULT_REDIS_FULL] = {redis_full_begin, redis_memory_end},
	[FAULT_REDIS_EVICT] = {redis_evict_begin, redis_memory_end},
	[FAULT_PG_STOP] = {pg_stop_begin, pg_stop_end},
	[FAULT_PG_CUT] = {pg_cut_begin, pg_cut_end},
	[FAULT_PG_MESSAGE] = {pg_message_begin, pg_message_end},
	[FAULT_PG_RESTART] = {pg_restart_begin, pg_restart_end},
	[FAULT_ROW_LOCK] = {row_lock_begin, nothing},
	[FAULT_CLOSE] = {close_begin, nothing},
};

static void fault_end(struct stage *stage, struct stage_fault *f)
{
	f->over = true;
	acts[f->fault->kind].end(stage, f);
	/* Row locks keep nobody from being told of strangers' writes. */
	if (f->fault->kind != FAULT_ROW_LOCK)
		note_outage(stage, HISTORY_FAULT, -1, f->begun_ns);
}

static void end_others(struct stage *stage, enum fault_kind kind)
{
	for (int i = 0; i < stage->plan->fault_count; i++)
		if (stage->faults[i].begun && !stage->faults[i].over && stage->faults[i].fault->kind == kind)
			fault_end(stage, &stage->faults[i]);
}

void stage_turn(struct stage *stage)
{
	give_way();
	instances_turn(stage);
	int64_t now_ms = (stage_now_ns() - stage->origin_ns) / MS;
	for (int i = 0; i < stage->plan->fault_count; i++) {
		struct stage_fault *f = &stage->faults[i];
		if (f->begun && !f->over && (f->fault->kind == FAULT_MESSAGE_KILL || f->fault->kind == FAULT_MESSAGE_STOP))
			crossing_turn(stage, f);
		if (f->begun && !f->over && now_ms >= f->fault->at_ms + f->fault->for_ms)
			fault_end(stage, f);
		if (f->begun || now_ms < f->fault->at_ms)
			continue;
		f->begun = true;
		f->begun_ns = stage_now_ns();
		f->over = !acts[f->fault->kind].begin(stage, f);
	}
}

void stage_calm(struct stage *stage)
{
	for (int i = 0; i < stage->plan->fault_count; i++) {
		struct stage_fault *f = &stage->faults[i];
		f->begun |= f->over;
		if (f->begun && !f->over)
			fault_end(stage, f);
		f->begun = f->over = true;
	}
	atomic_store(&stage->lock_until_ns, 0);
	int64_t until_ns = stage_now_ns() + READY_MS * MS;
	while (!stage_serves(stage)) {
		give_way();
		instances_turn(stage);
		if (stage_now_ns() > until_ns)
			give_up("an instance did not serve %d s after the last fault; see %s", READY_MS / 1000, stage->directory);
		usleep(2000);
	}
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

/* Below the range of which the kernel gives clients' connections their ports: while an instance is dead, nobody takes its. */
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
	give_up("no free port");
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
			give_up("%s: %s", x->directory, strerror(errno));
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
	remove_dump(stage);
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
			give_up("waitpid: %s", strerror(errno));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool stage_audit(struct stage *stage)
{
	char redis[128];
	snprintf(redis, sizeof redis, "unix://%s", stage->redis.socket);
	const char *arguments[] = {"audit", "--database-url", stage->url, "--redis-url", redis, NULL};
	return wait_for(spawn(stage, arguments, "audit", -1)) == 0;
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
