/* Bodies: what is decoded, and what is refused under which name. */
#include "api/body.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <stdio.h>
#include <string.h>

#include "base/id.h"
#include "base/json.h"
#include "base/text.h"

#define ID "0190a5b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b"

struct decoded {
	struct arena arena;
	json_t *json;
	struct operation operation;
	struct fault fault;
	bool ok;
};

static struct decoded decode(enum operation_kind kind, const char *json)
{
	struct decoded decoded = {.operation = {.kind = kind}};
	const char *why = NULL;
	if (json && json_parse(text_of(json), &decoded.json, &why))
		fail_msg("%s: %s", json, why);
	return decoded;
}

/* In two steps, because the operation points to the arena. */
static void run(struct decoded *d, enum body_form form)
{
	arena_init(&d->arena, 4096);
	d->operation.arena = &d->arena;
	d->ok = body_decode(d->json, form, &d->operation, &d->fault);
}

static void done(struct decoded *d)
{
	json_decref(d->json);
	arena_done(&d->arena);
}

static void assert_text(struct text text, const char *expected)
{
	assert_int_equal(text.size, strlen(expected));
	assert_memory_equal(text.data, expected, text.size);
}

/* The body is refused with this error, and the sentence names `member`. */
static void refused(enum operation_kind kind, const char *json, enum lu_error error, const char *member)
{
	struct decoded d = decode(kind, json);
	run(&d, BODY_OF_ROUTE);
	if (d.ok)
		fail_msg("accepted: %s", json);
	if (d.fault.error != error)
		fail_msg("%s: %s instead of %s (%s)", json, lu_error_code(d.fault.error), lu_error_code(error),
		         d.fault.detail.data);
	if (!strstr(d.fault.detail.data, member))
		fail_msg("%s: \"%s\" does not name %s", json, d.fault.detail.data, member);
	done(&d);
}

static void accepted(enum operation_kind kind, const char *json)
{
	struct decoded d = decode(kind, json);
	run(&d, BODY_OF_ROUTE);
	if (!d.ok)
		fail_msg("%s: %s", json, d.fault.detail.data);
	done(&d);
}

static void a_cart_is_read_whole(void **state)
{
	struct decoded d = decode(OPERATION_RESERVE,
	                          "{\"lines\":[{\"sku\":\"A\",\"quantity\":3},{\"quantity\":1000000000,\"sku\":\"B C\"}],"
	                          "\"ttl_seconds\":86400,\"reference\":\"order 1\",\"caller\":\"chat 7\",\"replaces\":\"" ID
	                          "\","
	                          "\"idempotency_key\":\"k\"}");
	run(&d, BODY_OF_ROUTE);
	assert_true(d.ok);
	assert_int_equal(d.operation.line_count, 2);
	assert_text(d.operation.lines[0].sku, "A");
	assert_int_equal(d.operation.lines[0].quantity, 3);
	assert_text(d.operation.lines[1].sku, "B C");
	assert_int_equal(d.operation.lines[1].quantity, LU_QUANTITY_MAX);
	assert_int_equal(d.operation.ttl_s, 86400);
	assert_text(d.operation.reference, "order 1");
	assert_text(d.operation.caller, "chat 7");
	assert_text(d.operation.key, "k");
	assert_true(d.operation.client_key);
	struct uuid id;
	assert_true(uuid_parse(TEXT(ID), &id));
	assert_true(uuid_equal(&id, &d.operation.other));
	done(&d);
}

static void null_means_absent_where_a_value_is_optional(void **state)
{
	struct decoded d = decode(OPERATION_RESERVE,
	                          "{\"lines\":[{\"sku\":\"A\",\"quantity\":1}],\"ttl_seconds\":null,\"reference\":null,"
	                          "\"replaces\":null,\"idempotency_key\":null}");
	run(&d, BODY_OF_ROUTE);
	assert_true(d.ok);
	assert_int_equal(d.operation.ttl_s, 0);
	assert_null(d.operation.reference.data);
	assert_true(uuid_is_nil(&d.operation.other));
	assert_false(d.operation.client_key);
	done(&d);
	refused(OPERATION_CHECKOUT, "{\"lines\":null}", LU_INVALID_LINES, "`lines`");
	refused(OPERATION_CHECKOUT, "{\"lines\":[{\"sku\":null,\"quantity\":1}]}", LU_INVALID_SKU, "`lines[0].sku`");
	refused(OPERATION_CHECKOUT, "{\"lines\":[{\"sku\":\"A\",\"quantity\":null}]}", LU_INVALID_QUANTITY,
	        "`lines[0].quantity`");
}

/* B57, B58, B59, B60 */
static void a_quantity_is_an_integer_within_bounds_and_nothing_else(void **state)
{
	const char *const wrong[] = {"0",
	                             "-0",
	                             "-5",
	                             "1.0",
	                             "1e0",
	                             "0.5",
	                             "1.5",
	                             "\"1\"",
	                             "true",
	                             "null",
	                             "[]",
	                             "{}",
	                             "1000000001",
	                             "2147483647000",
	                             "9007199254740993",
	                             "9223372036854775807",
	                             "-9223372036854775808",
	                             "1e308"};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		char json[200];
		snprintf(json, sizeof json, "{\"lines\":[{\"sku\":\"B\",\"quantity\":1},{\"sku\":\"A\",\"quantity\":%s}]}",
		         wrong[i]);
		refused(OPERATION_CHECKOUT, json, LU_INVALID_QUANTITY, "`lines[1].quantity`");
	}
}

static void a_typo_is_refused_by_its_name(void **state)
{
	refused(OPERATION_CHECKOUT, "{\"line\":[]}", LU_INVALID_FIELD, "`line`");
	refused(OPERATION_CHECKOUT, "{\"Lines\":[]}", LU_INVALID_FIELD, "`Lines`");
	refused(OPERATION_CHECKOUT, "{\"lines\":[{\"sku\":\"A\",\"qty\":1}]}", LU_INVALID_FIELD,
	        "`lines[0].qty` is not a field of a line; it has sku and quantity.");
	refused(OPERATION_RESERVE, "{\"lines\":[{\"sku\":\"A\",\"quantity\":1}],\"ttl\":5}", LU_INVALID_FIELD,
	        "ttl_seconds");
	refused(OPERATION_COMMIT, "{\"lines\":[]}", LU_INVALID_FIELD, "`lines`");
	refused(OPERATION_SKU_PUT, "{\"safety\":1}", LU_INVALID_FIELD, "safety_stock");
	/* What belongs to another operation, or into the path. */
	refused(OPERATION_CHECKOUT, "{\"ttl_seconds\":5}", LU_INVALID_FIELD, "`ttl_seconds`");
	refused(OPERATION_CHECKOUT, "{\"replaces\":null}", LU_INVALID_FIELD, "`replaces`");
	refused(OPERATION_COMMIT, "{\"reservation_id\":\"" ID "\"}", LU_INVALID_FIELD, "`reservation_id`");
	/* A long name is told in part, and never in half a character. */
	refused(OPERATION_CHECKOUT, "{\"aääääääääääääääääääääääääääääääääääääääää\":1}", LU_INVALID_FIELD,
	        "`aäääääääääääääääääääääääääääääää`");
}

static void lines_are_one_to_a_thousand(void **state)
{
	refused(OPERATION_CHECKOUT, "{}", LU_INVALID_LINES, "`lines`");
	refused(OPERATION_CHECKOUT, "{\"lines\":[]}", LU_INVALID_LINES, "`lines`");
	refused(OPERATION_CHECKOUT, "{\"lines\":{}}", LU_INVALID_LINES, "`lines`");
	refused(OPERATION_CHECKOUT, "{\"lines\":[1]}", LU_INVALID_LINES, "`lines[0]`");
	struct buffer json = {0};
	for (int count = LU_LINES_MAX; count <= LU_LINES_MAX + 1; count++) {
		buffer_clear(&json);
		buffer_add_string(&json, "{\"lines\":[");
		for (int i = 0; i < count; i++)
			buffer_add_format(&json, "%s{\"sku\":\"S%d\",\"quantity\":1}", i ? "," : "", i);
		buffer_add_string(&json, "]}");
		buffer_add_char(&json, 0);
		if (count <= LU_LINES_MAX)
			accepted(OPERATION_CHECKOUT, json.data);
		else
			refused(OPERATION_CHECKOUT, json.data, LU_INVALID_LINES, "1000");
	}
	buffer_done(&json);
}

static void sku_codes_obey_the_one_rule(void **state)
{
	const char *const wrong[] = {"\"\"", "\"A \"", "\" A\"", "\"A\\t\"", "\"A\\u200b\"", "\"Cafe\\u0301\"", "1", "[]"};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		char json[120];
		snprintf(json, sizeof json, "{\"lines\":[{\"sku\":%s,\"quantity\":1}]}", wrong[i]);
		refused(OPERATION_CHECKOUT, json, LU_INVALID_SKU, "`lines[0].sku`");
	}
	accepted(OPERATION_CHECKOUT, "{\"lines\":[{\"sku\":\"100%s%n\",\"quantity\":1}]}");
	accepted(OPERATION_CHECKOUT, "{\"lines\":[{\"sku\":\"Caf\\u00e9 🍋\",\"quantity\":1}]}");
}

static void a_time_to_live_is_a_second_to_a_day(void **state)
{
	const char *const wrong[] = {"0", "-1", "86401", "1000000000", "\"60\"", "1e9", "60.0", "true"};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		char json[60];
		snprintf(json, sizeof json, "{\"ttl_seconds\":%s}", wrong[i]);
		refused(OPERATION_EXTEND, json, LU_INVALID_TTL, "`ttl_seconds`");
	}
	accepted(OPERATION_EXTEND, "{\"ttl_seconds\":1}");
	accepted(OPERATION_EXTEND, "{}");
	accepted(OPERATION_EXTEND, NULL);
}

static void an_adjustment_says_delta_or_set_with_what_it_believes(void **state)
{
	struct decoded d =
		decode(OPERATION_ADJUST,
	           "{\"reason\":\"count\",\"lines\":[{\"sku\":\"A\",\"delta\":-4},"
	           "{\"sku\":\"B\",\"set\":0,\"change_from\":7},{\"sku\":\"C\",\"set\":5,\"change_from\":null}]}");
	run(&d, BODY_OF_ROUTE);
	assert_true(d.ok);
	struct line *lines = d.operation.lines;
	assert_false(lines[0].set);
	assert_int_equal(lines[0].quantity, -4);
	assert_true(lines[1].set);
	assert_int_equal(lines[1].quantity, 0);
	assert_true(lines[1].change_from_given);
	assert_int_equal(lines[1].change_from, 7);
	assert_true(lines[2].set);
	assert_false(lines[2].change_from_given);
	assert_text(d.operation.reason, "count");
	done(&d);
#define ADJUST(line) "{\"reason\":\"r\",\"lines\":[{\"sku\":\"A\"" line "}]}"
	refused(OPERATION_ADJUST, ADJUST(""), LU_INVALID_LINES, "`lines[0]`");
	refused(OPERATION_ADJUST, ADJUST(",\"delta\":1,\"set\":1,\"change_from\":1"), LU_INVALID_LINES, "`lines[0]`");
	refused(OPERATION_ADJUST, ADJUST(",\"delta\":0"), LU_INVALID_QUANTITY, "`lines[0].delta`");
	refused(OPERATION_ADJUST, ADJUST(",\"delta\":1.0"), LU_INVALID_QUANTITY, "`lines[0].delta`");
	refused(OPERATION_ADJUST, ADJUST(",\"delta\":1000000000000001"), LU_INVALID_QUANTITY, "`lines[0].delta`");
	refused(OPERATION_ADJUST, ADJUST(",\"delta\":1,\"change_from\":1"), LU_INVALID_FIELD, "`lines[0].change_from`");
	refused(OPERATION_ADJUST, ADJUST(",\"set\":1"), LU_INVALID_FIELD, "`lines[0].change_from`");
	refused(OPERATION_ADJUST, ADJUST(",\"set\":-1,\"change_from\":1"), LU_INVALID_QUANTITY, "`lines[0].set`");
	refused(OPERATION_ADJUST, ADJUST(",\"set\":1,\"change_from\":-1"), LU_INVALID_QUANTITY, "`lines[0].change_from`");
	refused(OPERATION_ADJUST, ADJUST(",\"quantity\":1"), LU_INVALID_FIELD, "`lines[0].quantity`");
	refused(OPERATION_ADJUST, "{\"lines\":[{\"sku\":\"A\",\"delta\":1}]}", LU_INVALID_FIELD, "`reason`");
	refused(OPERATION_ADJUST, "{\"reason\":\"\",\"lines\":[{\"sku\":\"A\",\"delta\":1}]}", LU_INVALID_FIELD,
	        "`reason`");
}

static void a_sku_is_put_with_what_is_given(void **state)
{
	struct decoded d =
		decode(OPERATION_SKU_PUT,
	           "{\"on_hand\":5,\"tracked\":false,\"titles\":{\"pt-BR\":\"copo\",\"en\":\"a \\\"cup\\\"\"},"
	           "\"names\":[\"cup\",\"mug\"]}");
	run(&d, BODY_OF_ROUTE);
	assert_true(d.ok);
	const struct sku_change *change = d.operation.sku_change;
	assert_true(change->on_hand_given && change->tracked_given && change->titles_given && change->names_given);
	assert_false(change->safety_stock_given);
	assert_int_equal(change->on_hand, 5);
	assert_false(change->tracked);
	/* In one order, whatever the client's was. */
	assert_text(change->titles_json, "{\"en\":\"a \\\"cup\\\"\",\"pt-BR\":\"copo\"}");
	assert_int_equal(change->name_count, 2);
	assert_text(change->names[1], "mug");
	done(&d);
	struct decoded none = decode(OPERATION_SKU_PUT, NULL);
	run(&none, BODY_OF_ROUTE);
	assert_true(none.ok);
	assert_non_null(none.operation.sku_change);
	assert_false(none.operation.sku_change->on_hand_given);
	done(&none);
	refused(OPERATION_SKU_PUT, "{\"on_hand\":-1}", LU_INVALID_QUANTITY, "`on_hand`");
	refused(OPERATION_SKU_PUT, "{\"on_hand\":1000000000000001}", LU_INVALID_QUANTITY, "`on_hand`");
	refused(OPERATION_SKU_PUT, "{\"safety_stock\":1.5}", LU_INVALID_QUANTITY, "`safety_stock`");
	refused(OPERATION_SKU_PUT, "{\"tracked\":1}", LU_INVALID_FIELD, "`tracked`");
	refused(OPERATION_SKU_PUT, "{\"titles\":[]}", LU_INVALID_FIELD, "`titles`");
	refused(OPERATION_SKU_PUT, "{\"titles\":{\"e n\":\"x\"}}", LU_INVALID_FIELD, "`titles.e n`");
	refused(OPERATION_SKU_PUT, "{\"titles\":{\"english\":\"x\"}}", LU_INVALID_FIELD, "`titles.english`");
	refused(OPERATION_SKU_PUT, "{\"titles\":{\"en\":1}}", LU_INVALID_FIELD, "`titles.en`");
	refused(OPERATION_SKU_PUT, "{\"names\":[\"a\",\"\"]}", LU_INVALID_FIELD, "`names[1]`");
	refused(OPERATION_SKU_PUT, "{\"names\":\"a\"}", LU_INVALID_FIELD, "`names`");
	struct buffer json = {0};
	buffer_add_string(&json, "{\"names\":[\"0\"");
	for (int i = 1; i <= NAMES_MAX; i++)
		buffer_add_format(&json, ",\"%d\"", i);
	buffer_add_string(&json, "]}");
	buffer_add_char(&json, 0);
	refused(OPERATION_SKU_PUT, json.data, LU_INVALID_FIELD, "at most 100 strings");
	buffer_done(&json);
}

static void a_body_is_an_object(void **state)
{
	refused(OPERATION_CHECKOUT, "[]", LU_MALFORMED_REQUEST, "object");
	refused(OPERATION_COMMIT, "1", LU_MALFORMED_REQUEST, "object");
	refused(OPERATION_COMMIT, "null", LU_MALFORMED_REQUEST, "object");
}

static void free_text_is_bounded_and_without_control_characters(void **state)
{
	struct buffer json = {0};
	buffer_add_string(&json, "{\"idempotency_key\":\"");
	for (int i = 0; i < LU_KEY_BYTES_MAX; i++)
		buffer_add_char(&json, 'k');
	buffer_add_string(&json, "\"}");
	buffer_add_char(&json, 0);
	accepted(OPERATION_COMMIT, json.data);
	json.size -= strlen("\"}") + 1;
	buffer_add_string(&json, "k\"}");
	buffer_add_char(&json, 0);
	refused(OPERATION_COMMIT, json.data, LU_INVALID_IDEMPOTENCY_KEY, "`idempotency_key`");
	buffer_done(&json);
	refused(OPERATION_COMMIT, "{\"idempotency_key\":\"\"}", LU_INVALID_IDEMPOTENCY_KEY, "`idempotency_key`");
	refused(OPERATION_COMMIT, "{\"idempotency_key\":7}", LU_INVALID_IDEMPOTENCY_KEY, "`idempotency_key`");
	/* It says what it lets through, too: a reference of two lines is one. */
	refused(
		OPERATION_CHECKOUT, "{\"reference\":\"a\\u0001\"}", LU_INVALID_FIELD,
		"`reference` must be a string of 0 to 255 bytes without noncharacters, without control characters but tab and line ends.");
	refused(OPERATION_RESERVE, "{\"caller\":\"\"}", LU_INVALID_FIELD, "`caller`");
	refused(OPERATION_CHECKOUT, "{\"caller\":\"chat 7\"}", LU_INVALID_FIELD, "`caller`");
	refused(OPERATION_CHECKOUT, "{\"releases\":\"x\"}", LU_INVALID_FIELD, "`releases`");
}

static void a_batch_entry_says_what_it_is_and_on_what(void **state)
{
	struct decoded d = decode(OPERATION_COMMIT,
	                          "{\"operation\":\"commit\",\"reservation_id\":\"" ID "\",\"idempotency_key\":\"k\"}");
	run(&d, BODY_OF_BATCH);
	assert_true(d.ok);
	assert_false(uuid_is_nil(&d.operation.target));
	enum operation_kind kind;
	assert_true(body_operation_kind(d.json, &d.arena, &kind, &d.fault));
	assert_int_equal(kind, OPERATION_COMMIT);
	done(&d);
	struct decoded without = decode(OPERATION_CANCEL, "{\"operation\":\"cancel\"}");
	run(&without, BODY_OF_BATCH);
	assert_false(without.ok);
	assert_non_null(strstr(without.fault.detail.data, "`checkout_id`"));
	json_t *odd = json_pack("{s:s}", "operation", "expire"); /* ours alone */
	assert_false(body_operation_kind(odd, &without.arena, &kind, &without.fault));
	assert_int_equal(without.fault.error, LU_INVALID_FIELD);
	json_decref(odd);
	done(&without);
}

static void a_list_of_codes_is_read_in_order(void **state)
{
	struct decoded d = decode(OPERATION_COMMIT, "{\"skus\":[\"B\",\"A\",\"B\"]}");
	arena_init(&d.arena, 4096);
	struct text *skus;
	size_t count;
	assert_true(body_skus(d.json, &d.arena, &skus, &count, &d.fault));
	assert_int_equal(count, 3);
	assert_text(skus[0], "B");
	assert_text(skus[1], "A");
	assert_text(skus[2], "B");
	done(&d);
	static const struct {
		const char *body;
		enum lu_error error;
	} wrong[] = {
		{"{}", LU_INVALID_FIELD},
		{"{\"skus\":[]}", LU_INVALID_FIELD},
		{"{\"skus\":\"A\"}", LU_INVALID_FIELD},
		{"{\"skus\":[\"A \"]}", LU_INVALID_SKU},
		{"{\"skus\":[1]}", LU_INVALID_SKU},
		{"{\"sku\":[\"A\"]}", LU_INVALID_FIELD},
		{"[]", LU_MALFORMED_REQUEST},
		{"{\"skus\":[\"A\"],\"x\":1}", LU_INVALID_FIELD},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct decoded bad = decode(OPERATION_COMMIT, wrong[i].body);
		arena_init(&bad.arena, 4096);
		if (body_skus(bad.json, &bad.arena, &skus, &count, &bad.fault))
			fail_msg("accepted: %s", wrong[i].body);
		assert_int_equal(bad.fault.error, wrong[i].error);
		assert_true(bad.fault.detail.size > 0);
		done(&bad);
	}
}

static void a_key_in_the_header_is_bare_or_quoted(void **state)
{
	static const struct {
		const char *header, *key; /* NULL: refused */
	} rows[] = {
		{"abc-1", "abc-1"},     {"\"abc-1\"", "abc-1"}, {"\"a\\\"b\\\\c\"", "a\"b\\c"},
		{"a\"b", "a\"b"},       {"käse", "käse"},       {"", NULL},
		{"\"\"", NULL},         {"\"abc", NULL},        {"\"a\"b", NULL},
		{"\"a\\x\"", NULL},     {"\"a\\", NULL},        {"\"a\";p=1", NULL},
		{"\"", NULL},           {"a\x01", NULL},        {"\xff", NULL},
		{"\"a\", \"b\"", NULL},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct arena arena;
		struct fault fault;
		struct text key;
		arena_init(&arena, 512);
		bool ok = body_key_header(text_of(rows[i].header), &arena, &key, &fault);
		if (ok != (rows[i].key != NULL))
			fail_msg("%s: %s", rows[i].header, ok ? "accepted" : "refused");
		if (ok)
			assert_text(key, rows[i].key);
		else
			assert_int_equal(fault.error, LU_INVALID_IDEMPOTENCY_KEY);
		arena_done(&arena);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cart_is_read_whole),
		cmocka_unit_test(null_means_absent_where_a_value_is_optional),
		cmocka_unit_test(a_quantity_is_an_integer_within_bounds_and_nothing_else),
		cmocka_unit_test(a_typo_is_refused_by_its_name),
		cmocka_unit_test(lines_are_one_to_a_thousand),
		cmocka_unit_test(sku_codes_obey_the_one_rule),
		cmocka_unit_test(a_time_to_live_is_a_second_to_a_day),
		cmocka_unit_test(an_adjustment_says_delta_or_set_with_what_it_believes),
		cmocka_unit_test(a_sku_is_put_with_what_is_given),
		cmocka_unit_test(a_body_is_an_object),
		cmocka_unit_test(free_text_is_bounded_and_without_control_characters),
		cmocka_unit_test(a_batch_entry_says_what_it_is_and_on_what),
		cmocka_unit_test(a_list_of_codes_is_read_in_order),
		cmocka_unit_test(a_key_in_the_header_is_bare_or_quoted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
