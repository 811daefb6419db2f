/* Fuzz target: a chunked body.
 *
 * However its bytes are cut, the body, the place where it ends and the refusal are the same; and they are those of a
 * reader of the whole that goes by the grammar (RFC 9112, 7.1) and not byte by byte. Any bytes that are put into chunks
 * come out as they were. Input: the chunked bytes; also, as they are, the bytes to be put into chunks.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/check.h"
#include "fuzz/fuzz.h"
#include "http/chunk.h"

#define BODY_MAX 4096
#define CUTS_MAX 300 /* inputs up to this long are cut at every place */

struct outcome {
	enum lu_error error;
	bool done;
	size_t used; /* of the bytes; nothing is promised about it after an error */
	size_t size;
	char body[BODY_MAX];
};

/* --- by the decoder ----------------------------------------------------------------------------------------------- */

static void feed(struct chunk *chunk, struct text piece, struct outcome *outcome)
{
	struct text run = piece;
	while (!outcome->error && !chunk->done && run.size) {
		struct text data;
		size_t before = run.size;
		const char *why = NULL;
		outcome->error = chunk_take(chunk, &run, BODY_MAX, &data, &why);
		CHECK(outcome->error || before != run.size); /* it always takes something */
		CHECK(!outcome->error || why);
		if (outcome->error)
			break;
		CHECK(outcome->size + data.size <= BODY_MAX);
		if (data.size)
			memcpy(outcome->body + outcome->size, data.data, data.size);
		outcome->size += data.size;
	}
	outcome->used += piece.size - run.size;
	outcome->done = chunk->done;
}

/* First `first` bytes, then pieces of `piece`. */
static void decode(struct text bytes, size_t first, size_t piece, struct outcome *outcome)
{
	struct chunk chunk;
	chunk_init(&chunk);
	*outcome = (struct outcome){0};
	for (size_t at = 0, size = first; at < bytes.size && !outcome->error && !chunk.done; at += size, size = piece) {
		if (size > bytes.size - at)
			size = bytes.size - at;
		feed(&chunk, (struct text){bytes.data + at, size}, outcome);
	}
}

/* --- by the grammar ----------------------------------------------------------------------------------------------- */

/* What stands before the next CR LF. *ret_line.size counts without it. */
enum line { LINE_WHOLE, LINE_OPEN, LINE_BROKEN };

static enum line line_of(struct text rest, struct text *ret_line)
{
	const char *cr = rest.size ? memchr(rest.data, '\r', rest.size) : NULL;
	*ret_line = (struct text){rest.data, cr ? (size_t)(cr - rest.data) : rest.size};
	for (size_t i = 0; i < ret_line->size; i++) {
		unsigned char c = (unsigned char)ret_line->data[i];
		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return LINE_BROKEN;
	}
	if (!cr || ret_line->size + 1 == rest.size)
		return LINE_OPEN;
	return cr[1] == '\n' ? LINE_WHOLE : LINE_BROKEN;
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* The size at the front of a line that may not be all there; extension bytes are counted. False: wrong. */
static bool size_of(struct text line, bool whole, uint32_t *ret_size, size_t *io_extra)
{
	size_t digits = 0;
	while (digits < line.size && is_hex(line.data[digits]))
		digits++;
	if (digits > 8 || (digits == 0 && (line.size || whole)))
		return false;
	if (digits < line.size && line.data[digits] != ';')
		return false;
	char number[9] = "";
	memcpy(number, line.data, digits);
	*ret_size = (uint32_t)strtoul(number, NULL, 16);
	*io_extra += digits < line.size ? line.size - digits - 1 : 0;
	return *io_extra <= CHUNK_EXTRA_BYTES_MAX;
}

static bool trailer_is_wrong(struct text line, size_t *io_extra)
{
	*io_extra += line.size;
	return *io_extra > CHUNK_EXTRA_BYTES_MAX || (line.size && memchr(" \t:", line.data[0], 3));
}

static enum lu_error read_whole(struct text bytes, struct outcome *outcome)
{
	size_t at = 0, extra = 0;
	uint64_t announced = 0;
	struct text line;
	for (;;) {
		struct text rest = {bytes.data + at, bytes.size - at};
		uint32_t size;
		enum line state = line_of(rest, &line);
		if (!size_of(line, state != LINE_OPEN || line.size < rest.size, &size, &extra) || state == LINE_BROKEN)
			return LU_MALFORMED_REQUEST;
		if (state == LINE_OPEN)
			return LU_OK;
		at += line.size + 2;
		if (!size)
			break;
		if ((announced += size) > BODY_MAX)
			return LU_PAYLOAD_TOO_LARGE;
		size_t there = size < bytes.size - at ? size : bytes.size - at;
		memcpy(outcome->body + outcome->size, bytes.data + at, there);
		outcome->size += there;
		at += there;
		for (const char *end = "\r\n"; *end; end++, at++) {
			if (at == bytes.size)
				return LU_OK;
			if (bytes.data[at] != *end)
				return LU_MALFORMED_REQUEST;
		}
	}
	do {
		struct text rest = {bytes.data + at, bytes.size - at};
		enum line state = line_of(rest, &line);
		if (trailer_is_wrong(line, &extra) || state == LINE_BROKEN)
			return LU_MALFORMED_REQUEST;
		if (state == LINE_OPEN)
			return LU_OK;
		at += line.size + 2;
	} while (line.size);
	outcome->done = true;
	outcome->used = at;
	return LU_OK;
}

/* -------------------------------------------------------------------------------------------------------------------- */

static void check_same(const struct outcome *a, const struct outcome *b)
{
	CHECK(a->error == b->error);
	if (a->error)
		return;
	CHECK(a->done == b->done && a->size == b->size && memcmp(a->body, b->body, a->size) == 0);
	CHECK(!a->done || a->used == b->used);
}

static void check_cuts(struct text bytes)
{
	static struct outcome whole, other;
	decode(bytes, bytes.size, bytes.size, &whole);
	other = (struct outcome){0};
	other.error = read_whole(bytes, &other);
	check_same(&whole, &other);
	decode(bytes, 1, 1, &other);
	check_same(&whole, &other);
	for (size_t cut = 1; cut < bytes.size; cut += 1 + bytes.size / CUTS_MAX) {
		decode(bytes, cut, bytes.size, &other);
		check_same(&whole, &other);
	}
}

/* Chunks whose sizes, cases, zeros and extensions are drawn from the bytes themselves. */
static void check_wrapped(struct text bytes)
{
	static struct outcome outcome;
	struct buffer wrapped = {0};
	size_t at = 0;
	while (at < bytes.size) {
		unsigned char draw = (unsigned char)bytes.data[at];
		size_t size = 1 + draw % 40;
		if (size > bytes.size - at)
			size = bytes.size - at;
		buffer_add_format(&wrapped, draw & 64 ? "%08zx%s\r\n" : "%zX%s\r\n", size,
		                  draw & 128 && at < 1000 ? ";a=1" : "");
		buffer_add(&wrapped, bytes.data + at, size);
		buffer_add_string(&wrapped, "\r\n");
		at += size;
	}
	buffer_add_string(&wrapped, "0\r\nTrailer: yes\r\n\r\n");
	size_t end = wrapped.size;
	buffer_add_string(&wrapped, "GET / HTTP/1.1\r\n"); /* what follows is not its business */
	decode(buffer_text(&wrapped), 7, 11, &outcome);
	CHECK(!outcome.error && outcome.done && outcome.used == end);
	CHECK(outcome.size == bytes.size && memcmp(outcome.body, bytes.data, bytes.size) == 0);
	buffer_done(&wrapped);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text bytes = {(const char *)data, size};
	check_cuts(bytes);
	if (size && size <= BODY_MAX)
		check_wrapped(bytes);
	return 0;
}
