/* The time between a refusal and the close (linger.h).
 *
 * Happy path: our direction is ended, the client reads the answer and closes: on_end() frees the connection. One that goes
 * on sending is dropped by recv(MSG_TRUNC), which copies nothing.
 * Failure modes: too much, by its own count or the loop's: it is no longer read, nor looked at before its time is over.
 */
#include "http/linger.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <sys/socket.h>

#include "base/clock.h"

#define DROP_BYTES_ONCE ((size_t)256 * 1024)
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
	loop_set_deadline(loop, connection, loop->now_ns + LINGER_MS * NS_PER_MS);
}

void linger_drop(struct connection *connection)
{
	struct server_loop *loop = connection->loop;
	int64_t size = drain_buffered(connection);
	/* Its end, if it comes now, is seen by the bufferevent when it reads again. */
	ssize_t n = recv(connection->fd, NULL, DROP_BYTES_ONCE, MSG_TRUNC | MSG_DONTWAIT);
	size += n > 0 ? n : 0;
	connection->dropped_bytes += size;
	loop->drop_bytes_left -= size < LOOK_BYTES ? LOOK_BYTES : size;
	if (connection->dropped_bytes > LINGER_BYTES_MAX || loop->drop_bytes_left < 0)
		bufferevent_disable(connection->bev, EV_READ);
}
