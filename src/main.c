/* lastunit: one stock count, every sales channel, the last unit never sold twice.
 *
 * This file is the table of subcommands and the map of the tree. Where to begin reading:
 *
 *   include/lastunit/     the words: types.h, operation.h, errors.def; decide.h is the decision as a function
 *   src/cmd/              the subcommands. serve.c shows how everything below is put together, in forty lines
 *   src/api/              HTTP under /v1: one table of routes, handlers that make operations of requests
 *   src/channels/         the clients that come with it: agents, the bot, phone and voice, feeds, webhooks, the pages
 *   src/http/             an HTTP/1.1 server on event loops; knows nothing of stock
 *   src/inventory/        the heart. batch.c is the write path: lock, read inside the lock, decide, write, release;
 *                         decide.c the decision; read.c and loader.c the read path; epoch.c says when a hit may be
 *                         served; reaper, relay and scrub keep house. Invariants are numbered in its README
 *   src/store/            PostgreSQL: a connection with deadlines, and what is asked of it, table by table
 *   src/cache/            Redis: a connection, and the calls on a cell
 *   src/base/             memory, text, time, ids, log, JSON, metrics, configuration
 *   lua/                  the scripts; the README explains the coherence protocol
 *   sql/                  the schema, in migrations; demo.csv, the gift shop of `lastunit dev`
 *   tests/                unit, store, cache, inventory, e2e, spec, sim, lint …; the README says what each kind proves
 *
 * Includes point downwards only: cmd -> {api, channels} -> {http, inventory} -> {store, cache} -> base. A lint sees to it.
 * api and channels are one layer in two rooms, and include each other: the table of routes has the channels' handlers, a
 * channel calls and renders as the API does. http and inventory do not, nor do store and cache.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "lastunit/version.h"

static const struct subcommand subcommands[] = {
	{"serve", cmd_serve, "serve the HTTP API on a PostgreSQL and a Redis"},
	{"dev", cmd_dev, "the same with a PostgreSQL, a Redis, keys and a demo of its own"},
	{"migrate", cmd_migrate, "bring a database's schema to this version"},
	{"key", cmd_key, "create, list, rotate and revoke API keys; settings of their principals"},
	{"import", cmd_import, "load stock from a CSV file"},
	{"export", cmd_export, "write the stock as a CSV file that import takes, or the ledger"},
	{"audit", cmd_audit, "check every promise against the ledger"},
	{"status", cmd_status, "how the service stands, and what weakens a promise"},
	{"why", cmd_why, "what a look-up of one SKU would answer, and why"},
	{"flush", cmd_flush, "close the cache epoch by hand"},
	{"replay", cmd_replay, "sell a file of real orders through every channel at once"},
	{"scenario", cmd_scenario, "play race scenarios against a running service"},
	{"race", cmd_race, "every textbook answer to the lost update on your PostgreSQL, beside ours"},
};
#define SUBCOMMAND_COUNT (sizeof subcommands / sizeof subcommands[0])

static void print_help(FILE *out)
{
	fputs(
		"One stock count, every sales channel, the last unit never sold twice.\n\n"
		"usage: lastunit COMMAND [options]\n\ncommands:\n",
		out);
	for (size_t i = 0; i < SUBCOMMAND_COUNT; i++)
		fprintf(out, "  %-10s %s\n", subcommands[i].name, subcommands[i].summary);
	fputs(
		"\n  lastunit COMMAND --help lists its options, with examples and exit codes\n"
		"  lastunit --version\n",
		out);
}

static int refuse(const char *word)
{
	const char *names[SUBCOMMAND_COUNT + 1] = {0};
	for (size_t i = 0; i < SUBCOMMAND_COUNT; i++)
		names[i] = subcommands[i].name;
	const char *nearest = cmd_nearest(word, names);
	fprintf(stderr, "lastunit: \"%.40s\" is no command", word);
	if (nearest)
		fprintf(stderr, "; did you mean \"%s\"?\n", nearest);
	else
		fputs("; lastunit --help lists them\n", stderr);
	return EXIT_USAGE;
}

/* A descriptor that is closed at start would be given to the first file opened, and be written to as if it were stderr. */
static void open_standard_files(void)
{
	int fd;
	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

/* What a command prints is what it was run for: if not all of it was taken, it has failed. `serve` and `dev` go on without
 * a reader. */
static int run(const struct subcommand *subcommand, int argc, char **argv)
{
	int code = subcommand->run(argc, argv);
	if (subcommand->run == cmd_serve || subcommand->run == cmd_dev || (!fflush(stdout) && !ferror(stdout)))
		return code;
	fprintf(stderr, "lastunit %s: not all could be written to standard output\n", subcommand->name);
	return code ? code : EXIT_FAILED;
}

int main(int argc, char **argv)
{
	open_standard_files();
	if (argc < 2) {
		print_help(stderr);
		return EXIT_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
		print_help(stdout);
		return EXIT_OK;
	}
	if (strcmp(argv[1], "--version") == 0) {
		puts("lastunit " LASTUNIT_VERSION);
		return EXIT_OK;
	}
	for (size_t i = 0; i < SUBCOMMAND_COUNT; i++)
		if (strcmp(argv[1], subcommands[i].name) == 0)
			return run(&subcommands[i], argc - 1, argv + 1);
	return refuse(argv[1]);
}
