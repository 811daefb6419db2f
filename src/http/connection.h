/* One client connection and the request on it. Private to src/http; owned by its loop's thread.
 *
 *            ┌────────────────────── answered, kept alive ───────────────────────┐
 *            ▼                                                                   │
 *   accept ▶ IDLE ──first byte──▶ HEAD ──fields, body to come──▶ BODY ──all──▶ RUNNING ──the answer goes on──▶ STREAMING
 *            │                     └──fields, no body──────────────────────────▶ │                              │
 *            │ silent too long      │ slow, refused             │ slow, refused  │ answered, Connection: close  │ ended
 *            ▼                      └────────────▶ CLOSING ◀────┴────────────────┴──────────────────────────────┘
 *          (freed) ◀──────────────── LINGER ◀───────┘ answer sent; after a refusal the client's bytes are read
 *                                                     and dropped a while, so that a reset does not eat the answer
 *
 * `writing` stands beside the state: the socket did not take all bytes of an answer. Until it did nothing more is
 * read or run. A client that leaves while RUNNING: the socket is closed, the struct lives on (bev NULL) until the
 * answer comes and is dropped. One that leaves while STREAMING: the handler is told, and that is all. Every state but
 * these two has a deadline; no byte that comes moves a deadline, only progress to the next state does. While `writing`,
 * it is moved by what is taken (uptake.h).
 */
#ifndef HTTP_CONNECTION_H
#define HTTP_CONNECTION_H

#include "base/buffer.h"
#include "http/chunk.h"
#include "http/loop.h"
#include "http/parser.h"
#include "http/percent.h"
#include "http/request.h"

#define BODY_BYTES_MAX ((int64_t)1024 * 1024)
#define BODY_IN_ARENA_BYTES_MAX ((int64_t)16 * 1024)
#define INPUT_BYTES_MAX ((size_t)20 * 1024)           /* buffered unparsed: a full header block and a little */
#define STREAM_INPUT_BYTES_MAX ((int64_t)1024 * 1024) /* said by a client who listens: nobody has that much to say */
#define AUTH_MEMORY_BYTES 112

struct bufferevent;
struct connection;

struct answer_field {
	struct answer_field *next;
	const char *name;
	struct text value;
};

/* The query, decoded before the handler; `at`, `n` remember the last find so that n, n + 1, … costs one pass. */
struct query {
	struct query_pair *pairs;
	size_t count;
	const char *name;
	size_t n, at;
};

struct request {
	struct connection *connection;
	const struct stream_hooks *stream; /* of a streamed answer */
	struct loop_arena *arena;          /* NULL: no request is open */
	struct http_head head;
	const struct route *route;
	struct text path;
	struct query query;
	struct text params[ROUTE_PARAMS_MAX];
	size_t param_count;
	struct text body;
	struct answer_field *fields, **fields_end;
	json_t *json;
	enum lu_error json_error;
	bool json_read;
	const char *json_why;
	bool parked; /* at least once */
	bool authorized;
	bool key_in_address; /* as ?key=, which is no parameter of the handler then */
	struct principal principal;
	int64_t complete_ns; /* when its last byte was read */
	void *context;
};

enum connection_state {
	CONNECTION_IDLE,
	CONNECTION_HEAD,
	CONNECTION_BODY,
	CONNECTION_RUNNING,
	CONNECTION_STREAMING,
	CONNECTION_CLOSING,
	CONNECTION_LINGER,
};

/* The last Authorization value that was good; size 0: none. */
struct auth_memory {
	uint64_t generation;
	size_t size;
	char value[AUTH_MEMORY_BYTES];
	struct principal principal;
};

struct connection {
	struct mailbox_item arrival; /* on its way from loop 0 to its own */
	struct server_loop *loop;
	struct bufferevent *bev; /* NULL: the client is gone */
	int fd;
	LIST_ENTRY(connection) all;
	LIST_ENTRY(connection) due;
	TAILQ_ENTRY(connection) resumable;
	TAILQ_ENTRY(connection) takers;
	STAILQ_ENTRY(connection) parked;
	int64_t deadline_ns;
	int64_t due_tick; /* of its slot in the wheel; 0: hangs in none */

	enum connection_state state;
	bool processing; /* connection_process() is at work above us */
	bool writing;
	bool broken;         /* the socket failed */
	bool ended;          /* the client sends no more (it may still read) */
	bool close_after;    /* the next answer says `Connection: close` */
	bool refused;        /* linger after the answer */
	bool say_keep_alive; /* an HTTP/1.0 client must be told */
	bool crlf_skipped;
	bool over_limit; /* accepted only to be told 503 */
	bool resuming;
	bool deaf; /* all that may be buffered is: the bufferevent reads no more */

	size_t head_seen;   /* bytes of the block already scanned */
	int64_t started_ns; /* first byte of the request; in IDLE: since when */
	int64_t write_deadline_ns;
	size_t write_left;  /* untaken when that deadline was set */
	size_t write_whole; /* all that was refused since `writing` */
	size_t untaken;     /* of it, what counts for the loop; 0: it is none of its takers */
	int64_t body_left;  /* -1: chunked */
	struct chunk chunk;
	char *body_at; /* the next byte of a body in the arena; NULL: it grows in body_buffer */
	struct buffer body_buffer;
	int64_t dropped_bytes; /* read and thrown away */
	int64_t linger_until_ns;
	struct auth_memory auth;
	struct request request;
};

/* Takes over an accepted socket, on the connection's own loop. */
void connection_arrive(struct mailbox_item *item);
/* Reads and runs as many requests as the buffered bytes hold, sends the answers, then waits or closes. */
void connection_process(struct connection *connection);
/* The deadline of its state has passed. */
void connection_expire(struct connection *connection);
/* No request is open and no byte of one has come, not even to the kernel. */
bool connection_is_idle(struct connection *connection);
void connection_close(struct connection *connection);
/* Called by request_reply() with the answer's bytes in connection_out(): the request is over. */
void connection_answered(struct connection *connection);
struct buffer *connection_out(struct connection *connection);
/* Sends what was gathered. True when the socket took it all and more may follow. */
bool connection_flush(struct connection *connection, struct buffer *out);
/* The answer in hand goes on: the request no longer counts as running. */
void connection_stream(struct connection *connection);
/* More of it. False: not now (on_writable comes), or never (on_end comes). */
bool connection_stream_send(struct connection *connection, struct text bytes);

/* Opens the request of a connection: an arena, and all fields blank. Discard frees without an answer. */
void request_open(struct connection *connection);
void request_discard(struct request *request);
/* The head of an answer; size -1: its length is not known, it ends with the connection. */
void request_write_head(struct request *request, struct buffer *out, int status, const char *type, int64_t size);
/* Route, parameters, key, handler. The request is complete. */
void request_dispatch(struct request *request);
/* Key, handler: again for one that was parked. */
void request_admit(struct request *request);

#endif
