/* Counted strings and the one rule for what a SKU code, a key and a reference may be (README of the API, "Input").
 *
 * Every channel, the importer and the cache keys pass through these checks and through no others. Thread: any.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "lastunit/error.h"
#include "lastunit/types.h"

bool text_equal(struct text a, struct text b);
/* Byte order: the same as COLLATE "C" in PostgreSQL, so both sides sort alike. */
int text_compare(struct text a, struct text b);
/* The same for qsort() and bsearch() over an array of struct text. */
int text_compare_at(const void *a, const void *b);
/* Keyed with a random seed per process: fit for tables filled by clients. */
uint64_t text_hash(struct text text);
struct text text_of(const char *c_string);

/* Valid UTF-8 (no overlong forms, no surrogates), no NUL. */
bool text_is_utf8(struct text text);
/* Its longest beginning that is: what a limit of bytes has left of a sentence may end within a character. */
struct text text_utf8_part(struct text text);
/* 1..128 bytes, UTF-8, NFC, no control or zero-width/format characters, no noncharacters, no blank (any Unicode
 * white space) at either end, no line or paragraph separators. LU_INVALID_SKU otherwise. One rule on every channel. */
enum lu_error text_check_sku(struct text text) LU_MUST_CHECK;
/* 1..255 bytes, UTF-8, no control characters. LU_INVALID_IDEMPOTENCY_KEY otherwise. */
enum lu_error text_check_key(struct text text) LU_MUST_CHECK;
/* 0..max bytes, UTF-8, no noncharacters, no control characters but tab, CR, LF. LU_INVALID_FIELD otherwise. */
enum lu_error text_check_free(struct text text, size_t bytes_max) LU_MUST_CHECK;

/* A language tag as far as one is looked at: a primary subtag of 2 or 3 letters, then subtags of 1 to 8 letters and digits
 * ("en", "pt-BR", "zh-Hant-TW"), at most LANGUAGE_BYTES_MAX bytes. Source: RFC 5646, 2.1 and 4.4.1. */
#define LANGUAGE_BYTES_MAX 35
bool text_is_language(struct text text);

/* A decimal integer, digits only with an optional minus; no blanks, no plus, no overflow, no leading zeros needed. */
bool text_to_int64(struct text text, int64_t *ret_value);

/* The value of a hex digit, of either case; -1: it is none. */
int text_hex_digit(char c);

/* Edits (insert, delete, replace a byte) that turn a into b, which has at most TEXT_DISTANCE_BYTES_MAX bytes. */
#define TEXT_DISTANCE_BYTES_MAX LU_SKU_BYTES_MAX
size_t text_distance(const char *a, const char *b);

/* The word behind a number in a sentence for people: "1 SKU", "0 SKUs", "2 SKUs". */
const char *text_plural(int64_t count, const char *one, const char *many);

#endif
