/* `lastunit import` beside a running service, as its users meet it: what a good file does, once, and who sees it.
 * Rows and files that are refused, and those of other programs: import_refusals_test.c.
 *
 * Bugs it guards against (B71, B10, B40, B74): good rows of a bad file that stay; a file imported twice that counts twice,
 * also when two people do it at once or the first is killed; a cache that goes on answering the old count; a file that
 * deadlocks with carts.
 */
#include "e2e/import_fixture.h"

#include <pthread.h>
#include <signal.h>

#include "base/embed.h"

/* --- what it does ------------------------------------------------------------------------------------------------- */

static void new_skus_are_created_with_what_the_file_says(void **state)
{
	import_ok(write_text("a.csv",
	                     "sku,on_hand,safety_stock,tracked,title_en,title_ru,reason\n"
	                     "new-A,5,1,true,\"Mug, red\",\xd0\x9a\xd1\x80\xd1\x83\xd0\xb6\xd0\xba\xd0\xb0,opening\n"
	                     "new-B,0,0,false,,,\n"));
	struct answer answer = service_call(&service, service.key_admin, "GET", "/v1/skus/new-A", NULL, NULL);
	assert_int_equal(answer_int(&answer, "on_hand"), 5);
	assert_int_equal(answer_int(&answer, "safety_stock"), 1);
	assert_int_equal(answer_int(&answer, "available"), 4);
	assert_int_equal(answer_int(&answer, "version"), 1);
	assert_string_equal(answer_string(&answer, "titles.en"), "Mug, red");
	assert_string_equal(answer_string(&answer, "titles.ru"), "\xd0\x9a\xd1\x80\xd1\x83\xd0\xb6\xd0\xba\xd0\xb0");
	answer_done(&answer);
	assert_int_equal(service_ledger_count(&service, "new-A", "create"), 1);
	assert_string_equal(ask("SELECT l.reference FROM lastunit.ledger l JOIN lastunit.sku s ON s.id = l.sku_id "
	                        "WHERE s.code = 'new-A'"),
	                    "opening");
	assert_false(service_see(&service, "new-B").tracked);
	assert_int_equal(service_sell(&service, service.key_pos, NULL, "new-A", 4), 201);
	assert_int_equal(service_sell(&service, service.key_pos, NULL, "new-A", 1), 409);
}

static void an_import_is_seen_at_once_though_the_old_count_was_cached(void **state)
{
	service_create_sku(&service, "warm", 10);
	int published = 0;
	for (int round = 1; round <= 20; round++) {
		wait_until_open();
		assert_int_equal(service_see(&service, "warm").version, round); /* fills the cell, or hits it */
		assert_int_equal(service_see(&service, "warm").version, round);
		char namespace[64], text[60];
		snprintf(namespace, sizeof namespace, "%s", ask("SELECT namespace FROM lastunit.cache_epoch"));
		snprintf(text, sizeof text, "sku,delta\nwarm,%d\n", round);
		struct result result = import(write_text("warm.csv", text), NULL, NULL);
		assert_int_equal(result.exit_code, 0);
		bool in_open_epoch = strcmp(json_string_value(json_object_get(result.json, "cache")), "published") == 0;
		done(&result);
		assert_row("warm", 10 + round * (round + 1) / 2, round + 1);
		/* The epoch stays open: that is what the protocol is for. The service may close it for reasons of its own. */
		published += in_open_epoch && strcmp(ask("SELECT namespace FROM lastunit.cache_epoch"), namespace) == 0;
	}
	assert_true(published > 0);
	assert_int_equal(service_ledger_count(&service, "warm", "import"), 20);
}

static void rows_of_one_sku_are_applied_in_order(void **state)
{
	import_ok(write_text("order.csv",
	                     "sku,on_hand,delta,change_from\n"
	                     "order-A,5,,\norder-B,,4,0\norder-A,,3,5\norder-A,2,,8\norder-A,,1,2\norder-B,,-4,4\n"));
	assert_row("order-A", 3, 4);
	assert_row("order-B", 0, 2);
	assert_string_equal(
		ask("SELECT string_agg(l.kind || ':' || l.on_hand_delta || '=' || l.on_hand_after, ' ' ORDER BY l.version) "
	        "FROM lastunit.ledger l JOIN lastunit.sku s ON s.id = l.sku_id WHERE s.code = 'order-A'"),
		"1:5=5 11:3=8 11:-6=2 11:1=3");
}

static void settings_and_titles_change_without_a_count(void **state)
{
	service_create_sku(&service, "settings", 8);
	import_ok(write_text("settings.csv", "sku,safety_stock,tracked,title_en\nsettings,3,,First\n"));
	import_ok(write_text("titles.csv", "sku,title_de\nsettings,Erster\n"));
	struct answer answer = service_call(&service, service.key_admin, "GET", "/v1/skus/settings", NULL, NULL);
	assert_int_equal(answer_int(&answer, "safety_stock"), 3);
	assert_int_equal(answer_int(&answer, "available"), 5);
	/* a title is no entry of the ledger, and takes away no other language */
	assert_int_equal(answer_int(&answer, "version"), 2);
	assert_string_equal(answer_string(&answer, "titles.en"), "First");
	assert_string_equal(answer_string(&answer, "titles.de"), "Erster");
	answer_done(&answer);
	assert_int_equal(service_see(&service, "settings").available, 5);
}

/* A count says nothing of what is kept back, nor whether it is counted at all; of two words in one file the last counts. */
static void a_count_leaves_settings_as_they_are(void **state)
{
	import_ok(write_text("kept.csv",
	                     "sku,safety_stock,tracked,title_en\n"
	                     "kept,1,true,First\nkept,3,false,Second\nkept-too,4,,\n"));
	import_ok(write_text("kept-count.csv", "sku,on_hand\nkept,8\nkept-too,9\n"));
	struct row row = service_row(&service, "kept");
	assert_int_equal(row.on_hand, 8);
	assert_int_equal(row.safety_stock, 3);
	assert_false(row.tracked);
	row = service_row(&service, "kept-too");
	assert_int_equal(row.safety_stock, 4);
	assert_true(row.tracked);
	struct answer answer = service_call(&service, service.key_admin, "GET", "/v1/skus/kept", NULL, NULL);
	assert_string_equal(answer_string(&answer, "titles.en"), "Second");
	answer_done(&answer);
}

/* A list is whole: it takes the place of the one there was; a field that is empty leaves it. */
static void names_are_taken_with_semicolons(void **state)
{
	service_create_sku(&service, "called", 8);
	import_ok(write_text("names.csv", "sku,title_en,names\ncalled,Mug,cup\ncalled,,red mug; red cup ;  beaker\n"));
	struct answer answer = service_call(&service, service.key_admin, "GET", "/v1/skus/called", NULL, NULL);
	assert_string_equal(answer_string(&answer, "names.0"), "red mug");
	assert_string_equal(answer_string(&answer, "names.1"), "red cup");
	assert_string_equal(answer_string(&answer, "names.2"), "beaker");
	assert_int_equal(json_array_size(answer_at(&answer, "names")), 3);
	assert_string_equal(answer_string(&answer, "titles.en"), "Mug");
	assert_int_equal(answer_int(&answer, "version"), 1);
	answer_done(&answer);
	import_ok(write_text("names-kept.csv", "sku,title_en,names\ncalled,Red mug,\n"));
	import_ok(write_text("names-alone.csv", "sku,names\ncalled,goblet\n"));
	answer = service_call(&service, service.key_admin, "GET", "/v1/skus/called", NULL, NULL);
	assert_string_equal(answer_string(&answer, "titles.en"), "Red mug");
	assert_string_equal(answer_string(&answer, "names.0"), "goblet");
	assert_int_equal(json_array_size(answer_at(&answer, "names")), 1);
	answer_done(&answer);
}

/* The first file that somebody finds in the tree to try this on. */
static void the_demo_catalogue_can_be_imported(void **state)
{
	struct text demo = embed_find("sql/demo.csv");
	import_ok(write_bytes("demo.csv", demo.data, demo.size));
	struct answer answer = service_call(&service, service.key_admin, "GET", "/v1/skus/MUG-RED", NULL, NULL);
	assert_int_equal(answer_int(&answer, "on_hand"), 24);
	assert_string_equal(answer_string(&answer, "titles.en"), "Red stoneware mug, 350 ml");
	assert_string_equal(answer_string(&answer, "names.1"), "red cup");
	answer_done(&answer);
}

/* Titles of a million SKUs take minutes; entries not committed by then slow down whoever reads the feed. */
static void the_ledger_is_written_behind_the_titles(void **state)
{
	const char *path = write_text("behind.csv", "sku,on_hand,title_en\nBEHIND,1,Behind\n");
	const char *seen = "0 of 0";
	PGconn *stranger = PQconnectdb(service.database_url);
	PQclear(PQexec(stranger, "BEGIN; LOCK TABLE lastunit.sku_text IN SHARE MODE"));
	struct command command = command_start((const char *[]){"import", path, NULL}, variables);
	int64_t deadline_ns = deadline_in_ms(PATIENCE_MS);
	while (strcmp(seen, "0 of 0") == 0 && deadline_left_ms(deadline_ns) > 0)
		seen = ask(
			"SELECT count(l.pid) || ' of ' || count(*) FROM pg_locks w LEFT JOIN pg_locks l ON l.pid = w.pid"
			" AND l.relation = 'lastunit.ledger'::regclass"
			" WHERE w.relation = 'lastunit.sku_text'::regclass AND NOT w.granted");
	assert_string_equal(seen, "0 of 1");
	PQclear(PQexec(stranger, "COMMIT"));
	PQfinish(stranger);
	command_wait(&command);
	assert_int_equal(command.exit_code, 0);
	command_done(&command);
	assert_row("BEHIND", 1, 1);
}

/* A PostgreSQL that is restarted, a firewall that forgets: it is done all the same, and once. */
static void an_import_whose_session_ends_runs_again(void **state)
{
	static const char waits[] =
		"SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted"
		" AND l.relation = 'lastunit.sku_text'::regclass AND a.application_name = 'lastunit import'";
	const char *path = write_text("cut.csv", "sku,delta,title_en\nCUT,1,Cut\n");
	PGconn *stranger = PQconnectdb(service.database_url);
	PQclear(PQexec(stranger, "BEGIN; LOCK TABLE lastunit.sku_text IN SHARE MODE"));
	struct command command = command_start((const char *[]){"import", path, NULL}, variables);
	wait_until(waits, "1");
	ask("SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE application_name = 'lastunit import'");
	PQclear(PQexec(stranger, "COMMIT"));
	PQfinish(stranger);
	command_wait(&command);
	if (command.exit_code)
		fail_msg("%d: %s", command.exit_code, command.err);
	command_done(&command);
	assert_row("CUT", 1, 1);
}

/* --- once --------------------------------------------------------------------------------------------------------- */

static void the_same_file_twice_has_its_effect_once(void **state)
{
	const char *path = write_text("twice.csv", "sku,delta\ntwice,5\n");
	struct result first = import(path, NULL, NULL), second = import(path, NULL, NULL);
	assert_int_equal(first.exit_code, 0);
	assert_int_equal(second.exit_code, 0);
	assert_false(flag(&first, "replayed"));
	assert_true(flag(&second, "replayed"));
	assert_int_equal(number(&second, "created"), 1);
	assert_int_equal(number(&second, "units"), 5);
	assert_row("twice", 5, 1);
	done(&first);
	done(&second);
	/* other options are another import; so is a key of one's own, once */
	struct result other = import(path, "--reason", "again");
	assert_int_equal(other.exit_code, 0);
	assert_row("twice", 10, 2);
	assert_string_equal(ask("SELECT l.reference FROM lastunit.ledger l JOIN lastunit.sku s ON s.id = l.sku_id"
	                        " WHERE s.code = 'twice' AND l.version = 2"),
	                    "again");
	done(&other);
	for (int i = 0; i < 2; i++) {
		other = import(path, "--key", "delivery-17");
		assert_int_equal(other.exit_code, 0);
		done(&other);
	}
	assert_row("twice", 15, 3);
	other = import(write_text("twice2.csv", "sku,delta\ntwice,6\n"), "--key", "delivery-17");
	assert_int_equal(other.exit_code, 1);
	assert_non_null(strstr(other.err, "--key was used for another file"));
	assert_row("twice", 15, 3);
	done(&other);
}

static void who_imports_again_is_told_what_was_done(void **state)
{
	static const char *const counts[] = {"created", "changed", "entries", "described", "units", "refused"};
	static const int64_t expected[] = {2, 1, 4, 1, 16, 1};
	import_ok(write_text("told-0.csv", "sku,on_hand\ntold-A,1\n"));
	const char *path = write_text("told.csv",
	                              "sku,delta,title_en\ntold-A,4,\ntold-B,5,Told\ntold-B,3,\ntold-C,4,\ntold-C,-9,\n");
	for (int again = 0; again < 2; again++) {
		struct result result = import(path, "--partial", NULL);
		assert_int_equal(flag(&result, "replayed"), again);
		assert_int_equal(result.exit_code, 1);
		for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
			if (number(&result, counts[i]) != expected[i])
				fail_msg("%d: %s is %lld", again, counts[i], (long long)number(&result, counts[i]));
		done(&result);
	}
}

/* What another option makes of it is another import: whoever finds that it was the wrong column is not told "already". */
static void a_file_read_otherwise_is_another_import(void **state)
{
	static const char *const options[][4] = {{"--map", "sku=a,delta=b"},
	                                         {"--map", "sku=a,delta=c"},
	                                         {"--map", "sku=a,delta=c", "--encoding", "ISO-8859-1"},
	                                         {"--map", "sku=a,delta=c", "--partial"}};
	static const int64_t on_hand[] = {1, 11, 21, 31};
	const char *path = write_text("otherwise.csv", "a,b,c\notherwise,1,10\n");
	for (int i = 0; i < 4; i++) {
		const char *all[5] = {options[i][0], options[i][1], options[i][2], options[i][3]};
		struct result result = import_with(variables, path, all);
		assert_int_equal(result.exit_code, 0);
		assert_false(flag(&result, "replayed"));
		done(&result);
		assert_row("otherwise", on_hand[i], i + 1);
	}
}

static void a_bad_row_keeps_all_others_out_until_it_is_mended(void **state)
{
	const char *bad = write_text("bad.csv", "sku,delta\nmend-A,1\nmend-B,2\nmend-C,bad\n");
	const char *good = write_text("good.csv", "sku,delta\nmend-A,1\nmend-B,2\nmend-C,3\n");
	import_ok(write_text("zero.csv", "sku,on_hand\nmend-A,0\nmend-B,0\nmend-C,0\n"));
	struct result result = import(bad, NULL, NULL);
	assert_int_equal(result.exit_code, 1);
	assert_false(flag(&result, "applied"));
	assert_refusal(&result, 0, 4, "mend-C", "invalid_field");
	done(&result);
	assert_row("mend-A", 0, 1);
	assert_row("mend-C", 0, 1);
	import_ok(good);
	import_ok(good);
	assert_row("mend-A", 1, 2);
	assert_row("mend-B", 2, 2);
	assert_row("mend-C", 3, 2);
}

/* `count` rows for SKUs named prefix-0000… */
static const char *write_many(const char *name, const char *prefix, int count, const char *column, int value)
{
	struct buffer file = {0};
	buffer_add_format(&file, "sku,%s\n", column);
	for (int i = 0; i < count; i++)
		buffer_add_format(&file, "%s-%06d,%d\n", prefix, i, value);
	const char *path = write_bytes(name, file.data, file.size);
	buffer_done(&file);
	return path;
}

static void two_people_at_once_import_it_once(void **state)
{
	for (int round = 0; round < 5; round++) {
		char prefix[20];
		snprintf(prefix, sizeof prefix, "pair%d", round);
		const char *path = write_many("pair.csv", prefix, 300, "delta", 7);
		const char *arguments[] = {"import", path, "--json", NULL};
		struct command commands[4];
		for (int i = 0; i < 4; i++)
			commands[i] = command_start(arguments, variables);
		int replayed = 0;
		for (int i = 0; i < 4; i++) {
			command_wait(&commands[i]);
			if (commands[i].exit_code)
				fail_msg("one of four: %d: %s", commands[i].exit_code, commands[i].err);
			replayed += strstr(commands[i].out, "\"replayed\":true") != NULL;
			command_done(&commands[i]);
		}
		assert_int_equal(replayed, 3);
		char sql[200];
		snprintf(sql, sizeof sql,
		         "SELECT sum(on_hand) || ' ' || max(version) FROM lastunit.sku WHERE code LIKE '%s-%%'", prefix);
		assert_string_equal(ask(sql), "2100 1");
	}
}

/* Kills it when the server is seen at this step of its work. False: it was over before anybody saw that. */
static bool killed_at(const char *step, const char *path)
{
	char sql[400];
	snprintf(sql, sizeof sql,
	         "SELECT count(*), count(*) FILTER (WHERE query LIKE '%s') FROM pg_stat_activity"
	         " WHERE application_name = 'lastunit import'",
	         step);
	PGconn *watcher = PQconnectdb(service.database_url); /* one, which looks often */
	struct command command = command_start((const char *[]){"import", path, NULL}, variables);
	int64_t deadline_ns = deadline_in_ms(PATIENCE_MS);
	for (bool began = false, seen = false, over = false; !seen && !over && deadline_left_ms(deadline_ns) > 0;) {
		PGresult *sessions = PQexec(watcher, sql);
		bool runs = strcmp(PQgetvalue(sessions, 0, 0), "0") != 0;
		seen = strcmp(PQgetvalue(sessions, 0, 1), "0") != 0;
		over = began && !runs;
		began = began || runs;
		PQclear(sessions);
	}
	PQfinish(watcher);
	kill(command.pid, SIGKILL);
	command_wait(&command);
	int exit_code = command.exit_code;
	command_done(&command);
	if (exit_code)
		assert_int_equal(exit_code, 128 + SIGKILL);
	return exit_code != 0;
}

static void killed_at_any_moment_it_is_all_or_nothing(void **state)
{
	/* Each round kills it at another step. */
	static const char *const steps[] = {"COPY import_stage%", "%INSERT INTO import_applied%",
	                                    "%INSERT INTO lastunit.sku %", "INSERT INTO lastunit.ledger%"};
	for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
		char prefix[20], sql[400];
		const char *path;
		int tries = 0;
		do { /* a busy machine may not look in time */
			assert_true(tries < 20);
			snprintf(prefix, sizeof prefix, "kill%zu-%d", i, tries++);
			path = write_many("kill.csv", prefix, 30000, "on_hand", 1);
		} while (!killed_at(steps[i], path));
		wait_until("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lastunit import'", "0");
		snprintf(sql, sizeof sql, "SELECT count(*) FROM lastunit.sku WHERE code LIKE '%s-%%'", prefix);
		const char *made = ask(sql);
		assert_true(strcmp(made, "0") == 0 || strcmp(made, "30000") == 0);
		import_ok(path);
		snprintf(sql, sizeof sql, "SELECT count(*) || ' ' || sum(on_hand) FROM lastunit.sku WHERE code LIKE '%s-%%'",
		         prefix);
		assert_string_equal(ask(sql), "30000 30000");
	}
}

/* What a command has said on stderr so far. */
static const char *said(const struct command *command)
{
	static char text[2000];
	ssize_t size = pread(command->err_fd, text, sizeof text - 1, 0);
	text[size > 0 ? size : 0] = 0;
	return text;
}

/* Somebody opens a transaction on one of its SKUs and goes to lunch: the others are on sale all the while, and the
 * import says who it is. */
static void a_row_that_a_stranger_locks_is_waited_for_with_no_lock_held(void **state)
{
	import_ok(write_text("lunch.csv", "sku,on_hand\nLUNCH-A,10\nLUNCH-B,10\nLUNCH-C,10\n"));
	const char *path = write_text("lunch-2.csv", "sku,delta\nLUNCH-A,5\nLUNCH-B,5\nLUNCH-C,5\n");
	PGconn *stranger = PQconnectdb(service.database_url);
	PQclear(PQexec(stranger, "SET application_name = 'lunch'; BEGIN"));
	PQclear(PQexec(stranger, "SELECT FROM lastunit.sku WHERE code = 'LUNCH-B' FOR UPDATE"));
	char says[100];
	snprintf(says, sizeof says, "SKU \"LUNCH-B\" is locked by pid %d (lunch)", PQbackendPID(stranger));

	struct command command = command_start((const char *[]){"import", path, NULL}, variables);
	int64_t deadline_ns = deadline_in_ms(PATIENCE_MS);
	while (!strstr(said(&command), "waiting: ") && deadline_left_ms(deadline_ns) > 0)
		usleep(1000);
	assert_non_null(strstr(said(&command), says));
	for (int i = 0; i < 5; i++)
		assert_int_equal(service_sell(&service, service.key_web, NULL, "LUNCH-A", 1), 201);
	PQclear(PQexec(stranger, "COMMIT"));
	command_wait(&command);
	if (command.exit_code)
		fail_msg("%d: %s", command.exit_code, command.err);
	command_done(&command);
	assert_row("LUNCH-A", 10, 7);
	assert_row("LUNCH-B", 15, 2);

	PQclear(PQexec(stranger, "BEGIN; UPDATE lastunit.sku SET on_hand = 1 WHERE code = 'LUNCH-B'"));
	path = write_text("lunch-3.csv", "sku,delta\nLUNCH-A,1\nLUNCH-B,1\n");
	command = command_run((const char *[]){"import", path, "--timeout-s", "4", NULL}, variables);
	assert_int_equal(command.exit_code, 1);
	assert_non_null(strstr(command.err, "gave up waiting: "));
	assert_non_null(strstr(command.err, says));
	command_done(&command);
	PQclear(PQexec(stranger, "ROLLBACK"));
	PQfinish(stranger);
	assert_row("LUNCH-A", 10, 7);
	assert_row("LUNCH-B", 15, 2);
}

/* --- the cache epoch ---------------------------------------------------------------------------------------------- */

static void more_than_two_thousand_existing_skus_close_the_epoch_and_the_service_opens_the_next(void **state)
{
	import_ok(write_many("many.csv", "many", 2001, "on_hand", 3));
	wait_until_open();
	assert_int_equal(service_see(&service, "many-000000").available, 3);
	assert_int_equal(service_see(&service, "many-002000").available, 3);
	char namespace[64];
	snprintf(namespace, sizeof namespace, "%s", ask("SELECT namespace FROM lastunit.cache_epoch"));
	struct result result = import(write_many("many2.csv", "many", 2001, "delta", 2), NULL, NULL);
	assert_int_equal(result.exit_code, 0);
	assert_string_equal(json_string_value(json_object_get(result.json, "cache")), "closed");
	done(&result);
	assert_row("many-000000", 5, 2);
	assert_row("many-002000", 5, 2);
	wait_until_open();
	assert_string_not_equal(ask("SELECT namespace FROM lastunit.cache_epoch"), namespace);
	assert_row("many-001000", 5, 2);
	/* exactly 2000 are still done in the open epoch, if the service leaves it open */
	bool published = false;
	int rounds = 0;
	while (!published && rounds < 5) {
		wait_until_open();
		result = import(write_many("many3.csv", "many", 2000, "delta", 1), "--reason",
		                (char[]){(char)('0' + rounds++), 0});
		assert_int_equal(result.exit_code, 0);
		published = strcmp(json_string_value(json_object_get(result.json, "cache")), "published") == 0;
		done(&result);
	}
	assert_true(published);
	assert_row("many-001999", 5 + rounds, 2 + rounds);
}

static void without_redis_or_with_a_dead_one_no_old_count_is_answered(void **state)
{
	service_create_sku(&service, "blind", 5);
	const char *const environments[][3] = {{database, NULL},
	                                       {database, "LASTUNIT_REDIS_URL=unix:///nonexistent/socket", NULL}};
	for (int i = 0; i < 2; i++) {
		wait_until_open();
		assert_int_equal(service_see(&service, "blind").available, 5 + i);
		struct result result = import_with(environments[i],
		                                   write_text("blind.csv",
		                                              i ? "sku,on_hand\nblind,7\n" : "sku,on_hand\nblind,6\n"),
		                                   NULL);
		if (result.exit_code)
			fail_msg("%s", result.err);
		assert_string_equal(json_string_value(json_object_get(result.json, "cache")), "closed");
		/* He gave an address and believes it in use. */
		assert_int_equal(strstr(result.err, "lastunit import: warning: --redis-url: ") != NULL, i);
		assert_int_equal(strstr(result.err, "all instances read PostgreSQL until one of them opens the cache") != NULL,
		                 i);
		done(&result);
		assert_row("blind", 6 + i, 2 + i);
	}
}

/* --- beside sales ------------------------------------------------------------------------------------------------- */

struct seller {
	pthread_t thread;
	unsigned seed;
	int sold, unexpected;
	_Atomic bool *stop;
};

static void *sell(void *argument)
{
	struct seller *seller = argument;
	while (!*seller->stop) {
		char body[200];
		int first = (int)(seller->seed % 5), second = (int)(seller->seed / 5 % 5);
		seller->seed = seller->seed * 1103515245 + 12345;
		/* carts name their SKUs in any order */
		snprintf(body, sizeof body,
		         "{\"idempotency_key\":\"%s\",\"lines\":[{\"sku\":\"race-%06d\",\"quantity\":1},"
		         "{\"sku\":\"race-%06d\",\"quantity\":1}]}",
		         service_new_key(), first, second);
		struct answer answer = service_call(&service, service.key_pos, "POST", "/v1/checkouts", NULL, body);
		if (answer.status == 201)
			seller->sold += 2;
		else
			seller->unexpected += answer.status != 409 && answer.status != 503;
		answer_done(&answer);
	}
	return NULL;
}

static void imports_and_sales_of_the_same_skus_add_up(void **state)
{
	import_ok(write_many("race.csv", "race", 5, "on_hand", 100));
	static _Atomic bool stop; /* they outlive a failed assertion */
	static struct seller sellers[6];
	for (unsigned i = 0; i < 6; i++) {
		sellers[i] = (struct seller){.seed = 17 + i, .stop = &stop};
		assert_int_equal(pthread_create(&sellers[i].thread, NULL, sell, &sellers[i]), 0);
	}
	for (int round = 0; round < 15; round++) {
		char name[20];
		snprintf(name, sizeof name, "round-%d", round);
		struct result result = import(write_many("race2.csv", "race", 5, "delta", 20), "--key", name);
		if (result.exit_code)
			fail_msg("%s", result.err);
		done(&result);
	}
	stop = true;
	int sold = 0;
	for (int i = 0; i < 6; i++) {
		pthread_join(sellers[i].thread, NULL);
		sold += sellers[i].sold;
		assert_int_equal(sellers[i].unexpected, 0);
	}
	assert_true(sold > 0);
	char left[20];
	snprintf(left, sizeof left, "%d", 5 * (100 + 15 * 20) - sold);
	assert_string_equal(ask("SELECT sum(on_hand) FROM lastunit.sku WHERE code LIKE 'race-%'"), left);
	assert_string_equal(ask("SELECT sum(deadlocks) FROM pg_stat_database"), "0");
}

static const struct CMUnitTest tests[] = {
	SOUND(new_skus_are_created_with_what_the_file_says),
	SOUND(an_import_is_seen_at_once_though_the_old_count_was_cached),
	SOUND(rows_of_one_sku_are_applied_in_order),
	SOUND(settings_and_titles_change_without_a_count),
	SOUND(a_count_leaves_settings_as_they_are),
	SOUND(names_are_taken_with_semicolons),
	SOUND(the_demo_catalogue_can_be_imported),
	SOUND(the_same_file_twice_has_its_effect_once),
	SOUND(who_imports_again_is_told_what_was_done),
	SOUND(a_file_read_otherwise_is_another_import),
	SOUND(a_bad_row_keeps_all_others_out_until_it_is_mended),
	SOUND(two_people_at_once_import_it_once),
	SOUND(killed_at_any_moment_it_is_all_or_nothing),
	SOUND(a_row_that_a_stranger_locks_is_waited_for_with_no_lock_held),
	SOUND(the_ledger_is_written_behind_the_titles),
	SOUND(an_import_whose_session_ends_runs_again),
	SOUND(more_than_two_thousand_existing_skus_close_the_epoch_and_the_service_opens_the_next),
	SOUND(without_redis_or_with_a_dead_one_no_old_count_is_answered),
	SOUND(imports_and_sales_of_the_same_skus_add_up),
};

IMPORT_MAIN(tests)
