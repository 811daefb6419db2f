/* `lastunit flush`: closes the cache epoch by hand, so that every reader goes to PostgreSQL until the service opens the
 * next one. For whoever did something to Redis or to the tables behind the triggers' back.
 *
 * Happy path: open → closing, wait until no read lease can be left, closing → closed. Failure modes: PostgreSQL cannot
 * be reached (3).
 */
#include <stdio.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "inventory/epoch.h"

#define FLUSH_MS 30000

int cmd_flush(int argc, char **argv)
{
	static const struct manual manual = {
		.name = "flush",
		.usage = "flush [options]",
		.about =
			"Closes the cache epoch: from the moment this returns, no instance serves anything that Redis held\n"
			"before. Reads come from PostgreSQL until the running service opens a new epoch by itself, a few seconds\n"
			"later. Needed after changes that went past the triggers, never after ordinary SQL.\n",
		.shared = "database_url log_level",
		.examples = "  lastunit flush --database-url postgresql://owner@db.example/shop\n",
		.exit_codes =
			"  0  the epoch is closed\n"
			"  2  wrong usage or configuration, a schema of another version\n"
			"  3  PostgreSQL cannot be reached, or did not do it\n",
	};
	struct config config;
	int positionals, code = cmd_begin(&manual, &config, NULL, argc, argv, &positionals);
	if (code != CMD_GO_ON)
		return code;
	struct pg *pg;
	if ((code = cmd_connect_migrated(&manual, config.database_url, &pg)))
		return code;
	enum lu_error error = epoch_close_by_hand(pg, deadline_in_ms(FLUSH_MS));
	if (error)
		code = cmd_fail(&manual, EXIT_BACKEND, "%s: %s", lu_error_title(error), pg_error(pg)->message);
	else
		printf("the epoch is closed; the service opens a new one when Redis is well\n");
	pg_free(pg);
	return error ? code : EXIT_OK;
}
