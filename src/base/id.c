/* Randomness and identifiers.
 *
 * Happy path: each thread keeps a pool of 4 KiB from getrandom(2), so an id costs a copy, not a system call. What was
 * handed out is wiped from the pool, so that no old token can be read there. A fork() empties the child's pool: parent
 * and child never hand out the same bytes.
 * Failure modes: getrandom(2) blocks only in the first moments of a machine's life and fails only for a bug (CHECK).
 */
#include "base/id.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/random.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"

#define POOL_BYTES 4096
#define POOLED_BYTES_MAX 256 /* more is fetched directly */

struct pool {
	size_t left; /* unused bytes, at the end */
	uint8_t bytes[POOL_BYTES];
};

static _Thread_local struct pool pool;

static void on_fork_child(void)
{
	pool.left = 0; /* the only thread that lives on is this one */
}

static __attribute__((constructor)) void watch_forks(void)
{
	CHECK(pthread_atfork(NULL, NULL, on_fork_child) == 0);
}

static void fetch(uint8_t *out, size_t size)
{
	while (size) {
		ssize_t got = getrandom(out, size, 0);
		if (got < 0) {
			CHECK(errno == EINTR);
			continue;
		}
		out += got;
		size -= (size_t)got;
	}
}

void random_bytes(void *out, size_t size)
{
	if (size > POOLED_BYTES_MAX) {
		fetch(out, size);
		return;
	}
	if (pool.left < size) {
		fetch(pool.bytes, POOL_BYTES);
		pool.left = POOL_BYTES;
	}
	uint8_t *from = pool.bytes + POOL_BYTES - pool.left;
	memcpy(out, from, size);
	memset(from, 0, size);
	pool.left -= size;
}

uint64_t random_u64(void)
{
	uint64_t value;
	random_bytes(&value, sizeof value);
	return value;
}

/* Lemire, "Fast Random Integer Generation in an Interval" (2019): the high half of value * bound, redrawn for the few
 * low halves that would make some results more likely. */
uint64_t random_below(uint64_t bound)
{
	CHECK(bound > 0);
	unsigned __int128 product = (unsigned __int128)random_u64() * bound;
	if ((uint64_t)product < bound) {
		uint64_t threshold = (0 - bound) % bound;
		while ((uint64_t)product < threshold)
			product = (unsigned __int128)random_u64() * bound;
	}
	return (uint64_t)(product >> 64);
}

struct uuid uuid_new(void)
{
	struct uuid id;
	random_bytes(id.bytes + 6, 10);
	uint64_t ms = (uint64_t)(clock_unix_us() / 1000);
	for (int i = 5; i >= 0; i--, ms >>= 8)
		id.bytes[i] = (uint8_t)ms;
	id.bytes[6] = (uint8_t)(0x70 | (id.bytes[6] & 0x0f)); /* version 7 */
	id.bytes[8] = (uint8_t)(0x80 | (id.bytes[8] & 0x3f)); /* variant of RFC 9562 */
	return id;
}

void uuid_format(const struct uuid *id, char out[UUID_TEXT_BYTES + 1])
{
	static const char hex[] = "0123456789abcdef";
	for (int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*out++ = '-';
		*out++ = hex[id->bytes[i] >> 4];
		*out++ = hex[id->bytes[i] & 15];
	}
	*out = 0;
}

bool uuid_parse(struct text text, struct uuid *ret_id)
{
	if (text.size != UUID_TEXT_BYTES)
		return false;
	struct uuid id;
	const char *from = text.data;
	for (int i = 0; i < 16; i++, from += 2) {
		if ((i == 4 || i == 6 || i == 8 || i == 10) && *from++ != '-')
			return false;
		int high = text_hex_digit(from[0]), low = text_hex_digit(from[1]);
		if (high < 0 || low < 0)
			return false;
		id.bytes[i] = (uint8_t)(high << 4 | low);
	}
	*ret_id = id;
	return true;
}

bool uuid_equal(const struct uuid *a, const struct uuid *b)
{
	return memcmp(a, b, sizeof *a) == 0;
}

void token_new(char out[TOKEN_BYTES + 1])
{
	static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	uint8_t bytes[18] = {0}; /* 16 random ones, padded to a multiple of 3 */
	random_bytes(bytes, 16);
	char *to = out;
	for (int i = 0; i < 18; i += 3) {
		unsigned group = (unsigned)bytes[i] << 16 | (unsigned)bytes[i + 1] << 8 | bytes[i + 2];
		for (int shift = 18; shift >= 0 && to < out + TOKEN_BYTES; shift -= 6)
			*to++ = alphabet[group >> shift & 63];
	}
	*to = 0;
}
