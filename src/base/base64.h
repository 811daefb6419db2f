/* Base64 as others wrote it (RFC 4648, 4). Thread: any. */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include <stdbool.h>

#include "lastunit/error.h"
#include "lastunit/types.h"

/* What so much of it holds at most. */
#define BASE64_RAW_BYTES_MAX(coded_bytes) ((coded_bytes) / 4 * 3)

/* Groups of four, the last one padded; nothing stands before, between or behind them. "" is "". False: it is not that,
 * or is more than `room`; nothing is said of `out` then. */
bool base64_decode(struct text coded, unsigned char *out, size_t room, size_t *ret_size) LU_MUST_CHECK;

#endif
