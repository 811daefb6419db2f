/* JSON in (strict, over jansson) and JSON out (straight into a buffer).
 *
 * In: one value, UTF-8, no duplicate keys, no NUL in strings, no trailing bytes, bounded depth: the parser and the
 * reader can never see two different documents. Integers are exact: "1.0" and "1e0" are not integers.
 * Out: commas are the writer's business; keys and nesting are the caller's. Thread: any, one writer per buffer.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>

#include "base/buffer.h"
#include "lastunit/error.h"
#include "lastunit/types.h"

/* Parses a whole body. On failure LU_MALFORMED_REQUEST and a sentence in *ret_why (static or thread-local storage,
 * good until the next call on this thread). The caller json_decref()s the value. */
enum lu_error json_parse(struct text body, json_t **ret_value, const char **ret_why) LU_MUST_CHECK;
/* The same of a stranger's: of more than values_max values (an empty array or object may count twice) it is
 * LU_PAYLOAD_TOO_LARGE, before any is made. A megabyte of `{},` is 80 MB and a quarter of a second of whoever reads it. */
enum lu_error json_parse_bounded(struct text body, size_t values_max, json_t **ret_value, const char **ret_why)
	LU_MUST_CHECK;
/* A string as counted text (borrowed from the value). */
struct text json_text(const json_t *string);
/* The same of a member; its data is NULL if there is none, it is no string, or `object` is no object, NULL too. */
struct text json_text_at(const json_t *object, const char *key);

struct json_writer {
	struct buffer *out;
	bool comma; /* a value was written at this level */
};

static inline struct json_writer json_writer(struct buffer *out)
{
	return (struct json_writer){out, false};
}
void json_object_open(struct json_writer *w);
void json_object_close(struct json_writer *w);
void json_array_open(struct json_writer *w);
void json_array_close(struct json_writer *w);
/* `key` is a literal that needs no escaping. */
void json_key(struct json_writer *w, const char *key);
void json_put_text(struct json_writer *w, struct text text); /* escaped; must be valid UTF-8 */
void json_put_string(struct json_writer *w, const char *c_string);
void json_put_int(struct json_writer *w, int64_t value);
void json_put_bool(struct json_writer *w, bool value);
void json_put_null(struct json_writer *w);
void json_put_uuid(struct json_writer *w, const struct uuid *id);
/* Microseconds since 1970 as "2026-11-29T13:45:00.123Z". */
void json_put_time(struct json_writer *w, int64_t unix_us);
/* A member: the key, then its value. null: a text with data NULL, a nil id, a time of 0. */
void json_member_text(struct json_writer *w, const char *key, struct text text);
void json_member_string(struct json_writer *w, const char *key, const char *c_string);
void json_member_int(struct json_writer *w, const char *key, int64_t value);
void json_member_bool(struct json_writer *w, const char *key, bool value);
void json_member_uuid(struct json_writer *w, const char *key, const struct uuid *id);
void json_member_time(struct json_writer *w, const char *key, int64_t unix_us);
/* Bytes that already are JSON. */
void json_put_raw(struct json_writer *w, struct text json);
/* The same of a jsonb of PostgreSQL, which has a blank behind each comma and colon. */
void json_put_jsonb(struct json_writer *w, struct text jsonb);

#endif
