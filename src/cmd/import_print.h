/* How an import ended, told: in sentences, as JSON, and row by row. The summary goes to stdout, refusals and why
 * nothing was imported to stderr. Everything is borrowed. Thread: the connection's.
 */
#ifndef CMD_IMPORT_PRINT_H
#define CMD_IMPORT_PRINT_H

#include "cmd/import_apply.h"

struct import_ending {
	const char *path;
	struct text key;
	int64_t row_count, merged_count; /* of the file */
	bool partial;
	const struct import_refusal *refusals; /* rows that could not be read, by line */
	size_t refusal_count;
	const struct import_report *report; /* what became of the others */
	const char *why;                    /* the file could not be read, or the import failed; else "" */
	int64_t start_ns;
};

/* Returns the exit code. */
int import_print(const struct import_ending *ending, bool json);
/* refused: rows, those of an earlier run included if this one only repeats it. */
void import_print_json(const struct import_ending *ending, int64_t refused);
/* One line per row of the file, in its order: line,sku,outcome,version,on_hand,detail; to a file, or stdout if its path is
 * "-". On the connection of the import, right behind it (import_outcomes()). */
enum lu_error import_print_rows(const struct import_ending *ending, struct pg *pg, const char *path) LU_MUST_CHECK;

#endif
