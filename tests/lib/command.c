/* The binary as a command (command.h). */
#include "lib/command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGUMENTS_MAX 60

extern char **environ;

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "command: %s: %s\n", what, strerror(errno));
	abort();
}

static void find_binary(char out[4096])
{
	const char *given = getenv("LASTUNIT_BIN");
	if (given && *given) {
		snprintf(out, 4096, "%s", given);
		return;
	}
	ssize_t size = readlink("/proc/self/exe", out, 4000);
	if (size <= 0)
		die("readlink /proc/self/exe");
	out[size] = 0;
	char *tests = NULL;
	for (char *at = out; (at = strstr(at, "/tests/")); at++)
		tests = at;
	if (!tests)
		die("the test does not lie below a directory `tests`; set LASTUNIT_BIN");
	strcpy(tests, "/lastunit");
}

static int nameless_file(void)
{
	int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		die("a file in /tmp");
	return fd;
}

static void set_environment(const char *const *variables)
{
	for (char **at = environ; *at;) {
		char name[64];
		size_t size = strcspn(*at, "=");
		if (strncmp(*at, "LASTUNIT_", 9) != 0 || size >= sizeof name) {
			at++;
			continue;
		}
		memcpy(name, *at, size);
		name[size] = 0;
		unsetenv(name);
	}
	for (; variables && *variables; variables++)
		putenv((char *)(unsigned long)*variables);
}

/* into: standard output; NULL: it is kept. */
static struct command start(const char *into, const char *const *arguments, const char *const *variables)
{
	char binary[4096];
	find_binary(binary);
	const char *argv[ARGUMENTS_MAX + 2] = {"lastunit"};
	for (size_t i = 0; arguments[i]; i++) {
		if (i == ARGUMENTS_MAX)
			die("too many arguments");
		argv[i + 1] = arguments[i];
	}
	struct command command = {.out_fd = nameless_file(), .err_fd = nameless_file()};
	pid_t parent = getpid();
	command.pid = fork();
	if (command.pid < 0)
		die("fork");
	if (command.pid)
		return command;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
	dup2(into ? open(into, O_WRONLY) : command.out_fd, STDOUT_FILENO);
	dup2(command.err_fd, STDERR_FILENO);
	set_environment(variables);
	execv(binary, (char *const *)(unsigned long)argv);
	_exit(127);
}

struct command command_start(const char *const *arguments, const char *const *variables)
{
	return start(NULL, arguments, variables);
}

static char *content_of(int fd)
{
	struct stat status;
	if (fstat(fd, &status) < 0)
		die("fstat");
	char *text = calloc(1, (size_t)status.st_size + 1);
	if (!text || pread(fd, text, (size_t)status.st_size, 0) != status.st_size)
		die("pread");
	return text;
}

void command_wait(struct command *command)
{
	int status;
	while (waitpid(command->pid, &status, 0) < 0)
		if (errno != EINTR)
			die("waitpid");
	command->pid = 0;
	command->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	command->out = content_of(command->out_fd);
	command->err = content_of(command->err_fd);
}

struct command command_run(const char *const *arguments, const char *const *variables)
{
	struct command command = command_start(arguments, variables);
	command_wait(&command);
	return command;
}

struct command command_run_into(const char *path, const char *const *arguments, const char *const *variables)
{
	struct command command = start(path, arguments, variables);
	command_wait(&command);
	return command;
}

void command_done(struct command *command)
{
	if (command->pid) {
		kill(command->pid, SIGKILL);
		command_wait(command);
	}
	close(command->out_fd);
	close(command->err_fd);
	free(command->out);
	free(command->err);
	*command = (struct command){0};
}
