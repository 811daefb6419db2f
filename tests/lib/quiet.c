/* A quiet shop (quiet.h). */
#include "lib/quiet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/text.h"
#include "store/epoch.h"

#define PATIENCE_MS 30000

struct pg_server quiet_pg;
struct redis_server quiet_redis;

void quiet_start(const char *postgres_options, const char *redis_options)
{
	pg_server_start(&quiet_pg, postgres_options);
	redis_server_start(&quiet_redis, redis_options);
}

void quiet_end(void)
{
	redis_server_stop(&quiet_redis);
	pg_server_done(&quiet_pg);
}

static void open_epoch(struct quiet *shop)
{
	struct redis_address address;
	const char *why;
	char identity[160];
	bool moved;
	assert_true(redis_address_parse(quiet_redis.url, &address, &why));
	struct redis *redis = redis_new(&address);
	struct pg *pg = pg_new(&(struct pg_options){.url = shop->url, .application_name = "quiet"});
	int64_t deadline_ns = deadline_in_ms(PATIENCE_MS);
	assert_int_equal(redis_connect(redis, deadline_ns), LU_OK);
	assert_int_equal(cell_redis_identity(redis, deadline_ns, identity), LU_OK);
	assert_int_equal(cell_guard_set(redis, text_of(shop->namespace), identity, deadline_ns), LU_OK);
	assert_int_equal(pg_connect(pg, deadline_ns), LU_OK);
	assert_int_equal(epoch_open(pg, TEXT(""), text_of(shop->namespace), text_of(identity), 1000, deadline_ns, &moved),
	                 LU_OK);
	assert_true(moved);
	pg_free(pg);
	redis_free(redis);
}

void quiet_open(struct quiet *shop)
{
	static int turn;
	char name[40];
	snprintf(name, sizeof name, "quiet%d", turn);
	*shop = (struct quiet){0};
	snprintf(shop->namespace, sizeof shop->namespace, "lu:quiet%017d", turn++);
	pg_server_database(&quiet_pg, name, shop->url);
	open_epoch(shop);
	snprintf(shop->values[0], sizeof shop->values[0], "LASTUNIT_DATABASE_URL=%s", shop->url);
	snprintf(shop->values[1], sizeof shop->values[1], "LASTUNIT_REDIS_URL=%s", quiet_redis.url);
	snprintf(shop->values[2], sizeof shop->values[2], "LASTUNIT_REDIS_TIMEOUT_MS=5000");
	for (int i = 0; i < 3; i++)
		shop->variables[i] = shop->values[i];
}

const char *quiet_sql(const struct quiet *shop, const char *sql)
{
	return pg_server_ask(shop->url, sql);
}

void quiet_sku(const struct quiet *shop, const char *code, int on_hand)
{
	char sql[600];
	snprintf(
		sql, sizeof sql,
		"WITH s AS (INSERT INTO lastunit.sku (code, on_hand, writer) VALUES ('%s', %d, gen_random_uuid())"
		" RETURNING id, on_hand) INSERT INTO lastunit.ledger (sku_id, version, kind, on_hand_delta, reserved_delta,"
		" on_hand_after, reserved_after, channel) SELECT id, 1, 1, on_hand, 0, on_hand, 0, 7 FROM s",
		code, on_hand);
	quiet_sql(shop, sql);
}

void quiet_cell(const struct quiet *shop, const char *sku, const char *raw)
{
	char line[400];
	if (raw)
		snprintf(line, sizeof line, "SET %s:%s %s", shop->namespace, sku, raw);
	else
		snprintf(line, sizeof line, "DEL %s:%s", shop->namespace, sku);
	free(redis_server_command(&quiet_redis, line));
}

struct command quiet_run(const struct quiet *shop, const char *const *arguments)
{
	return command_run(arguments, shop->variables);
}

json_t *quiet_json(const struct quiet *shop, const char *const *arguments, int *ret_code)
{
	struct command command = quiet_run(shop, arguments);
	json_t *json = json_loads(command.out, JSON_REJECT_DUPLICATES, NULL);
	if (!json)
		fail_msg("exit code %d and no JSON: %s%s", command.exit_code, command.out, command.err);
	*ret_code = command.exit_code;
	command_done(&command);
	return json;
}

json_t *quiet_at(json_t *json, const char *path)
{
	char word[64];
	while (json && *path) {
		size_t size = strcspn(path, ".");
		snprintf(word, sizeof word, "%.*s", (int)size, path);
		json = json_is_array(json) ? json_array_get(json, strtoul(word, NULL, 10)) : json_object_get(json, word);
		path += size + (path[size] == '.');
	}
	return json;
}

const char *quiet_text(json_t *json, const char *path)
{
	const char *text = json_string_value(quiet_at(json, path));
	return text ? text : "";
}

int64_t quiet_number(json_t *json, const char *path)
{
	json_t *number = quiet_at(json, path);
	return json_is_integer(number) ? json_integer_value(number) : INT64_MIN;
}

const char *quiet_finding(json_t *json, const char *name)
{
	static char promises[100];
	size_t i, n;
	json_t *finding, *promise;
	json_array_foreach(json_object_get(json, "findings"), i, finding)
	{
		if (strcmp(quiet_text(finding, "name"), name) != 0)
			continue;
		*promises = '\0';
		json_array_foreach(json_object_get(finding, "promises"), n, promise)
		{
			if (n)
				strcat(promises, " ");
			strcat(promises, json_string_value(promise));
		}
		return promises;
	}
	return NULL;
}
