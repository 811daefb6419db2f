/* The binary as a command: run to its end, or started and watched, its standard output and error kept.
 *
 *	struct command c = command_run((const char *[]){"import", path, "--json", NULL}, variables);
 *	assert_int_equal(c.exit_code, 0);
 *	json_t *json = json_loads(c.out, 0, NULL);
 *	command_done(&c);
 *
 * The binary is $LASTUNIT_BIN, or `lastunit` above the test's own directory `tests`. LASTUNIT_… variables of the test
 * itself are not passed on: only `variables` ("NAME=value", NULL-ended; NULL: none). What cannot go on prints why and
 * aborts. It dies with the test. Thread: the one that started it.
 */
#ifndef TESTS_LIB_COMMAND_H
#define TESTS_LIB_COMMAND_H

#include <sys/types.h>

struct command {
	pid_t pid;          /* 0: ended */
	int out_fd, err_fd; /* files without a name */
	int exit_code;      /* 128 + the signal that ended it */
	char *out, *err;    /* NUL behind; after command_wait() */
};

struct command command_start(const char *const *arguments, const char *const *variables);
/* Run with its standard output at a path ("/dev/full"); `out` is "". */
struct command command_run_into(const char *path, const char *const *arguments, const char *const *variables);
void command_wait(struct command *command);
struct command command_run(const char *const *arguments, const char *const *variables);
void command_done(struct command *command);

#endif
