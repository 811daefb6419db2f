/* Decoding of bodies (the lines of an operation: body_lines.c).
 *
 * Happy path: each member of the object is looked up in one table, which says which operations have it and how it is
 * read; then the members that must be there are counted.
 * Failure modes: the first fault ends the decoding, with its error and a sentence that names the member's path. An
 * operation that was not decoded is never submitted, so what it holds by then does not matter.
 */
#include "api/body_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/json.h"
#include "base/text.h"

bool body_refuse(struct fault *fault, enum lu_error error, struct text detail)
{
	*fault = (struct fault){error, detail};
	return false;
}

struct text body_excerpt(struct text text)
{
	if (text.size <= 64)
		return text;
	size_t size = 64;
	while (size && ((unsigned char)text.data[size] & 0xc0) == 0x80)
		size--;
	return (struct text){text.data, size};
}

/* --- values ------------------------------------------------------------------------------------------------------- */

bool body_integer_within(const json_t *value, int64_t min, int64_t max, int64_t *ret_value)
{
	if (!json_is_integer(value))
		return false;
	json_int_t found = json_integer_value(value);
	if (found < min || found > max)
		return false;
	*ret_value = found;
	return true;
}

static bool take_free_text(struct decoding *d, const char *name, const json_t *value, size_t bytes_min,
                           size_t bytes_max, struct text *ret_text)
{
	if (json_is_string(value)) {
		struct text text = json_text(value);
		if (text.size >= bytes_min && !text_check_free(text, bytes_max)) {
			*ret_text = text;
			return true;
		}
	}
	return REFUSE(d, LU_INVALID_FIELD,
	              "`%s` must be a string of %zu to %zu bytes without noncharacters, without control characters but tab "
	              "and line ends.",
	              name, bytes_min, bytes_max);
}

static bool take_id(struct decoding *d, const char *name, const json_t *value, struct uuid *ret_id)
{
	if (json_is_string(value) && uuid_parse(json_text(value), ret_id))
		return true;
	return REFUSE(d, LU_INVALID_FIELD, "`%s` must be an id as the service answered it, a UUID of 36 characters.", name);
}

/* --- members ------------------------------------------------------------------------------------------------------ */

static bool take_ttl(struct decoding *d, const char *name, const json_t *value)
{
	if (body_integer_within(value, 1, LU_TTL_SECONDS_MAX, &d->operation->ttl_s))
		return true;
	return REFUSE(d, LU_INVALID_TTL, "`ttl_seconds` must be a JSON integer from 1 to %d.", LU_TTL_SECONDS_MAX);
}

static bool take_reference(struct decoding *d, const char *name, const json_t *value)
{
	return take_free_text(d, name, value, 0, LU_REFERENCE_BYTES_MAX, &d->operation->reference);
}

static bool take_reason(struct decoding *d, const char *name, const json_t *value)
{
	return take_free_text(d, name, value, 1, LU_REFERENCE_BYTES_MAX, &d->operation->reason);
}

static bool take_caller(struct decoding *d, const char *name, const json_t *value)
{
	return take_free_text(d, name, value, 1, LU_CALLER_BYTES_MAX, &d->operation->caller);
}

static bool take_version(struct decoding *d, const char *name, const json_t *value)
{
	if (body_integer_within(value, 0, LU_ORDER_VERSION_MAX, &d->operation->order_version))
		return true;
	return REFUSE(d, LU_INVALID_FIELD, "`version` must be a JSON integer from 0 to %" PRId64 ".", LU_ORDER_VERSION_MAX);
}

static bool take_other(struct decoding *d, const char *name, const json_t *value)
{
	return take_id(d, name, value, &d->operation->other);
}

static bool take_target(struct decoding *d, const char *name, const json_t *value)
{
	return take_id(d, name, value, &d->operation->target);
}

static bool take_key(struct decoding *d, const char *name, const json_t *value)
{
	if (!json_is_string(value) || text_check_key(json_text(value)))
		return REFUSE(d, LU_INVALID_IDEMPOTENCY_KEY,
		              "`%s` must be a string of 1 to %d bytes without control characters.", name, LU_KEY_BYTES_MAX);
	d->operation->key = json_text(value);
	d->operation->client_key = true;
	return true;
}

/* The kind was read before the rest could be. */
static bool take_nothing(struct decoding *d, const char *name, const json_t *value)
{
	return true;
}

static struct sku_change *change_of(struct decoding *d)
{
	if (!d->operation->sku_change)
		d->operation->sku_change = ARENA_NEW(d->arena, struct sku_change);
	return d->operation->sku_change;
}

static bool take_count(struct decoding *d, const char *name, const json_t *value, bool *ret_given, int64_t *ret_count)
{
	*ret_given = body_integer_within(value, 0, LU_COUNT_MAX, ret_count);
	if (!*ret_given)
		return REFUSE(d, LU_INVALID_QUANTITY, "`%s` must be a JSON integer from 0 to %" PRId64 ".", name, LU_COUNT_MAX);
	return true;
}

static bool take_on_hand(struct decoding *d, const char *name, const json_t *value)
{
	struct sku_change *change = change_of(d);
	return take_count(d, name, value, &change->on_hand_given, &change->on_hand);
}

static bool take_safety_stock(struct decoding *d, const char *name, const json_t *value)
{
	struct sku_change *change = change_of(d);
	return take_count(d, name, value, &change->safety_stock_given, &change->safety_stock);
}

static bool take_tracked(struct decoding *d, const char *name, const json_t *value)
{
	if (!json_is_boolean(value))
		return REFUSE(d, LU_INVALID_FIELD, "`tracked` must be true or false.");
	struct sku_change *change = change_of(d);
	change->tracked_given = true;
	change->tracked = json_is_true(value);
	return true;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Written again, sorted by language: the fingerprint is of what was meant, not of how it was spelled. */
static bool take_titles(struct decoding *d, const char *name, const json_t *value)
{
	size_t count = json_object_size(value);
	if (!json_is_object(value) || count > TITLES_MAX)
		return REFUSE(d, LU_INVALID_FIELD, "`titles` must be an object of at most %d texts by language.", TITLES_MAX);
	const char *languages[TITLES_MAX];
	size_t n = 0;
	const char *language;
	json_t *title;
	json_object_foreach((json_t *)value, language, title)
	{
		struct text ignored;
		if (!text_is_language(text_of(language)))
			return REFUSE(d, LU_INVALID_FIELD,
			              "`titles.%.*s`: the name must be a language tag such as \"en\" or \"pt-BR\".",
			              FIT(text_of(language)));
		if (!take_free_text(d, arena_printf(d->arena, "titles.%s", language).data, title, 1, LU_TITLE_BYTES_MAX,
		                    &ignored))
			return false;
		languages[n++] = language;
	}
	qsort(languages, n, sizeof *languages, compare_names);
	struct buffer out = {0};
	struct json_writer w = json_writer(&out);
	json_object_open(&w);
	for (size_t i = 0; i < n; i++) {
		json_key(&w, languages[i]);
		json_put_text(&w, json_text(json_object_get(value, languages[i])));
	}
	json_object_close(&w);
	struct sku_change *change = change_of(d);
	change->titles_given = true;
	change->titles_json = arena_text(d->arena, buffer_text(&out));
	buffer_done(&out);
	return true;
}

static bool take_names(struct decoding *d, const char *name, const json_t *value)
{
	size_t count = json_array_size(value);
	if (!json_is_array(value) || count > NAMES_MAX)
		return REFUSE(d, LU_INVALID_FIELD, "`names` must be an array of at most %d strings.", NAMES_MAX);
	struct sku_change *change = change_of(d);
	change->names_given = true;
	change->names = ARENA_ARRAY(d->arena, count, struct text);
	change->name_count = count;
	for (size_t i = 0; i < count; i++)
		if (!take_free_text(d, arena_printf(d->arena, "names[%zu]", i).data, json_array_get(value, i), 1,
		                    NAME_BYTES_MAX, &change->names[i]))
			return false;
	return true;
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

#define BIT(kind) (1u << (kind))
#define CARTS (BIT(OPERATION_CHECKOUT) | BIT(OPERATION_RESERVE))
#define BY_RESERVATION (BIT(OPERATION_COMMIT) | BIT(OPERATION_RELEASE) | BIT(OPERATION_EXTEND))
#define ALL (~0u)

struct field {
	const char *name;
	unsigned kinds;    /* operations that have it */
	unsigned required; /* operations that must have it */
	bool batch_only;   /* stands in the path of a route */
	bool (*take)(struct decoding *d, const char *name, const json_t *value);
};

// clang-format off
static const struct field fields[] = {
	{"operation", ALL, 0, true, take_nothing},
	{"reservation_id", BY_RESERVATION, BY_RESERVATION, true, take_target},
	{"checkout_id", BIT(OPERATION_CANCEL), BIT(OPERATION_CANCEL), true, take_target},
	{"version", BIT(OPERATION_ORDER_PUT), BIT(OPERATION_ORDER_PUT), false, take_version},
	{"lines", CARTS | BIT(OPERATION_ADJUST) | BIT(OPERATION_CANCEL) | BIT(OPERATION_ORDER_PUT),
	 CARTS | BIT(OPERATION_ADJUST) | BIT(OPERATION_ORDER_PUT), false, body_take_lines},
	{"ttl_seconds", BIT(OPERATION_RESERVE) | BIT(OPERATION_EXTEND), 0, false, take_ttl},
	{"reason", BIT(OPERATION_ADJUST), BIT(OPERATION_ADJUST), false, take_reason},
	{"reference", CARTS | BIT(OPERATION_ADJUST), 0, false, take_reference},
	{"caller", BIT(OPERATION_RESERVE), 0, false, take_caller},
	{"releases", BIT(OPERATION_CHECKOUT), 0, false, take_other},
	{"replaces", BIT(OPERATION_RESERVE), 0, false, take_other},
	{"on_hand", BIT(OPERATION_SKU_PUT), 0, false, take_on_hand},
	{"safety_stock", BIT(OPERATION_SKU_PUT), 0, false, take_safety_stock},
	{"tracked", BIT(OPERATION_SKU_PUT), 0, false, take_tracked},
	{"titles", BIT(OPERATION_SKU_PUT), 0, false, take_titles},
	{"names", BIT(OPERATION_SKU_PUT), 0, false, take_names},
	{"idempotency_key", ALL, 0, false, take_key},
};
// clang-format on
#define FIELDS (sizeof fields / sizeof *fields)

static bool has(const struct field *field, enum body_form form, enum operation_kind kind)
{
	return (field->kinds & BIT(kind)) && (form == BODY_OF_BATCH || !field->batch_only);
}

struct text body_stray_field(struct arena *arena, struct text name, const char *known)
{
	return arena_printf(arena, "`%.*s` is not a field of this request; it has %s.", FIT(name), known);
}

static bool refuse_unknown(struct decoding *d, enum body_form form, struct text name)
{
	struct buffer list = {0};
	for (size_t i = 0; i < FIELDS; i++)
		if (has(&fields[i], form, d->operation->kind))
			buffer_add_format(&list, "%s%s", list.size ? ", " : "", fields[i].name);
	struct text known = arena_text(d->arena, buffer_text(&list));
	buffer_done(&list);
	return body_refuse(d->fault, LU_INVALID_FIELD, body_stray_field(d->arena, name, known.data));
}

static bool refuse_missing(struct decoding *d, const struct field *field)
{
	if (!strcmp(field->name, "lines"))
		return REFUSE(d, LU_INVALID_LINES, "`lines` is missing: an array of %d to %d lines.",
		              d->operation->kind == OPERATION_ORDER_PUT ? 0 : 1, LU_LINES_MAX);
	return REFUSE(d, LU_INVALID_FIELD, "`%s` is missing.", field->name);
}

bool body_decode(const json_t *body, enum body_form form, struct operation *operation, struct fault *ret_fault)
{
	struct decoding decoding = {operation, operation->arena, ret_fault}, *d = &decoding;
	enum operation_kind kind = operation->kind;
	if (body && !json_is_object(body))
		return REFUSE(d, LU_MALFORMED_REQUEST, "The body must be a JSON object.");
	if (kind == OPERATION_SKU_PUT)
		change_of(d);
	bool found[FIELDS] = {false};
	const char *name;
	json_t *value;
	json_object_foreach((json_t *)body, name, value)
	{
		size_t i = 0;
		while (i < FIELDS && (strcmp(fields[i].name, name) || !has(&fields[i], form, kind)))
			i++;
		if (i == FIELDS)
			return refuse_unknown(d, form, text_of(name));
		if (json_is_null(value))
			continue;
		found[i] = true;
		if (!fields[i].take(d, name, value))
			return false;
	}
	for (size_t i = 0; i < FIELDS; i++)
		if (!found[i] && (fields[i].required & BIT(kind)) && has(&fields[i], form, kind))
			return refuse_missing(d, &fields[i]);
	return true;
}

/* --- the other bodies --------------------------------------------------------------------------------------------- */

bool body_operation_kind(const json_t *entry, struct arena *arena, enum operation_kind *ret_kind,
                         struct fault *ret_fault)
{
	/* Both the word of the route and that of the deed: tills know one or the other. */
	static const struct {
		const char *name;
		enum operation_kind kind;
	} words[] = {
		{"checkout", OPERATION_CHECKOUT}, {"reserve", OPERATION_RESERVE},   {"reservation", OPERATION_RESERVE},
		{"commit", OPERATION_COMMIT},     {"release", OPERATION_RELEASE},   {"extend", OPERATION_EXTEND},
		{"cancel", OPERATION_CANCEL},     {"adjustment", OPERATION_ADJUST}, {"adjust", OPERATION_ADJUST},
	};
	if (!json_is_object(entry))
		return body_refuse(ret_fault, LU_MALFORMED_REQUEST, TEXT("An entry of `operations` must be an object."));
	const char *word = json_string_value(json_object_get(entry, "operation"));
	for (size_t i = 0; word && i < sizeof words / sizeof *words; i++)
		if (!strcmp(words[i].name, word)) {
			*ret_kind = words[i].kind;
			return true;
		}
	return body_refuse(
		ret_fault, LU_INVALID_FIELD,
		TEXT("`operation` must be one of checkout, reserve, commit, release, extend, cancel, adjustment."));
}

/* The only member of an object; NULL after refusing. */
static const json_t *only_member(const json_t *body, const char *name, struct arena *arena, struct fault *fault)
{
	if (!json_is_object(body)) {
		(void)body_refuse(fault, LU_MALFORMED_REQUEST, TEXT("The body must be a JSON object."));
		return NULL;
	}
	const char *other;
	json_t *value;
	json_object_foreach((json_t *)body, other, value) if (strcmp(other, name))
	{
		(void)body_refuse(fault, LU_INVALID_FIELD, body_stray_field(arena, text_of(other), name));
		return NULL;
	}
	const json_t *member = json_object_get(body, name);
	if (!json_is_array(member)) {
		(void)body_refuse(fault, LU_INVALID_FIELD, arena_printf(arena, "`%s` must be an array.", name));
		return NULL;
	}
	return member;
}

bool body_operations(const json_t *body, struct arena *arena, const json_t **ret_entries, struct fault *ret_fault)
{
	const json_t *entries = only_member(body, "operations", arena, ret_fault);
	if (!entries)
		return false;
	size_t count = json_array_size(entries);
	if (!count || count > BATCH_ENTRIES_MAX)
		return body_refuse(ret_fault, LU_INVALID_FIELD,
		                   arena_printf(arena, "`operations` must hold 1 to %d operations.", BATCH_ENTRIES_MAX));
	*ret_entries = entries;
	return true;
}

bool body_skus(const json_t *body, struct arena *arena, struct text **ret_skus, size_t *ret_count,
               struct fault *ret_fault)
{
	const json_t *list = only_member(body, "skus", arena, ret_fault);
	if (!list)
		return false;
	size_t count = json_array_size(list);
	if (!count || count > LU_LOOKUP_MAX)
		return body_refuse(ret_fault, LU_INVALID_FIELD,
		                   arena_printf(arena, "`skus` must hold 1 to %d codes.", LU_LOOKUP_MAX));
	struct text *skus = ARENA_ARRAY(arena, count, struct text);
	for (size_t i = 0; i < count; i++) {
		const json_t *sku = json_array_get(list, i);
		if (!json_is_string(sku) || text_check_sku(json_text(sku)))
			return body_refuse(ret_fault, LU_INVALID_SKU,
			                   arena_printf(arena, "`skus[%zu]` is not a SKU code. %s", i,
			                                lu_error_mend(LU_INVALID_SKU)));
		skus[i] = json_text(sku);
	}
	*ret_skus = skus;
	*ret_count = count;
	return true;
}

bool body_key_header(struct text value, struct arena *arena, struct text *ret_key, struct fault *ret_fault)
{
	struct text key = value;
	bool valid = true;
	if (value.size && value.data[0] == '"') {
		char *out = arena_alloc(arena, value.size);
		size_t size = 0, i = 1;
		for (; i < value.size && value.data[i] != '"'; i++) {
			if (value.data[i] == '\\' && ++i < value.size && value.data[i] != '"' && value.data[i] != '\\')
				valid = false;
			if (i < value.size)
				out[size++] = value.data[i];
		}
		valid = valid && i + 1 == value.size; /* the closing quote, and nothing behind it */
		key = (struct text){out, size};
	}
	if (!valid || text_check_key(key))
		return body_refuse(ret_fault, LU_INVALID_IDEMPOTENCY_KEY,
		                   arena_printf(arena,
		                                "The header `Idempotency-Key` must hold 1 to %d bytes of UTF-8 without control "
		                                "characters, bare or as one quoted string.",
		                                LU_KEY_BYTES_MAX));
	*ret_key = key;
	return true;
}
