/* Principals and keys: made, found by their hash, revoked; and every change is noticed. */
#include "store/key.h"
#include "store/epoch.h"
#include "store/fixture.h"
#include "store/principal.h"

#include <openssl/sha.h>

static const struct text anybody;

static int64_t keys_version(void)
{
	return ask_int("SELECT version FROM lastunit.keys_version");
}

static struct keyring_entry *load(struct pg *pg, size_t *ret_count)
{
	struct keyring_entry *entries;
	ok(pg, key_load(pg, &arena, SOON, &entries, ret_count));
	return entries;
}

static void a_new_key_is_loaded_by_its_hash(void **state)
{
	struct pg *owner = owner_session(), *service = session();
	char secret[KEY_SECRET_BYTES + 1], second[KEY_SECRET_BYTES + 1];
	int64_t before = keys_version();
	ok(owner, key_create(owner, TEXT("site"), CHANNEL_WEB, SCOPE_READ | SCOPE_SELL, (struct text){0}, SOON, secret));
	ok(owner, key_create(owner, TEXT("site"), CHANNEL_WEB, SCOPE_ADMIN, (struct text){0}, SOON, second));
	assert_true(keys_version() > before);
	assert_int_equal(strlen(secret), KEY_SECRET_BYTES);
	assert_memory_equal(secret, "lu_", 3);
	assert_int_equal(strspn(secret + 3, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"), 32);
	assert_string_not_equal(secret, second);
	size_t count;
	struct keyring_entry *entries = load(service, &count); /* as serve */
	assert_int_equal(count, 2);
	uint8_t sha256[32];
	SHA256((const unsigned char *)secret, KEY_SECRET_BYTES, sha256);
	size_t i = memcmp(entries[0].sha256, sha256, 32) == 0 ? 0 : 1;
	assert_memory_equal(entries[i].sha256, sha256, 32);
	assert_int_equal(entries[i].principal.channel, CHANNEL_WEB);
	assert_int_equal(entries[i].principal.scopes, SCOPE_READ | SCOPE_SELL);
	assert_int_equal(entries[1 - i].principal.scopes, SCOPE_ADMIN);
	assert_int_equal(entries[0].principal.id, entries[1].principal.id);
	assert_true(entries[0].principal.id > 0);
	/* Nothing that could be used is in the database. */
	assert_int_equal(ask_int("SELECT count(*) FROM lastunit.api_key WHERE length(prefix) > 11"), 0);
	pg_free(owner);
	pg_free(service);
}

/* Of the wrong size, or for more places than there is room for: the others open all the same. */
static void a_damaged_key_opens_nothing(void **state)
{
	struct pg *owner = owner_session(), *service = session();
	char secret[KEY_SECRET_BYTES + 1];
	for (int i = 0; i < 3; i++)
		ok(owner, key_create(owner, TEXT("site"), CHANNEL_WEB, SCOPE_READ, (struct text){0}, SOON, secret));
	ask("ALTER TABLE lastunit.api_key DROP CONSTRAINT api_key_is_a_sha256;"
	    "UPDATE lastunit.api_key SET sha256 = 'short' WHERE sha256 = (SELECT sha256 FROM lastunit.api_key LIMIT 1)");
	size_t count;
	load(service, &count);
	assert_int_equal(count, 2);
	pg_free(owner);
	pg_free(service);
}

static void a_principal_keeps_its_channel(void **state)
{
	struct pg *pg = owner_session();
	char secret[KEY_SECRET_BYTES + 1] = "untouched";
	ok(pg, key_store(pg, TEXT("bot"), CHANNEL_TELEGRAM, SCOPE_READ, (struct text){0},
	                 "lu_given_secret_00000000000000000000", SOON));
	assert_int_equal(key_create(pg, TEXT("bot"), CHANNEL_WEB, SCOPE_READ, (struct text){0}, SOON, secret),
	                 LU_INVALID_FIELD);
	assert_string_equal(secret, "untouched");
	assert_int_equal(key_create(pg, TEXT(""), CHANNEL_WEB, SCOPE_READ, (struct text){0}, SOON, secret),
	                 LU_INVALID_FIELD);
	assert_int_equal(key_create(pg, TEXT("a\x01"), CHANNEL_WEB, SCOPE_READ, (struct text){0}, SOON, secret),
	                 LU_INVALID_FIELD);
	assert_int_equal(PQtransactionStatus(pg_conn(pg)), PQTRANS_IDLE);
	assert_int_equal(ask_int("SELECT count(*) FROM lastunit.api_key"), 1);
	assert_int_equal(ask_int("SELECT count(*) FROM lastunit.principal"), 1);
	pg_free(pg);
}

static void a_given_secret_is_stored_once(void **state)
{
	struct pg *pg = owner_session();
	for (int i = 0; i < 2; i++)
		ok(pg, key_store(pg, TEXT("pos"), CHANNEL_POS, SCOPE_READ | SCOPE_SELL, (struct text){0},
		                 "lu_given_secret_00000000000000000000", SOON));
	size_t count;
	load(pg, &count);
	assert_int_equal(count, 1);
	pg_free(pg);
}

static void a_revoked_key_is_not_loaded_and_stays_revoked(void **state)
{
	struct pg *pg = owner_session();
	char keep[KEY_SECRET_BYTES + 1], revoke[KEY_SECRET_BYTES + 1];
	ok(pg, key_create(pg, TEXT("site"), CHANNEL_WEB, SCOPE_READ, (struct text){0}, SOON, keep));
	ok(pg, key_create(pg, TEXT("bot"), CHANNEL_TELEGRAM, SCOPE_READ, (struct text){0}, SOON, revoke));
	struct key_row *rows;
	size_t count;
	ok(pg, key_list(pg, &arena, TEXT("bot"), SOON, &rows, &count));
	assert_int_equal(count, 1);
	assert_text(rows[0].principal, "bot");
	assert_int_equal(rows[0].channel, CHANNEL_TELEGRAM);
	assert_int_equal(rows[0].scopes, SCOPE_READ);
	assert_memory_equal(rows[0].prefix.data, revoke, rows[0].prefix.size);
	assert_true(rows[0].created_us > 0);
	assert_int_equal(rows[0].revoked_us, 0);
	int64_t before = keys_version();
	/* Part of a prefix means nobody: "lu_" would be everybody. */
	size_t revoked;
	ok(pg, key_revoke(pg, TEXT("lu_"), anybody, SOON, &revoked));
	assert_int_equal(revoked, 0);
	ok(pg, key_revoke(pg, rows[0].prefix, anybody, SOON, &revoked));
	assert_int_equal(revoked, 1);
	assert_true(keys_version() > before);
	ok(pg, key_revoke(pg, rows[0].prefix, anybody, SOON, &revoked));
	assert_int_equal(revoked, 0);
	load(pg, &count);
	assert_int_equal(count, 1);
	ok(pg, key_list(pg, &arena, (struct text){0}, SOON, &rows, &count));
	assert_int_equal(count, 2);
	assert_true(rows[0].revoked_us > 0); /* bot stands before site */
	assert_int_equal(rows[1].revoked_us, 0);
	ok(pg, key_store(pg, TEXT("bot"), CHANNEL_TELEGRAM, SCOPE_READ, (struct text){0}, revoke, SOON));
	load(pg, &count);
	assert_int_equal(count, 1);
	pg_free(pg);
}

/* Whoever finds a key in a log has the whole of it. It is looked for by its hash, and its first characters are not enough
 * to be another's. */
static void a_key_is_revoked_by_the_whole_of_it(void **state)
{
	struct pg *pg = owner_session();
	char keep[KEY_SECRET_BYTES + 1], revoke[KEY_SECRET_BYTES + 1], other[KEY_SECRET_BYTES + 1];
	ok(pg, key_create(pg, TEXT("site"), CHANNEL_WEB, SCOPE_READ, (struct text){0}, SOON, keep));
	ok(pg, key_create(pg, TEXT("site"), CHANNEL_WEB, SCOPE_READ, (struct text){0}, SOON, revoke));
	strcpy(other, revoke);
	other[KEY_SECRET_BYTES - 1] = other[KEY_SECRET_BYTES - 1] == 'a' ? 'b' : 'a';
	size_t revoked;
	ok(pg, key_revoke(pg, text_of(other), anybody, SOON, &revoked));
	assert_int_equal(revoked, 0);
	ok(pg, key_revoke(pg, text_of(revoke), anybody, SOON, &revoked));
	assert_int_equal(revoked, 1);
	size_t count;
	struct keyring_entry *entries = load(pg, &count);
	assert_int_equal(count, 1);
	uint8_t sha256[32];
	SHA256((const unsigned char *)keep, KEY_SECRET_BYTES, sha256);
	assert_memory_equal(entries[0].sha256, sha256, 32);
	pg_free(pg);
}

/* Four characters of a publishable key are its own in what is listed: two keys may be listed alike, and whoever means one
 * of them must not end the other's pages. */
static void of_keys_that_are_listed_alike_none_is_revoked(void **state)
{
	struct pg *pg = owner_session();
	static const char *const secrets[] = {"lu_pub_same000000000000000000000001", "lu_pub_same000000000000000000000002",
	                                      "lu_pub_same000000000000000000000003"};
	size_t count;
	for (int i = 0; i < 3; i++)
		ok(pg, key_store(pg, i ? TEXT("page") : TEXT("blog"), CHANNEL_WEB, SCOPE_READ, TEXT("https://a"), secrets[i],
		                 SOON));
	ok(pg, key_revoke(pg, TEXT("lu_pub_same"), anybody, SOON, &count));
	assert_int_equal(count, 3);
	load(pg, &count);
	assert_int_equal(count, 3);
	ok(pg, key_revoke(pg, TEXT("lu_pub_same"), TEXT("page"), SOON, &count));
	assert_int_equal(count, 2);
	ok(pg, key_revoke(pg, TEXT("lu_pub_same"), TEXT("nobody"), SOON, &count));
	assert_int_equal(count, 0);
	ok(pg, key_revoke(pg, TEXT("lu_pub_same"), TEXT("blog"), SOON, &count));
	assert_int_equal(count, 1);
	load(pg, &count);
	assert_int_equal(count, 2);
	ok(pg, key_revoke(pg, text_of(secrets[1]), anybody, SOON, &count));
	assert_int_equal(count, 1);
	ok(pg, key_revoke(pg, TEXT("lu_pub_same"), anybody, SOON, &count));
	assert_int_equal(count, 1);
	load(pg, &count);
	assert_int_equal(count, 0);
	pg_free(pg);
}

/* Whoever rotates has a list, and means what stands in it. */
static void a_key_that_was_listed_is_revoked_alone(void **state)
{
	struct pg *pg = owner_session();
	ok(pg, key_store(pg, TEXT("blog"), CHANNEL_WEB, SCOPE_READ, TEXT("https://a"),
	                 "lu_pub_same000000000000000000000001", SOON));
	ok(pg, key_store(pg, TEXT("page"), CHANNEL_WEB, SCOPE_READ, TEXT("https://a"),
	                 "lu_pub_same000000000000000000000002", SOON));
	struct key_row *rows;
	size_t count;
	ok(pg, key_list(pg, &arena, TEXT("page"), SOON, &rows, &count));
	assert_int_equal(count, 1);
	ok(pg, key_revoke_listed(pg, rows, SOON));
	ok(pg, key_list(pg, &arena, (struct text){0}, SOON, &rows, &count));
	assert_int_equal(count, 2);
	assert_int_equal(rows[0].revoked_us, 0);
	assert_true(rows[1].revoked_us > 0);
	pg_free(pg);
}

static void every_change_moves_the_version_and_none_is_missed(void **state)
{
	static const char *const changes[] = {
		"INSERT INTO lastunit.principal (name, channel) VALUES ('x', 1)",
		"UPDATE lastunit.principal SET name = 'y'",
		"INSERT INTO lastunit.api_key (sha256, principal_id, prefix, scopes) SELECT sha256('a'), id, 'p', 1 FROM lastunit.principal",
		"UPDATE lastunit.api_key SET scopes = 3",
		"DELETE FROM lastunit.api_key",
		"SET session_replication_role = replica; DELETE FROM lastunit.principal",
		"TRUNCATE lastunit.principal, lastunit.api_key",
	};
	struct pg *pg = session();
	int64_t before = 0;
	for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
		struct epoch_row row;
		ask(changes[i]);
		ok(pg, epoch_lease_read(pg, &arena, SOON, &row));
		assert_true(row.keys_version > before);
		before = row.keys_version;
	}
	/* The service itself may not make keys. */
	assert_int_equal(pg_command(pg, "INSERT INTO principal (name, channel) VALUES ('z', 1)", SOON),
	                 LU_DATABASE_UNAVAILABLE);
	assert_string_equal(pg_error(pg)->sqlstate, "42501");
	assert_int_equal(pg_command(pg, "UPDATE api_key SET scopes = 31", SOON), LU_DATABASE_UNAVAILABLE);
	assert_string_equal(pg_error(pg)->sqlstate, "42501");
	pg_free(pg);
}

static struct principal_settings settings_of(struct pg *pg, struct text name)
{
	struct principal_row *rows;
	size_t count;
	ok(pg, principal_list(pg, &arena, name, SOON, &rows, &count));
	assert_int_equal(count, 1);
	return rows[0].settings;
}

static void assert_settings(const struct principal_settings *seen, const struct principal_settings *wanted)
{
	assert_int_equal(seen->buffer, wanted->buffer);
	assert_int_equal(seen->may_use_safety_stock, wanted->may_use_safety_stock);
	assert_int_equal(seen->holds_max, wanted->holds_max);
	assert_int_equal(seen->held_units_max, wanted->held_units_max);
	assert_int_equal(seen->caller_holds_max, wanted->caller_holds_max);
	assert_int_equal(seen->caller_held_units_max, wanted->caller_held_units_max);
}

static void change(struct pg *pg, struct text name, struct principal_change change, bool expected)
{
	bool known;
	ok(pg, principal_change(pg, name, &change, SOON, &known));
	assert_int_equal(known, expected);
}

static void settings_travel_with_the_keys_and_are_changed_one_by_one(void **state)
{
	struct pg *owner = owner_session(), *service = session();
	char secret[KEY_SECRET_BYTES + 1];
	ok(owner, key_create(owner, TEXT("bazaar"), CHANNEL_MARKETPLACE, SCOPE_SELL, (struct text){0}, SOON, secret));
	ok(owner, key_create(owner, TEXT("site"), CHANNEL_WEB, SCOPE_SELL, (struct text){0}, SOON, secret));
	static const struct principal_settings none, both = {2, true, 500, 9, 3, 7};
	struct principal_settings seen = settings_of(owner, TEXT("bazaar"));
	assert_settings(&seen, &none); /* a new one has no rule and no cap */
	int64_t before = keys_version();
	struct principal_change given = PRINCIPAL_UNCHANGED;
	given.buffer = 2;
	given.holds_max = 500;
	given.caller_held_units_max = 7;
	change(owner, TEXT("bazaar"), given, true);
	assert_true(keys_version() > before);
	given = PRINCIPAL_UNCHANGED;
	given.may_use_safety_stock = 1;
	given.held_units_max = 9;
	given.caller_holds_max = 3;
	change(owner, TEXT("bazaar"), given, true);
	size_t count;
	struct keyring_entry *entries = load(service, &count); /* as serve */
	assert_int_equal(count, 2);
	for (size_t i = 0; i < count; i++) {
		bool bazaar = entries[i].principal.channel == CHANNEL_MARKETPLACE;
		assert_settings(&entries[i].principal.settings, bazaar ? &both : &none);
	}
	change(owner, TEXT("bazaar"), (struct principal_change){0, 0, 0, 0, 0, 0}, true);
	seen = settings_of(owner, TEXT("bazaar"));
	assert_settings(&seen, &none);
	change(owner, TEXT("nobody"), given, false);
	/* The service obeys settings, it does not make them. */
	bool known;
	assert_int_equal(principal_change(service, TEXT("bazaar"), &given, SOON, &known), LU_DATABASE_UNAVAILABLE);
	assert_string_equal(pg_error(service)->sqlstate, "42501");
	pg_free(owner);
	pg_free(service);
}

static const struct CMUnitTest tests[] = {
	STORE_TEST(a_new_key_is_loaded_by_its_hash),
	STORE_TEST(a_damaged_key_opens_nothing),
	STORE_TEST(a_principal_keeps_its_channel),
	STORE_TEST(a_given_secret_is_stored_once),
	STORE_TEST(a_key_is_revoked_by_the_whole_of_it),
	STORE_TEST(a_revoked_key_is_not_loaded_and_stays_revoked),
	STORE_TEST(of_keys_that_are_listed_alike_none_is_revoked),
	STORE_TEST(a_key_that_was_listed_is_revoked_alone),
	STORE_TEST(every_change_moves_the_version_and_none_is_missed),
	STORE_TEST(settings_travel_with_the_keys_and_are_changed_one_by_one),
};

STORE_MAIN(tests)
