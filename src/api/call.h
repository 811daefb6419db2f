/* A call: what stands between one request and the inventory, from the handler to the answer on the same loop.
 *
 * Operations and queries run on threads of the inventory; their on_done posts the call to the loop's mailbox, and
 * `on_answer` runs on the loop. A call lives in its request's arena, and so does what it points to: it ends with the
 * reply, also when the client has left. Internal to api. Thread: the loop's, but for what says otherwise.
 */
#ifndef API_CALL_H
#define API_CALL_H

#include "api/api.h"
#include "api/body.h"
#include "base/json.h"
#include "base/mailbox.h"
#include "http/request.h"
#include "inventory/read.h"

/* What each loop has of its own: server_loop_context(). */
struct api_loop {
	const struct config *config;
	struct inventory *inventory;
	struct reader *reader;
	struct events *events;
	struct names *names; /* channels/names.h: the process's, shared */
	struct buffer out;   /* the answer being written; request_reply copies it */
};

struct api_loop *loop_of(struct request *request);
/* The loop's buffer, emptied. */
struct buffer *loop_out(struct api_loop *loop);

/* --- operations --------------------------------------------------------------------------------------------------- */
struct call {
	struct operation operation;
	struct mailbox_item item;
	struct mailbox *mailbox;
	struct request *request;
	void (*on_answer)(struct call *call);
	bool one_of_many; /* its timing is not that of the request's answer */
};

/* Prepares `call` for an operation of this kind by the request's principal, its memory in `arena`. */
void call_init(struct call *call, struct request *request, enum operation_kind kind, struct arena *arena);
/* The whole way of a route with one operation: body, key, submit, reply. `target` nil: none. Replies in any case. */
struct call *call_new(struct request *request, enum operation_kind kind);
void call_run(struct call *call, void (*on_answer)(struct call *call));
/* Hands the operation on; on_answer will come. LU_OK or what inventory_submit said, with a sentence in ret_detail. */
enum lu_error call_submit(struct call *call, void (*on_answer)(struct call *call), struct text *ret_detail)
	LU_MUST_CHECK;
/* The header `Server-Timing` (W3C) of an answered operation; every call but one of many gets it by itself. */
void call_add_timing(struct call *call);
/* The usual on_answer: replies with the verdict. */
void call_reply(struct call *call);
/* True if operations of this kind must carry a key of the client's. */
bool call_key_required(enum operation_kind kind);
/* The problem of a refused operation, up to its own members: close the object or problem_send(). */
void call_problem(struct json_writer *w, const struct operation *operation);

/* --- queries ------------------------------------------------------------------------------------------------------ */
struct ask {
	struct query query;
	struct mailbox_item item;
	struct mailbox *mailbox;
	struct request *request;
	void (*on_answer)(struct ask *ask); /* query.error is LU_OK */
	void (*on_error)(struct ask *ask);  /* NULL: the problem is replied */
};

void ask_init(struct ask *ask, struct request *request);
/* `work` runs on a loader's thread, then on_answer or on_error on the loop. */
void ask_run(struct ask *ask, enum lu_error (*work)(struct query *query, struct pg *pg),
             void (*on_answer)(struct ask *ask));

/* --- what requests have in common --------------------------------------------------------------------------------- */
/* The body as JSON; *ret_value NULL if there is none and that is allowed. False: a problem was replied. */
bool take_json(struct request *request, bool required, json_t **ret_value) LU_MUST_CHECK;
/* The same where more than REQUEST_VALUES_MAX values may make sense. */
bool take_json_of(struct request *request, bool required, size_t values_max, json_t **ret_value) LU_MUST_CHECK;
/* Each false: a problem was replied. */
bool take_path_sku(struct request *request, struct text *ret_sku) LU_MUST_CHECK;
bool take_path_id(struct request *request, enum lu_error unknown, struct uuid *ret_id) LU_MUST_CHECK;
/* The query has no other names than these, and of each one value (names), or any number (lists). */
bool take_query_names(struct request *request, const char *const *names) LU_MUST_CHECK;
bool take_query_lists(struct request *request, const char *const *names) LU_MUST_CHECK;
bool take_limit(struct request *request, size_t *ret_limit) LU_MUST_CHECK;
bool take_query_id(struct request *request, const char *name, struct uuid *ret_id) LU_MUST_CHECK;
/* A valid SKU code; untouched if absent. */
bool take_query_sku(struct request *request, const char *name, struct text *ret_sku) LU_MUST_CHECK;
/* A free text of at most 255 bytes; data NULL if absent. */
bool take_query_text(struct request *request, const char *name, struct text *ret_text) LU_MUST_CHECK;

/* Whose objects a principal sees: its own, and with the scope `orders`, which is also what lets it end them, all. */
bool sees_all(const struct principal *principal);
bool sees_object_of(const struct principal *principal, int64_t owner_id);
void reply_fault(struct request *request, const struct fault *fault);

#define PAGE_ITEMS 100 /* without `limit` */
#define PAGE_ITEMS_MAX 500

#endif
