/* The body of nearly every look-up of several SKUs, without a JSON value for each of them. Thread: any; no state. */
#ifndef API_PLAIN_SKUS_H
#define API_PLAIN_SKUS_H

#include "base/arena.h"
#include "lastunit/types.h"

/* True when `body` is exactly {"skus": ["A", "B"]}: one member, 1 to LU_LOOKUP_MAX strings without escapes, each a SKU code
 * (borrowed from the body), with white space where JSON has it. Everything else, be it good or bad, is left to the parser:
 * false. */
bool plain_skus(struct text body, struct arena *arena, struct text **ret_skus, size_t *ret_count);

#endif
