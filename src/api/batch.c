/* A batch: up to 1,000 operations in one request, each answered by itself. A till's offline queue.
 *
 * Happy path: every entry is decoded by itself and submitted at once, in order; the inventory batches them as it likes.
 * When the last is answered, the results are written in the order of the entries.
 * Failure modes: an entry that is not valid, or may not be done by this key, gets its own problem and does not hinder
 * its neighbours. Entries of one key run one after the other, as in two requests.
 *
 * Ownership: an operation is written to by whichever thread answers it, so each entry has an arena of its own.
 */
#include "api/call.h"
#include "api/handlers.h"
#include "api/render.h"
#include "http/auth.h"
#include "http/problem.h"

#define ENTRY_BYTES 1024

struct batch;

struct entry {
	struct call call;
	struct arena arena;
	struct batch *batch;
};

struct batch {
	struct request *request;
	size_t waiting; /* entries not yet answered, and one while they are being submitted */
	size_t count;
	struct entry entries[];
};

static void write_result(struct json_writer *w, struct entry *entry)
{
	const struct operation *operation = &entry->call.operation;
	json_object_open(w);
	json_key(w, "status");
	json_put_int(w, verdict_status(operation));
	if (operation->verdict.replayed) {
		json_key(w, "idempotent_replayed"); /* what the header says of a single answer */
		json_put_bool(w, true);
	}
	json_key(w, "body");
	if (operation->verdict.error) {
		call_problem(w, &entry->arena, &operation->verdict);
		json_object_close(w);
	} else {
		render_verdict(w, operation);
	}
	json_object_close(w);
}

static void one_less(struct batch *batch)
{
	if (--batch->waiting)
		return;
	struct request *request = batch->request;
	struct json_writer w = json_writer(loop_out(loop_of(request)));
	json_object_open(&w);
	json_key(&w, "results");
	json_array_open(&w);
	for (size_t i = 0; i < batch->count; i++)
		write_result(&w, &batch->entries[i]);
	json_array_close(&w);
	json_object_close(&w);
	for (size_t i = 0; i < batch->count; i++)
		arena_done(&batch->entries[i].arena);
	request_reply_json(request, 200, w.out);
}

static void on_answer(struct call *call)
{
	one_less(((struct entry *)call)->batch); /* its first member */
}

/* May this key do it? The route asked for `sell` already. */
static bool allowed(const struct operation *operation, struct fault *ret_fault)
{
	if (operation->kind != OPERATION_ADJUST || (operation->principal.scopes & SCOPE_STOCK))
		return true;
	*ret_fault = (struct fault){LU_FORBIDDEN, TEXT("The key lacks the scope `stock`.")};
	return false;
}

static void submit(struct entry *entry, struct request *request, const json_t *value)
{
	struct operation *operation = &entry->call.operation;
	struct fault fault = {0};
	/* What is refused before it has a kind is answered like a checkout. */
	enum operation_kind kind = OPERATION_CHECKOUT;
	bool known = body_operation_kind(value, &entry->arena, &kind, &fault);
	call_init(&entry->call, request, kind, &entry->arena);
	if (known && body_decode(value, BODY_OF_BATCH, operation, &fault) && allowed(operation, &fault)) {
		if (!operation->client_key && call_key_required(kind))
			fault.error = LU_IDEMPOTENCY_KEY_REQUIRED;
		else
			fault.error = call_submit(&entry->call, on_answer, &fault.detail);
	}
	if (fault.error) {
		operation->verdict = (struct verdict){.error = fault.error, .detail = fault.detail};
		one_less(entry->batch);
	}
}

void batch_post(struct request *request)
{
	struct arena *arena = request_arena(request);
	json_t *body;
	const json_t *operations;
	struct fault fault;
	if (!take_json(request, true, &body))
		return;
	if (!body_operations(body, arena, &operations, &fault)) {
		reply_fault(request, &fault);
		return;
	}
	size_t count = json_array_size(operations);
	struct batch *batch = arena_alloc(arena, sizeof *batch + count * sizeof batch->entries[0]);
	batch->request = request;
	batch->count = count;
	batch->waiting = count + 1;
	for (size_t i = 0; i < count; i++) {
		struct entry *entry = &batch->entries[i];
		arena_init(&entry->arena, ENTRY_BYTES);
		entry->batch = batch;
		submit(entry, request, json_array_get(operations, i));
	}
	one_less(batch);
}
