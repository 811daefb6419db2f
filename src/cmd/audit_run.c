/* The audit: its frame and its report (audit_run.h).
 *
 * Happy path: connect read-only, note which transactions have ended, then SKUs with the ledger, objects, cells.
 * Failure modes: a database or a Redis that cannot be reached ends the audit with a sentence; what was found until then
 * is no verdict and is not reported as one.
 */
#include "cmd/audit_run.h"

#include <stdarg.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/audit_internal.h"
#include "store/migrate.h"

#define CONNECT_MS 5000

static const struct {
	const char *name; /* for machines */
	const char *sentence;
	const char *one, *many; /* what is counted */
	bool warning;
} checks[AUDIT_CHECKS] = {
	[AUDIT_RANGE] = {"range", "0 <= reserved <= on_hand", "SKU", "SKUs", false},
	[AUDIT_RESERVED] = {"reserved", "reserved = sum of the live holds", "SKU", "SKUs", false},
	[AUDIT_HOLDS] = {"holds", "the holds are the lines of the live reservations", "reservation", "reservations", false},
	[AUDIT_ON_HAND] = {"on_hand", "on_hand = sum of the ledger", "SKU", "SKUs", false},
	[AUDIT_BALANCES] = {"balances", "every entry's balance follows from the one before", "entry", "entries", false},
	[AUDIT_VERSIONS] = {"versions", "versions are dense, from 1 to the SKU's", "SKU", "SKUs", false},
	[AUDIT_ENDS] = {"ends", "a reservation has one end, the one it says", "reservation", "reservations", false},
	[AUDIT_SALES] = {"sales", "every sale has its entries, every entry its sale", "sale", "sales", false},
	[AUDIT_OVERDUE] = {"overdue", "no live hold is overdue by more than 5 s", "reservation", "reservations", true},
	[AUDIT_CELLS] = {"cells", "what the cache would answer is the truth", "cell", "cells", false},
};

void audit_broken(struct audit_work *work, enum audit_check check, const char *format, ...)
{
	struct audit_line *line = &work->audit->lines[check];
	line->broken++;
	if (line->shown_count == AUDIT_SHOWN_MAX)
		return;
	char sentence[400];
	va_list args;
	va_start(args, format);
	vsnprintf(sentence, sizeof sentence, format, args);
	va_end(args);
	line->shown[line->shown_count++] = arena_text(work->arena, text_of(sentence));
}

enum lu_error audit_query(struct audit_work *work, const struct pg_statement *statement, const struct pg_params *params,
                          PGresult **ret_result)
{
	enum lu_error error = pg_query(work->pg, statement, params, deadline_in_ms(AUDIT_STATEMENT_MS), ret_result);
	if (error)
		snprintf(work->why, 512, "%s", pg_error(work->pg)->message);
	return error;
}

void audit_progress(struct audit_work *work, const char *what, int64_t count)
{
	if (work->options->progress)
		progress_show(work->options->progress, "audit: %s, %lld", what, (long long)count);
}

static enum lu_error begin(struct audit_work *work)
{
	static const struct pg_statement horizon = {"audit_horizon",
	                                            "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"};
	enum lu_error error = pg_connect(work->pg, deadline_in_ms(CONNECT_MS));
	if (error) {
		snprintf(work->why, 512, "PostgreSQL cannot be reached: %s", pg_error(work->pg)->message);
		return LU_DATABASE_UNAVAILABLE;
	}
	struct migrate_report schema;
	if (!migrate_check(work->pg, deadline_in_ms(CONNECT_MS), &schema, work->why)) {
		work->audit->of_another_schema = pg_connected(work->pg);
		return work->audit->of_another_schema ? LU_INTERNAL : LU_DATABASE_UNAVAILABLE;
	}
	/* It never repairs: so that not even a mistake in here could. */
	error = pg_command(work->pg, "SET default_transaction_read_only = on", deadline_in_ms(CONNECT_MS));
	if (error) {
		snprintf(work->why, 512, "%s", pg_error(work->pg)->message);
		return error;
	}
	PGresult *result __attribute__((cleanup(pg_clear))) = NULL;
	error = audit_query(work, &horizon, NULL, &result);
	if (!error)
		work->horizon = pg_get_int(result, 0, 0);
	return error;
}

enum lu_error audit_run(const struct audit_options *options, struct arena *arena, struct audit *audit,
                        char ret_why[512])
{
	int64_t start_ns = clock_boottime_ns();
	*audit = (struct audit){0};
	*ret_why = '\0';
	struct pg_options pg_options = {.url = options->database_url,
	                                .application_name = "lastunit audit",
	                                .lock_timeout_ms = 5000,
	                                .statement_timeout_ms = AUDIT_STATEMENT_MS};
	struct audit_work work = {.options = options,
	                          .audit = audit,
	                          .pg = pg_new(&pg_options),
	                          .arena = arena,
	                          .why = ret_why};
	tallies_init(&work.tallies);
	enum lu_error error = begin(&work);
	if (!error)
		error = audit_stock(&work);
	if (!error)
		error = audit_objects(&work);
	if (!error)
		error = audit_cells(&work);
	audit->may_not = error && pg_error(work.pg)->class == PG_FORBIDDEN;
	tallies_done(&work.tallies);
	pg_free(work.pg);
	if (options->progress)
		progress_done(options->progress);
	audit->elapsed_ms = (clock_boottime_ns() - start_ns) / NS_PER_MS;
	return error;
}

bool audit_sound(const struct audit *audit)
{
	for (int i = 0; i < AUDIT_CHECKS; i++)
		if (audit->lines[i].broken && !checks[i].warning)
			return false;
	return true;
}

const char *audit_name(enum audit_check check)
{
	return checks[check].name;
}

void audit_print(const struct audit *audit, FILE *out)
{
	for (int i = 0; i < AUDIT_CHECKS; i++) {
		const struct audit_line *line = &audit->lines[i];
		const char *verdict = line->note ? "-" : !line->broken ? "ok" : checks[i].warning ? "warning" : "BROKEN";
		fprintf(out, "%-8s %-50s", verdict, checks[i].sentence);
		if (line->note) {
			fprintf(out, " %s\n", line->note);
			continue;
		}
		fprintf(out, " %lld %s", (long long)line->checked, text_plural(line->checked, checks[i].one, checks[i].many));
		if (line->broken)
			fprintf(out, ", %lld %s", (long long)line->broken, checks[i].warning ? "overdue" : "broken");
		if (line->moving)
			fprintf(out, " (%lld changed meanwhile)", (long long)line->moving);
		fputc('\n', out);
		for (size_t n = 0; n < line->shown_count; n++)
			fprintf(out, "           %.*s\n", (int)line->shown[n].size, line->shown[n].data);
		if (line->broken > (int64_t)line->shown_count)
			fprintf(out, "           … and %lld more\n", (long long)(line->broken - (int64_t)line->shown_count));
	}
	fprintf(out, "%s: %lld %s, %lld ledger %s, %lld %s, %lld %s, %lld %s in %.1f s\n",
	        audit_sound(audit) ? "every promise holds" : "A PROMISE IS BROKEN", (long long)audit->skus,
	        text_plural(audit->skus, "SKU", "SKUs"), (long long)audit->entries,
	        text_plural(audit->entries, "entry", "entries"), (long long)audit->reservations,
	        text_plural(audit->reservations, "reservation", "reservations"), (long long)audit->checkouts,
	        text_plural(audit->checkouts, "checkout", "checkouts"), (long long)audit->orders,
	        text_plural(audit->orders, "order", "orders"), (double)audit->elapsed_ms / 1000.0);
}

void audit_json(const struct audit *audit, struct buffer *out)
{
	struct json_writer json = json_writer(out);
	json_object_open(&json);
	json_member_bool(&json, "sound", audit_sound(audit));
	const struct {
		const char *key;
		int64_t value;
	} numbers[] = {{"skus", audit->skus},
	               {"entries", audit->entries},
	               {"reservations", audit->reservations},
	               {"checkouts", audit->checkouts},
	               {"orders", audit->orders},
	               {"cells", audit->cells},
	               {"elapsed_ms", audit->elapsed_ms}};
	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
		json_key(&json, numbers[i].key);
		json_put_int(&json, numbers[i].value);
	}
	json_key(&json, "checks");
	json_array_open(&json);
	for (int i = 0; i < AUDIT_CHECKS; i++) {
		const struct audit_line *line = &audit->lines[i];
		json_object_open(&json);
		json_member_string(&json, "check", checks[i].name);
		json_member_bool(&json, "warning", checks[i].warning);
		json_key(&json, "skipped");
		if (line->note)
			json_put_string(&json, line->note);
		else
			json_put_null(&json);
		json_member_int(&json, "checked", line->checked);
		json_member_int(&json, "broken", line->broken);
		json_member_int(&json, "moving", line->moving);
		json_key(&json, "offenders");
		json_array_open(&json);
		for (size_t n = 0; n < line->shown_count; n++)
			json_put_text(&json, line->shown[n]);
		json_array_close(&json);
		json_object_close(&json);
	}
	json_array_close(&json);
	json_object_close(&json);
}
