/* The change feed: every ledger entry of all SKUs, page by page, none ever skipped (store/feed.h).
 *
 * Happy path: one query behind the cursor; `next` is always a cursor, because a feed has no end.
 * Failure modes: a cursor that is none is 422; one of another PostgreSQL, or of one that went back in time, is 410
 * cursor_expired, because its numbers mean other entries here; so is the beginning of a ledger that came out of a dump and
 * cannot be told in order.
 */
#include "api/call.h"
#include "api/handlers.h"
#include "api/render.h"
#include "base/text.h"
#include "http/problem.h"
#include "store/feed.h"

struct followed {
	struct ask ask;
	enum start { FROM_BEGINNING, FROM_CURSOR, FROM_NOW } start;
	struct feed_position after;
	size_t limit;
	struct feed_state state;
	struct feed_row *rows;
	size_t count;
};

/* On a loader's thread. */
static enum lu_error read_page(struct query *query, struct pg *pg)
{
	struct followed *followed = (struct followed *)query; /* its first member's first member */
	if (followed->start == FROM_NOW)
		return feed_look(pg, query->arena, query->deadline_ns, &followed->state);
	return feed_page(pg, query->arena, &followed->after, followed->limit, query->deadline_ns, &followed->state,
	                 &followed->rows, &followed->count);
}

static struct feed_position next_of(const struct followed *followed)
{
	if (followed->count) {
		const struct feed_row *last = &followed->rows[followed->count - 1];
		return (struct feed_position){followed->state.now.identity, last->xid, last->row.entry.sku_id,
		                              last->row.entry.version};
	}
	if (followed->start == FROM_NOW)
		return followed->state.now;
	struct feed_position same = followed->after;
	same.identity = followed->state.now.identity;
	return same;
}

static void on_page(struct ask *ask)
{
	struct followed *followed = (struct followed *)ask;
	if (followed->start == FROM_CURSOR && !feed_has(&followed->state, &followed->after)) {
		problem_reply(ask->request, LU_CURSOR_EXPIRED, (struct text){0});
		return;
	}
	if (followed->start == FROM_BEGINNING && followed->state.restored) {
		problem_reply(ask->request, LU_CURSOR_EXPIRED,
		              TEXT("This ledger came out of a dump of another PostgreSQL, so its past cannot be told in order. "
		                   "Take a cursor from `GET /v1/changes?cursor=now`, read what you follow, then go on from it; "
		                   "each SKU's past is in GET /v1/skus/{sku}/ledger."));
		return;
	}
	struct json_writer w = json_writer(loop_out(loop_of(ask->request)));
	json_object_open(&w);
	json_key(&w, "items");
	json_array_open(&w);
	for (size_t i = 0; i < followed->count; i++)
		render_change(&w, followed->rows[i].sku, &followed->rows[i].row);
	json_array_close(&w);
	json_key(&w, "next");
	char cursor[FEED_CURSOR_BYTES_MAX + 1];
	struct feed_position next = next_of(followed);
	json_put_text(&w, (struct text){cursor, feed_cursor_format(&next, cursor)});
	json_object_close(&w);
	request_add_header(ask->request, "Cache-Control", TEXT("no-store"));
	request_reply_json(ask->request, 200, w.out);
}

void change_list(struct request *request)
{
	struct followed *followed = ARENA_NEW(request_arena(request), struct followed);
	struct text cursor;
	if (!take_query_names(request, (const char *const[]){"cursor", "limit", NULL}) ||
	    !take_limit(request, &followed->limit))
		return;
	if (request_query(request, "cursor", 0, &cursor)) {
		followed->start = text_equal(cursor, TEXT("now")) ? FROM_NOW : FROM_CURSOR;
		if (followed->start == FROM_CURSOR && !feed_cursor_parse(cursor, &followed->after)) {
			problem_reply(request, LU_INVALID_FIELD,
			              TEXT("The query's `cursor` must be the `next` of the page before, or `now`."));
			return;
		}
	}
	ask_init(&followed->ask, request);
	ask_run(&followed->ask, read_page, on_page);
}
