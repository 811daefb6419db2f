/* What a client still sends behind the answer that refused him (RFC 9112, 9.6): read and dropped for a while, because a
 * reset would eat the answer that is on its way. Private to src/http; the loop's thread.
 *
 * Dropping must not become the attack: bytes are thrown away inside the kernel, a connection is read for
 * LINGER_BYTES_MAX at most, and all of a loop for LOOP_DROP_BYTES_MAX in a tick: who comes beyond that rests a
 * while. What is not read stays in the socket, whose window then holds the sender; the connection is closed
 * when its time is over.
 */
#ifndef HTTP_LINGER_H
#define HTTP_LINGER_H

#include "http/connection.h"

#define LINGER_MS 2000
#define LINGER_BYTES_MAX ((int64_t)16 * 1024 * 1024)

/* The refusal is with the socket. */
void linger_begin(struct connection *connection);
/* Bytes have come. */
void linger_drop(struct connection *connection);
/* Its deadline has passed: true if that was a rest only, and it is read again. */
bool linger_goes_on(struct connection *connection);

#endif
