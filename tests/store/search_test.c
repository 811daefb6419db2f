/* The search: what people type finds what they mean. */
#include "store/fixture.h"
#include "store/search.h"

static struct pg *pg;

static const struct {
	const char *code, *titles, *names;
	int on_hand;
} catalogue[] = {
	{"MUG-RED", "{\"ru\": \"Красная кружка\", \"en\": \"Red mug\"}", "{чашка}", 3},
	{"MUG-BLUE", "{\"ru\": \"Синяя кружка\", \"en\": \"Blue mug\"}", "{}", 0},
	{"MUG-GREEN", "{\"ru\": \"Зелёная кружка\", \"en\": \"Green mug\"}", "{}", 5},
	{"LAMP", "{\"ru\": \"Лампа «Светлячок»\", \"en\": \"Firefly lamp\"}", "{ночник}", 1},
	{"BOLT-4711", "{\"en\": \"Bolt no. 4711\"}", "{}", 9},
	{"BOLT-4712", "{\"en\": \"Bolt no. 4712\"}", "{}", 9},
	{"ODD", "{\"en\": \"O'Brien\\\\s \\\"best\\\" & | ! :* (cup)\"}", "{}", 1},
	{"SILENT", "{}", "{}", 1},
	{"cup", "{}", "{}", 1},
};

static int stock_the_shop(void **state)
{
	fixture_database(state);
	pg = owner_session();
	for (size_t i = 0; i < sizeof catalogue / sizeof *catalogue; i++) {
		struct text sql =
			arena_printf(&arena,
		                 "WITH s AS (INSERT INTO sku (code, on_hand) VALUES ('%s', %d) RETURNING id)"
		                 " INSERT INTO sku_text (sku_id, titles, names) SELECT id, $t$%s$t$, $t$%s$t$ FROM s",
		                 catalogue[i].code, catalogue[i].on_hand, catalogue[i].titles, catalogue[i].names);
		if (pg_command(pg, sql.data, SOON))
			fail_msg("%s", pg_error(pg)->message);
	}
	pg_free(pg);
	pg = session();
	return 0;
}

static int leave(void **state)
{
	pg_free(pg);
	return fixture_forget(state);
}

/* The codes found, with blanks between. */
static const char *found(const char *said, size_t limit)
{
	struct product *rows;
	size_t count;
	struct text codes = TEXT("");
	assert_int_equal(search_products(pg, &arena, text_of(said), limit, SOON, &rows, &count), LU_OK);
	assert_true(count <= limit);
	for (size_t i = 0; i < count; i++)
		codes = arena_printf(&arena, "%s%s%.*s", codes.data, i ? " " : "", (int)rows[i].code.size, rows[i].code.data);
	return codes.data;
}

static void a_question_finds_the_product_it_is_about(void **state)
{
	assert_string_equal(found("красная кружка есть?", 3), "MUG-RED");
	assert_string_equal(found("Do you have a red mug?", 3), "MUG-RED");
	assert_string_equal(found("ночник", 3), "LAMP");
	assert_string_equal(found("светлячок", 3), "LAMP");
}

static void words_are_found_in_every_form(void **state)
{
	assert_string_equal(found("сколько красных кружек осталось", 3), "MUG-RED");
	assert_string_equal(found("лампой", 3), "LAMP");
	assert_string_equal(found("red mugs", 3), "MUG-RED");
	assert_string_equal(found("ЗЕЛЕНУЮ кружку", 3), "MUG-GREEN");
}

static void one_slip_does_not_hide_a_product(void **state)
{
	assert_string_equal(found("красная крушка", 3), "MUG-RED");  /* another letter */
	assert_string_equal(found("кравсная кружка", 3), "MUG-RED"); /* one too many */
	assert_string_equal(found("крсная кружка", 3), "MUG-RED");   /* one missing */
	assert_string_equal(found("карсная кружка", 3), "MUG-RED");  /* two swapped */
	assert_string_equal(found("firelfy", 3), "LAMP");
}

static void a_number_is_never_guessed(void **state)
{
	assert_string_equal(found("bolt 4712", 1), "BOLT-4712");
	assert_string_equal(found("4713", 3), "");
}

/* An article number is what a catalogue has people ask for; and not every product has a title. */
static void a_code_finds_its_product_before_all_words(void **state)
{
	assert_string_equal(found("SILENT", 3), "SILENT");
	assert_string_equal(found(" SILENT? ", 3), "SILENT");
	assert_string_equal(found("MUG-BLUE", 1), "MUG-BLUE");
	assert_string_equal(found("cup", 3), "cup ODD");
	assert_string_equal(found("cup", 1), "cup");
	assert_string_equal(found("silent", 3), "");
	assert_string_equal(found("is SILENT there", 3), "");
}

static void what_can_be_bought_comes_first(void **state)
{
	assert_string_equal(found("кружка", 3), "MUG-RED MUG-GREEN MUG-BLUE");
	assert_string_equal(found("кружка", 1), "MUG-RED");
}

/* No mug is purple: better all mugs than nothing. Nothing at all for what nobody sells. */
static void most_of_the_words_are_better_than_none(void **state)
{
	assert_string_equal(found("синяя лампа", 1), "LAMP");
	assert_string_equal(found("велосипед", 3), "");
	assert_string_equal(found("", 3), "");
	assert_string_equal(found("? !", 3), "");
}

/* The signs of a query language are only signs. */
static void signs_are_no_commands(void **state)
{
	assert_string_equal(found("o'brien\\s", 3), "ODD");
	assert_string_equal(found("red & | ! :* ( ' \\ mug <-> \" '' \\\\", 3), "MUG-RED");
}

static void a_sentence_is_cut_between_two_characters(void **state)
{
	char *said = arena_alloc(&arena, 4001);
	for (size_t i = 0; i < 4000; i += 2)
		memcpy(said + i, i == 0 ? " " : "ж", 2);
	said[0] = 'x', said[1] = ' ';
	assert_string_equal(found(said, 3), "");
	struct text long_one = arena_printf(&arena, "red mug %s", said);
	assert_string_equal(found(long_one.data, 3), "MUG-RED");
}

/* The words come and go with the titles, whoever writes them. */
static void new_titles_are_found_at_once(void **state)
{
	struct pg *owner = owner_session();
	assert_int_equal(pg_command(owner,
	                            "UPDATE sku_text SET titles = '{\"en\": \"Amethyst dragon\"}'"
	                            " WHERE sku_id = (SELECT id FROM sku WHERE code = 'SILENT')",
	                            SOON),
	                 LU_OK);
	pg_free(owner);
	assert_string_equal(found("amethist dragons", 3), "SILENT");
}

static void the_figures_are_those_of_the_row(void **state)
{
	struct product *rows;
	size_t count;
	assert_int_equal(search_products(pg, &arena, TEXT("red mug"), 3, SOON, &rows, &count), LU_OK);
	assert_int_equal(count, 1);
	assert_int_equal(rows[0].figures.on_hand, 3);
	assert_int_equal(rows[0].figures.version, 1);
	assert_true(rows[0].figures.tracked);
	assert_non_null(strstr(rows[0].titles_json.data, "Красная"));
	assert_int_equal(rows[0].next_release_us, 0);
	struct product *one;
	assert_int_equal(search_product(pg, &arena, rows[0].id, (struct text){0}, SOON, &one), LU_OK);
	assert_true(text_equal(one->code, TEXT("MUG-RED")));
	assert_int_equal(search_product(pg, &arena, 0, TEXT("SILENT"), SOON, &one), LU_OK);
	assert_string_equal(one->titles_json.data, "{}");
	assert_int_equal(search_product(pg, &arena, 0, TEXT("NOWHERE"), SOON, &one), LU_OK);
	assert_null(one);
}

static void a_name_comes_without_figures(void **state)
{
	struct product *rows, *one;
	size_t count;
	assert_int_equal(search_products(pg, &arena, TEXT("red mug"), 1, SOON, &rows, &count), LU_OK);
	assert_int_equal(search_name(pg, &arena, rows[0].id, SOON, &one), LU_OK);
	assert_int_equal(one->id, rows[0].id);
	assert_true(text_equal(one->code, TEXT("MUG-RED")));
	assert_true(text_equal(one->titles_json, rows[0].titles_json));
	assert_int_equal(one->figures.on_hand, 0);
	assert_int_equal(search_name(pg, &arena, 999999, SOON, &one), LU_OK);
	assert_null(one);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, stock_the_shop, leave)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_question_finds_the_product_it_is_about),  TEST(words_are_found_in_every_form),
		TEST(one_slip_does_not_hide_a_product),          TEST(a_number_is_never_guessed),
		TEST(a_code_finds_its_product_before_all_words), TEST(what_can_be_bought_comes_first),
		TEST(most_of_the_words_are_better_than_none),    TEST(signs_are_no_commands),
		TEST(a_sentence_is_cut_between_two_characters),  TEST(new_titles_are_found_at_once),
		TEST(the_figures_are_those_of_the_row),          TEST(a_name_comes_without_figures),
	};
	return cmocka_run_group_tests(tests, fixture_start, fixture_end);
}
