/* A quiet shop: a database and a Redis with an open epoch, as a service leaves them, and no service. Nobody repairs,
 * expires or relays anything, so every state of a row and of a cell can be arranged and stays.
 *
 *	quiet_start(NULL, NULL);
 *	struct quiet shop;
 *	quiet_open(&shop);
 *	quiet_sql(&shop, "…");
 *	json_t *status = quiet_json(&shop, (const char *[]){"status", "--json", NULL}, &code);
 *	quiet_end();
 *
 * One PostgreSQL and one Redis per test program, a database and a namespace per shop. cmocka asserts inside: main thread.
 */
#ifndef TESTS_LIB_QUIET_H
#define TESTS_LIB_QUIET_H

#include <jansson.h>

#include "cache/cell.h"
#include "lib/command.h"
#include "lib/pg_server.h"
#include "lib/redis_server.h"

struct quiet {
	char url[200];
	char namespace[CELL_NAMESPACE_BYTES + 1];
	char values[3][300];
	const char *variables[8]; /* for command_run(): database, Redis; more may follow */
};

extern struct pg_server quiet_pg;
extern struct redis_server quiet_redis;

void quiet_start(const char *postgres_options, const char *redis_options);
void quiet_end(void);
/* A new database and namespace, the epoch open. */
void quiet_open(struct quiet *shop);
/* As pg_server_ask(). */
const char *quiet_sql(const struct quiet *shop, const char *sql);
/* A SKU as an import leaves it: one ledger entry. */
void quiet_sku(const struct quiet *shop, const char *code, int on_hand);
/* The raw value of a SKU's cell; NULL: none. */
void quiet_cell(const struct quiet *shop, const char *sku, const char *raw);
struct command quiet_run(const struct quiet *shop, const char *const *arguments);
/* Runs it and reads its standard output as JSON; the caller json_decref()s it. */
json_t *quiet_json(const struct quiet *shop, const char *const *arguments, int *ret_code);
/* A member by its path, "cell.verdict", "holds.0.quantity"; NULL: there is none. Borrowed. */
json_t *quiet_at(json_t *json, const char *path);
const char *quiet_text(json_t *json, const char *path); /* "": no text there */
int64_t quiet_number(json_t *json, const char *path);   /* INT64_MIN: no number there */
/* The promises that the finding of this name weakens, "P4", "P1 P4"; "" for a remark; NULL: it was not found. */
const char *quiet_finding(json_t *json, const char *name);

#endif
