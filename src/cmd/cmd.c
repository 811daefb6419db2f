/* What the subcommands share: flags and --help, the line of a failure, the nearest name.
 *
 * Happy path: cmd_begin() reads the flags with config_load() and says "go on". Failure modes: wrong flags and more
 * arguments than the subcommand takes are one line on stderr and exit code 2.
 */
#include "cmd/cmd.h"

#include <ctype.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "store/migrate.h"

#define WHY_BYTES 512
#define CONNECT_MS 5000
#define CONNECT_RETRY_MS 100 /* pg_connect tries no more often */

static const char exit_codes[] =
	"  0  ok\n"
	"  1  it failed, or a promise is broken\n"
	"  2  wrong usage or configuration\n"
	"  3  PostgreSQL or Redis cannot be reached\n";

static void print_manual(const struct manual *manual, const struct config_option *options)
{
	printf("usage: lastunit %s\n\n%s\noptions, with their environment variables where they have one:\n", manual->usage,
	       manual->about);
	config_print_help(stdout, manual->shared, options);
	printf("\nexamples:\n%s\nexit codes:\n%s", manual->examples, manual->exit_codes ? manual->exit_codes : exit_codes);
}

static bool set_log_level(const char *name)
{
	static const char *const names[] = {"debug", "info", "warn", "error"};
	for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
		if (strcmp(names[i], name) == 0) {
			log_set_level((enum log_level)i);
			return true;
		}
	return false;
}

/* Among those that are too many the likeliest is one that was meant as an option, with its value behind it. */
static int refuse_positionals(const struct manual *manual, int positionals, char **argv)
{
	for (int i = 1; i <= positionals; i++)
		if (argv[i][0] == '-' && argv[i][1])
			return cmd_fail(manual, EXIT_USAGE, "\"%s\": there are no short options; see lastunit %s --help", argv[i],
			                manual->name);
	return cmd_fail(manual, EXIT_USAGE, "\"%s\" is one argument too many; usage: lastunit %s",
	                argv[manual->positionals_max + 1], manual->usage);
}

int cmd_begin(const struct manual *manual, struct config *config, const struct config_option *options, int argc,
              char **argv, int *ret_positionals)
{
	bool help;
	char complaint[512] = "";
	FILE *err = fmemopen(complaint, sizeof complaint, "w");
	CHECK(err);
	bool loaded = config_load(config, manual->shared, options, argc, argv, ret_positionals, &help, err);
	fclose(err);
	if (!loaded)
		return cmd_fail(manual, EXIT_USAGE, "%.*s", (int)strcspn(complaint, "\n"), complaint);
	if (help) {
		print_manual(manual, options);
		return EXIT_OK;
	}
	if (*ret_positionals > manual->positionals_max)
		return refuse_positionals(manual, *ret_positionals, argv);
	if (!set_log_level(config->log_level))
		return cmd_fail(manual, EXIT_USAGE, "--log-level is debug, info, warn or error");
	return CMD_GO_ON;
}

int cmd_fail(const struct manual *manual, int code, const char *format, ...)
{
	char line[1024];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(line, sizeof line, format, arguments);
	va_end(arguments);
	fflush(stdout);
	fprintf(stderr, "lastunit %s: %s\n", manual->name, line);
	return code;
}

bool cmd_refuse(char why[WHY_BYTES], const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(why, WHY_BYTES, format, arguments);
	va_end(arguments);
	return false;
}

enum lu_error cmd_connect_until(struct pg *pg, int64_t deadline_ns)
{
	enum lu_error error;
	while ((error = pg_connect(pg, deadline_ns)) && !pg_refused(pg) && deadline_left_ms(deadline_ns) > CONNECT_RETRY_MS)
		clock_sleep_until(deadline_in_ms(CONNECT_RETRY_MS));
	return error;
}

static int refuse_database_url(const struct manual *manual, int size, const char *why)
{
	return cmd_fail(manual, EXIT_USAGE, "--database-url: %.*s: write postgresql://user@host/db", size, why);
}

/* libpq quotes the URL in some of its sentences, or the piece of it that it cannot read, which may be the password:
 * then all but the signs it misses ("=") is left out. */
static int without_secret(const char *why, const char *url)
{
	size_t size = strcspn(why, "\n");
	if (!strchr(url, '@') && !strstr(url, "pass"))
		return (int)size;
	for (size_t i = 0; i < size; i++) {
		if (why[i] != '"')
			continue;
		if (i + 2 < size && why[i + 2] == '"' && ispunct((unsigned char)why[i + 1])) {
			i += 2;
			continue;
		}
		while (i && strchr(": ", why[i - 1]))
			i--;
		return (int)i;
	}
	return (int)size;
}

int cmd_check_database_url(const struct manual *manual, const char *url)
{
	if (!*url)
		return cmd_fail(manual, EXIT_USAGE, "--database-url (or LASTUNIT_DATABASE_URL) is required");
	char *why = NULL;
	PQconninfoOption *parsed = PQconninfoParse(url, &why);
	int code = CMD_GO_ON;
	if (!parsed)
		code = refuse_database_url(manual, without_secret(why ? why : "", url), why ? why : "");
	PQfreemem(why);
	PQconninfoFree(parsed);
	char refused[PG_URL_WHY_BYTES];
	if (code == CMD_GO_ON && !pg_url_check(url, refused))
		code = cmd_fail(manual, EXIT_USAGE, "--database-url: %.*s", (int)strcspn(refused, "\n"), refused);
	return code;
}

int cmd_connect(const struct manual *manual, const char *database_url, struct pg **ret_pg)
{
	int code = cmd_check_database_url(manual, database_url);
	if (code != CMD_GO_ON)
		return code;
	struct pg_options options = {.url = database_url, .application_name = "lastunit"};
	struct pg *pg = pg_new(&options);
	if (cmd_connect_until(pg, deadline_in_ms(CONNECT_MS))) {
		cmd_fail(manual, EXIT_BACKEND, "PostgreSQL cannot be reached: %s", pg_error(pg)->message);
		pg_free(pg);
		return EXIT_BACKEND;
	}
	*ret_pg = pg;
	return EXIT_OK;
}

int cmd_connect_migrated(const struct manual *manual, const char *database_url, struct pg **ret_pg)
{
	struct pg *pg;
	int code = cmd_connect(manual, database_url, &pg);
	if (code)
		return code;
	struct migrate_report schema;
	char why[WHY_BYTES];
	if (!migrate_check(pg, deadline_in_ms(CONNECT_MS), &schema, why)) {
		code = cmd_fail(manual, pg_connected(pg) ? EXIT_USAGE : EXIT_BACKEND, "%s", why);
		pg_free(pg);
		return code;
	}
	*ret_pg = pg;
	return EXIT_OK;
}

const char *cmd_nearest(const char *word, const char *const *names)
{
	const char *nearest = NULL;
	size_t size = strlen(word), best = size < 4 ? 2 : 3; /* as many edits as this are not near */
	if (size > TEXT_DISTANCE_BYTES_MAX)
		return NULL;
	for (; *names; names++) {
		size_t edits = size >= 2 && strncmp(*names, word, size) == 0 ? 1 : text_distance(word, *names);
		if (edits < best) {
			best = edits;
			nearest = *names;
		}
	}
	return nearest;
}
