/* MCP between its files: the protocol (mcp.c, mcp_batch.c), the tools (mcp_tools.c) and what they do (mcp_calls.c).
 * Source: Model Context Protocol, revisions 2026-07-28 ("modern": stateless, every request says its version) and
 * 2025-11-25 and before ("legacy": a handshake). Thread: the loop's.
 */
#ifndef CHANNELS_MCP_H
#define CHANNELS_MCP_H

#include "channels/turn.h"

struct mcp_batch;

/* One JSON-RPC message; in the HTTP request's arena. */
struct mcp {
	struct turn turn;        /* first */
	struct mcp_batch *batch; /* NULL: it came alone, and its answer is the HTTP request's */
	const json_t *id;
	const json_t *params;
	bool modern;
	bool anonymous; /* acts by the key of --public-mcp */
};

/* The one revision in which a message may come in company. */
#define MCP_VERSION_BATCHES "2025-03-26"

#define JSONRPC_PARSE_ERROR (-32700)
#define JSONRPC_INVALID_REQUEST (-32600)
#define JSONRPC_METHOD_NOT_FOUND (-32601)
#define JSONRPC_INVALID_PARAMS (-32602)
#define MCP_HEADER_MISMATCH (-32020)
#define MCP_UNSUPPORTED_VERSION (-32022)

/* Each message is answered once, now or later. */
void mcp_message(struct mcp *mcp, const json_t *message);
/* `messages`: an array, of what `mcp` came with. */
void mcp_batch(struct mcp *mcp, const json_t *messages);
/* The answer to the message begun last, copied; size 0: it was a notification. */
void mcp_batch_answer(struct mcp_batch *batch, struct text answer);

/* Its answers are as long as they may be together: no other message is begun. */
bool mcp_batch_full(const struct mcp_batch *batch);

/* {"jsonrpc", "id", "result": { … : add members, then mcp_result_send(). */
struct json_writer mcp_result_open(struct mcp *mcp);
void mcp_result_send(struct mcp *mcp, struct json_writer *w);
/* Replies with a JSON-RPC error. */
void mcp_error(struct mcp *mcp, int status, int code, struct text message);
/* The same for a method that is known: each era has its own status of it. */
void mcp_invalid_params(struct mcp *mcp, struct text message);

/* The beginning of what a client sent, for a sentence that quotes it; UTF-8. */
struct text mcp_shown(struct text sent);

/* The member `tools` of tools/list; no trailing comma. */
void mcp_tools_list(struct json_writer *w);
/* tools/call: replies, now or later. */
void mcp_tools_call(struct mcp *mcp);
/* A tool's result with isError. For the model: what is wrong and what it can do. */
void mcp_reply_fault(struct mcp *mcp, struct text sentence);
/* The same of an error; detail size 0: the table's own advice. */
void mcp_reply_error(struct mcp *mcp, enum lu_error error, struct text detail);

/* The tools. Of the arguments those that must be there are, and there are no others than the tool's; what they hold is not
 * checked yet. Each replies, now or later. */
void mcp_find_products(struct mcp *mcp, const json_t *arguments);
void mcp_check_stock(struct mcp *mcp, const json_t *arguments);
void mcp_hold(struct mcp *mcp, const json_t *arguments);
void mcp_release_hold(struct mcp *mcp, const json_t *arguments);
void mcp_buy(struct mcp *mcp, const json_t *arguments);

#endif
