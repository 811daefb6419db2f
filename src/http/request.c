/* One request: what a handler may ask of it, and its answer.
 *
 * Happy path: request_dispatch() finds the route, checks the key, decodes parameters and query, calls the handler;
 * request_reply() writes head and body in one run behind what the connection is about to send, frees everything of
 * the request, and tells the connection.
 * Failure modes: no route, wrong method, no key, bad escapes, a packed body, a condition on a write: answered here as
 * problems, the connection stays. A key that cannot be judged, because the keys were last read too long ago: the request
 * waits for the next reading, for half of its time at most. A client that left: the answer is dropped. A second reply to
 * one request is a bug (CHECK).
 */
#include "http/request.h"

#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/text.h"
#include "http/auth.h"
#include "http/connection.h"
#include "http/other_method.h"
#include "http/problem.h"

/* --- life ------------------------------------------------------------------------------------------------------- */

void request_open(struct connection *connection)
{
	struct request *request = &connection->request;
	CHECK(!request->arena);
	*request = (struct request){.connection = connection, .arena = loop_take_arena(connection->loop)};
	request->fields_end = &request->fields;
}

void request_discard(struct request *request)
{
	struct connection *connection = request->connection;
	json_decref(request->json);
	request->json = NULL;
	loop_give_arena(connection->loop, request->arena);
	request->arena = NULL;
	connection->body_at = NULL;
	connection->loop->body_bytes -= connection->body_buffer.size;
	buffer_done(&connection->body_buffer);
}

static void split_target(struct request *request, struct text *ret_query)
{
	struct text target = request->head.target;
	const char *mark = target.size ? memchr(target.data, '?', target.size) : NULL;
	request->path = (struct text){target.data, mark ? (size_t)(mark - target.data) : target.size};
	*ret_query = mark ? (struct text){mark + 1, target.size - request->path.size - 1} : (struct text){0};
}

/* Undoes the escapes of all that the client put into the target, so that a handler never sees a bad one. */
static enum lu_error decode(struct request *request, struct text query, const char **ret_why)
{
	enum lu_error error = LU_OK;
	for (size_t i = 0; i < request->param_count && !error; i++)
		error = percent_decode(request_arena(request), request->params[i], false, &request->params[i], ret_why);
	if (!error && query.size && !(request->route->scopes & ROUTE_ANY_QUERY))
		error = percent_query(request_arena(request), query, &request->query.pairs, &request->query.count, ret_why);
	return error;
}

/* No body is ever unpacked, so whoever reads one may take its bytes for what they are (RFC 9110, 8.4 and 12.5.3). */
static enum lu_error check_encoding(struct request *request, const char **ret_why)
{
	static const char none[] = "identity";
	struct text encoding;
	if (!request->body.size || !request_header(request, "Content-Encoding", &encoding) ||
	    (encoding.size == sizeof none - 1 && strncasecmp(encoding.data, none, sizeof none - 1) == 0))
		return LU_OK;
	request_add_header(request, "Accept-Encoding", TEXT(none));
	*ret_why = "The body has a Content-Encoding, which is not undone here. Send it as it is, without that header.";
	return LU_UNSUPPORTED_MEDIA_TYPE;
}

bool request_wait_for_keys(struct request *request)
{
	struct server_loop *loop = request->connection->loop;
	if (loop->now_ns >= request->complete_ns + loop->server->times.request_ns / 2)
		return false;
	metric_add(METRIC_HTTP_PARKED, !request->parked);
	request->parked = true;
	loop_park(loop, request->connection);
	return true;
}

/* No state that a write changes has a tag, so its condition is never met (RFC 9110, 13.1.1 and 13.1.2). If it were passed
 * over, who relies on it would overwrite what another has written meanwhile. */
static bool is_conditional_write(const struct request *request)
{
	struct text value;
	if (request->head.method == HTTP_METHOD_GET || request->head.method == HTTP_METHOD_HEAD)
		return false;
	return request_header(request, "If-Match", &value) ||
	       (request_header(request, "If-None-Match", &value) && text_equal(value, TEXT("*")));
}

/* The key, the conditions, then the handler. */
void request_admit(struct request *request)
{
	const struct route *route = request->route;
	const char *why = "";
	enum lu_error error = route_scopes(route) ? auth_check(request, route->scopes, &why) : LU_OK;
	if (error == LU_DATABASE_UNAVAILABLE && request_wait_for_keys(request))
		return;
	if (!error && is_conditional_write(request))
		error = LU_PRECONDITION_FAILED;
	if (error)
		problem_reply(request, error, text_of(why));
	else
		route->handle(request);
}

void request_dispatch(struct request *request)
{
	struct text query;
	split_target(request, &query);
	unsigned allow;
	switch (router_match(&request->connection->loop->server->router, request->head.method, request->path,
	                     &request->route, request->params, &request->param_count, &allow)) {
	case ROUTE_NOT_FOUND:
		problem_reply(request, LU_NOT_FOUND, (struct text){0});
		return;
	case ROUTE_METHOD_NOT_ALLOWED:
		other_method_answer(request, allow);
		return;
	case ROUTE_FOUND:
		break;
	}
	const char *why = "";
	enum lu_error error = decode(request, query, &why);
	if (!error)
		error = check_encoding(request, &why);
	if (error)
		problem_reply(request, error, text_of(why));
	else
		request_admit(request);
}

/* --- what was asked --------------------------------------------------------------------------------------------- */

enum http_method request_method(const struct request *request)
{
	return request->head.method;
}

struct arena *request_arena(struct request *request)
{
	return &request->arena->arena;
}

struct server_loop *request_loop(struct request *request)
{
	return request->connection->loop;
}

int64_t request_deadline_ns(const struct request *request)
{
	return request->complete_ns + request->connection->loop->server->times.request_ns;
}

struct text request_path(const struct request *request)
{
	return request->path;
}

struct text request_param(const struct request *request, size_t i)
{
	CHECK(i < request->param_count);
	return request->params[i];
}

static bool is_named(const struct http_field *field, const char *name, size_t size)
{
	return field->name.size == size && strncasecmp(field->name.data, name, size) == 0;
}

size_t request_header_count(const struct request *request, const char *name)
{
	size_t count = 0, size = strlen(name);
	for (size_t i = 0; i < request->head.field_count; i++)
		count += is_named(&request->head.fields[i], name, size);
	return count;
}

bool request_header(const struct request *request, const char *name, struct text *ret_value)
{
	size_t size = strlen(name);
	struct text value = {0};
	bool found = false;
	for (size_t i = 0; i < request->head.field_count; i++) {
		const struct http_field *field = &request->head.fields[i];
		if (!is_named(field, name, size))
			continue;
		if (!found)
			value = field->value;
		else
			value = arena_printf(&request->arena->arena, "%.*s, %.*s", (int)value.size, value.data,
			                     (int)field->value.size, field->value.data);
		found = true;
	}
	if (found)
		*ret_value = value;
	return found;
}

struct text request_body(const struct request *request)
{
	return request->body;
}

/* RFC 8259: application/json has no parameters that mean anything; a charset is let pass. */
bool request_says_json(const struct request *request)
{
	static const char json[] = "application/json";
	struct text type;
	if (!request_header(request, "Content-Type", &type) || type.size < sizeof json - 1 ||
	    strncasecmp(type.data, json, sizeof json - 1) != 0)
		return false;
	return type.size == sizeof json - 1 || strchr("; \t", type.data[sizeof json - 1]);
}

enum lu_error request_json(struct request *request, size_t values_max, json_t **ret_value, const char **ret_why)
{
	if (!request->json_read) {
		request->json_read = true;
		const char *why = "";
		request->json_error = request_says_json(request)
		                          ? json_parse_bounded(request->body, values_max, &request->json, &why)
		                          : LU_UNSUPPORTED_MEDIA_TYPE;
		/* The parser's sentence lives until its next call only. */
		request->json_why = arena_text(request_arena(request), text_of(why)).data;
	}
	if (request->json_error)
		*ret_why = request->json_why;
	else
		*ret_value = request->json;
	return request->json_error;
}

bool request_query(const struct request *request, const char *name, size_t n, struct text *ret_value)
{
	/* const is the caller's view; the server's own request is where the last find is kept. */
	struct query *query = &request->connection->request.query;
	/* Continues behind the last find of the same literal: reading n values costs n steps, not n². */
	size_t found = 0, i = 0;
	if (query->name == name && n > query->n) {
		found = query->n + 1;
		i = query->at + 1;
	}
	size_t size = strlen(name);
	for (; i < query->count; i++) {
		const struct query_pair *pair = &query->pairs[i];
		if (pair->name.size != size || memcmp(pair->name.data, name, size) != 0 || found++ < n)
			continue;
		query->name = name;
		query->n = n;
		query->at = i;
		*ret_value = pair->value;
		return true;
	}
	return false;
}

struct text request_query_check(const struct request *request, const char *const *names)
{
	for (size_t i = 0; i < request->query.count; i++) {
		struct text name = request->query.pairs[i].name;
		const char *const *known = names;
		if (request->key_in_address && text_equal(name, TEXT(AUTH_QUERY_NAME)))
			continue;
		while (*known && !text_equal(name, text_of(*known)))
			known++;
		if (!*known)
			return name.size ? name : TEXT("="); /* "=5": a value without a name */
	}
	return (struct text){0};
}

void request_set_context(struct request *request, void *context)
{
	request->context = context;
}

void *request_context(const struct request *request)
{
	return request->context;
}

/* --- the answer ------------------------------------------------------------------------------------------------- */

void request_add_header(struct request *request, const char *name, struct text value)
{
	for (size_t i = 0; i < value.size; i++) {
		unsigned char c = (unsigned char)value.data[i];
		if ((c >= 0x20 && c != 0x7f) || c == '\t')
			continue;
		/* Leaving the field out harms nobody; sending it would let a client's text write our header block. */
		log_event(LOG_ERROR, "http_header_dropped name=%s value=%s", name, log_quote(value));
		return;
	}
	struct answer_field *field = ARENA_NEW(request_arena(request), struct answer_field);
	field->name = name;
	field->value = arena_text(request_arena(request), value);
	*request->fields_end = field;
	request->fields_end = &field->next;
}

static const char *reason_of(int status)
{
	static const char *const reasons[] = {
		[200] = "OK",
		[201] = "Created",
		[202] = "Accepted",
		[204] = "No Content",
		[301] = "Moved Permanently",
		[302] = "Found",
		[303] = "See Other",
		[304] = "Not Modified",
		[307] = "Temporary Redirect",
		[308] = "Permanent Redirect",
		[400] = "Bad Request",
		[401] = "Unauthorized",
		[403] = "Forbidden",
		[404] = "Not Found",
		[405] = "Method Not Allowed",
		[406] = "Not Acceptable",
		[408] = "Request Timeout",
		[409] = "Conflict",
		[410] = "Gone",
		[412] = "Precondition Failed",
		[413] = "Content Too Large",
		[414] = "URI Too Long",
		[415] = "Unsupported Media Type",
		[417] = "Expectation Failed",
		[422] = "Unprocessable Content",
		[429] = "Too Many Requests",
		[431] = "Request Header Fields Too Large",
		[500] = "Internal Server Error",
		[502] = "Bad Gateway",
		[503] = "Service Unavailable",
		[504] = "Gateway Timeout",
		[505] = "HTTP Version Not Supported",
	};
	CHECK(status >= 200 && status <= 599);
	const char *reason = (size_t)status < sizeof reasons / sizeof reasons[0] ? reasons[status] : NULL;
	return reason ? reason : ""; /* RFC 9112, 4: it may be empty */
}

/* RFC 9110, 6.4.1 */
static bool is_bodiless(int status)
{
	return status == 204 || status == 304;
}

void request_write_head(struct request *request, struct buffer *out, int status, const char *type, int64_t size)
{
	struct connection *connection = request->connection;
	struct server_loop *loop = connection->loop;
	bool bodiless = is_bodiless(status);
	buffer_add_text(out, TEXT("HTTP/1.1 "));
	buffer_add_int(out, status);
	buffer_add_char(out, ' ');
	buffer_add_string(out, reason_of(status));
	buffer_add_text(out, TEXT("\r\n"));
	buffer_add(out, loop->date, loop->date_size);
	if (type && !bodiless) {
		buffer_add_text(out, TEXT("Content-Type: "));
		buffer_add_string(out, type);
		buffer_add_text(out, TEXT("\r\n"));
	}
	if (!bodiless && size >= 0) {
		buffer_add_text(out, TEXT("Content-Length: "));
		buffer_add_int(out, size);
		buffer_add_text(out, TEXT("\r\n"));
	}
	/* Some statuses may be kept by whoever stands in between though nothing says so (RFC 9110, 15.1), 404 and 410 among
	 * them: a new SKU would be unknown for a while, and an answer older than a write that was answered. */
	bool may_be_kept = request->head.method == HTTP_METHOD_GET || request->head.method == HTTP_METHOD_HEAD;
	for (const struct answer_field *field = request->fields; field; field = field->next) {
		may_be_kept = may_be_kept && strcmp(field->name, "Cache-Control") != 0;
		buffer_add_string(out, field->name);
		buffer_add_text(out, TEXT(": "));
		buffer_add_text(out, field->value);
		buffer_add_text(out, TEXT("\r\n"));
	}
	if (may_be_kept)
		buffer_add_text(out, TEXT("Cache-Control: no-store\r\n"));
	if (connection->close_after)
		buffer_add_text(out, TEXT("Connection: close\r\n\r\n"));
	else if (connection->say_keep_alive)
		buffer_add_text(out, TEXT("Connection: keep-alive\r\n\r\n"));
	else
		buffer_add_text(out, TEXT("\r\n"));
}

static void write_answer(struct request *request, struct buffer *out, int status, const char *type, struct text body)
{
	buffer_reserve(out, body.size + 512);
	request_write_head(request, out, status, type, (int64_t)body.size);
	if (!is_bodiless(status) && request->head.method != HTTP_METHOD_HEAD)
		buffer_add_text(out, body);
}

static void count_answer(const struct request *request, int status, int64_t now_ns)
{
	metric_add(METRIC_HTTP_REQUESTS, 1);
	if (status >= 500)
		metric_add(METRIC_HTTP_ERRORS_5XX, 1);
	else if (status >= 400)
		metric_add(METRIC_HTTP_ERRORS_4XX, 1);
	if (request->complete_ns) /* else it was refused before it was complete */
		metric_observe_ns(METRIC_HTTP_SECONDS, now_ns - request->complete_ns);
}

void request_reply(struct request *request, int status, const char *content_type, struct text body)
{
	struct connection *connection = request->connection;
	CHECK(request->arena); /* answered once, not twice */
	count_answer(request, status, loop_read_clock(connection->loop));
	if (connection->loop->draining)
		connection->close_after = true;
	if (connection->bev)
		write_answer(request, connection_out(connection), status, content_type, body);
	request_discard(request);
	connection_answered(connection);
}

/* --- an answer that goes on ------------------------------------------------------------------------------------- */

bool request_stream(struct request *request, const char *content_type, const struct stream_hooks *hooks)
{
	struct connection *connection = request->connection;
	CHECK(request->arena && !request->stream);
	count_answer(request, 200, loop_read_clock(connection->loop));
	/* No length and no chunks: it ends where the connection does (RFC 9112, 6.3, rule 8), as HTTP/1.0 knows it too. */
	connection->close_after = true;
	bool goes_on = connection->bev && request->head.method != HTTP_METHOD_HEAD && !connection->loop->draining;
	if (connection->bev)
		request_write_head(request, connection_out(connection), 200, content_type, -1);
	if (goes_on) {
		request->stream = hooks;
		connection_stream(connection);
	} else {
		hooks->on_end(request);
		request_discard(request);
		connection_answered(connection);
	}
	return goes_on;
}

bool request_stream_send(struct request *request, struct text bytes)
{
	CHECK(request->stream);
	return connection_stream_send(request->connection, bytes);
}

void request_stream_end(struct request *request)
{
	CHECK(request->stream);
	request_discard(request);
	connection_answered(request->connection);
}

void request_reply_json(struct request *request, int status, struct buffer *body)
{
	buffer_add_char(body, '\n');
	request_reply(request, status, "application/json", buffer_text(body));
}
