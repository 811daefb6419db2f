/* The writers' half of the coherence protocol over any number of SKUs: intend before COMMIT, publish after it,
 * invalidate before a replay. Calls are cut at LU_CELLS_MAX keys and travel in one go.
 *
 * Happy path: coherence_intend_send … (PostgreSQL works meanwhile) … coherence_intend_take → COMMIT →
 * coherence_publish. Failure modes: FENCED, no answer, an error reply: CELL_FENCED or CELL_FAILED; the connection is
 * then closed, so a reply can never be taken for the next call's, and the caller closes the epoch (lua/README.md).
 * Thread: the owner's of the connection.
 */
#ifndef INVENTORY_COHERENCE_H
#define INVENTORY_COHERENCE_H

#include "base/id.h"
#include "cache/cell.h"

/* One attempt's markers. */
struct coherence {
	struct redis *redis; /* NULL: this service has no Redis; every call fails */
	struct text namespace;
	char token[TOKEN_BYTES + 1]; /* new for each attempt */
	size_t chunks_pending;       /* calls sent whose replies were not taken */
	size_t count;                /* SKUs of the pending calls */
};

void coherence_init(struct coherence *coherence, struct redis *redis, struct text namespace);
enum cell_reply coherence_intend_send(struct coherence *coherence, struct arena *arena, const struct text *skus,
                                      const int64_t *versions, size_t count, int64_t deadline_ns);
enum cell_reply coherence_intend_take(struct coherence *coherence, int64_t deadline_ns);
enum cell_reply coherence_publish(struct coherence *coherence, struct arena *arena, const struct text *skus,
                                  const struct figures *figures, size_t count, int64_t ttl_ms, int64_t deadline_ns);
enum cell_reply coherence_invalidate(struct coherence *coherence, struct arena *arena, const struct text *skus,
                                     const int64_t *versions, size_t count, int64_t deadline_ns);
/* Whatever is still unanswered is given up: the connection is closed if any reply is outstanding. */
void coherence_done(struct coherence *coherence);

#endif
