/* The keyring: a sorted table behind a read-write lock.
 *
 * Happy path: a connection's first request takes the read lock for one binary search; its later requests compare
 * generations only, and the clock. Failure modes: an unknown key is false; out of memory is CHECKed.
 */
#include "store/keyring.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"

struct keyring {
	pthread_rwlock_t lock;
	struct keyring_entry *entries; /* by sha256 */
	size_t count;
	_Atomic uint64_t generation;
	_Atomic int64_t until_ns, asked_ns; /* 0: never extended */
};

static int compare(const void *a, const void *b)
{
	const struct keyring_entry *left = a, *right = b;
	return memcmp(left->sha256, right->sha256, sizeof left->sha256);
}

struct keyring *keyring_new(void)
{
	struct keyring *keyring = calloc(1, sizeof *keyring);
	CHECK(keyring);
	CHECK(pthread_rwlock_init(&keyring->lock, NULL) == 0);
	atomic_init(&keyring->generation, 1);
	return keyring;
}

void keyring_free(struct keyring *keyring)
{
	if (!keyring)
		return;
	pthread_rwlock_destroy(&keyring->lock);
	free(keyring->entries);
	free(keyring);
}

void keyring_replace(struct keyring *keyring, const struct keyring_entry *entries, size_t count)
{
	struct keyring_entry *sorted = NULL;
	if (count) {
		sorted = malloc(count * sizeof *sorted);
		CHECK(sorted);
		memcpy(sorted, entries, count * sizeof *sorted);
		qsort(sorted, count, sizeof *sorted, compare);
	}
	pthread_rwlock_wrlock(&keyring->lock);
	struct keyring_entry *old = keyring->entries;
	keyring->entries = sorted;
	keyring->count = count;
	/* Raised with the new entries in place: whoever sees the new number and then looks, looks there. */
	atomic_fetch_add_explicit(&keyring->generation, 1, memory_order_release);
	pthread_rwlock_unlock(&keyring->lock);
	free(old);
}

uint64_t keyring_generation(const struct keyring *keyring)
{
	return atomic_load_explicit(&keyring->generation, memory_order_acquire);
}

bool keyring_find(struct keyring *keyring, const uint8_t sha256[32], struct keyring_entry *ret_entry)
{
	struct keyring_entry wanted;
	memcpy(wanted.sha256, sha256, sizeof wanted.sha256);
	pthread_rwlock_rdlock(&keyring->lock);
	const struct keyring_entry *entry = keyring->count
	                                        ? bsearch(&wanted, keyring->entries, keyring->count, sizeof wanted, compare)
	                                        : NULL;
	if (entry)
		*ret_entry = *entry;
	pthread_rwlock_unlock(&keyring->lock);
	return entry != NULL;
}

bool keyring_find_key(struct keyring *keyring, struct text key, struct keyring_entry *ret_entry)
{
	uint8_t sha256[32];
	CHECK(EVP_Digest(key.data, key.size, sha256, NULL, EVP_sha256(), NULL) == 1);
	return keyring_find(keyring, sha256, ret_entry);
}

void keyring_extend(struct keyring *keyring, int64_t asked_ns, int64_t until_ns)
{
	CHECK(asked_ns > 0 && until_ns > 0);
	/* Behind keyring_replace() in program order: who sees the new moment sees the keys it vouches for. */
	atomic_store_explicit(&keyring->asked_ns, asked_ns, memory_order_release);
	atomic_store_explicit(&keyring->until_ns, until_ns, memory_order_release);
}

bool keyring_fresh(const struct keyring *keyring, int64_t since_ns)
{
	int64_t until_ns = atomic_load_explicit(&keyring->until_ns, memory_order_acquire);
	return !until_ns || clock_boottime_ns() < until_ns ||
	       atomic_load_explicit(&keyring->asked_ns, memory_order_acquire) >= since_ns;
}
