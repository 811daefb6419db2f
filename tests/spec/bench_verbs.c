/* The verbs that only a bench has: processes, wires, sync points, servers (bench.h; README.md teaches them).
 *
 * Happy path: read the words, do it, and return only when it is true: a killed process is gone, a started one serves, a
 * standby that is to lead leads. Failure modes: words that cannot be read are found when the file is checked.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "spec/bench.h"

#define POLL_MS 3

/* Waits until a condition of the test's own servers is true; they are given time enough. */
#define WAIT_UNTIL(call, condition, what)                                                       \
	for (int64_t until_ns = deadline_in_ms((call)->run->options->patience_ms); !(condition);) { \
		if (clock_boottime_ns() > until_ns)                                                     \
			return scenario_wrong(call, "waited in vain: %s", what);                            \
		clock_sleep_until(deadline_in_ms(POLL_MS));                                             \
	}

/* --- processes ---------------------------------------------------------------------------------------------------- */

enum target { REDIS, POSTGRES, INSTANCE };

/* "redis", "postgres" or an instance. */
static bool target_read(struct scenario_call *call, enum target *ret_target, struct scenario_instance **ret_instance)
{
	*ret_target = scenario_take(call, "redis") ? REDIS : scenario_take(call, "postgres") ? POSTGRES : INSTANCE;
	if (*ret_target == INSTANCE && !(*ret_instance = scenario_instance(call, scenario_word(call))))
		return false;
	return scenario_end(call);
}

static bool postgres_is_ours(struct scenario_call *call)
{
	return strstr(call->scenario->needs ? call->scenario->needs : "", "a PostgreSQL of its own") ||
	       strstr(call->scenario->needs ? call->scenario->needs : "", "a standby") ||
	       scenario_wrong(call, "others use this PostgreSQL: `needs a bench with a PostgreSQL of its own`");
}

static bool verb_kill(struct scenario_call *call)
{
	enum target target;
	struct scenario_instance *instance;
	if (!target_read(call, &target, &instance) || (target == POSTGRES && !postgres_is_ours(call)))
		return false;
	if (call->only_check)
		return true;
	struct bench *b = bench_of(call);
	if (target == REDIS)
		redis_server_kill(&b->redis);
	else if (target == POSTGRES)
		pg_server_stop(b->pg, PG_SERVER_IMMEDIATE);
	else
		bench_end_instance(b, bench_index(call, instance), SIGKILL);
	return true;
}

static bool verb_stop(struct scenario_call *call)
{
	enum target target;
	struct scenario_instance *instance;
	if (!target_read(call, &target, &instance) || (target == POSTGRES && !postgres_is_ours(call)))
		return false;
	if (target == REDIS)
		return scenario_wrong(call, "Redis is killed");
	if (call->only_check)
		return true;
	struct bench *b = bench_of(call);
	if (target == POSTGRES)
		pg_server_stop(b->pg, PG_SERVER_FAST);
	else
		bench_end_instance(b, bench_index(call, instance), SIGTERM);
	return true;
}

static bool verb_start(struct scenario_call *call)
{
	enum target target;
	struct scenario_instance *instance;
	if (!target_read(call, &target, &instance))
		return false;
	if (call->only_check)
		return true;
	struct bench *b = bench_of(call);
	if (target == REDIS)
		redis_server_restart(&b->redis);
	else if (target == POSTGRES)
		pg_server_restart(b->pg, PG_SERVER_FAST);
	else
		bench_start(b, bench_index(call, instance));
	return true;
}

/* SIGSTOP and SIGCONT: the process is there, its connections are, nothing moves. */
static bool pause_or_resume(struct scenario_call *call, bool pause)
{
	enum target target;
	struct scenario_instance *instance;
	if (!target_read(call, &target, &instance))
		return false;
	if (target == POSTGRES)
		return scenario_wrong(call, "mute postgres of an instance instead");
	if (call->only_check)
		return true;
	struct bench *b = bench_of(call);
	if (target == REDIS) {
		if (pause)
			redis_server_pause(&b->redis);
		else
			redis_server_resume(&b->redis);
		b->redis_paused = pause;
		return true;
	}
	struct bench_instance *i = &b->instances[bench_index(call, instance)];
	int status;
	kill(i->pid, pause ? SIGSTOP : SIGCONT);
	while (waitpid(i->pid, &status, pause ? WUNTRACED : WCONTINUED) < 0)
		continue;
	i->paused = pause;
	return true;
}

static bool verb_pause(struct scenario_call *call)
{
	return pause_or_resume(call, true);
}

static bool verb_resume(struct scenario_call *call)
{
	return pause_or_resume(call, false);
}

/* --- wires -------------------------------------------------------------------------------------------------------- */

/* What a message is called in a scenario, on which wire it travels, and what the wire calls it. */
static const struct {
	const char *name;
	enum wire_kind kind;
	const char *wire_name;
} messages[] = {
	{"read", WIRE_REDIS, "read"},
	{"ticket", WIRE_REDIS, "ticket"},
	{"fill", WIRE_REDIS, "fill"},
	{"intend", WIRE_REDIS, "intend"},
	{"publish", WIRE_REDIS, "publish"},
	{"invalidate", WIRE_REDIS, "invalidate"},
	{"multi", WIRE_REDIS, "multi"},
	{"commit", WIRE_POSTGRES, "commit"},
	{"lock", WIRE_POSTGRES, "sku_lock"},
	{"select", WIRE_POSTGRES, "sku_read"},
	{"update", WIRE_POSTGRES, "sku_update"},
	{"lease", WIRE_POSTGRES, "epoch_lease_read"},
	{"closing", WIRE_POSTGRES, "epoch_close"},
	{"closed", WIRE_POSTGRES, "epoch_closed"},
	{"opening", WIRE_POSTGRES, "epoch_open"},
};

struct message {
	const char *name;
	bool answer;
	size_t link;
	struct scenario_instance *instance;
};

/* "[answer to] MESSAGE from INSTANCE" */
static bool message_read(struct scenario_call *call, struct message *ret)
{
	*ret = (struct message){0};
	if (scenario_take(call, "answer"))
		ret->answer = scenario_take(call, "to");
	const char *word = scenario_word(call);
	size_t i = 0, count = sizeof messages / sizeof *messages;
	while (i < count && strcmp(messages[i].name, word) != 0)
		i++;
	if (i == count)
		return scenario_wrong(call, "no message is called \"%s\"", word);
	ret->name = messages[i].wire_name;
	if (!scenario_take(call, "from") || !(ret->instance = scenario_instance(call, scenario_word(call))))
		return scenario_wrong(call, "\"%s from INSTANCE\"", word);
	if (!call->only_check) {
		const struct bench_instance *instance = &bench_of(call)->instances[bench_index(call, ret->instance)];
		ret->link = messages[i].kind == WIRE_REDIS ? instance->redis : instance->postgres;
	}
	return true;
}

static bool rule(struct scenario_call *call, enum wire_action action)
{
	struct message m;
	int64_t ms = 0;
	const char *text = NULL;
	if (!message_read(call, &m))
		return false;
	if (m.answer && (action == WIRE_COPY || action == WIRE_TURN))
		return scenario_wrong(call, "an answer cannot be copied or changed");
	if (action == WIRE_DELAY && !(scenario_take(call, "by") && scenario_int(call, &ms) && scenario_take(call, "ms")))
		return scenario_wrong(call, "\"delay %s from a by 50 ms\"", m.name);
	if (action == WIRE_TURN && !(scenario_take(call, "into") && *(text = scenario_word(call))))
		return scenario_wrong(call, "\"turn commit from a into ROLLBACK\"");
	if (!scenario_end(call))
		return false;
	if (!call->only_check)
		wire_rule(bench_of(call)->wire, m.link, m.name, m.answer, action, text, ms);
	return true;
}

static bool verb_hold(struct scenario_call *call)
{
	return rule(call, WIRE_HOLD);
}

static bool verb_delay(struct scenario_call *call)
{
	return rule(call, WIRE_DELAY);
}

static bool verb_lose(struct scenario_call *call)
{
	return rule(call, WIRE_LOSE);
}

static bool verb_cut(struct scenario_call *call)
{
	return rule(call, WIRE_CUT);
}

static bool verb_copy(struct scenario_call *call)
{
	return rule(call, WIRE_COPY);
}

static bool verb_turn(struct scenario_call *call)
{
	return rule(call, WIRE_TURN);
}

/* await [answer to] MESSAGE from INSTANCE: the rule has met it. */
static bool verb_await(struct scenario_call *call)
{
	struct message m;
	if (!message_read(call, &m) || !scenario_end(call) || call->only_check)
		return call->only_check && !*call->why;
	WAIT_UNTIL(call, wire_met(bench_of(call)->wire, m.link, m.name, m.answer), "it did not come");
	return true;
}

static bool verb_deliver(struct scenario_call *call)
{
	struct message m;
	if (!message_read(call, &m) || !scenario_end(call) || call->only_check)
		return call->only_check && !*call->why;
	WAIT_UNTIL(call, wire_met(bench_of(call)->wire, m.link, m.name, m.answer), "it did not come");
	/* An answer whose receiver has closed meanwhile is delivered to nobody. */
	return wire_deliver(bench_of(call)->wire, m.link, m.name, m.answer) || m.answer ||
	       scenario_wrong(call, "nothing was held or copied");
}

/* "redis of INSTANCE" or "postgres of INSTANCE" */
static bool link_read(struct scenario_call *call, size_t *ret_link)
{
	bool redis = scenario_take(call, "redis");
	if ((!redis && !scenario_take(call, "postgres")) || !scenario_take(call, "of"))
		return scenario_wrong(call, "`%s redis of a` or `%s postgres of a`", call->line->verb->name,
		                      call->line->verb->name);
	const struct scenario_instance *instance = scenario_instance(call, scenario_word(call));
	if (!instance || !scenario_end(call))
		return false;
	if (!call->only_check) {
		const struct bench_instance *i = &bench_of(call)->instances[bench_index(call, instance)];
		*ret_link = redis ? i->redis : i->postgres;
	}
	return true;
}

static bool verb_unplug(struct scenario_call *call)
{
	size_t link = 0;
	if (!link_read(call, &link))
		return false;
	if (!call->only_check)
		wire_plug(bench_of(call)->wire, link, false);
	return true;
}

static bool verb_plug(struct scenario_call *call)
{
	size_t link = 0;
	if (!link_read(call, &link))
		return false;
	if (!call->only_check)
		wire_plug(bench_of(call)->wire, link, true);
	return true;
}

static bool verb_mute(struct scenario_call *call)
{
	size_t link = 0;
	if (!link_read(call, &link))
		return false;
	if (!call->only_check)
		wire_mute(bench_of(call)->wire, link, true);
	return true;
}

static bool verb_unmute(struct scenario_call *call)
{
	size_t link = 0;
	if (!link_read(call, &link))
		return false;
	if (!call->only_check)
		wire_mute(bench_of(call)->wire, link, false);
	return true;
}

/* --- sync points, for threads that no session sent ---------------------------------------------------------------- */

static bool point_read(struct scenario_call *call, size_t *ret_instance, const char **ret_point)
{
	const struct scenario_instance *instance = scenario_instance(call, scenario_word(call));
	if (!instance)
		return false;
	*ret_instance = bench_index(call, instance);
	if (!scenario_take(call, "at"))
		return scenario_wrong(call, "`%s a at POINT`", call->line->verb->name);
	*ret_point = scenario_word(call);
	return (**ret_point || scenario_wrong(call, "at which point?")) && scenario_end(call);
}

static bool verb_halt(struct scenario_call *call)
{
	size_t instance;
	const char *point;
	if (!point_read(call, &instance, &point))
		return false;
	if (!call->only_check)
		desk_stop_at(bench_of(call)->desk, instance, point);
	return true;
}

static bool verb_stands(struct scenario_call *call)
{
	size_t instance;
	const char *point;
	if (!point_read(call, &instance, &point) || call->only_check)
		return call->only_check && !*call->why;
	WAIT_UNTIL(call, desk_reached(bench_of(call)->desk, instance, point), "nobody came there");
	return true;
}

static bool verb_free(struct scenario_call *call)
{
	size_t instance;
	const char *point;
	if (!point_read(call, &instance, &point))
		return false;
	if (!call->only_check)
		desk_go_on(bench_of(call)->desk, instance, point);
	return true;
}

/* --- looks -------------------------------------------------------------------------------------------------------- */

/* lease of b = yes */
static bool verb_lease(struct scenario_call *call)
{
	if (!scenario_take(call, "of"))
		return scenario_wrong(call, "`lease of a = yes`");
	const struct scenario_instance *instance = scenario_instance(call, scenario_word(call));
	if (!instance || !scenario_take(call, "="))
		return instance && scenario_wrong(call, "`lease of a = yes`");
	bool yes = scenario_take(call, "yes");
	if ((!yes && !scenario_take(call, "no")) || call->only_check)
		return call->only_check || scenario_wrong(call, "yes or no");
	bool lease = bench_has_lease(bench_of(call), bench_index(call, instance));
	return lease == yes || scenario_wrong(call, "instance %s has %s lease", instance->name, lease ? "a" : "no");
}

/* metric outcome_unknown_total of a = 1 */
static bool verb_metric(struct scenario_call *call)
{
	char name[80], seen[40] = "nothing";
	const char *word = scenario_word(call);
	snprintf(name, sizeof name, "\nlastunit_%s ", word);
	if (!scenario_take(call, "of"))
		return scenario_wrong(call, "`metric NAME of a = 1`");
	const struct scenario_instance *instance = scenario_instance(call, scenario_word(call));
	if (!instance || !scenario_take(call, "="))
		return instance && scenario_wrong(call, "`metric NAME of a = 1`");
	if (call->only_check)
		return true;
	const char *expected = scenario_rest(call);
	struct http_caller *caller = http_caller_new(instance->url, 5000);
	struct http_answer answer = http_call(caller, "GET", "/metrics", (struct text){0}, NULL, NULL);
	const char *at = answer.status == 200 ? memmem(answer.body.data, answer.body.size, name, strlen(name)) : NULL;
	if (at)
		snprintf(seen, sizeof seen, "%lld", strtoll(at + strlen(name), NULL, 10));
	http_caller_free(caller);
	buffer_clear(&call->said);
	buffer_add_string(&call->said, seen);
	return scenario_matches(expected, seen) || scenario_wrong(call, "expected %s, it is %s", expected, seen);
}

/* deadlocks = 0: in PostgreSQL's log, since the permutation began. */
static bool verb_deadlocks(struct scenario_call *call)
{
	int64_t expected;
	if (!scenario_take(call, "=") || !scenario_int(call, &expected) || !scenario_end(call))
		return scenario_wrong(call, "`deadlocks = 0`");
	if (call->only_check)
		return true;
	struct bench *b = bench_of(call);
	int64_t seen = bench_deadlocks(b) - b->deadlocks_before;
	return seen == expected ||
	       scenario_wrong(call, "expected %lld, there were %lld", (long long)expected, (long long)seen);
}

/* --- Redis -------------------------------------------------------------------------------------------------------- */

static bool redis_says(struct redis_server *redis, const char *command, const char *part)
{
	char *answer = redis_server_command(redis, command);
	bool says = strstr(answer, part) != NULL;
	free(answer);
	return says;
}

static bool redis_follow(struct scenario_call *call, struct redis_server *follower, const struct redis_server *leader)
{
	char command[60];
	snprintf(command, sizeof command, "REPLICAOF 127.0.0.1 %d", leader->port);
	free(redis_server_command(follower, command));
	WAIT_UNTIL(call,
	           redis_says(follower, "INFO replication", "master_link_status:up") &&
	               redis_says(follower, "INFO replication", "master_sync_in_progress:0"),
	           "the replica did not catch up");
	return true;
}

static bool twin_is_there(struct scenario_call *call)
{
	return strstr(call->scenario->needs ? call->scenario->needs : "", "a second Redis") ||
	       scenario_wrong(call, "`needs a bench with a second Redis`");
}

/* The second Redis becomes what the first is at this moment, then stands alone. */
static bool verb_twin(struct scenario_call *call)
{
	if (!scenario_end(call) || !twin_is_there(call) || call->only_check)
		return call->only_check && !*call->why;
	struct bench *b = bench_of(call);
	if (!redis_follow(call, &b->twin, &b->redis))
		return false;
	free(redis_server_command(&b->twin, "REPLICAOF NO ONE"));
	return true;
}

/* REPLICAOF: on the same connections, another history. */
static bool verb_follow(struct scenario_call *call)
{
	if (!scenario_end(call) || !twin_is_there(call) || call->only_check)
		return call->only_check && !*call->why;
	struct bench *b = bench_of(call);
	return redis_follow(call, &b->redis, &b->twin);
}

/* BGSAVE fails as long as a directory stands where the dump belongs; then Redis refuses writes: MISCONF. */
static bool verb_break_saves(struct scenario_call *call)
{
	char path[90];
	if (!scenario_end(call) || call->only_check)
		return call->only_check && !*call->why;
	struct bench *b = bench_of(call);
	snprintf(path, sizeof path, "%s/dump.rdb", b->redis.directory);
	mkdir(path, 0700);
	free(redis_server_command(&b->redis, "BGSAVE"));
	WAIT_UNTIL(call, redis_says(&b->redis, "INFO persistence", "rdb_last_bgsave_status:err"), "BGSAVE did not fail");
	return true;
}

static bool verb_mend_saves(struct scenario_call *call)
{
	char path[90];
	if (!scenario_end(call) || call->only_check)
		return call->only_check && !*call->why;
	struct bench *b = bench_of(call);
	snprintf(path, sizeof path, "%s/dump.rdb", b->redis.directory);
	rmdir(path);
	free(redis_server_command(&b->redis, "BGSAVE"));
	WAIT_UNTIL(call, redis_says(&b->redis, "INFO persistence", "rdb_last_bgsave_status:ok"), "BGSAVE did not succeed");
	return true;
}

/* --- PostgreSQL --------------------------------------------------------------------------------------------------- */

static bool standby_is_there(struct scenario_call *call)
{
	return strstr(call->scenario->needs ? call->scenario->needs : "", "a standby") ||
	       scenario_wrong(call, "`needs a bench with a standby`");
}

/* It has all that was committed so far, and hears of nothing more. */
static bool verb_cut_standby(struct scenario_call *call)
{
	if (!scenario_end(call) || !standby_is_there(call) || call->only_check)
		return call->only_check && !*call->why;
	struct bench *b = bench_of(call);
	char lsn[40], sql[120];
	snprintf(lsn, sizeof lsn, "%s", pg_server_ask(b->pg->url, "SELECT pg_current_wal_flush_lsn()"));
	snprintf(sql, sizeof sql, "SELECT coalesce(pg_last_wal_replay_lsn() >= '%s', false)", lsn);
	WAIT_UNTIL(call, *pg_server_ask(b->standby.url, sql) == 't', "the standby did not catch up");
	pg_server_ask(b->standby.url, "ALTER SYSTEM SET primary_conninfo = ''");
	pg_server_ask(b->standby.url, "SELECT pg_reload_conf()");
	WAIT_UNTIL(call, *pg_server_ask(b->standby.url, "SELECT count(*) FROM pg_stat_wal_receiver") == '0',
	           "the standby still listens");
	return true;
}

static bool verb_promote(struct scenario_call *call)
{
	if (!scenario_take(call, "standby") || !scenario_end(call) || !standby_is_there(call) || call->only_check)
		return call->only_check && !*call->why;
	struct bench *b = bench_of(call);
	pg_server_ask(b->standby.url, "SELECT pg_promote()");
	WAIT_UNTIL(call, *pg_server_ask(b->standby.url, "SELECT pg_is_in_recovery()") == 'f', "it does not lead");
	return true;
}

/* point INSTANCE|world at standby|primary */
static bool verb_point(struct scenario_call *call)
{
	bool world = scenario_take(call, "world");
	const struct scenario_instance *instance = world ? NULL : scenario_instance(call, scenario_word(call));
	if ((!world && !instance) || !scenario_take(call, "at"))
		return scenario_wrong(call, "`point a at standby`");
	bool standby = scenario_take(call, "standby");
	if (!standby && !scenario_take(call, "primary"))
		return scenario_wrong(call, "at standby or at primary");
	if (!scenario_end(call) || !standby_is_there(call) || call->only_check)
		return call->only_check && !*call->why;
	struct bench *b = bench_of(call);
	wire_point(b->wire, world ? b->world : b->instances[bench_index(call, instance)].postgres,
	           bench_socket(standby ? &b->standby : b->pg));
	return true;
}

static const char *dump_path(const struct bench *b)
{
	static char path[100];
	snprintf(path, sizeof path, "%s/tables.sql", b->directory);
	return path;
}

/* With the extensions: some of ours live in the schema, and of one schema alone they are left out. */
static bool verb_dump(struct scenario_call *call)
{
	if (!scenario_take(call, "tables") || !scenario_end(call) || call->only_check)
		return call->only_check && !*call->why;
	struct bench *b = bench_of(call);
	return bench_tool(b, (const char *const[]){"pg_dump", "-h", b->pg->directory, "-U", "postgres", "-d", b->database,
	                                           "-n", "lastunit", "-e", "*", "-f", dump_path(b), NULL}) ||
	       scenario_wrong(call, "pg_dump failed");
}

/* In one transaction: as an administrator would put back last night's copy. */
static bool verb_restore(struct scenario_call *call)
{
	if (!scenario_take(call, "tables") || !scenario_end(call) || call->only_check)
		return call->only_check && !*call->why;
	struct bench *b = bench_of(call);
	return bench_tool(b, (const char *const[]){"psql", "-h", b->pg->directory, "-U", "postgres", "-d", b->database,
	                                           "-q", "-1", "-v", "ON_ERROR_STOP=1", "-c",
	                                           "DROP SCHEMA lastunit CASCADE", "-f", dump_path(b), NULL}) ||
	       scenario_wrong(call, "psql failed");
}

const struct scenario_verb bench_verbs[] = {
	{"kill", "kill a | redis | postgres", 0, verb_kill},
	{"stop", "stop a | postgres            in an orderly way", 0, verb_stop},
	{"start", "start a | redis | postgres", 0, verb_start},
	{"pause", "pause a | redis", 0, verb_pause},
	{"resume", "resume a | redis", 0, verb_resume},
	{"hold", "hold [answer to] intend from a", 0, verb_hold},
	{"delay", "delay [answer to] intend from a by 50 ms", 0, verb_delay},
	{"lose", "lose [answer to] intend from a", 0, verb_lose},
	{"cut", "cut [answer to] commit from a", 0, verb_cut},
	{"cut standby", "cut standby", 0, verb_cut_standby},
	{"copy", "copy publish from a", 0, verb_copy},
	{"turn", "turn commit from a into ROLLBACK", 0, verb_turn},
	{"await", "await [answer to] intend from a", 0, verb_await},
	{"deliver", "deliver [answer to] intend from a", 0, verb_deliver},
	{"unplug", "unplug redis of a", 0, verb_unplug},
	{"plug", "plug redis of a", 0, verb_plug},
	{"mute", "mute redis of a", 0, verb_mute},
	{"unmute", "unmute redis of a", 0, verb_unmute},
	{"halt", "halt a at relay-taken", 0, verb_halt},
	{"stands", "stands a at relay-taken", 0, verb_stands},
	{"free", "free a at relay-taken", 0, verb_free},
	{"lease", "lease of a = yes", 0, verb_lease},
	{"metric", "metric outcome_unknown_total of a = 1", 0, verb_metric},
	{"deadlocks", "deadlocks = 0", 0, verb_deadlocks},
	{"twin redis", "twin redis", 0, verb_twin},
	{"follow twin", "follow twin", 0, verb_follow},
	{"break saves", "break saves", 0, verb_break_saves},
	{"mend saves", "mend saves", 0, verb_mend_saves},
	{"promote", "promote standby", 0, verb_promote},
	{"point", "point a | world at standby | primary", 0, verb_point},
	{"dump", "dump tables", 0, verb_dump},
	{"restore", "restore tables", 0, verb_restore},
	{0},
};
