/* The inventory: starts and stops its parts in the right order, and tells how it is (inventory.h).
 *
 * Start: PostgreSQL must answer and its schema must be ours (refused otherwise, with the way out); Redis may be away:
 * then reads come from PostgreSQL until an epoch is opened. Stop, once no reader is alive: reaper, loaders (they feed
 * the queue), the queue and its writers, the lease.
 */
#include "inventory/inventory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"
#include "inventory/inventory_internal.h"
#include "inventory/prepare.h"
#include "store/key.h"
#include "store/migrate.h"

#define START_MS 5000
#define WARNING_REDIS_MS 1000

/* --- what weakens a promise ------------------------------------------------------------------------------------------ */

static void warn(struct inventory *inventory, const char *sentence)
{
	if (inventory->warning_count < sizeof inventory->warnings / sizeof *inventory->warnings)
		inventory->warnings[inventory->warning_count++] = sentence;
}

static const struct pg_statement durability =
	{"inventory_durability",
     "SELECT current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on',"
     " current_setting('synchronous_commit') <> 'off', current_setting('synchronous_standby_names') = '',"
     " (SELECT count(*) FROM pg_stat_replication)"};

static void look_at_database(struct inventory *inventory, struct pg *pg, int64_t deadline_ns)
{
	PGresult *r __attribute__((cleanup(pg_clear))) = NULL;
	if (pg_query(pg, &durability, NULL, deadline_ns, &r))
		return;
	if (!pg_get_bool(r, 0, 0))
		warn(inventory, "PostgreSQL runs with fsync=off: an answered write can be lost when the machine stops (P4)");
	if (!pg_get_bool(r, 0, 1))
		warn(inventory, "PostgreSQL runs with full_page_writes=off: a crash of the machine can tear pages (P4)");
	if (!pg_get_bool(r, 0, 2))
		warn(
			inventory,
			"PostgreSQL's default is synchronous_commit=off; Lastunit's own sessions set it on, others may lose writes");
	if (pg_get_bool(r, 0, 3) && pg_get_int(r, 0, 4) > 0)
		warn(inventory, "PostgreSQL's standbys are asynchronous: promoting one can lose answered writes (P4)");
}

static bool info_has(struct redis *redis, const char *section, const char *needle, int64_t deadline_ns)
{
	redisReply *reply __attribute__((cleanup(redis_reply_done))) = NULL;
	struct text argv[] = {TEXT("INFO"), text_of(section)};
	if (redis_call(redis, 2, argv, deadline_ns, &reply) || reply->type != REDIS_REPLY_STRING)
		return false;
	return memmem(reply->str, (size_t)reply->len, needle, strlen(needle)) != NULL;
}

static void look_at_redis(struct inventory *inventory)
{
	if (!inventory->redis) {
		warn(inventory, "no Redis is configured: every read comes from PostgreSQL");
		return;
	}
	int64_t deadline_ns = deadline_in_ms(WARNING_REDIS_MS);
	struct redis *redis = redis_new(inventory->redis);
	if (redis_connect(redis, deadline_ns)) {
		warn(inventory, "Redis cannot be reached: reads come from PostgreSQL until it can");
	} else {
		if (info_has(redis, "memory", "maxmemory_policy:allkeys-", deadline_ns))
			warn(
				inventory,
				"Redis evicts with an allkeys-* policy: it may drop markers; every drop costs a read of PostgreSQL, and cells may be lost in the middle of a write. Use noeviction or volatile-*");
		if (info_has(redis, "persistence", "aof_enabled:1", deadline_ns))
			warn(inventory, "Redis persists by AOF: useless for Lastunit's cells, and slower");
	}
	redis_free(redis);
}

/* --- start ------------------------------------------------------------------------------------------------------------- */

/* True when PostgreSQL is there and ours; fills the keyring, so that the first request finds its key. */
static bool check_database(struct inventory *inventory, struct keyring *keyring, char ret_why[512], int *ret_exit)
{
	struct pg *pg = pg_new(&(struct pg_options){.url = inventory->config->database_url,
	                                            .application_name = "lastunit start",
	                                            .statement_timeout_ms = START_MS});
	struct arena arena;
	arena_init(&arena, 4096);
	int64_t deadline_ns = deadline_in_ms(START_MS);
	struct migrate_report report;
	struct keyring_entry *entries;
	size_t count;
	bool ok = false;
	int exit_code = 3;
	if (pg_connect(pg, deadline_ns)) {
		snprintf(ret_why, 512, "PostgreSQL cannot be reached: %s", pg_error(pg)->message);
	} else if (!migrate_check(pg, deadline_ns, &report, ret_why)) {
		exit_code = 2;
	} else if (key_load(pg, &arena, deadline_ns, &entries, &count)) {
		snprintf(ret_why, 512, "the keys cannot be read: %s", pg_error(pg)->message);
	} else {
		keyring_replace(keyring, entries, count);
		look_at_database(inventory, pg, deadline_ns);
		ok = true;
	}
	if (!ok)
		*ret_exit = exit_code;
	arena_done(&arena);
	pg_free(pg);
	return ok;
}

struct inventory *inventory_start(const struct config *config, struct keyring *keyring, char ret_why[512],
                                  int *ret_exit)
{
	struct inventory *inventory = calloc(1, sizeof *inventory);
	CHECK(inventory);
	inventory->config = config;
	const char *why;
	if (config->redis_url[0]) {
		if (!redis_address_parse(config->redis_url, &inventory->redis_address, &why)) {
			snprintf(ret_why, 512, "--redis-url: %s", why);
			*ret_exit = 2;
			free(inventory);
			return NULL;
		}
		inventory->redis = &inventory->redis_address;
	}
	if (!check_database(inventory, keyring, ret_why, ret_exit)) {
		free(inventory);
		return NULL;
	}
	look_at_redis(inventory);
	inventory->queue = queue_new((size_t)config->queue_length, (unsigned)config->writers);
	inventory->epoch = epoch_start(config, inventory->redis, keyring);
	inventory->loaders = loaders_start(config, inventory->redis, inventory->epoch, inventory->queue);
	inventory->writers = writers_start(config, inventory->redis, inventory->epoch, inventory->queue);
	inventory->reaper = reaper_start(config, inventory);
	inventory->relay = relay_start(config, inventory->redis, inventory->epoch);
	inventory->scrub = scrub_start(config, inventory->redis, inventory->epoch);
	return inventory;
}

void inventory_stop(struct inventory *inventory)
{
	scrub_stop(inventory->scrub);
	relay_stop(inventory->relay);
	reaper_stop(inventory->reaper);
	loaders_stop(inventory->loaders);
	queue_close(inventory->queue);
	writers_stop(inventory->writers);
	epoch_stop(inventory->epoch);
	queue_free(inventory->queue);
	free(inventory);
}

/* --- work ---------------------------------------------------------------------------------------------------------------- */

enum lu_error inventory_submit(struct inventory *inventory, struct operation *operation)
{
	enum lu_error error = operation_prepare(operation);
	if (error)
		return error;
	if (operation_needs_resolving(operation))
		return loaders_resolve(inventory->loaders, operation);
	operation_claim(operation);
	return queue_submit(inventory->queue, operation);
}

enum lu_error inventory_query(struct inventory *inventory, struct query *query)
{
	return loaders_query(inventory->loaders, query);
}

void inventory_status(struct inventory *inventory, struct inventory_status *ret_status)
{
	static const char *const names[] =
		{"unknown", [EPOCH_OPEN] = "open", [EPOCH_CLOSING] = "closing", [EPOCH_CLOSED] = "closed"};
	struct epoch *epoch = inventory->epoch;
	char namespace[CELL_NAMESPACE_BYTES + 1];
	*ret_status = (struct inventory_status){.database_reachable = epoch_database_reachable(epoch),
	                                        .lease = epoch_lease(epoch, namespace),
	                                        .epoch = names[epoch_state_seen(epoch)],
	                                        .queue_depth = (int64_t)queue_depth(inventory->queue)};
	ret_status->redis_reachable = ret_status->lease || epoch_redis_reachable(epoch);
	epoch_last_namespace(epoch, ret_status->namespace);
}

size_t inventory_warnings(struct inventory *inventory, const char *const **ret_warnings)
{
	*ret_warnings = inventory->warnings;
	return inventory->warning_count;
}
