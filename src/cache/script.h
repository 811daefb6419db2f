/* The four scripts as Redis gets them: fragments and body in one text, and its SHA-1.
 *
 * Thread: any; put together once, constant from then on.
 */
#ifndef CACHE_SCRIPT_H
#define CACHE_SCRIPT_H

#include "lastunit/types.h"

#define SCRIPT_SHA_BYTES 40

enum script_name { SCRIPT_CAS, SCRIPT_INTEND, SCRIPT_PUBLISH, SCRIPT_INVALIDATE, SCRIPT_COUNT };

struct script {
	struct text source;
	char sha[SCRIPT_SHA_BYTES + 1];
};

const struct script *script_get(enum script_name name);
/* NULL when no script of ours has this SHA-1. */
const struct script *script_by_sha(struct text sha);

#endif
