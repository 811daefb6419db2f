/* SKUs: create, change, look at.
 *
 * Happy path: PUT submits what was given and answers the whole SKU: its figures from the verdict, and the titles and
 * names read behind it, because the verdict knows only those that were given. GET reads one row or a page.
 * A replayed PUT repeats the old answer: the titles and names are then those of the request, which its fingerprint
 * says is the first one again, and not what they are today.
 * Failure modes: if the titles cannot be read after a PUT that was done, it is answered without them: a change that
 * is durable is never called failed.
 */
#include "store/sku.h"

#include "api/call.h"
#include "api/handlers.h"
#include "api/render.h"
#include "base/check.h"
#include "http/auth.h"
#include "http/problem.h"

struct asked {
	struct ask ask;
	struct text code; /* this one, or the one before the page */
	bool only_this;
	size_t limit;
	struct sku_page_row *rows;
	size_t count;
	const struct call *put; /* NULL: a GET */
};

/* On a loader's thread. */
static enum lu_error read_skus(struct query *query, struct pg *pg)
{
	struct asked *asked = (struct asked *)query; /* its first member's first member */
	return sku_page(pg, query->arena, asked->code, asked->only_this, asked->limit + 1, query->deadline_ns, &asked->rows,
	                &asked->count);
}

static void render_row(struct json_writer *w, const struct sku_page_row *row, const struct figures *figures,
                       int64_t available)
{
	const struct sku_names names = {row->names, row->name_count};
	render_sku(w, row->code, figures, row->titles_json, &names, available);
}

/* --- PUT ---------------------------------------------------------------------------------------------------------- */

static void reply_put(const struct call *call, const struct sku_page_row *row)
{
	const struct sku_figures *after = call->operation.verdict.figures;
	struct json_writer w = json_writer(loop_out(loop_of(call->request)));
	CHECK(call->operation.verdict.figures_count == 1);
	if (row)
		render_row(&w, row, &after->figures, after->available);
	else
		render_sku(&w, after->sku, &after->figures, (struct text){0}, NULL, after->available);
	request_reply_json(call->request, verdict_status(&call->operation), w.out);
}

/* A member that the request left alone was empty if that call made the SKU. Else it was what it was then, which nobody
 * knows any more: it is left out. */
static void reply_replayed(const struct call *call)
{
	const struct operation *operation = &call->operation;
	const struct sku_figures *after = operation->verdict.figures;
	static const struct sku_change nothing;
	const struct sku_change *change = operation->sku_change ? operation->sku_change : &nothing;
	const struct sku_names names = {change->names, change->name_count};
	bool made = operation->verdict.created;
	struct text titles = change->titles_given ? change->titles_json : made ? TEXT("{}") : (struct text){0};
	struct json_writer w = json_writer(loop_out(loop_of(call->request)));
	CHECK(operation->verdict.figures_count == 1);
	request_add_header(call->request, "Idempotent-Replayed", TEXT("true"));
	render_sku(&w, after->sku, &after->figures, titles, change->names_given || made ? &names : NULL, after->available);
	request_reply_json(call->request, verdict_status(operation), w.out);
}

static void on_described(struct ask *ask)
{
	struct asked *asked = (struct asked *)ask;
	reply_put(asked->put, asked->count ? &asked->rows[0] : NULL);
}

static void on_not_described(struct ask *ask)
{
	reply_put(((struct asked *)ask)->put, NULL);
}

static void on_put(struct call *call)
{
	if (call->operation.verdict.error) {
		call_reply(call);
		return;
	}
	if (call->operation.verdict.replayed) {
		reply_replayed(call);
		return;
	}
	struct asked *asked = ARENA_NEW(request_arena(call->request), struct asked);
	asked->put = call;
	asked->code = call->operation.verdict.figures->sku;
	asked->only_this = true;
	ask_init(&asked->ask, call->request);
	asked->ask.on_error = on_not_described;
	ask_run(&asked->ask, read_skus, on_described);
}

void sku_put(struct request *request)
{
	struct text sku;
	if (!take_path_sku(request, &sku))
		return;
	struct call *call = call_new(request, OPERATION_SKU_PUT);
	call->operation.lines = ARENA_NEW(request_arena(request), struct line);
	call->operation.lines[0].sku = sku;
	call->operation.line_count = 1;
	call_run(call, on_put);
}

/* --- GET ---------------------------------------------------------------------------------------------------------- */

static void on_one(struct ask *ask)
{
	struct asked *asked = (struct asked *)ask;
	if (!asked->count) {
		problem_reply(ask->request, LU_UNKNOWN_SKU, (struct text){0});
		return;
	}
	struct json_writer w = json_writer(loop_out(loop_of(ask->request)));
	render_row(&w, &asked->rows[0], &asked->rows[0].figures,
	           figures_available(&asked->rows[0].figures, request_principal(ask->request)));
	request_reply_json(ask->request, 200, w.out);
}

static void on_page(struct ask *ask)
{
	struct asked *asked = (struct asked *)ask;
	struct json_writer w = json_writer(loop_out(loop_of(ask->request)));
	bool more = asked->count > asked->limit;
	size_t count = more ? asked->limit : asked->count;
	json_object_open(&w);
	json_key(&w, "items");
	json_array_open(&w);
	for (size_t i = 0; i < count; i++)
		render_row(&w, &asked->rows[i], &asked->rows[i].figures,
		           figures_available(&asked->rows[i].figures, request_principal(ask->request)));
	json_array_close(&w);
	json_key(&w, "next");
	if (more)
		json_put_text(&w, asked->rows[count - 1].code);
	else
		json_put_null(&w);
	json_object_close(&w);
	request_reply_json(ask->request, 200, w.out);
}

void sku_get(struct request *request)
{
	struct asked *asked = ARENA_NEW(request_arena(request), struct asked);
	if (!take_query_names(request, (const char *const[]){NULL}) || !take_path_sku(request, &asked->code))
		return;
	asked->only_this = true;
	ask_init(&asked->ask, request);
	ask_run(&asked->ask, read_skus, on_one);
}

void sku_list(struct request *request)
{
	struct asked *asked = ARENA_NEW(request_arena(request), struct asked);
	asked->code = TEXT("");
	if (!take_query_names(request, (const char *const[]){"after", "limit", NULL}) ||
	    !take_limit(request, &asked->limit))
		return;
	/* Any text: a code of earlier days keeps no rule of today. */
	(void)request_query(request, "after", 0, &asked->code);
	ask_init(&asked->ask, request);
	ask_run(&asked->ask, read_skus, on_page);
}
