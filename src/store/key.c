/* Principals and keys in the database. Run by the owner of the schema: serve may only read them.
 *
 * Happy path: a transaction that makes the principal if it is new and stores the hash of the secret; triggers move
 * keys_version, by which running instances notice. Failure modes: a principal that exists with another channel is
 * LU_INVALID_FIELD, because the channel of old sales would change with it; anything else as in pg.h, rolled back.
 */
#include "store/key.h"

#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/id.h"
#include "base/text.h"
#include "store/lines.h"
#include "store/pg_internal.h"
#include "store/principal.h"

#define NAME_BYTES_MAX 100
#define PUBLISHABLE "lu_pub_" /* begins those that may be shown to everybody */

bool key_looks_publishable(struct text key)
{
	size_t size = sizeof PUBLISHABLE - 1;
	return key.size >= size && memcmp(key.data, PUBLISHABLE, size) == 0;
}

enum lu_error key_load(struct pg *pg, struct arena *arena, int64_t deadline_ns, struct keyring_entry **ret_entries,
                       size_t *ret_count)
{
	static const struct pg_statement statement = {
		"key_load",
		"SELECT k.sha256, p.id, p.channel, k.scopes, coalesce(array_to_string(k.origins, ' '), ''), " PRINCIPAL_SETTINGS(
			"p")
		" FROM api_key k, LATERAL (SELECT * FROM principal q WHERE q.id = k.principal_id OFFSET 0) p"
		" WHERE k.revoked_at IS NULL",
	};
	PGresult *r;
	enum lu_error error = pg_query(pg, &statement, NULL, deadline_ns, &r);
	if (error)
		return error;
	*ret_count = 0;
	*ret_entries = ARENA_ARRAY(arena, (size_t)PQntuples(r), struct keyring_entry);
	for (int i = 0; i < PQntuples(r); i++) {
		struct keyring_entry *entry = *ret_entries + *ret_count;
		/* Written while the table's CHECKs were off: no key of ours, and it opens nothing. */
		if (PQgetlength(r, i, 0) != sizeof entry->sha256 || PQgetlength(r, i, 4) > KEYRING_ORIGINS_BYTES_MAX)
			continue;
		(*ret_count)++;
		memcpy(entry->sha256, PQgetvalue(r, i, 0), sizeof entry->sha256);
		entry->principal = (struct principal){
			.id = pg_get_int(r, i, 1),
			.channel = (enum channel)pg_get_int(r, i, 2),
			.scopes = (unsigned)pg_get_int(r, i, 3),
			.settings = principal_settings_get(r, i, 5),
		};
		memcpy(entry->origins, PQgetvalue(r, i, 4), (size_t)PQgetlength(r, i, 4));
	}
	PQclear(r);
	return LU_OK;
}

/* In the transaction: the principal's id, made if new. */
static enum lu_error principal_ensure(struct pg *pg, struct arena *arena, struct text name, enum channel channel,
                                      int64_t deadline_ns, int64_t *ret_id)
{
	static const struct pg_statement make = {
		"principal_make",
		"INSERT INTO principal (name, channel) VALUES ($1, $2::smallint) ON CONFLICT (name) DO NOTHING",
	};
	/* A statement of its own: its snapshot sees the row that the INSERT met. */
	static const struct pg_statement find = {
		"principal_find",
		"SELECT p.id, p.channel FROM principal p WHERE p.name = $1",
	};
	struct pg_params p;
	PGresult *r;
	pg_params_init(&p, arena);
	pg_add_text(&p, name);
	pg_add_int8(&p, channel);
	enum lu_error error = pg_query(pg, &make, &p, deadline_ns, &r);
	if (error)
		return error;
	PQclear(r);
	pg_params_init(&p, arena);
	pg_add_text(&p, name);
	error = pg_query(pg, &find, &p, deadline_ns, &r);
	if (error)
		return error;
	if (PQntuples(r) != 1)
		error = pg_fail(pg, PG_VIOLATION, "", "the principal was removed meanwhile");
	else if (pg_get_int(r, 0, 1) != (int64_t)channel)
		error = LU_INVALID_FIELD;
	else
		*ret_id = pg_get_int(r, 0, 0);
	PQclear(r);
	return error;
}

static enum lu_error key_insert(struct pg *pg, struct arena *arena, int64_t principal_id, unsigned scopes,
                                struct text origins, struct text secret, int64_t deadline_ns)
{
	static const struct pg_statement statement = {
		"key_insert",
		"INSERT INTO api_key (sha256, principal_id, prefix, scopes, origins)"
		" VALUES ($1, $2, $3, $4::integer, string_to_array($5, ' '))"
		" ON CONFLICT (sha256) DO NOTHING",
	};
	unsigned char sha256[SHA256_DIGEST_LENGTH];
	CHECK(SHA256((const unsigned char *)secret.data, secret.size, sha256));
	struct text prefix = {secret.data, secret.size < KEY_PREFIX_BYTES ? secret.size : KEY_PREFIX_BYTES};
	struct pg_params p;
	PGresult *r;
	pg_params_init(&p, arena);
	pg_add_bytes(&p, sha256, sizeof sha256);
	pg_add_int8(&p, principal_id);
	pg_add_text(&p, prefix);
	pg_add_int8(&p, scopes);
	pg_add_text(&p, origins.size ? origins : (struct text){0});
	enum lu_error error = pg_query(pg, &statement, &p, deadline_ns, &r);
	if (!error)
		PQclear(r);
	return error;
}

static bool ends_with(struct text text, const char *end)
{
	size_t size = strlen(end);
	return text.size >= size && memcmp(text.data + text.size - size, end, size) == 0;
}

/* "https://shop.example", "http://localhost:3000", with single blanks between: what browsers send as Origin (RFC 6454). They
 * leave out a scheme's own port, so an origin with it would be nobody's. */
bool key_origins_are_valid(struct text origins)
{
	if (origins.size > KEYRING_ORIGINS_BYTES_MAX)
		return false;
	while (origins.size) {
		const char *blank = memchr(origins.data, ' ', origins.size);
		struct text one = {origins.data, blank ? (size_t)(blank - origins.data) : origins.size};
		size_t scheme = one.size > 8 && memcmp(one.data, "https://", 8) == 0  ? 8
		                : one.size > 7 && memcmp(one.data, "http://", 7) == 0 ? 7
		                                                                      : 0;
		for (size_t i = scheme; scheme && i < one.size; i++)
			if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789.-:[]", one.data[i]))
				scheme = 0;
		if (!scheme || ends_with(one, scheme == 8 ? ":443" : ":80") || (blank && origins.size == one.size + 1))
			return false;
		origins.data += one.size + (blank != NULL);
		origins.size -= one.size + (blank != NULL);
	}
	return true;
}

enum lu_error key_store(struct pg *pg, struct text principal, enum channel channel, unsigned scopes,
                        struct text origins, const char *secret, int64_t deadline_ns)
{
	if (principal.size > NAME_BYTES_MAX || text_check_key(principal)) /* nor line ends: it stands in lists and logs */
		return LU_INVALID_FIELD;
	if (!key_origins_are_valid(origins) || (origins.size && scopes != SCOPE_READ))
		return LU_INVALID_FIELD;
	struct arena arena;
	arena_init(&arena, 0);
	int64_t id;
	bool sent;
	enum lu_error error = pg_command(pg, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", deadline_ns);
	if (!error)
		error = principal_ensure(pg, &arena, principal, channel, deadline_ns, &id);
	if (!error)
		error = key_insert(pg, &arena, id, scopes, origins, text_of(secret), deadline_ns);
	if (!error)
		error = pg_commit(pg, deadline_ns, &sent);
	if (error)
		pg_rollback(pg, deadline_ns);
	arena_done(&arena);
	return error;
}

enum lu_error key_create(struct pg *pg, struct text principal, enum channel channel, unsigned scopes,
                         struct text origins, int64_t deadline_ns, char ret_secret[KEY_SECRET_BYTES + 1])
{
	/* Letters and digits only, so that a double click selects all of it: 190 bits. */
	static const char alphabet[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
	char secret[KEY_SECRET_BYTES + 1];
	strcpy(secret, origins.size ? PUBLISHABLE : "lu_");
	for (size_t i = strlen(secret); i < KEY_SECRET_BYTES; i++)
		secret[i] = alphabet[random_below(sizeof alphabet - 1)];
	secret[KEY_SECRET_BYTES] = 0;
	enum lu_error error = key_store(pg, principal, channel, scopes, origins, secret, deadline_ns);
	if (!error)
		memcpy(ret_secret, secret, sizeof secret);
	return error;
}

enum lu_error key_list(struct pg *pg, struct arena *arena, struct text principal, int64_t deadline_ns,
                       struct key_row **ret_rows, size_t *ret_count)
{
	static const struct pg_statement statement = {
		"key_list",
		"SELECT p.name, p.channel, k.scopes, k.prefix, k.created_at, k.revoked_at,"
		" coalesce(array_to_string(k.origins, ' '), ''), k.sha256 FROM api_key k, LATERAL"
		" (SELECT q.name, q.channel FROM principal q WHERE q.id = k.principal_id OFFSET 0) p"
		" WHERE ($1::text IS NULL OR p.name = $1) ORDER BY p.name, k.created_at",
	};
	struct pg_params p;
	PGresult *r;
	pg_params_init(&p, arena);
	pg_add_text(&p, principal);
	enum lu_error error = pg_query(pg, &statement, &p, deadline_ns, &r);
	if (error)
		return error;
	*ret_count = (size_t)PQntuples(r);
	*ret_rows = ARENA_ARRAY(arena, *ret_count, struct key_row);
	for (int i = 0; i < PQntuples(r); i++) {
		struct key_row *row = *ret_rows + i;
		*row = (struct key_row){
			.principal = pg_get_text(r, i, 0, arena),
			.channel = (enum channel)pg_get_int(r, i, 1),
			.scopes = (unsigned)pg_get_int(r, i, 2),
			.prefix = pg_get_text(r, i, 3, arena),
			.created_us = pg_get_time(r, i, 4),
			.revoked_us = pg_get_time(r, i, 5),
			.origins = pg_get_text(r, i, 6, arena),
		};
		/* One of another size was written while the table's CHECKs were off, and opens nothing. */
		if (PQgetlength(r, i, 7) == sizeof row->sha256)
			memcpy(row->sha256, PQgetvalue(r, i, 7), sizeof row->sha256);
	}
	PQclear(r);
	return LU_OK;
}

/* prefix data NULL: by the hash alone; principal data NULL: anybody's. */
static enum lu_error revoke(struct pg *pg, struct text prefix, const uint8_t sha256[SHA256_DIGEST_LENGTH],
                            struct text principal, int64_t deadline_ns, size_t *ret_count)
{
	/* The whole prefix, as `key list` shows it: a shorter one would revoke more than was meant. */
	static const struct pg_statement statement = {
		"key_revoke",
		"WITH meant AS (SELECT k.sha256 FROM api_key k WHERE (k.prefix = $1 OR k.sha256 = $2) AND k.revoked_at IS NULL"
		" AND ($3::text IS NULL OR k.principal_id = (SELECT p.id FROM principal p WHERE p.name = $3))),"
		" revoked AS (UPDATE api_key SET revoked_at = clock_timestamp()"
		" WHERE sha256 IN (SELECT m.sha256 FROM meant m) AND (SELECT count(*) FROM meant) = 1)"
		" SELECT count(*) FROM meant",
	};
	struct arena arena;
	arena_init(&arena, 0);
	struct pg_params p;
	PGresult *r;
	pg_params_init(&p, &arena);
	pg_add_text(&p, prefix);
	pg_add_bytes(&p, sha256, SHA256_DIGEST_LENGTH);
	pg_add_text(&p, principal);
	enum lu_error error = pg_query(pg, &statement, &p, deadline_ns, &r);
	arena_done(&arena);
	if (error)
		return error;
	*ret_count = (size_t)pg_get_int(r, 0, 0);
	PQclear(r);
	return LU_OK;
}

enum lu_error key_revoke(struct pg *pg, struct text key, struct text principal, int64_t deadline_ns, size_t *ret_count)
{
	unsigned char sha256[SHA256_DIGEST_LENGTH];
	CHECK(SHA256((const unsigned char *)key.data, key.size, sha256));
	/* Statements and their parameters may be logged. */
	return revoke(pg, key.size <= KEY_PREFIX_BYTES ? key : (struct text){0}, sha256, principal, deadline_ns, ret_count);
}

enum lu_error key_revoke_listed(struct pg *pg, const struct key_row *row, int64_t deadline_ns)
{
	size_t count;
	return revoke(pg, (struct text){0}, row->sha256, (struct text){0}, deadline_ns, &count);
}
