/* The inventory: starts and stops its parts in the right order, and tells how it is (inventory.h).
 *
 * Start: PostgreSQL must answer and its schema must be ours (refused otherwise, with the way out); Redis may be away:
 * then reads come from PostgreSQL until an epoch is opened. Stop, once no reader is alive: reaper, loaders (they feed
 * the queue), the queue and its writers, the lease.
 */
#include "inventory/inventory.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"
#include "inventory/inventory_internal.h"
#include "inventory/prepare.h"
#include "store/key.h"
#include "store/migrate.h"

#define START_MS 5000
#define GATHER_MS 20 /* a batch that takes longer hangs on something, and nobody waits for it */

/* --- start -------------------------------------------------------------------------------------------------------- */

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
	int64_t asked_ns = clock_boottime_ns();
	if (pg_connect(pg, deadline_ns)) {
		snprintf(ret_why, 512, "PostgreSQL cannot be reached: %s", pg_error(pg)->message);
	} else if (!migrate_check_member(pg, deadline_ns, ret_why) || !migrate_check(pg, deadline_ns, &report, ret_why) ||
	           !migrate_check_role(pg, deadline_ns, ret_why)) {
		exit_code = 2;
	} else if (key_load(pg, &arena, deadline_ns, &entries, &count)) {
		snprintf(ret_why, 512, "the keys cannot be read: %s", pg_error(pg)->message);
	} else if (secret_load(pg, deadline_ns, inventory->secret)) {
		snprintf(ret_why, 512, "the shared secret cannot be read: %s", pg_error(pg)->message);
	} else if (lookout_first(inventory->lookout, pg, deadline_ns)) {
		snprintf(ret_why, 512, "PostgreSQL does not tell its settings: %s", pg_error(pg)->message);
	} else {
		keyring_replace(keyring, entries, count);
		/* Believed by nobody who comes later: whose L it is the watcher finds out first. */
		keyring_extend(keyring, asked_ns, asked_ns);
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
	inventory->lookout = lookout_new(config, inventory->redis);
	if (!check_database(inventory, keyring, ret_why, ret_exit)) {
		lookout_stop(inventory->lookout);
		free(inventory);
		return NULL;
	}
	inventory->queue = queue_new((size_t)config->queue_length, (unsigned)config->writers, GATHER_MS);
	inventory->epoch = epoch_start(config, inventory->redis, keyring);
	lookout_start(inventory->lookout, inventory->epoch);
	inventory->loaders = loaders_start(config, inventory->redis, inventory->epoch, inventory->queue);
	inventory->writers = writers_start(config, inventory->redis, inventory->epoch, inventory->queue);
	inventory->reaper = reaper_start(config, inventory);
	inventory->relay = relay_start(config, inventory->redis, inventory->epoch);
	inventory->scrub = scrub_start(config, inventory->redis, inventory->epoch);
	inventory->follower = follower_start(config);
	return inventory;
}

void inventory_stop(struct inventory *inventory)
{
	follower_stop(inventory->follower);
	scrub_stop(inventory->scrub);
	relay_stop(inventory->relay);
	reaper_stop(inventory->reaper);
	loaders_stop(inventory->loaders);
	queue_close(inventory->queue);
	writers_stop(inventory->writers);
	lookout_stop(inventory->lookout);
	epoch_stop(inventory->epoch);
	queue_free(inventory->queue);
	free(inventory);
}

/* --- work --------------------------------------------------------------------------------------------------------- */

enum lu_error inventory_submit(struct inventory *inventory, struct operation *operation)
{
	operation->submitted_ns = clock_boottime_ns();
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

struct follower *inventory_follower(struct inventory *inventory)
{
	return inventory->follower;
}

_Static_assert(INVENTORY_NAMESPACE_ROOM > CELL_NAMESPACE_BYTES, "a namespace fits");

bool inventory_lease(struct inventory *inventory, char ret_namespace[INVENTORY_NAMESPACE_ROOM])
{
	return epoch_lease(inventory->epoch, ret_namespace);
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
	                                        .queue_depth = (int64_t)queue_depth(inventory->queue),
	                                        .feed_lag_ms = follower_lag_ms(inventory->follower)};
	ret_status->redis_configured = inventory->redis != NULL;
	ret_status->redis_reachable = epoch_redis_reachable(epoch);
	epoch_last_namespace(epoch, ret_status->namespace);
}

const uint8_t *inventory_secret(const struct inventory *inventory)
{
	return inventory->secret;
}

void inventory_weaknesses(struct inventory *inventory, struct weaknesses *list)
{
	lookout_found(inventory->lookout, list);
	writers_weaknesses(inventory->writers, list);
}
