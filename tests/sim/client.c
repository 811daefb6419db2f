/* A client (client.h). Happy path: draw what to do, build it, insist until it is answered, write it down.
 *
 * Failure modes: 5xx, a lost connection, idempotency_in_flight: again, with the same key. An answer that the API never
 * gives in that place (a 500, a 404 of what was answered before) is complained of; what answers say about stock is the
 * judge's business.
 */
#include "sim/client.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/id.h"
#include "base/text.h"
#include "sim/stage.h"

#define MS INT64_C(1000000)
#define ANSWER_MS 12000 /* what has no answer by then has none: the judge will say so */
#define LINES_MAX 5

/* --- writing down ------------------------------------------------------------------------------------------------- */

#define APPEND(list, count, room)                              \
	({                                                         \
		if ((count) == (room)) {                               \
			(room) = (room) ? (room)*2 : 256;                  \
			(list) = realloc((list), (room) * sizeof *(list)); \
			CHECK(list);                                       \
		}                                                      \
		memset(&(list)[count], 0, sizeof *(list));             \
		&(list)[(count)++];                                    \
	})

static __attribute__((format(printf, 2, 3))) void complain(struct client *c, const char *format, ...)
{
	if (c->complaint[0])
		return;
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(c->complaint, sizeof c->complaint, format, arguments);
	va_end(arguments);
}

static uint64_t digest(const char *bytes, size_t size)
{
	uint64_t hash = UINT64_C(0xCBF29CE484222325);
	for (size_t i = 0; i < size; i++)
		hash = (hash ^ (uint8_t)bytes[i]) * UINT64_C(0x100000001B3);
	return hash;
}

static void nap(struct client *c, int64_t most_us)
{
	usleep((useconds_t)dice_between(&c->dice, 0, most_us));
}

/* --- one call ----------------------------------------------------------------------------------------------------- */

struct told {
	bool had; /* there is an answer */
	int status;
	int64_t called_ns, returned_ns;
	int instance;
	json_t *json; /* NULL: no body */
	uint64_t digest;
	bool hit;
	char code[40];
};

static void told_done(struct told *told)
{
	json_decref(told->json);
	*told = (struct told){0};
}

static const char *text_at(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));
	return text ? text : "";
}

/* -1: not there, or null. */
static int64_t int_at(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);
	return json_is_integer(value) ? json_integer_value(value) : -1;
}

/* An impatient client leaves before the answer; the operation goes on without it. */
static struct told call(struct client *c, int instance, const char *method, const char *path, const char *body,
                        const char *key, bool impatient)
{
	struct http_client *http = &c->http[instance];
	struct http_answer answer = {0};
	char fields[80] = "";
	if (key)
		snprintf(fields, sizeof fields, "Idempotency-Key: %s\r\n", key);
	if (dice_chance(&c->dice, 3))
		http_client_close(http);
	http->timeout_ms = impatient ? (int)dice_between(&c->dice, 1, 20) : ANSWER_MS;
	struct told told = {.instance = instance, .called_ns = stage_now_ns()};
	told.had = http_client_call(http, method, path, key ? fields : NULL, body, &answer);
	told.returned_ns = stage_now_ns();
	bool timed_out = !told.had && strcmp(http->error, "timed out") == 0;
	if (told.had) {
		const char *cache = http_answer_field(&answer, "Cache-Status");
		told.status = answer.status;
		told.hit = cache && strstr(cache, "hit");
		told.digest = digest(answer.body, answer.body_size);
		told.json = answer.body_size ? json_loadb(answer.body, answer.body_size, 0, NULL) : NULL;
		snprintf(told.code, sizeof told.code, "%s", text_at(told.json, "code"));
		if (!told.json)
			complain(c, "%s %s: %d with a body that is not JSON: %.200s", method, path, told.status, answer.body);
		if (told.status == 500)
			complain(c, "%s %s: 500: %.200s", method, path, answer.body);
	}
	if (!(impatient && timed_out))
		*APPEND(c->requests, c->request_count,
		        c->request_room) = (struct history_request){c->index,         instance,    told.called_ns,
		                                                    told.returned_ns, told.status, timed_out};
	http_answer_done(&answer);
	return told;
}

static int any_instance(struct client *c)
{
	return (int)dice_roll(&c->dice, PLAN_INSTANCES);
}

static bool decides(const struct told *told)
{
	return told->had && told->status < 500 && strcmp(told->code, "idempotency_in_flight") != 0;
}

/* Until an answer decides; had = false if the market closed before. */
static struct told insist(struct client *c, const struct client_request *request)
{
	int instance = any_instance(c);
	for (;;) {
		struct told told = call(c, instance, request->method, request->path, request->body, request->key,
		                        dice_chance(&c->dice, 2));
		if (decides(&told))
			return told;
		told_done(&told);
		c->tries++;
		int64_t give_up_ns = atomic_load(&c->market->give_up_ns);
		if (give_up_ns && stage_now_ns() > give_up_ns)
			return (struct told){0};
		nap(c, 30000);
		if (dice_chance(&c->dice, 50))
			instance = any_instance(c);
	}
}

/* --- reading answers ---------------------------------------------------------------------------------------------- */

static int sku_of(const json_t *object)
{
	const char *code = text_at(object, "sku");
	return code[0] == 'S' && code[1] >= '0' && code[1] < '0' + PLAN_SKUS && !code[2] ? code[1] - '0' : -1;
}

static bool id_at(const json_t *object, const char *name, struct uuid *ret_id)
{
	return uuid_parse(text_of(text_at(object, name)), ret_id);
}

/* "2026-11-29T14:42:05.123Z" on our clock. */
static int64_t time_at(struct client *c, const json_t *object, const char *name)
{
	struct tm tm = {0};
	int ms = 0;
	if (sscanf(text_at(object, name), "%d-%d-%dT%d:%d:%d.%dZ", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
	           &tm.tm_min, &tm.tm_sec, &ms) != 7) {
		complain(c, "%s is no time: %s", name, text_at(object, name));
		return 0;
	}
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	return (int64_t)timegm(&tm) * 1000 * MS + ms * MS - c->market->unix_minus_monotonic_ns;
}

/* Quantities and versions of the answer's lines must be those asked for, each SKU once. */
static void read_lines(struct client *c, struct history_write *w, const json_t *json)
{
	const json_t *lines = json_object_get(json, "lines");
	size_t i;
	json_t *line;
	if (json_array_size(lines) != w->line_count)
		complain(c, "%s: %zu lines were answered, %zu asked for", w->key, json_array_size(lines), w->line_count);
	json_array_foreach(lines, i, line)
	{
		int sku = sku_of(line);
		struct history_line *asked = NULL;
		for (size_t k = 0; k < w->line_count; k++)
			if (w->lines[k].sku == sku)
				asked = &w->lines[k];
		int64_t version = int_at(line, "version");
		if (!asked || (w->kind != OPERATION_ADJUST && int_at(line, "quantity") != asked->quantity)) {
			complain(c, "%s: the answer has a line that nobody asked for", w->key);
			continue;
		}
		asked->version = version > 0 ? version : 0;
		if (int_at(line, "on_hand") >= 0)
			c->on_hand[sku] = int_at(line, "on_hand");
	}
}

static void read_refusal(struct client *c, struct history_write *w, const json_t *json)
{
	size_t i;
	json_t *line;
	bool mismatch = strcmp(w->code, "change_from_mismatch") == 0;
	json_array_foreach(json_object_get(json, "lines"), i, line)
	{
		int sku = sku_of(line);
		for (size_t k = 0; k < w->line_count; k++)
			if (w->lines[k].sku == sku) {
				w->lines[k].requested = int_at(line, mismatch ? "change_from" : "requested");
				w->lines[k].available = int_at(line, mismatch ? "on_hand" : "available");
				w->lines[k].held = int_at(line, "held");
				if (mismatch)
					c->on_hand[sku] = w->lines[k].available;
			}
	}
}

/* --- writes ------------------------------------------------------------------------------------------------------- */

static struct history_write *write_new(struct client *c, enum operation_kind kind)
{
	struct history_write *w = APPEND(c->writes, c->write_count, c->write_room);
	w->kind = kind;
	w->client = c->index;
	snprintf(w->key, sizeof w->key, "c%d-%u", c->index, c->keys++);
	return w;
}

static void remember(struct client *c, const struct client_request *request)
{
	struct client_request *old = &c->recent[c->keys % CLIENT_REPLAYS];
	free(old->body);
	*old = *request;
}

static void look_at(struct client *c, int instance, int sku, bool row);

/* Whoever was answered looks at once, mostly at the other instance: the sharpest question there is. */
static void look_after(struct client *c, int instance, int sku)
{
	if (dice_chance(&c->dice, 60))
		look_at(c, dice_chance(&c->dice, 75) ? PLAN_INSTANCES - 1 - instance : instance, sku, false);
}

/* Sends it and writes the answer down; returns what was told, the caller's to finish. `allowed`: codes of refusals. */
static struct told perform(struct client *c, struct history_write *w, const char *path, json_t *body,
                           const char *allowed)
{
	struct client_request request = {.method = "POST", .write = (size_t)(w - c->writes)};
	snprintf(request.path, sizeof request.path, "%s", path);
	snprintf(request.key, sizeof request.key, "%s", w->key);
	request.body = json_dumps(body, JSON_COMPACT);
	json_decref(body);
	for (size_t i = 0; i < w->line_count; i++)
		w->lines[i].requested = -1;
	w->called_ns = stage_now_ns();
	struct told told = insist(c, &request);
	if (told.had) {
		w->answers[w->answer_count++] = (struct history_answer){told.returned_ns, told.status, told.digest};
		snprintf(w->code, sizeof w->code, "%s", told.code);
		if (told.status >= 300)
			read_refusal(c, w, told.json);
		if (told.status >= 300 && !strstr(allowed, told.code))
			complain(c, "%s %s: %d %s, which is not an answer to it", path, w->key, told.status, told.code);
	}
	remember(c, &request);
	if (told.had && w->line_count)
		look_after(c, told.instance, w->lines[dice_roll(&c->dice, w->line_count)].sku);
	return told;
}

static int any_sku(struct client *c)
{
	return (int)dice_roll(&c->dice, dice_chance(&c->dice, 50) ? PLAN_SKUS_HOT : PLAN_SKUS);
}

/* Draws 1 to 5 lines; a SKU may come twice, and is then one line of the answer. */
static json_t *draw_lines(struct client *c, struct history_write *w)
{
	json_t *lines = json_array();
	int count = (int)dice_between(&c->dice, 1, dice_chance(&c->dice, 50) ? 2 : LINES_MAX);
	for (int i = 0; i < count; i++) {
		int sku = any_sku(c);
		if (sku == PLAN_SKU_QUIET && dice_chance(&c->dice, 90))
			sku = 0;
		int64_t quantity = dice_chance(&c->dice, 80) ? 1 : dice_between(&c->dice, 1, 6);
		json_array_append_new(lines, json_pack("{s:o,s:I}", "sku", json_sprintf("S%d", sku), "quantity",
		                                       (json_int_t)quantity));
		size_t k = 0;
		while (k < w->line_count && w->lines[k].sku != sku)
			k++;
		if (k == w->line_count)
			w->lines[w->line_count++] = (struct history_line){.sku = sku};
		w->lines[k].quantity += quantity;
	}
	return lines;
}

static struct client_hold take_hold(struct client *c, struct client_hold *list, size_t *count, size_t i)
{
	struct client_hold hold = list[i];
	list[i] = list[--*count];
	return hold;
}

static void keep_hold(struct client *c, struct client_hold *list, size_t *count, const struct history_write *w)
{
	size_t i = *count < CLIENT_HOLDS ? (*count)++ : (size_t)dice_roll(&c->dice, CLIENT_HOLDS);
	list[i] = (struct client_hold){.id = w->object, .line_count = w->line_count};
	memcpy(list[i].lines, w->lines, sizeof w->lines);
}

static void add_id(json_t *body, const char *name, const struct uuid *id)
{
	char text[UUID_TEXT_BYTES + 1];
	uuid_format(id, text);
	json_object_set_new(body, name, json_string(text));
}

static void cart(struct client *c, enum operation_kind kind)
{
	struct history_write *w = write_new(c, kind);
	bool reserve = kind == OPERATION_RESERVE;
	json_t *body = json_pack("{s:o}", "lines", draw_lines(c, w));
	if (reserve)
		json_object_set_new(body, "ttl_seconds", json_integer(dice_between(&c->dice, 1, 2)));
	bool instead = c->hold_count && dice_chance(&c->dice, 20);
	if (instead) {
		/* Whatever comes of it, this client leaves that hold alone from now on. */
		w->other = take_hold(c, c->holds, &c->hold_count, dice_roll(&c->dice, c->hold_count)).id;
		add_id(body, reserve ? "replaces" : "releases", &w->other);
	}
	struct told told = perform(c, w, reserve ? "/v1/reservations" : "/v1/checkouts", body,
	                           instead ? "insufficient_stock reservation_expired" : "insufficient_stock");
	if (told.had && told.status == 201) {
		if (!id_at(told.json, "id", &w->object))
			complain(c, "%s: an answer without an id", w->key);
		read_lines(c, w, told.json);
		if (reserve)
			w->expires_at_ns = time_at(c, told.json, "expires_at");
		if (reserve)
			keep_hold(c, c->holds, &c->hold_count, w);
		else
			keep_hold(c, c->sales, &c->sale_count, w);
	}
	told_done(&told);
}

static void end_hold(struct client *c, enum operation_kind kind)
{
	if (!c->hold_count)
		return;
	size_t i = dice_roll(&c->dice, c->hold_count);
	struct client_hold hold = kind == OPERATION_EXTEND ? c->holds[i] : take_hold(c, c->holds, &c->hold_count, i);
	struct history_write *w = write_new(c, kind);
	char id[UUID_TEXT_BYTES + 1], path[100];
	uuid_format(&hold.id, id);
	snprintf(path, sizeof path, "/v1/reservations/%s/%s", id,
	         kind == OPERATION_COMMIT    ? "commit"
	         : kind == OPERATION_RELEASE ? "release"
	                                     : "extend");
	json_t *body = json_object();
	w->target = hold.id;
	if (kind == OPERATION_EXTEND)
		json_object_set_new(body, "ttl_seconds", json_integer(dice_between(&c->dice, 1, 2)));
	if (kind == OPERATION_COMMIT) {
		memcpy(w->lines, hold.lines, sizeof w->lines);
		w->line_count = hold.line_count;
	}
	struct told told = perform(c, w, path, body, kind == OPERATION_RELEASE ? "" : "reservation_expired");
	if (told.had && told.status == 200) {
		if (kind == OPERATION_COMMIT) {
			id_at(told.json, "id", &w->object);
			read_lines(c, w, told.json);
			w->created_at_ns = time_at(c, told.json, "created_at");
			keep_hold(c, c->sales, &c->sale_count, w);
		} else if (kind == OPERATION_EXTEND) {
			w->expires_at_ns = time_at(c, told.json, "expires_at");
		} else {
			const char *status = text_at(told.json, "status");
			w->state = strcmp(status, "expired") == 0 ? RESERVATION_EXPIRED : RESERVATION_RELEASED;
			if (w->state == RESERVATION_RELEASED && strcmp(status, "released") != 0)
				complain(c, "%s: released, but it is %s", w->key, status);
		}
	} else if (kind == OPERATION_EXTEND) {
		take_hold(c, c->holds, &c->hold_count, i);
	}
	told_done(&told);
}

static void cancel(struct client *c)
{
	if (!c->sale_count)
		return;
	struct client_hold sale = take_hold(c, c->sales, &c->sale_count, dice_roll(&c->dice, c->sale_count));
	struct history_write *w = write_new(c, OPERATION_CANCEL);
	char id[UUID_TEXT_BYTES + 1], path[100];
	uuid_format(&sale.id, id);
	snprintf(path, sizeof path, "/v1/checkouts/%s/cancel", id);
	json_t *body = json_object();
	w->target = sale.id;
	memcpy(w->lines, sale.lines, sizeof w->lines);
	w->line_count = sale.line_count;
	if (dice_chance(&c->dice, 40)) {
		w->line_count = 1;
		w->lines[0].quantity = dice_between(&c->dice, 1, w->lines[0].quantity);
		json_object_set_new(body, "lines",
		                    json_pack("[{s:o,s:I}]", "sku", json_sprintf("S%d", w->lines[0].sku), "quantity",
		                              (json_int_t)w->lines[0].quantity));
	}
	for (size_t i = 0; i < w->line_count; i++)
		w->lines[i].version = 0;
	struct told told = perform(c, w, path, body, "");
	told_done(&told);
}

static void adjust(struct client *c)
{
	struct history_write *w = write_new(c, OPERATION_ADJUST);
	json_t *lines = json_array();
	int count = (int)dice_between(&c->dice, 1, 2), first = (int)dice_roll(&c->dice, PLAN_SKU_QUIET);
	for (int i = 0; i < count; i++) {
		struct history_line *line = &w->lines[w->line_count++];
		*line = (struct history_line){.sku = (first + i * 3) % PLAN_SKU_QUIET};
		json_t *json = json_pack("{s:o}", "sku", json_sprintf("S%d", line->sku));
		int64_t believed = c->on_hand[line->sku];
		if (believed >= 0 && dice_chance(&c->dice, 35)) {
			line->set = true;
			line->quantity = believed + dice_between(&c->dice, -3, 4);
			if (line->quantity < 0)
				line->quantity = 0;
			json_object_set_new(json, "set", json_integer(line->quantity));
			json_object_set_new(json, "change_from", dice_chance(&c->dice, 75) ? json_integer(believed) : json_null());
		} else {
			line->quantity = dice_chance(&c->dice, 75) ? dice_between(&c->dice, 1, 8) : -dice_between(&c->dice, 1, 3);
			json_object_set_new(json, "delta", json_integer(line->quantity));
		}
		json_array_append_new(lines, json);
	}
	struct told told = perform(c, w, "/v1/adjustments", json_pack("{s:o,s:s}", "lines", lines, "reason", "simulated"),
	                           "insufficient_stock change_from_mismatch");
	if (told.had && told.status == 201) {
		id_at(told.json, "id", &w->object);
		read_lines(c, w, told.json);
	}
	told_done(&told);
}

/* One that was answered, once more: the same answer is expected, whoever gives it. */
static void ask_again(struct client *c)
{
	const struct client_request *request = &c->recent[dice_roll(&c->dice, CLIENT_REPLAYS)];
	struct history_write *w = request->body ? &c->writes[request->write] : NULL;
	if (!w || !w->answer_count || w->answer_count == HISTORY_ANSWERS_MAX)
		return;
	struct told told = insist(c, request);
	if (told.had)
		w->answers[w->answer_count++] = (struct history_answer){told.returned_ns, told.status, told.digest};
	told_done(&told);
}

/* --- reads -------------------------------------------------------------------------------------------------------- */

static void note_read(struct client *c, const struct told *told, const json_t *item, int wanted)
{
	int sku = sku_of(item);
	if (sku != wanted) {
		complain(c, "asked for S%d, told of %s (%s)", wanted, text_at(item, "sku"), text_at(item, "status"));
		return;
	}
	bool row = json_object_get(item, "on_hand") != NULL;
	*APPEND(c->reads, c->read_count, c->read_room) = (struct history_read){
		.client = c->index,
		.instance = told->instance,
		.called_ns = told->called_ns,
		.returned_ns = told->returned_ns,
		.sku = sku,
		.version = int_at(item, "version"),
		.available = int_at(item, "available"),
		.held = int_at(item, row ? "reserved" : "held"),
		.on_hand = row ? int_at(item, "on_hand") : -1,
		.tracked = json_is_true(json_object_get(item, "tracked")),
		.hit = told->hit,
	};
	if (row)
		c->on_hand[sku] = int_at(item, "on_hand");
	if (json_object_get(item, "stale"))
		complain(c, "a stale answer that nobody asked for");
}

static bool read_answered(struct client *c, const struct told *told, const char *path)
{
	if (!told->had || told->status == 503) {
		c->refused_reads++;
		return false;
	}
	if (told->status != 200)
		complain(c, "GET %s: %d %s", path, told->status, told->code);
	return told->status == 200;
}

static void look_at(struct client *c, int instance, int sku, bool row)
{
	char path[60];
	snprintf(path, sizeof path, "/v1/%s/S%d", row ? "skus" : "availability", sku);
	struct told told = call(c, instance, "GET", path, NULL, NULL, false);
	if (read_answered(c, &told, path))
		note_read(c, &told, told.json, sku);
	told_done(&told);
}

static void look_at_many(struct client *c)
{
	char path[200] = "/v1/availability?sku=", *to = path + strlen(path);
	int skus[PLAN_SKUS], count = (int)dice_between(&c->dice, 2, PLAN_SKUS);
	for (int i = 0; i < count; i++) {
		skus[i] = (int)dice_roll(&c->dice, PLAN_SKUS);
		to += sprintf(to, "%sS%d", i ? "&sku=" : "", skus[i]);
	}
	struct told told = call(c, any_instance(c), "GET", path, NULL, NULL, false);
	const json_t *items = json_object_get(told.json, "items");
	if (read_answered(c, &told, path)) {
		if (json_array_size(items) != (size_t)count)
			complain(c, "%zu items for %d SKUs", json_array_size(items), count);
		else
			for (int i = 0; i < count; i++)
				note_read(c, &told, json_array_get(items, (size_t)i), skus[i]);
	}
	told_done(&told);
}

/* A GET of a hold expires it if it is due; of what it says only that it exists is judged here. */
static void look_at_hold(struct client *c)
{
	if (!c->hold_count)
		return;
	char path[80], id[UUID_TEXT_BYTES + 1];
	uuid_format(&c->holds[dice_roll(&c->dice, c->hold_count)].id, id);
	snprintf(path, sizeof path, "/v1/reservations/%s", id);
	struct told told = call(c, any_instance(c), "GET", path, NULL, NULL, false);
	(void)read_answered(c, &told, path);
	told_done(&told);
}

static void look(struct client *c)
{
	unsigned roll = (unsigned)dice_roll(&c->dice, 100);
	int sku = dice_chance(&c->dice, 10) ? PLAN_SKU_QUIET : any_sku(c);
	int instance = any_instance(c);
	if (roll < 55) {
		look_at(c, instance, sku, false);
	} else if (roll < 75) {
		look_at_many(c);
	} else if (roll < 95) {
		/* The row comes from PostgreSQL: a cell that lags behind it is seen now or never. */
		look_at(c, instance, sku, true);
		look_at(c, any_instance(c), sku, false);
	} else {
		look_at_hold(c);
	}
}

void client_look_everywhere(struct client *c)
{
	for (int instance = 0; instance < PLAN_INSTANCES; instance++)
		for (int sku = 0; sku < PLAN_SKUS; sku++) {
			look_at(c, instance, sku, false);
			look_at(c, instance, sku, true);
		}
}

/* --- the thread --------------------------------------------------------------------------------------------------- */

static void act(struct client *c)
{
	unsigned roll = (unsigned)dice_roll(&c->dice, 100);
	if (roll < 54)
		look(c);
	else if (roll < 66)
		cart(c, OPERATION_CHECKOUT);
	else if (roll < 78)
		cart(c, OPERATION_RESERVE);
	else if (roll < 83)
		end_hold(c, OPERATION_COMMIT);
	else if (roll < 87)
		end_hold(c, OPERATION_RELEASE);
	else if (roll < 90)
		end_hold(c, OPERATION_EXTEND);
	else if (roll < 93)
		cancel(c);
	else if (roll < 97)
		adjust(c);
	else
		ask_again(c);
}

void *client_main(void *context)
{
	struct client *c = context;
	while (!atomic_load(&c->market->closing)) {
		act(c);
		if (dice_chance(&c->dice, 50))
			nap(c, 6000);
	}
	return NULL;
}

void client_init(struct client *c, struct market *market, int index)
{
	*c = (struct client){.market = market, .index = index};
	c->dice = dice_of(market->plan->seed, 100 + (uint64_t)index);
	/* Three principals share the clients; no two of these use one key. */
	int principal = index % 3;
	memcpy(c->bearer, "lu_", 3);
	memset(c->bearer + 3, '0' + principal, 32);
	for (int i = 0; i < PLAN_INSTANCES; i++)
		c->http[i] = http_client(market->addresses[i], c->bearer);
	for (int i = 0; i < PLAN_SKUS; i++)
		c->on_hand[i] = -1;
}

void client_done(struct client *c)
{
	for (int i = 0; i < PLAN_INSTANCES; i++)
		http_client_done(&c->http[i]);
	for (int i = 0; i < CLIENT_REPLAYS; i++)
		free(c->recent[i].body);
	free(c->writes);
	free(c->reads);
	free(c->requests);
}
