/* What a client of a replay does with an order (replay_client.h).
 *
 * Happy path: a cart is sold by one checkout, or held and committed, or held and left; a cancellation brings back units
 * of earlier checkouts of its SKUs; a write-off is an adjustment.
 * Failure modes: a refused cart is tried once more without the lines that the answer names, under a new key, as a shop
 * would; whatever else is answered is a violation.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/replay_client.h"

enum replay_fate replay_fate_of(size_t turn)
{
	/* A channel's next cart is 7 places on, which has no divisor in common with 10: it comes by every place. */
	size_t place = (turn + turn / REPLAY_CHANNELS) % 10;
	return place % 2 == 0 ? FATE_CHECKOUT : place == 9 ? FATE_ABANDON : FATE_COMMIT;
}

static void path_set(struct replay_client *client, const char *path)
{
	buffer_clear(&client->path);
	buffer_add_string(&client->path, path);
}

struct idempotency_key {
	char text[80];
};

static struct idempotency_key key_of(const struct replay_client *client, size_t index, const char *what, int attempt)
{
	struct idempotency_key key;
	snprintf(key.text, sizeof key.text, "replay-%s-%zu-%s-%d", client->replay->run, index, what, attempt);
	return key;
}

/* {"reference": …, "lines": [...]} and, if given, a number. `negative`: as "delta": -quantity. */
static void body_set(struct replay_client *client, const struct order *order, const struct order_line *lines,
                     size_t count, bool negative, const char *number_key, int64_t number)
{
	buffer_clear(&client->body);
	struct json_writer json = json_writer(&client->body);
	json_object_open(&json);
	json_key(&json, "reference");
	json_put_text(&json, order->number);
	if (number_key)
		json_member_int(&json, number_key, number);
	if (negative) {
		json_member_string(&json, "reason", "write-off");
	}
	json_key(&json, "lines");
	json_array_open(&json);
	for (size_t i = 0; i < count; i++) {
		json_object_open(&json);
		json_key(&json, "sku");
		json_put_text(&json, client->replay->book->skus[lines[i].sku].code);
		json_key(&json, negative ? "delta" : "quantity");
		json_put_int(&json, negative ? -lines[i].quantity : lines[i].quantity);
		json_object_close(&json);
	}
	json_array_close(&json);
	json_object_close(&json);
}

static void unsure(struct replay *replay, const struct order_line *lines, size_t count)
{
	for (size_t i = 0; i < count; i++)
		replay->skus[lines[i].sku].unsure = true;
}

static void unexpected(struct replay_client *client, const struct order *order, const struct replay_answer *answer)
{
	if (!answer->status)
		return; /* said already */
	const char *detail = json_string_value(json_object_get(answer->json, "detail"));
	replay_violation(client->replay, "order %.*s: %d %s: %s", (int)order->number.size, order->number.data,
	                 answer->status, answer->code, detail ? detail : "");
}

/* The version of each line that an answer names; the lines come back in code order. */
static void versions_seen(struct replay_client *client, const json_t *json, const struct order_line *lines,
                          size_t count)
{
	struct replay *replay = client->replay;
	size_t n;
	json_t *line;
	json_array_foreach(json_object_get(json, "lines"), n, line)
	{
		json_t *sku = json_object_get(line, "sku");
		int64_t version = json_integer_value(json_object_get(line, "version"));
		for (size_t i = 0; version && i < count; i++)
			if (text_equal(json_text(sku), replay->book->skus[lines[i].sku].code)) {
				replay_version_seen(replay, lines[i].sku, version);
				break;
			}
	}
}

/* After an answered write: one SKU of the cart, another one each time. */
static void look_at_one(struct replay_client *client, int channel, const struct order_line *lines, size_t count)
{
	replay_look(client, channel, lines[(size_t)client->counts.reads % count].sku);
}

/* --- sales -------------------------------------------------------------------------------------------------------- */

/* Takes out the lines that a refusal names. Returns how many are left. */
static size_t drop_failing(struct replay_client *client, const json_t *json, struct order_line *lines, size_t count)
{
	size_t n;
	json_t *failing;
	json_array_foreach(json_object_get(json, "lines"), n, failing)
	{
		struct text sku = json_text(json_object_get(failing, "sku"));
		for (size_t i = 0; i < count; i++)
			if (text_equal(sku, client->replay->book->skus[lines[i].sku].code)) {
				memmove(&lines[i], &lines[i + 1], (count - i - 1) * sizeof *lines);
				count--;
				break;
			}
	}
	return count;
}

static void remember_sale(struct replay_client *client, int channel, const char *checkout_id,
                          const struct order_line *lines, size_t count)
{
	struct replay *replay = client->replay;
	struct replay_channel *counts = &client->channels[channel];
	counts->sold++;
	replay->carts_sold++;
	pthread_mutex_lock(&replay->mutex);
	for (size_t i = 0; i < count; i++) {
		struct replay_sku *sku = &replay->skus[lines[i].sku];
		counts->units += lines[i].quantity;
		sku->sold += lines[i].quantity;
		struct replay_sold *sold = ARENA_NEW(replay->arena, struct replay_sold);
		*sold = (struct replay_sold){.channel = channel, .left = lines[i].quantity, .next = sku->sold_list};
		snprintf(sold->checkout_id, sizeof sold->checkout_id, "%s", checkout_id);
		sku->sold_list = sold;
	}
	pthread_mutex_unlock(&replay->mutex);
}

static void remember_hold(struct replay_client *client, int channel, const char *reservation_id)
{
	struct replay *replay = client->replay;
	pthread_mutex_lock(&replay->mutex);
	struct replay_hold *hold = ARENA_NEW(replay->arena, struct replay_hold);
	*hold = (struct replay_hold){.channel = channel, .next = replay->holds};
	snprintf(hold->reservation_id, sizeof hold->reservation_id, "%s", reservation_id);
	replay->holds = hold;
	pthread_mutex_unlock(&replay->mutex);
}

/* A held cart becomes a sale. */
static void commit_hold(struct replay_client *client, int channel, size_t index, const struct order *order,
                        const char *reservation_id, const struct order_line *lines, size_t count)
{
	path_set(client, "/v1/reservations/");
	buffer_add_format(&client->path, "%s/commit", reservation_id);
	buffer_clear(&client->body);
	struct idempotency_key key = key_of(client, index, "commit", 0);
	struct replay_answer answer = replay_call(client, channel, "POST", key.text);
	const char *id = json_string_value(json_object_get(answer.json, "id"));
	if (answer.status == 200 && id) {
		remember_sale(client, channel, id, lines, count);
		versions_seen(client, answer.json, lines, count);
		look_at_one(client, channel, lines, count);
	} else if (answer.status == 410) {
		client->channels[channel].expired++;
	} else {
		unsure(client->replay, lines, count);
		unexpected(client, order, &answer);
	}
	json_decref(answer.json);
}

/* One try. True: it was refused for want of stock and `lines` no longer has the failing ones. */
static bool try_cart(struct replay_client *client, size_t index, int attempt, const struct order *order,
                     struct order_line *lines, size_t *count)
{
	struct replay *replay = client->replay;
	enum replay_fate fate = replay_fate_of(order->turn);
	int channel = (int)(order->turn % REPLAY_CHANNELS);
	int64_t ttl_s = fate == FATE_ABANDON ? replay->options.hold_ttl_s : 300;
	path_set(client, fate == FATE_CHECKOUT ? "/v1/checkouts" : "/v1/reservations");
	body_set(client, order, lines, *count, false, fate == FATE_CHECKOUT ? NULL : "ttl_seconds", ttl_s);
	struct idempotency_key key = key_of(client, index, "cart", attempt);
	struct replay_answer answer = replay_call(client, channel, "POST", key.text);
	const char *id = json_string_value(json_object_get(answer.json, "id"));
	bool refused = false;
	if (answer.status == 201 && id) {
		char object_id[37];
		snprintf(object_id, sizeof object_id, "%s", id);
		versions_seen(client, answer.json, lines, *count);
		if (fate == FATE_CHECKOUT)
			remember_sale(client, channel, object_id, lines, *count);
		else if (fate == FATE_ABANDON)
			remember_hold(client, channel, object_id);
		look_at_one(client, channel, lines, *count);
		if (fate == FATE_COMMIT)
			commit_hold(client, channel, index, order, object_id, lines, *count);
	} else if (answer.status == 409 && strcmp(answer.code, "insufficient_stock") == 0) {
		size_t left = drop_failing(client, answer.json, lines, *count);
		refused = true;
		if (left == *count) {
			replay_violation(replay, "order %.*s was refused and no line of it is named", (int)order->number.size,
			                 order->number.data);
			left = 0;
		}
		*count = left;
	} else {
		unsure(replay, lines, *count);
		unexpected(client, order, &answer);
	}
	json_decref(answer.json);
	return refused;
}

static void play_sale(struct replay_client *client, size_t index, const struct order *order)
{
	struct replay_channel *counts = &client->channels[order->turn % REPLAY_CHANNELS];
	size_t count = order->line_count;
	struct order_line *lines = malloc(count * sizeof *lines);
	CHECK(lines);
	memcpy(lines, order->lines, count * sizeof *lines);
	counts->carts++;
	bool refused = try_cart(client, index, 0, order, lines, &count);
	if (refused && count) {
		counts->retried++;
		refused = try_cart(client, index, 1, order, lines, &count);
	}
	if (refused) {
		counts->refused++;
		client->replay->carts_refused++;
	}
	free(lines);
}

/* --- what comes back, what is lost -------------------------------------------------------------------------------- */

/* Units of one checkout that a cancellation takes back. */
struct piece {
	struct replay_sold *sold;
	size_t sku;
	int64_t quantity;
};

/* Takes up to `quantity` units of a SKU out of the list of what was sold. */
static size_t take_sold(struct replay *replay, const struct order_line *line, struct piece **pieces, size_t count,
                        size_t *room)
{
	int64_t wanted = line->quantity;
	pthread_mutex_lock(&replay->mutex);
	struct replay_sold **at = &replay->skus[line->sku].sold_list;
	while (*at && wanted > 0) {
		struct replay_sold *sold = *at;
		int64_t quantity = sold->left < wanted ? sold->left : wanted;
		if (count == *room) {
			*room = *room ? *room * 2 : 16;
			*pieces = reallocarray(*pieces, *room, sizeof **pieces);
			CHECK(*pieces);
		}
		(*pieces)[count++] = (struct piece){sold, line->sku, quantity};
		wanted -= quantity;
		sold->left -= quantity;
		if (sold->left == 0)
			*at = sold->next;
		else
			break;
	}
	pthread_mutex_unlock(&replay->mutex);
	return count;
}

static int piece_compare(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;
	return strcmp(x->sold->checkout_id, y->sold->checkout_id);
}

/* The pieces of one checkout. */
static void cancel_pieces(struct replay_client *client, size_t index, int attempt, const struct order *order,
                          const struct piece *pieces, size_t count)
{
	struct replay *replay = client->replay;
	const struct replay_sold *sold = pieces[0].sold;
	struct order_line *lines = malloc(count * sizeof *lines);
	CHECK(lines);
	for (size_t i = 0; i < count; i++)
		lines[i] = (struct order_line){pieces[i].sku, pieces[i].quantity};
	path_set(client, "/v1/checkouts/");
	buffer_add_format(&client->path, "%s/cancel", sold->checkout_id);
	buffer_clear(&client->body);
	struct json_writer json = json_writer(&client->body);
	json_object_open(&json);
	json_key(&json, "lines");
	json_array_open(&json);
	for (size_t i = 0; i < count; i++) {
		json_object_open(&json);
		json_key(&json, "sku");
		json_put_text(&json, replay->book->skus[lines[i].sku].code);
		json_member_int(&json, "quantity", lines[i].quantity);
		json_object_close(&json);
	}
	json_array_close(&json);
	json_object_close(&json);
	struct idempotency_key key = key_of(client, index, "cancel", attempt);
	struct replay_answer answer = replay_call(client, sold->channel, "POST", key.text);
	if (answer.status == 200 || answer.status == 201) {
		for (size_t i = 0; i < count; i++) {
			replay->skus[lines[i].sku].restocked += lines[i].quantity;
			client->counts.restocked_units += lines[i].quantity;
		}
		look_at_one(client, sold->channel, lines, count);
	} else {
		unsure(replay, lines, count);
		unexpected(client, order, &answer);
	}
	json_decref(answer.json);
	free(lines);
}

static void play_cancellation(struct replay_client *client, size_t index, const struct order *order)
{
	struct piece *pieces = NULL;
	size_t count = 0, room = 0;
	for (size_t i = 0; i < order->line_count; i++)
		count = take_sold(client->replay, &order->lines[i], &pieces, count, &room);
	client->counts.cancellations++;
	client->counts.nothing_to_restock += count == 0;
	if (count)
		qsort(pieces, count, sizeof *pieces, piece_compare);
	int attempt = 0;
	for (size_t from = 0, to; from < count; from = to) {
		for (to = from + 1; to < count && piece_compare(&pieces[from], &pieces[to]) == 0; to++)
			;
		cancel_pieces(client, index, attempt++, order, pieces + from, to - from);
	}
	free(pieces);
}

static void play_write_off(struct replay_client *client, size_t index, const struct order *order)
{
	struct replay *replay = client->replay;
	path_set(client, "/v1/adjustments");
	body_set(client, order, order->lines, order->line_count, true, NULL, 0);
	struct idempotency_key key = key_of(client, index, "write-off", 0);
	struct replay_answer answer = replay_call(client, REPLAY_ADMIN, "POST", key.text);
	client->counts.write_offs++;
	if (answer.status == 200 || answer.status == 201) {
		for (size_t i = 0; i < order->line_count; i++) {
			replay->skus[order->lines[i].sku].written_off += order->lines[i].quantity;
			client->counts.written_off_units += order->lines[i].quantity;
		}
		versions_seen(client, answer.json, order->lines, order->line_count);
		look_at_one(client, REPLAY_ADMIN, order->lines, order->line_count);
	} else if (answer.status == 409 && strcmp(answer.code, "insufficient_stock") == 0) {
		client->counts.write_offs_refused++;
	} else {
		unsure(replay, order->lines, order->line_count);
		unexpected(client, order, &answer);
	}
	json_decref(answer.json);
}

void replay_order(struct replay_client *client, size_t index)
{
	const struct order *order = &client->replay->book->orders[index];
	switch (order->kind) {
	case ORDER_SALE:
		play_sale(client, index, order);
		break;
	case ORDER_CANCELLATION:
		play_cancellation(client, index, order);
		break;
	case ORDER_WRITE_OFF:
		play_write_off(client, index, order);
		break;
	case ORDER_KINDS:
		break;
	}
}
