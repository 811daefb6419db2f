/* A blocking client of server-sent events: what an EventSource does with the bytes, without coming back by itself.
 *
 *	struct sse_client stream;
 *	assert_true(sse_client_open(&stream, &shop, shop.key_web, "/v1/events?sku=A", NULL));
 *	assert_true(sse_client_next(&stream));
 *	assert_string_equal(stream.event, "availability");
 *	sse_client_done(&stream);
 *
 * Asserts nothing: any thread may use one of its own. Nothing hangs: every call ends by `http.timeout_ms`.
 */
#ifndef TESTS_LIB_SSE_CLIENT_H
#define TESTS_LIB_SSE_CLIENT_H

#include <jansson.h>

#include "lib/http_client.h"
#include "lib/service.h"

struct sse_client {
	struct http_client http;
	int status;
	char *input; /* received, not yet read as events */
	size_t input_size, input_room;
	int retry_ms;      /* 0: never told */
	char last_id[128]; /* to resume with */
	/* the newest event */
	char event[32];
	json_t *data;
};

/* Sends the request and reads the head. False: no answer. Any status but 200 leaves nothing to read. */
bool sse_client_open(struct sse_client *client, const struct service *service, const char *key, const char *path,
                     const char *last_id);
/* Waits for the next event. False: none came in time, or the stream has ended. */
bool sse_client_next(struct sse_client *client);
/* Waits for the end, passing over what comes. */
bool sse_client_sees_end(struct sse_client *client);
int64_t sse_client_int(const struct sse_client *client, const char *member);
const char *sse_client_string(const struct sse_client *client, const char *member);
void sse_client_done(struct sse_client *client);

#endif
