/* `lastunit status`: how the service stands, and what weakens a promise.
 *
 * Happy path: look at PostgreSQL, at Redis, at an instance if one is named; tell the facts and the verdict.
 * Failure modes: what does not answer is a fact like others; the exit code tells a program which kind.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/status.h"

static const struct manual manual = {
	.name = "status",
	.usage = "status [options]",
	.about =
		"Tells how the service stands: epoch, lease, holds, relay, old transactions, cells, clocks, and, of the\n"
		"instance at --url, hit rate, scrub and queue. Then everything that weakens a promise (WEAKENED) or costs\n"
		"something without weakening one (remark), and a verdict. It only reads, in short statements. If it sees\n"
		"markers it looks again a second later, to tell those of writers at work from stuck ones.\n",
	.shared = "database_url redis_url redis_timeout_ms log_level",
	.examples =
		"  lastunit status\n"
		"  lastunit status --url http://127.0.0.1:8080 --json\n",
	.exit_codes =
		"  0  all promises stand (also without Redis: reads are slower then, and as true)\n"
		"  1  a promise is weakened or broken\n"
		"  2  wrong usage or configuration, a schema of another version\n"
		"  3  PostgreSQL cannot be reached\n",
};

static int look(struct status *status, const struct config *config, const char *url)
{
	struct redis_address address;
	char why[512];
	const char *why_address;
	int code = cmd_check_database_url(&manual, config->database_url);
	if (code != CMD_GO_ON)
		return code;
	if (*config->redis_url && !redis_address_parse(config->redis_url, &address, &why_address))
		return cmd_fail(&manual, EXIT_USAGE, "--redis-url: %s", why_address);
	size_t size = strlen(url);
	while (size && url[size - 1] == '/')
		size--;
	if (size && strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
		return cmd_fail(&manual, EXIT_USAGE, "--url is http://HOST:PORT");
	status->service.url = arena_text(status->arena, (struct text){url, size}).data;
	if (!status_look_database(status, config->database_url, why))
		return cmd_fail(&manual, EXIT_USAGE, "%s", why);
	status_look_redis(status, *config->redis_url ? &address : NULL, config->redis_timeout_ms);
	status_look_service(status);
	return CMD_GO_ON;
}

int cmd_status(int argc, char **argv)
{
	struct config config;
	bool as_json;
	const char *url;
	const struct config_option flags[] =
		{{.name = "redis_url",
	      .help = "the service's Redis, redis://… or unix:///… as for serve; empty: it is not looked at"},
	     {.name = "redis_timeout_ms", .help = "limit of one call to Redis"},
	     {"url", CONFIG_STRING, "", 0, 500, "", "an instance to ask for its figures; or LASTUNIT_URL", &url},
	     {"json", CONFIG_BOOL, "0", 0, 1, "", "print it as JSON", &as_json},
	     {0}};
	int positionals, code = cmd_begin(&manual, &config, flags, argc, argv, &positionals);
	if (code != CMD_GO_ON)
		return code;
	if (!*url && getenv("LASTUNIT_URL"))
		url = getenv("LASTUNIT_URL");
	struct arena arena;
	arena_init(&arena, 1 << 14);
	struct status status = {.arena = &arena, .findings = {.arena = &arena}};
	code = look(&status, &config, url);
	if (code == CMD_GO_ON) {
		code = status_exit_code(&status);
		if (as_json) {
			struct buffer out = {0};
			status_json(&status, &out);
			printf("%.*s\n", (int)out.size, out.data);
			buffer_done(&out);
		} else {
			status_print(&status, stdout);
		}
	}
	arena_done(&arena);
	return code;
}
