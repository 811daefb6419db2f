/* Files of a race, whole or not at all.
 *
 * Happy path: a file beside it under a name of our own, all of it, rename().
 * Failure modes: what cannot be written is a sentence, and the file beside it is removed. A directory that takes no new
 * files, but has one that may be written: it is overwritten where it is.
 */
#include "cmd/race_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.h"
#include "cmd/cmd.h"

#define MODE_NEW 0666 /* less the umask */

static bool fails(const char *path, char why[512])
{
	return cmd_refuse(why, "%s cannot be written: %m", path);
}

static void directory_of(const char *path, char out[PATH_MAX])
{
	const char *slash = strrchr(path, '/');
	if (!slash)
		snprintf(out, PATH_MAX, ".");
	else
		snprintf(out, PATH_MAX, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

bool race_file_check(const char *path, char why[512])
{
	struct stat there;
	char directory[PATH_MAX];
	if (stat(path, &there) == 0) {
		errno = S_ISDIR(there.st_mode) ? EISDIR : 0;
		return (!errno && access(path, W_OK) == 0) || fails(path, why);
	}
	directory_of(path, directory);
	return (errno == ENOENT && access(directory, W_OK | X_OK) == 0) || fails(path, why);
}

/* Closes it. */
static bool write_all(int fd, struct text content)
{
	while (content.size) {
		ssize_t n = write(fd, content.data, content.size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		content.data += n;
		content.size -= (size_t)n;
	}
	int error = errno;
	bool closed = close(fd) == 0;
	if (content.size)
		errno = error;
	return !content.size && closed;
}

/* O_NONBLOCK: to open a FIFO that nobody reads fails, instead of waiting for a reader. */
static bool write_there(const char *path, struct text content)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_NONBLOCK | O_CLOEXEC);
	return fd >= 0 && fcntl(fd, F_SETFL, O_WRONLY) == 0 && write_all(fd, content);
}

static bool write_beside(const char *path, const char *directory, const struct stat *old, struct text content)
{
	char beside[PATH_MAX + 40];
	snprintf(beside, sizeof beside, "%s/.race-%016llx", directory, (unsigned long long)random_u64());
	int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, MODE_NEW);
	if (fd < 0)
		return false;
	if (old)
		(void)!fchmod(fd, old->st_mode & 07777);
	bool written = write_all(fd, content) && rename(beside, path) == 0;
	int error = errno;
	if (!written)
		unlink(beside);
	errno = error;
	return written;
}

bool race_file_write(const char *path, struct text content, char why[512])
{
	struct stat old;
	char real[PATH_MAX], directory[PATH_MAX];
	bool there = stat(path, &old) == 0;
	/* Behind a symbolic link it is the file that is replaced, not the link. */
	if (there && !realpath(path, real))
		return fails(path, why);
	directory_of(there ? real : path, directory);
	bool beside = !there || (S_ISREG(old.st_mode) && access(directory, W_OK | X_OK) == 0);
	bool written = beside ? write_beside(there ? real : path, directory, there ? &old : NULL, content)
	                      : write_there(path, content);
	return written || fails(path, why);
}
