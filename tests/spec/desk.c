/* Where threads report at sync points (desk.h): one thread, poll().
 *
 * Happy path: accept, read the point's name, compare it with what was asked for: answer at once, or keep the connection
 * until desk_go_on(). Failure modes: a process that was killed leaves a closed connection, which is kept like any other.
 */
#include "spec/desk.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define INSTANCES_MAX 4
#define REQUESTS_MAX 16
#define POINT_BYTES 40

struct request {
	bool used, armed;
	size_t instance;
	char point[POINT_BYTES];
	int fd; /* of the thread that stands there; -1: none yet */
};

struct desk {
	pthread_t thread;
	pthread_mutex_t mutex;
	int wake[2];
	bool stopping;
	int listeners[INSTANCES_MAX];
	struct request requests[REQUESTS_MAX];
};

static _Noreturn void give_up(const char *what)
{
	fprintf(stderr, "desk: %s: %s\n", what, strerror(errno));
	abort();
}

static void wake(struct desk *d)
{
	if (write(d->wake[1], "", 1) != 1)
		give_up("wake");
}

static void report_take(struct desk *d, size_t instance)
{
	char point[POINT_BYTES] = "";
	int fd = accept4(d->listeners[instance], NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0)
		return;
	/* Who has just connected writes at once, unless it was stopped in between. */
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = 1}, sizeof(struct timeval));
	for (size_t size = 0; size < sizeof point - 1; size++)
		if (recv(fd, point + size, 1, 0) != 1 || !point[size])
			break;
	for (int i = 0; i < REQUESTS_MAX; i++) {
		struct request *r = &d->requests[i];
		if (r->used && r->armed && r->instance == instance && strcmp(r->point, point) == 0) {
			r->armed = false;
			r->fd = fd;
			return;
		}
	}
	close(fd);
}

static void *desk_main(void *context)
{
	struct desk *d = context;
	char byte;
	pthread_mutex_lock(&d->mutex);
	while (!d->stopping) {
		struct pollfd polled[1 + INSTANCES_MAX] = {{.fd = d->wake[0], .events = POLLIN}};
		for (int i = 0; i < INSTANCES_MAX; i++)
			polled[1 + i] = (struct pollfd){.fd = d->listeners[i], .events = POLLIN};
		pthread_mutex_unlock(&d->mutex);
		poll(polled, 1 + INSTANCES_MAX, -1);
		pthread_mutex_lock(&d->mutex);
		if (polled[0].revents && read(d->wake[0], &byte, 1) < 0)
			give_up("wake");
		for (size_t i = 0; i < INSTANCES_MAX; i++)
			if (polled[1 + i].revents && d->listeners[i] == polled[1 + i].fd)
				report_take(d, i);
	}
	pthread_mutex_unlock(&d->mutex);
	return NULL;
}

struct desk *desk_new(void)
{
	struct desk *d = calloc(1, sizeof *d);
	if (!d || pipe(d->wake) != 0)
		give_up("desk");
	for (int i = 0; i < INSTANCES_MAX; i++)
		d->listeners[i] = -1;
	pthread_mutex_init(&d->mutex, NULL);
	if (pthread_create(&d->thread, NULL, desk_main, d) != 0)
		give_up("thread");
	return d;
}

void desk_free(struct desk *d)
{
	desk_reset(d);
	pthread_mutex_lock(&d->mutex);
	d->stopping = true;
	pthread_mutex_unlock(&d->mutex);
	wake(d);
	pthread_join(d->thread, NULL);
	for (int i = 0; i < INSTANCES_MAX; i++)
		if (d->listeners[i] >= 0)
			close(d->listeners[i]);
	close(d->wake[0]);
	close(d->wake[1]);
	pthread_mutex_destroy(&d->mutex);
	free(d);
}

void desk_listen(struct desk *d, size_t instance, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
	unlink(path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 64) != 0)
		give_up(path);
	pthread_mutex_lock(&d->mutex);
	d->listeners[instance] = fd;
	pthread_mutex_unlock(&d->mutex);
	wake(d);
}

static struct request *request_find(struct desk *d, size_t instance, const char *point)
{
	for (int i = 0; i < REQUESTS_MAX; i++) {
		struct request *r = &d->requests[i];
		if (r->used && r->instance == instance && strcmp(r->point, point) == 0)
			return r;
	}
	return NULL;
}

static void request_end(struct request *r)
{
	if (r->fd >= 0)
		close(r->fd);
	*r = (struct request){.fd = -1};
}

void desk_stop_at(struct desk *d, size_t instance, const char *point)
{
	pthread_mutex_lock(&d->mutex);
	struct request *r = request_find(d, instance, point);
	if (r)
		request_end(r);
	for (int i = 0; !r && i < REQUESTS_MAX; i++)
		if (!d->requests[i].used)
			r = &d->requests[i];
	if (!r)
		give_up("too many points");
	*r = (struct request){.used = true, .armed = true, .instance = instance, .fd = -1};
	snprintf(r->point, sizeof r->point, "%s", point);
	pthread_mutex_unlock(&d->mutex);
}

bool desk_reached(struct desk *d, size_t instance, const char *point)
{
	pthread_mutex_lock(&d->mutex);
	const struct request *r = request_find(d, instance, point);
	bool reached = r && r->fd >= 0;
	pthread_mutex_unlock(&d->mutex);
	return reached;
}

void desk_go_on(struct desk *d, size_t instance, const char *point)
{
	pthread_mutex_lock(&d->mutex);
	struct request *r = request_find(d, instance, point);
	if (r)
		request_end(r);
	pthread_mutex_unlock(&d->mutex);
}

void desk_reset(struct desk *d)
{
	pthread_mutex_lock(&d->mutex);
	for (int i = 0; i < REQUESTS_MAX; i++)
		if (d->requests[i].used)
			request_end(&d->requests[i]);
	pthread_mutex_unlock(&d->mutex);
}
