/* Names of hosts to addresses, without ever waiting longer than told.
 *
 * getaddrinfo() hangs for as long as the resolver pleases, so a thread of its own calls it. Whoever gives up leaves the
 * look-up running, and whoever asks for the same name meanwhile waits for the same one: a resolver that never answers
 * costs one thread a name, after RESOLVER_HUNG_MS one more, and never more than RESOLVER_THREADS_MAX. An answer that
 * came when nobody was waiting is kept RESOLVER_KEPT_MS for the next who asks; one that was taken is never given again
 * to others, so each reconnect asks anew and a failover by DNS is followed.
 * Thread: any; a look-up's fd, take and free are its asker's.
 */
#ifndef BASE_RESOLVER_H
#define BASE_RESOLVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define RESOLVER_ADDRESSES_MAX 8 /* of one name; the rest is not tried */
#define RESOLVER_NAME_BYTES 256
#define RESOLVER_ERROR_BYTES 256
#define RESOLVER_THREADS_MAX 16
#define RESOLVER_HUNG_MS 30000 /* longer than a resolver that works ever takes: who asks now asks beside it */
#define RESOLVER_KEPT_MS 2000

struct resolver_address {
	struct sockaddr_storage address;
	socklen_t size;
};

struct resolver_addresses {
	size_t count;
	struct resolver_address items[RESOLVER_ADDRESSES_MAX];
};

/* A numeric address needs no look-up: true, and *ret_addresses. */
bool resolver_literal(const char *host, int port, struct resolver_addresses *ret_addresses);

struct resolver_lookup;

/* NULL with a sentence when no thread can be had, or too many hang already. */
struct resolver_lookup *resolver_lookup_new(const char *host, int port, char error[RESOLVER_ERROR_BYTES]);
/* Becomes readable, and stays so, when the answer is there. */
int resolver_lookup_fd(const struct resolver_lookup *lookup);
/* Once it is readable. False with a sentence when the name has no address. */
bool resolver_lookup_take(struct resolver_lookup *lookup, struct resolver_addresses *ret_addresses,
                          char error[RESOLVER_ERROR_BYTES]);
void resolver_lookup_free(struct resolver_lookup *lookup); /* accepts NULL */

/* All of it, waiting to the deadline (BOOTTIME ns). False with a sentence. */
bool resolver_resolve(const char *host, int port, int64_t deadline_ns, struct resolver_addresses *ret_addresses,
                      char error[RESOLVER_ERROR_BYTES]);

#endif
