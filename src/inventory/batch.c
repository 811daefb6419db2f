/* One attempt at a batch, in the seven steps of the write path.
 *
 *   1 drop      (writer.c)  operations past their deadline are answered, unstarted
 *   2 begin     BEGIN · the epoch's advisory lock, shared · the epoch row          ┐ one pipeline,
 *   3 lock      SKUs in id order · then, in later statements with snapshots of     │ one round trip
 *               their own: objects, stored answers, the clock                      ┘
 *   4 decide    pure; may ask for due holds (another round trip) or for more locks (run again)
 *   5 write     keys first, then rows, in one pipeline ‖ intend in Redis meanwhile
 *   6 COMMIT    only if both succeeded
 *   7 publish   the new values, then answer
 *
 * Failure modes: every failure before COMMIT rolls back and changes nothing (I1). Redis not to be had: ROLLBACK, the
 * epoch is closed, run again without Redis (I5). COMMIT unanswered: OUTCOME_UNKNOWN; running the same batch again finds
 * out, for its keys were written with its effects (I4). What each outcome leads to is writer.c's business.
 */
#include "inventory/attempt.h"

#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/sync.h"
#include "base/text.h"
#include "inventory/answer.h"
#include "inventory/batch_holdings.h"
#include "lastunit/decide.h"
#include "store/checkout.h"
#include "store/ledger.h"
#include "store/order.h"
#include "store/reservation.h"
#include "store/sku.h"

#define DUE_HOLDS_FIRST 64 /* due holds looked up at first; eight times as many whenever they do not suffice */

void batch_answer(struct operation *operation)
{
	metric_add(METRIC_OPERATIONS, 1);
	if (operation->verdict.error)
		metric_add(METRIC_OPERATIONS_REFUSED, 1);
	if (operation->verdict.replayed)
		metric_add(METRIC_OPERATIONS_REPLAYED, 1);
	operation->on_done(operation);
}

void batch_refuse(struct operation *operation, enum lu_error error)
{
	operation->verdict = (struct verdict){.error = error};
	batch_answer(operation);
}

/* What the step that ends here took. */
static int64_t lap(struct attempt *a)
{
	int64_t now = clock_boottime_ns(), took = now - a->lap_ns;
	a->lap_ns = now;
	return took;
}

struct attempt attempt_new(struct batch *batch, int64_t deadline_ns)
{
	struct writer *writer = batch->writer;
	arena_reset(&writer->arena);
	return (struct attempt){.batch = batch,
	                        .writer = writer,
	                        .pg = writer->pg,
	                        .arena = &writer->arena,
	                        .deadline_ns = deadline_ns};
}

/* --- what a failure means ------------------------------------------------------------------------------------------ */

enum outcome attempt_outcome(const struct pg *pg)
{
	switch (pg_error(pg)->class) {
	case PG_RETRY:
		return OUTCOME_RETRY;
	case PG_CONNECTION:
	case PG_DEADLINE:
		return OUTCOME_RECONNECT;
	case PG_UNAVAILABLE:
		return OUTCOME_UNAVAILABLE;
	case PG_DUPLICATE:
		/* Another transaction made the key, the SKU or the order first: it will be found. */
		if (!strcmp(pg_error(pg)->constraint, "idempotency_key_is_used_once") ||
		    !strcmp(pg_error(pg)->constraint, "sku_code_is_unique") ||
		    !strcmp(pg_error(pg)->constraint, "orders_number_is_unique"))
			return OUTCOME_AGAIN;
		return OUTCOME_CULPRIT;
	case PG_FORBIDDEN: /* its neighbours may need other rights */
	case PG_VIOLATION:
	case PG_NONE:
		break;
	}
	return OUTCOME_CULPRIT;
}

/* Leaves the transaction; whatever was asked of Redis is taken or given up. */
enum outcome attempt_back_out(struct attempt *a, enum outcome outcome)
{
	pg_rollback(a->pg, deadline_in_ms(a->writer->all->config->lock_timeout_ms));
	coherence_done(&a->coherence);
	return outcome;
}

/* --- 4 decide ----------------------------------------------------------------------------------------------------- */

struct locked_sku *batch_sku(const struct decision_input *input, struct text code)
{
	size_t low = 0, high = input->sku_count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		int order = text_compare(input->skus[middle].code, code);
		if (order == 0)
			return &input->skus[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

/* A cart is short and its SKU has units held: look up the holds of every SKU asked about so far. */
static enum lu_error look_up_holds(struct attempt *a)
{
	const struct decision *d = &a->decision;
	struct locked_sku **skus = ARENA_ARRAY(a->arena, a->input.sku_count, struct locked_sku *);
	size_t count = 0;
	bool more = false;
	for (size_t i = 0; i < d->needed_count; i++) {
		struct locked_sku *sku = batch_sku(&a->input, d->needed[i]);
		CHECK(sku);
		more |= sku->holds_known; /* asked again: there are more than were looked up */
		sku->holds_known = true;
	}
	if (more)
		a->due_limit *= 8;
	for (size_t i = 0; i < a->input.sku_count; i++)
		if (a->input.skus[i].holds_known)
			skus[count++] = &a->input.skus[i];
	enum lu_error error = reservation_due(a->pg, a->arena, skus, count, a->due_limit, a->deadline_ns, &a->input.due,
	                                      &a->input.due_count);
	if (error)
		return error;
	/* They were due when that statement ran: the decision must not think it is earlier than that. */
	for (size_t i = 0; i < a->input.due_count; i++)
		if (a->input.due[i]->expires_us > a->input.now_us)
			a->input.now_us = a->input.due[i]->expires_us;
	return LU_OK;
}

/* Remembers the SKUs to lock beside the operations' own, for the attempts to come. */
static void lock_more(struct attempt *a)
{
	struct batch *b = a->batch;
	struct text *all = ARENA_ARRAY(&b->extra_arena, b->extra_count + a->decision.needed_count, struct text);
	if (b->extra_count)
		memcpy(all, b->extra, b->extra_count * sizeof *all);
	for (size_t i = 0; i < a->decision.needed_count; i++)
		all[b->extra_count++] = arena_text(&b->extra_arena, a->decision.needed[i]);
	b->extra = all;
}

/* --- 5 write ‖ intend ------------------------------------------------------------------------------------------------ */

static void send_writes(struct attempt *a)
{
	const struct decision *d = &a->decision;
	struct idempotency_row *rows = ARENA_ARRAY(a->arena, d->answer_count, struct idempotency_row);
	for (size_t i = 0; i < d->answer_count; i++)
		answer_encode(a->arena, d->answers[i], &rows[i]);
	if (d->answer_count)
		idempotency_insert_send(a->pg, a->arena, rows, d->answer_count);
	if (d->insert_count)
		sku_insert_send(a->pg, a->arena, d->inserts, d->insert_count);
	if (d->changed_count)
		sku_update_send(a->pg, a->arena, d->changed, d->changed_count);
	if (d->describe_count)
		sku_describe_send(a->pg, a->arena, d->describes, d->describe_ids, d->describe_count);
	if (d->new_reservation_count)
		reservation_insert_send(a->pg, a->arena, d->new_reservations, d->new_reservation_count);
	if (d->reservation_change_count)
		reservation_change_send(a->pg, a->arena, d->reservation_changes, d->reservation_change_count);
	if (d->new_checkout_count)
		checkout_insert_send(a->pg, a->arena, d->new_checkouts, d->new_checkout_count);
	if (d->changed_checkout_count)
		checkout_change_send(a->pg, a->arena, d->changed_checkouts, d->changed_checkout_count);
	if (d->new_order_count)
		order_insert_send(a->pg, a->arena, d->new_orders, d->new_order_count);
	if (d->changed_order_count)
		order_change_send(a->pg, a->arena, d->changed_orders, d->changed_order_count);
	if (d->entry_count)
		ledger_insert_send(a->pg, a->arena, d->entries, d->entry_count);
}

static enum lu_error take_writes(struct attempt *a)
{
	const struct decision *d = &a->decision;
	struct pg *pg = a->pg;
	int64_t deadline = a->deadline_ns;
	enum lu_error error = LU_OK;
	if (d->answer_count && (error = idempotency_insert_take(pg, deadline, d->answer_count)))
		a->key_busy = !strcmp(pg_error(pg)->sqlstate, "55P03");
	if (!error && d->insert_count)
		error = sku_insert_take(pg, deadline);
	if (!error && d->changed_count)
		error = sku_update_take(pg, deadline, d->changed_count);
	if (!error && d->describe_count)
		error = sku_describe_take(pg, deadline);
	if (!error && d->new_reservation_count)
		error = reservation_insert_take(pg, deadline, d->new_reservations, d->new_reservation_count);
	if (!error && d->reservation_change_count)
		error = reservation_change_take(pg, deadline);
	if (!error && d->new_checkout_count)
		error = checkout_insert_take(pg, deadline, d->new_checkout_count);
	if (!error && d->changed_checkout_count)
		error = checkout_change_take(pg, deadline, d->changed_checkout_count);
	if (!error && d->new_order_count)
		error = order_insert_take(pg, deadline, d->new_order_count);
	if (!error && d->changed_order_count)
		error = order_change_take(pg, deadline, d->changed_order_count);
	if (!error && d->entry_count)
		error = ledger_insert_take(pg, deadline, d->entry_count);
	return error;
}

/* The cells concerned: what changes, what is created, what is refreshed. */
struct marks {
	struct text *skus;
	struct figures *figures;
	int64_t *versions;
	size_t count;
};

static void add_mark(struct marks *m, struct text sku, const struct figures *figures)
{
	m->skus[m->count] = sku;
	m->figures[m->count] = *figures;
	m->versions[m->count++] = figures->version;
}

static struct marks marks_of(struct attempt *a)
{
	const struct decision *d = &a->decision;
	size_t most = d->changed_count + d->insert_count + d->refreshed_count;
	struct marks m = {
		.skus = ARENA_ARRAY(a->arena, most, struct text),
		.figures = ARENA_ARRAY(a->arena, most, struct figures),
		.versions = ARENA_ARRAY(a->arena, most, int64_t),
	};
	for (size_t i = 0; i < d->changed_count; i++)
		add_mark(&m, d->changed[i].code, &d->changed[i].figures);
	for (size_t i = 0; i < d->insert_count; i++)
		add_mark(&m, d->inserts[i].operation->lines[0].sku, &d->inserts[i].figures);
	for (size_t i = 0; i < d->refreshed_count; i++)
		add_mark(&m, d->refreshed[i].sku, &d->refreshed[i].figures);
	return m;
}

/* Redis could not be had or is not the one the epoch was opened on: nobody may serve its hits any more before a write
 * is answered. With the transaction rolled back (or committed), waits until the epoch is closed. */
enum lu_error attempt_close_epoch(struct attempt *a, const char *reason)
{
	return epoch_wait_closed(a->writer->all->epoch, a->epoch.namespace.data, reason, a->deadline_ns);
}

static int64_t redis_deadline(const struct attempt *a)
{
	return deadline_in_ms(a->writer->all->config->redis_timeout_ms);
}

/* PostgreSQL does not tell which key it waited for: that shows when each runs alone, and the others need not wait. */
static enum outcome key_busy(struct attempt *a)
{
	if (a->batch->count > 1)
		return OUTCOME_SINGLY;
	a->batch->operations[0]->key_in_flight = true;
	return OUTCOME_RETRY;
}

/* The row locks are gone, so the claims have no more to hint at: another writer may lock these SKUs while this one
 * publishes and answers. Their cells are in order whoever comes first, as between two instances. */
static void free_claims(struct attempt *a)
{
	if (!a->batch->claims_lent)
		return; /* one of a batch that runs its operations singly */
	a->batch->claims_lent = false;
	queue_finish(a->writer->all->queue, a->writer->index);
}

/* Steps 5 and 6. */
static enum outcome write_and_commit(struct attempt *a, const struct marks *marks)
{
	const struct decision *d = &a->decision;
	bool anything = d->answer_count || d->changed_count || d->insert_count || d->describe_count ||
	                d->new_reservation_count || d->reservation_change_count || d->new_checkout_count ||
	                d->changed_checkout_count || d->new_order_count || d->changed_order_count || d->entry_count;
	int64_t intend_deadline = redis_deadline(a);
	enum cell_reply intent = CELL_OK;
	if (a->redis && marks->count)
		intent = coherence_intend_send(&a->coherence, a->arena, marks->skus, marks->versions, marks->count,
		                               intend_deadline);
	int64_t sending = lap(a);
	if (anything && intent == CELL_OK) {
		send_writes(a);
		enum lu_error error = pg_pipe_send(a->pg, a->deadline_ns);
		if (!error)
			error = take_writes(a);
		enum lu_error end = pg_pipe_end(a->pg, a->deadline_ns);
		if (error || end)
			return attempt_back_out(a, a->key_busy ? key_busy(a) : attempt_outcome(a->pg));
	}
	int64_t writing = lap(a);
	a->timing.write = anything ? writing : 0;
	if (a->redis && marks->count && intent == CELL_OK)
		intent = coherence_intend_take(&a->coherence, intend_deadline);
	int64_t waiting = lap(a);
	a->timing.intend = a->redis && marks->count ? sending + waiting : 0;
	if (intent != CELL_OK) {
		attempt_back_out(a, OUTCOME_AGAIN);
		return attempt_close_epoch(a, intent == CELL_FENCED ? "intend was fenced" : "intend failed") ? OUTCOME_RECONNECT
		                                                                                             : OUTCOME_AGAIN;
	}
	if (!anything) {
		pg_rollback(a->pg, a->deadline_ns);
		/* Had its session ended before the marker came, the row was another's by then, and what is known of it is old. */
		if (marks->count && !pg_connected(a->pg))
			return OUTCOME_RECONNECT;
		return OUTCOME_ANSWERED;
	}
	SYNC_POINT("intended");
	bool sent = false;
	if (pg_commit(a->pg, a->deadline_ns, &sent)) {
		enum outcome outcome = attempt_outcome(a->pg);
		if (!sent)
			return attempt_back_out(a, outcome);
		pg_close(a->pg);
		return OUTCOME_UNKNOWN;
	}
	free_claims(a);
	SYNC_POINT("committed");
	a->timing.commit = lap(a);
	atomic_store(&a->writer->all->abandoned, 0); /* PostgreSQL commits */
	metric_add(METRIC_BATCHES, 1);
	return OUTCOME_ANSWERED;
}

/* --- 7 publish, answer ------------------------------------------------------------------------------------------------ */

/* A replay's first writer may have died between COMMIT and publish: before its answer is repeated, no cell may hold
 * anything older than what it says. */
static enum cell_reply invalidate_replays(struct attempt *a)
{
	size_t most = 0;
	for (size_t i = 0; i < a->batch->count; i++)
		if (a->batch->operations[i]->verdict.replayed)
			most += a->batch->operations[i]->sku_count + 1;
	if (!most)
		return CELL_OK;
	struct text *skus = ARENA_ARRAY(a->arena, most, struct text);
	int64_t *versions = ARENA_ARRAY(a->arena, most, int64_t);
	size_t count = 0;
	for (size_t i = 0; i < a->batch->count; i++) {
		const struct operation *op = a->batch->operations[i];
		for (size_t j = 0; op->verdict.replayed && j < op->sku_count; j++) {
			const struct locked_sku *sku = batch_sku(&a->input, op->skus[j]);
			if (!sku)
				continue;
			skus[count] = sku->code;
			versions[count++] = sku->figures.version;
		}
	}
	return count ? coherence_invalidate(&a->coherence, a->arena, skus, versions, count, redis_deadline(a)) : CELL_OK;
}

static void publish(struct attempt *a, const struct marks *marks)
{
	const struct config *config = a->writer->all->config;
	enum cell_reply reply = invalidate_replays(a);
	if (reply == CELL_OK && marks->count)
		reply = coherence_publish(&a->coherence, a->arena, marks->skus, marks->figures, marks->count,
		                          config->cell_ttl_s * 1000, redis_deadline(a));
	if (reply == CELL_OK)
		return;
	/* The sale is durable: from here on it is only ever called done, or unknown. */
	if (attempt_close_epoch(a, reply == CELL_FENCED ? "publish was fenced" : "publish failed"))
		for (size_t i = 0; i < a->batch->count; i++)
			a->batch->operations[i]->verdict = (struct verdict){.error = LU_OUTCOME_UNKNOWN};
}

static void answer_all(struct attempt *a)
{
	struct batch *b = a->batch;
	metric_add(METRIC_EXPIRED, (int64_t)a->decision.expired_count);
	metric_add(METRIC_REFRESHES, (int64_t)a->decision.refreshed_count);
	for (size_t i = 0; i < b->count; i++) {
		struct operation *op = b->operations[i];
		metric_add(METRIC_HOLDS_CAPPED, op->verdict.error == LU_TOO_MANY_HOLDS);
		int64_t from_ns = op->submitted_ns > a->started_ns ? op->submitted_ns : a->started_ns;
		op->timing = a->timing;
		op->timing.queue = from_ns - op->submitted_ns;
		op->timing.lock = a->locked_ns - from_ns; /* who joined did not wait for all of it */
		batch_answer(op);
	}
	b->count = 0;
}

/* --- the seven steps ---------------------------------------------------------------------------------------------- */

static enum outcome decide_all(struct attempt *a, struct first_round *round)
{
	if (attempt_read_objects(a, round) || batch_holdings(a->pg, a->arena, a->batch, &a->input, a->deadline_ns))
		return attempt_back_out(a, attempt_outcome(a->pg));
	a->input.arena = a->arena;
	a->input.operations = a->batch->operations;
	a->input.operation_count = a->batch->count;
	a->due_limit = DUE_HOLDS_FIRST;
	for (;;) {
		a->decision = decide(&a->input);
		switch (a->decision.result) {
		case DECISION_MADE:
			return OUTCOME_ANSWERED;
		case DECISION_NEEDS_HOLDS:
			if (look_up_holds(a))
				return attempt_back_out(a, attempt_outcome(a->pg));
			break;
		case DECISION_NEEDS_LOCKS:
			lock_more(a);
			return attempt_back_out(a, OUTCOME_AGAIN);
		}
	}
}

enum outcome batch_attempt(struct batch *batch, int64_t deadline_ns)
{
	struct attempt a = attempt_new(batch, deadline_ns);
	a.started_ns = clock_boottime_ns();
	a.lap_ns = a.started_ns;
	for (size_t i = 0; i < batch->count; i++)
		batch->operations[i]->key_in_flight = false;
	if (pg_connect(a.pg, deadline_ns))
		return OUTCOME_RECONNECT;
	struct first_round round = {0};
	enum outcome outcome = attempt_begin_and_lock(&a, &round);
	if (outcome == OUTCOME_ANSWERED && batch->count == 0)
		return attempt_back_out(&a, OUTCOME_ANSWERED); /* all were blocked and went back to the queue */
	SYNC_POINT("locked");
	a.timing.lock = lap(&a);
	a.locked_ns = a.lap_ns;
	if (outcome == OUTCOME_ANSWERED)
		outcome = decide_all(&a, &round);
	if (outcome != OUTCOME_ANSWERED)
		return outcome;
	struct marks marks = marks_of(&a);
	a.timing.decide = lap(&a);
	outcome = write_and_commit(&a, &marks);
	if (outcome != OUTCOME_ANSWERED)
		return outcome;
	if (a.redis)
		publish(&a, &marks);
	a.timing.publish = a.redis && marks.count ? lap(&a) : 0;
	SYNC_POINT("published");
	answer_all(&a);
	return OUTCOME_ANSWERED;
}
