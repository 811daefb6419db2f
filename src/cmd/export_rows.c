/* The lines of an export (export_rows.h): the columns of the stock are those of import_rows.c. */
#include "cmd/export_rows.h"

#include <string.h>

#include "api/render.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/json.h"
#include "base/text.h"

static void put_field(struct buffer *out, struct text text)
{
	buffer_add_char(out, ',');
	buffer_add_csv(out, text);
}

static void put_count(struct buffer *out, int64_t count)
{
	buffer_add_char(out, ',');
	buffer_add_int(out, count);
}

/* --- the stock ---------------------------------------------------------------------------------------------------- */

void export_stock_head(struct buffer *out, const struct export_columns *columns)
{
	buffer_add_string(out, "sku,on_hand");
	if (columns->change_from)
		buffer_add_string(out, ",change_from");
	buffer_add_string(out, ",safety_stock,tracked");
	for (size_t i = 0; i < columns->language_count; i++)
		buffer_add_format(out, ",title_%.*s", (int)columns->languages[i].size, columns->languages[i].data);
	buffer_add_string(out, ",names\n");
}

/* True: each title stands in a column. */
static bool put_titles(struct buffer *out, struct text titles_json, const struct export_columns *columns)
{
	json_t *titles = json_loadb(titles_json.data, titles_json.size, 0, NULL);
	size_t put = 0;
	for (size_t i = 0; i < columns->language_count; i++) {
		struct text language = columns->languages[i];
		const json_t *title = json_object_getn(titles, language.data, language.size);
		put += title != NULL;
		put_field(out, title ? json_text(title) : TEXT(""));
	}
	bool all = put == json_object_size(titles);
	json_decref(titles);
	return all;
}

/* As import reads them back (import_rows.c): between semicolons, without the blanks around them. */
static bool fits_column(struct text name)
{
	return name.size && !memchr(name.data, ';', name.size) && name.data[0] != ' ' && name.data[name.size - 1] != ' ';
}

static void put_names(struct buffer *out, const struct sku_page_row *row, int64_t *left_out)
{
	struct buffer names = {0};
	for (size_t i = 0; i < row->name_count; i++) {
		if (!fits_column(row->names[i])) {
			++*left_out;
			continue;
		}
		if (names.size)
			buffer_add_string(&names, "; ");
		buffer_add_text(&names, row->names[i]);
	}
	put_field(out, buffer_text(&names));
	buffer_done(&names);
}

bool export_stock_csv(struct buffer *out, const struct sku_page_row *row, const struct export_columns *columns,
                      int64_t *names_left_out)
{
	buffer_add_csv(out, row->code);
	put_count(out, row->figures.on_hand);
	if (columns->change_from)
		put_count(out, row->figures.on_hand);
	put_count(out, row->figures.safety_stock);
	buffer_add_string(out, row->figures.tracked ? ",true" : ",false");
	bool all = put_titles(out, row->titles_json, columns);
	put_names(out, row, names_left_out);
	buffer_add_char(out, '\n');
	return all;
}

void export_stock_json(struct buffer *out, const struct sku_page_row *row)
{
	static const struct principal anybody;
	const struct sku_names names = {row->names, row->name_count};
	struct json_writer w = json_writer(out);
	render_sku(&w, row->code, &row->figures, row->titles_json, &names, figures_available(&row->figures, &anybody));
	buffer_add_char(out, '\n');
}

/* --- the ledger --------------------------------------------------------------------------------------------------- */

void export_ledger_head(struct buffer *out)
{
	buffer_add_string(out,
	                  "sku,version,at,kind,channel,principal,on_hand_delta,reserved_delta,on_hand_after,"
	                  "reserved_after,reference,operation_id\n");
}

void export_ledger_csv(struct buffer *out, struct text sku, const struct ledger_row *row)
{
	const struct ledger_entry *entry = &row->entry;
	char id[UUID_TEXT_BYTES + 1] = "", at[25];
	clock_format(row->at_us, at);
	if (!uuid_is_nil(&entry->operation_id))
		uuid_format(&entry->operation_id, id);
	buffer_add_csv(out, sku);
	put_count(out, entry->version);
	put_field(out, text_of(at));
	put_field(out, text_of(ledger_kind_name(entry->kind)));
	put_field(out, text_of(channel_name(entry->channel)));
	put_field(out, row->principal);
	put_count(out, entry->on_hand_delta);
	put_count(out, entry->reserved_delta);
	put_count(out, entry->on_hand_after);
	put_count(out, entry->reserved_after);
	put_field(out, entry->reference);
	put_field(out, text_of(id));
	buffer_add_char(out, '\n');
}

void export_ledger_json(struct buffer *out, struct text sku, const struct ledger_row *row)
{
	struct json_writer w = json_writer(out);
	render_change(&w, sku, row);
	buffer_add_char(out, '\n');
}
