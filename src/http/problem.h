/* application/problem+json (RFC 9457): the one place where an error becomes an HTTP answer.
 *
 * {"type": "/problems/<code>", "title", "status", "code", "detail", …}. Adds Retry-After to 503 and
 * idempotency_in_flight, WWW-Authenticate to 401 (a 429 has its own, of who knows whether waiting helps). `type` is
 * relative to the service, which serves that page.
 */
#ifndef HTTP_PROBLEM_H
#define HTTP_PROBLEM_H

#include "base/json.h"
#include "http/request.h"

/* detail size 0: the table's own advice. */
void problem_reply(struct request *request, enum lu_error error, struct text detail);
/* The same with members written by the caller between open and close: problem_open writes type…detail, then the
 * caller adds members, then problem_send closes the object and replies. */
void problem_open(struct json_writer *w, enum lu_error error, struct text detail);
void problem_send(struct request *request, enum lu_error error, struct json_writer *w);

#endif
