/* Hostile clients (mob.h): one thread, one epoll, a look at every client each ms, so that they do not come in bunches. The
 * thread gets what others leave: what it takes of the machine is not what is asked. */
#include "lib/mob.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define TICK_MS 1
#define HEADER_BYTES_EVERY_MS 200
#define BODY_BYTES_EVERY_MS 500
#define STREAM_BYTES 65536
#define SEND_BYTES 65536     /* kept by its kernel of what an oversized client says */
#define REQUESTS_UNREAD 3000 /* their answers are more than the kernel keeps for anybody */

struct client {
	enum mob_kind kind;
	int fd; /* -1: away */
	unsigned turn;
	const char *text; /* what it says */
	size_t size, sent;
	size_t at_once; /* of it, before it slows down or leaves */
	bool endless;   /* then bytes for ever */
	bool answered;
	int64_t next_ms; /* it says more, or comes back */
	int64_t back_ms; /* not before */
};

struct mob {
	pthread_t thread;
	pthread_mutex_t mutex; /* the report */
	struct mob_report report;
	bool stopping;
	int port, epoll;
	int back_after_ms;
	int count;
	struct client *clients;
	char *texts[32];
	int text_count;
	/* texts by kind */
	const char *slow_headers, *slow_body, *leavers[4], *oversized[3], *ambiguous[10], *non_reader;
};

static const char stream[STREAM_BYTES] = {[0 ... STREAM_BYTES - 1] = 'x'};

const char *mob_name(enum mob_kind kind)
{
	static const char *const names[MOB_KINDS] = {"slow headers", "slow bodies", "early leavers",
	                                             "oversized",    "ambiguous",   "non-readers"};
	return names[kind];
}

static _Noreturn void give_up(const char *what)
{
	fprintf(stderr, "mob: %s: %s\n", what, strerror(errno));
	abort();
}

static int64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* --- what they say ------------------------------------------------------------------------------------------------ */

static const char *text(struct mob *mob, const char *format, ...) __attribute__((format(printf, 2, 3)));

static const char *text(struct mob *mob, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	char *out;
	if (vasprintf(&out, format, arguments) < 0)
		give_up("memory");
	va_end(arguments);
	mob->texts[mob->text_count++] = out;
	return out;
}

static void write_texts(struct mob *mob, const char *key, const char *sku)
{
	char head[300];
	snprintf(head, sizeof head, "Host: x\r\nAuthorization: Bearer %s\r\n", key);
	const char *post = "POST /v1/checkouts HTTP/1.1\r\n", *json = "Content-Type: application/json\r\n";
	mob->slow_headers = text(mob, "GET /v1/availability/%s HTTP/1.1\r\nX-Slow: %0500d", sku, 0);
	mob->slow_body = text(mob, "%s%s%sContent-Length: 100\r\n\r\n{\"lines\":[%0100d", post, head, json, 0);
	char body[300];
	snprintf(body, sizeof body, "{\"idempotency_key\":\"mob\",\"lines\":[{\"sku\":\"%s\",\"quantity\":1}]}", sku);
	mob->leavers[0] = text(mob, "GET /v1/availability/%s HTTP/1.1\r\n%s\r\n", sku, head);
	mob->leavers[1] = text(mob, "GET /v1/availability/%s HTTP/1.1\r\n%.20s", sku, head);
	mob->leavers[2] = text(mob, "%s%s%sContent-Length: %zu\r\n\r\n%s", post, head, json, strlen(body), body);
	mob->leavers[3] = text(mob, "%s%s%sContent-Length: %zu\r\n\r\n%.20s", post, head, json, strlen(body), body);
	mob->oversized[0] = text(mob, "GET / HTTP/1.1\r\n%sX-Long: ", head);
	mob->oversized[1] = text(mob, "%s%s%sContent-Length: 1048577\r\n\r\n", post, head, json);
	mob->oversized[2] = text(mob, "%s%s%sTransfer-Encoding: chunked\r\n\r\n40000000\r\n", post, head, json);
	const char *framings[10] = {
		"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
		"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
		"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		"Content-Length : 2\r\n\r\n{}",
		"Content-Length: +2\r\n\r\n{}",
		"Content-Length: 2, 2\r\n\r\n{}",
		"X: 1\nContent-Length: 2\r\n\r\n{}",
		"X: 1\r\n Content-Length: 2\r\n\r\n{}",
		"Host: y\r\nContent-Length: 2\r\n\r\n{}",
	};
	for (int i = 0; i < 10; i++)
		mob->ambiguous[i] = text(mob, "%s%s%s%s", post, head, json, framings[i]);
	char one[600], *many = malloc(sizeof one * REQUESTS_UNREAD), *to = many;
	snprintf(one, sizeof one, "GET / HTTP/1.1\r\n%s\r\n", head);
	for (int i = 0; i < REQUESTS_UNREAD; i++)
		to = stpcpy(to, one);
	mob->texts[mob->text_count++] = many;
	mob->non_reader = many;
}

/* What it will say on its next connection. */
static void choose(struct mob *mob, struct client *client)
{
	unsigned turn = client->turn++;
	client->sent = 0;
	client->endless = client->answered = false;
	switch (client->kind) {
	case MOB_SLOW_HEADERS:
		client->text = mob->slow_headers;
		break;
	case MOB_SLOW_BODY:
		client->text = mob->slow_body;
		break;
	case MOB_LEAVERS:
		client->text = mob->leavers[turn % 4];
		break;
	case MOB_OVERSIZED:
		client->text = mob->oversized[turn % 3];
		client->endless = true;
		break;
	case MOB_AMBIGUOUS:
		client->text = mob->ambiguous[turn % 10];
		break;
	case MOB_NON_READERS:
		client->text = mob->non_reader;
		break;
	case MOB_KINDS:
		break;
	}
	client->size = strlen(client->text);
	client->at_once = client->kind == MOB_SLOW_HEADERS ? 20
	                  : client->kind == MOB_SLOW_BODY  ? client->size - 90
	                                                   : client->size;
}

/* --- coming and going --------------------------------------------------------------------------------------------- */

static void leave(struct client *client, bool by_reset)
{
	struct linger linger = {.l_onoff = 1};
	if (by_reset)
		setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
	close(client->fd);
	client->fd = -1;
	client->next_ms = client->back_ms;
}

static void come(struct mob *mob, struct client *client)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
	                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	                              .sin_port = htons((uint16_t)mob->port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		give_up("socket");
	if (client->kind == MOB_NON_READERS)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){4096}, sizeof(int));
	if (client->kind == MOB_OVERSIZED)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){SEND_BYTES}, sizeof(int));
	client->next_ms = client->back_ms = now_ms() + mob->back_after_ms;
	if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0 && errno != EINPROGRESS) {
		close(fd); /* its backlog is full, or we have no port left: again later */
		return;
	}
	choose(mob, client);
	client->fd = fd;
	struct epoll_event event = {.events = EPOLLOUT | EPOLLRDHUP | (client->kind == MOB_NON_READERS ? 0 : EPOLLIN),
	                            .data.ptr = client};
	if (epoll_ctl(mob->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
		give_up("epoll");
	mob->report.connects[client->kind]++;
}

static void thrown_out(struct mob *mob, struct client *client)
{
	mob->report.thrown_out[client->kind]++;
	leave(client, false);
}

static void wait_for(struct mob *mob, struct client *client, bool writable)
{
	struct epoll_event event = {.events = EPOLLRDHUP | (writable ? EPOLLOUT : 0) |
	                                      (client->kind == MOB_NON_READERS ? 0 : EPOLLIN),
	                            .data.ptr = client};
	epoll_ctl(mob->epoll, EPOLL_CTL_MOD, client->fd, &event);
}

/* Says up to `until` bytes of it, or the next of endlessly many. False: it was thrown out. */
static bool say(struct mob *mob, struct client *client, size_t until)
{
	for (bool beyond = false; !beyond && (client->sent < until || client->endless);) {
		beyond = client->sent >= client->size;
		ssize_t n = send(client->fd, beyond ? stream : client->text + client->sent,
		                 beyond ? sizeof stream : until - client->sent, MSG_NOSIGNAL);
		if (n < 0 && (errno == EAGAIN || errno == ENOTCONN))
			return true;
		if (n < 0) {
			thrown_out(mob, client);
			return false;
		}
		client->sent += (size_t)n;
	}
	return true;
}

static void on_writable(struct mob *mob, struct client *client)
{
	if (!say(mob, client, client->at_once) || client->endless || client->sent < client->at_once)
		return;
	if (client->kind == MOB_LEAVERS) {
		leave(client, client->turn % 2);
		return;
	}
	wait_for(mob, client, false);
	client->next_ms = now_ms() + HEADER_BYTES_EVERY_MS;
}

static void on_readable(struct mob *mob, struct client *client)
{
	static char bytes[65536];
	ssize_t n = recv(client->fd, bytes, sizeof bytes - 1, 0);
	if (n > 0) {
		bytes[n] = 0;
		int status;
		if (!client->answered && sscanf(bytes, "HTTP/1.%*1d %3d", &status) == 1 && status < MOB_STATUSES)
			mob->report.answers[client->kind][status]++;
		client->answered = true;
	} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		thrown_out(mob, client);
	}
}

static void tick(struct mob *mob, struct client *client, int64_t now)
{
	if (now < client->next_ms)
		return;
	if (client->fd < 0) {
		come(mob, client);
	} else if (client->sent >= client->at_once && client->sent < client->size) {
		bool header = client->kind == MOB_SLOW_HEADERS;
		client->next_ms = now + (header ? HEADER_BYTES_EVERY_MS : BODY_BYTES_EVERY_MS);
		say(mob, client, client->sent + 1);
	}
}

static void *mob_main(void *context)
{
	struct mob *mob = context;
	struct epoll_event events[512];
	int64_t ticked_ms = 0;
	/* Of this thread alone, as Linux has it. */
	sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
	pthread_mutex_lock(&mob->mutex);
	while (!mob->stopping) {
		int64_t now = now_ms();
		if (now - ticked_ms >= TICK_MS) {
			for (int i = 0; i < mob->count; i++)
				tick(mob, &mob->clients[i], now);
			ticked_ms = now;
		}
		pthread_mutex_unlock(&mob->mutex);
		int count = epoll_wait(mob->epoll, events, 512, TICK_MS);
		pthread_mutex_lock(&mob->mutex);
		for (int i = 0; i < count; i++) {
			struct client *client = events[i].data.ptr;
			if (client->fd >= 0 && events[i].events & (EPOLLERR | EPOLLHUP))
				thrown_out(mob, client);
			if (client->fd >= 0 && events[i].events & EPOLLOUT)
				on_writable(mob, client);
			if (client->fd >= 0 && events[i].events & EPOLLIN)
				on_readable(mob, client);
			else if (client->fd >= 0 && events[i].events & EPOLLRDHUP)
				thrown_out(mob, client);
		}
	}
	pthread_mutex_unlock(&mob->mutex);
	return NULL;
}

struct mob *mob_begin(int port, const char *key, const char *sku, const int each[MOB_KINDS], int back_after_ms)
{
	struct mob *mob = calloc(1, sizeof *mob);
	if (!mob || (mob->epoll = epoll_create1(EPOLL_CLOEXEC)) < 0)
		give_up("epoll");
	mob->port = port;
	mob->back_after_ms = back_after_ms;
	pthread_mutex_init(&mob->mutex, NULL);
	write_texts(mob, key, sku);
	for (int kind = 0; kind < MOB_KINDS; kind++)
		mob->count += each[kind];
	mob->clients = calloc((size_t)mob->count, sizeof *mob->clients);
	if (!mob->clients)
		give_up("memory");
	for (int kind = 0, at = 0; kind < MOB_KINDS; kind++)
		for (int i = 0; i < each[kind]; i++, at++)
			/* They come one by one, not all in the same instant. */
			mob->clients[at] = (struct client){.kind = (enum mob_kind)kind,
			                                   .fd = -1,
			                                   .turn = (unsigned)i,
			                                   .next_ms = now_ms() + (int64_t)back_after_ms * i / each[kind]};
	if (pthread_create(&mob->thread, NULL, mob_main, mob))
		give_up("thread");
	return mob;
}

struct mob_report mob_look(struct mob *mob)
{
	pthread_mutex_lock(&mob->mutex);
	struct mob_report report = mob->report;
	pthread_mutex_unlock(&mob->mutex);
	return report;
}

void mob_end(struct mob *mob, struct mob_report *ret_report)
{
	pthread_mutex_lock(&mob->mutex);
	mob->stopping = true;
	pthread_mutex_unlock(&mob->mutex);
	pthread_join(mob->thread, NULL);
	*ret_report = mob->report;
	for (int i = 0; i < mob->count; i++)
		if (mob->clients[i].fd >= 0)
			close(mob->clients[i].fd);
	for (int i = 0; i < mob->text_count; i++)
		free(mob->texts[i]);
	close(mob->epoll);
	pthread_mutex_destroy(&mob->mutex);
	free(mob->clients);
	free(mob);
}
