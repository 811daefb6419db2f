/* What Redis tells of the cells (status.h).
 *
 * Happy path: INFO, TIME, the identity; then the cells of the open namespace by SCAN and `read`, up to a bound. Markers
 * are looked at a second time after a second: a writer at work has gone on by then.
 * Failure modes: Redis away, slow or fenced is a fact and weakens nothing: reads come from PostgreSQL then.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "cache/cell.h"
#include "cmd/status.h"

#define CONNECT_MS 1000
#define PAGE_KEYS "1000"
#define PAGES_MAX 50 /* of SCAN; each costs Redis about a millisecond, whoever else's keys they are */
#define MARKERS_MAX 1000
#define MARKER_MS 1000 /* as long as a reader watches a marker before it has its cell healed */
#define SHOWN_MAX 3
#define NAMES_BYTES 700 /* of so many, each as log_quote() cuts it */
#define CLOCKS_APART_US_MAX 1000000

/* A marker seen, to be looked at again; or a foreign cell. */
struct sighting {
	struct text sku, raw;
};

struct look {
	struct status *status;
	struct redis *redis;
	struct text namespace;
	int64_t timeout_ms;
	struct sighting markers[MARKERS_MAX];
	size_t marker_count;
	struct sighting foreign[SHOWN_MAX];
};

static bool look_at_server(struct look *look)
{
	struct status_redis *s = &look->status->redis;
	struct arena *arena = look->status->arena;
	redisReply *info __attribute__((cleanup(redis_reply_done))) = NULL;
	redisReply *time __attribute__((cleanup(redis_reply_done))) = NULL;
	int64_t deadline_ns = deadline_in_ms(CONNECT_MS), before_us = clock_unix_us();
	if (redis_call(look->redis, 1, (struct text[]){TEXT("TIME")}, deadline_ns, &time))
		return false;
	int64_t here_us = before_us + (clock_unix_us() - before_us) / 2;
	if (time->type == REDIS_REPLY_ARRAY && time->elements == 2)
		s->clock_ahead_us = atoll(time->element[0]->str) * US_PER_S + atoll(time->element[1]->str) - here_us;
	if (redis_call(look->redis, 1, (struct text[]){TEXT("INFO")}, deadline_ns, &info) ||
	    info->type != REDIS_REPLY_STRING)
		return false;
	struct text text = {info->str, (size_t)info->len};
	s->version = arena_text(arena, redis_info_value(text, "redis_version"));
	s->policy = arena_text(arena, redis_info_value(text, "maxmemory_policy"));
	(void)text_to_int64(redis_info_value(text, "used_memory"), &s->memory_bytes);
	(void)text_to_int64(redis_info_value(text, "maxmemory"), &s->memory_bytes_max);
	if (llabs(s->clock_ahead_us) > CLOCKS_APART_US_MAX)
		weakness_add(&look->status->findings, "clocks_apart", "",
		             "Redis's clock is %.1f s %s this machine's: nothing is decided by it, but its owner should know",
		             (double)llabs(s->clock_ahead_us) / 1e6, s->clock_ahead_us > 0 ? "ahead of" : "behind");
	return true;
}

/* --- cells -------------------------------------------------------------------------------------------------------- */

static struct sighting keep(struct look *look, struct text sku, struct text raw)
{
	return (struct sighting){arena_text(look->status->arena, sku), arena_text(look->status->arena, raw)};
}

static void count_cell(struct look *look, struct text sku, const struct cell *cell)
{
	struct status_redis *s = &look->status->redis;
	switch (cell->state) {
	case CELL_ABSENT: /* it ended between the two questions */
		break;
	case CELL_VALUE:
		s->values++;
		break;
	case CELL_FILL:
		s->fills++;
		break;
	case CELL_INTENT:
		s->markers++;
		if (look->marker_count < MARKERS_MAX)
			look->markers[look->marker_count++] = keep(look, sku, cell->raw);
		break;
	case CELL_FOREIGN:
		if (s->foreign < SHOWN_MAX)
			look->foreign[s->foreign] = keep(look, sku, cell->raw);
		s->foreign++;
		break;
	}
}

/* One page of keys. True: there are more, and *cursor says where. */
static bool count_page(struct look *look, struct text pattern, char cursor[32])
{
	redisReply *reply __attribute__((cleanup(redis_reply_done))) = NULL;
	struct text scan[] = {TEXT("SCAN"), text_of(cursor), TEXT("MATCH"), pattern, TEXT("COUNT"), TEXT(PAGE_KEYS)};
	if (redis_call(look->redis, 6, scan, deadline_in_ms(CONNECT_MS), &reply) || reply->type != REDIS_REPLY_ARRAY ||
	    reply->elements != 2)
		return false;
	struct arena page;
	arena_init(&page, 1 << 16);
	const redisReply *keys = reply->element[1];
	struct text *skus = ARENA_ARRAY(&page, keys->elements, struct text);
	struct cell *cells = NULL;
	size_t count = 0, prefix = look->namespace.size + 1;
	for (size_t i = 0; i < keys->elements && count < LU_CELLS_MAX; i++) {
		const redisReply *key = keys->element[i];
		/* A probe's key begins with a control character; no SKU does. */
		if ((size_t)key->len > prefix && (unsigned char)key->str[prefix] >= ' ')
			skus[count++] = (struct text){key->str + prefix, (size_t)key->len - prefix};
	}
	enum cell_reply kind = CELL_OK;
	if (count)
		kind = cell_look(look->redis, &page, look->namespace, skus, count, deadline_in_ms(look->timeout_ms), &cells);
	for (size_t i = 0; kind == CELL_OK && i < count; i++)
		count_cell(look, skus[i], &cells[i]);
	snprintf(cursor, 32, "%s", reply->element[0]->str);
	look->status->redis.complete = kind == CELL_OK && strcmp(cursor, "0") == 0;
	arena_done(&page);
	return kind == CELL_OK && !look->status->redis.complete;
}

/* "A, B, C": the first ones. A stranger's key may be of any length and hold any bytes. */
static const char *names_of(const struct sighting *sightings, int64_t count, char out[NAMES_BYTES])
{
	size_t size = 0;
	*out = '\0';
	for (int64_t i = 0; i < count && i < SHOWN_MAX && size < NAMES_BYTES; i++)
		size += (size_t)snprintf(out + size, NAMES_BYTES - size, "%s%s", i ? ", " : "", log_quote(sightings[i].sku));
	return out;
}

/* Which markers still stand after a second, under the same token? */
static void watch_markers(struct look *look, int64_t seen_ns)
{
	struct status_redis *s = &look->status->redis;
	if (!look->marker_count)
		return;
	clock_sleep_until(seen_ns + (MARKER_MS + 100) * NS_PER_MS);
	struct text *skus = ARENA_ARRAY(look->status->arena, look->marker_count, struct text);
	struct cell *cells = NULL;
	for (size_t i = 0; i < look->marker_count; i++)
		skus[i] = look->markers[i].sku;
	if (cell_look(look->redis, look->status->arena, look->namespace, skus, look->marker_count,
	              deadline_in_ms(look->timeout_ms), &cells) != CELL_OK)
		return;
	struct sighting stuck[SHOWN_MAX];
	for (size_t i = 0; i < look->marker_count; i++)
		if (text_equal(cells[i].raw, look->markers[i].raw)) {
			if (s->stuck < SHOWN_MAX)
				stuck[s->stuck] = look->markers[i];
			s->stuck++;
		}
	char names[NAMES_BYTES];
	if (s->stuck)
		weakness_add(&look->status->findings, "markers_stuck", "",
		             "%lld %s stood for more than a second (%s): whoever wrote there died or is stopped. Look-ups"
		             " of such a SKU read PostgreSQL, and the next one has the cell healed",
		             (long long)s->stuck, text_plural(s->stuck, "marker has", "markers have"),
		             names_of(stuck, s->stuck, names));
}

static void count_cells(struct look *look)
{
	struct status_redis *s = &look->status->redis;
	char cursor[32] = "0", names[NAMES_BYTES];
	struct text pattern = arena_printf(look->status->arena, "%.*s:*", (int)look->namespace.size, look->namespace.data);
	bool more = true;
	s->counted = true;
	for (int pages = 0; more && pages < PAGES_MAX; pages++)
		more = count_page(look, pattern, cursor);
	if (s->foreign)
		weakness_add(&look->status->findings, "foreign_cells", "P2",
		             "%lld %s under the service's prefix not written by it (%s): another program writes there, and"
		             " could write what readers believe",
		             (long long)s->foreign, text_plural(s->foreign, "cell is", "cells are"),
		             names_of(look->foreign, s->foreign, names));
	watch_markers(look, clock_boottime_ns());
}

static bool look_at_all(struct look *look)
{
	struct status *status = look->status;
	char identity[160];
	if (!look_at_server(look) || weakness_look_redis(&status->findings, look->redis, deadline_in_ms(CONNECT_MS)) ||
	    cell_redis_identity(look->redis, deadline_in_ms(CONNECT_MS), identity))
		return false;
	const struct epoch_row *epoch = &status->database.epoch;
	if (epoch->state != EPOCH_OPEN)
		return true;
	status->redis.same = text_equal(epoch->redis_identity, text_of(identity));
	if (status->redis.same)
		count_cells(look);
	else
		weakness_add(&status->findings, "epoch_of_another_redis", "",
		             "the epoch was opened on another Redis, or on another life of this one: its cells are served to"
		             " nobody, and a running service opens the next epoch");
	return true;
}

void status_look_redis(struct status *status, const struct redis_address *address, int64_t timeout_ms)
{
	struct status_redis *s = &status->redis;
	s->configured = address != NULL;
	if (!address)
		return;
	struct look *look = ARENA_NEW(status->arena, struct look);
	*look = (struct look){.status = status,
	                      .redis = redis_new(address),
	                      .namespace = status->database.epoch.namespace,
	                      .timeout_ms = timeout_ms};
	s->reachable = !redis_connect(look->redis, deadline_in_ms(CONNECT_MS)) && look_at_all(look);
	if (!s->reachable) {
		s->error = arena_text(status->arena, text_of(redis_error(look->redis)));
		char place[REDIS_PLACE_BYTES];
		weakness_add(
			&status->findings, "redis_unreachable", "",
			"Redis does not answer this command at %s; if it does not answer the service either, every read"
			" comes from PostgreSQL, slower and as true, and each outage costs writes one pause of about a lease",
			redis_address_place(address, place));
	}
	redis_free(look->redis);
}
