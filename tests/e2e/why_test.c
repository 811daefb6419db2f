/* `lastunit why SKU`: the sum, the holds, the ledger and the cell of one SKU, and who is right when they differ.
 *
 * Bugs it guards against: an explanation that cries "wrong" because a sale came between two looks (B40), one that calls a
 * dead writer's marker work in progress, or a lying cell legal; codes that differ in case, which people take for one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/quiet.h"

#define TOKEN "0123456789012345678901"

static struct quiet shop;

/* A: 10 came, 3 sold by order 7, 2 held; so 5 are free, for bazaar 1. */
static const char rows[] =
	"INSERT INTO lastunit.principal (name, channel) VALUES ('site', 1);"
	"INSERT INTO lastunit.principal (name, channel, buffer) VALUES ('bazaar', 5, 4);"
	"INSERT INTO lastunit.sku (code, on_hand, reserved, version, writer) VALUES ('A', 7, 2, 3, gen_random_uuid());"
	"INSERT INTO lastunit.sku_text VALUES (1, '{\"en\": \"Apple\"}', '{}');"
	"INSERT INTO lastunit.reservation (id, created_at, expires_at, principal_id, channel, state, reference, sku_ids,"
	"  quantities, counted, versions) VALUES ('00000000-0000-7000-8000-000000000001', now(), now() + interval '1 hour', 1,"
	"  1, 1, 'cart 7', '{1}', '{2}', '{t}', '{3}');"
	"INSERT INTO lastunit.hold (sku_id, expires_at, reservation_id, quantity, counted) SELECT 1, r.expires_at, r.id, 2, true"
	"  FROM lastunit.reservation r;"
	"INSERT INTO lastunit.ledger (sku_id, version, kind, on_hand_delta, reserved_delta, on_hand_after, reserved_after,"
	"  operation_id, channel, principal_id, reference) VALUES"
	" (1, 1, 1, 10, 0, 10, 0, gen_random_uuid(), 7, NULL, NULL),"
	" (1, 2, 2, -3, 0, 7, 0, gen_random_uuid(), 1, 1, 'order 7'),"
	" (1, 3, 3, 0, 2, 7, 2, '00000000-0000-7000-8000-000000000001', 1, 1, 'cart 7')";

static int open_shop(void **state)
{
	quiet_open(&shop);
	quiet_sql(&shop, rows);
	return 0;
}

static json_t *why(const char *sku, int *ret_code)
{
	return quiet_json(&shop, (const char *[]){"why", sku, "--json", NULL}, ret_code);
}

static void assert_printed(const struct command *command, const char *text)
{
	if (!strstr(command->out, text))
		fail_msg("no \"%s\" in\n%s%s", text, command->out, command->err);
}

static void the_sum_the_holds_and_the_ledger_are_told(void **state)
{
	struct command command = quiet_run(&shop, (const char *[]){"why", "A", NULL});
	assert_int_equal(command.exit_code, 0);
	assert_printed(&command, "A, Apple\n");
	assert_printed(&command, "in_stock, 5 available, 2 held, from PostgreSQL\n");
	assert_printed(&command, "on_hand − reserved − safety_stock = 7 − 2 − 0 = 5\n");
	assert_printed(&command, "bazaar (buffer 4) sees 1\n");
	assert_printed(&command,
	               "00000000-0000-7000-8000-000000000001  2 through web by site, reference \"cart 7\", ends in ");
	assert_printed(&command,
	               "  2      sale     -3 on hand to 7, +0 reserved to 0, through web by site, reference \"order 7\"");
	assert_printed(&command, "all as it should be\n");
	command_done(&command);
	int code;
	json_t *json = why("A", &code);
	assert_int_equal(code, 0);
	assert_string_equal(quiet_text(json, "answer.status"), "in_stock");
	assert_int_equal(quiet_number(json, "answer.available"), 5);
	assert_string_equal(quiet_text(json, "answer.from"), "postgresql");
	assert_int_equal(quiet_number(json, "principals.0.available"), 1);
	assert_int_equal(quiet_number(json, "holds.0.quantity"), 2);
	assert_string_equal(quiet_text(json, "holds.0.principal"), "site");
	assert_in_range(quiet_number(json, "holds.0.ends_in_ms"), 1, 3600000);
	assert_int_equal(quiet_number(json, "ledger.0.version"), 3);
	assert_string_equal(quiet_text(json, "ledger.1.kind"), "sale");
	assert_string_equal(quiet_text(json, "ledger.1.reference"), "order 7");
	assert_string_equal(quiet_text(json, "cell.state"), "absent");
	assert_int_equal(json_array_size(quiet_at(json, "findings")), 0);
	json_decref(json);
	command = quiet_run(&shop, (const char *[]){"why", "A", "--entries", "1", NULL});
	assert_printed(&command, "the last 1 of 3 entries");
	command_done(&command);
}

static void nothing_free_and_nothing_tracked_are_told(void **state)
{
	quiet_sql(&shop, "UPDATE lastunit.sku SET safety_stock = 9, writer = gen_random_uuid()");
	struct command command = quiet_run(&shop, (const char *[]){"why", "A", NULL});
	assert_printed(&command, "= 7 − 2 − 9 = -4, so 0\n");
	assert_printed(&command, "out_of_stock, 0 available");
	command_done(&command);
	quiet_sql(&shop, "UPDATE lastunit.sku SET tracked = false, writer = gen_random_uuid()");
	command = quiet_run(&shop, (const char *[]){"why", "A", NULL});
	assert_printed(&command, "in_stock, available null");
	assert_printed(&command, "not tracked");
	command_done(&command);
}

/* Made while the SKU was not tracked. */
static void a_hold_that_moved_no_figures_is_shown_and_not_summed(void **state)
{
	int code;
	quiet_sql(
		&shop,
		"INSERT INTO lastunit.hold (sku_id, expires_at, reservation_id, quantity, counted) VALUES"
		" (1, now() + interval '2 hours', '00000000-0000-7000-8000-000000000002', 4, false);"
		"INSERT INTO lastunit.reservation (id, created_at, expires_at, principal_id, channel, state, sku_ids, quantities,"
		" counted, versions) VALUES ('00000000-0000-7000-8000-000000000002', now(), now() + interval '2 hours', 1, 1, 1,"
		" '{1}', '{4}', '{f}', '{0}')");
	json_t *json = why("A", &code);
	assert_int_equal(code, 0);
	assert_int_equal(quiet_number(json, "row.held_units"), 2);
	assert_int_equal(quiet_number(json, "hold_count"), 2);
	assert_true(json_is_false(quiet_at(json, "holds.1.counted")));
	json_decref(json);
}

static void figures_that_do_not_add_up_are_a_broken_promise(void **state)
{
	int code;
	quiet_sql(&shop, "UPDATE lastunit.sku SET reserved = 3, writer = gen_random_uuid()");
	json_t *json = why("A", &code);
	assert_int_equal(code, 1);
	assert_string_equal(quiet_finding(json, "reserved_without_holds"), "P1");
	json_decref(json);
	quiet_sql(&shop, "UPDATE lastunit.sku SET reserved = 2, version = 4, writer = gen_random_uuid()");
	json = why("A", &code);
	assert_int_equal(code, 1);
	assert_string_equal(quiet_finding(json, "ledger_behind"), "P1");
	json_decref(json);
}

/* --- the cell ----------------------------------------------------------------------------------------------------- */

static void every_state_of_a_cell_is_told_from_the_others(void **state)
{
	static const struct {
		const char *raw, *verdict, *from, *finding, *sentence;
		int code;
	} cells[] = {
		{NULL, "absent", "postgresql", NULL, "the next look-up reads PostgreSQL and fills it", 0},
		{"F|" TOKEN, "filling", "postgresql", NULL, "a reader is reading", 0},
		{"V|3|7|2|0|1|A", "agrees", "redis", NULL, "agrees with the row", 0},
		{"V|3|7|1|0|1|A", "wrong", "redis", "cell_wrong", "not what the row says", 1},
		{"V|2|7|0|0|1|A", "wrong", "redis", "cell_wrong", "not what the row says", 1},
		{"V|4|7|2|0|1|A", "wrong", "redis", "cell_wrong", "not what the row says", 1},
		{"V|3|7|2|0|1|B", "foreign", "postgresql", "foreign_cell", "somebody else", 1},
		{"hello", "foreign", "postgresql", "foreign_cell", "somebody else", 1},
		{"I|" TOKEN "|3", "stuck", "postgresql", "marker_stuck", "version 3 was committed and is not published", 0},
		{"I|-|3", "stuck", "postgresql", "marker_stuck", "nobody's marker", 0},
		{"I|" TOKEN "|4", "stuck", "postgresql", "marker_stuck", "no session has the row locked any more", 0},
	};
	for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
		int code;
		quiet_cell(&shop, "A", cells[i].raw);
		json_t *json = why("A", &code);
		if (strcmp(quiet_text(json, "cell.verdict"), cells[i].verdict) != 0 || code != cells[i].code ||
		    !strstr(quiet_text(json, "cell.sentence"), cells[i].sentence))
			fail_msg("%s: exit code %d, %s: %s", cells[i].raw, code, quiet_text(json, "cell.verdict"),
			         quiet_text(json, "cell.sentence"));
		assert_string_equal(quiet_text(json, "answer.from"), cells[i].from);
		assert_string_equal(quiet_text(json, "cell.raw"), cells[i].raw ? cells[i].raw : "");
		if (cells[i].finding)
			assert_string_equal(quiet_finding(json, cells[i].finding), cells[i].code ? "P2" : "");
		else
			assert_int_equal(json_array_size(quiet_at(json, "findings")), 0);
		json_decref(json);
	}
}

static void what_a_hit_answers_is_the_cell_s_figures(void **state)
{
	int code;
	quiet_cell(&shop, "A", "V|3|7|1|0|1|A");
	json_t *json = why("A", &code);
	assert_int_equal(quiet_number(json, "answer.available"), 6);
	assert_int_equal(quiet_number(json, "row.reserved"), 2);
	json_decref(json);
}

static PGconn *stranger(const char *sql)
{
	PGconn *conn = PQconnectdb(shop.url);
	PGresult *r = PQexec(conn, sql);
	assert_int_equal(PQresultStatus(r), PGRES_COMMAND_OK);
	PQclear(r);
	return conn;
}

static void a_marker_s_writer_is_named_while_it_has_the_row(void **state)
{
	int code;
	PGconn *writer = stranger(
		"SET application_name = 'lastunit writer'; BEGIN;"
		"UPDATE lastunit.sku SET on_hand = 6, version = 4, writer = gen_random_uuid()");
	quiet_cell(&shop, "A", "I|" TOKEN "|4");
	json_t *json = why("A", &code);
	assert_int_equal(code, 0);
	assert_int_equal(quiet_number(json, "row.locked_by_pid"), PQbackendPID(writer));
	assert_non_null(strstr(quiet_text(json, "cell.sentence"), "(lastunit writer)"));
	json_decref(json);
	PQfinish(writer);
}

/* Sessions of `why` on this database. */
static bool is_looking(void)
{
	return strcmp(quiet_sql(&shop,
	                        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lastunit'"
	                        " AND datname = current_database()"),
	              "0") != 0;
}

/* Without taking its exit code away from command_wait(). */
static bool has_ended(const struct command *command)
{
	siginfo_t info = {0};
	return waitid(P_PID, (id_t)command->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

static struct command begin_to_look(void)
{
	struct command command = command_start((const char *[]){"why", "A", "--json", NULL}, shop.variables);
	while (!is_looking() && !has_ended(&command))
		usleep(10000);
	return command;
}

static void a_value_behind_a_change_in_sql_is_legal_until_the_relay_is_late(void **state)
{
	int code;
	quiet_cell(&shop, "A", "V|3|7|2|0|1|A");
	quiet_sql(&shop, "UPDATE lastunit.sku SET on_hand = 9 WHERE code = 'A'"); /* and no relay runs */
	json_t *json = why("A", &code);
	assert_int_equal(code, 1);
	assert_string_equal(quiet_text(json, "cell.verdict"), "behind");
	assert_string_equal(quiet_finding(json, "relay_late"), "P2");
	json_decref(json);
	/* the relay comes while somebody looks; a busy machine may need more than one go to be in time */
	code = 1;
	for (int i = 0; code && i < 20; i++) {
		quiet_cell(&shop, "A", "V|3|7|2|0|1|A");
		quiet_sql(&shop, "UPDATE lastunit.sku SET on_hand = on_hand + 1 WHERE code = 'A'");
		struct command command = begin_to_look();
		quiet_cell(&shop, "A", NULL);
		quiet_sql(&shop, "DELETE FROM lastunit.invalidation");
		command_wait(&command);
		code = command.exit_code;
		command_done(&command);
	}
	assert_int_equal(code, 0);
}

static void markers_that_come_and_go_are_writers_at_work(void **state)
{
	char raw[60];
	quiet_cell(&shop, "A", "I|" TOKEN "|4");
	struct command command = begin_to_look();
	for (int n = 1; !has_ended(&command); n++) {
		snprintf(raw, sizeof raw, "I|%022d|4", n);
		quiet_cell(&shop, "A", raw);
	}
	command_wait(&command);
	assert_int_equal(command.exit_code, 0);
	assert_non_null(strstr(command.out, "writers are at work"));
	command_done(&command);
}

static void without_redis_or_an_epoch_it_says_that_postgresql_answers(void **state)
{
	int code;
	quiet_cell(&shop, "A", "V|3|7|2|0|1|A");
	struct quiet cut = shop;
	snprintf(cut.values[1], sizeof cut.values[1], "LASTUNIT_REDIS_URL=unix:///nonexistent/s");
	cut.variables[0] = cut.values[0];
	cut.variables[1] = cut.values[1];
	json_t *json = quiet_json(&cut, (const char *[]){"why", "A", "--json", NULL}, &code);
	assert_int_equal(code, 0);
	assert_string_equal(quiet_text(json, "cell.verdict"), "unreachable");
	assert_string_equal(quiet_text(json, "answer.from"), "postgresql");
	json_decref(json);
	cut.variables[1] = NULL;
	json = quiet_json(&cut, (const char *[]){"why", "A", "--json", NULL}, &code);
	assert_int_equal(code, 0);
	assert_string_equal(quiet_text(json, "cell.verdict"), "not_looked_at");
	json_decref(json);
	char line[100];
	snprintf(line, sizeof line, "DEL %s!open", shop.namespace);
	free(redis_server_command(&quiet_redis, line));
	json = why("A", &code);
	assert_int_equal(code, 0);
	assert_string_equal(quiet_text(json, "cell.verdict"), "fenced");
	json_decref(json);
	quiet_sql(&shop, "UPDATE lastunit.cache_epoch SET state = 3");
	json = why("A", &code);
	assert_string_equal(quiet_text(json, "cell.verdict"), "not_looked_at");
	assert_string_equal(quiet_text(json, "answer.from"), "postgresql");
	json_decref(json);
}

/* --- no such SKU -------------------------------------------------------------------------------------------------- */

static void assert_near(const char *asked, const char *code, const char *reason)
{
	int exit_code;
	json_t *json = why(asked, &exit_code);
	assert_int_equal(exit_code, 1);
	assert_true(json_is_false(json_object_get(json, "known")));
	if (!code)
		assert_int_equal(json_array_size(quiet_at(json, "near")), 0);
	else if (strcmp(quiet_text(json, "near.0.sku"), code) != 0 || !strstr(quiet_text(json, "near.0.reason"), reason))
		fail_msg("%s: %s (%s)", asked, quiet_text(json, "near.0.sku"), quiet_text(json, "near.0.reason"));
	json_decref(json);
}

static void an_unknown_code_names_those_that_could_be_meant(void **state)
{
	quiet_sku(&shop, "MUG-RED", 1);
	quiet_sku(&shop, "MUG-RED-XL", 1);
	quiet_sku(&shop, "ЛАМПА-1", 1);
	assert_near("mug-red", "MUG-RED", "case");
	assert_near("MUG-RDE", "MUG-RED", "similar");
	assert_near("XUG-RED", "MUG-RED", "similar");
	assert_near("лампа-1", "ЛАМПА-1", "case");
	assert_near("MU", "MUG-RED", "begins with it");
	assert_near("mug", "MUG-RED", "begins with it");
	quiet_sku(&shop, "ROUND-RED", 1);
	quiet_sql(&shop,
	          "INSERT INTO lastunit.sku_text (sku_id, titles, names)"
	          " SELECT id, '{\"en\": \"Enamel kettle\"}', '{\"tea pot\"}' FROM lastunit.sku WHERE code = 'ROUND-RED'");
	assert_near("Apple", "A", "is called so");
	assert_near("enamel", "ROUND-RED", "is called so");
	assert_near("KETTLE-RDE", "ROUND-RED", "has a word of it");
	assert_near("POT-4711", "ROUND-RED", "has a word of it");
	assert_near("kettel", "ROUND-RED", "is called nearly so");
	assert_near("ROCKET", NULL, NULL);
	/* One made past the triggers may be longer than any that can be asked for. */
	char longest[LU_SKU_BYTES_MAX + 1] = "", longer[LU_SKU_BYTES_MAX + 3] = "";
	memset(longest, 'q', LU_SKU_BYTES_MAX);
	memset(longer, 'q', LU_SKU_BYTES_MAX + 2);
	longer[10] = 'p';
	quiet_sql(&shop, "ALTER TABLE lastunit.sku DISABLE TRIGGER USER");
	quiet_sku(&shop, longer, 1);
	assert_near(longest, longer, "similar");
	struct command command = quiet_run(&shop, (const char *[]){"why", "MUG-rED", NULL});
	assert_printed(&command, "unknown_sku");
	assert_printed(&command, "MUG-RED (differs in case only");
	command_done(&command);
}

static void assert_code(const char *const *arguments, int code, const char *sentence)
{
	struct command command = quiet_run(&shop, arguments);
	if (command.exit_code != code || !strstr(command.err, sentence))
		fail_msg("exit code %d instead of %d: %s", command.exit_code, code, command.err);
	command_done(&command);
}

static void nonsense_is_2_and_no_database_3(void **state)
{
	assert_code((const char *[]){"why", NULL}, 2, "which SKU?");
	assert_code((const char *[]){"why", "A", "B", NULL}, 2, "one argument too many");
	assert_code((const char *[]){"why", "-p", "A", NULL}, 2, "\"-p\": there are no short options");
	assert_code((const char *[]){"serve", "-p", "8092", NULL}, 2, "\"-p\": there are no short options");
	assert_code((const char *[]){"why", "A ", NULL}, 2, "no blank at either end");
	assert_code((const char *[]){"why", "A", "--database-url", "host=/nonexistent", NULL}, 3, "No such file");
	char stranger[600]; /* said at once, though only the time it takes could tell */
	snprintf(stranger, sizeof stranger, "%s user=nobody_known", shop.url);
	assert_code((const char *[]){"why", "A", "--database-url", stranger, NULL}, 3, "\"nobody_known\" does not exist");
}

static int start(void **state)
{
	quiet_start(NULL, NULL);
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
		SHOP_TEST(the_sum_the_holds_and_the_ledger_are_told),
		SHOP_TEST(nothing_free_and_nothing_tracked_are_told),
		SHOP_TEST(a_hold_that_moved_no_figures_is_shown_and_not_summed),
		SHOP_TEST(figures_that_do_not_add_up_are_a_broken_promise),
		SHOP_TEST(every_state_of_a_cell_is_told_from_the_others),
		SHOP_TEST(what_a_hit_answers_is_the_cell_s_figures),
		SHOP_TEST(a_marker_s_writer_is_named_while_it_has_the_row),
		SHOP_TEST(a_value_behind_a_change_in_sql_is_legal_until_the_relay_is_late),
		SHOP_TEST(markers_that_come_and_go_are_writers_at_work),
		SHOP_TEST(without_redis_or_an_epoch_it_says_that_postgresql_answers),
		SHOP_TEST(an_unknown_code_names_those_that_could_be_meant),
		SHOP_TEST(nonsense_is_2_and_no_database_3),
	};
	return cmocka_run_group_tests(tests, start, end);
}
