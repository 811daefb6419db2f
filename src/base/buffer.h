/* A growable run of bytes: answers, SQL arrays, Redis arguments are built in one.
 *
 * Ownership: the buffer owns its bytes until buffer_done(). Starts as {0}; may hold NUL bytes and ends in none. Out of
 * memory ends the process. Thread: the owner's only.
 */
#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H

#include <stdarg.h>

#include "lastunit/types.h"

struct buffer {
	char *data;
	size_t size;
	size_t room;
};

void buffer_done(struct buffer *buffer);
static inline void buffer_clear(struct buffer *buffer)
{
	buffer->size = 0;
}
static inline struct text buffer_text(const struct buffer *buffer)
{
	return (struct text){buffer->data, buffer->size};
}
/* Makes sure that `more` bytes fit behind the present ones. */
void buffer_reserve(struct buffer *buffer, size_t more);
void buffer_add(struct buffer *buffer, const void *bytes, size_t size);
void buffer_add_text(struct buffer *buffer, struct text text);
void buffer_add_string(struct buffer *buffer, const char *c_string);
void buffer_add_char(struct buffer *buffer, char c);
void buffer_add_int(struct buffer *buffer, int64_t value);
/* A field of a CSV file: in quotes where it needs them (RFC 4180, 2.6 and 2.7). */
void buffer_add_csv(struct buffer *buffer, struct text field);
void buffer_add_format(struct buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
