/* Fuzz target: a cell as Redis gives it back, and a reply of the scripts as hiredis reads it.
 *
 * Checks more than the absence of crashes. What is taken for one of our cells encodes to the very same bytes; its parts
 * lie inside it; a value belongs to its SKU and to no other. cell.c and cell.lua see the same: a cell is ours for the one
 * exactly if it is for the other and its numbers are written as we write them. Figures that are encoded decode to
 * themselves. A reply is an answer only if it fits its call.
 * Input: one byte, the length of the SKU; the SKU; the rest is the cell, and then the reply.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "cache/cell.h"
#include "fuzz/fuzz.h"
#include "lib/lua_view.h"

static void check_inside(struct text part, struct text whole)
{
	CHECK(part.size > 0 && part.data >= whole.data && part.data + part.size <= whole.data + whole.size);
}

/* As put_number() writes it. */
static bool is_plain(struct text digits)
{
	int64_t value;
	return text_to_int64(digits, &value) && value <= LU_COUNT_MAX && (digits.size == 1 || digits.data[0] != '0');
}

static bool is_number(struct text digits, int64_t expected)
{
	int64_t value;
	return text_to_int64(digits, &value) && value == expected;
}

static void check_lua(struct text raw, struct text sku, const struct cell *cell)
{
	struct text numbers[4], token, version;
	bool value = lua_value(raw, sku, numbers);
	for (int i = 0; i < 4; i++)
		value = value && is_plain(numbers[i]);
	CHECK(value == (cell->state == CELL_VALUE));
	if (value)
		CHECK(is_number(numbers[0], cell->figures.version) && is_number(numbers[1], cell->figures.on_hand) &&
		      is_number(numbers[2], cell->figures.reserved) && is_number(numbers[3], cell->figures.safety_stock));
	bool intent = lua_intent(raw, &token, &version) && is_plain(version);
	CHECK(intent == (cell->state == CELL_INTENT));
	if (intent)
		CHECK(text_equal(token, cell->token) && is_number(version, cell->figures.version));
}

static void fuzz_cell(struct arena *arena, struct text raw, struct text sku)
{
	struct cell cell = cell_decode(raw, true, sku);
	struct text longer = arena_printf(arena, "%.*s!", (int)sku.size, sku.data);
	char version[24];
	switch (cell.state) {
	case CELL_VALUE:
		CHECK(text_equal(cell_value(arena, &cell.figures, sku), raw));
		CHECK(cell_decode(raw, true, longer).state == CELL_FOREIGN);
		break;
	case CELL_FILL:
		check_inside(cell.token, raw);
		CHECK(text_equal(cell_ticket(arena, arena_text(arena, cell.token).data), raw));
		break;
	case CELL_INTENT:
		check_inside(cell.token, raw);
		snprintf(version, sizeof version, "%lld", (long long)cell.figures.version);
		CHECK(text_equal(arena_printf(arena, "I|%s|%s", arena_text(arena, cell.token).data, version), raw));
		break;
	case CELL_FOREIGN:
		CHECK(text_equal(cell.raw, raw));
		break;
	case CELL_ABSENT:
		CHECK(false); /* it is there */
	}
	CHECK(cell_decode(raw, false, sku).state == CELL_ABSENT);
	/* A SKU has at least one byte; Lua's .+ says so, C is never asked about another. */
	if (sku.size)
		check_lua(raw, sku, &cell);
}

/* The other way round: figures made of the input's bytes. */
static void fuzz_figures(struct arena *arena, struct text bytes, struct text sku)
{
	uint64_t numbers[4] = {0};
	memcpy(numbers, bytes.data, bytes.size < sizeof numbers ? bytes.size : sizeof numbers);
	int64_t counts[4];
	for (int i = 0; i < 4; i++)
		counts[i] = (int64_t)(numbers[i] % ((uint64_t)LU_COUNT_MAX + 1));
	struct figures figures = {counts[0], counts[1], counts[2], counts[3], bytes.size & 1};
	struct cell cell = cell_decode(cell_value(arena, &figures, sku), true, sku);
	CHECK(cell.state == CELL_VALUE && cell.figures.version == figures.version &&
	      cell.figures.on_hand == figures.on_hand && cell.figures.reserved == figures.reserved &&
	      cell.figures.safety_stock == figures.safety_stock && cell.figures.tracked == figures.tracked);
}

/* hiredis makes room for all elements that are announced, before they come, up to 2^31. A Redis that lies so is not what
 * this is about. */
static bool announces_too_much(struct text bytes)
{
	size_t digits = 0;
	for (size_t i = 0; i < bytes.size && digits < 6; i++)
		digits = bytes.data[i] == '*' || (digits && bytes.data[i] >= '0' && bytes.data[i] <= '9') ? digits + 1 : 0;
	return digits == 6;
}

static void fuzz_reply(struct text bytes)
{
	if (announces_too_much(bytes))
		return;
	redisReader *reader = redisReaderCreate();
	CHECK(reader);
	redisReaderFeed(reader, bytes.data, bytes.size);
	void *parsed = NULL;
	while (redisReaderGetReply(reader, &parsed) == REDIS_OK && parsed) {
		redisReply *reply = parsed;
		for (size_t count = 1; count <= 3; count++) {
			enum cell_reply kind = cell_reply_kind(reply, count);
			CHECK(kind != CELL_OK || reply->type == REDIS_REPLY_INTEGER ||
			      (reply->type == REDIS_REPLY_ARRAY && reply->elements == count));
			CHECK(kind != CELL_FENCED || reply->type == REDIS_REPLY_STATUS);
			redisReply *const *cells = NULL;
			kind = cell_read_kind(reply, count, &cells);
			CHECK(kind == CELL_OK ? cells == reply->element[1]->element + 1 : !cells);
		}
		redis_reply_done(&reply);
	}
	redisReaderFree(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1 || size < 1u + data[0])
		return 0;
	struct arena arena;
	arena_init(&arena, 1024);
	struct text sku = {(const char *)data + 1, data[0]}, rest = {(const char *)data + 1 + data[0], size - 1 - data[0]};
	/* A SKU has no NUL, and printf above would stop at one. */
	if (!memchr(sku.data, 0, sku.size)) {
		fuzz_cell(&arena, rest, sku);
		fuzz_figures(&arena, rest, sku);
	}
	fuzz_reply(rest);
	arena_done(&arena);
	return 0;
}
