/* Webhooks: making, showing, removing, rotating and enabling subscriptions, and what their endpoints refused.
 *
 * Happy path: one statement each on a loader's thread. A secret is shown when it is made, and to whoever makes the same
 * again under the same idempotency key, because the first answer may have been lost; never else. The key needs no row of
 * its own: the webhook's id is made of it, so the second one meets the first; and of that of a rotation the new secret is,
 * so the second time it is there already.
 * Failure modes: an address that is none, or leads into the service's own network, is 422; an id that is not known 404.
 */
#include "store/webhook.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/body.h"
#include "api/call.h"
#include "api/handlers.h"
#include "base/check.h"
#include "base/config.h"
#include "base/id.h"
#include "base/text.h"
#include "channels/webhook_address.h"
#include "channels/webhook_message.h"
#include "http/auth.h"
#include "http/problem.h"

#define URL_BYTES_MAX 2000
#define GRACE_S (24 * 60 * 60) /* in which the secret before the last is signed with, too */

struct webhook_ask {
	struct ask ask;
	struct webhook given;
	char secret[WEBHOOK_SECRET_BYTES + 1];
	bool show_secret, keyed, replayed;
	int status; /* of the answer, if all is well */
	bool done;  /* made, found */
	struct webhook *rows;
	size_t count;
	/* deliveries */
	int64_t after;
	size_t limit;
	struct webhook_failure *failures;
};

/* --- showing --------------------------------------------------------------------------------------------------------- */

static void render_subscription(struct json_writer *w, const struct webhook *webhook)
{
	json_member_text(w, "url", webhook->url);
	json_key(w, "events");
	json_array_open(w);
	for (unsigned event = 1; event <= WEBHOOK_EVENTS_ALL; event *= 2)
		if (webhook->events & event)
			json_put_string(w, webhook_event_name((enum webhook_event)event));
	json_array_close(w);
	json_key(w, "skus");
	if (webhook->skus) {
		json_array_open(w);
		for (size_t i = 0; i < webhook->sku_count; i++)
			json_put_text(w, webhook->skus[i]);
		json_array_close(w);
	} else {
		json_put_null(w);
	}
}

static void render_webhook(struct json_writer *w, const struct webhook *webhook, const char *secret)
{
	json_object_open(w);
	json_key(w, "id");
	json_put_uuid(w, &webhook->id);
	render_subscription(w, webhook);
	json_member_string(w, "status",
	                   webhook->disabled.data      ? "disabled"
	                   : webhook->failing_since_us ? "failing"
	                                               : "active");
	json_member_text(w, "disabled_because", webhook->disabled);
	json_member_text(w, "last_error", webhook->last_error);
	json_member_int(w, "attempts", webhook->attempts);
	json_member_time(w, "failing_since", webhook->failing_since_us);
	json_member_time(w, "next_attempt_at", webhook->next_attempt_us);
	json_member_time(w, "delivered_at", webhook->delivered_us);
	json_member_time(w, "created_at", webhook->created_us);
	if (secret)
		json_member_string(w, "secret", secret);
	json_object_close(w);
}

/* --- answering ------------------------------------------------------------------------------------------------------- */

static void on_one(struct ask *ask)
{
	struct webhook_ask *asked = (struct webhook_ask *)ask; /* its first member */
	if (!asked->done || asked->count != 1) {
		problem_reply(ask->request, LU_UNKNOWN_WEBHOOK, (struct text){0});
		return;
	}
	struct json_writer w = json_writer(loop_out(loop_of(ask->request)));
	render_webhook(&w, asked->rows, asked->show_secret ? asked->secret : NULL);
	request_add_header(ask->request, "Cache-Control", TEXT("no-store"));
	request_reply_json(ask->request, asked->status, w.out);
}

static bool is_the_same(const struct webhook *a, const struct webhook *b)
{
	bool same = text_equal(a->url, b->url) && a->events == b->events && a->sku_count == b->sku_count;
	for (size_t i = 0; same && i < a->sku_count; i++)
		same = text_equal(a->skus[i], b->skus[i]);
	return same;
}

static void add_location(struct webhook_ask *asked)
{
	char id[UUID_TEXT_BYTES + 1];
	uuid_format(&asked->given.id, id);
	request_add_header(asked->ask.request, "Location", arena_printf(asked->ask.query.arena, "/v1/webhooks/%s", id));
}

/* The key has made one before. */
static void on_found(struct webhook_ask *asked)
{
	if (!is_the_same(asked->rows, &asked->given)) {
		problem_reply(asked->ask.request, LU_IDEMPOTENCY_CONFLICT, (struct text){0});
		return;
	}
	snprintf(asked->secret, sizeof asked->secret, "%.*s", (int)asked->rows->secret.size, asked->rows->secret.data);
	asked->done = true;
	request_add_header(asked->ask.request, "Idempotent-Replayed", TEXT("true"));
	add_location(asked);
	on_one(&asked->ask);
}

static void on_made(struct ask *ask)
{
	struct webhook_ask *asked = (struct webhook_ask *)ask;
	if (!asked->done && asked->count == 1) {
		on_found(asked);
		return;
	}
	if (!asked->done) {
		problem_reply(ask->request, LU_INVALID_FIELD,
		              arena_printf(ask->query.arena, "There are %d webhooks already. Delete one first.", WEBHOOKS_MAX));
		return;
	}
	add_location(asked);
	on_one(ask);
}

static void on_rotated(struct ask *ask)
{
	if (((struct webhook_ask *)ask)->replayed)
		request_add_header(ask->request, "Idempotent-Replayed", TEXT("true"));
	on_one(ask);
}

static void on_list(struct ask *ask)
{
	struct webhook_ask *asked = (struct webhook_ask *)ask;
	struct json_writer w = json_writer(loop_out(loop_of(ask->request)));
	json_object_open(&w);
	json_key(&w, "items");
	json_array_open(&w);
	for (size_t i = 0; i < asked->count; i++)
		render_webhook(&w, &asked->rows[i], NULL);
	json_array_close(&w);
	json_key(&w, "next");
	json_put_null(&w);
	json_object_close(&w);
	request_reply_json(ask->request, 200, w.out);
}

static void on_deleted(struct ask *ask)
{
	if (((struct webhook_ask *)ask)->done)
		request_reply(ask->request, 204, NULL, (struct text){0});
	else
		problem_reply(ask->request, LU_UNKNOWN_WEBHOOK, (struct text){0});
}

static void on_failures(struct ask *ask)
{
	struct webhook_ask *asked = (struct webhook_ask *)ask;
	if (!asked->done) {
		problem_reply(ask->request, LU_UNKNOWN_WEBHOOK, (struct text){0});
		return;
	}
	struct json_writer w = json_writer(loop_out(loop_of(ask->request)));
	bool more = asked->count > asked->limit;
	size_t count = more ? asked->limit : asked->count;
	json_object_open(&w);
	json_key(&w, "items");
	json_array_open(&w);
	for (size_t i = 0; i < count; i++) {
		const struct webhook_failure *failure = &asked->failures[i];
		json_object_open(&w);
		json_member_text(&w, "message_id", failure->message);
		json_member_time(&w, "at", failure->at_us);
		json_member_int(&w, "attempts", failure->attempts);
		json_member_text(&w, "error", failure->error);
		json_key(&w, "body");
		json_put_raw(&w, failure->body); /* as we made it */
		json_object_close(&w);
	}
	json_array_close(&w);
	json_key(&w, "next");
	if (more)
		json_put_text(&w, arena_printf(ask->query.arena, "%lld", (long long)asked->failures[count - 1].id));
	else
		json_put_null(&w);
	json_object_close(&w);
	request_reply_json(ask->request, 200, w.out);
}

/* --- asking, on a loader's thread ------------------------------------------------------------------------------------ */

static enum lu_error read_one(struct webhook_ask *asked, struct pg *pg)
{
	return webhook_list(pg, asked->ask.query.arena, &asked->given.id, asked->ask.query.deadline_ns, &asked->rows,
	                    &asked->count);
}

static enum lu_error make(struct query *query, struct pg *pg)
{
	struct webhook_ask *asked = (struct webhook_ask *)query;
	enum lu_error error = webhook_insert(pg, query->arena, &asked->given, query->deadline_ns, &asked->done);
	return error || !(asked->done || asked->keyed) ? error : read_one(asked, pg);
}

static enum lu_error look(struct query *query, struct pg *pg)
{
	struct webhook_ask *asked = (struct webhook_ask *)query;
	asked->done = true;
	return read_one(asked, pg);
}

static enum lu_error look_at_all(struct query *query, struct pg *pg)
{
	struct webhook_ask *asked = (struct webhook_ask *)query;
	return webhook_list(pg, query->arena, NULL, query->deadline_ns, &asked->rows, &asked->count);
}

/* Done is what was there once: a second run, after a lost connection, may find that the first has removed it. */
static enum lu_error remove_one(struct query *query, struct pg *pg)
{
	struct webhook_ask *asked = (struct webhook_ask *)query;
	bool found;
	enum lu_error error = read_one(asked, pg);
	if (error)
		return error;
	asked->done |= asked->count == 1;
	return webhook_delete(pg, &asked->given.id, query->deadline_ns, &found);
}

static enum lu_error rotate(struct query *query, struct pg *pg)
{
	struct webhook_ask *asked = (struct webhook_ask *)query;
	struct text secret = text_of(asked->secret);
	enum lu_error error = read_one(asked, pg);
	if (error || !asked->count)
		return error;
	asked->replayed = asked->done = asked->keyed && text_equal(asked->rows->secret, secret);
	if (asked->replayed)
		return LU_OK;
	error = webhook_rotate(pg, &asked->given.id, secret, GRACE_S, query->deadline_ns, &asked->done);
	if (!error)
		error = read_one(asked, pg);
	/* Rotated since. */
	return !error && asked->keyed && asked->count && !asked->done ? LU_IDEMPOTENCY_CONFLICT : error;
}

static enum lu_error enable(struct query *query, struct pg *pg)
{
	struct webhook_ask *asked = (struct webhook_ask *)query;
	enum lu_error error = webhook_enable(pg, &asked->given.id, query->deadline_ns, &asked->done);
	return error ? error : read_one(asked, pg);
}

static enum lu_error read_failures(struct query *query, struct pg *pg)
{
	struct webhook_ask *asked = (struct webhook_ask *)query;
	enum lu_error error = read_one(asked, pg);
	asked->done = asked->count == 1;
	return error ? error
	             : webhook_failures(pg, query->arena, &asked->given.id, asked->after, asked->limit + 1,
	                                query->deadline_ns, &asked->failures, &asked->count);
}

/* --- the body of a new one ------------------------------------------------------------------------------------------- */

static bool refuse(struct request *request, enum lu_error error, struct text detail)
{
	problem_reply(request, error, detail);
	return false;
}

static bool take_url(struct request *request, const json_t *value, struct webhook *given)
{
	if (!json_is_string(value) || !json_string_length(value) || json_string_length(value) > URL_BYTES_MAX)
		return refuse(request, LU_INVALID_FIELD, TEXT("`url` must be an address of 1 to 2000 bytes."));
	const char *flaw = webhook_url_flaw(json_string_value(value), loop_of(request)->config->webhook_private_addresses);
	given->url = json_text(value);
	return !flaw || refuse(request, LU_INVALID_FIELD, text_of(flaw));
}

static bool take_events(struct request *request, const json_t *list, struct webhook *given)
{
	enum webhook_event event;
	size_t count = json_array_size(list);
	if (!count)
		return refuse(request, LU_INVALID_FIELD, TEXT("`events` must be a list of at least one event."));
	given->events = 0;
	for (size_t i = 0; i < count; i++) {
		const json_t *name = json_array_get(list, i);
		if (!json_is_string(name) || !webhook_event_parse(json_text(name), &event))
			return refuse(request, LU_INVALID_FIELD,
			              arena_printf(request_arena(request),
			                           "`events[%zu]` must be availability.changed, stock.out or stock.back.", i));
		given->events |= event;
	}
	return true;
}

static int compare_texts(const void *a, const void *b)
{
	return text_compare(*(const struct text *)a, *(const struct text *)b);
}

/* In order and without twins, as the deliverer searches them. */
static bool take_skus(struct request *request, const json_t *list, struct webhook *given)
{
	size_t count = json_array_size(list);
	if (!count || count > LU_LOOKUP_MAX)
		return refuse(request, LU_INVALID_FIELD,
		              arena_printf(request_arena(request), "`skus` must hold 1 to %d codes; without it, all are meant.",
		                           LU_LOOKUP_MAX));
	given->skus = ARENA_ARRAY(request_arena(request), count, struct text);
	for (size_t i = 0; i < count; i++) {
		const json_t *sku = json_array_get(list, i);
		if (!json_is_string(sku) || text_check_sku(json_text(sku)))
			return refuse(request, LU_INVALID_SKU,
			              arena_printf(request_arena(request), "`skus[%zu]` is not a SKU code. %s", i,
			                           lu_error_mend(LU_INVALID_SKU)));
		given->skus[i] = json_text(sku);
	}
	qsort(given->skus, count, sizeof *given->skus, compare_texts);
	for (size_t i = 0; i < count; i++)
		if (!i || !text_equal(given->skus[i], given->skus[i - 1]))
			given->skus[given->sku_count++] = given->skus[i];
	return true;
}

static bool take_member(struct request *request, const char *name, const json_t *value, struct webhook *given)
{
	if (!strcmp(name, "url"))
		return take_url(request, value, given);
	if (!strcmp(name, "events"))
		return json_is_null(value) || take_events(request, value, given);
	if (!strcmp(name, "skus"))
		return json_is_null(value) || take_skus(request, value, given);
	return refuse(request, LU_INVALID_FIELD,
	              body_stray_field(request_arena(request), text_of(name), "url, events, skus"));
}

static bool take_body(struct request *request, struct webhook *given)
{
	json_t *body, *value;
	const char *name;
	if (!take_json(request, true, &body))
		return false;
	if (!json_is_object(body))
		return refuse(request, LU_INVALID_FIELD, TEXT("The body must be an object with a `url`."));
	json_object_foreach(body, name, value) if (!take_member(request, name, value, given)) return false;
	return given->url.data || refuse(request, LU_INVALID_FIELD, TEXT("`url` is missing."));
}

/* Always the same of one principal's key: a UUID of version 8. */
static struct uuid id_of_key(struct arena *arena, int64_t principal_id, struct text key)
{
	struct text name = arena_printf(arena, "%lld %.*s", (long long)principal_id, (int)key.size, key.data);
	unsigned char sha256[SHA256_DIGEST_LENGTH];
	struct uuid id;
	CHECK(SHA256((const unsigned char *)name.data, name.size, sha256));
	memcpy(id.bytes, sha256, sizeof id.bytes);
	id.bytes[6] = (uint8_t)(0x80 | (id.bytes[6] & 0x0f));
	id.bytes[8] = (uint8_t)(0x80 | (id.bytes[8] & 0x3f));
	return id;
}

/* *ret_key size 0: none came. */
static bool take_key(struct request *request, struct text *ret_key)
{
	struct text header;
	struct fault fault;
	*ret_key = (struct text){0};
	if (!request_header(request, "Idempotency-Key", &header))
		return true;
	if (request_header_count(request, "Idempotency-Key") > 1)
		return refuse(request, LU_MALFORMED_REQUEST,
		              TEXT("The header `Idempotency-Key` comes more than once; send one."));
	if (body_key_header(header, request_arena(request), ret_key, &fault))
		return true;
	reply_fault(request, &fault);
	return false;
}

static bool take_new_id(struct request *request, struct webhook_ask *asked)
{
	struct text key;
	if (!take_key(request, &key))
		return false;
	asked->keyed = key.size > 0;
	asked->given.id = asked->keyed ? id_of_key(request_arena(request), request_principal(request)->id, key)
	                               : uuid_new();
	return true;
}

/* --- routes ---------------------------------------------------------------------------------------------------------- */

static struct webhook_ask *ask_new(struct request *request)
{
	struct webhook_ask *asked = ARENA_NEW(request_arena(request), struct webhook_ask);
	asked->status = 200;
	ask_init(&asked->ask, request);
	return asked;
}

/* For the routes with an id in their path. NULL: a problem was replied. */
static struct webhook_ask *ask_by_id(struct request *request, const char *const *query_names)
{
	struct webhook_ask *asked = ask_new(request);
	return take_query_names(request, query_names) && take_path_id(request, LU_UNKNOWN_WEBHOOK, &asked->given.id) ? asked
	                                                                                                             : NULL;
}

static const char *const no_names[] = {NULL};

void webhook_post(struct request *request)
{
	struct webhook_ask *asked = ask_new(request);
	asked->given.events = WEBHOOK_EVENTS_ALL;
	if (!take_query_names(request, no_names) || !take_body(request, &asked->given) || !take_new_id(request, asked))
		return;
	webhook_secret_new(asked->secret);
	asked->given.secret = text_of(asked->secret);
	asked->show_secret = true;
	asked->status = 201;
	ask_run(&asked->ask, make, on_made);
}

void webhook_get(struct request *request)
{
	struct webhook_ask *asked = ask_by_id(request, no_names);
	if (asked)
		ask_run(&asked->ask, look, on_one);
}

void webhook_list_get(struct request *request)
{
	struct webhook_ask *asked = ask_new(request);
	if (take_query_names(request, no_names))
		ask_run(&asked->ask, look_at_all, on_list);
}

void webhook_remove(struct request *request)
{
	struct webhook_ask *asked = ask_by_id(request, no_names);
	if (asked)
		ask_run(&asked->ask, remove_one, on_deleted);
}

/* A secret of one's own, say, is not taken in silence. */
static bool take_no_fields(struct request *request)
{
	json_t *body = NULL;
	if (!request_body(request).size)
		return true;
	if (!take_json(request, false, &body))
		return false;
	return (json_is_object(body) && !json_object_size(body)) ||
	       refuse(request, LU_INVALID_FIELD, TEXT("This call has no fields: send no body, or {}."));
}

void webhook_rotate_post(struct request *request)
{
	struct webhook_ask *asked = ask_by_id(request, no_names);
	struct text key;
	if (!asked || !take_no_fields(request) || !take_key(request, &key))
		return;
	asked->keyed = key.size > 0;
	if (asked->keyed)
		webhook_secret_of(inventory_secret(loop_of(request)->inventory), &asked->given.id,
		                  request_principal(request)->id, key, asked->secret);
	else
		webhook_secret_new(asked->secret);
	asked->show_secret = true;
	ask_run(&asked->ask, rotate, on_rotated);
}

void webhook_enable_post(struct request *request)
{
	struct webhook_ask *asked = ask_by_id(request, no_names);
	if (asked && take_no_fields(request))
		ask_run(&asked->ask, enable, on_one);
}

void webhook_deliveries(struct request *request)
{
	struct webhook_ask *asked = ask_by_id(request, (const char *const[]){"after", "limit", NULL});
	struct text after;
	if (!asked || !take_limit(request, &asked->limit))
		return;
	if (request_query(request, "after", 0, &after) && (!text_to_int64(after, &asked->after) || asked->after < 0)) {
		problem_reply(request, LU_INVALID_FIELD, TEXT("The query's `after` must be the `next` of the page before."));
		return;
	}
	ask_run(&asked->ask, read_failures, on_failures);
}
