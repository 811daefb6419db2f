/* The blocking client: one socket, one reply reader, deadlines of our own.
 *
 * Happy path: redis_connect() finds the connection alive; redis_send() writes a request and remembers it;
 * redis_receive() reads the next reply. The socket never blocks: each step tries first and polls only if it must, so
 * a reply that is already here is taken even by a caller who comes past his deadline.
 *
 * Failure modes. Nothing in time, an error of the socket, bytes that are no RESP: the connection is closed, with all
 * its outstanding replies, so that a late reply has no connection left to arrive on. An error reply keeps the
 * connection. NOSCRIPT: the request, kept for this, is repeated as EVAL; replies to later requests are put aside
 * first, so callers see theirs in order (though the repeated one took effect after them). A peer that hung up
 * while nothing was outstanding is noticed before the next request and costs a reconnect, not an error.
 */
#include "cache/redis.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/check.h"
#include "base/clock.h"
#include "cache/wire.h"

#define READ_BYTES (64 * 1024)

/* A request on its way: kept until its reply is taken. */
struct sent {
	struct sent *next;
	redisReply *reply; /* put aside while an earlier request was repeated */
	struct buffer request;
};

struct redis {
	struct redis_address address;
	int fd;              /* -1: no connection */
	redisReader *reader; /* lives as long as the connection */
	struct sent *first, **last;
	int64_t retry_at_ns; /* no attempt before */
	char error[WIRE_ERROR_BYTES];
};

/* Every operating error of this file passes here. */
static enum lu_error failed(struct redis *redis, const char *format, ...) __attribute__((format(printf, 2, 3)));

static enum lu_error failed(struct redis *redis, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(redis->error, sizeof redis->error, format, args);
	va_end(args);
	return LU_CACHE_UNAVAILABLE;
}

struct redis *redis_new(const struct redis_address *address)
{
	struct redis *redis = calloc(1, sizeof *redis);
	CHECK(redis);
	redis->address = *address;
	redis->fd = -1;
	redis->last = &redis->first;
	snprintf(redis->error, sizeof redis->error, "%s", "not connected yet");
	return redis;
}

static struct sent *sent_take(struct redis *redis)
{
	struct sent *sent = redis->first;
	redis->first = sent->next;
	if (!redis->first)
		redis->last = &redis->first;
	return sent;
}

static void sent_free(struct sent *sent)
{
	redis_reply_done(&sent->reply);
	buffer_done(&sent->request);
	free(sent);
}

void redis_close(struct redis *redis)
{
	while (redis->first)
		sent_free(sent_take(redis));
	if (redis->fd < 0)
		return;
	close(redis->fd);
	redis->fd = -1;
	redisReaderFree(redis->reader);
	redis->reader = NULL;
}

void redis_free(struct redis *redis)
{
	if (!redis)
		return;
	redis_close(redis);
	free(redis);
}

bool redis_connected(const struct redis *redis)
{
	return redis->fd >= 0;
}

const char *redis_error(const struct redis *redis)
{
	return redis->error;
}

void redis_reply_done(redisReply **reply)
{
	if (*reply)
		freeReplyObject(*reply);
	*reply = NULL;
}

/* False when the deadline passed first. */
static bool wait_for(int fd, short events, int64_t deadline_ns)
{
	struct pollfd poller = {.fd = fd, .events = events};
	for (;;) {
		int left_ms = deadline_left_ms(deadline_ns);
		if (poll(&poller, 1, left_ms) > 0)
			return true;
		if (left_ms == 0)
			return false;
	}
}

static enum lu_error write_all(struct redis *redis, struct text bytes, int64_t deadline_ns)
{
	while (bytes.size > 0) {
		ssize_t n = send(redis->fd, bytes.data, bytes.size, MSG_NOSIGNAL);
		if (n >= 0) {
			bytes.data += n;
			bytes.size -= (size_t)n;
		} else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			if (!wait_for(redis->fd, POLLOUT, deadline_ns))
				return failed(redis, "Redis did not take a request in time");
		} else if (errno != EINTR) {
			return failed(redis, "cannot write to Redis: %s", strerror(errno));
		}
	}
	return LU_OK;
}

static enum lu_error read_reply(struct redis *redis, int64_t deadline_ns, redisReply **ret_reply)
{
	char bytes[READ_BYTES];
	for (;;) {
		void *reply = NULL;
		if (redisReaderGetReply(redis->reader, &reply) != REDIS_OK)
			return failed(redis, "not an answer of Redis: %s", redis->reader->errstr);
		if (reply) {
			*ret_reply = reply;
			return LU_OK;
		}
		ssize_t n = recv(redis->fd, bytes, sizeof bytes, 0);
		if (n > 0) {
			/* Its errors come out of redisReaderGetReply() again. */
			(void)redisReaderFeed(redis->reader, bytes, (size_t)n);
		} else if (n == 0) {
			return failed(redis, "Redis closed the connection");
		} else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			if (!wait_for(redis->fd, POLLIN, deadline_ns))
				return failed(redis, "Redis did not answer in time");
		} else if (errno != EINTR) {
			return failed(redis, "cannot read from Redis: %s", strerror(errno));
		}
	}
}

/* --- connecting ------------------------------------------------------------------------------------------------- */

static enum lu_error resolve(struct redis *redis, int64_t deadline_ns, struct resolver_addresses *ret_endpoints)
{
	const struct redis_address *address = &redis->address;
	if (wire_literal(address, ret_endpoints) ||
	    resolver_resolve(address->host, address->port, deadline_ns, ret_endpoints, redis->error))
		return LU_OK;
	return LU_CACHE_UNAVAILABLE;
}

/* A name may have several addresses; each gets its share of the time left. */
static enum lu_error socket_open(struct redis *redis, const struct resolver_addresses *endpoints, int64_t deadline_ns)
{
	char place[REDIS_PLACE_BYTES];
	for (size_t i = 0; i < endpoints->count; i++) {
		int64_t now_ns = clock_boottime_ns(), left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
		int64_t share_ns = now_ns + left_ns / (int64_t)(endpoints->count - i);
		int fd = wire_connect(&endpoints->items[i]), error = errno;
		if (fd >= 0) {
			error = wait_for(fd, POLLOUT, share_ns) ? wire_connect_error(fd) : ETIMEDOUT;
			if (error == 0) {
				redis->fd = fd;
				redis->reader = redisReaderCreate();
				CHECK(redis->reader);
				return LU_OK;
			}
			close(fd);
		}
		(void)failed(redis, "cannot connect to Redis at %.150s: %s", redis_address_place(&redis->address, place),
		             strerror(error));
	}
	return LU_CACHE_UNAVAILABLE;
}

static enum lu_error greet(struct redis *redis, int64_t deadline_ns)
{
	struct buffer hello = {0};
	int replies = wire_hello(&redis->address, &hello);
	enum lu_error error = write_all(redis, buffer_text(&hello), deadline_ns);
	buffer_done(&hello);
	while (!error && replies-- > 0) {
		__attribute__((cleanup(redis_reply_done))) redisReply *reply = NULL;
		error = read_reply(redis, deadline_ns, &reply);
		if (!error && !wire_hello_ok(reply, redis->error))
			error = LU_CACHE_UNAVAILABLE;
	}
	return error;
}

/* With nothing outstanding a readable socket means that the peer hung up (or talks nonsense). */
static bool hung_up(struct redis *redis)
{
	char byte;
	ssize_t n = recv(redis->fd, &byte, 1, MSG_PEEK);
	return n >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

enum lu_error redis_connect(struct redis *redis, int64_t deadline_ns)
{
	if (redis->fd >= 0 && (redis->first || !hung_up(redis)))
		return LU_OK;
	redis_close(redis);
	if (clock_boottime_ns() < redis->retry_at_ns)
		return LU_CACHE_UNAVAILABLE; /* for the reason of the last attempt, still in `error` */
	struct resolver_addresses endpoints;
	enum lu_error error = resolve(redis, deadline_ns, &endpoints);
	if (!error)
		error = socket_open(redis, &endpoints, deadline_ns);
	if (!error)
		error = greet(redis, deadline_ns);
	if (error) {
		redis_close(redis);
		redis->retry_at_ns = deadline_in_ms(WIRE_RETRY_MS);
	}
	return error;
}

/* --- requests --------------------------------------------------------------------------------------------------- */

enum lu_error redis_send(struct redis *redis, int argc, const struct text *argv, int64_t deadline_ns)
{
	if (redis->fd < 0 || !redis->first) {
		enum lu_error error = redis_connect(redis, deadline_ns);
		if (error)
			return error;
	}
	struct sent *sent = calloc(1, sizeof *sent);
	CHECK(sent);
	wire_request(&sent->request, argc, argv);
	*redis->last = sent;
	redis->last = &sent->next;
	enum lu_error error = write_all(redis, buffer_text(&sent->request), deadline_ns);
	if (error)
		redis_close(redis);
	return error;
}

/* Redis has forgotten the script: put the replies still to come aside, then send the request with its source. */
static enum lu_error repeat(struct redis *redis, struct sent *sent, int64_t deadline_ns, redisReply **reply)
{
	struct buffer again = {0};
	enum lu_error error = LU_OK;
	if (wire_again(*reply, buffer_text(&sent->request), &again)) {
		for (struct sent *later = redis->first; !error && later; later = later->next)
			if (!later->reply)
				error = read_reply(redis, deadline_ns, &later->reply);
		if (!error)
			error = write_all(redis, buffer_text(&again), deadline_ns);
		redis_reply_done(reply);
		if (!error)
			error = read_reply(redis, deadline_ns, reply);
	}
	buffer_done(&again);
	return error;
}

enum lu_error redis_receive(struct redis *redis, int64_t deadline_ns, redisReply **ret_reply)
{
	if (!redis->first) /* the connection was closed, and the reason stands in `error` */
		return LU_CACHE_UNAVAILABLE;
	struct sent *sent = sent_take(redis);
	__attribute__((cleanup(redis_reply_done))) redisReply *reply = sent->reply;
	sent->reply = NULL;
	enum lu_error error = reply ? LU_OK : read_reply(redis, deadline_ns, &reply);
	if (!error)
		error = repeat(redis, sent, deadline_ns, &reply);
	sent_free(sent);
	if (error) {
		redis_close(redis);
		return error;
	}
	if (reply->type == REDIS_REPLY_ERROR)
		return failed(redis, REDIS_ANSWERED "%.200s", reply->str);
	*ret_reply = reply;
	reply = NULL;
	return LU_OK;
}

enum lu_error redis_call(struct redis *redis, int argc, const struct text *argv, int64_t deadline_ns,
                         redisReply **ret_reply)
{
	CHECK(!redis->first); /* the reply would be another's */
	enum lu_error error = redis_send(redis, argc, argv, deadline_ns);
	return error ? error : redis_receive(redis, deadline_ns, ret_reply);
}

enum lu_error redis_call_two(struct redis *redis, const struct redis_command commands[2], int64_t deadline_ns,
                             redisReply **ret_reply)
{
	const struct text multi = TEXT("MULTI"), exec = TEXT("EXEC");
	const struct redis_command all[] = {{1, &multi}, commands[0], commands[1], {1, &exec}};
	const size_t count = sizeof all / sizeof *all;
	__attribute__((cleanup(redis_reply_done))) redisReply *reply = NULL;
	char first_error[WIRE_ERROR_BYTES] = "";
	enum lu_error error = LU_OK;
	CHECK(!redis->first);
	for (size_t i = 0; !error && i < count; i++)
		error = redis_send(redis, all[i].argc, all[i].argv, deadline_ns);
	for (size_t i = 0; redis->first && i < count; i++) {
		redis_reply_done(&reply);
		error = redis_receive(redis, deadline_ns, &reply);
		if (error && !first_error[0]) /* what EXEC says of it is only that there was one */
			strcpy(first_error, redis->error);
	}
	if (!error && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2) {
		*ret_reply = reply;
		reply = NULL;
		return LU_OK;
	}
	redis_close(redis);
	if (!error)
		return failed(redis, "Redis answered a transaction by something else");
	return first_error[0] ? failed(redis, "%s", first_error) : error;
}
