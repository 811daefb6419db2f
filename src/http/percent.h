/* Percent decoding: done once, here, for path parameters and query strings. RFC 3986, 2.1. Thread: any.
 */
#ifndef HTTP_PERCENT_H
#define HTTP_PERCENT_H

#include "base/arena.h"
#include "lastunit/error.h"
#include "lastunit/types.h"

/* The decoded bytes, in the arena or, where nothing was encoded, raw itself. LU_MALFORMED_REQUEST with *ret_why:
 * a '%' without two hex digits, a NUL, or a result that is not UTF-8. */
enum lu_error percent_decode(struct arena *arena, struct text raw, bool plus_is_blank, struct text *ret_text,
                             const char **ret_why) LU_MUST_CHECK;

struct query_pair {
	struct text name, value;
};

/* "a=1&b=&c" → pairs, decoded, plus as blank; empty pieces ("&&") are skipped. Errors as above. */
enum lu_error percent_query(struct arena *arena, struct text query, struct query_pair **ret_pairs, size_t *ret_count,
                            const char **ret_why) LU_MUST_CHECK;

#endif
