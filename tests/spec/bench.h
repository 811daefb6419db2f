/* The bench of a scenario: servers, instances and wires of its own, and the verbs that only a bench has.
 *
 *	PostgreSQL ──── wire ──┬── instance a ── its sync points ── desk
 *	Redis ───────── wire ──┘
 *	PostgreSQL ──── wire ───── the scenario's own SQL
 *
 * Each scenario has a new database and a new Redis; PostgreSQL itself is shared by all that do not break it. Between two
 * permutations of one file everything that was killed, stopped, unplugged or paused is put right. Thread: the test's.
 */
#ifndef SPEC_BENCH_H
#define SPEC_BENCH_H

#include "cmd/scenario.h"
#include "lib/pg_server.h"
#include "lib/redis_server.h"
#include "spec/desk.h"
#include "spec/wire.h"

struct bench_instance {
	pid_t pid; /* 0: it does not run */
	int output;
	bool paused;
	size_t postgres, redis; /* its links */
	char directory[80];
	const char *database_url, *redis_url;
};

struct bench {
	struct scenario *scenario;
	struct scenario_options options;
	struct scenario_bench language; /* bench_language, with this bench as its context */
	struct redis_address redis_address;
	struct pg_server *pg; /* shared_pg, or own_pg */
	struct pg_server own_pg, standby;
	struct redis_server redis, twin; /* twin: a second Redis */
	bool redis_paused, has_twin, has_standby;
	struct wire *wire;
	struct desk *desk;
	size_t world; /* the link of the scenario's SQL */
	char directory[64], database[64], keys[SCENARIO_CHANNELS + 1][40];
	struct bench_instance instances[SCENARIO_INSTANCES_MAX];
	int64_t deadlocks_before;
};

/* The PostgreSQL that all share, with its template database. */
void bench_servers_start(void);
void bench_servers_stop(void);
extern const struct scenario_bench bench_language;

/* Starts what the scenario needs and plays it; prints the narration when it fails. True: it went as it should. */
bool bench_play(const char *path);

/* --- for the verbs (bench_verbs.c) -------------------------------------------------------------------------------- */

extern const struct scenario_verb bench_verbs[];
/* The bench under the run that a call belongs to. */
struct bench *bench_of(const struct scenario_call *call);
size_t bench_index(const struct scenario_call *call, const struct scenario_instance *instance);
/* Starts it and waits until it serves. */
void bench_start(struct bench *bench, size_t index);
/* By a signal; waits. */
void bench_end_instance(struct bench *bench, size_t index, int signal);
bool bench_has_lease(const struct bench *bench, size_t index);
const char *bench_socket(const struct pg_server *pg);
/* Runs a program of PostgreSQL as the user the servers run as, with its output in the bench's
 * directory. False: it failed. */
bool bench_tool(struct bench *bench, const char *const *argv);
void bench_standby_start(struct bench *bench);
int64_t bench_deadlocks(const struct bench *bench);

#endif
