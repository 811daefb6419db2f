/* The inventory: the write path, the read path and the keepers behind one door.
 *
 * Starts writers, loaders and keepers on their own threads and connections; takes operations; makes readers for event
 * loops. Everything above (api, channels) sees only this header, inventory/read.h and include/lastunit.
 */
#ifndef INVENTORY_INVENTORY_H
#define INVENTORY_INVENTORY_H

#include "base/config.h"
#include "inventory/weakness.h"
#include "lastunit/operation.h"
#include "store/keyring.h"

struct inventory;

/* Connects once, checks the schema's version, loads the keys and starts the threads. NULL with a sentence in ret_why
 * and, in *ret_exit, the exit code it deserves (2 configuration, 3 a backend cannot be reached). The keyring is filled
 * and kept fresh; it must outlive the inventory. */
struct inventory *inventory_start(const struct config *config, struct keyring *keyring, char ret_why[512],
                                  int *ret_exit);
/* Answers everything accepted (drained if it ends within drain_timeout_ms, else shutting_down), joins the threads. No
 * reader may be alive. */
void inventory_stop(struct inventory *inventory);

/* Merges and sorts the lines, makes the fingerprint and hands the operation on. LU_OK: accepted, on_done will come,
 * once. Otherwise nothing was taken and on_done will not come: LU_OVERLOADED, LU_SHUTTING_DOWN, or what is wrong with
 * the lines (LU_INVALID_QUANTITY when twin lines add up beyond the limit). Thread: any. */
enum lu_error inventory_submit(struct inventory *inventory, struct operation *operation) LU_MUST_CHECK;

/* Reads for GET by id, lists and the ledger: runs `work` on a loader's thread with its PostgreSQL connection, within
 * the deadline. `work` returns the error it met; on_done comes once, on that thread. LU_OVERLOADED: not taken.
 * `work` is run once more if the connection was lost under it, whatever the first run did: if it writes, twice must be
 * as once. */
struct pg;
struct query {
	struct arena *arena;
	int64_t deadline_ns;
	enum lu_error (*work)(struct query *query, struct pg *pg);
	void (*on_done)(struct query *query);
	enum lu_error error; /* of work, or LU_DATABASE_UNAVAILABLE, LU_DEADLINE_EXCEEDED */
	int64_t asker;       /* whose it is, a principal's id; 0: nobody's who is known. They take turns */
	struct query *next;
};
enum lu_error inventory_query(struct inventory *inventory, struct query *query) LU_MUST_CHECK;

/* True while hits may be served: this instance holds a read lease, of *ret_namespace (NUL behind). A namespace stands for
 * one PostgreSQL as it was found, for one opening of the cache, and never comes again. Thread: any. */
#define INVENTORY_NAMESPACE_ROOM 32 /* NUL included */
bool inventory_lease(struct inventory *inventory, char ret_namespace[INVENTORY_NAMESPACE_ROOM]);

/* What /readyz, /metrics and the operator want to know. */
struct inventory_status {
	bool database_reachable;
	bool redis_configured, redis_reachable; /* not configured: not reachable either */
	const char *epoch;                      /* "open", "closing", "closed", "unknown" */
	char namespace[INVENTORY_NAMESPACE_ROOM];
	bool lease; /* hits may be served now */
	int64_t queue_depth;
	int64_t feed_lag_ms; /* follower.h */
};
void inventory_status(struct inventory *inventory, struct inventory_status *ret_status);
/* SECRET_BYTES that all instances on this database share: signs what clients bring back. */
const uint8_t *inventory_secret(const struct inventory *inventory);
/* Who tells of changes (inventory/follower.h). */
struct follower *inventory_follower(struct inventory *inventory);

/* What weakens a promise or costs something, as it was found a moment ago (lookout.h): added to the list, copied into its
 * arena. Thread: any. */
void inventory_weaknesses(struct inventory *inventory, struct weaknesses *list);

#endif
