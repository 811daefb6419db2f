/* Who asks: the Bearer key of a request, or the publishable key in its address (?key=), as browsers must send it where
 * they can set no header (EventSource).
 *
 * Happy path: the Authorization value is the one this connection sent last time and the keyring has not changed since:
 * its principal is remembered. Otherwise hash the key, ask the keyring, remember.
 * Failure modes: two Authorization fields: LU_MALFORMED_REQUEST; no key, another scheme, an unknown key:
 * LU_UNAUTHORIZED; a scope is missing: LU_FORBIDDEN. The keyring is not fresh: the key may have been revoked, so
 * LU_DATABASE_UNAVAILABLE, and the server asks again until the keys were read; only what merely reads goes on, because
 * its handler knows whether it may answer without PostgreSQL, and nothing it does lasts.
 */
#include "http/auth.h"

#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/text.h"
#include "http/connection.h"
#include "store/key.h"

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

/* Whether the page that makes a browser ask is one of those the key is for (Fetch, "CORS check"). Who is no
 * browser sends no Origin. */
static bool origin_is_listed(struct request *request, const char *origins)
{
	struct text origin;
	if (!request_header(request, "Origin", &origin))
		return true;
	for (const char *at = origins; *at;) {
		size_t size = strcspn(at, " ");
		if (text_equal(origin, (struct text){at, size})) {
			if (request->stream) /* asked again of an answer that goes on, whose head is out: nothing may pile up */
				return true;
			request_add_header(request, "Access-Control-Allow-Origin", arena_text(request_arena(request), origin));
			request_add_header(request, "Access-Control-Expose-Headers", TEXT("ETag, Cache-Status, Retry-After"));
			return true;
		}
		at += size + (at[size] == ' ');
	}
	return false;
}

/* *ret_secret: it may be remembered by its value alone. */
static enum lu_error find_key(struct request *request, struct text key, bool *ret_secret, const char **ret_why)
{
	struct keyring_entry entry;
	if (!keyring_find_key(the_keyring, key, &entry)) {
		/* Whose pages it was for is not known, or no longer: any page may read that. */
		if (key_looks_publishable(key) && (request->route->scopes & ROUTE_PUBLISHABLE) && !request->stream)
			request_add_header(request, "Access-Control-Allow-Origin", TEXT("*"));
		*ret_why = "This key is not known, or no longer; `lastunit key list` shows those that are.";
		return LU_UNAUTHORIZED;
	}
	*ret_secret = !*entry.origins;
	if (*entry.origins && !(request->route->scopes & ROUTE_PUBLISHABLE)) {
		*ret_why = "A publishable key (lu_pub_...) may only ask what is left; this call wants a secret one.";
		return LU_FORBIDDEN;
	}
	/* Of every answer, be it to nobody's page: a cache must not show it to a page (Fetch, "CORS and HTTP caches"). */
	if (*entry.origins && !request->stream)
		request_add_header(request, "Vary", TEXT("Origin"));
	if (*entry.origins && !origin_is_listed(request, entry.origins)) {
		*ret_why = "This publishable key is not for pages of this origin.";
		return LU_FORBIDDEN;
	}
	request->principal = entry.principal;
	return LU_OK;
}

static enum lu_error find_principal(struct request *request, struct text value, const char **ret_why)
{
	struct auth_memory *memory = &request->connection->auth;
	/* Read before the look-up: a keyring swapped in between makes the memory stale, never wrong. */
	uint64_t generation = keyring_generation(the_keyring);
	if (memory->size && memory->generation == generation && memory->size == value.size &&
	    memcmp(memory->value, value.data, value.size) == 0) {
		request->principal = memory->principal;
		return LU_OK;
	}
	struct text key;
	bool secret;
	if (!read_bearer(value, &key)) {
		*ret_why = "The Authorization field must read: Bearer lu_...";
		return LU_UNAUTHORIZED;
	}
	enum lu_error error = find_key(request, key, &secret, ret_why);
	if (!error && secret && value.size <= sizeof memory->value) {
		*memory = (struct auth_memory){.generation = generation, .size = value.size, .principal = request->principal};
		memcpy(memory->value, value.data, value.size);
	}
	return error;
}

/* A secret key in an address would end up in logs and histories: only a publishable one may stand there. */
static enum lu_error find_in_address(struct request *request, struct text key, const char **ret_why)
{
	bool secret;
	enum lu_error error = find_key(request, key, &secret, ret_why);
	if (!error && secret) {
		*ret_why =
			"Only a publishable key (lu_pub_...) may stand in an address; send this one as Authorization: Bearer.";
		return LU_UNAUTHORIZED;
	}
	return error;
}

static enum lu_error check_scopes(struct request *request, unsigned scopes, const char **ret_why)
{
	unsigned missing = scopes & ~request->principal.scopes;
	if (missing) {
		/* One at a time: the lowest bit. */
		const char *scope = scope_name((enum scope)(missing & -missing));
		struct text why = arena_printf(request_arena(request),
		                               "The key lacks the scope `%s`. Take a key that has it (`lastunit key create "
		                               "--scopes %s ...`).",
		                               scope, scope);
		*ret_why = why.data;
		return LU_FORBIDDEN;
	}
	request->authorized = true;
	return LU_OK;
}

enum lu_error auth_check(struct request *request, unsigned scopes, const char **ret_why)
{
	struct text value;
	enum lu_error error;
	CHECK(the_keyring);
	scopes &= ~ROUTE_PUBLISHABLE;
	*ret_why = ""; /* the table's own advice */
	if (!request_header(request, "Authorization", &value)) {
		if (!request_query(request, AUTH_QUERY_NAME, 0, &value))
			return LU_UNAUTHORIZED;
		if (request_query(request, AUTH_QUERY_NAME, 1, &value)) {
			*ret_why = "The address has more than one `key`; send one.";
			return LU_MALFORMED_REQUEST;
		}
		request->key_in_address = true;
		error = find_in_address(request, value, ret_why);
		return error ? error : check_scopes(request, scopes, ret_why);
	}
	if (request_header_count(request, "Authorization") > 1) {
		*ret_why = "The header `Authorization` comes more than once; send one key.";
		return LU_MALFORMED_REQUEST;
	}
	/* Before the look-up: neither that a key is known nor that it is not means anything then. */
	if ((scopes & ~(unsigned)SCOPE_READ) && !keyring_fresh(the_keyring, request->complete_ns))
		return LU_DATABASE_UNAVAILABLE;
	error = find_principal(request, value, ret_why);
	return error ? error : check_scopes(request, scopes, ret_why);
}

enum lu_error auth_as(struct request *request, struct text key, unsigned scopes, const char **ret_why)
{
	struct keyring_entry entry;
	*ret_why = "";
	if ((scopes & ~(unsigned)SCOPE_READ) && !keyring_fresh(the_keyring, request->complete_ns))
		return LU_DATABASE_UNAVAILABLE;
	if (!keyring_find_key(the_keyring, key, &entry)) {
		*ret_why = "The service's own key for this channel is not known, or no longer.";
		return LU_UNAUTHORIZED;
	}
	request->principal = entry.principal;
	return check_scopes(request, scopes, ret_why);
}

const struct principal *request_principal(const struct request *request)
{
	CHECK(request->authorized);
	return &request->principal;
}

int64_t request_asker(const struct request *request)
{
	return request->authorized ? request->principal.id : 0;
}
