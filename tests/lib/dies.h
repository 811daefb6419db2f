/* assert_dies(expression): it must end the process with abort(), as a CHECK() does. Runs it in a child, whose stderr is
 * thrown away, so the test goes on. Not for code that needs other threads: a fork has only its own. */
#ifndef LIB_DIES_H
#define LIB_DIES_H

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define assert_dies(expression)                                                           \
	do {                                                                                  \
		pid_t dies_child = fork();                                                        \
		assert_true(dies_child >= 0);                                                     \
		if (dies_child == 0) {                                                            \
			setrlimit(RLIMIT_CORE, &(struct rlimit){0});                                  \
			/* cmocka catches these and would turn a crash into an abort() */             \
			for (int dies_i = 0; dies_i < 4; dies_i++)                                    \
				signal((const int[]){SIGABRT, SIGSEGV, SIGBUS, SIGFPE}[dies_i], SIG_DFL); \
			dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);                             \
			(void)(expression);                                                           \
			_exit(0);                                                                     \
		}                                                                                 \
		int dies_status = 0;                                                              \
		assert_int_equal(waitpid(dies_child, &dies_status, 0), dies_child);               \
		assert_true(WIFSIGNALED(dies_status) && WTERMSIG(dies_status) == SIGABRT);        \
	} while (0)

#endif
