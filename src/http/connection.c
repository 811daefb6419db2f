/* One client connection: bytes in, requests through, answers out.
 *
 * Happy path: on_read() → connection_process(), which steps through the buffered bytes: find the end of the header
 * block, scan it, parse it, take the body, dispatch. A handler that answers at once leaves its answer in loop->out,
 * and the next request follows; all answers of one round go out in a single send(). A handler that answers later
 * leaves the connection RUNNING; its answer is sent by connection_answered(), and bytes behind it are taken up by the
 * loop (loop_resume), never from inside request_reply().
 * Failure modes: a refusal (scan, limits, time) is answered as a problem, `Connection: close`, and lingered on; a
 * failed socket closes at once; a client that does not take its answer, or is silent, is closed by its deadline.
 * Why send() and not the bufferevent's output: writing through it costs a round through epoll per answer. It is used
 * for what the socket did not take.
 */
#include "http/connection.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/text.h"
#include "http/linger.h"
#include "http/problem.h"
#include "http/uptake.h"

#define STREAM_SEND_BYTES (32 * 1024) /* the kernel doubles it */
#define STREAM_SILENCE_MS 30000
#define OUT_ROOM_KEPT_MAX ((size_t)256 * 1024)

static struct evbuffer *input_of(const struct connection *connection)
{
	return bufferevent_get_input(connection->bev);
}

static size_t buffered(const struct connection *connection)
{
	return evbuffer_get_length(input_of(connection));
}

/* --- out -------------------------------------------------------------------------------------------------------- */

bool connection_flush(struct connection *connection, struct buffer *out)
{
	size_t sent = 0;
	while (!connection->broken && !connection->writing && sent < out->size) {
		ssize_t n = send(connection->fd, out->data + sent, out->size - sent, MSG_NOSIGNAL);
		if (n >= 0)
			sent += (size_t)n;
		else if (errno == EAGAIN || errno == EWOULDBLOCK)
			break;
		else if (errno != EINTR)
			connection->broken = true;
	}
	if (!connection->broken && sent < out->size) {
		uptake_owe(connection, out->size - sent);
		if (bufferevent_write(connection->bev, out->data + sent, out->size - sent) != 0)
			connection->broken = true;
	}
	buffer_clear(out);
	if (out->room > OUT_ROOM_KEPT_MAX)
		buffer_done(out);
	return !connection->broken && !connection->writing;
}

struct buffer *connection_out(struct connection *connection)
{
	return connection->processing ? &connection->loop->out : &connection->loop->out_later;
}

/* --- refusals --------------------------------------------------------------------------------------------------- */

/* Answers and closes: where the next request would start is not known, or nobody wants to read that far. */
static void refuse(struct connection *connection, enum lu_error error, const char *why)
{
	metric_add(METRIC_HTTP_REJECTED, 1);
	if (!connection->request.arena)
		request_open(connection);
	connection->close_after = connection->refused = true;
	problem_reply(&connection->request, error, text_of(why));
}

/* --- in: one step each ------------------------------------------------------------------------------------------ */

static bool dispatch(struct connection *connection)
{
	connection->state = CONNECTION_RUNNING;
	connection->loop->running++;
	connection->request.complete_ns = connection->loop->now_ns;
	request_dispatch(&connection->request);
	return connection->state == CONNECTION_IDLE;
}

static void begin_body(struct connection *connection, const struct scan *scan)
{
	connection->state = CONNECTION_BODY;
	if (scan->chunked) {
		connection->body_left = -1;
		chunk_init(&connection->chunk);
	} else {
		connection->body_left = scan->content_length;
		/* Small bodies cost no allocation of their own; large ones grow as they come, so that a mere announcement
		 * takes no memory. */
		if (scan->content_length <= BODY_IN_ARENA_BYTES_MAX) {
			connection->body_at = arena_alloc(request_arena(&connection->request), (size_t)scan->content_length + 1);
			connection->request.body.data = connection->body_at;
		}
	}
	if (scan->expect == SCAN_EXPECT_CONTINUE && buffered(connection) == 0)
		buffer_add_string(&connection->loop->out, "HTTP/1.1 100 Continue\r\n\r\n");
}

/* A complete header block of `size` bytes is at the front of the input. */
static bool take_head(struct connection *connection, const char *bytes, size_t size)
{
	struct request *request = &connection->request;
	request_open(connection);
	struct text block = arena_text(request_arena(request), (struct text){bytes, size});
	evbuffer_drain(input_of(connection), size);
	connection->crlf_skipped = false;
	struct scan scan;
	const char *why = "";
	enum lu_error error = scan_headers(block, &scan, &why);
	if (!error && scan.content_length > BODY_BYTES_MAX)
		error = LU_PAYLOAD_TOO_LARGE;
	if (!error)
		error = parser_read(block, &scan, request_arena(request), &request->head, &why);
	if (!error && scan.expect == SCAN_EXPECT_OTHER)
		error = LU_EXPECTATION_FAILED;
	if (error) {
		refuse(connection, error, why);
		return false;
	}
	connection->close_after = !request->head.keep_alive || connection->loop->draining;
	connection->say_keep_alive = scan.minor == 0 && !connection->close_after;
	if (request->head.method == 0) {
		/* Not a method of ours: what its body means is not ours to guess either. */
		connection->close_after = connection->refused = true;
		return dispatch(connection);
	}
	if (!scan.chunked && scan.content_length <= 0)
		return dispatch(connection);
	begin_body(connection, &scan);
	return true;
}

static bool step_head(struct connection *connection)
{
	size_t size = buffered(connection);
	if (size == 0)
		return false;
	if (connection->state == CONNECTION_IDLE) {
		connection->state = CONNECTION_HEAD;
		connection->started_ns = connection->loop->now_ns;
		connection->head_seen = 0;
	}
	if (size > SCAN_HEAD_BYTES_MAX)
		size = SCAN_HEAD_BYTES_MAX;
	const char *bytes = (const char *)evbuffer_pullup(input_of(connection), (ev_ssize_t)size);
	CHECK(bytes);
	if (bytes[0] == '\r' && !connection->crlf_skipped) {
		/* RFC 9112, 2.2: an old client may send a CR LF too many behind a body. One, not a stream of them. */
		if (size < 2)
			return false;
		if (bytes[1] == '\n') {
			evbuffer_drain(input_of(connection), 2);
			connection->crlf_skipped = true;
			connection->state = CONNECTION_IDLE;
			return true;
		}
	}
	size_t end = 0;
	const char *why = "";
	enum lu_error error = scan_find_end((struct text){bytes, size}, &connection->head_seen, &end, &why);
	if (error)
		refuse(connection, error, why);
	return !error && end && take_head(connection, bytes, end);
}

static enum lu_error add_body(struct connection *connection, struct text bytes)
{
	if (connection->body_at) {
		memcpy(connection->body_at, bytes.data, bytes.size);
		connection->body_at += bytes.size;
		connection->request.body.size += bytes.size;
		return LU_OK;
	}
	if (connection->loop->body_bytes + bytes.size > LOOP_BODY_BYTES_MAX)
		return LU_OVERLOADED;
	connection->loop->body_bytes += bytes.size;
	buffer_add(&connection->body_buffer, bytes.data, bytes.size);
	connection->request.body = buffer_text(&connection->body_buffer);
	return LU_OK;
}

/* What the chunked body's next bytes, `run`, hold; *run keeps what was not taken. */
static enum lu_error take_chunks(struct connection *connection, struct text *run, const char **ret_why)
{
	enum lu_error error = LU_OK;
	while (!error && run->size && !connection->chunk.done) {
		struct text data;
		error = chunk_take(&connection->chunk, run, BODY_BYTES_MAX, &data, ret_why);
		if (!error && data.size)
			error = add_body(connection, data);
	}
	return error;
}

/* The same for a body whose length was announced. */
static enum lu_error take_run(struct connection *connection, struct text *run)
{
	size_t size = (size_t)connection->body_left < run->size ? (size_t)connection->body_left : run->size;
	enum lu_error error = add_body(connection, (struct text){run->data, size});
	run->size -= size;
	connection->body_left -= (int64_t)size;
	return error;
}

static bool step_body(struct connection *connection)
{
	struct evbuffer *input = input_of(connection);
	bool chunked = connection->body_left < 0, complete = false;
	enum lu_error error = LU_OK;
	const char *why = "";
	size_t size;
	while (!complete && !error && (size = evbuffer_get_contiguous_space(input)) > 0) {
		struct text run = {(const char *)evbuffer_pullup(input, (ev_ssize_t)size), size};
		error = chunked ? take_chunks(connection, &run, &why) : take_run(connection, &run);
		complete = chunked ? connection->chunk.done : connection->body_left == 0;
		evbuffer_drain(input, size - run.size);
	}
	if (error)
		refuse(connection, error, why);
	return !error && complete && dispatch(connection);
}

/* True when the next step may find something to do. */
static bool step(struct connection *connection)
{
	if (connection->broken)
		return false;
	switch (connection->state) {
	case CONNECTION_IDLE:
	case CONNECTION_HEAD:
		return step_head(connection);
	case CONNECTION_BODY:
		return step_body(connection);
	default:
		return false;
	}
}

/* --- what comes next -------------------------------------------------------------------------------------------- */

/* Reads no more while all that may be buffered is, until the state has taken of it. The watermark alone would do so,
 * but then libevent calls on_read() again in every round of the loop, to ask whether it is taken now. */
static void mind_input(struct connection *connection)
{
	bool full = buffered(connection) >= INPUT_BYTES_MAX;
	if (full == connection->deaf)
		return;
	connection->deaf = full;
	if (full)
		bufferevent_disable(connection->bev, EV_READ);
	else if (bufferevent_enable(connection->bev, EV_READ) != 0)
		connection->broken = true;
}

/* Everything that can be done now is done: wait for what the state waits for, or close. May free the connection. */
static void settle(struct connection *connection)
{
	struct server_loop *loop = connection->loop;
	const struct server_times *times = &loop->server->times;
	if (!connection->broken)
		mind_input(connection);
	if (connection->broken) {
		connection_close(connection);
		return;
	}
	if (connection->writing) {
		loop_set_deadline(loop, connection, connection->write_deadline_ns);
		return;
	}
	switch (connection->state) {
	case CONNECTION_RUNNING:
		loop_set_deadline(loop, connection, DEADLINE_NONE);
		break;
	case CONNECTION_CLOSING:
		if (!connection->ended && (connection->refused || buffered(connection)))
			linger_begin(connection);
		else
			connection_close(connection);
		break;
	case CONNECTION_IDLE:
		if (buffered(connection))
			loop_resume(loop, connection);
		else if (connection->ended || loop->draining)
			connection_close(connection);
		else
			loop_set_deadline(loop, connection, connection->started_ns + times->idle_ns);
		break;
	case CONNECTION_HEAD:
	case CONNECTION_BODY:
		if (connection->ended)
			connection_close(connection);
		else
			loop_set_deadline(loop, connection,
			                  connection->started_ns +
			                      (connection->state == CONNECTION_HEAD ? times->header_ns : times->body_ns));
		break;
	case CONNECTION_STREAMING:
		if (connection->ended)
			connection_close(connection);
		else
			loop_set_deadline(loop, connection, DEADLINE_NONE);
		break;
	case CONNECTION_LINGER:
		break;
	}
}

void connection_process(struct connection *connection)
{
	struct server_loop *loop = connection->loop;
	bool more = !connection->writing;
	/* One send() full of answers is a turn. Whoever pipelines more waits for the next (settle), behind everybody else:
	 * else a thousand who ask without ever reading make the loop deaf for seconds. */
	do {
		connection->processing = true;
		do {
			more = more && step(connection);
		} while (more && loop->out.size < LOOP_OUT_BYTES_MAX);
		connection->processing = false;
		more &= connection_flush(connection, &loop->out);
	} while (more && connection->state != CONNECTION_IDLE);
	settle(connection);
}

void connection_answered(struct connection *connection)
{
	struct server_loop *loop = connection->loop;
	if (connection->state == CONNECTION_RUNNING)
		loop->running--;
	if (!connection->bev) {
		free(connection);
		loop_check_drained(loop);
		return;
	}
	connection->state = connection->close_after ? CONNECTION_CLOSING : CONNECTION_IDLE;
	connection->started_ns = loop->now_ns;
	if (connection->processing)
		return;
	connection_flush(connection, &loop->out_later);
	settle(connection);
}

void connection_stream(struct connection *connection)
{
	/* Small, so that what a slow reader gets is not long out of date; and one whose machine is gone is noticed. */
	int send_bytes = STREAM_SEND_BYTES, silence_ms = STREAM_SILENCE_MS;
	setsockopt(connection->fd, SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof send_bytes);
	setsockopt(connection->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof silence_ms);
	evbuffer_drain(input_of(connection), buffered(connection));
	connection->state = CONNECTION_STREAMING;
	connection->loop->running--;
	if (connection->processing)
		return;
	connection_flush(connection, &connection->loop->out_later);
	loop_resume(connection->loop, connection); /* it may have left already */
}

bool connection_stream_send(struct connection *connection, struct text bytes)
{
	struct server_loop *loop = connection->loop;
	if (connection->state != CONNECTION_STREAMING || connection->broken || connection->writing)
		return false;
	buffer_add_text(connection_out(connection), bytes);
	if (connection->processing)
		return true;
	connection_flush(connection, &loop->out_later);
	if (connection->broken)
		loop_resume(loop, connection); /* closed from there, not from inside this call */
	else if (connection->writing)
		loop_set_deadline(loop, connection, connection->write_deadline_ns);
	return true;
}

void connection_expire(struct connection *connection)
{
	bool slow = connection->state == CONNECTION_HEAD || connection->state == CONNECTION_BODY;
	if (connection->state == CONNECTION_LINGER && linger_goes_on(connection))
		return;
	if (connection->writing && uptake_goes_on(connection))
		return;
	if (connection->writing || !slow) {
		if (connection->writing)
			metric_add(METRIC_HTTP_REJECTED, 1);
		connection_close(connection);
		return;
	}
	refuse(connection, LU_REQUEST_TIMEOUT, "");
}

bool connection_is_idle(struct connection *connection)
{
	char byte;
	if (connection->state == CONNECTION_STREAMING)
		return true; /* it never ends by itself, and whoever listens comes back to another instance */
	return connection->state == CONNECTION_IDLE && !connection->writing && buffered(connection) == 0 &&
	       recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0;
}

/* --- life ------------------------------------------------------------------------------------------------------- */

void connection_close(struct connection *connection)
{
	struct server_loop *loop = connection->loop;
	if (connection->state == CONNECTION_STREAMING) {
		connection->state = CONNECTION_CLOSING; /* nothing can be sent from inside on_end */
		connection->request.stream->on_end(&connection->request);
	}
	loop_forget_deadline(connection);
	uptake_end(connection);
	if (connection->resuming)
		TAILQ_REMOVE(&loop->resumable, connection, resumable);
	LIST_REMOVE(connection, all);
	bufferevent_free(connection->bev); /* closes the socket */
	connection->bev = NULL;
	atomic_fetch_sub_explicit(&loop->connection_count, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&loop->server->connection_count, 1, memory_order_relaxed);
	metric_add(METRIC_HTTP_CONNECTIONS, -1);
	if (connection->state != CONNECTION_RUNNING) {
		if (connection->request.arena)
			request_discard(&connection->request);
		free(connection);
	}
	loop_check_drained(loop);
}

static void on_read(struct bufferevent *bev, void *context)
{
	struct connection *connection = context;
	loop_read_clock(connection->loop);
	if (connection->state == CONNECTION_LINGER) {
		linger_drop(connection);
	} else if (connection->state == CONNECTION_STREAMING) {
		connection->dropped_bytes += (int64_t)buffered(connection);
		evbuffer_drain(input_of(connection), buffered(connection));
		if (connection->dropped_bytes > STREAM_INPUT_BYTES_MAX)
			connection_close(connection);
	} else if (connection->state == CONNECTION_RUNNING || connection->writing || connection->resuming) {
		mind_input(connection); /* taken up when it is over; of those who pipeline, each when it is his turn */
	} else {
		connection_process(connection);
	}
}

/* Called when all that the socket had refused is written. */
static void on_written(struct bufferevent *bev, void *context)
{
	struct connection *connection = context;
	if (!connection->writing || evbuffer_get_length(bufferevent_get_output(bev)))
		return;
	loop_read_clock(connection->loop);
	uptake_end(connection);
	if (connection->state == CONNECTION_IDLE)
		connection->started_ns = connection->loop->now_ns;
	if (connection->state == CONNECTION_STREAMING && !connection->broken && !connection->ended) {
		loop_set_deadline(connection->loop, connection, DEADLINE_NONE);
		connection->request.stream->on_writable(&connection->request);
		return; /* it may have ended itself */
	}
	connection_process(connection);
}

static void on_end(struct bufferevent *bev, short what, void *context)
{
	struct connection *connection = context;
	loop_read_clock(connection->loop);
	if (what & BEV_EVENT_ERROR)
		connection->broken = true;
	connection->ended = true;
	if (connection->state == CONNECTION_LINGER)
		connection_close(connection);
	else
		settle(connection);
}

void connection_arrive(struct mailbox_item *item)
{
	struct connection *connection = (struct connection *)((char *)item - offsetof(struct connection, arrival));
	struct server_loop *loop = connection->loop;
	connection->bev = bufferevent_socket_new(loop->base, connection->fd, BEV_OPT_CLOSE_ON_FREE);
	CHECK(connection->bev);
	LIST_INSERT_HEAD(&loop->connections, connection, all);
	metric_add(METRIC_HTTP_CONNECTIONS, 1);
	connection->state = CONNECTION_IDLE;
	connection->started_ns = loop->now_ns;
	bufferevent_setcb(connection->bev, on_read, on_written, on_end, connection);
	bufferevent_setwatermark(connection->bev, EV_READ, 0, INPUT_BYTES_MAX);
	if (bufferevent_enable(connection->bev, EV_READ) != 0)
		connection->broken = true;
	if (connection->over_limit && !connection->broken)
		refuse(connection, LU_OVERLOADED, "Too many connections are open.");
	else
		settle(connection);
}
