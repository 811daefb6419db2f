/* How the feed stands, as SQL: what feed.c and webhook.c share; nobody else includes it. */
#ifndef STORE_FEED_INTERNAL_H
#define STORE_FEED_INTERNAL_H

#include "store/feed.h"

/* Unlike the epoch's identity without the start of the server: numbers go on where they were after a restart. After a
 * failover or a restore to a point in time (another timeline) they may have been given out twice. */
#define FEED_IDENTITY                                                                                     \
	"hashtextextended(concat_ws('/', (SELECT c.system_identifier FROM pg_control_system() c),"            \
	" left(pg_walfile_name(pg_current_wal_lsn()), 8), (SELECT d.oid FROM pg_database d WHERE d.datname =" \
	" current_database()), 'ledger'::regclass::oid), 0)"
/* One row: identity, horizon, lag, restored, settled. OFFSET 0 keeps it one row that is made once. */
#define FEED_STATE                                                                                               \
	"(SELECT " FEED_IDENTITY                                                                                     \
	" AS identity, h.horizon, coalesce((extract(epoch FROM clock_timestamp() - (SELECT w.at"                     \
	" FROM ledger w WHERE w.xid >= h.horizon AND w.xid < h.future ORDER BY w.xid, w.sku_id, w.version LIMIT 1))" \
	" * 1000)::int8, 0) AS lag_ms, EXISTS (SELECT FROM ledger r WHERE r.xid >= h.future) AS restored,"           \
	" h.horizon = h.future AS settled"                                                                           \
	" FROM (SELECT pg_snapshot_xmin(s) AS horizon, pg_snapshot_xmax(s) AS future FROM pg_current_snapshot() s"   \
	" OFFSET 0) h OFFSET 0) f"

#endif
