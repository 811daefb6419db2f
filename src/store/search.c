/* The search: one call of search_products() in the database (sql/0007), which is where the words are, behind the product
 * whose code it is that was said. Failure modes: as in pg.h. */
#include "store/search.h"

#include <string.h>

#include "base/text.h"

#define PRODUCT "id, code, version, on_hand, reserved, safety_stock, tracked, titles::text, next_release_at"

/* Cut where a character ends. */
static struct text cut(struct text said)
{
	if (said.size > SEARCH_BYTES_MAX)
		for (said.size = SEARCH_BYTES_MAX; said.size && ((unsigned char)said.data[said.size] & 0xc0) == 0x80;)
			said.size--;
	return said;
}

/* Without any of these at its end, nor blanks before it. */
static struct text without(struct text said, const char *signs)
{
	while (said.size && strchr(" \t\r\n", said.data[0])) {
		said.data++;
		said.size--;
	}
	while (said.size && strchr(signs, said.data[said.size - 1]))
		said.size--;
	return said;
}

static struct text code_or_none(struct text said)
{
	return text_check_sku(said) ? TEXT("") : said;
}

static enum lu_error read_products(struct pg *pg, struct arena *arena, const struct pg_statement *statement,
                                   const struct pg_params *params, int64_t deadline_ns, struct product **ret_products,
                                   size_t *ret_count)
{
	PGresult *r;
	enum lu_error error = pg_query(pg, statement, params, deadline_ns, &r);
	if (error)
		return error;
	*ret_count = (size_t)PQntuples(r);
	*ret_products = ARENA_ARRAY(arena, *ret_count, struct product);
	for (int i = 0; i < PQntuples(r); i++)
		(*ret_products)[i] = (struct product){
			.id = pg_get_int(r, i, 0),
			.code = pg_get_text(r, i, 1, arena),
			.figures = {.version = pg_get_int(r, i, 2),
		                .on_hand = pg_get_int(r, i, 3),
		                .reserved = pg_get_int(r, i, 4),
		                .safety_stock = pg_get_int(r, i, 5),
		                .tracked = pg_get_bool(r, i, 6)},
			.titles_json = pg_get_text(r, i, 7, arena),
			.next_release_us = pg_get_time(r, i, 8),
		};
	PQclear(r);
	return LU_OK;
}

enum lu_error search_products(struct pg *pg, struct arena *arena, struct text said, size_t limit, int64_t deadline_ns,
                              struct product **ret_products, size_t *ret_count)
{
	static const struct pg_statement statement = {
		"search_products",
		"WITH exact AS (SELECT * FROM product WHERE code IN ($3, $4) ORDER BY octet_length(code) DESC LIMIT 1)"
		" SELECT " PRODUCT
		" FROM (SELECT e.*, 0 AS nth FROM exact e UNION ALL"
		" SELECT * FROM search_products($1, $2::integer) WITH ORDINALITY f WHERE f.code NOT IN (SELECT code FROM exact)) p"
		" ORDER BY nth LIMIT $2",
	};
	struct pg_params p;
	pg_params_init(&p, arena);
	pg_add_text(&p, cut(said));
	pg_add_int8(&p, (int64_t)limit);
	struct text code = without(said, " \t\r\n");
	pg_add_text(&p, code_or_none(code));
	pg_add_text(&p, code_or_none(without(code, " ?!.,")));
	return read_products(pg, arena, &statement, &p, deadline_ns, ret_products, ret_count);
}

enum lu_error search_product(struct pg *pg, struct arena *arena, int64_t id, struct text code, int64_t deadline_ns,
                             struct product **ret_product)
{
	static const struct pg_statement by_id = {"search_product_by_id", "SELECT " PRODUCT " FROM product WHERE id = $1"};
	static const struct pg_statement by_code = {"search_product_by_code",
	                                            "SELECT " PRODUCT " FROM product WHERE code = $1"};
	struct pg_params p;
	struct product *rows;
	size_t count;
	pg_params_init(&p, arena);
	if (id)
		pg_add_int8(&p, id);
	else
		pg_add_text(&p, code);
	enum lu_error error = read_products(pg, arena, id ? &by_id : &by_code, &p, deadline_ns, &rows, &count);
	if (!error)
		*ret_product = count ? rows : NULL;
	return error;
}

enum lu_error search_name(struct pg *pg, struct arena *arena, int64_t id, int64_t deadline_ns,
                          struct product **ret_product)
{
	static const struct pg_statement statement = {
		"search_name",
		"SELECT s.code, coalesce(t.titles::text, '{}') FROM sku s LEFT JOIN sku_text t ON t.sku_id = s.id WHERE s.id = $1",
	};
	struct pg_params p;
	PGresult *r;
	pg_params_init(&p, arena);
	pg_add_int8(&p, id);
	enum lu_error error = pg_query(pg, &statement, &p, deadline_ns, &r);
	if (error)
		return error;
	*ret_product = NULL;
	if (PQntuples(r)) {
		*ret_product = ARENA_NEW(arena, struct product);
		(*ret_product)->id = id;
		(*ret_product)->code = pg_get_text(r, 0, 0, arena);
		(*ret_product)->titles_json = pg_get_text(r, 0, 1, arena);
	}
	PQclear(r);
	return LU_OK;
}
