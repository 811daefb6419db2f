/* Webhooks: who is told of which changes, how far each has come, what could not be delivered.
 *
 * The API writes subscriptions; the one instance that leads (webhook_lead) writes the rest. A place in the feed is moved
 * only from where the caller believes it to be, so a leader that lost the lead without knowing moves nothing.
 * Secrets stand here as they are, because signing needs them. Thread: the connection's.
 */
#ifndef STORE_WEBHOOK_H
#define STORE_WEBHOOK_H

#include "store/feed.h"

#define WEBHOOKS_MAX 100
#define WEBHOOK_FAILURES_KEPT 1000 /* of each webhook */

/* Stored as the bits of a smallint: append only. */
enum webhook_event { WEBHOOK_AVAILABILITY = 1, WEBHOOK_STOCK_OUT = 2, WEBHOOK_STOCK_BACK = 4 };
#define WEBHOOK_EVENTS_ALL 7u

struct webhook {
	struct uuid id;
	struct text url;
	unsigned events;
	struct text *skus; /* NULL: all; byte order, no twins */
	size_t sku_count;
	struct text secret;
	struct text old_secret; /* still signed with; data NULL: none */
	struct feed_position position;
	int64_t created_us, delivered_us, failing_since_us, next_attempt_us;
	int64_t failing_ms, next_in_ms; /* by the database's clock, as it was read */
	int64_t attempts;               /* at the message at hand, in vain */
	struct text disabled;           /* why; data NULL: active */
	struct text last_error;         /* data NULL: none */
};

/* Making and rotating twice, with the same secret, is as once: the answer to the first time may have been lost. */

/* A new one, from now on; its id, url, events, skus and secret are given. *ret_made false: there are WEBHOOKS_MAX,
 * or one of this id with another secret. */
enum lu_error webhook_insert(struct pg *pg, struct arena *arena, const struct webhook *webhook, int64_t deadline_ns,
                             bool *ret_made) LU_MUST_CHECK;
/* All, or one by its id, in the order of their making. */
enum lu_error webhook_list(struct pg *pg, struct arena *arena, const struct uuid *only, int64_t deadline_ns,
                           struct webhook **ret_webhooks, size_t *ret_count) LU_MUST_CHECK;
enum lu_error webhook_delete(struct pg *pg, const struct uuid *id, int64_t deadline_ns, bool *ret_found) LU_MUST_CHECK;
/* A new secret; the old one is signed with, too, for so long. *ret_found false: there is no such webhook, or this is the
 * secret that it had before, to which none goes back. */
enum lu_error webhook_rotate(struct pg *pg, const struct uuid *id, struct text secret, int64_t grace_s,
                             int64_t deadline_ns, bool *ret_found) LU_MUST_CHECK;
/* Active again, from where it was, at once. */
enum lu_error webhook_enable(struct pg *pg, const struct uuid *id, int64_t deadline_ns, bool *ret_found) LU_MUST_CHECK;

struct webhook_failure {
	int64_t id, at_us, attempts;
	struct text message; /* its webhook-id */
	struct text body, error;
};
/* Behind `after`, at most `limit`. */
enum lu_error webhook_failures(struct pg *pg, struct arena *arena, const struct uuid *id, int64_t after, size_t limit,
                               int64_t deadline_ns, struct webhook_failure **ret_failures, size_t *ret_count)
	LU_MUST_CHECK;

/* --- the leader's ------------------------------------------------------------------------------------------------- */

/* True if this session delivers from now on, until it ends: one at a time can. */
enum lu_error webhook_lead(struct pg *pg, int64_t deadline_ns, bool *ret_leads) LU_MUST_CHECK;
/* Which of these it was told are out of stock. */
enum lu_error webhook_outs(struct pg *pg, struct arena *arena, const struct uuid *id, const int64_t *sku_ids,
                           size_t count, int64_t deadline_ns, bool **ret_outs) LU_MUST_CHECK;
/* It was told all up to `to`, and that some SKUs went out of stock and some came back. `delivered`: a message was taken,
 * so it is well. No effect if its place is not `from` any more. */
struct webhook_progress {
	struct feed_position from, to;
	const int64_t *outs, *backs;
	size_t out_count, back_count;
	bool delivered;
};
enum lu_error webhook_advance(struct pg *pg, struct arena *arena, const struct uuid *id,
                              const struct webhook_progress *progress, int64_t deadline_ns) LU_MUST_CHECK;
/* The message at hand could not be delivered, so often; the next attempt comes then. */
enum lu_error webhook_delay(struct pg *pg, const struct uuid *id, int64_t attempts, struct text error,
                            int64_t next_in_ms, int64_t deadline_ns) LU_MUST_CHECK;
enum lu_error webhook_disable(struct pg *pg, const struct uuid *id, struct text why, int64_t deadline_ns) LU_MUST_CHECK;
/* A message that the endpoint does not want is put aside; of those, the newest WEBHOOK_FAILURES_KEPT stay. */
enum lu_error webhook_bury(struct pg *pg, struct arena *arena, const struct uuid *id,
                           const struct webhook_failure *failure, int64_t deadline_ns) LU_MUST_CHECK;

#endif
