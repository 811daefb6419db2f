/* Fuzz target: JSON in and JSON out.
 *
 * In: a body is taken exactly if jansson takes it, it has no NUL byte and is at most 64 levels deep; what is taken is
 * JSON to a recogniser of RFC 8259 that shares no line with jansson; what is refused leaves the caller's value alone and
 * says why in a sentence. Out: what was read, written again, reads as the same value; so does any UTF-8 text as a string,
 * and the bytes hold no control characters and no line ends of JavaScript. Input: the body.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/text.h"
#include "fuzz/fuzz.h"

#define DEPTH_MAX 64

/* --- a recogniser ------------------------------------------------------------------------------------------------- */

struct cursor {
	const char *at, *end;
};

static bool is_value(struct cursor *c);

static void skip_blanks(struct cursor *c)
{
	while (c->at < c->end && memchr(" \t\r\n", *c->at, 4))
		c->at++;
}

static bool take(struct cursor *c, char byte)
{
	if (c->at == c->end || *c->at != byte)
		return false;
	c->at++;
	return true;
}

static bool take_digits(struct cursor *c)
{
	const char *from = c->at;
	while (c->at < c->end && *c->at >= '0' && *c->at <= '9')
		c->at++;
	return c->at > from;
}

static bool is_number(struct cursor *c)
{
	take(c, '-');
	if (!take(c, '0') && !take_digits(c))
		return false;
	if (take(c, '.') && !take_digits(c))
		return false;
	if (!take(c, 'e') && !take(c, 'E'))
		return true;
	if (!take(c, '+'))
		take(c, '-');
	return take_digits(c);
}

static int hex4(struct cursor *c)
{
	int value = 0;
	for (int i = 0; i < 4; i++, c->at++) {
		const char *digits = "0123456789abcdef0123456789ABCDEF";
		const char *found = c->at < c->end && *c->at ? strchr(digits, *c->at) : NULL;
		if (!found)
			return -1;
		value = value << 4 | ((int)(found - digits) & 15);
	}
	return value;
}

static bool is_escape(struct cursor *c)
{
	if (c->at == c->end)
		return false;
	char kind = *c->at++;
	if (kind != 'u')
		return kind && strchr("\"\\/bfnrt", kind);
	int high = hex4(c);
	if (high <= 0 || (high >= 0xdc00 && high <= 0xdfff))
		return false;
	if (high < 0xd800 || high > 0xdbff)
		return true;
	if (!take(c, '\\') || !take(c, 'u'))
		return false;
	int low = hex4(c);
	return low >= 0xdc00 && low <= 0xdfff;
}

/* That the body is UTF-8 is looked at as a whole. */
static bool is_string(struct cursor *c)
{
	if (!take(c, '"'))
		return false;
	while (c->at < c->end && *c->at != '"') {
		if ((unsigned char)*c->at < 0x20)
			return false;
		if (*c->at++ == '\\' && !is_escape(c))
			return false;
	}
	return take(c, '"');
}

static bool is_list(struct cursor *c, char end, bool named)
{
	c->at++;
	skip_blanks(c);
	if (take(c, end))
		return true;
	do {
		skip_blanks(c);
		if (named && !is_string(c))
			return false;
		skip_blanks(c);
		if (named && !take(c, ':'))
			return false;
		if (!is_value(c))
			return false;
	} while (take(c, ','));
	return take(c, end);
}

static bool is_word(struct cursor *c, struct text word)
{
	bool is = (size_t)(c->end - c->at) >= word.size && memcmp(c->at, word.data, word.size) == 0;
	c->at += is ? word.size : 0;
	return is;
}

/* A value and the blanks around it. */
static bool is_value(struct cursor *c)
{
	skip_blanks(c);
	char first = c->at < c->end ? *c->at : '\0';
	bool is = first == '{'   ? is_list(c, '}', true)
	          : first == '[' ? is_list(c, ']', false)
	          : first == '"' ? is_string(c)
	          : first == 't' ? is_word(c, TEXT("true"))
	          : first == 'f' ? is_word(c, TEXT("false"))
	          : first == 'n' ? is_word(c, TEXT("null"))
	                         : is_number(c);
	skip_blanks(c);
	return is;
}

/* --- in ----------------------------------------------------------------------------------------------------------- */

static size_t depth_of(const json_t *value)
{
	size_t deepest = 0, depth, i;
	const char *key;
	json_t *member;
	json_array_foreach((json_t *)value, i, member) deepest = (depth = depth_of(member)) > deepest ? depth : deepest;
	json_object_foreach((json_t *)value, key, member) deepest = (depth = depth_of(member)) > deepest ? depth : deepest;
	return deepest + (json_is_array(value) || json_is_object(value));
}

/* By jansson alone; NULL: not to be taken. */
static json_t *expected_value(struct text body)
{
	json_error_t error;
	if (!body.size || memchr(body.data, 0, body.size))
		return NULL;
	json_t *value = json_loadb(body.data, body.size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
	if (value && depth_of(value) > DEPTH_MAX) {
		json_decref(value);
		return NULL;
	}
	return value;
}

/* --- out ---------------------------------------------------------------------------------------------------------- */

/* Keys of ours need no escaping, those of a stranger may: an object is written as an array of its names and values. */
static json_t *flat(const json_t *value)
{
	size_t i;
	const char *key;
	json_t *member, *list = json_array();
	if (json_is_array(value))
		json_array_foreach((json_t *)value, i, member) json_array_append_new(list, flat(member));
	else if (json_is_object(value))
		json_object_foreach((json_t *)value, key, member)
		{
			json_array_append_new(list, json_string(key));
			json_array_append_new(list, flat(member));
		}
	else
		json_array_append(list, (json_t *)value);
	return list;
}

static void put(struct json_writer *w, const json_t *value)
{
	size_t i;
	json_t *member;
	switch (json_typeof(value)) {
	case JSON_STRING:
		json_put_text(w, json_text(value));
		return;
	case JSON_INTEGER:
		json_put_int(w, json_integer_value(value));
		return;
	case JSON_TRUE:
	case JSON_FALSE:
		json_put_bool(w, json_is_true(value));
		return;
	case JSON_REAL: {
		char *number = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
		json_put_raw(w, text_of(number));
		free(number);
		return;
	}
	case JSON_ARRAY:
		json_array_open(w);
		json_array_foreach((json_t *)value, i, member) put(w, member);
		json_array_close(w);
		return;
	default:
		json_put_null(w);
	}
}

static void check_written(const struct buffer *out, const json_t *expected)
{
	json_t *again = NULL;
	const char *why = NULL;
	CHECK(text_is_utf8(buffer_text(out)));
	for (size_t i = 0; i < out->size; i++)
		CHECK((unsigned char)out->data[i] >= 0x20);
	CHECK(!memmem(out->data, out->size, "\xe2\x80\xa8", 3) && !memmem(out->data, out->size, "\xe2\x80\xa9", 3));
	CHECK(json_parse(buffer_text(out), &again, &why) == LU_OK);
	CHECK(json_equal(again, expected));
	json_decref(again);
}

static void check_value(const json_t *value)
{
	json_t *list = flat(value);
	struct buffer out = {0};
	struct json_writer w = json_writer(&out);
	put(&w, list);
	if (depth_of(list) <= DEPTH_MAX)
		check_written(&out, list);
	buffer_done(&out);
	json_decref(list);
}

/* As a member of an object, behind another and in front of one. */
static void check_text(struct text text)
{
	struct buffer out = {0};
	struct json_writer w = json_writer(&out);
	json_object_open(&w);
	json_key(&w, "a");
	json_put_int(&w, INT64_MIN);
	json_key(&w, "text");
	json_put_text(&w, text);
	json_key(&w, "z");
	json_put_bool(&w, true);
	json_object_close(&w);
	json_t *expected = json_pack("{s:I, s:s%, s:b}", "a", (json_int_t)INT64_MIN, "text", text.size ? text.data : "",
	                             text.size, "z", 1);
	CHECK(expected);
	check_written(&out, expected);
	json_decref(expected);
	buffer_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text body = {(const char *)data, size};
	json_t *const untouched = json_null();
	json_t *value = untouched, *expected = expected_value(body);
	const char *why = NULL;
	enum lu_error error = json_parse(body, &value, &why);
	CHECK((error == LU_OK) == (expected != NULL));
	if (!error) {
		struct cursor cursor = {body.data, body.data + body.size};
		CHECK(json_equal(value, expected));
		CHECK(is_value(&cursor) && cursor.at == cursor.end && text_is_utf8(body));
		check_value(value);
		json_decref(value);
	} else {
		CHECK(error == LU_MALFORMED_REQUEST && value == untouched);
		CHECK(why && *why && text_is_utf8(text_of(why)));
	}
	json_decref(expected);
	if (text_is_utf8(body))
		check_text(body);
	return 0;
}
