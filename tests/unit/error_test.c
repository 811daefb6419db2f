/* The table of errors: complete, without twins, and consistent with what the HTTP contract says. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "lastunit/error.h"
#include "lib/dies.h"

static void every_error_is_complete(void **state)
{
	for (int i = 0; i < LU_ERROR_COUNT; i++) {
		assert_true(strlen(lu_error_code(i)) > 1);
		assert_true(strlen(lu_error_title(i)) > 1);
		assert_true(strlen(lu_error_mend(i)) > 1);
		if (i != LU_OK)
			assert_true(lu_error_status(i) >= 400 && lu_error_status(i) < 600);
	}
}

static void a_code_names_its_error_and_no_other(void **state)
{
	for (int i = 0; i < LU_ERROR_COUNT; i++) {
		enum lu_error error = LU_ERROR_COUNT;
		assert_true(lu_error_parse(lu_error_code(i), &error));
		assert_int_equal(error, i);
		/* it is the last segment of a URL */
		assert_int_equal(strspn(lu_error_code(i), "abcdefghijklmnopqrstuvwxyz_0123456789"), strlen(lu_error_code(i)));
	}
}

static void an_unknown_code_is_refused_and_changes_nothing(void **state)
{
	enum lu_error error = LU_FORBIDDEN;
	assert_false(lu_error_parse("no_such_code", &error));
	assert_false(lu_error_parse("", &error));
	assert_false(lu_error_parse("OK", &error));
	assert_int_equal(error, LU_FORBIDDEN);
}

static void only_what_the_transaction_decided_is_stored(void **state)
{
	assert_true(lu_error_stored(LU_OK));
	assert_true(lu_error_stored(LU_INSUFFICIENT_STOCK));
	assert_true(lu_error_stored(LU_RESERVATION_EXPIRED));
	assert_true(lu_error_stored(LU_UNKNOWN_SKU));
	assert_true(lu_error_stored(LU_CHANGE_FROM_MISMATCH));
	assert_false(lu_error_stored(LU_IDEMPOTENCY_IN_FLIGHT));
	for (int i = LU_OK + 1; i < LU_ERROR_COUNT; i++) {
		int status = lu_error_status(i);
		if (lu_error_stored(i))
			assert_true(status == 404 || status == 409 || status == 410 || status == 412);
		if (status >= 500 || status == 422 || status == 429)
			assert_false(lu_error_stored(i));
	}
}

/* What may have been done must be asked for under its own key; what was not done may be. */
static void a_retry_is_advised_as_the_status_demands(void **state)
{
	for (int i = LU_OK + 1; i < LU_ERROR_COUNT; i++) {
		enum lu_retry retry = lu_error_retry(i);
		int status = lu_error_status(i);
		assert_int_equal(lu_error_stored(i), retry == LU_RETRY_STORED);
		if (status == 500 || status == 503)
			assert_true(retry == LU_RETRY_AGAIN || retry == LU_RETRY_SAME_KEY);
		if (status == 400 || status == 401 || status == 403)
			assert_int_equal(retry, LU_RETRY_MEND);
	}
	assert_int_equal(lu_error_retry(LU_OUTCOME_UNKNOWN), LU_RETRY_SAME_KEY);
	assert_int_equal(lu_error_retry(LU_IDEMPOTENCY_IN_FLIGHT), LU_RETRY_SAME_KEY);
	assert_int_equal(lu_error_retry(LU_IDEMPOTENCY_CONFLICT), LU_RETRY_NEW_KEY);
}

static void ok_is_ok(void **state)
{
	assert_int_equal(LU_OK, 0);
	assert_string_equal(lu_error_code(LU_OK), "ok");
	assert_int_equal(lu_error_status(LU_OK), 200);
	assert_int_equal(lu_error_status(LU_INSUFFICIENT_STOCK), 409);
	assert_string_equal(lu_error_code(LU_OUTCOME_UNKNOWN), "outcome_unknown");
	assert_int_equal(lu_error_status(LU_OUTCOME_UNKNOWN), 503);
}

static void a_number_that_is_no_error_is_a_bug(void **state)
{
	assert_dies(lu_error_code(LU_ERROR_COUNT));
	assert_dies(lu_error_status((enum lu_error)(-1)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_error_is_complete),
		cmocka_unit_test(a_code_names_its_error_and_no_other),
		cmocka_unit_test(an_unknown_code_is_refused_and_changes_nothing),
		cmocka_unit_test(only_what_the_transaction_decided_is_stored),
		cmocka_unit_test(a_retry_is_advised_as_the_status_demands),
		cmocka_unit_test(ok_is_ok),
		cmocka_unit_test(a_number_that_is_no_error_is_a_bug),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
