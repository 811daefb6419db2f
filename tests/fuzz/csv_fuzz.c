/* Fuzz target: an import file, from its bytes to its rows.
 *
 * Checks more than the absence of crashes. For one input: every field is UTF-8 without NUL; lines only go forward and
 * none is beyond the file's; a failure has its sentence, success none; reading again gives the same; a row that is taken
 * has a SKU code by the rule and counts within their bounds; an order has 1 to 1000 lines without twins.
 * Input: the first byte chooses separator and encoding, the rest is the file. Run: clang -fsanitize=fuzzer,address.
 */
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "cmd/csv_rows.h"
#include "cmd/import_rows.h"
#include "cmd/orders.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
	struct arena arena;
	struct import_columns columns;
	bool header_seen, importable;
	int64_t last_line, line_max;
	uint64_t digest;
};

static void digest(struct seen *seen, const void *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		seen->digest = (seen->digest ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3;
}

static void check_import(struct seen *seen, const struct csv_row *csv)
{
	struct import_row row = {0};
	char why[IMPORT_WHY_BYTES] = "";
	enum lu_error error = import_row_read(&seen->columns, csv, &row, why);
	CHECK(!error == !*why);
	if (error)
		return;
	CHECK(!text_check_sku(row.sku));
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
	digest(seen, &row->line, sizeof row->line);
	for (size_t i = 0; i < row->count; i++) {
		CHECK(row->fields[i].size <= CSV_FIELD_BYTES_MAX && text_is_utf8(row->fields[i]));
		digest(seen, &row->fields[i].size, sizeof row->fields[i].size);
		digest(seen, row->fields[i].data, row->fields[i].size);
	}
	if (!seen->header_seen) {
		char why[IMPORT_WHY_BYTES];
		seen->header_seen = true;
		seen->importable = import_columns_find(&seen->columns, &seen->arena, row, NULL, why);
	} else if (seen->importable) {
		check_import(seen, row);
	}
	return true;
}

static uint64_t read_once(struct text file, const struct csv_format *format, char why[CSV_WHY_BYTES])
{
	/* An encoding may make a line end of any byte. */
	struct seen seen = {.line_max = (int64_t)file.size + 1};
	arena_init(&seen.arena, 1024);
	bool ok = csv_rows_read(file, format, on_row, &seen, why);
	CHECK(ok == !*why);
	CHECK(text_is_utf8(text_of(why)));
	arena_done(&seen.arena);
	return seen.digest;
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
	uint64_t first = read_once(file, &format, why);
	CHECK(first == read_once(file, &format, why_again));
	CHECK(strcmp(why, why_again) == 0);
	check_orders(file, &format);
	return 0;
}
