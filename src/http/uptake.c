/* How fast an answer must be taken (uptake.h).
 *
 * Happy path: what is with us and with the kernel, counted at each deadline. Why the kernel's, too: it asks for more
 * only when a third of its megabytes is free, so by our own bytes a slow client would stand still and then leap.
 */
#include "http/uptake.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

/* What the client's machine has not acknowledged of what the kernel has. */
static size_t in_kernel(const struct connection *connection)
{
	int size = 0;
	return ioctl(connection->fd, SIOCOUTQ, &size) == 0 && size > 0 ? (size_t)size : 0;
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
