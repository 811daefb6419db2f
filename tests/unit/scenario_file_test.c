/* The language of scenarios: what is read from a file, and what is refused with which sentence. Nothing is played. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/scenario.h"

static bool verb_kill(struct scenario_call *call)
{
	return scenario_instance(call, scenario_word(call)) && scenario_end(call);
}

static const struct scenario_verb bench_verbs[] = {{"kill", "kill a", 0, verb_kill}, {0}};
static const struct scenario_bench bench = {.verbs = bench_verbs};

static char why[SCENARIO_WHY_BYTES];

static struct scenario *read_text(const char *text, const struct scenario_bench *with)
{
	char path[] = "/tmp/scenario-file-test-XXXXXX.spec";
	int fd = mkstemps(path, 5);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	why[0] = '\0';
	struct scenario *scenario = scenario_read(path, with, why);
	unlink(path);
	return scenario;
}

static void expect_refused(const char *text, int line, const char *sentence)
{
	char number[20];
	struct scenario *scenario = read_text(text, NULL);
	assert_null(scenario);
	snprintf(number, sizeof number, ".spec:%d: ", line);
	if (!strstr(why, number) || !strstr(why, sentence))
		fail_msg("expected line %d: %s\n     got %s", line, sentence, why);
}

#define HEAD "# A title.\nstock LAMP 10\nsession web\nsession pos\n"

static void a_story_has_one_order_as_it_is_written(void **state)
{
	struct scenario *s = read_text(HEAD "web: sell LAMP 1 -> 201 or 409\npos: see LAMP = 9\nexpect row LAMP = 9/0\n",
	                               NULL);
	assert_non_null(s);
	assert_string_equal(s->title, "A title.");
	assert_int_equal(s->step_count, 3);
	assert_int_equal(s->order_count, 1);
	assert_int_equal(s->orders[0].count, 3);
	assert_string_equal(s->steps[0].block.lines[0].verb->name, "sell");
	assert_string_equal(s->steps[0].block.lines[0].action, "LAMP 1");
	assert_string_equal(s->steps[0].block.lines[0].expected, "201 or 409");
	assert_string_equal(s->sessions[s->steps[1].session].name, "pos");
	assert_string_equal(s->sessions[s->steps[2].session].name, "world");
	assert_int_equal(s->uses, SCENARIO_SESSION | SCENARIO_SQL);
	scenario_free(s);
}

static void all_permutations_keep_the_order_of_each_session(void **state)
{
	struct scenario *s = read_text(
		"# T\nstock LAMP 1\nsession web\nstep a { see LAMP = 1 }\nstep b { see LAMP = 1 }\n"
		"session pos\nstep c {\n\tsee LAMP = 1\n\tsell LAMP 1\n}\npermutations all\n",
		NULL);
	assert_non_null(s);
	assert_int_equal(s->order_count, 3);
	for (size_t i = 0; i < s->order_count; i++) {
		size_t at[3] = {0};
		for (size_t j = 0; j < 3; j++)
			at[s->orders[i].steps[j]] = j;
		assert_true(at[0] < at[1]);
	}
	assert_int_equal(s->steps[2].block.count, 2);
	scenario_free(s);
}

static void permutations_may_be_listed_and_a_step_left_out(void **state)
{
	struct scenario *s = read_text(
		"# T\nstock LAMP 1\nsession web\nstep a { see LAMP = 1 }\nstep b { see LAMP = 1 }\n"
		"permutation b a b\npermutation a\n",
		NULL);
	assert_non_null(s);
	assert_int_equal(s->order_count, 2);
	assert_int_equal(s->orders[0].count, 3);
	assert_int_equal(s->orders[0].steps[0], 1);
	assert_int_equal(s->orders[1].count, 1);
	scenario_free(s);
}

static void what_stands_around_a_line_is_taken_off(void **state)
{
	struct scenario *s = read_text(HEAD
	                               "web: begin 15 times sell LAMP 1 -> no answer   # why\nweb: end\n"
	                               "wait see LAMP = 9 or 10 from redis\npos: sell LAMP 1 until committed\npos: go on\n",
	                               &bench);
	assert_non_null(s);
	const struct scenario_line *line = s->steps[0].block.lines;
	assert_int_equal(line->how, SCENARIO_BEGIN);
	assert_int_equal(line->times, 15);
	assert_string_equal(line->expected, "no answer");
	assert_string_equal(line->text, "begin 15 times sell LAMP 1 -> no answer");
	assert_int_equal(s->steps[1].block.lines->how, SCENARIO_END);
	assert_int_equal(s->steps[2].block.lines->how, SCENARIO_WAIT);
	assert_string_equal(s->steps[3].block.lines->until, "committed");
	assert_int_equal(s->steps[3].block.lines->how, SCENARIO_BEGIN);
	assert_int_equal(s->steps[4].block.lines->how, SCENARIO_GO_ON);
	scenario_free(s);
}

static void a_range_makes_many_skus(void **state)
{
	struct scenario *s = read_text("# T\nstock S1..S50 7\nsession web\nweb: sell S1..S50 1 shuffled\n", NULL);
	assert_non_null(s);
	assert_int_equal(s->sku_count, 50);
	assert_string_equal(s->skus[49].name, "S50");
	assert_int_equal(s->skus[49].on_hand, 7);
	scenario_free(s);
}

static void what_needs_a_bench_is_read_as_far_as_it_says_so(void **state)
{
	struct scenario *s = read_text("# T\n# guards x\nneeds a bench\nkill nobody and everything\n", NULL);
	assert_non_null(s);
	assert_string_equal(s->needs, "a bench");
	assert_int_equal(s->step_count, 0);
	scenario_free(s);
	s = read_text("# T\nneeds a bench\ninstance a\nworld: kill a\n", &bench);
	assert_non_null(s);
	assert_string_equal(s->steps[0].block.lines->verb->name, "kill");
	scenario_free(s);
}

static void a_shop_is_not_touched_beyond_the_scenarios_own(void **state)
{
	expect_refused(HEAD "web: sql DELETE FROM lastunit.sku\n", 5, "in a shop");
	expect_refused(HEAD "web: sql UPDATE lastunit.sku SET on_hand = 0\n", 5, "in a shop");
	expect_refused(HEAD "web: sql UPDATE lastunit.sku SET on_hand = 0 WHERE code = '{LAMP}' OR true\n", 5, "in a shop");
	expect_refused(HEAD "web: sql SELECT 1; DROP TABLE x\n", 5, "in a shop");
	expect_refused(HEAD "web: redis FLUSHALL\n", 5, "in a shop");
	expect_refused(HEAD "web: redis DEL lu:x\n", 5, "in a shop");
	expect_refused(HEAD "world: kill a\n", 5, "\"kill\" is no verb");
	struct scenario *s = read_text(HEAD
	                               "web: sql UPDATE lastunit.sku SET on_hand = 0 WHERE code = '{LAMP}'\n"
	                               "web: redis DEL {cell LAMP}\n",
	                               NULL);
	assert_non_null(s);
	scenario_free(s);
}

static void nonsense_is_refused_with_its_line(void **state)
{
	expect_refused("stock LAMP 1\nsession web\nweb: see LAMP = 1\n", 1, "begins with a comment");
	expect_refused("# T\n", 1, "nothing happens");
	expect_refused("# T\nstock lamp 1\n", 2, "capital letters");
	expect_refused("# T\nstock LAMP many\n", 2, "stock NAME UNITS");
	expect_refused("# T\nstock LAMP 1\nstock LAMP 1\n", 3, "there already");
	expect_refused("# T\nsession web on b\n", 2, "session NAME");
	expect_refused("# T\nsession web as nobody\n", 2, "session NAME");
	expect_refused(HEAD "telegram: see LAMP = 1\n", 5, "no session is called telegram");
	expect_refused(HEAD "web: sel LAMP 1\n", 5, "did you mean \"sell\"?");
	expect_refused(HEAD "web: sell TABLE 1\n", 5, "\"TABLE\" is no SKU of this file");
	expect_refused(HEAD "web: sell LAMP\n", 5, "a cart reads");
	expect_refused(HEAD "web: sell LAMP 1 please\n", 5, "more than `sell` takes");
	expect_refused(HEAD "web: see LAMP\n", 5, "what is to be seen");
	expect_refused(HEAD "web: see LAMP = 1 from heaven\n", 5, "not \"heaven\"");
	expect_refused(HEAD "web: row LAMP 1/0\n", 5, "row LAMP = 9/0");
	expect_refused(HEAD "web: set LAMP 5\n", 5, "set LAMP 20 from 18");
	expect_refused(HEAD "step a {\n\tsee LAMP = 1\n", 5, "has no end");
	expect_refused(HEAD "step a { see LAMP = 1 }\nstep a { see LAMP = 1 }\n", 6, "there is one of that name");
	expect_refused(HEAD "step a { see LAMP = 1 }\nweb: see LAMP = 1\n", 1, "not both");
	expect_refused(HEAD "step a { see LAMP = 1 }\npermutation b\n", 6, "no step is called b");
	expect_refused(HEAD "web: go on -> 201\n", 5, "where the line began");
	expect_refused(HEAD "while true\n", 5, "begins no line");
}

static void a_file_that_is_not_there_is_named_once(void **state)
{
	assert_null(scenario_read("/nonexistent/a.spec", NULL, why));
	assert_string_equal(why, "/nonexistent/a.spec: No such file or directory");
}

static void alternatives_are_whole_words(void **state)
{
	assert_true(scenario_matches("V 9/0 or absent", "absent"));
	assert_true(scenario_matches("V 9/0 or absent", "V 9/0"));
	assert_false(scenario_matches("V 9/0 or absent", "V 9"));
	assert_false(scenario_matches("10", "1"));
	assert_false(scenario_matches("1", "10"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_story_has_one_order_as_it_is_written),
		cmocka_unit_test(all_permutations_keep_the_order_of_each_session),
		cmocka_unit_test(permutations_may_be_listed_and_a_step_left_out),
		cmocka_unit_test(what_stands_around_a_line_is_taken_off),
		cmocka_unit_test(a_range_makes_many_skus),
		cmocka_unit_test(what_needs_a_bench_is_read_as_far_as_it_says_so),
		cmocka_unit_test(a_shop_is_not_touched_beyond_the_scenarios_own),
		cmocka_unit_test(nonsense_is_refused_with_its_line),
		cmocka_unit_test(a_file_that_is_not_there_is_named_once),
		cmocka_unit_test(alternatives_are_whole_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
