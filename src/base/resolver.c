/* The look-ups under way, and those whose answer nobody has taken yet, in one list behind one lock.
 *
 * Happy path: resolver_lookup_new() starts a thread; that calls getaddrinfo(), writes down the answer and wakes all
 * who wait through an eventfd that stays readable; the first to take the answer takes the look-up off the list.
 * Failure modes: no such name is an answer too; a thread that never comes back keeps its look-up for ever, but nobody
 * waits for it; too many of those, or no thread to be had, is a sentence.
 */
#include "base/resolver.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"

struct resolver_lookup {
	char host[RESOLVER_NAME_BYTES];
	int port;
	int fd; /* eventfd, never read */
	/* the rest under the mutex; `addresses` and `error` are final once it is done */
	bool done, listed;
	unsigned holders; /* askers, the thread, the list: the last one frees */
	int64_t begun_ns, done_ns;
	struct resolver_addresses addresses;
	int error; /* of getaddrinfo */
	LIST_ENTRY(resolver_lookup) entry;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, resolver_lookup) lookups = LIST_HEAD_INITIALIZER(lookups);
static unsigned threads; /* that have not come back */

static int addresses_of(const char *host, int port, int flags, struct resolver_addresses *ret_addresses)
{
	char service[16];
	snprintf(service, sizeof service, "%d", port);
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
	struct addrinfo *list = NULL;
	int error = getaddrinfo(host, service, &hints, &list);
	if (error)
		return error;
	ret_addresses->count = 0;
	for (const struct addrinfo *a = list; a && ret_addresses->count < RESOLVER_ADDRESSES_MAX; a = a->ai_next) {
		struct resolver_address *address = &ret_addresses->items[ret_addresses->count++];
		CHECK(a->ai_addrlen <= sizeof address->address);
		memcpy(&address->address, a->ai_addr, a->ai_addrlen);
		address->size = a->ai_addrlen;
	}
	freeaddrinfo(list);
	return 0;
}

bool resolver_literal(const char *host, int port, struct resolver_addresses *ret_addresses)
{
	return addresses_of(host, port, AI_NUMERICHOST, ret_addresses) == 0;
}

/* Under the mutex. */
static void release(struct resolver_lookup *lookup)
{
	if (--lookup->holders > 0)
		return;
	close(lookup->fd);
	free(lookup);
}

/* Under the mutex: from now on nobody joins it. */
static void unlist(struct resolver_lookup *lookup)
{
	if (!lookup->listed)
		return;
	lookup->listed = false;
	LIST_REMOVE(lookup, entry);
	release(lookup);
}

static void *lookup_run(void *context)
{
	struct resolver_lookup *lookup = context;
	struct resolver_addresses addresses = {0};
	int error = addresses_of(lookup->host, lookup->port, 0, &addresses);
	pthread_mutex_lock(&mutex);
	lookup->addresses = addresses;
	lookup->error = error;
	lookup->done = true;
	lookup->done_ns = clock_boottime_ns();
	CHECK(eventfd_write(lookup->fd, 1) == 0);
	threads--;
	release(lookup);
	pthread_mutex_unlock(&mutex);
	return NULL;
}

/* Under the mutex: the look-up of this name that a new asker may share. */
static struct resolver_lookup *find(const char *host, int port)
{
	struct resolver_lookup *found = NULL, *next;
	int64_t now_ns = clock_boottime_ns();
	for (struct resolver_lookup *lookup = LIST_FIRST(&lookups); lookup; lookup = next) {
		next = LIST_NEXT(lookup, entry);
		if (lookup->done ? now_ns - lookup->done_ns > RESOLVER_KEPT_MS * NS_PER_MS
		                 : now_ns - lookup->begun_ns > RESOLVER_HUNG_MS * NS_PER_MS)
			unlist(lookup);
		else if (lookup->port == port && strcmp(lookup->host, host) == 0)
			found = lookup;
	}
	return found;
}

/* Under the mutex. */
static bool start(struct resolver_lookup *lookup)
{
	pthread_t thread;
	pthread_attr_t attributes;
	CHECK(pthread_attr_init(&attributes) == 0);
	CHECK(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0);
	bool started = lookup->fd >= 0 && pthread_create(&thread, &attributes, lookup_run, lookup) == 0;
	pthread_attr_destroy(&attributes);
	if (!started) {
		if (lookup->fd >= 0)
			close(lookup->fd);
		free(lookup);
		return false;
	}
	threads++;
	lookup->holders = 3; /* the asker, the thread, the list */
	lookup->listed = true;
	LIST_INSERT_HEAD(&lookups, lookup, entry);
	return true;
}

struct resolver_lookup *resolver_lookup_new(const char *host, int port, char error[RESOLVER_ERROR_BYTES])
{
	if (strlen(host) >= RESOLVER_NAME_BYTES) {
		snprintf(error, RESOLVER_ERROR_BYTES, "cannot resolve %.60s…: no name is that long", host);
		return NULL;
	}
	pthread_mutex_lock(&mutex);
	struct resolver_lookup *lookup = find(host, port);
	if (lookup) {
		lookup->holders++;
	} else if (threads >= RESOLVER_THREADS_MAX) {
		snprintf(error, RESOLVER_ERROR_BYTES, "cannot resolve %.150s: %u look-ups hang already", host, threads);
	} else {
		lookup = calloc(1, sizeof *lookup);
		CHECK(lookup);
		snprintf(lookup->host, sizeof lookup->host, "%s", host);
		lookup->port = port;
		lookup->begun_ns = clock_boottime_ns();
		lookup->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		if (!start(lookup)) {
			lookup = NULL;
			snprintf(error, RESOLVER_ERROR_BYTES, "cannot resolve %.150s: no thread for it", host);
		}
	}
	pthread_mutex_unlock(&mutex);
	return lookup;
}

int resolver_lookup_fd(const struct resolver_lookup *lookup)
{
	return lookup->fd;
}

bool resolver_lookup_take(struct resolver_lookup *lookup, struct resolver_addresses *ret_addresses,
                          char error[RESOLVER_ERROR_BYTES])
{
	pthread_mutex_lock(&mutex);
	CHECK(lookup->done);
	unlist(lookup);
	pthread_mutex_unlock(&mutex);
	if (lookup->error) {
		snprintf(error, RESOLVER_ERROR_BYTES, "cannot resolve %.150s: %s", lookup->host, gai_strerror(lookup->error));
		return false;
	}
	*ret_addresses = lookup->addresses;
	return true;
}

void resolver_lookup_free(struct resolver_lookup *lookup)
{
	if (!lookup)
		return;
	pthread_mutex_lock(&mutex);
	release(lookup);
	pthread_mutex_unlock(&mutex);
}

static bool wait_readable(int fd, int64_t deadline_ns)
{
	struct pollfd poller = {.fd = fd, .events = POLLIN};
	for (;;) {
		int left_ms = deadline_left_ms(deadline_ns), n = poll(&poller, 1, left_ms);
		CHECK(n >= 0 || errno == EINTR);
		if (n > 0)
			return true;
		if (left_ms == 0)
			return false;
	}
}

bool resolver_resolve(const char *host, int port, int64_t deadline_ns, struct resolver_addresses *ret_addresses,
                      char error[RESOLVER_ERROR_BYTES])
{
	if (resolver_literal(host, port, ret_addresses))
		return true;
	struct resolver_lookup *lookup = resolver_lookup_new(host, port, error);
	if (!lookup)
		return false;
	bool found = false;
	if (wait_readable(resolver_lookup_fd(lookup), deadline_ns))
		found = resolver_lookup_take(lookup, ret_addresses, error);
	else
		snprintf(error, RESOLVER_ERROR_BYTES, "%.150s was not resolved in time", host);
	resolver_lookup_free(lookup);
	return found;
}
