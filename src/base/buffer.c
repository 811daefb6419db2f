/* A growable run of bytes.
 *
 * Happy path: the bytes fit; one comparison, one memcpy. Otherwise the room doubles, so n bytes cost O(n) in all.
 * Failure modes: out of memory and a size beyond half the address space are CHECKed.
 */
#include "base/buffer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define ROOM_BYTES_MIN ((size_t)128)
#define INT64_CHARS_MAX 20

/* "00" to "99": halves the divisions. */
static const char two_digits[] =
	"0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
	"5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

void buffer_done(struct buffer *buffer)
{
	free(buffer->data);
	*buffer = (struct buffer){0};
}

/* Apart and cold, so that the test in buffer_reserve() inlines into every buffer_add. */
static __attribute__((noinline, cold)) void grow(struct buffer *buffer, size_t more)
{
	CHECK(more < SIZE_MAX / 4 && buffer->size < SIZE_MAX / 4);
	size_t room = buffer->room < ROOM_BYTES_MIN ? ROOM_BYTES_MIN : buffer->room;
	while (room - buffer->size < more)
		room *= 2;
	buffer->data = realloc(buffer->data, room);
	CHECK(buffer->data);
	buffer->room = room;
}

void buffer_reserve(struct buffer *buffer, size_t more)
{
	if (buffer->room - buffer->size < more)
		grow(buffer, more);
}

void buffer_add(struct buffer *buffer, const void *bytes, size_t size)
{
	if (!size) /* bytes may be NULL */
		return;
	buffer_reserve(buffer, size);
	memcpy(buffer->data + buffer->size, bytes, size);
	buffer->size += size;
}

void buffer_add_text(struct buffer *buffer, struct text text)
{
	buffer_add(buffer, text.data, text.size);
}

void buffer_add_string(struct buffer *buffer, const char *c_string)
{
	buffer_add(buffer, c_string, strlen(c_string));
}

void buffer_add_char(struct buffer *buffer, char c)
{
	buffer_reserve(buffer, 1);
	buffer->data[buffer->size++] = c;
}

void buffer_add_int(struct buffer *buffer, int64_t value)
{
	char digits[INT64_CHARS_MAX];
	char *first = digits + sizeof digits;
	uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value; /* INT64_MIN has no positive twin */
	while (rest >= 100) {
		first -= 2;
		memcpy(first, two_digits + rest % 100 * 2, 2);
		rest /= 100;
	}
	if (rest >= 10) {
		first -= 2;
		memcpy(first, two_digits + rest * 2, 2);
	} else {
		*--first = (char)('0' + rest);
	}
	if (value < 0)
		*--first = '-';
	buffer_add(buffer, first, (size_t)(digits + sizeof digits - first));
}

void buffer_add_csv(struct buffer *buffer, struct text field)
{
	bool quoted = false;
	for (size_t i = 0; i < field.size && !quoted; i++)
		quoted = strchr(",\"\r\n", field.data[i]) != NULL;
	if (!quoted) {
		buffer_add_text(buffer, field);
		return;
	}
	buffer_add_char(buffer, '"');
	for (size_t i = 0; i < field.size; i++) {
		if (field.data[i] == '"')
			buffer_add_char(buffer, '"');
		buffer_add_char(buffer, field.data[i]);
	}
	buffer_add_char(buffer, '"');
}

void buffer_add_format(struct buffer *buffer, const char *format, ...)
{
	va_list arguments, again;
	va_start(arguments, format);
	va_copy(again, arguments);
	buffer_reserve(buffer, ROOM_BYTES_MIN);
	size_t left = buffer->room - buffer->size;
	int size = vsnprintf(buffer->data + buffer->size, left, format, arguments);
	CHECK(size >= 0);
	if ((size_t)size >= left) {
		buffer_reserve(buffer, (size_t)size + 1); /* vsnprintf wants room for its NUL */
		CHECK(vsnprintf(buffer->data + buffer->size, (size_t)size + 1, format, again) == size);
	}
	buffer->size += (size_t)size;
	va_end(again);
	va_end(arguments);
}
