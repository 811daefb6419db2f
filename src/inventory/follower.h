/* The follower: one thread per instance that reads the change feed, once for all who want to know of every change.
 *
 * It tells each event loop's tap, through the loop's mailbox, which SKUs changed and what they are now. A change is a
 * state: what changes ten times between two looks is told once. An open tap hears START first: from that position on
 * nothing is missed, so whoever looks a SKU up after START and then listens knows it without a gap. RESET: PostgreSQL is
 * another one, whatever was known may be wrong; START follows.
 *
 * A tap has at most one batch on its way. While any has, the feed is not read, so a loop that is busy makes batches fewer
 * and not the memory larger. Whoever tells clients of a batch says how much that was, and the follower rests accordingly:
 * see TOLD_PER_S_MAX. While no tap is open, nothing is read but how the feed stands (feed_lag_ms).
 * Thread: any for start and stop; a tap's calls belong to its loop. Invariants: src/inventory/README.md.
 */
#ifndef INVENTORY_FOLLOWER_H
#define INVENTORY_FOLLOWER_H

#include "base/config.h"
#include "base/mailbox.h"
#include "store/feed.h"

#define FOLLOWER_TOLD_BYTES ((size_t)8192)

struct follower;
struct follower_batch;

enum follower_word {
	FOLLOWER_START,
	FOLLOWER_CHANGES,
	FOLLOWER_RESET,
};

/* What a tap is told; borrowed for the time of the call. */
struct follower_news {
	enum follower_word word;
	struct feed_position position; /* behind all of it */
	const struct feed_change *changes;
	size_t change_count;
};

/* Embedded by a loop; zeroed, with the first two members set. */
struct follower_tap {
	struct mailbox *mailbox;
	/* On the loop's thread. Returns how much it told clients: one for each send, and for each FOLLOWER_TOLD_BYTES more. */
	size_t (*on_news)(struct follower_tap *tap, const struct follower_news *news);
	/* the follower's own */
	struct follower *follower;
	struct follower_tap *next;
	struct mailbox_item item;
	struct follower_batch *batch; /* on its way */
	bool open, started;
	bool outdated; /* the batch: the tap was closed since it was posted */
};

struct follower *follower_start(const struct config *config);
/* No tap may be left. */
void follower_stop(struct follower *follower);
/* For how long the oldest change that is committed has been held back by a transaction still open; 0: none is. */
int64_t follower_lag_ms(const struct follower *follower);

void follower_add(struct follower *follower, struct follower_tap *tap);
/* Nothing is told from then on, and the tap may be freed. Delivers what is in its mailbox. */
void follower_remove(struct follower_tap *tap);
/* START comes, and nothing before it: what was on its way to an earlier opening is dropped. No effect if it is open. */
void follower_open(struct follower_tap *tap);
void follower_close(struct follower_tap *tap);

#endif
