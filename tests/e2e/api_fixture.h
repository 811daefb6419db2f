/* What the tests of the API share: a real service for all tests of a program, a call that must have this status, and what a
 * problem says. Each test has SKUs of its own; the audit runs after the last one. */
#ifndef TESTS_E2E_API_FIXTURE_H
#define TESTS_E2E_API_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/service.h"

#define NO_ID "0190a5b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b"

static struct service service;
static struct answer answer; /* the last one */

/* One call as `key`; the answer must have this status. */
static inline void call(const char *key, const char *method, const char *path, const char *headers, const char *body,
                        int status)
{
	answer_done(&answer);
	answer = service_call(&service, key, method, path, headers, body);
	if (answer.status != status)
		fail_msg("%s %s %.200s: %d instead of %d: %s", method, path, body ? body : "", answer.status, status,
		         answer.body ? answer.body : "");
}

/* As the administrator. */
static inline void get(const char *path, int status)
{
	call(service.key_admin, "GET", path, NULL, NULL, status);
}

/* The last answer is a problem with this code, and its detail holds `word`. */
static inline void problem(const char *code, const char *word)
{
	assert_string_equal(answer_string(&answer, "code"), code);
	assert_string_equal(answer_header(&answer, "Content-Type"), "application/problem+json");
	assert_int_equal(answer_int(&answer, "status"), answer.status);
	char type[100];
	snprintf(type, sizeof type, "/problems/%s", code);
	assert_string_equal(answer_string(&answer, "type"), type);
	if (!strstr(answer_string(&answer, "detail"), word))
		fail_msg("\"%s\" does not name %s", answer_string(&answer, "detail"), word);
}

/* As the web shop, under a new key. */
static inline void post(const char *path, const char *body, int status)
{
	char header[80];
	snprintf(header, sizeof header, "Idempotency-Key: %s\r\n", service_new_key());
	call(service.key_web, "POST", path, header, body, status);
}

static inline void row_is(const char *sku, int64_t on_hand, int64_t reserved)
{
	struct row row = service_row(&service, sku);
	if (row.on_hand != on_hand || row.reserved != reserved)
		fail_msg("%s is %lld/%lld instead of %lld/%lld", sku, (long long)row.on_hand, (long long)row.reserved,
		         (long long)on_hand, (long long)reserved);
}

static inline int start(void **state)
{
	service_start(&service, NULL);
	return 0;
}

static inline int stop(void **state)
{
	answer_done(&answer);
	int audited = service_audit(&service);
	int code = service_stop(&service);
	return audited || code;
}

#define API_MAIN(tests)                                    \
	int main(void)                                         \
	{                                                      \
		return cmocka_run_group_tests(tests, start, stop); \
	}

#endif
