/* JSON in, strictly, and JSON out, straight into a buffer.
 *
 * Happy path, in: one pass over the bytes for depth and NUL, then jansson with duplicate keys refused. Out: every
 * value makes room once for all it may need and then writes without looking.
 * Failure modes: anything that is not exactly one JSON value is LU_MALFORMED_REQUEST with a sentence of ours: it names
 * the fault and its place but repeats nothing of the body, which may not even be UTF-8. More values than the caller
 * allows: LU_PAYLOAD_TOO_LARGE, before any is made.
 */
#include "base/json.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/id.h"

#define DEPTH_MAX 64        /* jansson calls itself once a level */
#define ESCAPED_BYTES_MAX 6 /* "\u001f" */

static _Thread_local char why[160];

/* Depth and NUL bytes, before a parser that recurses sees them, and how many values there may be: each but the last has a
 * comma behind it, or is open. What is a string is found the way JSON does; in a body that is not JSON the counts may be
 * off, but never so that the parser goes deeper, or makes more, than counted here. */
static const char *scan(struct text body, size_t *ret_values)
{
	unsigned depth = 0;
	bool in_string = false;
	size_t values = 1;
	for (size_t i = 0; i < body.size; i++) {
		switch (body.data[i]) {
		case 0:
			return "it holds a NUL byte";
		case '"':
			in_string = !in_string;
			break;
		case '\\':
			i += in_string && i + 1 < body.size && body.data[i + 1] != 0;
			break;
		case '[':
		case '{':
			if (!in_string && ++depth > DEPTH_MAX)
				return "it is nested more than 64 levels deep";
			values += !in_string;
			break;
		case ',':
			values += !in_string;
			break;
		case ']':
		case '}':
			depth -= !in_string && depth > 0;
			break;
		default:
			break;
		}
	}
	*ret_values = values;
	return NULL;
}

static const char *fault(const json_error_t *error)
{
	switch (json_error_code(error)) {
	case json_error_premature_end_of_input:
		return "it ends too soon";
	case json_error_end_of_input_expected:
		return "something follows the value";
	case json_error_invalid_utf8:
		return "it is not UTF-8";
	case json_error_null_character:
	case json_error_null_byte_in_key:
		return "a string holds \\u0000";
	case json_error_duplicate_key:
		return "an object has the same key twice";
	case json_error_numeric_overflow:
		return "a number is too large";
	case json_error_stack_overflow:
		return "it is nested too deep";
	default:
		return "the syntax is wrong";
	}
}

enum lu_error json_parse_bounded(struct text body, size_t values_max, json_t **ret_value, const char **ret_why)
{
	size_t values;
	if (!body.size) {
		*ret_why = "The body is empty; JSON is expected.";
		return LU_MALFORMED_REQUEST;
	}
	const char *unfit = scan(body, &values);
	*ret_why = why;
	if (unfit) {
		snprintf(why, sizeof why, "The body cannot be read as JSON: %s.", unfit);
		return LU_MALFORMED_REQUEST;
	}
	if (values > values_max) {
		snprintf(why, sizeof why, "The body has more than %zu values, which is more than this call takes.", values_max);
		return LU_PAYLOAD_TOO_LARGE;
	}
	json_error_t error;
	json_t *value = json_loadb(body.data, body.size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
	if (!value) {
		snprintf(why, sizeof why, "The body cannot be read as JSON: %s, at byte %d (line %d).", fault(&error),
		         error.position, error.line);
		return LU_MALFORMED_REQUEST;
	}
	*ret_value = value;
	return LU_OK;
}

enum lu_error json_parse(struct text body, json_t **ret_value, const char **ret_why)
{
	return json_parse_bounded(body, SIZE_MAX, ret_value, ret_why);
}

struct text json_text(const json_t *string)
{
	CHECK(json_is_string(string));
	return (struct text){json_string_value(string), json_string_length(string)};
}

struct text json_text_at(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);
	return json_is_string(value) ? json_text(value) : (struct text){0};
}

/* Room for a comma and `size` more; the comma is written. Returns where the value goes: see end(). */
static inline char *begin(struct json_writer *w, size_t size)
{
	struct buffer *out = w->out;
	if (out->room - out->size < size + 1)
		buffer_reserve(out, size + 1);
	char *to = out->data + out->size;
	if (w->comma)
		*to++ = ',';
	return to;
}

static inline void end(struct json_writer *w, char *to, bool comma)
{
	w->out->size = (size_t)(to - w->out->data);
	w->comma = comma;
}

static inline char *put(char *to, const void *bytes, size_t size)
{
	memcpy(to, bytes, size);
	return to + size;
}

static void put_literal(struct json_writer *w, const char *bytes, size_t size, bool comma)
{
	end(w, put(begin(w, size), bytes, size), comma);
}

void json_object_open(struct json_writer *w)
{
	put_literal(w, "{", 1, false);
}

void json_array_open(struct json_writer *w)
{
	put_literal(w, "[", 1, false);
}

void json_object_close(struct json_writer *w)
{
	w->comma = false;
	put_literal(w, "}", 1, true);
}

void json_array_close(struct json_writer *w)
{
	w->comma = false;
	put_literal(w, "]", 1, true);
}

void json_key(struct json_writer *w, const char *key)
{
	size_t size = strlen(key);
	char *to = begin(w, size + 3);
	*to++ = '"';
	to = put(to, key, size);
	end(w, put(to, "\":", 2), false);
}

/* Nonzero if one of eight bytes is a control byte, a quote or a backslash, or is 0xe2, with which U+2028 begins; and
 * for some others, which costs only a closer look (Mycroft's "has zero byte", whose borrows run upwards). */
static inline uint64_t suspicious(uint64_t word)
{
	const uint64_t ones = UINT64_C(0x0101010101010101), tops = UINT64_C(0x8080808080808080);
	uint64_t quote = word ^ ones * '"', backslash = word ^ ones * '\\', separator = word ^ ones * 0xe2;
	uint64_t found = (word - ones * 0x20) & ~word;
	found |= (quote - ones) & ~quote;
	found |= (backslash - ones) & ~backslash;
	found |= (separator - ones) & ~separator;
	return found & tops;
}

/* Bytes from `from` that stand for themselves. */
static size_t plain_bytes(const char *from, size_t left)
{
	size_t i = 0;
	for (uint64_t word; i + 8 <= left; i += 8) {
		memcpy(&word, from + i, 8);
		if (suspicious(word))
			break;
	}
	for (; i < left; i++) {
		unsigned char c = (unsigned char)from[i];
		if (c < 0x20 || c == '"' || c == '\\')
			break;
		/* U+2028 and U+2029 end a line in JavaScript older than 2019: e2 80 a8, e2 80 a9. */
		if (c == 0xe2 && left - i >= 3 && (unsigned char)from[i + 1] == 0x80 && (from[i + 2] & 0xfe) == 0xa8)
			break;
	}
	return i;
}

/* Writes the escape of the character at `from`, which plain_bytes() stopped at; returns the bytes it took. */
static size_t put_escape(char **to, const char *from)
{
	static const char hex[] = "0123456789abcdef";
	unsigned char c = (unsigned char)*from;
	if (c == 0xe2) {
		*to = put(*to, "\\u202", 5);
		*(*to)++ = hex[from[2] & 15];
		return 3;
	}
	static const char letters[0x20] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
	char letter = c < 0x20 ? letters[c] : (char)c;
	*(*to)++ = '\\';
	if (letter) {
		*(*to)++ = letter;
	} else {
		*to = put(*to, "u00", 3);
		*(*to)++ = hex[c >> 4];
		*(*to)++ = hex[c & 15];
	}
	return 1;
}

void json_put_text(struct json_writer *w, struct text text)
{
	char *to = begin(w, text.size + 2);
	*to++ = '"';
	for (size_t i = 0; i < text.size;) {
		size_t plain = plain_bytes(text.data + i, text.size - i);
		to = put(to, text.data + i, plain);
		i += plain;
		if (i == text.size)
			break;
		/* Room for this escape, for the rest unescaped, and for the quote. */
		end(w, to, false);
		buffer_reserve(w->out, ESCAPED_BYTES_MAX + (text.size - i) + 1);
		to = w->out->data + w->out->size;
		i += put_escape(&to, text.data + i);
	}
	*to++ = '"';
	end(w, to, true);
}

void json_put_string(struct json_writer *w, const char *c_string)
{
	json_put_text(w, (struct text){c_string, strlen(c_string)});
}

void json_put_int(struct json_writer *w, int64_t value)
{
	end(w, begin(w, 0), false);
	buffer_add_int(w->out, value);
	w->comma = true;
}

void json_put_bool(struct json_writer *w, bool value)
{
	put_literal(w, value ? "true" : "false", value ? 4 : 5, true);
}

void json_put_null(struct json_writer *w)
{
	put_literal(w, "null", 4, true);
}

void json_put_uuid(struct json_writer *w, const struct uuid *id)
{
	char *to = begin(w, UUID_TEXT_BYTES + 2);
	*to++ = '"';
	uuid_format(id, to);
	to += UUID_TEXT_BYTES;
	*to++ = '"'; /* on the NUL */
	end(w, to, true);
}

void json_put_time(struct json_writer *w, int64_t unix_us)
{
	char *to = begin(w, 24 + 2);
	*to++ = '"';
	clock_format(unix_us, to);
	to += 24;
	*to++ = '"'; /* on the NUL */
	end(w, to, true);
}

void json_put_raw(struct json_writer *w, struct text json)
{
	char *to = begin(w, json.size);
	if (json.size)
		to = put(to, json.data, json.size);
	end(w, to, true);
}

void json_put_jsonb(struct json_writer *w, struct text jsonb)
{
	bool in_string = false;
	char *to = begin(w, jsonb.size);
	for (size_t i = 0; i < jsonb.size; i++) {
		char c = jsonb.data[i];
		if (c == ' ' && !in_string)
			continue;
		*to++ = c;
		if (in_string && c == '\\')
			*to++ = jsonb.data[++i]; /* it is JSON: another one follows */
		else if (c == '"')
			in_string = !in_string;
	}
	end(w, to, true);
}

void json_member_text(struct json_writer *w, const char *key, struct text text)
{
	json_key(w, key);
	if (text.data)
		json_put_text(w, text);
	else
		json_put_null(w);
}

void json_member_string(struct json_writer *w, const char *key, const char *c_string)
{
	json_key(w, key);
	json_put_string(w, c_string);
}

void json_member_int(struct json_writer *w, const char *key, int64_t value)
{
	json_key(w, key);
	json_put_int(w, value);
}

void json_member_bool(struct json_writer *w, const char *key, bool value)
{
	json_key(w, key);
	json_put_bool(w, value);
}

void json_member_uuid(struct json_writer *w, const char *key, const struct uuid *id)
{
	json_key(w, key);
	if (uuid_is_nil(id))
		json_put_null(w);
	else
		json_put_uuid(w, id);
}

void json_member_time(struct json_writer *w, const char *key, int64_t unix_us)
{
	json_key(w, key);
	if (unix_us)
		json_put_time(w, unix_us);
	else
		json_put_null(w);
}
