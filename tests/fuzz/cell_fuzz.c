/* Fuzz target: the bytes that Redis hands us, as a cell and as a reply.
 *
 * Checks more than the absence of crashes. What is taken for one of our cells encodes to the very same bytes; its parts
 * lie inside it; a value belongs to its SKU and to no other. A reply is an answer only if it fits its call.
 * Input: one byte, the length of the SKU; the SKU; the rest is the cell, and then the reply.
 * Run: clang -fsanitize=fuzzer,address,undefined.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "cache/cell.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_inside(struct text part, struct text whole)
{
	CHECK(part.size > 0 && part.data >= whole.data && part.data + part.size <= whole.data + whole.size);
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
}

static void fuzz_reply(struct text bytes)
{
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
	if (!memchr(sku.data, 0, sku.size))
		fuzz_cell(&arena, rest, sku);
	fuzz_reply(rest);
	arena_done(&arena);
	return 0;
}
