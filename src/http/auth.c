/* Who asks: the Bearer key of a request.
 *
 * Happy path: the Authorization value is the one this connection sent last time and the keyring has not changed since:
 * its principal is remembered. Otherwise hash the key, ask the keyring, remember.
 * Failure modes: two Authorization fields: LU_MALFORMED_REQUEST; no key, another scheme, an unknown key:
 * LU_UNAUTHORIZED; a scope is missing: LU_FORBIDDEN. The keyring is not fresh: the key may have been revoked, so
 * LU_DATABASE_UNAVAILABLE; only what merely reads goes on, because its handler knows whether it may answer without
 * PostgreSQL, and nothing it does lasts.
 */
#include "http/auth.h"

#include <openssl/evp.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "http/connection.h"

static struct keyring *the_keyring;

void auth_use(struct keyring *keyring)
{
	the_keyring = keyring;
}

/* RFC 6750, 2.1: the scheme in any case, blanks, the key. */
static bool read_bearer(struct text value, struct text *ret_key)
{
	static const char scheme[] = "Bearer ";
	size_t size = sizeof scheme - 1;
	if (value.size <= size || strncasecmp(value.data, scheme, size) != 0)
		return false;
	while (size < value.size && value.data[size] == ' ')
		size++;
	*ret_key = (struct text){value.data + size, value.size - size};
	return ret_key->size > 0;
}

static bool find_principal(struct request *request, struct text value, const char **ret_why)
{
	struct auth_memory *memory = &request->connection->auth;
	/* Read before the look-up: a keyring swapped in between makes the memory stale, never wrong. */
	uint64_t generation = keyring_generation(the_keyring);
	if (memory->size && memory->generation == generation && memory->size == value.size &&
	    memcmp(memory->value, value.data, value.size) == 0) {
		request->principal = memory->principal;
		return true;
	}
	struct text key;
	uint8_t sha256[32];
	if (!read_bearer(value, &key)) {
		*ret_why = "The Authorization field must read: Bearer lu_...";
		return false;
	}
	CHECK(EVP_Digest(key.data, key.size, sha256, NULL, EVP_sha256(), NULL) == 1);
	if (!keyring_find(the_keyring, sha256, &request->principal)) {
		*ret_why = "This key is not known, or no longer.";
		return false;
	}
	if (value.size <= sizeof memory->value) {
		*memory = (struct auth_memory){.generation = generation, .size = value.size, .principal = request->principal};
		memcpy(memory->value, value.data, value.size);
	}
	return true;
}

static enum lu_error check_scopes(struct request *request, unsigned scopes, const char **ret_why)
{
	unsigned missing = scopes & ~request->principal.scopes;
	if (missing) {
		/* One at a time: the lowest bit. */
		*ret_why = arena_printf(request_arena(request), "The key lacks the scope `%s`.",
		                        scope_name((enum scope)(missing & -missing)))
		               .data;
		return LU_FORBIDDEN;
	}
	request->authorized = true;
	return LU_OK;
}

enum lu_error auth_check(struct request *request, unsigned scopes, const char **ret_why)
{
	struct text value;
	CHECK(the_keyring);
	*ret_why = ""; /* the table's own advice */
	if (!request_header(request, "Authorization", &value))
		return LU_UNAUTHORIZED;
	if (request_header_count(request, "Authorization") > 1) {
		*ret_why = "The header `Authorization` comes more than once; send one key.";
		return LU_MALFORMED_REQUEST;
	}
	/* Before the look-up: neither that a key is known nor that it is not means anything then. */
	if ((scopes & ~(unsigned)SCOPE_READ) && !keyring_fresh(the_keyring))
		return LU_DATABASE_UNAVAILABLE;
	if (!find_principal(request, value, ret_why))
		return LU_UNAUTHORIZED;
	return check_scopes(request, scopes, ret_why);
}

enum lu_error auth_as(struct request *request, struct text key, unsigned scopes, const char **ret_why)
{
	uint8_t sha256[32];
	*ret_why = "";
	if ((scopes & ~(unsigned)SCOPE_READ) && !keyring_fresh(the_keyring))
		return LU_DATABASE_UNAVAILABLE;
	CHECK(EVP_Digest(key.data, key.size, sha256, NULL, EVP_sha256(), NULL) == 1);
	if (!keyring_find(the_keyring, sha256, &request->principal)) {
		*ret_why = "The service's own key for this channel is not known, or no longer.";
		return LU_UNAUTHORIZED;
	}
	return check_scopes(request, scopes, ret_why);
}

const struct principal *request_principal(const struct request *request)
{
	CHECK(request->authorized);
	return &request->principal;
}
