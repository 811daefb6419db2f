/* How an import ended, told (import_print.h).
 *
 * Happy path: what was read and what was applied add up to one summary. Failure modes: a list of outcomes that cannot be
 * written or read to its end is told as such; the import itself is done by then.
 */
#include "cmd/import_print.h"

#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/cmd.h"

#define SHOWN_MAX 20
#define OUTCOMES_PAGE 5000

static void put_refusals(struct json_writer *json, const struct import_refusal *refusals, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		json_object_open(json);
		json_member_int(json, "line", refusals[i].line);
		json_member_text(json, "sku", refusals[i].sku);
		json_member_string(json, "code", refusals[i].code);
		json_member_text(json, "detail", refusals[i].why);
		json_object_close(json);
	}
}

static const char *cache_name(enum import_cache cache)
{
	return cache == IMPORT_CACHE_PUBLISHED ? "published" : cache == IMPORT_CACHE_CLOSED ? "closed" : "unconcerned";
}

void import_print_json(const struct import_ending *ending, int64_t refused)
{
	const struct import_report *report = ending->report;
	struct buffer out = {0};
	struct json_writer json = json_writer(&out);
	json_object_open(&json);
	json_member_bool(&json, "applied", report->applied);
	json_member_bool(&json, "replayed", report->replayed);
	json_member_text(&json, "key", ending->key);
	json_member_int(&json, "rows", ending->row_count);
	json_member_int(&json, "merged", ending->merged_count);
	json_member_int(&json, "created", report->created);
	json_member_int(&json, "changed", report->changed);
	json_member_int(&json, "entries", report->entries);
	json_member_int(&json, "described", report->described);
	json_member_int(&json, "units", report->units);
	json_member_int(&json, "refused", refused);
	json_member_int(&json, "elapsed_ms", (clock_boottime_ns() - ending->start_ns) / NS_PER_MS);
	json_member_string(&json, "cache", cache_name(report->cache));
	json_member_text(&json, "why", text_utf8_part(text_of(ending->why)));
	json_key(&json, "refusals");
	json_array_open(&json);
	put_refusals(&json, ending->refusals, ending->refusal_count);
	put_refusals(&json, report->refusals, report->refusal_count);
	json_array_close(&json);
	json_object_close(&json);
	printf("%.*s\n", (int)out.size, out.data);
	buffer_done(&out);
}

static void print_refusals(const struct import_refusal *refusals, size_t count, size_t *shown)
{
	for (size_t i = 0; i < count && *shown < SHOWN_MAX; i++, (*shown)++)
		fprintf(stderr, "line %lld: %.*s%s%.*s (%s)\n", (long long)refusals[i].line, (int)refusals[i].sku.size,
		        refusals[i].sku.data, refusals[i].sku.size ? ": " : "", (int)refusals[i].why.size, refusals[i].why.data,
		        refusals[i].code);
}

int import_print(const struct import_ending *ending, bool json)
{
	const struct import_report *report = ending->report;
	/* A replay tells what the first run refused; otherwise the file's rows and the database's add up. */
	int64_t refused = report->replayed ? report->refused : report->refused + (int64_t)ending->refusal_count;
	int code = report->applied && !refused ? EXIT_OK : EXIT_FAILED;
	if (json) {
		import_print_json(ending, refused);
		return code;
	}
	if (*ending->why) {
		fprintf(stderr, "lastunit import: %s: %s\n", ending->path, ending->why);
		fprintf(stderr, "Nothing was imported.\n");
		return code;
	}
	size_t shown = 0;
	if (!report->replayed) {
		print_refusals(ending->refusals, ending->refusal_count, &shown);
		print_refusals(report->refusals, report->refusal_count, &shown);
		if (refused > (int64_t)shown)
			fprintf(stderr, "… and %lld more; --json lists them\n", (long long)(refused - (int64_t)shown));
	}
	if (!report->applied) {
		fprintf(stderr, "Nothing was imported: refused %lld of %lld %s (--partial applies the others).\n",
		        (long long)refused, (long long)ending->row_count, text_plural(ending->row_count, "row", "rows"));
		if (ending->refusal_count && !ending->partial)
			fprintf(stderr, "Stock was not looked at yet: it may refuse others.\n");
		return code;
	}
	if (report->replayed) {
		char at[25];
		clock_format(report->replayed_at_us, at);
		printf("already imported at %s: ", at);
	}
	printf("%lld %s created, %lld changed, %lld described; %lld ledger %s, %+lld %s", (long long)report->created,
	       text_plural(report->created, "SKU", "SKUs"), (long long)report->changed, (long long)report->described,
	       (long long)report->entries, text_plural(report->entries, "entry", "entries"), (long long)report->units,
	       text_plural(report->units, "unit", "units"));
	if (refused)
		printf("; %lld %s refused", (long long)refused, text_plural(refused, "row", "rows"));
	printf("\n");
	if (report->cache == IMPORT_CACHE_CLOSED)
		printf("the cache epoch was closed for it; a running service opens the next one by itself\n");
	return code;
}

static void outcome_write(FILE *out, int64_t line, struct text sku, const char *outcome, int64_t version,
                          int64_t on_hand, struct text detail)
{
	fprintf(out, "%lld,\"", (long long)line);
	for (size_t i = 0; i < sku.size; i++)
		fprintf(out, sku.data[i] == '"' ? "\"\"" : "%c", sku.data[i]);
	fprintf(out, "\",%s,", outcome);
	if (version)
		fprintf(out, "%lld,%lld", (long long)version, (long long)on_hand);
	else
		fputc(',', out);
	/* Our own sentences: no quotes in them. */
	fprintf(out, ",\"%.*s\"\n", (int)detail.size, detail.data);
}

/* What was refused by reading and what by stock, each in the order of the file: together in that order, up to `before`. */
struct refused {
	const struct import_refusal *next[2], *end[2];
};

static void write_refused(FILE *out, struct refused *refused, int64_t before)
{
	for (;;) {
		int first = -1;
		for (int l = 0; l < 2; l++)
			if (refused->next[l] < refused->end[l] && refused->next[l]->line < before &&
			    (first < 0 || refused->next[l]->line < refused->next[first]->line))
				first = l;
		if (first < 0)
			return;
		const struct import_refusal *row = refused->next[first]++;
		outcome_write(out, row->line, row->sku, row->code, 0, 0, row->why);
	}
}

enum lu_error import_print_rows(const struct import_ending *ending, struct pg *pg, const char *path)
{
	const struct import_report *report = ending->report;
	FILE *out = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
	if (!out)
		return LU_INTERNAL;
	fprintf(out, "line,sku,outcome,version,on_hand,detail\n");
	struct refused refused = {.next = {ending->refusals, report->refusals}};
	refused.end[0] = refused.next[0] + ending->refusal_count;
	refused.end[1] = refused.next[1] + report->refusal_count;
	enum lu_error error = LU_OK;
	int64_t after = -1;
	for (size_t count = OUTCOMES_PAGE; report->applied && !error && count == OUTCOMES_PAGE;) {
		struct arena page;
		arena_init(&page, 1 << 16);
		struct import_outcome *rows = NULL;
		count = 0;
		error = import_outcomes(pg, &page, after, OUTCOMES_PAGE, deadline_in_ms(60000), &rows, &count);
		for (size_t i = 0; i < count; i++) {
			write_refused(out, &refused, rows[i].line);
			outcome_write(out, rows[i].line, rows[i].sku, rows[i].outcome, rows[i].version, rows[i].on_hand, TEXT(""));
		}
		after = count ? rows[count - 1].line : after;
		arena_done(&page);
	}
	write_refused(out, &refused, INT64_MAX);
	bool whole = !fflush(out) && !ferror(out);
	if (out != stdout)
		whole &= !fclose(out);
	return error ? error : whole ? LU_OK : LU_INTERNAL;
}
