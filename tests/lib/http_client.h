/* A small blocking HTTP/1.1 client for tests: one connection, raw enough to misbehave.
 *
 * Nothing hangs: every call ends by timeout_ms after it began. Calls return false and leave a sentence in
 * client->error; they assert nothing, so any thread may use a client of its own. Plain HTTP only.
 *
 *	struct http_client client = http_client("127.0.0.1:8080", key);
 *	struct http_answer answer = {0};
 *	assert_true(http_client_call(&client, "GET", "/v1/availability/A", NULL, NULL, &answer));
 *	assert_int_equal(answer.status, 200);
 *	http_answer_done(&answer);
 *	http_client_done(&client);
 */
#ifndef TESTS_LIB_HTTP_CLIENT_H
#define TESTS_LIB_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_CLIENT_TIMEOUT_MS 20000

struct http_client {
	char host[128], port[8];
	const char *key; /* sent as `Authorization: Bearer`; NULL: none. The caller's */
	int timeout_ms;
	int fd;      /* -1: not connected */
	char *input; /* received, not yet consumed */
	size_t input_size, input_room;
	char error[200];
};

struct http_answer {
	int status;
	int minor;     /* HTTP/1.minor */
	int continues; /* 100 Continue answers that came before it */
	char *head;    /* status line and fields as received, NUL-terminated */
	char *body;    /* decoded, NUL-terminated behind body_size bytes */
	size_t body_size;
	bool close; /* the server said that it closes */
};

/* address: host:port, [v6]:port, or the same behind http:// (a path behind it is ignored). Connects on first use. */
struct http_client http_client(const char *address, const char *key);
void http_client_done(struct http_client *client);
/* Connects if there is no connection. */
bool http_client_open(struct http_client *client);
void http_client_close(struct http_client *client);
/* Closes so that the server sees a reset, as from a process that was killed with bytes unread. */
void http_client_reset(struct http_client *client);

/* One exchange. fields: lines that end in CR LF, or NULL. body: NUL-terminated, or NULL; sent as application/json
 * unless fields name another type. A kept-alive connection that the server closed meanwhile is opened anew before
 * anything is sent; what was sent is never sent twice. *ret_answer is freed first: one zeroed answer may be used again
 * and again. */
bool http_client_call(struct http_client *client, const char *method, const char *path, const char *fields,
                      const char *body, struct http_answer *ret_answer);
void http_answer_done(struct http_answer *answer);
/* The value of the first field of that name, in a static thread-local buffer of its own per call (a ring of 8), or
 * NULL. */
const char *http_answer_field(const struct http_answer *answer, const char *name);

/* The pieces, for tests that pipeline, dribble, or send what no client should. */
bool http_client_send(struct http_client *client, const void *bytes, size_t size);
bool http_client_send_text(struct http_client *client, const char *text);
/* Ends our direction; answers can still be read. */
void http_client_half_close(struct http_client *client);
/* The next answer; to_head: it answers a HEAD request, so no body follows whatever its fields say. */
bool http_client_read(struct http_client *client, bool to_head, struct http_answer *ret_answer);
/* Waits for the next bytes of a stream and takes what is there, at most room - 1, NUL-terminated. */
bool http_client_read_some(struct http_client *client, char *out, size_t room, size_t *ret_size);
/* Everything until the server closes; the caller frees *ret_bytes (NUL-terminated). A reset counts as a failure. */
bool http_client_read_to_end(struct http_client *client, char **ret_bytes, size_t *ret_size);
/* True when the server closes in order without another byte, within timeout_ms. */
bool http_client_sees_close(struct http_client *client);

#endif
