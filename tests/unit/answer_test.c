/* The stored answer of a key: what goes into the row comes back as the old answer said it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/id.h"
#include "base/text.h"
#include "inventory/answer.h"

static struct arena arena;

static int make_arena(void **state)
{
	(void)state;
	arena_init(&arena, 4096);
	return 0;
}

static int free_arena(void **state)
{
	(void)state;
	arena_done(&arena);
	return 0;
}

static struct operation *answered(enum operation_kind kind, enum lu_error error)
{
	struct operation *op = ARENA_NEW(&arena, struct operation);
	op->kind = kind;
	op->principal.id = 7;
	op->key = TEXT("key");
	memset(op->fingerprint, 0xab, sizeof op->fingerprint);
	op->verdict = (struct verdict){.error = error, .object_id = uuid_new(), .at_us = 123456789};
	return op;
}

/* Encodes, then decodes from a row whose memory is somebody else's. */
static struct verdict there_and_back(struct operation *op, const struct reservation *reservation,
                                     const struct checkout *checkout, struct idempotency_row *ret_row)
{
	struct arena other;
	arena_init(&other, 4096);
	struct idempotency_row row;
	answer_encode(&arena, op, &row);
	*ret_row = row;
	row.status = arena_text(&other, row.status);
	if (row.detail.data)
		row.detail = arena_text(&other, row.detail);
	struct verdict verdict;
	assert_int_equal(answer_decode(&arena, &row, reservation, checkout, &verdict), LU_OK);
	arena_done(&other);
	assert_true(verdict.replayed);
	assert_int_equal(verdict.error, op->verdict.error);
	assert_int_equal(verdict.at_us, op->verdict.at_us);
	assert_memory_equal(&verdict.object_id, &op->verdict.object_id, sizeof verdict.object_id);
	return verdict;
}

static struct line *two_lines(int64_t cancelled)
{
	struct line *lines = ARENA_ARRAY(&arena, 2, struct line);
	lines[0] = (struct line){.sku = TEXT("A"),
	                         .quantity = 3,
	                         .sku_id = 1,
	                         .counted = true,
	                         .version = 9,
	                         .cancelled = cancelled};
	lines[1] = (struct line){.sku = TEXT("B"), .quantity = 1, .sku_id = 2};
	return lines;
}

static struct checkout *checkout_of(const struct operation *op, int64_t cancelled)
{
	struct checkout *checkout = ARENA_NEW(&arena, struct checkout);
	*checkout = (struct checkout){.id = op->verdict.object_id,
	                              .reference = TEXT("ref"),
	                              .lines = two_lines(cancelled),
	                              .line_count = 2};
	return checkout;
}

static struct reservation *reservation_of(const struct operation *op, enum reservation_state state, int64_t expires_us)
{
	struct reservation *reservation = ARENA_NEW(&arena, struct reservation);
	*reservation = (struct reservation){.id = op->verdict.object_id,
	                                    .state = state,
	                                    .expires_us = expires_us,
	                                    .ended_us = state == RESERVATION_ACTIVE ? 0 : 77,
	                                    .lines = two_lines(0),
	                                    .line_count = 2};
	if (state == RESERVATION_COMMITTED)
		reservation->checkout_id = uuid_new();
	return reservation;
}

static void a_plain_sale_needs_no_detail(void **state)
{
	(void)state;
	struct operation *op = answered(OPERATION_CHECKOUT, LU_OK);
	struct idempotency_row row;
	struct uuid id;
	op->verdict.checkout = checkout_of(op, 0);
	struct verdict v = there_and_back(op, NULL, checkout_of(op, 2), &row); /* two cancelled since */
	assert_null(row.detail.data);
	assert_int_equal(row.principal_id, 7);
	assert_true(text_equal(row.key, TEXT("key")));
	assert_int_equal(row.kind, OPERATION_CHECKOUT);
	assert_true(text_equal(row.status, TEXT("ok")));
	assert_memory_equal(row.fingerprint, op->fingerprint, sizeof row.fingerprint);
	assert_true(answer_needs_checkout(&row, &id) && uuid_equal(&id, &op->verdict.object_id));
	assert_false(answer_needs_reservation(&row, &id));
	assert_int_equal(v.checkout->lines[0].cancelled, 0);
	assert_int_equal(v.checkout->lines[0].version, 9);
	assert_true(text_equal(v.checkout->reference, TEXT("ref")));
}

static void cancelled_units_are_those_of_then(void **state)
{
	(void)state;
	struct operation *op = answered(OPERATION_CANCEL, LU_OK);
	struct idempotency_row row;
	op->verdict.checkout = checkout_of(op, 2);
	struct verdict v = there_and_back(op, NULL, checkout_of(op, 3), &row);
	assert_true(text_equal(row.detail, TEXT("{\"cancelled\":[2,0]}")));
	assert_int_equal(v.checkout->lines[0].cancelled, 2);
	assert_int_equal(v.checkout->lines[1].cancelled, 0);
}

static void a_hold_is_shown_alive_as_it_was(void **state)
{
	(void)state;
	struct operation *op = answered(OPERATION_RESERVE, LU_OK);
	struct idempotency_row row;
	struct uuid id;
	op->verdict.reservation = reservation_of(op, RESERVATION_ACTIVE, 1000);
	struct verdict v = there_and_back(op, reservation_of(op, RESERVATION_COMMITTED, 5000), NULL, &row);
	assert_true(answer_needs_reservation(&row, &id) && uuid_equal(&id, &op->verdict.object_id));
	assert_null(row.detail.data);
	assert_int_equal(v.reservation->state, RESERVATION_ACTIVE);
	assert_int_equal(v.reservation->expires_us, 1000);
	assert_int_equal(v.reservation->ended_us, 0);
	assert_true(uuid_is_nil(&v.reservation->checkout_id));
}

static void an_ended_hold_is_shown_as_it_ended(void **state)
{
	(void)state;
	for (enum reservation_state ended = RESERVATION_RELEASED; ended <= RESERVATION_EXPIRED; ended++) {
		struct operation *op = answered(OPERATION_RELEASE, LU_OK);
		struct idempotency_row row;
		op->verdict.reservation = reservation_of(op, ended, 1000);
		struct verdict v = there_and_back(op, reservation_of(op, ended, 1000), NULL, &row);
		assert_int_equal(v.reservation->state, ended);
		assert_int_equal(v.reservation->ended_us, 77);
	}
}

static void refusals_keep_every_failing_line(void **state)
{
	(void)state;
	struct operation *op = answered(OPERATION_CHECKOUT, LU_INSUFFICIENT_STOCK);
	struct idempotency_row row;
	struct uuid id;
	struct shortage shortages[] = {{TEXT("A \"quoted\" \xc3\xa9"), LU_QUANTITY_MAX, LU_COUNT_MAX, 3,
	                                INT64_C(1700000000123456)},
	                               {TEXT("B"), 1, 0, 0, 0}};
	op->verdict.shortages = shortages;
	op->verdict.shortage_count = 2;
	op->verdict.detail = TEXT("a sentence");
	struct verdict v = there_and_back(op, NULL, NULL, &row);
	assert_false(answer_needs_checkout(&row, &id));
	assert_int_equal(v.shortage_count, 2);
	assert_true(text_equal(v.shortages[0].sku, shortages[0].sku));
	assert_int_equal(v.shortages[0].requested, LU_QUANTITY_MAX);
	assert_int_equal(v.shortages[0].available, LU_COUNT_MAX);
	assert_int_equal(v.shortages[0].held, 3);
	assert_int_equal(v.shortages[0].next_release_us, INT64_C(1700000000123456));
	assert_true(text_equal(v.detail, TEXT("a sentence")));
	row.detail = (struct text){0}; /* pruned after a day: told without lines */
	assert_int_equal(answer_decode(&arena, &row, NULL, NULL, &v), LU_OK);
	assert_int_equal(v.error, LU_INSUFFICIENT_STOCK);
	assert_int_equal(v.shortage_count, 0);
}

static void a_refusal_needs_no_object(void **state)
{
	(void)state;
	static const enum operation_kind kinds[] = {OPERATION_CHECKOUT, OPERATION_RESERVE, OPERATION_COMMIT,
	                                            OPERATION_RELEASE,  OPERATION_EXTEND,  OPERATION_CANCEL,
	                                            OPERATION_EXPIRE};
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		struct idempotency_row row;
		struct uuid id;
		there_and_back(answered(kinds[i], LU_RESERVATION_EXPIRED), NULL, NULL, &row);
		assert_false(answer_needs_reservation(&row, &id) || answer_needs_checkout(&row, &id));
	}
}

static void figures_are_those_of_then(void **state)
{
	(void)state;
	struct operation *op = answered(OPERATION_SKU_PUT, LU_OK);
	struct idempotency_row row;
	struct sku_figures figures[] = {{TEXT("A"), {LU_COUNT_MAX, 5, 4, 3, true}, 2}, {TEXT("B"), {1, 0, 0, 0, false}, 7}};
	op->verdict.figures = figures;
	op->verdict.figures_count = 2;
	op->verdict.created = true;
	struct verdict v = there_and_back(op, NULL, NULL, &row);
	assert_true(v.created);
	assert_int_equal(v.figures_count, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_true(text_equal(v.figures[i].sku, figures[i].sku));
		assert_int_equal(v.figures[i].figures.version, figures[i].figures.version);
		assert_int_equal(v.figures[i].figures.on_hand, figures[i].figures.on_hand);
		assert_int_equal(v.figures[i].figures.reserved, figures[i].figures.reserved);
		assert_int_equal(v.figures[i].figures.safety_stock, figures[i].figures.safety_stock);
		assert_int_equal(v.figures[i].figures.tracked, figures[i].figures.tracked);
		assert_int_equal(v.figures[i].available, figures[i].available);
	}
	/* As the first releases wrote it. */
	row.detail = TEXT("{\"figures\":[[\"A\",1,9,2,3,true]]}");
	assert_int_equal(answer_decode(&arena, &row, NULL, NULL, &v), LU_OK);
	assert_int_equal(v.figures[0].available, 4);
}

static void every_stored_error_comes_back(void **state)
{
	(void)state;
	for (unsigned error = 1; error < LU_ERROR_COUNT; error++) {
		struct operation *op = answered(OPERATION_COMMIT, (enum lu_error)error);
		struct idempotency_row row;
		if (lu_error_stored((enum lu_error)error))
			there_and_back(op, NULL, NULL, &row);
	}
}

static void a_row_that_cannot_be_read_is_an_error(void **state)
{
	(void)state;
	struct operation *op = answered(OPERATION_CANCEL, LU_OK);
	struct idempotency_row good, row;
	struct verdict v = {.at_us = -1};
	op->verdict.checkout = checkout_of(op, 1);
	answer_encode(&arena, op, &good);
	static const char *const wrong[] = {"",
	                                    "x",
	                                    "[]",
	                                    "{\"cancelled\":[1]}",
	                                    "{\"cancelled\":[1,\"2\"]}",
	                                    "{\"cancelled\":7}",
	                                    "{\"cancelled\":[1,0,0]}",
	                                    "{\"shortages\":[[1,2,3,4,5]]}",
	                                    "{\"shortages\":{}}",
	                                    "{\"shortages\":[[\"A\",1]]}",
	                                    "{\"figures\":[[\"A\",1,2,3,4,5]]}",
	                                    "{\"figures\":[[\"A\",1,2,3,4,true,\"5\"]]}",
	                                    "{\"text\":1}"};
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		row = good;
		row.detail = text_of(wrong[i]);
		assert_int_equal(answer_decode(&arena, &row, NULL, checkout_of(op, 1), &v), LU_INTERNAL);
	}
	assert_int_equal(answer_decode(&arena, &good, NULL, NULL, &v), LU_INTERNAL); /* its checkout is missing */
	row = good;
	row.status = TEXT("a_code_of_tomorrow");
	assert_int_equal(answer_decode(&arena, &row, NULL, checkout_of(op, 1), &v), LU_INTERNAL);
	struct operation *other = answered(OPERATION_CANCEL, LU_OK);
	assert_int_equal(answer_decode(&arena, &good, NULL, checkout_of(other, 1), &v), LU_INTERNAL);
	struct operation *release = answered(OPERATION_RELEASE, LU_OK);
	release->verdict.reservation = reservation_of(release, RESERVATION_RELEASED, 1);
	answer_encode(&arena, release, &row);
	row.detail = TEXT("{\"state\":9,\"ended_us\":1}");
	assert_int_equal(answer_decode(&arena, &row, release->verdict.reservation, NULL, &v), LU_INTERNAL);
	row.detail = (struct text){0};
	assert_int_equal(answer_decode(&arena, &row, reservation_of(other, RESERVATION_RELEASED, 1), NULL, &v),
	                 LU_INTERNAL);
	struct operation *adjust = answered(OPERATION_ADJUST, LU_OK);
	answer_encode(&arena, adjust, &row);
	assert_int_equal(answer_decode(&arena, &row, NULL, NULL, &v), LU_INTERNAL); /* its figures are missing */
	assert_int_equal(v.at_us, -1);                                              /* untouched on failure */
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_arena, free_arena)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_plain_sale_needs_no_detail),
		CASE(cancelled_units_are_those_of_then),
		CASE(a_hold_is_shown_alive_as_it_was),
		CASE(an_ended_hold_is_shown_as_it_ended),
		CASE(refusals_keep_every_failing_line),
		CASE(a_refusal_needs_no_object),
		CASE(figures_are_those_of_then),
		CASE(every_stored_error_comes_back),
		CASE(a_row_that_cannot_be_read_is_an_error),
	};
	return cmocka_run_group_tests_name("answer", tests, NULL, NULL);
}
