/* A whole file in memory (file_read.h). */
#include "cmd/file_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES ((size_t)1 << 20)

bool file_read(const char *path, struct buffer *out, char ret_why[256])
{
	int fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		snprintf(ret_why, 256, "%.200s: %s", path, strerror(errno));
		return false;
	}
	for (;;) {
		buffer_reserve(out, READ_BYTES);
		ssize_t got = read(fd, out->data + out->size, READ_BYTES);
		if (got < 0 && errno == EINTR)
			continue;
		if (got == 0)
			break;
		if (got < 0 || (out->size += (size_t)got) > FILE_BYTES_MAX) {
			snprintf(ret_why, 256, "%.200s: %s", path, got < 0 ? strerror(errno) : "larger than 1 GiB: split it");
			close(fd);
			return false;
		}
	}
	close(fd);
	return true;
}
