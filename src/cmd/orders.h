/* A file of order lines as carts: what `lastunit replay` plays.
 *
 * Columns InvoiceNo, StockCode, Quantity (others are ignored). The lines of an invoice become one order, in the order
 * in which invoices first appear, lines of the same SKU merged; more than LU_LINES_MAX lines become several orders
 * (`536365#2`). An invoice whose number begins with C is a cancellation, its quantities negative; a negative line of any
 * other invoice is a write-off. Quantities in an order are positive whatever it is. SKU codes are taken exactly: twins
 * that differ only in case stay two. Pure. Thread: any, one per book.
 */
#ifndef CMD_ORDERS_H
#define CMD_ORDERS_H

#include "base/arena.h"
#include "cmd/csv_rows.h"
#include "lastunit/types.h"

enum order_kind { ORDER_SALE, ORDER_CANCELLATION, ORDER_WRITE_OFF, ORDER_KINDS };

struct order_line {
	size_t sku;       /* index in skus */
	int64_t quantity; /* 1..LU_QUANTITY_MAX */
};

struct order {
	struct text number;
	enum order_kind kind;
	size_t turn;              /* which of its kind it is, from 0 */
	struct order_line *lines; /* 1..LU_LINES_MAX, no twins */
	size_t line_count;
};

struct order_sku {
	struct text code;
	int64_t wanted; /* units that sales of the file ask for */
};

/* Lines that cannot be played, one entry per code or value at fault. */
struct order_skip {
	struct text what;
	const char *why;
	int64_t line; /* the first of them */
	int64_t count;
};

struct order_book {
	struct order *orders;
	size_t order_count;
	struct order_sku *skus;
	size_t sku_count;
	struct order_skip *skips;
	size_t skip_count;
	int64_t line_count;   /* rows read, without the header */
	int64_t merged_count; /* of them, added to an earlier line of the same order */
};

/* Reads at most `lines_max` rows (0: all). Everything in the book lives in the arena. False with a sentence. */
bool orders_read(struct order_book *book, struct arena *arena, struct text file, const struct csv_format *format,
                 int64_t lines_max, char ret_why[CSV_WHY_BYTES]) __attribute__((warn_unused_result));
/* `percent` of the units asked for, rounded up. */
int64_t order_sku_stock(const struct order_sku *sku, int64_t percent);

#endif
