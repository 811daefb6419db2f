/* Feeds for marketplaces that fetch files: what each SKU of the catalogue has left, for the principal who asks.
 *
 *	GET /feeds/google.tsv          id, availability                        (a supplemental feed of product data)
 *	GET /feeds/local.csv?store=X   store_code, id, availability, quantity  (local inventory)
 *
 * Happy path: where the change feed stands makes the ETag, so that a catalogue in which nothing moved is a 304 that
 * reads no row; otherwise the rows, page by page in short statements, into one body with its length: a feed that was
 * cut short must never look whole. The ETag is taken first, so it is never newer than what it stands for. While any
 * transaction is under way that holds the change feed back, its place stands still though figures move: then there
 * is no ETag and no 304.
 * Failure modes: more than FEEDS_MAX at once, or one that cannot be read in time, are 503; nothing is sent of them.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "api/call.h"
#include "base/clock.h"
#include "base/text.h"
#include "channels/handlers.h"
#include "http/auth.h"
#include "http/problem.h"
#include "store/feed.h"
#include "store/sku.h"

#define FEEDS_MAX 2 /* a million SKUs are some 40 MB; those that are being sent: http/uptake.h */
#define PAGE_ROWS 5000
#define PAGE_MS 3000
#define FEED_MS 60000
#define STORE_BYTES_MAX 64
#define UNCOUNTED_QUANTITY 999 /* of what is always there: more than anybody buys at once */
#define STORE_DEFAULT TEXT("main")

struct feed {
	struct ask ask; /* first */
	const struct format *format;
	struct text store;
	struct feed_state state;
	struct text etag;    /* size 0: none */
	struct arena page;   /* of the rows being written */
	int64_t until_ns;    /* BOOTTIME; the whole */
	struct buffer after; /* the last code of the page before; one made past the triggers may be of any length */
	struct sku_page_row *rows;
	size_t count;
	struct buffer body;
};

struct format {
	const char *name, *content_type, *head;
	void (*put_row)(struct buffer *out, const struct feed *feed, const struct sku_page_row *row,
	                const struct principal *principal);
};

static _Atomic int running;

/* --- formats ---------------------------------------------------------------------------------------------------------- */

static const char *availability_of(const struct sku_page_row *row, const struct principal *principal)
{
	return figures_in_stock(&row->figures, principal) ? "in_stock" : "out_of_stock";
}

/* A code holds no control characters, so neither tab nor line end. */
static void tsv_row(struct buffer *out, const struct feed *feed, const struct sku_page_row *row,
                    const struct principal *principal)
{
	buffer_add_text(out, row->code);
	buffer_add_char(out, '\t');
	buffer_add_string(out, availability_of(row, principal));
	buffer_add_char(out, '\n');
}

static void csv_row(struct buffer *out, const struct feed *feed, const struct sku_page_row *row,
                    const struct principal *principal)
{
	buffer_add_csv(out, feed->store);
	buffer_add_char(out, ',');
	buffer_add_csv(out, row->code);
	buffer_add_char(out, ',');
	buffer_add_string(out, availability_of(row, principal));
	buffer_add_char(out, ',');
	buffer_add_int(out, row->figures.tracked ? figures_available(&row->figures, principal) : UNCOUNTED_QUANTITY);
	buffer_add_string(out, "\r\n");
}

static const struct format google = {"google", "text/tab-separated-values; charset=utf-8", "id\tavailability\n",
                                     tsv_row};
static const struct format local = {"local", "text/csv; charset=utf-8; header=present",
                                    "store_code,id,availability,quantity\r\n", csv_row};

/* --- the body --------------------------------------------------------------------------------------------------------- */

static void feed_done(struct feed *feed)
{
	arena_done(&feed->page);
	buffer_done(&feed->after);
	buffer_done(&feed->body);
	running--;
}

static void on_error(struct ask *ask)
{
	struct feed *feed = (struct feed *)ask;
	enum lu_error error = ask->query.error;
	feed_done(feed);
	problem_reply(ask->request, error, (struct text){0});
}

/* On a loader's thread. */
static enum lu_error read_page(struct query *query, struct pg *pg)
{
	struct feed *feed = (struct feed *)query; /* its first member's first member */
	return sku_page(pg, &feed->page, buffer_text(&feed->after), false, PAGE_ROWS, query->deadline_ns, &feed->rows,
	                &feed->count);
}

/* Not before it is whole: a 503 with this tag would make the next fetch a 304 of what was never had. */
static void add_headers(struct feed *feed)
{
	if (feed->etag.size)
		request_add_header(feed->ask.request, "ETag", feed->etag);
	request_add_header(feed->ask.request, "Cache-Control", TEXT("no-cache"));
}

static void on_page(struct ask *ask);

/* A million rows take longer than a request may: each page has a time of its own, and the whole another. */
static void next_page(struct feed *feed)
{
	int64_t page_ns = deadline_in_ms(PAGE_MS);
	feed->ask.query.deadline_ns = page_ns < feed->until_ns ? page_ns : feed->until_ns;
	ask_run(&feed->ask, read_page, on_page);
}

static void on_page(struct ask *ask)
{
	struct feed *feed = (struct feed *)ask;
	struct request *request = ask->request;
	const struct principal *principal = request_principal(request);
	for (size_t i = 0; i < feed->count; i++)
		feed->format->put_row(&feed->body, feed, &feed->rows[i], principal);
	if (feed->count < PAGE_ROWS) {
		/* With the reply the request is gone, and the feed with it. */
		const char *content_type = feed->format->content_type;
		struct buffer body = feed->body;
		feed->body = (struct buffer){0};
		add_headers(feed);
		feed_done(feed);
		request_reply(request, 200, content_type, buffer_text(&body));
		buffer_done(&body);
		return;
	}
	buffer_clear(&feed->after);
	buffer_add_text(&feed->after, feed->rows[feed->count - 1].code);
	arena_reset(&feed->page);
	next_page(feed);
}

/* --- whether anything moved ------------------------------------------------------------------------------------------- */

/* On a loader's thread. */
static enum lu_error look(struct query *query, struct pg *pg)
{
	struct feed *feed = (struct feed *)query;
	return feed_look(pg, query->arena, query->deadline_ns, &feed->state);
}

/* All that the body depends on: the entries, the settings of who asks, the address. */
static struct text etag_of(const struct feed *feed)
{
	char cursor[FEED_CURSOR_BYTES_MAX + 1];
	struct request *request = feed->ask.request;
	const struct principal *principal = request_principal(request);
	feed_cursor_format(&feed->state.now, cursor);
	return arena_printf(request_arena(request), "\"%s.%s.%" PRId64 ".%d.%.*s\"", feed->format->name, cursor,
	                    principal->settings.buffer, principal->settings.may_use_safety_stock, (int)feed->store.size,
	                    feed->store.data);
}

static void on_looked(struct ask *ask)
{
	struct feed *feed = (struct feed *)ask;
	if (feed->state.settled)
		feed->etag = etag_of(feed);
	if (feed->etag.size && request_knows_tag(ask->request, feed->etag)) {
		const char *content_type = feed->format->content_type;
		add_headers(feed);
		feed_done(feed);
		request_reply(ask->request, 304, content_type, (struct text){0});
		return;
	}
	buffer_add_string(&feed->body, feed->format->head);
	feed->until_ns = deadline_in_ms(FEED_MS);
	next_page(feed);
}

static void start(struct request *request, const struct format *format, struct text store)
{
	if (running++ >= FEEDS_MAX) {
		running--;
		problem_reply(request, LU_OVERLOADED, TEXT("Other feeds are being written; fetch this one in a moment."));
		return;
	}
	struct feed *feed = ARENA_NEW(request_arena(request), struct feed);
	feed->format = format;
	feed->store = store;
	arena_init(&feed->page, 64 * 1024);
	ask_init(&feed->ask, request);
	feed->ask.on_error = on_error;
	ask_run(&feed->ask, look, on_looked);
}

void feed_google_get(struct request *request)
{
	static const char *const names[] = {NULL};
	if (take_query_names(request, names))
		start(request, &google, TEXT(""));
}

/* Codes of stores as Google allows them: what stands in a header's tag without quotes of its own. */
static bool is_store(struct text store)
{
	for (size_t i = 0; i < store.size; i++)
		if (store.data[i] <= ' ' || store.data[i] > '~' || strchr("\"\\,", store.data[i]))
			return false;
	return store.size && store.size <= STORE_BYTES_MAX;
}

void feed_local_get(struct request *request)
{
	static const char *const names[] = {"store", NULL};
	struct text store = STORE_DEFAULT;
	if (!take_query_names(request, names))
		return;
	if (request_query(request, "store", 0, &store) && !is_store(store)) {
		problem_reply(request, LU_INVALID_FIELD,
		              TEXT("The query's `store` must be 1 to 64 printable characters of ASCII, no "
		                   "blanks, quotes, commas or backslashes."));
		return;
	}
	start(request, &local, store);
}
