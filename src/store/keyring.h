/* The keyring: every live key of the service in memory, looked up by the SHA-256 of its secret.
 *
 * Filled by the watcher of the lease (inventory/epoch.c) whenever the database says that keys changed; read by the
 * http loops. A key that is not here is not valid: creation and revocation are answered by `lastunit key` only after
 * L(1+rho), so that they hold everywhere from then. For the same reason its entries count only while it is fresh: who
 * has not been able to ask the database for L may have missed a revocation. Thread: any; keyring_replace and
 * keyring_extend from one thread at a time.
 */
#ifndef STORE_KEYRING_H
#define STORE_KEYRING_H

#include "lastunit/types.h"

struct keyring;

#define KEYRING_ORIGINS_BYTES_MAX 500

struct keyring_entry {
	uint8_t sha256[32];
	struct principal principal;
	/* "https://a https://b": a publishable key, and where; "" a secret one */
	char origins[KEYRING_ORIGINS_BYTES_MAX + 1];
};

struct keyring *keyring_new(void);
void keyring_free(struct keyring *keyring);
/* Takes a copy of the entries, swaps it in, raises the generation. */
void keyring_replace(struct keyring *keyring, const struct keyring_entry *entries, size_t count);
uint64_t keyring_generation(const struct keyring *keyring);
bool keyring_find(struct keyring *keyring, const uint8_t sha256[32], struct keyring_entry *ret_entry);
/* The same by the key itself, as a client shows it. */
bool keyring_find_key(struct keyring *keyring, struct text key, struct keyring_entry *ret_entry);
/* The keys are those of the database as asked at `asked_ns` (BOOTTIME ns, before the question), and may be taken for
 * those of the database until `until_ns`: asked_ns + L. */
void keyring_extend(struct keyring *keyring, int64_t asked_ns, int64_t until_ns);
/* May the keys be believed for a request that came at `since_ns`? Until the moment last given, and, however late the
 * answer was, if the database was asked after the request had come. Never extended: true. */
bool keyring_fresh(const struct keyring *keyring, int64_t since_ns);

#endif
