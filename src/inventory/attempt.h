/* One attempt at a batch: what its steps share. batch.c has the seven steps, batch_lock.c the second and the third. */
#ifndef INVENTORY_ATTEMPT_H
#define INVENTORY_ATTEMPT_H

#include "inventory/batch_internal.h"
#include "lastunit/decide.h"
#include "store/idempotency.h"
#include "store/tx.h"

/* What one attempt knows: everything lives in the writer's arena. */
struct attempt {
	struct batch *batch;
	struct writer *writer;
	struct pg *pg;
	struct arena *arena;
	int64_t deadline_ns;
	int64_t started_ns, locked_ns, lap_ns; /* the beginning, the locks, and the beginning of the step under way */
	struct operation_timing timing;
	struct epoch_row epoch;
	struct coherence coherence;
	struct decision_input input;
	struct decision decision;
	struct uuid *reservation_ids, *checkout_ids;
	size_t reservation_id_count, checkout_id_count;
	struct text *lock_codes;
	size_t lock_code_count;
	size_t order_count;
	bool keys_asked;
	size_t due_limit;
	bool key_busy; /* another transaction has one of the keys, and did not end in time */
	bool redis;    /* the epoch is open: cells are marked and published */
};

/* What the first round trip brought, beside the decision's input. */
struct first_round {
	struct text *existing;
	size_t existing_count;
	struct idempotency_row *keys;
	size_t key_count;
	bool sku_lock_timed_out;
};

/* Steps 2 and 3, one round trip. OUTCOME_ANSWERED: inside, with the locks; the batch has fewer operations, or none, if rows
 * were a stranger's. Any other: outside again. */
enum outcome attempt_begin_and_lock(struct attempt *a, struct first_round *round);
/* What only that round trip could name: the objects of stored answers, and the answers. */
enum lu_error attempt_read_objects(struct attempt *a, struct first_round *round) LU_MUST_CHECK;

/* Nothing is known yet; what the writer's last attempt knew is forgotten. */
struct attempt attempt_new(struct batch *batch, int64_t deadline_ns);
/* What the connection's last error means. */
enum outcome attempt_outcome(const struct pg *pg);
/* Leaves the transaction; whatever was asked of Redis is taken or given up. Returns `outcome`. */
enum outcome attempt_back_out(struct attempt *a, enum outcome outcome);
enum lu_error attempt_close_epoch(struct attempt *a, const char *reason) LU_MUST_CHECK;

#endif
