/* The table of caches: how each sells and looks, and the exact interleaving that shows what it is worth (race_cache.h).
 *
 * Each sells by the same conditional UPDATE, which oversells nothing; what is raced is what its readers are shown.
 * (channel-counter sells by its counters, and that is its fault.) An interleaving is a few steps of three clients in the
 * one order that matters; a step is `wrong` when it was answered before that the last unit has been sold.
 */
#include <stdarg.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/text.h"
#include "cache/cell.h"
#include "cmd/race_cache.h"
#include "store/epoch.h"
#include "store/sku.h"

#define PAUSE_MS 3 /* of a busy process, between two of its steps */
#define PROTOCOL_MS 2000
#define WARM_MS 10000 /* a service that has just started opens its epoch after 2 s */

__attribute__((format(printf, 4, 5))) static bool tell(struct cache_show *show, const char *who, bool wrong,
                                                       const char *format, ...)
{
	struct race_cache_step *step = &show->cache->steps[show->cache->step_count++];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(step->said, sizeof step->said, format, arguments);
	va_end(arguments);
	step->who = who;
	step->wrong = wrong;
	return true;
}

/* After the sale was answered: whoever is shown the unit is shown what is gone. */
static bool tell_look(struct cache_show *show, const char *who, int64_t left)
{
	return tell(show, who, left > 0, left > 0 ? "looks: %lld left, and it was sold before" : "looks: %lld left",
	            (long long)left);
}

/* --- cache-aside, which all but the last two are ------------------------------------------------------------------ */

static bool aside_look(struct cache_client *client, int64_t ttl_ms, struct cache_figure *ret_figure)
{
	bool found;
	if (!cache_entry_get(client, &found, ret_figure) || found)
		return found;
	if (!cache_stock_look(client, ret_figure))
		return false;
	cache_pause(client, PAUSE_MS);
	return cache_entry_set(client, *ret_figure, ttl_ms);
}

static bool look_with_ttl(struct cache_client *client, struct cache_figure *ret_figure)
{
	return aside_look(client, CACHE_TTL_MS, ret_figure);
}

static bool look_without_ttl(struct cache_client *client, struct cache_figure *ret_figure)
{
	return aside_look(client, 0, ret_figure);
}

static bool sell(struct cache_client *client, bool *ret_sold, int64_t *ret_version)
{
	struct cache_figure figure = {0};
	bool taken = cache_stock_take(client, ret_sold, &figure);
	*ret_version = figure.version;
	return taken;
}

static bool sell_deleting_before(struct cache_client *client, bool *ret_sold, int64_t *ret_version)
{
	if (!cache_begin(client) || !sell(client, ret_sold, ret_version) || !cache_entry_delete(client))
		return false;
	cache_pause(client, PAUSE_MS);
	return cache_commit(client);
}

static bool sell_deleting_after(struct cache_client *client, bool *ret_sold, int64_t *ret_version)
{
	return cache_begin(client) && sell(client, ret_sold, ret_version) && cache_commit(client) &&
	       cache_entry_delete(client);
}

static bool show_ttl_only(struct cache_show *show)
{
	struct cache_figure figure;
	bool sold;
	if (!look_with_ttl(show->page, &figure))
		return false;
	tell(show, "page", false, "looks: not cached; PostgreSQL says %lld; caches it for %d ms", (long long)figure.left,
	     CACHE_TTL_MS);
	if (!cache_stock_take(show->till, &sold, &figure))
		return false;
	tell(show, "till", false, "sells the last unit; COMMIT; answered");
	return look_with_ttl(show->bot, &figure) && tell_look(show, "bot", figure.left);
}

static bool show_before(struct cache_show *show)
{
	struct cache_figure figure;
	bool sold;
	if (!cache_begin(show->till) || !cache_stock_take(show->till, &sold, &figure) || !cache_entry_delete(show->till))
		return false;
	tell(show, "till", false, "BEGIN; takes the last unit; DEL");
	if (!look_without_ttl(show->page, &figure))
		return false;
	tell(show, "page", false, "looks: not cached; PostgreSQL still says %lld; caches it", (long long)figure.left);
	if (!cache_commit(show->till))
		return false;
	tell(show, "till", false, "COMMIT; answered");
	return look_without_ttl(show->bot, &figure) && tell_look(show, "bot", figure.left);
}

static bool show_after(struct cache_show *show)
{
	struct cache_figure figure, late;
	int64_t version;
	bool found, sold;
	if (!cache_entry_get(show->page, &found, &late) || !cache_stock_look(show->page, &late))
		return false;
	tell(show, "page", false, "looks: not cached; PostgreSQL says %lld; is held up", (long long)late.left);
	if (!sell_deleting_after(show->till, &sold, &version))
		return false;
	tell(show, "till", false, "sells the last unit; COMMIT; DEL; answered");
	if (!cache_entry_set(show->page, late, 0))
		return false;
	tell(show, "page", false, "goes on: caches the %lld that it had read", (long long)late.left);
	return look_without_ttl(show->bot, &figure) && tell_look(show, "bot", figure.left);
}

/* --- copies ------------------------------------------------------------------------------------------------------- */

/* A balancer sends each read to one of them. */
static bool look_at_a_copy(struct cache_client *client, struct cache_figure *ret_figure)
{
	return cache_copy_look(client, (int)cache_random(client, CACHE_COPIES), ret_figure);
}

static bool show_copies(struct cache_show *show)
{
	struct cache_figure figure;
	bool sold;
	if (!cache_stock_take(show->till, &sold, &figure))
		return false;
	tell(show, "till", false, "sells the last unit; COMMIT; answered");
	if (!cache_copy_look(show->bot, 0, &figure))
		return false;
	tell_look(show, "bot", figure.left);
	if (!cache_copy_feed(show->till, 0) || !cache_copy_look(show->bot, 0, &figure))
		return false;
	tell(show, "bot", figure.left > 0, "the first copy has caught up; looks again: %lld left", (long long)figure.left);
	if (!cache_copy_look(show->bot, 1, &figure))
		return false;
	return tell(show, "bot", figure.left > 0, "is sent to the second copy: %lld left%s", (long long)figure.left,
	            figure.left > 0 ? ", the past is back" : "");
}

/* --- a counter per channel ---------------------------------------------------------------------------------------- */

static bool put_counters(struct cache_client *client)
{
	for (int channel = 0; channel < CACHE_CHANNELS; channel++)
		if (!cache_counter_put(client, channel))
			return false;
	return true;
}

static bool sell_by_counter(struct cache_client *client, bool *ret_sold, int64_t *ret_version)
{
	if (!cache_counter_take(client, (int)cache_random(client, CACHE_CHANNELS), ret_sold))
		return false;
	*ret_version = *ret_sold ? atomic_fetch_add(&client->bench->sold, 1) + 1 : 0;
	return true;
}

/* Its channel's counter knows of its channel's sales. */
static bool look_at_a_counter(struct cache_client *client, struct cache_figure *ret_figure)
{
	int64_t left;
	if (!cache_counter_get(client, (int)cache_random(client, CACHE_CHANNELS), &left))
		return false;
	*ret_figure = (struct cache_figure){left, client->bench->units - left};
	return true;
}

static bool show_counters(struct cache_show *show)
{
	int64_t left;
	bool sold;
	if (!cache_counter_take(show->till, 0, &sold))
		return false;
	tell(show, "till", false, "takes the last unit off its own counter; answered");
	if (!cache_counter_get(show->bot, 1, &left))
		return false;
	tell_look(show, "bot", left);
	if (!cache_counter_take(show->bot, 1, &sold))
		return false;
	show->cache->oversold += sold;
	return tell(show, "bot", sold, sold ? "sells it, too: 2 sold of 1" : "is refused");
}

/* --- ours --------------------------------------------------------------------------------------------------------- */

static bool sell_by_service(struct cache_client *client, bool *ret_sold, int64_t *ret_version)
{
	struct cache_figure figure = {0};
	bool asked = cache_service_sell(client, ret_sold, &figure);
	*ret_version = figure.version;
	return asked;
}

static bool look_at_service(struct cache_client *client, struct cache_figure *ret_figure)
{
	bool hit;
	return cache_service_look(client, ret_figure, &hit);
}

/* Measured is the cache, so it is waited for until Redis answers. */
static bool wait_for_hits(struct cache_client *client)
{
	int64_t deadline_ns = deadline_in_ms(WARM_MS);
	struct cache_figure figure;
	bool hit = false;
	while (!hit && deadline_left_ms(deadline_ns) && !race_stopping())
		if (!cache_service_look(client, &figure, &hit))
			return false;
	return true;
}

/* A reader of our protocol, done by hand so that it can be held up where a DEL would lose: ticket, SELECT, and much
 * later the fill. */
struct slow_reader {
	struct arena arena;
	struct pg *pg;
	struct epoch_row epoch;
	struct text sku, ticket;
	struct sku_figures_row *row;
};

static bool reader_swaps(struct slow_reader *reader, struct cache_client *client, struct text old, struct text new,
                         bool *ret_done)
{
	redisReply *reply __attribute__((cleanup(redis_reply_done))) = NULL;
	const int64_t px_ms = CELL_TICKET_MS;
	if (cell_run(client->redis, cell_cas(&reader->arena, reader->epoch.namespace, &reader->sku, &old, &new, &px_ms, 1),
	             1, deadline_in_ms(PROTOCOL_MS), &reply) != CELL_OK)
		return cache_fails(client, "Redis does not let a cell be filled: %s", redis_error(client->redis));
	*ret_done = reply->element[0]->integer == 1;
	return true;
}

/* Its writer has left the new figure there. Redis may evict any figure at any time, and so do we this one of ours. */
static bool reader_evicts(struct slow_reader *reader, struct cache_client *client)
{
	redisReply *reply __attribute__((cleanup(redis_reply_done))) = NULL;
	struct text ns = reader->epoch.namespace;
	struct text key = arena_printf(&reader->arena, "%.*s:%s", (int)ns.size, ns.data, client->bench->sku);
	return !redis_call(client->redis, 2, (struct text[]){TEXT("DEL"), key}, deadline_in_ms(PROTOCOL_MS), &reply) ||
	       cache_fails(client, "Redis: %s", redis_error(client->redis));
}

static bool show_slow_reader(struct cache_show *show, struct slow_reader *reader)
{
	char ticket[TOKEN_BYTES + 1];
	struct cache_figure figure;
	bool done, sold, hit;
	token_new(ticket);
	reader->ticket = cell_ticket(&reader->arena, ticket);
	if (!reader_evicts(reader, show->page) || !reader_swaps(reader, show->page, TEXT(""), reader->ticket, &done))
		return false;
	if (!done)
		return cache_fails(show->page, "no ticket is to be had for a cell that is not there");
	if (sku_read(reader->pg, &reader->arena, &reader->sku, 1, deadline_in_ms(PROTOCOL_MS), &reader->row))
		return cache_fails(show->page, "PostgreSQL: %s", pg_error(reader->pg)->message);
	tell(show, "page", false, "looks: not cached; takes a ticket; PostgreSQL says %lld; is held up",
	     (long long)reader->row->figures.on_hand);
	if (!cache_service_sell(show->till, &sold, &figure))
		return false;
	tell(show, "till", false, "sells the last unit; marks the cell, COMMIT, publishes; answered");
	if (!reader_swaps(reader, show->page, reader->ticket,
	                  cell_value(&reader->arena, &reader->row->figures, reader->sku), &done))
		return false;
	tell(show, "page", done, done ? "goes on: its fill is taken" : "goes on: its ticket is gone, the fill is refused");
	return cache_service_look(show->bot, &figure, &hit) && tell_look(show, "bot", figure.left);
}

/* Against a service whose database is not ours to look into: before and after. */
static bool show_answers(struct cache_show *show)
{
	struct cache_figure figure;
	bool sold, hit;
	if (!cache_service_look(show->page, &figure, &hit))
		return false;
	tell(show, "page", false, "looks: %lld left", (long long)figure.left);
	if (!cache_service_sell(show->till, &sold, &figure))
		return false;
	tell(show, "till", false, "sells the last unit; answered");
	return cache_service_look(show->bot, &figure, &hit) && tell_look(show, "bot", figure.left);
}

static bool show_service(struct cache_show *show)
{
	const struct race_service *service = &show->page->bench->race->service;
	struct slow_reader reader = {.sku = text_of(show->page->bench->sku)};
	if (!service->own)
		return show_answers(show);
	arena_init(&reader.arena, 4096);
	reader.pg = pg_new(&(struct pg_options){.url = service->database_url, .application_name = "lastunit race"});
	int64_t deadline_ns = deadline_in_ms(PROTOCOL_MS);
	enum lu_error error = pg_connect(reader.pg, deadline_ns);
	if (!error)
		error = epoch_lease_read(reader.pg, &reader.arena, deadline_ns, &reader.epoch);
	bool shown = error ? cache_fails(show->page, "PostgreSQL: %s", pg_error(reader.pg)->message)
	             : reader.epoch.state == EPOCH_OPEN ? show_slow_reader(show, &reader)
	                                                : show_answers(show);
	pg_free(reader.pg);
	arena_done(&reader.arena);
	return shown;
}

const struct cache_kind cache_kinds[CACHE_KINDS] = {
	{.name = "ttl-only",
     .does = "a cached figure lives for 200 ms, and nobody tells it of sales",
     .put = cache_stock_put,
     .sell = sell,
     .look = look_with_ttl,
     .show = show_ttl_only},
	{.name = "del-before-commit",
     .does = "the sale deletes the cached figure, then commits",
     .put = cache_stock_put,
     .sell = sell_deleting_before,
     .look = look_without_ttl,
     .show = show_before},
	{.name = "del-after-commit",
     .does = "the sale commits, then deletes the cached figure",
     .put = cache_stock_put,
     .sell = sell_deleting_after,
     .look = look_without_ttl,
     .show = show_after},
	{.name = "lagging-copy",
     .does = "reads go to either of two copies, fed every 20 and every 100 ms",
     .feeds = true,
     .put = cache_stock_put,
     .sell = sell,
     .look = look_at_a_copy,
     .show = show_copies},
	{.name = "channel-counter",
     .does = "each of two channels has a counter of its own in Redis",
     .units = 100,
     .put = put_counters,
     .sell = sell_by_counter,
     .look = look_at_a_counter,
     .show = show_counters},
	{.name = "lastunit",
     .does = "a ticket to fill, a mark before COMMIT, the new figure before the answer",
     .must_hold = true,
     .service = true,
     .put = cache_service_put,
     .ready = wait_for_hits,
     .sell = sell_by_service,
     .look = look_at_service,
     .show = show_service},
};
