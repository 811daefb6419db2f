/* The follower and a tap of it: a loop comes to its sockets before its mailbox, so a tap may be closed, and opened again,
 * while news is on its way. E1 of api/events.h rests on it: whoever looks after START and then listens misses nothing.
 *
 * The test is the loop: nothing is delivered but when it says so. The follower reads nothing meanwhile. */
#include "lib/house.h"

#include <poll.h>

#include "inventory/follower.h"
#include "inventory/inventory.h"

static struct house h;

/* A loop with a tap, and what it has heard. */
static struct mailbox mailbox;
static struct follower_tap tap;
static int starts, changes, resets;
static int64_t version;            /* of A, as it was told last */
static struct feed_position began; /* of the last START */
static const char *on_start_sql;   /* runs once, while START is heard: the follower looks again after that */

static size_t on_news(struct follower_tap *of, const struct follower_news *news)
{
	switch (news->word) {
	case FOLLOWER_START:
		starts++;
		began = news->position;
		if (on_start_sql)
			sql(&h, on_start_sql);
		on_start_sql = NULL;
		break;
	case FOLLOWER_CHANGES:
		changes++;
		for (size_t i = 0; i < news->change_count; i++)
			if (text_equal(news->changes[i].sku, TEXT("A")))
				version = news->changes[i].figures.version;
		break;
	case FOLLOWER_RESET:
		resets++;
		break;
	}
	return 0;
}

static void add_tap(void)
{
	tap = (struct follower_tap){.mailbox = &mailbox, .on_news = on_news};
	follower_add(inventory_follower(h.inventory), &tap);
}

static int open_house(void **state)
{
	house_open(&h, NULL);
	make_sku(&h, "A", 10);
	starts = changes = resets = 0;
	version = 0;
	on_start_sql = NULL;
	mailbox_init(&mailbox);
	add_tap();
	return 0;
}

static int close_house(void **state)
{
	follower_remove(&tap);
	mailbox_done(&mailbox);
	assert_audit(&h);
	house_close(&h);
	return 0;
}

/* Until something is on its way; it is not delivered. */
static void wait_for_news(void)
{
	struct pollfd news = {.fd = mailbox_fd(&mailbox), .events = POLLIN};
	assert_int_equal(poll(&news, 1, 30000), 1);
}

static void hear(void)
{
	wait_for_news();
	mailbox_deliver(&mailbox);
}

/* The last stream leaves and another comes. */
static void reopen(void)
{
	follower_close(&tap);
	follower_open(&tap);
}

static void what_is_committed_after_START_is_told(void **state)
{
	on_start_sql = "UPDATE lastunit.sku SET on_hand = 7 WHERE code = 'A'";
	follower_open(&tap);
	while (version < 2)
		hear();
	assert_int_equal(starts, 1);
}

/* Were it taken for the new one, what is committed between it and the START that follows would be told to nobody. */
static void E1_a_START_on_its_way_is_not_that_of_a_tap_opened_since(void **state)
{
	follower_open(&tap);
	wait_for_news();
	reopen();
	on_start_sql = "UPDATE lastunit.sku SET on_hand = 7 WHERE code = 'A'";
	while (version < 2)
		hear();
	assert_int_equal(starts, 1);
}

static void changes_on_their_way_are_not_for_a_tap_opened_since(void **state)
{
	follower_open(&tap);
	hear();
	struct feed_position first = began;
	sql(&h, "UPDATE lastunit.sku SET on_hand = 7 WHERE code = 'A'");
	wait_for_news();
	reopen();
	mailbox_deliver(&mailbox);
	assert_int_equal(changes, 0);
	while (starts < 2)
		hear();
	assert_int_equal(changes, 0);
	assert_true(feed_position_compare(&began, &first) > 0);
	sql(&h, "UPDATE lastunit.sku SET on_hand = 6 WHERE code = 'A'");
	while (version < 3)
		hear();
	assert_int_equal(starts, 2);
}

static void a_tap_that_was_closed_hears_nothing_of_what_was_on_its_way(void **state)
{
	follower_open(&tap);
	wait_for_news();
	follower_close(&tap);
	mailbox_deliver(&mailbox);
	assert_int_equal(starts + changes + resets, 0);
}

static void a_tap_is_removed_with_news_on_its_way(void **state)
{
	follower_open(&tap);
	wait_for_news();
	follower_remove(&tap);
	assert_int_equal(starts + changes + resets, 0);
	add_tap();
	follower_open(&tap);
	hear();
	assert_int_equal(starts, 1);
}

#define HOUSE_TEST(name) cmocka_unit_test_setup_teardown(name, open_house, close_house)
static const struct CMUnitTest tests[] = {
	HOUSE_TEST(what_is_committed_after_START_is_told),
	HOUSE_TEST(E1_a_START_on_its_way_is_not_that_of_a_tap_opened_since),
	HOUSE_TEST(changes_on_their_way_are_not_for_a_tap_opened_since),
	HOUSE_TEST(a_tap_that_was_closed_hears_nothing_of_what_was_on_its_way),
	HOUSE_TEST(a_tap_is_removed_with_news_on_its_way),
};

HOUSE_MAIN(tests)
