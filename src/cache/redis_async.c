/* The client on an event loop: the same requests, with callbacks.
 *
 *	waiting ──timer──▶ resolving ──▶ connecting ──▶ greeting ──▶ ready
 *	   ▲                  │              │             │           │
 *	   └──────────────────┴── failure or timeout ──────┴───────────┘     50 ms, doubling to 1 s; from ready: 50 ms
 *
 * Happy path: redis_async_call() queues the call and its bytes; on_work(), later in the same turn of the loop, writes
 * the bytes of all of them at once; on_socket() reads replies and hands each to the oldest call.
 *
 * Failure modes. A call not answered by its deadline, an error of the socket, bytes that are no RESP: the
 * connection is closed, so that a late reply has no connection left to arrive on, and every call on it fails. While
 * there is no connection calls fail through on_work(), so a callback never runs inside redis_async_call(). NOSCRIPT:
 * the call goes to the end of the queue as EVAL, under its old deadline.
 *
 * Every call sits in exactly one list, `asked` or `failed`, and is taken out of it before its callback runs: that is
 * what "exactly once" rests on. Deadlines are CLOCK_BOOTTIME; libevent's timers only wake us to look at it.
 */
#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/check.h"
#include "base/clock.h"
#include "cache/wire.h"

#define RETRY_MS_MAX 1000
#define READ_BYTES (64 * 1024)
#define REPLY_BYTES (16 * 1024) /* room for the reply of a usual turn; kept */
#define READS_MAX 16            /* per turn of the loop, so that other sockets have theirs */

enum state { WAITING, RESOLVING, CONNECTING, GREETING, READY };

struct call {
	struct call *next;
	redis_on_reply on_reply;
	void *context;
	int64_t deadline_ns;
	unsigned before;       /* replies of its transaction that come first and say nothing that EXEC does not say */
	struct buffer request; /* kept for NOSCRIPT; of a transaction it is not */
};

struct calls {
	struct call *first, **last;
};

struct redis_async {
	struct event_base *base;
	struct redis_address address;
	int64_t timeout_ms;
	enum state state;
	int64_t state_deadline_ns;   /* all states but READY */
	int64_t attempt_deadline_ns; /* resolving and connecting together */
	int64_t retry_ms;            /* how long the next WAITING lasts */
	struct resolver_lookup *lookup;
	struct resolver_addresses endpoints;
	size_t endpoint; /* being connected to */
	int fd;
	redisReader *reader;
	struct arena replies; /* the one being read, or given to its callback */
	int greetings_left;
	struct buffer out; /* bytes not written yet */
	size_t out_done;   /* of these, written */
	struct calls asked, failed;
	struct event *timer;               /* state_deadline_ns, or the earliest deadline of `asked` */
	struct event *work;                /* never pending: activated by hand */
	struct event *readable, *writable; /* of fd; in RESOLVING `readable` is the look-up's */
	int callbacks;                     /* depth, to catch a free from inside one */
};

static void calls_put(struct calls *calls, struct call *call)
{
	call->next = NULL;
	*calls->last = call;
	calls->last = &call->next;
}

static struct call *calls_take(struct calls *calls)
{
	struct call *call = calls->first;
	if (!call)
		return NULL;
	calls->first = call->next;
	if (!calls->first)
		calls->last = &calls->first;
	return call;
}

static void answer(struct redis_async *redis, struct call *call, enum lu_error error, const redisReply *reply)
{
	if (call->on_reply) {
		redis->callbacks++;
		call->on_reply(error, reply, call->context);
		redis->callbacks--;
	}
	buffer_done(&call->request);
	free(call);
}

static void timer_set(struct redis_async *redis, int64_t deadline_ns)
{
	int left_ms = deadline_left_ms(deadline_ns);
	const struct timeval delay = {left_ms / 1000, (left_ms % 1000) * 1000};
	CHECK(evtimer_add(redis->timer, &delay) == 0);
}

static void state_set(struct redis_async *redis, enum state state, int64_t deadline_ns)
{
	redis->state = state;
	redis->state_deadline_ns = deadline_ns;
	timer_set(redis, deadline_ns);
}

static void event_drop(struct event **event)
{
	if (*event)
		event_free(*event);
	*event = NULL;
}

/* Gives up the connection or the attempt. All that waited for it fails in on_work(), not here: who closes may be in
 * the middle of a list. */
static void disconnect(struct redis_async *redis)
{
	event_drop(&redis->readable);
	event_drop(&redis->writable);
	if (redis->fd >= 0)
		close(redis->fd);
	redis->fd = -1;
	if (redis->reader)
		redisReaderFree(redis->reader);
	redis->reader = NULL;
	arena_reset(&redis->replies);
	buffer_clear(&redis->out);
	redis->out_done = 0;
	for (struct call *call; (call = calls_take(&redis->asked));)
		calls_put(&redis->failed, call);
	if (redis->failed.first)
		event_active(redis->work, 0, 0);
	/* A look-up that takes longer than an attempt goes on by itself: the next attempt joins it, or asks beside it if it
	 * hangs (base/resolver.h). */
	resolver_lookup_free(redis->lookup);
	redis->lookup = NULL;
	state_set(redis, WAITING, deadline_in_ms(redis->retry_ms));
	redis->retry_ms = redis->retry_ms * 2 < RETRY_MS_MAX ? redis->retry_ms * 2 : RETRY_MS_MAX;
}

static void on_socket(evutil_socket_t fd, short events, void *context);

/* Writes what it can. False after an error. */
static bool flush(struct redis_async *redis)
{
	while (redis->out_done < redis->out.size) {
		ssize_t n = send(redis->fd, redis->out.data + redis->out_done, redis->out.size - redis->out_done, MSG_NOSIGNAL);
		if (n >= 0) {
			redis->out_done += (size_t)n;
		} else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			return event_add(redis->writable, NULL) == 0;
		} else if (errno != EINTR) {
			return false;
		}
	}
	buffer_clear(&redis->out);
	redis->out_done = 0;
	return true;
}

static void endpoint_close(struct redis_async *redis)
{
	event_drop(&redis->readable);
	event_drop(&redis->writable);
	close(redis->fd);
	redis->fd = -1;
}

/* Tries the endpoints from `endpoint` on. Each has its share of the time left. The kernel may refuse to watch one
 * descriptor more (fs.epoll.max_user_watches): that is no connection. */
static void connect_next(struct redis_async *redis)
{
	for (; redis->endpoint < redis->endpoints.count; redis->endpoint++) {
		redis->fd = wire_connect(&redis->endpoints.items[redis->endpoint]);
		if (redis->fd < 0)
			continue;
		redis->readable = event_new(redis->base, redis->fd, EV_READ | EV_PERSIST, on_socket, redis);
		redis->writable = event_new(redis->base, redis->fd, EV_WRITE, on_socket, redis);
		CHECK(redis->readable && redis->writable);
		if (event_add(redis->writable, NULL)) {
			endpoint_close(redis);
			continue;
		}
		int64_t now_ns = clock_boottime_ns();
		int64_t left_ns = redis->attempt_deadline_ns > now_ns ? redis->attempt_deadline_ns - now_ns : 0;
		state_set(redis, CONNECTING, now_ns + left_ns / (int64_t)(redis->endpoints.count - redis->endpoint));
		return;
	}
	disconnect(redis);
}

static void connect_failed(struct redis_async *redis)
{
	endpoint_close(redis);
	redis->endpoint++;
	connect_next(redis);
}

static void on_resolved(evutil_socket_t fd, short events, void *context)
{
	struct redis_async *redis = context;
	char error[RESOLVER_ERROR_BYTES];
	event_drop(&redis->readable);
	bool found = resolver_lookup_take(redis->lookup, &redis->endpoints, error);
	resolver_lookup_free(redis->lookup);
	redis->lookup = NULL;
	if (found)
		connect_next(redis);
	else
		disconnect(redis);
}

static void attempt(struct redis_async *redis)
{
	char error[RESOLVER_ERROR_BYTES];
	redis->attempt_deadline_ns = deadline_in_ms(redis->timeout_ms);
	redis->endpoint = 0;
	if (wire_literal(&redis->address, &redis->endpoints)) {
		connect_next(redis);
		return;
	}
	redis->lookup = resolver_lookup_new(redis->address.host, redis->address.port, error);
	if (!redis->lookup) {
		disconnect(redis);
		return;
	}
	redis->readable = event_new(redis->base, resolver_lookup_fd(redis->lookup), EV_READ, on_resolved, redis);
	CHECK(redis->readable);
	if (event_add(redis->readable, NULL))
		disconnect(redis);
	else
		state_set(redis, RESOLVING, redis->attempt_deadline_ns);
}

/* False when the connection has to go. */
static bool greet(struct redis_async *redis)
{
	redis->reader = wire_reader_new(&redis->replies);
	if (event_add(redis->readable, NULL))
		return false;
	redis->greetings_left = wire_hello(&redis->address, &redis->out);
	state_set(redis, GREETING, deadline_in_ms(redis->timeout_ms));
	return flush(redis);
}

static bool greeting_take(struct redis_async *redis, const redisReply *reply)
{
	char error[WIRE_ERROR_BYTES];
	if (!wire_hello_ok(reply, error))
		return false;
	if (--redis->greetings_left == 0) {
		redis->state = READY;
		redis->retry_ms = WIRE_RETRY_MS;
		CHECK(evtimer_del(redis->timer) == 0);
	}
	return true;
}

/* False when the connection has to go. */
static bool reply_take(struct redis_async *redis, const redisReply *reply)
{
	if (redis->state == GREETING)
		return greeting_take(redis, reply);
	struct call *call = redis->asked.first;
	if (!call)
		return false; /* an answer that nobody asked for */
	if (call->before) {
		call->before--;
		return true;
	}
	(void)calls_take(&redis->asked);
	if (call->request.size && wire_again(reply, buffer_text(&call->request), &redis->out)) {
		calls_put(&redis->asked, call);
		event_active(redis->work, 0, 0);
	} else if (reply->type == REDIS_REPLY_ERROR) {
		answer(redis, call, LU_CACHE_UNAVAILABLE, NULL);
	} else {
		answer(redis, call, LU_OK, reply);
	}
	return true;
}

/* Takes all whole replies that have come. False when the connection has to go. */
static bool replies_take(struct redis_async *redis)
{
	for (;;) {
		void *reply = NULL;
		if (redisReaderGetReply(redis->reader, &reply) != REDIS_OK)
			return false;
		if (!reply)
			return true;
		if (!reply_take(redis, reply))
			return false;
		arena_reset(&redis->replies);
	}
}

/* False when the connection has to go. */
static bool receive(struct redis_async *redis)
{
	char bytes[READ_BYTES];
	for (int i = 0; i < READS_MAX; i++) {
		ssize_t n = recv(redis->fd, bytes, sizeof bytes, 0);
		if (n < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
		if (n == 0)
			return false;
		/* Its errors come out of redisReaderGetReply() again. */
		(void)redisReaderFeed(redis->reader, bytes, (size_t)n);
		if (!replies_take(redis))
			return false;
		if ((size_t)n < sizeof bytes)
			return true;
	}
	return true;
}

static void on_socket(evutil_socket_t fd, short events, void *context)
{
	struct redis_async *redis = context;
	if (redis->state == CONNECTING) {
		if (wire_connect_error(redis->fd) != 0)
			connect_failed(redis);
		else if (!greet(redis))
			disconnect(redis);
		return;
	}
	if (((events & EV_WRITE) && !flush(redis)) || ((events & EV_READ) && !receive(redis)))
		disconnect(redis);
}

/* Writes what was queued in this turn of the loop, and answers the calls that have failed. */
static void on_work(evutil_socket_t fd, short events, void *context)
{
	struct redis_async *redis = context;
	if (redis->state == READY && !event_pending(redis->writable, EV_WRITE, NULL) && !flush(redis))
		disconnect(redis);
	/* Only those failed by now: a callback may call again, and again without a connection. */
	struct calls failed = redis->failed;
	if (!failed.first)
		return;
	redis->failed = (struct calls){NULL, &redis->failed.first};
	for (struct call *call; (call = calls_take(&failed));)
		answer(redis, call, LU_CACHE_UNAVAILABLE, NULL);
}

static void on_timer(evutil_socket_t fd, short events, void *context)
{
	struct redis_async *redis = context;
	int64_t now_ns = clock_boottime_ns(), earliest_ns = DEADLINE_NONE;
	if (redis->state != READY) {
		if (now_ns < redis->state_deadline_ns)
			timer_set(redis, redis->state_deadline_ns);
		else if (redis->state == WAITING)
			attempt(redis);
		else if (redis->state == CONNECTING)
			connect_failed(redis);
		else
			disconnect(redis);
		return;
	}
	/* NOSCRIPT may have put an older call behind younger ones, so look at all; it is once per timeout. */
	for (const struct call *call = redis->asked.first; call; call = call->next)
		if (call->deadline_ns < earliest_ns)
			earliest_ns = call->deadline_ns;
	if (earliest_ns <= now_ns)
		disconnect(redis);
	else if (earliest_ns != DEADLINE_NONE)
		timer_set(redis, earliest_ns);
}

struct redis_async *redis_async_new(struct event_base *base, const struct redis_address *address, int64_t timeout_ms)
{
	struct redis_async *redis = calloc(1, sizeof *redis);
	CHECK(redis);
	redis->base = base;
	redis->address = *address;
	redis->timeout_ms = timeout_ms;
	redis->retry_ms = WIRE_RETRY_MS;
	redis->fd = -1;
	arena_init(&redis->replies, REPLY_BYTES);
	redis->asked.last = &redis->asked.first;
	redis->failed.last = &redis->failed.first;
	redis->timer = evtimer_new(base, on_timer, redis);
	redis->work = event_new(base, -1, 0, on_work, redis);
	CHECK(redis->timer && redis->work);
	state_set(redis, WAITING, clock_boottime_ns()); /* the first attempt, from the loop */
	return redis;
}

void redis_async_free(struct redis_async *redis)
{
	if (!redis)
		return;
	CHECK(redis->callbacks == 0); /* never from inside on_reply */
	disconnect(redis);
	/* A callback may call once more; that call fails here too. */
	for (struct call *call; (call = calls_take(&redis->failed));)
		answer(redis, call, LU_CACHE_UNAVAILABLE, NULL);
	resolver_lookup_free(redis->lookup);
	event_free(redis->timer);
	event_free(redis->work);
	buffer_done(&redis->out);
	arena_done(&redis->replies);
	free(redis);
}

bool redis_async_connected(const struct redis_async *redis)
{
	return redis->state == READY;
}

/* A new call, in its list: that of the failed while there is no connection. */
static struct call *call_new(struct redis_async *redis, redis_on_reply on_reply, void *context)
{
	struct call *call = calloc(1, sizeof *call);
	CHECK(call);
	call->on_reply = on_reply;
	call->context = context;
	call->deadline_ns = deadline_in_ms(redis->timeout_ms);
	calls_put(redis->state == READY ? &redis->asked : &redis->failed, call);
	if (redis->state == READY && !evtimer_pending(redis->timer, NULL))
		timer_set(redis, call->deadline_ns);
	event_active(redis->work, 0, 0);
	return call;
}

void redis_async_call(struct redis_async *redis, int argc, const struct text *argv, redis_on_reply on_reply,
                      void *context)
{
	struct call *call = call_new(redis, on_reply, context);
	if (redis->state != READY)
		return;
	wire_request(&call->request, argc, argv);
	buffer_add_text(&redis->out, buffer_text(&call->request));
}

void redis_async_call_two(struct redis_async *redis, const struct redis_command commands[2], redis_on_reply on_reply,
                          void *context)
{
	const struct text multi = TEXT("MULTI"), exec = TEXT("EXEC");
	struct call *call = call_new(redis, on_reply, context);
	if (redis->state != READY)
		return;
	call->before = 3; /* OK, QUEUED, QUEUED, or an error, for which EXEC gives up */
	wire_request(&redis->out, 1, &multi);
	wire_request(&redis->out, commands[0].argc, commands[0].argv);
	wire_request(&redis->out, commands[1].argc, commands[1].argv);
	wire_request(&redis->out, 1, &exec);
}
