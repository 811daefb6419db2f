/* What a row of an import file means: columns by name, by map and by profile; numbers, words and texts in bounds.
 *
 * Bugs it guards against (B58, B60, B66, B69): "1.0" or "1e3" taken as a count, an overflow, a misspelt column skipped in
 * silence, a SKU code with a blank that becomes another one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cmd/import_rows.h"

struct reading {
	struct arena arena;
	struct import_columns columns;
	const char *map;
	bool header_seen, header_ok;
	char header_why[IMPORT_WHY_BYTES];
	struct import_row row; /* of the last row; its texts live in the arena */
	enum lu_error error;
	char why[IMPORT_WHY_BYTES];
};

static bool on_row(const struct csv_row *csv, void *context)
{
	struct reading *r = context;
	if (!r->header_seen) {
		r->header_seen = true;
		r->header_ok = import_columns_find(&r->columns, &r->arena, csv, r->map, r->header_why);
		return r->header_ok;
	}
	struct text fields[CSV_COLUMNS_MAX];
	for (size_t i = 0; i < csv->count; i++)
		fields[i] = arena_text(&r->arena, csv->fields[i]);
	struct csv_row kept = {csv->line, fields, csv->count};
	r->error = import_row_read(&r->columns, &kept, &r->row, r->why);
	return true;
}

static void read_file(struct reading *r, const char *map, const char *file)
{
	*r = (struct reading){.map = map};
	arena_init(&r->arena, 1024);
	char why[CSV_WHY_BYTES];
	assert_true(csv_rows_read(text_of(file), &(struct csv_format){0}, on_row, r, why) || !r->header_ok);
	assert_true(r->header_seen);
}

static struct reading r;

static void accept(const char *file)
{
	read_file(&r, NULL, file);
	if (!r.header_ok || r.error)
		fail_msg("should be taken: %s: %s%s", file, r.header_why, r.why);
}

static void refuse(enum lu_error error, const char *why, const char *file)
{
	read_file(&r, NULL, file);
	assert_true(r.header_ok);
	if (r.error != error || !strstr(r.why, why))
		fail_msg("%s: \"%s\" (%s), should be %s, \"%s\"", file, r.why, lu_error_code(r.error), lu_error_code(error),
		         why);
	arena_done(&r.arena);
}

static void refuse_header(const char *map, const char *why, const char *file)
{
	read_file(&r, map, file);
	assert_false(r.header_ok);
	if (!strstr(r.header_why, why))
		fail_msg("%s: \"%s\" should contain \"%s\"", file, r.header_why, why);
	arena_done(&r.arena);
}

static void a_count_a_receipt_and_settings_are_read(void **state)
{
	accept("sku,on_hand,change_from,safety_stock,tracked,reason\nA B,7,5,2,false,stock-take\n");
	assert_true(text_equal(r.row.sku, TEXT("A B")));
	assert_true(r.row.on_hand_given && r.row.on_hand == 7);
	assert_true(r.row.change_from_given && r.row.change_from == 5);
	assert_true(r.row.safety_stock_given && r.row.safety_stock == 2);
	assert_true(r.row.tracked_given && !r.row.tracked);
	assert_true(text_equal(r.row.reason, TEXT("stock-take")));
	assert_false(r.row.delta_given);
	assert_int_equal(r.row.line, 2);
	arena_done(&r.arena);

	accept("delta,sku\n-3,A\n");
	assert_true(r.row.delta_given && r.row.delta == -3 && !r.row.on_hand_given);
	arena_done(&r.arena);
	accept("delta,sku\n+3,A\n");
	assert_int_equal(r.row.delta, 3);
	arena_done(&r.arena);
}

static void an_empty_optional_field_is_not_given(void **state)
{
	accept("sku,delta,change_from,safety_stock,tracked,reason,title_en\nA,1,,,,,\n");
	assert_false(r.row.change_from_given || r.row.safety_stock_given || r.row.tracked_given);
	assert_int_equal(r.row.reason.size, 0);
	assert_int_equal(import_row_titles(&r.columns, &r.row, &r.arena).size, 0);
	arena_done(&r.arena);
}

static void a_row_fills_on_hand_or_delta(void **state)
{
	accept("sku,on_hand,delta\nA,1,\n");
	arena_done(&r.arena);
	accept("sku,on_hand,delta\nA,,1\n");
	arena_done(&r.arena);
	refuse(LU_INVALID_FIELD, "both given", "sku,on_hand,delta\nA,1,1\n");
	refuse(LU_INVALID_FIELD, "neither on_hand nor delta", "sku,on_hand,delta\nA,,\n");
	refuse(LU_INVALID_FIELD, "neither on_hand nor delta", "sku,on_hand\nA,\n");
	refuse(LU_INVALID_FIELD, "change_from without", "sku,change_from,tracked\nA,3,true\n");
}

static void counts_are_whole_numbers_within_their_bounds(void **state)
{
	accept("sku,on_hand\nA,1000000000000000\n");
	arena_done(&r.arena);
	static const char *const bad[] =
		{"1000000000000001",     "-1", "1.0", "1e3", " 1",  "1 ", "0x10", "9223372036854775808",
	     "18446744073709551617", "+1", "١",   "1,0", "NaN", "--1"};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		char file[100];
		snprintf(file, sizeof file, "sku,on_hand\nA,\"%s\"\n", bad[i]);
		refuse(LU_INVALID_FIELD, "on_hand is not a whole number", file);
	}
	refuse(LU_INVALID_FIELD, "delta is not", "sku,delta\nA,-1000000000000001\n");
	refuse(LU_INVALID_FIELD, "delta is not", "sku,delta\nA,+-1\n");
	refuse(LU_INVALID_FIELD, "delta is not", "sku,delta\nA,+\n");
	refuse(LU_INVALID_FIELD, "safety_stock is not", "sku,safety_stock\nA,-1\n");
	refuse(LU_INVALID_FIELD, "change_from is not", "sku,on_hand,change_from\nA,1,x\n");
	refuse(LU_INVALID_FIELD, "tracked is neither", "sku,tracked\nA,maybe\n");
}

static void sku_codes_obey_the_one_rule(void **state)
{
	static const char *const bad[] = {"", "A ", " A", "A\t", "A\xc2\xa0", "ABC\xe2\x80\x8b", "Cafe\xcc\x81", "A\nB"};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		char file[100];
		snprintf(file, sizeof file, "sku,on_hand\n\"%s\",1\n", bad[i]);
		refuse(LU_INVALID_SKU, bad[i][0] ? "1 to 128 bytes" : "empty", file);
	}
}

static void a_row_has_the_columns_of_the_header(void **state)
{
	refuse(LU_MALFORMED_REQUEST, "1 column where the header has 2", "sku,on_hand\nA\n");
	refuse(LU_MALFORMED_REQUEST, "9 columns where the header has 2", "sku,on_hand\nA,1,2,3,4,5,6,7,8\n");
}

static void titles_become_json_by_language(void **state)
{
	accept("sku,title_en,title_ru,title_pt-BR\nA,\"7\"\" red\",\xd0\xa7,\n");
	struct text titles = import_row_titles(&r.columns, &r.row, &r.arena);
	assert_true(text_equal(titles, TEXT("{\"en\":\"7\\\" red\",\"ru\":\"\xd0\xa7\"}")));
	assert_false(import_row_counts(&r.row));
	arena_done(&r.arena);
	char file[1100] = "sku,title_en\nA,";
	memset(file + strlen(file), 'x', 1001);
	refuse(LU_INVALID_FIELD, "title has more than 1000 bytes", file);
}

static void names_stand_between_semicolons(void **state)
{
	accept("sku,names\nA,red mug; red cup ;красная кружка\n");
	assert_true(text_equal(r.row.names, TEXT("red mug; red cup ;красная кружка")));
	assert_false(import_row_counts(&r.row));
	arena_done(&r.arena);
	accept("sku,names,delta\nA,,1\n");
	assert_int_equal(r.row.names.size, 0);
	arena_done(&r.arena);
	static const char *const empty[] = {";", "mug;", ";mug", "mug; ;cup", " "};
	char file[30000];
	for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++) {
		snprintf(file, sizeof file, "sku,names\nA,%s\n", empty[i]);
		refuse(LU_INVALID_FIELD, "between semicolons", file);
	}
	snprintf(file, sizeof file, "sku,names\nA,cup;%0256d\n", 0);
	refuse(LU_INVALID_FIELD, "255 bytes", file);
	size_t at = (size_t)snprintf(file, sizeof file, "sku,names\nA,n");
	for (int i = 0; i < 100; i++)
		at += (size_t)snprintf(file + at, sizeof file - at, ";n");
	snprintf(file + at, sizeof file - at, "\n");
	refuse(LU_INVALID_FIELD, "more than 100", file);
}

static void a_header_that_cannot_be_followed_refuses_the_file(void **state)
{
	refuse_header(NULL, "column \"safty_stock\" is unknown", "sku,on_hand,safty_stock\nA,1,2\n");
	refuse_header(NULL, "; a foreign file needs --map or --profile", /* the longest sentence, to its end */
	              "sku,a_column_with_a_name_of_more_than_sixty_bytes_which_are_cut_behind_them\nA,1\n");
	refuse_header(NULL, "there is no column sku", "on_hand\n1\n");
	refuse_header(NULL, "nothing to import", "sku,reason\nA,x\n");
	refuse_header(NULL, "two columns for on_hand", "sku,on_hand,on_hand\nA,1,2\n");
	refuse_header(NULL, "title_english", "sku,title_english\nA,x\n");
	refuse_header(NULL, "two columns for title_en", "sku,title_en,title_en\nA,x,y\n");
	refuse_header(NULL, "semicolons: say --separator ';'", "sku;on_hand\nA;1\n");
	refuse_header(NULL, "tabs: say --separator '\\t'", "sku\ton_hand\nA\t1\n");
	refuse_header(NULL, "column \"SKU\" is unknown", "SKU,on_hand\nA,1\n");
}

static void a_map_names_foreign_columns_and_the_rest_is_ignored(void **state)
{
	read_file(&r, "sku=Artikel,delta=Menge,title_de=Text", "Lager,Artikel,Text,Menge\nX,A,rot,-4\n");
	assert_true(r.header_ok);
	assert_int_equal(r.error, LU_OK);
	assert_true(text_equal(r.row.sku, TEXT("A")));
	assert_int_equal(r.row.delta, -4);
	assert_true(text_equal(import_row_titles(&r.columns, &r.row, &r.arena), TEXT("{\"de\":\"rot\"}")));
	arena_done(&r.arena);
	refuse_header("sku=Artikel,delta=Zahl", "no column \"Zahl\"", "Artikel,Menge\nA,1\n");
	refuse_header("sku=Artikel,menge=Menge", "column \"menge\" is unknown", "Artikel,Menge\nA,1\n");
	refuse_header("sku:Artikel", "--map wants column=name", "Artikel,Menge\nA,1\n");
	refuse_header("delta=Menge", "there is no column sku", "Artikel,Menge\nA,1\n");
}

static void the_profile_of_the_order_file_takes_codes_and_descriptions(void **state)
{
	const struct import_profile *profile = import_profile_find("online-retail");
	assert_non_null(profile);
	assert_true(profile->one_row_per_sku);
	assert_string_equal(profile->encoding, "ISO-8859-1");
	read_file(&r, profile->map,
	          "InvoiceNo,StockCode,Description,Quantity,UnitPrice,CustomerID,Country\n"
	          "536365,85123A,WHITE HANGING HEART,6,2.55,17850,United Kingdom\n");
	assert_int_equal(r.error, LU_OK);
	assert_true(text_equal(r.row.sku, TEXT("85123A")));
	assert_false(import_row_counts(&r.row));
	assert_true(text_equal(import_row_titles(&r.columns, &r.row, &r.arena), TEXT("{\"en\":\"WHITE HANGING HEART\"}")));
	arena_done(&r.arena);
	assert_null(import_profile_find("online"));
	assert_non_null(strstr(import_profile_names(), "online-retail"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_count_a_receipt_and_settings_are_read),
		cmocka_unit_test(an_empty_optional_field_is_not_given),
		cmocka_unit_test(a_row_fills_on_hand_or_delta),
		cmocka_unit_test(counts_are_whole_numbers_within_their_bounds),
		cmocka_unit_test(sku_codes_obey_the_one_rule),
		cmocka_unit_test(a_row_has_the_columns_of_the_header),
		cmocka_unit_test(titles_become_json_by_language),
		cmocka_unit_test(names_stand_between_semicolons),
		cmocka_unit_test(a_header_that_cannot_be_followed_refuses_the_file),
		cmocka_unit_test(a_map_names_foreign_columns_and_the_rest_is_ignored),
		cmocka_unit_test(the_profile_of_the_order_file_takes_codes_and_descriptions),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
