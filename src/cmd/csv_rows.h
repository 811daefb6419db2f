/* Rows of a CSV file, whatever its encoding, separator and line ends: over libcsv (RFC 4180) and iconv.
 *
 * What is between the separators comes out as it stands, blanks and all: nothing is trimmed, so a SKU code with a
 * blank behind it can be refused instead of becoming another one. A byte order mark is skipped; LF, CRLF and a lone CR
 * end a line; blank lines are no rows; a quoted field may hold separators, quotes (doubled) and line ends. Lines are
 * those of the file, counted from 1: a row has the line it begins on. Thread: any; no state outlives the call.
 */
#ifndef CMD_CSV_ROWS_H
#define CMD_CSV_ROWS_H

#include "lastunit/types.h"

#define CSV_COLUMNS_MAX 256
#define CSV_FIELD_BYTES_MAX ((size_t)1 << 20)
#define CSV_WHY_BYTES 256

struct csv_row {
	int64_t line;
	const struct text *fields; /* UTF-8 without NUL; valid until the call returns */
	size_t count;
};

/* False: stop reading, the file is not to be refused for it. */
typedef bool (*csv_on_row)(const struct csv_row *row, void *context);

struct csv_format {
	char separator;       /* 0: comma */
	const char *encoding; /* a name iconv knows; NULL: UTF-8 */
};

/* Calls on_row for each row, the header included. False with one sentence in ret_why, the line first, when the file
 * cannot be read any further: bytes that are not of the encoding, a quote that is opened and not closed, bytes between a
 * quote and a separator, a field or a row beyond the limits. Rows before it have been delivered. */
bool csv_rows_read(struct text file, const struct csv_format *format, csv_on_row on_row, void *context,
                   char ret_why[CSV_WHY_BYTES]) __attribute__((warn_unused_result));

#endif
