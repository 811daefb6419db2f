/* The rows of an import on their way into PostgreSQL: by COPY into a temporary table of the session.
 *
 * import_stage_begin … import_stage_add per row … import_stage_end. Then the session has the tables
 *
 *   import_stage    the rows as they were read
 *   import_target   (empty) the SKUs they name, as found under their locks, and those made
 *   import_applied  (empty) the rows that move figures, with the figures before and after each
 *
 * which import_stock.c fills and uses. They end with the connection. Thread: the connection's.
 */
#ifndef CMD_IMPORT_STAGE_H
#define CMD_IMPORT_STAGE_H

#include "base/buffer.h"
#include "cmd/import_rows.h"
#include "store/pg.h"

struct import_stage {
	struct pg *pg;
	int64_t deadline_ns;
	struct buffer out; /* COPY lines not yet sent */
	char why[256];     /* of the last failure */
};

enum lu_error import_stage_begin(struct import_stage *stage, struct pg *pg, int64_t deadline_ns) LU_MUST_CHECK;
/* titles: JSON or size 0. */
enum lu_error import_stage_add(struct import_stage *stage, const struct import_row *row, struct text titles)
	LU_MUST_CHECK;
/* keep false: the rows are given up. */
enum lu_error import_stage_end(struct import_stage *stage, bool keep) LU_MUST_CHECK;
void import_stage_done(struct import_stage *stage);

#endif
