/* What lua/cell.lua reads in a cell, on the Lua of a real Redis, against lib/lua_view.h, which says the same in C and is
 * what the fuzz target `cell` holds cell.c against. Over all kept inputs of that target and mutations of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/embed.h"
#include "base/text.h"
#include "cache/redis.h"
#include "lib/lua_view.h"
#include "lib/mutate.h"
#include "lib/redis_server.h"

#define FAR deadline_in_ms(30000)
#define CALLS 20
#define CELLS 200 /* of one call */

static struct redis_server server;
static struct redis *redis;

/* Cell and SKU by turns; answers the version in the value and in the intent of each, "" for none. */
static const char ask[] =
	"\nlocal said = {}\n"
	"local function text(version) return version and string.format('%.0f', version) or '' end\n"
	"KEYS[1] = 'ns!open'\n"
	"for i = 1, #ARGV, 2 do\n"
	"	said[i] = text(value_version(ARGV[i], 'ns:' .. ARGV[i + 1]))\n"
	"	said[i + 1] = text(intent_version(ARGV[i]))\n"
	"end\n"
	"return said\n";

/* An input of the target: a byte, how long the SKU is; the SKU; the cell. False: it is too short. */
static bool take_apart(struct text input, struct text *ret_sku, struct text *ret_cell)
{
	size_t size = input.size ? (unsigned char)input.data[0] : 0;
	if (input.size < 1 + size || size == 0)
		return false;
	*ret_sku = (struct text){input.data + 1, size};
	*ret_cell = (struct text){input.data + 1 + size, input.size - 1 - size};
	return true;
}

/* A number of Lua is a double: beyond 2^53 it is not these digits, in both. */
static struct text as_lua_prints(struct text digits, char out[LUA_VERSION_DIGITS_MAX + 8])
{
	snprintf(out, LUA_VERSION_DIGITS_MAX + 8, "%.*s", (int)digits.size, digits.data);
	snprintf(out, LUA_VERSION_DIGITS_MAX + 8, "%.0f", strtod(out, NULL));
	return text_of(out);
}

static void assert_same(const redisReply *said, struct text ours, struct text cell)
{
	assert_int_equal(said->type, REDIS_REPLY_STRING);
	if (!text_equal((struct text){said->str, (size_t)said->len}, ours))
		fail_msg("\"%.*s\": Lua reads \"%.*s\", C \"%.*s\"", (int)cell.size, cell.data, (int)said->len, said->str,
		         (int)ours.size, ours.data);
}

static void compare(const struct text *pairs, size_t count)
{
	struct arena arena;
	redisReply *reply = NULL;
	struct text argv[3 + 2 * CELLS];
	arena_init(&arena, 16 * 1024);
	struct text fragment = embed_find("lua/cell.lua");
	argv[0] = TEXT("EVAL");
	argv[1] = arena_printf(&arena, "%.*s%s", (int)fragment.size, fragment.data, ask);
	argv[2] = TEXT("0");
	memcpy(argv + 3, pairs, 2 * count * sizeof *pairs);
	if (redis_call(redis, (int)(3 + 2 * count), argv, FAR, &reply) != LU_OK)
		fail_msg("%s", redis_error(redis));
	assert_int_equal(reply->elements, 2 * count);
	for (size_t i = 0; i < count; i++) {
		struct text cell = pairs[2 * i], sku = pairs[2 * i + 1], numbers[4], token, version;
		char printed[LUA_VERSION_DIGITS_MAX + 8];
		assert_same(reply->element[2 * i],
		            lua_value(cell, sku, numbers) ? as_lua_prints(numbers[0], printed) : TEXT(""), cell);
		assert_same(reply->element[2 * i + 1],
		            lua_intent(cell, &token, &version) ? as_lua_prints(version, printed) : TEXT(""), cell);
	}
	redis_reply_done(&reply);
	arena_done(&arena);
}

static void lua_and_c_read_the_same_in_every_cell(void **state)
{
	static char bytes[MUTATION_BYTES_MAX];
	struct mutator mutator;
	size_t kept = 0, seen = 0;
	mutator_init(&mutator, "cell", 1);
	for (int call = 0; call < CALLS; call++) {
		struct text pairs[2 * CELLS];
		struct arena arena;
		size_t count = 0;
		arena_init(&arena, 64 * 1024);
		while (count < CELLS) {
			struct text sku, cell;
			struct text input = kept < mutator.input_count ? mutator.inputs[kept++]
			                                               : (struct text){bytes, mutator_next(&mutator, bytes)};
			if (!take_apart(input, &sku, &cell))
				continue;
			pairs[2 * count] = arena_text(&arena, cell);
			pairs[2 * count++ + 1] = arena_text(&arena, sku);
		}
		compare(pairs, count);
		seen += count;
		arena_done(&arena);
	}
	assert_int_equal(seen, CALLS * CELLS);
	mutator_done(&mutator);
}

static int setup(void **state)
{
	struct redis_address address;
	const char *why;
	redis_server_start(&server, NULL);
	if (!redis_address_parse(server.url, &address, &why))
		return -1;
	redis = redis_new(&address);
	return redis_connect(redis, FAR) == LU_OK ? 0 : -1;
}

static int teardown(void **state)
{
	redis_free(redis);
	redis_server_stop(&server);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(lua_and_c_read_the_same_in_every_cell)};
	return cmocka_run_group_tests(tests, setup, teardown);
}
