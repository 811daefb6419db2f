/* The time between a refusal and the close (linger.h).
 *
 * Happy path: our direction is ended, the client reads the answer and closes: on_end() frees the connection. One that goes
 * on sending is dropped by recv(MSG_TRUNC), which copies nothing.
 * Failure modes: too much of its own: it is no longer read, nor looked at before its time is over. Too
 * much of all: it rests.
 */
#include "http/linger.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <sys/socket.h>

#include "base/clock.h"

#define DROP_BYTES_ONCE ((size_t)64 * 1024)
#define REST_MS 200
#define LOOK_BYTES 16384 /* what a look costs at least: many small pieces are work, too */

static int64_t drain_buffered(struct connection *connection)
{
	struct evbuffer *input = bufferevent_get_input(connection->bev);
	size_t size = evbuffer_get_length(input);
	evbuffer_drain(input, size);
	return (int64_t)size;
}

void linger_begin(struct connection *connection)
{
	struct server_loop *loop = connection->loop;
	shutdown(connection->fd, SHUT_WR);
	drain_buffered(connection);
	if (connection->deaf && bufferevent_enable(connection->bev, EV_READ) == 0)
		connection->deaf = false;
	connection->state = CONNECTION_LINGER;
	connection->linger_until_ns = loop->now_ns + LINGER_MS * NS_PER_MS;
	loop_set_deadline(loop, connection, connection->linger_until_ns);
}

void linger_drop(struct connection *connection)
{
	struct server_loop *loop = connection->loop;
	char nowhere[DROP_BYTES_ONCE]; /* not a byte comes here, but sanitizers know recv() without MSG_TRUNC only */
	int64_t size = drain_buffered(connection);
	/* Its end, if it comes now, is seen by the bufferevent when it reads again. */
	ssize_t n = recv(connection->fd, nowhere, sizeof nowhere, MSG_TRUNC | MSG_DONTWAIT);
	size += n > 0 ? n : 0;
	connection->dropped_bytes += size;
	loop->drop_bytes_left -= size < LOOK_BYTES ? LOOK_BYTES : size;
	if (connection->dropped_bytes <= LINGER_BYTES_MAX && loop->drop_bytes_left >= 0)
		return;
	bufferevent_disable(connection->bev, EV_READ);
	int64_t rested_ns = loop->now_ns + REST_MS * NS_PER_MS;
	if (connection->dropped_bytes <= LINGER_BYTES_MAX && rested_ns < connection->linger_until_ns)
		loop_set_deadline(loop, connection, rested_ns);
}

bool linger_goes_on(struct connection *connection)
{
	if (connection->loop->now_ns >= connection->linger_until_ns || bufferevent_enable(connection->bev, EV_READ) != 0)
		return false;
	loop_set_deadline(connection->loop, connection, connection->linger_until_ns);
	return true;
}
