/* What a row of an import file says: columns found by name, fields read and checked. Pure: no database, no output.
 *
 * Columns: `sku`; `on_hand` (a count) or `delta` (a receipt or a loss), both may be there if each row fills one;
 * `change_from` (what on_hand must be before), `safety_stock`, `tracked`, `title_<language>`, `names` (what else people
 * call it, with semicolons: "red mug; red cup"), `reason`. Foreign files are read through a map
 * (`--map sku=StockCode,on_hand=Qty`) or a profile, which is a map with a name. Without either an unknown column is
 * refused: a misspelt `safety_stock` must not be skipped in silence. Thread: any.
 */
#ifndef CMD_IMPORT_ROWS_H
#define CMD_IMPORT_ROWS_H

#include "base/arena.h"
#include "cmd/csv_rows.h"
#include "lastunit/error.h"

#define IMPORT_TITLES_MAX 8
#define IMPORT_NAMES_MAX 100
#define IMPORT_NAME_BYTES_MAX 255
#define IMPORT_WHY_BYTES 300 /* the longest names every column, and 60 bytes of the file */

struct import_profile {
	const char *name;
	const char *encoding;
	const char *map;
	bool one_row_per_sku; /* a list of orders: the first row of a SKU stands for all, its first title counts */
	const char *about;
};
/* NULL: no profile has this name. */
const struct import_profile *import_profile_find(const char *name);
/* "online-retail, …", for messages. */
const char *import_profile_names(void);

enum import_column {
	IMPORT_SKU,
	IMPORT_ON_HAND,
	IMPORT_DELTA,
	IMPORT_CHANGE_FROM,
	IMPORT_SAFETY_STOCK,
	IMPORT_TRACKED,
	IMPORT_NAMES,
	IMPORT_REASON,
	IMPORT_NAMED_COLUMNS,
};

struct import_columns {
	int at[IMPORT_NAMED_COLUMNS]; /* index in the file; -1: not there */
	struct import_title {
		struct text language; /* "en" */
		int at;
	} titles[IMPORT_TITLES_MAX];
	size_t title_count;
	size_t file_columns;
};

/* Finds the columns in the header. map: "ours=theirs,ours=theirs" or NULL. False with a sentence. */
bool import_columns_find(struct import_columns *columns, struct arena *arena, const struct csv_row *header,
                         const char *map, char ret_why[IMPORT_WHY_BYTES]) __attribute__((warn_unused_result));

struct import_row {
	int64_t line;
	struct text sku;
	bool on_hand_given, delta_given, change_from_given, safety_stock_given, tracked_given;
	int64_t on_hand, delta, change_from, safety_stock;
	bool tracked;
	struct text names;                     /* checked, as the file has them; size 0: none */
	struct text reason;                    /* size 0: none */
	struct text titles[IMPORT_TITLES_MAX]; /* as in columns; size 0: none */
};

/* Moves figures or settings of a SKU that exists, so it is one entry of its ledger. Titles and names alone are none. */
static inline bool import_row_counts(const struct import_row *row)
{
	return row->on_hand_given || row->delta_given || row->safety_stock_given || row->tracked_given;
}

/* Reads a row; texts are borrowed from it. Otherwise the error that names the fault, and a sentence. */
enum lu_error import_row_read(const struct import_columns *columns, const struct csv_row *row,
                              struct import_row *ret_row, char ret_why[IMPORT_WHY_BYTES]) LU_MUST_CHECK;
/* {"en": "…"} of the titles given; size 0 when none is. */
struct text import_row_titles(const struct import_columns *columns, const struct import_row *row, struct arena *arena);

#endif
