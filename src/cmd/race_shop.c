/* The SKUs of the service that is raced against, and a cart bought there: HTTP as any client's.
 *
 * Happy path: pages of /v1/skus say what is there, PUT makes what is not (many at once), adjustments set the rest; a
 * cart is POST /v1/checkouts.
 * Failure modes: 503, 429, no answer: RACE_AGAIN, and the key of the cart sees to it that this is one sale. What else a
 * service may answer to a request that is right ends the race with its words.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/race_place.h"
#include "cmd/race_workload.h"

#define CALL_MS 10000
#define PAGE_ITEMS 500
#define CREATORS 16
#define ANSWER_SHOWN 200
#define CODE_PREFIX "race-"
#define CODE_BYTES 24

/* Six digits, so that the order of the codes is that of the numbers. */
static void code_of(int64_t sku, char out[CODE_BYTES])
{
	snprintf(out, CODE_BYTES, CODE_PREFIX "%06lld", (long long)sku);
}

static bool is_ours(const char *code, int64_t *ret_sku)
{
	return code && strncmp(code, CODE_PREFIX, strlen(CODE_PREFIX)) == 0 &&
	       text_to_int64(text_of(code + strlen(CODE_PREFIX)), ret_sku);
}

static bool refuse(const struct http_caller *caller, const struct http_answer *answer, const char *what, char why[512])
{
	int shown = answer->body.size < ANSWER_SHOWN ? (int)answer->body.size : ANSWER_SHOWN;
	return answer->status
	           ? cmd_refuse(why, "%s: the service answers %d %.*s", what, answer->status, shown, answer->body.data)
	           : cmd_refuse(why, "%s: %s", what, http_caller_error(caller));
}

/* --- what is there ------------------------------------------------------------------------------------------------ */

/* One page from `after` on; *ret_next is the last code of it that was ours, "" behind the last one. */
static bool page(struct race *race, struct http_caller *caller, char after[CODE_BYTES], int64_t skus,
                 struct race_shop_row *rows)
{
	char path[100];
	json_t *json = NULL;
	const char *why;
	snprintf(path, sizeof path, "/v1/skus?after=%s&limit=%d", after, PAGE_ITEMS);
	struct http_answer answer = http_call(caller, "GET", path, TEXT(""), race->service.key, NULL);
	if (answer.status != 200 || json_parse(answer.body, &json, &why))
		return refuse(caller, &answer, path, race->why);
	size_t i;
	json_t *item;
	bool more = json_is_string(json_object_get(json, "next"));
	json_array_foreach(json_object_get(json, "items"), i, item)
	{
		int64_t sku;
		more = more && is_ours(json_string_value(json_object_get(item, "sku")), &sku);
		if (!is_ours(json_string_value(json_object_get(item, "sku")), &sku) || sku < 0 || sku >= skus)
			continue;
		rows[sku] = (struct race_shop_row){.on_hand = json_integer_value(json_object_get(item, "on_hand")),
		                                   .version = json_integer_value(json_object_get(item, "version"))};
	}
	snprintf(after, CODE_BYTES, "%s", more ? json_string_value(json_object_get(json, "next")) : "");
	json_decref(json);
	return true;
}

bool race_shop_look(struct race *race, int64_t skus, struct race_shop_row *rows)
{
	char after[CODE_BYTES] = CODE_PREFIX;
	struct http_caller *caller = http_caller_new(race->service.url, CALL_MS);
	bool done = true;
	while (done && *after)
		done = page(race, caller, after, skus, rows);
	http_caller_free(caller);
	return done;
}

/* --- making and setting ------------------------------------------------------------------------------------------- */

struct making {
	const struct race_service *service;
	const struct race_shop_row *rows;
	int64_t skus, units;
	_Atomic int64_t next;
	pthread_mutex_t mutex;
	bool failed;
	char why[512];
};

static bool make_one(struct making *making, struct http_caller *caller, int64_t sku)
{
	char path[60], body[60], code[CODE_BYTES], why[512];
	code_of(sku, code);
	snprintf(path, sizeof path, "/v1/skus/%s", code);
	int size = snprintf(body, sizeof body, "{\"on_hand\":%lld}", (long long)making->units);
	struct http_answer answer = http_call(caller, "PUT", path, (struct text){body, (size_t)size}, making->service->key,
	                                      NULL);
	if (answer.status == 201)
		return true;
	refuse(caller, &answer, path, why);
	pthread_mutex_lock(&making->mutex);
	making->failed = true;
	memcpy(making->why, why, sizeof why);
	pthread_mutex_unlock(&making->mutex);
	return false;
}

static void *make(void *context)
{
	struct making *making = context;
	struct http_caller *caller = http_caller_new(making->service->url, CALL_MS);
	int64_t sku;
	while ((sku = atomic_fetch_add(&making->next, 1)) < making->skus && !race_stopping())
		if (making->rows[sku].version == 0 && !make_one(making, caller, sku))
			break;
	http_caller_free(caller);
	return NULL;
}

static bool make_missing(struct race *race, int64_t skus, int64_t units, struct race_shop_row *rows)
{
	struct making making = {.service = &race->service, .rows = rows, .skus = skus, .units = units};
	pthread_t threads[CREATORS];
	pthread_mutex_init(&making.mutex, NULL);
	for (int i = 0; i < CREATORS; i++)
		CHECK(pthread_create(&threads[i], NULL, make, &making) == 0);
	for (int i = 0; i < CREATORS; i++)
		pthread_join(threads[i], NULL);
	pthread_mutex_destroy(&making.mutex);
	return !making.failed || cmd_refuse(race->why, "%s", making.why);
}

/* Those that have not `units`, a page of lines at a time. */
static bool set_others(struct race *race, int64_t skus, int64_t units, const struct race_shop_row *rows)
{
	struct http_caller *caller = http_caller_new(race->service.url, CALL_MS);
	struct buffer body = {0};
	bool done = true;
	for (int64_t sku = 0; done && sku < skus;) {
		int lines = 0;
		buffer_clear(&body);
		buffer_add_string(&body, "{\"reason\":\"lastunit race\",\"lines\":[");
		for (; sku < skus && lines < PAGE_ITEMS; sku++) {
			char code[CODE_BYTES];
			if (rows[sku].version == 0 || rows[sku].on_hand == units)
				continue;
			code_of(sku, code);
			buffer_add_format(&body, "%s{\"sku\":\"%s\",\"set\":%lld,\"change_from\":null}", lines++ ? "," : "", code,
			                  (long long)units);
		}
		buffer_add_string(&body, "]}");
		char key[TOKEN_BYTES + 1];
		token_new(key);
		if (!lines)
			continue;
		struct http_answer answer = http_call(caller, "POST", "/v1/adjustments", buffer_text(&body), race->service.key,
		                                      key);
		done = answer.status == 201 || refuse(caller, &answer, "/v1/adjustments", race->why);
	}
	buffer_done(&body);
	http_caller_free(caller);
	return done;
}

bool race_shop_stock(struct race *race, int64_t skus, int64_t units, struct race_shop_row *rows)
{
	CHECK(skus <= RACE_SKUS_MAX);
	memset(rows, 0, (size_t)skus * sizeof *rows);
	return race_shop_look(race, skus, rows) && make_missing(race, skus, units, rows) &&
	       set_others(race, skus, units, rows) && race_shop_look(race, skus, rows);
}

void race_shop_clear(struct race *race, int64_t skus)
{
	struct race_shop_row *rows = calloc((size_t)skus + 1, sizeof *rows);
	CHECK(rows);
	if (!race_shop_look(race, skus, rows) || !set_others(race, skus, 0, rows))
		fprintf(stderr, "lastunit race: SKUs race-… at %s still have stock: %s\n", race->service.url, race->why);
	free(rows);
}

/* --- buying ------------------------------------------------------------------------------------------------------- */

int64_t race_shop_see(const struct race_service *service, struct http_caller *caller, int64_t sku)
{
	char path[60], code[CODE_BYTES];
	json_t *json = NULL;
	const char *why;
	code_of(sku, code);
	snprintf(path, sizeof path, "/v1/availability/%s", code);
	struct http_answer answer = http_call(caller, "GET", path, TEXT(""), service->key, NULL);
	if (answer.status != 200 || json_parse(answer.body, &json, &why))
		return -1;
	int64_t available = json_integer_value(json_object_get(json, "available"));
	json_decref(json);
	return available;
}

/* Which of the cart's SKUs a refusal names. */
static unsigned short_lines(const struct race_cart *cart, struct text body)
{
	unsigned lines = 0;
	for (int i = 0; i < cart->lines; i++) {
		char code[CODE_BYTES];
		code_of(cart->skus[i], code);
		lines |= memmem(body.data, body.size, code, strlen(code)) ? 1u << i : 0;
	}
	return lines;
}

enum race_outcome race_shop_buy(const struct race_service *service, struct http_caller *caller,
                                const struct race_cart *cart, const char *key, struct race_bought *ret_bought)
{
	char body[200];
	int size = snprintf(body, sizeof body, "{\"lines\":[");
	for (int i = 0; i < cart->lines; i++) {
		char code[CODE_BYTES];
		code_of(cart->skus[i], code);
		size += snprintf(body + size, sizeof body - (size_t)size, "%s{\"sku\":\"%s\",\"quantity\":1}", i ? "," : "",
		                 code);
	}
	size += snprintf(body + size, sizeof body - (size_t)size, "]}");
	struct http_answer answer = http_call(caller, "POST", "/v1/checkouts", (struct text){body, (size_t)size},
	                                      service->key, key);
	*ret_bought = (struct race_bought){.replayed = answer.replayed};
	if (answer.status == 201)
		return RACE_SOLD;
	if (answer.status == 0 || answer.status == 429 || answer.status == 503)
		return RACE_AGAIN;
	if (answer.status != 409) {
		refuse(caller, &answer, "/v1/checkouts", ret_bought->why);
		return RACE_BROKEN;
	}
	if (memmem(answer.body.data, answer.body.size, "idempotency_in_flight", strlen("idempotency_in_flight")))
		return RACE_AGAIN;
	ret_bought->short_lines = short_lines(cart, answer.body);
	return RACE_REFUSED;
}
