/* The clients of the simulated shop: each a thread that sells, holds, ends holds, corrects and looks, on either instance,
 * and writes down what it asked and was told. A write is asked for again with its key, on whichever instance, until its
 * answer decides something; now and then one that was answered is asked for again all the same.
 *
 * Thread: client_main is one; the rest belongs to the main thread, before and after.
 */
#ifndef TESTS_SIM_CLIENT_H
#define TESTS_SIM_CLIENT_H

#include <stdatomic.h>

#include "lib/http_client.h"
#include "sim/history.h"
#include "sim/plan.h"

#define CLIENT_HOLDS 12
#define CLIENT_REPLAYS 16

/* What all clients see. */
struct market {
	const struct plan *plan;
	const char *addresses[PLAN_INSTANCES];
	int64_t unix_minus_monotonic_ns;
	_Atomic bool closing;       /* nothing new is begun */
	_Atomic int64_t give_up_ns; /* and what has no answer by then never gets one */
};

struct client_hold {
	struct uuid id;
	struct history_line lines[HISTORY_LINES_MAX];
	size_t line_count;
};

struct client_request {
	char method[8], path[120], key[40];
	char *body;
	size_t write; /* in writes */
};

struct client {
	struct market *market;
	int index;
	struct dice dice;
	char bearer[40];
	struct http_client http[PLAN_INSTANCES];
	struct client_hold holds[CLIENT_HOLDS], sales[CLIENT_HOLDS];
	size_t hold_count, sale_count;
	struct client_request recent[CLIENT_REPLAYS];
	unsigned keys;
	int64_t on_hand[PLAN_SKUS]; /* as last told; -1: never */
	/* what it wrote down */
	struct history_write *writes;
	size_t write_count, write_room;
	struct history_read *reads;
	size_t read_count, read_room;
	struct history_request *requests;
	size_t request_count, request_room;
	unsigned tries, refused_reads;
	char complaint[400]; /* the first answer that no rule of the history is about */
};

void client_init(struct client *client, struct market *market, int index);
void *client_main(void *context);
/* One look at every SKU from each instance. */
void client_look_everywhere(struct client *client);
void client_done(struct client *client);

#endif
