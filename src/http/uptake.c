/* How fast an answer must be taken (uptake.h).
 *
 * Happy path: what is with us and with the kernel, counted at each deadline. Why the kernel's, too: it asks for more
 * only when a third of its megabytes is free, so by our own bytes a slow client would stand still and then leap. For the
 * loop an answer counts whole until its last byte is taken: the evbuffer frees it no sooner.
 */
#include "http/uptake.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "base/metrics.h"

/* What the client's machine has not acknowledged of what the kernel has. */
static size_t in_kernel(const struct connection *connection)
{
	int size = 0;
	return ioctl(connection->fd, SIOCOUTQ, &size) == 0 && size > 0 ? (size_t)size : 0;
}

static void forget(struct connection *connection)
{
	struct server_loop *loop = connection->loop;
	if (!connection->untaken)
		return;
	TAILQ_REMOVE(&loop->takers, connection, takers);
	loop->untaken_bytes -= connection->untaken;
	connection->untaken = 0;
}

/* Closed from the loop, not from here: a handler may be in the middle of telling many. */
static void cut_off_the_longest(struct server_loop *loop)
{
	struct connection *longest;
	while (loop->untaken_bytes > loop->untaken_bytes_max &&
	       (longest = TAILQ_FIRST(&loop->takers)) != TAILQ_LAST(&loop->takers, connection_turns)) {
		forget(longest);
		longest->broken = true;
		metric_add(METRIC_HTTP_REJECTED, 1);
		loop_resume(loop, longest);
	}
}

static void count(struct connection *connection, size_t bytes)
{
	struct server_loop *loop = connection->loop;
	if (!connection->untaken)
		TAILQ_INSERT_TAIL(&loop->takers, connection, takers);
	connection->untaken += bytes;
	loop->untaken_bytes += bytes;
	cut_off_the_longest(loop);
}

void uptake_end(struct connection *connection)
{
	forget(connection);
	connection->writing = false;
}

void uptake_owe(struct connection *connection, size_t bytes)
{
	if (!connection->writing) {
		connection->writing = true;
		connection->write_deadline_ns = connection->loop->now_ns + connection->loop->server->times.body_ns;
		connection->write_left = connection->write_whole = in_kernel(connection);
	}
	connection->write_left += bytes;
	connection->write_whole += bytes;
	count(connection, bytes);
}

bool uptake_goes_on(struct connection *connection)
{
	struct server_loop *loop = connection->loop;
	size_t left = evbuffer_get_length(bufferevent_get_output(connection->bev)) + in_kernel(connection);
	size_t least = connection->write_whole / UPTAKE_DEADLINES_MAX;
	if (least < UPTAKE_BYTES_MIN)
		least = UPTAKE_BYTES_MIN;
	if (left + least > connection->write_left)
		return false;
	connection->write_left = left;
	connection->write_deadline_ns = loop->now_ns + loop->server->times.body_ns;
	loop_set_deadline(loop, connection, connection->write_deadline_ns);
	return true;
}
