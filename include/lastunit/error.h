/* enum lu_error: how every operating error is named inside the service.
 *
 * 0 is ok. Bugs are CHECK()ed, never returned. The table is errors.def; the edges translate:
 * SQLSTATE in store/pg.c, Redis replies in cache/redis.c, HTTP in http/problem.c. Thread: any; all data is constant.
 */
#ifndef LASTUNIT_ERROR_H
#define LASTUNIT_ERROR_H

#include <stdbool.h>

#define LU_MUST_CHECK __attribute__((warn_unused_result))

enum lu_error {
	LU_OK = 0,
#define X(NAME, code, status, stored, title, mend) LU_##NAME,
#include "lastunit/errors.def"
#undef X
	LU_ERROR_COUNT
};

/* The problem code, e.g. "insufficient_stock"; "ok" for LU_OK. */
const char *lu_error_code(enum lu_error error);
/* The HTTP status it is answered with; 200 for LU_OK. */
int lu_error_status(enum lu_error error);
/* One line for `title`, one or two sentences for the page and, where nothing better is known, `detail`. */
const char *lu_error_title(enum lu_error error);
const char *lu_error_mend(enum lu_error error);
/* Decided in the transaction, so stored under the key and replayed (LU_OK too). */
bool lu_error_stored(enum lu_error error);
/* Finds an error by its code. False, and *ret_error untouched, if there is none. */
bool lu_error_parse(const char *code, enum lu_error *ret_error) LU_MUST_CHECK;

#endif
