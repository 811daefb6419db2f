/* Starting and ending child processes.
 *
 * Happy path: fork; the child becomes its user, asks for a signal at its parent's death, arranges its descriptors and
 * executes; a close-on-exec pipe tells the parent that exec succeeded by saying nothing.
 * Failure modes: an error before exec travels through that pipe as an errno; a parent that died between fork and prctl
 * is noticed by getppid().
 */
#include "cmd/child.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

#define POLL_MS 5

bool child_user_find(struct child_user *ret_user)
{
	static char name[64];
	if (geteuid() != 0) {
		*ret_user = (struct child_user){.uid = geteuid(), .gid = getegid(), .name = "you"};
		return true;
	}
	struct passwd *entry = getpwnam("postgres");
	if (!entry)
		entry = getpwnam("nobody");
	if (!entry || entry->pw_uid == 0)
		return false;
	strncpy(name, entry->pw_name, sizeof name - 1);
	*ret_user = (struct child_user){.change = true, .uid = entry->pw_uid, .gid = entry->pw_gid, .name = name};
	return true;
}

static int become(const struct child_user *user)
{
	if (!user || !user->change)
		return 0;
	if (setgroups(1, &user->gid) < 0 || setresgid(user->gid, user->gid, user->gid) < 0)
		return -1;
	return setresuid(user->uid, user->uid, user->uid);
}

bool child_user_reaches(const struct child_user *user, const char *directory)
{
	if (!user->change)
		return access(directory, X_OK) == 0;
	pid_t pid = fork();
	if (pid == 0)
		_exit(become(user) == 0 && access(directory, X_OK) == 0 ? 0 : 1);
	int code;
	return pid > 0 && child_wait(pid, DEADLINE_NONE, &code) && code == 0;
}

/* In the child. Returns only on failure, errno set. Nothing here allocates. */
static void run(const struct child_options *options, pid_t parent)
{
	setsid(); /* what a child types into root's terminal (TIOCSTI), root's shell would run */
	if (become(options->user) < 0)
		return;
	/* After the change of user, which clears it. */
	if (prctl(PR_SET_PDEATHSIG, options->parent_death_signal) < 0)
		return;
	if (getppid() != parent)
		_exit(0);
	int null = open("/dev/null", O_RDONLY);
	if (null < 0 || chdir(options->directory) < 0)
		return;
	if (dup2(null, STDIN_FILENO) < 0 || dup2(options->output, STDOUT_FILENO) < 0 ||
	    dup2(options->log, STDERR_FILENO) < 0)
		return;
	close(null);
	signal(SIGPIPE, SIG_DFL);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (const char *const *program = options->programs; *program; program++)
		execv(*program, (char *const *)options->argv);
}

pid_t child_start(const struct child_options *options)
{
	int report[2];
	if (pipe2(report, O_CLOEXEC) < 0)
		return -1;
	pid_t parent = getpid(), pid = fork();
	if (pid == 0) {
		run(options, parent);
		int error = errno;
		ssize_t ignored = write(report[1], &error, sizeof error);
		(void)ignored;
		_exit(127);
	}
	int error = errno;
	close(report[1]);
	if (pid > 0) {
		ssize_t size;
		while ((size = read(report[0], &error, sizeof error)) < 0 && errno == EINTR)
			;
		if (size == (ssize_t)sizeof error) {
			waitpid(pid, NULL, 0);
			pid = -1;
		}
	}
	close(report[0]);
	errno = error;
	return pid;
}

int child_exit_code(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool child_wait(pid_t pid, int64_t deadline_ns, int *ret_code)
{
	for (;;) {
		int status;
		pid_t got = waitpid(pid, &status, deadline_ns == DEADLINE_NONE ? 0 : WNOHANG);
		if (got == pid) {
			*ret_code = child_exit_code(status);
			return true;
		}
		if (got < 0 && errno != EINTR)
			return false;
		if (got == 0) {
			if (!deadline_left_ms(deadline_ns))
				return false;
			clock_sleep_until(deadline_in_ms(POLL_MS));
		}
	}
}
