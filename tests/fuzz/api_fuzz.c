/* Fuzz target: a request to the API, from its bytes to the bytes of its answer, over an inventory that is none.
 *
 * Every request has exactly one answer, the same however it is cut. The answer has a status that the API documents; if it
 * is JSON it is JSON; a problem is one of the table, with its status and a sentence; nothing a client sends is a fault
 * of ours (500). What `Cache-Control: max-stale` and `If-None-Match` ask for is what a plain reading of RFC 9111 and RFC
 * 9110 says. What reaches the inventory is valid (fake_inventory.c).
 * Input: "METHOD TARGET", lines of fields, an empty line, the body. Host, Authorization, Content-Type and Content-Length
 * are added where they are missing.
 */
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/api.h"
#include "base/check.h"
#include "base/json.h"
#include "base/text.h"
#include "fuzz/fake_inventory.h"
#include "fuzz/fuzz.h"
#include "fuzz/peer.h"
#include "fuzz/service.h"

#define BYTES_MAX (64 * 1024)

/* --- the request -------------------------------------------------------------------------------------------------- */

struct asked {
	struct text line; /* "GET /v1/…" */
	struct buffer bytes;
	bool own_framing;           /* the input says itself where it ends */
	size_t none_match_count;    /* fields of this name … */
	struct text none_match;     /* … and the first */
	size_t cache_control_count; /* the same */
	struct text cache_control;
};

static struct text trim(struct text text)
{
	while (text.size && (text.data[0] == ' ' || text.data[0] == '\t'))
		text = (struct text){text.data + 1, text.size - 1};
	while (text.size && (text.data[text.size - 1] == ' ' || text.data[text.size - 1] == '\t'))
		text.size--;
	return text;
}

static bool is_field(struct text line, const char *name, struct text *ret_value)
{
	size_t size = strlen(name);
	if (line.size <= size || strncasecmp(line.data, name, size) != 0 || line.data[size] != ':')
		return false;
	*ret_value = trim((struct text){line.data + size + 1, line.size - size - 1});
	return true;
}

static void compose(struct text input, struct asked *asked)
{
	struct text line, value;
	struct buffer *out = &asked->bytes;
	bool key = false, type = false;
	*asked = (struct asked){.line = line_cut(&input)};
	buffer_add_text(out, asked->line);
	buffer_add_string(out, " HTTP/1.1\r\nHost: fuzz\r\n");
	while ((line = line_cut(&input)).size) {
		buffer_add_text(out, line);
		buffer_add_string(out, "\r\n");
		key |= is_field(line, "Authorization", &value);
		type |= is_field(line, "Content-Type", &value);
		asked->own_framing |= is_field(line, "Content-Length", &value) || is_field(line, "Transfer-Encoding", &value);
		if (is_field(line, "If-None-Match", &value) && asked->none_match_count++ == 0)
			asked->none_match = value;
		if (is_field(line, "Cache-Control", &value) && asked->cache_control_count++ == 0)
			asked->cache_control = value;
	}
	if (!key)
		buffer_add_string(out, "Authorization: Bearer " SERVICE_KEY "\r\n");
	if (!type)
		buffer_add_string(out, "Content-Type: application/json\r\n");
	if (!asked->own_framing && input.size)
		buffer_add_format(out, "Content-Length: %zu\r\n", input.size);
	buffer_add_string(out, "\r\n");
	buffer_add_text(out, input);
}

/* --- what its fields ask for -------------------------------------------------------------------------------------- */

/* RFC 9110, 8.8.3: [W/] " any visible byte but the quote ". Takes one off the front. */
static bool tag_take(struct text *list, struct text *ret_tag)
{
	if (list->size >= 2 && memcmp(list->data, "W/", 2) == 0)
		*list = (struct text){list->data + 2, list->size - 2};
	if (!list->size || list->data[0] != '"')
		return false;
	size_t size = 1;
	while (size < list->size && list->data[size] != '"') {
		unsigned char c = (unsigned char)list->data[size++];
		if (c <= ' ' || c == 0x7f)
			return false;
	}
	if (size == list->size)
		return false;
	*ret_tag = (struct text){list->data, size + 1};
	*list = trim((struct text){list->data + size + 1, list->size - size - 1});
	return true;
}

/* True, with the answer, if the field is what the RFC says it is. */
static bool none_match_of(struct text list, bool *ret_matches)
{
	*ret_matches = text_equal(list, TEXT("*"));
	if (*ret_matches)
		return true;
	for (;;) {
		struct text tag;
		if (!tag_take(&list, &tag))
			return false;
		*ret_matches |= text_equal(tag, TEXT(FAKE_ETAG));
		if (!list.size)
			return true;
		if (list.data[0] != ',')
			return false;
		list = trim((struct text){list.data + 1, list.size - 1});
	}
}

/* The same of max-stale, if it is there once and nothing is quoted. 0: not allowed. */
static bool max_stale_of(struct text list, int64_t *ret_seconds)
{
	size_t count = 0;
	*ret_seconds = 0;
	if (list.size && memchr(list.data, '"', list.size))
		return false;
	while (list.size) {
		const char *comma = memchr(list.data, ',', list.size);
		struct text raw = {list.data, comma ? (size_t)(comma - list.data) : list.size}, word = trim(raw);
		list = (struct text){raw.data + raw.size + (comma != NULL), list.size - raw.size - (comma != NULL)};
		if (word.size < 9 || strncasecmp(word.data, "max-stale", 9) != 0)
			continue;
		struct text rest = {word.data + 9, word.size - 9};
		if (rest.size && rest.data[0] != '=')
			continue; /* another word that begins alike */
		count++;
		if (!rest.size)
			*ret_seconds = INT32_MAX;
		for (size_t i = 1; i < rest.size; i++) {
			if (rest.data[i] < '0' || rest.data[i] > '9')
				return false;
			/* RFC 9111, 1.2.2: what is too large is as much as there can be */
			*ret_seconds = *ret_seconds * 10 + (rest.data[i] - '0');
			if (*ret_seconds > INT32_MAX)
				*ret_seconds = INT32_MAX;
		}
		if (rest.size == 1)
			return false;
	}
	return count <= 1;
}

static void check_conditions(const struct asked *asked, const struct peer_answer *answer)
{
	int64_t seconds = 0;
	bool matches = false;
	if (asked->cache_control_count <= 1 && max_stale_of(asked->cache_control, &seconds))
		CHECK(fake_seen.max_stale_s == seconds);
	bool one = memmem(answer->head.data, answer->head.size, "\r\nETag: ", 8) != NULL;
	CHECK(one || answer->status != 304);
	if (!one)
		return;
	CHECK(text_equal(peer_field(answer, "ETag"), TEXT(FAKE_ETAG)) && !fake_seen.stale);
	if (!asked->none_match_count)
		CHECK(answer->status == 200);
	else if (asked->none_match_count == 1 && none_match_of(asked->none_match, &matches))
		CHECK(answer->status == (matches ? 304 : 200));
}

/* --- the answer --------------------------------------------------------------------------------------------------- */

static void check_problem(const struct peer_answer *answer, const json_t *body)
{
	enum lu_error error = LU_OK;
	const char *code = json_string_value(json_object_get(body, "code"));
	const json_t *detail = json_object_get(body, "detail");
	CHECK(code && lu_error_parse(code, &error) && lu_error_status(error) == answer->status);
	CHECK(json_integer_value(json_object_get(body, "status")) == answer->status);
	CHECK(json_string_length(detail) && json_string_length(json_object_get(body, "title")));
	CHECK(answer->status != 405 || peer_field(answer, "Allow").size);
	CHECK(answer->status != 401 || peer_field(answer, "WWW-Authenticate").size);
	CHECK(answer->status != 503 || peer_field(answer, "Retry-After").size);
}

static void check_answer(const struct peer_answer *answer, bool has_body)
{
	static const int statuses[] = {200, 201, 202, 204, 304, 400, 401, 403, 404, 405, 409,
	                               410, 412, 413, 414, 415, 417, 422, 431, 503, 505};
	struct text type = peer_field(answer, "Content-Type");
	bool known = false;
	for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
		known |= answer->status == statuses[i];
	CHECK(known);
	bool problem = text_equal(type, TEXT("application/problem+json"));
	/* MCP has a form of its own for what it refuses. */
	CHECK(problem ? answer->status >= 400 : answer->status < 400 || text_equal(type, TEXT("application/json")));
	if (!has_body || (!problem && !text_equal(type, TEXT("application/json"))))
		return;
	json_t *body = NULL;
	const char *why;
	if (answer->status == 304)
		return;
	CHECK(json_parse(answer->body, &body, &why) == LU_OK && json_is_object(body));
	if (problem)
		check_problem(answer, body);
	json_decref(body);
}

/* Figures of now in /metrics, ids and times in /mcp and of a bot, a client's next try in /v1/events. */
static bool is_of_chance(struct text line)
{
	return memmem(line.data, line.size, " /metrics", 9) || memmem(line.data, line.size, " /mcp", 5) ||
	       memmem(line.data, line.size, " /channels/", 11) || memmem(line.data, line.size, " /v1/events", 11);
}

static void fuzz_request(const struct asked *asked)
{
	bool head = asked->line.size >= 5 && memcmp(asked->line.data, "HEAD ", 5) == 0;
	struct text bytes = buffer_text(&asked->bytes);
	struct peer_answers answers, again;
	fake_seen = (struct fake_seen){0};
	peer_exchange(bytes, bytes.size, bytes.size, head, &answers);
	CHECK(asked->own_framing || answers.count == 1);
	CHECK(fake_seen.operations + fake_seen.lookups + fake_seen.queries == 0 || answers.count >= 1);
	for (size_t i = 0; i < answers.count && i < PEER_ANSWERS_MAX; i++)
		check_answer(&answers.answers[i], !head);
	bool look = memmem(asked->line.data, asked->line.size, " /v1/availability", 17) != NULL;
	if (answers.count == 1 && fake_seen.lookups == 1 && look)
		check_conditions(asked, &answers.answers[0]);
	peer_exchange(bytes, 1 + bytes.size / 3, 1 + bytes.size / 7, head, &again);
	CHECK(answers.count == again.count);
	if (!is_of_chance(asked->line))
		CHECK(text_equal(buffer_text(&answers.raw), buffer_text(&again.raw)));
	peer_answers_done(&answers);
	peer_answers_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > BYTES_MAX)
		return 0;
	struct config config;
	struct asked asked;
	service_config(&config);
	config.telegram_key = SERVICE_KEY;
	config.telegram_secret = "secret";
	service_start(&config, CHANNEL_WEB, SCOPE_READ | SCOPE_SELL | SCOPE_STOCK);
	compose((struct text){(const char *)data, size}, &asked);
	fuzz_request(&asked);
	service_stop();
	buffer_done(&asked.bytes);
	return 0;
}
