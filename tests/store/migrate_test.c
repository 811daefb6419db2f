/* Migrations: once, twice, two at once, and never backwards. */
#include "store/fixture.h"
#include "store/advisory.h"
#include "store/migrate.h"

#include <pthread.h>

/* An empty database; the fixture's own has the schema already. */
static const char *empty_database(const char *name, const char *options)
{
	static char empty[200], sql[200];
	snprintf(sql, sizeof sql, "CREATE DATABASE %s %s", name, options);
	pg_server_ask(server.url, sql);
	snprintf(empty, sizeof empty, "host=%s user=postgres dbname=%s", server.directory, name);
	return empty;
}

static struct pg *connected(const char *to)
{
	struct pg *pg = pg_new(&(struct pg_options){.url = to});
	ok(pg, pg_connect(pg, SOON));
	return pg;
}

static void an_empty_database_is_migrated_once(void **state)
{
	char why[512] = "";
	struct migrate_report report;
	struct pg *pg = connected(empty_database("once", ""));
	assert_false(migrate_check(pg, SOON, &report, why));
	assert_non_null(strstr(why, "lastunit migrate"));
	assert_true(migrate_run(pg, SOON, &report, why));
	assert_int_equal(report.found, 0);
	assert_int_equal(report.now, report.known);
	assert_true(report.known >= 2);
	int64_t known = report.known;
	assert_true(migrate_run(pg, SOON, &report, why));
	assert_int_equal(report.found, known);
	assert_int_equal(report.now, known);
	assert_true(migrate_check(pg, SOON, &report, why));
	pg_free(pg);
	/* As serve sees it. */
	pg = session();
	assert_true(migrate_check(pg, SOON, &report, why));
	assert_int_equal(report.found, known);
	assert_int_equal(ask_int("SELECT count(*) FROM lastunit.migration WHERE name <> '' AND at <= now()"), known);
	assert_string_equal(ask("SELECT name FROM lastunit.migration WHERE version = 1"), "stock");
	pg_free(pg);
}

struct migrator {
	pthread_t thread;
	struct pg *pg;
	bool done;
	struct migrate_report report;
	char why[512];
};

static void *migrate(void *context)
{
	struct migrator *m = context;
	m->done = migrate_run(m->pg, SOON, &m->report, m->why);
	return NULL;
}

static void run_together(struct migrator *migrators, int count)
{
	for (int i = 0; i < count; i++)
		assert_int_equal(pthread_create(&migrators[i].thread, NULL, migrate, &migrators[i]), 0);
	for (int i = 0; i < count; i++)
		pthread_join(migrators[i].thread, NULL); /* all of them: an assertion leaves their stack */
	for (int i = 0; i < count; i++) {
		assert_string_equal(migrators[i].why, "");
		assert_true(migrators[i].done);
		pg_free(migrators[i].pg);
	}
}

static struct pg *holder;
static char told[200];

/* Lets go once it was told of: the migration goes on because of that, and never before. */
static void on_wait(const char *sentence)
{
	snprintf(told, sizeof told, "%s", sentence);
	pg_close(holder);
}

static void who_waits_is_told_for_whom(void **state)
{
	struct migrate_report report;
	char why[512] = "", expected[100];
	const char *to = empty_database("waits", "");
	struct pg *pg = connected(to);
	holder = pg_new(&(struct pg_options){.url = to, .application_name = "a forgotten psql"});
	ok(holder, pg_connect(holder, SOON));
	ok(holder, pg_command(holder, "SELECT pg_advisory_lock(" ADVISORY(ADVISORY_MIGRATE) ")", SOON));
	snprintf(expected, sizeof expected, "held by pid %d (a forgotten psql)", PQbackendPID(pg_conn(holder)));
	assert_true(migrate_run_told(pg, SOON, on_wait, &report, why));
	assert_non_null(strstr(told, expected));
	assert_int_equal(report.now, report.known);
	pg_free(holder);
	pg_free(pg);
}

/* Who waits for the lock of a table keeps all away who come behind it. A backup reads for hours, and the service goes on
 * beside it: so nobody is to be seen waiting when it is told that the table is in use. */
static void a_table_that_somebody_reads_is_not_waited_for_with_others_behind(void **state)
{
	struct migrate_report report;
	char why[512] = "";
	const char *to = empty_database("read", "");
	struct pg *pg = connected(to);
	assert_true(migrate_run(pg, SOON, &report, why));
	ok(pg,
	   pg_command(pg, "DELETE FROM lastunit.migration WHERE version = (SELECT max(version) FROM lastunit.migration)",
	              SOON));
	holder = connected(to);
	ok(holder, pg_command(holder, "BEGIN; SELECT count(*) FROM lastunit.reservation", SOON));
	told[0] = '\0';
	assert_true(migrate_run_told(pg, SOON, on_wait, &report, why));
	assert_non_null(strstr(told, "a table is in use"));
	assert_string_equal(why, ""); /* it was done: why it was not at first is no reason any more */
	assert_int_equal(report.found, report.known - 1);
	assert_int_equal(report.now, report.known);
	pg_free(holder);
	pg_free(pg);
}

static void two_at_once_do_it_once(void **state)
{
	struct migrator migrators[4] = {{0}};
	const char *to = empty_database("together", "");
	for (int i = 0; i < 4; i++)
		migrators[i].pg = connected(to);
	run_together(migrators, 4);
	int did = 0;
	for (int i = 0; i < 4; i++) {
		did += migrators[i].report.found == 0;
		assert_int_equal(migrators[i].report.now, migrators[i].report.known);
	}
	assert_int_equal(did, 1);
}

/* Roles belong to the cluster: databases that are migrated at the same moment all want to make the same one. */
static void databases_of_one_cluster_share_the_role(void **state)
{
	for (int round = 0; round < 4; round++) {
		struct migrator migrators[4] = {{0}};
		for (int i = 0; i < 4; i++) {
			char name[32];
			snprintf(name, sizeof name, "role_%d_%d", round, i);
			migrators[i].pg = connected(empty_database(name, ""));
		}
		/* Without the role, as on a new cluster. */
		pg_server_ask(server.url,
		              "DO $$ DECLARE d text; BEGIN IF to_regrole('lastunit_service') IS NOT NULL THEN"
		              " ALTER ROLE lastunit_service RENAME TO lastunit_before; END IF; END $$");
		run_together(migrators, 4);
		assert_string_equal(pg_server_ask(server.url,
		                                  "SELECT rolcanlogin FROM pg_roles WHERE rolname = 'lastunit_service'"),
		                    "f");
		/* The old one back: it is the one that the other databases know. */
		char sql[300];
		snprintf(sql, sizeof sql,
		         "DO $$BEGIN IF to_regrole('lastunit_before') IS NOT NULL THEN"
		         " ALTER ROLE lastunit_service RENAME TO lastunit_spare_%d;"
		         " ALTER ROLE lastunit_before RENAME TO lastunit_service; END IF; END$$",
		         round);
		pg_server_ask(server.url, sql);
	}
}

static void a_login_that_is_no_superuser_may_migrate_and_serve(void **state)
{
	char to[200], why[512] = "";
	struct migrate_report report;
	pg_server_ask(server.url, "CREATE ROLE shop LOGIN CREATEROLE");
	empty_database("shop", "OWNER shop");
	snprintf(to, sizeof to, "host=%s user=shop dbname=shop", server.directory);
	struct pg *pg = connected(to);
	bool done = migrate_run(pg, SOON, &report, why);
	assert_string_equal(why, "");
	assert_true(done);
	pg_free(pg);
	pg = pg_new(&(struct pg_options){.url = to, .role = "lastunit_service"});
	ok(pg, pg_connect(pg, SOON));
	assert_true(migrate_check(pg, SOON, &report, why));
	pg_free(pg);
}

static void a_login_that_is_no_member_is_told_the_grant(void **state)
{
	char to[200], why[512] = "";
	assert_true(strlen(url) < sizeof to - 20);
	snprintf(to, sizeof to, "%s user='till 7'", url);
	pg_server_ask(url, "CREATE ROLE \"till 7\" LOGIN");
	struct pg *pg = connected(to);
	assert_false(migrate_check_member(pg, SOON, why));
	assert_non_null(strstr(why, "`GRANT lastunit_service TO \"till 7\"`"));
	pg_server_ask(url, "GRANT lastunit_service TO \"till 7\"");
	assert_true(migrate_check_member(pg, SOON, why));
	pg_free(pg);
}

static void a_server_without_the_role_is_told_how_it_comes(void **state)
{
	char why[512] = "";
	struct pg *pg = connected(url);
	assert_true(migrate_check_role(pg, SOON, why));
	pg_server_ask(server.url, "ALTER ROLE lastunit_service RENAME TO lastunit_elsewhere");
	bool there = migrate_check_role(pg, SOON, why);
	pg_server_ask(server.url, "ALTER ROLE lastunit_elsewhere RENAME TO lastunit_service");
	assert_false(there);
	assert_non_null(strstr(why, "`CREATE ROLE lastunit_service NOLOGIN`, then restore the dump"));
	pg_free(pg);
}

/* The role belongs to the cluster: another shop's owner may have made it. */
static void who_may_not_make_the_role_is_told_what_it_takes(void **state)
{
	static const char sentence[] =
		"it takes a superuser, or CREATE on the database and either CREATEROLE or to be a member of lastunit_service";
	char why[512] = "", to[200];
	struct migrate_report report;
	pg_server_ask(server.url, "CREATE ROLE tenant LOGIN");
	empty_database("tenants", "OWNER tenant");
	snprintf(to, sizeof to, "host=%s user=tenant dbname=tenants", server.directory);
	struct pg *pg = connected(to);
	assert_false(migrate_run(pg, SOON, &report, why));
	assert_non_null(strstr(why, "must have admin option on role"));
	assert_non_null(strstr(why, sentence));
	pg_server_ask(server.url, "GRANT lastunit_service TO tenant; ALTER DATABASE tenants OWNER TO postgres");
	assert_false(migrate_run(pg, SOON, &report, why));
	assert_non_null(strstr(why, "permission denied for database tenants"));
	assert_non_null(strstr(why, sentence));
	pg_server_ask(server.url, "GRANT CREATE ON DATABASE tenants TO tenant");
	assert_true(migrate_run(pg, SOON, &report, why));
	pg_free(pg);
}

static void a_newer_database_is_refused(void **state)
{
	char why[512] = "";
	struct migrate_report report;
	ask("INSERT INTO lastunit.migration (version, name) VALUES (9999, 'from the future')");
	struct pg *pg = owner_session();
	assert_false(migrate_check(pg, SOON, &report, why));
	assert_non_null(strstr(why, "9999"));
	why[0] = '\0';
	assert_false(migrate_run(pg, SOON, &report, why));
	assert_non_null(strstr(why, "9999"));
	assert_int_equal(PQtransactionStatus(pg_conn(pg)), PQTRANS_IDLE);
	pg_free(pg);
}

static void a_migration_that_fails_leaves_nothing(void **state)
{
	char why[512] = "";
	struct migrate_report report;
	const char *to = empty_database("broken", "");
	pg_server_ask(to, "CREATE SCHEMA lastunit"); /* somebody else's: the first statement fails */
	struct pg *pg = connected(to);
	assert_false(migrate_run(pg, SOON, &report, why));
	assert_non_null(strstr(why, "0001"));
	assert_non_null(strstr(why, "42P06"));
	pg_server_ask(to, "DROP SCHEMA lastunit");
	why[0] = '\0';
	assert_true(migrate_run(pg, SOON, &report, why));
	pg_free(pg);
	pg = connected(empty_database("latin", "ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"));
	assert_false(migrate_run(pg, SOON, &report, why));
	assert_non_null(strstr(why, "LATIN1"));
	pg_free(pg);
}

static void the_service_may_do_what_it_needs_and_no_more(void **state)
{
	static const char *const refused[] = {
		"UPDATE sku SET code = 'x'",
		"DELETE FROM sku",
		"TRUNCATE sku",
		"UPDATE reservation SET quantities = '{1}'",
		"DELETE FROM reservation",
		"UPDATE checkout SET quantities = '{1}'",
		"DELETE FROM checkout",
		"UPDATE hold SET quantity = 1",
		"INSERT INTO migration VALUES (99, 'x')",
		"DELETE FROM cache_epoch",
		"CREATE TABLE lastunit.x ()",
		"DROP TABLE ledger",
		"ALTER TABLE ledger DISABLE TRIGGER ALL",
		"UPDATE keys_version SET version = 1",
	};
	struct pg *pg = session();
	for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
		assert_int_equal(pg_command(pg, refused[i], SOON), LU_DATABASE_UNAVAILABLE);
		assert_string_equal(pg_error(pg)->sqlstate, "42501");
	}
	ok(pg,
	   pg_command(
		   pg, "SELECT * FROM pg_control_system(), pg_walfile_name(pg_current_wal_lsn()), pg_postmaster_start_time()",
		   SOON));
	pg_free(pg);
}

static const struct CMUnitTest tests[] = {
	STORE_TEST(an_empty_database_is_migrated_once),
	STORE_TEST(who_waits_is_told_for_whom),
	STORE_TEST(a_table_that_somebody_reads_is_not_waited_for_with_others_behind),
	STORE_TEST(two_at_once_do_it_once),
	STORE_TEST(databases_of_one_cluster_share_the_role),
	STORE_TEST(a_login_that_is_no_superuser_may_migrate_and_serve),
	STORE_TEST(a_login_that_is_no_member_is_told_the_grant),
	STORE_TEST(a_server_without_the_role_is_told_how_it_comes),
	STORE_TEST(who_may_not_make_the_role_is_told_what_it_takes),
	STORE_TEST(a_newer_database_is_refused),
	STORE_TEST(a_migration_that_fails_leaves_nothing),
	STORE_TEST(the_service_may_do_what_it_needs_and_no_more),
};

STORE_MAIN(tests)
