/* Child processes of `lastunit dev`: started, watched and ended by pid, under a user of their own when we are root.
 *
 * A child gets a session of its own, without a terminal (Ctrl-C reaches only the supervisor, which ends its children in
 * order), an empty signal mask, and a parent death signal, so that nothing outlives a supervisor that is killed. Thread:
 * the supervisor's only one; PR_SET_PDEATHSIG is bound to the thread that forks.
 */
#ifndef CMD_CHILD_H
#define CMD_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Whom the servers run as: PostgreSQL refuses to be root. */
struct child_user {
	bool change; /* we are root: the child becomes this user */
	uid_t uid;
	gid_t gid;
	const char *name;
};

/* root: `postgres` if there is one, else `nobody`; others: themselves. False: neither user exists. */
bool child_user_find(struct child_user *ret_user);
/* May this user pass through the directory and all those above it? */
bool child_user_reaches(const struct child_user *user, const char *directory);

struct child_options {
	const char *const *programs;   /* paths tried in order, NULL-ended; the first that can be executed */
	const char *const *argv;       /* NULL-ended */
	const struct child_user *user; /* NULL: as we are */
	int parent_death_signal;
	int output;            /* becomes its stdout */
	int log;               /* becomes its stderr */
	const char *directory; /* to start in */
};

/* The pid, or -1 with errno: of fork, of the change of user, or of the last exec that was tried. */
pid_t child_start(const struct child_options *options);
/* Waits for it until the deadline. True and its exit code in *ret_code (128 + signal if one ended it), or false. */
bool child_wait(pid_t pid, int64_t deadline_ns, int *ret_code);
/* A waitpid status as the shell would say it. */
int child_exit_code(int status);

#endif
