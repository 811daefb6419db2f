/* The directory of a `lastunit dev`: the cluster, the keys, the logs, and where its sockets are.
 *
 *   DIR/postgres/       the private cluster, of the unprivileged user
 *   DIR/dev.env         URLs and keys, 0600
 *   DIR/NAME.log        what the children print
 *   DIR/lock            held (flock) by the supervisor *and its children*: free only when the last of them is gone
 *   DIR/sockets         link to a directory of mode 0700 with a short name, because the path of a unix socket has
 *                       107 bytes at most
 *
 * Where that user cannot reach DIR (a checkout under /root), DIR itself is a link to a directory under
 * /var/lib/lastunit. Thread: one.
 */
#ifndef CMD_DEV_HOME_H
#define CMD_DEV_HOME_H

#include <limits.h>
#include <stdbool.h>

#include "cmd/child.h"

#define DEV_SOCKETS_BYTES_MAX 32

struct dev_home {
	char given[PATH_MAX]; /* as the user wrote it; or the temporary one */
	char path[PATH_MAX];  /* without links */
	char sockets[DEV_SOCKETS_BYTES_MAX];
	bool linked; /* `given` is a link of ours */
	bool ours;   /* nothing of others lay in it: may be removed whole */
	bool fresh;  /* no cluster yet */
	int lock;
};

/* directory "": a temporary one. One that is neither empty nor a `dev`'s is refused, and nothing is
 * put into it. False with a sentence in ret_why. */
bool dev_home_open(const char *directory, const struct child_user *user, struct dev_home *ret_home, char ret_why[512]);
/* False with a sentence in ret_why: a living `dev` has that directory. Makes nothing. */
bool dev_home_is_free(const char *directory, char ret_why[512]);
/* Somebody has removed the directory from under us, or another is in its place. */
bool dev_home_is_gone(const struct dev_home *home);
/* Removes the sockets' directory; with `remove` the whole DIR, or, where others keep files in it, all that is ours. */
void dev_home_close(struct dev_home *home, bool remove);
/* DIR/name in `out`; CHECKs that it fits. */
const char *dev_home_path(const struct dev_home *home, const char *name, char out[PATH_MAX]);
/* DIR/name for a child's output, emptied or to go on in, or -1. */
int dev_home_log(const struct dev_home *home, const char *name, bool empty);
/* The last lines of DIR/name, indented, on stderr: why a child did not start. */
void dev_home_show_log(const struct dev_home *home, const char *name);

#endif
