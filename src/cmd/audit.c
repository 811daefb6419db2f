/* lastunit audit: recomputes every promise from the ledger; says which hold.
 *
 * Happy path: audit_run.c looks at everything, one line each, exit code 0.
 * Failure modes: a broken promise is named with its first offenders, exit code 1; nothing is ever repaired.
 */
#include "base/buffer.h"
#include "cmd/audit_run.h"
#include "cmd/cmd.h"

static const struct manual manual = {
	.name = "audit",
	.usage = "audit [options]",
	.about =
		"Recomputes everything from the ledger and compares: counts, holds, balances, versions, ends of\n"
		"reservations, sales, and, with --redis-url, what the cache would answer. One line per check, the first\n"
		"20 offenders below it. It only reads, in short statements, and may run beside the service.\n",
	.shared = "database_url redis_url redis_timeout_ms",
	.examples = "  lastunit audit\n  lastunit audit --json\n",
	.exit_codes =
		"  0 every promise holds       1 a promise is broken\n"
		"  2 usage or configuration    3 PostgreSQL or Redis cannot be reached\n",
};

int cmd_audit(int argc, char **argv)
{
	struct config config;
	bool as_json;
	const struct config_option flags[] = {
		{.name = "redis_url",
	     .help =
	         "the service's Redis, redis://… or unix:///… as for serve: its cells are checked, too; empty: they are not"},
		{.name = "redis_timeout_ms", .help = "limit of one call to Redis"},
		{"json", CONFIG_BOOL, "0", 0, 1, "", "print the result as JSON", &as_json},
		{0}};
	int positionals;
	int code = cmd_begin(&manual, &config, flags, argc, argv, &positionals);
	if (code != CMD_GO_ON)
		return code;
	if ((code = cmd_check_database_url(&manual, config.database_url)) != CMD_GO_ON)
		return code;
	struct redis_address address;
	const char *why_address;
	if (*config.redis_url && !redis_address_parse(config.redis_url, &address, &why_address))
		return cmd_fail(&manual, EXIT_USAGE, "--redis-url: %s", why_address);
	struct progress progress = {0};
	struct audit_options options = {.database_url = config.database_url,
	                                .redis = *config.redis_url ? &address : NULL,
	                                .redis_timeout_ms = config.redis_timeout_ms,
	                                .progress = &progress};
	struct arena arena;
	arena_init(&arena, 1 << 14);
	struct audit audit;
	char why[512];
	enum lu_error error = audit_run(&options, &arena, &audit, why);
	if (error) {
		code = cmd_fail(&manual,
		                audit.of_another_schema || audit.may_not ? EXIT_USAGE
		                : error == LU_INTERNAL                   ? EXIT_FAILED
		                                                         : EXIT_BACKEND,
		                "%s%s", why, audit.may_not ? ": use the owner's --database-url" : "");
	} else {
		code = audit_sound(&audit) ? EXIT_OK : EXIT_FAILED;
		if (as_json) {
			struct buffer out = {0};
			audit_json(&audit, &out);
			printf("%.*s\n", (int)out.size, out.data);
			buffer_done(&out);
		} else {
			audit_print(&audit, stdout);
		}
	}
	arena_done(&arena);
	return code;
}
