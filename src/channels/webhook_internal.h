/* What the files of the deliverer share: webhook.c leads and takes turns, webhook_page.c says what is to be sent,
 * webhook_send.c sends it. Nobody else includes it. Thread: the deliverer's. */
#ifndef CHANNELS_WEBHOOK_INTERNAL_H
#define CHANNELS_WEBHOOK_INTERNAL_H

#include <curl/curl.h>
#include <sys/queue.h>

#include "base/config.h"
#include "channels/webhook_message.h"

/* One SKU of a page: what its webhook has yet to be told of it. */
struct page_item {
	const struct feed_change *change;
	unsigned todo;             /* events: out or back first, then availability */
	bool goes_out, comes_back; /* to be noted when it was told */
};

/* One active webhook, while this instance leads. */
struct target {
	LIST_ENTRY(target) all;
	struct webhook row; /* texts in the list of the last reload; position: as it stands in the database */
	bool listed;        /* found by the reload at hand */
	/* the page at hand */
	struct arena page_arena;
	struct page_item *items;
	size_t item_count, item;       /* the one at hand */
	struct feed_position position; /* dealt with up to here; ahead of the row's as long as that is not written */
	struct feed_position page_end;
	int64_t *outs, *backs; /* noted since the row was written */
	size_t out_count, back_count;
	bool delivered;     /* something, since then */
	int64_t written_ns; /* when the row was */
	int64_t seen_xid;   /* where the feed stood when it was last read to its end */
	int64_t not_before_ns;
	int64_t attempts; /* at the message at hand */
	/* the transfer */
	CURL *easy;
	struct curl_slist *headers;
	struct buffer body;
	char id[WEBHOOK_ID_BYTES + 1];
	bool sending, address_refused;
	int64_t sent_ns;
};

/* --- webhook_page.c ----------------------------------------------------------------------------------------------- */

struct target *target_new(void);
void target_free(struct target *target);
/* Begins where the row says: nothing of a page is left. */
void target_rewind(struct target *target);
/* No message is at hand. */
bool target_is_through(const struct target *target);
/* The next page; it is through again if there is nothing to tell in it. What was noted must have been written. */
enum lu_error target_read(struct target *target, struct pg *pg, int64_t deadline_ns) LU_MUST_CHECK;
/* The message at hand; it is not through. */
enum webhook_event target_event(const struct target *target);
const struct feed_change *target_change(const struct target *target);
/* It is dealt with, taken or not. */
void target_next(struct target *target, bool taken);
/* Writes its place and what was noted. Not `urgent`: unless that would only move the place, and it was moved lately. */
enum lu_error target_write(struct target *target, struct pg *pg, bool urgent, int64_t deadline_ns) LU_MUST_CHECK;

/* --- webhook_send.c ----------------------------------------------------------------------------------------------- */

enum outcome { OUTCOME_TAKEN, OUTCOME_GONE, OUTCOME_REFUSED, OUTCOME_AWAY };

struct sender {
	CURLM *multi;
	bool private_allowed;
	int64_t timeout_ms;
};

bool sender_init(struct sender *sender, const struct config *config);
void sender_done(struct sender *sender);
/* Sends the message at hand. False: it cannot be signed, and nothing is on its way. */
bool sender_begin(struct sender *sender, struct target *target) LU_MUST_CHECK;
void sender_cut(struct sender *sender, struct target *target);
/* The next transfer that has ended, or NULL. ret_error: why it was not taken; *ret_retry_after_s: what it asked for. */
struct target *sender_take(struct sender *sender, enum outcome *ret_outcome, char ret_error[200],
                           int64_t *ret_retry_after_s);

#endif
