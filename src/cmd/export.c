/* `lastunit export`: the stock as a CSV file that `import` takes, or the ledger.
 *
 * Happy path: the languages of the titles, which make the columns; then page after page, each in a short statement of its
 * own: one long snapshot would keep the dead versions of hot rows from being cleaned away.
 * Failure modes: no such SKU, a title in a language that came meanwhile, or names that a CSV file cannot hold (1);
 * PostgreSQL away (3). What was printed until then stands there: the exit code says whether it is whole.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/export_rows.h"

#define PAGE_ROWS 5000
#define PAGE_MS 60000
#define LANGUAGES_MAX 1000 /* a row of CSV has so many columns at most, and a spreadsheet fewer */

static const struct manual manual = {
	.name = "export",
	.usage = "export [options] > FILE",
	.about =
		"Writes the stock as a CSV file that `lastunit import` takes, SKU by SKU in the order of their codes:\n"
		"\n"
		"  sku,on_hand,safety_stock,tracked,title_en,title_ru,names\n"
		"\n"
		"or, with --ledger, every entry that was ever made, SKU by SKU, in the order of their versions:\n"
		"\n"
		"  sku,version,at,kind,channel,principal,on_hand_delta,reserved_delta,on_hand_after,reserved_after,\n"
		"  reference,operation_id\n"
		"\n"
		"It reads in short statements and keeps nobody waiting; so beside a running service each page of 5000 rows\n"
		"is of its own moment. Use pg_dump for a backup.\n",
	.shared = "database_url log_level",
	.examples =
		"  lastunit export > stock.csv\n"
		"  lastunit export --change-from > count.csv     corrected and imported, it refuses what was sold meanwhile\n"
		"  lastunit export --ledger --sku LAMP-FIREFLY --json\n",
	.exit_codes =
		"  0  written, all of it\n"
		"  1  it failed, or something was left out; one line on stderr says what\n"
		"  2  wrong usage or configuration, a schema of another version\n"
		"  3  PostgreSQL cannot be reached\n",
};

struct export
{
	struct pg *pg;
	const char *sku; /* "": all */
	bool as_json;
	struct export_columns columns;
	struct arena columns_arena, page;
	struct buffer out;
	int64_t names_left_out;
};

/* What the page has made goes out. False: it cannot be printed, which main.c will say. */
static bool print(struct export *x)
{
	bool printed = fwrite(x->out.data, 1, x->out.size, stdout) == x->out.size;
	buffer_clear(&x->out);
	arena_reset(&x->page);
	return printed;
}

static int database_failed(const struct export *x)
{
	return cmd_fail(&manual, pg_connected(x->pg) ? EXIT_FAILED : EXIT_BACKEND, "%s", pg_error(x->pg)->message);
}

static int unknown_sku(const struct export *x)
{
	return cmd_fail(&manual, EXIT_FAILED, "there is no SKU %s", x->sku);
}

/* --- the stock ---------------------------------------------------------------------------------------------------- */

/* Both are in byte order. */
static void merge_languages(struct export *x, const struct text *more, size_t count)
{
	struct text *all = ARENA_ARRAY(&x->columns_arena, x->columns.language_count + count, struct text);
	size_t n = 0, i = 0;
	for (size_t j = 0; i < x->columns.language_count || j < count;) {
		int order = i == x->columns.language_count ? 1
		            : j == count                   ? -1
		                                           : text_compare(x->columns.languages[i], more[j]);
		all[n++] = order <= 0 ? x->columns.languages[i] : arena_text(&x->columns_arena, more[j]);
		i += order <= 0;
		j += order >= 0;
	}
	if (n == x->columns.language_count)
		return;
	x->columns.languages = all;
	x->columns.language_count = n;
}

static int find_languages(struct export *x)
{
	for (int64_t last = 0;;) {
		struct text *languages;
		size_t count;
		if (sku_languages(x->pg, &x->page, last, PAGE_ROWS, deadline_in_ms(PAGE_MS), &languages, &count, &last))
			return database_failed(x);
		if (!last)
			return EXIT_OK;
		merge_languages(x, languages, count);
		arena_reset(&x->page);
		if (x->columns.language_count > LANGUAGES_MAX)
			return cmd_fail(&manual, EXIT_FAILED, "titles have more than %d languages: use --json", LANGUAGES_MAX);
	}
}

static int put_sku(struct export *x, const struct sku_page_row *row)
{
	if (x->as_json)
		export_stock_json(&x->out, row);
	else if (!export_stock_csv(&x->out, row, &x->columns, &x->names_left_out))
		return cmd_fail(&manual, EXIT_FAILED, "%.*s has a title in a language that came meanwhile: export once more",
		                (int)row->code.size, row->code.data);
	return EXIT_OK;
}

static int export_stock(struct export *x)
{
	int code = EXIT_OK;
	if (!x->as_json) {
		if ((code = find_languages(x)))
			return code;
		export_stock_head(&x->out, &x->columns);
	}
	struct buffer after = {0};
	buffer_add_string(&after, x->sku);
	for (size_t count = PAGE_ROWS; count == PAGE_ROWS && !code;) {
		struct sku_page_row *rows;
		bool one = *x->sku;
		if (sku_page(x->pg, &x->page, buffer_text(&after), one, PAGE_ROWS, deadline_in_ms(PAGE_MS), &rows, &count))
			code = database_failed(x);
		else if (one && !count)
			code = unknown_sku(x);
		for (size_t i = 0; i < count && !code; i++)
			code = put_sku(x, &rows[i]);
		if (!code && count) {
			buffer_clear(&after);
			buffer_add_text(&after, rows[count - 1].code);
		}
		if (!print(x))
			break;
	}
	buffer_done(&after);
	if (!code && x->names_left_out)
		code =
			cmd_fail(&manual, EXIT_FAILED,
		             "%" PRId64
		             " of the names have a semicolon, which stands between names in such a file, or a blank at an end, "
		             "which import takes off: they were left out; --json has them",
		             x->names_left_out);
	return code;
}

/* --- the ledger --------------------------------------------------------------------------------------------------- */

static void put_entry(struct export *x, struct text sku, const struct ledger_row *row)
{
	if (x->as_json)
		export_ledger_json(&x->out, sku, row);
	else
		export_ledger_csv(&x->out, sku, row);
}

static int export_ledger_of_one(struct export *x)
{
	struct ledger_row *rows;
	bool known;
	int64_t version = 0;
	for (size_t count = PAGE_ROWS; count == PAGE_ROWS;) {
		if (ledger_page(x->pg, &x->page, text_of(x->sku), version, PAGE_ROWS, deadline_in_ms(PAGE_MS), &rows, &count,
		                &known))
			return database_failed(x);
		if (!known)
			return unknown_sku(x);
		for (size_t i = 0; i < count; i++)
			put_entry(x, text_of(x->sku), &rows[i]);
		if (count)
			version = rows[count - 1].entry.version;
		if (!print(x))
			break;
	}
	return EXIT_OK;
}

static int export_ledger(struct export *x)
{
	if (!x->as_json)
		export_ledger_head(&x->out);
	if (*x->sku)
		return export_ledger_of_one(x);
	struct ledger_walk_row *rows;
	int64_t sku_id = 0, version = 0;
	for (size_t count = PAGE_ROWS; count == PAGE_ROWS;) {
		if (ledger_walk(x->pg, &x->page, sku_id, version, PAGE_ROWS, deadline_in_ms(PAGE_MS), &rows, &count))
			return database_failed(x);
		for (size_t i = 0; i < count; i++)
			put_entry(x, rows[i].sku, &rows[i].row);
		if (count) {
			sku_id = rows[count - 1].row.entry.sku_id;
			version = rows[count - 1].row.entry.version;
		}
		if (!print(x))
			break;
	}
	return EXIT_OK;
}

int cmd_export(int argc, char **argv)
{
	struct config config;
	struct export x = {0};
	bool ledger;
	const struct config_option flags[] =
		{{"sku", CONFIG_STRING, "", 0, LU_SKU_BYTES_MAX, "", "only this one", &x.sku},
	     {"ledger", CONFIG_BOOL, "0", 0, 1, "", "every entry of the ledger instead of the stock", &ledger},
	     {"change_from", CONFIG_BOOL, "0", 0, 1, "",
	      "on_hand once more, as the column that makes an import refuse the row if the count is another by then",
	      &x.columns.change_from},
	     {"json", CONFIG_BOOL, "0", 0, 1, "",
	      "lines of JSON instead, as the API shows a SKU or an entry: with what is held, and of all languages",
	      &x.as_json},
	     {0}};
	int positionals, code = cmd_begin(&manual, &config, flags, argc, argv, &positionals);
	if (code != CMD_GO_ON)
		return code;
	if (x.columns.change_from && (ledger || x.as_json))
		return cmd_fail(&manual, EXIT_USAGE, "--change-from is a column of the stock's CSV file");
	if (*x.sku && text_check_sku(text_of(x.sku)))
		return cmd_fail(&manual, EXIT_USAGE, "%s", lu_error_mend(LU_INVALID_SKU));
	if ((code = cmd_connect_migrated(&manual, config.database_url, &x.pg)))
		return code;
	arena_init(&x.columns_arena, 1 << 12);
	arena_init(&x.page, 1 << 20);
	code = ledger ? export_ledger(&x) : export_stock(&x);
	pg_free(x.pg);
	buffer_done(&x.out);
	arena_done(&x.page);
	arena_done(&x.columns_arena);
	return code;
}
