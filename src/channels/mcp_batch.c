/* Batches of JSON-RPC: several messages in one body, an array. Source: Model Context Protocol, revision 2025-03-26 ("Base
 * Protocol, Batching": whoever speaks it must take them), and JSON-RPC 2.0, section 6. The revisions after it have none.
 *
 * Happy path: the messages are run in their order, each when the one before it is answered, so that a hold may be followed
 * by what rests on it; their answers go back together, in that order, as 200. Nothing but notifications: 202.
 * Failure modes: an array that is empty, too long, or of another revision is refused whole. What is wrong with one message,
 * or may not be done by this key, is that message's answer and does not hinder its neighbours. When the request's time is
 * over, those not begun are each told so, by the turn they would have taken; as are those behind answers that are too long
 * together.
 *
 * Why not side by side: one request would keep as many readers of PostgreSQL busy as it has messages.
 */
#include "base/text.h"
#include "channels/mcp.h"
#include "http/request.h"

#define BATCH_MAX 100
#define ANSWERS_BYTES_MAX (1 << 20) /* they wait in memory until the client has read them */

struct mcp_batch {
	struct request *request;
	const json_t *messages;
	bool anonymous;
	size_t next;       /* the first that is not yet begun */
	bool running;      /* a message is being begun: what is answered now was answered from inside it */
	bool answered;     /* the message begun last is, or none was begun */
	struct buffer out; /* the answers; empty: none yet */
};

/* The batch ends with its request. */
static void reply(struct mcp_batch *batch)
{
	struct buffer out = batch->out;
	if (out.size) {
		buffer_add_char(&out, ']');
		request_reply_json(batch->request, 200, &out);
	} else {
		request_reply(batch->request, 202, NULL, (struct text){0});
	}
	buffer_done(&out);
}

static void begin_next(struct mcp_batch *batch)
{
	struct mcp *mcp = ARENA_NEW(request_arena(batch->request), struct mcp);
	turn_init(&mcp->turn, batch->request);
	mcp->anonymous = batch->anonymous;
	mcp->batch = batch;
	batch->answered = false;
	mcp_message(mcp, json_array_get(batch->messages, batch->next++));
}

/* A loop, not a message that begins the next one: what is answered at once would pile up on the stack. */
static void go_on(struct mcp_batch *batch)
{
	size_t count = json_array_size(batch->messages);
	batch->running = true;
	while (batch->answered && batch->next < count)
		begin_next(batch);
	batch->running = false;
	if (batch->answered)
		reply(batch);
}

void mcp_batch_answer(struct mcp_batch *batch, struct text answer)
{
	if (answer.size) {
		buffer_add_char(&batch->out, batch->out.size ? ',' : '[');
		buffer_add_text(&batch->out, answer);
	}
	batch->answered = true;
	if (!batch->running)
		go_on(batch);
}

bool mcp_batch_full(const struct mcp_batch *batch)
{
	return batch->out.size > ANSWERS_BYTES_MAX;
}

static bool may_come_in_batches(struct request *request)
{
	struct text version; /* the revision with batches has no such header yet */
	return !request_header(request, "MCP-Protocol-Version", &version) || text_equal(version, TEXT(MCP_VERSION_BATCHES));
}

void mcp_batch(struct mcp *mcp, const json_t *messages)
{
	struct request *request = mcp->turn.request;
	size_t count = json_array_size(messages);
	const char *why = !may_come_in_batches(request)
	                      ? "Send one JSON-RPC 2.0 request; batches are of the revision " MCP_VERSION_BATCHES " only."
	                  : !count            ? "The batch is empty."
	                  : count > BATCH_MAX ? "The batch is too long: send at most 100 messages."
	                                      : NULL;
	if (why) {
		mcp_error(mcp, 400, JSONRPC_INVALID_REQUEST, text_of(why));
		return;
	}
	struct mcp_batch *batch = ARENA_NEW(request_arena(request), struct mcp_batch);
	*batch = (struct mcp_batch){.request = request,
	                            .messages = messages,
	                            .anonymous = mcp->anonymous,
	                            .answered = true};
	go_on(batch);
}
