/* Fuzz target: what may be a SKU code, a key, a free text, a number.
 *
 * The rule of the API, said again from Unicode's tables, must judge each text as base/text.c does. What is a code is one
 * on every way into the service: in JSON, in an address, in a file, in a cell, it comes back as the same bytes. What is
 * no code only because it is not in NFC becomes one by being normalised. Input: the text.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/check.h"
#include "base/json.h"
#include "base/text.h"
#include "cache/cell.h"
#include "cmd/csv_rows.h"
#include "fuzz/fuzz.h"
#include "http/percent.h"

/* --- the rule ----------------------------------------------------------------------------------------------------- */

/* Unicode, table 3-7: the sequences that are well-formed, by their first two bytes. */
static size_t sequence_size(struct text text)
{
	const uint8_t *b = (const uint8_t *)text.data;
	size_t size = b[0] < 0x80 ? 1 : b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : 4;
	if (b[0] == 0 || (b[0] >= 0x80 && b[0] < 0xc2) || b[0] > 0xf4 || size > text.size)
		return 0;
	uint8_t low = b[0] == 0xe0 ? 0xa0 : b[0] == 0xf0 ? 0x90 : 0x80;
	uint8_t high = b[0] == 0xed ? 0x9f : b[0] == 0xf4 ? 0x8f : 0xbf;
	if (size > 1 && (b[1] < low || b[1] > high))
		return 0;
	for (size_t i = 2; i < size; i++)
		if ((b[i] & 0xc0) != 0x80)
			return 0;
	return size;
}

static int32_t sequence_code(struct text text, size_t size)
{
	const uint8_t *b = (const uint8_t *)text.data;
	int32_t code = size == 1 ? b[0] : b[0] & (0x7f >> size);
	for (size_t i = 1; i < size; i++)
		code = code << 6 | (b[i] & 0x3f);
	return code;
}

struct judged {
	bool utf8, control, unfit, hidden, blank_at_end; /* unfit: for free text */
};

static struct judged judge(struct text text)
{
	struct judged judged = {.utf8 = true};
	utf8proc_category_t category = UTF8PROC_CATEGORY_CN;
	for (size_t at = 0, size; at < text.size; at += size) {
		struct text rest = {text.data + at, text.size - at};
		if (!(size = sequence_size(rest)))
			return (struct judged){0};
		int32_t code = sequence_code(rest, size);
		category = utf8proc_category(code);
		bool control = category == UTF8PROC_CATEGORY_CC;
		judged.control |= control;
		bool never = (code & 0xffff) >= 0xfffe || (code >= 0xfdd0 && code <= 0xfdef);
		judged.unfit |= never || (control && code != '\t' && code != '\r' && code != '\n');
		judged.hidden |= never || control || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO ||
		                 category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP ||
		                 utf8proc_get_property(code)->ignorable;
		judged.blank_at_end |= at == 0 && category == UTF8PROC_CATEGORY_ZS;
	}
	judged.blank_at_end |= category == UTF8PROC_CATEGORY_ZS;
	return judged;
}

/* The text in NFC; the caller frees it. */
static struct text normalised(struct text text)
{
	uint8_t *out = NULL;
	utf8proc_ssize_t size = utf8proc_map((const uint8_t *)text.data, (utf8proc_ssize_t)text.size, &out,
	                                     UTF8PROC_STABLE | UTF8PROC_COMPOSE);
	CHECK(size >= 0);
	return (struct text){(const char *)out, (size_t)size};
}

/* --- every way in ------------------------------------------------------------------------------------------------- */

static void check_json(struct text sku)
{
	struct buffer out = {0};
	struct json_writer w = json_writer(&out);
	json_put_text(&w, sku);
	json_t *value = NULL;
	const char *why;
	CHECK(json_parse(buffer_text(&out), &value, &why) == LU_OK && text_equal(json_text(value), sku));
	json_decref(value);
	buffer_done(&out);
}

static void check_address(struct arena *arena, struct text sku)
{
	char *out = arena_alloc(arena, 3 * sku.size + 1);
	for (size_t i = 0; i < sku.size; i++)
		snprintf(out + 3 * i, 4, "%%%02X", (unsigned char)sku.data[i]);
	struct text decoded;
	const char *why;
	for (int plus = 0; plus < 2; plus++)
		CHECK(percent_decode(arena, (struct text){out, 3 * sku.size}, plus, &decoded, &why) == LU_OK &&
		      text_equal(decoded, sku));
}

static bool on_row(const struct csv_row *row, void *context)
{
	const struct text *sku = context;
	CHECK(row->count == 2 && text_equal(row->fields[0], *sku) && text_equal(row->fields[1], TEXT("1")));
	return true;
}

static void check_file(struct text sku)
{
	struct buffer file = {0};
	struct csv_format format = {0};
	char why[CSV_WHY_BYTES];
	buffer_add_char(&file, '"');
	for (size_t i = 0; i < sku.size; i++) {
		buffer_add_char(&file, sku.data[i]);
		if (sku.data[i] == '"')
			buffer_add_char(&file, '"');
	}
	buffer_add_string(&file, "\",1\r\n");
	CHECK(csv_rows_read(buffer_text(&file), &format, on_row, &sku, why));
	buffer_done(&file);
}

static void check_sku(struct text sku)
{
	struct arena arena;
	struct figures figures = {.version = 1};
	arena_init(&arena, 1024);
	check_json(sku);
	check_address(&arena, sku);
	check_file(sku);
	CHECK(cell_decode(cell_value(&arena, &figures, sku), true, sku).state == CELL_VALUE);
	CHECK(!text_check_key(sku) && !text_check_free(sku, LU_SKU_BYTES_MAX));
	arena_done(&arena);
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

static void check_number(struct text text)
{
	int64_t value = 4711;
	bool taken = text_to_int64(text, &value);
	bool digits = text.size > (text.size && text.data[0] == '-');
	for (size_t i = text.size && text.data[0] == '-'; i < text.size; i++)
		digits &= text.data[i] >= '0' && text.data[i] <= '9';
	if (!digits) {
		CHECK(!taken && value == 4711);
		return;
	}
	char *copy = strndup(text.data, text.size);
	errno = 0;
	long long expected = strtoll(copy, NULL, 10);
	CHECK(taken == (errno == 0) && value == (taken ? expected : 4711));
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text text = {(const char *)data, size};
	struct judged judged = judge(text);
	CHECK(text_is_utf8(text) == judged.utf8);
	CHECK(!text_check_key(text) == (judged.utf8 && !judged.control && size >= 1 && size <= LU_KEY_BYTES_MAX));
	CHECK(!text_check_free(text, 100) == (judged.utf8 && !judged.unfit && size <= 100));
	bool clean = judged.utf8 && !judged.hidden && !judged.blank_at_end && size >= 1;
	if (clean) {
		struct text nfc = normalised(text);
		bool fits = size <= LU_SKU_BYTES_MAX;
		CHECK(!text_check_sku(text) == (fits && text_equal(nfc, text)));
		/* What only is not normalised is one step from being a code. */
		CHECK(!text_check_sku(nfc) == (nfc.size <= LU_SKU_BYTES_MAX));
		free((char *)nfc.data);
	} else {
		CHECK(text_check_sku(text) == LU_INVALID_SKU);
	}
	if (!text_check_sku(text))
		check_sku(text);
	check_number(text);
	return 0;
}
