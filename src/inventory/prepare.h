/* Preparing an operation for the queue: merged and sorted lines, fingerprint, SKUs concerned, claims.
 *
 * Pure but for the random id and key. The fingerprint is the SHA-256 of the decoded operation (kind, target, other,
 * lines merged and sorted, ttl, reference, reason, sku change, an order's number and version), not of bytes, each field
 * with its length before it, so that no two operations read alike. `caller` is not in it: it says for whom, not what, and
 * whoever signs in between two tries of one cart has not asked for another. Thread: any. */
#ifndef INVENTORY_PREPARE_H
#define INVENTORY_PREPARE_H

#include "lastunit/operation.h"

/* Merges twin lines (quantities added, CHECKed against overflow and LU_QUANTITY_MAX: LU_INVALID_QUANTITY; a `set` line
 * cannot have a twin: LU_INVALID_LINES), sorts them by code bytes, sets skus from the lines, new_id and fingerprint. */
enum lu_error operation_prepare(struct operation *operation) LU_MUST_CHECK;
/* True if the SKUs concerned depend on an object in the database (target or other) that must be read first. */
bool operation_needs_resolving(const struct operation *operation);
/* Adds the SKUs of an object's lines to those concerned. */
void operation_add_skus(struct operation *operation, const struct line *lines, size_t count);
/* Hashes of the SKUs concerned and of an order's (principal, number) (odd: what shares them keeps its order), and of
 * (principal, key) (even): what the queue keeps apart. Last step before the
 * queue. */
void operation_claim(struct operation *operation);
/* A stranger holds the row of this one of its SKUs: from now on it claims that SKU and its key alone, so that nobody who
 * can do without that row waits behind it. */
void operation_claim_blocked(struct operation *operation, struct text sku);

#endif
