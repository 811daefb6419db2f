/* The server: one listening socket, its loops, start and stop.
 *
 * Happy path: server_start() binds, starts the loops, waits until each has run loop_start, and only then has loop 0
 * accept. Loop 0 gives each accepted socket to the loop with the fewest connections, through its mailbox: SO_REUSEPORT
 * would hash a few busy clients onto one loop and leave the other idle.
 * server_stop(): loop 0 stops listening and then posts to each loop to drain; a mailbox keeps the order, so sockets
 * handed over before are drained too.
 * Failure modes: an address that cannot be bound (a sentence); out of descriptors while accepting (a pause of one
 * tick, clients wait in the backlog); too many connections (503, or at once closed when even those are too many).
 */
#include "http/server.h"

#include <errno.h>
#include <event2/event.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/container.h"
#include "base/log.h"
#include "base/resolver.h"
#include "http/connection.h"
#include "http/loop.h"

#define BACKLOG 1024
#define RESOLVE_MS 5000
#define SEND_BYTES (256 * 1024) /* left to itself the kernel keeps 4 MiB for each client who does not read */
#define DESCRIPTORS_FOR_OTHERS 512
#define REFUSED_AT_ONCE_MAX 64  /* connections beyond the limit that are told so */
#define TOLD_EVERY_S 10         /* that there is no descriptor for another connection */
#define ACCEPTED_AT_ONCE_MAX 16 /* then those who are here already have their turn */

static _Thread_local char why_text[400];

/* --- the address ------------------------------------------------------------------------------------------------ */

/* "host:port", "[v6]:port" → its parts in the caller's room. */
static bool split_address(const char *address, char host[256], char port[8])
{
	const char *colon = strrchr(address, ':');
	if (!colon || strlen(colon + 1) == 0 || strlen(colon + 1) > 5 ||
	    strspn(colon + 1, "0123456789") != strlen(colon + 1))
		return false;
	const char *from = address, *to = colon;
	if (*from == '[') {
		if (to - from < 3 || to[-1] != ']')
			return false;
		from++;
		to--;
	} else if (memchr(from, ':', (size_t)(to - from))) {
		return false; /* IPv6 wants its brackets, or nobody knows which colon ends it */
	}
	if (to == from || to - from >= 256)
		return false;
	snprintf(host, 256, "%.*s", (int)(to - from), from);
	snprintf(port, 8, "%s", colon + 1);
	return atoi(port) <= 65535;
}

static int bind_listener(const struct resolver_address *address)
{
	int fd = socket(address->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	int on = 1, send_bytes = SEND_BYTES;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	/* Accepted sockets inherit both. */
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof send_bytes);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	if (bind(fd, (const struct sockaddr *)&address->address, address->size) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	int error = errno;
	close(fd);
	errno = error;
	return -1;
}

static int open_listener(const char *address, const char **ret_why)
{
	char host[256], port[8], unresolved[RESOLVER_ERROR_BYTES];
	struct resolver_addresses addresses;
	*ret_why = why_text;
	if (!split_address(address, host, port)) {
		snprintf(why_text, sizeof why_text, "\"%s\" is not an address: write 127.0.0.1:8080 or [::1]:8080", address);
		return -1;
	}
	if (!resolver_resolve(host, atoi(port), deadline_in_ms(RESOLVE_MS), &addresses, unresolved)) {
		snprintf(why_text, sizeof why_text, "\"%.100s\" is not an address of this machine: %s", address, unresolved);
		return -1;
	}
	int fd = bind_listener(&addresses.items[0]);
	if (fd < 0 && errno == EADDRINUSE)
		snprintf(why_text, sizeof why_text, "%s is in use by another program", address);
	else if (fd < 0)
		snprintf(why_text, sizeof why_text, "cannot listen on %s: %s", address, strerror(errno));
	return fd;
}

static void name_address(struct server *server)
{
	struct sockaddr_storage bound;
	socklen_t size = sizeof bound;
	char host[NI_MAXHOST], port[NI_MAXSERV];
	CHECK(getsockname(server->listen_fd, (struct sockaddr *)&bound, &size) == 0);
	CHECK(getnameinfo((struct sockaddr *)&bound, size, host, sizeof host, port, sizeof port,
	                  NI_NUMERICHOST | NI_NUMERICSERV) == 0);
	snprintf(server->address, sizeof server->address, bound.ss_family == AF_INET6 ? "[%.60s]:%.8s" : "%.60s:%.8s", host,
	         port);
}

const char *server_address(const struct server *server)
{
	return server->address;
}

/* --- accepting, on loop 0 --------------------------------------------------------------------------------------- */

/* The one with the fewest connections; of equals the next after the last served, so that they take turns. */
static struct server_loop *choose_loop(struct server *server)
{
	size_t best = 0;
	int best_count = INT32_MAX;
	for (size_t i = 1; i <= server->loop_count; i++) {
		size_t at = (server->loop_last + i) % server->loop_count;
		int count = atomic_load_explicit(&server->loops[at].connection_count, memory_order_relaxed);
		if (count < best_count) {
			best = at;
			best_count = count;
		}
	}
	server->loop_last = best;
	return &server->loops[best];
}

static void welcome(struct server *server, int fd)
{
	int64_t count = atomic_load_explicit(&server->connection_count, memory_order_relaxed);
	if (count >= server->connections_max + REFUSED_AT_ONCE_MAX) {
		close(fd);
		return;
	}
	struct connection *connection = calloc(1, sizeof *connection);
	CHECK(connection);
	connection->fd = fd;
	connection->over_limit = count >= server->connections_max;
	connection->loop = choose_loop(server);
	connection->arrival.deliver = connection_arrive;
	atomic_fetch_add_explicit(&server->connection_count, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&connection->loop->connection_count, 1, memory_order_relaxed);
	if (connection->loop == server->loops)
		connection_arrive(&connection->arrival);
	else
		mailbox_post(&connection->loop->mailbox, &connection->arrival);
}

/* Mostly EMFILE: accepting again at once would spin. on_tick() of loop 0 enables it again. */
static void pause_accepting(struct server *server)
{
	int64_t now_ns = clock_boottime_ns();
	if (now_ns >= server->accept_tell_ns) {
		log_event(LOG_WARN, "http_accept_failed error=\"%s\"", strerror(errno));
		server->accept_tell_ns = now_ns + TOLD_EVERY_S * NS_PER_S;
	}
	event_del(server->listener);
	server->listener_paused = true;
}

/* Strangers wait in the backlog: the event is level-triggered and comes again in the next round of the loop.
 * (libevent's own listener takes all of them at once, thousands if a flood has come.) */
static void on_accept(evutil_socket_t listen_fd, short what, void *context)
{
	struct server *server = context;
	loop_read_clock(server->loops);
	for (int i = 0; i < ACCEPTED_AT_ONCE_MAX; i++) {
		int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0)
			welcome(server, fd);
		else if (errno == EAGAIN || errno == EWOULDBLOCK)
			return;
		else if (errno != EINTR && errno != ECONNABORTED) {
			pause_accepting(server);
			return;
		}
	}
}

static void on_listen(struct mailbox_item *item)
{
	struct server *server = CONTAINER_OF(item, struct server, listen_item);
	server->listener = event_new(server->loops[0].base, server->listen_fd, EV_READ | EV_PERSIST, on_accept, server);
	CHECK(server->listener && event_add(server->listener, NULL) == 0);
}

/* --- start and stop --------------------------------------------------------------------------------------------- */

static void on_drain(struct mailbox_item *item)
{
	loop_drain(CONTAINER_OF(item, struct server_loop, drain_item));
}

static void on_stop(struct mailbox_item *item)
{
	struct server *server = CONTAINER_OF(item, struct server, stop_item);
	event_free(server->listener);
	server->listener = NULL;
	close(server->listen_fd);
	for (size_t i = 0; i < server->loop_count; i++)
		mailbox_post(&server->loops[i].mailbox, &server->loops[i].drain_item);
}

/* Every connection is a descriptor, and the soft limit of 1024 is there for programs that use select(). */
static void raise_descriptor_limit(int64_t connections_max)
{
	struct rlimit limit;
	rlim_t wanted = (rlim_t)connections_max + DESCRIPTORS_FOR_OTHERS;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
		return;
	limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
	if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < (rlim_t)connections_max)
		log_event(LOG_WARN, "http_descriptors_short limit=%llu wanted=%llu", (unsigned long long)limit.rlim_cur,
		          (unsigned long long)wanted);
}

static struct server *server_new(const struct config *config, const struct router *router, struct server_hooks hooks)
{
	size_t loop_count = (size_t)config->http_loops;
	struct server *server = calloc(1, sizeof *server + loop_count * sizeof server->loops[0]);
	CHECK(server);
	server->times = (struct server_times){
		.header_ns = config->header_timeout_ms * NS_PER_MS,
		.body_ns = config->body_timeout_ms * NS_PER_MS,
		.idle_ns = config->idle_timeout_ms * NS_PER_MS,
		.request_ns = config->request_timeout_ms * NS_PER_MS,
		.drain_ns = config->drain_timeout_ms * NS_PER_MS,
	};
	server->router = *router;
	server->hooks = hooks;
	server->connections_max = config->http_connections_max;
	server->listen_item.deliver = on_listen;
	server->stop_item.deliver = on_stop;
	server->loop_count = loop_count;
	CHECK(sem_init(&server->started, 0, 0) == 0);
	for (size_t i = 0; i < loop_count; i++) {
		CHECK(loop_init(&server->loops[i], server));
		server->loops[i].drain_item.deliver = on_drain;
	}
	return server;
}

struct server *server_start(const struct config *config, const struct router *router, struct server_hooks hooks,
                            const char **ret_why)
{
	int fd = open_listener(config->listen, ret_why);
	if (fd < 0)
		return NULL;
	raise_descriptor_limit(config->http_connections_max);
	struct server *server = server_new(config, router, hooks);
	server->listen_fd = fd;
	name_address(server);
	/* Signals are the main thread's. */
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (size_t i = 0; i < server->loop_count; i++) {
		char name[16];
		snprintf(name, sizeof name, "http-%u", (unsigned)i);
		CHECK(pthread_create(&server->loops[i].thread, NULL, loop_main, &server->loops[i]) == 0);
		pthread_setname_np(server->loops[i].thread, name);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	for (size_t i = 0; i < server->loop_count; i++)
		while (sem_wait(&server->started) != 0)
			CHECK(errno == EINTR);
	mailbox_post(&server->loops[0].mailbox, &server->listen_item);
	return server;
}

void server_stop(struct server *server)
{
	CHECK(!server->stopped);
	server->stopped = true;
	mailbox_post(&server->loops[0].mailbox, &server->stop_item);
	for (size_t i = 0; i < server->loop_count; i++)
		CHECK(pthread_join(server->loops[i].thread, NULL) == 0);
}

void server_free(struct server *server)
{
	if (!server)
		return;
	CHECK(server->stopped);
	/* An answer may still be posted to an abandoned loop: then all of it stays. */
	for (size_t i = 0; i < server->loop_count; i++)
		if (server->loops[i].abandoned)
			return;
	for (size_t i = 0; i < server->loop_count; i++)
		loop_done(&server->loops[i]);
	sem_destroy(&server->started);
	free(server);
}
