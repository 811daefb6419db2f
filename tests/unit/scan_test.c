/* The strict look at header bytes, the parser behind it, and the chunk decoder: whatever two programs could read
 * differently is refused, whichever way its bytes arrive. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "http/chunk.h"
#include "http/parser.h"
#include "http/scan.h"

#define HOST "Host: a.example\r\n"
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* What the server does with a block: measure, scan, parse. On a copy of exactly its size, so that a look behind the
 * end is found by the sanitizer. */
static enum lu_error read_block(struct text bytes, struct scan *ret_scan, struct http_head *ret_head,
                                struct arena *arena)
{
	char *copy = malloc(bytes.size ? bytes.size : 1);
	memcpy(copy, bytes.data, bytes.size);
	size_t seen = 0, end = 0;
	const char *why = NULL;
	enum lu_error error = scan_find_end((struct text){copy, bytes.size}, &seen, &end, &why);
	if (!error && !end)
		error = LU_INTERNAL; /* not complete: stands for "waits for more" here */
	if (!error) {
		/* texts of scan and head must outlive the copy */
		struct text block = arena_text(arena, (struct text){copy, end});
		error = scan_headers(block, ret_scan, &why);
		if (!error && ret_head)
			error = parser_read(block, ret_scan, arena, ret_head, &why);
	}
	if (error && error != LU_INTERNAL)
		assert_non_null(why);
	free(copy);
	return error;
}

/* What the scan alone says: it must not lean on the parser behind it, which another may replace. */
static enum lu_error error_of(struct text bytes)
{
	struct arena arena;
	struct scan scan;
	arena_init(&arena, 8192);
	enum lu_error error = read_block(bytes, &scan, NULL, &arena);
	arena_done(&arena);
	return error;
}

static enum lu_error error_with_parser(struct text bytes)
{
	struct arena arena;
	struct scan scan;
	struct http_head head;
	arena_init(&arena, 8192);
	enum lu_error error = read_block(bytes, &scan, &head, &arena);
	arena_done(&arena);
	return error;
}

static void assert_text(struct text text, const char *expected)
{
	if (!text_equal(text, text_of(expected)))
		fail_msg("\"%.*s\" is not \"%s\"", (int)text.size, text.data, expected);
}

/* --- the header block ------------------------------------------------------------------------------------------- */

static void a_plain_request_is_understood(void **state)
{
	struct arena arena;
	struct scan scan;
	struct http_head head;
	arena_init(&arena, 8192);
	assert_int_equal(read_block(TEXT("POST /v1/a%20b?x=1&y HTTP/1.1\r\nhOST: [::1]:8080\r\ncontent-length: 12\r\n"
	                                 "EXPECT: 100-Continue\r\nX-Empty:\r\nX-Blanks: \t two words \t\r\n\r\nbody"),
	                            &scan, &head, &arena),
	                 LU_OK);
	assert_text(scan.method, "POST");
	assert_text(scan.target, "/v1/a%20b?x=1&y");
	assert_int_equal(scan.minor, 1);
	assert_int_equal(scan.field_count, 5);
	assert_int_equal(scan.content_length, 12);
	assert_false(scan.chunked);
	assert_int_equal(scan.expect, SCAN_EXPECT_CONTINUE);
	assert_int_equal(head.method, HTTP_METHOD_POST);
	assert_true(head.keep_alive);
	assert_int_equal(head.field_count, 5);
	assert_text(head.target, "/v1/a%20b?x=1&y");
	assert_text(head.fields[0].name, "hOST");
	assert_text(head.fields[0].value, "[::1]:8080");
	assert_text(head.fields[3].value, "");
	assert_text(head.fields[4].value, "two words");
	arena_done(&arena);
}

static void what_is_allowed_is_let_through(void **state)
{
	static const char *const blocks[] = {
		"GET / HTTP/1.1\r\n" HOST "\r\n",
		"GET / HTTP/1.0\r\n\r\n",
		"GET / HTTP/1.0\r\n" HOST "\r\n",
		"GET / HTTP/1.1\r\nHost:\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.example:8080\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a:\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n",
		"GET /?q=\"<>{}|\\^` HTTP/1.1\r\n" HOST "\r\n",
		"POST / HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n",
		"POST / HTTP/1.1\r\n" HOST "Content-Length: 007\r\n\r\n",
		"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n",
		"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding:\tChUnKeD \r\n\r\n",
		"BREW / HTTP/1.1\r\n" HOST "\r\n",
		"PATCH / HTTP/1.1\r\n" HOST "\r\n",
		"GET / HTTP/1.1\r\n" HOST "X: caf\xc3\xa9\r\n\r\n",
		"GET / HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
		"GET / HTTP/1.1\r\n" HOST "X: a\r\nX: b\r\n\r\n",
	};
	for (size_t i = 0; i < COUNT(blocks); i++) {
		enum lu_error error = error_with_parser(text_of(blocks[i]));
		if (error)
			fail_msg("%s: %s", lu_error_code(error), blocks[i]);
	}
	/* more than fits; the server refuses it before the parser sees it */
	struct scan scan;
	const char *why;
	assert_int_equal(scan_headers(TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\n"),
	                              &scan, &why),
	                 LU_OK);
	assert_int_equal(scan.content_length, INT64_MAX);
}

static void ambiguous_blocks_are_refused(void **state)
{
	static const char *const blocks[] = {
		/* line ends */
		"GET / HTTP/1.1\nHost: a\n\n", "GET / HTTP/1.1\r\nHost: a\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\n",
		"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n",
		"\nGET / HTTP/1.1\r\n" HOST "\r\n",
		"\r\nGET / HTTP/1.1\r\n" HOST "\r\n", /* the server takes one empty line off before */
		/* field names and folding */
		"GET / HTTP/1.1\r\nHost: a:b:c\r\n\r\n", "GET / HTTP/1.1\r\nHost: a:80:90\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a:x\r\n\r\n", "GET / HTTP/1.1\r\nHost: ::1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", "GET / HTTP/1.1\r\nHost: [::1]a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a[b\r\n\r\n", "GET / HTTP/1.1\r\nHost: a]\r\n\r\n",
		"GET / HTTP/1.1\r\nHost : a\r\n\r\n", "GET / HTTP/1.1\r\nHost\t: a\r\n\r\n",
		"GET / HTTP/1.1\r\n Host: a\r\n\r\n", "GET / HTTP/1.1\r\n" HOST "X: a\r\n b\r\n\r\n",
		"GET / HTTP/1.1\r\n" HOST "X: a\r\n\tb\r\n\r\n", "GET / HTTP/1.1\r\n" HOST "X(y): a\r\n\r\n",
		"GET / HTTP/1.1\r\n" HOST "X\xc3\xa9: a\r\n\r\n", "GET / HTTP/1.1\r\n" HOST ": a\r\n\r\n",
		"GET / HTTP/1.1\r\n" HOST "no colon\r\n\r\n", "GET / HTTP/1.1\r\n" HOST "nocolon\r\n\r\n",
		/* control bytes */
		"GET / HTTP/1.1\r\n" HOST "X: a\001b\r\n\r\n", "GET / HTTP/1.1\r\n" HOST "X: a\177b\r\n\r\n",
		"GET / HTTP/1.1\r\n" HOST "X: a\013b\r\n\r\n",
		/* lengths and codings */
		"POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 5\r\n\r\n",
		"POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
		"POST / HTTP/1.1\r\n" HOST "Content-Length: 5, 5\r\n\r\n",
		"POST / HTTP/1.1\r\n" HOST "Content-Length: +5\r\n\r\n",
		"POST / HTTP/1.1\r\n" HOST "Content-Length: -5\r\n\r\n",
		"POST / HTTP/1.1\r\n" HOST "Content-Length: 0x5\r\n\r\n",
		"POST / HTTP/1.1\r\n" HOST "Content-Length: 5 5\r\n\r\n", "POST / HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\n",
		"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
		"POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
		"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
		"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
		"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n",
		"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: identity\r\n\r\n",
		"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n",
		"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked;q=1\r\n\r\n",
		"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding:\r\n\r\n",
		"POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n",
		/* hosts */
		"GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n", "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "GET / HTTP/1.1\r\nHost: user@a\r\n\r\n",
		/* request lines */
		"GET  / HTTP/1.1\r\n" HOST "\r\n", "GET / \r\n" HOST "\r\n", "GET /\r\n" HOST "\r\n", "GET\r\n" HOST "\r\n",
		"GET / HTTP/1.1 \r\n" HOST "\r\n", "GET /a b HTTP/1.1\r\n" HOST "\r\n", "GET /\tHTTP/1.1\r\n" HOST "\r\n",
		"GET / http/1.1\r\n" HOST "\r\n", "GET / HTTP/1.11\r\n" HOST "\r\n", "GET / HTTP/1\r\n" HOST "\r\n",
		"GET / HTTP/11.1\r\n" HOST "\r\n", "G@T / HTTP/1.1\r\n" HOST "\r\n", " GET / HTTP/1.1\r\n" HOST "\r\n",
		"ABCDEFGHIJKLMNOPQRSTUVWXYZ / HTTP/1.1\r\n" HOST "\r\n", "GET a HTTP/1.1\r\n" HOST "\r\n",
		"GET * HTTP/1.1\r\n" HOST "\r\n", "OPTIONS * HTTP/1.1\r\n" HOST "\r\n",
		"GET http://a/ HTTP/1.1\r\n" HOST "\r\n", "CONNECT a:80 HTTP/1.1\r\n" HOST "\r\n",
		"GET /a#b HTTP/1.1\r\n" HOST "\r\n", "GET /\xd1\x87 HTTP/1.1\r\n" HOST "\r\n",
		"\x16\x03\x01\x02", /* a TLS hello, refused at its first byte */
	};
	for (size_t i = 0; i < COUNT(blocks); i++) {
		enum lu_error error = error_of(text_of(blocks[i]));
		if (error != LU_MALFORMED_REQUEST)
			fail_msg("%s: %s", lu_error_code(error), blocks[i]);
	}
	assert_int_equal(error_of(TEXT("GET / HTTP/1.1\r\n" HOST "X: a\0b\r\n\r\n")), LU_MALFORMED_REQUEST);
	assert_int_equal(error_of(TEXT("GET /\0 HTTP/1.1\r\n" HOST "\r\n")), LU_MALFORMED_REQUEST);
	assert_int_equal(error_of(TEXT("\0GET / HTTP/1.1\r\n" HOST "\r\n")), LU_MALFORMED_REQUEST);
}

static void other_versions_are_named_as_such(void **state)
{
	static const char *const versions[] = {"HTTP/2.0", "HTTP/0.9", "HTTP/3.0", "HTTP/1.2"};
	for (size_t i = 0; i < COUNT(versions); i++) {
		char block[80];
		snprintf(block, sizeof block, "GET / %s\r\nHost: a\r\n\r\n", versions[i]);
		assert_int_equal(error_of(text_of(block)), LU_VERSION_NOT_SUPPORTED);
	}
}

/* "GET /aaa… HTTP/1.1", `fields` bytes of one field, all in one block. */
static char *sized_block(size_t target_bytes, size_t field_bytes)
{
	char *block = NULL;
	assert_true(asprintf(&block, "GET /%0*d HTTP/1.1\r\n" HOST "X: %0*d\r\n\r\n", (int)target_bytes - 1, 0,
	                     (int)field_bytes, 0) > 0);
	return block;
}

static enum lu_error error_of_sizes(size_t target_bytes, size_t field_bytes)
{
	char *block = sized_block(target_bytes, field_bytes);
	enum lu_error error = error_of(text_of(block));
	free(block);
	return error;
}

/* A control byte behind the place where a target is too long: said at once or in pieces, it is the target. */
static void how_much_has_come_at_once_decides_nothing(void **state)
{
	char line[SCAN_TARGET_BYTES_MAX + 200];
	memset(line, 'a', sizeof line);
	memcpy(line, "GET /", 5);
	line[sizeof line - 1] = '\1';
	size_t seen = 0, end;
	const char *why;
	assert_int_equal(scan_find_end((struct text){line, sizeof line}, &seen, &end, &why), LU_URI_TOO_LONG);
	seen = 0;
	assert_int_equal(scan_find_end((struct text){line, 5}, &seen, &end, &why), LU_OK);
	assert_int_equal(scan_find_end((struct text){line, sizeof line - 1}, &seen, &end, &why), LU_URI_TOO_LONG);
}

static void limits_are_exact(void **state)
{
	assert_int_equal(error_of_sizes(SCAN_TARGET_BYTES_MAX, 10), LU_OK);
	assert_int_equal(error_of_sizes(SCAN_TARGET_BYTES_MAX + 1, 10), LU_URI_TOO_LONG);
	assert_int_equal(error_of_sizes(SCAN_TARGET_BYTES_MAX + 500, 10), LU_URI_TOO_LONG);
	assert_int_equal(error_of_sizes(SCAN_HEAD_BYTES_MAX * 2, 10), LU_URI_TOO_LONG);
	char *block = sized_block(1, 1);
	size_t rest = strlen(block) - 1;
	free(block);
	assert_int_equal(error_of_sizes(1, SCAN_HEAD_BYTES_MAX - rest), LU_OK);
	assert_int_equal(error_of_sizes(1, SCAN_HEAD_BYTES_MAX - rest + 1), LU_HEADERS_TOO_LARGE);
	assert_int_equal(error_of_sizes(1, SCAN_HEAD_BYTES_MAX * 2), LU_HEADERS_TOO_LARGE);
	char many[SCAN_FIELDS_MAX * 8 + 100] = "GET / HTTP/1.1\r\n" HOST;
	for (int i = 0; i < SCAN_FIELDS_MAX - 1; i++)
		strcat(many, "X: y\r\n");
	size_t size = strlen(many);
	strcat(many, "\r\n");
	assert_int_equal(error_of(text_of(many)), LU_OK);
	strcpy(many + size, "X: y\r\n\r\n");
	assert_int_equal(error_of(text_of(many)), LU_HEADERS_TOO_LARGE);
}

static void a_block_that_arrives_in_pieces_is_judged_like_one_that_does_not(void **state)
{
	static const char block[] = "GET /a HTTP/1.1\r\n" HOST "X: y\r\n\r\nGET /b HTTP/1.1\r\n" HOST "\r\n";
	size_t expected = strlen("GET /a HTTP/1.1\r\n" HOST "X: y\r\n\r\n");
	for (size_t piece = 1; piece < 12; piece++) {
		size_t seen = 0, end = 0, size = 0;
		const char *why;
		while (!end) {
			size = size + piece < sizeof block - 1 ? size + piece : sizeof block - 1;
			assert_true(seen <= size);
			char *copy = malloc(size);
			memcpy(copy, block, size);
			assert_int_equal(scan_find_end((struct text){copy, size}, &seen, &end, &why), LU_OK);
			free(copy);
			if (!end)
				assert_true(size < expected);
		}
		assert_int_equal(end, expected);
	}
}

static void a_bare_line_feed_is_refused_before_the_block_is_complete(void **state)
{
	/* A client of bare LFs would otherwise wait for its timeout, since its block never ends. */
	assert_int_equal(error_of(TEXT("GET / HTTP/1.1\n")), LU_MALFORMED_REQUEST);
	assert_int_equal(error_of(TEXT("GET / HTTP/1.1\r")), LU_INTERNAL);
	assert_int_equal(error_of(TEXT("GET / HTTP/1.1\r\n")), LU_INTERNAL);
}

static void expectations_are_told_apart(void **state)
{
	static const struct {
		const char *block;
		enum scan_expect expect;
	} cases[] = {
		{"POST / HTTP/1.1\r\n" HOST "Expect: 100-continue\r\n\r\n", SCAN_EXPECT_CONTINUE},
		{"POST / HTTP/1.1\r\n" HOST "Expect: 200-ok\r\n\r\n", SCAN_EXPECT_OTHER},
		{"POST / HTTP/1.1\r\n" HOST "Expect: 100-continue, x\r\n\r\n", SCAN_EXPECT_OTHER},
		{"POST / HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nExpect: x\r\n\r\n", SCAN_EXPECT_OTHER},
		{"POST / HTTP/1.1\r\n" HOST "Expect: x\r\nExpect: 100-continue\r\n\r\n", SCAN_EXPECT_OTHER},
		{"POST / HTTP/1.0\r\n" HOST "Expect: x\r\n\r\n", SCAN_EXPECT_NONE},
		{"POST / HTTP/1.1\r\n" HOST "\r\n", SCAN_EXPECT_NONE},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct scan scan;
		const char *why;
		assert_int_equal(scan_headers(text_of(cases[i].block), &scan, &why), LU_OK);
		assert_int_equal(scan.expect, cases[i].expect);
	}
}

static void keep_alive_follows_version_and_connection_field(void **state)
{
	static const struct {
		const char *block;
		bool keep_alive;
	} cases[] = {
		{"GET / HTTP/1.1\r\n" HOST "\r\n", true},
		{"GET / HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", false},
		{"GET / HTTP/1.1\r\n" HOST "Connection: x, Close\r\n\r\n", false},
		{"GET / HTTP/1.0\r\n\r\n", false},
		{"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct arena arena;
		struct scan scan;
		struct http_head head;
		arena_init(&arena, 8192);
		assert_int_equal(read_block(text_of(cases[i].block), &scan, &head, &arena), LU_OK);
		assert_int_equal(head.keep_alive, cases[i].keep_alive);
		arena_done(&arena);
	}
}

static void an_unknown_method_is_a_method_still(void **state)
{
	struct arena arena;
	struct scan scan;
	struct http_head head;
	arena_init(&arena, 8192);
	assert_int_equal(read_block(TEXT("BREW /pot HTTP/1.1\r\n" HOST "\r\n"), &scan, &head, &arena), LU_OK);
	assert_int_equal(head.method, 0);
	assert_text(head.target, "/pot");
	arena_done(&arena);
}

/* --- chunks ----------------------------------------------------------------------------------------------------- */

/* Decodes `bytes` given in pieces; the body in *ret_body (caller frees). *ret_left: bytes behind the body. */
static enum lu_error decode(struct text bytes, size_t piece, uint64_t size_max, char **ret_body, size_t *ret_left,
                            bool *ret_done)
{
	struct chunk chunk;
	struct buffer body = {0};
	enum lu_error error = LU_OK;
	chunk_init(&chunk);
	size_t at = 0;
	while (!error && at < bytes.size && !chunk.done) {
		size_t size = bytes.size - at < piece ? bytes.size - at : piece;
		char *copy = malloc(size);
		memcpy(copy, bytes.data + at, size);
		struct text run = {copy, size};
		while (!error && run.size && !chunk.done) {
			struct text data;
			const char *why = NULL;
			error = chunk_take(&chunk, &run, size_max, &data, &why);
			if (error)
				assert_non_null(why);
			else
				buffer_add_text(&body, data);
		}
		at += size - run.size;
		free(copy);
	}
	if (!error)
		assert_int_equal(chunk.size >= body.size, true);
	buffer_add_char(&body, '\0');
	*ret_body = body.data;
	*ret_left = bytes.size - at;
	*ret_done = chunk.done;
	return error;
}

static void chunks_become_the_body_however_they_are_cut(void **state)
{
	static const char bytes[] = "5\r\nhello\r\n001;name=\"v\"\r\n \r\nA\r\n0123456789\r\n0;x\r\nTrailer: t\r\n\r\nNEXT";
	for (size_t piece = 1; piece <= sizeof bytes; piece++) {
		char *body;
		size_t left;
		bool done;
		assert_int_equal(decode(text_of(bytes), piece, 16, &body, &left, &done), LU_OK);
		assert_true(done);
		assert_string_equal(body, "hello 0123456789");
		assert_int_equal(left, strlen("NEXT"));
		free(body);
	}
}

static void loose_chunk_framing_is_refused(void **state)
{
	static const char *const bodies[] = {
		"5\nhello\r\n0\r\n\r\n",
		"5\r\nhelloXX0\r\n\r\n",
		"5\r\nhelloX\n0\r\n\r\n",
		"5\r\nhello\n0\r\n\r\n",
		"5\r\nhello\r\n0\r\n\n",
		"5\r\nhello\r\n0\n\r\n",
		"5\rXhello\r\n0\r\n\r\n",
		"5 \r\nhello\r\n0\r\n\r\n",
		" 5\r\nhello\r\n0\r\n\r\n",
		"5;a\nb\r\nhello\r\n0\r\n\r\n",
		"5;a\001\r\nhello\r\n0\r\n\r\n",
		"0x5\r\nhello\r\n0\r\n\r\n",
		"+5\r\nhello\r\n0\r\n\r\n",
		"-5\r\nhello\r\n0\r\n\r\n",
		"\r\nhello\r\n0\r\n\r\n",
		";x\r\nhello\r\n0\r\n\r\n",
		"000000005\r\nhello\r\n0\r\n\r\n",
		"10000000000000005\r\nhello\r\n0\r\n\r\n",
		"g\r\n",
		"5\r\nhello\r0\r\n\r\n",
		"0\r\nA: b\nC: d\r\n\r\n",
		"0\r\nA: b\rC\r\n\r\n",
		"0\r\n folded\r\n\r\n",
		"0\r\n: x\r\n\r\n",
		"0\r\n\rX",
	};
	for (size_t i = 0; i < COUNT(bodies); i++)
		for (size_t piece = 1; piece < 30; piece += 28) {
			char *body;
			size_t left;
			bool done;
			if (decode(text_of(bodies[i]), piece, 1000, &body, &left, &done) != LU_MALFORMED_REQUEST)
				fail_msg("taken: %s", bodies[i]);
			free(body);
		}
}

static void a_chunked_body_is_counted_before_it_is_read(void **state)
{
	static const struct {
		const char *bytes;
		enum lu_error error;
	} cases[] = {
		{"5\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n", LU_OK},
		{"5\r\nhello\r\n6\r\n", LU_PAYLOAD_TOO_LARGE},
		{"b\r\n", LU_PAYLOAD_TOO_LARGE},
		{"ffffffff\r\n", LU_PAYLOAD_TOO_LARGE},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		char *body;
		size_t left;
		bool done;
		assert_int_equal(decode(text_of(cases[i].bytes), 100, 10, &body, &left, &done), cases[i].error);
		free(body);
	}
}

static void extensions_and_trailers_are_bounded_together(void **state)
{
	char bytes[CHUNK_EXTRA_BYTES_MAX + 100], *body;
	size_t left;
	bool done;
	snprintf(bytes, sizeof bytes, "1;%0*d\r\nx\r\n0\r\n\r\n", CHUNK_EXTRA_BYTES_MAX, 0);
	assert_int_equal(decode(text_of(bytes), 1000, 10, &body, &left, &done), LU_OK);
	free(body);
	snprintf(bytes, sizeof bytes, "1;%0*d\r\nx\r\n0\r\nT\r\n\r\n", CHUNK_EXTRA_BYTES_MAX, 0);
	assert_int_equal(decode(text_of(bytes), 1000, 10, &body, &left, &done), LU_MALFORMED_REQUEST);
	free(body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_plain_request_is_understood),
		cmocka_unit_test(what_is_allowed_is_let_through),
		cmocka_unit_test(ambiguous_blocks_are_refused),
		cmocka_unit_test(other_versions_are_named_as_such),
		cmocka_unit_test(limits_are_exact),
		cmocka_unit_test(how_much_has_come_at_once_decides_nothing),
		cmocka_unit_test(a_block_that_arrives_in_pieces_is_judged_like_one_that_does_not),
		cmocka_unit_test(a_bare_line_feed_is_refused_before_the_block_is_complete),
		cmocka_unit_test(expectations_are_told_apart),
		cmocka_unit_test(keep_alive_follows_version_and_connection_field),
		cmocka_unit_test(an_unknown_method_is_a_method_still),
		cmocka_unit_test(chunks_become_the_body_however_they_are_cut),
		cmocka_unit_test(loose_chunk_framing_is_refused),
		cmocka_unit_test(a_chunked_body_is_counted_before_it_is_read),
		cmocka_unit_test(extensions_and_trailers_are_bounded_together),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
