/* The stock before and after a replay (replay_client.h).
 *
 * Happy path: each SKU is created with its share of what the file asks for; at the end its row has exactly what the
 * answers add up to.
 * Failure modes: a SKU that exists (an earlier replay) is counted to that share instead; a SKU that cannot be brought
 * there, or of which others hold some, stops the replay, for nothing it would say could be believed.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/replay_client.h"

#define HOLD_GAP_MS 100

static void sku_path(struct replay_client *client, struct text code)
{
	buffer_clear(&client->body);
	buffer_clear(&client->path);
	buffer_add_string(&client->path, "/v1/skus/");
	http_path_add(&client->path, code);
}

/* One call of the admin's about SKU `index`; step makes the key. */
static struct replay_answer admin(struct replay_client *client, size_t index, const char *step, const char *method)
{
	char key[80];
	snprintf(key, sizeof key, "replay-%s-stock-%zu-%s", client->replay->run, index, step);
	return replay_call(client, REPLAY_ADMIN, method, key);
}

/* It exists: made sellable and counted anew. */
static bool stock_existing(struct replay_client *client, size_t index, struct text code, int64_t on_hand)
{
	sku_path(client, code);
	buffer_add_string(&client->body, "{\"safety_stock\":0,\"tracked\":true}");
	struct replay_answer answer = admin(client, index, "settings", "PUT");
	bool ok = answer.status == 200;
	json_decref(answer.json);
	if (!ok)
		return false;
	buffer_clear(&client->body);
	buffer_clear(&client->path);
	buffer_add_string(&client->path, "/v1/adjustments");
	struct json_writer json = json_writer(&client->body);
	json_object_open(&json);
	json_member_string(&json, "reason", "replay");
	json_key(&json, "lines");
	json_array_open(&json);
	json_object_open(&json);
	json_key(&json, "sku");
	json_put_text(&json, code);
	json_member_int(&json, "set", on_hand);
	json_key(&json, "change_from");
	json_put_null(&json);
	json_object_close(&json);
	json_array_close(&json);
	json_object_close(&json);
	answer = admin(client, index, "count", "POST");
	ok = answer.status == 200 || answer.status == 201;
	json_t *line = json_array_get(json_object_get(answer.json, "lines"), 0);
	int64_t reserved = json_integer_value(json_object_get(line, "reserved"));
	if (reserved)
		replay_stop(
			client->replay,
			"SKU %.*s has %lld reserved by others: let their holds end (`lastunit why` names them), or play it in "
			"another shop",
			(int)code.size, code.data, (long long)reserved);
	json_decref(answer.json);
	return ok;
}

void replay_stock_sku(struct replay_client *client, size_t index)
{
	struct replay *replay = client->replay;
	struct text code = replay->book->skus[index].code;
	int64_t on_hand = order_sku_stock(&replay->book->skus[index], replay->options.percent);
	sku_path(client, code);
	buffer_add_format(&client->body, "{\"on_hand\":%lld}", (long long)on_hand);
	struct replay_answer answer = admin(client, index, "create", "PUT");
	bool ok = answer.status == 200 || answer.status == 201;
	if (answer.status == 409 && strcmp(answer.code, "sku_exists") == 0)
		ok = stock_existing(client, index, code, on_hand);
	if (!ok)
		replay_stop(replay, "SKU %.*s could not be stocked: %d %s", (int)code.size, code.data, answer.status,
		            answer.code);
	json_decref(answer.json);
	replay->skus[index].received = on_hand;
}

void replay_count_sku(struct replay_client *client, size_t index)
{
	struct replay *replay = client->replay;
	struct replay_sku *sku = &replay->skus[index];
	struct text code = replay->book->skus[index].code;
	int64_t left = sku->received - sku->sold + sku->restocked - sku->written_off;
	if (left < 0)
		replay_violation(replay, "%.*s is oversold: received %lld, sold %lld, restocked %lld, written off %lld",
		                 (int)code.size, code.data, (long long)sku->received, (long long)sku->sold,
		                 (long long)sku->restocked, (long long)sku->written_off);
	if (sku->unsure)
		return; /* a write of it was never answered, which is a violation already */
	sku_path(client, code);
	struct replay_answer answer = replay_call(client, REPLAY_ADMIN, "GET", NULL);
	int64_t on_hand = json_integer_value(json_object_get(answer.json, "on_hand"));
	int64_t reserved = json_integer_value(json_object_get(answer.json, "reserved"));
	if (answer.status == 200 && (on_hand != left || reserved != 0))
		replay_violation(replay, "%.*s has %lld on hand and %lld reserved; by the answers %lld are left",
		                 (int)code.size, code.data, (long long)on_hand, (long long)reserved, (long long)left);
	else if (answer.status && answer.status != 200)
		replay_violation(replay, "GET %s: %d %s", client->path.data, answer.status, answer.code);
	json_decref(answer.json);
}

void replay_await_hold(struct replay_client *client, const struct replay_hold *hold)
{
	struct replay *replay = client->replay;
	int64_t deadline_ns = deadline_in_ms(replay->options.hold_ttl_s * 1000 + replay->options.answer_timeout_ms);
	while (!replay->stop) {
		buffer_clear(&client->body);
		buffer_clear(&client->path);
		buffer_add_format(&client->path, "/v1/reservations/%s", hold->reservation_id);
		struct replay_answer answer = replay_call(client, hold->channel, "GET", NULL);
		const char *status = json_string_value(json_object_get(answer.json, "status"));
		bool expired = status && strcmp(status, "expired") == 0;
		bool active = status && strcmp(status, "active") == 0;
		bool over = deadline_left_ms(deadline_ns) == 0;
		if (expired)
			client->channels[hold->channel].expired++;
		else if (answer.status && (!active || over))
			replay_violation(replay, "the abandoned hold %s is %s, %d %s", hold->reservation_id, status ? status : "?",
			                 answer.status, answer.code);
		bool again = answer.status && active && !over;
		json_decref(answer.json);
		if (!again)
			return;
		clock_sleep_until(deadline_in_ms(HOLD_GAP_MS));
	}
}
