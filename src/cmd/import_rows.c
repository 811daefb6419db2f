/* What a row of an import file says (import_rows.h).
 *
 * Happy path: the header names columns of ours; each field is a number, a word or a text within its bounds.
 * Failure modes: a header we cannot follow refuses the file; a field we cannot follow refuses its row, with the code of
 * the API's error for the same fault.
 */
#include "cmd/import_rows.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buffer.h"
#include "base/json.h"
#include "base/text.h"

static const char *const column_names[IMPORT_NAMED_COLUMNS] = {
	[IMPORT_SKU] = "sku",
	[IMPORT_ON_HAND] = "on_hand",
	[IMPORT_DELTA] = "delta",
	[IMPORT_CHANGE_FROM] = "change_from",
	[IMPORT_SAFETY_STOCK] = "safety_stock",
	[IMPORT_TRACKED] = "tracked",
	[IMPORT_NAMES] = "names",
	[IMPORT_REASON] = "reason",
};

static const struct import_profile profiles[] = {
	{"online-retail", "ISO-8859-1", "sku=StockCode,title_en=Description", true,
     "an order file of the UCI data set Online Retail: its SKUs and their descriptions, with nothing on hand"},
};

const struct import_profile *import_profile_find(const char *name)
{
	for (size_t i = 0; i < sizeof profiles / sizeof profiles[0]; i++)
		if (strcmp(profiles[i].name, name) == 0)
			return &profiles[i];
	return NULL;
}

const char *import_profile_names(void)
{
	return "online-retail";
}

/* `title_` and a language tag. */
static bool title_language(struct text name, struct text *ret_language)
{
	static const char prefix[] = "title_";
	size_t size = sizeof prefix - 1;
	if (name.size < size || memcmp(name.data, prefix, size) != 0 ||
	    !text_is_language((struct text){name.data + size, name.size - size}))
		return false;
	*ret_language = (struct text){name.data + size, name.size - size};
	return true;
}

/* Gives the file's column `at` the meaning `name`. */
static bool column_take(struct import_columns *columns, struct arena *arena, struct text name, int at,
                        char why[IMPORT_WHY_BYTES])
{
	for (int i = 0; i < IMPORT_NAMED_COLUMNS; i++) {
		if (!text_equal(name, text_of(column_names[i])))
			continue;
		if (columns->at[i] >= 0) {
			snprintf(why, IMPORT_WHY_BYTES, "there are two columns for %s", column_names[i]);
			return false;
		}
		columns->at[i] = at;
		return true;
	}
	struct text language;
	if (!title_language(name, &language)) {
		snprintf(why, IMPORT_WHY_BYTES,
		         "column \"%.*s\" is unknown; known are sku, on_hand, delta, change_from, safety_stock, tracked, "
		         "title_LANG (title_en, title_pt-BR), names, reason; a foreign file needs --map or --profile",
		         (int)(name.size < 60 ? name.size : 60), name.size ? name.data : "");
		return false;
	}
	for (size_t i = 0; i < columns->title_count; i++)
		if (text_equal(columns->titles[i].language, language)) {
			snprintf(why, IMPORT_WHY_BYTES, "there are two columns for title_%.*s", (int)language.size, language.data);
			return false;
		}
	if (columns->title_count == IMPORT_TITLES_MAX) {
		snprintf(why, IMPORT_WHY_BYTES, "at most %d languages", IMPORT_TITLES_MAX);
		return false;
	}
	columns->titles[columns->title_count++] = (struct import_title){arena_text(arena, language), at};
	return true;
}

/* One "ours=theirs" of the map. */
static bool map_entry(struct import_columns *columns, struct arena *arena, const struct csv_row *header,
                      struct text entry, char why[IMPORT_WHY_BYTES])
{
	const char *equals = memchr(entry.data, '=', entry.size);
	if (!equals) {
		snprintf(why, IMPORT_WHY_BYTES, "--map wants column=name, not \"%.*s\"",
		         (int)(entry.size < 60 ? entry.size : 60), entry.data);
		return false;
	}
	struct text ours = {entry.data, (size_t)(equals - entry.data)};
	struct text theirs = {equals + 1, entry.size - ours.size - 1};
	for (size_t i = 0; i < header->count; i++)
		if (text_equal(header->fields[i], theirs))
			return column_take(columns, arena, ours, (int)i, why);
	snprintf(why, IMPORT_WHY_BYTES, "the file has no column \"%.*s\"", (int)(theirs.size < 60 ? theirs.size : 60),
	         theirs.data);
	return false;
}

static bool map_follow(struct import_columns *columns, struct arena *arena, const struct csv_row *header,
                       const char *map, char why[IMPORT_WHY_BYTES])
{
	for (const char *at = map; *at;) {
		size_t size = strcspn(at, ",");
		if (!map_entry(columns, arena, header, (struct text){at, size}, why))
			return false;
		at += size;
		at += *at == ',';
	}
	return true;
}

/* One wide column means that something else separates them. */
static bool looks_separated_by(const struct csv_row *header, char separator)
{
	return header->count == 1 && header->fields[0].size &&
	       memchr(header->fields[0].data, separator, header->fields[0].size);
}

bool import_columns_find(struct import_columns *columns, struct arena *arena, const struct csv_row *header,
                         const char *map, char ret_why[IMPORT_WHY_BYTES])
{
	*columns = (struct import_columns){.file_columns = header->count};
	for (int i = 0; i < IMPORT_NAMED_COLUMNS; i++)
		columns->at[i] = -1;
	static const char separators[] = ";\t|";
	for (const char *s = separators; *s; s++)
		if (looks_separated_by(header, *s)) {
			snprintf(ret_why, IMPORT_WHY_BYTES,
			         "line %lld: the columns seem to be separated by %s: say --separator '%s'", (long long)header->line,
			         *s == '\t'  ? "tabs"
			         : *s == ';' ? "semicolons"
			                     : "bars",
			         *s == '\t' ? "\\t" : (char[]){*s, '\0'});
			return false;
		}
	char why[IMPORT_WHY_BYTES] = "";
	bool ok = true;
	if (map)
		ok = map_follow(columns, arena, header, map, why);
	else
		for (size_t i = 0; ok && i < header->count; i++)
			ok = column_take(columns, arena, header->fields[i], (int)i, why);
	if (ok && columns->at[IMPORT_SKU] < 0) {
		snprintf(why, sizeof why, "there is no column sku");
		ok = false;
	}
	if (ok && columns->at[IMPORT_ON_HAND] < 0 && columns->at[IMPORT_DELTA] < 0 &&
	    columns->at[IMPORT_SAFETY_STOCK] < 0 && columns->at[IMPORT_TRACKED] < 0 && columns->at[IMPORT_NAMES] < 0 &&
	    columns->title_count == 0) {
		snprintf(why, sizeof why,
		         "there is nothing to import: no on_hand, delta, safety_stock, tracked, title or names");
		ok = false;
	}
	if (!ok)
		snprintf(ret_why, IMPORT_WHY_BYTES, "line %lld: %.270s", (long long)header->line, why);
	return ok;
}

static struct text field(const struct import_columns *columns, const struct csv_row *row, enum import_column column)
{
	int at = columns->at[column];
	return at < 0 ? (struct text){"", 0} : row->fields[at];
}

static enum lu_error say(char why[IMPORT_WHY_BYTES], enum lu_error error, const char *what)
{
	snprintf(why, IMPORT_WHY_BYTES, "%s", what);
	return error;
}

/* An optional count. An empty field is none. */
static bool count_read(struct text text, int64_t min, bool *ret_given, int64_t *ret_value)
{
	*ret_given = text.size > 0;
	if (!*ret_given)
		return true;
	return text_to_int64(text, ret_value) && *ret_value >= min && *ret_value <= LU_COUNT_MAX;
}

static bool bool_read(struct text text, bool *ret_given, bool *ret_value)
{
	static const struct {
		const char *word;
		bool value;
	} words[] = {{"true", true}, {"false", false}, {"yes", true}, {"no", false},
	             {"t", true},    {"f", false},     {"1", true},   {"0", false}};
	*ret_given = text.size > 0;
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (text.size == strlen(words[i].word) && strncasecmp(text.data, words[i].word, text.size) == 0) {
			*ret_value = words[i].value;
			return true;
		}
	return !*ret_given;
}

static enum lu_error counts_read(const struct import_columns *columns, const struct csv_row *csv,
                                 struct import_row *row, char why[IMPORT_WHY_BYTES])
{
	struct text delta = field(columns, csv, IMPORT_DELTA);
	/* Receipts are often written with their sign. */
	if (delta.size > 1 && delta.data[0] == '+' && delta.data[1] != '-')
		delta = (struct text){delta.data + 1, delta.size - 1};
	if (!count_read(field(columns, csv, IMPORT_ON_HAND), 0, &row->on_hand_given, &row->on_hand))
		return say(why, LU_INVALID_FIELD, "on_hand is not a whole number from 0 to 1000000000000000");
	if (!count_read(delta, -LU_COUNT_MAX, &row->delta_given, &row->delta))
		return say(why, LU_INVALID_FIELD, "delta is not a whole number within 1000000000000000");
	if (!count_read(field(columns, csv, IMPORT_CHANGE_FROM), 0, &row->change_from_given, &row->change_from))
		return say(why, LU_INVALID_FIELD, "change_from is not a whole number from 0 to 1000000000000000");
	if (!count_read(field(columns, csv, IMPORT_SAFETY_STOCK), 0, &row->safety_stock_given, &row->safety_stock))
		return say(why, LU_INVALID_FIELD, "safety_stock is not a whole number from 0 to 1000000000000000");
	if (!bool_read(field(columns, csv, IMPORT_TRACKED), &row->tracked_given, &row->tracked))
		return say(why, LU_INVALID_FIELD, "tracked is neither true nor false");
	if (row->on_hand_given && row->delta_given)
		return say(why, LU_INVALID_FIELD, "on_hand and delta are both given: a row has one of them");
	bool expected = columns->at[IMPORT_ON_HAND] >= 0 || columns->at[IMPORT_DELTA] >= 0;
	if (expected && !row->on_hand_given && !row->delta_given)
		return say(why, LU_INVALID_FIELD, "neither on_hand nor delta is given");
	if (row->change_from_given && !row->on_hand_given && !row->delta_given)
		return say(why, LU_INVALID_FIELD, "change_from without on_hand or delta");
	return LU_OK;
}

/* "red mug; red cup": what PostgreSQL will split in the same way (import_apply.c). */
static enum lu_error names_check(struct text list, char why[IMPORT_WHY_BYTES])
{
	size_t count = 0;
	for (const char *at = list.data, *end = list.data + list.size; list.size && at <= end;) {
		const char *semicolon = memchr(at, ';', (size_t)(end - at));
		const char *stop = semicolon ? semicolon : end;
		struct text name = {at, (size_t)(stop - at)};
		for (; name.size && name.data[0] == ' '; name.size--)
			name.data++;
		while (name.size && name.data[name.size - 1] == ' ')
			name.size--;
		if (!name.size)
			return say(why, LU_INVALID_FIELD, "names has an empty one: they stand between semicolons");
		if (text_check_free(name, IMPORT_NAME_BYTES_MAX))
			return say(why, LU_INVALID_FIELD,
			           "one of names has more than 255 bytes, control characters or noncharacters");
		if (++count > IMPORT_NAMES_MAX)
			return say(why, LU_INVALID_FIELD, "names has more than 100");
		at = stop + 1;
	}
	return LU_OK;
}

enum lu_error import_row_read(const struct import_columns *columns, const struct csv_row *csv,
                              struct import_row *ret_row, char ret_why[IMPORT_WHY_BYTES])
{
	struct import_row row = {.line = csv->line};
	if (csv->count != columns->file_columns) {
		snprintf(ret_why, IMPORT_WHY_BYTES, "%zu %s where the header has %zu", csv->count,
		         text_plural((int64_t)csv->count, "column", "columns"), columns->file_columns);
		return LU_MALFORMED_REQUEST;
	}
	row.sku = field(columns, csv, IMPORT_SKU);
	if (text_check_sku(row.sku))
		return say(ret_why, LU_INVALID_SKU, row.sku.size ? lu_error_mend(LU_INVALID_SKU) : "the SKU code is empty");
	enum lu_error error = counts_read(columns, csv, &row, ret_why);
	if (error)
		return error;
	row.reason = field(columns, csv, IMPORT_REASON);
	if (text_check_free(row.reason, LU_REFERENCE_BYTES_MAX))
		return say(ret_why, LU_INVALID_FIELD, "reason has more than 255 bytes, control characters or noncharacters");
	for (size_t i = 0; i < columns->title_count; i++) {
		row.titles[i] = csv->fields[columns->titles[i].at];
		if (text_check_free(row.titles[i], LU_TITLE_BYTES_MAX))
			return say(ret_why, LU_INVALID_FIELD,
			           "a title has more than 1000 bytes, control characters or noncharacters");
	}
	row.names = field(columns, csv, IMPORT_NAMES);
	error = names_check(row.names, ret_why);
	if (error)
		return error;
	*ret_row = row;
	return LU_OK;
}

struct text import_row_titles(const struct import_columns *columns, const struct import_row *row, struct arena *arena)
{
	struct buffer out = {0};
	struct json_writer writer = json_writer(&out);
	bool any = false;
	json_object_open(&writer);
	for (size_t i = 0; i < columns->title_count; i++) {
		if (!row->titles[i].size)
			continue;
		any = true;
		json_key(&writer, columns->titles[i].language.data);
		json_put_text(&writer, row->titles[i]);
	}
	json_object_close(&writer);
	struct text titles = any ? arena_text(arena, buffer_text(&out)) : (struct text){"", 0};
	buffer_done(&out);
	return titles;
}
