/* Preparing an operation for the queue.
 *
 * Happy path: the lines are copied, sorted by code bytes and twins added up; the fingerprint is taken over what that
 * gives, so that a retry whose client lists the same cart in another order is the same operation.
 * Failure modes: only the lines can be wrong, and then the operation is as it was. Every number is checked here for the
 * limits of its kind, though the edge did so already: twins may add up beyond them.
 */
#include "inventory/prepare.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/id.h"
#include "base/text.h"

/* --- lines -------------------------------------------------------------------------------------------------------- */

static int line_order(const void *left, const void *right)
{
	const struct line *a = left, *b = right;
	return text_compare(a->sku, b->sku);
}

static enum lu_error line_check(enum operation_kind kind, const struct line *line)
{
	switch (kind) {
	case OPERATION_CHECKOUT:
	case OPERATION_RESERVE:
	case OPERATION_CANCEL:
	case OPERATION_ORDER_PUT:
		return line->quantity >= 1 && line->quantity <= LU_QUANTITY_MAX ? LU_OK : LU_INVALID_QUANTITY;
	case OPERATION_ADJUST:
		return line->quantity >= (line->set ? 0 : -LU_COUNT_MAX) && line->quantity <= LU_COUNT_MAX
		           ? LU_OK
		           : LU_INVALID_QUANTITY;
	default:
		return LU_OK;
	}
}

/* Adds a twin's quantity to the line before it. */
static enum lu_error line_merge(enum operation_kind kind, struct line *into, const struct line *twin)
{
	if (kind == OPERATION_SKU_PUT || kind == OPERATION_REFRESH || into->set || twin->set)
		return LU_INVALID_LINES;
	int64_t sum;
	if (__builtin_add_overflow(into->quantity, twin->quantity, &sum))
		return LU_INVALID_QUANTITY;
	into->quantity = sum;
	return LU_OK;
}

static enum lu_error line_count_check(const struct operation *operation)
{
	switch (operation->kind) {
	case OPERATION_CHECKOUT:
	case OPERATION_RESERVE:
	case OPERATION_ADJUST:
		return operation->line_count >= 1 && operation->line_count <= LU_LINES_MAX ? LU_OK : LU_INVALID_LINES;
	case OPERATION_CANCEL:
	case OPERATION_ORDER_PUT:
		return operation->line_count <= LU_LINES_MAX ? LU_OK : LU_INVALID_LINES;
	case OPERATION_SKU_PUT:
	case OPERATION_REFRESH:
		return operation->line_count == 1 ? LU_OK : LU_INVALID_LINES;
	case OPERATION_COMMIT:
	case OPERATION_RELEASE:
	case OPERATION_EXTEND:
	case OPERATION_EXPIRE:
		return operation->line_count == 0 ? LU_OK : LU_INVALID_LINES;
	}
	return LU_INVALID_LINES;
}

static enum lu_error lines_merge(struct operation *operation)
{
	enum lu_error error = line_count_check(operation);
	if (error)
		return error;
	struct line *lines = ARENA_ARRAY(operation->arena, operation->line_count, struct line);
	size_t count = 0;
	if (operation->line_count)
		memcpy(lines, operation->lines, operation->line_count * sizeof *lines);
	qsort(lines, operation->line_count, sizeof *lines, line_order);
	for (size_t i = 0; i < operation->line_count; i++) {
		error = line_check(operation->kind, &lines[i]);
		if (error)
			return error;
		if (count > 0 && text_equal(lines[count - 1].sku, lines[i].sku)) {
			error = line_merge(operation->kind, &lines[count - 1], &lines[i]);
			if (error)
				return error;
		} else {
			lines[count++] = lines[i];
		}
	}
	/* Only now: what deltas add up to on the way depends on their order, and decides nothing. */
	for (size_t i = 0; i < count; i++) {
		error = line_check(operation->kind, &lines[i]);
		if (error)
			return error;
	}
	operation->lines = lines;
	operation->line_count = count;
	return LU_OK;
}

/* --- fingerprint -------------------------------------------------------------------------------------------------- */

static void hash_bytes(EVP_MD_CTX *hash, const void *bytes, size_t size)
{
	CHECK(EVP_DigestUpdate(hash, bytes, size) == 1);
}

static void hash_int(EVP_MD_CTX *hash, int64_t value)
{
	uint8_t bytes[8];
	for (int i = 0; i < 8; i++)
		bytes[i] = (uint8_t)((uint64_t)value >> (56 - 8 * i));
	hash_bytes(hash, bytes, sizeof bytes);
}

/* None is -1 long: not the same as empty. */
static void hash_text(EVP_MD_CTX *hash, struct text text)
{
	hash_int(hash, text.data ? (int64_t)text.size : -1);
	if (text.size)
		hash_bytes(hash, text.data, text.size);
}

static void hash_sku_change(EVP_MD_CTX *hash, const struct sku_change *change)
{
	hash_int(hash, change != NULL);
	if (!change)
		return;
	hash_int(hash, change->on_hand_given);
	hash_int(hash, change->on_hand_given ? change->on_hand : 0);
	hash_int(hash, change->safety_stock_given);
	hash_int(hash, change->safety_stock_given ? change->safety_stock : 0);
	hash_int(hash, change->tracked_given);
	hash_int(hash, change->tracked_given && change->tracked);
	hash_int(hash, change->titles_given);
	hash_text(hash, change->titles_given ? change->titles_json : (struct text){0});
	hash_int(hash, change->names_given);
	size_t names = change->names_given ? change->name_count : 0;
	hash_int(hash, (int64_t)names);
	for (size_t i = 0; i < names; i++)
		hash_text(hash, change->names[i]);
}

static void fingerprint(struct operation *operation)
{
	EVP_MD_CTX *hash = EVP_MD_CTX_new();
	CHECK(hash && EVP_DigestInit_ex(hash, EVP_sha256(), NULL) == 1);
	hash_int(hash, operation->kind);
	hash_bytes(hash, operation->target.bytes, sizeof operation->target.bytes);
	hash_bytes(hash, operation->other.bytes, sizeof operation->other.bytes);
	hash_int(hash, (int64_t)operation->line_count);
	for (size_t i = 0; i < operation->line_count; i++) {
		const struct line *line = &operation->lines[i];
		hash_text(hash, line->sku);
		hash_int(hash, line->quantity);
		hash_int(hash, line->set);
		hash_int(hash, line->set && line->change_from_given);
		hash_int(hash, line->set && line->change_from_given ? line->change_from : 0);
	}
	hash_int(hash, operation->ttl_s);
	hash_text(hash, operation->reference);
	hash_text(hash, operation->reason);
	hash_sku_change(hash, operation->sku_change);
	if (operation->kind ==
	    OPERATION_ORDER_PUT) { /* of this kind alone: keys stored before there were orders still match */
		hash_text(hash, operation->number);
		hash_int(hash, operation->order_version);
	}
	unsigned size = 0;
	CHECK(EVP_DigestFinal_ex(hash, operation->fingerprint, &size) == 1 && size == sizeof operation->fingerprint);
	EVP_MD_CTX_free(hash);
}

/* --- SKUs and claims ---------------------------------------------------------------------------------------------- */

enum lu_error operation_prepare(struct operation *operation)
{
	enum lu_error error = lines_merge(operation);
	if (error)
		return error;
	operation->skus = ARENA_ARRAY(operation->arena, operation->line_count, struct text);
	operation->sku_count = operation->line_count;
	for (size_t i = 0; i < operation->line_count; i++)
		operation->skus[i] = operation->lines[i].sku;
	operation->new_id = uuid_new();
	fingerprint(operation);
	/* The one operation that neither demands a key nor may simply be run twice: after a COMMIT whose answer was lost,
	 * its second run must find that it created the SKU itself. */
	if (operation->kind == OPERATION_SKU_PUT && operation->key.size == 0) {
		char token[TOKEN_BYTES + 1];
		token_new(token);
		operation->key = arena_printf(operation->arena, "~%s", token);
		operation->client_key = false;
	}
	return LU_OK;
}

bool operation_needs_resolving(const struct operation *operation)
{
	if (!uuid_is_nil(&operation->other))
		return true;
	switch (operation->kind) {
	case OPERATION_COMMIT:
	case OPERATION_RELEASE:
	case OPERATION_EXTEND:
	case OPERATION_EXPIRE:
		return operation->sku_count == 0; /* the reaper knows the SKUs of what it expires */
	case OPERATION_CANCEL:
		/* Of some lines too: all lines share one row, which the locks of all its SKUs protect. */
		return true;
	default:
		return false;
	}
}

void operation_add_skus(struct operation *operation, const struct line *lines, size_t count)
{
	struct text *skus = ARENA_ARRAY(operation->arena, operation->sku_count + count, struct text);
	size_t all = 0, kept = 0;
	for (size_t i = 0; i < operation->sku_count; i++)
		skus[all++] = operation->skus[i];
	for (size_t i = 0; i < count; i++)
		skus[all++] = arena_text(operation->arena, lines[i].sku);
	qsort(skus, all, sizeof *skus, text_compare_at);
	for (size_t i = 0; i < all; i++)
		if (kept == 0 || !text_equal(skus[kept - 1], skus[i]))
			skus[kept++] = skus[i];
	operation->skus = skus;
	operation->sku_count = kept;
}

static uint64_t sku_claim(struct text sku)
{
	return text_hash(sku) | 1;
}

static uint64_t of_principal(const struct operation *operation, struct text name)
{
	return text_hash(name) ^ (uint64_t)operation->principal.id * UINT64_C(0x9e3779b97f4a7c15);
}

/* Even, so that a key never meets a SKU of the same bytes. */
static void add_key_claim(struct operation *operation)
{
	if (operation->key.size)
		operation->claims[operation->claim_count++] = of_principal(operation, operation->key) & ~UINT64_C(1);
}

void operation_claim(struct operation *operation)
{
	operation->claims = ARENA_ARRAY(operation->arena, operation->sku_count + 2, uint64_t);
	operation->claim_count = 0;
	for (size_t i = 0; i < operation->sku_count; i++)
		operation->claims[operation->claim_count++] = sku_claim(operation->skus[i]);
	if (operation->kind == OPERATION_ORDER_PUT) /* versions of one order in the order in which they came */
		operation->claims[operation->claim_count++] = of_principal(operation, operation->number) | 1;
	add_key_claim(operation);
}

void operation_claim_blocked(struct operation *operation, struct text sku)
{
	operation->blocked_claim = sku_claim(sku);
	operation->blocked_sku = sku;
	operation->claims = ARENA_ARRAY(operation->arena, 2, uint64_t);
	operation->claims[0] = operation->blocked_claim;
	operation->claim_count = 1;
	add_key_claim(operation);
}
