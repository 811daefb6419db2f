/* Behind a permutation: what is done to every SKU (scenario.h): its books, and in a shop its end.
 *
 * Happy path: the ledger, added up from its first entry, is the row; every instance that runs shows what the row has.
 * Failure modes: the first that is not so is told with both figures. A SKU that could not be set to 0 is told, and the
 * others are tidied all the same.
 */
#include "base/clock.h"
#include "base/id.h"
#include "base/text.h"
#include "cmd/scenario.h"

#define POLL_MS 5
#define LEDGER_PAGE 500

struct book {
	int64_t on_hand, reserved, entries;
};

static bool ledger_add_up(struct scenario_call *call, const struct scenario_sku *sku, struct book *ret)
{
	*ret = (struct book){0};
	for (bool more = true; more;) {
		char path[200];
		struct http_answer answer;
		snprintf(path, sizeof path, "/v1/skus/%s/ledger?limit=%d&after=%lld", sku->code, LEDGER_PAGE,
		         (long long)ret->entries);
		scenario_http(call, "GET", path, (struct text){0}, NULL, &answer);
		json_t *json = scenario_answer_json(&answer);
		const json_t *items = json_object_get(json, "items");
		bool good = answer.status == 200 ||
		            scenario_wrong(call, "%s: its ledger was answered %d", sku->name, answer.status);
		for (size_t i = 0; good && i < json_array_size(items); i++) {
			const json_t *entry = json_array_get(items, i);
			ret->on_hand += scenario_int_of(entry, "on_hand_delta");
			ret->reserved += scenario_int_of(entry, "reserved_delta");
			ret->entries++;
			if (scenario_int_of(entry, "version") != ret->entries)
				good = scenario_wrong(call, "%s: entry %lld of its ledger has version %lld", sku->name,
				                      (long long)ret->entries, (long long)scenario_int_of(entry, "version"));
			else if (scenario_int_of(entry, "on_hand_after") != ret->on_hand ||
			         scenario_int_of(entry, "reserved_after") != ret->reserved)
				good = scenario_wrong(call, "%s: entry %lld of its ledger does not add up", sku->name,
				                      (long long)ret->entries);
		}
		more = json_is_string(json_object_get(json, "next"));
		json_decref(json);
		if (!good)
			return false;
	}
	return true;
}

static bool sku_adds_up(struct scenario_call *call, const struct scenario_sku *sku)
{
	struct book book;
	char path[160];
	struct http_answer answer;
	if (!ledger_add_up(call, sku, &book))
		return false;
	snprintf(path, sizeof path, "/v1/skus/%s", sku->code);
	scenario_http(call, "GET", path, (struct text){0}, NULL, &answer);
	json_t *json = scenario_answer_json(&answer);
	int64_t on_hand = scenario_int_of(json, "on_hand"), reserved = scenario_int_of(json, "reserved"),
			version = scenario_int_of(json, "version");
	json_decref(json);
	if (answer.status != 200)
		return scenario_wrong(call, "%s was answered %d", sku->name, answer.status);
	if (on_hand != book.on_hand || reserved != book.reserved || version != book.entries)
		return scenario_wrong(call, "%s is %lld/%lld, version %lld; its ledger adds up to %lld/%lld, version %lld",
		                      sku->name, (long long)on_hand, (long long)reserved, (long long)version,
		                      (long long)book.on_hand, (long long)book.reserved, (long long)book.entries);
	return (0 <= reserved && reserved <= on_hand) ||
	       scenario_wrong(call, "%s is oversold: %lld/%lld", sku->name, (long long)on_hand, (long long)reserved);
}

/* What is changed straight in SQL is seen a little later, so the look is repeated. */
static bool seen_as_it_is(struct scenario_call *call, const struct scenario_sku *sku, size_t instance)
{
	struct scenario_call look = *call;
	struct scenario_session viewer = {.name = "world", .instance = instance, .channel = CHANNEL_ADMIN};
	bool good = false;
	look.session = &viewer;
	int64_t until_ns = deadline_in_ms(call->run->options->patience_ms);
	while (!good) {
		char path[160];
		struct http_answer answer;
		snprintf(path, sizeof path, "/v1/skus/%s", sku->code);
		scenario_http(&look, "GET", path, (struct text){0}, NULL, &answer);
		json_t *row = scenario_answer_json(&answer);
		int64_t there = scenario_int_of(row, "available");
		json_decref(row);
		snprintf(path, sizeof path, "/v1/availability/%s", sku->code);
		scenario_http(&look, "GET", path, (struct text){0}, NULL, &answer);
		json_t *seen = scenario_answer_json(&answer);
		int64_t shown = scenario_int_of(seen, "available");
		json_decref(seen);
		good = there == shown && answer.status == 200;
		if (!good && clock_boottime_ns() > until_ns) {
			scenario_wrong(call, "%s: instance %s shows %lld, there are %lld", sku->name,
			               call->scenario->instances[instance].name, (long long)shown, (long long)there);
			break;
		}
		if (!good)
			clock_sleep_until(deadline_in_ms(POLL_MS));
	}
	http_caller_free(viewer.caller);
	return good;
}

bool scenario_books(struct scenario_call *call)
{
	struct scenario *s = call->scenario;
	for (size_t i = 0; i < s->sku_count; i++) {
		if (!s->skus[i].made)
			continue;
		if (!sku_adds_up(call, &s->skus[i]))
			return false;
		for (size_t j = 0; j < s->instance_count; j++)
			if (*s->instances[j].url && !seen_as_it_is(call, &s->skus[i], j))
				return false;
	}
	return true;
}

static void release_all(struct scenario_call *call, const struct scenario_sku *sku)
{
	char path[200];
	struct http_answer answer;
	snprintf(path, sizeof path, "/v1/reservations?sku=%s&status=active&limit=500", sku->code);
	scenario_http(call, "GET", path, (struct text){0}, NULL, &answer);
	json_t *json = scenario_answer_json(&answer);
	const json_t *items = json_object_get(json, "items");
	for (size_t i = 0; i < json_array_size(items); i++) {
		snprintf(path, sizeof path, "/v1/reservations/%s/release", scenario_string_of(json_array_get(items, i), "id"));
		scenario_http(call, "POST", path, TEXT("{}"), NULL, &answer);
	}
	json_decref(json);
}

void scenario_tidy(struct scenario_call *call)
{
	for (size_t i = 0; i < call->scenario->sku_count; i++) {
		const struct scenario_sku *sku = &call->scenario->skus[i];
		if (!sku->made)
			continue;
		char key[160], body[300], token[TOKEN_BYTES + 1];
		struct http_answer answer;
		release_all(call, sku);
		token_new(token);
		snprintf(key, sizeof key, "scenario-%s", token);
		snprintf(body, sizeof body,
		         "{\"lines\":[{\"sku\":\"%s\",\"set\":0,\"change_from\":null}],\"reason\":\"scenario\"}", sku->code);
		scenario_http(call, "POST", "/v1/adjustments", text_of(body), key, &answer);
		if (answer.status != 201)
			buffer_add_format(&call->said, "%s could not be set to 0: %d; ", sku->code, answer.status);
	}
}
