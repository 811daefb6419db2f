/* What products are called: known for a while, under the lease it was asked for under, within bounds; never figures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/text.h"
#include "channels/names.h"

#define LEASE "lu:one"
#define OTHER_LEASE "lu:two"
#define ASKED_NS (1000 * NS_PER_S)
#define END_NS (ASKED_NS + NAMES_KEPT_MS * NS_PER_MS)

static struct names *names;
static struct arena arena;

static int open_names(void **state)
{
	names = names_new();
	arena_init(&arena, 4096);
	return 0;
}

static int close_names(void **state)
{
	arena_done(&arena);
	names_free(names);
	return 0;
}

static struct product product(int64_t id, const char *code, const char *titles)
{
	return (struct product){.id = id,
	                        .code = text_of(code),
	                        .titles_json = text_of(titles),
	                        .figures = {.version = 3, .on_hand = 9, .reserved = 1, .tracked = true},
	                        .next_release_us = 5};
}

static void put(const char *lease, int64_t asked_ns, struct product of)
{
	names_put(names, lease, asked_ns, &of, 1);
}

/* "": not known. */
static const char *code_of(const char *lease, int64_t now_ns, int64_t id)
{
	struct product found = {0};
	return names_get(names, lease, now_ns, id, &arena, &found) ? found.code.data : "";
}

static void what_was_told_is_known_but_for_its_figures(void **state)
{
	struct product told[] = {product(1, "MUG", "{\"en\": \"Mug\"}"), product(2, "CUP", "{}")}, found;
	names_put(names, LEASE, ASKED_NS, told, 2);
	memset(told, 0, sizeof told);
	assert_true(names_get(names, LEASE, ASKED_NS, 1, &arena, &found));
	assert_int_equal(found.id, 1);
	assert_true(text_equal(found.code, TEXT("MUG")));
	assert_true(text_equal(found.titles_json, TEXT("{\"en\": \"Mug\"}")));
	static const struct figures none;
	assert_memory_equal(&found.figures, &none, sizeof none);
	assert_int_equal(found.next_release_us, 0);
	assert_string_equal(code_of(LEASE, ASKED_NS, 2), "CUP");
	assert_string_equal(code_of(LEASE, ASKED_NS, 3), "");
}

static void what_is_not_known_leaves_the_product_alone(void **state)
{
	struct product found = product(7, "MINE", "{}");
	assert_false(names_get(names, LEASE, ASKED_NS, 1, &arena, &found));
	assert_string_equal(found.code.data, "MINE");
}

static void a_name_is_believed_for_a_minute_from_its_question(void **state)
{
	put(LEASE, ASKED_NS, product(1, "MUG", "{}"));
	assert_string_equal(code_of(LEASE, END_NS - 1, 1), "MUG");
	assert_string_equal(code_of(LEASE, END_NS, 1), "");
}

/* Another database, or a flush. */
static void a_name_is_believed_under_its_lease_only(void **state)
{
	put(LEASE, ASKED_NS, product(1, "MUG", "{}"));
	assert_string_equal(code_of(OTHER_LEASE, ASKED_NS, 1), "");
	put(OTHER_LEASE, ASKED_NS + 1, product(1, "CUP", "{}"));
	assert_string_equal(code_of(OTHER_LEASE, ASKED_NS + 1, 1), "CUP");
	assert_string_equal(code_of(LEASE, ASKED_NS + 1, 1), "");
}

static void a_later_question_has_the_last_word(void **state)
{
	put(LEASE, ASKED_NS + 2, product(1, "MUG", "{\"en\": \"New\"}"));
	put(LEASE, ASKED_NS + 1, product(1, "MUG", "{\"en\": \"Old\"}"));
	struct product found;
	assert_true(names_get(names, LEASE, ASKED_NS + 2, 1, &arena, &found));
	assert_string_equal(found.titles_json.data, "{\"en\": \"New\"}");
	put(LEASE, ASKED_NS + 3, product(1, "MUG", "{\"en\": \"Newest\"}"));
	assert_true(names_get(names, LEASE, ASKED_NS + 3, 1, &arena, &found));
	assert_string_equal(found.titles_json.data, "{\"en\": \"Newest\"}");
}

static void two_of_one_place_are_never_taken_for_each_other(void **state)
{
	for (int64_t id = 1; id <= NAMES_PLACES; id++)
		put(LEASE, ASKED_NS, product(id, "NEIGHBOUR", "{}"));
	for (int64_t id = 1; id <= NAMES_PLACES; id++)
		assert_string_equal(code_of(LEASE, ASKED_NS, id), "NEIGHBOUR");
	assert_string_equal(code_of(LEASE, ASKED_NS, NAMES_PLACES + 1), "");
	put(LEASE, ASKED_NS, product(NAMES_PLACES + 1, "LAST", "{}"));
	assert_string_equal(code_of(LEASE, ASKED_NS, NAMES_PLACES + 1), "LAST");
	assert_string_equal(code_of(LEASE, ASKED_NS, 1), "");
	put(LEASE, ASKED_NS, product(INT64_MAX, "FAR", "{}"));
	assert_string_equal(code_of(LEASE, ASKED_NS, INT64_MAX), "FAR");
}

/* And what was there before is not believed either: it is not what it is called today. */
static void what_is_too_long_is_not_kept(void **state)
{
	static char titles[NAMES_TEXT_BYTES_MAX + 1];
	memset(titles, 't', sizeof titles - 1);
	put(LEASE, ASKED_NS, product(1, "", titles));
	struct product found;
	assert_true(names_get(names, LEASE, ASKED_NS, 1, &arena, &found));
	assert_string_equal(found.titles_json.data, titles);
	put(LEASE, ASKED_NS + 1, product(1, "X", titles));
	assert_false(names_get(names, LEASE, ASKED_NS + 1, 1, &arena, &found));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_names, close_names)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_was_told_is_known_but_for_its_figures),
		TEST(what_is_not_known_leaves_the_product_alone),
		TEST(a_name_is_believed_for_a_minute_from_its_question),
		TEST(a_name_is_believed_under_its_lease_only),
		TEST(a_later_question_has_the_last_word),
		TEST(two_of_one_place_are_never_taken_for_each_other),
		TEST(what_is_too_long_is_not_kept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
