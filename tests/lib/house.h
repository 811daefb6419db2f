/* What every inventory test needs: PostgreSQL and Redis of its own, each behind a proxy, and the whole inventory
 * running on them inside the test, with a short lease so that outages are short too.
 *
 * Operations are submitted and waited for; a reader runs on an event loop of a thread of its own.
 */
#ifndef TESTS_LIB_HOUSE_H
#define TESTS_LIB_HOUSE_H

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/metrics.h"
#include "base/text.h"
#include "inventory/read.h"
#include "lib/pg_server.h"
#include "lib/proxy.h"
#include "lib/redis_server.h"

/* One running inventory and what it stands on. */
struct house {
	struct pg_server *pg;
	struct redis_server *redis;
	struct proxy pg_proxy, redis_proxy;
	char directory[64];
	char url[200]; /* straight to this house's database, as superuser */
	struct config config;
	char proxied_url[300], redis_url[200];
	struct keyring *keyring;
	struct inventory *inventory;
	int64_t principal_id;
};

/* The servers of this test program. */
extern struct pg_server house_pg;
extern struct redis_server house_redis;
int house_servers_start(void **state);
int house_servers_stop(void **state);

/* A new database (migrated) and a started inventory on it; waits for an open epoch unless `config` says no Redis. A
 * second house on the first one's database and Redis: another instance. */
void house_open(struct house *house, const struct house *beside);
/* The same, without waiting for an epoch that it can use. */
void house_open_without_epoch(struct house *house, const struct house *beside);
void house_close(struct house *house);
/* house_open reads these before it starts; tests change them first. */
extern struct config house_config;

/* --- operations --------------------------------------------------------------------------------------------------- */
struct attempt_at {
	struct operation operation;
	struct arena arena;
	struct line lines[64];
	sem_t answers; /* posted by each answer: the one thing a waiter may free right after */
};
/* "A2 B1": codes and quantities. key NULL: a random one. Submitted, not waited for. */
struct attempt_at *begin(struct house *house, enum operation_kind kind, const char *lines, const char *key);
/* Waits for the answer (30 s). */
struct verdict *await(struct attempt_at *attempt);
bool is_answered(struct attempt_at *attempt);
int answer_count(struct attempt_at *attempt);
void forget(struct attempt_at *attempt);
/* begin, await, forget: its error. */
enum lu_error run(struct house *house, enum operation_kind kind, const char *lines, const char *key);
/* A hold; its id. */
struct uuid hold_for(struct house *house, const char *lines, int64_t ttl_s);
struct attempt_at *begin_by_id(struct house *house, enum operation_kind kind, struct uuid target);
enum lu_error run_by_id(struct house *house, enum operation_kind kind, struct uuid target);

/* --- reads -------------------------------------------------------------------------------------------------------- */
struct looking;
struct looking *look_begin(struct house *house, const char *sku);
struct seen_item {
	enum lu_error error;
	bool known;
	struct figures figures;
	enum lookup_source source;
};
bool look_is_done(struct looking *looking);
struct seen_item look_await(struct looking *looking);
struct seen_item look(struct house *house, const char *sku);
/* The same with one reader that looks every 20 ms until it is served from Redis (30 s). */
struct seen_item look_until_hit(struct house *house, const char *sku);
/* Looks until the cell is filled and served from Redis. */
void warm(struct house *house, const char *sku);

/* --- arranging, past the code under test -------------------------------------------------------------------------- */
void make_sku(struct house *house, const char *code, int64_t on_hand);
const char *sql(struct house *house, const char *text);
int64_t sql_int(struct house *house, const char *text);
char *cell(struct house *house, const char *sku); /* its raw bytes in the open namespace; caller frees */
void set_cell(struct house *house, const char *sku, const char *raw);
/* A session of a stranger, for locks held across steps. */
struct pg *stranger(struct house *house);
void tell(struct pg *stranger, const char *command);
/* Waits (30 s) until the SQL answers the text. */
void wait_sql(struct house *house, const char *text, const char *wanted);
void wait_for_open_epoch(struct house *house);
/* The invariants of the audit, in SQL: fails the test with what is wrong. */
void assert_audit(struct house *house);

#define HOUSE_MAIN(tests)                                                              \
	int main(void)                                                                     \
	{                                                                                  \
		return cmocka_run_group_tests(tests, house_servers_start, house_servers_stop); \
	}

#endif
