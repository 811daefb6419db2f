/* What writer.c (which batch, how often, what a failure means) and batch.c (one attempt, in seven steps) share. */
#ifndef INVENTORY_BATCH_INTERNAL_H
#define INVENTORY_BATCH_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "inventory/batch.h"
#include "inventory/coherence.h"
#include "lastunit/decide.h"

struct writers {
	const struct config *config;
	struct epoch *epoch;
	struct queue *queue;
	struct writer *list;
	unsigned count;
	/* Sessions given up with their COMMIT unanswered since a COMMIT last succeeded: a wedged server must not be fed
	 * one more session per batch. */
	atomic_uint abandoned;
	_Atomic int64_t last_try_ns;
	_Atomic int64_t tell_forbidden_ns; /* not before: one line in the log for thousands of writes */
	_Atomic int64_t tell_refused_ns;   /* the same of what the server has no room for */
	_Atomic int64_t refused_until_ns;  /* what it said last is a warning till then, or till a batch is through */
	pthread_mutex_t refused_mutex;
	char refused[512];
};

struct writer {
	struct writers *all;
	unsigned index;
	pthread_t thread;
	struct pg *pg;
	struct redis *redis; /* NULL: none configured */
	struct arena arena;  /* of one attempt */
};

/* A set of operations on its way through attempts. */
struct batch {
	struct writer *writer;
	struct operation *operations[LU_BATCH_OPERATIONS_MAX]; /* unanswered, in order */
	size_t count;
	enum sku_lock_mode {
		LOCK_WAIT,    /* lock_timeout_ms, then LOCK_SKIP */
		LOCK_SKIP,    /* operations whose rows do not come go back to the queue */
		LOCK_PATIENT, /* those: first wait for the stranger's row, holding nothing, then LOCK_WAIT */
	} lock;
	unsigned attempts;        /* that failed in a way that counts */
	int64_t trouble_since_ns; /* first failure to reach PostgreSQL; 0: none */
	struct text *extra;       /* SKUs of due holds to lock too; in `extra_arena` */
	size_t extra_count;
	struct arena extra_arena;
	bool claims_lent; /* the queue's claims are this batch's, all of them: it may give them back before it ends */
};

enum outcome {
	OUTCOME_ANSWERED,    /* all are answered */
	OUTCOME_AGAIN,       /* at once: more locks needed, the epoch has moved, another won a key */
	OUTCOME_RETRY,       /* with jitter, and it counts */
	OUTCOME_BLOCKED,     /* a stranger holds a row lock */
	OUTCOME_RECONNECT,   /* the connection is gone */
	OUTCOME_CULPRIT,     /* a constraint or something unexpected: one at a time */
	OUTCOME_SINGLY,      /* the same, but there need be no culprit */
	OUTCOME_UNAVAILABLE, /* PostgreSQL says not now: 503 */
	OUTCOME_UNKNOWN,     /* COMMIT was sent, its answer is missing */
};

/* One attempt at the whole batch. OUTCOME_ANSWERED: every operation was answered or, if blocked, returned to the
 * queue; any other: nothing was answered and, OUTCOME_UNKNOWN aside, nothing was changed. */
enum outcome batch_attempt(struct batch *batch, int64_t deadline_ns);

/* Waits for the row that blocked these operations, holding nothing else. OUTCOME_ANSWERED: it was had (nothing is
 * answered yet); OUTCOME_BLOCKED: still not. */
enum outcome batch_wait_for_stranger(struct batch *batch, int64_t deadline_ns);

/* The row of this code among those that are locked; NULL: it is not. */
struct locked_sku *batch_sku(const struct decision_input *input, struct text code);

/* Answers one operation; its memory may be gone when this returns. */
void batch_answer(struct operation *operation);
/* The same with an error instead of a verdict. */
void batch_refuse(struct operation *operation, enum lu_error error);

#endif
