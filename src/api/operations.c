/* The operator's pages: health, readiness, metrics, one page per problem, and the front page.
 *
 * All are open: they show no stock. /healthz says that the process serves; /readyz says the same and, in its body, how
 * the backends are: it stays 200 while the service can answer (P6), because taking an instance out of the balancer does
 * not mend a database they all share.
 */
#include <string.h>

#include "api/api.h"
#include "api/call.h"
#include "api/handlers.h"
#include "base/metrics.h"
#include "http/problem.h"

static void member_bool(struct json_writer *w, const char *key, bool value)
{
	json_key(w, key);
	json_put_bool(w, value);
}

void health_get(struct request *request)
{
	request_reply(request, 200, "application/json", TEXT("{\"status\":\"ok\"}"));
}

void ready_get(struct request *request)
{
	struct api_loop *loop = loop_of(request);
	struct inventory_status status;
	inventory_status(loop->inventory, &status);
	const char *const *warnings;
	size_t count = inventory_warnings(loop->inventory, &warnings);
	struct json_writer w = json_writer(loop_out(loop));
	json_object_open(&w);
	json_key(&w, "status");
	/* Without a lease every read costs PostgreSQL a query: true, but slower. */
	json_put_string(&w, status.database_reachable && status.lease ? "ok" : "degraded");
	member_bool(&w, "database_reachable", status.database_reachable);
	member_bool(&w, "redis_reachable", status.redis_reachable);
	json_key(&w, "epoch");
	json_put_string(&w, status.epoch);
	member_bool(&w, "lease", status.lease);
	json_key(&w, "queue_depth");
	json_put_int(&w, status.queue_depth);
	json_key(&w, "warnings");
	json_array_open(&w);
	for (size_t i = 0; i < count; i++)
		json_put_string(&w, warnings[i]);
	json_array_close(&w);
	json_object_close(&w);
	request_add_header(request, "Cache-Control", TEXT("no-store"));
	request_reply_json(request, 200, w.out);
}

void metrics_get(struct request *request)
{
	struct buffer *out = loop_out(loop_of(request));
	metrics_print(out);
	request_reply(request, 200, "text/plain; version=0.0.4; charset=utf-8", buffer_text(out));
}

/* --- pages -------------------------------------------------------------------------------------------------------- */

static void page_open(struct buffer *out, const char *title)
{
	buffer_add_format(
		out,
		"<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>%s</title>\n"
		"<style>body{font:1.1rem/1.5 system-ui,sans-serif;max-width:40rem;margin:3rem auto;padding:0 1rem;"
		"color:#222;background:#fff}code{background:#eee;padding:.1em .3em;border-radius:.2em}"
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
	for (; *prose; prose++) {
		switch (*prose) {
		case '`':
			buffer_add_string(out, code ? "</code>" : "<code>");
			code = !code;
			break;
		case '<':
			buffer_add_string(out, "&lt;");
			break;
		case '>':
			buffer_add_string(out, "&gt;");
			break;
		case '&':
			buffer_add_string(out, "&amp;");
			break;
		default:
			buffer_add_char(out, *prose);
		}
	}
}

/* What a client wants to know before it tries again: what its key is worth after this answer. */
static const char *key_advice(enum lu_error error)
{
	if (lu_error_stored(error))
		return "This was decided in the transaction: the same idempotency key is answered the same again.";
	switch (error) {
	case LU_OUTCOME_UNKNOWN:
		return "It may have been done, and then its answer is stored under the idempotency key: the same key tells. A new "
			   "key could do it twice.";
	case LU_IDEMPOTENCY_IN_FLIGHT:
		return "Another request with this idempotency key is running; what it is answered may be stored under the key, and "
			   "the same key tells. A new key could do it twice.";
	case LU_IDEMPOTENCY_CONFLICT:
		return "Nothing was done. The first answer of this idempotency key stays stored: the request it was given for is "
			   "answered so again.";
	default:
		return "Nothing is stored under the idempotency key of a request that was answered so.";
	}
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
		known = lu_error_parse(name, &error);
	}
	if (!known) {
		problem_reply(request, LU_NOT_FOUND, TEXT("There is no problem of this name."));
		return;
	}
	struct buffer *out = loop_out(loop_of(request));
	page_open(out, lu_error_title(error));
	buffer_add_format(out, "<h1>%s</h1>\n<p><code>%s</code>, HTTP status %d</p>\n<p>", lu_error_title(error),
	                  lu_error_code(error), lu_error_status(error));
	add_prose(out, lu_error_mend(error));
	buffer_add_format(out, "</p>\n<p>%s</p>\n", key_advice(error));
	page_reply(request, out);
}

static const char *method_name(unsigned method)
{
	return method == HTTP_METHOD_GET ? "GET" : method == HTTP_METHOD_PUT ? "PUT" : "POST";
}

void front_page_get(struct request *request)
{
	struct buffer *out = loop_out(loop_of(request));
	page_open(out, "Lastunit");
	buffer_add_string(out,
	                  "<h1>Lastunit</h1>\n<p>One stock count, every sales channel, the last unit never sold twice."
	                  "</p>\n<p>The API lies below <code>/v1</code> and wants a key:</p>\n"
	                  "<p><code>curl -H 'Authorization: Bearer lu_…' http://…/v1/availability/SKU</code></p>\n<ul>\n");
	const struct router *router = api_router(NULL);
	for (size_t i = 0; i < router->count; i++)
		if (router->routes[i].scopes)
			buffer_add_format(out, "<li><code>%s %s</code></li>\n", method_name(router->routes[i].methods),
			                  router->routes[i].pattern);
	buffer_add_string(out,
	                  "</ul>\n"
	                  "<p><a href=\"/healthz\">health</a> · <a href=\"/readyz\">readiness</a> · "
	                  "<a href=\"/metrics\">metrics</a> · "
	                  "<a href=\"/problems/insufficient_stock\">what a problem says</a></p>\n");
	page_reply(request, out);
}
