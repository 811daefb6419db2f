/* The scripts: guard.lua in front of each, cell.lua in front of the two that look into cells.
 *
 * Happy path: the first caller of the process concatenates and hashes them. Failure modes: none; a missing file is a
 * broken build (embed_find).
 */
#include "cache/script.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <string.h>

#include "base/buffer.h"
#include "base/check.h"
#include "base/embed.h"

static const char *const parts[SCRIPT_COUNT][4] = {
	[SCRIPT_CAS] = {"lua/guard.lua", "lua/cas.lua"},
	[SCRIPT_INTEND] = {"lua/guard.lua", "lua/intend.lua"},
	[SCRIPT_PUBLISH] = {"lua/guard.lua", "lua/cell.lua", "lua/publish.lua"},
	[SCRIPT_INVALIDATE] = {"lua/guard.lua", "lua/cell.lua", "lua/invalidate.lua"},
};

static struct script scripts[SCRIPT_COUNT];
static pthread_once_t scripts_once = PTHREAD_ONCE_INIT;

static void scripts_make(void)
{
	for (size_t i = 0; i < SCRIPT_COUNT; i++) {
		struct buffer source = {0}; /* kept for the life of the process */
		for (const char *const *part = parts[i]; *part; part++)
			buffer_add_text(&source, embed_find(*part));
		scripts[i].source = buffer_text(&source);

		unsigned char digest[EVP_MAX_MD_SIZE];
		unsigned size = 0;
		CHECK(EVP_Digest(source.data, source.size, digest, &size, EVP_sha1(), NULL) == 1 &&
		      2 * size == SCRIPT_SHA_BYTES);
		for (unsigned b = 0; b < size; b++) {
			scripts[i].sha[2 * b] = "0123456789abcdef"[digest[b] >> 4];
			scripts[i].sha[2 * b + 1] = "0123456789abcdef"[digest[b] & 15];
		}
	}
}

const struct script *script_get(enum script_name name)
{
	CHECK(pthread_once(&scripts_once, scripts_make) == 0);
	CHECK(name < SCRIPT_COUNT);
	return &scripts[name];
}

const struct script *script_by_sha(struct text sha)
{
	for (enum script_name name = 0; sha.size == SCRIPT_SHA_BYTES && name < SCRIPT_COUNT; name++) {
		const struct script *script = script_get(name);
		if (memcmp(script->sha, sha.data, SCRIPT_SHA_BYTES) == 0)
			return script;
	}
	return NULL;
}
