/* A replay: the carts of an order file, sold by many clients at once through the six channels' keys.
 *
 * Phases, each over all clients: stock the SKUs · play the orders · wait for the abandoned holds to end · count again.
 * An order's place in the file decides its fate, so two replays do the same things (in another order of arrival): its
 * channel in turn; checkouts and holds by turns, one of ten carts held and left, in the whole file and on each channel.
 *
 * What is checked on the way (the verdict is the audit's and these): units sold never exceed units received; once a
 * write is answered no later read shows an older version, on whatever client; the same key sent again gets the same
 * answer; every request gets one; at the end each SKU has exactly the units that were answered. A thing that breaks is a
 * violation: counted, the first ones kept as sentences.
 * Thread: replay_play() starts and joins the clients; everything else before or after it.
 */
#ifndef CMD_REPLAY_RUN_H
#define CMD_REPLAY_RUN_H

#include <pthread.h>
#include <stdatomic.h>

#include "cmd/histogram.h"
#include "cmd/orders.h"
#include "cmd/progress.h"
#include "lastunit/types.h"

#define REPLAY_CHANNELS 6 /* CHANNEL_WEB … CHANNEL_POS, less 1 */
#define REPLAY_VIOLATIONS_SHOWN 20
#define REPLAY_SENTENCE_BYTES 300

struct replay_options {
	const char *url;
	const char *keys[REPLAY_CHANNELS];
	const char *key_admin;
	int64_t clients, percent, hold_ttl_s;
	int64_t answer_timeout_ms; /* an answer that does not come in this time, however often asked for, is missing */
};

/* Units that were sold and may come back. */
struct replay_sold {
	char checkout_id[37];
	int channel;
	int64_t left;
	struct replay_sold *next;
};

struct replay_sku {
	int64_t received; /* put there at the start */
	_Atomic int64_t sold, restocked, written_off;
	_Atomic int64_t version;       /* the highest one anybody was answered */
	_Atomic bool unsure;           /* a write of it was never answered */
	struct replay_sold *sold_list; /* under the replay's mutex */
};

/* One client's share of a channel; added up at the end. */
struct replay_channel {
	int64_t carts, sold, refused, retried, expired, units;
	struct histogram latency; /* microseconds of each write */
};

struct replay_counts {
	int64_t cancellations, restocked_units, nothing_to_restock;
	int64_t write_offs, written_off_units, write_offs_refused;
	int64_t reads, calls, repeats, replays; /* repeats: of calls that got no answer or a 503; replays: on purpose */
};

/* A hold left to itself. */
struct replay_hold {
	char reservation_id[37];
	int channel;
	struct replay_hold *next;
};

struct replay {
	struct replay_options options;
	const struct order_book *book;
	struct arena *arena;     /* under the mutex while clients run */
	struct replay_sku *skus; /* as in the book */
	char run[23];            /* makes the keys of this replay its own */
	pthread_mutex_t mutex;
	_Atomic size_t next; /* the next piece of work of the phase */
	_Atomic int64_t done, running, carts_sold, carts_refused;
	_Atomic bool stop;         /* the service is gone, or the stock cannot be set: no use in going on */
	struct replay_hold *holds; /* under the mutex */

	int64_t play_ns; /* how long the orders took */
	struct replay_channel channels[REPLAY_CHANNELS];
	struct replay_counts counts;
	int64_t violations;
	char violation[REPLAY_VIOLATIONS_SHOWN][REPLAY_SENTENCE_BYTES];
	char why[REPLAY_SENTENCE_BYTES]; /* why it stopped */
};

void replay_init(struct replay *replay, const struct replay_options *options, const struct order_book *book,
                 struct arena *arena);
void replay_done(struct replay *replay);
/* False when it stopped before the end; see `why`. */
bool replay_play(struct replay *replay, struct progress *progress) __attribute__((warn_unused_result));
/* Thread: any. */
void replay_violation(struct replay *replay, const char *format, ...) __attribute__((format(printf, 2, 3)));
void replay_stop(struct replay *replay, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
