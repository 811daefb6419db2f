/* A blocking client of server-sent events (sse_client.h). */
#include "lib/sse_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* More bytes behind those that are here. False: the end, or nothing in time. */
static bool receive(struct sse_client *client)
{
	size_t size = 0;
	if (client->input_room - client->input_size < 16384) {
		client->input_room = client->input_room ? 2 * client->input_room : 65536;
		client->input = realloc(client->input, client->input_room);
		if (!client->input)
			abort();
	}
	if (!http_client_read_some(&client->http, client->input + client->input_size,
	                           client->input_room - client->input_size, &size) ||
	    size == 0)
		return false;
	client->input_size += size;
	return true;
}

static void drop(struct sse_client *client, size_t size)
{
	client->input_size -= size;
	memmove(client->input, client->input + size, client->input_size);
	client->input[client->input_size] = 0;
}

bool sse_client_open(struct sse_client *client, const struct service *service, const char *key, const char *path,
                     const char *last_id)
{
	char request[80000];
	*client = (struct sse_client){.http = http_client(service->url, NULL)};
	int size = snprintf(request, sizeof request,
	                    "GET %s HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n%s%s%s%s%s%s\r\n", path,
	                    key ? "Authorization: Bearer " : "", key ? key : "", key ? "\r\n" : "",
	                    last_id ? "Last-Event-ID: " : "", last_id ? last_id : "", last_id ? "\r\n" : "");
	if (size >= (int)sizeof request || !http_client_open(&client->http) ||
	    !http_client_send(&client->http, request, (size_t)size))
		return false;
	const char *end;
	do {
		if (!receive(client))
			return false;
		end = memmem(client->input, client->input_size, "\r\n\r\n", 4);
	} while (!end);
	if (sscanf(client->input, "HTTP/1.1 %d ", &client->status) != 1)
		return false;
	drop(client, (size_t)(end + 4 - client->input));
	return true;
}

/* One line of a block. */
static void take_line(struct sse_client *client, char *line)
{
	char *value = strchr(line, ':');
	if (!value || value == line)
		return;
	*value++ = 0;
	value += *value == ' ';
	if (!strcmp(line, "id"))
		snprintf(client->last_id, sizeof client->last_id, "%s", value);
	else if (!strcmp(line, "event"))
		snprintf(client->event, sizeof client->event, "%s", value);
	else if (!strcmp(line, "retry"))
		client->retry_ms = atoi(value);
	else if (!strcmp(line, "data"))
		client->data = json_loads(value, JSON_DECODE_ANY, NULL);
}

bool sse_client_next(struct sse_client *client)
{
	int64_t until_ns = deadline_in_ms(client->http.timeout_ms); /* comments alone do not count */
	json_decref(client->data);
	client->data = NULL;
	*client->event = 0;
	while (!client->data) {
		char *end;
		if (clock_boottime_ns() > until_ns)
			return false;
		while (!(end = client->input_size ? memmem(client->input, client->input_size, "\n\n", 2) : NULL))
			if (!receive(client))
				return false;
		*end = 0;
		char *rest = client->input, *line;
		while ((line = strsep(&rest, "\n")))
			take_line(client, line);
		drop(client, (size_t)(end + 2 - client->input));
	}
	return true;
}

bool sse_client_sees_end(struct sse_client *client)
{
	while (sse_client_next(client))
		continue;
	return !strcmp(client->http.error, "closed");
}

int64_t sse_client_int(const struct sse_client *client, const char *member)
{
	json_t *value = json_object_get(client->data, member);
	return json_is_integer(value) ? json_integer_value(value) : INT64_MIN;
}

const char *sse_client_string(const struct sse_client *client, const char *member)
{
	const char *value = json_string_value(json_object_get(client->data, member));
	return value ? value : "";
}

void sse_client_done(struct sse_client *client)
{
	http_client_done(&client->http);
	json_decref(client->data);
	free(client->input);
	*client = (struct sse_client){.http.fd = -1};
}
