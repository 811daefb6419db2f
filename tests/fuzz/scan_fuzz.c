/* Fuzz target: everything a stranger's bytes pass before a handler sees them.
 *
 * Checks more than the absence of crashes. For one input: however it is cut, the end of its header block and the
 * verdict are the same; scan and parser never understand one block in two ways; a chunked body decodes to the same
 * bytes however it is cut; percent decoding gives UTF-8 without NUL, and never more than came in.
 * Input: the bytes of one request. Run: clang -fsanitize=fuzzer,address,undefined.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "http/chunk.h"
#include "http/parser.h"
#include "http/percent.h"
#include "http/router.h"
#include "http/scan.h"

#define BODY_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void handle(struct request *request) {}

static const struct route routes[] = {
	{HTTP_METHOD_GET, "/", 0, handle},
	{HTTP_METHOD_GET, "/v1/skus", 0, handle},
	{HTTP_METHOD_GET | HTTP_METHOD_PUT, "/v1/skus/{sku}", 0, handle},
	{HTTP_METHOD_GET, "/v1/skus/{sku}/ledger", 0, handle},
	{HTTP_METHOD_POST, "/{a}/{b}/{c}/{d}", 0, handle},
};

/* scan_find_end() on a copy of its own size, given `piece` more bytes each time. */
static enum lu_error find_end(struct text bytes, size_t piece, size_t *ret_end)
{
	size_t seen = 0, size = 0;
	enum lu_error error = LU_OK;
	const char *why = NULL;
	*ret_end = 0;
	while (!error && !*ret_end && size < bytes.size) {
		size = bytes.size - size < piece ? bytes.size : size + piece;
		char *copy = malloc(size);
		CHECK(copy);
		memcpy(copy, bytes.data, size);
		error = scan_find_end((struct text){copy, size}, &seen, ret_end, &why);
		CHECK(!error || why);
		free(copy);
	}
	return error;
}

static void check_decoded(struct text raw, struct text decoded)
{
	CHECK(decoded.size <= raw.size);
	CHECK(text_is_utf8(decoded));
	CHECK(!decoded.size || !memchr(decoded.data, '\0', decoded.size));
}

static void check_target(struct arena *arena, const struct http_head *head)
{
	const struct router router = {routes, sizeof routes / sizeof routes[0]};
	const char *mark = memchr(head->target.data, '?', head->target.size);
	struct text path = {head->target.data, mark ? (size_t)(mark - head->target.data) : head->target.size};
	struct text params[ROUTE_PARAMS_MAX], decoded;
	const struct route *route;
	size_t count;
	unsigned allow;
	const char *why;
	if (router_match(&router, head->method, path, &route, params, &count, &allow) == ROUTE_FOUND)
		for (size_t i = 0; i < count; i++) {
			CHECK(params[i].size && !memchr(params[i].data, '/', params[i].size));
			if (percent_decode(arena, params[i], false, &decoded, &why) == LU_OK)
				check_decoded(params[i], decoded);
		}
	if (!mark)
		return;
	struct text query = {mark + 1, head->target.size - path.size - 1};
	struct query_pair *pairs;
	if (percent_query(arena, query, &pairs, &count, &why) == LU_OK)
		for (size_t i = 0; i < count; i++) {
			check_decoded(query, pairs[i].name);
			check_decoded(query, pairs[i].value);
		}
}

/* Decodes a body in pieces; the bytes in out, how many were consumed in *ret_used. */
static enum lu_error decode(struct text bytes, size_t piece, char out[BODY_MAX], size_t *ret_size, size_t *ret_used,
                            bool *ret_done)
{
	struct chunk chunk;
	enum lu_error error = LU_OK;
	chunk_init(&chunk);
	*ret_size = *ret_used = 0;
	while (!error && !chunk.done && *ret_used < bytes.size) {
		size_t left = bytes.size - *ret_used;
		struct text run = {bytes.data + *ret_used, left < piece ? left : piece}, data;
		size_t before = run.size;
		const char *why = NULL;
		error = chunk_take(&chunk, &run, BODY_MAX, &data, &why);
		CHECK(!error || why);
		if (!error && data.size) {
			CHECK(*ret_size + data.size <= BODY_MAX);
			memcpy(out + *ret_size, data.data, data.size);
			*ret_size += data.size;
		}
		*ret_used += before - run.size;
		CHECK(error || before != run.size); /* it always takes something */
	}
	*ret_done = chunk.done;
	return error;
}

static void check_chunks(struct text bytes)
{
	static char whole[BODY_MAX], pieces[BODY_MAX];
	size_t whole_size, pieces_size, whole_used, pieces_used;
	bool whole_done, pieces_done;
	enum lu_error error = decode(bytes, bytes.size, whole, &whole_size, &whole_used, &whole_done);
	CHECK(decode(bytes, 1, pieces, &pieces_size, &pieces_used, &pieces_done) == error);
	CHECK(error || (whole_size == pieces_size && whole_used == pieces_used && whole_done == pieces_done));
	CHECK(memcmp(whole, pieces, error ? 0 : whole_size) == 0);
}

static void check_head(struct text bytes, size_t end)
{
	struct arena arena;
	struct scan scan;
	struct http_head head;
	const char *why = NULL;
	arena_init(&arena, 4096);
	/* a block of exactly its size, so that a look behind it is seen */
	char *block = malloc(end);
	CHECK(block);
	memcpy(block, bytes.data, end);
	enum lu_error error = scan_headers((struct text){block, end}, &scan, &why);
	CHECK(!error || why);
	if (!error) {
		CHECK(scan.target.size && scan.target.data[0] == '/' && scan.target.size <= SCAN_TARGET_BYTES_MAX);
		CHECK(!(scan.chunked && scan.content_length >= 0));
		error = parser_read((struct text){block, end}, &scan, &arena, &head, &why);
		/* refused as a whole, perhaps, but not understood otherwise */
		CHECK(!error || !strstr(why, "more than one way"));
	}
	if (!error) {
		CHECK(text_equal(head.target, scan.target));
		for (size_t i = 0; i < head.field_count; i++) {
			struct text name = head.fields[i].name, value = head.fields[i].value;
			CHECK(name.size && !memchr(name.data, ' ', name.size) && !memchr(name.data, ':', name.size));
			CHECK(!value.size || (!memchr(value.data, '\r', value.size) && !memchr(value.data, '\n', value.size) &&
			                      !memchr(value.data, '\0', value.size)));
		}
		check_target(&arena, &head);
		if (scan.chunked)
			check_chunks((struct text){bytes.data + end, bytes.size - end});
	}
	free(block);
	arena_done(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text bytes = {(const char *)data, size};
	size_t end, end_of_pieces;
	if (!size)
		return 0;
	enum lu_error error = find_end(bytes, size, &end);
	CHECK(find_end(bytes, 1 + data[0] % 7, &end_of_pieces) == error);
	CHECK(error || end == end_of_pieces);
	if (!error && end)
		check_head(bytes, end);
	/* the parts that a request rarely reaches, on the bare bytes */
	check_chunks(bytes);
	struct arena arena;
	struct text decoded;
	const char *why;
	arena_init(&arena, 4096);
	if (percent_decode(&arena, bytes, data[0] & 1, &decoded, &why) == LU_OK && decoded.data != bytes.data)
		check_decoded(bytes, decoded);
	arena_done(&arena);
	return 0;
}
