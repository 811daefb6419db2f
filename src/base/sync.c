/* Sync points (sync.h). Happy path: connect, say the name, read until the other side answers or closes. Failure modes:
 * nobody listens, or no longer: the thread goes on, for a point may delay but never decide. */
#include "base/sync.h"

#ifdef LASTUNIT_SYNC_POINTS

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void sync_point(const char *name)
{
	const char *path = getenv("LASTUNIT_SYNC");
	if (!path || !*path)
		return;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	char answer;
	if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
	    send(fd, name, strlen(name) + 1, MSG_NOSIGNAL) > 0)
		while (read(fd, &answer, 1) < 0 && errno == EINTR)
			continue;
	close(fd);
}

#endif
