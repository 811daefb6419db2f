/* The ledger of one SKU, page by page: every change it ever had.
 *
 * Happy path: one query by (sku, version), rendered with the ledger's column names.
 * Failure modes: an unknown SKU is 404.
 */
#include "store/ledger.h"

#include "api/call.h"
#include "api/handlers.h"
#include "api/render.h"
#include "base/text.h"
#include "http/problem.h"

struct listed {
	struct ask ask;
	struct text sku;
	int64_t after;
	size_t limit;
	struct ledger_row *rows;
	size_t count;
	bool known;
};

/* On a loader's thread. */
static enum lu_error read_page(struct query *query, struct pg *pg)
{
	struct listed *listed = (struct listed *)query; /* its first member's first member */
	return ledger_page(pg, query->arena, listed->sku, listed->after, listed->limit + 1, query->deadline_ns,
	                   &listed->rows, &listed->count, &listed->known);
}

static void on_page(struct ask *ask)
{
	struct listed *listed = (struct listed *)ask;
	if (!listed->known) {
		problem_reply(ask->request, LU_UNKNOWN_SKU, (struct text){0});
		return;
	}
	struct json_writer w = json_writer(loop_out(loop_of(ask->request)));
	bool more = listed->count > listed->limit;
	size_t count = more ? listed->limit : listed->count;
	json_object_open(&w);
	json_key(&w, "items");
	json_array_open(&w);
	for (size_t i = 0; i < count; i++)
		render_ledger_row(&w, &listed->rows[i]);
	json_array_close(&w);
	json_key(&w, "next");
	if (more)
		json_put_text(&w, arena_printf(ask->query.arena, "%lld", (long long)listed->rows[count - 1].entry.version));
	else
		json_put_null(&w);
	json_object_close(&w);
	request_reply_json(ask->request, 200, w.out);
}

void ledger_list(struct request *request)
{
	struct listed *listed = ARENA_NEW(request_arena(request), struct listed);
	struct text after;
	if (!take_query_names(request, (const char *const[]){"after", "limit", NULL}) ||
	    !take_path_sku(request, &listed->sku) || !take_limit(request, &listed->limit))
		return;
	if (request_query(request, "after", 0, &after) && (!text_to_int64(after, &listed->after) || listed->after < 0)) {
		problem_reply(request, LU_INVALID_FIELD,
		              TEXT("The query's `after` must be a version: 0, or the `next` of the page before."));
		return;
	}
	ask_init(&listed->ask, request);
	ask_run(&listed->ask, read_page, on_page);
}
