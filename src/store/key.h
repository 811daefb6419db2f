/* Principals and their API keys. A key is `lu_` and 32 random characters, or `lu_pub_` and 28 for a publishable one; only
 * its SHA-256 is kept. */
#ifndef STORE_KEY_H
#define STORE_KEY_H

#include "store/keyring.h"
#include "store/pg.h"

#define KEY_SECRET_BYTES 35 /* "lu_" + 32 */
#define KEY_PREFIX_BYTES 11 /* "lu_" and 8 of the 32: enough to recognise it, 24 left to guess */

/* By its beginning, whether anybody has it or not: one that may be shown to everybody. Thread: any. */
bool key_looks_publishable(struct text key);

struct key_row {
	struct text principal; /* name */
	enum channel channel;
	unsigned scopes;
	struct text prefix; /* first characters, to recognise it */
	int64_t created_us, revoked_us;
	struct text origins; /* "https://a https://b" of a publishable key; size 0: a secret one */
	uint8_t sha256[32];
};

/* All live keys, for the keyring. */
enum lu_error key_load(struct pg *pg, struct arena *arena, int64_t deadline_ns, struct keyring_entry **ret_entries,
                       size_t *ret_count) LU_MUST_CHECK;
/* "https://shop.example http://localhost:3000", single blanks between; size 0, too. */
bool key_origins_are_valid(struct text origins);
/* Makes the principal if it is new (its channel must agree if it is not: LU_INVALID_FIELD), and a key for it. The
 * secret is shown once. `origins` size 0: a secret key; else a publishable one, whose scopes must be SCOPE_READ, for
 * pages of these origins, with blanks between: LU_INVALID_FIELD if they are none. */
enum lu_error key_create(struct pg *pg, struct text principal, enum channel channel, unsigned scopes,
                         struct text origins, int64_t deadline_ns, char ret_secret[KEY_SECRET_BYTES + 1]) LU_MUST_CHECK;
/* Stores a given secret (dev writes the same keys at each start); no effect if it is there. */
enum lu_error key_store(struct pg *pg, struct text principal, enum channel channel, unsigned scopes,
                        struct text origins, const char *secret, int64_t deadline_ns) LU_MUST_CHECK;
enum lu_error key_list(struct pg *pg, struct arena *arena, struct text principal /* data NULL: all */,
                       int64_t deadline_ns, struct key_row **ret_rows, size_t *ret_count) LU_MUST_CHECK;
/* Revokes the key with this whole prefix, as key_list() has it, or this whole secret; a secret is not sent: its hash is.
 * *ret_count: how many that live are meant. 0: there is none such; more than one: none was revoked, for of a publishable
 * key the prefix has four characters of its own, and two may have the same. */
enum lu_error key_revoke(struct pg *pg, struct text key, struct text principal /* data NULL: anybody's */,
                         int64_t deadline_ns, size_t *ret_count) LU_MUST_CHECK;
/* This one of key_list(), whatever else is listed alike. */
enum lu_error key_revoke_listed(struct pg *pg, const struct key_row *row, int64_t deadline_ns) LU_MUST_CHECK;

#endif
