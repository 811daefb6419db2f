/* The other end of a connection of src/http, without threads, ports or time: one loop in this thread, one client.
 *
 *	peer_start(&router, hooks);
 *	peer_exchange(bytes, first, piece, &answers);     … as often as you like
 *	peer_stop();
 *
 * The bytes go through the service's own connection, from the socket to the handler and back. Nothing here waits: the
 * loop is turned as long as anything can come of it, and CHECKs that something does: a connection that neither answers
 * nor closes is a fault. The Date is always the same. Thread: one.
 */
#ifndef FUZZ_PEER_H
#define FUZZ_PEER_H

#include "base/buffer.h"
#include "http/server.h"

void peer_start(const struct router *router, struct server_hooks hooks);
void peer_stop(void);

#define PEER_ANSWERS_MAX 64

struct peer_answer {
	int status;
	bool closes;            /* says Connection: close */
	struct text head, body; /* in `raw` */
};

/* What came back, taken apart by http_parser. */
struct peer_answers {
	struct buffer raw; /* without what was said in between, 100 Continue */
	struct peer_answer answers[PEER_ANSWERS_MAX];
	size_t count; /* of all; only the first PEER_ANSWERS_MAX are in answers */
};

/* Opens a connection, sends `first` bytes, then `piece` at a time, lets the service go through each, and says that no
 * more will come; the answers are all that came until the service had closed. `bodiless`: the answers are to a HEAD. Free
 * with peer_answers_done(). */
void peer_exchange(struct text bytes, size_t first, size_t piece, bool bodiless, struct peer_answers *ret_answers);
void peer_answers_done(struct peer_answers *answers);
/* The value of a field, "" if it is not there, of one answer. */
struct text peer_field(const struct peer_answer *answer, const char *name);

#endif
