/* `lastunit import` beside a running service, as its users meet it.
 *
 * Bugs it guards against (B71, B69, B10, B27, B40, B66, B74): good rows of a bad file that stay; a file imported twice
 * that counts twice, also when two people do it at once or the first is killed; a count set below what is held; a cache
 * that goes on answering the old count; a file that deadlocks with carts.
 *
 * One service for all tests; each has SKUs of its own, and the audit runs after each.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <libpq-fe.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/embed.h"
#include "lib/command.h"
#include "lib/freeze.h"
#include "lib/orders_generator.h"
#include "lib/pg_server.h"
#include "lib/service.h"

#define PATIENCE_MS 60000

static struct service service;
static char database[600], redis[300];
/* A busy machine may take longer than the default for 2,000 cells; then the epoch would be closed, rightly. */
static const char *const variables[] = {database, redis, "LASTUNIT_REDIS_TIMEOUT_MS=5000", NULL};
static char directory[] = "/tmp/import-test-XXXXXX";

/* --- words -------------------------------------------------------------------------------------------------------- */

static const char *path_of(const char *name)
{
	static char paths[4][200];
	static int turn;
	char *path = paths[turn++ % 4];
	snprintf(path, 200, "%s/%s", directory, name);
	return path;
}

static const char *write_bytes(const char *name, const char *bytes, size_t size)
{
	const char *path = path_of(name);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, size, file), size);
	fclose(file);
	return path;
}

static const char *write_text(const char *name, const char *text)
{
	return write_bytes(name, text, strlen(text));
}

/* What an import printed with --json. */
struct result {
	int exit_code;
	json_t *json;
	char err[600];
};

static struct result import_with(const char *const *environment, const char *path, const char *const *options)
{
	const char *arguments[20] = {"import", path, "--json"};
	for (int i = 0; options && options[i]; i++)
		arguments[3 + i] = options[i];
	struct command command = command_run(arguments, environment);
	struct result result = {command.exit_code, json_loads(command.out, 0, NULL), ""};
	snprintf(result.err, sizeof result.err, "%s", command.err);
	command_done(&command);
	return result;
}

static struct result import(const char *path, const char *option, const char *value)
{
	const char *options[] = {option, value, NULL};
	return import_with(variables, path, option ? options : NULL);
}

static int64_t number(const struct result *result, const char *key)
{
	json_t *value = json_object_get(result->json, key);
	return json_is_integer(value) ? json_integer_value(value) : -1;
}

static bool flag(const struct result *result, const char *key)
{
	return json_is_true(json_object_get(result->json, key));
}

static void assert_refusal(const struct result *result, size_t at, int64_t line, const char *sku, const char *code)
{
	json_t *refusal = json_array_get(json_object_get(result->json, "refusals"), at);
	assert_non_null(refusal);
	assert_int_equal(json_integer_value(json_object_get(refusal, "line")), line);
	assert_string_equal(json_string_value(json_object_get(refusal, "sku")), sku);
	assert_string_equal(json_string_value(json_object_get(refusal, "code")), code);
	assert_true(strlen(json_string_value(json_object_get(refusal, "detail"))) > 5);
}

static void done(struct result *result)
{
	json_decref(result->json);
	*result = (struct result){0};
}

static void import_ok(const char *path)
{
	struct result result = import(path, NULL, NULL);
	if (result.exit_code)
		fail_msg("import of %s: %d: %s", path, result.exit_code, result.err);
	done(&result);
}

static void assert_row(const char *sku, int64_t on_hand, int64_t version)
{
	struct row row = service_row(&service, sku);
	assert_int_equal(row.status, 200);
	if (row.on_hand != on_hand || row.version != version)
		fail_msg("%s: on_hand %lld version %lld, should be %lld, %lld", sku, (long long)row.on_hand,
		         (long long)row.version, (long long)on_hand, (long long)version);
	struct seen seen = service_see(&service, sku);
	assert_int_equal(seen.status, 200);
	assert_int_equal(seen.version, version);
	assert_int_equal(seen.available, on_hand - row.reserved);
}

static const char *ask(const char *sql)
{
	return pg_server_ask(service.database_url, sql);
}

static void wait_until(const char *sql, const char *value)
{
	int64_t deadline_ns = deadline_in_ms(PATIENCE_MS);
	while (strcmp(ask(sql), value) != 0) {
		if (deadline_left_ms(deadline_ns) == 0)
			fail_msg("%s is not %s", sql, value);
		usleep(5000);
	}
}

static void wait_until_open(void)
{
	wait_until("SELECT state FROM lastunit.cache_epoch", "1");
}

static int audit_is_sound(void **state)
{
	int code = service_audit(&service);
	if (code)
		fprintf(stderr, "the audit after the test: exit code %d\n", code);
	return code;
}

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

static void killed_at_any_moment_it_is_all_or_nothing(void **state)
{
	/* Each round kills it when the server is seen at another step of its work. */
	static const char *const steps[] = {"COPY import_stage%", "%INSERT INTO import_applied%",
	                                    "%INSERT INTO lastunit.sku %", "INSERT INTO lastunit.ledger%"};
	for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
		char prefix[20], sql[400];
		snprintf(prefix, sizeof prefix, "kill%zu", i);
		const char *path = write_many("kill.csv", prefix, 30000, "on_hand", 1);
		const char *arguments[] = {"import", path, NULL};
		struct command command = command_start(arguments, variables);
		snprintf(sql, sizeof sql,
		         "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lastunit import' AND query LIKE '%s'",
		         steps[i]);
		int64_t deadline_ns = deadline_in_ms(PATIENCE_MS);
		while (strcmp(ask(sql), "0") == 0 && deadline_left_ms(deadline_ns) > 0)
			;
		kill(command.pid, SIGKILL);
		command_wait(&command);
		assert_int_equal(command.exit_code, 128 + SIGKILL);
		command_done(&command);
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

/* --- refusals ----------------------------------------------------------------------------------------------------- */

static void a_count_never_goes_below_what_is_held(void **state)
{
	char id[37];
	service_create_sku(&service, "held", 10);
	assert_int_equal(service_reserve(&service, service.key_web, NULL, "held", 6, 600, id), 201);
	struct result result = import(write_text("h1.csv", "sku,on_hand\nheld,5\n"), NULL, NULL);
	assert_int_equal(result.exit_code, 1);
	assert_refusal(&result, 0, 2, "held", "insufficient_stock");
	done(&result);
	result = import(write_text("h2.csv", "sku,delta\nheld,-5\n"), NULL, NULL);
	assert_refusal(&result, 0, 2, "held", "insufficient_stock");
	done(&result);
	assert_row("held", 10, 2);
	import_ok(write_text("h3.csv", "sku,on_hand\nheld,6\n"));
	assert_row("held", 6, 3);
	assert_int_equal(service_end(&service, service.key_web, id, "release"), 200);
	assert_row("held", 6, 4);
}

/* The `serve` that `dev` runs. */
static pid_t serving(void)
{
	char path[60], children[200] = "", name[40];
	pid_t found = 0;
	snprintf(path, sizeof path, "/proc/%d/task/%d/children", service.pid, service.pid);
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	assert_non_null(fgets(children, sizeof children, file));
	fclose(file);
	for (char *pid = strtok(children, " "); pid && !found; pid = strtok(NULL, " ")) {
		snprintf(path, sizeof path, "/proc/%s/comm", pid);
		if (!(file = fopen(path, "r")))
			continue;
		if (fgets(name, sizeof name, file) && !strcmp(name, "lastunit\n"))
			found = atoi(pid);
		fclose(file);
	}
	assert_true(found > 0);
	return found;
}

/* An import expires nothing. Where no service runs, or stands still, its refusal says that one would help. */
static void holds_that_are_due_are_told_of(void **state)
{
	char id[37];
	service_create_sku(&service, "due", 10);
	assert_int_equal(service_reserve(&service, service.key_web, NULL, "due", 6, 2, id), 201);
	assert_int_equal(service_reserve(&service, service.key_web, NULL, "due", 2, 600, id), 201);
	pid_t serve = serving();
	freeze(serve);
	wait_until(
		"SELECT count(*) FROM lastunit.hold h JOIN lastunit.sku s ON s.id = h.sku_id WHERE s.code = 'due'"
		" AND h.expires_at <= clock_timestamp()",
		"1");
	const char *path = write_text("due.csv", "sku,on_hand\ndue,3\n");
	static const char *const options[] = {NULL, "--partial"};
	for (int i = 0; i < 2; i++) {
		struct result result = import(path, options[i], NULL);
		assert_refusal(&result, 0, 2, "due", "insufficient_stock");
		json_t *refusal = json_array_get(json_object_get(result.json, "refusals"), 0);
		assert_string_equal(json_string_value(json_object_get(refusal, "detail")),
		                    "on_hand would be 3 while 8 are held, 6 of them by holds that are due: a running service "
		                    "frees those");
		done(&result);
	}
	kill(serve, SIGCONT);
	wait_until("SELECT reserved FROM lastunit.sku WHERE code = 'due'", "2");
	import_ok(path);
}

static void change_from_is_what_on_hand_must_be(void **state)
{
	service_create_sku(&service, "from", 100);
	assert_int_equal(service_sell(&service, service.key_pos, NULL, "from", 30), 201);
	struct result result = import(write_text("f1.csv", "sku,on_hand,change_from\nfrom,120,100\n"), NULL, NULL);
	assert_int_equal(result.exit_code, 1);
	assert_refusal(&result, 0, 2, "from", "change_from_mismatch");
	done(&result);
	assert_row("from", 70, 2);
	import_ok(write_text("f2.csv", "sku,on_hand,change_from\nfrom,120,70\n"));
	assert_row("from", 120, 3);
}

static void counts_stay_in_their_range_however_many_rows_add_up(void **state)
{
	struct buffer file = {0};
	buffer_add_string(&file, "sku,delta\n");
	for (int i = 0; i < 10000; i++) /* their sum does not fit 64 bits */
		buffer_add_string(&file, "much,1000000000000000\n");
	struct result result = import(write_bytes("much.csv", file.data, file.size), NULL, NULL);
	buffer_done(&file);
	assert_int_equal(result.exit_code, 1);
	assert_int_equal(number(&result, "refused"), 9999);
	assert_refusal(&result, 0, 3, "much", "count_out_of_range");
	done(&result);
	assert_int_equal(service_row(&service, "much").status, 404);
	result = import(write_text("minus.csv", "sku,delta\nminus,-1\n"), NULL, NULL);
	assert_refusal(&result, 0, 2, "minus", "insufficient_stock");
	done(&result);
	import_ok(write_text("most.csv", "sku,on_hand\nmost,1000000000000000\n"));
	assert_row("most", INT64_C(1000000000000000), 1);
}

static void with_partial_the_good_rows_go_in_and_each_row_has_its_outcome(void **state)
{
	import_ok(write_text("p0.csv", "sku,on_hand\npart-A,5\npart-B,5\n"));
	const char *path = write_text("p1.csv",
	                              "sku,delta\n"
	                              "part-A,-2\n"     /* 2: applied */
	                              "part-B,-9\n"     /* 3: refused */
	                              "part-A,-9\n"     /* 4: refused */
	                              "\"part-A \",1\n" /* 5: no SKU code */
	                              "part-A,1\n"      /* 6: rests on line 4 */
	                              "part-C,4\n");    /* 7: created */
	const char *list = path_of("outcomes.csv");
	const char *options[] = {"--partial", "--outcomes", list, NULL};
	struct result result = import_with(variables, path, options);
	assert_int_equal(result.exit_code, 1);
	assert_true(flag(&result, "applied"));
	assert_int_equal(number(&result, "refused"), 4);
	assert_refusal(&result, 0, 5, "part-A ", "invalid_sku");
	assert_refusal(&result, 1, 3, "part-B", "insufficient_stock");
	assert_refusal(&result, 2, 4, "part-A", "insufficient_stock");
	assert_refusal(&result, 3, 6, "part-A", "insufficient_stock");
	done(&result);
	assert_row("part-A", 3, 2);
	assert_row("part-B", 5, 1);
	assert_row("part-C", 4, 1);
	FILE *file = fopen(list, "r");
	assert_non_null(file);
	char text[2000] = "";
	assert_true(fread(text, 1, sizeof text - 1, file) > 0);
	fclose(file);
	static const char *const expected[] = {"\n2,\"part-A\",changed,2,3,",        "\n3,\"part-B\",insufficient_stock,",
	                                       "\n4,\"part-A\",insufficient_stock,", "\n5,\"part-A \",invalid_sku,",
	                                       "\n6,\"part-A\",insufficient_stock,", "\n7,\"part-C\",created,1,4,"};
	const char *at = text; /* in the order of the file, whoever refused them */
	for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
		if (!(at = strstr(at, expected[i])))
			fail_msg("no \"%s\" behind those before it in %s", expected[i] + 1, text);
	/* again: the same end, told again, nothing done */
	result = import_with(variables, path, options);
	assert_true(flag(&result, "replayed"));
	assert_int_equal(number(&result, "refused"), 4);
	assert_int_equal(result.exit_code, 1);
	done(&result);
	assert_row("part-A", 3, 2);
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

static void a_list_of_outcomes_that_found_no_room_is_told_of(void **state)
{
	const char *path = write_text("full.csv", "sku,on_hand\nFULL,1\n");
	struct result result = import(path, "--outcomes", "/dev/full");
	assert_true(flag(&result, "applied"));
	assert_non_null(strstr(result.err, "the list of outcomes is not complete; the import itself is done\n"));
	done(&result);
}

static void a_file_that_cannot_be_read_changes_nothing_and_names_the_line(void **state)
{
	static const struct {
		const char *file, *why;
	} cases[] = {
		{"sku;on_hand\nbroken;1\n", "separated by semicolons"},
		{"sku,on_hand\nbroken,1\n\"broken,2\n", "line 3: a quote is opened and never closed"},
		{"sku,on_hand\nbroken,1\nbroken\xff,2\n", "line 3: not UTF-8"},
		{"sku,on_hnad\nbroken,1\n", "column \"on_hnad\" is unknown"},
		{"", "the file is empty"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct result result = import(write_text("broken.csv", cases[i].file), NULL, NULL);
		assert_int_equal(result.exit_code, 1);
		assert_false(flag(&result, "applied"));
		const char *why = json_string_value(json_object_get(result.json, "why"));
		if (!why || !strstr(why, cases[i].why))
			fail_msg("\"%s\" should contain \"%s\"", why ? why : "", cases[i].why);
		done(&result);
	}
	assert_int_equal(service_row(&service, "broken").status, 404);
}

static void exit_codes_tell_the_user_from_the_backend(void **state)
{
	struct result result = import("/nonexistent/file.csv", NULL, NULL);
	assert_int_equal(result.exit_code, 2);
	done(&result);
	const char *path = write_text("ok.csv", "sku,on_hand\nnowhere,1\n");
	result = import(path, "--profile", "offline-retail");
	assert_int_equal(result.exit_code, 2);
	assert_non_null(strstr(result.err, "there is online-retail"));
	done(&result);
	result = import(path, "--no-such-flag", "1");
	assert_int_equal(result.exit_code, 2);
	done(&result);
	result = import_with((const char *[]){NULL}, path, NULL);
	assert_int_equal(result.exit_code, 2);
	assert_non_null(strstr(result.err, "LASTUNIT_DATABASE_URL"));
	done(&result);
	result = import_with((const char *[]){"LASTUNIT_DATABASE_URL=host=/nonexistent", NULL}, path, NULL);
	assert_int_equal(result.exit_code, 3);
	done(&result);
}

/* Nothing could be told to Redis of such a row, so it is found before COMMIT. */
static void a_sku_whose_figures_cannot_be_is_named_and_nothing_is_imported(void **state)
{
	service_create_sku(&service, "damaged", 10);
	const char *was = strdup(
		ask("SELECT pg_get_constraintdef(oid) FROM pg_constraint"
	        " WHERE conname = 'sku_figures_stay_in_range'"));
	ask("ALTER TABLE lastunit.sku DROP CONSTRAINT sku_figures_stay_in_range");
	ask("UPDATE lastunit.sku SET safety_stock = -1 WHERE code = 'damaged'");
	wait_until_open();
	struct result result = import(write_text("damaged.csv", "sku,on_hand\ndamaged,5\nwhole,5\n"), NULL, NULL);
	assert_int_equal(result.exit_code, 1);
	assert_non_null(strstr(result.err, "the figures of SKU damaged cannot be"));
	done(&result);
	assert_string_equal(
		ask("SELECT count(*) || ' ' || sum(on_hand) FROM lastunit.sku WHERE code IN ('damaged', 'whole')"), "1 10");
	ask("UPDATE lastunit.sku SET safety_stock = 0 WHERE code = 'damaged'");
	char again[400];
	snprintf(again, sizeof again, "ALTER TABLE lastunit.sku ADD CONSTRAINT sku_figures_stay_in_range %s", was);
	ask(again);
	free((char *)was);
}

static void options_that_cannot_be_followed_are_named_before_anything_is_done(void **state)
{
	static const struct {
		const char *options[5], *sentence;
	} rows[] = {
		{{"--separator", "ab"}, "--separator is one ASCII character, or \\t"},
		{{"--separator", "\""}, "--separator is one ASCII character, or \\t"},
		{{"--separator", "\xc3"}, "--separator is one ASCII character, or \\t"},
		{{"--key", "a\nb"}, "--key: "},
		{{"--reason", "a\x01z"}, "--reason has more than 255 bytes, control characters"},
		{{"--profile", "online-retail", "--map", "sku=sku"}, "--profile and --map exclude each other"},
	};
	const char *path = write_text("options.csv", "sku,on_hand\noptions,1\n");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct result result = import_with(variables, path, rows[i].options);
		if (result.exit_code != 2 || !strstr(result.err, rows[i].sentence))
			fail_msg("%s: exit code %d: %s", rows[i].options[0], result.exit_code, result.err);
		done(&result);
	}
	assert_string_equal(ask("SELECT count(*) FROM lastunit.sku WHERE code = 'options'"), "0");
}

/* For people: what is to be mended, line by line, and that nothing was done, so that it is not done twice. */
static void expect_told(const char *path, int exit_code, const char *out, const char *const *err)
{
	struct command command = command_run((const char *[]){"import", path, NULL}, variables);
	if (command.exit_code != exit_code || !strstr(command.out, out))
		fail_msg("exit code %d: %s%s", command.exit_code, command.out, command.err);
	for (; *err; err++)
		if (!strstr(command.err, *err))
			fail_msg("no \"%s\" in %s", *err, command.err);
	command_done(&command);
}

static void what_became_of_a_file_is_told_in_words(void **state)
{
	static const char *const nothing[] = {NULL};
	char bad[400] = "sku,on_hand\nwords-A,5\n";
	for (int i = 0; i < 21; i++)
		strcat(bad, "words-B,x\n");
	expect_told(write_text("bad.csv", bad), 1, "",
	            (const char *[]){"line 3: words-B: on_hand is not a whole number",
	                             "\nline 22: words-B: ", "\n… and 1 more; --json lists them\n",
	                             "\nNothing was imported: refused 21 of 22 rows (--partial applies the others).\n",
	                             "\nStock was not looked at yet: it may refuse others.\n", NULL});
	expect_told(write_text("wide.csv", "sku;on_hand\nwords-A;5\n"), 1, "",
	            (const char *[]){"wide.csv: line 1: the columns seem to be separated by semicolons",
	                             "\nNothing was imported.\n", NULL});
	assert_string_equal(ask("SELECT count(*) FROM lastunit.sku WHERE code LIKE 'words-%'"), "0");
	const char *good = write_text("good.csv", "sku,on_hand\nwords-A,5\n");
	expect_told(good, 0, "1 SKU created, 0 changed, 0 described; 1 ledger entry, +5 units\n", nothing);
	expect_told(good, 0, "already imported at 2", nothing);
	expect_told(write_text("less.csv", "sku,delta\nwords-A,-6\n"), 1, "",
	            (const char *[]){"line 2: words-A: on_hand would be -1 (insufficient_stock)\n",
	                             "Nothing was imported: refused 1 of 1 row (", NULL});
}

/* A PostgreSQL that stands still takes connections and answers none: the kernel does that for it. */
static void its_time_is_over_also_while_it_connects(void **state)
{
	struct sockaddr_in door = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof door;
	char silent[100];
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), tries = 0, taken;
	assert_int_equal(bind(fd, (struct sockaddr *)&door, size), 0);
	assert_int_equal(listen(fd, 16), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&door, &size), 0);
	snprintf(silent, sizeof silent, "LASTUNIT_DATABASE_URL=host=127.0.0.1 port=%d sslmode=disable",
	         ntohs(door.sin_port));
	struct result result = import_with((const char *[]){silent, NULL}, write_text("late.csv", "sku,on_hand\nlate,1\n"),
	                                   (const char *[]){"--timeout-s", "1", NULL});
	for (; (taken = accept(fd, NULL, NULL)) >= 0; tries++)
		close(taken);
	close(fd);
	assert_int_equal(result.exit_code, 3);
	assert_int_equal(tries, 1); /* not one of five seconds after the other */
	done(&result);
}

/* --- foreign files ------------------------------------------------------------------------------------------------ */

static void lines_are_counted_as_an_editor_does(void **state)
{
	/* BOM, CRLF, a quoted line end in a title, a blank line, no line end at the end */
	const char *path = write_text("lines.csv",
	                              "\xef\xbb\xbfsku,delta,title_en\r\nlines-A,7,\"two\r\nlines\"\r\n\r\nlines-B,7,\r\n"
	                              "lines-C,seven,\r\nlines-D,7,x");
	struct result result = import(path, "--partial", NULL);
	assert_refusal(&result, 0, 6, "lines-C", "invalid_field");
	assert_int_equal(number(&result, "rows"), 4);
	done(&result);
	assert_row("lines-A", 7, 1);
	assert_row("lines-B", 7, 1);
	assert_row("lines-D", 7, 1);
	struct answer answer = service_call(&service, service.key_admin, "GET", "/v1/skus/lines-A", NULL, NULL);
	assert_string_equal(answer_string(&answer, "titles.en"), "two\r\nlines");
	answer_done(&answer);
}

static void a_foreign_file_is_mapped_and_decoded(void **state)
{
	const char *path = write_text("foreign.csv",
	                              "Lager;Artikel;Menge;Text\nX;foreign-\xc4;12;Gr\xfc\xdf"
	                              "e\n");
	const char *options[] = {"--map",       "sku=Artikel,on_hand=Menge,title_de=Text",
	                         "--separator", ";",
	                         "--encoding",  "ISO-8859-1",
	                         NULL};
	struct result result = import_with(variables, path, options);
	if (result.exit_code)
		fail_msg("%s", result.err);
	done(&result);
	struct answer answer = service_call(&service, service.key_admin, "GET", "/v1/skus/foreign-%C3%84", NULL, NULL);
	assert_int_equal(answer_int(&answer, "on_hand"), 12);
	assert_string_equal(answer_string(&answer, "titles.de"),
	                    "Gr\xc3\xbc\xc3\x9f"
	                    "e");
	answer_done(&answer);
}

static void an_order_file_brings_its_skus_and_descriptions(void **state)
{
	struct buffer file = {0};
	orders_generate(&(struct orders_generator){.seed = 7, .invoices = 120, .skus = 700}, &file);
	const char *path = write_bytes("orders.csv", file.data, file.size);
	buffer_done(&file);
	struct result result = import(path, "--profile", "online-retail");
	if (result.exit_code)
		fail_msg("%s", result.err);
	assert_true(number(&result, "created") >= 600);
	assert_int_equal(number(&result, "created"), number(&result, "entries"));
	assert_int_equal(number(&result, "units"), 0);
	assert_true(number(&result, "merged") > 500);
	done(&result);
	/* twins in case are two SKUs; the pound sign came through */
	assert_int_equal(service_row(&service, "84010B").status, 200);
	assert_int_equal(service_row(&service, "84010b").status, 200);
	assert_string_equal(ask("SELECT count(*) > 10 FROM lastunit.sku_text WHERE titles->>'en' = 'Gift Voucher \xc2\xa3"
	                        "40.00'"),
	                    "t");
	/* they exist now: titles again, and not one more entry */
	result = import(path, "--reason", "again");
	done(&result);
	result = import_with(variables, path, (const char *[]){"--profile", "online-retail", "--reason", "again", NULL});
	assert_int_equal(result.exit_code, 0);
	assert_int_equal(number(&result, "created"), 0);
	assert_int_equal(number(&result, "entries"), 0);
	assert_string_equal(json_string_value(json_object_get(result.json, "cache")), "unconcerned");
	done(&result);
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
	_Atomic bool stop = false;
	struct seller sellers[6] = {0};
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

/* --- the service ------------------------------------------------------------------------------------------------ */

static int start(void **state)
{
	service_start(&service, NULL);
	snprintf(database, sizeof database, "LASTUNIT_DATABASE_URL=%s", service.database_url);
	snprintf(redis, sizeof redis, "LASTUNIT_REDIS_URL=%s", service.redis_url);
	return mkdtemp(directory) ? 0 : -1;
}

static int stop(void **state)
{
	char command[100];
	snprintf(command, sizeof command, "rm -r %s", directory);
	(void)!system(command);
	return service_stop(&service);
}

#define SOUND(test) cmocka_unit_test_teardown(test, audit_is_sound)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SOUND(new_skus_are_created_with_what_the_file_says),
		SOUND(an_import_is_seen_at_once_though_the_old_count_was_cached),
		SOUND(rows_of_one_sku_are_applied_in_order),
		SOUND(settings_and_titles_change_without_a_count),
		SOUND(names_are_taken_with_semicolons),
		SOUND(the_demo_catalogue_can_be_imported),
		SOUND(the_same_file_twice_has_its_effect_once),
		SOUND(a_bad_row_keeps_all_others_out_until_it_is_mended),
		SOUND(two_people_at_once_import_it_once),
		SOUND(killed_at_any_moment_it_is_all_or_nothing),
		SOUND(a_row_that_a_stranger_locks_is_waited_for_with_no_lock_held),
		SOUND(a_count_never_goes_below_what_is_held),
		SOUND(holds_that_are_due_are_told_of),
		SOUND(change_from_is_what_on_hand_must_be),
		SOUND(counts_stay_in_their_range_however_many_rows_add_up),
		SOUND(with_partial_the_good_rows_go_in_and_each_row_has_its_outcome),
		SOUND(the_ledger_is_written_behind_the_titles),
		SOUND(a_list_of_outcomes_that_found_no_room_is_told_of),
		SOUND(a_file_that_cannot_be_read_changes_nothing_and_names_the_line),
		SOUND(exit_codes_tell_the_user_from_the_backend),
		SOUND(a_sku_whose_figures_cannot_be_is_named_and_nothing_is_imported),
		SOUND(options_that_cannot_be_followed_are_named_before_anything_is_done),
		SOUND(what_became_of_a_file_is_told_in_words),
		SOUND(its_time_is_over_also_while_it_connects),
		SOUND(lines_are_counted_as_an_editor_does),
		SOUND(a_foreign_file_is_mapped_and_decoded),
		SOUND(an_order_file_brings_its_skus_and_descriptions),
		SOUND(more_than_two_thousand_existing_skus_close_the_epoch_and_the_service_opens_the_next),
		SOUND(without_redis_or_with_a_dead_one_no_old_count_is_answered),
		SOUND(imports_and_sales_of_the_same_skus_add_up),
	};
	return cmocka_run_group_tests(tests, start, stop);
}
