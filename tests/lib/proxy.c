/* A proxy for one socket (proxy.h): one thread, poll(), blocking writes (both ends are ours and read). */
#include "lib/proxy.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static _Noreturn void give_up(const char *what)
{
	fprintf(stderr, "proxy: %s: %s\n", what, strerror(errno));
	abort();
}

static int unix_socket(const char *path, struct sockaddr_un *ret_address)
{
	*ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof ret_address->sun_path)
		give_up("path too long");
	strcpy(ret_address->sun_path, path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		give_up("socket");
	return fd;
}

static void pair_close(struct proxy_pair *pair)
{
	for (int side = 0; side < 2; side++)
		if (pair->fd[side] >= 0)
			close(pair->fd[side]);
	free(pair->kept);
	*pair = (struct proxy_pair){.fd = {-1, -1}};
}

static void accept_one(struct proxy *p)
{
	struct sockaddr_un address;
	int client = accept(p->listener, NULL, NULL);
	if (client < 0)
		return;
	int server = unix_socket(p->target_path, &address);
	for (int i = 0; i < PROXY_CONNECTIONS; i++) {
		if (p->pairs[i].fd[0] >= 0)
			continue;
		if (p->refusing || connect(server, (struct sockaddr *)&address, sizeof address) != 0)
			break;
		p->pairs[i] = (struct proxy_pair){.fd = {client, server}};
		return;
	}
	close(server);
	close(client);
}

static bool write_all(int fd, const char *bytes, long size)
{
	while (size > 0) {
		ssize_t n = send(fd, bytes, (size_t)size, MSG_NOSIGNAL);
		if (n < 0 && errno != EINTR)
			return false;
		if (n > 0) {
			bytes += n;
			size -= n;
		}
	}
	return true;
}

/* Applies the rule to a chunk on its way `to` one side. Returns false when the pair is to be closed. */
static bool pass(struct proxy *p, struct proxy_pair *pair, enum proxy_direction to, char *bytes, long size)
{
	int fd = pair->fd[to == PROXY_TO_SERVER ? 1 : 0];
	if (pair->state == PAIR_DROP_ANSWER)
		return to == PROXY_TO_SERVER && write_all(fd, bytes, size);
	char *match = p->armed && to == p->direction ? memmem(bytes, (size_t)size, p->needle, strlen(p->needle)) : NULL;
	if (!match)
		return write_all(fd, bytes, size);
	p->armed = false;
	p->matches++;
	pthread_cond_broadcast(&p->changed);
	switch (p->action) {
	case PROXY_CUT_BEFORE:
		return false;
	case PROXY_CUT_AFTER:
		(void)write_all(fd, bytes, size);
		return false;
	case PROXY_CUT_AFTER_ANSWER:
		pair->state = PAIR_DROP_ANSWER;
		return write_all(fd, bytes, size);
	case PROXY_HOLD:
		pair->held = true;
		pair->kept = malloc((size_t)size);
		memcpy(pair->kept, bytes, (size_t)size);
		pair->kept_size = size;
		pair->kept_to = to;
		return true;
	case PROXY_TWICE:
		return write_all(fd, bytes, size) && write_all(fd, bytes, size);
	case PROXY_REPLACE:
		memcpy(match, p->replacement, strlen(p->replacement));
		return write_all(fd, bytes, size);
	}
	return false;
}

static void read_side(struct proxy *p, struct proxy_pair *pair, int side)
{
	static _Thread_local char bytes[1 << 18];
	ssize_t n = recv(pair->fd[side], bytes, sizeof bytes, 0);
	if (n <= 0 || !pass(p, pair, side == 0 ? PROXY_TO_SERVER : PROXY_TO_CLIENT, bytes, n))
		pair_close(pair);
}

static void *proxy_main(void *context)
{
	struct proxy *p = context;
	pthread_mutex_lock(&p->mutex);
	while (!p->stopping) {
		struct pollfd polled[2 + 2 * PROXY_CONNECTIONS] = {{.fd = p->listener, .events = POLLIN},
		                                                   {.fd = p->wake[0], .events = POLLIN}};
		for (int i = 0; i < PROXY_CONNECTIONS; i++)
			for (int side = 0; side < 2; side++)
				polled[2 + 2 * i + side] = (struct pollfd){.fd = p->pairs[i].held ? -1 : p->pairs[i].fd[side],
				                                           .events = POLLIN};
		unsigned delay_us = p->delay_us;
		pthread_mutex_unlock(&p->mutex);
		poll(polled, sizeof polled / sizeof *polled, -1);
		if (delay_us)
			usleep(delay_us);
		pthread_mutex_lock(&p->mutex);
		char byte;
		if (polled[1].revents && read(p->wake[0], &byte, 1) < 0)
			give_up("wake");
		for (int i = 0; i < PROXY_CONNECTIONS; i++)
			for (int side = 0; side < 2; side++)
				if (polled[2 + 2 * i + side].revents && !p->pairs[i].held &&
				    p->pairs[i].fd[side] == polled[2 + 2 * i + side].fd)
					read_side(p, &p->pairs[i], side);
		if (polled[0].revents)
			accept_one(p);
	}
	pthread_mutex_unlock(&p->mutex);
	return NULL;
}

static void wake(struct proxy *p)
{
	if (write(p->wake[1], "", 1) != 1)
		give_up("wake");
}

void proxy_start(struct proxy *p, const char *listen_path, const char *target_path)
{
	memset(p, 0, sizeof *p);
	snprintf(p->listen_path, sizeof p->listen_path, "%s", listen_path);
	snprintf(p->target_path, sizeof p->target_path, "%s", target_path);
	for (int i = 0; i < PROXY_CONNECTIONS; i++)
		p->pairs[i].fd[0] = p->pairs[i].fd[1] = -1;
	pthread_mutex_init(&p->mutex, NULL);
	pthread_cond_init(&p->changed, NULL);
	struct sockaddr_un address;
	p->listener = unix_socket(listen_path, &address);
	unlink(listen_path);
	if (bind(p->listener, (struct sockaddr *)&address, sizeof address) || listen(p->listener, 64) || pipe(p->wake))
		give_up(listen_path);
	if (pthread_create(&p->thread, NULL, proxy_main, p))
		give_up("thread");
}

void proxy_stop(struct proxy *p)
{
	pthread_mutex_lock(&p->mutex);
	p->stopping = true;
	pthread_mutex_unlock(&p->mutex);
	wake(p);
	pthread_join(p->thread, NULL);
	for (int i = 0; i < PROXY_CONNECTIONS; i++)
		pair_close(&p->pairs[i]);
	close(p->listener);
	close(p->wake[0]);
	close(p->wake[1]);
	unlink(p->listen_path);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->mutex);
}

void proxy_when(struct proxy *p, enum proxy_direction direction, const char *needle, enum proxy_action action)
{
	pthread_mutex_lock(&p->mutex);
	p->direction = direction;
	p->action = action;
	snprintf(p->needle, sizeof p->needle, "%s", needle);
	p->armed = true;
	pthread_mutex_unlock(&p->mutex);
}

void proxy_replace(struct proxy *p, enum proxy_direction direction, const char *needle, const char *replacement)
{
	pthread_mutex_lock(&p->mutex);
	snprintf(p->replacement, sizeof p->replacement, "%s", replacement);
	pthread_mutex_unlock(&p->mutex);
	proxy_when(p, direction, needle, PROXY_REPLACE);
}

void proxy_wait_matches(struct proxy *p, unsigned matches)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 30;
	pthread_mutex_lock(&p->mutex);
	while (p->matches < matches)
		if (pthread_cond_timedwait(&p->changed, &p->mutex, &until) == ETIMEDOUT)
			give_up("the rule was not met in 30 s");
	pthread_mutex_unlock(&p->mutex);
}

unsigned proxy_matches(struct proxy *p)
{
	pthread_mutex_lock(&p->mutex);
	unsigned matches = p->matches;
	pthread_mutex_unlock(&p->mutex);
	return matches;
}

void proxy_release(struct proxy *p)
{
	pthread_mutex_lock(&p->mutex);
	for (int i = 0; i < PROXY_CONNECTIONS; i++) {
		struct proxy_pair *pair = &p->pairs[i];
		if (!pair->held)
			continue;
		pair->held = false;
		if (!write_all(pair->fd[pair->kept_to == PROXY_TO_SERVER ? 1 : 0], pair->kept, pair->kept_size))
			pair_close(pair);
		free(pair->kept);
		pair->kept = NULL;
	}
	pthread_mutex_unlock(&p->mutex);
	wake(p);
}

void proxy_delay(struct proxy *p, unsigned delay_us)
{
	pthread_mutex_lock(&p->mutex);
	p->delay_us = delay_us;
	pthread_mutex_unlock(&p->mutex);
}

void proxy_cut_all(struct proxy *p, bool refusing)
{
	pthread_mutex_lock(&p->mutex);
	p->refusing = refusing;
	for (int i = 0; i < PROXY_CONNECTIONS; i++)
		pair_close(&p->pairs[i]);
	pthread_mutex_unlock(&p->mutex);
	wake(p);
}
