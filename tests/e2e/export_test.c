/* `lastunit export`: what it writes is that stock again where it is imported, and the ledger as it stands.
 *
 * Guards against: a file that import does not take, or takes for another stock; a page left out or told twice; a name or a
 * title lost without a word; a correction that overwrites what was sold meanwhile.
 */
#include "lib/quiet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static struct quiet shop;

static int start(void **state)
{
	quiet_start(NULL, NULL);
	return 0;
}

static int end(void **state)
{
	quiet_end();
	return 0;
}

static int open_shop(void **state)
{
	quiet_open(&shop);
	return 0;
}

/* What it printed; the caller frees it. */
static char *exported(const struct quiet *from, const char *option, const char *value)
{
	struct command command = quiet_run(from, (const char *[]){"export", option, value, NULL});
	if (command.exit_code)
		fail_msg("export: %d: %s", command.exit_code, command.err);
	char *out = strdup(command.out);
	command_done(&command);
	return out;
}

static void assert_exported(const struct quiet *from, const char *option, const char *value, const char *expected)
{
	char *out = exported(from, option, value);
	assert_string_equal(out, expected);
	free(out);
}

static int import(const struct quiet *into, const char *file, char err[600])
{
	char path[] = "/tmp/export-test-XXXXXX";
	int fd = mkstemp(path);
	assert_int_equal(write(fd, file, strlen(file)), (ssize_t)strlen(file));
	close(fd);
	struct command command = quiet_run(into, (const char *[]){"import", path, NULL});
	int code = command.exit_code;
	snprintf(err, 600, "%s%s", command.out, command.err);
	command_done(&command);
	unlink(path);
	return code;
}

static void texts(const char *code, const char *titles, const char *names)
{
	char sql[800];
	snprintf(
		sql, sizeof sql,
		"INSERT INTO lastunit.sku_text (sku_id, titles, names) SELECT id, %s, %s FROM lastunit.sku WHERE code = '%s'",
		titles, names, code);
	quiet_sql(&shop, sql);
}

static void what_is_exported_is_that_stock_again_where_it_is_imported(void **state)
{
	static const char expected[] =
		"sku,on_hand,safety_stock,tracked,title_en,title_pt-BR,title_ru,names\n"
		"\"a \"\"quoted\"\", code\",3,0,true,\"a title,\nof two lines\",,,\n"
		"gift,0,0,false,,,,\n"
		"lamp,7,2,true,Lamp,Lâmpada,Лампа,firefly; jar lamp\n"
		"Ω,1,0,true,,,,\n";
	quiet_sku(&shop, "lamp", 7);
	quiet_sku(&shop, "a \"quoted\", code", 3);
	quiet_sku(&shop, "gift", 0);
	quiet_sku(&shop, "Ω", 1);
	quiet_sql(&shop, "UPDATE lastunit.sku SET safety_stock = 2 WHERE code = 'lamp'");
	quiet_sql(&shop, "UPDATE lastunit.sku SET tracked = false WHERE code = 'gift'");
	texts("lamp", "'{\"en\": \"Lamp\", \"ru\": \"Лампа\", \"pt-BR\": \"Lâmpada\"}'", "'{firefly,jar lamp}'");
	texts("a \"quoted\", code", "E'{\"en\": \"a title,\\\\nof two lines\"}'", "NULL");
	assert_exported(&shop, NULL, NULL, expected);
	struct quiet other;
	char err[600];
	quiet_open(&other);
	if (import(&other, expected, err))
		fail_msg("import: %s", err);
	assert_exported(&other, NULL, NULL, expected);
	assert_exported(&other, "--sku", "lamp",
	                "sku,on_hand,safety_stock,tracked,title_en,title_pt-BR,title_ru,names\n"
	                "lamp,7,2,true,Lamp,Lâmpada,Лампа,firefly; jar lamp\n");
}

static void a_corrected_file_refuses_what_was_sold_meanwhile(void **state)
{
	char err[600];
	quiet_sku(&shop, "lamp", 7);
	quiet_sku(&shop, "mug", 7);
	assert_exported(&shop, "--change-from", NULL,
	                "sku,on_hand,change_from,safety_stock,tracked,names\nlamp,7,7,0,true,\nmug,7,7,0,true,\n");
	quiet_sql(&shop, "UPDATE lastunit.sku SET on_hand = 6 WHERE code = 'lamp'");
	assert_int_equal(import(&shop, "sku,on_hand,change_from,safety_stock,tracked,names\nlamp,9,7,0,true,\n", err), 1);
	assert_non_null(strstr(err, "on_hand is 6, change_from says 7"));
	assert_int_equal(import(&shop, "sku,on_hand,change_from,safety_stock,tracked,names\nmug,9,7,0,true,\n", err), 0);
	assert_string_equal(quiet_sql(&shop, "SELECT string_agg(on_hand::text, ' ' ORDER BY code) FROM lastunit.sku"),
	                    "6 9");
}

static void lines_of_json_have_what_is_held(void **state)
{
	quiet_sku(&shop, "lamp", 7);
	texts("lamp", "'{\"en\": \"Lamp\"}'", "'{a;b}'");
	quiet_sql(&shop, "UPDATE lastunit.sku SET safety_stock = 2 WHERE code = 'lamp'");
	int code;
	json_t *line = quiet_json(&shop, (const char *[]){"export", "--json", NULL}, &code);
	assert_int_equal(code, 0);
	assert_string_equal(quiet_text(line, "sku"), "lamp");
	assert_string_equal(quiet_text(line, "titles.en"), "Lamp");
	assert_string_equal(quiet_text(line, "names.0"), "a;b");
	assert_int_equal(quiet_number(line, "reserved"), 0);
	assert_int_equal(quiet_number(line, "available"), 5);
	assert_int_equal(quiet_number(line, "version"), 2);
	json_decref(line);
}

/* More than two pages of them, so that a row at the seam would be seen lost or twice. */
static void make_many(void)
{
	quiet_sql(
		&shop,
		"WITH s AS (INSERT INTO lastunit.sku (code, on_hand, writer) SELECT 'c' || lpad(n::text, 5, '0'), 1,"
		" gen_random_uuid() FROM generate_series(1, 12000) n RETURNING id), t AS (INSERT INTO lastunit.sku_text"
		" (sku_id, titles) SELECT id, jsonb_build_object(CASE WHEN id % 6001 = 0 THEN 'fr' ELSE 'en' END, 'x')"
		" FROM s) INSERT INTO lastunit.ledger (sku_id, version, kind, on_hand_delta, reserved_delta, on_hand_after,"
		" reserved_after, channel) SELECT id, 1, 1, 1, 0, 1, 0, 7 FROM s");
}

static int count_lines(const char *text)
{
	int lines = 0;
	for (; *text; text++)
		lines += *text == '\n';
	return lines;
}

static void each_row_of_many_pages_is_there_once(void **state)
{
	static const char *const options[] = {"--no-ledger", "--ledger"};
	make_many();
	for (int i = 0; i < 2; i++) {
		char *out = exported(&shop, options[i], NULL), *at = out;
		assert_int_equal(count_lines(out), 12001);
		if (i == 0)
			assert_memory_equal(out, "sku,on_hand,safety_stock,tracked,title_en,title_fr,names\n", 57);
		for (int n = 1; n <= 12000; n++) {
			char code[16];
			snprintf(code, sizeof code, "\nc%05d,", n);
			if (!(at = strstr(at, code)))
				fail_msg("%s: no line of c%05d behind those before it", options[i], n);
		}
		free(out);
	}
}

static void the_ledger_is_told_entry_by_entry(void **state)
{
	quiet_sku(&shop, "lamp", 7);
	quiet_sku(&shop, "mug", 1);
	quiet_sql(&shop, "UPDATE lastunit.sku SET on_hand = 5 WHERE code = 'lamp'");
	char *out = exported(&shop, "--ledger", NULL);
	assert_int_equal(count_lines(out), 4);
	assert_non_null(strstr(out, "\nlamp,1,20"));
	assert_non_null(strstr(out, "Z,create,admin,,7,0,7,0,,\n"));
	assert_non_null(strstr(out, "Z,sql,sql,,-2,0,5,0,"));
	assert_non_null(strstr(out, "\nmug,1,20"));
	free(out);
	struct command one = quiet_run(&shop, (const char *[]){"export", "--ledger", "--sku", "mug", "--json", NULL});
	assert_int_equal(one.exit_code, 0);
	assert_int_equal(count_lines(one.out), 1);
	json_t *line = json_loads(one.out, 0, NULL);
	assert_string_equal(quiet_text(line, "sku"), "mug");
	assert_string_equal(quiet_text(line, "kind"), "create");
	assert_int_equal(quiet_number(line, "on_hand_after"), 1);
	json_decref(line);
	command_done(&one);
}

static void an_entry_of_the_ledger_has_all_its_columns(void **state)
{
	quiet_sku(&shop, "lamp", 7);
	quiet_sql(&shop,
	          "INSERT INTO lastunit.principal (name, channel) VALUES ('Till, 1', 6);"
	          "INSERT INTO lastunit.ledger (sku_id, version, at, kind, on_hand_delta, reserved_delta, on_hand_after,"
	          " reserved_after, principal_id, operation_id, channel, reference)"
	          " SELECT s.id, 2, '2026-12-01 14:32:05.123+00', 4, -3, -2, 4, 1, p.id,"
	          " '00000000-0000-7000-8000-000000000001', 6, 'order \"7\"' FROM lastunit.sku s, lastunit.principal p"
	          " WHERE p.name = 'Till, 1'");
	char *out = exported(&shop, "--ledger", NULL);
	const char *line = strstr(out, "\nlamp,2,");
	assert_non_null(line);
	assert_string_equal(line,
	                    "\nlamp,2,2026-12-01T14:32:05.123Z,commit,pos,\"Till, 1\",-3,-2,4,1,\"order \"\"7\"\"\","
	                    "00000000-0000-7000-8000-000000000001\n");
	free(out);
}

/* More than two pages of one SKU's. */
static void the_ledger_of_one_is_told_to_its_end(void **state)
{
	quiet_sku(&shop, "lamp", 1);
	quiet_sql(&shop,
	          "INSERT INTO lastunit.ledger (sku_id, version, kind, on_hand_delta, reserved_delta, on_hand_after,"
	          " reserved_after, channel) SELECT 1, n, 8, 1, 0, n, 0, 7 FROM generate_series(2, 10001) n");
	struct command one = quiet_run(&shop, (const char *[]){"export", "--ledger", "--sku", "lamp", NULL});
	assert_int_equal(one.exit_code, 0);
	assert_int_equal(count_lines(one.out), 1 + 10001);
	const char *at = one.out;
	for (int n = 1; n <= 10001; n++) {
		char start[24];
		snprintf(start, sizeof start, "\nlamp,%d,", n);
		if (!(at = strstr(at, start)))
			fail_msg("no version %d behind those before it", n);
	}
	command_done(&one);
}

static void assert_fails(const char *const *arguments, int exit_code, const char *why)
{
	struct command command = quiet_run(&shop, arguments);
	if (command.exit_code != exit_code || !strstr(command.err, why))
		fail_msg("%s %s: %d: %s", arguments[1], arguments[2] ? arguments[2] : "", command.exit_code, command.err);
	command_done(&command);
}

static void what_cannot_stand_in_the_file_is_told(void **state)
{
	quiet_sku(&shop, "lamp", 7);
	quiet_sku(&shop, "mug", 7);
	texts("lamp", "NULL", "'{a;b,c,\" \",\" d\",\"e \"}'");
	struct command command = quiet_run(&shop, (const char *[]){"export", NULL});
	assert_int_equal(command.exit_code, 1);
	assert_non_null(strstr(command.err, "4 of the names have a semicolon"));
	assert_non_null(strstr(command.out, "\nlamp,7,0,true,c\nmug,7,0,true,\n"));
	command_done(&command);
	assert_fails((const char *[]){"export", "--sku", "lump", NULL}, 1, "there is no SKU lump");
	assert_fails((const char *[]){"export", "--ledger", "--sku", "lump", NULL}, 1, "there is no SKU lump");
	assert_fails((const char *[]){"export", "--sku", " lamp", NULL}, 2, "SKU");
	assert_fails((const char *[]){"export", "--ledger", "--change-from", NULL}, 2, "--change-from");
	assert_fails((const char *[]){"export", "--json", "--change-from", NULL}, 2, "--change-from");
	assert_fails((const char *[]){"export", "--database-url", "host=/nonexistent", NULL}, 3, "nonexistent");
	command = command_run_into("/dev/full", (const char *[]){"export", "--sku", "mug", NULL}, shop.variables);
	assert_int_equal(command.exit_code, 1);
	command_done(&command);
}

#define SHOP_OPENED(f) cmocka_unit_test_setup(f, open_shop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SHOP_OPENED(what_is_exported_is_that_stock_again_where_it_is_imported),
		SHOP_OPENED(a_corrected_file_refuses_what_was_sold_meanwhile),
		SHOP_OPENED(lines_of_json_have_what_is_held),
		SHOP_OPENED(each_row_of_many_pages_is_there_once),
		SHOP_OPENED(the_ledger_is_told_entry_by_entry),
		SHOP_OPENED(an_entry_of_the_ledger_has_all_its_columns),
		SHOP_OPENED(the_ledger_of_one_is_told_to_its_end),
		SHOP_OPENED(what_cannot_stand_in_the_file_is_told),
	};
	return cmocka_run_group_tests(tests, start, end);
}
