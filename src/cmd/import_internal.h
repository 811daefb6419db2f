/* What import_apply.c (the transaction and its cache), import_stock.c (the rows against the stock) and import_key.c
 * (whether it was done before) share; nobody else includes it. Everything here runs on the connection's thread, inside
 * the transaction unless it says otherwise; an error is LU_OK or what the statement failed with.
 */
#ifndef CMD_IMPORT_INTERNAL_H
#define CMD_IMPORT_INTERNAL_H

#include "base/arena.h"
#include "cache/cell.h"
#include "cmd/import_apply.h"

struct import {
	struct pg *pg;
	struct arena *arena; /* the caller's: what the report points to */
	const struct import_options *options;
	struct import_report *report;
	int64_t principal_id;
	struct uuid operation_id;
	struct arena scratch;                     /* of one attempt */
	char namespace[CELL_NAMESPACE_BYTES + 8]; /* of the open or closing epoch */
	bool use_redis;                           /* in this attempt */
	bool published;                           /* the cache was brought up to date by us */
	bool closed;                              /* an epoch was closed for us */
	struct text *cell_skus;
	int64_t *cell_versions;
	struct figures *cell_figures;
	size_t cell_count;
};

/* Puts what PostgreSQL said into the report; returns `error`. */
enum lu_error import_fail(struct import *in, enum lu_error error);

/* The principal of what the service does of its own accord; made by whoever needs it first. Before the transaction. */
enum lu_error import_principal(struct pg *pg, struct arena *arena, int64_t deadline_ns, int64_t *ret_id) LU_MUST_CHECK;
/* The key's row, with the counts of the report. */
enum lu_error import_write_key(struct import *in, int64_t at_us) LU_MUST_CHECK;

/* Locks the SKUs named, by id; *ret_touched how many of them get other figures or settings. */
enum lu_error import_lock(struct import *in, int64_t *ret_touched) LU_MUST_CHECK;
/* The figures before and after each row. */
enum lu_error import_compute(struct import *in) LU_MUST_CHECK;
/* The rows that fail; with --partial they are taken out, with those behind them of the same SKU. */
enum lu_error import_refuse(struct import *in) LU_MUST_CHECK;
/* New SKUs by code, changed SKUs, ledger, titles and names. */
enum lu_error import_write_rows(struct import *in) LU_MUST_CHECK;
/* report->units, and PostgreSQL's time. */
enum lu_error import_sum_units(struct import *in, int64_t *ret_at_us) LU_MUST_CHECK;
/* What a cell may hold: in->cell_…, as it will be after COMMIT. */
enum lu_error import_collect_cells(struct import *in) LU_MUST_CHECK;

#endif
