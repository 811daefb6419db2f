/* New SKUs, and the titles and names of SKUs new and old.
 *
 * Happy path: one statement makes the rows, describes them and writes their first ledger entries. Failure modes: 23505
 * on sku_code_is_unique when somebody else made one of them meanwhile: nothing is made, the caller runs again.
 */
#include <string.h>

#include "base/check.h"
#include "base/id.h"
#include "store/lines.h"
#include "store/sku.h"

/* What SKUs are called, one element per SKU, the names flat with the number of the SKU they belong to (from 1). */
struct descriptions {
	size_t count, name_count;
	struct text *titles; /* data NULL: not given */
	bool *names_given;
	struct text *names;
	int64_t *names_of;
};

static struct descriptions descriptions_new(struct arena *arena, size_t count, size_t name_count)
{
	return (struct descriptions){
		.titles = ARENA_ARRAY(arena, count, struct text),
		.names_given = ARENA_ARRAY(arena, count, bool),
		.names = ARENA_ARRAY(arena, name_count, struct text),
		.names_of = ARENA_ARRAY(arena, name_count, int64_t),
	};
}

static void descriptions_add(struct descriptions *d, struct text titles, bool names_given, const struct text *names,
                             size_t name_count)
{
	d->titles[d->count] = titles;
	d->names_given[d->count++] = names_given;
	for (size_t i = 0; names_given && i < name_count; i++) {
		d->names[d->name_count] = names[i];
		d->names_of[d->name_count++] = (int64_t)d->count;
	}
}

/* titles, names_given, names, names_of: 4 parameters. */
static void descriptions_params(const struct descriptions *d, struct pg_params *p)
{
	pg_add_texts(p, d->titles, sizeof *d->titles, d->count);
	pg_add_bools(p, d->names_given, sizeof *d->names_given, d->count);
	pg_add_texts(p, d->names, sizeof *d->names, d->name_count);
	pg_add_int8s(p, d->names_of, sizeof *d->names_of, d->name_count);
}

static struct text titles_of(const struct sku_change *change)
{
	return change->titles_given ? change->titles_json : (struct text){0};
}

/* The names of each SKU as one array; (names, names_of) are the parameters' numbers. */
#define NAMES_CTE(names, names_of)                                                \
	"named AS MATERIALIZED (SELECT f.of, array_agg(f.name ORDER BY f.n) AS names" \
	" FROM unnest(" names ", " names_of ") WITH ORDINALITY AS f(name, of, n) GROUP BY f.of)"

void sku_insert_send(struct pg *pg, struct arena *arena, const struct sku_insert *inserts, size_t count)
{
	static const struct pg_statement statement = {
	        "sku_insert",
	        "WITH given AS MATERIALIZED (SELECT * FROM unnest($1, $2, $3, $4, $5, $7, $8, $11, $12, $13, $14)"
	        " WITH ORDINALITY AS u(code, on_hand, safety_stock, tracked, version, titles, names_given, channel,"
	        " principal_id, reference, operation_id, n)),"
	        NAMES_CTE("$9", "$10") ","
	        "made AS (INSERT INTO sku (code, on_hand, safety_stock, tracked, version, writer)"
	        " SELECT g.code, g.on_hand, g.safety_stock, g.tracked, g.version, $6 FROM given g ORDER BY g.n"
	        " RETURNING id, code),"
	        "described AS (INSERT INTO sku_text (sku_id, titles, names)"
	        " SELECT m.id, g.titles::jsonb, CASE WHEN g.names_given THEN coalesce(d.names, '{}') END"
	        " FROM given g JOIN made m ON m.code = g.code LEFT JOIN named d ON d.of = g.n RETURNING 1),"
	        "entered AS (INSERT INTO ledger (sku_id, version, kind, on_hand_delta, reserved_delta, on_hand_after, reserved_after,"
	        " channel, principal_id, reference, operation_id)"
	        " SELECT m.id, g.version, $15::smallint, g.on_hand, 0, g.on_hand, 0, g.channel, nullif(g.principal_id, 0),"
	        " g.reference, g.operation_id FROM given g JOIN made m ON m.code = g.code RETURNING 1) "
	        "SELECT (SELECT count(*) FROM described) = cardinality($1) AND (SELECT count(*) FROM entered) = cardinality($1)",
	};
	struct operation *operations = ARENA_ARRAY(arena, count + 1, struct operation);
	struct text *codes = ARENA_ARRAY(arena, count, struct text);
	int16_t *channels = ARENA_ARRAY(arena, count, int16_t);
	size_t name_count = 0;
	for (size_t i = 0; i < count; i++)
		name_count += inserts[i].operation->sku_change->name_count;
	struct descriptions d = descriptions_new(arena, count, name_count);
	for (size_t i = 0; i < count; i++) {
		const struct sku_change *change = inserts[i].operation->sku_change;
		operations[i] = *inserts[i].operation;
		codes[i] = operations[i].lines[0].sku;
		channels[i] = (int16_t)operations[i].principal.channel;
		descriptions_add(&d, titles_of(change), change->names_given, change->names, change->name_count);
	}
	struct uuid writer = uuid_new();
	static const struct sku_insert none;
	const struct figures *figures = count > 0 ? &inserts->figures : &none.figures;
	struct pg_params p;
	pg_params_init(&p, arena);
	pg_add_texts(&p, codes, sizeof *codes, count);
	pg_add_int8s(&p, &figures->on_hand, sizeof *inserts, count);
	pg_add_int8s(&p, &figures->safety_stock, sizeof *inserts, count);
	pg_add_bools(&p, &figures->tracked, sizeof *inserts, count);
	pg_add_int8s(&p, &figures->version, sizeof *inserts, count);
	pg_add_uuid(&p, &writer);
	descriptions_params(&d, &p);
	pg_add_int2s(&p, channels, sizeof *channels, count);
	pg_add_int8s(&p, &operations->principal.id, sizeof *operations, count);
	pg_add_texts(&p, &operations->reference, sizeof *operations, count);
	pg_add_uuids(&p, &operations->new_id, sizeof *operations, count);
	pg_add_int8(&p, LEDGER_CREATE);
	pg_pipe_add(pg, &statement, &p);
}

enum lu_error sku_insert_take(struct pg *pg, int64_t deadline_ns)
{
	return pg_pipe_take_all_written(pg, deadline_ns);
}

void sku_describe_send(struct pg *pg, struct arena *arena, struct operation *const *puts, const int64_t *sku_ids,
                       size_t count)
{
	static const struct pg_statement statement = {
	        "sku_describe",
	        "WITH " NAMES_CTE("$4", "$5") ", described AS (INSERT INTO sku_text AS t (sku_id, titles, names)"
	        " SELECT u.id, u.titles::jsonb, CASE WHEN u.names_given THEN coalesce(d.names, '{}') END"
	        " FROM unnest($1, $2, $3) WITH ORDINALITY AS u(id, titles, names_given, n) LEFT JOIN named d ON d.of = u.n"
	        " ON CONFLICT (sku_id) DO UPDATE SET titles = coalesce(excluded.titles, t.titles),"
	        " names = coalesce(excluded.names, t.names) RETURNING 1) "
	        "SELECT (SELECT count(*) FROM described) = cardinality($1)",
	};
	/* One row per SKU: ON CONFLICT may not meet its own row. What a later operation gives replaces an earlier one's. */
	struct sku_change *merged = ARENA_ARRAY(arena, count, struct sku_change);
	int64_t *ids = ARENA_ARRAY(arena, count, int64_t);
	size_t merged_count = 0, name_count = 0;
	for (size_t i = 0; i < count; i++) {
		const struct sku_change *change = puts[i]->sku_change;
		size_t at = 0;
		while (at < merged_count && ids[at] != sku_ids[i])
			at++;
		if (at == merged_count)
			ids[merged_count++] = sku_ids[i];
		if (change->titles_given) {
			merged[at].titles_given = true;
			merged[at].titles_json = change->titles_json;
		}
		if (change->names_given) {
			merged[at].names_given = true;
			merged[at].names = change->names;
			merged[at].name_count = change->name_count;
			name_count += change->name_count;
		}
	}
	struct descriptions d = descriptions_new(arena, merged_count, name_count);
	for (size_t i = 0; i < merged_count; i++)
		descriptions_add(&d, titles_of(&merged[i]), merged[i].names_given, merged[i].names, merged[i].name_count);
	struct pg_params p;
	pg_params_init(&p, arena);
	pg_add_int8s(&p, ids, sizeof *ids, merged_count);
	descriptions_params(&d, &p);
	pg_pipe_add(pg, &statement, &p);
}

enum lu_error sku_describe_take(struct pg *pg, int64_t deadline_ns)
{
	return pg_pipe_take_all_written(pg, deadline_ns);
}
