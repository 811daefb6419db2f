/* The reader: hits on the event loop, the rest through the loaders (read.h).
 *
 * Happy path: reader_lookup() queues; when the loop's tick is over, one call of `read` asks for every SKU wanted, each
 * once; its reply is decoded, the lease is checked *after* it (I8), V's are served.
 * Everything else becomes a load: absent → with a ticket (miss); another's F or I, a foreign cell, no lease, Redis
 * away, FENCED (also reported) → plain (bypass).
 * While a few calls are under way, look-ups gather for the next: the busier, the fewer calls. A look-up shares only a
 * call not yet sent when it arrives: joining one under way could answer with what was true before it began (P2).
 */
#include "inventory/read.h"

#include <event2/event.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mailbox.h"
#include "base/metrics.h"
#include "base/sync.h"
#include "base/text.h"
#include "inventory/inventory_internal.h"

#define CALLS_MAX 2        /* of `read` under way per reader */
#define MARKERS 256        /* markers of others watched, by hash */
#define MARKER_MS_MAX 1000 /* an I older than this is healed */
#define WATCH_MS_MAX 2000  /* so long a place is kept for it */

/* An I seen: which, since when. Two in one place take turns: a writer that was killed may leave many more than there are
 * places, and if each that is seen began the watch anew, none would grow old. */
struct marker {
	uint64_t sku, token;
	int64_t since_ns;
};

struct read_call;

struct reader {
	struct inventory *inventory;
	struct event_base *base;
	struct mailbox *mailbox;
	struct redis_async *redis; /* NULL: none configured */
	struct event *flush;
	struct lookup *first, **last; /* waiting for the next call */
	unsigned calls;               /* under way */
	size_t loads;                 /* with the loaders */
	struct read_call *spare;      /* calls are kept for the next, with their arenas */
	bool stopping;
	struct marker markers[MARKERS];
};

/* One call of `read`: its look-ups and the distinct SKUs it asks for. */
struct read_call {
	struct reader *reader;
	struct read_call *next;
	struct arena arena;
	char namespace[CELL_NAMESPACE_BYTES + 1];
	bool lease; /* asked under a lease; else only for those who allow stale */
	struct text *skus;
	size_t sku_count;
	struct wanted {
		struct lookup *lookup;
		struct lookup_item *item;
		size_t sku; /* index into skus */
	} * wanted;
	size_t wanted_count;
};

/* One item on its way through the loaders. */
struct item_load {
	struct load load;
	struct lookup *lookup;
	struct lookup_item *item;
};

/* --- ends of an item ---------------------------------------------------------------------------------------------- */

static void item_done(struct lookup *lookup)
{
	CHECK(lookup->waiting > 0);
	if (--lookup->waiting == 0)
		lookup->on_done(lookup);
}

static void item_serve(struct lookup *lookup, struct lookup_item *item, const struct figures *figures,
                       enum lookup_source source)
{
	item->known = true;
	item->figures = *figures;
	item->source = source;
	item_done(lookup);
}

static void on_loaded(struct mailbox_item *mailbox_item)
{
	struct item_load *il = (struct item_load *)mailbox_item;
	struct lookup *lookup = il->lookup;
	struct lookup_item *item = il->item;
	lookup->reader->loads--;
	if (il->load.error) {
		lookup->error = il->load.error;
	} else {
		item->known = il->load.known;
		item->figures = il->load.figures;
		metric_add(item->source == LOOKUP_MISS ? METRIC_LOOKUP_MISSES : METRIC_LOOKUP_BYPASSES, 1);
	}
	item_done(lookup);
}

static void item_load(struct reader *r, struct lookup *lookup, struct lookup_item *item, bool fill, bool heal)
{
	struct item_load *il = ARENA_NEW(lookup->arena, struct item_load);
	il->load = (struct load){.item.deliver = on_loaded,
	                         .mailbox = r->mailbox,
	                         .sku = item->sku,
	                         .deadline_ns = lookup->deadline_ns,
	                         .fill = fill,
	                         .heal = heal};
	il->lookup = lookup;
	il->item = item;
	item->source = fill ? LOOKUP_MISS : LOOKUP_BYPASS;
	enum lu_error error = r->stopping ? LU_SHUTTING_DOWN : loaders_load(r->inventory->loaders, &il->load);
	if (error) {
		lookup->error = error;
		item_done(lookup);
	} else {
		r->loads++;
	}
}

/* --- a reply ------------------------------------------------------------------------------------------------------ */

/* True when this marker has been there for longer than a live writer needs; then not again for as long. */
static bool marker_is_old(struct reader *r, struct text sku, struct text token)
{
	uint64_t sku_hash = text_hash(sku), token_hash = text_hash(token);
	struct marker *m = &r->markers[sku_hash % MARKERS];
	int64_t now = clock_boottime_ns(), watched_ns = m->since_ns ? now - m->since_ns : INT64_MAX;
	bool same_sku = m->sku == sku_hash, same = same_sku && m->token == token_hash;
	if (same && m->since_ns) {
		if (watched_ns < MARKER_MS_MAX * NS_PER_MS)
			return false;
		m->since_ns = 0;
		return true;
	}
	/* A writer at work is marked by one token after the other: whoever else comes next may have the place. */
	if (same_sku && m->since_ns)
		m->since_ns = 0;
	else if (watched_ns >= WATCH_MS_MAX * NS_PER_MS)
		*m = (struct marker){sku_hash, token_hash, now};
	return false;
}

/* PostgreSQL is silent, the caller allows so much staleness: the cell was right when the lease ended, or is newer. */
static bool may_be_stale(struct reader *r, const struct lookup *lookup)
{
	struct epoch *epoch = r->inventory->epoch;
	return lookup->max_stale_s > 0 && !epoch_database_reachable(epoch) &&
	       epoch_database_silent_ns(epoch) <= lookup->max_stale_s * NS_PER_S;
}

static void deal(struct reader *r, const struct wanted *w, const struct cell *cell, bool lease)
{
	bool value = cell && cell->state == CELL_VALUE;
	if (value && lease) {
		metric_add(METRIC_LOOKUP_HITS, 1);
		item_serve(w->lookup, w->item, &cell->figures, LOOKUP_HIT);
	} else if (value && may_be_stale(r, w->lookup)) {
		metric_add(METRIC_LOOKUP_STALE, 1);
		item_serve(w->lookup, w->item, &cell->figures, LOOKUP_STALE);
	} else {
		bool intent = cell && cell->state == CELL_INTENT;
		item_load(r, w->lookup, w->item, lease && cell && cell->state == CELL_ABSENT,
		          intent && lease && marker_is_old(r, w->item->sku, cell->token));
	}
}

static void call_done(struct read_call *call)
{
	struct reader *r = call->reader;
	arena_reset(&call->arena);
	call->next = r->spare;
	r->spare = call;
	r->calls--;
	if (r->first)
		event_active(r->flush, EV_TIMEOUT, 0);
}

static void on_reply(enum lu_error error, const redisReply *reply, void *context)
{
	struct read_call *call = context;
	struct reader *r = call->reader;
	SYNC_POINT("read-answered");
	redisReply *const *elements;
	enum cell_reply kind = error ? CELL_FAILED : cell_read_kind(reply, call->sku_count, &elements);
	if (kind == CELL_FENCED) {
		metric_add(METRIC_CELL_FENCED, 1);
		epoch_report(r->inventory->epoch, call->namespace, "a read was fenced");
	} else if (kind == CELL_FAILED) {
		metric_add(METRIC_CELL_ERRORS, 1);
	}
	struct cell *cells = NULL;
	if (kind == CELL_OK) {
		cells = ARENA_ARRAY(&call->arena, call->sku_count, struct cell);
		for (size_t i = 0; i < call->sku_count; i++) {
			const redisReply *e = elements[i];
			bool present = e->type != REDIS_REPLY_NIL;
			struct text raw = {present ? e->str : NULL, present ? (size_t)e->len : 0};
			cells[i] = cell_decode(raw, present, call->skus[i]);
		}
	}
	/* After the reply: a lease that ran out meanwhile covers nothing of it (I8). */
	bool lease = call->lease && kind == CELL_OK && epoch_lease_covers(r->inventory->epoch, call->namespace);
	for (size_t i = 0; i < call->wanted_count; i++)
		deal(r, &call->wanted[i], cells ? &cells[call->wanted[i].sku] : NULL, lease);
	call_done(call);
}

/* --- a call ------------------------------------------------------------------------------------------------------- */

static struct read_call *call_new(struct reader *r)
{
	struct read_call *call = r->spare;
	if (call) {
		r->spare = call->next;
	} else {
		call = calloc(1, sizeof *call);
		CHECK(call);
		arena_init(&call->arena, 16 * 1024);
		call->reader = r;
	}
	call->sku_count = call->wanted_count = 0;
	call->lease = false;
	r->calls++;
	return call;
}

/* The look-ups of the next call: as many as fit into LU_CELLS_MAX keys. */
static struct lookup *take_lookups(struct reader *r, size_t *ret_items)
{
	struct lookup *first = r->first, **end = &first;
	*ret_items = 0;
	while (*end && *ret_items + (*end)->item_count <= LU_CELLS_MAX) {
		*ret_items += (*end)->item_count;
		end = &(*end)->next;
	}
	r->first = *end;
	if (!r->first)
		r->last = &r->first;
	*end = NULL;
	return first;
}

/* Each SKU once, by a table of indices as large as twice the items. */
static size_t sku_index(struct read_call *call, size_t *table, size_t mask, struct text sku)
{
	for (size_t at = text_hash(sku) & mask;; at = (at + 1) & mask) {
		if (!table[at]) {
			call->skus[call->sku_count] = sku;
			table[at] = ++call->sku_count;
			return table[at] - 1;
		}
		if (text_equal(call->skus[table[at] - 1], sku))
			return table[at] - 1;
	}
}

static void call_fill(struct read_call *call, struct lookup *lookups, size_t items)
{
	size_t size = 4;
	while (size < 2 * items)
		size *= 2;
	size_t *table = ARENA_ARRAY(&call->arena, size, size_t);
	call->skus = ARENA_ARRAY(&call->arena, items, struct text);
	call->wanted = ARENA_ARRAY(&call->arena, items, struct wanted);
	for (struct lookup *l = lookups; l; l = l->next)
		for (size_t i = 0; i < l->item_count; i++)
			call->wanted[call->wanted_count++] = (struct wanted){l, &l->items[i],
			                                                     sku_index(call, table, size - 1, l->items[i].sku)};
}

static void on_flush(evutil_socket_t fd, short what, void *context)
{
	struct reader *r = context;
	while (r->first && r->calls < CALLS_MAX) {
		size_t items;
		struct lookup *lookups = take_lookups(r, &items);
		struct read_call *call = call_new(r);
		call_fill(call, lookups, items);
		call->lease = epoch_lease(r->inventory->epoch, call->namespace);
		bool stale = !call->lease && !epoch_database_reachable(r->inventory->epoch);
		if (stale)
			epoch_last_namespace(r->inventory->epoch, call->namespace);
		if (r->redis && !r->stopping && (call->lease || (stale && call->namespace[0]))) {
			struct redis_command read[2];
			cell_read(&call->arena, text_of(call->namespace), call->skus, call->sku_count, read);
			metric_add(METRIC_CELL_READ, 1);
			SYNC_POINT("read-asked");
			redis_async_call_two(r->redis, read, on_reply, call);
			continue;
		}
		for (size_t i = 0; i < call->wanted_count; i++)
			deal(r, &call->wanted[i], NULL, false);
		call_done(call);
	}
}

void reader_lookup(struct reader *r, struct lookup *lookup)
{
	CHECK(lookup->item_count > 0 && lookup->item_count <= LU_LOOKUP_MAX);
	lookup->reader = r;
	lookup->error = LU_OK;
	lookup->waiting = lookup->item_count;
	lookup->next = NULL;
	bool first = !r->first;
	*r->last = lookup;
	r->last = &lookup->next;
	/* Runs when every socket that is ready in this tick has been read. */
	if (first && r->calls < CALLS_MAX)
		event_active(r->flush, EV_TIMEOUT, 0);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct reader *reader_new(struct inventory *inventory, struct event_base *base, struct mailbox *mailbox)
{
	struct reader *r = calloc(1, sizeof *r);
	CHECK(r);
	r->inventory = inventory;
	r->base = base;
	r->mailbox = mailbox;
	r->last = &r->first;
	r->flush = event_new(base, -1, 0, on_flush, r);
	CHECK(r->flush);
	if (inventory->redis)
		r->redis = redis_async_new(base, inventory->redis, inventory->config->redis_timeout_ms);
	return r;
}

void reader_free(struct reader *r)
{
	r->stopping = true;
	if (r->redis)
		redis_async_free(r->redis); /* fails the calls under way: their items end here, for want of loaders */
	while (r->first)
		on_flush(-1, 0, r);
	while (r->loads) { /* the loaders answer everything they took */
		struct pollfd wait = {.fd = mailbox_fd(r->mailbox), .events = POLLIN};
		poll(&wait, 1, 100);
		mailbox_deliver(r->mailbox);
	}
	CHECK(r->calls == 0);
	while (r->spare) {
		struct read_call *call = r->spare;
		r->spare = call->next;
		arena_done(&call->arena);
		free(call);
	}
	event_free(r->flush);
	free(r);
}
