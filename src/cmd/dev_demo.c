/* The demo catalogue: sql/demo.csv, a small gift shop, loaded into an empty catalogue.
 *
 * Happy path: parse the embedded file, BEGIN, insert the SKUs with their titles, names and first ledger entries, COMMIT:
 * all of it or nothing, so a start that was cut short loads it the next time. It runs before the service does; a SKU
 * that is new is in nobody's cache.
 * Failure modes: a row that is not as the header says is a broken build (CHECK): the file is ours.
 */
#include <csv.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/embed.h"
#include "base/id.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/dev.h"
#include "store/sku.h"
#include "store/tx.h"

#define LOAD_MS 30000
#define PRODUCTS_MAX 200
#define NAMES_MAX 8

enum column { COLUMN_SKU, COLUMN_ON_HAND, COLUMN_SAFETY_STOCK, COLUMN_EN, COLUMN_RU, COLUMN_NAMES, COLUMN_COUNT };

struct catalogue {
	struct arena *arena;
	struct text cells[COLUMN_COUNT];
	size_t column;
	size_t line;
	struct sku_insert *inserts;
	size_t count;
};

static struct text titles_json(struct arena *arena, struct text en, struct text ru)
{
	struct buffer out = {0};
	struct json_writer w = json_writer(&out);
	json_object_open(&w);
	json_key(&w, "en");
	json_put_text(&w, en);
	json_key(&w, "ru");
	json_put_text(&w, ru);
	json_object_close(&w);
	struct text copy = arena_text(arena, buffer_text(&out));
	buffer_done(&out);
	return copy;
}

/* "mug;cup" -> names. */
static void split_names(struct arena *arena, struct text list, struct sku_change *change)
{
	change->names = ARENA_ARRAY(arena, NAMES_MAX, struct text);
	change->names_given = true;
	while (list.size) {
		const char *end = memchr(list.data, ';', list.size);
		size_t size = end ? (size_t)(end - list.data) : list.size;
		CHECK(size > 0 && change->name_count < NAMES_MAX);
		change->names[change->name_count++] = (struct text){list.data, size};
		size += end != NULL;
		list = (struct text){list.data + size, list.size - size};
	}
}

static void on_cell(void *data, size_t size, void *context)
{
	struct catalogue *catalogue = context;
	CHECK(catalogue->column < COLUMN_COUNT);
	catalogue->cells[catalogue->column++] = arena_text(catalogue->arena, (struct text){data, size});
}

static void on_line(int separator, void *context)
{
	struct catalogue *catalogue = context;
	struct arena *arena = catalogue->arena;
	const struct text *cells = catalogue->cells;
	CHECK(catalogue->column == COLUMN_COUNT && "demo.csv: columns");
	catalogue->column = 0;
	if (catalogue->line++ == 0)
		return; /* the header */
	CHECK(catalogue->count < PRODUCTS_MAX);
	struct operation *operation = ARENA_NEW(arena, struct operation);
	*operation = (struct operation){.kind = OPERATION_SKU_PUT,
	                                .arena = arena,
	                                .new_id = uuid_new(),
	                                .line_count = 1,
	                                .principal = {.channel = CHANNEL_SYSTEM}};
	operation->lines = ARENA_NEW(arena, struct line);
	operation->lines[0].sku = cells[COLUMN_SKU];
	CHECK(text_check_sku(cells[COLUMN_SKU]) == LU_OK);
	struct sku_change *change = operation->sku_change = ARENA_NEW(arena, struct sku_change);
	*change = (struct sku_change){.on_hand_given = true,
	                              .safety_stock_given = true,
	                              .tracked_given = true,
	                              .tracked = true,
	                              .titles_given = true,
	                              .titles_json = titles_json(arena, cells[COLUMN_EN], cells[COLUMN_RU])};
	CHECK(text_to_int64(cells[COLUMN_ON_HAND], &change->on_hand));
	CHECK(text_to_int64(cells[COLUMN_SAFETY_STOCK], &change->safety_stock));
	split_names(arena, cells[COLUMN_NAMES], change);
	catalogue->inserts[catalogue->count++] = (struct sku_insert){.operation = operation,
	                                                             .figures = {.version = 1,
	                                                                         .on_hand = change->on_hand,
	                                                                         .safety_stock = change->safety_stock,
	                                                                         .tracked = true}};
}

static int compare_inserts(const void *a, const void *b)
{
	return text_compare(((const struct sku_insert *)a)->operation->lines[0].sku,
	                    ((const struct sku_insert *)b)->operation->lines[0].sku);
}

static void parse(struct catalogue *catalogue)
{
	struct text file = embed_find("sql/demo.csv");
	struct csv_parser parser;
	CHECK(csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI) == 0);
	CHECK(csv_parse(&parser, file.data, file.size, on_cell, on_line, catalogue) == file.size);
	CHECK(csv_fini(&parser, on_cell, on_line, catalogue) == 0);
	csv_free(&parser);
	/* Lock order: new SKUs by code. */
	qsort(catalogue->inserts, catalogue->count, sizeof *catalogue->inserts, compare_inserts);
}

static bool is_empty(struct pg *pg, struct arena *arena, int64_t deadline_ns, enum lu_error *ret_error)
{
	struct sku_page_row *rows;
	size_t count = 0;
	*ret_error = sku_page(pg, arena, TEXT(""), false, 1, deadline_ns, &rows, &count);
	return count == 0;
}

static enum lu_error insert(struct pg *pg, struct arena *arena, const struct catalogue *catalogue, int64_t deadline_ns)
{
	tx_begin_send(pg);
	sku_insert_send(pg, arena, catalogue->inserts, catalogue->count);
	enum lu_error error = pg_pipe_send(pg, deadline_ns);
	if (!error)
		error = tx_begin_take(pg, deadline_ns);
	if (!error)
		error = sku_insert_take(pg, deadline_ns);
	enum lu_error end = pg_pipe_end(pg, deadline_ns);
	if (!error)
		error = end;
	bool sent;
	return error ? error : pg_commit(pg, deadline_ns, &sent);
}

bool dev_demo_load(struct pg *pg, int64_t *ret_count, char ret_why[512])
{
	struct arena arena;
	arena_init(&arena, 64 * 1024);
	struct catalogue catalogue = {.arena = &arena};
	catalogue.inserts = ARENA_ARRAY(&arena, PRODUCTS_MAX, struct sku_insert);
	int64_t deadline_ns = deadline_in_ms(LOAD_MS);
	enum lu_error error;
	*ret_count = 0;
	if (is_empty(pg, &arena, deadline_ns, &error) && !error) {
		parse(&catalogue);
		error = insert(pg, &arena, &catalogue, deadline_ns);
		if (!error)
			*ret_count = (int64_t)catalogue.count;
	}
	arena_done(&arena);
	return !error ||
	       cmd_refuse(ret_why, "cannot load the demo catalogue: %s %s", lu_error_code(error), pg_error(pg)->message);
}

bool dev_demo_there(struct pg *pg, bool *ret_there, char ret_why[512])
{
	struct arena arena;
	arena_init(&arena, 4096);
	struct text code = TEXT(DEV_DEMO_SKU);
	struct sku_figures_row *row = NULL;
	enum lu_error error = sku_read(pg, &arena, &code, 1, deadline_in_ms(LOAD_MS), &row);
	*ret_there = !error && row->known;
	arena_done(&arena);
	return !error ||
	       cmd_refuse(ret_why, "cannot read the catalogue: %s %s", lu_error_code(error), pg_error(pg)->message);
}
