/* A strict decoder of the chunked transfer coding (RFC 9112, 7.1), byte for byte as it comes.
 *
 * Written because http_parser takes any two bytes behind a chunk's data and any byte behind a CR. Sizes are 1 to 8
 * hex digits; extensions and trailer fields are checked for control bytes, counted against a bound and ignored; a
 * line ends in CR LF and in nothing else. Pure, no allocation. Thread: the owner's.
 */
#ifndef HTTP_CHUNK_H
#define HTTP_CHUNK_H

#include "lastunit/error.h"
#include "lastunit/types.h"

#define CHUNK_EXTRA_BYTES_MAX 4096 /* extensions and trailers of one body, together */

struct chunk {
	int state;
	uint32_t left; /* size being read, then bytes left of this chunk's data */
	uint32_t extra_bytes;
	uint64_t size; /* of the body so far */
	uint8_t digits;
	bool done;
};

static inline void chunk_init(struct chunk *chunk)
{
	*chunk = (struct chunk){0};
}

/* Takes bytes from the front of *io_bytes, at most to the next run of data or to the end of the body. *ret_data is
 * that run (borrowed; size 0: none came). Call again while there are bytes and chunk->done is false.
 * LU_MALFORMED_REQUEST with *ret_why; LU_PAYLOAD_TOO_LARGE as soon as the body is known to exceed size_max. */
enum lu_error chunk_take(struct chunk *chunk, struct text *io_bytes, uint64_t size_max, struct text *ret_data,
                         const char **ret_why) LU_MUST_CHECK;

#endif
