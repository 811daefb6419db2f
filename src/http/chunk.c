/* A strict decoder of the chunked transfer coding.
 *
 * Happy path: SIZE → SIZE_LF → DATA → DATA_CR → DATA_LF → SIZE …, until a size of 0 leads to the trailer lines and the
 * empty line behind them.
 * Failure modes: LU_MALFORMED_REQUEST for any other byte; LU_PAYLOAD_TOO_LARGE when a size line says so, before its
 * data was read. After an error the decoder is of no more use.
 */
#include "http/chunk.h"

#include "base/text.h"

#define SIZE_DIGITS_MAX 8

enum { SIZE, EXTENSION, SIZE_LF, DATA, DATA_CR, DATA_LF, TRAILER_START, TRAILER, TRAILER_LF, END_LF };

static enum lu_error refuse(const char *why, const char **ret_why)
{
	*ret_why = why;
	return LU_MALFORMED_REQUEST;
}

static enum lu_error take_extra(struct chunk *chunk, char c, const char **ret_why)
{
	if (((unsigned char)c < 0x20 && c != '\t') || c == 0x7f)
		return refuse("The chunked body holds a control byte between its chunks.", ret_why);
	if (++chunk->extra_bytes > CHUNK_EXTRA_BYTES_MAX)
		return refuse("The chunked body has too many extension or trailer bytes.", ret_why);
	return LU_OK;
}

static enum lu_error take_size(struct chunk *chunk, char c, const char **ret_why)
{
	int digit = text_hex_digit(c);
	if (digit >= 0) {
		if (chunk->digits == SIZE_DIGITS_MAX)
			return refuse("A chunk size has at most 8 digits.", ret_why);
		chunk->left = chunk->left << 4 | (uint32_t)digit;
		chunk->digits++;
		return LU_OK;
	}
	if (chunk->digits == 0 || (c != '\r' && c != ';'))
		return refuse("A chunk must start with its size in hex digits.", ret_why);
	chunk->state = c == '\r' ? SIZE_LF : EXTENSION;
	return LU_OK;
}

/* One byte outside the data. */
static enum lu_error take_frame_byte(struct chunk *chunk, char c, uint64_t size_max, const char **ret_why)
{
	switch (chunk->state) {
	case SIZE:
		return take_size(chunk, c, ret_why);
	case EXTENSION:
		if (c != '\r')
			return take_extra(chunk, c, ret_why);
		chunk->state = SIZE_LF;
		return LU_OK;
	case DATA_CR:
		chunk->state = DATA_LF;
		return c == '\r' ? LU_OK : refuse("CR LF must follow a chunk's data.", ret_why);
	case TRAILER_START:
		if (c == ' ' || c == '\t' || c == ':')
			return refuse("A trailer field is a name, a colon and a value.", ret_why);
		chunk->state = c == '\r' ? END_LF : TRAILER;
		return c == '\r' ? LU_OK : take_extra(chunk, c, ret_why);
	case TRAILER:
		if (c != '\r')
			return take_extra(chunk, c, ret_why);
		chunk->state = TRAILER_LF;
		return LU_OK;
	default:
		break;
	}
	if (c != '\n')
		return refuse("A CR must be followed by LF.", ret_why);
	if (chunk->state == SIZE_LF && chunk->left) {
		chunk->state = DATA;
		chunk->size += chunk->left;
		return chunk->size > size_max ? LU_PAYLOAD_TOO_LARGE : LU_OK;
	}
	chunk->done = chunk->state == END_LF;
	chunk->state = chunk->state == DATA_LF ? SIZE : TRAILER_START;
	chunk->left = chunk->digits = 0;
	return LU_OK;
}

enum lu_error chunk_take(struct chunk *chunk, struct text *io_bytes, uint64_t size_max, struct text *ret_data,
                         const char **ret_why)
{
	*ret_data = (struct text){0};
	*ret_why = "";
	while (io_bytes->size && !chunk->done && chunk->state != DATA) {
		enum lu_error error = take_frame_byte(chunk, *io_bytes->data, size_max, ret_why);
		if (error)
			return error;
		io_bytes->data++;
		io_bytes->size--;
	}
	if (chunk->state != DATA || !io_bytes->size)
		return LU_OK;
	size_t size = io_bytes->size < chunk->left ? io_bytes->size : chunk->left;
	*ret_data = (struct text){io_bytes->data, size};
	io_bytes->data += size;
	io_bytes->size -= size;
	chunk->left -= (uint32_t)size;
	if (!chunk->left)
		chunk->state = DATA_CR;
	return LU_OK;
}
