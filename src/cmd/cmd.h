/* The subcommands of `lastunit`: what each one is to main.c, and what they share.
 *
 * A subcommand is one function that takes its own argv (argv[0] is its name) and returns the exit code. It begins with
 * cmd_begin(), which reads its flags, answers --help and refuses nonsense, the same way for all of them.
 */
#ifndef CMD_CMD_H
#define CMD_CMD_H

#include <stdio.h>

#include "base/config.h"
#include "store/pg.h"

enum exit_code {
	EXIT_OK = 0,
	EXIT_FAILED = 1,  /* it failed, or a promise is broken */
	EXIT_USAGE = 2,   /* usage or configuration */
	EXIT_BACKEND = 3, /* PostgreSQL or Redis cannot be reached */
};

struct subcommand {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary; /* one line, for `lastunit --help` */
};

/* What --help says. `shared` lists the names of config.def it takes, as for config_load(). */
struct manual {
	const char *name;
	const char *usage; /* behind "usage: lastunit ", e.g. "migrate [options]" */
	const char *about; /* paragraphs, wrapped, ending in a newline */
	const char *shared;
	const char *examples;   /* lines, indented by two blanks, each ending in a newline */
	const char *exit_codes; /* the same; NULL: the four of enum exit_code */
	int positionals_max;    /* arguments that are no flags */
};

#define CMD_GO_ON (-1)

/* Reads the flags. CMD_GO_ON: run; anything else is the exit code to return now (--help was answered, or the flags
 * are wrong and one line on stderr says so). Positional arguments are then argv[1..*ret_positionals]. */
int cmd_begin(const struct manual *manual, struct config *config, const struct config_option *options, int argc,
              char **argv, int *ret_positionals) __attribute__((warn_unused_result));
/* One line on stderr, "lastunit NAME: …"; returns `code`. */
int cmd_fail(const struct manual *manual, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* CMD_GO_ON, or the exit code after one line on stderr, without a password: it is missing, or cannot be read. */
int cmd_check_database_url(const struct manual *manual, const char *url) __attribute__((warn_unused_result));
/* Tries until the deadline, or until the server refuses what waiting does not mend; pg_error() says why. */
enum lu_error cmd_connect_until(struct pg *pg, int64_t deadline_ns) __attribute__((warn_unused_result));
/* Connects as the owner of the database, for commands that are not `serve`. 0 and *ret_pg, or the exit code after one
 * line on stderr. */
int cmd_connect(const struct manual *manual, const char *database_url, struct pg **ret_pg)
	__attribute__((warn_unused_result));
/* The same, to a database whose schema is this binary's. */
int cmd_connect_migrated(const struct manual *manual, const char *database_url, struct pg **ret_pg)
	__attribute__((warn_unused_result));
/* Writes the sentence and returns false: for functions that fail with a reason. */
bool cmd_refuse(char why[512], const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The name nearest to `word` of a NULL-ended list, if it is near enough to have been meant; NULL otherwise. */
const char *cmd_nearest(const char *word, const char *const *names);

int cmd_serve(int argc, char **argv);
int cmd_dev(int argc, char **argv);
int cmd_migrate(int argc, char **argv);
int cmd_key(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_audit(int argc, char **argv);
int cmd_replay(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_why(int argc, char **argv);
int cmd_flush(int argc, char **argv);
int cmd_scenario(int argc, char **argv);
int cmd_race(int argc, char **argv);

#endif
