/* Rows for store tests, made past the code under test. */
#ifndef TESTS_STORE_ROWS_H
#define TESTS_STORE_ROWS_H

#include "lastunit/decide.h"
#include "store/checkout.h"
#include "store/fixture.h"
#include "store/reservation.h"
#include "store/sku.h"

/* A SKU of this code; its id. */
static inline int64_t make_sku(const char *code, int64_t on_hand)
{
	char sql[400];
	snprintf(sql, sizeof sql,
	         "INSERT INTO lastunit.sku (code, on_hand, writer) VALUES ('%s', %lld, gen_random_uuid()) RETURNING id",
	         code, (long long)on_hand);
	return ask_int(sql);
}

/* Ids in the order they are made, also within one millisecond. */
static inline struct uuid next_id(void)
{
	static uint8_t number;
	struct uuid id = uuid_new();
	id.bytes[0] = 1;
	id.bytes[1] = ++number;
	return id;
}

/* A reservation of q units of each SKU, due `in_s` seconds from now (negative: it is due). */
static inline struct reservation *new_reservation(const int64_t *sku_ids, size_t count, int64_t quantity, int64_t in_s)
{
	struct reservation *r = ARENA_NEW(&arena, struct reservation);
	int64_t now_us = clock_unix_us();
	*r = (struct reservation){
		.id = next_id(),
		.principal_id = 7,
		.channel = CHANNEL_TELEGRAM,
		.state = RESERVATION_ACTIVE,
		.created_us = now_us,
		.expires_us = now_us + in_s * US_PER_S,
		.lines = ARENA_ARRAY(&arena, count, struct line),
		.line_count = count,
	};
	for (size_t i = 0; i < count; i++)
		r->lines[i] = (struct line){.sku_id = sku_ids[i], .quantity = quantity, .counted = true, .version = 2};
	return r;
}

static inline void insert_reservations(struct pg *pg, struct reservation *const *rows, size_t count)
{
	reservation_insert_send(pg, &arena, rows, count);
	sent(pg);
	ok(pg, reservation_insert_take(pg, SOON, rows, count));
	ended(pg);
}

static inline struct reservation **read_reservations(struct pg *pg, const struct uuid *ids, size_t count,
                                                     size_t *ret_count)
{
	struct reservation **rows;
	reservation_read_send(pg, &arena, ids, count);
	sent(pg);
	ok(pg, reservation_read_take(pg, SOON, &arena, &rows, ret_count));
	ended(pg);
	return rows;
}

static inline void assert_uuid(struct uuid a, struct uuid b)
{
	assert_memory_equal(a.bytes, b.bytes, sizeof a.bytes);
}

#endif
