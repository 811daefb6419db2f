/* The directory of a `lastunit dev`, found or made.
 *
 * Happy path: resolve or make DIR, see that the unprivileged user reaches it, lock it, make the sockets' directory.
 * Failure modes: another supervisor holds the lock (refused, with its pid); one that was killed has children that are
 * still ending (waited for); DIR is somebody else's, open to others, or cannot be reached (refused); a sockets' directory
 * that is not what we left is not trusted: a new one is made.
 */
#include "cmd/dev_home.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "cmd/cmd.h"

#define STORE_ROOT "/var/lib/lastunit"
#define SOCKETS "/tmp/lu-"
#define ORPHANS_MS 30000 /* a killed supervisor's PostgreSQL shuts down in this time */
#define RETRY_MS 20
#define LOG_TAIL_BYTES 12000 /* holds a sanitizer's report */

/* What we ever put into DIR; "sockets" last, for it leads to the directory that is removed before it. */
static const char *const entries[] = {"postgres",  "postgres.new", "dev.env", "dev.env.new", "postgres.log",
                                      "redis.log", "serve.log",    "sockets", "lock"};

const char *dev_home_path(const struct dev_home *home, const char *name, char out[PATH_MAX])
{
	int size = snprintf(out, PATH_MAX, "%s/%s", home->path, name);
	CHECK(size > 0 && size < PATH_MAX);
	return out;
}

static bool is_ours(const char *name)
{
	for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++)
		if (strcmp(entries[i], name) == 0)
			return true;
	return false;
}

/* Counts what is in a directory, and what of it is not ours. */
static int entries_count(const char *directory, int *ret_foreign)
{
	int count = 0;
	*ret_foreign = 0;
	DIR *open_directory = opendir(directory);
	for (struct dirent *entry; open_directory && (entry = readdir(open_directory));) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		count++;
		*ret_foreign += !is_ours(entry->d_name);
	}
	if (open_directory)
		closedir(open_directory);
	return count;
}

/* Is it empty, or was it made by a `dev`, whatever became of that? What was begun has a lock and nothing of others; what
 * got further leads to its sockets, and others may keep something beside them. One that cannot be read is judged later. */
static bool is_data_directory(const char *directory)
{
	char path[PATH_MAX], sockets[DEV_SOCKETS_BYTES_MAX] = "";
	int foreign, count = entries_count(directory, &foreign);
	snprintf(path, sizeof path, "%s/lock", directory);
	if (count == 0 || (foreign == 0 && access(path, F_OK) == 0))
		return true;
	snprintf(path, sizeof path, "%s/sockets", directory);
	return readlink(path, sockets, sizeof sockets - 1) > 0 && strncmp(sockets, SOCKETS, strlen(SOCKETS)) == 0;
}

static bool make_parents(const char *path)
{
	char copy[PATH_MAX];
	snprintf(copy, sizeof copy, "%s", path);
	for (char *at = copy + 1; (at = strchr(at, '/')); at++) {
		*at = 0;
		if (mkdir(copy, 0755) < 0 && errno != EEXIST)
			return false;
		*at = '/';
	}
	return true;
}

/* Who may write into it could give the shop keys of his own, or lead a log of root's elsewhere. Ours, or root's; and root
 * may be somebody who called sudo in his own directory. */
static bool is_trusted(const struct stat *status)
{
	const char *caller = geteuid() == 0 ? getenv("SUDO_UID") : NULL;
	bool known = status->st_uid == 0 || status->st_uid == geteuid() ||
	             (caller && *caller && status->st_uid == (uid_t)strtoul(caller, NULL, 10));
	return known && !(status->st_mode & S_IWOTH);
}

/* Of ours, which others may write into and nobody has: a container's volume, say. */
static void shut_if_empty(const char *path, struct stat *status)
{
	int foreign;
	if (status->st_uid == geteuid() && status->st_mode & S_IWOTH && entries_count(path, &foreign) == 0 &&
	    chmod(path, status->st_mode & 07777 & ~S_IWOTH) == 0 && entries_count(path, &foreign) == 0)
		status->st_mode &= ~S_IWOTH;
}

static bool parent_reachable(const char *path, const struct child_user *user)
{
	char copy[PATH_MAX], real[PATH_MAX];
	snprintf(copy, sizeof copy, "%s", path);
	return realpath(dirname(copy), real) && child_user_reaches(user, real);
}

/* DIR as a link to a new directory that the unprivileged user reaches. */
static bool make_elsewhere(struct dev_home *home)
{
	char place[] = STORE_ROOT "/dev-XXXXXX";
	if (mkdir(STORE_ROOT, 0755) < 0 && errno != EEXIST)
		return false;
	if (!mkdtemp(place))
		return false;
	home->linked = true;
	if (chmod(place, 0711) == 0 && symlink(place, home->given) == 0)
		return true;
	rmdir(place);
	return false;
}

/* Sees to it that home->given is a directory, or a link to one, that the user can pass through. */
static bool settle(struct dev_home *home, const struct child_user *user, char why[512])
{
	struct stat status;
	bool there = lstat(home->given, &status) == 0;
	bool link = there && S_ISLNK(status.st_mode);
	if (link) {
		char target[PATH_MAX] = "";
		if (stat(home->given, &status) < 0 && readlink(home->given, target, sizeof target - 1) > 0 &&
		    strncmp(target, STORE_ROOT "/", sizeof STORE_ROOT) == 0)
			there = unlink(home->given) < 0; /* what it led to was removed by hand */
	}
	if (!there) {
		if (!make_parents(home->given))
			return cmd_refuse(why, "cannot make %s: %s", home->given, strerror(errno));
		bool made = parent_reachable(home->given, user) ? mkdir(home->given, user->change ? 0711 : 0700) == 0
		                                                : make_elsewhere(home);
		if (!made)
			return cmd_refuse(why, "cannot make %s: %s", home->given, strerror(errno));
	}
	if (!realpath(home->given, home->path) || stat(home->path, &status) < 0 || !S_ISDIR(status.st_mode))
		return cmd_refuse(why, "%s is not a directory", home->given);
	if (!is_data_directory(home->path))
		return cmd_refuse(why, "%s is not empty and no data directory of lastunit dev: choose another", home->given);
	shut_if_empty(home->path, &status);
	if (!is_trusted(&status))
		return cmd_refuse(why, "%s is another user's, or others may write into it: choose another --data", home->given);
	home->linked |= link && strncmp(home->path, STORE_ROOT "/", sizeof STORE_ROOT) == 0;
	if (child_user_reaches(user, home->path))
		return true;
	/* One of ours that only wants the right to pass, as mkdtemp() leaves them? */
	if (status.st_uid == geteuid() && chmod(home->path, (status.st_mode & 07777) | 0111) == 0 &&
	    child_user_reaches(user, home->path))
		return true;
	if (!link && rmdir(home->given) == 0 && make_elsewhere(home))
		return realpath(home->given, home->path) != NULL;
	if (!user->change)
		return cmd_refuse(why, "%s is another user's, who lets nobody in: choose another --data", home->given);
	return cmd_refuse(
		why, "the user %s, whom PostgreSQL runs as, cannot reach %s, and it is not empty: choose another --data",
		user->name, home->given);
}

/* Without the lock the directory is not ours: dev_home_close() leaves it alone. */
static void unlock(struct dev_home *home)
{
	close(home->lock);
	home->lock = -1;
}

/* Who holds the lock: the process that took it; 0 if that one is gone, or the file does not say. */
static int lock_holder(int lock)
{
	char holder[16] = "";
	ssize_t size = pread(lock, holder, sizeof holder - 1, 0);
	holder[size > 0 ? size : 0] = 0;
	int pid = atoi(holder);
	return pid > 0 && kill(pid, 0) == 0 ? pid : 0;
}

/* pid 0: of one that is gone, the servers are not. */
static bool refuse_in_use(const char *directory, int pid, char why[512])
{
	if (!pid)
		return cmd_refuse(why,
		                  "%s is in use by servers of a `lastunit dev` that is gone: wait, or choose another --data",
		                  directory);
	return cmd_refuse(why, "%s is in use by another `lastunit dev` (process %d): stop it, or choose another --data",
	                  directory, pid);
}

bool dev_home_is_free(const char *directory, char ret_why[512])
{
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/lock", directory);
	int lock = *directory ? open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
	if (lock < 0)
		return true;
	int pid = flock(lock, LOCK_SH | LOCK_NB) < 0 ? lock_holder(lock) : 0;
	close(lock);
	return !pid || refuse_in_use(directory, pid, ret_why);
}

bool dev_home_is_gone(const struct dev_home *home)
{
	char path[PATH_MAX];
	struct stat ours, there;
	if (stat(dev_home_path(home, "lock", path), &there) < 0)
		return errno == ENOENT;
	return fstat(home->lock, &ours) == 0 && (ours.st_dev != there.st_dev || ours.st_ino != there.st_ino);
}

/* The lock is inherited by every child, so it is free only when all of them are gone. Whoever holds it is refused;
 * the children of a supervisor that was killed are waited for. */
static bool lock(struct dev_home *home, char why[512])
{
	char path[PATH_MAX], holder[16];
	home->lock = open(dev_home_path(home, "lock", path), O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
	if (home->lock < 0)
		return cmd_refuse(why, "cannot open %s: %s: choose another --data", path, strerror(errno));
	int64_t deadline_ns = deadline_in_ms(ORPHANS_MS);
	while (flock(home->lock, LOCK_EX | LOCK_NB) < 0) {
		int pid = lock_holder(home->lock);
		if (pid || !deadline_left_ms(deadline_ns)) {
			unlock(home);
			return refuse_in_use(home->given, pid, why);
		}
		clock_sleep_until(deadline_in_ms(RETRY_MS));
	}
	int size = snprintf(holder, sizeof holder, "%d\n", (int)getpid());
	if (ftruncate(home->lock, 0) == 0 && pwrite(home->lock, holder, (size_t)size, 0) == size)
		return true;
	int error = errno;
	unlock(home);
	return cmd_refuse(why, "cannot write %s: %s", path, strerror(error));
}

/* The directory that DIR/sockets names, if it can be had and is ours; else a new one. The name stays the same from
 * start to start where it can, and with it the URLs. */
static bool make_sockets(struct dev_home *home, const struct child_user *user, char why[512])
{
	char link[PATH_MAX];
	dev_home_path(home, "sockets", link);
	struct stat status;
	ssize_t size = readlink(link, home->sockets, sizeof home->sockets - 1);
	home->sockets[size > 0 ? size : 0] = 0;
	if (strncmp(home->sockets, SOCKETS, strlen(SOCKETS)) == 0 && !strchr(home->sockets + strlen(SOCKETS), '/')) {
		if (mkdir(home->sockets, 0700) == 0 && chown(home->sockets, user->uid, user->gid) == 0)
			return true;
		if (lstat(home->sockets, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == user->uid &&
		    (status.st_mode & 0777) == 0700)
			return true;
	}
	strcpy(home->sockets, SOCKETS "XXXXXX");
	unlink(link);
	if (mkdtemp(home->sockets) && chown(home->sockets, user->uid, user->gid) == 0 && symlink(home->sockets, link) == 0)
		return true;
	return cmd_refuse(why, "cannot make a directory for sockets in /tmp: %s", strerror(errno));
}

bool dev_home_open(const char *directory, const struct child_user *user, struct dev_home *ret_home, char ret_why[512])
{
	struct dev_home *home = ret_home;
	*home = (struct dev_home){.lock = -1};
	if (!*directory) {
		strcpy(home->given, "/tmp/lastunit-XXXXXX");
		if (!mkdtemp(home->given))
			return cmd_refuse(ret_why, "cannot make a temporary directory: %s", strerror(errno));
	} else {
		size_t size = strlen(directory);
		while (size > 1 && directory[size - 1] == '/')
			size--;
		snprintf(home->given, sizeof home->given, "%.*s", (int)size, directory);
	}
	if (!settle(home, user, ret_why))
		return false;
	int foreign, count = entries_count(home->path, &foreign);
	home->ours = count == 0 || foreign == 0;
	if (!lock(home, ret_why))
		return false;
	if (!make_sockets(home, user, ret_why)) {
		unlock(home);
		return false;
	}
	char path[PATH_MAX];
	home->fresh = access(dev_home_path(home, "postgres/PG_VERSION", path), F_OK) < 0;
	return true;
}

static int on_entry(const char *path, const struct stat *status, int type, struct FTW *where)
{
	return remove(path) < 0 && errno != ENOENT ? -1 : 0;
}

/* Never follows a link: what is linked from a tree is not part of it. */
static void remove_tree(const char *path)
{
	nftw(path, on_entry, 16, FTW_DEPTH | FTW_PHYS);
}

void dev_home_close(struct dev_home *home, bool remove)
{
	if (home->lock < 0)
		return;
	remove_tree(home->sockets);
	if (remove && home->ours) {
		remove_tree(home->path);
	} else if (remove) {
		char path[PATH_MAX];
		for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++)
			remove_tree(dev_home_path(home, entries[i], path));
	}
	if (remove && home->linked && home->ours)
		unlink(home->given);
	unlock(home);
}

int dev_home_log(const struct dev_home *home, const char *name, bool empty)
{
	char path[PATH_MAX];
	return open(dev_home_path(home, name, path),
	            O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | (empty ? O_TRUNC : 0), 0640);
}

void dev_home_show_log(const struct dev_home *home, const char *name)
{
	char path[PATH_MAX], tail[LOG_TAIL_BYTES + 1];
	FILE *file = fopen(dev_home_path(home, name, path), "r");
	if (!file)
		return;
	bool cut = fseek(file, -LOG_TAIL_BYTES, SEEK_END) == 0;
	size_t size = fread(tail, 1, LOG_TAIL_BYTES, file);
	fclose(file);
	tail[size] = 0;
	char *line = cut && strchr(tail, '\n') ? strchr(tail, '\n') + 1 : tail;
	fprintf(stderr, "the end of %s:\n", path);
	for (char *rest; (line = strtok_r(line, "\n", &rest)); line = NULL)
		fprintf(stderr, "    %s\n", line);
}
