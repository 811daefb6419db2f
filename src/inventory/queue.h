/* The queue between whoever wants something and the writers: natural batching. Nobody waits for company when idle; while a
 * batch of many is under way, what comes waits for its end, and is a batch of many again.
 *
 * A free writer takes, in order, every operation none of whose claims is in use by another writer or wanted by an
 * earlier operation that it cannot take: FIFO per SKU, no starvation. Two operations with one key, or two SKU_PUTs of
 * one SKU, never share a batch: the second waits for the first. At most LU_BATCH_OPERATIONS_MAX operations or
 * LU_BATCH_LINES_MAX lines; at least one. Claims are hashes: a collision only delays. They are a scheduling hint:
 * rows are protected by PostgreSQL's locks alone. An operation whose row a stranger holds (blocked_claim) travels in a
 * batch of its own kind, and at most half the writers take such batches at a time. SKU_PUTs never share a batch with
 * carts. A part of the room (1/16, at least 8) is kept for keepers.
 * Ownership: an accepted operation is the queue's until queue_take() lends it to a writer, who answers it, or gives it
 * back with queue_return(), and calls queue_finish() once no row of the batch is locked any more, be it answered or not.
 * Thread: any for submit; writer i for take(i), take_more(i), finish(i).
 */
#ifndef INVENTORY_QUEUE_H
#define INVENTORY_QUEUE_H

#include "lastunit/operation.h"

#define QUEUE_LATE_MS 100 /* who has less time left than this is not started */
/* The room is so many operations, and so many lines for each: a cart of a thousand is a third of a megabyte. */
#define QUEUE_LINES_PER_OPERATION 20
#define QUEUE_GATHER_FROM 16 /* operations: about as many as a batch costs PostgreSQL by itself */

struct queue;

/* `gather_ms`: how long what comes waits for a batch of QUEUE_GATHER_FROM or more that is under way, at most, so as to be
 * one batch too; 0: not at all. */
struct queue *queue_new(size_t length, unsigned writers, int64_t gather_ms);
void queue_free(struct queue *queue); /* CHECKs that it is empty */
/* LU_OVERLOADED when full, LU_SHUTTING_DOWN after queue_close(). */
enum lu_error queue_submit(struct queue *queue, struct operation *operation) LU_MUST_CHECK;
/* Waits for work. Returns how many operations were lent (in order), 0 when closed and empty. Operations whose time is up
 * (QUEUE_LATE_MS) are lent too, whatever they wait for: to be refused. */
size_t queue_take(struct queue *queue, unsigned writer, struct operation *ret_operations[LU_BATCH_OPERATIONS_MAX]);
/* More for a batch whose rows are locked, so that they need not wait for its end: the checkouts and reservations that
 * end no hold, stand next behind its operations (operations[0 .. count), count >= 1), claim no SKU that it does not, and
 * have at least as much time as the first of those.
 * They overtake nobody. Appends them; returns how many there are now. */
size_t queue_take_more(struct queue *queue, unsigned writer, struct operation *operations[LU_BATCH_OPERATIONS_MAX],
                       size_t count);
/* Gives back, in front of everything (they were there first), unanswered. Room is never a question. */
void queue_return(struct queue *queue, struct operation *const *operations, size_t count);
/* The writer's batch is committed, or done: its claims are free again. */
void queue_finish(struct queue *queue, unsigned writer);
/* No more submits; takers drain what is there. */
void queue_close(struct queue *queue);
size_t queue_depth(struct queue *queue);

#endif
