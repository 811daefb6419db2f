/* Fuzz target: every body of the API, from JSON to an operation and its fingerprint.
 *
 * What is taken is within the bounds of the API; written again from the operation it reads as the same operation with the
 * same fingerprint, and so it does with its lines in another order and without its nulls; with one more member it is
 * refused. What is refused has one of the errors of its kind and a sentence. Input: one letter, which body it is; the
 * JSON. Letters: c checkout, r reserve, m commit, l release, x extend, n cancel, a adjust, p a SKU, v an order; in capitals
 * as an entry of a batch (P, V: none); o operations, s skus.
 */
#include <stdlib.h>
#include <string.h>

#include "api/body.h"
#include "api/plain_skus.h"
#include "base/check.h"
#include "base/id.h"
#include "base/json.h"
#include "base/text.h"
#include "fuzz/fuzz.h"
#include "inventory/prepare.h"

#define SKU "SKU-OF-THE-PATH"

struct reading {
	struct arena arena;
	struct operation operation;
	struct fault fault;
	bool taken;
	enum lu_error unfit; /* of operation_prepare(), when it was taken */
};

static void reading_done(struct reading *reading)
{
	arena_done(&reading->arena);
}

/* Decodes and prepares, as a route does. `body` outlives the reading. */
static void read_body(struct reading *reading, enum operation_kind kind, enum body_form form, const json_t *body)
{
	*reading = (struct reading){.operation = {.kind = kind}};
	arena_init(&reading->arena, 2048);
	struct operation *operation = &reading->operation;
	operation->arena = &reading->arena;
	if (kind == OPERATION_SKU_PUT) {
		operation->lines = ARENA_NEW(&reading->arena, struct line);
		operation->lines[0].sku = TEXT(SKU);
		operation->line_count = 1;
	}
	if (kind == OPERATION_ORDER_PUT)
		operation->number = TEXT("NUMBER-OF-THE-PATH");
	reading->taken = body_decode(body, form, operation, &reading->fault);
}

static void prepare(struct reading *reading)
{
	reading->unfit = operation_prepare(&reading->operation);
}

/* --- what is taken ------------------------------------------------------------------------------------------------ */

static void check_lines(const struct operation *operation)
{
	bool adjust = operation->kind == OPERATION_ADJUST;
	CHECK(operation->line_count <= LU_LINES_MAX);
	for (size_t i = 0; i < operation->line_count; i++) {
		const struct line *line = &operation->lines[i];
		CHECK(!text_check_sku(line->sku));
		if (adjust) {
			CHECK(line->quantity >= (line->set ? 0 : -LU_COUNT_MAX) && line->quantity <= LU_COUNT_MAX);
			CHECK(line->set || (line->quantity != 0 && !line->change_from_given));
			CHECK(line->change_from >= 0 && line->change_from <= LU_COUNT_MAX);
		} else {
			CHECK(!line->set &&
			      (operation->kind == OPERATION_SKU_PUT || (line->quantity >= 1 && line->quantity <= LU_QUANTITY_MAX)));
		}
	}
}

static void check_change(const struct sku_change *change)
{
	CHECK(change->on_hand >= 0 && change->on_hand <= LU_COUNT_MAX);
	CHECK(change->safety_stock >= 0 && change->safety_stock <= LU_COUNT_MAX);
	CHECK(change->name_count <= NAMES_MAX);
	for (size_t i = 0; i < change->name_count; i++)
		CHECK(change->names[i].size && !text_check_free(change->names[i], NAME_BYTES_MAX));
	if (!change->titles_given)
		return;
	json_t *titles = NULL;
	const char *why;
	CHECK(json_parse(change->titles_json, &titles, &why) == LU_OK && json_is_object(titles));
	CHECK(json_object_size(titles) <= TITLES_MAX);
	json_decref(titles);
}

static void check_operation(const struct operation *operation, enum body_form form)
{
	enum operation_kind kind = operation->kind;
	bool by_reservation = kind == OPERATION_COMMIT || kind == OPERATION_RELEASE || kind == OPERATION_EXTEND;
	bool has_lines = kind == OPERATION_CHECKOUT || kind == OPERATION_RESERVE || kind == OPERATION_ADJUST;
	check_lines(operation);
	CHECK(!has_lines || operation->line_count);
	CHECK(operation->order_version >= 0 && operation->order_version <= LU_ORDER_VERSION_MAX);
	CHECK(kind == OPERATION_ORDER_PUT || !operation->order_version);
	CHECK(kind == OPERATION_RESERVE || !operation->caller.data);
	CHECK(!text_check_free(operation->caller, LU_CALLER_BYTES_MAX));
	CHECK(!by_reservation || !operation->line_count);
	CHECK(uuid_is_nil(&operation->target) || (form == BODY_OF_BATCH && (by_reservation || kind == OPERATION_CANCEL)));
	CHECK(uuid_is_nil(&operation->other) || kind == OPERATION_CHECKOUT || kind == OPERATION_RESERVE);
	CHECK(operation->ttl_s >= 0 && operation->ttl_s <= LU_TTL_SECONDS_MAX);
	CHECK(!operation->ttl_s || kind == OPERATION_RESERVE || kind == OPERATION_EXTEND);
	CHECK(!text_check_free(operation->reference, LU_REFERENCE_BYTES_MAX));
	CHECK(!text_check_free(operation->reason, LU_REFERENCE_BYTES_MAX));
	CHECK((kind == OPERATION_ADJUST) == (operation->reason.size > 0));
	CHECK(operation->client_key ? !text_check_key(operation->key) : !operation->key.size);
	CHECK((kind == OPERATION_SKU_PUT) == (operation->sku_change != NULL));
	if (operation->sku_change)
		check_change(operation->sku_change);
}

/* --- written again ------------------------------------------------------------------------------------------------ */

static json_t *text_value(struct text text)
{
	return json_stringn(text.size ? text.data : "", text.size);
}

static void put_id(json_t *body, const char *name, const struct uuid *id)
{
	char text[UUID_TEXT_BYTES + 1];
	uuid_format(id, text);
	if (!uuid_is_nil(id))
		json_object_set_new(body, name, json_string(text));
}

static json_t *line_value(const struct line *line, enum operation_kind kind)
{
	json_t *value = json_object();
	const char *count = kind != OPERATION_ADJUST ? "quantity" : line->set ? "set" : "delta";
	json_object_set_new(value, count, json_integer(line->quantity));
	json_object_set_new(value, "sku", text_value(line->sku));
	if (line->set)
		json_object_set_new(value, "change_from",
		                    line->change_from_given ? json_integer(line->change_from) : json_null());
	return value;
}

static void put_change(json_t *body, const struct sku_change *change)
{
	if (change->on_hand_given)
		json_object_set_new(body, "on_hand", json_integer(change->on_hand));
	if (change->safety_stock_given)
		json_object_set_new(body, "safety_stock", json_integer(change->safety_stock));
	if (change->tracked_given)
		json_object_set_new(body, "tracked", json_boolean(change->tracked));
	if (change->titles_given)
		json_object_set_new(body, "titles", json_loadb(change->titles_json.data, change->titles_json.size, 0, NULL));
	if (!change->names_given)
		return;
	json_t *names = json_array();
	for (size_t i = 0; i < change->name_count; i++)
		json_array_append_new(names, text_value(change->names[i]));
	json_object_set_new(body, "names", names);
}

/* The members in another order than fields[] has them, the lines from the last to the first. */
static json_t *body_of(const struct operation *operation)
{
	json_t *body = json_object();
	if (operation->sku_change)
		put_change(body, operation->sku_change);
	if (operation->client_key)
		json_object_set_new(body, "idempotency_key", text_value(operation->key));
	if (operation->reason.data)
		json_object_set_new(body, "reason", text_value(operation->reason));
	if (operation->reference.data)
		json_object_set_new(body, "reference", text_value(operation->reference));
	if (operation->caller.data)
		json_object_set_new(body, "caller", text_value(operation->caller));
	if (operation->kind == OPERATION_ORDER_PUT)
		json_object_set_new(body, "version", json_integer(operation->order_version));
	if (operation->ttl_s)
		json_object_set_new(body, "ttl_seconds", json_integer(operation->ttl_s));
	put_id(body, operation->kind == OPERATION_CHECKOUT ? "releases" : "replaces", &operation->other);
	put_id(body, operation->kind == OPERATION_CANCEL ? "checkout_id" : "reservation_id", &operation->target);
	if ((operation->line_count && operation->kind != OPERATION_SKU_PUT) || operation->kind == OPERATION_ORDER_PUT) {
		json_t *lines = json_array();
		for (size_t i = operation->line_count; i-- > 0;)
			json_array_append_new(lines, line_value(&operation->lines[i], operation->kind));
		json_object_set_new(body, "lines", lines);
	}
	return body;
}

static void check_same(const struct reading *a, const json_t *body, enum body_form form)
{
	struct reading b;
	read_body(&b, a->operation.kind, form, body);
	CHECK(b.taken);
	check_operation(&b.operation, form);
	prepare(&b);
	/* Which of two faulty twins is met first depends on the order. */
	CHECK(!a->unfit == !b.unfit);
	if (!a->unfit)
		CHECK(memcmp(a->operation.fingerprint, b.operation.fingerprint, sizeof b.operation.fingerprint) == 0);
	CHECK(a->operation.client_key == b.operation.client_key);
	CHECK(!a->operation.client_key || text_equal(a->operation.key, b.operation.key));
	reading_done(&b);
}

static void check_without_nulls(const struct reading *reading, const json_t *body, enum body_form form)
{
	const char *name;
	json_t *value, *rest = json_object();
	json_object_foreach((json_t *)body, name, value) if (!json_is_null(value)) json_object_set(rest, name, value);
	check_same(reading, rest, form);
	struct reading more;
	json_object_set_new(rest, "quantitiy", json_null());
	read_body(&more, reading->operation.kind, form, rest);
	CHECK(!more.taken && more.fault.error == LU_INVALID_FIELD);
	reading_done(&more);
	json_decref(rest);
}

/* Merged lines are sorted and without twins, and prepared again they stay as they are. */
static void check_prepared(struct operation *operation)
{
	uint8_t before[sizeof operation->fingerprint];
	for (size_t i = 1; i < operation->line_count; i++)
		CHECK(text_compare(operation->lines[i - 1].sku, operation->lines[i].sku) < 0);
	CHECK(operation->sku_count == operation->line_count);
	memcpy(before, operation->fingerprint, sizeof before);
	CHECK(operation_prepare(operation) == LU_OK && memcmp(before, operation->fingerprint, sizeof before) == 0);
}

/* --- each body ---------------------------------------------------------------------------------------------------- */

static void check_fault(const struct fault *fault)
{
	CHECK(fault->error == LU_MALFORMED_REQUEST || fault->error == LU_INVALID_SKU ||
	      fault->error == LU_INVALID_QUANTITY || fault->error == LU_INVALID_LINES || fault->error == LU_INVALID_TTL ||
	      fault->error == LU_INVALID_IDEMPOTENCY_KEY || fault->error == LU_INVALID_FIELD);
	CHECK(fault->detail.size && fault->detail.size < 1024 && text_is_utf8(fault->detail));
}

static void fuzz_operation(enum operation_kind kind, enum body_form form, const json_t *body)
{
	struct reading reading;
	read_body(&reading, kind, form, body);
	if (!reading.taken) {
		check_fault(&reading.fault);
	} else {
		check_operation(&reading.operation, form);
		/* a batch has the nil id for none, a body can say it: then it is not written again */
		json_t *again = body_of(&reading.operation);
		bool needs_target = form == BODY_OF_BATCH && uuid_is_nil(&reading.operation.target) &&
		                    kind >= OPERATION_COMMIT && kind <= OPERATION_CANCEL;
		prepare(&reading);
		if (!needs_target)
			check_same(&reading, again, form);
		json_decref(again);
		if (body)
			check_without_nulls(&reading, body, form);
		if (!reading.unfit)
			check_prepared(&reading.operation);
	}
	reading_done(&reading);
}

static void fuzz_entry(const json_t *entry)
{
	struct arena arena;
	struct fault fault = {0};
	enum operation_kind kind = 0;
	arena_init(&arena, 1024);
	if (body_operation_kind(entry, &arena, &kind, &fault)) {
		CHECK(kind >= OPERATION_CHECKOUT && kind <= OPERATION_ADJUST);
		fuzz_operation(kind, BODY_OF_BATCH, entry);
	} else {
		CHECK(kind == 0);
		check_fault(&fault);
	}
	arena_done(&arena);
}

static void fuzz_operations(const json_t *body)
{
	struct arena arena;
	struct fault fault = {0};
	const json_t *entries = NULL;
	arena_init(&arena, 1024);
	if (body_operations(body, &arena, &entries, &fault)) {
		CHECK(json_array_size(entries) >= 1 && json_array_size(entries) <= BATCH_ENTRIES_MAX);
		for (size_t i = 0; i < json_array_size(entries); i++)
			fuzz_entry(json_array_get(entries, i));
	} else {
		CHECK(!entries);
		check_fault(&fault);
	}
	arena_done(&arena);
}

/* Whatever it takes, the parser takes too, and finds the same. */
static void fuzz_plain_skus(struct text bytes)
{
	struct arena arena;
	struct fault fault = {0};
	struct text *plain, *skus;
	size_t plain_count, count;
	json_t *body;
	const char *why;
	arena_init(&arena, 1024);
	if (plain_skus(bytes, &arena, &plain, &plain_count)) {
		CHECK(json_parse(bytes, &body, &why) == LU_OK);
		CHECK(body_skus(body, &arena, &skus, &count, &fault) && count == plain_count);
		for (size_t i = 0; i < count; i++)
			CHECK(text_equal(skus[i], plain[i]));
		json_decref(body);
	}
	arena_done(&arena);
}

static void fuzz_skus(const json_t *body)
{
	struct arena arena;
	struct fault fault = {0};
	struct text *skus = NULL;
	size_t count = 0;
	arena_init(&arena, 1024);
	if (body_skus(body, &arena, &skus, &count, &fault)) {
		CHECK(count >= 1 && count <= LU_LOOKUP_MAX);
		for (size_t i = 0; i < count; i++)
			CHECK(!text_check_sku(skus[i]) &&
			      text_equal(skus[i], json_text(json_array_get(json_object_get(body, "skus"), i))));
	} else {
		CHECK(!skus && !count);
		check_fault(&fault);
	}
	arena_done(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct {
		char letter;
		enum operation_kind kind;
		bool in_batch;
	} kinds[] = {{'c', OPERATION_CHECKOUT, true}, {'r', OPERATION_RESERVE, true},  {'m', OPERATION_COMMIT, true},
	             {'l', OPERATION_RELEASE, true},  {'x', OPERATION_EXTEND, true},   {'n', OPERATION_CANCEL, true},
	             {'a', OPERATION_ADJUST, true},   {'p', OPERATION_SKU_PUT, false}, {'v', OPERATION_ORDER_PUT, false}};
	if (!size)
		return 0;
	char letter = (char)data[0];
	json_t *body = NULL;
	const char *why;
	struct text rest = {(const char *)data + 1, size - 1};
	if (letter == 's')
		fuzz_plain_skus(rest);
	/* An absent body is an empty object to a route. */
	if (json_parse(rest, &body, &why) && size > 1)
		return 0;
	if (letter == 's')
		fuzz_skus(body);
	if (letter == 'o')
		fuzz_operations(body);
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		if (letter == kinds[i].letter)
			fuzz_operation(kinds[i].kind, BODY_OF_ROUTE, body);
		else if (kinds[i].in_batch && letter == kinds[i].letter - 'a' + 'A')
			fuzz_operation(kinds[i].kind, BODY_OF_BATCH, body);
	}
	json_decref(body);
	return 0;
}
