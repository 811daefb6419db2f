/* Migrations: what the binary knows, what the database has, and the way from one to the other.
 *
 * Happy path: one transaction: an advisory lock, the version, every missing file, its row, COMMIT. A second migration
 * at the same time waits for the lock, says for whom, and finds nothing to do. Failure modes: any error rolls
 * everything back and is told in one sentence; a lost COMMIT is told as such, and running again says what became of it.
 */
#include "store/migrate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/embed.h"
#include "base/text.h"
#include "store/advisory.h"
#include "store/pg_internal.h"

#define LOCK_PAUSE_MS 50
#define TABLE_WAIT_MS "300" /* for the lock of a table: shorter than any answer may take */
#define TABLE_PAUSE_MS 1000
#define WAIT_SAID_MS 1000 /* the first time; then as often as WAIT_SAID_AGAIN_MS */
#define WAIT_SAID_AGAIN_MS 10000
#define SERVER_VERSION_MIN 140000
#define VALUE_BYTES 160 /* the longest name has 63 bytes, twice as many if all are quotes, and two around them */

/* Before PostgreSQL 16 any CREATEROLE would do where the role is another's; from there on it must be one's own. */
#define RIGHTS                                                                                                        \
	": it takes a superuser, or CREATE on the database and either CREATEROLE or to be a member of lastunit_service, " \
	"as who made that role can GRANT"

/* "sql/0001_stock.sql": 1 and "stock". */
static bool name_parse(const char *file, int64_t *ret_version, struct text *ret_name)
{
	size_t size = strlen(file);
	if (size < 14 || strncmp(file, "sql/", 4) != 0 || file[8] != '_' || strcmp(file + size - 4, ".sql") != 0)
		return false;
	*ret_name = (struct text){file + 9, size - 13};
	return text_to_int64((struct text){file + 4, 4}, ret_version);
}

static bool fail(const struct pg *pg, const char *what, char ret_why[512])
{
	const struct pg_error *error = pg_error(pg);
	snprintf(ret_why, 512, "%s: %s%s%s%s", what, error->message[0] ? error->message : "no answer",
	         error->sqlstate[0] ? " (SQLSTATE " : "", error->sqlstate, error->sqlstate[0] ? ")" : "");
	return false;
}

static bool one_value(struct pg *pg, const char *sql, int64_t deadline_ns, char value[VALUE_BYTES])
{
	PGresult *r;
	char tag[64];
	if (pg_simple(pg, sql, deadline_ns, &r, tag))
		return false;
	CHECK(r && PQntuples(r) == 1);
	snprintf(value, VALUE_BYTES, "%s", PQgetvalue(r, 0, 0));
	PQclear(r);
	return true;
}

/* Sets found and known; refuses what could not be migrated or served at all. */
static bool look(struct pg *pg, int64_t deadline_ns, struct migrate_report *report, char ret_why[512])
{
	char value[VALUE_BYTES];
	report->known = 0;
	for (size_t i = 0; i < embedded_file_count; i++) {
		int64_t version;
		struct text name;
		if (name_parse(embedded_files[i].name, &version, &name)) {
			CHECK(version == report->known + 1); /* numbered without gaps, and the table is sorted by name */
			report->known = version;
		}
	}
	if (!one_value(pg, "SHOW server_version_num", deadline_ns, value))
		return fail(pg, "cannot ask for the server's version", ret_why);
	if (strtol(value, NULL, 10) < SERVER_VERSION_MIN) {
		snprintf(ret_why, 512, "this is PostgreSQL %s; Lastunit needs 14 or later", value);
		return false;
	}
	if (!one_value(pg, "SHOW server_encoding", deadline_ns, value))
		return fail(pg, "cannot ask for the database's encoding", ret_why);
	if (strcmp(value, "UTF8") != 0) {
		snprintf(ret_why, 512, "the database's encoding is %s; create it with ENCODING 'UTF8'", value);
		return false;
	}
	if (!one_value(pg, "SELECT to_regclass('lastunit.migration') IS NOT NULL", deadline_ns, value))
		return fail(pg, "cannot look for the schema", ret_why);
	report->found = 0;
	if (value[0] == 't') {
		if (!one_value(pg, "SELECT coalesce(max(version), 0) FROM lastunit.migration", deadline_ns, value))
			return fail(pg, "cannot read the schema's version", ret_why);
		report->found = strtoll(value, NULL, 10);
	}
	report->now = report->found;
	if (report->found > report->known) {
		snprintf(ret_why, 512,
		         "the database has schema version %" PRId64 ", this binary knows %" PRId64 ": run a newer binary",
		         report->found, report->known);
		return false;
	}
	return true;
}

static bool apply(struct pg *pg, int64_t deadline_ns, struct migrate_report *report, char ret_why[512])
{
	for (size_t i = 0; i < embedded_file_count; i++) {
		int64_t version;
		struct text name;
		if (!name_parse(embedded_files[i].name, &version, &name) || version <= report->now)
			continue;
		char record[256];
		int size = snprintf(record, sizeof record,
		                    "INSERT INTO lastunit.migration (version, name) VALUES (%" PRId64 ", '%.*s')", version,
		                    (int)name.size, name.data);
		CHECK(size > 0 && (size_t)size < sizeof record && !memchr(name.data, '\'', name.size));
		if (pg_command(pg, embedded_files[i].content.data, deadline_ns) || pg_command(pg, record, deadline_ns)) {
			(void)fail(pg, embedded_files[i].name, ret_why);
			size_t told = strlen(ret_why);
			if (strcmp(pg_error(pg)->sqlstate, "42501") == 0) /* insufficient_privilege */
				snprintf(ret_why + told, 512 - told, RIGHTS);
			return false;
		}
		report->now = version;
	}
	return true;
}

/* Who has the lock, as far as this user may see. */
static void say_holder(struct pg *pg, int64_t deadline_ns, void (*on_wait)(const char *sentence))
{
	char holder[VALUE_BYTES], sentence[VALUE_BYTES + 80];
	if (!one_value(pg,
	               "SELECT coalesce((SELECT 'pid ' || l.pid || ' (' || coalesce(nullif(a.application_name, ''),"
	               " a.usename, '?') || ')' FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)"
	               " WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.database ="
	               " (SELECT oid FROM pg_database WHERE datname = current_database())"
	               " AND l.classid::bigint << 32 | l.objid::bigint = " ADVISORY(
					   ADVISORY_MIGRATE) " LIMIT 1), 'nobody')",
	               deadline_ns, holder))
		return;
	snprintf(sentence, sizeof sentence, "waiting: the lock of migrations is held by %s", holder);
	on_wait(sentence);
}

/* Asks again and again: a session that waits inside a statement could not ask for whom. */
static bool lock(struct pg *pg, int64_t deadline_ns, void (*on_wait)(const char *sentence))
{
	char got[VALUE_BYTES];
	for (int64_t say_ns = deadline_in_ms(WAIT_SAID_MS);;) {
		if (!one_value(pg, "SELECT pg_try_advisory_xact_lock(" ADVISORY(ADVISORY_MIGRATE) ")", deadline_ns, got))
			return false;
		if (got[0] == 't')
			return true;
		if (on_wait && clock_boottime_ns() >= say_ns) {
			say_holder(pg, deadline_ns, on_wait);
			say_ns = deadline_in_ms(WAIT_SAID_AGAIN_MS);
		}
		clock_sleep_until(deadline_in_ms(LOCK_PAUSE_MS));
		if (deadline_left_ms(deadline_ns) == 0) {
			(void)pg_fail(pg, PG_UNAVAILABLE, "", "another session has the lock of migrations");
			return false;
		}
	}
}

bool migrate_run(struct pg *pg, int64_t deadline_ns, struct migrate_report *ret_report, char ret_why[512])
{
	return migrate_run_told(pg, deadline_ns, NULL, ret_report, ret_why);
}

/* *ret_again: a table was in use, or a writer and this waited for each other; nothing was changed. */
static bool attempt(struct pg *pg, int64_t deadline_ns, void (*on_wait)(const char *sentence),
                    struct migrate_report *report, bool *ret_again, char ret_why[512])
{
	*ret_again = false;
	if (pg_command(pg, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", deadline_ns) ||
	    !lock(pg, deadline_ns, on_wait) || pg_command(pg, "SET LOCAL lock_timeout = " TABLE_WAIT_MS, deadline_ns)) {
		(void)fail(pg, "cannot begin", ret_why);
		pg_rollback(pg, deadline_ns);
		return false;
	}
	if (!look(pg, deadline_ns, report, ret_why) || !apply(pg, deadline_ns, report, ret_why)) {
		*ret_again = pg_connected(pg) && pg_error(pg)->class == PG_RETRY;
		pg_rollback(pg, deadline_ns);
		return false;
	}
	bool sent;
	if (pg_commit(pg, deadline_ns, &sent)) {
		(void)fail(pg, sent ? "the migration's outcome is unknown, run it again" : "cannot commit", ret_why);
		pg_rollback(pg, deadline_ns);
		return false;
	}
	return true;
}

/* Who waits for a table's lock makes all who come later wait behind it: a service that runs would answer nothing for as
 * long as somebody reads the table, which a backup does for hours. So it is asked for again and again, for a moment. */
bool migrate_run_told(struct pg *pg, int64_t deadline_ns, void (*on_wait)(const char *sentence),
                      struct migrate_report *ret_report, char ret_why[512])
{
	for (int64_t say_ns = deadline_in_ms(WAIT_SAID_MS);;) {
		struct migrate_report report = {0};
		bool again;
		if (attempt(pg, deadline_ns, on_wait, &report, &again, ret_why)) {
			*ret_report = report;
			*ret_why = '\0'; /* of an attempt before */
			return true;
		}
		if (!again || deadline_left_ms(deadline_ns) < TABLE_PAUSE_MS)
			return false;
		if (on_wait && clock_boottime_ns() >= say_ns) {
			on_wait("waiting: a table is in use by another transaction; see pg_stat_activity");
			say_ns = deadline_in_ms(WAIT_SAID_AGAIN_MS);
		}
		clock_sleep_until(deadline_in_ms(TABLE_PAUSE_MS));
	}
}

bool migrate_check(struct pg *pg, int64_t deadline_ns, struct migrate_report *ret_report, char ret_why[512])
{
	struct migrate_report report = {0};
	if (!look(pg, deadline_ns, &report, ret_why))
		return false;
	if (report.found < report.known) {
		snprintf(ret_why, 512,
		         "the database has schema version %" PRId64 ", this binary needs %" PRId64 ": run `lastunit migrate`",
		         report.found, report.known);
		return false;
	}
	*ret_report = report;
	return true;
}

bool migrate_check_role(struct pg *pg, int64_t deadline_ns, char ret_why[512])
{
	char there[VALUE_BYTES];
	if (!one_value(pg, "SELECT to_regrole('lastunit_service') IS NOT NULL", deadline_ns, there))
		return fail(pg, "cannot look for the role lastunit_service", ret_why);
	if (there[0] != 't')
		snprintf(
			ret_why, 512,
			"there is no role lastunit_service on this server, as no dump brings one: run "
			"`CREATE ROLE lastunit_service NOLOGIN`, then restore the dump anew, with the GRANTs that failed for want of it");
	return there[0] == 't';
}

bool migrate_check_member(struct pg *pg, int64_t deadline_ns, char ret_why[512])
{
	char user[VALUE_BYTES];
	if (!one_value(
			pg,
			"SELECT CASE WHEN to_regrole('lastunit_service') IS NULL"
			" OR pg_has_role(to_regrole('lastunit_service'), 'MEMBER') THEN '' ELSE quote_ident(current_user) END",
			deadline_ns, user))
		return fail(pg, "cannot ask for the user's roles", ret_why);
	if (*user)
		snprintf(ret_why, 512,
		         "the user %s may not work as lastunit_service: run `GRANT lastunit_service TO %s` in the database, as "
		         "its owner",
		         user, user);
	return !*user;
}
