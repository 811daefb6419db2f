/* The scratch schema of a race.
 *
 * Happy path: a session that stays, an advisory lock by the schema's name, CREATE SCHEMA; at the end DROP SCHEMA.
 * Failure modes: a session that is lost drops nothing: it is had anew at the end. A process that is killed leaves its
 * schema, but not its lock: the next race sees by that that nobody is there any more, and names what there is to drop. It
 * drops nothing of others by itself.
 */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/id.h"
#include "cmd/race_place.h"

#define ANSWER_MS 30000
#define CONNECT_MS 10000

/* Whatever has our name and nobody's lock. Locks are of one database, so a scratch database tells by its sessions. */
static const struct pg_statement leftovers =
	{"race_leftovers",
     "SELECT 'DROP SCHEMA ' || nspname || ' CASCADE;' FROM pg_namespace"
     " WHERE nspname LIKE 'lastunit\\_race\\_%' AND pg_try_advisory_lock(hashtextextended(nspname::text, 0))"
     " UNION ALL SELECT 'DROP DATABASE ' || datname || ';' FROM pg_database d"
     " WHERE datname LIKE 'lastunit\\_race\\_%' AND NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.datid = d.oid)"};
static const struct pg_statement server_facts =
	{"race_server_facts",
     "SELECT 'PostgreSQL ' || split_part(current_setting('server_version'), ' ', 1) || ', fsync '"
     " || current_setting('fsync') || ', synchronous_commit ' || current_setting('synchronous_commit')"};
static const struct pg_statement count_skus =
	{"race_count_skus",
     "SELECT sku, coalesce(n, 0)::bigint, on_hand FROM stock"
     " LEFT JOIN (SELECT sku, count(*) AS n FROM sale GROUP BY sku) sold USING (sku)"};
/* A customer's one unit is not in a row of stock: what is left of it is what was not sold. */
static const struct pg_statement count_customers =
	{"race_count_customers", "SELECT customer, count(*), 1 - count(*) FROM sale GROUP BY customer"};

static struct pg *connect_to(const char *url, char why[512])
{
	struct pg_options options = {.url = url, .application_name = "lastunit race"};
	struct pg *pg = pg_new(&options);
	if (!cmd_connect_until(pg, deadline_in_ms(CONNECT_MS)))
		return pg;
	cmd_refuse(why, "PostgreSQL cannot be reached: %s", pg_error(pg)->message);
	pg_free(pg);
	return NULL;
}

static bool failed(struct race *race, const char *what)
{
	const struct pg_error *error = pg_error(race->scratch.owner);
	return cmd_refuse(race->why, "%s: %s%s%s", what, error->message, *error->sqlstate ? ", SQLSTATE " : "",
	                  error->sqlstate);
}

/* The texts of one column, with blanks between. */
static bool ask(struct race *race, const struct pg_statement *statement, char *out, size_t room)
{
	PGresult *result = NULL;
	if (pg_query(race->scratch.owner, statement, NULL, deadline_in_ms(ANSWER_MS), &result))
		return failed(race, "cannot look at the database");
	size_t at = 0;
	for (int i = 0; i < PQntuples(result) && at + 1 < room; i++)
		at += (size_t)snprintf(out + at, room - at, "%s%s", i ? " " : "", PQgetvalue(result, i, 0));
	pg_clear(&result);
	return true;
}

bool race_scratch_open(struct race *race)
{
	struct race_scratch *scratch = &race->scratch;
	uint64_t number = random_u64();
	char sql[400], name[sizeof scratch->schema];
	snprintf(name, sizeof name, "lastunit_race_%012llx", (unsigned long long)(number & 0xffffffffffff));
	scratch->owner = connect_to(race->options.database_url, race->why);
	if (!scratch->owner || !ask(race, &leftovers, scratch->leftovers, sizeof scratch->leftovers) ||
	    !ask(race, &server_facts, race->postgres, sizeof race->postgres))
		return false;
	snprintf(sql, sizeof sql,
	         "SELECT pg_advisory_unlock_all(); SELECT pg_advisory_lock(hashtextextended('%s', 0)); CREATE SCHEMA %s;"
	         "COMMENT ON SCHEMA %s IS 'scratch of a running `lastunit race`, which drops it at its end';"
	         "SET search_path = %s; SET default_transaction_isolation = 'read committed'",
	         name, name, name, name);
	if (pg_command(scratch->owner, sql, deadline_in_ms(ANSWER_MS)))
		return failed(race, "cannot create a scratch schema");
	memcpy(scratch->schema, name, sizeof name);
	return true;
}

bool race_scratch_command(struct race *race, const char *sql)
{
	struct pg *owner = race->scratch.owner;
	for (int attempt = 0; attempt < 2; attempt++) {
		if (cmd_connect_until(owner, deadline_in_ms(CONNECT_MS)))
			return false;
		if (!pg_command(owner, sql, deadline_in_ms(ANSWER_MS)))
			return true;
		if (pg_connected(owner))
			return false;
	}
	return false;
}

void race_scratch_close(struct race *race)
{
	struct race_scratch *scratch = &race->scratch;
	char sql[100];
	snprintf(sql, sizeof sql, "DROP SCHEMA IF EXISTS %s CASCADE", scratch->schema);
	if (*scratch->schema && !race_scratch_command(race, sql))
		fprintf(stderr, "lastunit race: %s; the scratch schema is left: %s;\n", pg_error(scratch->owner)->message, sql);
	pg_free(scratch->owner);
	*scratch = (struct race_scratch){0};
}

struct pg *race_session_open(const struct race *race, char why[512])
{
	char sql[160];
	struct pg *pg = connect_to(race->options.database_url, why);
	if (!pg)
		return NULL;
	snprintf(sql, sizeof sql, "SET search_path = %s; SET default_transaction_isolation = 'read committed'",
	         race->scratch.schema);
	if (!pg_command(pg, sql, deadline_in_ms(ANSWER_MS)))
		return pg;
	cmd_refuse(why, "cannot set up a session: %s", pg_error(pg)->message);
	pg_free(pg);
	return NULL;
}

struct pg *race_session(struct race *race)
{
	return race_session_open(race, race->why);
}

bool race_scratch_stock(struct race *race, int64_t skus, int64_t units, bool checked, bool once)
{
	char sql[1000];
	snprintf(
		sql, sizeof sql,
		"DROP TABLE IF EXISTS stock, sale;"
		"CREATE TABLE stock (sku bigint PRIMARY KEY, on_hand bigint NOT NULL%s, version bigint NOT NULL DEFAULT 0);"
		"CREATE TABLE sale (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, sku bigint NOT NULL,"
		" customer bigint NOT NULL, at timestamptz NOT NULL DEFAULT now());"
		"%s;"
		"INSERT INTO stock (sku, on_hand) SELECT n, %lld FROM generate_series(0, %lld - 1) n; ANALYZE stock",
		checked ? " CHECK (on_hand >= 0)" : "",
		!once     ? ""
		: checked ? "CREATE UNIQUE INDEX ON sale (customer)"
				  : "CREATE INDEX ON sale (customer)",
		(long long)units, (long long)skus);
	return !pg_command(race->scratch.owner, sql, deadline_in_ms(ANSWER_MS)) || failed(race, "cannot create the tables");
}

static bool fill(struct race *race, const struct pg_statement *statement, int64_t count, struct race_item *items)
{
	PGresult *result = NULL;
	if (pg_query(race->scratch.owner, statement, NULL, deadline_in_ms(ANSWER_MS), &result))
		return failed(race, "cannot count what was sold");
	for (int i = 0; i < PQntuples(result); i++) {
		int64_t item = pg_get_int(result, i, 0);
		CHECK(item >= 0 && item < count);
		items[item].rows = pg_get_int(result, i, 1);
		items[item].left = pg_get_int(result, i, 2);
	}
	pg_clear(&result);
	return true;
}

bool race_scratch_look(struct race *race, int64_t skus, struct race_item *items)
{
	return fill(race, &count_skus, skus, items);
}

bool race_scratch_look_customers(struct race *race, int64_t customers, struct race_item *items)
{
	return fill(race, &count_customers, customers, items);
}
