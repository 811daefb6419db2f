/* Fuzz target: a whole connection, from its first byte to its end.
 *
 * However the bytes are cut, the answers are the same, byte for byte. They are HTTP; every request that is complete, or
 * cannot be one, is answered once, as many as one finds who takes the bytes apart with scan, parser and chunks alone,
 * without a connection; after `Connection: close` nothing is. What a handler is given (path, parameters, query, fields,
 * body) is in its answer, so that too is the same. Handlers answer at once or later, so that requests sent ahead wait.
 * Input: the bytes that a client sends.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/metrics.h"
#include "base/text.h"
#include "fuzz/fuzz.h"
#include "fuzz/peer.h"
#include "http/chunk.h"
#include "http/parser.h"
#include "http/problem.h"
#include "http/request.h"
#include "http/scan.h"

#define BYTES_MAX (40 * 1024)
#define PIECES_MAX 256 /* an input up to this long is sent byte by byte */
#define CUTS 6         /* and cut in two at so many places, drawn from its bytes */
#define REQUEST_BODY_BYTES_MAX (1024 * 1024)

static size_t handled; /* requests that a handler was given */

/* --- the application ---------------------------------------------------------------------------------------------- */

static void add_text(struct buffer *out, const char *name, struct text text)
{
	buffer_add_format(out, "%s(%zu)=", name, text.size);
	buffer_add_text(out, text);
	buffer_add_char(out, '\n');
}

static void echo(struct request *request, size_t params)
{
	struct buffer out = {0};
	struct text value;
	buffer_add_format(&out, "%d\n", (int)request_method(request));
	add_text(&out, "path", request_path(request));
	for (size_t i = 0; i < params; i++)
		add_text(&out, "param", request_param(request, i));
	for (size_t n = 0; request_query(request, "sku", n, &value); n++)
		add_text(&out, "sku", value);
	if (request_header(request, "X-Test", &value))
		add_text(&out, "field", value);
	buffer_add_format(&out, "%zu\n", request_header_count(request, "Accept"));
	add_text(&out, "body", request_body(request));
	request_reply(request, 200, "application/octet-stream", buffer_text(&out));
	buffer_done(&out);
}

static void handle_echo(struct request *request)
{
	handled++;
	echo(request, 0);
}

static void handle_params(struct request *request)
{
	handled++;
	echo(request, 2);
}

static void handle_json(struct request *request)
{
	handled++;
	json_t *value;
	const char *why = "";
	enum lu_error error = request_json(request, REQUEST_VALUES_MAX, &value, &why);
	if (error)
		problem_reply(request, error, text_of(why));
	else
		request_reply(request, 201, NULL, (struct text){0});
}

struct later {
	struct mailbox_item item;
	struct request *request;
};

static void on_later(struct mailbox_item *item)
{
	echo(((struct later *)item)->request, 0);
}

static void handle_later(struct request *request)
{
	struct later *later = ARENA_NEW(request_arena(request), struct later);
	handled++;
	later->request = request;
	later->item.deliver = on_later;
	mailbox_post(server_loop_mailbox(request_loop(request)), &later->item);
}

static const struct route routes[] = {
	{HTTP_METHOD_GET | HTTP_METHOD_POST | HTTP_METHOD_PUT, "/", 0, handle_echo},
	{HTTP_METHOD_GET | HTTP_METHOD_POST, "/later", 0, handle_later},
	{HTTP_METHOD_POST, "/json", 0, handle_json},
	{HTTP_METHOD_GET | HTTP_METHOD_DELETE, "/v1/{}/{}", 0, handle_params},
};

/* --- how many answers there must be ------------------------------------------------------------------------------- */

/* What became of the bytes at the front. */
enum taken {
	TAKEN_NOTHING,  /* not all of it is there */
	TAKEN_REQUEST,  /* one more answer, and on */
	TAKEN_THE_LAST, /* one more answer, and no more */
};

static enum taken take_body(const struct scan *scan, struct text *rest)
{
	struct chunk chunk;
	struct text data;
	const char *why;
	if (!scan->chunked) {
		size_t size = scan->content_length > 0 ? (size_t)scan->content_length : 0;
		if (rest->size < size)
			return TAKEN_NOTHING;
		*rest = (struct text){rest->data + size, rest->size - size};
		return TAKEN_REQUEST;
	}
	chunk_init(&chunk);
	while (rest->size && !chunk.done)
		if (chunk_take(&chunk, rest, REQUEST_BODY_BYTES_MAX, &data, &why))
			return TAKEN_THE_LAST;
	return chunk.done ? TAKEN_REQUEST : TAKEN_NOTHING;
}

static enum taken take_request(struct arena *arena, struct text *rest)
{
	size_t seen = 0, size = 0;
	const char *why;
	struct scan scan;
	struct http_head head;
	struct text bytes = *rest;
	if (bytes.size > SCAN_HEAD_BYTES_MAX)
		bytes.size = SCAN_HEAD_BYTES_MAX;
	if (scan_find_end(bytes, &seen, &size, &why))
		return TAKEN_THE_LAST;
	if (!size)
		return TAKEN_NOTHING;
	struct text block = {bytes.data, size};
	*rest = (struct text){rest->data + size, rest->size - size};
	if (scan_headers(block, &scan, &why) || scan.content_length > REQUEST_BODY_BYTES_MAX ||
	    parser_read(block, &scan, arena, &head, &why) || scan.expect == SCAN_EXPECT_OTHER || !head.method)
		return TAKEN_THE_LAST;
	enum taken taken = take_body(&scan, rest);
	return taken == TAKEN_REQUEST && !head.keep_alive ? TAKEN_THE_LAST : taken;
}

static size_t expected_answers(struct text rest)
{
	struct arena arena;
	enum taken taken;
	size_t count = 0;
	arena_init(&arena, 4096);
	do {
		/* One CR LF in front of a request is forgiven. */
		if (rest.size >= 2 && memcmp(rest.data, "\r\n", 2) == 0)
			rest = (struct text){rest.data + 2, rest.size - 2};
		else if (rest.size == 1 && rest.data[0] == '\r')
			break;
		taken = rest.size ? take_request(&arena, &rest) : TAKEN_NOTHING;
		count += taken != TAKEN_NOTHING;
	} while (taken == TAKEN_REQUEST);
	arena_done(&arena);
	return count;
}

/* -------------------------------------------------------------------------------------------------------------------- */

/* Are there HEAD requests among them? Whoever sends one knows not to wait for the body; http_parser has to be told, and
 * for all answers of one input. */
static bool holds_head(struct text bytes)
{
	return memmem(bytes.data, bytes.size, "HEAD", 4) != NULL;
}

static void exchange(struct text bytes, size_t first, size_t piece, struct peer_answers *answers)
{
	handled = 0;
	peer_exchange(bytes, first, piece, false, answers);
	CHECK(answers->count >= handled); /* the others were refused by the server itself */
}

/* The same bytes, otherwise cut, have the same answers. */
static void check_cut(struct text bytes, size_t first, size_t piece, const struct peer_answers *whole)
{
	struct peer_answers cut;
	size_t handled_whole = handled;
	exchange(bytes, first, piece, &cut);
	CHECK(handled == handled_whole && cut.count == whole->count);
	CHECK(text_equal(buffer_text(&cut.raw), buffer_text(&whole->raw)));
	peer_answers_done(&cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct router router = {routes, sizeof routes / sizeof routes[0]};
	struct text bytes = {(const char *)data, size};
	struct peer_answers whole;
	size_t piece = 1 + size / PIECES_MAX;
	uint64_t draw = size;
	if (!size || size > BYTES_MAX || holds_head(bytes))
		return 0;
	peer_start(&router, (struct server_hooks){0});
	exchange(bytes, size, size, &whole);
	CHECK(whole.count == expected_answers(bytes));
	check_cut(bytes, piece, piece, &whole);
	for (size_t i = 0; i < size; i++)
		draw = (draw ^ data[i]) * 0x100000001b3;
	for (int i = 0; i < CUTS; i++, draw = draw * UINT64_C(6364136223846793005) + 1)
		check_cut(bytes, 1 + (size_t)(draw >> 16) % size, size, &whole);
	peer_answers_done(&whole);
	peer_stop();
	return 0;
}
