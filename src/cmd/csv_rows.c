/* Rows of a CSV file (csv_rows.h).
 *
 * Happy path: the file is UTF-8 and goes to libcsv line by line, so that it is always known which line is being read;
 * libcsv calls back per field and per row, and each row is handed on when it is complete.
 * Failure modes: all of them stop the reading with a sentence that names the line. libcsv is strict: it would rather
 * stop than guess what a stray quote means.
 */
#include "cmd/csv_rows.h"

#include <csv.h>
#include <errno.h>
#include <iconv.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/check.h"
#include "base/text.h"

#define BLOCK_BYTES ((size_t)1 << 16)

struct reader {
	csv_on_row on_row;
	void *context;
	struct buffer bytes; /* all fields of the row, one behind the other */
	size_t ends[CSV_COLUMNS_MAX];
	struct text fields[CSV_COLUMNS_MAX];
	size_t count;
	int64_t line;     /* the one being fed */
	int64_t row_line; /* where the row began; 0: not begun */
	bool stopped;     /* by on_row */
	char *why;        /* [CSV_WHY_BYTES]; not empty: failed */
};

static bool fail(struct reader *reader, int64_t line, const char *what)
{
	if (!*reader->why)
		snprintf(reader->why, CSV_WHY_BYTES, "line %lld: %s", (long long)line, what);
	return false;
}

static void on_field(void *data, size_t size, void *context)
{
	struct reader *reader = context;
	if (reader->stopped || *reader->why)
		return;
	if (size > CSV_FIELD_BYTES_MAX) {
		fail(reader, reader->row_line, "a field has more than 1 MiB");
		return;
	}
	if (reader->count == CSV_COLUMNS_MAX) {
		fail(reader, reader->row_line, "more than 256 columns");
		return;
	}
	buffer_add(&reader->bytes, data, size);
	reader->ends[reader->count++] = reader->bytes.size;
}

static void on_row_end(int terminator, void *context)
{
	struct reader *reader = context;
	if (reader->stopped || *reader->why)
		return;
	struct csv_row row = {reader->row_line, reader->fields, reader->count};
	size_t start = 0;
	for (size_t i = 0; i < row.count; i++) {
		reader->fields[i] = (struct text){reader->bytes.size ? reader->bytes.data + start : "",
		                                  reader->ends[i] - start};
		start = reader->ends[i];
		if (!text_is_utf8(reader->fields[i])) {
			fail(reader, row.line, "not UTF-8; name the file's encoding, e.g. --encoding ISO-8859-1");
			return;
		}
	}
	if (!reader->on_row(&row, reader->context))
		reader->stopped = true;
	reader->count = 0;
	reader->row_line = 0;
	buffer_clear(&reader->bytes);
}

/* Blanks belong to the field: a SKU code with one at its end is wrong and must be seen to be. */
static int is_never_space(unsigned char c)
{
	return 0;
}

/* The bytes up to and with the next line end. */
static size_t line_size(struct text rest, bool *ret_ended)
{
	for (size_t i = 0; i < rest.size; i++) {
		if (rest.data[i] != '\n' && rest.data[i] != '\r')
			continue;
		*ret_ended = true;
		return i + 1 + (rest.data[i] == '\r' && i + 1 < rest.size && rest.data[i + 1] == '\n');
	}
	*ret_ended = false;
	return rest.size;
}

static bool read_lines(struct reader *reader, struct csv_parser *parser, struct text text)
{
	while (text.size && !reader->stopped && !*reader->why) {
		bool ended;
		size_t size = line_size(text, &ended);
		bool blank = text.data[0] == '\n' || text.data[0] == '\r';
		if (reader->row_line == 0 && !blank)
			reader->row_line = reader->line;
		size_t taken = csv_parse(parser, text.data, size, on_field, on_row_end, reader);
		if (taken != size && !*reader->why)
			return fail(reader, reader->line,
			            csv_error(parser) == CSV_EPARSE
			                ? "a quote inside a field, or something between a quote and the separator; "
			                  "put the field in quotes and double those within"
			                : csv_strerror(csv_error(parser)));
		text.data += size;
		text.size -= size;
		reader->line += ended;
	}
	if (reader->stopped || *reader->why)
		return !*reader->why;
	if (csv_fini(parser, on_field, on_row_end, reader))
		return fail(reader, reader->row_line, "a quote is opened and never closed");
	return !*reader->why;
}

/* The whole file as UTF-8. Lines are counted in what was converted so far, which is why it is done here in one go. */
static bool decode(struct text file, const char *encoding, struct buffer *out, struct reader *reader)
{
	iconv_t converter = iconv_open("UTF-8", encoding);
	if (converter == (iconv_t)-1) {
		snprintf(reader->why, CSV_WHY_BYTES, "the encoding %.60s is not known (iconv --list names those that are)",
		         encoding);
		return false;
	}
	char *from = (char *)(uintptr_t)file.data; /* iconv() does not write here; its type is older than const */
	size_t left = file.size;
	bool flushed = false;
	while (left || !flushed) {
		buffer_reserve(out, BLOCK_BYTES);
		char *to = out->data + out->size;
		size_t room = out->room - out->size;
		size_t before = room;
		flushed = left == 0;
		size_t result = iconv(converter, flushed ? NULL : &from, flushed ? NULL : &left, &to, &room);
		out->size += before - room;
		if (result != (size_t)-1 || errno == E2BIG)
			continue;
		int64_t line = 1;
		for (size_t at = 0; at < out->size; line++) {
			bool ended;
			at += line_size((struct text){out->data + at, out->size - at}, &ended);
			if (!ended)
				break;
		}
		iconv_close(converter);
		return fail(reader, line,
		            errno == EINVAL ? "the file ends within a character" : "bytes that are none of the encoding");
	}
	iconv_close(converter);
	return true;
}

static bool begins_with(struct text text, const char *bytes, size_t size)
{
	return text.size >= size && memcmp(text.data, bytes, size) == 0;
}

bool csv_rows_read(struct text file, const struct csv_format *format, csv_on_row on_row, void *context,
                   char ret_why[CSV_WHY_BYTES])
{
	*ret_why = '\0';
	struct reader reader = {.on_row = on_row, .context = context, .line = 1, .why = ret_why};
	struct buffer decoded = {0};
	struct text text = file;
	if (format->encoding) {
		if (!decode(file, format->encoding, &decoded, &reader)) {
			buffer_done(&decoded);
			return false;
		}
		text = buffer_text(&decoded);
	} else if (begins_with(text, "\xff\xfe", 2) || begins_with(text, "\xfe\xff", 2)) {
		return fail(&reader, 1, "this looks like UTF-16: say --encoding UTF-16");
	}
	if (begins_with(text, "\xef\xbb\xbf", 3))
		text = (struct text){text.data + 3, text.size - 3};

	struct csv_parser parser;
	CHECK(csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI) == 0);
	csv_set_delim(&parser, (unsigned char)(format->separator ? format->separator : ','));
	csv_set_space_func(&parser, is_never_space);
	csv_set_blk_size(&parser, BLOCK_BYTES);
	bool ok = read_lines(&reader, &parser, text);
	csv_free(&parser);
	buffer_done(&reader.bytes);
	buffer_done(&decoded);
	return ok;
}
