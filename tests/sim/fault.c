/* The faults of the stage: how each begins and ends, and when.
 *
 * Failure modes: a fault that finds nothing to harm (its instance is dead, its Redis stopped by another) does not begin.
 */
#include "sim/stage_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/script.h"

#define READY_MS 30000                          /* and must serve by then, once all is calm */
#define NEVER "\x01 no message of anybody \x02" /* the needle of a rule that is over */

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
	stage_kill(stage, x);
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
	stage_resume(stage, instance_of(stage, f));
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

void stage_remove_dump(struct stage *stage)
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
	stage_remove_dump(stage);
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
	stage_remove_dump(stage);
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
	{PROXY_TO_SERVER, TEXT_OF("EXEC"), PROXY_HOLD},
	{PROXY_TO_SERVER, TEXT_OF("EXEC"), PROXY_CUT_AFTER_ANSWER},
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
		stage_give_up("/proc: %s", strerror(errno));
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
	stage->flush = stage_spawn(stage, arguments, "flush.log", -1);
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
		stage_note_outage(stage, HISTORY_FAULT, -1, f->begun_ns);
}

static void end_others(struct stage *stage, enum fault_kind kind)
{
	for (int i = 0; i < stage->plan->fault_count; i++)
		if (stage->faults[i].begun && !stage->faults[i].over && stage->faults[i].fault->kind == kind)
			fault_end(stage, &stage->faults[i]);
}

void stage_turn(struct stage *stage)
{
	stage_give_way();
	stage_instances_turn(stage);
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
		stage_give_way();
		stage_instances_turn(stage);
		if (stage_now_ns() > until_ns)
			stage_give_up("an instance did not serve %d s after the last fault; see %s", READY_MS / 1000,
			              stage->directory);
		usleep(2000);
	}
}
