/* The shared secret: one row, read once at the start. Failure modes: as in pg.h. */
#include "store/secret.h"

#include <string.h>

#include "store/pg_internal.h"

enum lu_error secret_load(struct pg *pg, int64_t deadline_ns, uint8_t ret_secret[SECRET_BYTES])
{
	static const struct pg_statement statement = {"secret_load", "SELECT value FROM secret"};
	PGresult *r;
	enum lu_error error = pg_query(pg, &statement, NULL, deadline_ns, &r);
	if (error)
		return error;
	bool whole = PQntuples(r) == 1 && PQgetlength(r, 0, 0) == SECRET_BYTES;
	if (whole)
		memcpy(ret_secret, PQgetvalue(r, 0, 0), SECRET_BYTES);
	PQclear(r);
	return whole ? LU_OK : pg_fail(pg, PG_VIOLATION, "", "lastunit.secret is damaged: it has one row of 32 bytes");
}
