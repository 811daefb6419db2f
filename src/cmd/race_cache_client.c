/* One client's steps: stock row, copy, cache entry, counter, calls of the service (race_cache.h).
 *
 * Happy path: each step is one statement, one command or one call. Failure modes: a backend that is gone, or answers what
 * no step expects, is a sentence in client->why; nothing is repeated, for a control is shown as its users wrote it. Only
 * the service is asked again when it says that it is overloaded, as its clients do.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/race_cache.h"

#define STEP_MS 5000
#define PAUSE_IN 4 /* one step in so many is followed by a pause */
#define OVERLOADED_PAUSE_MS 20

bool cache_fails(struct cache_client *client, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(client->why, sizeof client->why, format, arguments);
	va_end(arguments);
	return false;
}

bool cache_client_open(struct cache_client *client, struct cache_bench *bench, uint64_t seed)
{
	const struct race_service *service = &bench->race->service;
	*client = (struct cache_client){.bench = bench, .random = seed * 2 + 1};
	arena_init(&client->arena, 4096);
	client->pg = race_session(bench->race);
	client->redis = redis_new(&bench->redis);
	if (service->there)
		client->caller = http_caller_new(service->url, STEP_MS);
	if (!client->pg)
		return cache_fails(client, "%s", bench->race->why);
	if (redis_connect(client->redis, deadline_in_ms(STEP_MS)))
		return cache_fails(client, "Redis: %s", redis_error(client->redis));
	return true;
}

void cache_client_close(struct cache_client *client)
{
	if (!client->bench)
		return;
	pg_free(client->pg);
	redis_free(client->redis);
	http_caller_free(client->caller);
	arena_done(&client->arena);
}

/* SplitMix64: the same seed draws the same. */
uint64_t cache_random(struct cache_client *client, uint64_t bound)
{
	uint64_t z = client->random += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (z ^ (z >> 31)) % bound;
}

void cache_pause(struct cache_client *client, int64_t ms_max)
{
	if (client->pauses && cache_random(client, PAUSE_IN) == 0)
		clock_sleep_until(clock_boottime_ns() + (int64_t)cache_random(client, (uint64_t)(ms_max * NS_PER_MS)));
}

/* --- PostgreSQL --------------------------------------------------------------------------------------------------- */

static bool query(struct cache_client *client, const struct pg_statement *statement, const int64_t *numbers,
                  size_t count, PGresult **ret_result)
{
	struct pg_params params;
	arena_reset(&client->arena);
	pg_params_init(&params, &client->arena);
	pg_add_text(&params, text_of(client->bench->sku));
	for (size_t i = 0; i < count; i++)
		pg_add_int8(&params, numbers[i]);
	if (pg_query(client->pg, statement, &params, deadline_in_ms(STEP_MS), ret_result))
		return cache_fails(client, "PostgreSQL: %s", pg_error(client->pg)->message);
	return true;
}

/* A statement whose one row, if any, is (on_hand, version). */
static bool query_figure(struct cache_client *client, const struct pg_statement *statement, const int64_t *numbers,
                         size_t count, bool *ret_found, struct cache_figure *ret_figure)
{
	PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
	if (!query(client, statement, numbers, count, &result))
		return false;
	*ret_found = PQntuples(result) == 1;
	if (*ret_found)
		*ret_figure = (struct cache_figure){pg_get_int(result, 0, 0), pg_get_int(result, 0, 1)};
	return true;
}

bool cache_stock_put(struct cache_client *client)
{
	static const struct pg_statement stock = {"race_cache_put",
	                                          "INSERT INTO cached_stock (sku, on_hand, version) VALUES ($1, $2, 1)"};
	static const struct pg_statement copies = {"race_cache_put_copies",
	                                           "INSERT INTO stock_copy (copy, sku, on_hand, version)"
	                                           " SELECT c, $1, $2, 1 FROM generate_series(0, $3 - 1) c"};
	PGresult *row __attribute__((cleanup(pg_clear))) = NULL;
	PGresult *rows __attribute__((cleanup(pg_clear))) = NULL;
	return query(client, &stock, &client->bench->units, 1, &row) &&
	       query(client, &copies, (int64_t[]){client->bench->units, CACHE_COPIES}, 2, &rows);
}

bool cache_stock_look(struct cache_client *client, struct cache_figure *ret_figure)
{
	static const struct pg_statement look = {"race_cache_look",
	                                         "SELECT on_hand, version FROM cached_stock WHERE sku = $1"};
	bool found;
	return query_figure(client, &look, NULL, 0, &found, ret_figure) &&
	       (found || cache_fails(client, "the row of %s has gone", client->bench->sku));
}

bool cache_begin(struct cache_client *client)
{
	return !pg_command(client->pg, "BEGIN", deadline_in_ms(STEP_MS)) ||
	       cache_fails(client, "PostgreSQL: %s", pg_error(client->pg)->message);
}

bool cache_stock_take(struct cache_client *client, bool *ret_sold, struct cache_figure *ret_figure)
{
	static const struct pg_statement take = {"race_cache_take",
	                                         "UPDATE cached_stock SET on_hand = on_hand - 1, version = version + 1"
	                                         " WHERE sku = $1 AND on_hand > 0 RETURNING on_hand, version"};
	return query_figure(client, &take, NULL, 0, ret_sold, ret_figure);
}

bool cache_commit(struct cache_client *client)
{
	bool sent;
	return !pg_commit(client->pg, deadline_in_ms(STEP_MS), &sent) ||
	       cache_fails(client, "PostgreSQL: %s", pg_error(client->pg)->message);
}

bool cache_copy_feed(struct cache_client *client, int copy)
{
	static const struct pg_statement feed =
		{"race_cache_feed",
	     "UPDATE stock_copy c SET on_hand = s.on_hand, version = s.version FROM cached_stock s"
	     " WHERE c.sku = $1 AND s.sku = $1 AND c.copy = $2"};
	PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
	return query(client, &feed, &(int64_t){copy}, 1, &result);
}

bool cache_copy_look(struct cache_client *client, int copy, struct cache_figure *ret_figure)
{
	static const struct pg_statement look = {"race_cache_copy_look",
	                                         "SELECT on_hand, version FROM stock_copy WHERE sku = $1 AND copy = $2"};
	bool found;
	return query_figure(client, &look, &(int64_t){copy}, 1, &found, ret_figure) &&
	       (found || cache_fails(client, "the copy of %s has gone", client->bench->sku));
}

/* --- Redis -------------------------------------------------------------------------------------------------------- */

static bool call(struct cache_client *client, int argc, const struct text *argv, redisReply **ret_reply)
{
	if (redis_call(client->redis, argc, argv, deadline_in_ms(STEP_MS), ret_reply))
		return cache_fails(client, "Redis: %s", redis_error(client->redis));
	return true;
}

/* "<scratch schema>:<sku>" or "<scratch schema>:<sku>:<channel>". */
static struct text key_of(struct cache_client *client, int channel)
{
	const char *schema = client->bench->race->scratch.schema;
	arena_reset(&client->arena);
	return channel < 0 ? arena_printf(&client->arena, "%s:%s", schema, client->bench->sku)
	                   : arena_printf(&client->arena, "%s:%s:%d", schema, client->bench->sku, channel);
}

bool cache_entry_get(struct cache_client *client, bool *ret_found, struct cache_figure *ret_figure)
{
	redisReply *reply __attribute__((cleanup(redis_reply_done))) = NULL;
	const struct text argv[] = {TEXT("GET"), key_of(client, -1)};
	long long left, version;
	if (!call(client, 2, argv, &reply))
		return false;
	*ret_found = reply->type == REDIS_REPLY_STRING;
	if (!*ret_found)
		return true;
	if (sscanf(reply->str, "%lld %lld", &left, &version) != 2)
		return cache_fails(client, "Redis holds \"%.40s\" under a key of the race", reply->str);
	*ret_figure = (struct cache_figure){left, version};
	return true;
}

bool cache_entry_set(struct cache_client *client, struct cache_figure figure, int64_t ttl_ms)
{
	redisReply *reply __attribute__((cleanup(redis_reply_done))) = NULL;
	struct text key = key_of(client, -1);
	const struct text argv[] = {TEXT("SET"), key,
	                            arena_printf(&client->arena, "%lld %lld", (long long)figure.left,
	                                         (long long)figure.version),
	                            TEXT("PX"),
	                            arena_printf(&client->arena, "%lld", (long long)(ttl_ms ? ttl_ms : CACHE_NO_TTL_MS))};
	return call(client, 5, argv, &reply);
}

bool cache_entry_delete(struct cache_client *client)
{
	redisReply *reply __attribute__((cleanup(redis_reply_done))) = NULL;
	return call(client, 2, (struct text[]){TEXT("DEL"), key_of(client, -1)}, &reply);
}

bool cache_counter_put(struct cache_client *client, int channel)
{
	redisReply *reply __attribute__((cleanup(redis_reply_done))) = NULL;
	struct text key = key_of(client, channel);
	return call(client, 5,
	            (struct text[]){TEXT("SET"), key, arena_printf(&client->arena, "%lld", (long long)client->bench->units),
	                            TEXT("PX"), arena_printf(&client->arena, "%d", CACHE_NO_TTL_MS)},
	            &reply);
}

bool cache_counter_get(struct cache_client *client, int channel, int64_t *ret_left)
{
	redisReply *reply __attribute__((cleanup(redis_reply_done))) = NULL;
	if (!call(client, 2, (struct text[]){TEXT("GET"), key_of(client, channel)}, &reply))
		return false;
	if (reply->type != REDIS_REPLY_STRING || !text_to_int64((struct text){reply->str, reply->len}, ret_left))
		return cache_fails(client, "the counter of a channel has gone");
	return true;
}

bool cache_counter_take(struct cache_client *client, int channel, bool *ret_sold)
{
	static const struct pg_statement sale = {"race_cache_counted_sale",
	                                         "INSERT INTO counted_sale (sku, channel) VALUES ($1, $2)"};
	redisReply *reply __attribute__((cleanup(redis_reply_done))) = NULL;
	redisReply *back __attribute__((cleanup(redis_reply_done))) = NULL;
	PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
	if (!call(client, 2, (struct text[]){TEXT("DECR"), key_of(client, channel)}, &reply))
		return false;
	*ret_sold = reply->integer >= 0;
	if (!*ret_sold)
		return call(client, 2, (struct text[]){TEXT("INCR"), key_of(client, channel)}, &back);
	return query(client, &sale, &(int64_t){channel}, 1, &result);
}

/* --- the service -------------------------------------------------------------------------------------------------- */

/* As a client does: told to come again, it comes again. */
static bool ask(struct cache_client *client, const char *method, const char *path, const char *body,
                const char *idempotency_key, struct http_answer *ret_answer)
{
	int64_t deadline_ns = deadline_in_ms(STEP_MS);
	do {
		*ret_answer = http_call(client->caller, method, path, text_of(body), client->bench->race->service.key,
		                        idempotency_key);
		if (ret_answer->status != 503 && ret_answer->status != 0)
			return true;
		clock_sleep_until(deadline_in_ms(OVERLOADED_PAUSE_MS));
	} while (deadline_left_ms(deadline_ns) && !race_stopping());
	return cache_fails(client, "the service: %s",
	                   ret_answer->status ? "503, again and again" : http_caller_error(client->caller));
}

static bool unexpected(struct cache_client *client, const char *what, const struct http_answer *answer)
{
	return cache_fails(client, "the service answered %s with %d: %.*s", what, answer->status,
	                   (int)(answer->body.size < 200 ? answer->body.size : 200), answer->body.data);
}

/* A figure out of an object of an answer. */
static bool figure_of(const json_t *object, const char *left, struct cache_figure *ret_figure)
{
	const json_t *version = json_object_get(object, "version"), *count = json_object_get(object, left);
	if (!json_is_integer(version))
		return false;
	*ret_figure = (struct cache_figure){json_integer_value(count), json_integer_value(version)};
	return true;
}

static const char *path_of(struct cache_client *client, const char *collection)
{
	arena_reset(&client->arena);
	return arena_printf(&client->arena, "/v1/%s/%s", collection, client->bench->sku).data;
}

bool cache_service_put(struct cache_client *client)
{
	struct http_answer answer;
	char body[64];
	snprintf(body, sizeof body, "{\"on_hand\":%lld}", (long long)client->bench->units);
	return ask(client, "PUT", path_of(client, "skus"), body, NULL, &answer) &&
	       (answer.status == 201 || unexpected(client, "a new SKU", &answer));
}

bool cache_service_sell(struct cache_client *client, bool *ret_sold, struct cache_figure *ret_figure)
{
	char key[TOKEN_BYTES + 1], body[CACHE_SKU_BYTES + 64];
	struct http_answer answer;
	token_new(key);
	snprintf(body, sizeof body, "{\"lines\":[{\"sku\":\"%s\",\"quantity\":1}]}", client->bench->sku);
	if (!ask(client, "POST", "/v1/checkouts", body, key, &answer))
		return false;
	*ret_sold = answer.status == 201;
	if (!*ret_sold)
		return answer.status == 409 || unexpected(client, "a checkout", &answer);
	json_t *json = json_loadb(answer.body.data, answer.body.size, 0, NULL);
	bool read = figure_of(json_array_get(json_object_get(json, "lines"), 0), "available", ret_figure);
	json_decref(json);
	return read || unexpected(client, "a checkout", &answer);
}

bool cache_service_look(struct cache_client *client, struct cache_figure *ret_figure, bool *ret_hit)
{
	struct http_answer answer;
	if (!ask(client, "GET", path_of(client, "availability"), "", NULL, &answer))
		return false;
	json_t *json = answer.status == 200 ? json_loadb(answer.body.data, answer.body.size, 0, NULL) : NULL;
	bool read = figure_of(json, "available", ret_figure);
	json_decref(json);
	*ret_hit = strstr(answer.cache_status, "hit") != NULL;
	return read || unexpected(client, "a look-up", &answer);
}

bool cache_service_tidy(struct cache_client *client)
{
	char key[TOKEN_BYTES + 1], body[CACHE_SKU_BYTES + 100];
	struct http_answer answer;
	token_new(key);
	snprintf(body, sizeof body, "{\"lines\":[{\"sku\":\"%s\",\"set\":0,\"change_from\":null}],\"reason\":\"race\"}",
	         client->bench->sku);
	return ask(client, "POST", "/v1/adjustments", body, key, &answer) &&
	       (answer.status == 201 || unexpected(client, "an adjustment", &answer));
}
