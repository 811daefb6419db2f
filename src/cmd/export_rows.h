/* What `lastunit export` writes of a SKU and of an entry of the ledger: a line of CSV, or one of JSON as the API shows it.
 *
 * Pure: writes into a buffer, reads nothing else. Thread: any.
 */
#ifndef CMD_EXPORT_ROWS_H
#define CMD_EXPORT_ROWS_H

#include "base/buffer.h"
#include "store/ledger.h"
#include "store/sku.h"

/* The columns of titles, and whether on_hand stands there once more, as what an import must find. */
struct export_columns {
	const struct text *languages; /* byte order */
	size_t language_count;
	bool change_from;
};

void export_stock_head(struct buffer *out, const struct export_columns *columns);
/* False: it has a title in a language that has no column, which is left out. Names with a semicolon, which separates them
 * in the file, are left out and counted. */
bool export_stock_csv(struct buffer *out, const struct sku_page_row *row, const struct export_columns *columns,
                      int64_t *names_left_out) LU_MUST_CHECK;
void export_stock_json(struct buffer *out, const struct sku_page_row *row);

void export_ledger_head(struct buffer *out);
void export_ledger_csv(struct buffer *out, struct text sku, const struct ledger_row *row);
void export_ledger_json(struct buffer *out, struct text sku, const struct ledger_row *row);

#endif
