/* The change feed: the ledger entries of all SKUs, in the order of their transactions, gap-free.
 *
 * An entry is shown once its transaction, and every one that began to write before it, has ended: its xid is below the
 * xmin of the snapshot that reads it. So whoever goes on behind a position never misses an entry that a slow
 * transaction commits late. The order is (xid, sku_id, version). Two entries of one SKU may stand in it the other way
 * round (a transaction that got its number early and the SKU's lock late): `version` tells which is newer.
 *
 * What it costs: a transaction that has written and stays open holds back all that came after it, whoever's and in
 * whichever database of the cluster it is. `lag_ms` says for how long. Why not a sequence, why xid: sql/README.md.
 * Thread: the connection's.
 */
#ifndef STORE_FEED_H
#define STORE_FEED_H

#include "lastunit/decide.h"
#include "store/ledger.h"
#include "store/pg.h"

/* A place in the feed: behind this entry. {identity, xid, 0, 0}: in front of everything of xid. */
struct feed_position {
	int64_t identity; /* of the PostgreSQL whose numbers these are: cluster, timeline, database, table, hashed */
	int64_t xid, sku_id, version;
};

/* As text: opaque to clients, safe in an address and in a header. */
#define FEED_CURSOR_BYTES_MAX 67
size_t feed_cursor_format(const struct feed_position *position, char out[FEED_CURSOR_BYTES_MAX + 1]);
bool feed_cursor_parse(struct text cursor, struct feed_position *ret_position) LU_MUST_CHECK;
/* In the order of the feed; the identities are the same. */
int feed_position_compare(const struct feed_position *a, const struct feed_position *b);

/* How the feed stood for the snapshot that was read. */
struct feed_state {
	struct feed_position now; /* behind all that is shown, in front of all that is to come */
	/* For how long the oldest entry that is committed and not yet shown has been waiting; 0: none. */
	int64_t lag_ms;
	/* There are entries from a transaction that this cluster has yet to number: they came in a dump of another one. They
	 * are shown when its numbers have got there, so that nobody who begins today sees the whole of the past. */
	bool restored;
	/* No transaction is under way that could hold entries back: all that is committed is shown, so this position stands for
	 * the figures of the moment. */
	bool settled;
};

/* Is this a place of this feed? One of another PostgreSQL is none, nor is one that is ahead of it: a snapshot of the
 * storage was put back since it was given out, and its numbers come again for other entries. */
bool feed_has(const struct feed_state *state, const struct feed_position *position);

/* Where the feed stands. */
enum lu_error feed_look(struct pg *pg, struct arena *arena, int64_t deadline_ns, struct feed_state *ret_state)
	LU_MUST_CHECK;

/* Entries behind `after` (whose identity the caller has compared or compares now), at most `limit`. */
struct feed_row {
	struct text sku;
	int64_t xid;
	struct ledger_row row;
};
enum lu_error feed_page(struct pg *pg, struct arena *arena, const struct feed_position *after, size_t limit,
                        int64_t deadline_ns, struct feed_state *ret_state, struct feed_row **ret_rows,
                        size_t *ret_count) LU_MUST_CHECK;

/* The same for those who want states, not entries: each SKU that has an entry among the next `limit`, once, in the
 * order of their last ones, with its figures as they are now (of that entry's version, or newer). The last one's
 * position is where to go on; *ret_more: there were `limit` entries, so there may be more at once. */
struct feed_change {
	struct feed_position position; /* of its last entry among these */
	struct text sku;
	struct figures figures;
	int64_t at_us; /* of that entry */
};
enum lu_error feed_changes(struct pg *pg, struct arena *arena, const struct feed_position *after, size_t limit,
                           int64_t deadline_ns, struct feed_state *ret_state, struct feed_change **ret_changes,
                           size_t *ret_count, bool *ret_more) LU_MUST_CHECK;

#endif
