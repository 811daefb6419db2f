/* Steps 2 and 3 of an attempt: BEGIN, the epoch, the locks, and what is read behind them, in one round trip.
 *
 * Happy path: collect what the operations name, send all statements as one pipeline, take their answers in order.
 * Failure modes: a stranger's row lock times out, OUTCOME_BLOCKED; with SKIP LOCKED, the operations whose rows did not come
 * go back to the queue; an epoch that is closing is waited for outside the transaction (I5). Locks that took long: who came
 * meanwhile and needs no other joins, for one more round trip.
 */
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/metrics.h"
#include "base/text.h"
#include "inventory/answer.h"
#include "inventory/attempt.h"
#include "inventory/prepare.h"
#include "store/checkout.h"
#include "store/order.h"
#include "store/reservation.h"
#include "store/sku.h"

static void add_uuid(struct uuid *list, size_t *count, const struct uuid *id)
{
	if (uuid_is_nil(id))
		return;
	for (size_t i = *count; i-- > 0;)
		if (uuid_equal(&list[i], id))
			return;
	list[(*count)++] = *id;
}

/* Every SKU, object and key that the operations name: what the first round trip locks and reads. */
static void collect(struct attempt *a)
{
	struct batch *b = a->batch;
	size_t codes = b->extra_count;
	for (size_t i = 0; i < b->count; i++)
		codes += b->operations[i]->sku_count;
	a->lock_codes = ARENA_ARRAY(a->arena, codes, struct text);
	a->reservation_ids = ARENA_ARRAY(a->arena, 2 * b->count, struct uuid);
	a->checkout_ids = ARENA_ARRAY(a->arena, 2 * b->count, struct uuid);
	for (size_t i = 0; i < b->count; i++) {
		struct operation *op = b->operations[i];
		memcpy(a->lock_codes + a->lock_code_count, op->skus, op->sku_count * sizeof *op->skus);
		a->lock_code_count += op->sku_count;
		if (op->kind == OPERATION_CANCEL)
			add_uuid(a->checkout_ids, &a->checkout_id_count, &op->target);
		else
			add_uuid(a->reservation_ids, &a->reservation_id_count, &op->target);
		add_uuid(a->reservation_ids, &a->reservation_id_count, &op->other);
		a->order_count += op->kind == OPERATION_ORDER_PUT;
	}
	if (b->extra_count) /* memcpy from NULL is undefined even for nothing */
		memcpy(a->lock_codes + a->lock_code_count, b->extra, b->extra_count * sizeof *b->extra);
	a->lock_code_count += b->extra_count;
	qsort(a->lock_codes, a->lock_code_count, sizeof *a->lock_codes, text_compare_at);
	size_t kept = 0;
	for (size_t i = 0; i < a->lock_code_count; i++)
		if (kept == 0 || !text_equal(a->lock_codes[kept - 1], a->lock_codes[i]))
			a->lock_codes[kept++] = a->lock_codes[i];
	a->lock_code_count = kept;
}

/* Of the operations from the `from`th on. False: they have none. */
static bool send_keys(struct attempt *a, size_t from)
{
	int64_t *principals = ARENA_ARRAY(a->arena, a->batch->count - from, int64_t);
	struct text *keys = ARENA_ARRAY(a->arena, a->batch->count - from, struct text);
	size_t n = 0;
	for (size_t i = from; i < a->batch->count; i++) {
		const struct operation *op = a->batch->operations[i];
		if (!op->key.size)
			continue;
		principals[n] = op->principal.id;
		keys[n++] = op->key;
	}
	if (n)
		idempotency_read_send(a->pg, a->arena, principals, keys, n);
	return n;
}

static void send_begin_and_lock(struct attempt *a)
{
	bool skip = a->batch->lock == LOCK_SKIP;
	tx_begin_send(a->pg);
	epoch_enter_send(a->pg, a->arena);
	sku_lock_send(a->pg, a->arena, a->lock_codes, a->lock_code_count, skip ? SKU_LOCK_SKIP : SKU_LOCK_WAIT);
	if (skip)
		sku_exist_send(a->pg, a->arena, a->lock_codes, a->lock_code_count);
	if (a->order_count)
		order_lock_send(a->pg, a->arena, a->batch->operations, a->batch->count);
	/* Statements of their own, behind the locks: each sees what was committed while we waited (B05). */
	if (a->reservation_id_count)
		reservation_read_send(a->pg, a->arena, a->reservation_ids, a->reservation_id_count);
	if (a->checkout_id_count)
		checkout_read_send(a->pg, a->arena, a->checkout_ids, a->checkout_id_count);
	a->keys_asked = send_keys(a, 0);
	tx_clock_send(a->pg);
}

static enum lu_error take_begin_and_lock(struct attempt *a, struct first_round *ret)
{
	enum lu_error error;
	struct pg *pg = a->pg;
	int64_t deadline = a->deadline_ns;
	if ((error = tx_begin_take(pg, deadline)) || (error = epoch_enter_take(pg, deadline, a->arena, &a->epoch)))
		return error;
	if ((error = sku_lock_take(pg, deadline, a->arena, &a->input.skus, &a->input.sku_count))) {
		ret->sku_lock_timed_out = !strcmp(pg_error(pg)->sqlstate, "55P03");
		return error;
	}
	if (a->batch->lock == LOCK_SKIP &&
	    (error = sku_exist_take(pg, deadline, a->arena, &ret->existing, &ret->existing_count)))
		return error;
	if (a->order_count && (error = order_lock_take(pg, deadline, a->arena, &a->input.orders, &a->input.order_count)))
		return error;
	if (a->reservation_id_count &&
	    (error = reservation_read_take(pg, deadline, a->arena, &a->input.reservations, &a->input.reservation_count)))
		return error;
	if (a->checkout_id_count &&
	    (error = checkout_read_take(pg, deadline, a->arena, &a->input.checkouts, &a->input.checkout_count)))
		return error;
	if (a->keys_asked && (error = idempotency_read_take(pg, deadline, a->arena, &ret->keys, &ret->key_count)))
		return error;
	return tx_clock_take(pg, deadline, &a->input.now_us);
}

static bool has_text(const struct text *sorted, size_t count, struct text wanted)
{
	return count && bsearch(&wanted, sorted, count, sizeof *sorted, text_compare_at);
}

/* A due hold that some operation needs reaches into a row that a stranger holds. Whose need it is shows when each runs
 * alone; then that one waits for the row. */
static enum outcome blocked_extra(struct attempt *a, const struct first_round *round, const struct text *locked)
{
	struct batch *b = a->batch;
	for (size_t i = 0; i < b->extra_count && b->count; i++) {
		if (!has_text(round->existing, round->existing_count, b->extra[i]) ||
		    has_text(locked, a->input.sku_count, b->extra[i]))
			continue;
		if (b->count > 1)
			return OUTCOME_SINGLY;
		struct operation *op = b->operations[0];
		operation_claim_blocked(op, arena_text(op->arena, b->extra[i]));
		b->count = 0;
		queue_return(a->writer->all->queue, &op, 1);
	}
	return OUTCOME_ANSWERED;
}

/* After SKIP LOCKED: operations one of whose rows exists but did not come go back to the queue, marked with that SKU;
 * the rest goes on. */
static enum outcome return_blocked(struct attempt *a, struct first_round *round)
{
	struct batch *b = a->batch;
	struct text *locked = ARENA_ARRAY(a->arena, a->input.sku_count, struct text);
	for (size_t i = 0; i < a->input.sku_count; i++)
		locked[i] = a->input.skus[i].code;
	qsort(round->existing, round->existing_count, sizeof *round->existing, text_compare_at);
	struct operation *blocked[LU_BATCH_OPERATIONS_MAX];
	size_t blocked_count = 0, kept = 0;
	for (size_t i = 0; i < b->count; i++) {
		struct operation *op = b->operations[i];
		op->blocked_claim = 0;
		for (size_t j = 0; j < op->sku_count && !op->blocked_claim; j++)
			if (has_text(round->existing, round->existing_count, op->skus[j]) &&
			    !has_text(locked, a->input.sku_count, op->skus[j]))
				operation_claim_blocked(op, op->skus[j]);
		if (op->blocked_claim)
			blocked[blocked_count++] = op;
		else
			b->operations[kept++] = op;
	}
	b->count = kept;
	queue_return(a->writer->all->queue, blocked, blocked_count);
	return blocked_extra(a, round, locked);
}

/* --- objects that only the first round trip could name ------------------------------------------------------------ */

static struct reservation *find_reservation(const struct decision_input *input, const struct uuid *id)
{
	for (size_t i = 0; i < input->reservation_count; i++)
		if (uuid_equal(&input->reservations[i]->id, id))
			return input->reservations[i];
	return NULL;
}

static struct checkout *find_checkout(const struct decision_input *input, const struct uuid *id)
{
	for (size_t i = 0; i < input->checkout_count; i++)
		if (uuid_equal(&input->checkouts[i]->id, id))
			return input->checkouts[i];
	return NULL;
}

/* The checkout of a reservation that was committed before (its answer is that checkout), and the objects of stored
 * answers. Lines never change, and states were read under the locks: reading them a moment later is the same. */
static enum lu_error read_more_objects(struct attempt *a, struct first_round *round)
{
	size_t most = a->batch->count + round->key_count;
	struct uuid *reservations = ARENA_ARRAY(a->arena, most + a->reservation_id_count, struct uuid);
	struct uuid *checkouts = ARENA_ARRAY(a->arena, most + a->checkout_id_count + a->input.reservation_count,
	                                     struct uuid);
	size_t reservation_count = 0, checkout_count = 0;
	for (size_t i = 0; i < a->input.reservation_count; i++)
		add_uuid(checkouts, &checkout_count, &a->input.reservations[i]->checkout_id);
	for (size_t i = 0; i < round->key_count; i++) {
		struct uuid id;
		if (answer_needs_reservation(&round->keys[i], &id))
			add_uuid(reservations, &reservation_count, &id);
		if (answer_needs_checkout(&round->keys[i], &id))
			add_uuid(checkouts, &checkout_count, &id);
	}
	if (!reservation_count && !checkout_count)
		return LU_OK;
	/* Read again what is there already, so that the result is one list without twins. */
	if (reservation_count)
		for (size_t i = 0; i < a->reservation_id_count; i++)
			add_uuid(reservations, &reservation_count, &a->reservation_ids[i]);
	if (checkout_count)
		for (size_t i = 0; i < a->checkout_id_count; i++)
			add_uuid(checkouts, &checkout_count, &a->checkout_ids[i]);
	if (reservation_count)
		reservation_read_send(a->pg, a->arena, reservations, reservation_count);
	if (checkout_count)
		checkout_read_send(a->pg, a->arena, checkouts, checkout_count);
	enum lu_error error = pg_pipe_send(a->pg, a->deadline_ns);
	if (!error && reservation_count)
		error = reservation_read_take(a->pg, a->deadline_ns, a->arena, &a->input.reservations,
		                              &a->input.reservation_count);
	if (!error && checkout_count)
		error = checkout_read_take(a->pg, a->deadline_ns, a->arena, &a->input.checkouts, &a->input.checkout_count);
	enum lu_error end = pg_pipe_end(a->pg, a->deadline_ns);
	return error ? error : end;
}

static void decode_answers(struct attempt *a, struct first_round *round)
{
	a->input.answers = ARENA_ARRAY(a->arena, round->key_count, struct stored_answer);
	for (size_t i = 0; i < round->key_count; i++) {
		const struct idempotency_row *row = &round->keys[i];
		struct stored_answer *answer = &a->input.answers[a->input.answer_count++];
		struct uuid id;
		const struct reservation *reservation = answer_needs_reservation(row, &id) ? find_reservation(&a->input, &id)
		                                                                           : NULL;
		const struct checkout *checkout = answer_needs_checkout(row, &id) ? find_checkout(&a->input, &id) : NULL;
		answer->principal_id = row->principal_id;
		answer->key = row->key;
		memcpy(answer->fingerprint, row->fingerprint, sizeof answer->fingerprint);
		enum lu_error error = answer_decode(a->arena, row, reservation, checkout, &answer->verdict);
		if (error)
			answer->verdict = (struct verdict){.error = error, .replayed = true};
	}
}

enum lu_error attempt_read_objects(struct attempt *a, struct first_round *round)
{
	enum lu_error error = read_more_objects(a, round);
	if (!error)
		decode_answers(a, round);
	return error;
}

/* --- who came meanwhile ------------------------------------------------------------------------------------------- */

/* Two codes may be one claim. */
static bool has_its_locks(const struct attempt *a, const struct operation *op)
{
	for (size_t i = 0; i < op->sku_count; i++)
		if (!has_text(a->lock_codes, a->lock_code_count, op->skus[i]))
			return false;
	return true;
}

/* Takes in those who came meanwhile, if they would double the batch: fewer are not worth another round trip. */
static void take_in(struct attempt *a)
{
	struct batch *b = a->batch;
	struct queue *queue = a->writer->all->queue;
	size_t before = b->count, waiting = queue_depth(queue);
	if (b->lock != LOCK_WAIT || !b->claims_lent || waiting < QUEUE_GATHER_FROM || waiting < before)
		return;
	size_t taken = queue_take_more(queue, a->writer->index, b->operations, before);
	while (b->count < taken && has_its_locks(a, b->operations[b->count]))
		b->count++;
	queue_return(queue, b->operations + b->count, taken - b->count); /* with all behind it: nobody is overtaken (I13) */
	metric_add(METRIC_BATCH_JOINED, (int64_t)(b->count - before));
}

/* The locks took long, because another instance sold these SKUs: many may have come who want nothing else. They join, or
 * each of them would wait for a turn of its own. Their keys are read behind the locks, like all keys. */
static enum lu_error join(struct attempt *a, struct first_round *round)
{
	struct idempotency_row *keys = NULL;
	size_t before = a->batch->count, key_count = 0;
	take_in(a);
	if (a->batch->count == before)
		return LU_OK;
	bool asked = send_keys(a, before);
	tx_clock_send(a->pg);
	enum lu_error error = pg_pipe_send(a->pg, a->deadline_ns);
	if (!error && asked)
		error = idempotency_read_take(a->pg, a->deadline_ns, a->arena, &keys, &key_count);
	if (!error)
		error = tx_clock_take(a->pg, a->deadline_ns, &a->input.now_us);
	enum lu_error end = pg_pipe_end(a->pg, a->deadline_ns);
	if (error || end)
		return error ? error : end;
	struct idempotency_row *all = ARENA_ARRAY(a->arena, round->key_count + key_count, struct idempotency_row);
	for (size_t i = 0; i < round->key_count + key_count; i++)
		all[i] = i < round->key_count ? round->keys[i] : keys[i - round->key_count];
	round->keys = all;
	round->key_count += key_count;
	return LU_OK;
}

/* --- the two steps ------------------------------------------------------------------------------------------------ */

enum outcome attempt_begin_and_lock(struct attempt *a, struct first_round *round)
{
	collect(a);
	send_begin_and_lock(a);
	enum lu_error error = pg_pipe_send(a->pg, a->deadline_ns);
	if (!error)
		error = take_begin_and_lock(a, round);
	enum lu_error end = pg_pipe_end(a->pg, a->deadline_ns);
	if (error || end)
		return attempt_back_out(a, round->sku_lock_timed_out ? OUTCOME_BLOCKED : attempt_outcome(a->pg));
	if (a->epoch.state == EPOCH_CLOSING) {
		attempt_back_out(a, OUTCOME_AGAIN);
		return attempt_close_epoch(a, "closing") ? OUTCOME_RECONNECT : OUTCOME_AGAIN;
	}
	if (a->batch->lock == LOCK_SKIP && return_blocked(a, round) != OUTCOME_ANSWERED)
		return attempt_back_out(a, OUTCOME_SINGLY);
	if (join(a, round))
		return attempt_back_out(a, attempt_outcome(a->pg));
	a->redis = a->epoch.state == EPOCH_OPEN;
	coherence_init(&a->coherence, a->writer->redis, a->epoch.namespace);
	return OUTCOME_ANSWERED;
}

/* Holds nothing but the wait: had the batch its other rows meanwhile, everybody would wait with it. So the lock is
 * had, let go, and asked for again with the rest, in id order (I3). */
enum outcome batch_wait_for_stranger(struct batch *batch, int64_t deadline_ns)
{
	struct writer *writer = batch->writer;
	struct attempt a = attempt_new(batch, deadline_ns);
	if (pg_connect(a.pg, deadline_ns))
		return OUTCOME_RECONNECT;
	struct locked_sku *skus;
	size_t count;
	bool timed_out = false;
	tx_begin_send(a.pg);
	tx_lock_timeout_send(a.pg, a.arena, writer->all->config->statement_timeout_ms * 3 / 4);
	sku_lock_send(a.pg, a.arena, &batch->operations[0]->blocked_sku, 1, SKU_LOCK_WAIT);
	enum lu_error error = pg_pipe_send(a.pg, deadline_ns);
	if (!error)
		error = tx_begin_take(a.pg, deadline_ns);
	if (!error)
		error = tx_lock_timeout_take(a.pg, deadline_ns);
	if (!error && (error = sku_lock_take(a.pg, deadline_ns, a.arena, &skus, &count)))
		timed_out = !strcmp(pg_error(a.pg)->sqlstate, "55P03");
	enum lu_error end = pg_pipe_end(a.pg, deadline_ns);
	return attempt_back_out(&a, timed_out ? OUTCOME_BLOCKED : error || end ? attempt_outcome(a.pg) : OUTCOME_ANSWERED);
}
