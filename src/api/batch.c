/* A batch: up to 1,000 operations in one request, each answered by itself. A till's offline queue.
 *
 * Happy path: every entry is decoded by itself, and they are submitted in waves. Within a wave the entries run side by
 * side, in their order on every SKU, and the inventory batches them as it likes; the next wave begins when all of this
 * one are answered and their results written. When the last wave is, the whole is sent.
 *
 * Why waves: the queue keeps the order of entries that name their SKUs. One that names an object (cancel, commit,
 * release, extend, `releases`, `replaces`) has its lines read first, and what comes behind it would be in the queue
 * before it. The results are those of running the entries one after the other: what shares a wave either names SKUs
 * only, or only ends objects that are not the same one, of which none stands in another's way.
 *
 * Failure modes: an entry that is not valid, or may not be done by this key, gets its own problem and does not hinder
 * its neighbours. Entries of one key run one after the other, as in two requests. An entry of a hundred bytes that names
 * an object is answered with all its lines: once the results are RESULTS_BYTES_MAX together, what was not begun never is,
 * and each entry says so.
 *
 * Ownership: an operation is written to by whichever thread answers it, so each entry has an arena of its own.
 */
#include "api/call.h"
#include "api/handlers.h"
#include "api/render.h"
#include "base/id.h"
#include "base/text.h"
#include "http/auth.h"
#include "http/problem.h"

#define ENTRY_BYTES 1024
#define BATCH_VALUES_MAX 150000     /* a megabyte of the shortest lines there are has 143,000 */
#define RESULTS_BYTES_MAX (4 << 20) /* they wait in memory until the client has read them; passed by one wave at most */
#define WAVE_OBJECTS_MAX 32 /* whose answers may be long; those of entries that name SKUs are as long as these */

struct batch;

struct entry {
	struct call call;
	struct arena arena;
	struct batch *batch;
	struct fault fault; /* why it was refused undone */
};

struct batch {
	struct request *request;
	struct call *last; /* answered: whose timing is that of the whole */
	size_t waiting;    /* submitted and not yet answered */
	size_t next;       /* the first that is not yet submitted */
	size_t written;    /* the first whose result is not yet in `out` */
	size_t count;
	struct buffer out;
	struct json_writer results; /* into it */
	struct entry entries[];
};

static void write_result(struct json_writer *w, struct entry *entry)
{
	const struct operation *operation = &entry->call.operation;
	json_object_open(w);
	json_member_int(w, "status", verdict_status(operation));
	if (operation->verdict.replayed) {
		json_key(w, "idempotent_replayed"); /* what the header says of a single answer */
		json_put_bool(w, true);
	}
	json_key(w, "body");
	if (operation->verdict.error) {
		call_problem(w, operation);
		json_object_close(w);
	} else {
		render_verdict(w, operation);
	}
	json_object_close(w);
}

/* Those of all that were submitted, which are answered. */
static void write_results(struct batch *batch)
{
	for (; batch->written < batch->next; batch->written++)
		write_result(&batch->results, &batch->entries[batch->written]);
}

/* The batch ends with its request. */
static void reply_results(struct batch *batch)
{
	struct buffer out;
	if (batch->last)
		call_add_timing(batch->last);
	json_array_close(&batch->results);
	json_object_close(&batch->results);
	for (size_t i = 0; i < batch->count; i++)
		arena_done(&batch->entries[i].arena);
	out = batch->out;
	request_reply_json(batch->request, 200, &out);
	buffer_done(&out);
}

/* May this key do it? The route asked for `sell` already. */
static bool allowed(const struct operation *operation, struct fault *ret_fault)
{
	if (operation->kind != OPERATION_ADJUST || (operation->principal.scopes & SCOPE_STOCK))
		return true;
	static const char why[] =
		"The key lacks the scope `stock`. Take a key that has it (`lastunit key create --scopes sell,stock ...`).";
	*ret_fault = (struct fault){LU_FORBIDDEN, text_of(why)};
	return false;
}

static void decode(struct entry *entry, size_t at, struct request *request, const json_t *value)
{
	struct operation *operation = &entry->call.operation;
	struct fault *fault = &entry->fault;
	/* What is refused before it has a kind is answered like a checkout. */
	enum operation_kind kind = OPERATION_CHECKOUT;
	bool known = body_operation_kind(value, &entry->arena, &kind, fault);
	call_init(&entry->call, request, kind, &entry->arena);
	entry->call.one_of_many = true;
	if (known && body_decode(value, BODY_OF_BATCH, operation, fault) && allowed(operation, fault) &&
	    !operation->client_key && call_key_required(kind))
		*fault = (struct fault){LU_IDEMPOTENCY_KEY_REQUIRED,
		                        arena_printf(&entry->arena,
		                                     "`operations[%zu].idempotency_key` is missing: in a batch each entry has "
		                                     "its own, and the header does not count.",
		                                     at)};
}

/* --- waves -------------------------------------------------------------------------------------------------------- */

static bool names_object(const struct operation *operation)
{
	return !uuid_is_nil(&operation->target) || !uuid_is_nil(&operation->other);
}

static bool share_key(const struct operation *a, const struct operation *b)
{
	return a->client_key && b->client_key && text_equal(a->key, b->key);
}

/* May `later` run beside `earlier`? */
static bool side_by_side(const struct operation *earlier, const struct operation *later)
{
	if (!names_object(earlier) && !names_object(later))
		return true; /* the queue keeps them in order where it matters */
	/* A cart that ends a hold takes units as well: it has a wave of its own. */
	return !uuid_is_nil(&earlier->target) && !uuid_is_nil(&later->target) &&
	       !uuid_equal(&earlier->target, &later->target) && !share_key(earlier, later);
}

/* The end of the wave that begins at `from`. What was refused is in nobody's way. */
static size_t wave_end(const struct batch *batch, size_t from)
{
	for (size_t end = from + 1; end < batch->count; end++) {
		const struct entry *later = &batch->entries[end];
		if (later->fault.error)
			continue;
		if (end - from >= WAVE_OBJECTS_MAX && names_object(&later->call.operation))
			return end;
		for (size_t i = from; i < end; i++)
			if (!batch->entries[i].fault.error &&
			    !side_by_side(&batch->entries[i].call.operation, &later->call.operation))
				return end;
	}
	return batch->count;
}

static void on_answer(struct call *call);

static void submit(struct entry *entry)
{
	struct fault *fault = &entry->fault;
	if (!fault->error)
		fault->error = call_submit(&entry->call, on_answer, &fault->detail);
	if (fault->error)
		entry->call.operation.verdict = (struct verdict){.error = fault->error, .detail = fault->detail};
	else
		entry->batch->waiting++;
}

static void leave_rest(struct batch *batch)
{
	static const char why[] =
		"Not begun, nothing was done: the answers before it are 4 MiB. Send this entry and those "
		"behind it in a batch of their own.";
	for (; batch->next < batch->count; batch->next++) {
		struct entry *entry = &batch->entries[batch->next];
		if (!entry->fault.error)
			entry->fault = (struct fault){LU_OVERLOADED, text_of(why)};
		submit(entry);
	}
	write_results(batch);
}

/* Submits the next wave. Of one that was refused whole no answer comes: then the one behind it. */
static void go_on(struct batch *batch)
{
	while (!batch->waiting && batch->next < batch->count) {
		for (size_t end = wave_end(batch, batch->next); batch->next < end; batch->next++)
			submit(&batch->entries[batch->next]);
		if (batch->waiting)
			return;
		write_results(batch);
	}
	reply_results(batch);
}

/* On the loop, never from inside call_submit(). */
static void on_answer(struct call *call)
{
	struct batch *batch = ((struct entry *)call)->batch; /* its first member */
	batch->last = call;
	if (--batch->waiting)
		return;
	write_results(batch);
	if (batch->out.size > RESULTS_BYTES_MAX)
		leave_rest(batch);
	go_on(batch);
}

void batch_post(struct request *request)
{
	struct arena *arena = request_arena(request);
	json_t *body;
	const json_t *operations;
	struct fault fault;
	if (!take_query_names(request, (const char *const[]){NULL}) ||
	    !take_json_of(request, true, BATCH_VALUES_MAX, &body))
		return;
	if (!body_operations(body, arena, &operations, &fault)) {
		reply_fault(request, &fault);
		return;
	}
	size_t count = json_array_size(operations);
	struct batch *batch = arena_alloc(arena, sizeof *batch + count * sizeof batch->entries[0]);
	*batch = (struct batch){.request = request, .count = count};
	batch->results = json_writer(&batch->out);
	json_object_open(&batch->results);
	json_key(&batch->results, "results");
	json_array_open(&batch->results);
	for (size_t i = 0; i < count; i++) {
		struct entry *entry = &batch->entries[i];
		arena_init(&entry->arena, ENTRY_BYTES);
		entry->batch = batch;
		decode(entry, i, request, json_array_get(operations, i));
	}
	go_on(batch);
}
