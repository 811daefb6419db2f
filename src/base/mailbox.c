/* A mailbox: a Treiber stack that is only pushed to and only emptied whole, so it knows no ABA problem.
 *
 * Happy path: posters push with one compare-and-swap; the one who found the box empty writes the eventfd. The owner
 * first clears the eventfd, then takes everything: a post that comes between the two is taken now and wakes the owner
 * once more for nothing, whereas the other order would lose the wake-up.
 * Failure modes: none but a descriptor that cannot be had (CHECK). An item may be delivered, and freed, before
 * mailbox_post() returns: nothing of it is touched after the push. A poster may still be about to write the eventfd
 * when its item is delivered, so posters are joined before mailbox_done().
 */
#include "base/mailbox.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"

void mailbox_init(struct mailbox *mailbox)
{
	atomic_init(&mailbox->head, NULL);
	mailbox->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	CHECK(mailbox->fd >= 0);
}

void mailbox_done(struct mailbox *mailbox)
{
	CHECK(!atomic_load_explicit(&mailbox->head, memory_order_acquire));
	close(mailbox->fd);
	mailbox->fd = -1;
}

void mailbox_post(struct mailbox *mailbox, struct mailbox_item *item)
{
	struct mailbox_item *head = atomic_load_explicit(&mailbox->head, memory_order_relaxed);
	do {
		item->next = head;
	} while (!atomic_compare_exchange_weak_explicit(&mailbox->head, &head, item, memory_order_release,
	                                                memory_order_relaxed));
	if (head)
		return;
	uint64_t one = 1;
	CHECK(write(mailbox->fd, &one, sizeof one) == (ssize_t)sizeof one || errno == EAGAIN);
}

unsigned mailbox_deliver(struct mailbox *mailbox)
{
	uint64_t posts;
	CHECK(read(mailbox->fd, &posts, sizeof posts) == (ssize_t)sizeof posts || errno == EAGAIN || errno == EINTR);
	struct mailbox_item *newest = atomic_exchange_explicit(&mailbox->head, NULL, memory_order_acquire);
	struct mailbox_item *oldest = NULL;
	while (newest) {
		struct mailbox_item *next = newest->next;
		newest->next = oldest;
		oldest = newest;
		newest = next;
	}
	/* One round only: what deliver() posts anew has woken the eventfd and lets other events of the loop come first. */
	unsigned count = 0;
	while (oldest) {
		struct mailbox_item *item = oldest;
		oldest = item->next;
		item->deliver(item);
		count++;
	}
	return count;
}
