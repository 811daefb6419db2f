/* The pages made of tables: the index of routes, the index of problems, and one page per problem.
 *
 * They are made of the tables, the routes and errors.def, and so never lag behind them; all are open. Failure modes: a
 * problem that does not exist is itself one (404).
 */
#include <string.h>

#include "api/api.h"
#include "api/call.h"
#include "api/handlers.h"
#include "base/check.h"
#include "base/markup.h"
#include "base/text.h"
#include "http/problem.h"

static void page_open(struct buffer *out, const char *title)
{
	buffer_add_format(
		out,
		"<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>%s</title>\n"
		"<style>body{font:1.1rem/1.5 system-ui,sans-serif;max-width:48rem;margin:3rem auto;padding:0 1rem;"
		"color:#222;background:#fff}code{background:#eee;padding:.1em .3em;border-radius:.2em}"
		"dt{font-weight:600}table{border-collapse:collapse}th,td{text-align:left;vertical-align:top;padding:.2em .8em .2em 0}"
		"@media(max-width:40rem){code{overflow-wrap:anywhere}tr:first-child{display:none}td{display:inline;padding:0}"
		"td:first-child{display:block;padding-top:.6em}td:nth-child(n+3)::before{content:' · '}}"
		"@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}code{background:#333}"
		"a{color:#8bf}}</style>\n</head>\n<body>\n",
		title);
}

static void page_reply(struct request *request, struct buffer *out)
{
	buffer_add_string(out, "</body>\n</html>\n");
	request_add_header(request, "Content-Security-Policy", TEXT("default-src 'none'; style-src 'unsafe-inline'"));
	request_add_header(request, "X-Content-Type-Options", TEXT("nosniff"));
	request_reply(request, 200, "text/html; charset=utf-8", buffer_text(out));
}

/* Our own texts, in which `x` means code. */
static void add_prose(struct buffer *out, const char *prose)
{
	bool code = false;
	for (const char *tick; (tick = strchr(prose, '`')); prose = tick + 1, code = !code) {
		markup_add(out, (struct text){prose, (size_t)(tick - prose)});
		buffer_add_string(out, code ? "</code>" : "<code>");
	}
	markup_add(out, text_of(prose));
}

/* --- problems ----------------------------------------------------------------------------------------------------- */

/* What a client wants to know before it tries again: a word for the index (and the README's table, which a lint
 * compares), and the sentence behind it. */
static const struct {
	const char *word, *sentence;
} retries[] = {
	[LU_RETRY_STORED] = {"same answer",
                         "It does not help: this was decided in the transaction, and the same idempotency key is "
                         "answered the same again. Something new needs a new key."},
	[LU_RETRY_MEND] = {"once mended",
                       "It helps once the request is mended. Nothing is stored under the idempotency key of a request "
                       "that was answered so, so the key may stay."},
	[LU_RETRY_AGAIN] = {"helps",
                        "It helps: nothing was changed, and nothing is stored under the idempotency key of a request "
                        "that was answered so. Send the same request with the same key."},
	[LU_RETRY_ROOM] =
		{"helps, or fewer",
         "It helps once a hold has ended, if the answer had <code>Retry-After</code>; if not, only asking "
         "for fewer helps. Nothing was changed, and nothing is stored under the idempotency key of a "
         "request that was answered so, so the key may stay."},
	[LU_RETRY_SAME_KEY] = {"only it helps",
                           "It is the only thing that helps: the request may have been done, and then its answer is "
                           "stored under the idempotency key, which tells. A new key could do it twice."},
	[LU_RETRY_NEW_KEY] = {"never",
                          "It never helps: nothing was done, and the first answer of this idempotency key stays stored "
                          "for the request it was given for. Take a new key."},
};

void problem_index_get(struct request *request)
{
	struct buffer *out = loop_out(loop_of(request));
	page_open(out, "Problems");
	buffer_add_string(out,
	                  "<h1>Problems</h1>\n<p>Every error is <code>application/problem+json</code> with one of these in "
	                  "<code>code</code>. The last column says what the same request with the same idempotency key is "
	                  "good for.</p>\n<table>\n<tr><th>code</th><th>status</th><th>meaning</th><th>the same key "
	                  "again</th></tr>\n");
	for (enum lu_error error = LU_OK + 1; error < LU_ERROR_COUNT; error++) {
		const char *code = lu_error_code(error);
		buffer_add_format(out,
		                  "<tr><td><a href=\"/problems/%s\"><code>%s</code></a></td><td>%d</td><td>%s</td><td>%s</td>"
		                  "</tr>\n",
		                  code, code, lu_error_status(error), lu_error_title(error),
		                  retries[lu_error_retry(error)].word);
	}
	buffer_add_string(out, "</table>\n<h2>The same key again</h2>\n<dl>\n");
	for (size_t i = 0; i < sizeof retries / sizeof retries[0]; i++)
		buffer_add_format(out, "<dt>%s</dt><dd>%s</dd>\n", retries[i].word, retries[i].sentence);
	buffer_add_string(out, "</dl>\n<p><a href=\"/\">Lastunit</a></p>\n");
	page_reply(request, out);
}

void problem_page_get(struct request *request)
{
	struct text code = request_param(request, 0);
	enum lu_error error;
	char name[64];
	bool known = code.size < sizeof name && !memchr(code.data, 0, code.size);
	if (known) {
		memcpy(name, code.data, code.size);
		name[code.size] = 0;
		known = lu_error_parse(name, &error) && error != LU_OK;
	}
	if (!known) {
		problem_reply(request, LU_NOT_FOUND, TEXT("There is no problem of this name. GET /problems lists them."));
		return;
	}
	struct buffer *out = loop_out(loop_of(request));
	page_open(out, lu_error_title(error));
	buffer_add_format(out, "<h1>%s</h1>\n<p><code>%s</code>, HTTP status %d</p>\n<h2>What to do</h2>\n<p>",
	                  lu_error_title(error), lu_error_code(error), lu_error_status(error));
	add_prose(out, lu_error_mend(error));
	buffer_add_format(out,
	                  "</p>\n<h2>The same request with the same key again</h2>\n<p>%s</p>\n"
	                  "<p><a href=\"/problems\">all problems</a> · <a href=\"/\">Lastunit</a></p>\n",
	                  retries[lu_error_retry(error)].sentence);
	page_reply(request, out);
}

/* --- routes ------------------------------------------------------------------------------------------------------- */

static const char *method_name(unsigned method)
{
	switch (method) {
	case HTTP_METHOD_GET:
		return "GET";
	case HTTP_METHOD_PUT:
		return "PUT";
	case HTTP_METHOD_DELETE:
		return "DELETE";
	default:
		CHECK(method == HTTP_METHOD_POST);
		return "POST";
	}
}

void route_index_get(struct request *request)
{
	struct buffer *out = loop_out(loop_of(request));
	page_open(out, "Routes");
	buffer_add_string(
		out,
		"<h1>Routes</h1>\n<p><a href=\"/\">Lastunit</a></p>\n<p>The API wants a key with the scope behind each call:</p>\n"
		"<p><code>curl -H 'Authorization: Bearer lu_…' http://…/v1/availability/SKU</code></p>\n<ul>\n");
	const struct router *router = api_router(NULL);
	for (size_t i = 0; i < router->count; i++) {
		const struct route *route = &router->routes[i];
		if (route_scopes(route))
			buffer_add_format(out, "<li><code>%s %s</code> %s</li>\n", method_name(route->methods), route->pattern,
			                  scope_name((enum scope)route_scopes(route)));
	}
	buffer_add_string(out, "</ul>\n<p>Open without a key of these scopes:</p>\n<ul>\n");
	for (size_t i = 0; i < router->count; i++) {
		const struct route *route = &router->routes[i];
		if (route_scopes(route))
			continue;
		bool link = route->methods == HTTP_METHOD_GET && !strchr(route->pattern, '{');
		buffer_add_format(out,
		                  link ? "<li><a href=\"%2$s\"><code>%1$s %2$s</code></a></li>\n"
		                       : "<li><code>%s %s</code></li>\n",
		                  method_name(route->methods), route->pattern);
	}
	buffer_add_string(out, "</ul>\n");
	page_reply(request, out);
}
