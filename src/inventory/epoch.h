/* The read lease and the cache epoch: when a hit may be served, and how everybody stops serving them.
 *
 * One watcher thread: each L/4 it reads the epoch row and PostgreSQL's identity and extends the lease from the time
 * *before* the question; the keyring travels with it. One keeper thread, idle while all is well: it moves `closing` to
 * `closed` after L(1+rho), and opens a new epoch when Redis has been well for a while. Writers and readers close through
 * epoch_report().
 * The protocol and its proof: lua/README.md. Thread: epoch_lease, epoch_report, epoch_wait from any.
 */
#ifndef INVENTORY_EPOCH_H
#define INVENTORY_EPOCH_H

#include "base/config.h"
#include "cache/cell.h"
#include "store/epoch.h"
#include "store/keyring.h"

struct epoch;

struct epoch *epoch_start(const struct config *config, const struct redis_address *redis /* NULL: no Redis at all */,
                          struct keyring *keyring);
void epoch_stop(struct epoch *epoch);

/* The lease as it stands: true if hits of *ret_namespace (NUL-ended) may be served at this very moment. */
bool epoch_lease(struct epoch *epoch, char ret_namespace[CELL_NAMESPACE_BYTES + 1]);
/* The same, after a reply came, for the namespace it was asked of. */
bool epoch_lease_covers(struct epoch *epoch, const char *namespace);
/* The relay has dealt with all that had been changed in SQL at `asked_ns` (clock_boottime_ns). There is no lease when that
 * is more than 2 s ago. */
void epoch_relayed(struct epoch *epoch, int64_t asked_ns);
/* True while PostgreSQL has answered the watcher within L. */
bool epoch_database_reachable(struct epoch *epoch);
/* It has not, and *ret_error says why. False too while nothing was tried yet. */
bool epoch_database_away(struct epoch *epoch, char ret_error[256]);
/* How long it has not; from the time before its last answered question. */
int64_t epoch_database_silent_ns(struct epoch *epoch);
enum epoch_state epoch_state_seen(struct epoch *epoch); /* 0: none yet */
bool epoch_redis_reachable(struct epoch *epoch);
/* Redis was looked at. While the epoch is closed a yes counts for nothing: the keeper's probe, which
 * asks for more, says. */
void epoch_redis_seen(struct epoch *epoch, bool reachable);
/* Redis answers, and refuses what the cache needs (a right, memory), so that no epoch is opened: with its words. */
bool epoch_redis_refuses(struct epoch *epoch, char ret_error[200]);
/* The namespace last seen, whether or not there is a lease: for reads that allow stale. */
void epoch_last_namespace(struct epoch *epoch, char ret_namespace[CELL_NAMESPACE_BYTES + 1]);

/* Somebody was answered FENCED or had no answer: the epoch of this namespace is to be closed. Returns at once; the
 * keeper does it. A writer that needs it done calls epoch_wait_closed(). */
void epoch_report(struct epoch *epoch, const char *namespace, const char *reason);
/* Closes (if still open) and waits until `namespace` is closed or replaced: LU_OK then; LU_DEADLINE_EXCEEDED,
 * LU_DATABASE_UNAVAILABLE, LU_SHUTTING_DOWN otherwise. */
enum lu_error epoch_wait_closed(struct epoch *epoch, const char *namespace, const char *reason, int64_t deadline_ns)
	LU_MUST_CHECK;

/* L(1+rho), rounded up: how long a lease of L may last by a clock that drifts from ours. */
int64_t epoch_drifted_ns(int64_t lease_ns);
/* For commands that run beside the service: closes the epoch that stands in the row, waiting L(1+rho) in between, on a
 * connection of their own. LU_OK too when it was closed already. */
enum lu_error epoch_close_by_hand(struct pg *pg, int64_t deadline_ns) LU_MUST_CHECK;

#endif
