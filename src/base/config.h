/* Configuration: one table (config.def) gives fields, flags, environment variables, --help and the checks at start.
 *
 * Precedence: flag, then environment, then default. An unknown flag or a value out of bounds is refused with the
 * reason. Subcommands add flags of their own (struct config_option) in the same form. Thread: read-only after start.
 */
#ifndef BASE_CONFIG_H
#define BASE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct config {
#define CONFIG_FIELD_STRING(name) const char *name;
#define CONFIG_FIELD_INT(name) int64_t name;
#define CONFIG_FIELD_BOOL(name) bool name;
#define X(type, name, default_, min, max, unit, help) CONFIG_FIELD_##type(name)
#include "base/config.def"
#undef X
};

/* The greatest value of each: CONFIG_MAX_lease_ms. */
enum {
#define X(type, name, default_, min, max, unit, help) CONFIG_MAX_##name = max,
#include "base/config.def"
#undef X
};

enum config_type { CONFIG_STRING, CONFIG_INT, CONFIG_BOOL };

/* A flag of one subcommand, e.g. {"clients", CONFIG_INT, "32", 1, 10000, "", "how many at once", &clients}.
 * Its environment variable is not read. The table ends in a NULL name. target: const char **, int64_t * or bool *,
 * set to the default (bounds not applied: "" may mark what must be given; NULL leaves it) and then to what is given.
 * Texts are borrowed from argv, the environment and the tables.
 *
 * {.name = "redis_url", .help = "…"}, named as an option of config.def that the subcommand takes and without a target,
 * says in --help what that option means here; all else about it stays. */
struct config_option {
	const char *name;
	enum config_type type;
	const char *default_value;
	int64_t min, max;
	const char *unit;
	const char *help;
	void *target;
};

/* Fills config from defaults, then environment, then argv[1..] (--name value, --name=value, --bool, --no-bool).
 * What does not start with "--", or follows a bare "--", is positional: moved to the front of argv[1..], count in
 * *ret_positionals. An empty environment variable counts as not set.
 * `shared` lists the names of config.def this subcommand takes ("database_url listen ..."; "*" all of them).
 * False after printing one line on `err`: the caller exits with 2. "--help" or "-h" sets *ret_help and returns true. */
bool config_load(struct config *config, const char *shared, const struct config_option *options, int argc, char **argv,
                 int *ret_positionals, bool *ret_help, FILE *err) __attribute__((warn_unused_result));
/* The options of a subcommand as --help lists them: flag, variable, default, bounds, unit, help. */
void config_print_help(FILE *out, const char *shared, const struct config_option *options);

#endif
