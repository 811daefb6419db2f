/* Idempotency rows: one per (principal, key), written with the effect in one transaction, kept for ever. */
#ifndef STORE_IDEMPOTENCY_H
#define STORE_IDEMPOTENCY_H

#include "lastunit/decide.h"
#include "store/pg.h"

/* A row as stored. `status` is an error code or "ok"; `detail` (JSON, may be none) is what the answer needs beside the
 * request itself and the object: inventory/answer.c writes and reads it. */
struct idempotency_row {
	int64_t principal_id;
	struct text key;
	uint8_t fingerprint[32];
	int64_t kind; /* enum operation_kind */
	struct text status;
	struct uuid object_id;
	int64_t at_us, expires_us; /* expires_us 0: none */
	struct text detail;        /* data NULL: none */
};

void idempotency_read_send(struct pg *pg, struct arena *arena, const int64_t *principal_ids, const struct text *keys,
                           size_t count);
enum lu_error idempotency_read_take(struct pg *pg, int64_t deadline_ns, struct arena *arena,
                                    struct idempotency_row **ret_rows, size_t *ret_count) LU_MUST_CHECK;
/* In the order given, which is (principal, key bytes): the lock order. 23505 on idempotency_key_is_used_once: another
 * transaction won. */
void idempotency_insert_send(struct pg *pg, struct arena *arena, const struct idempotency_row *rows, size_t count);
enum lu_error idempotency_insert_take(struct pg *pg, int64_t deadline_ns, size_t count) LU_MUST_CHECK;
/* Forgets `detail` of refusals older than 24 h, at most `limit`; returns how many. The row stays. */
enum lu_error idempotency_prune(struct pg *pg, size_t limit, int64_t deadline_ns, size_t *ret_count) LU_MUST_CHECK;

#endif
