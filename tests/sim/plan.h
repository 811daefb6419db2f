/* Everything random of a run, drawn from its seed before it begins: what the shop has, how the instances are set, which
 * faults come when; and the dice from which each client draws what it does. A seed is one plan, on every machine; what
 * the machine's own scheduling makes of it differs from run to run.
 */
#ifndef TESTS_SIM_PLAN_H
#define TESTS_SIM_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define PLAN_SKUS 9      /* the last one is not counted */
#define PLAN_SKUS_HOT 2  /* the first ones are in half of all lines */
#define PLAN_SKU_QUIET 7 /* hardly ever sold: what a stranger did to it is not soon covered by a write of the service */
#define PLAN_INSTANCES 2
#define PLAN_CLIENTS_MAX 12
#define PLAN_FAULTS_MAX 64

struct dice {
	uint64_t state[2];
};

/* `stream` tells the draws of one thread from another's. */
struct dice dice_of(uint64_t seed, uint64_t stream);
uint64_t dice_roll(struct dice *dice, uint64_t sides); /* 0 … sides - 1 */
int64_t dice_between(struct dice *dice, int64_t low, int64_t high);
bool dice_chance(struct dice *dice, unsigned percent);

/* X(name, what it is, shortest and longest duration in ms) */
#define PLAN_FAULT_TABLE                                                      \
	X(MESSAGE_KILL, "kill -9 of an instance between two messages", 100, 900)  \
	X(MESSAGE_STOP, "SIGSTOP of an instance between two messages", 100, 1200) \
	X(DELAY, "messages of an instance are late", 200, 2000)                   \
	X(KILL, "kill -9 of an instance", 20, 900)                                \
	X(STOP, "SIGSTOP of an instance", 50, 1600)                               \
	X(REDIS_STOP, "SIGSTOP of Redis", 50, 900)                                \
	X(REDIS_CUT, "an instance cut off from Redis", 0, 700)                    \
	X(REDIS_MESSAGE, "one message to or from Redis cut or held", 50, 700)     \
	X(REDIS_RESTART, "Redis killed, started again empty", 0, 500)             \
	X(REDIS_DUMP, "Redis started again from an old dump", 100, 1500)          \
	X(REDIS_FLUSH, "FLUSHALL", 0, 0)                                          \
	X(REDIS_CLIENTS, "CLIENT KILL of all", 0, 0)                              \
	X(REDIS_FULL, "maxmemory tiny", 50, 800)                                  \
	X(REDIS_EVICT, "cells evicted", 20, 100)                                  \
	X(PG_STOP, "SIGSTOP of a session", 50, 1500)                              \
	X(PG_CUT, "an instance cut off from PostgreSQL", 0, 700)                  \
	X(PG_MESSAGE, "one message to or from PostgreSQL cut or held", 50, 900)   \
	X(PG_RESTART, "PostgreSQL killed, recovering", 0, 600)                    \
	X(ROW_LOCK, "a stranger's row locks", 100, 1800)                          \
	X(CLOSE, "lastunit flush", 0, 0)

enum fault_kind {
#define X(name, what, least_ms, most_ms) FAULT_##name,
	PLAN_FAULT_TABLE
#undef X
		FAULT_KINDS
};
const char *fault_name(enum fault_kind kind);
const char *fault_what(enum fault_kind kind);

struct fault {
	enum fault_kind kind;
	int instance;
	int64_t at_ms, for_ms;
	unsigned choice; /* which session, which message, … */
};

struct plan {
	uint64_t seed;
	int64_t run_ms;
	int clients;
	bool strangers;
	struct {
		int64_t on_hand, safety_stock;
	} skus[PLAN_SKUS];
	/* one setting for both instances */
	int lease_ms, reopen_after_ms, redis_timeout_ms, lock_timeout_ms, cell_ttl_s, writers, loaders, loops;
	struct fault faults[PLAN_FAULTS_MAX]; /* in order of time */
	int fault_count;
};

struct plan plan_draw(uint64_t seed, int64_t run_ms);
bool plan_has(const struct plan *plan, enum fault_kind kind);
void plan_print(const struct plan *plan, FILE *out);

#endif
