/* Fuzz target: the value of the header Idempotency-Key.
 *
 * Judged as a plain reading of RFC 8941, 3.3.3 and of the key's own rule says; what is refused leaves the key alone; a key
 * in quotes, however it is escaped, is the key itself. Input: the value.
 */
#include <stdlib.h>
#include <string.h>

#include "api/body.h"
#include "base/buffer.h"
#include "base/check.h"
#include "base/text.h"
#include "fuzz/fuzz.h"

/* What stands between the quotes, unescaped. False: not one string to its end. */
static bool unquote(struct text value, struct buffer *out)
{
	size_t last = value.size - 1;
	if (value.size < 2 || value.data[last] != '"')
		return false;
	for (size_t i = 1; i < last; i++) {
		if (value.data[i] == '"')
			return false;
		if (value.data[i] == '\\') {
			i++;
			if (i == last || (value.data[i] != '"' && value.data[i] != '\\'))
				return false;
		}
		buffer_add_char(out, value.data[i]);
	}
	return true;
}

static void check_quoted(struct arena *arena, struct text key)
{
	struct buffer quoted = {0};
	struct text again;
	struct fault fault;
	buffer_add_char(&quoted, '"');
	for (size_t i = 0; i < key.size; i++) {
		if (key.data[i] == '"' || key.data[i] == '\\')
			buffer_add_char(&quoted, '\\');
		buffer_add_char(&quoted, key.data[i]);
	}
	buffer_add_char(&quoted, '"');
	CHECK(body_key_header(buffer_text(&quoted), arena, &again, &fault) && text_equal(again, key));
	buffer_done(&quoted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text value = {(const char *)data, size}, key = TEXT("untouched"), expected = value;
	struct fault fault = {0};
	struct arena arena;
	struct buffer plain = {0};
	arena_init(&arena, 1024);
	bool valid = true;
	if (size && data[0] == '"') {
		valid = unquote(value, &plain);
		expected = buffer_text(&plain);
	}
	valid = valid && !text_check_key(expected);
	CHECK(body_key_header(value, &arena, &key, &fault) == valid);
	if (valid) {
		CHECK(text_equal(key, expected));
		check_quoted(&arena, key);
	} else {
		CHECK(text_equal(key, TEXT("untouched")));
		CHECK(fault.error == LU_INVALID_IDEMPOTENCY_KEY && fault.detail.size && text_is_utf8(fault.detail));
	}
	buffer_done(&plain);
	arena_done(&arena);
	return 0;
}
