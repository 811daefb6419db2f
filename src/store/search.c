/* The search: one call of search_products() in the database (sql/0007), which is where the words are. Failure modes: as
 * in pg.h. */
#include "store/search.h"

/* Cut where a character ends. */
static struct text cut(struct text said)
{
	if (said.size > SEARCH_BYTES_MAX)
		for (said.size = SEARCH_BYTES_MAX; said.size && ((unsigned char)said.data[said.size] & 0xc0) == 0x80;)
			said.size--;
	return said;
}

enum lu_error search_products(struct pg *pg, struct arena *arena, struct text said, size_t limit, int64_t deadline_ns,
                              struct sku_page_row **ret_rows, size_t *ret_count)
{
	static const struct pg_statement statement = {
		"search_products",
		"SELECT id, code, version, on_hand, reserved, safety_stock, tracked, coalesce(titles, '{}')::text,"
		" coalesce(names, '{}') FROM search_products($1, $2::integer)",
	};
	struct pg_params p;
	PGresult *r;
	pg_params_init(&p, arena);
	pg_add_text(&p, cut(said));
	pg_add_int8(&p, (int64_t)limit);
	enum lu_error error = pg_query(pg, &statement, &p, deadline_ns, &r);
	if (error)
		return error;
	*ret_count = (size_t)PQntuples(r);
	*ret_rows = ARENA_ARRAY(arena, *ret_count, struct sku_page_row);
	for (int i = 0; i < PQntuples(r); i++) {
		struct sku_page_row *row = *ret_rows + i;
		*row = (struct sku_page_row){
			.id = pg_get_int(r, i, 0),
			.code = pg_get_text(r, i, 1, arena),
			.figures = {.version = pg_get_int(r, i, 2),
		                .on_hand = pg_get_int(r, i, 3),
		                .reserved = pg_get_int(r, i, 4),
		                .safety_stock = pg_get_int(r, i, 5),
		                .tracked = pg_get_bool(r, i, 6)},
			.titles_json = pg_get_text(r, i, 7, arena),
		};
		row->name_count = pg_get_texts(r, i, 8, arena, &row->names);
	}
	PQclear(r);
	return LU_OK;
}
