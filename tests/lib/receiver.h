/* An endpoint of webhooks: a small HTTP server in a thread of the test, which keeps what it was sent and answers as told.
 *
 *	struct receiver receiver;
 *	receiver_open(&receiver);
 *	… POST /v1/webhooks {"url": receiver.url} …
 *	const struct delivery *d = receiver_take(&receiver);     the next one, or NULL after 20 s
 *	receiver_answer(&receiver, 503, "Retry-After: 1\r\n");   from now on
 *	receiver_close(&receiver);
 *
 * One thread, many connections, each kept alive. Asserts nothing; aborts on its own errors. A delivery is good until the
 * receiver is closed. Thread: the test's, but for what the receiver's own thread does inside.
 */
#ifndef TESTS_LIB_RECEIVER_H
#define TESTS_LIB_RECEIVER_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct delivery {
	struct delivery *next;
	char id[80], signature[200], content_type[80];
	int64_t time_s;
	char *body;
	json_t *json;
	int status; /* that it was answered */
};

struct receiver {
	char url[80];
	int port, listen_fd, wake_fd;
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t arrived;
	_Atomic bool stopping;
	int status; /* 0: none, the connection stays silent */
	char fields[200];
	struct delivery *all, **end, *taken;
	int count; /* of all */
};

void receiver_open(struct receiver *receiver);
void receiver_close(struct receiver *receiver);
/* How it answers from now on. fields: lines that end in CR LF; "" for none. */
void receiver_answer(struct receiver *receiver, int status, const char *fields);
/* The next delivery in the order of arrival, waited for. */
const struct delivery *receiver_take(struct receiver *receiver);
int receiver_count(struct receiver *receiver);
/* Whether one of the signatures is that of this secret (whsec_…) over "id.time.body". */
bool delivery_is_signed(const struct delivery *delivery, const char *secret);
const char *delivery_string(const struct delivery *delivery, const char *member); /* of data; "type" of the envelope */
int64_t delivery_int(const struct delivery *delivery, const char *member);

#endif
