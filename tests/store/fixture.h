/* What every store test needs: a server, a database with the schema, and sessions on it as serve would open them. */
#ifndef TESTS_STORE_FIXTURE_H
#define TESTS_STORE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/text.h"
#include "lib/pg_server.h"
#include "store/pg.h"

#define SOON deadline_in_ms(30000)

static struct pg_server server;
static char url[200]; /* a database of this test's own, migrated, as the superuser */
static struct arena arena;

static inline int fixture_start(void **state)
{
	(void)state;
	pg_server_start(&server, "autovacuum = off\n");
	return 0;
}

static inline int fixture_end(void **state)
{
	(void)state;
	pg_server_done(&server);
	return 0;
}

/* Each test has a new database, so none depends on what another left behind. */
static inline int fixture_database(void **state)
{
	static int number;
	char name[32];
	(void)state;
	snprintf(name, sizeof name, "test_%d", ++number);
	pg_server_database(&server, name, url);
	arena_init(&arena, 65536);
	return 0;
}

static inline int fixture_forget(void **state)
{
	(void)state;
	arena_done(&arena);
	return 0;
}

/* A session as serve's, connected. */
static inline struct pg *session(void)
{
	struct pg *pg = pg_new(
		&(struct pg_options){.url = url, .role = "lastunit_service", .application_name = "store test"});
	enum lu_error error = pg_connect(pg, SOON);
	if (error)
		print_error("%s\n", pg_error(pg)->message);
	assert_int_equal(error, LU_OK);
	return pg;
}

/* A session of the schema's owner. */
static inline struct pg *owner_session(void)
{
	struct pg *pg = pg_new(&(struct pg_options){.url = url, .application_name = "store test"});
	assert_int_equal(pg_connect(pg, SOON), LU_OK);
	return pg;
}

static inline void ok(const struct pg *pg, enum lu_error error)
{
	if (error)
		print_error("%s %s (%s)\n", pg_error(pg)->sqlstate, pg_error(pg)->message, pg_error(pg)->constraint);
	assert_int_equal(error, LU_OK);
}

/* Sends what was added; the takes follow. */
static inline void sent(struct pg *pg)
{
	ok(pg, pg_pipe_send(pg, SOON));
}

static inline void ended(struct pg *pg)
{
	ok(pg, pg_pipe_end(pg, SOON));
}

static inline int64_t ask_int(const char *sql)
{
	return strtoll(pg_server_ask(url, sql), NULL, 10);
}

static inline const char *ask(const char *sql)
{
	return pg_server_ask(url, sql);
}

#define assert_text(given, string)                                                           \
	do {                                                                                     \
		struct text text_seen = (given);                                                     \
		assert_int_equal(text_seen.size, strlen(string));                                    \
		assert_memory_equal(text_seen.data ? text_seen.data : "", (string), text_seen.size); \
	} while (0)

#define STORE_TEST(f) cmocka_unit_test_setup_teardown(f, fixture_database, fixture_forget)
#define STORE_MAIN(tests)                                                 \
	int main(void)                                                        \
	{                                                                     \
		return cmocka_run_group_tests(tests, fixture_start, fixture_end); \
	}

#endif
