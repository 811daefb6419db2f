/* Calls: from a request to the inventory and back.
 *
 * Happy path of an operation: call_new → body → key → inventory_submit → (a writer) on_done → mailbox → on_answer on
 * the loop → reply. Of a query: ask_init → inventory_query → (a loader) work, on_done → mailbox → on_answer → reply.
 * Failure modes: what is refused before the inventory took it is replied at once; what it took comes back exactly once.
 */
#include "api/call.h"

#include <inttypes.h>
#include <string.h>

#include "api/render.h"
#include "base/check.h"
#include "base/container.h"
#include "base/id.h"
#include "base/text.h"
#include "http/auth.h"
#include "http/problem.h"

struct api_loop *loop_of(struct request *request)
{
	return server_loop_context(request_loop(request));
}

struct buffer *loop_out(struct api_loop *loop)
{
	buffer_clear(&loop->out);
	return &loop->out;
}

void reply_fault(struct request *request, const struct fault *fault)
{
	problem_reply(request, fault->error, fault->detail);
}

bool sees_all(const struct principal *principal)
{
	return principal->scopes & SCOPE_ORDERS;
}

bool sees_object_of(const struct principal *principal, int64_t owner_id)
{
	return principal->id == owner_id || sees_all(principal);
}

/* --- operations --------------------------------------------------------------------------------------------------- */

void call_init(struct call *call, struct request *request, enum operation_kind kind, struct arena *arena)
{
	call->request = request;
	call->mailbox = server_loop_mailbox(request_loop(request));
	call->operation.kind = kind;
	call->operation.arena = arena;
	call->operation.principal = *request_principal(request);
	call->operation.deadline_ns = request_deadline_ns(request);
}

struct call *call_new(struct request *request, enum operation_kind kind)
{
	struct call *call = ARENA_NEW(request_arena(request), struct call);
	call_init(call, request, kind, request_arena(request));
	return call;
}

bool call_key_required(enum operation_kind kind)
{
	return kind == OPERATION_CHECKOUT || kind == OPERATION_RESERVE || kind == OPERATION_ADJUST ||
	       kind == OPERATION_CANCEL;
}

/* On a writer's or loader's thread. */
static void on_done(struct operation *operation)
{
	struct call *call = CONTAINER_OF(operation, struct call, operation);
	mailbox_post(call->mailbox, &call->item);
}

static void deliver(struct mailbox_item *item)
{
	struct call *call = CONTAINER_OF(item, struct call, item);
	if (!call->one_of_many)
		call_add_timing(call);
	call->on_answer(call);
}

/* "lock;dur=0.412, ": milliseconds, as the metric's unit wants. */
static void put_timing(struct buffer *out, const char *step, int64_t ns)
{
	if (ns <= 0)
		return;
	int64_t us = ns / 1000;
	const char fraction[] = {'.', (char)('0' + us / 100 % 10), (char)('0' + us / 10 % 10), (char)('0' + us % 10)};
	if (out->size)
		buffer_add_string(out, ", ");
	buffer_add_string(out, step);
	buffer_add_string(out, ";dur=");
	buffer_add_int(out, us / 1000);
	buffer_add(out, fraction, sizeof fraction);
}

void call_add_timing(struct call *call)
{
	const struct operation_timing *timing = &call->operation.timing;
	struct buffer *out = loop_out(loop_of(call->request));
	put_timing(out, "queue", timing->queue);
	put_timing(out, "lock", timing->lock);
	put_timing(out, "decide", timing->decide);
	put_timing(out, "write", timing->write);
	put_timing(out, "intend", timing->intend);
	put_timing(out, "commit", timing->commit);
	put_timing(out, "publish", timing->publish);
	if (!uuid_is_nil(&call->operation.verdict.object_id)) {
		char id[UUID_TEXT_BYTES + 1];
		uuid_format(&call->operation.verdict.object_id, id);
		buffer_add_format(out, "%soperation;desc=\"%s\"", out->size ? ", " : "", id);
	}
	if (out->size)
		request_add_header(call->request, "Server-Timing", buffer_text(out));
}

enum lu_error call_submit(struct call *call, void (*on_answer)(struct call *call), struct text *ret_detail)
{
	call->on_answer = on_answer;
	call->item.deliver = deliver;
	call->operation.on_done = on_done;
	enum lu_error error = inventory_submit(loop_of(call->request)->inventory, &call->operation);
	*ret_detail = (struct text){0};
	if (error == LU_INVALID_QUANTITY)
		*ret_detail =
			call->operation.kind == OPERATION_ADJUST
				? TEXT("The `lines` of one SKU add up to less than -1000000000000000 or more than 1000000000000000.")
				: TEXT("The `lines` of one SKU add up to more than 1000000000.");
	else if (error == LU_INVALID_LINES)
		*ret_detail = TEXT("`lines` names a SKU twice, which only quantities and deltas may.");
	return error;
}

/* The header and the body may both carry the key; then they must agree. */
static bool take_key(struct call *call)
{
	struct operation *operation = &call->operation;
	struct text header, key;
	struct fault fault;
	if (request_header(call->request, "Idempotency-Key", &header)) {
		/* Joined they would be a third key, that the client knows nothing of. */
		if (request_header_count(call->request, "Idempotency-Key") > 1) {
			problem_reply(call->request, LU_MALFORMED_REQUEST,
			              TEXT("The header `Idempotency-Key` comes more than once; send one."));
			return false;
		}
		if (!body_key_header(header, operation->arena, &key, &fault)) {
			reply_fault(call->request, &fault);
			return false;
		}
		if (operation->client_key && !text_equal(key, operation->key)) {
			problem_reply(
				call->request, LU_MALFORMED_REQUEST,
				TEXT("The header `Idempotency-Key` and the field `idempotency_key` differ; send one of them."));
			return false;
		}
		operation->key = key;
		operation->client_key = true;
	}
	if (operation->client_key || !call_key_required(operation->kind))
		return true;
	problem_reply(call->request, LU_IDEMPOTENCY_KEY_REQUIRED, (struct text){0});
	return false;
}

void call_run(struct call *call, void (*on_answer)(struct call *call))
{
	/* Which fields must be there is the decoder's business: an absent body is an empty object. */
	json_t *body;
	if (!take_query_names(call->request, (const char *const[]){NULL}) || !take_json(call->request, false, &body))
		return;
	struct fault fault;
	if (!body_decode(body, BODY_OF_ROUTE, &call->operation, &fault)) {
		reply_fault(call->request, &fault);
		return;
	}
	if (!take_key(call))
		return;
	struct text detail;
	enum lu_error error = call_submit(call, on_answer, &detail);
	if (error)
		problem_reply(call->request, error, detail);
}

void call_problem(struct json_writer *w, const struct operation *operation)
{
	const struct verdict *verdict = &operation->verdict;
	problem_open(w, verdict->error, verdict_detail(operation->arena, operation->kind, verdict));
	render_shortages(w, verdict);
}

static void add_location(struct call *call)
{
	const struct operation *operation = &call->operation;
	const char *folder = operation->kind == OPERATION_CHECKOUT  ? "/v1/checkouts/"
	                     : operation->kind == OPERATION_RESERVE ? "/v1/reservations/"
	                                                            : NULL;
	if (!folder)
		return;
	char id[UUID_TEXT_BYTES + 1];
	uuid_format(&operation->verdict.object_id, id);
	request_add_header(call->request, "Location", arena_printf(operation->arena, "%s%s", folder, id));
}

/* The fields of draft-ietf-httpapi-ratelimit-headers for a cap: without a window, since what is held comes back when a hold
 * ends, whenever that is. */
static void add_cap(struct request *request, const struct cap_reached *cap)
{
	struct arena *arena = request_arena(request);
	if (!cap->policy)
		return;
	request_add_header(request, "RateLimit-Policy", arena_printf(arena, "\"%s\";q=%" PRId64, cap->policy, cap->quota));
	request_add_header(request, "RateLimit", arena_printf(arena, "\"%s\";r=%" PRId64, cap->policy, cap->left));
	if (!cap->never)
		request_add_header(request, "Retry-After", TEXT("1"));
}

void call_reply(struct call *call)
{
	const struct verdict *verdict = &call->operation.verdict;
	add_cap(call->request, &verdict->cap);
	struct json_writer w = json_writer(loop_out(loop_of(call->request)));
	if (verdict->replayed)
		request_add_header(call->request, "Idempotent-Replayed", TEXT("true"));
	if (verdict->error) {
		call_problem(&w, &call->operation);
		problem_send(call->request, verdict->error, &w);
		return;
	}
	add_location(call);
	render_verdict(&w, &call->operation);
	request_reply_json(call->request, verdict_status(&call->operation), w.out);
}

/* --- queries ------------------------------------------------------------------------------------------------------ */

void ask_init(struct ask *ask, struct request *request)
{
	ask->request = request;
	ask->mailbox = server_loop_mailbox(request_loop(request));
	ask->query.arena = request_arena(request);
	ask->query.deadline_ns = request_deadline_ns(request);
}

/* On a loader's thread. */
static void on_query_done(struct query *query)
{
	struct ask *ask = CONTAINER_OF(query, struct ask, query);
	mailbox_post(ask->mailbox, &ask->item);
}

static void fail(struct ask *ask)
{
	if (ask->on_error)
		ask->on_error(ask);
	else
		problem_reply(ask->request, ask->query.error, (struct text){0});
}

static void deliver_query(struct mailbox_item *item)
{
	struct ask *ask = CONTAINER_OF(item, struct ask, item);
	if (ask->query.error)
		fail(ask);
	else
		ask->on_answer(ask);
}

void ask_run(struct ask *ask, enum lu_error (*work)(struct query *query, struct pg *pg),
             void (*on_answer)(struct ask *ask))
{
	ask->query.work = work;
	ask->query.on_done = on_query_done;
	ask->query.asker = request_asker(ask->request);
	ask->item.deliver = deliver_query;
	ask->on_answer = on_answer;
	enum lu_error error = inventory_query(loop_of(ask->request)->inventory, &ask->query);
	if (error) {
		ask->query.error = error;
		fail(ask);
	}
}

/* --- what requests have in common --------------------------------------------------------------------------------- */

bool take_json_of(struct request *request, bool required, size_t values_max, json_t **ret_value)
{
	*ret_value = NULL;
	if (!required && !request_body(request).size)
		return true;
	const char *why = NULL;
	enum lu_error error = request_json(request, values_max, ret_value, &why);
	if (error)
		problem_reply(request, error, why ? text_of(why) : (struct text){0});
	return !error;
}

bool take_json(struct request *request, bool required, json_t **ret_value)
{
	return take_json_of(request, required, REQUEST_VALUES_MAX, ret_value);
}

bool take_path_sku(struct request *request, struct text *ret_sku)
{
	*ret_sku = request_param(request, 0);
	enum lu_error error = text_check_sku(*ret_sku);
	if (error)
		problem_reply(request, error, (struct text){0});
	return !error;
}

bool take_path_id(struct request *request, enum lu_error unknown, struct uuid *ret_id)
{
	if (uuid_parse(request_param(request, 0), ret_id))
		return true;
	problem_reply(request, unknown, (struct text){0});
	return false;
}

/* "; known are `cursor`, `limit`" */
static struct text known_list(struct request *request, const char *const *names)
{
	struct text list = *names ? TEXT("; known are") : TEXT("; this call takes none");
	for (size_t i = 0; names[i]; i++)
		list = arena_printf(request_arena(request), "%.*s%s `%s`", (int)list.size, list.data, i ? "," : "", names[i]);
	return list;
}

bool take_query_lists(struct request *request, const char *const *names)
{
	struct text other = request_query_check(request, names);
	if (!other.size)
		return true;
	bool tellable = other.size <= 64 && text_is_utf8(other);
	struct text known = known_list(request, names);
	problem_reply(request, LU_INVALID_FIELD,
	              arena_printf(request_arena(request), "The query has a parameter%s%.*s%s that is not known here%.*s.",
	                           tellable ? " `" : "", tellable ? (int)other.size : 0, other.data, tellable ? "`" : "",
	                           (int)known.size, known.data));
	return false;
}

static bool refuse_query(struct request *request, const char *name, const char *rule)
{
	problem_reply(request, LU_INVALID_FIELD,
	              arena_printf(request_arena(request), "The query's `%s` must be %s.", name, rule));
	return false;
}

bool take_query_names(struct request *request, const char *const *names)
{
	struct text second;
	if (!take_query_lists(request, names))
		return false;
	for (; *names; names++)
		if (request_query(request, *names, 1, &second))
			return refuse_query(request, *names, "given once");
	return true;
}

bool take_limit(struct request *request, size_t *ret_limit)
{
	struct text text;
	int64_t limit = PAGE_ITEMS;
	if (request_query(request, "limit", 0, &text) &&
	    (!text_to_int64(text, &limit) || limit < 1 || limit > PAGE_ITEMS_MAX))
		return refuse_query(request, "limit", "an integer from 1 to 500");
	*ret_limit = (size_t)limit;
	return true;
}

bool take_query_id(struct request *request, const char *name, struct uuid *ret_id)
{
	struct text text;
	*ret_id = (struct uuid){0};
	if (!request_query(request, name, 0, &text) || uuid_parse(text, ret_id))
		return true;
	return refuse_query(request, name, "the `next` of the page before");
}

bool take_query_sku(struct request *request, const char *name, struct text *ret_sku)
{
	if (!request_query(request, name, 0, ret_sku) || !text_check_sku(*ret_sku))
		return true;
	problem_reply(request, LU_INVALID_SKU,
	              arena_printf(request_arena(request), "The query's `%s` is not a SKU code. %s", name,
	                           lu_error_mend(LU_INVALID_SKU)));
	return false;
}

bool take_query_text(struct request *request, const char *name, struct text *ret_text)
{
	*ret_text = (struct text){0};
	if (!request_query(request, name, 0, ret_text) || !text_check_free(*ret_text, LU_REFERENCE_BYTES_MAX))
		return true;
	return refuse_query(
		request, name,
		"at most 255 bytes of UTF-8 without noncharacters, without control characters but tab and line ends");
}
