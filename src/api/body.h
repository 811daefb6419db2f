/* Bodies: from parsed JSON to an operation, by one rule on every channel.
 *
 * Every member is known or refused by its name: a typo is never ignored. null where a value is optional means absent.
 * Integers are JSON integers. What is wrong is said with the member's path, "lines[2].quantity".
 * Ownership: texts are borrowed from the JSON value, which must outlive the operation; all else is made in
 * operation->arena. Thread: any; pure.
 */
#ifndef API_BODY_H
#define API_BODY_H

#include <jansson.h>

#include "base/arena.h"
#include "lastunit/operation.h"

/* What was wrong. */
struct fault {
	enum lu_error error;
	struct text detail; /* a sentence that names the member */
};

/* Members that stand in the path of a route but in the body of a batch. */
enum body_form { BODY_OF_ROUTE, BODY_OF_BATCH };

/* Fills lines, target (in a batch), other, ttl_s, reference, reason, sku_change and key of `operation`, whose kind and
 * arena are set. body NULL: none was sent. False, with *ret_fault: not valid. */
bool body_decode(const json_t *body, enum body_form form, struct operation *operation, struct fault *ret_fault)
	LU_MUST_CHECK;
/* The member `operation` of an entry of a batch. */
bool body_operation_kind(const json_t *entry, struct arena *arena, enum operation_kind *ret_kind,
                         struct fault *ret_fault) LU_MUST_CHECK;
/* {"operations": [{…}, …]}: 1..1,000 entries; each is decoded by itself later. */
bool body_operations(const json_t *body, struct arena *arena, const json_t **ret_entries, struct fault *ret_fault)
	LU_MUST_CHECK;
/* {"skus": ["A", …]}: 1..LU_LOOKUP_MAX valid codes. */
bool body_skus(const json_t *body, struct arena *arena, struct text **ret_skus, size_t *ret_count,
               struct fault *ret_fault) LU_MUST_CHECK;

/* The value of the header Idempotency-Key: a string of RFC 8941 ("…" with \" and \\) or bare. */
bool body_key_header(struct text value, struct arena *arena, struct text *ret_key, struct fault *ret_fault)
	LU_MUST_CHECK;

#define BATCH_ENTRIES_MAX 1000
#define TITLES_MAX 50
#define NAMES_MAX 100
#define NAME_BYTES_MAX 255

/* The sentence about a field that a request has not got; `known`: those it has, with commas. */
struct text body_stray_field(struct arena *arena, struct text name, const char *known);

#endif
