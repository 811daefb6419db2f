/* Answers: the objects as the API's page shows them, byte by byte. */
#include "api/render.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <string.h>

#include "base/arena.h"
#include "base/id.h"
#include "base/text.h"

#define ID "0190a5b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b"
#define NOON_US INT64_C(1795953600000000) /* 2026-11-29T12:00:00Z */
#define S INT64_C(1000000)

static struct buffer out;
static const struct principal plain; /* no settings */

static struct json_writer fresh(void)
{
	buffer_clear(&out);
	return json_writer(&out);
}

static void assert_out(const char *expected)
{
	buffer_add_char(&out, 0);
	assert_string_equal(out.data, expected);
}

static struct uuid id(void)
{
	struct uuid id = {0};
	assert_true(uuid_parse(TEXT(ID), &id));
	return id;
}

static void availability_shows_what_is_left(void **state)
{
	struct lookup_item item =
		{.sku = TEXT("A\"1"),
	     .known = true,
	     .figures = {.version = 7, .on_hand = 5, .reserved = 2, .safety_stock = 1, .tracked = true}};
	struct json_writer w = fresh();
	render_availability(&w, &item, &plain);
	assert_out(
		"{\"sku\":\"A\\\"1\",\"status\":\"in_stock\",\"available\":2,\"held\":2,\"tracked\":true,\"version\":7}");
	item.figures.safety_stock = 9;
	w = fresh();
	render_availability(&w, &item, &plain);
	assert_out(
		"{\"sku\":\"A\\\"1\",\"status\":\"out_of_stock\",\"available\":0,\"held\":2,\"tracked\":true,\"version\":7}");
	item.figures.tracked = false;
	item.source = LOOKUP_STALE;
	w = fresh();
	render_availability(&w, &item, &plain);
	assert_out(
		"{\"sku\":\"A\\\"1\",\"status\":\"in_stock\",\"available\":null,\"held\":2,\"tracked\":false,\"version\":7,"
		"\"stale\":true}");
	item.known = false;
	w = fresh();
	render_availability(&w, &item, &plain);
	assert_out("{\"sku\":\"A\\\"1\",\"status\":\"unknown\"}");
}

static void a_tag_tells_every_answer_of_a_sku_apart(void **state)
{
	struct figures rows[] = {
		{.version = 7, .on_hand = 5, .reserved = 2, .tracked = true},
		{.version = 7, .on_hand = 6, .reserved = 2, .tracked = true}, /* a restored database gave 7 out again */
		{.version = 7, .on_hand = 6, .reserved = 3, .tracked = true},
		{.version = 8, .on_hand = 5, .reserved = 2, .tracked = true},
		{.version = 7, .on_hand = 5, .reserved = 2, .tracked = false},
		{.version = 7, .on_hand = 2, .reserved = 2, .tracked = true},
	};
	char tags[6][ETAG_BYTES_MAX + 1];
	for (size_t i = 0; i < 6; i++) {
		tags[i][render_etag(&rows[i], &plain, tags[i])] = 0;
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(tags[i], tags[j]);
	}
	assert_string_equal(tags[0], "\"7.3.2\"");
	assert_string_equal(tags[4], "\"7.u.2\"");
	struct figures largest = {.version = INT64_MAX, .on_hand = INT64_MAX, .reserved = 0, .tracked = true};
	assert_in_range(render_etag(&largest, &plain, tags[0]), 1, ETAG_BYTES_MAX);
}

/* Cells and rows are the same for everybody; what is told of them is not. */
static void each_principal_is_told_what_it_may_sell(void **state)
{
	const struct principal till = {.settings.may_use_safety_stock = true}, bazaar = {.settings.buffer = 2};
	struct lookup_item item =
		{.sku = TEXT("A"),
	     .known = true,
	     .figures = {.version = 7, .on_hand = 5, .reserved = 2, .safety_stock = 1, .tracked = true}};
	struct json_writer w = fresh();
	render_availability(&w, &item, &till);
	assert_out("{\"sku\":\"A\",\"status\":\"in_stock\",\"available\":3,\"held\":2,\"tracked\":true,\"version\":7}");
	w = fresh();
	render_availability(&w, &item, &bazaar);
	assert_out("{\"sku\":\"A\",\"status\":\"out_of_stock\",\"available\":0,\"held\":2,\"tracked\":true,\"version\":7}");
	w = fresh();
	render_sku(&w, TEXT("A"), &item.figures, (struct text){0}, NULL, figures_available(&item.figures, &till));
	assert_out(
		"{\"sku\":\"A\",\"on_hand\":5,\"reserved\":2,\"safety_stock\":1,\"tracked\":true,\"available\":3,"
		"\"version\":7}");
	/* A tag of the one never matches what the other is told. */
	char tags[2][ETAG_BYTES_MAX + 1];
	tags[0][render_etag(&item.figures, &till, tags[0])] = 0;
	tags[1][render_etag(&item.figures, &bazaar, tags[1])] = 0;
	assert_string_equal(tags[0], "\"7.3.2\"");
	assert_string_equal(tags[1], "\"7.0.2\"");
}

static struct checkout checkout_of(struct line *lines, size_t count)
{
	return (struct checkout){.id = id(),
	                         .channel = CHANNEL_POS,
	                         .created_us = NOON_US,
	                         .lines = lines,
	                         .line_count = count};
}

static void a_checkout_says_how_much_of_it_still_stands(void **state)
{
	struct line lines[] = {{.sku = TEXT("A"), .quantity = 3, .counted = true, .version = 9},
	                       {.sku = TEXT("GIFT"), .quantity = 1}};
	struct checkout checkout = checkout_of(lines, 2);
	struct json_writer w = fresh();
	render_checkout(&w, &checkout);
	assert_out("{\"id\":\"" ID
	           "\",\"status\":\"completed\",\"lines\":["
	           "{\"sku\":\"A\",\"quantity\":3,\"cancelled\":0,\"version\":9},"
	           "{\"sku\":\"GIFT\",\"quantity\":1,\"cancelled\":0,\"version\":null}],"
	           "\"reference\":null,\"reservation_id\":null,\"created_at\":\"2026-11-29T12:00:00.000Z\","
	           "\"channel\":\"pos\"}");
	lines[0].cancelled = 3;
	checkout.reference = TEXT("r");
	checkout.reservation_id = id();
	w = fresh();
	render_checkout(&w, &checkout);
	buffer_add_char(&out, 0);
	assert_non_null(strstr(out.data, "\"status\":\"partially_cancelled\""));
	assert_non_null(strstr(out.data, "\"reference\":\"r\",\"reservation_id\":\"" ID "\""));
	lines[1].cancelled = 1;
	w = fresh();
	render_checkout(&w, &checkout);
	buffer_add_char(&out, 0);
	assert_non_null(strstr(out.data, "\"status\":\"cancelled\""));
}

static void a_reservation_counts_down_and_is_expired_when_due(void **state)
{
	struct line lines[] = {{.sku = TEXT("A"), .quantity = 3, .counted = true, .version = 9}};
	struct reservation r = {.id = id(),
	                        .channel = CHANNEL_WEB,
	                        .state = RESERVATION_ACTIVE,
	                        .created_us = NOON_US,
	                        .expires_us = NOON_US + 60 * S,
	                        .lines = lines,
	                        .line_count = 1};
	struct json_writer w = fresh();
	render_reservation(&w, &r, NOON_US);
	assert_out("{\"id\":\"" ID
	           "\",\"status\":\"active\",\"expires_at\":\"2026-11-29T12:01:00.000Z\","
	           "\"expires_in_seconds\":60,\"lines\":[{\"sku\":\"A\",\"quantity\":3,\"version\":9}],"
	           "\"reference\":null,\"checkout_id\":null,\"created_at\":\"2026-11-29T12:00:00.000Z\","
	           "\"channel\":\"web\"}");
	w = fresh();
	render_reservation(&w, &r, NOON_US + S / 2);
	buffer_add_char(&out, 0);
	assert_non_null(strstr(out.data, "\"expires_in_seconds\":59,"));
	w = fresh();
	render_reservation(&w, &r, NOON_US + 60 * S - 1);
	buffer_add_char(&out, 0);
	assert_non_null(strstr(out.data, "\"status\":\"active\""));
	w = fresh();
	render_reservation(&w, &r, NOON_US + 60 * S);
	buffer_add_char(&out, 0);
	assert_non_null(strstr(out.data, "\"status\":\"expired\""));
	assert_non_null(strstr(out.data, "\"expires_in_seconds\":0,"));
	/* A committed one was committed, however late it is asked for. */
	r.state = RESERVATION_COMMITTED;
	r.checkout_id = id();
	w = fresh();
	render_reservation(&w, &r, NOON_US + 90 * S);
	buffer_add_char(&out, 0);
	assert_non_null(strstr(out.data, "\"status\":\"committed\""));
	assert_non_null(strstr(out.data, "\"checkout_id\":\"" ID "\""));
}

static void states_have_one_name_each(void **state)
{
	for (enum reservation_state s = RESERVATION_ACTIVE; s <= RESERVATION_EXPIRED; s++) {
		enum reservation_state found = 0;
		assert_true(reservation_state_parse(text_of(reservation_state_name(s)), &found));
		assert_int_equal(found, s);
	}
	enum reservation_state found;
	assert_false(reservation_state_parse(TEXT("due"), &found));
	assert_false(reservation_state_parse(TEXT(""), &found));
	assert_false(reservation_state_parse(TEXT("activ"), &found));
}

static void a_sku_shows_its_row(void **state)
{
	struct figures figures = {.version = 4, .on_hand = 10, .reserved = 1, .safety_stock = 2, .tracked = true};
	struct text names[] = {TEXT("cup"), TEXT("mug")};
	struct json_writer w = fresh();
	render_sku(&w, TEXT("A"), &figures, TEXT("{\"en\":\"Cup\"}"), &(struct sku_names){names, 2}, 7);
	assert_out(
		"{\"sku\":\"A\",\"titles\":{\"en\":\"Cup\"},\"names\":[\"cup\",\"mug\"],\"on_hand\":10,\"reserved\":1,"
		"\"safety_stock\":2,\"tracked\":true,\"available\":7,\"version\":4}");
	w = fresh();
	figures.tracked = false;
	render_sku(&w, TEXT("A"), &figures, (struct text){0}, NULL, 7);
	assert_out(
		"{\"sku\":\"A\",\"on_hand\":10,\"reserved\":1,\"safety_stock\":2,\"tracked\":false,\"available\":null,"
		"\"version\":4}");
}

static void a_ledger_entry_has_the_columns_of_the_table(void **state)
{
	struct ledger_row row =
		{.entry = {.version = 3, .kind = LEDGER_SALE, .on_hand_delta = -2, .on_hand_after = 8, .channel = CHANNEL_WEB},
	     .at_us = NOON_US};
	struct json_writer w = fresh();
	render_ledger_row(&w, &row);
	assert_out(
		"{\"version\":3,\"kind\":\"sale\",\"on_hand_delta\":-2,\"reserved_delta\":0,\"on_hand_after\":8,"
		"\"reserved_after\":0,\"channel\":\"web\",\"principal\":null,\"reference\":null,\"operation_id\":null,"
		"\"at\":\"2026-11-29T12:00:00.000Z\"}");
}

static void an_order_shows_what_it_has_now(void **state)
{
	struct order_line lines[] = {{TEXT("A"), 1, 3, 2}, {TEXT("B"), 2, 1, 1}};
	struct order order = {.id = id(),
	                      .number = TEXT("N-1"),
	                      .version = 7,
	                      .channel = CHANNEL_MARKETPLACE,
	                      .created_us = NOON_US,
	                      .changed_us = NOON_US + S,
	                      .lines = lines,
	                      .line_count = 2};
	struct json_writer w = fresh();
	render_order(&w, &order);
	assert_out(
		"{\"number\":\"N-1\",\"version\":7,\"status\":\"completed\",\"lines\":[{\"sku\":\"A\",\"quantity\":3},"
		"{\"sku\":\"B\",\"quantity\":1}],\"id\":\"" ID
		"\",\"created_at\":\"2026-11-29T12:00:00.000Z\",\"changed_at\":\"2026-11-29T12:00:01.000Z\","
		"\"channel\":\"marketplace\"}");
	order.line_count = 0;
	w = fresh();
	render_order(&w, &order);
	buffer_add_char(&out, 0);
	assert_non_null(strstr(out.data, "\"status\":\"cancelled\",\"lines\":[],"));
}

static void an_adjustment_shows_each_row_after_it(void **state)
{
	struct sku_figures rows[] = {{TEXT("A"), {.version = 2, .on_hand = 9, .reserved = 3, .tracked = true}, 6},
	                             {TEXT("B"), {.version = 3, .on_hand = 1}, 1}}; /* not counted: always there */
	struct operation operation = {.kind = OPERATION_ADJUST,
	                              .verdict = {.object_id = id(), .figures = rows, .figures_count = 2}};
	struct json_writer w = fresh();
	render_verdict(&w, &operation);
	assert_out("{\"id\":\"" ID
	           "\",\"lines\":[{\"sku\":\"A\",\"on_hand\":9,\"reserved\":3,\"available\":6,\"version\":2},"
	           "{\"sku\":\"B\",\"on_hand\":1,\"reserved\":0,\"available\":null,\"version\":3}]}");
	assert_int_equal(verdict_status(&operation), 201);
}

static void a_status_follows_the_deed_and_the_refusal(void **state)
{
	struct operation operation = {.kind = OPERATION_SKU_PUT};
	assert_int_equal(verdict_status(&operation), 200);
	operation.verdict.created = true;
	assert_int_equal(verdict_status(&operation), 201);
	operation = (struct operation){.kind = OPERATION_COMMIT};
	assert_int_equal(verdict_status(&operation), 200);
	operation.kind = OPERATION_RESERVE;
	assert_int_equal(verdict_status(&operation), 201);
	operation.verdict.error = LU_RESERVATION_EXPIRED;
	assert_int_equal(verdict_status(&operation), 410);
}

static void what_is_advised_can_help(void **state)
{
	static const struct {
		int64_t requested, available, held;
		enum operation_kind kind;
		const char *advice;
	} cases[] = {
		{1, 0, 0, OPERATION_CHECKOUT, "Nothing is left and nothing is held: only new stock helps."},
		{1, 0, 1, OPERATION_CHECKOUT, "Nothing is left: try again under a new key after `next_release_at`."},
		{3, 0, 1, OPERATION_CHECKOUT, "Nothing is left: ask for less, under a new key after `next_release_at`."},
		{3, 1, 2, OPERATION_RESERVE, "Ask for less, or try again under a new key after `next_release_at`."},
		{3, 1, 1, OPERATION_RESERVE, "Ask for less: for so many only new stock helps."},
		{3, 1, 2, OPERATION_ORDER_PUT, "Nothing was changed: send a higher version with fewer lines."},
		{1, 0, 0, OPERATION_ORDER_PUT, "Nothing was changed: send a higher version with fewer lines."},
		{3, 1, 1, OPERATION_ADJUST, "Take away at most what may be."},
		{3, 1, 2, OPERATION_ADJUST,
	     "Take away at most what may be, or try again under a new key after `next_release_at`."},
		{1, 0, 2, OPERATION_ADJUST, "All of it is held: try again under a new key after `next_release_at`."},
		{3, 0, 2, OPERATION_ADJUST, "All of it is held: take away less, under a new key after `next_release_at`."},
		{1, 0, 0, OPERATION_ADJUST, "Nothing is there to take away."},
	};
	struct arena arena;
	arena_init(&arena, 4096);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct shortage shortage = {.sku = TEXT("A"),
		                            .requested = cases[i].requested,
		                            .available = cases[i].available,
		                            .held = cases[i].held,
		                            .next_release_us = cases[i].held ? NOON_US : 0};
		struct verdict verdict = {.error = LU_INSUFFICIENT_STOCK, .shortages = &shortage, .shortage_count = 1};
		struct text detail = verdict_detail(&arena, cases[i].kind, &verdict);
		const char *advice = strstr(detail.data, ". ");
		assert_non_null(advice);
		assert_string_equal(advice + 2, cases[i].advice);
	}
	/* One line that nobody's hold can fill: waiting helps the whole no more. */
	struct shortage shortages[] = {{.sku = TEXT("A"), .requested = 1, .held = 1, .next_release_us = NOON_US},
	                               {.sku = TEXT("B"), .requested = 1}};
	struct verdict verdict = {.error = LU_INSUFFICIENT_STOCK, .shortages = shortages, .shortage_count = 2};
	assert_non_null(strstr(verdict_detail(&arena, OPERATION_CHECKOUT, &verdict).data, "left: ask for less"));
	arena_done(&arena);
}

static void a_refusal_says_with_numbers_how_to_mend_it(void **state)
{
	struct arena arena;
	arena_init(&arena, 4096);
	struct shortage shortages[] = {
		{.sku = TEXT("A"), .requested = 3, .available = 1, .held = 2, .next_release_us = NOON_US + 62 * S},
		{.sku = TEXT("B"), .requested = 5, .available = 0},
	};
	struct verdict verdict = {.error = LU_INSUFFICIENT_STOCK, .shortages = shortages, .shortage_count = 2};
	struct text detail = verdict_detail(&arena, OPERATION_CHECKOUT, &verdict);
	const char *told = "A: 3 requested, 1 available, 2 held until 12:01:02Z; B: 5 requested, 0 available. Ask";
	assert_memory_equal(detail.data, told, strlen(told));
	struct json_writer w = fresh();
	json_object_open(&w);
	render_shortages(&w, &verdict);
	json_object_close(&w);
	assert_out(
		"{\"lines\":[{\"sku\":\"A\",\"requested\":3,\"available\":1,\"held\":2,"
		"\"next_release_at\":\"2026-11-29T12:01:02.000Z\"},"
		"{\"sku\":\"B\",\"requested\":5,\"available\":0,\"held\":0,\"next_release_at\":null}]}");
	verdict = (struct verdict){.error = LU_CHANGE_FROM_MISMATCH, .shortages = shortages, .shortage_count = 1};
	detail = verdict_detail(&arena, OPERATION_CHECKOUT, &verdict);
	told = "A: change_from is 3, on_hand is 1. ";
	assert_memory_equal(detail.data, told, strlen(told));
	/* The decision's own sentence wins. */
	verdict.detail = TEXT("So it is.");
	assert_true(text_equal(verdict_detail(&arena, OPERATION_CHECKOUT, &verdict), TEXT("So it is.")));
	/* A thousand failing lines do not make a sentence of a thousand. */
	struct shortage many[40] = {0};
	for (size_t i = 0; i < 40; i++)
		many[i].sku = TEXT("X");
	verdict = (struct verdict){.error = LU_UNKNOWN_SKU, .shortages = many, .shortage_count = 40};
	detail = verdict_detail(&arena, OPERATION_CHECKOUT, &verdict);
	assert_non_null(strstr(detail.data, "X: not known; and 35 more. "));
	arena_done(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(availability_shows_what_is_left),
		cmocka_unit_test(a_tag_tells_every_answer_of_a_sku_apart),
		cmocka_unit_test(each_principal_is_told_what_it_may_sell),
		cmocka_unit_test(a_checkout_says_how_much_of_it_still_stands),
		cmocka_unit_test(a_reservation_counts_down_and_is_expired_when_due),
		cmocka_unit_test(states_have_one_name_each),
		cmocka_unit_test(a_sku_shows_its_row),
		cmocka_unit_test(a_ledger_entry_has_the_columns_of_the_table),
		cmocka_unit_test(an_order_shows_what_it_has_now),
		cmocka_unit_test(an_adjustment_shows_each_row_after_it),
		cmocka_unit_test(a_status_follows_the_deed_and_the_refusal),
		cmocka_unit_test(a_refusal_says_with_numbers_how_to_mend_it),
		cmocka_unit_test(what_is_advised_can_help),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	buffer_done(&out);
	return failed;
}
