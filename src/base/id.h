/* Identifiers and randomness. Ids are UUIDv7 (RFC 9562): unguessable (74 random bits), in order of time so that
 * indexes stay dense. Tokens, tickets and secrets are 128 or more random bits from getrandom(2). Thread: any.
 */
#ifndef BASE_ID_H
#define BASE_ID_H

#include "lastunit/types.h"

#define UUID_TEXT_BYTES 36
#define TOKEN_BYTES 22 /* 128 bits in base64url without padding */

void random_bytes(void *out, size_t size);
uint64_t random_u64(void);
/* A uniform number in [0, bound); bound > 0. */
uint64_t random_below(uint64_t bound);
struct uuid uuid_new(void); /* version 7 */
void uuid_format(const struct uuid *id, char out[UUID_TEXT_BYTES + 1]);
/* 36 characters, lower or upper case, any version; false otherwise. */
bool uuid_parse(struct text text, struct uuid *ret_id);
static inline bool uuid_is_nil(const struct uuid *id)
{
	static const struct uuid nil;
	return __builtin_memcmp(id, &nil, sizeof nil) == 0;
}
bool uuid_equal(const struct uuid *a, const struct uuid *b);
/* 128 random bits as 22 characters of [A-Za-z0-9_-], NUL behind. */
void token_new(char out[TOKEN_BYTES + 1]);

#endif
