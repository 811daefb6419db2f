/* Requests, greetings, sockets and names, for both clients.
 *
 * Happy path: wire_literal() or a look-up, wire_connect(), wire_hello(), then requests.
 * Failure modes: a refused greeting (wrong password, no such database, cluster mode) and a name without an address are
 * sentences for the log; everything else is an errno.
 */
#include "cache/wire.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "cache/script.h"

static void add_bulk(struct buffer *out, struct text bytes)
{
	buffer_add_char(out, '$');
	buffer_add_int(out, (int64_t)bytes.size);
	buffer_add(out, "\r\n", 2);
	buffer_add_text(out, bytes);
	buffer_add(out, "\r\n", 2);
}

static void add_count(struct buffer *out, int argc)
{
	buffer_add_char(out, '*');
	buffer_add_int(out, argc);
	buffer_add(out, "\r\n", 2);
}

void wire_request(struct buffer *out, int argc, const struct text *argv)
{
	CHECK(argc > 0);
	size_t size = 16;
	for (int i = 0; i < argc; i++)
		size += argv[i].size + 16;
	buffer_reserve(out, size);
	add_count(out, argc);
	for (int i = 0; i < argc; i++)
		add_bulk(out, argv[i]);
}

bool wire_again(const redisReply *reply, struct text request, struct buffer *out)
{
	static const char evalsha[] = "\r\n$7\r\nEVALSHA\r\n$40\r\n";
	if (reply->type != REDIS_REPLY_ERROR || strncmp(reply->str, "NOSCRIPT", 8) != 0)
		return false;
	/* "*argc" and then the words above, then the SHA-1: cell.c wrote it so. */
	const char *rest = memchr(request.data, '\r', request.size);
	if (!rest)
		return false;
	size_t head = (size_t)(rest - request.data), left = request.size - head;
	if (left < sizeof evalsha - 1 + SCRIPT_SHA_BYTES + 2 || memcmp(rest, evalsha, sizeof evalsha - 1) != 0)
		return false;
	rest += sizeof evalsha - 1;
	const struct script *script = script_by_sha((struct text){rest, SCRIPT_SHA_BYTES});
	if (!script)
		return false;
	rest += SCRIPT_SHA_BYTES + 2;
	buffer_reserve(out, request.size + script->source.size);
	buffer_add(out, request.data, head);
	buffer_add(out, "\r\n$4\r\nEVAL\r\n", 12);
	add_bulk(out, script->source);
	buffer_add(out, rest, request.size - (size_t)(rest - request.data));
	return true;
}

int wire_hello(const struct redis_address *address, struct buffer *out)
{
	int count = 1;
	if (address->password[0]) {
		struct text argv[3] = {TEXT("AUTH"), text_of(address->user), text_of(address->password)};
		if (address->user[0]) {
			wire_request(out, 3, argv);
		} else {
			argv[1] = argv[2]; /* the form that Redis before 6 knows */
			wire_request(out, 2, argv);
		}
		count++;
	}
	if (address->db) {
		char number[16];
		snprintf(number, sizeof number, "%d", address->db);
		wire_request(out, 2, (struct text[]){TEXT("SELECT"), text_of(number)});
		count++;
	}
	wire_request(out, 2, (struct text[]){TEXT("INFO"), TEXT("cluster")});
	return count;
}

bool wire_hello_ok(const redisReply *reply, char error[WIRE_ERROR_BYTES])
{
	if (reply->type == REDIS_REPLY_ERROR) {
		snprintf(error, WIRE_ERROR_BYTES, "Redis refused the connection: %.200s", reply->str);
		return false;
	}
	if (reply->type == REDIS_REPLY_STATUS) /* AUTH, SELECT */
		return true;
	struct text enabled = {0};
	if (reply->type == REDIS_REPLY_STRING)
		enabled = redis_info_value((struct text){reply->str, (size_t)reply->len}, "cluster_enabled");
	if (text_equal(enabled, TEXT("1"))) {
		snprintf(error, WIRE_ERROR_BYTES, "%s",
		         "Redis runs in cluster mode, which is not supported: name a single "
		         "primary (cluster-enabled no)");
		return false;
	}
	return true;
}

struct text redis_info_value(struct text info, const char *name)
{
	size_t size = strlen(name);
	const char *line = info.data, *end = info.data + info.size;
	while (line < end) {
		const char *newline = memchr(line, '\n', (size_t)(end - line));
		const char *stop = newline ? newline : end;
		if ((size_t)(stop - line) > size && memcmp(line, name, size) == 0 && line[size] == ':') {
			const char *value = line + size + 1;
			while (stop > value && stop[-1] == '\r')
				stop--;
			return (struct text){value, (size_t)(stop - value)};
		}
		if (!newline)
			break;
		line = newline + 1;
	}
	return (struct text){"", 0};
}

/* --- replies in an arena: the reader's own kind of object, made by these instead of hiredis's ------------------------ */

/* What is announced is believed before it comes, so it is bounded: the largest answer to any call of ours, a read's,
 * has one element a cell and the guard. More is no answer of Redis, and ends the connection. */
#define ELEMENTS_MAX (LU_CELLS_MAX + 1)

#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#define AND_OF_RESP3 , .createDouble = create_double, .createBool = create_bool
#else
typedef int element_count;
#define AND_OF_RESP3
#endif

static redisReply *reply_new(const redisReadTask *task, int type)
{
	redisReply *reply = ARENA_NEW(task->privdata, redisReply);
	reply->type = type;
	if (task->parent)
		((redisReply *)task->parent->obj)->element[task->idx] = reply;
	return reply;
}

static void *create_string(const redisReadTask *task, char *bytes, size_t size)
{
	redisReply *reply = reply_new(task, task->type); /* a string, a status or an error */
	reply->str = (char *)arena_text(task->privdata, (struct text){bytes, size}).data;
	reply->len = size;
	return reply;
}

static void *create_array(const redisReadTask *task, element_count count)
{
	if (count > ELEMENTS_MAX)
		return NULL;
	redisReply *reply = reply_new(task, REDIS_REPLY_ARRAY);
	reply->elements = (size_t)count;
	if (count > 0)
		reply->element = ARENA_ARRAY(task->privdata, (size_t)count, redisReply *);
	return reply;
}

static void *create_integer(const redisReadTask *task, long long value)
{
	redisReply *reply = reply_new(task, REDIS_REPLY_INTEGER);
	reply->integer = value;
	return reply;
}

static void *create_nil(const redisReadTask *task)
{
	return reply_new(task, REDIS_REPLY_NIL); /* the task's type is what might have been there */
}

#if HIREDIS_MAJOR >= 1
/* Of RESP3, which nobody asked for: told apart from what was asked for by its type. */
static void *create_double(const redisReadTask *task, double value, char *bytes, size_t size)
{
	return reply_new(task, task->type);
}

static void *create_bool(const redisReadTask *task, int value)
{
	return reply_new(task, task->type);
}
#endif

static void free_nothing(void *reply) {}

redisReader *wire_reader_new(struct arena *arena)
{
	static redisReplyObjectFunctions functions = {.createString = create_string,
	                                              .createArray = create_array,
	                                              .createInteger = create_integer,
	                                              .createNil = create_nil,
	                                              .freeObject = free_nothing AND_OF_RESP3};
	redisReader *reader = redisReaderCreateWithFunctions(&functions);
	CHECK(reader);
	reader->privdata = arena;
	return reader;
}

/* --- sockets ---------------------------------------------------------------------------------------------------- */

int wire_connect(const struct resolver_address *endpoint)
{
	int family = endpoint->address.ss_family;
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (family != AF_UNIX) {
		int on = 1;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	}
	/* EAGAIN, a full backlog of a unix socket, is a refusal: nothing is under way. */
	if (connect(fd, (const struct sockaddr *)&endpoint->address, endpoint->size) < 0 && errno != EINPROGRESS &&
	    errno != EINTR) {
		int error = errno;
		close(fd);
		errno = error;
		return -1;
	}
	return fd;
}

int wire_connect_error(int fd)
{
	int error = 0;
	socklen_t size = sizeof error;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
		return errno;
	return error;
}

bool wire_literal(const struct redis_address *address, struct resolver_addresses *ret_endpoints)
{
	if (!address->unix_socket)
		return resolver_literal(address->host, address->port, ret_endpoints);
	struct resolver_address *endpoint = &ret_endpoints->items[0];
	struct sockaddr_un *un = (struct sockaddr_un *)&endpoint->address;
	size_t size = strlen(address->host);
	CHECK(size < sizeof un->sun_path); /* redis_address_parse() saw to it */
	memset(endpoint, 0, sizeof *endpoint);
	un->sun_family = AF_UNIX;
	memcpy(un->sun_path, address->host, size);
	endpoint->size = sizeof *un;
	ret_endpoints->count = 1;
	return true;
}
