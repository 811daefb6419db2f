/* `lastunit key revoke` as somebody uses it who has found a key where it should not be: by what `list` shows, by the whole
 * key pasted, mistyped; and whatever he gives, the secret is not printed again. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/command.h"
#include "lib/pg_server.h"
#include "lib/service.h"
#include "store/key.h"

static struct service service;
static char database[600];

static struct command key(const char *const *arguments)
{
	const char *all[12] = {"key"};
	for (int i = 0; arguments[i]; i++)
		all[1 + i] = arguments[i];
	return command_run(all, (const char *const[]){database, NULL});
}

static void create(char ret_secret[KEY_SECRET_BYTES + 1])
{
	struct command made = key((const char *const[]){"create", "--principal", "till", "--channel", "pos", NULL});
	assert_int_equal(made.exit_code, 0);
	assert_int_equal(strlen(made.out), KEY_SECRET_BYTES + 1);
	snprintf(ret_secret, KEY_SECRET_BYTES + 1, "%s", made.out);
	command_done(&made);
}

static int status_of(const char *secret)
{
	struct answer answer = service_call(&service, secret, "GET", "/v1/skus", NULL, NULL);
	int status = answer.status;
	answer_done(&answer);
	return status;
}

/* Revokes what is given, and not a word of its own is the secret's rest. */
static void revoke_key(const char *given, const char *secret, int exit_code, const char *says)
{
	struct command done = key((const char *const[]){"revoke", given, NULL});
	if (done.exit_code != exit_code || (!strstr(done.out, says) && !strstr(done.err, says)))
		fail_msg("revoke %s: exit code %d: %s%s", given, done.exit_code, done.out, done.err);
	assert_null(strstr(done.out, secret + KEY_PREFIX_BYTES));
	assert_null(strstr(done.err, secret + KEY_PREFIX_BYTES));
	command_done(&done);
}

static void a_key_is_revoked_by_what_list_shows_or_by_the_whole_of_it(void **state)
{
	char secret[KEY_SECRET_BYTES + 1], prefix[KEY_PREFIX_BYTES + 1];
	create(secret);
	snprintf(prefix, sizeof prefix, "%s", secret);
	assert_int_equal(status_of(secret), 200);
	revoke_key(prefix, secret, 0, "revoked 1 key: lu_");
	assert_int_equal(status_of(secret), 401);
	create(secret);
	assert_int_equal(status_of(secret), 200);
	revoke_key(secret, secret, 0, "revoked 1 key: lu_");
	assert_int_equal(status_of(secret), 401);
}

static void says(const char *const *arguments, int exit_code, const char *sentence)
{
	struct command done = key(arguments);
	if (done.exit_code != exit_code || !strstr(done.err, sentence))
		fail_msg("exit code %d: %s%s", done.exit_code, done.out, done.err);
	command_done(&done);
}

/* Of a publishable key `list` shows four characters of its own, so two may look the same there. */
static void of_two_that_are_listed_alike_the_operator_is_asked_which(void **state)
{
	char secrets[3][KEY_SECRET_BYTES + 1];
	static const char *const principals[] = {"alike-blog", "alike-page", "alike-page"};
	for (int i = 0; i < 3; i++) {
		struct command made = key((const char *const[]){"create", "--principal", principals[i], "--scopes", "read",
		                                                "--origins", "https://a", NULL});
		assert_int_equal(made.exit_code, 0);
		snprintf(secrets[i], sizeof secrets[i], "%s", made.out);
		command_done(&made);
	}
	pg_server_ask(service.database_url,
	              "UPDATE lastunit.api_key SET prefix = 'lu_pub_Same' WHERE principal_id IN"
	              " (SELECT id FROM lastunit.principal WHERE name LIKE 'alike-%')");
	revoke_key(
		"lu_pub_Same", secrets[0], 1,
		"3 keys are listed as lu_pub_Same, of alike-blog, of alike-page, and none was revoked: give --principal as "
		"well, or the whole key");
	says((const char *const[]){"revoke", "lu_pub_Same", "--principal", "alike-page", NULL}, 1,
	     "2 keys are listed as lu_pub_Same, of alike-page, and none was revoked: give the whole key");
	says((const char *const[]){"revoke", "lu_pub_Same", "--principal", "nobody", NULL}, 1,
	     "no key of nobody is listed as lu_pub_Same");
	for (int i = 0; i < 3; i++)
		assert_int_equal(status_of(secrets[i]), 403); /* known, and not for the catalogue */
	struct command done = key((const char *const[]){"revoke", "lu_pub_Same", "--principal", "alike-blog", NULL});
	assert_int_equal(done.exit_code, 0);
	command_done(&done);
	assert_int_equal(status_of(secrets[0]), 401);
	/* A rotation ends those of its own principal. */
	done = key((const char *const[]){"rotate", "alike-page", "--grace", "0", NULL});
	assert_int_equal(done.exit_code, 0);
	assert_non_null(strstr(done.err, "revoked 2 old keys"));
	command_done(&done);
	assert_int_equal(status_of(secrets[1]), 401);
	assert_int_equal(status_of(secrets[2]), 401);
}

/* Which pages may use a key that everybody can read stands where its owner looks. */
static void list_tells_the_origins_of_a_publishable_key(void **state)
{
	struct command done = key((const char *const[]){"create", "--principal", "page", "--scopes", "read", "--origins",
	                                                "https://a https://b:81", NULL});
	assert_int_equal(done.exit_code, 0);
	command_done(&done);
	done = key((const char *const[]){"list", NULL});
	assert_int_equal(done.exit_code, 0);
	assert_non_null(strstr(done.out, " origins\n"));
	assert_non_null(strstr(done.out, " https://a https://b:81\n"));
	command_done(&done);
	done = key((const char *const[]){"list", "--principal", "page", "--json", NULL});
	assert_non_null(strstr(done.out, "\"origins\":\"https://a https://b:81\""));
	command_done(&done);
	done = key((const char *const[]){NULL});
	assert_int_equal(done.exit_code, 2);
	assert_string_equal(done.err, "lastunit key: which of create, list, rotate, revoke, set, show?\n");
	command_done(&done);
}

/* A line that is broken in two is no table. */
static void list_fits_a_terminal_of_120_columns(void **state)
{
	struct command done = key((const char *const[]){"create", "--principal", "ярмарка-мастеров", "--channel",
	                                                "marketplace", "--scopes", "read,sell,orders,stock,admin", NULL});
	assert_int_equal(done.exit_code, 0);
	done.out[KEY_PREFIX_BYTES] = 0;
	struct command revoked = key((const char *const[]){"revoke", done.out, NULL});
	assert_int_equal(revoked.exit_code, 0);
	command_done(&revoked);
	command_done(&done);
	done = key((const char *const[]){"list", NULL});
	const char *channel = strstr(done.out, "channel");
	assert_non_null(channel);
	for (const char *line = done.out; *line; line += strcspn(line, "\n") + 1) {
		int width = 0, origins = 0;
		for (const char *at = line; *at != '\n'; at++) {
			width += ((unsigned char)*at & 0xc0) != 0x80;
			origins += strncmp(at, " http", 5) == 0;
		}
		if (width > 120 && origins < 2) /* of these there may be any number */
			fail_msg("%d columns: %s", width, done.out);
	}
	/* The principal's column is as wide as its longest name, in characters. */
	assert_int_equal(channel - done.out, strlen("marketplace-keys") + 1);
	const char *line = strstr(done.out, "ярмарка-мастеров marketplace lu_");
	assert_non_null(line);
	assert_non_null(strstr(line, " read,sell,orders,stock,admin\n"));
	char day[2][11], hour[2][9];
	assert_int_equal(sscanf(line, "%*s %*s %*s %10s %8s %10s %8s ", day[0], hour[0], day[1], hour[1]), 4);
	assert_int_equal(strlen(hour[0]), 8);
	assert_int_equal(strlen(hour[1]), 8);
	command_done(&done);
}

static void make(const char *const *arguments, char ret_secret[KEY_SECRET_BYTES + 1])
{
	struct command made = key(arguments);
	assert_int_equal(made.exit_code, 0);
	snprintf(ret_secret, KEY_SECRET_BYTES + 1, "%s", made.out);
	command_done(&made);
}

/* An old key that still opens is what one rotates to be rid of; and a till that sells goes on selling. */
static void rotation_follows_the_newest_key_and_ends_all_before_it(void **state)
{
	char first[KEY_SECRET_BYTES + 1], second[KEY_SECRET_BYTES + 1], third[KEY_SECRET_BYTES + 1];
	make((const char *const[]){"create", "--principal", "kiosk", "--channel", "pos", "--scopes", "read", NULL}, first);
	make((const char *const[]){"create", "--principal", "kiosk", "--channel", "pos", "--scopes", "read,sell", NULL},
	     second);
	struct command rotated = key((const char *const[]){"rotate", "kiosk", "--grace", "0", NULL});
	assert_int_equal(rotated.exit_code, 0);
	assert_string_equal(rotated.err, "revoked 2 old keys\n");
	snprintf(third, sizeof third, "%s", rotated.out);
	command_done(&rotated);
	assert_int_equal(status_of(first), 401);
	assert_int_equal(status_of(second), 401);
	assert_int_equal(status_of(third), 200);
	struct command listed = key((const char *const[]){"list", "--principal", "kiosk", "--json", NULL});
	json_t *rows = json_loads(listed.out, 0, NULL), *newest = json_array_get(rows, 2);
	assert_int_equal(json_array_size(rows), 3);
	assert_string_equal(json_string_value(json_object_get(json_array_get(rows, 0), "scopes")), "read");
	assert_true(json_is_string(json_object_get(json_array_get(rows, 1), "revoked_at")));
	assert_string_equal(json_string_value(json_object_get(newest, "scopes")), "read,sell");
	assert_string_equal(json_string_value(json_object_get(newest, "channel")), "pos");
	assert_memory_equal(json_string_value(json_object_get(newest, "prefix")), third, KEY_PREFIX_BYTES);
	assert_true(json_is_null(json_object_get(newest, "revoked_at")));
	assert_true(json_is_null(json_object_get(newest, "origins")));
	json_decref(rows);
	command_done(&listed);
}

/* An hour of grace is long: the session that made the new key has ended by then, and the old one must end all the same. */
static void what_a_command_waits_for_needs_no_session(void **state)
{
	const char *const ended_soon[] = {database, "PGOPTIONS=-c idle_session_timeout=200ms", NULL};
	char first[KEY_SECRET_BYTES + 1];
	make((const char *const[]){"create", "--principal", "stall", "--channel", "pos", "--scopes", "read", NULL}, first);
	struct command done = command_run((const char *[]){"key", "rotate", "stall", "--grace", "1", NULL}, ended_soon);
	assert_string_equal(done.err, "revoked 1 old key\n");
	assert_int_equal(done.exit_code, 0);
	command_done(&done);
	assert_int_equal(status_of(first), 401);
	done = command_run((const char *[]){"key", "set", "stall", "--buffer", "2", NULL}, ended_soon);
	assert_string_equal(done.err, "");
	assert_int_equal(done.exit_code, 0);
	command_done(&done);
}

/* Whoever rotates because a key was found must not go away believing that it is dead. */
static void old_keys_that_could_not_be_revoked_are_named(void **state)
{
	char first[KEY_SECRET_BYTES + 1], sentence[80];
	make((const char *const[]){"create", "--principal", "booth", "--channel", "pos", "--scopes", "read", NULL}, first);
	pg_server_ask(
		service.database_url,
		"CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
		" RAISE EXCEPTION 'not now'; END $$;"
		"CREATE TRIGGER refuse BEFORE UPDATE ON lastunit.api_key FOR EACH ROW EXECUTE FUNCTION public.refuse()");
	struct command done = key((const char *const[]){"rotate", "booth", "--grace", "0", NULL});
	pg_server_ask(service.database_url, "DROP TRIGGER refuse ON lastunit.api_key; DROP FUNCTION public.refuse()");
	snprintf(sentence, sizeof sentence, "still valid: lastunit key revoke %.*s\n", KEY_PREFIX_BYTES, first);
	if (done.exit_code != 1 || !strstr(done.err, sentence) || strstr(done.err, "revoked"))
		fail_msg("exit code %d: %s", done.exit_code, done.err);
	assert_int_equal(strlen(done.out), KEY_SECRET_BYTES + 1); /* the new one is his all the same */
	command_done(&done);
	assert_int_equal(status_of(first), 200);
}

static const char *settings_line(const char *principal)
{
	static char line[400];
	struct command done = key((const char *const[]){"show", principal, NULL});
	assert_int_equal(done.exit_code, 0);
	snprintf(line, sizeof line, "%s", strchr(done.out, '\n') + 1);
	command_done(&done);
	return line;
}

static void show_tells_each_setting_under_its_name(void **state)
{
	char secret[KEY_SECRET_BYTES + 1];
	make((const char *const[]){"create", "--principal", "caps", "--channel", "pos", NULL}, secret);
	struct command done = command_run((const char *const[]){"key", "set", "caps", "--buffer", "2", "--holds-max", "3",
	                                                        "--held-units-max", "4", "--caller-holds-max", "5",
	                                                        "--caller-held-units-max", "6", "--may-use-safety-stock",
	                                                        "yes", NULL},
	                                  (const char *const[]){database, NULL});
	assert_int_equal(done.exit_code, 0);
	command_done(&done);
	done = key((const char *const[]){"show", "caps", "--json", NULL});
	assert_string_equal(done.out,
	                    "[{\"principal\":\"caps\",\"channel\":\"pos\",\"buffer\":2,\"may_use_safety_stock\":true,"
	                    "\"holds_max\":3,\"held_units_max\":4,\"caller_holds_max\":5,\"caller_held_units_max\":6}]\n");
	command_done(&done);
	char words[8][20];
	assert_int_equal(sscanf(settings_line("caps"), "%19s %19s %19s may use %19s %19s %19s %19s", words[0], words[1],
	                        words[2], words[3], words[4], words[5], words[6]),
	                 7);
	static const char *const expected[] = {"caps", "pos", "2", "3", "4", "5", "6"};
	for (int i = 0; i < 7; i++)
		assert_string_equal(words[i], expected[i]);
}

static void a_word_too_few_or_too_wrong_is_told_by_what_to_write(void **state)
{
	says((const char *const[]){"create", "--principal", "page", "--channel", "pos", "--scopes", "read", "--origins",
	                           "https://a", NULL},
	     1, "page has another channel: a principal keeps the one it has\n");
	says((const char *const[]){"create", "--principal", "nobody", "--scopes", "read", "--origins", "a.example", NULL},
	     2, "--origins are separated by blanks and look like https://shop.example");
	says((const char *const[]){"create", NULL}, 2, "create needs --principal NAME\n");
	says((const char *const[]){"create", "--principal", "forger", "--channel", "sql", NULL}, 2, "--channel is web, ");
	says((const char *const[]){"create", "--principal", "forger", "--channel", "system", NULL}, 2,
	     "--channel is web, ");
	says((const char *const[]){"create", "--principal", "forger", "--channel", "shop", NULL}, 2, "--channel is web, ");
	says((const char *const[]){"create", "--principal", "forger", "--scopes", "read,all", NULL}, 2,
	     "--scopes is a list");
	says((const char *const[]){"create", "--principal", "forger", "--origins", "https://a", NULL}, 2,
	     "a publishable key (--origins) may only read");
	says((const char *const[]){"revoke", NULL}, 2, "revoke needs the key");
	says((const char *const[]){"show", "forger", NULL}, 1, "there is no principal forger");
	says((const char *const[]){"rotate", "nobody", NULL}, 1, "there is no principal nobody");
	says((const char *const[]){"rotate", "page", NULL}, 0, "still valid: lastunit key revoke lu_");
	says((const char *const[]){"rotate", NULL}, 2, "lastunit key rotate NAME");
	says((const char *const[]){"set", "till", "--may-use-safety-stock", "maybe", NULL}, 2,
	     "--may-use-safety-stock is yes or no\n");
	says((const char *const[]){"list", "--database-url", "mysql://shop", NULL}, 2, "write postgresql://user@host/db\n");
	says((const char *const[]){"list", "--database-url", "shop", NULL}, 2, "write postgresql://user@host/db\n");
}

/* Who gives a cap with a new key, or fewer scopes with the next one, must not believe that they hold. */
static void what_a_verb_has_no_use_for_is_refused(void **state)
{
	says((const char *const[]){"create", "--principal", "hoarder", "--holds-max", "5", NULL}, 2,
	     "create takes no settings; with settings goes: set\n");
	says((const char *const[]){"show", "hoarder", NULL}, 1, "there is no principal hoarder");
	says((const char *const[]){"rotate", "till", "--scopes", "read,sell", NULL}, 2, "rotate takes no --scopes");
	says((const char *const[]){"rotate", "till", "--channel", "pos", NULL}, 2, "rotate takes no --channel");
	says((const char *const[]){"list", "--grace", "0", NULL}, 2, "list takes no --grace");
	says((const char *const[]){"set", "till", "--buffer", "1", "--json", NULL}, 2, "with --json goes: list show\n");
}

static void is_refused(const char *principal, const char *origins, int exit_code)
{
	struct command done = key(
		(const char *const[]){"create", "--principal", principal, "--scopes", "read", "--origins", origins, NULL});
	if (done.exit_code != exit_code)
		fail_msg("%s %s: exit code %d: %s", principal, origins, done.exit_code, done.out);
	assert_string_equal(done.out, "");
	assert_non_null(strstr(done.err, "--"));
	command_done(&done);
}

/* No page says such an Origin, so the key would be refused everywhere; and without any it would be no publishable one,
 * though a page is what it is for: `--origins "$UNSET"`. */
static void origins_that_no_browser_sends_make_no_key(void **state)
{
	is_refused("page", "", 2);
	is_refused("page", "shop.example", 2); /* nor is anybody named page yet */
	is_refused("page", "https://a,https://b", 2);
	is_refused("page", "https://shop.example:443", 2);
	is_refused("page", "http://shop.example:80", 2);
	is_refused("page", "https://a http://b:80", 2);
	is_refused("page", "https://Shop.example", 2);
	is_refused("page", "https://shop.example/", 2);
	is_refused("two\nlines", "https://shop.example", 2); /* a name stands in lists */
	/* One that an older release let pass can be listed and revoked, and rotating it says why that is no use. */
	struct command done = key((const char *const[]){"create", "--principal", "older", "--scopes", "read", "--origins",
	                                                "https://shop.example:8443", NULL});
	assert_int_equal(done.exit_code, 0);
	command_done(&done);
	pg_server_ask(service.database_url,
	              "UPDATE lastunit.api_key SET origins = '{https://shop.example:443}'"
	              " WHERE origins = '{https://shop.example:8443}'");
	done = key((const char *const[]){"rotate", "--principal", "older", NULL});
	assert_int_equal(done.exit_code, 1);
	assert_non_null(strstr(done.err, "(https://shop.example:443) would be refused today"));
	command_done(&done);
}

/* The URL at hand is serve's as a rule, and its user only reads what keys are. */
static void the_services_own_user_is_told_whose_url_it_takes(void **state)
{
	pg_server_ask(service.database_url, "CREATE ROLE clerk LOGIN; GRANT lastunit_service TO clerk");
	char url[600];
	snprintf(url, sizeof url, "%s?user=clerk", service.database_url);
	struct command done = key((const char *const[]){"create", "--principal", "site", "--database-url", url, NULL});
	assert_int_equal(done.exit_code, 2);
	assert_string_equal(done.err,
	                    "lastunit key: permission denied for table principal: use the owner's --database-url\n");
	command_done(&done);

	/* Whatever he is not let do: no outage (3), and no promise that is broken (1). */
	char path[] = "/tmp/key-test-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0 && write(fd, "sku,on_hand\nCLERK,1\n", 20) == 20);
	close(fd);
	pg_server_ask(service.database_url,
	              "CREATE ROLE stranger LOGIN; GRANT USAGE ON SCHEMA lastunit TO stranger;"
	              "GRANT SELECT ON lastunit.migration TO stranger");
	snprintf(url, sizeof url, "%s?user=stranger", service.database_url);
	says((const char *const[]){"list", "--database-url", url, NULL}, 2, ": use the owner's --database-url\n");
	const char *const words[][5] = {{"audit", "--database-url", url}, {"import", path, "--database-url", url}};
	for (int i = 0; i < 2; i++) {
		done = command_run(words[i], NULL);
		if (done.exit_code != 2 || !strstr(done.err, ": use the owner's --database-url\n"))
			fail_msg("exit code %d: %s%s", done.exit_code, done.out, done.err);
		command_done(&done);
	}
	unlink(path);
}

static void what_is_no_live_key_is_told_and_not_repeated(void **state)
{
	char secret[KEY_SECRET_BYTES + 1], typo[KEY_SECRET_BYTES + 10];
	create(secret);
	snprintf(typo, sizeof typo, "%sx", secret);
	revoke_key(typo, secret, 1, "the rest is not that key's");
	snprintf(typo, sizeof typo, "Bearer %s", secret);
	revoke_key(typo, secret, 1, "they begin with lu_");
	snprintf(typo, sizeof typo, "%.6s", secret);
	revoke_key(typo, secret, 1, "too short");
	revoke_key("lu_nobodys0", secret, 1, "no key is listed as lu_nobodys0");
	assert_int_equal(status_of(secret), 200);
	revoke_key(secret, secret, 0, "revoked");
	revoke_key(secret, secret, 1, "was revoked before, at 2");
	struct command many = key((const char *const[]){"revoke", "lu_nobodys0", "x", secret, NULL});
	assert_int_equal(many.exit_code, 2);
	assert_null(strstr(many.err, secret));
	command_done(&many);
}

static int start(void **state)
{
	service_start(&service, NULL);
	snprintf(database, sizeof database, "LASTUNIT_DATABASE_URL=%s", service.database_url);
	return 0;
}

static int stop(void **state)
{
	return service_stop(&service);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_is_revoked_by_what_list_shows_or_by_the_whole_of_it),
		cmocka_unit_test(of_two_that_are_listed_alike_the_operator_is_asked_which),
		cmocka_unit_test(list_tells_the_origins_of_a_publishable_key),
		cmocka_unit_test(list_fits_a_terminal_of_120_columns),
		cmocka_unit_test(rotation_follows_the_newest_key_and_ends_all_before_it),
		cmocka_unit_test(what_a_command_waits_for_needs_no_session),
		cmocka_unit_test(old_keys_that_could_not_be_revoked_are_named),
		cmocka_unit_test(show_tells_each_setting_under_its_name),
		cmocka_unit_test(a_word_too_few_or_too_wrong_is_told_by_what_to_write),
		cmocka_unit_test(what_a_verb_has_no_use_for_is_refused),
		cmocka_unit_test(origins_that_no_browser_sends_make_no_key),
		cmocka_unit_test(the_services_own_user_is_told_whose_url_it_takes),
		cmocka_unit_test(what_is_no_live_key_is_told_and_not_repeated),
	};
	return cmocka_run_group_tests(tests, start, stop);
}
