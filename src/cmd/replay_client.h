/* One client of a replay: its connection, its calls with their retries, and what it does with an order. */
#ifndef CMD_REPLAY_CLIENT_H
#define CMD_REPLAY_CLIENT_H

#include <jansson.h>

#include "base/buffer.h"
#include "cmd/http_caller.h"
#include "cmd/replay_run.h"

#define REPLAY_ADMIN (-1) /* instead of a channel: the admin's key */

struct replay_client {
	struct replay *replay;
	struct http_caller *caller;
	struct buffer body, path;
	struct replay_channel channels[REPLAY_CHANNELS];
	struct replay_counts counts;
	int64_t writes_answered;
};

void replay_client_init(struct replay_client *client, struct replay *replay);
/* Adds its counts to the replay's. */
void replay_client_done(struct replay_client *client);

/* An answer that counts: 2xx or 4xx, never "try again". status 0: none came in time. The caller json_decref()s. */
struct replay_answer {
	int status;
	json_t *json;     /* NULL: no JSON */
	const char *code; /* of a problem; "" otherwise; borrowed from json */
};

/* Sends until it is answered, with the same idempotency key each time (NULL: a read). path and body are the client's
 * buffers. Every 16th answered write is sent once more: the answer must be the same. */
struct replay_answer replay_call(struct replay_client *client, int channel, const char *method, const char *key);
/* Reads one SKU and checks that nobody was ever answered a higher version before. */
void replay_look(struct replay_client *client, int channel, size_t sku);
/* Remembers that a version was answered. */
void replay_version_seen(struct replay *replay, size_t sku, int64_t version);

/* The orders (replay_order.c). What becomes of a cart, by its turn among the carts: it is pure, and even in every stretch
 * of the file, so that a file of ten invoices has a bit of everything, too. */
enum replay_fate { FATE_CHECKOUT, FATE_COMMIT, FATE_ABANDON };
enum replay_fate replay_fate_of(size_t turn);
void replay_order(struct replay_client *client, size_t index);
/* The stock before and after (replay_stock.c): piece `index` of the work. */
void replay_stock_sku(struct replay_client *client, size_t index);
void replay_count_sku(struct replay_client *client, size_t index);
/* Waits for the end of one abandoned hold. */
void replay_await_hold(struct replay_client *client, const struct replay_hold *hold);

#endif
