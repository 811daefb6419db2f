/* One client of the HTTP API (http_caller.h).
 *
 * Happy path: the handle keeps its connection; each call sets method, headers and body, and reads the answer whole.
 * Failure modes: refused, broken, timed out: status 0 and libcurl's own words. Whether the server did what was asked is
 * then unknown: the caller repeats the call under the same idempotency key.
 */
#include "cmd/http_caller.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"

struct http_caller {
	CURL *curl;
	char *url;
	struct buffer address;
	struct buffer body;
	struct buffer header;
	int64_t retry_after_s;
	bool replayed;
	char cache_status[64];
	const char *extra_header;
	char error[CURL_ERROR_SIZE];
};

void http_caller_global_init(void)
{
	CHECK(curl_global_init(CURL_GLOBAL_NOTHING) == 0);
}

void http_caller_global_done(void)
{
	curl_global_cleanup();
}

static size_t on_body(char *data, size_t size, size_t count, void *context)
{
	struct http_caller *caller = context;
	buffer_add(&caller->body, data, size * count);
	return size * count;
}

/* The value of the header line `data` if it is called `name`. */
static bool header_is(const char *data, size_t size, const char *name, struct text *ret_value)
{
	size_t name_size = strlen(name);
	if (size <= name_size || data[name_size] != ':' || strncasecmp(data, name, name_size) != 0)
		return false;
	const char *from = data + name_size + 1, *to = data + size;
	while (from < to && (*from == ' ' || *from == '\t'))
		from++;
	while (to > from && (to[-1] == '\r' || to[-1] == '\n' || to[-1] == ' '))
		to--;
	*ret_value = (struct text){from, (size_t)(to - from)};
	return true;
}

static size_t on_header(char *data, size_t size, size_t count, void *context)
{
	struct http_caller *caller = context;
	struct text value;
	if (header_is(data, size * count, "Retry-After", &value)) {
		if (!text_to_int64(value, &caller->retry_after_s))
			caller->retry_after_s = 1;
	} else if (header_is(data, size * count, "Idempotent-Replayed", &value)) {
		caller->replayed = text_equal(value, TEXT("true"));
	} else if (header_is(data, size * count, "Cache-Status", &value)) {
		snprintf(caller->cache_status, sizeof caller->cache_status, "%.*s", (int)value.size, value.data);
	}
	return size * count;
}

struct http_caller *http_caller_new(const char *url, int64_t timeout_ms)
{
	struct http_caller *caller = calloc(1, sizeof *caller);
	CHECK(caller);
	caller->url = strdup(url);
	caller->curl = curl_easy_init();
	CHECK(caller->url && caller->curl);
	CURL *curl = caller->curl;
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L); /* a name that is not resolved is not waited for */
	curl_easy_setopt(curl, CURLOPT_PROXY, "");
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
	curl_easy_setopt(curl, CURLOPT_TCP_NODELAY, 1L);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, caller);
	curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(curl, CURLOPT_HEADERDATA, caller);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, caller->error);
	curl_easy_setopt(curl, CURLOPT_USERAGENT, "lastunit");
	return caller;
}

void http_caller_free(struct http_caller *caller)
{
	if (!caller)
		return;
	curl_easy_cleanup(caller->curl);
	buffer_done(&caller->address);
	buffer_done(&caller->body);
	buffer_done(&caller->header);
	free(caller->url);
	free(caller);
}

static struct curl_slist *line_add(struct curl_slist *list, const char *line)
{
	struct curl_slist *longer = curl_slist_append(list, line);
	CHECK(longer);
	return longer;
}

static struct curl_slist *header_add(struct http_caller *caller, struct curl_slist *list, const char *name,
                                     const char *value)
{
	buffer_clear(&caller->header);
	buffer_add_format(&caller->header, "%s: %s", name, value);
	buffer_add_char(&caller->header, '\0');
	return line_add(list, caller->header.data);
}

struct http_answer http_call(struct http_caller *caller, const char *method, const char *path, struct text body,
                             const char *key, const char *idempotency_key)
{
	CURL *curl = caller->curl;
	buffer_clear(&caller->address);
	buffer_add_string(&caller->address, caller->url);
	buffer_add_string(&caller->address, path);
	buffer_add_char(&caller->address, '\0');
	buffer_clear(&caller->body);
	caller->retry_after_s = -1;
	caller->replayed = false;
	caller->cache_status[0] = '\0';
	caller->error[0] = '\0';

	struct curl_slist *headers = header_add(caller, NULL, "Content-Type", "application/json");
	/* libcurl would wait a second for "100 Continue" with bodies over 1 MiB. */
	headers = line_add(headers, "Expect:");
	if (key && *key) {
		struct buffer bearer = {0};
		buffer_add_format(&bearer, "Bearer %s", key);
		buffer_add_char(&bearer, '\0');
		headers = header_add(caller, headers, "Authorization", bearer.data);
		buffer_done(&bearer);
	}
	if (idempotency_key)
		headers = header_add(caller, headers, "Idempotency-Key", idempotency_key);
	if (caller->extra_header)
		headers = line_add(headers, caller->extra_header);

	curl_easy_setopt(curl, CURLOPT_URL, caller->address.data);
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	if (strcmp(method, "GET") == 0) {
		curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, NULL);
		curl_easy_setopt(curl, CURLOPT_HTTPGET, 1L);
	} else {
		curl_easy_setopt(curl, CURLOPT_POST, 1L);
		curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.size ? body.data : "");
		curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.size);
	}
	int64_t start_ns = clock_boottime_ns();
	CURLcode code = curl_easy_perform(curl);
	struct http_answer answer = {.took_us = (clock_boottime_ns() - start_ns) / 1000, .cache_status = ""};
	curl_slist_free_all(headers);
	if (code != CURLE_OK) {
		if (!caller->error[0])
			strncpy(caller->error, curl_easy_strerror(code), sizeof caller->error - 1);
		answer.retry_after_s = -1;
		return answer;
	}
	long status = 0;
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	answer.status = (int)status;
	answer.body = buffer_text(&caller->body);
	answer.retry_after_s = caller->retry_after_s;
	answer.replayed = caller->replayed;
	answer.cache_status = caller->cache_status;
	return answer;
}

void http_caller_header(struct http_caller *caller, const char *line)
{
	caller->extra_header = line;
}

const char *http_caller_error(const struct http_caller *caller)
{
	return caller->error;
}

void http_path_add(struct buffer *path, struct text text)
{
	static const char unreserved[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
	for (size_t i = 0; i < text.size; i++) {
		char c = text.data[i];
		if (c && strchr(unreserved, c))
			buffer_add_char(path, c);
		else
			buffer_add_format(path, "%%%02X", (unsigned)(unsigned char)c);
	}
}
