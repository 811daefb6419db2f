/* Fuzz target: the header block of a request.
 *
 * However it is cut, the end of the block and the refusal are the same. Scan and parser never understand one block in
 * two ways, and both understand it as a reader does who splits it at CR LF and colons. What is refused leaves the
 * caller's struct alone. Input: the bytes of one request.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/text.h"
#include "fuzz/fuzz.h"
#include "http/parser.h"
#include "http/scan.h"

#define PIECES_MAX 300 /* blocks up to this long come byte by byte */
#define CUTS_MAX 30    /* places at which one is cut in two */

/* --- the end of the block ----------------------------------------------------------------------------------------- */

struct found {
	enum lu_error error;
	size_t end;
};

/* scan_find_end() on a copy of its own size, so that a look behind it is seen. */
static bool look(struct text bytes, size_t *seen, struct found *found)
{
	const char *why = NULL;
	char *copy = malloc(bytes.size);
	CHECK(copy);
	memcpy(copy, bytes.data, bytes.size);
	found->error = scan_find_end((struct text){copy, bytes.size}, seen, &found->end, &why);
	CHECK(!found->error || why);
	CHECK(found->error || found->end <= bytes.size);
	free(copy);
	return !found->error && !found->end;
}

/* First `first` bytes, then `piece` more each time. */
static struct found find_end(struct text bytes, size_t first, size_t piece)
{
	struct found found = {0};
	size_t seen = 0;
	for (size_t size = first; look((struct text){bytes.data, size}, &seen, &found) && size < bytes.size;)
		size = bytes.size - size < piece ? bytes.size : size + piece;
	return found;
}

static struct found check_cuts(struct text bytes)
{
	struct found whole = find_end(bytes, bytes.size, bytes.size);
	size_t piece = 1 + bytes.size / PIECES_MAX, step = 1 + bytes.size / CUTS_MAX;
	for (size_t cut = 0; cut < bytes.size; cut += step) {
		/* cut 0: in small pieces all the way */
		struct found cut_up = find_end(bytes, cut ? cut : piece, cut ? bytes.size : piece);
		CHECK(cut_up.error == whole.error && (whole.error || cut_up.end == whole.end));
	}
	return whole;
}

/* --- what it says ------------------------------------------------------------------------------------------------- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* The fields as a plain reader has them, against those of the parser. */
static void check_fields(struct text block, const struct http_head *head)
{
	const char *at = memmem(block.data, block.size, "\r\n", 2), *end = block.data + block.size;
	CHECK(at);
	for (size_t i = 0; i < head->field_count; i++) {
		at += 2;
		const char *line_end = memmem(at, (size_t)(end - at), "\r\n", 2);
		const char *colon = memchr(at, ':', (size_t)(line_end - at));
		CHECK(line_end && colon);
		const char *from = colon + 1, *to = line_end;
		while (from < to && is_blank(*from))
			from++;
		while (to > from && is_blank(to[-1]))
			to--;
		CHECK(text_equal(head->fields[i].name, (struct text){at, (size_t)(colon - at)}));
		CHECK(text_equal(head->fields[i].value, (struct text){from, (size_t)(to - from)}));
		at = line_end;
	}
	CHECK(end - at == 4);
}

static size_t fields_named(const struct http_head *head, const char *name)
{
	size_t count = 0;
	for (size_t i = 0; i < head->field_count; i++)
		count += head->fields[i].name.size == strlen(name) &&
		         strncasecmp(head->fields[i].name.data, name, strlen(name)) == 0;
	return count;
}

static void check_head(const struct scan *scan, const struct http_head *head)
{
	CHECK(text_equal(head->target, scan->target));
	CHECK(head->method == 0 || head->field_count == scan->field_count);
	if (!head->method && !head->field_count)
		return; /* a method that the library does not know: it did not read on */
	CHECK(fields_named(head, "Host") == 1 || (fields_named(head, "Host") == 0 && scan->minor == 0));
	CHECK(fields_named(head, "Content-Length") == (scan->content_length >= 0));
	CHECK(fields_named(head, "Transfer-Encoding") == scan->chunked);
}

/* http_parser 2.9 forgets that a body is chunked over a later field whose name goes on behind "Transfer-Encoding".
 * parser_read() refuses what they differ on; it is the only such place that is known. */
static bool name_goes_on(struct text block)
{
	static const char name[] = "\nTransfer-Encoding";
	for (size_t i = 0; i + sizeof name <= block.size; i++)
		if (strncasecmp(block.data + i, name, sizeof name - 1) == 0 && block.data[i + sizeof name - 1] != ':')
			return true;
	return false;
}

static void check_block(struct text block)
{
	struct arena arena;
	struct scan scan, untouched;
	struct http_head head;
	const char *why = NULL;
	memset(&untouched, 0x5a, sizeof untouched);
	memcpy(&scan, &untouched, sizeof scan);
	arena_init(&arena, 4096);
	enum lu_error error = scan_headers(block, &scan, &why);
	if (error) {
		CHECK(why && memcmp(&scan, &untouched, sizeof scan) == 0);
	} else if (scan.content_length < INT64_MAX) { /* what is longer than fits is refused before the parser sees it */
		CHECK(scan.target.size && scan.target.data[0] == '/' && scan.target.size <= SCAN_TARGET_BYTES_MAX);
		CHECK(scan.method.size && scan.field_count <= SCAN_FIELDS_MAX);
		CHECK(!(scan.chunked && scan.content_length >= 0));
		error = parser_read(block, &scan, &arena, &head, &why);
		/* refused as a whole, perhaps, but not understood otherwise */
		CHECK(!error || !strstr(why, "more than one way") || name_goes_on(block));
		if (!error) {
			check_head(&scan, &head);
			if (head.field_count)
				check_fields(block, &head);
		}
	}
	arena_done(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	struct found found = check_cuts((struct text){(const char *)data, size});
	if (found.error || !found.end)
		return 0;
	char *block = malloc(found.end);
	CHECK(block);
	memcpy(block, data, found.end);
	check_block((struct text){block, found.end});
	free(block);
	return 0;
}
