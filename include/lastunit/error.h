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
#define X(NAME, code, status, retry, title, mend) LU_##NAME,
#include "lastunit/errors.def"
#undef X
	LU_ERROR_COUNT
};

/* What sending the request again is good for, and under which idempotency key. */
enum lu_retry {
	LU_RETRY_STORED,   /* decided and kept under the key: it is answered the same again */
	LU_RETRY_MEND,     /* nothing is kept, but unless the request is mended it is refused again */
	LU_RETRY_AGAIN,    /* nothing was changed, nothing is kept: the same request may succeed */
	LU_RETRY_ROOM,     /* the same, unless it asks for more than there is ever room for */
	LU_RETRY_SAME_KEY, /* it may have been done: only the same key tells; a new one could do it twice */
	LU_RETRY_NEW_KEY,  /* the key belongs to another request for ever */
};

/* The problem code, e.g. "insufficient_stock"; "ok" for LU_OK. */
const char *lu_error_code(enum lu_error error);
/* The HTTP status it is answered with; 200 for LU_OK. */
int lu_error_status(enum lu_error error);
/* One line for `title`, one or two sentences for the page and, where nothing better is known, `detail`. */
const char *lu_error_title(enum lu_error error);
const char *lu_error_mend(enum lu_error error);
enum lu_retry lu_error_retry(enum lu_error error);
/* Decided in the transaction (LU_RETRY_STORED), so stored under the key and replayed (LU_OK too). */
bool lu_error_stored(enum lu_error error);
/* Finds an error by its code. False, and *ret_error untouched, if there is none. */
bool lu_error_parse(const char *code, enum lu_error *ret_error) LU_MUST_CHECK;

#endif
