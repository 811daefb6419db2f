/* The mailbox: every item once, in the order of its poster, and no wake-up lost. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/mailbox.h"
#include "lib/dies.h"

struct letter {
	struct mailbox_item item;
	int from, number;
	bool again;
};

static struct mailbox box;
static struct letter *delivered[100];
static unsigned delivered_count;

static void on_letter(struct mailbox_item *item)
{
	delivered[delivered_count++ % 100] = (struct letter *)item;
}

static bool is_awake(void)
{
	struct pollfd fd = {.fd = mailbox_fd(&box), .events = POLLIN};
	return poll(&fd, 1, 0) == 1;
}

static int open_box(void **state)
{
	mailbox_init(&box);
	delivered_count = 0;
	return 0;
}

static int close_box(void **state)
{
	mailbox_done(&box);
	return 0;
}

static void items_come_in_the_order_posted(void **state)
{
	struct letter letters[5];
	for (int i = 0; i < 5; i++) {
		letters[i] = (struct letter){.item.deliver = on_letter, .number = i};
		mailbox_post(&box, &letters[i].item);
	}
	assert_int_equal(mailbox_deliver(&box), 5);
	for (int i = 0; i < 5; i++)
		assert_ptr_equal(delivered[i], &letters[i]);
	assert_int_equal(mailbox_deliver(&box), 0);
}

static void the_owner_is_woken_once_and_sleeps_after_delivery(void **state)
{
	assert_false(is_awake());
	struct letter letters[3];
	uint64_t wake_ups = 0;
	for (int i = 0; i < 3; i++) {
		letters[i] = (struct letter){.item.deliver = on_letter};
		mailbox_post(&box, &letters[i].item);
		assert_true(is_awake());
	}
	assert_int_equal(read(mailbox_fd(&box), &wake_ups, sizeof wake_ups), sizeof wake_ups);
	assert_int_equal(wake_ups, 1);
	assert_int_equal(mailbox_deliver(&box), 3);
	assert_false(is_awake());
	mailbox_post(&box, &letters[0].item);
	assert_true(is_awake());
	assert_int_equal(mailbox_deliver(&box), 1);
	assert_false(is_awake());
}

static void on_letter_post_again(struct mailbox_item *item)
{
	struct letter *letter = (struct letter *)item;
	on_letter(item);
	if (letter->again) {
		letter->again = false;
		mailbox_post(&box, item);
	}
}

static void an_item_posted_while_delivering_comes_in_the_next_round(void **state)
{
	struct letter letter = {.item.deliver = on_letter_post_again, .again = true};
	mailbox_post(&box, &letter.item);
	assert_int_equal(mailbox_deliver(&box), 1);
	assert_true(is_awake());
	assert_int_equal(mailbox_deliver(&box), 1);
	assert_false(is_awake());
	assert_int_equal(delivered_count, 2);
}

static void on_letter_free(struct mailbox_item *item)
{
	delivered_count++;
	free(item);
}

static void an_item_may_be_freed_by_its_delivery(void **state)
{
	for (int i = 0; i < 10; i++) {
		struct letter *letter = calloc(1, sizeof *letter);
		letter->item.deliver = on_letter_free;
		mailbox_post(&box, &letter->item);
	}
	assert_int_equal(mailbox_deliver(&box), 10);
	assert_int_equal(delivered_count, 10);
}

static void a_box_that_is_not_empty_may_not_be_closed(void **state)
{
	struct letter letter = {.item.deliver = on_letter};
	mailbox_post(&box, &letter.item);
	assert_dies(mailbox_done(&box));
	assert_int_equal(mailbox_deliver(&box), 1);
}

enum { POSTERS = 4, LETTERS = 20000 };

static int next_number[POSTERS];
static bool out_of_order;

static void on_numbered(struct mailbox_item *item)
{
	struct letter *letter = (struct letter *)item;
	out_of_order |= letter->number != next_number[letter->from];
	next_number[letter->from] = letter->number + 1;
	delivered_count++;
	free(letter);
}

static void *post_letters(void *context)
{
	int from = (int)(intptr_t)context;
	for (int i = 0; i < LETTERS; i++) {
		struct letter *letter = calloc(1, sizeof *letter);
		if (!letter)
			abort();
		*letter = (struct letter){.item.deliver = on_numbered, .from = from, .number = i};
		mailbox_post(&box, &letter->item);
	}
	return NULL;
}

/* The owner sleeps in poll() with no time limit whenever the box says it may: a lost wake-up would hang here. */
static void many_posters_lose_nothing_and_keep_their_order(void **state)
{
	pthread_t posters[POSTERS];
	for (int i = 0; i < POSTERS; i++) {
		next_number[i] = 0;
		assert_int_equal(pthread_create(&posters[i], NULL, post_letters, (void *)(intptr_t)i), 0);
	}
	while (delivered_count < POSTERS * LETTERS) {
		struct pollfd fd = {.fd = mailbox_fd(&box), .events = POLLIN};
		assert_int_equal(poll(&fd, 1, -1), 1);
		mailbox_deliver(&box);
	}
	for (int i = 0; i < POSTERS; i++) {
		pthread_join(posters[i], NULL);
		assert_int_equal(next_number[i], LETTERS);
	}
	assert_false(out_of_order);
	assert_int_equal(mailbox_deliver(&box), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(items_come_in_the_order_posted, open_box, close_box),
		cmocka_unit_test_setup_teardown(the_owner_is_woken_once_and_sleeps_after_delivery, open_box, close_box),
		cmocka_unit_test_setup_teardown(an_item_posted_while_delivering_comes_in_the_next_round, open_box, close_box),
		cmocka_unit_test_setup_teardown(an_item_may_be_freed_by_its_delivery, open_box, close_box),
		cmocka_unit_test_setup_teardown(a_box_that_is_not_empty_may_not_be_closed, open_box, close_box),
		cmocka_unit_test_setup_teardown(many_posters_lose_nothing_and_keep_their_order, open_box, close_box),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
