/* The queue: who may run next is known at any time, so nobody ever searches for it.
 *
 * Each claim that anybody waits for or works on has a *slot* with the FIFO of the operations waiting for it and the
 * writer it is lent to. An operation is *ready* when it is first in every of its slots and none of them is lent; ready
 * operations stand in a list by lane, in the order in which they became so. This is the rule of the header without its
 * scan: whatever is not ready waits behind an earlier operation or for another writer (I13).
 *
 * Happy path: submit appends to the slots of its claims (ready at once if all were idle) and wakes a writer. Take pops
 * ready operations and lends their slots; what stands first behind them now, and needs nothing but what this batch has
 * already, joins the same batch: so the carts of a hot SKU gather. Finish takes the slots back; what became ready by
 * that is put on the list. Everything costs O(claims) of the operations that move, however many wait.
 *
 * No starvation: in each slot an operation only moves forward, and once it is first everywhere it waits for finishes
 * alone, then stands in a FIFO.
 *
 * Never in one batch: two operations with the same key, two SKU_PUTs of one SKU (exclusive claims), different lanes:
 * ordinary, SKU_PUT, and those behind a stranger's lock, of which only one SKU's share a batch.
 *
 * Late: every operation also stands in one list by its deadline. Whose time is up while it waits is lent out at once, alone
 * with its like and claiming nothing, to be refused.
 *
 * Failure modes: full and closed are the submitter's to handle. queue_return() may be given operations whose claims
 * have changed meanwhile: it puts them first wherever they now belong.
 *
 * Why this is one file: every function keeps the same few sums right (who is behind whom, what is lent to whom, who stands
 * on which list), and each is only right together with the others. Cut in two, both halves would have to see all of it.
 */
#include "inventory/queue.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/metrics.h"

#define KEEPER_ROOM_MIN 8
#define LINES_MAX_MIN (10 * (size_t)LU_LINES_MAX)
#define BLOCK_ITEMS 64
#define NOBODY UINT32_MAX

enum lane { LANE_ORDINARY, LANE_SKU_PUT, LANE_BLOCKED, LANE_COUNT };

struct waiter;
struct slot;

/* One claim of one waiting operation, in the FIFO of its slot. */
struct claim {
	struct waiter *waiter;
	struct slot *slot;
	struct claim *next, *previous; /* in the slot */
	struct claim *sibling;         /* of the same waiter; also the free list */
	bool exclusive;                /* not even in the same batch */
};

struct slot {
	uint64_t hash;
	uint32_t lent_to; /* a writer, or NOBODY */
	struct claim *first, *last;
	struct slot *chain;     /* in the bucket; also the free list */
	struct slot *lent_next; /* of the same writer */
};

/* An operation that waits. */
struct waiter {
	struct operation *operation;
	int64_t sequence; /* of its first arrival */
	enum lane lane;
	bool ready;     /* on its lane's list */
	bool candidate; /* on the list of a take */
	size_t behind;  /* claims in which it is not the first */
	struct claim *claims;
	TAILQ_ENTRY(waiter) by_deadline; /* on the list of all */
	TAILQ_ENTRY(waiter) entry;       /* on the one or the other */
	struct waiter *free_next;
};
TAILQ_HEAD(waiters, waiter);

struct block {
	struct block *next;
};

struct queue {
	pthread_mutex_t mutex;
	pthread_cond_t work; /* something is ready, or the end has come */
	size_t length, keeper_room, depth;
	size_t lines, lines_max; /* of all that wait */
	unsigned writers, blocked_running;
	int64_t gather_ms, gather_until_ns; /* nothing ordinary is lent before; 0: the batch waited for is done */
	unsigned gathering;                 /* whose batch that is */
	int64_t sequence_last;
	bool closed;
	struct waiters ready[LANE_COUNT];
	struct waiters all; /* in order of their deadlines */
	struct slot **buckets;
	size_t bucket_mask;
	struct slot **lent, ***lent_end; /* by writer: the slots lent to it, in the order of its batch */
	bool *blocked;                   /* by writer: runs a batch of blocked ones */
	int64_t *wake_ns;                /* by writer: when it wakes by itself; DEADLINE_NONE: it never does, or is awake */
	struct claim *free_claims;
	struct slot *free_slots;
	struct waiter *free_waiters;
	struct block *blocks;
};

/* --- memory: never given back before the end, so that a busy queue does not allocate ------------------------------ */

static void *block_new(struct queue *queue, size_t item_bytes)
{
	struct block *block = calloc(1, sizeof *block + sizeof(max_align_t) + BLOCK_ITEMS * item_bytes);
	CHECK(block);
	block->next = queue->blocks;
	queue->blocks = block;
	return (char *)block + sizeof(max_align_t);
}

static struct claim *claim_new(struct queue *queue)
{
	if (!queue->free_claims) {
		struct claim *items = block_new(queue, sizeof *items);
		for (size_t i = 0; i < BLOCK_ITEMS; i++) {
			items[i].sibling = queue->free_claims;
			queue->free_claims = &items[i];
		}
	}
	struct claim *claim = queue->free_claims;
	queue->free_claims = claim->sibling;
	*claim = (struct claim){0};
	return claim;
}

static struct slot *slot_new(struct queue *queue)
{
	if (!queue->free_slots) {
		struct slot *items = block_new(queue, sizeof *items);
		for (size_t i = 0; i < BLOCK_ITEMS; i++) {
			items[i].chain = queue->free_slots;
			queue->free_slots = &items[i];
		}
	}
	struct slot *slot = queue->free_slots;
	queue->free_slots = slot->chain;
	*slot = (struct slot){.lent_to = NOBODY};
	return slot;
}

static struct waiter *waiter_new(struct queue *queue)
{
	if (!queue->free_waiters) {
		struct waiter *items = block_new(queue, sizeof *items);
		for (size_t i = 0; i < BLOCK_ITEMS; i++) {
			items[i].free_next = queue->free_waiters;
			queue->free_waiters = &items[i];
		}
	}
	struct waiter *waiter = queue->free_waiters;
	queue->free_waiters = waiter->free_next;
	*waiter = (struct waiter){0};
	return waiter;
}

/* --- slots ----------------------------------------------------------------------------------------------------------- */

static struct slot **slot_bucket(struct queue *queue, uint64_t hash)
{
	return &queue->buckets[(hash ^ hash >> 32) * UINT64_C(0x9e3779b97f4a7c15) >> 20 & queue->bucket_mask];
}

static struct slot *slot_get(struct queue *queue, uint64_t hash)
{
	struct slot **bucket = slot_bucket(queue, hash);
	for (struct slot *slot = *bucket; slot; slot = slot->chain)
		if (slot->hash == hash)
			return slot;
	struct slot *slot = slot_new(queue);
	slot->hash = hash;
	slot->chain = *bucket;
	*bucket = slot;
	return slot;
}

static void slot_drop(struct queue *queue, struct slot *slot)
{
	struct slot **link = slot_bucket(queue, slot->hash);
	while (*link != slot)
		link = &(*link)->chain;
	*link = slot->chain;
	slot->chain = queue->free_slots;
	queue->free_slots = slot;
}

static void slot_append(struct slot *slot, struct claim *claim)
{
	claim->previous = slot->last;
	*(slot->last ? &slot->last->next : &slot->first) = claim;
	slot->last = claim;
	claim->waiter->behind += claim->previous != NULL;
}

static void slot_prepend(struct slot *slot, struct claim *claim)
{
	claim->next = slot->first;
	*(slot->first ? &slot->first->previous : &slot->last) = claim;
	slot->first = claim;
	if (claim->next)
		claim->next->waiter->behind++;
}

/* --- who is ready ---------------------------------------------------------------------------------------------------- */

static enum lane lane_of(const struct operation *operation)
{
	if (operation->blocked_claim)
		return LANE_BLOCKED;
	return operation->kind == OPERATION_SKU_PUT ? LANE_SKU_PUT : LANE_ORDINARY;
}

/* First everywhere, and every slot is lent to nobody or, unless the claim is exclusive, to `writer`. */
static bool may_run(const struct waiter *waiter, uint32_t writer)
{
	if (waiter->behind)
		return false;
	for (const struct claim *claim = waiter->claims; claim; claim = claim->sibling)
		if (claim->slot->lent_to != NOBODY && (claim->slot->lent_to != writer || claim->exclusive))
			return false;
	return true;
}

static void ready_add(struct queue *queue, struct waiter *waiter)
{
	if (waiter->ready || !may_run(waiter, NOBODY))
		return;
	waiter->ready = true;
	/* In the order of readiness, which no stream of younger ones can hold up; yet who is older than all goes first. */
	struct waiters *list = &queue->ready[waiter->lane];
	const struct waiter *first = TAILQ_FIRST(list);
	if (first && waiter->sequence < first->sequence)
		TAILQ_INSERT_HEAD(list, waiter, entry);
	else
		TAILQ_INSERT_TAIL(list, waiter, entry);
}

static void ready_remove(struct queue *queue, struct waiter *waiter)
{
	if (!waiter->ready)
		return;
	waiter->ready = false;
	TAILQ_REMOVE(&queue->ready[waiter->lane], waiter, entry);
}

/* A full batch is under way: what comes gathers for the next. A batch costs PostgreSQL as much as twenty carts (README.md),
 * so two half ones at a time are slower than one behind the other. */
static bool gathers(const struct queue *queue)
{
	return queue->gather_until_ns && clock_boottime_ns() < queue->gather_until_ns;
}

/* The lane whose first ready operation came earliest; at most half the writers wait for strangers' locks. */
static enum lane lane_next(const struct queue *queue)
{
	unsigned blocked_max = queue->writers > 1 ? queue->writers / 2 : 1;
	enum lane best = LANE_COUNT;
	for (enum lane lane = 0; lane < LANE_COUNT; lane++) {
		const struct waiter *first = TAILQ_FIRST(&queue->ready[lane]);
		if (!first || (lane == LANE_BLOCKED && queue->blocked_running >= blocked_max) ||
		    (lane == LANE_ORDINARY && gathers(queue)))
			continue;
		if (best == LANE_COUNT || first->sequence < TAILQ_FIRST(&queue->ready[best])->sequence)
			best = lane;
	}
	return best;
}

/* When something is to be done though nobody calls: the first of those waiting has to be refused, or nobody waits any
 * longer for the batch under way. */
static int64_t next_wake_ns(const struct queue *queue)
{
	const struct waiter *first = TAILQ_FIRST(&queue->all);
	int64_t wake_ns = first ? first->operation->deadline_ns - QUEUE_LATE_MS * NS_PER_MS : DEADLINE_NONE;
	if (queue->gather_until_ns && !TAILQ_EMPTY(&queue->ready[LANE_ORDINARY]) && queue->gather_until_ns < wake_ns)
		wake_ns = queue->gather_until_ns;
	return wake_ns;
}

/* Whether a writer that waits will be awake by then. */
static bool is_watched(const struct queue *queue, int64_t wake_ns)
{
	for (unsigned i = 0; i < queue->writers; i++)
		if (queue->wake_ns[i] <= wake_ns)
			return true;
	return false;
}

/* There is work for a writer, or there will be at a time at which all would sleep. */
static void wake_if_work(struct queue *queue)
{
	if (lane_next(queue) != LANE_COUNT || !is_watched(queue, next_wake_ns(queue)))
		pthread_cond_signal(&queue->work);
}

/* --- in ----------------------------------------------------------------------------------------------------------- */

/* A twin claim would wait for itself. It can only be a collision of hashes, and the slot's ends show it. */
static bool has_claim(const struct waiter *waiter, const struct slot *slot)
{
	return (slot->last && slot->last->waiter == waiter) || (slot->first && slot->first->waiter == waiter);
}

/* What comes is mostly due last, what comes back mostly among the first: it is looked for from there. What is short of time
 * (the expiry of a hold that is looked at) or had to be read for first comes in between. */
static void remember_deadline(struct queue *queue, struct waiter *waiter, bool in_front)
{
	int64_t deadline_ns = waiter->operation->deadline_ns;
	struct waiter *at = in_front ? TAILQ_FIRST(&queue->all) : TAILQ_LAST(&queue->all, waiters);
	if (in_front) {
		while (at && at->operation->deadline_ns < deadline_ns)
			at = TAILQ_NEXT(at, by_deadline);
		if (at)
			TAILQ_INSERT_BEFORE(at, waiter, by_deadline);
		else
			TAILQ_INSERT_TAIL(&queue->all, waiter, by_deadline);
	} else {
		while (at && at->operation->deadline_ns > deadline_ns)
			at = TAILQ_PREV(at, waiters, by_deadline);
		if (at)
			TAILQ_INSERT_AFTER(&queue->all, at, waiter, by_deadline);
		else
			TAILQ_INSERT_HEAD(&queue->all, waiter, by_deadline);
	}
}

static size_t lines_of(const struct operation *operation)
{
	return operation->sku_count > operation->line_count ? operation->sku_count : operation->line_count;
}

static void enter(struct queue *queue, struct operation *operation, bool in_front)
{
	struct waiter *waiter = waiter_new(queue);
	waiter->operation = operation;
	if (!operation->sequence)
		operation->sequence = ++queue->sequence_last;
	waiter->sequence = operation->sequence;
	waiter->lane = lane_of(operation);
	struct claim **end = &waiter->claims;
	for (size_t i = 0; i < operation->claim_count; i++) {
		struct slot *slot = slot_get(queue, operation->claims[i]);
		if (has_claim(waiter, slot))
			continue;
		struct claim *claim = claim_new(queue);
		claim->waiter = waiter;
		claim->slot = slot;
		/* The even one is the key's. */
		claim->exclusive = !(operation->claims[i] & 1) || operation->kind == OPERATION_SKU_PUT;
		*end = claim;
		end = &claim->sibling;
		if (in_front && slot->first)
			ready_remove(queue, slot->first->waiter);
		if (in_front)
			slot_prepend(slot, claim);
		else
			slot_append(slot, claim);
	}
	remember_deadline(queue, waiter, in_front);
	queue->depth++;
	queue->lines += lines_of(operation);
	ready_add(queue, waiter);
}

enum lu_error queue_submit(struct queue *queue, struct operation *operation)
{
	pthread_mutex_lock(&queue->mutex);
	enum lu_error error = LU_OK;
	if (queue->closed)
		error = LU_SHUTTING_DOWN;
	else if (queue->depth >= queue->length - (operation->keeper ? 0 : queue->keeper_room))
		error = LU_OVERLOADED;
	else if (!operation->keeper && queue->lines + lines_of(operation) > queue->lines_max)
		error = LU_OVERLOADED;
	if (!error) {
		enter(queue, operation, false);
		metric_add(METRIC_QUEUE_DEPTH, 1);
		wake_if_work(queue);
	}
	pthread_mutex_unlock(&queue->mutex);
	return error;
}

void queue_return(struct queue *queue, struct operation *const *operations, size_t count)
{
	pthread_mutex_lock(&queue->mutex);
	for (size_t i = count; i > 0; i--)
		enter(queue, operations[i - 1], true);
	metric_add(METRIC_QUEUE_DEPTH, (int64_t)count);
	wake_if_work(queue);
	pthread_mutex_unlock(&queue->mutex);
}

/* --- out ---------------------------------------------------------------------------------------------------------- */

struct take {
	uint32_t writer;
	bool more; /* for a batch that has its rows: who joins is a plain cart and may claim no other … */
	/* … nor have less time than those who are in it, for it ends when the first of them must be answered (I9). */
	int64_t deadline_ns;
	enum lane lane;
	uint64_t blocked_claim;
	size_t lines;
	size_t count;
	struct waiters candidates; /* ready for this batch and no other, in the order found */
};

static bool fits(const struct take *take, const struct waiter *waiter)
{
	return waiter->lane == take->lane &&
	       (take->lane != LANE_BLOCKED || take->count == 0 ||
	        waiter->operation->blocked_claim == take->blocked_claim) &&
	       take->count < LU_BATCH_OPERATIONS_MAX &&
	       (take->count == 0 || take->lines + lines_of(waiter->operation) <= LU_BATCH_LINES_MAX);
}

/* Rows and keys are all it needs: no object, no other lines than its own. */
static bool is_plain_cart(const struct operation *operation)
{
	return (operation->kind == OPERATION_CHECKOUT || operation->kind == OPERATION_RESERVE) &&
	       uuid_is_nil(&operation->other);
}

/* Of the claims, the odd ones are SKUs. */
static bool claims_only_rows_of(const struct waiter *waiter, uint32_t writer)
{
	for (const struct claim *claim = waiter->claims; claim; claim = claim->sibling)
		if (claim->slot->hash & 1 && claim->slot->lent_to != writer)
			return false;
	return true;
}

/* Who stands first in a slot of the batch may run with it. */
static void consider(struct take *take, const struct slot *slot)
{
	struct waiter *next = slot->first ? slot->first->waiter : NULL;
	if (!next || next->candidate || !fits(take, next) || !may_run(next, take->writer))
		return;
	if (take->more && !(is_plain_cart(next->operation) && claims_only_rows_of(next, take->writer) &&
	                    next->operation->deadline_ns >= take->deadline_ns))
		return; /* and whoever stands behind it stays behind it */
	next->candidate = true;
	TAILQ_INSERT_TAIL(&take->candidates, next, entry);
}

/* Lends the slots of one operation and finds out who, standing first behind it now, may run with this batch. */
static void leave(struct queue *queue, struct take *take, struct waiter *waiter)
{
	for (struct claim *claim = waiter->claims; claim; claim = claim->sibling) {
		struct slot *slot = claim->slot;
		slot->first = claim->next;
		*(slot->first ? &slot->first->previous : &slot->last) = NULL;
		if (slot->first)
			slot->first->waiter->behind--;
		if (slot->lent_to != NOBODY)
			continue; /* by an operation before it in this batch */
		slot->lent_to = take->writer;
		slot->lent_next = NULL;
		*queue->lent_end[take->writer] = slot;
		queue->lent_end[take->writer] = &slot->lent_next;
	}
	for (struct claim *claim = waiter->claims; claim; claim = claim->sibling)
		consider(take, claim->slot);
}

static void waiter_free(struct queue *queue, struct waiter *waiter)
{
	queue->lines -= lines_of(waiter->operation);
	for (struct claim *claim = waiter->claims, *sibling; claim; claim = sibling) {
		sibling = claim->sibling;
		claim->sibling = queue->free_claims;
		queue->free_claims = claim;
	}
	waiter->free_next = queue->free_waiters;
	queue->free_waiters = waiter;
}

/* The earliest that may join the batch, off its list; NULL: the batch is complete. */
static struct waiter *take_next(struct queue *queue, struct take *take)
{
	struct waiter *ready = take->more ? NULL : TAILQ_FIRST(&queue->ready[take->lane]);
	struct waiter *candidate = TAILQ_FIRST(&take->candidates);
	struct waiter *next = ready && (!candidate || ready->sequence < candidate->sequence) ? ready : candidate;
	if (next && !fits(take, next) && next == ready)
		next = candidate; /* of the blocked ones, only one SKU's travel together */
	if (!next || !fits(take, next))
		return NULL;
	if (next == ready) {
		ready_remove(queue, next);
	} else {
		TAILQ_REMOVE(&take->candidates, next, entry);
		next->candidate = false;
	}
	return next;
}

static size_t take_batch(struct queue *queue, struct take *take, struct operation **ret_operations)
{
	for (struct waiter *waiter; (waiter = take_next(queue, take));) {
		struct operation *operation = waiter->operation;
		ret_operations[take->count++] = operation;
		take->lines += lines_of(operation);
		take->blocked_claim = operation->blocked_claim;
		leave(queue, take, waiter);
		TAILQ_REMOVE(&queue->all, waiter, by_deadline);
		waiter_free(queue, waiter);
	}
	/* Those that found no room any more stand first in slots that are lent: queue_finish() comes upon them. */
	for (struct waiter *waiter; (waiter = TAILQ_FIRST(&take->candidates));) {
		TAILQ_REMOVE(&take->candidates, waiter, entry);
		waiter->candidate = false;
	}
	return take->count;
}

/* Takes one operation out of the middle of everything: its time is up. Whoever stood behind it moves up. */
static void withdraw(struct queue *queue, struct waiter *waiter)
{
	ready_remove(queue, waiter);
	TAILQ_REMOVE(&queue->all, waiter, by_deadline);
	for (struct claim *claim = waiter->claims; claim; claim = claim->sibling) {
		struct slot *slot = claim->slot;
		*(claim->previous ? &claim->previous->next : &slot->first) = claim->next;
		*(claim->next ? &claim->next->previous : &slot->last) = claim->previous;
		if (claim->previous)
			continue;
		if (claim->next) {
			claim->next->waiter->behind--;
			ready_add(queue, claim->next->waiter);
		} else if (slot->lent_to == NOBODY) {
			slot_drop(queue, slot);
		}
	}
	waiter_free(queue, waiter);
}

/* A writer has an operation with the same key. (A collision of hashes: then it waited for that in vain, and may hear the
 * same.) */
static bool key_is_lent(const struct waiter *waiter)
{
	for (const struct claim *claim = waiter->claims; claim; claim = claim->sibling)
		if (!(claim->slot->hash & 1) && claim->slot->lent_to != NOBODY)
			return true;
	return false;
}

/* Operations that wait behind something and whose time is up: they are lent to be refused, and claim nothing. */
static size_t take_late(struct queue *queue, struct operation **ret_operations)
{
	int64_t late_ns = clock_boottime_ns() + QUEUE_LATE_MS * NS_PER_MS;
	size_t count = 0;
	for (struct waiter *first; count < LU_BATCH_OPERATIONS_MAX && (first = TAILQ_FIRST(&queue->all)) &&
	                           first->operation->deadline_ns < late_ns;) {
		first->operation->key_in_flight = key_is_lent(first);
		ret_operations[count++] = first->operation;
		withdraw(queue, first);
	}
	return count;
}

/* What comes while a full batch of `writer` is under way waits for its end. */
static void gather_behind(struct queue *queue, unsigned writer, size_t count)
{
	bool full = count >= QUEUE_GATHER_FROM && queue->gather_ms > 0;
	queue->gather_until_ns = full ? deadline_in_ms(queue->gather_ms) : 0;
	queue->gathering = writer;
}

size_t queue_take(struct queue *queue, unsigned writer, struct operation *ret_operations[LU_BATCH_OPERATIONS_MAX])
{
	CHECK(writer < queue->writers);
	pthread_mutex_lock(&queue->mutex);
	CHECK(!queue->lent[writer] && !queue->blocked[writer]);
	struct take take = {.writer = writer, .lane = LANE_COUNT, .candidates = TAILQ_HEAD_INITIALIZER(take.candidates)};
	size_t count;
	while (!(count = take_late(queue, ret_operations)) && (take.lane = lane_next(queue)) == LANE_COUNT &&
	       !(queue->closed && queue->depth == 0)) {
		queue->wake_ns[writer] = next_wake_ns(queue);
		clock_cond_wait(&queue->work, &queue->mutex, queue->wake_ns[writer]);
		queue->wake_ns[writer] = DEADLINE_NONE;
	}
	if (!count && take.lane != LANE_COUNT)
		count = take_batch(queue, &take, ret_operations);
	queue->depth -= count;
	metric_add(METRIC_QUEUE_DEPTH, -(int64_t)count);
	if (take.lane == LANE_BLOCKED) {
		queue->blocked[writer] = true;
		queue->blocked_running++;
	} else if (take.lane == LANE_ORDINARY) {
		gather_behind(queue, writer, count);
	}
	wake_if_work(queue);
	if (queue->closed && queue->depth == 0)
		pthread_cond_broadcast(&queue->work);
	pthread_mutex_unlock(&queue->mutex);
	return count;
}

size_t queue_take_more(struct queue *queue, unsigned writer, struct operation *operations[LU_BATCH_OPERATIONS_MAX],
                       size_t count)
{
	if (lane_of(operations[0]) != LANE_ORDINARY)
		return count;
	struct take take = {.writer = writer,
	                    .more = true,
	                    .deadline_ns = DEADLINE_NONE,
	                    .lane = LANE_ORDINARY,
	                    .count = count,
	                    .candidates = TAILQ_HEAD_INITIALIZER(take.candidates)};
	for (size_t i = 0; i < count; i++) {
		take.lines += lines_of(operations[i]);
		if (operations[i]->deadline_ns < take.deadline_ns)
			take.deadline_ns = operations[i]->deadline_ns;
	}
	pthread_mutex_lock(&queue->mutex);
	for (struct slot *slot = queue->lent[writer]; slot; slot = slot->lent_next)
		consider(&take, slot);
	take_batch(queue, &take, operations);
	queue->depth -= take.count - count;
	metric_add(METRIC_QUEUE_DEPTH, -(int64_t)(take.count - count));
	if (take.count >= QUEUE_GATHER_FROM) /* a small one ends no wait for another's */
		gather_behind(queue, writer, take.count);
	pthread_mutex_unlock(&queue->mutex);
	return take.count;
}

void queue_finish(struct queue *queue, unsigned writer)
{
	pthread_mutex_lock(&queue->mutex);
	struct slot *slots = queue->lent[writer];
	queue->lent[writer] = NULL;
	queue->lent_end[writer] = &queue->lent[writer];
	for (struct slot *slot = slots; slot; slot = slot->lent_next)
		slot->lent_to = NOBODY;
	for (struct slot *slot = slots, *next; slot; slot = next) {
		next = slot->lent_next;
		if (slot->first)
			ready_add(queue, slot->first->waiter);
		else
			slot_drop(queue, slot);
	}
	queue->blocked_running -= queue->blocked[writer];
	queue->blocked[writer] = false;
	if (queue->gathering == writer)
		queue->gather_until_ns = 0;
	wake_if_work(queue);
	pthread_mutex_unlock(&queue->mutex);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct queue *queue_new(size_t length, unsigned writers, int64_t gather_ms)
{
	CHECK(length >= 2 && writers >= 1 && writers < NOBODY);
	struct queue *queue = calloc(1, sizeof *queue);
	CHECK(queue);
	pthread_mutex_init(&queue->mutex, NULL);
	clock_cond_init(&queue->work);
	queue->length = length;
	queue->keeper_room = length / 16 > KEEPER_ROOM_MIN ? length / 16 : KEEPER_ROOM_MIN;
	if (queue->keeper_room > length / 2)
		queue->keeper_room = length / 2;
	queue->lines_max = length * QUEUE_LINES_PER_OPERATION;
	if (queue->lines_max < LINES_MAX_MIN)
		queue->lines_max = LINES_MAX_MIN;
	queue->writers = writers;
	queue->gather_ms = gather_ms;
	for (enum lane lane = 0; lane < LANE_COUNT; lane++)
		TAILQ_INIT(&queue->ready[lane]);
	TAILQ_INIT(&queue->all);
	size_t buckets = 1024;
	while (buckets < length * 2)
		buckets *= 2;
	queue->bucket_mask = buckets - 1;
	queue->buckets = calloc(buckets, sizeof(struct slot *));
	queue->lent = calloc(writers, sizeof(struct slot *));
	queue->lent_end = calloc(writers, sizeof(struct slot **));
	queue->blocked = calloc(writers, sizeof *queue->blocked);
	queue->wake_ns = calloc(writers, sizeof *queue->wake_ns);
	CHECK(queue->buckets && queue->lent && queue->lent_end && queue->blocked && queue->wake_ns);
	for (unsigned i = 0; i < writers; i++) {
		queue->lent_end[i] = &queue->lent[i];
		queue->wake_ns[i] = DEADLINE_NONE;
	}
	return queue;
}

void queue_free(struct queue *queue)
{
	if (!queue)
		return;
	CHECK(queue->depth == 0);
	for (unsigned i = 0; i < queue->writers; i++)
		CHECK(!queue->lent[i] && !queue->blocked[i]);
	for (struct block *block = queue->blocks, *next; block; block = next) {
		next = block->next;
		free(block);
	}
	free(queue->buckets);
	free(queue->lent);
	free(queue->lent_end);
	free(queue->blocked);
	free(queue->wake_ns);
	pthread_cond_destroy(&queue->work);
	pthread_mutex_destroy(&queue->mutex);
	free(queue);
}

void queue_close(struct queue *queue)
{
	pthread_mutex_lock(&queue->mutex);
	queue->closed = true;
	pthread_cond_broadcast(&queue->work);
	pthread_mutex_unlock(&queue->mutex);
}

size_t queue_depth(struct queue *queue)
{
	pthread_mutex_lock(&queue->mutex);
	size_t depth = queue->depth;
	pthread_mutex_unlock(&queue->mutex);
	return depth;
}
