/* The seam to the HTTP parser library: http_parser 2.9 today, llhttp where it is packaged. Nothing else in the
 * service names either, so changing them means rewriting parser.c only.
 *
 * The parser reads one header block that scan_headers() let through; where a body ends is decided by the scan, and
 * chunks are undone by http/chunk.h, for http_parser takes any two bytes behind a chunk. Thread: any.
 */
#ifndef HTTP_PARSER_SEAM_H
#define HTTP_PARSER_SEAM_H

#include "base/arena.h"
#include "http/request.h"
#include "http/scan.h"

struct http_field {
	struct text name, value;
};

struct http_head {
	enum http_method method; /* 0: a method this service does not know */
	struct text target;
	struct http_field *fields; /* in the arena, in the order sent */
	size_t field_count;
	bool keep_alive; /* as version and Connection say */
};

/* Texts point into block, which outlives the head. LU_MALFORMED_REQUEST with *ret_why when the library refuses the
 * block or understands it otherwise than the scan did; *ret_head is then unspecified. */
enum lu_error parser_read(struct text block, const struct scan *scan, struct arena *arena, struct http_head *ret_head,
                          const char **ret_why) LU_MUST_CHECK;

#endif
