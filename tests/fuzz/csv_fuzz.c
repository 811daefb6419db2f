/* Fuzz target: an import file, from its bytes to its rows.
 *
 * Checks more than the absence of crashes. For one input: every field is UTF-8 without NUL; lines only go forward and
 * none is beyond the file's; a failure has its sentence, success none; reading again gives the same; a row that is taken
 * has a SKU code by the rule and counts within their bounds, a row that is refused leaves the caller's alone; an order has
 * 1 to 1000 lines without twins. Rows that are written again, every field in quotes, read as the same rows.
 * Input: the first byte chooses separator and encoding, the rest is the file.
 */
#include <string.h>

#include "base/buffer.h"
#include "base/check.h"
#include "base/text.h"
#include "cmd/csv_rows.h"
#include "cmd/import_rows.h"
#include "cmd/orders.h"
#include "fuzz/fuzz.h"

struct seen {
	struct arena arena;
	struct import_columns columns;
	bool header_seen, importable;
	int64_t last_line, line_max;
	uint64_t digest, rows_digest; /* the second without the lines */
	struct buffer *written;       /* the rows once more, every field in quotes; NULL: not now */
};

static void digest(uint64_t *digest, const void *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		*digest = (*digest ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3;
}

static void write_quoted(struct buffer *out, const struct csv_row *row)
{
	for (size_t i = 0; i < row->count; i++) {
		buffer_add_string(out, i ? ",\"" : "\"");
		for (size_t n = 0; n < row->fields[i].size; n++) {
			char c = row->fields[i].data[n];
			buffer_add_char(out, c);
			if (c == '"')
				buffer_add_char(out, c);
		}
		buffer_add_char(out, '"');
	}
	buffer_add_string(out, "\r\n");
}

static void check_import(struct seen *seen, const struct csv_row *csv)
{
	struct import_row row = {.line = -1};
	char why[IMPORT_WHY_BYTES] = "";
	enum lu_error error = import_row_read(&seen->columns, csv, &row, why);
	CHECK(!error == !*why);
	if (error) {
		CHECK(row.line == -1);
		return;
	}
	CHECK(!text_check_sku(row.sku) && row.line == csv->line);
	CHECK(!row.on_hand_given || (row.on_hand >= 0 && row.on_hand <= LU_COUNT_MAX));
	CHECK(!row.delta_given || (row.delta >= -LU_COUNT_MAX && row.delta <= LU_COUNT_MAX));
	CHECK(!(row.on_hand_given && row.delta_given));
	struct text titles = import_row_titles(&seen->columns, &row, &seen->arena);
	CHECK(text_is_utf8(titles));
}

static bool on_row(const struct csv_row *row, void *context)
{
	struct seen *seen = context;
	CHECK(row->count >= 1 && row->count <= CSV_COLUMNS_MAX);
	CHECK(row->line > seen->last_line && row->line <= seen->line_max);
	seen->last_line = row->line;
	digest(&seen->digest, &row->line, sizeof row->line);
	digest(&seen->rows_digest, &row->count, sizeof row->count);
	for (size_t i = 0; i < row->count; i++) {
		CHECK(row->fields[i].size <= CSV_FIELD_BYTES_MAX && text_is_utf8(row->fields[i]));
		digest(&seen->rows_digest, &row->fields[i].size, sizeof row->fields[i].size);
		digest(&seen->rows_digest, row->fields[i].data, row->fields[i].size);
	}
	digest(&seen->digest, &seen->rows_digest, sizeof seen->rows_digest);
	if (seen->written)
		write_quoted(seen->written, row);
	if (!seen->header_seen) {
		char why[IMPORT_WHY_BYTES];
		seen->header_seen = true;
		seen->importable = import_columns_find(&seen->columns, &seen->arena, row, NULL, why);
	} else if (seen->importable) {
		check_import(seen, row);
	}
	return true;
}

static struct seen read_once(struct text file, const struct csv_format *format, struct buffer *written,
                             char why[CSV_WHY_BYTES])
{
	/* An encoding may make a line end of any byte. */
	struct seen seen = {.line_max = (int64_t)file.size + 1, .written = written};
	arena_init(&seen.arena, 1024);
	bool ok = csv_rows_read(file, format, on_row, &seen, why);
	CHECK(ok == !*why);
	CHECK(text_is_utf8(text_of(why)));
	arena_done(&seen.arena);
	return seen;
}

static void check_orders(struct text file, const struct csv_format *format)
{
	struct arena arena;
	struct order_book book;
	char why[CSV_WHY_BYTES];
	arena_init(&arena, 1024);
	(void)!orders_read(&book, &arena, file, format, 0, why);
	for (size_t i = 0; i < book.order_count; i++) {
		const struct order *order = &book.orders[i];
		CHECK(order->line_count >= 1 && order->line_count <= LU_LINES_MAX && order->kind < ORDER_KINDS);
		for (size_t n = 0; n < order->line_count; n++) {
			CHECK(order->lines[n].sku < book.sku_count);
			CHECK(order->lines[n].quantity >= 1 && order->lines[n].quantity <= LU_QUANTITY_MAX);
			for (size_t m = 0; m < n; m++)
				CHECK(order->lines[m].sku != order->lines[n].sku);
		}
	}
	arena_done(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char separators[] = {0, ';', '\t', '|'};
	static const char *const encodings[] = {NULL, "ISO-8859-1", "UTF-16", "SHIFT_JIS"};
	if (size == 0)
		return 0;
	struct csv_format format = {separators[data[0] & 3], encodings[data[0] >> 2 & 3]};
	struct text file = {(const char *)data + 1, size - 1};
	char why[CSV_WHY_BYTES], why_again[CSV_WHY_BYTES];
	struct buffer written = {0};
	struct seen first = read_once(file, &format, &written, why);
	CHECK(first.digest == read_once(file, &format, NULL, why_again).digest);
	CHECK(strcmp(why, why_again) == 0);
	CHECK(read_once(buffer_text(&written), &(struct csv_format){0}, NULL, why).rows_digest == first.rows_digest);
	CHECK(!*why);
	buffer_done(&written);
	check_orders(file, &format);
	return 0;
}
