/* What the files of the audit (audit_run.c, audit_stock.c, audit_objects.c, audit_cells.c) share; nobody else does. */
#ifndef CMD_AUDIT_INTERNAL_H
#define CMD_AUDIT_INTERNAL_H

#include "cmd/audit_run.h"
#include "cmd/audit_tally.h"
#include "store/pg.h"

#define AUDIT_STATEMENT_MS 60000
#define AUDIT_OVERDUE_S 5

struct audit_work {
	const struct audit_options *options;
	struct audit *audit;
	struct pg *pg;
	struct arena *arena; /* the caller's: offenders' sentences */
	struct tallies tallies;
	int64_t horizon; /* every transaction below it had ended before the ledger was first read */
	char *why;       /* [512] */
};

/* Counts a broken thing and keeps its sentence if there is still room. */
void audit_broken(struct audit_work *work, enum audit_check check, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* A query of its own short deadline; on failure the sentence is in work->why. */
enum lu_error audit_query(struct audit_work *work, const struct pg_statement *statement, const struct pg_params *params,
                          PGresult **ret_result) LU_MUST_CHECK;
void audit_progress(struct audit_work *work, const char *what, int64_t count);

/* SKUs and the ledger: RANGE RESERVED ON_HAND BALANCES VERSIONS; fills the tallies. */
enum lu_error audit_stock(struct audit_work *work) LU_MUST_CHECK;
/* Reservations, holds, checkouts and orders: HOLDS ENDS SALES OVERDUE. After audit_stock. */
enum lu_error audit_objects(struct audit_work *work) LU_MUST_CHECK;
/* CELLS. */
enum lu_error audit_cells(struct audit_work *work) LU_MUST_CHECK;

#endif
