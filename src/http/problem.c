/* application/problem+json: where an error becomes an HTTP answer.
 *
 * Happy path: problem_reply() builds the body in the loop's scratch buffer and sends it; problem_open() and
 * problem_send() do the same around members of the caller's. Failure modes: none.
 */
#include "http/problem.h"

#include <string.h>

#include "base/text.h"
#include "http/connection.h"

void problem_open(struct json_writer *w, enum lu_error error, struct text detail)
{
	const char *code = lu_error_code(error);
	/* A detail may quote what a client sent, and JSON is UTF-8 only. */
	if (!detail.size || !text_is_utf8(detail))
		detail = text_of(lu_error_mend(error));
	char type[80] = "/problems/";
	strncat(type, code, sizeof type - sizeof "/problems/");
	json_object_open(w);
	json_key(w, "type");
	json_put_string(w, type);
	json_key(w, "title");
	json_put_string(w, lu_error_title(error));
	json_key(w, "status");
	json_put_int(w, lu_error_status(error));
	json_key(w, "code");
	json_put_string(w, code);
	json_key(w, "detail");
	json_put_text(w, detail);
}

void problem_send(struct request *request, enum lu_error error, struct json_writer *w)
{
	int status = lu_error_status(error);
	json_object_close(w);
	buffer_add_char(w->out, '\n');
	if (status == 503 || error == LU_IDEMPOTENCY_IN_FLIGHT)
		request_add_header(request, "Retry-After", TEXT("1"));
	if (error == LU_UNAUTHORIZED)
		request_add_header(request, "WWW-Authenticate", TEXT("Bearer"));
	request_reply(request, status, "application/problem+json", buffer_text(w->out));
}

void problem_reply(struct request *request, enum lu_error error, struct text detail)
{
	struct buffer *body = &request_loop(request)->scratch;
	buffer_clear(body);
	struct json_writer w = json_writer(body);
	problem_open(&w, error, detail);
	problem_send(request, error, &w);
}
