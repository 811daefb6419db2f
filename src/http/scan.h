/* The strict look at a request's header bytes, before any parser sees them.
 *
 * http_parser takes bare LF, a blank before the colon, folded fields, two Transfer-Encodings, no or two Hosts and
 * chunked in HTTP/1.0. Whatever two programs on the way may read differently is how requests are smuggled, so it is
 * refused here: the parser behind only ever sees bytes that read one way. Rules: RFC 9112 (2.2, 3, 5, 6), RFC 9110
 * (5.5, 7.2, 8.6, 10.1.1). Pure functions; texts are borrowed from the bytes given. Thread: any.
 */
#ifndef HTTP_SCAN_H
#define HTTP_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lastunit/error.h"
#include "lastunit/types.h"

#define SCAN_HEAD_BYTES_MAX ((size_t)16 * 1024) /* request line and fields, empty line included */
#define SCAN_TARGET_BYTES_MAX ((size_t)8 * 1024)
#define SCAN_METHOD_BYTES_MAX 24
#define SCAN_FIELDS_MAX 100

enum scan_expect { SCAN_EXPECT_NONE, SCAN_EXPECT_CONTINUE, SCAN_EXPECT_OTHER };

struct scan {
	struct text method; /* a token, known or not */
	struct text target; /* starts with '/', visible ASCII without '#' */
	int minor;          /* HTTP/1.minor: 0 or 1 */
	size_t field_count;
	int64_t content_length; /* -1: no such field; INT64_MAX: more than fits */
	bool chunked;
	enum scan_expect expect; /* HTTP/1.0 cannot expect: NONE */
};

/* Looks for the end of a header block that may still be arriving, refusing what no further byte can mend (a control
 * byte, a bare LF or CR, too many bytes). *seen is the caller's, 0 at the start of a block: bytes before it are not
 * looked at again. LU_OK with *ret_size = 0: more bytes are needed. On refusal *ret_why says why (static). */
enum lu_error scan_find_end(struct text bytes, size_t *seen, size_t *ret_size, const char **ret_why) LU_MUST_CHECK;

/* Reads a block that scan_find_end() measured, "GET / HTTP/1.1\r\n" to the empty line.
 * LU_MALFORMED_REQUEST, LU_URI_TOO_LONG, LU_HEADERS_TOO_LARGE, LU_VERSION_NOT_SUPPORTED; *ret_why says why
 * (static), *ret is then untouched. */
enum lu_error scan_headers(struct text block, struct scan *ret, const char **ret_why) LU_MUST_CHECK;

#endif
