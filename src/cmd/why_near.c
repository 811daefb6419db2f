/* There is no such SKU: which ones could be meant? (why.h)
 *
 * Happy path: twins that differ in case only, codes a few edits away, the nearest first; then codes that begin with what
 * was asked for, in whatever case, then products that people call so, or by a word of it. Failure modes: among a million
 * codes only those that share a beginning or an end are measured; what begins alike is looked for in all of them, in one
 * pass.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/why.h"

#define WINDOW_BYTES 3 /* a code this much longer or shorter is another one */
#define CANDIDATES_MAX 20000

/* lower() by the database's own rules, which know more letters than the column's. */
static const struct pg_statement candidates = {
	"why_candidates",
	"SELECT s.code, lower(s.code COLLATE \"default\") = w.word FROM sku s, (SELECT lower($1 COLLATE \"default\")) w(word)"
	" WHERE octet_length(s.code) BETWEEN octet_length($1) - $2 AND octet_length($1) + $2"
	" AND (left(lower(s.code COLLATE \"default\"), 2) = left(w.word, 2)"
	"      OR right(lower(s.code COLLATE \"default\"), 3) = right(w.word, 3)) LIMIT $3"};

static const struct pg_statement longer =
	{"why_longer",
     "SELECT s.code FROM sku s WHERE starts_with(lower(s.code COLLATE \"default\"), lower($1 COLLATE \"default\"))"
     " ORDER BY s.code LIMIT $2"};

/* By the words of titles and names, and how much of what was said is in them as it was said. */
static const struct pg_statement called =
	{"why_called",
     "SELECT p.code, said.stems <@ its.stems, said.stems && its.stems"
     "  FROM (SELECT tsvector_to_array(search_stems($1)) AS stems) said,"
     "       search_products($1, $2::integer) WITH ORDINALITY p JOIN sku_text t ON t.sku_id = p.id,"
     "       LATERAL (SELECT tsvector_to_array(t.words) AS stems) its ORDER BY p.ordinality"};

struct candidate {
	struct text sku;
	size_t edits; /* 0: a twin */
};

static int by_edits(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;
	return x->edits != y->edits ? (x->edits < y->edits ? -1 : 1) : text_compare(x->sku, y->sku);
}

static const char *lowered(struct arena *arena, struct text text)
{
	char *copy = arena_alloc(arena, text.size + 1);
	for (size_t i = 0; i < text.size; i++)
		copy[i] = (char)tolower((unsigned char)text.data[i]);
	return copy;
}

static void keep(struct why *why, struct text sku, const char *reason)
{
	for (size_t i = 0; i < why->near_count; i++)
		if (text_equal(why->near[i].sku, sku))
			return;
	if (why->near_count == WHY_NEAR_MAX)
		return;
	why->near[why->near_count++] = (struct why_near){arena_text(why->arena, sku), reason};
}

static void keep_nearest(struct why *why, const PGresult *r, struct arena *scratch)
{
	size_t count = (size_t)PQntuples(r), edits_max = why->sku.size < 4 ? 1 : why->sku.size < 12 ? 2 : 3;
	struct candidate *found = ARENA_ARRAY(scratch, count, struct candidate);
	const char *word = lowered(scratch, why->sku);
	for (size_t i = 0; i < count; i++) {
		found[i].sku = pg_get_text(r, (int)i, 0, scratch);
		found[i].edits = pg_get_bool(r, (int)i, 1) ? 0 : text_distance(lowered(scratch, found[i].sku), word);
	}
	if (count)
		qsort(found, count, sizeof *found, by_edits);
	for (size_t i = 0; i < count && found[i].edits <= edits_max; i++)
		keep(why, found[i].sku, found[i].edits ? "similar" : "differs in case only: codes are case-sensitive");
}

static void keep_called(struct why *why, const PGresult *r)
{
	for (int i = 0; i < PQntuples(r); i++)
		keep(why, pg_get_text(r, i, 0, why->arena),
		     pg_get_bool(r, i, 1)   ? "is called so"
		     : pg_get_bool(r, i, 2) ? "has a word of it"
		                            : "is called nearly so");
}

enum lu_error why_look_near(struct why *why, struct pg *pg)
{
	PGresult *r __attribute__((cleanup(pg_clear))) = NULL, *more __attribute__((cleanup(pg_clear))) = NULL;
	PGresult *by_name __attribute__((cleanup(pg_clear))) = NULL;
	struct pg_params params;
	pg_params_init(&params, why->arena);
	pg_add_text(&params, why->sku);
	pg_add_int8(&params, WINDOW_BYTES);
	pg_add_int8(&params, CANDIDATES_MAX);
	enum lu_error error = pg_query(pg, &candidates, &params, deadline_in_ms(WHY_ASK_MS), &r);
	if (error)
		return error;
	why->near = ARENA_ARRAY(why->arena, WHY_NEAR_MAX, struct why_near);
	struct arena scratch;
	arena_init(&scratch, 1 << 16);
	keep_nearest(why, r, &scratch);
	arena_done(&scratch);
	pg_params_init(&params, why->arena);
	pg_add_text(&params, why->sku);
	pg_add_int8(&params, WHY_NEAR_MAX);
	error = pg_query(pg, &longer, &params, deadline_in_ms(WHY_ASK_MS), &more);
	for (int i = 0; !error && i < PQntuples(more); i++)
		keep(why, pg_get_text(more, i, 0, why->arena), "begins with it");
	if (!error)
		error = pg_query(pg, &called, &params, deadline_in_ms(WHY_ASK_MS), &by_name);
	if (!error)
		keep_called(why, by_name);
	return error;
}
