/* `lastunit why SKU`: what a look-up of it would answer now, and why.
 *
 * Happy path: the row and what depends on it, the cell, and whether they agree. Failure modes: no such SKU (1, with those
 * that could be meant); what is no code at all (2); PostgreSQL away (3). Redis away is part of the explanation.
 */
#include <inttypes.h>

#include "base/clock.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/why.h"

#define ENTRIES_MAX 1000

static const struct manual manual = {
	.name = "why",
	.usage = "why SKU [options]",
	.about =
		"Explains one SKU: what a look-up would answer and from where, the sum behind `available`, its live holds\n"
		"and who has them, the last entries of its ledger, its cell in Redis and whether that agrees with the row.\n"
		"If the two differ it looks again for a second: what is right goes on by itself, what is wrong stays.\n",
	.shared = "database_url redis_url redis_timeout_ms log_level",
	.examples =
		"  lastunit why LAMP-FIREFLY\n"
		"  lastunit why LAMP-FIREFLY --entries 50 --json\n",
	.exit_codes =
		"  0  explained, all as it should be\n"
		"  1  a promise is broken for this SKU, or there is no such SKU\n"
		"  2  wrong usage or configuration, a schema of another version\n"
		"  3  PostgreSQL cannot be reached\n",
	.positionals_max = 1,
};

static int look(struct why *why, const struct config *config)
{
	struct redis_address address;
	const char *why_address;
	if (*config->redis_url && !redis_address_parse(config->redis_url, &address, &why_address))
		return cmd_fail(&manual, EXIT_USAGE, "--redis-url: %s", why_address);
	struct pg *pg;
	int code = cmd_connect_migrated(&manual, config->database_url, &pg);
	if (code)
		return code;
	enum lu_error error = epoch_lease_read(pg, why->arena, deadline_in_ms(WHY_ASK_MS), &why->epoch);
	if (!error)
		error = why_look_row(why, pg);
	if (!error && !why->row.known)
		error = why_look_near(why, pg);
	if (!error && why->row.known)
		error = why_look_cell(why, pg, *config->redis_url ? &address : NULL, config->redis_timeout_ms);
	if (!error && why->row.known)
		error = why_look_rest(why, pg);
	if (error)
		code = cmd_fail(&manual, pg_connected(pg) ? EXIT_FAILED : EXIT_BACKEND, "%s", pg_error(pg)->message);
	pg_free(pg);
	return error ? code : CMD_GO_ON;
}

static int tell(const struct why *why, bool as_json)
{
	if (as_json) {
		struct buffer out = {0};
		why_json(why, &out);
		printf("%.*s\n", (int)out.size, out.data);
		buffer_done(&out);
	} else {
		why_print(why, stdout);
	}
	return why->row.known && !weakness_any_promise(&why->findings) ? EXIT_OK : EXIT_FAILED;
}

int cmd_why(int argc, char **argv)
{
	struct config config;
	bool as_json;
	int64_t entries;
	const struct config_option flags[] =
		{{.name = "redis_url",
	      .help = "the service's Redis, redis://… or unix:///… as for serve; empty: the cell is not looked at"},
	     {.name = "redis_timeout_ms", .help = "limit of one call to Redis"},
	     {"entries", CONFIG_INT, "10", 1, ENTRIES_MAX, "", "so many of the ledger's last entries", &entries},
	     {"json", CONFIG_BOOL, "0", 0, 1, "", "print it as JSON", &as_json},
	     {0}};
	int positionals, code = cmd_begin(&manual, &config, flags, argc, argv, &positionals);
	if (code != CMD_GO_ON)
		return code;
	if (!positionals)
		return cmd_fail(&manual, EXIT_USAGE, "which SKU? usage: lastunit %s", manual.usage);
	struct text sku = text_of(argv[1]);
	if (text_check_sku(sku))
		return cmd_fail(&manual, EXIT_USAGE, "%s", lu_error_mend(LU_INVALID_SKU));
	struct arena arena;
	arena_init(&arena, 1 << 14);
	struct why why = {.arena = &arena, .sku = sku, .entries_max = entries, .findings = {.arena = &arena}};
	code = look(&why, &config);
	if (code == CMD_GO_ON)
		code = tell(&why, as_json);
	arena_done(&arena);
	return code;
}
