/* The stage: PostgreSQL, Redis and two instances of the real service, with a proxy on each of the four ways between
 * them, and the machinery that breaks them.
 *
 *	stage_open(&stage, binary, directory);               the servers, once per program
 *	stage_begin(&stage, &plan);                          a database, a Redis, two instances, serving
 *	… stage_turn(&stage) every few milliseconds …        faults begin and end, dead instances are started again
 *	stage_calm(&stage);                                  every fault ends
 *	stage_end(&stage);
 *
 * Thread: the main thread (processes die with the thread that started them). The addresses of the instances and the
 * URLs never change during a run: clients read them from any thread.
 */
#ifndef TESTS_SIM_STAGE_H
#define TESTS_SIM_STAGE_H

#include <stdatomic.h>
#include <sys/types.h>

#include "lib/pg_server.h"
#include "lib/proxy.h"
#include "lib/redis_server.h"
#include "sim/history.h"
#include "sim/plan.h"

#define STAGE_OUTAGES_MAX 512
#define STAGE_COMPLAINTS_MAX 20

struct stage_instance {
	pid_t pid;      /* 0: not running */
	int output;     /* its stdout, read up to `ready` */
	char line[256]; /* of that, what has come */
	bool ready, stopped;
	bool doomed; /* we ended it, or may not wonder if it ends */
	bool down;   /* it is not to be started again yet */
	int64_t dead_since_ns, stopped_since_ns, again_ns;
	char address[32];   /* "127.0.0.1:20123" */
	char directory[96]; /* of its proxies' sockets */
	struct proxy postgres, redis;
};

/* What a fault under way has to undo. */
struct stage_fault {
	const struct fault *fault;
	bool begun, over;
	int64_t begun_ns;
	pid_t backend;
	unsigned matches; /* of the proxy's rules, when it began */
	bool struck;      /* the message has come */
};

struct stage {
	char binary[4096], directory[64], url[200];
	struct pg_server pg;
	struct redis_server redis;
	bool redis_stopped;
	int runs;
	const struct plan *plan;
	int64_t origin_ns;
	struct stage_instance instances[PLAN_INSTANCES];
	struct stage_fault faults[PLAN_FAULTS_MAX];
	struct history_outage outages[STAGE_OUTAGES_MAX];
	size_t outage_count;
	pid_t flush; /* `lastunit flush` under way */
	/* a stranger's row locks: asked for here, taken by strangers.c; until then, in ns */
	_Atomic int64_t lock_until_ns;
	_Atomic unsigned lock_choice;
	/* what no history shows: an instance that ended by itself, … */
	char complaints[STAGE_COMPLAINTS_MAX][200];
	size_t complaint_count;
};

int64_t stage_now_ns(void);
void stage_open(struct stage *stage, const char *binary, const char *directory);
void stage_close(struct stage *stage);
void stage_begin(struct stage *stage, const struct plan *plan);
/* `now_ns` since the origin decides which faults begin and end. */
void stage_turn(struct stage *stage);
bool stage_serves(const struct stage *stage);
void stage_calm(struct stage *stage);
/* Instances get SIGTERM and must end with 0. */
void stage_end(struct stage *stage);
/* `lastunit audit`; its output goes to `directory`/audit. */
bool stage_audit(struct stage *stage);
void stage_complain(struct stage *stage, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
