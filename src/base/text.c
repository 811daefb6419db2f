/* Counted strings and what may be in them.
 *
 * Happy path: plain ASCII, which is nearly every SKU code and key, is decided by one look at each byte. Anything else
 * is decoded code point by code point and, for a SKU code, compared with its NFC form, all on the stack.
 * Failure modes: every refusal is an lu_error of the caller's field. Code points that this Unicode version does not
 * know are let through: a younger utf8proc elsewhere must not make a known code invalid.
 */
#include "base/text.h"

#include <string.h>
#include <utf8proc.h>

#include "base/check.h"
#include "base/id.h"

/* One byte decomposes canonically to at most 1.5 code points (U+01D5, two bytes, to three). */
#define DECOMPOSED_MAX (LU_SKU_BYTES_MAX * 2)

static uint64_t hash_key[2];

static __attribute__((constructor)) void hash_key_init(void)
{
	random_bytes(hash_key, sizeof hash_key);
}

bool text_equal(struct text a, struct text b)
{
	return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

int text_compare(struct text a, struct text b)
{
	size_t common = a.size < b.size ? a.size : b.size;
	int order = common ? memcmp(a.data, b.data, common) : 0;
	return order ? order : (a.size > b.size) - (a.size < b.size);
}

int text_compare_at(const void *a, const void *b)
{
	return text_compare(*(const struct text *)a, *(const struct text *)b);
}

struct text text_of(const char *c_string)
{
	return (struct text){c_string, strlen(c_string)};
}

static inline uint64_t rotate(uint64_t value, int bits)
{
	return value << bits | value >> (64 - bits);
}

static inline void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] = rotate(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[2] = rotate(v[2], 32);
}

/* SipHash-1-3 (Aumasson, Bernstein: "SipHash: a fast short-input PRF"): one round a word, three at the end. */
uint64_t text_hash(struct text text)
{
	uint64_t v[4] = {
		hash_key[0] ^ UINT64_C(0x736f6d6570736575),
		hash_key[1] ^ UINT64_C(0x646f72616e646f6d),
		hash_key[0] ^ UINT64_C(0x6c7967656e657261),
		hash_key[1] ^ UINT64_C(0x7465646279746573),
	};
	uint64_t word;
	size_t i = 0;
	for (; i + 8 <= text.size; i += 8) {
		memcpy(&word, text.data + i, 8);
		v[3] ^= word;
		sip_round(v);
		v[0] ^= word;
	}
	word = (uint64_t)text.size << 56;
	for (int shift = 0; i < text.size; i++, shift += 8)
		word |= (uint64_t)(uint8_t)text.data[i] << shift;
	v[3] ^= word;
	sip_round(v);
	v[0] ^= word;
	v[2] ^= 0xff;
	sip_round(v);
	sip_round(v);
	sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Decodes the code point at *offset and steps over it; false if it is not UTF-8 or is NUL. */
static bool next_code(struct text text, size_t *offset, utf8proc_int32_t *ret_code)
{
	const uint8_t *from = (const uint8_t *)text.data + *offset;
	if (*from < 0x80) {
		*ret_code = *from;
		*offset += 1;
		return *from != 0;
	}
	utf8proc_ssize_t size = utf8proc_iterate(from, (utf8proc_ssize_t)(text.size - *offset), ret_code);
	*offset += size > 0 ? (size_t)size : 0;
	return size > 0;
}

struct text text_utf8_part(struct text text)
{
	utf8proc_int32_t code;
	size_t whole = 0;
	for (size_t i = 0; i < text.size && next_code(text, &i, &code);)
		whole = i;
	return (struct text){text.data, whole};
}

bool text_is_utf8(struct text text)
{
	return text_utf8_part(text).size == text.size;
}

static bool is_control(utf8proc_int32_t code)
{
	return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

/* Never to be a character, in any version of Unicode, and no part of XML: TwiML with U+FFFE in a title is no document.
 * Source: The Unicode Standard, 23.7. */
static bool is_noncharacter(utf8proc_int32_t code)
{
	return (code & 0xfffe) == 0xfffe || (code >= 0xfdd0 && code <= 0xfdef);
}

/* What no SKU code may hold: control characters, noncharacters, line breaks, and everything that leaves no trace on the
 * screen and so makes twins (zero-width marks, soft hyphens, turned writing, variation selectors, fillers). */
static bool is_hidden(utf8proc_int32_t code)
{
	const utf8proc_property_t *property = utf8proc_get_property(code);
	switch (property->category) {
	case UTF8PROC_CATEGORY_CC:
	case UTF8PROC_CATEGORY_CF:
	case UTF8PROC_CATEGORY_CO:
	case UTF8PROC_CATEGORY_CS:
	case UTF8PROC_CATEGORY_ZL:
	case UTF8PROC_CATEGORY_ZP:
		return true;
	default:
		return property->ignorable || is_noncharacter(code);
	}
}

static bool is_nfc(struct text text)
{
	utf8proc_int32_t codes[DECOMPOSED_MAX];
	const utf8proc_option_t options = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
	utf8proc_ssize_t count = utf8proc_decompose((const uint8_t *)text.data, (utf8proc_ssize_t)text.size, codes,
	                                            DECOMPOSED_MAX, options);
	if (count < 0 || count > DECOMPOSED_MAX)
		return false;
	count = utf8proc_normalize_utf32(codes, count, options);
	size_t offset = 0;
	for (utf8proc_ssize_t i = 0; i < count; i++) {
		utf8proc_int32_t code;
		if (offset == text.size || !next_code(text, &offset, &code) || code != codes[i])
			return false;
	}
	return offset == text.size;
}

enum lu_error text_check_sku(struct text text)
{
	if (text.size < 1 || text.size > LU_SKU_BYTES_MAX)
		return LU_INVALID_SKU;
	bool ascii = true;
	utf8proc_int32_t first = 0, code = 0;
	for (size_t i = 0; i < text.size;) {
		bool at_start = i == 0;
		if (!next_code(text, &i, &code))
			return LU_INVALID_SKU;
		if (at_start)
			first = code;
		if (code < 0x80 ? is_control(code) : is_hidden(code))
			return LU_INVALID_SKU;
		ascii &= code < 0x80;
	}
	if (ascii)
		return first == ' ' || code == ' ' ? LU_INVALID_SKU : LU_OK;
	/* The other blanks are control characters or separators, refused above. */
	if (utf8proc_category(first) == UTF8PROC_CATEGORY_ZS || utf8proc_category(code) == UTF8PROC_CATEGORY_ZS)
		return LU_INVALID_SKU;
	return is_nfc(text) ? LU_OK : LU_INVALID_SKU;
}

enum lu_error text_check_key(struct text text)
{
	if (text.size < 1 || text.size > LU_KEY_BYTES_MAX)
		return LU_INVALID_IDEMPOTENCY_KEY;
	utf8proc_int32_t code;
	for (size_t i = 0; i < text.size;)
		if (!next_code(text, &i, &code) || is_control(code))
			return LU_INVALID_IDEMPOTENCY_KEY;
	return LU_OK;
}

enum lu_error text_check_free(struct text text, size_t bytes_max)
{
	if (text.size > bytes_max)
		return LU_INVALID_FIELD;
	utf8proc_int32_t code;
	for (size_t i = 0; i < text.size;)
		if (!next_code(text, &i, &code) || is_noncharacter(code) ||
		    (is_control(code) && code != '\t' && code != '\n' && code != '\r'))
			return LU_INVALID_FIELD;
	return LU_OK;
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool text_is_language(struct text text)
{
	size_t begin = 0, i = 0;
	for (; i < text.size && text.data[i] != '-'; i++)
		if (!is_letter(text.data[i]))
			return false;
	if (i < 2 || i > 3 || text.size > LANGUAGE_BYTES_MAX)
		return false;
	while (i < text.size) {
		for (begin = ++i; i < text.size && text.data[i] != '-'; i++)
			if (!is_letter(text.data[i]) && !(text.data[i] >= '0' && text.data[i] <= '9'))
				return false;
		if (i == begin || i - begin > 8)
			return false;
	}
	return true;
}

bool text_to_int64(struct text text, int64_t *ret_value)
{
	bool negative = text.size && text.data[0] == '-';
	size_t i = negative;
	if (i == text.size)
		return false;
	/* Counts downwards, for INT64_MIN has no positive twin. */
	int64_t value = 0;
	for (; i < text.size; i++) {
		if (text.data[i] < '0' || text.data[i] > '9')
			return false;
		if (__builtin_mul_overflow(value, 10, &value) || __builtin_sub_overflow(value, text.data[i] - '0', &value))
			return false;
	}
	if (!negative && value == INT64_MIN)
		return false;
	*ret_value = negative ? value : -value;
	return true;
}

int text_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* One row of the usual table at a time: `diagonal` keeps what the cell up and to the left was. */
size_t text_distance(const char *a, const char *b)
{
	size_t row[TEXT_DISTANCE_BYTES_MAX + 1], size = strlen(b);
	CHECK(size <= TEXT_DISTANCE_BYTES_MAX);
	for (size_t j = 0; j <= size; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t diagonal = row[0];
		row[0] = i;
		for (size_t j = 1; j <= size; j++) {
			size_t best = diagonal + (a[i - 1] != b[j - 1]);
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			diagonal = row[j];
			row[j] = best;
		}
	}
	return row[size];
}

const char *text_plural(int64_t count, const char *one, const char *many)
{
	return count == 1 || count == -1 ? one : many;
}
