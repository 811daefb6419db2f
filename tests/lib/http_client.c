/* A small blocking HTTP/1.1 client for tests.
 *
 * Happy path: connect, send, read into client->input until the answer is whole, hand it out. Everything waits in
 * poll() against one deadline per call.
 * Failure modes: false with client->error; the connection is then closed, so that the next call starts clean.
 */
#include "lib/http_client.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t deadline(const struct http_client *client)
{
	return now_ms() + client->timeout_ms;
}

static __attribute__((format(printf, 2, 3))) bool fail(struct http_client *client, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(client->error, sizeof client->error, format, arguments);
	va_end(arguments);
	http_client_close(client);
	return false;
}

static bool wait_for(struct http_client *client, short events, int64_t until_ms)
{
	for (;;) {
		int64_t left = until_ms - now_ms();
		if (left <= 0)
			return fail(client, "timed out");
		struct pollfd wait = {.fd = client->fd, .events = events};
		int ready = poll(&wait, 1, (int)left);
		if (ready > 0)
			return true;
		if (ready < 0 && errno != EINTR)
			return fail(client, "poll: %s", strerror(errno));
	}
}

/* --- connecting ------------------------------------------------------------------------------------------------- */

struct http_client http_client(const char *address, const char *key)
{
	struct http_client client = {.key = key, .timeout_ms = HTTP_CLIENT_TIMEOUT_MS, .fd = -1};
	if (strncmp(address, "http://", 7) == 0)
		address += 7;
	size_t size = strcspn(address, "/");
	const char *colon = memrchr(address, ':', size);
	size_t host_size = colon ? (size_t)(colon - address) : size;
	bool brackets = host_size >= 2 && address[0] == '[';
	snprintf(client.host, sizeof client.host, "%.*s", (int)(brackets ? host_size - 2 : host_size), address + brackets);
	snprintf(client.port, sizeof client.port, "%.*s", colon ? (int)(size - host_size - 1) : 2,
	         colon ? colon + 1 : "80");
	return client;
}

static bool try_connect(struct http_client *client, const struct addrinfo *info, int64_t until_ms)
{
	client->fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, info->ai_protocol);
	if (client->fd < 0)
		return fail(client, "socket: %s", strerror(errno));
	int error = 0, on = 1;
	socklen_t size = sizeof error;
	if (connect(client->fd, info->ai_addr, info->ai_addrlen) != 0) {
		if (errno != EINPROGRESS)
			return fail(client, "connect: %s", strerror(errno));
		if (!wait_for(client, POLLOUT, until_ms))
			return false;
		getsockopt(client->fd, SOL_SOCKET, SO_ERROR, &error, &size);
	}
	if (error)
		return fail(client, "connect: %s", strerror(error));
	setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	return true;
}

bool http_client_open(struct http_client *client)
{
	if (client->fd >= 0)
		return true;
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *info = NULL;
	int error = getaddrinfo(client->host, client->port, &hints, &info);
	if (error)
		return fail(client, "%s: %s", client->host, gai_strerror(error));
	int64_t until_ms = deadline(client);
	bool connected = false;
	for (const struct addrinfo *each = info; each && !connected; each = each->ai_next)
		connected = try_connect(client, each, until_ms);
	freeaddrinfo(info);
	return connected;
}

void http_client_close(struct http_client *client)
{
	if (client->fd >= 0)
		close(client->fd);
	client->fd = -1;
	client->input_size = 0;
}

void http_client_reset(struct http_client *client)
{
	struct linger linger = {.l_onoff = 1};
	if (client->fd >= 0)
		setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
	http_client_close(client);
}

void http_client_done(struct http_client *client)
{
	http_client_close(client);
	free(client->input);
	client->input = NULL;
	client->input_room = 0;
}

/* --- bytes ------------------------------------------------------------------------------------------------------ */

static bool send_until(struct http_client *client, const char *bytes, size_t size, int64_t until_ms)
{
	while (size) {
		ssize_t n = send(client->fd, bytes, size, MSG_NOSIGNAL);
		if (n > 0) {
			bytes += n;
			size -= (size_t)n;
		} else if (n < 0 && errno == EAGAIN) {
			if (!wait_for(client, POLLOUT, until_ms))
				return false;
		} else if (n < 0 && errno != EINTR) {
			return fail(client, "send: %s", strerror(errno));
		}
	}
	return true;
}

bool http_client_send(struct http_client *client, const void *bytes, size_t size)
{
	return http_client_open(client) && send_until(client, bytes, size, deadline(client));
}

bool http_client_send_text(struct http_client *client, const char *text)
{
	return http_client_send(client, text, strlen(text));
}

void http_client_half_close(struct http_client *client)
{
	shutdown(client->fd, SHUT_WR);
}

/* Appends what comes next to the input. *ret_end: the server ended its direction. */
static bool receive(struct http_client *client, int64_t until_ms, bool *ret_end)
{
	if (client->fd < 0)
		return fail(client, "not connected");
	if (client->input_room - client->input_size < 16384) {
		client->input_room = client->input_room ? client->input_room * 2 : 32768;
		client->input = realloc(client->input, client->input_room);
		if (!client->input)
			abort();
	}
	for (;;) {
		ssize_t n = recv(client->fd, client->input + client->input_size, client->input_room - client->input_size - 1,
		                 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			if (!wait_for(client, POLLIN, until_ms))
				return false;
			continue;
		}
		if (n < 0)
			return fail(client, "recv: %s", strerror(errno));
		client->input_size += (size_t)n;
		*ret_end = n == 0;
		return true;
	}
}

static void consume(struct http_client *client, size_t size)
{
	client->input_size -= size;
	memmove(client->input, client->input + size, client->input_size);
}

/* --- answers ---------------------------------------------------------------------------------------------------- */

void http_answer_done(struct http_answer *answer)
{
	free(answer->head);
	free(answer->body);
	*answer = (struct http_answer){0};
}

static const char *find_field(const struct http_answer *answer, const char *name, size_t *ret_size)
{
	size_t name_size = strlen(name);
	for (const char *line = strstr(answer->head, "\r\n"); line && line[2]; line = strstr(line, "\r\n")) {
		line += 2;
		if (strncasecmp(line, name, name_size) != 0 || line[name_size] != ':')
			continue;
		const char *value = line + name_size + 1;
		value += strspn(value, " \t");
		*ret_size = strcspn(value, "\r");
		return value;
	}
	return NULL;
}

const char *http_answer_field(const struct http_answer *answer, const char *name)
{
	static _Thread_local char ring[8][1024];
	static _Thread_local unsigned next;
	size_t size;
	const char *value = answer->head ? find_field(answer, name, &size) : NULL;
	if (!value)
		return NULL;
	char *out = ring[next++ % 8];
	snprintf(out, sizeof ring[0], "%.*s", (int)size, value);
	return out;
}

static char *copy(const char *bytes, size_t size)
{
	char *result = malloc(size + 1);
	if (!result)
		abort();
	if (size)
		memcpy(result, bytes, size);
	result[size] = '\0';
	return result;
}

static bool read_head(struct http_client *client, int64_t until_ms, struct http_answer *answer)
{
	for (;;) {
		char *end = client->input_size ? memmem(client->input, client->input_size, "\r\n\r\n", 4) : NULL;
		if (end) {
			size_t size = (size_t)(end - client->input) + 4;
			answer->head = copy(client->input, size);
			consume(client, size);
			break;
		}
		bool ended = false;
		if (!receive(client, until_ms, &ended))
			return false;
		if (ended)
			return fail(client, client->input_size ? "closed within an answer" : "closed without an answer");
	}
	if (sscanf(answer->head, "HTTP/1.%1d %3d", &answer->minor, &answer->status) != 2)
		return fail(client, "not an answer: %.80s", answer->head);
	return true;
}

/* Takes exactly `size` bytes to the end of the body. */
static bool read_sized(struct http_client *client, size_t size, int64_t until_ms, struct http_answer *answer)
{
	bool ended = false;
	while (client->input_size < size && !ended)
		if (!receive(client, until_ms, &ended))
			return false;
	if (client->input_size < size)
		return fail(client, "closed within a body");
	answer->body = realloc(answer->body, answer->body_size + size + 1);
	if (!answer->body)
		abort();
	memcpy(answer->body + answer->body_size, client->input, size);
	answer->body_size += size;
	answer->body[answer->body_size] = '\0';
	consume(client, size);
	return true;
}

static bool read_chunked(struct http_client *client, int64_t until_ms, struct http_answer *answer)
{
	for (;;) {
		char *line_end;
		while (!client->input_size || !(line_end = memmem(client->input, client->input_size, "\r\n", 2))) {
			bool ended = false;
			if (!receive(client, until_ms, &ended))
				return false;
			if (ended)
				return fail(client, "closed within a chunked body");
		}
		*line_end = '\0';
		size_t size = strtoul(client->input, NULL, 16);
		consume(client, (size_t)(line_end - client->input) + 2);
		if (size && !read_sized(client, size, until_ms, answer))
			return false;
		/* The CR LF behind the data, or the empty line that ends the body: the server sends no trailers. */
		struct http_answer line = {0};
		bool complete = read_sized(client, 2, until_ms, &line);
		http_answer_done(&line);
		if (!complete || !size)
			return complete;
	}
}

static bool read_body(struct http_client *client, int64_t until_ms, struct http_answer *answer)
{
	size_t size;
	const char *value = find_field(answer, "Transfer-Encoding", &size);
	if (value && size == 7 && strncasecmp(value, "chunked", 7) == 0)
		return read_chunked(client, until_ms, answer);
	value = find_field(answer, "Content-Length", &size);
	if (value)
		return read_sized(client, strtoul(value, NULL, 10), until_ms, answer);
	bool ended = false;
	while (!ended)
		if (!receive(client, until_ms, &ended))
			return false;
	return read_sized(client, client->input_size, until_ms, answer);
}

bool http_client_read(struct http_client *client, bool to_head, struct http_answer *ret_answer)
{
	int64_t until_ms = deadline(client);
	http_answer_done(ret_answer);
	int continues = 0;
	for (;;) {
		if (!read_head(client, until_ms, ret_answer))
			return false;
		if (ret_answer->status != 100)
			break;
		continues++;
		http_answer_done(ret_answer);
	}
	ret_answer->continues = continues;
	size_t size;
	const char *value = find_field(ret_answer, "Connection", &size);
	ret_answer->close = value && size == 5 && strncasecmp(value, "close", 5) == 0;
	bool empty = to_head || ret_answer->status == 204 || ret_answer->status == 304;
	if (empty)
		ret_answer->body = copy("", 0);
	else if (!read_body(client, until_ms, ret_answer))
		return false;
	if (!ret_answer->body)
		ret_answer->body = copy("", 0);
	return true;
}

bool http_client_read_some(struct http_client *client, char *out, size_t room, size_t *ret_size)
{
	bool ended = false;
	if (!client->input_size && !receive(client, deadline(client), &ended))
		return false;
	if (ended)
		return fail(client, "closed");
	size_t size = client->input_size < room - 1 ? client->input_size : room - 1;
	memcpy(out, client->input, size);
	out[size] = '\0';
	*ret_size = size;
	consume(client, size);
	return true;
}

bool http_client_read_to_end(struct http_client *client, char **ret_bytes, size_t *ret_size)
{
	int64_t until_ms = deadline(client);
	bool ended = false;
	while (!ended)
		if (!receive(client, until_ms, &ended))
			return false;
	*ret_bytes = copy(client->input, client->input_size);
	*ret_size = client->input_size;
	http_client_close(client);
	return true;
}

bool http_client_sees_close(struct http_client *client)
{
	bool ended = false;
	if (client->input_size || !receive(client, deadline(client), &ended))
		return false;
	if (ended)
		http_client_close(client);
	return ended;
}

/* --- one exchange ----------------------------------------------------------------------------------------------- */

/* A kept-alive connection that the server has closed meanwhile is not used again. */
static void drop_stale(struct http_client *client)
{
	char byte;
	if (client->fd < 0 || client->input_size)
		return;
	ssize_t n = recv(client->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	if (n == 0 || (n < 0 && errno != EAGAIN))
		http_client_close(client);
}

bool http_client_call(struct http_client *client, const char *method, const char *path, const char *fields,
                      const char *body, struct http_answer *ret_answer)
{
	char *request = NULL;
	bool typed = !body || (fields && strcasestr(fields, "Content-Type:"));
	bool sized = body || strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0;
	bool bare_v6 = strchr(client->host, ':'); /* which colon ends it? */
	char length[48] = "";
	if (sized)
		snprintf(length, sizeof length, "Content-Length: %zu\r\n", body ? strlen(body) : 0);
	int size = asprintf(&request, "%s %s HTTP/1.1\r\nHost: %s%s%s:%s\r\n%s%s%s%s%s%s\r\n%s", method, path,
	                    bare_v6 ? "[" : "", client->host, bare_v6 ? "]" : "", client->port,
	                    client->key ? "Authorization: Bearer " : "", client->key ? client->key : "",
	                    client->key ? "\r\n" : "", typed ? "" : "Content-Type: application/json\r\n", length,
	                    fields ? fields : "", body ? body : "");
	if (size < 0)
		abort();
	drop_stale(client);
	bool done = http_client_send(client, request, (size_t)size) &&
	            http_client_read(client, strcmp(method, "HEAD") == 0, ret_answer);
	free(request);
	if (done && ret_answer->close)
		http_client_close(client);
	return done;
}
