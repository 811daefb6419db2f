/* An endpoint of webhooks (receiver.h). Its signatures are computed from the specification, not with
 * the code under test. */
#include "lib/receiver.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS_MAX 32
#define REQUEST_MAX 65536
#define WAIT_S 20

struct client {
	int fd;
	size_t size;
	char bytes[REQUEST_MAX];
};

static void need(bool condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "receiver: %s: %s\n", what, strerror(errno));
	abort();
}

static void copy_field(const char *head, const char *name, char *out, size_t room)
{
	char line[80];
	snprintf(line, sizeof line, "\r\n%s:", name);
	const char *at = strcasestr(head, line);
	*out = 0;
	if (!at)
		return;
	at += strlen(line);
	at += strspn(at, " ");
	snprintf(out, room, "%.*s", (int)strcspn(at, "\r"), at);
}

/* Keeps the delivery; the answer's bytes go to `out`. False: none is given. */
static bool keep(struct receiver *r, const char *head, const char *body, size_t size, char out[400])
{
	struct delivery *d = calloc(1, sizeof *d);
	char time[40];
	need(d, "memory");
	copy_field(head, "webhook-id", d->id, sizeof d->id);
	copy_field(head, "webhook-signature", d->signature, sizeof d->signature);
	copy_field(head, "content-type", d->content_type, sizeof d->content_type);
	copy_field(head, "webhook-timestamp", time, sizeof time);
	d->time_s = atoll(time);
	d->body = strndup(body, size);
	d->json = json_loads(d->body, 0, NULL);
	pthread_mutex_lock(&r->mutex);
	d->status = r->status;
	snprintf(out, 400, "HTTP/1.1 %d Told\r\nContent-Length: 2\r\n%s\r\nok", r->status, r->fields);
	*r->end = d;
	r->end = &d->next;
	r->count++;
	pthread_cond_broadcast(&r->arrived);
	pthread_mutex_unlock(&r->mutex);
	return d->status != 0;
}

/* Takes whole requests off the front. False: the connection is over. */
static bool serve(struct receiver *r, struct client *c)
{
	ssize_t n = recv(c->fd, c->bytes + c->size, sizeof c->bytes - 1 - c->size, 0);
	if (n <= 0)
		return false;
	c->size += (size_t)n;
	c->bytes[c->size] = 0;
	char *end;
	while ((end = strstr(c->bytes, "\r\n\r\n"))) {
		char length[20], answer[400];
		*end = 0;
		copy_field(c->bytes, "content-length", length, sizeof length);
		size_t body = (size_t)atoi(length), whole = (size_t)(end + 4 - c->bytes) + body;
		if (c->size < whole) {
			*end = '\r';
			break;
		}
		if (keep(r, c->bytes, end + 4, body, answer))
			need(send(c->fd, answer, strlen(answer), MSG_NOSIGNAL) > 0 || errno == EPIPE || errno == ECONNRESET,
			     "send");
		c->size -= whole;
		memmove(c->bytes, c->bytes + whole, c->size + 1);
	}
	return true;
}

static void *receiver_main(void *context)
{
	struct receiver *r = context;
	struct client *clients = calloc(CLIENTS_MAX, sizeof *clients);
	need(clients, "memory");
	size_t count = 0;
	while (!r->stopping) {
		struct pollfd fds[CLIENTS_MAX + 2] = {{.fd = r->wake_fd, .events = POLLIN},
		                                      {.fd = count < CLIENTS_MAX ? r->listen_fd : -1, .events = POLLIN}};
		for (size_t i = 0; i < count; i++)
			fds[i + 2] = (struct pollfd){.fd = clients[i].fd, .events = POLLIN};
		poll(fds, count + 2, -1);
		for (size_t i = count; i-- > 0;)
			if (fds[i + 2].revents && !serve(r, &clients[i])) {
				close(clients[i].fd);
				clients[i] = clients[--count];
			}
		if (fds[1].revents) {
			clients[count] = (struct client){.fd = accept(r->listen_fd, NULL, NULL)};
			count += clients[count].fd >= 0;
		}
	}
	while (count)
		close(clients[--count].fd);
	free(clients);
	return NULL;
}

void receiver_open(struct receiver *r)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof at;
	*r = (struct receiver){.status = 200};
	r->end = &r->all;
	pthread_mutex_init(&r->mutex, NULL);
	pthread_cond_init(&r->arrived, NULL);
	r->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	r->wake_fd = eventfd(0, EFD_CLOEXEC);
	need(r->listen_fd >= 0 && r->wake_fd >= 0, "socket");
	need(bind(r->listen_fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(r->listen_fd, 16) == 0, "listen");
	need(getsockname(r->listen_fd, (struct sockaddr *)&at, &size) == 0, "getsockname");
	r->port = ntohs(at.sin_port);
	snprintf(r->url, sizeof r->url, "http://127.0.0.1:%d/hooks?shop=1", r->port);
	need(pthread_create(&r->thread, NULL, receiver_main, r) == 0, "thread");
}

void receiver_close(struct receiver *r)
{
	uint64_t one = 1;
	if (!r->thread)
		return;
	r->stopping = true;
	need(write(r->wake_fd, &one, sizeof one) == sizeof one, "wake");
	pthread_join(r->thread, NULL);
	close(r->listen_fd);
	close(r->wake_fd);
	while (r->all) {
		struct delivery *d = r->all;
		r->all = d->next;
		json_decref(d->json);
		free(d->body);
		free(d);
	}
	r->thread = 0;
}

void receiver_answer(struct receiver *r, int status, const char *fields)
{
	pthread_mutex_lock(&r->mutex);
	r->status = status;
	snprintf(r->fields, sizeof r->fields, "%s", fields);
	pthread_mutex_unlock(&r->mutex);
}

const struct delivery *receiver_take(struct receiver *r)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += WAIT_S;
	pthread_mutex_lock(&r->mutex);
	struct delivery **at = r->taken ? &r->taken->next : &r->all;
	while (!*at && pthread_cond_timedwait(&r->arrived, &r->mutex, &until) == 0)
		continue;
	struct delivery *d = *at;
	if (d)
		r->taken = d;
	pthread_mutex_unlock(&r->mutex);
	return d;
}

int receiver_count(struct receiver *r)
{
	pthread_mutex_lock(&r->mutex);
	int count = r->count;
	pthread_mutex_unlock(&r->mutex);
	return count;
}

bool delivery_is_signed(const struct delivery *d, const char *secret)
{
	unsigned char key[100], digest[EVP_MAX_MD_SIZE], coded[100];
	static const char prefix[] = "whsec_";
	if (strncmp(secret, prefix, strlen(prefix)) != 0)
		return false;
	const char *base64 = secret + strlen(prefix);
	int key_size = EVP_DecodeBlock(key, (const unsigned char *)base64, (int)strlen(base64));
	for (size_t i = strlen(base64); i && base64[i - 1] == '='; i--)
		key_size--;
	char *content;
	int size = asprintf(&content, "%s.%lld.%s", d->id, (long long)d->time_s, d->body);
	unsigned digest_size;
	HMAC(EVP_sha256(), key, key_size, (unsigned char *)content, (size_t)size, digest, &digest_size);
	free(content);
	EVP_EncodeBlock(coded, digest, (int)digest_size);
	char wanted[120];
	snprintf(wanted, sizeof wanted, "v1,%s", coded);
	return strstr(d->signature, wanted);
}

const char *delivery_string(const struct delivery *d, const char *member)
{
	json_t *from = strcmp(member, "type") && strcmp(member, "timestamp") ? json_object_get(d->json, "data") : d->json;
	const char *value = json_string_value(json_object_get(from, member));
	return value ? value : "";
}

int64_t delivery_int(const struct delivery *d, const char *member)
{
	json_t *value = json_object_get(json_object_get(d->json, "data"), member);
	return json_is_integer(value) ? json_integer_value(value) : INT64_MIN;
}
