/* Routes and percent decoding: a path means one thing, and its escapes are undone once. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "http/percent.h"
#include "http/request.h"
#include "http/router.h"

static void handle(struct request *request) {}

static const struct route routes[] = {
	{HTTP_METHOD_GET, "/", 0, handle},
	{HTTP_METHOD_GET, "/v1/skus", 0, handle},
	{HTTP_METHOD_GET, "/v1/skus/special", 0, handle},
	{HTTP_METHOD_GET, "/v1/skus/{sku}", SCOPE_READ, handle},
	{HTTP_METHOD_PUT, "/v1/skus/{sku}", SCOPE_STOCK, handle},
	{HTTP_METHOD_GET, "/v1/skus/{sku}/ledger", SCOPE_READ, handle},
	{HTTP_METHOD_POST | HTTP_METHOD_OPTIONS, "/v1/a/{first}/b/{second}/c", 0, handle},
	{HTTP_METHOD_POST, "/problems/{code}.html", 0, handle},
};
static const struct router router = {routes, sizeof routes / sizeof routes[0]};

struct match {
	enum route_match result;
	const struct route *route;
	struct text params[ROUTE_PARAMS_MAX];
	size_t count;
	unsigned allow;
};

static struct match match(unsigned method, const char *path)
{
	/* a copy of exactly the path's size, for the sanitizer */
	size_t size = strlen(path);
	static char *copies[2];
	static int turn;
	turn = !turn;
	free(copies[turn]);
	copies[turn] = malloc(size ? size : 1);
	memcpy(copies[turn], path, size);
	struct match match = {0};
	match.result = router_match(&router, method, (struct text){copies[turn], size}, &match.route, match.params,
	                            &match.count, &match.allow);
	return match;
}

static void assert_text(struct text text, const char *expected)
{
	if (!text_equal(text, text_of(expected)))
		fail_msg("\"%.*s\" is not \"%s\"", (int)text.size, text.data, expected);
}

static void a_path_finds_its_route(void **state)
{
	assert_ptr_equal(match(HTTP_METHOD_GET, "/").route, &routes[0]);
	assert_ptr_equal(match(HTTP_METHOD_GET, "/v1/skus").route, &routes[1]);
	struct match found = match(HTTP_METHOD_GET, "/v1/skus/A-1");
	assert_int_equal(found.result, ROUTE_FOUND);
	assert_ptr_equal(found.route, &routes[3]);
	assert_int_equal(found.count, 1);
	assert_text(found.params[0], "A-1");
	assert_ptr_equal(match(HTTP_METHOD_GET, "/v1/skus/A-1/ledger").route, &routes[5]);
	found = match(HTTP_METHOD_POST, "/v1/a/x/b/y/c");
	assert_int_equal(found.count, 2);
	assert_text(found.params[0], "x");
	assert_text(found.params[1], "y");
}

static void methods_of_one_pattern_may_be_routes_of_their_own(void **state)
{
	assert_ptr_equal(match(HTTP_METHOD_PUT, "/v1/skus/A").route, &routes[4]);
	struct match other = match(HTTP_METHOD_DELETE, "/v1/skus/A");
	assert_int_equal(other.result, ROUTE_METHOD_NOT_ALLOWED);
	assert_int_equal(other.allow, HTTP_METHOD_GET | HTTP_METHOD_HEAD | HTTP_METHOD_PUT);
	assert_int_equal(match(0, "/v1/skus/A").result, ROUTE_METHOD_NOT_ALLOWED);
}

static void head_is_answered_where_get_is(void **state)
{
	assert_ptr_equal(match(HTTP_METHOD_HEAD, "/v1/skus/A").route, &routes[3]);
	struct match other = match(HTTP_METHOD_HEAD, "/v1/a/x/b/y/c");
	assert_int_equal(other.result, ROUTE_METHOD_NOT_ALLOWED);
	assert_int_equal(other.allow, HTTP_METHOD_POST | HTTP_METHOD_OPTIONS);
}

static void an_earlier_route_goes_first(void **state)
{
	assert_ptr_equal(match(HTTP_METHOD_GET, "/v1/skus/special").route, &routes[2]);
	/* … but only for its own methods */
	assert_ptr_equal(match(HTTP_METHOD_PUT, "/v1/skus/special").route, &routes[4]);
}

static void other_paths_find_nothing(void **state)
{
	static const char *const paths[] = {
		"",
		"//",
		"/v1",
		"/v1/",
		"/v1/skus/",
		"/v1/skus//",
		"/v1/skus/A/",
		"/v1/skus//ledger",
		"/v1/skus/A/ledger/",
		"/v1/skus/A/B",
		"/V1/skus",
		"/v1/skusA",
		"/v1/sku",
		"/v1/a//b/y/c",
		"/v1%2Fskus",
		"/v1/skus%2FA",
	};
	for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
		if (match(HTTP_METHOD_GET, paths[i]).result != ROUTE_NOT_FOUND)
			fail_msg("found: %s", paths[i]);
}

static void an_encoded_slash_makes_no_segment(void **state)
{
	struct match found = match(HTTP_METHOD_GET, "/v1/skus/a%2Fledger");
	assert_ptr_equal(found.route, &routes[3]);
	assert_text(found.params[0], "a%2Fledger");
}

/* --- percent decoding ------------------------------------------------------------------------------------------- */

struct decoding {
	struct arena arena;
	enum lu_error error;
	struct text text;
	const char *why;
};

static void decode(struct decoding *decoding, struct text raw, bool plus_is_blank)
{
	arena_init(&decoding->arena, 4096);
	decoding->why = NULL;
	char *copy = malloc(raw.size ? raw.size : 1);
	memcpy(copy, raw.data, raw.size);
	decoding->error = percent_decode(&decoding->arena, (struct text){copy, raw.size}, plus_is_blank, &decoding->text,
	                                 &decoding->why);
	if (!decoding->error)
		decoding->text = arena_text(&decoding->arena, decoding->text);
	free(copy);
}

static void assert_decodes(const char *raw, bool plus_is_blank, const char *expected)
{
	struct decoding decoding;
	decode(&decoding, text_of(raw), plus_is_blank);
	assert_int_equal(decoding.error, LU_OK);
	assert_text(decoding.text, expected);
	arena_done(&decoding.arena);
}

static void escapes_are_undone_exactly_once(void **state)
{
	assert_decodes("plain", false, "plain");
	assert_decodes("", false, "");
	assert_decodes("a%20b", false, "a b");
	assert_decodes("%2525", false, "%25");
	assert_decodes("%2B+%2b", false, "+++");
	assert_decodes("%2B+%2b", true, "+ +");
	assert_decodes("+", true, " ");
	assert_decodes("%d1%87%D0%B0%d0%b9", false, "\xd1\x87\xd0\xb0\xd0\xb9");
	assert_decodes("a%2Fb", false, "a/b");
}

static void bad_escapes_are_refused(void **state)
{
	static const char *const raws[] = {"%",      "%2",        "a%",           "a%2",   "%zz", "%2g", "%g2",
	                                   "%%20",   "% 20",      "%00",          "a%00b", "%ff", "%c3", "%c3%28",
	                                   "%c0%80", "%ed%a0%80", "%f4%90%80%80", "%+1",   "%-1"};
	for (size_t i = 0; i < sizeof raws / sizeof raws[0]; i++) {
		struct decoding decoding;
		decode(&decoding, text_of(raws[i]), false);
		if (decoding.error != LU_MALFORMED_REQUEST)
			fail_msg("taken: %s", raws[i]);
		assert_non_null(decoding.why);
		arena_done(&decoding.arena);
	}
}

static void an_encoded_nul_is_named_as_such(void **state)
{
	struct decoding decoding;
	decode(&decoding, TEXT("a%00b"), false);
	assert_non_null(strstr(decoding.why, "%00"));
	arena_done(&decoding.arena);
}

static void a_query_is_its_pairs_in_order(void **state)
{
	struct arena arena;
	struct query_pair *pairs;
	size_t count;
	const char *why;
	arena_init(&arena, 4096);
	assert_int_equal(percent_query(&arena, TEXT("sku=A&sku=B+C&&x&y=&%66=1=2&=v"), &pairs, &count, &why), LU_OK);
	assert_int_equal(count, 6);
	static const char *const expected[] = {"sku", "A", "sku", "B C", "x", "", "y", "", "f", "1=2", "", "v"};
	for (size_t i = 0; i < count; i++) {
		assert_text(pairs[i].name, expected[i * 2]);
		assert_text(pairs[i].value, expected[i * 2 + 1]);
	}
	assert_int_equal(percent_query(&arena, (struct text){0}, &pairs, &count, &why), LU_OK);
	assert_int_equal(count, 0);
	assert_int_equal(percent_query(&arena, TEXT("&&"), &pairs, &count, &why), LU_OK);
	assert_int_equal(count, 0);
	assert_int_equal(percent_query(&arena, TEXT("a=%00"), &pairs, &count, &why), LU_MALFORMED_REQUEST);
	assert_int_equal(percent_query(&arena, TEXT("%=1"), &pairs, &count, &why), LU_MALFORMED_REQUEST);
	arena_done(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_path_finds_its_route),
		cmocka_unit_test(methods_of_one_pattern_may_be_routes_of_their_own),
		cmocka_unit_test(head_is_answered_where_get_is),
		cmocka_unit_test(an_earlier_route_goes_first),
		cmocka_unit_test(other_paths_find_nothing),
		cmocka_unit_test(an_encoded_slash_makes_no_segment),
		cmocka_unit_test(escapes_are_undone_exactly_once),
		cmocka_unit_test(bad_escapes_are_refused),
		cmocka_unit_test(an_encoded_nul_is_named_as_such),
		cmocka_unit_test(a_query_is_its_pairs_in_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
