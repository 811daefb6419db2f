/* `lastunit migrate`: brings a database to the schema this binary knows.
 *
 * Happy path: connect as the owner, apply what is missing, print from and to. Failure modes: PostgreSQL cannot be
 * reached (3), the database is newer than the binary (2), a migration fails and is rolled back (1).
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "store/migrate.h"

#define MIGRATE_MS (30 * 60 * 1000)

static void on_wait(const char *sentence)
{
	fprintf(stderr, "lastunit migrate: %s\n", sentence);
}

int cmd_migrate(int argc, char **argv)
{
	bool check;
	const struct config_option options[] = {
		{"check", CONFIG_BOOL, "0", 0, 1, "", "change nothing; exit code 1 if migrations are missing", &check},
		{0},
	};
	static const struct manual manual = {
		.name = "migrate",
		.usage = "migrate [options]",
		.about =
			"Applies the schema migrations that a database lacks, each once, in one transaction. Run it once per\n"
			"release, as the owner of the database, before the new `serve`. It creates the role lastunit_service, so it\n"
			"takes a superuser, or CREATE on the database and either CREATEROLE or to be a member of that role already.\n",
		.shared = "database_url log_level",
		.examples =
			"  lastunit migrate --database-url postgresql://owner@db.example/shop\n"
			"  lastunit migrate --check\n",
		.exit_codes =
			"  0  the schema is at this binary's version\n"
			"  1  a migration failed, and nothing was changed; with --check: migrations are missing; with and without:\n"
			"     the role lastunit_service is, because a dump was restored without it\n"
			"  2  wrong usage, or the database is newer than this binary\n"
			"  3  PostgreSQL cannot be reached\n",
	};
	struct config config;
	int positionals, code = cmd_begin(&manual, &config, options, argc, argv, &positionals);
	if (code != CMD_GO_ON)
		return code;
	struct pg *pg;
	if ((code = cmd_connect(&manual, config.database_url, &pg)))
		return code;
	struct migrate_report report = {0};
	char why[512] = "";
	int64_t deadline_ns = deadline_in_ms(MIGRATE_MS);
	bool done = check ? migrate_check(pg, deadline_ns, &report, why)
	                  : migrate_run_told(pg, deadline_ns, on_wait, &report, why);
	done = done && migrate_check_role(pg, deadline_ns, why);
	bool lost = !done && !pg_connected(pg);
	pg_free(pg);
	if (!done)
		return cmd_fail(&manual,
		                lost                          ? EXIT_BACKEND
		                : report.found > report.known ? EXIT_USAGE
		                                              : EXIT_FAILED,
		                "%s", why);
	if (report.found == report.now)
		printf("schema %" PRId64 ": nothing to do\n", report.now);
	else
		printf("schema %" PRId64 " -> %" PRId64 "\n", report.found, report.now);
	return EXIT_OK;
}
