/* The other end of a connection of src/http (peer.h).
 *
 * Happy path: a pair of sockets; one is given to connection_arrive(), as on_accept() does, the other is ours. After each
 * piece the loop is turned until the connection can do no more: it has read all there is and no handler has its request.
 * Failure modes: all are faults of the service, and CHECKed: it stands still, or what it sends is no HTTP.
 */
#include "fuzz/peer.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"
#include "http/connection.h"

/* The library has an enum of the same name as the service's. */
#define http_method library_method
#include <http_parser.h>
#undef http_method

#define TURNS_MAX 100000
#define FAR_NS (INT64_C(3600) * NS_PER_S)

static struct server *server;

void peer_start(const struct router *router, struct server_hooks hooks)
{
	static const char date[] = "Date: Sun, 29 Nov 2026 14:32:05 GMT\r\n";
	server = calloc(1, sizeof *server + sizeof server->loops[0]);
	CHECK(server);
	server->times = (struct server_times){FAR_NS, FAR_NS, FAR_NS, FAR_NS, FAR_NS};
	server->router = *router;
	server->hooks = hooks;
	server->connections_max = 10;
	server->loop_count = 1;
	struct server_loop *loop = &server->loops[0];
	CHECK(loop_init(loop, server));
	event_del(loop->tick_event);
	memcpy(loop->date, date, sizeof date);
	loop->date_size = sizeof date - 1;
	if (hooks.loop_start)
		loop->context = hooks.loop_start(loop, hooks.context);
}

void peer_stop(void)
{
	struct server_loop *loop = &server->loops[0];
	if (server->hooks.loop_stop)
		server->hooks.loop_stop(loop->context, server->hooks.context);
	loop_done(loop);
	free(server);
	server = NULL;
}

/* --- turning the loop --------------------------------------------------------------------------------------------- */

static int connect_pair(void)
{
	struct server_loop *loop = &server->loops[0];
	int ends[2];
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
	struct connection *connection = calloc(1, sizeof *connection);
	CHECK(connection);
	connection->fd = ends[1];
	connection->loop = loop;
	atomic_fetch_add(&server->connection_count, 1);
	atomic_fetch_add(&loop->connection_count, 1);
	loop_read_clock(loop);
	connection_arrive(&connection->arrival);
	return ends[0];
}

/* Takes what has come. False: the service has closed, and that was all. */
static bool drain(int fd, struct buffer *out)
{
	for (;;) {
		buffer_reserve(out, 16 * 1024);
		ssize_t got = recv(fd, out->data + out->size, 16 * 1024, 0);
		if (got > 0)
			out->size += (size_t)got;
		else if (got < 0 && errno == EAGAIN)
			return true;
		else
			return false;
	}
}

/* Nothing will come of another turn before we send more. */
static bool is_quiet(void)
{
	const struct connection *connection = LIST_FIRST(&server->loops[0].connections);
	int unread = 0;
	if (!connection)
		return true;
	CHECK(ioctl(connection->fd, FIONREAD, &unread) == 0);
	return connection->state != CONNECTION_RUNNING && !connection->writing && !connection->resuming && !unread &&
	       !connection->broken;
}

static bool turn_until_quiet(int fd, struct buffer *out)
{
	bool open = true;
	size_t turns = 0;
	do {
		CHECK(++turns < TURNS_MAX); /* it stands still */
		event_base_loop(server->loops[0].base, EVLOOP_NONBLOCK);
		open = drain(fd, out);
	} while (!is_quiet());
	return open && drain(fd, out);
}

/* Sends and turns until the bytes are with the service. False: it has closed. */
static bool send_all(int fd, struct text bytes, struct buffer *out)
{
	while (bytes.size) {
		ssize_t sent = send(fd, bytes.data, bytes.size, MSG_NOSIGNAL);
		if (sent < 0 && errno != EAGAIN)
			return false;
		bytes.data += sent > 0 ? sent : 0;
		bytes.size -= sent > 0 ? (size_t)sent : 0;
		if (!turn_until_quiet(fd, out))
			return false;
	}
	return true;
}

static void talk(int fd, struct text bytes, size_t first, size_t piece, struct buffer *out)
{
	bool open = true;
	for (size_t at = 0, size = first; open && at < bytes.size; at += size, size = piece) {
		if (size > bytes.size - at)
			size = bytes.size - at;
		open = send_all(fd, (struct text){bytes.data + at, size}, out);
	}
	shutdown(fd, SHUT_WR);
	for (size_t turns = 0; open; turns++) {
		CHECK(turns < TURNS_MAX); /* it does not close */
		open = turn_until_quiet(fd, out);
	}
	/* The service's own end is closed by libevent one round later. */
	event_base_loop(server->loops[0].base, EVLOOP_NONBLOCK);
	CHECK(LIST_EMPTY(&server->loops[0].connections) && !server->loops[0].running && !server->loops[0].body_bytes);
	close(fd);
}

/* --- taking answers apart ----------------------------------------------------------------------------------------- */

struct apart {
	struct peer_answers *answers;
	struct peer_answer answer;
	bool bodiless, endless, over; /* endless: only the end of the connection ends it */
};

static int on_begin(http_parser *parser)
{
	struct apart *apart = parser->data;
	apart->answer = (struct peer_answer){0};
	return 0;
}

static int on_headers(http_parser *parser)
{
	struct apart *apart = parser->data;
	apart->answer.status = (int)parser->status_code;
	apart->answer.closes = !http_should_keep_alive(parser);
	apart->endless = parser->content_length == UINT64_MAX && parser->status_code != 204 && parser->status_code != 304;
	return apart->bodiless;
}

static int on_body(http_parser *parser, const char *at, size_t size)
{
	struct apart *apart = parser->data;
	apart->answer.body = (struct text){at, size};
	return 0;
}

static int on_complete(http_parser *parser)
{
	http_parser_pause(parser, 1);
	return 0;
}

static const http_parser_settings settings = {
	.on_message_begin = on_begin,
	.on_headers_complete = on_headers,
	.on_body = on_body,
	.on_message_complete = on_complete,
};

/* One answer at the front of `rest`; returns its size. */
static size_t take_one(struct apart *apart, struct text rest)
{
	http_parser parser;
	const char *end = memmem(rest.data, rest.size, "\r\n\r\n", 4);
	CHECK(end);
	size_t head = (size_t)(end + 4 - rest.data);
	/* What cannot be read is no HEAD to the service: it is told so at length, and that is the end. */
	apart->bodiless &= head == rest.size;
	http_parser_init(&parser, HTTP_RESPONSE);
	parser.data = apart;
	size_t size = http_parser_execute(&parser, &settings, rest.data, rest.size);
	if (size == rest.size && HTTP_PARSER_ERRNO(&parser) == HPE_OK)
		http_parser_execute(&parser, &settings, NULL, 0); /* that was the end */
	CHECK(HTTP_PARSER_ERRNO(&parser) == HPE_PAUSED);      /* else: no HTTP, or cut off */
	apart->answer.head = (struct text){rest.data, head};
	CHECK(size == head + apart->answer.body.size);
	CHECK(!apart->endless || text_equal(peer_field(&apart->answer, "Content-Type"), TEXT("text/event-stream")));
	return size;
}

static void take_apart(struct peer_answers *answers, bool bodiless)
{
	struct apart apart = {.answers = answers, .bodiless = bodiless};
	static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct buffer *raw = &answers->raw;
	for (size_t at = 0; at < raw->size;) {
		struct text rest = {raw->data + at, raw->size - at};
		/* Whether it is said depends on what has come by then, and may. */
		if (rest.size >= sizeof interim - 1 && memcmp(rest.data, interim, sizeof interim - 1) == 0) {
			raw->size -= sizeof interim - 1;
			memmove(raw->data + at, raw->data + at + sizeof interim - 1, raw->size - at);
			continue;
		}
		CHECK(!apart.over); /* after Connection: close nothing is answered */
		at += take_one(&apart, rest);
		CHECK(at <= raw->size && apart.answer.status >= 200 && apart.answer.status <= 599);
		apart.over = apart.answer.closes;
		if (answers->count++ < PEER_ANSWERS_MAX)
			answers->answers[answers->count - 1] = apart.answer;
	}
}

void peer_exchange(struct text bytes, size_t first, size_t piece, bool bodiless, struct peer_answers *ret_answers)
{
	CHECK(first && piece);
	ret_answers->raw = (struct buffer){0};
	ret_answers->count = 0;
	talk(connect_pair(), bytes, first, piece, &ret_answers->raw);
	take_apart(ret_answers, bodiless);
}

void peer_answers_done(struct peer_answers *answers)
{
	buffer_done(&answers->raw);
}

struct text peer_field(const struct peer_answer *answer, const char *name)
{
	size_t size = strlen(name);
	const char *at = answer->head.data, *end = answer->head.data + answer->head.size;
	while ((at = memmem(at, (size_t)(end - at), "\r\n", 2))) {
		at += 2;
		if ((size_t)(end - at) > size && strncasecmp(at, name, size) == 0 && at[size] == ':') {
			const char *from = at + size + 2, *to = memmem(at, (size_t)(end - at), "\r\n", 2);
			return (struct text){from, (size_t)(to - from)};
		}
	}
	return TEXT("");
}
