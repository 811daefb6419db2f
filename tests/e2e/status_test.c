/* `lastunit status`: quiet about a service that stands, and right about what weakens which promise.
 *
 * Bugs it guards against: a status that asks its own session for synchronous_commit, which that session has set itself;
 * that takes triggers which a replica role silences for guards; that calls a slow cache a broken promise, or a lying one a
 * slow one; a monitor that cannot tell 1 from 3.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/quiet.h"
#include "lib/service.h"

#define TOKEN "0123456789012345678901"

static struct quiet shop;

static int open_shop(void **state)
{
	quiet_open(&shop);
	return 0;
}

static json_t *status_of(const struct quiet *asked, int *ret_code)
{
	return quiet_json(asked, (const char *[]){"status", "--json", NULL}, ret_code);
}

/* This finding, weakening exactly these promises ("": a remark), with this in its sentence; and the exit code. NULL
 * promises: it is not found. */
static void assert_finding(const struct quiet *asked, const char *name, const char *promises, const char *word)
{
	int code;
	json_t *json = status_of(asked, &code);
	const char *found = quiet_finding(json, name);
	char *text = json_dumps(json, 0);
	if (!promises != !found || (found && strcmp(found, promises) != 0) || (word && !strstr(text, word)))
		fail_msg("%s: \"%s\" instead of \"%s\"\n%s", name, found, promises, text);
	if (found && *found && code != 1)
		fail_msg("%s: exit code %d", name, code);
	free(text);
	json_decref(json);
}

static void printed(const struct quiet *asked, const char *text)
{
	struct command command = quiet_run(asked, (const char *[]){"status", NULL});
	if (!strstr(command.out, text))
		fail_msg("no \"%s\" in\n%s%s", text, command.out, command.err);
	command_done(&command);
}

/* --- PostgreSQL's settings ---------------------------------------------------------------------------------------- */

static void server_setting(const char *sql)
{
	pg_server_ask(quiet_pg.url, sql);
	pg_server_ask(quiet_pg.url, "SELECT pg_reload_conf()");
}

/* A reload reaches a new session; it takes the postmaster a moment. */
static void wait_setting(const char *name, const char *value)
{
	char sql[100];
	snprintf(sql, sizeof sql, "SHOW %s", name);
	for (int i = 0; i < 3000 && strcmp(pg_server_ask(quiet_pg.url, sql), value) != 0; i++)
		usleep(10000);
}

static void settings_that_lose_commits_are_named(void **state)
{
	assert_finding(&shop, "fsync_off", NULL, NULL);
	server_setting("ALTER SYSTEM SET fsync = off");
	server_setting("ALTER SYSTEM SET full_page_writes = off");
	wait_setting("fsync", "off");
	wait_setting("full_page_writes", "off");
	assert_finding(&shop, "fsync_off", "P4", "fsync=off");
	assert_finding(&shop, "full_page_writes_off", "P4", NULL);
	printed(&shop, "\nWEAKENED     P4: PostgreSQL runs with fsync=off");
	printed(&shop, "\npromises weakened: P4\n");
	server_setting("ALTER SYSTEM RESET fsync");
	server_setting("ALTER SYSTEM RESET full_page_writes");
	wait_setting("fsync", "on");
	wait_setting("full_page_writes", "on");
	assert_finding(&shop, "fsync_off", NULL, NULL);
}

static void synchronous_commit_is_judged_as_others_get_it(void **state)
{
	char sql[200];
	assert_finding(&shop, "synchronous_commit_off", NULL, NULL);
	snprintf(sql, sizeof sql, "ALTER DATABASE %s SET synchronous_commit = off",
	         quiet_sql(&shop, "SELECT current_database()"));
	quiet_sql(&shop, sql);
	assert_finding(&shop, "synchronous_commit_off", "P4", NULL);
}

static PGconn *session(const char *url, const char *const *statements)
{
	PGconn *conn = PQconnectdb(url);
	for (; *statements; statements++) {
		PGresult *r = PQexec(conn, *statements);
		ExecStatusType result = PQresultStatus(r);
		if (result != PGRES_COMMAND_OK && result != PGRES_TUPLES_OK && result != PGRES_COPY_BOTH)
			fail_msg("%s: %s", *statements, PQerrorMessage(conn));
		PQclear(r);
	}
	return conn;
}

/* What a standby does first, and all that can be seen of one from here. */
static PGconn *standby(const char *name)
{
	char url[300], start[100];
	snprintf(url, sizeof url, "%s replication=true application_name=%s", quiet_pg.url, name);
	snprintf(start, sizeof start, "START_REPLICATION PHYSICAL %s",
	         pg_server_ask(quiet_pg.url, "SELECT pg_current_wal_flush_lsn()"));
	return session(url, (const char *[]){start, NULL});
}

static void standbys_that_nobody_waits_for_are_named(void **state)
{
	assert_finding(&shop, "standbys_asynchronous", NULL, NULL);
	PGconn *backup = standby("pg_basebackup"); /* it is none */
	assert_finding(&shop, "standbys_asynchronous", NULL, NULL);
	PGconn *first = standby("first");
	assert_finding(&shop, "standbys_asynchronous", "P4", "has 1 standby and waits for none");
	server_setting("ALTER SYSTEM SET synchronous_standby_names = 'second'");
	wait_setting("synchronous_standby_names", "second");
	assert_finding(&shop, "standbys_missing", "P6", "every commit waits");
	server_setting("ALTER SYSTEM RESET synchronous_standby_names");
	wait_setting("synchronous_standby_names", "");
	PQfinish(first);
	PQfinish(backup);
}

/* --- guards and powers -------------------------------------------------------------------------------------------- */

static void a_guard_that_is_gone_asleep_or_easily_silenced_is_named(void **state)
{
	static const struct {
		const char *sql, *promises, *word;
	} losses[] = {
		{"ALTER TABLE lastunit.sku DROP CONSTRAINT sku_never_oversold", "P1",
	     "could oversell; to mend it: make it anew"},
		{"ALTER TABLE lastunit.sku DROP CONSTRAINT sku_never_oversold;"
	     "ALTER TABLE lastunit.sku ADD CONSTRAINT sku_never_oversold CHECK (reserved <= on_hand) NOT VALID",
	     "P1", "ALTER TABLE lastunit.sku VALIDATE CONSTRAINT sku_never_oversold"},
		{"ALTER TABLE lastunit.idempotency DROP CONSTRAINT idempotency_key_is_used_once", "P3", "two effects"},
		{"DROP INDEX lastunit.checkout_sells_a_reservation_once", "P5", "sold twice"},
		{"ALTER TABLE lastunit.ledger DISABLE TRIGGER ledger_is_append_only", "P1",
	     "ALTER TABLE lastunit.ledger ENABLE ALWAYS TRIGGER ledger_is_append_only"},
		{"ALTER TABLE lastunit.sku ENABLE TRIGGER stranger_updated", "P2",
	     "to mend it: ALTER TABLE lastunit.sku ENABLE ALWAYS TRIGGER stranger_updated"},
		{"DROP TRIGGER api_key_changed ON lastunit.api_key", "P2", "a revoked key would go on working"},
	};
	assert_finding(&shop, "guard_missing", NULL, NULL);
	for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
		quiet_open(&shop);
		quiet_sql(&shop, losses[i].sql);
		assert_finding(&shop, "guard_missing", losses[i].promises, losses[i].word);
	}
}

static void roles_that_may_rewrite_the_ledger_are_named(void **state)
{
	quiet_sql(&shop, "CREATE ROLE clerk; CREATE ROLE reader; GRANT SELECT, INSERT ON lastunit.ledger TO reader");
	assert_finding(&shop, "ledger_may_be_rewritten", NULL, NULL);
	quiet_sql(&shop, "GRANT UPDATE (reference) ON lastunit.ledger TO clerk");
	assert_finding(&shop, "ledger_may_be_rewritten", "P1", ": clerk\"");
	quiet_sql(&shop,
	          "REVOKE ALL ON lastunit.ledger FROM clerk; GRANT clerk TO reader; GRANT TRUNCATE ON lastunit.ledger"
	          " TO clerk");
	assert_finding(&shop, "ledger_may_be_rewritten", "P1", ": clerk, reader\"");
}

/* What a migration gives and the list does not know would be missed by nobody. */
static void each_right_of_the_service_is_missed(void **state)
{
	char lost[80];
	assert_finding(&shop, "rights_missing", NULL, NULL);
	snprintf(lost, sizeof lost, "has lost %s rights: ",
	         quiet_sql(&shop,
	                   "WITH given(acl) AS (SELECT relacl FROM pg_class WHERE relnamespace = 'lastunit'::regnamespace"
	                   " UNION ALL SELECT attacl FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
	                   "  WHERE c.relnamespace = 'lastunit'::regnamespace"
	                   " UNION ALL SELECT proacl FROM pg_proc WHERE pronamespace = 'lastunit'::regnamespace"
	                   " UNION ALL SELECT nspacl FROM pg_namespace WHERE nspname = 'lastunit')"
	                   " SELECT count(*) FROM given, aclexplode(acl) a WHERE a.grantee = 'lastunit_service'::regrole"));
	quiet_sql(&shop, "ALTER TABLE lastunit.sku ENABLE ROW LEVEL SECURITY");
	assert_finding(&shop, "rights_missing", "P6",
	               "has lost 1 right: all rows of lastunit.sku (ALTER TABLE lastunit.sku DISABLE ROW LEVEL SECURITY).");
	quiet_sql(&shop, "ALTER TABLE lastunit.sku DISABLE ROW LEVEL SECURITY");
	quiet_sql(&shop, "REVOKE UPDATE (expires_at) ON lastunit.hold FROM lastunit_service");
	assert_finding(&shop, "rights_missing", "P6", "has lost 1 right: UPDATE (expires_at) ON lastunit.hold.");
	quiet_sql(&shop,
	          "REVOKE ALL ON ALL TABLES IN SCHEMA lastunit FROM lastunit_service; REVOKE ALL ON SCHEMA lastunit FROM"
	          " lastunit_service; REVOKE ALL ON ALL FUNCTIONS IN SCHEMA lastunit FROM lastunit_service");
	assert_finding(&shop, "rights_missing", "P6", lost);
}

/* --- what moves --------------------------------------------------------------------------------------------------- */

static void holds_are_counted_and_overdue_ones_weaken_p5(void **state)
{
	int code;
	quiet_sku(&shop, "A", 10);
	quiet_sql(
		&shop,
		"INSERT INTO lastunit.reservation (id, created_at, expires_at, principal_id, channel, state, sku_ids,"
		" quantities, counted, versions) VALUES"
		" ('00000000-0000-7000-8000-000000000001', now(), now() + interval '1 hour', 1, 1, 1, '{1}', '{2}', '{t}', '{2}'),"
		" ('00000000-0000-7000-8000-000000000002', now(), now() + interval '1 hour', 1, 1, 1, '{1}', '{3}', '{t}', '{3}');"
		"INSERT INTO lastunit.hold (sku_id, expires_at, reservation_id, quantity, counted)"
		" SELECT 1, expires_at, id, quantities[1], true FROM lastunit.reservation");
	json_t *json = status_of(&shop, &code);
	assert_int_equal(code, 0);
	assert_int_equal(quiet_number(json, "holds.live"), 2);
	assert_int_equal(quiet_number(json, "holds.units"), 5);
	assert_int_equal(quiet_number(json, "holds.due"), 0);
	json_decref(json);
	quiet_sql(&shop, "UPDATE lastunit.reservation SET expires_at = now() - interval '1 min' WHERE quantities[1] = 3");
	assert_finding(&shop, "holds_overdue", "P5", "only a running service ends them");
	printed(&shop, "1 hold is over and about to end, the oldest for 1 min");
}

static void changes_in_sql_wait_for_a_relay_that_is_not_there(void **state)
{
	int code;
	quiet_sku(&shop, "A", 10);
	quiet_sql(&shop, "UPDATE lastunit.sku SET on_hand = 11");
	json_t *json = status_of(&shop, &code);
	assert_int_equal(quiet_number(json, "relay.waiting"), 1);
	json_decref(json);
	quiet_sql(&shop, "UPDATE lastunit.invalidation SET at = now() - interval '10 s'");
	assert_finding(&shop, "relay_late", "", "the oldest for 1"); /* nobody serves hits: a remark */
	assert_finding(&shop, "no_instance", "", NULL);
	/* the same while an instance runs */
	char url[300];
	snprintf(url, sizeof url, "%s application_name='lastunit lease'", shop.url);
	PGconn *instance = session(url, (const char *[]){NULL});
	assert_finding(&shop, "relay_late", "P2", NULL);
	assert_finding(&shop, "no_instance", NULL, NULL);
	PQfinish(instance);
}

static void the_oldest_transaction_is_named(void **state)
{
	int code;
	json_t *json = status_of(&shop, &code);
	assert_true(json_is_null(quiet_at(json, "oldest_transaction")));
	json_decref(json);
	PGconn *report = session(shop.url, (const char *[]){"SET application_name = 'monthly report'",
	                                                    "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1", NULL});
	json = status_of(&shop, &code);
	assert_int_equal(quiet_number(json, "oldest_transaction.pid"), PQbackendPID(report));
	assert_string_equal(quiet_text(json, "oldest_transaction.application"), "monthly report");
	assert_string_equal(quiet_text(json, "oldest_transaction.state"), "idle in transaction");
	assert_int_equal(code, 0);
	json_decref(json);
	PQfinish(report);
}

/* --- Redis -------------------------------------------------------------------------------------------------------- */

static void redis_settings_are_told_apart_by_what_they_do(void **state)
{
	assert_finding(&shop, "redis_evicts_markers", NULL, NULL);
	free(redis_server_command(&quiet_redis, "CONFIG SET maxmemory-policy allkeys-lru"));
	assert_finding(&shop, "redis_evicts_markers", "P2", "allkeys-lru");
	free(redis_server_command(&quiet_redis, "CONFIG SET maxmemory-policy noeviction"));
	assert_finding(&shop, "redis_persists", NULL, NULL);
	free(redis_server_command(&quiet_redis, "CONFIG SET appendonly yes"));
	assert_finding(&shop, "redis_persists", "", "append-only file");
	free(redis_server_command(&quiet_redis, "CONFIG SET appendonly no"));
	free(redis_server_command(&quiet_redis, "CONFIG SET maxmemory 1mb"));
	assert_finding(&shop, "redis_memory_short", "", NULL);
	free(redis_server_command(&quiet_redis, "CONFIG SET maxmemory 0"));
}

static void cells_are_counted_and_foreign_and_stuck_ones_named(void **state)
{
	int code;
	quiet_cell(&shop, "A", "V|1|10|0|0|1|A");
	quiet_cell(&shop, "B", "F|" TOKEN);
	json_t *json = status_of(&shop, &code);
	assert_int_equal(code, 0);
	assert_int_equal(quiet_number(json, "redis.cells.values"), 1);
	assert_int_equal(quiet_number(json, "redis.cells.fills"), 1);
	assert_true(json_is_true(quiet_at(json, "redis.cells.complete")));
	json_decref(json);
	quiet_cell(&shop, "B", "I|" TOKEN "|2");
	assert_finding(&shop, "markers_stuck", "", "1 marker has stood for more than a second (B)");
	quiet_cell(&shop, "C", "hello");
	assert_finding(&shop, "foreign_cells", "P2", "(C)");
}

/* Who writes there by mistake knows no rule for names. */
static void foreign_keys_of_any_length_and_bytes_are_named_in_short(void **state)
{
	enum { KEY_BYTES = 9000 };
	char *line = calloc(1, KEY_BYTES + 100);
	for (int i = 0; i < 3; i++) {
		int size = sprintf(line, "SET %s:x\x1b[31m\xff%d", shop.namespace, i);
		memset(line + size, 'x', KEY_BYTES);
		strcpy(line + size + KEY_BYTES, " hello");
		free(redis_server_command(&quiet_redis, line));
	}
	free(line);
	assert_finding(&shop, "foreign_cells", "P2", "(x\\\\x1b[31m\\\\xff");
}

static void without_redis_all_promises_stand_and_it_says_what_that_means(void **state)
{
	int code;
	struct quiet cut = shop;
	snprintf(cut.values[1], sizeof cut.values[1], "LASTUNIT_REDIS_URL=unix:///nonexistent/s");
	cut.variables[0] = cut.values[0];
	cut.variables[1] = cut.values[1];
	json_t *json = status_of(&cut, &code);
	assert_int_equal(code, 0);
	assert_true(json_is_false(quiet_at(json, "redis.reachable")));
	assert_string_equal(quiet_finding(json, "redis_unreachable"), "");
	json_decref(json);
	printed(&cut,
	        "Redis does not answer this command at /nonexistent/s; if it does not answer the service either, every "
	        "read comes from PostgreSQL, slower and as true");
	snprintf(cut.values[1], sizeof cut.values[1], "LASTUNIT_REDIS_URL=redis://[::1]:1");
	printed(&cut, "cannot connect to Redis at [::1]:1: ");
	snprintf(cut.values[1], sizeof cut.values[1], "LASTUNIT_REDIS_URL=redis://127.0.0.1:1");
	printed(&cut, "cannot connect to Redis at 127.0.0.1:1: ");
	printed(&cut, "does not answer this command at 127.0.0.1:1; if");
	printed(&cut, "\nall promises stand\n");
}

static void an_epoch_of_another_redis_or_another_life_is_told(void **state)
{
	struct redis_server other;
	redis_server_start(&other, NULL);
	struct quiet moved = shop;
	snprintf(moved.values[1], sizeof moved.values[1], "LASTUNIT_REDIS_URL=%s", other.url);
	moved.variables[0] = moved.values[0];
	moved.variables[1] = moved.values[1];
	assert_finding(&shop, "epoch_of_another_redis", NULL, NULL);
	assert_finding(&moved, "epoch_of_another_redis", "", NULL);
	redis_server_stop(&other);
	assert_finding(&shop, "epoch_of_another_database", NULL, NULL);
	quiet_sql(&shop, "UPDATE lastunit.cache_epoch SET pg_identity = 'another'");
	assert_finding(&shop, "epoch_of_another_database", "", NULL);
	quiet_sql(&shop, "UPDATE lastunit.cache_epoch SET state = 3");
	assert_finding(&shop, "epoch_closed", "", NULL);
}

/* --- who does not answer ------------------------------------------------------------------------------------------ */

static void assert_code(const char *const *arguments, int code, const char *word)
{
	struct command command = quiet_run(&shop, arguments);
	if (command.exit_code != code || (!strstr(command.err, word) && !strstr(command.out, word)))
		fail_msg("exit code %d instead of %d: %s%s", command.exit_code, code, command.out, command.err);
	command_done(&command);
}

/* Every command that asks the database, at this URL, ends with this code and these words. */
static void assert_all(const char *url, int code, const char *word)
{
	char file[] = "/tmp/status-test-XXXXXX";
	int fd = mkstemp(file);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "sku,on_hand\nA,1\n", 16), 16);
	close(fd);
	static const char *const words[][6] =
		{{"status"}, {"key", "create", "--principal", "site"}, {"key", "list"}, {"why", "A"}, {"flush"},
	     {"audit"},  {"serve", "--listen", "127.0.0.1:0"},     {"import", NULL}};
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
		const char *arguments[9] = {0};
		int count = 0;
		for (; words[i][count]; count++)
			arguments[count] = words[i][count];
		if (strcmp(arguments[0], "import") == 0)
			arguments[count++] = file;
		arguments[count++] = "--database-url";
		arguments[count] = url;
		assert_code(arguments, code, word);
	}
	unlink(file);
}

static void assert_2_for_all(const char *url, const char *word)
{
	assert_all(url, 2, word);
}

/* The first thing a newcomer forgets: whatever he calls says the same. */
static void a_database_that_was_never_migrated_is_2_for_every_command(void **state)
{
	assert_2_for_all(quiet_pg.url, "the database has schema version 0, this binary needs ");
	assert_2_for_all(quiet_pg.url, ": run `lastunit migrate`\n");
}

/* libpq's sentences name no option, and some end with the URL as it was given. */
static void a_database_url_that_cannot_be_read_is_2_for_every_command(void **state)
{
	assert_2_for_all("postgresql://me:secret@[::1",
	                 ": --database-url: end of string reached when looking for matching "
	                 "\"]\" in IPv6 host address in URI: write postgresql://user@host/db\n");
	assert_2_for_all("host=localhost prot=5432", ": --database-url: invalid connection option \"prot\": write ");
	assert_2_for_all("postgresql://me:secret@localhost:54x2/shop",
	                 ": --database-url: a port is a number from 1 to 65535");
	assert_2_for_all("host=a,b port=5432,70000", ": --database-url: a port is a number from 1 to 65535");
	assert_2_for_all("shop", ": --database-url: missing \"=\" after \"shop\"");
	assert_2_for_all("potgresql://me:hunter2@localhost/shop", ": --database-url: missing \"=\" after: write ");
	assert_2_for_all("postgresql://me:100%hunter2@localhost/shop",
	                 ": --database-url: invalid percent-encoded token: write ");
	assert_2_for_all("host=localhost user=me password=two hunter2", ": --database-url: missing \"=\" after: write ");
	assert_2_for_all("", ": --database-url (or LASTUNIT_DATABASE_URL) is required\n");
	assert_code((const char *[]){"replay", "/nowhere", "--database-url", "shop", NULL}, 2, ": --database-url: missing");
	assert_code((const char *[]){"status", "--database-url", "host=/nonexistent,/nowhere port=5432,", NULL}, 3,
	            "cannot");
}

/* libpq looks at these values when it connects. No sentence of its own has the password. */
static void a_value_that_libpq_does_not_take_is_2_for_every_command(void **state)
{
	assert_2_for_all("postgresql://me:secret@localhost/shop?sslmode=foo",
	                 ": --database-url: invalid sslmode value: \"foo\"\n");
	assert_2_for_all("host=a,b,c port=1,2", ": --database-url: could not match 2 port numbers to 3 hosts\n");
}

static void no_database_is_3_and_a_silent_instance_1(void **state)
{
	char stranger[sizeof quiet_pg.url + 40];
	snprintf(stranger, sizeof stranger, "%s user=nobody_known", quiet_pg.url);
	assert_all(stranger, 3, "PostgreSQL cannot be reached: ");
	assert_code((const char *[]){"status", "--database-url", "host=/nonexistent", NULL}, 3,
	            "nothing answered is lost until it can");
	assert_code((const char *[]){"status", "--database-url", "host=/nonexistent", "--json", NULL}, 3,
	            "\"reachable\":false");
	assert_code((const char *[]){"status", "--url", "http://127.0.0.1:1", NULL}, 1, "promises weakened: P6");
	assert_code((const char *[]){"status", "--url", "127.0.0.1:1", NULL}, 2, "http://HOST:PORT");
}

/* A monitor that gets no report must not be told that all is well, nor somebody without his key that he has one. */
static void what_nobody_got_is_a_failure(void **state)
{
	const char *const words[][6] = {{"status", "--json"},
	                                {"audit", "--json"},
	                                {"key", "create", "--principal", "till"}};
	for (int i = 0; i < 3; i++) {
		struct command command = command_run_into("/dev/full", words[i], shop.variables);
		assert_int_equal(command.exit_code, 1);
		assert_non_null(strstr(command.err, ": not all could be written to standard output\n"));
		command_done(&command);
	}
}

/* --- a running service -------------------------------------------------------------------------------------------- */

static void a_service_that_stands_is_quiet_and_one_whose_cell_lied_is_not(void **state)
{
	struct service service;
	struct quiet asked = {0};
	char url[200], line[200];
	int code;
	service_start(&service, (const char *[]){"--scrub-per-s", "2000", NULL});
	snprintf(asked.values[0], sizeof asked.values[0], "LASTUNIT_DATABASE_URL=%s", service.database_url);
	snprintf(asked.values[1], sizeof asked.values[1], "LASTUNIT_REDIS_URL=%s", service.redis_url);
	snprintf(url, sizeof url, "LASTUNIT_URL=%s/", service.url);
	asked.variables[0] = asked.values[0];
	asked.variables[1] = asked.values[1];
	asked.variables[2] = url;
	asked.variables[3] = "LASTUNIT_REDIS_TIMEOUT_MS=5000";
	service_create_sku(&service, "A", 10);
	json_t *json = NULL;
	for (int i = 0; i < 600; i++) { /* until the first epoch is open and the first hit was served */
		json_decref(json);
		service_see(&service, "A");
		json = status_of(&asked, &code);
		if (quiet_number(json, "instance.hits") > 0 && quiet_number(json, "instance.scrub_checked") > 0)
			break;
		usleep(20000);
	}
	char *text = json_dumps(json, 0);
	if (code != 0 || json_array_size(quiet_at(json, "findings")))
		fail_msg("exit code %d: %s", code, text);
	free(text);
	assert_true(json_is_true(quiet_at(json, "promises_stand")));
	assert_true(json_is_true(quiet_at(json, "epoch.same_database")));
	assert_true(json_is_true(quiet_at(json, "epoch.same_redis")));
	assert_true(json_is_true(quiet_at(json, "instance.lease")));
	assert_int_equal(quiet_number(json, "database.instances"), 1);
	assert_in_range(quiet_number(json, "instance.hits_per_10000"), 1, 10000);
	assert_int_equal(quiet_number(json, "instance.scrub_wrong"), 0);
	printed(&asked, "\nall promises stand\n");
	/* a cell that lies is found by the scrub, and status tells it from then on */
	char namespace[40];
	snprintf(namespace, sizeof namespace, "%s", quiet_text(json, "epoch.namespace"));
	json_decref(json);
	struct redis_server redis = {0};
	snprintf(redis.socket, sizeof redis.socket, "%s", service.redis_url + strlen("unix://"));
	snprintf(line, sizeof line, "SET %s:A V|1|11|0|0|1|A", namespace);
	free(redis_server_command(&redis, line));
	for (int i = 0; i < 600; i++) {
		json = status_of(&asked, &code);
		bool found = quiet_number(json, "instance.scrub_wrong") > 0;
		if (found)
			assert_string_equal(quiet_finding(json, "cells_wrong"), "P2");
		json_decref(json);
		if (found)
			break;
		usleep(20000);
	}
	assert_int_equal(code, 1);
	assert_int_equal(service_stop(&service), 0);
}

static int start(void **state)
{
	quiet_start("fsync = on\n", NULL);
	return 0;
}

static int end(void **state)
{
	quiet_end();
	return 0;
}

#define SHOP_TEST(f) cmocka_unit_test_setup(f, open_shop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SHOP_TEST(settings_that_lose_commits_are_named),
		SHOP_TEST(synchronous_commit_is_judged_as_others_get_it),
		SHOP_TEST(standbys_that_nobody_waits_for_are_named),
		SHOP_TEST(a_guard_that_is_gone_asleep_or_easily_silenced_is_named),
		SHOP_TEST(roles_that_may_rewrite_the_ledger_are_named),
		SHOP_TEST(each_right_of_the_service_is_missed),
		SHOP_TEST(holds_are_counted_and_overdue_ones_weaken_p5),
		SHOP_TEST(changes_in_sql_wait_for_a_relay_that_is_not_there),
		SHOP_TEST(the_oldest_transaction_is_named),
		SHOP_TEST(redis_settings_are_told_apart_by_what_they_do),
		SHOP_TEST(cells_are_counted_and_foreign_and_stuck_ones_named),
		SHOP_TEST(what_nobody_got_is_a_failure),
		SHOP_TEST(foreign_keys_of_any_length_and_bytes_are_named_in_short),
		SHOP_TEST(without_redis_all_promises_stand_and_it_says_what_that_means),
		SHOP_TEST(an_epoch_of_another_redis_or_another_life_is_told),
		SHOP_TEST(a_database_that_was_never_migrated_is_2_for_every_command),
		SHOP_TEST(a_database_url_that_cannot_be_read_is_2_for_every_command),
		SHOP_TEST(a_value_that_libpq_does_not_take_is_2_for_every_command),
		SHOP_TEST(no_database_is_3_and_a_silent_instance_1),
		cmocka_unit_test(a_service_that_stands_is_quiet_and_one_whose_cell_lied_is_not),
	};
	return cmocka_run_group_tests(tests, start, end);
}
