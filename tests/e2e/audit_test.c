/* `lastunit audit`: quiet when all is well, also while everything moves; loud, and about the right thing, when one row is
 * wrong.
 *
 * Bugs it guards against: an audit that cannot fail; one that cries wolf beside a running service (it reads rows and
 * ledger at different moments); one that sees a wrong total but not a wrong balance on the way, a missing end, a hold
 * without its reservation, a cell that is older than its row.
 *
 * The broken databases are copies of a small sound one, made by SQL, so that each has exactly one fault.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/text.h"
#include "cache/cell.h"
#include "lib/command.h"
#include "lib/pg_server.h"
#include "lib/redis_server.h"
#include "lib/service.h"
#include "store/epoch.h"
#include "store/pg.h"

/* --- one fault each ----------------------------------------------------------------------------------------------- */

static struct pg_server server;

/* Two SKUs. A: created with 10, 2 sold (1 of them brought back), 3 held and committed, 1 held and released, 2 held. B:
 * created with 5; 1 held with A, live. */
static const char sound_rows[] =
	"INSERT INTO lastunit.principal (name, channel) VALUES ('web', 1);"
	"INSERT INTO lastunit.sku (code, on_hand, reserved, version, writer) VALUES ('A', 6, 2, 8, gen_random_uuid()),"
	"  ('B', 5, 1, 2, gen_random_uuid());"
	"INSERT INTO lastunit.reservation (id, created_at, expires_at, ended_at, principal_id, checkout_id, channel, state,"
	"  sku_ids, quantities, counted, versions) VALUES"
	" ('00000000-0000-7000-8000-000000000001', now(), now() + interval '1 hour', now(), 1,"
	"  '00000000-0000-7000-8000-000000000011', 1, 2, '{1}', '{3}', '{t}', '{4}'),"
	" ('00000000-0000-7000-8000-000000000002', now(), now() + interval '1 hour', now(), 1, NULL, 1, 3, '{1}', '{1}', '{t}',"
	"  '{6}'),"
	" ('00000000-0000-7000-8000-000000000003', now(), now() + interval '1 hour', NULL, 1, NULL, 1, 1, '{1,2}', '{2,1}',"
	"  '{t,t}', '{8,2}');"
	"INSERT INTO lastunit.hold (sku_id, expires_at, reservation_id, quantity, counted)"
	"  SELECT l.sku_id, r.expires_at, r.id, l.quantity, true FROM lastunit.reservation r,"
	"         unnest(r.sku_ids, r.quantities) l(sku_id, quantity) WHERE r.state = 1;"
	"INSERT INTO lastunit.checkout (id, created_at, principal_id, reservation_id, channel, sku_ids, quantities, counted,"
	"  versions, cancelled) VALUES"
	" ('00000000-0000-7000-8000-000000000010', now(), 1, NULL, 1, '{1}', '{2}', '{t}', '{2}', '{1}'),"
	" ('00000000-0000-7000-8000-000000000011', now(), 1, '00000000-0000-7000-8000-000000000001', 1, '{1}', '{3}', '{t}',"
	"  '{5}', '{0}');"
	"INSERT INTO lastunit.ledger (sku_id, version, kind, on_hand_delta, reserved_delta, on_hand_after, reserved_after,"
	"  operation_id, channel) VALUES"
	" (1, 1, 1, 10, 0, 10, 0, gen_random_uuid(), 7),"
	" (1, 2, 2, -2, 0, 8, 0, '00000000-0000-7000-8000-000000000010', 1),"
	" (1, 3, 7, 1, 0, 9, 0, '00000000-0000-7000-8000-000000000010', 1),"
	" (1, 4, 3, 0, 3, 9, 3, '00000000-0000-7000-8000-000000000001', 1),"
	" (1, 5, 4, -3, -3, 6, 0, '00000000-0000-7000-8000-000000000001', 1),"
	" (1, 6, 3, 0, 1, 6, 1, '00000000-0000-7000-8000-000000000002', 1),"
	" (1, 7, 5, 0, -1, 6, 0, '00000000-0000-7000-8000-000000000002', 1),"
	" (1, 8, 3, 0, 2, 6, 2, '00000000-0000-7000-8000-000000000003', 1),"
	" (2, 1, 1, 5, 0, 5, 0, gen_random_uuid(), 7),"
	" (2, 2, 3, 0, 1, 5, 1, '00000000-0000-7000-8000-000000000003', 1);";

/* Whoever breaks a row on purpose first puts the guards to sleep. */
static const char no_guards[] =
	"ALTER TABLE lastunit.ledger DISABLE TRIGGER ALL; ALTER TABLE lastunit.sku DISABLE TRIGGER ALL;"
	"ALTER TABLE lastunit.sku DROP CONSTRAINT sku_never_oversold;";

/* The audit of one database as JSON; *ret_code its exit code. */
static json_t *audit_of(const char *database_url, int *ret_code)
{
	char variable[300];
	snprintf(variable, sizeof variable, "LASTUNIT_DATABASE_URL=%s", database_url);
	const char *variables[] = {variable, NULL};
	struct command command = command_run((const char *[]){"audit", "--json", NULL}, variables);
	json_t *json = json_loads(command.out, 0, NULL);
	if (!json)
		fail_msg("no JSON: %s%s", command.out, command.err);
	*ret_code = command.exit_code;
	command_done(&command);
	return json;
}

static json_t *check_of(json_t *audit, const char *name)
{
	size_t n;
	json_t *check;
	json_array_foreach(json_object_get(audit, "checks"), n,
	                   check) if (strcmp(json_string_value(json_object_get(check, "check")), name) == 0) return check;
	fail_msg("no check %s", name);
	return NULL;
}

static int64_t broken(json_t *audit, const char *name)
{
	return json_integer_value(json_object_get(check_of(audit, name), "broken"));
}

static int turn;

/* Makes a database, breaks it by this SQL, audits it. */
static json_t *audit_after(const char *sql, int *ret_code)
{
	char name[40], url[200];
	snprintf(name, sizeof name, "broken%d", turn++);
	pg_server_database(&server, name, url);
	pg_server_ask(url, sound_rows);
	pg_server_ask(url, no_guards);
	if (*sql)
		pg_server_ask(url, sql);
	json_t *audit = audit_of(url, ret_code);
	return audit;
}

/* Exactly these checks see it: "name name". */
static void assert_seen_by(const char *sql, const char *names, const char *sentence)
{
	static const char *const all[] = {"range",    "reserved", "holds", "on_hand", "balances",
	                                  "versions", "ends",     "sales", "overdue", "cells"};
	int code;
	json_t *audit = audit_after(sql, &code);
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		char padded[200], word[40];
		snprintf(padded, sizeof padded, " %s ", names);
		snprintf(word, sizeof word, " %s ", all[i]);
		bool expected = strstr(padded, word) != NULL;
		if ((broken(audit, all[i]) > 0) != expected)
			fail_msg("after %s\n%s %s", sql, all[i], expected ? "should be broken" : "should hold");
	}
	bool warning = strcmp(names, "overdue") == 0 || !*names;
	assert_int_equal(code, warning ? 0 : 1);
	assert_int_equal(json_is_true(json_object_get(audit, "sound")), warning);
	char *text = json_dumps(audit, 0);
	if (!strstr(text, sentence))
		fail_msg("no \"%s\" in %s", sentence, text);
	free(text);
	json_decref(audit);
}

static void a_sound_database_is_sound(void **state)
{
	int code;
	json_t *audit = audit_after("", &code);
	assert_int_equal(code, 0);
	assert_true(json_is_true(json_object_get(audit, "sound")));
	assert_int_equal(json_integer_value(json_object_get(audit, "skus")), 2);
	assert_int_equal(json_integer_value(json_object_get(audit, "entries")), 10);
	assert_int_equal(json_integer_value(json_object_get(audit, "reservations")), 3);
	assert_int_equal(json_integer_value(json_object_get(audit, "checkouts")), 2);
	assert_int_equal(json_integer_value(json_object_get(check_of(audit, "ends"), "moving")), 0);
	assert_string_equal(json_string_value(json_object_get(check_of(audit, "cells"), "skipped")),
	                    "not compared: no --redis-url");
	json_decref(audit);
}

static void an_oversold_row_is_seen(void **state)
{
	assert_seen_by("UPDATE lastunit.sku SET writer = gen_random_uuid(), on_hand = 1 WHERE code = 'A'", "range on_hand",
	               "A: on_hand 1, reserved 2");
}

static void a_count_that_the_ledger_does_not_explain_is_seen(void **state)
{
	assert_seen_by("UPDATE lastunit.sku SET writer = gen_random_uuid(), on_hand = on_hand + 1 WHERE code = 'B'",
	               "on_hand", "B: on_hand 6, the ledger sums up to 5");
}

static void a_reserved_count_without_its_hold_is_seen(void **state)
{
	assert_seen_by("UPDATE lastunit.sku SET writer = gen_random_uuid(), reserved = reserved + 1 WHERE code = 'B'",
	               "reserved", "B: reserved 2, live holds 1, the ledger sums up to 1");
	/* nor is it right because the holds are wrong, too */
	assert_seen_by(
		"UPDATE lastunit.sku SET writer = gen_random_uuid(), reserved = reserved + 1 WHERE code = 'B';"
		"UPDATE lastunit.hold SET quantity = 2 WHERE sku_id = 2",
		"reserved holds", "B: reserved 2, live holds 2, the ledger sums up to 1");
}

static void figures_that_cannot_be_are_seen(void **state)
{
	static const char no_range[] = "ALTER TABLE lastunit.sku DROP CONSTRAINT sku_figures_stay_in_range;";
	char sql[300];
	snprintf(sql, sizeof sql, "%sUPDATE lastunit.sku SET writer = gen_random_uuid(), safety_stock = -1 WHERE id = 2",
	         no_range);
	assert_seen_by(sql, "range", "B: on_hand 5, reserved 1, safety_stock -1");
	snprintf(sql, sizeof sql, "%sUPDATE lastunit.sku SET writer = gen_random_uuid(), reserved = -1 WHERE id = 2",
	         no_range);
	assert_seen_by(sql, "range reserved", "B: on_hand 5, reserved -1");
	snprintf(sql, sizeof sql,
	         "%sUPDATE lastunit.sku SET writer = gen_random_uuid(), on_hand = 1000000000000001 WHERE id = 2", no_range);
	assert_seen_by(sql, "range on_hand", "B: on_hand 1000000000000001");
}

/* Two versions: 3 of B sold, 2 of them brought back. */
#define ORDER_ENTRIES                                                                                   \
	"UPDATE lastunit.sku SET writer = gen_random_uuid(), on_hand = 4, version = 4 WHERE code = 'B';"    \
	"INSERT INTO lastunit.ledger (sku_id, version, kind, on_hand_delta, reserved_delta, on_hand_after," \
	"  reserved_after, operation_id, channel) VALUES"                                                   \
	" (2, 3, 2, -3, 0, 2, 1, '00000000-0000-7000-8000-000000000020', 5),"                               \
	" (2, 4, 7, 2, 0, 4, 1, '00000000-0000-7000-8000-000000000020', 5);"
#define ORDER(quantities, counted)                                                                                         \
	ORDER_ENTRIES                                                                                                          \
	"INSERT INTO lastunit.orders (id, created_at, changed_at, principal_id, version, channel, number, sku_ids,"            \
	"  quantities, counted) VALUES ('00000000-0000-7000-8000-000000000020', now(), now(), 1, 2, 5, 'N', '{2}'," quantities \
	", " counted ")"

static void an_order_has_what_its_versions_sold_and_did_not_bring_back(void **state)
{
	int code;
	json_t *audit = audit_after(ORDER("'{4}'", "'{1}'"), &code);
	assert_int_equal(code, 0);
	assert_int_equal(json_integer_value(json_object_get(audit, "orders")), 1);
	json_decref(audit);
	assert_seen_by(ORDER("'{4}'", "'{2}'"), "sales",
	               "order 00000000-0000-7000-8000-000000000020: its units are not those that the ledger sold");
	assert_seen_by(ORDER("'{1}'", "'{2}'"), "sales", "more units counted than ordered");
	assert_seen_by(ORDER_ENTRIES, "sales",
	               "entries of checkout or order 00000000-0000-7000-8000-000000000020, which does not exist");
}

static void a_hold_that_is_missing_too_many_or_different_is_seen(void **state)
{
	assert_seen_by("DELETE FROM lastunit.hold WHERE sku_id = 2", "reserved holds",
	               "is active with 2 lines: 1 hold, 1 of them right");
	assert_seen_by("UPDATE lastunit.hold SET quantity = 2 WHERE sku_id = 2", "reserved holds",
	               "2 holds, 1 of them right");
	assert_seen_by("UPDATE lastunit.hold SET expires_at = expires_at + interval '1 s' WHERE sku_id = 2", "holds",
	               "2 holds, 1 of them right");
	assert_seen_by("INSERT INTO lastunit.hold VALUES (2, now(), '00000000-0000-7000-8000-000000000002', 1, true)",
	               "reserved holds", "is released with 1 line: 1 hold");
	assert_seen_by("INSERT INTO lastunit.hold VALUES (2, now(), '00000000-0000-7000-8000-000000000099', 1, false)",
	               "holds", "a hold of reservation 00000000-0000-7000-8000-000000000099, which does not exist");
	/* all are counted, of which 20 are shown */
	assert_seen_by("INSERT INTO lastunit.hold SELECT 2, now(), gen_random_uuid(), 1, false FROM generate_series(1, 25)",
	               "holds", "\"broken\": 25");
}

static void a_balance_that_does_not_follow_is_seen_though_the_sum_is_right(void **state)
{
	assert_seen_by("UPDATE lastunit.ledger SET on_hand_after = 7 WHERE sku_id = 1 AND version = 2", "balances",
	               "A version 2: 7/0 after -2/+0 on 10/0");
}

static void a_version_that_is_missing_is_seen(void **state)
{
	assert_seen_by("UPDATE lastunit.sku SET writer = gen_random_uuid(), version = 3 WHERE code = 'B'", "versions",
	               "B: version 3, 2 entries, the last has version 2");
	assert_seen_by(
		"UPDATE lastunit.ledger SET version = 9 WHERE sku_id = 1 AND version = 8;"
		"UPDATE lastunit.reservation SET versions = '{9,2}' WHERE state = 1;"
		"UPDATE lastunit.sku SET writer = gen_random_uuid(), version = 9 WHERE code = 'A'",
		"versions", "A: version 9, 8 entries");
	assert_seen_by(
		"INSERT INTO lastunit.ledger (sku_id, version, kind, on_hand_delta, reserved_delta, on_hand_after,"
		" reserved_after, channel) VALUES (77, 1, 1, 5, 0, 5, 0, 7)",
		"versions", "entries of SKU id 77, which does not exist");
}

static void a_reservation_that_ended_otherwise_than_it_says_is_seen(void **state)
{
	assert_seen_by("UPDATE lastunit.reservation SET state = 4 WHERE state = 3", "ends",
	               "is expired with 1 counted line, and in the ledger commit 0, release 1, expire 0");
	/* the committed hold's entry says that the released one expired, too */
	assert_seen_by(
		"UPDATE lastunit.ledger SET kind = 6, operation_id = '00000000-0000-7000-8000-000000000002' WHERE sku_id = 1"
		" AND version = 5;",
		"ends sales", "release 1, expire 1");
	/* twice, with balances that follow: an expiry of what was committed, and a hold that nobody made to pay for it */
	assert_seen_by(
		"INSERT INTO lastunit.ledger (sku_id, version, kind, on_hand_delta, reserved_delta, on_hand_after,"
		" reserved_after, operation_id, channel) VALUES"
		" (1, 9, 8, 0, 3, 6, 5, NULL, 7), (1, 10, 6, 0, -3, 6, 2, '00000000-0000-7000-8000-000000000001', 9);"
		"UPDATE lastunit.sku SET writer = gen_random_uuid(), version = 10 WHERE code = 'A'",
		"ends", "commit 1, release 0, expire 1");
	assert_seen_by("UPDATE lastunit.reservation SET quantities = '{2}' WHERE state = 3", "ends",
	               "counted lines 1, of them with an entry 0");
	/* held twice, and a correction that makes the sums right */
	assert_seen_by(
		"INSERT INTO lastunit.ledger (sku_id, version, kind, on_hand_delta, reserved_delta, on_hand_after,"
		" reserved_after, operation_id, channel) VALUES"
		" (1, 9, 3, 0, 1, 6, 3, '00000000-0000-7000-8000-000000000002', 1), (1, 10, 8, 0, -1, 6, 2, NULL, 7);"
		"UPDATE lastunit.sku SET writer = gen_random_uuid(), version = 10 WHERE code = 'A'",
		"ends", "00000000-0000-7000-8000-000000000002 has 2 reserve entries for 1 counted line,");
}

static void entries_of_a_reservation_that_does_not_exist_are_seen(void **state)
{
	assert_seen_by("DELETE FROM lastunit.reservation WHERE state = 3", "ends",
	               "entries of reservation 00000000-0000-7000-8000-000000000002, which does not exist");
}

static void a_sale_without_its_entry_and_an_entry_without_its_sale_are_seen(void **state)
{
	assert_seen_by("UPDATE lastunit.checkout SET quantities = '{4}' WHERE reservation_id IS NULL", "sales",
	               "counted lines 1, of them with an entry 0");
	/* sold twice, and a correction that makes the sums right */
	assert_seen_by(
		"INSERT INTO lastunit.ledger (sku_id, version, kind, on_hand_delta, reserved_delta, on_hand_after,"
		" reserved_after, operation_id, channel) VALUES"
		" (1, 9, 2, -2, 0, 4, 2, '00000000-0000-7000-8000-000000000010', 1), (1, 10, 8, 2, 0, 6, 2, NULL, 7);"
		"UPDATE lastunit.sku SET writer = gen_random_uuid(), version = 10 WHERE code = 'A'",
		"sales", "checkout 00000000-0000-7000-8000-000000000010 has 2 entries for 1 counted line,");
	assert_seen_by("UPDATE lastunit.checkout SET cancelled = '{2}' WHERE reservation_id IS NULL", "sales",
	               "its cancelled units are not those of the ledger");
	assert_seen_by("UPDATE lastunit.checkout SET cancelled = '{3}' WHERE reservation_id IS NULL", "sales",
	               "more units cancelled than sold");
	assert_seen_by("DELETE FROM lastunit.checkout WHERE reservation_id IS NULL", "sales",
	               "entries of checkout or order 00000000-0000-7000-8000-000000000010, which does not exist");
}

static void lines_that_are_damaged_are_seen(void **state)
{
	assert_seen_by("UPDATE lastunit.reservation SET sku_ids = '{{1}}' WHERE state = 3", "", "\"sound\": true");
	assert_seen_by("UPDATE lastunit.reservation SET sku_ids = '{NULL}' WHERE state = 3", "ends",
	               "reservation 00000000-0000-7000-8000-000000000002: counted lines 1, of them with an entry 0");
	assert_seen_by("UPDATE lastunit.checkout SET sku_ids = '{99}' WHERE reservation_id IS NULL", "sales",
	               "checkout 00000000-0000-7000-8000-000000000010: counted lines 1, of them with an entry 0");
	assert_seen_by(ORDER("'{4}'", "'{1}'") ";UPDATE lastunit.orders SET sku_ids = '{NULL}'", "sales",
	               "order 00000000-0000-7000-8000-000000000020: its units are not those");
	assert_seen_by(
		"ALTER TABLE lastunit.reservation DROP CONSTRAINT reservation_has_whole_lines;"
		"UPDATE lastunit.reservation SET quantities = '{}' WHERE state = 3",
		"ends", "reservation 00000000-0000-7000-8000-000000000002: its lines are not whole");
	assert_seen_by(
		"ALTER TABLE lastunit.checkout DROP CONSTRAINT checkout_has_whole_lines;"
		"UPDATE lastunit.checkout SET cancelled = '{}' WHERE reservation_id IS NULL",
		"sales", "checkout 00000000-0000-7000-8000-000000000010: its lines are not whole");
	assert_seen_by(ORDER("'{4}'", "'{1}'") ";ALTER TABLE lastunit.orders DROP CONSTRAINT orders_have_whole_lines;"
	                                       "UPDATE lastunit.orders SET quantities = '{}'",
	               "sales", "order 00000000-0000-7000-8000-000000000020: its lines are not whole");
}

static void a_hold_that_nobody_expires_is_a_warning(void **state)
{
	assert_seen_by(
		"UPDATE lastunit.reservation SET expires_at = now() - interval '6 s' WHERE state = 1;"
		"UPDATE lastunit.hold SET expires_at = (SELECT expires_at FROM lastunit.reservation WHERE state = 1)",
		"overdue", "reservation 00000000-0000-7000-8000-000000000003");
	assert_seen_by(
		"UPDATE lastunit.reservation SET expires_at = now() WHERE state = 1;"
		"UPDATE lastunit.hold SET expires_at = (SELECT expires_at FROM lastunit.reservation WHERE state = 1)",
		"", "\"sound\": true");
}

static void pages_are_walked_to_the_end(void **state)
{
	/* more SKUs, entries of one SKU, reservations and checkouts than one page has; the last of each is wrong */
	static const char many[] =
		"INSERT INTO lastunit.sku (code, on_hand, version, writer) SELECT 'M' || n, 1, 1, gen_random_uuid() FROM generate_series(1, 2500) n;"
		"INSERT INTO lastunit.ledger (sku_id, version, kind, on_hand_delta, reserved_delta, on_hand_after, reserved_after, channel)"
		" SELECT id, 1, 1, 1, 0, 1, 0, 7 FROM lastunit.sku WHERE code LIKE 'M%';"
		"INSERT INTO lastunit.ledger (sku_id, version, kind, on_hand_delta, reserved_delta, on_hand_after, reserved_after, channel)"
		" SELECT 2, n, 8, 1, 0, 5 + n - 2, 1, 7 FROM generate_series(3, 45000) n;"
		"UPDATE lastunit.sku SET writer = gen_random_uuid(), version = 45000, on_hand = 45003 WHERE id = 2;"
		"INSERT INTO lastunit.checkout (id, created_at, principal_id, channel, sku_ids, quantities, counted, versions, cancelled)"
		" SELECT gen_random_uuid(), now(), 1, 1, '{1}', '{1}', '{f}', '{0}', '{0}' FROM generate_series(1, 4100);";
	char sql[3000];
	assert_seen_by(many, "", "\"checkouts\": 4102");
	snprintf(sql, sizeof sql, "%sUPDATE lastunit.sku SET writer = gen_random_uuid(), on_hand = 2 WHERE code = 'M2500'",
	         many);
	assert_seen_by(sql, "on_hand", "M2500: on_hand 2");
	snprintf(sql, sizeof sql, "%sUPDATE lastunit.ledger SET on_hand_after = 1 WHERE version = 45000", many);
	assert_seen_by(sql, "balances", "B version 45000");
	snprintf(
		sql, sizeof sql,
		"%sUPDATE lastunit.checkout SET counted = '{t}' WHERE id = (SELECT max(id::text)::uuid FROM lastunit.checkout)",
		many);
	assert_seen_by(sql, "sales", "counted lines 1, of them with an entry 0");
}

static void what_cannot_be_reached_is_exit_code_3_and_what_is_not_ours_2(void **state)
{
	struct command command = command_run((const char *[]){"audit", NULL},
	                                     (const char *[]){"LASTUNIT_DATABASE_URL=host=/nonexistent", NULL});
	assert_int_equal(command.exit_code, 3);
	command_done(&command);
	char variable[300];
	snprintf(variable, sizeof variable, "LASTUNIT_DATABASE_URL=%s", server.url);
	command = command_run((const char *[]){"audit", NULL}, (const char *[]){variable, NULL});
	assert_int_equal(command.exit_code, 2);
	command_done(&command);
	command = command_run((const char *[]){"audit", NULL}, NULL);
	assert_int_equal(command.exit_code, 2);
	command_done(&command);
}

/* --- cells -------------------------------------------------------------------------------------------------------- */

/* An open epoch on a Redis of its own, as a service leaves it: nobody repairs a cell meanwhile. */
static void open_epoch(const char *url, struct redis_server *redis_server, char namespace[CELL_NAMESPACE_BYTES + 1])
{
	struct redis_address address;
	const char *why;
	char identity[160];
	bool moved;
	assert_true(redis_address_parse(redis_server->url, &address, &why));
	struct redis *redis = redis_new(&address);
	struct pg *pg = pg_new(&(struct pg_options){.url = url, .application_name = "audit_test"});
	snprintf(namespace, CELL_NAMESPACE_BYTES + 1, "lu:abcdefghijklmnopqrstuv");
	int64_t deadline_ns = deadline_in_ms(30000);
	assert_int_equal(redis_connect(redis, deadline_ns), LU_OK);
	assert_int_equal(cell_redis_identity(redis, deadline_ns, identity), LU_OK);
	assert_int_equal(cell_guard_set(redis, text_of(namespace), identity, deadline_ns), LU_OK);
	assert_int_equal(pg_connect(pg, deadline_ns), LU_OK);
	assert_int_equal(epoch_open(pg, TEXT(""), text_of(namespace), text_of(identity), 1000, deadline_ns, &moved), LU_OK);
	assert_true(moved);
	pg_free(pg);
	redis_free(redis);
}

static void audit_says(const char *const *variables, int exit_code, const char *sentence)
{
	struct command command = command_run((const char *[]){"audit", NULL}, variables);
	if (command.exit_code != exit_code || (!strstr(command.out, sentence) && !strstr(command.err, sentence)))
		fail_msg("exit code %d, no \"%s\": %s%s", command.exit_code, sentence, command.out, command.err);
	command_done(&command);
}

static void a_cell_that_is_not_its_row_is_seen(void **state)
{
	static const struct {
		const char *cell, *offender; /* NULL: nothing wrong with it */
	} cells[] = {
		{"V|2|5|1|0|1|B", NULL},                       /* what is so */
		{"V|2|6|1|0|1|B", "the cache says on_hand 6"}, /* another count under the row's version */
		{"V|2|5|1|1|1|B", "the cache says on_hand 5"}, /* another safety stock */
		{"V|1|5|0|0|1|B", "(version 1), the row 5"},   /* what was so */
		{"V|3|5|1|0|1|B", "(version 3), the row 5"},   /* a version that was never committed */
		{"V|2|6|1|0|1|other", NULL},                   /* not this SKU's: no reader takes it for one */
		{"I|0123456789012345678901|9", NULL},
		{"F|0123456789012345678901", NULL},
	};
	struct redis_server redis_server;
	char url[200], namespace[CELL_NAMESPACE_BYTES + 1], variable[2][300], line[300];
	redis_server_start(&redis_server, NULL);
	pg_server_database(&server, "cells", url);
	pg_server_ask(url, sound_rows);
	open_epoch(url, &redis_server, namespace);
	snprintf(variable[0], sizeof variable[0], "LASTUNIT_DATABASE_URL=%s", url);
	snprintf(variable[1], sizeof variable[1], "LASTUNIT_REDIS_URL=%s", redis_server.url);
	const char *variables[] = {variable[0], variable[1], "LASTUNIT_REDIS_TIMEOUT_MS=5000", NULL};
	for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
		snprintf(line, sizeof line, "SET %s:B %s", namespace, cells[i].cell);
		free(redis_server_command(&redis_server, line));
		struct command command = command_run((const char *[]){"audit", NULL}, variables);
		if (command.exit_code != (cells[i].offender ? 1 : 0) ||
		    !strstr(command.out, cells[i].offender ? cells[i].offender : "every promise holds"))
			fail_msg("%s: exit code %d: %s%s", cells[i].cell, command.exit_code, command.out, command.err);
		command_done(&command);
	}
	/* they are looked at page by page, to the last of the last */
	pg_server_ask(
		url,
		"WITH s AS (INSERT INTO lastunit.sku (code, on_hand, writer) SELECT 'M' || n, 1, gen_random_uuid()"
		" FROM generate_series(1, 1500) n RETURNING id) INSERT INTO lastunit.ledger (sku_id, version, kind,"
		" on_hand_delta, reserved_delta, on_hand_after, reserved_after, channel) SELECT id, 1, 1, 1, 0, 1, 0, 7 FROM s");
	snprintf(line, sizeof line, "SET %s:M1500 V|1|2|0|0|1|M1500", namespace);
	free(redis_server_command(&redis_server, line));
	audit_says(variables, 1, "M1500: the cache says on_hand 2");
	/* a Redis that does not answer is no sound one */
	snprintf(line, sizeof line, "LASTUNIT_REDIS_URL=unix:///nonexistent/s");
	audit_says((const char *[]){variable[0], line, NULL}, 3, "lastunit audit: Redis: ");
	/* what another Redis has, or this one after it lost all, is not compared, and that is said */
	free(redis_server_command(&redis_server, "FLUSHALL"));
	struct command fenced = command_run((const char *[]){"audit", NULL}, variables);
	assert_int_equal(fenced.exit_code, 0);
	assert_non_null(strstr(fenced.out, "not compared: the epoch is open on another Redis"));
	command_done(&fenced);
	/* nor is what nobody would be answered */
	pg_server_ask(url, "UPDATE lastunit.cache_epoch SET state = 3");
	snprintf(line, sizeof line, "SET %s:B V|2|6|1|0|1|B", namespace);
	free(redis_server_command(&redis_server, line));
	struct command command = command_run((const char *[]){"audit", NULL}, variables);
	assert_int_equal(command.exit_code, 0);
	assert_non_null(strstr(command.out, "no epoch is open"));
	command_done(&command);
	/* an open epoch of another life of this PostgreSQL, as every copy of its row is, is none */
	pg_server_ask(url, "UPDATE lastunit.cache_epoch SET state = 1");
	audit_says(variables, 0, "no epoch is open");
	redis_server_stop(&redis_server);
}

static int start_server(void **state)
{
	pg_server_start(&server, NULL);
	return 0;
}

static int stop_server(void **state)
{
	pg_server_done(&server);
	return 0;
}

/* --- beside a running service ------------------------------------------------------------------------------------- */

static struct service service;

struct client {
	pthread_t thread;
	int number, sales;
	_Atomic bool *stop;
};

/* Sells, holds, commits, releases, brings back: whatever moves rows. */
static void *shop(void *argument)
{
	struct client *client = argument;
	char sku[20], id[37], path[100], body[200];
	for (int n = client->number; !*client->stop; n++) {
		snprintf(sku, sizeof sku, "busy-%d", n % 3);
		switch (n % 5) {
		case 0:
		case 1:
			if (service_reserve(&service, service.key_web, NULL, sku, 2, 600, id) == 201)
				service_end(&service, service.key_web, id, n % 2 ? "commit" : "release");
			break;
		case 2:
			service_adjust(&service, sku, 5);
			break;
		case 3:
			service_reserve(&service, service.key_web, NULL, sku, 1, 1, id); /* left to expire */
			break;
		default:
			snprintf(body, sizeof body, "{\"idempotency_key\":\"%s\",\"lines\":[{\"sku\":\"%s\",\"quantity\":2}]}",
			         service_new_key(), sku);
			struct answer answer = service_call(&service, service.key_web, "POST", "/v1/checkouts", NULL, body);
			snprintf(path, sizeof path, "/v1/checkouts/%s/cancel", answer_string(&answer, "id"));
			if (answer.status == 201) {
				client->sales++;
				answer_done(&answer);
				snprintf(body, sizeof body, "{\"idempotency_key\":\"%s\",\"lines\":[{\"sku\":\"%s\",\"quantity\":1}]}",
				         service_new_key(), sku);
				answer = service_call(&service, service.key_web, "POST", path, NULL, body);
			}
			answer_done(&answer);
		}
		service_see(&service, sku);
	}
	return NULL;
}

static void it_does_not_cry_wolf_while_everything_moves(void **state)
{
	for (int i = 0; i < 3; i++)
		service_create_sku(&service, (char[]){'b', 'u', 's', 'y', '-', (char)('0' + i), 0}, 1000);
	_Atomic bool stop = false;
	struct client clients[6] = {0};
	for (int i = 0; i < 6; i++) {
		clients[i] = (struct client){.number = i, .stop = &stop};
		assert_int_equal(pthread_create(&clients[i].thread, NULL, shop, &clients[i]), 0);
	}
	int broken_audits = 0;
	for (int i = 0; i < 25; i++)
		broken_audits += service_audit(&service) != 0;
	stop = true;
	int sales = 0;
	for (int i = 0; i < 6; i++) {
		pthread_join(clients[i].thread, NULL);
		sales += clients[i].sales;
	}
	assert_int_equal(broken_audits, 0);
	assert_true(sales > 20);
	assert_int_equal(service_audit(&service), 0);
}

struct canceller {
	pthread_t thread;
	int line, status;
	const char *checkout_id;
	pthread_barrier_t *barrier;
};

static void *cancel_line(void *argument)
{
	struct canceller *c = argument;
	char path[100], body[200];
	snprintf(path, sizeof path, "/v1/checkouts/%s/cancel", c->checkout_id);
	snprintf(body, sizeof body, "{\"idempotency_key\":\"%s\",\"lines\":[{\"sku\":\"line-%d\",\"quantity\":1}]}",
	         service_new_key(), c->line);
	pthread_barrier_wait(c->barrier);
	struct answer answer = service_call(&service, service.key_web, "POST", path, NULL, body);
	c->status = answer.status;
	answer_done(&answer);
	return NULL;
}

/* Lines of one checkout brought back at the same moment: each is remembered, so that none can be brought back twice. */
static void lines_of_a_sale_cancelled_at_once_are_all_remembered(void **state)
{
	char body[600];
	for (int i = 0; i < 6; i++)
		service_create_sku(&service, (char[]){'l', 'i', 'n', 'e', '-', (char)('0' + i), 0}, 100);
	for (int round = 0; round < 30; round++) {
		size_t at = (size_t)snprintf(body, sizeof body, "{\"idempotency_key\":\"%s\",\"lines\":[", service_new_key());
		for (int i = 0; i < 6; i++)
			at += (size_t)snprintf(body + at, sizeof body - at, "%s{\"sku\":\"line-%d\",\"quantity\":1}", i ? "," : "",
			                       i);
		snprintf(body + at, sizeof body - at, "]}");
		struct answer sale = service_call(&service, service.key_web, "POST", "/v1/checkouts", NULL, body);
		assert_int_equal(sale.status, 201);
		struct canceller cancellers[6];
		pthread_barrier_t barrier;
		pthread_barrier_init(&barrier, NULL, 6);
		for (int i = 0; i < 6; i++) {
			cancellers[i] = (struct canceller){.line = i,
			                                   .checkout_id = answer_string(&sale, "id"),
			                                   .barrier = &barrier};
			assert_int_equal(pthread_create(&cancellers[i].thread, NULL, cancel_line, &cancellers[i]), 0);
		}
		for (int i = 0; i < 6; i++)
			pthread_join(cancellers[i].thread, NULL);
		for (int i = 0; i < 6; i++)
			assert_int_equal(cancellers[i].status, 200);
		snprintf(body, sizeof body, "/v1/checkouts/%s", answer_string(&sale, "id"));
		struct answer after = service_call(&service, service.key_web, "GET", body, NULL, NULL);
		assert_string_equal(answer_string(&after, "status"), "cancelled");
		answer_done(&after);
		answer_done(&sale);
		pthread_barrier_destroy(&barrier);
	}
	assert_int_equal(service_audit(&service), 0);
}

static int start_service(void **state)
{
	service_start(&service, NULL);
	return 0;
}

static int stop_service(void **state)
{
	return service_stop(&service);
}

int main(void)
{
	const struct CMUnitTest faults[] = {
		cmocka_unit_test(a_sound_database_is_sound),
		cmocka_unit_test(an_oversold_row_is_seen),
		cmocka_unit_test(a_count_that_the_ledger_does_not_explain_is_seen),
		cmocka_unit_test(a_reserved_count_without_its_hold_is_seen),
		cmocka_unit_test(figures_that_cannot_be_are_seen),
		cmocka_unit_test(an_order_has_what_its_versions_sold_and_did_not_bring_back),
		cmocka_unit_test(a_hold_that_is_missing_too_many_or_different_is_seen),
		cmocka_unit_test(a_balance_that_does_not_follow_is_seen_though_the_sum_is_right),
		cmocka_unit_test(a_version_that_is_missing_is_seen),
		cmocka_unit_test(a_reservation_that_ended_otherwise_than_it_says_is_seen),
		cmocka_unit_test(entries_of_a_reservation_that_does_not_exist_are_seen),
		cmocka_unit_test(a_sale_without_its_entry_and_an_entry_without_its_sale_are_seen),
		cmocka_unit_test(lines_that_are_damaged_are_seen),
		cmocka_unit_test(a_hold_that_nobody_expires_is_a_warning),
		cmocka_unit_test(pages_are_walked_to_the_end),
		cmocka_unit_test(a_cell_that_is_not_its_row_is_seen),
		cmocka_unit_test(what_cannot_be_reached_is_exit_code_3_and_what_is_not_ours_2),
	};
	const struct CMUnitTest beside[] = {
		cmocka_unit_test(it_does_not_cry_wolf_while_everything_moves),
		cmocka_unit_test(lines_of_a_sale_cancelled_at_once_are_all_remembered),
	};
	int failed = cmocka_run_group_tests(faults, start_server, stop_server);
	return failed + cmocka_run_group_tests(beside, start_service, stop_service);
}
