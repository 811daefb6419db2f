/* The private Redis of `lastunit dev`: a cache and nothing more, so nothing of it is kept.
 *
 * Happy path: start on a unix socket in the sockets' directory, ready when the socket answers PING.
 * Failure modes: no binary (the sentence names the package). Debian's redis-tools holds the whole server under another
 * name: one binary that is `redis-server` when argv[0] says so.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "cmd/dev.h"

static const char *const programs[] = {"/usr/bin/redis-server", "/usr/local/bin/redis-server",
                                       "/usr/bin/redis-check-rdb", NULL};

bool dev_redis_find(char ret_why[512])
{
	for (const char *const *program = programs; *program; program++)
		if (access(*program, X_OK) == 0)
			return true;
	return cmd_refuse(ret_why, "Redis is not installed: apt-get install redis-tools (it holds the server's binary)");
}

static void socket_path(const struct dev_home *home, char out[64])
{
	snprintf(out, 64, "%s/redis.sock", home->sockets);
}

pid_t dev_redis_start(const struct dev_home *home, const struct child_user *user, int output, int log)
{
	char path[64];
	socket_path(home, path);
	const char *argv[] = {"redis-server",
	                      "--port",
	                      "0",
	                      "--unixsocket",
	                      path,
	                      "--unixsocketperm",
	                      "700",
	                      "--save",
	                      "",
	                      "--appendonly",
	                      "no",
	                      "--maxmemory-policy",
	                      "noeviction",
	                      "--enable-debug-command",
	                      "local",
	                      "--dir",
	                      home->sockets,
	                      "--daemonize",
	                      "no",
	                      "--always-show-logo",
	                      "no",
	                      NULL};
	struct child_options options = {.programs = programs,
	                                .argv = argv,
	                                .user = user,
	                                .parent_death_signal = SIGKILL /* it keeps nothing, and may be stopped */,
	                                .output = output,
	                                .log = log,
	                                .directory = home->sockets};
	return child_start(&options);
}

bool dev_redis_ready(const struct dev_home *home)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socket_path(home, address.sun_path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct timeval limit = {.tv_usec = 200000};
	char reply[8] = "";
	bool ready = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 &&
	             connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
	             send(fd, "PING\r\n", 6, MSG_NOSIGNAL) == 6 && recv(fd, reply, 5, MSG_WAITALL) == 5 &&
	             memcmp(reply, "+PONG", 5) == 0;
	if (fd >= 0)
		close(fd);
	return ready;
}

void dev_redis_url(const struct dev_home *home, char out[DEV_URL_BYTES_MAX])
{
	char path[64];
	socket_path(home, path);
	snprintf(out, DEV_URL_BYTES_MAX, "unix://%s", path);
}
