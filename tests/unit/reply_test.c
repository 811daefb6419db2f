/* Replies in an arena are the replies that hiredis itself would make, however their bytes are cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/arena.h"
#include "cache/wire.h"

static const char *const answers[] = {
	"+OK\r\n",
	"-ERR no such thing\r\n",
	":42\r\n",
	":-9223372036854775808\r\n",
	"$-1\r\n",
	"$0\r\n\r\n",
	"$5\r\na\r\n|b\r\n",
	"*0\r\n",
	"*-1\r\n",
	"*3\r\n$1\r\nA\r\n$-1\r\n:7\r\n",
	"*2\r\n:1\r\n*4\r\n$9\r\nV|1|2|0|0\r\n$-1\r\n$0\r\n\r\n$1\r\n|\r\n",
	"*2\r\n+FENCED\r\n*1\r\n-NOSCRIPT none\r\n",
	"*2\r\n*2\r\n*0\r\n*1\r\n:1\r\n$2\r\nxy\r\n",
};
#define ANSWERS (sizeof answers / sizeof *answers)

static void assert_same(const redisReply *ours, const redisReply *theirs)
{
	assert_int_equal(ours->type, theirs->type);
	assert_int_equal(ours->integer, theirs->integer);
	assert_int_equal(ours->elements, theirs->elements);
	assert_int_equal(ours->len, theirs->len);
	assert_int_equal(!ours->str, !theirs->str);
	if (ours->str)
		assert_memory_equal(ours->str, theirs->str, (size_t)ours->len + 1); /* with the NUL behind it */
	for (size_t i = 0; i < ours->elements; i++)
		assert_same(ours->element[i], theirs->element[i]);
}

static redisReply *next(redisReader *reader, const char **bytes, size_t piece)
{
	void *reply = NULL;
	for (;;) {
		assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
		if (reply)
			return reply;
		size_t size = strnlen(*bytes, piece);
		assert_true(size > 0);
		assert_int_equal(redisReaderFeed(reader, *bytes, size), REDIS_OK);
		*bytes += size;
	}
}

static void a_reply_in_an_arena_is_the_one_of_hiredis(void **state)
{
	char all[1024] = "";
	struct arena arena;
	arena_init(&arena, 256);
	for (size_t i = 0; i < ANSWERS; i++)
		strcat(all, answers[i]);
	for (size_t piece = 1; piece <= strlen(all); piece++) {
		const char *at = all, *theirs_at = all;
		redisReader *reader = wire_reader_new(&arena), *theirs = redisReaderCreate();
		for (size_t i = 0; i < ANSWERS; i++) {
			redisReply *expected = next(theirs, &theirs_at, 1);
			assert_same(next(reader, &at, piece), expected);
			freeReplyObject(expected);
			arena_reset(&arena);
		}
		redisReaderFree(reader);
		redisReaderFree(theirs);
	}
	arena_done(&arena);
}

static void a_reply_cut_short_goes_with_its_arena(void **state)
{
	struct arena arena;
	void *reply = NULL;
	arena_init(&arena, 256);
	redisReader *reader = wire_reader_new(&arena);
	redisReaderFeed(reader, "*2\r\n$1\r\nA\r\n$5\r\nab", 17);
	assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
	assert_null(reply);
	redisReaderFree(reader);
	arena_done(&arena);
}

static void more_elements_than_any_answer_has_are_no_answer(void **state)
{
	static const char *const lies[] = {"*2002\r\n", "*2147483647\r\n", "*2\r\n:1\r\n*2147483647\r\n"};
	for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
		struct arena arena;
		void *reply = NULL;
		arena_init(&arena, 256);
		redisReader *reader = wire_reader_new(&arena);
		redisReaderFeed(reader, lies[i], strlen(lies[i]));
		assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_ERR);
		redisReaderFree(reader);
		arena_done(&arena);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_reply_in_an_arena_is_the_one_of_hiredis),
		cmocka_unit_test(a_reply_cut_short_goes_with_its_arena),
		cmocka_unit_test(more_elements_than_any_answer_has_are_no_answer),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
