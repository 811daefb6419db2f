/* A file of order lines as carts (orders.h).
 *
 * Happy path: one pass; each row finds its order and its line in it by two look-ups, and is appended or added. Then
 * orders of more than LU_LINES_MAX lines are cut.
 * Failure modes: a header without the three columns, or a file that is no CSV, fail the reading; a row that cannot be
 * played is set aside with its reason.
 */
#include "cmd/orders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "cmd/text_map.h"

enum column { INVOICE, CODE, QUANTITY, COLUMNS };
static const char *const column_names[COLUMNS] = {"InvoiceNo", "StockCode", "Quantity"};

/* An order as it grows. */
struct draft {
	struct order order;
	size_t room;
};

struct reading {
	struct order_book *book;
	struct arena *arena;
	int64_t lines_max;
	int at[COLUMNS];        /* column index; -1 before the header */
	size_t columns;         /* of the header; 0: not read yet */
	struct text_map orders; /* kind and invoice -> draft */
	struct text_map skus;
	struct text_map lines; /* (draft, sku) -> line */
	struct text_map skips;
	struct draft *drafts;
	size_t draft_count, draft_room, sku_room, skip_room;
	char *why;
};

static void *grown(void *array, size_t count, size_t *room, size_t size)
{
	if (count < *room)
		return array;
	*room = *room ? *room * 2 : 64;
	void *bigger = reallocarray(array, *room, size);
	CHECK(bigger);
	return bigger;
}

static void skip(struct reading *r, int64_t line, struct text what, const char *why)
{
	struct order_book *book = r->book;
	bool new;
	size_t at = text_map_add(&r->skips, what, book->skip_count, &new);
	if (new) {
		book->skips = grown(book->skips, book->skip_count, &r->skip_room, sizeof *book->skips);
		book->skips[book->skip_count++] = (struct order_skip){what, why, line, 0};
	}
	book->skips[at].count++;
}

static bool header_read(struct reading *r, const struct csv_row *row)
{
	r->columns = row->count;
	for (int c = 0; c < COLUMNS; c++) {
		r->at[c] = -1;
		for (size_t i = 0; i < row->count; i++)
			if (text_equal(row->fields[i], text_of(column_names[c])))
				r->at[c] = (int)i;
		if (r->at[c] < 0) {
			snprintf(r->why, CSV_WHY_BYTES, "line %lld: the file has no column %s: %s, %s and %s are read",
			         (long long)row->line, column_names[c], column_names[INVOICE], column_names[CODE],
			         column_names[QUANTITY]);
			return false;
		}
	}
	return true;
}

static size_t sku_of(struct reading *r, struct text code)
{
	struct order_book *book = r->book;
	size_t at;
	if (text_map_find(&r->skus, code, &at))
		return at;
	bool new;
	code = arena_text(r->arena, code);
	book->skus = grown(book->skus, book->sku_count, &r->sku_room, sizeof *book->skus);
	book->skus[book->sku_count] = (struct order_sku){.code = code};
	return text_map_add(&r->skus, code, book->sku_count++, &new);
}

static size_t draft_of(struct reading *r, struct text number, enum order_kind kind)
{
	struct text key = arena_printf(r->arena, "%d%.*s", (int)kind, (int)number.size, number.data);
	bool new;
	size_t at = text_map_add(&r->orders, key, r->draft_count, &new);
	if (new) {
		r->drafts = grown(r->drafts, r->draft_count, &r->draft_room, sizeof *r->drafts);
		r->drafts[r->draft_count++] = (struct draft){.order = {.number = arena_text(r->arena, number), .kind = kind}};
	}
	return at;
}

static void line_add(struct reading *r, size_t draft_index, size_t sku, int64_t quantity, int64_t file_line)
{
	struct draft *draft = &r->drafts[draft_index];
	struct order *order = &draft->order;
	size_t pair[2] = {draft_index, sku};
	struct text key = arena_text(r->arena, (struct text){(const char *)pair, sizeof pair});
	bool new;
	size_t at = text_map_add(&r->lines, key, order->line_count, &new);
	if (new) {
		order->lines = grown(order->lines, order->line_count, &draft->room, sizeof *order->lines);
		order->lines[order->line_count++] = (struct order_line){.sku = sku};
	} else if (order->lines[at].quantity + quantity > LU_QUANTITY_MAX) {
		skip(r, file_line, r->book->skus[sku].code, "more than 1000000000 units of it in one invoice");
		return;
	} else {
		r->book->merged_count++;
	}
	order->lines[at].quantity += quantity;
	if (order->kind == ORDER_SALE)
		r->book->skus[sku].wanted += quantity;
}

static bool on_row(const struct csv_row *row, void *context)
{
	struct reading *r = context;
	if (r->columns == 0)
		return header_read(r, row);
	if (r->lines_max && r->book->line_count == r->lines_max)
		return false;
	r->book->line_count++;
	if (row->count != r->columns) {
		skip(r, row->line, TEXT("(a row)"), "has more or fewer columns than the header");
		return true;
	}
	struct text number = row->fields[r->at[INVOICE]];
	struct text code = row->fields[r->at[CODE]];
	struct text units = row->fields[r->at[QUANTITY]];
	int64_t quantity;
	if (number.size < 1 || number.size > 64) {
		skip(r, row->line, arena_text(r->arena, number), "an invoice number has 1 to 64 bytes");
	} else if (text_check_sku(code)) {
		skip(r, row->line, arena_text(r->arena, code), "not a SKU code");
	} else if (!text_to_int64(units, &quantity) || quantity == 0 || quantity > LU_QUANTITY_MAX ||
	           quantity < -LU_QUANTITY_MAX) {
		skip(r, row->line, arena_text(r->arena, units), "not a quantity");
	} else if (number.data[0] == 'C' && quantity > 0) {
		skip(r, row->line, arena_text(r->arena, number), "a cancellation of a positive quantity");
	} else {
		enum order_kind kind = number.data[0] == 'C' ? ORDER_CANCELLATION : quantity < 0 ? ORDER_WRITE_OFF : ORDER_SALE;
		size_t sku = sku_of(r, code);
		line_add(r, draft_of(r, number, kind), sku, quantity < 0 ? -quantity : quantity, row->line);
	}
	return true;
}

/* Cuts what is too long for one cart and moves everything into the arena. */
static void orders_finish(struct reading *r)
{
	struct order_book *book = r->book;
	size_t count = 0, turns[ORDER_KINDS] = {0};
	for (size_t i = 0; i < r->draft_count; i++)
		count += (r->drafts[i].order.line_count + LU_LINES_MAX - 1) / LU_LINES_MAX;
	book->orders = ARENA_ARRAY(r->arena, count, struct order);
	for (size_t i = 0; i < r->draft_count; i++) {
		const struct order *whole = &r->drafts[i].order;
		for (size_t from = 0; from < whole->line_count; from += LU_LINES_MAX) {
			struct order *part = &book->orders[book->order_count++];
			*part = *whole;
			part->line_count = whole->line_count - from < LU_LINES_MAX ? whole->line_count - from : LU_LINES_MAX;
			part->turn = turns[part->kind]++;
			part->lines = ARENA_ARRAY(r->arena, part->line_count, struct order_line);
			memcpy(part->lines, whole->lines + from, part->line_count * sizeof *part->lines);
			if (from)
				part->number = arena_printf(r->arena, "%.*s#%zu", (int)whole->number.size, whole->number.data,
				                            from / LU_LINES_MAX + 1);
		}
		free(whole->lines);
	}
	struct order_sku *skus = book->skus;
	book->skus = ARENA_ARRAY(r->arena, book->sku_count, struct order_sku);
	if (book->sku_count)
		memcpy(book->skus, skus, book->sku_count * sizeof *skus);
	free(skus);
	struct order_skip *skips = book->skips;
	book->skips = ARENA_ARRAY(r->arena, book->skip_count, struct order_skip);
	if (book->skip_count)
		memcpy(book->skips, skips, book->skip_count * sizeof *skips);
	free(skips);
}

bool orders_read(struct order_book *book, struct arena *arena, struct text file, const struct csv_format *format,
                 int64_t lines_max, char ret_why[CSV_WHY_BYTES])
{
	*book = (struct order_book){0};
	struct reading r = {.book = book, .arena = arena, .lines_max = lines_max, .why = ret_why};
	/* ret_why is emptied by csv_rows_read() and filled by it or by header_read(). */
	bool ok = csv_rows_read(file, format, on_row, &r, ret_why) && !*ret_why;
	if (ok && r.columns == 0) {
		snprintf(ret_why, CSV_WHY_BYTES, "the file is empty");
		ok = false;
	}
	orders_finish(&r);
	free(r.drafts);
	text_map_done(&r.orders);
	text_map_done(&r.skus);
	text_map_done(&r.lines);
	text_map_done(&r.skips);
	return ok;
}

int64_t order_sku_stock(const struct order_sku *sku, int64_t percent)
{
	return (sku->wanted * percent + 99) / 100;
}
