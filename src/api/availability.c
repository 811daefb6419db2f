/* Availability: what is left, for one SKU or many, from the cache where the lease permits it.
 *
 * Happy path: the codes are checked, one look-up for all of them goes to the loop's reader, its answer is rendered.
 * No JSON parser, no allocation beyond the request's arena: this is the path that a shop's pages call.
 * Failure modes: an unknown SKU is 404 alone and "unknown" among others; PostgreSQL away without `max-stale` is 503.
 */
#include <string.h>

#include "api/call.h"
#include "api/handlers.h"
#include "api/plain_skus.h"
#include "api/render.h"
#include "base/text.h"
#include "http/auth.h"
#include "http/problem.h"

struct wanted {
	struct lookup lookup;
	struct request *request;
	struct lookup_item items[];
};

/* --- request ------------------------------------------------------------------------------------------------------ */

/* RFC 9111, 1.2.2: more than fits is as much as there can be. 0: not digits. */
static int64_t delta_seconds(struct text text)
{
	int64_t seconds = 0;
	for (size_t i = 0; i < text.size; i++) {
		if (text.data[i] < '0' || text.data[i] > '9')
			return 0;
		seconds = seconds * 10 + (text.data[i] - '0');
		if (seconds > INT32_MAX)
			seconds = INT32_MAX;
	}
	return seconds;
}

/* The N of `max-stale=N` in Cache-Control (RFC 9111, 5.2.1.2); without N any staleness will do; 0: not there. */
static int64_t max_stale_s(const struct request *request)
{
	static const char directive[] = "max-stale";
	struct text header;
	if (!request_header(request, "Cache-Control", &header))
		return 0;
	for (size_t i = 0; i < header.size;) {
		const char *comma = memchr(header.data + i, ',', header.size - i);
		size_t end = comma ? (size_t)(comma - header.data) : header.size;
		while (i < end && (header.data[i] == ' ' || header.data[i] == '\t'))
			i++;
		struct text word = {header.data + i, end - i};
		while (word.size && (word.data[word.size - 1] == ' ' || word.data[word.size - 1] == '\t'))
			word.size--;
		if (word.size >= sizeof directive - 1 && !strncasecmp(word.data, directive, sizeof directive - 1)) {
			struct text rest = {word.data + sizeof directive - 1, word.size - (sizeof directive - 1)};
			if (!rest.size)
				return INT32_MAX;
			int64_t seconds = rest.data[0] == '=' ? delta_seconds((struct text){rest.data + 1, rest.size - 1}) : 0;
			if (seconds)
				return seconds;
		}
		i = end + 1;
	}
	return 0;
}

static struct wanted *wanted_new(struct request *request, size_t count)
{
	struct arena *arena = request_arena(request);
	struct wanted *wanted = arena_alloc(arena, sizeof *wanted + count * sizeof wanted->items[0]);
	wanted->request = request;
	wanted->lookup.arena = arena;
	wanted->lookup.deadline_ns = request_deadline_ns(request);
	wanted->lookup.max_stale_s = max_stale_s(request);
	wanted->lookup.items = wanted->items;
	wanted->lookup.item_count = count;
	return wanted;
}

static void run(struct wanted *wanted, void (*on_done)(struct lookup *lookup))
{
	wanted->lookup.on_done = on_done;
	reader_lookup(loop_of(wanted->request)->reader, &wanted->lookup);
}

/* --- answer ------------------------------------------------------------------------------------------------------- */

/* Of several look-ups the furthest that any had to go. */
static void add_cache_headers(struct request *request, const struct lookup *lookup)
{
	static const struct text status[] = {
		[LOOKUP_HIT] = {"lastunit; hit", sizeof "lastunit; hit" - 1},
		[LOOKUP_MISS] = {"lastunit; fwd=miss", sizeof "lastunit; fwd=miss" - 1},
		[LOOKUP_BYPASS] = {"lastunit; fwd=bypass", sizeof "lastunit; fwd=bypass" - 1},
		[LOOKUP_STALE] = {"lastunit; fwd=stale", sizeof "lastunit; fwd=stale" - 1},
	};
	enum lookup_source furthest = LOOKUP_HIT;
	for (size_t i = 0; i < lookup->item_count; i++)
		if (lookup->items[i].source > furthest)
			furthest = lookup->items[i].source;
	request_add_header(request, "Cache-Control", TEXT("no-cache"));
	request_add_header(request, "Cache-Status", status[furthest]);
}

static void on_one(struct lookup *lookup)
{
	struct wanted *wanted = (struct wanted *)lookup; /* its first member */
	struct request *request = wanted->request;
	const struct lookup_item *item = lookup->items;
	if (lookup->error) {
		problem_reply(request, lookup->error, (struct text){0});
		return;
	}
	if (!item->known) {
		problem_reply(request, LU_UNKNOWN_SKU, (struct text){0});
		return;
	}
	add_cache_headers(request, lookup);
	if (item->source != LOOKUP_STALE) {
		/* A stale answer has no tag: whoever revalidates it must get a body that no longer says so. */
		char tag[ETAG_BYTES_MAX];
		struct text etag = {tag, render_etag(&item->figures, request_principal(request), tag)};
		request_add_header(request, "ETag", etag);
		if (request_knows_tag(request, etag)) {
			request_reply(request, 304, "application/json", (struct text){0});
			return;
		}
	}
	struct json_writer w = json_writer(loop_out(loop_of(request)));
	render_availability(&w, item, request_principal(request));
	request_reply_json(request, 200, w.out);
}

static void on_several(struct lookup *lookup)
{
	struct wanted *wanted = (struct wanted *)lookup;
	struct request *request = wanted->request;
	if (lookup->error) {
		problem_reply(request, lookup->error, (struct text){0});
		return;
	}
	add_cache_headers(request, lookup);
	struct json_writer w = json_writer(loop_out(loop_of(request)));
	json_object_open(&w);
	json_key(&w, "items");
	json_array_open(&w);
	for (size_t i = 0; i < lookup->item_count; i++)
		render_availability(&w, &lookup->items[i], request_principal(request));
	json_array_close(&w);
	json_object_close(&w);
	request_reply_json(request, 200, w.out);
}

/* --- routes ------------------------------------------------------------------------------------------------------- */

void availability_get(struct request *request)
{
	struct text sku;
	if (!take_query_names(request, (const char *const[]){NULL}) || !take_path_sku(request, &sku))
		return;
	struct wanted *wanted = wanted_new(request, 1);
	wanted->items[0].sku = sku;
	run(wanted, on_one);
}

void availability_list(struct request *request)
{
	struct arena *arena = request_arena(request);
	if (!take_query_lists(request, (const char *const[]){"sku", NULL}))
		return;
	struct text sku;
	size_t count = 0;
	while (count <= LU_LOOKUP_MAX && request_query(request, "sku", count, &sku)) {
		if (text_check_sku(sku)) {
			problem_reply(request, LU_INVALID_SKU,
			              arena_printf(arena, "The query's `sku` number %zu is not a SKU code. %s", count + 1,
			                           lu_error_mend(LU_INVALID_SKU)));
			return;
		}
		count++;
	}
	if (!count || count > LU_LOOKUP_MAX) {
		problem_reply(request, LU_INVALID_FIELD,
		              arena_printf(arena, "The query must have 1 to %d `sku`: ?sku=A&sku=B.", LU_LOOKUP_MAX));
		return;
	}
	struct wanted *wanted = wanted_new(request, count);
	for (size_t i = 0; i < count; i++)
		if (request_query(request, "sku", i, &sku))
			wanted->items[i].sku = sku;
	run(wanted, on_several);
}

void availability_post(struct request *request)
{
	json_t *body;
	struct fault fault;
	struct text *skus;
	size_t count;
	if (!take_query_names(request, (const char *const[]){NULL}))
		return;
	if (!request_says_json(request) || !plain_skus(request_body(request), request_arena(request), &skus, &count)) {
		if (!take_json(request, true, &body))
			return;
		if (!body_skus(body, request_arena(request), &skus, &count, &fault)) {
			reply_fault(request, &fault);
			return;
		}
	}
	struct wanted *wanted = wanted_new(request, count);
	for (size_t i = 0; i < count; i++)
		wanted->items[i].sku = skus[i];
	run(wanted, on_several);
}
