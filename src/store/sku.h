/* SKU rows: lock, read, change. Pairs of _send (adds to the pipeline) and _take (its result), in the same order.
 * Thread: the connection's. Lock order everywhere: epoch, SKUs by id, new SKUs by code, idempotency keys. */
#ifndef STORE_SKU_H
#define STORE_SKU_H

#include "lastunit/decide.h"
#include "store/pg.h"

enum sku_lock { SKU_LOCK_WAIT, SKU_LOCK_SKIP };

/* … WHERE code = ANY($1) ORDER BY id FOR UPDATE [SKIP LOCKED]: looked up by code, locked in id order whatever the
 * plan. Unknown codes have no row. */
void sku_lock_send(struct pg *pg, struct arena *arena, const struct text *codes, size_t count, enum sku_lock mode);
enum lu_error sku_lock_take(struct pg *pg, int64_t deadline_ns, struct arena *arena, struct locked_sku **ret_skus,
                            size_t *ret_count) LU_MUST_CHECK; /* byte order of code */
/* The error of a row whose figures cannot be: the table's constraints are gone, and somebody has written what they would
 * have refused. */
enum lu_error sku_refuse_impossible(struct pg *pg, struct text code);
/* Which of the codes exist, without locking: tells "locked by a stranger" from "unknown" after SKIP LOCKED. */
void sku_exist_send(struct pg *pg, struct arena *arena, const struct text *codes, size_t count);
enum lu_error sku_exist_take(struct pg *pg, int64_t deadline_ns, struct arena *arena, struct text **ret_codes,
                             size_t *ret_count) LU_MUST_CHECK;
/* New figures of rows this transaction locked; sets writer to a new uuid. */
void sku_update_send(struct pg *pg, struct arena *arena, const struct locked_sku *rows, size_t count);
enum lu_error sku_update_take(struct pg *pg, int64_t deadline_ns, size_t count)
	LU_MUST_CHECK; /* CHECKs the row count */
/* New SKUs in code order, with their titles and names, and their LEDGER_CREATE entry (operation id given). A 23505
 * on sku_code_is_unique means that somebody else made one: roll back, run again. */
void sku_insert_send(struct pg *pg, struct arena *arena, const struct sku_insert *inserts, size_t count);
enum lu_error sku_insert_take(struct pg *pg, int64_t deadline_ns) LU_MUST_CHECK;
/* Titles and names of existing SKUs. */
void sku_describe_send(struct pg *pg, struct arena *arena, struct operation *const *puts, const int64_t *sku_ids,
                       size_t count);
enum lu_error sku_describe_take(struct pg *pg, int64_t deadline_ns) LU_MUST_CHECK;

/* Figures of codes as they stand now, no lock: the loaders' SELECT. Result in the order asked. */
struct sku_figures_row {
	bool known;
	int64_t id;
	struct figures figures;
};
enum lu_error sku_read(struct pg *pg, struct arena *arena, const struct text *codes, size_t count, int64_t deadline_ns,
                       struct sku_figures_row **ret_rows) LU_MUST_CHECK;

/* Everything about SKUs, for GET /v1/skus: one by code, or a page after a code in byte order. */
struct sku_page_row {
	int64_t id;
	struct text code;
	struct figures figures;
	struct text titles_json; /* "{}" when none */
	struct text *names;
	size_t name_count;
};
enum lu_error sku_page(struct pg *pg, struct arena *arena, struct text after, bool only_this, size_t limit,
                       int64_t deadline_ns, struct sku_page_row **ret_rows, size_t *ret_count) LU_MUST_CHECK;

/* The languages of the titles of `limit` SKUs behind this id, byte order, and the last id; 0: there was none. */
enum lu_error sku_languages(struct pg *pg, struct arena *arena, int64_t after, size_t limit, int64_t deadline_ns,
                            struct text **ret_languages, size_t *ret_count, int64_t *ret_last) LU_MUST_CHECK;

/* A run of `limit` rows in id order from a random place (without titles and names), for the scrub. */
enum lu_error sku_sample(struct pg *pg, struct arena *arena, uint64_t random, size_t limit, int64_t deadline_ns,
                         struct sku_page_row **ret_rows, size_t *ret_count) LU_MUST_CHECK;

#endif
