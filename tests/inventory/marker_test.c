/* Markers that a killed writer left behind: one reader watches them all, and has them healed. */
#include <event2/event.h>

#include "base/mailbox.h"
#include "inventory/house_fixture.h"

enum { MANY = 4 };

static bool looked;

static void on_looked(struct lookup *lookup)
{
	looked = true;
}

static void on_mail(evutil_socket_t fd, short what, void *context)
{
	mailbox_deliver(context);
}

/* Looks at all of them, turn by turn, until each is served from Redis. */
static void look_until_all_are_hits(const struct text skus[MANY])
{
	struct event_base *base = event_base_new();
	struct mailbox mailbox;
	struct arena arena;
	arena_init(&arena, 4096);
	mailbox_init(&mailbox);
	struct event *mail = event_new(base, mailbox_fd(&mailbox), EV_READ | EV_PERSIST, on_mail, &mailbox);
	event_add(mail, NULL);
	struct reader *reader = reader_new(h.inventory, base, &mailbox);
	int hits = 0;
	for (int64_t patience_ns = deadline_in_ms(20000); hits < MANY && clock_boottime_ns() < patience_ns;) {
		struct lookup_item items[MANY] = {0};
		hits = 0;
		for (int i = 0; i < MANY; i++)
			items[i].sku = skus[i];
		struct lookup lookup = {.arena = &arena,
		                        .deadline_ns = deadline_in_ms(10000),
		                        .items = items,
		                        .item_count = MANY,
		                        .on_done = on_looked};
		looked = false;
		reader_lookup(reader, &lookup);
		while (!looked)
			event_base_loop(base, EVLOOP_ONCE);
		for (int i = 0; i < MANY; i++) {
			assert_int_equal(items[i].figures.on_hand, 10);
			hits += items[i].source == LOOKUP_HIT;
		}
		usleep(20000);
	}
	assert_int_equal(hits, MANY);
	reader_free(reader);
	event_free(mail);
	mailbox_done(&mailbox);
	event_base_free(base);
	arena_done(&arena);
}

/* A writer may leave more markers than a reader has places to watch them in. These few have one place in any table of up
 * to 4,096, and are looked at as often as each other. */
static void I10_markers_left_behind_are_healed_however_many_meet(void **state)
{
	char codes[MANY][32];
	struct text skus[MANY];
	uint64_t place = 0;
	for (int found = 0, number = 0; found < MANY; number++) {
		char code[32];
		snprintf(code, sizeof code, "S-%d", number);
		uint64_t at = text_hash(text_of(code)) % 4096;
		if (found && at != place)
			continue;
		place = at;
		strcpy(codes[found], code);
		skus[found] = text_of(codes[found]);
		make_sku(&h, code, 10);
		set_cell(&h, codes[found++], "I|a-writer-that-died|2");
	}
	look_until_all_are_hits(skus);
}

static const struct CMUnitTest tests[] = {
	HOUSE_TEST(I10_markers_left_behind_are_healed_however_many_meet),
};

HOUSE_MAIN(tests)
