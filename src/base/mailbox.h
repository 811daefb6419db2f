/* A mailbox: how a thread hands finished work back to an event loop.
 *
 * Many posters, one owner. mailbox_post() never blocks and never calls back; the owner watches mailbox_fd() for
 * reading and then calls mailbox_deliver(), which runs each item's `deliver` once, in the order posted.
 * Ownership: the caller embeds the item and keeps it alive until `deliver`, which may free it or post it again.
 * A wake-up is written only when the box was empty.
 */
#ifndef BASE_MAILBOX_H
#define BASE_MAILBOX_H

#include <stdatomic.h>

struct mailbox_item {
	struct mailbox_item *next;
	void (*deliver)(struct mailbox_item *item);
};

struct mailbox {
	_Atomic(struct mailbox_item *) head; /* newest first; reversed by the owner */
	int fd;                              /* eventfd, non-blocking, close-on-exec */
};

void mailbox_init(struct mailbox *mailbox);
/* CHECKs that it is empty. */
void mailbox_done(struct mailbox *mailbox);
static inline int mailbox_fd(const struct mailbox *mailbox)
{
	return mailbox->fd;
}
void mailbox_post(struct mailbox *mailbox, struct mailbox_item *item);
/* Owner only. Returns how many were delivered. */
unsigned mailbox_deliver(struct mailbox *mailbox);

#endif
